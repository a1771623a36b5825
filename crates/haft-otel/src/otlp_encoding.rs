//! Protobuf encoding of the two OTLP messages: requests with spans and requests with metrics.
//!
//! The field numbers are those of `opentelemetry-proto` 1.x, which are frozen. A nested message is
//! encoded first and then written into its parent with its length.

use serde_json::Value;

use crate::duration_metrics::{BUCKET_BOUNDS, DurationHistogram, MetricSnapshot};
use crate::span::Span;

/// A message under construction.
#[derive(Debug, Default, Clone)]
struct ProtobufMessage(Vec<u8>);

/// The wire types of protobuf.
const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const LENGTH_DELIMITED: u32 = 2;
const FIXED32: u32 = 5;

impl ProtobufMessage {
    fn push_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn push_key(&mut self, field: u32, kind: u32) {
        self.push_varint(u64::from(field << 3 | kind));
    }

    fn number(mut self, field: u32, value: u64) -> ProtobufMessage {
        self.push_key(field, VARINT);
        self.push_varint(value);
        self
    }

    fn fixed64(mut self, field: u32, value: u64) -> ProtobufMessage {
        self.push_key(field, FIXED64);
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn fixed32(mut self, field: u32, value: u32) -> ProtobufMessage {
        self.push_key(field, FIXED32);
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn double(self, field: u32, value: f64) -> ProtobufMessage {
        self.fixed64(field, value.to_bits())
    }

    fn bytes(mut self, field: u32, bytes: &[u8]) -> ProtobufMessage {
        self.push_key(field, LENGTH_DELIMITED);
        self.push_varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    fn text(self, field: u32, text: &str) -> ProtobufMessage {
        self.bytes(field, text.as_bytes())
    }

    fn nested(self, field: u32, nested: &ProtobufMessage) -> ProtobufMessage {
        self.bytes(field, &nested.0)
    }

    fn repeated<T>(
        self,
        field: u32,
        all: impl IntoIterator<Item = T>,
        make: impl Fn(T) -> ProtobufMessage,
    ) -> ProtobufMessage {
        all.into_iter().fold(self, |message, one| message.nested(field, &make(one)))
    }
}

/// Encodes an `ExportTraceServiceRequest`.
pub(crate) fn encode_traces(resource: &[(String, String)], spans: &[Span]) -> Vec<u8> {
    let spans = ProtobufMessage::default().nested(1, &encode_scope()).repeated(2, spans, encode_span);
    let request = ProtobufMessage::default().nested(1, &encode_resource(resource)).nested(2, &spans);
    ProtobufMessage::default().nested(1, &request).0
}

/// Encodes an `ExportMetricsServiceRequest` with values that are cumulative since `start`.
pub(crate) fn encode_metrics(
    resource: &[(String, String)],
    (start, now): (u64, u64),
    all: &MetricSnapshot,
) -> Vec<u8> {
    let metrics = ProtobufMessage::default().nested(1, &encode_scope()).repeated(2, all, |(name, series)| {
        let points = ProtobufMessage::default()
            .repeated(1, series, |(attributes, series)| encode_data_point(attributes, series, (start, now)))
            .number(2, CUMULATIVE);
        ProtobufMessage::default().text(1, name).text(3, "s").nested(9, &points)
    });
    let request = ProtobufMessage::default().nested(1, &encode_resource(resource)).nested(2, &metrics);
    ProtobufMessage::default().nested(1, &request).0
}

/// `AGGREGATION_TEMPORALITY_CUMULATIVE`.
const CUMULATIVE: u64 = 2;

fn encode_resource(resource: &[(String, String)]) -> ProtobufMessage {
    ProtobufMessage::default()
        .repeated(1, resource, |(key, value)| encode_attribute(key, &Value::String(value.clone())))
}

fn encode_scope() -> ProtobufMessage {
    ProtobufMessage::default().text(1, "haft").text(2, env!("CARGO_PKG_VERSION"))
}

fn encode_span(span: &Span) -> ProtobufMessage {
    let mut message = ProtobufMessage::default().bytes(1, &span.trace).bytes(2, &span.id);
    if let Some(state) = &span.state {
        message = message.text(3, state);
    }
    if let Some(parent) = &span.parent {
        message = message.bytes(4, parent);
    }
    message = message.text(5, &span.name).number(6, span.kind as u64);
    message = message.fixed64(7, span.start_nanos).fixed64(8, span.end_nanos);
    message = message.repeated(9, &span.attributes, |(key, value)| encode_attribute(key, value));
    if let Some(error) = &span.error {
        let status = ProtobufMessage::default().text(2, error).number(3, 2);
        message = message.nested(15, &status);
    }
    // The sampled flag, the flag that the location of the parent is known, and whether the parent
    // is remote.
    let remote = if span.remote_parent { 0x300 } else { 0x100 };
    message.fixed32(16, 1 | remote)
}

fn encode_data_point(
    attributes: &[(&'static str, Value)],
    series: &DurationHistogram,
    (start, now): (u64, u64),
) -> ProtobufMessage {
    let counts: Vec<u8> = series.counts.iter().flat_map(|count| count.to_le_bytes()).collect();
    let bounds: Vec<u8> = BUCKET_BOUNDS.iter().flat_map(|bound| bound.to_le_bytes()).collect();
    ProtobufMessage::default()
        .fixed64(2, start)
        .fixed64(3, now)
        .fixed64(4, series.counts.iter().sum())
        .double(5, series.sum)
        .bytes(6, &counts)
        .bytes(7, &bounds)
        .repeated(9, attributes, |(key, value)| encode_attribute(key, value))
        .double(11, series.min)
        .double(12, series.max)
}

fn encode_attribute(key: &str, value: &Value) -> ProtobufMessage {
    ProtobufMessage::default().text(1, key).nested(2, &encode_any_value(value))
}

fn encode_any_value(value: &Value) -> ProtobufMessage {
    let message = ProtobufMessage::default();
    match value {
        Value::String(text) => message.text(1, text),
        Value::Bool(is) => message.number(2, u64::from(*is)),
        Value::Number(number) => match number.as_i64() {
            Some(number) => message.number(3, number.cast_unsigned()),
            None => message.double(4, number.as_f64().unwrap_or(f64::NAN)),
        },
        // Arrays and objects are exported as JSON text.
        other => message.text(1, &other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_and_lengths_are_those_of_protobuf() {
        let message = ProtobufMessage::default().number(1, 300).text(2, "é").fixed32(16, 1);
        assert_eq!(message.0, [8, 0xac, 2, 18, 2, 0xc3, 0xa9, 0x85, 1, 1, 0, 0, 0]);
        let long = ProtobufMessage::default().text(1, &"x".repeat(200));
        assert_eq!(&long.0[..3], [10, 200, 1]);
        assert_eq!(encode_any_value(&json!(-1)).0, [24, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1]);
        assert_eq!(encode_any_value(&json!(true)).0, [16, 1]);
        assert_eq!(encode_any_value(&json!([1])).0, [10, 3, b'[', b'1', b']']);
    }
}
