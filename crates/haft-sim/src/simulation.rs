//! Runs a simulation: one process after the other, each with the disk of the one before.

use std::sync::{Arc, Once};
use std::time::Duration;

use haft::dispatch::ConflictRule;
use haft::event::EventKind;
use haft::hooks::HookSet;
use haft::results::OffloadStore;
use haft::tool::SiblingPolicy;
use haft::{Cause, Engine, ErrorKind, PermissionRules, ToolResult, Workspace};
use haft_agent::{AgentLoop, Conversation, RunEnd, RunEvent, RunHandle, RunOutcome, ToolEventSink};
use haft_journal::{Journal, JournalOptions, Record, RecoveredSession, SessionStart};
use haft_provider::RetryPolicy;
use haft_provider::scripted::ScriptedModel;
use tokio::time::{sleep, timeout};

use crate::faulty_disk::ProcessDeath;
use crate::faulty_guards::{SimulatedHook, SimulatedRules, SimulatedUser};
use crate::invariants;
use crate::simulated_journal::{ResumedState, SimulatedJournal};
use crate::simulated_tools::{CurrentEngine, PANIC_TEXT, SERVER, build_registry};
use crate::simulated_world::{SimulatedWorld, SimulationReport};
use crate::simulation_plan::{PlantedBug, ProcessPlan};

/// Longer than any simulation lasts in virtual time.
const SESSION_TIME_MAX: Duration = Duration::from_secs(100 * 60 * 60);

/// Simulates the session of a seed, optionally with a planted bug, and returns the violated
/// invariants.
///
/// # Panics
/// The system has no temporary directory, or the simulator itself has a bug.
pub fn simulate(seed: u64, bug: Option<PlantedBug>) -> SimulationReport {
    silence_expected_panics();
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let root = folder.path().canonicalize().expect("the folder was just made");
    for name in ["work", "outside"] {
        std::fs::create_dir(root.join(name)).expect("the folder is empty");
    }
    let world = SimulatedWorld::new(seed, bug, root);
    let plan = &world.0.plan;
    world.log(format!(
        "{} · journal {:?} · {} at once · {} turns · {} processes",
        plan.wire,
        plan.durability,
        plan.max_concurrency,
        plan.script.turns.len() - 12,
        plan.processes.len()
    ));
    for life in &plan.processes {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime on this thread needs nothing");
        let left = runtime.block_on(run_process(&world, *life));
        // A dead process cleans up nothing. Its journal is dropped last, when no task can write to
        // it.
        drop(runtime);
        drop(left);
        invariants::check_no_running_tools(&world);
        if world.is_dead() {
            invariants::excuse_leftover_files(&world);
        }
    }
    invariants::check_leftover_files(&world);
    let mut state = world.state();
    SimulationReport {
        seed,
        trace: std::mem::take(&mut state.trace),
        violations: std::mem::take(&mut state.violations),
        counts: state.counts,
    }
}

/// Suppresses the panic messages of simulated panics.
fn silence_expected_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if info.payload().downcast_ref::<String>().is_none_or(|message| message != PANIC_TEXT) {
                usual(info);
            }
        }));
    });
}

/// Runs one process. The caller drops the returned value after the runtime, because a dead process
/// drops nothing in order.
async fn run_process(world: &SimulatedWorld, life: ProcessPlan) -> impl Sized + use<> {
    let process = world.begin_process();
    let (journal, resumed) = open_journal(world, life, process);
    let current_engine = Arc::new(CurrentEngine::default());
    let wire = world.0.plan.wire;
    let handle = RunHandle::new();
    let (engine, agent) = build_agent(world, &journal, &current_engine, &handle, life);
    current_engine.set(Some(engine.clone()));
    let mut conversation = match &resumed {
        Some(resumed) => Conversation::from_items(wire, resumed.recovered.items.clone()),
        None => Conversation::new(wire),
    };
    let helpers = schedule_disruptions(world, life, &handle, &engine);
    let played = {
        let playing = run_session(world, &agent, &handle, &mut conversation, resumed.as_ref());
        tokio::select! {
            biased;
            () = world.0.death_notice.notified() => None,
            played = timeout(SESSION_TIME_MAX, playing) => Some(played),
        }
    };
    helpers.iter().for_each(tokio::task::JoinHandle::abort);
    match played {
        Some(Ok(outcome)) => {
            record_outcome(world, &journal, &outcome);
            if !world.is_dead() {
                engine.shutdown(Cause::Shutdown);
                current_engine.set(None);
                drop((agent, engine));
                // Gives cancelled work time to end.
                sleep(Duration::from_secs(1)).await;
                invariants::check_no_running_tools(world);
                invariants::check_conversation(world, conversation.items());
                let lived = usize::try_from(process).unwrap_or(usize::MAX);
                if world.0.plan.processes.iter().take(lived).all(|life| life.disk_fault.is_none()) {
                    let (_, recovered) = read_journal(world);
                    invariants::check_journal(world, &recovered, conversation.items());
                }
            }
        }
        Some(Err(_)) => world.report_violation("I6", "the session never ends"),
        None => {}
    }
    current_engine.set(None);
    world.end_process();
    journal
}

