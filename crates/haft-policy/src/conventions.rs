//! The conventional tools, for which people already have rules and hooks: their names, inputs and effects.
//!
//! This allows a rule to be checked against a call of `WebFetch` or `NotebookEdit` in a build without that
//! tool. If the tool exists, its own schema and effects are used instead.

use haft::effects::{WORKTREES, template};
use haft::tool::AnyTool;
use haft::{Effects, ToolError, ToolSpec, dynamic_tool};
use serde_json::{Map, Value, json};
use url::Url;

use FieldType::{Any, Flag, List, Number, Object, Text, Whole};

/// The type of a field.
#[derive(Clone, Copy)]
enum FieldType {
    Text,
    Number,
    Whole,
    Flag,
    List,
    Object,
    Any,
}

type ToolRow = (&'static str, &'static str, &'static [(&'static str, FieldType, bool)]);

/// Name, description, and fields, each with whether it is required.
#[rustfmt::skip]
const TOOLS: &[ToolRow] = &[
    ("Agent", "Gives a task to another agent.", &[("description", Text, true), ("prompt", Text, true), ("subagent_type", Text, false), ("model", Text, false), ("run_in_background", Flag, false), ("isolation", Text, false), ("name", Text, false), ("mode", Text, false)]),
    ("AskUserQuestion", "Asks the user.", &[("questions", List, true)]),
    ("Bash", "Runs a command in a shell.", &[("command", Text, true), ("timeout", Number, false), ("description", Text, false), ("run_in_background", Flag, false), ("dangerouslyDisableSandbox", Flag, false)]),
    ("CronCreate", "Plans a prompt for later.", &[("cron", Text, true), ("prompt", Text, true), ("recurring", Flag, false), ("durable", Flag, false)]),
    ("CronDelete", "Removes a planned prompt.", &[("id", Text, true)]),
    ("CronList", "Lists planned prompts.", &[]),
    ("Edit", "Replaces text in a file.", &[("file_path", Text, true), ("old_string", Text, true), ("new_string", Text, true), ("replace_all", Flag, false)]),
    ("EnterPlanMode", "Begins to plan.", &[]),
    ("EnterWorktree", "Moves into a worktree.", &[("name", Text, false), ("path", Text, false)]),
    ("ExitPlanMode", "Shows the plan to the user.", &[("plan", Text, false)]),
    ("ExitWorktree", "Leaves a worktree.", &[("action", Text, false), ("discard_changes", Flag, false)]),
    ("GetMcpPrompt", "Gets a prompt of a server.", &[("server", Text, true), ("name", Text, true), ("arguments", Object, false)]),
    ("Glob", "Finds files by name.", &[("pattern", Text, true), ("path", Text, false)]),
    ("Grep", "Searches in files.", &[("pattern", Text, true), ("path", Text, false), ("glob", Text, false), ("type", Text, false), ("output_mode", Text, false), ("-A", Whole, false), ("-B", Whole, false), ("-C", Whole, false), ("context", Whole, false), ("-n", Flag, false), ("-i", Flag, false), ("-o", Flag, false), ("head_limit", Whole, false), ("offset", Whole, false), ("multiline", Flag, false)]),
    ("LSP", "Asks a language server.", &[("operation", Text, true), ("filePath", Text, true), ("line", Whole, false), ("character", Whole, false)]),
    ("ListMcpPrompts", "Lists prompts of servers.", &[("server", Text, false)]),
    ("ListMcpResources", "Lists resources of servers.", &[("server", Text, false)]),
    ("ListMcpResourcesTool", "Lists resources of servers.", &[("server", Text, false)]),
    ("Monitor", "Watches a command or a socket.", &[("description", Text, true), ("timeout_ms", Number, false), ("command", Text, false), ("ws", Object, false), ("persistent", Flag, false)]),
    ("MultiEdit", "Makes several replacements in a file.", &[("file_path", Text, true), ("edits", List, true)]),
    ("NotebookEdit", "Changes a cell of a notebook.", &[("notebook_path", Text, true), ("cell_id", Text, false), ("new_source", Text, true), ("cell_type", Text, false), ("edit_mode", Text, false)]),
    ("PowerShell", "Runs a command in PowerShell.", &[("command", Text, true), ("timeout", Number, false), ("description", Text, false), ("run_in_background", Flag, false)]),
    ("PushNotification", "Notifies the user.", &[("message", Text, true), ("title", Text, false)]),
    ("Read", "Reads a file.", &[("file_path", Text, true), ("offset", Whole, false), ("limit", Whole, false), ("pages", Text, false)]),
    ("ReadMcpResource", "Reads a resource of a server.", &[("server", Text, true), ("uri", Text, true)]),
    ("ReadMcpResourceTool", "Reads a resource of a server.", &[("server", Text, true), ("uri", Text, true)]),
    ("ScheduleWakeup", "Comes back later.", &[("delaySeconds", Number, false), ("reason", Text, false), ("prompt", Text, false)]),
    ("SendMessage", "Sends a message to another agent.", &[("to", Text, true), ("message", Any, true), ("summary", Text, false)]),
    ("Skill", "Uses a skill.", &[("name", Text, true), ("arguments", Text, false)]),
    ("TaskCreate", "Notes a task.", &[("subject", Text, true), ("description", Text, true), ("activeForm", Text, false), ("metadata", Object, false)]),
    ("TaskGet", "Looks at a task.", &[("taskId", Text, true)]),
    ("TaskList", "Lists tasks.", &[]),
    ("TaskOutput", "Looks at the output of a background task.", &[("task_id", Text, true), ("block", Flag, false), ("timeout", Number, false)]),
    ("TaskStop", "Stops a background task.", &[("task_id", Text, true)]),
    ("TaskUpdate", "Changes a task.", &[("taskId", Text, true), ("status", Text, false), ("subject", Text, false), ("description", Text, false), ("activeForm", Text, false), ("owner", Text, false), ("addBlocks", List, false), ("addBlockedBy", List, false), ("metadata", Object, false)]),
    ("TodoWrite", "Writes the list of tasks.", &[("todos", List, true)]),
    ("ToolSearch", "Finds tools.", &[("query", Text, true), ("max_results", Whole, false)]),
    ("WaitForMcpServers", "Waits for servers.", &[("timeout", Number, false)]),
    ("WebFetch", "Fetches a page.", &[("url", Text, true), ("prompt", Text, false)]),
    ("WebSearch", "Searches the web.", &[("query", Text, true), ("allowed_domains", List, false), ("blocked_domains", List, false)]),
    ("Workflow", "Runs a workflow.", &[("script", Text, false), ("name", Text, false), ("args", Any, false)]),
    ("Write", "Writes a file.", &[("file_path", Text, true), ("content", Text, true)]),
];

