//! Kinds of agents: built-in ones, and those that the user and a trusted project describe in files.
//!
//! A file describes the purpose of a kind, its prompt, and its restrictions: tools and mode. It can't widen
//! anything, since the rules of the parent apply to an agent's calls too. But it instructs a model, so a
//! project's kinds need workspace trust, like its memory files. An invalid file is skipped and reported.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use haft::effects::table::ConcurrencyClass;
use haft::ports::PermissionMode;
use haft::registry::{RegisteredTool, ToolOrigin};
use haft::text::truncate_chars;
use haft::tool::ListedClass;
use haft_tools::AgentKind;
use haft_tools::agent::built_in_kinds;
use haft_tools::front_matter::{self, FrontMatterValue};

use crate::SessionOptions;
use crate::loaded_settings::LoadedSettings;
use crate::run::memory::is_trusted;
use crate::text::one_line;

/// The maximum size of a file, in bytes.
pub const FILE_BYTES_MAX: u64 = 64 * 1024;
/// The maximum number of files that are read.
pub const FILES_MAX: usize = 100;
/// The maximum length of a kind's description for the model, in characters.
const DESCRIPTION_CHARS_MAX: usize = 1_000;
/// The maximum length of a kind's name, in characters.
const NAME_CHARS_MAX: usize = 64;
/// The folder of such files, in settings folders.
const FOLDER: &str = "agents";

/// Keys of other programs for display and storage, which are ignored because nothing here depends on them.
const PASSED_OVER: [&str; 4] = ["color", "effort", "memory", "version"];

/// The prompt of a read-only agent.
const EXPLORE: &str = "\
You only look; nothing that you do changes anything. Find what you are asked for: search by name and by content, in several \
ways at once, and read what looks right before you believe it. Answer with what you found, each fact with the file and the \
line that it is from, and say what you looked for and did not find.";

/// The prompt of a planning agent.
const PLAN: &str = "\
You only look; nothing that you do changes anything. Work out how the task should be done here: read the code that it \
touches, and what is done like it already. Answer with the steps in their order, each with the files that it changes and how \
to see that it worked; then what could go wrong, and the three to five files that matter most.";

/// A kind of agent.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentDefinition {
    pub name: String,
    pub description: String,
    /// The prompt, which follows the one of every agent.
    pub prompt: String,
    pub tools: AgentTools,
    /// Names of tools that it doesn't have.
    pub without: Vec<String>,
    /// The model, if it differs from the parent's.
    pub model: Option<String>,
    /// Its own mode. The stricter of this one and the session's applies.
    pub mode: Option<PermissionMode>,
    /// The maximum number of model requests.
    pub max_turns: Option<u64>,
}

/// The tools of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentTools {
    /// All of its parent's tools.
    All,
    /// Its parent's tools that are or can be read-only.
    Looking,
    /// Its parent's tools with these names; a trailing `*` matches anything.
    Named(Vec<String>),
}

/// The kinds of a session, and problems with their files.
#[derive(Debug, Clone, Default)]
pub struct AgentKinds {
    pub kinds: Vec<AgentDefinition>,
    /// What was skipped and why, one line each.
    pub problems: Vec<String>,
}

impl AgentDefinition {
    fn built_in(told: AgentKind) -> AgentDefinition {
        let looks = told.name != haft_tools::agent::USUAL_KIND;
        let prompt = match &*told.name {
            "explore" => EXPLORE,
            "plan" => PLAN,
            _ => "",
        };
        AgentDefinition {
            name: told.name,
            description: told.description,
            prompt: prompt.to_owned(),
            tools: if looks { AgentTools::Looking } else { AgentTools::All },
            without: Vec::new(),
            model: None,
            mode: looks.then_some(PermissionMode::Plan),
            max_turns: None,
        }
    }

