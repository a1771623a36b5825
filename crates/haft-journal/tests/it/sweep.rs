//! Every write and every fsync of a journal fails once, or from then on, while a real engine runs a
//! turn.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use haft::ports::Recorder as _;
use haft::{Effects, Engine, NoInput, Registry, ToolCall, ToolResult, tool};
use haft_journal::{Durability, Journal, JournalDisk, JournalOptions, Record, RecoveredSession, read};
use serde_json::{Value, json};

/// The failing operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Append,
    Sync,
}

/// An in-memory disk on which one operation fails, or all from that one on.
#[derive(Clone)]
struct Faulty(Arc<Mutex<Book>>);

struct Book {
    bytes: Vec<u8>,
    appends: usize,
    syncs: usize,
    failing: Option<(Step, usize)>,
    for_good: bool,
    error: i32,
    failed: usize,
}

const ENOSPC: i32 = 28;
const EIO: i32 = 5;

impl Faulty {
    fn new(failing: Option<(Step, usize)>, for_good: bool, error: i32) -> Faulty {
        let book = Book { bytes: Vec::new(), appends: 0, syncs: 0, failing, for_good, error, failed: 0 };
        Faulty(Arc::new(Mutex::new(book)))
    }
}

impl Book {
    fn step(&mut self, step: Step) -> io::Result<()> {
        let count = match step {
            Step::Append => &mut self.appends,
            Step::Sync => &mut self.syncs,
        };
        *count += 1;
        let fails = self
            .failing
            .is_some_and(|(failing, at)| failing == step && (*count == at || (self.for_good && *count > at)));
        self.failed += usize::from(fails);
        if fails { Err(io::Error::from_raw_os_error(self.error)) } else { Ok(()) }
    }
}

impl JournalDisk for Faulty {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut book = self.0.lock().unwrap();
        let done = book.step(Step::Append);
        let part = if done.is_ok() { bytes } else { &bytes[..bytes.len() / 2] };
        book.bytes.extend_from_slice(part);
        done
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.lock().unwrap().step(Step::Sync)
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.0.lock().unwrap().bytes.truncate(usize::try_from(length).unwrap());
        Ok(())
    }
}

/// The calls of a turn: reads and changes alternate.
const CALLS: [(&str, &str); 5] =
    [("1", "look"), ("2", "change"), ("3", "look"), ("4", "change"), ("5", "change")];

/// Runs a turn on this disk; returns what the tools did, and the results.
async fn turn(disk: &Faulty, durability: Durability) -> (Vec<String>, Vec<ToolResult>) {
    let options = JournalOptions { durability, ..JournalOptions::default() };
    let journal = Journal::with_disk(Box::new(disk.clone()), ("a", Path::new("a")), (0, 0), options).unwrap();
    let happened: Arc<Mutex<Vec<String>>> = Arc::default();
    let (looked, changed) = (happened.clone(), happened.clone());
    let look = tool("look", "Looks.", move |_: NoInput, cx| {
        looked.lock().unwrap().push(cx.call().id().to_owned());
        async { Ok("seen") }
    });
    let change = tool("change", "Changes.", move |_: NoInput, cx| {
        changed.lock().unwrap().push(cx.call().id().to_owned());
        async { Ok("changed") }
    });
    let registry = Registry::new()
        .with(look.effects(|_| Effects::none()))
        .unwrap()
        .with(change.effects(|_| Effects::writes_state("it")))
        .unwrap();
    let recorder = Arc::new(journal.clone());
    let engine = Engine::builder(registry)
        .permissions(haft::PermissionRules::new().allow("change").unwrap())
        .ports(|ports| ports.recorder = Some(recorder))
        .build();
    let _ = journal.items(0, &[json!({"role": "user"})]);
    let _ = journal.note(Record::Reply { turn: 1, items: vec![json!({"role": "assistant"})] });
    let calls = CALLS.map(|(id, name)| ToolCall::new(id, name, json!({})));
    let results = engine.turn().run(calls).await;
    let _ = journal.settle().await;
    let _ = journal.close();
    let happened = happened.lock().unwrap().clone();
    (happened, results)
}

/// Returns the calls with recorded intents, and the calls with recorded outcomes.
fn noted(disk: &Faulty) -> (Vec<String>, Vec<String>, RecoveredSession) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f");
    std::fs::write(&path, &disk.0.lock().unwrap().bytes).unwrap();
    let contents = read(&path).unwrap();
    assert!(contents.damage.is_empty() && !contents.torn, "{contents:?}");
    let numbers: Vec<u64> = contents.records.iter().map(|record| record.n).collect();
    assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>());
    let (mut intents, mut outcomes) = (Vec::new(), Vec::new());
    for stamped in &contents.records {
        match &stamped.record {
            Record::Intent(intent) => intents.push(intent.call.clone()),
            Record::Outcome(outcome) => outcomes.push(outcome.call.clone()),
            _ => {}
        }
    }
    (intents, outcomes, RecoveredSession::from_contents(&contents))
}

