//! A server for the conformance suite of the protocol: has every tool, resource and prompt that its scenarios
//! ask for.
//!
//! ```text
//! fixture 127.0.0.1:3000                                            serves http://127.0.0.1:3000/mcp, and says so
//! conformance server --url http://127.0.0.1:3000/mcp --requirements 2026-07-28
//! fixture --stdio                                                   serves whoever started it
//! ```
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program says what happened")]

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use haft::future::BoxFuture;
use haft::{Cancel, ResultBlock};
use haft_mcp::server::{
    CallToolResult, ChangeNotifier, CompleteRequestParams, CompletionInfo, ContentBlock, DefinitionList,
    ElicitationAnswer, EmbeddedResource, ErrorCode, ErrorData, GetPromptResult, HttpConfig, Implementation,
    InputRequest, ListChange, LogLevel, McpServer, PromptMessage, PromptRequest, ReadRequest,
    ReadResourceResult, ResourceContents, Role, ServerFeatures, ServerHandler, ToolCallRequest,
    binary_contents, content_block, unknown_prompt, unknown_resource, unknown_tool,
};
use serde_json::{Value, json};
use tokio::sync::broadcast;

/// One red point.
const PNG: &[u8] = &[
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 0x0d, 0x49, 0x48, 0x44, 0x52, 0, 0, 0, 1, 0, 0,
    0, 1, 8, 2, 0, 0, 0, 0x90, 0x77, 0x53, 0xde, 0, 0, 0, 0x0c, 0x49, 0x44, 0x41, 0x54, 8, 0xd7, 0x63, 0xf8,
    0xcf, 0xc0, 0, 0, 3, 1, 1, 0, 0x18, 0xdd, 0x8d, 0xb0, 0, 0, 0, 0, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42,
    0x60, 0x82,
];
/// Silence.
const WAV: &[u8] =
    b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x80\x3e\0\0\x02\0\x10\0data\0\0\0\0";

/// How long the scenarios want to be let wait.
const PAUSE: Duration = Duration::from_millis(50);

struct Fixture {
    tools: DefinitionList,
    resources: DefinitionList,
    templates: DefinitionList,
    prompts: DefinitionList,
    changes: ChangeNotifier,
}

/// Tools without arguments, each with what it is for.
const PLAIN: [(&str, &str); 31] = [
    ("test_simple_text", "Returns a text."),
    ("test_image_content", "Returns a picture."),
    ("test_audio_content", "Returns a sound."),
    ("test_embedded_resource", "Returns a resource."),
    ("test_multiple_content_types", "Returns a text, a picture and a resource."),
    ("test_tool_with_logging", "Writes three lines to the log."),
    ("test_logging_tool", "Writes a line to the log."),
    ("test_error_handling", "Fails."),
    ("test_tool_with_progress", "Tells how far it is."),
    ("test_reconnection", "Lets the client go and answers when it is back."),
    ("test_elicitation_sep1034_defaults", "Asks with a form that has defaults."),
    ("test_elicitation_sep1330_enums", "Asks with a form that has choices of every kind."),
    ("test_missing_capability", "Needs a model of the client."),
    ("test_streaming_elicitation", "Tells how far it is, and asks."),
    ("test_trigger_tool_change", "Says that the tools have changed."),
    ("test_trigger_prompt_change", "Says that the prompts have changed."),
    ("test_input_required_result_elicitation", "Asks for a name."),
    ("test_input_required_result_sampling", "Asks a model."),
    ("test_input_required_result_list_roots", "Asks for folders."),
    ("test_input_required_result_request_state", "Asks for a yes."),
    ("test_input_required_result_multiple_inputs", "Asks for three things at once."),
    ("test_input_required_result_multi_round", "Asks twice."),
    ("test_input_required_result_tampered_state", "Asks for a yes."),
    ("test_input_required_result_capabilities", "Asks for whatever the client can do."),
    ("greet", "Greets, at once."),
    ("slow_compute", "Takes as many seconds as it is told, as a task."),
    ("failing_job", "Fails, as a task."),
    ("protocol_error_job", "Gets no result, as a task."),
    ("confirm_delete", "Asks for a yes, as a task."),
    ("multi_input", "Asks for two names, as a task."),
    ("test_tool_with_task", "Asks for a name, and becomes a task then."),
];

