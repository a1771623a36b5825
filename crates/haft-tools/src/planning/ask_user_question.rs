//! `AskUserQuestion`: questions that only the user can answer, with choices, several choices, or words of
//! their own.
//!
//! Each question goes to the host's [`Asker`], one after the other, so a terminal, a plain line and a client
//! of a server all show it in their own way. The port knows choices or free text; that a user may also say
//! something that isn't among the choices is one more choice here, and a second question for the words.

use haft::effects::table::ConcurrencyClass;
use haft::ports::{AnswerChoice, Asker, UserQuestion};
use haft::text::truncate_chars;
use haft::tool::CallTimeout;
use haft::view::{CallStage, ViewPart};
use haft::{CallView, Chars, Context, Effects, ResultBlock, Tool, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

/// How many questions one call has at most.
pub const QUESTIONS_MAX: usize = 4;
/// How many choices one question has at most.
pub const OPTIONS_MAX: usize = 8;
/// The longest question, in characters.
pub const QUESTION_CHARS_MAX: usize = 2_000;
/// The longest label or description of a choice, in characters.
pub const OPTION_CHARS_MAX: usize = 400;
/// How many characters of an answer the model is given.
pub const ANSWER_CHARS_MAX: usize = 20_000;
/// Characters of a result that the model sees.
const RESULT_CHARS: usize = 100_000;
/// The choice that isn't the model's.
const OTHER: &str = "something else …";

/// Asks the user up to four questions and returns the answers.
///
/// Use it when you can't go on well without something that only the user knows: what they prefer, which of
/// several readings of their words is meant. Don't ask what you can find out with other tools, nor for
/// permission to make a call: that is asked by itself. To have a plan approved use ExitPlanMode. The user may
/// always answer something that is not among the options.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct AskUserQuestionInput {
    /// The questions, 1 to 4.
    pub questions: Vec<AskedQuestion>,
}

/// A question.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct AskedQuestion {
    /// The question, whole and clear, with a question mark at its end.
    pub question: String,
    /// What it is about, in a word or two.
    #[serde(default)]
    pub header: Option<String>,
    /// What can be chosen, at most 8, the one that you would take first. Leave it out for an answer in the
    /// user's own words.
    #[serde(default)]
    pub options: Vec<AskOption>,
    /// Whether several can be chosen.
    #[serde(default, rename = "multiSelect")]
    pub multi_select: bool,
}

/// Something that can be chosen.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct AskOption {
    /// What is chosen, in a few words.
    pub label: String,
    /// What it means, and what follows from it.
    #[serde(default)]
    pub description: Option<String>,
}

/// The tool `AskUserQuestion`.
#[derive(Debug, Default)]
pub struct AskUserQuestion;

