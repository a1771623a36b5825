//! A server's tool as the engine takes it: a tool like any other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use haft::schema::InputSchema;
use haft::tool::{AnyTool, CallTimeout, Interrupt, ToolExposure};
use haft::{Cause, Chars, Context, ResultBlock, ToolError, ToolOutput, dynamic_tool};
use serde_json::Value;

use super::definition::ToolDefinition;
use super::server::ServerHandle;
use crate::content;
use crate::names::wire_name;

/// Makes it.
///
/// # Errors
/// Why it can't be offered, in words: nearly always its schema.
pub(crate) fn make_tool(server: &ServerHandle, definition: &ToolDefinition) -> Result<AnyTool, String> {
    let config = server.config();
    let ToolDefinition { name, title, description, input_schema, .. } = definition.clone();
    let wire = wire_name(&config.name, &name);
    // One that can't be checked is not shown either; the tool itself is none the worse.
    let output = definition.output_schema.clone().and_then(|schema| InputSchema::of_output(schema).ok());
    let effects = definition.effects(config);
    let only_looks = !effects.unknown;
    let calls = RemoteTool {
        server: server.downgrade(),
        name: name.clone(),
        needs_task: definition.needs_task,
        about: format!("`{}` of `{}`", crate::text::display_line(&name, 100), config.name),
        output: output.clone(),
        moves_after: config.background_after,
    };
    let shown = title.unwrap_or_else(|| name.clone());
    let sentence =
        format!("calls `{}` of the MCP server `{}`", crate::text::display_line(&name, 100), config.name);
    let always = config.always_load.unwrap_or(definition.always_load == Some(true));
    let needs_user = definition.needs_user;
    let mut tool = dynamic_tool(wire, description, input_schema, move |input, cx| {
        let calls = calls.clone();
        async move { calls.call(input, cx).await }
    })
    .effects(move |_| effects.clone())
    .describe(move |_| sentence.clone())
    .group("mcp")
    .search_hint(format!("{shown} {}", config.name))
    .exposure(if always { ToolExposure::AlwaysLoaded } else { ToolExposure::Normal })
    // A server is told when nobody waits any more; but what it changes should come to its end.
    .interrupt(if only_looks { Interrupt::Cancel } else { Interrupt::Block })
    // The server's own limits come first and say more.
    .timeout(CallTimeout::After(config.call_timeout.saturating_add(Duration::from_secs(10))))
    .spec(|spec| if needs_user { spec.needs_user() } else { spec });
    if let Some(chars) = definition.result_chars {
        tool = tool.result_limit(Chars(chars));
    }
    if let Some(output) = output {
        tool = tool.output_schema(output.as_value().clone());
    }
    tool.build().map_err(|bad| bad.to_string())
}

/// What every call of one tool shares. It doesn't keep the server alive: the session does.
#[derive(Clone)]
struct RemoteTool {
    server: super::server::WeakServer,
    name: String,
    needs_task: bool,
    /// The tool in a few words, for lists of tasks.
    about: String,
    output: Option<InputSchema>,
    moves_after: Option<Duration>,
}

impl RemoteTool {
    /// Calls it, and answers before it is done where it takes too long: then it goes on as a task.
    async fn call(self, input: Value, cx: Context) -> Result<ToolOutput, ToolError> {
        let Some(after) = self.moves_after.filter(|_| cx.ports().tasks().is_some()) else {
            return self.to_its_end(input, &cx).await;
        };
        let cancel = cx.cancel().child();
        let in_background = Arc::new(AtomicBool::new(false));
        let mut work = Box::pin({
            let (calls, cx, cancel) = (self.clone(), cx.clone(), cancel.clone());
            let in_background = in_background.clone();
            async move {
                tokio::select! {
                    biased;
                    done = calls.to_its_end(input, &cx) => done,
                    // The server is told by the end of the other future.
                    cause = cancel.cancelled() => {
                        // A task has no turn that could be interrupted: somebody ended it.
                        let words = match cause {
                            Cause::User if in_background.load(Ordering::Relaxed) => "stopped by TaskStop",
                            cause => cause.words(),
                        };
                        Err(ToolError::cancelled(cause, &format!("{} was {words}", calls.about)))
                    }
                }
            }
        });
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = tokio::time::sleep(after) => {}
        }
        // Somebody moved it already, or there is no room: then it stays where it is.
        if cx.background().task().is_some() {
            return work.await;
        }
        in_background.store(true, Ordering::Relaxed);
        match cx.background().spawn(self.about.as_str(), cancel, work) {
            Ok(task) => Ok(ToolOutput::from(ResultBlock::text(format!(
                "not finished after {} s, so it goes on in the background as {task}\n\
                 TaskOutput {{\"task_id\": \"{task}\"}} shows its result once there is one, TaskStop ends it",
                after.as_secs_f64()
            )))),
            Err((work, _)) => {
                in_background.store(false, Ordering::Relaxed);
                work.await
            }
        }
    }

    async fn to_its_end(&self, input: Value, cx: &Context) -> Result<ToolOutput, ToolError> {
        let server = self.server.upgrade().ok_or_else(|| ToolError::new("the MCP server was shut down"))?;
        let result = server.call(&self.name, input, self.needs_task, cx).await?;
        let output = content::of_call(&result)?;
        if let Some(schema) = &self.output {
            let wrong = match result.get("structuredContent").filter(|value| !value.is_null()) {
                Some(value) => schema.violations(value).first().map(ToString::to_string),
                None => Some("there is none".to_owned()),
            };
            if let Some(words) = wrong {
                cx.warn(format!(
                    "the result of `{}` doesn't fit its own schema: {words}",
                    crate::text::display_line(&self.name, 100)
                ));
            }
        }
        Ok(output)
    }
}
