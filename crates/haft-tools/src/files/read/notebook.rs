//! A notebook as a model reads it: its cells in order, what they printed, and the pictures that they drew.

use haft::isolate::ChildResources;
use haft::text::truncate_chars;
use haft::{Context, ResultBlock, ToolError, ToolOutput};
use serde_json::Value;

use crate::decoding::{DecoderOutput, decode_isolated};
use crate::notebook::{CellType, Notebook, NotebookCell, join_lines};
use crate::paths::count_noun;

/// Characters that are shown of one output.
const OUTPUT_CHARS: usize = 10_000;
/// Characters that are shown of a notebook.
const NOTEBOOK_CHARS: usize = 300_000;
/// Pictures that are shown of a notebook.
#[cfg(feature = "images")]
const PICTURES_MAX: usize = 20;

/// The blocks of a notebook.
pub(super) async fn read_notebook(bytes: &[u8], shown: &str, cx: &Context) -> Result<ToolOutput, ToolError> {
    let failure = format!("`{shown}` can't be read as a notebook");
    let decoded = decode_isolated(&failure, decode_cells, &shown.to_owned(), bytes, cx).await?;
    Ok(decoded.into_output(shown))
}

fn decode_cells(name: String, resources: &ChildResources) -> Result<DecoderOutput, ToolError> {
    let fails = |why: String| {
        ToolError::new(format!(
            "`{name}` can't be read as a notebook: {why}; give `offset` to read its lines as text"
        ))
    };
    let text = String::from_utf8(resources.read_content()?).map_err(|_| fails("it is not UTF-8".into()))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let notebook = Notebook::parse(text).map_err(fails)?;
    let mut show = NotebookRenderer::default();
    let cells = count_noun(notebook.cells.len(), "cell", "cells");
    let language = notebook.language.as_deref().map(|name| format!(", {name}")).unwrap_or_default();
    show.line(&format!("[notebook `{name}`: {cells}{language}]"));
    for (at, cell) in notebook.cells.iter().enumerate() {
        if show.chars > NOTEBOOK_CHARS {
            let left = count_noun(notebook.cells.len() - at, "cell more", "cells more");
            show.line(&format!("[{left}; give `offset` to read the lines of the file]"));
            break;
        }
        show.cell(at, cell);
    }
    Ok(DecoderOutput::new(&show.into_blocks(), cells))
}

#[derive(Default)]
struct NotebookRenderer {
    text: String,
    blocks: Vec<ResultBlock>,
    chars: usize,
    #[cfg(feature = "images")]
    pictures: usize,
}

impl NotebookRenderer {
    fn line(&mut self, line: &str) {
        self.chars += line.chars().count() + 1;
        self.text.push_str(line.trim_end_matches('\n'));
        self.text.push('\n');
    }

    fn into_blocks(mut self) -> Vec<ResultBlock> {
        self.flush();
        self.blocks
    }

    fn flush(&mut self) {
        let text = std::mem::take(&mut self.text);
        if !text.is_empty() {
            self.blocks.push(ResultBlock::text(text.trim_end_matches('\n').to_owned()));
        }
    }

    fn cell(&mut self, at: usize, cell: &NotebookCell<'_>) {
        let id = cell.id().unwrap_or_else(|| format!("cell-{at}"));
        let run = match (cell.kind(), cell.execution_count()) {
            (CellType::Code, Some(count)) => format!(", run as [{count}]"),
            (CellType::Code, None) => ", not run".to_owned(),
            _ => String::new(),
        };
        self.line(&format!("\n--- cell {id} ({}{run})", cell.kind().name()));
        self.line(&cell.source());
        for output in cell.outputs() {
            self.output(&output);
        }
    }

    fn output(&mut self, output: &Value) {
        match output.get("output_type").and_then(Value::as_str) {
            Some("stream") => {
                let name = output.get("name").and_then(Value::as_str).unwrap_or("stdout");
                self.line(&format!("--- output ({name})"));
                self.text_of(&join_lines(&output["text"]));
            }
            Some("error") => {
                self.line("--- error");
                let trace = join_lines(&Value::Array(match &output["traceback"] {
                    Value::Array(lines) => {
                        lines.iter().map(|line| format!("{}\n", join_lines(line)).into()).collect()
                    }
                    _ => Vec::new(),
                }));
                let head = format!("{}: {}", join_lines(&output["ename"]), join_lines(&output["evalue"]));
                self.text_of(&if trace.trim().is_empty() { head } else { without_colours(&trace) });
            }
            _ => self.data(&output["data"]),
        }
    }

    /// A result in several forms: a picture if there is one, else the plainest text.
    fn data(&mut self, data: &Value) {
        let Some(forms) = data.as_object() else { return };
        #[cfg(feature = "images")]
        for (media_type, value) in forms {
            if let Some(format) = crate::images::ModelImageFormat::of_type(media_type) {
                return self.picture(format, &join_lines(value));
            }
        }
        for form in
            ["text/markdown", "text/latex", "text/plain", "application/json", "image/svg+xml", "text/html"]
        {
            let Some(value) = forms.get(form) else { continue };
            self.line(&format!("--- output ({form})"));
            let text = join_lines(value);
            return self.text_of(&if text.is_empty() { value.to_string() } else { text });
        }
        let forms: Vec<&str> = forms.keys().map(String::as_str).take(10).collect();
        self.line(&format!("--- output of a kind that can't be shown: {}", forms.join(", ")));
    }

