//! Who is calling: the calls that are running, their tokens, and what each was refused.
//!
//! Refusals of the proxy belong to the call whose token came with the request. A question to the name server
//! carries no token, so it counts for every call that is running: one of them asked.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use haft::ports::{ChildRequests, ConfinementRefusal, HostAnswer, HostGrants, HostGroup, WantedHost};
use haft::sync::lock;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use super::host::{Host, HostRule};
use super::limits::{self, NetworkTimeouts};
use super::policy::{HostRefusal, NetworkPolicy};
use haft_net::host_preset::HostPreset;
use haft_net::network_access::{AddressAllowance, NetworkAccess};

/// What the hosts of the preset that is asked about are.
const REGISTRIES: &str = "package registries";
const REGISTRIES_NOTE: &str = "registries also accept uploads";

/// What connections of a session share.
pub(super) struct NetworkSession {
    pub(super) policy: NetworkPolicy,
    pub(super) times: NetworkTimeouts,
    pub(super) outside: Arc<dyn NetworkAccess>,
    /// One permit for each name that is being resolved.
    pub(super) resolving: Arc<Semaphore>,
    calls: Mutex<Vec<Arc<CallAccess>>>,
    /// What came without a token that counts.
    strangers: RefusalLog,
}

impl NetworkSession {
    pub(super) fn new(
        policy: NetworkPolicy,
        outside: Arc<dyn NetworkAccess>,
        times: NetworkTimeouts,
    ) -> NetworkSession {
        let resolving = Arc::new(Semaphore::new(limits::RESOLVING_MAX));
        NetworkSession {
            policy,
            times,
            outside,
            resolving,
            calls: Mutex::default(),
            strangers: RefusalLog::default(),
        }
    }

    pub(super) fn begin(&self, call: Arc<CallAccess>) {
        self.calls().push(call);
    }

    /// Voids the call's token and closes its connections.
    pub(super) fn end(&self, call: &Arc<CallAccess>) {
        self.calls().retain(|other| !Arc::ptr_eq(other, call));
        call.ended.send_replace(true);
    }

    /// The call whose token this is. Every token is compared in full, so that time tells nothing about them.
    pub(super) fn call(&self, authorization: &[u8]) -> Option<Arc<CallAccess>> {
        let mut found = None;
        for call in self.calls().iter() {
            if constant_time_eq(call.authorization.as_bytes(), authorization) {
                found = Some(call.clone());
            }
        }
        found
    }

    /// Notes a request that came without a token that counts.
    pub(super) fn refuse_stranger(&self, host: &Host, port: u16, why: &str) {
        self.strangers.add(&host.to_string(), Some(port), &HostRefusal::for_good(why));
    }

    /// Some clients ask without a token first and again with it; then nothing was refused.
    pub(super) fn came_back(&self, host: &Host, port: u16) {
        self.strangers.forget(&host.to_string(), port);
    }

    /// What came without a token that counts.
    pub(super) fn refusals(&self) -> Vec<ConfinementRefusal> {
        self.strangers.all()
    }

    /// Notes a name that was asked of the name server.
    pub(super) fn asked_for(&self, name: &str) {
        let calls = self.calls().clone();
        for call in calls {
            let judged = Host::parse(name).map_err(|bad| bad.to_string()).and_then(|host| {
                let judged = [80, 443].map(|port| call.may(self, &host, port));
                judged.into_iter().reduce(Result::or).expect("there are two").map_err(|refused| refused.why)
            });
            let why = match judged {
                Ok(_) => format!(
                    "`{name}` is allowed, but only through the proxy: a program asked for its address instead of using \
                     the proxy that `HTTPS_PROXY` names"
                ),
                Err(why) => format!(
                    "a program asked for its address, and is told none: hosts are reached through the proxy that \
                     `HTTPS_PROXY` names; {why}"
                ),
            };
            // It may be another call's program, and a grant alone wouldn't help one that looks for an
            // address.
            call.asked.add(name, None, &HostRefusal::for_good(why));
        }
    }

    fn calls(&self) -> std::sync::MutexGuard<'_, Vec<Arc<CallAccess>>> {
        lock(&self.calls)
    }
}

