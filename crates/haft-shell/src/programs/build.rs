//! Compilers, build tools and package managers.

use haft::effects::AccessKind::Observe;

use crate::model::AddressForm::{Address, Url, UrlOrFolder};
use crate::model::OperandPosition::*;
use crate::model::TextLanguage::{Commands, Makefile};
use crate::model::*;

const STOPS: WordSyntax = WordSyntax { stop: StopRule::AtOperand, ..EXACT };

const MAKE_VALUE: CommandEscapes = CommandEscapes {
    shell: &[], anywhere: None, unread: &[], signs: &["$(shell", "`", "!="], plain: "", exact: false, abbreviated: false, pipes: None,
};
const MAKE_VARIABLE: KeyTable = KeyTable {
    separators: &['='], fold_case: false, alone: "",
    keys: &[
        key("SHELL SHELL: SHELL+ SHELL? MAKE MAKE: MAKE+ MAKE?", &[PROGRAM]),
        key("CC CXX CPP AS AR LD FC LEX YACC NM STRIP RANLIB OBJCOPY", &[one_of("cc gcc* g++* c++* clang* cpp as ar ld lld mold flex bison nm strip ranlib objcopy ccache?gcc", &[], &[PROGRAM])]),
        key(".SHELLFLAGS* MAKEFLAGS* MAKEFILES* *!", &[UNDETERMINED])],
    other: &[text(Commands(&MAKE_VALUE))],
};
const CODEGEN: KeyTable = KeyTable { separators: &['='], fold_case: false, alone: "", keys: &[key("linker", &[PROGRAM]), key("link-arg link-args", &[UNDETERMINED])], other: &[] };
/// The value of a build's cache entry. Some are programs that the configuration starts.
const DEFINITION: KeyTable = KeyTable {
    separators: &['='], fold_case: true, alone: "",
    keys: &[
        key("cmake_*_compiler* cmake_*_launcher* cmake_*_clang_tidy* cmake_*_cppcheck* cmake_*_cpplint* cmake_*_include_what_you_use* cmake_linker* cmake_ar* \
             cmake_ranlib* cmake_make_program* *_executable *_executable:*", &[PROGRAM]),
        key("cmake_toolchain_file* cmake_project_*include* cmake_*_flags*", &[when(WordTest::Holds("-wrapper -b plugin specs / .cmake"), &[UNDETERMINED], &[])]),
    ],
    other: &[],
};
/// The interpreter that a package manager starts: a version, or a program.
const INTERPRETER: ValueMeaning = one_of("2* 3* cpython* pypy* python python2* python3* ''", &[], &[PROGRAM]);

/// A compiler: names with one dash, no clusters.
const fn compiler(names: &'static str) -> ProgramEntry {
    program(names, ONE_DASH).guards_patterns().unknown(UnknownOption::Flag)
        .options(&[COMPILER])
}
const COMPILER: &[OptionSpec] = &[value("o MF output out-dir outdir", &[WRITE]), value("wrapper", &[part(WordPart::Spaced(','), &[PROGRAM])]),
    // These name folders with programs, or libraries that are loaded.
    value("B specs", &[UNDETERMINED]), value("fplugin fpass-plugin load plugin", &[UNDETERMINED]), attached("fuse-ld ld-path", &[one_of("bfd gold lld mold", &[], &[UNDETERMINED])]),
    value("Xlinker Xclang", &[one_of("*plugin* *load*", &[UNDETERMINED], &[])]), attached("W", &[one_of("l,*plugin*", &[UNDETERMINED], &[])]),
];

