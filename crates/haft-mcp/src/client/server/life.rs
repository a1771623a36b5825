//! The life of a server: it is connected, attended to, and connected again.
//!
//! One task lives it. What it finds out is in the server's state, where everybody else looks.

use std::sync::Arc;

use tokio::time::{Instant, sleep, timeout};

use super::super::desk::Desk;
use super::super::session::Session;
use super::{Inner, Server, Status};
use crate::approval::{Known, Subject, Withheld};
use crate::config::{Remote, Transport, Trust};
use crate::limits;
use crate::sign_in::requests::Requests;
use crate::transport::guard::{Guard, Watch};
use crate::transport::{headers, http, lines, sse, stdio, web_socket};

/// A connection that failed.
struct Fault {
    words: String,
    /// It may be better soon.
    passes: bool,
}

impl Server {
    /// The whole life of it.
    pub(super) async fn live(self) {
        let stop = self.0.stop.clone();
        let (mut tries, mut ever) = (0, false);
        loop {
            self.set(Status::Connecting, None);
            let begun = Instant::now();
            let limit = self.0.config.connect_timeout;
            let connected = tokio::select! {
                _ = stop.cancelled() => break,
                connected = timeout(limit, self.connect()) => connected.unwrap_or_else(|_| {
                    Err(Trouble::Fault(Fault { words: format!("it took longer than {} s", limit.as_secs_f64()), passes: false }))
                }),
            };
            let fault = match connected {
                Ok(session) => {
                    (tries, ever) = (0, true);
                    let ready = Status::Ready { facts: session.facts().clone(), took: begun.elapsed() };
                    self.set(ready, Some(session.clone()));
                    let words = tokio::select! {
                        _ = stop.cancelled() => {
                            session.close().await;
                            break;
                        }
                        words = self.attend(&session) => words,
                    };
                    // What is left of the connection ends by itself.
                    tokio::spawn(async move { session.close().await });
                    Fault { words, passes: true }
                }
                Err(Trouble::Fault(fault)) => fault,
                Err(Trouble::User(status)) => {
                    self.set(status, None);
                    tokio::select! {
                        _ = stop.cancelled() => break,
                        () = self.0.wanted.notified() => continue,
                    }
                }
            };
            tries += 1;
            let most = if ever { limits::RECONNECT_TRIES } else { limits::CONNECT_TRIES };
            // A process that ended had a reason to; it is started again when it is needed.
            let retries = fault.passes && !self.0.config.transport.is_local() && tries <= most;
            self.set(Status::Failed { reason: fault.words, retries }, None);
            let pause = limits::RECONNECT_PAUSE
                .saturating_mul(1 << (tries - 1).min(16))
                .min(limits::RECONNECT_PAUSE_MAX);
            tokio::select! {
                _ = stop.cancelled() => break,
                () = self.0.wanted.notified() => {}
                () = sleep(pause), if retries => {}
            }
        }
        self.set(Status::Stopped, None);
    }

    /// Connects and reads the list of tools.
    async fn connect(&self) -> Result<Arc<Session>, Trouble> {
        let Inner { config, host, .. } = &*self.0;
        if config.trust == Trust::Approvals {
            let subject = Subject { server: config.name.clone(), tool: None, value: config.identity() };
            match host.approvals.known(&subject) {
                Known::Approved => {}
                Known::New => {
                    return Err(Trouble::User(Status::Unapproved(Withheld { subject, before: None })));
                }
                Known::Changed(before) => {
                    let withheld = Withheld { subject, before: Some(before) };
                    return Err(Trouble::User(Status::Unapproved(withheld)));
                }
            }
        }
        if let Some(account) = &self.0.account {
            account.begin();
        }
        let connected = self.connect_approved().await;
        let needed = self.0.account.as_ref().and_then(|account| account.needed());
        match needed.filter(|needed| needed.for_all && connected.is_err()) {
            Some(needed) => Err(Trouble::User(Status::NeedsSignIn { reason: needed.words })),
            None => connected.map_err(Trouble::Fault),
        }
    }

