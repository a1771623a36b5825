//! A run on a live screen: one prompt and its answer, or a conversation until the user leaves.
//!
//! The screen is `haft-terminal`'s. Here is what it can't know: where the history is kept, what the commands
//! with a slash do, which modes Shift-Tab goes through. While the screen is open everything that this program
//! says goes through it.

use std::io::{self, IsTerminal as _};
use std::sync::Arc;

use haft::env::VariableLookup;
use haft::future::BoxFuture;
use haft::ports::{Asker, PermissionMode};
use haft::{Engine, Workspace};
use haft_agent::{Conversation, RunEnd, RunHandle, RunOutcome, RunSink, TokenPrices, TokenUsage as Tokens};
use haft_session::loaded_settings::LoadedSettings;
use haft_session::run::prepared::{ModeControl, PreparedRun};
use haft_session::{
    FrontEnd, PromptKind, SessionEvent, SessionEventKind, UserAnswer, UserPrompt, ask_through,
};
use haft_terminal::{ColorMode, OutputMode, Screen, ScreenHandle, ScreenOptions, UserInput};

use super::args::RunForm;
use super::run_setup::{RunSetup, ended_by_hook, exit_status, run_runtime};
use crate::args::CommonArgs;
use crate::interrupt::{self, InterruptHandler};
use crate::{ExitStatus, UsageError, settings, tools};

/// The file of the history, in the state folder.
const HISTORY: &str = "history";
/// The modes that Shift-Tab goes through. Those that ask less than these are for who names them.
const MODES: [PermissionMode; 3] =
    [PermissionMode::Default, PermissionMode::AcceptEdits, PermissionMode::Plan];

/// How a live screen would look, if there is to be one: people at a terminal who want text.
pub(super) fn screen_colors(
    form: RunForm,
    common: &CommonArgs,
    lookup: VariableLookup<'_>,
) -> Option<ColorMode> {
    let terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    let wanted = terminal && form == RunForm::Text && !common.non_interactive;
    let variable = |name: &str| lookup(name).map(|value| value.to_string_lossy().into_owned());
    match OutputMode::for_environment(variable, wanted) {
        OutputMode::Live(look) => Some(look),
        OutputMode::Plain => None,
    }
}

/// Takes the terminal.
pub(super) fn open_screen(play: &RunSetup, look: ColorMode) -> io::Result<Screen> {
    let mut options = ScreenOptions::new(play.session.workspace.cwd()).color_mode(look).host_takes_signals();
    if play.prompt.is_some() {
        // It stands in the command line.
        options = options.hide_first_words();
    } else if let Some(state) = play.session.given.state_dir() {
        options = options.history(state.join(HISTORY));
    }
    Screen::open(options)
}

impl RunSetup {
    /// Plays on a screen, to the end of the answer or of the conversation.
    pub(super) fn on(
        self,
        mut screen: Screen,
        interrupts: &InterruptHandler,
    ) -> Result<ExitStatus, UsageError> {
        let RunSetup { session, plan, prompt, .. } = self;
        let (given, workspace, confined) =
            (session.given.clone(), session.workspace.clone(), session.confined);
        let prices = plan.options.prices;
        let runtime = run_runtime()?;
        let front_end = Arc::new(ScreenFrontEnd {
            sink: Arc::new(screen.sink()),
            asker: Arc::new(screen.asker()),
            remote: screen.remote(),
        });
        let mut run = PreparedRun::new(session, plan, Some(front_end), runtime.handle())?;
        screen.show_views_of(&run.engine);
        let desk = ScreenCommands {
            remote: screen.remote(),
            engine: run.engine.clone(),
            mode: run.mode(),
            given,
            confined,
            workspace,
            prices,
            began_in: run.mode().current(),
        };
        desk.show_mode();
        desk.remote.footer(run.model.name());
        let played = runtime.block_on(async {
            let mut conversation = run.start().await?;
            let mut talk = ScreenConversation { desk: &desk, run: &mut run, interrupts };
            let outcome = match &prompt {
                Some(prompt) => {
                    talk.run.run_journal.record_title(prompt);
                    Some(
                        talk.answer(&mut screen, &mut conversation, Some(prompt), &RunCost::default())
                            .await
                            .0,
                    )
                }
                None => {
                    talk.converse(&mut screen, conversation).await;
                    None
                }
            };
            run.end(outcome.as_ref().map_or(&RunEnd::Finished, |outcome| &outcome.ended)).await;
            Ok::<_, String>(outcome)
        });
        interrupts.tell_run(None);
        drop(desk);
        screen.close();
        // A thread that a tool keeps busy is not waited for.
        runtime.shutdown_background();
        run.report();
        Ok(match played {
            Ok(Some(outcome)) => exit_status(&outcome.ended, Ok(()), interrupts),
            Ok(None) if interrupts.any() => ExitStatus::Interrupted,
            Ok(None) => ExitStatus::Done,
            Err(reason) => ended_by_hook(&reason),
        })
    }
}

