//! `Bash`: a command in a shell, with what it may do enforced by whoever starts it.
//!
//! What a call touches is read from the command itself, by the same analysis that the rules use, so that both
//! say the same: `ls` runs beside `cat`, `rm` alone, and what isn't understood is unknown. One that only
//! looks runs where nothing can be written, if the host can do that; so nobody has to believe the analysis.
//!
//! Every run prints into a log that can be read while it runs. At its time limit a command goes on in the
//! background instead of dying, as a task of the session; `TaskOutput` and `TaskStop` reach it there.
//!
//! - `clean` makes text of what programs print for terminals.
//! - `log` keeps it: in memory, then in a file.
//! - `run` is one run of the shell.
//! - `said` puts into words what came of it.
//! - `again` offers to run one once more that was kept from writing.
//! - `subfolder` refuses what git would stop doing halfway.

#[cfg(feature = "files")]
mod command_backup;
pub(crate) mod command_run;
pub(crate) mod output_log;
pub(crate) mod render_result;
mod repository_subfolder;
mod retry_with_grants;
mod terminal_text;

use std::sync::Arc;
use std::time::Duration;

use haft::decision::DecisionReason;
use haft::effects::table::EffectFacts as Held;
use haft::ports::{ChildRequests, ConfinementLevel, TaskId};
use haft::tool::{CallTimeout, Interrupt, ListedClass};
use haft::view::CallStage;
use haft::{CallView, Chars, Context, Effects, ResultBlock, Tool, ToolError, ToolOutput, ToolSpec};
use haft_git::{RepositoryLevel, RepositoryUse};
use haft_shell::{CommandAnalysis, ShellAnalyzer, ShellDirectories, SubCommand, Word};
use schemars::JsonSchema;
use serde::Deserialize;

pub use output_log::{BACKGROUND_MEMORY_BYTES_MAX, MEMORY_BYTES_MAX, TAIL_BYTES_MAX};
pub use render_result::FAILURE_CHARS_MAX;

#[cfg(feature = "files")]
use crate::checkpoints::CheckpointStore;
#[cfg(feature = "files")]
use command_backup::CommandBackup;
use command_run::{CommandEnd, CommandLaunch, RunningCommand};
use render_result::RunFacts;
use retry_with_grants::{OfferAnswer, WriteOffer};

/// Characters of a result that the model sees at once.
pub const RESULT_CHARS: usize = 30_000;
/// How long a command runs in the foreground, unless the call or the host says otherwise.
pub const TIMEOUT: Duration = Duration::from_secs(120);
/// How long it may be told to run in the foreground.
pub const TIMEOUT_MAX: Duration = Duration::from_secs(600);
/// How long a command runs in the background, unless the call says otherwise.
pub const BACKGROUND_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// How long it may be told to run in the background.
pub const BACKGROUND_TIMEOUT_MAX: Duration = Duration::from_secs(2 * 60 * 60);
/// The longest command, in bytes: what the system takes as one argument.
pub const COMMAND_BYTES_MAX: usize = 128 * 1024 - 1;
/// How often the time limit is looked at while a question to the user is open.
const QUESTION_POLL: Duration = Duration::from_millis(500);
/// How many characters of a command are said where a task is listed.
const ABOUT_CHARS: usize = 200;

/// Runs a command in bash and returns what it prints, standard output and standard error in the order in
/// which they came.
///
/// Use it for builds, tests, git and other programs. Don't use it to read, search or change files where Read,
/// Grep, Glob, Edit and Write can do it. The working directory is carried from one call to the next as long
/// as it stays inside of the allowed directories; variables and functions are not. There is no terminal and
/// nothing to type: give options that keep programs from asking. Whatever the command starts and leaves
/// behind (`server &`) ends with it; for what should go on set `run_in_background`, then use TaskOutput to
/// see what it prints and TaskStop to end it. A command that takes longer than its time goes on in the
/// background.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct BashInput {
    /// The command, as one would type it: pipes, `&&`, here-documents and several lines are fine. Quote paths
    /// with blanks.
    pub command: String,
    /// How long it may take, in milliseconds: 120000 unless said, at most 600000. In the background 1800000
    /// unless said, at most 7200000; it is ended then.
    #[serde(default)]
    pub timeout: Option<u64>,
    /// What it does, in five to ten words, for the person who watches.
    #[serde(default)]
    pub description: Option<String>,
    /// Answers at once with the id of a task that goes on in the background.
    #[serde(default)]
    pub run_in_background: Option<bool>,
    /// Runs it without the sandbox. Only where the user's settings allow that, and the user is asked each
    /// time.
    #[serde(default, rename = "dangerouslyDisableSandbox")]
    pub dangerously_disable_sandbox: Option<bool>,
}

