//! A hook's answer: its exit code, its output, and the JSON in it.
//!
//! This file does no I/O. One table decides what an exit code means. The JSON is parsed strictly where it
//! decides something, because a misspelled word could otherwise allow a call. The code that fires the event
//! applies the answer.

use haft::decision::{DecisionReason, Verdict};
use haft::ports::ProcessExit;
use haft::schema::parse_json;
use haft::text::truncate_with_note;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::event::HookEvent;
use super::limits;

/// A hook's answer.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct HookReply {
    /// The reason of `continue: false`.
    pub(super) stop: Option<String>,
    /// The decision.
    pub(super) decision: Option<DecisionReason>,
    /// The decision is a denial because the hook deferred the call.
    pub(super) is_deferred: bool,
    pub(super) updated_input: Option<Value>,
    pub(super) updated_output: Option<Value>,
    /// Messages for the model.
    pub(super) context: Vec<String>,
    /// A message for the user.
    pub(super) message: Option<String>,
    /// `interrupt` of a permission hook that denies.
    pub(super) interrupt: bool,
    /// `retry` on a denial.
    pub(super) retry: bool,
    pub(super) permissions: Vec<PermissionUpdate>,
    pub(super) start: SessionStartReply,
}

impl HookReply {
    /// Returns the reason if the hook denies. For an event that isn't about a call, a denial blocks what
    /// would follow it.
    pub(super) fn denial(&self) -> Option<String> {
        let decision = self.decision.as_ref().filter(|decision| decision.verdict == Verdict::Deny)?;
        Some(decision.text.clone().into_owned())
    }
}

/// The parts of an answer that only the session start uses.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct SessionStartReply {
    pub(super) initial_user_message: Option<String>,
    pub(super) watch_paths: Vec<String>,
    pub(super) session_title: Option<String>,
    pub(super) reload_skills: bool,
}

/// A permission change that a hook requests along with its answer.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum PermissionUpdate {
    /// Adds rules.
    AddRules {
        /// The rules.
        rules: Vec<RuleUpdate>,
        /// `allow`, `ask` or `deny`.
        behavior: String,
        /// Where they are stored.
        destination: String,
    },
    /// Replaces the existing rules.
    ReplaceRules {
        /// The rules.
        rules: Vec<RuleUpdate>,
        /// `allow`, `ask` or `deny`.
        behavior: String,
        /// Where they are stored.
        destination: String,
    },
    /// Removes rules.
    RemoveRules {
        /// The rules.
        rules: Vec<RuleUpdate>,
        /// `allow`, `ask` or `deny`.
        behavior: String,
        /// Where they are stored.
        destination: String,
    },
    /// Changes the permission mode.
    SetMode {
        /// The permission mode.
        mode: String,
        /// Where it is stored.
        destination: String,
    },
    /// Adds working directories.
    AddDirectories {
        /// The directories.
        directories: Vec<String>,
        /// Where they are stored.
        destination: String,
    },
    /// Removes working directories.
    RemoveDirectories {
        /// The directories.
        directories: Vec<String>,
        /// Where they are stored.
        destination: String,
    },
}

/// A rule in a [`PermissionUpdate`].
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleUpdate {
    /// The tool's name.
    pub tool_name: String,
    /// The specifier in parentheses, if there is one.
    pub rule_content: Option<String>,
}

/// The outcome of a command.
pub(super) struct CommandExit<'a> {
    pub(super) exit: ProcessExit,
    pub(super) stdout: &'a str,
    pub(super) stderr: &'a str,
    /// The output was truncated.
    pub(super) cut: bool,
    /// The timeout, in seconds.
    pub(super) limit_s: f64,
}

