//! What a person should know before they allow a call.
//!
//! A warning is about something that is known. A call of which nothing is known is reported as such by the
//! question itself, and warns of nothing: a warning on every build isn't read.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use crate::ports::AuthorizationRequest;

/// A harm that a call is known to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "camelCase")]
#[non_exhaustive]
pub enum CallWarning {
    /// It destroys something of which no copy is kept.
    Destroys {
        /// What is destroyed.
        what: String,
    },
    /// It reads credentials.
    ReadsCredentials {
        /// The file or folder.
        path: String,
    },
    /// It sends a secret away.
    SendsSecret {
        /// The file that holds it, or the kind of token.
        secret: String,
        /// Where it is sent.
        host: String,
    },
}

impl fmt::Display for CallWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallWarning::Destroys { what } => write!(f, "it destroys {what}, and no copy is kept"),
            CallWarning::ReadsCredentials { path } => write!(f, "it reads credentials: {path}"),
            CallWarning::SendsSecret { secret, host } => write!(f, "it may send {secret} to {host}"),
        }
    }
}

impl CallWarning {
    /// The warnings that follow from what a call declares, without knowledge of names, settings or
    /// checkpoints.
    pub fn from_effects(request: &AuthorizationRequest<'_>) -> Vec<CallWarning> {
        let (effects, declared) = (request.effects, request.declared());
        if !declared.needs_warning() {
            return Vec::new();
        }
        let overwritten =
            effects.writes.iter().filter(|path| path.at.exists && request.effect_class.destructive);
        let gone = effects.deletes.iter().chain(overwritten).next();
        let what = match gone {
            Some(path) => format!("`{}`", path.at.given.display()),
            None if declared.claims.destructive == Some(true) => "what it says".to_owned(),
            None => return Vec::new(),
        };
        vec![CallWarning::Destroys { what }]
    }
}
