//! Traces and metrics of this program, where it was built with them (feature `otel`) and the environment
//! names a collector.
//!
//! One for the whole program: sessions of a server share it. Without the feature everything here is nothing.

#[cfg(feature = "otel")]
pub(crate) use self::with::close;
#[cfg(feature = "otel")]
use self::with::{observer, tracer};
#[cfg(not(feature = "otel"))]
pub(crate) use self::without::close;
#[cfg(not(feature = "otel"))]
use self::without::{observer, tracer};

#[cfg(feature = "otel")]
mod with {
    use std::sync::{Arc, OnceLock};

    use haft::ports::Tracer;
    use haft_mcp::RequestObserver;
    use haft_otel::{Telemetry, TelemetryConfig};

    use crate::output;

    static TELEMETRY: OnceLock<Option<Arc<Telemetry>>> = OnceLock::new();

    /// The one of this program, begun when it is first asked for.
    fn telemetry() -> Option<Arc<Telemetry>> {
        let begin = || match TelemetryConfig::from_env(&|name| std::env::var_os(name)) {
            Ok(config) => config.map(Telemetry::start),
            // What can't be measured must not keep anybody from working.
            Err(bad) => {
                output::print_warning(&output::one_line(&format!("nothing is sent to a collector: {bad}")));
                None
            }
        };
        TELEMETRY.get_or_init(begin).clone()
    }

    /// Who traces the calls of a session, if anybody does.
    pub(crate) fn tracer() -> Option<Arc<dyn Tracer>> {
        telemetry().map(|telemetry| telemetry as Arc<dyn Tracer>)
    }

    /// Who watches the servers of a session, if anybody does.
    pub(crate) fn observer(session: &str) -> Option<Arc<dyn RequestObserver>> {
        telemetry().map(|telemetry| Arc::new(telemetry.observer(session)) as Arc<dyn RequestObserver>)
    }

    /// Sends what is left, and says what was lost. To be called when nothing runs any more.
    pub(crate) fn close() {
        if let Some(Some(telemetry)) = TELEMETRY.get()
            && let Some(words) = telemetry.shutdown()
        {
            output::print_warning(&output::one_line(&words));
        }
    }
}

#[cfg(not(feature = "otel"))]
mod without {
    use std::sync::Arc;

    use haft::ports::Tracer;
    use haft_mcp::RequestObserver;

    pub(crate) fn tracer() -> Option<Arc<dyn Tracer>> {
        None
    }

    pub(crate) fn observer(_session: &str) -> Option<Arc<dyn RequestObserver>> {
        None
    }

    pub(crate) fn close() {}
}

/// The telemetry of this program, for its sessions.
pub(crate) struct ProgramTelemetry;

impl haft_session::TelemetrySource for ProgramTelemetry {
    fn tracer(&self) -> Option<std::sync::Arc<dyn haft::ports::Tracer>> {
        tracer()
    }

    fn observer(&self, session: &str) -> Option<std::sync::Arc<dyn haft_mcp::RequestObserver>> {
        observer(session)
    }
}