/// The tool `Bash`.
#[derive(Debug, Clone, Default)]
pub struct Bash {
    options: Arc<BashOptions>,
}

#[derive(Debug, Clone)]
struct BashOptions {
    analyzer: ShellAnalyzer,
    allow_unsandboxed: bool,
    excluded: Vec<String>,
    git_writers: Vec<String>,
    timeout: Duration,
    timeout_max: Duration,
    moves: bool,
    #[cfg(feature = "files")]
    checkpoints: Option<CheckpointStore>,
}

impl Default for BashOptions {
    fn default() -> BashOptions {
        BashOptions {
            analyzer: ShellAnalyzer::new(ShellDirectories::new("/")),
            allow_unsandboxed: false,
            excluded: Vec::new(),
            git_writers: Vec::new(),
            timeout: TIMEOUT,
            timeout_max: TIMEOUT_MAX,
            moves: true,
            #[cfg(feature = "files")]
            checkpoints: None,
        }
    }
}

/// Commands without a wildcard behind them.
fn first_words(commands: impl IntoIterator<Item = String>) -> Vec<String> {
    let plain = |command: String| command.trim_end_matches('*').trim_end_matches(':').trim().to_owned();
    commands.into_iter().map(plain).filter(|text| !text.is_empty()).collect()
}

/// Whether a command begins with these words.
fn begins_with(text: &str, words: &str) -> bool {
    text.strip_prefix(words).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}

impl Bash {
    /// The tool as it is without settings.
    pub fn new() -> Bash {
        Bash::default()
    }

    fn set(mut self, change: impl FnOnce(&mut BashOptions)) -> Bash {
        change(Arc::make_mut(&mut self.options));
        self
    }

    /// What analyses the commands, with the place where they run. A session gives the same one to its policy,
    /// so that each command is analysed once. Default: one of its own, without a home.
    #[must_use]
    pub fn analyzer(self, analyzer: ShellAnalyzer) -> Bash {
        self.set(|options| options.analyzer = analyzer)
    }

    /// Whether a call may ask to run without the sandbox; the user is asked then. Default: no.
    #[must_use]
    pub fn allow_unsandboxed(self, allow: bool) -> Bash {
        self.set(|options| options.allow_unsandboxed = allow)
    }

    /// Keeps what files were before commands that are known to change or remove them, where the other tools
    /// keep it.
    #[cfg(feature = "files")]
    #[must_use]
    pub(crate) fn checkpoints(self, seen: &crate::ReadTracker) -> Bash {
        self.set(|options| options.checkpoints = Some(seen.checkpoints().clone()))
    }

    /// Commands that run without the sandbox: a program, or its first words (`docker`, `git push`). One line
    /// of which only a part is meant runs in it. They ask unless a rule allows them. Default: none.
    #[must_use]
    pub fn excluded(self, commands: impl IntoIterator<Item = String>) -> Bash {
        self.set(|options| options.excluded.extend(first_words(commands)))
    }

    /// Commands that write a repository, beside those that are known to: a program, or its first words
    /// (`make release`). Default: none.
    #[must_use]
    pub fn git_writers(self, commands: impl IntoIterator<Item = String>) -> Bash {
        self.set(|options| options.git_writers.extend(first_words(commands)))
    }

    /// How much of which repositories a command has to write.
    pub(crate) fn repository_use(&self, analysis: &CommandAnalysis) -> RepositoryUse {
        let writers = &self.options.git_writers;
        let writes = |command: &SubCommand| {
            let layers = command.layers.iter();
            layers.into_iter().any(|layer| writers.iter().any(|writer| begins_with(&layer.text, writer)))
        };
        let found = analysis.repository_use();
        if analysis.commands.iter().any(writes) {
            found.and(RepositoryUse::new(RepositoryLevel::Data, None))
        } else {
            found
        }
    }

