//! `BrowserNavigate`: opens an address.

use std::path::PathBuf;
use std::time::Duration;

use haft::effects::table::ConcurrencyClass;
use haft::view::CallStage;
use haft::{CallView, Chars, Context, Effects, ResultBlock, Tool, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use url::Url;

use super::{DialogGuard, RESULT_CHARS, render_stage};
use crate::browser::page_actions::FOREIGN;
use crate::browser::request_filter::{is_local, unbracketed_host};
use crate::browser::running_browser::{COMMAND_LIMIT, DOWNLOAD_LIMIT, LOAD_LIMIT};
use crate::browser::{Browser, BrowserTurn, RESOURCE, TargetTab, browser_tool_spec};

/// The longest address, in bytes.
const URL_BYTES_MAX: usize = 16 * 1024;

/// Opens an address in the browser and waits until the page has loaded.
///
/// The browser is a real Chromium without a window, with a profile of its own that is gone when the session
/// ends. Use it for pages that need scripts, clicks or a look; WebFetch reads a page more cheaply. A dev
/// server that you started with Bash is at `http://localhost:PORT`. Pages reach only hosts that are allowed:
/// what a page was refused, and what would allow it, is in the result. Go on with BrowserSnapshot, which
/// shows what is on the page.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct BrowserNavigateInput {
    /// The whole address, with `http://` or `https://`.
    pub url: String,
    /// Also returns what BrowserSnapshot would.
    #[serde(default)]
    pub snapshot: Option<bool>,
    /// Where to save the file, if the address is one that is saved and not shown: a path in the workspace.
    #[serde(default)]
    pub download_to: Option<PathBuf>,
}

/// The tool `BrowserNavigate`.
pub struct BrowserNavigate(pub(in crate::browser) Browser);

/// Reads an address that may be opened.
pub(super) fn parse_address(text: &str) -> Result<Url, ToolError> {
    let wrong = |words: &str| Err(ToolError::invalid_input(format!("`url` {words}")));
    if text.len() > URL_BYTES_MAX {
        return wrong("is too long; at most 16 KiB are accepted");
    }
    let Ok(url) = Url::parse(text.trim()) else {
        return wrong("is no whole address; give it with its scheme, for example `https://example.com/page`");
    };
    match url.scheme() {
        "http" | "https" => {}
        scheme => return wrong(&format!("begins with `{scheme}:`; `http:` and `https:` are accepted")),
    }
    if !url.username().is_empty() || url.password().is_some() {
        return wrong("has a user or password in it; leave them out, and sign in on the page");
    }
    match url.host() {
        Some(_) => Ok(url),
        None => wrong("names no host; give it whole, for example `https://example.com/page`"),
    }
}

/// What opening an address touches.
pub(super) fn address_effects(text: &str) -> Effects {
    match parse_address(text) {
        Ok(url) => {
            let host = url.host().map(|host| unbracketed_host(&host)).unwrap_or_default();
            Effects::observes(host).and(Effects::writes_state(RESOURCE))
        }
        Err(_) => Effects::unknown(),
    }
}

impl Tool for BrowserNavigate {
    type Input = BrowserNavigateInput;
    type Output = ToolOutput;

    fn spec(&self) -> ToolSpec {
        browser_tool_spec("BrowserNavigate")
            .alias("browser_navigate")
            .listed_class(ConcurrencyClass::WriteExclusive)
            .result_limit(Chars(RESULT_CHARS))
            .timeout(COMMAND_LIMIT + LOAD_LIMIT + DOWNLOAD_LIMIT + Duration::from_secs(60))
            .search_hint("open a web page url in a browser chromium dev server localhost")
    }

    fn effects(&self, input: &BrowserNavigateInput) -> Effects {
        let saved = input.download_to.as_ref().map_or_else(Effects::none, Effects::writes);
        address_effects(&input.url).and(saved)
    }

    async fn check(&self, input: &BrowserNavigateInput, _: &Context) -> Result<(), ToolError> {
        parse_address(&input.url).map(drop)
    }

