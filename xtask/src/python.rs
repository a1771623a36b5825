//! The Python that tests use: the SDKs of model providers, in a virtual environment under the target folder.
//!
//! Tests find it by the variable [`VARIABLE`] and, where it isn't set, say that they were skipped: `cargo test` alone
//! needs nothing but Rust. What is installed is pinned in `REQUIREMENTS`; a change of that file makes the environment
//! anew.

use std::fs;
use std::path::{Path, PathBuf};

use crate::cargo::{Call, root, target_dir};

/// Names the interpreter for tests.
pub(crate) const VARIABLE: &str = "HAFT_TEST_PYTHON";
const REQUIREMENTS: &str = "examples/requirements.txt";

/// The interpreter of the environment, which is made or brought up to date first.
pub(crate) fn interpreter() -> Result<PathBuf, String> {
    let place = target_dir()?.join("python");
    let wanted = root()?.join(REQUIREMENTS);
    let pinned = fs::read_to_string(&wanted).map_err(|error| format!("`{REQUIREMENTS}`: {error}"))?;
    let interpreter = place.join("bin/python");
    if !is_current(&place, &pinned) {
        make(&place, &interpreter, &wanted)?;
        fs::write(stamp(&place), &pinned).map_err(|error| format!("`{}`: {error}", place.display()))?;
    }
    Ok(interpreter)
}

/// The file that says what is installed, written last: an environment without it is not finished.
fn stamp(place: &Path) -> PathBuf {
    place.join("installed.txt")
}

fn is_current(place: &Path, pinned: &str) -> bool {
    fs::read_to_string(stamp(place)).is_ok_and(|installed| installed == pinned)
}

fn make(place: &Path, interpreter: &Path, wanted: &Path) -> Result<(), String> {
    let made = Call::new("python3".into(), "python3", ["-m", "venv", "--clear", &place.to_string_lossy()])
        .quiet()
        .run();
    made.map_err(|error| {
        format!("{error}\ntests that use the SDKs need Python 3.10 or newer with `venv` (Debian: python3 python3-venv)")
    })?;
    let wanted = wanted.to_string_lossy();
    let install =
        ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement", &*wanted];
    Call::new(interpreter.to_path_buf(), "target/python/bin/python", install).quiet().run()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_is_current_if_it_was_finished_with_these_versions() {
        let place = std::env::temp_dir().join(format!("haft-xtask-python-{}", std::process::id()));
        fs::create_dir_all(&place).expect("the temporary folder can be written");
        assert!(!is_current(&place, "a==1\n"));
        fs::write(stamp(&place), "a==1\n").expect("the folder was just made");
        assert!(is_current(&place, "a==1\n"));
        assert!(!is_current(&place, "a==2\n"));
        fs::remove_dir_all(&place).expect("the folder is ours");
    }
}
