//! Tokens on requests: put on, refused, and what a refusal asks for.

use http::header::AUTHORIZATION;
use http::{HeaderMap, StatusCode};
use reqwest::Request;

use super::super::allowed_addresses::is_confidential;
use super::super::authorized_client;
use super::super::challenge::AuthChallenge;
use super::super::grants::sensitive_header;
use super::super::jwt::ProofKey;
use super::super::net::SignInClient;
use super::{RefusalAction, RetryState, ServerAccount, SignInNeed, UsedToken};
use crate::limits::PROOFS_MAX;
use crate::text;

impl ServerAccount {
    /// Sees to it that there is a token before a connection is made, where nobody has to be asked: whoever
    /// gives tokens may take longer than a handshake may.
    ///
    /// # Errors
    /// None is given, in words.
    pub(crate) async fn prepare(&self) -> Result<(), String> {
        if !is_confidential(&self.url) {
            return Ok(());
        }
        let has = self.record().and_then(|record| record.tokens.clone());
        if let Some(tokens) = &has {
            if tokens.is_over() {
                // If that fails the server has the last word.
                let _ = self.renew_tokens(&tokens.access).await;
            }
            return Ok(());
        }
        if !self.settings.grant.is_alone() {
            return Ok(());
        }
        // Whether it can be reached is for the connection to say.
        let net = SignInClient::new(&self.url, self.proxy.as_deref()).await?;
        if let Ok((StatusCode::UNAUTHORIZED, headers)) = net.refusal_of(&self.url).await {
            self.state().challenge = AuthChallenge::read(&headers);
            self.obtain_tokens(None).await?;
        }
        Ok(())
    }

    /// Puts the token on a request, if there is one and the request goes where it may.
    ///
    /// # Errors
    /// It can't be sent, in words.
    pub(crate) async fn put_on(&self, request: &mut Request) -> Result<Option<UsedToken>, String> {
        if request.url().origin() != self.url.origin() || !is_confidential(request.url()) {
            return Ok(None);
        }
        let Some(mut record) = self.record() else { return Ok(None) };
        let over =
            record.tokens.as_ref().filter(|tokens| tokens.is_over()).map(|tokens| tokens.access.clone());
        if let Some(over) = over {
            // If that fails the server has the last word.
            let _ = self.renew_tokens(&over).await;
            match self.record() {
                Some(newer) => record = newer,
                None => return Ok(None),
            }
        }
        let Some(tokens) = &record.tokens else { return Ok(None) };
        let used = UsedToken { access: tokens.access.clone(), with_proof: tokens.with_proof };
        let kind = if used.with_proof { "DPoP" } else { "Bearer" };
        let value = sensitive_header(&format!("{kind} {}", used.access.reveal()))?;
        if let (true, Some(key)) = (used.with_proof, &record.proof_key) {
            let nonce = self.state().nonce.clone();
            let key = ProofKey::from_secret(key.clone());
            let proof =
                key.proof(request.method().as_str(), request.url(), nonce.as_deref(), Some(&used.access))?;
            request.headers_mut().insert("dpop", sensitive_header(&proof)?);
        }
        request.headers_mut().insert(AUTHORIZATION, value);
        Ok(Some(used))
    }

    /// Looks at an answer for what the next proof has to have in it.
    pub(crate) fn note(&self, headers: &HeaderMap) {
        if let Some(nonce) = headers.get("dpop-nonce").and_then(|nonce| nonce.to_str().ok()) {
            self.state().nonce = Some(nonce.to_owned());
        }
    }

    /// What to do about a request that was refused. Each thing is done once.
    pub(crate) async fn refused(
        &self,
        used: Option<&UsedToken>,
        status: StatusCode,
        headers: &HeaderMap,
        mended: &mut RetryState,
    ) -> RefusalAction {
        let challenge = AuthChallenge::read(headers);
        if mended.proofs < PROOFS_MAX
            && challenge.error.as_deref() == Some("use_dpop_nonce")
            && used.is_some()
        {
            let before = self.state().nonce.clone();
            self.note(headers);
            if self.state().nonce != before {
                mended.proofs += 1;
                return RefusalAction::Again;
            }
        }
        let hide = |words: String| used.map_or(words.clone(), |used| used.access.hidden_in(&words));
        let words = hide(authorized_client::describe_status(status, headers));
        if !is_confidential(&self.url) {
            return RefusalAction::No(format!("{words}; a token is sent by https only"));
        }
        match (status, challenge.error.as_deref()) {
            (StatusCode::FORBIDDEN, Some("insufficient_scope")) => {
                self.wants_more(challenge, words, mended).await
            }
            (StatusCode::FORBIDDEN, _) => RefusalAction::No(words),
            _ => {
                let why = challenge.words.clone().or(challenge.error.clone());
                let why =
                    why.map_or_else(String::new, |why| format!(": {}", hide(text::display_line(&why, 200))));
                self.wants_anew(challenge, used, &why, mended).await
            }
        }
    }

    /// The token is not enough.
    async fn wants_more(
        &self,
        challenge: AuthChallenge,
        words: String,
        mended: &mut RetryState,
    ) -> RefusalAction {
        let record = self.record();
        let wanted = challenge.scopes.clone().unwrap_or_default();
        let asked = record.as_ref().map(|record| record.asked.clone()).unwrap_or_default();
        // To ask again for what was asked for gives the same again.
        if mended.token || wanted.iter().all(|scope| asked.contains(scope)) {
            return RefusalAction::No(format!(
                "{words}; what it wants was asked for and is not given to you"
            ));
        }
        self.state().challenge = challenge;
        if self.settings.grant.is_alone() {
            let used = record.as_ref().and_then(|record| record.tokens.as_ref()).map(|tokens| &tokens.access);
            mended.token = true;
            return match self.obtain_tokens(used).await {
                Ok(()) => RefusalAction::Again,
                Err(words) => RefusalAction::No(words),
            };
        }
        let scopes = text::display_line(&wanted.join(" "), 200);
        let words =
            format!("it wants a further sign-in (HTTP 403), for `{scopes}`; {}", self.describe_grant());
        self.state().needed = Some(SignInNeed { words: words.clone(), for_all: false });
        RefusalAction::SignIn(words)
    }

    /// There is no token, or it is good for nothing.
    async fn wants_anew(
        &self,
        challenge: AuthChallenge,
        used: Option<&UsedToken>,
        why: &str,
        mended: &mut RetryState,
    ) -> RefusalAction {
        self.state().challenge = challenge;
        let mut failed = None;
        if !std::mem::replace(&mut mended.token, true) {
            let renewed = match used {
                _ if self.settings.grant.is_alone() => {
                    self.obtain_tokens(used.map(|used| &used.access)).await.map(|()| true)
                }
                Some(used) => self.renew_tokens(&used.access).await,
                None => Ok(false),
            };
            match renewed {
                Ok(true) => return RefusalAction::Again,
                Ok(false) => {}
                Err(words) => failed = Some(words),
            }
        }
        if let Some(words) = failed {
            return RefusalAction::No(format!("its token could not be renewed: {words}"));
        }
        if self.settings.grant.is_alone() {
            return RefusalAction::No(format!("HTTP 401{why}: a new token is not good for it either"));
        }
        let words = format!("it wants a sign-in (HTTP 401{why}); {}", self.describe_grant());
        self.state().needed = Some(SignInNeed { words: words.clone(), for_all: true });
        RefusalAction::SignIn(words)
    }

    pub(super) fn describe_grant(&self) -> String {
        format!("the user can do that with `haft mcp login {}`", self.server)
    }
}
