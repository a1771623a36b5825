//! From what the engine and MCP connections tell to spans and durations, by the conventions for generative AI.
//!
//! A call that goes to an MCP server has one span, that of the call: what is known of the server is added to it, as the
//! conventions want it, and the server goes on from there. Other requests to servers have spans of their own.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haft::event::{Event, What};
use haft::ports::{CallPlace, TraceContext, Tracer};
use haft::redact::redact_text;
use haft::sync::lock;
use haft::text::truncate_chars;
use haft::{Content, ToolResult};
use haft_mcp::{Asked, Carrier, Observer};
use serde_json::{Value, json};

use crate::config::Config;
use crate::export::Exporter;
use crate::id::Ids;
use crate::limits::{NOTES_MAX, OPEN_MAX, SESSIONS_MAX};
use crate::metrics;
use crate::span::{Kind, Span, nanos, now};

/// Traces calls and measures them.
///
/// Start it once a program, give it to engines as `ports.tracer` and to MCP hosts as their observer, and call
/// [`shutdown`](Telemetry::shutdown) at the end.
pub struct Telemetry {
    ids: Ids,
    exporter: Exporter,
    /// Calls that run.
    open: Mutex<HashMap<Key, Open>>,
    /// When the first call of each session began.
    sessions: Mutex<HashMap<Arc<str>, u64>>,
    /// How many spans were made that nobody asks for again.
    fresh: AtomicU64,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    session: Arc<str>,
    agent: Arc<str>,
    turn: u64,
    index: usize,
}

impl Key {
    fn of(place: &CallPlace<'_>) -> Key {
        let CallPlace { session, agent, turn, call, .. } = *place;
        Key { session: session.into(), agent: agent.into(), turn, index: call.index }
    }
}

struct Open {
    begun: u64,
    input: Option<Arc<Value>>,
    notes: Vec<(&'static str, Value)>,
}

impl Telemetry {
    /// Begins. Nothing is sent, and no thread made, before there is something to send.
    pub fn start(config: Config) -> Arc<Telemetry> {
        Arc::new(Telemetry {
            ids: Ids::new(config.parent.clone()),
            exporter: Exporter::new(config),
            open: Mutex::default(),
            sessions: Mutex::default(),
            fresh: AtomicU64::new(0),
        })
    }

    /// Sends what is left, for at most [`SHUTDOWN_MAX`](crate::limits::SHUTDOWN_MAX). Blocks; returns a warning if
    /// something was lost.
    pub fn shutdown(&self) -> Option<String> {
        let ended = now();
        for (session, begun) in lock(&self.sessions).drain() {
            let parent = self.ids.parent();
            self.send(Span {
                trace: self.ids.trace(&session),
                id: self.ids.session(&session),
                parent: parent.map(|parent| parent.span),
                remote_parent: parent.is_some(),
                state: parent.and_then(|parent| parent.state.clone()),
                name: "invoke_agent haft".to_owned(),
                kind: Kind::Internal,
                begun,
                ended,
                attributes: vec![
                    ("gen_ai.operation.name", json!("invoke_agent")),
                    ("gen_ai.agent.name", json!("haft")),
                    ("gen_ai.conversation.id", json!(*session)),
                ],
                failed: None,
            });
        }
        self.exporter.shutdown()
    }

    /// Watches the MCP servers of a session.
    pub fn observer(self: &Arc<Telemetry>, session: impl Into<Arc<str>>) -> SessionObserver {
        SessionObserver { telemetry: self.clone(), session: session.into() }
    }

    fn send(&self, span: Span) {
        if self.ids.sampled() {
            self.exporter.send(span);
        }
    }

    /// Remembers a session, so that there will be a span around its calls; says whether there will.
    fn met(&self, session: &str, begun: u64) -> bool {
        let mut sessions = lock(&self.sessions);
        if sessions.contains_key(session) {
            return true;
        }
        let room = sessions.len() < SESSIONS_MAX;
        if room {
            sessions.insert(session.into(), begun);
        }
        room
    }

    fn finished(&self, place: &CallPlace<'_>, result: &ToolResult) {
        let ended = now();
        let open = lock(&self.open).remove(&Key::of(place));
        let open = open.unwrap_or(Open { begun: ended, input: None, notes: Vec::new() });
        let error = result.error_kind().map(|kind| serde_json::to_value(kind).unwrap_or(Value::Null));
        let tool = json!(result.tool_name());

        let mut measured = vec![("gen_ai.tool.name", tool.clone())];
        measured.extend(error.clone().map(|error| ("error.type", error)));
        let took = result.duration();
        self.exporter.measure(|all| all.add(metrics::TOOL, measured, took));

        let of_server = open.notes.iter().any(|(name, _)| *name == "mcp.method.name");
        let mut attributes = vec![
            ("gen_ai.operation.name", json!("execute_tool")),
            ("gen_ai.tool.name", tool),
            ("gen_ai.tool.call.id", json!(result.call_id())),
            ("gen_ai.tool.type", json!(if of_server { "extension" } else { "function" })),
            ("gen_ai.conversation.id", json!(place.session)),
            ("gen_ai.agent.name", json!(place.agent)),
        ];
        attributes.extend(error.map(|error| ("error.type", error)));
        attributes.extend(open.notes);
        if self.exporter.config().content {
            let input = open.input.as_deref().or(result.input());
            attributes.extend(input.map(|input| ("gen_ai.tool.call.arguments", json!(input.to_string()))));
            attributes.push(("gen_ai.tool.call.result", json!(words(result))));
        }
        let around = self.met(place.session, open.begun);
        self.send(Span {
            trace: self.ids.trace(place.session),
            id: self.ids.call(place),
            parent: around.then(|| self.ids.session(place.session)),
            remote_parent: false,
            state: self.ids.parent().and_then(|parent| parent.state.clone()),
            name: format!("execute_tool {}", result.tool_name()),
            kind: Kind::Internal,
            begun: open.begun,
            ended: ended.max(open.begun),
            attributes: self.bounded(attributes),
            failed: result.error().map(|error| self.bounded_text(error.message())),
        });
    }

