//! Pages do what they say: their files are written, their commands run, and what is printed is what they
//! show.
//!
//! In a page, a line that ends with the name of a file in backquotes and a colon, followed by a block, is
//! that file. A `console` block has commands after `$` and beneath each what it prints, standard output and
//! error together.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use crate::room::{Room, crate_path, without_busy_warnings};

/// Something that a page asks its reader to do.
#[derive(Debug, PartialEq)]
enum Step {
    Write { path: String, text: String },
    Run { command: String, printed: String },
}

fn steps(page: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut named = None;
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(kind) = line.strip_prefix("```") else {
            let name = line.strip_suffix("`:").and_then(|line| line.rsplit_once('`'));
            named = name.map(|(_, name)| name.to_owned()).or(named.filter(|_| line.is_empty()));
            continue;
        };
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        if let Some(path) = named.take() {
            steps.push(Step::Write { path, text: block.join("\n") + "\n" });
        } else if kind == "console" {
            for line in block {
                if let Some(command) = line.strip_prefix("$ ") {
                    steps.push(Step::Run { command: command.to_owned(), printed: String::new() });
                } else if let Some(Step::Run { printed, .. }) = steps.last_mut() {
                    printed.push_str(line);
                    printed.push('\n');
                }
            }
        }
    }
    steps
}

/// Follows a page from beginning to end in a folder of its own, which has these files of the repository.
fn follow(page: &str, files: &[&str]) {
    let room = Room::new();
    let root = crate_path("../..");
    for file in files {
        fs::copy(root.join(file), room.path("work").join(file)).unwrap();
    }
    let steps = steps(&fs::read_to_string(root.join(page)).unwrap());
    assert!(steps.iter().any(|step| matches!(step, Step::Run { .. })), "{page} has no commands");
    for step in steps {
        match step {
            Step::Write { path, text } => {
                let path = room.path("work").join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(&path, &text).unwrap();
                if text.starts_with("#!") {
                    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
                }
            }
            Step::Run { command, printed } => {
                let shown = run(&room, &command);
                // A reader's folder has a name that reads like one.
                let printed = room.plain(&printed).replace("/home/me/work", "ROOM/work");
                assert_eq!(shown.trim_end(), printed.trim_end(), "{page}: $ {command}");
            }
        }
    }
}

fn run(room: &Room, command: &str) -> String {
    let haft = Path::new(env!("CARGO_BIN_EXE_haft")).parent().unwrap().display().to_string();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut bash = Command::new("bash");
    bash.args(["-c", &format!("{{ {command}\n}} 2>&1")]).current_dir(room.path("work"));
    bash.env_clear()
        .env("HOME", room.path("home"))
        .env("LANG", "C.UTF-8")
        .env("PATH", format!("{haft}:{path}"));
    let output = bash.output().unwrap();
    room.plain(&without_busy_warnings(&String::from_utf8(output.stdout).unwrap()))
}

#[test]
fn the_readme() {
    follow("README.md", &["Cargo.toml", "rustfmt.toml"]);
}

#[test]
fn the_page_on_the_command_line() {
    follow("docs/cli.md", &["rustfmt.toml"]);
}

#[test]
fn the_page_on_commands() {
    follow("docs/bash.md", &[]);
}

#[test]
fn the_page_on_dispatch() {
    follow("docs/dispatch.md", &[]);
}

#[test]
fn the_page_on_script_tools() {
    follow("docs/script-tools.md", &[]);
}

#[test]
fn a_page_is_read_as_files_and_commands() {
    let page = "# T\n\nFirst `a/b.sh`:\n\n```sh\n#!/bin/sh\necho hi\n```\n\n```console\n$ a/b.sh\nhi\n\n$ true\n```\n\n```json\n{}\n```\n";
    let run = |command: &str, printed: &str| Step::Run { command: command.into(), printed: printed.into() };
    let file = Step::Write { path: "a/b.sh".into(), text: "#!/bin/sh\necho hi\n".into() };
    assert_eq!(steps(page), [file, run("a/b.sh", "hi\n\n"), run("true", "")]);
}
