//! Script tools: a folder with `tool.json` and a program in any language.
//!
//! The arguments of a call go to the program as one JSON object on standard input, what it prints is the
//! result, and an exit code other than 0 is an error with standard error as its words. [`load_scripts`] makes
//! tools of a folder of such folders; they go through everything that any tool goes through. The program
//! itself is run by the host's [`Processes`](haft::ports::Processes): where that doesn't confine it, its
//! declared effects are only believed, so every call asks unless it is allowed by name.
//!
//! - `manifest` is `tool.json`: its fields, its schema, what is wrong with one.
//! - `effects` turns what it declares and one call's arguments into [`Effects`].
//! - `run` is one call.
//!
//! One bad `tool.json` takes no other tool down. Which folders are read is the host's decision: this part
//! looks at the one that it is given, reads no environment variable but `PATH`, and starts nothing.

mod manifest;
mod script_effects;
mod script_run;

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use haft::registry::{RegisteredTool, ToolOrigin};
use haft::schema::InputViolation;
use haft::tool::AnyTool;
use haft::{Effects, Registry, dynamic_tool};

pub use manifest::{OnInterrupt, OutputForm, ScriptEffects, ScriptManifest, manifest_schema};

use manifest::CheckedManifest;
use script_run::ScriptRunner;

/// The name of the file that describes a tool.
pub const MANIFEST: &str = "tool.json";
/// The largest `tool.json`, in bytes.
pub const MANIFEST_BYTES_MAX: u64 = 1024 * 1024;
/// How many folders of one folder are looked at.
pub const TOOLS_MAX: usize = 1_000;
/// The longest time limit that a tool may ask for, in milliseconds: a day.
pub const TIMEOUT_MS_MAX: u64 = 24 * 60 * 60 * 1000;
/// The smallest `max_result_chars`: room for the words that say where the whole is.
pub const RESULT_CHARS_MIN: usize = 100;

/// The tools of a folder, and what could not be loaded.
#[derive(Debug, Default)]
pub struct LoadedScripts {
    /// The tools, by the names of their folders.
    pub tools: Vec<ScriptTool>,
    /// Why others are missing.
    pub problems: Vec<ScriptProblem>,
}

/// A script tool, and the file that describes it.
#[derive(Debug, Clone)]
pub struct ScriptTool {
    /// Its `tool.json`.
    pub path: PathBuf,
    /// The tool.
    pub tool: AnyTool,
}

impl LoadedScripts {
    /// These tools besides those of a registry, and why others are missing.
    ///
    /// Never fails: what can't be registered, and what has a name of a built-in tool, is left out with its
    /// problem.
    pub fn register(
        self,
        registry: &Registry,
        source: impl Into<Arc<str>>,
    ) -> (Registry, Vec<ScriptProblem>) {
        let (mut registry, source, mut problems) = (registry.clone(), source.into(), self.problems);
        for ScriptTool { path, tool } in self.tools {
            let mut violations = names_of_built_ins(&tool, &registry);
            if violations.is_empty() {
                match registry.with_external(source.clone(), tool) {
                    Ok(with_it) => registry = with_it,
                    Err(error) => violations.push(InputViolation::new("", error.to_string())),
                }
            }
            if !violations.is_empty() {
                problems.push(ScriptProblem { path, violations });
            }
        }
        (registry, problems)
    }
}

/// The names of a tool that built-in tools have, which are theirs also where they are not offered.
fn names_of_built_ins(tool: &AnyTool, registry: &Registry) -> Vec<InputViolation> {
    let built_in = || registry.entries().filter(|entry| *entry.origin() == ToolOrigin::BuiltIn);
    let owner = |name: &str| {
        let has = |one: &&AnyTool| one.name() == name || one.aliases().iter().any(|alias| alias == name);
        built_in().map(RegisteredTool::tool).find(has).map(AnyTool::name)
    };
    let taken = |(field, name): (String, &str)| {
        let owner = owner(name)?;
        Some(InputViolation::new(
            field,
            format!("`{name}` is a name of the built-in tool `{owner}`; give another"),
        ))
    };
    tool_names(tool).filter_map(taken).collect()
}

/// All names of a tool, each with its field.
fn tool_names(tool: &AnyTool) -> impl Iterator<Item = (String, &str)> {
    let aliases = tool.aliases().iter().enumerate();
    let aliases = aliases.map(|(at, alias)| (format!("/aliases/{at}"), alias.as_str()));
    std::iter::once(("/name".to_owned(), tool.name())).chain(aliases)
}

/// A tool that could not be loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptProblem {
    /// The file or folder.
    pub path: PathBuf,
    /// What is wrong with it, each with the JSON pointer of the field; at least one.
    pub violations: Vec<InputViolation>,
}

