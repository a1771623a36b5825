//! A caller in place of a model.

use std::fmt;
use std::future::{Future, poll_fn};
use std::ops::Deref;
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use haft_scheduler::Cancel;
use tokio::task::JoinHandle;

use crate::call::{CallInput, ToolCall};
use crate::context::{AgentHost, Context};
use crate::dispatch::{Turn, TurnHandle};
use crate::effects::resolved::Workspace;
use crate::engine::{Engine, EngineBuilder};
use crate::event::CallRef;
use crate::files::{GrantedAccess, GrantedRoot};
use crate::ports::HostPorts;
use crate::registry::Registry;
use crate::result::ToolResult;
use crate::tool::IntoTools;

/// Makes calls as a model would, and checks that each has exactly one result, in order.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use haft::testing::TestCaller;
/// use haft::{Effects, NoInput, tool};
/// use serde_json::json;
///
/// let answer = tool("answer", "Returns the answer.", |_: NoInput, _| async { Ok(42) }).effects(|_| Effects::none());
/// let caller = TestCaller::new().tool(answer);
///
/// let results = caller.turn([("a", "answer", json!({})), ("b", "answer", json!({"x": 1}))]).await;
/// assert_eq!(results[0].to_json().output, 42);
/// assert!(results.lines()[1].starts_with("b InvalidInput: invalid input for answer"));
/// # }
/// ```
pub struct TestCaller {
    registry: Registry,
    builder: EngineBuilder,
    engine: Engine,
    changed: bool,
}

impl Default for TestCaller {
    fn default() -> TestCaller {
        TestCaller::new()
    }
}

impl TestCaller {
    /// A caller without tools, on an engine as [`Engine::new`] makes it.
    pub fn new() -> TestCaller {
        TestCaller::with_registry(Registry::new())
    }

    /// A caller of these tools.
    pub fn with_registry(registry: Registry) -> TestCaller {
        let builder = Engine::builder(registry.clone());
        TestCaller { engine: builder.clone().build(), builder, registry, changed: false }
    }

    /// Adds a tool. Before [`engine`](TestCaller::engine).
    ///
    /// # Panics
    /// The tool can't be registered.
    #[must_use]
    #[track_caller]
    pub fn tool<Kind>(self, tool: impl IntoTools<Kind>) -> TestCaller {
        self.with(|registry| registry.with(tool))
    }

    /// Adds a tool from outside. Before [`engine`](TestCaller::engine).
    ///
    /// # Panics
    /// The tool can't be registered.
    #[must_use]
    #[track_caller]
    pub fn external<Kind>(self, source: &str, tool: impl IntoTools<Kind>) -> TestCaller {
        self.with(|registry| registry.with_external(source, tool))
    }

    #[track_caller]
    fn with(
        self,
        add: impl FnOnce(&Registry) -> Result<Registry, crate::registry::RegistryError>,
    ) -> TestCaller {
        assert!(!self.changed, "add tools before changing the engine: adding one makes a new engine");
        match add(&self.registry) {
            Ok(registry) => TestCaller::with_registry(registry),
            Err(error) => panic!("{error}"),
        }
    }

    /// Configures the engine: rules, ports, hooks, limits.
    #[must_use]
    pub fn engine(self, change: impl FnOnce(EngineBuilder) -> EngineBuilder) -> TestCaller {
        let builder = change(self.builder);
        TestCaller { engine: builder.clone().build(), builder, changed: true, ..self }
    }

    /// The engine itself.
    pub fn as_engine(&self) -> &Engine {
        &self.engine
    }

    /// The tools, for making another set of them.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Makes the calls of one message and waits for the results.
    pub async fn turn(&self, calls: impl IntoIterator<Item = impl IntoCall>) -> TurnResults {
        let calls = tool_calls(calls);
        let ids = call_ids(&calls);
        TurnResults::checked(ids, self.engine.turn().run(calls).await)
    }

    /// Makes one call and waits for its result.
    pub async fn call(&self, tool: &str, input: impl Into<CallInput>) -> ToolResult {
        let results = self.turn([ToolCall::new("1", tool, input)]).await;
        results.0.into_iter().next().expect("there is one result for one call")
    }

    /// Makes the calls of one message while the test goes on.
    pub fn start(&self, calls: impl IntoIterator<Item = impl IntoCall>) -> RunningTurn {
        self.start_in(self.engine.turn(), calls)
    }

    /// Makes the calls in a turn that has begun already.
    pub fn start_in(&self, turn: Turn, calls: impl IntoIterator<Item = impl IntoCall>) -> RunningTurn {
        let calls = tool_calls(calls);
        let ids = call_ids(&calls);
        let handle = turn.handle();
        RunningTurn { ids, handle, task: tokio::spawn(turn.run(calls)) }
    }
}

fn tool_calls(calls: impl IntoIterator<Item = impl IntoCall>) -> Vec<ToolCall> {
    calls.into_iter().map(IntoCall::into_call).collect()
}

fn call_ids(calls: &[ToolCall]) -> Vec<Arc<str>> {
    calls.iter().map(|call| call.id.clone()).collect()
}

/// Something that a [`TestCaller`] can call: `(id, tool, input)`, or a [`ToolCall`].
pub trait IntoCall {
    /// The call.
    fn into_call(self) -> ToolCall;
}

impl IntoCall for ToolCall {
    fn into_call(self) -> ToolCall {
        self
    }
}

