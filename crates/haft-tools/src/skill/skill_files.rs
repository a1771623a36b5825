//! Skills on disk: folders with a `SKILL.md`.
//!
//! What a skill may do without being asked is read once, when it is loaded, since that is what was trusted;
//! its words are read when it is used. Which folders are looked at is the host's decision. Where a folder
//! belongs to a workspace, nothing outside of it is read through a link.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use haft::text::{single_line, truncate_chars};

use crate::front_matter::{self, FrontMatter, FrontMatterKey, FrontMatterValue};

/// The name of the file that makes a folder a skill.
pub const FILE: &str = "SKILL.md";
/// The largest `SKILL.md`, in bytes.
pub const SKILL_BYTES_MAX: u64 = 256 * 1024;
/// How many skills of one folder are loaded.
pub const SKILLS_MAX: usize = 200;
/// How many characters of a description are kept.
pub const DESCRIPTION_CHARS_MAX: usize = 1_024;
/// How many tools one skill may let run unasked.
pub const ALLOWED_TOOLS_MAX: usize = 50;

/// A skill that can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillFile {
    /// Its name, by which it is called.
    pub name: String,
    /// When to use it, for the model.
    pub description: String,
    /// What its arguments are, in a few words.
    pub argument_hint: Option<String>,
    /// Rules of the tools that may run unasked while it is used.
    pub allowed_tools: Vec<String>,
    /// Whether only the user may use it.
    pub hidden: bool,
    /// Its `SKILL.md`.
    pub path: PathBuf,
    /// Where links in its folder may lead.
    links: LinkPolicy,
}

/// Where links in a folder of skills may lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkPolicy {
    /// Anywhere: the folder is the user's own.
    Anywhere,
    /// Not out of the folder: others wrote it.
    Inside,
}

/// Skills, and what could not be loaded.
#[derive(Debug, Clone, Default)]
pub struct SkillSet {
    /// By name.
    skills: Vec<SkillFile>,
    problems: Vec<SkillProblem>,
}

/// Why a skill is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillProblem {
    /// Its file or folder.
    pub path: PathBuf,
    /// Why.
    pub reason: String,
}

impl fmt::Display for SkillProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.path.display(), self.reason)
    }
}

impl SkillSet {
    /// None.
    pub fn new() -> SkillSet {
        SkillSet::default()
    }

    /// These and those of a folder, if it is there. Of two with one name the first counts.
    #[must_use]
    pub fn with(mut self, dir: &Path, links: LinkPolicy) -> SkillSet {
        let mut folders = match skill_folders(dir) {
            Ok(folders) => folders,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return self,
            Err(error) => {
                self.problems.push(SkillProblem { path: dir.to_owned(), reason: error.to_string() });
                return self;
            }
        };
        if folders.len() > SKILLS_MAX {
            let reason = format!("it has {} skills; the first {SKILLS_MAX} are used", folders.len());
            self.problems.push(SkillProblem { path: dir.to_owned(), reason });
            folders.truncate(SKILLS_MAX);
        }
        for folder in folders {
            let path = folder.join(FILE);
            match load_skill(&path, dir, links) {
                Ok(skill) => match self.find(&skill.name) {
                    Some(first) => {
                        let reason =
                            format!("the name `{}` is taken by `{}`", skill.name, first.path.display());
                        self.problems.push(SkillProblem { path, reason });
                    }
                    None => self.skills.push(skill),
                },
                Err(reason) => self.problems.push(SkillProblem { path, reason }),
            }
        }
        self.skills.sort_by(|a, b| a.name.cmp(&b.name));
        self
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = &SkillFile> {
        self.skills.iter()
    }

    /// The skill of this name.
    pub fn find(&self, name: &str) -> Option<&SkillFile> {
        self.skills.iter().find(|skill| skill.name == name)
    }

    /// Why others are missing.
    pub fn problems(&self) -> &[SkillProblem] {
        &self.problems
    }
}

impl SkillFile {
    /// The folder that it is in, with whatever belongs to it.
    pub fn dir(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }

    /// What it says now.
    ///
    /// # Errors
    /// It can't be read any more, in words.
    pub fn body(&self) -> Result<String, String> {
        let base = self.dir().parent().unwrap_or(self.dir());
        let text = read_text(&self.path, base, self.links)?;
        Ok(parse_front(&text)?.text)
    }
}

/// Folders with a `SKILL.md`, by name.
fn skill_folders(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.join(FILE).symlink_metadata().is_ok() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn load_skill(path: &Path, base: &Path, links: LinkPolicy) -> Result<SkillFile, String> {
    let text = read_text(path, base, links)?;
    let head = parse_front(&text)?;
    let folder = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    let name = head.text_of("name")?.unwrap_or(&folder).trim().to_owned();
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ':' | '.');
    if name.is_empty() || name.len() > 64 || !name.chars().all(fits) {
        return Err(format!(
            "the name `{}` can't be called; letters, digits, `-`, `_`, `.` and `:` are accepted, 64 at most",
            truncate_chars(&name, 80)
        ));
    }
    let mut lines = head.text.lines().map(|line| line.trim().trim_start_matches('#').trim());
    let first = lines.find(|line| !line.is_empty());
    let description = head.text_of("description")?.or(first).unwrap_or_default();
    let when = head.text_of("when_to_use")?.or(head.text_of("when-to-use")?);
    let description = match when {
        Some(when) => format!("{description} {when}"),
        None => description.to_owned(),
    };
    let allowed_tools = parse_names(head.key("allowed-tools"))?;
    if allowed_tools.len() > ALLOWED_TOOLS_MAX {
        return Err(format!(
            "`allowed-tools` has {} tools; at most {ALLOWED_TOOLS_MAX} are accepted",
            allowed_tools.len()
        ));
    }
    let hidden =
        head.text_of("disable-model-invocation")?.is_some_and(|text| text.eq_ignore_ascii_case("true"));
    // For people, and mostly in brackets: no list.
    let hint = head.key("argument-hint").map(|key| key.raw.trim_matches(['"', '\'']));
    Ok(SkillFile {
        name,
        description: truncate_chars(&one_line(&description), DESCRIPTION_CHARS_MAX).to_owned(),
        argument_hint: hint
            .filter(|hint| !hint.is_empty())
            .map(|hint| truncate_chars(&one_line(hint), 100).to_owned()),
        allowed_tools,
        hidden,
        path: path.to_owned(),
        links,
    })
}

/// The head of a file, and its text; a file without a head is all text.
fn parse_front(file: &str) -> Result<FrontMatter, String> {
    let whole = || FrontMatter { text: file.trim().to_owned(), ..FrontMatter::default() };
    Ok(front_matter::parse_front_matter(file)?.unwrap_or_else(whole))
}

/// The names of a list, or of a text that has them one after the other, with commas or blanks between: what
/// is in parentheses stays together, as in `Read, Bash(git add *)`.
fn parse_names(key: Option<&FrontMatterKey>) -> Result<Vec<String>, String> {
    let Some(key) = key else { return Ok(Vec::new()) };
    let texts = match key.understood()? {
        FrontMatterValue::Text(text) => std::slice::from_ref(text),
        FrontMatterValue::List(list) => list,
    };
    let mut names = Vec::new();
    for text in texts {
        let (mut name, mut depth) = (String::new(), 0_usize);
        for c in text.chars().chain([',']) {
            match c {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 && (c == ',' || c.is_whitespace()) {
                names.extend(Some(std::mem::take(&mut name)).filter(|name| !name.is_empty()));
            } else {
                name.push(c);
            }
        }
    }
    Ok(names)
}

fn one_line(text: &str) -> String {
    haft::view::escape_invisible(&single_line(text)).into_owned()
}

/// A text of a folder, if it is one and isn't too long.
fn read_text(path: &Path, base: &Path, links: LinkPolicy) -> Result<String, String> {
    let real = path.canonicalize().map_err(|error| format!("it can't be read: {error}"))?;
    if links == LinkPolicy::Inside {
        let base = base.canonicalize().map_err(|error| format!("it can't be read: {error}"))?;
        if !real.starts_with(&base) {
            return Err("a link leads out of the folder of skills".to_owned());
        }
    }
    // A pipe would be waited for.
    if !real.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return Err("it is no file".to_owned());
    }
    let file = File::open(&real).map_err(|error| format!("it can't be read: {error}"))?;
    let mut bytes = Vec::new();
    let read = file.take(SKILL_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| format!("it can't be read: {error}"))?;
    if bytes.len() as u64 > SKILL_BYTES_MAX {
        return Err(format!(
            "it has more than {SKILL_BYTES_MAX} bytes; put what is long into files beside it"
        ));
    }
    String::from_utf8(bytes).map_err(|_| "it is not text in UTF-8".to_owned())
}
