//! Results against limits, budgets and folders that refuse: properties first, then the cases with a story.

use std::fs;

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Text with long and short lines, of one to four bytes a character.
fn text() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        4 => "[a-z0-9 äß€漢🦀]{0,60}",
        1 => "[a-zé漢🦀]{100,900}",
        1 => Just(String::new()),
    ];
    (vec(line, 0..40), any::<bool>())
        .prop_map(|(lines, closed)| lines.join("\n") + if closed { "\n" } else { "" })
}

fn block() -> impl Strategy<Value = ResultBlock> {
    prop_oneof![
        6 => text().prop_map(ResultBlock::text),
        2 => vec(text(), 0..4).prop_map(|texts| ResultBlock::Structured(json!({ "texts": texts, "n": 1 }))),
        1 => text().prop_map(|text| ResultBlock::Structured(Value::String(text))),
        1 => Just(ResultBlock::image("image/png", *b"picture")),
        1 => Just(ResultBlock::link("file:///a", "a")),
    ]
}

fn output() -> impl Strategy<Value = ToolOutput> {
    vec(block(), 0..4).prop_map(ToolOutput::new)
}

fn text_output(text: &str) -> ToolOutput {
    ToolOutput::new(vec![ResultBlock::text(text)])
}

fn uncounted(output: &ToolOutput) -> Vec<ResultBlock> {
    output.blocks().iter().filter(|block| counted_block(block).is_none()).cloned().collect()
}

fn preview_of(settled: &LimitedOutput) -> &str {
    match settled.output.blocks().iter().find_map(counted_block) {
        Some(CountedBlock::Text(text)) => text,
        _ => panic!("a preview is a text"),
    }
}

/// Checks what every shortened result has to be, and that its file holds the whole of it.
fn check_cut(before: &ToolOutput, after: &LimitedOutput) -> Result<(), TestCaseError> {
    let (whole, form) = whole_text(before.blocks());
    let cut = after.cut.as_ref().expect("a shortened result has a cut");
    let preview = preview_of(after);
    let (head, tail) = cut.pieces(preview);
    prop_assert!(whole.starts_with(head), "the head is from the text");
    prop_assert!(whole.ends_with(tail), "the tail is from the text");
    prop_assert_eq!(cut.chars, whole.chars().count());
    prop_assert_eq!(cut.lines, whole.lines().count());
    prop_assert_eq!(cut.chars_left_out, cut.chars - head.chars().count() - tail.chars().count());
    let middle = &whole[head.len()..whole.len() - tail.len()];
    prop_assert_eq!(cut.lines_left_out, middle.matches('\n').count() + usize::from(!middle.ends_with('\n')));
    prop_assert_eq!(uncounted(before), uncounted(&after.output), "other blocks stay");
    let counted = after.output.blocks().iter().filter_map(counted_block).count();
    prop_assert_eq!(counted, 1, "one text stands for all");
    if let Some(path) = &after.offloaded_to {
        prop_assert_eq!(fs::read_to_string(path).expect("a kept file"), whole);
        prop_assert_eq!(path.extension().expect("an extension"), form.extension());
    }
    Ok(())
}

/// The results with random file names made equal.
fn shown(results: &[LimitedOutput]) -> Vec<String> {
    let name = |settled: &LimitedOutput| {
        let path = settled.offloaded_to.as_ref()?;
        Some(path.file_name()?.to_str()?.to_owned())
    };
    let plain = |settled: &LimitedOutput| {
        let text = format!("{:?}", settled.output);
        name(settled).map_or(text.clone(), |name| text.replace(&name, "NAME"))
    };
    results.iter().map(plain).collect()
}

