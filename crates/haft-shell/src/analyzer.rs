//! A cache of command analyses, shared by all callers.
//!
//! The shell tool needs a command's effects, rules need the programs it starts, and a prompt needs both
//! again. All of them get the same analysis for the same working directory.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use haft::sync::lock;

use super::{CommandAnalysis, ShellDirectories, analyse_command};

/// The maximum number of cached analyses.
pub const CACHED_ANALYSES_MAX: usize = 64;

/// Analyzes the commands of a session, each text once. Clones share the cache.
#[derive(Debug, Clone, Default)]
pub struct ShellAnalyzer(Arc<AnalyzerInner>);

#[derive(Debug, Default)]
struct AnalyzerInner {
    place: ShellDirectories,
    cached: Mutex<VecDeque<CachedAnalysis>>,
    count: AtomicU64,
}

#[derive(Debug)]
struct CachedAnalysis {
    text: String,
    /// The working directory, if it differs from the session's.
    moved_to: Option<PathBuf>,
    analysis: Arc<CommandAnalysis>,
}

impl ShellAnalyzer {
    /// Creates an analyzer for commands that run in this place.
    pub fn new(place: ShellDirectories) -> ShellAnalyzer {
        ShellAnalyzer(Arc::new(AnalyzerInner { place, ..AnalyzerInner::default() }))
    }

    /// Returns the place where commands run.
    pub fn place(&self) -> &ShellDirectories {
        &self.0.place
    }

    /// Analyzes a command in the session's working directory.
    pub fn analyse(&self, command: &str) -> Arc<CommandAnalysis> {
        self.cached(command, None)
    }

    /// Analyzes a command in another working directory.
    pub fn analyse_in(&self, command: &str, cwd: &Path) -> Arc<CommandAnalysis> {
        self.cached(command, (cwd != self.0.place.cwd).then_some(cwd))
    }

    /// Returns the number of analyses that were not served from the cache.
    pub fn count(&self) -> u64 {
        self.0.count.load(Ordering::Relaxed)
    }

    fn cached(&self, command: &str, moved_to: Option<&Path>) -> Arc<CommandAnalysis> {
        let inner = &*self.0;
        let is_it = |one: &&CachedAnalysis| one.text == command && one.moved_to.as_deref() == moved_to;
        if let Some(found) = lock(&inner.cached).iter().find(is_it) {
            return found.analysis.clone();
        }
        // The lock is not held during the analysis: two callers may both analyze, but no caller waits for a
        // long command.
        inner.count.fetch_add(1, Ordering::Relaxed);
        let analysis = Arc::new(match moved_to {
            None => analyse_command(command, &inner.place),
            Some(cwd) => {
                analyse_command(command, &ShellDirectories { cwd: cwd.to_owned(), ..inner.place.clone() })
            }
        });
        let mut cached = lock(&inner.cached);
        if cached.len() >= CACHED_ANALYSES_MAX {
            cached.pop_front();
        }
        let (text, moved_to) = (command.to_owned(), moved_to.map(Path::to_owned));
        cached.push_back(CachedAnalysis { text, moved_to, analysis: analysis.clone() });
        analysis
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn analyses_a_command_once_for_each_directory() {
        let analyzer = ShellAnalyzer::new(ShellDirectories::new("/repo"));
        let first = analyzer.analyse("rm -rf src");
        assert!(Arc::ptr_eq(&first, &analyzer.clone().analyse_in("rm -rf src", Path::new("/repo"))));
        assert_eq!((analyzer.count(), first.commands[0].critical.is_some()), (1, false));
        let moved = analyzer.analyse_in("rm -rf .", Path::new("/repo/src"));
        assert!(moved.commands[0].critical.is_some());
        assert_eq!(analyzer.count(), 2);
    }

    #[test]
    fn keeps_a_bounded_number() {
        let analyzer = ShellAnalyzer::default();
        for n in 0..3 * CACHED_ANALYSES_MAX {
            analyzer.analyse(&format!("echo {n}"));
        }
        assert_eq!(analyzer.0.cached.lock().unwrap().len(), CACHED_ANALYSES_MAX);
    }
}
