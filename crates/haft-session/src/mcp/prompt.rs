//! Prompts during a run about a server of the workspace, or its tools, that needs an approval.
//!
//! Only definitions that were shown completely can be approved here. Those that are too long for a prompt
//! are left to `haft mcp approve`. Each definition is asked about once: a rejection lasts for the session.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use haft::ports::{AnswerChoice, Asker, UserQuestion};
use haft::sync::lock;
use haft_mcp::{ApprovalFingerprint, ApprovalSubject, ServerHandle, ServerStatus, WithheldItem};

use super::approvals::FileApprovals;
use super::{server_details, server_target};
use crate::NoticeSink;
use crate::assembly::PlannedServer;
use crate::text::one_line;

/// The maximum number of definition lines in a prompt.
const LINES_MAX: usize = 40;
const YES: &str = "Approve";
const NO: &str = "Not now";

/// A server of the workspace that may have something to approve.
pub struct ServerPrompt {
    pub server: ServerHandle,
    words: String,
    approvals: Arc<FileApprovals>,
    asked: Mutex<BTreeSet<ApprovalFingerprint>>,
    notices: NoticeSink,
}

impl ServerPrompt {
    pub fn new(
        planned: &PlannedServer,
        server: ServerHandle,
        approvals: Arc<FileApprovals>,
        notices: NoticeSink,
    ) -> ServerPrompt {
        let named = &planned.server;
        let mut words = format!("{}: {}\n", named.source, server_target(named));
        for (name, value) in server_details(named) {
            words.push_str(&format!("{name:12} {value}\n"));
        }
        ServerPrompt { server, words, approvals, asked: Mutex::default(), notices }
    }

    /// Asks about everything that needs an approval now and was not asked about before.
    pub async fn ask(&self, asker: &dyn Asker) {
        let name = &self.server.config().name;
        if let ServerStatus::Unapproved(withheld) = self.server.status() {
            let fresh = self.fresh(vec![withheld]);
            let Some(withheld) = fresh.first() else { return };
            let why = match withheld.before {
                None => "came with this workspace, and you have not approved it",
                Some(_) => "is not what you approved",
            };
            let text = format!("The MCP server `{name}` {why}. Start it?\n{}", self.words);
            if ask_yes_no(asker, text).await {
                self.keep(std::slice::from_ref(&withheld.subject));
            }
            return;
        }
        let all = self.server.withheld().into_iter().chain(self.server.withheld_instructions());
        let fresh = self.fresh(all.collect());
        if fresh.is_empty() {
            return;
        }
        let mut text = format!("The MCP server `{name}` offers what you have not approved as it is:\n");
        for withheld in &fresh {
            text.push_str(&definition_text(withheld));
        }
        if text.lines().count() > LINES_MAX {
            self.notices.warn(format!(
                "the MCP server `{name}` offers {} things to approve, too much to show here; `haft mcp approve {name}` shows them",
                fresh.len()
            ));
        } else if ask_yes_no(asker, text).await {
            let subjects: Vec<ApprovalSubject> = fresh.into_iter().map(|withheld| withheld.subject).collect();
            self.keep(&subjects);
        }
    }

    fn fresh(&self, withheld: Vec<WithheldItem>) -> Vec<WithheldItem> {
        let mut asked = lock(&self.asked);
        withheld.into_iter().filter(|withheld| asked.insert(withheld.subject.fingerprint())).collect()
    }

    /// Stores the approval, and lets the server continue.
    fn keep(&self, subjects: &[ApprovalSubject]) {
        // The approval takes effect in this session, even if storing it fails.
        self.approvals.accept(subjects);
        self.server.reconsider();
        if let Err(words) = self.approvals.approve_all(subjects) {
            self.notices.warn(format!("the approval can't be kept: {}", one_line(&words)));
        }
    }
}

async fn ask_yes_no(asker: &dyn Asker, text: String) -> bool {
    let choice = |label: &str| AnswerChoice { label: label.to_owned(), description: None };
    let question = UserQuestion { text, choices: vec![choice(YES), choice(NO)], several: false };
    asker.question(&question).await.is_some_and(|answer| answer == [YES])
}

/// Returns a definition to approve: all of a new one, the changes of another. Nothing in it is hidden.
pub fn definition_text(withheld: &WithheldItem) -> String {
    let tool = withheld.subject.tool.as_deref().unwrap_or_default();
    let (word, diff) = (if withheld.before.is_some() { "changed" } else { "new" }, withheld.diff());
    let mut text = if withheld.subject.is_instructions() {
        format!("{word} instructions for models\n")
    } else {
        format!("{word} tool {}\n", haft_mcp::text::display_line(tool, 200))
    };
    for line in diff.lines() {
        let line = match withheld.before {
            // Everything is new, so lines need no marks.
            None if line.starts_with("@@") => continue,
            None => line.strip_prefix('+').unwrap_or(line),
            Some(_) => line,
        };
        text.push_str(&format!("    {}\n", one_line(line)));
    }
    text
}
