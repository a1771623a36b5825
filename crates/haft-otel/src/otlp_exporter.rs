//! The span queue, and the thread that exports it.
//!
//! Adding a span never blocks: the span goes into a bounded queue or is counted as lost. A batch
//! that can't be sent is dropped and not retried, because an unreachable collector must not make
//! the queue grow. Metrics are cumulative, so a later export replaces a lost one. The thread starts
//! with the first span, because most runs have none.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use haft::sync::lock;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

use crate::duration_metrics::DurationMetrics;
use crate::limits::SHUTDOWN_MAX;
use crate::otlp_encoding;
use crate::span::{Span, unix_nanos_now};
use crate::telemetry_config::{ExportTarget, TelemetryConfig};

/// Exports spans and metrics. Clones share one queue and one thread.
#[derive(Clone)]
pub(crate) struct OtlpExporter(Arc<ExporterState>);

struct ExporterState {
    config: TelemetryConfig,
    start: u64,
    queue: Mutex<SpanQueue>,
    /// Notified when there is work, and when the thread ends.
    changed: Condvar,
    metrics: Mutex<DurationMetrics>,
}

#[derive(Default)]
struct SpanQueue {
    spans: VecDeque<Span>,
    /// The number of spans that were taken from the queue and are not yet sent.
    in_flight: usize,
    lost: u64,
    /// The reason of the last failed export.
    last_error: Option<String>,
    started: bool,
    ending: bool,
    ended: bool,
}

impl OtlpExporter {
    pub(crate) fn new(config: TelemetryConfig) -> OtlpExporter {
        OtlpExporter(Arc::new(ExporterState {
            config,
            start: unix_nanos_now(),
            queue: Mutex::default(),
            changed: Condvar::new(),
            metrics: Mutex::default(),
        }))
    }

    pub(crate) fn config(&self) -> &TelemetryConfig {
        &self.0.config
    }

    /// Queues a span.
    pub(crate) fn enqueue(&self, span: Span) {
        if self.0.config.traces.is_none() {
            return;
        }
        let mut queue = lock(&self.0.queue);
        if queue.ending || queue.spans.len() >= self.0.config.queue {
            queue.lost += 1;
            return;
        }
        queue.spans.push_back(span);
        let enough = queue.spans.len() >= self.0.config.batch;
        self.ensure_started(queue);
        if enough {
            self.0.changed.notify_all();
        }
    }

    /// Counts a span that could not be recorded.
    pub(crate) fn count_lost(&self) {
        lock(&self.0.queue).lost += 1;
    }

    /// Records measurements.
    pub(crate) fn record_metrics(&self, add: impl FnOnce(&mut DurationMetrics)) {
        if self.0.config.metrics.is_some() {
            add(&mut lock(&self.0.metrics));
            self.ensure_started(lock(&self.0.queue));
        }
    }

    fn ensure_started(&self, mut queue: MutexGuard<'_, SpanQueue>) {
        if std::mem::replace(&mut queue.started, true) {
            return;
        }
        let exporter = self.clone();
        let made = std::thread::Builder::new().name("haft-otel".to_owned()).spawn(move || exporter.run());
        if let Err(error) = made {
            (queue.ended, queue.ending) = (true, true);
            queue.last_error = Some(format!("no thread can be made: {error}"));
        }
    }

    /// Exports the remaining spans within a time limit; returns a warning if spans were lost.
    pub(crate) fn shutdown(&self) -> Option<String> {
        let mut queue = lock(&self.0.queue);
        queue.ending = true;
        self.0.changed.notify_all();
        let end = Instant::now() + SHUTDOWN_MAX;
        while queue.started && !queue.ended {
            let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) else {
                queue.last_error.get_or_insert_with(|| "the collector took too long".to_owned());
                break;
            };
            let waited = self.0.changed.wait_timeout(queue, left);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let left = (queue.spans.len() + queue.in_flight) as u64;
        queue.spans.clear();
        queue.lost += left;
        let last_error =
            queue.last_error.take().map(|last_error| format!(": {last_error}")).unwrap_or_default();
        match queue.lost {
            0 if last_error.is_empty() => None,
            0 => Some(format!("metrics could not be sent to the collector{last_error}")),
            1 => Some(format!("1 span was not sent to the collector{last_error}")),
            lost => Some(format!("{lost} spans were not sent to the collector{last_error}")),
        }
    }

