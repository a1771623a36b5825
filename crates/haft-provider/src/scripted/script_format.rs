//! What a script may say. The types are the format: their schema is committed, their documentation is the
//! reference.

use regex::Regex;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::located_value::{InvalidScript, LocatedValue};
use crate::limits::{SCRIPT_DELAY_MS_MAX, SCRIPT_TURNS_MAX};

/// What a scripted model says, turn by turn.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "A script for haft's scripted model")]
#[non_exhaustive]
pub struct ModelScript {
    /// Where this schema is, for editors.
    #[serde(default, rename = "$schema")]
    pub schema: Option<String>,
    /// The turns in order. The first answers a conversation in which the model has not spoken yet, the second
    /// one in which it has spoken once, and so on.
    pub turns: Vec<ScriptTurn>,
    /// Other turns for other conversations, such as those of sub-agents: the first whose condition holds of
    /// the user's first words is played.
    #[serde(default)]
    pub agents: Vec<ScriptPart>,
    /// The answer to requests that offer no tools. Without it they are answered like any other.
    #[serde(default)]
    pub side: Option<SideAnswer>,
    /// The name that the model says it has. Default: the one that was asked for.
    #[serde(default)]
    pub model: Option<String>,
    /// How fast everything is streamed, where a turn doesn't say.
    #[serde(default)]
    pub stream: Option<StreamPace>,
    /// Whether it knows of deferred tools (`defer_loading`, `tool_search`), as the providers do that have
    /// them. If not, requests with them are refused. Default: it does.
    #[serde(default)]
    pub deferral: Option<bool>,
}

/// Turns for another conversation, and which one that is.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
#[schemars(rename = "Part")]
pub struct ScriptPart {
    /// What has to hold of the first words of the user.
    pub when: RequestCondition,
    /// The turns in order.
    pub turns: Vec<ScriptTurn>,
}

/// The answer to requests that offer no tools.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
#[schemars(rename = "Side")]
pub struct SideAnswer {
    /// What is said.
    pub text: String,
}

