//! Names of servers' tools as every provider takes them: `mcp__server__tool`.
//!
//! A name depends on its own server and tool and on nothing else, so it stays the same whoever comes and
//! goes. What no provider takes is replaced, what is too long is cut, and then, or where another server and
//! tool could have the same name, a hash of both is added. A name that only looks as if it had a hash gets
//! one as well, so that nobody can call a tool what another one is offered as. Nobody takes a name apart
//! again: each tool knows where it belongs.

use haft::limits::NAME_CHARS_MAX;
use sha2::{Digest, Sha256};

const HASH_CHARS: usize = 8;

/// The name under which a server's tool is offered.
///
/// ```
/// use haft_mcp::names::wire_name;
///
/// assert_eq!(wire_name("github", "create_issue"), "mcp__github__create_issue");
/// assert!(wire_name("files", "read.text").starts_with("mcp__files__read_text_"));
/// ```
pub fn wire_name(server: &str, tool: &str) -> String {
    let plain = format!("mcp__{server}__{tool}");
    let legal: String = plain.chars().map(|c| if is_legal(c) { c } else { '_' }).collect();
    // The first `__` ends the server's name, if the name itself has none and doesn't end with half of one.
    let ambiguous =
        server.is_empty() || server.contains("__") || server.starts_with('_') || server.ends_with('_');
    if legal == plain
        && legal.len() <= NAME_CHARS_MAX
        && !ambiguous
        && !tool.is_empty()
        && !ends_like_hash(&legal)
    {
        return legal;
    }
    let mut hash = Sha256::new();
    hash.update((server.len() as u64).to_le_bytes());
    hash.update(server);
    hash.update(tool);
    let digest: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    let room = NAME_CHARS_MAX - HASH_CHARS - 1;
    format!("{}_{}", &legal[..legal.len().min(room)], &digest[..HASH_CHARS])
}

/// Whether a name could be one that was made with a hash.
fn ends_like_hash(name: &str) -> bool {
    let hex = |c: char| matches!(c, '0'..='9' | 'a'..='f');
    name.rsplit_once('_').is_some_and(|(_, tail)| tail.len() == HASH_CHARS && tail.chars().all(hex))
}

fn is_legal(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '-')
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn every_name_is_legal_and_no_two_pairs_share_one() {
        let servers = ["a", "a_", "_a", "a__b", "a-b", "x", &"s".repeat(64), "a__"];
        let long = "t".repeat(200);
        let tools = ["b", "_b", "b__c", "__b", "c", "", "a.b", "a b", "a/b", "ä", "🦀", &long, "b_"];
        let mut seen: HashMap<String, (&str, &str)> = HashMap::new();
        for server in servers {
            for tool in tools {
                let name = wire_name(server, tool);
                assert!(name.len() <= NAME_CHARS_MAX && name.chars().all(is_legal), "{name}");
                assert!(name.starts_with("mcp__"), "{name}");
                assert_eq!(name, wire_name(server, tool));
                if let Some(other) = seen.insert(name.clone(), (server, tool)) {
                    panic!("{name} is both {other:?} and {:?}", (server, tool));
                }
            }
        }
    }

    #[test]
    fn no_tool_can_be_called_what_another_is_offered_as() {
        for (server, tool, thief) in [("s", "a.b", "s"), ("a__b", "c", "a"), ("s", &"x".repeat(80), "s")] {
            let made = wire_name(server, tool);
            let literal = made.strip_prefix(&format!("mcp__{thief}__")).unwrap();
            assert_ne!(wire_name(thief, literal), made, "{thief} {literal}");
        }
        assert_eq!(wire_name("s", "of_deadbee"), "mcp__s__of_deadbee");
    }

    #[test]
    fn ordinary_names_stay_readable() {
        assert_eq!(wire_name("a", "_b"), "mcp__a___b");
        assert_eq!(wire_name("claude-code", "Read_file"), "mcp__claude-code__Read_file");
        assert_eq!(wire_name("a", &"x".repeat(56)).len(), 64);
        assert_ne!(wire_name("a", &"x".repeat(57)), wire_name("a", &"x".repeat(58)));
    }
}
