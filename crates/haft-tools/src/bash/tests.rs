//! `Bash` and its companions, with a real bash through a real engine.
