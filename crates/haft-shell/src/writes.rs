//! Files that are named by options and operands of programs that do more than name files: `sort -o`, `curl -o`, `tar -C`.
//!
//! What is named is touched; the programs may touch more, so their effects stay unknown beside it. A write to a place
//! that is known only when it runs is *open*: only an exact rule allows such a command. Where a program writes below the
//! working directory without naming a place, nothing is said.

use super::{Open, Word, base_name, git_writes, marks, streams};

/// Files and folders that a command names, with whether all below is meant.
#[derive(Debug, Default)]
pub(super) struct Named {
    pub(super) writes: Vec<(Word, bool)>,
    pub(super) reads: Vec<(Word, bool)>,
    pub(super) deletes: Vec<(Word, bool)>,
    /// A folder that relative names count from.
    pub(super) base: Option<Word>,
}

impl Named {
    pub(super) fn write(&mut self, word: &Word, below: bool) {
        if !is_stream(word) {
            self.writes.push((word.clone(), below));
        }
    }

    fn read(&mut self, word: &Word, below: bool) {
        if !is_stream(word) {
            self.reads.push((word.clone(), below));
        }
    }

    /// A folder with all that is in it, unless it is the one that the command is in.
    pub(super) fn folder(&mut self, word: &Word) {
        if !matches!(word.literal(), Some("." | "./" | "")) {
            self.writes.push((word.clone(), true));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.reads.is_empty() && self.deletes.is_empty()
    }
}

/// Standard input and output, and what isn't a file.
fn is_stream(word: &Word) -> bool {
    word.literal().is_some_and(|text| matches!(text, "-" | "") || streams::is_stream(text))
}

/// Whether a word says where it leads. Operands that don't are left to the effects, which are unknown anyway.
fn is_place(word: &Word) -> bool {
    match word {
        Word::Literal(_) => true,
        Word::Dynamic(open) => open.shape.starts_with(marks::HOME),
    }
}

pub(super) fn literal(text: impl Into<String>) -> Word {
    Word::Literal(text.into())
}

/// A file below the home, which the shell would write with `~`.
pub(super) fn at_home(rest: &str) -> Word {
    Word::Dynamic(Open {
        written: format!("~{rest}"),
        shape: format!("{}{rest}", marks::HOME),
        splits: false,
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operands {
    /// Not files, or not known to be.
    Nothing,
    Read,
    Write,
    /// The first is read, the second written.
    Second,
    /// The first isn't a file, the others are changed.
    Rest,
    First,
    Last,
}

struct Writer {
    name: &'static str,
    /// Single letters with a value.
    valued: &'static str,
    /// Those that name a file to write, a folder to write into, and a file or folder to read.
    out: &'static str,
    dir: &'static str,
    input: &'static str,
    /// Long options, with two dashes or one.
    long_out: &'static [&'static str],
    long_dir: &'static [&'static str],
    long_in: &'static [&'static str],
    operands: Operands,
}

const fn writer(
    name: &'static str,
    valued: &'static str,
    out: &'static str,
    dir: &'static str,
    input: &'static str,
    long_out: &'static [&'static str],
    operands: Operands,
) -> Writer {
    Writer { name, valued, out, dir, input, long_out, long_dir: &[], long_in: &[], operands }
}

impl Writer {
    const fn dirs(mut self, names: &'static [&'static str]) -> Writer {
        self.long_dir = names;
        self
    }

    const fn ins(mut self, names: &'static [&'static str]) -> Writer {
        self.long_in = names;
        self
    }
}

use Operands::{First, Last, Nothing, Read, Rest, Second, Write};

/// A compiler: `-o` alone or with its value attached, and no clusters.
const fn compiler(name: &'static str) -> Writer {
    writer(name, "", "", "", "", &["-o", "-MF", "--output", "--out-dir", "-outdir"], Nothing)
}

