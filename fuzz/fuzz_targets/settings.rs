//! Settings: no text makes the reader panic, and what is wrong is told with a place that is in the text.
#![no_main]

use haft_policy::settings::{SettingsFlags, SettingsLayers, SettingsPlaces, TrustStatus};
use haft_policy::trust::TrustInventory;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|rest: &str| {
    let text = format!("{{{rest}");
    let places = SettingsPlaces {
        managed: None,
        claude_managed_dir: None,
        config_dir: None,
        claude_dir: None,
        claude_json: None,
        state_dir: None,
        usual: Vec::new(),
        home: None,
        cwd: "/nowhere/at/all".into(),
        git_root: None,
    };
    let flags = SettingsFlags { settings: vec![text.clone()], ..SettingsFlags::default() };
    match SettingsLayers::read(&places, &flags) {
        Ok(layers) => {
            for standing in [TrustStatus::Trusted, TrustStatus::Untrusted] {
                let settings = layers.merge(standing);
                let _ = settings.tree.entries();
                assert!(settings.warnings.iter().all(|warning| !warning.to_string().is_empty()));
            }
            assert!(TrustInventory::from_layers(&layers).is_empty(), "a flag's settings are nobody's to trust");
        }
        Err(error) => {
            assert!(!error.problems.is_empty());
            for problem in error.problems {
                let at = problem.at.unwrap_or_else(|| panic!("no place: {problem}"));
                let line = text.split('\n').nth(at.line as usize - 1);
                let line = line.unwrap_or_else(|| panic!("no such line: {problem}"));
                assert!(
                    at.column >= 1 && at.column as usize <= line.chars().count() + 1,
                    "no such column: {problem}"
                );
                assert!(!problem.message.is_empty());
            }
        }
    }
});
