//! Compares the analysis with bash itself: every program that bash starts must have been found with its
//! arguments, or the analysis must have a doubt. The same holds for the files that redirections create,
//! which also checks `cd`.
//!
//! Each snippet runs in its own folder, whose `bin` is the whole `PATH`. It contains stubs that record how
//! they were called, and the real wrappers (`env`, `xargs`, `timeout` …) under their names. Bash's own
//! handler records names that don't exist. Nothing else can be called by name, and snippets with absolute
//! paths or their own `PATH` are skipped.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};

use haft_shell::{CommandAnalysis, FileAccess, ShellDirectories, Word, analyse_command};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::table::read;

/// Programs that are replaced by stubs.
const STUBS: &[&str] = &[
    "p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9", "ls", "cat", "rm", "grep", "git", "curl",
    "sed", "awk", "sort", "head", "echo1", "sudo",
];
/// Wrappers that are the real programs.
const REAL: &[&str] = &[
    "env", "xargs", "timeout", "nice", "nohup", "setsid", "stdbuf", "flock", "ionice", "find", "bash", "sh",
];

/// One folder with programs, shared by all runs of a test.
struct World {
    dir: tempfile::TempDir,
    runs: std::cell::Cell<usize>,
    bash: PathBuf,
}

/// Separators in the records of stubs: after each argument, and after each call.
const ARGUMENT: char = '\u{1f}';
const CALL: char = '\u{1e}';

impl World {
    fn new() -> Option<World> {
        let which = |name: &str| {
            ["/bin", "/usr/bin", "/usr/local/bin"]
                .iter()
                .map(|dir| Path::new(dir).join(name))
                .find(|path| path.exists())
        };
        let Some(bash) = which("bash") else {
            eprintln!("skipped: there is no bash here");
            return None;
        };
        let dir = tempfile::tempdir().unwrap();
        let bin = dir.path().join("programs");
        fs::create_dir(&bin).unwrap();
        let stub = format!(
            "#!{} -p\nprintf -v call '%s\\037' \"${{0##*/}}\" \"$@\"\nprintf '%s\\036' \"$call\" >> \"${{0%/bin/*}}/log\"\nprintf '1\\n'\n",
            bash.display()
        );
        for name in STUBS {
            let path = bin.join(name);
            fs::write(&path, &stub).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        for name in REAL {
            let from = if *name == "sh" { Some(bash.clone()) } else { which(name) };
            if let Some(from) = from {
                symlink(from, bin.join(name)).unwrap();
            }
        }
        Some(World { dir, runs: std::cell::Cell::new(0), bash })
    }

    /// Runs a command. Returns the programs that it started, and the files that it created.
    fn run(&self, command: &str) -> (Vec<Vec<String>>, Vec<PathBuf>) {
        let number = self.runs.get();
        self.runs.set(number + 1);
        let home = self.dir.path().join(format!("run{number}"));
        let work = home.join("work");
        fs::create_dir_all(work.join("d1/d2")).unwrap();
        fs::create_dir_all(work.join("d3")).unwrap();
        symlink(self.dir.path().join("programs"), home.join("bin")).unwrap();
        let handler = "() { local call; printf -v call '%s\\037' \"$@\"; printf '%s\\036' \"$call\" >> \"${PATH%/bin}/log\"; }";
        let limited = format!("ulimit -f 16 -u 4000 2>/dev/null; ulimit -t 1\n{command}\nwait");
        // An endless command fills the log or reaches the CPU time limit, however busy the machine is.
        let mut child = Command::new("timeout")
            .args(["-s", "KILL", "60"])
            .arg(&self.bash)
            .args(["--norc", "--noprofile", "-c"])
            // The command is the text of an `eval`, so that a syntax error ends the command and nothing
            // else.
            .arg("eval \"$0\"")
            .arg(limited)
            .env_clear()
            .env("PATH", home.join("bin"))
            .env("HOME", &home)
            .env("BASH_FUNC_command_not_found_handle%%", handler)
            .current_dir(&work)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        child.wait().unwrap();
        let log = fs::read(home.join("log")).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        // A call that the limit of the log truncated is incomplete.
        let log = log.rfind(CALL).map_or("", |end| &log[..end]);
        let calls = log.split(CALL).filter(|call| !call.is_empty()).map(|call| {
            call.strip_suffix(ARGUMENT).unwrap_or(call).split(ARGUMENT).map(str::to_owned).collect()
        });
        let mut made = Vec::new();
        let mut folders = vec![work.clone(), home.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
                let path = entry.path();
                // `flock` creates its own files, and the log is outside of `work`.
                let own = ["lock", "log", "bin", "work", "nohup.out"].iter().any(|name| path.ends_with(name));
                match entry.file_type().unwrap() {
                    kind if kind.is_dir() && !own => folders.push(path),
                    _ if own => {}
                    _ => made.push(diff(&path, &work)),
                }
            }
        }
        (calls.collect(), made)
    }

