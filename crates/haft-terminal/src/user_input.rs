//! What the user types, as the host gets it: words for the model, commands, interrupts.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use haft_agent::RunHandle;

use crate::screen::Screen;

/// Something that the user wants.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum UserInput {
    /// Words for the model.
    Words(String),
    /// A command, without its slash, and what follows it.
    Command {
        /// One of the commands that the screen was opened with.
        name: String,
        /// The rest of the line, without blanks around it.
        rest: String,
    },
    /// Ctrl-C while a run goes on, for the nth time: the first asks, the second forces.
    Interrupt(u32),
    /// Shift-Tab: the next permission mode.
    NextMode,
    /// The user wants to leave, or the terminal is gone.
    Leave,
}

/// A command that begins with a slash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlashCommand {
    /// Its name, without the slash.
    pub name: String,
    /// What it does, in a few words.
    pub does: String,
}

impl SlashCommand {
    /// A command.
    pub fn new(name: impl Into<String>, does: impl Into<String>) -> SlashCommand {
        SlashCommand { name: name.into(), does: does.into() }
    }

    /// The commands that a conversation has.
    pub fn usual() -> Vec<SlashCommand> {
        [
            ("help", "shows this"),
            ("tools", "lists the tools"),
            ("permissions", "shows the rules"),
            ("mode", "shows or sets the permission mode"),
            ("cost", "shows what the conversation cost"),
            ("clear", "begins a new conversation"),
            ("exit", "leaves"),
        ]
        .map(|(name, does)| SlashCommand::new(name, does))
        .into()
    }
}

/// What a line means.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LineMeaning {
    Words,
    Command {
        name: String,
        rest: String,
    },
    /// No command is called so.
    Unknown(String),
}

/// Reads a line that was typed. What begins like a path is no command.
pub(crate) fn meant(text: &str, commands: &[SlashCommand]) -> LineMeaning {
    let Some(line) = text.strip_prefix('/') else { return LineMeaning::Words };
    let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let plain = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '-' || c == '_');
    if !plain || text.contains('\n') {
        return LineMeaning::Words;
    }
    match commands.iter().find(|command| command.name == name) {
        Some(command) => LineMeaning::Command { name: command.name.clone(), rest: rest.trim().to_owned() },
        None => LineMeaning::Unknown(name.to_owned()),
    }
}

/// The only command that a beginning can become, or as much as all have in common.
pub(crate) fn completed(text: &str, commands: &[SlashCommand]) -> Option<String> {
    let begun = text.strip_prefix('/')?;
    let mut names =
        commands.iter().map(|command| command.name.as_str()).filter(|name| name.starts_with(begun));
    let first = names.next()?;
    let mut common = first.len();
    let mut only = true;
    for name in names {
        only = false;
        let same = name.bytes().zip(first.bytes()).take_while(|(a, b)| a == b).count();
        common = common.min(same);
    }
    let end = if only { " " } else { "" };
    Some(format!("/{}{end}", &first[..common]))
}

impl Screen {
    /// Waits for a run while the user types: words go to [`RunHandle::say`], Ctrl-C to [`RunHandle::interrupt`]; the rest is
    /// given to `other`, and so are an interrupt after the second and words that too many others wait for.
    ///
    /// # Cancel safety
    /// Dropping the future drops the run.
    pub async fn during<T>(
        &mut self,
        handle: &RunHandle,
        run: impl Future<Output = T>,
        mut other: impl FnMut(UserInput),
    ) -> T {
        let mut run = pin!(run);
        let mut gone = false;
        poll_fn(|cx| {
            // The run first: what was typed after its end belongs to the next.
            if let Poll::Ready(outcome) = run.as_mut().poll(cx) {
                return Poll::Ready(outcome);
            }
            while !gone {
                match self.typed().poll_recv(cx) {
                    Poll::Pending => break,
                    Poll::Ready(None) => {
                        gone = true;
                        handle.interrupt();
                    }
                    Poll::Ready(Some(UserInput::Words(words))) => {
                        if let Err(words) = handle.say(words) {
                            other(UserInput::Words(words));
                        }
                    }
                    Poll::Ready(Some(UserInput::Interrupt(times))) => {
                        handle.interrupt();
                        if times > 2 {
                            other(UserInput::Interrupt(times));
                        }
                    }
                    Poll::Ready(Some(UserInput::Leave)) => {
                        handle.interrupt();
                        other(UserInput::Leave);
                    }
                    Poll::Ready(Some(typed)) => other(typed),
                }
            }
            Poll::Pending
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: LineMeaning) {
        assert_eq!(meant(text, &SlashCommand::usual()), expected, "{text}");
    }

    #[test]
    fn commands_are_told_from_words() {
        check("hello /help", LineMeaning::Words);
        check("/mode  plan ", LineMeaning::Command { name: "mode".into(), rest: "plan".into() });
        check("/nope", LineMeaning::Unknown("nope".into()));
        check("/etc/hosts has what?", LineMeaning::Words);
        check("/help\nand more", LineMeaning::Words);
        check("/", LineMeaning::Words);
    }

    #[test]
    fn commands_are_completed() {
        let complete = |text| completed(text, &SlashCommand::usual());
        assert_eq!(complete("/he").as_deref(), Some("/help "));
        assert_eq!(complete("/c").as_deref(), Some("/c"));
        assert_eq!(complete("/cl").as_deref(), Some("/clear "));
        assert_eq!(complete("/x"), None);
        assert_eq!(complete("c"), None);
    }
}
