//! The names closest to one that doesn't exist.

use crate::limits;
use crate::spelling::edit_distance;

/// The closest names, in words: `` `read_file` (alias of Read) ``. Nearest first, at most three.
pub(crate) fn closest_names<'a>(
    wanted: &str,
    names: impl Iterator<Item = (&'a str, Option<&'a str>)>,
) -> Vec<String> {
    let plain = |name: &str| -> Vec<char> {
        name.chars()
            .filter(|c| c.is_alphanumeric())
            .flat_map(char::to_lowercase)
            .take(limits::NAME_CHARS_MAX)
            .collect()
    };
    let target = plain(wanted);
    let mut near: Vec<(usize, &str, Option<&str>)> = names
        .map(|(name, alias_of)| {
            let candidate = plain(name);
            let contained = candidate.len() > 3 && target.len() > 3 && {
                let (a, b): (String, String) = (candidate.iter().collect(), target.iter().collect());
                a.contains(&b) || b.contains(&a)
            };
            let distance = edit_distance(&target, &candidate);
            (if contained { distance.min(2) } else { distance }, name, alias_of)
        })
        .filter(|(distance, name, _)| *distance <= (target.len().max(name.len()) / 3).max(2))
        .collect();
    near.sort_unstable();
    near.truncate(limits::CLOSEST_MAX);
    near.into_iter()
        .map(|(_, name, alias_of)| match alias_of {
            Some(owner) => format!("`{name}` (alias of {owner})"),
            None => format!("`{name}`"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_found_and_far_ones_are_not() {
        let names = [("Read", None), ("Write", None), ("Grep", None), ("read_file", Some("Read"))];
        let check = |wanted: &str, expected: &[&str]| {
            assert_eq!(closest_names(wanted, names.into_iter()), expected, "{wanted}")
        };
        check("read_fil", &["`read_file` (alias of Read)", "`Read`"]);
        check("readFile", &["`read_file` (alias of Read)", "`Read`"]);
        check("Raed", &["`Read`"]);
        check("gerp", &["`Grep`"]);
        check("database_query", &[]);
        check("", &[]);
    }
}