    /// Compares the programs that bash started with the analysis. Returns the number of started programs.
    fn compare(&self, command: &str) -> usize {
        let found = analyse_command(command, &ShellDirectories::new("/repo"));
        let (started, made) = self.run(command);
        if !found.doubts.is_empty() {
            return 0;
        }
        for call in &started {
            assert!(
                holds(&found, call),
                "bash started {call:?}, which wasn't found in:\n{command}\nfound: {:#?}",
                found.commands.iter().map(|command| &command.text).collect::<Vec<_>>()
            );
        }
        let writes = || found.redirects.iter().filter(|redirect| redirect.access == FileAccess::Write);
        if writes().all(|redirect| redirect.paths.is_some()) {
            let named: Vec<PathBuf> =
                writes().flat_map(|one| one.paths.clone().unwrap()).map(|path| clean(&path)).collect();
            for file in made {
                assert!(named.contains(&file), "bash made {file:?}, found {named:?} in:\n{command}");
            }
        }
        started.len()
    }
}

/// Returns a path relative to the folder in which a command began.
fn diff(path: &Path, work: &Path) -> PathBuf {
    match path.strip_prefix(work) {
        Ok(below) => below.to_owned(),
        Err(_) => Path::new("..").join(path.strip_prefix(work.parent().unwrap()).unwrap()),
    }
}

/// Removes `.` from a relative path, and `..` except at its beginning.
fn clean(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if clean.file_name().is_some() => {
                clean.pop();
            }
            part => clean.push(part),
        }
    }
    clean
}

/// Returns whether a layer of a command matches a call.
fn holds(found: &CommandAnalysis, call: &[String]) -> bool {
    found.commands.iter().flat_map(|command| &command.layers).any(|layer| fits(&layer.argv, call))
}

/// Returns whether words match arguments: known words exactly, others any number of arguments.
fn fits(words: &[Word], arguments: &[String]) -> bool {
    match words.split_first() {
        None => arguments.is_empty(),
        Some((Word::Literal(text), rest)) => {
            arguments.split_first().is_some_and(|(first, others)| first == text && fits(rest, others))
        }
        Some((Word::Dynamic(_), rest)) => (0..=arguments.len()).any(|taken| fits(rest, &arguments[taken..])),
    }
}

/// Each starts programs named `p0` to `p9`. These snippets are easier to misread than others.
const SNIPPETS: &str = include_str!("../../testdata/snippets.txt");

#[test]
fn bash_starts_nothing_that_was_not_found() {
    let Some(world) = World::new() else { return };
    let mut started = 0;
    let mut understood = 0;
    let snippets: Vec<String> = SNIPPETS.lines().map(read).collect();
    for command in &snippets {
        started += world.compare(command);
        understood +=
            usize::from(analyse_command(command, &ShellDirectories::new("/repo")).doubts.is_empty());
    }
    assert!(understood * 2 > snippets.len(), "only {understood} of {} were understood", snippets.len());
    assert!(started > snippets.len(), "the snippets started only {started} programs, so nothing was tested");
}

