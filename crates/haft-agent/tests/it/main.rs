//! The agent loop with a message format that no vendor has: the loop works with any, and looks into none.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod format;
mod loops;
