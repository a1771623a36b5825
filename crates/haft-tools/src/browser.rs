//! Tools on a real Chromium, one for each session, started by the first call that needs it.
//!
//! The browser is a child of the session like any other: in its sandbox, which sees to it that pages reach
//! what rules allow and no more, with a profile of its own that ends with it. It is talked to over two pipes
//! in its own protocol (CDP), by a small client of ours: what is needed of the protocol is a dozen commands,
//! and what has to be right about it (bounds, time limits, requests that wait for a verdict) is the part that
//! a library would hide.
//!
//! Calls of one browser run one after another. What a call acts on is the page that was open when it was
//! judged; if the page went on to another host meanwhile, it isn't done.
//!
//! - `wire` is the connection, `book` what is known from its events, `guard` which requests may go.
//! - `launch` starts it, `live` is one that runs, `acts` what is done in a page.
//! - `tree` makes text of a page, `keys` knows keys.
//! - `tools` are the tools, one file each.

mod accessibility_tree;
mod browser_state;
mod keys;
mod launch;
mod page_actions;
mod request_filter;
mod running_browser;
#[cfg(test)]
mod tests;
mod tools;
mod wire;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use haft::sync::lock;
use haft::tool::{AnyTool, Interrupt, ToolExposure};
use haft::{Context, Effects, ToolError, ToolSpec};
use serde_json::{Value, json};
use tokio::sync::OwnedMutexGuard;

pub use browser_state::{CONSOLE_CHARS_MAX, CONSOLE_LINES_MAX, TABS_MAX};
pub use launch::START_LIMIT;
pub use running_browser::{COMMAND_LIMIT, DOWNLOAD_BYTES_MAX, DOWNLOAD_LIMIT, LOAD_LIMIT, SETTLE_LIMIT};
pub use tools::click::BrowserClick;
pub use tools::close::BrowserClose;
pub use tools::console::BrowserConsole;
pub use tools::evaluate::BrowserEvaluate;
pub use tools::navigate::BrowserNavigate;
pub use tools::press::BrowserPress;
pub use tools::screenshot::BrowserScreenshot;
pub use tools::select::BrowserSelect;
pub use tools::snapshot::BrowserSnapshot;
pub use tools::tabs::BrowserTabs;
pub use tools::type_text::BrowserType;
pub use tools::wait::BrowserWait;
pub use wire::MESSAGE_BYTES_MAX;

use browser_state::NamedElement;
use launch::auto_attach;
use running_browser::RunningBrowser;

/// Sessions that may have a browser at once.
pub const BROWSERS_MAX: usize = 32;
/// The size of a page's window.
const WINDOW: (u32, u32) = (1280, 800);
/// Calls of which it is remembered on which host they were judged.
const JUDGED_MAX: usize = 256;
/// What all of these tools use.
const RESOURCE: &str = "browser";

/// The browsers of sessions, and how they are started. Clones share them; dropping the last one ends them.
///
/// ```
/// use haft_tools::browser::Browser;
///
/// let names: Vec<String> = Browser::new().tools().iter().map(|tool| tool.name().to_owned()).collect();
/// assert_eq!(names.len(), 12);
/// assert_eq!(names[0], "BrowserClick");
/// ```
#[derive(Clone, Default)]
pub struct Browser {
    options: BrowserOptions,
    shared: Arc<SharedBrowsers>,
}

#[derive(Clone, Default)]
struct BrowserOptions {
    program: Option<PathBuf>,
    local_ports: Vec<u16>,
}

#[derive(Default)]
struct SharedBrowsers {
    sessions: Mutex<HashMap<String, Arc<SessionSlot>>>,
    judged: Mutex<HashMap<u64, Vec<String>>>,
}

/// The place of one session's browser.
#[derive(Default)]
struct SessionSlot {
    turn: Arc<tokio::sync::Mutex<()>>,
    live: Mutex<Option<Arc<RunningBrowser>>>,
}

impl SessionSlot {
    fn live(&self) -> MutexGuard<'_, Option<Arc<RunningBrowser>>> {
        lock(&self.live)
    }
}

