//! Programs that start others by one of their sub-commands or as their whole purpose, and are allowed by their own name:
//! `npx x`, `docker exec c x`, `mise exec -- x`.
//!
//! Rules that allow look at the runner, as written; rules that deny or ask look past it. What runs in a container or on
//! another machine has other files, so nothing is said of paths there.

use super::options::{Found, Options};
use super::wrap::{Inner, certain, joined, plain_words};
use super::{Started, Word, globals};

struct Runner {
    name: &'static str,
    /// The sub-commands that run something; none if the program does nothing else.
    verbs: &'static [&'static str],
    options: Options,
    /// How many arguments come before the command: a container, a folder.
    operands: usize,
    form: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// What follows the options.
    Words,
    /// Only what follows `--`.
    Dashes,
    /// The name of a package, perhaps with a version: `eslint@9`.
    Package,
    /// Most long options have a value.
    Container,
}

use Form::{Container, Dashes, Package, Words};

const fn runner(
    name: &'static str,
    verbs: &'static [&'static str],
    flags: &'static str,
    valued: &'static str,
    long: &'static [&'static str],
    operands: usize,
    form: Form,
) -> Runner {
    Runner { name, verbs, options: Options { flags, valued, long, long_valued: &[] }, operands, form }
}

const CONTAINER_FLAGS: &[&str] = &[
    "rm",
    "detach",
    "interactive",
    "tty",
    "init",
    "privileged",
    "publish-all",
    "read-only",
    "no-healthcheck",
    "oom-kill-disable",
    "sig-proxy",
    "quiet",
    "disable-content-trust",
    "no-deps",
    "service-ports",
    "no-TTY",
    "build",
    "use-aliases",
    "remove-orphans",
    "quiet-pull",
];

const fn container(name: &'static str) -> Runner {
    runner(name, &["exec", "run", "create"], "ditPqT", "aceEhlmpuvw", CONTAINER_FLAGS, 1, Container)
}

