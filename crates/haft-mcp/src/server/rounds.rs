//! Questions of the newest revision: a call that needs input answers that it does, and is asked for again with the answers.
//!
//! A call that asks is not thrown away and begun anew, since it may have done something already. Its future goes on waiting
//! where it stands, and the state that the client brings back only says which one it was. The state is signed with a key that
//! this server made for itself, and bound to who asked for what: nobody can go on with the call of somebody else, or with
//! other arguments than the ones that were looked at.
//!
//! What waits is bounded in number and time, and ends with the server.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use haft::future::BoxFuture;
use haft::sync::lock;
use haft::{Cancel, Cause};
use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

use super::message::{Outcome, write_call};
use super::peer::{Ask, Level, Line, NotAnswered, Params};
use super::reply::Refusal;
use super::session::{Outlet, cut_off};
use crate::limits;

/// What a request came to; nothing if nobody waits for it.
pub(crate) type Answer = Option<Result<Outcome, Refusal>>;

/// All calls that wait for input.
pub(crate) struct Rounds {
    key: Option<hmac::Key>,
    random: SystemRandom,
    waiting: Arc<Mutex<HashMap<Name, Waiting>>>,
}

type Name = [u8; 16];

/// Whose call it is, and of what.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Binding {
    principal: Option<Arc<str>>,
    method: &'static str,
    name: String,
    arguments: [u8; 32],
}

impl Binding {
    pub(crate) fn new(
        principal: Option<Arc<str>>,
        method: &'static str,
        name: &str,
        arguments: &str,
    ) -> Binding {
        Binding { principal, method, name: name.to_owned(), arguments: Sha256::digest(arguments).into() }
    }
}

/// A call that waits for input.
struct Waiting {
    run: Run,
    /// Ends it when it has waited for too long.
    expiry: AbortHandle,
}

/// A call that may ask.
pub(crate) struct Run {
    binding: Binding,
    round: u32,
    line: Arc<RoundsLine>,
    asked: mpsc::Receiver<Asked>,
    /// Asked and not answered.
    open: Vec<Asked>,
    done: Done,
    cancel: Cancel,
}

enum Done {
    /// It is carried out by whoever drives the run.
    Here(BoxFuture<'static, Answer>),
    /// It goes on by itself.
    Elsewhere(oneshot::Receiver<Answer>),
}

/// One question, or several that belong together.
struct Asked {
    asks: Vec<(String, Ask)>,
    answers: HashMap<String, Value>,
    back: oneshot::Sender<Result<Vec<Value>, NotAnswered>>,
}

impl Run {
    /// A call that asks by this line.
    pub(crate) fn new(binding: Binding, line: (Arc<RoundsLine>, Questions), cancel: Cancel) -> Run {
        let (line, Questions(asked)) = line;
        Run {
            binding,
            round: 0,
            line,
            asked,
            open: Vec::new(),
            done: Done::Here(Box::pin(async { None })),
            cancel,
        }
    }

    /// The same with what carries it out. It ends by itself when the run's [`Cancel`] is raised.
    #[must_use]
    pub(crate) fn with_work(mut self, work: BoxFuture<'static, Answer>) -> Run {
        self.done = Done::Here(work);
        self
    }
}

impl Rounds {
    pub(crate) fn new() -> Rounds {
        let random = SystemRandom::new();
        // Without random numbers there is no key, and then nothing can be asked.
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &random).ok();
        Rounds { key, random, waiting: Arc::default() }
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<Name, Waiting>> {
        lock(&self.waiting)
    }

    /// Goes on with a call until it is done, asks, or nobody waits for the request any more.
    pub(crate) async fn drive(&self, mut run: Run, request: &Cancel) -> Answer {
        enum Next {
            Done(Answer),
            Asked(Asked),
            Cancelled(Cause),
        }
        loop {
            let Run { done, asked, .. } = &mut run;
            let done = async {
                match done {
                    Done::Here(work) => work.await,
                    Done::Elsewhere(answer) => answer.await.unwrap_or(None),
                }
            };
            let next = tokio::select! {
                biased;
                answer = done => Next::Done(answer),
                Some(asked) = asked.recv() => Next::Asked(asked),
                cause = request.cancelled() => Next::Cancelled(cause),
            };
            match next {
                Next::Done(answer) => return answer,
                Next::Cancelled(cause) => {
                    run.cancel.cancel(cause);
                    // It has a while to put things in order, and sees to that itself.
                    let said = match run.done {
                        Done::Here(work) => work.await,
                        Done::Elsewhere(_) => None,
                    };
                    let ends = cause == Cause::Shutdown;
                    return said.or_else(|| ends.then(|| Err(cut_off())));
                }
                Next::Asked(first) => {
                    run.open.push(first);
                    while let Ok(more) = run.asked.try_recv() {
                        run.open.push(more);
                    }
                    match self.suspend(run) {
                        Ok(outcome) => return Some(Ok(outcome)),
                        Err(refused) => run = *refused,
                    }
                }
            }
        }
    }

