//! What the rules know of tools by name: the primary field, the arguments, and current names for outdated
//! ones.
//!
//! Arguments are listed only for tools whose specifier is ambiguous: `Bash(timeout:5)` is about an argument
//! and `Bash(npm run a:b)` is a command.

use serde_json::Value;

/// What a tool's specifier describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SpecifierKind {
    Command,
    Path,
    Host,
    Called,
    /// Files that `Read` or `Edit` rules match.
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

/// Returns the current name of a tool that was renamed.
pub(super) fn current_name(name: &str) -> &str {
    match name {
        "Task" => "Agent",
        "ListMcpResourcesTool" => "ListMcpResources",
        "ReadMcpResourceTool" => "ReadMcpResource",
        _ => name,
    }
}

/// Returns the primary field, which decides what a call does.
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

/// Returns whether a tool has an argument of this name that rules can match.
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
        // The prefix of a host rule, or of a URL that was meant as one.
        "WebFetch" => return !matches!(name, "domain" | "http" | "https"),
        _ => return true,
    };
    known.contains(&name)
}

/// Returns the texts for a called agent or skill: its name, and its name with arguments.
pub(super) fn invocation_texts(tool: &str, input: &Value) -> Option<(String, String)> {
    let field = |names: &[&str]| names.iter().find_map(|name| input.get(name)?.as_str());
    if tool == "Agent" {
        // Without a type the general agent is called. Some agents have two names: haft's, and that of the
        // conventions.
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

/// Tools that people have rules for, whether or not this session has them.
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
