//! Traces and metrics of tool calls, exported to an OpenTelemetry collector.
//!
//! [`Telemetry`] is the engine's [`Tracer`](haft::ports::Tracer) and an
//! [`Observer`](haft_mcp::RequestObserver) of MCP servers. It creates a span for each call and for each
//! MCP request outside of a call, measures their durations, and exports spans and metrics by OTLP
//! over HTTP from a background thread. The standard environment variables configure it:
//! [`TelemetryConfig::from_env`].
//!
//! ```
//! use haft_otel::{TelemetryConfig, Telemetry};
//!
//! // Nothing is sent unless a variable names a collector.
//! assert!(TelemetryConfig::from_env(&|_| None).unwrap().is_none());
//!
//! const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
//! let variables = |name: &str| (name == ENDPOINT).then(|| "http://127.0.0.1:9".into());
//! let config = TelemetryConfig::from_env(&variables).unwrap().unwrap();
//! let telemetry = Telemetry::start(config);
//! // … `ports.tracer = Some(telemetry.clone())` …
//! assert!(telemetry.shutdown().is_none(), "nothing was there to be sent");
//! ```
//!
//! # Cost
//!
//! A call never waits: spans go into a bounded queue, and spans that don't fit are counted. If the
//! collector is unreachable, the only effects are that count and one warning at the end.
//!
//! The two OTLP messages are encoded by hand (`otlp_encoding.rs`) instead of by the official SDK:
//! their format is stable, there are one kind of span and three metrics, and span ids must be known
//! before a span starts.
#![warn(missing_docs)]

mod duration_metrics;
pub mod limits;
mod otlp_encoding;
mod otlp_exporter;
mod span;
mod span_ids;
mod telemetry;
mod telemetry_config;

pub use telemetry::{SessionObserver, Telemetry};
pub use telemetry_config::{ConfigError, TelemetryConfig};
