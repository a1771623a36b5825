//! The system calls that a confined child may not make, as a filter that the kernel runs before each call.
//!
//! A list of what is refused, and not of what is allowed: compilers, interpreters and browsers use nearly
//! everything, and the walls are the namespaces and Landlock. This closes what either leaves open (keys,
//! terminals' input, set-user-id files), and what opens the kernel's seldom-walked corners. `ptrace` stays:
//! debuggers and leak checkers need it, and a child sees no process but its own.
//!
//! Assembled here in a few lines: numbers of the x32 kind and two different answers are more than libraries
//! for this offer.

use libc::{
    BPF_ABS, BPF_JA, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_RET, BPF_W, SECCOMP_RET_ALLOW,
    SECCOMP_RET_ERRNO, SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_USER_NOTIF, sock_filter,
};

/// What sockets a child may make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AllowedSockets {
    /// Local and internet ones; where they lead is the network namespace's matter.
    All,
    /// The same without local ones, by which a descriptor could be handed to another child.
    NotLocal,
    /// None that could reach anybody: there is no namespace around it.
    Pairs,
    /// Internet ones but no local ones, since the sockets of other programs could be reached.
    Internet,
}

/// Refused with "not permitted".
const FORBIDDEN: &[libc::c_long] = &[
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    OPEN_TREE_ATTR,
    libc::SYS_chroot,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_userfaultfd,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_quotactl,
    libc::SYS_acct,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
];

/// Refused with "there is no such call", so that programs take another way: what `clone3` asks for can't be
/// seen from a filter, and `io_uring` makes calls that no filter sees.
const ABSENT: &[libc::c_long] =
    &[libc::SYS_clone3, libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register];

/// What changes something by its name, beside those whose arguments have to be looked at.
const CHANGES: &[libc::c_long] = &[
    libc::SYS_openat2,
    libc::SYS_mkdirat,
    libc::SYS_symlinkat,
    libc::SYS_linkat,
    libc::SYS_unlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_truncate,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_symlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_link,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rmdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
];

/// What changes of a file that isn't its content, and that no version of Landlock knows.
const ATTRIBUTES: &[libc::c_long] = &[
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    SETXATTRAT,
    REMOVEXATTRAT,
    FILE_SETATTR,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
];

/// Memory, queues and locks that programs of one user share by number or name.
const SHARED: &[libc::c_long] = &[
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_msgget,
    libc::SYS_semget,
    libc::SYS_mq_open,
];

/// Bounds and priorities, and which argument says of which process; none is one's own. A program of the same
/// user could be ended by a bound on its time, and the first process of a child's namespace could not close
/// folders any more with a bound on its descriptors.
const OF_OTHERS: &[(libc::c_long, u32)] = &[
    (libc::SYS_prlimit64, 0),
    (libc::SYS_setpriority, 1),
    (libc::SYS_ioprio_set, 1),
    (libc::SYS_sched_setaffinity, 0),
    (libc::SYS_sched_setattr, 0),
    (libc::SYS_sched_setparam, 0),
    (libc::SYS_sched_setscheduler, 0),
];

/// How calls name who calls, and the first process of a namespace.
const ITSELF: u32 = 0;
const FIRST: u32 = 1;

const OPEN_TREE_ATTR: libc::c_long = 467;
pub(crate) const FCHMODAT2: libc::c_long = 452;
const SETXATTRAT: libc::c_long = 463;
const REMOVEXATTRAT: libc::c_long = 466;
const FILE_SETATTR: libc::c_long = 469;

/// `CLONE_NEW…`, all of them that `clone` takes.
const NEW_NAMESPACES: u32 = 0x7E02_0000;
/// Set-user-id and set-group-id.
const SET_ID: u32 = 0o6000;
/// `O_CREAT`, and the part of `O_TMPFILE` that isn't `O_DIRECTORY`.
const CREATES: u32 = (libc::O_CREAT | libc::O_TMPFILE & !libc::O_DIRECTORY) as u32;

/// Opened so, a file can be changed, or comes to be.
pub(crate) const WRITES: u32 =
    (libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC) as u32 | CREATES;

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xC000_00B7;
/// From here on numbers are of the x32 kind, on which a filter of other numbers has no hold.
#[cfg(target_arch = "x86_64")]
const X32: u32 = 0x4000_0000;

