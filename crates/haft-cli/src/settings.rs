//! `haft settings`: what all settings say together, and the schema of a settings file.
//!
//! Everything is one list of rows, each a key as it is written in a file, a value, and the place that it
//! comes from; lines and JSON are two ways to print it. Values that look like secrets are hidden: people show
//! others such lists.

use std::fmt::Write as _;
use std::path::Path;

use haft::text::truncate_with_ellipsis;
use haft_session::SessionPurpose;
use haft_session::loaded_settings::{LoadedSettings, SettingsFile};
use haft_session::settings_view::{self, SettingRow, SettingScope, settings_schema};
use serde::Serialize;
use serde_json::Value;

use crate::args::{CommonArgs, OutputForm, SettingsArgs, SettingsCommand, SettingsShowArgs};
use crate::output::{self, one_line};
use crate::{ExitStatus, UsageError, session};

/// How wide the column of values is at most.
const VALUE_WIDTH_MAX: usize = 60;
/// How many characters of a value people are shown.
const VALUE_CHARS_MAX: usize = 300;

pub(crate) fn run(args: &SettingsArgs, common: &CommonArgs) -> Result<ExitStatus, UsageError> {
    let text = match &args.command {
        SettingsCommand::Schema => format!("{:#}", settings_schema()),
        SettingsCommand::Show(args) => render_settings(args, &common.clone().with(args.common.clone()))?,
    };
    Ok(output::write_result(&text, output::OutputReader::Sampler).err().unwrap_or(ExitStatus::Done))
}

fn render_settings(args: &SettingsShowArgs, common: &CommonArgs) -> Result<String, UsageError> {
    // Through all that a call goes through before it: what would stop a call, or be said of it, stops or is
    // said here.
    let session = session::open_session(&common.options(), SessionPurpose::Inspect)?;
    let shown = SettingsReport::from_settings(&session.given, session.warnings.clone());
    Ok(match args.output {
        OutputForm::Text => shown.text(&session.given),
        OutputForm::Json => serde_json::to_string(&shown).expect("it has text keys"),
    })
}

/// What settings, flags and answers say about permissions, as `haft settings show` prints it.
pub(crate) fn describe_permissions(given: &LoadedSettings) -> String {
    let mut shown = SettingsReport::from_settings(given, Vec::new());
    shown.settings.retain(|row| row.key.starts_with("permissions"));
    shown.text(given)
}

/// What `haft settings show --output json` prints.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct SettingsReport {
    /// The workspace's real path.
    workspace: String,
    /// Whether what the workspace's files run or loosen counts.
    trusted: bool,
    /// The hash of what they run or loosen, for `--trust-hash`; null if there is nothing.
    trust_hash: Option<String>,
    /// The files that were read, strongest first.
    files: Vec<ShownFile>,
    /// Every value that counts; of lists one row for each entry, strongest first, of hooks weakest first.
    settings: Vec<SettingRow>,
    /// What a person should know, in words.
    warnings: Vec<String>,
}

/// A file of settings.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ShownFile {
    /// The kind of place.
    scope: SettingScope,
    /// Its path.
    path: String,
}

impl SettingsReport {
    fn from_settings(given: &LoadedSettings, warnings: Vec<String>) -> SettingsReport {
        let file =
            |file: SettingsFile| ShownFile { scope: file.scope, path: file.path.display().to_string() };
        SettingsReport {
            workspace: given.workspace().display().to_string(),
            trusted: given.trust_state().is_trusted(),
            trust_hash: given.trust_hash(),
            files: given.files().into_iter().map(file).collect(),
            settings: settings_view::setting_rows(given),
            warnings,
        }
    }

    fn text(&self, given: &LoadedSettings) -> String {
        let mut text = String::new();
        for (at, file) in self.files.iter().enumerate() {
            let label = if at == 0 { "files" } else { "" };
            let path = one_line(&given.show_path(Path::new(&file.path)));
            let _ = writeln!(text, "{label:9}  {:12}  {path}", file.scope.word());
        }
        if self.files.is_empty() {
            text.push_str("files      none\n");
        }
        let trust = match (&self.trust_hash, self.trusted) {
            (None, _) => "not needed",
            (Some(_), true) => "yes",
            (Some(_), false) => "no; `haft trust` shows what is left out",
        };
        let _ = writeln!(text, "trust      {trust}");
        let values: Vec<String> = self.settings.iter().map(|row| format_value(&row.value)).collect();
        let width = values.iter().map(|value| value.chars().count()).max().unwrap_or(0).min(VALUE_WIDTH_MAX);
        let mut heading = "";
        for (row, value) in self.settings.iter().zip(&values) {
            if heading != row.key {
                heading = &row.key;
                let _ = writeln!(text, "\n{}", one_line(heading));
            }
            let place = match (&row.file, row.line) {
                (Some(file), Some(line)) => format!("{file}:{line}"),
                (Some(file), None) => file.clone(),
                (None, _) => row.scope.word().to_owned(),
            };
            let left_out = row.left_out.as_ref().map(|why| format!("   left out: {why}")).unwrap_or_default();
            let _ = writeln!(text, "  {value:width$}   {}{}", one_line(&place), one_line(&left_out));
        }
        if self.settings.is_empty() {
            text.push_str("\nnothing is set\n");
        }
        text
    }
}

/// A value on one line: text as it is, anything else as JSON.
fn format_value(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let text = one_line(&text);
    truncate_with_ellipsis(&text, VALUE_CHARS_MAX)
}
