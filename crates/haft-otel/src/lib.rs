//! What calls did and how long they took, for an OpenTelemetry collector.
//!
//! [`Telemetry`] is the engine's [`Tracer`](haft::ports::Tracer) and an [`Observer`](haft_mcp::Observer) of MCP servers. It
//! makes a span of each call and of each request to a server that no call asked for, measures how long they take, and sends
//! both by OTLP over HTTP from a thread of its own. Where to is said by the standard variables: [`Config::from_env`].
//!
//! ```
//! use haft_otel::{Config, Telemetry};
//!
//! // Nothing is sent unless a variable names a collector.
//! assert!(Config::from_env(&|_| None).unwrap().is_none());
//!
//! let variables = |name: &str| (name == "OTEL_EXPORTER_OTLP_ENDPOINT").then(|| "http://127.0.0.1:9".into());
//! let config = Config::from_env(&variables).unwrap().unwrap();
//! let telemetry = Telemetry::start(config);
//! // … `ports.tracer = Some(telemetry.clone())` …
//! assert!(telemetry.shutdown().is_none(), "nothing was there to be sent");
//! ```
//!
//! # What it costs
//!
//! A call waits for nothing: spans go into a bounded queue, and what doesn't fit is counted. A collector that is gone costs
//! that count and one warning at the end.
//!
//! The decision to question: the two messages of OTLP are written by hand (`wire.rs`), not by the official SDK. Their form is
//! stable, one kind of span and three metrics are sent, and ids have to be known before a span begins.
#![warn(missing_docs)]

mod config;
mod export;
mod id;
pub mod limits;
mod metrics;
mod span;
mod telemetry;
mod wire;

pub use config::{BadConfig, Config};
pub use telemetry::{SessionObserver, Telemetry};
