//! Database clients.

use haft::effects::AccessKind::{Change, Observe};

use crate::model::AddressForm::{Address, Url};
use crate::model::OperandPosition::*;
use crate::model::TextLanguage::Commands;
use crate::model::*;

/// Commands may be abbreviated.
const SQLITE: CommandEscapes = CommandEscapes {
    shell: &[".shell", ".system"], anywhere: None, unread: &[".load", ".read", ".excel", ".import"], signs: &["load_extension", "edit("],
    plain: "", exact: false, abbreviated: true, pipes: Some("."),
};
const CLIENT: CommandEscapes = CommandEscapes {
    shell: &["system "], anywhere: Some("\\!"), unread: &[], signs: &["PROGRAM", "program '", "program $", "program e'", "\\o |", "\\o|", "\\g |", "\\g|", "\\gx |", "\\w |", "\\w|", "\\set", "\\P", "pager ", "edit"], plain: "", exact: false,
    abbreviated: false, pipes: None,
};
const STATEMENT: ValueMeaning = text(Commands(&CLIENT));
const SERVER: ValueMeaning = connect(Address, Change);

/// A client whose words may all be statements.
const fn client(names: &'static str, options: &'static [&'static [OptionSpec]], operands: &'static [OperandSpec]) -> ProgramEntry {
    program(names, EXACT).unknown(UnknownOption::Flag).options(options).operands(operands).input(STATEMENTS)
}
const STATEMENTS: &[ValueMeaning] = &[input(Commands(&CLIENT))];

pub(super) const ENTRIES: &[ProgramEntry] = &[
    program("sqlite3 sqlite sqlcipher duckdb", ONE_DASH).guards_patterns().unknown(UnknownOption::Flag).options(&[&[
        value("init", &[UNDETERMINED]), value("cmd c s", &[text(Commands(&SQLITE))]), values("separator newline nullvalue"),
    ]]).operands(&[at(Nth(0), &[WRITE]), at(From(0), &[text(Commands(&SQLITE))])]).input(&[input(Commands(&SQLITE))]),
    client("psql usql pgcli", &[&[
        values("-dFLpPRTUv dbname username port"), value("-o output", &[prefixed("|", &[SHELL], &[WRITE])]), value("-c command", &[STATEMENT]), value("-f file", &[READ]), value("-h host", &[SERVER]),
    ]], &[at(From(0), &[STATEMENT, connect(Url, Change)])]),
    client("mysql mariadb mycli", &[&[values("-DPSup database user port password"), value("pager", &[PROGRAM]), value("defaults-file defaults-extra-file init-command", &[UNDETERMINED]), value("-e execute", &[STATEMENT]), value("-h host", &[SERVER])]],
        &[at(From(0), &[STATEMENT, connect(Url, Change)])]),
    client("mysqldump", &[&[values("-DPSur"), value("-h host", &[connect(Address, Observe)])]], &[at(From(0), &[connect(Url, Observe)])]),
    client("pg_dump", &[&[values("-dfFUpnNtTEjZ"), value("-h host", &[connect(Address, Observe)])]], &[at(From(0), &[connect(Url, Observe)])]),
    client("mongosh", &[&[values("-pu"), value("host", &[SERVER]), value("eval", &[text(TextLanguage::Code(&["child_process", "run", "exec", "spawn", "eval", "load"]))])]], &[at(From(0), &[connect(Url, Change)])]),
    client("redis-cli", &[&[values("-apnirDx"), value("-hu", &[SERVER])]], &[at(From(0), &[connect(Url, Change)])]),
];
