//! What becomes of long results, alone and together, and the JSON that programs get.

use std::path::Path;

use haft::result::ResultJson;
use haft::results::OffloadStore;
use haft::testing::{TestCaller, scripted_tool};
use haft::{Chars, Effects, EngineBuilder, ErrorKind, ResultBlock, ToolError, Unlimited, limits};
use serde_json::{Value, json};

use crate::{Dir, any, reader};

/// Lines of ten characters with the line's end.
fn lines(count: usize) -> String {
    (0..count).map(|line| format!("{line:09}\n")).collect()
}

/// A tool that gives so many lines.
fn giver(name: &str, limit: haft::results::ResultLimit) -> haft::tool::AnyTool {
    let give = haft::dynamic_tool(
        name,
        "Gives lines.",
        json!({"type": "object", "properties": {"offset": {}}}),
        |args: Value, _| async move {
            let count = args["lines"].as_u64().unwrap_or(0) as usize;
            if args["fail"] == true { Err(ToolError::new(lines(count))) } else { Ok(lines(count)) }
        },
    );
    any(give.effects(|_| Effects::none()).result_limit(limit))
}

fn chars(result: &haft::ToolResult) -> usize {
    result.for_model().iter().map(|block| block.to_text().chars().count()).sum()
}

#[tokio::test]
async fn a_long_result_goes_to_a_file_and_the_model_gets_both_ends() {
    let dir = Dir::new();
    let store = OffloadStore::at(dir.path("results"));
    let caller =
        TestCaller::new().tool(giver("give", Chars(1_000))).engine(|engine| engine.result_store(store));

    let short = caller.call("give", json!({"lines": 100})).await;
    assert_eq!((chars(&short), short.offloaded_to()), (1_000, None), "exactly at the limit");

    let long = caller.call("give", json!({"lines": 101})).await;
    assert!(!long.is_error() && chars(&long) <= 1_000);
    let kept = long.offloaded_to().expect("the whole is kept");
    assert_eq!(std::fs::read_to_string(kept).unwrap(), lines(101));
    assert!(kept.starts_with(dir.path("results")));
    let text = long.outcome().unwrap().to_text();
    assert!(text.starts_with("000000000\n") && text.ends_with("000000100\n"), "{text}");
    assert!(text.contains("1,010 characters, 101 lines"), "{text}");
    assert!(text.contains(kept.to_str().unwrap()), "{text}");
    assert!(text.contains("read it with Read using offset and limit"), "{text}");
    let json = long.to_json();
    assert_eq!(json.offloaded_to.as_deref(), kept.to_str());
    assert_eq!(json.output, text);
}

#[tokio::test]
async fn a_kept_result_can_be_read_without_asking_and_not_written() {
    let read = haft::dynamic_tool(
        "read",
        "Reads.",
        json!({"type": "object"}),
        |args: Value, cx: haft::Context| async move {
            Ok(cx.files().read_to_string(args["path"].as_str().unwrap()).await?)
        },
    )
    .effects(|args| Effects::reads(args["path"].as_str().unwrap()))
    .result_limit(Unlimited);
    let write = reader("write").effects(|args| Effects::writes(args["path"].as_str().unwrap()));
    let caller = TestCaller::new().tool(giver("give", Chars(200))).tool(read).tool(write);
    let long = caller.call("give", json!({"lines": 100})).await;
    let path = json!({"path": long.offloaded_to().unwrap()});
    assert_eq!(caller.call("read", path.clone()).await.to_json().output, lines(100));
    assert_eq!(caller.call("write", path).await.error_kind(), Some(ErrorKind::Denied));
}

#[tokio::test]
async fn a_temporary_store_goes_with_its_engine() {
    let caller = TestCaller::new().tool(giver("give", Chars(200)));
    let long = caller.call("give", json!({"lines": 100})).await;
    let kept = long.offloaded_to().unwrap().to_owned();
    assert!(kept.exists());
    drop(caller);
    haft::testing::let_tasks_run().await;
    assert!(!kept.exists(), "no file is left behind");
}

#[tokio::test]
async fn a_tool_that_pages_by_itself_is_not_cut() {
    let caller = TestCaller::new().tool(giver("give", Unlimited));
    let result = caller.call("give", json!({"lines": 20_000})).await;
    assert_eq!((chars(&result), result.offloaded_to()), (200_000, None));
    let default = TestCaller::new().tool(giver("give", Default::default()));
    let result = default.call("give", json!({"lines": 20_000})).await;
    assert!(chars(&result) <= limits::RESULT_CHARS && result.offloaded_to().is_some());
}

