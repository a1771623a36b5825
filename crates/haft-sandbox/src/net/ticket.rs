//! The right of one call to use the network: a token in the environment of its programs, void when the call
//! ends.

use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use haft::ports::{ChildRequests, ConfinementRefusal, HostGrants};

use super::host::HostRule;
use super::session::{CallAccess, NetworkSession};

/// The user in the proxy's address; only the password says who is calling.
const USER: &str = "haft";
const NO_PROXY: &str = "localhost,127.0.0.1,::1";

/// The right of one call to use the network. Dropping it voids the token and closes the call's connections.
pub(crate) struct NetworkTicket {
    session: Arc<NetworkSession>,
    call: Arc<CallAccess>,
    url: String,
}

impl NetworkTicket {
    pub(super) fn new(
        session: Arc<NetworkSession>,
        proxy: SocketAddr,
        hosts: &[HostRule],
        live: Option<HostGrants>,
        requests: Option<ChildRequests>,
    ) -> io::Result<NetworkTicket> {
        let token = random_token()?;
        let authorization = base64(format!("{USER}:{token}").as_bytes());
        let call = Arc::new(CallAccess::new(authorization, hosts.to_vec(), live, requests));
        session.begin(call.clone());
        Ok(NetworkTicket { session, call, url: format!("http://{USER}:{token}@{proxy}") })
    }

    /// What a program needs to find the proxy.
    ///
    /// Both spellings, because each is the only one that somebody reads. Beyond them: git would first try
    /// without a token, npm, yarn and cargo would rather believe a file, and node reads no proxy unless told
    /// so. pip needs nothing (with `PIP_PROXY` it would ignore `NO_PROXY`).
    pub(crate) fn env(&self) -> Vec<(OsString, OsString)> {
        let proxied = [
            "HTTP_PROXY",
            "http_proxy",
            "HTTPS_PROXY",
            "https_proxy",
            "ALL_PROXY",
            "all_proxy",
            "CARGO_HTTP_PROXY",
            "npm_config_proxy",
            "npm_config_https_proxy",
            "YARN_HTTP_PROXY",
            "YARN_HTTPS_PROXY",
        ];
        let fixed = [
            ("NO_PROXY", NO_PROXY),
            ("no_proxy", NO_PROXY),
            ("npm_config_noproxy", NO_PROXY),
            ("GIT_HTTP_PROXY_AUTHMETHOD", "basic"),
            ("NODE_USE_ENV_PROXY", "1"),
        ];
        let proxied = proxied.iter().map(|name| (*name, &*self.url));
        proxied.chain(fixed).map(|(name, value)| (name.into(), value.into())).collect()
    }

    /// Time limits of package managers that wait for an answer of the user with the proxy: what they have by
    /// themselves is too short for a person. For where nothing else is set.
    pub(crate) fn timeout_variables(&self) -> Vec<(OsString, OsString)> {
        let seconds = self.session.times.question.as_secs();
        let in_seconds = ["CARGO_HTTP_TIMEOUT", "PIP_TIMEOUT", "UV_HTTP_CONNECT_TIMEOUT", "UV_HTTP_TIMEOUT"];
        let in_seconds = in_seconds.iter().map(|name| (*name, seconds));
        let all = in_seconds.chain([("npm_config_fetch_timeout", seconds * 1000)]);
        let all = all.filter(|_| self.call.may_ask());
        all.map(|(name, value)| (name.into(), value.to_string().into())).collect()
    }

    /// What this call was refused so far, each once.
    pub(crate) fn refusals(&self) -> Vec<ConfinementRefusal> {
        self.call.refusals()
    }

    /// What follows `Basic` in the header of its requests.
    #[cfg(test)]
    pub(super) fn authorization(&self) -> &str {
        self.call.authorization()
    }

    /// How many connections the call has.
    #[cfg(test)]
    pub(super) fn open(&self) -> usize {
        self.call.open()
    }
}

impl Drop for NetworkTicket {
    fn drop(&mut self) {
        self.session.end(&self.call);
    }
}

/// 128 bits that nobody can guess, as text.
fn random_token() -> io::Result<String> {
    let mut bytes = [0; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let number =
            (0..3).fold(0, |number, at| number << 8 | usize::from(three.get(at).copied().unwrap_or(0)));
        for at in 0..4 {
            let letter = LETTERS[number >> (18 - 6 * at) & 63];
            text.push(if at <= three.len() { letter.into() } else { '=' });
        }
    }
    text
}
