//! Code of this program that runs in a child process of its own.
//!
//! A tool is code in the host's process, so nothing confines it to what it declared. One that opts in with
//! [`isolated`] is confined: each call runs in a child, which is this program again, speaks the protocol of
//! [script tools] and sees what the call declared. What decodes foreign data takes the same way with
//! [`IsolatedRun`]: its data reaches the child as a descriptor, and the child sees no file at all. A crash, a
//! loop or a decompression bomb is one failed call.
//!
//! | descriptor | is |
//! |---|---|
//! | 0 | the input, one JSON value |
//! | 1 | the result, one JSON value |
//! | 2 | what the code and its libraries print; it goes to the log of a failure |
//! | 3 | progress, one JSON object a line |
//! | 4 | the content to decode, if there is any |
//!
//! The child is started through the port [`Processes`](crate::ports::Processes), which confines it to its
//! declared effects as it confines scripts, ends it when its time is over, and ends whatever it started. Its
//! address space has a limit of [`ISOLATED_MEMORY_BYTES_MAX`](limits::ISOLATED_MEMORY_BYTES_MAX), which the
//! child sets itself before it reads anything: so it holds where no sandbox can be made, too. How the child
//! finds its code is in `code_address`.
//!
//! The decision to question: one process for one call, so nothing of a call is left for the next.
//!
//! [script tools]: https://docs.rs/haft-tools

mod child;
mod code_address;

use std::fmt;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::MemfdFlags;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use self::child::{CHILD_NAME, ChildResources, run_child};
use self::child::{ChildCall, ChildEntryPoint, ChildOutput, ChildReply, enter_child, run_tool};
use self::code_address::CodeAddress;
use crate::content::{ResultBlock, ToolOutput};
use crate::context::Context;
use crate::effects::Effects;
use crate::error::{ErrorKind, ToolError};
use crate::limits;
use crate::pipeline::panic_error;
use crate::ports::{PortName, ProcessExit, ProcessOutcome, ProcessRequest, signal_name};
use crate::tool::{AnyTool, IntoTools, InvalidTool, Tool};

/// Opts a tool in to run in a process of its own.
///
/// It is the tool that `make` gives: the host asks it for spec, effects, sense and views. Only its calls go
/// elsewhere, to a child process in which `make` is called again. So `make` takes nothing from its
/// surroundings, and a tool that keeps something between calls, a cache or a connection, is not one to
/// isolate.
///
/// The child sees the system and what the call declared, and has a limit of memory; the tool's time limit
/// ends it. Where the host can't confine children, every call asks, as for
/// [`ToolSpec::in_child`](crate::ToolSpec::in_child). A tool whose effects are unknown gets what the session
/// may do.
///
/// In the child a context has files within the declared effects, progress, and no port: a tool that needs
/// one, or the user, can't be isolated, and registering it is an error. A cancelled call is killed; it
/// doesn't see its cancellation.
///
/// ```
/// use haft::{Context, NoInput, Registry, Tool, ToolError, ToolSpec, isolated};
///
/// struct Answer;
///
/// impl Tool for Answer {
///     type Input = NoInput;
///     type Output = u8;
///     fn spec(&self) -> ToolSpec {
///         ToolSpec::new("answer").description("Returns the answer.")
///     }
///     async fn call(&self, _: NoInput, _: &Context) -> Result<u8, ToolError> {
///         Ok(42)
///     }
/// }
///
/// let registry = Registry::new().with(isolated(|| Answer))?;
/// assert!(registry.entries().all(|entry| entry.tool().spec().runs_in_child()));
/// # Ok::<(), haft::registry::RegistryError>(())
/// ```
pub fn isolated<T: Tool>(make: fn() -> T) -> IsolatedDefinition {
    IsolatedDefinition(IsolatedTool::new(make).and_then(|process| AnyTool::isolated(make(), process)))
}

/// A tool whose calls run in a child process: what [`isolated`] returns.
#[derive(Debug)]
#[must_use]
pub struct IsolatedDefinition(Result<AnyTool, InvalidTool>);

impl IntoTools<()> for IsolatedDefinition {
    fn into_tools(self) -> Result<Vec<AnyTool>, InvalidTool> {
        Ok(vec![self.0?])
    }
}

