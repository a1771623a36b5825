//! The choice of the model: by option, environment or the user's settings, in this order. Never by a
//! project's files.
//!
//! A workspace's settings about models were dropped earlier, with a warning. A workspace can't set
//! variables of this process either. Keys are read, passed to the client and never shown.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use haft::env::VariableLookup;
use haft_agent::{Model, TokenPrices, ToolDeferral};
use haft_policy::settings::{Provider, RunSettings};
use haft_provider::client::ProviderClient;
use haft_provider::endpoint::{ProviderEndpoint, base_url_variable, default_base_url, key_variable};
use haft_provider::limits::SCRIPT_BYTES_MAX;
use haft_provider::scripted::{ModelScript, ScriptedModel};
use haft_provider::{RequestOptions, Wire};

use super::proxy;
use crate::text::one_line;
use crate::{NoticeSink, SessionError, SessionOption, SessionOptions, loaded_settings};

/// The order in which keys choose the provider.
const ORDER: [Provider; 4] = [Provider::Anthropic, Provider::OpenAi, Provider::Gemini, Provider::OpenAiChat];

#[cfg(feature = "web")]
/// The maximum number of tokens in an answer of a small model.
const SMALL_TOKENS_MAX: u64 = 4_000;

/// What settings require of a provider in addition to the model.
#[derive(Debug, Clone, Copy, Default)]
pub struct ModelRequirements {
    /// The provider's own deferral of tools, if it is used.
    pub deferral: Option<ToolDeferral>,
    /// Whether the provider searches the web by itself.
    pub web_search: bool,
}

/// The caller's choice of a model.
#[derive(Debug, Clone, Default)]
pub struct ModelOptions {
    /// Who is asked.
    pub provider: ProviderChoice,
    /// The model. Default: that of the environment or the settings, otherwise the provider's default.
    pub model: Option<String>,
    /// The address of the provider.
    pub base_url: Option<String>,
    /// A script that replaces the model.
    pub script: Option<PathBuf>,
}

/// Who is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ProviderChoice {
    /// The script if one is given, otherwise the provider of the settings, otherwise the first one with a
    /// key.
    #[default]
    Auto,
    /// Anthropic's Messages API.
    Anthropic,
    /// OpenAI's Responses API.
    OpenAi,
    /// OpenAI's Chat Completions API, which many servers implement.
    OpenAiChat,
    /// Google's Gemini API.
    Gemini,
    /// A script.
    Scripted,
}

/// A model to use, with its known properties.
pub struct ChosenModel {
    pub model: Arc<dyn Model>,
    /// The name of the provider.
    pub provider: &'static str,
    pub window_tokens: Option<u64>,
    pub prices: Option<TokenPrices>,
    /// Creates other models of the same provider.
    pub others: ModelByName,
}

impl ChosenModel {
    /// Creates a choice from a model of the caller. Sub-agents use the same one.
    pub fn custom(model: Arc<dyn Model>) -> ChosenModel {
        let others = only_model(&model);
        ChosenModel { model, provider: "custom", window_tokens: None, prices: None, others }
    }
}

/// A model of the chosen provider, by its name.
#[derive(Clone)]
pub struct NamedModel {
    pub model: Arc<dyn Model>,
    pub prices: Option<TokenPrices>,
    pub window_tokens: Option<u64>,
}

/// Creates models by their names; an error says why one can't be created.
pub type ModelByName = Arc<dyn Fn(&str) -> Result<NamedModel, String> + Send + Sync>;

/// Returns a function that returns the same model for every name.
pub fn only_model(model: &Arc<dyn Model>) -> ModelByName {
    let model = model.clone();
    Arc::new(move |_| Ok(NamedModel { model: model.clone(), prices: None, window_tokens: None }))
}

