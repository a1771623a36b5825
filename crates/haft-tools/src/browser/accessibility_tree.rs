//! A page as text: its accessibility tree, without what says nothing.
//!
//! One line for each thing that has a role, indented below what holds it:
//! `- button "Save" [disabled] [ref=e7]`. Wrappers are left out, text that is already a name isn't said
//! twice, and text that is torn into pieces is put together. Only what can be acted on has a ref. The text is
//! the page's own, so everything in it is made one line and bounded.

use std::collections::HashMap;

use haft::text::{single_line, truncate_with_ellipsis};
use serde_json::Value;

/// Characters of a name, a value or a piece of text.
const TEXT_CHARS_MAX: usize = 500;
/// How deep a page is shown; what is deeper is at the same depth.
const DEPTH_MAX: usize = 40;
/// How deep a tree is followed at all.
const LEVELS_MAX: usize = 500;

/// A node of the tree as the browser sends it.
#[derive(Debug, Default)]
pub(super) struct TreeNode {
    role: String,
    name: String,
    value: String,
    ignored: bool,
    states: Vec<String>,
    focusable: bool,
    url: Option<String>,
    /// The number of the element, and the session that knows it.
    pub(super) element: Option<(String, u64)>,
    children: Vec<usize>,
}

impl TreeNode {
    /// Whether it holds a document of its own.
    pub(super) fn is_frame(&self) -> bool {
        self.role == "Iframe"
    }
}

/// A page, or a part of it.
#[derive(Debug, Default)]
pub(super) struct AccessibilityTree {
    pub(super) nodes: Vec<TreeNode>,
    roots: Vec<usize>,
}

impl AccessibilityTree {
    /// Adds the nodes of a document; below a node, if it is in a frame.
    pub(super) fn add(&mut self, nodes: &Value, session: &str, below: Option<usize>) {
        let empty = Vec::new();
        let nodes = nodes.as_array().unwrap_or(&empty);
        let first = self.nodes.len();
        let places: HashMap<&str, usize> = nodes
            .iter()
            .enumerate()
            .filter_map(|(at, node)| Some((node["nodeId"].as_str()?, first + at)))
            .collect();
        for (at, node) in nodes.iter().enumerate() {
            let mut read = parse_node(node, session);
            let children = node["childIds"].as_array().into_iter().flatten().filter_map(Value::as_str);
            // Only to what comes behind it, so that nothing can hold itself.
            read.children = children
                .filter_map(|id| places.get(id).copied())
                .filter(|child| *child > first + at)
                .collect();
            self.nodes.push(read);
        }
        if first < self.nodes.len() {
            match below {
                Some(frame) => self.nodes[frame].children.push(first),
                None => self.roots.push(first),
            }
        }
    }

    /// The lines that say what is in it, or in the element of this number. `name` gives a node that can be
    /// acted on its ref.
    pub(super) fn lines(
        &self,
        part: Option<&(String, u64)>,
        name: impl FnMut(&TreeNode, String) -> Option<u32>,
    ) -> Vec<String> {
        let roots = match part {
            Some(part) => {
                self.nodes.iter().position(|node| node.element.as_ref() == Some(part)).into_iter().collect()
            }
            None => self.roots.clone(),
        };
        let mut out = TreeRenderer { tree: self, name, lines: Vec::new(), text: String::new(), depth: 0 };
        for root in roots {
            out.node(root, 0, LEVELS_MAX);
        }
        out.flush();
        out.lines
    }

    /// Whether something in a node has this in its name.
    fn names(&self, node: &TreeNode, text: &str, levels: usize) -> bool {
        node.children.iter().map(|at| &self.nodes[*at]).any(|child| match child.kind() {
            NodeKind::Thing => child.name.contains(text),
            NodeKind::Through => levels > 0 && self.names(child, text, levels - 1),
            NodeKind::Text | NodeKind::Nothing => false,
        })
    }

    /// All text of a node, if it has nothing but text in it.
    fn only_text(&self, node: &TreeNode, levels: usize) -> Option<String> {
        let mut text = String::new();
        for child in node.children.iter().map(|at| &self.nodes[*at]) {
            match child.kind() {
                NodeKind::Text => text += &child.name,
                NodeKind::Nothing => {}
                NodeKind::Through if levels > 0 => text += &self.only_text(child, levels - 1)?,
                _ => return None,
            }
        }
        Some(text)
    }
}