/// Where the file can't be written the limit holds all the same, and the model is told.
#[tokio::test]
async fn a_store_that_fails_costs_the_middle_and_says_so() {
    let dir = Dir::new();
    let store = OffloadStore::at(dir.file("no_folder", "").join("results"));
    let caller =
        TestCaller::new().tool(giver("give", Chars(1_000))).engine(|engine| engine.result_store(store));
    let long = caller.call("give", json!({"lines": 200})).await;
    assert!(!long.is_error(), "the call itself went well");
    assert_eq!(long.offloaded_to(), None);
    let text = long.outcome().unwrap().to_text();
    assert!(text.chars().count() <= 1_000);
    assert!(text.contains("is lost, since it could not be kept in a file"), "{text}");
    assert!(text.starts_with("000000000\n") && text.ends_with("000000199\n"), "{text}");
}

#[tokio::test]
async fn only_text_counts_and_pictures_pass() {
    let (see, _) = scripted_tool("see")
        .effects(|_| Effects::none())
        .with(|tool| tool.result_limit(Chars(100)))
        .then(vec![ResultBlock::text(lines(50)), ResultBlock::image("image/png", vec![0u8; 5_000])])
        .build();
    let result = TestCaller::new().tool(see).call("see", "{}").await;
    let blocks = result.for_model();
    assert_eq!(blocks.len(), 2);
    assert!(matches!(&blocks[1], ResultBlock::Image(blob) if blob.bytes.len() == 5_000));
    assert!(blocks[0].to_text().chars().count() <= 100);
}

/// Calls of `l` (limited), `u` (unlimited) and `f` (fails) with so many lines; what they come to, in
/// characters.
async fn sizes(budget: usize, calls: &str) -> Vec<usize> {
    let caller = TestCaller::new()
        .tool(giver("l", Chars(100_000)))
        .tool(giver("u", Unlimited))
        .engine(|engine: EngineBuilder| engine.turn_budget(budget));
    let calls: Vec<(String, &str, Value)> = calls
        .split_whitespace()
        .map(|word| {
            let (kind, count) = word.split_at(1);
            let count: usize = count.parse().unwrap();
            let tool = if kind == "u" { "u" } else { "l" };
            (word.to_owned(), tool, json!({"lines": count, "fail": kind == "f"}))
        })
        .collect();
    let results = caller.turn(calls).await;
    let sum: usize = results.iter().map(chars).sum();
    let least = results.len() * limits::RESULT_CHARS_MIN;
    assert!(
        sum <= budget.max(least),
        "{sum} of {budget}: {:?}",
        results.iter().map(chars).collect::<Vec<_>>()
    );
    for result in results.iter() {
        let kept = result.offloaded_to().is_some();
        assert!(!kept || result.tool_name() == "l", "what pages by itself never goes to a file");
    }
    results.iter().map(chars).collect()
}

#[tokio::test]
async fn the_results_of_a_turn_fit_its_budget() {
    // Untouched where they fit, exactly.
    assert_eq!(sizes(9_000, "l300 u300 f300").await, [3_000, 3_000, 3_000]);
    // The largest limited one goes first, and only as many as have to.
    let came = sizes(12_000, "l500 l900 u300").await;
    assert_eq!((came[0], came[2]), (5_000, 3_000));
    assert!(came[1] <= limits::PREVIEW_CHARS);
    // Of two equals the later one; the unlimited are cut last.
    let came = sizes(13_000, "l500 l500 u500").await;
    assert_eq!((came[0], came[2]), (5_000, 5_000));
    assert!(came[1] <= limits::PREVIEW_CHARS);
    let came = sizes(6_000, "l500 u500").await;
    assert!(came[0] <= limits::PREVIEW_CHARS && came[1] < 5_000);
    // Many small ones share alike.
    let many = "l100 ".repeat(50);
    assert!(sizes(20_000, &many).await.iter().all(|chars| *chars <= 400));
    // Errors are results.
    let came = sizes(3_000, "f400 f50").await;
    assert!(came[0] <= limits::PREVIEW_CHARS && came[1] == 500, "{came:?}");
    // A budget of nothing still lets every result say something.
    assert!(sizes(0, "l100 u100 f100").await.iter().all(|chars| *chars > 0));
}