/// Where `seccomp_data` has the number of the call and the architecture.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;

/// Where it has the lower half of an argument; the machines that we know are little-endian, and what is
/// looked at here is 32 bits for the kernel too.
const fn argument_offset(index: u32) -> u32 {
    16 + 8 * index
}

const ALLOW: sock_filter = return_instruction(SECCOMP_RET_ALLOW);
const HEARD: sock_filter = return_instruction(SECCOMP_RET_USER_NOTIF);
const NOT_PERMITTED: sock_filter = return_instruction(SECCOMP_RET_ERRNO | libc::EPERM as u32);
const NO_SUCH_CALL: sock_filter = return_instruction(SECCOMP_RET_ERRNO | libc::ENOSYS as u32);
const NO_SUCH_FAMILY: sock_filter = return_instruction(SECCOMP_RET_ERRNO | libc::EAFNOSUPPORT as u32);

const fn return_instruction(k: u32) -> sock_filter {
    sock_filter { code: (BPF_RET | BPF_K) as u16, jt: 0, jf: 0, k }
}

const fn load_instruction(k: u32) -> sock_filter {
    sock_filter { code: (BPF_LD | BPF_W | BPF_ABS) as u16, jt: 0, jf: 0, k }
}

/// Skips so many instructions if the comparison holds, and so many if it doesn't.
const fn jump_instruction(comparison: u32, k: u32, if_so: u8, if_not: u8) -> sock_filter {
    sock_filter { code: (BPF_JMP | BPF_K | comparison) as u16, jt: if_so, jf: if_not, k }
}

/// Skips so many instructions.
const fn skip_instruction(count: u32) -> sock_filter {
    sock_filter { code: (BPF_JMP | BPF_JA) as u16, jt: 0, jf: 0, k: count }
}

/// What becomes of calls that change something by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangeHandling {
    /// They are made; where they may be is the mounts' and Landlock's matter.
    Made,
    /// Somebody hears of them first: see [`evidence`](crate::change_attempts).
    Heard,
    /// What Landlock doesn't know is refused: permissions, owners, times and attributes. There are no mounts
    /// around it.
    Refused,
}

/// The filter.
///
/// The number of a call is looked for by halves. In a plain list it would be compared with a hundred others,
/// and not only for calls: when it is given a filter, the kernel tries it on every number that there is, to
/// remember those that are always allowed. With a list that took longer than to start a program.
pub(crate) fn build_filter(sockets: AllowedSockets, changes: ChangeHandling) -> Vec<sock_filter> {
    let mut filter = vec![
        load_instruction(ARCH),
        jump_instruction(BPF_JEQ, ARCHITECTURE, 1, 0),
        return_instruction(SECCOMP_RET_KILL_PROCESS),
        load_instruction(NUMBER),
    ];
    #[cfg(target_arch = "x86_64")]
    filter.extend([jump_instruction(BPF_JGE, X32, 0, 1), NO_SUCH_CALL]);
    let mut rules = syscall_rules(sockets, changes);
    // Of two for one call the first counts.
    rules.sort_by_key(|(call, _)| *call);
    rules.dedup_by_key(|(call, _)| *call);
    filter.extend(rule_search(&rules));
    filter
}

/// What becomes of a call, with its number loaded: each leads to an answer.
type SyscallRule = (u32, Vec<sock_filter>);

/// Finds the rule of a call; what has none is allowed.
fn rule_search(rules: &[SyscallRule]) -> Vec<sock_filter> {
    match rules {
        [] => vec![ALLOW],
        [(call, then)] => {
            let skip = u8::try_from(then.len()).expect("each is a few instructions");
            [&[jump_instruction(BPF_JEQ, *call, 0, skip)], &then[..], &[ALLOW]].concat()
        }
        _ => {
            let (below, above) = rules.split_at(rules.len() / 2);
            let (first, below, above) = (above[0].0, rule_search(below), rule_search(above));
            let over = skip_instruction(u32::try_from(below.len()).expect("a filter is short"));
            [&[jump_instruction(BPF_JGE, first, 0, 1), over], &below[..], &above[..]].concat()
        }
    }
}

