//! A name server that knows nothing: it refuses every question and notes the name.
//!
//! Names are resolved by the proxy, on the host. A program that asks for an address doesn't use the proxy;
//! the note is how its user learns which host it wanted. Names without a dot are not noted: they are the
//! machine's own more often than not. An answer is never longer than its question, and nothing but a plain
//! question is answered.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};

use super::limits;
use super::session::NetworkSession;

const HEADER_BYTES: usize = 12;
const FORMAT_ERROR: u8 = 1;
const REFUSED: u8 = 5;

/// Answers datagrams, for as long as it is polled.
pub(super) async fn serve_datagrams(session: Arc<NetworkSession>, socket: UdpSocket) {
    let mut query = vec![0; limits::QUERY_BYTES_MAX];
    loop {
        match socket.recv_from(&mut query).await {
            Ok((count, from)) => {
                if let Some(answer) = answer_query(&query[..count], |name| session.asked_for(name)) {
                    // Whoever doesn't take its answer asks again.
                    let _ = socket.try_send_to(&answer, from);
                }
            }
            Err(_) => tokio::time::sleep(limits::ACCEPT_PAUSE).await,
        }
    }
}

/// Answers one connection.
pub(super) async fn serve_connection(session: Arc<NetworkSession>, mut stream: TcpStream) {
    let questions = async {
        for _ in 0..limits::DNS_QUERIES_MAX {
            let count = usize::from(stream.read_u16().await?);
            if count > limits::QUERY_BYTES_MAX {
                break;
            }
            let mut query = vec![0; count];
            stream.read_exact(&mut query).await?;
            let Some(answer) = answer_query(&query, |name| session.asked_for(name)) else { break };
            let count = u16::try_from(answer.len()).map_err(io::Error::other)?;
            stream.write_all(&[&count.to_be_bytes()[..], &answer].concat()).await?;
        }
        Ok::<(), io::Error>(())
    };
    // A client that is slow or gone is let go.
    let _ = tokio::time::timeout(session.times.head, questions).await;
}

/// The answer to a message, if it is a question at all; tells the name if it can be read.
pub(super) fn answer_query(query: &[u8], asked: impl FnOnce(&str)) -> Option<Vec<u8>> {
    let header = query.first_chunk::<HEADER_BYTES>()?;
    let is_answer = header[2] & 0x80 != 0;
    if is_answer {
        return None;
    }
    let plain = header[2] & 0x78 == 0 && header[4..6] == [0, 1];
    let question = if plain { read_question(&query[HEADER_BYTES..]) } else { None };
    // The same number, operation and "recursion desired".
    let mut answer = vec![header[0], header[1], 0x80 | header[2] & 0x79, 0];
    match question {
        Some((name, bytes)) => {
            if name.contains('.') {
                asked(&name);
            }
            answer[3] = REFUSED;
            answer.extend_from_slice(&[0, 1, 0, 0, 0, 0, 0, 0]);
            answer.extend_from_slice(bytes);
        }
        None => {
            answer[3] = if plain { FORMAT_ERROR } else { REFUSED };
            answer.extend_from_slice(&[0; 8]);
        }
    }
    Some(answer)
}

/// The name of the first question as text, and its bytes. A name in a question has no need for pointers.
fn read_question(bytes: &[u8]) -> Option<(String, &[u8])> {
    let mut name = String::new();
    let mut at = 0;
    loop {
        let length = usize::from(*bytes.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        let label = bytes.get(at..at + length).filter(|_| length <= 63)?;
        at += length;
        if at > 254 {
            return None;
        }
        if !name.is_empty() {
            name.push('.');
        }
        for byte in label {
            match byte.to_ascii_lowercase() {
                byte @ (b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_') => name.push(byte.into()),
                byte => name.push_str(&format!("\\{byte:03}")),
            }
        }
    }
    // Type and class.
    Some((name, bytes.get(..at + 4)?))
}
