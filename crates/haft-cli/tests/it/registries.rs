//! Real package managers against registries of which each has two host names, on a private address in a
//! network of their own: one question, and the same process goes on.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::room::{PATH, Room, crate_path};

const ADDRESSES: &str = "10.77.0.0/24";
const HOSTS: [&str; 8] = [
    "pypi.org",
    "files.pythonhosted.org",
    "registry.npmjs.org",
    "registry.yarnpkg.com",
    "index.crates.io",
    "static.crates.io",
    "index.mirror.test",
    "files.mirror.test",
];

/// What a command came to.
struct Ended {
    code: i64,
    questions: i64,
    screen: String,
}

/// A room whose commands see these folders, with the certificate of the registries in its `work`.
fn room(shown: &[PathBuf], settings: &Value) -> Room {
    let room = Room::new();
    let ca = std::fs::read_to_string(crate_path("tests/registry/ca.pem")).unwrap();
    room.write("work/ca.pem", &ca);
    let network = settings.clone();
    let all = json!({"sandbox": {"filesystem": {"allowRead": shown}, "network": network}});
    room.write("home/.config/haft/settings.json", &all.to_string());
    room
}

/// The names of the registries may lead to where they are.
fn private_hosts() -> Value {
    let host = |host| json!({"host": host, "cidr": ADDRESSES});
    json!({"privateHosts": HOSTS.map(host)})
}

/// Runs a command through `haft` at a terminal, with this answer to every question; nothing where there are
/// no namespaces.
fn run(room: &Room, path: &[PathBuf], command: &str, answer: &str) -> Option<Ended> {
    run_with(room, path, command, answer, &["--allow", "Bash"])
}

fn run_with(room: &Room, path: &[PathBuf], command: &str, answer: &str, flags: &[&str]) -> Option<Ended> {
    let input = json!({"command": command}).to_string();
    let mut scene = Command::new("unshare");
    scene.args(["--map-root-user", "--net", "--mount", "python3"]).arg(crate_path("tests/registry/scene.py"));
    scene.arg(crate_path("tests/registry")).arg(answer).arg(env!("CARGO_BIN_EXE_haft"));
    scene.args(["call", "Bash", &input]).args(flags);
    let inherited = std::env::var_os(PATH).unwrap();
    let path = std::env::join_paths(path.iter().cloned().chain(std::env::split_paths(&inherited))).unwrap();
    scene.current_dir(room.path("work")).env_clear().env("HOME", room.path("home")).env(PATH, path);
    let output = scene.env("TERM", "dumb").stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("unshare:") || said.contains("no network of its own") {
        eprintln!("skipped: {said}");
        return None;
    }
    let ended: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    Some(Ended {
        code: ended["code"].as_i64().unwrap(),
        questions: ended["questions"].as_i64().unwrap(),
        screen: ended["screen"].as_str().unwrap().replace("\r\n", "\n"),
    })
}

/// One question for all registries, with what to know about them; the package is there.
fn check(ended: &Ended, installed: &Path) {
    let Ended { code, questions, screen } = ended;
    assert!(*code == 0 && *questions == 1 && installed.exists(), "{code}, {questions} questions:\n{screen}");
    assert!(
        screen.contains("package registries") && screen.contains("registries also accept uploads"),
        "{screen}"
    );
}

/// The interpreter with pip and uv, and the folders that it needs.
fn python() -> Option<(String, Vec<PathBuf>)> {
    let Some(interpreter) = std::env::var_os("HAFT_TEST_PYTHON").map(PathBuf::from) else {
        eprintln!("skipped: HAFT_TEST_PYTHON names no interpreter");
        return None;
    };
    let print = "import sys; print(sys.prefix); print(sys.base_prefix)";
    let output = Command::new(&interpreter).args(["-c", print]).output().unwrap();
    let folders = String::from_utf8(output.stdout).unwrap();
    Some((interpreter.display().to_string(), folders.lines().map(PathBuf::from).collect()))
}

/// The folder of a program on this test's `PATH`.
fn folder_of(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os(PATH).unwrap();
    let found = std::env::split_paths(&path).find(|folder| folder.join(program).is_file());
    if found.is_none() {
        eprintln!("skipped: {program} is not installed");
    }
    found
}

#[test]
fn pip_installs_after_one_question() {
    let Some((python, shown)) = python() else { return };
    let room = room(&shown, &private_hosts());
    let command =
        format!("PIP_CERT=ca.pem {python} -m pip install --disable-pip-version-check --target lib tiny");
    let Some(ended) = run(&room, &[], &command, "y") else { return };
    check(&ended, &room.path("work/lib/tiny.py"));
}

#[test]
fn uv_installs_after_one_question() {
    let Some((python, shown)) = python() else { return };
    let uv = Path::new(&python).with_file_name("uv");
    if !uv.is_file() {
        return eprintln!("skipped: uv is not installed beside {python}");
    }
    let room = room(&shown, &private_hosts());
    let command = format!(
        "SSL_CERT_FILE=$PWD/ca.pem {} pip install --no-cache --python {python} --target lib tiny",
        uv.display()
    );
    let Some(ended) = run(&room, &[], &command, "y") else { return };
    check(&ended, &room.path("work/lib/tiny.py"));
}

