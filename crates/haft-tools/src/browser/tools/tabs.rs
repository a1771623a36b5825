//! `BrowserTabs`: lists tabs, opens, selects and closes them.

use std::time::Duration;

use haft::decision::DecisionReason;
use haft::tool::ListedClass;
use haft::view::CallStage;
use haft::{CallView, Chars, Context, Effects, ResultBlock, Tool, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::navigate::{NavigationResult, address_effects, navigate_tab, parse_address};
use super::{RESULT_CHARS, render_stage};
use crate::browser::running_browser::{COMMAND_LIMIT, LOAD_LIMIT, describe_tab};
use crate::browser::{Browser, BrowserTurn, RESOURCE, TABS_MAX, TargetTab, browser_tool_spec};

/// Lists the tabs of the browser, opens one, selects the one that the other tools work on, or closes one.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct BrowserTabsInput {
    /// What to do: `list` unless said.
    #[serde(default)]
    pub action: Option<TabAction>,
    /// The number of the tab to select or to close, as the list shows it.
    #[serde(default)]
    pub tab: Option<usize>,
    /// What to open in a new tab: the whole address.
    #[serde(default)]
    pub url: Option<String>,
}

/// What is done with tabs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TabAction {
    /// Shows them.
    List,
    /// Opens `url` in a new tab, and selects it.
    New,
    /// Selects a tab.
    Select,
    /// Closes a tab.
    Close,
}

/// The tool `BrowserTabs`.
pub struct BrowserTabs(pub(in crate::browser) Browser);

impl BrowserTabsInput {
    fn action(&self) -> TabAction {
        self.action.unwrap_or(TabAction::List)
    }
}

impl Tool for BrowserTabs {
    type Input = BrowserTabsInput;
    type Output = ToolOutput;

    fn spec(&self) -> ToolSpec {
        browser_tool_spec("BrowserTabs")
            .alias("browser_tabs")
            .listed_class(ListedClass::Depends)
            .result_limit(Chars(RESULT_CHARS))
            .timeout(COMMAND_LIMIT + LOAD_LIMIT + Duration::from_secs(60))
            .search_hint("list open select close tabs of the browser")
    }

    fn effects(&self, input: &BrowserTabsInput) -> Effects {
        match (input.action(), &input.url) {
            (TabAction::List, _) => Effects::reads_state(RESOURCE),
            (TabAction::New, Some(url)) => address_effects(url),
            _ => Effects::writes_state(RESOURCE),
        }
    }

    /// Which tab is looked at is nobody's business but the session's.
    async fn permission(&self, input: &BrowserTabsInput, _: &Context) -> Option<DecisionReason> {
        if input.action() == TabAction::New { None } else { Some(DecisionReason::allow()) }
    }

    async fn check(&self, input: &BrowserTabsInput, _: &Context) -> Result<(), ToolError> {
        let wrong = |words: &str| Err(ToolError::invalid_input(words));
        match (input.action(), input.tab, &input.url) {
            (TabAction::New, None, Some(url)) => parse_address(url).map(drop),
            (TabAction::New, ..) => wrong("`new` takes the `url` to open, and no `tab`"),
            (TabAction::Select | TabAction::Close, Some(_), None) => Ok(()),
            (TabAction::Select | TabAction::Close, ..) => {
                wrong("`select` and `close` take the number of a `tab`, and no `url`")
            }
            (TabAction::List, None, None) => Ok(()),
            (TabAction::List, ..) => wrong("`list` takes nothing; set `action` to do something with a tab"),
        }
    }

    async fn call(&self, input: BrowserTabsInput, cx: &Context) -> Result<ToolOutput, ToolError> {
        let said = |words: String| Ok(ResultBlock::text(words).into());
        if input.action() == TabAction::New {
            let url = parse_address(input.url.as_deref().unwrap_or_default())?;
            let turn = self.0.started(cx).await?;
            if turn.book().tabs.len() >= TABS_MAX {
                return Err(ToolError::new(format!(
                    "{TABS_MAX} tabs are open, and no more may; close one first"
                )));
            }
            turn.downloads(false).await?;
            let on = open_tab(&turn).await?;
            return match navigate_tab(&turn, &on, &url).await? {
                NavigationResult::There => said(turn.told("opened a new tab")),
                NavigationResult::Saves => Err(ToolError::new(turn.told("the address leads to a file"))),
            };
        }
        let Some(turn) = self.0.running(cx).await? else {
            return said("no browser runs; BrowserNavigate starts it".to_owned());
        };
        match (input.action(), input.tab) {
            (TabAction::Select, Some(number)) => {
                let target = tab_at(&turn, number)?;
                turn.browser("Target.activateTarget", json!({"targetId": target})).await?;
                turn.book().select(&target);
                turn.look_around().await;
                said(turn.told(&format!("tab {number} is selected")))
            }
            (TabAction::Close, Some(number)) => {
                let target = tab_at(&turn, number)?;
                turn.browser("Target.closeTarget", json!({"targetId": target})).await?;
                turn.gone(&target).await;
                turn.book().take_notes();
                said(format!("closed tab {number}\n{}", list_tabs(&turn)))
            }
            _ => {
                turn.look_around().await;
                said(list_tabs(&turn))
            }
        }
    }

    fn view(&self, stage: &CallStage<'_>) -> Option<CallView> {
        Some(render_stage(stage, stage.text("url").or(stage.text("action")).unwrap_or("list")))
    }
}

fn list_tabs(turn: &BrowserTurn) -> String {
    let book = turn.book();
    let active = book.active().map(|tab| tab.target.clone());
    let line = |(at, tab): (usize, &crate::browser::browser_state::BrowserTab)| {
        let sign = if Some(&tab.target) == active.as_ref() { '*' } else { ' ' };
        format!("{sign}{} {}", at + 1, describe_tab(tab).trim_start_matches("page: "))
    };
    let lines: Vec<String> = book.tabs.iter().enumerate().map(line).collect();
    if lines.is_empty() { "no tab is open; BrowserNavigate opens one".to_owned() } else { lines.join("\n") }
}

fn tab_at(turn: &BrowserTurn, number: usize) -> Result<String, ToolError> {
    let book = turn.book();
    let found = number.checked_sub(1).and_then(|at| book.tabs.get(at)).map(|tab| tab.target.clone());
    found.ok_or_else(|| {
        ToolError::new(format!("there is no tab {number}; they are numbered from 1 to {}", book.tabs.len()))
    })
}

/// A new tab, selected.
async fn open_tab(turn: &BrowserTurn) -> Result<TargetTab, ToolError> {
    let made = turn.browser("Target.createTarget", json!({"url": "about:blank"})).await?;
    let target = made["targetId"].as_str().unwrap_or_default().to_owned();
    let session = turn.session_of(&target).await?;
    turn.book().select(&target);
    Ok(TargetTab { target, session, url: "about:blank".to_owned() })
}
