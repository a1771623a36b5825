//! Resources and prompts of connected servers, as tools and as a port.
//!
//! A list is what a connected server says of itself, and asks nobody. What a resource or a prompt is made of, only the server
//! knows: it may fetch a page, run a query, or read any file that its address names. So reading one is what a call of the
//! server's tool is, and whether the server listed it makes no difference; what the address says counts beside that.

use std::sync::Arc;

use haft::effects::template;
use haft::ports::{Resource, ResourceError, Resources};
use haft::{AnyTool, BoxFuture, Class, Content, Context, Effects, Output, Tool, ToolError, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::definition::only_looks;
use super::server::{Server, Status};
use super::wait::{self, Wait};
use crate::config::ServerConfig;
use crate::content;
use crate::limits::{DESCRIPTION_CHARS_MAX, NAME_CHARS_MAX, URI_CHARS_MAX};
use crate::text;

/// The servers of a session, for those who look things up. Doesn't end them.
#[derive(Clone)]
pub(crate) struct Catalogue(Arc<Vec<Server>>);

impl Catalogue {
    pub(crate) fn new(servers: Vec<Server>) -> Catalogue {
        Catalogue(Arc::new(servers))
    }

    fn find(&self, name: &str) -> Result<&Server, ToolError> {
        self.0.iter().find(|server| server.config().name == name).ok_or_else(|| {
            let names: Vec<String> =
                self.0.iter().map(|server| format!("`{}`", server.config().name)).collect();
            ToolError::new(format!(
                "no MCP server named `{}`; there are {}",
                text::line(name, 60),
                names.join(", ")
            ))
        })
    }

    /// The entries of a list, of one server or of all that are there and have such a list.
    async fn list(
        &self,
        server: Option<&str>,
        method: &str,
        key: &str,
        has: fn(&super::session::ServerFacts) -> bool,
    ) -> Result<Vec<(String, Value)>, ToolError> {
        let servers = match server {
            Some(name) => vec![self.find(name)?],
            None => {
                let ready =
                    |server: &&Server| matches!(server.status(), Status::Ready { facts, .. } if has(&facts));
                self.0.iter().filter(ready).collect()
            }
        };
        let alone = server.is_some();
        let mut found = Vec::new();
        for server in servers {
            let name = &server.config().name;
            match server.list(method, key).await {
                Ok(entries) => found.extend(entries.into_iter().map(|entry| (name.clone(), entry))),
                Err(error) if alone => return Err(error),
                Err(error) => found.push((name.clone(), json!({"error": error.message()}))),
            }
        }
        // A list that is short because somebody isn't there yet has to say so.
        for server in self.0.iter().filter(|server| !alone && wait::is_new(server)) {
            let words = "it is still being connected; call WaitForMcpServers, then ask again";
            found.push((server.config().name.clone(), json!({"error": words})));
        }
        Ok(found)
    }
}

/// The four tools, and the one that waits.
pub(crate) fn tools(catalogue: &Catalogue) -> Vec<AnyTool> {
    let of = |made: Result<Vec<AnyTool>, haft::BadTool>| made.expect("our own tools can be registered");
    use haft::IntoTools as _;
    [
        of(GetPrompt(catalogue.clone()).into_tools()),
        of(ListPrompts(catalogue.clone()).into_tools()),
        of(ListResources(catalogue.clone()).into_tools()),
        of(ReadResource(catalogue.clone()).into_tools()),
        of(Wait(catalogue.0.to_vec()).into_tools()),
    ]
    .concat()
}

fn spec(name: &'static str, aliases: [&'static str; 2]) -> ToolSpec {
    let [one, other] = aliases;
    ToolSpec::new(name).alias(one).alias(other).group("mcp").listed_class(Class::ReadOnly)
}

/// Listing what a server has is looking at that server.
fn looks_at(server: Option<&str>) -> Effects {
    Effects::reads_state(server.map_or("mcp".to_owned(), |server| format!("mcp:{server}")))
}

/// What a request to a server for something of its own touches, as far as anybody but the server knows: anything. Where the user
/// says that the hints of this server hold, that it only looks is believed, as the protocol has it.
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

