//! The agent loop: asks the model, runs its calls while they stream in, returns the results, until the model
//! stops.
//!
//! Calls go to the engine the moment they are whole. Those that change nothing run while the model still
//! writes; the rest wait for the valid end of its message. Whatever happens (an interrupt, a lost connection,
//! a limit) what is left is a conversation that the provider takes again: every call in it has exactly one
//! result.
//!
//! The loop knows no provider, no screen, no settings. It asks a [`Model`], runs an [`Engine`], tells a
//! [`RunSink`], and lets a [`LoopHooks`] step in. Any number of loops may run in one process.

mod context_window;
mod deferred_names;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use haft::dispatch::TurnHandle;
use haft::registry::Snapshot;
use haft::{Cause, Engine, ErrorKind, ToolCall, ToolResult};
use tokio::time::{Instant, sleep_until};

use self::context_window::EventReporting;
use crate::conversation::Conversation;
use crate::conversation_recorder::{ConversationRecorder, InterruptedTurn};
use crate::limits::{BROKEN_MAX, CONTINUES_MAX, CUT_CALLS_MAX, OVERTIME_SECONDS_MAX, PAUSES_MAX};
use crate::message_format::{CallAnswers, UnreadableMessage};
use crate::model::{Model, ModelRequest};
use crate::reply::{FailureKind, ModelReply, StopReason, TokenUsage};
use crate::reply_delta::ReplyDelta;
use crate::run_event::{RunEvent, RunSink};
use crate::run_handle::{Either, RunHandle, either};
use crate::run_options::{LoopHooks, NoHooks, RunOptions};
use crate::run_outcome::{RunEnd, RunLimit, RunOutcome};
use crate::tool_definitions::{ToolDeferral, ToolDefiner, ToolDefinitions};
use crate::usage_meter::{UsageMeter, UsageTotal};

/// The loop of an agent: an engine and a model, put together.
pub struct AgentLoop {
    engine: Engine,
    model: Arc<dyn Model>,
    definer: Box<dyn ToolDefiner>,
    options: RunOptions,
    events: Option<Arc<dyn RunSink>>,
    hooks: Arc<dyn LoopHooks>,
    recorder: Option<Arc<dyn ConversationRecorder>>,
    handle: RunHandle,
    usage_meter: Option<UsageMeter>,
}

impl AgentLoop {
    /// Creates a loop without limits and without listeners.
    pub fn new(engine: Engine, model: impl Model) -> AgentLoop {
        let definer = model.format().tool_definer();
        AgentLoop {
            engine,
            model: Arc::new(model),
            definer,
            options: RunOptions::default(),
            events: None,
            hooks: Arc::new(NoHooks),
            recorder: None,
            handle: RunHandle::new(),
            usage_meter: None,
        }
    }

    /// Sets its limits and system prompt.
    #[must_use]
    pub fn options(mut self, options: RunOptions) -> AgentLoop {
        self.options = options;
        self
    }

    /// Replaces what defines tools, where the default of the model's format is not wanted.
    #[must_use]
    pub fn tool_definer(mut self, definer: impl ToolDefiner) -> AgentLoop {
        self.definer = Box::new(definer);
        self
    }

    /// Sets who receives the events of the run.
    #[must_use]
    pub fn events(mut self, sink: Arc<dyn RunSink>) -> AgentLoop {
        self.events = Some(sink);
        self
    }

    /// Sets the host's hooks.
    #[must_use]
    pub fn hooks(mut self, hooks: Arc<dyn LoopHooks>) -> AgentLoop {
        self.hooks = hooks;
        self
    }

    /// Sets who records the conversation.
    #[must_use]
    pub fn recorder(mut self, recorder: Arc<dyn ConversationRecorder>) -> AgentLoop {
        self.recorder = Some(recorder);
        self
    }

    /// Sets the handle that interrupts it. A handle is good for one run; give another for the next.
    #[must_use]
    pub fn handle(mut self, handle: RunHandle) -> AgentLoop {
        self.handle = handle;
        self
    }

    /// Sets the meter that counts its usage, with that of the runs that work for it. Limits on tokens and
    /// money apply to the total of the root meter. A meter is good for one run; without one a run counts for
    /// itself.
    #[must_use]
    pub fn usage_meter(mut self, meter: UsageMeter) -> AgentLoop {
        self.usage_meter = Some(meter);
        self
    }

