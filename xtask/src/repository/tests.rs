//! Each rule with text that it accepts and text that it reports.

use super::*;

/// Runs a rule on files given as (path, text) and compares where it finds something.
fn check(rule: Rule, given: &[(&str, &str)], expected: &[&str]) {
    let files: Vec<File> =
        given.iter().map(|(path, text)| File { path: path.to_string(), text: text.to_string() }).collect();
    let findings = rule(&files);
    let places: Vec<&str> = findings.iter().map(|text| text.split_once(": ").unwrap().0).collect();
    assert_eq!(places, expected, "{findings:#?}");
}

#[test]
fn paths_of_a_machine_are_found() {
    check(machine_paths, &[("a.md", "see\n`/work/x/y`")], &["a.md:2"]);
    check(machine_paths, &[("a.rs", "let p = \"/root/.ssh\";")], &["a.rs:1"]);
    check(machine_paths, &[("a.md", "file:///home/jo/x")], &["a.md:1"]);
    check(machine_paths, &[("a.md", "/home/me/x but /home/jo/x")], &["a.md:1"]);
    check(machine_paths, &[("a.md", "/home/melissa/x")], &["a.md:1"]);
    check(machine_paths, &[("a.md", "the path=/Users/jo")], &["a.md:1"]);
}

#[test]
fn examples_and_relative_paths_are_not() {
    check(machine_paths, &[("a.md", "`/home/me`, /home/me/x, (/home/me)")], &[]);
    check(machine_paths, &[("a.md", "src/work/x ~/work/x $HOME/work/x https://a.example/home/x")], &[]);
    check(machine_paths, &[("a.md", "/homework/ /workspace/x /rooted/")], &[]);
}

#[test]
fn the_lock_file_names_one_registry() {
    check(ordinary_registry, &[("Cargo.lock", REGISTRY)], &[]);
    check(
        ordinary_registry,
        &[("Cargo.lock", "a\nsource = \"git+https://a.example/x#1\"")],
        &["Cargo.lock:2"],
    );
    check(ordinary_registry, &[("Cargo.lock", "source = \"sparse+https://a.example/\"")], &["Cargo.lock:1"]);
}

#[test]
fn unfinished_code_is_found_and_talk_of_it_is_not() {
    check(unfinished_code, &[("a.rs", "fn f() {\n    todo!()\n}")], &["a.rs:2"]);
    check(unfinished_code, &[("a.rs", "fn f() { unimplemented!(\"x\") }")], &["a.rs:1"]);
    check(
        unfinished_code,
        &[("a.rs", "// todo!()\nlet x = \"todo!\"; not_todo!();"), ("a.md", "todo!()")],
        &[],
    );
}

#[test]
fn only_the_sandbox_starts_processes() {
    let code = "fn f() { std::process::Command::new(\"ls\"); }";
    check(started_processes, &[("crates/haft/src/a.rs", code)], &["crates/haft/src/a.rs:1"]);
    check(
        started_processes,
        &[("crates/a/src/a.rs", "use tokio::process::Command as C;")],
        &["crates/a/src/a.rs:1"],
    );
    check(started_processes, &[("crates/haft-sandbox/src/a.rs", code), ("xtask/src/a.rs", code)], &[]);
    check(started_processes, &[("crates/haft/tests/it/a.rs", code)], &[]);
    check(
        started_processes,
        &[("crates/haft/src/a.rs", "clap::Command::new(\"x\"); SubCommand::new()")],
        &[],
    );
}

