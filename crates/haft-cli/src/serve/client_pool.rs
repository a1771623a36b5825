//! Who gets which client: one for each session of the revisions that have them, one for each principal in the
//! newest, where requests stand alone.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use haft::future::BoxFuture;
use haft::sync::lock;
use haft_mcp::server::{ClientInfo, ErrorData, HandlerFactory, ServerHandler, TransportKind};
use haft_session::assembly::{ReportLevel, ServerPool};
use haft_session::clients::{ClientView, ClientViews};

use super::client::{self, ServedClient, SharedServices};
use crate::{UsageError, output};

/// How many principals without sessions are remembered; the one that was away for longest goes first.
const PRINCIPALS_MAX: usize = 256;

/// Gives out clients.
pub(super) struct ClientPool {
    common: Arc<SharedServices>,
    views: ClientViews,
    non_interactive: bool,
    /// All that are there.
    there: Mutex<Vec<Weak<ServedClient>>>,
    /// Those whose requests stand alone.
    alone: Mutex<StatelessClients>,
}

#[derive(Default)]
struct StatelessClients {
    clients: HashMap<ClientKey, (u64, Arc<ServedClient>)>,
    clock: u64,
}

/// Whose requests belong together: those of one principal, that can be asked or can't.
#[derive(Clone, PartialEq, Eq, Hash)]
struct ClientKey {
    principal: Option<Arc<str>>,
    can_ask: bool,
}

impl ClientPool {
    pub(super) fn new(common: Arc<SharedServices>, views: ClientViews, non_interactive: bool) -> ClientPool {
        ClientPool { common, views, non_interactive, there: Mutex::default(), alone: Mutex::default() }
    }

    fn client(&self, of: &ClientInfo) -> Result<Arc<ServedClient>, UsageError> {
        let can_ask = client::can_ask(of, self.non_interactive);
        let principal = of.principal.as_ref().map(|principal| &*principal.name);
        let view = self.views.view_of(principal).clone();
        if !of.revision.is_stateless() || of.transport == TransportKind::Stdio {
            return self.admit(view, can_ask);
        }
        let principal = of.principal.as_ref().map(|principal| principal.name.clone());
        let key = ClientKey { principal, can_ask };
        let mut alone = lock(&self.alone);
        alone.clock += 1;
        let now = alone.clock;
        if let Some((used, client)) = alone.clients.get_mut(&key) {
            *used = now;
            return Ok(client.clone());
        }
        if alone.clients.len() >= PRINCIPALS_MAX {
            let oldest = alone.clients.iter().min_by_key(|(_, (used, _))| *used).map(|(key, _)| key.clone());
            oldest.and_then(|oldest| alone.clients.remove(&oldest));
        }
        let client = self.admit(view, can_ask)?;
        alone.clients.insert(key, (now, client.clone()));
        Ok(client)
    }

    fn admit(&self, view: Arc<ClientView>, can_ask: bool) -> Result<Arc<ServedClient>, UsageError> {
        let client = Arc::new(ServedClient::new(self.common.clone(), view, can_ask)?);
        {
            let mut there = lock(&self.there);
            there.retain(|client| client.strong_count() > 0);
            there.push(Arc::downgrade(&client));
        }
        // What changed before it was among those who are told.
        client.bring();
        Ok(client)
    }

    /// Brings what servers offer to all clients, whenever it changes. Ends with the pool's last change.
    pub(super) async fn follow(self: Arc<ClientPool>, pool: Arc<ServerPool>) {
        let mut version = 0;
        loop {
            pool.servers().changed_since(version).await;
            version = pool.servers().version();
            pool.say(ReportLevel::Problems);
            let there: Vec<Arc<ServedClient>> = {
                let there = lock(&self.there);
                there.iter().filter_map(Weak::upgrade).collect()
            };
            there.iter().for_each(|client| client.refresh());
        }
    }

    /// Lets all clients go.
    pub(super) fn close(&self) {
        lock(&self.alone).clients.clear();
    }
}

/// The desk as the server asks it.
pub(super) struct ClientFactory(pub(super) Arc<ClientPool>);

impl HandlerFactory for ClientFactory {
    fn handler<'a>(
        &'a self,
        client: &'a ClientInfo,
    ) -> BoxFuture<'a, Result<Arc<dyn ServerHandler>, ErrorData>> {
        let made = self.0.client(client).map(|client| client as Arc<dyn ServerHandler>).map_err(
            |UsageError(words)| {
                output::print_warning(&output::one_line(&words));
                ErrorData::internal_error(
                    "nothing can be offered; the server says why where it was started",
                    None,
                )
            },
        );
        Box::pin(std::future::ready(made))
    }
}
