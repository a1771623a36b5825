//! A client on a connection of lines: standard input and output, or anything else that bytes go through.
//!
//! One task reads and writes. A message is read where it lies in the buffer; what is ready at once is answered at once, and
//! everything else in tasks of its own. Answers that are ready together leave together, in one write.
//!
//! A client that doesn't read its answers is not read from either. When its input ends, what it asked for is still answered,
//! for a while: whoever pipes requests in gets the answers out, for as long as they go on reading.

use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;

use haft::future::BoxFuture;
use haft::sync::lock;
use haft::{Cancel, Cause};
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::message::{self, Incoming, NoMessage, Request};
use super::reply::{Refusal, RefusalKind, Stamp};
use super::rounds::Answer;
use super::session::{DUPLICATE, Outlet, Reach, Session, cut_off};
use super::who::{Revision, Way};
use super::wish::{self, Params, Sender};
use super::{Core, Ends};
use crate::limits::{self, READ_BYTES, UNREAD_BYTES_MAX};

/// How much room a connection keeps for what it reads.
const BUFFER_KEPT: usize = 16 * READ_BYTES;

/// Serves one client until it is gone, has to go, or the server ends.
pub(crate) async fn serve<R, W>(core: Arc<Core>, reader: R, writer: W)
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin,
{
    let _ends = Ends(core.clone());
    let outbox = Arc::new(Outbox::default());
    let cancel = core.cancel.child();
    let mut connection = Connection {
        core: core.clone(),
        outbox: outbox.clone(),
        cancel: cancel.clone(),
        ending: core.stopping.child(),
        session: None,
        alone: None,
        jobs: JoinSet::new(),
        senseless: 0,
    };
    let talk = async {
        tokio::select! {
            () = connection.hear(reader) => {}
            _ = core.stopping.cancelled() => {}
        }
        connection.ending.cancel(Cause::Disconnect);
        connection.finish().await;
        // Whatever was cancelled has nothing more to say.
        outbox.close();
        let told_to_go = async {
            core.stopping.cancelled().await;
            tokio::time::sleep(core.limits.shutdown_grace.max(limits::CUT_WAIT)).await;
        };
        tokio::select! {
            () = outbox.stalled() => {}
            () = told_to_go => {}
        }
    };
    tokio::select! {
        // Ends when what is left is read by nobody: then nothing here may wait for it.
        () = talk => {}
        // Ends when the outbox is closed and empty, or nobody takes anything any more.
        () = outbox.write_to(writer) => {}
    }
    core.end(Cause::Disconnect);
    connection.put_in_order().await;
}

struct Connection {
    core: Arc<Core>,
    outbox: Arc<Outbox>,
    cancel: Cancel,
    /// Nothing more comes; subscriptions end.
    ending: Cancel,
    /// Who shook hands.
    session: Option<Arc<Session>>,
    /// Who asked last by requests that stand alone.
    alone: Option<(Sender, Arc<Session>)>,
    jobs: JoinSet<()>,
    senseless: u64,
}

/// Whether to go on.
type Goes = bool;

impl Connection {
    /// Takes messages until there are no more.
    async fn hear<R: AsyncRead + Unpin>(&mut self, mut reader: R) {
        let mut buffer: Vec<u8> = Vec::with_capacity(READ_BYTES);
        let mut searched = 0;
        loop {
            let mut begun = 0;
            while let Some(found) = memchr(&buffer[searched..]) {
                let line = &buffer[begun..searched + found];
                searched += found + 1;
                begun = searched;
                let line = line.strip_suffix(b"\r").unwrap_or(line);
                let is_last = memchr(&buffer[searched..]).is_none();
                if !line.is_empty() && !self.take(line, is_last).await {
                    return;
                }
            }
            buffer.drain(..begun);
            searched = buffer.len();
            if buffer.len() > self.core.limits.message_bytes {
                let words = "the message is too long".into();
                self.say_senseless(&NoMessage { code: message::INVALID_REQUEST, words, id: None });
                return;
            }
            while self.jobs.try_join_next().is_some() {}
            self.outbox.drained().await;
            // One long message must not be remembered by its room.
            if buffer.capacity() > BUFFER_KEPT && buffer.len() < READ_BYTES {
                buffer.shrink_to(READ_BYTES);
            }
            buffer.reserve(READ_BYTES);
            match reader.read_buf(&mut buffer).await {
                Ok(0) => {
                    // The last message may come without the end of its line; one that was cut off makes no sense.
                    let line = std::mem::take(&mut buffer);
                    if message::is_whole(&line) {
                        self.take(&line, true).await;
                    }
                    return;
                }
                Err(_) => return,
                Ok(_) => {}
            }
        }
    }

