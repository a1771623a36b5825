//! The page on which a user signs in, and what comes back from it.
//!
//! The library shows an address and never opens it: what it would be opened with is a program, and the
//! address came from a server. The answer is a request to a port of this machine, or, where the user's
//! browser is elsewhere, the address that the browser ends up at, brought here by hand.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use haft::future::BoxFuture;
use sha2::{Digest as _, Sha256};
use url::Url;

use super::discovery::TokenIssuer;
use super::secret::{Secret, random_text};
use crate::limits::PASTE_CHARS_MAX;
use crate::text;

/// A user who can open a page.
///
/// Called by [`Server::sign_in`](crate::ServerHandle::sign_in) and by nothing else, once for each sign-in.
/// The future is dropped as soon as the answer has come by itself.
pub trait PageOpener: Send + Sync + 'static {
    /// Shows the address, and opens it if the user wants that. An implementation that starts a browser gives
    /// it the address as one argument, never as part of a command line.
    ///
    /// Gives the address that the browser ended up at, if the user brings it back by hand; with nothing, the
    /// answer is waited for at [`SignInPage::redirect`].
    fn open<'a>(&'a self, page: &'a SignInPage) -> BoxFuture<'a, Option<String>>;
}

/// A page on which a user signs in.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SignInPage {
    /// The server that wants a sign-in.
    pub server: String,
    /// The address to open: `https`, or `http` on this machine.
    pub url: String,
    /// Whose page it is, to be shown to the user before anything else.
    pub host: String,
    /// Where the browser ends up. If that can't be reached from it, the user copies the address that it
    /// shows.
    pub redirect: String,
}

/// A question to an issuer, and what is needed to understand the answer.
pub(crate) struct PendingSignIn {
    pub(crate) page: SignInPage,
    state: String,
    verifier: Secret,
    redirect: String,
    issuer: String,
    issuer_names_itself: bool,
}

/// The code that tokens are given for.
#[derive(Debug)]
pub(crate) struct AuthorizationCode {
    pub(crate) code: Secret,
    pub(crate) verifier: Secret,
}

impl PendingSignIn {
    pub(crate) fn new(
        server: &str,
        issuer: &TokenIssuer,
        client_id: &str,
        redirect: &str,
        scopes: &[String],
    ) -> Result<PendingSignIn, String> {
        let authorization = issuer.authorization.clone();
        let mut url = authorization.ok_or("whoever gives tokens for it has no page to sign in on")?;
        let (state, verifier) = (random_text(32)?, random_text(32)?);
        let challenge = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()));
        {
            let mut query = url.query_pairs_mut();
            query
                .append_pair("response_type", "code")
                .append_pair("client_id", client_id)
                .append_pair("redirect_uri", redirect)
                .append_pair("state", &state)
                .append_pair("code_challenge", &challenge)
                .append_pair("code_challenge_method", "S256");
            if !scopes.is_empty() {
                query.append_pair("scope", &scopes.join(" "));
            }
            if let Some(resource) = &issuer.resource {
                query.append_pair("resource", resource);
            }
        }
        let page = SignInPage {
            server: server.to_owned(),
            host: url.host_str().unwrap_or_default().to_owned(),
            url: url.into(),
            redirect: redirect.to_owned(),
        };
        Ok(PendingSignIn {
            page,
            state,
            verifier: Secret::new(verifier),
            redirect: redirect.to_owned(),
            issuer: issuer.name.clone(),
            issuer_names_itself: issuer.names_itself,
        })
    }

    /// Whether an answer is to this question at all: only who saw the question knows that.
    pub(crate) fn is_answered_by(&self, query: &str) -> bool {
        let states: Vec<_> = query_pairs(query).filter(|(name, _)| name == "state").collect();
        matches!(&states[..], [(_, state)] if constant_time_eq(state, &self.state))
    }

    /// The code in an answer: the part of an address behind the `?`.
    ///
    /// # Errors
    /// There is none, or it is from somebody else, in words.
    pub(crate) fn answered(&self, query: &str) -> Result<AuthorizationCode, String> {
        if !self.is_answered_by(query) {
            return Err(
                "the answer is not to this sign-in (its `state` is another one); sign in again".to_owned()
            );
        }
        let one = |name: &str| {
            let mut found = query_pairs(query).filter(|(key, _)| key == name).map(|(_, value)| value);
            match (found.next(), found.next()) {
                (found, None) => Ok(found),
                _ => Err(format!("the answer has two of `{name}`")),
            }
        };
        match one("iss")? {
            Some(issuer) if issuer != self.issuer => {
                return Err(format!(
                    "the answer is from `{}`, and `{}` was asked",
                    text::display_line(&issuer, 200),
                    text::display_line(&self.issuer, 200)
                ));
            }
            None if self.issuer_names_itself => {
                return Err("the answer doesn't say whose it is, and ought to".to_owned());
            }
            _ => {}
        }
        if let Some(error) = one("error")? {
            let words = one("error_description")?.unwrap_or_default();
            return Err(text::display_line(
                format!("the sign-in was refused: {error} {words}").trim_end(),
                500,
            ));
        }
        match one("code")? {
            Some(code) if !code.is_empty() => {
                Ok(AuthorizationCode { code: Secret::new(code), verifier: self.verifier.clone() })
            }
            _ => Err("the answer has no code in it".to_owned()),
        }
    }

    /// The same for an address that was brought by hand.
    ///
    /// # Errors
    /// As before; or it is some other address.
    pub(crate) fn accept_pasted(&self, address: &str) -> Result<AuthorizationCode, String> {
        let address = address.trim();
        let wrong = || {
            format!(
                "that is not where the sign-in ends up; copy the whole address, which begins with `{}`",
                self.redirect
            )
        };
        let url = Url::parse(address).ok().filter(|_| address.len() <= PASTE_CHARS_MAX).ok_or_else(wrong)?;
        let redirect = Url::parse(&self.redirect).map_err(|_| wrong())?;
        if url.origin() != redirect.origin() || url.path() != redirect.path() {
            return Err(wrong());
        }
        self.answered(url.query().unwrap_or_default())
    }
}

