//! [`SessionFactory`]: the loaded form of a builder.

use std::sync::{Arc, Mutex};

use haft::sync::lock;
use serde_json::Value;

use crate::assembly::SessionAssembler;
use crate::builder::{ResumeFrom, find_session};
use crate::front_end::FrontEnd;
use crate::session::Session;
use crate::session_journal::ResumedSession;
use crate::{DecisionReport, SessionError, SessionPurpose};

/// Settings, tools and rules, loaded by [`SessionBuilder::load`](crate::SessionBuilder::load). Opens
/// sessions.
///
/// Sessions of one factory share the settings and the front ends of the builder. Each has its own answers,
/// journal, processes, sandbox and MCP servers, so one can end while another continues.
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

    /// Opens a session. Its MCP servers begin to connect, without being waited for.
    ///
    /// # Errors
    /// Returns an error if rules, hooks or sandbox settings can't be used, or if another process runs the
    /// session to continue.
    #[expect(
        clippy::unused_async,
        reason = "front ends and servers are tasks of the runtime that this is awaited on"
    )]
    pub async fn open(&self) -> Result<Session, SessionError> {
        let FactoryState { assembler, front_ends, resumed } = &*self.0;
        let found = lock(resumed).take();
        let resumed = match (found, &assembler.options().resume) {
            // An earlier session of this factory has continued it in the meantime.
            (None, Some(id)) => Some(find_session(&ResumeFrom::Id(id.clone()), assembler.options())?),
            (found, _) => found,
        };
        Session::open(&assembler.for_purpose(SessionPurpose::Run), front_ends.clone(), resumed)
    }

    /// Returns the decision of a session on a call without making it. Starts nothing and doesn't ask the
    /// user.
    ///
    /// # Errors
    /// Returns an error if the tool is unknown, the input is invalid, or the rules can't be used.
    pub async fn check(&self, tool: &str, input: Value) -> Result<DecisionReport, SessionError> {
        self.0.assembler.for_purpose(SessionPurpose::Inspect).open()?.check(tool, input).await
    }
}
