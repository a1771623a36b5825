//! Resources and prompts of connected servers, passed on to a client.
//!
//! They are read through the same pipeline as calls: by tools that are called as the model's own for it are,
//! so that rules and hooks about `ReadMcpResource` and `GetMcpPrompt` hold here too. Only what comes back is
//! other: what the server sent, as it sent it.
//!
//! A resource keeps its address; of two servers with one address the first by name has it. A prompt is called
//! by its server and its own name as it can be seen, and a table leads back: names are never taken apart.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haft::sync::lock;
use haft::{Effects, Engine, Registry, ToolError, Unlimited, dynamic_tool};
use haft_mcp::ServerHandle;
use haft_mcp::limits::NAME_CHARS_MAX;
use haft_mcp::server::{ErrorData, unknown_prompt, unknown_resource};
use haft_session::assembly::{ClientSession, ServerPool};
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;

use super::stored_results::StoredResults;

/// The tool by which a resource is read.
pub(super) const READ: &str = "ReadMcpResource";
/// The tool by which a prompt is had.
pub(super) const GET: &str = "GetMcpPrompt";

/// How long a server may take to list what it has; then it is left out.
const LIST_WAIT: Duration = Duration::from_secs(10);

/// What connected servers have beside tools.
pub(super) struct RelayedResources {
    pool: Arc<ServerPool>,
    /// Which prompt of which server a name is.
    prompts: Mutex<HashMap<String, (String, String)>>,
    /// Which server has an address.
    resources: Mutex<HashMap<String, String>>,
}

impl RelayedResources {
    pub(super) fn new(pool: Arc<ServerPool>) -> RelayedResources {
        RelayedResources { pool, prompts: Mutex::default(), resources: Mutex::default() }
    }

    /// The engine of a client whose only tools are the two that pass on.
    ///
    /// # Errors
    /// They can't be registered, in words.
    pub(super) fn engine(&self, session: &ClientSession) -> Result<Engine, String> {
        let text = json!({"type": "string"});
        let pool = self.pool.clone();
        let schema = json!({"type": "object", "properties": {"server": text, "uri": text}, "required": ["server", "uri"]});
        let read = dynamic_tool(READ, "Reads a resource.", schema, move |input: Value, _| {
            let server = find_server(&pool, &input);
            async move { server?.resource(input["uri"].as_str().unwrap_or_default()).await }
        });
        let pool = self.pool.clone();
        let schema = json!({"type": "object", "properties": {"server": text, "name": text, "arguments": {"type": "object"}}, "required": ["server", "name"]});
        let get = dynamic_tool(GET, "Gets a prompt.", schema, move |input: Value, _| {
            let server = find_server(&pool, &input);
            async move {
                let none = Map::new();
                let arguments = input["arguments"].as_object().unwrap_or(&none);
                server?.prompt(input["name"].as_str().unwrap_or_default(), arguments).await
            }
        });
        let pool = self.pool.clone();
        let reads = move |input: &Value| {
            let uri = input["uri"].as_str().unwrap_or_default();
            find_server(&pool, input)
                .map_or_else(|_| Effects::unknown(), |server| server.effects_of_resource(uri))
        };
        let pool = self.pool.clone();
        let gets = move |input: &Value| {
            find_server(&pool, input).map_or_else(|_| Effects::unknown(), |server| server.effects_of_prompt())
        };
        let read = read.effects(reads).result_limit(Unlimited);
        let get = get.effects(gets).result_limit(Unlimited);
        let registry = Registry::new().with(read).and_then(|registry| registry.with(get));
        Ok(session.engine_with_tools(registry.map_err(|error| error.to_string())?))
    }

    /// What each server lists, asked side by side: one that fails or takes too long has nothing, and nobody
    /// waits for it.
    async fn listed<F>(&self, list: impl Fn(ServerHandle) -> F) -> BTreeMap<String, Vec<Value>>
    where
        F: Future<Output = Vec<Value>> + Send + 'static,
    {
        let mut asked = JoinSet::new();
        for server in self.pool.servers().iter() {
            let name = server.config().name.clone();
            let listed = tokio::time::timeout(LIST_WAIT, list(server.clone()));
            asked.spawn(async move { (name, listed.await.unwrap_or_default()) });
        }
        // By name, as servers are.
        asked.join_all().await.into_iter().collect()
    }

