//! What we are to one server: its tokens, used, renewed, obtained and given back.
//!
//! Tokens are bound to the server's address and to whoever gave them. What is kept is read again at each connection, so that a
//! sign-in in another process is noticed; a renewal happens under a lock of the store, and only if nobody else was faster.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::header::AUTHORIZATION;
use http::{HeaderMap, StatusCode};
use reqwest::Request;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::time::timeout;
use url::Url;

use super::challenge::Challenge;
use super::client::{self, Client};
use super::discovery::{self, Issuer};
use super::grants::{Counter, FORM, NoTokens, Tokens, form_body, refusal, sensitive};
use super::jwt::ProofKey;
use super::listener::Listener;
use super::net::Net;
use super::page::{Browser, Question};
use super::places::is_confidential;
use super::requests;
use super::secret::Secret;
use super::settings::{Grant, OAuth, Organisation};
use super::store::TokenStore;
use crate::config::Remote;
use crate::host::Host;
use crate::limits::{PROOFS_MAX, SIGN_IN_TIMEOUT};
use crate::text;
use crate::transport::Log;

/// Our account with one server.
pub(crate) struct Account {
    server: String,
    url: Url,
    settings: OAuth,
    store: Arc<dyn TokenStore>,
    /// Under what the store keeps it.
    key: String,
    proxy: Option<String>,
    log: Log,
    state: Mutex<State>,
    /// Held by whoever asks for tokens without a user.
    asking: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    record: Option<Arc<Record>>,
    /// Whether the store was asked.
    loaded: bool,
    /// The last refusal that says what is wanted.
    challenge: Challenge,
    needed: Option<Needed>,
    /// What the server wants to see in proofs.
    nonce: Option<String>,
}

/// A sign-in that somebody has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Needed {
    pub(crate) words: String,
    /// Nothing goes without it; else it is only for more than what was given.
    pub(crate) for_all: bool,
}

/// What is kept of a sign-in.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Record {
    /// Whose tokens these are.
    server: String,
    issuer: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resource: Option<String>,
    token_endpoint: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revocation_endpoint: Option<String>,
    client: Client,
    /// Everything that was asked for.
    asked: Vec<String>,
    /// Gone when they ended; the client's name stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tokens: Option<Tokens>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    proof_key: Option<Secret>,
}

/// What a request was sent with.
pub(crate) struct Used {
    access: Secret,
    with_proof: bool,
}

/// What was done already so that one request is not refused again.
#[derive(Debug, Default)]
pub(crate) struct Mended {
    /// It has another token.
    token: bool,
    /// How often its proof was made anew.
    proofs: usize,
}

/// What to do about a refusal.
pub(crate) enum Verdict {
    /// Something has changed: the same once more.
    Again,
    /// Somebody has to sign in; in words.
    SignIn(String),
    /// Nothing can be done; in words.
    No(String),
}

/// What is known of a sign-in.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SignedIn {
    /// Who gave the tokens.
    pub issuer: String,
    /// What they are good for, as far as that is known.
    pub scopes: Vec<String>,
    /// When the present one ends, in seconds since 1970, if that was said.
    pub until: Option<u64>,
    /// Whether it is renewed without anybody.
    pub renews: bool,
}