/// Reads the journal from the disk.
fn read_journal(world: &SimulatedWorld) -> (haft_journal::JournalContents, RecoveredSession) {
    let path = world.0.root.join("journal.log");
    std::fs::write(&path, world.0.disk.bytes()).expect("the temporary folder has room");
    let contents = haft_journal::read(&path).expect("the file was just written");
    // Recovers as the program does, which skips obsolete records; the result must be the same.
    let (recovered, whole, next) = RecoveredSession::from_bytes(&world.0.disk.bytes());
    if recovered != RecoveredSession::from_contents(&contents)
        || (whole, next) != (contents.whole, contents.next())
    {
        world.report_violation(
            "I1",
            "recovering from the end of a journal gives another state than recovering from all of it",
        );
    }
    (contents, recovered)
}

/// Opens the journal and recovers its contents.
fn open_journal(
    world: &SimulatedWorld,
    life: ProcessPlan,
    process: u32,
) -> (SimulatedJournal, Option<ResumedState>) {
    let (contents, recovered) = read_journal(world);
    world.0.disk.reopen(usize::try_from(contents.whole).unwrap_or(usize::MAX));
    let options = JournalOptions { durability: world.0.plan.durability, ..JournalOptions::default() };
    let path = world.0.root.join("journal.log");
    let disk = Box::new(world.0.disk.handle());
    let journal = Journal::with_disk(disk, ("sim", &path), (contents.whole, contents.next()), options);
    let journal = journal.expect("a thread for the journal");
    let journal = SimulatedJournal { world: world.clone(), journal, life };
    let began = SessionStart { wire: world.0.plan.wire.name().to_owned(), ..SessionStart::in_folder("/") };
    let _ = journal.perform("began", false, |journal| journal.note(Record::Began(began)));
    world.log(format!("process {process} has the session"));
    (journal, (process > 1).then(|| ResumedState::new(world, recovered)))
}

fn build_agent(
    world: &SimulatedWorld,
    journal: &SimulatedJournal,
    current_engine: &Arc<CurrentEngine>,
    handle: &RunHandle,
    life: ProcessPlan,
) -> (Engine, AgentLoop) {
    let plan = &world.0.plan;
    let rules = ["write", "shared", "anything", "remote", "delegate"];
    let rules = rules.into_iter().try_fold(PermissionRules::new(), PermissionRules::allow);
    let rules = rules.and_then(|rules| rules.ask("asks")).and_then(|rules| rules.deny("forbidden"));
    let rules = SimulatedRules { world: world.clone(), rules: rules.expect("these are names of tools") };
    let hook = SimulatedHook(world.clone());
    let results = if life.offload_fails {
        // A file instead of a directory makes offloading fail.
        world.0.root.join("journal.log").join("results")
    } else {
        world.0.root.join("results")
    };
    if world.has_bug(PlantedBug::FileLeft) && std::fs::create_dir_all(world.0.root.join("results")).is_ok() {
        let _ = std::fs::write(world.0.root.join("results/left.txt"), "x");
    }
    let seen = world.clone();
    let sink: Arc<dyn haft_agent::RunSink> = Arc::new(move |event: RunEvent| trace_event(&seen, event));
    let recorder = Arc::new(journal.clone());
    let engine = Engine::builder(build_registry(world, current_engine))
        .session_id("sim")
        .workspace(Workspace::new(world.0.root.join("work")).expect("the folder is there"))
        .permissions(rules)
        .asker(SimulatedUser(world.clone()))
        .hooks(HookSet::new().before(hook.clone()).after(hook.clone()).after_batch(hook))
        .schedule(if plan.effects_rule { ConflictRule::Effects } else { ConflictRule::Classes })
        .sibling_policy(if plan.stop_siblings { SiblingPolicy::OnError } else { SiblingPolicy::Never })
        .max_concurrency(plan.max_concurrency)
        .turn_budget(if world.has_bug(PlantedBug::Unbounded) { usize::MAX } else { plan.budget_chars })
        .result_store(OffloadStore::at(results))
        .events(ToolEventSink::new(sink.clone()))
        .ports(|ports| ports.recorder = Some(recorder))
        .build();
    // Retry delays have random jitter, which would not be reproducible; a delay of zero is.
    let retry = RetryPolicy { first: Duration::ZERO, most: Duration::ZERO, ..RetryPolicy::default() };
    let model = ScriptedModel::new(plan.script.clone(), plan.wire).retry(retry);
    let agent = AgentLoop::new(engine.clone(), model)
        .events(sink)
        .recorder(Arc::new(journal.clone()))
        .handle(handle.clone());
    (engine, agent)
}

