//! The two messages of OTLP, as protobuf: requests with spans and requests with metrics.
//!
//! Numbers of fields are those of `opentelemetry-proto` 1.x, which are frozen. Each message is written inside out: a part
//! is made whole, then put into the one around it with its length.

use serde_json::Value;

use crate::metrics::{BOUNDS, Measured, Series};
use crate::span::Span;

/// A message being written.
#[derive(Debug, Default, Clone)]
struct Message(Vec<u8>);

/// How a field's value is written.
const VARINT: u32 = 0;
const EIGHT_BYTES: u32 = 1;
const LENGTH: u32 = 2;
const FOUR_BYTES: u32 = 5;

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn key(&mut self, field: u32, kind: u32) {
        self.varint(u64::from(field << 3 | kind));
    }

    fn number(mut self, field: u32, value: u64) -> Message {
        self.key(field, VARINT);
        self.varint(value);
        self
    }

    fn fixed64(mut self, field: u32, value: u64) -> Message {
        self.key(field, EIGHT_BYTES);
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn fixed32(mut self, field: u32, value: u32) -> Message {
        self.key(field, FOUR_BYTES);
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn double(self, field: u32, value: f64) -> Message {
        self.fixed64(field, value.to_bits())
    }

    fn bytes(mut self, field: u32, bytes: &[u8]) -> Message {
        self.key(field, LENGTH);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    fn text(self, field: u32, text: &str) -> Message {
        self.bytes(field, text.as_bytes())
    }

    fn part(self, field: u32, part: &Message) -> Message {
        self.bytes(field, &part.0)
    }

    fn parts<T>(self, field: u32, all: impl IntoIterator<Item = T>, make: impl Fn(T) -> Message) -> Message {
        all.into_iter().fold(self, |message, one| message.part(field, &make(one)))
    }
}

/// A request with spans.
pub(crate) fn traces(resource: &[(String, String)], spans: &[Span]) -> Vec<u8> {
    let spans = Message::default().part(1, &scope()).parts(2, spans, span);
    let of_resource = Message::default().part(1, &who(resource)).part(2, &spans);
    Message::default().part(1, &of_resource).0
}

/// A request with metrics, all counted since `start`.
pub(crate) fn metrics(resource: &[(String, String)], (start, now): (u64, u64), all: &Measured) -> Vec<u8> {
    let metrics = Message::default().part(1, &scope()).parts(2, all, |(name, series)| {
        let points = Message::default()
            .parts(1, series, |(attributes, series)| point(attributes, series, (start, now)))
            .number(2, CUMULATIVE);
        Message::default().text(1, name).text(3, "s").part(9, &points)
    });
    let of_resource = Message::default().part(1, &who(resource)).part(2, &metrics);
    Message::default().part(1, &of_resource).0
}

/// `AGGREGATION_TEMPORALITY_CUMULATIVE`.
const CUMULATIVE: u64 = 2;

fn who(resource: &[(String, String)]) -> Message {
    Message::default().parts(1, resource, |(key, value)| attribute(key, &Value::String(value.clone())))
}

fn scope() -> Message {
    Message::default().text(1, "haft").text(2, env!("CARGO_PKG_VERSION"))
}

fn span(span: &Span) -> Message {
    let mut message = Message::default().bytes(1, &span.trace).bytes(2, &span.id);
    if let Some(state) = &span.state {
        message = message.text(3, state);
    }
    if let Some(parent) = &span.parent {
        message = message.bytes(4, parent);
    }
    message = message.text(5, &span.name).number(6, span.kind as u64);
    message = message.fixed64(7, span.begun).fixed64(8, span.ended);
    message = message.parts(9, &span.attributes, |(key, value)| attribute(key, value));
    if let Some(words) = &span.failed {
        let status = Message::default().text(2, words).number(3, 2);
        message = message.part(15, &status);
    }
    // Sampled; and where there is a parent, whether it lies in another process is known.
    let remote = if span.remote_parent { 0x300 } else { 0x100 };
    message.fixed32(16, 1 | remote)
}

fn point(attributes: &[(&'static str, Value)], series: &Series, (start, now): (u64, u64)) -> Message {
    let counts: Vec<u8> = series.counts.iter().flat_map(|count| count.to_le_bytes()).collect();
    let bounds: Vec<u8> = BOUNDS.iter().flat_map(|bound| bound.to_le_bytes()).collect();
    Message::default()
        .fixed64(2, start)
        .fixed64(3, now)
        .fixed64(4, series.counts.iter().sum())
        .double(5, series.sum)
        .bytes(6, &counts)
        .bytes(7, &bounds)
        .parts(9, attributes, |(key, value)| attribute(key, value))
        .double(11, series.least)
        .double(12, series.most)
}

fn attribute(key: &str, value: &Value) -> Message {
    Message::default().text(1, key).part(2, &any(value))
}

fn any(value: &Value) -> Message {
    let message = Message::default();
    match value {
        Value::String(text) => message.text(1, text),
        Value::Bool(is) => message.number(2, u64::from(*is)),
        Value::Number(number) => match number.as_i64() {
            Some(number) => message.number(3, number.cast_unsigned()),
            None => message.double(4, number.as_f64().unwrap_or(f64::NAN)),
        },
        // Whole values are told as the text that they are.
        other => message.text(1, &other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_and_lengths_are_those_of_protobuf() {
        let message = Message::default().number(1, 300).text(2, "é").fixed32(16, 1);
        assert_eq!(message.0, [8, 0xac, 2, 18, 2, 0xc3, 0xa9, 0x85, 1, 1, 0, 0, 0]);
        let long = Message::default().text(1, &"x".repeat(200));
        assert_eq!(&long.0[..3], [10, 200, 1]);
        assert_eq!(any(&json!(-1)).0, [24, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1]);
        assert_eq!(any(&json!(true)).0, [16, 1]);
        assert_eq!(any(&json!([1])).0, [10, 3, b'[', b'1', b']']);
    }
}
