//! Requests of a transport with a token on them, and what is done when one is refused.
//!
//! A request that was answered with 401 was not carried out, so it is sent again with a newer token: once,
//! and only then. No other answer makes it be sent twice.

use std::sync::Arc;

use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderMap, StatusCode};
use reqwest::{Client, RequestBuilder, Response};

use super::account::{RefusalAction, RetryState, ServerAccount};
use crate::text;
use crate::transport::error_chain;

/// Requests to one server. Cheap to clone.
#[derive(Clone)]
pub(crate) struct AuthorizedClient {
    pub(crate) client: Client,
    pub(crate) headers: Arc<HeaderMap>,
    account: Option<Arc<ServerAccount>>,
}

/// A request without an answer that can be used.
#[derive(Debug)]
pub(crate) struct RequestError {
    pub(crate) words: String,
    /// Nobody was there to take it.
    pub(crate) unheard: bool,
    /// It was refused; whether a sign-in helps.
    pub(crate) refused: Option<WantsSignIn>,
}

/// Whether a sign-in helps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WantsSignIn(pub(crate) bool);

impl AuthorizedClient {
    /// Requests with these headers. Where they say who we are, no token is put beside that.
    pub(crate) fn new(
        client: Client,
        headers: HeaderMap,
        account: Option<Arc<ServerAccount>>,
    ) -> AuthorizedClient {
        let account = account.filter(|_| !headers.contains_key(AUTHORIZATION));
        AuthorizedClient { client, headers: Arc::new(headers), account }
    }

    /// Gets a token beforehand, where that needs nobody.
    ///
    /// # Errors
    /// None is given, in words.
    pub(crate) async fn prepare(&self) -> Result<(), String> {
        match &self.account {
            Some(account) => account.prepare().await,
            None => Ok(()),
        }
    }

    /// Sends one, and once more if a refusal can be mended without a user.
    pub(crate) async fn send(&self, request: RequestBuilder) -> Result<Response, RequestError> {
        let failed = |words: String| RequestError { words, unheard: false, refused: None };
        let request = request.build().map_err(|error| failed(error_chain(&error.without_url())))?;
        let mut mended = RetryState::default();
        loop {
            let mut attempt =
                request.try_clone().ok_or_else(|| failed("it can't be sent twice".to_owned()))?;
            let used = match &self.account {
                Some(account) => account.put_on(&mut attempt).await.map_err(failed)?,
                None => None,
            };
            let response = self.client.execute(attempt).await.map_err(|error| RequestError {
                unheard: error.is_connect(),
                words: send_error(error),
                refused: None,
            })?;
            let status = response.status();
            if status != StatusCode::UNAUTHORIZED && status != StatusCode::FORBIDDEN {
                if let Some(account) = &self.account {
                    account.note(response.headers());
                }
                return Ok(response);
            }
            let verdict = match &self.account {
                Some(account) => {
                    account.refused(used.as_ref(), status, response.headers(), &mut mended).await
                }
                None => RefusalAction::No(describe_status(status, response.headers())),
            };
            let (words, sign_in) = match verdict {
                RefusalAction::Again => continue,
                RefusalAction::SignIn(words) => (words, true),
                RefusalAction::No(words) => (words, false),
            };
            return Err(RequestError { words, unheard: false, refused: Some(WantsSignIn(sign_in)) });
        }
    }
}

/// Why a request can't be sent: of a connection that can't be made only the cause, since its layers are
/// nobody's matter.
fn send_error(error: reqwest::Error) -> String {
    let error = error.without_url();
    if !error.is_connect() {
        return error_chain(&error);
    }
    let mut cause: &dyn std::error::Error = &error;
    while let Some(behind) = cause.source() {
        cause = behind;
    }
    text::display_line(&format!("it can't be reached: {cause}"), 500)
}

/// A refusal in words.
pub(crate) fn describe_status(status: StatusCode, headers: &HeaderMap) -> String {
    let challenge = headers.get(WWW_AUTHENTICATE).and_then(|value| value.to_str().ok());
    let words = format!("HTTP {}; {}", status.as_u16(), challenge.unwrap_or("it wants an authorization"));
    text::display_line(&words, 300)
}
