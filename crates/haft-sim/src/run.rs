//! A story from its seed: one process after the other, each with what the one before left on the disk.

use std::sync::{Arc, Once};
use std::time::Duration;

use haft::dispatch::ConflictRule;
use haft::event::What;
use haft::hooks::Hooks;
use haft::results::OffloadStore;
use haft::tool::SiblingPolicy;
use haft::{Cause, Engine, ErrorKind, Permissions, ToolResult, Workspace};
use haft_agent::{AgentLoop, Conversation, RunEnd, RunEvent, RunHandle, RunOutcome, ToolEventSink};
use haft_journal::{Journal, JournalOptions, Record, RecoveredSession, SessionStart};
use haft_provider::RetryPolicy;
use haft_provider::scripted::ScriptedModel;
use tokio::time::{sleep, timeout};

use crate::check;
use crate::disk::Death;
use crate::guards::{SimHook, SimRules, SimUser};
use crate::keep::{JournalContents, Resumed};
use crate::plan::{Bug, Life};
use crate::tools::{Engines, PANIC, SERVER, registry};
use crate::world::{Story, World};

/// Longer than any story lasts by its own clock.
const TIME_MAX: Duration = Duration::from_secs(100 * 60 * 60);

/// Plays the story of a seed, with a bug in it if one is given, and says what did not hold.
///
/// # Panics
/// The machine has no folder for temporary files, or something of the simulator itself is wrong.
pub fn simulate(seed: u64, bug: Option<Bug>) -> Story {
    silence();
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let root = folder.path().canonicalize().expect("the folder was just made");
    for name in ["work", "outside"] {
        std::fs::create_dir(root.join(name)).expect("the folder is empty");
    }
    let world = World::new(seed, bug, root);
    let plan = &world.0.plan;
    world.tell(format!(
        "{} · journal {:?} · {} at once · {} turns · {} processes",
        plan.wire,
        plan.durability,
        plan.cap,
        plan.script.turns.len() - 12,
        plan.lives.len()
    ));
    for life in &plan.lives {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime on this thread needs nothing");
        let left = runtime.block_on(live(&world, *life));
        // A dead process puts nothing in order; its journal goes last, when nobody can write to it any more.
        drop(runtime);
        drop(left);
        check::quiet(&world);
        if world.is_dead() {
            check::died(&world);
        }
    }
    check::left(&world);
    let mut state = world.state();
    Story {
        seed,
        trace: std::mem::take(&mut state.trace),
        broken: std::mem::take(&mut state.broken),
        tally: state.tally,
    }
}

/// Panics that are part of a story are not written to the terminal.
fn silence() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if info.payload().downcast_ref::<String>().is_none_or(|words| words != PANIC) {
                usual(info);
            }
        }));
    });
}

/// One process. What is returned is dropped when its runtime is gone, as a dead process drops nothing in order.
async fn live(world: &World, life: Life) -> impl Sized + use<> {
    let process = world.begins();
    let (kept, resumed) = open(world, life, process);
    let engines = Arc::new(Engines::default());
    let wire = world.0.plan.wire;
    let handle = RunHandle::new();
    let (engine, agent) = agent(world, &kept, &engines, &handle, life);
    engines.set(Some(engine.clone()));
    let mut conversation = match &resumed {
        Some(resumed) => Conversation::from_items(wire, resumed.recovered.items.clone()),
        None => Conversation::new(wire),
    };
    let helpers = fates(world, life, &handle, &engine);
    let played = {
        let playing = play(world, &agent, &handle, &mut conversation, resumed.as_ref());
        tokio::select! {
            biased;
            () = world.0.died.notified() => None,
            played = timeout(TIME_MAX, playing) => Some(played),
        }
    };
    helpers.iter().for_each(tokio::task::JoinHandle::abort);
    match played {
        Some(Ok(outcome)) => {
            finished(world, &kept, &outcome);
            if !world.is_dead() {
                engine.shutdown(Cause::Shutdown);
                engines.set(None);
                drop((agent, engine));
                // What has to notice its end does so now.
                sleep(Duration::from_secs(1)).await;
                check::quiet(world);
                check::ended(world, conversation.items());
                let lived = usize::try_from(process).unwrap_or(usize::MAX);
                if world.0.plan.lives.iter().take(lived).all(|life| life.disk.is_none()) {
                    let (_, recovered) = read(world);
                    check::kept(world, &recovered, conversation.items());
                }
            }
        }
        Some(Err(_)) => world.broken("I6", "the session never ends"),
        None => {}
    }
    engines.set(None);
    world.ends();
    kept
}

