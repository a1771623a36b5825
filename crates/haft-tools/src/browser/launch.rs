//! Starts Chromium: which one, with which flags, in whose hands.
//!
//! It is started as every other child, by the host's [`Processes`](haft::ports::Processes), and talked to
//! over two pipes; no port is opened. A few lines of shell are around it: they join the pipes to the
//! descriptors that Chromium expects, make a folder for its profile where temporary files go, and remove it.
//! In the sandbox that folder is in memory, the rest of the disk is there to be read at most, and Chromium's
//! own sandbox is off, because no namespaces can be made inside of ours.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haft::ports::{ConfinementLevel, HostGrants, ProcessExit, ProcessRequest};
use haft::sync::lock;
use haft::{Cause, Context, ToolError};
use serde_json::json;
use tokio::sync::{Semaphore, oneshot, watch};
use url::Url;

use super::BrowserOptions;
use super::browser_state::{BrowserCommand, BrowserState, fail_request, let_go};
use super::request_filter::{RequestFilter, unbracketed_host};
use super::running_browser::RunningBrowser;
use super::wire::{BrowserWire, WirePipes};

/// How long Chromium may take until it answers for the first time.
pub const START_LIMIT: Duration = Duration::from_secs(30);
/// Bytes of what it complains about that are kept, the last ones.
const WORDS_BYTES_MAX: usize = 4 * 1024;
/// Names that are looked up at once, where no proxy does that.
const LOOKING_MAX: usize = 16;

/// The names by which Chromium is found.
const NAMES: &str = "chromium chromium-browser google-chrome google-chrome-stable chrome microsoft-edge brave-browser \
                     chromium-headless-shell";

