//! Pages that record what was found, section by section: one can be found anew, and the others stay.

use std::collections::BTreeMap;

/// The sections of a page, by name.
pub(crate) type Sections = BTreeMap<String, String>;

/// A page with this beginning, and these sections in order.
pub(crate) fn page<'a>(
    beginning: &str,
    sections: impl IntoIterator<Item = (&'a String, &'a String)>,
) -> String {
    let mut page = beginning.to_owned();
    for (name, text) in sections {
        page.push_str(&format!("\n## `{name}`\n\n{text}"));
    }
    page
}

/// The sections of an earlier page.
pub(crate) fn of(page: &str) -> Sections {
    let sections = page.split("\n## `").skip(1);
    let named = sections.filter_map(|section| section.split_once("`\n\n"));
    named.map(|(name, text)| (name.to_string(), format!("{}\n", text.trim_end()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_can_be_read_back() {
        let mut all = Sections::new();
        all.insert("haft/it::a::prove_x".to_string(), "passed\n\n- 10 calls\n".to_owned());
        all.insert("haft/lib::prove_y".to_string(), "| a | b |\n".to_owned());
        let page = page("# Words\n\nMore.\n", &all);
        assert!(page.starts_with("# Words\n\nMore.\n\n## `haft/it::a::prove_x`\n\npassed\n"));
        assert_eq!(of(&page), all);
        assert_eq!(of(""), Sections::new());
    }
}
