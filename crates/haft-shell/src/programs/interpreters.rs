//! Interpreters of programming languages, and their modules.

use crate::model::OperandPosition::*;
use crate::model::TextLanguage::Code;
use crate::model::*;

const GIVEN: ModeBits = mode_bit(0);

const PYTHON: &[&str] = &[
    "system", "popen", "spawn", "exec", "subprocess", "fork", "pty", "eval", "__import__", "importlib", "ctypes", "getattr", "compile", "runpy",
];
const PERL: &[&str] = &[
    "system", "exec", "qx", "`", "fork", "eval", "popen", "readpipe", "open3", "open2", "\"|", "'|", "|\"", "|'", "require", "syscall",
];
const RUBY: &[&str] = &[
    "system", "exec", "%x", "`", "fork", "spawn", "popen", "open3", "Open3", "eval", "\"|", "'|", "send", "Fiddle", "load",
];
const NODE: &[&str] = &["child_process", "exec", "spawn", "fork", "eval", "Function(", "binding", "dlopen", "import(", "Worker"];
const PHP: &[&str] = &["system", "exec", "passthru", "popen", "proc_open", "`", "eval", "pcntl", "assert", "dl("];
const LUA: &[&str] = &["execute", "popen", "load", "dofile", "require"];
const TCL: &[&str] = &["exec", "open", "eval", "source", "load", "subst"];
const OTHER: &[&str] = &["system", "shell", "exec", "run", "spawn", "popen", "eval", "process", "Command", "System", "Process", "cmd", "open_port", "Port", "`"];

/// A script in a file, or code from standard input.
macro_rules! script_operands {
    ($signs:expr) => {
        &[
            at(Nth(0), &[script(Code($signs)).unless(GIVEN)]),
            at(Missing(0), &[needs_input(Code($signs)).when(NO_ARGUMENT), input(Code($signs)).unless(NO_ARGUMENT | GIVEN)]),
        ]
    };
}

/// An interpreter that takes code after some letters.
macro_rules! interpreter {
    ($names:expr, $signs:expr, $code:expr, $valued:expr) => {
        program($names, WordSyntax { digits: true, ..POSIX }).family(NameFamily::Versioned).unknown(UnknownOption::Flag)
            .options(&[&[value($code, &[text(Code($signs))]).sets(GIVEN), value($valued, &[DESCRIPTOR])]])
            .operands(script_operands!($signs)).traits(ProgramTraits::RUNS_SCRIPT)
    };
}

/// An interactive shell of an interpreter, where `!` starts a command.
const PYTHON_SHELL: &[&str] = &["!", "$(", "system", "popen", "spawn", "exec", "subprocess", "eval", "__import__", "importlib", "ctypes", "getattr", "compile"];
const PHP_SETTING: KeyTable = KeyTable {
    separators: &['='], fold_case: true, alone: "",
    keys: &[key("sendmail_path", &[SHELL]), key("auto_prepend_file auto_append_file extension zend_extension extension_dir ffi.preload", &[UNDETERMINED])],
    other: &[DESCRIPTOR],
};
const DESCRIPTOR: ValueMeaning = when(WordTest::Descriptor, &[UNDETERMINED], &[]);
const PYTHON_CODE: ValueMeaning = text(Code(PYTHON));