    /// Returns whether it has a tool of its parent.
    pub fn has(&self, entry: &RegisteredTool) -> bool {
        let tool = entry.tool();
        let names = || std::iter::once(tool.name()).chain(tool.aliases().iter().map(String::as_str));
        let named = |list: &[String]| list.iter().any(|rule| names().any(|name| rule_fits(rule, name)));
        let has = match &self.tools {
            AgentTools::All => true,
            AgentTools::Looking => {
                let looks = match tool.listed_class() {
                    ListedClass::Always(class) => class == ConcurrencyClass::ReadOnly,
                    // The mode denies the tool's changes. The changes of external tools are unknown.
                    ListedClass::Depends => *entry.origin() == ToolOrigin::BuiltIn,
                };
                looks || tool.spec().is_session_only()
            }
            AgentTools::Named(list) => named(list),
        };
        has && !named(&self.without)
    }
}

/// Returns whether a name matches.
fn rule_fits(rule: &str, name: &str) -> bool {
    match rule.strip_suffix('*') {
        Some(begin) => name.starts_with(begin),
        None => rule == name,
    }
}

impl AgentKinds {
    /// Loads the kinds of a session. A project's kinds override the user's, and these override the built-in
    /// ones.
    pub fn load(given: &LoadedSettings, common: &SessionOptions) -> AgentKinds {
        let mut kinds = AgentKinds {
            kinds: built_in_kinds().into_iter().map(AgentDefinition::built_in).collect(),
            problems: Vec::new(),
        };
        let places = &given.places;
        for folder in [&places.claude_dir, &places.config_dir].into_iter().flatten() {
            kinds.add_folder(&folder.join(FOLDER), None, given);
        }
        let projects = [".claude", ".haft"].map(|folder| places.cwd.join(folder).join(FOLDER));
        let there: Vec<&PathBuf> = projects.iter().filter(|folder| folder.is_dir()).collect();
        if there.is_empty() {
            return kinds;
        }
        if !is_trusted(places, common, &given.loaded.judgement, &given.loaded.inventory) {
            let names: Vec<String> = there.iter().map(|folder| one_line(&places.show(folder))).collect();
            kinds.problems.push(format!(
                "left out: {}; this workspace is not trusted, `haft trust` shows it",
                names.join(", ")
            ));
            return kinds;
        }
        there.iter().for_each(|folder| kinds.add_folder(folder, Some(&places.cwd), given));
        kinds
    }

    /// Returns the names and descriptions of all kinds, for the model.
    pub fn told(&self) -> Vec<AgentKind> {
        let told = |kind: &AgentDefinition| AgentKind {
            name: kind.name.clone(),
            description: kind.description.clone(),
        };
        self.kinds.iter().map(told).collect()
    }

    pub fn find(&self, name: &str) -> Option<&AgentDefinition> {
        let other = if name == "general-purpose" { haft_tools::agent::USUAL_KIND } else { name };
        let exact = self.kinds.iter().find(|kind| kind.name == name);
        exact.or_else(|| self.kinds.iter().find(|kind| kind.name.eq_ignore_ascii_case(other)))
    }

    /// Adds the kinds of a folder. If the folder has a root, its files may not lead out of it.
    fn add_folder(&mut self, folder: &Path, root: Option<&Path>, given: &LoadedSettings) {
        let Ok(entries) = fs::read_dir(folder) else { return };
        let is_markdown = |path: &PathBuf| path.extension().is_some_and(|end| end == "md");
        let mut files: Vec<PathBuf> =
            entries.flatten().map(|entry| entry.path()).filter(is_markdown).collect();
        files.sort();
        if files.len() > FILES_MAX {
            let shown = one_line(&given.places.show(folder));
            self.problems.push(format!("`{shown}` has more than {FILES_MAX} agents; the rest is left out"));
            files.truncate(FILES_MAX);
        }
        for file in files {
            let shown = one_line(&given.places.show(&file));
            let read = read_definition(&file, root).and_then(|text| parse_definition(&text));
            match read {
                Ok((kind, notes)) => {
                    self.problems.extend(notes.iter().map(|note| format!("{shown}: {}", one_line(note))));
                    self.kinds.retain(|known| known.name != kind.name);
                    self.kinds.push(kind);
                }
                Err(why) => self.problems.push(format!("agent left out: {shown}: {}", one_line(&why))),
            }
        }
    }
}

