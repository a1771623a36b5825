//! What pages may not do, and what becomes of everything that goes wrong.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use haft::future::BoxFuture;
use haft::ports::{
    ApprovalAnswer, ApprovalRequest, Asker, EnforcedRules, PermissionMode, ProcessError, ProcessOutcome,
    ProcessRequest, Processes, UserQuestion,
};
use haft::{Effects, ErrorKind, PermissionRules, Tool as _};
use haft_sandbox::LocalProcesses;
use serde_json::json;

use super::super::{Browser, BrowserClick, BrowserNavigate, BrowserPress, BrowserTabs};
use super::{TestSession, TestSite, chromium, has, named};

/// Where a page sends requests, by every way that there is.
const CALLS: &str = "const say=async(n,f)=>{try{await f();return n+' went'}catch(e){return n+' stopped'}};\
    const out=[];out.push(await say('fetch',()=>fetch(BASE+'/fetch',{mode:'no-cors'})));\
    out.push(await say('image',()=>new Promise((y,n)=>{const i=new Image();i.onload=y;i.onerror=n;i.src=BASE+'/image'})));\
    out.push(await say('worker',()=>new Promise((y,n)=>{const w=new Worker(URL.createObjectURL(new Blob(\
    [`fetch('${BASE}/worker',{mode:'no-cors'}).then(()=>postMessage(1),()=>postMessage(0))`])));w.onmessage=e=>e.data?y():n()})));\
    out.push(await say('frame',()=>new Promise((y,n)=>{const f=document.createElement('iframe');f.src=BASE+'/frame';\
    f.onload=()=>setTimeout(y,200);document.body.append(f)})));out.join()";

#[tokio::test]
async fn a_page_reaches_no_port_that_was_not_opened() {
    let (site, other) =
        (TestSite::new(&[("/", "<title>A</title>")]), TestSite::new(&[("/", "<title>B</title>")]));
    site.put("/away", &format!("302 Found\r\nLocation: {}", other.url("/moved")), "");
    let Some(scene) = TestSession::new(&site) else { return };
    scene.open(&site, "/").await;
    let script = format!("const BASE='{}';{CALLS}", other.url(""));
    let said = scene.says("Evaluate", json!({"script": script})).await;
    has(&said, &["fetch stopped", "image stopped", "worker stopped"]);
    has(
        &said,
        &[&format!("refused http://localhost:{}/fetch: port {} of this machine", other.port, other.port)],
    );
    let said = scene.open(&site, "/away").await;
    has(&said, &["was not opened", "net::ERR_BLOCKED_BY_CLIENT", &format!("`localhost:{}`", other.port)]);
    let said = scene.open(&other, "/").await;
    has(&said, &["was not opened", "sandbox.network.allowedDomains"]);
    assert_eq!(*other.asked.lock().unwrap(), Vec::<String>::new(), "nothing came through");
}

type CheckedHost = (String, u16, Vec<String>);

/// Processes without a sandbox, which note the hosts that are checked and allow none.
struct CheckedProcesses {
    local: LocalProcesses,
    asked: Arc<Mutex<Vec<CheckedHost>>>,
}

impl Processes for CheckedProcesses {
    fn confines(&self) -> bool {
        false
    }

    fn enforced_rules(&self) -> EnforcedRules {
        EnforcedRules::None
    }

    fn run<'a>(&'a self, request: ProcessRequest) -> BoxFuture<'a, Result<ProcessOutcome, ProcessError>> {
        self.local.run(request)
    }

    fn check_host<'a>(
        &'a self,
        host: &'a str,
        port: u16,
        grants: &'a [String],
    ) -> BoxFuture<'a, Result<(), String>> {
        self.asked.lock().unwrap().push((host.to_owned(), port, grants.to_vec()));
        Box::pin(async move { Err(format!("no rule allows `{host}`")) })
    }
}

