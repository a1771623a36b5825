//! Programs that create, copy, move, change and remove files.

use crate::model::OperandPosition::*;
use crate::model::*;

const RECURSIVE: ModeBits = mode_bit(0);
const ITSELF: ModeBits = mode_bit(1);
const LINKS: ModeBits = mode_bit(2);
const MAKES: ModeBits = mode_bit(3);
const INTO: ModeBits = mode_bit(4);

const TARGET: OptionSpec = value("-t target-directory", &[meaning(MeaningKind::Head)]).sets(INTO);
const FLAG_HELP: OptionSpec = flags("version help");

/// A program that changes only what its operands name.
const fn changes(names: &'static str) -> ProgramEntry {
    program(names, GNU).listed().traits(ProgramTraits::CHANGES_FILES).traits(ProgramTraits::PATTERNS_ARE_FILES)
}

/// A program that writes its operands and more.
const fn writes(names: &'static str) -> ProgramEntry {
    program(names, GNU).guards_patterns()
}

pub(super) const ENTRIES: &[ProgramEntry] = &[
    changes("rm").traits(ProgramTraits::SPECIAL).options(&[&[
        mode("-rR recursive", RECURSIVE), flags("-fivdIp force verbose interactive dir one-file-system no-preserve-root preserve-root"), FLAG_HELP,
    ]]).operands(&[at(From(0), &[DELETE.unless(RECURSIVE), DELETE_TREE.when(RECURSIVE)]), at(Always, &[EXCLUSIVE.when(RECURSIVE), CHANGES_LISTED])]),
    changes("rmdir").options(&[&[flags("-pv verbose parents ignore-fail-on-non-empty")]]).operands(&[at(From(0), &[DELETE]), at(Always, &[CHANGES_LISTED])]),
    program("unlink", GNU).operands(&[at(From(0), &[DELETE])]),
    changes("mkdir").options(&[&[flags("-pv parents verbose"), values("-m mode")]]).operands(&[at(From(0), &[WRITE_LOOSE]), at(Always, &[CHANGES_LISTED])]),
    changes("touch").options(&[&[flags("-acmfh no-create"), values("-dt date time")]]).operands(&[at(From(0), &[WRITE_LOOSE]), at(Always, &[CHANGES_LISTED])]),
    changes("tee").options(&[&[flags("-aip append")]]).operands(&[at(From(0), &[WRITE_LOOSE]), at(Always, &[CHANGES_LISTED])]),
    changes("cp").options(&[&[
        mode("-Rr recursive", RECURSIVE), mode("-a archive", RECURSIVE | LINKS), mode("-lsdP link symbolic-link", LINKS), mode("-T no-target-directory", ITSELF),
        flags("-finvupHLx force interactive no-clobber verbose update"), TARGET,
    ]]).operands(&[
        at(From(0), &[derived(DerivedPath::IntoTarget(PathExtent::File)).unless(ITSELF | RECURSIVE), derived(DerivedPath::IntoTarget(PathExtent::Tree)).when(RECURSIVE).unless(ITSELF)]),
        at(Last, &[WRITE.when(ITSELF).unless(RECURSIVE), WRITE_TREE.when(ITSELF | RECURSIVE)]),
        at(ButLast, &[READ.unless(RECURSIVE), READ_TREE.when(RECURSIVE)]),
        at(Last, &[READ.when(INTO).unless(RECURSIVE), READ_TREE.when(INTO | RECURSIVE)]),
        at(Always, &[EXCLUSIVE.when(RECURSIVE), EXCLUSIVE.when(LINKS), CHANGES_LISTED]),
    ]),
    changes("mv").options(&[&[flags("-finvu force interactive no-clobber verbose update"), mode("-T no-target-directory", ITSELF), TARGET]]).operands(&[
        at(From(0), &[derived(DerivedPath::IntoTarget(PathExtent::Tree)).unless(ITSELF)]),
        at(Last, &[WRITE_TREE.when(ITSELF), READ_TREE.when(INTO), MOVE_AWAY.when(INTO)]),
        at(ButLast, &[READ_TREE, MOVE_AWAY]),
        at(Always, &[EXCLUSIVE, CHANGES_LISTED]),
    ]),
    changes("ln").options(&[&[flags("-sfnvrih symbolic force no-dereference verbose relative"), mode("-T no-target-directory", ITSELF), TARGET]]).operands(&[
        at(From(0), &[derived(DerivedPath::IntoTarget(PathExtent::File)).when(TWO_OPERANDS).unless(ITSELF), derived(DerivedPath::IntoTarget(PathExtent::File)).when(INTO).unless(TWO_OPERANDS)]),
        at(Last, &[WRITE.when(ITSELF), READ_TREE.when(INTO)]),
        at(Nth(0), &[derived(DerivedPath::BaseName).unless(TWO_OPERANDS | INTO), READ_TREE.unless(TWO_OPERANDS)]),
        at(ButLast, &[READ_TREE]),
        at(Always, &[EXCLUSIVE, CHANGES_LISTED]),
    ]),
    writes("chmod chown chgrp").options(&[&[mode("-R recursive", RECURSIVE), flags("-cfvHLP"), value("reference", &[READ])]])
        .operands(&[at(From(1), &[WRITE_LOOSE.unless(RECURSIVE), meaning(MeaningKind::WriteLoose(PathExtent::Tree)).when(RECURSIVE)])]),
    writes("truncate").traits(ProgramTraits::PATTERNS_ARE_FILES).options(&[&[flags("-co"), values("-sr size reference")]]).operands(&[at(From(0), &[WRITE_LOOSE])]),
    writes("shred").options(&[&[flags("-fuvxz"), values("-ns iterations size random-source")]]).operands(&[at(From(0), &[WRITE_LOOSE])]),
    writes("dos2unix").operands(&[at(From(0), &[WRITE_LOOSE])]),
    writes("mkfifo").options(&[&[values("-mZ mode")]]).operands(&[at(From(0), &[WRITE_LOOSE])]),
    writes("mknod").options(&[&[values("-m mode")]]).operands(&[at(Nth(0), &[WRITE]), at(From(1), &[READ_TREE])]),
    writes("mktemp").options(&[&[flags("-duqt"), value("-p tmpdir", &[WRITE_INTO])]]),
    writes("install").options(&[&[
        flags("-bcCDpsv"), mode("-d directory", MAKES), values("-gmoS group mode owner suffix"), value("-t target-directory", &[WRITE_INTO]).sets(INTO),
        value("strip-program", &[PROGRAM]),
    ]]).operands(&[
        at(From(0), &[WRITE.when(MAKES)]), at(Last, &[WRITE.unless(MAKES | INTO), READ.when(INTO).unless(MAKES)]), at(ButLast, &[READ.unless(MAKES)]),
    ]),
    program("dd", EXACT).guards_patterns().operands(&[at(From(0), &[prefixed("of=", &[WRITE], &[]), prefixed("if=", &[READ], &[])])]),
    writes("split").guarded().options(&[&[flags("-dexuz"), values("-abCln"), value("filter", &[PROGRAM])]])
        .operands(&[at(Nth(0), &[READ]), at(Nth(1), &[derived(DerivedPath::PiecePrefix("aa"))])]),
    writes("csplit").options(&[&[flags("-kqsz"), values("-bn"), value("-f prefix", &[derived(DerivedPath::PiecePrefix("00"))])]]).operands(&[at(Nth(0), &[READ])]),
    writes("shuf").options(&[&[flags("-erz"), values("-in"), value("-o output", &[WRITE])]]).operands(&[at(From(0), &[READ])]),
    writes("iconv").options(&[&[flags("-cls"), values("-ft"), value("-o output", &[WRITE])]]).operands(&[at(From(0), &[READ])]),
    writes("patch").options(&[&[
        flags("-bceEflnNRstTuZ"), values("-BDFgpPVYz"), value("-or output reject-file", &[WRITE]), value("-d directory", &[WRITE_INTO]), value("-i input", &[READ]),
    ]]).operands(&[at(Nth(0), &[WRITE]), at(From(1), &[READ_TREE])]),
    writes("sdiff").options(&[&[flags("-abBdEilstwZ"), values("-IW"), value("-o output", &[WRITE]), value("diff-program", &[PROGRAM])]]).operands(&[at(From(0), &[READ])]),
    writes("diff3").options(&[&[values("-L"), value("diff-program", &[PROGRAM])]]),
    writes("convert magick").operands(&[at(Last, &[WRITE]), at(ButLast, &[READ]), at(From(0), &[prefixed("|", &[SHELL], &[])])]),
    program("ffmpeg", ONE_DASH).guards_patterns().unknown(UnknownOption::Flag).options(&[&[value("i", &[READ])]]).operands(&[at(Last, &[WRITE]), at(ButLast, &[READ])]),
    program("dot", ONE_DASH).guards_patterns().options(&[&[value("o", &[WRITE])]]).operands(&[at(From(0), &[READ])]),
    writes("pandoc").options(&[&[
        values("-frtVMHBAcDwT"), value("-o output log extract-media", &[WRITE]), value("-FL filter lua-filter pdf-engine", &[PROGRAM]),
    ]]).operands(&[at(From(0), &[READ])]),
    writes("gpg").version("--version").unknown(UnknownOption::Flag).options(&[&[
        values("-ru"), flags("-abdesv"), value("-o output", &[WRITE]), value("homedir", &[WRITE_INTO]),
        value("photo-viewer agent-program dirmngr-program keyboxd-program", &[PROGRAM]),
    ]]).operands(&[at(From(0), &[READ])]),
    program("openssl", ONE_DASH).guards_patterns().unknown(UnknownOption::Flag).options(&[&[
        value("out keyout outdir writerand", &[WRITE]), value("in inkey config", &[READ]),
        value("connect proxy host", &[connect(AddressForm::Address, haft::effects::AccessKind::Change)]),
    ]]).version("version").has_subcommands().subcommands(&[
        program("rand", ONE_DASH).listed().options(&[&[flags("hex base64"), value("out writerand", &[WRITE])]]),
        program("dgst md5 sha1 sha256 sha512", ONE_DASH).listed().options(&[&[
            flags("md5 sha1 sha256 sha384 sha512 hex c r"), value("out writerand", &[WRITE]),
        ]]).operands(&[at(From(0), &[READ])]),
        program("x509", ONE_DASH).listed().options(&[&[
            flags("text noout subject issuer dates startdate enddate fingerprint serial modulus pubkey hash sha256"), values("inform"), value("in", &[READ]), value("out writerand", &[WRITE]),
        ]]),
    ]),
    writes("ssh-keygen").options(&[&[values("-abCFmNOPrRtVwYz"), flags("-Bcehgiklqvy"), value("-f", &[WRITE])]]),
];
