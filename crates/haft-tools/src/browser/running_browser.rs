//! A browser that runs, and what calls do with it: commands, waiting until a page has settled, and what is
//! told afterwards.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use haft::ToolError;
use haft::ports::ConfinementRefusal;
use haft::sync::lock;
use haft::text::truncate_with_ellipsis;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use super::browser_state::{BrowserState, DownloadState, FileDownload, NamedElement, describe_exception};
use super::launch::{KillOnDrop, auto_attach};
use super::wire::{BrowserWire, WireError};

/// How long a command of ours may take.
pub const COMMAND_LIMIT: Duration = Duration::from_secs(30);
/// How long a page may take to load before it is shown as it is.
pub const LOAD_LIMIT: Duration = Duration::from_secs(30);
/// How long a page may go on with requests after it has loaded, or after an action.
pub const SETTLE_LIMIT: Duration = Duration::from_secs(3);
/// A page has settled when nothing was under way for so long.
const QUIET: Duration = Duration::from_millis(150);
/// How long a browser may take to end by itself.
const CLOSE_LIMIT: Duration = Duration::from_secs(5);
/// The largest file that a page may save.
pub const DOWNLOAD_BYTES_MAX: usize = 64 * 1024 * 1024;
/// How long a call that wants to save a file waits until the download begins: on a busy machine the browser
/// reports it only after the page has settled.
const DOWNLOAD_BEGIN_LIMIT: Duration = Duration::from_secs(10);
/// How long a download may take.
pub const DOWNLOAD_LIMIT: Duration = Duration::from_secs(120);
/// Bytes of a download that come in one message.
const DOWNLOAD_CHUNK: usize = 3 * 1024 * 1024;

/// An address for documents (RFC 5737), at which nobody is.
const NOWHERE: &str = "192.0.2.1";
/// How long a page may take to stop a script.
const STOP_LIMIT: Duration = Duration::from_secs(5);
/// How long a page that is ended may take for it.
const CRASH_LIMIT: Duration = Duration::from_secs(5);

/// A browser that runs. Dropped, it ends.
pub(super) struct RunningBrowser {
    wire: Arc<BrowserWire>,
    book: Arc<Mutex<BrowserState>>,
    changed: watch::Receiver<u64>,
    /// Its own folder, as it sees it.
    folder: String,
    ended: watch::Receiver<Option<String>>,
    fuse: Option<KillOnDrop>,
}

impl RunningBrowser {
    pub(super) fn new(
        wire: Arc<BrowserWire>,
        book: Arc<Mutex<BrowserState>>,
        changed: watch::Receiver<u64>,
        folder: String,
        ended: watch::Receiver<Option<String>>,
    ) -> RunningBrowser {
        RunningBrowser { wire, book, changed, folder, ended, fuse: None }
    }

    /// It ends with this.
    pub(super) fn keep(&mut self, fuse: KillOnDrop) {
        self.fuse = Some(fuse);
    }

    /// Asks for everything that has to be heard of; the first tab is there then.
    pub(super) async fn begin(&self) -> Result<(), WireError> {
        self.browser("Target.setDiscoverTargets", json!({"discover": true})).await?;
        self.browser("Target.setAutoAttach", auto_attach()).await?;
        self.browser("Browser.setDownloadBehavior", json!({"behavior": "deny", "eventsEnabled": true}))
            .await?;
        if self.book().active().is_none() {
            self.browser("Target.createTarget", json!({"url": "about:blank"})).await?;
        }
        let (until, mut news) = (Instant::now() + COMMAND_LIMIT, self.news());
        while self.book().active().is_none() {
            wait_for_news(&mut news, until).await.map_err(|()| WireError::TimedOut(COMMAND_LIMIT))?;
        }
        Ok(())
    }