    fn text_of(&mut self, text: &str) {
        let shown = truncate_chars(text, OUTPUT_CHARS);
        self.line(shown);
        if shown.len() < text.len() {
            self.line(&format!("[cut: {OUTPUT_CHARS} of {} characters]", text.chars().count()));
        }
    }

    #[cfg(feature = "images")]
    fn picture(&mut self, format: crate::images::ModelImageFormat, base64: &str) {
        self.pictures += 1;
        if self.pictures > PICTURES_MAX {
            return self
                .line(&format!("--- output ({}; more than {PICTURES_MAX} pictures)", format.media_type()));
        }
        let picture = from_base64(base64).ok_or("it is no base64".to_owned());
        match picture.and_then(|bytes| crate::images::fit_image(bytes, format)) {
            Ok(picture) => {
                self.line(&format!("--- output ({})", picture.words));
                self.flush();
                self.blocks.push(ResultBlock::image(picture.media_type, picture.bytes));
            }
            Err(why) => {
                self.line(&format!("--- output ({}, which can't be shown: {why})", format.media_type()))
            }
        }
    }
}

/// A text without the escape codes of terminals, which tracebacks are full of.
fn without_colours(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\u{1b}' {
            plain.push(c);
        } else if chars.as_str().starts_with('[') {
            // Parameters, up to the letter that ends them.
            chars.by_ref().skip(1).find(|c| c.is_ascii_alphabetic());
        }
    }
    plain
}

/// Standard base64; white space is passed over.
#[cfg(feature = "images")]
fn from_base64(text: &str) -> Option<Vec<u8>> {
    let (mut bytes, mut word, mut bits) = (Vec::with_capacity(text.len() / 4 * 3), 0_u32, 0);
    for byte in text.bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' | b' ' | b'\r' | b'\n' => continue,
            _ => return None,
        };
        word = word << 6 | u32::from(value);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((word >> bits) as u8);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::notebook::tests::SAMPLE;
    use crate::room::Room;

    #[test]
    fn cells_come_with_what_they_printed() {
        let room = Room::with(&[("n.ipynb", SAMPLE)]);
        assert_eq!(
            room.text("Read", json!({"file_path": "n.ipynb"})),
            "[notebook `n.ipynb`: 2 cells, python]\n\n--- cell intro (markdown)\n# Title\ntext\n\n\
             --- cell calc (code, run as [7])\nprint(42)\n--- output (stdout)\n42"
        );
        assert_eq!(room.view("Read", json!({"file_path": "n.ipynb"})).summary.unwrap(), "2 cells");
        let lines = room.text("Read", json!({"file_path": "n.ipynb", "limit": 2}));
        assert!(lines.starts_with("1\t{\n2\t \"cells\": ["), "{lines}");
        room.put("bad.ipynb", "{\"cells\": 3}");
        assert_eq!(
            room.error("Read", json!({"file_path": "bad.ipynb"})).1,
            "`bad.ipynb` can't be read as a notebook: its `cells` are no list; give `offset` to read its lines as text"
        );
    }

    #[cfg(feature = "images")]
    #[test]
    fn pictures_errors_and_long_outputs_are_shown() {
        use crate::images::{ModelImageFormat, tests::sample};
        let png = sample(4, 3, ModelImageFormat::Png);
        let encoded = haft::ResultBlock::image("image/png", png.clone());
        let ResultBlock::Image(blob) = &encoded else { panic!() };
        let cell = |outputs: Value| json!({"cell_type": "code", "metadata": {}, "source": [], "execution_count": null, "outputs": outputs});
        let notebook = json!({"cells": [
            cell(json!([{"output_type": "display_data", "data": {"image/png": blob.to_base64(), "text/plain": "<Figure>"}, "metadata": {}}])),
            cell(json!([{"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["\u{1b}[0;31mE\u{1b}[0m", "at 1"]}])),
            cell(json!([{"output_type": "stream", "name": "stderr", "text": "x".repeat(20_000)}])),
            cell(json!([{"output_type": "display_data", "data": {"image/png": "AAAA"}}, {"output_type": "execute_result", "data": {"application/x-thing": 1}}])),
        ], "metadata": {}, "nbformat": 4, "nbformat_minor": 4});
        let room = Room::new();
        room.put("n.ipynb", notebook.to_string());
        let result = room.call("Read", json!({"file_path": "n.ipynb"}));
        let blocks = result.outcome().unwrap().blocks();
        assert_eq!(blocks.len(), 3, "{blocks:?}");
        assert_eq!(blocks[1], encoded);
        let text = blocks[2].to_text();
        assert!(text.contains("--- error\nE\nat 1\n"), "{text}");
        assert!(text.contains("[cut: 10000 of 20000 characters]"), "{text}");
        assert!(text.contains("(image/png, which can't be shown: it is damaged"), "{text}");
        assert!(text.ends_with("can't be shown: application/x-thing"), "{text}");
    }
}
