//! Rust tools that run in a process of their own.
//!
//! A tool is code in the host's process, so nothing holds it to what it declared. One that opts in with [`isolated`]
//! can be held: its calls run in a child of the same binary, where the tool is built again by its name, and where its
//! [`Context`] is a stand-in. Every file that it opens, every question and every word of progress is a message on a
//! pipe, and the host answers it with the access of that very call. What the child may do besides is for the kernel
//! to say, when whoever starts it (the sandbox) took everything else away.
//!
//! | part | is |
//! |---|---|
//! | `wire` | the messages, and how outputs, errors and files are written in them |
//! | `frames` | the pipe: bounded frames in both directions, no task, no lock |
//! | `parent` | the host's side of one call: sends it, serves the child, takes the result |
//! | `link`, `proxy` | the child's ports, as requests on the pipe |
//! | `child` | the child's side of one call |
//!
//! Deliberately absent: starting the process. That is [`Isolator`], a port; where the host has none, an isolated tool
//! runs like every other and is *not confined*.
//!
//! The decisions to question: one process for one call, so nothing of a call is left for the next; and authority stays
//! in the parent. The child is told what was granted, for messages, but its word about it is never asked for.

mod child;
mod frames;
mod link;
mod parent;
mod proxy;
mod wire;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::context::Context;
use crate::error::ToolError;
use crate::future::BoxFuture;
use crate::ports::Port;
use crate::tool::{AnyTool, BadTool, IntoTools, Tool};

pub use child::run_child;
pub(crate) use parent::serve_parent;

/// Opts a tool in to run in a process of its own.
///
/// It is the tool that `make` gives: the host asks it for spec, effects, sense and views. Only its calls go elsewhere,
/// to a child process in which `make` is called again. So `make` takes nothing from its surroundings, and a tool that
/// keeps something between calls, a cache or a connection, is not one to isolate.
///
/// **Without an [`Isolator`] the calls run in the host's process and are not confined.** A tool that must not run so
/// says [`needs(Port::Isolator)`](crate::ToolSpec::needs) and isn't offered then.
///
/// In the child a context has files, the user's answers to questions, progress and cancellation, and no other port: a
/// tool that needs one can't be isolated, and registering it is an error. [`AgentLocation::workspace`](crate::context::AgentLocation::workspace) knows the working
/// directories as far as they are visible from there.
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
/// assert!(registry.entries().all(|entry| entry.tool().spec().is_isolated()));
/// # Ok::<(), haft::registry::RegistryError>(())
/// ```
pub fn isolated<T: Tool>(make: fn() -> T) -> Isolated {
    Isolated(Arc::new(Maker(make)))
}

/// A tool that can be built again in another process: what [`isolated`] gives.
///
/// A program keeps one list of them and hands it over twice: to [`Registry::with`](crate::Registry::with) in the host,
/// and to [`run_child`] in the child.
#[derive(Clone)]
#[must_use]
pub struct Isolated(Arc<dyn Make>);

impl Isolated {
    /// The tool's name.
    fn name(&self) -> Cow<'static, str> {
        self.0.name()
    }

    /// The tool itself, as the child runs it.
    fn rebuild(&self) -> Result<AnyTool, BadTool> {
        self.0.rebuild()
    }
}

impl fmt::Debug for Isolated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Isolated")
    }
}

/// A constructor without its type.
trait Make: Send + Sync {
    fn name(&self) -> Cow<'static, str>;
    /// The tool whose calls run where it is.
    fn rebuild(&self) -> Result<AnyTool, BadTool>;
    /// The tool whose calls go through the host's isolator.
    fn represent(&self) -> Result<AnyTool, BadTool>;
}

struct Maker<T>(fn() -> T);

impl<T: Tool> Make for Maker<T> {
    fn name(&self) -> Cow<'static, str> {
        (self.0)().spec().name
    }

    fn rebuild(&self) -> Result<AnyTool, BadTool> {
        AnyTool::typed((self.0)())
    }

    fn represent(&self) -> Result<AnyTool, BadTool> {
        AnyTool::isolated((self.0)())
    }
}