fn syscall_rules(sockets: AllowedSockets, changes: ChangeHandling) -> Vec<SyscallRule> {
    let mut rules = Vec::new();
    let mut when = |call: libc::c_long, then: &[sock_filter]| rules.push((call as u32, then.to_vec()));
    let change = if changes == ChangeHandling::Heard { HEARD } else { ALLOW };
    let attribute = if changes == ChangeHandling::Refused { NOT_PERMITTED } else { change };
    when(libc::SYS_openat, &creating_open(2, 3, change));
    when(libc::SYS_ioctl, &terminal_rules());
    when(
        libc::SYS_clone,
        &[
            load_instruction(argument_offset(0)),
            jump_instruction(BPF_JSET, NEW_NAMESPACES, 0, 1),
            NOT_PERMITTED,
            ALLOW,
        ],
    );
    when(libc::SYS_socket, &socket_rules(sockets));
    // By descriptor: there is no name to hear of.
    when(
        libc::SYS_fchmod,
        &set_id(1, if changes == ChangeHandling::Refused { NOT_PERMITTED } else { ALLOW }),
    );
    when(libc::SYS_fchmodat, &set_id(2, attribute));
    when(FCHMODAT2, &set_id(2, attribute));
    when(libc::SYS_mknodat, &set_id(2, change));
    #[cfg(target_arch = "x86_64")]
    {
        when(libc::SYS_open, &creating_open(1, 2, change));
        when(libc::SYS_creat, &set_id(1, change));
        when(libc::SYS_chmod, &set_id(1, attribute));
        when(libc::SYS_mknod, &set_id(1, change));
    }
    match changes {
        ChangeHandling::Made => {}
        ChangeHandling::Heard => CHANGES.iter().for_each(|call| when(*call, &[HEARD])),
        ChangeHandling::Refused => ATTRIBUTES.iter().for_each(|call| when(*call, &[NOT_PERMITTED])),
    }
    // Without namespaces these would be everybody's.
    if !matches!(sockets, AllowedSockets::All | AllowedSockets::NotLocal) {
        SHARED.iter().for_each(|call| when(*call, &[NOT_PERMITTED]));
    }
    // Without namespaces of everybody, and otherwise of the first process: it isn't one of theirs.
    let (process_is, then, otherwise) = match sockets {
        AllowedSockets::All | AllowedSockets::NotLocal => (FIRST, NOT_PERMITTED, ALLOW),
        AllowedSockets::Pairs | AllowedSockets::Internet => (ITSELF, ALLOW, NOT_PERMITTED),
    };
    for (call, process) in OF_OTHERS {
        when(
            *call,
            &[
                load_instruction(argument_offset(*process)),
                jump_instruction(BPF_JEQ, process_is, 0, 1),
                then,
                otherwise,
            ],
        );
    }
    FORBIDDEN.iter().for_each(|call| when(*call, &[NOT_PERMITTED]));
    ABSENT.iter().for_each(|call| when(*call, &[NO_SUCH_CALL]));
    rules
}

/// The restriction of machines on which only certain programs may make user namespaces, as far as it meets
/// us.
#[cfg(feature = "testing")]
pub(crate) fn no_user_namespace() -> Vec<sock_filter> {
    vec![
        load_instruction(NUMBER),
        jump_instruction(BPF_JEQ, libc::SYS_unshare as u32, 0, 3),
        load_instruction(argument_offset(0)),
        jump_instruction(BPF_JSET, libc::CLONE_NEWUSER as u32, 0, 1),
        NOT_PERMITTED,
        ALLOW,
    ]
}

/// The filter of containers, as far as it meets us: there is no `clone3`, whose arguments no filter can see.
#[cfg(feature = "testing")]
pub(crate) fn no_clone3() -> Vec<sock_filter> {
    vec![
        load_instruction(NUMBER),
        jump_instruction(BPF_JEQ, libc::SYS_clone3 as u32, 0, 1),
        NO_SUCH_CALL,
        ALLOW,
    ]
}

/// No file that runs as whoever owns it, for others on the machine to run.
fn set_id(mode: u32, otherwise: sock_filter) -> [sock_filter; 4] {
    [
        load_instruction(argument_offset(mode)),
        jump_instruction(BPF_JSET, SET_ID, 0, 1),
        NOT_PERMITTED,
        otherwise,
    ]
}

