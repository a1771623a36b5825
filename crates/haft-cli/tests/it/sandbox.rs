//! Commands in the sandbox, through the program.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::json;

use crate::room::{Ran, Room};

fn bash(room: &Room, command: &str, flags: &[&str]) -> Ran {
    let input = json!({"command": command}).to_string();
    let args: Vec<&str> = ["call", "Bash", &input].into_iter().chain(flags.iter().copied()).collect();
    let mut haft = room.haft(&args);
    haft.env("PATH", std::env::var_os("PATH").unwrap());
    room.run(haft, "")
}

/// Looking needs no yes; changing does, also where the command seemed to look.
#[test]
fn what_only_looks_runs_unasked_and_changes_nothing() {
    let room = Room::new();
    let looked = bash(&room, "cat notes.txt | wc -l", &[]);
    assert_eq!(looked.code, Some(0), "{looked:?}");
    let denied = bash(&room, "echo x > made", &[]);
    assert!(denied.code == Some(1) && denied.stderr.contains("so it needs a yes"), "{denied:?}");
    // `date` is known for one that looks; here it is another program.
    room.write("bin/date", "#!/bin/sh\necho x > made; echo $?\n");
    let status = std::process::Command::new("chmod").args(["+x"]).arg(room.path("bin/date")).status();
    assert!(status.unwrap().success());
    let path = format!("{}:/usr/bin:/bin", room.path("bin").display());
    let input = json!({"command": "date"}).to_string();
    let mut haft = room.haft(["call", "Bash", &input, "--add-dir", "../bin"]);
    haft.env("PATH", &path);
    let poisoned = room.run(haft, "");
    assert!(poisoned.stdout.contains("Read-only file system"), "{poisoned:?}");
    assert!(!room.path("work/made").exists());
}

/// A rule for reads holds for whatever program reads, because the file isn't there for it.
#[test]
fn denied_files_are_not_there_for_commands() {
    let room = Room::new();
    room.write("work/.env", "SECRET");
    let tricky = "for f in .e*; do cat $f; done; true";
    let shown = bash(&room, tricky, &["--allow", "Bash"]);
    assert!(shown.stdout.contains("SECRET"), "{shown:?}");
    let hidden = bash(&room, tricky, &["--allow", "Bash", "--deny", "Read(.env)"]);
    assert!(!hidden.stdout.contains("SECRET") && hidden.stdout.contains("Permission denied"), "{hidden:?}");
}

/// The same outside of the working directories, wherever commands see something: the system, tool chains, caches, copies of
/// configuration, and folders that settings open.
#[test]
fn denied_files_outside_are_not_there_either() {
    let room = Room::new();
    for file in [
        "home/.cache/pip/x/tok",
        "home/.local/lib/x/tok",
        "home/.cargo/bin/tok",
        "open/key.pem",
        "open/k/.env",
    ] {
        room.write(file, "SECRET\n");
    }
    room.write("home/.gitconfig", "[user]\n\tname = SECRET\n");
    let open = room.path("open");
    room.write("open.json", &json!({"sandbox": {"filesystem": {"allowRead": [&open]}}}).to_string());
    // In a file, so that nobody can tell from the command what it reads.
    let names = ".cache/pip/x/tok .local/lib/x/tok .gitconfig .cargo/bin/tok";
    let open_names = format!("{0}/key.pem {0}/k/.env", open.display());
    room.write("work/r.sh", &format!("cd ~; cat {names} {open_names}; head -n 1 /etc/passwd; true\n"));
    let reads = "bash r.sh";
    let base = ["--allow", "Bash", "--settings", "../open.json"];
    let shown = bash(&room, reads, &base);
    assert!(shown.stdout.matches("SECRET").count() == 6 && shown.stdout.contains("root:"), "{shown:?}");
    let key = format!("Read(/{}/key.pem)", open.display());
    let names = [
        "Read(~/.cache/pip/x/tok)",
        "Read(~/.local/lib/x/**)",
        "Read(~/.gitconfig)",
        "Read(~/.cargo/bin/tok)",
        &key,
    ];
    let env = format!("Read(/{}/**/.env)", open.display());
    let patterns = ["Read(~/**/tok)", "Read(~/.git*)", "Read(//etc/pass*)", &env];
    for (rules, left) in [(&names[..], 1), (&patterns[..], 1)] {
        let denied = rules.iter().flat_map(|rule| ["--deny", rule]);
        let flags: Vec<&str> = base.into_iter().chain(denied).collect();
        let hidden = bash(&room, reads, &flags);
        assert_eq!(hidden.stdout.matches("SECRET").count(), left, "{rules:?}: {hidden:?}");
    }
    let flags = ["--permission-mode", "auto", "--deny", "Read(//etc/passwd)"];
    let hidden = bash(&room, "X=$(echo /etc/passwd); cat $X; true", &flags);
    assert!(!hidden.stdout.contains("root:"), "{hidden:?}");
    // What every command needs can't be taken away, and that is said.
    for rule in ["Read(//usr/**)", "Read(//bin/bash)", "Read(//**)"] {
        let refused = bash(&room, "true", &["--allow", "Bash", "--deny", rule]);
        let said = format!("{}{}", refused.stdout, refused.stderr);
        assert!(refused.code != Some(0) && said.contains("which every command needs"), "{rule}: {refused:?}");
    }
}

