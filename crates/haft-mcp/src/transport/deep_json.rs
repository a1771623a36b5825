//! Lists of tools that nest deeper than JSON is read: one schema without end must not cost the tools beside
//! it.
//!
//! What is too deep is cut out of the text, and the tool that it was part of is marked, since half a schema
//! is another schema. Results of calls are not mended so: there nothing but the whole is an answer.

use serde_json::Value;

/// How deep a list is read. The reader of JSON gives up a little below.
const DEPTH_MAX: usize = 120;

/// What stands in the place of the schema of a tool that nests too deep.
pub(crate) const TOO_DEEP: &str = "it nests too deep";

/// The list of tools in a message that can't be read because something in it nests too deep.
pub(crate) fn parse_deep_list(message: &[u8]) -> Option<Value> {
    let mut value: Value = serde_json::from_slice(&cut_deep_values(message)?).ok()?;
    for tool in value.get_mut("result")?.get_mut("tools")?.as_array_mut()? {
        if is_cut(tool)
            && let Some(fields) = tool.as_object_mut()
        {
            fields.retain(|key, _| key == "name");
            fields.insert("inputSchema".to_owned(), TOO_DEEP.into());
        }
    }
    Some(value)
}

fn is_cut(value: &Value) -> bool {
    match value {
        Value::String(text) => text == TOO_DEEP,
        Value::Array(items) => items.iter().any(is_cut),
        Value::Object(fields) => fields.values().any(is_cut),
        _ => false,
    }
}

/// The text without what nests too deep; nothing if nothing does.
fn cut_deep_values(text: &[u8]) -> Option<Vec<u8>> {
    let mut kept = Vec::new();
    let (mut depth, mut deepest, mut in_text, mut escaped) = (0_usize, 0, false, false);
    for byte in text {
        let opens = !in_text && matches!(byte, b'{' | b'[');
        let closes = !in_text && matches!(byte, b'}' | b']');
        if opens {
            depth += 1;
            deepest = deepest.max(depth);
            if depth == DEPTH_MAX + 1 {
                kept.extend_from_slice(format!("\"{TOO_DEEP}\"").as_bytes());
            }
        }
        if depth <= DEPTH_MAX {
            kept.push(*byte);
        }
        if closes {
            depth = depth.checked_sub(1)?;
        } else if in_text {
            in_text = escaped || *byte != b'"';
            escaped = !escaped && *byte == b'\\';
        } else if *byte == b'"' {
            in_text = true;
        }
    }
    (deepest > DEPTH_MAX).then_some(kept)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_schema_without_end_costs_its_tool_alone() {
        let deep =
            |levels: usize| format!("{}{{}}{}", "{\"a\":[\"}\\\"\",".repeat(levels), "]}".repeat(levels));
        let message = |levels: usize| {
            format!(
                r#"{{"id":1,"result":{{"tools":[{{"name":"a","inputSchema":{{}}}},
                {{"name":"deep","inputSchema":{{"x":{}}}}},{{"name":"b","inputSchema":{{}}}}]}}}}"#,
                deep(levels)
            )
        };
        assert_eq!(parse_deep_list(message(10).as_bytes()), None, "nothing has to be mended");
        for levels in [70, 5_000] {
            let text = message(levels);
            assert!(serde_json::from_str::<Value>(&text).is_err());
            let tools = parse_deep_list(text.as_bytes()).unwrap()["result"]["tools"].take();
            let plain = |name: &str| json!({"name": name, "inputSchema": {}});
            assert_eq!(tools, json!([plain("a"), {"name": "deep", "inputSchema": TOO_DEEP}, plain("b")]));
        }
        assert_eq!(parse_deep_list(br#"{"result":{"tools":]]]]"#), None);
        assert_eq!(parse_deep_list(format!(r#"{{"result":{}}}"#, deep(500)).as_bytes()), None, "no list");
    }
}
