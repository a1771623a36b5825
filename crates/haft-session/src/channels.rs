//! The channels between a session and its front ends: events in one direction, prompts and answers in both.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use haft::sync::lock;
use tokio::task::JoinHandle;

use crate::events::EventHub;
use crate::front_end::FrontEnd;
use crate::handle::FrontEndGuard;
use crate::prompts::PromptTable;

/// How long a run that has ended waits for front ends to show its events.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// The channels between a session and its front ends.
#[derive(Clone)]
pub struct SessionChannels {
    pub(crate) events: Arc<EventHub>,
    pub(crate) prompts: Arc<PromptTable>,
    /// The tasks of attached front ends.
    tasks: Arc<Mutex<Vec<JoinHandle<()>>>>,
}

/// The ids of a front end in the channels of its session.
pub(crate) struct AttachedFrontEnd {
    subscription: u64,
    asks: u64,
}

/// A weak reference to the channels of a session.
pub(crate) struct WeakChannels {
    events: Weak<EventHub>,
    prompts: Weak<PromptTable>,
}

impl Default for SessionChannels {
    fn default() -> SessionChannels {
        let events = Arc::<EventHub>::default();
        SessionChannels { prompts: PromptTable::new(events.clone()), events, tasks: Arc::default() }
    }
}

impl SessionChannels {
    /// Attaches a front end until the guard is dropped. The front end has its own queue and its own task.
    pub(crate) fn attach(&self, front_end: Arc<dyn FrontEnd>) -> FrontEndGuard {
        let (mut events, shown) = self.events.subscribe_front_end();
        let subscription = events.id;
        let screen = front_end.clone();
        let task = tokio::spawn(async move {
            while let Some(event) = events.next().await {
                screen.show(&event);
                shown.send_replace(event.seq);
            }
        });
        let mut tasks = lock(&self.tasks);
        tasks.retain(|task| !task.is_finished());
        tasks.push(task);
        let asks = self.prompts.attach(front_end);
        let weak =
            WeakChannels { events: Arc::downgrade(&self.events), prompts: Arc::downgrade(&self.prompts) };
        FrontEndGuard::new(weak, AttachedFrontEnd { subscription, asks })
    }

    /// Waits until all front ends have shown the events so far, with a timeout for slow ones.
    pub(crate) async fn flush(&self) {
        let _ = tokio::time::timeout(FLUSH_TIMEOUT, self.events.flush()).await;
    }

    /// Waits for the tasks of the front ends after the events were closed. A task that exceeds the timeout
    /// is abandoned.
    pub(crate) async fn join(&self, timeout: Duration) {
        let tasks = std::mem::take(&mut *lock(&self.tasks));
        for task in tasks {
            let _ = tokio::time::timeout(timeout, task).await;
        }
    }
}

impl WeakChannels {
    pub(crate) fn detach(&self, attached: &AttachedFrontEnd) {
        if let Some(prompts) = self.prompts.upgrade() {
            prompts.detach(attached.asks);
        }
        if let Some(events) = self.events.upgrade() {
            events.unsubscribe(attached.subscription);
        }
    }
}
