//! The user's prompt: from the command line or from standard input.

use std::io::{self, IsTerminal as _, Read as _};

use crate::UsageError;

/// The longest prompt, in bytes.
pub(super) const PROMPT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The user's words: those of the command line, or of standard input.
pub(super) fn read_prompt(given: Option<&str>) -> Result<String, UsageError> {
    let (text, source) = match given {
        Some("-") => (standard_input()?, "standard input"),
        Some(text) => (text.to_owned(), "the prompt"),
        None if io::stdin().is_terminal() => {
            let words = "what should the model be asked? give a prompt, or pipe one to standard input";
            return Err(UsageError(words.to_owned()));
        }
        None => (standard_input()?, "standard input"),
    };
    match text.trim() {
        "" => Err(UsageError(format!("{source} is empty; give a prompt"))),
        text => Ok(text.to_owned()),
    }
}

fn standard_input() -> Result<String, UsageError> {
    let mut bytes = Vec::new();
    let read = io::stdin().lock().take(PROMPT_BYTES_MAX as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| UsageError(format!("standard input can't be read: {error}")))?;
    if bytes.len() > PROMPT_BYTES_MAX {
        return Err(UsageError(format!(
            "standard input has more than {PROMPT_BYTES_MAX} bytes; say where the file is instead"
        )));
    }
    String::from_utf8(bytes).map_err(|_| UsageError("standard input is not text in UTF-8".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_needed() {
        assert_eq!(read_prompt(Some(" why? ")).unwrap(), "why?");
        assert!(read_prompt(Some("  ")).is_err());
    }
}