/// Proves that the test can fail: the analysis of another command doesn't contain the started program.
#[test]
fn a_program_that_was_not_found_is_noticed() {
    let Some(world) = World::new() else { return };
    let (started, _) = world.run("p1 x; p2 $(p3) 'a b'; unknown-name y");
    let expected: [&[&str]; 4] = [&["p1", "x"], &["p3"], &["p2", "1", "a b"], &["unknown-name", "y"]];
    assert_eq!(started, expected);
    let other = analyse_command("p1 x; p2 1 'a b'", &ShellDirectories::new("/repo"));
    let missed: Vec<_> = started.iter().filter(|call| !holds(&other, call)).map(|call| &*call[0]).collect();
    assert_eq!(missed, ["p3", "unknown-name"]);
}

/// Returns whether a snippet contains words that reach beyond the stubs or the folder.
fn is_left_out(snippet: &str) -> bool {
    let reaches = [
        "PATH",
        "env -i",
        "kill",
        "/bin/",
        "/usr/",
        "/etc",
        "/tmp",
        "/home",
        "/var",
        "/opt",
        "/root",
        "shutdown",
        "reboot",
        "command -p",
        "exec -c",
        "fork",
        ":()",
    ];
    reaches.iter().any(|word| snippet.contains(word))
}

/// Returns the snippets of a file in the format of tree-sitter's tests.
fn snippets(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let rule = |line: &str| line.len() >= 3 && line.chars().all(|c| c == '=');
    let lines: Vec<&str> = text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).collect();
    let mut at = 0;
    while at < lines.len() {
        if !rule(lines[at]) {
            at += 1;
            continue;
        }
        let Some(title) = lines[at + 1..].iter().position(|line| rule(line)) else { break };
        let begin = at + title + 2;
        let Some(length) =
            lines[begin..].iter().position(|line| line.len() >= 3 && line.chars().all(|c| c == '-'))
        else {
            break;
        };
        found.push(lines[begin..begin + length].join("\n").trim_matches('\n').to_owned());
        at = begin + length;
    }
    found
}

#[test]
fn the_snippets_of_tree_sitter_bash() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/tree-sitter-bash");
    if !folder.exists() {
        eprintln!("skipped: {} isn't there", folder.display());
        return;
    }
    let Some(world) = World::new() else { return };
    let (mut all, mut understood, mut started) = (0, 0, 0);
    for name in ["commands", "crlf", "literals", "programs", "statements"] {
        let text = fs::read_to_string(folder.join(name).with_extension("txt")).unwrap();
        for snippet in snippets(&text) {
            all += 1;
            let found = analyse_command(&snippet, &ShellDirectories::new("/repo"));
            understood += usize::from(found.doubts.is_empty());
            if !is_left_out(&snippet) {
                started += world.compare(&snippet);
            }
        }
    }
    eprintln!("{all} snippets, {understood} understood, {started} programs started and found");
    assert!(all >= 100, "only {all} snippets were read");
    assert!(understood * 2 > all, "only {understood} of {all} were understood");
    assert!(started > 100, "only {started} programs were started");
}

/// Puts a text in single quotes.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

fn program() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9", "\\p1", "'p2'", "p\"3\"", "$'p4'", "p5''",
    ])
    .prop_map(str::to_owned)
}

fn literal() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "a",
            "b=c",
            "-n",
            "--x=y",
            "'q r'",
            "\"s t\"",
            "u\\ v",
            "$'w\\tx'",
            "\"\"",
            "''",
            "{}",
            "a{b,c}d",
            "{1..2}",
            "if",
            "done",
            "}",
            "#x",
            "a#b",
            "\\;",
            "'$(p9)'",
            "\"\\$(p9)\"",
            "\\`p9\\`",
            "é",
            "\"`\\\\`",
            "~",
            "[",
            "]]",
            "!",
            "=",
            "+",
            "%",
            "\"'\"",
            "'\"'",
            "\\\\",
        ])
        .prop_map(str::to_owned),
        "[a-z]{1,4}",
    ]
}

