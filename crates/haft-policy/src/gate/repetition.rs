//! The repetition guard: asks when the same call comes in several consecutive turns.
//!
//! A model that repeats one call is stuck. The guard counts turns and not calls: the same call twice in one
//! message counts once, and so does a call that is evaluated again after an answer. The count starts again
//! once the user has seen the call.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Mutex;

use haft::decision::{DecisionReason, DecisionSource, Verdict};
use haft::ports::AuthorizationRequest;
use haft::sync::lock;
use serde_json::Value;

use crate::settings::RepetitionGuard;

/// The maximum number of different calls that are remembered.
const CALLS_MAX: usize = 10_000;

pub(super) struct RepetitionTracker {
    /// The limit in turns; `None` disables the guard.
    turns: Option<u32>,
    /// For each call the last turn that contained it, and the number of consecutive turns up to then.
    seen: Mutex<HashMap<u64, (u64, u32)>>,
}

impl RepetitionTracker {
    pub(super) fn new(given: Option<RepetitionGuard>) -> RepetitionTracker {
        let turns = match given.unwrap_or_default() {
            RepetitionGuard::Off => None,
            RepetitionGuard::After(turns) => Some(turns),
        };
        RepetitionTracker { turns, seen: Mutex::default() }
    }

    /// Records a call that would run. Returns a reason if it asks.
    pub(super) fn see(&self, request: &AuthorizationRequest<'_>) -> Option<DecisionReason> {
        let limit = self.turns.filter(|_| request.turn > 0)?;
        let mut seen = lock(&self.seen);
        if seen.len() >= CALLS_MAX {
            seen.retain(|_, (last, _)| *last + 1 >= request.turn);
        }
        if seen.len() >= CALLS_MAX {
            seen.clear();
        }
        let (last, count) = seen.entry(call_key(request)).or_insert((0, 0));
        if *last + 1 == request.turn && *last > 0 {
            *count += 1;
        } else if *last != request.turn {
            *count = 1;
        }
        *last = request.turn;
        let words = || format!("the same call came in {count} turns in a row");
        let asks = || DecisionReason::new(DecisionSource::Rule, Verdict::Ask, "the repetition guard");
        (*count >= limit).then(|| asks().with_message(words()))
    }

    /// Resets the count of a call that the user has seen.
    pub(super) fn forget(&self, request: &AuthorizationRequest<'_>) {
        lock(&self.seen).remove(&call_key(request));
    }
}

fn call_key(request: &AuthorizationRequest<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    (request.agent, request.name).hash(&mut hasher);
    hash_value(request.input, &mut hasher);
    hasher.finish()
}

/// Hashes a value independently of the order of its keys.
fn hash_value(value: &Value, hasher: &mut DefaultHasher) {
    std::mem::discriminant(value).hash(hasher);
    match value {
        Value::Null => {}
        Value::Bool(value) => value.hash(hasher),
        Value::Number(number) => number.hash(hasher),
        Value::String(text) => text.hash(hasher),
        Value::Array(items) => items.iter().for_each(|item| hash_value(item, hasher)),
        Value::Object(fields) => {
            let mut sum = 0u64;
            for (name, value) in fields {
                let mut own = DefaultHasher::new();
                name.hash(&mut own);
                hash_value(value, &mut own);
                sum = sum.wrapping_add(own.finish());
            }
            sum.hash(hasher);
        }
    }
}