/// Returns whether a provider is configured. If none is, the program shows a tour.
///
/// # Errors
/// Returns an error if options or settings are invalid.
pub fn is_configured(
    args: &ModelOptions,
    common: &SessionOptions,
    lookup: VariableLookup<'_>,
) -> Result<bool, SessionError> {
    if args.provider != ProviderChoice::Auto || args.script.is_some() || args.base_url.is_some() {
        return Ok(true);
    }
    let named = |provider| {
        let wire = provider_wire(provider);
        [key_variable(wire), base_url_variable(wire)].iter().any(|name| read_variable(lookup, name).is_some())
    };
    if ORDER.into_iter().any(named) {
        return Ok(true);
    }
    let cwd = common.cwd.as_deref().unwrap_or(Path::new("."));
    let run = loaded_settings::load_settings(common, cwd, lookup)?.loaded.settings.run;
    let of_settings = |provider| {
        let given = run.for_provider(provider);
        given.api_key.is_some() || given.base_url.is_some()
    };
    Ok(run.provider.is_some() || ORDER.into_iter().any(of_settings))
}

/// Chooses the model of a run. Nothing is sent yet.
///
/// # Errors
/// Returns an error if no model is configured, or if options or settings are invalid.
pub fn choose_provider(
    args: &ModelOptions,
    settings: &RunSettings,
    requirements: ModelRequirements,
    session: &str,
    lookup: VariableLookup<'_>,
    notices: &NoticeSink,
) -> Result<ChosenModel, SessionError> {
    let provider = match args.provider {
        ProviderChoice::Scripted => return scripted_model(args),
        ProviderChoice::Auto if args.script.is_some() => return scripted_model(args),
        _ if args.script.is_some() => {
            return Err(SessionError::model(
                "a script is played by the provider `scripted` alone; name no other",
            )
            .with_option(SessionOption::Provider));
        }
        ProviderChoice::Auto => detect_provider(args, settings, lookup)?,
        ProviderChoice::Anthropic => Provider::Anthropic,
        ProviderChoice::OpenAi => Provider::OpenAi,
        ProviderChoice::OpenAiChat => Provider::OpenAiChat,
        ProviderChoice::Gemini => Provider::Gemini,
    };
    over_http(provider, args, settings, requirements, session, lookup, notices)
}

fn detect_provider(
    args: &ModelOptions,
    settings: &RunSettings,
    lookup: VariableLookup<'_>,
) -> Result<Provider, SessionError> {
    if let Some(provider) = settings.provider {
        return Ok(provider);
    }
    let has_key = |provider: &Provider| api_key(*provider, settings, lookup).is_some();
    let has_url = |provider: &Provider| base_url(*provider, settings, lookup).is_some();
    let found = ORDER.iter().find(|provider| has_key(provider));
    let found = found.or_else(|| ORDER.iter().find(|provider| has_url(provider)));
    found.copied().ok_or_else(|| {
        let url = args.base_url.as_deref().unwrap_or_default();
        SessionError::model(format!(
            "which API is spoken at `{}`? name the provider: anthropic, openai, openai-chat or gemini",
            one_line(url)
        ))
        .with_option(SessionOption::Provider)
    })
}

