//! Archives and compression.

use crate::model::OperandPosition::*;
use crate::model::*;

const CREATES: ModeBits = mode_bit(0);
const EXTRACTS: ModeBits = mode_bit(1);
const TO_OUTPUT: ModeBits = mode_bit(2);
const REMOVES: ModeBits = mode_bit(3);
const ABSOLUTE: ModeBits = mode_bit(4);
const LISTS: ModeBits = mode_bit(5);

const CHECKPOINT_ACTION: KeyTable = KeyTable {
    separators: &['='], fold_case: false, alone: "", keys: &[key("exec", &[SHELL])], other: &[EXACT_ONLY],
};
const ANYWHERE: ValueMeaning = meaning(MeaningKind::WritesAnywhere);
const TAR: &[OptionSpec] = &[
    mode("-cruA create append update concatenate catenate delete", CREATES),
    mode("-x extract get", EXTRACTS),
    mode("-td list diff compare", LISTS),
    mode("-O to-stdout", TO_OUTPUT),
    mode("remove-files", REMOVES),
    mode("-P absolute-names", ABSOLUTE),
    flags("-aBhijJklmopsSvwzZ01234567 gzip bzip2 xz zstd verbose preserve-permissions same-owner totals dereference exclude-vcs numeric-owner \
           checkpoint wildcards auto-compress"),
    values("-bHKLNV exclude strip-components transform owner group mode mtime format label blocking-factor sort"),
    // Another program fetches an archive from another machine.
    value("-f file", &[WRITE.when(CREATES), READ.unless(CREATES), when(WordTest::Holds(":"), &[CHANGES], &[])]),
    value("-C directory", &[meaning(MeaningKind::OperandFolder), WRITE_INTO.when(EXTRACTS).unless(TO_OUTPUT)]),
    value("-g listed-incremental", &[WRITE]),
    value("-TX files-from exclude-from", &[READ]),
    value("index-file volno-file", &[WRITE]),
    attached("one-top-level", &[WRITE_INTO]),
    value("-IF to-command use-compress-program rsh-command rmt-command info-script new-volume-script", &[PROGRAM]),
    value("checkpoint-action", &[keys(&CHECKPOINT_ACTION)]),
];
const TAR_FILES: &[OperandSpec] = &[
    at(From(0), &[READ_TREE.when(CREATES), DELETE_TREE.when(CREATES | REMOVES)]),
    at(Always, &[ANYWHERE.when(EXTRACTS | ABSOLUTE).unless(TO_OUTPUT), CHANGES.unless(LISTS), CHANGES.when(CREATES), CHANGES.when(EXTRACTS)]),
];
const FILES: &[OperandSpec] = &[at(From(0), &[READ])];
const TAR_SYNTAX: WordSyntax = WordSyntax { first_word_letters: true, ..GNU };

pub(super) const ENTRIES: &[ProgramEntry] = &[
    program("tar", TAR_SYNTAX).family(NameFamily::Gnu).listed().guarded().version("--version").options(&[TAR]).operands(TAR_FILES),
    program("bsdtar", TAR_SYNTAX).guarded().options(&[TAR]).operands(TAR_FILES),
    // These replace their operands, or print.
    program("gzip gunzip bzip2 bunzip2 xz unxz", GNU).listed().guards_patterns()
        .options(&[&[flags("-123456789dfhknNqrvV decompress uncompress force keep quiet verbose"), mode("-ctl stdout to-stdout test list", TO_OUTPUT), values("-STM")]])
        .operands(&[at(From(0), &[WRITE_LOOSE.unless(TO_OUTPUT), CHANGES.unless(TO_OUTPUT), READ_TREE.when(TO_OUTPUT)])]),
    program("zcat bzcat xzcat zstdcat", GNU).total().operands(&[at(From(0), &[READ])]),
    program("zstd", GNU).guards_patterns().options(&[&[value("-o", &[WRITE])]]).operands(&[at(From(0), &[READ])]),
    program("zip", EXACT).guarded().options(&[&[
        flags("-0123456789AcdDefFghijJlLmoqrRsSTuvwXyz@"), value("=TT unzip-command", &[PROGRAM]), value("-O out", &[WRITE]), value("-b", &[WRITE_INTO]), values("-nPtx"),
    ]]).operands(&[at(Nth(0), &[WRITE]), at(From(1), &[READ_TREE])]),
    program("unzip", EXACT).listed().guards_patterns().options(&[&[
        mode("-lvtZz", LISTS), mode("-pc", TO_OUTPUT), act("-nofjaCLqsuUVWX", &[CHANGES]), values("-xP"), value("-d", &[WRITE_INTO]),
    ]]).operands(&[at(Nth(0), &[READ]), at(Always, &[CHANGES.unless(LISTS | TO_OUTPUT)])]),
    program("zipinfo", EXACT).total().operands(&[at(Nth(0), &[READ])]),
    program("7z 7za 7zz", ONE_DASH).guards_patterns().unknown(UnknownOption::Flag).options(&[&[attached("o", &[WRITE_INTO])]]).subcommands(&[
        program("l", ONE_DASH).listed().options(&[&[flags("slt ba r")]]).operands(FILES),
    ]),
    program("ar", WordSyntax { first_word_letters: true, ..EXACT }).listed().options(&[&[
        mode("-tp", LISTS), flags("-vOoP"), act("-acDdfilmNqrsSTuUVx", &[CHANGES]), value("plugin", &[UNDETERMINED]), values("target"),
    ]]).operands(&[at(Nth(0), &[READ, WRITE_LOOSE.unless(LISTS)]), at(Always, &[CHANGES.unless(LISTS)])]),
    program("cpio", GNU).guarded().options(&[&[values("-CDEFHIMORW"), value("rsh-command", &[PROGRAM])]]),
    program("mt", GNU).guards_patterns().options(&[&[values("-f"), value("rsh-command", &[PROGRAM])]]),
];