/// What is on the disk now.
fn read(world: &World) -> (haft_journal::JournalContents, RecoveredSession) {
    let path = world.0.root.join("journal.log");
    std::fs::write(&path, world.0.disk.bytes()).expect("the temporary folder has room");
    let kept = haft_journal::read(&path).expect("the file was just written");
    // As the program does, which passes over what doesn't count any more; it has to come to the same.
    let (recovered, whole, next) = RecoveredSession::read(&world.0.disk.bytes());
    if recovered != RecoveredSession::from_contents(&kept) || (whole, next) != (kept.whole, kept.next()) {
        world.broken("I1", "a journal comes to something else when only its end is read");
    }
    (kept, recovered)
}

/// Opens the journal, and takes what is in it.
fn open(world: &World, life: Life, process: u32) -> (JournalContents, Option<Resumed>) {
    let (kept, recovered) = read(world);
    world.0.disk.reopen(usize::try_from(kept.whole).unwrap_or(usize::MAX));
    let options = JournalOptions { durability: world.0.plan.durability, ..JournalOptions::default() };
    let path = world.0.root.join("journal.log");
    let disk = Box::new(world.0.disk.handle());
    let journal = Journal::on(disk, ("sim", &path), (kept.whole, kept.next()), options);
    let journal = journal.expect("a thread for the journal");
    let kept = JournalContents { world: world.clone(), journal, life };
    let began = SessionStart { wire: world.0.plan.wire.name().to_owned(), ..SessionStart::in_folder("/") };
    let _ = kept.operation("began", false, |journal| journal.note(Record::Began(began)));
    world.tell(format!("process {process} has the session"));
    (kept, (process > 1).then(|| Resumed::new(world, recovered)))
}

fn agent(
    world: &World,
    kept: &JournalContents,
    engines: &Arc<Engines>,
    handle: &RunHandle,
    life: Life,
) -> (Engine, AgentLoop) {
    let plan = &world.0.plan;
    let rules = ["write", "shared", "anything", "remote", "delegate"];
    let rules = rules.into_iter().try_fold(Permissions::new(), Permissions::allow);
    let rules = rules.and_then(|rules| rules.ask("asks")).and_then(|rules| rules.deny("forbidden"));
    let rules = SimRules { world: world.clone(), rules: rules.expect("these are names of tools") };
    let hook = SimHook(world.clone());
    let results = match life.no_results {
        // A file in place of the folder.
        true => world.0.root.join("journal.log").join("results"),
        false => world.0.root.join("results"),
    };
    if world.has(Bug::FileLeft) && std::fs::create_dir_all(world.0.root.join("results")).is_ok() {
        let _ = std::fs::write(world.0.root.join("results/left.txt"), "x");
    }
    let seen = world.clone();
    let sink: Arc<dyn haft_agent::RunSink> = Arc::new(move |event: RunEvent| watch(&seen, event));
    let recorder = Arc::new(kept.clone());
    let engine = Engine::builder(registry(world, engines))
        .session_id("sim")
        .workspace(Workspace::new(world.0.root.join("work")).expect("the folder is there"))
        .permissions(rules)
        .asker(SimUser(world.clone()))
        .hooks(Hooks::new().before(hook.clone()).after(hook.clone()).after_batch(hook))
        .schedule(if plan.effects_rule { ConflictRule::Effects } else { ConflictRule::Classes })
        .sibling_policy(if plan.stop_siblings { SiblingPolicy::OnError } else { SiblingPolicy::Never })
        .max_concurrency(plan.cap)
        .turn_budget(if world.has(Bug::Unbounded) { usize::MAX } else { plan.budget_chars })
        .result_store(OffloadStore::at(results))
        .events(ToolEventSink::new(sink.clone()))
        .ports(|ports| ports.recorder = Some(recorder))
        .build();
    // Waits between attempts are random by the machine's clock; none is the same every time.
    let retry = RetryPolicy { first: Duration::ZERO, most: Duration::ZERO, ..RetryPolicy::default() };
    let model = ScriptedModel::new(plan.script.clone(), plan.wire).retry(retry);
    let agent = AgentLoop::new(engine.clone(), model)
        .events(sink)
        .recorder(Arc::new(kept.clone()))
        .handle(handle.clone());
    (engine, agent)
}

