//! `cargo xtask docs`: pages made from what is elsewhere in the repository, so that they can't say something else.
//!
//! Reference pages come from the documented constants in the code, pages of tools from examples that are played by a
//! test of the program, the picture of the README from the text that its example printed. The constants are read line by line, not with a parser: the two files hold nothing else, and a line that this
//! does not understand stops it instead of being left out.

use std::fs;
use std::path::Path;

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

struct Page {
    made: Made,
    path: &'static str,
    source: &'static str,
}

/// What a page is made of.
enum Made {
    /// A table of constants under this title.
    Constants(&'static str),
    /// A picture of what this command printed.
    Picture(&'static str),
}

const PAGES: &[Page] = &[
    Page { made: Made::Constants("Limits"), path: "docs/limits.md", source: "crates/haft/src/limits.rs" },
    Page {
        made: Made::Constants("Environment variables"),
        path: "docs/environment.md",
        source: "crates/haft/src/env.rs",
    },
    Page { made: Made::Picture("haft run"), path: "docs/tour.svg", source: "docs/tour.txt" },
];

pub(crate) fn run(action: Action) -> Done {
    let root = root()?;
    let mut stale = Vec::new();
    for page in PAGES {
        let expected = page.render(&root)?;
        let found = fs::read_to_string(root.join(page.path)).ok();
        match (action, expected) {
            (_, expected) if expected == found => {}
            (Action::Check, _) => {
                stale.push(format!("`{}` does not say what `{}` says", page.path, page.source))
            }
            (Action::Write, Some(text)) => write(&root, page.path, &text)?,
            (Action::Write, None) => {
                return Err(format!(
                    "`{}` has no constants in `{}`; delete the page",
                    page.path, page.source
                ));
            }
        }
    }
    if action == Action::Write {
        // The pages of tools come from the program itself; its tests hold that they are current.
        let test =
            ["test", "--package", "haft-cli", "--test", "it-cli", "every_built_in_tool_has_a_current_page"];
        cargo(test).with_env("UPDATE_TOOLS", "1").run()?;
    }
    if stale.is_empty() {
        println!("the pages made from code are current");
        return Ok(());
    }
    Err(format!("{}\nhint: cargo xtask docs", stale.join("\n")))
}

impl Page {
    /// The page as it should be; `None` as long as the code has no constants for it.
    fn render(&self, root: &Path) -> Result<Option<String>, String> {
        let Ok(text) = fs::read_to_string(root.join(self.source)) else { return Ok(None) };
        let title = match self.made {
            Made::Constants(title) => title,
            Made::Picture(command) => return Ok(Some(picture(command, &text))),
        };
        let constants = constants(&text).map_err(|error| format!("{}:{error}", self.source))?;
        if constants.is_empty() {
            return Ok(None);
        }
        let mut page = format!("# {title}\n\n");
        page.push_str(&format!("Made from `{}` by `cargo xtask docs`; change it there.\n", self.source));
        let intro = introduction(&text);
        if !intro.is_empty() {
            page.push_str(&format!("\n{intro}\n"));
        }
        // A constant that is worth its own name, as a variable's name is, needs no second column for it.
        let named = constants.iter().all(|constant| constant.value.trim_matches('"') == constant.name);
        page.push_str(if named {
            "\n| Name | Meaning |\n|---|---|\n"
        } else {
            "\n| Name | Value | Meaning |\n|---|---|---|\n"
        });
        for constant in &constants {
            page.push_str(&constant.row(named));
        }
        Ok(Some(page))
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
            doc.push(plain_links(text.strip_prefix(' ').unwrap_or(text)));
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

/// The `//!` lines at the top.
fn introduction(source: &str) -> String {
    let lines = source.lines().map_while(|line| line.strip_prefix("//!"));
    let lines: Vec<String> = lines.map(|line| plain_links(line.strip_prefix(' ').unwrap_or(line))).collect();
    lines.join("\n").trim().to_string()
}

/// A doc comment in a table: paragraphs and list items are separated by breaks.
fn one_line(doc: &[String]) -> String {
    let mut text = String::new();
    let mut separator = "";
    for line in doc.iter().map(|line| line.trim()) {
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

/// Turns links that only rustdoc resolves, ``[`Name`]`` and ``[text](crate::Name)``, into their text.
fn plain_links(line: &str) -> String {
    let mut plain = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('[') {
        plain.push_str(before);
        let Some((text, after)) = after.split_once(']') else {
            plain.push('[');
            rest = after;
            continue;
        };
        let target = after.strip_prefix('(').and_then(|after| after.split_once(')'));
        match target {
            Some((target, after)) if !target.contains('/') && !target.contains('#') => {
                plain.push_str(text);
                rest = after;
            }
            None if text.starts_with('`') && text.ends_with('`') => {
                plain.push_str(text);
                rest = after;
            }
            _ => {
                plain.push_str(&format!("[{text}]"));
                rest = after;
            }
        }
    }
    plain.push_str(rest);
    plain
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
        check(
            "/// Longest name.\npub const NAME_CHARS_MAX: usize = 64;\n",
            "| `NAME_CHARS_MAX` | `64` | Longest name. |\n",
        );
        check("/// Folder.\npub const HOME: &str = \"HAFT_HOME\";", "| `HOME` | `HAFT_HOME` | Folder. |\n");
    }

    #[test]
    fn a_doc_comment_of_many_lines_is_one_cell() {
        check(
            "/// One\n/// two.\n///\n/// Three:\n/// - a | b\n/// - c\npub const X: u8 = 1;",
            "| `X` | `1` | One two.<br>Three:<br>- a \\| b<br>- c |\n",
        );
    }

    #[test]
    fn attributes_and_long_values_are_read() {
        check(
            "/// T.\n#[expect(x)]\npub const T: Duration =\n    Duration::from_secs(3);",
            "| `T` | `Duration::from_secs(3)` | T. |\n",
        );
    }

    #[test]
    fn what_is_no_public_constant_is_left_out() {
        check("/// F.\npub const fn f() {}\n/// P.\nconst P: u8 = 1;\n/// U.\nuse x;\n", "");
    }

    #[test]
    fn links_that_only_rustdoc_knows_become_text() {
        check(
            "/// See [`Spec`], [it](crate::It), [web](https://a.example/).\npub const X: u8 = 1;",
            "| `X` | `1` | See `Spec`, it, [web](https://a.example/). |\n",
        );
        assert_eq!(plain_links("a[0] and [open"), "a[0] and [open");
    }

    #[test]
    fn what_can_not_be_read_is_said() {
        assert_eq!(constants("\npub const X: u8 = 1;"), Err("2: `X` has no doc comment".to_string()));
        assert_eq!(constants("/// X.\npub const X: u8 ="), Err("2: the constant does not end".to_string()));
        assert_eq!(constants("/// X.\npub const X;"), Err("2: not understood: `pub const X;`".to_string()));
    }

    #[test]
    fn the_introduction_is_the_top_of_the_file() {
        assert_eq!(introduction("//! One.\n//!\n//! Two.\n\n//! x"), "One.\n\nTwo.");
    }
}
