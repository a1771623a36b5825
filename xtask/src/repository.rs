//! Rules of the repository that no compiler checks. Each is a function from the files to its findings.
//!
//! A rule here has been broken before, here or elsewhere, and was found late. Taste belongs to review.

use crate::Done;
use crate::cargo::root;
use crate::source::{File, code_only, files};

/// What a rule finds: `path:line: text`, or `path: text` where the whole file is meant.
type Rule = fn(&[File]) -> Vec<String>;

const RULES: &[Rule] = &[
    machine_paths,
    ordinary_registry,
    unfinished_code,
    started_processes,
    program_imports,
    vendor_json,
    library_flags,
    crate_dependencies,
    pure_crates,
    opaque_processes,
    forgotten_test_modules,
    readme_commands,
    crate_readmes,
    named_tests,
    opening_lines,
    long_files,
];

pub(crate) fn run() -> Done {
    let files = files(&root()?)?;
    let findings: Vec<String> = RULES.iter().flat_map(|rule| rule(&files)).collect();
    if findings.is_empty() {
        println!("{} files keep {} rules", files.len(), RULES.len());
        return Ok(());
    }
    for finding in &findings {
        println!("{finding}");
    }
    Err(format!("{} findings", findings.len()))
}

/// This file and its tests name what they look for.
const THIS_FILE: &str = "xtask/src/repository";

/// Folders that exist on somebody's machine only.
const MACHINE_FOLDERS: &[&str] = &["/work/", "/root/", "/home/", "/Users/"];
/// Homes of nobody, for examples in documents and tests.
const EXAMPLE_FOLDERS: &[&str] = &["/home/me"];

/// No file names a path of a developer's machine.
fn machine_paths(files: &[File]) -> Vec<String> {
    each_line(files.iter().filter(|file| !file.path.starts_with(THIS_FILE)), |line| {
        let path = machine_path(line)?;
        Some(format!("`{path}` is a path of somebody's machine; examples use `{}`", EXAMPLE_FOLDERS[0]))
    })
}

fn machine_path(line: &str) -> Option<&str> {
    for folder in MACHINE_FOLDERS {
        for (at, _) in line.match_indices(folder) {
            // `src/work/x`, `@/home/x` (a placeholder) and `https://a.example/home/` are no absolute paths.
            let absolute = !line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-~*+$@}])>".contains(c));
            let end = line[at..].find(|c: char| c.is_whitespace() || "\"'`<>()[]{},;:".contains(c));
            let path = &line[at..end.map_or(line.len(), |end| at + end)];
            let is_example_in =
                |known: &str| path.strip_prefix(known).is_some_and(|r| r.is_empty() || r.starts_with('/'));
            if absolute && !EXAMPLE_FOLDERS.iter().any(|known| is_example_in(known)) {
                return Some(path);
            }
        }
    }
    None
}

const REGISTRY: &str = r#"source = "registry+https://github.com/rust-lang/crates.io-index""#;

/// Lock files take crates from the ordinary registry only: no mirror, no git.
fn ordinary_registry(files: &[File]) -> Vec<String> {
    each_line(files.iter().filter(|file| file.path.ends_with("Cargo.lock")), |line| {
        let other = line.starts_with("source = ") && line != REGISTRY;
        other.then(|| format!("`{line}` is not the ordinary registry"))
    })
}

/// No code that is a promise.
fn unfinished_code(files: &[File]) -> Vec<String> {
    each_code_line(rust(files), |line| {
        let found = ["todo!", "unimplemented!"].into_iter().find(|name| has_word(line, name))?;
        Some(format!("`{found}` is not finished"))
    })
}

