//! A user signs in by a page, and out again.

use tokio::time::timeout;

use super::super::allowed_addresses::is_confidential;
use super::super::challenge::AuthChallenge;
use super::super::client::{self, OAuthClient};
use super::super::discovery;
use super::super::grants::{NoTokens, TokenEndpoint};
use super::super::jwt::ProofKey;
use super::super::listener::RedirectListener;
use super::super::net::SignInClient;
use super::super::page::{PageOpener, PendingSignIn};
use super::{ServerAccount, SignInRecord, SignedIn};
use crate::limits::SIGN_IN_TIMEOUT;

impl ServerAccount {
    /// Signs in, with a user who opens a page.
    ///
    /// # Errors
    /// Why not, in words.
    pub(crate) async fn sign_in(&self, browser: Option<&dyn PageOpener>) -> Result<SignedIn, String> {
        if !is_confidential(&self.url) {
            return Err("a token is sent by https only, and the server's address is not".to_owned());
        }
        if self.settings.grant.is_alone() {
            let used = self.record().and_then(|record| Some(record.tokens.as_ref()?.access.clone()));
            self.obtain_tokens(used.as_ref()).await?;
        } else {
            let browser = browser.ok_or("there is nobody who could open a page")?;
            let in_time = timeout(SIGN_IN_TIMEOUT, self.sign_in_by_page(browser)).await;
            let late = |_| Err(format!("nobody signed in within {} s", SIGN_IN_TIMEOUT.as_secs()));
            if let Err(words) = in_time.unwrap_or_else(late) {
                self.doubt_client().await;
                return Err(words);
            }
        }
        {
            let mut state = self.state();
            state.needed = None;
            // Where the server describes itself stays true.
            (state.challenge.scopes, state.challenge.error, state.challenge.words) = (None, None, None);
        }
        self.signed_in().ok_or_else(|| "the sign-in was undone at once".to_owned())
    }

    /// A sign-in didn't succeed: perhaps because our name isn't known there any more, so the next one gets
    /// another.
    async fn doubt_client(&self) {
        let Ok(_held) = self.store.lock(&self.key).await else { return };
        if let Some(before) = self.load().filter(|before| before.client.redirect.is_some()) {
            let mut record = SignInRecord::clone(&before);
            record.client.redirect = None;
            if let Err(words) = self.keep(record) {
                self.log_complaint(&words);
            }
        }
    }

    async fn sign_in_by_page(&self, browser: &dyn PageOpener) -> Result<(), String> {
        // Nobody should sign in for what can't be kept.
        drop(self.store.lock(&self.key).await?);
        let net = SignInClient::new(&self.url, self.proxy.as_deref()).await?;
        let mut challenge = self.state().challenge.clone();
        if challenge == AuthChallenge::default() {
            challenge = AuthChallenge::read(&net.refusal_of(&self.url).await?.1);
        }
        let issuer = discovery::discover_issuer(&net, &self.url, &challenge, &self.settings).await?;
        // What another one gave, names included, is nothing to this one.
        let before = self.load().filter(|before| before.issuer == issuer.name);
        let asked = before.as_ref().map(|before| before.asked.clone()).unwrap_or_default();
        let scopes = discovery::scopes_to_ask(&issuer, &challenge, &self.settings, &asked);
        let known = before.as_ref().map(|before| &before.client);
        let listener =
            RedirectListener::open(self.settings.callback_port, known.and_then(OAuthClient::registered_port))
                .await?;
        let redirect = listener.redirect();
        let client = client::for_sign_in(&net, &issuer, &self.settings, &redirect, known, &scopes).await?;
        let question = PendingSignIn::new(&self.server, &issuer, &client.id, &redirect, &scopes)?;

        let arrives = listener.answer(&question);
        tokio::pin!(arrives);
        let code = tokio::select! {
            code = &mut arrives => code,
            pasted = browser.open(&question.page) => match pasted {
                Some(address) => question.accept_pasted(&address),
                None => arrives.await,
            },
        }?;

        let proof = if issuer.wants_proof { Some(ProofKey::generate()?) } else { None };
        let mut form = vec![
            ("grant_type", "authorization_code"),
            ("code", code.code.reveal()),
            ("redirect_uri", &*redirect),
            ("code_verifier", code.verifier.reveal()),
        ];
        form.extend(issuer.resource.as_deref().map(|resource| ("resource", resource)));
        let counter = self.token_endpoint(&net, &issuer, &client, proof.as_ref());
        let tokens = counter.ask(&form, &[&code.code, &code.verifier]).await.map_err(NoTokens::words)?;
        let _held = self.store.lock(&self.key).await?;
        self.keep(self.made(&issuer, client, scopes, tokens, proof.as_ref()))
            .map_err(|words| format!("the sign-in can't be kept: {words}"))
    }

    /// Gives the tokens back and forgets them; whether there were any.
    ///
    /// # Errors
    /// They are still kept, in words.
    pub(crate) async fn sign_out(&self) -> Result<bool, String> {
        let _asking = self.asking.lock().await;
        let record = if self.settings.grant.is_alone() {
            self.record()
        } else {
            let _held = self.store.lock(&self.key).await?;
            let record = self.load();
            self.store.forget(&self.key)?;
            record
        };
        {
            let mut state = self.state();
            (state.record, state.loaded, state.nonce) = (None, true, None);
        }
        let Some(record) = record else { return Ok(false) };
        // That they are forgotten counts; that they are of no use any more is a favour of the other side.
        if let Err(words) = self.revoke_tokens(&record).await {
            self.log_complaint(&format!("the tokens could not be given back: {words}"));
        }
        Ok(record.tokens.is_some())
    }

    async fn revoke_tokens(&self, record: &SignInRecord) -> Result<(), String> {
        let (Some(address), Some(tokens)) = (&record.revocation_endpoint, &record.tokens) else {
            return Ok(());
        };
        let net = SignInClient::new(&self.url, self.proxy.as_deref()).await?;
        let url = net.places.check(address, "the address where tokens are given back")?;
        let (kind, token) = match &tokens.refresh {
            Some(refresh) => ("refresh_token", refresh),
            None => ("access_token", &tokens.access),
        };
        let counter = TokenEndpoint {
            net: &net,
            url: &url,
            issuer: &record.issuer,
            client: &record.client,
            settings: &self.settings,
            proof: None,
        };
        counter.give_back(kind, token).await
    }
}
