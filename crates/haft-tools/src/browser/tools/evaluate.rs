//! `BrowserEvaluate`: runs a script in the page.

use std::time::Duration;

use haft::effects::table::ConcurrencyClass;
use haft::text::truncate_with_ellipsis;
use haft::view::CallStage;
use haft::{
    CallView, Chars, Context, Effects, ErrorKind, ResultBlock, Tool, ToolError, ToolOutput, ToolSpec,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{DialogGuard, RESULT_CHARS, check_named, first_line, render_stage};
use crate::browser::browser_state::describe_exception;
use crate::browser::page_actions::FOREIGN;
use crate::browser::running_browser::LOAD_LIMIT;
use crate::browser::wire::WireError;
use crate::browser::{Browser, browser_tool_spec};

/// Characters of a result.
const VALUE_CHARS_MAX: usize = 20_000;
/// The longest script, in bytes.
const SCRIPT_BYTES_MAX: usize = 256 * 1024;
/// How long a script may take, unless the call says otherwise.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long it may be told to take.
const TIMEOUT_MAX: Duration = Duration::from_secs(60);

/// Runs JavaScript in the open page and returns the value of the last expression as JSON.
///
/// `await` works. With `ref` the script is a function of that element: `el => el.getBoundingClientRect()`.
/// Use it to read what BrowserSnapshot doesn't show or to do what the other tools can't; clicks and typing
/// are more faithful with BrowserClick and BrowserType.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct BrowserEvaluateInput {
    /// The script: an expression, several statements, or a function that is called; with `ref`, a function of
    /// the element.
    pub script: String,
    /// An element for the function, by its ref in BrowserSnapshot, for example `e12`.
    #[serde(default, rename = "ref")]
    pub element: Option<String>,
    /// How long it may take, in milliseconds: 10000 unless said, at most 60000.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
    /// Accepts questions of the page (`confirm`, `prompt`) that the script leads to; else they are dismissed.
    #[serde(default)]
    pub accept_dialogs: Option<bool>,
}

/// The tool `BrowserEvaluate`.
pub struct BrowserEvaluate(pub(in crate::browser) Browser);

/// A value as JSON: not more of it than so many characters, and how many there are.
const WRITTEN: &str = "function(most){let t;try{t=JSON.stringify(this,(k,v)=>typeof v==='bigint'?String(v):\
    typeof v==='function'||typeof v==='symbol'?String(v).slice(0,200):v instanceof Element?'<'+v.tagName.toLowerCase()+'>':v)}catch(e){t=undefined}\
    if(t===undefined)t=String(this);return [t.slice(0,most),t.length]}";

impl BrowserEvaluateInput {
    fn limit(&self) -> Duration {
        self.timeout_ms.map_or(TIMEOUT, Duration::from_millis)
    }
}

impl Tool for BrowserEvaluate {
    type Input = BrowserEvaluateInput;
    type Output = ToolOutput;

    fn spec(&self) -> ToolSpec {
        browser_tool_spec("BrowserEvaluate")
            .alias("browser_evaluate")
            .listed_class(ConcurrencyClass::WriteExclusive)
            .result_limit(Chars(RESULT_CHARS))
            .timeout(TIMEOUT_MAX + LOAD_LIMIT + Duration::from_secs(60))
            .search_hint("run javascript in the page in the browser")
    }

    fn effects(&self, input: &BrowserEvaluateInput) -> Effects {
        self.0.acts(input)
    }

    async fn check(&self, input: &BrowserEvaluateInput, _: &Context) -> Result<(), ToolError> {
        if input.script.trim().is_empty() || input.script.len() > SCRIPT_BYTES_MAX {
            return Err(ToolError::invalid_input(format!(
                "`script` has {} bytes; JavaScript of 1 to {SCRIPT_BYTES_MAX} bytes is accepted",
                input.script.len()
            )));
        }
        if input.limit() > TIMEOUT_MAX || input.limit().is_zero() {
            return Err(ToolError::invalid_input(format!(
                "`timeout_ms` must be between 1 and {}, got {}",
                TIMEOUT_MAX.as_millis(),
                input.limit().as_millis()
            )));
        }
        input.element.as_deref().map_or(Ok(()), |element| check_named(Some(element), None))
    }

    fn describe(&self, input: &BrowserEvaluateInput) -> Option<String> {
        Some(format!("run a script in the page: {}", truncate_with_ellipsis(input.script.trim(), 200)))
    }