fn read_definition(path: &Path, root: Option<&Path>) -> Result<String, String> {
    let unreadable = |error: std::io::Error| format!("it can't be read: {error}");
    let real = path.canonicalize().map_err(unreadable)?;
    if root.is_some_and(|root| !real.starts_with(root)) {
        return Err("it leads out of the workspace".to_owned());
    }
    let file = File::open(&real).map_err(unreadable)?;
    if !file.metadata().map_err(unreadable)?.is_file() {
        return Err("it is no file".to_owned());
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("it has more than {FILE_BYTES_MAX} bytes"));
    }
    String::from_utf8(bytes).map_err(|_| "it is not text in UTF-8".to_owned())
}

/// Parses a kind from a file. Returns it with the parts that are ignored.
fn parse_definition(file: &str) -> Result<(AgentDefinition, Vec<String>), String> {
    let front = front_matter::parse_front_matter(file)?
        .ok_or("it has no head; the first line is `---`, then keys such as `name` and `description`")?;
    let mut notes = Vec::new();
    let mut kind = AgentDefinition {
        name: String::new(),
        description: String::new(),
        prompt: front.text,
        tools: AgentTools::All,
        without: Vec::new(),
        model: None,
        mode: None,
        max_turns: None,
    };
    for key in &front.keys {
        let (at, value) = (key.line, key.understood()?);
        let key = &key.name;
        let one = || value.text().map(str::to_owned).ok_or_else(|| format!("line {at}: `{key}` is one text"));
        match &**key {
            "name" => kind.name = one()?,
            "description" => kind.description = one()?,
            "tools" => kind.tools = parse_tools(at, value, &mut notes),
            "disallowedTools" => kind.without = parse_names(at, value, &mut notes),
            "model" => kind.model = Some(one()?).filter(|model| !model.is_empty() && model != "inherit"),
            "permissionMode" => {
                let mode = one()?;
                let known = mode.parse().map_err(|_| {
                    format!("line {at}: `{mode}` is no permission mode; `plan`, `default`, `dontAsk` … are accepted")
                });
                kind.mode = Some(known?);
            }
            "maxTurns" => {
                let turns = one()?;
                let known = turns.parse().ok().filter(|turns| *turns > 0);
                kind.max_turns =
                    Some(known.ok_or_else(|| format!("line {at}: `{turns}` is no number of turns"))?);
            }
            other if PASSED_OVER.contains(&other) => {}
            other => notes.push(format!("line {at}: `{other}` is not known and doesn't count")),
        }
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if kind.name.is_empty() || kind.name.len() > NAME_CHARS_MAX || !kind.name.chars().all(plain) {
        return Err(format!("`name` must have 1 to {NAME_CHARS_MAX} letters, digits, `-` or `_`"));
    }
    if kind.description.trim().is_empty() {
        return Err("`description` is missing; say when the agent is to be used".to_owned());
    }
    kind.description = truncate_chars(&one_line(&kind.description), DESCRIPTION_CHARS_MAX).to_owned();
    Ok((kind, notes))
}

fn parse_tools(at: usize, value: &FrontMatterValue, notes: &mut Vec<String>) -> AgentTools {
    let names = parse_names(at, value, notes);
    match names.iter().any(|name| name == "*") {
        true => AgentTools::All,
        // An empty list is a list of nothing, and a missing list means all tools.
        false if names.is_empty() && value.list().is_empty() => AgentTools::All,
        false => AgentTools::Named(names),
    }
}

/// Returns tool names. A name with a rule is skipped: without its rule it would allow more than intended.
fn parse_names(at: usize, value: &FrontMatterValue, notes: &mut Vec<String>) -> Vec<String> {
    let (good, bad): (Vec<String>, Vec<String>) =
        value.list().into_iter().partition(|name| !name.contains(['(', ')', ' ']));
    for name in bad {
        notes.push(format!(
            "line {at}: `{name}` is no name of a tool and doesn't count; rules belong into settings"
        ));
    }
    good
}

#[cfg(test)]
mod tests {
    use haft::ToolSpec;

    use super::*;

    fn file(head: &str) -> String {
        format!("---\n{head}\n---\nYou review.\n")
    }

    #[test]
    fn a_file_says_what_a_kind_is() {
        let head = "name: reviewer\ndescription: Reviews code\ntools: Read, Grep, mcp__x__*\ndisallowedTools: [Bash]\n\
                    model: haiku\npermissionMode: plan\nmaxTurns: 7\ncolor: red";
        let (kind, notes) = parse_definition(&file(head)).unwrap();
        assert_eq!(notes, [""; 0]);
        let named = ["Read", "Grep", "mcp__x__*"].map(str::to_owned).to_vec();
        let expected = AgentDefinition {
            name: "reviewer".into(),
            description: "Reviews code".into(),
            prompt: "You review.".into(),
            tools: AgentTools::Named(named),
            without: vec!["Bash".into()],
            model: Some("haiku".into()),
            mode: Some(PermissionMode::Plan),
            max_turns: Some(7),
        };
        assert_eq!(kind, expected);
        assert!(
            rule_fits("mcp__x__*", "mcp__x__y")
                && !rule_fits("mcp__x__*", "mcp__z__y")
                && !rule_fits("Read", "ReadMore")
        );
    }

    /// A tool's declared facts count, and not its name: a tool that changes only the session doesn't change
    /// files.
    #[test]
    fn agents_that_look_have_tools_that_only_look() {
        let tool = |name: &str, change: fn(ToolSpec) -> ToolSpec| {
            let looks = haft::tool(name.to_owned(), "A tool.", |_: haft::NoInput, _| async { Ok(1) });
            looks.spec(change)
        };
        let registry = haft::Registry::new()
            .with(tool("SendMessage", |spec| spec))
            .and_then(|all| all.with(tool("tell", |spec| spec.session_only())))
            .and_then(|all| all.with(tool("look", |spec| spec.listed_class(ConcurrencyClass::ReadOnly))));
        let explore = built_in_kinds().into_iter().find(|kind| kind.name == "explore").unwrap();
        let (looking, registry) = (AgentDefinition::built_in(explore), registry.unwrap());
        let has: Vec<&str> =
            registry.entries().filter(|entry| looking.has(entry)).map(|entry| entry.tool().name()).collect();
        assert_eq!(has, ["tell", "look"]);
    }

    #[test]
    fn what_does_not_count_is_said() {
        let (kind, notes) =
            parse_definition(&file("name: a\ndescription: b\ntools: Bash(git *)\nhooks: x")).unwrap();
        assert_eq!(kind.tools, AgentTools::Named(Vec::new()), "never more than was meant");
        assert!(notes[0].contains("line 4: `Bash(git *)`") && notes[1].contains("`hooks`"), "{notes:?}");
        for (head, part) in [
            ("description: b", "`name`"),
            ("name: a b\ndescription: b", "`name`"),
            ("name: a", "`description`"),
            ("name: a\ndescription: b\npermissionMode: root", "line 4: `root`"),
            ("name: a\ndescription: b\nmaxTurns: 0", "line 4: `0`"),
            ("name: a\ndescription: b\nmodel: [x]", "line 4: `model` is one text"),
        ] {
            let error = parse_definition(&file(head)).unwrap_err();
            assert!(error.contains(part), "{head}: {error}");
        }
    }
}
