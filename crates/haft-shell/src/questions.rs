//! The questions of rules, display and concurrency about a command: filters on its findings.

use std::path::{Path, PathBuf};

use haft::Effects;
use haft::effects::{CommandEffect, HostEffect, PathSet};
use haft_git::RepositoryUse;

use super::examine::{CommandInput, Finding, examine_command, is_place, pattern_folder};
use super::folders::WorkingFolders;
use super::model::PathExtent;
use super::{CommandAnalysis, FileAccess, ShellDirectories, Word, critical, marks, streams};

const WRITES_HIDDEN: &str = "writes a file that is known only when it runs";

/// Returns whether a command is read-only, or why it may change something. Commands that it contains are
/// judged separately.
pub(crate) fn read_only(findings: &[Finding]) -> Result<(), String> {
    let reason = findings.iter().find_map(|finding| match finding {
        Finding::Changes(reason) => Some(reason.clone()),
        _ => None,
    });
    let acts = |finding: &Finding| match finding {
        Finding::Held(held) => !held.quiet,
        Finding::Write { .. }
        | Finding::Delete { .. }
        | Finding::Connect { .. }
        | Finding::UnknownHost(_)
        | Finding::CommandsIn(_)
        | Finding::Undetermined
        | Finding::ShellState
        | Finding::ExactOnly(_) => true,
        _ => false,
    };
    match reason {
        Some(reason) => Err(reason),
        None if findings.iter().any(acts) => Err("it may do more than look".to_owned()),
        None => Ok(()),
    }
}

/// Returns why only an exact rule allows a command, if that is so.
pub(crate) fn exact_only(findings: &[Finding]) -> Option<&'static str> {
    findings.iter().find_map(|finding| match finding {
        Finding::ExactOnly(reason) | Finding::CommandsIn(reason) => Some(*reason),
        Finding::Held(held) => Some(held.reason),
        _ => None,
    })
}

/// Returns why hosts may be reached that weren't found.
pub(crate) fn unknown_host(argv: &[Word]) -> Option<String> {
    examine_command(argv, CommandInput::default()).into_iter().find_map(|finding| match finding {
        Finding::UnknownHost(why) => Some(why),
        _ => None,
    })
}

/// Returns what a command destroys besides the files in its words.
pub(crate) fn find_destruction(findings: &[Finding]) -> Option<&'static str> {
    findings.iter().find_map(|finding| match finding {
        Finding::Destroys(what) => Some(*what),
        _ => None,
    })
}

/// Returns the first critical path that a command removes.
pub(crate) fn critical_removal(
    findings: &[Finding],
    here: &WorkingFolders,
    place: &ShellDirectories,
) -> Option<String> {
    findings.iter().find_map(|finding| match finding {
        Finding::Delete { word, recursive, matches: false, .. } => {
            critical::is_critical(word, *recursive, here, place).then(|| word.plain().to_owned())
        }
        _ => None,
    })
}

/// The place where a command runs.
#[derive(Clone, Copy)]
pub(crate) struct CommandPlace<'a> {
    pub(crate) here: &'a WorkingFolders,
    pub(crate) place: &'a ShellDirectories,
}

/// The effects of a command.
pub(crate) struct CommandEffects {
    /// `None` if nothing is known.
    pub(crate) effects: Option<Effects>,
    /// Why only an exact rule allows it: it writes or runs something at an unknown path.
    pub(crate) exact_only: Option<&'static str>,
}