/// Only the sandbox starts processes, so that nothing runs outside one by accident.
fn started_processes(files: &[File]) -> Vec<String> {
    let governed = rust(files)
        .filter(|file| !file.path.starts_with("xtask/") && !file.path.starts_with("crates/haft-sandbox/"))
        .filter(|file| !["/tests/", "/benches/", "/tests.rs"].iter().any(|part| file.path.contains(part)));
    let shipped =
        governed.map(|file| File { path: file.path.clone(), text: without_tests(&file.text).to_string() });
    each_code_line(shipped.collect::<Vec<_>>().iter(), |line| {
        let line = line.replace("clap::Command::new", "");
        let found = ["Command::new", "process::Command"].into_iter().find(|name| has_word(&line, name))?;
        Some(format!("`{found}` starts a process; only crates/haft-sandbox does"))
    })
}

/// The folder of the program.
const PROGRAM: &str = "crates/haft-cli/";
/// Crates that the program reaches only through `haft-session`. Its tests may use them.
const BEHIND_SESSION: [&str; 5] = ["haft-net", "haft-policy", "haft-sandbox", "haft-shell", "haft-tools"];
/// How the program would build or drive an engine itself.
const ENGINE_INTERNALS: [&str; 4] = ["haft::dispatch", "haft::pipeline", "Engine::new", "EngineBuilder"];

/// The program depends on `haft-session` and on no crate behind it, and builds no engine.
fn program_imports(files: &[File]) -> Vec<String> {
    let manifest = files.iter().find(|file| file.path == format!("{PROGRAM}Cargo.toml"));
    let mut findings: Vec<String> = Vec::new();
    let mut section = "";
    for (index, line) in manifest.iter().flat_map(|file| file.text.lines()).enumerate() {
        if line.starts_with('[') {
            section = line.trim_matches(['[', ']']);
        }
        let is_dependency = section.contains("dependencies") && !section.contains("dev-dependencies");
        let line = line.split('#').next().unwrap_or_default();
        let found = BEHIND_SESSION.into_iter().find(|name| is_dependency && has_word(line, name));
        findings.extend(found.map(|name| {
            format!("{PROGRAM}Cargo.toml:{}: `{name}` is reached through haft-session", index + 1)
        }));
    }
    let crates = BEHIND_SESSION.map(|name| name.replace('-', "_"));
    let names: Vec<&str> = crates.iter().map(String::as_str).chain(ENGINE_INTERNALS).collect();
    let sources = rust(files).filter(|file| file.path.starts_with(&format!("{PROGRAM}src/")));
    let shipped = sources
        .filter(|file| !file.path.contains("/tests/") && !file.path.ends_with("/tests.rs"))
        .map(|file| File { path: file.path.clone(), text: without_tests(&file.text).to_string() });
    findings.extend(each_code_line(shipped.collect::<Vec<_>>().iter(), |line| {
        let found = names.iter().find(|name| has_word(line, name))?;
        Some(format!("`{found}` is reached through haft-session"))
    }));
    findings
}

/// Crates that read the JSON of model providers: the one that does, and the simulator, which checks it independently.
const VENDOR_JSON_CRATES: &[&str] = &["haft-provider", "haft-sim"];
/// Keys and types that only the JSON of a model provider has. In code they stand between quotes.
const VENDOR_KEYS: &[&str] = &[
    "cache_control",
    "custom_tool_call",
    "defer_loading",
    "finish_reason",
    "functionCall",
    "functionDeclarations",
    "functionResponse",
    "function_call",
    "function_call_output",
    "inlineData",
    "input_text",
    "output_text",
    "parametersJsonSchema",
    "parts",
    "role",
    "thoughtSignature",
    "tool_call_id",
    "tool_calls",
    "tool_reference",
    "tool_result",
    "tool_search_call",
    "tool_search_output",
    "tool_use",
];
/// Files that use such a key for something else, with what it is there.
const VENDOR_KEY_EXCEPTIONS: &[(&str, &str)] = &[
    // Messages of MCP have a role: those of sampling and of prompts.
    ("crates/haft-session/src/mcp/sample.rs", "role"),
    ("crates/haft-mcp/src/client/tools/get_prompt.rs", "role"),
    ("crates/haft-mcp/src/server/passed.rs", "role"),
    ("crates/haft-mcp/src/server/reply.rs", "role"),
    // The input of hooks after all calls of a message, as Claude Code writes it.
    ("crates/haft-policy/src/hooks/calls.rs", "tool_calls"),
    // Elements of pages have a role.
    ("crates/haft-tools/src/browser/tree.rs", "role"),
    ("crates/haft-tools/src/web/html.rs", "role"),
];

