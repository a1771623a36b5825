//! Rules of the repository that no compiler checks. Each is a function from the files to its findings.
//!
//! A rule here has been broken before, here or elsewhere, and was found late. Taste belongs to review.

use crate::Done;
use crate::cargo::root;
use crate::naming;
use crate::source::{File, code_only, files};

/// What a rule finds: `path:line: text`, or `path: text` where the whole file is meant.
pub(crate) type Rule = fn(&[File]) -> Vec<String>;

const RULES: &[Rule] = &[
    machine_paths,
    ordinary_registry,
    crate_dependencies,
    forbidden_words,
    vendor_json,
    library_flags,
    forgotten_test_modules,
    crate_readmes,
    readme_commands,
    document_links,
    named_tests,
    opening_lines,
    long_files,
];

pub(crate) fn run() -> Done {
    let files = files(&root()?)?;
    let findings: Vec<String> = RULES.iter().chain(naming::RULES).flat_map(|rule| rule(&files)).collect();
    if findings.is_empty() {
        println!("{} files keep {} rules", files.len(), RULES.len() + naming::RULES.len());
        return Ok(());
    }
    for finding in &findings {
        println!("{finding}");
    }
    Err(format!("{} findings", findings.len()))
}

/// This file has to name what it looks for.
const THIS_FILE: &str = "xtask/src/repository.rs";

/// Folders that exist on somebody's machine only.
const MACHINE_FOLDERS: &[&str] = &["/work/", "/root/", "/home/", "/Users/"];
/// The home folder in examples of documents and tests.
const EXAMPLE_FOLDER: &str = "/home/me";

/// No file names a path of a developer's machine.
fn machine_paths(files: &[File]) -> Vec<String> {
    each_line(files.iter().filter(|file| file.path != THIS_FILE), |line| {
        let path = machine_path(line)?;
        Some(format!("`{path}` is a path of somebody's machine; examples use `{EXAMPLE_FOLDER}`"))
    })
}

fn machine_path(line: &str) -> Option<&str> {
    let all = MACHINE_FOLDERS.iter().flat_map(|folder| line.match_indices(folder).map(|(at, _)| at));
    // `src/work/x`, `@/home/x` (a placeholder) and `https://a.example/home/` are no absolute paths.
    let is_relative =
        |at: &usize| line[..*at].ends_with(|c: char| c.is_alphanumeric() || "._-~*+$@}])>".contains(c));
    let ends = |c: char| c.is_whitespace() || "\"'`<>()[]{},;:".contains(c);
    let mut paths = all.filter(|at| !is_relative(at)).filter_map(|at| line[at..].split(ends).next());
    paths.find(|path| *path != EXAMPLE_FOLDER && !path.starts_with(&format!("{EXAMPLE_FOLDER}/")))
}

const REGISTRY: &str = r#"source = "registry+https://github.com/rust-lang/crates.io-index""#;

/// Lock files take crates from the ordinary registry only: no mirror, no git.
fn ordinary_registry(files: &[File]) -> Vec<String> {
    each_line(files.iter().filter(|file| file.path.ends_with("Cargo.lock")), |line| {
        let other = line.starts_with("source = ") && line != REGISTRY;
        other.then(|| format!("`{line}` is not the ordinary registry"))
    })
}

/// The crates of this repository that each crate may depend on, one crate a line. ARCHITECTURE.md has the
/// reasons.
const CRATE_DEPENDENCIES: &str = "
haft: haft-scheduler
haft-agent: haft
haft-cli: haft haft-agent haft-journal haft-mcp haft-otel haft-provider haft-session haft-terminal
haft-git:
haft-journal: haft
haft-mcp: haft
haft-net:
haft-otel: haft haft-mcp
haft-policy: haft haft-git haft-protected haft-shell
haft-protected:
haft-provider: haft haft-agent
haft-sandbox: haft haft-git haft-net haft-protected
haft-scheduler:
haft-session: haft haft-agent haft-journal haft-mcp haft-net haft-policy haft-provider haft-sandbox haft-tools
haft-shell: haft haft-git
haft-sim: haft haft-agent haft-journal haft-provider
haft-terminal: haft haft-agent
haft-tools: haft haft-git haft-net haft-shell
";
/// A crate of pure knowledge, which depends on nothing.
const PURE_CRATE: &str = "haft-git";

