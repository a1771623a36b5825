//! The queue, and the thread that sends what is in it.
//!
//! Who has a span never waits: it is put into a bounded queue, or counted as lost. A batch that can't be sent is lost as
//! well, and is not tried again: a collector that is away for an hour must not be a queue that grows for one, and metrics
//! are sent as a whole each time. The thread is made with the first span, since most runs of a program have none.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use haft::sync::lock;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

use crate::config::{Config, Target};
use crate::limits::SHUTDOWN_MAX;
use crate::metrics::Metrics;
use crate::span::{Span, now};
use crate::wire;

/// Sends spans and metrics. Clones share everything.
#[derive(Clone)]
pub(crate) struct Exporter(Arc<Shared>);

struct Shared {
    config: Config,
    start: u64,
    waiting: Mutex<Waiting>,
    /// Told when there is something to do, and when the thread has ended.
    changed: Condvar,
    metrics: Mutex<Metrics>,
}

#[derive(Default)]
struct Waiting {
    spans: VecDeque<Span>,
    /// Taken from the queue, and not yet sent.
    under_way: usize,
    lost: u64,
    /// Why something could not be sent, the last time.
    why: Option<String>,
    started: bool,
    ending: bool,
    ended: bool,
}

impl Exporter {
    pub(crate) fn new(config: Config) -> Exporter {
        Exporter(Arc::new(Shared {
            config,
            start: now(),
            waiting: Mutex::default(),
            changed: Condvar::new(),
            metrics: Mutex::default(),
        }))
    }

    pub(crate) fn config(&self) -> &Config {
        &self.0.config
    }

    /// Sends a span, some time.
    pub(crate) fn send(&self, span: Span) {
        if self.0.config.traces.is_none() {
            return;
        }
        let mut waiting = lock(&self.0.waiting);
        if waiting.ending || waiting.spans.len() >= self.0.config.queue {
            waiting.lost += 1;
            return;
        }
        waiting.spans.push_back(span);
        let enough = waiting.spans.len() >= self.0.config.batch;
        self.start(waiting);
        if enough {
            self.0.changed.notify_all();
        }
    }

    /// Counts something that nobody will see.
    pub(crate) fn lose(&self) {
        lock(&self.0.waiting).lost += 1;
    }

    /// Measures something.
    pub(crate) fn measure(&self, add: impl FnOnce(&mut Metrics)) {
        if self.0.config.metrics.is_some() {
            add(&mut lock(&self.0.metrics));
            self.start(lock(&self.0.waiting));
        }
    }

    fn start(&self, mut waiting: MutexGuard<'_, Waiting>) {
        if std::mem::replace(&mut waiting.started, true) {
            return;
        }
        let exporter = self.clone();
        let made = std::thread::Builder::new().name("haft-otel".to_owned()).spawn(move || exporter.work());
        if let Err(error) = made {
            (waiting.ended, waiting.ending) = (true, true);
            waiting.why = Some(format!("no thread can be made: {error}"));
        }
    }

    /// Sends what is left, for a bounded time, and says what was lost.
    pub(crate) fn shutdown(&self) -> Option<String> {
        let mut waiting = lock(&self.0.waiting);
        waiting.ending = true;
        self.0.changed.notify_all();
        let end = Instant::now() + SHUTDOWN_MAX;
        while waiting.started && !waiting.ended {
            let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) else {
                waiting.why.get_or_insert_with(|| "the collector took too long".to_owned());
                break;
            };
            let waited = self.0.changed.wait_timeout(waiting, left);
            waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let left = (waiting.spans.len() + waiting.under_way) as u64;
        waiting.spans.clear();
        waiting.lost += left;
        let why = waiting.why.take().map(|why| format!(": {why}")).unwrap_or_default();
        match waiting.lost {
            0 if why.is_empty() => None,
            0 => Some(format!("metrics could not be sent to the collector{why}")),
            1 => Some(format!("1 span was not sent to the collector{why}")),
            lost => Some(format!("{lost} spans were not sent to the collector{why}")),
        }
    }