const WRITERS: &[Writer] = &[
    compiler("as"),
    writer("bzip2", "", "", "", "", &[], Write),
    compiler("c++"),
    writer("cargo", "Cjp", "", "", "C", &[], Nothing)
        .dirs(&["--target-dir", "--root", "--out-dir", "--artifact-dir"])
        .ins(&["--manifest-path"]),
    compiler("cc"),
    writer("chgrp", "", "", "", "", &[], Rest),
    writer("chmod", "", "", "", "", &[], Rest),
    writer("chown", "", "", "", "", &[], Rest),
    compiler("clang"),
    compiler("clang++"),
    writer("convert", "", "", "", "", &[], Last),
    writer("csplit", "bfn", "", "", "", &[], Nothing),
    writer(
        "curl",
        "AbcCdDeEFhHKmoPQrtTuUwxXyYzZ",
        "oDc",
        "",
        "TK",
        &[
            "--output",
            "--dump-header",
            "--cookie-jar",
            "--trace",
            "--trace-ascii",
            "--stderr",
            "--etag-save",
            "--hsts",
            "--libcurl",
            "--alt-svc",
        ],
        Nothing,
    )
    .dirs(&["--output-dir"])
    .ins(&["--upload-file", "--config", "--cacert", "--cert", "--key", "--netrc-file"]),
    writer("dos2unix", "", "", "", "", &[], Write),
    writer("dot", "", "", "", "", &["-o"], Read),
    writer("ffmpeg", "", "", "", "", &[], Last).ins(&["-i"]),
    compiler("g++"),
    compiler("gcc"),
    writer("go", "", "", "", "", &["-o", "-cpuprofile", "-memprofile", "-coverprofile"], Nothing)
        .ins(&["-C"]),
    writer("gpg", "orua", "o", "", "", &["--output"], Read).dirs(&["--homedir"]),
    writer("gunzip", "", "", "", "", &[], Write),
    writer("gzip", "S", "", "", "", &[], Write),
    writer("iconv", "fto", "o", "", "", &["--output"], Read),
    writer("install", "gmoSt", "", "t", "", &[], Last).dirs(&["--target-directory"]),
    writer("javac", "", "", "", "", &[], Nothing).dirs(&["-d", "-s", "-h"]),
    compiler("ld"),
    writer("less", "bhjkopPtTxyz", "oO", "", "k", &["--log-file", "--LOG-FILE"], Read),
    writer("magick", "", "", "", "", &[], Last),
    writer("make", "CfIjloW", "", "", "Cf", &[], Nothing).ins(&["--directory", "--file", "--makefile"]),
    writer("mkfifo", "mZ", "", "", "", &[], Write),
    writer("mknod", "m", "", "", "", &[], First),
    writer("mktemp", "p", "", "p", "", &[], Nothing).dirs(&["--tmpdir"]),
    writer("npm", "Cw", "", "C", "", &[], Nothing).dirs(&["--prefix"]),
    writer("openssl", "", "", "", "", &["-out", "-keyout", "-outdir", "-writerand"], Nothing)
        .ins(&["-in", "-inkey", "-config"]),
    writer("pandoc", "ofrtVMHBAc", "o", "", "", &["--output", "--log", "--extract-media"], Read),
    writer("patch", "bBdDFgiopPrVYz", "or", "d", "i", &["--output", "--reject-file"], First)
        .dirs(&["--directory"])
        .ins(&["--input"]),
    writer("pip", "trdci", "", "td", "rc", &["--log", "--report"], Nothing)
        .dirs(&["--target", "--prefix", "--root", "--dest", "--src"])
        .ins(&["--requirement", "--constraint"]),
    writer("pip3", "trdci", "", "td", "rc", &["--log", "--report"], Nothing)
        .dirs(&["--target", "--prefix", "--root", "--dest", "--src"])
        .ins(&["--requirement", "--constraint"]),
    writer("pnpm", "CF", "", "C", "", &[], Nothing).dirs(&["--prefix", "--dir"]),
    compiler("rustc"),
    writer(
        "script",
        "cBIOTomE",
        "BOTI",
        "",
        "",
        &["--log-out", "--log-in", "--log-io", "--log-timing"],
        First,
    ),
    writer("sdiff", "oIW", "o", "", "", &["--output"], Read),
    writer("shred", "ns", "", "", "", &[], Write),
    writer("shuf", "ino", "o", "", "", &["--output"], Read),
    writer("sort", "kStTo", "o", "T", "", &["--output"], Read)
        .dirs(&["--temporary-directory"])
        .ins(&["--files0-from"]),
    writer("split", "abCln", "", "", "", &[], Nothing),
    writer("sqlite3", "", "", "", "", &[], First),
    writer("ssh", "BbcDEeFIiJLlmOopRSWw", "E", "", "iF", &[], Nothing),
    writer("ssh-keygen", "abCfFmNOPqrRtVwYz", "f", "", "", &[], Nothing),
    writer("strace", "aebEIoOpPsSuUX", "o", "", "", &["--output"], Nothing),
    writer("tree", "LPIHTo", "o", "", "", &[], Read),
    writer("truncate", "sr", "", "", "", &[], Write),
    writer("tsc", "", "", "", "", &["--outFile"], Nothing)
        .dirs(&["--outDir", "--declarationDir"])
        .ins(&["-p", "--project"]),
    writer("uniq", "fsw", "", "", "", &[], Second),
    writer("valgrind", "", "", "", "", &["--log-file", "--xml-file"], Nothing),
    writer(
        "wget",
        "aABDeGiIlloOPQRtTUwX",
        "aoO",
        "P",
        "i",
        &[
            "--output-document",
            "--output-file",
            "--append-output",
            "--save-cookies",
            "--warc-file",
            "--rejected-log",
        ],
        Nothing,
    )
    .dirs(&["--directory-prefix"])
    .ins(&["--input-file", "--post-file", "--body-file", "--load-cookies"]),
    writer("xxd", "clgosR", "", "", "", &[], Second),
    writer("xz", "STM", "", "", "", &[], Write),
    writer("zip", "bnPtx", "O", "b", "", &["--out"], First),
    writer("zstd", "o", "o", "", "", &[], Read),
];

