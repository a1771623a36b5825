//! Programs that start others with a sub-command or as their whole purpose, and that are allowed by their
//! own name.
//!
//! Allow rules match the runner as written. Deny and ask rules match the command that it runs.

use crate::model::OperandPosition::*;
use crate::model::*;

const FIRST: &[OperandSpec] = &[at(From(0), &[LAUNCH])];
const SECOND: &[OperandSpec] = &[at(From(1), &[LAUNCH])];
const PACKAGE: &[OperandSpec] = &[at(From(0), &[LAUNCH_PACKAGE])];
const DASHES_ONLY: &[OperandSpec] = &[at(AfterDashes, &[LAUNCH])];
const CONTAINED_DASHES: &[OperandSpec] = &[at(AfterDashes, &[LAUNCH_CONTAINED])];
const JOINED_FIRST: &[OperandSpec] = &[at(From(0), &[JOINED])];
const JOINED_SECOND: &[OperandSpec] = &[at(From(1), &[JOINED])];
const NONE: &[&[OptionSpec]] = &[];
const STOPS: WordSyntax = WordSyntax { stop: StopRule::AtOperand, ..EXACT };
const STOPS_AFTER_ONE: WordSyntax = WordSyntax { stop: StopRule::AfterOperands(1), ..EXACT };

