//! The warnings of a call: one table of what a person should know before they allow it.
//!
//! Each row of [`TABLE`] looks for one harm in what is known of the call. Nothing here speaks of what isn't known: the
//! question says that by itself.

use std::path::Path;

use haft::decision::Warning;
use haft::effects::Extent;
use haft::files::CheckpointPlan;
use haft::ports::Request;

use super::case::Case;
use crate::conventions;
use crate::credentials;
use crate::rule::{Effect, Place, Touch};

/// How many places one kind of warning names.
const NAMED_MAX: usize = 3;

/// What finds one harm.
type WarningRow = fn(&KnownCall<'_>) -> Vec<Warning>;

/// What warns; the table in `docs/permissions.md` has a row for each, with examples.
const TABLE: [WarningRow; 5] =
    [unkept_files, destructive_commands, declared_destruction, sent_secrets, read_credentials];

/// What is known of a call.
struct KnownCall<'c> {
    request: &'c Request<'c>,
    case: &'c Case<'c>,
    home: &'c Path,
}

/// What a person should know before they allow a call.
pub(super) fn find(request: &Request<'_>, case: &Case<'_>, home: &Path) -> Vec<Warning> {
    let call = KnownCall { request, case, home };
    let mut warnings: Vec<Warning> = Vec::new();
    for warning in TABLE.iter().flat_map(|row| row(&call)) {
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
    warnings
}

fn destroys(what: impl Into<String>) -> Warning {
    Warning::Destroys { what: what.into() }
}

fn quoted(place: &Place<'_>) -> String {
    format!("`{}`", place.given.display())
}

/// Whether copies of all these files are kept before the call changes them.
fn are_kept(call: &KnownCall<'_>, places: &[&Place<'_>]) -> bool {
    let is_file_tool = !call.request.external && conventions::is_file_tool(call.request.name);
    let is_command = call.case.line().is_some();
    // A command may be granted a change elsewhere, but nothing reads the file there before.
    let reachable = |place: &&Place<'_>| is_file_tool || call.case.is_inside(Touch::Writes, place);
    (is_file_tool || is_command)
        && places.iter().all(reachable)
        && CheckpointPlan::new(places.iter().map(|place| (&*place.real, place.extent))).is_some()
}

/// Whether a place that a command removes is moved by it: what is only removed isn't read, and nothing else is written.
fn is_moved(case: &Case<'_>, effect: Effect, place: &Place<'_>) -> bool {
    let touches = effect.command.map(|at| &case.subject.commands[at].touches);
    touches.is_some_and(|touches| {
        !touches.writes.is_empty() && touches.reads.iter().any(|read| read.real == place.real)
    })
}

/// Files that are there, are removed or overwritten, and of which no copy is kept.
fn unkept_files(call: &KnownCall<'_>) -> Vec<Warning> {
    let case = call.case;
    if let Some(path) = &case.critical {
        return vec![destroys(format!("`{path}`"))];
    }
    if !call.request.declared().warns() {
        return Vec::new();
    }
    let is_lost = |effect: Effect, place: &Place<'_>| match effect.touch {
        Touch::Deletes => place.real.symlink_metadata().is_ok() && !is_moved(case, effect, place),
        // A folder that is written into keeps what it has, as far as is known.
        Touch::Writes => place.real.metadata().is_ok_and(|found| !found.is_dir()) && !is_stream(&place.real),
        _ => false,
    };
    let changed: Vec<&Place<'_>> = case
        .places()
        .filter(|(effect, place)| is_lost(*effect, place))
        // What is open outside of the working directories is the session's own.
        .filter(|(effect, place)| !place.open || case.is_inside(effect.touch, place))
        .map(|(_, place)| place)
        .collect();
    if changed.is_empty() || are_kept(call, &changed) {
        return Vec::new();
    }
    let unkept = changed.iter().filter(|place| !are_kept(call, &[**place]));
    let named: Vec<Warning> = unkept.map(|place| destroys(quoted(place))).take(NAMED_MAX).collect();
    if named.is_empty() { vec![destroys("more than can be kept")] } else { named }
}

/// Streams and terminals hold nothing that could be lost. A disk does, and no copy of it is kept.
fn is_stream(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    path.metadata().is_ok_and(|found| found.file_type().is_char_device() || found.file_type().is_fifo())
}

/// What commands destroy that is no file of theirs: uncommitted changes, commits, volumes.
fn destructive_commands(call: &KnownCall<'_>) -> Vec<Warning> {
    let what = call.case.commands.iter().filter_map(|command| command.destroys);
    what.take(NAMED_MAX).map(destroys).collect()
}

/// What a tool says of itself.
fn declared_destruction(call: &KnownCall<'_>) -> Vec<Warning> {
    let claims = call.request.declared().claims.destructive == Some(true);
    claims.then(|| destroys("something, as the tool says")).into_iter().collect()
}

/// The credentials among what is read.
fn credentials<'c>(call: &'c KnownCall<'_>) -> impl Iterator<Item = String> + 'c {
    call.case.places().filter(|(effect, _)| effect.touch == Touch::Reads).filter_map(|(effect, place)| {
        let paths = [&*place.given, &*place.real];
        // The names in a folder are no credentials.
        let is_listing = place.extent == Extent::File && place.real.is_dir();
        if !is_listing && paths.iter().any(|path| credentials::is_credential(path)) {
            return Some(quoted(place));
        }
        let inside = call.case.is_inside(Touch::Reads, place);
        let only_looks = effect.command.is_some_and(|at| call.case.subject.commands[at].read_only);
        if place.extent == Extent::File || inside || only_looks {
            return None;
        }
        let found = credentials::find_below(&place.real, call.home)?;
        Some(format!("`{}`", found.display()))
    })
}

fn read_credentials(call: &KnownCall<'_>) -> Vec<Warning> {
    let mut paths: Vec<String> = credentials(call).collect();
    paths.dedup();
    // What is sent was warned of.
    if hosts(call).next().is_some() {
        return Vec::new();
    }
    paths.into_iter().take(NAMED_MAX).map(|path| Warning::ReadsCredentials { path }).collect()
}

/// The hosts that a call reaches.
fn hosts<'c>(call: &'c KnownCall<'_>) -> impl Iterator<Item = &'c str> {
    let subject = &call.case.subject;
    let touches = std::iter::once(&subject.touches).chain(subject.commands.iter().map(|one| &one.touches));
    touches.flat_map(|touches| touches.hosts.iter().map(|host| &**host))
}

/// Credentials that are read by a call that reaches a host, and tokens in the input of one.
fn sent_secrets(call: &KnownCall<'_>) -> Vec<Warning> {
    let Some(host) = hosts(call).next() else { return Vec::new() };
    let input = call.request.input.to_string();
    let tokens = haft::redact::find_secrets(&input).map(|kind| format!("a secret ({kind})"));
    let secrets = credentials(call).chain(tokens).take(NAMED_MAX);
    secrets.map(|secret| Warning::SendsSecret { secret, host: host.to_owned() }).collect()
}
