//! Shells and their built-in commands.

use crate::model::OperandPosition::*;
use crate::model::*;

const LOOKUP: ModeBits = mode_bit(0);
const TEXT_GIVEN: ModeBits = mode_bit(1);
const READS_INPUT: ModeBits = mode_bit(2);
const CHECKS: ModeBits = mode_bit(3);

const LOSES_DIRECTORY: ValueMeaning = meaning(MeaningKind::LosesDirectory);
const CHANGE_DIRECTORY: ValueMeaning = meaning(MeaningKind::ChangeDirectory);
const VARIABLE_NAME: ValueMeaning = meaning(MeaningKind::VariableName);

/// A built-in command that reads no files and sets nothing.
const fn builtin(names: &'static str) -> ProgramEntry {
    program(names, POSIX).total().unknown(UnknownOption::Flag)
}

/// A built-in command that sets variables or shell options.
const fn setter(names: &'static str, syntax: WordSyntax) -> ProgramEntry {
    program(names, syntax).total().unknown(UnknownOption::ShellState)
}

const SHELL_OPTIONS: &[OptionSpec] = &[
    act("-il login", &[CHANGES]),
    mode("-n", CHECKS),
    flags("-abefhkmprtuvxBCDEHPT norc noprofile posix restricted verbose debugger dump-strings"),
    mode("-c", TEXT_GIVEN),
    mode("-s", READS_INPUT),
    with_arity("-oO", ValueArity::Next, &[]),
    value("rcfile init-file", &[SHELL_STATE]),
];
const SHELL_SYNTAX: WordSyntax = WordSyntax { plus: PlusWords::Options, ..POSIX };

const SHELL_INPUT: ValueMeaning = COMMANDS_IN.unless(TEXT_GIVEN);

/// A shell with another grammar.
const fn foreign_shell(names: &'static str) -> ProgramEntry {
    program(names, WRAPPER).unknown(UnknownOption::Doubt)
        .operands(FOREIGN).traits(ProgramTraits::RUNS_SCRIPT)
}
const FOREIGN: &[OperandSpec] = &[at(Argument, &[UNDETERMINED.reason("starts another command")]), at(Missing(0), &[COMMANDS_IN.when(NO_ARGUMENT)])];

