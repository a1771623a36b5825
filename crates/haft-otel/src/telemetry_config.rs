//! Configuration from the standard OpenTelemetry environment variables that apply here.
//!
//! Nothing is exported unless a variable names a collector: a command-line tool must not connect to
//! `localhost` by default. An invalid value is an error unless the standard requires ignoring it.

use std::fmt;
use std::time::Duration;

use haft::env::VariableLookup;
use haft::text::truncate_chars;

use crate::limits;
use crate::span_ids::RemoteParent;

/// The export targets and settings.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TelemetryConfig {
    /// The target for traces; `None` disables them.
    pub traces: Option<ExportTarget>,
    /// The target for metrics; `None` disables them.
    pub metrics: Option<ExportTarget>,
    /// The resource attributes of this program: `service.name` and others.
    pub resource: Vec<(String, String)>,
    /// Whether spans contain the inputs and results of calls. Off by default, because they may
    /// contain secrets.
    pub content: bool,
    /// The capacity of the span queue.
    pub queue: usize,
    /// How many spans one request contains.
    pub batch: usize,
    /// How long a span waits for a full batch.
    pub delay: Duration,
    /// The interval between exports of metrics.
    pub interval: Duration,
    /// The maximum length of an attribute value, in characters.
    pub value_chars: usize,
    pub(crate) parent: Option<RemoteParent>,
}

/// An endpoint for one kind of message.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ExportTarget {
    /// The complete URL.
    pub url: String,
    /// Additional headers.
    pub headers: Vec<(String, String)>,
    /// The timeout of a request.
    pub timeout: Duration,
}

/// An environment variable with an invalid value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    name: String,
    reason: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the environment variable `{}`: {}", self.name, self.reason)
    }
}

impl std::error::Error for ConfigError {}

impl TelemetryConfig {
    /// Reads the variables. Returns `None` if no collector is configured or telemetry is disabled.
    ///
    /// # Errors
    /// A variable has an invalid value.
    pub fn from_env(lookup: VariableLookup<'_>) -> Result<Option<TelemetryConfig>, ConfigError> {
        let get = |name: &str| {
            let value = lookup(name)?.to_string_lossy().trim().to_owned();
            (!value.is_empty()).then_some(value)
        };
        let is_true = |name: &str| get(name).is_some_and(|value| value.eq_ignore_ascii_case("true"));
        if is_true("OTEL_SDK_DISABLED") {
            return Ok(None);
        }
        let traces = parse_target(&get, "TRACES", "v1/traces")?;
        let metrics = parse_target(&get, "METRICS", "v1/metrics")?;
        if traces.is_none() && metrics.is_none() {
            return Ok(None);
        }
        let duration = |name: &str, default| match get(name) {
            Some(value) => parse_number(name, &value).map(Duration::from_millis),
            None => Ok(default),
        };
        let count = |name: &str, default: usize| match get(name) {
            Some(value) => parse_number(name, &value).map(|n| usize::try_from(n).unwrap_or(usize::MAX)),
            None => Ok(default),
        };
        let queue = count("OTEL_BSP_MAX_QUEUE_SIZE", limits::QUEUE_MAX)?.clamp(1, 1_000_000);
        Ok(Some(TelemetryConfig {
            traces,
            metrics,
            resource: resource_attributes(&get)?,
            content: is_true("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"),
            queue,
            batch: count("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", limits::BATCH_MAX)?.clamp(1, queue),
            delay: duration("OTEL_BSP_SCHEDULE_DELAY", limits::SPAN_DELAY)?,
            interval: duration("OTEL_METRIC_EXPORT_INTERVAL", limits::METRIC_INTERVAL)?,
            value_chars: count("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", limits::VALUE_CHARS_MAX)?,
            parent: get(haft::ports::TRACEPARENT)
                .and_then(|parent| RemoteParent::parse(&parent, get(haft::ports::TRACESTATE).as_deref())),
        }))
    }
}

/// Reads the endpoint for traces or metrics.
fn parse_target(
    get: &dyn Fn(&str) -> Option<String>,
    kind: &str,
    path: &str,
) -> Result<Option<ExportTarget>, ConfigError> {
    let variable = format!("OTEL_{kind}_EXPORTER");
    match get(&variable).as_deref() {
        None | Some("otlp") => {}
        Some("none") => return Ok(None),
        Some(other) => return Err(invalid_value(&variable, other, "`otlp` and `none` are accepted")),
    }
    // The variable for this kind takes precedence over the general one.
    let either = |end: &str| {
        let own = format!("OTEL_EXPORTER_OTLP_{kind}_{end}");
        let all = format!("OTEL_EXPORTER_OTLP_{end}");
        get(&own).map(|value| (own, value)).or_else(|| get(&all).map(|value| (all, value)))
    };
    let own = format!("OTEL_EXPORTER_OTLP_{kind}_ENDPOINT");
    let Some((name, endpoint)) = either("ENDPOINT") else { return Ok(None) };
    let is_web = ["http://", "https://"].iter().any(|start| endpoint.to_ascii_lowercase().starts_with(start));
    if !is_web || endpoint.contains(char::is_whitespace) {
        return Err(invalid_value(
            &name,
            &endpoint,
            "an address that begins with `http://` or `https://` is accepted",
        ));
    }
    if let Some((name, protocol)) = either("PROTOCOL").filter(|(_, protocol)| protocol != "http/protobuf") {
        return Err(invalid_value(&name, &protocol, "`http/protobuf` is what this program speaks"));
    }
    let url = if name == own { endpoint } else { format!("{}/{path}", endpoint.trim_end_matches('/')) };
    let headers = match either("HEADERS") {
        Some((name, list)) => parse_pairs(&name, &list)?,
        None => Vec::new(),
    };
    let timeout = match either("TIMEOUT") {
        Some((name, value)) => Duration::from_millis(parse_number(&name, &value)?),
        None => limits::EXPORT_TIMEOUT,
    };
    Ok(Some(ExportTarget { url, headers, timeout }))
}

