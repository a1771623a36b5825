//! Levels of write access to a repository.

use std::path::PathBuf;

/// How much of a repository a command may write. Each level includes the lower ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RepositoryLevel {
    /// Nothing: `git status`, `git log`, and every command that isn't known to write a repository.
    #[default]
    None,
    /// Objects, references, the index and other data that git writes in ordinary work: `git commit`.
    Data,
    /// The configuration as well, of which only harmless changes are kept: `git remote add`.
    Configuration,
}

impl RepositoryLevel {
    const ALL: [RepositoryLevel; 3] =
        [RepositoryLevel::None, RepositoryLevel::Data, RepositoryLevel::Configuration];

    /// Returns the number that represents the level in requests, for components that know nothing of git.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// Returns the level with this number. An unknown number is the lowest level.
    pub fn from_number(number: u8) -> RepositoryLevel {
        RepositoryLevel::ALL.into_iter().find(|level| level.number() == number).unwrap_or_default()
    }
}

/// The writes of a command line to repositories: the highest level of its commands, and the folders that
/// they run in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RepositoryUse {
    /// The highest level of all commands.
    pub level: RepositoryLevel,
    /// The folders of the commands that write a repository. Empty if one of them is unknown.
    pub folders: Vec<PathBuf>,
}

impl RepositoryUse {
    /// The maximum number of folders. If there are more, none is listed.
    pub const FOLDERS_MAX: usize = 16;

    /// Creates the use of a command with this level in these folders; `None` if the folder is unknown.
    pub fn new(level: RepositoryLevel, folders: Option<Vec<PathBuf>>) -> RepositoryUse {
        RepositoryUse { level, folders: folders.unwrap_or_default() }
    }

    /// Combines the uses of two commands.
    #[must_use]
    pub fn and(self, other: RepositoryUse) -> RepositoryUse {
        if self.level == RepositoryLevel::None {
            return other;
        }
        if other.level == RepositoryLevel::None {
            return self;
        }
        let level = self.level.max(other.level);
        if self.folders.is_empty() || other.folders.is_empty() {
            return RepositoryUse { level, folders: Vec::new() };
        }
        let mut folders = self.folders;
        for folder in other.folders {
            if !folders.contains(&folder) {
                folders.push(folder);
            }
        }
        if folders.len() > RepositoryUse::FOLDERS_MAX {
            folders.clear();
        }
        RepositoryUse { level, folders }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_survives_as_a_number() {
        for level in RepositoryLevel::ALL {
            assert_eq!(RepositoryLevel::from_number(level.number()), level);
        }
        assert_eq!(RepositoryLevel::from_number(200), RepositoryLevel::None);
    }

    /// The engine's request carries the number and paths, and doesn't say what they mean.
    #[test]
    fn the_engine_knows_nothing_of_repositories() {
        let request = include_str!("../../haft/src/ports/processes.rs").to_lowercase();
        assert!(request.contains("pub struct protectionlevel"));
        for word in ["git", "repositor"] {
            assert!(!request.contains(word), "{word}");
        }
    }

    #[test]
    fn the_highest_level_counts_with_all_folders_that_are_written() {
        let used = |level, folders: &[&str]| {
            RepositoryUse::new(level, Some(folders.iter().map(PathBuf::from).collect()))
        };
        let (data, configuration) = (RepositoryLevel::Data, RepositoryLevel::Configuration);
        let both = used(data, &["/a"]).and(used(configuration, &["/b", "/a"]));
        assert_eq!(both, used(configuration, &["/a", "/b"]));
        assert_eq!(used(RepositoryLevel::None, &["/x"]).and(used(data, &["/a"])), used(data, &["/a"]));
        let unknown = RepositoryUse::new(data, None);
        assert_eq!(used(configuration, &["/b"]).and(unknown), used(configuration, &[]));
        let many = (0..=RepositoryUse::FOLDERS_MAX).map(|number| used(data, &[&format!("/{number}")]));
        assert_eq!(many.reduce(RepositoryUse::and).unwrap().folders, [] as [PathBuf; 0]);
    }
}
