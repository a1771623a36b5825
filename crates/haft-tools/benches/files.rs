//! What the file tools cost: searches against ripgrep, descriptors against `std::fs`, tools against what they
//! are made of, in the same run.
//!
//! Rounds of both alternate, so that a busy machine slows both; the ratio is the median over the rounds.
//! ripgrep is a process that is started, and its output read; the tools are calls through an engine. The
//! variable `RG` names it; `cargo xtask bench` installs one where there is none.
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]
#![expect(clippy::unwrap_used, reason = "a benchmark may stop")]

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::hint::black_box;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use haft::files::{DirFiles, FileKind, GrantedAccess, GrantedRoot, OpenDir, ScopedFiles, WriteMode};
use haft::{Engine, PermissionRules, Registry, ToolCall, Workspace};
use hayro::hayro_interpret::font::GlyphRun;
use hayro::hayro_interpret::hayro_cmap::BfString;
use hayro::hayro_interpret::{
    self, BlendMode, ClipPath, Device, DrawMode, DrawProps, Image, ImageDrawProps, InterpreterCache,
    InterpreterSettings, SoftMask, interpret_page,
};
use hayro::hayro_syntax::Pdf;
use hayro::kurbo::{Affine, BezPath, Point, Rect};
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
    println!("| what | yardstick | measured | ratio | to reach |");
    println!("|---|---|---|---|---|");
    // Who asks for these runs on the runtime already; from a thread beside it each call would be two ways
    // between threads.
    let here = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tools(&here);
    let tree = tempfile::tempdir().unwrap();
    let root = tree.path().canonicalize().unwrap();
    plant(&root);
    searches(&runtime, &root);
    descriptors(&runtime, &root);
}

/// The file tools against what they are made of.
fn tools(runtime: &Runtime) {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().canonicalize().unwrap();
    let permissions = PermissionRules::new().allow("Edit").unwrap();
    let processes = std::sync::Arc::new(haft_sandbox::LocalProcesses::new(std::env::vars_os()));
    let engine = Engine::builder(Registry::new().with(haft_tools::core()).unwrap())
        .workspace(Workspace::new(&root).unwrap())
        .ports(|ports| ports.processes = Some(processes))
        .permissions(permissions)
        .build();
    let call = |tool: &str, input: Value| {
        let results = runtime.block_on(engine.turn().run([ToolCall::new("1", tool, input)]));
        results[0].outcome().unwrap().blocks().iter().map(|block| block.to_text().len()).sum::<usize>()
    };

    let page: String = (0..2_000).map(|line| format!("    let value_{line} = compute({line});\n")).collect();
    fs::write(root.join("page.rs"), &page).unwrap();
    let by_hand = || {
        let text = fs::read_to_string(root.join("page.rs")).unwrap();
        let mut numbered = String::with_capacity(text.len() * 5 / 4);
        for (at, line) in text.lines().enumerate() {
            writeln!(numbered, "{}\t{line}", at + 1).unwrap();
        }
        numbered.len()
    };
    // A single one takes less than the machine's own unrest.
    let often = |work: &dyn Fn() -> usize| (0..READS_PER_ROUND).map(|_| work()).sum();
    let (floor, measured) =
        rounds(|| often(&by_hand), || often(&|| call("Read", json!({"file_path": "page.rs"}))));
    row("50 × `Read` of 2,000 lines, against reading and numbering by hand", &floor, &measured, "≤ 1.3");

    let bytes = document(100);
    fs::write(root.join("doc.pdf"), &bytes).unwrap();
    let library = || {
        let pdf = Pdf::new(fs::read(root.join("doc.pdf")).unwrap()).unwrap();
        let cache = InterpreterCache::new();
        for page in pdf.pages().iter() {
            let (all, settings) = (Rect::new(0.0, 0.0, 1e6, 1e6), InterpreterSettings::default());
            let mut context =
                hayro_interpret::Context::new(Affine::IDENTITY, all, &cache, pdf.xref(), settings);
            interpret_page(page, &mut context, &mut Characters(String::new()));
        }
        pdf.pages().len()
    };
    let (floor, measured) = rounds(library, || call("Read", json!({"file_path": "doc.pdf"})));
    row("`Read` of 100 pages of PDF, against the library", &floor, &measured, "≤ 1.2");

    let line = "x".repeat(49);
    let text: String = (0..20_000).map(|at| format!("{line}{at:05}\n")).collect();
    let (edited, written) = (root.join("edited"), root.join("written"));
    fs::write(&edited, &text).unwrap();
    let files = DirFiles::new();
    let access = GrantedAccess { write: vec![GrantedRoot::subtree(&root)], ..GrantedAccess::default() };
    let scoped = ScopedFiles::new(&files, &access, &root);
    let write = || {
        for _ in 0..EDITS_PER_ROUND {
            runtime.block_on(scoped.write(&written, text.as_bytes(), WriteMode::Replace)).unwrap();
        }
        EDITS_PER_ROUND
    };
    let next = std::cell::Cell::new(0);
    let edit = || {
        for _ in 0..EDITS_PER_ROUND {
            let at = next.get();
            next.set(at + 1);
            let (old, new) = (format!("{line}{at:05}\n"), format!("{line}done\n"));
            call("Edit", json!({"file_path": "edited", "old_string": old, "new_string": new}));
        }
        EDITS_PER_ROUND
    };
    let (floor, measured) = rounds(write, edit);
    row("1,000 `Edit`s of a file of 1 MB, against writing it as often", &floor, &measured, "≤ 2");
}