/// Crates depend on each other only as the table allows. Tests may use other crates.
fn crate_dependencies(files: &[File]) -> Vec<String> {
    let mut findings = Vec::new();
    for (name, manifest) in manifests(files) {
        let mut rows = CRATE_DEPENDENCIES.lines().filter_map(|row| row.split_once(':'));
        let Some((_, allowed)) = rows.find(|(known, _)| *known == name) else {
            let path = &manifest.path;
            findings.push(format!("{path}: {name} is missing in CRATE_DEPENDENCIES and in ARCHITECTURE.md"));
            continue;
        };
        let mut section = "";
        for (index, line) in manifest.text.lines().enumerate() {
            let header = line.strip_prefix('[').map(|header| header.trim_end_matches(']'));
            section = header.unwrap_or(section);
            // `[dependencies.NAME]`, or `NAME = …` below `[dependencies]`.
            let (section, dependency) = match header {
                Some(header) => header.rsplit_once('.').unwrap_or_default(),
                None => (section, line.split(['.', ' ', '=', '#']).next().unwrap_or_default()),
            };
            let is_ours = dependency == "haft" || dependency.starts_with("haft-");
            let is_governed = is_ours || name == PURE_CRATE && !dependency.is_empty();
            let counts = section.ends_with("dependencies") && section != "dev-dependencies";
            if counts && is_governed && !allowed.split(' ').any(|known| known == dependency) {
                let path = &manifest.path;
                findings.push(format!("{path}:{}: {name} must not depend on {dependency}", index + 1));
            }
        }
    }
    findings
}

/// The crates with their manifests.
fn manifests(files: &[File]) -> impl Iterator<Item = (&str, &File)> {
    files.iter().filter_map(|file| {
        let name = file.path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?;
        Some((name, file))
    })
}

/// What the README names, as `.ci/run` and a newcomer use it.
const README_COMMANDS: [&str; 2] = ["cargo run -- run", "cargo xtask test"];

/// The README names the two commands that do everything.
fn readme_commands(files: &[File]) -> Vec<String> {
    let readme = files.iter().find(|file| file.path == "README.md").map_or("", |file| &file.text);
    let missing = README_COMMANDS.into_iter().filter(|command| !readme.contains(command));
    missing.map(|command| format!("README.md: does not name the command `{command}`")).collect()
}

/// Relative links of documents lead to files or folders of the repository.
fn document_links(files: &[File]) -> Vec<String> {
    let has = |path: &str| {
        let folder = format!("{path}/");
        files.iter().any(|file| file.path == path || file.path.starts_with(&folder))
    };
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with(".md")) {
        let folder: Vec<&str> = file.path.split('/').collect();
        for (index, line) in file.text.lines().enumerate() {
            for (at, _) in line.match_indices("](") {
                let target = line[at + 2..].split([')', '#', ' ']).next().unwrap_or_default();
                if target.is_empty() || target.contains(':') || target.starts_with(['/', '`', '<']) {
                    continue;
                }
                let mut path = folder[..folder.len() - 1].to_vec();
                for step in target.trim_end_matches('/').split('/') {
                    match step {
                        ".." => drop(path.pop()),
                        "." => {}
                        name => path.push(name),
                    }
                }
                if !has(&path.join("/")) {
                    findings.push(format!(
                        "{}:{}: `{target}` is not in the repository",
                        file.path,
                        index + 1
                    ));
                }
            }
        }
    }
    findings
}

/// Each crate has a README.md whose table names modules that exist.
fn crate_readmes(files: &[File]) -> Vec<String> {
    let has = |path: String| files.iter().any(|file| file.path == path);
    let mut findings = Vec::new();
    for (name, _) in manifests(files) {
        let path = format!("crates/{name}/README.md");
        let Some(readme) = files.iter().find(|file| file.path == path) else {
            findings.push(format!("{path}: is missing; it has the modules of the crate"));
            continue;
        };
        findings.extend(each_line([readme].into_iter(), |line| {
            let cell = line.strip_prefix("| `").and_then(|row| row.split('|').next())?;
            let mut modules = cell.split('`').step_by(2);
            let is_there = |module: &str| {
                has(format!("crates/{name}/src/{module}.rs"))
                    || has(format!("crates/{name}/src/{module}/mod.rs"))
            };
            let missing = modules.find(|module| !module.trim().is_empty() && !is_there(module))?;
            Some(format!("there is no module `{missing}`"))
        }));
    }
    findings
}