fn fit_all(
    outputs: &[(ToolOutput, ResultLimit)],
    budget: usize,
    store: &OffloadStore,
) -> (Vec<LimitedOutput>, Vec<bool>) {
    let mut settled: Vec<LimitedOutput> =
        outputs.iter().map(|(output, limit)| limit_output(output.clone(), "Tool", *limit, store)).collect();
    let mut fits: Vec<BudgetedResult<'_>> = settled
        .iter_mut()
        .zip(outputs)
        .map(|(settled, (_, limit))| BudgetedResult::new("Tool", settled, *limit).pages(true))
        .collect();
    fit_to_budget(&mut fits, budget, store);
    let changed = fits.iter().map(|fit| fit.changed).collect();
    (settled, changed)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_settled_result_is_within_its_limit(output in output(), limit in 0usize..3_000) {
        let folder = tempfile::tempdir().expect("a folder");
        let store = OffloadStore::at(folder.path().join("kept"));
        let settled = limit_output(output.clone(), "Tool", ResultLimit::Chars(limit), &store);
        prop_assert!(output_chars(&settled.output) <= limit.max("[cut]".len()));
        if output_chars(&output) <= limit {
            prop_assert_eq!(settled, LimitedOutput::whole(output));
            prop_assert!(!store.dir().exists(), "nothing is made for nothing");
        } else {
            prop_assert!(settled.offloaded_to.is_some());
            check_cut(&output, &settled)?;
            let path = settled.offloaded_to.clone().expect("just seen").display().to_string();
            if limit >= path.len() + 60 {
                prop_assert!(preview_of(&settled).contains(&path));
            }
        }
    }

    #[test]
    fn a_result_that_cannot_be_kept_is_within_its_limit(output in output(), limit in 0usize..3_000) {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let store = OffloadStore::at(file.path().join("below"));
        let settled = limit_output(output.clone(), "Tool", ResultLimit::Chars(limit), &store);
        prop_assert!(output_chars(&settled.output) <= limit.max("[cut]".len()));
        prop_assert_eq!(&settled.offloaded_to, &None);
        if output_chars(&output) > limit {
            check_cut(&output, &settled)?;
            prop_assert!(settled.cut.as_ref().is_some_and(|cut| cut.lost.is_some()));
            prop_assert!(limit < 50 || preview_of(&settled).contains("lost"));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn a_turn_is_within_its_budget(
        outputs in vec((output(), prop_oneof![
            Just(ResultLimit::Unlimited), Just(ResultLimit::default()), (200usize..2_500).prop_map(ResultLimit::Chars),
        ]), 0..12),
        budget in 0usize..40_000,
    ) {
        let store = OffloadStore::temporary();
        let before: Vec<LimitedOutput> =
            outputs.iter().map(|(output, limit)| limit_output(output.clone(), "Tool", *limit, &store)).collect();
        let (after, changed) = fit_all(&outputs, budget, &store);

        let sum: usize = after.iter().map(|settled| output_chars(&settled.output)).sum();
        let floor = outputs.len() * limits::RESULT_CHARS_MIN;
        prop_assert!(sum <= budget.max(floor), "{} over {}", sum, budget);
        if before.iter().map(|settled| output_chars(&settled.output)).sum::<usize>() <= budget {
            prop_assert!(changed.iter().all(|changed| !changed));
        }
        for (((output, limit), before), (after, changed)) in
            outputs.iter().zip(&before).zip(after.iter().zip(&changed))
        {
            if *changed {
                check_cut(output, after)?;
                prop_assert!(output_chars(&after.output) < output_chars(&before.output));
                prop_assert_eq!(after.offloaded_to.is_none(), *limit == ResultLimit::Unlimited);
            } else {
                prop_assert_eq!(shown(std::slice::from_ref(after)), shown(std::slice::from_ref(before)));
            }
        }
        prop_assert_eq!(shown(&fit_all(&outputs, budget, &store).0), shown(&after), "the same again");
    }
}

fn check_limit(limit: ResultLimit, json: Value) {
    assert_eq!(serde_json::to_value(limit).expect("a limit"), json);
    assert_eq!(serde_json::from_value::<ResultLimit>(json).expect("a limit"), limit);
}

#[test]
fn a_limit_is_a_number_or_a_word() {
    check_limit(ResultLimit::Chars(30_000), json!(30_000));
    check_limit(ResultLimit::Unlimited, json!("unlimited"));
    for wrong in [json!(-1), json!("infinite"), json!(1.5), json!(null)] {
        let error = serde_json::from_value::<ResultLimit>(wrong).expect_err("no limit").to_string();
        assert!(error.contains("a number of characters or \"unlimited\""), "{error}");
    }
}

#[test]
fn one_character_over_is_over_and_bytes_do_not_count() {
    let store = OffloadStore::temporary();
    let just = limit_output(text_output(&"漢".repeat(500)), "T", ResultLimit::Chars(500), &store);
    assert_eq!(just, LimitedOutput::whole(text_output(&"漢".repeat(500))));
    assert!(!store.dir().exists());
    let over = limit_output(text_output(&"漢".repeat(501)), "T", ResultLimit::Chars(500), &store);
    assert_eq!(over.cut.expect("a cut").chars, 501);
}

#[test]
fn within_the_limit_nothing_is_copied() {
    let text: std::sync::Arc<str> = "short".into();
    let output = ToolOutput::new(vec![ResultBlock::Text(text.clone())]);
    let settled = limit_output(output, "T", ResultLimit::default(), &OffloadStore::temporary());
    assert!(
        matches!(&settled.output.blocks()[0], ResultBlock::Text(same) if std::sync::Arc::ptr_eq(same, &text))
    );
}

#[test]
fn the_words_say_what_is_missing_and_how_to_read_on() {
    let store = OffloadStore::temporary();
    let log: String = (1..=2_000).map(|line| format!("line {line}\n")).collect();
    let settled = limit_output(text_output(&log), "mcp__x/../y", ResultLimit::Chars(1_000), &store);
    let path = settled.offloaded_to.clone().expect("a file");
    let preview = preview_of(&settled);
    let cut = settled.cut.clone().expect("a cut");
    let (head, tail) = cut.pieces(preview);
    assert!(head.starts_with("line 1\n") && head.ends_with('\n') && tail.ends_with("line 2000\n"));
    assert!(head.len() > tail.len() && !tail.is_empty());
    let words = &preview[head.len()..preview.len() - tail.len()];
    let expected = format!(
        "[haft left out {} characters here, {} lines from line {} on; the whole result is in {} (18,893 characters, \
         2,000 lines); read it with Read using offset and limit, or search it with Grep]\n",
        super::preview::format_number(cut.chars_left_out),
        super::preview::format_number(cut.lines_left_out),
        head.lines().count() + 1,
        path.display(),
    );
    assert_eq!(words, expected);
    let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
    assert!(name.starts_with("mcp__x____y-") && name.ends_with(".txt"), "{name}");
}

#[test]
fn the_words_name_only_tools_that_are_there() {
    let readers = ReaderTools { read: None, search: Some("Find".into()) };
    let store = OffloadStore::temporary().with_readers(readers);
    let settled = limit_output(text_output(&"word\n".repeat(1_000)), "T", ResultLimit::Chars(1_000), &store);
    let preview = preview_of(&settled);
    assert!(preview.contains("; search it with Find]") && !preview.contains("Read"), "{preview}");
}

#[test]
fn short_limits_get_shorter_words() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = OffloadStore::at(folder.path().join("deep/".repeat(20)));
    let preview = |limit| {
        let settled =
            limit_output(text_output(&"word\n".repeat(1_000)), "T", ResultLimit::Chars(limit), &store);
        let path = settled.offloaded_to.clone().expect("a file");
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
        let dir = store.dir().display().to_string();
        preview_of(&settled).replace(&name, "NAME").replace(dir.trim_end_matches('/'), "DIR")
    };
    let short = preview(220);
    assert!(short.starts_with("word\n") && short.ends_with("word\n"), "{short}");
    assert!(short.contains("\n[cut: 5,000 characters, whole in DIR/NAME]\n"), "{short}");
    assert_eq!(preview(55), "[cut: 5,000 characters, whole in file NAME]");
    assert_eq!(preview(24), "[cut: 5,000 characters]");
    assert_eq!(preview(22), "[cut]");
    assert_eq!(preview(0), "[cut]");
}

#[test]
fn json_is_kept_on_many_lines_with_a_hint() {
    let store = OffloadStore::temporary();
    let value = json!({ "rows": (0..500).collect::<Vec<_>>() });
    let picture = ResultBlock::image("image/png", *b"x");
    let output = ToolOutput::new(vec![picture.clone(), ResultBlock::Structured(value.clone())]);
    let settled = limit_output(output, "Query", ResultLimit::Chars(1_000), &store);
    let path = settled.offloaded_to.clone().expect("a file");
    assert_eq!(path.extension().expect("an extension"), "json");
    let kept = fs::read_to_string(path).expect("a kept file");
    assert!(kept.lines().count() > 500);
    assert_eq!(serde_json::from_str::<Value>(&kept).expect("JSON"), value);
    assert!(preview_of(&settled).contains("`jq`"));
    assert_eq!(settled.output.blocks()[0], picture, "the picture stays where it was");
}

#[test]
fn a_lost_result_says_why() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let store = OffloadStore::at(file.path());
    let settled = limit_output(text_output(&"word\n".repeat(1_000)), "T", ResultLimit::Chars(1_000), &store);
    let preview = preview_of(&settled);
    assert!(preview.contains("is lost, since it could not be kept in a file: the place"), "{preview}");
    assert!(!preview.contains(&*file.path().to_string_lossy()), "no path that isn't there");
}