fn word(script: BoxedStrategy<String>) -> impl Strategy<Value = String> {
    prop_oneof![
        6 => literal(),
        1 => script.clone().prop_map(|script| format!("$({script})")),
        1 => script.clone().prop_map(|script| format!("\"x $( {script} )\"")),
        1 => script.clone().prop_map(|script| format!("$(\n{script}\n)")),
        1 => script.clone().prop_filter("backticks nest badly", |script| !script.contains(['`', '\\', '$', '"'])).prop_map(|script| format!("`{script}`")),
        1 => script.clone().prop_map(|script| format!("${{v:-$({script})}}")),
        1 => script.clone().prop_map(|script| format!("\"${{v:+x}}${{v-\"$({script})\"}}\"")),
        1 => script.prop_map(|script| format!("<({script})")),
        1 => prop::sample::select(vec!["$v", "\"$v\"", "${v}", "$((1+2))", "\"$@\"", "*", "$?", "${#v}", "${v:-a b}", "${v/a/b}"]).prop_map(str::to_owned),
    ]
}

fn redirect() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "",
        "",
        "",
        "",
        " >f1",
        " 2>&1",
        " >/dev/null",
        " >>f2",
        " <f1",
        " &>f1",
        " 3>f2",
        " <<<\"w $v\"",
        " >|f1",
    ])
    .prop_map(str::to_owned)
}

fn wrapped() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "",
        "",
        "",
        "",
        "",
        "timeout 5 ",
        "timeout -k 1 5s ",
        "env ",
        "env V=1 W='a b' ",
        "nice ",
        "nice -n 3 ",
        "nohup ",
        "stdbuf -oL ",
        "command ",
        "setsid -w ",
        "flock lock ",
        "xargs ",
        "xargs -n 2 ",
        "xargs -I @ ",
        "time ",
        "time -p ",
        "! ",
        "v=1 ",
        "LC_ALL=C v=2 ",
        "ionice -c 3 ",
        "builtin command ",
        "env -u v -- ",
        "exec ",
    ])
    .prop_map(str::to_owned)
}

fn simple(script: BoxedStrategy<String>) -> impl Strategy<Value = String> {
    (wrapped(), program(), prop::collection::vec(word(script), 0..4), redirect()).prop_map(
        |(wrapped, program, words, redirect)| format!("{wrapped}{program} {}{redirect}", words.join(" ")),
    )
}

