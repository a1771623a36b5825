//! The standard variables of OpenTelemetry, as far as they mean something here.
//!
//! Nothing is sent unless a variable names a collector: a tool on somebody's machine doesn't call `localhost` because it
//! was built so. A value that can't be used is an error in words, except where the standard says to go on without it.

use std::fmt;
use std::time::Duration;

use haft::env::Lookup;
use haft::text::truncate_chars;

use crate::id::Parent;
use crate::limits;

/// Where to send what, and as whom.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Config {
    /// Where traces go; nowhere if they aren't wanted.
    pub traces: Option<Target>,
    /// Where metrics go; nowhere if they aren't wanted.
    pub metrics: Option<Target>,
    /// What is said of this program in each request: `service.name` and others.
    pub resource: Vec<(String, String)>,
    /// Whether inputs and results of calls are part of spans. They may have secrets in them, so it is asked for.
    pub content: bool,
    /// How many spans wait, and how many one request has.
    pub queue: usize,
    /// How many spans one request has.
    pub batch: usize,
    /// How long spans wait for others.
    pub delay: Duration,
    /// How often metrics are sent.
    pub interval: Duration,
    /// The longest text of an attribute, in characters.
    pub value_chars: usize,
    pub(crate) parent: Option<Parent>,
}

/// An address that takes one kind of message.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Target {
    /// The whole address.
    pub url: String,
    /// Headers beside the usual ones.
    pub headers: Vec<(String, String)>,
    /// How long a request may take.
    pub timeout: Duration,
}

/// A variable whose value can't be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadConfig {
    name: String,
    reason: String,
}

impl fmt::Display for BadConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the environment variable `{}`: {}", self.name, self.reason)
    }
}

impl std::error::Error for BadConfig {}

impl Config {
    /// Reads the variables; none if they name no collector, or turn everything off.
    ///
    /// # Errors
    /// A value that can't be used, and what is accepted.
    pub fn from_env(lookup: Lookup<'_>) -> Result<Option<Config>, BadConfig> {
        let get = |name: &str| {
            let value = lookup(name)?.to_string_lossy().trim().to_owned();
            (!value.is_empty()).then_some(value)
        };
        let is_true = |name: &str| get(name).is_some_and(|value| value.eq_ignore_ascii_case("true"));
        if is_true("OTEL_SDK_DISABLED") {
            return Ok(None);
        }
        let traces = target(&get, "TRACES", "v1/traces")?;
        let metrics = target(&get, "METRICS", "v1/metrics")?;
        if traces.is_none() && metrics.is_none() {
            return Ok(None);
        }
        let millis = |name: &str, usual| match get(name) {
            Some(value) => number(name, &value).map(Duration::from_millis),
            None => Ok(usual),
        };
        let count = |name: &str, usual: usize| match get(name) {
            Some(value) => number(name, &value).map(|n| usize::try_from(n).unwrap_or(usize::MAX)),
            None => Ok(usual),
        };
        let queue = count("OTEL_BSP_MAX_QUEUE_SIZE", limits::QUEUE_MAX)?.clamp(1, 1_000_000);
        Ok(Some(Config {
            traces,
            metrics,
            resource: resource(&get)?,
            content: is_true("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"),
            queue,
            batch: count("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", limits::BATCH_MAX)?.clamp(1, queue),
            delay: millis("OTEL_BSP_SCHEDULE_DELAY", limits::SPAN_DELAY)?,
            interval: millis("OTEL_METRIC_EXPORT_INTERVAL", limits::METRIC_INTERVAL)?,
            value_chars: count("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", limits::VALUE_CHARS_MAX)?,
            parent: get(haft::ports::TRACEPARENT)
                .and_then(|parent| Parent::read(&parent, get(haft::ports::TRACESTATE).as_deref())),
        }))
    }
}