    async fn connect_approved(&self) -> Result<Arc<Session>, Fault> {
        let mut watch = Watch::default();
        let guard = self.guard(watch.clone()).await?;
        let mut opened = self.open(guard, &watch).await;
        if opened.is_err() && watch.was_late() {
            // It knows the newest revision and refuses older ones, but took its time to say so: once more, with patience.
            watch = Watch::default();
            let guard = self.guard(watch.clone()).await?;
            opened = self.open(guard.patient(), &watch).await;
        }
        let session = Arc::new(opened.map_err(judged)?);
        if session.facts().has_tools {
            self.read_tools(&session).await.map_err(|words| Fault { words, passes: true })?;
        }
        Ok(session)
    }

    async fn open(&self, guard: Guard, watch: &Watch) -> Result<Session, String> {
        let Inner { config, host, log, watched, .. } = &*self.0;
        let (server, host, log) = (config.name.clone(), host.clone(), log.clone());
        let (carrier, watched) = (config.transport.carrier(), watched.clone());
        let desk = Desk { server, carrier, host, may_sample: config.may_sample, log, watched };
        Session::open(guard, watch.clone(), Arc::new(desk)).await
    }

    async fn guard(&self, watch: Watch) -> Result<Guard, Fault> {
        let Inner { config, host, log, account, .. } = &*self.0;
        let stays = |words: String| Fault { words, passes: false };
        let passes = |words: String| Fault { words, passes: true };
        let remote_headers = |remote| headers::of(remote, host.processes.as_deref(), &host.cwd);
        let requests = |remote: &Remote, headers| {
            let proxy = remote.proxy.as_deref().or(host.proxy.as_deref());
            let client = http::client(proxy).map_err(stays)?;
            Ok(Requests::new(client, headers, account.clone()))
        };
        let link = match &config.transport {
            Transport::Stdio(process) => {
                let processes = host.processes.clone();
                let processes = processes.ok_or_else(|| stays("this host starts no processes".to_owned()))?;
                stdio::connect(process, processes, &host.cwd, log.clone()).await.map_err(stays)?
            }
            Transport::InProcess(connector) => lines::link(connector.connect().await.map_err(passes)?),
            Transport::Sse(remote) => {
                let requests = requests(remote, remote_headers(remote).await.map_err(stays)?)?;
                requests.prepare().await.map_err(judged)?;
                sse::connect(requests, &remote.url).await.map_err(passes)?
            }
            Transport::WebSocket(remote) => {
                let headers = remote_headers(remote).await.map_err(stays)?;
                web_socket::connect(&remote.url, headers).await.map_err(passes)?
            }
            Transport::Http(remote) => {
                let requests = requests(remote, remote_headers(remote).await.map_err(stays)?)?;
                requests.prepare().await.map_err(judged)?;
                let transport = http::transport(requests, &remote.url, config.concurrency, watch.clone());
                return Ok(Guard::over_http(transport, watch));
            }
        };
        Ok(Guard::over_link(link, watch))
    }

    /// Keeps its lists current until the connection ends, and says why it did.
    async fn attend(&self, session: &Arc<Session>) -> String {
        let mut listening = Box::pin(session.listen(self.0.watched.read()));
        loop {
            let changes = tokio::select! {
                words = session.watch().over() => return words,
                () = &mut listening => continue,
                () = self.0.watched.more() => {
                    listening = Box::pin(session.listen(self.0.watched.read()));
                    continue;
                }
                changes = session.watch().changes() => changes,
            };
            sleep(limits::CHANGE_REST).await;
            let more = session.watch().take_changes();
            // One that can't be read again stays as it was.
            if (changes.tools || more.tools)
                && let Err(words) = self.read_tools(session).await
            {
                self.0.log.add(format!("haft: its list of tools can't be read again: {words}\n").as_bytes());
            }
        }
    }
}

/// A failure in words: the same will not be answered otherwise a second later.
fn judged(words: String) -> Fault {
    let passes = !["authoriz", "HTTP 4", "revision"].iter().any(|sign| words.contains(sign));
    Fault { words, passes }
}

/// Why there is no connection.
enum Trouble {
    Fault(Fault),
    /// The user has to do something first: the status says what.
    User(Status),
}
