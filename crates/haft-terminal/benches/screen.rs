//! The cost of a screen: a long answer and many events, compared to writing the bytes to a
//! terminal.
//!
//! Frames are written to a pipe that is read and discarded, as fast as the fastest terminal. The
//! baseline is the same text written to the same pipe without a screen. The memory figure is the
//! growth since a tenth of the work.

use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

use haft::event::EventKind;
use haft::testing::EventLog;
use haft::view::CallProgress;
use haft::{Effects, Engine, NoInput, Registry, ToolCall, tool};
use haft_agent::{ReplyDelta, RunEvent};
use haft_terminal::bench::ScreenBench;

const MB: usize = 1024 * 1024;

fn main() {
    let words =
        "The parser drops the **last** line, because `next_if` asks for a line end.\n- one more thing\n\n";
    let answer = words.repeat(20 * MB / words.len());
    let plain = timed(|| {
        let (mut write, reader) = sink();
        for chunk in answer.as_bytes().chunks(4096) {
            write.write_all(chunk).expect("the pipe has a reader");
        }
        drop(write);
        reader.join().expect("the reader ends");
    });

    let mut memory = (0, 0);
    let mut frames = Vec::new();
    let drawn = timed(|| {
        let (write, reader) = sink();
        let mut drawing = ScreenBench::new(write, 100, 40);
        let chunks: Vec<&str> = split(&answer, 64);
        // About one frame of a fast model: all text between two frames arrives together.
        for (at, batch) in chunks.chunks(1_000).enumerate() {
            let began = Instant::now();
            batch
                .iter()
                .for_each(|chunk| drawing.event(RunEvent::Model(ReplyDelta::Text((*chunk).to_owned()))));
            drawing.frame();
            frames.push(began.elapsed());
            if at == chunks.len() / 10_000 {
                memory.0 = resident();
            }
        }
        memory.1 = resident();
        drop(drawing);
        reader.join().expect("the reader ends");
    });
    row("an answer of 20 MB, to its plain bytes in the same pipe", drawn, plain);
    note("its slowest frame of 64 KB", worst(&frames));
    size("more memory at its end than after a tenth", memory);

    // 10,000 events per second are 333 per frame, and a frame may take 33 ms.
    let mut frames = Vec::new();
    let (write, reader) = sink();
    let mut drawing = ScreenBench::new(write, 100, 40);
    let events = calls(10);
    events.iter().for_each(|event| drawing.event(RunEvent::Tool(event.clone())));
    let mut memory = (0, 0);
    for frame in 0..900 {
        let began = Instant::now();
        for event in 0..333 {
            let mut progress = events[event % 10].clone();
            let fraction = Some(f64::from((frame + event as u32) % 100) / 100.0);
            progress.what = match event % 2 {
                0 => EventKind::Progress(CallProgress { fraction, message: Some(format!("step {event}")) }),
                _ => EventKind::Partial(format!("a line of output {event}\n")),
            };
            drawing.event(RunEvent::Tool(progress));
        }
        drawing.frame();
        frames.push(began.elapsed());
        if frame == 90 {
            memory.0 = resident();
        }
    }
    memory.1 = resident();
    drop(drawing);
    reader.join().expect("the reader ends");
    let mean = frames.iter().sum::<Duration>() / frames.len() as u32;
    row("a frame with 333 events of 10 calls, to a frame's time", mean, haft_terminal::limits::FRAME);
    note("the slowest of 900", worst(&frames));
    size("more memory after 900 frames than after 90", memory);
}

/// The events of starting calls, from a real engine.
fn calls(count: usize) -> Vec<haft::event::Event> {
    let nothing =
        tool("nothing", "Does nothing.", |_: NoInput, _| async { Ok(()) }).effects(|_| Effects::none());
    let log = EventLog::new();
    let engine =
        Engine::builder(Registry::new().with(nothing).expect("it is a tool")).events(log.clone()).build();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let calls = (0..count).map(|at| ToolCall::new(format!("c{at}"), "nothing", serde_json::json!({})));
    runtime.block_on(engine.turn().run(calls));
    log.events().into_iter().filter(|event| matches!(event.what, EventKind::Started { .. })).collect()
}

fn sink() -> (std::io::PipeWriter, std::thread::JoinHandle<usize>) {
    let (mut read, write) = std::io::pipe().expect("a pipe can be made");
    let reader = std::thread::spawn(move || {
        let (mut bytes, mut all) = (vec![0; 65_536], 0);
        while let Ok(count @ 1..) = read.read(&mut bytes) {
            all += count;
        }
        all
    });
    (write, reader)
}

fn split(text: &str, bytes: usize) -> Vec<&str> {
    let mut rest = text;
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let (part, after) = rest.split_at(rest.len().min(bytes));
        parts.push(part);
        rest = after;
    }
    parts
}

fn timed(work: impl FnOnce()) -> Duration {
    let began = Instant::now();
    work();
    began.elapsed()
}

fn worst(frames: &[Duration]) -> Duration {
    frames.iter().copied().max().unwrap_or_default()
}

/// Returns the resident memory in bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    status.split_whitespace().nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * 4096
}

fn row(what: &str, took: Duration, yardstick: Duration) {
    let ratio = took.as_secs_f64() / yardstick.as_secs_f64();
    print(&format!("{what:60} {:>9.2} ms {ratio:>8.3} x", took.as_secs_f64() * 1e3));
}

fn note(what: &str, took: Duration) {
    print(&format!("  {what:58} {:>9.2} ms", took.as_secs_f64() * 1e3));
}

fn size(what: &str, (before, after): (usize, usize)) {
    print(&format!("  {what:58} {:>9.2} MB", after.saturating_sub(before) as f64 / MB as f64));
}

fn print(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
