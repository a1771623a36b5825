//! What the file tools cost: searches against ripgrep, descriptors against `std::fs`, in the same run.
//!
//! Rounds of both alternate, so that a busy machine slows both; the ratio is the median over the rounds. ripgrep is a
//! process that is started, and its output read; the tools are calls through an engine. The variable `RG` names it;
//! `cargo xtask bench` installs one where there is none.
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]
#![expect(clippy::unwrap_used, reason = "a benchmark may stop")]

use std::ffi::OsStr;
use std::fs;
use std::hint::black_box;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use haft::files::{Access, DirFiles, Kind, OpenDir, Root, ScopedFiles, WriteMode};
use haft::{Engine, Registry, ToolCall, Workspace};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

const ROUNDS: usize = 15;
const FOLDERS: usize = 2_500;
const FILES_PER_FOLDER: usize = 20;

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let tree = tempfile::tempdir().unwrap();
    let root = tree.path().canonicalize().unwrap();
    plant(&root);
    println!("| what | yardstick | measured | ratio | to reach |");
    println!("|---|---|---|---|---|");
    searches(&runtime, &root);
    descriptors(&runtime, &root);
}

/// 50,000 files of source text in a repository, a part of them ignored.
fn plant(root: &Path) {
    fs::create_dir(root.join(".git")).unwrap();
    fs::write(root.join(".gitignore"), "build_*/\n*.log\n").unwrap();
    for folder in 0..FOLDERS {
        let name = if folder % 50 == 7 { format!("build_{folder}") } else { format!("part_{folder}") };
        let dir = root.join(format!("area_{}", folder % 25)).join(name).join("src");
        fs::create_dir_all(&dir).unwrap();
        for file in 0..FILES_PER_FOLDER {
            let kind = ["rs", "rs", "rs", "toml", "md", "log", "py", "txt"][file % 8];
            let line =
                format!("pub fn item_{folder}_{file}(input: &str) -> usize {{ input.len() + {file} }}\n");
            let mut text = line.repeat(5 + (folder * 7 + file * 13) % 60);
            if (folder * FILES_PER_FOLDER + file).is_multiple_of(997) {
                text.push_str("// the needle in this haystack\n");
            }
            fs::write(dir.join(format!("file_{file}.{kind}")), text).unwrap();
        }
    }
}

fn searches(runtime: &Runtime, root: &Path) {
    let Some(rg) = std::env::var_os("RG").map(PathBuf::from) else {
        println!("| searches | – | – | – | `RG` names no ripgrep; `cargo xtask bench` installs one |");
        return;
    };
    let engine = Engine::new(Registry::new().with(haft_tools::core()).unwrap())
        .workspace(Workspace::new(root).unwrap());
    let rg = |args: &[&str]| {
        let mut command = Command::new(&rg);
        command.args(["--no-config", "--hidden", "-g", "!.git"]).args(args);
        let mut child =
            command.current_dir(root).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = Vec::new();
        child.stdout.take().unwrap().read_to_end(&mut said).unwrap();
        child.wait().unwrap();
        said.split(|byte| *byte == b'\n').count()
    };
    let call = |tool: &str, input: &Value| {
        let results = runtime.block_on(engine.turn().run([ToolCall::new("1", tool, input.clone())]));
        results[0].outcome().unwrap().to_text().lines().count()
    };
    let cases: [(&str, &str, Value, &[&str]); 6] = [
        (
            "`Grep` for files, few match, against `rg -l`",
            "Grep",
            json!({"pattern": "needle in"}),
            &["-l", "needle in", "."],
        ),
        (
            "`Grep` for lines, few match, against `rg -n`",
            "Grep",
            json!({"pattern": "n[e]+dle in", "output_mode": "content"}),
            &["-n", "n[e]+dle in", "."],
        ),
        (
            "`Grep` for counts, all match, against `rg -c`",
            "Grep",
            json!({"pattern": "input", "output_mode": "count", "head_limit": 0}),
            &["-c", "input", "."],
        ),
        (
            "`Grep` for lines of one type, against `rg -n -t`",
            "Grep",
            json!({"pattern": "item_\\d+_1", "output_mode": "content", "type": "rust", "head_limit": 0}),
            &["-n", "-trust", "item_\\d+_1", "."],
        ),
        (
            "`Glob` of every file, against `rg --files`",
            "Glob",
            json!({"pattern": "**/*"}),
            &["--files", "--no-ignore"],
        ),
        (
            "`Glob` of one kind, against `rg --files -g`",
            "Glob",
            json!({"pattern": "**/*.toml"}),
            &["--files", "--no-ignore", "-g", "*.toml"],
        ),
    ];
    for (what, tool, input, args) in cases {
        let (floor, measured) = rounds(|| rg(args), || call(tool, &input));
        row(what, &floor, &measured, "≤ 1.15");
    }
}

