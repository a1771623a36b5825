//! Working with pages: looking, acting, waiting.

use haft::{ErrorKind, ResultBlock};
use serde_json::json;

use super::{TestSession, TestSite, has, named};

const FORM: &str = r#"<!doctype html><title>Sign up</title><h1>Sign up</h1>
<form action=/done onsubmit="console.log('sent', {n: this.n.value})">
<label>Name <input name=n value=bob required></label>
<label><input type=checkbox name=ok> I agree</label>
<select aria-label=Colour name=c><option value=r>red<option value=b>blue</select>
<input type=date aria-label=Day name=d>
<button>Send</button></form>
<button disabled>Never</button>
<div style="position:relative"><button id=under>Under</button><div id=over style="position:absolute;inset:0;background:#fff">cover</div></div>
<div style="margin-top:3000px"><a href="/done?far">far below</a></div>
<iframe srcdoc="<button onclick='this.textContent=1'>Inside</button>"></iframe>"#;

#[tokio::test]
async fn a_form_is_seen_filled_in_and_sent() {
    let site = TestSite::new(&[("/", FORM), ("/done", "<title>Done</title><p>Thanks, <b>you</b>!")]);
    let Some(scene) = TestSession::new(&site) else { return };
    assert_eq!(scene.says("Snapshot", json!({})).await, "Failed: no page is open; BrowserNavigate opens one");
    assert_eq!(scene.open(&site, "/").await, format!("page: {} · \"Sign up\"", site.url("/")));
    let seen = scene.sees().await;
    has(
        &seen,
        &[
            "- heading \"Sign up\" [level=1]",
            "textbox \"Name\" [required]",
            ": bob",
            "- button \"Never\" [disabled]",
        ],
    );
    has(
        &seen,
        &["- iframe\n  - button \"Inside\" [ref=e", "link \"far below\"", "option \"red\" [selected]"],
    );
    assert_eq!(scene.sees().await, seen, "refs stay as long as the page does");

    let name = named(&seen, "textbox \"Name\"");
    let said = scene.says("Type", json!({"ref": &name, "text": "Ann"})).await;
    assert!(said.starts_with("typed into textbox \"Name\"\npage: "), "{said}");
    scene.says("Type", json!({"ref": &name, "text": " Lee", "append": true})).await;
    scene.says("Type", json!({"ref": named(&seen, "Day"), "text": "2026-03-01"})).await;
    scene.says("Click", json!({"ref": named(&seen, "checkbox")})).await;
    let colour = named(&seen, "combobox \"Colour\"");
    let said = scene.says("Select", json!({"ref": &colour, "values": ["blue"]})).await;
    assert!(said.starts_with("chose [\"blue\"] in combobox \"Colour\""), "{said}");
    let said = scene.says("Select", json!({"ref": &colour, "values": ["green"]})).await;
    has(&said, &["Failed: nothing was chosen", "it has no choice \"green\"; there are: \"red\", \"blue\""]);
    has(&scene.sees().await, &[": Ann Lee", "[checked] [ref=", "option \"blue\" [selected]"]);
    let values = "const f=document.forms[0];[f.n.value,f.ok.checked,f.c.value,f.d.value]";
    assert_eq!(scene.value(values).await, r#"["Ann Lee",true,"b","2026-03-01"]"#);

    let said = scene.says("Click", json!({"ref": named(&seen, "Send"), "snapshot": true})).await;
    has(
        &said,
        &[
            "clicked button \"Send\"",
            "/done?n=Ann+Lee&ok=on&c=b&d=2026-03-01 · \"Done\"",
            "- paragraph: Thanks, you!",
        ],
    );
    let said = scene.says("Click", json!({"ref": &name})).await;
    has(&said, &["Failed: no element of this page is called `e", "BrowserSnapshot"]);
    has(&scene.says("Console", json!({})).await, &["info sent {n: Ann Lee}"]);
}

#[tokio::test]
async fn a_click_that_cannot_reach_its_element_says_why() {
    let site = TestSite::new(&[("/", FORM), ("/done", "<title>Done</title>")]);
    let Some(scene) = TestSession::new(&site) else { return };
    scene.open(&site, "/").await;
    let seen = scene.sees().await;
    // Nothing is clicked instead.
    let said = scene.says("Click", json!({"ref": named(&seen, "Never")})).await;
    has(&said, &["Failed: button \"Never\" is disabled"]);
    let said = scene.says("Click", json!({"ref": named(&seen, "Under")})).await;
    has(&said, &["button \"Under\" lies under another element (div#over cover)"]);
    let said = scene.says("Click", json!({"selector": "#nowhere"})).await;
    has(&said, &["no element of the page matches the selector `#nowhere`"]);
}

#[tokio::test]
async fn elements_in_frames_and_below_the_window_are_reached() {
    let site = TestSite::new(&[("/", FORM), ("/done", "<title>Done</title>")]);
    let Some(scene) = TestSession::new(&site) else { return };
    scene.open(&site, "/").await;
    let seen = scene.sees().await;
    scene.says("Click", json!({"ref": named(&seen, "Inside")})).await;
    has(&scene.sees().await, &["- iframe\n  - button \"1\" [focused] [ref=e"]);

    let below = named(&seen, "far below");
    has(&scene.says("Click", json!({"ref": below})).await, &["/done?far"]);
    scene.open(&site, "/").await;
    let field = named(&scene.sees().await, "textbox \"Name\"");
    has(
        &scene.says("Type", json!({"ref": field, "text": "Eve", "submit": true})).await,
        &["pressed Enter", "/done?n=Eve"],
    );
}

#[tokio::test]
async fn dialogs_are_reported_and_answered() {
    let page = r#"<title>Loud</title><button onclick="document.title=confirm('Sure?')?'yes':'no'">Ask</button>
<button onclick="document.title=prompt('Name?','x')">Name</button><button onclick="alert('Hi')">Greet</button>"#;
    let site = TestSite::new(&[("/", page)]);
    let Some(scene) = TestSession::new(&site) else { return };
    scene.open(&site, "/").await;
    let snapshot = scene.sees().await;
    let click = |name: &str, more: serde_json::Value| {
        let mut input = json!({"ref": named(&snapshot, name)});
        more.as_object().unwrap().iter().for_each(|(key, value)| input[key] = value.clone());
        input
    };
    let said = scene.says("Click", click("Ask", json!({}))).await;
    has(&said, &["\"no\"", "the page asked (confirm) \"Sure?\"; it was dismissed; set `accept_dialogs`"]);
    has(
        &scene.says("Click", click("Ask", json!({"accept_dialogs": true}))).await,
        &["\"yes\"", "it was accepted"],
    );
    has(
        &scene.says("Click", click("Name", json!({"prompt_text": "Ann"}))).await,
        &["\"Ann\"", "answered with \"Ann\""],
    );
    has(&scene.says("Click", click("Greet", json!({}))).await, &["the page showed an alert: \"Hi\""]);
}

#[tokio::test]
async fn the_console_is_reported_and_waits_end() {
    let page = r#"<title>Loud</title>
<button onclick="setTimeout(()=>{document.body.append('it came');nosuch()},300)">Later</button>
<script>console.warn('careful', [1, 2], null); for (let i = 0; i < 300; i++) console.debug('noise', i); console.error('bad');</script>"#;
    let site = TestSite::new(&[("/", page)]);
    let Some(scene) = TestSession::new(&site) else { return };
    scene.open(&site, "/").await;
    let said = scene.says("Console", json!({"level": "warning"})).await;
    has(&said, &["older messages are not shown", "error bad"]);
    assert!(!said.contains("noise"), "{said}");
    has(&scene.says("Console", json!({"level": "debug", "limit": 3})).await, &["debug noise 299\nerror bad"]);

    let button = named(&scene.sees().await, "Later");
    scene.says("Click", json!({"ref": button})).await;
    has(&scene.says("Wait", json!({"text": "it came"})).await, &["there after ", "the text \"it came\""]);
    has(&scene.says("Console", json!({})).await, &["error uncaught: ReferenceError: nosuch is not defined"]);
    let said = scene.says("Wait", json!({"text": "never", "timeout_ms": 200})).await;
    has(&said, &["TimedOut: waited 200 ms for the text \"never\", and it did not come"]);
    has(&scene.says("Wait", json!({"selector": "b["})).await, &["`selector`:"]);
}

#[tokio::test]
async fn tabs_are_listed_selected_and_closed() {
    let page = r#"<title>Loud</title><button onclick="window.open('/other')">Open</button>"#;
    let site = TestSite::new(&[("/", page), ("/other", "<title>Other</title><p>other")]);
    let Some(scene) = TestSession::new(&site) else { return };
    scene.open(&site, "/").await;
    let button = named(&scene.sees().await, "Open");
    let said = scene.says("Click", json!({"ref": button})).await;
    has(&said, &["the page opened a new tab, number 2"]);
    has(&scene.says("Tabs", json!({"action": "select", "tab": 2})).await, &["/other"]);
    has(&scene.sees().await, &["- paragraph: other"]);
    let listed = scene.says("Tabs", json!({})).await;
    has(&listed, &["*2 http://localhost:", "\n*2", "\"Other\""]);
    let said = scene.says("Tabs", json!({"action": "close", "tab": 2})).await;
    has(&said, &["closed tab 2\n*1 http://localhost:"]);
    has(
        &scene.says("Tabs", json!({"action": "new", "url": site.url("/other")})).await,
        &["opened a new tab", "\"Other\""],
    );
    has(
        &scene.says("Tabs", json!({"action": "select", "tab": 7})).await,
        &["there is no tab 7; they are numbered from 1 to 2"],
    );
    has(&scene.says("Close", json!({})).await, &["the browser has ended"]);
    has(&scene.says("Tabs", json!({})).await, &["no browser runs"]);
}

#[tokio::test]
async fn scripts_have_bounds_and_keys_arrive() {
    let page = "<title>Keys</title><input id=i aria-label=In><pre id=o></pre><script>i.onkeydown=e=>o.textContent+=\
                `[${e.ctrlKey?'C-':''}${e.key}]`</script>";
    let site = TestSite::new(&[("/", page)]);
    let Some(scene) = TestSession::new(&site) else { return };
    scene.open(&site, "/").await;
    for (script, expected) in [
        ("1 + 1", "2"),
        ("'a\\n'", "\"a\\n\""),
        ("undefined", "undefined"),
        ("10n", "10n"),
        ("const a = await Promise.resolve({x: [1, null]}); a", r#"{"x":[1,null]}"#),
        ("Promise.resolve(7)", "7"),
        ("document.body", "\"<body>\""),
        ("const c = {}; c.c = c; c", "[object Object]"),
        ("() => 1", "1"),
        ("async () => document.title.length > 0", "true"),
    ] {
        assert_eq!(scene.value(script).await, expected, "{script}");
    }
    let long = scene.value("'x'.repeat(5e6)").await;
    assert!(long.len() < 21_000 && long.contains("5000002 characters in all"), "{}", long.len());
    has(&scene.value("throw new TypeError('no')").await, &["Failed: the script failed: TypeError: no"]);
    for endless in ["for(;;);", "new Promise(() => {})"] {
        let said = scene.says("Evaluate", json!({"script": endless, "timeout_ms": 300})).await;
        assert!(said.contains("did not end within 300 ms") || said.contains("terminated"), "{said}");
    }
    assert_eq!(scene.value("2").await, "2", "the page goes on");
    let field = named(&scene.sees().await, "textbox");
    let said = scene.says("Evaluate", json!({"script": "el => el.id", "ref": &field})).await;
    has(&said, &["\n\"i\""]);

    scene.says("Click", json!({"ref": &field})).await;
    for key in ["h", "i", "ArrowLeft", "Control+A", "Escape"] {
        scene.says("Press", json!({"key": key})).await;
    }
    assert_eq!(
        scene.value("[i.value, o.textContent, getSelection().toString()]").await,
        r#"["hi","[h][i][ArrowLeft][C-a][Escape]","hi"]"#.replace("[C-a]", "[C-A]")
    );
    scene.says("Press", json!({"key": "x", "times": 3})).await;
    assert_eq!(scene.value("i.value").await, "\"xxx\"");
    let (kind, words) = {
        let result = scene.call("Press", json!({"key": "Entr"})).await;
        let error = result.outcome().unwrap_err().clone();
        (error.kind(), error.message().to_owned())
    };
    assert_eq!(kind, ErrorKind::InvalidInput);
    has(&words, &["`Entr` is no key"]);
}

/// Width and height of a PNG.
fn size(png: &[u8]) -> (u32, u32) {
    let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
    (number(16), number(20))
}

#[tokio::test]
async fn pictures_are_of_a_size_that_models_take() {
    let page = "<!doctype html><body style='margin:0'><div style='height:4000px;background:linear-gradient(red,blue)'></div>\
                <button style='position:absolute;top:3000px;left:50px;width:200px;height:100px'>B</button>";
    let site = TestSite::new(&[("/", page)]);
    let Some(scene) = TestSession::new(&site) else { return };
    scene.open(&site, "/").await;
    let button = named(&scene.sees().await, "button");
    for (input, expected) in [
        (json!({}), (1280, 800)),
        (json!({"full_page": true}), (501, 1568)),
        (json!({"ref": button}), (200, 100)),
    ] {
        let result = scene.call("Screenshot", input.clone()).await;
        let output = result.outcome().unwrap_or_else(|error| panic!("{input}: {error:?}"));
        let ResultBlock::Image(image) = &output.blocks()[1] else { panic!("{input}: no image") };
        assert_eq!(&*image.media_type, "image/png");
        let (width, height) = size(&image.bytes);
        assert!(
            width.abs_diff(expected.0) <= 2 && height.abs_diff(expected.1) <= 2,
            "{input}: {width} × {height}"
        );
    }
}

#[tokio::test]
async fn a_page_without_end_is_cut_and_parts_can_be_seen() {
    let rows = "<button>row</button>".repeat(2_500);
    let site =
        TestSite::new(&[("/", &format!("<main tabindex=0 aria-label=all>{rows}<p>the end</p></main>"))]);
    let Some(scene) = TestSession::new(&site) else { return };
    scene.open(&site, "/").await;
    let seen = scene.sees().await;
    assert!(seen.len() < 60_000, "{}", seen.len());
    has(&seen, &["more lines; give the `ref` of a part"]);
    let said = scene.says("Snapshot", json!({"ref": "e5"})).await;
    has(&said, &["- button \"row\" [ref=e5]"]);
    assert!(!said.contains("e6]"), "{said}");
}
