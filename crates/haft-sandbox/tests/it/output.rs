//! Output that is long, and where it goes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use haft::ports::{ProcessExit, SpillFile};
use haft::results::OffloadStore;
use haft_sandbox::limits;

use crate::{run, sh, text};

#[tokio::test]
async fn both_streams_are_whole_and_apart() {
    let outcome = run(sh("printf out; printf err >&2")).await.unwrap();
    assert_eq!((outcome.stdout.whole(), outcome.stderr.whole()), (Some(&b"out"[..]), Some(&b"err"[..])));
}

#[tokio::test]
async fn memory_is_bounded_and_the_whole_is_in_a_file() {
    let store = Arc::new(OffloadStore::temporary());
    let request =
        sh("seq 1 200000").with_output_bytes_max(1_000).with_spill(SpillFile::new(store.clone(), "Seq"));
    let outcome = run(request).await.unwrap();
    let stdout = outcome.stdout;
    assert_eq!((stdout.head.len(), stdout.tail.len(), stdout.total_bytes), (500, 500, 1_288_895));
    assert!(text(&stdout.head).starts_with("1\n2\n3\n") && text(&stdout.tail).ends_with("199999\n200000\n"));
    let kept = stdout.kept.unwrap();
    assert_eq!(kept.path().parent(), Some(store.dir()));
    let whole: String = (1..=200_000).map(|number| format!("{number}\n")).collect();
    assert_eq!(std::fs::read_to_string(kept.path()).unwrap(), whole);
}

/// Where nothing is to be kept, a flood on both streams costs two bounds of memory and nothing else.
#[tokio::test]
async fn a_flood_on_both_streams_is_read_and_dropped() {
    let request =
        sh("head -c 50000000 /dev/zero >&2 & head -c 50000000 /dev/zero; wait").with_output_bytes_max(64);
    let outcome = run(request).await.unwrap();
    for stream in [&outcome.stdout, &outcome.stderr] {
        assert_eq!((stream.head.len(), stream.tail.len(), stream.total_bytes), (32, 32, 50_000_000));
        assert_eq!(stream.kept, None);
    }
}

#[tokio::test]
async fn a_file_has_a_bound_and_the_child_goes_on() {
    let store = Arc::new(OffloadStore::temporary());
    let spill = SpillFile { bytes_max: 10_000, ..SpillFile::new(store.clone(), "Zero") };
    let request = sh("head -c 1000000 /dev/zero; echo end").with_output_bytes_max(100).with_spill(spill);
    let outcome = run(request).await.unwrap();
    let kept = outcome.stdout.kept.unwrap();
    assert_eq!((outcome.exit, kept.bytes(), kept.held_bytes()), (ProcessExit::Code(0), 1_000_004, 10_000));
    assert_eq!(std::fs::metadata(kept.path()).unwrap().len(), 10_000);
    assert!(outcome.stdout.tail.ends_with(b"end\n"));
}

/// What gathers in the pipe of a flood comes whole, in order, and when the flood is over.
#[tokio::test]
async fn a_flood_is_heard_whole_and_in_order() {
    let heard: Arc<Mutex<Vec<u8>>> = Arc::default();
    let request = sh("seq 1 400000; sleep 0.02; echo complaint >&2; seq 400001 500000; echo end")
        .with_merged_output()
        .with_output_bytes_max(100)
        .with_on_output({
            let heard = heard.clone();
            move |bytes| heard.lock().unwrap().extend_from_slice(bytes)
        });
    let outcome = run(request).await.unwrap();
    let numbers = |from: u32, to: u32| (from..=to).map(|number| format!("{number}\n")).collect::<String>();
    let expected = format!("{}complaint\n{}end\n", numbers(1, 400_000), numbers(400_001, 500_000));
    assert_eq!((outcome.exit, outcome.stdout.total_bytes), (ProcessExit::Code(0), expected.len() as u64));
    assert!(*heard.lock().unwrap() == expected.as_bytes());
    assert!(outcome.stdout.tail.ends_with(b"500000\nend\n"));
}

/// What was printed before the end is not lost to somebody who is slow to listen.
#[tokio::test]
async fn a_slow_listener_hears_all_that_is_left_at_the_end() {
    let heard = Arc::new(AtomicU64::new(0));
    let (_nobody, never) = std::sync::mpsc::channel::<()>();
    let never = Mutex::new(never);
    let request = sh("head -c 2097152 /dev/zero").with_output_bytes_max(100).with_on_output({
        let heard = heard.clone();
        move |bytes| {
            let before = heard.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            if before + bytes.len() as u64 >= limits::FLOOD_BYTES {
                let _ = never.lock().unwrap().recv_timeout(limits::DRAIN * 2);
            }
        }
    });
    let outcome = run(request).await.unwrap();
    assert_eq!((outcome.stdout.total_bytes, heard.load(Ordering::Relaxed)), (2 << 20, 2 << 20));
}

/// A call that ends before its child leaves no file.
#[tokio::test]
async fn an_abandoned_call_leaves_no_file() {
    let store = Arc::new(OffloadStore::temporary());
    let (begun, heard) = std::sync::mpsc::channel();
    let processes = Arc::new(crate::processes());
    let request = sh("seq 1 100000; exec sleep 1000")
        .with_output_bytes_max(10)
        .with_spill(SpillFile::new(store.clone(), "Seq"))
        .with_on_output(move |_| {
            let _ = begun.send(());
        });
    let own = processes.clone();
    let run = tokio::spawn(async move { haft::ports::Processes::run(&*own, request).await });
    tokio::task::spawn_blocking(move || heard.recv().unwrap()).await.unwrap();
    run.abort();
    let _ = run.await;
    crate::until("the child is gone", || processes.running() == 0);
    assert_eq!(std::fs::read_dir(store.dir()).unwrap().count(), 0);
}