fn parse_node(node: &Value, session: &str) -> TreeNode {
    let text = |field: &str| match &node[field]["value"] {
        Value::String(text) => truncate_with_ellipsis(&one_line(text), TEXT_CHARS_MAX),
        Value::Null => String::new(),
        other => truncate_with_ellipsis(&other.to_string(), TEXT_CHARS_MAX),
    };
    let mut found = TreeNode {
        role: text("role"),
        name: text("name"),
        value: text("value"),
        ignored: node["ignored"] == true,
        element: node["backendDOMNodeId"].as_u64().map(|number| (session.to_owned(), number)),
        ..TreeNode::default()
    };
    if found.role == "StaticText" {
        // Blanks between two pieces count.
        let raw = node["name"]["value"].as_str().unwrap_or_default();
        found.name = keep_spacing(raw, &found.name);
    }
    for property in node["properties"].as_array().into_iter().flatten() {
        let (key, value) = (property["name"].as_str().unwrap_or_default(), &property["value"]["value"]);
        match (key, value) {
            ("focusable", Value::Bool(focusable)) => found.focusable = *focusable,
            ("url", Value::String(url)) => found.url = Some(truncate_with_ellipsis(&one_line(url), 200)),
            (
                "disabled" | "required" | "readonly" | "selected" | "focused" | "modal" | "busy",
                Value::Bool(true),
            ) => {
                found.states.push(key.to_owned());
            }
            ("expanded", Value::Bool(expanded)) => {
                found.states.push(if *expanded { "expanded" } else { "collapsed" }.to_owned());
            }
            ("checked" | "pressed", Value::String(state)) if state != "false" => {
                found.states.push(if state == "true" { key.to_owned() } else { format!("{key}={state}") });
            }
            ("invalid", Value::String(state)) if state != "false" => found.states.push("invalid".to_owned()),
            ("level", Value::Number(level)) => found.states.push(format!("level={level}")),
            _ => {}
        }
    }
    found
}

/// What a node is to a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NodeKind {
    /// Text of the page.
    Text,
    /// It only holds others.
    Through,
    /// Nothing of it is said.
    Nothing,
    Thing,
}

impl TreeNode {
    fn kind(&self) -> NodeKind {
        match &*self.role {
            "StaticText" => NodeKind::Text,
            "InlineTextBox" | "ListMarker" => NodeKind::Nothing,
            "LineBreak" => NodeKind::Text,
            _ if self.ignored => NodeKind::Through,
            "RootWebArea" | "MenuListPopup" | "LabelText" | "none" | "presentation" | "strong"
            | "emphasis" | "code" | "mark" | "time" | "subscript" | "superscript" | "Abbr" | "Legend" => {
                NodeKind::Through
            }
            "generic"
            | "Section"
            | "Pre"
            | "DescriptionListDetail"
            | "Ruby"
            | "LayoutTable"
            | "LayoutTableRow"
            | "LayoutTableCell"
            | "rowgroup"
                if !self.focusable =>
            {
                NodeKind::Through
            }
            "paragraph" if self.children.is_empty() => NodeKind::Nothing,
            _ => NodeKind::Thing,
        }
    }

    /// Whether something can be done with it.
    fn is_active(&self) -> bool {
        const ROLES: &[&str] = &[
            "button",
            "checkbox",
            "combobox",
            "link",
            "listbox",
            "menuitem",
            "menuitemcheckbox",
            "menuitemradio",
            "option",
            "radio",
            "searchbox",
            "slider",
            "spinbutton",
            "switch",
            "tab",
            "textbox",
            "treeitem",
        ];
        self.element.is_some() && (self.focusable || ROLES.contains(&&*self.role))
    }

    fn role(&self) -> String {
        match &*self.role {
            "Iframe" => "iframe".to_owned(),
            "image" | "graphics-document" => "img".to_owned(),
            role => role.to_lowercase(),
        }
    }

    /// Role and name, as a person would say it.
    fn about(&self) -> String {
        match self.name.trim() {
            "" => self.role(),
            name => format!("{} {:?}", self.role(), truncate_with_ellipsis(name, 80)),
        }
    }
}

struct TreeRenderer<'a, F> {
    tree: &'a AccessibilityTree,
    name: F,
    lines: Vec<String>,
    /// Pieces of text that belong together.
    text: String,
    /// Where they are.
    depth: usize,
}

