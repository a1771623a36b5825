//! Trust in a workspace: what its files would run or loosen, and the record of the user's yes to exactly that.
//!
//! One reading of the files serves both: what [`WorkspaceTrust`] lists is what [`WorkspaceTrust::grant`] records. A file that
//! changes in between is a change since the yes, and the next session reports it.

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

/// Whether what the files of a workspace run or loosen counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrustState {
    /// The workspace has nothing that needs trust.
    NotNeeded,
    /// The user trusts exactly this.
    Trusted,
    /// It doesn't count.
    Untrusted(UntrustedReason),
}

impl TrustState {
    /// Whether what the workspace names counts, or it names nothing.
    pub fn is_trusted(&self) -> bool {
        !matches!(self, TrustState::Untrusted(_))
    }
}

/// Why a workspace is not trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UntrustedReason {
    /// The user never said yes.
    NeverTrusted,
    /// It changed since the user said yes; each change as a message.
    Changed(Vec<String>),
    /// The hash that the caller gave is not that of this workspace.
    OtherHash,
    /// It can't be trusted as it is.
    Obstacles,
    /// The record can't be read, and why.
    DamagedRecord(String),
}

/// One thing that a workspace would run or loosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustItem {
    /// What it is.
    pub kind: TrustItemKind,
    /// What it says.
    pub text: String,
    /// Where it stands.
    pub place: String,
    /// Of everything that it says, or of a file's bytes.
    pub digest: String,
}

/// What [`WorkspaceTrust::forget`] removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForgottenTrust {
    /// The workspace was trusted.
    pub was_trusted: bool,
    /// How many lasting answers there were.
    pub answers: usize,
    /// There were approvals of MCP servers.
    pub approvals: bool,
}

impl WorkspaceTrust {
    /// Reads what a workspace would run or loosen. Runs nothing, writes nothing.
    ///
    /// # Errors
    /// Settings that can't be read, rules that could not be used once the workspace is trusted, no folder for state.
    pub fn inspect(dir: &Path, options: &SessionOptions) -> Result<WorkspaceTrust, SessionError> {
        let places = loaded_settings::settings_places(dir, &|name| options.environment.get(name))?;
        let store = trust_store(&places)?;
        check_rules(&places, options)?;
        let inventory =
            trust::inspect_workspace(&places).map_err(|error| SessionError::settings(error.to_string()))?;
        let memory: Vec<PathBuf> =
            memory::of_project(&places).into_iter().chain(skills_of(&places)).collect();
        let judgement = match store.judge(&places.cwd, &inventory) {
            // What models read needs a yes as well.
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
    /// The record can't be written.
    pub fn grant(&mut self) -> Result<(), SessionError> {
        self.store
            .trust(&self.places.cwd, &self.inventory)
            .map_err(|error| SessionError::settings(format!("the yes can't be kept: {error}")))?;
        self.judgement = TrustJudgement::Trusted;
        Ok(())
    }

    /// Takes back the trust in a workspace with all answers and approvals, also if it is gone or its settings can't be read.
    ///
    /// # Errors
    /// No folder for state, or records that can't be changed.
    pub fn forget(dir: &Path, environment: &SessionEnvironment) -> Result<ForgottenTrust, SessionError> {
        // Where the workspace is doesn't matter for where records are kept.
        let places = loaded_settings::settings_places(Path::new("/"), &|name| environment.get(name))?;
        let dir = std::path::absolute(dir)
            .map_err(|error| SessionError::settings(format!("`{}`: {error}", dir.display())))?;
        let was_trusted = trust_store(&places)?
            .forget(&dir)
            .map_err(|error| SessionError::settings(format!("the yes can't be taken back: {error}")))?;
        // An answer is as much a yes to what the workspace does as trust is.
        let state = places.state_dir.as_deref().expect("there is a store, so there is its folder");
        let answers = RememberedRules::open(state, &dir)
            .forget()
            .map_err(|error| SessionError::settings(format!("your answers can't be forgotten: {error}")))?;
        let approvals = approvals::forget_approvals(state, &dir)
            .map_err(|error| SessionError::settings(format!("your approvals can't be forgotten: {error}")))?;
        Ok(ForgottenTrust { was_trusted, answers, approvals })
    }

    /// The real path of the workspace.
    pub fn workspace(&self) -> &Path {
        &self.places.cwd
    }

    /// The hash over all items.
    pub fn hash(&self) -> String {
        self.inventory.hash().to_string()
    }

    /// Whether what the items say counts.
    pub fn state(&self) -> TrustState {
        TrustState::from(&self.judgement)
    }

    /// Whether what the items say counts, or there is nothing that has to.
    pub fn is_trusted(&self) -> bool {
        self.judgement.is_trusted()
    }

    /// Why the workspace can't be trusted, as messages.
    pub fn obstacles(&self) -> &[String] {
        self.inventory.obstacles()
    }

    /// What the workspace would run or loosen; what runs comes first.
    pub fn items(&self) -> Vec<TrustItem> {
        let item = |item: &trust::TrustItem| TrustItem {
            kind: item.kind,
            text: item.text.clone(),
            place: item.place.clone(),
            digest: item.digest.to_string(),
        };
        self.inventory.items().iter().map(item).collect()
    }

    /// Files that models read once the workspace is trusted, as paths for people. They may change.
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

/// Every rule that counts once the workspace is trusted has to be understood, or nothing would run after the yes.
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