/// `$1` is the program or nothing, `$2` whether the sandbox is around it, `$3` the names to look for, and
/// then come the flags. Tells three lines first: the proxy, the folder, the program.
const AROUND: &str = r#"p=$1; inside=$2; names=$3; shift 3
if [ -z "$p" ]; then for n in $names; do p=$(command -v "$n") && break; done
else p=$(command -v "$p"); fi
d=$(mktemp -d "${TMPDIR:-/tmp}/haft-browser.XXXXXX") || exit 1
trap 'rm -rf "$d"' EXIT; trap 'exit 143' HUP INT TERM
mkdir "$d/downloads" || exit 1
printf '%s\n%s\n%s\n' "${HTTPS_PROXY-}" "$d" "$p"
[ -n "$p" ] || exit 127
if [ "$inside" = 1 ]; then
  w=${HTTPS_PROXY##*@}
  [ -n "$w" ] || exit 126
  set -- "$@" --no-sandbox "--proxy-server=http://${w%/}" '--proxy-bypass-list=<-loopback>;localhost;*.localhost;127.0.0.1/8;[::1]'
else
  set -- "$@" --no-proxy-server
  [ "$(id -u)" != 0 ] || set -- "$@" --no-sandbox
fi
HOME=$d "$p" "$@" "--user-data-dir=$d/profile" about:blank 3<&0 4>&1 0</dev/null 1>&2"#;

/// What Chromium is told. Most of it keeps it from talking to its maker.
const FLAGS: &[&str] = &[
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--no-default-browser-check",
    "--no-pings",
    "--no-service-autorun",
    "--disable-background-networking",
    "--disable-breakpad",
    "--disable-client-side-phishing-detection",
    "--disable-component-update",
    "--disable-crash-reporter",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-extensions",
    "--disable-gpu",
    "--disable-quic",
    "--disable-search-engine-choice-screen",
    "--disable-sync",
    "--disable-features=AutofillServerCommunication,CertificateTransparencyComponentUpdater,DialMediaRouteProvider,\
     MediaRouter,NetworkTimeServiceQuerying,OptimizationHints,Translate",
    "--dns-over-https-mode=off",
    "--force-color-profile=srgb",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--hide-scrollbars",
    "--metrics-recording-only",
    "--mute-audio",
    "--password-store=basic",
    "--window-size=1280,900",
];

const INSTALL: &str = "install it (Debian, Ubuntu: `apt install chromium`; Fedora: `dnf install chromium`; macOS: `brew install \
                       --cask chromium`), or name one in the environment variable HAFT_CHROMIUM";

/// Starts it and waits until it answers.
///
/// # Errors
/// Why it can't, in words.
pub(super) async fn launch_browser(
    options: &BrowserOptions,
    cx: &Context,
) -> Result<Arc<RunningBrowser>, ToolError> {
    let confined = cx.ports().processes().is_some_and(haft::ports::Processes::confines);
    let grants = HostGrants::default();
    let (send, pipes) = oneshot::channel::<(OwnedFd, OwnedFd)>();
    let (send, words) = (Mutex::new(Some(send)), Arc::new(Mutex::new(Vec::new())));
    let heard = words.clone();
    let cancel = cx.cancel().child();
    let program = options.program.clone().unwrap_or_default().into_os_string();
    let first = ["/bin/sh", "-c", AROUND, "sh"].map(OsString::from).into_iter();
    let argv = first
        .chain([program, if confined { "1" } else { "0" }.into(), NAMES.into()])
        .chain(FLAGS.iter().map(OsString::from));
    let request = ProcessRequest::new(argv, "/")
        .with_confinement(ConfinementLevel::ReadOnly)
        .with_grants(grants.clone())
        .with_timeout(Duration::MAX)
        .with_output_bytes_max(0)
        .with_cancel(cancel.clone())
        .with_on_output(move |bytes| keep_stderr(&heard, bytes))
        .with_pipes(move |input, output| {
            if let Some(send) = lock(&send).take() {
                let _ = send.send((input, output));
            }
        });
    let (ends, ended) = watch::channel(None);
    let host = cx.clone();
    tokio::spawn(async move {
        let how = match host.ports().processes() {
            None => "this host starts no processes".to_owned(),
            Some(processes) => match processes.run(request).await {
                Ok(outcome) => describe_exit(outcome.exit, &words),
                Err(error) => error.to_string(),
            },
        };
        let _ = ends.send(Some(how));
    });
    // From here on dropping it ends it.
    let fuse = KillOnDrop(Some(cancel));
    let begun = async {
        let Ok((input, output)) = pipes.await else {
            return Err(launch_error(wait_for_end(ended.clone()).await));
        };
        let mut pipes = WirePipes::new(input, output).map_err(launch_error)?;
        let (proxy, folder, program) = (pipes.line().await, pipes.line().await, pipes.line().await);
        let (Some(proxy), Some(folder), Some(program)) = (proxy, folder, program) else {
            return Err(launch_error(wait_for_end(ended.clone()).await));
        };
        if program.is_empty() {
            return Err(ToolError::new(match &options.program {
                Some(named) => format!(
                    "there is no browser at `{}`, as far as the sandbox shows; {INSTALL}",
                    named.display()
                ),
                None => format!("no Chromium was found; {INSTALL}"),
            }));
        }
        let proxy = confined.then(|| proxy_of(&proxy)).transpose()?;
        let guard = RequestFilter::new(proxy, options.local_ports.clone(), grants);
        let (wire, book, changed) = connect_browser(pipes, guard, cx.clone());
        let live = RunningBrowser::new(wire, book, changed, folder, ended.clone());
        live.begin().await.map_err(|failure| match live.last_words() {
            Some(words) => launch_error(words),
            None => launch_error(failure),
        })?;
        if confined {
            live.greet().await?;
        }
        Ok(live)
    };
    match tokio::time::timeout(START_LIMIT, begun).await {
        Ok(Ok(mut live)) => {
            live.keep(fuse);
            Ok(Arc::new(live))
        }
        Ok(Err(error)) => Err(error),
        Err(_) => Err(launch_error(format!("it did not answer within {} s", START_LIMIT.as_secs()))),
    }
}

/// Ends the process when it is dropped.
pub(super) struct KillOnDrop(Option<haft::Cancel>);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        if let Some(cancel) = self.0.take() {
            cancel.cancel(Cause::Shutdown);
        }
    }
}

