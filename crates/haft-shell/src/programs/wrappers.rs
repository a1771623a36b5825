//! Programs that start the command in their arguments.
//!
//! An unlisted option is not an error: the command is searched on both sides of the option's possible
//! value, and the started command is uncertain.

use crate::model::OperandPosition::*;
use crate::model::*;

const OF_PROCESS: ModeBits = mode_bit(0);
const OPENS_SHELL: ModeBits = mode_bit(1);
const REPLACES: ModeBits = mode_bit(2);
const TEXT_GIVEN: ModeBits = mode_bit(3);
const AS_WORDS: ModeBits = mode_bit(4);
const AS_TEXT: ModeBits = mode_bit(5);
const LISTS: ModeBits = mode_bit(6);
const FROM_FILE: ModeBits = mode_bit(7);

const fn wrapper(names: &'static str, options: &'static [&'static [OptionSpec]]) -> ProgramEntry {
    program(names, WRAPPER).unknown(UnknownOption::Doubt).options(options).operands(COMMAND_FIRST)
}

const COMMAND_FIRST: &[OperandSpec] = &[at(From(0), &[COMMAND.unless(OF_PROCESS)])];
const COMMAND_SECOND: &[OperandSpec] = &[at(From(1), &[COMMAND.unless(OF_PROCESS)])];
const COMMAND_THIRD: &[OperandSpec] = &[at(From(2), &[COMMAND])];
const JOINED_FIRST: &[OperandSpec] = &[at(From(0), &[JOINED])];
const ELSEWHERE_FIRST: &[OperandSpec] = &[at(From(0), &[COMMAND_ELSEWHERE])];
const OR_SHELL: &[OperandSpec] = &[at(From(0), &[COMMAND_ELSEWHERE]), at(Missing(0), &[COMMANDS_IN])];
const PIPE_OR_FILE: ValueMeaning = prefixed("|", &[SHELL], &[prefixed("!", &[SHELL], &[WRITE])]);
const MOVES: ValueMeaning = meaning(MeaningKind::LosesDirectory);
const NOTHING: &[&[OptionSpec]] = &[];
/// Every long name is an option without a separate value.
const fn any_long(names: &'static str, options: &'static [&'static [OptionSpec]]) -> ProgramEntry {
    wrapper(names, options).unknown(UnknownOption::LongFlag)
}

pub(super) const ENTRIES: &[ProgramEntry] = &[
    program("kill", WordSyntax { digits: true, ..POSIX }).listed().options(&[&[mode("-0lL", LISTS)]]).operands(&[at(Always, &[CHANGES.unless(LISTS)])]),
    // Allow rules ignore only these wrappers.
    program("timeout", WRAPPER).family(NameFamily::Gnu).unknown(UnknownOption::Doubt)
        .options(&[&[flags("-vfp foreground preserve-status verbose"), values("-ks kill-after signal")]]).operands(&[at(From(1), &[COMMAND_PAST])]),
    program("nice", WordSyntax { digits: true, ..WRAPPER }).family(NameFamily::Gnu).unknown(UnknownOption::Doubt)
        .options(&[&[values("-n adjustment")]]).operands(&[at(From(0), &[COMMAND_PAST])]),
    // The output of the command goes to a file.
    program("nohup", WRAPPER).family(NameFamily::Gnu).unknown(UnknownOption::Doubt).operands(&[at(From(0), &[COMMAND_LOGGED])]),
    program("stdbuf", WRAPPER).family(NameFamily::Gnu).unknown(UnknownOption::Doubt).options(&[&[values("-ioe input output error")]]).operands(&[at(From(0), &[COMMAND_PAST])]),
    program("time", WRAPPER).family(NameFamily::Gnu).unknown(UnknownOption::Doubt)
        .options(&[&[flags("-pvlqa portability verbose quiet append"), values("-f format"), value("-o output", &[WRITE])]]).operands(&[at(From(0), &[COMMAND_PAST])]),
    program("xargs", WRAPPER).family(NameFamily::Gnu).unknown(UnknownOption::Doubt).options(&[&[
        flags("-0rtpxo null no-run-if-empty verbose interactive exit open-tty"), values("-ELnPsd delimiter max-args max-procs max-chars"),
        value("-a arg-file", &[READ]).sets(FROM_FILE), value("-I", &[MARK, hidden(&[UNDETERMINED])]).sets(REPLACES), attached("-i replace", &[UNDETERMINED]),
        attached("-el eof max-lines", &[]), value("process-slot-var", &[UNDETERMINED]),
    ]]).operands(&[at(From(0), &[
        filled(ArgvFill::Append, AllowScope::Past, true).unless(ANY_OPTION),
        filled(ArgvFill::Append, AllowScope::Exact, true).when(ANY_OPTION).unless(REPLACES | FROM_FILE),
        filled(ArgvFill::Append, AllowScope::Exact, false).when(FROM_FILE).unless(REPLACES),
        filled(ArgvFill::Mark(""), AllowScope::Exact, true).when(REPLACES).unless(FROM_FILE),
        filled(ArgvFill::Mark(""), AllowScope::Exact, false).when(REPLACES | FROM_FILE),
    ])]),
    program("env", WRAPPER).family(NameFamily::Gnu).listed().unknown(UnknownOption::Doubt).traits(ProgramTraits::TAKES_VARIABLES).options(&[&[
        flags("-0 null"), act("-iv - ignore-environment debug", &[CHANGES]), value("-u unset", &[CHANGES]), value("-C chdir", &[MOVES, READ]), value("-S split-string", &[meaning(MeaningKind::Splice)]),
        attached("block-signal default-signal ignore-signal list-signal-handling", &[CHANGES]),
    ]]).operands(COMMAND_FIRST),
    wrapper("sudo", &[&[
        flags("-AbBEHklnNPSvKV askpass background bell preserve-env set-home non-interactive stdin list validate reset-timestamp preserve-groups"),
        mode("-is login shell", OPENS_SHELL), values("-ughpCrtTU user group host prompt close-from role type command-timeout other-user"),
        value("-DR chdir chroot", &[MOVES]),
    ]]).traits(ProgramTraits::TAKES_VARIABLES).operands(&[at(From(0), &[COMMAND]), at(Missing(0), &[COMMANDS_IN.when(OPENS_SHELL)])]),
    wrapper("doas", &[&[flags("-nL"), mode("-s", OPENS_SHELL), values("-auC")]]).traits(ProgramTraits::TAKES_VARIABLES)
        .operands(&[at(From(0), &[COMMAND]), at(Missing(0), &[COMMANDS_IN.when(OPENS_SHELL)])]),
    wrapper("cross-env", NOTHING).traits(ProgramTraits::TAKES_VARIABLES),
    wrapper("strace", &[&[
        flags("-CcdfFhiknNqrtTvVwxyYzZA follow-forks summary-only summary debug no-abbrev instruction-pointer seccomp-bpf decode-fds decode-pids quiet \
               stack-traces successful-only failed-only output-append-mode output-separately relative-timestamps absolute-timestamps syscall-times"),
        values("-aebEIOpPsSuUX trace signal status string-limit user env columns summary-sort-by interruptible trace-path attach abbrev verbose raw read \
                write inject fault expr detach-on summary-columns const-print-style"),
        attached("strings-in-hex", &[]), value("-o output", &[PIPE_OR_FILE]),
    ]]),
    wrapper("ltrace", &[&[flags("-bcCfhiLrStTV demangle"), values("-aADeFlnpsuwx"), value("-o output", &[PIPE_OR_FILE])]]),
    any_long("valgrind", &[&[flags("-qvdh"), value("log-file xml-file", &[WRITE])]]),
    any_long("websocketd", NOTHING),
    any_long("prlimit", &[&[flags("-cdefilmnqrstuvxy verbose noheadings raw"), values("-o output"), values("-p pid").sets(OF_PROCESS)]]),
    wrapper("chrt", &[&[
        flags("-abdefimorRv all-tasks batch deadline fifo idle other rr reset-on-fork verbose"), values("-TPD sched-runtime sched-period sched-deadline"),
        values("-p pid").sets(OF_PROCESS),
    ]]).operands(COMMAND_SECOND),
    wrapper("ionice", &[&[flags("-t ignore"), values("-cnu class classdata uid"), values("-pP pid pgid").sets(OF_PROCESS)]]),
    wrapper("taskset", &[&[flags("-ac all-tasks cpu-list"), mode("-p pid", OF_PROCESS)]]).operands(COMMAND_SECOND),
    wrapper("uclampset", &[&[flags("-ahRsvV all-tasks reset-on-fork system verbose"), values("-mM"), values("-p pid").sets(OF_PROCESS)]]),
    wrapper("watch", &[&[
        flags("-bcdegprtwC beep color no-color differences errexit chgexit precise no-title no-wrap no-rerun"), mode("-x exec", AS_WORDS), values("-nq interval equexit"),
    ]]).operands(&[at(From(0), &[COMMAND.when(AS_WORDS), JOINED.unless(AS_WORDS)])]),
    wrapper("entr", &[&[flags("-acdnprzx"), mode("-s", AS_TEXT)]])
        .operands(&[at(From(0), &[filled(ArgvFill::Mark("/_"), AllowScope::Exact, false).unless(AS_TEXT), JOINED.when(AS_TEXT)])]),
    wrapper("flock", &[&[
        flags("-sexnuoFv shared exclusive unlock nonblock nb close no-fork verbose"), values("-wE wait timeout conflict-exit-code"), mode("-c command", TEXT_GIVEN),
    ]]).operands(&[at(From(1), &[COMMAND.unless(TEXT_GIVEN)]), at(Nth(1), &[COMMANDS.when(TEXT_GIVEN)])])
        .syntax(WordSyntax { stop: StopRule::AfterOperands(1), ..WRAPPER }),
    any_long("firejail", &[&[value("-c", &[COMMANDS])]]).operands(OR_SHELL),
    wrapper("chroot", &[&[flags("skip-chdir"), values("userspec groups")]]).operands(&[at(From(1), &[COMMAND_ELSEWHERE]), at(Missing(1), &[COMMANDS_IN.unless(NO_ARGUMENT)])]),
    wrapper("unshare", &[&[
        flags("-muinpCUTrcf fork map-root-user map-current-user map-auto keep-caps mount-proc kill-child net pid mount uts ipc user cgroup time \
               forward-signals mount-binfmt"),
        values("-SG setuid setgid setgroups propagation map-user map-group map-users map-groups monotonic boottime load-interp owner"),
        value("-Rw root wd", &[MOVES]),
    ]]).operands(&[at(From(0), &[COMMAND]), at(Missing(0), &[COMMANDS_IN])]),
    wrapper("nsenter", &[&[
        flags("-amuinpCUTrwFZce all mount uts ipc net pid cgroup user time root wd no-fork preserve-credentials follow-context env join-cgroup"),
        values("-tSGNW target setuid setgid net-socket wdns"),
    ]]).operands(OR_SHELL),
    wrapper("fakeroot", &[&[flags("-uhv unknown-is-real"), values("-lsibf lib faked")]]).operands(&[at(From(0), &[COMMAND]), at(Missing(0), &[COMMANDS_IN])]),
    wrapper("proot", &[&[flags("-0lSh root-id link2symlink"), values("-rbqvwkpe rootfs bind qemu mixed-mode verbose pwd cwd kernel-release")]]).operands(OR_SHELL),
    wrapper("bwrap", &[&[
        flags("unshare-all share-net unshare-user unshare-user-try unshare-ipc unshare-pid unshare-net unshare-uts unshare-cgroup unshare-cgroup-try \
               die-with-parent new-session clearenv as-pid-1 disable-userns"),
        values("argv0 uid gid hostname chdir unsetenv lock-file sync-fd proc dev tmpfs mqueue dir remount-ro seccomp add-seccomp-fd block-fd \
                userns-block-fd info-fd json-status-fd cap-add cap-drop perms size userns userns2 pidns exec-label file-label"),
        with_arity("bind bind-try dev-bind dev-bind-try ro-bind ro-bind-try bind-fd ro-bind-fd setenv file bind-data ro-bind-data symlink chmod overlay-src", ValueArity::Two, &[]),
        value("args", &[UNDETERMINED]),
    ]]).operands(ELSEWHERE_FIRST),
    wrapper("pkexec", &[&[flags("disable-internal-agent keep-cwd"), values("user")]]).operands(ELSEWHERE_FIRST),
    wrapper("run0", &[&[
        flags("no-ask-password pipe pty same-root-dir slice-inherit"), values("-DMgu background chdir description group machine nice property setenv slice unit user"),
    ]]).operands(ELSEWHERE_FIRST),
    wrapper("systemd-run", &[&[
        flags("-dGPqrtS user system scope pty pipe quiet collect wait shell same-dir no-block remain-after-exit send-sighup no-ask-password slice-inherit"),
        values("-EHMu unit description slice service-type uid gid nice working-directory setenv machine host on-active on-boot on-startup \
                on-unit-active on-unit-inactive on-calendar timer-property path-property socket-property"),
        value("-p property", &[one_of("Exec*", &[part(WordPart::After("="), &[SHELL])], &[])]),
    ]]).operands(ELSEWHERE_FIRST),
    wrapper("systemd-cat", &[&[values("-tp identifier priority stderr-priority")]]),
    wrapper("systemd-inhibit", &[&[flags("list no-pager no-legend"), values("what who why mode")]]),
    wrapper("su runuser", &[&[
        flags("-lmpfP - login fast preserve-environment pty no-pty"), value("-cC command session-command", &[COMMANDS]).sets(TEXT_GIVEN),
        values("-sgGwT shell group supp-group whitelist-environment"), values("-u user").sets(AS_WORDS),
    ]]).syntax(GNU).traits(ProgramTraits::COMMANDS_ELSEWHERE).operands(&[
        at(From(0), &[COMMAND.when(AS_WORDS)]),
        at(From(1), &[UNDETERMINED.reason("starts another command").unless(TEXT_GIVEN | AS_WORDS)]),
        at(Missing(1), &[COMMANDS_IN.unless(TEXT_GIVEN | AS_WORDS)]),
        at(Missing(0), &[COMMANDS_IN.when(AS_WORDS).unless(TEXT_GIVEN)]),
    ]),
    program("sg", GNU).options(&[&[flags("-c -")]]).operands(&[at(Nth(1), &[COMMANDS]), at(Missing(1), &[COMMANDS_IN])]),
    program("newgrp", GNU).operands(&[at(Always, &[COMMANDS_IN])]),
    program("script", GNU).guards_patterns().options(&[&[
        flags("-aefqr append return flush force quiet"), value("-c command", &[COMMANDS]).sets(TEXT_GIVEN), value("-BOTI log-out log-in log-io log-timing", &[WRITE]),
        values("-mEo echo logging-format output-limit"), attached("-t timing", &[]),
    ]]).operands(&[
        at(Nth(0), &[WRITE]), at(From(1), &[UNDETERMINED.reason("starts another command").unless(TEXT_GIVEN), READ_TREE]), at(Missing(1), &[COMMANDS_IN.unless(TEXT_GIVEN)]),
    ]),
    program("scriptlive", GNU).guards_patterns().options(&[&[values("-BdEIOmoTt"), value("-c command", &[PROGRAM])]]),
    program("capsh", EXACT).unknown(UnknownOption::Flag).operands(&[
        at(AfterDashes, &[meaning(MeaningKind::Prepend("bash"))]), at(From(0), &[hidden(&[UNDETERMINED]), one_of("== -+ =+", &[UNDETERMINED], &[])]),
    ]),
    program("parallel", GNU).syntax(WRAPPER).unknown(UnknownOption::Doubt).options(&[PARALLEL]).operands(&[
        at(From(0), &[meaning(MeaningKind::Template)]), at(Missing(0), &[UNDETERMINED.when(ANY_OPTION), UNDETERMINED.when(NO_ARGUMENT)]),
    ]),
    program("sem", GNU).syntax(WRAPPER).unknown(UnknownOption::Doubt).options(&[PARALLEL]).operands(&[at(From(0), &[meaning(MeaningKind::Template)])]),
    program("at batch", GNU).traits(ProgramTraits::COMMANDS_ELSEWHERE).operands(&[at(Always, &[COMMANDS_IN])]),
    program("crontab", GNU).listed().traits(ProgramTraits::COMMANDS_ELSEWHERE).unknown(UnknownOption::ShellState).options(&[&[mode("-l", LISTS), act("-r", &[CHANGES_LISTED, destroys("the table of jobs")]).sets(LISTS), values("-u"), act("-e", &[SHELL_STATE])]]).operands(&[
        at(Nth(0), &[one_of("-", &[COMMANDS_IN], &[SHELL_STATE])]), at(Missing(0), &[COMMANDS_IN.unless(LISTS)]),
    ]),
    // The loader starts its argument.
    wrapper("ld.so ld-linux ld-musl", &[&[
        flags("list verify inhibit-cache"), values("library-path inhibit-rpath audit preload argv0 glibc-hwcaps-prepend glibc-hwcaps-mask"),
    ]]).family(NameFamily::Prefix),
    wrapper("annotate-output", &[&[flags("-h")]]),
    wrapper("autoexpect", &[&[flags("-cCpPQq"), values("-f")]]),
    wrapper("beesu", NOTHING).operands(JOINED_FIRST),
    wrapper("busybox toybox catchsegv eatmydata keep-one-running pgrphack run-one run-one-constantly run-one-until-failure \
             run-one-until-success run-this-one tsocks wine with-contenv zrun", NOTHING),
    wrapper("gamemoderun mangohud optirun primusrun prime-run vglrun ttyd gotty mprocs dvtm ledit operf startx xinit cage rootlesskit tcpclient gdbserver \
             qemu-arm qemu-i386 qemu-mips qemu-ppc qemu-riscv64 qemu-s390x qemu-arm-static qemu-aarch64-static qemu-x86_64-static box64 schedtool cset \
             likwid-pin likwid-perfctr apitrace renderdoccmd pseudo", NOTHING).operands(&[at(From(0), &[COMMAND]), at(Argument, &[UNDETERMINED])]),
    program("stap dtrace", GNU).guards_patterns().options(&[&[value("-c", &[SHELL])]]),
    wrapper("aa-exec", &[&[flags("-divh immediate debug verbose"), values("-pn profile namespace")]]),
    wrapper("abduco", &[&[flags("-aAcflnrv"), values("-e")]]).operands(COMMAND_SECOND),
    wrapper("caffeinate", &[&[flags("-dimsu"), values("-tw")]]),
    wrapper("catatonit", &[&[flags("-LPVhg"), values("-p")]]),
    wrapper("cgexec", &[&[flags("sticky"), values("-g")]]),
    wrapper("choom", &[&[values("-np adjust pid")]]),
    wrapper("chpst", &[&[flags("-vP012"), values("-uUbend/lLmopfcrt")]]),
    wrapper("chronic", &[&[flags("-ev")]]),
    wrapper("cpulimit", &[&[flags("-zivfm lazy include-children verbose"), values("-lpec limit pid exe path cpu")]]),
    wrapper("cross-env-shell", NOTHING).operands(JOINED_FIRST),
    wrapper("daemonize", &[&[flags("-av"), values("-ceElopu")]]),
    wrapper("dbus-launch", &[&[flags("exit-with-session exit-with-x11 sh-syntax csh-syntax close-stderr"), values("autolaunch config-file")]]),
    wrapper("dbus-run-session", &[&[values("config-file"), value("dbus-daemon", &[PROGRAM])]]),
    wrapper("dtach", &[&[flags("-AcnNzE"), values("-er")]]).operands(COMMAND_SECOND),
    wrapper("dumb-init", &[&[flags("-csvh single-child verbose"), values("-r rewrite")]]),
    wrapper("empty", &[&[flags("-dfkLrsvw"), values("-iopt")]]),
    wrapper("envdir envuidgid gosu s6-setuidgid setuidgid su-exec", NOTHING).operands(COMMAND_SECOND),
    wrapper("fakechroot", &[&[flags("-s use-system-libs"), values("-delbc lib elfloader environment bindir config-dir")]]),
    wrapper("faketime", &[&[flags("-fm exclude-monotonic"), values("-p")]]).operands(COMMAND_SECOND),
    wrapper("gksu gksudo", &[&[flags("-dDkgpSw"), values("-um")]]).operands(JOINED_FIRST),
    wrapper("gpg-agent", &[&[
        flags("-cqsv csh daemon enable-ssh-support no-detach quiet server sh supervised verbose"), values("debug-level homedir log-file options"), value("pinentry-program", &[PROGRAM]),
    ]]),
    wrapper("heaptrack", &[&[flags("-dhqrv"), values("-aop")]]),
    wrapper("hwatch", &[&[flags("-BCbctUW"), values("-nsi")]]).operands(JOINED_FIRST),
    wrapper("i386 linux32 linux64 x86_64", &[&[flags("-BFILRSTXZv3")]]),
    wrapper("ifne", &[&[flags("-n")]]),
    wrapper("kdesu kdesudo", &[&[flags("-dt"), values("-cfpu")]]).operands(JOINED_FIRST),
    wrapper("landrun", &[&[flags("best-effort"), values("ro rox rw rwx env log-level")]]),
    wrapper("lckdo", &[&[flags("-eqQsSvw"), values("-W")]]).operands(COMMAND_SECOND),
    wrapper("lxqt-sudo", &[&[flags("-ds")]]),
    wrapper("multitime", &[&[flags("-fqvl"), values("-biInors")]]),
    wrapper("nq", &[&[flags("-cqw")]]),
    wrapper("numactl", &[&[flags("-sHal show hardware localalloc all balancing"), values("-NmPipC interleave membind cpunodebind physcpubind preferred weighted-interleave")]]),
    wrapper("parallel-ssh", &[&[flags("-AhiPv"), values("-eHlopOtxX")]]).operands(JOINED_FIRST),
    wrapper("pdsh", &[&[flags("-bdNqSVL"), values("-cfglRtuwxF")]]).operands(JOINED_FIRST),
    wrapper("pssh", &[&[flags("-AiPv"), values("-ehHlopOtxX")]]).operands(JOINED_FIRST),
    wrapper("proxychains proxychains4", &[&[flags("-q"), values("-f")]]),
    wrapper("qemu-aarch64 qemu-x86_64", &[&[values("-gLsEUcB")]]),
    wrapper("rlwrap", &[&[flags("-aAceEiImnNoprRuvUwWX"), values("-bCDfFgHlMOPqsStz")]]),
    wrapper("s6-envdir", &[&[flags("-fILn"), values("-c")]]).operands(COMMAND_SECOND),
    wrapper("setlock", &[&[flags("-nNxX")]]).operands(COMMAND_SECOND),
    wrapper("setpriv", &[&[
        flags("-d clear-groups keep-groups init-groups no-new-privs nnp reset-env dump"),
        values("reuid regid ruid euid rgid egid groups inh-caps ambient-caps bounding-set securebits pdeathsig ptracer selinux-label apparmor-profile \
                landlock-access landlock-rule seccomp-filter"),
    ]]),
    wrapper("setsid", &[&[flags("-cfw ctty fork wait")]]),
    wrapper("softlimit", &[&[values("-acdfloprst/m")]]),
    wrapper("ssh-agent", &[&[flags("-cDdksTu"), values("-aEOPt")]]),
    wrapper("sshpass", &[&[flags("-evhV"), values("-fdpP")]]),
    wrapper("tcpserver", &[&[flags("-1dDhHoOpPqQrRv"), values("-bBcgilmtuxX")]]).operands(COMMAND_THIRD),
    wrapper("timelimit", &[&[flags("-pq"), values("-sStT")]]),
    wrapper("tini", &[&[flags("-shvgw"), values("-pe")]]),
    wrapper("torify", &[&[flags("-dqv")]]),
    wrapper("torsocks", &[&[flags("-diq debug isolate quiet"), values("-uPap user pass address port")]]),
    wrapper("trickle", &[&[flags("-hsvV"), values("-dlLnptuw")]]),
    wrapper("ts", &[&[flags("-BdfgkKlmnrs"), values("-LNDOSEhitcpoawu")]]),
    wrapper("tsp", &[&[flags("-BdEfghmnVz"), values("-DeGLNoOS")]]),
    wrapper("unbuffer", &[&[flags("-p")]]),
    wrapper("viddy", &[&[flags("-bcdeptw"), values("-n")]]).operands(JOINED_FIRST),
    wrapper("with-lock-ex", &[&[flags("-wfqt")]]).operands(COMMAND_SECOND),
    wrapper("xvfb-run", &[&[flags("-alh auto-servernum listen-tcp"), values("-efnpsw error-file auth-file server-num xauth-protocol server-args wait")]]),
    // These start others in ways that aren't parsed: every position where a command may begin counts.
    wrapper("daemon envconsul lxc-attach lxc-execute machinectl minijail0 mispipe mpiexec mpirun orterun pee poop prun retry salloc schroot scl setarch \
             srun start-stop-daemon systemd-nspawn torchrun watchexec wsl", NOTHING)
        .operands(&[at(From(0), &[COMMAND]), at(Argument, &[UNDETERMINED])]),
];

const PARALLEL: &[OptionSpec] = &[
    flags("-k0vmXut semaphore fg bg keep-order null wait ungroup bar will-cite line-buffer no-notice"),
    values("-jPnNa jobs arg-file id delay retries"),
];