impl IntoTools<()> for Vec<IsolatedDefinition> {
    fn into_tools(self) -> Result<Vec<AnyTool>, InvalidTool> {
        self.into_iter().map(|tool| tool.0).collect()
    }
}

/// How the calls of an isolated tool run: the addresses of its code, and its limits.
#[derive(Clone)]
pub(crate) struct IsolatedTool {
    name: Arc<str>,
    code: ChildCode,
    make: String,
    timeout: Duration,
}

impl IsolatedTool {
    fn new<T: Tool>(make: fn() -> T) -> Result<IsolatedTool, InvalidTool> {
        let spec = make().spec();
        let refused = |reason: String| InvalidTool { name: spec.name.to_string(), reason };
        if let Some(port) = spec.needs.iter().find(|port| **port != PortName::Files) {
            return Err(refused(format!(
                "can't be isolated: it needs {port:?}, and a child process has no port but files"
            )));
        }
        if spec.needs_user {
            return Err(refused("can't be isolated: it asks the user, and a child process has none".into()));
        }
        if spec.finds_tools {
            return Err(refused("can't be isolated: it finds tools, and a child process has none".into()));
        }
        let code = ChildCode::from_function(run_tool::<T>);
        let (Some(code), Some(make)) = (code, CodeAddress::from_function(make)) else {
            return Err(refused(NOT_IN_PROGRAM.into()));
        };
        let timeout = spec.timeout.limit().unwrap_or(Duration::MAX).saturating_add(limits::ISOLATED_ENDING);
        Ok(IsolatedTool { name: Arc::from(&*spec.name), code, make: make.to_text(), timeout })
    }

    /// Runs one call that declared these effects.
    ///
    /// # Cancel safety
    /// Dropping the future kills the child.
    pub(crate) async fn call(
        &self,
        input: Value,
        effects: Effects,
        cx: &Context,
    ) -> Result<ToolOutput, ToolError> {
        let run = IsolatedRun { effects, ..IsolatedRun::new(&self.name).with_timeout(self.timeout) };
        let request = run.request(&self.code, cx);
        let call = ChildCall::new(self.make.clone(), input, &request.access, cx);
        let output: ChildOutput = run.finish(request, &call, cx).await?;
        let blocks: Option<Vec<ResultBlock>> = output.blocks.iter().map(ResultBlock::from_json).collect();
        blocks.map(ToolOutput::new).ok_or_else(|| run.not_understood("an unknown kind of content"))
    }
}

const NOT_IN_PROGRAM: &str = "can't be isolated: its code is not in the executable file of this program but in a \
                              shared library, where a child process doesn't find it";

/// The code that a child runs, as its command line has it.
#[derive(Clone)]
struct ChildCode {
    entry: String,
    function: String,
}

impl ChildCode {
    fn from_function<I: DeserializeOwned, O: Serialize>(
        function: IsolatedFunction<I, O>,
    ) -> Option<ChildCode> {
        let entry = CodeAddress::from_function(enter_child::<I, O> as ChildEntryPoint)?.to_text();
        Some(ChildCode { entry, function: CodeAddress::from_function(function)?.to_text() })
    }
}

/// A function that a child process runs: it gets its input, and what else the child was given.
pub type IsolatedFunction<I, O> = fn(I, &ChildResources) -> Result<O, ToolError>;

/// A function of this program that runs once in a child process, which sees the system and no file of the
/// user's.
///
/// For what decodes foreign data on behalf of a tool. The function has to be in the executable file of the
/// program, and takes nothing from its surroundings.
///
/// ```no_run
/// use haft::isolate::{ChildResources, IsolatedRun};
/// use haft::{Context, ToolError};
///
/// fn count_words(_: (), resources: &ChildResources) -> Result<usize, ToolError> {
///     Ok(String::from_utf8(resources.read_content()?)?.split_whitespace().count())
/// }
///
/// async fn words_of(bytes: &[u8], cx: &Context) -> Result<usize, ToolError> {
///     IsolatedRun::new("the counter").with_content(bytes).run(count_words, &(), cx).await
/// }
/// ```
#[must_use]
pub struct IsolatedRun<'a> {
    name: &'a str,
    content: Option<&'a [u8]>,
    timeout: Duration,
    memory_bytes_max: u64,
    effects: Effects,
}