#[test]
fn the_program_reaches_other_crates_through_the_session() {
    let manifest = |text: &'static str| ("crates/haft-cli/Cargo.toml", text);
    check(
        program_imports,
        &[manifest("[dependencies]\nhaft-session.workspace = true\nhaft-policy = { path = \"x\" }")],
        &["crates/haft-cli/Cargo.toml:3"],
    );
    check(
        program_imports,
        &[manifest("[target.'cfg(unix)'.dependencies.rules]\npackage = \"haft-sandbox\"")],
        &["crates/haft-cli/Cargo.toml:2"],
    );
    check(
        program_imports,
        &[manifest(
            "[dependencies]\nhaft.workspace = true # not haft-tools\n[dev-dependencies]\nhaft-tools = \"1\"",
        )],
        &[],
    );
    let source = "crates/haft-cli/src/a.rs";
    for code in ["use haft_policy::gate::Policy;", "haft::pipeline::run();", "let engine = Engine::new(all);"]
    {
        check(program_imports, &[(source, code)], &["crates/haft-cli/src/a.rs:1"]);
        let tests = format!("//! a\n\n#[cfg(test)]\nmod tests {{\n    {code}\n}}");
        check(program_imports, &[(source, &tests), ("crates/haft-cli/src/a/tests.rs", code)], &[]);
        check(program_imports, &[("crates/haft-session/src/a.rs", code)], &[]);
    }
    check(program_imports, &[(source, "// haft_policy\nuse haft_session::trust;")], &[]);
}

#[test]
fn the_program_keeps_this_boundary() {
    let files = files(&root().unwrap()).unwrap();
    assert!(files.iter().any(|file| file.path == "crates/haft-cli/src/main.rs"));
    assert_eq!(program_imports(&files), [""; 0]);
}

#[test]
fn only_the_provider_knows_vendor_json() {
    let code = "fn f(v: &Value) { v[\"tool_use\"]; }";
    check(vendor_json, &[("crates/haft-session/src/a.rs", code)], &["crates/haft-session/src/a.rs:1"]);
    check(vendor_json, &[("crates/haft-agent/src/a/b.rs", code)], &["crates/haft-agent/src/a/b.rs:1"]);
    let raw = "let a = 1;\nlet s = r#\"{\"functionCall\": {}}\"#;";
    check(vendor_json, &[("crates/haft-cli/src/a.rs", raw)], &["crates/haft-cli/src/a.rs:2"]);
    check(vendor_json, &[("crates/haft-provider/src/a.rs", code)], &[]);
    let other = "// \"tool_use\"\nlet a = \"parent_tool_use_id\"; let b = tool_use;";
    check(vendor_json, &[("crates/haft-agent/src/a.rs", other)], &[]);
    let tests = "#![x]\n\n#[cfg(test)]\nmod tests {\n    let a = \"tool_use\";\n}";
    check(vendor_json, &[("crates/haft-agent/src/a.rs", tests)], &[]);
    check(vendor_json, &[("crates/haft-terminal/src/a/tests.rs", code)], &[]);
    check(vendor_json, &[("crates/haft-tools/src/a.rs", code)], &["crates/haft-tools/src/a.rs:1"]);
    let sampling = "message[\"role\"]";
    check(vendor_json, &[("crates/haft-session/src/mcp/sample.rs", sampling)], &[]);
    check(
        vendor_json,
        &[("crates/haft-session/src/mcp/sample.rs", code)],
        &["crates/haft-session/src/mcp/sample.rs:1"],
    );
}

/// The tree as it is has no such key, and one that is added to any crate is found.
#[test]
fn a_vendor_key_in_the_tree_is_found() {
    let files = files(&root().unwrap()).unwrap();
    assert_eq!(vendor_json(&files), [""; 0]);
    let mut tried = 0;
    for file in &files {
        let name = file.path.strip_prefix("crates/").and_then(|path| path.strip_suffix("/src/lib.rs"));
        let Some(name) = name else { continue };
        let text = format!("const KEY: &str = \"functionCall\";\n{}", file.text);
        let expected = usize::from(!VENDOR_JSON_CRATES.contains(&name));
        let changed = File { path: file.path.clone(), text };
        assert_eq!(vendor_json(&[changed]).len(), expected, "{}", file.path);
        tried += expected;
    }
    assert!(tried > 10, "{tried}");
}