fn over_http(
    provider: Provider,
    args: &ModelOptions,
    settings: &RunSettings,
    requirements: ModelRequirements,
    session: &str,
    lookup: VariableLookup<'_>,
    notices: &NoticeSink,
) -> Result<ChosenModel, SessionError> {
    let wire = provider_wire(provider);
    let usual = default_base_url(wire);
    let base_url = args.base_url.clone().or_else(|| base_url(provider, settings, lookup));
    let base_url = base_url.unwrap_or_else(|| usual.to_owned());
    let is_vendors = base_url.trim().trim_end_matches('/') == usual;
    let key = api_key(provider, settings, lookup);
    if key.is_none() && is_vendors {
        let (name, word) = (key_variable(wire), provider.word());
        return Err(SessionError::model(format!(
            "there is no key for `{word}`; set {name}, or `run.{word}.apiKey` in your own settings; a server that wants no key needs a base URL"
        ))
        .with_option(SessionOption::BaseUrl));
    }
    let of_environment = read_variable(lookup, model_variable(provider));
    let name =
        args.model.clone().or(of_environment).or_else(|| settings.for_provider(provider).model.clone());
    let name = match (name, provider) {
        (Some(name), _) => name,
        (None, Provider::OpenAiChat) if !is_vendors => {
            return Err(SessionError::model("which model? a server of your own has no usual one; name it")
                .with_option(SessionOption::Model));
        }
        (None, _) => usual_model(provider).to_owned(),
    };
    let window = settings.for_provider(provider).window_tokens;
    let window_tokens = window.or_else(|| usual_window(provider).filter(|_| is_vendors));
    let prices = prices_of(settings, &name);
    let mut endpoint = ProviderEndpoint::new(wire).base_url(base_url.as_str()).key(key.unwrap_or_default());
    endpoint.proxy = proxy::proxy_for(&base_url, lookup);
    endpoint.deferral = requirements.deferral;
    if requirements.web_search && !wire.searches() {
        notices
            .warn(format!("`{}` has no search of its own; `web.search` is without effect", provider.word()));
    }
    let others: ModelByName = {
        let (endpoint, settings, session) = (endpoint.clone(), settings.clone(), session.to_owned());
        let (usual, web_search) = (name.clone(), requirements.web_search);
        Arc::new(move |name: &str| {
            let name = full_name(provider, name).unwrap_or(&usual);
            let options = RequestOptions::new(name).cache_key(&session).web_search(web_search);
            let model = ProviderClient::new(endpoint.clone(), options)?;
            Ok(NamedModel { model: Arc::new(model), prices: prices_of(&settings, name), window_tokens })
        })
    };
    let options = RequestOptions::new(name).cache_key(session).web_search(requirements.web_search);
    let client = ProviderClient::new(endpoint, options).map_err(SessionError::model)?;
    if base_url.starts_with("https://") {
        // Certificates are loaded while the rest is prepared. Without the thread the first request loads
        // them.
        let warm = client.clone();
        let _ = std::thread::Builder::new().name("haft-warm".into()).spawn(move || warm.warm());
    }
    Ok(ChosenModel { model: Arc::new(client), provider: provider.word(), window_tokens, prices, others })
}

fn prices_of(settings: &RunSettings, name: &str) -> Option<TokenPrices> {
    settings.prices.get(name).map(|prices| TokenPrices {
        input: prices.input,
        output: prices.output,
        cache_read: prices.cache_read.unwrap_or(prices.input),
        cache_write: prices.cache_write.unwrap_or(prices.input),
    })
}

/// Returns the provider's name for a model with a short name; `None` for another provider's short name.
fn full_name(provider: Provider, name: &str) -> Option<&str> {
    match (name, provider) {
        ("sonnet", Provider::Anthropic) => Some("claude-sonnet-4-5"),
        ("opus", Provider::Anthropic) => Some("claude-opus-4-5"),
        ("haiku", Provider::Anthropic) => Some("claude-haiku-4-5"),
        ("sonnet" | "opus" | "haiku", _) => None,
        (name, _) => Some(name),
    }
}

#[cfg(feature = "web")]
/// Returns a small model in addition to that of a run, with the address and the key of its provider.
/// Nothing is sent yet.
///
/// # Errors
/// Returns a message if there is no key, or if the address can't be used.
pub fn small_model(
    provider: Provider,
    model: &str,
    settings: &RunSettings,
    lookup: VariableLookup<'_>,
) -> Result<ProviderClient, String> {
    let wire = provider_wire(provider);
    let usual = default_base_url(wire);
    let base_url = base_url(provider, settings, lookup).unwrap_or_else(|| usual.to_owned());
    let key = api_key(provider, settings, lookup);
    if key.is_none() && base_url.trim().trim_end_matches('/') == usual {
        return Err(format!("there is no key for `{}`; {} is not set", provider.word(), key_variable(wire)));
    }
    let mut endpoint = ProviderEndpoint::new(wire).base_url(base_url.as_str()).key(key.unwrap_or_default());
    endpoint.proxy = proxy::proxy_for(&base_url, lookup);
    ProviderClient::new(endpoint, RequestOptions::new(model).max_tokens(SMALL_TOKENS_MAX))
}