impl<'a> IsolatedRun<'a> {
    /// A run without content that may take ten minutes; `name` begins the text of its errors.
    pub fn new(name: &'a str) -> IsolatedRun<'a> {
        IsolatedRun {
            name,
            content: None,
            timeout: limits::CALL_TIMEOUT,
            memory_bytes_max: limits::ISOLATED_MEMORY_BYTES_MAX,
            effects: Effects::none(),
        }
    }

    /// What the child reads from its descriptor for content.
    pub fn with_content(mut self, content: &'a [u8]) -> IsolatedRun<'a> {
        self.content = Some(content);
        self
    }

    /// How long the child may take.
    pub fn with_timeout(mut self, timeout: Duration) -> IsolatedRun<'a> {
        self.timeout = timeout;
        self
    }

    /// The limit of the child's address space in bytes. The default and the most is
    /// [`ISOLATED_MEMORY_BYTES_MAX`](limits::ISOLATED_MEMORY_BYTES_MAX).
    pub fn with_memory_limit(mut self, bytes: u64) -> IsolatedRun<'a> {
        self.memory_bytes_max = bytes.min(limits::ISOLATED_MEMORY_BYTES_MAX);
        self
    }

    /// Runs the function.
    ///
    /// # Errors
    /// The function's own error. [`ErrorKind::Panicked`] if it panicked, [`ErrorKind::TimedOut`] if it took
    /// too long, and [`ErrorKind::Failed`] if its process ended without a result or could not be started.
    ///
    /// # Cancel safety
    /// Dropping the future kills the child.
    pub async fn run<I: Serialize + DeserializeOwned, O: Serialize + DeserializeOwned>(
        &self,
        function: IsolatedFunction<I, O>,
        input: &I,
        cx: &Context,
    ) -> Result<O, ToolError> {
        let code = ChildCode::from_function(function);
        let code = code.ok_or_else(|| ToolError::new(format!("{} {NOT_IN_PROGRAM}", self.name)))?;
        self.finish(self.request(&code, cx), input, cx).await
    }

    fn request(&self, code: &ChildCode, cx: &Context) -> ProcessRequest {
        let progress = cx.clone();
        let memory = self.memory_bytes_max.to_string();
        let argv = [CHILD_NAME, &code.entry, &code.function, &memory];
        ProcessRequest::for_this_program(argv, cx.cwd())
            .with_declared_effects(&self.effects, cx.access(), cx.location().workspace().paths())
            .with_timeout(self.timeout)
            .with_output_bytes_max(limits::ISOLATED_RESULT_BYTES_MAX)
            .with_on_line(move |line| progress.tell_progress_line(line))
            .with_background(cx.background().state().clone())
            .with_cancel(cx.cancel().clone())
    }

    async fn finish<I: Serialize, O: DeserializeOwned>(
        &self,
        mut request: ProcessRequest,
        input: &I,
        cx: &Context,
    ) -> Result<O, ToolError> {
        let name = self.name;
        let Some(processes) = cx.ports().processes() else {
            return Err(ToolError::new(format!(
                "{name} was not started: it runs in a child process, and this host starts none"
            )));
        };
        request.stdin = serde_json::to_vec(input)?;
        request.content = self.content.map(in_memory).transpose()?.map(Arc::new);
        let outcome = processes
            .run(request)
            .await
            .map_err(|error| ToolError::new(format!("{name} was not started: {error}")).with_source(error))?;
        if outcome.exit != ProcessExit::Code(0) {
            return Err(self.failed(&outcome));
        }
        let Some(result) = outcome.stdout.whole() else {
            let bytes = outcome.stdout.total_bytes;
            let words =
                format!("{name} ran, but its result of {bytes} bytes is too large; ask for less at once");
            return Err(ToolError::new(words));
        };
        match serde_json::from_slice(result) {
            Ok(ChildReply::Output(output)) => Ok(output),
            Ok(ChildReply::Error(error)) => Err(error.into()),
            Ok(ChildReply::Panicked) => Err(panic_error(name)),
            Err(error) => Err(self.not_understood(error)),
        }
    }