const RUNNERS: &[Runner] = &[
    runner(",", &[], "", "", &[], 0, Words),
    runner("adb", &["exec-out", "shell"], "ntTx", "se", &[], 0, Words),
    runner(
        "apptainer",
        &["exec", "run"],
        "ecCvw",
        "BHWS",
        &["nv", "rocm", "cleanenv", "contain", "containall", "writable-tmpfs", "no-home"],
        1,
        Container,
    ),
    runner("asdf", &["exec"], "", "", &[], 0, Words),
    runner("austin", &[], "aCfgmPs", "eioptw", &[], 0, Words),
    runner("aws-vault", &["exec"], "", "", &[], 1, Dashes),
    runner("berglas", &["exec"], "", "", &[], 0, Dashes),
    runner("buildah", &["run"], "t", "cuv", &["tty", "no-pivot"], 1, Container),
    runner("bun", &["x"], "", "", &["bun", "silent"], 0, Package),
    runner("bundle", &["exec"], "", "", &["keep-file-descriptors"], 0, Words),
    runner("bunx", &[], "", "", &["bun", "silent"], 0, Package),
    runner("c8", &[], "", "", &[], 0, Words),
    runner("cabal", &["exec"], "v", "", &[], 0, Words),
    runner("cargo", &["watch"], "cq", "diwxE", &["clear", "quiet", "postpone", "poll"], 0, Dashes),
    runner("ch-run", &[], "wW", "bcgmu", &["write", "write-fake", "no-home"], 1, Container),
    runner("chamber", &["exec"], "", "", &[], 1, Dashes),
    runner("chruby-exec", &[], "", "", &[], 0, Dashes),
    runner("colima", &["ssh"], "", "p", &[], 0, Dashes),
    runner("conda", &["run"], "v", "npc", &["live-stream", "no-capture-output", "verbose"], 0, Container),
    runner("coresched", &["exec", "new"], "v", "dst", &[], 0, Dashes),
    runner("crictl", &["exec"], "ist", "", &["interactive", "sync", "tty"], 1, Container),
    runner("devbox", &["run"], "lq", "ce", &["list", "quiet", "pure", "print-env"], 0, Container),
    runner("devenv", &["shell"], "", "", &[], 0, Words),
    runner("direnv", &["exec"], "", "", &[], 1, Words),
    runner("distrobox", &["enter"], "", "", &[], 0, Dashes),
    container("docker"),
    container("docker-compose"),
    runner("doppler", &["run"], "", "", &[], 0, Dashes),
    runner("dotenv", &[], "", "", &[], 0, Dashes),
    runner("dotenvx", &["run"], "", "", &[], 0, Dashes),
    runner("dune", &["exec"], "", "", &["no-build"], 0, Words),
    runner(
        "dvc",
        &["run"],
        "fqv",
        "dmMnoOpw",
        &["force", "no-exec", "no-run-cache", "quiet", "verbose"],
        0,
        Container,
    ),
    runner("enroot", &["exec", "start"], "rw", "cem", &["root", "rw"], 1, Container),
    runner("env-cmd", &[], "xv", "efr", &[], 0, Words),
    runner("envchain", &[], "", "", &[], 1, Words),
    runner("flamegraph", &[], "", "", &[], 0, Dashes),
    runner("flatpak", &["run"], "", "", &[], 0, Words),
    runner(
        "flatpak-spawn",
        &[],
        "",
        "",
        &["host", "watch-bus", "clear-env", "latest-version", "no-network", "sandbox"],
        0,
        Words,
    ),
    runner("flox", &["activate"], "", "dr", &[], 0, Dashes),
    runner("fnm", &["exec"], "", "", &["using-file"], 0, Container),
    runner("foreman", &["run"], "", "efdp", &[], 0, Words),
    runner("ghcup", &["run"], "", "", &[], 0, Dashes),
    runner("goenv", &["exec"], "", "", &[], 0, Words),
    runner("goreman", &["run"], "", "", &[], 0, Words),
    runner("guix", &["environment", "shell"], "", "", &[], 0, Dashes),
    runner("gum", &["spin"], "", "", &[], 0, Dashes),
    runner("hatch", &["run"], "", "", &[], 0, Words),
    runner("heroku", &["run"], "", "ars", &["exit-code", "no-tty"], 0, Container),
    runner("honcho", &["run"], "", "efdp", &[], 0, Words),
    runner("incus", &["exec"], "", "", &[], 1, Dashes),
    runner("infisical", &["run"], "", "", &[], 0, Dashes),
    runner("jenv", &["exec"], "", "", &[], 0, Words),
    runner("kcov", &[], "", "", &[], 1, Words),
    runner("kubectl", &["exec", "debug", "run"], "", "", &[], 0, Dashes),
    runner("lerna", &["exec"], "", "", &["parallel", "stream", "no-bail"], 0, Words),
    runner("lima", &[], "", "", &[], 0, Words),
    runner("limactl", &["shell"], "", "", &[], 1, Words),
    runner("lxc", &["exec"], "", "", &[], 1, Dashes),
    runner("mamba", &["run"], "v", "npc", &["live-stream", "no-capture-output", "verbose"], 0, Container),
    runner(
        "micromamba",
        &["run"],
        "v",
        "npc",
        &["live-stream", "no-capture-output", "verbose"],
        0,
        Container,
    ),
    runner("minikube", &["ssh"], "", "np", &[], 0, Dashes),
    runner("mise", &["exec", "x"], "", "", &[], 0, Dashes),
    runner("mosh", &[], "", "", &[], 0, Dashes),
    runner("multipass", &["exec"], "", "", &[], 1, Dashes),
    runner("n", &["exec"], "", "", &[], 1, Words),
    container("nerdctl"),
    runner("nix", &["develop", "shell", "run"], "", "", &[], 0, Words),
    runner("nix-shell", &[], "", "", &[], 0, Words),
    runner("nodenv", &["exec"], "", "", &[], 0, Words),
    runner("npm", &["exec", "x"], "ys", "wpc", &["yes", "no", "silent"], 0, Package),
    runner(
        "npx",
        &[],
        "yq",
        "wp",
        &["yes", "no", "quiet", "no-install", "ignore-existing", "offline"],
        0,
        Package,
    ),
    runner("nsjail", &[], "", "", &[], 0, Dashes),
    runner("nvm", &["exec"], "", "", &["silent"], 1, Words),
    runner("nx", &["exec"], "", "", &[], 0, Dashes),
    runner("nyc", &[], "", "", &["all", "silent"], 0, Words),
    runner("oc", &["exec", "debug", "run"], "", "", &[], 0, Dashes),
    runner("onchange", &[], "", "", &[], 0, Dashes),
    runner("op", &["run"], "", "", &[], 0, Dashes),
    runner("opam", &["exec"], "y", "", &[], 0, Words),
    runner("pdm", &["run"], "sv", "p", &["site-packages"], 0, Words),
    runner("perlbrew", &["exec"], "q", "", &["quiet"], 0, Container),
    runner("pipenv", &["run"], "", "", &[], 0, Words),
    runner("pipx", &["run"], "qv", "", &["no-cache", "pypackages", "verbose", "quiet"], 0, Package),
    runner(
        "pixi",
        &["exec", "run", "x"],
        "qv",
        "cems",
        &["frozen", "locked", "quiet", "verbose"],
        0,
        Container,
    ),
    runner("pkgx", &[], "", "", &[], 0, Package),
    runner("plenv", &["exec"], "", "", &[], 0, Words),
    runner("pnpm", &["dlx", "exec", "x"], "rc", "", &["recursive", "parallel", "silent"], 0, Package),
    runner("pnpx", &[], "s", "", &["silent"], 0, Package),
    container("podman"),
    runner("poetry", &["run"], "qnv", "", &[], 0, Words),
    runner("proot-distro", &["login"], "", "", &[], 0, Dashes),
    runner("py-spy", &["record", "top"], "", "", &[], 0, Dashes),
    runner("pyenv", &["exec"], "", "", &[], 0, Words),
    runner("rbenv", &["exec"], "", "", &[], 0, Words),
    runner("reflex", &[], "", "", &[], 0, Dashes),
    runner("rr", &["record"], "hnuwv", "cCDMopst", &["chaos", "no-file-cloning", "verbose"], 0, Container),
    runner("rtx", &["exec", "x"], "", "", &[], 0, Dashes),
    runner("rustup", &["run"], "", "", &["install"], 1, Words),
    runner("rye", &["run"], "", "", &[], 0, Words),
    runner("samply", &["record"], "ns", "or", &["save-only", "no-open"], 0, Container),
    runner(
        "singularity",
        &["exec", "run"],
        "ecCvw",
        "BHWS",
        &["nv", "rocm", "cleanenv", "contain", "containall", "writable-tmpfs", "no-home"],
        1,
        Container,
    ),
    runner("snap", &["run"], "", "", &["shell"], 0, Words),
    runner("sops", &["exec-env", "exec-file"], "", "", &["background", "pristine", "no-fifo"], 1, Container),
    runner("spack", &["build-env", "test-env"], "", "", &[], 0, Dashes),
    runner("stack", &["exec"], "", "", &[], 0, Words),
    runner("summon", &[], "", "Defp", &[], 0, Words),
    runner("teller", &["run"], "", "c", &[], 0, Dashes),
    runner("toolbox", &["run"], "", "cdr", &[], 0, Container),
    runner("tox", &["exec"], "", "e", &[], 0, Dashes),
    container("udocker"),
    runner(
        "uftrace",
        &["live", "record"],
        "aegkvV",
        "AbCdDFHLNpPrRStTUWZ",
        &["no-libcall", "verbose"],
        0,
        Container,
    ),
    runner(
        "uv",
        &["run"],
        "qvns",
        "pm",
        &[
            "quiet",
            "verbose",
            "no-project",
            "frozen",
            "locked",
            "isolated",
            "no-sync",
            "offline",
            "script",
            "all-extras",
            "active",
        ],
        0,
        Container,
    ),
    runner("uvx", &[], "qvn", "p", &["quiet", "verbose", "isolated", "offline"], 0, Package),
    runner("vagrant", &["ssh"], "", "", &[], 0, Dashes),
    runner("volta", &["run"], "", "", &["no-npm", "no-yarn", "bundled-npm"], 0, Container),
    runner(
        "xcrun",
        &[],
        "frvnkl",
        "",
        &["find", "run", "verbose", "no-cache", "kill-cache", "log"],
        0,
        Container,
    ),
    runner("xdotool", &["exec"], "", "", &["sync"], 0, Words),
    runner("yarn", &["dlx", "exec"], "q", "p", &["quiet"], 0, Package),
    runner("zellij", &["run"], "", "", &[], 0, Dashes),
];

