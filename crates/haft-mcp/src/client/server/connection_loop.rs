//! The life of a server: it is connected, attended to, and connected again.
//!
//! One task lives it. What it finds out is in the server's state, where everybody else looks.

use std::sync::Arc;

use tokio::time::{Instant, sleep, timeout};

use super::super::server_requests::ServerRequests;
use super::super::session::ClientSession;
use super::{ServerHandle, ServerInner, ServerStatus};
use crate::approval::{ApprovalSubject, KnownApproval, WithheldItem};
use crate::config::{RemoteTransport, ServerTransport, ServerTrust};
use crate::limits;
use crate::sign_in::authorized_client::AuthorizedClient;
use crate::transport::guard::{ConnectionWatch, TransportGuard};
use crate::transport::{headers, http, lines, sse, stdio, web_socket};

/// A connection that failed.
struct ConnectFault {
    words: String,
    /// It may be better soon.
    passes: bool,
}

impl ServerHandle {
    /// The whole life of it.
    pub(super) async fn live(self) {
        let stop = self.0.stop.clone();
        let (mut tries, mut ever) = (0, false);
        loop {
            self.set(ServerStatus::Connecting, None);
            let begun = Instant::now();
            let limit = self.0.config.connect_timeout;
            let connected = tokio::select! {
                _ = stop.cancelled() => break,
                connected = timeout(limit, self.connect()) => connected.unwrap_or_else(|_| {
                    Err(ConnectError::Fault(ConnectFault { words: format!("it took longer than {} s", limit.as_secs_f64()), passes: false }))
                }),
            };
            let fault = match connected {
                Ok(session) => {
                    (tries, ever) = (0, true);
                    let ready = ServerStatus::Ready { facts: session.facts().clone(), took: begun.elapsed() };
                    self.set(ready, Some(session.clone()));
                    let words = tokio::select! {
                        _ = stop.cancelled() => {
                            session.close().await;
                            break;
                        }
                        words = self.serve_session(&session) => words,
                    };
                    // What is left of the connection ends by itself.
                    tokio::spawn(async move { session.close().await });
                    ConnectFault { words, passes: true }
                }
                Err(ConnectError::Fault(fault)) => fault,
                Err(ConnectError::User(status)) => {
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
            self.set(ServerStatus::Failed { reason: fault.words, retries }, None);
            let pause = limits::RECONNECT_PAUSE
                .saturating_mul(1 << (tries - 1).min(16))
                .min(limits::RECONNECT_PAUSE_MAX);
            tokio::select! {
                _ = stop.cancelled() => break,
                () = self.0.wanted.notified() => {}
                () = sleep(pause), if retries => {}
            }
        }
        self.set(ServerStatus::Stopped, None);
    }

    /// Connects and reads the list of tools.
    async fn connect(&self) -> Result<Arc<ClientSession>, ConnectError> {
        let ServerInner { config, host, .. } = &*self.0;
        if config.trust == ServerTrust::Approvals {
            let subject =
                ApprovalSubject { server: config.name.clone(), tool: None, value: config.identity() };
            match host.approvals.known(&subject) {
                KnownApproval::Approved => {}
                KnownApproval::New => {
                    return Err(ConnectError::User(ServerStatus::Unapproved(WithheldItem {
                        subject,
                        before: None,
                    })));
                }
                KnownApproval::Changed(before) => {
                    let withheld = WithheldItem { subject, before: Some(before) };
                    return Err(ConnectError::User(ServerStatus::Unapproved(withheld)));
                }
            }
        }
        if let Some(account) = &self.0.account {
            account.begin();
        }
        let connected = self.connect_approved().await;
        let needed = self.0.account.as_ref().and_then(|account| account.needed());
        match needed.filter(|needed| needed.for_all && connected.is_err()) {
            Some(needed) => Err(ConnectError::User(ServerStatus::NeedsSignIn { reason: needed.words })),
            None => connected.map_err(ConnectError::Fault),
        }
    }

    async fn connect_approved(&self) -> Result<Arc<ClientSession>, ConnectFault> {
        let mut watch = ConnectionWatch::default();
        let guard = self.guard(watch.clone()).await?;
        let mut opened = self.open(guard, &watch).await;
        if opened.is_err() && watch.was_late() {
            // It knows the newest revision and refuses older ones, but took its time to say so: once more,
            // with patience.
            watch = ConnectionWatch::default();
            let guard = self.guard(watch.clone()).await?;
            opened = self.open(guard.patient(), &watch).await;
        }
        let session = Arc::new(opened.map_err(classify_fault)?);
        if session.facts().has_tools {
            self.read_tools(&session).await.map_err(|words| ConnectFault { words, passes: true })?;
        }
        Ok(session)
    }

    async fn open(&self, guard: TransportGuard, watch: &ConnectionWatch) -> Result<ClientSession, String> {
        let ServerInner { config, host, log, watched, .. } = &*self.0;
        let (server, host, log) = (config.name.clone(), host.clone(), log.clone());
        let (carrier, watched) = (config.transport.carrier(), watched.clone());
        let desk = ServerRequests { server, carrier, host, may_sample: config.may_sample, log, watched };
        ClientSession::open(guard, watch.clone(), Arc::new(desk)).await
    }

    async fn guard(&self, watch: ConnectionWatch) -> Result<TransportGuard, ConnectFault> {
        let ServerInner { config, host, log, account, .. } = &*self.0;
        let stays = |words: String| ConnectFault { words, passes: false };
        let passes = |words: String| ConnectFault { words, passes: true };
        let remote_headers = |remote| headers::request_headers(remote, host.processes.as_deref(), &host.cwd);
        let requests = |remote: &RemoteTransport, headers| {
            let proxy = remote.proxy.as_deref().or(host.proxy.as_deref());
            let client = http::http_client(proxy).map_err(stays)?;
            Ok(AuthorizedClient::new(client, headers, account.clone()))
        };
        let link = match &config.transport {
            ServerTransport::Stdio(process) => {
                let processes = host.processes.clone();
                let processes = processes.ok_or_else(|| stays("this host starts no processes".to_owned()))?;
                stdio::start_server(process, processes, &host.cwd, log.clone()).await.map_err(stays)?
            }
            ServerTransport::InProcess(connector) => {
                lines::line_link(connector.connect().await.map_err(passes)?)
            }
            ServerTransport::Sse(remote) => {
                let requests = requests(remote, remote_headers(remote).await.map_err(stays)?)?;
                requests.prepare().await.map_err(classify_fault)?;
                sse::connect_sse(requests, &remote.url).await.map_err(passes)?
            }
            ServerTransport::WebSocket(remote) => {
                let headers = remote_headers(remote).await.map_err(stays)?;
                web_socket::connect_web_socket(&remote.url, headers).await.map_err(passes)?
            }
            ServerTransport::Http(remote) => {
                let requests = requests(remote, remote_headers(remote).await.map_err(stays)?)?;
                requests.prepare().await.map_err(classify_fault)?;
                let transport =
                    http::http_transport(requests, &remote.url, config.concurrency, watch.clone());
                return Ok(TransportGuard::over_http(transport, watch));
            }
        };
        Ok(TransportGuard::over_link(link, watch))
    }

    /// Keeps its lists current until the connection ends, and says why it did.
    async fn serve_session(&self, session: &Arc<ClientSession>) -> String {
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
fn classify_fault(words: String) -> ConnectFault {
    let passes = !["authoriz", "HTTP 4", "revision"].iter().any(|sign| words.contains(sign));
    ConnectFault { words, passes }
}

/// Why there is no connection.
enum ConnectError {
    Fault(ConnectFault),
    /// The user has to do something first: the status says what.
    User(ServerStatus),
}