    /// Says something to the model and runs until it has an answer, or something ends it before.
    ///
    /// # Panics
    /// The conversation has another format than the model.
    ///
    /// # Cancel safety
    /// Dropping the future cancels what runs and leaves the conversation as it was after the last whole turn,
    /// with results for all calls in it.
    pub async fn run(&self, conversation: &mut Conversation, prompt: &str) -> RunOutcome {
        let mut run = self.begin(conversation);
        run.put_posted();
        let ended = match run.say(prompt).await {
            Some(ended) => ended,
            None => run.go().await,
        };
        run.end(ended)
    }

    /// Runs on without a word of the user: a conversation whose last results wait for the model.
    pub async fn resume(&self, conversation: &mut Conversation) -> RunOutcome {
        let mut run = self.begin(conversation);
        run.put_posted();
        let ended = run.go().await;
        run.end(ended)
    }

    /// Goes on with a message whose calls were not all answered: those without a result are run, then the
    /// model is asked. What was [posted](RunHandle::post) before goes in with the results, and is kept with
    /// them: whoever is told of what an earlier process left half done is told whatever happens next.
    ///
    /// # Errors
    /// The items are no message of this format; nothing was changed.
    pub async fn resume_interrupted(
        &self,
        conversation: &mut Conversation,
        cut_off: InterruptedTurn,
    ) -> Result<RunOutcome, UnreadableMessage> {
        let mut run = self.begin(conversation);
        let ended = match run.resume_interrupted(cut_off).await? {
            Some(ended) => ended,
            None => run.go().await,
        };
        Ok(run.end(ended))
    }

    fn begin<'a>(&'a self, conversation: &'a mut Conversation) -> ActiveRun<'a> {
        assert_eq!(conversation.format(), self.model.format(), "a conversation belongs to one format");
        // What an earlier session found stays found, whoever is asked now.
        let found: Vec<String> = conversation.loaded_tools().into_iter().collect();
        if !found.is_empty() {
            self.engine.load(&found);
        }
        ActiveRun {
            with: self,
            conversation,
            text: String::new(),
            turns: 0,
            usage_meter: self.usage_meter.clone().unwrap_or_default(),
            last: TokenUsage::default(),
            last_items: 0,
            calls: Vec::new(),
            words: Vec::new(),
            deadline: self.options.max_time.map(|time| Instant::now() + time),
            pauses: 0,
            cut_calls: 0,
            broken: 0,
            continues: 0,
            full: 0,
            fresh: 0,
            names: None,
            refused: false,
        }
    }

    fn tell(&self, event: impl FnOnce() -> RunEvent) {
        if let Some(events) = &self.events {
            events.send(event());
        }
    }
}

/// One run.
struct ActiveRun<'a> {
    with: &'a AgentLoop,
    conversation: &'a mut Conversation,
    text: String,
    turns: u64,
    usage_meter: UsageMeter,
    /// What the last message cost, and how many items the conversation had with it: about how full the window
    /// is.
    last: TokenUsage,
    last_items: usize,
    calls: Vec<(ToolCall, ToolResult)>,
    /// What the user said since the model spoke last.
    words: Vec<String>,
    deadline: Option<Instant>,
    pauses: u32,
    cut_calls: u32,
    broken: u32,
    continues: u32,
    /// How often in a row the provider said that the window is full.
    full: u32,
    /// How many results the last turn had.
    fresh: usize,
    /// The message to the model about tools that it has to search for.
    names: Option<Arc<str>>,
    /// The provider doesn't know of deferred tools.
    refused: bool,
}

/// Ids that tell the calls of a message apart: some providers give none, and some models give one twice.
/// Answers are paired by place, so nobody else sees them; a journal tells its calls apart by them.
#[derive(Default)]
struct UniqueCallIds(HashSet<Arc<str>>);

impl UniqueCallIds {
    fn assign(&mut self, mut call: ToolCall) -> ToolCall {
        let place = self.0.len();
        if call.id.is_empty() || self.0.contains(&call.id) {
            call.id = format!("{}#{place}", call.id).into();
        }
        self.0.insert(call.id.clone());
        call
    }
}

/// Why the model is no longer listened to.
#[derive(Clone, Copy, PartialEq)]
enum RunInterruption {
    Interrupt,
    Time,
}

impl RunInterruption {
    /// What it is to the calls that it ends.
    fn cause(self) -> Cause {
        match self {
            RunInterruption::Interrupt => Cause::User,
            RunInterruption::Time => Cause::Shutdown,
        }
    }
}