/// One message of the model.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
#[schemars(rename = "Turn")]
pub struct ScriptTurn {
    /// What the model says.
    #[serde(default)]
    pub text: Option<String>,
    /// What the model thinks before it speaks.
    #[serde(default)]
    pub thinking: Option<String>,
    /// The calls that it makes, in order.
    #[serde(default)]
    pub tool_calls: Vec<ScriptedCall>,
    /// How long it takes before anything comes, in milliseconds.
    #[serde(default)]
    #[schemars(range(max = 600_000))]
    pub delay_ms: u64,
    /// How fast it is streamed.
    #[serde(default)]
    pub stream: Option<StreamPace>,
    /// Why the message ends. Default: `tool_calls` where there are calls, `end` where there are none.
    #[serde(default)]
    pub stop: Option<StopKind>,
    /// An error in place of the message, or in the middle of it.
    #[serde(default)]
    pub error: Option<InjectedError>,
    /// What must hold of the request. If something doesn't, the answer is an error (400) that says what.
    #[serde(default)]
    pub expect: Vec<RequestCondition>,
    /// Other messages for this turn: the first whose condition holds is said instead.
    #[serde(default)]
    pub cases: Vec<TurnCase>,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
#[schemars(rename = "Call")]
pub struct ScriptedCall {
    /// The tool.
    pub name: String,
    /// Its input. Default: an empty object.
    #[serde(default)]
    pub input: Option<Value>,
    /// Its input as text, for inputs that are no JSON.
    #[serde(default)]
    pub raw_input: Option<String>,
    /// Its id. Default: one that is made from the turn and the place.
    #[serde(default)]
    pub id: Option<String>,
}

/// How fast a message is streamed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
#[schemars(rename = "Pace")]
pub struct StreamPace {
    /// How many characters of text or input come at once. Default: 24.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub chunk_chars: Option<usize>,
    /// How long it takes from piece to piece, in milliseconds. Default: 0.
    #[serde(default)]
    #[schemars(range(max = 600_000))]
    pub chunk_delay_ms: u64,
}

/// Why a message ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
#[schemars(rename = "Stopping")]
pub enum StopKind {
    /// The model is done.
    End,
    /// The model waits for results.
    ToolCalls,
    /// The most tokens were reached. The last call's input is cut off in the middle.
    MaxTokens,
    /// The model refused.
    Refusal,
    /// The provider paused a long turn. Providers that have no such thing end it.
    PauseTurn,
    /// The window is full. Providers that have no such thing say that the most tokens were reached.
    ContextFull,
}

/// An error that is made on purpose.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
#[schemars(rename = "Injected")]
pub struct InjectedError {
    /// The HTTP status of the answer. Default: 500.
    #[serde(default)]
    #[schemars(range(min = 400, max = 599))]
    pub status: Option<u16>,
    /// The provider's word for it, such as `overloaded_error`.
    #[serde(default, rename = "type")]
    pub kind: Option<String>,
    /// The words.
    #[serde(default)]
    pub message: Option<String>,
    /// How long the client is asked to wait, in milliseconds.
    #[serde(default)]
    pub retry_after_ms: Option<u64>,
    /// How many attempts get the error before one succeeds. Default: all. This alone is remembered between
    /// requests.
    #[serde(default)]
    pub times: Option<u32>,
    /// The message begins, and the connection is lost, or the error said, after so many events of the stream.
    #[serde(default)]
    pub after_events: Option<usize>,
    /// The connection is closed without a word in place of an answer.
    #[serde(default)]
    pub disconnect: bool,
}

/// A message for a turn, and when it is said.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
#[schemars(rename = "Case")]
pub struct TurnCase {
    /// What has to hold.
    pub when: RequestCondition,
    /// What is said then.
    pub turn: ScriptTurn,
}

/// What is asked of a request: of the results in it, or of the user's last words. Everything that is given
/// has to hold.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
#[schemars(rename = "Condition")]
pub struct RequestCondition {
    /// Which of the newest results, from 0. Default: any of them may fit.
    #[serde(default)]
    pub result: Option<usize>,
    /// Only results of this tool.
    #[serde(default)]
    pub tool: Option<String>,
    /// Looks at the user's last words in place of results.
    #[serde(default)]
    pub prompt: bool,
    /// A JSON pointer into the result, which has to be JSON then. What it points to is compared.
    #[serde(default)]
    pub pointer: Option<String>,
    /// It is exactly this.
    #[serde(default)]
    #[schemars(with = "Option<Value>")]
    pub equals: Option<Value>,
    /// Its text has this in it.
    #[serde(default)]
    pub contains: Option<String>,
    /// Its text has a match of this regular expression in it.
    #[serde(default)]
    pub regex: Option<String>,
    /// It is an error, or isn't.
    #[serde(default)]
    pub is_error: Option<bool>,
    /// Turns the condition around: nothing fits.
    #[serde(default)]
    pub not: bool,
}

impl ModelScript {
    /// Reads a script in JSON or YAML.
    ///
    /// # Errors
    /// What is wrong, where, and on which line.
    pub fn parse(text: &str) -> Result<ModelScript, InvalidScript> {
        let placed = LocatedValue::read(text)?;
        if !placed.value.is_object() {
            return Err(placed.bad("", "a script is an object with `turns`"));
        }
        let script: ModelScript = serde_path_to_error::deserialize(&placed.value)
            .map_err(|error| placed.bad(&error_pointer(error.path()), error.inner().to_string()))?;
        check_pace(script.stream, "/stream", &placed)?;
        check_turns(&script.turns, "/turns", &placed)?;
        if script.agents.len() > SCRIPT_TURNS_MAX {
            return Err(placed.bad("/agents", format!("at most {SCRIPT_TURNS_MAX} are accepted")));
        }
        for (at, part) in script.agents.iter().enumerate() {
            check_condition(&part.when, &format!("/agents/{at}/when"), &placed)?;
            check_turns(&part.turns, &format!("/agents/{at}/turns"), &placed)?;
        }
        Ok(script)
    }
}

fn check_turns(turns: &[ScriptTurn], path: &str, placed: &LocatedValue<'_>) -> Result<(), InvalidScript> {
    if turns.is_empty() {
        return Err(placed.bad(path, "there are no turns; give at least one"));
    }
    if turns.len() > SCRIPT_TURNS_MAX {
        let words = format!("there are {} turns; at most {SCRIPT_TURNS_MAX} are accepted", turns.len());
        return Err(placed.bad(path, words));
    }
    for (at, turn) in turns.iter().enumerate() {
        check_turn(turn, &format!("{path}/{at}"), placed)?;
    }
    Ok(())
}

/// The JSON Schema of scripts.
pub fn script_schema() -> Value {
    schemars::schema_for!(ModelScript).to_value()
}

fn check_turn(turn: &ScriptTurn, path: &str, placed: &LocatedValue<'_>) -> Result<(), InvalidScript> {
    let says =
        turn.text.is_some() || !turn.tool_calls.is_empty() || turn.error.is_some() || turn.stop.is_some();
    if !says && turn.cases.is_empty() {
        return Err(
            placed.bad(path, "the turn says nothing; give `text`, `tool_calls`, `error`, `stop` or `cases`")
        );
    }
    if turn.delay_ms > SCRIPT_DELAY_MS_MAX {
        return Err(
            placed.bad(&format!("{path}/delay_ms"), format!("at most {SCRIPT_DELAY_MS_MAX} is accepted"))
        );
    }
    check_pace(turn.stream, &format!("{path}/stream"), placed)?;
    for (at, call) in turn.tool_calls.iter().enumerate() {
        let path = format!("{path}/tool_calls/{at}");
        if call.name.is_empty() {
            return Err(placed.bad(&format!("{path}/name"), "the name is empty; a tool's name is accepted"));
        }
        if call.id.as_deref() == Some("") {
            return Err(placed.bad(&format!("{path}/id"), "the id is empty; leave it out to have one made"));
        }
        if call.input.is_some() && call.raw_input.is_some() {
            return Err(placed.bad(&path, "`input` and `raw_input` are both there; give one"));
        }
        if call.input.as_ref().is_some_and(|input| !input.is_object()) {
            let words = "the input is no object; an object is accepted, or any text as `raw_input`";
            return Err(placed.bad(&format!("{path}/input"), words));
        }
    }
    if let Some(status) = turn.error.as_ref().and_then(|error| error.status)
        && !(400..=599).contains(&status)
    {
        let words = format!("{status} is no error's status; 400 to 599 are accepted");
        return Err(placed.bad(&format!("{path}/error/status"), words));
    }
    for (at, condition) in turn.expect.iter().enumerate() {
        check_condition(condition, &format!("{path}/expect/{at}"), placed)?;
    }
    for (at, case) in turn.cases.iter().enumerate() {
        check_condition(&case.when, &format!("{path}/cases/{at}/when"), placed)?;
        check_turn(&case.turn, &format!("{path}/cases/{at}/turn"), placed)?;
    }
    Ok(())
}

fn check_pace(pace: Option<StreamPace>, path: &str, placed: &LocatedValue<'_>) -> Result<(), InvalidScript> {
    let Some(pace) = pace else { return Ok(()) };
    if pace.chunk_chars == Some(0) {
        return Err(
            placed.bad(&format!("{path}/chunk_chars"), "0 is not accepted; a whole number from 1 on is")
        );
    }
    if pace.chunk_delay_ms > SCRIPT_DELAY_MS_MAX {
        let words = format!("at most {SCRIPT_DELAY_MS_MAX} is accepted");
        return Err(placed.bad(&format!("{path}/chunk_delay_ms"), words));
    }
    Ok(())
}

fn check_condition(
    condition: &RequestCondition,
    path: &str,
    placed: &LocatedValue<'_>,
) -> Result<(), InvalidScript> {
    let RequestCondition { equals, contains, regex, is_error, tool, pointer, .. } = condition;
    if let Some(regex) = regex
        && let Err(error) = Regex::new(regex)
    {
        let words = error.to_string();
        let words = words.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
        return Err(placed.bad(&format!("{path}/regex"), format!("this is no regular expression: {words}")));
    }
    if let Some(pointer) = pointer
        && !pointer.is_empty()
        && !pointer.starts_with('/')
    {
        let words = format!("`{pointer}` is no JSON pointer; one begins with `/`");
        return Err(placed.bad(&format!("{path}/pointer"), words));
    }
    if condition.prompt && (condition.result.is_some() || tool.is_some() || is_error.is_some()) {
        let words = "`prompt` looks at the user's words; `result`, `tool` and `is_error` are for results";
        return Err(placed.bad(path, words));
    }
    let nothing = equals.is_none() && contains.is_none() && regex.is_none() && is_error.is_none();
    if nothing && tool.is_none() && pointer.is_none() && condition.result.is_none() {
        let words =
            "the condition asks for nothing; give `equals`, `contains`, `regex`, `is_error` or `tool`";
        return Err(placed.bad(path, words));
    }
    Ok(())
}

fn error_pointer(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;
    let mut pointer = String::new();
    for segment in path.iter() {
        match segment {
            Segment::Seq { index } => pointer.push_str(&format!("/{index}")),
            Segment::Map { key } => {
                pointer.push_str(&format!("/{}", key.replace('~', "~0").replace('/', "~1")))
            }
            Segment::Enum { .. } | Segment::Unknown => {}
        }
    }
    pointer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(text: &str, expected: &str) {
        assert_eq!(ModelScript::parse(text).unwrap_err().to_string(), expected, "{text}");
    }

    #[test]
    fn errors_say_the_line_and_the_place() {
        refused("{\"turns\": []}", "line 1: at `/turns`: there are no turns; give at least one");
        refused(
            "turns:\n  - text: a\n  - txt: b\n",
            "line 3: at `/turns/1/txt`: unknown field `txt`, expected one of `text`, `thinking`, `tool_calls`, `delay_ms`, `stream`, `stop`, `error`, `expect`, `cases`",
        );
        refused(
            "{\n\"turns\": [\n {\"tool_calls\": [{\"input\": {}}]}]}",
            "line 3: at `/turns/0/tool_calls/0`: missing field `name`",
        );
        refused(
            "turns:\n  - text: 3",
            "line 2: at `/turns/0/text`: invalid type: integer `3`, expected a string",
        );
        refused(
            "turns:\n- tool_calls:\n  - name: a\n    input: [1]",
            "line 4: at `/turns/0/tool_calls/0/input`: the input is no object; an object is accepted, or any text as `raw_input`",
        );
        refused(
            "turns:\n- text: a\n  expect:\n  - regex: '('",
            "line 4: at `/turns/0/expect/0/regex`: this is no regular expression: unclosed group",
        );
        refused(
            "turns:\n- {}",
            "line 2: at `/turns/0`: the turn says nothing; give `text`, `tool_calls`, `error`, `stop` or `cases`",
        );
        refused(
            "turns:\n- error: {status: 200}",
            "line 2: at `/turns/0/error/status`: 200 is no error's status; 400 to 599 are accepted",
        );
        refused(
            "turns:\n- text: a\n  stream: {chunk_chars: 0}",
            "line 3: at `/turns/0/stream/chunk_chars`: 0 is not accepted; a whole number from 1 on is",
        );
        refused(
            "turns:\n- text: a\n  expect: [{pointer: a}]",
            "line 3: at `/turns/0/expect/0/pointer`: `a` is no JSON pointer; one begins with `/`",
        );
        refused("- 1", "line 1: a script is an object with `turns`");
    }

    #[test]
    fn the_form_of_the_issue_is_read() {
        let text = r#"{"turns": [{"text": "a", "tool_calls": [{"name": "Read", "input": {"file_path": "x"}}], "delay_ms": 5}, {"text": "done"}], "side": {"text": "title"}}"#;
        let script = ModelScript::parse(text).unwrap();
        assert_eq!((script.turns.len(), script.side.unwrap().text.as_str()), (2, "title"));
        assert_eq!(script.turns[0].tool_calls[0].name, "Read");
    }
}