/// A sub-command or a program that starts the words after its options.
const fn run(names: &'static str, options: &'static [&'static [OptionSpec]], operands: &'static [OperandSpec]) -> ProgramEntry {
    program(names, STOPS).unknown(UnknownOption::Doubt).options(options).operands(operands)
}

/// The same, where most long options have a value.
const fn run_valued(names: &'static str, options: &'static [&'static [OptionSpec]], operands: &'static [OperandSpec]) -> ProgramEntry {
    run(names, options, operands).unknown(UnknownOption::Value)
}

/// The same, where only the words after `--` are started.
const fn run_dashes(names: &'static str, options: &'static [&'static [OptionSpec]], operands: &'static [OperandSpec]) -> ProgramEntry {
    program(names, EXACT).unknown(UnknownOption::Flag).options(options).operands(operands)
}

const fn runner(names: &'static str, subcommands: &'static [ProgramEntry]) -> ProgramEntry {
    program(names, STOPS).subcommands(subcommands)
}

const EXEC: &[ProgramEntry] = &[run("exec", NONE, FIRST)];
const EXEC_DASHES: &[ProgramEntry] = &[run_dashes("exec", NONE, DASHES_ONLY)];
const RUN: &[ProgramEntry] = &[run("run", NONE, FIRST)];
const RUN_DASHES: &[ProgramEntry] = &[run_dashes("run", NONE, DASHES_ONLY)];
const TEXT: OptionSpec = value("-c command", &[COMMANDS]);
const CONTAINERS: &[OptionSpec] = &[
    flags("-ecCvw nv rocm cleanenv contain containall writable-tmpfs no-home"), values("-BHWS"),
];
const CONDA: &[OptionSpec] = &[flags("-v live-stream no-capture-output verbose"), values("-npc name prefix cwd")];
const PERF: &[OptionSpec] = &[flags("-agvqdBASnNisT all-cpus call-graph"), values("-eFcopCrxIDGmjtu event output")];
const EXECUTED: &[OperandSpec] = &[at(From(0), &[COMMAND])];

pub(super) const ENTRIES: &[ProgramEntry] = &[
    run(",", NONE, FIRST),
    runner("adb", &[run("exec-out shell", &[&[flags("-ntTx"), values("-se")]], JOINED_FIRST)]),
    runner("apptainer singularity", &[run_valued("exec run", &[CONTAINERS], SECOND).syntax(STOPS_AFTER_ONE)]),
    runner("asdf cabal goenv jenv nodenv plenv pyenv rbenv", EXEC),
    runner("opam", &[run("exec", &[&[flags("-y")]], FIRST)]),
    runner("stack", EXEC), runner("dune", &[run("exec", &[&[flags("no-build")]], FIRST)]),
    run("austin", &[&[flags("-aCfgmPs"), values("-eioptw")]], FIRST),
    runner("aws-vault chamber incus lxc multipass", &[run_dashes("exec", NONE, CONTAINED_DASHES)]),
    runner("berglas", EXEC_DASHES), runner("nx tox", EXEC_DASHES).traits(ProgramTraits::RUNS_WORKSPACE),
    runner("buildah", &[run_valued("run", &[&[flags("-t tty no-pivot"), values("-cuv")]], SECOND).syntax(STOPS_AFTER_ONE)]),
    run("bunx", &[&[flags("bun silent")]], PACKAGE).traits(ProgramTraits::RUNS_WORKSPACE),
    run("c8", NONE, FIRST), run("nyc", &[&[flags("all silent")]], FIRST),
    run_valued("ch-run", &[&[flags("-wW write write-fake no-home"), values("-bcgmu")]], SECOND).syntax(STOPS_AFTER_ONE),
    run_dashes("chruby-exec dotenv flamegraph nsjail onchange reflex", NONE, DASHES_ONLY),
    runner("colima minikube", &[run_dashes("ssh", &[&[values("-np")]], DASHES_ONLY)]),
    runner("conda mamba micromamba", &[run_valued("run", &[CONDA], FIRST)]),
    runner("coresched", &[run_dashes("exec new", &[&[flags("-v"), values("-dst")]], DASHES_ONLY)]),
    runner("crictl", &[run_valued("exec", &[&[flags("-ist interactive sync tty")]], SECOND).syntax(STOPS_AFTER_ONE)]),
    runner("devbox", &[run_valued("run", &[&[flags("-lq list quiet pure print-env"), values("-ce")]], FIRST)]),
    runner("devenv", &[run("shell", NONE, FIRST)]),
    runner("direnv", &[run("exec", NONE, SECOND).syntax(STOPS_AFTER_ONE)]).traits(ProgramTraits::RUNS_WORKSPACE),
    runner("distrobox", &[run_dashes("enter", NONE, CONTAINED_DASHES)]),
    runner("doppler dotenvx infisical op", RUN_DASHES),
    runner("dvc", &[run_valued("run", &[&[flags("-fqv force no-exec no-run-cache quiet verbose"), values("-dmMnoOpw")]], JOINED_FIRST)]),
    runner("enroot", &[run_valued("exec start", &[&[flags("-rw root rw"), values("-cem")]], SECOND).syntax(STOPS_AFTER_ONE)]),
    run("env-cmd", &[&[flags("-xv"), values("-efr")]], FIRST),
    run("envchain", NONE, SECOND).syntax(STOPS_AFTER_ONE),
    runner("flatpak", &[run("run", &[&[value("command", &[meaning(MeaningKind::Head)])]], &[at(From(0), &[LAUNCH_CONTAINED])])]),
    run("flatpak-spawn", &[&[flags("host watch-bus clear-env latest-version no-network sandbox")]], FIRST),
    runner("flox", &[run_dashes("activate", &[&[TEXT, values("-dr")]], DASHES_ONLY)]),
    runner("fnm", &[run_valued("exec", &[&[flags("using-file"), values("using")]], FIRST)]),
    runner("foreman honcho", &[run("run", &[&[values("-efdp")]], FIRST)]),
    runner("ghcup", RUN_DASHES), runner("goreman hatch pipenv rye", RUN),
    runner("guix", &[run_dashes("environment shell", NONE, DASHES_ONLY)]),
    runner("gum", &[run_dashes("spin", NONE, DASHES_ONLY)]),
    run("kcov", NONE, SECOND).syntax(STOPS_AFTER_ONE),
    runner("lerna", &[run("exec", &[&[flags("parallel stream no-bail")]], FIRST)]),
    run("lima", NONE, FIRST), runner("limactl", &[run("shell", NONE, SECOND).syntax(STOPS_AFTER_ONE)]),
    runner("mise rtx", &[run_dashes("exec x", &[&[TEXT]], DASHES_ONLY)]).traits(ProgramTraits::RUNS_WORKSPACE),
    runner("n", &[run("exec", NONE, SECOND).syntax(STOPS_AFTER_ONE)]), runner("nvm", &[run("exec", &[&[flags("silent")]], SECOND).syntax(STOPS_AFTER_ONE)]),
    runner("nix", &[program("develop shell run", EXACT).unknown(UnknownOption::Flag).options(&[&[with_arity("-c command", ValueArity::Rest, &[LAUNCH])]])
        .operands(DASHES_ONLY)]),
    program("nix-shell", EXACT).unknown(UnknownOption::Flag).options(&[&[value("run command", &[COMMANDS])]]),
    runner("pdm", &[run("run", &[&[flags("-sv site-packages"), values("-p")]], FIRST)]),
    runner("perlbrew", &[run_valued("exec", &[&[flags("-q quiet"), values("with")]], FIRST)]),
    runner("pixi", &[run_valued("exec run x", &[&[flags("-qv frozen locked quiet verbose"), values("-cems")]], FIRST)]),
    run("pkgx", NONE, PACKAGE),
    runner("proot-distro", &[run_dashes("login", NONE, DASHES_ONLY)]),
    runner("py-spy", &[run_dashes("record top", NONE, DASHES_ONLY)]),
    runner("rr", &[run_valued("record", &[&[flags("-hnuwv chaos no-file-cloning verbose"), values("-cCDMopst")]], FIRST)]),
    runner("samply", &[run_valued("record", &[&[flags("-ns save-only no-open"), values("-or")]], FIRST)]),
    runner("snap", &[run("run", &[&[flags("shell")]], FIRST)]),
    runner("sops", &[run_valued("exec-env exec-file", &[&[flags("background pristine no-fifo")]], JOINED_SECOND).syntax(STOPS_AFTER_ONE)]),
    runner("spack", &[run_dashes("build-env test-env", NONE, DASHES_ONLY)]),
    run("summon", &[&[values("-Defp")]], FIRST),
    runner("teller", &[run_dashes("run", &[&[values("-c")]], DASHES_ONLY)]),
    runner("toolbox", &[run_valued("run", &[&[values("-cdr")]], &[at(From(0), &[LAUNCH_CONTAINED])])]),
    runner("uftrace", &[run_valued("live record", &[&[flags("-aegkvV no-libcall verbose"), values("-AbCdDFHLNpPrRStTUWZ")]], FIRST)]),
    runner("vagrant", &[run_dashes("ssh", &[&[value("-c command", &[PROGRAM]), values("-p")]], DASHES_ONLY)]).guards_patterns(),
    runner("volta", &[run_valued("run", &[&[flags("no-npm no-yarn bundled-npm")]], FIRST)]),
    run_valued("xcrun", &[&[flags("-frvnkl find run verbose no-cache kill-cache log")]], FIRST),
    runner("xdotool", &[run("exec", &[&[flags("sync")]], FIRST)]),
    runner("zellij", RUN_DASHES),
    runner("heroku", &[run_valued("run", &[&[flags("exit-code no-tty"), values("-ars app remote size")]], JOINED_FIRST)]).has_subcommands()
        .traits(ProgramTraits::COMMANDS_ELSEWHERE).options(&[&[values("-ar app remote")]]),
    // A package manager, possibly with a version.
    run("corepack", NONE, PACKAGE).unknown(UnknownOption::Flag)
        .subcommands(&[program("enable disable use up install pack hydrate prepare cache", EXACT)]),
    program("just", EXACT).unknown(UnknownOption::Flag).options(&[&[with_arity("-c command", ValueArity::Rest, &[LAUNCH])]]).traits(ProgramTraits::RUNS_WORKSPACE),
    runner("pueue", &[run("add", &[&[flags("-ieu")]], JOINED_FIRST).unknown(UnknownOption::Either)]),
    program("ip", EXACT).syntax(STOPS).subcommands(&[runner("netns vrf net", &[run("exec", NONE, &[at(From(1), &[COMMAND])]).syntax(STOPS_AFTER_ONE)])]),
    program("perf", EXACT).syntax(STOPS).subcommands(&[run("stat record trace mem c2c lock sched kmem kvm ftrace", &[PERF], EXECUTED)]),
    runner("rustup", &[run("run", &[&[flags("install")]], SECOND).syntax(STOPS_AFTER_ONE)]).has_subcommands().version("--version -V")
        .options(&[&[flags("-vq verbose quiet")]]),
    run("watchman-make", &[&[values("-pst pattern settle target"), value("make run", &[PROGRAM])]], &[at(Argument, &[UNDETERMINED])]).guards_patterns(),
    program("hyperfine", EXACT).options(&[&[
        flags("-iN ignore-failure show-output"),
        values("-wmMruPLDn warmup min-runs max-runs runs time-unit parameter-scan parameter-list style sort input output export-json export-csv \
                export-markdown export-asciidoc command-name min-benchmarking-time"),
        value("-pscC prepare setup cleanup conclude reference", &[SHELL]), value("-S shell", &[UNDETERMINED]),
    ]]).operands(&[at(From(0), &[SHELL])]),
    program("concurrently", EXACT).options(&[&[flags("-kr kill-others raw"), values("-nc names prefix-colors")]]).operands(&[at(From(0), &[SHELL])]),
    program("nodemon", EXACT).guards_patterns().options(&[&[values("-ewCdI ext watch ignore"), value("-x exec", &[PROGRAM])]]),
    program("chokidar", EXACT).guards_patterns().options(&[&[values("-dtpi"), value("-c command", &[PROGRAM])]]),
    program("asciinema", EXACT).guards_patterns().options(&[&[values("-eIitq"), value("-c command", &[PROGRAM])]]),
    program("overmind", EXACT).subcommands(&[run("run", NONE, FIRST)]), program("terminalizer", EXACT).options(&[&[value("-d command", &[PROGRAM])]]),
    program("svg-term", EXACT).options(&[&[value("command", &[PROGRAM])]]),
    program("termtosvg", EXACT).guards_patterns().options(&[&[values("-DgmMst"), value("-c command", &[PROGRAM])]]),
    program("ttyrec", EXACT).guards_patterns().options(&[&[value("-e", &[PROGRAM])]]),
    program("execlineb", EXACT).guards_patterns().options(&[&[values("-s"), value("-c", &[PROGRAM])]]),
    program("sbatch", GNU).guards_patterns().options(&[&[values("-AaBbcCdDeFGiJkLmMnNopqStwx"), value("wrap", &[PROGRAM])]]),
    program("ansible", EXACT).guards_patterns().options(&[&[values("-BDefiIlmMPtTuv"), value("-a args", &[PROGRAM])]]),
    // Terminals start a command after `-e`, `--` or their options.
    program("alacritty foot gnome-terminal kgx kitty konsole lxterminal mate-terminal ptyxis rxvt st terminator tilix urxvt wezterm x-terminal-emulator \
             xfce4-terminal xterm screen", WordSyntax { stop: StopRule::AtOperand, ..ONE_DASH }).traits(ProgramTraits::RUNS_ELSEWHERE).options(&[&[
        with_arity("e x", ValueArity::Rest, &[held(ArgvFill::Plain, RunLocation::UnknownFolder, false).reason(TELLS)]), flags("ls list v"),
    ]]).operands(&[at(From(0), &[held(ArgvFill::Plain, RunLocation::UnknownFolder, false).reason(TELLS)]), at(Argument, &[UNDETERMINED])]),
    program("tmux", POSIX).traits(ProgramTraits::RUNS_ELSEWHERE).has_subcommands().options(&[&[flags("-2CDlNuvV"), values("-LST"), value("-f", &[UNDETERMINED]), value("-c", &[COMMANDS])]])
        .subcommands(&[
            program("ls list-sessions lsp list-panes lsw list-windows lsk list-keys lsc list-clients lsb list-buffers lscm list-commands has has-session \
                     show show-options showw show-window-options showb show-buffer showenv show-environment showmsgs show-messages info server-info display \
                     display-message displayp display-panes capturep capture-pane kill-server kill-session killp kill-pane killw kill-window selectw \
                     select-window selectp select-pane selectl select-layout rename rename-session renamew rename-window", ONE_DASH)
                .options(&[&[value("F f t", MULTIPLEXED)]]).operands(&[at(From(0), MULTIPLEXED)]).unknown(UnknownOption::Flag),
        ]).operands(&[
            at(Missing(0), &[EXACT_ONLY.when(NO_ARGUMENT), UNDETERMINED.when(ANY_OPTION)]),
            // Words that are sent or started: each may be a text for a shell.
            at(From(1), &[one_of("-*", &[], &[SHELL])]), at(Nth(0), &[UNDETERMINED]),
        ]),
];

/// `;` ends a command, and `#(…)` in a format is for a shell.
const MULTIPLEXED: &[ValueMeaning] = &[one_of("*; *#(*", &[UNDETERMINED], &[])];
