//! What holds for every built-in tool.

use std::sync::Arc;

use haft::call_log::CallLog;
use haft::{Engine, Registry};
use haft_tools::config::Setting;
use haft_tools::cron::{CronTable, TimeZone};
use haft_tools::{BuiltIns, SessionArguments, core};

#[test]
fn the_list_is_sorted_and_registers() {
    let names: Vec<String> = core().iter().map(|tool| tool.name().to_owned()).collect();
    assert!(names.is_sorted(), "{names:?}");
    let registry = haft::Registry::new().with(core()).unwrap();
    assert_eq!(registry.len(), names.len());
}

#[test]
fn every_tool_has_a_name_in_snake_case_too() {
    let is_snake = |name: &str| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    for tool in core() {
        assert!(tool.aliases().iter().any(|alias| is_snake(alias)), "{}", tool.name());
    }
}

#[test]
fn every_tool_says_its_group_feature_and_limit() {
    for tool in core() {
        assert_ne!(tool.group(), "other", "{}", tool.name());
        assert!(tool.description().len() > 80, "{}: too short for a model", tool.name());
    }
}

/// What an engine with these tools doesn't offer for lack of an argument, with the reason.
fn missing(registry: &Registry) -> Vec<String> {
    let names = ["Config", "CronCreate", "CronDelete", "CronList", "VerifyPlan", "WebSearch"];
    let snapshot = Engine::new(registry.clone()).snapshot();
    let withheld = snapshot.withheld().filter(|(entry, _)| names.contains(&entry.tool().name()));
    withheld.map(|(entry, why)| format!("{}: {why}", entry.tool().name())).collect()
}

#[test]
fn a_tool_whose_argument_is_missing_is_listed_with_the_reason() {
    let built_ins = BuiltIns::new();
    let session_tools = built_ins.session_tools();
    let shared = Registry::new().with(built_ins.tools()).unwrap();
    let no_search = "WebSearch: no search is configured; `web.search` in your settings names one";
    assert_eq!(
        missing(&shared),
        [
            "Config: this session shows no settings",
            "CronCreate: this session schedules no prompts",
            "CronDelete: this session schedules no prompts",
            "CronList: this session schedules no prompts",
            "VerifyPlan: this session keeps no record of its calls",
            no_search,
        ]
    );
    let arguments = SessionArguments {
        calls: Some(CallLog::new()),
        crons: Some(Arc::new(CronTable::new(TimeZone::UTC))),
        settings: Some(Arc::new(Vec::<Setting>::new)),
        ..SessionArguments::default()
    };
    let own = Registry::new().with(session_tools.with(arguments).tools()).unwrap();
    let registry = shared.replace_tools(&own);
    assert_eq!(missing(&registry), [no_search]);
    let names = |registry: &Registry| -> Vec<String> {
        registry.entries().map(|entry| entry.tool().name().to_owned()).collect()
    };
    assert_eq!(names(&registry), names(&shared), "the same tools in the same order");
}
