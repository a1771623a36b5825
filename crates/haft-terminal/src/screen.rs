//! The screen as its host holds it: opened once, told what happens, asked for what the user types, closed.
//!
//! A thread of its own draws and reads keys, so that neither waits for a run nor a run for them. Everything else here are
//! ways to send it something, cheap to clone and good on any thread.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once, Weak};
use std::thread::JoinHandle;

use haft::Engine;
use haft::future::BoxFuture;
use haft::ports::{Answer, Approval, Asker, UserQuestion};
use haft::sync::lock;
use haft::text::truncate_chars;
use haft::view::{Stage, View};
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

/// Edits a text in the user's own editor, while the screen is away.
pub type OutsideEditor = Arc<dyn Fn(&str) -> io::Result<String> + Send + Sync>;

/// How a screen is opened.
#[derive(Clone)]
pub struct ScreenOptions {
    pub(crate) cwd: PathBuf,
    pub(crate) look: ColorMode,
    pub(crate) history: Option<PathBuf>,
    pub(crate) commands: Vec<SlashCommand>,
    pub(crate) editor: Option<OutsideEditor>,
    pub(crate) host_takes_signals: bool,
    pub(crate) hide_first_words: bool,
}

impl ScreenOptions {
    /// For a working directory: paths inside of it are shown from there.
    pub fn new(cwd: impl Into<PathBuf>) -> ScreenOptions {
        ScreenOptions {
            cwd: cwd.into(),
            look: ColorMode::Styled,
            history: None,
            commands: SlashCommand::usual(),
            editor: None,
            host_takes_signals: false,
            hide_first_words: false,
        }
    }

    /// With styles or without.
    #[must_use]
    pub fn look(mut self, look: ColorMode) -> ScreenOptions {
        self.look = look;
        self
    }

    /// Keeps what is typed in this file.
    #[must_use]
    pub fn history(mut self, file: impl Into<PathBuf>) -> ScreenOptions {
        self.history = Some(file.into());
        self
    }

    /// The commands that begin with a slash, in place of the usual ones.
    #[must_use]
    pub fn commands(mut self, commands: Vec<SlashCommand>) -> ScreenOptions {
        self.commands = commands;
        self
    }

    /// Lets the user edit inputs and prompts in an editor of their own. The host starts it: this crate starts nothing.
    #[must_use]
    pub fn editor(
        mut self,
        editor: impl Fn(&str) -> io::Result<String> + Send + Sync + 'static,
    ) -> ScreenOptions {
        self.editor = Some(Arc::new(editor));
        self
    }

    /// The host takes SIGINT, SIGTERM, SIGHUP and SIGQUIT itself, and calls [`restore`](crate::restore) before it exits. Otherwise the
    /// screen takes the first for Ctrl-C, and at the others gives the terminal back and lets the process end.
    #[must_use]
    pub fn host_takes_signals(mut self) -> ScreenOptions {
        self.host_takes_signals = true;
        self
    }

    /// The first words of the user are not shown: they stand in the command line already.
    #[must_use]
    pub fn hide_first_words(mut self) -> ScreenOptions {
        self.hide_first_words = true;
        self
    }
}

/// What a host changes.
pub(crate) enum ScreenChange {
    Print(Vec<Line>),
    MarkdownWriter(String),
    Mode(String),
    Footer(String),
    ToolViews(ToolViews),
    Clear,
    Close,
}

/// A live screen on the terminal. Closed when it is dropped.
///
/// ```no_run
/// # async fn f(engine: haft::EngineBuilder, model: impl haft_agent::Model, mut conversation: haft_agent::Conversation)
/// # -> std::io::Result<()> {
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
    remote: Remote,
    typed: mpsc::Receiver<UserInput>,
    thread: Option<JoinHandle<()>>,
}

/// Reaches a screen from elsewhere. Clones reach the same one; once it is closed they do nothing.
#[derive(Clone)]
pub struct Remote {
    inbox: Arc<ScreenInbox>,
    ids: Arc<AtomicU64>,
}

/// Takes the events of a run for a screen. Never blocks; what is too much is left out and said.
#[derive(Clone)]
pub struct ScreenSink(Arc<ScreenInbox>);

/// Asks the user on a screen.
#[derive(Clone)]
pub struct ScreenAsker(Remote);

impl Screen {
    /// Takes the terminal: standard input for keys, standard output (or else standard error) to draw on.
    ///
    /// # Errors
    /// There is no terminal, or it can't be used.
    pub fn open(options: ScreenOptions) -> io::Result<Screen> {
        let tty = RawTerminal::open()?;
        Screen::on(tty, options).inspect_err(|_| raw_terminal::restore())
    }

    fn on(tty: RawTerminal, options: ScreenOptions) -> io::Result<Screen> {
        let signals = SignalFlags::take(options.host_takes_signals)?;
        let (wake, waker) = io::pipe()?;
        let inbox = Arc::new(ScreenInbox::new(waker));
        let (send, typed) = mpsc::channel(TYPED_MAX);
        let ui = ScreenThread::new(tty, signals, wake, inbox.clone(), send, options);
        let remote = Remote { inbox, ids: Arc::default() };
        remote.become_current();
        let thread = std::thread::Builder::new().name(THREAD.into()).spawn(move || ui.run())?;
        Ok(Screen { remote, typed, thread: Some(thread) })
    }

