//! The older form of HTTP: one long answer with events comes in, and each message goes out as a request of
//! its own.
//!
//! The first event names the address for messages. It has to be of the same origin: a server that could send
//! our headers elsewhere would be sending our secrets there.

use std::sync::Arc;

use haft::future::BoxFuture;
use http::header::{ACCEPT, CONTENT_TYPE};
use url::Url;

use super::events::EventQueue;
use super::{MessageLink, MessageSource, SendQueue, SilentEnd, error_chain};
use crate::limits::POST_TIMEOUT;
use crate::sign_in::authorized_client::AuthorizedClient;

/// Connects, and waits for the address to which messages go.
///
/// # Errors
/// Why not, in words.
pub(crate) async fn connect_sse(requests: AuthorizedClient, url: &str) -> Result<MessageLink, String> {
    let base = Url::parse(url).map_err(|error| format!("the address can't be used: {error}"))?;
    let request = requests.client.get(base.clone()).headers((*requests.headers).clone());
    let request = request.header(ACCEPT, "text/event-stream");
    let response = requests.send(request).await.map_err(|failure| failure.words)?;
    if !response.status().is_success() {
        return Err(format!("it answered with HTTP {}", response.status().as_u16()));
    }
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !kind.starts_with("text/event-stream") {
        return Err(format!(
            "it answered with `{}` in place of events",
            crate::text::display_line(kind, 100)
        ));
    }
    let mut stream = SseStream { response, events: EventQueue::default() };
    let endpoint = loop {
        let event = stream.event().await?.ok_or("it ended before it named an address for messages")?;
        if event.0.as_deref() == Some("endpoint") {
            break event.1;
        }
    };
    let target = base
        .join(endpoint.trim())
        .map_err(|error| format!("its address for messages is no address: {error}"))?;
    if target.origin() != base.origin() {
        return Err(format!(
            "its address for messages is at another origin, `{}`",
            crate::text::display_line(&target.origin().ascii_serialization(), 200)
        ));
    }
    let sending = Arc::new((requests, target));
    let outbox =
        SendQueue::new(sending, false, |sending, text| Box::pin(post_message(sending.clone(), text)));
    Ok(MessageLink { source: Box::new(stream), outbox, end: Box::new(SilentEnd) })
}

async fn post_message(sending: Arc<(AuthorizedClient, Url)>, text: String) -> Result<(), String> {
    let (requests, target) = &*sending;
    let request = requests.client.post(target.clone()).headers((*requests.headers).clone());
    let request = request.header(CONTENT_TYPE, "application/json").timeout(POST_TIMEOUT).body(text);
    let response = requests.send(request).await;
    let response = response.map_err(|failure| format!("nothing can be sent: {}", failure.words))?;
    if response.status().is_success() {
        Ok(())
    } else {
        Err(format!("a message was answered with HTTP {}", response.status().as_u16()))
    }
}

/// Events of an answer that doesn't end.
struct SseStream {
    response: reqwest::Response,
    events: EventQueue,
}

impl SseStream {
    /// The next event with its data.
    async fn event(&mut self) -> Result<Option<(Option<String>, String)>, String> {
        loop {
            while let Some(event) = self.events.next() {
                if let Some(data) = event.data {
                    return Ok(Some((event.kind, data)));
                }
            }
            match self.response.chunk().await {
                Ok(Some(bytes)) => self.events.feed(&bytes)?,
                Ok(None) => return Ok(None),
                Err(error) => return Err(error_chain(&error.without_url())),
            }
        }
    }
}

impl MessageSource for SseStream {
    fn next<'a>(&'a mut self) -> BoxFuture<'a, Result<Option<Vec<u8>>, String>> {
        Box::pin(async move {
            loop {
                match self.event().await? {
                    Some((None, data)) => return Ok(Some(data.into_bytes())),
                    Some((Some(kind), data)) if kind == "message" => return Ok(Some(data.into_bytes())),
                    Some(_) => {}
                    None => return Ok(None),
                }
            }
        })
    }
}