fn entry(name: &str) -> Option<&'static Writer> {
    WRITERS.binary_search_by(|writer| writer.name.cmp(name)).ok().map(|at| &WRITERS[at])
}

/// Whether a program is one that names files in ways of its own.
pub(super) fn is_known(name: &str) -> bool {
    entry(name).is_some()
        || matches!(name, "tar" | "gtar" | "bsdtar" | "rsync" | "scp" | "unzip" | "dd" | "7z")
}

/// What a command names.
pub(super) fn named(argv: &[Word]) -> Named {
    let mut found = Named::default();
    let Some(name) = argv.first().and_then(Word::literal).map(base_name) else { return found };
    let arguments = &argv[1..];
    match name {
        "git" => git_writes::named(argv, &mut found),
        "find" => finds(arguments, &mut found),
        "tar" | "gtar" | "bsdtar" => tar(arguments, &mut found),
        "dd" => {
            for word in arguments {
                for (start, written) in [("of=", true), ("if=", false)] {
                    if word.prefix().starts_with(start) {
                        let file = without(word, start.len());
                        if written { found.write(&file, false) } else { found.read(&file, false) }
                    }
                }
            }
        }
        "rsync" | "scp" => copies(name, arguments, &mut found),
        "unzip" => unzip(arguments, &mut found),
        "7z" | "7za" | "7zz" => {
            for word in arguments.iter().filter(|word| word.prefix().starts_with("-o")) {
                found.folder(&without(word, 2));
            }
        }
        "unlink" => found.deletes.extend(arguments.iter().map(|word| (word.clone(), false))),
        _ => {
            if let Some(entry) = entry(name) {
                by_table(entry, arguments, &mut found);
            }
        }
    }
    found
}

/// What the options of a wrapper name, before the command that it starts.
pub(super) fn by_wrapper(argv: &[Word]) -> Named {
    let mut found = Named::default();
    let name = argv.first().and_then(Word::literal).map(base_name);
    if let Some(entry) = name.and_then(entry).filter(|entry| matches!(entry.name, "strace" | "valgrind")) {
        by_table(entry, &argv[1..], &mut found);
    }
    found
}

/// A word without so many bytes in front, all of which are known.
pub(super) fn without(word: &Word, front: usize) -> Word {
    match word {
        Word::Literal(text) => literal(&text[front..]),
        Word::Dynamic(open) => Word::Dynamic(Open {
            written: open.written.get(front..).unwrap_or_default().to_owned(),
            shape: open.shape[front..].to_owned(),
            splits: open.splits,
        }),
    }
}

