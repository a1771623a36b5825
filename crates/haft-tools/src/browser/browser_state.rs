//! What is known of a running browser: its tabs, what each waits for, what it said, and which elements have
//! names.
//!
//! Events change it, one after the other, from the task that reads them; calls look at it between two awaits.
//! It decides nothing slowly: what an event asks for at once (let a request go, answer a dialog) comes back
//! as [`BrowserCommand`]s for who has the connection. A page can say as much as it likes, so everything that
//! is kept has a bound.

use std::collections::{HashMap, HashSet, VecDeque};

use haft::text::truncate_with_ellipsis;
use serde_json::{Value, json};

use super::request_filter::{RequestFilter, RequestVerdict};
use super::wire::BrowserEvent;

/// Messages of a page's console that are kept, the last ones.
pub const CONSOLE_LINES_MAX: usize = 200;
/// Characters of one of them.
pub const CONSOLE_CHARS_MAX: usize = 2_000;
/// Tabs that may be open; one more is closed at once.
pub const TABS_MAX: usize = 16;
/// Dialogs that pages may show between two calls; the one that shows more is ended.
const DIALOGS_MAX: usize = 10;
/// What a result says beside its own matter: dialogs, new tabs, refusals.
const NOTES_MAX: usize = 20;
/// Characters of one of them.
const NOTE_CHARS_MAX: usize = 400;
/// Requests of a tab that are followed, hosts that are remembered, frames that are attached.
const FOLLOWED_MAX: usize = 2_000;
/// Elements of a tab that have a name.
const REFS_MAX: usize = 20_000;

/// Something that an event asks for.
#[derive(Debug, PartialEq)]
pub(super) enum BrowserCommand {
    /// A command that nobody waits for.
    Tell { session: Option<String>, method: &'static str, params: Value },
    /// A request whose host has to be looked up before it may go.
    Judge { session: Option<String>, request: String, url: String },
}

/// A running browser, as far as it is known.
pub(super) struct BrowserState {
    /// In the order in which they were opened.
    pub(super) tabs: Vec<BrowserTab>,
    /// The tab that calls work on.
    active: Option<String>,
    /// Which tab a session belongs to, and what it is the session of.
    attached: HashMap<String, AttachedTarget>,
    notes: VecDeque<String>,
    /// What becomes of a question that a page asks.
    pub(super) dialogs: DialogAnswers,
    /// Dialogs since anybody was told of what happened.
    shown_dialogs: usize,
    pub(super) downloads: Vec<FileDownload>,
    /// Hosts that pages asked for: what the browser itself wants is nobody's business.
    hosts: HashSet<String>,
    pub(super) guard: RequestFilter,
    refs: u32,
    /// Why it is over, if it is.
    pub(super) over: bool,
}

#[derive(Debug, Clone)]
struct AttachedTarget {
    tab: String,
    /// The frame of an `iframe` that has a process of its own.
    frame: Option<String>,
}

/// What becomes of `confirm` and `prompt`.
#[derive(Debug, Clone, Default)]
pub(super) struct DialogAnswers {
    pub(super) accept: bool,
    pub(super) text: Option<String>,
}

/// A file that a page wanted to save.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileDownload {
    pub(super) guid: String,
    pub(super) name: String,
    pub(super) url: String,
    pub(super) state: DownloadState,
}

/// How far a download is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DownloadState {
    Begun,
    Whole,
    Stopped,
}

/// A tab.
pub(super) struct BrowserTab {
    pub(super) target: String,
    pub(super) session: String,
    pub(super) url: String,
    pub(super) title: String,
    pub(super) loading: bool,
    pub(super) crashed: bool,
    /// Whether it was told to crash, which it does in a moment.
    ended: bool,
    /// The status of the document.
    pub(super) status: Option<u64>,
    requests: HashSet<String>,
    console: VecDeque<ConsoleMessage>,
    console_lost: u64,
    names: ElementNames,
}

/// A message of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConsoleMessage {
    pub(super) level: MessageLevel,
    pub(super) text: String,
}

/// How grave a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MessageLevel {
    Debug,
    Info,
    Warning,
    Error,
}

