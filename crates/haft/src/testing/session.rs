//! Doubles for what a session gives its tools beside files and processes: planned prompts, grants, settings.

use std::sync::{Arc, Mutex};

use haft_scheduler::sync::lock;

use crate::ports::{CronState, Crons, Grants, NewCron, Setting, SettingsView};

/// Planned prompts that never fire: each is due at its own expression.
///
/// ```
/// use haft::ports::{Crons, NewCron};
/// use haft::testing::MemoryCrons;
///
/// let crons = MemoryCrons::default();
/// let new = NewCron { cron: "0 9 * * *".into(), prompt: "good morning".into(), recurring: true, durable: false };
/// assert_eq!(crons.create(new).unwrap().id, "cron-1");
/// assert_eq!(crons.delete("cron-1").unwrap().unwrap().prompt, "good morning");
/// assert!(crons.list().is_empty());
/// ```
#[derive(Clone, Default)]
pub struct MemoryCrons(Arc<Mutex<(u64, Vec<CronState>)>>);

impl Crons for MemoryCrons {
    fn create(&self, new: NewCron) -> Result<CronState, String> {
        let mut kept = lock(&self.0);
        kept.0 += 1;
        let next = new.cron.clone();
        let state = CronState::new(format!("cron-{}", kept.0), new, next);
        kept.1.push(state.clone());
        Ok(state)
    }

    fn delete(&self, id: &str) -> Result<Option<CronState>, String> {
        let crons = &mut lock(&self.0).1;
        Ok(crons.iter().position(|cron| cron.id == id).map(|at| crons.remove(at)))
    }

    fn list(&self) -> Vec<CronState> {
        lock(&self.0).1.clone()
    }
}

/// Keeps what was granted, and grants nothing.
#[derive(Clone, Default)]
pub struct MemoryGrants(Arc<Mutex<Vec<String>>>);

impl MemoryGrants {
    /// The rules that were asked for, in order.
    pub fn rules(&self) -> Vec<String> {
        lock(&self.0).clone()
    }
}

impl Grants for MemoryGrants {
    fn allow_for_turn(&self, rules: &[String]) -> Result<(), String> {
        lock(&self.0).extend(rules.iter().cloned());
        Ok(())
    }
}

/// Settings that are as they were given.
#[derive(Clone, Default)]
pub struct MemorySettings(pub Vec<Setting>);

impl SettingsView for MemorySettings {
    fn in_force(&self) -> Vec<Setting> {
        self.0.clone()
    }
}