/// What a runner starts, if the program is one and is told to.
pub(super) fn inner(name: &str, argv: &[Word]) -> Inner {
    match name {
        "ip" | "perf" => return by_verb(name, argv),
        "cmake" => return cmake(argv),
        "corepack" => return corepack(argv),
        "pueue" => return queued(argv),
        "npm" | "just" => {
            let found = after_a_name(name, argv);
            if !matches!(found, Inner::Nothing) {
                return found;
            }
        }
        _ => {}
    }
    let Ok(at) = RUNNERS.binary_search_by(|runner| runner.name.cmp(name)) else { return Inner::Nothing };
    let runner = &RUNNERS[at];
    let mut at = 1;
    if !runner.verbs.is_empty() {
        let Some(mut verb) = globals::verb(argv, 1) else { return Inner::Nothing };
        // `docker compose run`, `docker container exec`, `uv tool run`.
        if argv[verb].literal().is_some_and(|word| matches!(word, "compose" | "container" | "tool")) {
            let Some(next) = globals::verb(argv, verb + 1) else { return Inner::Nothing };
            verb = next;
        }
        match argv[verb].literal() {
            Some(word) if runner.verbs.contains(&word) => at = verb + 1,
            _ => return Inner::Nothing,
        }
    }
    started(runner, argv, at)
}