    fn bounded(&self, mut attributes: Vec<(&'static str, Value)>) -> Vec<(&'static str, Value)> {
        for (_, value) in &mut attributes {
            if let Value::String(text) = value {
                *text = self.bounded_text(text);
            }
        }
        attributes
    }

    fn bounded_text(&self, text: &str) -> String {
        truncate_chars(&redact_text(text), self.exporter.config().value_chars).to_owned()
    }
}

/// What the model got, as text.
fn words(result: &ToolResult) -> String {
    let texts = result.for_model().into_iter().map(|block| match block {
        Content::Text(text) => text.to_string(),
        Content::Structured(value) => value.to_string(),
        _ => "[not text]".to_owned(),
    });
    texts.collect::<Vec<_>>().join("\n")
}

impl Tracer for Telemetry {
    fn see(&self, event: &Event) {
        let Some(call) = &event.call else { return };
        let place = CallPlace::new(&event.session, &event.agent, event.turn, call);
        match &event.what {
            What::Started { input, .. } => {
                let begun = now();
                let input = self.exporter.config().content.then(|| input.clone());
                let mut open = lock(&self.open);
                if open.len() >= OPEN_MAX {
                    drop(open);
                    self.exporter.lose();
                    return;
                }
                open.insert(Key::of(&place), Open { begun, input, notes: Vec::new() });
                drop(open);
                self.met(&event.session, begun);
            }
            What::Finished(result) => self.finished(&place, result),
            _ => {}
        }
    }

    fn context(&self, call: CallPlace<'_>) -> Option<TraceContext> {
        Some(self.ids.context(&call))
    }

    fn note(&self, call: CallPlace<'_>, name: &'static str, value: Value) {
        if let Some(open) = lock(&self.open).get_mut(&Key::of(&call)) {
            open.notes.retain(|(known, _)| *known != name);
            if open.notes.len() < NOTES_MAX {
                open.notes.push((name, value));
            }
        }
    }
}

/// Watches the MCP servers of one session: see [`Telemetry::observer`].
pub struct SessionObserver {
    telemetry: Arc<Telemetry>,
    session: Arc<str>,
}

impl Observer for SessionObserver {
    fn asked(&self, asked: &Asked<'_>) {
        let telemetry = &*self.telemetry;
        let mut attributes = vec![("mcp.method.name", json!(asked.method))];
        attributes.extend(of_carrier(asked.carrier, asked.revision));
        if asked.method.starts_with("tools/") {
            attributes.extend(asked.name.map(|name| ("gen_ai.tool.name", json!(name))));
        } else {
            attributes.extend(asked.name.map(|name| ("gen_ai.prompt.name", json!(name))));
        }
        if let Some(error) = asked.error {
            attributes.push(("error.type", json!(error)));
            if error.parse::<i64>().is_ok() {
                attributes.push(("rpc.response.status_code", json!(error)));
            }
        }
        let took = asked.took;
        telemetry.exporter.measure(|all| all.add(metrics::REQUEST, attributes.clone(), took));
        // The call has the span.
        if asked.method == "tools/call" {
            return;
        }
        attributes.extend(asked.uri.map(|uri| ("mcp.resource.uri", json!(uri))));
        attributes.push(("haft.mcp.server", json!(asked.server)));
        let ended = now();
        let begun = ended.saturating_sub(nanos(took));
        let around = telemetry.met(&self.session, begun);
        let number = telemetry.fresh.fetch_add(1, Ordering::Relaxed);
        telemetry.send(Span {
            trace: telemetry.ids.trace(&self.session),
            id: telemetry.ids.fresh(number),
            parent: around.then(|| telemetry.ids.session(&self.session)),
            remote_parent: false,
            state: telemetry.ids.parent().and_then(|parent| parent.state.clone()),
            name: [Some(asked.method), asked.name].into_iter().flatten().collect::<Vec<_>>().join(" "),
            kind: Kind::Client,
            begun,
            ended,
            attributes: telemetry.bounded(attributes),
            failed: asked.error.map(|error| telemetry.bounded_text(error)),
        });
    }

    fn ended(&self, carrier: &Carrier, revision: &str, after: Duration) {
        let attributes = of_carrier(carrier, revision);
        self.telemetry.exporter.measure(|all| all.add(metrics::CONNECTION, attributes, after));
    }
}

fn of_carrier(carrier: &Carrier, revision: &str) -> Vec<(&'static str, Value)> {
    let Carrier { transport, protocol, address, port, .. } = carrier;
    let mut attributes = vec![("network.transport", json!(transport))];
    if !revision.is_empty() {
        attributes.push(("mcp.protocol.version", json!(revision)));
    }
    attributes.extend(protocol.map(|protocol| ("network.protocol.name", json!(protocol))));
    attributes.extend(address.as_ref().map(|address| ("server.address", json!(address))));
    attributes.extend(port.map(|port| ("server.port", json!(port))));
    attributes
}
