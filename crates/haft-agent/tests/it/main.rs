//! The agent loop with a message format of its own, which no vendor has.
