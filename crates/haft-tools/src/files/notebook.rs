//! Jupyter notebooks: their cells, and changes of one cell that leave everything else to the byte.
//!
//! A notebook is JSON whose layout belongs to whoever wrote it: order of keys, indentation, how numbers are
//! written. So nothing is parsed into values and written again but the cell that changes. The text is read as
//! raw parts, the places of the cells in it are known, and a change is put there. What a part of a cell holds
//! that stays (metadata, attachments) is copied as it stands.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

use serde::Deserialize;
use serde::de::{self, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

/// A notebook, as parts of its text.
pub(crate) struct Notebook<'a> {
    text: &'a str,
    pub(crate) cells: Vec<NotebookCell<'a>>,
    /// Where the list of cells is in the text.
    list: Range<usize>,
    pub(crate) language: Option<String>,
    /// Whether cells have ids: from version 4.5 on.
    pub(crate) has_ids: bool,
}

/// A cell, as parts of the text.
pub(crate) struct NotebookCell<'a> {
    place: Range<usize>,
    members: Vec<(Cow<'a, str>, &'a RawValue)>,
}

/// An object, its members in order.
struct ObjectMembers<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for ObjectMembers<'a> {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<ObjectMembers<'a>, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Vec<(Cow<'de, str>, &'de RawValue)>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(key) = map.next_key::<String>()? {
                    members.push((Cow::Owned(key), map.next_value()?));
                }
                Ok(members)
            }
        }
        deserializer.deserialize_map(InOrder).map(ObjectMembers)
    }
}

/// What a cell is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CellType {
    Code,
    Markdown,
    Raw,
}

impl CellType {
    pub(crate) fn name(self) -> &'static str {
        match self {
            CellType::Code => "code",
            CellType::Markdown => "markdown",
            CellType::Raw => "raw",
        }
    }
}