/// One call, while it runs.
pub(super) struct CallAccess {
    /// What follows `Basic` in the header.
    authorization: String,
    grants: Vec<HostRule>,
    /// What it is granted while it runs, and who hears of refusals at once.
    live: Option<HostGrants>,
    /// Where it is asked about hosts that it isn't granted.
    requests: Option<ChildRequests>,
    /// What was granted so.
    approved: Mutex<Vec<HostRule>>,
    /// Hosts and ports that were refused so, and why. Held while a question is open: a call asks one after
    /// the other, and connections to the same host share the answer.
    denied: tokio::sync::Mutex<HashMap<(Host, u16), String>>,
    /// How many connections wait for an answer.
    parked: AtomicUsize,
    /// What the proxy refused it. Apart from what was asked of the name server, so that no other call can
    /// fill it.
    refused: RefusalLog,
    asked: RefusalLog,
    /// What it was let through to and that could not be reached.
    failed: RefusalLog,
    open: AtomicUsize,
    ended: watch::Sender<bool>,
}

impl CallAccess {
    pub(super) fn new(
        authorization: String,
        grants: Vec<HostRule>,
        live: Option<HostGrants>,
        requests: Option<ChildRequests>,
    ) -> CallAccess {
        let (ended, _) = watch::channel(false);
        let (refused, asked, failed) = Default::default();
        let (approved, denied) = Default::default();
        let (parked, open) = (AtomicUsize::new(0), AtomicUsize::new(0));
        CallAccess {
            authorization,
            grants,
            live,
            requests,
            approved,
            denied,
            parked,
            refused,
            asked,
            failed,
            open,
            ended,
        }
    }

    /// Whether it may reach a host, after a question where one helps; if not, that is noted. Nothing is
    /// looked up and nothing is sent while the question is open.
    pub(super) async fn judge(
        &self,
        session: &NetworkSession,
        host: &Host,
        port: u16,
    ) -> Result<AddressAllowance, HostRefusal> {
        let judged = match (self.may(session, host, port), &self.requests) {
            (Err(refused), Some(requests)) if refused.grantable => {
                self.ask(session, requests, host, port).await
            }
            (judged, _) => judged,
        };
        judged.inspect_err(|refused| self.refuse(host, port, refused))
    }

    /// Asks whether it may reach a host, unless that has been answered.
    async fn ask(
        &self,
        session: &NetworkSession,
        requests: &ChildRequests,
        host: &Host,
        port: u16,
    ) -> Result<AddressAllowance, HostRefusal> {
        let parked = ParkedConnection(&self.parked);
        if parked.0.fetch_add(1, Ordering::Relaxed) >= limits::CALL_PARKED_MAX {
            return Err(HostRefusal::grantable(format!(
                "no rule allows `{host}`, and {} connections of this call wait for an answer already",
                limits::CALL_PARKED_MAX
            )));
        }
        let mut denied = self.denied.lock().await;
        if let Ok(pass) = self.may(session, host, port) {
            return Ok(pass);
        }
        let place = (host.clone(), port);
        if let Some(why) = denied.get(&place) {
            return Err(HostRefusal::grantable(why.clone()));
        }
        let rule = session.policy.rule_for(host, port);
        let preset = Some(HostPreset::PackageRegistries)
            .filter(|preset| preset.contains(host) && rule.port().is_none());
        let others = preset.iter().flat_map(|preset| session.policy.not_denied(*preset, port));
        let others: Vec<String> = others.map(|host| host.to_string()).collect();
        let wanted = WantedHost {
            host: host.to_string(),
            port,
            port_rule: (rule.port().is_some() || matches!(host, Host::Address(_))).then(|| rule.to_string()),
            group: preset.map(|_| HostGroup {
                name: REGISTRIES.to_owned(),
                note: REGISTRIES_NOTE.to_owned(),
                hosts: others.clone(),
            }),
        };
        let why = match timeout(session.times.question, requests.ask(wanted)).await {
            Ok(HostAnswer::Granted(hosts)) => {
                let named = hosts.iter().filter_map(|host| host.parse::<HostRule>().ok());
                let has_port = rule.port().is_some();
                lock(&self.approved).extend(named.filter(|_| !has_port).chain([rule]));
                return self.may(session, host, port);
            }
            Ok(HostAnswer::Refused(why)) => why,
            Err(_) => format!(
                "no rule allows `{host}`, and the user did not answer within {} s",
                session.times.question.as_secs()
            ),
        };
        let preset = preset.map(|preset| {
            format!(
                "; `\"sandbox\": {{\"presets\": [\"{preset}\"]}}` in the settings allows all {REGISTRIES}"
            )
        });
        let why = why + &preset.unwrap_or_default();
        denied.extend(others.iter().filter_map(|host| Some(((Host::parse(host).ok()?, port), why.clone()))));
        denied.insert(place, why.clone());
        Err(HostRefusal::grantable(why))
    }

