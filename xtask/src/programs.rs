//! Programs of the system that tests use and a fresh machine may lack.
//!
//! Where Debian's `apt-get` is there and may be used (by root, or by `sudo` without a question), what is missing is
//! installed with `--yes` and in CI. Without them the run continues, and tests report what they skip.

use crate::Done;
use crate::cargo::Call;

struct Program {
    /// Any of these will do.
    names: &'static [&'static str],
    package: &'static str,
    used_for: &'static str,
}

const PROGRAMS: &[Program] = &[
    Program { names: &["git"], package: "git", used_for: "repositories" },
    Program { names: &["tmux"], package: "tmux", used_for: "the screen of a run" },
    Program { names: &["bwrap"], package: "bubblewrap", used_for: "the second way to make a sandbox" },
    Program {
        names: &["strace"],
        package: "strace",
        used_for: "what a tool touches, and faults of the disk",
    },
    Program {
        names: &["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"],
        package: "chromium",
        used_for: "the browser tools",
    },
    Program {
        names: &["chromium-headless-shell"],
        package: "chromium-headless-shell",
        used_for: "the browser tools; it starts faster, and the tests use `chromium` without it",
    },
];

/// Installs what is missing if it may, and says what is left out otherwise.
pub(crate) fn install(may_install: bool) -> Done {
    let is_missing = |program: &&Program| !program.names.iter().any(|name| is_on_path(name));
    let missing: Vec<&Program> = PROGRAMS.iter().filter(is_missing).collect();
    for program in &missing {
        println!("`{}` is missing; tests of {} need it", program.names[0], program.used_for);
    }
    let packages: Vec<&str> = missing.iter().map(|program| program.package).collect();
    match apt_get() {
        _ if packages.is_empty() => Ok(()),
        Some(apt_get) if may_install => {
            let call = |args: &[&str]| {
                let line = [&apt_get[..], args].concat();
                Call::new(line[0], &line[1..]).with_env("DEBIAN_FRONTEND", "noninteractive").quiet()
            };
            // The lists of a fresh machine may be empty or old; what can't be brought up to date may still be enough.
            let _ = call(&["update", "-q"]).run();
            call(&[&["install", "-y", "-q", "--no-install-recommends"], &packages[..]].concat()).run()
        }
        _ => {
            let packages = packages.join(" ");
            println!(
                "these tests are left out\nhint: install {packages}; `cargo xtask test --yes` does, with apt-get"
            );
            Ok(())
        }
    }
}

/// `apt-get` as it may be used here.
fn apt_get() -> Option<Vec<&'static str>> {
    let said = |program: &str, args: &[&str]| Call::new(program, args).read();
    let is_root = said("id", &["-u"]).is_ok_and(|id| id.trim() == "0");
    let with_sudo = !is_root && said("sudo", &["-n", "true"]).is_ok();
    (is_on_path("apt-get") && (is_root || with_sudo))
        .then(|| if is_root { vec!["apt-get"] } else { vec!["sudo", "-n", "apt-get"] })
}

fn is_on_path(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(name).is_file())
}