fn tool(name: &str, description: &str, properties: Value, required: &[&str]) -> Value {
    json!({"name": name, "description": description, "inputSchema":
        {"type": "object", "properties": properties, "required": required}})
}

/// A schema with what the newest dialect has to offer.
fn rich_schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": {"$anchor": "addressDef", "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false,
    })
}

fn text_result(text: impl Into<String>) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}

fn error_result(text: impl Into<String>) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(text)])
}

fn embedded_text(uri: &str, media_type: &str, text: &str) -> ContentBlock {
    ContentBlock::Resource(EmbeddedResource::new(
        ResourceContents::text(text, uri).with_mime_type(media_type),
    ))
}

fn names_form() -> Value {
    json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]})
}

fn yes_form() -> Value {
    json!({"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]})
}

fn sample(text: &str, most: u32) -> InputRequest {
    InputRequest::sampling(
        json!({"messages": [{"role": "user", "content": {"type": "text", "text": text}}], "maxTokens": most}),
    )
}

impl Fixture {
    fn new() -> Fixture {
        let mut tools: Vec<Value> =
            PLAIN.iter().map(|(name, description)| tool(name, description, json!({}), &[])).collect();
        let words = json!({"type": "string"});
        tools.push(tool("test_sampling", "Asks a model.", json!({"prompt": words}), &["prompt"]));
        tools.push(tool("test_elicitation", "Asks the user.", json!({"message": words}), &["message"]));
        let region = json!({"region": {"type": "string", "x-mcp-header": "Region"}});
        tools.push(tool("test_header", "Has an argument that stands in a header.", region, &[]));
        let mut echo = tool("test_echo", "Returns what it gets.", json!({"text": words}), &["text"]);
        echo["outputSchema"] = json!({"type": "object", "properties": {"text": words}, "required": ["text"]});
        tools.push(echo);
        tools.push(json!({"name": "json_schema_2020_12_tool", "description": "Has a rich schema.", "inputSchema": rich_schema()}));
        let argument = |name: &str| json!({"name": name, "description": "A text.", "required": true});
        Fixture {
            tools: DefinitionList::new(tools),
            resources: DefinitionList::new([
                json!({"uri": "test://static-text", "name": "static-text", "description": "A text.", "mimeType": "text/plain"}),
                json!({"uri": "test://static-binary", "name": "static-binary", "description": "A picture.", "mimeType": "image/png"}),
                json!({"uri": "test://watched-resource", "name": "watched-resource", "description": "ChangeNotifier.", "mimeType": "text/plain"}),
            ]),
            templates: DefinitionList::new([
                json!({"uriTemplate": "test://template/{id}/data", "name": "template",
                "description": "Data by id.", "mimeType": "application/json"}),
            ]),
            prompts: DefinitionList::new([
                json!({"name": "test_simple_prompt", "description": "A prompt."}),
                json!({"name": "test_prompt_with_arguments", "description": "Has arguments.",
                    "arguments": [argument("arg1"), argument("arg2")]}),
                json!({"name": "test_prompt_with_embedded_resource", "description": "Has a resource.",
                    "arguments": [argument("resourceUri")]}),
                json!({"name": "test_prompt_with_image", "description": "Has a picture."}),
                json!({"name": "test_input_required_result_prompt", "description": "Asks before it is given."}),
            ]),
            changes: ChangeNotifier::default(),
        }
    }

    async fn run(&self, call: ToolCallRequest) -> Result<CallToolResult, ErrorData> {
        let peer = &call.peer;
        let pause = || tokio::time::sleep(PAUSE);
        let picture = || content_block(&ResultBlock::image("image/png", PNG));
        Ok(match call.name.as_str() {
            "test_simple_text" => text_result("This is a simple text response for testing."),
            "test_image_content" => CallToolResult::success(vec![picture()]),
            "test_audio_content" => {
                CallToolResult::success(vec![content_block(&ResultBlock::document("audio/wav", WAV))])
            }
            "test_embedded_resource" => CallToolResult::success(vec![embedded_text(
                "test://embedded-resource",
                "text/plain",
                "This is an embedded resource content.",
            )]),
            "test_multiple_content_types" => CallToolResult::success(vec![
                ContentBlock::text("Multiple content types test:"),
                picture(),
                embedded_text(
                    "test://mixed-content-resource",
                    "application/json",
                    "{\"test\":\"data\",\"value\":123}",
                ),
            ]),
            "test_tool_with_logging" => {
                peer.log(LogLevel::Info, None, &json!("Tool execution started"));
                pause().await;
                peer.log(LogLevel::Info, None, &json!("Tool processing data"));
                pause().await;
                peer.log(LogLevel::Info, None, &json!("Tool execution completed"));
                text_result("logged")
            }
            "test_logging_tool" => {
                peer.log(LogLevel::Info, None, &json!("a line"));
                text_result("logged")
            }
            "test_error_handling" => error_result("This tool intentionally returns an error for testing"),
            "test_tool_with_progress" => {
                peer.progress(0.0, Some(100.0), None);
                pause().await;
                peer.progress(50.0, Some(100.0), None);
                pause().await;
                peer.progress(100.0, Some(100.0), None);
                text_result("done")
            }
            "test_reconnection" => {
                peer.close_stream();
                pause().await;
                text_result("done while nobody listened")
            }
            "test_echo" | "test_header" => {
                let arguments: Value = serde_json::from_str(call.arguments.get()).unwrap_or_default();
                match arguments["text"].as_str() {
                    None if call.name == "test_echo" => {
                        error_result("invalid input: /text is missing; a string is required")
                    }
                    _ => {
                        let mut result = text_result(arguments["text"].as_str().unwrap_or_default());
                        result.structured_content = Some(arguments);
                        result
                    }
                }
            }
            "test_trigger_tool_change" => {
                self.changes.notify(ListChange::Tools);
                text_result("told")
            }
            "test_trigger_prompt_change" => {
                self.changes.notify(ListChange::Prompts);
                text_result("told")
            }
            "json_schema_2020_12_tool" => text_result("fine"),
            _ => self.ask(call).await?,
        })
    }

    /// The tools that ask something of the client.
    async fn ask(&self, call: ToolCallRequest) -> Result<CallToolResult, ErrorData> {
        let peer = &call.peer;
        let told = |said: &ElicitationAnswer| match said {
            ElicitationAnswer::Accepted(content) => {
                format!("action=accept, content={}", Value::Object(content.clone()))
            }
            ElicitationAnswer::Declined => "action=decline".to_owned(),
            ElicitationAnswer::Dismissed => "action=cancel".to_owned(),
        };
        let arguments: Value = serde_json::from_str(call.arguments.get()).unwrap_or_default();
        let argument = |name: &str| arguments[name].as_str().unwrap_or_default().to_owned();
        let says = |answer: &Value| answer["content"]["text"].as_str().unwrap_or_default().to_owned();
        Ok(match call.name.as_str() {
            "test_sampling" => {
                let answer = peer.ask(sample(&argument("prompt"), 100)).await?;
                text_result(format!("LLM response: {}", says(&answer)))
            }
            "test_elicitation" => {
                let words = |of: &str| json!({"type": "string", "description": of});
                let form = json!({"type": "object", "properties": {"username": words("User's response"),
                    "email": words("User's email address")}, "required": ["username", "email"]});
                let said = peer.elicit(&argument("message"), form).await?;
                text_result(format!("User response: {}", told(&said)))
            }
            "test_elicitation_sep1034_defaults" => {
                let form = json!({"type": "object", "properties": {
                    "name": {"type": "string", "default": "John Doe"},
                    "age": {"type": "integer", "default": 30},
                    "score": {"type": "number", "default": 95.5},
                    "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
                    "verified": {"type": "boolean", "default": true},
                }, "required": []});
                let said = peer.elicit("Please look at the defaults.", form).await?;
                text_result(format!("Elicitation completed: {}", told(&said)))
            }
            "test_elicitation_sep1330_enums" => {
                let plain = json!(["option1", "option2", "option3"]);
                let titled = json!([{"const": "value1", "title": "First"}, {"const": "value2", "title": "Second"},
                    {"const": "value3", "title": "Third"}]);
                let form = json!({"type": "object", "properties": {
                    "untitledSingle": {"type": "string", "enum": plain},
                    "titledSingle": {"type": "string", "oneOf": titled},
                    "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["Option One", "Option Two", "Option Three"]},
                    "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
                    "titledMulti": {"type": "array", "items": {"anyOf": titled}},
                }, "required": []});
                let said = peer.elicit("Please choose.", form).await?;
                text_result(format!("Elicitation completed: {}", told(&said)))
            }
            "test_missing_capability" => {
                let answer = peer.ask(sample("Anything?", 10)).await?;
                text_result(says(&answer))
            }
            "test_streaming_elicitation" => {
                peer.progress(1.0, None, None);
                let said = peer.elicit("What is your name?", names_form()).await?;
                text_result(told(&said))
            }
            "test_input_required_result_elicitation" => {
                let ask = InputRequest::form("What is your name?", names_form()).with_key("user_name");
                let ElicitationAnswer::Accepted(content) =
                    ElicitationAnswer::from_value(peer.ask(ask).await?)?
                else {
                    return Ok(text_result("Hello, nobody!"));
                };
                text_result(format!(
                    "Hello, {}!",
                    content.get("name").and_then(Value::as_str).unwrap_or("you")
                ))
            }
            "test_input_required_result_sampling" => {
                let ask = sample("What is the capital of France?", 100).with_key("capital_question");
                text_result(says(&peer.ask(ask).await?))
            }
            "test_input_required_result_list_roots" => text_result(
                peer.ask(InputRequest::roots().with_key("client_roots")).await?["roots"].to_string(),
            ),
            "test_input_required_result_request_state" | "test_input_required_result_tampered_state" => {
                let said =
                    peer.ask(InputRequest::form("Please confirm", yes_form()).with_key("confirm")).await?;
                text_result(format!("state-ok: {said}"))
            }
            "test_input_required_result_multiple_inputs" => {
                let answers = peer
                    .ask_all(vec![
                        InputRequest::form("What is your name?", names_form()).with_key("user_name"),
                        sample("Generate a greeting", 50).with_key("greeting"),
                        InputRequest::roots().with_key("client_roots"),
                    ])
                    .await?;
                text_result(Value::Array(answers).to_string())
            }
            "test_input_required_result_multi_round" => {
                let name = peer
                    .ask(InputRequest::form("Step 1: What is your name?", names_form()).with_key("step1"))
                    .await?;
                let form = json!({"type": "object", "properties": {"color": {"type": "string"}}, "required": ["color"]});
                let color = peer
                    .ask(InputRequest::form("Step 2: What is your favorite color?", form).with_key("step2"))
                    .await?;
                text_result(format!("{name} {color}"))
            }
            "test_input_required_result_capabilities" => {
                let can = peer.client().capabilities;
                let mut asks = Vec::new();
                if can.form {
                    asks.push(InputRequest::form("What is your name?", names_form()).with_key("user_name"));
                }
                if can.sampling {
                    asks.push(sample("Generate a greeting", 50).with_key("greeting"));
                }
                text_result(Value::Array(peer.ask_all(asks).await?).to_string())
            }
            _ => return self.run_task(call).await,
        })
    }

    /// The tools whose calls are tasks.
    async fn run_task(&self, call: ToolCallRequest) -> Result<CallToolResult, ErrorData> {
        let peer = &call.peer;
        let arguments: Value = serde_json::from_str(call.arguments.get()).unwrap_or_default();
        let pause = || tokio::time::sleep(PAUSE);
        Ok(match call.name.as_str() {
            "greet" => text_result(format!("Hello, {}!", arguments["name"].as_str().unwrap_or("you"))),
            "slow_compute" => {
                let seconds = arguments["seconds"].as_u64().unwrap_or_default();
                if seconds > 0 {
                    // A client without tasks waits for the result.
                    let _ = peer.start_task();
                }
                tokio::select! {
                    () = tokio::time::sleep(Duration::from_secs(seconds)) => text_result("computed"),
                    _ = call.cancel.cancelled() => error_result("cancelled"),
                }
            }
            "failing_job" => {
                peer.start_task()?;
                pause().await;
                error_result("This job always fails.")
            }
            "protocol_error_job" => {
                peer.start_task()?;
                pause().await;
                return Err(ErrorData::internal_error("This job never gets a result.", None));
            }
            "confirm_delete" => {
                let _ = peer.start_task();
                let form = json!({"type": "object", "properties": {"confirm": {"type": "boolean"}}, "required": ["confirm"]});
                match peer.elicit("Delete the file?", form).await? {
                    ElicitationAnswer::Accepted(_) => text_result("deleted"),
                    _ => text_result("kept"),
                }
            }
            "multi_input" => {
                let _ = peer.start_task();
                let asks =
                    ["Your name?", "And the other name?"].map(|ask| InputRequest::form(ask, names_form()));
                // Each is answered on its own.
                let [one, two] = asks.map(|ask| peer.ask(ask));
                let (one, two) = tokio::try_join!(one, two)?;
                text_result(json!([one, two]).to_string())
            }
            "test_tool_with_task" => {
                let ask = InputRequest::form("What is your name?", names_form()).with_key("user_name");
                let answer = peer.ask(ask).await?;
                peer.start_task()?;
                pause().await;
                text_result(format!("Hello, {}!", answer["content"]["name"].as_str().unwrap_or("you")))
            }
            other => return Err(unknown_tool(other)),
        })
    }
}

impl ServerHandler for Fixture {
    fn info(&self) -> Implementation {
        Implementation::new("haft-fixture", env!("CARGO_PKG_VERSION"))
    }

    fn instructions(&self) -> Option<String> {
        Some("Every tool is for a test.".to_owned())
    }

    fn features(&self) -> ServerFeatures {
        ServerFeatures {
            tools: true,
            resources: true,
            subscriptions: true,
            prompts: true,
            completions: true,
            logging: true,
            list_changes: true,
            tasks: true,
        }
    }

    fn tools(&self) -> BoxFuture<'_, Result<DefinitionList, ErrorData>> {
        Box::pin(std::future::ready(Ok(self.tools.clone())))
    }

    fn call(&self, call: ToolCallRequest) -> BoxFuture<'_, Result<CallToolResult, ErrorData>> {
        Box::pin(async move {
            let is_older = !call.peer.client().revision.is_stateless();
            match self.run(call).await {
                // Clients of older revisions have no number for it, and a model may read it.
                Err(error) if is_older && error.code == ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY => {
                    Ok(error_result(error.message))
                }
                done => done,
            }
        })
    }

    fn resources(&self) -> BoxFuture<'_, Result<DefinitionList, ErrorData>> {
        Box::pin(std::future::ready(Ok(self.resources.clone())))
    }

    fn resource_templates(&self) -> BoxFuture<'_, Result<DefinitionList, ErrorData>> {
        Box::pin(std::future::ready(Ok(self.templates.clone())))
    }

    fn read(&self, read: ReadRequest) -> BoxFuture<'_, Result<ReadResourceResult, ErrorData>> {
        let uri = read.uri;
        let contents = match uri.as_str() {
            "test://static-text" => {
                ResourceContents::text("This is the content of the static text resource.", uri)
            }
            "test://watched-resource" => ResourceContents::text("It changes.", uri),
            "test://static-binary" => binary_contents(&uri, "image/png", PNG),
            other => match other.strip_prefix("test://template/").and_then(|rest| rest.strip_suffix("/data"))
            {
                Some(id) => {
                    let data = json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
                    ResourceContents::text(data.to_string(), uri.clone()).with_mime_type("application/json")
                }
                None => return Box::pin(std::future::ready(Err(unknown_resource(other)))),
            },
        };
        Box::pin(std::future::ready(Ok(ReadResourceResult::new(vec![contents]))))
    }

    fn subscribe(&self, _: &str) -> Result<(), ErrorData> {
        Ok(())
    }

    fn prompts(&self) -> BoxFuture<'_, Result<DefinitionList, ErrorData>> {
        Box::pin(std::future::ready(Ok(self.prompts.clone())))
    }

    fn prompt(&self, get: PromptRequest) -> BoxFuture<'_, Result<GetPromptResult, ErrorData>> {
        Box::pin(async move {
            let argument = |name: &str| get.arguments.get(name).and_then(Value::as_str).unwrap_or_default();
            let user = |block: ContentBlock| PromptMessage::new(Role::User, block);
            Ok(GetPromptResult::new(match get.name.as_str() {
                "test_simple_prompt" => {
                    vec![user(ContentBlock::text("This is a simple prompt for testing."))]
                }
                "test_prompt_with_arguments" => {
                    let (one, two) = (argument("arg1"), argument("arg2"));
                    vec![user(ContentBlock::text(format!(
                        "Prompt with arguments: arg1='{one}', arg2='{two}'"
                    )))]
                }
                "test_prompt_with_embedded_resource" => vec![
                    user(embedded_text(
                        argument("resourceUri"),
                        "text/plain",
                        "Embedded resource content for testing.",
                    )),
                    user(ContentBlock::text("Please process the embedded resource above.")),
                ],
                "test_prompt_with_image" => vec![
                    user(content_block(&ResultBlock::image("image/png", PNG))),
                    user(ContentBlock::text("Please analyze the image above.")),
                ],
                "test_input_required_result_prompt" => {
                    let form = json!({"type": "object", "properties": {"context": {"type": "string"}}, "required": ["context"]});
                    let ask = InputRequest::form("What context should the prompt use?", form)
                        .with_key("user_context");
                    let said = get.peer.ask(ask).await?;
                    vec![user(ContentBlock::text(format!("The context is {}.", said["content"]["context"])))]
                }
                other => return Err(unknown_prompt(other)),
            }))
        })
    }

    fn complete(&self, complete: CompleteRequestParams) -> BoxFuture<'_, Result<CompletionInfo, ErrorData>> {
        let known =
            ["paris", "park", "party"].into_iter().filter(|word| word.starts_with(&complete.argument.value));
        let completion = CompletionInfo::with_all_values(known.map(str::to_owned).collect());
        let completion = completion.map_err(|message| ErrorData::internal_error(message, None));
        Box::pin(std::future::ready(completion))
    }

    fn changes(&self) -> Option<broadcast::Receiver<ListChange>> {
        Some(self.changes.subscribe())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let server = McpServer::new(Arc::new(Fixture::new()));
    let stop = Cancel::new();
    let place = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    if place == "--stdio" {
        server.serve_stdio(&stop).await;
        return ExitCode::SUCCESS;
    }
    let served = async {
        let listener = tokio::net::TcpListener::bind(&place).await?;
        println!("http://{}/mcp", listener.local_addr()?);
        server.serve_http(listener, HttpConfig::new(), &stop).await
    };
    match served.await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