impl MessageLevel {
    pub(super) fn word(self) -> &'static str {
        match self {
            MessageLevel::Debug => "debug",
            MessageLevel::Info => "info",
            MessageLevel::Warning => "warning",
            MessageLevel::Error => "error",
        }
    }

    fn from_name(kind: &str) -> MessageLevel {
        match kind {
            "error" | "assert" => MessageLevel::Error,
            "warning" => MessageLevel::Warning,
            "debug" | "verbose" | "trace" => MessageLevel::Debug,
            _ => MessageLevel::Info,
        }
    }
}

/// Elements by the names that the model was told. A name is never used twice, so that one of a page that is
/// gone means nothing.
#[derive(Default)]
struct ElementNames {
    by_node: HashMap<(String, u64), u32>,
    elements: HashMap<u32, NamedElement>,
}

/// An element that has a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NamedElement {
    pub(super) session: String,
    /// The number by which the browser knows it.
    pub(super) node: u64,
    /// Role and name, for who is asked.
    pub(super) about: String,
}

impl BrowserState {
    pub(super) fn new(guard: RequestFilter) -> BrowserState {
        BrowserState {
            tabs: Vec::new(),
            active: None,
            attached: HashMap::new(),
            notes: VecDeque::new(),
            dialogs: DialogAnswers::default(),
            shown_dialogs: 0,
            downloads: Vec::new(),
            hosts: HashSet::new(),
            guard,
            refs: 0,
            over: false,
        }
    }

    /// The tab that calls work on.
    pub(super) fn active(&self) -> Option<&BrowserTab> {
        self.active.as_deref().and_then(|active| self.tab(active))
    }

    pub(super) fn tab(&self, target: &str) -> Option<&BrowserTab> {
        self.tabs.iter().find(|tab| tab.target == target)
    }

    fn tab_mut(&mut self, target: &str) -> Option<&mut BrowserTab> {
        self.tabs.iter_mut().find(|tab| tab.target == target)
    }

    /// Makes this the tab that calls work on.
    pub(super) fn select(&mut self, target: &str) {
        self.active = Some(target.to_owned());
    }

    /// Leaves a tab out of the list; where it was.
    pub(super) fn leave_out(&mut self, target: &str) -> Option<usize> {
        let at = self.tabs.iter().position(|tab| tab.target == target)?;
        self.tabs.remove(at);
        self.attached.retain(|_, attached| attached.tab != target);
        Some(at)
    }

    /// Makes a tab the one that calls work on, at this place of the list.
    pub(super) fn put(&mut self, target: &str, place: usize) {
        if let Some(at) = self.tabs.iter().position(|tab| tab.target == target) {
            let tab = self.tabs.remove(at);
            self.tabs.insert(place.min(self.tabs.len()), tab);
        }
        self.select(target);
    }

    /// Nobody asked for this host.
    pub(super) fn forget_host(&mut self, host: &str) {
        self.hosts.remove(host);
    }

    /// Says something with the next result.
    pub(super) fn note(&mut self, words: impl AsRef<str>) {
        let words = haft::view::visible_line(&truncate_with_ellipsis(words.as_ref(), NOTE_CHARS_MAX));
        if self.notes.len() < NOTES_MAX && !self.notes.contains(&words) {
            self.notes.push_back(words);
        }
    }

    /// What is to be said with this result.
    pub(super) fn take_notes(&mut self) -> Vec<String> {
        self.shown_dialogs = 0;
        self.notes.drain(..).collect()
    }

    /// Whether a page asked for this host, as the browser by itself did not.
    pub(super) fn wanted(&self, host: &str) -> bool {
        self.hosts.contains(host)
    }

    /// The session of a frame that has a process of its own.
    pub(super) fn session_of_frame(&self, frame: &str) -> Option<String> {
        let found = |(session, attached): (&String, &AttachedTarget)| {
            (attached.frame.as_deref() == Some(frame)).then(|| session.clone())
        };
        self.attached.iter().find_map(found)
    }

    /// Gives an element of a tab its name; the one that it has, if it has one.
    pub(super) fn name(
        &mut self,
        target: &str,
        session: &str,
        node: u64,
        about: impl FnOnce() -> String,
    ) -> Option<u32> {
        let next = self.refs + 1;
        let names = &mut self.tab_mut(target)?.names;
        if names.elements.len() >= REFS_MAX {
            *names = ElementNames::default();
        }
        let key = (session.to_owned(), node);
        let number = *names.by_node.entry(key).or_insert(next);
        let element = || NamedElement { session: session.to_owned(), node, about: about() };
        names.elements.entry(number).or_insert_with(element);
        self.refs = self.refs.max(number);
        Some(number)
    }

