//! What the rules know of tools by name: which field decides, which arguments there are, which names are current.
//!
//! Only tools whose specifier could be read in two ways are listed with their arguments: `Bash(timeout:5)` is about an
//! argument and `Bash(npm run a:b)` is a command.

use serde_json::Value;

/// What a specifier of a tool is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SpecifierKind {
    Command,
    Path,
    Host,
    Called,
    /// Files that `Read` or `Edit` rules speak of.
    PathOf(&'static str),
    Other,
}

pub(super) fn specifier_kind(tool: &str) -> SpecifierKind {
    match tool {
        "Bash" | "Monitor" | "PowerShell" => SpecifierKind::Command,
        "Read" | "Edit" => SpecifierKind::Path,
        "WebFetch" => SpecifierKind::Host,
        "Agent" | "Skill" => SpecifierKind::Called,
        "ApplyPatch" | "MultiEdit" | "NotebookEdit" | "Rewind" | "Write" => SpecifierKind::PathOf("Edit"),
        "Grep" | "Glob" | "LSP" => SpecifierKind::PathOf("Read"),
        _ => SpecifierKind::Other,
    }
}

/// Names that were replaced, and what they are called now.
pub(super) fn current_name(name: &str) -> &str {
    match name {
        "Task" => "Agent",
        "ListMcpResourcesTool" => "ListMcpResources",
        "ReadMcpResourceTool" => "ReadMcpResource",
        _ => name,
    }
}

/// The field that decides what a call does.
pub(super) fn primary_field(tool: &str) -> Option<&'static str> {
    Some(match tool {
        "Bash" | "Monitor" | "PowerShell" => "command",
        "Read" | "Edit" | "Write" | "MultiEdit" => "file_path",
        "NotebookEdit" => "notebook_path",
        "Grep" | "Glob" => "path",
        "WebFetch" => "url",
        "Agent" => "subagent_type",
        "Skill" => "name",
        _ => return None,
    })
}

/// Whether a rule about an argument of this name is about an argument at all.
pub(super) fn has_argument(tool: &str, name: &str) -> bool {
    let known: &[&str] = match tool {
        "Bash" | "PowerShell" => {
            &["command", "timeout", "description", "run_in_background", "dangerouslyDisableSandbox"]
        }
        "Monitor" => &["command", "description", "timeout_ms", "ws", "persistent"],
        "Read" => &["file_path", "offset", "limit", "pages", "images"],
        "Edit" => &["file_path", "old_string", "new_string", "replace_all"],
        "Agent" => &[
            "description",
            "prompt",
            "subagent_type",
            "model",
            "run_in_background",
            "isolation",
            "name",
            "mode",
        ],
        "Skill" => &["skill", "args", "name", "arguments"],
        // A host rule begins so, and a URL that was meant for one.
        "WebFetch" => return !matches!(name, "domain" | "http" | "https"),
        _ => return true,
    };
    known.contains(&name)
}

/// The texts under which an agent or a skill is called: its name, and with its arguments.
pub(super) fn invocation_texts(tool: &str, input: &Value) -> Option<(String, String)> {
    let field = |names: &[&str]| names.iter().find_map(|name| input.get(name)?.as_str());
    if tool == "Agent" {
        // Without a type it is the general one. Some have two names: ours, and that of the conventions.
        let name = field(&["subagent_type", "agent"]).unwrap_or("general-purpose");
        let (ours, theirs) = match &*name.to_ascii_lowercase() {
            "general" | "general-purpose" => ("general", "general-purpose"),
            "explore" => ("explore", "Explore"),
            "plan" => ("plan", "Plan"),
            _ => (name, name),
        };
        return Some((ours.to_owned(), theirs.to_owned()));
    }
    let name = field(&["skill", "name", "command"])?.trim().trim_start_matches('/');
    let arguments = field(&["args", "arguments"]).unwrap_or_default().trim();
    let full = if arguments.is_empty() { name.to_owned() } else { format!("{name} {arguments}") };
    Some((name.to_owned(), full))
}

/// Tools that people have rules for, whether this session has them or not.
pub(super) const CONVENTIONAL: &[&str] = &[
    "Agent",
    "AskUserQuestion",
    "Bash",
    "Cd",
    "CronCreate",
    "CronDelete",
    "CronList",
    "Edit",
    "EnterPlanMode",
    "EnterWorktree",
    "ExitPlanMode",
    "ExitWorktree",
    "GetMcpPrompt",
    "Glob",
    "Grep",
    "LSP",
    "ListMcpPrompts",
    "ListMcpResources",
    "ListMcpResourcesTool",
    "Monitor",
    "MultiEdit",
    "NotebookEdit",
    "PowerShell",
    "PushNotification",
    "Read",
    "ReadMcpResource",
    "ReadMcpResourceTool",
    "ScheduleWakeup",
    "SendMessage",
    "Skill",
    "TaskCreate",
    "TaskGet",
    "TaskList",
    "TaskOutput",
    "TaskStop",
    "TaskUpdate",
    "TodoWrite",
    "ToolSearch",
    "WaitForMcpServers",
    "WebFetch",
    "WebSearch",
    "Workflow",
    "Write",
];
