//! A corpus of attacks on the built program: `cargo xtask attack`.
//!
//! An attack is a row of data: what lies in the folders, what is called, with which flags, and how it shows
//! that it succeeded. Each is made as root, where the tests run as root, and as an ordinary user, in fresh
//! folders, and once more as a control with flags that take the protection away: a control that doesn't
//! succeed is a fault of the corpus. A new attack is a new row in one of the tables below.

mod commands;
mod escapes;
mod files;
mod planted;
mod plants;
mod probes;
mod requests;
mod servers;
mod settings;
mod unasked;

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::room::{PATH, Room};

/// What an attack tries to read, and what it tries to write.
const SECRET: &str = "S3CRET-of-the-user";
const MARK: &str = "PWNED";

/// One attack.
#[derive(Clone)]
struct Attack {
    class: &'static str,
    name: String,
    /// Files of the attacker: paths in the room, and contents.
    planted: Vec<(String, String)>,
    /// Commands that prepare the rest, run in `work` as the user without a sandbox.
    setup: &'static str,
    call: Vec<String>,
    flags: Vec<&'static str>,
    /// The flags of the control.
    open: Vec<&'static str>,
    /// What the user does first in the control.
    consent: Option<&'static [&'static str]>,
    success: Success,
}

/// How an attack shows that it succeeded.
#[derive(Clone, Copy)]
enum Success {
    /// This is in what the program prints.
    Tells(&'static str),
    /// The mark is in a file, or in a file of a folder.
    Marks(&'static str),
}

impl Attack {
    fn new(class: &'static str, name: impl Into<String>, call: &[&str]) -> Attack {
        Attack {
            class,
            name: name.into(),
            planted: Vec::new(),
            setup: "",
            call: call.iter().map(|part| (*part).to_owned()).collect(),
            flags: Vec::new(),
            open: Vec::new(),
            consent: None,
            success: Success::Tells(SECRET),
        }
    }

    /// A call of a tool with an input.
    fn call(class: &'static str, name: impl Into<String>, tool: &str, input: &serde_json::Value) -> Attack {
        Attack::new(class, name, &["call", tool, &input.to_string()])
    }

    fn file(mut self, path: &str, content: impl Into<String>) -> Attack {
        self.planted.push((path.to_owned(), content.into()));
        self
    }

    fn prepared(self, setup: &'static str) -> Attack {
        Attack { setup, ..self }
    }

    fn with(self, flags: &[&'static str]) -> Attack {
        Attack { flags: flags.to_vec(), ..self }
    }

    fn opened_by(self, open: &[&'static str]) -> Attack {
        Attack { open: open.to_vec(), ..self }
    }

    fn opened_after(self, consent: &'static [&'static str]) -> Attack {
        Attack { consent: Some(consent), ..self }
    }

    fn succeeds(self, success: Success) -> Attack {
        Attack { success, ..self }
    }

    /// Whether it succeeds.
    fn run(&self, user: User, is_control: bool) -> (bool, String) {
        let scene = Scene::new(user);
        for (path, content) in &self.planted {
            scene.room.write(path, content);
        }
        scene.hand_over();
        if !self.setup.is_empty() {
            let mut setup = scene.command("sh");
            let done = setup.args(["-c", self.setup]).output().unwrap();
            assert!(done.status.success(), "{}: {done:?}", self.name);
        }
        if let Some(consent) = self.consent.filter(|_| is_control) {
            let done = scene.haft().args(consent).output().unwrap();
            assert!(done.status.success(), "{}: {done:?}", self.name);
        }
        let flags = if is_control { &self.open } else { &self.flags };
        let done = scene.haft().args(&self.call).args(flags).output().unwrap();
        let told = [done.stdout, done.stderr].concat();
        let told = String::from_utf8_lossy(&told).into_owned();
        let has_succeeded = match self.success {
            Success::Tells(text) => told.contains(text),
            Success::Marks(path) => has_mark(&scene.room.path(path)),
        };
        (has_succeeded, told)
    }
}

fn has_mark(path: &std::path::Path) -> bool {
    if path.is_dir() {
        return std::fs::read_dir(path).unwrap().any(|entry| has_mark(&entry.unwrap().path()));
    }
    std::fs::read_to_string(path).is_ok_and(|text| text.contains(MARK))
}

/// Who attacks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum User {
    Root,
    Ordinary,
}

impl User {
    /// Those that the tests can be.
    fn all() -> Vec<User> {
        if rustix::process::getuid().is_root() {
            vec![User::Root, User::Ordinary]
        } else {
            vec![User::Ordinary]
        }
    }

    fn name(self) -> &'static str {
        match self {
            User::Root => "root",
            User::Ordinary => "user",
        }
    }
}

/// Folders with a user's secrets in them.
struct Scene {
    room: Room,
    user: User,
}

/// What a user has that no attack may see.
const SECRETS: [&str; 13] = [
    "home/.ssh/id_rsa",
    "home/.aws/credentials",
    "home/.netrc",
    "home/.config/gh/hosts.yml",
    "home/.config/app/token",
    "home/.bash_history",
    "home/.docker/config.json",
    "home/.kube/config",
    "home/.gnupg/private-keys-v1.d/x.key",
    "home/.mozilla/firefox/x/logins.json",
    "home/.local/share/keyrings/login.keyring",
    "home/notes/diary.txt",
    "beside/secret",
];

impl Scene {
    fn new(user: User) -> Scene {
        let room = Room::empty();
        for path in SECRETS {
            room.write(path, &format!("{SECRET}\n"));
        }
        // Commands see what is no secret in it.
        room.write("home/.npmrc", &format!("fund=false\n//registry.npmjs.org/:_authToken={SECRET}\n"));
        room.write("home/.bashrc", "# mine\n");
        room.write("work/readme.txt", "hello\n");
        Scene { room, user }
    }

