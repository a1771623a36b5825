//! The command line of `haft run` and `haft script`.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use haft_journal::SessionStart;
use haft_session::run::provider::{ModelOptions, ProviderChoice};

use crate::UsageError;
use crate::args::CommonArgs;

#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Examples:\n  haft run \"why does the parser drop the last line?\"\n  git diff | haft run -\n  haft run --provider openai-chat --base-url http://127.0.0.1:8080/v1 --model qwen3 \"…\"\n  haft run --script script.yaml \"…\"\n\n\
                  Keys: ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY. Without one a tour is played.\n\
                  Exit codes: 0 the model finished, 1 it couldn't, 2 wrong usage or settings, 130 interrupted."
)]
pub(crate) struct RunArgs {
    /// What to say to the model; `-`, or none where standard input is no terminal, reads it from there.
    #[arg(value_name = "PROMPT|-")]
    pub(crate) prompt: Option<String>,
    /// Who is asked. `auto`: a script if one is given, else the first that there is a key for.
    #[arg(long, value_enum, value_name = "WHO", default_value_t = ProviderArg::Auto)]
    pub(crate) provider: ProviderArg,
    /// The model. Default: that of the environment or your settings, or a usual one.
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// Where the provider is reached, as the vendor's own SDK takes it.
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// A script in place of a model, in JSON or YAML.
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Option<PathBuf>,
    /// Go on with the last session of this folder: also one that was cut off in the middle of its calls.
    #[arg(long = "continue")]
    pub(crate) go_on: bool,
    /// Go on with this session, or the one whose id begins like this.
    #[arg(long, value_name = "ID", conflicts_with = "go_on")]
    pub(crate) resume: Option<String>,
    /// How often the model may be asked.
    #[arg(long, value_name = "N", value_parser = haft::env::parse_count)]
    pub(crate) max_turns: Option<NonZeroUsize>,
    /// Form of the result: the answer's text, one JSON object, or one JSON object for each event.
    #[arg(long, value_enum, value_name = "FORM", default_value_t = RunForm::Text)]
    pub(crate) output: RunForm,
    /// Words to add to the system prompt; repeatable.
    #[arg(long, value_name = "TEXT")]
    pub(crate) append_system_prompt: Vec<String>,
    /// Rules as of `--allow`, several with commas or blanks between them; repeatable.
    #[arg(long, value_name = "RULES", alias = "allowedTools")]
    pub(crate) allowed_tools: Vec<String>,
    /// Rules as of `--deny`, several with commas or blanks between them; repeatable.
    #[arg(long, value_name = "RULES", alias = "disallowedTools")]
    pub(crate) disallowed_tools: Vec<String>,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProviderArg {
    Auto,
    Anthropic,
    #[value(name = "openai")]
    OpenAi,
    #[value(name = "openai-chat")]
    OpenAiChat,
    Gemini,
    Scripted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RunForm {
    Text,
    Json,
    StreamJson,
}

impl From<ProviderArg> for ProviderChoice {
    fn from(choice: ProviderArg) -> ProviderChoice {
        match choice {
            ProviderArg::Auto => ProviderChoice::Auto,
            ProviderArg::Anthropic => ProviderChoice::Anthropic,
            ProviderArg::OpenAi => ProviderChoice::OpenAi,
            ProviderArg::OpenAiChat => ProviderChoice::OpenAiChat,
            ProviderArg::Gemini => ProviderChoice::Gemini,
            ProviderArg::Scripted => ProviderChoice::Scripted,
        }
    }
}

impl RunArgs {
    /// Which model is asked, as far as flags say.
    pub(crate) fn model_options(&self) -> ModelOptions {
        ModelOptions {
            provider: self.provider.into(),
            model: self.model.clone(),
            base_url: self.base_url.clone(),
            script: self.script.clone(),
        }
    }

    /// The same, asking whom a session asked before, where nothing else is said.
    pub(crate) fn like(&self, began: &SessionStart) -> Result<RunArgs, UsageError> {
        let mut args = self.clone();
        if args.provider != ProviderArg::Auto || args.script.is_some() {
            return Ok(args);
        }
        if ProviderArg::from_str(&began.provider, false) == Ok(ProviderArg::Scripted) {
            return Err(UsageError(
                "this session was played from a script; name it again with --script".to_owned(),
            ));
        }
        if let Ok(provider) = ProviderArg::from_str(&began.provider, false) {
            args.provider = provider;
            args.base_url =
                args.base_url.or_else(|| Some(began.base_url.clone()).filter(|url| !url.is_empty()));
            args.model = args.model.or_else(|| Some(began.model.clone()).filter(|model| !model.is_empty()));
        }
        Ok(args)
    }

    /// The common flags, with the lists of tools among their rules.
    pub(crate) fn rules(&self, mut common: CommonArgs) -> CommonArgs {
        common.allow.extend(self.allowed_tools.iter().flat_map(|text| split_rules(text)));
        common.deny.extend(self.disallowed_tools.iter().flat_map(|text| split_rules(text)));
        common
    }
}

/// The rules in a list: commas and blanks part them, but not within their parentheses.
fn split_rules(text: &str) -> Vec<String> {
    let (mut rules, mut depth) = (vec![String::new()], 0_usize);
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 && (c == ',' || c.is_whitespace()) {
            rules.push(String::new());
        } else if let Some(rule) = rules.last_mut() {
            rule.push(c);
        }
    }
    rules.retain(|rule| !rule.is_empty());
    rules
}

#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true, disable_help_subcommand = true)]
pub(crate) struct ScriptArgs {
    #[command(subcommand)]
    pub(crate) command: ScriptCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ScriptCommand {
    /// Serve a script on this machine as Anthropic, OpenAI, Chat Completions and Gemini, until it is told to
    /// end.
    Serve(ScriptServeArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ScriptServeArgs {
    /// The script, in JSON or YAML.
    pub(crate) file: PathBuf,
    /// Where to listen, on this machine only; port 0 takes a free one.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    pub(crate) addr: SocketAddr,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_rules_are_parted_outside_of_parentheses() {
        let check = |text: &str, expected: &[&str]| assert_eq!(split_rules(text), expected, "{text}");
        check("Read,Grep", &["Read", "Grep"]);
        check(" Read  Bash(git log *), Edit(src/**)", &["Read", "Bash(git log *)", "Edit(src/**)"]);
        check("Bash(echo (a, b))", &["Bash(echo (a, b))"]);
        check("", &[]);
        check("A)b,C", &["A)b", "C"]);
    }
}
