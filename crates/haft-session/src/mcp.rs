//! The session's state for its MCP servers: approvals, logs, secrets, and model requests of servers.

pub mod approvals;
pub mod logs;
pub mod prompt;
pub mod sample;
pub(crate) mod secrets;
pub mod server_files;

use haft_policy::settings::{McpServer, McpTransport};

use crate::text::one_line;

/// Returns a command line as written, or an address, with likely secrets masked.
pub(crate) fn server_target(server: &McpServer) -> String {
    match &server.transport {
        McpTransport::Stdio { command, args, .. } => {
            let quoted = |word: &String| {
                if word.is_empty() || word.contains(char::is_whitespace) {
                    format!("{word:?}")
                } else {
                    word.clone()
                }
            };
            let args = secrets::mask_arguments(args);
            let words: Vec<String> = std::iter::once(command).chain(&args).map(quoted).collect();
            one_line(&words.join(" "))
        }
        McpTransport::Remote { url, .. } => one_line(&secrets::without_secrets(url)),
    }
}

/// Returns everything that an approval of a server covers, as pairs of a name and a value.
pub(crate) fn server_details(server: &McpServer) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    let names = |of: &std::collections::BTreeMap<String, String>| {
        one_line(&of.keys().map(String::as_str).collect::<Vec<_>>().join(", "))
    };
    match &server.transport {
        McpTransport::Stdio { command, args, env } => {
            rows.push(("command", one_line(command)));
            rows.extend(args.iter().map(|arg| ("argument", one_line(arg))));
            if !env.is_empty() {
                rows.push(("variables", names(env)));
            }
        }
        McpTransport::Remote { url, headers, headers_helper, .. } => {
            rows.push(("address", one_line(url)));
            if !headers.is_empty() {
                rows.push(("headers", names(headers)));
            }
            rows.extend(headers_helper.iter().map(|helper| ("runs for headers", one_line(helper))));
        }
    }
    rows
}