const NPM: &[OptionSpec] = &[
    flags("-sqdgfyDSEOP silent quiet verbose global force yes no json offline prefer-offline no-audit no-fund ignore-scripts workspaces recursive no-color \
           workspace-root no-save dry-run"),
    values("-w workspace userconfig globalconfig cache loglevel tag otp access filter cwd modules-folder cache-folder scope"),
    value("prefix", &[WRITE_INTO]),
    value("registry proxy https-proxy", &[connect(Address, Observe)]),
    value("script-shell", &[PROGRAM, UNDETERMINED]),
    value("node-options git editor viewer browser shell init-module onload-script", &[UNDETERMINED]),
];
const NPM_FOLDER: &[OptionSpec] = &[value("-C", &[WRITE_INTO])];
const PNPM_FOLDER: &[OptionSpec] = &[value("-C dir", &[WRITE_INTO]), values("-F"), flags("-rw")];
const URLS: OperandSpec = at(From(0), &[connect(Url, Observe)]);
const PACKAGE: &[OperandSpec] = &[at(From(0), &[LAUNCH_PACKAGE])];
const FIRST: &[OperandSpec] = &[at(From(0), &[LAUNCH])];

const fn runs(names: &'static str, options: &'static [&'static [OptionSpec]], operands: &'static [OperandSpec]) -> ProgramEntry {
    program(names, STOPS).unknown(UnknownOption::Doubt).options(options).operands(operands)
}

/// A package manager with sub-commands.
const fn manager(names: &'static str, options: &'static [&'static [OptionSpec]], subcommands: &'static [ProgramEntry]) -> ProgramEntry {
    program(names, EXACT).has_subcommands().traits(ProgramTraits::RUNS_WORKSPACE).options(options).subcommands(subcommands).operands(&[URLS])
}

const PIP: &[OptionSpec] = &[
    flags("-qvhV isolated require-virtualenv verbose quiet no-input debug disable-pip-version-check no-color no-cache-dir no-python-version-warning"),
    values("cache-dir timeout retries trusted-host cert client-cert exists-action keyring-provider use-feature use-deprecated"),
    value("python editor", &[INTERPRETER]),
    value("-td target prefix root dest src", &[WRITE_INTO]),
    value("-rc requirement constraint", &[READ]),
    value("log report", &[WRITE]),
    value("-i index-url extra-index-url proxy default-index index", &[connect(Address, Observe)]),
    value("-f find-links", &[connect(UrlOrFolder, Observe)]),
];

pub(super) const ENTRIES: &[ProgramEntry] = &[
    program("make gmake", GNU).guards_patterns().has_subcommands().traits(ProgramTraits::RUNS_ELSEWHERE).traits(ProgramTraits::RUNS_WORKSPACE).version("--version -v").options(&[&[
        flags("-BbdeikLnpqrRsStvw silent quiet keep-going dry-run always-make just-print question touch print-directory"), value("-C directory", &[READ]), value("-I include-dir", &[READ]),
        values("-loW what-if old-file assume-old"), with_arity("-jO jobs output-sync", ValueArity::Maybe, &[]),
        value("-f file makefile", &[script(Makefile)]), value("-E eval", &[text(Makefile), UNDETERMINED]),
    ]]).operands(&[at(From(0), &[when(WordTest::Holds("="), &[keys(&MAKE_VARIABLE)], &[])])]),
    compiler("gcc g++ cc c++ clang clang++").family(NameFamily::Cross).version("--version"),
    compiler("as ld"),
    compiler("rustc").version("--version -V -vV -Vv").options(&[&[
        value("o MF output out-dir outdir", &[WRITE]), value("C codegen", &[keys(&CODEGEN)]),
    ]]),
    program("rustdoc", ONE_DASH).guards_patterns().unknown(UnknownOption::Flag).options(&[&[
        value("o output", &[WRITE_INTO]), value("C codegen", &[keys(&CODEGEN)]), value("test-builder runtool test-runtool", &[PROGRAM]),
    ]]),
    program("rustfmt gem", EXACT).version("--version"),
    program("ninja dotnet", EXACT).version("--version").traits(ProgramTraits::RUNS_WORKSPACE),
    program("cmake", ONE_DASH).version("--version").traits(ProgramTraits::RUNS_WORKSPACE).unknown(UnknownOption::Flag).options(&[&[
        with_arity("E", ValueArity::Rest, &[meaning(MeaningKind::Subcommand(CMAKE_TOOLS))]), value("P", &[script(Commands(&MAKE_VALUE))]),
        value("D", &[keys(&DEFINITION)]), value("C toolchain", &[READ, UNDETERMINED]),
    ]]).operands(&[at(AfterDashes, &[when(WordTest::Holds("="), &[keys(&MAKE_VARIABLE)], &[])])]),
    program("go", ONE_DASH).guards_patterns().has_subcommands().traits(ProgramTraits::RUNS_WORKSPACE).version("version").options(&[&[
        value("o cpuprofile memprofile coverprofile", &[WRITE]), value("C", &[READ]), value("exec toolexec vettool", &[PROGRAM]), flags("v x race a n short"),
        values("run count timeout tags p cover covermode bench benchtime parallel"),
        value("ldflags gcflags asmflags gccgoflags", &[when(WordTest::Holds("extld wrapper -b plugin"), &[UNDETERMINED], &[])]), value("compiler overlay modfile", &[UNDETERMINED]),
    ]]).operands(&[at(From(1), &[one_of("CC=* CXX=* FC=* AR=* PKG_CONFIG=* GOFLAGS=* GOROOT=* GOPATH=* GOTOOLCHAIN=* GOCACHEPROG=*", &[UNDETERMINED], &[])])]),
    program("tsc", ONE_DASH).guards_patterns().traits(ProgramTraits::RUNS_WORKSPACE).version("--version -v").options(&[&[value("outFile", &[WRITE]), value("outDir declarationDir", &[WRITE_INTO]), value("p project", &[READ])]]),
    program("ghc", ONE_DASH).unknown(UnknownOption::Flag).options(&[&[value("F", &[UNDETERMINED]), value("e", &[text(TextLanguage::Code(&["System", "Process", "Foreign", "unsafe"]))])]]),
    program("cargo", WordSyntax { plus: PlusWords::Value(&[]), ..EXACT }).family(NameFamily::Dashed).guards_patterns().has_subcommands().traits(ProgramTraits::RUNS_WORKSPACE).version("--version -V -vV -Vv").options(&[CARGO]).subcommands(&[
        program("watch", EXACT).unknown(UnknownOption::Flag).options(&[&[
            flags("-cq clear quiet postpone poll"), values("-diwE delay ignore watch"), value("-s shell", &[COMMANDS, UNDETERMINED]), value("-x exec", &[UNDETERMINED]),
        ]]).operands(&[at(AfterDashes, &[LAUNCH])]),
        program("rustc", EXACT).options(&[CARGO]).operands(&[at(AfterDashes, &[one_of("-C* --codegen* linker=* link-arg* -l* -Z*", &[UNDETERMINED], &[])])]),
        program("release", EXACT).options(&[CARGO]).level(RepositoryLevel::Data),
        program("build b check c test t run r clippy doc bench install fmt update metadata tree fetch", EXACT).options(&[CARGO]).unknown(UnknownOption::Either),
    ]),
    program("bazel", EXACT).guards_patterns().traits(ProgramTraits::RUNS_WORKSPACE).options(&[&[value("run_under workspace_status_command shell_executable credential_helper gdb", &[PROGRAM])]]),
    program("ctest", EXACT).guards_patterns().options(&[&[value("test-command build-makeprogram", &[PROGRAM]), value("overwrite", &[part(WordPart::After("="), &[PROGRAM])]), value("-S script", &[UNDETERMINED])]]),
    manager("npm", &[NPM_FOLDER, NPM], &[
        runs("exec x", &[&[flags("-ys"), values("-p package"), value("-c call", &[COMMANDS])], NPM_FOLDER, NPM], PACKAGE),
        program("explore", EXACT).options(&[NPM]).operands(&[at(From(1), &[JOINED])]),
        program("version", EXACT).options(&[NPM_FOLDER, NPM]).level(RepositoryLevel::Data),
        program("install i ci add test t run run-script start publish uninstall update audit pack", EXACT).options(&[NPM_FOLDER, NPM]).operands(&[URLS]),
    ]).guards_patterns().version("--version -v"),
    runs("npx", &[&[
        flags("-yq yes no quiet no-install ignore-existing offline"), values("-wp workspace package"), value("-c call", &[COMMANDS]),
        value("registry proxy https-proxy", &[connect(Address, Observe)]),
    ]], PACKAGE).version("--version -v").traits(ProgramTraits::RUNS_WORKSPACE),
    manager("pnpm", &[PNPM_FOLDER, NPM], &[
        runs("dlx exec x", &[&[flags("-r recursive parallel silent"), act("-c shell-mode", &[UNDETERMINED])], NPM], PACKAGE),
        program("version", EXACT).options(&[PNPM_FOLDER, NPM]).level(RepositoryLevel::Data),
        program("install i add test run publish", EXACT).options(&[PNPM_FOLDER, NPM]).operands(&[URLS]),
    ]).guards_patterns().version("--version -v"),
    runs("pnpx", &[&[flags("-s silent")]], PACKAGE),
    manager("yarn", &[&[flags("-v")], NPM], &[
        runs("dlx exec", &[&[flags("-q quiet"), values("-p package")]], PACKAGE),
        program("version", EXACT).options(&[NPM]).level(RepositoryLevel::Data),
        program("install add test run publish", EXACT).options(&[NPM]).operands(&[URLS]),
    ]).version("--version -v"),
    manager("bun", &[NPM], &[runs("x", &[&[flags("bun silent")]], PACKAGE)]).traits(ProgramTraits::RUNS_SCRIPT).version("--version -v").options(&[&[
        value("-ep eval print", &[text(TextLanguage::Code(&["child_process", "exec", "spawn", "fork", "eval", "Function(", "binding", "dlopen", "import(", "Worker"]))]), values("-r"),
    ], NPM]).operands(&[URLS, at(Missing(0), &[UNDETERMINED.when(NO_ARGUMENT)])]),
    program("pip pip3", EXACT).guards_patterns().has_subcommands().version("--version -V").options(&[PIP]).operands(&[URLS]).subcommands(&[
        program("list freeze show check", EXACT).listed().unknown(UnknownOption::Either).options(&[&[
            flags("-lvqeh local editable user not-required verbose quiet disable-pip-version-check exclude-editable files"),
            values("format exclude path"),
        ]]),
        program("install download uninstall wheel", EXACT).options(&[PIP]).operands(&[URLS]),
    ]),
    program("uv", EXACT).has_subcommands().traits(ProgramTraits::RUNS_WORKSPACE).version("--version -V").options(&[UV]).operands(&[URLS]).subcommands(&[
        program("run", STOPS).unknown(UnknownOption::Value).options(&[&[
            flags("-qvns quiet verbose no-project frozen locked isolated no-sync offline script all-extras active"), values("-m with extra group"),
        ], UV]).operands(FIRST),
        program("tool", STOPS).subcommands(&[runs("run", &[&[flags("-qvn quiet verbose isolated offline"), values("from with"), value("-p python", &[INTERPRETER])]], PACKAGE)]),
        program("pip sync add lock venv", EXACT).options(&[UV, PIP]).operands(&[URLS]),
    ]),
    runs("uvx", &[&[flags("-qvn quiet verbose isolated offline"), values("from with"), value("-p python", &[INTERPRETER])]], PACKAGE).traits(ProgramTraits::RUNS_WORKSPACE),
    program("pipx", EXACT).options(&[PIP]).operands(&[URLS]).subcommands(&[runs("run", &[&[flags("-qv no-cache pypackages verbose quiet"), values("spec"), value("python", &[INTERPRETER])]], PACKAGE)]),
    program("poetry", STOPS).has_subcommands().traits(ProgramTraits::RUNS_WORKSPACE).options(&[&[
        flags("-qnv quiet no-interaction verbose no-ansi no-plugins no-cache"), values("-CP directory project"),
    ]]).subcommands(&[runs("run", &[], FIRST)]),
    program("bundle", STOPS).has_subcommands().traits(ProgramTraits::RUNS_WORKSPACE).options(&[&[flags("no-color verbose"), values("retry")]])
        .subcommands(&[runs("exec", &[&[flags("keep-file-descriptors")]], FIRST)]),
    program("gradle", GNU).has_subcommands().traits(ProgramTraits::RUNS_WORKSPACE).options(&[&[
        flags("-qiwdsSm quiet info offline no-daemon stacktrace continue"), values("-bpcgIDPx build-file project-dir init-script gradle-user-home"),
    ]]),
    program("mvn", GNU).has_subcommands().traits(ProgramTraits::RUNS_WORKSPACE).options(&[&[
        flags("-qXBUoeNV quiet batch-mode offline"), values("-fPplTDs file activate-profiles projects settings define"),
    ]]),
    program("meson", EXACT).unknown(UnknownOption::Flag).traits(ProgramTraits::RUNS_WORKSPACE).options(&[&[value("wrapper wrap gdb-path", &[PROGRAM])]]),
    program("rake", EXACT).unknown(UnknownOption::Flag).traits(ProgramTraits::RUNS_WORKSPACE).options(&[&[
        value("-epE execute execute-print execute-continue", &[text(TextLanguage::Code(&["sh", "system", "exec", "`", "%x", "spawn", "eval", "popen"]))]), values("-fIrRt"),
    ]]),
    program("virtualenv venv", EXACT).unknown(UnknownOption::Flag).options(&[&[value("-p python", &[INTERPRETER])]]),
    program("dpkg-buildpackage debuild", ONE_DASH).options(&[&[
        value("r p root-command check-command sign-command rules-file R", &[PROGRAM]), flags("b B us uc S d nc"), attached("hook-init hook-build hook-source hook-done hook-check hook-sign", &[SHELL]),
    ]]).unknown(UnknownOption::Flag).traits(ProgramTraits::RUNS_WORKSPACE),
    program("latexmk", ONE_DASH).unknown(UnknownOption::Flag).traits(ProgramTraits::RUNS_WORKSPACE).options(&[&[
        value("e r", &[UNDETERMINED]), attached("pdflatex latex lualatex xelatex", &[PROGRAM]),
    ]]),
    // These run files of their working directory.
    program("ant composer eslint gradlew grunt gulp invoke jest mvnw nox prettier pytest task turbo vitest", EXACT)
        .unknown(UnknownOption::Flag).traits(ProgramTraits::RUNS_WORKSPACE),
    program("lint-staged pre-commit", EXACT).unknown(UnknownOption::Flag).traits(ProgramTraits::RUNS_WORKSPACE).level(RepositoryLevel::Data),
    program("rpm rpmbuild rpmspec", GNU).guards_patterns().unknown(UnknownOption::Flag).options(&[&[values("-r"), value("pipe", &[PROGRAM]), value("-DE define eval", &[UNDETERMINED])]]),
    program("dpkg", EXACT).guards_patterns().options(&[&[values("-D"), value("pre-invoke post-invoke status-logger", &[PROGRAM])]]),
    program("apt apt-get", EXACT).has_subcommands().options(&[&[
        flags("-yqsdfmuVb yes assume-yes quiet"), values("-ta target-release"), value("-oc option config-file", &[UNDETERMINED]),
    ]]),
];

const CARGO: &[OptionSpec] = &[
    flags("-vq verbose quiet frozen locked offline release workspace all-features all-targets lib bins"), values("-Zpj color explain package features target profile"),
    value("config", &[UNDETERMINED]), value("-C manifest-path", &[READ]), value("target-dir root out-dir artifact-dir", &[WRITE_INTO]),
];
const UV: &[OptionSpec] = &[
    flags("-qvn quiet verbose offline no-cache no-config"), values("directory project config-file cache-dir color"), value("-p python", &[INTERPRETER]),
    value("index-url extra-index-url proxy default-index index", &[connect(Address, Observe)]), value("find-links", &[connect(UrlOrFolder, Observe)]),
];
const CMAKE_TOOLS: &[ProgramEntry] = &[
    program("env", STOPS).unknown(UnknownOption::Flag).traits(ProgramTraits::TAKES_VARIABLES).operands(FIRST),
    program("time", STOPS).operands(FIRST),
    program("chdir", WordSyntax { stop: StopRule::AfterOperands(1), ..EXACT }).operands(&[at(From(1), &[LAUNCH])]),
];