impl Tool for AskUserQuestion {
    type Input = AskUserQuestionInput;
    type Output = ToolOutput;

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("AskUserQuestion")
            .alias("ask_user_question")
            .group("planning")
            .feature("planning")
            .listed_class(ConcurrencyClass::WriteExclusive)
            .result_limit(Chars(RESULT_CHARS))
            // A person takes as long as it takes.
            .timeout(CallTimeout::Never)
            .interrupt(haft::tool::Interrupt::Cancel)
            .needs_user()
            .search_hint("ask the user a question, let them choose, clarify")
    }

    fn effects(&self, _: &AskUserQuestionInput) -> Effects {
        Effects::asks_user()
    }

    async fn check(&self, input: &AskUserQuestionInput, _: &Context) -> Result<(), ToolError> {
        let count = input.questions.len();
        if count == 0 || count > QUESTIONS_MAX {
            return Err(ToolError::invalid_input(format!(
                "`questions` has {count} questions; 1 to {QUESTIONS_MAX} are accepted"
            )));
        }
        for (at, question) in input.questions.iter().enumerate() {
            let at = format!("questions[{at}]");
            check_text(&format!("{at}.question"), &question.question, QUESTION_CHARS_MAX)?;
            if question.options.len() > OPTIONS_MAX {
                return Err(ToolError::invalid_input(format!(
                    "`{at}.options` has {} choices; at most {OPTIONS_MAX} are accepted",
                    question.options.len()
                )));
            }
            if question.options.is_empty() && question.multi_select {
                return Err(ToolError::invalid_input(format!(
                    "`{at}.multiSelect` needs `options`; leave it out for an answer in the user's own words"
                )));
            }
            for (place, option) in question.options.iter().enumerate() {
                check_text(&format!("{at}.options[{place}].label"), &option.label, OPTION_CHARS_MAX)?;
                let about = option.description.as_deref().unwrap_or_default();
                if about.chars().count() > OPTION_CHARS_MAX {
                    return Err(ToolError::invalid_input(format!(
                        "`{at}.options[{place}].description` has more than {OPTION_CHARS_MAX} characters; say it shorter"
                    )));
                }
                if question.options[..place].iter().any(|other| other.label.trim() == option.label.trim()) {
                    return Err(ToolError::invalid_input(format!(
                        "`{at}.options` has `{}` twice; the user could not tell them apart",
                        option.label.trim()
                    )));
                }
            }
        }
        Ok(())
    }

    async fn call(&self, input: AskUserQuestionInput, cx: &Context) -> Result<ToolOutput, ToolError> {
        let asker = cx
            .ports()
            .asker()
            .ok_or_else(|| ToolError::new("this session has no user who could answer; go on without"))?;
        let mut answered: Vec<(&AskedQuestion, String)> = Vec::new();
        for question in &input.questions {
            match ask_question(asker, question).await {
                Some(answer) => answered.push((question, answer)),
                None => return Err(declined_error(question, &answered)),
            }
        }
        let text: Vec<String> =
            answered.iter().map(|(question, answer)| render_answer(question, answer)).collect();
        let lines: Vec<String> = answered
            .iter()
            .map(|(question, answer)| format!("{}: {answer}", short_header(question)))
            .collect();
        let summary = match &*answered {
            [(_, answer)] => answer.clone(),
            more => format!("{} answers", more.len()),
        };
        let view = CallView::titled(questions_title(&input.questions)).summary(summary);
        let view = if lines.len() > 1 { view.with(ViewPart::Text { text: lines.join("\n") }) } else { view };
        Ok(ToolOutput::from(ResultBlock::text(text.join("\n\n"))).with_view(view))
    }

    fn view(&self, stage: &CallStage<'_>) -> Option<CallView> {
        let questions = stage.input().get("questions")?.as_array()?;
        let first = questions.first()?.get("question")?.as_str()?;
        let view = CallView::titled(first);
        Some(view.why(stage))
    }
}

/// The answer to one question; nothing if the user puts it away.
async fn ask_question(asker: &dyn Asker, question: &AskedQuestion) -> Option<String> {
    let shown = match question.header.as_deref().map(str::trim).filter(|header| !header.is_empty()) {
        Some(header) => format!("{header}: {}", question.question.trim()),
        None => question.question.trim().to_owned(),
    };
    let mut choices: Vec<AnswerChoice> = question
        .options
        .iter()
        .map(|option| AnswerChoice {
            label: option.label.trim().to_owned(),
            description: option.description.clone(),
        })
        .collect();
    if !choices.is_empty() {
        choices.push(AnswerChoice {
            label: OTHER.to_owned(),
            description: Some("in your own words".to_owned()),
        });
    }
    let several = question.multi_select;
    let mut answers = asker.question(&UserQuestion { text: shown.clone(), choices, several }).await?;
    if !question.options.is_empty() && answers.iter().any(|answer| answer == OTHER) {
        let free = UserQuestion { text: shown, choices: Vec::new(), several: false };
        let words = asker.question(&free).await?;
        answers.retain(|answer| answer != OTHER);
        answers.extend(words);
    }
    let answers: Vec<&str> =
        answers.iter().map(|answer| answer.trim()).filter(|answer| !answer.is_empty()).collect();
    let answer = truncate_chars(&answers.join(", "), ANSWER_CHARS_MAX).to_owned();
    (!answer.is_empty()).then_some(answer)
}

fn check_text(field: &str, text: &str, most: usize) -> Result<(), ToolError> {
    match text.chars().count() {
        _ if text.trim().is_empty() => {
            Err(ToolError::invalid_input(format!("`{field}` is empty; the user has to see what is asked")))
        }
        count if count > most => Err(ToolError::invalid_input(format!(
            "`{field}` has {count} characters; at most {most} are accepted"
        ))),
        _ => Ok(()),
    }
}

