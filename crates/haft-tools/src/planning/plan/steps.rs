//! A plan as steps, and what each of them names that can be looked for afterwards.
//!
//! Plans are Markdown written by a model, so this reads what such plans look like: a numbered list if there
//! is one, else bullets, else headings, else paragraphs. What is indented under a step belongs to it.
//! Sections that only explain (context, risks, notes) have no steps.

/// How many steps of a plan are looked at.
pub(crate) const STEPS_MAX: usize = 100;
/// How many things that a step names are looked for.
const TARGETS_MAX: usize = 24;

/// A step of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlanStep {
    /// Its first line.
    pub(crate) title: String,
    /// All of it.
    pub(crate) text: String,
    pub(crate) intent: StepIntent,
    pub(crate) targets: Vec<StepTarget>,
}

/// What a step is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StepIntent {
    /// Something becomes different.
    Change,
    /// Something is looked at.
    Look,
    /// Something is run.
    Run,
}

/// What a step names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StepTarget {
    /// A file or folder.
    Path(String),
    /// A command line, or the beginning of one.
    Command(String),
    /// A name in code.
    Symbol(String),
}

impl PlanStep {
    fn new(text: &str) -> PlanStep {
        let text = text.trim();
        let title = text.lines().next().unwrap_or_default().trim();
        let intent = detect_intent(title);
        PlanStep {
            title: title.to_owned(),
            text: text.to_owned(),
            intent,
            targets: find_targets(text, intent),
        }
    }
}

/// The steps of a plan.
pub(crate) fn parse_steps(plan: &str) -> Vec<PlanStep> {
    let lines = parse_lines(plan);
    let has = |kind: LineKind| lines.iter().any(|line| line.kind == kind && !line.explains);
    let head = match () {
        () if has(LineKind::Numbered) => LineKind::Numbered,
        () if has(LineKind::Bullet) => LineKind::Bullet,
        () if lines
            .iter()
            .any(|line| matches!(line.kind, LineKind::Heading(level) if level > 1) && !line.explains) =>
        {
            LineKind::Heading(2)
        }
        () => return paragraph_steps(&lines),
    };
    let is_head = |line: &PlanLine<'_>| match (head, line.kind) {
        (LineKind::Heading(_), LineKind::Heading(level)) => level > 1,
        (head, kind) => head == kind,
    };
    // Items of the outermost list are steps; what is further in belongs to them.
    let outer = lines.iter().filter(|line| is_head(line) && !line.explains).map(|line| line.indent).min();
    let mut texts: Vec<String> = Vec::new();
    let mut open = false;
    for line in &lines {
        let begins = is_head(line) && !line.explains && Some(line.indent) == outer;
        if begins {
            texts.push(line.text.to_owned());
            open = true;
        } else if line.explains || matches!(line.kind, LineKind::Heading(_)) {
            open = false;
        } else if open && let Some(text) = texts.last_mut() {
            text.push('\n');
            text.push_str(line.text);
        }
    }
    texts
        .iter()
        .filter(|text| !text.trim().is_empty())
        .take(STEPS_MAX)
        .map(|text| PlanStep::new(text))
        .collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineKind {
    Numbered,
    Bullet,
    Heading(usize),
    Text,
    Empty,
}

struct PlanLine<'p> {
    kind: LineKind,
    indent: usize,
    /// Without the mark of a list or heading.
    text: &'p str,
    /// It is in a section without steps.
    explains: bool,
}

/// Words of headings over what is no work.
const EXPLAINS: &[&str] = &[
    "context",
    "background",
    "note",
    "risk",
    "goal",
    "scope",
    "question",
    "assumption",
    "alternative",
    "summary",
    "overview",
    "finding",
];

fn parse_lines(plan: &str) -> Vec<PlanLine<'_>> {
    let mut explains = false;
    let mut fenced = false;
    let mut lines = Vec::new();
    for line in plan.lines() {
        let indent = line.len() - line.trim_start().len();
        let text = line.trim();
        if text.starts_with("```") || text.starts_with("~~~") {
            fenced = !fenced;
            continue;
        }
        let (kind, text) = if fenced { (LineKind::Text, text) } else { line_kind(text) };
        if let LineKind::Heading(_) = kind {
            let title = text.to_lowercase();
            explains = EXPLAINS.iter().any(|word| title.contains(word));
        }
        lines.push(PlanLine { kind, indent, text, explains });
    }
    lines
}

fn line_kind(text: &str) -> (LineKind, &str) {
    if text.is_empty() {
        return (LineKind::Empty, text);
    }
    let level = text.bytes().take_while(|byte| *byte == b'#').count();
    if (1..=6).contains(&level) && text[level..].starts_with(' ') {
        return (LineKind::Heading(level), text[level..].trim());
    }
    if let Some(rest) = ["- ", "* ", "+ "].iter().find_map(|mark| text.strip_prefix(mark)) {
        let rest = rest.trim_start();
        let boxed = ["[ ] ", "[x] ", "[X] "].iter().find_map(|mark| rest.strip_prefix(mark));
        return (LineKind::Bullet, boxed.unwrap_or(rest));
    }
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    if (1..=3).contains(&digits)
        && let Some(rest) = text[digits..].strip_prefix(". ").or_else(|| text[digits..].strip_prefix(") "))
    {
        return (LineKind::Numbered, rest.trim_start());
    }
    (LineKind::Text, text)
}