/// What decides what runs later is written by no command that isn't allowed to by name; and nothing of how that is done
/// is left.
#[test]
fn protected_names_stay_as_they_are_and_nothing_is_left_of_it() {
    let room = Room::new();
    fs::create_dir_all(room.path("work/.git/hooks")).unwrap();
    let before: Vec<_> = names(&room);
    let tricky = "X=$(echo .git); echo x > $X/hooks/pre-commit; mv .git other; Y=$(echo .haft); mkdir -p $Y; echo '{}' > $Y/settings.json; ls .git/hooks";
    let tried = bash(&room, tricky, &["--permission-mode", "bypassPermissions"]);
    assert_eq!(tried.code, Some(0), "{tried:?}");
    assert!(tried.stdout.contains("Read-only file system"), "{tried:?}");
    assert!(tried.stdout.contains("Device or resource busy"), "{tried:?}");
    assert_eq!(names(&room), before);
    assert!(!room.path("work/.git/hooks/pre-commit").exists());
    let plain = bash(&room, "echo x > plain; cat plain", &["--permission-mode", "bypassPermissions"]);
    assert_eq!((plain.code, plain.stdout.trim()), (Some(0), "x"));
}

fn names(room: &Room) -> Vec<String> {
    let entries = fs::read_dir(room.path("work")).unwrap().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// A tool may write what no command may, and what it wrote is held from commands.
#[test]
fn what_a_tool_writes_under_a_protected_name_stays() {
    let room = Room::new();
    let call = |name: &str, input: serde_json::Value| json!({"tool_calls": [{"name": name, "input": input}]});
    let turns = [
        call("Bash", json!({"command": "touch made; ls -A"})),
        call("LS", json!({"path": "."})),
        call("Bash", json!({"command": "touch more"})),
        call("Write", json!({"file_path": ".envrc", "content": "export A=1\n"})),
        call("Bash", json!({"command": "eval \"$(echo ZWNobyB4ID4gLmVudnJj | base64 -d)\""})),
        json!({"text": "Done."}),
    ];
    room.write("script.json", &json!({"turns": turns}).to_string());
    let args = ["run", "--script", "../script.json", "--permission-mode", "bypassPermissions"];
    let mut haft = room.haft([&args[..], &["--output", "json", "go"]].concat());
    haft.env("PATH", std::env::var_os("PATH").unwrap());
    let ran = room.run(haft, "");
    let found: serde_json::Value =
        serde_json::from_str(&ran.stdout.replace(":T", ":0")).unwrap_or_else(|_| panic!("{ran:?}"));
    let of = |at: usize| found["calls"][at].to_string();
    assert!(of(0).contains("made") && !of(0).contains(".idea") && !of(0).contains(".envrc"), "{}", of(0));
    assert!(of(1).contains("made") && !of(1).contains(".envrc"), "{}", of(1));
    assert!(of(4).contains("Read-only file system"), "{}", of(4));
    assert_eq!(fs::read_to_string(room.path("work/.envrc")).unwrap(), "export A=1\n");
    assert!(!names(&room).iter().any(|name| name == ".idea"), "{:?}", names(&room));
}

/// What settings deny to read is hidden as what rules deny: by a pattern, in any case, behind a link.
#[test]
fn what_settings_deny_to_read_is_hidden_as_by_a_rule() {
    let room = Room::new();
    room.write("out/k/.env", "SECRET");
    std::os::unix::fs::symlink("out", room.path("link")).unwrap();
    for denied in ["out/k", "out/k/.env", "link/k", "link/k/.env", "out/**/.env", "out/K", "out/k/.e*"] {
        let [out, denied] = ["out", denied].map(|path| room.path(path).display().to_string());
        let settings = format!(
            r#"{{"sandbox": {{"filesystem": {{"allowRead": ["{out}"], "denyRead": ["{denied}"]}}}}}}"#
        );
        room.write("denied.json", &settings);
        let settings = room.path("denied.json");
        let flags = ["--allow", "Bash", "--settings", settings.to_str().unwrap()];
        room.write("work/r.sh", "cat ../out/k/.env");
        let refused = bash(&room, "bash r.sh", &flags);
        assert!(
            !refused.stdout.contains("SECRET") && refused.stderr.contains("ermission denied"),
            "{denied}: {refused:?}"
        );
    }
    // The control.
    let out = room.path("out").display().to_string();
    room.write("denied.json", &format!(r#"{{"sandbox": {{"filesystem": {{"allowRead": ["{out}"]}}}}}}"#));
    let settings = room.path("denied.json");
    let read = bash(&room, "bash r.sh", &["--allow", "Bash", "--settings", settings.to_str().unwrap()]);
    assert!(read.stdout.contains("SECRET"), "{read:?}");
}

/// In `auto`, and where settings say so, what the sandbox holds runs unasked, and what it is known to write over or remove is
/// kept before; what leads out, and what can't be kept, asks.
#[test]
fn held_commands_run_unasked_where_that_is_wanted() {
    let room = Room::new();
    room.write("settings.json", r#"{"sandbox": {"autoAllowBashIfSandboxed": true}}"#);
    std::os::unix::fs::symlink("made", room.path("work/link")).unwrap();
    let ways: [&[&str]; 2] = [&["--permission-mode", "auto"], &["--settings", "../settings.json"]];
    for way in ways {
        let _ = fs::remove_file(room.path("work/made"));
        assert_eq!(bash(&room, "sh -c 'echo x' > made", way).code, Some(0), "{way:?}");
        assert_eq!(bash(&room, "echo y > made; rm made", way).code, Some(0), "{way:?}");
        assert_eq!(bash(&room, "cat /etc/passwd", way).code, Some(0), "{way:?}: every command sees that");
        for asks in ["rm -rf .", "rm link", "cat ../outside", "curl https://example.com"] {
            let asked = bash(&room, asks, way);
            assert!(
                asked.code == Some(1) && asked.stderr.contains("was denied"),
                "{way:?} {asks}: {asked:?}"
            );
        }
    }
    assert_eq!(bash(&room, "sh -c 'echo x' > more", &[]).code, Some(1));
}

/// The model may not lift the sandbox unless the user's own settings let it ask; a workspace has no word in it, trusted
/// or not.
#[test]
fn only_the_user_lifts_the_sandbox() {
    let input = json!({"command": "true", "dangerouslyDisableSandbox": true}).to_string();
    let says = |value: bool| json!({"sandbox": {"allowUnsandboxedCommands": value}}).to_string();
    for user in [None, Some(false), Some(true)] {
        for (workspace, trusted) in
            [(None, false), (Some(true), false), (Some(true), true), (Some(false), true)]
        {
            let room = Room::new();
            if let Some(value) = user {
                room.write("home/.config/haft/settings.json", &says(value));
            }
            if let Some(value) = workspace {
                room.write("work/.haft/settings.json", &says(value));
            }
            if trusted {
                assert_eq!(room.say(&["trust", "--yes"]).code, Some(0));
            }
            let case = format!("user {user:?}, workspace {workspace:?}, trusted {trusted}");
            for mode in ["default", "auto", "acceptEdits", "bypassPermissions"] {
                let ran = room.say(&["call", "Bash", &input, "--permission-mode", mode]);
                // It is never run unasked, and nobody can be asked here.
                assert_eq!(ran.code, Some(1), "{case}, {mode}: {ran:?}");
                let asks = ran.stderr.contains("it wants to run without the sandbox, so it needs a yes");
                let refused =
                    ran.stderr.contains("`dangerouslyDisableSandbox` is not allowed by the user's settings");
                assert_eq!(
                    (asks, refused),
                    (user == Some(true), user != Some(true)),
                    "{case}, {mode}: {ran:?}"
                );
            }
        }
    }
    // Who starts the program says it too.
    let room = Room::new();
    let asks = room.say(&["call", "Bash", &input, "--settings", &says(true)]);
    assert!(asks.stderr.contains("it wants to run without the sandbox"), "{asks:?}");
}

/// A command that ends with a word of the kernel's is told what was in its way.
#[test]
fn a_refusal_is_explained() {
    let room = Room::new();
    let git = |arguments: &[&str]| {
        let done =
            std::process::Command::new("git").arg("-C").arg(room.path("work")).args(arguments).output();
        assert!(done.unwrap().status.success(), "{arguments:?}");
    };
    git(&["init", "-q"]);
    git(&["init", "-q", "sub"]);
    let allow = &["--allow", "Bash"];
    let cleaned = bash(&room, "git clean -fdx", allow);
    assert!(cleaned.code == Some(0) && cleaned.stderr.is_empty(), "{cleaned:?}");
    let moved = bash(&room, "mv sub other", allow);
    assert!(moved.stderr.contains("it could not change `sub`, it seems: "), "{moved:?}");
    let named = bash(&room, "git config user.name 'A B' && git config user.name", allow);
    assert_eq!((named.code, named.stdout.as_str()), (Some(0), "A B\n"), "{named:?}");
    let evil = bash(&room, "git config core.fsmonitor evil", allow);
    assert!(evil.stdout.contains("`core.fsmonitor` was changed, and that was undone"), "{evil:?}");
    // What a script does isn't known before it runs.
    room.write("work/get.sh", "curl -sS -m 5 http://10.0.0.1/ -f\n");
    let private = bash(&room, "sh get.sh", allow);
    assert!(private.stderr.contains("could not reach 10.0.0.1:80: `10.0.0.1` was denied"), "{private:?}");
    let open = ["--allow", "Bash", "--allow", "WebFetch(domain:no-such-name.invalid)"];
    let unknown = bash(&room, "curl -sS -m 20 https://no-such-name.invalid/", &open);
    assert!(unknown.stderr.contains("the name `no-such-name.invalid` can't be resolved"), "{unknown:?}");
    let input = json!({"command": "ls"}).to_string();
    let kernel = room.say(&["call", "Bash", &input, "--cwd", "/proc", "--allow", "Bash"]);
    assert!(kernel.stderr.contains("no command can run in `/proc`: "), "{kernel:?}");
}

/// What people run all day asks nobody: it can do nothing else.
#[test]
fn everyday_looking_runs_unasked() {
    let room = Room::new();
    room.write("work/src/a.rs", "fn a() {}\n");
    for command in [
        "cat /proc/cpuinfo /proc/meminfo | wc -l",
        "head -1 /etc/os-release",
        "cat src/* | wc -l",
        "ls src/*.rs",
        "head -c 4 /dev/urandom | wc -c",
        "cat /dev/null",
        "awk '{ print $1 }' notes.txt",
        "make --version || git --version",
        "uname -a; nproc; date; env | sort; ps aux",
    ] {
        let ran = bash(&room, command, &[]);
        assert_eq!(ran.code, Some(0), "{command}: {ran:?}");
    }
    for command in ["cat /etc/passwd", "cat ../outside", "cat src/.*", "awk '{ print > \"x\" }' notes.txt"] {
        let ran = bash(&room, command, &[]);
        assert!(ran.stderr.contains("so it needs a yes"), "{command}: {ran:?}");
    }
    // A rule counts for what is read unasked otherwise.
    let denied = bash(&room, "cat /proc/cpuinfo", &["--deny", "Read(//proc/**)"]);
    assert!(denied.code == Some(1) && denied.stderr.contains("denied"), "{denied:?}");
}

/// Forms of git that have to write the configuration do, and nothing else of it stays.
#[test]
fn git_sets_up_remotes_and_what_branches_follow() {
    let room = Room::new();
    let allowed = |command: &str| bash(&room, command, &["--allow", "Bash"]);
    // The user's own is protected, so that a remote may lead there.
    let done = std::process::Command::new("git")
        .args(["init", "-q", "-b", "trunk"])
        .arg(room.path("work/up"))
        .output();
    assert!(done.unwrap().status.success());
    let made = allowed(
        "git init -q -b main . && git -c user.name=x -c user.email=x@x.io commit -q --allow-empty -m one",
    );
    assert_eq!(made.code, Some(0), "{made:?}");
    room.write("work/.gitmodules", "[submodule \"s\"]\n\tpath = s\n\turl = ./up\n");
    for (command, key, value) in [
        ("git remote add up ./up", "remote.up.url", "./up"),
        ("git push -q -u up main", "branch.main.merge", "refs/heads/main"),
        ("git fetch -q up && git switch -q -c x --track up/main", "branch.x.remote", "up"),
        ("git checkout -q -b y up/main", "branch.y.remote", "up"),
        ("git branch z && git branch -q --set-upstream-to=up/main z", "branch.z.remote", "up"),
        ("git config branch.z.description words", "branch.z.description", "words"),
        ("git remote rename up down", "remote.down.url", "./up"),
        (
            "git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),s && git submodule -q init",
            "submodule.s.active",
            "true",
        ),
    ] {
        let ran = allowed(command);
        assert_eq!(ran.code, Some(0), "{command}: {ran:?}");
        let kept = allowed(&format!("git config {key}"));
        assert_eq!(kept.stdout.trim(), value, "{command}: {kept:?}");
    }
    let tricky = bash(
        &room,
        "git remote set-url down ../x && git config core.fsmonitor ./evil",
        &["--allow", "Bash", "--allow", &format!("Read(/{})", room.path("x").display())],
    );
    assert!(tricky.stdout.contains("`core.fsmonitor` was changed, and that was undone"), "{tricky:?}");
    let kept = allowed("git config remote.down.url; git config core.fsmonitor");
    assert_eq!((kept.stderr.lines().next(), kept.code), (Some("../x"), Some(1)), "{kept:?}");
    // Where git isn't seen to be the one who writes, none of it can be written.
    let refused = allowed("sh -c \"$(printf 'git config core.fsmonitor ./evil')\"");
    assert!(
        refused.code == Some(1) && refused.stderr.contains("isn't known to write a repository"),
        "{refused:?}"
    );
}

/// A host that nobody allowed is named with the rule that would, and a command that left something running says so.
#[test]
fn what_a_command_was_kept_from_is_said() {
    let room = Room::new();
    let script = "import urllib.request as u; u.urlopen('http://registry.example/')";
    room.write("work/get.py", script);
    let ran = bash(&room, "python3 get.py 2>/dev/null", &["--allow", "Bash"]);
    let words = "it could not reach registry.example:80: `registry.example` was denied: it reaches registry.example, so \
                 it needs a yes, and nobody can be asked here; to allow it: --allow 'WebFetch(domain:registry.example)'";
    assert!(ran.code == Some(1) && ran.stderr.contains(words), "{ran:?}");
    let left = bash(&room, "sleep 600 & echo on", &["--allow", "Bash"]);
    assert!(left.stdout.starts_with("on\nwhat it left running with `&` was ended with it"), "{left:?}");
}

/// What a machine refuses, as far as the sandbox is concerned.
#[derive(Clone, Copy)]
enum Refused {
    /// User namespaces, but to bubblewrap, which doesn't make them by `unshare`.
    OwnNamespaces,
    /// All namespaces that aren't made with a process.
    Namespaces,
    /// Landlock too.
    Landlock,
}

/// Runs the program where this is refused.
fn refusing(refused: Refused, room: &Room, args: &[&str]) -> Ran {
    // Where `unshare` is refused there are none; Landlock's first call has the number 444 everywhere. What is asked of
    // `unshare` stands at 16, and 0x10000000 is a user namespace.
    const WALL: &str = "import ctypes, os, struct, sys
unshare, no = 272 if os.uname().machine == 'x86_64' else 97, (0x06, 0, 0, 0x00050001)
code = [(0x20, 0, 0, 0)]
if sys.argv[1] == 'own': code += [(0x15, 0, 3, unshare), (0x20, 0, 0, 16), (0x45, 0, 1, 0x10000000), no]
else: code += [(0x15, 0, 1, unshare), no]
if sys.argv[1] == 'landlock': code += [(0x15, 0, 1, 444), no]
code.append((0x06, 0, 0, 0x7fff0000))
text = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *one) for one in code))
class Program(ctypes.Structure): _fields_ = [('len', ctypes.c_ushort), ('filter', ctypes.c_void_p)]
program = Program(len(code), ctypes.addressof(text))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, ctypes.byref(program)) == 0
os.execv(sys.argv[2], sys.argv[2:])";
    let haft = room.haft(args);
    let mut command = std::process::Command::new("python3");
    let refused = match refused {
        Refused::OwnNamespaces => "own",
        Refused::Namespaces => "namespaces",
        Refused::Landlock => "landlock",
    };
    command.args(["-c", WALL, refused]).arg(haft.get_program());
    command.args(haft.get_args()).current_dir(room.path("work"));
    command.env("HOME", room.path("home")).env("LANG", "C.UTF-8");
    // Programs in the workspace come first, for those who look for them so.
    let path = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{path}", room.path("work").display()));
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    room.run(command, "")
}

