//! The stream readers of the four wires: no bytes make one panic, where bytes are split changes nothing, a
//! call is ready once and in order, and what came is a reply whose calls can be answered.
#![no_main]

use std::collections::BTreeSet;

use haft_agent::{ModelReply, ReplyDelta};
use haft_provider::Wire;
use haft_provider::stream::MessageReader;
use libfuzzer_sys::fuzz_target;

const WIRES: [Wire; 4] = [Wire::Anthropic, Wire::OpenAi, Wire::OpenAiChat, Wire::Gemini];

fuzz_target!(|bytes: &[u8]| {
    // The first byte says which wire, the second how long the pieces are.
    let [wire, piece, stream @ ..] = bytes else { return };
    let wire = WIRES[usize::from(*wire) % WIRES.len()];
    let (deltas, reply) = read(wire, stream.chunks(stream.len().max(1)));
    let pieces = stream.chunks(usize::from(*piece).max(1));
    let (deltas_of_pieces, reply_of_pieces) = read(wire, pieces);
    assert_eq!(deltas, deltas_of_pieces, "where bytes are split says nothing");
    assert_eq!(reply, reply_of_pieces);

    let calls = reply.calls();
    let mut ready = 0;
    let mut begun = 0;
    let mut numbers = BTreeSet::new();
    for delta in &deltas {
        match delta {
            ReplyDelta::CallBegun { call, .. } => {
                assert_eq!(*call, begun, "calls begin in order");
                begun += 1;
            }
            ReplyDelta::CallInput { call, .. } => assert!(*call < begun, "no input of what has not begun"),
            ReplyDelta::CallReady { call, ready: its } => {
                // One that began and never ended is no call of the message, so numbers may be left out.
                assert!(numbers.insert(*call) && *call < begun, "a call gets ready once, after it began");
                let of_reply =
                    calls.get(ready).expect("what was ready is a call of the message, in this order");
                assert_eq!((&of_reply.name, &of_reply.input), (&its.name, &its.input));
                ready += 1;
            }
            ReplyDelta::Restarted => {
                assert_eq!(ready, 0, "nothing is taken back that may run already");
                begun = 0;
            }
            _ => {}
        }
    }
    // Every call of the message has its place in the answer, without any result as well.
    let _ = reply.answer(&[]);
});

fn read<'a>(wire: Wire, pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<ReplyDelta>, ModelReply) {
    let (mut reader, mut deltas) = (MessageReader::new(wire), Vec::new());
    for piece in pieces {
        reader.feed(piece, &mut deltas);
    }
    let ready = reader.calls_ready();
    let reply = reader.finish(&mut deltas);
    assert!(ready <= reply.calls().len(), "what may have been run is in the message");
    (deltas, reply)
}