#[test]
fn a_second_preview_has_the_same_file() {
    let store = OffloadStore::temporary();
    let whole = "some words on a line\n".repeat(20_000);
    let mut settled = limit_output(text_output(&whole), "T", ResultLimit::default(), &store);
    let first = settled.clone();
    fit_to_budget(&mut [BudgetedResult::new("T", &mut settled, ResultLimit::default())], 50_000, &store);
    assert_eq!(settled.offloaded_to, first.offloaded_to);
    assert!(output_chars(&settled.output) <= limits::PREVIEW_CHARS);
    assert_eq!(settled.cut.as_ref().expect("a cut").chars, whole.len());
    check_cut(&text_output(&whole), &settled).expect("a right cut");
    assert_eq!(fs::read_dir(store.dir()).expect("the folder").count(), 1);
}

#[test]
fn a_preview_changed_by_a_hook_is_a_new_result() {
    let store = OffloadStore::temporary();
    let mut settled = limit_output(text_output(&"a\n".repeat(9_000)), "T", ResultLimit::Chars(5_000), &store);
    settled.output = text_output(&"漢".repeat(6_000));
    fit_to_budget(&mut [BudgetedResult::new("T", &mut settled, ResultLimit::Chars(5_000))], 3_000, &store);
    check_cut(&text_output(&"漢".repeat(6_000)), &settled).expect("a right cut");
}