/// Only `haft-provider` knows the JSON of model providers.
fn vendor_json(files: &[File]) -> Vec<String> {
    let governed = rust(files).filter(|file| {
        let source = file.path.strip_prefix("crates/").and_then(|path| path.split_once("/src/"));
        source.is_some_and(|(name, _)| !VENDOR_JSON_CRATES.contains(&name)) && !is_test_file(&file.path)
    });
    let mut findings = Vec::new();
    for file in governed {
        for (index, line) in without_tests(&file.text).lines().enumerate() {
            if line.trim_start().starts_with("//") {
                continue;
            }
            let is_known = |key: &str| VENDOR_KEY_EXCEPTIONS.contains(&(file.path.as_str(), key));
            let key = VENDOR_KEYS.iter().find(|key| line.contains(&format!("\"{key}\"")) && !is_known(key));
            findings.extend(key.map(|key| {
                let line = index + 1;
                format!(
                    "{}:{line}: `{key}` is a provider's JSON; only crates/haft-provider knows it",
                    file.path
                )
            }));
        }
    }
    findings
}

/// The crates that name no flag at all. Others start programs, whose flags they name.
const FLAG_FREE_CRATES: &[&str] = &["crates/haft-agent/src/", "crates/haft-session/src/"];
/// Starts a program with a flag that this program has too.
const FLAGS_OF_CHROMIUM: &str = "crates/haft-tools/src/browser/launch.rs";

/// Everything but the program is a library: its messages reach users of other programs and name no flags of this one.
fn library_flags(files: &[File]) -> Vec<String> {
    let own = program_flags(files);
    let governed = rust(files)
        .filter(|file| file.path.starts_with("crates/") && file.path.contains("/src/"))
        .filter(|file| !file.path.starts_with(PROGRAM) && file.path != FLAGS_OF_CHROMIUM)
        .filter(|file| !is_test_file(&file.path));
    let (strict, others): (Vec<&File>, Vec<&File>) =
        governed.partition(|file| FLAG_FREE_CRATES.iter().any(|source| file.path.starts_with(source)));
    let mut findings = named_flags(&strict, |_| true);
    findings.extend(named_flags(&others, |flag| own.contains(flag)));
    findings
}

/// The flags that every subcommand of the program has: the fields of `Common`.
fn program_flags(files: &[File]) -> std::collections::BTreeSet<String> {
    let file = files.iter().find(|file| file.path == format!("{PROGRAM}src/args.rs"));
    let lines = file.into_iter().flat_map(|file| file.text.lines());
    let fields = lines.skip_while(|line| !line.contains("struct Common {")).take_while(|line| *line != "}");
    let name =
        |line: &str| Some(line.trim().strip_prefix("pub(crate) ")?.split_once(':')?.0.replace('_', "-"));
    fields.filter_map(|line| name(line).map(|name| format!("--{name}"))).collect()
}

/// The lines of code and text that name a flag of this kind.
fn named_flags(files: &[&File], is_meant: impl Fn(&str) -> bool) -> Vec<String> {
    let shipped = files
        .iter()
        .map(|file| File { path: file.path.clone(), text: without_tests(&file.text).to_string() });
    each_line(shipped.collect::<Vec<_>>().iter(), |line| {
        let mut flags = flags(line).filter(|_| !line.trim_start().starts_with("//"));
        let flag = flags.find(|flag| is_meant(flag))?;
        Some(format!("`{flag}` is a flag of the program; a library names an option or a rule"))
    })
}