    async fn take(&mut self, line: &[u8], is_last: bool) -> Goes {
        if message::is_batch(line) {
            return self.take_batch(line);
        }
        match message::read(line) {
            Ok(Incoming::Request(request)) => self.request(request, is_last).await,
            Ok(other) => self.no_request(&other),
            Err(wrong) => return self.say_senseless(&wrong),
        }
        true
    }

    fn no_request(&mut self, message: &Incoming<'_>) {
        match message {
            Incoming::Notification { method, params } => {
                // A number belongs to whoever used it; the two kinds of requests share them on one connection.
                for session in self.session.iter().chain(self.alone.as_ref().map(|(_, session)| session)) {
                    session.heard(method, *params);
                }
            }
            Incoming::Answer { id, outcome } => {
                if let Some(session) = &self.session {
                    session.answered(id, *outcome);
                }
            }
            Incoming::Request(_) => {}
        }
    }

    async fn request(&mut self, request: Request<'_>, is_last: bool) {
        let Request { id, method, params } = request;
        if method == "ping" && self.session.is_none() && params.is_none_or(|params| params.get() == "{}") {
            // Whether somebody is there may be asked before hands are shaken.
            return self.answer(id, &Ok(message::Outcome::Done), &Stamp::new(self.revision()));
        }
        let job = if method == "initialize" {
            let greeting = self.shake_hands(params).await;
            let revision = self.revision();
            return self.answer(id, &greeting, &Stamp::new(revision));
        } else {
            self.begin(id, &method, params).await
        };
        let mut job = match job {
            Ok(job) => Box::pin(job),
            // An answer by that number would be taken for the one to the request that has it.
            Err((refusal, _)) if refusal.message == DUPLICATE => {
                let wrong = NoMessage { code: message::INVALID_REQUEST, words: DUPLICATE.into(), id: None };
                self.outbox.append(|to| message::write_no_message(to, &wrong));
                return;
            }
            Err((refusal, revision)) => return self.answer(id, &Err(refusal), &Stamp::new(revision)),
        };
        // The only thing that is waited for may be done at once. Of several each has its own task from the start: they may
        // be work, and there may be more than one processor.
        if is_last {
            let first = std::future::poll_fn(|cx| Poll::Ready(job.as_mut().poll(cx))).await;
            if first.is_ready() {
                return;
            }
        }
        self.jobs.spawn(job);
    }

    /// Takes a request that is answered by a job.
    async fn begin(
        &mut self,
        id: &RawValue,
        method: &str,
        params: Option<&RawValue>,
    ) -> Result<impl Future<Output = ()> + Send + use<>, (Refusal, Revision)> {
        let (session, job) = self.begin_unanswered(id, method, params).await?;
        let (outbox, id) = (self.outbox.clone(), id.to_owned());
        Ok(async move {
            if let Some(outcome) = job.await {
                outbox.append(|to| message::write_answer(to, &id, &outcome, session.stamp()));
            }
        })
    }

    async fn begin_unanswered(
        &mut self,
        id: &RawValue,
        method: &str,
        params: Option<&RawValue>,
    ) -> Result<(Arc<Session>, impl Future<Output = Answer> + Send + use<>), (Refusal, Revision)> {
        let revision = self.revision();
        let refused = |refusal| (refusal, revision);
        let mut params = Params::read(params).map_err(refused)?;
        let mut level = None;
        let session = if params.is_alone() || method == "server/discover" {
            let newest = |refusal| (refusal, Revision::V2026_07_28);
            let sender = params.take_sender().map_err(newest)?;
            level = sender.level;
            self.session_of(sender).await.map_err(newest)?
        } else {
            let first = || {
                Refusal::new(
                    RefusalKind::Code(message::INVALID_REQUEST),
                    "the first request has to be `initialize`, or each has to say in `_meta` who asks",
                )
            };
            match &self.session {
                Some(session) => session.clone(),
                None => return Err(refused(first())),
            }
        };
        let reach = Reach { outlet: self.outbox.clone(), cancel: session.cancel().child(), level };
        let job =
            session.begin(id, method, params, reach).map_err(|refusal| (refusal, session.revision()))?;
        Ok((session, job))
    }