#[tokio::test]
async fn other_hosts_are_asked_about_where_no_sandbox_is() {
    let Some(program) = chromium() else { return };
    let site = TestSite::new(&[(
        "/",
        "<img src='http://pictures.example/a.png'><script src='http://10.0.0.1/x.js'></script>",
    )]);
    let asked: Arc<Mutex<Vec<CheckedHost>>> = Arc::default();
    let browser = Browser::new().program(Some(program)).local_ports([site.port]);
    let local = LocalProcesses::new(std::env::vars_os());
    let scene = TestSession::with_processes(browser, CheckedProcesses { local, asked: asked.clone() });
    let said = scene.open(&site, "/").await;
    has(
        &said,
        &[
            "refused http://pictures.example/a.png: no rule allows `pictures.example`",
            "refused http://10.0.0.1/x.js",
        ],
    );
    let said = scene.says("Navigate", json!({"url": "https://named.example:8443/"})).await;
    has(&said, &["Failed: https://named.example:8443/ was not opened", "no rule allows `named.example`"]);
    let asked = asked.lock().unwrap().clone();
    assert!(asked.contains(&("pictures.example".into(), 80, vec![])), "{asked:?}");
    assert!(asked.contains(&("named.example".into(), 8443, vec!["named.example:8443".into()])), "{asked:?}");
    for (url, words) in [
        ("file:///etc/passwd", "begins with `file:`"),
        ("chrome://version", "begins with `chrome:`"),
        ("javascript:alert(1)", "begins with `javascript:`"),
        ("example.com", "is no whole address"),
        ("https://me:secret@example.com/", "has a user or password in it"),
    ] {
        let result = scene.call("Navigate", json!({"url": url})).await;
        let error = result.outcome().unwrap_err();
        assert!(
            error.kind() == ErrorKind::InvalidInput && error.message().contains(words),
            "{url}: {error:?}"
        );
    }
}

#[tokio::test]
async fn files_are_saved_by_permission_only() {
    let site = TestSite::new(&[("/", "<a href='/file' download>Get</a>")]);
    let content: Vec<u8> = (0..5_000_000u32).map(|at| (at % 251) as u8).collect();
    site.put("/file", "200 OK\r\nContent-Type: application/octet-stream\r\nContent-Disposition: attachment; filename=data.bin", &content);
    let Some(scene) = TestSession::new(&site) else { return };
    scene.open(&site, "/").await;
    let link = named(&scene.sees().await, "link");
    // A busy machine may tell of it only after the call.
    let mut said = String::new();
    for _ in 0..20 {
        said = scene.says("Click", json!({"ref": &link})).await;
        if said.contains("wanted to save") {
            break;
        }
    }
    has(&said, &["the page wanted to save `data.bin`", "which was refused; set `download_to`"]);
    let said = scene.says("Click", json!({"ref": &link, "download_to": "kept.bin"})).await;
    has(&said, &["saved `data.bin` (5000000 bytes) as kept.bin"]);
    assert!(std::fs::read(scene.dir.path().join("kept.bin")).unwrap() == content);
    let said = scene.says("Navigate", json!({"url": site.url("/file")})).await;
    has(&said, &["Failed: the address leads to a file", "`download_to`"]);
    let said = scene.says("Navigate", json!({"url": site.url("/file"), "download_to": "again.bin"})).await;
    has(&said, &["saved `data.bin`"]);
    let said = scene.says("Click", json!({"ref": link, "download_to": "/etc/haft-test"})).await;
    assert!(said.contains("saved") || said.contains("Failed"), "{said}");
    has(&scene.says("Tabs", json!({})).await, &["*1 "]);
    let click = BrowserClick(scene.browser.clone());
    let effects = click.effects(&serde_json::from_value(json!({"ref": "e1", "download_to": "a"})).unwrap());
    assert_eq!(effects.to_string(), "writes a · changes localhost · changes the browser");
}

#[tokio::test]
async fn what_crashes_is_an_error_and_the_next_call_begins_anew() {
    let site = TestSite::new(&[("/", "<title>Fine</title><button>B</button>")]);
    let Some(scene) = TestSession::new(&site) else { return };
    scene.open(&site, "/").await;
    let (live, session) = scene
        .browser
        .peek(|live| Some(live.book().active()?.session.clone()))
        .pop()
        .map(|session| {
            let slot = scene.browser.sessions().values().next().unwrap().clone();
            (slot.live().clone().unwrap(), session)
        })
        .unwrap();
    // Nobody answers a command that crashes.
    let _ = live.page(&session, "Page.crash", json!({})).await;
    has(
        &scene.says("Snapshot", json!({})).await,
        &["Failed: the page", "crashed; BrowserNavigate opens it anew"],
    );
    has(&scene.open(&site, "/").await, &["\"Fine\""]);
    has(&scene.sees().await, &["- button \"B\""]);

    let _ = live.browser("Browser.crash", json!({})).await;
    drop(live);
    has(
        &scene.says("Snapshot", json!({})).await,
        &["Failed: the browser has ended by itself: ", "BrowserNavigate starts it anew"],
    );
    has(&scene.says("Snapshot", json!({})).await, &["no page is open"]);
    has(&scene.open(&site, "/").await, &["\"Fine\""]);
}

