//! Trust in a workspace: what its files would run or loosen, and the record of the user's approval of
//! exactly that.
//!
//! The files are read once: [`WorkspaceTrust::grant`] records exactly what [`WorkspaceTrust`] lists. A file
//! that changes in between counts as changed since the approval, and the next session reports it.

use std::path::{Path, PathBuf};

use haft_policy::rule::Rule;
use haft_policy::settings::{SettingsLayers, SettingsPlaces, TrustStatus};
use haft_policy::trust::{self, DistrustReason, RememberedRules, TrustInventory, TrustJudgement, TrustStore};

pub use haft_policy::trust::{Digest, InvalidDigest, TrustItemKind};

use crate::assembly::skills_of;
use crate::loaded_settings;
use crate::mcp::approvals;
use crate::run::memory;
use crate::{SessionEnvironment, SessionError, SessionOptions};

/// What the files of a workspace would run or loosen, and whether the user trusts it.
pub struct WorkspaceTrust {
    places: SettingsPlaces,
    store: TrustStore,
    inventory: TrustInventory,
    /// Files that models read once the workspace is trusted.
    memory: Vec<PathBuf>,
    judgement: TrustJudgement,
}

/// Whether the workspace's files may run and loosen things.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrustState {
    /// The workspace has nothing that needs trust.
    NotNeeded,
    /// The user approved exactly this state.
    Trusted,
    /// The workspace is not trusted.
    Untrusted(UntrustedReason),
}

impl TrustState {
    /// Returns whether the workspace is trusted, or needs no trust.
    pub fn is_trusted(&self) -> bool {
        !matches!(self, TrustState::Untrusted(_))
    }
}

/// Why a workspace is not trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UntrustedReason {
    /// The user never approved it.
    NeverTrusted,
    /// It changed since the approval. Contains each change as a message.
    Changed(Vec<String>),
    /// The caller's hash is not that of this workspace.
    OtherHash,
    /// It has files that can't be trusted.
    Obstacles,
    /// The record can't be read, for this reason.
    DamagedRecord(String),
}

/// One thing that a workspace would run or loosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustItem {
    /// The kind.
    pub kind: TrustItemKind,
    /// The content.
    pub text: String,
    /// The origin.
    pub place: String,
    /// The digest of the content, or of a file's bytes.
    pub digest: String,
}

/// The records that [`WorkspaceTrust::forget`] removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForgottenTrust {
    /// The workspace was trusted.
    pub was_trusted: bool,
    /// The number of stored answers.
    pub answers: usize,
    /// There were approvals of MCP servers.
    pub approvals: bool,
}

impl WorkspaceTrust {
    /// Reads what a workspace would run or loosen. Runs nothing, writes nothing.
    ///
    /// # Errors
    /// Returns an error if settings can't be read, if rules are invalid that would apply once the workspace
    /// is trusted, or if there is no state folder.
    pub fn inspect(dir: &Path, options: &SessionOptions) -> Result<WorkspaceTrust, SessionError> {
        let places = loaded_settings::settings_places(dir, &|name| options.environment.get(name))?;
        let store = trust_store(&places)?;
        check_rules(&places, options)?;
        let inventory =
            trust::inspect_workspace(&places).map_err(|error| SessionError::settings(error.to_string()))?;
        let memory: Vec<PathBuf> =
            memory::of_project(&places).into_iter().chain(skills_of(&places)).collect();
        let judgement = match store.judge(&places.cwd, &inventory) {
            // Files that models read need an approval as well.
            TrustJudgement::Nothing if !memory.is_empty() => {
                match store.changed_since(&places.cwd, &inventory) {
                    Some(_) => TrustJudgement::Trusted,
                    None => TrustJudgement::Untrusted(DistrustReason::Never),
                }
            }
            judgement => judgement,
        };
        Ok(WorkspaceTrust { places, store, inventory, memory, judgement })
    }

    /// Records that the user trusts exactly what was read.
    ///
    /// # Errors
    /// Returns an error if the record can't be written.
    pub fn grant(&mut self) -> Result<(), SessionError> {
        self.store
            .trust(&self.places.cwd, &self.inventory)
            .map_err(|error| SessionError::settings(format!("the yes can't be kept: {error}")))?;
        self.judgement = TrustJudgement::Trusted;
        Ok(())
    }

