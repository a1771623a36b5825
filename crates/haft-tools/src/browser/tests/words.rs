//! Each mistake has words of its own: what came, what is accepted, what to do. Most of them need no browser.

use serde_json::{Value, json};

use super::{Browser, TestSession, TestSite, has};

/// Every tool, what is wrong with the call, and what is said of it.
fn mistakes() -> Vec<(&'static str, Value, &'static str)> {
    let no_page = "Failed: no page is open; BrowserNavigate opens one";
    let both =
        "InvalidInput: give `ref`, as BrowserSnapshot shows it (`e12`), or a CSS `selector`, and not both";
    let no_ref =
        "InvalidInput: `ref` is \"button\"; one as BrowserSnapshot shows it is accepted, such as `e12`";
    let text = |len: usize| "x".repeat(len);
    vec![
        ("Click", json!({"selector": "a"}), no_page),
        ("Click", json!({}), both),
        ("Click", json!({"ref": "e1", "selector": "a"}), both),
        ("Click", json!({"ref": "button"}), no_ref),
        ("Console", json!({}), no_page),
        (
            "Console",
            json!({"limit": 0}),
            "InvalidInput: `limit` must be between 1 and 200, got 0; omit it for the last 50",
        ),
        ("Evaluate", json!({"script": "1"}), no_page),
        (
            "Evaluate",
            json!({"script": " "}),
            "InvalidInput: `script` has 1 bytes; JavaScript of 1 to 262144 bytes is accepted",
        ),
        (
            "Evaluate",
            json!({"script": "1", "timeout_ms": 0}),
            "InvalidInput: `timeout_ms` must be between 1 and 60000, got 0",
        ),
        ("Evaluate", json!({"script": "1", "ref": "button"}), no_ref),
        (
            "Navigate",
            json!({"url": "example.com"}),
            "InvalidInput: `url` is no whole address; give it with its scheme, for example `https://example.com/page`",
        ),
        (
            "Navigate",
            json!({"url": "file:///etc/passwd"}),
            "InvalidInput: `url` begins with `file:`; `http:` and `https:` are accepted",
        ),
        (
            "Navigate",
            json!({"url": format!("https://a.example/{}", text(17_000))}),
            "InvalidInput: `url` is too long; at most 16 KiB are accepted",
        ),
        (
            "Navigate",
            json!({"url": "https://me:pass@a.example/"}),
            "InvalidInput: `url` has a user or password in it; leave them out, and sign in on the page",
        ),
        ("Press", json!({"key": "Enter"}), no_page),
        ("Press", json!({"key": "Enter", "times": 0}), "InvalidInput: `times` is 0; 1 to 100 is accepted"),
        ("Press", json!({"key": "Entr"}), "InvalidInput: `key`: `Entr` is no key"),
        (
            "Press",
            json!({"key": "Hyper+A"}),
            "InvalidInput: `key`: `Hyper` is no key that is held; `Control`, `Shift`, `Alt` and `Meta` are",
        ),
        ("Screenshot", json!({}), no_page),
        (
            "Screenshot",
            json!({"ref": "e1", "full_page": true}),
            "InvalidInput: `ref` is one element and `full_page` all of it; leave one out",
        ),
        ("Screenshot", json!({"ref": "button"}), no_ref),
        ("Select", json!({"selector": "a", "values": ["b"]}), no_page),
        ("Select", json!({"values": ["b"]}), both),
        (
            "Select",
            json!({"selector": "a", "values": vec!["b"; 101]}),
            "InvalidInput: `values` has 101 choices; at most 100 are accepted at once",
        ),
        ("Snapshot", json!({}), no_page),
        ("Snapshot", json!({"ref": "button"}), no_ref),
        ("Tabs", json!({"action": "new"}), "InvalidInput: `new` takes the `url` to open, and no `tab`"),
        (
            "Tabs",
            json!({"action": "close"}),
            "InvalidInput: `select` and `close` take the number of a `tab`, and no `url`",
        ),
        (
            "Tabs",
            json!({"tab": 1}),
            "InvalidInput: `list` takes nothing; set `action` to do something with a tab",
        ),
        ("Type", json!({"selector": "a", "text": "b"}), no_page),
        ("Type", json!({"text": "b"}), both),
        ("Type", json!({"selector": "a", "text": text(1_100_000)}), "bytes; type it in parts with `append`"),
        ("Wait", json!({"text": "a"}), no_page),
        (
            "Wait",
            json!({"text": "a", "url": "b"}),
            "InvalidInput: give one of `text`, `text_gone`, `selector` and `url`",
        ),
        (
            "Wait",
            json!({"text": ""}),
            "InvalidInput: what is waited for is empty; give text, or leave it out",
        ),
        ("Wait", json!({"timeout_ms": 0}), "InvalidInput: `timeout_ms` must be between 1 and "),
    ]
}

#[tokio::test]
async fn every_mistake_has_its_words() {
    let scene = TestSession::of(Browser::new());
    for (tool, input, words) in mistakes() {
        let said = scene.says(tool, input).await;
        assert!(said.contains(words), "Browser{tool}: {words:?} is not in:\n{said}");
    }
    // All but the one that never fails.
    let tools = Browser::new().tools();
    let named = |name: &str| mistakes().iter().any(|(tool, ..)| name == format!("Browser{tool}"));
    let left: Vec<&str> = tools.iter().map(|tool| tool.name()).filter(|name| !named(name)).collect();
    assert_eq!(left, ["BrowserClose"]);
    assert_eq!(scene.says("Close", json!({})).await, "no browser runs");
}

#[tokio::test]
async fn what_a_page_does_not_have_is_said() {
    let site = TestSite::new(&[(
        "/",
        "<button disabled>Off</button><p>text</p><select><option>a</option></select>",
    )]);
    let Some(scene) = TestSession::new(&site) else { return };
    scene.open(&site, "/").await;
    for (tool, input, words) in [
        ("Click", json!({"ref": "e99"}), "Failed: no element of this page is called `e99`"),
        ("Click", json!({"selector": "nav"}), "Failed: no element of the page matches the selector `nav`"),
        ("Click", json!({"selector": "::"}), "Failed: `selector`: "),
        ("Click", json!({"selector": "button"}), "is disabled, so a click does nothing; nothing was clicked"),
        ("Type", json!({"selector": "p", "text": "x"}), "takes no text; nothing was typed"),
        (
            "Type",
            json!({"selector": "select", "text": "x"}),
            "is a choice; BrowserSelect chooses; nothing was typed",
        ),
        (
            "Select",
            json!({"selector": "select", "values": ["b"]}),
            "Failed: nothing was chosen in `select`: ",
        ),
        ("Evaluate", json!({"script": "nowhere()"}), "Failed: the script failed: "),
        ("Wait", json!({"text": "never", "timeout_ms": 50}), "TimedOut: waited 50 ms for the text \"never\""),
        (
            "Tabs",
            json!({"action": "select", "tab": 7}),
            "Failed: there is no tab 7; they are numbered from 1 to 1",
        ),
        ("Screenshot", json!({"ref": "e99"}), "Failed: no element of this page is called `e99`"),
    ] {
        has(&scene.says(tool, input).await, &[words]);
    }
}
