//! Editors, pagers, debuggers and other programs with commands of their own.

use crate::model::OperandPosition::*;
use crate::model::TextLanguage::{Commands, Macros};
use crate::model::*;

const SILENT: ModeBits = mode_bit(0);
const FILE_GIVEN: ModeBits = mode_bit(1);

const PLAIN: CommandEscapes = CommandEscapes {
    shell: &[], anywhere: None, unread: &[], signs: &[], plain: "", exact: false, abbreviated: false, pipes: None,
};
const EX: CommandEscapes = CommandEscapes {
    shell: &["!"], plain: "q,q!,qa,qa!,wq,wqa,x,xa,w,wa,noswapfile,#,/…,set …", ..PLAIN
};
/// The text after a `!` is for a shell, anywhere in a line: `!x`, `r !x`, `g/a/!x`.
const BANGS: CommandEscapes = CommandEscapes { anywhere: Some("!"), unread: &["shell ", "system", "pipe", "python"], ..PLAIN };
const LESS: CommandEscapes = CommandEscapes { shell: &["!", "+!"], signs: &["!", "|"], ..PLAIN };
const DEBUGGER: CommandEscapes = CommandEscapes {
    shell: &["shell ", "!", "platform shell "],
    unread: &["python", "py ", "pi ", "source", "pipe", "|", "guile", "script", "make", "eval", "compile", "define", "run", "start", "target", "command", "sh "],
    exact: true,
    abbreviated: true,
    ..PLAIN
};
const EX_COMMAND: ValueMeaning = text(Commands(&EX));