#[test]
fn a_page_ends_with_a_line_and_says_how_to_go_on() {
    let store = OffloadStore::temporary();
    let whole = "some words on a line\n".repeat(1_000);
    let mut settled = LimitedOutput::whole(text_output(&whole));
    fit_to_budget(
        &mut [BudgetedResult::new("Read", &mut settled, ResultLimit::Unlimited).pages(true)],
        10_000,
        &store,
    );
    let preview = preview_of(&settled);
    let shown = preview.matches("some words").count();
    let end = format!(
        "call Read again for the part that follows, with an offset {} further on]",
        super::preview::format_lines(shown)
    );
    assert!(preview.ends_with(&end), "{preview}");
    assert!(preview.contains(&format!("\n[shown: lines 1–{shown} of the 1,000 lines of this page")));
    assert!(shown > 450 && !store.dir().exists());
    fit_to_budget(
        &mut [BudgetedResult::new("Read", &mut settled, ResultLimit::Unlimited).pages(true)],
        3_000,
        &store,
    );
    assert!(output_chars(&settled.output) <= 3_000);
    check_cut(&text_output(&whole), &settled).expect("a page of a page");
}

/// Without an offset to ask for, nothing but a file keeps the rest.
#[test]
fn an_unlimited_result_without_pages_goes_to_a_file() {
    let store = OffloadStore::temporary();
    let whole = "some words on a line\n".repeat(1_000);
    let mut settled = LimitedOutput::whole(text_output(&whole));
    fit_to_budget(&mut [BudgetedResult::new("T", &mut settled, ResultLimit::Unlimited)], 10_000, &store);
    let path = settled.offloaded_to.as_ref().expect("a file");
    assert_eq!(fs::read_to_string(path).expect("the file"), whole);
    let preview = preview_of(&settled);
    assert!(preview.contains(&*path.to_string_lossy()) && !preview.contains("again"), "{preview}");
    assert!(output_chars(&settled.output) <= 10_000);
}

#[test]
fn a_page_within_one_long_line_is_within_the_budget() {
    let mut settled = LimitedOutput::whole(text_output(&"x".repeat(20_000)));
    fit_to_budget(
        &mut [BudgetedResult::new("Read", &mut settled, ResultLimit::Unlimited).pages(true)],
        200,
        &OffloadStore::temporary(),
    );
    let preview = preview_of(&settled);
    assert!(output_chars(&settled.output) <= 200);
    assert!(preview.ends_with("x\n[cut: 20,000 characters; call Read again for the rest]"), "{preview}");
}

#[test]
fn ten_thousand_results_fit() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let store = OffloadStore::at(file.path()); // No ten thousand files.
    let outputs: Vec<_> =
        (0..10_000).map(|n| (text_output(&"x".repeat(200 + n % 900)), ResultLimit::default())).collect();
    let (after, _) = fit_all(&outputs, 2_000_000, &store);
    assert!(after.iter().map(|settled| output_chars(&settled.output)).sum::<usize>() <= 2_000_000);
}
