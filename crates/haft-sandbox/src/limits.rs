//! The bounds of child processes.

use std::time::Duration;

/// How many children there may be at once.
pub const CHILDREN_MAX: usize = 600;
/// The stack of the thread that watches a child, in bytes; listeners of output run on it.
pub const THREAD_STACK_BYTES: usize = 512 * 1024;
/// How long a child runs before it is checked for the first time what it has done.
pub const CHECK_AFTER: Duration = Duration::from_millis(250);
/// How long a child that was told to end (TERM) may take before it is killed.
pub const GRACE: Duration = Duration::from_secs(2);
/// The same where nobody waits for its answer.
pub const GRACE_ABANDONED: Duration = Duration::from_millis(500);
/// How long a killed child may take to be gone before it is given up; only one that hangs inside the kernel
/// does.
pub const KILL_WAIT: Duration = Duration::from_secs(2);
/// How long output is still read after the child itself has ended, while something that it left behind keeps
/// a pipe open.
pub const DRAIN: Duration = Duration::from_millis(200);
/// How many bytes are read from a pipe at once.
pub const READ_BYTES: usize = 256 * 1024;
/// How much a child prints before it counts as a flood, in bytes.
pub const FLOOD_BYTES: u64 = 1024 * 1024;
/// How many bytes of a flood a pipe holds until we read them, where the system gives so much.
pub const PIPE_BYTES: usize = 1024 * 1024;
/// How long a flood is left to gather in its pipe once there is no more of it.
pub const GATHER: Duration = Duration::from_micros(250);
/// How long a question to the user about a running child is open; then it counts as not answered.
pub const QUESTION_TIMEOUT: Duration = Duration::from_secs(600);
/// How often the time limit of a child is looked at while a question to the user about its hosts is open.
pub const QUESTION_POLL: Duration = Duration::from_millis(500);
/// How many changes of protected names that were undone wait to be looked at; further ones are reported and
/// not asked about.
pub const UNDONE_NOTICES_MAX: usize = 1_000;
/// How often the user is asked about such changes while one child runs.
pub const UNDONE_QUESTIONS_MAX: usize = 3;
/// How long such changes are gathered for one question once the child is paused.
pub const UNDONE_GATHER: Duration = Duration::from_millis(30);
/// The longest line on descriptor 3, in bytes; a longer one is left out.
pub const LINE_BYTES_MAX: usize = 8 * 1024;
/// How many lines on descriptor 3 are passed on; further ones are read and dropped.
pub const LINES_MAX: usize = 10_000;
/// How often a program that is just being written (`ETXTBSY`) is tried again, after 10, 20, 30 … ms.
pub const BUSY_TRIES_MAX: u32 = 6;
/// How many descriptors are closed one by one where the kernel can't close them all at once.
pub const DESCRIPTORS_MAX: i32 = 65_536;
/// The longest order to the sandbox's helper that is one message, in bytes; a longer one goes through a file
/// in memory.
pub const MESSAGE_BYTES_MAX: usize = 64 * 1024;
/// How many descriptors go with an order: those of the child, and those of folders that were held open for
/// it.
pub const DESCRIPTORS_SENT_MAX: usize = 200;
/// The longest explanation why a confined process could not be started, in bytes.
pub const WORDS_BYTES_MAX: usize = 4 * 1024;
/// How long the sandbox's helper may take to be ready.
pub const HELPER_WAIT: Duration = Duration::from_secs(10);
/// How long the helper waits until a thread that has ended is no longer listed as one of its threads.
pub const THREAD_EXIT_WAIT: Duration = Duration::from_millis(200);
/// How long the making of one sandbox may take; only a file system that hangs takes longer.
pub const SCENE_WAIT: Duration = Duration::from_secs(20);
/// How much memory the root of a sandbox and its `/dev` may take, in bytes: empty folders, links and small
/// files.
pub const ROOT_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// The longest file of a folder of the host that is copied where only a part of the folder is shown; a longer
/// one is bound.
pub const COPIED_BYTES_MAX: u64 = 128 * 1024;
/// How much memory `/dev/shm` of a sandbox may take, in bytes.
pub const SHM_BYTES_MAX: u64 = 512 * 1024 * 1024;
/// How deep links are followed to where a small file of a sandbox is to lie.
pub const LINKS_MAX: usize = 8;
/// How many entries of folders are named one by one where something beneath them is to be hidden and there
/// are no mounts.
pub const NAMED_MAX: usize = 4_000;
/// How often what is left is looked for and killed where there is no process namespace that ends it.
pub const KILL_ROUNDS_MAX: usize = 10_000;
/// How often what a descriptor stands for is looked up again because somebody renames it all the time.
pub const REOPEN_TRIES_MAX: usize = 2_000;
/// How many overlays the helper mounts for a session; what comes beyond can only be read.
pub const OVERLAYS_MAX: usize = 64;
/// How long the helper is idle before it makes a spare sandbox like the last one.
pub const SPARE_AFTER: Duration = Duration::from_millis(3);
/// How long a call waits for a prepared sandbox that isn't quite made; then one is made for it.
pub const SPARE_WAIT: Duration = Duration::from_millis(500);
/// How many processes and threads a child may have: also root's, on Linux 6.14 and later.
pub const PROCESSES_MAX: u64 = 4_096;
/// How many commands may have all the processes that one may have before the others can't start any.
pub const BOMBS_MAX: u64 = 4;
/// How many control groups are looked at to remove those that killed sessions have left.
pub const GROUPS_SWEPT_MAX: usize = 1_000;
/// How many spare sandboxes there are at once, for commands that look and for those that change something.
pub const SPARES_MAX: usize = 4;
/// How many of them are alike, for calls that come at once.
pub const SPARES_EACH_MAX: usize = 2;
/// How many places are remembered that a command tried to change although it may only look.
pub const ATTEMPTS_MAX: usize = 8;
/// How much sooner than others what runs in a sandbox is killed when the machine has no memory left, of
/// 1,000.
pub const OOM_SCORE: u32 = 500;
/// How many of the last scenes are compared with the next one.
pub const SCENES_SEEN_MAX: usize = 4;
/// How many folders are closed to a command with one message.
pub const FOLDERS_CLOSED_AT_ONCE: usize = 12;
/// How many views of commands that have ended are kept while others run that may hold a piece of them.
pub const VIEWS_KEPT_MAX: usize = 512;
/// How many folders of a session are watched for names that are given to other files while they are covered.
pub const FOLDERS_WATCHED_MAX: usize = 4_096;
/// How many names are covered again with one message.
pub const COVERED_AT_ONCE: usize = 12;
/// How long to wait until a command can be told again that has no room for what it is told.
pub const COVER_AGAIN: Duration = Duration::from_millis(5);
