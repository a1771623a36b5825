//! What events make of the book, without a browser.

use haft::ports::HostGrants;

use super::*;

fn book() -> BrowserState {
    let proxy = url::Url::parse("http://haft:token@127.0.0.1:3128").unwrap();
    let mut book = BrowserState::new(RequestFilter::new(Some(proxy), vec![5173], HostGrants::default()));
    let info =
        json!({"sessionId": "S", "targetInfo": {"targetId": "T", "type": "page", "url": "about:blank"}});
    hear(&mut book, None, "Target.attachedToTarget", info);
    book
}

fn hear(book: &mut BrowserState, session: Option<&str>, method: &str, params: Value) -> Vec<BrowserCommand> {
    book.hear(&BrowserEvent { method: method.into(), session: session.map(str::to_owned), params })
}

#[test]
fn a_new_tab_runs_only_once_everything_is_set_up() {
    let mut book = book();
    let info = json!({"sessionId": "S2", "targetInfo": {"targetId": "T2", "type": "page", "url": "", "openerId": "T"}});
    let acts = hear(&mut book, None, "Target.attachedToTarget", info);
    let methods: Vec<&str> = acts
        .iter()
        .map(|act| match act {
            BrowserCommand::Tell { session, method, .. } if session.as_deref() == Some("S2") => *method,
            act => panic!("{act:?}"),
        })
        .collect();
    assert_eq!(methods.last(), Some(&"Runtime.runIfWaitingForDebugger"));
    assert!(methods.contains(&"Fetch.enable") && methods.contains(&"Target.setAutoAttach"), "{methods:?}");
    assert_eq!(book.active().unwrap().target, "T", "the first stays");
    assert_eq!(book.take_notes(), ["the page opened a new tab, number 2; BrowserTabs selects it"]);
    hear(&mut book, None, "Target.detachedFromTarget", json!({"sessionId": "S"}));
    assert_eq!(book.active().unwrap().target, "T2");
    for at in 3..40 {
        let info = json!({"sessionId": format!("S{at}"), "targetInfo": {"targetId": format!("T{at}"), "type": "page"}});
        hear(&mut book, None, "Target.attachedToTarget", info);
    }
    assert_eq!(book.tabs.len(), TABS_MAX);
}

#[test]
fn requests_are_judged_and_the_proxys_password_goes_to_the_proxy_only() {
    let mut book = book();
    let mut paused = |url: &str| {
        let acts = hear(
            &mut book,
            Some("S"),
            "Fetch.requestPaused",
            json!({"requestId": "R", "request": {"url": url}}),
        );
        match &acts[..] {
            [BrowserCommand::Tell { method, .. }] => *method,
            acts => panic!("{acts:?}"),
        }
    };
    assert_eq!(paused("https://example.com/"), "Fetch.continueRequest");
    assert_eq!(paused("http://localhost:5173/"), "Fetch.continueRequest");
    assert_eq!(paused("http://localhost:22/"), "Fetch.failRequest");
    assert_eq!(paused("file:///etc/passwd"), "Fetch.failRequest");
    let mut auth = |source: &str| {
        let acts = hear(
            &mut book,
            Some("S"),
            "Fetch.authRequired",
            json!({"requestId": "R", "authChallenge": {"source": source}}),
        );
        let [BrowserCommand::Tell { params, .. }] = &acts[..] else { panic!("{acts:?}") };
        params["authChallengeResponse"].clone()
    };
    assert_eq!(auth("Proxy")["password"], "token");
    assert_eq!(auth("Server"), json!({"response": "CancelAuth"}));
}

#[test]
fn what_a_page_says_is_bounded() {
    let mut book = book();
    for at in 0..1_000 {
        let args = json!([{"type": "string", "value": format!("{at} {}", "x".repeat(10_000))}]);
        hear(&mut book, Some("S"), "Runtime.consoleAPICalled", json!({"type": "log", "args": args}));
        hear(
            &mut book,
            Some("S"),
            "Page.javascriptDialogOpening",
            json!({"type": "alert", "message": format!("{at}\u{1b}")}),
        );
        hear(
            &mut book,
            Some("S"),
            "Network.requestWillBeSent",
            json!({"requestId": at.to_string(), "type": "Fetch"}),
        );
    }
    let (lines, lost) = book.active().unwrap().console();
    let lines: Vec<&ConsoleMessage> = lines.collect();
    assert_eq!((lines.len(), lost), (CONSOLE_LINES_MAX, 800));
    assert!(lines.iter().all(|line| line.text.chars().count() <= CONSOLE_CHARS_MAX + 1));
    let notes = book.take_notes();
    assert!(notes.len() <= NOTES_MAX && notes.iter().all(|note| !note.contains('\u{1b}')), "{notes:?}");
}

#[test]
fn names_are_never_used_twice() {
    let mut book = book();
    let one = book.name("T", "S", 7, || "button".into()).unwrap();
    assert_eq!(book.name("T", "S", 7, || "other".into()), Some(one));
    assert_eq!(book.element(&format!("e{one}")).unwrap().about, "button");
    let frame = json!({"frame": {"id": "T", "url": "http://localhost:5173/"}});
    hear(&mut book, Some("S"), "Page.frameNavigated", frame);
    assert_eq!(book.element(&format!("e{one}")), None, "it was of another page");
    assert_eq!(book.name("T", "S", 7, || "link".into()), Some(one + 1));
}

/// Whatever is counted between two calls begins anew with each: a page that asks a question for every click
/// is none that asks without end.
#[test]
fn dialogs_without_end_end_the_page_and_a_few_do_not() {
    let mut book = book();
    let open = |book: &mut BrowserState, at: usize| {
        let message = json!({"type": "confirm", "message": format!("number {at}")});
        let acts = hear(book, Some("S"), "Page.javascriptDialogOpening", message);
        let methods = acts.iter().map(|act| match act {
            BrowserCommand::Tell { method, .. } => *method,
            act => panic!("{act:?}"),
        });
        methods.collect::<Vec<_>>()
    };
    for _ in 0..3 {
        for at in 0..DIALOGS_MAX {
            assert_eq!(open(&mut book, at), ["Page.handleJavaScriptDialog"]);
        }
        book.take_notes();
    }
    for at in 0..DIALOGS_MAX + 5 {
        let expected: &[&str] =
            if at < DIALOGS_MAX { &["Page.handleJavaScriptDialog"] } else { &["Page.crash"] };
        assert_eq!(open(&mut book, at), expected, "{at}");
    }
    assert!(book.take_notes().iter().any(|note| note.contains("was ended with the next")));
}

#[test]
fn what_the_browser_itself_asks_for_is_not_told() {
    let mut book = book();
    book.refuse("chrome-extension://mhjfbmdgcfjbbpaeojofohoefgiehjai/index.html", "no");
    book.refuse("http://other.example/", "no");
    assert_eq!(book.take_notes(), ["refused http://other.example/: no"]);
}
