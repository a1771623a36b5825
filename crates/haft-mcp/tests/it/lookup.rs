//! Resources and prompts, by the tools.

use haft::Registry;
use serde_json::{Value, json};

use crate::fake::{Fake, older, refusal, result};
use crate::{Room, host};

fn library() -> Fake {
    older("2025-06-18", json!({"resources": {}, "prompts": {}}), |message| {
        let params = &message["params"];
        match message["method"].as_str() {
            Some("resources/list") if params["cursor"].is_null() => {
                let book = json!({"uri": "book://1", "name": "One", "description": "A b\u{202e}ook", "mimeType": "text/plain"});
                result(message, json!({"resources": [book], "nextCursor": "2"}))
            }
            Some("resources/list") => {
                result(message, json!({"resources": [{"uri": "book://2", "name": "Two"}]}))
            }
            Some("resources/read") if params["uri"] == "book://1" => {
                let text = json!({"uri": "book://1", "text": "Once upon a time"});
                let cover = json!({"uri": "book://1/cover", "blob": "YWJj", "mimeType": "image/png"});
                result(message, json!({"contents": [text, cover]}))
            }
            Some("prompts/list") => {
                let arguments = json!([{"name": "who", "required": true}]);
                result(
                    message,
                    json!({"prompts": [{"name": "greet", "description": "Greets.", "arguments": arguments}]}),
                )
            }
            Some("prompts/get") => {
                let words = format!("Greet {}", params["arguments"]["who"].as_str().unwrap());
                let said = json!({"role": "user", "content": {"type": "text", "text": words}});
                result(message, json!({"messages": [said]}))
            }
            _ => refusal(message, -32601),
        }
    })
}

async fn room() -> Room {
    let other = older("2025-11-25", json!({}), |message| refusal(message, -32601));
    let mut room = Room::settled([library().in_process("lib"), other.in_process("other")], host()).await;
    room.base = Registry::new().with(room.servers.tools()).unwrap();
    room.refresh();
    room
}

#[tokio::test]
async fn resources_are_listed_over_all_servers_and_read() {
    let room = room().await;
    let listed: Value = serde_json::from_str(&room.text("ListMcpResources", json!({})).await).unwrap();
    assert_eq!(
        listed,
        json!([
            {"server": "lib", "uri": "book://1", "name": "One", "description": "A b\\u{202e}ook", "mimeType": "text/plain"},
            {"server": "lib", "uri": "book://2", "name": "Two"},
        ])
    );
    let read = room.call("ReadMcpResource", json!({"server": "lib", "uri": "book://1"})).await;
    assert_eq!(
        read.to_json().output,
        json!([
            {"type": "text", "text": "[resource book://1]\nOnce upon a time"},
            {"type": "image", "media_type": "image/png", "name": "book://1/cover", "data": "YWJj"},
        ])
    );
    let words = room.failure("ReadMcpResource", json!({"server": "lib", "uri": "book://9"})).await;
    assert_eq!(words, "the MCP server `lib` answered with error -32601: no");
    let words = room.failure("ListMcpResourcesTool", json!({"server": "nobody"})).await;
    assert_eq!(words, "no MCP server named `nobody`; there are `lib`, `other`");
}

#[tokio::test]
async fn prompts_are_listed_and_filled_in() {
    let room = room().await;
    let listed: Value = serde_json::from_str(&room.text("ListMcpPrompts", json!({})).await).unwrap();
    let arguments = json!([{"name": "who", "description": null, "required": true}]);
    assert_eq!(
        listed,
        json!([{"server": "lib", "name": "greet", "description": "Greets.", "arguments": arguments}])
    );
    let got = room
        .call("GetMcpPrompt", json!({"server": "lib", "name": "greet", "arguments": {"who": "Ada"}}))
        .await;
    assert_eq!(
        got.to_json().output,
        json!([{"type": "text", "text": "[user]"}, {"type": "text", "text": "Greet Ada"}])
    );
}
