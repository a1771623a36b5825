//! The command line from outside: what it prints, where, and with which exit code.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "helpers of tests fail and speak as tests do"
)]

mod agents;
mod attack;
mod browser;
mod check;
mod clock;
mod commands;
mod disk;
mod dispatch;
mod edits;
mod examples;
mod exhaustion;
mod flood;
mod hooks;
mod interrupt;
mod json;
mod kept;
mod kept_agents;
mod kept_kills;
mod kept_left;
mod kept_wires;
mod mcp;
mod mcp_peers;
mod mcp_screen;
mod mcp_sign_in;
#[cfg(feature = "otel")]
mod otel;
mod pages;
mod python;
mod registries;
mod replay;
mod room;
mod run;
mod run_http;
mod run_planning;
mod run_screen;
mod run_session;
mod run_tour;
mod sandbox;
mod scripts;
mod serve;
mod serve_behind;
mod serve_peers;
mod settings;
mod soak;
#[expect(dead_code, reason = "another crate's tests use the rest")]
#[path = "../../../haft-terminal/tests/it/stage.rs"]
mod stage;
mod stuck;
mod temp;
mod terminal;
mod tool_effects;
mod tool_example;
mod tool_pages;
mod trust;
mod web;
mod worktrees;