    /// Whether a call runs without the sandbox: it says so, or all of it is excluded.
    fn is_outside(&self, input: &BashInput, analysis: &CommandAnalysis) -> bool {
        let excluded = |text: &str| self.options.excluded.iter().any(|excluded| begins_with(text, excluded));
        let (commands, doubts) = (&analysis.commands, &analysis.doubts);
        input.dangerously_disable_sandbox == Some(true)
            || (!self.options.excluded.is_empty()
                && !commands.is_empty()
                && doubts.is_empty()
                && commands.iter().all(|command| excluded(&command.text)))
    }

    /// How long a command runs in the foreground unless the call says, and how long a call may say. Default:
    /// [`TIMEOUT`] and [`TIMEOUT_MAX`].
    #[must_use]
    pub fn timeouts(self, timeout: Duration, max: Duration) -> Bash {
        self.set(|options| (options.timeout, options.timeout_max) = (timeout.min(max), max))
    }

    /// Whether a command goes on in the background when its time is over. Default: yes; else it is ended.
    #[must_use]
    pub fn moves_at_limit(self, moves: bool) -> Bash {
        self.set(|options| options.moves = moves)
    }

    /// What a command is, as far as its text says. Paths stay relative: they are resolved where the call
    /// runs.
    pub(crate) fn analyse(&self, command: &str) -> Arc<CommandAnalysis> {
        self.options.analyzer.analyse(command)
    }

    /// What running a command touches.
    pub(crate) fn effects_of(&self, analysis: &CommandAnalysis) -> Effects {
        let effects = analysis.effects();
        // Who comes after it runs where it leaves.
        if analysis.commands.iter().any(|command| matches!(command.program(), Some("cd" | "pushd" | "popd")))
        {
            effects.exclusive()
        } else {
            effects
        }
    }

    /// How a command is to be confined, by what it is and what was granted.
    pub(crate) fn confinement(&self, analysis: &CommandAnalysis, cx: &Context) -> ConfinementLevel {
        let held = Held { reads_outside: false, overwrites: false, confined: true };
        let looks = analysis.is_read_only() && analysis.effects().judge(&held).read_only;
        if looks && cx.access().write.is_empty() {
            ConfinementLevel::ReadOnly
        } else {
            ConfinementLevel::Session
        }
    }

    /// Whether a command goes on when its time is over: not one that only waits, and not git, which would
    /// leave a repository locked that later calls need.
    fn moves(&self, analysis: &CommandAnalysis) -> bool {
        let waits = |at: usize, program: &str| program == "git" || (at == 0 && program == "sleep");
        let programs = analysis.commands.iter().enumerate();
        self.options.moves
            && analysis.doubts.is_empty()
            && !programs
                .filter_map(|(at, command)| Some((at, command.program()?)))
                .any(|(at, name)| waits(at, name))
    }

    /// How long a call runs.
    ///
    /// # Errors
    /// It wants more than it may.
    fn limit(&self, timeout: Option<u64>, background: bool) -> Result<Duration, ToolError> {
        let (usual, max) = if background {
            (BACKGROUND_TIMEOUT, BACKGROUND_TIMEOUT_MAX)
        } else {
            (self.options.timeout, self.options.timeout_max)
        };
        match timeout.map(Duration::from_millis) {
            None => Ok(usual),
            Some(timeout) if !timeout.is_zero() && timeout <= max => Ok(timeout),
            Some(timeout) => {
                let (given, max) = (timeout.as_millis(), max.as_millis());
                let more = if background { "" } else { "; for longer ones set `run_in_background`" };
                Err(ToolError::invalid_input(format!(
                    "`timeout` must be between 1 and {max} milliseconds, got {given}{more}"
                )))
            }
        }
    }

    /// Says what the sandbox would let git do only half.
    pub(crate) fn check_repository(
        &self,
        analysis: &CommandAnalysis,
        is_outside: bool,
        cx: &Context,
    ) -> Result<(), ToolError> {
        let confines = cx.ports().processes().is_some_and(|processes| processes.confines());
        if confines && !is_outside { repository_subfolder::check_subfolder(analysis, cx) } else { Ok(()) }
    }