    /// The element of the active tab that has this name.
    pub(super) fn element(&self, name: &str) -> Option<&NamedElement> {
        let number = name.strip_prefix('e').unwrap_or(name).parse().ok()?;
        self.active()?.names.elements.get(&number)
    }

    /// Takes an event in.
    pub(super) fn hear(&mut self, event: &BrowserEvent) -> Vec<BrowserCommand> {
        let params = &event.params;
        let text = |name: &str| params[name].as_str().unwrap_or_default();
        let session = event.session.clone();
        let mut acts = Vec::new();
        match &*event.method {
            "Target.attachedToTarget" => self.attach(params, session.as_deref(), &mut acts),
            "Target.detachedFromTarget" => self.detach(text("sessionId")),
            "Target.targetInfoChanged" => self.informed(&params["targetInfo"]),
            "Target.targetCrashed" => self.crash(text("targetId")),
            "Browser.downloadWillBegin" => {
                let (guid, url) =
                    (text("guid").to_owned(), truncate_with_ellipsis(text("url"), NOTE_CHARS_MAX));
                let name = truncate_with_ellipsis(text("suggestedFilename"), NOTE_CHARS_MAX);
                if self.downloads.len() < NOTES_MAX {
                    self.downloads.push(FileDownload { guid, name, url, state: DownloadState::Begun });
                }
            }
            "Browser.downloadProgress" => {
                let state = match text("state") {
                    "completed" => DownloadState::Whole,
                    "canceled" => DownloadState::Stopped,
                    _ => DownloadState::Begun,
                };
                let guid = text("guid");
                self.downloads.iter_mut().filter(|one| one.guid == guid).for_each(|one| one.state = state);
            }
            "Fetch.requestPaused" => self.request(params, session, &mut acts),
            "Fetch.authRequired" => {
                let answer = match (params["authChallenge"]["source"].as_str(), self.guard.password()) {
                    (Some("Proxy"), Some((user, password))) => {
                        json!({"response": "ProvideCredentials", "username": user, "password": password})
                    }
                    _ => json!({"response": "CancelAuth"}),
                };
                let answer = json!({"requestId": params["requestId"], "authChallengeResponse": answer});
                acts.push(BrowserCommand::Tell { session, method: "Fetch.continueWithAuth", params: answer });
            }
            "Page.javascriptDialogOpening" => {
                let (kind, message) =
                    (text("type").to_owned(), truncate_with_ellipsis(text("message"), NOTE_CHARS_MAX / 2));
                if self.too_many_dialogs() {
                    // A script that runs can't be ended alone: the browser tries to, and it goes on behind
                    // the dialog.
                    let owner = session.as_deref().and_then(|session| self.attached.get(session)).cloned();
                    if let Some(tab) = owner.and_then(|owner| self.tab_mut(&owner.tab)) {
                        (tab.ended, tab.loading) = (true, false);
                    }
                    acts.push(BrowserCommand::Tell { session, method: "Page.crash", params: json!({}) });
                    return acts;
                }
                let answer = self.dialog(&kind, &message, text("defaultPrompt"));
                acts.push(BrowserCommand::Tell {
                    session,
                    method: "Page.handleJavaScriptDialog",
                    params: answer,
                });
            }
            "Page.fileChooserOpened" => self.note("the page asked for a file to upload, and got none"),
            method => {
                let owner = session.as_deref().and_then(|session| self.attached.get(session)).cloned();
                let tab = owner.as_ref().and_then(|owner| self.tab_mut(&owner.tab));
                if let (Some(owner), Some(tab)) = (&owner, tab) {
                    tab.hear(method, params, owner.frame.is_none());
                }
            }
        }
        acts
    }

    /// Takes in what the browser says of a tab. One without a title has its address for one.
    pub(super) fn informed(&mut self, info: &Value) {
        let text = |name: &str| info[name].as_str().unwrap_or_default();
        let (url, title) = (text("url"), text("title"));
        if let Some(tab) = info["targetId"].as_str().and_then(|target| self.tab_mut(target)) {
            tab.url = truncate_with_ellipsis(url, NOTE_CHARS_MAX * 4);
            tab.title = if url.ends_with(title) {
                String::new()
            } else {
                truncate_with_ellipsis(title, NOTE_CHARS_MAX)
            };
        }
    }

