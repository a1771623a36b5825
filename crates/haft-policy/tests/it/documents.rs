//! The loader accepts the examples of docs/settings.md.

use haft_policy::settings::EVENTS;

use crate::room::Room;

fn page() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/settings.md");
    std::fs::read_to_string(path).unwrap()
}

fn examples(page: &str, language: &str) -> Vec<String> {
    let parts = page.split("```").skip(1).step_by(2);
    parts.filter_map(|part| part.strip_prefix(language)?.strip_prefix('\n')).map(str::to_owned).collect()
}

#[test]
fn examples_load_without_a_warning() {
    let examples = examples(&page(), "jsonc");
    assert!(examples.len() >= 4, "{}", examples.len());
    for example in examples {
        let file = if example.contains("mcpServers") { "work/.mcp.json" } else { "config/settings.json" };
        let loaded = Room::new().with(file, &example).load();
        assert!(loaded.settings.warnings.is_empty(), "{example}\n{:?}", loaded.settings.warnings);
    }
}

#[test]
fn every_event_that_fires_is_on_the_page() {
    let page = page();
    let events: Vec<_> = EVENTS.iter().filter(|(event, fires)| *fires && !page.contains(event)).collect();
    assert!(events.is_empty(), "docs/settings.md doesn't name {events:?}");
}
