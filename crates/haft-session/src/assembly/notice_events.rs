//! Notices of a session while it runs and when it ends.

use haft::Cause;
use haft::dispatch::TaskTable;
use haft::event::{Event, EventKind, EventSink};
use haft::ports::{TaskState, Tasks as _};
use haft::view::CallProgress;

use crate::notice::{NoticeSink, SessionNotice};
use crate::text::one_line;

/// Reports tasks that were still running in the background when the session ended, with the location of
/// their output.
pub fn report_tasks(tasks: &TaskTable, notices: &NoticeSink) {
    let by_session = |task: &TaskState| {
        let cause = tasks.result(task.id).and_then(|result| result.error()?.cause());
        task.running || cause == Some(Cause::Shutdown)
    };
    for task in tasks.list().into_iter().filter(by_session) {
        let kept = tasks.log(task.id).and_then(|log| log.keep().ok()?);
        let kept = kept.map(|file| format!("; what it printed is in {}", file.display()));
        let about = one_line(&task.about);
        notices.warn(format!("{} ended with the session: {about}{}", task.id, kept.unwrap_or_default()));
    }
}

/// Reports warnings and progress of the engine.
pub struct NoticeEvents(pub NoticeSink);

impl EventSink for NoticeEvents {
    fn send(&self, event: Event) {
        let tool = event.call.map(|call| format!("{}: ", call.tool)).unwrap_or_default();
        match event.what {
            EventKind::Warning(words) => self.0.warn(format!("{tool}{words}")),
            EventKind::Message(words) => self.0.info(format!("{tool}{words}")),
            EventKind::BlocksThread { since } => {
                self.0.warn(format!("{tool}keeps a thread busy since {} ms", since.as_millis()));
            }
            EventKind::Progress(CallProgress { fraction, message }) => {
                let percent = fraction.map(|fraction| format!("{:.0} % ", fraction * 100.0));
                self.0.send(SessionNotice::Progress(format!(
                    "{tool}{}{}",
                    percent.unwrap_or_default(),
                    message.unwrap_or_default()
                )));
            }
            EventKind::Finished(_) => self.0.send(SessionNotice::ProgressEnded),
            _ => {}
        }
    }
}