/// Every process whose command line has this in it.
fn processes(mark: &str) -> usize {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.filter(|entry| {
        std::fs::read(entry.path().join("cmdline"))
            .is_ok_and(|line| String::from_utf8_lossy(&line).contains(mark))
    })
    .count()
}

#[tokio::test]
async fn it_ends_with_the_session_and_leaves_nothing() {
    let site = TestSite::new(&[("/", "<title>Fine</title>")]);
    let Some(scene) = TestSession::new(&site) else { return };
    scene.open(&site, "/").await;
    let slot = scene.browser.sessions().values().next().unwrap().clone();
    let folder = slot.live().clone().unwrap().folder().to_owned();
    drop(slot);
    assert!(processes(&folder) > 0);
    drop(scene);
    let gone = async {
        while processes(&folder) > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), gone).await.expect("the browser ends");
}

#[tokio::test]
async fn without_chromium_it_is_said_how_to_get_one() {
    let scene = TestSession::of(Browser::new().program(Some(PathBuf::from("/nowhere/chromium"))));
    let said = scene.says("Navigate", json!({"url": "http://localhost:1/"})).await;
    has(
        &said,
        &["Failed: there is no browser at `/nowhere/chromium`", "apt install chromium", "HAFT_CHROMIUM"],
    );
}

#[test]
fn effects_say_what_is_reached_and_what_is_acted_on() {
    let browser = Browser::new();
    let navigate = |url: &str| {
        BrowserNavigate(browser.clone()).effects(&serde_json::from_value(json!({"url": url})).unwrap())
    };
    assert_eq!(
        navigate("https://Example.COM:8443/a").to_string(),
        "reaches example.com · changes the browser"
    );
    assert_eq!(navigate("http://[::1]:80/").to_string(), "reaches ::1 · changes the browser");
    assert_eq!(navigate("nonsense"), Effects::unknown());
    let press = BrowserPress(browser.clone()).effects(&serde_json::from_value(json!({"key": "a"})).unwrap());
    assert_eq!(press.to_string(), "changes the browser", "no page is open");
    let tabs = |input| BrowserTabs(browser.clone()).effects(&serde_json::from_value(input).unwrap());
    assert_eq!(tabs(json!({})).to_string(), "looks at the browser");
    assert_eq!(
        tabs(json!({"action": "new", "url": "http://x.io"})).to_string(),
        "reaches x.io · changes the browser"
    );
}

/// Remembers what it is asked, and says yes.
struct ApproveAll(Arc<Mutex<Vec<ApprovalRequest>>>);

impl Asker for ApproveAll {
    fn approve<'a>(&'a self, approval: &'a ApprovalRequest) -> haft::future::BoxFuture<'a, ApprovalAnswer> {
        self.0.lock().unwrap().push(approval.clone());
        Box::pin(async { ApprovalAnswer::Once })
    }

    fn question<'a>(&'a self, _: &'a UserQuestion) -> haft::future::BoxFuture<'a, Option<Vec<String>>> {
        Box::pin(async { None })
    }
}

#[tokio::test]
async fn the_user_is_asked_about_the_element_itself() {
    let site = TestSite::new(&[("/", "<button>Buy now</button>")]);
    let Some(mut scene) = TestSession::new(&site) else { return };
    let asked: Arc<Mutex<Vec<ApprovalRequest>>> = Arc::default();
    let permissions = PermissionRules::new().mode(PermissionMode::Default);
    scene.engine = scene.builder.clone().permissions(permissions).asker(ApproveAll(asked.clone())).build();
    scene.open(&site, "/").await;
    let button = named(&scene.sees().await, "button");
    scene.says("Click", json!({"ref": button})).await;
    let asked = asked.lock().unwrap();
    let last = asked.last().unwrap();
    assert_eq!(last.description.as_deref(), Some("click button \"Buy now\""));
    assert_eq!(last.effects.to_string(), "changes localhost · changes the browser");
}