fn by_table(entry: &Writer, arguments: &[Word], found: &mut Named) {
    let mut operands: Vec<&Word> = Vec::new();
    let mut at = 0;
    let mut ended = false;
    let mut below = false;
    let mut flags = String::new();
    let mut folder: Option<Word> = None;
    let mut prefix: Option<Word> = None;
    // Whether the name of what is fetched is given.
    let mut document = false;
    while let Some(word) = arguments.get(at) {
        at += 1;
        let text = word.prefix();
        if ended || text.len() < 2 || !text.starts_with('-') {
            operands.push(word);
            continue;
        }
        if text == "--" {
            ended = true;
            continue;
        }
        let (name, inline) = match text.split_once('=') {
            Some((name, _)) => (name, Some(without(word, name.len() + 1))),
            None => (text, None),
        };
        let begins = |full: &&str| {
            // Long names may be shortened; `-o` may have its value attached.
            *full == name || (name.len() > 3 && name.starts_with("--") && full.starts_with(name))
        };
        let lists = [entry.long_out, entry.long_dir, entry.long_in];
        if let Some(kind) = lists.iter().position(|list| list.iter().any(&begins)) {
            let value = inline.or_else(|| {
                at += 1;
                arguments.get(at - 1).cloned()
            });
            document |= name.len() > 10 && "--output-document".starts_with(name);
            take(kind, value.as_ref(), found, &mut folder);
            continue;
        }
        let attached = |list: &[&str]| {
            list.iter().any(|full| full.len() == 2 && text.starts_with(full) && !text.starts_with("--"))
        };
        if let Some(kind) = lists.iter().position(|list| attached(list)) {
            take(kind, Some(&without(word, 2)), found, &mut folder);
            continue;
        }
        if text.starts_with("--") {
            below |= text == "--recursive";
            continue;
        }
        let letters = &text[1..];
        let place = letters.find(|c| entry.valued.contains(c));
        flags.push_str(&letters[..place.unwrap_or(letters.len())]);
        let Some(place) = place else { continue };
        let letter = &letters[place..=place];
        let value = if place + 1 < letters.len() || word.literal().is_none() {
            Some(without(word, place + 2))
        } else {
            at += 1;
            arguments.get(at - 1).cloned()
        };
        if entry.name == "csplit" && letter == "f" {
            prefix = value;
        } else if entry.out.contains(letter) {
            document |= letter == "O";
            take(0, value.as_ref(), found, &mut folder);
        } else if entry.dir.contains(letter) {
            take(1, value.as_ref(), found, &mut folder);
        } else if entry.input.contains(letter) {
            take(2, value.as_ref(), found, &mut folder);
        }
    }
    below |= flags.contains('R');
    match entry.operands {
        Nothing => {}
        Read => operands.iter().for_each(|word| found.read(word, false)),
        Write => {
            let printed =
                flags.contains(['c', 't', 'l']) && matches!(entry.name, "gzip" | "gunzip" | "bzip2" | "xz");
            let known = operands.iter().filter(|word| is_place(word));
            known.for_each(|word| if printed { found.read(word, false) } else { found.write(word, below) });
        }
        Second => {
            operands.first().into_iter().for_each(|word| found.read(word, false));
            operands.get(1).into_iter().for_each(|word| found.write(word, false));
        }
        Rest => {
            operands.iter().skip(1).filter(|word| is_place(word)).for_each(|word| found.write(word, below))
        }
        First => {
            operands.first().into_iter().for_each(|word| found.write(word, false));
            operands.iter().skip(1).for_each(|word| found.read(word, true));
        }
        Last => {
            if let Some((last, others)) = operands.split_last() {
                let all_made = entry.name == "install" && flags.contains('d');
                if all_made {
                    operands.iter().for_each(|word| found.write(word, false));
                } else {
                    if folder.is_none() {
                        found.write(last, false);
                    } else {
                        found.read(last, false);
                    }
                    others.iter().for_each(|word| found.read(word, false));
                }
            }
        }
    }
    if !document && folder.is_none() {
        downloads(entry.name, arguments, &operands, &flags, found);
    }
    if entry.name == "curl" {
        sent(arguments, found);
    }
    match entry.name {
        // The names of the pieces begin with what is given, or with `x`.
        "split" => {
            operands.first().into_iter().for_each(|word| found.read(word, false));
            if let Some(prefix) = operands.get(1) {
                found.write(&pieces(prefix, "aa"), false);
            }
        }
        "csplit" => {
            operands.first().into_iter().for_each(|word| found.read(word, false));
            if let Some(prefix) = prefix {
                found.write(&pieces(&prefix, "00"), false);
            }
        }
        _ => {}
    }
}

fn take(kind: usize, value: Option<&Word>, found: &mut Named, folder: &mut Option<Word>) {
    let Some(value) = value else { return };
    match kind {
        0 => found.write(value, false),
        1 => {
            found.folder(value);
            *folder = Some(value.clone());
        }
        _ => found.read(value, false),
    }
}

fn pieces(prefix: &Word, end: &str) -> Word {
    match prefix {
        Word::Literal(text) => literal(format!("{text}{end}")),
        other => other.clone(),
    }
}