    fn revision(&self) -> Revision {
        self.session.as_ref().map_or(Revision::LATEST_WITH_HANDSHAKE, |session| session.revision())
    }

    async fn shake_hands(&mut self, params: Option<&RawValue>) -> Answered {
        if self.session.is_some() {
            let kind = RefusalKind::Code(message::INVALID_REQUEST);
            return Err(Refusal::new(kind, "hands were shaken already on this connection"));
        }
        let client = wish::handshake(params, Way::Stdio)?;
        let session = Session::open(&self.core, client, self.cancel.child(), self.ending.clone()).await?;
        let greeting = session.greeting();
        let (told, outbox) = (session.clone(), self.outbox.clone());
        let cancel = session.cancel().clone();
        tokio::spawn(async move {
            tokio::select! {
                () = told.tell_changes(&*outbox) => {}
                _ = cancel.cancelled() => {}
            }
        });
        self.session = Some(session);
        Ok(greeting)
    }

    async fn session_of(&mut self, sender: Sender) -> Result<Arc<Session>, Refusal> {
        if let Some((known, session)) = &self.alone
            && known.is_same(&sender)
        {
            return Ok(session.clone());
        }
        let session =
            Session::open(&self.core, sender.client(Way::Stdio), self.cancel.child(), self.ending.clone())
                .await?;
        self.alone = Some((sender, session.clone()));
        Ok(session)
    }

    /// Takes several messages at once, as two old revisions have them. All requests are answered together.
    fn take_batch(&mut self, line: &[u8]) -> Goes {
        let Some(session) =
            self.session.clone().filter(|session| session.revision() <= Revision::V2025_03_26)
        else {
            let words = "batches are not part of this revision".into();
            return self.say_senseless(&NoMessage { code: message::INVALID_REQUEST, words, id: None });
        };
        let texts = match message::batch(line) {
            Ok(texts) => texts,
            Err(wrong) => return self.say_senseless(&wrong),
        };
        let batch = Batch::begin(&session, &texts, &(self.outbox.clone() as Arc<dyn Outlet>), |other| {
            self.no_request(other);
        });
        let outbox = self.outbox.clone();
        self.jobs.spawn(async move {
            if let Some(answers) = batch.answers(session.stamp()).await {
                outbox.append(|to| to.extend_from_slice(&answers));
            }
        });
        true
    }

    fn answer(&self, id: &RawValue, outcome: &Answered, stamp: &Stamp) {
        self.outbox.append(|to| message::write_answer(to, id, outcome, stamp));
    }

    fn say_senseless(&mut self, wrong: &NoMessage) -> Goes {
        self.outbox.append(|to| message::write_no_message(to, wrong));
        self.senseless += 1;
        self.senseless < limits::INVALID_MAX
    }

    /// Lets what is under way come to its end, for a while.
    async fn finish(&mut self) {
        let all = async { while self.jobs.join_next().await.is_some() {} };
        if tokio::time::timeout(self.core.limits.shutdown_grace, all).await.is_err() {
            self.cancel.cancel(Cause::Shutdown);
            // Most say how far they came. Who can't in time is spoken for: whoever started this may not wait any longer.
            let all = async { while self.jobs.join_next().await.is_some() {} };
            if tokio::time::timeout(limits::CUT_WAIT, all).await.is_err() {
                self.cut();
            }
            self.put_in_order().await;
        }
    }

    /// Answers what is still under way, in place of those who work on it.
    fn cut(&self) {
        for session in self.session.iter().chain(self.alone.as_ref().map(|(_, session)| session)) {
            for id in session.cut() {
                if let Ok(id) = RawValue::from_string(id.into()) {
                    self.answer(&id, &Err(cut_off()), session.stamp());
                }
            }
        }
    }

