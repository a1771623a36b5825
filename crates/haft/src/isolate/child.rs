//! The child's side: from a command line to a result on standard output.
//!
//! The process runs one function and ends. What the function prints goes to standard error, so that it can't
//! be taken for the result. Whatever is wrong with the start itself is an exit code other than 0.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use haft_scheduler::Cancel;
use haft_scheduler::sync::lock;
use rustix::process::{Resource, Rlimit, setrlimit};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::IsolatedFunction;
use super::code_address::CodeAddress;
use crate::content::{IntoOutput as _, ResultBlock};
use crate::context::{AgentHost, Context};
use crate::effects::resolved::Workspace;
use crate::error::{ErrorKind, ToolError};
use crate::event::{CallRef, Event, EventKind, EventSink};
use crate::files::{GrantedAccess, GrantedRoot, RootExtent};
use crate::future::catch_panic;
use crate::limits;
use crate::ports::HostPorts;
use crate::schema::{decode_input, describe_violations};
use crate::search::ToolFinder;
use crate::tool::Tool;

/// The name by which the program is called that becomes such a child: its `argv[0]`.
pub const CHILD_NAME: &str = "haft: isolated code";

/// What a child was given beside its input.
#[derive(Debug, Default)]
pub struct ChildResources {
    progress: Option<File>,
    content: Option<File>,
}

impl ChildResources {
    /// The content that the run was given; empty if it was given none.
    ///
    /// # Errors
    /// The content can't be read.
    pub fn read_content(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        if let Some(mut content) = self.content.as_ref() {
            content.read_to_end(&mut bytes)?;
        }
        Ok(bytes)
    }
}

/// The first function of a child, for one type of input and one of output.
pub(super) type ChildEntryPoint = fn(&str, &ChildResources) -> io::Result<()>;

/// What a child says in the end.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ChildReply<O> {
    Output(O),
    Error(ReplyError),
    Panicked,
}

/// An error of the function, as far as a tool could have said it itself.
#[derive(Serialize, Deserialize)]
pub(super) struct ReplyError {
    message: String,
    is_retryable: bool,
    is_semantic: bool,
}

impl From<ToolError> for ReplyError {
    fn from(error: ToolError) -> ReplyError {
        ReplyError {
            message: error.message().to_owned(),
            is_retryable: error.is_retryable(),
            is_semantic: error.is_semantic(),
        }
    }
}

impl From<ReplyError> for ToolError {
    fn from(ReplyError { message, is_retryable, is_semantic }: ReplyError) -> ToolError {
        let error = if is_semantic { ToolError::invalid_input(message) } else { ToolError::new(message) };
        if is_retryable { error.retryable() } else { error }
    }
}

/// Runs the function that the arguments after [`CHILD_NAME`] name, and returns the exit code of the process.
///
/// For whoever starts such processes: it is called in the child, before `main`, with the child's descriptors
/// 3 and 4.
pub fn run_child(
    arguments: impl IntoIterator<Item = OsString>,
    progress: Option<OwnedFd>,
    content: Option<OwnedFd>,
) -> i32 {
    let arguments: Option<Vec<String>> = arguments.into_iter().map(|text| text.into_string().ok()).collect();
    let resources = ChildResources { progress: progress.map(File::from), content: content.map(File::from) };
    let Some([entry, function, memory]) = arguments.as_deref() else { return 2 };
    let entry = CodeAddress::<ChildEntryPoint>::parse(entry);
    let (Some(entry), Ok(memory)) = (entry, memory.parse()) else { return 2 };
    let limit =
        |resource, most| setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) }).is_ok();
    if !limit(Resource::As, memory) || !limit(Resource::Core, 0) {
        return 2;
    }
    #[expect(unsafe_code, reason = "a number becomes a function; see `code_address`")]
    // SAFETY: The parent is a process of the same executable file, and made this text of such an address.
    let entry = unsafe { entry.function() };
    let function = function.clone();
    // Libraries that recurse get the room that deep nesting takes.
    let thread = std::thread::Builder::new().stack_size(limits::ISOLATED_STACK_BYTES);
    let run = thread.spawn(move || entry(&function, &resources)).map(std::thread::JoinHandle::join);
    i32::from(!matches!(run, Ok(Ok(Ok(())))))
}

/// Reads the input, runs the function, and writes what came of it.
pub(super) fn enter_child<I: DeserializeOwned, O: Serialize>(
    function: &str,
    resources: &ChildResources,
) -> io::Result<()> {
    let function =
        CodeAddress::<IsolatedFunction<I, O>>::parse(function).ok_or(io::ErrorKind::InvalidInput)?;
    #[expect(unsafe_code, reason = "a number becomes a function; see `code_address`")]
    // SAFETY: The parent is a process of the same executable file, and made this text together with that of
    // `enter_child`.
    let function = unsafe { function.function() };
    let mut result = File::from(rustix::io::fcntl_dupfd_cloexec(io::stdout(), 3)?);
    rustix::stdio::dup2_stdout(io::stderr())?;
    let mut input = Vec::new();
    io::stdin().read_to_end(&mut input)?;
    let input = serde_json::from_slice(&input)?;
    let reply = match catch_panic(|| function(input, resources)) {
        Ok(Ok(output)) => ChildReply::Output(output),
        Ok(Err(error)) => ChildReply::Error(error.into()),
        Err(_) => ChildReply::Panicked,
    };
    result.write_all(&serde_json::to_vec(&reply)?)
}

