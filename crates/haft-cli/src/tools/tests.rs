//! The list, on tools made for it, and the committed schemas of every JSON output.

use std::path::Path;

use haft::{Effects, Engine, NoInput, PermissionRules, Registry, tool};
use schemars::JsonSchema;

use super::*;

fn snapshot() -> Snapshot {
    let simple = |name: &str, group: &'static str, class: ListedClass| {
        tool(name, "Does something.", |_: NoInput, _| async { Ok(()) })
            .effects(|_| Effects::none())
            .group(group)
            .spec(|spec| spec.listed_class(class))
    };
    let registry = Registry::new()
        .with(simple("Write", "files", ConcurrencyClass::WriteExclusive.into()))
        .and_then(|all| {
            all.with(simple("Read", "files", ConcurrencyClass::ReadOnly.into()).alias("read_file"))
        })
        .and_then(|all| {
            all.with(simple("Bash", "shell", ListedClass::Depends).result_limit(haft::Chars(30_000)))
        })
        .and_then(|all| all.with(simple("Agent", "agents", ConcurrencyClass::Delegating.into())))
        .and_then(|all| all.with(simple("Secret", "other", ListedClass::default())))
        .unwrap();
    Engine::builder(registry).permissions(PermissionRules::new().deny("Secret").unwrap()).build().snapshot()
}

#[test]
fn groups_are_rows_and_markers_say_what_runs_beside_what() {
    let mut rows = tool_rows(&snapshot());
    assert_eq!(
        render_table(&rows, false, &ServerFacts::new()),
        "agents     Agent ≡\n\
         files      Read ≡  Write !\n\
         shell      Bash ?\n\
         not now    Secret: denied by rule `Secret` (Permissions::deny)\n\
         ≡ side by side   ! alone   ? depends on the call          5 tools, 4 shown to the model, 1 not now\n"
    );
    rows[1].deferred = true;
    rows.retain(|row| row.offered);
    assert_eq!(count_tools(&rows), "4 tools, 3 shown to the model, 1 by ToolSearch");
    assert!(render_table(&[], false, &ServerFacts::new()).ends_with("0 tools, 0 shown to the model\n"));
}

#[test]
fn rows_are_sorted_by_the_bytes_of_names_and_say_all() {
    let rows = tool_rows(&snapshot());
    let json = serde_json::to_value(&rows).unwrap();
    let column = |key: &str| -> Vec<serde_json::Value> {
        json.as_array().unwrap().iter().map(|row| row[key].clone()).collect()
    };
    assert_eq!(column("name"), ["Agent", "Bash", "Read", "Secret", "Write"]);
    assert_eq!(column("class"), ["DELEGATING", "DEPENDS", "READ_ONLY", "UNSAFE", "WRITE_EXCLUSIVE"]);
    assert_eq!(column("max_result_chars"), [100_000, 30_000, 100_000, 100_000, 100_000]);
    assert_eq!(column("offered"), [true, true, true, false, true]);
    assert_eq!(json[2]["aliases"], serde_json::json!(["read_file"]));
    assert_eq!(json[3]["withheld"], "denied by rule `Secret` (Permissions::deny)");
}

#[test]
fn all_are_those_too_that_only_a_session_with_servers_has() {
    let rows = all_tool_rows(&snapshot());
    let names: Vec<&str> = rows.iter().map(|row| &*row.name).collect();
    assert!(names.is_sorted(), "{names:?}");
    let why = |name: &str| rows.iter().find(|row| row.name == name).and_then(|row| row.withheld.as_deref());
    for name in ["ListMcpResources", "ReadMcpResource", "ListMcpPrompts", "GetMcpPrompt", "WaitForMcpServers"]
    {
        assert_eq!(why(name), Some(NO_SERVER), "{name}");
    }
    assert_eq!(why("ToolSearch"), Some(NO_SEARCH));

    // One that the session has is there once.
    let with_search = Registry::new().with(ToolSearch).unwrap();
    let rows = all_tool_rows(&Engine::new(with_search).snapshot());
    let found: Vec<&ToolRow> = rows.iter().filter(|row| row.name == "ToolSearch").collect();
    assert!(found.len() == 1 && found[0].offered, "{found:?}");
}

#[test]
fn a_tool_whose_argument_is_missing_is_listed_with_the_reason() {
    let search = tool("Lookup", "Looks something up.", |_: NoInput, _| async { Ok(()) })
        .unavailable_reason(|| Some("no search is configured".to_owned()));
    let rows = all_tool_rows(&Engine::new(Registry::new().with(search).unwrap()).snapshot());
    let row = rows.iter().find(|row| row.name == "Lookup").unwrap();
    assert_eq!((row.offered, row.withheld.as_deref()), (false, Some("no search is configured")));
    let text = render_table(&rows, true, &ServerFacts::new());
    assert!(text.contains("not now    Lookup: no search is configured\n"), "{text}");
}

/// Compares a committed schema with its type; `UPDATE_SCHEMAS=1 cargo test -p haft-cli` writes it.
fn check_schema<T: JsonSchema>(name: &str, title: &str) {
    let settings = schemars::generate::SchemaSettings::draft2020_12().for_serialize();
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    schema["title"] = title.into();
    let expected = format!("{schema:#}\n");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas").join(name);
    if std::env::var_os("UPDATE_SCHEMAS").is_some() {
        std::fs::write(&path, &expected).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(committed, expected, "schemas/{name} is not current; write it with UPDATE_SCHEMAS=1");
}

#[test]
fn committed_schemas_are_current() {
    check_schema::<haft::result::ResultJson>("call.schema.json", "What `haft call --output json` prints");
    check_schema::<haft_session::DecisionReport>(
        "check.schema.json",
        "What `haft check --output json` prints",
    );
    check_schema::<crate::settings::SettingsReport>(
        "settings-show.schema.json",
        "What `haft settings show --output json` prints",
    );
    check_schema::<crate::doctor::DoctorReport>(
        "doctor.schema.json",
        "What `haft doctor --output json` prints",
    );
    check_schema::<crate::trust::TrustReport>("trust.schema.json", "What `haft trust --output json` prints");
    check_schema::<Vec<crate::mcp::list::ServerRow>>(
        "mcp-list.schema.json",
        "What `haft mcp list --output json` prints",
    );
    check_schema::<crate::mcp::list::ServerDetails>(
        "mcp-get.schema.json",
        "What `haft mcp get --output json` prints",
    );
    check_schema::<crate::replay::report::ReplayReport>(
        "replay.schema.json",
        "What `haft replay --output json` prints",
    );
    check_schema::<crate::sessions::stats::SessionStats>(
        "stats.schema.json",
        "What `haft stats --output json` prints",
    );
    check_schema::<Vec<ToolRow>>("tools.schema.json", "What `haft tools --format json` prints");
}
