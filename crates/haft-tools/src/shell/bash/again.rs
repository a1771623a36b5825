//! Running a command again with more.
//!
//! A command that was kept from something may be run once more with it, if it failed, if it is known for certain what it was
//! kept from, and if there is a user whom the mode lets be asked. What the command says of itself is no reason. The yes
//! counts for this call and for what was shown, and there is one offer at most.
//!
//! The second run waits until no other call of the message runs, and keeps them from running: the first may have been one
//! that only looks, beside others that look.

use haft::Context;
use haft::ports::{Choice, Confinement, Exit, PermissionMode, Refusal, UserQuestion};
use haft::view::visible_line;

use super::run::Ended;
use super::said::Facts;

/// How many hosts, or files, are offered at once.
pub(super) const OFFERED_MAX: usize = 8;
/// Ports that a host has open by its name alone.
const USUAL_PORTS: [u16; 2] = [80, 443];

/// What the second run has that the first had not.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum More {
    /// What the session may write, for one that only looked and was kept from writing these.
    Writes(Vec<String>),
    /// These hosts, as rules name them.
    Hosts(Vec<String>),
}

impl More {
    /// What a run was kept from and could be given, if anything.
    pub(super) fn of(ended: &Ended, facts: &Facts<'_>) -> Option<More> {
        if ended.exit == Exit::Code(0) || !facts.confined {
            return None;
        }
        match facts.confinement {
            Confinement::Declared | Confinement::ReadOnly => {
                let written = ended.refused.iter().filter_map(|refusal| match refusal {
                    Refusal::Path { path, write: true } => {
                        Some(format!("`{}`", visible_line(&path.to_string_lossy())))
                    }
                    _ => None,
                });
                Some(More::Writes(some(written)?))
            }
            Confinement::Session => {
                let hosts = ended.refused.iter().filter_map(|refusal| match refusal {
                    Refusal::Host { host, port: Some(port), grantable: true, .. } => Some(rule(host, *port)),
                    _ => None,
                });
                Some(More::Hosts(some(hosts)?))
            }
            Confinement::Outside => None,
        }
    }

    /// Asks the user for it, if there is one.
    ///
    /// What there is to say about the answer; nothing if nobody was asked.
    pub(super) async fn offered(&self, command: &str, cx: &Context) -> Option<Answer> {
        let asks = |mode: PermissionMode| {
            !matches!(
                mode,
                PermissionMode::DontAsk | PermissionMode::Plan | PermissionMode::BypassPermissions
            )
        };
        let asker =
            cx.ports().asker().filter(|_| cx.ports().mode().is_none_or(|mode| asks(mode.current())))?;
        let command = command.trim();
        let text = match self {
            More::Writes(files) => format!(
                "`{command}` was taken for a command that only looks and could not write {}. Run it again with what this \
                 session may write?",
                files.join(", ")
            ),
            More::Hosts(hosts) => format!(
                "`{command}` failed and could not reach {}. Run it again and let it reach {}, this once?",
                hosts.join(", "),
                if hosts.len() == 1 { "it" } else { "these" }
            ),
        };
        let choice =
            |label: &str, words: &str| Choice { label: label.into(), description: Some(words.into()) };
        let choices = vec![choice("no", "leave it"), choice("yes", "run it again, once")];
        let answer = asker.question(&UserQuestion { text, choices, several: false }).await;
        Some(match answer.is_some_and(|answers| answers == ["yes"]) {
            true => Answer::Yes,
            false => Answer::No,
        })
    }

    /// What the model is told of a yes.
    pub(super) fn given(&self) -> String {
        let what = match self {
            More::Writes(_) => "with what this session may write".to_owned(),
            More::Hosts(hosts) => format!("and reach {}", hosts.join(", ")),
        };
        format!("the user let it run again {what}; this is what came of it")
    }
}

/// What the user said.
pub(super) enum Answer {
    Yes,
    No,
}

/// Each once, so many at most; nothing if there are none.
fn some(names: impl Iterator<Item = String>) -> Option<Vec<String>> {
    let mut found: Vec<String> = Vec::new();
    for name in names {
        if found.len() < OFFERED_MAX && !found.contains(&name) {
            found.push(name);
        }
    }
    (!found.is_empty()).then_some(found)
}

/// The rule that opens a host at a port.
fn rule(host: &str, port: u16) -> String {
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    if USUAL_PORTS.contains(&port) && !is_this_machine(&host) { host } else { format!("{host}:{port}") }
}

/// Names of this machine are opened port by port.
pub(super) fn is_this_machine(host: &str) -> bool {
    let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost") || name.starts_with("127.") || name == "[::1]"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_named_as_the_rule_that_opens_it() {
        for (host, port, expected) in [
            ("a.example", 443, "a.example"),
            ("a.example", 80, "a.example"),
            ("a.example", 8443, "a.example:8443"),
            ("2001:db8::1", 443, "[2001:db8::1]"),
            ("localhost", 80, "localhost:80"),
            ("::1", 5432, "[::1]:5432"),
        ] {
            assert_eq!(rule(host, port), expected);
        }
    }
}
