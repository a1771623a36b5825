//! The scripted model inside of this process: the same bytes, the same attempts, without a socket.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use haft::future::BoxFuture;
use tokio::time::{Instant, sleep_until};

use super::script_format::ModelScript;
use super::script_player::{ResponseAction, ScriptPlayer, ScriptedResponse};
use crate::Wire;
use crate::exchange::{
    ChunkStream, EndpointState, RequestExchange, RequestTransport, ResponseHead, RetryPolicy,
};
use crate::limits::SILENCE_SECONDS_MAX;
use crate::request::RequestOptions;
use crate::tool_deferral::has_native_form;
use haft_agent::{FailureKind, MessageFormat, Model, ModelFailure, ModelRequest, ReplyStream, ToolDeferral};

/// A model that plays a script. Clones share which injected errors were given.
#[derive(Clone)]
pub struct ScriptedModel {
    line: Arc<EndpointState>,
    options: Arc<RequestOptions>,
    retry: RetryPolicy,
}

impl ScriptedModel {
    /// A model that plays this script by this wire.
    pub fn new(script: ModelScript, wire: Wire) -> ScriptedModel {
        let name = script.model.clone().unwrap_or_else(|| "scripted".to_owned());
        let player = ScriptPlayer::new(Arc::new(script));
        let deferral = if has_native_form(wire) { ToolDeferral::Native } else { ToolDeferral::Fallback };
        ScriptedModel {
            line: Arc::new(EndpointState::new(wire, ScriptedTransport { player, wire }, deferral)),
            options: Arc::new(RequestOptions::new(name)),
            // Nobody is there to be left alone for long.
            retry: RetryPolicy { first: Duration::from_millis(20), ..RetryPolicy::default() },
        }
    }

    /// How it is told of tools that it has to search for. Default: in the wire's own form, where it has one.
    #[must_use]
    pub fn with_deferral(self, deferral: ToolDeferral) -> ScriptedModel {
        self.line.set_deferral(deferral);
        self
    }

    /// How requests are made again.
    #[must_use]
    pub fn retry(mut self, policy: RetryPolicy) -> ScriptedModel {
        self.retry = policy;
        self
    }
}

impl Model for ScriptedModel {
    fn format(&self) -> &'static dyn MessageFormat {
        self.line.wire.into()
    }

    fn name(&self) -> &str {
        &self.options.model
    }

    fn ask(&self, prompt: &ModelRequest<'_>) -> Box<dyn ReplyStream> {
        let body = self.options.body(self.line.wire, prompt);
        let silence = Duration::from_secs(SILENCE_SECONDS_MAX);
        Box::new(RequestExchange::new(self.line.clone(), body, self.retry, silence))
    }

    fn deferral(&self) -> ToolDeferral {
        self.line.deferral()
    }

    fn disable_deferral(&self) {
        self.line.set_deferral(ToolDeferral::Fallback);
    }
}

struct ScriptedTransport {
    player: ScriptPlayer,
    wire: Wire,
}

impl RequestTransport for ScriptedTransport {
    fn send(&self, body: Arc<String>) -> BoxFuture<'_, Result<ResponseHead, ModelFailure>> {
        Box::pin(async move {
            let ScriptedResponse { delay, act } = self.player.play(self.wire, &body, Some(true), None);
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
            match act {
                ResponseAction::Refuse { status, body, retry_after } => {
                    Ok(ResponseHead::Refused { status, body, after: retry_after, again: None })
                }
                ResponseAction::Whole(body) => Ok(ResponseHead::Whole(body)),
                ResponseAction::Stream { frames, between, .. } => {
                    let frames = frames.into();
                    Ok(ResponseHead::Stream(Box::new(FrameStream { frames, between, due: Instant::now() })))
                }
                ResponseAction::HangUp => Err(ModelFailure::new(
                    FailureKind::Disconnected,
                    "the connection was closed without a word",
                )),
            }
        })
    }
}

struct FrameStream {
    frames: VecDeque<String>,
    between: Duration,
    /// When the next one comes.
    due: Instant,
}

impl ChunkStream for FrameStream {
    fn next<'a>(
        &'a mut self,
        feed: &'a mut (dyn FnMut(&[u8]) + Send),
    ) -> BoxFuture<'a, Result<bool, ModelFailure>> {
        Box::pin(async move {
            if !self.between.is_zero() {
                sleep_until(self.due).await;
                self.due = Instant::now() + self.between;
            } else {
                // Whoever interrupts gets a chance to.
                tokio::task::yield_now().await;
            }
            match self.frames.pop_front() {
                Some(frame) => {
                    feed(frame.as_bytes());
                    Ok(true)
                }
                None => Ok(false),
            }
        })
    }
}