    fn run(&self) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let (runtime, client) =
            match runtime.map_err(|error| error.to_string()).and_then(|made| Ok((made, build_client()?))) {
                Ok(made) => made,
                Err(last_error) => {
                    let mut queue = lock(&self.0.queue);
                    (queue.ended, queue.ending, queue.last_error) = (true, true, Some(last_error));
                    self.0.changed.notify_all();
                    return;
                }
            };
        let config = &self.0.config;
        let mut metrics_at = Instant::now() + config.interval;
        loop {
            let (batch, ending) = self.next_batch(metrics_at);
            if let Some(target) = config.traces.as_ref().filter(|_| !batch.is_empty()) {
                let sent = runtime.block_on(post(
                    &client,
                    target,
                    otlp_encoding::encode_traces(&config.resource, &batch),
                    ending,
                ));
                let mut queue = lock(&self.0.queue);
                if let Err(last_error) = sent {
                    queue.lost += batch.len() as u64;
                    queue.last_error = Some(last_error);
                }
                queue.in_flight = 0;
            }
            let done = ending && lock(&self.0.queue).spans.is_empty();
            if done || Instant::now() >= metrics_at {
                metrics_at = Instant::now() + config.interval;
                let changed = lock(&self.0.metrics).take_snapshot();
                if let (Some(target), Some(all)) = (&config.metrics, changed) {
                    let body = otlp_encoding::encode_metrics(
                        &config.resource,
                        (self.0.start, unix_nanos_now()),
                        &all,
                    );
                    if let Err(last_error) = runtime.block_on(post(&client, target, body, ending)) {
                        lock(&self.0.queue).last_error = Some(last_error);
                    }
                }
            }
            if done {
                lock(&self.0.queue).ended = true;
                self.0.changed.notify_all();
                return;
            }
        }
    }

    /// Waits for a full batch or the next deadline, then takes the queued spans. Also returns
    /// whether the exporter shuts down.
    fn next_batch(&self, metrics_at: Instant) -> (Vec<Span>, bool) {
        let config = &self.0.config;
        let until = (Instant::now() + config.delay).min(metrics_at.max(Instant::now()));
        let mut queue = lock(&self.0.queue);
        while queue.spans.len() < config.batch && !queue.ending {
            let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
            else {
                break;
            };
            let waited = self.0.changed.wait_timeout(queue, left);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let count = queue.spans.len().min(config.batch);
        queue.in_flight = count;
        (queue.spans.drain(..count).collect(), queue.ending)
    }
}

fn build_client() -> Result<reqwest::Client, String> {
    static CHOSEN: OnceLock<()> = OnceLock::new();
    // rustls accepts one default provider per process; all parts of haft install the same one.
    CHOSEN.get_or_init(|| drop(rustls::crypto::ring::default_provider().install_default()));
    reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .user_agent(concat!("haft/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| error_chain(&error))
}

async fn post(
    client: &reqwest::Client,
    target: &ExportTarget,
    body: Vec<u8>,
    ending: bool,
) -> Result<(), String> {
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
    // reqwest treats a zero timeout as expired.
    let timeout = timeout.max(Duration::from_millis(1));
    let sent = client.post(&target.url).headers(headers).timeout(timeout).body(body).send().await;
    let response = sent.map_err(|error| error_chain(&error.without_url()))?;
    match response.status() {
        status if status.is_success() => Ok(()),
        status => Err(format!("it answered {status}")),
    }
}

/// Formats an error with its sources.
fn error_chain(error: &dyn std::error::Error) -> String {
    let mut message = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        let more = error.to_string();
        if !message.contains(&more) {
            message = format!("{message}: {more}");
        }
        next = error.source();
    }
    message
}