impl ScriptProblem {
    fn new(path: &Path, words: impl Into<String>) -> ScriptProblem {
        ScriptProblem { path: path.to_owned(), violations: vec![InputViolation::new("", words)] }
    }
}

/// What is wrong, in a line for each problem: which file, which field, what came, what is accepted.
impl fmt::Display for ScriptProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        if let [only] = self.violations.as_slice() {
            return write!(f, "{path}: {only}");
        }
        write!(f, "{path}: {} problems", self.violations.len())?;
        self.violations.iter().try_for_each(|violation| write!(f, "\n  {violation}"))
    }
}

/// Loads the script tools of a folder: each of its folders that has a `tool.json`, or the folder itself if it
/// has one.
///
/// Links are followed. Folders without a `tool.json` are no tools and no problem. Of two tools with one name
/// the later one is left out; so is one with an alias that another has as its name, or before it as an alias.
///
/// # Errors
/// The folder itself can't be read.
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// # let dir = tempfile::tempdir()?;
/// std::fs::create_dir(dir.path().join("now"))?;
/// std::fs::write(
///     dir.path().join("now/tool.json"),
///     r#"{"name": "now", "description": "Returns the time.", "input_schema": {"type": "object"}, "command": ["date"],
///         "effects": {}}"#,
/// )?;
/// let loaded = haft_tools::scripts::load_scripts(dir.path())?;
/// let (registry, problems) = loaded.register(&haft::Registry::new(), "script:mine");
/// assert!(problems.is_empty());
/// assert_eq!(registry.len(), 1);
/// # Ok(()) }
/// ```
pub fn load_scripts(dir: &Path) -> io::Result<LoadedScripts> {
    let mut loaded = LoadedScripts::default();
    let mut folders = Vec::new();
    if path_exists(&dir.join(MANIFEST)) {
        folders.push(dir.to_owned());
    } else {
        for entry in fs::read_dir(dir)? {
            folders.push(entry?.path());
        }
        folders.sort();
        folders.retain(|folder| path_exists(&folder.join(MANIFEST)) || is_broken_link(folder));
    }
    if folders.len() > TOOLS_MAX {
        let words = format!("has {} tools; the first {TOOLS_MAX} are loaded", folders.len());
        loaded.problems.push(ScriptProblem::new(dir, words));
        folders.truncate(TOOLS_MAX);
    }
    for folder in folders {
        let path = folder.join(MANIFEST);
        match read_manifest(&path).and_then(|manifest| build_tool(manifest, &folder)) {
            Ok(tool) => loaded.tools.push(ScriptTool { path, tool }),
            Err(violations) => loaded.problems.push(ScriptProblem { path, violations }),
        }
    }
    loaded.leave_clashes_out();
    Ok(loaded)
}

impl LoadedScripts {
    /// Leaves out what has a name of another: first by the names, so that no alias takes one away, then by
    /// the aliases.
    fn leave_clashes_out(&mut self) {
        let mut owners: HashMap<String, PathBuf> = HashMap::new();
        for names in [true, false] {
            let mut stays = Vec::new();
            for script in std::mem::take(&mut self.tools) {
                let of_this_pass: Vec<_> =
                    tool_names(&script.tool).filter(|(field, _)| (field == "/name") == names).collect();
                let taken = |(field, name): &(String, &str)| {
                    let words = format!("`{name}` is a name of {} already", owners.get(*name)?.display());
                    Some(InputViolation::new(field, words))
                };
                let violations: Vec<_> = of_this_pass.iter().filter_map(taken).collect();
                if violations.is_empty() {
                    owners.extend(
                        of_this_pass.into_iter().map(|(_, name)| (name.to_owned(), script.path.clone())),
                    );
                    stays.push(script);
                } else {
                    self.problems.push(ScriptProblem { path: script.path, violations });
                }
            }
            self.tools = stays;
        }
        self.problems.sort_by(|a, b| a.path.cmp(&b.path));
    }
}

/// Whether something of this name is there, whatever it is.
fn path_exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

fn is_broken_link(path: &Path) -> bool {
    path.is_symlink() && path.metadata().is_err()
}

/// Reads a manifest, unless it is no plain file or too large.
fn read_manifest(file: &Path) -> Result<CheckedManifest, Vec<InputViolation>> {
    let wrong = |words: String| vec![InputViolation::new("", words)];
    let unreadable = |error: io::Error| wrong(format!("can't be read: {}", describe_io_error(&error)));
    // Opening a FIFO would wait for its writer.
    let metadata = fs::metadata(file).map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(wrong("is not a plain file".into()));
    }
    let mut bytes = Vec::new();
    let opened = fs::File::open(file).map_err(unreadable)?;
    opened.take(MANIFEST_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MANIFEST_BYTES_MAX {
        return Err(wrong(format!("has more than {MANIFEST_BYTES_MAX} bytes")));
    }
    manifest::check_manifest(&bytes)
}