impl CommandPlace<'_> {
    /// Returns the effects on files and hosts of a program with these findings.
    pub(crate) fn effects(&self, program: &str, parts: [&[Finding]; 2]) -> CommandEffects {
        let findings = || parts.into_iter().flatten();
        let has = |wanted: &Finding| findings().any(|finding| finding == wanted);
        let mut effects = Effects::none();
        let mut exact_only = None;
        effects.unknown = has(&Finding::Open);
        for finding in findings() {
            match finding {
                Finding::Read { word, extent } => self.read(&mut effects, word, *extent),
                Finding::Write { word, extent, loose } => match self.paths(word) {
                    Some((paths, below)) => add_paths(&mut effects.writes, paths, below.unwrap_or(*extent)),
                    None if *loose => effects.unknown = true,
                    None => exact_only = Some(WRITES_HIDDEN),
                },
                Finding::Delete { word, extent, matches, .. } => match self.paths(word) {
                    Some((paths, below)) => add_paths(&mut effects.deletes, paths, below.unwrap_or(*extent)),
                    None if *matches && is_place(word) => exact_only = Some(WRITES_HIDDEN),
                    None => effects.unknown = true,
                },
                Finding::Connect { host, access } => {
                    effects.reaches.push(HostEffect { host: host.clone(), access: *access });
                }
                Finding::UnknownHost(_) => effects.unknown = true,
                _ => {}
            }
        }
        effects.unknown |= exact_only.is_some();
        if has(&Finding::Exclusive) {
            effects = effects.exclusive();
        }
        effects.reads.retain(|set| !streams::is_stream_path(&set.path));
        effects.writes.retain(|set| !streams::is_stream_path(&set.path));
        let exact_only = exact_only.or_else(|| self.moved(program, &mut effects));
        let nothing = !names_something(&effects)
            && !findings().any(|finding| matches!(finding, Finding::UnknownHost(_) | Finding::Read { .. }));
        let effects = (!(nothing && effects.unknown)).then_some(effects);
        CommandEffects { effects, exact_only }
    }

    /// Returns the folders whose repositories are read, or `None` if one of them is unknown.
    pub(crate) fn looks_at(&self, findings: &[Finding]) -> Option<Vec<PathBuf>> {
        let folders = findings.iter().filter_map(|finding| match finding {
            Finding::LooksAt(folder) => Some(self.paths(folder)),
            _ => None,
        });
        let paths: Vec<Vec<PathBuf>> = folders.map(|found| Some(found?.0)).collect::<Option<_>>()?;
        Some(
            paths
                .into_iter()
                .flatten()
                .map(|path| self.place.cwd.join(path).components().collect())
                .collect(),
        )
    }

    /// Returns the effects of findings on repositories.
    pub(crate) fn repository_use(&self, parts: [&[Finding]; 2]) -> RepositoryUse {
        let absolute = |path: PathBuf| self.place.cwd.join(path).components().collect();
        let found = parts.into_iter().flatten().filter_map(|finding| match finding {
            Finding::Repository { level, folder } => {
                let folders = self.paths(folder).map(|(paths, _)| paths.into_iter().map(absolute).collect());
                Some(RepositoryUse::new(*level, folders))
            }
            _ => None,
        });
        found.fold(RepositoryUse::default(), RepositoryUse::and)
    }

    /// A program with unknown effects has them in its working directory.
    fn moved(&self, program: &str, effects: &mut Effects) -> Option<&'static str> {
        if !self.here.moved() || !effects.unknown {
            return None;
        }
        let relative = program.contains('/') && !program.starts_with('/');
        let Some(folders) = self.here.folders() else {
            return relative.then_some("is a program of a folder that isn't known");
        };
        if relative {
            add_paths(
                &mut effects.reads,
                self.here.join(Path::new(program)).unwrap_or_default(),
                PathExtent::File,
            );
        }
        let folders = folders.iter().filter(|folder| !folder.as_os_str().is_empty()).cloned();
        add_paths(&mut effects.reads, folders.collect(), PathExtent::File);
        None
    }

    fn read(&self, effects: &mut Effects, word: &Word, extent: PathExtent) {
        match self.paths(word) {
            Some((paths, below)) => {
                let alone = below.unwrap_or(extent) == PathExtent::File;
                add_paths(&mut effects.reads, paths, if alone { PathExtent::File } else { PathExtent::Tree });
            }
            None => effects.unknown = true,
        }
    }

    /// Returns the possible paths of a word if they are known, with the extent if it is a pattern.
    fn paths(&self, word: &Word) -> Option<(Vec<PathBuf>, Option<PathExtent>)> {
        match word {
            Word::Literal(text) => Some((self.here.join(Path::new(text))?, None)),
            Word::Dynamic(open) => match pattern_folder(word) {
                Some(folder) => Some((self.here.join(&folder)?, Some(pattern_extent(&open.shape)))),
                None => below_home(word, self.place).map(|path| (vec![path], None)),
            },
        }
    }
}