    /// Lets what was cancelled put things in order, for a while.
    async fn put_in_order(&mut self) {
        let all = async { while self.jobs.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(limits::CANCEL_GRACE * 2, all).await;
    }
}

type Answered = Result<message::Outcome, Refusal>;

/// Several requests that are answered together.
pub(crate) struct Batch {
    jobs: Vec<(Box<RawValue>, BoxFuture<'static, Answer>)>,
    /// What is answered already.
    answers: Vec<Vec<u8>>,
}

impl Batch {
    /// Takes the messages of a batch; what are no requests goes to `other`.
    pub(crate) fn begin(
        session: &Arc<Session>,
        texts: &[&RawValue],
        outlet: &Arc<dyn Outlet>,
        mut other: impl FnMut(&Incoming<'_>),
    ) -> Batch {
        let mut batch = Batch { jobs: Vec::new(), answers: Vec::new() };
        for text in texts {
            match message::read(text.get().as_bytes()) {
                Ok(Incoming::Request(Request { id, method, params })) => {
                    let reach =
                        Reach { outlet: outlet.clone(), cancel: session.cancel().child(), level: None };
                    let begun =
                        Params::read(params).and_then(|params| session.begin(id, &method, params, reach));
                    match begun {
                        Ok(job) => batch.jobs.push((id.to_owned(), Box::pin(job))),
                        Err(refusal) => {
                            let mut answer = Vec::new();
                            message::write_answer(&mut answer, id, &Err(refusal), session.stamp());
                            batch.answers.push(answer);
                        }
                    }
                }
                Ok(message) => other(&message),
                Err(wrong) => {
                    let mut answer = Vec::new();
                    message::write_no_message(&mut answer, &wrong);
                    batch.answers.push(answer);
                }
            }
        }
        batch
    }

    /// All answers as one message; none if nothing was asked.
    pub(crate) async fn answers(mut self, stamp: &Stamp) -> Option<Vec<u8>> {
        let (ids, jobs): (Vec<_>, Vec<_>) = self.jobs.into_iter().unzip();
        for (id, answer) in ids.iter().zip(futures_util::future::join_all(jobs).await) {
            if let Some(outcome) = answer {
                let mut answer = Vec::new();
                message::write_answer(&mut answer, id, &outcome, stamp);
                self.answers.push(answer);
            }
        }
        if self.answers.is_empty() {
            return None;
        }
        let mut all = vec![b'['];
        all.extend(self.answers.join(&b','));
        all.push(b']');
        Some(all)
    }
}

/// Where the end of a line is.
fn memchr(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| *byte == b'\n')
}

/// What waits to be written.
#[derive(Default)]
pub(crate) struct Outbox {
    queue: Mutex<Queue>,
    /// There is something to write, or never will be.
    filled: Notify,
    /// Something was written.
    emptied: Notify,
}

#[derive(Default)]
struct Queue {
    bytes: Vec<u8>,
    closed: bool,
}

impl Outbox {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        lock(&self.queue)
    }

    /// Adds a message; whether anybody will see it.
    fn append(&self, write: impl FnOnce(&mut Vec<u8>)) -> bool {
        {
            let mut queue = self.queue();
            if queue.closed {
                return false;
            }
            write(&mut queue.bytes);
            queue.bytes.push(b'\n');
        }
        self.filled.notify_one();
        true
    }

    fn close(&self) {
        self.queue().closed = true;
        self.filled.notify_one();
    }

    /// Waits until a client that reads slowly has read something.
    async fn drained(&self) {
        while self.queue().bytes.len() > UNREAD_BYTES_MAX {
            self.emptied.notified().await;
        }
    }

    /// Waits until nothing was read for a while.
    async fn stalled(&self) {
        while tokio::time::timeout(limits::READ_STALL, self.emptied.notified()).await.is_ok() {}
    }

    /// Writes whatever comes until the outbox is closed and empty, or nobody takes it.
    async fn write_to<W: AsyncWrite + Unpin>(&self, mut writer: W) {
        let mut taken = Vec::new();
        loop {
            let closed = {
                let mut queue = self.queue();
                std::mem::swap(&mut queue.bytes, &mut taken);
                queue.closed
            };
            if taken.is_empty() {
                if closed {
                    return;
                }
                self.filled.notified().await;
                continue;
            }
            let mut left = &taken[..];
            while !left.is_empty() {
                match writer.write(left).await {
                    Ok(count) if count > 0 => left = &left[count..],
                    _ => {
                        self.queue().closed = true;
                        return;
                    }
                }
                self.emptied.notify_one();
            }
            if writer.flush().await.is_err() {
                self.queue().closed = true;
                return;
            }
            // One long answer must not be remembered by its room.
            if taken.capacity() > 2 * READ_BYTES {
                taken = Vec::new();
            }
            taken.clear();
        }
    }
}

impl Outlet for Outbox {
    fn notify(&self, message: Vec<u8>) {
        if self.queue().bytes.len() <= UNREAD_BYTES_MAX {
            self.append(|to| to.extend_from_slice(&message));
        }
    }

    fn post(&self, message: Vec<u8>) -> bool {
        self.append(|to| to.extend_from_slice(&message))
    }
}
