//! Batches of the two oldest revisions: several messages at once, whose responses are sent together.

use std::sync::Arc;

use haft::future::BoxFuture;
use serde_json::value::RawValue;

use super::client_info::ProtocolRevision;
use super::json_rpc::{
    IncomingMessage, InvalidMessage, RpcRequest, read_batch, read_message, write_invalid, write_response,
};
use super::session::{MessageSink, RequestContext, RequestOutcome, ServerSession};

/// The requests of a batch.
pub(crate) struct MessageBatch {
    session: Arc<ServerSession>,
    requests: Vec<(Box<RawValue>, BoxFuture<'static, RequestOutcome>)>,
    /// Responses to messages that were refused.
    responses: Vec<Vec<u8>>,
}

impl MessageBatch {
    pub(crate) fn unsupported() -> InvalidMessage {
        InvalidMessage::invalid_request("batches are not part of this revision")
    }

    /// # Errors
    /// The revision has no batches, or it is no list of messages.
    pub(crate) fn begin(
        session: &Arc<ServerSession>,
        text: &[u8],
        sink: &Arc<dyn MessageSink>,
    ) -> Result<MessageBatch, InvalidMessage> {
        if session.revision() > ProtocolRevision::V2025_03_26 {
            return Err(MessageBatch::unsupported());
        }
        let mut batch =
            MessageBatch { session: session.clone(), requests: Vec::new(), responses: Vec::new() };
        for text in read_batch(text)? {
            match read_message(text.get().as_bytes()) {
                Ok(IncomingMessage::RpcRequest(request)) => batch.begin_request(&request, sink),
                Ok(IncomingMessage::Notification { method, params }) => {
                    session.receive_notification(&method, params);
                }
                Ok(IncomingMessage::Response { id, result }) => session.receive_response(id, result),
                Err(invalid) => batch.respond(|to| write_invalid(to, &invalid)),
            }
        }
        Ok(batch)
    }

    fn begin_request(&mut self, request: &RpcRequest<'_>, sink: &Arc<dyn MessageSink>) {
        let RpcRequest { id, method, params } = request;
        let session = self.session.clone();
        let cancel = session.cancel().child();
        let context = RequestContext { sink: sink.clone(), cancel, log_level: None };
        match session.begin_raw(id, method, *params, context) {
            Ok(work) => self.requests.push(((*id).to_owned(), Box::pin(work))),
            Err(error) => self.respond(|to| write_response(to, id, Err(error), session.stamp())),
        }
    }

    fn respond(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut response = Vec::new();
        write(&mut response);
        self.responses.push(response);
    }

    /// All responses as one message; `None` if there is none.
    pub(crate) async fn responses(mut self) -> Option<Vec<u8>> {
        let (ids, requests): (Vec<_>, Vec<_>) = std::mem::take(&mut self.requests).into_iter().unzip();
        let outcomes = futures_util::future::join_all(requests).await;
        let session = self.session.clone();
        for (id, outcome) in ids.iter().zip(outcomes) {
            if let Some(result) = outcome {
                self.respond(|to| write_response(to, id, result, session.stamp()));
            }
        }
        if self.responses.is_empty() {
            return None;
        }
        let mut message = vec![b'['];
        message.extend(self.responses.join(&b','));
        message.push(b']');
        Some(message)
    }
}
