//! What loops that work together cost: each counts what it used, and what those used that work for it.
//!
//! Limits are judged at the top, while everybody still works: several loops side by side can't each spend what is left.

use std::sync::{Arc, Mutex};

use haft::sync::lock;

use crate::reply::Usage;

/// What a run costs, with all runs that work for it. Clones are the same account.
#[derive(Clone, Default)]
pub struct Account(Arc<Inner>);

#[derive(Default)]
struct Inner {
    spent: Mutex<Spent>,
    /// The account of the run that this one works for.
    parent: Option<Account>,
}

/// What was spent.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Spent {
    /// In tokens.
    pub usage: Usage,
    /// In money, as far as prices are known.
    pub cost: Option<f64>,
}

impl Account {
    /// An account of a run that works for nobody else.
    pub fn new() -> Account {
        Account::default()
    }

    /// The account of a run that works for this one: what it spends is spent here too.
    #[must_use]
    pub fn child(&self) -> Account {
        Account(Arc::new(Inner { spent: Mutex::default(), parent: Some(self.clone()) }))
    }

    /// Takes what was spent, here and above.
    pub fn add(&self, usage: &Usage, cost: Option<f64>) {
        let mut at = Some(self);
        while let Some(account) = at {
            let mut spent = lock(&account.0.spent);
            spent.usage.add(usage);
            spent.cost = match (spent.cost, cost) {
                (before, None) => before,
                (before, Some(cost)) => Some(before.unwrap_or_default() + cost),
            };
            at = account.0.parent.as_ref();
        }
    }

    /// What was spent here and below.
    pub fn spent(&self) -> Spent {
        lock(&self.0.spent).clone()
    }

    /// The account at the top.
    pub(crate) fn top(&self) -> &Account {
        let mut account = self;
        while let Some(parent) = &account.0.parent {
            account = parent;
        }
        account
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spent_below_is_spent_above() {
        let top = Account::new();
        let (one, other) = (top.child(), top.child());
        let deep = one.child();
        let tokens = |input_tokens| Usage { input_tokens, ..Usage::default() };
        deep.add(&tokens(5), Some(0.5));
        other.add(&tokens(7), None);
        top.add(&tokens(1), Some(1.0));
        let total = |account: &Account| (account.spent().usage.input_tokens, account.spent().cost);
        assert_eq!(total(&deep), (5, Some(0.5)));
        assert_eq!(total(&one), (5, Some(0.5)));
        assert_eq!(total(&other), (7, None));
        assert_eq!(total(&top), (13, Some(1.5)));
        assert_eq!(total(deep.top()), (13, Some(1.5)));
    }
}