    fn work(&self) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let (runtime, client) =
            match runtime.map_err(|error| error.to_string()).and_then(|made| Ok((made, client()?))) {
                Ok(made) => made,
                Err(why) => {
                    let mut waiting = lock(&self.0.waiting);
                    (waiting.ended, waiting.ending, waiting.why) = (true, true, Some(why));
                    self.0.changed.notify_all();
                    return;
                }
            };
        let config = &self.0.config;
        let mut metrics_at = Instant::now() + config.interval;
        loop {
            let (batch, ending) = self.batch(metrics_at);
            if let Some(target) = config.traces.as_ref().filter(|_| !batch.is_empty()) {
                let sent =
                    runtime.block_on(post(&client, target, wire::traces(&config.resource, &batch), ending));
                let mut waiting = lock(&self.0.waiting);
                if let Err(why) = sent {
                    waiting.lost += batch.len() as u64;
                    waiting.why = Some(why);
                }
                waiting.under_way = 0;
            }
            let done = ending && lock(&self.0.waiting).spans.is_empty();
            if done || Instant::now() >= metrics_at {
                metrics_at = Instant::now() + config.interval;
                let changed = lock(&self.0.metrics).take_changed();
                if let (Some(target), Some(all)) = (&config.metrics, changed) {
                    let body = wire::metrics(&config.resource, (self.0.start, now()), &all);
                    if let Err(why) = runtime.block_on(post(&client, target, body, ending)) {
                        lock(&self.0.waiting).why = Some(why);
                    }
                }
            }
            if done {
                lock(&self.0.waiting).ended = true;
                self.0.changed.notify_all();
                return;
            }
        }
    }

    /// Waits for enough spans, or long enough, and takes them. Says whether it is the end.
    fn batch(&self, metrics_at: Instant) -> (Vec<Span>, bool) {
        let config = &self.0.config;
        let until = (Instant::now() + config.delay).min(metrics_at.max(Instant::now()));
        let mut waiting = lock(&self.0.waiting);
        while waiting.spans.len() < config.batch && !waiting.ending {
            let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
            else {
                break;
            };
            let waited = self.0.changed.wait_timeout(waiting, left);
            waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let count = waiting.spans.len().min(config.batch);
        waiting.under_way = count;
        (waiting.spans.drain(..count).collect(), waiting.ending)
    }
}

fn client() -> Result<reqwest::Client, String> {
    static CHOSEN: OnceLock<()> = OnceLock::new();
    // Whoever was first has chosen for all; they all choose this one.
    CHOSEN.get_or_init(|| drop(rustls::crypto::ring::default_provider().install_default()));
    reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .user_agent(concat!("haft/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| chain(&error))
}

async fn post(client: &reqwest::Client, target: &Target, body: Vec<u8>, ending: bool) -> Result<(), String> {
    let timeout = if ending { target.timeout.min(SHUTDOWN_MAX) } else { target.timeout };
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
    for (name, value) in &target.headers {
        let (Ok(key), Ok(mut value)) =
            (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value))
        else {
            return Err(format!("the header `{name}` can't be sent"));
        };
        value.set_sensitive(true);
        headers.insert(key, value);
    }
    // A timeout of no time would be no request.
    let timeout = timeout.max(Duration::from_millis(1));
    let sent = client.post(&target.url).headers(headers).timeout(timeout).body(body).send().await;
    let answer = sent.map_err(|error| chain(&error.without_url()))?;
    match answer.status() {
        status if status.is_success() => Ok(()),
        status => Err(format!("it answered {status}")),
    }
}

/// An error with what is behind it.
fn chain(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        let more = error.to_string();
        if !words.contains(&more) {
            words = format!("{words}: {more}");
        }
        next = error.source();
    }
    words
}