/// Words that the code of some crates does not have.
struct ForbiddenWords {
    /// The beginning of the paths that are meant, and beginnings that are not.
    paths: (&'static str, &'static [&'static str]),
    /// Separated by blanks.
    words: &'static str,
    reason: &'static str,
}

const FORBIDDEN_WORDS: [ForbiddenWords; 4] = [
    ForbiddenWords {
        paths: ("crates/", &["crates/haft-sandbox/"]),
        words: "Command::new process::Command",
        reason: "starts a process; only crates/haft-sandbox does, so that nothing runs outside of one by accident",
    },
    ForbiddenWords {
        paths: (PROGRAM, &[]),
        words: "haft_net haft_policy haft_sandbox haft_shell haft_tools haft::dispatch haft::pipeline Engine::new EngineBuilder",
        reason: "is reached through haft-session",
    },
    ForbiddenWords {
        paths: ("crates/haft-git/", &[]),
        words: "std::fs std::io std::env std::net std::process std::thread .canonicalize( .exists( .is_dir( .is_file( .is_symlink( .metadata( .read_dir( .read_link( .symlink_metadata( .try_exists(",
        reason: "is I/O; callers of haft-git read files",
    },
    // The port carries what the shell analysis found out about repositories as a number; only `haft-git`
    // gives it a meaning.
    ForbiddenWords {
        paths: ("crates/haft/src/ports/processes.rs", &[]),
        words: "git Git _git",
        reason: "is unknown to the core",
    },
];

fn forbidden_words(files: &[File]) -> Vec<String> {
    let mut findings = Vec::new();
    for rule in FORBIDDEN_WORDS {
        let (beginning, others) = rule.paths;
        let is_meant =
            |path: &str| path.starts_with(beginning) && !others.iter().any(|other| path.starts_with(other));
        let code = shipped(files).filter(|file| is_meant(&file.path));
        let code: Vec<File> = code.map(|file| File { text: code_only(&file.text), ..file }).collect();
        findings.extend(each_line(code.iter(), |line| {
            let line = line.replace("clap::Command", "");
            let found = rule.words.split(' ').find(|word| has_word(&line, word))?;
            Some(format!("`{found}` {}", rule.reason))
        }));
    }
    findings
}

/// The folder of the program.
const PROGRAM: &str = "crates/haft-cli/";

/// Crates that read the JSON of model providers: the one that does, and the simulator, which checks it
/// independently.
const VENDOR_JSON_CRATES: &[&str] = &["haft-provider", "haft-sim"];
/// Keys and types that only the JSON of a model provider has. In code they stand between quotes.
const VENDOR_KEYS: &str = "cache_control custom_tool_call defer_loading finish_reason functionCall functionDeclarations functionResponse function_call \
    function_call_output inlineData input_text output_text parametersJsonSchema parts role thoughtSignature \
    tool_call_id tool_calls tool_reference tool_result tool_search_call tool_search_output tool_use";
/// Files that use such a key for something else, with what it is there.
const VENDOR_KEY_EXCEPTIONS: &[(&str, &str)] = &[
    // Messages of MCP have a role: those of sampling and of prompts.
    ("crates/haft-session/src/mcp/sample.rs", "role"),
    ("crates/haft-mcp/src/client/tools/get_prompt.rs", "role"),
    // The input of hooks after all calls of a message, as Claude Code writes it.
    ("crates/haft-policy/src/hooks/calls.rs", "tool_calls"),
    // Elements of pages have a role.
    ("crates/haft-tools/src/browser/accessibility_tree.rs", "role"),
    ("crates/haft-tools/src/web/html.rs", "role"),
];

/// Only `haft-provider` knows the JSON of model providers.
fn vendor_json(files: &[File]) -> Vec<String> {
    let governed = shipped(files).filter(|file| {
        !VENDOR_JSON_CRATES.iter().any(|name| file.path.starts_with(&format!("crates/{name}/")))
    });
    let mut findings = Vec::new();
    for file in governed {
        let is_known = |key: &str| VENDOR_KEY_EXCEPTIONS.contains(&(file.path.as_str(), key));
        findings.extend(each_line([&file].into_iter(), |line| {
            let is_comment = line.trim_start().starts_with("//");
            let mut keys = VENDOR_KEYS.split(' ').filter(|_| !is_comment);
            let key = keys.find(|key| line.contains(&format!("\"{key}\"")) && !is_known(key))?;
            Some(format!("`{key}` is a provider's JSON; only crates/haft-provider knows it"))
        }));
    }
    findings
}

/// The crates that name no flag at all. Others start programs, whose flags they name.
const FLAG_FREE_CRATES: &[&str] = &["crates/haft-agent/src/", "crates/haft-session/src/"];
/// Starts a program with a flag that this program has too.
const FLAGS_OF_CHROMIUM: &str = "crates/haft-tools/src/browser/launch.rs";

/// Everything but the program is a library: its messages reach users of other programs and name no flags of
/// this one.
fn library_flags(files: &[File]) -> Vec<String> {
    let own = program_flags(files);
    let governed =
        shipped(files).filter(|file| !file.path.starts_with(PROGRAM) && file.path != FLAGS_OF_CHROMIUM);
    let (strict, others): (Vec<File>, Vec<File>) =
        governed.partition(|file| FLAG_FREE_CRATES.iter().any(|source| file.path.starts_with(source)));
    let mut findings = named_flags(&strict, |_| true);
    findings.extend(named_flags(&others, |flag| own.contains(flag)));
    findings
}

/// The flags that every subcommand of the program has: the fields of `CommonArgs`.
fn program_flags(files: &[File]) -> std::collections::BTreeSet<String> {
    let file = files.iter().find(|file| file.path == format!("{PROGRAM}src/args.rs"));
    let lines = file.into_iter().flat_map(|file| file.text.lines());
    let fields =
        lines.skip_while(|line| !line.contains("struct CommonArgs {")).take_while(|line| *line != "}");
    let name =
        |line: &str| Some(line.trim().strip_prefix("pub(crate) ")?.split_once(':')?.0.replace('_', "-"));
    fields.filter_map(|line| name(line).map(|name| format!("--{name}"))).collect()
}

/// The lines of code and text that name a flag of this kind.
fn named_flags(files: &[File], is_meant: impl Fn(&str) -> bool) -> Vec<String> {
    each_line(files.iter(), |line| {
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

/// Pages that say which test shows what.
const TEST_PAGES: [&str; 2] = ["docs/reliability.md", "docs/proof/faults.md"];

/// A test that a page names is there. It is named with its module, `flood::a_flood_costs_no_memory`; which
/// crate has it is said beside it, for people.
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

pub(crate) fn rust(files: &[File]) -> impl Iterator<Item = &File> {
    files.iter().filter(|file| file.path.ends_with(".rs"))
}

/// The sources of the crates without their tests.
pub(crate) fn shipped(files: &[File]) -> impl Iterator<Item = File> {
    let is_source = |path: &str| path.starts_with("crates/") && path.contains("/src/");
    let is_test = |path: &str| path.ends_with("tests.rs") || path.contains("/tests/");
    let sources = rust(files).filter(move |file| is_source(&file.path) && !is_test(&file.path));
    sources.map(|file| File { path: file.path.clone(), text: without_tests(&file.text).to_owned() })
}

/// The text up to the tests module, which stands last in a file.
fn without_tests(text: &str) -> &str {
    let tests = text.match_indices("\n#[cfg(test)]\n").map(|(at, _)| at).find(|at| {
        let item = text[at + "\n#[cfg(test)]\n".len()..].lines().find(|line| !line.starts_with("#["));
        item.is_some_and(|line| line.contains("mod ") && line.ends_with('{'))
    });
    &text[..tests.map_or(text.len(), |at| at + 1)]
}

pub(crate) fn each_line<'a>(
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

/// Whether `word` occurs, and not as a part of a longer name.
fn has_word(code: &str, word: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word)
        .any(|(at, _)| !word.starts_with(char::is_alphabetic) || !code[..at].ends_with(is_name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a rule on files given as (path, text) and compares where it finds something.
    fn check(rule: Rule, given: &[(&str, &str)], expected: &[&str]) {
        let file = |(path, text): &(&str, &str)| File { path: path.to_string(), text: text.to_string() };
        let findings = rule(&given.iter().map(file).collect::<Vec<_>>());
        let places: Vec<&str> = findings.iter().map(|text| text.split_once(": ").unwrap().0).collect();
        assert_eq!(places, expected, "{findings:#?}");
    }

    #[test]
    fn paths_of_a_machine_are_found() {
        for line in ["`/work/x/y`", "let p = \"/root/.ssh\";", "/home/me/x but /home/jo/x", "path=/Users/jo"]
        {
            check(machine_paths, &[("a.md", line)], &["a.md:1"]);
        }
        let others =
            "`/home/me`, (/home/me) src/work/x ~/work/x $HOME/work/x https://a.example/home/x /homework/";
        check(machine_paths, &[("a.md", others)], &[]);
    }

    #[test]
    fn dependencies_that_a_crate_must_not_have_are_found() {
        let cli = "crates/haft-cli/Cargo.toml";
        for (manifest, line) in [
            ("[dependencies]\nhaft.workspace = true\nhaft-policy = { path = \"x\" }", 3),
            ("[target.'cfg(unix)'.dependencies]\nhaft-sandbox = \"1\"", 2),
            ("[dependencies.haft-tools]", 1),
        ] {
            check(crate_dependencies, &[(cli, manifest)], &[&format!("{cli}:{line}")]);
            check(crate_dependencies, &[("crates/haft-session/Cargo.toml", manifest)], &[]);
        }
        let fine =
            "[dependencies]\nhaft.workspace = true # not haft-tools\n[dev-dependencies]\nhaft-tools = \"1\"";
        check(crate_dependencies, &[(cli, fine)], &[]);
        let (pure, new) = ("crates/haft-git/Cargo.toml", "crates/haft-new/Cargo.toml");
        check(
            crate_dependencies,
            &[(pure, "[dependencies]\nx = \"1\""), (new, "")],
            &[&format!("{pure}:2"), new],
        );
    }

    #[test]
    fn modules_that_a_readme_names_are_there() {
        let (manifest, module) = (("crates/a/Cargo.toml", ""), ("crates/a/src/b.rs", ""));
        check(crate_readmes, &[manifest], &["crates/a/README.md"]);
        let readme = "| Module | Purpose |\n| `b` | x |\n| `b`, `c` | `y` |";
        check(crate_readmes, &[manifest, module, ("crates/a/README.md", readme)], &["crates/a/README.md:3"]);
    }

    #[test]
    fn words_that_a_crate_must_not_have_are_found() {
        for (path, line) in [
            ("crates/haft/src/a.rs", "fn f() { std::process::Command::new(\"ls\"); }"),
            ("crates/haft-cli/src/a.rs", "use haft_policy::gate::Policy;"),
            ("crates/haft-git/src/a.rs", "let x = path.canonicalize();"),
            ("crates/haft/src/ports/processes.rs", "pub git_config: bool,"),
            ("crates/haft/src/ports/processes.rs", "fn with_git() {}"),
        ] {
            check(forbidden_words, &[(path, line)], &[&format!("{path}:1")]);
            check(forbidden_words, &[("crates/haft-sandbox/src/a.rs", line)], &[]);
            let tests = format!("//! a\n\n#[cfg(test)]\nmod tests {{\n    {line}\n}}");
            check(forbidden_words, &[(path, &tests), (path, &format!("// {line}"))], &[]);
            let elsewhere = format!("#[cfg(test)]\nmod tests;\n\n{line}");
            check(forbidden_words, &[(path, &elsewhere)], &[&format!("{path}:4")]);
        }
        check(forbidden_words, &[("crates/a/src/a.rs", "clap::Command::new(\"x\"); SubCommand::new()")], &[]);
    }

    #[test]
    fn only_the_provider_knows_vendor_json() {
        let (code, path) = ("v[\"tool_use\"];", "crates/haft-tools/src/a.rs");
        check(vendor_json, &[(path, code)], &["crates/haft-tools/src/a.rs:1"]);
        check(vendor_json, &[("crates/haft-provider/src/a.rs", code)], &[]);
        check(
            vendor_json,
            &[(path, "// \"tool_use\"\nlet a = \"parent_tool_use_id\"; let b = tool_use;")],
            &[],
        );
        let sampling = "crates/haft-session/src/mcp/sample.rs";
        check(
            vendor_json,
            &[(sampling, "message[\"role\"]\nmessage[\"parts\"]")],
            &[&format!("{sampling}:2")],
        );
    }

    #[test]
    fn libraries_name_no_flags_of_the_program() {
        let common = "struct CommonArgs {\n    pub(crate) add_dir: Vec<PathBuf>,\n}\nstruct Other {\n    pub(crate) quiet: bool,\n}";
        let args = ("crates/haft-cli/src/args.rs", common);
        let (policy, session) = ("crates/haft-policy/src/a.rs", "crates/haft-session/src/a.rs");
        check(library_flags, &[args, (policy, "(\"give --add-dir {dir}\")")], &[&format!("{policy}:1")]);
        check(library_flags, &[args, (policy, "[\"--quiet\", \"--add-directory\"]\n// --add-dir")], &[]);
        check(library_flags, &[args, (session, "(\"give --other\")")], &[&format!("{session}:1")]);
        check(library_flags, &[(session, "// --cwd\nlet a = \"a -- b\"; let b = \"x--y\"; \"---\"")], &[]);
        assert!(program_flags(&files(&root().unwrap()).unwrap()).contains("--allow"));
    }

    #[test]
    fn forgotten_test_modules_are_found() {
        let (main, a, b) =
            ("crates/x/tests/it/main.rs", "crates/x/tests/it/a.rs", "crates/x/tests/it/b/mod.rs");
        check(forgotten_test_modules, &[(main, "mod a;\nmod b;"), (a, ""), (b, "")], &[]);
        check(forgotten_test_modules, &[(main, "// mod a;\nmod aa;\nmod b;"), (a, ""), (b, "")], &[a]);
    }

    #[test]
    fn tests_that_a_page_names_are_there() {
        let code = ("crates/a/tests/it/b.rs", "#[test]\nfn it_holds() {}\n    async fn it_lasts<T>() {}");
        let page =
            "| 1 | `b::it_holds`; `b::it_lasts` | `b::tests` `Vec::new` `b::…` |\n| 2 | `b::it_held` |";
        check(named_tests, &[code, ("docs/reliability.md", page)], &["docs/reliability.md:2"]);
    }

    #[test]
    fn files_that_are_long_or_say_nothing_are_found() {
        check(
            opening_lines,
            &[("crates/a/src/b.rs", "use x;"), ("crates/a/src/c.rs", "//! C.")],
            &["crates/a/src/b.rs:1"],
        );
        check(long_files, &[("a.rs", &"x\n".repeat(901)), ("b.rs", &"x\n".repeat(900))], &["a.rs"]);
        check(
            ordinary_registry,
            &[("Cargo.lock", REGISTRY), ("b/Cargo.lock", "source = \"git+x\"")],
            &["b/Cargo.lock:1"],
        );
    }

    #[test]
    fn the_readme_names_the_commands_and_links_lead_somewhere() {
        check(readme_commands, &[("README.md", "cargo run -- run")], &["README.md"]);
        check(readme_commands, &[("README.md", "cargo run -- run\ncargo xtask test")], &[]);
        let page = "[a](b.md#x) [c](../README.md) [d](https://e.example) [e](gone.md) [f](../src)";
        let files = [("README.md", ""), ("docs/a.md", page), ("docs/b.md", ""), ("src/x.rs", "")];
        check(document_links, &files, &["docs/a.md:1"]);
    }
}