fn started(runner: &Runner, argv: &[Word], mut at: usize) -> Inner {
    let mut operands = runner.operands;
    let mut entry: Option<Vec<Word>> = None;
    let mut dashes = false;
    while let Some(word) = argv.get(at) {
        let text = word.prefix();
        if text == "--" && word.literal().is_some() {
            at += 1;
            dashes = true;
            if operands == 0 || runner.form == Dashes {
                break;
            }
            continue;
        }
        if text.len() < 2 || !text.starts_with('-') {
            if runner.form == Dashes || matches!(runner.name, "nix" | "nix-shell") {
                at += 1;
                continue;
            }
            if operands == 0 {
                break;
            }
            if !certain(word) {
                return Inner::Unknown;
            }
            operands -= 1;
            at += 1;
            if operands == 0 {
                at += usize::from(argv.get(at).and_then(Word::literal) == Some("--"));
                break;
            }
            continue;
        }
        let Some(option) = word.literal() else { return Inner::Unknown };
        at += 1;
        let (key, inline) = match option.split_once('=') {
            Some((key, value)) => (key, Some(value)),
            None => (option, None),
        };
        // A text for a shell.
        let text = match (runner.name, key) {
            ("npx" | "npm", "-c" | "--call") | ("nix-shell", "--run" | "--command") => true,
            ("mise" | "rtx" | "flox" | "vagrant", "-c" | "--command") | ("cargo", "-s" | "--shell") => true,
            ("pnpm", "-c" | "--shell-mode") => return Inner::Unknown,
            _ => false,
        };
        if text {
            return match inline.or_else(|| argv.get(at).and_then(Word::literal)) {
                Some(text) => Inner::Text { text: text.to_owned(), here: false },
                None => Inner::Unknown,
            };
        }
        if matches!(runner.name, "nix" | "nix-shell") {
            if runner.name == "nix" && matches!(key, "-c" | "--command") {
                break;
            }
            continue;
        }
        if matches!((runner.name, key), (_, "--entrypoint") | ("flatpak", "--command")) {
            let value = inline.or_else(|| argv.get(at).and_then(Word::literal));
            at += usize::from(inline.is_none());
            match value.and_then(plain_words) {
                Some(words) => entry = Some(words),
                None => return Inner::Unknown,
            }
            continue;
        }
        match runner.options.read(option).last() {
            Some(Found::Valued(_, None)) => at += 1,
            Some(Found::Unknown)
                if runner.form == Container && inline.is_none() && option.starts_with("--") =>
            {
                at += 1
            }
            Some(Found::Unknown) if runner.form == Container => {}
            Some(Found::Unknown) if inline.is_none() && runner.form != Dashes => {
                // It may have a value or not.
                let from: Vec<usize> = [at + 1, at]
                    .into_iter()
                    .filter(|at| argv.get(*at).is_some_and(|word| word.literal().is_some()))
                    .collect();
                return if from.is_empty() {
                    Inner::Nothing
                } else {
                    Inner::Perhaps { from, started: Started::Launched }
                };
            }
            _ => {}
        }
    }
    if runner.form == Dashes && !dashes || matches!(runner.name, "nix" | "nix-shell") && at >= argv.len() {
        return Inner::Nothing;
    }
    let rest = argv.get(at..).unwrap_or(&[]);
    if let Some(mut words) = entry {
        words.extend_from_slice(rest);
        return Inner::Given { argv: words, from: at, started: Started::Launched };
    }
    let Some(first) = rest.first() else { return Inner::Nothing };
    let Some(program) = first.literal() else { return Inner::Unknown };
    if matches!(runner.name, "adb" | "dvc" | "heroku" | "sops") {
        return joined(rest, false);
    }
    if runner.form == Package
        && let Some(named) = package(program)
    {
        let mut argv = rest.to_vec();
        argv[0] = Word::Literal(named.to_owned());
        return Inner::Given { argv, from: at, started: Started::Launched };
    }
    Inner::Words { from: at, started: Started::Launched, moved: true }
}