/// Returns a command's answer.
///
/// # Errors
/// Returns the reason why the command counts as failed.
pub(super) fn parse_command_output(event: HookEvent, ended: &CommandExit<'_>) -> Result<HookReply, String> {
    let code = match ended.exit {
        ProcessExit::Code(code) => code,
        ProcessExit::Signal(signal) => return Err(format!("it was ended by signal {signal}")),
        ProcessExit::TimedOut => return Err(format!("it took longer than {} s", ended.limit_s)),
        ProcessExit::Cancelled => return Err("it was cancelled".into()),
        ProcessExit::Killed(reason) => return Err(format!("it was killed: {reason}")),
    };
    let json = as_json(event, ended.stdout, ended.cut);
    if code == 2 {
        // The exit code denies, whatever the command printed.
        let mut reply = json.and_then(Result::ok).unwrap_or_default();
        reply.updated_input = None;
        let printed = reply.decision.filter(|_| !std::mem::take(&mut reply.is_deferred));
        reply.decision = match (event, printed.as_ref().map(|printed| printed.verdict)) {
            // For this event the code has no meaning: the user is asked, whatever the hook printed.
            (HookEvent::PermissionRequest, Some(Verdict::Allow) | None) => None,
            (_, Some(Verdict::Deny)) => printed,
            _ => Some(DecisionReason::deny(first_of(ended.stderr, "it gave no reason"))),
        };
        return Ok(reply);
    }
    match (json, code) {
        (Some(json), _) => json,
        (None, 0) => {
            let text = ended.stdout.trim_end();
            let context = (event.takes_text() && !text.is_empty()).then(|| text.to_owned());
            Ok(HookReply { context: context.into_iter().collect(), ..HookReply::default() })
        }
        (None, 126 | 127) => {
            let words = first_of(ended.stderr, "the shell found no such program, or may not run it");
            Err(format!("it could not be started (exit code {code}): {}", excerpt_for_message(&words)))
        }
        (None, code) => {
            let words = first_of(ended.stderr, "it gave no reason");
            Err(format!("exit code {code}, which is neither 0 nor 2: {}", excerpt_for_message(&words)))
        }
    }
}

/// Returns the answer in the body of a successful response, or in the text of a tool's result.
pub(super) fn parse_http_body(event: HookEvent, body: &str, cut: bool) -> Result<HookReply, String> {
    match as_json(event, body, cut) {
        Some(json) => json,
        None => {
            let text = body.trim_end();
            let context = (event.takes_text() && !text.is_empty()).then(|| text.to_owned());
            Ok(HookReply { context: context.into_iter().collect(), ..HookReply::default() })
        }
    }
}

/// Returns the timeout in milliseconds of a hook that asks to continue in the background with its first
/// output.
pub(super) fn as_async(printed: &[u8]) -> Option<Option<u64>> {
    let value: Value = serde_json::from_slice(printed.trim_ascii()).ok()?;
    (value.get("async") == Some(&Value::Bool(true)))
        .then(|| value.get("asyncTimeout").and_then(Value::as_u64))
}

/// Parses an output as JSON, if it is meant to be JSON.
fn as_json(event: HookEvent, printed: &str, cut: bool) -> Option<Result<HookReply, String>> {
    // Some programs write a byte order mark before every text; the JSON follows it.
    let printed = printed.trim_start_matches('\u{feff}').trim();
    if !printed.starts_with('{') {
        return None;
    }
    if cut {
        return Some(Err(format!("it printed more than {} bytes of JSON", limits::OUTPUT_BYTES_MAX)));
    }
    Some(match parse_json(printed) {
        Ok(Value::Object(object)) => parse_object(event, &object),
        Ok(_) => return None,
        Err(violation) => Err(format!("it printed JSON that can't be read: {violation}")),
    })
}