impl<Id: Into<Arc<str>>, Name: Into<Arc<str>>, Input: Into<CallInput>> IntoCall for (Id, Name, Input) {
    fn into_call(self) -> ToolCall {
        ToolCall::new(self.0, self.1, self.2)
    }
}

/// The calls of a message that are under way. Dropping it lets them run on.
pub struct RunningTurn {
    ids: Vec<Arc<str>>,
    handle: TurnHandle,
    task: JoinHandle<Vec<ToolResult>>,
}

impl RunningTurn {
    /// The handle for interrupting.
    pub fn handle(&self) -> &TurnHandle {
        &self.handle
    }

    /// Whether all results are there.
    pub fn is_finished(&self) -> bool {
        self.task.is_finished()
    }

    /// Waits for something that happens while the turn runs.
    ///
    /// # Panics
    /// The turn ends first; the message has its results. Waiting for what never comes would hang the test
    /// instead.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// use haft::Effects;
    /// use haft::testing::{TestCaller, scripted_tool};
    ///
    /// let (read, handle) = scripted_tool("read").effects(|_| Effects::none()).build();
    /// let mut turn = TestCaller::new().tool(read).start([("1", "read", "{}")]);
    /// turn.meanwhile(handle.started()).await.succeed("text");
    /// turn.results().await.check(["1 ok: text"]);
    /// # }
    /// ```
    pub async fn meanwhile<T>(&mut self, event: impl Future<Output = T>) -> T {
        let mut event = pin!(event);
        poll_fn(|cx| {
            if let Poll::Ready(happened) = event.as_mut().poll(cx) {
                return Poll::Ready(happened);
            }
            match Pin::new(&mut self.task).poll(cx) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(Ok(results)) => panic!("the turn ended first: {:?}", TurnResults(results)),
                Poll::Ready(Err(error)) => panic!("the turn ended first: {error}"),
            }
        })
        .await
    }

    /// Drops the turn, as a host does that lost its connection.
    pub fn abort(&self) {
        self.task.abort();
    }

    /// Waits for the results.
    ///
    /// # Panics
    /// The turn itself panicked or was aborted, which is never right, or the results don't match the calls.
    pub async fn results(self) -> TurnResults {
        TurnResults::checked(self.ids, self.task.await.expect("a turn doesn't panic"))
    }
}

/// The results of one message: exactly one for each call, in order.
pub struct TurnResults(Vec<ToolResult>);

impl TurnResults {
    fn checked(ids: Vec<Arc<str>>, results: Vec<ToolResult>) -> TurnResults {
        let answered: Vec<&str> = results.iter().map(ToolResult::call_id).collect();
        let asked: Vec<&str> = ids.iter().map(|id| &**id).collect();
        assert_eq!(answered, asked, "one result for each call, in order");
        TurnResults(results)
    }

    /// A line for each: `ID ok: OUTPUT` or `ID KIND: WORDS`. Notes follow on lines of their own.
    pub fn lines(&self) -> Vec<String> {
        self.0.iter().map(summary_line).collect()
    }

    /// Compares with [`lines`](TurnResults::lines).
    ///
    /// # Panics
    /// They differ.
    #[track_caller]
    pub fn check<'a>(&self, expected: impl IntoIterator<Item = &'a str>) {
        let expected: Vec<&str> = expected.into_iter().collect();
        assert_eq!(self.lines(), expected);
    }

    /// Gives the results away.
    pub fn into_vec(self) -> Vec<ToolResult> {
        self.0
    }
}

impl Deref for TurnResults {
    type Target = [ToolResult];

    fn deref(&self) -> &[ToolResult] {
        &self.0
    }
}

impl fmt::Debug for TurnResults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.lines()).finish()
    }
}

fn summary_line(result: &ToolResult) -> String {
    let id = result.call_id();
    let mut line = match result.outcome() {
        Ok(output) => format!("{id} ok: {}", output.to_text()),
        Err(error) => format!("{id} {:?}: {}", error.kind(), error.message()),
    };
    for note in result.notes() {
        line.push_str("\nnote: ");
        line.push_str(note);
    }
    line
}

/// A context for calling a tool's methods directly, without an engine: it may read and write everything in
/// `dir`.
///
/// ```
/// use haft::testing::{MemoryFiles, test_context};
/// use std::sync::Arc;
///
/// let files = MemoryFiles::new();
/// let cx = test_context(".", |ports| ports.files = Arc::new(files.clone()));
/// assert_eq!(cx.call().id(), "test");
/// ```
///
/// # Panics
/// There is no such directory.
pub fn test_context(dir: impl AsRef<Path>, ports: impl FnOnce(&mut HostPorts)) -> Context {
    let workspace = Workspace::new(dir).expect("a test works in a directory that exists");
    let mut own = HostPorts::default();
    ports(&mut own);
    let access = GrantedAccess {
        write: workspace.dirs().map(GrantedRoot::subtree).collect(),
        ..GrantedAccess::default()
    };
    let host = AgentHost {
        session: "test".into(),
        agent: "main".into(),
        base_access: Arc::new(access),
        workspace,
        ports: own,
        finder: Default::default(),
        events: None,
        results: Some(Arc::new(crate::results::OffloadStore::temporary())),
        background: Arc::default(),
        confined: false,
        place: std::sync::Mutex::default(),
    };
    let call = CallRef { index: 0, id: "test".into(), tool: "test".into() };
    Context::new(Arc::new(host), 1, call, Cancel::new(), None)
}