    /// A tab, a frame or a worker that is new: it waits until everything is set up.
    fn attach(&mut self, params: &Value, parent: Option<&str>, acts: &mut Vec<BrowserCommand>) {
        let info = &params["targetInfo"];
        let (Some(session), Some(target)) = (params["sessionId"].as_str(), info["targetId"].as_str()) else {
            return;
        };
        let kind = info["type"].as_str().unwrap_or_default();
        let mut tell = |method, params| {
            acts.push(BrowserCommand::Tell { session: Some(session.to_owned()), method, params })
        };
        let owner = parent.and_then(|parent| self.attached.get(parent)).map(|parent| parent.tab.clone());
        let frame = (kind != "page").then(|| target.to_owned());
        if kind == "page" {
            if self.tabs.len() >= TABS_MAX {
                let close = json!({"targetId": target});
                acts.push(BrowserCommand::Tell {
                    session: None,
                    method: "Target.closeTarget",
                    params: close,
                });
                return self.note(format!("a page opened one more tab than {TABS_MAX}; it was closed"));
            }
            let tab = BrowserTab::new(target, session, info["url"].as_str().unwrap_or_default());
            if info["openerId"].is_string() {
                let number = self.tabs.len() + 1;
                self.note(format!("the page opened a new tab, number {number}; BrowserTabs selects it"));
            }
            self.tabs.push(tab);
            self.active.get_or_insert_with(|| target.to_owned());
            tell("Page.enable", json!({}));
            tell("Page.setInterceptFileChooserDialog", json!({"enabled": true}));
            tell("Emulation.setDeviceMetricsOverride", super::viewport_params());
        } else if kind == "iframe" {
            tell("Page.enable", json!({}));
        }
        if self.attached.len() < FOLLOWED_MAX {
            let tab = if kind == "page" { Some(target.to_owned()) } else { owner };
            let attached = tab.map(|tab| AttachedTarget { tab, frame });
            self.attached.extend(attached.map(|attached| (session.to_owned(), attached)));
        }
        tell("Runtime.enable", json!({}));
        tell("Log.enable", json!({}));
        tell("Network.enable", json!({"maxTotalBufferSize": 0, "maxResourceBufferSize": 0}));
        tell("Fetch.enable", json!({"patterns": [{"urlPattern": "*"}], "handleAuthRequests": true}));
        tell("Target.setAutoAttach", super::auto_attach());
        tell("Runtime.runIfWaitingForDebugger", json!({}));
    }

    fn detach(&mut self, session: &str) {
        let Some(attached) = self.attached.remove(session) else { return };
        if attached.frame.is_some() {
            return;
        }
        let Some(at) = self.tabs.iter().position(|tab| tab.target == attached.tab && tab.session == session)
        else {
            return;
        };
        self.tabs.remove(at);
        self.attached.retain(|_, other| other.tab != attached.tab);
        if self.active.as_deref() == Some(&*attached.tab) {
            self.active = self.tabs.last().map(|tab| tab.target.clone());
            self.note(format!("tab {} was closed", at + 1));
        }
    }

    fn crash(&mut self, target: &str) {
        let Some(tab) = self.tab_mut(target) else { return };
        (tab.crashed, tab.loading) = (true, false);
        tab.requests.clear();
        tab.names = ElementNames::default();
    }

    fn request(&mut self, params: &Value, session: Option<String>, acts: &mut Vec<BrowserCommand>) {
        let request = params["requestId"].as_str().unwrap_or_default().to_owned();
        let url = params["request"]["url"].as_str().unwrap_or_default();
        let verdict = self.guard.judge(url);
        // The requests of a tab that was left out come from no page.
        let is_followed = session.as_deref().is_none_or(|session| self.attached.contains_key(session));
        if is_followed
            && self.hosts.len() < FOLLOWED_MAX
            && let Some(host) = super::request_filter::host_of(url)
        {
            self.hosts.insert(host);
        }
        acts.push(match verdict {
            RequestVerdict::Go => let_go(session, &request),
            RequestVerdict::Look => BrowserCommand::Judge { session, request, url: url.to_owned() },
            RequestVerdict::No(why) => {
                self.refuse(url, &why);
                fail_request(session, &request)
            }
        });
    }

