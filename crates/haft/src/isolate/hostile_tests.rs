//! A child that says whatever it likes: the parent neither panics nor hangs, gives one result, and opens nothing that
//! the call may not touch.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use proptest::prelude::*;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::frames::{VERSION, encode, greeting};
use super::scene::{Scene, input, scene, scene_without_answers, within};
use super::wire::Packer;
use super::*;
use crate::content::Output;
use crate::limits;

/// A frame that may be nonsense.
fn frame(head: &impl Serialize, tail: &[u8]) -> Vec<u8> {
    let mut packer = Packer::default();
    packer.put(tail);
    encode(head, packer).unwrap()
}

fn done() -> Vec<u8> {
    frame(&json!({"done": {"output": [{"text": 2}]}}), b"ok")
}

/// A child that sends these bytes, whatever it is answered; gives the result and everything that it was told.
async fn hostile(scene: &Scene, bytes: Vec<u8>) -> (Result<Output, ToolError>, Vec<u8>) {
    hostile_with(scene, bytes, Vec::new()).await
}

/// The same, and when it has been told all that there is to tell it sends some more.
async fn hostile_with(scene: &Scene, bytes: Vec<u8>, more: Vec<u8>) -> (Result<Output, ToolError>, Vec<u8>) {
    let (ours, theirs) = tokio::io::duplex(512);
    let (mut reads, mut writes) = tokio::io::split(theirs);
    let child = tokio::spawn(async move {
        let mut told = Vec::new();
        let send = async {
            let _ = writes.write_all(&bytes).await;
            // The clock moves when nothing else does.
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            let _ = writes.write_all(&more).await;
            let _ = writes.shutdown().await;
        };
        let _ = tokio::join!(send, reads.read_to_end(&mut told));
        told
    });
    let outcome = within(serve_parent(Box::new(ours), "worker", &input("", Path::new("")), &scene.cx)).await;
    (outcome, within(child).await.unwrap())
}

fn greeted(frames: &[Vec<u8>]) -> Vec<u8> {
    [&[greeting(VERSION)], frames].concat().concat()
}

async fn error_of(scene: &Scene, bytes: Vec<u8>) -> String {
    let (outcome, _) = hostile(scene, bytes).await;
    outcome.unwrap_err().message().to_owned()
}

fn ask(id: u64, ask: Value, tail: &[u8]) -> Vec<u8> {
    frame(&json!({"ask": {"id": id, "ask": ask}}), tail)
}

fn path_bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}

/// Opens, reads, lists, looks at, overwrites, moves and removes a path, in all ways that there are.
fn attack(path: &Path, inside: &Path, first_id: u64) -> Vec<Vec<u8>> {
    let (path, inside) = (path_bytes(path), path_bytes(inside));
    let (len, into) = (path.len(), [path, inside, b"/stolen"].concat());
    let from = [inside, b"/in", path].concat();
    let asks = [
        (json!({"open": len}), path),
        (json!({"list": len}), path),
        (json!({"metadata": len}), path),
        (json!({"rename": {"from": len, "to": inside.len() + 7}}), &into),
        (json!({"rename": {"from": inside.len() + 3, "to": len}}), &from),
        (json!({"write": {"path": len, "bytes": 0, "how": "replace"}}), path),
        (json!({"write": {"path": len, "bytes": 0, "how": "create"}}), path),
        (json!({"create_dir": len}), path),
        (json!({"remove": {"path": len, "old": null}}), path),
    ];
    (first_id..).zip(asks).map(|(id, (wish, tail))| ask(id, wish, tail)).collect()
}

