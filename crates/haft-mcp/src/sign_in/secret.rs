//! A text that must not be seen: tokens, keys, codes.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A text that is shown nowhere: it has no `Display`, and `Debug` hides it.
///
/// ```
/// use haft_mcp::Secret;
///
/// assert_eq!(format!("{:?}", Secret::new("hunter2")), "Secret(…)");
/// ```
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Hides a text.
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// The text, for whoever it is meant for.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Words of somebody else without this in them: a server may repeat what it was sent.
    pub(crate) fn hidden_in(&self, words: &str) -> String {
        if self.0.len() >= 4 { words.replace(&self.0, "…") } else { words.to_owned() }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// So many random bytes, as text that goes into an address.
///
/// # Errors
/// The system has no randomness to give, in words.
pub(crate) fn random_text(bytes: usize) -> Result<String, String> {
    use base64::Engine as _;
    use ring::rand::SecureRandom as _;
    let mut random = vec![0; bytes];
    ring::rand::SystemRandom::new()
        .fill(&mut random)
        .map_err(|_| "the system gives no random numbers".to_owned())?;
    Ok(base64::prelude::BASE64_URL_SAFE_NO_PAD.encode(random))
}
