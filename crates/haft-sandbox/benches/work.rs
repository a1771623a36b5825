//! Whether work is as quick in a sandbox as outside: a flood of output against a plain pipe to a file,
//! `cargo build` of a small crate and `npm test` of a small package against the same without a sandbox, with
//! the user's own tool chains.
//!
//! And what it costs that the kernel tells us of each change that a read-only command tries: the same command
//! where nobody is told. Calls that only read are never told of.
//!
//! Rounds alternate; a ratio is the median over the rounds. What isn't installed is left out.
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]
#![expect(clippy::unwrap_used, reason = "a benchmark may stop")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use haft::ports::{ConfinementLevel, ProcessExit, ProcessRequest, Processes};
use haft_sandbox::{LocalProcesses, ProfileConfig, Sandbox, SandboxConfig};

const ROUNDS: usize = 7;
const FLOOD_BYTES: u64 = 1 << 30;
const HELPER: &str = env!("CARGO_BIN_EXE_haft-sandbox-helper");

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async { tokio::spawn(all()).await.unwrap() });
}

struct Bench {
    local: LocalProcesses,
    sandbox: Sandbox,
    work: PathBuf,
}

async fn all() {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let root = dir.path().canonicalize().unwrap();
    let work = root.join("work");
    furnish(&work);
    let mut profile = ProfileConfig::new(
        &work,
        root.join("state/tmp"),
        root.join("state/caches"),
        haft::ports::SandboxRules::from_authorizer(&haft::PermissionRules::new()),
    );
    profile.home = std::env::var_os("HOME").map(PathBuf::from);
    profile.own.push(root.join("state"));
    let mut config =
        SandboxConfig::new(profile).unwrap().with_helper(HELPER).with_variables(std::env::vars_os());
    config.full_only = true;
    let sandbox = Sandbox::start(config).unwrap();
    let bench = Bench { local: LocalProcesses::new(std::env::vars_os()), sandbox, work };

    let flood = format!("head -c {FLOOD_BYTES} /dev/zero");
    let to_file = format!("{flood} | cat > {}", root.join("file").display());
    println!("| what | outside | in the sandbox | ratio | to reach |");
    println!("|---|---|---|---|---|");
    use ConfinementLevel::{ReadOnly, Session};
    let name = "1 GiB of output, against a pipe to a file";
    bench.compare(name, bench.outside(&to_file), bench.inside(Session, &flood), "≤ 2").await;
    for (name, program, command, to_reach) in [
        (
            "`cargo build` of a small crate",
            "cargo",
            "cd crate && rm -rf target && cargo build -q --offline",
            "≤ 1.1",
        ),
        ("`npm test` of a small package", "npm", "cd package && npm test --silent", "≤ 1.1"),
    ] {
        if bench
            .seconds(&bench.local, ConfinementLevel::Outside, &format!("command -v {program}"))
            .await
            .is_none()
        {
            println!("| {name} | left out: `{program}` isn't installed | | | |");
            continue;
        }
        bench.compare(name, bench.outside(command), bench.inside(Session, command), to_reach).await;
    }
    println!("\n| what is heard of a read-only command | nobody hears | heard | ratio | to reach |");
    println!("|---|---|---|---|---|");
    let many = "for i in {1..2000}; do : > $TMPDIR/x; done";
    let read = "for i in {1..5}; do cat many/*/* > /dev/null; done";
    for (name, script) in [
        ("2,000 files opened to be written", many),
        ("5 × 2,000 files opened to be read", read),
        ("`git status` in 2,000 files", "cd many && for i in {1..20}; do git status --short; done"),
    ] {
        bench.compare(name, bench.inside(Session, script), bench.inside(ReadOnly, script), "").await;
    }
}

/// One side of a comparison: who starts it, how, and what.
type Side<'a> = (&'a dyn Processes, ConfinementLevel, &'a str);

impl Bench {
    fn outside<'a>(&'a self, script: &'a str) -> Side<'a> {
        (&self.local, ConfinementLevel::Outside, script)
    }

    fn inside<'a>(&'a self, confinement: ConfinementLevel, script: &'a str) -> Side<'a> {
        (&self.sandbox, confinement, script)
    }

    async fn compare(&self, name: &str, floor: Side<'_>, own: Side<'_>, to_reach: &str) {
        let (mut ratios, mut floors, mut owns) = (Vec::new(), Vec::new(), Vec::new());
        // The first round warms caches up.
        for round in 0..=ROUNDS {
            let before = self.seconds(floor.0, floor.1, floor.2).await.unwrap();
            let within = self.seconds(own.0, own.1, own.2).await.unwrap();
            if round > 0 {
                ratios.push(within / before);
                floors.push(before * 1e3);
                owns.push(within * 1e3);
            }
        }
        let (ratio, floor, own) = (median(ratios), median(floors), median(owns));
        println!("| {name} | {floor:.0} ms | {own:.0} ms | {ratio:.2} | {to_reach} |");
    }

    /// What a script takes, if it ends well.
    async fn seconds(
        &self,
        processes: &dyn Processes,
        confinement: ConfinementLevel,
        script: &str,
    ) -> Option<f64> {
        let request = ProcessRequest::new(["bash", "-c", script], &self.work)
            .with_confinement(confinement)
            .with_env("CARGO_TARGET_DIR", "target");
        let begun = Instant::now();
        let outcome = processes.run(request).await.unwrap();
        let took = begun.elapsed().as_secs_f64();
        (outcome.exit == ProcessExit::Code(0)).then_some(took)
    }
}

fn furnish(work: &Path) {
    let test = "const test = require('node:test'); test('adds', () => { if (1 + 1 !== 2) throw 1; });\n";
    for (file, content) in [
        (
            "crate/Cargo.toml",
            "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n",
        ),
        ("crate/src/main.rs", "fn main() {\n    println!(\"{}\", (1..10).map(|n| n * n).sum::<u32>());\n}\n"),
        (
            "package/package.json",
            "{\"name\": \"small\", \"version\": \"0.1.0\", \"scripts\": {\"test\": \"node --test\"}}\n",
        ),
        ("package/small.test.js", test),
    ] {
        let path = work.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    for number in 0..2_000 {
        let folder = work.join(format!("many/{}", number % 20));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(number.to_string()), "content\n").unwrap();
    }
    let git = |arguments: &[&str]| {
        let git = std::process::Command::new("git").arg("-C").arg(work.join("many")).args(arguments).status();
        assert!(git.unwrap().success());
    };
    git(&["init", "-q"]);
    git(&["add", "-A"]);
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
