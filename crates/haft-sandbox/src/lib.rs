//! Child processes: the only place that starts one.
#![warn(missing_docs)]