    /// Lets a call wait for what it asked. It comes back where nobody wants to know, or too much is asked.
    fn suspend(&self, mut run: Run) -> Result<Outcome, Box<Run>> {
        run.open.retain(|asked| !asked.back.is_closed());
        if run.open.is_empty() {
            return Err(Box::new(run));
        }
        let mut name: Name = [0; 16];
        let mut waiting = self.waiting();
        let principal = &run.binding.principal;
        let same = |other: &&Waiting| other.run.binding.principal == *principal;
        let is_full = waiting.len() >= limits::SUSPENDED_MAX
            || waiting.values().filter(same).count() >= limits::SUSPENDED_EACH_MAX
            || run.round as usize >= limits::ROUNDS_MAX;
        let state = match &self.key {
            Some(key) if !is_full && self.random.fill(&mut name).is_ok() => {
                run.round += 1;
                sign(key, &name, run.round, &run.binding)
            }
            _ => {
                for asked in run.open.drain(..) {
                    let _ = asked.back.send(Err(NotAnswered::TooMuch));
                }
                return Err(Box::new(run));
            }
        };
        let unanswered = run.open.iter().flat_map(Asked::unanswered);
        let requests = unanswered.map(|(key, ask)| (key.clone(), ask.clone())).collect();
        run.done = match run.done {
            Done::Here(work) => {
                let (send, receive) = oneshot::channel();
                tokio::spawn(async move {
                    let _ = send.send(work.await);
                });
                Done::Elsewhere(receive)
            }
            elsewhere => elsewhere,
        };
        let table = self.waiting.clone();
        let expiry = tokio::spawn(async move {
            tokio::time::sleep(limits::SUSPENDED_FOR).await;
            let expired = lock(&table).remove(&name);
            if let Some(Waiting { run, .. }) = expired {
                run.cancel.cancel(Cause::Timeout);
            }
        });
        waiting.insert(name, Waiting { run, expiry: expiry.abort_handle() });
        Ok(Outcome::InputRequired { requests, state })
    }

    /// Goes on with the call that this state stands for.
    pub(crate) async fn resume(
        &self,
        state: &str,
        binding: &Binding,
        mut given: Map<String, Value>,
        reached: Reached,
        request: &Cancel,
    ) -> Answer {
        let Some(mut run) = self.take(state, binding) else {
            return Some(Err(Refusal::invalid(
                "`requestState` is not one of this server for this request, or it waited for too long; make the request \
                 again without it",
            )));
        };
        run.line.reach(reached);
        run.open.retain_mut(|asked| !asked.back.is_closed());
        let mut still = Vec::new();
        for mut asked in run.open.drain(..) {
            asked.take(&mut given);
            if let Some(asked) = asked.settled() {
                still.push(asked);
            }
        }
        run.open = still;
        if !run.open.is_empty() {
            match self.suspend(run) {
                Ok(outcome) => return Some(Ok(outcome)),
                Err(refused) => run = *refused,
            }
        }
        self.drive(run, request).await
    }

    fn take(&self, state: &str, binding: &Binding) -> Option<Run> {
        let (name, round) = verify(self.key.as_ref()?, state, binding)?;
        let mut waiting = self.waiting();
        if waiting.get(&name)?.run.round != round {
            return None;
        }
        let Waiting { run, expiry } = waiting.remove(&name)?;
        expiry.abort();
        Some(run)
    }

    /// Ends all calls that wait.
    pub(crate) fn end(&self, cause: Cause) {
        let waiting = std::mem::take(&mut *self.waiting());
        for Waiting { run, expiry } in waiting.into_values() {
            expiry.abort();
            run.cancel.cancel(cause);
        }
    }

    /// How many calls wait.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.waiting().len()
    }
}

impl Drop for Rounds {
    fn drop(&mut self) {
        self.end(Cause::Shutdown);
    }
}

fn signed(name: &Name, round: u32, binding: &Binding) -> Vec<u8> {
    let mut text = Vec::with_capacity(192);
    text.extend_from_slice(name);
    text.extend_from_slice(&round.to_le_bytes());
    let principal = binding.principal.as_deref();
    text.push(u8::from(principal.is_some()));
    for part in [principal.unwrap_or_default(), binding.method, &binding.name] {
        text.extend_from_slice(&(part.len() as u64).to_le_bytes());
        text.extend_from_slice(part.as_bytes());
    }
    text.extend_from_slice(&binding.arguments);
    text
}