/// Reads the JSON object of an answer.
fn parse_object(event: HookEvent, object: &Map<String, Value>) -> Result<HookReply, String> {
    let mut reply = HookReply { message: text_field(object, "systemMessage")?, ..HookReply::default() };
    if bool_field(object, "continue")? == Some(false) {
        let reason = text_field(object, "stopReason")?.filter(|reason| !reason.is_empty());
        reply.stop = Some(reason.unwrap_or_else(|| "it gave no reason".into()));
    }
    let reason = text_field(object, "reason")?;
    let because = |reason: Option<String>| {
        reason.filter(|reason| !reason.is_empty()).unwrap_or_else(|| "it gave no reason".into())
    };
    // A permission hook has its `decision` object in the event-specific part.
    if event != HookEvent::PermissionRequest {
        reply.decision = match text_field(object, "decision")?.as_deref() {
            None => None,
            Some("block") => Some(DecisionReason::deny(because(reason))),
            Some("approve") if event == HookEvent::PreToolUse => Some(DecisionReason::allow()),
            Some("approve") => None,
            Some(other) => return Err(unknown_value("decision", other, "`block`, `approve`")),
        };
    }
    let specific = match object.get("hookSpecificOutput") {
        None | Some(Value::Null) => return Ok(reply),
        Some(Value::Object(specific)) => specific,
        Some(_) => return Err(wrong_type("hookSpecificOutput", "an object")),
    };
    match text_field(specific, "hookEventName")?.as_deref() {
        Some(name) if name == event.name() => {}
        Some(other) => {
            return Err(format!(
                "its `hookSpecificOutput` is for the event `{other}`, and this is `{event}`"
            ));
        }
        None => {
            return Err(format!("its `hookSpecificOutput` lacks `\"hookEventName\": \"{event}\"`"));
        }
    }
    let context = text_field(specific, "additionalContext")?.filter(|words| !words.is_empty());
    reply.context.extend(context);
    match event {
        HookEvent::PreToolUse => {
            let reason = text_field(specific, "permissionDecisionReason")?;
            let word = text_field(specific, "permissionDecision")?;
            let decision = match word.as_deref() {
                None => None,
                Some("allow") => Some(DecisionReason::allow()),
                Some("ask") => Some(DecisionReason::ask(because(reason))),
                Some("defer" | "deny") => Some(DecisionReason::deny(because(reason))),
                Some(other) => {
                    return Err(unknown_value(
                        "permissionDecision",
                        other,
                        "`allow`, `deny`, `ask`, `defer`",
                    ));
                }
            };
            reply.is_deferred = word.as_deref() == Some("defer");
            // If both forms are given, the newer one counts.
            reply.decision = decision.or(reply.decision);
            reply.updated_input = updated_input(specific)?;
        }
        HookEvent::PermissionRequest => read_permission(specific, &mut reply, because)?,
        HookEvent::PostToolUse => {
            let own = specific.get("updatedToolOutput").or_else(|| specific.get("updatedMCPToolOutput"));
            reply.updated_output = own.filter(|value| !value.is_null()).cloned();
        }
        HookEvent::PermissionDenied => reply.retry = bool_field(specific, "retry")? == Some(true),
        HookEvent::SessionStart => {
            let paths = specific.get("watchPaths").and_then(Value::as_array);
            reply.start = SessionStartReply {
                initial_user_message: text_field(specific, "initialUserMessage")?,
                watch_paths: paths
                    .into_iter()
                    .flatten()
                    .filter_map(|path| path.as_str().map(str::to_owned))
                    .collect(),
                session_title: text_field(specific, "sessionTitle")?,
                reload_skills: bool_field(specific, "reloadSkills")? == Some(true),
            };
        }
        _ => {}
    }
    Ok(reply)
}

fn read_permission(
    specific: &Map<String, Value>,
    reply: &mut HookReply,
    because: impl Fn(Option<String>) -> String,
) -> Result<(), String> {
    let decision = match specific.get("decision") {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Object(decision)) => decision,
        Some(_) => return Err(wrong_type("decision", "an object with `behavior`")),
    };
    match text_field(decision, "behavior")?.as_deref() {
        Some("allow") => {
            reply.decision = Some(DecisionReason::allow());
            reply.updated_input = updated_input(decision)?;
            let updates = match decision.get("updatedPermissions") {
                None | Some(Value::Null) => Vec::new(),
                Some(updates) => Vec::<PermissionUpdate>::deserialize(updates)
                    .map_err(|error| format!("its `updatedPermissions` can't be read: {error}"))?,
            };
            if updates.len() > limits::UPDATES_MAX {
                return Err(format!("it asks for more than {} changes of permissions", limits::UPDATES_MAX));
            }
            reply.permissions = updates;
        }
        Some("deny") => {
            reply.decision = Some(DecisionReason::deny(because(text_field(decision, "message")?)));
            reply.interrupt = bool_field(decision, "interrupt")? == Some(true);
        }
        Some(other) => return Err(unknown_value("behavior", other, "`allow`, `deny`")),
        None => return Err("its `decision` lacks `behavior`; `allow` and `deny` are accepted".into()),
    }
    Ok(())
}

fn updated_input(object: &Map<String, Value>) -> Result<Option<Value>, String> {
    match object.get("updatedInput") {
        None | Some(Value::Null) => Ok(None),
        Some(input @ Value::Object(_)) => Ok(Some(input.clone())),
        Some(_) => Err(wrong_type("updatedInput", "an object, the whole input")),
    }
}

fn text_field(object: &Map<String, Value>, key: &str) -> Result<Option<String>, String> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(wrong_type(key, "a string")),
    }
}

fn bool_field(object: &Map<String, Value>, key: &str) -> Result<Option<bool>, String> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(flag)) => Ok(Some(*flag)),
        Some(_) => Err(wrong_type(key, "`true` or `false`")),
    }
}

fn wrong_type(key: &str, accepted: &str) -> String {
    format!("the key `{key}` of what it printed must be {accepted}")
}

fn unknown_value(key: &str, got: &str, accepted: &str) -> String {
    format!("the key `{key}` of what it printed is `{}`; accepted: {accepted}", excerpt_for_message(got))
}

fn first_of(text: &str, instead: &str) -> String {
    let text = text.trim();
    if text.is_empty() { instead.to_owned() } else { text.to_owned() }
}