    /// Whether it could reach a host; nothing is noted.
    pub(super) fn may(
        &self,
        session: &NetworkSession,
        host: &Host,
        port: u16,
    ) -> Result<AddressAllowance, HostRefusal> {
        session.policy.judge(&self.grants(), host, port)
    }

    /// All that it was granted until now. What can't be read grants nothing.
    fn grants(&self) -> Cow<'_, [HostRule]> {
        let more = self.live.iter().flat_map(HostGrants::hosts).filter_map(|host| host.parse().ok());
        let more: Vec<HostRule> = more.chain(lock(&self.approved).iter().cloned()).collect();
        if more.is_empty() {
            return Cow::Borrowed(&self.grants);
        }
        Cow::Owned(self.grants.iter().cloned().chain(more).collect())
    }

    /// Whether a person may be asked about hosts that it isn't granted.
    pub(super) fn may_ask(&self) -> bool {
        self.requests.as_ref().is_some_and(ChildRequests::has_user)
    }

    fn tell(&self, refusal: impl FnOnce() -> ConfinementRefusal) {
        if let Some(live) = &self.live {
            live.refused(refusal());
        }
    }

    pub(super) fn refuse(&self, host: &Host, port: u16, why: &HostRefusal) {
        self.tell(|| host_refusal(&host.to_string(), Some(port), why));
        self.refused.add(&host.to_string(), Some(port), why);
    }

    /// Notes a host that it may reach and that can't be reached.
    pub(super) fn failed(&self, host: &Host, port: u16, why: &str) {
        let failed = ConfinementRefusal::Unreached { host: host.to_string(), port, why: why.to_owned() };
        self.tell(|| failed.clone());
        self.failed.put(failed);
    }

    pub(super) fn refusals(&self) -> Vec<ConfinementRefusal> {
        [self.refused.all(), self.asked.all(), self.failed.all()].concat()
    }

    /// A place for one more connection.
    pub(super) fn connection(self: &Arc<CallAccess>) -> Option<CallConnection> {
        let place = CallConnection(self.clone());
        // The place gives back on drop what it took, also when it was one too many.
        (self.open.fetch_add(1, Ordering::Relaxed) < limits::CALL_CONNECTIONS_MAX).then_some(place)
    }

    /// What its clients say.
    #[cfg(test)]
    pub(super) fn authorization(&self) -> &str {
        &self.authorization
    }

    /// How many connections it has.
    #[cfg(test)]
    pub(super) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Waits until it ends.
    pub(super) async fn ended(&self) {
        // An error means that the call is gone, and so does the value.
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }
}

/// One connection among those of a call.
pub(super) struct CallConnection(Arc<CallAccess>);

impl Drop for CallConnection {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection that waits for an answer.
struct ParkedConnection<'a>(&'a AtomicUsize);

impl Drop for ParkedConnection<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn host_refusal(host: &str, port: Option<u16>, refused: &HostRefusal) -> ConfinementRefusal {
    let HostRefusal { why, grantable } = refused.clone();
    ConfinementRefusal::Host { host: host.to_owned(), port, why, grantable }
}

/// Refusals: each once, and so many.
#[derive(Default)]
struct RefusalLog(Mutex<Vec<ConfinementRefusal>>);

impl RefusalLog {
    fn add(&self, host: &str, port: Option<u16>, refused: &HostRefusal) {
        self.put(host_refusal(host, port, refused));
    }

    fn put(&self, refusal: ConfinementRefusal) {
        let mut all = lock(&self.0);
        if all.len() < limits::REFUSALS_MAX && !all.contains(&refusal) {
            all.push(refusal);
        }
    }

    fn forget(&self, name: &str, number: u16) {
        let that = |refusal: &ConfinementRefusal| matches!(refusal, ConfinementRefusal::Host { host, port, .. } if host == name && *port == Some(number));
        lock(&self.0).retain(|refusal| !that(refusal));
    }

    fn all(&self) -> Vec<ConfinementRefusal> {
        lock(&self.0).clone()
    }
}

/// Whether two texts are the same, in a time that depends on their length only.
fn constant_time_eq(one: &[u8], other: &[u8]) -> bool {
    let differs = one.iter().zip(other).fold(0, |differs, (a, b)| differs | (a ^ b));
    one.len() == other.len() && std::hint::black_box(differs) == 0
}