/// Why something can't be read, without the number of the system's error.
fn describe_io_error(error: &io::Error) -> String {
    let words = error.to_string();
    words.split(" (os error").next().unwrap_or(&words).to_lowercase()
}

/// Makes the tool.
fn build_tool(checked: CheckedManifest, folder: &Path) -> Result<AnyTool, Vec<InputViolation>> {
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let program = resolve_program(&checked.manifest.command[0], &folder)?;
    let real = folder.canonicalize().unwrap_or_else(|_| folder.clone());
    let script = Arc::new(ScriptRunner::new(&checked, &real, program));
    let (class, timeout) = (checked.declared.listed_class(), script.timeout());
    let CheckedManifest { manifest, .. } = checked;
    let (called, judged, checked) = (script.clone(), script.clone(), script);
    let call = move |arguments, cx| script_run::run_script(called.clone(), arguments, cx);
    let mut tool = dynamic_tool(manifest.name, manifest.description, manifest.input_schema.into(), call)
        // What is unknown here is refused by the check, which comes before anybody is asked.
        .effects(move |arguments| judged.effects(arguments).unwrap_or_else(|_| Effects::unknown()))
        .check(move |arguments, _| std::future::ready(checked.effects(arguments).map(|_| ())))
        .group("scripts")
        .interrupt(manifest.interrupt.unwrap_or_default().into())
        // The program's own limit comes first; this one is for whatever goes wrong with ending it.
        .timeout(timeout + script_run::ENDING)
        .spec(|spec| spec.in_child().feature("scripts").listed_class(class));
    for alias in manifest.aliases {
        tool = tool.alias(alias);
    }
    if let Some(schema) = manifest.output_schema {
        tool = tool.output_schema(schema.into());
    }
    if let Some(limit) = manifest.max_result_chars {
        tool = tool.result_limit(limit);
    }
    if let Some(calls) = manifest.max_concurrency {
        tool = tool.concurrency(calls.get());
    }
    tool = match (manifest.defer, manifest.always_load) {
        (true, _) => tool.exposure(haft::tool::ToolExposure::Deferred),
        (_, true) => tool.exposure(haft::tool::ToolExposure::AlwaysLoaded),
        _ => tool,
    };
    if let Some(hint) = manifest.search_hint {
        tool = tool.search_hint(hint);
    }
    if manifest.requires_user {
        tool = tool.needs_user();
    }
    // Name and description fit the manifest's schema, so only the input's schema can still be wrong.
    tool.build().map_err(|bad| vec![InputViolation::new("/input_schema", bad.reason)])
}

/// The program as it is started: a file of the tool's folder, an absolute path, or a name that is found on
/// `PATH`.
fn resolve_program(command: &str, folder: &Path) -> Result<PathBuf, Vec<InputViolation>> {
    let wrong = |words: String| vec![InputViolation::new("/command/0", words)];
    let file = match command.strip_prefix("./") {
        Some(rest) if Path::new(rest).components().any(|part| part == Component::ParentDir) => {
            return Err(wrong(format!("`{command}` leaves the tool's folder; others begin with `/`")));
        }
        Some(rest) => folder.join(rest),
        None if command.starts_with('/') => PathBuf::from(command),
        None if command == "." || command == ".." => {
            return Err(wrong(format!("`{command}` is a folder; name a program, such as `./run`")));
        }
        None if !command.contains('/') => {
            return if on_path(command) {
                Ok(PathBuf::from(command))
            } else {
                Err(wrong(format!("no folder of PATH has a program `{command}`")))
            };
        }
        None => {
            return Err(wrong(format!(
                "`{command}` is not accepted; a file of this folder begins with `./`, others with `/`, and a program on PATH \
                 has no `/`"
            )));
        }
    };
    let metadata = fs::metadata(&file).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => wrong(format!("there is no file `{}`", file.display())),
        _ => wrong(format!("`{}` can't be looked at: {}", file.display(), describe_io_error(&error))),
    })?;
    if !metadata.is_file() {
        return Err(wrong(format!("`{}` is not a file", file.display())));
    }
    if !is_executable(&metadata) {
        return Err(wrong(format!("`{0}` is not executable; `chmod +x {0}` makes it so", file.display())));
    }
    Ok(file)
}

fn is_executable(metadata: &fs::Metadata) -> bool {
    metadata.is_file() && std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o111 != 0
}

/// Whether a program of this name is found, as far as can be told now; it is looked for again when it is
/// started.
fn on_path(name: &str) -> bool {
    // Without a PATH the system has a list of its own.
    let Some(path) = std::env::var_os("PATH") else { return true };
    std::env::split_paths(&path)
        .any(|dir| fs::metadata(dir.join(name)).is_ok_and(|found| is_executable(&found)))
}
