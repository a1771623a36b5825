//! Converts events of the engine and of MCP connections to spans and durations, by the conventions
//! for generative AI.
//!
//! A call of an MCP tool has one span, the span of the call: the conventions require that the
//! attributes of the server are added to it. Other MCP requests have spans of their own.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haft::event::{Event, EventKind};
use haft::ports::{CallPlace, TraceContext, Tracer};
use haft::redact::redact_text;
use haft::sync::lock;
use haft::text::truncate_chars;
use haft::{ResultBlock, ToolResult};
use haft_mcp::{CarrierInfo, CompletedRequest, RequestObserver};
use serde_json::{Value, json};

use crate::duration_metrics;
use crate::limits::{NOTES_MAX, OPEN_MAX, SESSIONS_MAX};
use crate::otlp_exporter::OtlpExporter;
use crate::span::{Span, SpanKind, to_nanos, unix_nanos_now};
use crate::span_ids::SpanIds;
use crate::telemetry_config::TelemetryConfig;

/// Traces and measures calls.
///
/// Start it once per program, pass it to engines as `ports.tracer` and to MCP hosts as their
/// observer, and call [`shutdown`](Telemetry::shutdown) at the end.
pub struct Telemetry {
    ids: SpanIds,
    exporter: OtlpExporter,
    /// Running calls.
    open: Mutex<HashMap<CallKey, OpenCall>>,
    /// The start time of the first call of each session.
    sessions: Mutex<HashMap<Arc<str>, u64>>,
    /// The number of the next span that doesn't belong to a call.
    next_span_number: AtomicU64,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct CallKey {
    session: Arc<str>,
    agent: Arc<str>,
    turn: u64,
    index: usize,
}

impl CallKey {
    fn from_place(place: &CallPlace<'_>) -> CallKey {
        let CallPlace { session, agent, turn, call, .. } = *place;
        CallKey { session: session.into(), agent: agent.into(), turn, index: call.index }
    }
}

struct OpenCall {
    start_nanos: u64,
    input: Option<Arc<Value>>,
    notes: Vec<(&'static str, Value)>,
}

impl Telemetry {
    /// Creates the tracer. It starts a thread and connects to the collector only when there is
    /// something to export.
    pub fn start(config: TelemetryConfig) -> Arc<Telemetry> {
        Arc::new(Telemetry {
            ids: SpanIds::new(config.parent.clone()),
            exporter: OtlpExporter::new(config),
            open: Mutex::default(),
            sessions: Mutex::default(),
            next_span_number: AtomicU64::new(0),
        })
    }

    /// Exports the remaining spans within [`SHUTDOWN_MAX`](crate::limits::SHUTDOWN_MAX). Blocks;
    /// returns a warning if something was lost.
    pub fn shutdown(&self) -> Option<String> {
        let end_nanos = unix_nanos_now();
        for (session, start_nanos) in lock(&self.sessions).drain() {
            let parent = self.ids.parent();
            self.send(Span {
                trace: self.ids.trace_id(&session),
                id: self.ids.session_span_id(&session),
                parent: parent.map(|parent| parent.span),
                remote_parent: parent.is_some(),
                state: parent.and_then(|parent| parent.state.clone()),
                name: "invoke_agent haft".to_owned(),
                kind: SpanKind::Internal,
                start_nanos,
                end_nanos,
                attributes: vec![
                    ("gen_ai.operation.name", json!("invoke_agent")),
                    ("gen_ai.agent.name", json!("haft")),
                    ("gen_ai.conversation.id", json!(*session)),
                ],
                error: None,
            });
        }
        self.exporter.shutdown()
    }

    /// Returns an observer for the MCP servers of a session.
    pub fn observer(self: &Arc<Telemetry>, session: impl Into<Arc<str>>) -> SessionObserver {
        SessionObserver { telemetry: self.clone(), session: session.into() }
    }

    fn send(&self, span: Span) {
        if self.ids.is_sampled() {
            self.exporter.enqueue(span);
        }
    }

    /// Stores the start time of a session, and returns whether the session will have a span.
    fn register_session(&self, session: &str, start_nanos: u64) -> bool {
        let mut sessions = lock(&self.sessions);
        if sessions.contains_key(session) {
            return true;
        }
        let room = sessions.len() < SESSIONS_MAX;
        if room {
            sessions.insert(session.into(), start_nanos);
        }
        room
    }

    fn record_finished(&self, place: &CallPlace<'_>, result: &ToolResult) {
        let end_nanos = unix_nanos_now();
        let open = lock(&self.open).remove(&CallKey::from_place(place));
        let open = open.unwrap_or(OpenCall { start_nanos: end_nanos, input: None, notes: Vec::new() });
        let error = result.error_kind().map(|kind| serde_json::to_value(kind).unwrap_or(Value::Null));
        let tool = json!(result.tool_name());

        let mut measured = vec![("gen_ai.tool.name", tool.clone())];
        measured.extend(error.clone().map(|error| ("error.type", error)));
        let took = result.duration();
        self.exporter.record_metrics(|all| all.record(duration_metrics::TOOL_CALL_DURATION, measured, took));

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
            attributes.push(("gen_ai.tool.call.result", json!(result_text(result))));
        }
        let has_session_span = self.register_session(place.session, open.start_nanos);
        self.send(Span {
            trace: self.ids.trace_id(place.session),
            id: self.ids.call_span_id(place),
            parent: has_session_span.then(|| self.ids.session_span_id(place.session)),
            remote_parent: false,
            state: self.ids.parent().and_then(|parent| parent.state.clone()),
            name: format!("execute_tool {}", result.tool_name()),
            kind: SpanKind::Internal,
            start_nanos: open.start_nanos,
            end_nanos: end_nanos.max(open.start_nanos),
            attributes: self.truncate_values(attributes),
            error: result.error().map(|error| self.redact_and_truncate(error.message())),
        });
    }

