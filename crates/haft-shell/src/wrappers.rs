//! The table of programs that start the command in their arguments, with the options that come before it.
//!
//! Sorted by name. [`super::wrap`] reads it; wrappers with a grammar of their own (`su`, `script`, `find` …) are there,
//! programs that start others by one of their sub-commands (`docker exec`) in [`super::runners`]. An option that isn't
//! listed is no mistake: the command is looked for on both sides of its possible value, and there is a doubt.

use super::Started;
use super::options::Options;

pub(super) struct Wrapper {
    pub(super) name: &'static str,
    pub(super) started: Started,
    pub(super) options: Options,
    /// How many arguments come before the command.
    pub(super) operands: usize,
    /// What else there is to know of it.
    pub(super) traits: Traits,
}

/// What is special about a wrapper.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Traits {
    /// Every `--name` and `--name=value` is an option without a value of its own.
    pub(super) any_long: bool,
    /// `NAME=value` may come before the command.
    pub(super) variables: bool,
    /// The command runs in another folder, or another root.
    pub(super) elsewhere: bool,
    /// The words are joined and read by a shell.
    pub(super) joined: bool,
}

const NONE: Traits = Traits { any_long: false, variables: false, elsewhere: false, joined: false };
const ANY_LONG: Traits = Traits { any_long: true, ..NONE };
const ELSEWHERE: Traits = Traits { elsewhere: true, ..NONE };
const VARIABLES: Traits = Traits { variables: true, ..NONE };
const JOINED: Traits = Traits { joined: true, ..NONE };

const fn wrapper(
    name: &'static str,
    started: Started,
    flags: &'static str,
    valued: &'static str,
    long: &'static [&'static str],
    long_valued: &'static [&'static str],
    operands: usize,
) -> Wrapper {
    Wrapper { name, started, options: Options { flags, valued, long, long_valued }, operands, traits: NONE }
}

/// A wrapper with single letters only, or none.
const fn short(name: &'static str, flags: &'static str, valued: &'static str, operands: usize) -> Wrapper {
    wrapper(name, Executed, flags, valued, &[], &[], operands)
}

use Started::{Executed, Wrapped};

/// The entry of a wrapper.
pub(super) fn find(name: &str) -> Option<&'static Wrapper> {
    // The loader starts whatever it is given: `ld-linux-x86-64.so.2 ./x`.
    let loader = name.starts_with("ld-linux") || name.starts_with("ld-musl") || name.starts_with("ld.so");
    let name = if loader { "ld.so" } else { name };
    WRAPPERS.binary_search_by(|wrapper| wrapper.name.cmp(name)).ok().map(|at| &WRAPPERS[at])
}

