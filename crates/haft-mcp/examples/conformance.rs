//! A client for the conformance suite of the protocol: connects to the address that is its last argument,
//! looks at everything that the server has, and calls every tool with whatever fits its schema.
//!
//! ```text
//! conformance client --command "target/debug/examples/conformance" --suite core
//! ```
#![expect(clippy::print_stderr, reason = "a program says what happened")]

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use haft::future::BoxFuture;
use haft::ports::{ApprovalAnswer, ApprovalRequest, Asker, PermissionMode, UserQuestion};
use haft::{Engine, PermissionRules, Registry, ToolCall};
use haft_mcp::names::wire_name;
use haft_mcp::{
    ClientAssertion, HostServices, OAuth, OrganisationGrant, PageOpener, RemoteTransport, SamplingHandler,
    Secret, ServerConfig, ServerHandle, ServerSet, ServerStatus, ServerTransport, SignInPage,
    SigningAlgorithm, SigningKey, TokenGrant,
};
use serde_json::{Map, Value, json};

/// A user who takes what is proposed: the first choice, the default, or something of the right kind.
struct Agreeable;

impl Asker for Agreeable {
    fn approve<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async { ApprovalAnswer::Once })
    }

    fn question<'a>(&'a self, question: &'a UserQuestion) -> BoxFuture<'a, Option<Vec<String>>> {
        let again = question.text.ends_with("An answer is needed.");
        let first = question.choices.first().map(|choice| choice.label.clone());
        // An empty answer is the default, where there is one.
        let answer = if again { first.unwrap_or_else(|| "1".to_owned()) } else { String::new() };
        Box::pin(async move { Some(vec![answer]) })
    }
}

struct Parrot;

impl SamplingHandler for Parrot {
    fn sample<'a>(&'a self, _: &'a str, _: Value) -> BoxFuture<'a, Result<Value, String>> {
        let said = json!({"role": "assistant", "content": {"type": "text", "text": "hello"}, "model": "none", "stopReason": "endTurn"});
        Box::pin(async { Ok(said) })
    }
}

/// A user who says yes on every page that is opened.
struct Agreeing(reqwest::Client);

impl PageOpener for Agreeing {
    fn open<'a>(&'a self, page: &'a SignInPage) -> BoxFuture<'a, Option<String>> {
        Box::pin(async move {
            let agreed = self.0.get(&page.url).send().await.ok()?;
            let back = agreed.headers().get("location")?.to_str().ok()?.to_owned();
            if let Err(error) = self.0.get(back).send().await {
                eprintln!("{error}");
            }
            None
        })
    }
}

/// What the suite says about signing in.
fn told_oauth() -> OAuth {
    let mut oauth = OAuth::default();
    oauth.client_metadata_url = Some("https://conformance-test.local/client-metadata.json".to_owned());
    let told = std::env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_default();
    let told: Value = serde_json::from_str(&told).unwrap_or_default();
    let text = |key: &str| told[key].as_str().map(str::to_owned);
    oauth.client_id = text("client_id");
    oauth.client_secret = text("client_secret").map(Secret::new);
    oauth.issuer = text("issuer");
    let assertion = |key: &str| {
        let said = text(key).map(Secret::new);
        said.map(|said| ClientAssertion::read_by(move || Ok(said.clone())))
    };
    let key = text("private_key_pem")
        .zip(text("signing_algorithm").and_then(|name| SigningAlgorithm::from_name(&name)));
    let key = key.map(|(pem, algorithm)| SigningKey::new(Secret::new(pem), algorithm));
    let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
    if scenario.starts_with("auth/client-credentials") {
        oauth.grant = TokenGrant::Client(key);
    } else if let Some(jwt) = assertion("valid_jwt") {
        oauth.grant = TokenGrant::Assertion(jwt);
    } else if let (Some(token_endpoint), Some(client_id), Some(id_token)) =
        (text("idp_token_endpoint"), text("idp_client_id"), assertion("idp_id_token"))
    {
        oauth.grant = TokenGrant::Organisation(OrganisationGrant { token_endpoint, client_id, id_token });
    }
    oauth
}

