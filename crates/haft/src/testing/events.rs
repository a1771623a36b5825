//! A sink that keeps every event.

use std::sync::{Arc, Mutex};

use haft_scheduler::sync::lock;
use tokio::sync::Notify;

use crate::event::{Event, EventKind, EventSink};

/// An [`EventSink`] that keeps everything, in order.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use haft::testing::{TestCaller, EventLog, scripted_tool};
/// use haft::Effects;
/// use serde_json::json;
///
/// let log = EventLog::new();
/// let (read, _) = scripted_tool("read").effects(|_| Effects::none()).then("text").build();
/// let caller = TestCaller::new().tool(read).engine(|engine| engine.events(log.clone()));
/// caller.turn([("1", "read", json!({}))]).await;
/// assert_eq!(log.lines(), ["1 started", "1 finished"]);
/// # }
/// ```
#[derive(Clone, Default)]
pub struct EventLog(Arc<EventLogState>);

#[derive(Default)]
struct EventLogState {
    events: Mutex<Vec<Event>>,
    came: Notify,
}

impl EventLog {
    /// An empty log.
    pub fn new() -> EventLog {
        EventLog::default()
    }

    /// All events so far.
    pub fn events(&self) -> Vec<Event> {
        lock(&self.0.events).clone()
    }

    /// All events so far, a line each: the call's id and what happened.
    pub fn lines(&self) -> Vec<String> {
        lock(&self.0.events).iter().map(summary_line).collect()
    }

    /// The warnings so far.
    pub fn warnings(&self) -> Vec<String> {
        let warning = |event: &Event| match &event.what {
            EventKind::Warning(words) => Some(words.clone()),
            _ => None,
        };
        lock(&self.0.events).iter().filter_map(warning).collect()
    }

    /// Waits for the first event of which this is true, also if it came before.
    pub async fn wait_for(&self, wanted: impl Fn(&Event) -> bool) -> Event {
        loop {
            let came = self.0.came.notified();
            let mut came = std::pin::pin!(came);
            // Listening begins before looking, or an event in between would be missed.
            came.as_mut().enable();
            if let Some(event) = lock(&self.0.events).iter().find(|event| wanted(event)) {
                return event.clone();
            }
            came.await;
        }
    }
}

impl EventSink for EventLog {
    fn send(&self, event: Event) {
        lock(&self.0.events).push(event);
        self.0.came.notify_waiters();
    }
}

fn summary_line(event: &Event) -> String {
    let what = match &event.what {
        EventKind::Asking => "asking".to_owned(),
        EventKind::Started { .. } => "started".to_owned(),
        EventKind::Progress(progress) => {
            let percent = progress.fraction.map(|fraction| format!(" {:.0} %", fraction * 100.0));
            let words = progress.message.as_ref().map(|words| format!(" {words}"));
            format!("progress{}{}", percent.unwrap_or_default(), words.unwrap_or_default())
        }
        EventKind::Partial(text) => format!("partial {text}"),
        EventKind::Finished(result) => match result.error_kind() {
            None => "finished".to_owned(),
            Some(kind) => format!("finished: {kind:?}"),
        },
        EventKind::BackgroundFinished(_) => "finished in the background".to_owned(),
        EventKind::BlocksThread { .. } => "blocks its thread".to_owned(),
        EventKind::Warning(words) => format!("warning: {words}"),
        EventKind::Message(words) => format!("message: {words}"),
    };
    match &event.call {
        Some(call) => format!("{} {what}", call.id),
        None => what,
    }
}