impl Account {
    /// The account with a server; nothing if its address is none.
    pub(crate) fn new(server: &str, remote: &Remote, host: &Host, log: Log) -> Option<Account> {
        let url = Url::parse(&remote.url).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
        let settings = remote.oauth.clone();
        // Two entries for one address may be two accounts there, and so may two names of a client.
        let client = settings.client_id.as_deref().unwrap_or_default();
        let hash = Sha256::digest(format!("{server}\n{}\n{client}", discovery::identifier(&url)));
        let hash: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        Some(Account {
            server: server.to_owned(),
            key: format!("{}-{hash}", server.get(..100).unwrap_or(server)),
            url,
            settings,
            store: host.tokens.clone(),
            proxy: remote.proxy.clone().or_else(|| host.proxy.clone()),
            log,
            state: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection begins: what others have kept since counts.
    pub(crate) fn begin(&self) {
        let mut state = self.state();
        state.needed = None;
        state.loaded = self.settings.grant.is_alone();
    }

    /// The sign-in that somebody has to do.
    pub(crate) fn needed(&self) -> Option<Needed> {
        self.state().needed.clone()
    }

    /// What is known of the sign-in.
    pub(crate) fn signed_in(&self) -> Option<SignedIn> {
        let record = self.record()?;
        let tokens = record.tokens.as_ref()?;
        Some(SignedIn {
            issuer: text::line(&record.issuer, 200),
            scopes: tokens.scopes.clone().unwrap_or_else(|| record.asked.clone()),
            until: tokens.until,
            renews: tokens.refresh.is_some() || self.settings.grant.is_alone(),
        })
    }

    fn record(&self) -> Option<Arc<Record>> {
        let mut state = self.state();
        if !state.loaded {
            state.record = self.load();
            state.loaded = true;
        }
        state.record.clone()
    }

    /// What the store has. What it can't give, or what is of another server, is not there.
    fn load(&self) -> Option<Arc<Record>> {
        let kept = self.store.load(&self.key).unwrap_or_else(|words| {
            self.complain(&format!("the sign-in can't be read: {words}"));
            None
        })?;
        let record: Record = serde_json::from_str(kept.reveal()).ok()?;
        (record.server == discovery::identifier(&self.url)).then(|| Arc::new(record))
    }

    /// Keeps it, here and in the store.
    fn keep(&self, record: Record) -> Result<(), String> {
        let kept = match self.settings.grant.is_alone() {
            true => Ok(()),
            false => {
                let text = serde_json::to_string(&record).map_err(|error| error.to_string())?;
                self.store.save(&self.key, &Secret::new(text))
            }
        };
        let mut state = self.state();
        (state.record, state.loaded) = (Some(Arc::new(record)), true);
        kept
    }

    fn complain(&self, words: &str) {
        self.log.add(format!("haft: {words}\n").as_bytes());
    }

    /// Sees to it that there is a token before a connection is made, where nobody has to be asked: whoever gives tokens may take
    /// longer than a handshake may.
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
                let _ = self.renew(&tokens.access).await;
            }
            return Ok(());
        }
        if !self.settings.grant.is_alone() {
            return Ok(());
        }
        // Whether it can be reached is for the connection to say.
        let net = Net::new(&self.url, self.proxy.as_deref()).await?;
        if let Ok((StatusCode::UNAUTHORIZED, headers)) = net.refusal_of(&self.url).await {
            self.state().challenge = Challenge::read(&headers);
            self.obtain(None).await?;
        }
        Ok(())
    }