/// Signs in as often as the server wants, within reason.
async fn signed_in(server: &ServerHandle) -> bool {
    for _ in 0..3 {
        match server.wants_sign_in() {
            None => return true,
            Some(reason) => eprintln!("{reason}"),
        }
        if let Err(reason) = server.sign_in().await {
            eprintln!("{reason}");
            return false;
        }
    }
    server.wants_sign_in().is_none()
}

/// A value that fits a schema, as far as servers for tests have them.
fn fitting(schema: &Value) -> Value {
    if let Some(value) = schema.get("default").or(schema.get("const")).or(schema["enum"].get(0)) {
        return value.clone();
    }
    match schema["type"].as_str() {
        Some("integer" | "number") => json!(schema["minimum"].as_i64().unwrap_or(3)),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => arguments(schema),
        _ => json!("text"),
    }
}

fn arguments(schema: &Value) -> Value {
    let properties = schema["properties"].as_object().into_iter().flatten();
    Value::Object(properties.map(|(name, schema)| (name.clone(), fitting(schema))).collect::<Map<_, _>>())
}

/// The calls that the suite wants, where it says so.
fn told_calls() -> Option<Vec<(String, Value)>> {
    let told: Value = serde_json::from_str(&std::env::var("MCP_CONFORMANCE_CONTEXT").ok()?).ok()?;
    let call = |call: &Value| Some((wire_name("s", call["name"].as_str()?), call["arguments"].clone()));
    told["toolCalls"].as_array()?.iter().map(call).collect()
}

/// A client that follows nothing, so that the place where a page sends the user can be seen.
fn web() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
    builder.build().unwrap_or_default()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Some(url) = std::env::args().next_back() else { return ExitCode::from(2) };
    let mut remote = RemoteTransport::new(url);
    remote.oauth = told_oauth();
    let mut config = ServerConfig::new("s", ServerTransport::Http(remote));
    config.may_sample = true;
    config.call_timeout = Duration::from_secs(20);
    let host = HostServices::new("/").with_asker(Arc::new(Agreeable)).with_sampler(Arc::new(Parrot));
    let servers = match ServerSet::start([config], host.with_browser(Arc::new(Agreeing(web())))) {
        Ok(servers) => servers,
        Err(bad) => {
            eprintln!("{bad}");
            return ExitCode::from(2);
        }
    };
    servers.settled(Duration::from_secs(20)).await;
    for server in servers.iter() {
        if !signed_in(server).await {
            return ExitCode::FAILURE;
        }
        match server.status() {
            ServerStatus::Ready { facts, .. } => {
                eprintln!("{facts:?}, {} tools, {:?}", server.tool_count(), server.left_out())
            }
            other => {
                eprintln!("{other:?}");
                return ExitCode::FAILURE;
            }
        }
    }
    let registry = Registry::new().with(servers.tools()).and_then(|base| servers.registry(&base));
    let Ok(registry) = registry else { return ExitCode::FAILURE };
    let engine = Engine::builder(registry)
        .permissions(PermissionRules::new().mode(PermissionMode::BypassPermissions))
        .build();
    let lists = ["ListMcpResources", "ListMcpPrompts"].map(|name| (name.to_owned(), json!({})));
    let snapshot = engine.snapshot();
    let tools = snapshot.offers().iter().filter(|offer| offer.name().starts_with("mcp__"));
    let every = tools.map(|offer| (offer.name().to_owned(), arguments(offer.tool().input_schema())));
    let calls = told_calls().unwrap_or_else(|| every.collect());
    for (name, mut input) in lists.into_iter().chain(calls) {
        // Shows the suite what was understood of the schema of another tool.
        if name == wire_name("s", "json_schema_echo")
            && let Ok(other) = snapshot.find(&wire_name("s", "json_schema_2020_12_tool"))
        {
            input["schema"] = other.tool().input_schema().clone();
        }
        let call = || [ToolCall::new("1", name.as_str(), input.to_string())];
        let mut results = engine.turn().run(call()).await;
        let wanting = servers.iter().find(|server| server.wants_sign_in().is_some());
        if let Some(server) = wanting.filter(|_| results[0].error().is_some())
            && signed_in(server).await
        {
            results = engine.turn().run(call()).await;
        }
        let told = serde_json::to_string(&results[0].to_json()).unwrap_or_default();
        eprintln!("{name} {input}: {}", told.chars().take(300).collect::<String>());
    }
    servers.close().await;
    ExitCode::SUCCESS
}
