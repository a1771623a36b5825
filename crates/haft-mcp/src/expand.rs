//! `${NAME}` and `${NAME:-default}` in the configuration of a server.

/// A text with its variables put in. What isn't set and has no default stays as it was written, and is named.
///
/// ```
/// use haft_mcp::expand::expand_variables;
///
/// let lookup = |name: &str| (name == "HOME").then(|| "/home/me".to_owned());
/// assert_eq!(expand_variables("${HOME}/x ${A:-b} ${C}", &lookup), ("/home/me/x b ${C}".to_owned(), vec!["C".to_owned()]));
/// ```
pub fn expand_variables(text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> (String, Vec<String>) {
    let (mut done, mut unset) = (String::with_capacity(text.len()), Vec::new());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        done.push_str(&rest[..at]);
        rest = &rest[at..];
        let Some(end) = rest.find('}') else { break };
        let inside = &rest[2..end];
        let (name, default) = inside.split_once(":-").map_or((inside, None), |(name, or)| (name, Some(or)));
        match lookup(name).filter(|_| is_name(name)).or_else(|| default.map(str::to_owned)) {
            Some(value) => done.push_str(&value),
            None => {
                done.push_str(&rest[..=end]);
                unset.push(name.to_owned());
            }
        }
        rest = &rest[end + 1..];
    }
    done.push_str(rest);
    (done, unset)
}

fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit()) && name.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_never_expanded_again_and_odd_forms_stay() {
        let lookup = |name: &str| match name {
            "A" => Some("${B}".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        let check = |text: &str, done: &str| assert_eq!(expand_variables(text, &lookup).0, done, "{text}");
        check("${A}", "${B}");
        check("${EMPTY:-x}", "");
        check("${NO:-}", "");
        check("${NO:-a:-b}", "a:-b");
        check("${", "${");
        check("${}", "${}");
        check("$A $$ ${A", "$A $$ ${A");
        check("x${A}${NO:-y}z", "x${B}yz");
        assert_eq!(expand_variables("${NO}${1:-}", &lookup).1, ["NO"]);
    }
}