/// Files that are sent: `-d @file`, `-F name=@file`.
fn sent(arguments: &[Word], found: &mut Named) {
    for word in arguments {
        let text = word.prefix();
        let file = text.strip_prefix('@').or_else(|| text.split_once("=@").map(|(_, file)| file));
        let file = file.map(|file| file.split(';').next().unwrap_or(file));
        if let Some(file) = file.filter(|_| word.literal().is_some()) {
            found.read(&literal(file), false);
        }
    }
}

/// Files that are named by the address they come from.
fn downloads(program: &str, arguments: &[Word], operands: &[&Word], flags: &str, found: &mut Named) {
    let has = |names: &[&str]| {
        arguments.iter().any(|word| word.literal().is_some_and(|text| names.contains(&text)))
    };
    let named = match program {
        "curl" => flags.contains('O') || has(&["--remote-name", "--remote-name-all"]),
        "wget" => !has(&["--spider"]),
        _ => false,
    };
    if !named {
        return;
    }
    for word in operands {
        let Some(text) = word.literal() else { continue };
        let path = text.split_once("://").map_or(text, |(_, rest)| rest);
        let path = path.split(['?', '#']).next().unwrap_or(path);
        let name = path.split('/').skip(1).last().filter(|name| !name.is_empty()).unwrap_or("index.html");
        found.write(&literal(name), false);
    }
}

fn finds(arguments: &[Word], found: &mut Named) {
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.literal() {
            Some("-fprint" | "-fprint0" | "-fls" | "-fprintf") => {
                if let Some(file) = words.next() {
                    found.write(file, false);
                }
            }
            Some("-files0-from" | "-newer" | "-samefile") => {
                if let Some(file) = words.next() {
                    found.read(file, false);
                }
            }
            Some("-delete") => {
                let starts = |word: &&Word| !word.prefix().starts_with(['-', '(', '!', ',']);
                let places: Vec<(Word, bool)> =
                    arguments.iter().take_while(starts).map(|word| (word.clone(), true)).collect();
                found.deletes = if places.is_empty() { vec![(literal("."), true)] } else { places };
            }
            _ => {}
        }
    }
}

fn tar(arguments: &[Word], found: &mut Named) {
    const VALUED: &str = "bCfgHIKLNTVXF";
    let mut at = 0;
    let mut modes = String::new();
    let mut archive: Option<Word> = None;
    let mut folder: Option<Word> = None;
    let mut operands: Vec<Word> = Vec::new();
    let mut set = |letter: char, value: Option<&Word>, found: &mut Named| match (letter, value) {
        ('f', Some(value)) => archive = Some(value.clone()),
        ('C', Some(value)) => folder = Some(value.clone()),
        ('g', Some(value)) => found.write(value, false),
        ('T' | 'X', Some(value)) => found.read(value, false),
        _ => {}
    };
    while let Some(word) = arguments.get(at) {
        at += 1;
        let text = word.prefix();
        if let Some(long) = text.strip_prefix("--").filter(|long| !long.is_empty()) {
            let (name, inline) = match long.split_once('=') {
                Some((name, _)) => (name, Some(without(word, name.len() + 3))),
                None => (long, None),
            };
            let letter = match name {
                "file" => 'f',
                "directory" => 'C',
                "listed-incremental" => 'g',
                "files-from" => 'T',
                "exclude-from" => 'X',
                "index-file" | "volno-file" => 'o',
                "one-top-level" => {
                    if let Some(folder) = &inline {
                        found.folder(folder);
                    }
                    continue;
                }
                other => {
                    modes.push(match other {
                        "create" => 'c',
                        "extract" | "get" => 'x',
                        "append" => 'r',
                        "update" => 'u',
                        "concatenate" | "catenate" => 'A',
                        "delete" => 'D',
                        "to-stdout" => 'O',
                        "remove-files" => 'R',
                        "absolute-names" => 'P',
                        _ => ' ',
                    });
                    continue;
                }
            };
            let value = inline.or_else(|| {
                at += 1;
                arguments.get(at - 1).cloned()
            });
            match letter {
                'o' => value.iter().for_each(|file| found.write(file, false)),
                _ => set(letter, value.as_ref(), found),
            }
            continue;
        }
        let old = at == 1 && !text.starts_with('-');
        let Some(letters) = text.strip_prefix('-').or(old.then_some(text)) else {
            operands.push(word.clone());
            continue;
        };
        for (place, letter) in letters.char_indices() {
            if !VALUED.contains(letter) {
                modes.push(letter);
                continue;
            }
            let rest = place + letter.len_utf8();
            if !old && (rest < letters.len() || word.literal().is_none()) {
                set(letter, Some(&without(word, rest + 1)), found);
                break;
            }
            set(letter, arguments.get(at), found);
            at += 1;
        }
    }
    let makes = modes.contains(['c', 'r', 'u', 'A', 'D']);
    if let Some(archive) = archive {
        if makes { found.write(&archive, false) } else { found.read(&archive, false) }
    }
    if modes.contains('x') && !modes.contains('O') {
        if let Some(folder) = &folder {
            found.folder(folder);
        }
        if modes.contains('P') {
            // Names in the archive may lead anywhere.
            found.writes.push((Word::anything(), true));
        }
    }
    if makes {
        for word in operands {
            let word = match (&folder, word.literal()) {
                (Some(Word::Literal(folder)), Some(text)) => {
                    literal(format!("{}/{text}", folder.trim_end_matches('/')))
                }
                (Some(folder), _) => folder.clone(),
                (None, _) => word,
            };
            if modes.contains('R') {
                found.deletes.push((word.clone(), true));
            }
            found.read(&word, true);
        }
    }
}

