//! Crates with fewer features than the workspace turns on.
//!
//! `test` compiles each crate without features and with its default ones, so that none relies on what the
//! others turn on. `prove` lints each feature of each crate alone, so that none relies on another, and code
//! that nothing uses without its feature is found. A loop instead of cargo-hack: that would be one more tool
//! to install for ten lines.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::Done;
use crate::cargo::{cargo, metadata};

/// Compiles each crate without features, and with its default ones where it has any.
///
/// A crate on which others turn on features has a build of its own. The rest share one: most of the time goes
/// into the dependencies, and they are checked again for each set of features.
pub(crate) fn check() -> Done {
    let metadata = metadata()?;
    let alone = crates_with_features_turned_on(&metadata);
    let without = ["check", "--quiet", "--no-default-features"];
    for (feature, options) in [(None, &without[..]), (Some("default"), &without[..2])] {
        let builds = builds(&metadata).into_iter().filter(|(_, other)| other.as_deref() == feature);
        let (alone, shared): (Vec<_>, Vec<_>) =
            builds.map(|(package, _)| package).partition(|package| alone.contains(package));
        for group in std::iter::once(shared).chain(alone.into_iter().map(|package| vec![package])) {
            let packages = group.iter().flat_map(|package| ["--package", package]);
            cargo(options.iter().copied().chain(packages)).run()?;
        }
    }
    Ok(())
}

/// Lints each feature of each crate alone.
pub(crate) fn lint_each() -> Done {
    for (package, feature) in builds(&metadata()?) {
        let mut args = vec!["clippy", "--quiet", "--package", &package, "--no-default-features"];
        args.extend(feature.iter().flat_map(|feature| ["--features", feature]));
        args.extend(["--", "-D", "warnings"]);
        cargo(args).run()?;
    }
    Ok(())
}

/// Every crate without features, then with each one. `default` counts only if it turns something on.
fn builds(metadata: &Value) -> Vec<(String, Option<String>)> {
    let mut builds = Vec::new();
    for package in list(&metadata["packages"]).filter(|package| package["name"] != "xtask") {
        let features = package["features"].as_object().into_iter().flatten();
        let features = features.filter(|(feature, enables)| *feature != "default" || !is_empty(enables));
        let features = features.map(|(feature, _)| Some(feature.clone()));
        builds.extend(std::iter::once(None).chain(features).map(|feature| (name(package), feature)));
    }
    builds
}

fn crates_with_features_turned_on(metadata: &Value) -> BTreeSet<String> {
    let packages = || list(&metadata["packages"]);
    let has_defaults = packages().filter(|package| !is_empty(&package["features"]["default"])).map(name);
    let has_defaults: BTreeSet<String> = has_defaults.collect();
    let needed = packages().flat_map(|package| list(&package["dependencies"]));
    let turned_on = needed.filter(|needed| needed["kind"] != "dev").filter(|needed| {
        let turns_on_defaults =
            needed["uses_default_features"] == true && has_defaults.contains(&name(needed));
        turns_on_defaults || !is_empty(&needed["features"])
    });
    turned_on.map(name).collect()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn is_empty(value: &Value) -> bool {
    list(value).next().is_none()
}

fn name(value: &Value) -> String {
    value["name"].as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_found_in_what_cargo_says() {
        let metadata = serde_json::json!({"packages": [
            {"name": "cli", "features": {"default": ["x"], "x": []}, "dependencies": [
                {"name": "session", "uses_default_features": true, "features": []},
                {"name": "provider", "uses_default_features": false, "features": ["http"]},
                {"name": "sim", "kind": "dev", "features": ["y"]}]},
            {"name": "session", "features": {"default": []}},
            {"name": "xtask", "features": {}},
        ]});
        let shown =
            builds(&metadata).into_iter().map(|(name, feature)| name + "/" + &feature.unwrap_or_default());
        assert_eq!(shown.collect::<Vec<_>>(), ["cli/", "cli/default", "cli/x", "session/"]);
        assert_eq!(crates_with_features_turned_on(&metadata), ["provider".to_owned()].into());
    }
}
