//! git: the options of its sub-commands, and how much of a repository each of them writes. The programs
//! that its settings start are in `haft-git`.

use haft::effects::AccessKind::{Change, Observe};

use crate::model::AddressForm::Remote;
use crate::model::OperandPosition::*;
use crate::model::*;
use haft_git::keys::KeyEffect;

const UPSTREAM: ModeBits = mode_bit(0);
const LISTING: ModeBits = mode_bit(1);
const WIDE: ModeBits = mode_bit(2);
const LOOKS: ModeBits = mode_bit(3);
const EDITS: ModeBits = mode_bit(4);
const ELSEWHERE: ModeBits = mode_bit(5);

const RUNS: &[ValueMeaning] = &[one_of("'' true false cat", &[], &[PROGRAM])];
/// A program after `!`, or by an absolute path; otherwise one of git's own by its name.
const HELPER: &[ValueMeaning] = &[prefixed("!", &[PROGRAM], &[one_of("/*", &[PROGRAM], &[when(WordTest::SeveralWords, &[UNDETERMINED], &[])])])];
const MONITOR: &[ValueMeaning] = &[one_of("'' true false 0 1", &[], &[PROGRAM])];
const ALIAS: &[ValueMeaning] = &[prefixed("!", &[PROGRAM], &[meaning(MeaningKind::Prepend("git"))])];
const ADDRESS: &[ValueMeaning] = &[HELPERS];
const KEYS: KeyTable = KeyTable { separators: &['='], fold_case: true, alone: "true", keys: &SPECS, other: &[UNDETERMINED] };
/// The programs that keys start, one row for each row of `haft-git`.
const SPECS: [KeySpec; haft_git::keys::KEYS.len()] = {
    let rules = haft_git::keys::KEYS;
    let mut specs = [key("", &[]); haft_git::keys::KEYS.len()];
    let mut at = 0;
    while at < rules.len() {
        let names = rules[at].names;
        specs[at] = match rules[at].starts {
            KeyEffect::Nothing => key(names, &[]),
            KeyEffect::Program => key(names, RUNS),
            KeyEffect::Monitor => key(names, MONITOR),
            KeyEffect::Alias => key(names, ALIAS),
            KeyEffect::Helper => key(names, HELPER),
            KeyEffect::Address => key(names, ADDRESS),
            KeyEffect::LikelyProgram | KeyEffect::Unknown => unknown_key(names),
        };
        at += 1;
    }
    specs
};
const SETTING: &[ValueMeaning] = &[keys(&KEYS), EXACT_ONLY];

/// A remote that is read, and one that is written to. Some addresses are commands.
const HELPERS: ValueMeaning = meaning(MeaningKind::Transport);
const SOURCE: &[ValueMeaning] = &[connect(Remote(true), Observe), HELPERS];
const TARGET: &[ValueMeaning] = &[connect(Remote(true), Change), HELPERS];
const ADDED: &[ValueMeaning] = &[connect(Remote(false), Observe), HELPERS];
const KNOWN_REMOTE: ValueMeaning = unknown_host("git knows the host of the remote");
const KNOWN_REMOTES: ValueMeaning = unknown_host("git knows the hosts of its remotes");
/// The folder that is created if none is named.
const CLONED: ValueMeaning = derived(DerivedPath::LastName(".git")).unless(TWO_OPERANDS);
const TEMPLATE: OptionSpec = value("template", &[one_of("''", &[], &[UNDETERMINED])]);

const LOG: &[OptionSpec] = &[
    flags("-psuzwbMCDRqitaEF0123456789crv oneline stat numstat shortstat name-status patch no-patch graph all decorate no-decorate abbrev-commit \
           no-abbrev-commit follow merges no-merges first-parent reverse color no-color cached staged word-diff summary raw full-index minimal patience \
           histogram ignore-all-space ignore-space-change ignore-blank-lines branches tags remotes topo-order date-order no-ext-diff no-textconv \
           no-renames find-renames check exit-code quiet text merge-base abbrev pretty dirstat cc left-right cherry-pick boundary \
           pickaxe-all pickaxe-regex regexp-ignore-case extended-regexp fixed-strings function-context no-prefix unified \
           count no-walk children parents objects no-commit-id root compact-summary full-history simplify-merges reflog walk-reflogs relative \
           no-relative color-words color-moved no-color-moved ignore-cr-at-eol ignore-space-at-eol find-copies find-copies-harder \
           diff-merges no-diff-merges cherry-mark cherry right-only left-only no-expand-tabs no-notes submodule numbered email"),
    values("-nSGLU max-count skip since after until before author committer grep format date diff-filter stat-width diff-algorithm inter-hunk-context"),
    value("output", &[WRITE]),
];

