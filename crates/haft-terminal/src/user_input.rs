//! User input as the host receives it: messages for the model, commands, interrupts.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use haft_agent::RunHandle;

use crate::screen::Screen;

/// An input by the user.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum UserInput {
    /// A message for the model.
    Words(String),
    /// A slash command with its argument.
    Command {
        /// The name of a known command.
        name: String,
        /// The rest of the line, trimmed.
        rest: String,
    },
    /// Ctrl-C during a run, for the nth time: the first requests a stop, the second forces it.
    Interrupt(u32),
    /// Shift-Tab: switch to the next permission mode.
    NextMode,
    /// The user leaves, or the terminal is gone.
    Leave,
}

/// A slash command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlashCommand {
    /// The name without the slash.
    pub name: String,
    /// A short description.
    pub description: String,
}

impl SlashCommand {
    /// Creates a command.
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> SlashCommand {
        SlashCommand { name: name.into(), description: description.into() }
    }

    /// Returns the default commands.
    pub fn defaults() -> Vec<SlashCommand> {
        [
            ("help", "shows this"),
            ("tools", "lists the tools"),
            ("permissions", "shows the rules"),
            ("mode", "shows or sets the permission mode"),
            ("cost", "shows what the conversation cost"),
            ("clear", "begins a new conversation"),
            ("exit", "leaves"),
        ]
        .map(|(name, description)| SlashCommand::new(name, description))
        .into()
    }
}

/// The meaning of an input line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LineMeaning {
    Words,
    Command {
        name: String,
        rest: String,
    },
    /// A slash with an unknown name.
    Unknown(String),
}

/// Parses an input line. A path is not a command.
pub(crate) fn parse_line(text: &str, commands: &[SlashCommand]) -> LineMeaning {
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

/// Returns the completion: the only matching command, or the common prefix of all matching ones.
pub(crate) fn complete_command(text: &str, commands: &[SlashCommand]) -> Option<String> {
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
    /// Waits for a run while the user types. Messages go to [`RunHandle::say`], Ctrl-C to
    /// [`RunHandle::interrupt`]. Everything else goes to `other`, including interrupts after the
    /// second and messages that the handle's full queue rejects.
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
            // The run is polled first: input after its end belongs to the next run.
            if let Poll::Ready(outcome) = run.as_mut().poll(cx) {
                return Poll::Ready(outcome);
            }
            while !gone {
                match self.input_receiver().poll_recv(cx) {
                    Poll::Pending => break,
                    Poll::Ready(None) => {
                        gone = true;
                        handle.interrupt();
                    }
                    Poll::Ready(Some(UserInput::Words(message))) => {
                        if let Err(message) = handle.say(message) {
                            other(UserInput::Words(message));
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
        assert_eq!(parse_line(text, &SlashCommand::defaults()), expected, "{text}");
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
        let complete = |text| complete_command(text, &SlashCommand::defaults());
        assert_eq!(complete("/he").as_deref(), Some("/help "));
        assert_eq!(complete("/c").as_deref(), Some("/c"));
        assert_eq!(complete("/cl").as_deref(), Some("/clear "));
        assert_eq!(complete("/x"), None);
        assert_eq!(complete("c"), None);
    }
}