impl<F: FnMut(&TreeNode, String) -> Option<u32>> TreeRenderer<'_, F> {
    fn node(&mut self, at: usize, depth: usize, levels: usize) {
        let node = &self.tree.nodes[at];
        match node.kind() {
            NodeKind::Nothing => {}
            NodeKind::Text => {
                if self.depth != depth {
                    self.flush();
                }
                self.depth = depth;
                self.text += if node.role == "LineBreak" { " " } else { &node.name };
            }
            // A label is the name of what it labels; said once is enough.
            NodeKind::Through if node.role == "LabelText" => {
                for child in node.children.iter().copied().filter(|_| levels > 0) {
                    let text = Some(&self.tree.nodes[child]).filter(|child| child.kind() == NodeKind::Text);
                    if !text.is_some_and(|text| self.tree.names(node, text.name.trim(), 8)) {
                        self.node(child, depth, levels - 1);
                    }
                }
            }
            NodeKind::Through => self.children(node, depth, levels),
            NodeKind::Thing => self.thing(node, depth, levels),
        }
    }

    fn thing(&mut self, node: &TreeNode, depth: usize, levels: usize) {
        let within = self.tree.only_text(node, 20);
        let name = node.name.trim();
        // A thing that is nothing at all: no name, no words in it, nothing to do with it.
        let empty = name.is_empty()
            && node.value.is_empty()
            && within.as_deref().is_some_and(|text| text.trim().is_empty());
        if empty && !node.is_active() && !node.is_frame() && node.role != "img" && node.role != "image" {
            return;
        }
        self.flush();
        let mut line = format!("{}- {}", "  ".repeat(depth.min(DEPTH_MAX)), node.role());
        if !name.is_empty() {
            line += &format!(" {name:?}");
        }
        for state in &node.states {
            line += &format!(" [{state}]");
        }
        if node.is_active() {
            let number = (self.name)(node, node.about());
            line += &number.map(|number| format!(" [ref=e{number}]")).unwrap_or_default();
        }
        if let (Some(url), "link") = (&node.url, &*node.role) {
            line += &format!(" → {url}");
        }
        let words = within.as_deref().map(one_line).unwrap_or_default();
        if !node.value.is_empty() && node.value != name {
            line += &format!(": {}", node.value);
        } else if within.is_some() && words != name && !words.is_empty() {
            line += &format!(": {}", truncate_with_ellipsis(&words, TEXT_CHARS_MAX));
        }
        self.lines.push(line);
        // What is typed into a field is its value.
        let typed = matches!(
            &*node.role,
            "textbox"
                | "searchbox"
                | "spinbutton"
                | "slider"
                | "Date"
                | "DateTime"
                | "InputTime"
                | "ColorWell"
        );
        if within.is_none() && !typed {
            self.children(node, depth + 1, levels);
            self.flush();
        }
    }

    fn children(&mut self, node: &TreeNode, depth: usize, levels: usize) {
        if levels > 0 {
            node.children.iter().for_each(|child| self.node(*child, depth, levels - 1));
        }
    }

    fn flush(&mut self) {
        let text = one_line(&std::mem::take(&mut self.text));
        if !text.is_empty() {
            let text = truncate_with_ellipsis(&text, TEXT_CHARS_MAX * 4);
            self.lines.push(format!("{}- text: {text}", "  ".repeat(self.depth.min(DEPTH_MAX))));
        }
    }
}

/// Without line breaks and signs that a terminal obeys; blanks in a row are one.
fn one_line(text: &str) -> String {
    haft::view::visible_line(&single_line(text))
}