pub(super) const ENTRIES: &[ProgramEntry] = &[
    program("python pypy", POSIX).family(NameFamily::Versioned).version("--version -V").unknown(UnknownOption::Flag).traits(ProgramTraits::RUNS_SCRIPT).traits(ProgramTraits::IMPORTS_MODULES).options(&[&[
        flags("-bBdEhiIOPqsSuvx?"), value("-WX check-hash-based-pycs", &[DESCRIPTOR]),
        with_arity("-c", ValueArity::Rest, &[PYTHON_CODE]).sets(GIVEN), with_arity("-m", ValueArity::Rest, &[MODULE]).sets(GIVEN),
    ]]).operands(script_operands!(PYTHON)),
    // Modules that run the code in their arguments.
    program("-m:timeit", GNU).options(&[&[flags("-vpc"), values("-nru number repeat unit"), value("-s setup", &[PYTHON_CODE])]]).operands(&[at(From(0), &[PYTHON_CODE])]),
    program("-m:cProfile -m:profile -m:trace -m:runpy", POSIX).options(&[&[value("-o", &[WRITE]), values("-s"), with_arity("-m", ValueArity::Rest, &[MODULE])]]),
    program("-m:pdb -m:code -m:asyncio -m:idlelib", POSIX).options(&[&[value("-c", &[PYTHON_CODE.reason(TELLS), EXACT_ONLY])]]).operands(&[at(Missing(0), &[needs_input(Code(PYTHON))])]),
    interpreter!("perl", PERL, "-eEMmF", "-ICx").guards_patterns().version("--version").operands(&[
        at(Nth(0), &[script(Code(PERL)).unless(GIVEN)]), at(Missing(0), &[needs_input(Code(PERL)).when(NO_ARGUMENT), input(Code(PERL)).unless(NO_ARGUMENT | GIVEN)]),
        // A file name that begins or ends with `|` is a command for `<>`.
        at(From(0), &[one_of("|* *|", &[part(WordPart::Spaced('|'), &[SHELL]), UNDETERMINED], &[])]),
    ]),
    interpreter!("ruby irb", RUBY, "-e", "-rICEF").version("--version -v"),
    program("node nodejs", WordSyntax { clusters: false, ..POSIX }).version("--version -v").unknown(UnknownOption::Flag).traits(ProgramTraits::RUNS_SCRIPT).options(&[&[
        value("-e =pe eval", &[text(Code(NODE))]).sets(GIVEN), with_arity("-p print", ValueArity::Maybe, &[text(Code(NODE))]).sets(GIVEN), value("-C conditions", &[DESCRIPTOR]),
        value("-r require", &[DESCRIPTOR, prefixed("data:", &[UNDETERMINED], &[])]), value("import loader experimental-loader", &[prefixed("data:", &[UNDETERMINED], &[])]),
        flags("-cih check interactive"),
    ]]).operands(script_operands!(NODE)),
    program("deno", EXACT).version("--version -v -V").traits(ProgramTraits::RUNS_WORKSPACE).traits(ProgramTraits::RUNS_SCRIPT).subcommands(&[
        program("eval", EXACT).unknown(UnknownOption::Flag).operands(&[at(From(0), &[text(Code(&["Command", "run(", "child_process", "eval", "Function(", "import(", "dlopen"]))])]),
    ]),
    program("ts-node", EXACT).unknown(UnknownOption::Flag).traits(ProgramTraits::RUNS_SCRIPT),
    program("php", POSIX).traits(ProgramTraits::RUNS_SCRIPT).family(NameFamily::Versioned).version("--version -v").unknown(UnknownOption::Flag).options(&[&[
        value("-rBRE run process-code process-begin process-end", &[text(Code(PHP))]).sets(GIVEN), value("-czt", &[DESCRIPTOR]), value("-d define", &[keys(&PHP_SETTING)]), value("-fF file process-file", &[script(Code(PHP)), DESCRIPTOR]).sets(GIVEN),
    ]]).operands(script_operands!(PHP)),
    interpreter!("lua luajit", LUA, "-e", "-l"),
    interpreter!("osascript", OTHER, "-e", "-l"),
    interpreter!("Rscript R r littler", OTHER, "-e", "-g").options(&[&[value("-e", &[text(Code(OTHER))]).sets(GIVEN), value("-dg debugger", &[PROGRAM])]]),
    interpreter!("octave octave-cli", OTHER, "- eval", "-p"),
    interpreter!("erl escript iex", OTHER, "-e eval =eval", "-spn"),
    interpreter!("ghci runghc runhaskell", OTHER, "-e", "-i"),
    interpreter!("racket sbcl clisp ecl gsi csi chicken", OTHER, "-ex eval", "-fl"),
    interpreter!("clojure clj bb scala kotlin swift ocaml crystal nim", OTHER, "-e eval", "-i"),
    interpreter!("ipython ipython3 bpython", PYTHON_SHELL, "-c", "-m"),
    interpreter!("tsx coffee gjs qjs babel-node", NODE, "-ec eval", "-r"),
    interpreter!("zx", &["$", "child_process", "exec", "spawn"], "-e eval", "-r"),
    interpreter!("julia", OTHER, "-eE eval print", "-LJptH"),
    interpreter!("groovy jshell", OTHER, "-e", "-c"),
    interpreter!("elixir", OTHER, "-e eval", "-rS"),
    interpreter!("tclsh", TCL, "-", "-"),
    interpreter!("gnuplot", &["system", "!", "`", "|", "<"], "-e", "-s"),
    interpreter!("guile", OTHER, "-c", "-Ll"),
    program("java", ONE_DASH).guards_patterns().version("--version -version").unknown(UnknownOption::Flag).options(&[&[value("XX:OnError XX:OnOutOfMemoryError", &[PROGRAM])]]),
    program("javac", ONE_DASH).guards_patterns().version("--version -version").options(&[&[value("d s h", &[WRITE_INTO]), values("cp classpath source target release")]]),
];