/// Truncates a text for a message about a failure.
pub(super) fn excerpt_for_message(text: &str) -> String {
    truncate_with_note(text, limits::FAILURE_CHARS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(exit: ProcessExit, stdout: &'static str, stderr: &'static str) -> CommandExit<'static> {
        CommandExit { exit, stdout, stderr, cut: false, limit_s: 3.0 }
    }

    /// Checks the answer for `event: exit | stdout | stderr` in a short form.
    #[track_caller]
    fn check(event: HookEvent, code: i32, stdout: &'static str, stderr: &'static str, expected: &str) {
        let words = match parse_command_output(event, &ended(ProcessExit::Code(code), stdout, stderr)) {
            Err(why) => format!("failed: {why}"),
            Ok(reply) => {
                let mut words = Vec::new();
                words.extend(reply.stop.map(|reason| format!("stop {reason}")));
                words.extend(reply.decision.map(|decision| match (decision.verdict, reply.is_deferred) {
                    (Verdict::Allow, _) => "Allow".to_owned(),
                    (Verdict::Ask, _) => format!("Ask({:?})", decision.text),
                    (Verdict::Deny, false) => format!("Deny({:?})", decision.text),
                    (Verdict::Deny, true) => format!("Defer({:?})", decision.text),
                }));
                words.extend(reply.updated_input.map(|input| format!("input {input}")));
                words.extend(reply.updated_output.map(|output| format!("output {output}")));
                words.extend(reply.context.iter().map(|context| format!("context {context}")));
                words.extend(reply.message.map(|message| format!("message {message}")));
                words.extend(reply.interrupt.then(|| "interrupt".to_owned()));
                words.extend(reply.retry.then(|| "retry".to_owned()));
                words.join(", ")
            }
        };
        assert_eq!(words, expected, "{event} {code} {stdout} {stderr}");
    }

    #[test]
    fn exit_codes() {
        use HookEvent::*;
        check(PreToolUse, 0, "", "noise", "");
        check(PreToolUse, 0, "some words", "", "");
        check(UserPromptSubmit, 0, "some words\n", "", "context some words");
        check(SessionStart, 0, "some words", "", "context some words");
        check(PostToolUse, 0, "some words", "", "");
        check(PreToolUse, 2, "", "no rm here\n", "Deny(\"no rm here\")");
        check(PreToolUse, 2, "", "", "Deny(\"it gave no reason\")");
        check(PreToolUse, 2, "{not json", "no", "Deny(\"no\")");
        check(PreToolUse, 2, r#"{"decision":"approve"}"#, "still no", "Deny(\"still no\")");
        check(PreToolUse, 2, r#"{"decision":"block","reason":"mine"}"#, "stderr", "Deny(\"mine\")");
        let rewrites = r#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","updatedInput":{}}}"#;
        check(PreToolUse, 2, rewrites, "no", "Deny(\"no\")");
        check(PermissionRequest, 2, "", "no", "");
        check(
            PermissionRequest,
            2,
            r#"{"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"behavior":"allow"}}}"#,
            "",
            "",
        );
        check(PreToolUse, 1, "", "boom", "failed: exit code 1, which is neither 0 nor 2: boom");
        check(PreToolUse, 1, "words", "", "failed: exit code 1, which is neither 0 nor 2: it gave no reason");
        check(PreToolUse, 1, r#"{"decision":"block","reason":"r"}"#, "boom", "Deny(\"r\")");
        check(PreToolUse, 1, r#"{"decision":"approve"}"#, "boom", "Allow");
        check(PreToolUse, 127, "", "no such", "failed: it could not be started (exit code 127): no such");
        check(
            PreToolUse,
            126,
            "",
            "",
            "failed: it could not be started (exit code 126): the shell found no such program, or may not run it",
        );
    }

    #[test]
    fn other_ends_are_failures() {
        let failed = |exit| parse_command_output(HookEvent::PreToolUse, &ended(exit, "", "")).unwrap_err();
        assert_eq!(failed(ProcessExit::Signal(9)), "it was ended by signal 9");
        assert_eq!(failed(ProcessExit::TimedOut), "it took longer than 3 s");
        assert_eq!(failed(ProcessExit::Cancelled), "it was cancelled");
        let killed = failed(ProcessExit::Killed(haft::ports::KillReason::TempTooLarge));
        assert_eq!(killed, "it was killed: the session's `/tmp` became too large");
        let cut = CommandExit { cut: true, ..ended(ProcessExit::Code(0), "{", "") };
        assert!(
            parse_command_output(HookEvent::PreToolUse, &cut)
                .unwrap_err()
                .starts_with("it printed more than")
        );
        // A denial after a byte order mark is a denial.
        let marked = ended(ProcessExit::Code(0), "\u{feff}{\"decision\":\"block\",\"reason\":\"r\"}", "");
        let reply = parse_command_output(HookEvent::PreToolUse, &marked).unwrap();
        assert_eq!(reply.decision, Some(DecisionReason::deny("r")));
    }

    #[test]
    fn json_for_calls() {
        use HookEvent::*;
        let pre =
            |inner: &str| format!(r#"{{"hookSpecificOutput":{{"hookEventName":"PreToolUse",{inner}}}}}"#);
        let leak = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
        let c = |inner: &str, expected: &str| check(PreToolUse, 0, leak(pre(inner)), "", expected);
        c(r#""permissionDecision":"allow""#, "Allow");
        c(r#""permissionDecision":"deny","permissionDecisionReason":"r""#, "Deny(\"r\")");
        c(r#""permissionDecision":"ask","permissionDecisionReason":"r""#, "Ask(\"r\")");
        c(r#""permissionDecision":"defer""#, "Defer(\"it gave no reason\")");
        c(
            r#""permissionDecision":"perhaps""#,
            "failed: the key `permissionDecision` of what it printed is `perhaps`; accepted: `allow`, `deny`, `ask`, `defer`",
        );
        c(r#""updatedInput":{"a":1},"additionalContext":"ctx""#, "input {\"a\":1}, context ctx");
        c(
            r#""updatedInput":"x""#,
            "failed: the key `updatedInput` of what it printed must be an object, the whole input",
        );
        check(
            PreToolUse,
            0,
            r#"{"continue":false,"stopReason":"enough","systemMessage":"hello"}"#,
            "",
            "stop enough, message hello",
        );
        check(PreToolUse, 0, r#"{"decision":"approve"}"#, "", "Allow");
        check(PreToolUse, 0, r#"{"decision":"block"}"#, "", "Deny(\"it gave no reason\")");
        // It is ambiguous which of the two is meant.
        check(
            PreToolUse,
            0,
            r#"{"decision":"block","decision":"approve"}"#,
            "",
            "failed: it printed JSON that can't be read: /decision: the key \"decision\" appears twice in one object; give it once",
        );
        check(
            PreToolUse,
            0,
            r#"{"decision":1}"#,
            "",
            "failed: the key `decision` of what it printed must be a string",
        );
        check(
            PreToolUse,
            0,
            r#"{"hookSpecificOutput":{"permissionDecision":"deny"}}"#,
            "",
            "failed: its `hookSpecificOutput` lacks `\"hookEventName\": \"PreToolUse\"`",
        );
        check(
            PreToolUse,
            0,
            r#"{"hookSpecificOutput":{"hookEventName":"PostToolUse","permissionDecision":"deny"}}"#,
            "",
            "failed: its `hookSpecificOutput` is for the event `PostToolUse`, and this is `PreToolUse`",
        );
        check(PreToolUse, 0, r#"{"suppressOutput":true,"unknown":[1]}"#, "", "");
        check(
            PostToolUse,
            0,
            r#"{"decision":"block","reason":"look again","hookSpecificOutput":{"hookEventName":"PostToolUse","additionalContext":"c","updatedToolOutput":"o"}}"#,
            "",
            "Deny(\"look again\"), output \"o\", context c",
        );
        check(
            PermissionRequest,
            0,
            r#"{"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"behavior":"deny","message":"m","interrupt":true}}}"#,
            "",
            "Deny(\"m\"), interrupt",
        );
        check(
            PermissionRequest,
            0,
            r#"{"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"behavior":"allow","updatedInput":{"a":2},"updatedPermissions":[{"type":"addRules","rules":[{"toolName":"Bash","ruleContent":"ls"}],"behavior":"allow","destination":"session"}]}}}"#,
            "",
            "Allow, input {\"a\":2}",
        );
        check(
            PermissionDenied,
            0,
            r#"{"hookSpecificOutput":{"hookEventName":"PermissionDenied","retry":true}}"#,
            "",
            "retry",
        );
    }

    #[test]
    fn words_that_send_a_hook_to_the_background() {
        assert_eq!(as_async(b"{\"async\":true,\"asyncTimeout\":50}\n"), Some(Some(50)));
        assert_eq!(as_async(b"{\"async\":true}"), Some(None));
        assert_eq!(as_async(b"{\"async\":false}"), None);
        assert_eq!(as_async(b"{\"async\":tr"), None);
    }
}
