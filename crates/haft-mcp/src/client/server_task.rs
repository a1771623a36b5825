//! Calls that a server runs as tasks: by the extension `io.modelcontextprotocol/tasks` of the stateless
//! revision, where the server decides, and as tools of revision 2025-11-25 require it.
//!
//! The state of a task is asked for until it is done. A task whose call is dropped is cancelled at the
//! server.

use std::collections::HashSet;
use std::time::Duration;

use rmcp::model::{
    CancelTaskParams, ClientRequest, CustomRequest, GetTaskParams, InputResponses, ProtocolVersion, Request,
    UpdateTaskParams,
};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::session::{ClientSession, RequestFailure, RequestProgress, RequestTimeouts};
use crate::{limits, text};

/// A task of a server. Dropped before it is done, it is cancelled.
pub(super) struct ServerTask<'a> {
    session: &'a ClientSession,
    id: String,
    is_done: bool,
    /// How long to wait before its state is asked for.
    pause: Duration,
}

type OnProgress<'a> = &'a (dyn Fn(RequestProgress) + Send + Sync);

impl ClientSession {
    /// Calls a tool, as a task where that is needed.
    pub(crate) async fn call_tool(
        &self,
        request: &ClientRequest,
        needs_task: bool,
        patience: RequestTimeouts,
        on_progress: OnProgress<'_>,
    ) -> Result<Value, RequestFailure> {
        let ClientRequest::CallToolRequest(call) = request else {
            return self.request_in_rounds(request, patience, on_progress).await;
        };
        let is_stateless = self.facts().revision.as_str() >= ProtocolVersion::NO_INITIALIZE.as_str();
        if is_stateless || !needs_task {
            return self.request_in_rounds(request, patience, on_progress).await;
        }
        let mut params = serde_json::to_value(&call.params).unwrap_or_default();
        params["task"] = json!({});
        let created = CustomRequest::new("tools/call", Some(params));
        let created = ClientRequest::CustomRequest(created);
        let answer = self.request_in_rounds(&created, patience, on_progress).await?;
        if answer["task"].is_null() {
            return Ok(answer);
        }
        let mut task = ServerTask::new(self, &answer["task"])?;
        // This request waits for the end of the task, and carries its questions.
        let result = CustomRequest::new("tasks/result", Some(json!({"taskId": task.id})));
        let result = ClientRequest::CustomRequest(result);
        let result = self.request_in_rounds(&result, patience, on_progress).await;
        task.is_done = matches!(result, Ok(_) | Err(RequestFailure::Refused { .. }));
        result
    }
}

impl<'a> ServerTask<'a> {
    /// The task of a result that made it.
    pub(super) fn new(session: &'a ClientSession, task: &Value) -> Result<ServerTask<'a>, RequestFailure> {
        let id = task["taskId"].as_str().filter(|id| id.len() <= limits::URI_CHARS_MAX);
        let id = id.ok_or_else(|| RequestFailure::Odd("its task has no id".to_owned()))?.to_owned();
        let mut task_of_server = ServerTask { session, id, is_done: false, pause: Duration::ZERO };
        task_of_server.read_pause(task);
        Ok(task_of_server)
    }

    fn read_pause(&mut self, task: &Value) {
        let wanted = task["pollIntervalMs"].as_u64().map(Duration::from_millis);
        let shortest = limits::TASK_POLL_INTERVAL / 5;
        self.pause = wanted.unwrap_or(limits::TASK_POLL_INTERVAL).clamp(shortest, limits::TASK_PAUSE_MAX);
    }

    /// Asks for the state until there is a result.
    pub(super) async fn follow(
        mut self,
        patience: RequestTimeouts,
        on_progress: OnProgress<'_>,
    ) -> Result<Value, RequestFailure> {
        let end = Instant::now() + patience.total;
        let mut answered = HashSet::new();
        loop {
            if Instant::now() + self.pause > end {
                return Err(RequestFailure::TimedOut(patience.total));
            }
            tokio::time::sleep(self.pause).await;
            let request = ClientRequest::GetTaskRequest(Request::new(GetTaskParams::new(&*self.id)));
            let mut state = self.session.request(&request, RequestTimeouts::REQUEST, &|_| {}).await?;
            self.read_pause(&state);
            if let Some(words) = state["statusMessage"].as_str() {
                let words = text::display_line(words, haft::limits::PROGRESS_CHARS_MAX);
                on_progress(RequestProgress { fraction: None, words });
            }
            match state["status"].as_str() {
                Some("working") => {}
                Some("input_required") => self.answer(&state["inputRequests"], &mut answered).await?,
                Some("completed") if state["result"].is_object() => {
                    self.is_done = true;
                    return Ok(state["result"].take());
                }
                Some("failed") => {
                    self.is_done = true;
                    return Err(RequestFailure::Refused {
                        code: state["error"]["code"]
                            .as_i64()
                            .and_then(|code| code.try_into().ok())
                            .unwrap_or(0),
                        words: text::display_text(
                            state["error"]["message"].as_str().unwrap_or("its task failed"),
                            limits::ERROR_CHARS_MAX,
                        ),
                        pages: Vec::new(),
                    });
                }
                Some("cancelled") => {
                    self.is_done = true;
                    return Err(RequestFailure::Odd("it cancelled its task".to_owned()));
                }
                _ => return Err(RequestFailure::Odd("its task is in no known state".to_owned())),
            }
        }
    }

    /// Answers the questions that were not answered before.
    async fn answer(&self, questions: &Value, answered: &mut HashSet<String>) -> Result<(), RequestFailure> {
        let mut responses = InputResponses::new();
        for (key, question) in questions.as_object().into_iter().flatten() {
            if answered.contains(key) {
                continue;
            }
            if answered.len() >= limits::REQUESTS_OPEN_MAX * limits::ROUNDS_MAX {
                return Err(RequestFailure::Odd("it asked for too much".to_owned()));
            }
            responses.insert(key.clone(), self.session.answer_question(question).await?);
            answered.insert(key.clone());
        }
        if responses.is_empty() {
            return Ok(());
        }
        let update = UpdateTaskParams::new(&*self.id, responses);
        let request = ClientRequest::UpdateTaskRequest(Request::new(update));
        self.session.request(&request, RequestTimeouts::REQUEST, &|_| {}).await.map(drop)
    }
}

impl Drop for ServerTask<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            let cancel = Request::new(CancelTaskParams::new(&*self.id));
            self.session.send_last(ClientRequest::CancelTaskRequest(cancel));
        }
    }
}