/// The browser, for one call.
struct BrowserTurn {
    live: Arc<RunningBrowser>,
    slot: Arc<SessionSlot>,
    _turn: OwnedMutexGuard<()>,
}

impl std::ops::Deref for BrowserTurn {
    type Target = RunningBrowser;

    fn deref(&self) -> &RunningBrowser {
        &self.live
    }
}

impl Browser {
    /// Browsers that are found by their names and reach nothing of this machine. Without a sandbox they reach
    /// the hosts that the session's [`Processes::check_host`](haft::ports::Processes::check_host) allows.
    pub fn new() -> Browser {
        Browser::default()
    }

    /// The program to start, in place of the first that is found by its name.
    #[must_use]
    pub fn program(mut self, program: Option<PathBuf>) -> Browser {
        self.options.program = program;
        self
    }

    /// Ports of `localhost` that pages may reach from the start.
    #[must_use]
    pub fn local_ports(mut self, ports: impl IntoIterator<Item = u16>) -> Browser {
        self.options.local_ports.extend(ports);
        self
    }

    /// The twelve tools, by name.
    pub fn tools(&self) -> Vec<AnyTool> {
        use crate::built_in;
        let own = || self.clone();
        vec![
            built_in(BrowserClick(own())),
            built_in(BrowserClose(own())),
            built_in(BrowserConsole(own())),
            built_in(BrowserEvaluate(own())),
            built_in(BrowserNavigate(own())),
            built_in(BrowserPress(own())),
            built_in(BrowserScreenshot(own())),
            built_in(BrowserSelect(own())),
            built_in(BrowserSnapshot(own())),
            built_in(BrowserTabs(own())),
            built_in(BrowserType(own())),
            built_in(BrowserWait(own())),
        ]
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<String, Arc<SessionSlot>>> {
        lock(&self.shared.sessions)
    }

    async fn turn(&self, cx: &Context) -> Result<(Arc<SessionSlot>, OwnedMutexGuard<()>), ToolError> {
        let slot = {
            let mut sessions = self.sessions();
            if !sessions.contains_key(cx.call().session_id()) {
                // One that somebody uses is about to have a browser.
                let runs = |slot: &SessionSlot| slot.live().as_ref().is_some_and(|live| !live.is_over());
                sessions.retain(|_, slot| Arc::strong_count(slot) > 1 || runs(slot));
                if sessions.len() >= BROWSERS_MAX {
                    return Err(ToolError::new(format!(
                        "{BROWSERS_MAX} sessions have a browser already, and no more may; BrowserClose ends one"
                    )));
                }
            }
            sessions.entry(cx.call().session_id().to_owned()).or_default().clone()
        };
        let turn = slot.turn.clone().lock_owned().await;
        Ok((slot, turn))
    }

    /// The session's browser, which is started if there is none.
    async fn started(&self, cx: &Context) -> Result<BrowserTurn, ToolError> {
        let (slot, turn) = self.turn(cx).await?;
        let running = slot.live().clone().filter(|live| !live.is_over());
        let live = match running {
            Some(live) => live,
            None => {
                slot.live().take();
                cx.progress(None, "starts the browser");
                let live = launch::launch_browser(&self.options, cx).await?;
                *slot.live() = Some(live.clone());
                live
            }
        };
        Ok(BrowserTurn { live, slot, _turn: turn })
    }

    /// The session's browser, if it has one.
    async fn running(&self, cx: &Context) -> Result<Option<BrowserTurn>, ToolError> {
        let (slot, turn) = self.turn(cx).await?;
        let Some(live) = slot.live().clone() else { return Ok(None) };
        if live.is_over() {
            slot.live().take();
            let how = live.last_words().unwrap_or_else(|| "nobody knows why".to_owned());
            return Err(ToolError::new(format!(
                "the browser has ended by itself: {how}; BrowserNavigate starts it anew, without what was typed and signed in"
            )));
        }
        Ok(Some(BrowserTurn { live, slot, _turn: turn }))
    }

    /// The session's browser with a page in it that can be worked on.
    async fn open(&self, cx: &Context) -> Result<(BrowserTurn, TargetTab), ToolError> {
        let none = || ToolError::new("no page is open; BrowserNavigate opens one");
        let turn = self.running(cx).await?.ok_or_else(none)?;
        let target = {
            let book = turn.book();
            let tab = book.active().ok_or_else(none)?;
            if tab.is_over() {
                return Err(ToolError::new(format!(
                    "the page {} crashed; BrowserNavigate opens it anew",
                    tab.url
                )));
            }
            TargetTab { target: tab.target.clone(), session: tab.session.clone(), url: tab.url.clone() }
        };
        Ok((turn, target))
    }

    /// The same for a call that acts on the page: on the host on which it was judged.
    async fn acting(
        &self,
        key: &impl std::fmt::Debug,
        cx: &Context,
    ) -> Result<(BrowserTurn, TargetTab), ToolError> {
        let (turn, target) = self.open(cx).await?;
        let Some(host) = request_filter::host_of(&target.url) else { return Ok((turn, target)) };
        let judged = self.judged().get(&call_hash(key)).is_some_and(|judged| judged.contains(&host));
        if judged {
            Ok((turn, target))
        } else {
            Err(ToolError::new(format!(
                "the page went on to {host} since this call was judged, so nothing was done; look at it with BrowserSnapshot and \
                 call again"
            )))
        }
    }

    fn judged(&self) -> MutexGuard<'_, HashMap<u64, Vec<String>>> {
        lock(&self.shared.judged)
    }

