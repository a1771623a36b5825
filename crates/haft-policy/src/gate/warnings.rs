//! The warnings of a call: one table of what the user should know before allowing it.
//!
//! Each row of [`TABLE`] detects one harm in the known effects of the call. Unknown effects are not covered
//! here: the prompt mentions them itself.

use std::path::Path;

use haft::decision::CallWarning;
use haft::effects::RootExtent;
use haft::files::CheckpointPlan;
use haft::ports::AuthorizationRequest;

use super::call_analysis::{self, CallAnalysis};
use crate::credentials;
use crate::rule::{EffectKind, EffectRef, SubjectPath};

/// The maximum number of paths that one kind of warning names.
const NAMED_MAX: usize = 3;

/// A function that detects one harm.
type WarningRow = fn(&KnownCall<'_>) -> Vec<CallWarning>;

/// The warning functions. The table in `docs/permissions.md` has a row for each, with examples.
const TABLE: [WarningRow; 5] = [
    find_lost_files,
    find_destructive_commands,
    find_declared_destruction,
    find_sent_secrets,
    find_read_credentials,
];

/// The known facts about a call.
struct KnownCall<'c> {
    request: &'c AuthorizationRequest<'c>,
    case: &'c CallAnalysis<'c>,
    home: &'c Path,
}

/// Returns the warnings that the user should read before allowing a call.
pub(super) fn find_warnings(
    request: &AuthorizationRequest<'_>,
    case: &CallAnalysis<'_>,
    home: &Path,
) -> Vec<CallWarning> {
    let call = KnownCall { request, case, home };
    let mut warnings: Vec<CallWarning> = Vec::new();
    for warning in TABLE.iter().flat_map(|row| row(&call)) {
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
    warnings
}

fn warn_of_destruction(what: impl Into<String>) -> CallWarning {
    CallWarning::Destroys { what: what.into() }
}

fn quote_path(place: &SubjectPath<'_>) -> String {
    format!("`{}`", place.given.display())
}

/// Returns whether all these files are backed up before the call changes them.
fn are_kept(call: &KnownCall<'_>, places: &[&SubjectPath<'_>]) -> bool {
    // Changes that a tool makes through its context are backed up.
    let is_file_tool = call_analysis::is_granted_files_only(call.request);
    let is_command = call.case.line().is_some();
    // A command may be granted a change elsewhere, but those files are not backed up.
    let reachable = |place: &&SubjectPath<'_>| is_file_tool || call.case.is_inside(EffectKind::Writes, place);
    (is_file_tool || is_command)
        && places.iter().all(reachable)
        && CheckpointPlan::new(places.iter().map(|place| place.planned_change())).is_some()
}

/// Returns existing files that are removed or overwritten without a backup.
fn find_lost_files(call: &KnownCall<'_>) -> Vec<CallWarning> {
    let case = call.case;
    if let Some(path) = &case.critical {
        return vec![warn_of_destruction(format!("`{path}`"))];
    }
    if !call.request.declared().needs_warning() {
        return Vec::new();
    }
    let is_lost = |effect: EffectRef, place: &SubjectPath<'_>| match effect.touch {
        // The affected files are unknown.
        _ if place.partial => false,
        EffectKind::Deletes => place.real.symlink_metadata().is_ok() && !case.is_moved(effect, place),
        // Writing into a folder keeps its existing contents, as far as is known.
        EffectKind::Writes => {
            place.real.metadata().is_ok_and(|found| !found.is_dir()) && !is_stream(&place.real)
        }
        _ => false,
    };
    let changed: Vec<&SubjectPath<'_>> = case
        .places()
        .filter(|(effect, place)| is_lost(*effect, place))
        // An open path outside of the working directories belongs to the session.
        .filter(|(effect, place)| !place.open || case.is_inside(effect.touch, place))
        .map(|(_, place)| place)
        .collect();
    if changed.is_empty() || are_kept(call, &changed) {
        return Vec::new();
    }
    let unkept = changed.iter().filter(|place| !are_kept(call, &[**place]));
    let named: Vec<CallWarning> =
        unkept.map(|place| warn_of_destruction(quote_path(place))).take(NAMED_MAX).collect();
    if named.is_empty() { vec![warn_of_destruction("more than can be kept")] } else { named }
}

/// Returns whether a path is a stream or a terminal, which holds no data to lose. A block device does, and
/// it isn't backed up.
fn is_stream(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    path.metadata().is_ok_and(|found| found.file_type().is_char_device() || found.file_type().is_fifo())
}

/// Returns what commands destroy besides files: uncommitted changes, commits, volumes.
fn find_destructive_commands(call: &KnownCall<'_>) -> Vec<CallWarning> {
    let what = call.case.commands.iter().filter_map(|command| command.destroys);
    what.take(NAMED_MAX).map(warn_of_destruction).collect()
}

/// Returns the destruction that a tool declares itself.
fn find_declared_destruction(call: &KnownCall<'_>) -> Vec<CallWarning> {
    let claims = call.request.declared().claims.destructive == Some(true);
    claims.then(|| warn_of_destruction("something, as the tool says")).into_iter().collect()
}

/// Returns the credentials among the files that are read.
fn credential_reads<'c>(call: &'c KnownCall<'_>) -> impl Iterator<Item = String> + 'c {
    call.case.places().filter(|(effect, _)| effect.touch == EffectKind::Reads).filter_map(
        |(effect, place)| {
            let paths = [&*place.given, &*place.real];
            // The names in a folder are not credentials.
            let is_listing = place.extent == RootExtent::File && place.real.is_dir();
            if !is_listing && paths.iter().any(|path| credentials::is_credential(path)) {
                return Some(quote_path(place));
            }
            let inside = call.case.is_inside(EffectKind::Reads, place);
            let only_looks = effect.command.is_some_and(|at| call.case.subject.commands[at].read_only);
            if place.extent == RootExtent::File || inside || only_looks {
                return None;
            }
            let found = credentials::find_below(&place.real, call.home)?;
            Some(format!("`{}`", found.display()))
        },
    )
}

fn find_read_credentials(call: &KnownCall<'_>) -> Vec<CallWarning> {
    let mut paths: Vec<String> = credential_reads(call).collect();
    paths.dedup();
    // The warning about sent secrets covers it.
    if reached_hosts(call).next().is_some() {
        return Vec::new();
    }
    paths.into_iter().take(NAMED_MAX).map(|path| CallWarning::ReadsCredentials { path }).collect()
}

/// Returns the hosts that a call reaches.
fn reached_hosts<'c>(call: &'c KnownCall<'_>) -> impl Iterator<Item = &'c str> {
    let subject = &call.case.subject;
    let touches = std::iter::once(&subject.touches).chain(subject.commands.iter().map(|one| &one.touches));
    touches.flat_map(|touches| touches.hosts.iter().map(|host| &**host))
}

/// Returns credentials that are read by a call that reaches a host, and tokens in such a call's input.
fn find_sent_secrets(call: &KnownCall<'_>) -> Vec<CallWarning> {
    let Some(host) = reached_hosts(call).next() else { return Vec::new() };
    let input = call.request.input.to_string();
    let tokens = haft::redact::find_secrets(&input).map(|kind| format!("a secret ({kind})"));
    let secrets = credential_reads(call).chain(tokens).take(NAMED_MAX);
    secrets.map(|secret| CallWarning::SendsSecret { secret, host: host.to_owned() }).collect()
}