fn sign(key: &hmac::Key, name: &Name, round: u32, binding: &Binding) -> String {
    let tag = hmac::sign(key, &signed(name, round, binding));
    BASE64_URL_SAFE_NO_PAD.encode([name.as_slice(), &round.to_le_bytes(), tag.as_ref()].concat())
}

/// Which call a state stands for, if it was signed here for the same request of the same client.
fn verify(key: &hmac::Key, state: &str, binding: &Binding) -> Option<(Name, u32)> {
    if state.len() > 128 {
        return None;
    }
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(state).ok()?;
    let (name, rest) = bytes.split_first_chunk::<16>()?;
    let (round, tag) = rest.split_first_chunk::<4>()?;
    let round = u32::from_le_bytes(*round);
    hmac::verify(key, &signed(name, round, binding), tag).ok()?;
    Some((*name, round))
}

impl Asked {
    fn unanswered(&self) -> impl Iterator<Item = &(String, Ask)> {
        self.asks.iter().filter(|(key, _)| !self.answers.contains_key(key))
    }

    /// Takes the answers that are for it and make sense.
    fn take(&mut self, given: &mut Map<String, Value>) {
        for (key, ask) in &self.asks {
            if !self.answers.contains_key(key)
                && given.get(key).is_some_and(|answer| fits(ask, answer))
                && let Some(answer) = given.remove(key)
            {
                self.answers.insert(key.clone(), answer);
            }
        }
    }

    /// Gives the answers away if all are there, else itself.
    fn settled(mut self) -> Option<Asked> {
        if self.unanswered().next().is_some() {
            return Some(self);
        }
        let answers = self.asks.iter().filter_map(|(key, _)| self.answers.remove(key)).collect();
        let _ = self.back.send(Ok(answers));
        None
    }
}

/// Whether an answer is one to this question at all. What it says is for whoever asked.
fn fits(ask: &Ask, answer: &Value) -> bool {
    match ask.method {
        "elicitation/create" => matches!(answer["action"].as_str(), Some("accept" | "decline" | "cancel")),
        "roots/list" => answer["roots"].is_array(),
        _ => answer["content"].is_object() || answer["content"].is_array(),
    }
}

/// Where the words of a call go: to the request that is being answered now.
pub(crate) struct Reached {
    pub(crate) outlet: Arc<dyn Outlet>,
    /// What the client wants progress to be called.
    pub(crate) progress: Option<Value>,
    pub(crate) level: Option<Level>,
}

/// The line of a call that may take several rounds.
pub(crate) struct RoundsLine {
    questions: mpsc::Sender<Asked>,
    reached: Mutex<Reached>,
    /// Answers that came with the request.
    given: Mutex<Map<String, Value>>,
}

/// What is asked on a line.
pub(crate) struct Questions(mpsc::Receiver<Asked>);

impl RoundsLine {
    pub(crate) fn new(given: Map<String, Value>, reached: Reached) -> (Arc<RoundsLine>, Questions) {
        let (questions, asked) = mpsc::channel(limits::ASKS_OPEN_MAX);
        (
            Arc::new(RoundsLine { questions, reached: Mutex::new(reached), given: Mutex::new(given) }),
            Questions(asked),
        )
    }

    fn reach(&self, reached: Reached) {
        *self.reached() = reached;
    }

    fn reached(&self) -> MutexGuard<'_, Reached> {
        lock(&self.reached)
    }

    fn asked(&self, asks: Vec<Ask>, back: oneshot::Sender<Result<Vec<Value>, NotAnswered>>) -> Option<Asked> {
        let mut named = Vec::with_capacity(asks.len());
        let mut given = lock(&self.given);
        let mut known = Map::new();
        for ask in asks {
            match &ask.key {
                Some(key) => {
                    if let Some(answer) = given.remove(key) {
                        known.insert(key.clone(), answer);
                    }
                    named.push((key.clone(), ask));
                }
                None => named.push((unguessable()?, ask)),
            }
        }
        let mut asked = Asked { asks: named, answers: HashMap::new(), back };
        asked.take(&mut known);
        Some(asked)
    }
}

/// A name that nobody can know before it was used.
fn unguessable() -> Option<String> {
    let mut bytes = [0; 12];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(format!("ask-{}", BASE64_URL_SAFE_NO_PAD.encode(bytes)))
}

impl Line for RoundsLine {
    fn notify(&self, method: &'static str, params: &dyn Params) {
        let outlet = self.reached().outlet.clone();
        let mut message = Vec::with_capacity(160);
        write_call(&mut message, None, method, params);
        outlet.notify(message);
    }

    fn progress(&self) -> Option<Value> {
        self.reached().progress.clone()
    }

    fn wants(&self, level: Level) -> bool {
        self.reached().level.is_some_and(|least| level >= least)
    }

