//! A call that runs, as others see it: the supervisor watches it, and it can move to the background.

use std::time::Duration;

use haft_scheduler::{Cancel, Cause};

use super::{LiveCall, TurnShared};
use crate::content::{ResultBlock, ToolOutput};
use crate::context::Context;
use crate::event::EventKind;
use crate::pipeline::execute::{left_behind, timed_out};
use crate::ports::{NewTask, TaskId};
use crate::registry::RegisteredTool;
use crate::result::ToolResult;
use crate::supervise::{PollMark, WatchedCall};
use crate::tool::SiblingPolicy;

impl TurnShared {
    /// Whether a failure of this tool stops those that run beside it.
    pub(super) fn stops_siblings(&self, entry: &RegisteredTool) -> bool {
        entry.tool().spec().on_error.unwrap_or(self.engine.siblings) == SiblingPolicy::OnError
    }

    /// The real result of a call that went on in the background.
    pub(super) fn came_back(&self, task: TaskId, cx: &Context, result: ToolResult) {
        let engine = &self.engine;
        engine.background.remove(task);
        if let Some(tasks) = engine.host.ports.tasks.as_deref() {
            tasks.finish(task, result.clone());
        }
        engine.host.tell(self.number, Some(cx.call_ref()), || EventKind::BackgroundFinished(result));
    }
}

impl WatchedCall for LiveCall {
    fn abandon(&self) {
        let call = self.cx.call_ref();
        let limit = self.cx.entry().and_then(|entry| entry.tool().spec().timeout.limit());
        let cause = self.cx.cancel().cause();
        // As if it had answered for itself, and in the same order.
        let late = cause.is_none_or(|cause| cause == Cause::Timeout) && !self.turn.batch.is_done(call.index);
        if late && self.cx.entry().is_some_and(|entry| self.turn.stops_siblings(entry)) {
            self.turn.batch.stop_siblings(call.index);
        }
        let error = match cause {
            None | Some(Cause::Timeout) => timed_out(&call.tool, limit),
            Some(cause) => left_behind(&call.tool, cause),
        };
        let (input, duration) = self.cx.running().so_far();
        let tool = self.cx.entry().map(|entry| entry.tool().clone());
        let result = ToolResult::refused(call.id.clone(), call.tool.clone(), error).with(|parts| {
            (parts.tool, parts.input, parts.duration) = (tool, input, duration);
        });
        if self.turn.end(call.index, result).is_ok() {
            self.cx.running().let_go();
            self.turn.go();
        }
    }

    fn blocks_thread(&self, since: Duration) {
        self.turn
            .engine
            .host
            .tell(self.turn.number, Some(self.cx.call_ref()), || EventKind::BlocksThread { since });
    }

    fn mark(&self) -> &PollMark {
        &self.cx.running().mark
    }

    fn cancel(&self) -> &Cancel {
        self.cx.cancel()
    }
}

impl LiveCall {
    pub(super) fn detach(&self) -> Result<TaskId, String> {
        let (engine, running) = (&self.turn.engine, self.cx.running());
        let (call, tool) = (self.cx.call_ref(), &*self.cx.call_ref().tool);
        let entry = self.cx.entry().ok_or("this call runs elsewhere")?;
        let tasks = engine.host.ports.tasks.as_deref().ok_or("this host has no background tasks")?;
        if self.turn.batch.is_done(call.index) || running.task().is_some() {
            return Err(format!("{tool} is done already"));
        }
        let new = NewTask {
            tool: tool.to_owned(),
            about: running.about(),
            effects: running.effects(),
            cancel: self.cx.cancel().clone(),
            log: running.log(),
        };
        let task = tasks.adopt(new).map_err(|full| full.to_string())?;
        let answer = |words: String| {
            let output = ToolOutput::new(vec![ResultBlock::text(words)]);
            ToolResult::answered(call.id.clone(), entry, running.input(), output)
        };
        // The task is set before the answer is given: whoever ends the call second finds out here or in
        // `drive`, so each result goes to exactly one place. And before others are told of it, so that it
        // never meets itself.
        if !running.move_to_background(task) {
            // Somebody else moves the same call: theirs is the task that its result will go to.
            let words = format!("{tool} is being moved to the background already");
            tasks.finish(task, answer(words.clone()));
            return Err(words);
        }
        // Later calls are told of the overlap from before the answer on, and no longer than the task runs.
        let keys = running.conflict_keys(entry, &self.cx, engine.surroundings.confined);
        engine.background.add(task, call.tool.clone(), keys);
        let goes_on = answer(format!("{tool} goes on in the background as {task}; its result is kept there"));
        if self.turn.end(call.index, goes_on).is_err() {
            engine.background.remove(task);
            tasks.finish(task, answer(format!("{tool} ended before it could go on in the background")));
            return Err(format!("{tool} is done already"));
        }
        running.let_go();
        self.turn.go();
        Ok(task)
    }
}