#[tokio::test(start_paused = true)]
async fn nonsense_is_one_error() {
    let scene = scene();
    for (bytes, expected) in [
        (vec![], "its process ended"),
        (b"Segmentation fault".to_vec(), "not understood"),
        (greeting(VERSION + 1), "speaks version 2"),
        (greeted(&[]), "its process ended"),
        (greeted(&[vec![255; 100]]), "bytes at once"),
        (greeted(&[frame(&json!({"reply": {"id": 1, "reply": "done"}}), b"")]), "not understood"),
        (greeted(&[frame(&json!({"forget": 99}), b""), done()[..20].to_vec()]), "its process ended"),
        (greeted(&[ask(1, json!({"open": 50}), b"short")]), "not understood"),
        (greeted(&[ask(1, json!({"read": {"file": 9, "offset": 0, "max": 1}}), b"")]), "not understood"),
        (
            greeted(&[ask(
                1,
                json!({"question": {"text": "x".repeat(300_000), "choices": [], "several": false}}),
                b"",
            )]),
            "bytes at once",
        ),
        (greeted(&[frame(&json!({"done": {"output": [{"text": 2}]}}), b"\xff\xff")]), "not understood"),
        (
            greeted(&[frame(&json!({"done": {"output": [{"structured": 300}]}}), &[b'['; 300])]),
            "not understood",
        ),
        (greeted(&[frame(&json!({"done": {"output": [{"structured": 17 << 20}]}}), b"")]), "bytes at once"),
    ] {
        let error = error_of(&scene, bytes).await;
        assert!(error.contains(expected), "{error}, expected {expected}");
        assert!(error.starts_with("worker did not finish"), "{error}");
    }
    // The same id twice, while the first is being answered.
    let question = json!({"question": {"text": "", "choices": [], "several": false}});
    let slow = scene_without_answers();
    let twice = greeted(&[ask(1, question.clone(), b""), ask(1, question.clone(), b"")]);
    assert!(error_of(&slow, twice).await.contains("not understood"));
    let many = (0..17).map(|id| ask(id, question.clone(), b"")).collect::<Vec<_>>();
    assert!(error_of(&slow, greeted(&many)).await.contains("not understood"));
    // And the control: unknown ids to forget, and a result.
    let fine = greeted(&[frame(&json!({"forget": 99}), b""), done(), vec![1, 2, 3]]);
    assert_eq!(hostile(&scene, fine).await.0.unwrap().to_text(), "ok");
}

#[tokio::test(start_paused = true)]
async fn a_child_that_takes_no_answers_is_not_answered_without_end() {
    let scene = scene();
    std::fs::write(scene.inside.join("large"), vec![7; limits::ISOLATE_READ_BYTES_MAX]).unwrap();
    let path = scene.inside.join("large");
    let (ours, mut theirs) = tokio::io::duplex(512);
    let greedy = async move {
        let open = ask(1, json!({"open": path_bytes(&path).len()}), path_bytes(&path));
        theirs.write_all(&greeted(&[open])).await.unwrap();
        for id in 2.. {
            // Waits as if for the answer, but never takes it.
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            let read = ask(id, json!({"read": {"file": 1, "offset": 0, "max": 1 << 30}}), b"");
            let sent = tokio::time::timeout(std::time::Duration::from_secs(1), theirs.write_all(&read)).await;
            if sent.is_err() {
                return id;
            }
        }
        unreachable!()
    };
    let wish = input("", Path::new(""));
    let parent = serve_parent(Box::new(ours), "worker", &wish, &scene.cx);
    let (outcome, taken) = within(async { tokio::join!(parent, greedy) }).await;
    assert!(outcome.is_err());
    assert!(taken < 40, "{taken} requests were taken without an answer");
}

