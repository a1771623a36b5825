//! What an MCP server sends, line by line: nothing makes the reader panic or hang, where bytes are split
//! changes nothing, and no answer goes on that nobody waited for.
#![no_main]

use haft_mcp::fuzzing::{ASKED, FuzzOutcome, feed_bytes};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let [piece, lines @ ..] = bytes else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime without threads can be made");
    let whole = runtime.block_on(feed_bytes(lines, lines.len().max(1)));
    let pieces = runtime.block_on(feed_bytes(lines, usize::from(*piece).max(1)));
    assert_eq!(whole, pieces, "where bytes are split says nothing");

    let FuzzOutcome { messages, ended, .. } = whole;
    assert!(ended.is_some_and(|words| !words.is_empty()), "an end has a reason");
    for number in ASKED {
        let answers = messages.iter().filter(|message| {
            message.get("method").is_none() && message.get("id").is_some_and(|id| *id == number)
        });
        assert!(answers.count() <= 1, "a question has one answer: {messages:?}");
    }
    let unasked = messages.iter().find(|message| {
        let id = message.get("id").filter(|_| message.get("method").is_none());
        id.is_some_and(|id| !id.is_null() && !ASKED.iter().any(|asked| id == asked))
    });
    assert!(unasked.is_none(), "an answer to nothing: {unasked:?}");
});