fn render_answer(question: &AskedQuestion, answer: &str) -> String {
    format!("question: {}\nanswer: {answer}", question.question.trim())
}

fn declined_error(question: &AskedQuestion, answered: &[(&AskedQuestion, String)]) -> ToolError {
    let mut words = format!(
        "the user put this question away without an answer: {}\ndon't ask it again; go on as you think best and say what \
         you assumed, or end if that can't be",
        question.question.trim()
    );
    for (question, answer) in answered {
        words.push_str(&format!("\n\n{}", render_answer(question, answer)));
    }
    ToolError::new(words)
}

fn short_header(question: &AskedQuestion) -> String {
    question.header.clone().unwrap_or_else(|| question.question.clone())
}

fn questions_title(questions: &[AskedQuestion]) -> String {
    questions.first().map(|question| question.question.clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use haft::testing::{ScriptedAsker, TestCaller};
    use serde_json::{Value, json};

    use super::*;

    async fn asked(asker: ScriptedAsker, input: Value) -> Result<String, String> {
        let caller = TestCaller::new().tool(AskUserQuestion).engine(|engine| engine.asker(asker));
        let result = caller.call("AskUserQuestion", input).await;
        result.outcome().map(ToolOutput::to_text).map_err(|error| error.message().to_owned())
    }

    fn two() -> Value {
        json!({"questions": [
            {"question": "Which database?", "header": "Database", "options": [{"label": "Postgres"}, {"label": "SQLite", "description": "one file"}]},
            {"question": "Why?"},
        ]})
    }

    #[tokio::test]
    async fn choices_and_words_come_back() {
        let asker = ScriptedAsker::new()
            .then_choose(Some(vec!["SQLite".into()]))
            .then_choose(Some(vec![" it is small ".into()]));
        let answer = asked(asker.clone(), two()).await.unwrap();
        assert_eq!(
            answer,
            "question: Which database?\nanswer: SQLite\n\nquestion: Why?\nanswer: it is small"
        );
        let questions = asker.questions();
        assert_eq!(questions[0].text, "Database: Which database?");
        let labels: Vec<&str> = questions[0].choices.iter().map(|choice| &*choice.label).collect();
        assert_eq!(labels, ["Postgres", "SQLite", OTHER]);
        assert!(questions[1].choices.is_empty() && !questions[0].several);
    }

    #[tokio::test]
    async fn something_else_asks_for_the_words() {
        let asker = ScriptedAsker::new()
            .then_choose(Some(vec!["a".into(), OTHER.into()]))
            .then_choose(Some(vec!["and d".into()]));
        let input = json!({"questions": [{"question": "Which?", "multiSelect": true, "options": [{"label": "a"}, {"label": "b"}]}]});
        assert_eq!(asked(asker.clone(), input).await.unwrap(), "question: Which?\nanswer: a, and d");
        assert_eq!(asker.questions().len(), 2);
        assert!(asker.questions()[0].several);
    }

    #[tokio::test]
    async fn a_question_that_is_put_away_is_an_error_with_what_was_answered() {
        let asker = ScriptedAsker::new().then_choose(Some(vec!["Postgres".into()])).then_choose(None);
        let error = asked(asker, two()).await.unwrap_err();
        assert!(error.contains("without an answer: Why?") && error.contains("answer: Postgres"), "{error}");
    }

    #[tokio::test]
    async fn nobody_there_is_an_error() {
        let result = TestCaller::new().tool(AskUserQuestion).call("AskUserQuestion", two()).await;
        assert_eq!(result.error_kind(), Some(haft::ErrorKind::NotInteractive), "{result:?}");
    }

    #[tokio::test]
    async fn senseless_questions_are_refused() {
        for (input, words) in [
            (json!({"questions": []}), "1 to 4"),
            (json!({"questions": [{"question": " "}]}), "`questions[0].question` is empty"),
            (
                json!({"questions": [{"question": "?", "options": [{"label": "a"}, {"label": "a "}]}]}),
                "`a` twice",
            ),
            (json!({"questions": [{"question": "?", "multiSelect": true}]}), "needs `options`"),
            (json!({"questions": [{"question": "x".repeat(2_001)}]}), "2001 characters"),
        ] {
            let error = asked(ScriptedAsker::new(), input.clone()).await.unwrap_err();
            assert!(error.contains(words), "{input}: {error}");
        }
    }
}
