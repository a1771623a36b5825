//! [`SessionFactory`]: what a builder describes, loaded.

use std::sync::{Arc, Mutex};

use haft::sync::lock;
use serde_json::Value;

use crate::assembly::SessionAssembler;
use crate::builder::{ResumeFrom, find_session};
use crate::front_end::FrontEnd;
use crate::session::Session;
use crate::session_journal::ResumedSession;
use crate::{DecisionReport, SessionError, SessionPurpose};

/// Settings, tools and rules, loaded by [`SessionBuilder::load`](crate::SessionBuilder::load). Opens sessions.
///
/// Sessions of one factory have the same settings and the front ends of the builder. Answers, journals, processes, the sandbox
/// and MCP servers are their own, so one can end while another continues.
#[derive(Clone)]
pub struct SessionFactory(Arc<FactoryState>);

struct FactoryState {
    assembler: SessionAssembler,
    front_ends: Vec<Arc<dyn FrontEnd>>,
    /// The session to continue, as it was found while loading.
    resumed: Mutex<Option<ResumedSession>>,
}

impl SessionFactory {
    pub(crate) fn new(
        assembler: SessionAssembler,
        front_ends: Vec<Arc<dyn FrontEnd>>,
        resumed: Option<ResumedSession>,
    ) -> SessionFactory {
        SessionFactory(Arc::new(FactoryState { assembler, front_ends, resumed: Mutex::new(resumed) }))
    }

    /// Opens a session. Its MCP servers begin to connect; nothing waits for them.
    ///
    /// # Errors
    /// Rules, hooks or sandbox settings that can't be used, or the session to continue runs elsewhere.
    #[expect(
        clippy::unused_async,
        reason = "front ends and servers are tasks of the runtime that this is awaited on"
    )]
    pub async fn open(&self) -> Result<Session, SessionError> {
        let FactoryState { assembler, front_ends, resumed } = &*self.0;
        let found = lock(resumed).take();
        let resumed = match (found, &assembler.options().resume) {
            // An earlier session of this factory has continued it meanwhile.
            (None, Some(id)) => Some(find_session(&ResumeFrom::Id(id.clone()), assembler.options())?),
            (found, _) => found,
        };
        Session::open(&assembler.for_purpose(SessionPurpose::Run), front_ends.clone(), resumed)
    }

    /// Decides on a call as a session would if it were made. Starts nothing and asks no user.
    ///
    /// # Errors
    /// An unknown tool, an input that doesn't fit it, or rules that can't be used.
    pub async fn check(&self, tool: &str, input: Value) -> Result<DecisionReport, SessionError> {
        self.0.assembler.for_purpose(SessionPurpose::Inspect).open()?.check(tool, input).await
    }
}