const WRAPPERS: &[Wrapper] = &[
    wrapper(
        "aa-exec",
        Executed,
        "divh",
        "pn",
        &["immediate", "debug", "verbose"],
        &["profile", "namespace"],
        0,
    ),
    wrapper("autossh", Executed, "46AaCfgKkMNnqsTtVvXxYy", "BbcDEeFIiJLlMmOopRSWw", &[], &[], 1).with(JOINED),
    short("builtin", "", "", 0).wrapped(),
    short("busybox", "", "", 0),
    wrapper(
        "bwrap",
        Executed,
        "",
        "",
        &[
            "unshare-all",
            "share-net",
            "unshare-user",
            "unshare-user-try",
            "unshare-ipc",
            "unshare-pid",
            "unshare-net",
            "unshare-uts",
            "unshare-cgroup",
            "unshare-cgroup-try",
            "die-with-parent",
            "new-session",
            "clearenv",
            "as-pid-1",
            "disable-userns",
        ],
        &[
            "args",
            "argv0",
            "uid",
            "gid",
            "hostname",
            "chdir",
            "unsetenv",
            "lock-file",
            "sync-fd",
            "proc",
            "dev",
            "tmpfs",
            "mqueue",
            "dir",
            "remount-ro",
            "seccomp",
            "add-seccomp-fd",
            "block-fd",
            "userns-block-fd",
            "info-fd",
            "json-status-fd",
            "cap-add",
            "cap-drop",
            "perms",
            "size",
            "userns",
            "userns2",
            "pidns",
            "exec-label",
            "file-label",
        ],
        0,
    )
    .with(ELSEWHERE),
    short("caffeinate", "dimsu", "tw", 0),
    short("catchsegv", "", "", 0),
    wrapper("cgexec", Executed, "", "g", &["sticky"], &[], 0),
    short("chpst", "vP012", "uUbend/lLmopfcrt", 0),
    short("chronic", "ev", "", 0),
    wrapper("chroot", Executed, "", "", &["skip-chdir"], &["userspec", "groups"], 1).with(ELSEWHERE),
    wrapper(
        "chrt",
        Executed,
        "abdefimorRv",
        "TPDp",
        &["all-tasks", "batch", "deadline", "fifo", "idle", "other", "rr", "reset-on-fork", "verbose"],
        &["sched-runtime", "sched-period", "sched-deadline", "pid"],
        1,
    ),
    wrapper("command", Wrapped, "p", "", &[], &[], 0),
    wrapper(
        "cpulimit",
        Executed,
        "zivfm",
        "lpec",
        &["lazy", "include-children", "verbose"],
        &["limit", "pid", "exe", "path", "cpu"],
        0,
    ),
    wrapper(
        "dbus-launch",
        Executed,
        "",
        "",
        &["exit-with-session", "exit-with-x11", "sh-syntax", "csh-syntax", "close-stderr"],
        &["autolaunch", "config-file"],
        0,
    ),
    wrapper("dbus-run-session", Executed, "", "", &[], &["config-file", "dbus-daemon"], 0),
    wrapper("doas", Executed, "nsL", "auC", &[], &[], 0).with(VARIABLES),
    wrapper("dumb-init", Executed, "csvh", "r", &["single-child", "verbose"], &["rewrite"], 0),
    short("eatmydata", "", "", 0),
    short("entr", "acdnprszx", "", 0),
    wrapper("env", Executed, "i0v", "uC", &["ignore-environment", "null", "debug"], &["unset", "chdir"], 0)
        .with(VARIABLES),
    short("envdir", "", "", 1),
    short("envuidgid", "", "", 1),
    wrapper("exec", Executed, "cl", "a", &[], &[], 0),
    wrapper(
        "fakechroot",
        Executed,
        "s",
        "delbc",
        &["use-system-libs"],
        &["lib", "elfloader", "environment", "bindir", "config-dir"],
        0,
    ),
    wrapper("fakeroot", Executed, "uhv", "lsibf", &["unknown-is-real"], &["lib", "faked"], 0),
    wrapper("faketime", Executed, "fm", "p", &["exclude-monotonic"], &[], 1),
    wrapper("firejail", Executed, "c", "", &[], &[], 0).with(Traits {
        any_long: true,
        elsewhere: true,
        ..NONE
    }),
    wrapper(
        "flock",
        Executed,
        "sexnuoFv",
        "wE",
        &["shared", "exclusive", "unlock", "nonblock", "nb", "close", "no-fork", "verbose"],
        &["wait", "timeout", "conflict-exit-code"],
        1,
    ),
    short("gosu", "", "", 1),
    short("i386", "BFILRSTXZv3", "", 0),
    short("ifne", "n", "", 0),
    wrapper("ionice", Executed, "t", "cnpPu", &["ignore"], &["class", "classdata", "pid", "pgid", "uid"], 0),
    wrapper(
        "ld.so",
        Executed,
        "",
        "",
        &["list", "verify", "inhibit-cache"],
        &[
            "library-path",
            "inhibit-rpath",
            "audit",
            "preload",
            "argv0",
            "glibc-hwcaps-prepend",
            "glibc-hwcaps-mask",
        ],
        0,
    ),
    short("linux32", "BFILRSTXZv3", "", 0),
    short("linux64", "BFILRSTXZv3", "", 0),
    wrapper("ltrace", Executed, "bcCfhiLrStTV", "aADeFlnopsuwx", &["demangle"], &["output"], 0),
    wrapper("nice", Wrapped, "", "n", &[], &["adjustment"], 0),
    wrapper("noglob", Wrapped, "", "", &[], &[], 0),
    wrapper("nohup", Wrapped, "", "", &[], &[], 0),
    wrapper(
        "nsenter",
        Executed,
        "amuinpCUTrwFZce",
        "tSGNW",
        &[
            "all",
            "mount",
            "uts",
            "ipc",
            "net",
            "pid",
            "cgroup",
            "user",
            "time",
            "root",
            "wd",
            "no-fork",
            "preserve-credentials",
            "follow-context",
            "env",
            "join-cgroup",
        ],
        &["target", "setuid", "setgid", "net-socket", "wdns"],
        0,
    )
    .with(ELSEWHERE),
    wrapper(
        "numactl",
        Executed,
        "sHal",
        "NmPipC",
        &["show", "hardware", "localalloc", "all", "balancing"],
        &["interleave", "membind", "cpunodebind", "physcpubind", "preferred", "weighted-interleave"],
        0,
    ),
    short("pgrphack", "", "", 0),
    wrapper("pkexec", Executed, "", "", &["disable-internal-agent", "keep-cwd"], &["user"], 0)
        .with(ELSEWHERE),
    wrapper(
        "prlimit",
        Executed,
        "cdefilmnqrstuvxy",
        "po",
        &["verbose", "noheadings", "raw"],
        &["pid", "output"],
        0,
    )
    .with(ANY_LONG),
    wrapper(
        "proot",
        Executed,
        "0lSh",
        "rbqvwkpe",
        &["root-id", "link2symlink"],
        &["rootfs", "bind", "qemu", "mixed-mode", "verbose", "pwd", "cwd", "kernel-release"],
        0,
    )
    .with(ELSEWHERE),
    short("proxychains", "q", "f", 0),
    short("proxychains4", "q", "f", 0),
    short("qemu-aarch64", "", "gLsEUcB", 0),
    short("qemu-x86_64", "", "gLsEUcB", 0),
    short("rlwrap", "aAceEiImnNoprRuvUwWX", "bCDfFgHlMOPqsStz", 0),
    short("s6-setuidgid", "", "", 1),
    short("setlock", "nNxX", "", 1),
    wrapper(
        "setpriv",
        Executed,
        "d",
        "",
        &["clear-groups", "keep-groups", "init-groups", "no-new-privs", "nnp", "reset-env", "dump"],
        &[
            "reuid",
            "regid",
            "ruid",
            "euid",
            "rgid",
            "egid",
            "groups",
            "inh-caps",
            "ambient-caps",
            "bounding-set",
            "securebits",
            "pdeathsig",
            "ptracer",
            "selinux-label",
            "apparmor-profile",
            "landlock-access",
            "landlock-rule",
            "seccomp-filter",
        ],
        0,
    ),
    wrapper("setsid", Executed, "cfw", "", &["ctty", "fork", "wait"], &[], 0),
    short("setuidgid", "", "", 1),
    short("softlimit", "", "acdfloprst/m", 0),
    wrapper("ssh", Executed, "46AaCfGgKkMNnqsTtVvXxYy", "BbcDEeFIiJLlmOopRSWw", &[], &[], 1).with(JOINED),
    short("sshpass", "evhV", "fdpP", 0),
    wrapper("stdbuf", Wrapped, "", "ioe", &[], &["input", "output", "error"], 0),
    wrapper(
        "strace",
        Executed,
        "CcdfFhiknNqrtTvVwxyYzZA",
        "aebEIoOpPsSuUX",
        &[
            "follow-forks",
            "summary-only",
            "summary",
            "debug",
            "no-abbrev",
            "instruction-pointer",
            "seccomp-bpf",
            "decode-fds",
            "decode-pids",
            "quiet",
            "stack-traces",
            "successful-only",
            "failed-only",
            "output-append-mode",
            "output-separately",
            "relative-timestamps",
            "absolute-timestamps",
            "syscall-times",
        ],
        &[
            "output",
            "trace",
            "signal",
            "status",
            "string-limit",
            "user",
            "env",
            "columns",
            "summary-sort-by",
            "interruptible",
            "trace-path",
            "attach",
            "abbrev",
            "verbose",
            "raw",
            "read",
            "write",
            "inject",
            "fault",
            "expr",
            "detach-on",
            "summary-columns",
            "const-print-style",
            "strings-in-hex",
        ],
        0,
    ),
    short("su-exec", "", "", 1),
    wrapper(
        "sudo",
        Executed,
        "AbBEHiklnNPsSvKV",
        "ughpCDrRtTU",
        &[
            "askpass",
            "background",
            "bell",
            "preserve-env",
            "set-home",
            "login",
            "non-interactive",
            "stdin",
            "shell",
            "list",
            "validate",
            "reset-timestamp",
            "preserve-groups",
        ],
        &[
            "user",
            "group",
            "host",
            "prompt",
            "close-from",
            "chdir",
            "chroot",
            "role",
            "type",
            "command-timeout",
            "other-user",
        ],
        0,
    )
    .with(VARIABLES),
    wrapper(
        "systemd-inhibit",
        Executed,
        "",
        "",
        &["list", "no-pager", "no-legend"],
        &["what", "who", "why", "mode"],
        0,
    ),
    wrapper(
        "systemd-run",
        Executed,
        "dGPqrtS",
        "EHMpu",
        &[
            "user",
            "system",
            "scope",
            "pty",
            "pipe",
            "quiet",
            "collect",
            "wait",
            "shell",
            "same-dir",
            "no-block",
            "remain-after-exit",
            "send-sighup",
            "no-ask-password",
            "slice-inherit",
        ],
        &[
            "unit",
            "property",
            "description",
            "slice",
            "service-type",
            "uid",
            "gid",
            "nice",
            "working-directory",
            "setenv",
            "machine",
            "host",
            "on-active",
            "on-boot",
            "on-startup",
            "on-unit-active",
            "on-unit-inactive",
            "on-calendar",
            "timer-property",
            "path-property",
            "socket-property",
        ],
        0,
    )
    .with(ELSEWHERE),
    wrapper("taskset", Executed, "acp", "", &["all-tasks", "cpu-list", "pid"], &[], 1),
    wrapper("time", Wrapped, "pvlq", "f", &["portability", "verbose", "quiet"], &["format"], 0),
    short("timelimit", "pq", "sStT", 0),
    wrapper(
        "timeout",
        Wrapped,
        "vfp",
        "ks",
        &["foreground", "preserve-status", "verbose"],
        &["kill-after", "signal"],
        1,
    ),
    short("tini", "shvgw", "pe", 0),
    short("torify", "dqv", "", 0),
    wrapper(
        "torsocks",
        Executed,
        "diq",
        "uPap",
        &["debug", "isolate", "quiet"],
        &["user", "pass", "address", "port"],
        0,
    ),
    short("toybox", "", "", 0),
    short("tsocks", "", "", 0),
    short("unbuffer", "p", "", 0),
    wrapper(
        "unshare",
        Executed,
        "muinpCUTrcf",
        "SGRw",
        &[
            "fork",
            "map-root-user",
            "map-current-user",
            "map-auto",
            "keep-caps",
            "mount-proc",
            "kill-child",
            "net",
            "pid",
            "mount",
            "uts",
            "ipc",
            "user",
            "cgroup",
            "time",
            "forward-signals",
            "mount-binfmt",
        ],
        &[
            "root",
            "wd",
            "setuid",
            "setgid",
            "setgroups",
            "propagation",
            "map-user",
            "map-group",
            "map-users",
            "map-groups",
            "monotonic",
            "boottime",
            "load-interp",
            "owner",
        ],
        0,
    ),
    wrapper("valgrind", Executed, "qvdh", "", &[], &[], 0).with(ANY_LONG),
    wrapper(
        "watch",
        Executed,
        "bcdegprtwxC",
        "nq",
        &[
            "beep",
            "color",
            "no-color",
            "differences",
            "errexit",
            "chgexit",
            "precise",
            "no-title",
            "no-wrap",
            "no-rerun",
            "exec",
        ],
        &["interval", "equexit"],
        0,
    )
    .with(JOINED),
    short("wine", "", "", 0),
    short("x86_64", "BFILRSTXZv3", "", 0),
    wrapper(
        "xargs",
        Wrapped,
        "0rtpxo",
        "EILnPsda",
        &["null", "no-run-if-empty", "verbose", "interactive", "exit", "open-tty"],
        &["delimiter", "max-args", "max-procs", "max-chars", "max-lines", "arg-file"],
        0,
    ),
    wrapper(
        "xvfb-run",
        Executed,
        "alh",
        "efnpsw",
        &["auto-servernum", "listen-tcp"],
        &["error-file", "auth-file", "server-num", "xauth-protocol", "server-args", "wait"],
        0,
    ),
];

impl Wrapper {
    const fn with(mut self, traits: Traits) -> Wrapper {
        self.traits = traits;
        self
    }

    /// The same, as one that changes nothing but time, priority or buffers.
    const fn wrapped(mut self) -> Wrapper {
        self.started = Wrapped;
        self
    }
}

/// Options of `bwrap` with two values.
pub(super) const BWRAP_PAIRS: &[&str] = &[
    "--bind",
    "--bind-try",
    "--dev-bind",
    "--dev-bind-try",
    "--ro-bind",
    "--ro-bind-try",
    "--bind-fd",
    "--ro-bind-fd",
    "--setenv",
    "--file",
    "--bind-data",
    "--ro-bind-data",
    "--symlink",
    "--chmod",
    "--overlay-src",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted() {
        assert!(WRAPPERS.is_sorted_by(|a, b| a.name < b.name));
        assert!(WRAPPERS.iter().all(|wrapper| find(wrapper.name).is_some()));
        assert!(find("ld-linux-x86-64.so.2").is_some() && find("ld").is_none());
    }
}