#[test]
fn the_session_names_no_flags() {
    let (source, place) = ("crates/haft-session/src/a.rs", "crates/haft-session/src/a.rs:1");
    for line in ["warn(\"give --cwd\")", "format!(\"--tools-dir `{x}`\")", "\"(`--add-dir {}`)\""] {
        check(library_flags, &[(source, line)], &[place]);
        check(library_flags, &[("crates/haft-cli/src/a.rs", line)], &[]);
        check(library_flags, &[("crates/haft-session/src/a/tests.rs", line)], &[]);
    }
    check(library_flags, &[(source, "// --cwd\nlet a = \"a -- b\"; let b = \"x--y\"; \"---\"")], &[]);
}

#[test]
fn libraries_name_no_flags_of_the_program() {
    let common = "struct Common {\n    #[arg(long)]\n    pub(crate) add_dir: Vec<PathBuf>,\n}\nstruct Other {\n    pub(crate) quiet: bool,\n}";
    let args = ("crates/haft-cli/src/args.rs", common);
    let source = "crates/haft-policy/src/a.rs";
    for line in ["format!(\"give --add-dir {dir}\")", "[\"--quiet\", \"--add-dir\"]"] {
        check(library_flags, &[args, (source, line)], &["crates/haft-policy/src/a.rs:1"]);
        check(library_flags, &[args, (FLAGS_OF_CHROMIUM, line)], &[]);
        check(library_flags, &[args, ("crates/haft-policy/tests/it/a.rs", line)], &[]);
    }
    check(library_flags, &[args, (source, "[\"--quiet\", \"--add-directory\"]\n// --add-dir")], &[]);
}

#[test]
fn the_tree_names_its_flags_in_the_program_alone() {
    let files = files(&root().unwrap()).unwrap();
    assert!(program_flags(&files).len() > 10 && program_flags(&files).contains("--allow"));
    assert_eq!(library_flags(&files), [""; 0]);
}

#[test]
fn crates_keep_their_distance_from_providers() {
    let manifest = |name: &'static str, text: &'static str| (name, text);
    let (agent, terminal) = ("crates/haft-agent/Cargo.toml", "crates/haft-terminal/Cargo.toml");
    let direct = "[dependencies]\nhaft.workspace = true\nhaft-provider.workspace = true";
    check(crate_dependencies, &[manifest(agent, direct)], &["crates/haft-agent/Cargo.toml:3"]);
    let table = "[dependencies]\nhaft-provider = { workspace = true }";
    check(crate_dependencies, &[manifest(terminal, table)], &["crates/haft-terminal/Cargo.toml:2"]);
    let target = "[target.'cfg(unix)'.dependencies]\nhaft-provider = \"1\"";
    check(crate_dependencies, &[manifest(terminal, target)], &["crates/haft-terminal/Cargo.toml:2"]);
    let dev =
        "[dependencies]\nhaft-agent.workspace = true\n[dev-dependencies]\nhaft-provider.workspace = true";
    check(crate_dependencies, &[manifest(terminal, dev)], &[]);
    check(crate_dependencies, &[manifest("crates/haft-session/Cargo.toml", direct)], &[]);
    let table = "[dependencies.haft-provider]\npath = \"x\"";
    check(crate_dependencies, &[manifest(terminal, table)], &["crates/haft-terminal/Cargo.toml:1"]);
    check(crate_dependencies, &[manifest("crates/new/Cargo.toml", "")], &["crates/new/Cargo.toml"]);
}

#[test]
fn the_readme_of_a_crate_names_its_modules() {
    let manifest = ("crates/a/Cargo.toml", "");
    let files = |readme: &'static str| {
        [manifest, ("crates/a/README.md", readme), ("crates/a/src/b.rs", ""), ("crates/a/src/c/mod.rs", "")]
    };
    check(crate_readmes, &[manifest], &["crates/a"]);
    check(crate_readmes, &files("| `b`, `c` | both |"), &[]);
    check(crate_readmes, &files("| `b`, `d` | none |"), &["crates/a/README.md"]);
}