#[tokio::test]
async fn a_budget_cuts_the_same_way_every_time() {
    let calls = "l800 u700 l800 f90 u2 l0 l650";
    assert_eq!(sizes(9_000, calls).await, sizes(9_000, calls).await);
}

/// A preview that the budget makes of a preview is of the same file.
#[tokio::test]
async fn a_result_that_is_cut_twice_keeps_its_one_file() {
    let dir = Dir::new();
    let store = OffloadStore::at(dir.path("results"));
    let caller = TestCaller::new()
        .tool(giver("l", Chars(5_000)))
        .engine(|engine| engine.result_store(store).turn_budget(3_000));
    let results = caller.turn([("1", "l", json!({"lines": 2_000})), ("2", "l", json!({"lines": 50}))]).await;
    let kept = results[0].offloaded_to().unwrap();
    assert_eq!(std::fs::read_to_string(kept).unwrap(), lines(2_000));
    assert!(results[0].outcome().unwrap().to_text().contains(kept.to_str().unwrap()));
    assert_eq!(std::fs::read_dir(dir.path("results")).unwrap().count(), 1);
    assert_eq!(chars(&results[1]), 500);
}

/// The schema is committed: whoever reads our JSON can rely on it, and a change of it is seen.
#[tokio::test]
async fn a_result_as_json_has_the_shape_that_is_written_down() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/testdata/result.schema.json");
    let settings = schemars::generate::SchemaSettings::draft2020_12().for_serialize();
    let derived = settings.into_generator().into_root_schema_for::<ResultJson>().to_value();
    if std::env::var_os("HAFT_UPDATE_TESTDATA").is_some() {
        std::fs::write(&path, format!("{derived:#}\n")).unwrap();
    }
    let committed: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(derived, committed, "run with HAFT_UPDATE_TESTDATA=1 if the change is meant");

    let schema = jsonschema::validator_for(&committed).unwrap();
    let noting = haft::testing::TestHook::new("note").on_after(|_, _| {
        Ok(haft::hooks::PostHookResponse { context: vec!["noted".into()], ..Default::default() })
    });
    let (many, _) = scripted_tool("many")
        .effects(|_| Effects::none())
        .then("text")
        .then(json!({"a": [1]}))
        .then(vec![ResultBlock::text("a"), ResultBlock::image("image/png", *b"png")])
        .then(())
        .then_fail(ToolError::new("wrong").retryable())
        .then(lines(20_000))
        .build();
    let caller =
        TestCaller::new().tool(many).engine(|engine| engine.hooks(haft::hooks::HookSet::new().after(noting)));
    let check = async |tool: &str, expected: Value| {
        let mut json = serde_json::to_value(caller.call(tool, "{}").await.to_json()).unwrap();
        let problems: Vec<_> = schema.iter_errors(&json).map(|error| error.to_string()).collect();
        assert_eq!(problems, [""; 0], "{json}");
        assert!(json["duration_ms"].as_f64().unwrap() >= 0.0);
        json["duration_ms"] = json!(0);
        if expected != Value::Null {
            assert_eq!(json, expected);
        }
        json
    };
    let ok = |output: Value| {
        json!({
            "tool_name": "many", "output": output, "error": null, "is_error": false, "duration_ms": 0,
            "was_concurrent": false, "offloaded_to": null, "notes": ["noted"],
        })
    };
    check("many", ok(json!("text"))).await;
    check("many", ok(json!({"a": [1]}))).await;
    check(
        "many",
        ok(json!([
            {"type": "text", "text": "a"},
            {"type": "image", "media_type": "image/png", "name": null, "data": "cG5n"},
        ])),
    )
    .await;
    check("many", ok(json!(""))).await;
    let failed = json!({
        "tool_name": "many", "output": null,
        "error": {"kind": "Failed", "message": "wrong", "retryable": true}, "is_error": true, "duration_ms": 0,
        "was_concurrent": false, "offloaded_to": null, "notes": ["noted"],
    });
    check("many", failed).await;
    let offloaded = check("many", Value::Null).await;
    assert!(offloaded["offloaded_to"].is_string());
    let unknown = json!({
        "tool_name": "none", "output": null,
        "error": {"kind": "UnknownTool", "message": "no tool named `none`", "retryable": false}, "is_error": true,
        "duration_ms": 0, "was_concurrent": false, "offloaded_to": null,
    });
    check("none", unknown).await;
}