/// Hears events: they go into the book, and what they ask for is done.
fn connect_browser(
    pipes: WirePipes,
    guard: RequestFilter,
    cx: Context,
) -> (Arc<BrowserWire>, Arc<Mutex<BrowserState>>, watch::Receiver<u64>) {
    let book = Arc::new(Mutex::new(BrowserState::new(guard)));
    let (told, changed) = watch::channel(0);
    let (own, looking) = (book.clone(), Arc::new(Semaphore::new(LOOKING_MAX)));
    let wire = pipes.open(move |wire, event| {
        let acts = {
            let mut book = lock(&own);
            match &event {
                Some(event) => book.hear(event),
                None => {
                    book.over = true;
                    Vec::new()
                }
            }
        };
        for act in acts {
            match act {
                BrowserCommand::Tell { session, method, params } => {
                    wire.tell(session.as_deref(), method, &params)
                }
                BrowserCommand::Judge { session, request, url } => {
                    let (wire, book) = (Arc::downgrade(wire), Arc::downgrade(&own));
                    let (cx, looking) = (cx.clone(), looking.clone());
                    tokio::spawn(async move {
                        let _place = looking.acquire().await;
                        let (Some(wire), Some(book)) = (wire.upgrade(), book.upgrade()) else { return };
                        let act = match judge_url(&book, &cx, &url).await {
                            Ok(()) => let_go(session, &request),
                            Err(why) => {
                                lock(&book).refuse(&url, &why);
                                fail_request(session, &request)
                            }
                        };
                        if let BrowserCommand::Tell { session, method, params } = act {
                            wire.tell(session.as_deref(), method, &params);
                        }
                    });
                }
            }
        }
        told.send_modify(|count| *count += 1);
    });
    (wire, book, changed)
}

/// Whether a request may go where no proxy says so.
async fn judge_url(book: &Mutex<BrowserState>, cx: &Context, url: &str) -> Result<(), String> {
    let url = Url::parse(url).map_err(|error| error.to_string())?;
    let (Some(host), Some(port)) = (url.host(), url.port_or_known_default()) else {
        return Err("it names no host".into());
    };
    let Some(processes) = cx.ports().processes() else {
        return Err("nothing here can tell whether it may be reached".into());
    };
    let grants = lock(book).guard.grants.hosts();
    processes.check_host(&unbracketed_host(&host), port, &grants).await
}

fn proxy_of(text: &str) -> Result<Url, ToolError> {
    let found =
        Url::parse(text).ok().filter(|url| url.password().is_some() && url.host_str() == Some("127.0.0.1"));
    found.ok_or_else(|| {
        ToolError::new(
            "the browser needs a sandbox with a network of its own, and only a part of the sandbox can be made here; \
             `haft doctor` says what is missing",
        )
    })
}

fn keep_stderr(words: &Mutex<Vec<u8>>, bytes: &[u8]) {
    let mut words = lock(words);
    words.extend_from_slice(&bytes[bytes.len().saturating_sub(WORDS_BYTES_MAX)..]);
    let spare = words.len().saturating_sub(WORDS_BYTES_MAX);
    words.drain(..spare);
}

/// How it ended, and what it said last. It always complains about a message bus that isn't there.
fn describe_exit(exit: ProcessExit, words: &Mutex<Vec<u8>>) -> String {
    let how = match exit {
        ProcessExit::Code(code) => format!("it ended with code {code}"),
        ProcessExit::Signal(signal) => format!("it was ended by signal {signal}"),
        ProcessExit::TimedOut | ProcessExit::Cancelled => "it was ended".to_owned(),
        ProcessExit::Killed(reason) => format!("it was killed: {reason}"),
    };
    let words = String::from_utf8_lossy(&lock(words)).into_owned();
    let last = words.lines().rev().find(|line| !line.trim().is_empty() && !line.contains("dbus"));
    match last {
        Some(line) => format!("{how}; its last words: {}", haft::view::visible_line(line.trim())),
        None => how,
    }
}

async fn wait_for_end(mut ended: watch::Receiver<Option<String>>) -> String {
    let found = ended.wait_for(Option::is_some).await.ok().and_then(|how| how.clone());
    found.unwrap_or_else(|| "it was not started".to_owned())
}

fn launch_error(why: impl std::fmt::Display) -> ToolError {
    ToolError::new(format!("the browser can't be started: {why}"))
}

/// What every session of the browser is attached to by itself.
pub(super) fn auto_attach() -> serde_json::Value {
    let leave = |kind: &str| json!({"type": kind, "exclude": true});
    json!({
        "autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true,
        "filter": [leave("browser"), leave("browser_ui"), leave("tab"), leave("webview"), {}],
    })
}
