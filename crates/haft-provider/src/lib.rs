//! The wires of model providers: the only place that knows their JSON.
#![warn(missing_docs)]