    /// Reaches the screen from elsewhere.
    pub fn remote(&self) -> Remote {
        self.remote.clone()
    }

    /// For [`AgentLoop::events`](haft_agent::AgentLoop::events), and for the engine in
    /// [`ToolEventSink`](haft_agent::ToolEventSink).
    pub fn sink(&self) -> ScreenSink {
        self.remote.sink()
    }

    /// For [`EngineBuilder::asker`](haft::EngineBuilder::asker).
    pub fn asker(&self) -> ScreenAsker {
        self.remote.asker()
    }

    /// Shows calls by the views of this engine's tools while the model is still writing them.
    pub fn show_views_of(&self, engine: &Engine) {
        self.remote.show_views_of(engine);
    }

    /// What the user types next; nothing once the terminal is gone.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<UserInput> {
        self.typed.recv().await
    }

    pub(crate) fn typed(&mut self) -> &mut mpsc::Receiver<UserInput> {
        &mut self.typed
    }

    /// Shows what is left and gives the terminal back.
    pub fn close(self) {
        drop(self);
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.remote.change(ScreenChange::Close);
        if let Some(thread) = self.thread.take() {
            // A panic there was told there.
            let _ = thread.join();
        }
        raw_terminal::restore();
    }
}

impl Remote {
    /// Takes the events of a run.
    pub fn sink(&self) -> ScreenSink {
        ScreenSink(self.inbox.clone())
    }

    /// Asks the user.
    pub fn asker(&self) -> ScreenAsker {
        ScreenAsker(self.clone())
    }

    /// Shows calls by the views of this engine's tools while the model is still writing them.
    pub fn show_views_of(&self, engine: &Engine) {
        let engine = engine.clone();
        self.show_views(move |tool, stage| {
            let snapshot = engine.snapshot();
            snapshot.find(tool).ok().map(|offer| offer.tool().view(stage))
        });
    }

    /// Shows calls that the model is still writing by these views; nothing where there is no such tool.
    pub fn show_views(&self, views: impl Fn(&str, &Stage<'_>) -> Option<View> + Send + Sync + 'static) {
        self.change(ScreenChange::ToolViews(Arc::new(views)));
    }

    /// Prints words above the live part. False once the screen is closed.
    pub fn say(&self, words: &str) -> bool {
        self.print(text::lines(words).map(Line::plain).collect())
    }

    /// Prints lines above the live part. False once the screen is closed.
    pub fn print(&self, lines: Vec<Line>) -> bool {
        self.change(ScreenChange::Print(lines))
    }

    /// Prints Markdown above the live part.
    pub fn markdown(&self, text: impl Into<String>) {
        self.change(ScreenChange::MarkdownWriter(text.into()));
    }

    /// Names the permission mode that is shown below the input.
    pub fn mode(&self, name: impl Into<String>) {
        self.change(ScreenChange::Mode(name.into()));
    }

    /// Words that are shown beside the mode: the model, what it cost.
    pub fn footer(&self, words: impl Into<String>) {
        self.change(ScreenChange::Footer(words.into()));
    }

    /// Clears the screen; what scrolled away stays there.
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
                // A tool's panic is one failed result: it is told above the live part. The screen's own ends it.
                let own = std::thread::current().name() == Some(THREAD);
                if own {
                    raw_terminal::restore();
                }
                let place = panic.location().map(|place| format!(" ({}:{})", place.file(), place.line()));
                let payload = panic.payload();
                let text = payload.downcast_ref::<&str>().copied();
                let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
                let message = text.unwrap_or("no message");
                let words = format!("panicked: {message}{}", place.unwrap_or_default());
                if own || !show(truncate_chars(&words, 400)) {
                    before(panic);
                }
            }));
        });
    }
}

const THREAD: &str = "haft-screen";
static CURRENT: Mutex<Weak<ScreenInbox>> = Mutex::new(Weak::new());
static HOOK: Once = Once::new();

/// Prints words above the live part of the screen that is open in this process, for code that doesn't know of it. False
/// if there is none: then they can be written as they always are.
pub fn show(words: &str) -> bool {
    let inbox = lock(&CURRENT).upgrade();
    let lines = text::lines(words).map(Line::plain).collect();
    inbox.is_some_and(|inbox| inbox.note(ScreenNote::ScreenChange(ScreenChange::Print(lines))))
}

impl RunSink for ScreenSink {
    fn send(&self, event: RunEvent) {
        self.0.event(event);
    }
}

impl ScreenAsker {
    async fn ask<T>(&self, what: impl FnOnce(oneshot::Sender<T>) -> PromptRequest) -> Option<T> {
        let Remote { inbox, ids } = &self.0;
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

/// Takes a question back whose asker no longer waits.
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
    fn approve<'a>(&'a self, approval: &'a Approval) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let answer = self.ask(|send| PromptRequest::Approval(Box::new(approval.clone()), send)).await;
            // Nobody is there any more.
            answer.unwrap_or(Answer::No)
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
