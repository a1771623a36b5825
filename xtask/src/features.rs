//! Crates with fewer features than the workspace turns on.
//!
//! `test` compiles each crate without features and with its default ones, so that none relies on what the others turn on.
//! `prove` lints each feature of each crate alone, so that none relies on another, and code that nothing uses without its
//! feature is found. A loop instead of cargo-hack: that would be one more tool to install for ten lines.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::Done;
use crate::cargo::{cargo, metadata};

/// Compiles each crate without features, and with its default ones where it has any.
///
/// Crates share a build where none of them turns on features of another: most of the time goes into the dependencies,
/// and they are checked again for each set of features.
pub(crate) fn check() -> Done {
    let metadata = metadata()?;
    let requirements = FeatureRequirements::new(&metadata);
    let (without, with_defaults): (Vec<Build>, Vec<Build>) = builds(&metadata)
        .into_iter()
        .filter(|build| build.feature.as_deref().is_none_or(|feature| feature == "default"))
        .partition(|build| build.feature.is_none());
    for group in requirements.group(without) {
        cargo(["check", "--quiet", "--no-default-features"].into_iter().chain(packages(&group))).run()?;
    }
    for group in requirements.group(with_defaults) {
        cargo(["check", "--quiet"].into_iter().chain(packages(&group))).run()?;
    }
    Ok(())
}

fn packages(group: &[Build]) -> impl Iterator<Item = &str> {
    group.iter().flat_map(|build| ["--package", &build.package])
}

/// For each crate of the workspace, the crates on which it turns on features, directly or through others.
struct FeatureRequirements(BTreeMap<String, BTreeSet<String>>);

impl FeatureRequirements {
    fn new(metadata: &Value) -> FeatureRequirements {
        let mut needed: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
        let mut has_defaults = BTreeSet::new();
        for package in metadata["packages"].as_array().into_iter().flatten() {
            let dependencies = package["dependencies"].as_array().into_iter().flatten();
            let dependencies = dependencies.filter(|dependency| dependency["kind"] != "dev");
            needed.insert(text(&package["name"]), dependencies.collect());
            if package["features"]["default"].as_array().is_some_and(|enables| !enables.is_empty()) {
                has_defaults.insert(text(&package["name"]));
            }
        }
        let required = |name: &String| {
            let mut required = BTreeSet::new();
            let (mut pending, mut visited) = (vec![name.clone()], BTreeSet::new());
            while let Some(package) = pending.pop() {
                for dependency in needed.get(&package).into_iter().flatten() {
                    let name = text(&dependency["name"]);
                    let turns_on_defaults =
                        dependency["uses_default_features"] == true && has_defaults.contains(&name);
                    if turns_on_defaults || dependency["features"] != json!([]) {
                        required.insert(name.clone());
                    }
                    if visited.insert(name.clone()) {
                        pending.push(name);
                    }
                }
            }
            (name.clone(), required)
        };
        FeatureRequirements(needed.keys().map(required).collect())
    }

    /// Puts each crate into the first group whose members turn on none of its features, nor it any of theirs.
    fn group(&self, builds: Vec<Build>) -> Vec<Vec<Build>> {
        let mut groups: Vec<Vec<Build>> = Vec::new();
        for build in builds {
            let fits = |group: &&mut Vec<Build>| group.iter().all(|other| !self.conflict(&build, other));
            match groups.iter_mut().find(fits) {
                Some(group) => group.push(build),
                None => groups.push(vec![build]),
            }
        }
        groups
    }

    fn conflict(&self, one: &Build, other: &Build) -> bool {
        let turns_on =
            |from: &Build, to: &Build| self.0.get(&from.package).is_some_and(|on| on.contains(&to.package));
        turns_on(one, other) || turns_on(other, one)
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Lints each feature of each crate alone.
pub(crate) fn lint_each() -> Done {
    for build in builds(&metadata()?) {
        let options = build.options().chain(["--", "-D", "warnings"]);
        cargo(["clippy", "--quiet"].into_iter().chain(options)).run()?;
    }
    Ok(())
}

impl Build {
    fn options(&self) -> impl Iterator<Item = &str> {
        let package = ["--package", self.package.as_str(), "--no-default-features"];
        package.into_iter().chain(self.feature.iter().flat_map(|feature| ["--features", feature]))
    }
}

#[derive(Debug, PartialEq)]
struct Build {
    package: String,
    feature: Option<String>,
}

/// Every crate without features, then with each one. `default` counts only if it turns something on.
fn builds(metadata: &Value) -> Vec<Build> {
    let mut builds = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let Some(name) = package["name"].as_str().filter(|name| *name != "xtask") else { continue };
        builds.push(Build { package: name.to_string(), feature: None });
        for (feature, enables) in package["features"].as_object().into_iter().flatten() {
            if feature == "default" && enables.as_array().is_none_or(Vec::is_empty) {
                continue;
            }
            builds.push(Build { package: name.to_string(), feature: Some(feature.clone()) });
        }
    }
    builds
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(metadata: Value, expected: &[&str]) {
        let shown: Vec<String> = builds(&metadata)
            .into_iter()
            .map(|build| format!("{}/{}", build.package, build.feature.as_deref().unwrap_or("-")))
            .collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn crates_share_a_build_unless_one_turns_on_features_of_another() {
        let needs = |name: &str, features: Value| json!({"name": name, "kind": null, "uses_default_features": false, "features": features});
        let metadata = json!({"packages": [
            {"name": "cli", "features": {}, "dependencies": [needs("session", json!([]))]},
            {"name": "session", "features": {}, "dependencies": [needs("provider", json!(["http"])), needs("shell", json!([]))]},
            {"name": "provider", "features": {}, "dependencies": []},
            {"name": "shell", "features": {}, "dependencies": []},
        ]});
        let groups = FeatureRequirements::new(&metadata).group(builds(&metadata));
        let names: Vec<Vec<&str>> =
            groups.iter().map(|group| group.iter().map(|build| &*build.package).collect()).collect();
        assert_eq!(names, [vec!["cli", "session", "shell"], vec!["provider"]]);
    }

    #[test]
    fn every_crate_alone_and_every_feature_alone() {
        check(
            serde_json::json!({"packages": [
                {"name": "a", "features": {"default": [], "pdf": [], "testing": ["dep:x"]}},
                {"name": "b", "features": {}},
                {"name": "xtask", "features": {}},
            ]}),
            &["a/-", "a/pdf", "a/testing", "b/-"],
        );
    }

    #[test]
    fn a_default_that_turns_something_on_is_a_build() {
        check(
            serde_json::json!({"packages": [{"name": "a", "features": {"default": ["pdf"], "pdf": []}}]}),
            &["a/-", "a/default", "a/pdf"],
        );
    }
}