pub(super) const ENTRIES: &[ProgramEntry] = &[
    program("vim vi nvim view gvim vimdiff", WordSyntax { plus: PlusWords::Value(&[EX_COMMAND]), ..EXACT }).guards_patterns().unknown(UnknownOption::Flag).options(&[&[
        flags("-vdyRZmMbCNnAHFhXgfLoOp noplugin clean"), value("-l remote-expr remote-send", &[UNDETERMINED]), mode("-eE", SILENT), values("-tTVir"), value("-c cmd", &[EX_COMMAND]), act("-s", &[UNDETERMINED.unless(SILENT)]),
        value("-SuUWw", &[UNDETERMINED]),
    ]]).input(&[input(Commands(&BANGS)).when(SILENT)]),
    program("ex", WordSyntax { plus: PlusWords::Value(&[EX_COMMAND]), ..EXACT }).unknown(UnknownOption::Flag).options(&[&[
        flags("-vyRZmMblCNnAHFhXgfLoOp noplugin clean"), act("-s", &[UNDETERMINED]), values("-tTVir"), value("-c cmd", &[EX_COMMAND]), value("-SuUWw", &[UNDETERMINED]),
    ]]).input(&[input(Commands(&BANGS))]),
    program("less", WordSyntax { plus: PlusWords::Value(&[text(Commands(&LESS))]), ..EXACT }).guards_patterns().unknown(UnknownOption::Flag).options(&[&[
        values("-bhjpPtTxyz"), value("-oO log-file LOG-FILE", &[WRITE]), value("-k lesskey-file lesskey-src", &[READ]), value("lesskey-content", &[UNDETERMINED]), value("cmd", &[text(Commands(&LESS))]),
    ]]).operands(&[at(From(0), &[READ])]),
    program("more", WordSyntax { plus: PlusWords::Value(&[text(Commands(&LESS))]), ..EXACT }),
    program("emacs emacsclient", ONE_DASH).unknown(UnknownOption::Flag).options(&[&[value("eval e f funcall l load script x execute", &[UNDETERMINED]), value("a alternate-editor", &[PROGRAM])]]),
    program("nano", EXACT).guards_patterns().options(&[&[values("-CJQTXYor"), value("-s speller", &[PROGRAM])]]),
    program("gdb lldb", WordSyntax { abbreviations: true, ..ONE_DASH }).guards_patterns().unknown(UnknownOption::Flag).options(&[&[
        flags("batch q quiet nx n nh silent w tui batch-silent"), value("ex eval-command iex init-eval-command o one-line O k", &[text(Commands(&DEBUGGER))]),
        value("x command ix init-command s source", &[UNDETERMINED]), value("cd", &[READ]), values("p pid c core"),
        with_arity("args", ValueArity::Rest, &[held(ArgvFill::Plain, RunLocation::Here, false).reason(TELLS)]),
    ]]).input(&[input(Commands(&BANGS))]),
    program("ed red", EXACT).input(&[needs_input(Commands(&BANGS))]),
    program("dc", GNU).options(&[&[
        value("-e expression", &[text(Commands(&BANGS)), hidden(&[UNDETERMINED])]), value("-f file", &[script(Commands(&BANGS))]), values("-I"),
    ]]).input(&[input(Commands(&BANGS)), needs_input(Commands(&BANGS)).when(NO_ARGUMENT)]),
    program("lftp", EXACT).options(&[&[value("-ec", &[text(Commands(&BANGS)), when(WordTest::Holds("connect-program set source repeat queue"), &[UNDETERMINED], &[])]), value("-f", &[UNDETERMINED])]]).input(&[input(Commands(&BANGS))]),
    program("mail mailx mutt neomutt", EXACT).options(&[&[values("-scbrqaA"), value("-E exec", &[text(Commands(&BANGS))]), value("-SeF set", &[UNDETERMINED])]]).input(&[input(Commands(&BANGS))]),
    program("kak jed", ONE_DASH).unknown(UnknownOption::Flag).options(&[&[value("e E f eval p", &[UNDETERMINED])]]),
    program("m4", GNU).options(&[&[value("-D define", &[text(Macros)]), values("-IULFotlBd")]]).operands(&[
        at(From(0), &[script(Macros)]), at(Missing(0), &[needs_input(Macros)]),
    ]),
    program("man", GNU).guarded().options(&[&[
        flags("-adDfhIiklKtuVwWcZ7"), values("-LMRSersTX"), value("-C config-file", &[READ, UNDETERMINED]), value("-P pager", &[PROGRAM]), attached("-H html", &[PROGRAM, EXACT_ONLY]).sets(FILE_GIVEN),
    ]]).operands(&[at(Always, &[EXACT_ONLY.when(FILE_GIVEN)])]),
    program("ack ag ugrep ug", EXACT).guards_patterns().options(&[&[values("-ABCfgmxGpW"), value("pager view", &[PROGRAM]), value("filter", &[part(WordPart::After(":"), &[PROGRAM])])]]),
    program("gs", ONE_DASH).unknown(UnknownOption::Flag).options(&[&[value("c", &[UNDETERMINED]), value("s", &[when(WordTest::Holds("%pipe% =|"), &[UNDETERMINED], &[])])]]),
    program("peco feh", EXACT).unknown(UnknownOption::Flag).options(&[&[value("exec action", &[PROGRAM])]]),
    program("delta", EXACT).guards_patterns().options(&[&[value("pager", &[PROGRAM])]]),
    program("fzf sk", EXACT).guards_patterns().unknown(UnknownOption::Flag).options(&[&[value("preview", &[PROGRAM]), value("with-shell", &[PROGRAM]), value("-c cmd", &[SHELL]), value("bind", &[UNDETERMINED])]]),
    program("pdflatex latex xelatex lualatex tex pdftex", ONE_DASH).unknown(UnknownOption::Flag).options(&[&[act("shell-escape enable-write18", &[UNDETERMINED])]]),
    program("bpftrace", EXACT).guards_patterns().options(&[&[values("-BdefIlop"), value("-c", &[PROGRAM]), act("unsafe", &[UNDETERMINED])]]),
    program("tcpdump", EXACT).guards_patterns().options(&[&[values("-BcCEFGijmMQrsTVwWy"), value("-z", &[PROGRAM])]]),
];
