//! What a server offers of what it lists: tools that can be had, those that wait for an approval, and what is
//! left out.

use std::collections::HashSet;
use std::sync::Arc;

use haft::tool::AnyTool;
use rmcp::model::{ClientRequest, PaginatedRequestParams, RequestOptionalParam};
use serde_json::Value;

use super::super::definition::ToolDefinition;
use super::super::session::{ClientSession, RequestFailure, RequestTimeouts};
use super::super::tool;
use super::{ServerHandle, ServerInner, lock};
use crate::approval::{ApprovalSubject, KnownApproval, WithheldItem};
use crate::config::ServerTrust;
use crate::limits;
use crate::text;
use crate::transport::http::UNREAD;

/// What a server offers, as it was when last seen.
#[derive(Default)]
pub(crate) struct OfferedTools {
    pub(crate) tools: Vec<AnyTool>,
    /// The server's own name of each tool, in the order of `tools`.
    pub(crate) names: Vec<String>,
    pub(crate) withheld: Vec<WithheldItem>,
    pub(crate) left_out: Vec<LeftOut>,
    /// What it listed, and whether there was more, for the case that the user approves something of it.
    pub(super) listed: Arc<(Vec<Value>, bool)>,
}

/// Something that a server listed and that is not offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// What.
    pub name: String,
    /// Why, in words.
    pub reason: String,
}

impl ServerHandle {
    /// Reads the list of tools and makes them.
    pub(super) async fn read_tools(&self, session: &ClientSession) -> Result<(), String> {
        let listed = list_tools(session, "tools").await?;
        self.take_in(Arc::new(listed));
        Ok(())
    }

    /// Offers what may be offered of a list, from the next turn on.
    pub(super) fn take_in(&self, listed: Arc<(Vec<Value>, bool)>) {
        let offered = self.offer(&listed);
        *lock(&self.0.offered) = Arc::new(offered);
        self.0.version.send_modify(|version| *version += 1);
    }

    fn offer(&self, listed: &Arc<(Vec<Value>, bool)>) -> OfferedTools {
        let ServerInner { config, host, .. } = &*self.0;
        let keeps = config.trust == ServerTrust::Approvals;
        let mut offered = OfferedTools {
            listed: if keeps { listed.clone() } else { Arc::default() },
            ..OfferedTools::default()
        };
        let more = listed.1;
        let (mut seen, mut taken) = (HashSet::new(), HashSet::new());
        for value in &listed.0 {
            let shown = text::display_line(value["name"].as_str().unwrap_or("?"), 100);
            let made = ToolDefinition::read(value).and_then(|definition| {
                if !seen.insert(definition.name.clone()) {
                    return Err("another one has its name".to_owned());
                }
                let tool = tool::make_tool(self, &definition)?;
                // Hashes are short: whoever looks for two names with one hash finds them.
                if !taken.insert(tool.name().to_owned()) {
                    return Err(format!("another one is offered as `{}` already", tool.name()));
                }
                Ok((definition, tool))
            });
            let (definition, tool) = match made {
                Ok(made) => made,
                Err(reason) => {
                    offered.left_out.push(LeftOut { name: shown, reason });
                    continue;
                }
            };
            if config.trust == ServerTrust::Approvals {
                let (server, name) = (config.name.clone(), Some(definition.name.clone()));
                let subject = ApprovalSubject { server, tool: name, value: definition.approved_as.clone() };
                let before = match host.approvals.known(&subject) {
                    KnownApproval::Approved => None,
                    KnownApproval::New => Some(None),
                    KnownApproval::Changed(before) => Some(Some(before)),
                };
                if let Some(before) = before {
                    offered.withheld.push(WithheldItem { subject, before });
                    continue;
                }
            }
            offered.names.push(definition.name);
            offered.tools.push(tool);
        }
        if more {
            let (items, pages) = (limits::LIST_ITEMS_MAX, limits::LIST_PAGES_MAX);
            let reason =
                format!("the list has more than {items} entries or {pages} pages; the rest is left out");
            offered.left_out.push(LeftOut { name: "…".to_owned(), reason });
        }
        offered
    }
}

/// Reads all pages of a list; and whether there were more entries than are read.
pub(super) async fn list_tools(session: &ClientSession, key: &str) -> Result<(Vec<Value>, bool), String> {
    let mut entries = Vec::new();
    let mut cursor: Option<String> = None;
    for _ in 0..limits::LIST_PAGES_MAX {
        let request = list_request(key, cursor.clone());
        let method = request.method();
        let page = session.request(&request, RequestTimeouts::REQUEST, &|_| {}).await;
        let mut page = page.map_err(|failure| match failure {
            RequestFailure::Refused { code, words, .. } => {
                format!("`{method}` was answered with error {code}: {words}")
            }
            RequestFailure::NotSent(words)
            | RequestFailure::WantsSignIn(words)
            | RequestFailure::Gone(words)
            | RequestFailure::Odd(words) => words,
            RequestFailure::Idle(after) | RequestFailure::TimedOut(after) => {
                format!("`{method}` was not answered within {} s", after.as_secs_f64())
            }
        })?;
        let Value::Array(mut found) = page[key].take() else {
            return Err(format!("its answer to `{method}` has no `{key}`"));
        };
        let unread = page.get_mut("_meta").and_then(|meta| meta.get_mut(UNREAD)?.as_array_mut());
        if let Some(unread) = unread.filter(|_| key == "tools") {
            found.append(unread);
        }
        let room = limits::LIST_ITEMS_MAX - entries.len();
        let too_many = found.len() > room;
        entries.extend(found.into_iter().take(room));
        let next = page["nextCursor"].as_str().filter(|next| !next.is_empty()).map(str::to_owned);
        // A server that names the same page for ever has said all it has to say.
        if too_many || next.is_none() || next == cursor {
            return Ok((entries, too_many));
        }
        cursor = next;
    }
    Ok((entries, true))
}

/// The request for a page of the list under this key.
fn list_request(key: &str, cursor: Option<String>) -> ClientRequest {
    let params = PaginatedRequestParams::default().with_cursor(cursor);
    match key {
        "resources" => ClientRequest::ListResourcesRequest(RequestOptionalParam::with_param(params)),
        "resourceTemplates" => {
            ClientRequest::ListResourceTemplatesRequest(RequestOptionalParam::with_param(params))
        }
        "prompts" => ClientRequest::ListPromptsRequest(RequestOptionalParam::with_param(params)),
        _ => ClientRequest::ListToolsRequest(RequestOptionalParam::with_param(params)),
    }
}