/// The program of a package: without scope and version.
fn package(text: &str) -> Option<&str> {
    let name = match text.strip_prefix('@') {
        Some(scoped) => scoped.split_once('/')?.1,
        None => text,
    };
    let name = name.split(['@', '=', '[']).next()?;
    (!name.is_empty() && name != text).then_some(name)
}

fn launched(argv: &[Word], from: usize) -> Inner {
    match argv.get(from) {
        None => Inner::Nothing,
        Some(Word::Dynamic(_)) => Inner::Unknown,
        Some(_) => Inner::Words { from, started: Started::Launched, moved: true },
    }
}

/// `cmake -E env A=1 command`, `cmake -E time command`, `cmake -E chdir FOLDER command`.
fn cmake(argv: &[Word]) -> Inner {
    let Some(at) = argv.iter().position(|word| word.literal() == Some("-E")) else { return Inner::Nothing };
    match argv.get(at + 1).map(|word| word.literal()) {
        Some(None) => Inner::Unknown,
        Some(Some("env")) => {
            let option = |word: &Word| word.prefix().starts_with('-') || word.prefix().contains('=');
            launched(argv, (at + 2..argv.len()).find(|at| !option(&argv[*at])).unwrap_or(argv.len()))
        }
        Some(Some("time")) => launched(argv, at + 2),
        Some(Some("chdir")) => launched(argv, at + 3),
        _ => Inner::Nothing,
    }
}

