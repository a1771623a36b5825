//! A tool whose test says when it ends, and how.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use haft_scheduler::sync::lock;
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};

use super::queue::WaitQueue;
use crate::content::{IntoOutput, ToolOutput};
use crate::context::Context;
use crate::effects::Effects;
use crate::error::ToolError;
use crate::future::BoxFuture;
use crate::tool::{AnyTool, DynamicTool, IntoTools, dynamic_tool};

/// The body of a [`ScriptedTool`].
pub type ScriptedBody =
    Box<dyn Fn(Value, Context) -> BoxFuture<'static, Result<ToolOutput, ToolError>> + Send + Sync>;

/// A tool that takes any object and whose calls end when, and as, the test says.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use haft::Effects;
/// use haft::testing::{TestCaller, scripted_tool};
/// use serde_json::json;
///
/// let (read, handle) = scripted_tool("read").effects(|_| Effects::none()).build();
/// let turn = TestCaller::new().tool(read).start([("a", "read", json!({"n": 1})), ("b", "read", json!({"n": 2}))]);
///
/// let (first, second) = (handle.started().await, handle.started().await);
/// assert_eq!(handle.running(), 2);
/// second.succeed("two");
/// first.succeed("one");
/// turn.results().await.check(["a ok: one", "b ok: two"]);
/// assert_eq!((handle.running(), handle.most_running()), (0, 2));
/// # }
/// ```
#[must_use]
pub struct ScriptedTool {
    tool: DynamicTool<ScriptedBody>,
    handle: ToolHandle,
}

/// Begins a [`ScriptedTool`] of this name. Until something else is said its effects are unknown.
pub fn scripted_tool(name: impl Into<String>) -> ScriptedTool {
    scripted_with(name, json!({"type": "object"}))
}

fn scripted_with(name: impl Into<String>, schema: Value) -> ScriptedTool {
    let shared = Arc::new(ScriptedToolState::default());
    let body: ScriptedBody = {
        let shared = shared.clone();
        Box::new(move |input, cx| Box::pin(shared.clone().run(input, cx)))
    };
    let tool = dynamic_tool(name, "Does what a test says.", schema, body);
    ScriptedTool { tool, handle: ToolHandle(shared) }
}

impl ScriptedTool {
    /// What a call will touch.
    pub fn effects(mut self, effects: impl Fn(&Value) -> Effects + Send + Sync + 'static) -> ScriptedTool {
        self.tool = self.tool.effects(effects);
        self
    }

    /// Changes anything else of the tool: limits, guards, checks.
    pub fn with(
        mut self,
        change: impl FnOnce(DynamicTool<ScriptedBody>) -> DynamicTool<ScriptedBody>,
    ) -> ScriptedTool {
        self.tool = change(self.tool);
        self
    }

    /// The next call ends at once with this, without being told. Several of these count one call each.
    pub fn then(self, output: impl IntoOutput) -> ScriptedTool {
        lock(&self.handle.0.script).push_back(output.into_output());
        self
    }

    /// The next call fails at once with this, without being told.
    pub fn then_fail(self, error: ToolError) -> ScriptedTool {
        lock(&self.handle.0.script).push_back(Err(error));
        self
    }

    /// The tool, and the handle that it is driven by.
    ///
    /// # Panics
    /// The name is not a legal one.
    pub fn build(self) -> (AnyTool, ToolHandle) {
        let mut tools = self.tool.into_tools().expect("a scripted tool needs a legal name");
        (tools.remove(0), self.handle)
    }
}

#[derive(Default)]
struct ScriptedToolState {
    started: WaitQueue<StartedCall>,
    script: Mutex<VecDeque<Result<ToolOutput, ToolError>>>,
    calls: AtomicUsize,
    running: AtomicUsize,
    most: AtomicUsize,
    dropped: AtomicUsize,
}