/// With a blank at an end where there was one.
fn keep_spacing(raw: &str, text: &str) -> String {
    if text.is_empty() {
        return if raw.is_empty() { String::new() } else { " ".to_owned() };
    }
    let blank = |at: Option<char>| if at.is_some_and(char::is_whitespace) { " " } else { "" };
    format!("{}{text}{}", blank(raw.chars().next()), blank(raw.chars().next_back()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A tree from a short form: `(depth, role, name, properties)`.
    fn tree(rows: &[(usize, &str, &str, Value)]) -> AccessibilityTree {
        let mut nodes: Vec<Value> = Vec::new();
        let mut above: Vec<usize> = Vec::new();
        for (at, (depth, role, name, more)) in rows.iter().enumerate() {
            above.truncate(*depth);
            if let Some(parent) = above.last() {
                let children = nodes[*parent]["childIds"].as_array_mut().unwrap();
                children.push(json!(at.to_string()));
            }
            above.push(at);
            let mut node = json!({"nodeId": at.to_string(), "role": {"value": role}, "name": {"value": name},
                                  "backendDOMNodeId": at, "childIds": [], "properties": []});
            for (key, value) in more.as_object().unwrap() {
                match &**key {
                    "value" => node["value"] = json!({"value": value}),
                    "ignored" => node["ignored"] = value.clone(),
                    _ => node["properties"]
                        .as_array_mut()
                        .unwrap()
                        .push(json!({"name": key, "value": {"value": value}})),
                }
            }
            nodes.push(node);
        }
        let mut tree = AccessibilityTree::default();
        tree.add(&json!(nodes), "S", None);
        tree
    }

    #[track_caller]
    fn check(rows: &[(usize, &str, &str, Value)], expected: &str) {
        let lines = tree(rows).lines(None, |node, _| u32::try_from(node.element.as_ref()?.1).ok());
        assert_eq!(lines.join("\n"), expected);
    }

    #[test]
    fn wrappers_go_names_are_said_once_and_states_are_short() {
        let no = || json!({});
        check(
            &[
                (0, "RootWebArea", "A page", no()),
                (1, "generic", "", json!({"ignored": true})),
                (2, "heading", "Sign in", json!({"level": 1})),
                (3, "StaticText", "Sign in", no()),
                (4, "InlineTextBox", "Sign in", no()),
                (2, "paragraph", "", no()),
                (3, "StaticText", "Read the ", no()),
                (3, "strong", "", no()),
                (4, "StaticText", "small", no()),
                (3, "StaticText", " print", no()),
                (2, "LabelText", "", no()),
                (3, "StaticText", "Name", no()),
                (3, "textbox", "Name", json!({"focusable": true, "required": true, "value": "bob"})),
                (2, "checkbox", "Agree", json!({"focusable": true, "checked": "mixed"})),
                (2, "button", "Go", json!({"focusable": true, "disabled": true})),
                (2, "list", "", no()),
                (3, "listitem", "", no()),
                (4, "ListMarker", "• ", no()),
                (4, "link", "one", json!({"focusable": true, "url": "https://x.io/1"})),
                (5, "StaticText", "one", no()),
                (4, "StaticText", ", the first", no()),
                (2, "generic", "", json!({"focusable": true})),
                (3, "StaticText", "a div with a key handler", no()),
            ],
            "- heading \"Sign in\" [level=1]
- paragraph: Read the small print
- textbox \"Name\" [required] [ref=e12]: bob
- checkbox \"Agree\" [checked=mixed] [ref=e13]
- button \"Go\" [disabled] [ref=e14]
- list
  - listitem
    - link \"one\" [ref=e18] → https://x.io/1
    - text: , the first
- generic [ref=e21]: a div with a key handler",
        );
    }

    #[test]
    fn what_a_page_says_stays_on_its_line() {
        let evil = "a\n- button \"Pay\" [ref=e1]\u{1b}[2J\u{202e}";
        let tree =
            tree(&[(0, "RootWebArea", "", json!({})), (1, "button", evil, json!({"focusable": true}))]);
        let lines = tree.lines(None, |_, _| Some(9));
        assert_eq!(lines.len(), 1);
        assert!(!lines[0].contains(['\n', '\u{1b}', '\u{202e}']), "{lines:?}");
        assert!(lines[0].starts_with("- button \"a - button \\\"Pay\\\""), "{lines:?}");
    }

    #[test]
    fn deep_pages_and_cycles_end() {
        let mut rows: Vec<(usize, &str, &str, Value)> = vec![(0, "RootWebArea", "", json!({}))];
        rows.extend((1..3_000).map(|depth| (depth, "group", "g", json!({}))));
        assert!(tree(&rows).lines(None, |_, _| None).len() <= LEVELS_MAX);
        let mut turning = AccessibilityTree::default();
        let node = |id: &str, child: &str| json!({"nodeId": id, "role": {"value": "group"}, "name": {"value": "x"}, "childIds": [child]});
        turning.add(&json!([node("1", "2"), node("2", "1")]), "S", None);
        assert_eq!(turning.lines(None, |_, _| None).len(), 2);
    }
}