    /// Says what can't be a command.
    pub(crate) fn check_command(command: &str) -> Result<(), ToolError> {
        let wrong = |words: String| Err(ToolError::invalid_input(words));
        if command.trim().is_empty() {
            return wrong("`command` is empty; give a command".to_owned());
        }
        if command.contains('\0') {
            return wrong(
                "`command` holds a NUL character, which no program can be given; leave it out".to_owned(),
            );
        }
        if command.len() > COMMAND_BYTES_MAX {
            let bytes = command.len();
            return wrong(format!(
                "`command` has {bytes} bytes and may have {COMMAND_BYTES_MAX}; write it to a file and run that"
            ));
        }
        Ok(())
    }
}

impl Tool for Bash {
    type Input = BashInput;
    type Output = ToolOutput;

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("Bash")
            .alias("bash")
            .group("shell")
            .feature("shell")
            .listed_class(ListedClass::Depends)
            .result_limit(Chars(RESULT_CHARS))
            // Bounded by itself, and by what it starts.
            .timeout(CallTimeout::Never)
            .interrupt(Interrupt::Cancel)
            .in_child()
            .search_hint("run a shell command program terminal build test git")
    }

    fn effects(&self, input: &BashInput) -> Effects {
        let analysis = self.analyse(&input.command);
        if self.is_outside(input, &analysis) {
            Effects::unknown().and(self.effects_of(&analysis))
        } else {
            self.effects_of(&analysis)
        }
    }

    async fn check(&self, input: &BashInput, cx: &Context) -> Result<(), ToolError> {
        Bash::check_command(&input.command)?;
        let analysis = self.analyse(&input.command);
        self.check_repository(&analysis, self.is_outside(input, &analysis), cx)?;
        if let Some(editor) = analysis.commands.iter().find_map(waits_for_keys) {
            return Err(ToolError::invalid_input(format!(
                "`{editor}` waits for keys, and there is no terminal here; use Edit, or give options that keep it from asking"
            )));
        }
        let background = input.run_in_background == Some(true);
        if background && cx.ports().tasks().is_none() {
            return Err(ToolError::invalid_input(
                "`run_in_background` is not possible here: this host has no background tasks; run it without",
            ));
        }
        self.limit(input.timeout, background).map(|_| ())
    }

    async fn permission(&self, input: &BashInput, _: &Context) -> Option<DecisionReason> {
        match (input.dangerously_disable_sandbox, self.options.allow_unsandboxed) {
            (Some(true), true) => Some(DecisionReason::ask("it wants to run without the sandbox")),
            (Some(true), false) => Some(DecisionReason::deny(
                "`dangerouslyDisableSandbox` is not allowed by the user's settings; run it without, and what it is \
                 kept from is said"
                    .to_owned(),
            )),
            _ => None,
        }
    }

    fn describe(&self, input: &BashInput) -> Option<String> {
        input.description.clone().filter(|words| !words.trim().is_empty())
    }

    async fn call(&self, input: BashInput, cx: &Context) -> Result<ToolOutput, ToolError> {
        still_there(cx).await?;
        let analysis = self.analyse(&input.command);
        let background = input.run_in_background == Some(true);
        let limit = self.limit(input.timeout, background)?;
        let moves = cx.ports().tasks().is_some() && self.moves(&analysis);
        let confinement = if self.is_outside(&input, &analysis) {
            ConfinementLevel::Outside
        } else {
            self.confinement(&analysis, cx)
        };
        let mut launch = CommandLaunch {
            command: input.command.clone(),
            confinement,
            repository: self.repository_use(&analysis),
            timeout: if moves && !background { limit + BACKGROUND_TIMEOUT } else { limit },
        };
        #[cfg(feature = "files")]
        let backup = CommandBackup::take(self.options.checkpoints.as_ref(), &analysis, cx).await;
        if background {
            #[cfg(feature = "files")]
            backup.record_start(cx);
            let running = command_run::start_command(launch, cx);
            cx.background().set_log(running.log.clone());
            return to_background(&input, running, limit, cx);
        }
        let moves_after = moves.then_some(limit);
        let ended = to_its_end(&input, launch.clone(), moves_after, cx).await;
        #[cfg(feature = "files")]
        backup.record(cx).await;
        let ended = match ended {
            Ok(ended) => ended,
            Err(answer) => return *answer,
        };
        let confined = cx.ports().processes().is_some_and(|processes| processes.confines());
        let mut facts = RunFacts {
            command: &input.command,
            analysis: &analysis,
            confinement,
            confined,
            limit,
            notes: Vec::new(),
        };
        let Some(offer) = WriteOffer::for_run(&ended, &facts) else { return finish_run(ended, facts, cx) };
        match offer.ask(&input.command, cx).await {
            None => {}
            Some(OfferAnswer::No) => {
                facts.notes.push("the user did not want it to be run again with more".to_owned());
            }
            Some(OfferAnswer::Yes) => {
                facts.notes.push(retry_with_grants::RAN_AGAIN.to_owned());
                facts.confinement = ConfinementLevel::Session;
                launch.confinement = ConfinementLevel::Session;
                cx.become_exclusive().await;
                return match to_its_end(&input, launch, moves_after, cx).await {
                    Ok(ended) => finish_run(ended, facts, cx),
                    Err(answer) => *answer,
                };
            }
        }
        finish_run(ended, facts, cx)
    }

    fn view(&self, stage: &CallStage<'_>) -> Option<CallView> {
        let view = CallView::titled(render_result::command_title(stage.text("command")?));
        Some(match stage {
            CallStage::Use { .. } => match stage.text("description") {
                Some(words) => view.summary(words),
                None => view,
            },
            CallStage::Progress { progress, .. } => CallView { summary: progress.message.clone(), ..view },
            CallStage::Error { error, .. } => {
                let last = error.message().lines().last().unwrap_or_default().to_owned();
                render_result::with_tail(view.summary(last), error.message())
            }
            CallStage::Rejected { reason, .. } => view.summary(*reason),
            CallStage::Result { output, .. } => {
                let text = output.to_text();
                render_result::with_tail(view.summary(text.lines().last().unwrap_or_default()), &text)
            }
            _ => view,
        })
    }
}