    fn truncate_values(&self, mut attributes: Vec<(&'static str, Value)>) -> Vec<(&'static str, Value)> {
        for (_, value) in &mut attributes {
            if let Value::String(text) = value {
                *text = self.redact_and_truncate(text);
            }
        }
        attributes
    }

    fn redact_and_truncate(&self, text: &str) -> String {
        truncate_chars(&redact_text(text), self.exporter.config().value_chars).to_owned()
    }
}

/// Returns the text that the model received.
fn result_text(result: &ToolResult) -> String {
    let texts = result.for_model().into_iter().map(|block| match block {
        ResultBlock::Text(text) => text.to_string(),
        ResultBlock::Structured(value) => value.to_string(),
        _ => "[not text]".to_owned(),
    });
    texts.collect::<Vec<_>>().join("\n")
}

impl Tracer for Telemetry {
    fn see(&self, event: &Event) {
        let Some(call) = &event.call else { return };
        let place = CallPlace::new(&event.session, &event.agent, event.turn, call);
        match &event.what {
            EventKind::Started { input, .. } => {
                let start_nanos = unix_nanos_now();
                let input = self.exporter.config().content.then(|| input.clone());
                let mut open = lock(&self.open);
                if open.len() >= OPEN_MAX {
                    drop(open);
                    self.exporter.count_lost();
                    return;
                }
                open.insert(CallKey::from_place(&place), OpenCall { start_nanos, input, notes: Vec::new() });
                drop(open);
                self.register_session(&event.session, start_nanos);
            }
            EventKind::Finished(result) => self.record_finished(&place, result),
            _ => {}
        }
    }

    fn context(&self, call: CallPlace<'_>) -> Option<TraceContext> {
        Some(self.ids.trace_context(&call))
    }

    fn note(&self, call: CallPlace<'_>, name: &'static str, value: Value) {
        if let Some(open) = lock(&self.open).get_mut(&CallKey::from_place(&call)) {
            open.notes.retain(|(known, _)| *known != name);
            if open.notes.len() < NOTES_MAX {
                open.notes.push((name, value));
            }
        }
    }
}

/// Observes the MCP servers of one session: see [`Telemetry::observer`].
pub struct SessionObserver {
    telemetry: Arc<Telemetry>,
    session: Arc<str>,
}

impl RequestObserver for SessionObserver {
    fn asked(&self, asked: &CompletedRequest<'_>) {
        let telemetry = &*self.telemetry;
        let mut attributes = vec![("mcp.method.name", json!(asked.method))];
        attributes.extend(carrier_attributes(asked.carrier, asked.revision));
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
        telemetry.exporter.record_metrics(|all| {
            all.record(duration_metrics::MCP_REQUEST_DURATION, attributes.clone(), took)
        });
        // The request is part of the call's span.
        if asked.method == "tools/call" {
            return;
        }
        attributes.extend(asked.uri.map(|uri| ("mcp.resource.uri", json!(uri))));
        attributes.push(("haft.mcp.server", json!(asked.server)));
        let end_nanos = unix_nanos_now();
        let start_nanos = end_nanos.saturating_sub(to_nanos(took));
        let has_session_span = telemetry.register_session(&self.session, start_nanos);
        let number = telemetry.next_span_number.fetch_add(1, Ordering::Relaxed);
        telemetry.send(Span {
            trace: telemetry.ids.trace_id(&self.session),
            id: telemetry.ids.standalone_span_id(number),
            parent: has_session_span.then(|| telemetry.ids.session_span_id(&self.session)),
            remote_parent: false,
            state: telemetry.ids.parent().and_then(|parent| parent.state.clone()),
            name: [Some(asked.method), asked.name].into_iter().flatten().collect::<Vec<_>>().join(" "),
            kind: SpanKind::Client,
            start_nanos,
            end_nanos,
            attributes: telemetry.truncate_values(attributes),
            error: asked.error.map(|error| telemetry.redact_and_truncate(error)),
        });
    }

    fn ended(&self, carrier: &CarrierInfo, revision: &str, after: Duration) {
        let attributes = carrier_attributes(carrier, revision);
        self.telemetry
            .exporter
            .record_metrics(|all| all.record(duration_metrics::MCP_SESSION_DURATION, attributes, after));
    }
}

fn carrier_attributes(carrier: &CarrierInfo, revision: &str) -> Vec<(&'static str, Value)> {
    let CarrierInfo { transport, protocol, address, port, .. } = carrier;
    let mut attributes = vec![("network.transport", json!(transport))];
    if !revision.is_empty() {
        attributes.push(("mcp.protocol.version", json!(revision)));
    }
    attributes.extend(protocol.map(|protocol| ("network.protocol.name", json!(protocol))));
    attributes.extend(address.as_ref().map(|address| ("server.address", json!(address))));
    attributes.extend(port.map(|port| ("server.port", json!(port))));
    attributes
}
