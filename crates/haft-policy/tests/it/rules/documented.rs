//! Compares the tables of `docs/permissions.md` with the behavior of the rules.

use super::{decide, set, word};

const PAGE: &str = include_str!("../../../../../docs/permissions.md");

/// Returns the rows: the list, the rule, matching calls, other calls. `/shop/web` on the page is `/p/w`
/// here.
fn rows() -> Vec<(&'static str, &'static str, Vec<String>, Vec<String>)> {
    let mut list = None;
    let mut rows = Vec::new();
    for line in PAGE.lines() {
        let cells: Vec<&str> = line.split(" | ").map(|cell| cell.trim_matches(['|', ' '])).collect();
        match &*cells {
            ["in `deny`", "stops", "leaves alone"] => list = Some("deny"),
            ["in `allow`", "covers", "does not cover"] => list = Some("allow"),
            [rule, about, not_about] if list.is_some() && line.starts_with("| `") => {
                let calls = |cell: &str| {
                    let here = |call: &str| call.replace("/shop/web", "/p/w").replace("/shop", "/p");
                    cell.split('`').skip(1).step_by(2).map(here).collect()
                };
                rows.push((list.unwrap(), rule.trim_matches('`'), calls(about), calls(not_about)));
            }
            _ if line.starts_with("|---") => {}
            _ => list = None,
        }
    }
    rows
}

#[test]
fn the_tables_say_what_the_rules_do() {
    let rows = rows();
    assert!(rows.len() > 25, "only {} rows were found", rows.len());
    for (list, rule, about, not_about) in rows {
        let set = set(&[&format!("{list} {}", rule.replace("(/web", "(/w"))]);
        for (calls, expected) in [(about, list), (not_about, "silent")] {
            for call in calls {
                assert_eq!(word(decide(&set, &call).verdict), expected, "`{rule}` in `{list}`, {call}");
            }
        }
    }
}
