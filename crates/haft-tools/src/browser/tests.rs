//! The tools with a real Chromium.