impl<'a> Notebook<'a> {
    /// Reads a notebook.
    ///
    /// # Errors
    /// In words: why it is none.
    pub(crate) fn parse(text: &'a str) -> Result<Notebook<'a>, String> {
        let ObjectMembers(top) =
            serde_json::from_str(text).map_err(|error| format!("it is no valid JSON ({error})"))?;
        let member = |name: &str| top.iter().find(|(key, _)| key == name).map(|(_, value)| *value);
        let cells = member("cells").ok_or("it has no `cells`; only notebooks of version 4 can be read")?;
        let list = place_of(text, cells.get());
        let raw: Vec<&RawValue> = serde_json::from_str(cells.get()).map_err(|_| "its `cells` are no list")?;
        let mut found = Vec::with_capacity(raw.len());
        for (number, raw) in raw.into_iter().enumerate() {
            let members = serde_json::from_str(raw.get());
            let ObjectMembers(members) =
                members.map_err(|_| format!("its cell {} is no object", number + 1))?;
            found.push(NotebookCell { place: place_of(text, raw.get()), members });
        }
        let number = |name: &str| member(name).and_then(|value| value.get().parse::<u64>().ok()).unwrap_or(0);
        let metadata: Value =
            member("metadata").and_then(|value| serde_json::from_str(value.get()).ok()).unwrap_or_default();
        let language = ["/language_info/name", "/kernelspec/language"]
            .iter()
            .find_map(|pointer| metadata.pointer(pointer)?.as_str().map(str::to_owned));
        let has_ids = (number("nbformat"), number("nbformat_minor")) >= (4, 5)
            || found.iter().any(|cell: &NotebookCell<'_>| cell.id().is_some());
        Ok(Notebook { text, cells: found, list, language, has_ids })
    }

    /// The place of a cell, by its id, or by `cell-3` and `3`, counted from 0 as other tools do.
    pub(crate) fn find(&self, id: &str) -> Option<usize> {
        let by_id = self.cells.iter().position(|cell| cell.id().as_deref() == Some(id));
        by_id.or_else(|| {
            let number = id.strip_prefix("cell-").unwrap_or(id);
            number.parse().ok().filter(|at| *at < self.cells.len())
        })
    }

    /// The notebook without a cell.
    pub(crate) fn without(&self, at: usize) -> String {
        let place = &self.cells[at].place;
        let cut = match (at.checked_sub(1), self.cells.get(at + 1)) {
            (_, Some(next)) => place.start..next.place.start,
            (Some(before), None) => self.cells[before].place.end..place.end,
            (None, None) => self.list.start + 1..self.list.end - 1,
        };
        self.with(cut, "")
    }

    /// The notebook with another source of a cell, and perhaps another type. What it once printed goes with
    /// the old source.
    pub(crate) fn replaced(&self, at: usize, source: &str, to: Option<CellType>) -> String {
        let cell = &self.cells[at];
        let kind = to.unwrap_or_else(|| cell.kind());
        let style = self.style();
        let mut members: Vec<(&str, Cow<'_, str>)> = Vec::new();
        for (key, value) in &cell.members {
            let new = match (&**key, kind) {
                ("cell_type", _) => json_string(kind.name()).into(),
                ("source", _) => style.source(source, value.get().starts_with('"')).into(),
                ("outputs", CellType::Code) => "[]".into(),
                ("execution_count", CellType::Code) => "null".into(),
                ("outputs" | "execution_count", _) => continue,
                _ => Cow::Borrowed(value.get()),
            };
            members.push((key, new));
        }
        let has = |members: &[(&str, Cow<'_, str>)], name: &str| members.iter().any(|(key, _)| *key == name);
        if !has(&members, "source") {
            members.push(("source", style.source(source, false).into()));
        }
        if kind == CellType::Code {
            if !has(&members, "execution_count") {
                members.insert(1.min(members.len()), ("execution_count", "null".into()));
            }
            if !has(&members, "outputs") {
                let at = members.iter().position(|(key, _)| *key == "source").unwrap_or(members.len());
                members.insert(at, ("outputs", "[]".into()));
            }
        }
        self.with(cell.place.clone(), &style.object(&members))
    }

    /// The notebook with a new cell before the one at `at`, or at the end; and the id of it.
    pub(crate) fn inserted(&self, at: usize, source: &str, kind: CellType) -> (String, Option<String>) {
        let style = self.style();
        let as_string = self.cells.first().is_some_and(|cell| {
            cell.members.iter().any(|(key, value)| key == "source" && value.get().starts_with('"'))
        });
        let id = self.has_ids.then(|| self.new_id(source, at));
        let mut members: Vec<(&str, Cow<'_, str>)> = vec![("cell_type", json_string(kind.name()).into())];
        if kind == CellType::Code {
            members.push(("execution_count", "null".into()));
        }
        if let Some(id) = &id {
            members.push(("id", json_string(id).into()));
        }
        members.push(("metadata", "{}".into()));
        if kind == CellType::Code {
            members.push(("outputs", "[]".into()));
        }
        members.push(("source", style.source(source, as_string).into()));
        let object = style.object(&members);
        let NotebookStyle { newline, .. } = &style;
        let indent = style.indent(2);
        let text = match (self.cells.get(at), self.cells.last()) {
            (Some(next), _) => {
                let start = next.place.start;
                self.with(start..start, &format!("{object},{newline}{indent}"))
            }
            (None, Some(last)) => {
                let end = last.place.end;
                self.with(end..end, &format!(",{newline}{indent}{object}"))
            }
            (None, None) => {
                let inside = self.list.start + 1..self.list.end - 1;
                self.with(inside, &format!("{newline}{indent}{object}{newline}{}", style.indent(1)))
            }
        };
        (text, id)
    }

    /// An id that no cell has: eight characters, as Jupyter makes them, from the source.
    fn new_id(&self, source: &str, at: usize) -> String {
        use std::hash::{DefaultHasher, Hash as _, Hasher as _};
        let taken: HashSet<String> = self.cells.iter().filter_map(NotebookCell::id).collect();
        let candidate = |salt: usize| {
            let mut hasher = DefaultHasher::new();
            (source, at, self.cells.len(), salt).hash(&mut hasher);
            format!("{:08x}", hasher.finish() as u32)
        };
        (0..).map(candidate).find(|id| !taken.contains(id)).unwrap_or_default()
    }

    fn with(&self, place: Range<usize>, new: &str) -> String {
        [&self.text[..place.start], new, &self.text[place.end..]].concat()
    }

    fn style(&self) -> NotebookStyle {
        let newline = if self.text.contains("\r\n") { "\r\n" } else { "\n" };
        let first = self.text.split_once('\n').map(|(_, rest)| rest);
        let indented =
            first.map(|rest| rest.chars().take_while(|c| matches!(c, ' ' | '\t')).collect::<String>());
        match indented.filter(|unit| !unit.is_empty()) {
            Some(unit) => NotebookStyle { newline, unit, colon: ": " },
            None => NotebookStyle {
                newline: "",
                unit: String::new(),
                colon: if self.text.contains("\": ") { ": " } else { ":" },
            },
        }
    }
}

impl NotebookCell<'_> {
    fn value(&self, name: &str) -> Option<Value> {
        let raw = self.members.iter().find(|(key, _)| key == name)?.1;
        serde_json::from_str(raw.get()).ok()
    }

    pub(crate) fn id(&self) -> Option<String> {
        self.value("id")?.as_str().map(str::to_owned)
    }

    pub(crate) fn kind(&self) -> CellType {
        match self.value("cell_type").as_ref().and_then(Value::as_str) {
            Some("code") => CellType::Code,
            Some("markdown") => CellType::Markdown,
            _ => CellType::Raw,
        }
    }

    pub(crate) fn source(&self) -> String {
        join_lines(&self.value("source").unwrap_or_default())
    }

    pub(crate) fn execution_count(&self) -> Option<u64> {
        self.value("execution_count")?.as_u64()
    }

    pub(crate) fn outputs(&self) -> Vec<Value> {
        match self.value("outputs") {
            Some(Value::Array(outputs)) => outputs,
            _ => Vec::new(),
        }
    }
}

/// A text that may be a list of lines.
pub(crate) fn join_lines(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(lines) => lines.iter().filter_map(Value::as_str).collect(),
        _ => String::new(),
    }
}

/// Where a part of a text is in it.
fn place_of(text: &str, part: &str) -> Range<usize> {
    let start = part.as_ptr() as usize - text.as_ptr() as usize;
    start..start + part.len()
}

/// How a notebook is laid out.
struct NotebookStyle {
    newline: &'static str,
    unit: String,
    colon: &'static str,
}

impl NotebookStyle {
    fn indent(&self, levels: usize) -> String {
        self.unit.repeat(levels)
    }

    fn comma(&self) -> String {
        match (self.newline, self.colon) {
            ("", ":") => ",".to_owned(),
            ("", _) => ", ".to_owned(),
            (newline, _) => format!(",{newline}"),
        }
    }

    /// A cell; its members stand three levels in.
    fn object(&self, members: &[(&str, Cow<'_, str>)]) -> String {
        let (newline, inner) = (self.newline, self.indent(3));
        let members: Vec<String> = members
            .iter()
            .map(|(key, value)| format!("{inner}{}{}{value}", json_string(key), self.colon))
            .collect();
        let comma = self.comma();
        format!("{{{newline}{}{newline}{}}}", members.join(&comma), self.indent(2))
    }

    /// A source: a string, or a list of lines, each with its end.
    fn source(&self, source: &str, as_string: bool) -> String {
        if as_string {
            return json_string(source);
        }
        if source.is_empty() {
            return "[]".to_owned();
        }
        let (newline, inner) = (self.newline, self.indent(4));
        let lines: Vec<String> =
            source.split_inclusive('\n').map(|line| format!("{inner}{}", json_string(line))).collect();
        let comma = self.comma();
        format!("[{newline}{}{newline}{}]", lines.join(&comma), self.indent(3))
    }
}

fn json_string(text: &str) -> String {
    Value::from(text).to_string()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// As Jupyter writes it, with things that must stay: order, numbers, metadata.
    pub(crate) const SAMPLE: &str = include_str!("../../tests/data/sample.ipynb");

    #[track_caller]
    fn valid(text: &str) -> Value {
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    #[test]
    fn a_change_of_one_cell_leaves_everything_else_to_the_byte() {
        let notebook = Notebook::parse(SAMPLE).unwrap();
        let new = notebook.replaced(1, "a = 1\nprint(a)", None);
        let expected = SAMPLE
            .replace("   \"execution_count\": 7", "   \"execution_count\": null")
            .replace(
                "[\n    {\"name\": \"stdout\", \"output_type\": \"stream\", \"text\": [\"42\\n\"]}\n   ]",
                "[]",
            )
            .replace("    \"print(42)\"\n", "    \"a = 1\\n\",\n    \"print(a)\"\n");
        assert_eq!(new, expected);
        let same = notebook.replaced(0, "# Title\ntext", None);
        assert_eq!(same, SAMPLE, "the same source is the same file");
    }

    #[test]
    fn cells_come_and_go() {
        let notebook = Notebook::parse(SAMPLE).unwrap();
        for at in 0..=2 {
            let (text, id) = notebook.inserted(at, "x = \"ü\"\n", CellType::Code);
            valid(&text);
            let again = Notebook::parse(&text).unwrap();
            assert_eq!(again.cells.len(), 3);
            assert_eq!((again.cells[at].id(), again.cells[at].source()), (id, "x = \"ü\"\n".to_owned()));
            // Taking it out again is the file as it was.
            assert_eq!(again.without(at), SAMPLE);
        }
        let one = notebook.without(0);
        let none = Notebook::parse(&one).unwrap().without(0);
        valid(&none);
        let notebook = Notebook::parse(&none).unwrap();
        assert_eq!(notebook.cells.len(), 0);
        let (text, _) = notebook.inserted(0, "hello", CellType::Markdown);
        assert_eq!(Notebook::parse(&text).unwrap().cells[0].source(), "hello");
        assert!(text.contains("\n  {\n   \"cell_type\": \"markdown\",\n"), "{text}");
    }

    #[test]
    fn another_type_has_what_it_needs_and_no_more() {
        let notebook = Notebook::parse(SAMPLE).unwrap();
        let text = notebook.replaced(1, "words", Some(CellType::Markdown));
        let cell = &valid(&text)["cells"][1];
        let keys: Vec<&String> = cell.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["cell_type", "id", "metadata", "source"]);
        let text = notebook.replaced(0, "1 + 1", Some(CellType::Code));
        let cell = &valid(&text)["cells"][0];
        assert_eq!((&cell["outputs"], &cell["execution_count"]), (&serde_json::json!([]), &Value::Null));
        assert_eq!(cell["metadata"]["tags"][0], "keep");
        assert!(text.contains("1.50"), "numbers stay as they were written");
    }

    #[test]
    fn other_layouts_stay_what_they_are() {
        let compact = r#"{"cells":[{"cell_type":"code","source":"x","outputs":[],"metadata":{},"execution_count":1}],"nbformat":4,"nbformat_minor":4}"#;
        let notebook = Notebook::parse(compact).unwrap();
        assert!(!notebook.has_ids);
        assert_eq!(
            notebook.replaced(0, "y\nz", None),
            compact.replace(r#""source":"x""#, r#""source":"y\nz""#).replace("count\":1}", "count\":null}")
        );
        let (text, id) = notebook.inserted(1, "y", CellType::Markdown);
        assert_eq!((id, valid(&text)["cells"][1]["source"].as_str()), (None, Some("y")));
        let windows = SAMPLE.replace('\n', "\r\n");
        let notebook = Notebook::parse(&windows).unwrap();
        let (text, _) = notebook.inserted(2, "a\nb", CellType::Raw);
        assert_eq!(text.matches('\n').count(), text.matches("\r\n").count());
    }

    #[test]
    fn what_is_no_notebook_is_told_why() {
        let check = |text: &str, words: &str| {
            let said = Notebook::parse(text).err().unwrap();
            assert!(said.starts_with(words), "{said}");
        };
        check("{", "it is no valid JSON");
        check("[]", "it is no valid JSON");
        check("{}", "it has no `cells`");
        check(r#"{"cells": 1}"#, "its `cells` are no list");
        check(r#"{"cells": [{}, 2]}"#, "its cell 2 is no object");
    }
}
