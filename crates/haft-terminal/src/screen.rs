//! The screen as its host uses it: opened once, fed with events, asked for input, closed.
//!
//! A thread of its own draws and reads keys, so neither waits for a run nor a run for them. The
//! other types here are cheap to clone, work on any thread, and send something to that thread.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once, Weak};
use std::thread::JoinHandle;

use haft::Engine;
use haft::future::BoxFuture;
use haft::ports::{ApprovalAnswer, ApprovalRequest, Asker, UserQuestion};
use haft::sync::lock;
use haft::text::truncate_chars;
use haft::view::{CallStage, CallView};
use haft_agent::{RunEvent, RunSink};
use tokio::sync::{mpsc, oneshot};

use crate::inbox::{OpenPrompt, PromptRequest, ScreenInbox, ScreenNote};
use crate::limits::TYPED_MAX;
use crate::raw_terminal::{self, RawTerminal, SignalFlags};
use crate::screen_thread::ScreenThread;
use crate::style::{ColorMode, Line};
use crate::text;
use crate::transcript::ToolViews;
use crate::user_input::{SlashCommand, UserInput};

/// Edits a text in the user's editor while the screen is suspended.
pub type ExternalEditor = Arc<dyn Fn(&str) -> io::Result<String> + Send + Sync>;

/// Options for a screen.
#[derive(Clone)]
pub struct ScreenOptions {
    pub(crate) cwd: PathBuf,
    pub(crate) color_mode: ColorMode,
    pub(crate) history: Option<PathBuf>,
    pub(crate) commands: Vec<SlashCommand>,
    pub(crate) editor: Option<ExternalEditor>,
    pub(crate) host_takes_signals: bool,
    pub(crate) hide_first_words: bool,
}

impl ScreenOptions {
    /// Creates options for a working directory: paths inside it are shown relative to it.
    pub fn new(cwd: impl Into<PathBuf>) -> ScreenOptions {
        ScreenOptions {
            cwd: cwd.into(),
            color_mode: ColorMode::Styled,
            history: None,
            commands: SlashCommand::defaults(),
            editor: None,
            host_takes_signals: false,
            hide_first_words: false,
        }
    }

    /// Enables or disables styles.
    #[must_use]
    pub fn color_mode(mut self, color_mode: ColorMode) -> ScreenOptions {
        self.color_mode = color_mode;
        self
    }

    /// Stores the input history in this file.
    #[must_use]
    pub fn history(mut self, file: impl Into<PathBuf>) -> ScreenOptions {
        self.history = Some(file.into());
        self
    }

    /// Replaces the slash commands.
    #[must_use]
    pub fn commands(mut self, commands: Vec<SlashCommand>) -> ScreenOptions {
        self.commands = commands;
        self
    }

    /// Lets the user edit inputs and prompts in an external editor. The host starts it; this crate
    /// starts no processes.
    #[must_use]
    pub fn editor(
        mut self,
        editor: impl Fn(&str) -> io::Result<String> + Send + Sync + 'static,
    ) -> ScreenOptions {
        self.editor = Some(Arc::new(editor));
        self
    }

    /// Leaves SIGINT, SIGTERM, SIGHUP and SIGQUIT to the host, which calls
    /// [`restore`](crate::restore) before it exits. By default, the screen treats SIGINT as Ctrl-C;
    /// for the others it restores the terminal and lets the process end.
    #[must_use]
    pub fn host_takes_signals(mut self) -> ScreenOptions {
        self.host_takes_signals = true;
        self
    }

    /// Hides the user's first message, which is already visible in the command line.
    #[must_use]
    pub fn hide_first_words(mut self) -> ScreenOptions {
        self.hide_first_words = true;
        self
    }
}

/// A change by the host.
pub(crate) enum ScreenChange {
    Print(Vec<Line>),
    Markdown(String),
    Mode(String),
    Footer(String),
    ToolViews(ToolViews),
    Clear,
    Close,
}

