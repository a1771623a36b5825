//! `Skill`: instructions for a kind of work, loaded when they are needed.
//!
//! The model is told names and descriptions with the tool, in a bounded text; what a skill says comes when it
//! is called; files beside it are read when its words say so. Tools that a skill may use unasked are granted
//! until the user speaks again, by a port of the host: where that is absent they ask as always. A skill that
//! grants something is itself asked about.
//!
//! - `load` finds skills in folders.

mod skill_files;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use haft::decision::DecisionReason;
use haft::text::truncate_chars;
use haft::view::CallStage;
use haft::{CallView, Chars, Context, Effects, ResultBlock, Tool, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

pub use skill_files::{
    ALLOWED_TOOLS_MAX, DESCRIPTION_CHARS_MAX, FILE, LinkPolicy, SKILL_BYTES_MAX, SKILLS_MAX, SkillFile,
    SkillProblem, SkillSet,
};

/// How many characters the model is told of all skills together.
pub const LISTED_CHARS_MAX: usize = 8_000;
/// How many characters of a description are told where there is room, and where there is little.
const LISTED_DESCRIPTIONS: [usize; 3] = [400, 120, 40];
/// The longest arguments, in characters.
pub const ARGUMENTS_CHARS_MAX: usize = 10_000;
/// Characters of a result that the model sees; more than the largest skill has.
const RESULT_CHARS: usize = 300_000;

/// What is told before the list.
const ABOUT: &str = "Loads a skill: instructions for a kind of work that somebody wrote down for you. Call it as soon as what \
    the user wants fits one of these, before you do anything else for it, and follow what it says. Don't call one that was \
    loaded for this work already.";

/// Loads a skill.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct SkillInput {
    /// The name of the skill.
    pub name: String,
    /// What it is to work on, if it takes arguments.
    #[serde(default)]
    pub arguments: Option<String>,
}

/// The tool `Skill`.
#[derive(Clone, Default)]
pub struct Skill {
    skills: Arc<SkillSet>,
    grants: Option<TurnGrants>,
}

/// Adds allow rules until the user speaks again: all of them or, with the reason, none. What denies and what
/// asks still does: a grant is an allow rule that is taken away again.
pub type TurnGrants = Arc<dyn Fn(&[String]) -> Result<(), String> + Send + Sync>;

impl Skill {
    /// The tool for these skills. Without any it is not offered.
    pub fn new(skills: SkillSet) -> Skill {
        Skill { skills: Arc::new(skills), grants: None }
    }

    /// Lets the tools that a skill names run unasked for a turn. Without it they are asked about as always.
    #[must_use]
    pub fn with_grants(mut self, grants: TurnGrants) -> Skill {
        self.grants = Some(grants);
        self
    }

    /// Lets the tools of a skill run unasked, and says so; nothing if it has none. What is beside the user's
    /// own skills can be read: it was put there to be.
    fn grant(&self, skill: &SkillFile, cx: &Context) -> String {
        if let Some(grants) = &self.grants
            && let Some(rule) = own_files(skill, cx)
        {
            // Without it they ask, which is no reason to fail.
            let _ = grants(&[rule]);
        }
        if skill.allowed_tools.is_empty() {
            return String::new();
        }
        let tools = skill.allowed_tools.join(", ");
        let granted = match &self.grants {
            Some(grants) => grants(&skill.allowed_tools),
            None => Err("this host grants nothing to skills".to_owned()),
        };
        match granted {
            Ok(()) => format!("Until the user speaks again these run without being asked about: {tools}.\n"),
            Err(why) => {
                format!(
                    "It wants these to run unasked, but they are asked about as always ({why}): {tools}.\n"
                )
            }
        }
    }

    fn find(&self, name: &str) -> Result<&SkillFile, ToolError> {
        let name = name.trim().trim_start_matches('/');
        match self.skills.find(name).filter(|skill| !skill.hidden) {
            Some(skill) => Ok(skill),
            None => {
                let known: Vec<String> =
                    self.offered().take(50).map(|skill| format!("`{}`", skill.name)).collect();
                let name = truncate_chars(name, 80);
                Err(ToolError::invalid_input(format!("no skill `{name}`; there are {}", known.join(", "))))
            }
        }
    }

    fn offered(&self) -> impl Iterator<Item = &SkillFile> {
        self.skills.iter().filter(|skill| !skill.hidden)
    }

    /// The skills with as much of their descriptions as fits.
    fn listed(&self) -> String {
        let line = |skill: &SkillFile, most: usize| {
            let mut line = format!("- {}", skill.name);
            if let Some(hint) = &skill.argument_hint {
                line.push_str(&format!(" {hint}"));
            }
            let about = truncate_chars(&skill.description, most);
            let cut = if about.len() < skill.description.len() { "…" } else { "" };
            if !about.is_empty() {
                line.push_str(&format!(": {about}{cut}"));
            }
            line
        };
        for most in LISTED_DESCRIPTIONS {
            let text: Vec<String> = self.offered().map(|skill| line(skill, most)).collect();
            let text = text.join("\n");
            if text.chars().count() <= LISTED_CHARS_MAX {
                return text;
            }
        }
        let mut text = String::from("- ");
        let mut left = self.offered().count();
        for skill in self.offered() {
            if text.len() + skill.name.len() + 20 > LISTED_CHARS_MAX {
                text.push_str(&format!("and {left} more"));
                return text;
            }
            left -= 1;
            text.push_str(&format!("{}, ", skill.name));
        }
        text.trim_end_matches(", ").to_owned()
    }
}