    fn not_understood(&self, why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> ToolError {
        let words =
            format!("{} did not finish: its process sent something that is not understood", self.name);
        ToolError::new(words).with_source(why)
    }

    /// The error of a child that gave no result.
    fn failed(&self, outcome: &ProcessOutcome) -> ToolError {
        let name = self.name;
        let (head, tail) = outcome.stderr.to_text();
        let is_out_of_memory = [&head, &tail].iter().any(|text| text.contains(OUT_OF_MEMORY));
        let words = match outcome.exit {
            ProcessExit::TimedOut => {
                let limit = self.timeout.as_secs_f64();
                return ToolError::with_kind(
                    ErrorKind::TimedOut,
                    format!("{name} did not finish within {limit} s"),
                );
            }
            ProcessExit::Cancelled => {
                return ToolError::with_kind(ErrorKind::Cancelled, format!("{name} was cancelled"));
            }
            _ if is_out_of_memory => {
                let limit = self.memory_bytes_max >> 20;
                format!("{name} did not finish: its process needed more than {limit} MB of memory")
            }
            ProcessExit::Killed(reason) => format!("{name} did not finish: its process was killed: {reason}"),
            ProcessExit::Signal(signal) => format!(
                "{name} did not finish: its process ended before it gave a result, by signal {signal}{}",
                signal_name(signal)
            ),
            ProcessExit::Code(code) => {
                format!(
                    "{name} did not finish: its process ended before it gave a result, with exit code {code}"
                )
            }
        };
        ToolError::new(words).with_source(head + &tail)
    }
}

impl fmt::Debug for IsolatedRun<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IsolatedRun").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What the standard library prints before it aborts.
const OUT_OF_MEMORY: &str = "memory allocation of";

/// A file in memory with these bytes, to be read from its beginning.
fn in_memory(content: &[u8]) -> Result<OwnedFd, ToolError> {
    let file = rustix::fs::memfd_create("haft-content", MemfdFlags::CLOEXEC)?;
    let mut file = std::fs::File::from(file);
    file.write_all(content)?;
    std::io::Seek::rewind(&mut file)?;
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;
    use crate::{Engine, NoInput, ToolSpec};

    /// A tool that needs what its spec says.
    struct Needy(fn(ToolSpec) -> ToolSpec);

    impl Tool for Needy {
        type Input = NoInput;
        type Output = ();

        fn spec(&self) -> ToolSpec {
            (self.0)(ToolSpec::new("needy").description("For tests."))
        }

        fn effects(&self, _: &NoInput) -> Effects {
            Effects::none()
        }

        async fn call(&self, _: NoInput, _: &Context) -> Result<(), ToolError> {
            Ok(())
        }
    }

    fn registered<T: Tool>(make: fn() -> T) -> Result<Registry, String> {
        Registry::new().with(isolated(make)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_tool_that_needs_what_a_child_has_not_is_refused() {
        assert!(registered(|| Needy(|spec| spec)).is_ok());
        assert!(registered(|| Needy(|spec| spec.needs(PortName::Files))).is_ok());
        for (refused, why) in [
            (registered(|| Needy(|spec| spec.needs(PortName::Processes))), "it needs Processes"),
            (registered(|| Needy(|spec| spec.needs(PortName::Asker))), "it needs Asker"),
            (registered(|| Needy(ToolSpec::needs_user)), "it asks the user"),
            (registered(|| Needy(ToolSpec::finds_tools)), "it finds tools"),
        ] {
            let words = refused.map(drop).unwrap_err();
            assert!(words.contains("can't be isolated") && words.contains(why), "{words}");
        }
    }

    #[tokio::test]
    async fn without_child_processes_an_isolated_tool_is_not_offered() {
        let engine = Engine::new(registered(|| Needy(|spec| spec)).unwrap());
        let result = engine.turn().run([crate::ToolCall::new("1", "needy", "{}")]).await.remove(0);
        assert_eq!(result.outcome().unwrap_err().kind(), ErrorKind::UnknownTool);
    }
}
