//! The calls under way, of all clients: whom a question about one is asked, and who hears how far it is.
//!
//! The engine knows calls by their ids and nothing of clients. So each call has an id that no other has, and
//! this table leads from it to the client that waits.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use haft::event::{Event, EventKind, EventSink};
use haft::sync::lock;
use haft::view::CallProgress;
use haft_mcp::server::ClientPeer;
use haft_session::assembly::NoticeEvents;

use crate::output;

/// The calls under way. Clones are the same.
#[derive(Clone, Default)]
pub(super) struct ActiveCalls(Arc<CallTable>);

#[derive(Default)]
struct CallTable {
    next: AtomicU64,
    calls: Mutex<BTreeMap<u64, WaitingClient>>,
}

/// Who waits for a call.
struct WaitingClient {
    /// The client, by its number.
    client: u64,
    peer: ClientPeer,
    /// A server works on it.
    by_server: bool,
    /// What was told of its progress last: it has to grow.
    told: f64,
}

impl ActiveCalls {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, WaitingClient>> {
        lock(&self.0.calls)
    }

    /// A number for a client or a call, which no other has.
    pub(super) fn number(&self) -> u64 {
        self.0.next.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// A call begins; it ends with what is returned.
    pub(super) fn begin(&self, client: u64, peer: ClientPeer, by_server: bool) -> ActiveCall {
        let number = self.number();
        self.lock().insert(number, WaitingClient { client, peer, by_server, told: 0.0 });
        ActiveCall { calls: self.clone(), number }
    }

    /// Who waits for the call of this id.
    pub(super) fn peer(&self, id: &str) -> Option<ClientPeer> {
        self.lock().get(&call_number(id)?).map(|waiting| waiting.peer.clone())
    }

    /// Who waits for the youngest call of a client.
    pub(super) fn of_client(&self, client: u64) -> Option<ClientPeer> {
        let calls = self.lock();
        calls.values().rev().find(|waiting| waiting.client == client).map(|waiting| waiting.peer.clone())
    }

    /// Who waits for what servers work on, if it is one client and no more: whose question it is isn't known
    /// otherwise.
    pub(super) fn of_servers(&self) -> Option<ClientPeer> {
        let calls = self.lock();
        let mut waiting = calls.values().rev().filter(|waiting| waiting.by_server);
        let youngest = waiting.next()?;
        waiting.all(|other| other.client == youngest.client).then(|| youngest.peer.clone())
    }

    fn tell(&self, id: &str, progress: &CallProgress) {
        let (peer, value, total) = {
            let mut calls = self.lock();
            let Some(waiting) = call_number(id).and_then(|number| calls.get_mut(&number)) else { return };
            if !waiting.peer.wants_progress() {
                return;
            }
            let (value, total) = match progress.fraction {
                Some(fraction) => (fraction.clamp(0.0, 1.0) * 100.0, Some(100.0)),
                None => (waiting.told + 1.0, None),
            };
            if value <= waiting.told {
                return;
            }
            waiting.told = value;
            (waiting.peer.clone(), value, total)
        };
        peer.progress(value, total, progress.message.as_deref());
    }
}

/// A call that is under way.
pub(super) struct ActiveCall {
    calls: ActiveCalls,
    number: u64,
}

impl ActiveCall {
    /// Its id.
    pub(super) fn id(&self) -> String {
        format!("call-{}", self.number)
    }
}

impl Drop for ActiveCall {
    fn drop(&mut self) {
        self.calls.lock().remove(&self.number);
    }
}

fn call_number(id: &str) -> Option<u64> {
    id.strip_prefix("call-")?.parse().ok()
}

/// Tells clients how far their calls are, and people on standard error what they should know.
pub(super) struct ProgressNotifier(pub(super) ActiveCalls);

impl EventSink for ProgressNotifier {
    fn send(&self, event: Event) {
        match (&event.call, &event.what) {
            (Some(call), EventKind::Progress(progress)) => self.0.tell(&call.id, progress),
            (_, EventKind::Warning(_) | EventKind::Message(_) | EventKind::BlocksThread { .. }) => {
                NoticeEvents(output::notice_sink()).send(event)
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use haft_mcp::server::{ClientInfo, ProtocolRevision, TransportKind};

    use super::*;

    #[test]
    fn a_question_of_a_server_is_asked_only_if_it_can_be_but_one_clients() {
        let calls = ActiveCalls::default();
        let peer =
            || ClientPeer::disconnected(ClientInfo::new(TransportKind::Http, ProtocolRevision::V2025_11_25));
        assert!(calls.of_servers().is_none());
        let own = calls.begin(1, peer(), false);
        assert!(calls.of_servers().is_none() && calls.of_client(1).is_some() && calls.of_client(2).is_none());
        let first = calls.begin(1, peer(), true);
        let second = calls.begin(1, peer(), true);
        assert!(calls.of_servers().is_some());
        let other = calls.begin(2, peer(), true);
        assert!(calls.of_servers().is_none(), "two clients wait");
        drop((first, second));
        assert!(calls.of_servers().is_some());
        assert!(calls.peer(&other.id()).is_some() && calls.peer("call-x").is_none());
        drop((own, other));
        assert!(calls.lock().is_empty());
    }
}