#[test]
fn a_pure_crate_touches_nothing() {
    let (manifest, source) = ("crates/haft-git/Cargo.toml", "crates/haft-git/src/a.rs");
    check(
        pure_crates,
        &[(manifest, "[package]\n[dependencies]\nx = \"1\"")],
        &["crates/haft-git/Cargo.toml:2"],
    );
    for code in ["use std::fs;", "let x = path.canonicalize();", "std::env::var_os(\"X\");"] {
        check(pure_crates, &[(source, code)], &["crates/haft-git/src/a.rs:1"]);
        check(pure_crates, &[("crates/haft-shell/src/a.rs", code)], &[]);
    }
    check(pure_crates, &[(source, "// std::fs\nuse std::fmt;"), (manifest, "[package]")], &[]);
}

#[test]
fn the_port_to_processes_is_opaque() {
    for code in ["pub git_config: bool,", "/// What git writes.", "fn with_git() {}"] {
        check(opaque_processes, &[(PROCESSES, code)], &["crates/haft/src/ports/processes.rs:1"]);
    }
    check(opaque_processes, &[(PROCESSES, "c.is_ascii_digit()"), ("crates/haft/src/a.rs", "git")], &[]);
}

#[test]
fn a_tests_module_at_the_end_may_start_processes() {
    let tests = "//! a\n\n#[cfg(test)]\nmod tests {\n    fn f() { Command::new(\"ls\"); }\n}";
    check(started_processes, &[("crates/haft/src/a.rs", tests)], &[]);
    let elsewhere = "#[cfg(test)]\nmod tests;\n\nfn f() { Command::new(\"ls\"); }";
    check(started_processes, &[("crates/haft/src/a.rs", elsewhere)], &["crates/haft/src/a.rs:4"]);
    let field = "\n#[cfg(test)]\nfn g() {}\nfn f() { Command::new(\"ls\"); }";
    check(started_processes, &[("crates/haft/src/a.rs", field)], &["crates/haft/src/a.rs:4"]);
}

#[test]
fn forgotten_test_modules_are_found() {
    let (main, a, b) = ("crates/x/tests/it/main.rs", "crates/x/tests/it/a.rs", "crates/x/tests/it/b/mod.rs");
    check(forgotten_test_modules, &[(main, "mod a;\nmod b;"), (a, ""), (b, "")], &[]);
    check(forgotten_test_modules, &[(main, "// mod a;\nmod b;"), (a, ""), (b, "")], &[a]);
    check(forgotten_test_modules, &[(main, "mod aa;"), (a, ""), ("crates/x/tests/it/b/deep.rs", "")], &[a]);
    check(forgotten_test_modules, &[(a, "")], &[a]);
}

#[test]
fn the_readme_names_both_commands() {
    check(readme_commands, &[("README.md", "cargo xtask test\ncargo run -- run")], &[]);
    check(readme_commands, &[("README.md", "cargo xtask test")], &["README.md"]);
    check(readme_commands, &[("docs/README.md", "cargo xtask test, cargo xtask prove")], &["README.md"]);
}

#[test]
fn tests_that_a_page_names_are_there() {
    let code = ("crates/a/tests/it/b.rs", "#[test]\nfn it_holds() {}\n    async fn it_lasts<T>() {}");
    let page = |text: &'static str| ("docs/reliability.md", text);
    check(
        named_tests,
        &[code, page("| 1 | `b::it_holds`; `b::it_lasts` | `b::tests` `Vec::new` `b::…` |")],
        &[],
    );
    check(named_tests, &[code, page("a\n| 1 | `b::it_holds` | `b::it_held` |")], &["docs/reliability.md:2"]);
    check(named_tests, &[code, ("docs/other.md", "`b::it_held`")], &[]);
}

#[test]
fn source_files_say_what_they_are_for() {
    check(opening_lines, &[("crates/a/src/b.rs", "//! B.")], &[]);
    check(opening_lines, &[("crates/a/src/b.rs", "use x;")], &["crates/a/src/b.rs:1"]);
    check(opening_lines, &[("crates/a/tests/it/b.rs", "use x;"), ("crates/a/src/b.txt", "x")], &[]);
}

#[test]
fn a_file_has_a_length() {
    check(long_files, &[("a.rs", &"x\n".repeat(900)), ("a.md", &"x\n".repeat(901))], &[]);
    check(long_files, &[("a.rs", &"x\n".repeat(901))], &["a.rs"]);
}