    fn ask<'a>(&'a self, asks: Vec<Ask>) -> BoxFuture<'a, Result<Vec<Value>, NotAnswered>> {
        Box::pin(async move {
            let (back, answers) = oneshot::channel();
            let asked = self.asked(asks, back).ok_or(NotAnswered::Gone)?;
            if let Some(asked) = asked.settled() {
                self.questions.try_send(asked).map_err(|_| NotAnswered::TooMuch)?;
            }
            answers.await.unwrap_or(Err(NotAnswered::Gone))
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct Nowhere;

    impl Outlet for Nowhere {
        fn notify(&self, _: Vec<u8>) {}

        fn post(&self, _: Vec<u8>) -> bool {
            false
        }
    }

    fn reached() -> Reached {
        Reached { outlet: Arc::new(Nowhere), progress: None, level: None }
    }

    fn binding(principal: &str, name: &str) -> Binding {
        Binding::new(Some(principal.into()), "tools/call", name, "{}")
    }

    /// A call that asks for roots until it gets none.
    fn run(rounds: &Rounds, principal: &str) -> (Cancel, impl Future<Output = Answer>) {
        let line = RoundsLine::new(Map::new(), reached());
        let (cancel, asks) = (Cancel::new(), line.0.clone());
        let work = async move {
            loop {
                let answers = match asks.ask(vec![Ask::roots()]).await {
                    Ok(answers) => answers,
                    Err(why) => return Some(Err(Refusal::internal(why.to_string()))),
                };
                if answers[0]["roots"].as_array().is_some_and(Vec::is_empty) {
                    return Some(Ok(Outcome::Done));
                }
            }
        };
        let run = Run::new(binding(principal, "t"), line, cancel.clone()).with_work(Box::pin(work));
        (cancel, async move { rounds.drive(run, &Cancel::new()).await })
    }

    fn asked(answer: Answer) -> (String, String) {
        match answer {
            Some(Ok(Outcome::InputRequired { requests, state })) => {
                (requests.keys().next().unwrap().clone(), state)
            }
            other => panic!("{other:?}"),
        }
    }

    fn refused(answer: Answer) -> String {
        match answer {
            Some(Err(refusal)) => refusal.message,
            other => panic!("{other:?}"),
        }
    }

    async fn resume(
        rounds: &Rounds,
        whose: &Binding,
        (key, state): (String, String),
        roots: Value,
    ) -> Answer {
        let given = Map::from_iter([(key, json!({"roots": roots}))]);
        rounds.resume(&state, whose, given, reached(), &Cancel::new()).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_waits_too_long_is_cancelled() {
        let rounds = Rounds::new();
        let (cancel, call) = run(&rounds, "a");
        let question = asked(call.await);
        assert_eq!(rounds.len(), 1);
        tokio::time::sleep(limits::SUSPENDED_FOR * 2).await;
        assert_eq!((rounds.len(), cancel.cause()), (0, Some(Cause::Timeout)));
        assert!(refused(resume(&rounds, &binding("a", "t"), question, json!([])).await).contains("too long"));
    }

    #[tokio::test]
    async fn a_state_is_good_for_its_own_request_and_once() {
        let rounds = Rounds::new();
        let question = asked(run(&rounds, "a").1.await);
        for other in [binding("b", "t"), binding("a", "u"), Binding::new(None, "tools/call", "t", "{}")] {
            refused(resume(&rounds, &other, question.clone(), json!([])).await);
        }
        let elsewhere = Rounds::new();
        refused(resume(&elsewhere, &binding("a", "t"), question.clone(), json!([])).await);
        let whose = binding("a", "t");
        assert!(matches!(
            resume(&rounds, &whose, question.clone(), json!([])).await,
            Some(Ok(Outcome::Done))
        ));
        refused(resume(&rounds, &whose, question, json!([])).await);
        assert_eq!(rounds.len(), 0);
    }

    #[tokio::test]
    async fn a_call_does_not_ask_without_end() {
        let rounds = Rounds::new();
        let mut question = asked(run(&rounds, "a").1.await);
        for _ in 1..limits::ROUNDS_MAX {
            question = asked(resume(&rounds, &binding("a", "t"), question, json!([1])).await);
        }
        let last = resume(&rounds, &binding("a", "t"), question, json!([1])).await;
        assert_eq!(refused(last), "the client is asked too much at once");
    }

    #[tokio::test]
    async fn calls_that_wait_are_bounded_for_each() {
        let rounds = Rounds::new();
        let mut cancels = Vec::new();
        for _ in 0..limits::SUSPENDED_EACH_MAX {
            let (cancel, call) = run(&rounds, "a");
            asked(call.await);
            cancels.push(cancel);
        }
        assert_eq!(refused(run(&rounds, "a").1.await), "the client is asked too much at once");
        asked(run(&rounds, "b").1.await);
        drop(rounds);
        assert!(cancels.iter().all(Cancel::is_cancelled), "they end with the server");
    }
}
