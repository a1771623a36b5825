//! Programs that read files or print information, and change nothing.

use crate::model::OperandPosition::*;
use crate::model::*;

const GIVEN: ModeBits = mode_bit(0);
const RECURSIVE: ModeBits = mode_bit(1);
const IN_PLACE: ModeBits = mode_bit(2);
const FORMATS: ModeBits = mode_bit(3);

/// A program that prints something and reads no files.
const fn prints(names: &'static str) -> ProgramEntry {
    program(names, GNU).total()
}

const FILES: &[OperandSpec] = &[at(From(0), &[READ])];
const TREES: &[OperandSpec] = &[at(From(0), &[READ_TREE]), at(Missing(0), &[HERE_TREE])];

/// A program that reads its operands.
const fn reads(names: &'static str, options: &'static [&'static [OptionSpec]]) -> ProgramEntry {
    program(names, GNU).total().options(options).operands(FILES)
}

const VERSION: OptionSpec = flags("version help");
const GREP: &[OptionSpec] = &[
    VERSION,
    flags("-aEFGhHiIlLnoPqsTUvVwxyzZcb0123456789 line-number files-with-matches count ignore-case only-matching"),
    values("-ABCDm max-count context after-context before-context include exclude exclude-dir label color colour binary-files"),
    mode("-rR recursive dereference-recursive", RECURSIVE),
    value("-d directories", &[]).sets(RECURSIVE),
    value("-e regexp", &[]).sets(GIVEN),
    value("-f file", &[READ]).sets(GIVEN),
    value("exclude-from", &[READ]),
];
const GREP_FILES: &[OperandSpec] = &[
    at(From(0), &[READ.when(GIVEN).unless(RECURSIVE), READ_TREE.when(GIVEN | RECURSIVE)]),
    at(From(1), &[READ.unless(GIVEN | RECURSIVE), READ_TREE.when(RECURSIVE).unless(GIVEN)]),
    at(Missing(0), &[HERE_TREE.when(GIVEN | RECURSIVE)]),
    at(Missing(1), &[HERE_TREE.when(RECURSIVE).unless(GIVEN)]),
];
const RG: &[OptionSpec] = &[
    flags("-acFHhilLnNoPpqsSuUvwx0. files-with-matches files-without-match count count-matches line-number no-line-number ignore-case \
           smart-case case-sensitive fixed-strings word-regexp line-regexp invert-match hidden no-ignore no-ignore-vcs json heading no-heading \
           multiline multiline-dotall only-matching quiet column trim vimgrep stats null pcre2 no-messages with-filename no-filename text \
           version no-config passthru type-list"),
    mode("files", GIVEN),
    values("-ABCgmtTMjErd glob iglob type type-not max-count max-depth max-filesize context after-context before-context color colors sort \
            sortr replace threads max-columns encoding"),
    value("-e regexp", &[]).sets(GIVEN),
    value("-f file", &[READ]).sets(GIVEN),
    value("ignore-file", &[READ]),
    value("pre hostname-bin", &[PROGRAM]),
];
const RG_FILES: &[OperandSpec] = &[
    at(From(0), &[READ_TREE.when(GIVEN)]),
    at(From(1), &[READ_TREE.unless(GIVEN)]),
    at(Missing(0), &[HERE_TREE]),
    at(Missing(1), &[HERE_TREE.unless(GIVEN)]),
];
const FD: &[OptionSpec] = &[
    flags("-HIusigaFLp01q hidden no-ignore no-ignore-vcs unrestricted case-sensitive ignore-case glob regex fixed-strings absolute-path follow \
           full-path print0 quiet version"),
    values("-dEteScj max-depth min-depth exact-depth exclude type extension size changed-within changed-before color threads max-results"),
    with_arity("-xX exec exec-batch", ValueArity::Until, &[held(ArgvFill::Braces, RunLocation::Here, false).reason(TELLS)]),
];
const SED_OPTIONS: &[OptionSpec] = &[
    flags("-nErsuzb quiet silent regexp-extended separate unbuffered null-data zero-terminated posix debug sandbox follow-symlinks binary"),
    attached("-i in-place", &[CHANGES_LISTED]).sets(IN_PLACE),
    values("-l line-length"),
    value("-e expression", &[text(TextLanguage::Sed)]).sets(GIVEN),
    value("-f file", &[script(TextLanguage::Sed), CHANGES]).sets(GIVEN),
    act("version help", &[CHANGES]),
];
const AWK_OPTIONS: &[OptionSpec] = &[
    values("-Fv field-separator assign"),
    value("-fE file exec", &[script(TextLanguage::Awk), CHANGES]).sets(GIVEN),
    value("-e source", &[text(TextLanguage::Awk), CHANGES]).sets(GIVEN),
    value("-il include load", &[UNDETERMINED]),
    attached("-oDpd dump-variables debug pretty-print profile", &[CHANGES]),
    attached("-W", &[UNDETERMINED]),
    act("-bcCghMnNOPrsStV version help sandbox", &[CHANGES]),
];
const FOUND: ValueMeaning = held(ArgvFill::Matches, RunLocation::Here, true);
const FOUND_ELSEWHERE: ValueMeaning = held(ArgvFill::Matches, RunLocation::UnknownFolder, true);
const FIND: &[OptionSpec] = &[
    flags("a and or o not print print0 prune depth mount xdev follow true false readable writable executable quit empty daystart noleaf warn \
           nowarn nouser nogroup H L P d x E s O0 O1 O2 O3"),
    mode("ls", FORMATS),
    values("name iname path ipath wholename iwholename regex iregex regextype type xtype maxdepth mindepth size mtime mmin atime amin ctime \
            cmin newermt newerct newerat perm user group uid gid links inum lname ilname used fstype"),
    values("printf").sets(FORMATS),
    value("newer anewer cnewer samefile newer??", &[READ]),
    value("files0-from", &[READ, CHANGES]).sets(FORMATS),
    value("fprint fprint0 fls", &[WRITE]),
    with_arity("fprintf", ValueArity::Two, &[WRITE]),
    with_arity("exec ok", ValueArity::Until, &[FOUND]).sets(FORMATS),
    with_arity("execdir okdir", ValueArity::Until, &[FOUND_ELSEWHERE]).sets(FORMATS),
    mode("delete", mode_bit(5)),
];
const DELETES: ModeBits = mode_bit(5);

pub(super) const ENTRIES: &[ProgramEntry] = &[
    prints("arch basename c++filt cal df dircolors dirname expr factor findmnt free getconf groups hostid id ipcs iostat locale logname lsblk lslocks \
            lsmem lsmod lsns lspci lsusb mountpoint mpstat pathchk pidof pmap printenv pstree pwdx sleep tput tr tty uname uptime users uuidgen vmstat w whereis \
            which whoami yes"),
    prints("nproc").operands(&[at(Always, &[NUMBERS])]),
    prints("seq").operands(&[at(Always, &[NUMBERS.unless(ANY_OPTION)])]),
    prints("numfmt").options(&[&[values("-d field format from to padding round suffix")]]),
    prints("lscpu").options(&[&[value("-s sysroot", &[READ_TREE])]]),
    prints("pgrep").options(&[&[values("-GOPUdgrstu"), value("-F pidfile", &[READ])]]),
    // The single operand is a file with login records; `who am i` has two operands.
    prints("who").operands(&[at(Nth(0), &[READ.unless(TWO_OPERANDS)])]),
    reads("b2sum cksum cmp col comm diffstat expand fmt md5sum nl pr readlink realpath rev sha1sum sha224sum sha256sum sha384sum sha512sum \
           shasum stat sum tac tsort unexpand join cat", &[]),
    program("bc", GNU).listed().options(&[&[flags("-hlqsw mathlib quiet standard warn")]]).operands(FILES),
    program("addr2line", GNU).listed().options(&[&[flags("-aCfips addresses demangle functions pretty-print"), value("-e exe", &[READ]), values("-j section")]]),
    program("tokei", GNU).listed().options(&[&[flags("-fCV files compact hidden no-ignore"), values("-esto exclude sort types output")]]).operands(TREES),
    program("eza exa", EXACT).listed().options(&[&[
        flags("-1GlRTxFaAdrDfbBghHimnuUSZ long grid all tree recurse oneline header git icons group-directories-first reverse only-dirs no-user no-time"),
        values("-LsIt level sort ignore-glob time color time-style"),
    ]]).operands(TREES),
    program("bat batcat", EXACT).listed().guards_patterns().options(&[&[
        flags("-pnAPuLS plain number show-all list-languages list-themes"), values("-lrH language line-range highlight-line style theme color decorations wrap tabs terminal-width"),
        value("pager", &[PROGRAM]), value("paging", &[one_of("never auto", &[], &[CHANGES])]), act("diff lessopen", &[CHANGES]),
    ]]).operands(FILES),
    program("yq", EXACT).listed().guarded().options(&[&[
        flags("-rPeCMNjnvV unwrapScalar prettyPrint exit-status colors no-colors no-doc null-input"), values("-opI output-format input-format indent"),
        act("-i inplace", &[CHANGES]), value("-s split-exp", &[CHANGES]), value("from-file", &[READ]),
    ]]).operands(&[at(From(0), &[when(WordTest::Holds("load import include system"), &[OPENS, CHANGES], &[READ])])]),
    program("top", EXACT).listed().options(&[&[flags("-bcHiSs1"), values("-dnopuUwE")]]).operands(&[at(From(0), &[CHANGES])]),
    program("mount", EXACT).listed().options(&[&[flags("-lv verbose show-labels"), values("-t")]]).operands(&[at(From(0), &[CHANGES])]),
    program("sysctl", EXACT).listed().options(&[&[flags("-aAenNb all names values")]]).operands(&[at(From(0), &[one_of("*=*", &[CHANGES], &[])])]),
    program("getent", EXACT).listed().operands(&[at(Nth(0), &[one_of("passwd group services protocols", &[], &[CHANGES])])]),
    program("gofmt", ONE_DASH).listed().options(&[&[flags("d l e s"), values("r"), act("w", &[CHANGES]), value("cpuprofile", &[WRITE])]]).operands(TREES),
    reads("base32 base64", &[&[values("-w wrap")]]),
    reads("column", &[&[values("-sotNRHEWcT")]]),
    reads("cut", &[&[values("-dfbc fields delimiter characters bytes output-delimiter")]]),
    reads("fold", &[&[values("-w width")]]),
    reads("paste", &[&[values("-d delimiters")]]),
    reads("head tail", &[&[values("-nc lines bytes pid"), flags("-fFqvrz")]]),
    reads("od", &[&[values("-AjNtw")]]),
    reads("hexdump hd", &[&[values("-ens"), value("-f format-file", &[READ]), flags("-bcCdovx")]]),
    reads("wc", &[&[flags("-clmwL lines words chars bytes"), value("files0-from", &[READ]).sets(GIVEN)]])
        .operands(&[at(From(0), &[READ]), at(Missing(0), &[NUMBERS.unless(GIVEN)])]),
    reads("strings", &[&[values("-net min-len radix encoding")]]).operands(&[at(From(0), &[prefixed("@", &[READ], &[READ])])]),
    program("jq", GNU).total().options(&[&[
        flags("-necrRsSCMaj compact-output raw-output slurp null-input raw-input sort-keys exit-status args jsonargs tab"),
        value("-L library-path", &[READ_TREE]), values("indent"), value("-f from-file", &[READ]).sets(GIVEN),
        with_arity("rawfile slurpfile", ValueArity::Two, &[part(WordPart::Second, &[READ])]),
        with_arity("arg argjson", ValueArity::Two, &[]),
    ]]).operands(&[
        at(Nth(0), &[when(WordTest::Holds("import include"), &[OPENS], &[]).unless(GIVEN), READ]),
        at(From(1), &[READ]),
    ]),
    program("du", GNU).total().options(&[&[
        flags("-abcDhHklLmPsSx0 human-readable summarize all"), values("-Bdt max-depth exclude block-size threshold time-style"), value("-X exclude-from files0-from", &[READ]),
    ]]).operands(TREES),
    program("ls dir vdir", GNU).total().options(&[&[
        flags("-aAbBcCdDfFgGhHiklLmnNopqQrsStuUvxXZ1 all almost-all human-readable"), mode("-R recursive", RECURSIVE), values("-ITw ignore tabsize width time-style sort time format color"),
    ]]).operands(&[
        at(From(0), &[READ.unless(RECURSIVE), READ_TREE.when(RECURSIVE)]),
        at(Missing(0), &[HERE.unless(RECURSIVE), HERE_TREE.when(RECURSIVE)]),
    ]),
    program("grep egrep fgrep", GNU).total().exit_one("nothing matches").options(&[GREP]).operands(GREP_FILES),
    // Without options that load a plug-in, or debug information from elsewhere.
    program("nm size", GNU).listed().options(&[&[
        flags("-aAbBCdDefghnoprsStTuvVx demangle dynamic defined-only undefined-only extern-only numeric-sort size-sort reverse-sort print-size"),
    ]]).operands(FILES),
    program("readelf", GNU).listed().options(&[&[flags("-aehlSsgtndVuAIcD all headers file-header program-headers sections symbols dyn-syms notes relocs dynamic")]]).operands(FILES),
    program("objdump", GNU).listed().options(&[&[
        flags("-adDfhHprRtTxsCz demangle disassemble disassemble-all all-headers archive-headers file-headers section-headers syms full-contents"), values("-jmM section architecture"),
    ]]).operands(FILES),
    program("hostname", GNU).listed().options(&[&[flags("-fsidIA fqdn short ip-address all-ip-addresses")]]).operands(&[at(From(0), &[CHANGES])]),
    program("date", GNU).listed().options(&[&[
        flags("-uRI utc universal iso-8601 rfc-email"), values("-d date rfc-3339"), value("-r reference", &[READ]), value("-f file", &[READ, CHANGES]),
        value("-s set", &[CHANGES]),
    ]]).operands(&[
        at(Nth(0), &[prefixed("+", &[one_of("%s %Y %m %d %H %M %S %j %u", &[NUMBERS], &[])], &[CHANGES])]), at(From(1), &[CHANGES]),
    ]),
    program("diff", GNU).listed().exit_one("they differ").options(&[&[
        flags("-abBcdeEinNpqrstTuwyZ brief recursive unified context side-by-side ignore-case ignore-all-space ignore-space-change \
               ignore-blank-lines new-file text minimal color suppress-common-lines report-identical-files no-dereference strip-trailing-cr \
               normal show-c-function"),
        values("-ICUxW exclude width label"), value("-SX exclude-from from-file to-file starting-file", &[READ, CHANGES]),
    ]]).operands(&[at(From(0), &[READ_TREE]), at(From(2), &[CHANGES]), at(Missing(0), &[HERE_TREE])]),
    program("file", GNU).listed().options(&[&[
        flags("-bhikLNnprs0 brief mime mime-type mime-encoding dereference no-dereference"), values("-eF"), value("-fm files-from magic-file", &[READ, CHANGES]),
    ]]).operands(FILES),
    program("ps", GNU).listed().options(&[&[flags("-AaefFlwxjHT forest no-headers"), values("-Copu sort format pid")]]).operands(&[at(From(1), &[CHANGES])]),
    program("ss", GNU).listed().options(&[&[flags("-HOnrlaptuwxsieomb460TSZz numeric listening all processes tcp udp summary info extended options memory no-header"), values("-fA")]])
        .operands(&[at(From(0), &[])]),
    program("netstat", GNU).listed().options(&[&[flags("-rigsMvWnNeopalFCtuUwx46 numeric listening all programs tcp udp route interfaces statistics")]]),
    program("lsof", EXACT).listed().options(&[&[flags("-abhlnNPRtTUvVwX"), values("-pucdg"), with_arity("-i", ValueArity::Maybe, &[])]]).operands(FILES),
    // Without options that follow `source` to other files.
    program("shellcheck", GNU).listed().guards_patterns().options(&[&[flags("-aV check-sourced version norc"), values("-CefisSWo color exclude format include shell severity enable")]]).operands(FILES),
    program("rg", GNU).listed().exit_one("nothing matches").guarded().options(&[RG]).operands(RG_FILES),
    program("fd fdfind", GNU).listed().guarded().options(&[FD]).operands(&[at(From(1), &[READ_TREE]), at(Missing(0), &[HERE_TREE]), at(Missing(1), &[HERE_TREE])]),
    program("sort", GNU).family(NameFamily::Gnu).listed().guarded().options(&[&[
        flags("-bdfgiMhnRrVcCmsuz reverse numeric-sort human-numeric-sort version-sort unique ignore-case ignore-leading-blanks stable check merge \
               zero-terminated general-numeric-sort month-sort random-sort dictionary-order"),
        values("-ktS key field-separator buffer-size parallel sort"),
        value("-o output", &[WRITE]), value("-T temporary-directory", &[WRITE_INTO]), value("files0-from random-source", &[READ, CHANGES]),
        value("compress-program", &[PROGRAM]),
    ]]).operands(FILES),
    program("tree", GNU).listed().guards_patterns().options(&[&[
        flags("-adflxpsugDFrtvcUAiqNQhCnSJX dirsfirst noreport du prune gitignore si"), values("-LPI filelimit charset"), values("-HT"),
        value("infofile gitfile", &[READ, CHANGES]), value("-o", &[WRITE]),
    ]]).operands(TREES),
    program("uniq", GNU).listed().guards_patterns().options(&[&[
        flags("-cdDiuz count repeated all-repeated ignore-case unique zero-terminated"), values("-fsw skip-fields skip-chars check-chars"),
    ]]).operands(&[at(Nth(0), &[READ]), at(Nth(1), &[WRITE])]),
    program("xxd", ONE_DASH).listed().guards_patterns().options(&[&[
        flags("a b e i p u E C bits postscript ps plain uppercase"), values("c g l s o cols groupsize len seek"), act("r revert", &[CHANGES]), values("R"),
    ]]).operands(&[at(Nth(0), &[READ]), at(Nth(1), &[WRITE])]),
    program("sed", GNU).family(NameFamily::Gnu).listed().traits(ProgramTraits::COMPLETE).guards_patterns().options(&[SED_OPTIONS]).operands(&[
        at(Nth(0), &[text(TextLanguage::Sed).unless(GIVEN)]),
        at(From(0), &[READ.when(GIVEN), WRITE_LOOSE.when(GIVEN | IN_PLACE)]),
        at(From(1), &[READ.unless(GIVEN), WRITE_LOOSE.when(IN_PLACE).unless(GIVEN)]),
    ]),
    program("awk gawk mawk nawk original-awk", WRAPPER).listed().unknown(UnknownOption::Flag).options(&[AWK_OPTIONS]).operands(&[
        at(Nth(0), &[text(TextLanguage::Awk).unless(GIVEN)]),
        at(Missing(0), &[CHANGES]),
        at(From(0), &[one_of("*=*", &[], &[READ]).when(GIVEN)]),
        at(From(1), &[one_of("*=*", &[], &[READ]).unless(GIVEN)]),
    ]),
    program("find", EXPRESSION).family(NameFamily::Gnu).listed().exit_one("not everything could be looked at").guarded().traits(ProgramTraits::SPECIAL).traits(ProgramTraits::STRICT_WORDS).options(&[FIND]).operands(&[
        at(From(0), &[READ_TREE, DELETE_MATCHES.when(DELETES)]),
        at(Missing(0), &[HERE_TREE, meaning(MeaningKind::At(".", &[DELETE_MATCHES])).when(DELETES)]),
        at(Always, &[meaning(MeaningKind::PrintsPaths).unless(FORMATS), EXACT_ONLY.reason("removes what it finds").when(DELETES)]),
    ]),
];