fn descriptors(runtime: &Runtime, root: &Path) {
    let files = DirFiles::new();
    let access = Access { write: vec![Root::subtree(root)], ..Access::default() };
    let scoped = ScopedFiles::new(&files, &access, root);
    let dir = root.join("area_0/part_0/src");
    let paths: Vec<PathBuf> = (0..FILES_PER_FOLDER).flat_map(|_| listed(&dir)).collect();

    let read = async || {
        let mut sum = 0;
        for path in &paths {
            sum += scoped.read(path).await.unwrap().len();
        }
        sum
    };
    let (floor, measured) = rounds(
        || paths.iter().map(|path| fs::read(path).unwrap().len()).sum::<usize>(),
        || runtime.block_on(read()),
    );
    row("400 small files read, against `std::fs::read`", &floor, &measured, "≤ 1.2");

    let target = root.join("written");
    let text = "x".repeat(2_000);
    let plain_write = || {
        for _ in 0..20 {
            let temp = root.join("temp");
            let mut file = fs::File::create(&temp).unwrap();
            file.write_all(text.as_bytes()).unwrap();
            file.sync_all().unwrap();
            fs::rename(&temp, &target).unwrap();
            fs::File::open(root).unwrap().sync_all().unwrap();
        }
        20
    };
    let write = async || {
        for _ in 0..20 {
            scoped.write(&target, text.as_bytes(), WriteMode::Replace).await.unwrap();
        }
        20
    };
    let (floor, measured) = rounds(plain_write, || runtime.block_on(write()));
    row("20 files written whole, against temporary, sync, rename", &floor, &measured, "≤ 1.2");

    let open_dir = || runtime.block_on(scoped.open_dir(root)).unwrap();
    let (floor, measured) = rounds(|| plain_walk(root), || open_walk(&*open_dir()));
    row("50,000 files walked and read by one thread, against `std::fs`", &floor, &measured, "≤ 1.2");
}

fn listed(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect()
}

fn plain_walk(dir: &Path) -> usize {
    let mut bytes = 0;
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => bytes += plain_walk(&entry.path()),
            _ => bytes += fs::read(entry.path()).unwrap().len(),
        }
    }
    bytes
}

fn open_walk(dir: &dyn OpenDir) -> usize {
    let mut bytes = 0;
    let mut names: Vec<(Box<OsStr>, Kind)> = Vec::new();
    dir.each(&mut |name, kind| names.push((name.into(), kind))).unwrap();
    for (name, kind) in names {
        match kind {
            Kind::Directory => bytes += open_walk(&*dir.open_dir(&name).unwrap()),
            _ => {
                let mut file = dir.open(&name).unwrap();
                let mut text = Vec::with_capacity(file.metadata().len as usize);
                bytes += file.read_to_end(&mut text).unwrap();
            }
        }
    }
    bytes
}

/// Times in nanoseconds, one of each in every round; the first round only warms up.
fn rounds(floor: impl Fn() -> usize, measured: impl Fn() -> usize) -> (Vec<f64>, Vec<f64>) {
    let time = |work: &dyn Fn() -> usize| {
        let start = Instant::now();
        black_box(work());
        start.elapsed().as_secs_f64() * 1e9
    };
    let pairs: Vec<(f64, f64)> = (0..=ROUNDS).map(|_| (time(&floor), time(&measured))).skip(1).collect();
    pairs.into_iter().unzip()
}

fn row(what: &str, floor: &[f64], measured: &[f64], goal: &str) {
    let ratios: Vec<f64> = measured.iter().zip(floor).map(|(measured, floor)| measured / floor).collect();
    let shown = |times: &[f64]| {
        let time = median(times);
        if time >= 1e6 { format!("{:.1} ms", time / 1e6) } else { format!("{:.1} µs", time / 1e3) }
    };
    println!("| {what} | {} | {} | {:.2} | {goal} |", shown(floor), shown(measured), median(&ratios));
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}
