//! `BrowserSelect`: chooses in a list of choices.

use std::time::Duration;

use haft::effects::table::ConcurrencyClass;
use haft::view::CallStage;
use haft::{CallView, Chars, Context, Effects, ResultBlock, Tool, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{
    DialogGuard, RESULT_CHARS, check_named, describe_after, describe_element, find_element, render_stage,
};
use crate::browser::running_browser::LOAD_LIMIT;
use crate::browser::{Browser, browser_tool_spec};

/// How many choices one call may make.
const VALUES_MAX: usize = 100;

/// Chooses: an option, by its text or its value; several, where the list allows that.
///
/// For a list of choices (`select`), which BrowserSnapshot shows as a combobox or listbox with its options.
/// Lists that a page draws itself are clicked with BrowserClick.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct BrowserSelectInput {
    /// The list, by its ref in BrowserSnapshot, for example `e12`.
    #[serde(default, rename = "ref")]
    pub element: Option<String>,
    /// The list, by a CSS selector, where it has no ref.
    #[serde(default)]
    pub selector: Option<String>,
    /// The options to choose, by text or value; all others are not chosen then.
    pub values: Vec<String>,
}

/// The tool `BrowserSelect`.
pub struct BrowserSelect(pub(in crate::browser) Browser);

/// Chooses, and says what was chosen; or throws, and nothing has changed.
const CHOOSE: &str = "function(wanted){if(this.tagName!=='SELECT')throw new Error('it is no list of choices but a '+this.tagName.toLowerCase()+'; BrowserClick clicks it');\
    if(this.disabled)throw new Error('it is disabled');\
    const all=[...this.options],found=[];for(const w of wanted){\
    const o=all.find(o=>o.value===w)||all.find(o=>o.label.trim()===w.trim());\
    if(!o||o.disabled)throw new Error('it has no choice '+JSON.stringify(w)+'; there are: '+all.filter(o=>!o.disabled).slice(0,50).map(o=>JSON.stringify(o.label.trim())).join(', '));\
    found.push(o)}if(!this.multiple&&found.length!==1)throw new Error('it takes exactly one choice');\
    for(const o of all)o.selected=found.includes(o);\
    this.dispatchEvent(new Event('input',{bubbles:true}));this.dispatchEvent(new Event('change',{bubbles:true}));\
    return found.map(o=>o.label.trim().slice(0,80))}";

impl Tool for BrowserSelect {
    type Input = BrowserSelectInput;
    type Output = ToolOutput;

    fn spec(&self) -> ToolSpec {
        browser_tool_spec("BrowserSelect")
            .alias("browser_select_option")
            .listed_class(ConcurrencyClass::WriteExclusive)
            .result_limit(Chars(RESULT_CHARS))
            .timeout(LOAD_LIMIT + Duration::from_secs(90))
            .search_hint("choose an option of a select dropdown list in the browser")
    }

    fn effects(&self, input: &BrowserSelectInput) -> Effects {
        self.0.acts(input)
    }

    async fn check(&self, input: &BrowserSelectInput, _: &Context) -> Result<(), ToolError> {
        if input.values.len() > VALUES_MAX {
            return Err(ToolError::invalid_input(format!(
                "`values` has {} choices; at most {VALUES_MAX} are accepted at once",
                input.values.len()
            )));
        }
        check_named(input.element.as_deref(), input.selector.as_deref())
    }

    fn describe(&self, input: &BrowserSelectInput) -> Option<String> {
        let list = describe_element(&self.0, input.element.as_deref(), input.selector.as_deref());
        Some(format!("choose {:?} in {list}", input.values))
    }

    async fn call(&self, input: BrowserSelectInput, cx: &Context) -> Result<ToolOutput, ToolError> {
        let (turn, on) = self.0.acting(&input, cx).await?;
        let list = find_element(&turn, &on, input.element.as_deref(), input.selector.as_deref()).await?;
        turn.downloads(false).await?;
        let _answering = DialogGuard::new(&turn, None, None);
        let object = turn.object(&list).await?;
        let chosen = turn.ask(&list.session, &object, CHOOSE, &[json!(input.values)]).await;
        turn.release(&list.session);
        let chosen = chosen.map_err(|failure| {
            let words = failure.to_string();
            let first = words.lines().next().unwrap_or_default();
            ToolError::new(format!(
                "nothing was chosen in {}: {}",
                list.about,
                first.trim_start_matches("the browser says: Error: ")
            ))
        })?;
        let done = format!("chose {chosen} in {}", list.about);
        Ok(ResultBlock::text(describe_after(&turn, &on, &done).await).into())
    }

    fn view(&self, stage: &CallStage<'_>) -> Option<CallView> {
        Some(render_stage(stage, describe_element(&self.0, stage.text("ref"), stage.text("selector"))))
    }
}