    /// Says that a request was refused.
    pub(super) fn refuse(&mut self, url: &str, why: &str) {
        // The browser's own parts ask for those, as for the viewer of PDF, and no page.
        if url.starts_with("chrome-extension:") || url.starts_with("chrome:") {
            return;
        }
        self.note(format!("refused {}: {why}", truncate_with_ellipsis(url, 120)));
    }

    /// Counts a dialog; whether pages show them without end, which is said.
    fn too_many_dialogs(&mut self) -> bool {
        self.shown_dialogs = self.shown_dialogs.saturating_add(1);
        if self.shown_dialogs == DIALOGS_MAX + 1 {
            self.note(format!(
                "the page showed {DIALOGS_MAX} dialogs, one after another, and was ended with the next; BrowserNavigate opens another"
            ));
        }
        self.shown_dialogs > DIALOGS_MAX
    }

    fn dialog(&mut self, kind: &str, message: &str, default: &str) -> Value {
        let DialogAnswers { accept, text } = self.dialogs.clone();
        let said = if message.is_empty() { String::new() } else { format!(" {message:?}") };
        match kind {
            "alert" => {
                self.note(format!("the page showed an alert:{said}"));
                json!({"accept": true})
            }
            "beforeunload" => {
                self.note("the page asked whether to leave it; it was left");
                json!({"accept": true})
            }
            "prompt" if accept => {
                let text = text.unwrap_or_else(|| default.to_owned());
                self.note(format!("the page asked (prompt){said}; it was answered with {text:?}"));
                json!({"accept": true, "promptText": text})
            }
            kind => {
                let (done, hint) = if accept {
                    ("accepted", "")
                } else {
                    ("dismissed", "; set `accept_dialogs` in the call that leads to it to accept")
                };
                self.note(format!("the page asked ({kind}){said}; it was {done}{hint}"));
                json!({"accept": accept})
            }
        }
    }
}

/// Lets a request go.
pub(super) fn let_go(session: Option<String>, request: &str) -> BrowserCommand {
    BrowserCommand::Tell { session, method: "Fetch.continueRequest", params: json!({"requestId": request}) }
}

/// Stops a request.
pub(super) fn fail_request(session: Option<String>, request: &str) -> BrowserCommand {
    let params = json!({"requestId": request, "errorReason": "BlockedByClient"});
    BrowserCommand::Tell { session, method: "Fetch.failRequest", params }
}

impl BrowserTab {
    fn new(target: &str, session: &str, url: &str) -> BrowserTab {
        BrowserTab {
            target: target.to_owned(),
            session: session.to_owned(),
            url: truncate_with_ellipsis(url, NOTE_CHARS_MAX * 4),
            title: String::new(),
            loading: false,
            crashed: false,
            ended: false,
            status: None,
            requests: HashSet::new(),
            console: VecDeque::new(),
            console_lost: 0,
            names: ElementNames::default(),
        }
    }

    /// Whether nothing can be done in it any more; another tab takes its place.
    pub(super) fn is_over(&self) -> bool {
        self.crashed || self.ended
    }

    /// Whether something is under way that the page waits for.
    pub(super) fn is_busy(&self) -> bool {
        !self.is_over() && (self.loading || !self.requests.is_empty())
    }

    /// What is kept of its console, and how much isn't any more.
    pub(super) fn console(&self) -> (impl Iterator<Item = &ConsoleMessage>, u64) {
        (self.console.iter(), self.console_lost)
    }