/// One call of an isolated tool, as its child has to know it.
#[derive(Serialize, Deserialize)]
pub(super) struct ChildCall {
    make: String,
    input: Value,
    session: String,
    agent: String,
    turn: u64,
    index: usize,
    id: String,
    /// The name by which the tool was called.
    called: String,
    cwd: PathBuf,
    dirs: Vec<PathBuf>,
    read: Vec<(PathBuf, RootExtent)>,
    write: Vec<(PathBuf, RootExtent)>,
    never_written: Vec<PathBuf>,
}

impl ChildCall {
    /// The call of this context, with what its child may open.
    pub(super) fn new(make: String, input: Value, access: &GrantedAccess, cx: &Context) -> ChildCall {
        let (call, workspace) = (cx.call(), cx.location().workspace());
        let paths = workspace.paths();
        // What lies in the session's own folder has two names in the child.
        let places = |roots: &[GrantedRoot]| {
            let both = |root: &GrantedRoot| {
                [root.path.clone(), paths.session_path(&root.path).into_owned()]
                    .map(|path| (path, root.extent))
            };
            roots.iter().flat_map(both).collect()
        };
        ChildCall {
            make,
            input,
            session: call.session_id().to_owned(),
            agent: call.agent_id().to_owned(),
            turn: call.turn(),
            index: call.index(),
            id: call.id().to_owned(),
            called: cx.call_ref().tool.to_string(),
            cwd: cx.cwd().to_owned(),
            dirs: workspace.dirs().map(Path::to_owned).collect(),
            read: places(&access.read),
            write: places(&access.write),
            never_written: access.never_written.clone(),
        }
    }

    fn context(self, progress: Option<File>) -> Context {
        let roots = |places: Vec<(PathBuf, RootExtent)>| {
            places.into_iter().map(|(path, extent)| GrantedRoot { path, extent }).collect()
        };
        let access = GrantedAccess {
            read: roots(self.read),
            write: roots(self.write),
            never_written: self.never_written,
            ..GrantedAccess::default()
        };
        let host = AgentHost {
            session: self.session.into(),
            agent: self.agent.into(),
            workspace: child_workspace(&self.cwd, &self.dirs),
            base_access: Arc::default(),
            ports: HostPorts::default(),
            finder: ToolFinder::default(),
            events: progress.map(|file| Arc::new(ProgressLines(Mutex::new(file))) as Arc<dyn EventSink>),
            results: None,
            background: Arc::default(),
            confined: false,
            place: Mutex::default(),
        };
        let reference = CallRef { index: self.index, id: self.id.into(), tool: self.called.into() };
        Context::for_child(Arc::new(host), self.turn, reference, Cancel::new(), access, &self.cwd)
    }
}

/// The host's workspace, as far as it can be seen from here.
fn child_workspace(cwd: &Path, dirs: &[PathBuf]) -> Workspace {
    let seen = Workspace::new(cwd).ok().filter(|seen| seen.cwd() == cwd).map(|seen| {
        let others = dirs.iter().filter(|dir| *dir != cwd);
        others.fold(seen, |seen, dir| seen.clone().with_dir(dir).unwrap_or(seen))
    });
    seen.unwrap_or_else(Workspace::without_dirs)
}

/// What a tool gave back: its blocks as [`ResultBlock::to_json`] writes them.
#[derive(Serialize, Deserialize)]
pub(super) struct ChildOutput {
    pub(super) blocks: Vec<Value>,
}

/// Runs one call of a tool.
pub(super) fn run_tool<T: Tool>(
    mut call: ChildCall,
    resources: &ChildResources,
) -> Result<ChildOutput, ToolError> {
    let make = CodeAddress::<fn() -> T>::parse(&call.make);
    let make = make.ok_or_else(|| ToolError::new("the address of the tool is no number"))?;
    #[expect(unsafe_code, reason = "a number becomes a function; see `code_address`")]
    // SAFETY: The parent is a process of the same executable file, and made this text for the same tool.
    let tool = unsafe { make.function() }();
    let input: T::Input = decode_input(&call.input.take()).map_err(|violation| {
        ToolError::with_kind(ErrorKind::InvalidInput, describe_violations(&tool.spec().name, &[violation]))
    })?;
    let progress = resources.progress.as_ref().map(File::try_clone).transpose()?;
    let cx = call.context(progress);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let output = runtime.block_on(tool.call(input, &cx))?.into_output()?;
    Ok(ChildOutput { blocks: output.blocks().iter().map(ResultBlock::to_json).collect() })
}

/// Writes progress to the host, one JSON object a line.
struct ProgressLines(Mutex<File>);

impl EventSink for ProgressLines {
    fn send(&self, event: Event) {
        let EventKind::Progress(progress) = event.what else { return };
        let line = serde_json::json!({"progress": progress.fraction, "message": progress.message});
        // A host that is gone needs none.
        let _ = lock(&self.0).write_all(format!("{line}\n").as_bytes());
    }
}
