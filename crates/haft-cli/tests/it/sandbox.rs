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

/// What settings open is there for commands, but for what settings deny.
#[test]
fn what_settings_deny_to_read_is_hidden_as_by_a_rule() {
    let room = Room::new();
    room.write("out/k/.env", "SECRET");
    // In a file, so that the command doesn't tell what it reads.
    room.write("work/r.sh", "cat ../out/k/.env");
    let out = room.path("out");
    for (denied, shown) in [(json!(["/nothing"]), true), (json!([out.join("**/.env")]), false)] {
        let settings = json!({"sandbox": {"filesystem": {"allowRead": [out], "denyRead": denied}}});
        let read = bash(&room, "bash r.sh", &["--allow", "Bash", "--settings", &settings.to_string()]);
        assert_eq!(read.stdout.contains("SECRET"), shown, "{denied}: {read:?}");
    }
}

/// In `auto`, and where settings say so, what the sandbox holds runs unasked; what leads out asks.
#[test]
fn held_commands_run_unasked_where_that_is_wanted() {
    let room = Room::new();
    room.write("settings.json", r#"{"sandbox": {"autoAllowBashIfSandboxed": true}}"#);
    let ways: [&[&str]; 2] = [&["--permission-mode", "auto"], &["--settings", "../settings.json"]];
    for way in ways {
        assert_eq!(bash(&room, "sh -c 'echo x' > made", way).code, Some(0), "{way:?}");
        let asked = bash(&room, "cat ../outside", way);
        assert!(asked.code == Some(1) && asked.stderr.contains("was denied"), "{way:?}: {asked:?}");
    }
    assert_eq!(bash(&room, "sh -c 'echo x' > more", &[]).code, Some(1));
}

/// The model may not lift the sandbox unless the user's own settings let it ask.
#[test]
fn only_the_user_lifts_the_sandbox() {
    let room = Room::new();
    let input = json!({"command": "true", "dangerouslyDisableSandbox": true}).to_string();
    let call = || room.say(&["call", "Bash", &input, "--permission-mode", "bypassPermissions"]);
    let says = r#"{"sandbox": {"allowUnsandboxedCommands": true}}"#;
    room.write("work/.haft/settings.json", says);
    assert_eq!(room.say(&["trust", "--yes"]).code, Some(0));
    let refused = call();
    let words = "`dangerouslyDisableSandbox` is not allowed by the user's settings";
    assert!(refused.code == Some(1) && refused.stderr.contains(words), "{refused:?}");
    room.write("home/.config/haft/settings.json", says);
    let asks = call();
    let words = "it wants to run without the sandbox, so it needs a yes";
    assert!(asks.code == Some(1) && asks.stderr.contains(words), "{asks:?}");
}

/// A command that fails by what the sandbox holds is told what was in its way.
#[test]
fn a_refusal_is_explained() {
    let room = Room::new();
    let done = std::process::Command::new("git").args(["init", "-q"]).arg(room.path("work/sub")).status();
    assert!(done.unwrap().success());
    let moved = bash(&room, "mv sub other", &["--allow", "Bash"]);
    assert!(moved.stderr.contains("it could not change `sub`, it seems: "), "{moved:?}");
    let evil = bash(&room, "git -C sub config core.fsmonitor evil", &["--allow", "Bash"]);
    assert!(evil.stdout.contains("`core.fsmonitor` was changed, and that was undone"), "{evil:?}");
}

/// A host that nobody allowed is named with the rule that would, and a command that left something running
/// says so.
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
    // Where `unshare` is refused there are none; Landlock's first call has the number 444 everywhere. What is
    // asked of `unshare` stands at 16, and 0x10000000 is a user namespace.
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

/// What is decoded in a child process is read wherever a process can be started, and `doctor` says what
/// confines the child.
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
    let held = call("cat notes.txt");
    assert!(held.stdout.contains("three") && !room.path("work/planted").exists(), "{held:?}");
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

/// What a command was allowed to make outside is there afterwards, also if it is empty or lies in the home
/// folder.
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

/// A session that was killed leaves its temporary folder; after a day the next one takes it away, and no
/// other.
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

/// A target that is a file is written over: what would be if it were a folder is no reason to refuse.
#[test]
fn a_file_is_copied_moved_and_linked_onto_another() {
    for command in ["cp a b && cmp a b", "mv a b && test ! -e a", "ln -sf a b && test -L b"] {
        let room = Room::new();
        ["a", "b"].iter().for_each(|name| room.write(&format!("work/{name}"), name));
        let done = bash(&room, command, &["--allow", "Bash"]);
        assert_eq!(done.code, Some(0), "{command}: {done:?}");
    }
    // Through a file nothing can be written, and a rule for what would be there counts all the same.
    let room = Room::new();
    ["a", "b"].iter().for_each(|name| room.write(&format!("work/{name}"), name));
    let denied = bash(&room, "cp a b", &["--allow", "Bash", "--deny", "Edit(./b/a)"]);
    assert!(denied.code == Some(1) && denied.stderr.contains("Edit(./b/a)"), "{denied:?}");
}

/// Without mounts nothing masks a file, so what could be a denied one asks.
#[test]
fn in_the_fallback_what_could_be_denied_asks() {
    let room = Room::new();
    room.write("work/.env", "SECRET");
    room.write("work/s.sh", "cat .en*v\n");
    let input = json!({"command": "bash s.sh"}).to_string();
    for verb in ["call", "check"] {
        let args = [verb, "Bash", &input, "--allow", "Bash", "--deny", "Read(.env)"];
        let ran = refusing(Refused::Namespaces, &room, &args);
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(!said.contains("SECRET") && said.contains("Read(.env)"), "{verb}: {ran:?}");
    }
    // The control: nothing of what is denied could be meant.
    let args = ["call", "Bash", &input, "--allow", "Bash(bash s.sh)", "--deny", "Read(.other/**)"];
    let ran = refusing(Refused::Namespaces, &room, &args);
    assert_eq!(ran.code, Some(0), "{ran:?}");
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
    let log = bash(&room, "git log --format=%s", &flags);
    assert_eq!((log.code, &*log.stdout), (Some(0), "one\n"), "{log:?}");
    let refused = bash(&room, "git switch -c x", &flags);
    let words = "` was not started: it may change files anywhere in the repository, which begins above the working directory";
    assert!(refused.code != Some(0) && refused.stderr.contains(words), "{refused:?}");
    // At its top, or without walls, it works.
    assert_eq!(bash(&room, "git switch -qc x", &["--allow", "Bash"]).code, Some(0));
    let outside = bash(&room, "git switch -qc y", &["--cwd", "sub", "--allow", "Bash", "--no-sandbox"]);
    assert_eq!(outside.code, Some(0), "{outside:?}");
}

/// A rule for the path opens it to commands and file tools, at its real place; neither a rule for commands
/// nor a mode does.
#[test]
fn a_rule_for_the_path_opens_it_and_no_other_does() {
    let room = Room::new();
    room.write("home/.ssh/id_rsa", "KEY-OF-A-TEST\n");
    let key = format!("Read(/{})", room.path("home/.ssh/id_rsa").display());
    for flags in [&["--allow", "Bash"][..], &["--permission-mode", "bypassPermissions"]] {
        let with = [flags, &["--allow", &key]].concat();
        let denied = bash(&room, "cat ~/.ssh/id_rsa", flags);
        assert!(denied.code == Some(1) && denied.stderr.contains("Read(/"), "{denied:?}");
        let shown = bash(&room, "cat ~/.ssh/id_rsa", &with);
        assert!(shown.code == Some(0) && shown.stdout.contains("KEY-OF-A-TEST"), "{shown:?}");
        let plain = bash(&room, "cat ~/.ssh/id_rsa", &[flags, &["--no-sandbox"]].concat());
        assert!(plain.stdout.contains("KEY-OF-A-TEST"), "without walls rules and modes are all: {plain:?}");
    }
    let read = json!({"file_path": room.path("home/.ssh/id_rsa")}).to_string();
    let bypass = ["call", "Read", &read, "--permission-mode", "bypassPermissions"];
    assert_eq!(room.say(&bypass).code, Some(1));
    assert!(room.say(&[&bypass[..], &["--allow", &key]].concat()).stdout.contains("KEY-OF-A-TEST"));
}