/// The flags in a line, such as `--model`.
fn flags(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("--").filter_map(|(at, _)| {
        let begins = !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '-');
        let rest = &line[at + 2..];
        let length = rest.find(|c: char| !c.is_ascii_lowercase() && c != '-').unwrap_or(rest.len());
        (begins && rest.starts_with(|c: char| c.is_ascii_lowercase())).then(|| &line[at..at + 2 + length])
    })
}

/// Whether a file of a crate's source has nothing but tests in it.
fn is_test_file(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.ends_with("_tests.rs") || path.contains("/tests/")
}

/// The crates of this repository that each crate may depend on. ARCHITECTURE.md has the reasons.
const CRATE_DEPENDENCIES: &[(&str, &[&str])] = &[
    ("haft", &["haft-scheduler"]),
    ("haft-agent", &["haft"]),
    (
        "haft-cli",
        &[
            "haft",
            "haft-agent",
            "haft-journal",
            "haft-mcp",
            "haft-otel",
            "haft-provider",
            "haft-session",
            "haft-terminal",
        ],
    ),
    ("haft-git", &[]),
    ("haft-journal", &["haft"]),
    ("haft-mcp", &["haft"]),
    ("haft-net", &[]),
    ("haft-otel", &["haft", "haft-mcp"]),
    ("haft-policy", &["haft", "haft-git", "haft-protected", "haft-shell"]),
    ("haft-protected", &[]),
    ("haft-provider", &["haft", "haft-agent"]),
    ("haft-sandbox", &["haft", "haft-git", "haft-net", "haft-protected"]),
    ("haft-scheduler", &[]),
    (
        "haft-session",
        &[
            "haft",
            "haft-agent",
            "haft-journal",
            "haft-mcp",
            "haft-net",
            "haft-policy",
            "haft-provider",
            "haft-sandbox",
            "haft-tools",
        ],
    ),
    ("haft-shell", &["haft", "haft-git"]),
    ("haft-sim", &["haft", "haft-agent", "haft-journal", "haft-provider"]),
    ("haft-terminal", &["haft", "haft-agent"]),
    ("haft-tools", &["haft", "haft-git", "haft-net", "haft-shell"]),
];

/// Crates depend on each other only as the table allows. Tests may use other crates.
fn crate_dependencies(files: &[File]) -> Vec<String> {
    let mut findings = Vec::new();
    for manifest in files.iter().filter(|file| file.path.starts_with("crates/")) {
        let Some(name) =
            manifest.path.strip_prefix("crates/").and_then(|rest| rest.strip_suffix("/Cargo.toml"))
        else {
            continue;
        };
        let Some((_, allowed)) = CRATE_DEPENDENCIES.iter().find(|(known, _)| *known == name) else {
            findings.push(format!(
                "{}: {name} is missing in CRATE_DEPENDENCIES and in ARCHITECTURE.md",
                manifest.path
            ));
            continue;
        };
        let mut section = "";
        for (index, line) in manifest.text.lines().enumerate() {
            let header = line.strip_prefix('[').map(|header| header.trim_end_matches(']'));
            section = header.unwrap_or(section);
            // `[dependencies.NAME]`, or `NAME = …` below `[dependencies]`.
            let (section, dependency) = match header {
                Some(header) => header.rsplit_once('.').unwrap_or_default(),
                None => (section, line.split(['.', ' ', '=']).next().unwrap_or_default()),
            };
            let is_ours = dependency == "haft" || dependency.starts_with("haft-");
            let counts = section.ends_with("dependencies") && section != "dev-dependencies";
            if counts && is_ours && !allowed.contains(&dependency) {
                findings.push(format!(
                    "{}:{}: {name} must not depend on {dependency}",
                    manifest.path,
                    index + 1
                ));
            }
        }
    }
    findings
}

