//! Paths as they are ordered, compared and shown. Nothing here looks at the disk.

use std::cmp::Ordering;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use haft::view::visible_line;
use haft::{Context, ToolError};

/// A path in the order of a walk: what is in a directory stands together, before what begins with its name.
#[derive(PartialEq, Eq, Clone, Debug)]
pub(crate) struct PathKey(Box<[u8]>);

impl PathKey {
    pub(crate) fn from_path(path: &Path) -> PathKey {
        PathKey(path.as_os_str().as_bytes().into())
    }

    pub(crate) fn path(&self) -> &Path {
        Path::new(std::ffi::OsStr::from_bytes(&self.0))
    }

    /// How this path stands to another, without making a key of it.
    pub(crate) fn cmp_path(&self, other: &Path) -> Ordering {
        compare_paths(&self.0, other.as_os_str().as_bytes())
    }
}

fn compare_paths(one: &[u8], other: &[u8]) -> Ordering {
    // The separator comes before everything else that a name may have.
    let order = |byte: &u8| if *byte == b'/' { 0 } else { *byte };
    one.iter().map(order).cmp(other.iter().map(order))
}

impl Ord for PathKey {
    fn cmp(&self, other: &PathKey) -> Ordering {
        compare_paths(&self.0, &other.0)
    }
}

impl PartialOrd for PathKey {
    fn partial_cmp(&self, other: &PathKey) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A path from the working directory, without `.` and `..`: what it means if no link is in it.
pub(crate) fn normalize_path(path: &Path, cx: &Context) -> PathBuf {
    let mut tidy = PathBuf::new();
    for part in cx.cwd().join(path).components() {
        match part {
            Component::ParentDir => {
                tidy.pop();
            }
            Component::CurDir => {}
            other => tidy.push(other),
        }
    }
    tidy
}

/// A path as a result has it: from the working directory where it lies there, else whole; always on one line.
pub(crate) fn display_path(path: &Path, cwd: &Path) -> String {
    let inside = path.strip_prefix(cwd).ok().filter(|rest| !rest.as_os_str().is_empty());
    visible_line(&inside.unwrap_or(path).to_string_lossy())
}

/// Says where a file lies that the session has in a folder of its own, for the user who looks for it.
pub(crate) fn describe_location(path: &Path, cx: &Context) -> Option<String> {
    let paths = cx.location().workspace().paths();
    let real = paths.resolve(cx.cwd(), path).ok()?.real;
    let is_elsewhere = paths.is_private(&real) && real != normalize_path(path, cx);
    let shown = visible_line(&real.to_string_lossy());
    is_elsewhere.then(|| format!("[on the host it is `{shown}`, until this session ends]"))
}

/// A line for the end of a result that names files whose names can't be given in a call, because JSON has
/// only text.
pub(crate) fn unnameable_note<'a>(paths: impl Iterator<Item = &'a Path>) -> Option<String> {
    let names = match paths.filter(|path| path.to_str().is_none()).count() {
        0 => return None,
        1 => "1 name is".to_owned(),
        names => format!("{names} names are"),
    };
    Some(format!("[{names} not UTF-8 and shown with �; no call can name such a file]"))
}

/// Refuses what can't be a path, before anything looks for it.
pub(crate) fn check_path(field: &str, path: &Path) -> Result<(), ToolError> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.is_empty() {
        let what =
            if field == "file_path" { "give the path of a file" } else { "give a path, or leave it out" };
        return Err(ToolError::invalid_input(format!("`{field}` is empty; {what}")));
    }
    if bytes.contains(&0) {
        return Err(ToolError::invalid_input(format!("`{field}` contains a NUL byte; no path can")));
    }
    if field == "file_path" && bytes.ends_with(b"/") {
        let words = "`file_path` ends with `/`, as that of a directory does; give the path of a file";
        return Err(ToolError::invalid_input(words));
    }
    Ok(())
}

/// What is looked for and where, as the title of a search: `*.rs in src`.
pub(crate) fn search_subject(what: &str, path: Option<&Path>) -> String {
    match path.and_then(Path::to_str) {
        Some(path) => format!("{what} in {path}"),
        None => what.to_owned(),
    }
}

/// `1 file`, `3 files`.
pub(crate) fn count_noun(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stand_in_the_order_of_a_walk() {
        let mut paths =
            ["a-b", "a/z", "a", "b", "a.rs", "a/b/c", "a/b"].map(|path| PathKey::from_path(Path::new(path)));
        paths.sort();
        let paths: Vec<_> = paths.iter().map(|key| key.path().to_str().unwrap()).collect();
        assert_eq!(paths, ["a", "a/b", "a/b/c", "a/z", "a-b", "a.rs", "b"]);
    }

    #[test]
    fn paths_are_shown_from_the_working_directory() {
        let shown = |path: &str| display_path(Path::new(path), Path::new("/w"));
        assert_eq!(shown("/w/a/b"), "a/b");
        assert_eq!(shown("/w"), "/w");
        assert_eq!(shown("/ww/a"), "/ww/a");
        assert_eq!(shown("/w/a\nb\u{1b}"), "a\\nb\\u{1b}");
    }
}