    /// Revokes the trust in a workspace with all answers and approvals, even if the workspace is deleted or
    /// its settings can't be read.
    ///
    /// # Errors
    /// Returns an error if there is no state folder, or if records can't be changed.
    pub fn forget(dir: &Path, environment: &SessionEnvironment) -> Result<ForgottenTrust, SessionError> {
        // The location of the records doesn't depend on the workspace.
        let places = loaded_settings::settings_places(Path::new("/"), &|name| environment.get(name))?;
        let dir = std::path::absolute(dir)
            .map_err(|error| SessionError::settings(format!("`{}`: {error}", dir.display())))?;
        let was_trusted = trust_store(&places)?
            .forget(&dir)
            .map_err(|error| SessionError::settings(format!("the yes can't be taken back: {error}")))?;
        // An answer approves actions of the workspace just as trust does.
        let state = places.state_dir.as_deref().expect("there is a store, so there is its folder");
        let answers = RememberedRules::open(state, &dir)
            .forget()
            .map_err(|error| SessionError::settings(format!("your answers can't be forgotten: {error}")))?;
        let approvals = approvals::forget_approvals(state, &dir)
            .map_err(|error| SessionError::settings(format!("your approvals can't be forgotten: {error}")))?;
        Ok(ForgottenTrust { was_trusted, answers, approvals })
    }

    /// Returns the real path of the workspace.
    pub fn workspace(&self) -> &Path {
        &self.places.cwd
    }

    /// Returns the hash over all items.
    pub fn hash(&self) -> String {
        self.inventory.hash().to_string()
    }

    /// Returns the trust state.
    pub fn state(&self) -> TrustState {
        TrustState::from(&self.judgement)
    }

    /// Returns whether the workspace is trusted, or needs no trust.
    pub fn is_trusted(&self) -> bool {
        self.judgement.is_trusted()
    }

    /// Returns why the workspace can't be trusted, as messages.
    pub fn obstacles(&self) -> &[String] {
        self.inventory.obstacles()
    }

    /// Returns what the workspace would run or loosen. Items that run come first.
    pub fn items(&self) -> Vec<TrustItem> {
        let item = |item: &trust::TrustItem| TrustItem {
            kind: item.kind,
            text: item.text.clone(),
            place: item.place.clone(),
            digest: item.digest.to_string(),
        };
        self.inventory.items().iter().map(item).collect()
    }

    /// Returns the files that models read once the workspace is trusted, as paths for display. They may
    /// change.
    pub fn memory(&self) -> Vec<String> {
        self.memory.iter().map(|file| self.places.show(file)).collect()
    }
}

impl From<&TrustJudgement> for TrustState {
    fn from(judgement: &TrustJudgement) -> TrustState {
        let reason = match judgement {
            TrustJudgement::Nothing => return TrustState::NotNeeded,
            TrustJudgement::Trusted => return TrustState::Trusted,
            TrustJudgement::Untrusted(reason) => reason,
        };
        TrustState::Untrusted(match reason {
            DistrustReason::Never => UntrustedReason::NeverTrusted,
            DistrustReason::Changed(changes) => {
                UntrustedReason::Changed(changes.iter().map(ToString::to_string).collect())
            }
            DistrustReason::OtherHash => UntrustedReason::OtherHash,
            DistrustReason::Obstacles(_) => UntrustedReason::Obstacles,
            DistrustReason::Damaged(why) => UntrustedReason::DamagedRecord(why.clone()),
        })
    }
}

/// Checks every rule that would apply once the workspace is trusted. With an invalid rule nothing would run
/// after the approval.
fn check_rules(places: &SettingsPlaces, options: &SessionOptions) -> Result<(), SessionError> {
    let layers = SettingsLayers::read(places, &options.flags())
        .map_err(|error| SessionError::settings(error.to_string()))?;
    let rules = layers.merge(TrustStatus::Trusted).permissions.rules;
    let bad: Vec<String> =
        rules.into_iter().filter_map(|rule| Rule::parse(rule).err()).map(|bad| bad.to_string()).collect();
    if bad.is_empty() { Ok(()) } else { Err(SessionError::settings(bad.join("\n"))) }
}

fn trust_store(places: &SettingsPlaces) -> Result<TrustStore, SessionError> {
    let state = places.state_dir.as_deref().ok_or_else(|| {
        SessionError::settings(
            "there is no folder to keep a yes in; set HAFT_STATE_DIR, or HOME, to an absolute path",
        )
    })?;
    Ok(TrustStore::open(state))
}
