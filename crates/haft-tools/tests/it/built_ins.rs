//! What holds for every built-in tool.

use haft_tools::core;

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
