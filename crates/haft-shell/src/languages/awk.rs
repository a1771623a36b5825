//! Programs of awk. Because awk is so common, pipes and redirections are distinguished from patterns.

use super::{TextFindings, quoted_commands};

/// What a program does besides printing.
pub(crate) struct AwkFindings {
    pub(crate) told: TextFindings,
    pub(crate) writes: bool,
}

/// Parses a program.
pub(crate) fn read_awk(text: &str) -> AwkFindings {
    let signs = find_signs(text);
    if ["system", "getline", "@"].iter().any(|word| text.contains(word)) || signs.pipes {
        let told = TextFindings { commands: quoted_commands(text), unknown: true, exact: false };
        return AwkFindings { told, writes: false };
    }
    AwkFindings { told: TextFindings::default(), writes: signs.writes }
}

/// The output operators of a program, outside of its strings and patterns.
struct OutputSigns {
    pipes: bool,
    writes: bool,
}

fn find_signs(text: &str) -> OutputSigns {
    let mut signs = OutputSigns { pipes: false, writes: false };
    // The last character that isn't a space: after a value a slash divides, otherwise it opens a pattern.
    let mut last = '{';
    let mut printing = false;
    let mut unsure = false;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => {
                while let Some((_, inside)) = chars.next() {
                    match inside {
                        '\\' => {
                            chars.next();
                        }
                        '"' => break,
                        _ => {}
                    }
                }
            }
            '/' if !(last.is_alphanumeric() || matches!(last, '_' | ')' | ']' | '$' | '"')) => {
                let mut bracket = false;
                while let Some((_, inside)) = chars.next() {
                    match inside {
                        '\\' => {
                            chars.next();
                        }
                        '[' => bracket = true,
                        ']' => bracket = false,
                        // Versions of awk differ on a slash in brackets.
                        '/' if bracket => unsure = true,
                        '/' => break,
                        _ => {}
                    }
                }
            }
            '/' if last == ')' => unsure = true,
            '|' if chars.peek().is_some_and(|(_, next)| *next == '|') => {
                chars.next();
            }
            '|' => signs.pipes = true,
            '>' if printing => signs.writes = true,
            ';' | '}' | '\n' => printing = false,
            'p' if text[at..].starts_with("print") => printing = true,
            _ => {}
        }
        if !c.is_whitespace() {
            last = c;
        }
    }
    signs.pipes |= unsure && text.replace("||", "").contains('|');
    signs.writes |= unsure && text.contains('>');
    signs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_output_from_patterns() {
        for text in [
            "/a|b/ {print}",
            "{print $1}",
            "{print $1/2}",
            "$1 > 3",
            "a || b",
            "{print \"|>\"}",
            "/[|]/",
            "NR>1{print}",
        ] {
            let found = find_signs(text);
            assert!(!found.pipes && !found.writes, "{text}");
        }
        assert!(find_signs("{print | \"sh\"}").pipes && find_signs("{print |& \"sh\"}").pipes);
        assert!(find_signs("{print > \"f\"}").writes && find_signs("{printf \"x\" >> \"f\"}").writes);
        assert!(find_signs("{a = b / c; print | d / e}").pipes);
    }
}