fn scripted_model(args: &ModelOptions) -> Result<ChosenModel, SessionError> {
    if args.base_url.is_some() {
        return Err(SessionError::model("a script is played here and needs no base URL")
            .with_option(SessionOption::BaseUrl));
    }
    let Some(path) = &args.script else {
        return Err(SessionError::model("the provider `scripted` plays a script; name its file")
            .with_option(SessionOption::Script));
    };
    let model: Arc<dyn Model> = Arc::new(ScriptedModel::new(read_script(path)?, Wire::Anthropic));
    let others = only_model(&model);
    Ok(ChosenModel { model, provider: "scripted", window_tokens: None, prices: None, others })
}

/// Reads a script.
///
/// # Errors
/// Returns an error if the file can't be read or is invalid.
pub fn read_script(path: &Path) -> Result<ModelScript, SessionError> {
    let name = one_line(&path.display().to_string());
    let bytes = std::fs::metadata(path).map_or(0, |file| file.len());
    if bytes > SCRIPT_BYTES_MAX as u64 {
        return Err(SessionError::model(format!("`{name}` has more than {SCRIPT_BYTES_MAX} bytes")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| {
        SessionError::model(format!("`{name}` can't be read: {error}; give a script in JSON or YAML"))
    })?;
    ModelScript::parse(&text)
        .map_err(|bad| SessionError::model(format!("{name}: {}", one_line(&bad.to_string()))))
}

fn api_key(provider: Provider, settings: &RunSettings, lookup: VariableLookup<'_>) -> Option<String> {
    // Both APIs of OpenAI use one key, so its variable selects the first of them.
    read_variable(lookup, key_variable(provider_wire(provider)))
        .or_else(|| settings.for_provider(provider).api_key.clone())
}

fn base_url(provider: Provider, settings: &RunSettings, lookup: VariableLookup<'_>) -> Option<String> {
    read_variable(lookup, base_url_variable(provider_wire(provider)))
        .or_else(|| settings.for_provider(provider).base_url.clone())
}

pub fn read_variable(lookup: VariableLookup<'_>, name: &str) -> Option<String> {
    lookup(name)?.into_string().ok().map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

fn provider_wire(provider: Provider) -> Wire {
    match provider {
        Provider::Anthropic => Wire::Anthropic,
        Provider::OpenAi => Wire::OpenAi,
        Provider::OpenAiChat => Wire::OpenAiChat,
        Provider::Gemini => Wire::Gemini,
    }
}

/// Returns the variable that names a model.
fn model_variable(provider: Provider) -> &'static str {
    match provider {
        Provider::Anthropic => "ANTHROPIC_MODEL",
        Provider::OpenAi | Provider::OpenAiChat => "OPENAI_MODEL",
        Provider::Gemini => "GEMINI_MODEL",
    }
}

/// Returns the default model.
fn usual_model(provider: Provider) -> &'static str {
    match provider {
        Provider::Anthropic => "claude-sonnet-4-5",
        Provider::OpenAi | Provider::OpenAiChat => "gpt-5",
        Provider::Gemini => "gemini-2.5-pro",
    }
}

/// Returns the smallest context window of the vendor's current models. Settings configure a larger one. A
/// smaller one is detected by the provider's error, which triggers a compaction.
fn usual_window(provider: Provider) -> Option<u64> {
    match provider {
        Provider::Anthropic => Some(200_000),
        Provider::OpenAi | Provider::OpenAiChat => Some(272_000),
        Provider::Gemini => Some(1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    /// Returns the provider, model and address that these options and variables choose, or why there is
    /// none.
    fn chosen(flags: &str, variables: &[(&str, &str)]) -> Result<(&'static str, String), String> {
        let mut options = ModelOptions::default();
        let mut words = flags.split_whitespace();
        while let Some(flag) = words.next() {
            let value = words.next().unwrap().to_owned();
            match flag {
                "--provider" => options.provider = provider_choice(&value),
                "--model" => options.model = Some(value),
                "--base-url" => options.base_url = Some(value),
                "--script" => options.script = Some(value.into()),
                other => panic!("{other}"),
            }
        }
        let lookup = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
        };
        let chosen = choose_provider(
            &options,
            &RunSettings::default(),
            ModelRequirements::default(),
            "s",
            &lookup,
            &NoticeSink::default(),
        )
        .map_err(|error| error.to_string())?;
        Ok((chosen.provider, chosen.model.name().to_owned()))
    }

    fn provider_choice(name: &str) -> ProviderChoice {
        match name {
            "anthropic" => ProviderChoice::Anthropic,
            "openai" => ProviderChoice::OpenAi,
            "openai-chat" => ProviderChoice::OpenAiChat,
            "gemini" => ProviderChoice::Gemini,
            "scripted" => ProviderChoice::Scripted,
            other => panic!("{other}"),
        }
    }

    #[track_caller]
    fn check(flags: &str, variables: &[(&str, &str)], provider: &str, model: &str) {
        let found = chosen(flags, variables).unwrap();
        assert_eq!((found.0, found.1.as_str()), (provider, model), "{flags} {variables:?}");
    }

    #[test]
    fn keys_decide_in_order() {
        let (a, o, g) = (("ANTHROPIC_API_KEY", "k"), ("OPENAI_API_KEY", "k"), ("GEMINI_API_KEY", "k"));
        check("", &[g, o, a], "anthropic", "claude-sonnet-4-5");
        check("", &[g, o], "openai", "gpt-5");
        check("", &[g], "gemini", "gemini-2.5-pro");
        check("", &[("OPENAI_API_KEY", " "), g], "gemini", "gemini-2.5-pro");
        check("", &[("OPENAI_BASE_URL", "http://127.0.0.1:1/v1"), g], "gemini", "gemini-2.5-pro");
        check("", &[("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")], "openai", "gpt-5");
    }

    #[test]
    fn a_flag_counts_more_than_the_environment() {
        let model = ("ANTHROPIC_MODEL", "of-env");
        check("", &[("ANTHROPIC_API_KEY", "k"), model], "anthropic", "of-env");
        check("--model m", &[("ANTHROPIC_API_KEY", "k"), model], "anthropic", "m");
        check(
            "--provider gemini",
            &[("ANTHROPIC_API_KEY", "k"), ("GEMINI_API_KEY", "k")],
            "gemini",
            "gemini-2.5-pro",
        );
        check("--provider openai-chat --base-url http://127.0.0.1:1/v1 --model m", &[], "openai-chat", "m");
    }

    #[test]
    fn what_is_missing_is_named() {
        let refused = |flags: &str, part: &str| {
            let words = chosen(flags, &[]).unwrap_err();
            assert!(words.contains(part), "{flags}: {words}");
        };
        refused("--provider anthropic", "set ANTHROPIC_API_KEY");
        refused("--provider gemini", "set GEMINI_API_KEY");
        refused("--base-url http://127.0.0.1:1", "which API");
        refused("--provider openai-chat --base-url http://127.0.0.1:1/v1", "which model");
        refused("--provider scripted", "name its file");
        refused("--provider scripted --script x --base-url y", "needs no base URL");
        refused("--provider openai --script x", "name no other");
        refused("--provider anthropic --base-url ftp://x", "`https:` and `http:`");
    }
}