/// The screen as the front end of a run.
struct ScreenFrontEnd {
    sink: Arc<dyn RunSink>,
    asker: Arc<dyn Asker>,
    remote: ScreenHandle,
}

impl FrontEnd for ScreenFrontEnd {
    fn name(&self) -> &str {
        "screen"
    }

    fn show(&self, event: &SessionEvent) {
        match &event.kind {
            SessionEventKind::Run(event) => self.sink.send(event.clone()),
            SessionEventKind::ModeChanged(mode) => self.remote.mode(mode.to_string()),
            _ => {}
        }
    }

    fn can_ask(&self, _: PromptKind) -> bool {
        true
    }

    fn ask<'a>(&'a self, prompt: &'a UserPrompt) -> BoxFuture<'a, Option<UserAnswer>> {
        ask_through(&*self.asker, prompt)
    }
}

/// A conversation on the screen.
struct ScreenConversation<'a> {
    desk: &'a ScreenCommands,
    run: &'a mut PreparedRun,
    interrupts: &'a InterruptHandler,
}

impl ScreenConversation<'_> {
    /// Until the user leaves.
    async fn converse(&mut self, screen: &mut Screen, mut conversation: Conversation) {
        let mut spent = RunCost::default();
        if self.run.run_journal.awaits_reply() {
            let (outcome, leaves) = self.answer(screen, &mut conversation, None, &spent).await;
            spent.add(&outcome);
            if leaves {
                return;
            }
        }
        let planned = self.run.scheduled.clone();
        loop {
            let typed = tokio::select! {
                typed = screen.next() => typed,
                words = planned.next() => Some(UserInput::Words(words)),
            };
            let Some(typed) = typed else { return };
            let words = match typed {
                UserInput::Words(words) => words,
                UserInput::Leave => return,
                UserInput::Command { name, .. } if name == "clear" => {
                    conversation = Conversation::new(self.run.model.format());
                    self.run.run_journal.record_conversation(&conversation);
                    self.desk.remote.clear();
                    continue;
                }
                other => {
                    self.desk.other(other, &spent);
                    continue;
                }
            };
            if conversation.is_empty() {
                self.run.run_journal.record_title(&words);
            }
            let (outcome, leaves) = self.answer(screen, &mut conversation, Some(&words), &spent).await;
            spent.add(&outcome);
            self.desk.show_mode();
            if leaves {
                return;
            }
        }
    }

    /// One run; whether the user wants to leave after it.
    async fn answer(
        &mut self,
        screen: &mut Screen,
        conversation: &mut Conversation,
        words: Option<&str>,
        spent: &RunCost,
    ) -> (RunOutcome, bool) {
        let handle = RunHandle::new();
        self.interrupts.tell_run(Some(handle.clone()));
        let desk = self.desk;
        let mut leaves = false;
        let other = |typed: UserInput| match typed {
            UserInput::Leave => leaves = true,
            // The first asked and the second forced.
            UserInput::Interrupt(_) => interrupt::exit_now(),
            UserInput::Words(_) => {
                desk.remote.say("  too much waits already; that was not said");
            }
            UserInput::Command { name, .. } if name == "clear" => {
                desk.remote.say("  not while the model works");
            }
            UserInput::Command { name, .. } if name == "cost" => {
                desk.say("without the run that goes on:");
                desk.cost(spent);
            }
            typed => desk.other(typed, spent),
        };
        let played = self.run.play(conversation, words, &handle);
        let outcome = screen.during(&handle, played, other).await;
        self.interrupts.tell_run(None);
        (outcome, leaves)
    }
}

