//! Each feature of each crate alone, so that none leans on another or on what the rest of the workspace turns on.
//!
//! A loop instead of cargo-hack: that would be one more tool to install for ten lines. Clippy instead of `check`,
//! because its `-D warnings` reaches only our crates: code that nothing uses without its feature fails here, where
//! the lints of all features together can't see it.

use serde_json::Value;

use crate::Done;
use crate::cargo::{cargo, metadata};

pub(crate) fn run() -> Done {
    for build in builds(&metadata()?) {
        let args = ["clippy", "--quiet", "--package", &build.package, "--no-default-features"];
        let feature = build.feature.iter().flat_map(|feature| ["--features", feature]);
        cargo(args.into_iter().chain(feature).chain(["--", "-D", "warnings"])).run()?;
    }
    Ok(())
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