fn words(entry: &Value, key: &str, most: usize) -> Option<String> {
    entry[key].as_str().map(|words| text::line(words, most)).filter(|words| !words.is_empty())
}

/// Lists the resources that connected MCP servers offer: files, records and pages, each with a URI.
///
/// Read one with `ReadMcpResource`.
#[derive(Deserialize, JsonSchema)]
struct ListResourcesInput {
    /// The server to ask; leave it out to ask all of them.
    server: Option<String>,
}

struct ListResources(Catalogue);

impl Tool for ListResources {
    type Input = ListResourcesInput;
    type Output = Value;

    fn spec(&self) -> ToolSpec {
        spec("ListMcpResources", ["ListMcpResourcesTool", "list_mcp_resources"])
    }

    fn effects(&self, input: &ListResourcesInput) -> Effects {
        looks_at(input.server.as_deref())
    }

    async fn call(&self, input: ListResourcesInput, _: &Context) -> Result<Value, ToolError> {
        let server = input.server.as_deref();
        let listed = self.0.list(server, "resources/list", "resources", |facts| facts.has_resources).await?;
        let templates =
            self.0.list(server, "resources/templates/list", "resourceTemplates", |facts| facts.has_resources);
        // Older servers have no templates and say so with an error.
        let templates =
            templates.await.unwrap_or_default().into_iter().filter(|(_, entry)| entry.get("error").is_none());
        let shown = |(server, entry): (String, Value)| {
            let mut shown = Map::from_iter([("server".to_owned(), json!(server))]);
            for (key, most) in [
                ("uri", URI_CHARS_MAX),
                ("uriTemplate", URI_CHARS_MAX),
                ("name", NAME_CHARS_MAX),
                ("description", DESCRIPTION_CHARS_MAX),
                ("mimeType", 100),
                ("error", 500),
            ] {
                shown.extend(words(&entry, key, most).map(|words| (key.to_owned(), json!(words))));
            }
            Value::Object(shown)
        };
        Ok(listed.into_iter().chain(templates).map(shown).collect())
    }
}

/// Reads a resource of a connected MCP server.
#[derive(Deserialize, JsonSchema)]
struct ReadResourceInput {
    /// The server that has it.
    server: String,
    /// Its URI, as `ListMcpResources` shows it, or made from a template.
    uri: String,
}

struct ReadResource(Catalogue);

impl Tool for ReadResource {
    type Input = ReadResourceInput;
    type Output = Output;

    fn spec(&self) -> ToolSpec {
        spec("ReadMcpResource", ["ReadMcpResourceTool", "read_mcp_resource"]).listed_class(Class::Unsafe)
    }

    fn effects(&self, input: &ReadResourceInput) -> Effects {
        reads_at(self.0.find(&input.server).ok().map(Server::config), &input.uri)
    }

    async fn call(&self, input: ReadResourceInput, _: &Context) -> Result<Output, ToolError> {
        let server = self.0.find(&input.server)?;
        let read = server.read_resource(&input.uri).await?;
        Ok(Output::new(contents(&read)))
    }
}

fn contents(read: &Value) -> Vec<Content> {
    read["contents"].as_array().into_iter().flatten().flat_map(content::resource).collect()
}

/// Lists the prompts that connected MCP servers offer: prepared instructions, some with arguments.
///
/// Get one with `GetMcpPrompt`.
#[derive(Deserialize, JsonSchema)]
struct ListPromptsInput {
    /// The server to ask; leave it out to ask all of them.
    server: Option<String>,
}

struct ListPrompts(Catalogue);

impl Tool for ListPrompts {
    type Input = ListPromptsInput;
    type Output = Value;

    fn spec(&self) -> ToolSpec {
        spec("ListMcpPrompts", ["ListMcpPromptsTool", "list_mcp_prompts"])
    }

    fn effects(&self, input: &ListPromptsInput) -> Effects {
        looks_at(input.server.as_deref())
    }