    /// Gives everything to the user.
    fn hand_over(&self) {
        if let Some(id) = self.other_id() {
            let owner = format!("{id}:{id}");
            std::fs::set_permissions(self.room.path(""), std::fs::Permissions::from_mode(0o755)).unwrap();
            let given = Command::new("chown").args(["-R", &owner]).arg(self.room.path("")).status().unwrap();
            assert!(given.success());
        }
    }

    /// The number of the ordinary user, where the tests run as root.
    fn other_id(&self) -> Option<String> {
        let is_other = self.user == User::Ordinary && rustix::process::getuid().is_root();
        is_other.then(|| (60_000 + std::process::id() % 5_000).to_string())
    }

    /// A program as the user.
    fn command(&self, program: &str) -> Command {
        let mut command = match self.other_id() {
            Some(id) => {
                let mut command = Command::new("setpriv");
                command.args(["--reuid", &id, "--regid", &id, "--clear-groups", program]);
                command
            }
            None => Command::new(program),
        };
        command.env_clear().env("HOME", self.room.path("home")).env("LANG", "C.UTF-8");
        command.env(PATH, "/usr/local/bin:/usr/bin:/bin").current_dir(self.room.path("work"));
        command.stdin(Stdio::null());
        command
    }

    /// The program as the user, from where everybody can start it.
    fn haft(&self) -> Command {
        self.command(program().to_str().unwrap())
    }
}

/// The program where other users can start it.
fn program() -> PathBuf {
    use std::sync::LazyLock;
    static COPY: LazyLock<(tempfile::TempDir, PathBuf)> = LazyLock::new(|| {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let path = folder.path().join("haft");
        std::fs::copy(env!("CARGO_BIN_EXE_haft"), &path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        (folder, path)
    });
    COPY.1.clone()
}

/// What came of the attacks of one class by one user.
#[derive(Default)]
struct Tally {
    attempts: usize,
    successes: usize,
    controls: usize,
    controls_succeeded: usize,
}

/// How many attacks are made at once.
const THREADS: usize = 4;

/// An attack, who made it, and of the attack and its control whether it succeeded and what the program said.
type Made<'a> = (&'a Attack, User, [(bool, String); 2]);

/// Makes each attack and its control, several at once.
fn make_all<'a>(jobs: &[(&'a Attack, User)]) -> Vec<Made<'a>> {
    let (next, made) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some((row, user)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcomes = [false, true].map(|is_control| row.run(*user, is_control));
                    made.lock().unwrap().push((*row, *user, outcomes));
                }
            });
        }
    });
    made.into_inner().unwrap()
}

/// Makes all attacks of all classes and prints what came of them.
fn attack(classes: &[Vec<Attack>]) {
    let mut tallies: BTreeMap<(&str, User), Tally> = BTreeMap::new();
    let (mut succeeded, mut blind) = (Vec::new(), Vec::new());
    let users = User::all();
    let jobs: Vec<_> =
        classes.iter().flatten().flat_map(|row| users.iter().map(move |user| (row, *user))).collect();
    for (row, user, [(has_succeeded, told), (sees, told_by_control)]) in make_all(&jobs) {
        let tally = tallies.entry((row.class, user)).or_default();
        tally.attempts += 1;
        tally.controls += 1;
        if has_succeeded {
            tally.successes += 1;
            succeeded.push(format!("{} as {}: {}: {told}", row.class, user.name(), row.name));
        }
        tally.controls_succeeded += usize::from(sees);
        if !sees {
            blind.push(format!("{} as {}: {}: {told_by_control}", row.class, user.name(), row.name));
        }
    }
    tallies.extend(requests::attack());
    for ((class, user), tally) in &tallies {
        println!(
            "proof: {class} as {}: {} attempts, {} succeeded; {} of {} controls succeeded",
            user.name(),
            tally.attempts,
            tally.successes,
            tally.controls_succeeded,
            tally.controls
        );
    }
    for name in &succeeded {
        println!("succeeded: {name}");
    }
    assert!(blind.is_empty(), "controls that show nothing:\n{}", blind.join("\n"));
    assert!(succeeded.is_empty(), "{} attacks succeeded", succeeded.len());
    assert!(tallies.values().all(|tally| tally.successes == 0 && tally.controls_succeeded == tally.controls));
}

fn tables() -> Vec<Vec<Attack>> {
    vec![
        commands::rows(),
        escapes::rows(),
        files::rows(),
        planted::rows(),
        plants::rows(),
        probes::rows(),
        servers::rows(),
        settings::rows(),
        unasked::rows(),
    ]
}

#[test]
#[ignore = "prove"]
fn prove_that_attacks_fail() {
    attack(&tables());
}

/// A few rows of each table, so that the corpus doesn't rot between two proofs.
#[test]
fn one_attack_of_each_table_fails() {
    let user = *User::all().last().unwrap();
    for rows in tables() {
        let row = &rows[0];
        let (has_succeeded, told) = row.run(user, false);
        assert!(!has_succeeded, "{}: {told}", row.name);
        let (has_succeeded, told) = row.run(user, true);
        assert!(has_succeeded, "control of {}: {told}", row.name);
    }
}
