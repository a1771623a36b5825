//! The port to permissions that end with a turn.

/// Lets calls run unasked for as long as the model works on the user's last words.
///
/// Called by tools that the user trusts with a list of their own, as a skill with `allowed-tools`. What denies and what asks
/// goes on to do so: a grant is an allow rule that is taken away again.
pub trait Grants: Send + Sync + 'static {
    /// Adds allow rules until the user speaks again. Either all of them count or none.
    ///
    /// # Errors
    /// In words: a rule that can't be understood, or one that may not be made here.
    fn allow_for_turn(&self, rules: &[String]) -> Result<(), String>;
}
