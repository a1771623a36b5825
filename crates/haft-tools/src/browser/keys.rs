//! Keys by their names, as pages see them pressed: `Enter`, `Control+A`, `ArrowDown`, `ü`.

use serde_json::{Value, json};

/// A key, and what is held down with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeyPress {
    held: u64,
    key: String,
    code: String,
    number: u32,
    text: Option<String>,
}

const HELD: [(&str, u64); 8] = [
    ("alt", 1),
    ("option", 1),
    ("control", 2),
    ("ctrl", 2),
    ("meta", 4),
    ("cmd", 4),
    ("command", 4),
    ("shift", 8),
];

/// Name, other names, number, and what it types.
const KEYS: &[(&str, &[&str], u32, &str)] = &[
    ("Enter", &["return"], 13, "\r"),
    ("Tab", &[], 9, ""),
    ("Escape", &["esc"], 27, ""),
    ("Backspace", &[], 8, ""),
    ("Delete", &["del"], 46, ""),
    ("Insert", &[], 45, ""),
    ("Home", &[], 36, ""),
    ("End", &[], 35, ""),
    ("PageUp", &["pgup"], 33, ""),
    ("PageDown", &["pgdn"], 34, ""),
    ("ArrowLeft", &["left"], 37, ""),
    ("ArrowUp", &["up"], 38, ""),
    ("ArrowRight", &["right"], 39, ""),
    ("ArrowDown", &["down"], 40, ""),
    ("Space", &[" "], 32, " "),
];

impl KeyPress {
    /// Reads a key with what is held: `Shift+Tab`.
    ///
    /// # Errors
    /// What is accepted, in words.
    pub(super) fn parse(text: &str) -> Result<KeyPress, String> {
        // A `+` at the end is the key itself.
        let (before, key) = match text.strip_suffix('+') {
            Some("") => ("", "+"),
            Some(before) => (before.strip_suffix('+').unwrap_or(before), "+"),
            None => text.rsplit_once('+').unwrap_or(("", text)),
        };
        let mut held = 0;
        for name in before.split('+').filter(|name| !name.is_empty()) {
            let found = HELD.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
            let (_, bit) = found.ok_or_else(|| {
                format!("`{name}` is no key that is held; `Control`, `Shift`, `Alt` and `Meta` are")
            })?;
            held |= bit;
        }
        let same = |name: &str| name.eq_ignore_ascii_case(key);
        if let Some((name, _, number, types)) =
            KEYS.iter().find(|(name, others, ..)| same(name) || others.iter().any(|other| same(other)))
        {
            let (key, code) = if *name == "Space" { (" ", *name) } else { (*name, *name) };
            let text = (!types.is_empty() && held & !8 == 0).then(|| (*types).to_owned());
            return Ok(KeyPress { held, key: key.into(), code: code.into(), number: *number, text });
        }
        if let Some(number) = key.strip_prefix(['F', 'f']).and_then(|number| number.parse::<u32>().ok())
            && (1..=12).contains(&number)
        {
            let name = format!("F{number}");
            return Ok(KeyPress { held, code: name.clone(), key: name, number: 111 + number, text: None });
        }
        let mut chars = key.chars();
        match (chars.next(), chars.next()) {
            (Some(sign), None) if !sign.is_control() => Ok(KeyPress::typing(sign, held)),
            _ => Err(format!(
                "`{key}` is no key; one character is accepted, F1 to F12, and {}",
                KEYS.iter().map(|(name, ..)| *name).collect::<Vec<_>>().join(", ")
            )),
        }
    }

    fn typing(sign: char, held: u64) -> KeyPress {
        let sign = if held & 8 != 0 { sign.to_ascii_uppercase() } else { sign };
        let upper = sign.to_ascii_uppercase();
        let code = match upper {
            'A'..='Z' => format!("Key{upper}"),
            '0'..='9' => format!("Digit{upper}"),
            _ => String::new(),
        };
        let number = if upper.is_ascii_alphanumeric() { u32::from(upper) } else { 0 };
        let text = (held & !8 == 0).then(|| sign.to_string());
        KeyPress { held, key: sign.to_string(), code, number, text }
    }

    /// Down and up again, as the browser is told it.
    pub(super) fn events(&self) -> [Value; 2] {
        let event = |kind: &str| {
            json!({"type": kind, "modifiers": self.held, "key": self.key, "code": self.code,
                   "windowsVirtualKeyCode": self.number})
        };
        let mut down = event(if self.text.is_some() { "keyDown" } else { "rawKeyDown" });
        if let Some(text) = &self.text {
            (down["text"], down["unmodifiedText"]) = (json!(text), json!(text));
        }
        // What an editor does for these keys isn't the page's doing, so it has to be said.
        if self.held & 6 != 0 {
            let does = match &*self.key.to_ascii_lowercase() {
                "a" => Some("selectAll"),
                "c" => Some("copy"),
                "v" => Some("paste"),
                "x" => Some("cut"),
                "z" => Some("undo"),
                _ => None,
            };
            down["commands"] = does.into_iter().collect();
        }
        [down, event("keyUp")]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_known_by_name_by_sign_and_with_what_is_held() {
        let check = |text: &str, held: u64, key: &str, code: &str, types: Option<&str>| {
            let press = KeyPress::parse(text).unwrap();
            let found = (press.held, &*press.key, &*press.code, press.text.as_deref());
            assert_eq!(found, (held, key, code, types), "{text}");
        };
        check("Enter", 0, "Enter", "Enter", Some("\r"));
        check("return", 0, "Enter", "Enter", Some("\r"));
        check("a", 0, "a", "KeyA", Some("a"));
        check("ü", 0, "ü", "", Some("ü"));
        check("Control+a", 2, "a", "KeyA", None);
        check("ctrl+shift+Tab", 10, "Tab", "Tab", None);
        check("Shift+a", 8, "A", "KeyA", Some("A"));
        check("+", 0, "+", "", Some("+"));
        check("Control++", 2, "+", "", None);
        check("F5", 0, "F5", "F5", None);
        check("Space", 0, " ", "Space", Some(" "));
        for bad in ["", "Hyper+a", "F13", "Entr", "\n", "ab"] {
            assert!(KeyPress::parse(bad).is_err(), "{bad:?}");
        }
    }
}