/// Returns effects with their unknown part. A program has the effects of its arguments behind a wrapper as
/// well, besides those that the wrapper adds.
pub(crate) fn known_effects(mut effects: Effects, known: bool, argv: &[Word]) -> Effects {
    // Names from another command or a loop are known well enough for reading, but not for rules about
    // files.
    effects.unknown |= !known || argv.iter().any(Word::stands_for_names);
    if !names_something(&effects) && !known { Effects::unknown() } else { effects }
}

/// Returns whether a path or host is named.
fn names_something(effects: &Effects) -> bool {
    effects.has_paths() || !effects.reaches.is_empty()
}

/// Returns how much of a folder a pattern covers: all of it, unless a part of the pattern is more specific
/// than "anything".
fn pattern_extent(shape: &str) -> PathExtent {
    let mut parts = shape.split('/').filter(|part| part.contains(marks::GLOB));
    let fits_all = parts.all(|part| part.chars().all(|c| c == marks::GLOB));
    if fits_all { PathExtent::Tree } else { PathExtent::Part }
}

/// Adds paths that aren't in the list yet.
fn add_paths(sets: &mut Vec<PathSet>, paths: Vec<PathBuf>, extent: PathExtent) {
    for path in paths {
        let set = match extent {
            PathExtent::File => PathSet::file(path),
            PathExtent::Tree => PathSet::subtree(path),
            PathExtent::Part => PathSet::part_of(path),
        };
        if !sets.contains(&set) {
            sets.push(set);
        }
    }
}

/// Returns the path of `~/…` if the home directory is known.
pub(crate) fn below_home(word: &Word, place: &ShellDirectories) -> Option<PathBuf> {
    let Word::Dynamic(open) = word else { return None };
    let rest = open.shape.strip_prefix(marks::HOME)?;
    let plain = !rest.contains(|c| c <= marks::GLOB) && (rest.is_empty() || rest.starts_with('/'));
    place.home.as_ref().filter(|_| plain).map(|home| home.join(rest.trim_start_matches('/')))
}

/// Returns the combined effects of the whole analysis.
pub(crate) fn whole_effects(found: &CommandAnalysis) -> Effects {
    let mut effects = Effects::none();
    for command in found.commands.iter().filter(|command| !command.layers.is_empty()) {
        let inner = command.effects.clone();
        if inner.as_ref().is_some_and(|inner| inner.claims.concurrency_safe == Some(false)) {
            effects = effects.exclusive();
        }
        effects.runs.push(CommandEffect { text: command.text.clone(), effects: inner.map(Box::new) });
    }
    for command in found.commands.iter().filter(|command| command.layers.is_empty()) {
        effects.unknown |= command.read_only.is_err();
    }
    for redirect in &found.redirects {
        let Some(paths) = &redirect.paths else {
            effects.unknown = true;
            continue;
        };
        if let Some(host) = redirect.host() {
            effects = effects.and(Effects::changes(host));
            continue;
        }
        for path in paths {
            if redirect.access == FileAccess::Read {
                effects.reads.push(PathSet::file(path));
            } else {
                effects.writes.push(PathSet::file(path));
            }
        }
    }
    effects.unknown |= !found.doubts.is_empty();
    effects
}