/// Less than the whole is named, and holds what it promises.
#[test]
fn without_namespaces_there_is_the_fallback() {
    let room = Room::new();
    room.write("secret/key", "SECRET");
    let doctor = refusing(Refused::Namespaces, &room, &["doctor"]);
    assert_eq!(doctor.code, Some(0), "{doctor:?}");
    assert!(doctor.stdout.starts_with("sandbox    fallback: "), "{doctor:?}");
    assert!(doctor.stdout.contains("NO   user namespace"), "{doctor:?}");
    let read = format!("import os; print(open('{}').read())", room.path("secret/key").display());
    room.write("work/read.py", &read);
    room.write("work/look.sh", "cat notes.txt\n");
    let key = format!("Read(/{})", room.path("secret/key").display());
    let call = |command: &str| {
        let input = json!({"command": command}).to_string();
        let args = ["call", "Bash", &input, "--permission-mode", "bypassPermissions", "--allow", &key];
        refusing(Refused::Namespaces, &room, &args)
    };
    let looked = call("sh look.sh; /usr/bin/python3 read.py || true");
    assert!(looked.stdout.contains("three") && !looked.stdout.contains("SECRET"), "{looked:?}");
    assert!(looked.stderr.contains("only a part of the sandbox"), "{looked:?}");
    // The control: what is granted can be read.
    let granted = call(&format!("cat {}", room.path("secret/key").display()));
    assert!(granted.stdout.contains("SECRET"), "{granted:?}");
}