/// The same where the mode counts only if a file is made; `change` is the answer where it is opened to be
/// written.
fn creating_open(flags: u32, mode: u32, change: sock_filter) -> [sock_filter; 9] {
    [
        load_instruction(argument_offset(flags)),
        jump_instruction(BPF_JSET, CREATES, 0, 3),
        load_instruction(argument_offset(mode)),
        jump_instruction(BPF_JSET, SET_ID, 0, 1),
        NOT_PERMITTED,
        load_instruction(argument_offset(flags)),
        jump_instruction(BPF_JSET, WRITES, 0, 1),
        change,
        ALLOW,
    ]
}

/// No typing into a terminal, and no selections on a console.
fn terminal_rules() -> [sock_filter; 5] {
    let (input, console) = (libc::TIOCSTI as u32, libc::TIOCLINUX as u32);
    [
        load_instruction(argument_offset(1)),
        jump_instruction(BPF_JEQ, input, 1, 0),
        jump_instruction(BPF_JEQ, console, 0, 1),
        NOT_PERMITTED,
        ALLOW,
    ]
}

/// Local, internet, and of netlink what tells of addresses and routes.
fn socket_rules(sockets: AllowedSockets) -> Vec<sock_filter> {
    let families: &[i32] = match sockets {
        AllowedSockets::All => &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6],
        AllowedSockets::Internet | AllowedSockets::NotLocal => &[libc::AF_INET, libc::AF_INET6],
        AllowedSockets::Pairs => return vec![NOT_PERMITTED],
    };
    let mut then = vec![load_instruction(argument_offset(0))];
    for family in families {
        then.extend([jump_instruction(BPF_JEQ, *family as u32, 0, 1), ALLOW]);
    }
    let route = libc::NETLINK_ROUTE as u32;
    then.extend([
        jump_instruction(BPF_JEQ, libc::AF_NETLINK as u32, 1, 0),
        NO_SUCH_FAMILY,
        load_instruction(argument_offset(2)),
        jump_instruction(BPF_JEQ, route, 1, 0),
        NO_SUCH_FAMILY,
        ALLOW,
    ]);
    then
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel would answer: a few lines, since the filter uses few instructions.
    fn verdict(filter: &[sock_filter], arch: u32, number: u32, arguments: &[u64]) -> u32 {
        let word = |offset: u32| match offset {
            NUMBER => number,
            ARCH => arch,
            other => arguments.get((other as usize - 16) / 8).map_or(0, |argument| *argument as u32),
        };
        let (mut at, mut value) = (0, 0);
        loop {
            let step = filter[at];
            at += 1;
            match u32::from(step.code) & 0x07 {
                BPF_LD => value = word(step.k),
                BPF_RET => return step.k,
                _ if u32::from(step.code) & 0xF0 == BPF_JA => at += step.k as usize,
                _ => {
                    let holds = match u32::from(step.code) & 0xF0 {
                        BPF_JEQ => value == step.k,
                        BPF_JGE => value >= step.k,
                        _ => value & step.k != 0,
                    };
                    at += usize::from(if holds { step.jt } else { step.jf });
                }
            }
        }
    }

    const EPERM: u32 = SECCOMP_RET_ERRNO | libc::EPERM as u32;
    const ENOSYS: u32 = SECCOMP_RET_ERRNO | libc::ENOSYS as u32;

    /// Few kernels have such calls, so no child can show that it is the filter which refuses them.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn numbers_of_the_x32_kind_are_unknown() {
        let filter = build_filter(AllowedSockets::All, ChangeHandling::Made);
        for call in [libc::SYS_getpid, libc::SYS_mount, libc::SYS_keyctl, 512, 547] {
            assert_eq!(verdict(&filter, ARCHITECTURE, X32 | call as u32, &[]), ENOSYS, "{call}");
        }
        assert_eq!(verdict(&filter, ARCHITECTURE, u32::MAX, &[]), ENOSYS);
        // The control: without that one rule they pass.
        let without: Vec<sock_filter> = filter[..4].iter().chain(&filter[6..]).copied().collect();
        assert_eq!(verdict(&without, ARCHITECTURE, X32 | libc::SYS_mount as u32, &[]), SECCOMP_RET_ALLOW);
    }

    #[test]
    fn calls_of_another_architecture_kill() {
        let filter = build_filter(AllowedSockets::All, ChangeHandling::Made);
        for arch in [0, 0x4000_0003, ARCHITECTURE ^ 1] {
            assert_eq!(verdict(&filter, arch, libc::SYS_getpid as u32, &[]), SECCOMP_RET_KILL_PROCESS);
        }
        assert_eq!(verdict(&filter, ARCHITECTURE, libc::SYS_getpid as u32, &[]), SECCOMP_RET_ALLOW);
    }

    /// Looked for by halves, every call meets the rule that it would meet in the list, and what meets none is
    /// allowed.
    #[test]
    fn every_call_meets_its_rule() {
        let arguments: [&[u64]; 4] = [&[0; 6], &[1; 6], &[0o4777; 6], &[u64::MAX; 6]];
        for sockets in
            [AllowedSockets::All, AllowedSockets::NotLocal, AllowedSockets::Pairs, AllowedSockets::Internet]
        {
            for changes in [ChangeHandling::Made, ChangeHandling::Heard, ChangeHandling::Refused] {
                let (filter, rules) = (build_filter(sockets, changes), syscall_rules(sockets, changes));
                for call in (0..1_000).chain([0x3FFF_FFFF]) {
                    let rule = rules.iter().find(|(number, _)| *number == call);
                    let alone = rule.map_or_else(|| vec![ALLOW], |(_, then)| then.clone());
                    for arguments in arguments {
                        assert_eq!(
                            verdict(&filter, ARCHITECTURE, call, arguments),
                            verdict(&alone, ARCHITECTURE, call, arguments),
                            "{call} {arguments:?} {sockets:?} {changes:?}"
                        );
                    }
                }
            }
        }
    }

    /// Whatever sockets and changes are asked for: each list is a part of the filter.
    #[test]
    fn no_filter_forgets_a_list() {
        for sockets in
            [AllowedSockets::All, AllowedSockets::NotLocal, AllowedSockets::Pairs, AllowedSockets::Internet]
        {
            for changes in [ChangeHandling::Made, ChangeHandling::Heard, ChangeHandling::Refused] {
                let filter = build_filter(sockets, changes);
                let says = |call: libc::c_long, arguments: &[u64]| {
                    verdict(&filter, ARCHITECTURE, call as u32, arguments)
                };
                assert!(FORBIDDEN.iter().all(|call| says(*call, &[]) == EPERM));
                assert!(ABSENT.iter().all(|call| says(*call, &[]) == ENOSYS));
                assert_eq!(says(libc::SYS_ioctl, &[0, libc::TIOCSTI]), EPERM);
                assert_eq!(says(libc::SYS_ioctl, &[0, 0x77_0000_0000 | libc::TIOCSTI]), EPERM);
                assert_eq!(says(libc::SYS_ioctl, &[0, libc::TIOCGWINSZ]), SECCOMP_RET_ALLOW);
                assert_eq!(says(libc::SYS_clone, &[libc::CLONE_NEWUSER as u64]), EPERM);
                assert_eq!(says(libc::SYS_clone, &[libc::SIGCHLD as u64]), SECCOMP_RET_ALLOW);
                assert_eq!(says(libc::SYS_fchmod, &[3, 0o4755]), EPERM);
                // Without namespaces there are other programs around it.
                let alone = matches!(sockets, AllowedSockets::All | AllowedSockets::NotLocal);
                assert!(OF_OTHERS.iter().all(|(call, _)| (says(*call, &[5, 5]) == EPERM) != alone));
                assert!(OF_OTHERS.iter().all(|(call, _)| says(*call, &[0, 0]) == SECCOMP_RET_ALLOW));
                // The first process of a namespace is ours.
                assert!(OF_OTHERS.iter().all(|(call, _)| says(*call, &[1, 1]) == EPERM));
                let local = says(libc::SYS_socket, &[libc::AF_UNIX as u64]);
                assert_eq!(local == SECCOMP_RET_ALLOW, sockets == AllowedSockets::All);
                let create = [0, 0, libc::O_CREAT as u64 | libc::O_WRONLY as u64, 0o4755];
                assert_eq!(says(libc::SYS_openat, &create), EPERM);
            }
        }
    }
}