/// Each crate has a README.md whose table names modules that exist.
fn crate_readmes(files: &[File]) -> Vec<String> {
    let has = |path: String| files.iter().any(|file| file.path == path);
    let mut findings = Vec::new();
    for manifest in files.iter().filter(|file| file.path.starts_with("crates/")) {
        let Some(folder) = manifest.path.strip_suffix("/Cargo.toml") else { continue };
        let Some(readme) = files.iter().find(|file| file.path == format!("{folder}/README.md")) else {
            findings.push(format!("{folder}: a README.md with the modules of the crate is missing"));
            continue;
        };
        for row in readme.text.lines().filter(|line| line.starts_with("| `")) {
            let modules = row.split('|').nth(1).unwrap_or_default().split('`').skip(1).step_by(2);
            let missing = modules.filter(|module| {
                !["{}.rs", "{}/mod.rs"]
                    .iter()
                    .any(|form| has(format!("{folder}/src/{}", form.replace("{}", module))))
            });
            findings.extend(missing.map(|module| format!("{}: there is no module `{module}`", readme.path)));
        }
    }
    findings
}

/// Crates that compute and touch nothing.
const PURE_CRATES: &[&str] = &["haft-git"];
/// What reaches the disk, the network, the environment or other processes.
const OUTSIDE: &[&str] = &["std::fs", "std::io", "std::env", "std::net", "std::process", "std::thread"];
/// Methods of paths that look at the disk.
const PATH_LOOKS: &[&str] = &[
    ".canonicalize(",
    ".exists(",
    ".is_dir(",
    ".is_file(",
    ".is_symlink(",
    ".metadata(",
    ".read_dir(",
    ".read_link(",
    ".symlink_metadata(",
    ".try_exists(",
];

/// A crate of pure knowledge depends on nothing and performs no I/O.
fn pure_crates(files: &[File]) -> Vec<String> {
    let mut findings = Vec::new();
    for name in PURE_CRATES {
        let folder = format!("crates/{name}/");
        let manifests = files.iter().filter(|file| file.path == format!("{folder}Cargo.toml"));
        findings.extend(each_line(manifests, |line| {
            let depends = line.starts_with('[') && line.contains("dependencies");
            depends.then(|| format!("{name} depends on nothing"))
        }));
        let sources = rust(files).filter(|file| file.path.starts_with(&folder));
        findings.extend(each_code_line(sources, |line| {
            let module = OUTSIDE.iter().find(|module| has_word(line, module));
            let found = module.or_else(|| PATH_LOOKS.iter().find(|method| line.contains(**method)))?;
            Some(format!("`{found}` is I/O; callers of {name} read files"))
        }));
    }
    findings
}

/// The port to processes, which carries what the shell analysis found out about repositories as a number.
const PROCESSES: &str = "crates/haft/src/ports/processes.rs";

/// The port to processes knows nothing of git: only `haft-git` gives its levels a meaning.
fn opaque_processes(files: &[File]) -> Vec<String> {
    let port = files.iter().filter(|file| file.path == PROCESSES);
    each_line(port, |line| {
        let line = line.to_ascii_lowercase();
        let mut words = line.split(|c: char| !c.is_ascii_alphabetic());
        words.any(|word| word == "git").then(|| "the core knows nothing of git".to_owned())
    })
}

/// The text up to the tests module, which stands last in a file.
fn without_tests(text: &str) -> &str {
    let tests = text.match_indices("\n#[cfg(test)]\n").map(|(at, _)| at).find(|at| {
        let item = text[at + "\n#[cfg(test)]\n".len()..].lines().find(|line| !line.starts_with("#["));
        item.is_some_and(|line| line.contains("mod ") && line.ends_with('{'))
    });
    &text[..tests.map_or(text.len(), |at| at + 1)]
}

/// A file under `tests/it/` that `main.rs` does not name is never compiled, and its tests never fail.
fn forgotten_test_modules(files: &[File]) -> Vec<String> {
    let mut findings = Vec::new();
    for file in rust(files) {
        let Some((before, name)) = file.path.split_once("/tests/it/") else { continue };
        let name = name.strip_suffix("/mod.rs").or_else(|| name.strip_suffix(".rs")).unwrap_or(name);
        if name == "main" || name.contains('/') {
            continue;
        }
        let main = format!("{before}/tests/it/main.rs");
        let code = files.iter().find(|file| file.path == main).map(|file| code_only(&file.text));
        if !code.is_some_and(|code| has_word(&code, &format!("mod {name};"))) {
            findings.push(format!("{}: its tests never run, `{main}` does not say `mod {name};`", file.path));
        }
    }
    findings
}