/// Reads of one round.
const READS_PER_ROUND: usize = 50;
/// Edits of one round; 1,000 in all.
const EDITS_PER_ROUND: usize = 1_000 / ROUNDS + 1;

/// A document of so many pages of text.
fn document(pages: usize) -> Vec<u8> {
    let words = "The quick brown fox jumps over the lazy dog, again and again. ";
    let mut objects = vec!["<< /Type /Catalog /Pages 2 0 R >>".to_owned()];
    let kids: Vec<String> = (0..pages).map(|at| format!("{} 0 R", 4 + 2 * at)).collect();
    objects.push(format!("<< /Type /Pages /Kids [{}] /Count {pages} >>", kids.join(" ")));
    objects
        .push("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>".to_owned());
    for at in 0..pages {
        objects.push(format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents {} 0 R /Resources << /Font << /F1 3 0 R >> >> >>",
            5 + 2 * at
        ));
        let lines: String = (0..50).map(|line| format!("({words}{at}.{line}) Tj 0 -15 Td\n")).collect();
        let stream = format!("BT /F1 10 Tf 50 800 Td\n{lines}ET");
        objects.push(format!("<< /Length {} >>\nstream\n{stream}\nendstream", stream.len()));
    }
    let mut text = "%PDF-1.7\n".to_owned();
    let mut table = String::new();
    for (at, object) in objects.iter().enumerate() {
        table.push_str(&format!("{:010} 00000 n \n", text.len()));
        text.push_str(&format!("{} 0 obj\n{object}\nendobj\n", at + 1));
    }
    let (start, size) = (text.len(), objects.len() + 1);
    text.push_str(&format!("xref\n0 {size}\n0000000000 65535 f \n{table}"));
    text.push_str(&format!("trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n"));
    text.into_bytes()
}

/// What anybody who takes text from the library does: every character, and where it is.
struct Characters(String);

impl<'a> Device<'a> for Characters {
    fn draw_glyph_run(&mut self, run: &GlyphRun<'_, 'a>, props: DrawProps<'a>, _: &DrawMode) {
        for glyph in run.glyphs() {
            black_box(props.transform * glyph.transform() * Point::ZERO);
            match glyph.as_unicode() {
                Some(BfString::Char(c)) => self.0.push(c),
                Some(BfString::String(text)) => self.0.push_str(&text),
                None => {}
            }
        }
    }
    fn draw_path(&mut self, _: &BezPath, _: DrawProps<'a>, _: &DrawMode) {}
    fn push_clip_path(&mut self, _: &ClipPath) {}
    fn push_transparency_group(&mut self, _: f32, _: Option<SoftMask<'a>>, _: BlendMode) {}
    fn draw_image(&mut self, _: Image<'a, '_>, _: ImageDrawProps<'a>) {}
    fn pop_clip(&mut self) {}
    fn pop_transparency_group(&mut self) {}
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
    let engine = Engine::builder(Registry::new().with(haft_tools::core()).unwrap())
        .workspace(Workspace::new(root).unwrap())
        .build();
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
    let access = GrantedAccess { write: vec![GrantedRoot::subtree(root)], ..GrantedAccess::default() };
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
    let mut names: Vec<(Box<OsStr>, FileKind)> = Vec::new();
    dir.each(&mut |name, kind| names.push((name.into(), kind))).unwrap();
    for (name, kind) in names {
        match kind {
            FileKind::Directory => bytes += open_walk(&*dir.open_dir(&name).unwrap()),
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
