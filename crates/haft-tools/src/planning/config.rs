//! `Config`: which settings are in force, and where each comes from.
//!
//! It only reads. What looks like a secret was masked by the host before it gets here.

use std::sync::Arc;

use haft::effects::table::ConcurrencyClass;
use haft::text::truncate_with_ellipsis;
use haft::view::CallStage;
use haft::{CallView, Chars, Context, Effects, ResultBlock, Tool, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

/// Characters of a result that the model sees.
const RESULT_CHARS: usize = 20_000;
/// How many characters of one value are shown.
const VALUE_CHARS_MAX: usize = 600;

/// Says which settings are in force in this session and where each comes from: a file and its line, a flag,
/// an answer of the user.
///
/// Use it to explain why a call was asked about or denied, or what would have to be changed for the user. It
/// changes nothing, and keys and passwords are masked.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ConfigInput {
    /// Only settings whose key begins with this, as in `permissions` or `permissions.allow`; all if left out.
    #[serde(default)]
    pub setting: Option<String>,
}

/// A value, and where it comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// The key, with those around it, as in `permissions.allow`.
    pub key: String,
    /// The value.
    pub value: Value,
    /// Where it comes from: a file and a line, a flag, an answer of the user.
    pub from: String,
    /// Why it doesn't count after all.
    pub left_out: Option<String>,
}

/// Returns all values that count now; of lists one for each entry, strongest first. It returns at once, and
/// what looks like a secret is masked: anybody may be shown what it returns.
pub type SettingsSource = Arc<dyn Fn() -> Vec<Setting> + Send + Sync>;

/// Why the tool is not offered without settings.
const NO_SETTINGS: &str = "this session shows no settings";

/// The tool `Config`.
#[derive(Default)]
pub struct Config {
    settings: Option<SettingsSource>,
}

impl Config {
    /// The tool over the settings of a session. Without any it is not offered.
    pub fn new(settings: Option<SettingsSource>) -> Config {
        Config { settings }
    }
}

impl Tool for Config {
    type Input = ConfigInput;
    type Output = ToolOutput;

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("Config")
            .alias("config")
            .group("planning")
            .feature("planning")
            .listed_class(ConcurrencyClass::ReadOnly)
            .result_limit(Chars(RESULT_CHARS))
            .search_hint("settings in force, permission rules, mode, where configuration comes from")
    }

    fn unavailable_reason(&self) -> Option<String> {
        self.settings.is_none().then(|| NO_SETTINGS.to_owned())
    }

    fn effects(&self, _: &ConfigInput) -> Effects {
        Effects::reads_state("session:settings")
    }

    async fn call(&self, input: ConfigInput, _: &Context) -> Result<ToolOutput, ToolError> {
        let all = self.settings.as_ref().ok_or_else(|| ToolError::new(NO_SETTINGS))?();
        let wanted = input.setting.as_deref().map(str::trim).unwrap_or_default();
        let fits = |key: &str| {
            wanted.is_empty()
                || key == wanted
                || key.strip_prefix(wanted).is_some_and(|rest| wanted.ends_with('.') || rest.starts_with('.'))
        };
        let mut text = String::new();
        let mut count = 0;
        for setting in all.iter().filter(|setting| fits(&setting.key)) {
            count += 1;
            let left_out = setting.left_out.as_ref().map(|why| format!("; left out: {why}"));
            text.push_str(&format!(
                "{} = {}  ({}{})\n",
                setting.key,
                format_value(&setting.value),
                setting.from,
                left_out.unwrap_or_default()
            ));
        }
        if count == 0 {
            let mut keys: Vec<&str> =
                all.iter().map(|setting| setting.key.split('.').next().unwrap_or_default()).collect();
            keys.dedup();
            let words = if wanted.is_empty() {
                "nothing is set: every setting has its default".to_owned()
            } else {
                format!("nothing is set under `{wanted}`; something is under: {}", keys.join(", "))
            };
            return Ok(ToolOutput::from(ResultBlock::text(words))
                .with_view(CallView::titled(wanted).summary("not set")));
        }
        let values = if count == 1 { "1 value".to_owned() } else { format!("{count} values") };
        Ok(ToolOutput::from(ResultBlock::text(text.trim_end().to_owned()))
            .with_view(CallView::titled(wanted).summary(values)))
    }

    fn view(&self, stage: &CallStage<'_>) -> Option<CallView> {
        let view = CallView::titled(stage.text("setting").unwrap_or_default());
        Some(view.why(stage))
    }
}

fn format_value(value: &Value) -> String {
    truncate_with_ellipsis(&value.to_string(), VALUE_CHARS_MAX)
}

#[cfg(test)]
mod tests {
    use haft::testing::TestCaller;
    use serde_json::json;

    use super::*;

    async fn said(input: Value) -> String {
        let setting = |key: &str, value: Value, from: &str| Setting {
            key: key.into(),
            value,
            from: from.into(),
            left_out: None,
        };
        let settings = vec![
            setting("permissions.mode", json!("plan"), "this session"),
            setting("permissions.allow", json!("Bash(ls)"), "settings.json:4"),
            Setting { left_out: Some("not trusted".into()), ..setting("env.X", json!("1"), "project:2") },
        ];
        let caller = TestCaller::new().tool(Config::new(Some(Arc::new(move || settings.clone()))));
        caller.call("Config", input).await.outcome().unwrap().to_text()
    }

    #[tokio::test]
    async fn settings_have_their_places() {
        assert_eq!(
            said(json!({})).await,
            "permissions.mode = \"plan\"  (this session)\npermissions.allow = \"Bash(ls)\"  (settings.json:4)\n\
             env.X = \"1\"  (project:2; left out: not trusted)"
        );
        assert_eq!(
            said(json!({"setting": "permissions.allow"})).await,
            "permissions.allow = \"Bash(ls)\"  (settings.json:4)"
        );
        assert_eq!(
            said(json!({"setting": "perm"})).await,
            "nothing is set under `perm`; something is under: permissions, env"
        );
    }
}
