//! Answers over HTTP: the message as it is written, and the status that goes with it.
//!
//! In the newest revision the status says what kind of error there was; before, the message alone does.

use http::{Response, StatusCode};
use serde_json::value::RawValue;

use super::message::{self, NoMessage, Outcome};
use super::reply::{Refusal, Stamp};
use super::sent::Sent;
use super::who::Revision;

/// The status of an error in the newest revision.
pub(super) fn status(refusal: &Refusal, revision: Revision) -> StatusCode {
    status_of_code(i64::from(refusal.code(revision)))
}

fn status_of_code(code: i64) -> StatusCode {
    match code {
        -32601 => StatusCode::NOT_FOUND,
        -32700 | -32600 | -32602 | -32020 | -32021 | -32022 => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

/// The same for an answer that is written already.
pub(super) fn status_of(answer: &[u8]) -> StatusCode {
    #[derive(serde::Deserialize)]
    struct Failed {
        error: Option<Code>,
    }
    #[derive(serde::Deserialize)]
    struct Code {
        code: i64,
    }
    let failed = serde_json::from_slice::<Failed>(answer).ok().and_then(|failed| failed.error);
    failed.map_or(StatusCode::OK, |error| status_of_code(error.code))
}

pub(super) fn answered(
    status: StatusCode,
    id: &RawValue,
    outcome: &Result<Outcome, Refusal>,
    stamp: &Stamp,
) -> Response<Sent> {
    let mut text = Vec::with_capacity(256);
    message::write_answer(&mut text, id, outcome, stamp);
    Sent::json(status, text)
}

pub(super) fn refused(id: &RawValue, refusal: Refusal, revision: Revision) -> Response<Sent> {
    answered(status(&refusal, revision), id, &Err(refusal), &Stamp::new(revision))
}

/// Revisions with a handshake say everything in the message.
pub(super) fn refused_ok(id: &RawValue, refusal: Refusal, stamp: &Stamp) -> Response<Sent> {
    answered(StatusCode::OK, id, &Err(refusal), stamp)
}

pub(super) fn senseless(wrong: &NoMessage) -> Response<Sent> {
    let mut text = Vec::new();
    message::write_no_message(&mut text, wrong);
    Sent::json(StatusCode::BAD_REQUEST, text)
}
