//! What we are to one server: what is kept of it. Tokens are used in `token_use.rs`, renewed in
//! `token_refresh.rs`, and obtained and given back by the user in `page.rs`.
//!
//! Tokens are bound to the server's address and to whoever gave them. What is kept is read again at each
//! connection, so that a sign-in in another process is noticed; a renewal happens under a lock of the store,
//! and only if nobody else was faster.

mod token_refresh;
mod token_use;
mod user_sign_in;

use std::sync::{Arc, Mutex, MutexGuard};

use haft::sync::lock;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use url::Url;

use super::challenge::AuthChallenge;
use super::client::OAuthClient;
use super::discovery;
use super::grants::TokenSet;
use super::secret::Secret;
use super::settings::OAuth;
use super::store::TokenStore;
use crate::config::RemoteTransport;
use crate::host::HostServices;
use crate::text;
use crate::transport::ServerLog;

/// Our account with one server.
pub(crate) struct ServerAccount {
    server: String,
    url: Url,
    settings: OAuth,
    store: Arc<dyn TokenStore>,
    /// Under what the store keeps it.
    key: String,
    proxy: Option<String>,
    log: ServerLog,
    state: Mutex<AccountState>,
    /// Held by whoever asks for tokens without a user.
    asking: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct AccountState {
    record: Option<Arc<SignInRecord>>,
    /// Whether the store was asked.
    loaded: bool,
    /// The last refusal that says what is wanted.
    challenge: AuthChallenge,
    needed: Option<SignInNeed>,
    /// What the server wants to see in proofs.
    nonce: Option<String>,
}

/// A sign-in that somebody has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SignInNeed {
    pub(crate) words: String,
    /// Nothing goes without it; else it is only for more than what was given.
    pub(crate) for_all: bool,
}

/// What is kept of a sign-in.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct SignInRecord {
    /// Whose tokens these are.
    server: String,
    issuer: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resource: Option<String>,
    token_endpoint: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revocation_endpoint: Option<String>,
    client: OAuthClient,
    /// Everything that was asked for.
    asked: Vec<String>,
    /// Gone when they ended; the client's name stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tokens: Option<TokenSet>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    proof_key: Option<Secret>,
}

/// What a request was sent with.
pub(crate) struct UsedToken {
    access: Secret,
    with_proof: bool,
}

/// What was done already so that one request is not refused again.
#[derive(Debug, Default)]
pub(crate) struct RetryState {
    /// It has another token.
    token: bool,
    /// How often its proof was made anew.
    proofs: usize,
}

/// What to do about a refusal.
pub(crate) enum RefusalAction {
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

impl ServerAccount {
    /// The account with a server; nothing if its address is none.
    pub(crate) fn new(
        server: &str,
        remote: &RemoteTransport,
        host: &HostServices,
        log: ServerLog,
    ) -> Option<ServerAccount> {
        let url = Url::parse(&remote.url).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
        let settings = remote.oauth.clone();
        // Two entries for one address may be two accounts there, and so may two names of a client.
        let client = settings.client_id.as_deref().unwrap_or_default();
        let hash = Sha256::digest(format!("{server}\n{}\n{client}", discovery::resource_identifier(&url)));
        let hash: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        Some(ServerAccount {
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

    fn state(&self) -> MutexGuard<'_, AccountState> {
        lock(&self.state)
    }

    /// A connection begins: what others have kept since counts.
    pub(crate) fn begin(&self) {
        let mut state = self.state();
        state.needed = None;
        state.loaded = self.settings.grant.is_alone();
    }

    /// The sign-in that somebody has to do.
    pub(crate) fn needed(&self) -> Option<SignInNeed> {
        self.state().needed.clone()
    }

    /// What is known of the sign-in.
    pub(crate) fn signed_in(&self) -> Option<SignedIn> {
        let record = self.record()?;
        let tokens = record.tokens.as_ref()?;
        Some(SignedIn {
            issuer: text::display_line(&record.issuer, 200),
            scopes: tokens.scopes.clone().unwrap_or_else(|| record.asked.clone()),
            until: tokens.until,
            renews: tokens.refresh.is_some() || self.settings.grant.is_alone(),
        })
    }

    fn record(&self) -> Option<Arc<SignInRecord>> {
        let mut state = self.state();
        if !state.loaded {
            state.record = self.load();
            state.loaded = true;
        }
        state.record.clone()
    }

    /// What the store has. What it can't give, or what is of another server, is not there.
    fn load(&self) -> Option<Arc<SignInRecord>> {
        let kept = self.store.load(&self.key).unwrap_or_else(|words| {
            self.log_complaint(&format!("the sign-in can't be read: {words}"));
            None
        })?;
        let record: SignInRecord = serde_json::from_str(kept.reveal()).ok()?;
        (record.server == discovery::resource_identifier(&self.url)).then(|| Arc::new(record))
    }

    /// Keeps it, here and in the store.
    fn keep(&self, record: SignInRecord) -> Result<(), String> {
        let kept = if self.settings.grant.is_alone() {
            Ok(())
        } else {
            let text = serde_json::to_string(&record).map_err(|error| error.to_string())?;
            self.store.save(&self.key, &Secret::new(text))
        };
        let mut state = self.state();
        (state.record, state.loaded) = (Some(Arc::new(record)), true);
        kept
    }

    fn log_complaint(&self, words: &str) {
        self.log.add(format!("haft: {words}\n").as_bytes());
    }
}
