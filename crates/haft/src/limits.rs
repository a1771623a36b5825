//! Every bound of the engine, in one place: what grows has a limit, and the limit has a name.