    /// An event of the tab itself, or of something in it.
    fn hear(&mut self, method: &str, params: &Value, main: bool) {
        let text = |name: &str| params[name].as_str().unwrap_or_default();
        let own = |frame: &Value| frame.as_str() == Some(&*self.target);
        match method {
            "Page.frameStartedLoading" if own(&params["frameId"]) => self.loading = true,
            "Page.frameStoppedLoading" if own(&params["frameId"]) => self.loading = false,
            "Page.frameNavigated" if main && own(&params["frame"]["id"]) => {
                self.url = truncate_with_ellipsis(
                    params["frame"]["url"].as_str().unwrap_or_default(),
                    NOTE_CHARS_MAX * 4,
                );
                self.title.clear();
                self.names = ElementNames::default();
                self.requests.clear();
                self.crashed = false;
            }
            "Page.navigatedWithinDocument" if own(&params["frameId"]) => {
                self.url = truncate_with_ellipsis(text("url"), NOTE_CHARS_MAX * 4);
            }
            "Inspector.targetCrashed" if main => {
                (self.crashed, self.loading) = (true, false);
                self.requests.clear();
                self.names = ElementNames::default();
            }
            "Network.requestWillBeSent" => {
                if text("type") == "Document" && own(&params["frameId"]) {
                    self.status = None;
                }
                // These stay open as long as the page does.
                let stays =
                    matches!(text("type"), "EventSource" | "WebSocket" | "Media" | "Ping" | "Prefetch");
                if !stays && self.requests.len() < FOLLOWED_MAX {
                    self.requests.insert(text("requestId").to_owned());
                }
            }
            "Network.responseReceived" => {
                if text("type") == "Document" && own(&params["frameId"]) {
                    self.status = params["response"]["status"].as_u64();
                }
                // It may go on for ever.
                if params["response"]["mimeType"].as_str() == Some("text/event-stream") {
                    self.requests.remove(text("requestId"));
                }
            }
            "Network.loadingFinished" | "Network.loadingFailed" => {
                self.requests.remove(text("requestId"));
            }
            "Runtime.consoleAPICalled" => {
                let args = params["args"].as_array().into_iter().flatten().take(20).map(describe_value);
                let words: Vec<String> = args.collect();
                self.line(MessageLevel::from_name(text("type")), &words.join(" "));
            }
            "Runtime.exceptionThrown" => {
                let details = &params["exceptionDetails"];
                self.line(MessageLevel::Error, &format!("uncaught: {}", describe_exception(details)));
            }
            "Log.entryAdded" => {
                let entry = &params["entry"];
                let field = |name: &str| entry[name].as_str().unwrap_or_default();
                let words = match field("url") {
                    "" => field("text").to_owned(),
                    url => format!("{} ({})", field("text"), truncate_with_ellipsis(url, 200)),
                };
                self.line(MessageLevel::from_name(field("level")), &words);
            }
            _ => {}
        }
    }

    fn line(&mut self, level: MessageLevel, text: &str) {
        if self.console.len() >= CONSOLE_LINES_MAX {
            self.console.pop_front();
            self.console_lost += 1;
        }
        self.console
            .push_back(ConsoleMessage { level, text: truncate_with_ellipsis(text, CONSOLE_CHARS_MAX) });
    }
}

/// An error of a script, in its own words.
pub(super) fn describe_exception(details: &Value) -> String {
    let words = details["exception"]["description"].as_str().or(details["exception"]["value"].as_str());
    let words = words.or(details["text"].as_str()).unwrap_or("an error without words");
    truncate_with_ellipsis(words, CONSOLE_CHARS_MAX)
}

/// A value of a page, as a console shows it.
fn describe_value(value: &Value) -> String {
    if let Some(parts) = value["preview"]["properties"].as_array() {
        let list = value["subtype"] == "array";
        let parts = parts.iter().map(|part| {
            let (name, text) =
                (part["name"].as_str().unwrap_or_default(), part["value"].as_str().unwrap_or_default());
            if list { text.to_owned() } else { format!("{name}: {text}") }
        });
        let parts = parts.collect::<Vec<_>>().join(", ");
        let more = if value["preview"]["overflow"] == true { ", …" } else { "" };
        let (open, close) = if list { ('[', ']') } else { ('{', '}') };
        return truncate_with_ellipsis(&format!("{open}{parts}{more}{close}"), CONSOLE_CHARS_MAX);
    }
    match (&value["value"], value["unserializableValue"].as_str(), value["description"].as_str()) {
        (Value::String(text), ..) => truncate_with_ellipsis(text, CONSOLE_CHARS_MAX),
        (Value::Null, Some(text), _) | (Value::Null, None, Some(text)) => {
            truncate_with_ellipsis(text, CONSOLE_CHARS_MAX)
        }
        (Value::Null, None, None) => value["subtype"].as_str().unwrap_or("undefined").to_owned(),
        (value, ..) => truncate_with_ellipsis(&value.to_string(), CONSOLE_CHARS_MAX),
    }
}

#[cfg(test)]
#[path = "browser_state_tests.rs"]
mod tests;