/// The last place of a copy, if it is here, is written; the others that are here are read.
fn copies(name: &str, arguments: &[Word], found: &mut Named) {
    let valued: &[&str] = if name == "scp" {
        &["-D", "-F", "-J", "-P", "-S", "-X", "-c", "-i", "-l", "-o"]
    } else {
        &[
            "-B",
            "-M",
            "-T",
            "-e",
            "-f",
            "--rsh",
            "--exclude",
            "--include",
            "--filter",
            "--port",
            "--bwlimit",
            "--timeout",
        ]
    };
    let mut operands: Vec<&Word> = Vec::new();
    let mut words = arguments.iter();
    let mut removes = (false, false);
    while let Some(word) = words.next() {
        let text = word.prefix();
        let (option, inline) = match text.split_once('=') {
            Some((option, _)) if text.starts_with("--") => (option, Some(without(word, option.len() + 1))),
            _ => (text, None),
        };
        let value = |words: &mut std::slice::Iter<'_, Word>| inline.clone().or_else(|| words.next().cloned());
        match option {
            "--log-file" => value(&mut words).iter().for_each(|file| found.write(file, false)),
            "--backup-dir" | "--temp-dir" | "--partial-dir" | "--write-batch" | "--only-write-batch" => {
                value(&mut words).iter().for_each(|folder| found.folder(folder));
            }
            "--files-from" | "--exclude-from" | "--include-from" | "--password-file" | "--link-dest"
            | "--copy-dest" | "--compare-dest" | "--read-batch" => {
                value(&mut words).iter().for_each(|file| found.read(file, false))
            }
            "--remove-source-files" => removes.0 = true,
            _ if option.starts_with("--del") => removes.1 = true,
            _ if valued.contains(&option) && inline.is_none() => {
                words.next();
            }
            _ if text.len() > 1 && text.starts_with('-') => {}
            _ => operands.push(word),
        }
    }
    let here = |word: &Word| {
        let text = match word {
            Word::Literal(text) => text,
            Word::Dynamic(open) => &open.shape,
        };
        !text.contains("://") && !text.split('/').next().unwrap_or("").contains(':')
    };
    let Some((last, sources)) = operands.split_last() else { return };
    for source in sources.iter().filter(|word| here(word)) {
        found.read(source, true);
        if removes.0 {
            found.deletes.push(((*source).clone(), true));
        }
    }
    if sources.is_empty() {
        found.read(last, true);
    } else if here(last) {
        found.write(last, true);
        if removes.1 {
            found.deletes.push(((*last).clone(), true));
        }
    }
}

fn unzip(arguments: &[Word], found: &mut Named) {
    let mut words = arguments.iter();
    let mut archive = false;
    while let Some(word) = words.next() {
        let text = word.prefix();
        if text == "-d" {
            words.next().into_iter().for_each(|folder| found.folder(folder));
        } else if text.starts_with("-d") {
            found.folder(&without(word, 2));
        } else if !text.starts_with('-') && !std::mem::replace(&mut archive, true) {
            found.read(word, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted() {
        assert!(WRITERS.is_sorted_by(|a, b| a.name < b.name));
    }
}