#[test]
fn nothing_outside_of_the_access_is_reached() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let way = prop_oneof![
        Just("{out}/in"),
        Just("{in}/../outside/in"),
        Just("../outside/in"),
        Just("link/in"),
        Just("{in}/link/../in"),
        Just("{out}"),
        Just("{in}/link"),
        Just("//{out}/./in"),
        Just("/proc/self/root{out}/in"),
        Just("{out}/new/in"),
    ];
    let noise = prop::collection::vec(any::<u8>(), 0..40);
    proptest!(ProptestConfig::with_cases(96), |(ways in prop::collection::vec(way, 1..3), noise in noise)| {
        let scene = scene();
        let (inside, outside) = (scene.inside.to_str().unwrap(), scene.outside.to_str().unwrap());
        let mut frames = Vec::new();
        for (at, way) in ways.iter().enumerate() {
            let path = way.replace("{out}", outside).replace("{in}", inside);
            let id = 100 * (at as u64 + 1);
            for wish in attack(Path::new(&path), &scene.inside, id) {
                frames.push(wish);
            }
        }
        // A file that was opened against all rules would be read here; one that wasn't ends the call.
        let read = ask(50, json!({"read": {"file": 100, "offset": 0, "max": 99}}), b"");
        let hidden: Vec<String> = [&scene.outside, &scene.outside.join("in"), &scene.outside.join("HIDDEN")]
            .map(|path| format!("\"inode\":{}}}", std::fs::metadata(path).unwrap().ino()))
            .into_iter()
            .chain(["SECRET".into(), "HIDDEN".into()])
            .collect();
        let more = [frame(&json!({"warning": "pause"}), b""), read, noise].concat();
        let (_, told) = runtime.block_on(hostile_with(&scene, greeted(&frames), more));
        for hidden in hidden {
            let seen = told.windows(hidden.len()).any(|window| window == hidden.as_bytes());
            prop_assert!(!seen, "{} in {}", hidden, String::from_utf8_lossy(&told));
        }
        prop_assert_eq!(std::fs::read(scene.outside.join("in")).unwrap(), b"SECRET");
        prop_assert_eq!(std::fs::read_dir(&scene.outside).unwrap().count(), 2);
        prop_assert!(!scene.inside.join("stolen").exists() || ways.contains(&"{in}/link"), "only the link itself");
    });
    // The control: the same words about a path inside do all of it.
    let scene = scene();
    let path = scene.inside.join("own");
    std::fs::write(&path, "MINE").unwrap();
    let mut frames = vec![ask(1, json!({"open": path_bytes(&path).len()}), path_bytes(&path))];
    frames.push(ask(2, json!({"read": {"file": 1, "offset": 0, "max": 99}}), b""));
    let (_, told) = runtime.block_on(paced(&scene, frames));
    assert!(told.windows(4).any(|window| window == b"MINE"));
    let (_, told) = runtime.block_on(paced(&scene, attack(&path, &scene.inside, 10)));
    assert!(scene.inside.join("stolen").exists(), "{}", String::from_utf8_lossy(&told));
}

/// A child that waits after each frame until it is answered.
async fn paced(scene: &Scene, frames: Vec<Vec<u8>>) -> (Result<Output, ToolError>, Vec<u8>) {
    let (ours, mut theirs) = tokio::io::duplex(1 << 16);
    let child = tokio::spawn(async move {
        let mut told = Vec::new();
        theirs.write_all(&greeted(&[])).await.unwrap();
        for frame in frames {
            theirs.write_all(&frame).await.unwrap();
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            let mut chunk = vec![0; 1 << 16];
            let read = theirs.read(&mut chunk).await.unwrap();
            told.extend_from_slice(&chunk[..read]);
        }
        theirs.write_all(&done()).await.unwrap();
        told
    });
    let wish = input("", Path::new(""));
    let outcome = within(serve_parent(Box::new(ours), "worker", &wish, &scene.cx)).await;
    (outcome, within(child).await.unwrap())
}

#[test]
fn random_bytes_are_survived() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let scene = scene();
    let bytes = prop::collection::vec(any::<u8>(), 0..200);
    // Whole frames of a random head and tail, and valid messages with a few bytes changed.
    let framed = (prop::collection::vec(any::<u8>(), 0..60), prop::collection::vec(any::<u8>(), 0..60))
        .prop_map(|(head, tail)| {
            let mut frame = ((4 + head.len() + tail.len()) as u32).to_le_bytes().to_vec();
            frame.extend((head.len() as u32).to_le_bytes());
            frame.extend(head);
            frame.extend(tail);
            frame
        });
    let changed = (0usize..200, any::<u8>(), 0usize..4).prop_map(|(at, byte, which)| {
        let mut frame = match which {
            0 => done(),
            1 => ask(1, json!({"write": {"path": 2, "bytes": 3, "how": "replace"}}), b"aaabc"),
            2 => ask(2, json!({"question": {"text": "t", "choices": [["a", null]], "several": true}}), b""),
            _ => frame(&json!({"warning": "w"}), b""),
        };
        let at = at % frame.len();
        frame[at] = byte;
        frame
    });
    let piece = prop_oneof![bytes, framed, changed];
    proptest!(ProptestConfig::with_cases(512), |(pieces in prop::collection::vec(piece, 0..4), greet in any::<bool>())| {
        let sent = if greet { greeted(&pieces) } else { pieces.concat() };
        let (outcome, _) = runtime.block_on(hostile(&scene, sent));
        // Only a result that was whole and well-formed is believed.
        prop_assert!(outcome.is_err() || greet);
    });
}
