//! Files of the scripted model: no text makes the reader panic, what is wrong is said in words, and a script
//! that was taken is played to an end by each wire.
#![no_main]

use std::time::Duration;

use haft_agent::{Conversation, Model, ModelRequest, ToolDefinitions};
use haft_provider::scripted::{ModelScript, ScriptedModel};
use haft_provider::{RetryPolicy, Wire};
use libfuzzer_sys::fuzz_target;

/// How often a message is asked for more, at most: far more than a script of this length can say.
const PIECES_MAX: usize = 1_000_000;

fuzz_target!(|text: &str| {
    let script = match ModelScript::parse(text) {
        Ok(script) => script,
        Err(bad) => {
            assert!(!bad.to_string().trim().is_empty());
            return;
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime without threads can be made");
    for wire in [Wire::Anthropic, Wire::OpenAi, Wire::OpenAiChat, Wire::Gemini] {
        let retry = RetryPolicy { first: Duration::from_millis(1), ..RetryPolicy::default() };
        let model = ScriptedModel::new(script.clone(), wire).retry(retry);
        let mut conversation = Conversation::new(wire);
        conversation.say("Hi.");
        runtime.block_on(async {
            let tools = ToolDefinitions::none();
            let prompt = ModelRequest { system: &[], conversation: &conversation, tools: &tools };
            let mut incoming = model.ask(&prompt);
            let mut pieces = 0;
            while incoming.more(&mut Vec::new()).await {
                pieces += 1;
                assert!(pieces < PIECES_MAX, "a script has an end");
            }
            let reply = incoming.finish();
            let _ = reply.answer(&[]);
        });
    }
});
