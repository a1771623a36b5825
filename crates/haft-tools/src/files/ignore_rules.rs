//! Which files ripgrep would not search: `.gitignore`, `.ignore`, `.rgignore` and `.git/info/exclude`.
//!
//! The matchers are those of the crate `ignore`; the files come through the port, so a rule that lies outside
//! of what a call may read has no effect. The rules of a directory hold below it; a nearer one wins, and one
//! kind of file wins over another: `.rgignore`, `.ignore`, `.gitignore`, `exclude`. Those of git end at the
//! repository's own directory.
//!
//! The decision to question: a `.gitignore` counts whether or not there is a repository
//! (`rg --no-require-git`). A session that works in a part of a repository can't see the `.git` above it.

use std::ffi::OsStr;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use haft::Context;
use haft::files::{FileKind, OpenDir};
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::walk::DirectoryListing;

/// How many bytes of one file of rules are read.
const RULES_BYTES_MAX: u64 = 1024 * 1024;

/// The files of rules, in the order in which they win.
const FILES: [&str; 3] = [".rgignore", ".ignore", ".gitignore"];
/// Their number in [`DirectoryRules::of`], and that of `exclude`.
const GITIGNORE: usize = 2;
const EXCLUDE: usize = 3;

/// The rules that hold in a directory; none at all where nothing above it has any.
#[derive(Clone, Default)]
pub(crate) struct IgnoreRules(Option<Arc<DirectoryRules>>);

struct DirectoryRules {
    above: IgnoreRules,
    of: [Option<Gitignore>; 4],
    /// Whether this is the directory of a repository.
    has_git: bool,
}

impl IgnoreRules {
    /// The rules of the directories above `path` that the call may read.
    pub(crate) async fn above(path: &Path, cx: &Context) -> IgnoreRules {
        let visible = path.ancestors().skip(1).take_while(|dir| cx.access().may_read(dir));
        let mut ignores = IgnoreRules::default();
        for dir in visible.collect::<Vec<_>>().into_iter().rev() {
            let mut of: [Option<Gitignore>; 4] = Default::default();
            for (at, name) in FILES.into_iter().chain([".git/info/exclude"]).enumerate() {
                let text = cx.files().read(dir.join(name)).await;
                of[at] = text.ok().and_then(|text| compile_rules(dir, &text));
            }
            let has_git = cx.files().exists(dir.join(".git")).await.unwrap_or(false);
            ignores = ignores.with(of, has_git);
        }
        ignores
    }

    /// The rules that hold in a directory that was just listed.
    pub(crate) fn enter(&self, dir: &DirectoryListing<'_>) -> IgnoreRules {
        if !dir.has_hidden() {
            return self.clone();
        }
        let mut of: [Option<Gitignore>; 4] = Default::default();
        for (at, name) in FILES.into_iter().enumerate() {
            if dir.kind(name) == Some(FileKind::File) {
                of[at] = read_rules(dir.dir, name).and_then(|text| compile_rules(dir.path, &text));
            }
        }
        let git = dir.kind(".git");
        if git == Some(FileKind::Directory) {
            let info = dir.dir.open_dir(OsStr::new(".git")).and_then(|git| git.open_dir(OsStr::new("info")));
            let text = info.ok().and_then(|info| read_rules(&*info, "exclude"));
            of[EXCLUDE] = text.and_then(|text| compile_rules(dir.path, &text));
        }
        self.clone().with(of, git.is_some())
    }

    fn with(self, of: [Option<Gitignore>; 4], has_git: bool) -> IgnoreRules {
        if of.iter().all(Option::is_none) && !(has_git && self.0.is_some()) {
            return self;
        }
        IgnoreRules(Some(Arc::new(DirectoryRules { above: self, of, has_git })))
    }

    /// Whether an entry is left out.
    pub(crate) fn ignores(&self, path: &Path, is_dir: bool) -> bool {
        let mut verdicts = [None; 4];
        let mut saw_git = false;
        let mut next = self;
        while let Some(rules) = &next.0 {
            for (at, of) in rules.of.iter().enumerate() {
                let Some(of) =
                    of.as_ref().filter(|_| verdicts[at].is_none() && !(saw_git && at >= GITIGNORE))
                else {
                    continue;
                };
                verdicts[at] = match of.matched(path, is_dir) {
                    Match::None => None,
                    Match::Ignore(_) => Some(true),
                    Match::Whitelist(_) => Some(false),
                };
            }
            saw_git |= rules.has_git;
            next = &rules.above;
        }
        verdicts.into_iter().flatten().next().unwrap_or(false)
    }
}

fn read_rules(dir: &dyn OpenDir, name: &str) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    let file = dir.open(OsStr::new(name)).ok()?;
    file.take(RULES_BYTES_MAX).read_to_end(&mut text).ok()?;
    Some(text)
}

/// The rules of one file; lines that are none have no effect.
fn compile_rules(dir: &Path, text: &[u8]) -> Option<Gitignore> {
    let text = String::from_utf8_lossy(text);
    let mut builder = GitignoreBuilder::new(dir);
    for line in text.trim_start_matches('\u{feff}').lines() {
        let _ = builder.add_line(None, line);
    }
    builder.build().ok().filter(|rules| !rules.is_empty())
}