impl From<RunInterruption> for RunEnd {
    fn from(halt: RunInterruption) -> RunEnd {
        match halt {
            RunInterruption::Interrupt => RunEnd::Interrupted,
            RunInterruption::Time => RunEnd::Limit(RunLimit::Time),
        }
    }
}

impl ActiveRun<'_> {
    /// Waits for the host, unless the run is stopped: no host can hold it.
    async fn host<T>(&self, answer: impl Future<Output = T>) -> Result<T, RunInterruption> {
        match either(answer, self.halted()).await {
            Either::First(answer) => Ok(answer),
            Either::Second(halt) => Err(halt),
        }
    }

    /// Lets words of the user in, if the host does.
    async fn say(&mut self, text: &str) -> Option<RunEnd> {
        let verdict = match self.host(self.with.hooks.before_message(text)).await {
            Ok(verdict) => verdict,
            Err(halt) => return Some(halt.into()),
        };
        if let Some(reason) = verdict.blocked {
            return Some(RunEnd::Blocked(reason));
        }
        self.put(text);
        if let Some(context) = verdict.context {
            self.put(&context);
        }
        self.with.tell(|| RunEvent::Said(text.to_owned()));
        None
    }

    /// Counts what a message cost.
    fn spend(&self, usage: &TokenUsage) {
        self.usage_meter.add(usage, self.with.options.prices.map(|prices| prices.cost_of(usage)));
    }

    /// Puts words into the conversation; should it be summarised before the model has read them, they stay.
    fn put(&mut self, words: &str) {
        let before = self.conversation.items().len();
        self.conversation.say(words);
        // Words may go into the message that is last.
        let grew = self.conversation.items().len() > before;
        self.keep_from(if grew { before } else { before.saturating_sub(1) });
        self.words.push(words.to_owned());
    }

    /// Puts in what others than the user said.
    fn put_posted(&mut self) {
        for text in self.with.handle.take_posted() {
            self.put(&text);
            self.with.tell(|| RunEvent::Said(text));
        }
    }

    /// Tells the keeper what the conversation has from here on.
    fn keep_from(&self, from: usize) {
        if let Some(recorder) = &self.with.recorder {
            recorder.record_items(from, &self.conversation.items()[from..]);
        }
    }

    /// Answers a message that an earlier process left: what is known is taken, the rest is run.
    async fn resume_interrupted(
        &mut self,
        cut_off: InterruptedTurn,
    ) -> Result<Option<RunEnd>, UnreadableMessage> {
        let with = self.with;
        let format = self.conversation.format();
        let requested = format.requested_calls(&cut_off.items)?;
        with.engine.refresh();
        let mut turn = with.engine.turn();
        let tools = self.define_tools(turn.snapshot(), with.model.deferral());
        let mut reply =
            ModelReply::empty(format, StopReason::Calls).with_items(cut_off.items).with_requested(requested);
        let mut distinct = UniqueCallIds::default();
        let calls: Vec<ToolCall> = reply.calls().into_iter().map(|call| distinct.assign(call)).collect();
        let known = |call: &ToolCall| cut_off.results.iter().find(|result| result.call_id() == &*call.id);
        for call in calls.iter().filter(|call| known(call).is_none()) {
            turn.push(call.clone());
        }
        let handle = turn.handle();
        let (ran, halt) = self.settle(turn.finish(), &handle).await;
        let mut ran = ran.into_iter();
        let results = calls.iter().filter_map(|call| known(call).cloned().or_else(|| ran.next())).collect();
        let posted = self.with.handle.take_posted();
        self.answer(&mut reply, &tools, calls, results, None, posted).await;
        Ok(self.next(&reply, true, halt))
    }

    /// Turn after turn.
    async fn go(&mut self) -> RunEnd {
        loop {
            if self.with.handle.is_interrupted() {
                return RunEnd::Interrupted;
            }
            for text in self.with.handle.take_said() {
                if let Some(ended) = self.say(&text).await {
                    return ended;
                }
            }
            self.put_posted();
            if let Some(limit) = self.limit() {
                return RunEnd::Limit(limit);
            }
            match self.turn().await {
                None => {}
                Some(ended) => {
                    let goes_on = ended.is_finished() && self.goes_on().await;
                    if !goes_on {
                        return ended;
                    }
                }
            }
        }
    }

    /// The model has finished: whether a message is waiting for it.
    async fn goes_on(&mut self) -> bool {
        let handle = &self.with.handle;
        if handle.has_said() {
            return true;
        }
        if self.continues == CONTINUES_MAX {
            return !handle.close_unless_posted();
        }
        let asked = self.with.hooks.before_stop(&self.text, self.continues > 0);
        let Ok(Some(words)) = self.host(asked).await else { return !handle.close_unless_posted() };
        self.continues += 1;
        self.put(&words);
        self.with.tell(|| RunEvent::Said(words));
        true
    }

    fn limit(&self) -> Option<RunLimit> {
        let options = &self.with.options;
        let over = |most: Option<u64>, now: u64| most.is_some_and(|most| now >= most);
        let spent = self.usage_meter.root().total();
        match () {
            () if over(options.max_turns, self.turns) => Some(RunLimit::Turns),
            () if over(options.max_tokens, spent.usage.total_tokens()) => Some(RunLimit::Tokens),
            () if options.max_cost.zip(spent.cost).is_some_and(|(most, now)| now >= most) => {
                Some(RunLimit::Cost)
            }
            () if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) => Some(RunLimit::Time),
            () => None,
        }
    }

    /// Asks once, runs what is asked for, gives it back. None if the model is to be asked again.
    async fn turn(&mut self) -> Option<RunEnd> {
        let with = self.with;
        with.engine.refresh();
        let mut turn = with.engine.turn();
        let deferral = if self.refused { ToolDeferral::Fallback } else { with.model.deferral() };
        let tools = self.define_tools(turn.snapshot(), deferral);
        self.names = deferred_names::note(turn.snapshot());
        if let Some(ended) = self.keep_room(&tools).await {
            return Some(ended);
        }
        // A summary has no definitions in it.
        let tools = self.define_tools(turn.snapshot(), deferral);
        self.turns += 1;
        let number = self.turns;
        with.tell(|| {
            let left_out = tools.left_out().iter().map(|tool| tool.name.clone()).collect();
            RunEvent::Asked { turn: number, left_out }
        });
        if let Some(recorder) = &with.recorder {
            recorder.record_tools(number, &tools);
        }
        let mut pushed = Vec::new();
        let mut distinct = UniqueCallIds::default();
        let (mut reply, mut halt) = self
            .listen(self.conversation, &tools, EventReporting::No, |call| {
                let call = distinct.assign(call);
                turn.push(call.clone());
                pushed.push(call);
            })
            .await;
        if tools.deferral() == ToolDeferral::Native
            && let StopReason::Failed(failure) = reply.stop()
            && with.model.format().is_deferral_rejection(failure)
        {
            // Nothing came, so nothing is lost: the same is asked in the form that everybody knows.
            with.model.disable_deferral();
            (self.refused, self.turns) = (true, self.turns - 1);
            let (failure, wait) = (failure.clone(), Duration::ZERO);
            with.tell(|| RunEvent::Model(ReplyDelta::Retrying { failure, attempt: 2, wait }));
            return None;
        }
        with.tell(|| RunEvent::Replied {
            turn: number,
            stop: reply.stop().clone(),
            usage: reply.usage().clone(),
        });
        self.spend(reply.usage());
        if let Some(recorder) = &with.recorder {
            recorder.record_usage(number, reply.usage());
        }
        if reply.usage().input_tokens > 0 {
            self.last = reply.usage().clone();
        }
        if !reply.text().is_empty() {
            self.text = std::mem::take(&mut reply.text);
        }
        if let (Some(recorder), true) = (&with.recorder, reply.requests_calls()) {
            recorder.record_reply(number, reply.items());
        }
        let broke = matches!(reply.stop(), StopReason::Cut | StopReason::Failed(_) | StopReason::Interrupted);
        let results = if pushed.is_empty() {
            Vec::new()
        } else {
            let handle = turn.handle();
            if broke {
                // The message has no valid end: what has not begun never will.
                handle.interrupt_because(halt.map_or(Cause::Disconnect, RunInterruption::cause));
            }
            let (results, halted) = self.settle(turn.finish(), &handle).await;
            halt = halt.or(halted);
            results
        };
        let cut = match halt {
            Some(RunInterruption::Time) => {
                Some("cancelled: the time for this run was over; the user did not interrupt")
            }
            _ => None,
        };
        let is_kept = !reply.items().is_empty();
        self.answer(&mut reply, &tools, pushed, results, cut, Vec::new()).await;
        self.next(&reply, is_kept, halt)
    }

    fn define_tools(&self, snapshot: &Snapshot, deferral: ToolDeferral) -> ToolDefinitions {
        self.with.definer.define_tools(snapshot, deferral, &self.conversation.loaded_tools())
    }

    /// Reads the reply of the model until it is complete, or the run is stopped.
    async fn listen(
        &self,
        conversation: &Conversation,
        tools: &ToolDefinitions,
        quiet: EventReporting,
        mut push: impl FnMut(ToolCall),
    ) -> (ModelReply, Option<RunInterruption>) {
        let with = self.with;
        let system: Vec<Arc<str>> = with.options.system.iter().chain(&self.names).cloned().collect();
        let prompt = ModelRequest { system: &system, conversation, tools };
        let mut incoming = with.model.ask(&prompt);
        let mut deltas = Vec::new();
        let halt = loop {
            let more = either(incoming.more(&mut deltas), self.halted()).await;
            for delta in deltas.drain(..) {
                let ready = match &delta {
                    ReplyDelta::CallReady { ready, .. } => Some(ready.clone()),
                    _ => None,
                };
                if quiet == EventReporting::No {
                    with.tell(|| RunEvent::Model(delta));
                }
                // A call may run from here on, so whoever watches knows it first.
                ready.into_iter().for_each(&mut push);
            }
            match more {
                Either::First(true) => {}
                Either::First(false) => break None,
                Either::Second(halt) => break Some(halt),
            }
        };
        (incoming.finish(), halt)
    }

    async fn halted(&self) -> RunInterruption {
        let deadline = async {
            match self.deadline {
                Some(deadline) => sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        match either(self.with.handle.stop().cancelled(), deadline).await {
            Either::First(_) => RunInterruption::Interrupt,
            Either::Second(()) => RunInterruption::Time,
        }
    }

    /// Waits for the results. An interrupt, a word of the user or the end of the time stops what may be
    /// stopped; a second interrupt, or some seconds more, stop everything.
    async fn settle(
        &self,
        results: impl Future<Output = Vec<ToolResult>>,
        turn: &TurnHandle,
    ) -> (Vec<ToolResult>, Option<RunInterruption>) {
        let handle = &self.with.handle;
        let mut results = std::pin::pin!(results);
        let mut halt = match either(results.as_mut(), either(self.halted(), handle.news())).await {
            Either::First(results) => return (results, None),
            Either::Second(Either::First(halt)) => Some(halt),
            Either::Second(Either::Second(())) => None,
        };
        let tools = turn.interrupt_because(halt.map_or(Cause::User, RunInterruption::cause));
        if !tools.is_empty() {
            self.with.tell(|| RunEvent::Finishing { tools });
        }
        if halt.is_none() {
            // Something said is no interrupt; one may still come.
            match either(results.as_mut(), self.halted()).await {
                Either::First(results) => return (results, None),
                Either::Second(halted) => {
                    halt = Some(halted);
                    turn.interrupt_because(halted.cause());
                }
            }
        }
        let over = async {
            match self.deadline {
                Some(deadline) => sleep_until(deadline + Duration::from_secs(OVERTIME_SECONDS_MAX)).await,
                None => std::future::pending().await,
            }
        };
        match either(results.as_mut(), either(handle.forced().cancelled(), over)).await {
            Either::First(results) => return (results, halt),
            Either::Second(Either::First(_)) => turn.cancel(Cause::User),
            Either::Second(Either::Second(())) => turn.cancel(Cause::Shutdown),
        }
        (results.await, halt)
    }

    /// Puts the reply and the answer to its calls into the conversation, both or neither. `cut` says why
    /// calls were cancelled, where it wasn't the user; `posted` goes in with them.
    async fn answer(
        &mut self,
        reply: &mut ModelReply,
        tools: &ToolDefinitions,
        pushed: Vec<ToolCall>,
        results: Vec<ToolResult>,
        cut: Option<&str>,
        posted: Vec<String>,
    ) {
        let extra = if results.is_empty() {
            None
        } else {
            self.host(self.with.hooks.after_calls(&results)).await.unwrap_or_default()
        };
        let instead = |result: &ToolResult| {
            let (cut, error) = (cut?, result.error()?);
            let cause = error.cause().filter(|cause| matches!(cause, Cause::User | Cause::Shutdown))?;
            (error.kind() == ErrorKind::Cancelled).then(|| error.message().replace(cause.words(), cut))
        };
        if !reply.items().is_empty() {
            self.words.clear();
        }
        let before = self.conversation.items().len();
        self.conversation.take(reply);
        self.last_items = self.conversation.items().len();
        if reply.requests_calls() {
            self.conversation.answer(reply.format.answer_calls(&CallAnswers {
                requested: &reply.requested,
                results: &results,
                tools: Some(tools),
                replacement: &instead,
            }));
            self.conversation.remember(&results);
        }
        posted.iter().for_each(|text| self.conversation.say(text));
        self.keep_from(before);
        for text in posted {
            self.words.push(text.clone());
            self.with.tell(|| RunEvent::Said(text));
        }
        if let Some(extra) = extra {
            self.put(&extra);
        }
        let calls = reply.with_refused(pushed.into_iter().zip(results));
        if !calls.is_empty() {
            let turn = self.turns;
            let results = || calls.iter().map(|(_, result)| result.clone()).collect();
            self.with.tell(|| RunEvent::Answered { turn, results: results() });
        }
        if let Some(recorder) = &self.with.recorder {
            recorder.finish_turn(&calls).await;
        }
        self.fresh = calls.len();
        self.calls.extend(calls);
    }

    /// What follows from a reply.
    fn next(&mut self, reply: &ModelReply, is_kept: bool, halt: Option<RunInterruption>) -> Option<RunEnd> {
        match halt {
            Some(halt) => return Some(halt.into()),
            None if self.with.handle.is_interrupted() => return Some(RunEnd::Interrupted),
            None => {}
        }
        let newest = &self.calls[self.calls.len() - self.fresh..];
        if let Some((_, ending)) = newest.iter().find(|(_, result)| result.ends_turn()) {
            // A message at the same moment continues the run.
            if !self.with.handle.has_said() {
                return Some(RunEnd::TurnEnded(ending.stop_reason().map(str::to_owned)));
            }
        }
        let stop = reply.stop();
        let count = |counter: &mut u32, is: bool| {
            *counter = if is { *counter + 1 } else { 0 };
            *counter
        };
        let pauses = count(&mut self.pauses, *stop == StopReason::Paused);
        let is_cut = matches!(stop, StopReason::MaxTokens { .. }) && reply.requests_calls();
        let cut_calls = count(&mut self.cut_calls, is_cut);
        let broken = count(&mut self.broken, matches!(stop, StopReason::Cut | StopReason::Failed(_)));
        let is_full = match stop {
            StopReason::ContextFull => true,
            StopReason::Failed(failure) => failure.kind == FailureKind::ContextFull,
            _ => false,
        };
        count(&mut self.full, is_full);
        match stop {
            StopReason::Interrupted => Some(RunEnd::Interrupted),
            StopReason::Paused if pauses <= PAUSES_MAX => None,
            // What ran has its results; what was cut off knows that it was.
            StopReason::MaxTokens { .. } if is_cut && cut_calls <= CUT_CALLS_MAX => None,
            // Room is made before the model is asked again.
            _ if is_full => {
                if is_kept && !reply.requests_calls() {
                    self.put("Your message was cut off because the window was full. Go on from there.");
                }
                None
            }
            // Calls were run, so the message is kept and the model continues from it.
            StopReason::Failed(failure)
                if failure.is_passing() && reply.requests_calls() && broken <= BROKEN_MAX =>
            {
                None
            }
            StopReason::Cut if reply.requests_calls() && broken <= BROKEN_MAX => None,
            StopReason::Failed(failure) => Some(RunEnd::Failed(failure.clone())),
            StopReason::Calls => None,
            StopReason::End | StopReason::Sequence => Some(RunEnd::Finished),
            other => Some(RunEnd::Stopped(other.clone())),
        }
    }

    fn end(self, ended: RunEnd) -> RunOutcome {
        self.with.handle.close();
        let UsageTotal { usage, cost } = self.usage_meter.total();
        self.with.tell(|| RunEvent::Ended { why: ended.clone(), usage: usage.clone() });
        let cost = cost.or(self.with.options.prices.map(|_| 0.0));
        RunOutcome { text: self.text, ended, turns: self.turns, usage, cost, calls: self.calls }
    }
}
