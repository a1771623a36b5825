//! The bounds of a session's profile.

use std::time::Duration;

/// How many entries of the working directories are looked at, once per session, for repositories, sockets and
/// what rules deny.
pub(crate) const WALK_ENTRIES_MAX: usize = 100_000;
/// How deep that goes.
pub(crate) const WALK_DEPTH_MAX: usize = 48;
/// How many denied files are masked; more slow every start down, so commands ask instead.
pub(crate) const MASKS_MAX: usize = 200;
/// How many entries outside of the working directories are looked at, once per session, for what patterns of
/// rules deny.
pub(crate) const DENIED_ENTRIES_MAX: usize = 300_000;
/// In how many folders denied files and sockets may lie: each is kept in its place, which takes time at every
/// start.
pub(crate) const MASKED_FOLDERS_MAX: usize = 500;
/// How many repositories in the working directories are protected name by name.
pub(crate) const REPOSITORIES_MAX: usize = 64;
/// Of how many more all of `.git` is.
pub(crate) const REPOSITORIES_WHOLE_MAX: usize = 1_000;
/// How many entries of protected folders are compared after a call.
pub(crate) const WATCHED_ENTRIES_MAX: usize = 2_000;
/// How many folders of git of one repository are held name by name; with more, `modules` and `worktrees` are
/// held whole.
pub(crate) const GIT_FOLDERS_MAX: usize = 200;
/// How many of all repositories together are, beside one of each.
pub(crate) const GIT_FOLDERS_ALL_MAX: usize = 600;
/// How many of them are looked at when a command has ended that could make some.
pub(crate) const GIT_FOLDERS_SEEN_MAX: usize = 100_000;
/// How many names in a folder of git are looked at; one with more is held whole.
pub(crate) const GIT_ENTRIES_MAX: usize = 100_000;
/// How many of these are held one by one; a folder with more is held whole.
pub(crate) const GIT_NAMES_MAX: usize = 100;
/// How many submodules may have their configuration written by a command that may write that of their
/// repository.
pub(crate) const MODULE_CONFIGS_MAX: usize = 32;
/// How many names are held from a command together; with more, none is started.
pub(crate) const HELD_NAMES_MAX: usize = 5_000;
/// How many bytes of a file are hashed; of a longer one size and times count.
pub(crate) const HASHED_BYTES_MAX: u64 = 1024 * 1024;
/// The longest configuration file of git, cargo, npm or pip that is read.
pub(crate) const CONFIG_BYTES_MAX: u64 = 256 * 1024;
/// How much of an index of git is read to find submodules.
pub(crate) const INDEX_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// How many folders directly in a working directory are looked at for a repository after each call.
pub(crate) const FOLDERS_LOOKED_AT_MAX: usize = 1_000;
/// How many entries of folders that a command has changed are read after it to find repositories.
pub(crate) const NEW_ENTRIES_MAX: usize = 1_000_000;
/// How many folders of the working directories are remembered to find those that changed.
pub(crate) const FOLDERS_KNOWN_MAX: usize = 200_000;
/// How many entries are looked at after each command where there are too many folders to remember.
pub(crate) const ANEW_ENTRIES_MAX: usize = 5_000_000;
/// How many files that rules deny to write are remembered.
pub(crate) const DENIED_KNOWN_MAX: usize = 200_000;
/// How many changes are reported after one call. Few of them are shown, and the others counted.
pub(crate) const REPORTED_MAX: usize = 1_000;
/// What the temporary folder of a session may take.
pub(crate) const TEMP_BYTES_MAX: u64 = 16 * 1024 * 1024 * 1024;
/// What an entry in it takes at least.
pub(crate) const TEMP_ENTRY_BYTES: u64 = 4096;
/// How often it is measured while a command runs, and how many times longer than measuring takes the pause
/// is.
pub(crate) const TEMP_MEASURE_EVERY: Duration = Duration::from_millis(250);
pub(crate) const TEMP_MEASURE_SHARE: u32 = 50;
/// By how much the space that is free may shrink while commands run that end before it is measured.
pub(crate) const TEMP_GROWTH_BYTES: u64 = 64 * 1024 * 1024;
/// What all private copies of caches may take together; at the start of a session the oldest are removed.
pub(crate) const CACHES_BYTES_MAX: u64 = 10 * 1024 * 1024 * 1024;
/// For how many workspaces private copies of caches are kept.
pub(crate) const CACHES_WORKSPACES_MAX: usize = 32;
/// How many files are counted to find out how large they are; what has more counts as too large.
pub(crate) const CACHES_ENTRIES_MAX: usize = 400_000;

