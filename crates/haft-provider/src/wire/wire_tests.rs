//! What holds for every registered wire, the made-up one of this folder among them: it is registered and
//! nothing else.

use haft::{Effects, Engine, NoInput, Registry, ToolCall, tool};
use haft_agent::{
    AgentLoop, Conversation, ModelReply, ModelRequest, ReplyDelta, StopReason, ToolDefinitions,
};
use serde_json::{Value, json};

use super::Wire;
use super::script_message::{ScriptCall, ScriptMessage};
use crate::conversation_format::encode_result;
use crate::scripted::{ModelScript, ScriptedModel, StopKind};
use crate::stream::{MessageReader, read_response};
use crate::transcript::{self, TranscriptForm};
use crate::{DefinitionCache, RequestOptions, decode_message};

fn engine() -> Engine {
    let add =
        tool("now", "Tells the time.", |_: NoInput, _| async { Ok("noon") }).effects(|_| Effects::none());
    Engine::new(Registry::new().with(add).unwrap())
}

fn message(stop: Option<StopKind>) -> ScriptMessage {
    let call = |id: &str, input: &str| ScriptCall { id: id.into(), name: "now".into(), input: input.into() };
    ScriptMessage {
        id: "m".into(),
        model: "m1".into(),
        text: "Só, I look.".into(),
        calls: vec![call("a", "{}"), call("b", r#"{"x":1}"#)],
        stop,
        ..ScriptMessage::default()
    }
}

fn streamed(wire: Wire, message: &ScriptMessage, chars: usize) -> (Vec<ReplyDelta>, ModelReply) {
    let (mut reader, mut deltas) = (MessageReader::new(wire), Vec::new());
    for event in (wire.format().script.write_events)(message, chars) {
        reader.feed(event.as_bytes(), &mut deltas);
    }
    let reply = reader.finish(&mut deltas);
    (deltas, reply)
}

/// A message that comes whole is a stream of one event.
#[test]
fn a_whole_message_and_its_stream_are_one() {
    for wire in Wire::ALL {
        for (stop, calls) in [(None, 2), (Some(StopKind::MaxTokens), 1)] {
            let message = message(stop);
            let response = (wire.format().script.write_response)(&message).to_string();
            let at_once = read_response(wire, &response).unwrap();
            let (deltas, reply) = streamed(wire, &message, 3);
            assert_eq!(reply.calls().len(), calls, "{wire}");
            let ready = deltas.iter().filter(|delta| matches!(delta, ReplyDelta::CallReady { .. })).count();
            assert_eq!(ready, calls, "{wire}");
            assert_eq!((reply.calls(), reply.text()), (at_once.calls(), at_once.text()), "{wire}");
            assert_eq!((reply.stop().word(), reply.model()), (at_once.stop().word(), Some("m1")), "{wire}");
            // Ids of items and inputs that were cut off may differ.
            if stop.is_none() {
                assert_eq!(reply.items(), at_once.items(), "{wire}");
                assert_eq!(reply.stop(), &StopReason::Calls, "{wire}");
            }
            let decoded = decode_message(&response, None).unwrap();
            assert_eq!((decoded.wire(), decoded.calls()), (wire, at_once.calls()), "{wire}");
        }
        assert!(
            read_response(wire, "{}").is_ok_and(|reply| reply.items().is_empty())
                || read_response(wire, "{}").is_err()
        );
        assert!(read_response(wire, "[]").is_err(), "{wire}");
    }
}

#[test]
fn calls_of_a_wire_are_no_calls_of_another() {
    for (wire, other) in Wire::ALL.into_iter().flat_map(|wire| Wire::ALL.map(|other| (wire, other))) {
        let response = (wire.format().script.write_response)(&message(None)).to_string();
        match decode_message(&response, Some(other)) {
            Ok(decoded) => assert_eq!((wire, decoded.calls().len()), (other, 2)),
            Err(bad) => assert!(wire != other && bad.wire_helps(), "{wire} as {other}: {bad}"),
        }
    }
}

/// Definitions, request, stream, results and the scripted side, one after the other.
#[tokio::test]
async fn a_conversation_goes_round() {
    for wire in Wire::ALL {
        let tools = DefinitionCache::new(wire).define(engine().turn().snapshot());
        assert!(tools.left_out().is_empty() && tools.json().contains(r#""now""#), "{wire}: {}", tools.json());
        let script = json!({"turns": [
            {"text": "I look.", "tool_calls": [{"name": "now"}, {"name": "gone"}]},
            {"expect": [{"tool": "now", "contains": "noon"}, {"tool": "gone", "contains": "no tool named"}], "text": "It is noon."},
            {"expect": [{"prompt": true, "contains": "sure"}], "text": "Yes."},
        ]});
        let script = ModelScript::parse(&script.to_string()).unwrap();
        let agent = AgentLoop::new(engine(), ScriptedModel::new(script, wire));
        let mut conversation = Conversation::new(wire);
        let outcome = agent.run(&mut conversation, "What time is it?").await;
        assert_eq!(
            (outcome.text.as_str(), outcome.turns, outcome.calls.len()),
            ("It is noon.", 2, 2),
            "{wire}"
        );
        assert_eq!(agent.run(&mut conversation, "Are you sure?").await.text, "Yes.", "{wire}");

        let format = conversation.format();
        assert_eq!(format.excerpt(conversation.items(), 20).len(), 7, "{wire}");
        assert!(format.starts_with_user(conversation.items()) && !format.awaits_reply(conversation.items()));
        let request =
            ModelRequest { system: &[], conversation: &conversation, tools: &ToolDefinitions::none() };
        let body = RequestOptions::new("m").body(wire, &request);
        let past = transcript::read_transcript(&body).unwrap();
        assert_eq!(past.form, Some(TranscriptForm::Messages(wire)), "{wire}");
        let results =
            past.calls.iter().map(|call| call.result.as_ref().is_some_and(|result| !result.text.is_empty()));
        assert_eq!(results.collect::<Vec<_>>(), [true, true], "{wire}");
    }
}

#[tokio::test]
async fn results_are_answered_and_cleared() {
    for wire in Wire::ALL {
        let result = engine().turn().run(vec![ToolCall::new("a", "now", "{}")]).await.remove(0);
        assert!(encode_result(wire, &result).to_string().contains("noon"), "{wire}");

        let (_, reply) = streamed(wire, &message(None), 100);
        let mut conversation = Conversation::new(wire);
        conversation.say("go");
        conversation.reply(&reply);
        conversation.answer(reply.answer(&[]));
        assert!(conversation.format().awaits_reply(conversation.items()), "{wire}");
        let note = |_: &str| String::new();
        let text = json!(conversation.items()).to_string();
        assert_eq!(text.matches("this call was not run").count(), 2, "{wire}: {text}");
        assert_eq!(conversation.clear_results(0, note), 0, "{wire}: nothing to gain");
    }
}

#[test]
fn errors_end_a_stream_and_a_whole_message() {
    for wire in Wire::ALL {
        let script = &wire.format().script;
        let body: Value = (script.write_error)(503, Some("overloaded_error"), "later");
        let failure = read_response(wire, &body.to_string()).unwrap_err();
        assert!(failure.is_passing() && failure.message == "later", "{wire}: {failure}");
        let (mut reader, mut deltas) = (MessageReader::new(wire), Vec::new());
        reader.feed((script.write_error_event)(&body).as_bytes(), &mut deltas);
        assert_eq!(reader.failure().map(|failure| failure.message.as_str()), Some("later"), "{wire}");
    }
}