#[tokio::test]
async fn every_write_and_sync_may_fail_and_nothing_happens_unrecorded() {
    let (mut runs, mut stopped, mut failures) = (0, 0, 0);
    for durability in [Durability::Batch, Durability::Call] {
        let whole = Faulty::new(None, false, EIO);
        let (happened, _) = turn(&whole, durability).await;
        assert_eq!(happened.len(), CALLS.len());
        let (appends, syncs) = {
            let book = whole.0.lock().unwrap();
            (book.appends, book.syncs)
        };
        for (step, count) in [(Step::Append, appends), (Step::Sync, syncs)] {
            for at in 1..=count {
                for (for_good, error) in [(false, ENOSPC), (true, ENOSPC), (false, EIO), (true, EIO)] {
                    let named = format!("{durability:?}, {step:?} {at}, for good: {for_good}, errno {error}");
                    let disk = Faulty::new(Some((step, at)), for_good, error);
                    let (happened, results) = turn(&disk, durability).await;
                    let (intents, _, recovered) = noted(&disk);
                    for ((id, name), result) in CALLS.iter().zip(&results) {
                        let ran = happened.iter().any(|call| call == id);
                        match *name {
                            // Reads continue.
                            "look" => assert!(ran && result.error().is_none(), "{named}: {id}"),
                            // A change was recorded first; a call that could not be recorded did
                            // not run and says why.
                            _ if ran => {
                                assert!(
                                    intents.iter().any(|call| call == id),
                                    "{named}: {id} ran unrecorded"
                                );
                            }
                            _ => {
                                let message = result.error().map(|error| error.message()).unwrap_or_default();
                                assert!(
                                    message.contains("could not be recorded"),
                                    "{named}: {id}: {message}"
                                );
                                stopped += 1;
                            }
                        }
                    }
                    assert_eq!(results.len(), CALLS.len(), "{named}");
                    assert!(!recovered.is_damaged, "{named}");
                    // A disk that was full once loses no record.
                    if step == Step::Append && !for_good {
                        assert_eq!((recovered.items.len(), recovered.reply.is_some()), (1, true), "{named}");
                    }
                    (runs, failures) = (runs + 1, failures + disk.0.lock().unwrap().failed);
                }
            }
        }
    }
    assert!(
        runs >= 40 && stopped >= 20 && failures >= runs / 2,
        "{runs} runs, {stopped} stopped, {failures} failures"
    );
}

#[test]
fn a_session_is_recovered_by_its_end_as_by_all_of_it() {
    use haft_journal::{JournalStore, SessionStart};
    let folder = tempfile::tempdir().unwrap();
    let store = JournalStore::at(folder.path());
    let journal = store.create("a", SessionStart::in_folder("/w"), JournalOptions::default()).unwrap();
    let item = |text: &str| -> Value { json!({"role": "user", "content": text}) };
    journal.note(Record::Title { text: "first".to_owned() }).unwrap();
    journal.items(0, &[item("forgotten")]).unwrap();
    journal.items(0, &[item("one")]).unwrap();
    for turn in 1..20 {
        journal.note(Record::Reply { turn, items: vec![item("reply")] }).unwrap();
        let files = [("/f".to_owned(), json!(turn))].into();
        journal.note(Record::Seen { files }).unwrap();
        journal.hooked(&hooked());
        journal.items(usize::try_from(turn).unwrap(), &[item("reply")]).unwrap();
    }
    journal.note(Record::Task { id: "task-1".to_owned(), words: "Bash: x".to_owned() }).unwrap();
    journal.note(Record::Task { id: "task-2".to_owned(), words: "Bash: y".to_owned() }).unwrap();
    journal.note(Record::TaskEnded { id: "task-1".to_owned() }).unwrap();
    journal.note(Record::Reply { turn: 20, items: vec![item("last")] }).unwrap();
    drop(journal);
    let contents = store.read("a").unwrap();
    let (recovered, mark) = store.recover("a").unwrap();
    assert_eq!(recovered, RecoveredSession::from_contents(&contents));
    assert_eq!((recovered.items.len(), recovered.reply.is_some()), (20, true));
    assert_eq!(recovered.tasks, [("task-2".to_owned(), "Bash: y".to_owned())]);
    assert_eq!(recovered.seen["/f"], json!(19));
    let head = store.summary("a").unwrap();
    assert_eq!((head.title.as_deref(), head.calls, head.is_ended), (Some("first"), 0, false));
    assert_eq!(store.began("a").unwrap().unwrap().cwd, Path::new("/w"));

    // The second process gets an error.
    let first = store.resume("a", mark, SessionStart::in_folder("/w"), JournalOptions::default()).unwrap();
    drop(first);
    let second = store.resume("a", mark, SessionStart::in_folder("/w"), JournalOptions::default());
    assert!(matches!(second, Err(haft_journal::StoreError::ChangedMeanwhile(_))), "{second:?}");
    assert_eq!(store.read("a").unwrap().records.len(), contents.records.len() + 1);
}

fn hooked() -> haft::ports::HookOutcome<'static> {
    haft::ports::HookOutcome::new("main", 1, "before", "h", "denied")
}
