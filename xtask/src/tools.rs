//! Programs of the crate registry that commands use: each is built once, in a pinned version, and kept in the
//! cache folder of the user, where other checkouts find it. No registry offers them ready-made in these
//! versions.

use std::path::PathBuf;

use crate::cargo::{Call, cargo};

/// The program `name` of this version of the crate `package`: the developer's own, the cached one, or one
/// that is built now, with these options.
pub(crate) fn installed(
    package: &str,
    name: &str,
    version: &str,
    options: &[&str],
) -> Result<PathBuf, String> {
    let root = cache_dir()?.join(format!("{package}-{version}"));
    let cached = root.join("bin").join(name);
    for program in [PathBuf::from(name), cached.clone()] {
        let said = Call::new(&program, ["--version"]).read().unwrap_or_default();
        if said.lines().next().is_some_and(|line| line.split_whitespace().any(|word| word == version)) {
            return Ok(program);
        }
    }
    println!("{package} {version} is not installed; building it takes a few minutes, once");
    let root = root.to_string_lossy();
    let args = ["install", "--locked", "--quiet", "--root", &root, package, "--version", version];
    let install = cargo(args.iter().chain(options)).with_env("CARGO_PROFILE_DEV_DEBUG", "0");
    let done = install.quiet().run();
    done.map_err(|error| {
        format!("{error}\n{package} {version} is built once, which needs the crate registry")
    })?;
    Ok(cached)
}

/// Where programs of this automation are kept between checkouts.
fn cache_dir() -> Result<PathBuf, String> {
    let named = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|dir| dir.is_absolute());
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = named.or_else(home).ok_or("neither XDG_CACHE_HOME nor HOME is set")?;
    Ok(cache.join("haft-xtask"))
}