/// Where one kind of message goes.
fn target(get: &dyn Fn(&str) -> Option<String>, kind: &str, path: &str) -> Result<Option<Target>, BadConfig> {
    let wanted = format!("OTEL_{kind}_EXPORTER");
    match get(&wanted).as_deref() {
        None | Some("otlp") => {}
        Some("none") => return Ok(None),
        Some(other) => return Err(bad(&wanted, other, "`otlp` and `none` are accepted")),
    }
    // The name of a variable for this kind alone, then that for all.
    let either = |end: &str| {
        let own = format!("OTEL_EXPORTER_OTLP_{kind}_{end}");
        let all = format!("OTEL_EXPORTER_OTLP_{end}");
        get(&own).map(|value| (own, value)).or_else(|| get(&all).map(|value| (all, value)))
    };
    let own = format!("OTEL_EXPORTER_OTLP_{kind}_ENDPOINT");
    let Some((name, endpoint)) = either("ENDPOINT") else { return Ok(None) };
    let is_web = ["http://", "https://"].iter().any(|start| endpoint.to_ascii_lowercase().starts_with(start));
    if !is_web || endpoint.contains(char::is_whitespace) {
        return Err(bad(&name, &endpoint, "an address that begins with `http://` or `https://` is accepted"));
    }
    if let Some((name, protocol)) = either("PROTOCOL").filter(|(_, protocol)| protocol != "http/protobuf") {
        return Err(bad(&name, &protocol, "`http/protobuf` is what this program speaks"));
    }
    let url = if name == own { endpoint } else { format!("{}/{path}", endpoint.trim_end_matches('/')) };
    let headers = match either("HEADERS") {
        Some((name, list)) => pairs(&name, &list)?,
        None => Vec::new(),
    };
    let timeout = match either("TIMEOUT") {
        Some((name, value)) => Duration::from_millis(number(&name, &value)?),
        None => limits::EXPORT_TIMEOUT,
    };
    Ok(Some(Target { url, headers, timeout }))
}

/// Who sends.
fn resource(get: &dyn Fn(&str) -> Option<String>) -> Result<Vec<(String, String)>, BadConfig> {
    let given = "OTEL_RESOURCE_ATTRIBUTES";
    let mut all = match get(given) {
        Some(list) => pairs(given, &list)?,
        None => Vec::new(),
    };
    if let Some(name) = get("OTEL_SERVICE_NAME") {
        all.retain(|(key, _)| key != "service.name");
        all.push(("service.name".to_owned(), name));
    }
    let version = env!("CARGO_PKG_VERSION");
    let usual = [("service.name", "haft"), ("service.version", version), ("telemetry.sdk.language", "rust")];
    for (key, value) in usual {
        if !all.iter().any(|(known, _)| known == key) {
            all.push((key.to_owned(), value.to_owned()));
        }
    }
    Ok(all)
}

/// `key=value,key=value`, where `%` and two digits stand for a byte.
fn pairs(name: &str, list: &str) -> Result<Vec<(String, String)>, BadConfig> {
    let mut pairs = Vec::new();
    for pair in list.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let wrong = || BadConfig {
            name: name.to_owned(),
            // The value may be a key of somebody's.
            reason: "a list such as `key=value,other=value` is accepted, with `%2C` for a comma".to_owned(),
        };
        let (key, value) = pair.split_once('=').ok_or_else(wrong)?;
        let (key, value) = (key.trim(), decoded(value.trim()).ok_or_else(wrong)?);
        if key.is_empty() {
            return Err(wrong());
        }
        pairs.push((key.to_owned(), value));
    }
    Ok(pairs)
}

fn decoded(text: &str) -> Option<String> {
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

fn number(name: &str, value: &str) -> Result<u64, BadConfig> {
    value.parse().map_err(|_| bad(name, value, "a whole number is accepted"))
}

fn bad(name: &str, value: &str, accepted: &str) -> BadConfig {
    let shown = truncate_chars(value, 60);
    BadConfig { name: name.to_owned(), reason: format!("{shown:?} can't be used; {accepted}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Option<Config>, String> {
        let lookup =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).into());
        Config::from_env(&lookup).map_err(|bad| bad.to_string())
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
            let words = read(&[ALL, (variable, value)]).unwrap_err();
            assert!(words.contains(part) && words.contains(variable), "{words}");
        }
        let words = read(&[ALL, ("OTEL_EXPORTER_OTLP_HEADERS", "secret")]).unwrap_err();
        assert!(!words.contains("secret"), "{words}");
    }
}