/// What comes from outside while a process lives.
fn fates(world: &World, life: Life, handle: &RunHandle, engine: &Engine) -> Vec<tokio::task::JoinHandle<()>> {
    let mut fates = Vec::new();
    if let Some((first, second)) = life.interrupts {
        let (world, handle) = (world.clone(), handle.clone());
        fates.push(tokio::spawn(async move {
            sleep(first).await;
            world.tell("the user interrupts");
            handle.interrupt();
            sleep(second).await;
            world.tell("the user interrupts again");
            handle.interrupt();
        }));
    }
    if let Some(time) = life.says {
        let (world, handle) = (world.clone(), handle.clone());
        fates.push(tokio::spawn(async move {
            sleep(time).await;
            world.tell("the user says something");
            let _ = handle.say("and hurry up");
        }));
    }
    if let Some(time) = life.dies_at {
        let world = world.clone();
        fates.push(tokio::spawn(async move {
            sleep(time).await;
            world.dies(Death::Killed);
        }));
    }
    if let Some(time) = life.server_gone {
        let (world, engine) = (world.clone(), engine.clone());
        fates.push(tokio::spawn(async move {
            sleep(time).await;
            world.tell("the server's tools are gone");
            engine.refresh_with(engine.registry().without_external(SERVER));
        }));
    }
    fates
}

/// Plays a session, or goes on with one, as the program does.
async fn play(
    world: &World,
    agent: &AgentLoop,
    handle: &RunHandle,
    conversation: &mut Conversation,
    resumed: Option<&Resumed>,
) -> RunOutcome {
    let Some(resumed) = resumed else { return agent.run(conversation, "Do it.").await };
    if let Some(told) = resumed.told(world) {
        let _ = handle.post(told);
    }
    let format = conversation.format();
    let words = (!resumed.waits(format)).then_some("Go on.");
    match (resumed.cut_off(world, format), words) {
        (Some(cut_off), _) => match agent.resume_interrupted(conversation, cut_off).await {
            Ok(outcome) => outcome,
            Err(error) => {
                world.broken("I1", format!("the message that was kept can't be read: {error}"));
                agent.resume(conversation).await
            }
        },
        (None, Some(words)) => agent.run(conversation, words).await,
        (None, None) => agent.resume(conversation).await,
    }
}

fn finished(world: &World, kept: &JournalContents, outcome: &RunOutcome) {
    if world.is_dead() {
        return;
    }
    if let RunEnd::Failed(failure) = &outcome.ended
        && failure.status == Some(400)
    {
        world.broken("I1", format!("the provider refuses the conversation: {failure}"));
    }
    for (call, result) in &outcome.calls {
        if call.id != result.call_id().into() {
            world.broken("I1", format!("the call `{}` has the result of `{}`", call.id, result.call_id()));
        }
    }
    let why = outcome.ended.word().to_owned();
    let _ = kept.operation("ended", false, |journal| journal.note(Record::Ended { why }));
}

/// Puts what happens into the story.
fn watch(world: &World, event: RunEvent) {
    if world.is_dead() {
        return;
    }
    match event {
        RunEvent::Asked { turn, .. } => world.tell(format!("asks the model, {turn}.")),
        RunEvent::Replied { stop, .. } => world.tell(format!("the model: {}", stop.word())),
        RunEvent::Answered { results, .. } => {
            let words: Vec<String> =
                results.iter().map(|result| format!("{} {}", result.call_id(), word(result))).collect();
            world.tell(format!("results: {}", words.join(", ")));
            results.iter().for_each(|result| count(world, result));
            check::answered(world, &results);
        }
        RunEvent::Finishing { tools } => world.tell(format!("still finishing: {}", tools.join(", "))),
        RunEvent::Said(_) => world.tell("words go in"),
        RunEvent::Ended { why, .. } => world.tell(format!("ended: {}", why.word())),
        RunEvent::Tool(event) => match event.what {
            What::Finished(result) => {
                if let Some(path) = result.offloaded_to() {
                    world.state().files.insert(path.to_owned());
                }
                world.tell(format!("{} has its result: {}", result.call_id(), word(&result)));
            }
            What::Warning(_) => world.tell("a warning"),
            _ => {}
        },
        _ => {}
    }
}

fn word(result: &ToolResult) -> String {
    result.error_kind().map_or_else(|| "ok".to_owned(), |kind| format!("{kind:?}"))
}

fn count(world: &World, result: &ToolResult) {
    let mut state = world.state();
    if let Some(path) = result.offloaded_to() {
        state.files.insert(path.to_owned());
        state.tally.offloaded += 1;
    }
    match result.error_kind() {
        Some(ErrorKind::NotRecorded) => state.tally.not_recorded += 1,
        Some(ErrorKind::Denied | ErrorKind::Rejected | ErrorKind::Blocked | ErrorKind::HookFailed) => {
            state.tally.refused += 1;
        }
        Some(ErrorKind::Panicked) => state.tally.panics += 1,
        Some(ErrorKind::TimedOut) => state.tally.timeouts += 1,
        Some(ErrorKind::Cancelled) => state.tally.cancelled += 1,
        _ => {}
    }
}