    /// Puts the token on a request, if there is one and the request goes where it may.
    ///
    /// # Errors
    /// It can't be sent, in words.
    pub(crate) async fn put_on(&self, request: &mut Request) -> Result<Option<Used>, String> {
        if request.url().origin() != self.url.origin() || !is_confidential(request.url()) {
            return Ok(None);
        }
        let Some(mut record) = self.record() else { return Ok(None) };
        let over =
            record.tokens.as_ref().filter(|tokens| tokens.is_over()).map(|tokens| tokens.access.clone());
        if let Some(over) = over {
            // If that fails the server has the last word.
            let _ = self.renew(&over).await;
            match self.record() {
                Some(newer) => record = newer,
                None => return Ok(None),
            }
        }
        let Some(tokens) = &record.tokens else { return Ok(None) };
        let used = Used { access: tokens.access.clone(), with_proof: tokens.with_proof };
        let kind = if used.with_proof { "DPoP" } else { "Bearer" };
        let value = sensitive(&format!("{kind} {}", used.access.reveal()))?;
        if let (true, Some(key)) = (used.with_proof, &record.proof_key) {
            let nonce = self.state().nonce.clone();
            let key = ProofKey::of(key.clone());
            let proof =
                key.proof(request.method().as_str(), request.url(), nonce.as_deref(), Some(&used.access))?;
            request.headers_mut().insert("dpop", sensitive(&proof)?);
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
        used: Option<&Used>,
        status: StatusCode,
        headers: &HeaderMap,
        mended: &mut Mended,
    ) -> Verdict {
        let challenge = Challenge::read(headers);
        if mended.proofs < PROOFS_MAX
            && challenge.error.as_deref() == Some("use_dpop_nonce")
            && used.is_some()
        {
            let before = self.state().nonce.clone();
            self.note(headers);
            if self.state().nonce != before {
                mended.proofs += 1;
                return Verdict::Again;
            }
        }
        let hide = |words: String| used.map_or(words.clone(), |used| used.access.hidden_in(&words));
        let words = hide(requests::words(status, headers));
        if !is_confidential(&self.url) {
            return Verdict::No(format!("{words}; a token is sent by https only"));
        }
        match (status, challenge.error.as_deref()) {
            (StatusCode::FORBIDDEN, Some("insufficient_scope")) => {
                self.wants_more(challenge, words, mended).await
            }
            (StatusCode::FORBIDDEN, _) => Verdict::No(words),
            _ => {
                let why = challenge.words.clone().or(challenge.error.clone());
                let why = why.map_or_else(String::new, |why| format!(": {}", hide(text::line(&why, 200))));
                self.wants_anew(challenge, used, &why, mended).await
            }
        }
    }

    /// The token is not enough.
    async fn wants_more(&self, challenge: Challenge, words: String, mended: &mut Mended) -> Verdict {
        let record = self.record();
        let wanted = challenge.scopes.clone().unwrap_or_default();
        let asked = record.as_ref().map(|record| record.asked.clone()).unwrap_or_default();
        // To ask again for what was asked for gives the same again.
        if mended.token || wanted.iter().all(|scope| asked.contains(scope)) {
            return Verdict::No(format!("{words}; what it wants was asked for and is not given to you"));
        }
        self.state().challenge = challenge;
        if self.settings.grant.is_alone() {
            let used = record.as_ref().and_then(|record| record.tokens.as_ref()).map(|tokens| &tokens.access);
            mended.token = true;
            return match self.obtain(used).await {
                Ok(()) => Verdict::Again,
                Err(words) => Verdict::No(words),
            };
        }
        let scopes = text::line(&wanted.join(" "), 200);
        let words = format!("it wants a further sign-in (HTTP 403), for `{scopes}`; {}", self.how());
        self.state().needed = Some(Needed { words: words.clone(), for_all: false });
        Verdict::SignIn(words)
    }

    /// There is no token, or it is good for nothing.
    async fn wants_anew(
        &self,
        challenge: Challenge,
        used: Option<&Used>,
        why: &str,
        mended: &mut Mended,
    ) -> Verdict {
        self.state().challenge = challenge;
        let mut failed = None;
        if !std::mem::replace(&mut mended.token, true) {
            let renewed = match used {
                _ if self.settings.grant.is_alone() => {
                    self.obtain(used.map(|used| &used.access)).await.map(|()| true)
                }
                Some(used) => self.renew(&used.access).await,
                None => Ok(false),
            };
            match renewed {
                Ok(true) => return Verdict::Again,
                Ok(false) => {}
                Err(words) => failed = Some(words),
            }
        }
        if let Some(words) = failed {
            return Verdict::No(format!("its token could not be renewed: {words}"));
        }
        if self.settings.grant.is_alone() {
            return Verdict::No(format!("HTTP 401{why}: a new token is not good for it either"));
        }
        let words = format!("it wants a sign-in (HTTP 401{why}); {}", self.how());
        self.state().needed = Some(Needed { words: words.clone(), for_all: true });
        Verdict::SignIn(words)
    }

    fn how(&self) -> String {
        format!("the user can do that with `haft mcp login {}`", self.server)
    }

    /// Gets a newer token than this one; whether there is one.
    ///
    /// # Errors
    /// Nobody knows, in words; what was kept is as it was.
    async fn renew(&self, than: &Secret) -> Result<bool, String> {
        if self.settings.grant.is_alone() {
            return self.obtain(Some(than)).await.map(|()| true);
        }
        let _asking = self.asking.lock().await;
        let _held = self.store.lock(&self.key).await?;
        // Somebody else may have been faster, in this process or another one.
        let found = self.load();
        {
            let mut state = self.state();
            // A store that can't be written has only what it once had.
            if found.is_some() || state.record.is_none() {
                (state.record, state.loaded) = (found, true);
            }
        }
        let Some(record) = self.record() else { return Ok(false) };
        let Some(tokens) = &record.tokens else { return Ok(false) };
        if tokens.access != *than {
            return Ok(true);
        }
        let Some(refresh) = &tokens.refresh else { return Ok(false) };
        let net = Net::new(&self.url, self.proxy.as_deref()).await?;
        let url = net.places.check(&record.token_endpoint, "the address of tokens")?;
        let mut form = vec![("grant_type", "refresh_token"), ("refresh_token", refresh.reveal())];
        form.extend(record.resource.as_deref().map(|resource| ("resource", resource)));
        let proof = record.proof_key.clone().map(ProofKey::of);
        let counter = Counter {
            net: &net,
            url: &url,
            issuer: &record.issuer,
            client: &record.client,
            settings: &self.settings,
            proof: proof.as_ref(),
        };
        let mut next = Record::clone(&record);
        let renewed = match counter.ask(&form, &[refresh, &tokens.access]).await {
            Ok(mut newer) => {
                newer.refresh = newer.refresh.or_else(|| Some(refresh.clone()));
                newer.scopes = newer.scopes.or_else(|| tokens.scopes.clone());
                next.tokens = Some(newer);
                true
            }
            Err(NoTokens::Refused { error, words }) if is_final(&error) => {
                self.complain(&format!("the sign-in has ended: {words}"));
                next.tokens = None;
                if matches!(&*error, "invalid_client" | "unauthorized_client") {
                    // Our name isn't known there any more.
                    next.client.redirect = None;
                }
                false
            }
            Err(other) => return Err(other.words()),
        };
        if let Err(words) = self.keep(next) {
            self.complain(&format!("the renewed sign-in can't be kept: {words}"));
        }
        Ok(renewed)
    }

    /// Gets a token without a user, newer than this one.
    ///
    /// # Errors
    /// There is none, in words.
    async fn obtain(&self, than: Option<&Secret>) -> Result<(), String> {
        let _asking = self.asking.lock().await;
        let record = self.record();
        let has = record.as_ref().and_then(|record| record.tokens.as_ref()).map(|tokens| &tokens.access);
        let challenge = self.state().challenge.clone();
        if has.is_some() && has != than {
            return Ok(());
        }
        let net = Net::new(&self.url, self.proxy.as_deref()).await?;
        let issuer = discovery::discover(&net, &self.url, &challenge, &self.settings).await?;
        let client = Client::of_settings(&self.settings, &issuer);
        let client = client.ok_or("`oauth.clientId` is missing; without a user nobody can be registered")?;
        let before = record.as_ref().filter(|record| record.issuer == issuer.name);
        let before = before.map(|record| record.asked.clone()).unwrap_or_default();
        let scopes = discovery::scopes_to_ask(&issuer, &challenge, &self.settings, &before);
        let (scope, resource) = (scopes.join(" "), issuer.resource.clone().unwrap_or_default());
        let assertion = match &self.settings.grant {
            Grant::Assertion(assertion) => Some(assertion.read()?),
            Grant::Organisation(organisation) => Some(self.exchange(organisation, &issuer, &resource).await?),
            Grant::Client(_) | Grant::User => None,
        };
        let mut form = match &assertion {
            Some(assertion) => {
                vec![
                    ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
                    ("assertion", assertion.reveal()),
                ]
            }
            None => vec![("grant_type", "client_credentials")],
        };
        form.extend(
            [("scope", &*scope), ("resource", &*resource)].into_iter().filter(|(_, value)| !value.is_empty()),
        );
        let proof = if issuer.wants_proof { Some(ProofKey::generate()?) } else { None };
        let counter = self.counter(&net, &issuer, &client, proof.as_ref());
        let secrets: Vec<&Secret> = assertion.iter().chain(&self.settings.client_secret).collect();
        let tokens = counter.ask(&form, &secrets).await.map_err(NoTokens::words)?;
        self.keep(self.made(&issuer, client, scopes, tokens, proof.as_ref()))
    }

    /// Exchanges what an organisation said of the user for a statement to this issuer.
    async fn exchange(&self, with: &Organisation, issuer: &Issuer, resource: &str) -> Result<Secret, String> {
        let url = Url::parse(&with.token_endpoint).ok().filter(is_confidential);
        let url = url.ok_or("the organisation's address of tokens has to be https")?;
        // Its address is the user's own, so it is judged by itself and not by where the server is.
        let net = Net::new(&url, self.proxy.as_deref()).await?;
        let said = with.id_token.read()?;
        let wanted = "urn:ietf:params:oauth:token-type:id-jag";
        let body = form_body(&[
            ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
            ("requested_token_type", wanted),
            ("audience", &issuer.name),
            ("resource", resource),
            ("subject_token", said.reveal()),
            ("subject_token_type", "urn:ietf:params:oauth:token-type:id_token"),
            ("client_id", &with.client_id),
        ]);
        let answer = net.post(&url, FORM, HeaderMap::new(), body).await?;
        let given = answer.body["access_token"].as_str().filter(|given| !given.is_empty());
        match given.filter(|_| answer.status.is_success() && answer.body["issued_token_type"] == wanted) {
            Some(given) => Ok(Secret::new(given)),
            None => Err(said.hidden_in(&refusal(&url, &answer).words())),
        }
    }

    fn counter<'a>(
        &'a self,
        net: &'a Net,
        issuer: &'a Issuer,
        client: &'a Client,
        proof: Option<&'a ProofKey>,
    ) -> Counter<'a> {
        Counter { net, url: &issuer.token, issuer: &issuer.name, client, settings: &self.settings, proof }
    }

    fn made(
        &self,
        issuer: &Issuer,
        client: Client,
        asked: Vec<String>,
        tokens: Tokens,
        proof: Option<&ProofKey>,
    ) -> Record {
        Record {
            server: discovery::identifier(&self.url),
            issuer: issuer.name.clone(),
            resource: issuer.resource.clone(),
            token_endpoint: issuer.token.to_string(),
            revocation_endpoint: issuer.revocation.as_ref().map(Url::to_string),
            client,
            asked,
            tokens: Some(tokens),
            proof_key: proof.map(ProofKey::kept),
        }
    }

    /// Signs in, with a user who opens a page.
    ///
    /// # Errors
    /// Why not, in words.
    pub(crate) async fn sign_in(&self, browser: Option<&dyn Browser>) -> Result<SignedIn, String> {
        if !is_confidential(&self.url) {
            return Err("a token is sent by https only, and the server's address is not".to_owned());
        }
        if self.settings.grant.is_alone() {
            let used = self.record().and_then(|record| Some(record.tokens.as_ref()?.access.clone()));
            self.obtain(used.as_ref()).await?;
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

    /// A sign-in didn't succeed: perhaps because our name isn't known there any more, so the next one gets another.
    async fn doubt_client(&self) {
        let Ok(_held) = self.store.lock(&self.key).await else { return };
        if let Some(before) = self.load().filter(|before| before.client.redirect.is_some()) {
            let mut record = Record::clone(&before);
            record.client.redirect = None;
            if let Err(words) = self.keep(record) {
                self.complain(&words);
            }
        }
    }

    async fn sign_in_by_page(&self, browser: &dyn Browser) -> Result<(), String> {
        // Nobody should sign in for what can't be kept.
        drop(self.store.lock(&self.key).await?);
        let net = Net::new(&self.url, self.proxy.as_deref()).await?;
        let mut challenge = self.state().challenge.clone();
        if challenge == Challenge::default() {
            challenge = Challenge::read(&net.refusal_of(&self.url).await?.1);
        }
        let issuer = discovery::discover(&net, &self.url, &challenge, &self.settings).await?;
        // What another one gave, names included, is nothing to this one.
        let before = self.load().filter(|before| before.issuer == issuer.name);
        let asked = before.as_ref().map(|before| before.asked.clone()).unwrap_or_default();
        let scopes = discovery::scopes_to_ask(&issuer, &challenge, &self.settings, &asked);
        let known = before.as_ref().map(|before| &before.client);
        let listener =
            Listener::open(self.settings.callback_port, known.and_then(Client::registered_port)).await?;
        let redirect = listener.redirect();
        let client = client::for_sign_in(&net, &issuer, &self.settings, &redirect, known, &scopes).await?;
        let question = Question::new(&self.server, &issuer, &client.id, &redirect, &scopes)?;

        let arrives = listener.answer(&question);
        tokio::pin!(arrives);
        let code = tokio::select! {
            code = &mut arrives => code,
            pasted = browser.open(&question.page) => match pasted {
                Some(address) => question.pasted(&address),
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
        let counter = self.counter(&net, &issuer, &client, proof.as_ref());
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
        let record = match self.settings.grant.is_alone() {
            true => self.record(),
            false => {
                let _held = self.store.lock(&self.key).await?;
                let record = self.load();
                self.store.forget(&self.key)?;
                record
            }
        };
        {
            let mut state = self.state();
            (state.record, state.loaded, state.nonce) = (None, true, None);
        }
        let Some(record) = record else { return Ok(false) };
        // That they are forgotten counts; that they are of no use any more is a favour of the other side.
        if let Err(words) = self.revoke(&record).await {
            self.complain(&format!("the tokens could not be given back: {words}"));
        }
        Ok(record.tokens.is_some())
    }

    async fn revoke(&self, record: &Record) -> Result<(), String> {
        let (Some(address), Some(tokens)) = (&record.revocation_endpoint, &record.tokens) else {
            return Ok(());
        };
        let net = Net::new(&self.url, self.proxy.as_deref()).await?;
        let url = net.places.check(address, "the address where tokens are given back")?;
        let (kind, token) = match &tokens.refresh {
            Some(refresh) => ("refresh_token", refresh),
            None => ("access_token", &tokens.access),
        };
        let counter = Counter {
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

/// Whether a refusal of a renewal means that the sign-in is over.
fn is_final(error: &str) -> bool {
    matches!(
        error,
        "invalid_grant" | "invalid_client" | "unauthorized_client" | "invalid_target" | "invalid_scope"
    )
}
