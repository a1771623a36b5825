//! Crates with fewer features than the workspace turns on.
//!
//! `test` compiles each crate without features and with its default ones, so that none relies on what the others turn on.
//! `prove` lints each feature of each crate alone, so that none relies on another, and code that nothing uses without its
//! feature is found. A loop instead of cargo-hack: that would be one more tool to install for ten lines.

use serde_json::Value;

use crate::Done;
use crate::cargo::{cargo, metadata};

/// Compiles each crate without features, and with its default ones where it has any.
pub(crate) fn check() -> Done {
    let checked = |build: &Build| build.feature.as_deref().is_none_or(|feature| feature == "default");
    for build in builds(&metadata()?).iter().filter(|build| checked(build)) {
        cargo(["check", "--quiet"].into_iter().chain(build.options())).run()?;
    }
    Ok(())
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