    async fn call(&self, input: BrowserEvaluateInput, cx: &Context) -> Result<ToolOutput, ToolError> {
        let (turn, on) = self.0.acting(&input, cx).await?;
        let limit = input.limit();
        turn.downloads(false).await?;
        let _answering = DialogGuard::new(&turn, input.accept_dialogs, None);
        // The browser stops a script that doesn't end; we wait a little longer for it to say so.
        let (started, patience) = (Instant::now(), limit + Duration::from_secs(2));
        let (session, answer) = match &input.element {
            Some(name) => {
                let element = turn.element(name)?;
                let object = turn.object(&element).await?;
                let function = format!("function(){{return ({}\n)(this)}}", input.script);
                let params = json!({"objectId": object, "functionDeclaration": function, "awaitPromise": true,
                                    "userGesture": true, "objectGroup": "haft"});
                let answer =
                    turn.page_within(&element.session, "Runtime.callFunctionOn", params, patience).await;
                (element.session, answer)
            }
            None => {
                let params = json!({"expression": input.script, "awaitPromise": true, "userGesture": true, "replMode": true,
                                    "timeout": u64::try_from(limit.as_millis()).unwrap_or(u64::MAX), "objectGroup": "haft"});
                (
                    on.session.clone(),
                    turn.page_within(&on.session, "Runtime.evaluate", params, patience).await,
                )
            }
        };
        let answer = match answer {
            // Others are used to a function that is called.
            Ok(answer) if answer["result"]["type"] == "function" => {
                let params = json!({"objectId": answer["result"]["objectId"], "functionDeclaration": "function(){return this()}",
                                    "awaitPromise": true, "userGesture": true, "objectGroup": "haft"});
                turn.page_within(&session, "Runtime.callFunctionOn", params, patience).await
            }
            answer => answer,
        };
        let answer = match answer {
            Ok(answer) if answer["result"]["subtype"] == "promise" => {
                let params = json!({"promiseObjectId": answer["result"]["objectId"]});
                turn.page_within(&session, "Runtime.awaitPromise", params, patience).await
            }
            answer => answer,
        };
        let answer = match answer {
            Err(WireError::TimedOut(_)) => {
                turn.stop_script(&session).await;
                return Err(too_long(limit));
            }
            // What is stopped by the browser itself has no words.
            Err(WireError::Refused(_)) if started.elapsed() >= limit => return Err(too_long(limit)),
            Err(WireError::Refused(words)) if words.contains("navigated or closed") => {
                json!({"result": {"type": "undefined"}})
            }
            answer => answer?,
        };
        if let Some(details) = answer.get("exceptionDetails") {
            turn.release(&session);
            let words = describe_exception(details);
            return Err(ToolError::new(turn.told(&format!("the script failed: {words}"))));
        }
        let value = match answer["result"]["objectId"].as_str() {
            Some(object) => {
                let written = turn.ask(&session, object, WRITTEN, &[VALUE_CHARS_MAX.into()]).await;
                written.map(|written| format_text(&written))
            }
            None => Ok(format_primitive(&answer["result"])),
        };
        turn.release(&session);
        turn.settle(&on.target).await;
        Ok(ResultBlock::text(format!("{}\n\n{FOREIGN}\n{}", turn.told(""), value?)).into())
    }

    fn view(&self, stage: &CallStage<'_>) -> Option<CallView> {
        Some(render_stage(stage, truncate_with_ellipsis(&first_line(stage.text("script")?), 80)))
    }
}

fn too_long(limit: Duration) -> ToolError {
    ToolError::with_kind(
        ErrorKind::TimedOut,
        format!("the script did not end within {} ms", limit.as_millis()),
    )
}

/// A value that is no object.
fn format_primitive(value: &Value) -> String {
    if let Some(words) = value["unserializableValue"].as_str() {
        return truncate_with_ellipsis(words, VALUE_CHARS_MAX);
    }
    match value.get("value") {
        Some(value) => {
            let written = value.to_string();
            let total = written.chars().count();
            cut_result(truncate_with_ellipsis(&written, VALUE_CHARS_MAX), total)
        }
        None => "undefined".to_owned(),
    }
}

fn format_text(written: &Value) -> String {
    let total = written[1].as_u64().and_then(|total| usize::try_from(total).ok()).unwrap_or_default();
    cut_result(written[0].as_str().unwrap_or_default().to_owned(), total)
}

fn cut_result(text: String, total: usize) -> String {
    if total <= VALUE_CHARS_MAX {
        return text;
    }
    format!("{text}\n({total} characters in all; let the script return less)")
}
