//! The cost of the journal for a turn of the engine: turns with and without it alternate, so that
//! both see the same machine. One `fdatasync` on the same disk is measured in between.
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]
#![expect(clippy::unwrap_used, reason = "a benchmark may stop")]

use std::fs::OpenOptions;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Instant;

use haft::{Effects, Engine, NoInput, PermissionRules, Registry, ToolCall, tool};
use haft_journal::{Journal, JournalOptions, JournalStore, SessionStart};
use serde_json::{Value, json};

const TURNS: usize = 400;
const READS: usize = 50;

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let journal = JournalStore::at(folder.path())
        .create("a", SessionStart::in_folder("/"), JournalOptions::default())
        .unwrap();
    let (without, with) = (engine(None), engine(Some(journal.clone())));
    let mut synced = OpenOptions::new().create(true).append(true).open(folder.path().join("synced")).unwrap();
    println!("| what | of all turns | without | with the journal | added | in `fdatasync`s |");
    println!("|---|---|---|---|---|---|");
    for (what, name, count) in [("one change", "change", 1), ("50 reads", "look", READS)] {
        let (mut off, mut on, mut syncs) = (Vec::new(), Vec::new(), Vec::new());
        for turn in 0..TURNS {
            off.push(runtime.block_on(async { played(&without, None, turn, (name, count)).await }));
            on.push(runtime.block_on(async { played(&with, Some(&journal), turn, (name, count)).await }));
            synced.write_all(&[b'x'; 600]).unwrap();
            let started = Instant::now();
            synced.sync_data().unwrap();
            syncs.push(started.elapsed().as_secs_f64() * 1e6);
        }
        for (share, words) in [(20, "the fastest 5 %"), (4, "a quarter"), (2, "half")] {
            let [off, on, sync] = [&off, &on, &syncs].map(|all| at(all, share));
            let added = on - off;
            println!(
                "| {what} | {words} | {off:.0} µs | {on:.0} µs | {added:.0} µs | {:.2} of {sync:.0} µs |",
                added / sync
            );
        }
    }
}

/// Runs one turn in a task, as a program does; returns its duration in microseconds.
async fn played(
    engine: &Engine,
    journal: Option<&Journal>,
    turn: usize,
    (name, count): (&'static str, usize),
) -> f64 {
    let (engine, journal) = (engine.clone(), journal.cloned());
    let task = tokio::spawn(async move {
        let calls: Vec<ToolCall> =
            (0..count).map(|call| ToolCall::new(format!("t{turn}c{call}"), name, json!({}))).collect();
        let reply_items: Vec<Value> = calls
            .iter()
            .map(|call| json!({"type": "tool_use", "id": &*call.id, "name": &*call.name, "input": {}}))
            .collect();
        let started = Instant::now();
        if let Some(journal) = &journal {
            journal.reply(turn as u64, &reply_items).unwrap();
        }
        let results = engine.turn().run(calls).await;
        if let Some(journal) = &journal {
            // The conversation exists anyway; the measurement covers recording it.
            journal.items(0, &reply_items).unwrap();
            journal.finish_turn().await.unwrap();
        }
        assert!(results.iter().all(|result| !result.is_error()));
        started.elapsed().as_secs_f64() * 1e6
    });
    task.await.unwrap()
}

fn engine(journal: Option<Journal>) -> Engine {
    let text: Arc<str> = "line of a file that is read\n".repeat(70).into();
    let look = tool("look", "Looks.", move |_: NoInput, _| {
        let text = text.clone();
        async move { Ok(text.to_string()) }
    });
    let change = tool("change", "Changes.", |_: NoInput, _| async { Ok("changed") });
    let registry = Registry::new().with(look.effects(|_| Effects::none())).unwrap();
    let registry = registry.with(change.effects(|_| Effects::writes_state("it"))).unwrap();
    let engine = Engine::builder(registry).permissions(PermissionRules::new().allow("change").unwrap());
    match journal {
        Some(journal) => engine.ports(|ports| ports.recorder = Some(Arc::new(journal))).build(),
        None => engine.build(),
    }
}

fn at(all: &[f64], share: usize) -> f64 {
    let mut all = all.to_vec();
    all.sort_by(f64::total_cmp);
    all[all.len() / share]
}
