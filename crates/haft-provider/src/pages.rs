//! The pages of the documentation that show this crate, so that their programs are compiled.

#[doc = include_str!("../../../docs/providers.md")]
struct ProvidersPage;

#[doc = include_str!("../../../docs/scripted-model.md")]
struct ScriptedModelPage;
