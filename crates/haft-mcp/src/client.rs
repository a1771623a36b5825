//! The client: from a configuration to tools that can be called.
//!
//! | file | knows |
//! |---|---|
//! | `servers.rs` | all servers of a session, and the registry with their tools |
//! | `server.rs` | one server: its life, its lists, its calls |
//! | `breaker.rs` | when a server that fails is left alone |
//! | `definition.rs`, `tool.rs` | a tool as its server defines it, and as the engine takes it |
//! | `session.rs` | one connection, in JSON; the only file beside the transports that knows the SDK |
//! | `server_requests.rs`, `form.rs`, `pages.rs` | what a server may ask of us |
//! | `tools.rs`, `tools/` | tools for resources and prompts, and one that waits for servers that are still connecting |
//! | `catalogue.rs`, `watched_resources.rs` | resources and prompts of all servers; which resources that were read have changed |
//! | `passthrough.rs` | resources and prompts as they came, for who passes them on |

pub(crate) mod breaker;
pub(crate) mod catalogue;
pub(crate) mod definition;
pub(crate) mod form;
pub(crate) mod pages;
pub(crate) mod passthrough;
pub(crate) mod server;
pub(crate) mod server_requests;
pub(crate) mod server_task;
pub(crate) mod servers;
pub(crate) mod session;
pub(crate) mod tool;
pub(crate) mod tools;
pub(crate) mod watched_resources;
