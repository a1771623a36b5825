//! `BrowserTabs`: lists tabs, opens, selects and closes them.

use std::time::Duration;

use haft::decision::DecisionReason;
use haft::tool::ListedClass;
use haft::view::Stage;
use haft::{Chars, Content, Context, Effects, Output, Tool, ToolError, ToolSpec, View};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::navigate::{Went, address, go, reaches};
use super::{RESULT_CHARS, shown};
use crate::browser::live::{COMMAND_LIMIT, LOAD_LIMIT, standing};
use crate::browser::{Browser, RESOURCE, TABS_MAX, Target, Turn, spec};

/// Lists the tabs of the browser, opens one, selects the one that the other tools work on, or closes one.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct BrowserTabsInput {
    /// What to do: `list` unless said.
    #[serde(default)]
    pub action: Option<Action>,
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
pub enum Action {
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
    fn action(&self) -> Action {
        self.action.unwrap_or(Action::List)
    }
}

impl Tool for BrowserTabs {
    type Input = BrowserTabsInput;
    type Output = Output;

    fn spec(&self) -> ToolSpec {
        spec("BrowserTabs")
            .alias("browser_tabs")
            .listed_class(ListedClass::Depends)
            .result_limit(Chars(RESULT_CHARS))
            .timeout(COMMAND_LIMIT + LOAD_LIMIT + Duration::from_secs(60))
            .search_hint("list open select close tabs of the browser")
    }

    fn effects(&self, input: &BrowserTabsInput) -> Effects {
        match (input.action(), &input.url) {
            (Action::List, _) => Effects::reads_state(RESOURCE),
            (Action::New, Some(url)) => reaches(url),
            _ => Effects::writes_state(RESOURCE),
        }
    }

    /// Which tab is looked at is nobody's business but the session's.
    async fn permission(&self, input: &BrowserTabsInput, _: &Context) -> Option<DecisionReason> {
        if input.action() == Action::New { None } else { Some(DecisionReason::allow()) }
    }

    async fn check(&self, input: &BrowserTabsInput, _: &Context) -> Result<(), ToolError> {
        let wrong = |words: &str| Err(ToolError::senseless(words));
        match (input.action(), input.tab, &input.url) {
            (Action::New, None, Some(url)) => address(url).map(drop),
            (Action::New, ..) => wrong("`new` takes the `url` to open, and no `tab`"),
            (Action::Select | Action::Close, Some(_), None) => Ok(()),
            (Action::Select | Action::Close, ..) => {
                wrong("`select` and `close` take the number of a `tab`, and no `url`")
            }
            (Action::List, None, None) => Ok(()),
            (Action::List, ..) => wrong("`list` takes nothing; set `action` to do something with a tab"),
        }
    }

    async fn call(&self, input: BrowserTabsInput, cx: &Context) -> Result<Output, ToolError> {
        let said = |words: String| Ok(Content::text(words).into());
        if input.action() == Action::New {
            let url = address(input.url.as_deref().unwrap_or_default())?;
            let turn = self.0.started(cx).await?;
            if turn.book().tabs.len() >= TABS_MAX {
                return Err(ToolError::new(format!(
                    "{TABS_MAX} tabs are open, and no more may; close one first"
                )));
            }
            turn.downloads(false).await?;
            let on = new(&turn).await?;
            return match go(&turn, &on, &url).await? {
                Went::There => said(turn.told("opened a new tab")),
                Went::Saves => Err(ToolError::new(turn.told("the address leads to a file"))),
            };
        }
        let Some(turn) = self.0.running(cx).await? else {
            return said("no browser runs; BrowserNavigate starts it".to_owned());
        };
        match (input.action(), input.tab) {
            (Action::Select, Some(number)) => {
                let target = at(&turn, number)?;
                turn.browser("Target.activateTarget", json!({"targetId": target})).await?;
                turn.book().select(&target);
                turn.look_around().await;
                said(turn.told(&format!("tab {number} is selected")))
            }
            (Action::Close, Some(number)) => {
                let target = at(&turn, number)?;
                turn.browser("Target.closeTarget", json!({"targetId": target})).await?;
                turn.gone(&target).await;
                turn.book().take_notes();
                said(format!("closed tab {number}\n{}", listed(&turn)))
            }
            _ => {
                turn.look_around().await;
                said(listed(&turn))
            }
        }
    }

    fn view(&self, stage: &Stage<'_>) -> Option<View> {
        Some(shown(stage, stage.text("url").or(stage.text("action")).unwrap_or("list")))
    }
}

fn listed(turn: &Turn) -> String {
    let book = turn.book();
    let active = book.active().map(|tab| tab.target.clone());
    let line = |(at, tab): (usize, &crate::browser::book::Tab)| {
        let sign = if Some(&tab.target) == active.as_ref() { '*' } else { ' ' };
        format!("{sign}{} {}", at + 1, standing(tab).trim_start_matches("page: "))
    };
    let lines: Vec<String> = book.tabs.iter().enumerate().map(line).collect();
    if lines.is_empty() { "no tab is open; BrowserNavigate opens one".to_owned() } else { lines.join("\n") }
}

fn at(turn: &Turn, number: usize) -> Result<String, ToolError> {
    let book = turn.book();
    let found = number.checked_sub(1).and_then(|at| book.tabs.get(at)).map(|tab| tab.target.clone());
    found.ok_or_else(|| {
        ToolError::new(format!("there is no tab {number}; they are numbered from 1 to {}", book.tabs.len()))
    })
}

/// A new tab, selected.
async fn new(turn: &Turn) -> Result<Target, ToolError> {
    let made = turn.browser("Target.createTarget", json!({"url": "about:blank"})).await?;
    let target = made["targetId"].as_str().unwrap_or_default().to_owned();
    let session = turn.session_of(&target).await?;
    turn.book().select(&target);
    Ok(Target { target, session, url: "about:blank".to_owned() })
}
