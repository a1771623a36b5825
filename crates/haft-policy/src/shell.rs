//! What a shell command would do, found by parsing it.
