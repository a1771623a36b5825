//! What a person should know before they allow a call.
//!
//! A warning is about something that is known. A call of which nothing is known is reported as such by the question
//! itself, and warns of nothing: a warning on every build is one that nobody reads.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use crate::ports::Request;

/// A harm that a call is known to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "camelCase")]
#[non_exhaustive]
pub enum Warning {
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

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::Destroys { what } => write!(f, "it destroys {what}, and no copy is kept"),
            Warning::ReadsCredentials { path } => write!(f, "it reads credentials: {path}"),
            Warning::SendsSecret { secret, host } => write!(f, "it may send {secret} to {host}"),
        }
    }
}

impl Warning {
    /// The warnings that follow from what a call declares, without knowledge of names, settings or checkpoints.
    pub fn from_effects(request: &Request<'_>) -> Vec<Warning> {
        let (effects, declared) = (request.effects, request.declared());
        if !declared.warns() {
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
        vec![Warning::Destroys { what }]
    }
}