/// A call is done on the host on which it was judged, or not at all.
#[tokio::test]
async fn a_page_that_went_on_is_not_acted_on() {
    let site = TestSite::new(&[("/", "<title>A</title><input autofocus>")]);
    let Some(scene) = TestSession::new(&site) else { return };
    scene.open(&site, "/").await;
    let press = BrowserPress(scene.browser.clone());
    let input = || serde_json::from_value(json!({"key": "a"})).unwrap();
    let effects = press.effects(&input());
    assert_eq!(effects.to_string(), "changes localhost · changes the browser");
    let elsewhere = format!("http://127.0.0.1:{}/", site.port);
    scene.says("Navigate", json!({"url": elsewhere})).await;
    let turn = scene.engine.turn();
    drop(turn);
    // The same input again, judged on the other host: that is done.
    has(&scene.says("Press", json!({"key": "a"})).await, &["pressed a"]);
    // Judged here, and run there.
    let judged = press.effects(&input());
    assert_eq!(judged.to_string(), "changes 127.0.0.1 · changes the browser");
    let calls = [
        haft::ToolCall::new("1", "BrowserNavigate", json!({"url": site.url("/")})),
        haft::ToolCall::new("2", "BrowserPress", json!({"key": "a"})),
    ];
    let results = scene.engine.turn().run(calls).await;
    let error = results[1].outcome().unwrap_err();
    has(error.message(), &["the page went on to localhost since this call was judged, so nothing was done"]);
    assert_eq!(scene.value("document.querySelector('input').value").await, "\"\"");
}

/// The page is ended, and the browser stays as it is.
#[tokio::test]
async fn a_page_that_shows_dialogs_for_ever_does_not_end_the_browser() {
    let site = TestSite::new(&[
        ("/loop", "<title>Loop</title><script>while(true) alert('x')</script><p>after"),
        ("/plain", "<title>Plain</title><p>here"),
    ]);
    let Some(scene) = TestSession::new(&site) else { return };
    let said = scene.open(&site, "/loop").await;
    has(
        &said,
        &["the page showed an alert: \"x\"", "was ended with the next; BrowserNavigate opens another"],
    );
    has(&scene.says("Snapshot", json!({})).await, &["crashed; BrowserNavigate opens it anew"]);
    has(&scene.open(&site, "/plain").await, &["Plain"]);
    has(&scene.says("Snapshot", json!({})).await, &["here"]);
    // At once, beside another tab: the new one is where the crashed one was, and nothing else changes.
    has(&scene.says("Tabs", json!({"action": "new", "url": site.url("/plain")})).await, &["Plain"]);
    scene.says("Tabs", json!({"action": "select", "tab": 1})).await;
    has(&scene.open(&site, "/loop").await, &["was ended with the next"]);
    let said = scene.open(&site, "/plain").await;
    assert!(said.contains("Plain") && !said.contains("crashed") && !said.contains("closed"), "{said}");
    let tabs = scene.says("Tabs", json!({})).await;
    assert!(tabs.starts_with("*1 ") && tabs.lines().count() == 2 && !tabs.contains("crashed"), "{tabs}");
}

/// Its names alone are more than one answer of the browser may have.
#[tokio::test]
async fn a_page_that_is_far_too_large_does_not_end_the_browser() {
    let many = "<title>Huge</title><body></body><script>for(let i=0;i<100;i++){let b=document.createElement('button');\
        b.ariaLabel='x'.repeat(700000);document.body.append(b)}</script>";
    let site = TestSite::new(&[("/huge", many), ("/plain", "<title>Plain</title><p>here")]);
    let Some(scene) = TestSession::new(&site) else { return };
    scene.open(&site, "/huge").await;
    let said = scene.says("Snapshot", json!({})).await;
    // Which of these it is depends on how busy the machine is.
    let ways = ["the page is too large for this", "the page did not answer within"];
    assert!(ways.iter().any(|way| said.contains(way)), "{said}");
    // The page may still be busy with that answer.
    let mut count = String::new();
    for _ in 0..10 {
        count = scene.value("document.querySelectorAll('button').length").await;
        if !count.contains("did not") {
            break;
        }
    }
    assert_eq!(count, "100");
    has(&scene.open(&site, "/plain").await, &["Plain"]);
    has(&scene.says("Snapshot", json!({})).await, &["here"]);
}