/// Returns the attributes that identify this program.
fn resource_attributes(get: &dyn Fn(&str) -> Option<String>) -> Result<Vec<(String, String)>, ConfigError> {
    let variable = "OTEL_RESOURCE_ATTRIBUTES";
    let mut all = match get(variable) {
        Some(list) => parse_pairs(variable, &list)?,
        None => Vec::new(),
    };
    if let Some(name) = get("OTEL_SERVICE_NAME") {
        all.retain(|(key, _)| key != "service.name");
        all.push(("service.name".to_owned(), name));
    }
    let version = env!("CARGO_PKG_VERSION");
    let defaults =
        [("service.name", "haft"), ("service.version", version), ("telemetry.sdk.language", "rust")];
    for (key, value) in defaults {
        if !all.iter().any(|(known, _)| known == key) {
            all.push((key.to_owned(), value.to_owned()));
        }
    }
    Ok(all)
}

/// Parses `key=value,key=value` with percent-encoded values.
fn parse_pairs(name: &str, list: &str) -> Result<Vec<(String, String)>, ConfigError> {
    let mut pairs = Vec::new();
    for pair in list.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let invalid_list = || ConfigError {
            name: name.to_owned(),
            // The message omits the value because it may be a secret.
            reason: "a list such as `key=value,other=value` is accepted, with `%2C` for a comma".to_owned(),
        };
        let (key, value) = pair.split_once('=').ok_or_else(invalid_list)?;
        let (key, value) = (key.trim(), percent_decode(value.trim()).ok_or_else(invalid_list)?);
        if key.is_empty() {
            return Err(invalid_list());
        }
        pairs.push((key.to_owned(), value));
    }
    Ok(pairs)
}

fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, after @ ..] = rest {
        rest = after;
        if *byte != b'%' {
            bytes.push(*byte);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        let digits = std::str::from_utf8(digits).ok().filter(|text| !text.starts_with('+'))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

fn parse_number(name: &str, value: &str) -> Result<u64, ConfigError> {
    value.parse().map_err(|_| invalid_value(name, value, "a whole number is accepted"))
}

fn invalid_value(name: &str, value: &str, accepted: &str) -> ConfigError {
    let shown = truncate_chars(value, 60);
    ConfigError { name: name.to_owned(), reason: format!("{shown:?} can't be used; {accepted}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Option<TelemetryConfig>, String> {
        let lookup =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).into());
        TelemetryConfig::from_env(&lookup).map_err(|error| error.to_string())
    }

    const ALL: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318/");

    #[test]
    fn nothing_is_sent_unless_a_collector_is_named() {
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&[("OTEL_SERVICE_NAME", "x"), ("OTEL_EXPORTER_OTLP_ENDPOINT", " ")]), Ok(None));
        assert_eq!(read(&[ALL, ("OTEL_SDK_DISABLED", "TRUE")]), Ok(None));
        assert_eq!(
            read(&[ALL, ("OTEL_TRACES_EXPORTER", "none"), ("OTEL_METRICS_EXPORTER", "none")]),
            Ok(None)
        );
    }

    #[test]
    fn an_address_for_all_gets_paths_and_one_for_a_kind_is_taken_as_it_is() {
        let config = read(&[ALL]).unwrap().unwrap();
        assert_eq!(config.traces.unwrap().url, "http://c:4318/v1/traces");
        assert_eq!(config.metrics.unwrap().url, "http://c:4318/v1/metrics");
        let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://t/x");
        let config = read(&[own]).unwrap().unwrap();
        assert_eq!(config.traces.unwrap().url, "https://t/x");
        assert_eq!(config.metrics, None);
    }

    #[test]
    fn headers_and_names_are_read() {
        let config = read(&[
            ALL,
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20x, b = c"),
            ("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "250"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=a,team=t%2Cu"),
            ("OTEL_SERVICE_NAME", "mine"),
        ]);
        let config = config.unwrap().unwrap();
        let traces = config.traces.unwrap();
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(traces.headers, [pair("authorization", "Bearer x"), pair("b", "c")]);
        assert_eq!(traces.timeout, limits::EXPORT_TIMEOUT);
        assert_eq!(config.metrics.unwrap().timeout, Duration::from_millis(250));
        assert_eq!(config.resource[..2], [pair("team", "t,u"), pair("service.name", "mine")]);
    }

    #[test]
    fn what_cannot_be_used_is_said_in_words() {
        for (variable, value, part) in [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "`http/protobuf` is what this program speaks"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon", "a whole number is accepted"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a", "key=value"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=%zz", "key=value"),
            ("OTEL_TRACES_EXPORTER", "zipkin", "`otlp` and `none` are accepted"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "localhost:4317", "begins with `http://`"),
        ] {
            let message = read(&[ALL, (variable, value)]).unwrap_err();
            assert!(message.contains(part) && message.contains(variable), "{message}");
        }
        let message = read(&[ALL, ("OTEL_EXPORTER_OTLP_HEADERS", "secret")]).unwrap_err();
        assert!(!message.contains("secret"), "{message}");
    }
}