impl Tool for Skill {
    type Input = SkillInput;
    type Output = ToolOutput;

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("Skill")
            .alias("skill")
            .description(format!("{ABOUT}\n\nSkills:\n{}", self.listed()))
            .group("skills")
            .feature("skills")
            .result_limit(Chars(RESULT_CHARS))
            .search_hint("skill instructions for a kind of work")
    }

    fn unavailable_reason(&self) -> Option<String> {
        let reason = "no skill was found in `skills/` of your settings or of a trusted workspace";
        self.offered().next().is_none().then(|| reason.to_owned())
    }

    fn effects(&self, input: &SkillInput) -> Effects {
        match self.find(&input.name) {
            Ok(skill) if !skill.allowed_tools.is_empty() => Effects::writes_state("session:grants"),
            _ => Effects::none(),
        }
    }

    async fn permission(&self, _: &SkillInput, _: &Context) -> Option<DecisionReason> {
        // One that lets tools run unasked is for the user to allow, by an answer or a rule.
        None
    }

    async fn check(&self, input: &SkillInput, _: &Context) -> Result<(), ToolError> {
        self.find(&input.name)?;
        match input.arguments.as_deref().map(|arguments| arguments.chars().count()) {
            Some(count) if count > ARGUMENTS_CHARS_MAX => Err(ToolError::invalid_input(format!(
                "`arguments` has {count} characters; at most {ARGUMENTS_CHARS_MAX} are accepted"
            ))),
            _ => Ok(()),
        }
    }

    async fn call(&self, input: SkillInput, cx: &Context) -> Result<ToolOutput, ToolError> {
        let skill = self.find(&input.name)?;
        let body = skill
            .body()
            .map_err(|why| ToolError::new(format!("the skill `{}` can't be used: {why}", skill.name)))?;
        let arguments = input.arguments.as_deref().unwrap_or_default().trim();
        let mut text = format!(
            "The skill `{}` says what follows. Files that it names are in {}.\n",
            skill.name,
            skill.dir().display()
        );
        text.push_str(&self.grant(skill, cx));
        text.push_str(&format!("\n{}", fill_arguments(&body, arguments, skill)));
        let lines = body.lines().count();
        let view = CallView::titled(&skill.name).summary(if lines == 1 {
            "1 line".into()
        } else {
            format!("{lines} lines")
        });
        Ok(ToolOutput::from(ResultBlock::text(text)).with_view(view))
    }

    fn describe(&self, input: &SkillInput) -> Option<String> {
        let skill = self.find(&input.name).ok().filter(|skill| !skill.allowed_tools.is_empty())?;
        Some(format!(
            "follows the skill `{}`, and until you speak again lets these run unasked: {}",
            skill.name,
            skill.allowed_tools.join(", ")
        ))
    }

    fn view(&self, stage: &CallStage<'_>) -> Option<CallView> {
        let name = stage.text("name")?;
        let view = CallView::titled(match stage.text("arguments") {
            Some(arguments) if !arguments.is_empty() => format!("{name} {arguments}"),
            _ => name.to_owned(),
        });
        Some(view.why(stage))
    }
}

/// The rule that lets files beside a skill be read that lies outside of the working directory.
fn own_files(skill: &SkillFile, cx: &Context) -> Option<String> {
    let dir = skill.dir();
    let name = dir.to_str()?;
    // What means something in a rule would have to be escaped; such names are rare, and ask.
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
    (plain && dir.is_absolute() && !dir.starts_with(cx.cwd())).then(|| format!("Read(/{name}/**)"))
}

/// The words with the arguments where they belong, or after them.
fn fill_arguments(body: &str, arguments: &str, skill: &SkillFile) -> String {
    let dir = skill.dir().display().to_string();
    let words: Vec<&str> = arguments.split_whitespace().collect();
    let (mut text, mut rest, mut used) = (String::with_capacity(body.len()), body, false);
    while let Some(at) = rest.find('$') {
        text.push_str(&rest[..at]);
        let after = &rest[at..];
        let digit = after[1..].chars().next().and_then(|c| c.to_digit(10)).filter(|digit| *digit > 0);
        rest = if let Some(more) = after.strip_prefix("$ARGUMENTS") {
            used = true;
            text.push_str(arguments);
            more
        } else if let Some(more) =
            after.strip_prefix("${CLAUDE_SKILL_DIR}").or(after.strip_prefix("${SKILL_DIR}"))
        {
            text.push_str(&dir);
            more
        } else if let Some(digit) =
            digit.filter(|_| !after[2..].starts_with(|c: char| c.is_ascii_digit() || c == '.'))
        {
            used = true;
            text.push_str(words.get(digit as usize - 1).copied().unwrap_or_default());
            &after[2..]
        } else {
            text.push('$');
            &after[1..]
        };
    }
    text.push_str(rest);
    if !used && !arguments.is_empty() {
        text.push_str(&format!("\n\nArguments: {arguments}"));
    }
    text
}
