//! Whether work is as quick in a sandbox as outside: a flood of output against a plain pipe to a file, `cargo build` of a
//! small crate and `npm test` of a small package against the same without a sandbox, with the user's own tool chains.
//!
//! Rounds alternate; a ratio is the median over the rounds. What isn't installed is left out.
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]
#![expect(clippy::unwrap_used, reason = "a benchmark may stop")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use haft::ports::{Confinement, Exit, ProcessRequest, Processes};
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
    crate_and_package(&work);
    let mut profile = ProfileConfig::new(&work, root.join("state/tmp"), root.join("state/caches"));
    profile.home = std::env::var_os("HOME").map(PathBuf::from);
    profile.own.push(root.join("state"));
    let mut config = SandboxConfig::new(profile).with_helper(HELPER).with_variables(std::env::vars_os());
    config.full_only = true;
    let sandbox = Sandbox::start(config).unwrap();
    let bench = Bench { local: LocalProcesses::new(std::env::vars_os()), sandbox, work };

    let flood = format!("head -c {FLOOD_BYTES} /dev/zero");
    let to_file = format!("{flood} | cat > {}", root.join("file").display());
    println!("work in a session against the same outside");
    bench.compare("a flood of output against a pipe to a file", &to_file, &flood).await;
    for (name, program, command) in [
        ("`cargo build` of a small crate", "cargo", "cd crate && rm -rf target && cargo build -q --offline"),
        ("`npm test` of a small package", "npm", "cd package && npm test --silent"),
    ] {
        if bench.seconds(&bench.local, Confinement::Outside, &format!("command -v {program}")).await.is_none()
        {
            println!("  {name}: left out, `{program}` isn't installed");
            continue;
        }
        bench.compare(name, command, command).await;
    }
}

impl Bench {
    async fn compare(&self, name: &str, outside: &str, inside: &str) {
        let (mut ratios, mut plain) = (Vec::new(), Vec::new());
        // The first round warms caches up.
        for round in 0..=ROUNDS {
            let before = self.seconds(&self.local, Confinement::Outside, outside).await.unwrap();
            let within = self.seconds(&self.sandbox, Confinement::Session, inside).await.unwrap();
            if round > 0 {
                ratios.push(within / before);
                plain.push(before * 1e3);
            }
        }
        println!("  {name:<44} {:>6.2} × {:>8.0} ms", median(ratios), median(plain));
    }

    /// What a script takes, if it ends well.
    async fn seconds(
        &self,
        processes: &dyn Processes,
        confinement: Confinement,
        script: &str,
    ) -> Option<f64> {
        let request = ProcessRequest::new(["bash", "-c", script], &self.work)
            .with_confinement(confinement)
            .with_env("CARGO_TARGET_DIR", "target");
        let begun = Instant::now();
        let outcome = processes.run(request).await.unwrap();
        let took = begun.elapsed().as_secs_f64();
        (outcome.exit == Exit::Code(0)).then_some(took)
    }
}

fn crate_and_package(work: &Path) {
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
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
