//! Names below `/dev` that are not files: reading them reads no file, and data written to them is not
//! stored.

use std::path::Path;

/// Devices that store nothing.
const DEVICES: &[&str] = &["full", "null", "random", "stderr", "stdin", "stdout", "tty", "urandom", "zero"];

/// Returns whether a path names a stream of the program itself, or a device that stores nothing.
pub(super) fn is_stream(text: &str) -> bool {
    let descriptor = |rest: &str| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit());
    let is_device = |name: &str| DEVICES.contains(&name) || name.strip_prefix("fd/").is_some_and(descriptor);
    text.strip_prefix("/dev/").is_some_and(is_device)
}

/// Returns the descriptor that a path stands for, by each of its names.
pub(super) fn parse_descriptor(text: &str) -> Option<u32> {
    let path = super::normalize_path(Path::new(text));
    let path = path.to_str().filter(|_| text.starts_with('/'))?;
    match path {
        "/dev/stdin" => return Some(0),
        "/dev/stdout" => return Some(1),
        "/dev/stderr" => return Some(2),
        _ => {}
    }
    let of_process = || {
        let (process, number) = path.strip_prefix("/proc/")?.split_once("/fd/")?;
        let own = matches!(process, "self" | "thread-self") || process.bytes().all(|b| b.is_ascii_digit());
        own.then_some(number)
    };
    path.strip_prefix("/dev/fd/").or_else(of_process)?.parse().ok()
}

/// Returns the same for a path, including one where a copy would create an entry below it (`cp x
/// /dev/null`).
pub(super) fn is_stream_path(path: &Path) -> bool {
    let named = |path: &Path| path.to_str().is_some_and(is_stream);
    named(path) || path.parent().is_some_and(named)
}

/// Returns whether the target of `>&` is a descriptor.
pub(super) fn is_descriptor(text: &str) -> bool {
    let digits = text.strip_suffix('-').unwrap_or(text);
    text == "-" || (!digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_and_what_only_looks_like_one() {
        for text in ["/dev/null", "/dev/fd/3", "/dev/urandom", "/dev/tty"] {
            assert!(is_stream(text), "{text}");
        }
        for text in
            ["/dev/sda", "/dev/fd/../../etc/passwd", "/dev/fd/", "/dev/nullx", "/dev/tcp/x.io/80", "dev/null"]
        {
            assert!(!is_stream(text), "{text}");
        }
    }
}