    /// What acting on the open page touches: the browser, and the host of the page.
    ///
    /// Which session calls isn't known here, so it is the pages of all sessions of these tools; there is one
    /// as a rule.
    fn acts(&self, key: &impl std::fmt::Debug) -> Effects {
        let hosts: Vec<String> = self.peek(|live| {
            let book = live.book();
            book.active().and_then(|tab| request_filter::host_of(&tab.url))
        });
        let mut judged = self.judged();
        if judged.len() >= JUDGED_MAX {
            judged.clear();
        }
        judged.insert(call_hash(key), hosts.clone());
        hosts
            .into_iter()
            .fold(Effects::writes_state(RESOURCE), |effects, host| effects.and(Effects::changes(host)))
    }

    /// What an element is that a call names, in words; what was told of it, not what the model says.
    fn about(&self, name: &str) -> Option<String> {
        let found = self.peek(|live| live.book().element(name).map(|element| element.about.clone()));
        found.into_iter().next()
    }

    fn peek<T>(&self, look: impl Fn(&RunningBrowser) -> Option<T>) -> Vec<T> {
        let slots: Vec<Arc<SessionSlot>> = self.sessions().values().cloned().collect();
        slots
            .iter()
            .filter_map(|slot| slot.live().clone())
            .filter(|live| !live.is_over())
            .filter_map(|live| look(&live))
            .collect()
    }
}

fn call_hash(key: &impl std::fmt::Debug) -> u64 {
    let mut hasher = DefaultHasher::new();
    format!("{key:?}").hash(&mut hasher);
    hasher.finish()
}

/// The tab that a call works on.
struct TargetTab {
    target: String,
    session: String,
    url: String,
}

impl BrowserTurn {
    /// The element that a call names by its ref.
    fn element(&self, name: &str) -> Result<NamedElement, ToolError> {
        let found = self.book().element(name).cloned();
        found.ok_or_else(|| {
            ToolError::new(format!(
                "no element of this page is called `{}`; refs count for the page that BrowserSnapshot showed, so call it again",
                haft::text::truncate_with_ellipsis(name, 40)
            ))
        })
    }

    /// Ends the browser.
    async fn close(self) {
        self.slot.live().take();
        self.live.close().await;
    }
}

/// What all of these tools are.
fn browser_tool_spec(name: &'static str) -> ToolSpec {
    ToolSpec::new(name)
        .group("browser")
        .feature("browser")
        .exposure(ToolExposure::Deferred)
        .in_child()
        .interrupt(Interrupt::Cancel)
}

fn viewport_params() -> Value {
    json!({"width": WINDOW.0, "height": WINDOW.1, "deviceScaleFactor": 1, "mobile": false})
}
