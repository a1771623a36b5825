//! A server behind a WebSocket: each message is one text frame, by the subprotocol `mcp`.

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use haft::future::BoxFuture;
use http::{HeaderMap, HeaderValue};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async_with_config};

use super::{MessageLink, MessageSource, SendQueue, SilentEnd, error_chain};
use crate::limits::{MESSAGE_BYTES_MAX, READ_BYTES};

type ClientWebSocket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// Connects.
///
/// # Errors
/// Why not, in words.
pub(crate) async fn connect_web_socket(url: &str, headers: HeaderMap) -> Result<MessageLink, String> {
    super::http::choose_tls();
    let mut request =
        url.into_client_request().map_err(|error| format!("the address can't be used: {error}"))?;
    request.headers_mut().extend(headers);
    request.headers_mut().insert("sec-websocket-protocol", HeaderValue::from_static("mcp"));
    let config = WebSocketConfig::default()
        .max_message_size(Some(MESSAGE_BYTES_MAX))
        .max_frame_size(Some(MESSAGE_BYTES_MAX))
        .read_buffer_size(READ_BYTES);
    let (socket, _) = connect_async_with_config(request, Some(config), true).await.map_err(describe_error)?;
    let (sink, stream) = socket.split();
    let outbox = SendQueue::new(sink, false, |sink: &mut SplitSink<ClientWebSocket, Message>, text| {
        Box::pin(async move { sink.send(Message::text(text)).await.map_err(describe_error) })
    });
    Ok(MessageLink { source: Box::new(FrameSource(stream)), outbox, end: Box::new(SilentEnd) })
}

struct FrameSource(SplitStream<ClientWebSocket>);

impl MessageSource for FrameSource {
    fn next<'a>(&'a mut self) -> BoxFuture<'a, Result<Option<Vec<u8>>, String>> {
        Box::pin(async move {
            loop {
                match self.0.next().await {
                    Some(Ok(Message::Text(text))) => return Ok(Some(text.as_bytes().to_vec())),
                    Some(Ok(Message::Binary(bytes))) => return Ok(Some(bytes.to_vec())),
                    // A ping is answered by the library.
                    Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                    Some(Ok(Message::Close(_)) | Err(Error::ConnectionClosed | Error::AlreadyClosed))
                    | None => {
                        return Ok(None);
                    }
                    Some(Err(error)) => return Err(describe_error(error)),
                }
            }
        })
    }
}

fn describe_error(error: Error) -> String {
    match error {
        Error::Http(response) => format!("it answered with HTTP {}", response.status().as_u16()),
        Error::Capacity(_) => format!("it sent a message of more than {MESSAGE_BYTES_MAX} bytes"),
        error => error_chain(&error),
    }
}