/// How many directories of `PATH` are looked at.
pub(crate) const PATH_DIRS_MAX: usize = 200;
/// How many entries of a directory that the environment names are looked at for programs and credentials.
pub(crate) const TOOL_ENTRIES_MAX: usize = 5_000;

/// The home folder of a child, in memory.
pub(crate) const HOME_BYTES: u64 = 512 * 1024 * 1024;
/// The temporary folder of a command that may change nothing else.
pub(crate) const PRIVATE_TEMP_BYTES: u64 = 256 * 1024 * 1024;
/// Small folders in memory: `/run`, and what lies over a folder that is hidden.
pub(crate) const SMALL_BYTES: u64 = 16 * 1024 * 1024;

/// How many descriptors a process of a child may have, unless the host allows fewer.
pub(crate) const DESCRIPTORS: u64 = 65_536;
/// The largest file that a child may write. Address space isn't bounded: sanitizers and runtimes with garbage
/// collection reserve terabytes that they never use.
pub(crate) const FILE_BYTES: u64 = 64 * 1024 * 1024 * 1024;
/// How much a protected name may hold to be compared; one with more is mounted read-only for every command.
pub(super) const PROTECTED_ENTRIES_MAX: usize = 2_000;
/// The largest file under a protected name that can be put back.
pub(super) const PROTECTED_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// How many files that were taken away a session keeps; more stay where they were, under a name that nothing
/// obeys.
pub(super) const QUARANTINED_MAX: usize = 2_000;
/// The largest of them.
pub(super) const QUARANTINED_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// The largest file under a protected name that is written down for the session after one that is killed.
pub(super) const RECORDED_BYTES_MAX: usize = 64 * 1024;
/// How many tips of a history are written down for the session after one that is killed.
pub(super) const RECORDED_TIPS_MAX: usize = 4_000;
/// How much of a file with references of git is read.
pub(super) const REFERENCE_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// How many references of a repository are read.
pub(super) const REFERENCES_MAX: usize = 50_000;
/// How many folders are watched for names while commands run; in the others they are found after each
/// command.
pub(super) const FOLDERS_WATCHED_MAX: usize = 8_000;
/// How many of them are added before events are looked at again.
pub(super) const FOLDERS_WATCHED_AT_ONCE: usize = 64;
/// How long a file that was created under a protected name may stay open before it is judged.
pub(super) const OPEN_FILE_WAIT: Duration = Duration::from_millis(100);
/// How many objects of git are read to find content in a history; content that isn't found by then is
/// unknown.
pub(super) const OBJECTS_READ_MAX: usize = 400_000;
/// The largest object of git that is read.
pub(super) const OBJECT_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// How many approvals of contents are kept.
pub(super) const APPROVALS_MAX: usize = 1_000;
/// How many folders that killed sessions have left are removed when one starts.
pub(super) const STAND_INS_SWEPT_MAX: usize = 1_000;
/// How long is kept what a command left where nothing was granted, or had made when its session was killed.
pub(super) const RECOVERED_AGE_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// How many calls it is kept of; the oldest go when a session starts.
pub(super) const RECOVERED_MAX: usize = 64;
/// What it may take on the disk together; the newest is kept whatever it takes.
pub(super) const RECOVERED_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// How many names are looked at in what a command prints when it was kept from something.
pub(crate) const NAMES_LOOKED_AT_MAX: usize = 200;
/// How many of them are told together.
pub(crate) const NAMES_TOLD_MAX: usize = 8;
/// How many repositories are written down as known, for the session after one that is killed.
pub(super) const KNOWN_REPOSITORIES_MAX: usize = 10_000;
/// How many folders are remembered with what a killed session has left, to find those that were renamed
/// since.
pub(super) const WHEREABOUTS_MAX: usize = 1_000;
/// How many names are looked at in the folder in which one was renamed.
pub(super) const RENAMED_LOOKED_AT_MAX: usize = 100_000;
