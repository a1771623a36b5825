//! The tools, one file each, and the little that they have in common.

pub(super) mod click;
pub(super) mod close;
pub(super) mod console;
pub(super) mod evaluate;
pub(super) mod navigate;
pub(super) mod press;
pub(super) mod screenshot;
pub(super) mod select;
pub(super) mod snapshot;
pub(super) mod tabs;
pub(super) mod type_text;
pub(super) mod wait;

use haft::view::CallStage;
use haft::{CallView, ToolError};

use super::browser_state::{DialogAnswers, NamedElement};
use super::running_browser::RunningBrowser;
use super::{Browser, BrowserTurn, TargetTab};

/// Characters of the result of an action.
const RESULT_CHARS: usize = 50_000;

/// What a person sees of a call.
fn render_stage(stage: &CallStage<'_>, title: impl Into<String>) -> CallView {
    let view = CallView::titled(title);
    match stage {
        CallStage::Error { error, .. } => view.summary(first_line(error.message())),
        CallStage::Result { output, .. } => view.summary(first_line(&output.to_text())),
        _ => view.why(stage),
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

/// The element that a call names, one way or the other.
async fn find_element(
    turn: &BrowserTurn,
    on: &TargetTab,
    name: Option<&str>,
    selector: Option<&str>,
) -> Result<NamedElement, ToolError> {
    match (name, selector) {
        (Some(name), None) => turn.element(name),
        (None, Some(selector)) => turn.find(on, selector).await,
        _ => Err(one_of()),
    }
}

fn one_of() -> ToolError {
    ToolError::invalid_input(
        "give `ref`, as BrowserSnapshot shows it (`e12`), or a CSS `selector`, and not both",
    )
}

fn check_named(name: Option<&str>, selector: Option<&str>) -> Result<(), ToolError> {
    match (name, selector) {
        (Some(name), None) if is_ref(name) => Ok(()),
        (Some(name), None) => Err(ToolError::invalid_input(format!(
            "`ref` is {:?}; one as BrowserSnapshot shows it is accepted, such as `e12`",
            haft::text::truncate_with_ellipsis(name, 40)
        ))),
        (None, Some(selector)) if !selector.trim().is_empty() => Ok(()),
        _ => Err(one_of()),
    }
}

fn is_ref(name: &str) -> bool {
    let number = name.strip_prefix('e').unwrap_or(name);
    !number.is_empty() && number.len() <= 10 && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// What an element is called for who is asked.
fn describe_element(browser: &Browser, name: Option<&str>, selector: Option<&str>) -> String {
    match (name, selector) {
        (Some(name), _) => {
            browser.about(name).unwrap_or_else(|| format!("the element {name}, which no snapshot has shown"))
        }
        (None, Some(selector)) => format!("the element `{selector}`"),
        (None, None) => "an element".to_owned(),
    }
}

/// What becomes of questions of the page while an action goes on; afterwards they are dismissed again.
struct DialogGuard<'a>(&'a RunningBrowser);

impl DialogGuard<'_> {
    fn new(live: &RunningBrowser, accept: Option<bool>, text: Option<String>) -> DialogGuard<'_> {
        live.book().dialogs = DialogAnswers { accept: accept.unwrap_or(text.is_some()), text };
        DialogGuard(live)
    }
}

impl Drop for DialogGuard<'_> {
    fn drop(&mut self) {
        self.0.book().dialogs = DialogAnswers::default();
    }
}

/// What is told after an action that may have led to anything.
async fn describe_after(turn: &BrowserTurn, on: &TargetTab, first: &str) -> String {
    turn.settle(&on.target).await;
    turn.told(first)
}

/// The tab that is selected now: an action may have closed the one that it began in.
fn selected_tab(turn: &BrowserTurn) -> Option<TargetTab> {
    let book = turn.book();
    let tab = book.active()?;
    Some(TargetTab { target: tab.target.clone(), session: tab.session.clone(), url: tab.url.clone() })
}