/// Generates scripts of increasing complexity. Here-documents end with a line of their own.
fn script() -> BoxedStrategy<String> {
    let leaf = (wrapped(), program(), prop::collection::vec(literal(), 0..3), redirect()).prop_map(
        |(wrapped, program, words, redirect)| format!("{wrapped}{program} {}{redirect}", words.join(" ")),
    );
    let moves = prop::sample::select(vec![
        "cd d1",
        "cd d3",
        "cd ..",
        "cd d1/d2",
        "cd absent",
        "command cd d1",
        "cd d1 && p1 >g1",
        "cd d3; p2 >g2",
        "cd absent || p3 >g3",
        "(cd d3 && p4 >g4)",
        "pushd d1 && popd",
        "eval 'cd d1'",
        "! cd d1",
        "p5 >g5",
        ">g6",
        "cd",
        "cd -",
        "cd .",
    ]);
    prop_oneof![5 => leaf, 2 => moves.prop_map(str::to_owned)].boxed().prop_recursive(4, 24, 3, |inner| {
        let inner = inner.boxed();
        let joins = prop::sample::select(vec![" && ", " || ", "; ", " | ", " |& ", "\n", " & ", ";\n", " &&\n", " |\n"]);
        prop_oneof![
            4 => simple(inner.clone()),
            3 => (inner.clone(), joins, inner.clone()).prop_map(|(a, join, b)| format!("{a}{join}{b}")),
            1 => inner.clone().prop_map(|body| format!("( {body} )")),
            1 => inner.clone().prop_map(|body| format!("{{ {body}\n}} >f3")),
            1 => (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("if {a}\nthen {b}\nelse {a}; fi")),
            1 => inner.clone().prop_map(|body| format!("for v in a 'b c'; do {body}\ndone")),
            1 => (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("while {a}\ndo {b}\nbreak; done")),
            1 => (inner.clone(), literal()).prop_map(|(body, word)| format!("case {word} in x|y) p0;; *) {body}\n;; esac")),
            1 => inner.clone().prop_map(|body| format!("fn() {{ {body}\n}}; fn a b")),
            1 => inner.clone().prop_map(|body| format!("function fm ( {body} )\nfm")),
            1 => inner.clone().prop_map(|body| format!("p1 <<E\na $({body}) 'b\nE\n")),
            1 => inner.clone().prop_map(|body| format!("p1 <<'E' && p2\na $({body}) \"b\nE\n")),
            1 => inner.clone().prop_map(|body| format!("p1 <<-E | p2\n\ta ${{v:-$({body})}}\n\tE\n")),
            1 => inner.clone().prop_map(|body| format!("sh -c {}", quoted(&body))),
            1 => inner.clone().prop_map(|body| format!("bash -ec {} x y", quoted(&body))),
            1 => inner.clone().prop_map(|body| format!("eval {}", quoted(&body))),
            1 => inner.clone().prop_map(|body| format!("trap {} EXIT", quoted(&body))),
            1 => inner.clone().prop_map(|body| format!("find . -maxdepth 0 -exec sh -c {} \\; -exec p3 {{}} +", quoted(&body))),
            1 => inner.clone().prop_map(|body| format!("[[ -n $({body}) && a < b ]]")),
            1 => inner.clone().prop_map(|body| format!("v=$({body}) w=(a $({body}))")),
            1 => inner.clone().prop_map(|body| format!("export V1=\"$({body})\"")),
            1 => inner.clone().prop_map(|body| format!("{body} # p9 $(p9)\n")),
            1 => inner.prop_map(|body| format!("p6 \\\n  a; {body}")),
        ]
        .boxed()
    })
    .boxed()
}

/// Runs generated programs. Returns how many were understood, and how many programs they started.
fn made_up(cases: usize, seed: u8) -> (usize, usize) {
    let Some(world) = World::new() else { return (usize::MAX, usize::MAX) };
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    let random =
        proptest::test_runner::TestRng::from_seed(proptest::test_runner::RngAlgorithm::ChaCha, &[seed; 32]);
    let mut runner = TestRunner::new_with_rng(config, random);
    let script = script();
    let (mut understood, mut started) = (0, 0);
    for _ in 0..cases {
        let command = script.new_tree(&mut runner).unwrap().current();
        understood +=
            usize::from(analyse_command(&command, &ShellDirectories::new("/repo")).doubts.is_empty());
        started += world.compare(&command);
    }
    (understood, started)
}

#[test]
fn made_up_programs_start_only_what_was_found() {
    let cases = 150;
    let (understood, started) = made_up(cases, 7);
    eprintln!("{cases} programs, {understood} understood, {started} started");
    assert!(understood > cases / 2, "only {understood} of {cases} were understood");
    assert!(started > cases, "only {started} programs were started");
}

#[test]
#[ignore = "prove"]
fn prove_made_up_programs_start_only_what_was_found() {
    for seed in 0..20 {
        let (understood, started) = made_up(500, seed);
        assert!(understood > 250 && started > 500, "{understood} understood, {started} started");
    }
}