fn query_pairs(query: &str) -> impl Iterator<Item = (String, String)> + '_ {
    url::form_urlencoded::parse(query.as_bytes()).map(|(name, value)| (name.into_owned(), value.into_owned()))
}

/// Whether two texts are the same, in a time that says nothing of where they differ.
fn constant_time_eq(one: &str, other: &str) -> bool {
    one.len() == other.len() && one.bytes().zip(other.bytes()).fold(0, |diff, (a, b)| diff | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(names_itself: bool) -> PendingSignIn {
        let url = |text: &str| Url::parse(text).unwrap();
        let issuer = TokenIssuer {
            name: "https://as.example".into(),
            resource: Some("https://x.example".into()),
            resource_scopes: None,
            authorization: Some(url("https://as.example/authorize?tenant=1")),
            token: url("https://as.example/token"),
            registration: None,
            revocation: None,
            methods: None,
            scopes: Vec::new(),
            names_itself,
            reads_documents: false,
            wants_proof: false,
        };
        PendingSignIn::new("x", &issuer, "me", "http://127.0.0.1:9/callback", &["a".into(), "b".into()])
            .unwrap()
    }

    #[test]
    fn a_page_says_everything_and_keeps_what_was_there() {
        let question = question(false);
        let url = Url::parse(&question.page.url).unwrap();
        let query: std::collections::HashMap<_, _> = url.query_pairs().into_owned().collect();
        assert_eq!(question.page.host, "as.example");
        for (name, value) in [
            ("tenant", "1"),
            ("response_type", "code"),
            ("client_id", "me"),
            ("redirect_uri", "http://127.0.0.1:9/callback"),
            ("code_challenge_method", "S256"),
            ("scope", "a b"),
            ("resource", "https://x.example"),
        ] {
            assert_eq!(query[name], value, "{name}");
        }
        assert_eq!(
            query["code_challenge"],
            BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(question.verifier.reveal()))
        );
        assert!(!question.page.url.contains(question.verifier.reveal()));
    }

    #[test]
    fn only_the_answer_to_this_question_counts() {
        let asked = question(false);
        let good = format!("code=c&state={}", asked.state);
        assert_eq!(asked.answered(&good).unwrap().code.reveal(), "c");
        assert_eq!(
            asked.answered(&format!("{good}&iss=https%3A%2F%2Fas.example")).unwrap().code.reveal(),
            "c"
        );
        for (query, sign) in [
            ("code=c".to_owned(), "`state`"),
            ("code=c&state=x".to_owned(), "`state`"),
            (format!("{good}&state={}", asked.state), "`state`"),
            (format!("state={}", asked.state), "no code"),
            (format!("{good}&code=d"), "two of `code`"),
            (format!("{good}&iss=https://as.example/"), "`https://as.example/`"),
            (format!("{good}&iss=https://evil.example"), "evil"),
            (
                format!("state={}&error=access_denied&error_description=no%1b[31m", asked.state),
                "access_denied no\\u{1b}",
            ),
        ] {
            let words = asked.answered(&query).unwrap_err();
            assert!(words.contains(sign), "{query}: {words}");
        }
        let named = question(true);
        assert!(named.answered(&format!("code=c&state={}", named.state)).unwrap_err().contains("whose"));
    }

    #[test]
    fn an_address_brought_by_hand_is_the_one_that_was_given() {
        let asked = question(false);
        let good = format!(" http://127.0.0.1:9/callback?code=c&state={}\n", asked.state);
        assert_eq!(asked.accept_pasted(&good).unwrap().code.reveal(), "c");
        for bad in [
            format!("http://127.0.0.1:8/callback?code=c&state={}", asked.state),
            format!("http://127.0.0.1:9/other?code=c&state={}", asked.state),
            format!("https://evil.example/callback?code=c&state={}", asked.state),
            "c".to_owned(),
        ] {
            assert!(asked.accept_pasted(&bad).unwrap_err().contains("begins with"), "{bad}");
        }
    }
}
