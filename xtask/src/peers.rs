//! The packages of Python and Node that tests talk to: SDKs of model providers and MCP servers that other
//! people wrote, in folders under the target folder.
//!
//! Tests find each by a variable and, where it isn't set, say that they were skipped: `cargo test` alone
//! needs nothing but Rust. What is installed is pinned in files; a change of one of them installs anew. No
//! script of a Node package is run.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Done;
use crate::cargo::{Call, root, target_dir};

/// Packages of one language.
pub(crate) struct Peers {
    /// Names what was installed for tests.
    pub(crate) variable: &'static str,
    /// The folder under the target folder, and what in it the variable names.
    place: [&'static str; 2],
    /// The folder of the files that pin the versions, and their names.
    pinned: (&'static str, &'static [&'static str]),
    /// Installs into this folder what these files pin.
    install: fn(&Path, &Path) -> Done,
}

pub(crate) const PYTHON: Peers = Peers {
    variable: "HAFT_TEST_PYTHON",
    place: ["python", "bin/python"],
    pinned: ("examples", &["requirements.txt"]),
    install: install_python,
};

pub(crate) const NODE: Peers = Peers {
    variable: "HAFT_TEST_NODE_MODULES",
    place: ["node", "node_modules"],
    pinned: ("examples/node", &["package.json", "package-lock.json"]),
    install: install_node,
};

impl Peers {
    /// Installs the packages unless they are there in these versions. Returns what the variable names.
    pub(crate) fn installed(&self) -> Result<String, String> {
        let [folder, named] = self.place;
        let (place, wanted) = (target_dir()?.join(folder), root()?.join(self.pinned.0));
        let failed = |path: &Path, error: std::io::Error| format!("`{}`: {error}", path.display());
        let mut pinned = String::new();
        for name in self.pinned.1 {
            let path = wanted.join(name);
            pinned.push_str(&fs::read_to_string(&path).map_err(|error| failed(&path, error))?);
        }
        // Written last: a folder without it is not finished.
        let stamp = place.join("installed.txt");
        if fs::read_to_string(&stamp).ok().as_ref() != Some(&pinned) {
            fs::create_dir_all(&place).map_err(|error| failed(&place, error))?;
            (self.install)(&place, &wanted)?;
            fs::write(&stamp, &pinned).map_err(|error| failed(&stamp, error))?;
        }
        Ok(place.join(named).to_string_lossy().into_owned())
    }
}

fn install_python(place: &Path, wanted: &Path) -> Done {
    let made = Call::new("python3", ["-m", "venv", "--clear", &place.to_string_lossy()]).quiet().run();
    made.map_err(|error| {
        format!("{error}\ntests that use the SDKs need Python 3.10 or newer with `venv` (Debian: python3 python3-venv)")
    })?;
    let requirements = wanted.join("requirements.txt");
    let args = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"];
    let args = args.into_iter().map(str::to_owned).chain([requirements.to_string_lossy().into_owned()]);
    Call::new(place.join("bin/python"), args).quiet().run()
}

fn install_node(place: &Path, wanted: &Path) -> Done {
    for name in NODE.pinned.1 {
        fs::copy(wanted.join(name), place.join(name)).map_err(|error| format!("`{name}`: {error}"))?;
    }
    let place: PathBuf = place.into();
    let place = place.to_string_lossy();
    let args =
        ["ci", "--prefix", &*place, "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel", "error"];
    Call::new("npm", args).quiet().run().map_err(|error| {
        format!("{error}\ntests with MCP servers need Node 20 or newer with npm (Debian: nodejs npm)")
    })
}