/// A live screen on the terminal. Dropping it closes it.
///
/// ```no_run
/// # async fn f(
/// #     engine: haft::EngineBuilder,
/// #     model: impl haft_agent::Model,
/// #     mut conversation: haft_agent::Conversation,
/// # ) -> std::io::Result<()> {
/// use haft_agent::{RunHandle, AgentLoop, ToolEventSink};
/// use haft_terminal::{ScreenOptions, Screen};
///
/// let mut screen = Screen::open(ScreenOptions::new("."))?;
/// let sink = std::sync::Arc::new(screen.sink());
/// let engine = engine.asker(screen.asker()).events(ToolEventSink::new(sink.clone())).build();
/// screen.show_views_of(&engine);
///
/// let handle = RunHandle::new();
/// let agent = AgentLoop::new(engine, model).events(sink).handle(handle.clone());
/// let run = agent.run(&mut conversation, "What is in this folder?");
/// let outcome = screen.during(&handle, run, |_typed| {}).await;
/// screen.close();
/// # Ok(()) }
/// ```
pub struct Screen {
    remote: ScreenHandle,
    typed: mpsc::Receiver<UserInput>,
    thread: Option<JoinHandle<()>>,
}

/// A handle for a screen. Clones refer to the same screen; after it is closed, they do nothing.
#[derive(Clone)]
pub struct ScreenHandle {
    inbox: Arc<ScreenInbox>,
    ids: Arc<AtomicU64>,
}

/// Sends the events of a run to a screen. Never blocks; excess events are dropped and counted.
#[derive(Clone)]
pub struct ScreenSink(Arc<ScreenInbox>);

/// Asks the user on a screen.
#[derive(Clone)]
pub struct ScreenAsker(ScreenHandle);

impl Screen {
    /// Opens the terminal: standard input for keys, standard output (or else standard error) for
    /// drawing.
    ///
    /// # Errors
    /// There is no terminal, or it can't be used.
    pub fn open(options: ScreenOptions) -> io::Result<Screen> {
        let tty = RawTerminal::open()?;
        Screen::with_terminal(tty, options).inspect_err(|_| raw_terminal::restore())
    }

    fn with_terminal(tty: RawTerminal, options: ScreenOptions) -> io::Result<Screen> {
        let signals = SignalFlags::take(options.host_takes_signals)?;
        let (wake, waker) = io::pipe()?;
        let inbox = Arc::new(ScreenInbox::new(waker));
        let (send, typed) = mpsc::channel(TYPED_MAX);
        let ui = ScreenThread::new(tty, signals, wake, inbox.clone(), send, options);
        let remote = ScreenHandle { inbox, ids: Arc::default() };
        remote.become_current();
        let thread = std::thread::Builder::new().name(THREAD.into()).spawn(move || ui.run())?;
        Ok(Screen { remote, typed, thread: Some(thread) })
    }

    /// Returns a handle for the screen.
    pub fn remote(&self) -> ScreenHandle {
        self.remote.clone()
    }

    /// Returns a sink for [`AgentLoop::events`](haft_agent::AgentLoop::events), and for the engine
    /// in [`ToolEventSink`](haft_agent::ToolEventSink).
    pub fn sink(&self) -> ScreenSink {
        self.remote.sink()
    }

    /// Returns an asker for [`EngineBuilder::asker`](haft::EngineBuilder::asker).
    pub fn asker(&self) -> ScreenAsker {
        self.remote.asker()
    }

    /// Renders calls with the views of this engine's tools while the model writes them.
    pub fn show_views_of(&self, engine: &Engine) {
        self.remote.show_views_of(engine);
    }

    /// Waits for the next input; returns `None` when the terminal is gone.
    ///
    /// # Cancel safety
    /// Dropping the future loses no input.
    pub async fn next(&mut self) -> Option<UserInput> {
        self.typed.recv().await
    }

    pub(crate) fn input_receiver(&mut self) -> &mut mpsc::Receiver<UserInput> {
        &mut self.typed
    }

    /// Draws the remaining output and restores the terminal.
    pub fn close(self) {
        drop(self);
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.remote.change(ScreenChange::Close);
        if let Some(thread) = self.thread.take() {
            // The panic hook has reported a panic.
            let _ = thread.join();
        }
        raw_terminal::restore();
    }
}

impl ScreenHandle {
    /// Returns a sink for the events of a run.
    pub fn sink(&self) -> ScreenSink {
        ScreenSink(self.inbox.clone())
    }

    /// Returns an asker.
    pub fn asker(&self) -> ScreenAsker {
        ScreenAsker(self.clone())
    }

    /// Renders calls with the views of this engine's tools while the model writes them.
    pub fn show_views_of(&self, engine: &Engine) {
        let engine = engine.clone();
        self.show_views(move |tool, stage| {
            let snapshot = engine.snapshot();
            snapshot.find(tool).ok().map(|offer| offer.tool().view(stage))
        });
    }