fn paragraph_steps(lines: &[PlanLine<'_>]) -> Vec<PlanStep> {
    let mut texts: Vec<String> = vec![String::new()];
    for line in lines.iter().filter(|line| !line.explains) {
        match line.kind {
            LineKind::Empty | LineKind::Heading(_) => texts.push(String::new()),
            _ => {
                let text = texts.last_mut().expect("there is one");
                text.push_str(line.text);
                text.push('\n');
            }
        }
    }
    texts
        .iter()
        .filter(|text| !text.trim().is_empty())
        .take(STEPS_MAX)
        .map(|text| PlanStep::new(text))
        .collect()
}

const LOOKS: &[&str] = &[
    "read",
    "look",
    "inspect",
    "review",
    "check",
    "explore",
    "understand",
    "investigate",
    "find",
    "search",
    "study",
    "examine",
    "analyse",
    "analyze",
];
const RUNS: &[&str] = &["run", "test", "build", "execute", "verify", "compile", "lint", "benchmark", "rerun"];

/// By the first verb that says something.
fn detect_intent(title: &str) -> StepIntent {
    for word in split_words(title).take(6) {
        let word = word.as_str();
        if LOOKS.contains(&word) {
            return StepIntent::Look;
        }
        if RUNS.contains(&word) {
            return StepIntent::Run;
        }
        if CHANGES.contains(&word) {
            return StepIntent::Change;
        }
    }
    StepIntent::Change
}

const CHANGES: &[&str] = &[
    "add",
    "change",
    "create",
    "write",
    "edit",
    "update",
    "fix",
    "remove",
    "delete",
    "rename",
    "move",
    "implement",
    "refactor",
    "extract",
    "replace",
    "make",
    "document",
    "wire",
    "extend",
    "introduce",
    "migrate",
];

/// The words of a text, in lower case.
pub(crate) fn split_words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
}

fn find_targets(text: &str, intent: StepIntent) -> Vec<StepTarget> {
    let mut found: Vec<StepTarget> = Vec::new();
    let mut add = |target: StepTarget| {
        if found.len() < TARGETS_MAX && !found.contains(&target) {
            found.push(target);
        }
    };
    // Every second part is between backticks.
    for (at, part) in text.split('`').enumerate() {
        let part = part.trim();
        if part.is_empty() {
            continue;
        }
        if at % 2 == 1 {
            add(quoted_target(part, intent))
        } else {
            bare_paths(part).for_each(|path| add(StepTarget::Path(path)))
        }
    }
    found
}

/// Words that begin code, and no command line.
const KEYWORDS: &[&str] = &[
    "async",
    "class",
    "const",
    "def",
    "enum",
    "fn",
    "for",
    "from",
    "func",
    "function",
    "if",
    "impl",
    "import",
    "interface",
    "let",
    "mod",
    "pub",
    "return",
    "static",
    "struct",
    "trait",
    "type",
    "use",
    "var",
    "while",
];

fn quoted_target(span: &str, intent: StepIntent) -> StepTarget {
    let program = span.split_whitespace().next().unwrap_or_default();
    let programish = program.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c));
    match () {
        () if span.contains(' ')
            && programish
            && !KEYWORDS.contains(&program)
            && program.starts_with(|c: char| c.is_ascii_lowercase() || c == '.') =>
        {
            StepTarget::Command(haft::text::single_line(span))
        }
        () if is_path(span, true) => StepTarget::Path(tidy_path(span)),
        () if intent == StepIntent::Run && programish && !span.contains("::") => {
            StepTarget::Command(span.to_owned())
        }
        () => StepTarget::Symbol(span.trim_end_matches("()").to_owned()),
    }
}

fn bare_paths(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split_whitespace()
        .map(|word| word.trim_matches(|c: char| "()[]{}<>,;:!?\"'*".contains(c)).trim_end_matches('.'))
        .filter(|word| is_path(word, false))
        .map(tidy_path)
}

/// Ends of names that make a bare word a file.
const ENDS: &[&str] = &[
    "c", "cc", "cfg", "conf", "cpp", "css", "csv", "go", "h", "hpp", "html", "ini", "java", "js", "json",
    "jsx", "kt", "lock", "lua", "md", "php", "proto", "py", "rb", "rs", "rst", "scss", "sh", "sql", "svelte",
    "swift", "toml", "ts", "tsx", "txt", "vue", "xml", "yaml", "yml",
];

fn is_path(word: &str, quoted: bool) -> bool {
    let fits = |c: char| c.is_alphanumeric() || "_-./@+~".contains(c);
    if word.is_empty() || word.contains("://") || !word.chars().all(fits) {
        return false;
    }
    let name = word.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let end = name.rsplit_once('.').filter(|(stem, _)| !stem.is_empty() || quoted).map(|(_, end)| end);
    let has_end = end.is_some_and(|end| ENDS.contains(&end.to_lowercase().as_str()));
    let known = matches!(name, "Makefile" | "Dockerfile" | "README" | "LICENSE" | "Justfile");
    if quoted {
        let dotted = end.is_some_and(|end| end.starts_with(|c: char| c.is_alphabetic()) && end.len() <= 8);
        return word.contains('/') || has_end || known || (dotted && name.starts_with('.'));
    }
    has_end || known
}

fn tidy_path(path: &str) -> String {
    path.trim_start_matches("./").to_owned()
}
