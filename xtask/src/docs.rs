//! `cargo xtask docs`: pages made from what is elsewhere in the repository, so that they can't say something
//! else.
//!
//! Reference pages come from the documented constants in the code, pages of tools from examples that are
//! played by a test of the program. The constants are read line by line, not with a parser: the two files
//! hold nothing else, and a line that this does not understand stops it instead of being left out.

use std::fs;

use crate::Done;
use crate::cargo::{cargo, root};
use crate::picture::picture;
use crate::source::write;

/// Whether to write the pages or to compare them.
#[derive(Debug, PartialEq, Clone, Copy)]
pub(crate) enum Action {
    Write,
    Check,
}

/// A table of the constants in a file.
struct Page {
    title: &'static str,
    path: &'static str,
    source: &'static str,
}

const PAGES: [Page; 2] = [
    Page { title: "Limits", path: "docs/limits.md", source: "crates/haft/src/limits.rs" },
    Page { title: "Environment variables", path: "docs/environment.md", source: "crates/haft/src/env.rs" },
];

/// The picture of the README, and what `haft run` printed, from which it is made.
const PICTURE: &str = "docs/tour.svg";
const TOUR: &str = "docs/tour.txt";

pub(crate) fn run(action: Action) -> Done {
    let root = root()?;
    let read = |path: &str| fs::read_to_string(root.join(path)).map_err(|error| format!("`{path}`: {error}"));
    let mut pages = Vec::new();
    for page in PAGES {
        pages.push((page.path, page.source, page.render(&read(page.source)?)?));
    }
    pages.push((PICTURE, TOUR, picture("haft run", &read(TOUR)?)));
    for (path, source, text) in pages {
        if action == Action::Write {
            write(&root, path, &text)?;
        } else if read(path).ok().as_ref() != Some(&text) {
            return Err(format!("`{path}` does not say what `{source}` says\nhint: cargo xtask docs"));
        }
    }
    if action == Action::Write {
        // The pages of tools come from the program itself; its tests hold that they are current.
        let test =
            ["test", "--package", "haft-cli", "--test", "it-cli", "every_built_in_tool_has_a_current_page"];
        cargo(test).with_env("UPDATE_TOOLS", "1").run()?;
    }
    println!("the pages made from code are current");
    Ok(())
}

impl Page {
    fn render(&self, source: &str) -> Result<String, String> {
        let constants = constants(source).map_err(|error| format!("{}:{error}", self.source))?;
        let mut page = format!("# {}\n\n", self.title);
        page.push_str(&format!("Made from `{}` by `cargo xtask docs`; change it there.\n", self.source));
        let introduction = source.lines().map_while(|line| line.strip_prefix("//!"));
        let introduction: Vec<&str> =
            introduction.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
        page.push_str(&format!("\n{}\n", introduction.join("\n").trim()));
        // A constant that is worth its own name, as a variable's name is, needs no second column for it.
        let named = constants.iter().all(|constant| constant.value.trim_matches('"') == constant.name);
        page.push_str(if named {
            "\n| Name | Meaning |\n|---|---|\n"
        } else {
            "\n| Name | Value | Meaning |\n|---|---|---|\n"
        });
        page.extend(constants.iter().map(|constant| constant.row(named)));
        Ok(page)
    }
}

#[derive(Debug, PartialEq, Default)]
struct Constant {
    name: String,
    value: String,
    doc: Vec<String>,
}

impl Constant {
    fn row(&self, named: bool) -> String {
        let value = if named { String::new() } else { format!(" `{}` |", cell(&self.value)) };
        format!("| `{}` |{value} {} |\n", self.name, cell(&one_line(&self.doc)))
    }
}

/// The `pub const` items of a file with their doc comments, in order.
fn constants(source: &str) -> Result<Vec<Constant>, String> {
    let mut constants = Vec::new();
    let mut doc: Vec<String> = Vec::new();
    let mut lines = source.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let line = line.trim();
        if let Some(text) = line.strip_prefix("///") {
            doc.push(text.trim().to_owned());
        } else if line.starts_with("pub const ") && !line.starts_with("pub const fn ") {
            let mut item = line.to_string();
            while !item.ends_with(';') {
                let Some((_, more)) = lines.next() else {
                    return Err(format!("{}: the constant does not end", index + 1));
                };
                item.push(' ');
                item.push_str(more.trim());
            }
            let (name, value) =
                name_and_value(&item).ok_or(format!("{}: not understood: `{item}`", index + 1))?;
            if doc.is_empty() {
                return Err(format!("{}: `{name}` has no doc comment", index + 1));
            }
            constants.push(Constant { name, value, doc: std::mem::take(&mut doc) });
        } else if !line.starts_with("#[") {
            doc.clear();
        }
    }
    Ok(constants)
}

/// Reads `pub const NAME: Type = value;`. A string loses its quotes.
fn name_and_value(item: &str) -> Option<(String, String)> {
    let (left, value) = item.strip_prefix("pub const ")?.strip_suffix(';')?.split_once(" = ")?;
    let (name, _kind) = left.split_once(':')?;
    let value = value.trim();
    let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value);
    Some((name.trim().to_string(), value.to_string()))
}

/// A doc comment in a table: paragraphs and list items are separated by breaks.
fn one_line(doc: &[String]) -> String {
    let mut text = String::new();
    let mut separator = "";
    for line in doc {
        if line.is_empty() {
            separator = "<br>";
            continue;
        }
        let item = line.starts_with("- ") || line.starts_with("* ");
        text.push_str(if item && !text.is_empty() { "<br>" } else { separator });
        text.push_str(line);
        separator = " ";
    }
    text
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str, expected: &str) {
        let rows: String = constants(source).unwrap().iter().map(|constant| constant.row(false)).collect();
        assert_eq!(rows, expected);
    }

    #[test]
    fn a_constant_is_a_row() {
        check("/// Folder.\npub const HOME: &str = \"HAFT_HOME\";", "| `HOME` | `HAFT_HOME` | Folder. |\n");
        check(
            "/// One\n/// two.\n///\n/// Three:\n/// - a | b\n/// - c\n#[expect(x)]\npub const X: u8 =\n    1;",
            "| `X` | `1` | One two.<br>Three:<br>- a \\| b<br>- c |\n",
        );
        check("/// F.\npub const fn f() {}\n/// P.\nconst P: u8 = 1;\n/// U.\nuse x;\n", "");
    }

    #[test]
    fn what_can_not_be_read_is_said() {
        assert_eq!(constants("\npub const X: u8 = 1;"), Err("2: `X` has no doc comment".to_string()));
        assert_eq!(constants("/// X.\npub const X: u8 ="), Err("2: the constant does not end".to_string()));
        assert_eq!(constants("/// X.\npub const X;"), Err("2: not understood: `pub const X;`".to_string()));
    }
}