pub(super) const ENTRIES: &[ProgramEntry] = &[
    builtin(": break continue dirs echo exit false pwd return shift times true type ulimit umask"),
    program("cd", POSIX).total().unknown(UnknownOption::Flag).traits(ProgramTraits::SPECIAL).options(&[&[act("-LPe@", &[LOSES_DIRECTORY])]]).operands(&[
        at(Nth(0), &[when(WordTest::Hidden, &[CHANGE_DIRECTORY], &[one_of("-", &[LOSES_DIRECTORY], &[CHANGE_DIRECTORY])])]),
        at(Always, &[LOSES_DIRECTORY.when(ANY_OPTION), LOSES_DIRECTORY.when(DASHES)]),
        at(Missing(0), &[CHANGE_DIRECTORY]),
        at(From(1), &[LOSES_DIRECTORY]),
    ]),
    builtin("pushd popd").traits(ProgramTraits::SPECIAL).operands(&[at(Always, &[LOSES_DIRECTORY])]),
    setter("export readonly declare typeset local", WordSyntax { plus: PlusWords::Options, ..EXACT }).traits(ProgramTraits::SPECIAL)
        .options(&[&[flags("-gxraAlupfF")]]).operands(&[at(From(0), &[VARIABLE])]),
    setter("read", POSIX).options(&[&[flags("-ersz"), values("-dinNptu"), value("-a", &[VARIABLE])]]).operands(&[at(From(0), &[VARIABLE])]),
    setter("mapfile readarray", POSIX).options(&[&[flags("-t"), values("-dnOsuc"), value("-C", &[UNDETERMINED.reason("starts another command")])]])
        .operands(&[at(From(0), &[VARIABLE])]),
    setter("unset", POSIX).options(&[&[flags("-fvn")]]).operands(&[at(From(0), &[VARIABLE])]),
    builtin("getopts").operands(&[at(Nth(1), &[VARIABLE])]),
    program("let", POSIX).operands(&[at(Always, &[SHELL_STATE])]),
    builtin("printf").unknown(UnknownOption::ShellState).traits(ProgramTraits::STRICT_WORDS).options(&[&[value("-v", &[VARIABLE]), flags("-%")]]),
    builtin("wait").unknown(UnknownOption::ShellState).traits(ProgramTraits::STRICT_WORDS).options(&[&[value("-p", &[VARIABLE]), flags("-nf")]]),
    // `-v` evaluates a subscript.
    program("test [", ONE_DASH).total().exit_one("it is not so").unknown(UnknownOption::Flag).options(&[&[value("v", &[VARIABLE_NAME])]]),
    program("set", WordSyntax { plus: PlusWords::Options, ..POSIX }).total().unknown(UnknownOption::ShellState).options(&[&[
        flags("-euxfnvCm"),
        with_arity("-o", ValueArity::Next, &[one_of("pipefail errexit nounset xtrace noglob noclobber errtrace functrace", &[], &[SHELL_STATE])]),
    ]]).operands(&[at(Nth(0), &[hidden(&[SHELL_STATE.unless(DASHES)])])]),
    program("shopt", EXACT).total().unknown(UnknownOption::ShellState).options(&[&[flags("-suqp")]])
        .operands(&[at(From(0), &[one_of("nullglob globstar dotglob failglob nocaseglob inherit_errexit", &[], &[SHELL_STATE])])]),
    program("eval", POSIX).traits(ProgramTraits::SPECIAL).traits(ProgramTraits::QUIET)
        .operands(&[at(From(0), &[meaning(MeaningKind::Joined(TextLanguage::ThisShell)).reason(RUNS_GIVEN)]), at(Missing(0), &[EXACT_ONLY.reason(RUNS_GIVEN)])]).total(),
    // The activation script of a virtual environment sets variables for later programs, and is otherwise an
    // ordinary program.
    program("source .", POSIX).traits(ProgramTraits::SPECIAL).traits(ProgramTraits::RUNS_SCRIPT).operands(&[
        at(Nth(0), &[when(WordTest::Outside, &[SHELL_STATE], &[one_of("*/bin/activate", &[EXACT_ONLY.reason("takes commands from elsewhere"), READ], &[SHELL_STATE])]), LOSES_DIRECTORY]),
        at(Missing(0), &[SHELL_STATE, LOSES_DIRECTORY]),
    ]),
    program("fc enable bind", POSIX).operands(&[at(Always, &[SHELL_STATE])]),
    program("alias", POSIX).traits(ProgramTraits::SPECIAL).operands(&[at(From(0), &[one_of("*=*", &[SHELL_STATE], &[])])]),
    program("hash", POSIX).operands(&[at(Argument, &[SHELL_STATE])]),
    program("jobs", POSIX).options(&[&[flags("-lnprs"), with_arity("-x", ValueArity::Rest, &[COMMAND])]]),
    program("compgen complete", EXACT).unknown(UnknownOption::Flag).traits(ProgramTraits::STRICT_WORDS).options(&[&[
        values("-oAGXPSV"),
        value("-W", &[text(TextLanguage::ShellWords)]),
        value("-CF", &[UNDETERMINED.reason("starts another command")]),
    ]]).operands(&[at(From(0), &[])]),
    program("trap", POSIX).traits(ProgramTraits::SPECIAL).options(&[&[flags("-lp")]]).operands(&[
        at(Nth(0), &[
            one_of("- ''", &[], &[text(TextLanguage::Deferred).reason(RUNS_GIVEN)]).when(TWO_OPERANDS),
            hidden(&[UNDETERMINED.reason("starts another command")]).unless(TWO_OPERANDS),
        ]),
    ]),
    program("command", POSIX).total().options(&[&[flags("-p"), mode("-vV", LOOKUP)]]).unknown(UnknownOption::Doubt)
        .operands(&[at(From(0), &[COMMAND_PAST.unless(LOOKUP)])]),
    program("builtin noglob", POSIX).unknown(UnknownOption::Doubt).operands(&[at(From(0), &[COMMAND_PAST])]),
    program("exec", POSIX).unknown(UnknownOption::Doubt).options(&[&[flags("-cl"), values("-a")]]).operands(&[at(From(0), &[COMMAND])]),
    program("sh bash dash ash ksh mksh rbash", SHELL_SYNTAX).listed().unknown(UnknownOption::Doubt).traits(ProgramTraits::SPECIAL).traits(ProgramTraits::QUIET)
        .traits(ProgramTraits::RUNS_SCRIPT).options(&[SHELL_OPTIONS]).operands(&[
            at(Nth(0), &[
                COMMANDS.when(TEXT_GIVEN),
                script(TextLanguage::Shell).reason(RUNS_GIVEN).unless(TEXT_GIVEN).unless(READS_INPUT),
                when(WordTest::Hidden, &[UNDETERMINED.reason("starts another command")], &[CHANGES.unless(CHECKS), CHANGES.when(PLUS_OPTION)]).unless(TEXT_GIVEN),
                SHELL_INPUT.when(READS_INPUT),
            ]),
            at(Missing(0), &[SHELL_INPUT, UNDETERMINED.reason("starts another command").when(TEXT_GIVEN)]),
        ]),
    foreign_shell("zsh fish csh tcsh pwsh powershell cmd nu xonsh elvish yash osh ysh rc es"),
    program("expect run-parts", WRAPPER).operands(&[at(Argument, &[UNDETERMINED.reason("starts another command")])]),
];
