//! Submodules in an index.
//!
//! `git status` runs itself in every folder that the index lists as a submodule, and then obeys the
//! configuration in that folder. Only the index says which folders these are.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

/// The maximum number of submodules listed for one index.
const SUBMODULES_MAX: usize = 2_000;

/// The submodules in an index.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IndexSubmodules {
    /// Their folders, relative to the top of the working tree.
    pub folders: Vec<PathBuf>,
    /// The name of the shared index that this one is split from: `sharedindex.NAME`.
    pub shared: Option<String>,
}

/// Parses an index of version 2 to 4. Returns `None` for an index that git couldn't use either.
pub fn parse_submodules(index: &[u8]) -> Option<IndexSubmodules> {
    const SUBMODULE: u32 = 0o160_000;
    const EXTENDED: u16 = 0x4000;
    let number = |at: usize| Some(u32::from_be_bytes(index.get(at..at + 4)?.try_into().ok()?));
    if index.get(..4)? != b"DIRC" {
        return None;
    }
    let (version, count) = (number(4)?, number(8)?);
    // Hashes have 20 bytes, or 32 in repositories configured for that. With the wrong length parsing soon
    // fails.
    [20, 32].into_iter().find_map(|hash| {
        let mut links = Vec::new();
        let (mut at, mut name) = (12, Vec::new());
        for _ in 0..count {
            let mode = number(at + 24)?;
            let flags = u16::from_be_bytes(index.get(at + 40 + hash..at + 42 + hash)?.try_into().ok()?);
            let fixed = 42 + hash + if flags & EXTENDED != 0 { 2 } else { 0 };
            let mut begins = at + fixed;
            match version {
                4 => {
                    let (dropped, after) = varint(index, begins)?;
                    name.truncate(name.len().checked_sub(dropped)?);
                    begins = after;
                }
                2 | 3 => name.clear(),
                _ => return None,
            }
            let length = index.get(begins..)?.iter().position(|byte| *byte == 0)?;
            name.extend(&index[begins..begins + length]);
            let known = flags & 0xFFF;
            if known != 0xFFF && usize::from(known) != name.len() {
                return None;
            }
            at = match version {
                4 => begins + length + 1,
                // Padded to a multiple of 8, with at least one zero.
                _ => at + (fixed + length + 8) / 8 * 8,
            };
            let path = Path::new(OsStr::from_bytes(&name));
            let plain = path.components().all(|component| matches!(component, Component::Normal(_)));
            if mode & 0o170_000 == SUBMODULE && plain && links.len() < SUBMODULES_MAX {
                links.push(path.to_owned());
            }
        }
        Some(IndexSubmodules { folders: links, shared: split_from(index, at, hash) })
    })
}

/// Returns the name of the shared index if this index is split. The extensions begin at `at`.
fn split_from(index: &[u8], mut at: usize, hash: usize) -> Option<String> {
    loop {
        let name = index.get(at..at + 4)?;
        let length = u32::from_be_bytes(index.get(at + 4..at + 8)?.try_into().ok()?);
        if name == b"link" {
            let shared = index.get(at + 8..at + 8 + hash)?;
            return Some(shared.iter().map(|byte| format!("{byte:02x}")).collect());
        }
        at = at.checked_add(8)?.checked_add(usize::try_from(length).ok()?)?;
    }
}

/// Returns the number of bytes to drop from the previous name, and the offset of the rest.
fn varint(bytes: &[u8], mut at: usize) -> Option<(usize, usize)> {
    let mut byte = *bytes.get(at)?;
    let mut value = usize::from(byte & 0x7F);
    while byte & 0x80 != 0 {
        at += 1;
        byte = *bytes.get(at)?;
        value = value.checked_add(1)?.checked_mul(128)? | usize::from(byte & 0x7F);
    }
    Some((value, at + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes one entry with a mode and a name; everything else is zero.
    fn entry(out: &mut Vec<u8>, mode: u32, name: &str) {
        let begin = out.len();
        out.extend([0; 24]);
        out.extend(mode.to_be_bytes());
        out.extend([0; 32]);
        out.extend(u16::try_from(name.len()).unwrap().to_be_bytes());
        out.extend(name.as_bytes());
        let padded = (out.len() - begin + 8) / 8 * 8;
        out.resize(begin + padded, 0);
    }

    #[test]
    fn submodules_are_found() {
        let mut index = b"DIRC\0\0\0\x02\0\0\0\x04".to_vec();
        entry(&mut index, 0o100_644, "a");
        entry(&mut index, 0o160_000, "deep/sub");
        entry(&mut index, 0o160_000, "../out");
        entry(&mut index, 0o160_000, "sub");
        let folders = vec!["deep/sub".into(), "sub".into()];
        assert_eq!(parse_submodules(&index).unwrap(), IndexSubmodules { folders, shared: None });
        let mut split = index.clone();
        split.extend(b"TREE\0\0\0\x02xylink\0\0\0\x14");
        split.extend([0xab; 40]);
        assert_eq!(parse_submodules(&split).unwrap().shared.unwrap(), "ab".repeat(20));
        for cut in 0..index.len() {
            let _ = parse_submodules(&index[..cut]);
        }
        assert_eq!(parse_submodules(b"DIRC"), None);
    }

    #[test]
    fn names_are_put_together_from_the_last_one() {
        let mut index = b"DIRC\0\0\0\x04\0\0\0\x02".to_vec();
        for (mode, whole, dropped, rest) in [(0o100_644u32, 5u16, 0u8, "sub/a"), (0o160_000, 5, 1, "b")] {
            index.extend([0; 24]);
            index.extend(mode.to_be_bytes());
            index.extend([0; 32]);
            index.extend(whole.to_be_bytes());
            index.push(dropped);
            index.extend(rest.as_bytes());
            index.push(0);
        }
        assert_eq!(parse_submodules(&index).unwrap().folders, [Path::new("sub/b")]);
    }
}
