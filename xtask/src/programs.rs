//! Programs of the system that tests use and a fresh machine may lack.
//!
//! Where Debian's `apt-get` is there and may be used (by root, or by `sudo` without a question), what is
//! missing is installed: in CI at once, elsewhere after the developer agreed. Without them the run continues,
//! and tests report what they skip.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;

use crate::Done;
use crate::cargo::{Call, is_ci};

/// Whether packages of the system may be installed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum InstallConsent {
    /// Ask at the terminal; in CI the answer is yes, without a terminal it is no.
    Ask,
    /// `--yes` was given.
    Given,
}

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

/// Installs what is missing if the developer agrees, and says what is left out otherwise.
pub(crate) fn install(consent: InstallConsent) -> Done {
    let missing: Vec<&Program> = PROGRAMS.iter().filter(|program| !program.is_there()).collect();
    if missing.is_empty() {
        println!("all there: {}", list(&PROGRAMS.iter().collect::<Vec<_>>()));
        return Ok(());
    }
    for program in &missing {
        println!("`{}` is missing; tests of {} need it", program.names[0], program.used_for);
    }
    let apt = Apt::usable().filter(|_| consent.is_given(&missing));
    let Some(apt) = apt else {
        println!("these tests are left out\nhint: install {}", list(&missing));
        return Ok(());
    };
    // The lists of a fresh machine may be empty or old; what can't be brought up to date may still be enough.
    let _ = apt.call(&["update", "-q"]).quiet().run();
    let packages = missing.iter().map(|program| program.package);
    let args: Vec<&str> =
        ["install", "-y", "-q", "--no-install-recommends"].into_iter().chain(packages).collect();
    apt.call(&args).quiet().run()
}

impl InstallConsent {
    fn is_given(self, missing: &[&Program]) -> bool {
        if self == InstallConsent::Given || is_ci() {
            return true;
        }
        if !std::io::stdin().is_terminal() {
            println!("not installed without a question; `cargo xtask test --yes` installs them");
            return false;
        }
        print!("install the system packages {} with apt-get? [y/N] ", list(missing));
        let _ = std::io::stdout().flush();
        let mut answer = String::new();
        std::io::stdin().read_line(&mut answer).is_ok() && is_yes(&answer)
    }
}

fn is_yes(answer: &str) -> bool {
    matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

impl Program {
    fn is_there(&self) -> bool {
        self.names.iter().any(|name| on_path(name).is_some())
    }
}

/// `apt-get`, and who may use it.
struct Apt {
    with_sudo: bool,
}

impl Apt {
    fn usable() -> Option<Apt> {
        on_path("apt-get")?;
        let succeeds = |program: &str, args: &[&str]| Call::new(program, args).read();
        let root = succeeds("id", &["-u"]).is_ok_and(|id| id.trim() == "0");
        (root || succeeds("sudo", &["-n", "true"]).is_ok()).then_some(Apt { with_sudo: !root })
    }

    fn call(&self, args: &[&str]) -> Call {
        let mut line = if self.with_sudo { vec!["sudo", "-n", "apt-get"] } else { vec!["apt-get"] };
        line.extend(args);
        Call::new(line[0], &line[1..]).with_env("DEBIAN_FRONTEND", "noninteractive")
    }
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
}

fn list(programs: &[&Program]) -> String {
    programs.iter().map(|program| program.package).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_yes_installs_packages() {
        for (answer, expected) in
            [("y\n", true), ("Yes\n", true), ("\n", false), ("", false), ("yep\n", false)]
        {
            assert_eq!(is_yes(answer), expected, "{answer:?}");
        }
        assert!(InstallConsent::Given.is_given(&[]));
    }
}