/// What is decoded in a child process is read wherever a process can be started, and `doctor` says what confines the child.
#[test]
fn decoders_run_on_every_machine() {
    let room = Room::new();
    let cell = json!({"cell_type": "markdown", "source": ["decoded"], "metadata": {}});
    let notebook = json!({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 4});
    room.write("work/n.ipynb", &notebook.to_string());
    let read = ["call", "Read", r#"{"file_path": "n.ipynb"}"#];
    let check = |read: Ran, doctor: Ran, confined: &str| {
        assert!(read.code == Some(0) && read.stdout.contains("decoded"), "{read:?}");
        assert!(
            doctor.stdout.contains(&format!("limits of memory (2 GB) and time, and {confined}")),
            "{doctor:?}"
        );
    };
    check(room.say(&read), room.say(&["doctor"]), "a sandbox");
    for (refused, confined) in [(Refused::Namespaces, "Landlock"), (Refused::Landlock, "nothing else")] {
        check(refusing(refused, &room, &read), refusing(refused, &room, &["doctor"]), confined);
    }
}

/// Where only bubblewrap may make namespaces it makes them, and the whole sandbox is there.
#[test]
fn where_only_bubblewrap_may_make_namespaces_it_does() {
    if !["/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap"].iter().any(|path| Path::new(path).exists()) {
        return eprintln!("skipped: bubblewrap isn't installed here, so nothing is tried through it");
    }
    let room = Room::new();
    let doctor = refusing(Refused::OwnNamespaces, &room, &["doctor"]);
    assert_eq!(doctor.code, Some(0), "{doctor:?}");
    assert!(doctor.stdout.starts_with("sandbox    full, through bubblewrap: "), "{doctor:?}");
    assert!(doctor.stdout.contains("  no   user namespace"), "{doctor:?}");
    assert!(doctor.stdout.contains("  yes  bubblewrap"), "{doctor:?}");
    // One that lies in the workspace isn't even looked at.
    room.write("work/bwrap", "#!/bin/sh\necho planted > planted\n");
    fs::set_permissions(room.path("work/bwrap"), fs::Permissions::from_mode(0o755)).unwrap();
    let call = |command: &str| {
        let input = json!({"command": command}).to_string();
        let args = ["call", "Bash", &input, "--permission-mode", "bypassPermissions"];
        refusing(Refused::OwnNamespaces, &room, &args)
    };
    // Names are protected: that takes mounts.
    let held = call("mkdir .claude/x || echo held; cat notes.txt; echo made > made; cat made");
    assert!(held.stdout.contains("held") && held.stdout.contains("three"), "{held:?}");
    assert!(held.stdout.contains("made") && !room.path("work/planted").exists(), "{held:?}");
    assert!(!held.stderr.contains("only a part of the sandbox"), "{held:?}");
}

/// With nothing at all commands are refused, in words that say how to run them all the same.
#[test]
fn without_any_sandbox_commands_are_refused() {
    let room = Room::new();
    let doctor = refusing(Refused::Landlock, &room, &["doctor"]);
    assert_eq!(doctor.code, Some(1), "{doctor:?}");
    assert!(
        doctor.stdout.starts_with("sandbox    none: commands are refused unless `--no-sandbox`"),
        "{doctor:?}"
    );
    let input = json!({"command": "cat notes.txt"}).to_string();
    let args = ["call", "Bash", &input, "--permission-mode", "bypassPermissions"];
    let refused = refusing(Refused::Landlock, &room, &args);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(
        refused.stderr.contains("no sandbox can be made") && refused.stderr.contains("`sandbox.enabled`"),
        "{refused:?}"
    );
    let args = ["call", "Bash", &input, "--permission-mode", "bypassPermissions", "--no-sandbox"];
    let allowed = refusing(Refused::Landlock, &room, &args);
    assert!(allowed.code == Some(0) && allowed.stdout.contains("three"), "{allowed:?}");
}

/// Configuration of a worktree would run when somebody looks at it: no command leaves one behind.
#[test]
fn no_command_leaves_configuration_in_a_worktree() {
    let room = Room::new();
    let git = |args: &[&str]| {
        let mut git = std::process::Command::new("git");
        git.args(["-c", "user.name=x", "-c", "user.email=x@x.io"]).args(args).current_dir(room.path("work"));
        assert!(git.output().unwrap().status.success(), "{args:?}");
    };
    git(&["init", "-q"]);
    git(&["config", "extensions.worktreeConfig", "true"]);
    git(&["commit", "-q", "--allow-empty", "-m", "x"]);
    git(&["worktree", "add", "-q", "old"]);
    let script = "for n in old new; do printf '[core]\\n\\tfsmonitor = false\\n' > .git/worktrees/$n/config.worktree; done";
    room.write("work/poison.sh", script);
    let made = bash(&room, "git worktree add -q new; sh poison.sh; echo on > plain", &["--allow", "Bash"]);
    assert!(made.stdout.contains("config.worktree"), "{made:?}");
    for name in ["old", "new"] {
        let folder = room.path("work/.git/worktrees").join(name);
        assert!(folder.is_dir() && !folder.join("config.worktree").exists(), "{name}: {made:?}");
    }
    assert_eq!(fs::read_to_string(room.path("work/plain")).unwrap(), "on\n");
}

/// What a command was allowed to make outside is there afterwards, also if it is empty or lies in the home folder.
#[test]
fn what_was_granted_outside_is_kept() {
    let room = Room::new();
    room.write("beside/x", "");
    let rule = format!("Edit(/{}/**)", room.path("beside").display());
    let made = bash(&room, "touch ../beside/empty", &["--allow", "Bash", "--allow", &rule]);
    assert!(made.code == Some(0) && room.path("beside/empty").exists(), "{made:?}");
    // One that only looked leaves nothing.
    let looked = bash(&room, "true || echo x > ../beside/never", &["--allow", "Bash", "--allow", &rule]);
    assert!(looked.code == Some(0) && !room.path("beside/never").exists(), "{looked:?}");
    let home = bash(&room, "echo a > ~/granted", &["--allow", "Bash", "--allow", "Edit(~/granted)"]);
    assert_eq!(fs::read_to_string(room.path("home/granted")).unwrap_or_default(), "a\n", "{home:?}");
}

/// A session that was killed leaves its temporary folder; after a day the next one takes it away, and no other.
#[test]
fn temporary_folders_of_killed_sessions_are_swept() {
    let room = Room::new();
    // No process has a number like that.
    let names = ["tmp/haft-19a-7ffffff0", "tmp/haft-19b-7ffffff1", "tmp/haft-notes"];
    for name in names {
        room.write(&format!("{name}/inside"), "");
    }
    let old = |name: &str| {
        let touched =
            std::process::Command::new("touch").args(["-d", "2 days ago"]).arg(room.path(name)).status();
        assert!(touched.unwrap().success());
    };
    old(names[0]);
    old(names[2]);
    let input = json!({"command": "echo on"}).to_string();
    let mut haft = room.haft(["call", "Bash", &input]);
    haft.env("PATH", std::env::var_os("PATH").unwrap()).env("TMPDIR", room.path("tmp"));
    let ran = room.run(haft, "");
    assert_eq!((ran.code, ran.stdout.trim()), (Some(0), "on"), "{ran:?}");
    assert_eq!(names.map(|name| room.path(name).exists()), [false, true, true]);
    assert_eq!(fs::read_dir(room.path("tmp")).unwrap().count(), 2, "its own is gone too");
}

/// Who is killed undoes nothing; whoever comes next does, and says so.
#[test]
fn what_a_killed_session_leaves_in_a_configuration_is_undone_by_the_next() {
    let room = Room::new();
    let git = |args: &[&str]| {
        let done =
            std::process::Command::new("git").arg("-C").arg(room.path("work")).args(args).output().unwrap();
        String::from_utf8(done.stdout).unwrap()
    };
    git(&["init", "-q"]);
    git(&["config", "include.path", "../.gitlocal"]);
    let before = fs::read_to_string(room.path("work/.git/config")).unwrap();
    room.write(
        "work/attack.sh",
        "git config core.fsmonitor evil; git config branch.x.merge refs/heads/o; echo '[core]' > .gitlocal; touch ready; sleep 1000",
    );
    let input = json!({"command": "git config user.name q; bash attack.sh"}).to_string();
    let mut haft = room.haft(["call", "Bash", &input, "--allow", "Bash"]);
    haft.env("PATH", std::env::var_os("PATH").unwrap());
    let mut killed = haft.spawn().unwrap();
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !room.path("work/ready").exists() {
        assert!(std::time::Instant::now() < end && killed.try_wait().unwrap().is_none(), "it never began");
        crate::room::pause();
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert_eq!(
        git(&["config", "--file", ".git/config", "core.fsmonitor"]),
        "evil\n",
        "there is nothing to undo"
    );

    let next = bash(&room, "ls", &[]);
    assert_eq!(next.code, Some(0), "{next:?}");
    for words in ["a session was killed while a command could write", "`core.fsmonitor`", ".gitlocal.undone-"]
    {
        assert!(next.stderr.contains(words), "{next:?}");
    }
    let after = fs::read_to_string(room.path("work/.git/config")).unwrap();
    assert!(after.starts_with(&before) && !after.contains("fsmonitor"), "{after}");
    assert!(after.contains("merge = refs/heads/o"), "what a command may change stays: {after}");
    assert!(!room.path("work/.gitlocal").exists());
    // It is said once, and a session that ends as it should leaves nothing to say.
    let again = bash(&room, "git config user.name r", &["--allow", "Bash"]);
    assert!(again.code == Some(0) && !again.stderr.contains("killed"), "{again:?}");
    assert!(!bash(&room, "ls", &[]).stderr.contains("killed"));
}

/// So it is with repositories that weren't there: also where the working directory wasn't one, or became one.
#[test]
fn what_a_killed_session_leaves_in_new_repositories_is_undone_by_the_next() {
    for folder in ["sub", "p/q/c", "."] {
        let room = Room::new();
        let git = |at: &str, args: &[&str]| {
            let mut git = std::process::Command::new("git");
            let done = git.arg("-C").arg(room.path("work").join(at)).args(args).output().unwrap();
            String::from_utf8(done.stdout).unwrap()
        };
        if folder != "." {
            git(".", &["init", "-q"]);
        }
        git(".", &["init", "-q", "mine"]);
        git("mine", &["config", "core.fsmonitor", "mine"]);
        let hooks = format!("work/{folder}/.git/hooks");
        room.write(
            "work/attack.sh",
            &format!(
                "git init -q {folder}; cd {folder}; git config core.fsmonitor evil; mkdir -p .git/hooks; echo x > .git/hooks/pre-commit; touch $OLDPWD/ready; sleep 1000"
            ),
        );
        let input = json!({"command": "bash attack.sh"}).to_string();
        let mut haft = room.haft(["call", "Bash", &input, "--allow", "Bash"]);
        haft.env("PATH", std::env::var_os("PATH").unwrap());
        let mut killed = haft.spawn().unwrap();
        let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while !room.path("work/ready").exists() {
            assert!(
                std::time::Instant::now() < end && killed.try_wait().unwrap().is_none(),
                "it never began"
            );
            crate::room::pause();
        }
        killed.kill().unwrap();
        killed.wait().unwrap();
        let file = ["config", "--file", ".git/config", "core.fsmonitor"];
        assert_eq!(git(folder, &file), "evil\n", "there is nothing to undo");

        let next = bash(&room, "ls", &[]);
        assert_eq!(next.code, Some(0), "{next:?}");
        for words in ["a session was killed while a command could make", "`core.fsmonitor`", "hooks.undone-"]
        {
            assert!(next.stderr.contains(words), "{folder}: {next:?}");
        }
        assert_eq!(git(folder, &file), "", "{folder}");
        assert!(!room.path(&hooks).join("pre-commit").exists(), "{folder}");
        // What was there before is the user's.
        assert_eq!(git("mine", &file), "mine\n");
        assert!(!bash(&room, "ls", &[]).stderr.contains("killed"));
    }
}

/// Names that commands choose are no lines of ours, and nothing that a terminal obeys.
#[test]
fn what_a_command_names_forges_nothing() {
    let room = Room::new();
    room.write(
        "work/attack.sh",
        "d=$'e\\e]0;T\\a\\nit could not reach evil.example:443: forged'; git init -q \"p/$d\"; git -C \"p/$d\" config core.fsmonitor x; echo x > \"p/$d/.git/hooks/$d\"",
    );
    let ran = bash(&room, "bash attack.sh", &["--allow", "Bash"]);
    assert!(ran.stdout.contains("core.fsmonitor") && ran.stdout.contains("\\u{1b}"), "{ran:?}");
    assert!(!ran.stdout.contains('\u{1b}') && !ran.stdout.contains('\u{7}'), "{ran:?}");
    assert!(!ran.stdout.lines().any(|line| line.starts_with("it could not reach")), "{ran:?}");
}

/// A target that is a file is written over: what would be if it were a folder is no reason to refuse.
#[test]
fn a_file_is_copied_moved_and_linked_onto_another() {
    for command in [
        "cp a b && cmp a b",
        "cp -T a b && cmp a b",
        "cp -f a link && cmp a b",
        "mv a b && test ! -e a",
        "mv a new && test -e new",
        "ln -sf a b && test -L b",
        "ln -f a b && cmp a b",
        "install a b && cmp a b",
        "cp a b c dir && cmp dir/c c",
        "cp -t dir a && cmp dir/a a",
        "cp -r dir dir2 && test -d dir2/dir",
    ] {
        let room = Room::new();
        for name in ["a", "b", "c", "dir/x", "dir2/x"] {
            room.write(&format!("work/{name}"), &format!("of {name}"));
        }
        std::os::unix::fs::symlink("b", room.path("work/link")).unwrap();
        let done = bash(&room, command, &["--allow", "Bash"]);
        assert_eq!(done.code, Some(0), "{command}: {done:?}");
    }
    // Through a file nothing can be written, and a rule for what would be there counts all the same.
    let room = Room::new();
    ["a", "b"].iter().for_each(|name| room.write(&format!("work/{name}"), name));
    let denied = bash(&room, "cp a b", &["--allow", "Bash", "--deny", "Edit(./b/a)"]);
    assert!(denied.code == Some(1) && denied.stderr.contains("Edit(./b/a)"), "{denied:?}");
    let accepted = bash(&room, "cp a b", &["--permission-mode", "acceptEdits"]);
    assert_eq!(accepted.code, Some(0), "{accepted:?}");
}

/// Without mounts nothing masks a file, so what could be a denied one asks.
#[test]
fn in_the_fallback_what_could_be_denied_asks() {
    let room = Room::new();
    room.write("work/.env", "SECRET");
    room.write("work/s.sh", "cat .en*v\n");
    for command in [
        "f=$(echo .en); cat ${f}v",
        "bash s.sh",
        "for f in .e*; do cat $f; done",
        "python3 -c 'print(open(\".e\"+\"nv\").read())'",
    ] {
        for verb in ["call", "check"] {
            let input = json!({"command": command}).to_string();
            let args = [verb, "Bash", &input, "--allow", "Bash", "--deny", "Read(.env)"];
            let ran = refusing(Refused::Namespaces, &room, &args);
            let said = format!("{}{}", ran.stdout, ran.stderr);
            assert!(!said.contains("SECRET") && said.contains("Read(.env)"), "{verb} {command}: {ran:?}");
        }
    }
    // The control: nothing is denied, or nothing of it could be meant.
    for (command, rule) in [("bash s.sh", "Read(.other/**)"), ("cat notes.txt", "Read(.env)")] {
        let input = json!({"command": command}).to_string();
        let exact = format!("Bash({command})");
        let args = ["call", "Bash", &input, "--allow", &exact, "--deny", rule];
        let ran = refusing(Refused::Namespaces, &room, &args);
        assert_eq!(ran.code, Some(0), "{command}: {ran:?}");
    }
}

/// A rule for every host opens every name to commands, and none opens this machine: what does is said.
#[test]
fn rules_for_every_host_open_names_to_commands() {
    let room = Room::new();
    room.write("work/get.py", "import urllib.request as u; u.urlopen('http://registry.example/')");
    for rule in ["WebFetch", "WebFetch(domain:*)"] {
        let ran = bash(&room, "python3 get.py 2>/dev/null", &["--allow", "Bash", "--allow", rule]);
        assert!(ran.stderr.contains("the name `registry.example` can't be resolved"), "{rule}: {ran:?}");
    }
    let own = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = own.local_addr().unwrap().port();
    let words = "`localhost:PORT` in `sandbox.network.allowedDomains` opens a port of the user's machine";
    let tried = bash(&room, &format!("curl -sS -m 5 http://localhost:{port}/"), &["--allow", "Bash"]);
    assert!(tried.code == Some(1) && tried.stderr.contains(words), "{tried:?}");
    let warned = bash(&room, "true", &["--allow", "WebFetch(domain:localhost)"]);
    assert!(
        warned.code == Some(0) && warned.stderr.contains("opens no port of this machine to commands"),
        "{warned:?}"
    );
}

/// What a rule or setting denies is told apart from what decides what runs.
#[test]
fn what_is_denied_is_not_said_to_decide_what_runs() {
    let room = Room::new();
    room.write("work/held/in/a", "");
    room.write("work/.haft/x", "");
    room.write("denied.json", r#"{"sandbox": {"filesystem": {"denyWrite": ["held/in", "later"]}}}"#);
    let settings = room.path("denied.json");
    let flags = ["--allow", "Bash", "--settings", settings.to_str().unwrap()];
    for command in ["touch held/in/b", "mv held other"] {
        let refused = bash(&room, command, &flags);
        let denied = refused.stderr.contains("`sandbox.filesystem.denyWrite`");
        assert!(denied && !refused.stderr.contains("decides what runs"), "{command}: {refused:?}");
    }
    // What isn't there can be made, and is put aside.
    let made = bash(&room, "mkdir later", &flags);
    assert!(!room.path("work/later").exists(), "{made:?}");
    // The control.
    let protected = bash(&room, "X=$(echo .haft); touch $X/y", &flags);
    assert!(protected.stderr.contains("it decides what runs"), "{protected:?}");
}

/// What lies in the folder for worktrees is plain work once the folder is there.
#[test]
fn worktrees_of_agents_are_plain_work() {
    let room = Room::new();
    room.write("work/.claude/worktrees/one/a", "");
    let made =
        bash(&room, "mkdir .claude/worktrees/two && echo x > .claude/worktrees/two/b", &["--allow", "Bash"]);
    assert!(made.code == Some(0) && room.path("work/.claude/worktrees/two/b").exists(), "{made:?}");
    assert!(!made.stdout.contains("which no command may do"), "{made:?}");
}

/// git in a part of a repository: what only writes there works, and what may write anywhere isn't started.
#[test]
fn git_works_in_a_part_of_a_repository() {
    let room = Room::new();
    let work = room.path("work");
    room.write("work/sub/a", "a\n");
    for args in [&["init", "-q", "-b", "main"][..], &["add", "-A"], &["commit", "-qm", "one"]] {
        let identity = ["-c", "user.name=a", "-c", "user.email=a@b"];
        let done = std::process::Command::new("git").arg("-C").arg(&work).args(identity).args(args).status();
        assert!(done.unwrap().success());
    }
    let flags = ["--cwd", "sub", "--allow", "Bash"];
    let identity = "git -c user.name=a -c user.email=a@b";
    for (command, expected) in [
        ("git status --short | wc -l".to_owned(), "0\n"),
        ("git log --format=%s".to_owned(), "one\n"),
        (
            format!("echo b > b && git add b && {identity} commit -qm two && git log -n 1 --format=%s"),
            "two\n",
        ),
    ] {
        let ran = bash(&room, &command, &flags);
        assert_eq!((ran.code, &*ran.stdout), (Some(0), expected), "{command}: {ran:?}");
    }
    let refused = "` was not started: it may change files anywhere in the repository, which begins above the working directory";
    for command in ["git switch -c x", "git stash", "cd . && git checkout -- a", "git pull", "git rm b"] {
        let ran = bash(&room, command, &flags);
        assert!(ran.code != Some(0) && ran.stderr.contains(refused), "{command}: {ran:?}");
    }
    // At its top, or without walls, they work.
    assert_eq!(bash(&room, "git switch -qc x", &["--allow", "Bash"]).code, Some(0));
    assert_eq!(
        bash(&room, "git switch -qc y", &["--cwd", "sub", "--allow", "Bash", "--no-sandbox"]).code,
        Some(0)
    );
    // What git would do all the same is held by the walls.
    let ran = bash(&room, "g=git; $g mv b ../c", &flags);
    assert!(ran.code != Some(0) && room.path("work/sub/b").exists(), "{ran:?}");
}
