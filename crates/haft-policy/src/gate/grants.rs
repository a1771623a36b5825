//! Which effects of a call need a grant, and what grants them.
//!
//! | path or host | a command | a file tool |
//! |---|---|---|
//! | in a working or added directory | open | open |
//! | shown by the sandbox to every command | open | open if it is the host's own file |
//! | the session's `/tmp` | open | open |
//! | caches | open | needs a grant |
//! | host that the session opens, the session's own servers | open | |
//! | everything else | needs a grant | needs a grant |
//!
//! A rule for the path or host grants it, and so does an approval of the call. Rules for a command and
//! modes never grant: they let a call run with what is open. `--no-sandbox` opens everything.

use std::path::Path;

use haft::Workspace;
use haft::decision::{CallGrants, GrantedPaths, is_name};
use haft::effects::resolved::ResolvedPath;
use haft::ports::{AuthorizationRequest, PathUse, SandboxView};

use super::PolicyInner;
use super::call_analysis::{self, CallAnalysis};
use crate::rule::{EffectKind, EffectRef, RuleSubject, SubjectEffects, SubjectPath};
use crate::settings::PathProtection;

/// Marks the effects that are open besides those in the working directories. A shell runs in the session's
/// profile. Another child process sees its declared effects and its grants.
pub(super) fn mark_open(
    subject: &mut RuleSubject<'_>,
    workspace: &Workspace,
    view: Option<&dyn SandboxView>,
    shell: bool,
    child: bool,
) {
    let commands = subject.commands.iter_mut().map(|command| &mut command.touches);
    let mut open_hosts = Vec::new();
    for touches in std::iter::once(&mut subject.touches).chain(commands) {
        let SubjectEffects { reads, writes, deletes, hosts } = touches;
        let changes = writes.iter_mut().chain(deletes).map(|place| (EffectKind::Writes, place));
        for (touch, place) in reads.iter_mut().map(|place| (EffectKind::Reads, place)).chain(changes) {
            place.open = view.is_some_and(|view| is_open(workspace, view, shell, touch, place));
        }
        let open = hosts.iter().filter(|host| is_host_open(view, child, host));
        open_hosts.extend(open.map(|host| host.to_string()));
    }
    subject.open_hosts = open_hosts;
}

/// Returns whether both forms of a path are open. Either may be in a working directory, as with a symlink
/// there.
fn is_open(
    workspace: &Workspace,
    view: &dyn SandboxView,
    shell: bool,
    touch: EffectKind,
    place: &SubjectPath<'_>,
) -> bool {
    let path_use = match (touch, shell) {
        (EffectKind::Reads, true) => PathUse::CommandRead,
        (EffectKind::Reads, false) => PathUse::ToolRead,
        (_, true) => PathUse::CommandWrite,
        (_, false) => return false,
    };
    let is_open =
        |path: &Path| workspace.contains_both(path, path) || view.is_path_open(path, place.extent, path_use);
    is_open(&place.real) && (place.given == place.real || is_open(&workspace.paths().host_path(&place.given)))
}

/// The session's own servers are reached by names of this machine. The host's servers aren't.
fn is_host_open(view: Option<&dyn SandboxView>, child: bool, host: &str) -> bool {
    let is_address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    let is_loopback = is_address.map_or_else(|_| !is_name(host), |address| address.is_loopback());
    is_loopback || (child && view.is_some_and(|view| view.is_host_open(host)))
}

impl CallAnalysis<'_> {
    /// Returns whether an effect needs a grant.
    pub(super) fn needs_grant(&self, effect: EffectRef) -> bool {
        let subject = &self.subject;
        let place =
            || self.place(effect).is_some_and(|place| !place.open && !self.is_inside(effect.touch, place));
        let host = || subject.host(effect).is_some_and(|host| !subject.is_open_host(host));
        subject.walled && (place() || host())
    }
}

/// Returns which of its declared effects an allowed call is granted.
///
/// Paths that are open to a command anyway aren't granted: its caches are the session's own, but a grant
/// would give access to the host's.
pub(super) fn call_grants(
    inner: &PolicyInner,
    request: &AuthorizationRequest<'_>,
    approved: bool,
) -> CallGrants {
    let case = CallAnalysis::for_request(request, &inner.surroundings);
    let effects = request.effects;
    // A tool that is not a shell touches what it declares, and each of these effects was open or covered.
    if case.line().is_none() || !case.subject.walled {
        return CallGrants::everything(effects);
    }
    let (sets, mode) = (inner.live.sets(), inner.live.mode());
    let rules = sets.for_mode(mode);
    let view = inner.surroundings.view.as_deref();
    let is_granted = |touch: EffectKind, path: &ResolvedPath| {
        let place = call_analysis::subject_path(path);
        let is_protected = || {
            let judged = [&place.given, &place.real].map(|path| inner.protected.judge(path));
            touch != EffectKind::Reads
                && judged.iter().flatten().any(|found| matches!(found, PathProtection::Ask(_)))
        };
        let is_open = || view.is_some_and(|view| is_open(case.workspace, view, true, touch, &place));
        match (approved, case.is_inside(touch, &place)) {
            (true, true) => true,
            (false, true) => !is_protected(),
            (approved, false) => rules.grants_path(touch, &place) || (approved && !is_open()),
        }
    };
    let granted = |touch, paths: &[ResolvedPath]| {
        GrantedPaths::Only(paths.iter().filter(|path| is_granted(touch, path)).cloned().collect())
    };
    let hosts = effects.hosts().filter(|(host, by_command)| {
        let named = !by_command || is_name(host);
        rules.grants_host(host) || (named && (approved || is_host_open(view, true, host)))
    });
    let mut hosts: Vec<String> = hosts.map(|(host, _)| host.to_owned()).collect();
    hosts.sort();
    hosts.dedup();
    CallGrants {
        reads: granted(EffectKind::Reads, &effects.reads),
        writes: granted(EffectKind::Writes, &effects.writes),
        deletes: granted(EffectKind::Deletes, &effects.deletes),
        hosts,
        hidden: None,
    }
}