const NAME_ONLY: &[OptionSpec] = &[flags("name-only")];

/// The reads of a repository's files, and of files that are named elsewhere.
const PATHS_HERE: ValueMeaning = meaning(MeaningKind::At(".", &[meaning(MeaningKind::PrintsPaths)]));
const IN_REPOSITORY: &[OperandSpec] = &[at(From(0), &[when(WordTest::Outside, &[READ_TREE], &[])]), at(Always, &[HERE_TREE])];

/// A sub-command that is read-only with these options.
const fn looks(names: &'static str, options: &'static [&'static [OptionSpec]]) -> ProgramEntry {
    program(names, GNU).listed().traits(ProgramTraits::OF_REPOSITORY).options(options).operands(IN_REPOSITORY)
}

/// A sub-command that is read-only if it lists, or has no operands.
const fn lists(names: &'static str, options: &'static [&'static [OptionSpec]], operands: &'static [OperandSpec]) -> ProgramEntry {
    program(names, GNU).listed().traits(ProgramTraits::OF_REPOSITORY).options(options).operands(operands)
}

/// A sub-command that changes the repository or its files.
const fn changes(names: &'static str, options: &'static [&'static [OptionSpec]]) -> ProgramEntry {
    program(names, GNU).options(options).level(RepositoryLevel::Data)
}

const LOSES_CHANGES: ValueMeaning = destroys("changes that were never committed");
const LOSES_COMMITS: ValueMeaning = destroys("commits that nothing else leads to");
const LOSES_REMOTE: ValueMeaning = destroys("what the remote has");
/// Changes the repository.
const RECORDS: &[ValueMeaning] = &[CHANGES, REPOSITORY_DATA];
const REFS: OptionSpec = mode("list contains no-contains merged no-merged points-at", LISTING);
const OUTPUT: OptionSpec = value("output", &[WRITE]);
const FETCH: &[OptionSpec] = &[
    flags("-aqvpPtfkn46 all multiple prune tags force append dry-run no-tags progress quiet verbose rebase no-rebase ff-only no-ff squash autostash heads refs get-url exit-code symref"),
    mode("-u set-upstream", UPSTREAM), values("-josXS depth deepen jobs refmap strategy shallow-since shallow-exclude server-option filter negotiation-tip sort"),
    value("upload-pack exec", &[PROGRAM]),
];
const FETCHES: &[OperandSpec] = &[at(Nth(0), SOURCE), at(Missing(0), &[KNOWN_REMOTE]), at(Always, &[CONFIGURATION.when(UPSTREAM)])];
const ADDS: &[ValueMeaning] = &[CONFIGURATION];

pub(super) const ENTRIES: &[ProgramEntry] = &[
    program("git", WordSyntax { clusters: false, ..POSIX }).family(NameFamily::Dashed).guarded().has_subcommands().traits(ProgramTraits::RUNS_ELSEWHERE)
        .version("--version version").options(&[&[
            act("-p paginate bare", &[CHANGES]),
            flags("-Phv no-pager no-replace-objects literal-pathspecs glob-pathspecs noglob-pathspecs icase-pathspecs no-optional-locks \
                   no-lazy-fetch no-advice html-path version help"),
            value("-C", &[FOLDER]), value("git-dir work-tree", &[READ]), value("-c", SETTING), value("config-env", &[meaning(MeaningKind::HiddenKey(&KEYS)), EXACT_ONLY]),
            attached("exec-path", &[one_of("*", &[UNDETERMINED], &[])]), values("namespace super-prefix attr-source list-cmds"),
        ]]).subcommands(SUBCOMMANDS)
        // An unknown sub-command, or an alias.
        .operands(&[at(Nth(0), &[REPOSITORY_DATA])]),
    program("bump-my-version bump2version bumpversion commitizen cz gitui lazygit lefthook overcommit prek release-it semantic-release standard-version \
             stg tig", EXACT).unknown(UnknownOption::Flag).level(RepositoryLevel::Data),
];

const SUBCOMMANDS: &[ProgramEntry] = &[
    looks("diff", &[&[mode("name-only", LISTING)], LOG]).exit_one("they differ").operands(&[
        at(From(0), &[when(WordTest::Outside, &[READ_TREE], &[])]), at(Always, &[HERE_TREE, PATHS_HERE.when(LISTING)]),
    ]),
    looks("log show whatchanged shortlog diff-tree diff-index diff-files rev-list range-diff cherry show-branch", &[LOG, NAME_ONLY]),
    looks("var check-ref-format", &[&[flags("-l branch allow-onelevel normalize")]]),
    looks("check-attr check-mailmap", &[&[flags("-az all cached stdin")]]),
    lists("symbolic-ref", &[&[flags("-q short quiet recurse no-recurse"), act("-d delete", RECORDS), value("-m", RECORDS)]], &[at(From(1), RECORDS), at(Always, &[HERE_TREE])]),
    looks("reflog", &[LOG, NAME_ONLY]).operands(&[at(Nth(0), &[one_of("show exists list", &[], &[one_of("expire delete drop write", &[LOSES_COMMITS, CHANGES, REPOSITORY_DATA], &[])])]), at(Always, &[HERE_TREE])]),
    looks("status", &[&[flags("-sbvznuo short branch porcelain long verbose untracked-files ignored show-stash ahead-behind no-renames")]]),
    looks("rev-parse", &[&[flags("-q show-toplevel abbrev-ref short verify quiet git-dir is-inside-work-tree show-prefix show-cdup is-bare-repository absolute-git-dir \
                                  git-common-dir symbolic-full-name all branches tags")]]),
    lists("branch", &[&[REFS, mode("-arl all remotes", LISTING), flags("-vi verbose show-current sort format color no-color ignore-case column no-column"),
        act("-dmcMC delete move copy track no-track", RECORDS), act("-Df force", &[LOSES_COMMITS, CHANGES, REPOSITORY_DATA]), mode("-u set-upstream-to unset-upstream edit-description", EDITS)]], &[
        at(From(0), &[CHANGES.unless(LISTING)]), at(Always, &[HERE_TREE, CONFIGURATION.when(EDITS), CHANGES.when(EDITS)]), at(Nth(0), &[CONFIGURATION.unless(LISTING)]),
    ]),
    lists("tag", &[&[REFS, mode("-l", LISTING), flags("-i sort format ignore-case column"), values("-n"), act("-adfs delete annotate force sign", RECORDS), value("-mFu message file", RECORDS)]], &[
        at(From(0), &[CHANGES.unless(LISTING), REPOSITORY_DATA.unless(LISTING)]), at(Always, &[HERE_TREE]),
    ]),
    lists("stash", &[&[flags("-p patch stat oneline"), act("-qua keep-index include-untracked all quiet", RECORDS), value("-m message", RECORDS)]], &[
        at(Nth(0), &[one_of("list show", &[], RECORDS), one_of("drop clear", &[destroys("stashed changes")], &[])]), at(Missing(0), RECORDS), at(Always, &[HERE_TREE]),
    ]).traits(ProgramTraits::PATTERNS_ARE_FILES),
    looks("ls-files", &[&[flags("-cdmoiskutvz cached deleted modified others ignored stage unmerged exclude-standard full-name error-unmatch eol"), values("-x")]])
        .traits(ProgramTraits::PATTERNS_ARE_FILES).operands(&[
            at(From(0), &[when(WordTest::Outside, &[READ_TREE], &[])]), at(Always, &[HERE_TREE, PATHS_HERE]),
        ]),
    looks("ls-tree", &[&[flags("-drtlz name-only name-status full-name full-tree long abbrev format")]]),
    looks("show-ref", &[&[flags("-qsd head heads tags verify hash abbrev quiet dereference")]]),
    looks("describe", &[&[flags("all tags always dirty long contains abbrev exact-match first-parent match exclude broken")]]),
    looks("blame annotate", &[&[flags("-wMCeflnps porcelain line-porcelain show-email show-name show-number date abbrev root"), values("-L")]]).traits(ProgramTraits::PATTERNS_ARE_FILES),
    looks("cat-file", &[&[flags("-tspe")]]),
    looks("merge-base", &[&[flags("-a all octopus is-ancestor independent fork-point")]]),
    looks("name-rev", &[&[flags("tags name-only always no-undefined")]]),
    looks("for-each-ref", &[&[flags("format sort count contains merged no-merged points-at")]]),
    looks("check-ignore", &[&[flags("-vqnz verbose quiet non-matching no-index")]]).traits(ProgramTraits::PATTERNS_ARE_FILES),
    looks("count-objects", &[&[flags("-vH verbose human-readable")]]),
    looks("grep", &[&[
        flags("-inlcEFPwvhHLqIoWpaG ignore-case line-number files-with-matches count name-only word-regexp cached untracked show-function column heading break and or not all-match"),
        values("-eABCm max-depth threads"), value("-f", &[READ, CHANGES]), attached("-O open-files-in-pager", &[PROGRAM, meaning(MeaningKind::NoValue(&[UNDETERMINED]))]),
    ]]).operands(&[at(From(0), &[when(WordTest::Outside, &[READ_TREE], &[])]), at(Always, &[HERE_TREE])]).exit_one("nothing matches"),
    // Sub-commands with options that run other programs.
    changes("rebase", &[&[flags("-iqvfnmkr interactive quiet force-rebase autosquash root keep-base continue abort skip autostash"), values("-sXC strategy strategy-option onto"), value("-x exec", &[SHELL])]]),
    changes("difftool", &[&[flags("-ygd no-prompt gui dir-diff prompt cached staged"), values("-t tool"), value("-x extcmd", &[PROGRAM])], LOG, NAME_ONLY]),
    changes("bisect", &[]).subcommands(&[program("run", POSIX).operands(&[at(From(0), &[held(ArgvFill::Plain, RunLocation::UnknownFolder, false)])])]),
    changes("submodule submodule--helper", &[&[flags("-q quiet")]]).subcommands(&[
        program("foreach", POSIX).options(&[&[flags("-q recursive quiet")]]).operands(&[at(From(0), &[meaning(MeaningKind::Joined(TextLanguage::Shell))])]),
        changes("add", &[&[flags("-fq force quiet"), values("-b branch name reference depth")]]).operands(&[
            at(Nth(0), SOURCE), at(Nth(0), &[CLONED]), at(Nth(1), &[WRITE_INTO]), at(Always, ADDS),
        ]),
        changes("update", &[]).operands(&[at(Always, &[CONFIGURATION, unknown_host("git knows the hosts of its submodules")])]),
        changes("init sync deinit set-url set-branch", &[]).operands(&[at(Always, ADDS)]),
    ]),
    changes("filter-branch", &[&[
        value("tree-filter index-filter env-filter msg-filter parent-filter commit-filter tag-name-filter subdirectory-filter setup", &[SHELL]), flags("-f prune-empty force"), values("-d original"),
    ]]).operands(&[at(Always, &[EXACT_ONLY.reason(RUNS_GIVEN)])]),
    changes("clone", &[&[
        flags("-qvnls46 quiet verbose bare mirror no-checkout recursive recurse-submodules single-branch shared local sparse progress no-tags dissociate also-filter-submodules no-single-branch no-local no-hardlinks shallow-submodules no-shallow-submodules remote-submodules"),
        values("-boj branch origin depth jobs reference reference-if-able shallow-since shallow-exclude filter server-option bundle-uri revision ref-format"),
        value("-u upload-pack", &[PROGRAM]), value("-c config", SETTING), TEMPLATE, value("separate-git-dir", &[WRITE_INTO]),
    ]]).operands(&[
        at(Nth(0), &[connect(Remote(false), Observe), HELPERS, CLONED]), at(Nth(1), &[WRITE_INTO]),
    ]),
    changes("init", &[&[flags("-q bare quiet shared"), values("-b initial-branch object-format"), TEMPLATE, value("separate-git-dir", &[WRITE_INTO])]]).operands(&[at(Nth(0), &[WRITE_INTO]), at(Always, &[CONFIGURATION])]),
    changes("fetch pull", &[&[mode("all multiple", LISTING)], FETCH]).operands(&[
        at(Nth(0), SOURCE), at(Missing(0), &[KNOWN_REMOTE]), at(Always, &[CONFIGURATION.when(UPSTREAM), KNOWN_REMOTES.when(LISTING)]),
    ]),
    changes("ls-remote fetch-pack", &[FETCH]).operands(FETCHES),
    changes("push send-pack", &[&[
        act("-fd force delete mirror prune", &[LOSES_REMOTE]), flags("-qvn46 tags quiet verbose dry-run force-with-lease no-verify all follow-tags atomic progress"), mode("-u set-upstream", UPSTREAM), values("-o push-option"),
        value("receive-pack exec", &[PROGRAM]), value("repo", &[connect(Remote(true), Change)]),
    ]]).operands(&[at(Nth(0), TARGET), at(Missing(0), &[KNOWN_REMOTE]), at(Always, &[CONFIGURATION.when(UPSTREAM)])]),
    changes("archive", &[&[flags("-v0123456789l list worktree-attributes"), values("format prefix add-file mtime"), value("-o output", &[WRITE]), value("remote", &[connect(AddressForm::Address, Observe)]), value("exec", &[PROGRAM])]]),
    changes("daemon", &[&[value("access-hook", &[PROGRAM])]]),
    changes("svn", &[&[value("authors-prog", &[PROGRAM])]]).operands(&[at(Always, &[KNOWN_REMOTES])]),
    changes("lfs p4", &[]).operands(&[at(Always, &[KNOWN_REMOTES])]),
    lists("remote", &[&[flags("-v verbose")]], &[at(Nth(0), RECORDS), at(Always, &[HERE_TREE])]).subcommands(&[
        looks("get-url", &[&[flags("push all")]]),
        changes("add", &[&[flags("-f tags no-tags"), values("-tm mirror")]]).operands(&[at(Nth(1), ADDED), at(Always, ADDS)]),
        changes("set-url", &[&[flags("push add delete")]]).operands(&[at(Nth(1), ADDED), at(Always, ADDS)]),
        changes("rename remove rm set-branches set-head", &[]).operands(&[at(Always, ADDS)]),
        changes("update show prune", &[]).operands(&[at(Always, &[KNOWN_REMOTES])]),
    ]),
    lists("config", &[&[
        mode("get get-all get-regexp list", LOOKS | LISTING), mode("-l", LOOKS | LISTING), flags("-z show-origin show-scope name-only null includes no-includes"),
        mode("get-urlmatch unset unset-all remove-section", LOOKS | EDITS), act("-e edit", &[EXACT_ONLY.reason("starts another command")]).sets(EDITS), mode("add replace-all rename-section", EDITS),
        act("bool int path local worktree bool-or-int", &[CHANGES]), value("type default comment blob", &[CHANGES]), value("-f file", &[WRITE, CHANGES]).sets(ELSEWHERE),
        mode("global", WIDE), mode("system", WIDE | ELSEWHERE),
    ]], &[
        at(From(0), &[meaning(MeaningKind::KeyPair(&KEYS)).unless(LOOKS)]),
        at(Always, &[
            CONFIGURATION.unless(WIDE | NO_ARGUMENT | LISTING), HERE_TREE, CHANGES.when(TWO_OPERANDS).unless(LISTING), CHANGES.when(NO_OPERAND).unless(LISTING), CHANGES.when(EDITS),
            GLOBAL_WRITE.when(WIDE | TWO_OPERANDS).unless(LISTING | ELSEWHERE), GLOBAL_WRITE.when(WIDE | EDITS).unless(ELSEWHERE), GLOBAL_READ.when(WIDE),
            meaning(MeaningKind::At("/etc/gitconfig", &[WRITE])).when(WIDE | ELSEWHERE | TWO_OPERANDS).unless(LISTING),
        ]),
    ]).subcommands(&[
        changes("set", &[&[flags("append all"), values("type comment value"), value("-f file", &[WRITE]), mode("global system", WIDE)]]).operands(&[
            at(From(0), &[meaning(MeaningKind::KeyPair(&KEYS))]), at(Always, &[CONFIGURATION.unless(WIDE), GLOBAL_WRITE.when(WIDE)]),
        ]),
        changes("get list unset remove-section rename-section edit", &[&[value("-f file", &[READ]), mode("global system", WIDE)]]).operands(&[at(Always, &[CONFIGURATION.unless(WIDE)])]),
    ]),
    // Creates a configuration for the worktree alone.
    changes("sparse-checkout", &[&[flags("cone no-cone sparse-index no-sparse-index stdin end-of-options")]]).operands(&[at(Always, ADDS)]),
    changes("send-email", &[&[value("to-cmd cc-cmd sendmail-cmd header-cmd smtp-server", &[PROGRAM])]]),
    changes("hook", &[]).subcommands(&[changes("run", &[]).operands(&[at(Always, &[UNDETERMINED])])]),
    changes("for-each-repo", &[&[values("config"), flags("keep-going")]]).operands(&[at(From(0), &[meaning(MeaningKind::Prepend("git"))])]).syntax(POSIX),
    changes("instaweb", &[&[values("-mp modulepath port"), value("-db httpd browser", &[PROGRAM])]]),
    changes("web--browse", &[&[value("-bt browser tool", &[PROGRAM])]]),
    changes("credential mergetool", &[]).operands(&[at(Always, &[EXACT_ONLY.reason("starts another command")])]),
    changes("remote-ext", &[]).operands(&[at(Always, &[UNDETERMINED])]),
    // Sub-commands that write named files, or the configuration.
    changes("format-patch mailsplit", &[&[flags("-nNsk123456789 stdout"), value("-o output-directory", &[WRITE_INTO]), OUTPUT]]),
    changes("checkout-index", &[&[flags("-aufnq"), value("prefix", &[WRITE_INTO])]]),
    changes("bundle", &[]).subcommands(&[changes("create", &[]).operands(&[at(Nth(0), &[WRITE])])]),
    lists("worktree", &[&[flags("-vz porcelain verbose")]], &[at(Nth(0), RECORDS), at(Missing(0), &[CHANGES])]).subcommands(&[
        looks("list", &[&[flags("-vz porcelain verbose")]]),
        changes("add", &[&[flags("-fdq force detach checkout no-checkout lock quiet track guess-remote orphan"), values("-bB reason")]]).operands(&[at(Nth(0), &[WRITE_INTO]), at(Always, ADDS)]),
        changes("move", &[&[flags("-f force")]]).operands(&[at(Nth(1), &[WRITE_INTO])]),
    ]),
    changes("checkout", &[&[values("-bB"), flags("-fqtlmp force quiet track no-track ours theirs detach patch")]]).traits(ProgramTraits::PATTERNS_ARE_FILES)
        .operands(&[at(BeforeDashes, &[CONFIGURATION]), at(AfterDashes, &[LOSES_CHANGES])])
        .options(&[&[value("-bB orphan", &[CONFIGURATION]), act("-f force", &[LOSES_CHANGES]), flags("-qtlmp quiet track no-track ours theirs detach patch")]]),
    changes("switch", &[&[value("-cC create force-create orphan", &[CONFIGURATION]), act("-f force discard-changes", &[LOSES_CHANGES]), flags("-qtdm quiet track no-track detach")]]).operands(&[at(Nth(0), ADDS)]),
    changes("reset", &[&[values("-s source chmod pathspec-from-file"), act("hard merge", &[LOSES_CHANGES]), flags("-pNq patch soft mixed keep quiet")]]).traits(ProgramTraits::PATTERNS_ARE_FILES),
    changes("restore", &[&[values("-s source pathspec-from-file"), mode("-S staged", LOOKS), mode("-W worktree", EDITS), flags("-pqm patch quiet merge ours theirs")]]).traits(ProgramTraits::PATTERNS_ARE_FILES)
        .operands(&[at(Always, &[LOSES_CHANGES.unless(LOOKS), LOSES_CHANGES.when(EDITS)])]),
    changes("clean", &[&[values("-e exclude"), mode("-f force", EDITS), flags("-dqxXi quiet interactive"), mode("-n dry-run", LOOKS)]]).traits(ProgramTraits::PATTERNS_ARE_FILES)
        .operands(&[at(Always, &[destroys("files that were never committed").when(EDITS).unless(LOOKS)])]),
    changes("gc prune", &[&[attached("prune expire", &[LOSES_COMMITS]), flags("-qnv auto quiet aggressive force dry-run verbose progress")]]),
    changes("add rm mv stage", &[&[values("-s source chmod pathspec-from-file"), flags("-AnfuvpiNqr all force update verbose patch cached staged worktree hard soft mixed dry-run")]]).traits(ProgramTraits::PATTERNS_ARE_FILES),
    changes("commit", &[&[values("-mFCct message file author date reuse-message reedit-message template trailer fixup squash cleanup"), flags("-aqvnse all quiet verbose amend no-verify no-edit signoff allow-empty dry-run edit"), attached("-Su gpg-sign", &[])]])
        .traits(ProgramTraits::PATTERNS_ARE_FILES),
    changes("merge cherry-pick revert", &[&[values("-smX strategy mainline strategy-option message"), flags("-nqvex no-commit no-ff ff-only squash continue abort skip no-edit edit quiet"), attached("-S gpg-sign", &[])]]),
];
const GLOBAL_WRITE: ValueMeaning = meaning(MeaningKind::At("~/.gitconfig", &[WRITE]));
const GLOBAL_READ: ValueMeaning = meaning(MeaningKind::At("~/.gitconfig", &[READ]));