/// Returns the names of all conventional tools, sorted.
pub fn tool_names() -> impl Iterator<Item = &'static str> {
    TOOLS.iter().map(|(name, ..)| *name)
}

/// Returns whether the calls of a tool are shell commands.
pub fn is_shell(tool: &str) -> bool {
    matches!(tool, "Bash" | "Monitor" | "PowerShell")
}

/// Returns whether a conventional tool [reaches hosts and touches nothing
/// else](haft::ToolSpec::hosts_only).
pub fn is_hosts_only(tool: &str) -> bool {
    tool == "WebFetch"
}

/// Adds the facts that the conventional tool declares to a placeholder's spec.
fn declare_facts(tool: &str, spec: ToolSpec) -> ToolSpec {
    match tool {
        "ApplyPatch" | "Diff" | "Edit" | "Glob" | "Grep" | "LS" | "MultiEdit" | "NotebookEdit" | "Read"
        | "Rewind" | "Write" => spec.granted_files_only(),
        _ if is_hosts_only(tool) => spec.hosts_only(),
        "WebSearch" => spec.configured_hosts(),
        _ => spec,
    }
}

/// Returns a placeholder for a conventional tool or a server's tool. It accepts the same input and declares
/// the same effects, but can't be called.
pub fn find_tool(name: &str) -> Option<AnyTool> {
    let known = TOOLS.iter().find(|(known, ..)| *known == name);
    let (description, schema) = match known {
        Some((_, description, fields)) => (*description, object_schema(fields)),
        None if name.starts_with("mcp__") => ("A tool of a server.", json!({"type": "object"})),
        None => return None,
    };
    let owned = name.to_owned();
    let never = |_: Value, _| async { Err::<String, _>(ToolError::new("this tool is not built in")) };
    let tool = dynamic_tool(name, description, schema, never);
    let tool = tool.effects(move |input: &Value| declared_effects(&owned, input).unwrap_or_default());
    tool.spec(|spec| declare_facts(name, spec)).build().ok()
}