/// `corepack yarn@4 exec command`: a manager of packages, perhaps with a version.
fn corepack(argv: &[Word]) -> Inner {
    const MANAGERS: &[&str] = &["npm", "npx", "pnpm", "pnpx", "yarn", "yarnpkg"];
    let Some(at) = (1..argv.len()).find(|at| !argv[*at].prefix().starts_with('-')) else {
        return Inner::Nothing;
    };
    let Some(text) = argv[at].literal() else { return Inner::Unknown };
    let manager = package(text).unwrap_or(text);
    if !MANAGERS.contains(&manager) {
        return Inner::Nothing;
    }
    let mut words = argv[at..].to_vec();
    words[0] = Word::Literal(manager.to_owned());
    Inner::Given { argv: words, from: at, started: Started::Launched }
}

/// `npm explore PACKAGE -- command` and `just --command command`.
fn after_a_name(name: &str, argv: &[Word]) -> Inner {
    if name == "just" {
        let at = argv.iter().position(|word| matches!(word.literal(), Some("-c" | "--command")));
        return at.map_or(Inner::Nothing, |at| launched(argv, at + 1));
    }
    let Some(verb) = globals::verb(argv, 1) else { return Inner::Nothing };
    if argv[verb].literal() != Some("explore") {
        return Inner::Nothing;
    }
    let operand = |at: &usize| !argv[*at].prefix().starts_with('-');
    let Some(package) = (verb + 1..argv.len()).find(operand) else { return Inner::Nothing };
    let after = (package + 1..argv.len()).find(|at| argv[*at].literal() != Some("--"));
    // Words are joined for a shell.
    after.map_or(Inner::Nothing, |at| joined(&argv[at..], false))
}

/// `pueue add -- command`, whose words are joined for a shell.
fn queued(argv: &[Word]) -> Inner {
    let Some(verb) = globals::verb(argv, 1).filter(|at| argv[*at].literal() == Some("add")) else {
        return Inner::Nothing;
    };
    let dashes = argv.iter().position(|word| word.literal() == Some("--")).map(|at| at + 1);
    let from = dashes.or_else(|| (verb + 1..argv.len()).find(|at| !argv[*at].prefix().starts_with('-')));
    from.map_or(Inner::Nothing, |from| joined(&argv[from..], false))
}

/// `ip netns exec NAME command` and `perf stat command`.
fn by_verb(name: &str, argv: &[Word]) -> Inner {
    let words: Vec<Option<&str>> = argv.iter().map(Word::literal).collect();
    if name == "ip" {
        let at =
            words.windows(2).position(|pair| matches!(pair, [Some("netns" | "vrf" | "net"), Some("exec")]));
        return match at {
            Some(at) if argv.len() > at + 3 => {
                Inner::Words { from: at + 3, started: Started::Executed, moved: false }
            }
            _ => Inner::Nothing,
        };
    }
    let runs = ["stat", "record", "trace", "mem", "c2c", "lock", "sched", "kmem", "kvm", "ftrace"];
    let Some(mut at) = (1..argv.len()).find(|at| words[*at].is_some_and(|word| runs.contains(&word))) else {
        return Inner::Nothing;
    };
    const PERF: Options = Options {
        flags: "agvqdBASnNisT",
        valued: "eFcopCrxIDGmjtu",
        long: &["all-cpus", "call-graph"],
        long_valued: &["event", "output"],
    };
    at += 1;
    while let Some(option) = words.get(at).copied().flatten().filter(|text| text.starts_with('-')) {
        at += 1;
        match PERF.read(option).last() {
            _ if option == "--" => break,
            Some(Found::Valued(_, None)) => at += 1,
            Some(Found::Unknown) if !option.contains('=') => {
                return Inner::Perhaps {
                    from: [at + 1, at].into_iter().filter(|at| *at < argv.len()).collect(),
                    started: Started::Executed,
                };
            }
            _ => {}
        }
    }
    match words.get(at) {
        Some(Some(_)) => Inner::Words { from: at, started: Started::Executed, moved: false },
        Some(None) => Inner::Unknown,
        None => Inner::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted() {
        assert!(RUNNERS.is_sorted_by(|a, b| a.name < b.name));
        assert_eq!(package("eslint@9"), Some("eslint"));
        assert_eq!(package("@scope/name@1.2"), Some("name"));
        assert_eq!(package("eslint"), None);
    }
}