impl IntoTools<()> for Isolated {
    fn into_tools(self) -> Result<Vec<AnyTool>, BadTool> {
        let tool = self.0.represent()?;
        let absent = |port: &&Port| !matches!(port, Port::Files | Port::Asker | Port::Isolator);
        if let Some(port) = tool.spec().needs.iter().find(absent) {
            let reason =
                format!("can't be isolated: it needs {port:?}, which is not there in a child process");
            return Err(BadTool { name: tool.name().to_owned(), reason });
        }
        Ok(vec![tool])
    }
}

impl IntoTools<()> for Vec<Isolated> {
    fn into_tools(self) -> Result<Vec<AnyTool>, BadTool> {
        let tools: Result<Vec<_>, _> = self.into_iter().map(Isolated::into_tools).collect();
        Ok(tools?.into_iter().flatten().collect())
    }
}

/// Starts the child processes in which [isolated] tools run.
///
/// # Who calls it
/// The engine, once for each attempt of a call of an isolated tool, from that call's task, when everything about the
/// call is settled; several calls at once. The call's time limit includes the start.
///
/// # What an implementer promises
/// - The other end of the pipe is a child of the same binary, with the same list of tools, that gives it to
///   [`run_child`].
/// - The child can do nothing but compute and use its pipe, or as close to that as the machine allows. What it needs
///   to know of the call it is told over the pipe; `cx` is there for cancellation, access and ids.
/// - Dropping the pipe ends the child and whatever it started, without waiting for its consent. It is dropped when the
///   result is there and when nobody wants it any more. A cancelled child was told before, if its pipe had room; it is
///   given no time.
/// - The child's end closes when the child dies, however it dies: that is how its death is noticed.
///
/// An error becomes the result of the call.
///
/// # Cancel safety
/// The future is dropped when the call is cancelled; a process that it has started by then must end too.
///
/// # Example
/// The other end in the same process, as tests have it. Nothing is confined by this one.
/// ```
/// use haft::future::BoxFuture;
/// use haft::isolate::{Isolated, Isolator, Pipe, isolated, run_child};
/// use haft::{Context, Effects, Engine, NoInput, Registry, Tool, ToolCall, ToolError, ToolSpec};
///
/// # struct Answer;
/// # impl Tool for Answer {
/// #     type Input = NoInput;
/// #     type Output = u8;
/// #     fn spec(&self) -> ToolSpec { ToolSpec::new("answer").description("Returns the answer.") }
/// #     fn effects(&self, _: &NoInput) -> Effects { Effects::none() }
/// #     async fn call(&self, _: NoInput, _: &Context) -> Result<u8, ToolError> { Ok(42) }
/// # }
/// fn tools() -> Vec<Isolated> {
///     vec![isolated(|| Answer)]
/// }
///
/// struct SameProcess;
///
/// impl Isolator for SameProcess {
///     fn connect<'a>(&'a self, _: &'a str, _: &'a Context) -> BoxFuture<'a, Result<Box<dyn Pipe>, ToolError>> {
///         Box::pin(async {
///             let (ours, theirs) = tokio::io::duplex(64 * 1024);
///             tokio::spawn(async move { run_child(theirs, &tools()).await });   // ends when `ours` is dropped
///             Ok(Box::new(ours) as Box<dyn Pipe>)
///         })
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let engine = Engine::builder(Registry::new().with(tools())?)
///     .ports(|ports| ports.isolator = Some(std::sync::Arc::new(SameProcess))).build();
/// let results = engine.turn().run([ToolCall::new("1", "answer", "{}")]).await;
/// assert_eq!(results[0].to_json().output, 42);
/// # Ok(()) }
/// ```
pub trait Isolator: Send + Sync + 'static {
    /// Starts a process for one call of a tool, by the tool's own name, and gives the host's end of its pipe.
    fn connect<'a>(
        &'a self,
        tool: &'a str,
        cx: &'a Context,
    ) -> BoxFuture<'a, Result<Box<dyn Pipe>, ToolError>>;
}

/// One end of a connection that bytes go through in both directions. Implemented for everything that can.
pub trait Pipe: AsyncRead + AsyncWrite + Send + 'static {}

impl<P: AsyncRead + AsyncWrite + Send + 'static> Pipe for P {}

#[cfg(test)]
mod cut_tests;
#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod scene;
#[cfg(test)]
mod tests;