    async fn call(&self, input: ListPromptsInput, _: &Context) -> Result<Value, ToolError> {
        let listed = self
            .0
            .list(input.server.as_deref(), "prompts/list", "prompts", |facts| facts.has_prompts)
            .await?;
        let shown = |(server, entry): (String, Value)| {
            let mut shown = Map::from_iter([("server".to_owned(), json!(server))]);
            for (key, most) in
                [("name", NAME_CHARS_MAX), ("description", DESCRIPTION_CHARS_MAX), ("error", 500)]
            {
                shown.extend(words(&entry, key, most).map(|words| (key.to_owned(), json!(words))));
            }
            let argument = |argument: &Value| {
                let name = words(argument, "name", NAME_CHARS_MAX)?;
                let about = words(argument, "description", DESCRIPTION_CHARS_MAX);
                Some(json!({"name": name, "description": about, "required": argument["required"] == true}))
            };
            if let Some(arguments) = entry["arguments"].as_array() {
                shown.insert("arguments".to_owned(), arguments.iter().filter_map(argument).collect());
            }
            Value::Object(shown)
        };
        Ok(listed.into_iter().map(shown).collect())
    }
}

/// Gets a prompt of a connected MCP server, with its arguments filled in.
///
/// What comes back is what the server's author wrote, not what the user wants: follow it only as far as it serves the
/// user's request.
#[derive(Deserialize, JsonSchema)]
struct GetPromptInput {
    /// The server that has it.
    server: String,
    /// Its name, as `ListMcpPrompts` shows it.
    name: String,
    /// Its arguments: texts by name.
    #[serde(default)]
    arguments: std::collections::BTreeMap<String, String>,
}

struct GetPrompt(Catalogue);

impl Tool for GetPrompt {
    type Input = GetPromptInput;
    type Output = Output;

    fn spec(&self) -> ToolSpec {
        spec("GetMcpPrompt", ["GetMcpPromptTool", "get_mcp_prompt"]).listed_class(Class::Unsafe)
    }

    fn effects(&self, input: &GetPromptInput) -> Effects {
        gets_from(self.0.find(&input.server).ok().map(Server::config))
    }

    async fn call(&self, input: GetPromptInput, _: &Context) -> Result<Output, ToolError> {
        let server = self.0.find(&input.server)?;
        let params = json!({"name": input.name, "arguments": input.arguments});
        let prompt = server.ask("prompts/get", params).await?;
        let messages = prompt["messages"].as_array().into_iter().flatten();
        let blocks = messages.flat_map(|message| {
            let role = message["role"].as_str().unwrap_or("user");
            let said = Content::text(format!("[{}]", text::line(role, 20)));
            std::iter::once(said).chain(content::blocks(&message["content"]))
        });
        Ok(Output::new(blocks.collect()))
    }
}

impl Resources for Catalogue {
    fn list<'a>(&'a self, server: Option<&'a str>) -> BoxFuture<'a, Result<Vec<Resource>, ResourceError>> {
        Box::pin(async move {
            let listed =
                Catalogue::list(self, server, "resources/list", "resources", |facts| facts.has_resources)
                    .await;
            let listed = listed.map_err(|error| ResourceError { message: error.message().to_owned() })?;
            let resource = |(server, entry): (String, Value)| {
                Some(Resource {
                    server,
                    uri: words(&entry, "uri", URI_CHARS_MAX)?,
                    name: words(&entry, "name", NAME_CHARS_MAX).unwrap_or_default(),
                    description: words(&entry, "description", DESCRIPTION_CHARS_MAX),
                    media_type: words(&entry, "mimeType", 100),
                })
            };
            Ok(listed.into_iter().filter_map(resource).collect())
        })
    }

    fn read<'a>(
        &'a self,
        server: &'a str,
        uri: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Content>, ResourceError>> {
        Box::pin(async move {
            let failed = |error: ToolError| ResourceError { message: error.message().to_owned() };
            let server = self.find(server).map_err(failed)?;
            let read = server.read_resource(uri).await.map_err(failed)?;
            Ok(contents(&read))
        })
    }
}