    /// The prompts of all servers, each with its server.
    pub(super) async fn prompts(&self) -> Vec<(String, Value)> {
        let (mut listed, mut names) = (Vec::new(), HashMap::new());
        for (of, prompts) in
            self.listed(|server| async move { server.prompts().await.unwrap_or_default() }).await
        {
            for mut prompt in prompts {
                let Some(own) = prompt["name"].as_str().map(str::to_owned) else { continue };
                let shown = haft_mcp::text::display_line(&own, NAME_CHARS_MAX);
                let name = format!("{of}__{shown}");
                if names.contains_key(&name) {
                    continue;
                }
                if prompt.get("title").is_none() {
                    prompt["title"] = format!("{shown} ({of})").into();
                }
                prompt["name"] = name.clone().into();
                names.insert(name, (of.clone(), own));
                listed.push((of.clone(), prompt));
            }
        }
        *lock(&self.prompts) = names;
        listed
    }

    /// The input of the call that gets a prompt.
    pub(super) async fn prompt(&self, name: &str, arguments: Map<String, Value>) -> Result<Value, ErrorData> {
        let find = || lock(&self.prompts).get(name).cloned();
        let mut found = find();
        if found.is_none() {
            self.prompts().await;
            found = find();
        }
        let (server, own) = found.ok_or_else(|| unknown_prompt(name))?;
        Ok(json!({"server": server, "name": own, "arguments": arguments}))
    }

    /// The resources of all servers, each with its server. Whole results that another `haft` keeps for all of
    /// us are read by whoever was given their address, and listed to nobody.
    pub(super) async fn resources(&self) -> Vec<(String, Value)> {
        let (mut listed, mut owners) = (Vec::new(), HashMap::new());
        for (of, resources) in
            self.listed(|server| async move { server.resources().await.unwrap_or_default() }).await
        {
            for resource in resources {
                let Some(uri) = resource["uri"].as_str().map(str::to_owned) else { continue };
                if owners.contains_key(&uri) {
                    continue;
                }
                if !StoredResults::has_form(&uri) {
                    listed.push((of.clone(), resource));
                }
                owners.insert(uri, of.clone());
            }
        }
        *lock(&self.resources) = owners;
        listed
    }

    /// The templates of all servers, each with its server.
    pub(super) async fn templates(&self) -> Vec<(String, Value)> {
        let listed = self.listed(|server| async move { server.resource_templates().await }).await.into_iter();
        listed.flat_map(|(of, all)| all.into_iter().map(move |one| (of.clone(), one))).collect()
    }

    /// The input of the call that reads a resource.
    pub(super) async fn resource(&self, uri: &str) -> Result<Value, ErrorData> {
        let find = || lock(&self.resources).get(uri).cloned();
        let mut server = find();
        if server.is_none() {
            self.resources().await;
            server = find();
        }
        if server.is_none() {
            server = self.by_template(uri).await;
        }
        let server = server.ok_or_else(|| unknown_resource(uri))?;
        Ok(json!({"server": server, "uri": uri}))
    }

    /// The server of the template that begins as the address does, with the longest beginning.
    async fn by_template(&self, uri: &str) -> Option<String> {
        let mut best: Option<(usize, String)> = None;
        for (server, template) in self.templates().await {
            let begin = template["uriTemplate"].as_str().and_then(|template| template.split('{').next());
            let Some(begin) = begin.filter(|begin| !begin.is_empty() && uri.starts_with(begin)) else {
                continue;
            };
            if best.as_ref().is_none_or(|(length, _)| begin.len() > *length) {
                best = Some((begin.len(), server));
            }
        }
        best.map(|(_, server)| server)
    }
}

fn find_server(pool: &ServerPool, input: &Value) -> Result<ServerHandle, ToolError> {
    let name = input["server"].as_str().unwrap_or_default();
    pool.servers().get(name).cloned().ok_or_else(|| ToolError::new("this server is no longer there"))
}
