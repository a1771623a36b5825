//! Resources and prompts of connected servers: what the tools in `tools/` share.
//!
//! A list is what a connected server says of itself, and asks nobody. What a resource or a prompt is made of,
//! only the server knows: it may fetch a page, run a query, or read any file that its address names. So
//! reading one is what a call of the server's tool is, and whether the server listed it makes no difference;
//! what the address says counts beside that.

use std::sync::Arc;

use haft::effects::template;
use haft::{Effects, ResultBlock, ToolError};
use serde_json::{Value, json};

use super::definition::only_looks;
use super::server::{ServerHandle, ServerStatus};
use super::tools::wait_for_servers::is_new;
use crate::config::ServerConfig;
use crate::content;
use crate::text;

/// The servers of a session, for those who look things up. Doesn't end them.
#[derive(Clone)]
pub(crate) struct ServerCatalogue(pub(super) Arc<Vec<ServerHandle>>);

impl ServerCatalogue {
    pub(crate) fn new(servers: Vec<ServerHandle>) -> ServerCatalogue {
        ServerCatalogue(Arc::new(servers))
    }

    pub(super) fn find(&self, name: &str) -> Result<&ServerHandle, ToolError> {
        self.0.iter().find(|server| server.config().name == name).ok_or_else(|| {
            let names: Vec<String> =
                self.0.iter().map(|server| format!("`{}`", server.config().name)).collect();
            ToolError::new(format!(
                "no MCP server named `{}`; there are {}",
                text::display_line(name, 60),
                names.join(", ")
            ))
        })
    }

    /// The entries of a list, of one server or of all that are there and have such a list.
    pub(super) async fn list(
        &self,
        server: Option<&str>,
        key: &str,
        has: fn(&super::session::ServerFacts) -> bool,
    ) -> Result<Vec<(String, Value)>, ToolError> {
        let servers = match server {
            Some(name) => vec![self.find(name)?],
            None => {
                let ready = |server: &&ServerHandle| matches!(server.status(), ServerStatus::Ready { facts, .. } if has(&facts));
                self.0.iter().filter(ready).collect()
            }
        };
        let alone = server.is_some();
        let mut found = Vec::new();
        for server in servers {
            let name = &server.config().name;
            match server.list(key).await {
                Ok(entries) => found.extend(entries.into_iter().map(|entry| (name.clone(), entry))),
                Err(error) if alone => return Err(error),
                Err(error) => found.push((name.clone(), json!({"error": error.message()}))),
            }
        }
        // A list that is short because somebody isn't there yet has to say so.
        for server in self.0.iter().filter(|server| !alone && is_new(server)) {
            let words = "it is still being connected; call WaitForMcpServers, then ask again";
            found.push((server.config().name.clone(), json!({"error": words})));
        }
        Ok(found)
    }
}

/// What a request to a server for something of its own touches, as far as anybody but the server knows:
/// anything. Where the user says that the hints of this server hold, that it only looks is believed, as the
/// protocol has it.
fn asks_of(config: Option<&ServerConfig>) -> Effects {
    config.filter(|config| config.read_only_hints_hold).map_or_else(Effects::unknown, only_looks)
}

/// What reading a resource of a server touches: what the server does, and what the address names.
pub(crate) fn reads_at(config: Option<&ServerConfig>, uri: &str) -> Effects {
    asks_of(config).and(template::read_at(uri))
}

/// What getting a prompt of a server touches.
pub(crate) fn gets_from(config: Option<&ServerConfig>) -> Effects {
    asks_of(config)
}

/// The text of a field, on one line and bounded.
pub(super) fn field_text(entry: &Value, key: &str, most: usize) -> Option<String> {
    entry[key].as_str().map(|words| text::display_line(words, most)).filter(|words| !words.is_empty())
}

/// What a `resources/read` result holds.
pub(super) fn resource_contents(read: &Value) -> Vec<ResultBlock> {
    read["contents"].as_array().into_iter().flatten().flat_map(content::convert_resource).collect()
}