fn object_schema(fields: &[(&str, FieldType, bool)]) -> Value {
    let property = |kind: FieldType| match kind {
        Text => json!({"type": "string"}),
        Number => json!({"type": "number"}),
        Whole => json!({"type": "integer"}),
        Flag => json!({"type": "boolean"}),
        List => json!({"type": "array"}),
        Object => json!({"type": "object"}),
        Any => json!({}),
    };
    let properties: Map<String, Value> =
        fields.iter().map(|(name, kind, _)| ((*name).to_owned(), property(*kind))).collect();
    let required: Vec<&str> =
        fields.iter().filter(|(.., required)| *required).map(|(name, ..)| *name).collect();
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

/// Returns the effects of a call of a conventional tool, or `None` if they are unknown.
pub fn declared_effects(tool: &str, input: &Value) -> Option<Effects> {
    let text = |field: &str| input.get(field).and_then(Value::as_str);
    let state = |resource: &'static str| Some(Effects::writes_state(resource));
    let looks = |resource: &'static str| Some(Effects::reads_state(resource));
    match tool {
        "Read" => Some(Effects::reads(text("file_path")?)),
        "Write" | "Edit" | "MultiEdit" => Some(Effects::writes(text("file_path")?)),
        "NotebookEdit" => Some(Effects::writes(text("notebook_path")?)),
        "LSP" => Some(Effects::reads(text("filePath")?)),
        "Grep" => Some(Effects::reads_tree(text("path").unwrap_or("."))),
        "Glob" => Some(Effects::reads_tree(glob_base(text("path"), text("pattern")?))),
        "Bash" | "Monitor" | "PowerShell" => Some(Effects::runs(text("command")?)),
        "WebFetch" => {
            let UrlHost { host, plain } = UrlHost::parse(text("url")?);
            let effects = host.map_or_else(Effects::unknown, Effects::observes);
            Some(if plain { effects } else { effects.and(Effects::unknown()) })
        }
        // The host configures the search provider, so a search is identified by name and not by host.
        "WebSearch" => Some(Effects::observes("search")),
        "Agent" if text("isolation") == Some("worktree") => {
            Some(Effects::delegates().and(Effects::writes_state(WORKTREES)))
        }
        "Agent" => Some(Effects::delegates()),
        "CronCreate" if input.get("durable") == Some(&Value::Bool(true)) => {
            Some(Effects::writes_state("session:cron").and(Effects::writes_state("kept:cron")))
        }
        "AskUserQuestion" | "ExitPlanMode" => Some(Effects::asks_user()),
        "EnterPlanMode" => state("session:mode"),
        "TaskGet" | "TaskList" => looks("session:tasks"),
        "TaskCreate" | "TaskUpdate" | "TodoWrite" => state("session:tasks"),
        "TaskOutput" => looks("session:background"),
        "TaskStop" => state("session:background"),
        "CronList" => looks("session:cron"),
        "CronCreate" | "CronDelete" | "ScheduleWakeup" => state("session:cron"),
        "ToolSearch" | "WaitForMcpServers" => looks("session:tools"),
        "ListMcpPrompts" | "ListMcpResources" | "ListMcpResourcesTool" => looks("mcp"),
        // The server's own effects are unknown. The effects of the address are added to them.
        "ReadMcpResource" | "ReadMcpResourceTool" => {
            Some(Effects::unknown().and(template::read_at(text("uri")?)))
        }
        "SendMessage" | "PushNotification" => state("session:messages"),
        _ => None,
    }
}

/// Returns the folder that a glob pattern starts in.
fn glob_base(path: Option<&str>, pattern: &str) -> std::path::PathBuf {
    let mut base = std::path::PathBuf::from(path.unwrap_or("."));
    let plain = pattern.split(['*', '?', '[', '{', '\\']).next().unwrap_or("");
    if let Some((folder, _)) = plain.rsplit_once('/') {
        base.push(if folder.is_empty() { "/" } else { folder });
    }
    base
}

/// Returns the address that a call fetches.
pub fn fetched_url<'a>(tool: &str, input: &'a Value) -> Option<&'a str> {
    (tool == "WebFetch").then(|| input.get("url")?.as_str())?
}