/// The editor that a command starts to be used by hand, if it does. Options may make it a program like any
/// other.
fn waits_for_keys(command: &SubCommand) -> Option<&str> {
    let editor = command.program()?;
    let bare = |word: &Word| word.literal().is_some_and(|text| !text.starts_with(['-', '+']));
    let by_hand = matches!(editor, "vi" | "vim" | "nvim" | "view" | "nano" | "pico" | "emacs");
    (by_hand && command.argv()[1..].iter().all(bare)).then_some(editor)
}

/// Hosts that a command names.
fn reached_hosts(analysis: &CommandAnalysis) -> impl Iterator<Item = String> {
    let mut effects = analysis.effects();
    let inner = std::mem::take(&mut effects.runs);
    let inner = inner.into_iter().filter_map(|command| command.effects).flat_map(|effects| effects.reaches);
    effects.reaches.into_iter().chain(inner).map(|reach| reach.host)
}

/// Says so where the working directory is gone, and goes back to one that is there.
async fn still_there(cx: &Context) -> Result<(), ToolError> {
    if cx.files().metadata(cx.cwd()).await.is_ok() {
        return Ok(());
    }
    cx.location().move_back();
    let gone = cx.cwd().display();
    Err(ToolError::new(format!(
        "the working directory `{gone}` is gone; the next command runs in the workspace again, so call it once more"
    )))
}

/// The result of a command that ended; where it left is where the next one runs.
fn finish_run(ended: CommandEnd, mut facts: RunFacts<'_>, cx: &Context) -> Result<ToolOutput, ToolError> {
    facts.notes.extend(command_run::carry_directory(cx, ended.cwd.as_deref()));
    render_result::render_result(ended, facts, cx)
}

/// Runs a command to its end in the foreground.
///
/// # Errors
/// The answer of the call, if there is one before: it was cancelled, can't be started, or goes on in the
/// background.
async fn to_its_end(
    input: &BashInput,
    launch: CommandLaunch,
    moves_after: Option<Duration>,
    cx: &Context,
) -> Result<CommandEnd, Box<Result<ToolOutput, ToolError>>> {
    let mut running = command_run::start_command(launch, cx);
    cx.background().set_log(running.log.clone());
    let late = async {
        match moves_after {
            Some(limit) => wait_out(limit, cx).await,
            None => std::future::pending().await,
        }
        // Somebody moved it already.
        if cx.background().task().is_some() {
            std::future::pending::<()>().await;
        }
    };
    let answer = tokio::select! {
        biased;
        ended = &mut running.work => return ended.map_err(|error| Box::new(Err(error))),
        // Answered at once and by ourselves: what it printed would be lost with this future.
        cause = cx.cancelled() => Err(render_result::render_cancelled(running, cause, cx)),
        () = late => move_to_background(input, running, moves_after.unwrap_or_default(), cx),
    };
    Err(Box::new(answer))
}