    async fn call(&self, input: BrowserNavigateInput, cx: &Context) -> Result<ToolOutput, ToolError> {
        let url = parse_address(&input.url)?;
        let turn = self.0.started(cx).await?;
        let on = navigation_tab(&turn).await?;
        let saves = input.download_to.is_some();
        turn.downloads(saves).await?;
        let answering = DialogGuard::new(&turn, None, None);
        let went = navigate_tab(&turn, &on, &url).await;
        let result = match (&input.download_to, went) {
            (Some(to), Ok(NavigationResult::Saves)) => turn.keep_download(to, cx).await,
            (None, Ok(NavigationResult::Saves)) => {
                Err(ToolError::new(turn.told("the address leads to a file")))
            }
            (_, Ok(NavigationResult::There)) => Ok(String::new()),
            (_, Err(error)) => Err(error),
        };
        drop(answering);
        if saves {
            turn.downloads(false).await?;
        }
        let mut text = turn.told(&result?);
        if input.snapshot == Some(true) {
            text = format!("{text}\n\n{FOREIGN}\n{}", turn.snapshot(&on, None).await?);
        }
        Ok(ResultBlock::text(text).into())
    }

    fn view(&self, stage: &CallStage<'_>) -> Option<CallView> {
        Some(render_stage(stage, stage.text("url")?))
    }
}

/// The tab to open it in; a new one, if all were closed or this one crashed.
async fn navigation_tab(turn: &BrowserTurn) -> Result<TargetTab, ToolError> {
    let crashed = turn.book().active().filter(|tab| tab.is_over()).map(|tab| tab.target.clone());
    if let Some(crashed) = crashed {
        turn.replace(&crashed).await?;
    }
    if turn.book().active().is_none() {
        turn.begin().await?;
    }
    let book = turn.book();
    let tab = book.active().ok_or_else(|| ToolError::new("the browser has no tab"))?;
    Ok(TargetTab { target: tab.target.clone(), session: tab.session.clone(), url: tab.url.clone() })
}

/// Where an address led.
pub(super) enum NavigationResult {
    There,
    /// To a file.
    Saves,
}

/// Opens an address in a tab.
pub(super) async fn navigate_tab(
    turn: &BrowserTurn,
    on: &TargetTab,
    url: &Url,
) -> Result<NavigationResult, ToolError> {
    {
        let mut book = turn.book();
        book.guard.grant(url);
        book.guard.grants.take_refused();
        book.take_notes();
    }
    let answer = turn.page(&on.session, "Page.navigate", json!({"url": url.as_str()})).await?;
    if answer["isDownload"] == true {
        turn.settle(&on.target).await;
        return Ok(NavigationResult::Saves);
    }
    turn.settle(&on.target).await;
    let host = url.host().map(|host| unbracketed_host(&host)).unwrap_or_default();
    let failed = answer["errorText"].as_str().map(str::to_owned);
    let status = turn.book().tab(&on.target).and_then(|tab| tab.status);
    let refused = turn.refused(&host);
    let begun = !turn.book().downloads.is_empty();
    match (failed, refused, status) {
        (Some(_), ..) if begun => Ok(NavigationResult::Saves),
        (_, Some(why), _) if status.is_none_or(|status| matches!(status, 403 | 502 | 504)) => {
            Err(ToolError::new(format!("{url} was not opened: {why}")))
        }
        (Some(error), ..) => {
            let notes = turn.notes();
            let notes = if notes.is_empty() { explain_error(&error, url) } else { notes.join("\n") };
            Err(ToolError::new(format!("{url} was not opened: {error}\n{notes}")))
        }
        _ => Ok(NavigationResult::There),
    }
}

/// What can be done about an error of the browser.
fn explain_error(error: &str, url: &Url) -> String {
    let words = match error {
        "net::ERR_CONNECTION_REFUSED" => "nobody listens there; is the server started, and on this port?",
        "net::ERR_NAME_NOT_RESOLVED" => "there is no host of this name",
        "net::ERR_ABORTED" => "the page or the server broke it off; nothing new is shown",
        error if error.contains("CERT") => "the certificate of the server is not trusted",
        _ => "",
    };
    // The browser has the session's network: a server that the user has started elsewhere is not there.
    match url.port_or_known_default() {
        Some(port)
            if error == "net::ERR_CONNECTION_REFUSED" && url.host().is_some_and(|host| is_local(&host)) =>
        {
            format!(
                "{words} it has to run in this session; one that the user runs outside of it is opened by \
                 `localhost:{port}` in `sandbox.network.allowedDomains`"
            )
        }
        _ => words.to_owned(),
    }
}