/// Returns the server that a call of a built-in tool is sent to. Rules about the server apply to reading
/// its resources and getting its prompts too.
pub fn target_server<'a>(tool: &str, input: &'a Value) -> Option<&'a str> {
    let to_server = matches!(tool, "GetMcpPrompt" | "ReadMcpResource" | "ReadMcpResourceTool");
    to_server.then(|| input.get("server")?.as_str())?
}

/// The host of an address, and whether it is an ordinary web address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UrlHost {
    /// The host as it would be sent, if it can be determined. Also set for a text that is not yet an
    /// address, such as `example.com/x`.
    pub host: Option<String>,
    /// The address has the scheme `http` or `https`, and a host.
    pub plain: bool,
}

impl UrlHost {
    /// Parses a text as a browser would.
    pub fn parse(text: &str) -> UrlHost {
        let found = Url::parse(text).ok();
        let plain =
            found.as_ref().is_some_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        let host = template::parse_host(text).or_else(|| {
            let assumed = found.is_none().then(|| format!("https://{}", text.trim_start()))?;
            template::parse_host(&assumed)
        });
        UrlHost { plain: plain && host.is_some(), host }
    }
}

/// Returns the address of a fetch if it contains a user name or a password.
pub fn url_with_user<'a>(tool: &str, input: &'a Value) -> Option<&'a str> {
    let text = fetched_url(tool, input)?;
    let parsed = Url::parse(text);
    let has_user = |url: &Url| !url.username().is_empty() || url.password().is_some();
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or("");
    let found = match &parsed {
        // An empty user name has no purpose but to mislead the reader.
        Ok(url) if url.has_host() => has_user(url) || authority.contains('@'),
        _ => authority.contains('@'),
    };
    found.then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_of_the_conventions_can_be_made() {
        assert!(TOOLS.is_sorted_by_key(|(name, ..)| *name));
        for name in tool_names() {
            assert_eq!(find_tool(name).unwrap().name(), name);
        }
        assert!(find_tool("mcp__a__b").is_some() && find_tool("Nope").is_none());
    }

    #[test]
    fn calls_touch_what_their_input_names() {
        let check = |name: &str, input: Value, words: &str| {
            let effects = declared_effects(name, &input).unwrap_or_default();
            assert_eq!(effects.to_string(), words, "{name} {input}");
        };
        check("Read", json!({"file_path": "a"}), "reads a");
        check("NotebookEdit", json!({"notebook_path": "a.ipynb"}), "writes a.ipynb");
        check("Glob", json!({"pattern": "src/**/*.rs"}), "reads ./src");
        check("Glob", json!({"pattern": "/etc/*.conf", "path": "x"}), "reads /etc");
        check("WebFetch", json!({"url": "https://x.io:8080/a"}), "reaches x.io");
        check("WebFetch", json!({"url": "https:X.io"}), "reaches x.io");
        check("WebFetch", json!({"url": "nonsense here"}), "may touch anything");
        check("WebFetch", json!({"url": "ftp://x.io/"}), "may touch anything · reaches x.io");
        check("WebFetch", json!({"url": "x.io/a"}), "may touch anything · reaches x.io");
        check("TaskStop", json!({"task_id": "1"}), "changes background tasks");
        check("Workflow", json!({}), "may touch anything");
        check("GetMcpPrompt", json!({"server": "s", "name": "p"}), "may touch anything");
        let read = |uri: &str| json!({"server": "s", "uri": uri});
        check("ReadMcpResource", read("note://1"), "may touch anything");
        check("ReadMcpResource", read("file:///etc/x"), "may touch anything · reads /etc/x");
        check("ReadMcpResourceTool", read("https://x.io/a"), "may touch anything · reaches x.io");
    }

    #[test]
    fn an_address_with_a_password_is_found() {
        let found = |url: &str| url_with_user("WebFetch", &json!({"url": url})).is_some();
        assert!(found("https://me:pw@x.io/") && found("https://me@x.io") && found("me@x.io"));
        assert!(found("https:me@x.io") && found("https:/me@x.io/") && found("ht\ntps://me@x.io"));
        assert!(found(r"https:\\me@x.io") && found("https://@x.io/"));
        assert!(!found("https://x.io/@me") && !found("https://x.io/?q=a@b") && !found("https://x.io"));
        assert!(url_with_user("Read", &json!({"url": "https://me@x.io"})).is_none());
    }
}