/// Waits until a command has run for this long, not counting questions to the user about its hosts.
async fn wait_out(limit: Duration, cx: &Context) {
    let requests = cx.ports().child_requests();
    let asked = || requests.as_ref().map_or(Duration::ZERO, ChildRequests::time_asking);
    let (started, asked_before) = (tokio::time::Instant::now(), asked());
    loop {
        let left = (limit + asked().saturating_sub(asked_before)).saturating_sub(started.elapsed());
        let is_asking = requests.as_ref().is_some_and(ChildRequests::is_asking);
        match (left.is_zero(), is_asking) {
            (true, false) => return,
            (_, true) => tokio::time::sleep(left.max(QUESTION_POLL)).await,
            (false, false) => tokio::time::sleep(left).await,
        }
    }
}

/// Answers for a command that was to run in the background from the start.
fn to_background(
    input: &BashInput,
    running: RunningCommand,
    limit: Duration,
    cx: &Context,
) -> Result<ToolOutput, ToolError> {
    running.log.to_background();
    let task = adopt_task(&input.command, running, limit, cx)
        .map_err(|(_, why)| ToolError::new(format!("it was not started: {why}")))?;
    Ok(goes_on(input, task, String::new(), format!("runs in the background as {task}"), limit))
}

/// Answers for a command whose time is over.
fn move_to_background(
    input: &BashInput,
    running: RunningCommand,
    limit: Duration,
    cx: &Context,
) -> Result<ToolOutput, ToolError> {
    let log = running.log.clone();
    log.to_background();
    let so_far = {
        let (text, open) = haft::ports::TaskLog::tail(&*log);
        text + &open
    };
    let seconds = limit.as_secs_f64();
    match adopt_task(&input.command, running, BACKGROUND_TIMEOUT, cx) {
        Ok(task) => {
            let words = format!("not finished after {seconds} s, so it goes on in the background as {task}");
            Ok(goes_on(input, task, so_far, words, BACKGROUND_TIMEOUT))
        }
        Err((work, why)) => {
            drop(work);
            let text = render_result::with_notes(&so_far, &[]);
            Err(ToolError::with_kind(
                haft::ErrorKind::TimedOut,
                format!(
                    "{text}\nended by haft: it did not finish within {seconds} s, and could not go on in the background: {why}"
                ),
            ))
        }
    }
}

type BashFuture = std::pin::Pin<Box<dyn Future<Output = Result<ToolOutput, ToolError>> + Send>>;

/// Makes a running command a task of the session.
pub(crate) fn adopt_task(
    command: &str,
    running: RunningCommand,
    limit: Duration,
    cx: &Context,
) -> Result<TaskId, (BashFuture, String)> {
    let RunningCommand { work, cancel, .. } = running;
    let (owned, inner) = (command.to_owned(), cx.clone());
    let work: BashFuture = Box::pin(async move {
        let ended = work.await?;
        let analysis = CommandAnalysis::default();
        let facts = RunFacts {
            command: &owned,
            analysis: &analysis,
            confinement: ConfinementLevel::Session,
            confined: false,
            limit,
            notes: Vec::new(),
        };
        render_result::render_result(ended, facts, &inner)
    });
    let about: String =
        command.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).take(ABOUT_CHARS).collect();
    cx.background().spawn(about, cancel, work)
}

/// The answer of a command that goes on.
fn goes_on(input: &BashInput, task: TaskId, so_far: String, words: String, limit: Duration) -> ToolOutput {
    let seconds = limit.as_secs_f64();
    let how = format!(
        "{words}; it is ended after {seconds} s\nTaskOutput {{\"task_id\": \"{task}\"}} shows what it prints, TaskStop ends it"
    );
    let text = if so_far.trim().is_empty() {
        how
    } else {
        format!("{}\n{how}", so_far.strip_suffix('\n').unwrap_or(&so_far))
    };
    let view = render_result::with_tail(
        CallView::titled(render_result::command_title(&input.command)).summary(words),
        &so_far,
    );
    let response = render_result::background_response(&so_far, &task.to_string());
    ToolOutput::from(ResultBlock::text(text)).with_view(view).with_response(response)
}