/// What becomes of a call.
enum CallEnding {
    End(Result<ToolOutput, ToolError>),
    Panic,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallFate {
    Running,
    Ended,
    Dropped,
}

impl ScriptedToolState {
    async fn run(self: Arc<ScriptedToolState>, input: Value, cx: Context) -> Result<ToolOutput, ToolError> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(running, Ordering::SeqCst);
        let (fate, seen) = watch::channel(CallFate::Running);
        let mut present = PresenceGuard { shared: self.clone(), fate, ended: false };
        let scripted = lock(&self.script).pop_front();
        let order = match scripted {
            Some(outcome) => CallEnding::End(outcome),
            None => {
                let (sender, orders) = oneshot::channel();
                self.started.push(StartedCall { input, cx, sender, fate: seen });
                match orders.await {
                    Ok(order) => order,
                    // The test let go of the call without a word: then it never ends by itself.
                    Err(_) => std::future::pending().await,
                }
            }
        };
        present.ended = true;
        drop(present);
        match order {
            CallEnding::End(outcome) => outcome,
            CallEnding::Panic => panic!("a scripted tool was told to panic"),
        }
    }
}

/// Counts a call while its future is there, and notices when it goes before its time.
struct PresenceGuard {
    shared: Arc<ScriptedToolState>,
    fate: watch::Sender<CallFate>,
    ended: bool,
}

impl Drop for PresenceGuard {
    fn drop(&mut self) {
        self.shared.running.fetch_sub(1, Ordering::SeqCst);
        if !self.ended {
            self.shared.dropped.fetch_add(1, Ordering::SeqCst);
        }
        self.fate.send_replace(if self.ended { CallFate::Ended } else { CallFate::Dropped });
    }
}

/// The test's side of a [`ScriptedTool`]. Clones are the same handle.
#[derive(Clone)]
pub struct ToolHandle(Arc<ScriptedToolState>);

impl ToolHandle {
    /// Waits for a call to start. Each call is given once, oldest first.
    ///
    /// # Cancel safety
    /// No call is lost when the future is dropped.
    pub async fn started(&self) -> StartedCall {
        self.0.started.pop().await
    }

    /// A call that started and was not given yet.
    pub fn try_started(&self) -> Option<StartedCall> {
        self.0.started.try_pop()
    }

    /// How many calls started so far.
    pub fn calls(&self) -> usize {
        self.0.calls.load(Ordering::SeqCst)
    }

    /// How many run now.
    pub fn running(&self) -> usize {
        self.0.running.load(Ordering::SeqCst)
    }

    /// The most that ever ran at once.
    pub fn most_running(&self) -> usize {
        self.0.most.load(Ordering::SeqCst)
    }

    /// How many calls were dropped before they were told to end.
    pub fn dropped(&self) -> usize {
        self.0.dropped.load(Ordering::SeqCst)
    }
}

/// A call of a [`ScriptedTool`] that runs. Letting go of it leaves the call running for ever.
pub struct StartedCall {
    input: Value,
    cx: Context,
    sender: oneshot::Sender<CallEnding>,
    fate: watch::Receiver<CallFate>,
}

impl StartedCall {
    /// The input that it got.
    pub fn input(&self) -> &Value {
        &self.input
    }

    /// The context that it got: for progress, files and what else a tool does with it.
    pub fn context(&self) -> &Context {
        &self.cx
    }

    /// Ends the call well.
    pub fn succeed(self, output: impl IntoOutput) {
        self.end(CallEnding::End(output.into_output()));
    }

    /// Ends the call with an error.
    pub fn fail(self, error: ToolError) {
        self.end(CallEnding::End(Err(error)));
    }

    /// Makes the call panic.
    pub fn panic(self) {
        self.end(CallEnding::Panic);
    }

    fn end(self, order: CallEnding) {
        // Nobody listens any more where the call was cancelled meanwhile.
        let _ = self.sender.send(order);
    }

    /// Whether its future was dropped: the call was cancelled.
    pub fn is_dropped(&self) -> bool {
        *self.fate.borrow() == CallFate::Dropped
    }

    /// Waits until its future is dropped.
    pub async fn dropped(&self) {
        let mut fate = self.fate.clone();
        // The sender says what became of the call before it goes.
        let _ = fate.wait_for(|fate| *fate == CallFate::Dropped).await;
    }
}