/// Schedules the external events during a process.
fn schedule_disruptions(
    world: &SimulatedWorld,
    life: ProcessPlan,
    handle: &RunHandle,
    engine: &Engine,
) -> Vec<tokio::task::JoinHandle<()>> {
    let mut schedule_disruptions = Vec::new();
    if let Some((first, second)) = life.interrupt_delays {
        let (world, handle) = (world.clone(), handle.clone());
        schedule_disruptions.push(tokio::spawn(async move {
            sleep(first).await;
            world.log("the user interrupts");
            handle.interrupt();
            sleep(second).await;
            world.log("the user interrupts again");
            handle.interrupt();
        }));
    }
    if let Some(time) = life.user_message_at {
        let (world, handle) = (world.clone(), handle.clone());
        schedule_disruptions.push(tokio::spawn(async move {
            sleep(time).await;
            world.log("the user says something");
            let _ = handle.say("and hurry up");
        }));
    }
    if let Some(time) = life.death_time {
        let world = world.clone();
        schedule_disruptions.push(tokio::spawn(async move {
            sleep(time).await;
            world.kill_process(ProcessDeath::Killed);
        }));
    }
    if let Some(time) = life.server_gone_at {
        let (world, engine) = (world.clone(), engine.clone());
        schedule_disruptions.push(tokio::spawn(async move {
            sleep(time).await;
            world.log("the server's tools are gone");
            engine.refresh_with(engine.registry().without_external(SERVER));
        }));
    }
    schedule_disruptions
}

/// Starts or resumes a session as the program does.
async fn run_session(
    world: &SimulatedWorld,
    agent: &AgentLoop,
    handle: &RunHandle,
    conversation: &mut Conversation,
    resumed: Option<&ResumedState>,
) -> RunOutcome {
    let Some(resumed) = resumed else { return agent.run(conversation, "Do it.").await };
    if let Some(notes) = resumed.resume_notes(world) {
        let _ = handle.post(notes);
    }
    let format = conversation.format();
    let message = (!resumed.awaits_reply(format)).then_some("Go on.");
    match (resumed.interrupted_turn(world, format), message) {
        (Some(interrupted_turn), _) => match agent.resume_interrupted(conversation, interrupted_turn).await {
            Ok(outcome) => outcome,
            Err(error) => {
                world.report_violation("I1", format!("the message that was journal can't be read: {error}"));
                agent.resume(conversation).await
            }
        },
        (None, Some(message)) => agent.run(conversation, message).await,
        (None, None) => agent.resume(conversation).await,
    }
}

fn record_outcome(world: &SimulatedWorld, journal: &SimulatedJournal, outcome: &RunOutcome) {
    if world.is_dead() {
        return;
    }
    if let RunEnd::Failed(failure) = &outcome.ended
        && failure.status == Some(400)
    {
        world.report_violation("I1", format!("the provider refuses the conversation: {failure}"));
    }
    for (call, result) in &outcome.calls {
        if call.id != result.call_id().into() {
            world.report_violation(
                "I1",
                format!("the call `{}` has the result of `{}`", call.id, result.call_id()),
            );
        }
    }
    let why = outcome.ended.word().to_owned();
    let _ = journal.perform("ended", false, |journal| journal.note(Record::Ended { why }));
}

/// Adds an event to the trace.
fn trace_event(world: &SimulatedWorld, event: RunEvent) {
    if world.is_dead() {
        return;
    }
    match event {
        RunEvent::Asked { turn, .. } => world.log(format!("asks the model, {turn}.")),
        RunEvent::Replied { stop, .. } => world.log(format!("the model: {}", stop.word())),
        RunEvent::Answered { results, .. } => {
            let message: Vec<String> = results
                .iter()
                .map(|result| format!("{} {}", result.call_id(), result_word(result)))
                .collect();
            world.log(format!("results: {}", message.join(", ")));
            results.iter().for_each(|result| count_result(world, result));
            invariants::check_results(world, &results);
        }
        RunEvent::Finishing { tools } => world.log(format!("still finishing: {}", tools.join(", "))),
        RunEvent::Said(_) => world.log("words go in"),
        RunEvent::Ended { why, .. } => world.log(format!("ended: {}", why.word())),
        RunEvent::Tool(event) => match event.what {
            EventKind::Finished(result) => {
                if let Some(path) = result.offloaded_to() {
                    world.state().files.insert(path.to_owned());
                }
                world.log(format!("{} has its result: {}", result.call_id(), result_word(&result)));
            }
            EventKind::Warning(_) => world.log("a warning"),
            _ => {}
        },
        _ => {}
    }
}

fn result_word(result: &ToolResult) -> String {
    result.error_kind().map_or_else(|| "ok".to_owned(), |kind| format!("{kind:?}"))
}

fn count_result(world: &SimulatedWorld, result: &ToolResult) {
    let mut state = world.state();
    if let Some(path) = result.offloaded_to() {
        state.files.insert(path.to_owned());
        state.counts.offloaded += 1;
    }
    match result.error_kind() {
        Some(ErrorKind::NotRecorded) => state.counts.not_recorded += 1,
        Some(ErrorKind::Denied | ErrorKind::Rejected | ErrorKind::Blocked | ErrorKind::HookFailed) => {
            state.counts.refused += 1;
        }
        Some(ErrorKind::Panicked) => state.counts.panics += 1,
        Some(ErrorKind::TimedOut) => state.counts.timeouts += 1,
        Some(ErrorKind::Cancelled) => state.counts.cancelled += 1,
        _ => {}
    }
}