    /// Makes the proxy known to the browser. It gives the password for a page that is opened, and not for a
    /// picture of another host: what a page of the loopback wants would be refused without a word. So one
    /// address is opened that no proxy lets through.
    pub(super) async fn greet(&self) -> Result<(), ToolError> {
        let made =
            self.browser("Target.createTarget", json!({"url": "about:blank", "background": true})).await?;
        let target = made["targetId"].as_str().unwrap_or_default().to_owned();
        let session = self.session_of(&target).await?;
        self.page(&session, "Page.navigate", json!({"url": format!("http://{NOWHERE}/")})).await?;
        self.browser("Target.closeTarget", json!({"targetId": target})).await?;
        let mut book = self.book();
        // Chromium may report seconds later that the tab is gone. Until then it is not listed.
        book.leave_out(&target);
        // The refusal as well may be told later, and no page asked for it.
        book.forget_host(NOWHERE);
        book.guard.grants.take_refused();
        book.take_notes();
        Ok(())
    }

    pub(super) fn book(&self) -> MutexGuard<'_, BrowserState> {
        lock(&self.book)
    }

    #[cfg(test)]
    pub(super) fn folder(&self) -> &str {
        &self.folder
    }

    /// Whether it can't be used any more.
    pub(super) fn is_over(&self) -> bool {
        self.wire.is_closed()
    }

    /// How it ended, if that is known.
    pub(super) fn last_words(&self) -> Option<String> {
        self.ended.borrow().clone()
    }

    /// A command to the browser.
    pub(super) async fn browser(&self, method: &str, params: Value) -> Result<Value, WireError> {
        self.wire.call(None, method, params, COMMAND_LIMIT).await
    }

    /// A command to a tab or a frame.
    pub(super) async fn page(&self, session: &str, method: &str, params: Value) -> Result<Value, WireError> {
        self.page_within(session, method, params, COMMAND_LIMIT).await
    }

    pub(super) async fn page_within(
        &self,
        session: &str,
        method: &str,
        params: Value,
        limit: Duration,
    ) -> Result<Value, WireError> {
        let said = self.wire.call(Some(session), method, params, limit);
        let mut changed = self.news();
        // A tab that crashes answers nothing any more.
        let crashed = async {
            while !self.book().tabs.iter().any(|tab| tab.session == session && tab.is_over()) {
                if changed.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        tokio::select! {
            biased;
            answer = said => answer,
            () = crashed => Err(WireError::Refused("the page crashed; BrowserNavigate opens it anew".into())),
        }
    }

    /// Opens a new tab in place of one that crashed. What crashed is not brought back: a page that was ended
    /// in the middle of a dialog never gets well again.
    pub(super) async fn replace(&self, target: &str) -> Result<(), ToolError> {
        let (until, mut news) = (Instant::now() + CRASH_LIMIT, self.news());
        while self.book().tab(target).is_some_and(|tab| !tab.crashed)
            && wait_for_news(&mut news, until).await.is_ok()
        {}
        let Some(place) = self.book().leave_out(target) else { return Ok(()) };
        let made = self.browser("Target.createTarget", json!({"url": "about:blank"})).await;
        // The last tab of a browser is closed when another is there.
        let closed = self.browser("Target.closeTarget", json!({"targetId": target})).await;
        let made = made?["targetId"].as_str().unwrap_or_default().to_owned();
        self.session_of(&made).await?;
        self.book().put(&made, place);
        match closed {
            // It is gone by itself.
            Ok(_) | Err(WireError::Refused(_)) => Ok(()),
            Err(failure) => Err(failure.into()),
        }
    }

    /// The session of a tab that is about to be there.
    pub(super) async fn session_of(&self, target: &str) -> Result<String, ToolError> {
        let (until, mut news) = (Instant::now() + COMMAND_LIMIT, self.news());
        loop {
            let found = self.book().tab(target).map(|tab| tab.session.clone());
            match found {
                Some(session) => return Ok(session),
                None => wait_for_news(&mut news, until)
                    .await
                    .map_err(|()| ToolError::new("the browser opened no tab"))?,
            }
        }
    }

    /// Waits until a tab is gone, a moment.
    pub(super) async fn gone(&self, target: &str) {
        let (until, mut news) = (Instant::now() + CLOSE_LIMIT, self.news());
        while self.book().tab(target).is_some() && wait_for_news(&mut news, until).await.is_ok() {}
    }

    /// Tells of everything that happens from now on. To be asked for before the book is looked at.
    fn news(&self) -> watch::Receiver<u64> {
        let mut changed = self.changed.clone();
        changed.mark_unchanged();
        changed
    }

    /// Waits until a tab has loaded and nothing is under way any more; says whether it still loads.
    pub(super) async fn settle(&self, target: &str) -> bool {
        let loading = self.settled(target).await;
        // A new title is told late or never.
        if let Ok(info) = self.browser("Target.getTargetInfo", json!({"targetId": target})).await {
            self.book().informed(&info["targetInfo"]);
        }
        loading
    }

    /// Asks for addresses and titles of all tabs.
    pub(super) async fn look_around(&self) {
        if let Ok(found) = self.browser("Target.getTargets", json!({})).await {
            let mut book = self.book();
            found["targetInfos"].as_array().into_iter().flatten().for_each(|info| book.informed(info));
        }
    }

    async fn settled(&self, target: &str) -> bool {
        let (load, mut settle) = (Instant::now() + LOAD_LIMIT, Instant::now() + SETTLE_LIMIT);
        let (mut quiet, mut news) = (Instant::now() + QUIET, self.news());
        loop {
            let (loading, busy) = {
                let book = self.book();
                if book.over {
                    return false;
                }
                book.tab(target).map_or((false, false), |tab| (tab.loading, tab.is_busy()))
            };
            let now = Instant::now();
            if loading {
                settle = now + SETTLE_LIMIT;
            }
            if busy {
                quiet = now + QUIET;
            }
            if now >= load || (!loading && now >= settle) || (!busy && now >= quiet) {
                return loading;
            }
            let until = if busy { if loading { load } else { settle } } else { quiet };
            // Whatever happens meanwhile is looked at; nothing happening is what is waited for.
            let _ = wait_for_news(&mut news, until).await;
        }
    }

    /// What a script of ours says of an object of the page.
    ///
    /// # Errors
    /// The page's own words, where the script throws.
    pub(super) async fn ask(
        &self,
        session: &str,
        object: &str,
        function: &str,
        arguments: &[Value],
    ) -> Result<Value, WireError> {
        let arguments: Vec<Value> = arguments.iter().map(|value| json!({"value": value})).collect();
        let params = json!({
            "objectId": object, "functionDeclaration": function, "arguments": arguments,
            "returnByValue": true, "awaitPromise": true, "userGesture": true,
        });
        let answer = self.page(session, "Runtime.callFunctionOn", params).await?;
        match answer.get("exceptionDetails") {
            Some(details) => Err(WireError::Refused(describe_exception(details))),
            None => Ok(answer["result"]["value"].clone()),
        }
    }

    /// The value of an expression in a page, short.
    pub(super) async fn value(&self, session: &str, expression: &str) -> Result<Value, WireError> {
        let params = json!({"expression": expression, "returnByValue": true, "timeout": 10_000});
        let answer = self.page(session, "Runtime.evaluate", params).await?;
        match answer.get("exceptionDetails") {
            Some(details) => Err(WireError::Refused(describe_exception(details))),
            None => Ok(answer["result"]["value"].clone()),
        }
    }

    /// The script's handle on an element.
    pub(super) async fn object(&self, element: &NamedElement) -> Result<String, ToolError> {
        let params = json!({"backendNodeId": element.node, "objectGroup": "haft"});
        let found = self.page(&element.session, "DOM.resolveNode", params).await;
        match found {
            Ok(found) => Ok(found["object"]["objectId"].as_str().unwrap_or_default().to_owned()),
            Err(WireError::Refused(_)) => Err(ToolError::new(format!(
                "{} is no longer in the page; BrowserSnapshot shows what is there now",
                element.about
            ))),
            Err(failure) => Err(failure.into()),
        }
    }

    /// Stops the script that a page runs, which would block every later command.
    ///
    /// A page that runs no script, because it waits for a promise, stops the next one and answers only then:
    /// an empty script is sent along.
    pub(super) async fn stop_script(&self, session: &str) {
        self.wire.tell(Some(session), "Runtime.terminateExecution", &json!({}));
        let _ = self.page_within(session, "Runtime.evaluate", json!({"expression": "0"}), STOP_LIMIT).await;
    }

    /// Gives back what scripts of ours hold in a page.
    pub(super) fn release(&self, session: &str) {
        self.wire.tell(Some(session), "Runtime.releaseObjectGroup", &json!({"objectGroup": "haft"}));
    }

    /// Where it stands, and what else there is to say: after every action.
    pub(super) fn told(&self, first: &str) -> String {
        let mut book = self.book();
        self.note_refusals(&mut book);
        let mut lines: Vec<String> = Vec::new();
        lines.extend((!first.is_empty()).then(|| first.to_owned()));
        if let Some(tab) = book.active() {
            lines.push(describe_tab(tab));
        }
        lines.extend(take_stopped(&mut book.downloads).map(|download| {
            let FileDownload { name, url, .. } = download;
            format!(
                "the page wanted to save `{}` ({}), which was refused; set `download_to` in the call that leads to it",
                haft::view::visible_line(&name),
                truncate_with_ellipsis(&url, 120)
            )
        }));
        lines.extend(book.take_notes());
        lines.join("\n")
    }

    /// What is to be said, without where it stands.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut book = self.book();
        self.note_refusals(&mut book);
        book.take_notes()
    }

    /// Why this host was refused to a page, if it was.
    pub(super) fn refused(&self, wanted: &str) -> Option<String> {
        let book = self.book();
        let (mut found, mut others) = (None, Vec::new());
        for refusal in book.guard.grants.take_refused() {
            match &refusal {
                ConfinementRefusal::Host { host, why, .. }
                | ConfinementRefusal::Unreached { host, why, .. }
                    if host == wanted =>
                {
                    found.get_or_insert_with(|| why.clone());
                }
                _ => others.push(refusal),
            }
        }
        others.into_iter().for_each(|refusal| book.guard.grants.refused(refusal));
        found
    }

    /// What the proxy refused to pages, not to the browser itself.
    fn note_refusals(&self, book: &mut BrowserState) {
        for refusal in book.guard.grants.take_refused() {
            match refusal {
                ConfinementRefusal::Host { host, port, why, .. } if book.wanted(&host) => {
                    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
                    book.note(format!("refused {host}{port}: {why}"));
                }
                ConfinementRefusal::Unreached { host, port, why } if book.wanted(&host) => {
                    book.note(format!("not reached {host}:{port}: {why}"));
                }
                _ => {}
            }
        }
    }

    /// Lets pages save files for as long as one action takes, or not any more.
    pub(super) async fn downloads(&self, allowed: bool) -> Result<(), WireError> {
        self.book().downloads.clear();
        let mut params = json!({"behavior": "deny", "eventsEnabled": true});
        if allowed {
            params["behavior"] = "allowAndName".into();
            params["downloadPath"] = format!("{}/downloads", self.folder).into();
        }
        self.browser("Browser.setDownloadBehavior", params).await.map(drop)
    }

    /// The file that a page has saved, whole.
    ///
    /// The folder is the browser's own, so the browser hands it out: an empty page of ours is given the file
    /// to read.
    pub(super) async fn downloaded(&self) -> Result<(FileDownload, Vec<u8>), ToolError> {
        let (begin, until) = (Instant::now() + DOWNLOAD_BEGIN_LIMIT, Instant::now() + DOWNLOAD_LIMIT);
        let mut news = self.news();
        let download = loop {
            let found = self.book().downloads.first().cloned();
            match found {
                Some(found) if found.state == DownloadState::Whole => break found,
                Some(found) if found.state == DownloadState::Stopped => {
                    return Err(ToolError::new(format!(
                        "the download of `{}` broke off",
                        truncate_with_ellipsis(&found.url, 200)
                    )));
                }
                // Further messages of the page do not extend the wait.
                None if Instant::now() >= begin || wait_for_news(&mut news, begin).await.is_err() => {
                    return Err(ToolError::new("nothing was saved; leave `download_to` out"));
                }
                None => {}
                Some(_) => wait_for_news(&mut news, until).await.map_err(|()| {
                    ToolError::new(format!("the download took longer than {} s", DOWNLOAD_LIMIT.as_secs()))
                })?,
            }
        };
        let target =
            self.browser("Target.createTarget", json!({"url": "about:blank", "background": true})).await?;
        let target = target["targetId"].as_str().unwrap_or_default().to_owned();
        let read = self.read(&target, &format!("{}/downloads/{}", self.folder, download.guid)).await;
        let _ = self.browser("Target.closeTarget", json!({"targetId": target})).await;
        Ok((download, read?))
    }

    async fn read(&self, target: &str, file: &str) -> Result<Vec<u8>, ToolError> {
        use base64::Engine as _;
        let session = self.session_of(target).await?;
        let made = json!({"expression": "document.body.appendChild(Object.assign(document.createElement('input'),{type:'file'}))",
                          "objectGroup": "haft"});
        let input = self.page(&session, "Runtime.evaluate", made).await?;
        let object = input["result"]["objectId"].as_str().unwrap_or_default().to_owned();
        self.page(&session, "DOM.setFileInputFiles", json!({"files": [file], "objectId": object})).await?;
        let size = self.ask(&session, &object, "function(){return this.files[0].size}", &[]).await?;
        let size = usize::try_from(size.as_u64().unwrap_or(0)).unwrap_or(usize::MAX);
        if size > DOWNLOAD_BYTES_MAX {
            return Err(ToolError::new(format!(
                "the file has {size} bytes, and at most {DOWNLOAD_BYTES_MAX} are saved"
            )));
        }
        let slice = "function(a,b){return new Promise((done,fail)=>{const r=new FileReader();r.onload=()=>done(r.result.split(',')[1]||'');\
                     r.onerror=()=>fail(r.error);r.readAsDataURL(this.files[0].slice(a,b))})}";
        let mut bytes = Vec::with_capacity(size);
        while bytes.len() < size {
            let (from, to) = (bytes.len(), (bytes.len() + DOWNLOAD_CHUNK).min(size));
            let part = self.ask(&session, &object, slice, &[from.into(), to.into()]).await?;
            let part = base64::engine::general_purpose::STANDARD.decode(part.as_str().unwrap_or_default());
            let part = part.map_err(|_| ToolError::new("the download could not be read"))?;
            if part.is_empty() {
                return Err(ToolError::new("the download could not be read"));
            }
            bytes.extend(part);
        }
        Ok(bytes)
    }

    /// Ends it, and waits for that.
    pub(super) async fn close(&self) {
        let _ = self.wire.call(None, "Browser.close", json!({}), CLOSE_LIMIT).await;
        let mut ended = self.ended.clone();
        let _ = tokio::time::timeout(CLOSE_LIMIT, ended.wait_for(Option::is_some)).await;
    }
}

/// Waits until something is new, at most until then.
async fn wait_for_news(news: &mut watch::Receiver<u64>, until: Instant) -> Result<(), ()> {
    match tokio::time::timeout_at(until, news.changed()).await {
        Ok(Ok(())) => Ok(()),
        _ => Err(()),
    }
}

fn take_stopped(downloads: &mut Vec<FileDownload>) -> std::vec::IntoIter<FileDownload> {
    std::mem::take(downloads).into_iter()
}

/// A tab in a line.
pub(super) fn describe_tab(tab: &super::browser_state::BrowserTab) -> String {
    let mut line = format!("page: {}", haft::view::visible_line(&tab.url));
    if !tab.title.is_empty() {
        line += &format!(" · {}", haft::view::visible_line(&format!("{:?}", tab.title)));
    }
    if let Some(status) = tab.status.filter(|status| *status >= 400) {
        line += &format!(" · status {status}");
    }
    if tab.is_over() {
        line += " · crashed; BrowserNavigate opens it anew";
    } else if tab.loading {
        line += " · still loading";
    }
    line
}