const README_COMMANDS: [&str; 2] = ["cargo run -- run", "cargo xtask test"];

/// The README says how to see the project at work, and how to check it.
fn readme_commands(files: &[File]) -> Vec<String> {
    let Some(readme) = files.iter().find(|file| file.path == "README.md") else {
        return vec!["README.md: does not exist".to_string()];
    };
    let missing = README_COMMANDS.into_iter().filter(|command| !readme.text.contains(command));
    missing.map(|command| format!("README.md: does not name the command `{command}`")).collect()
}

/// Pages that say which test shows what.
const TEST_PAGES: [&str; 2] = ["docs/reliability.md", "docs/proof/faults.md"];

/// A test that a page names is there. It is named with its module, `flood::a_flood_costs_no_memory`; which crate has it is
/// said beside it, for people.
fn named_tests(files: &[File]) -> Vec<String> {
    let tests: std::collections::BTreeSet<&str> =
        rust(files).flat_map(|file| functions(&file.text)).collect();
    let pages = files.iter().filter(|file| TEST_PAGES.contains(&file.path.as_str()));
    each_line(pages, |line| {
        let quoted = line.split('`').skip(1).step_by(2);
        let mut named = quoted.filter_map(|words| words.rsplit_once("::")).map(|(_, test)| test);
        let missing = named.find(|test| is_name(test) && !tests.contains(test))?;
        Some(format!("there is no test `{missing}`"))
    })
}

/// Whether this can be a test's name, and no module, type or pattern.
fn is_name(text: &str) -> bool {
    text.contains('_')
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_' || byte.is_ascii_digit())
}

/// The names of the functions in a file.
fn functions(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let line = line.trim_start();
        let line = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ")?;
        line.split(['(', '<']).next()
    })
}

/// A source file opens with what it is for.
fn opening_lines(files: &[File]) -> Vec<String> {
    rust(files)
        .filter(|file| file.path.starts_with("crates/") && file.path.contains("/src/"))
        .filter(|file| !file.text.starts_with("//!"))
        .map(|file| format!("{}:1: opens without `//!`, a sentence on what it is for", file.path))
        .collect()
}

const LINES_MAX: usize = 900;

/// A longer file has become two.
fn long_files(files: &[File]) -> Vec<String> {
    let long = rust(files).filter(|file| file.text.lines().count() > LINES_MAX);
    long.map(|file| format!("{}: {} lines, at most {LINES_MAX}", file.path, file.text.lines().count()))
        .collect()
}

fn rust(files: &[File]) -> impl Iterator<Item = &File> {
    files.iter().filter(|file| file.path.ends_with(".rs"))
}

fn each_line<'a>(
    files: impl Iterator<Item = &'a File>,
    find: impl Fn(&str) -> Option<String>,
) -> Vec<String> {
    let mut findings = Vec::new();
    for file in files {
        for (index, line) in file.text.lines().enumerate() {
            findings.extend(find(line).map(|text| format!("{}:{}: {text}", file.path, index + 1)));
        }
    }
    findings
}

/// Like `each_line`, with comments and literals blanked.
fn each_code_line<'a>(
    files: impl Iterator<Item = &'a File>,
    find: impl Fn(&str) -> Option<String>,
) -> Vec<String> {
    let code: Vec<File> =
        files.map(|file| File { path: file.path.clone(), text: code_only(&file.text) }).collect();
    each_line(code.iter(), find)
}

/// Whether `word` occurs, and not as the end of a longer name.
fn has_word(code: &str, word: &str) -> bool {
    code.match_indices(word).any(|(at, _)| !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
}

#[cfg(test)]
mod tests;