/// What a conversation cost so far.
#[derive(Default)]
struct RunCost {
    tokens: Tokens,
    turns: u64,
}

impl RunCost {
    fn add(&mut self, outcome: &RunOutcome) {
        self.tokens.add(&outcome.usage);
        self.turns += outcome.turns;
    }
}

/// What the user can ask for beside the model.
struct ScreenCommands {
    remote: ScreenHandle,
    engine: Engine,
    mode: ModeControl,
    given: LoadedSettings,
    confined: bool,
    workspace: Workspace,
    prices: Option<TokenPrices>,
    began_in: PermissionMode,
}

impl ScreenCommands {
    fn other(&self, typed: UserInput, spent: &RunCost) {
        match typed {
            UserInput::NextMode => self.next_mode(),
            UserInput::Command { name, rest } => match name.as_str() {
                "tools" => self.say(&tools::list_tools(&self.engine.snapshot(), self.confined)),
                "permissions" => {
                    self.say(&format!(
                        "mode       {}\n{}",
                        self.mode.current(),
                        settings::describe_permissions(&self.given)
                    ));
                }
                "mode" => self.mode(&rest),
                "cost" => self.cost(spent),
                _ => {}
            },
            _ => {}
        }
    }

    fn say(&self, words: &str) {
        let indented: String = words.lines().map(|line| format!("  {line}\n")).collect();
        self.remote.say(&indented);
    }

    fn show_mode(&self) {
        self.remote.mode(self.mode.current().to_string());
    }

    /// Goes on to the next of the usual modes, and through the one that the session began in.
    fn next_mode(&self) {
        let mut modes = MODES.to_vec();
        if !modes.contains(&self.began_in) {
            modes.push(self.began_in);
        }
        let now = self.mode.current();
        let place = modes.iter().position(|mode| *mode == now).map_or(0, |place| place + 1);
        // One that settings forbid changes nothing; the next may.
        for step in 0..modes.len() {
            let is_set = self.mode.set_mode(modes[(place + step) % modes.len()]).is_ok();
            if is_set && self.mode.current() != now {
                break;
            }
        }
        self.show_mode();
    }

    fn mode(&self, name: &str) {
        match name.parse::<PermissionMode>() {
            _ if name.is_empty() => {
                let names: Vec<&str> = PermissionMode::ALL.iter().map(|(name, _)| *name).collect();
                self.say(&format!("mode {}; there are {}", self.mode.current(), names.join(", ")));
            }
            Err(error) => self.say(&error.to_string()),
            Ok(mode) => {
                if let Err(forbidden) = self.mode.set_mode(mode) {
                    self.say(&forbidden.to_string());
                }
                self.show_mode();
            }
        }
    }

    fn cost(&self, spent: &RunCost) {
        let Tokens { input_tokens, output_tokens, cache_read_tokens, .. } = spent.tokens;
        let cost = self.prices.map(|prices| format!(" · cost {:.4}", prices.cost_of(&spent.tokens)));
        self.say(&format!(
            "{} turns · {input_tokens} tokens in ({cache_read_tokens} from the cache), {output_tokens} out{} · {}",
            spent.turns,
            cost.unwrap_or_default(),
            self.workspace.cwd().display(),
        ));
    }
}