    /// Renders calls with these views while the model writes them; `None` means that the tool is
    /// unknown.
    pub fn show_views(
        &self,
        views: impl Fn(&str, &CallStage<'_>) -> Option<CallView> + Send + Sync + 'static,
    ) {
        self.change(ScreenChange::ToolViews(Arc::new(views)));
    }

    /// Prints text above the live region. Returns `false` if the screen is closed.
    pub fn say(&self, message: &str) -> bool {
        self.print(text::lines(message).map(Line::plain).collect())
    }

    /// Prints lines above the live region. Returns `false` if the screen is closed.
    pub fn print(&self, lines: Vec<Line>) -> bool {
        self.change(ScreenChange::Print(lines))
    }

    /// Prints Markdown above the live region.
    pub fn markdown(&self, text: impl Into<String>) {
        self.change(ScreenChange::Markdown(text.into()));
    }

    /// Sets the permission mode that is shown below the input.
    pub fn mode(&self, name: impl Into<String>) {
        self.change(ScreenChange::Mode(name.into()));
    }

    /// Sets the text beside the mode: the model, the cost.
    pub fn footer(&self, message: impl Into<String>) {
        self.change(ScreenChange::Footer(message.into()));
    }

    /// Clears the screen; the scrollback stays.
    pub fn clear(&self) {
        self.change(ScreenChange::Clear);
    }

    fn change(&self, change: ScreenChange) -> bool {
        self.inbox.note(ScreenNote::ScreenChange(change))
    }

    fn become_current(&self) {
        *lock(&CURRENT) = Arc::downgrade(&self.inbox);
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                // A tool's panic is one failed result and is printed above the live region. A panic
                // of the screen's thread ends the screen.
                let own = std::thread::current().name() == Some(THREAD);
                if own {
                    raw_terminal::restore();
                }
                let place = panic.location().map(|place| format!(" ({}:{})", place.file(), place.line()));
                let payload = panic.payload();
                let text = payload.downcast_ref::<&str>().copied();
                let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
                let message = text.unwrap_or("no message");
                let message = format!("panicked: {message}{}", place.unwrap_or_default());
                if own || !show(truncate_chars(&message, 400)) {
                    before(panic);
                }
            }));
        });
    }
}

const THREAD: &str = "haft-screen";
static CURRENT: Mutex<Weak<ScreenInbox>> = Mutex::new(Weak::new());
static HOOK: Once = Once::new();

/// Prints text above the live region of this process's screen, for code that has no handle. Returns
/// `false` if there is no screen; the caller then prints as usual.
pub fn show(message: &str) -> bool {
    let inbox = lock(&CURRENT).upgrade();
    let lines = text::lines(message).map(Line::plain).collect();
    inbox.is_some_and(|inbox| inbox.note(ScreenNote::ScreenChange(ScreenChange::Print(lines))))
}

impl RunSink for ScreenSink {
    fn send(&self, event: RunEvent) {
        self.0.event(event);
    }
}

impl ScreenAsker {
    async fn ask<T>(&self, what: impl FnOnce(oneshot::Sender<T>) -> PromptRequest) -> Option<T> {
        let ScreenHandle { inbox, ids } = &self.0;
        let id = ids.fetch_add(1, Ordering::Relaxed);
        let (send, answer) = oneshot::channel();
        if !inbox.note(ScreenNote::OpenPrompt(OpenPrompt { id, what: what(send) })) {
            return None;
        }
        let withdraw = PromptWithdrawal { inbox, id };
        let answer = answer.await.ok();
        std::mem::forget(withdraw);
        answer
    }
}

/// Withdraws a question when its asker no longer waits.
struct PromptWithdrawal<'a> {
    inbox: &'a ScreenInbox,
    id: u64,
}

impl Drop for PromptWithdrawal<'_> {
    fn drop(&mut self) {
        self.inbox.note(ScreenNote::Withdrawn(self.id));
    }
}

impl Asker for ScreenAsker {
    fn approve<'a>(&'a self, approval: &'a ApprovalRequest) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async move {
            let answer = self.ask(|send| PromptRequest::Approval(Box::new(approval.clone()), send)).await;
            // The screen is closed.
            answer.unwrap_or(ApprovalAnswer::No)
        })
    }

    fn question<'a>(&'a self, question: &'a UserQuestion) -> BoxFuture<'a, Option<Vec<String>>> {
        Box::pin(
            async move { self.ask(|send| PromptRequest::Question(question.clone(), send)).await.flatten() },
        )
    }
}

impl ScreenOptions {
    pub(crate) fn cwd(&self) -> &Path {
        &self.cwd
    }
}
