//! Rules for worktrees of agents: a deny or ask rule for a file of the checkout also applies to the same
//! file in a worktree.
//!
//! A rule is anchored at its settings file, so `Edit(/migrations/**)` doesn't match
//! `.haft/worktrees/x/migrations`. But a worktree is a copy of the same project, and moving into one must
//! not lift a rule. So a call that touches a worktree is evaluated twice: as it is, and with its paths
//! mapped to the checkout. The second evaluation counts only denials and asks of rules. It doesn't allow in
//! a worktree what rules allow in the checkout.

use std::path::{Path, PathBuf};

use haft::Workspace;
use haft::effects::resolved::{ResolvedEffects, ResolvedPath};
use haft::effects::{AccessKind, RootExtent, WORKTREES};
use haft::ports::AuthorizationRequest;
use serde_json::Value;

/// A call with its paths mapped to the checkout.
pub(super) struct CheckoutCall {
    effects: ResolvedEffects,
    input: Value,
    workspace: Workspace,
    move_out: WorktreeMapping,
}

/// The mapping from a worktree to the checkout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WorktreeMapping {
    from: PathBuf,
    to: PathBuf,
}

impl WorktreeMapping {
    /// Returns the mapping for a path in a worktree of this checkout.
    fn for_path(root: &Path, path: &Path) -> Option<WorktreeMapping> {
        haft_protected::plain_folders().find_map(|folder| {
            let folder = root.join(folder);
            let name = path.strip_prefix(&folder).ok()?.components().next()?;
            Some(WorktreeMapping { from: folder.join(name), to: root.to_owned() })
        })
    }

    /// Maps a path of the worktree to the checkout. Other paths are unchanged.
    pub(super) fn path(&self, path: &Path) -> PathBuf {
        match path.strip_prefix(&self.from) {
            Ok(rest) if rest.as_os_str().is_empty() => self.to.clone(),
            Ok(rest) => self.to.join(rest),
            Err(_) => path.to_owned(),
        }
    }

    /// Maps the paths in every text of an input.
    fn input(&self, input: &Value) -> Value {
        match input {
            Value::String(text) => {
                text.replace(&*self.from.to_string_lossy(), &self.to.to_string_lossy()).into()
            }
            Value::Array(items) => items.iter().map(|item| self.input(item)).collect(),
            Value::Object(fields) => {
                fields.iter().map(|(name, value)| (name.clone(), self.input(value))).collect()
            }
            other => other.clone(),
        }
    }
}

/// Returns whether a call creates a worktree through git and changes no file of one: its declared effects
/// are the repository's worktree data and whole worktrees. An external tool's declaration doesn't count.
fn makes_worktree(root: &Path, request: &AuthorizationRequest<'_>) -> bool {
    let (declared, effects) = (request.declared(), request.effects);
    let changes_worktrees =
        declared.state.iter().any(|state| state.resource == WORKTREES && state.access == AccessKind::Change);
    let is_worktree = |path: &ResolvedPath| {
        let is_root =
            |path: &Path| WorktreeMapping::for_path(root, path).is_some_and(|found| found.from == path);
        path.extent == RootExtent::Subtree && is_root(&path.at.real) && is_root(&path.at.given)
    };
    changes_worktrees
        && !request.external
        && !declared.unknown
        && declared.runs.is_empty()
        && effects.reads.is_empty()
        && effects.deletes.is_empty()
        && !effects.writes.is_empty()
        && effects.writes.iter().all(is_worktree)
}

impl CheckoutCall {
    /// Returns the mapped call, if the call touches a worktree of this checkout or is made in one.
    pub(super) fn for_request(root: &Path, request: &AuthorizationRequest<'_>) -> Option<CheckoutCall> {
        if makes_worktree(root, request) {
            return None;
        }
        let effects = request.effects;
        let touched = effects.reads.iter().chain(&effects.writes).chain(&effects.deletes);
        let paths = touched.flat_map(|path| [&*path.at.real, &*path.at.given]);
        let move_out = std::iter::once(request.workspace.cwd())
            .chain(paths)
            .find_map(|path| WorktreeMapping::for_path(root, path))?;
        let workspace =
            Workspace::new(move_out.path(request.workspace.cwd())).or_else(|_| Workspace::new(root)).ok()?;
        let workspace = workspace.with_paths(request.workspace.paths().clone());
        let mut effects = effects.clone();
        let moved = |path: &mut ResolvedPath| {
            path.at.given = move_out.path(&path.at.given);
            path.at.real = move_out.path(&path.at.real);
        };
        effects.reads.iter_mut().for_each(moved);
        effects.writes.iter_mut().for_each(moved);
        effects.deletes.iter_mut().for_each(moved);
        Some(CheckoutCall { effects, input: move_out.input(request.input), workspace, move_out })
    }

    /// Returns the request with its paths mapped to the checkout.
    pub(super) fn request<'a>(&'a self, request: &AuthorizationRequest<'a>) -> AuthorizationRequest<'a> {
        let mut twin = *request;
        (twin.effects, twin.input, twin.workspace) = (&self.effects, &self.input, &self.workspace);
        twin
    }

    /// Returns the path mapping.
    pub(super) fn move_out(&self) -> &WorktreeMapping {
        &self.move_out
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_of_a_worktree_are_the_checkouts() {
        let of = |path: &str| WorktreeMapping::for_path(Path::new("/w"), Path::new(path));
        let found = of("/w/.haft/worktrees/x/a/b").unwrap();
        assert_eq!(found.path(Path::new("/w/.haft/worktrees/x/a/b")), Path::new("/w/a/b"));
        assert_eq!(found.path(Path::new("/w/.haft/worktrees/x")), Path::new("/w"));
        assert_eq!(found.path(Path::new("/w/.haft/worktrees/y/a")), Path::new("/w/.haft/worktrees/y/a"));
        assert_eq!(
            found.input(&json!({"command": "cat /w/.haft/worktrees/x/a", "n": [1, "b"]})),
            json!({"command": "cat /w/a", "n": [1, "b"]})
        );
        assert!(of("/w/.claude/worktrees/x").is_some());
        for path in ["/w/a", "/w/.haft/worktrees", "/v/.haft/worktrees/x", "/w/.haft/settings.json"] {
            assert_eq!(of(path), None, "{path}");
        }
    }
}