#[test]
fn npm_installs_after_one_question() {
    let Some(folder) = folder_of("npm") else { return };
    let room = room(&[], &private_hosts());
    let command = "npm_config_cafile=ca.pem npm install --no-audit --no-fund tiny";
    let Some(ended) = run(&room, &[folder], command, "y") else { return };
    check(&ended, &room.path("work/node_modules/tiny/package.json"));
}

/// The program of a Yarn, and the folder of it.
fn yarn(package: &str) -> Option<(PathBuf, PathBuf)> {
    let Some(modules) = std::env::var_os("HAFT_TEST_NODE_MODULES").map(PathBuf::from) else {
        eprintln!("skipped: HAFT_TEST_NODE_MODULES names no folder");
        return None;
    };
    let folder = modules.join(package).canonicalize().unwrap();
    Some((folder.join("bin/yarn.js"), folder))
}

/// Installs what a project in a repository needs in mode `auto`, as a new project and again with what was
/// committed then.
fn check_yarn(package: &str, settings: &str, certificates: &str) {
    let (Some(node), Some((yarn, shown))) = (folder_of("node"), yarn(package)) else { return };
    let room = room(&[shown], &private_hosts());
    // In the form in which Yarn writes it.
    let project = "{\n  \"name\": \"p\",\n  \"private\": true,\n  \"dependencies\": {\n    \"tiny\": \"1.0.0\"\n  }\n}\n";
    room.write("work/package.json", project);
    room.write("work/.yarnrc.yml", settings);
    room.write("work/.gitignore", "node_modules\n.yarn\n");
    let git = |args: &str| {
        let mut git = Command::new("sh");
        git.args(["-c", args]).current_dir(room.path("work")).env("HOME", room.path("home"));
        let done = git.output().unwrap();
        assert!(done.status.success(), "{args}: {done:?}");
        String::from_utf8(done.stdout).unwrap()
    };
    let commit = "git add -A && git -c user.name=u -c user.email=u@v commit -qm x";
    git(&format!("git init -q && {commit}"));
    let command = format!("{certificates}=$PWD/ca.pem node {} install", yarn.display());
    let auto = ["--permission-mode", "auto"];
    for expected in ["?? yarn.lock\n", ""] {
        let Some(ended) = run_with(&room, std::slice::from_ref(&node), &command, "y", &auto) else { return };
        check(&ended, &room.path("work/node_modules/tiny/package.json"));
        assert_eq!(git("git status --porcelain"), expected, "{}", ended.screen);
        git(&format!("{commit} --allow-empty; rm -rf node_modules .yarn"));
    }
}

#[test]
fn yarn_installs_after_one_question() {
    check_yarn("yarn", "", "npm_config_cafile");
}

#[test]
fn the_newer_yarn_installs_after_one_question() {
    check_yarn("@yarnpkg/cli-dist", "nodeLinker: node-modules\n", "NODE_EXTRA_CA_CERTS");
}

#[test]
fn cargo_fetches_after_one_question() {
    let folder = Path::new(env!("CARGO")).parent().unwrap().to_owned();
    let room = room(&[], &private_hosts());
    room.write("work/p/src/lib.rs", "");
    let manifest =
        "[package]\nname = \"p\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\ntiny = \"1\"\n";
    room.write("work/p/Cargo.toml", manifest);
    let command = "CARGO_HTTP_CAINFO=$PWD/ca.pem cargo fetch --manifest-path p/Cargo.toml";
    let Some(ended) = run(&room, &[folder], command, "y") else { return };
    check(&ended, &room.path("work/p/Cargo.lock"));
}

/// A registry of one's own is no registry that everybody knows: each of its hosts is asked about.
#[test]
fn a_mirror_is_asked_about_host_by_host() {
    let Some((python, shown)) = python() else { return };
    let room = room(&shown, &private_hosts());
    let command = format!(
        "PIP_CERT=ca.pem {python} -m pip install --disable-pip-version-check --target lib --index-url \
         https://index.mirror.test/simple tiny"
    );
    let Some(Ended { code, questions, screen }) = run(&room, &[], &command, "y") else { return };
    assert!(code == 0 && questions == 2 && room.path("work/lib/tiny.py").exists(), "{questions}:\n{screen}");
    assert!(screen.contains("index.mirror.test") && !screen.contains("package registries"), "{screen}");
}

/// What is refused is told with what would allow it: the rule, and the setting for a private address.
#[test]
fn a_refusal_says_what_would_help() {
    let Some((python, shown)) = python() else { return };
    let command = format!(
        "PIP_CERT=ca.pem {python} -m pip install --disable-pip-version-check --retries 0 --target lib tiny"
    );
    for (network, answer, words) in [
        (
            private_hosts(),
            "r no",
            vec!["the user said no to `pypi.org`: no", r#""presets": ["package-registries"]"#],
        ),
        (json!({}), "y", vec!["leads to no public address", "privateHosts", r#""cidr": "10.77.0.1/32""#]),
    ] {
        let room = room(&shown, &network);
        let Some(Ended { code, questions, screen }) = run(&room, &[], &command, answer) else { return };
        let flat = screen.replace('\n', "");
        assert!(
            code == 1 && questions == 1 && !room.path("work/lib/tiny.py").exists(),
            "{questions}:\n{screen}"
        );
        assert!(words.iter().all(|words| flat.contains(words)), "{screen}");
    }
}
