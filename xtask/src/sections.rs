//! Pages that record what was found, section by section: one can be found anew, and the others stay.

use std::collections::BTreeMap;

/// The sections of a page, by name.
pub(crate) type Sections = BTreeMap<String, String>;

/// A page with this beginning, and these sections.
pub(crate) fn page(beginning: &str, sections: &Sections) -> String {
    let section = |(name, text): (&String, &String)| format!("\n## `{name}`\n\n{text}");
    beginning.to_owned() + &sections.iter().map(section).collect::<String>()
}

/// The sections of an earlier page.
pub(crate) fn read(page: &str) -> Sections {
    let sections = page.split("\n## `").skip(1);
    let named = sections.filter_map(|section| section.split_once("`\n\n"));
    named.map(|(name, text)| (name.to_string(), format!("{}\n", text.trim_end()))).collect()
}
