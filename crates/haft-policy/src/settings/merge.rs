//! One set of settings out of all layers, and what a workspace has no say in.
//!
//! Lists are put together, scalars are the strongest layer's. A workspace's files are different from all others: they
//! came with the files that an agent works on. What they tighten always counts; what they loosen or run counts once the
//! workspace is trusted; endpoints, keys, the program path and a looser mode never count.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::de::Spanned;
use super::hook::HookGroup;
use super::journal::JournalSettings;
use super::known::is_refused_variable;
use super::layer::{Layer, Layers, Warning, bound, rules_of};
use super::mcp::Server;
use super::places::lexical;
use super::raw::{Classifier, DeclaredEffects, RawServerMatch, RepetitionGuard};
use super::run::RunSettings;
use super::sandbox::{May, RawSandbox, Sandbox};
use super::serve::ServeSettings;
use super::servers::{McpOptions, ToolSearchSettings};
use super::web::WebSettings;
use crate::source::{List, Scope, Source, WrittenRule};
use haft::ports::PermissionMode;

/// Whether a workspace may run and loosen what its files say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The user saw it and said yes.
    Trusted,
    /// Its files only tighten.
    Untrusted,
}

/// A value and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct At<T> {
    /// The value.
    pub value: T,
    /// Where it stands.
    pub source: Source,
}

/// Everything that settings say.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Rules and the mode.
    pub permissions: PermissionSettings,
    /// Hooks.
    pub hooks: HookSettings,
    /// Environment variables for commands.
    pub env: BTreeMap<String, At<String>>,
    /// Effects of tools that declare none, by name or glob; the strongest first.
    pub effects: Vec<At<ToolEffects>>,
    /// The sandbox.
    pub sandbox: Sandbox,
    /// Servers.
    pub mcp: McpSettings,
    /// The command that decides before the user is asked.
    pub classifier: Option<At<Classifier>>,
    /// When a repeated call asks.
    pub repetition_guard: Option<At<RepetitionGuard>>,
    /// The model that `haft run` asks.
    pub run: RunSettings,
    /// When a model is given only the names of tools.
    pub tool_search: Option<At<ToolSearchSettings>>,
    /// Who may use `haft serve`.
    pub serve: ServeSettings,
    /// Who searches the web, and whose pages need no question.
    pub web: WebSettings,
    /// How sessions are kept.
    pub journal: JournalSettings,
    /// What a person should know.
    pub warnings: Vec<Warning>,
}

/// Rules and the mode.
#[derive(Debug, Clone, Default)]
pub struct PermissionSettings {
    /// All rules, the strongest layer's first, in each the order of the file.
    pub rules: Vec<WrittenRule>,
    /// The mode, where one is set.
    pub default_mode: Option<At<PermissionMode>>,
    /// Directories beside the working directory, absolute.
    pub additional_directories: Vec<At<PathBuf>>,
    /// Where the mode `bypassPermissions` is forbidden.
    pub bypass_disabled: Option<Source>,
    /// Where the mode `auto` is forbidden.
    pub auto_disabled: Option<Source>,
    /// Where reads outside are forbidden.
    pub block_reads_outside: Option<Source>,
    /// Where writes outside are forbidden.
    pub block_writes_outside: Option<Source>,
    /// Where asking is turned into denying.
    pub deny_instead_of_prompting: Option<Source>,
    /// Where all but managed allow rules are dropped. Answers of the user don't allow either, then.
    pub managed_rules_only: Option<Source>,
}

impl PermissionSettings {
    /// Where a mode is forbidden, if it is.
    pub fn forbids(&self, mode: PermissionMode) -> Option<&Source> {
        match mode {
            PermissionMode::BypassPermissions => self.bypass_disabled.as_ref(),
            PermissionMode::Auto => self.auto_disabled.as_ref(),
            _ => None,
        }
    }
}

/// Hooks.
#[derive(Debug, Clone, Default)]
pub struct HookSettings {
    /// All groups, the weakest layer's first: of several rewrites the last one counts.
    pub groups: Vec<HookGroup>,
    /// Where hooks are turned off, those that are turned off being gone from `groups`.
    pub disabled: Option<Source>,
    /// The only addresses that hooks may use; none given means any.
    pub allowed_urls: Option<Vec<At<String>>>,
    /// The only variables that headers may use; none given means those that a hook lists.
    pub allowed_env_vars: Option<Vec<At<String>>>,
}

/// What a tool touches, declared by the user for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolEffects {
    /// The tool's name, or a glob.
    pub tool: String,
    /// What it touches.
    pub effects: DeclaredEffects,
}

/// Servers.
#[derive(Debug, Clone, Default)]
pub struct McpSettings {
    /// Servers that may be started, the strongest scope first; no two have one name.
    pub servers: Vec<Server>,
    /// Servers that may not, and why.
    pub withheld: Vec<(Server, Withheld)>,
    /// Whether every server of `.mcp.json` is approved.
    pub enable_all_project: Option<At<bool>>,
    /// Approved servers of `.mcp.json`, by name.
    pub enabled: Vec<At<String>>,
    /// Servers of `.mcp.json` that stay off, by name.
    pub disabled: Vec<At<String>>,
    /// The only servers that may be used; none given means any.
    pub allowed: Option<Vec<At<ServerMatch>>>,
    /// Servers that are never used.
    pub denied: Vec<At<ServerMatch>>,
    /// How they are treated.
    pub options: McpOptions,
}

/// Why the lists of servers rule one out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// An entry of `deniedMcpServers` means it.
    Denied(Source),
    /// There is a list `allowedMcpServers`, and nothing in it means it.
    NotAllowed,
}

impl McpSettings {
    /// Whether the user or the trusted workspace approves a server of `.mcp.json` by its name.
    pub fn is_enabled(&self, name: &str) -> bool {
        self.enable_all_project.as_ref().is_some_and(|all| all.value)
            || self.enabled.iter().any(|enabled| enabled.value == name)
    }

    /// Whether the lists rule a server out that is called so and reached so: by a command with its arguments, or by an
    /// address. What is denied is denied, whatever allows it. Where a list allows commands, a process needs one of them,
    /// and its name alone is not enough; so it is with addresses.
    pub fn refuses(&self, name: &str, command: Option<&[String]>, url: Option<&str>) -> Option<Refused> {
        let means = |which: &ServerMatch| match which {
            ServerMatch::Name(known) => known == name,
            ServerMatch::Command(known) => command.is_some_and(|command| command == known.as_slice()),
            ServerMatch::Url(pattern) => url.is_some_and(|url| covers(pattern, url)),
        };
        if let Some(denied) = self.denied.iter().find(|denied| means(&denied.value)) {
            return Some(Refused::Denied(denied.source.clone()));
        }
        let allowed = self.allowed.as_ref()?;
        let by_command = allowed.iter().any(|at| matches!(at.value, ServerMatch::Command(_)));
        let by_url = allowed.iter().any(|at| matches!(at.value, ServerMatch::Url(_)));
        let needs_more = (command.is_some() && by_command) || (url.is_some() && by_url);
        let enough = |which: &ServerMatch| !needs_more || !matches!(which, ServerMatch::Name(_));
        let fits = allowed.iter().any(|at| enough(&at.value) && means(&at.value));
        (!fits).then_some(Refused::NotAllowed)
    }
}

/// Whether a pattern, with `*` for any run of characters, is the whole of a text.
fn covers(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let mut rest = rest;
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// Why a server may not be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Withheld {
    /// The workspace that names it isn't trusted.
    Untrusted,
    /// Settings turn it off.
    Disabled(Source),
    /// A stronger file names one that is called the same.
    Hidden(Source),
}

/// Which servers are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerMatch {
    /// By name.
    Name(String),
    /// By the whole command.
    Command(Vec<String>),
    /// By address, with `*`.
    Url(String),
}

impl Layers {
    /// Puts the layers together.
    pub fn merge(&self, standing: Standing) -> Settings {
        let mut settings = Settings { warnings: self.warnings.clone(), ..Settings::default() };
        let mut merge = Merge { layers: self, standing, warnings: Vec::new() };
        settings.permissions = merge.permissions();
        settings.hooks = merge.hooks();
        settings.env = merge.env();
        settings.effects = merge.list(
            |layer| Some(layer.raw.effects.as_ref()?.0.as_slice()),
            |(tool, effects)| (tool.at, ToolEffects { tool: tool.value.clone(), effects: effects.clone() }),
        );
        settings.sandbox = merge.sandbox();
        settings.mcp = merge.mcp();
        settings.classifier = merge.first(|layer| layer.raw.classifier.as_ref());
        settings.repetition_guard = merge.repetition_guard();
        settings.run = merge.run();
        settings.mcp.options = merge.mcp_options();
        settings.tool_search = merge.tool_search();
        settings.serve = merge.serve();
        settings.web = merge.web();
        settings.journal = merge.journal();
        settings.warnings.append(&mut merge.warnings);
        bound(&mut settings.warnings);
        settings
    }
}

struct Merge<'a> {
    layers: &'a Layers,
    standing: Standing,
    warnings: Vec<Warning>,
}

impl<'a> Merge<'a> {
    fn all(&self) -> impl DoubleEndedIterator<Item = &'a Layer> + use<'a> {
        self.layers.layers.iter()
    }

    /// The layers that may run and loosen.
    fn trusted(&self) -> impl DoubleEndedIterator<Item = &'a Layer> + use<'a> {
        let standing = self.standing;
        self.all().filter(move |layer| standing == Standing::Trusted || !layer.is_workspaces())
    }

    fn flag(&self) -> Source {
        Source::of(Scope::CommandLine, &*self.layers.places.cwd)
    }

    fn warn(&mut self, source: Source, message: impl Into<String>) {
        self.warnings.push(Warning { source, message: message.into() });
    }

    /// A list that loosens: those of all layers that may.
    fn list<T: 'a, V>(
        &self,
        get: impl Fn(&'a Layer) -> Option<&'a [T]>,
        read: impl Fn(&T) -> (super::jsonc::Spot, V),
    ) -> Vec<At<V>> {
        let of_layer =
            |layer: &'a Layer| get(layer).unwrap_or_default().iter().map(move |item| (layer, item));
        let items = self.trusted().flat_map(of_layer);
        items
            .map(|(layer, item)| {
                let (at, value) = read(item);
                At { value, source: layer.source(at) }
            })
            .collect()
    }

    /// A list that is no list but a restriction, once anybody gives it.
    fn restriction<T: 'a, V>(
        &self,
        get: impl Fn(&'a Layer) -> Option<&'a [Spanned<T>]> + Copy,
        read: impl Fn(&T) -> V,
    ) -> Option<Vec<At<V>>> {
        let given = self.trusted().any(|layer| get(layer).is_some());
        given.then(|| self.list(get, |item| (item.at, read(&item.value))))
    }

    /// The strongest of a scalar that loosens.
    fn first<T: Clone + 'a>(&self, get: impl Fn(&'a Layer) -> Option<&'a Spanned<T>>) -> Option<At<T>> {
        self.trusted().find_map(|layer| {
            let found = get(layer)?;
            Some(At { value: found.value.clone(), source: layer.source(found.at) })
        })
    }

    /// Where any layer says so; nothing takes it back.
    fn any(&self, says: impl Fn(&'a Layer) -> Option<super::jsonc::Spot>) -> Option<Source> {
        self.all().find_map(|layer| says(layer).map(|at| layer.source(at)))
    }

    /// A key that only the machine's owner has.
    fn managed_only(
        &mut self,
        key: &str,
        get: impl Fn(&'a Layer) -> Option<&'a Spanned<bool>>,
    ) -> Option<Source> {
        let mut found = None;
        for layer in self.all() {
            let Some(given) = get(layer) else { continue };
            if layer.scope != Scope::Managed {
                self.warn(layer.source(given.at), format!("`{key}` counts in managed settings only"));
            } else if given.value {
                found = Some(layer.source(given.at));
            }
        }
        found
    }

    fn permissions(&mut self) -> PermissionSettings {
        fn permission<T>(
            get: fn(&super::raw::RawPermissions) -> &Option<T>,
        ) -> impl Fn(&Layer) -> Option<&T> {
            move |layer| layer.raw.permissions.as_ref().and_then(|permissions| get(permissions).as_ref())
        }
        let is_true = |given: &Spanned<bool>| given.value.then_some(given.at);
        let reads = permission(|p| &p.block_reads_outside_working_directories);
        let writes = permission(|p| &p.block_writes_outside_working_directories);
        let bypass = permission(|p| &p.disable_bypass_permissions_mode);
        let auto = permission(|p| &p.disable_auto_mode);
        let mut permissions = PermissionSettings {
            bypass_disabled: self.any(|layer| bypass(layer).map(|given| given.at)),
            auto_disabled: self.any(|layer| auto(layer).map(|given| given.at)),
            block_reads_outside: self.any(|layer| reads(layer).and_then(is_true)),
            block_writes_outside: self.any(|layer| writes(layer).and_then(is_true)),
            deny_instead_of_prompting: self.deny_instead_of_prompting(),
            managed_rules_only: self.managed_only(
                "allowManagedPermissionRulesOnly",
                permission(|p| &p.allow_managed_permission_rules_only),
            ),
            ..PermissionSettings::default()
        };
        permissions.rules = self.rules(permissions.managed_rules_only.is_some());
        permissions.additional_directories = self.directories();
        permissions.default_mode = self.mode(&permissions);
        permissions
    }

    /// A workspace may say `true` and not take it back.
    fn deny_instead_of_prompting(&self) -> Option<Source> {
        let mut denies = None;
        for layer in self.all().rev() {
            let given = layer.raw.permissions.as_ref().and_then(|p| p.deny_instead_of_prompting.as_ref());
            match given {
                Some(given) if given.value => denies = Some(layer.source(given.at)),
                Some(_) if !layer.is_workspaces() => denies = None,
                _ => {}
            }
        }
        denies
    }

    fn rules(&self, managed_only: bool) -> Vec<WrittenRule> {
        let flags = &self.layers.flags;
        let lists = [(List::Deny, &flags.deny), (List::Ask, &flags.ask), (List::Allow, &flags.allow)];
        let mut flagged: Vec<WrittenRule> = Vec::new();
        for (list, given) in lists.into_iter().filter(|(list, _)| *list != List::Allow || !managed_only) {
            flagged.extend(given.iter().map(|rule| WrittenRule::plain(rule, list, self.flag())));
        }
        // Flags stand between the machine's owner and everybody else.
        let (mut rules, mut weaker) = (Vec::new(), Vec::new());
        for layer in self.all() {
            let may_allow = (self.standing == Standing::Trusted || !layer.is_workspaces())
                && (!managed_only || layer.scope == Scope::Managed);
            let list = if layer.scope == Scope::Managed { &mut rules } else { &mut weaker };
            let rules = rules_of(layer).map(|(_, rule)| rule);
            list.extend(rules.filter(|rule| may_allow || rule.list != List::Allow));
        }
        rules.append(&mut flagged);
        rules.append(&mut weaker);
        rules
    }

    fn directories(&self) -> Vec<At<PathBuf>> {
        let places = &self.layers.places;
        let flags = self.layers.flags.add_dirs.iter();
        let flags = flags.map(|dir| At { value: lexical(&places.cwd, dir), source: self.flag() });
        let files = self.list(
            |layer| layer.raw.permissions.as_ref()?.additional_directories.as_deref(),
            |dir| (dir.at, self.directory(&dir.value)),
        );
        flags.chain(files).collect()
    }

    /// `~` is the home; what is relative starts in the working directory.
    fn directory(&self, given: &str) -> PathBuf {
        let places = &self.layers.places;
        let in_home = given.strip_prefix("~/").or_else(|| (given == "~").then_some(""));
        match (in_home, &places.home) {
            (Some(rest), Some(home)) => lexical(home, Path::new(rest)),
            _ => lexical(&places.cwd, Path::new(given)),
        }
    }

    fn mode(&mut self, permissions: &PermissionSettings) -> Option<At<PermissionMode>> {
        let given = |layer: &'a Layer| Some((layer, layer.raw.permissions.as_ref()?.default_mode.as_ref()?));
        let of_flag = self.layers.flags.permission_mode.map(|value| At { value, source: self.flag() });
        let mut mode: Option<At<PermissionMode>> = None;
        for (layer, given) in self.all().rev().filter_map(given) {
            let source = layer.source(given.at);
            if layer.scope == Scope::Managed && of_flag.is_some() {
                // The machine's owner is stronger than the flag; see below.
                continue;
            }
            let before = mode.as_ref().map_or(PermissionMode::Default, |mode| mode.value);
            if layer.is_workspaces() && !given.value.is_within(before) {
                let words = format!(
                    "a workspace can't turn the mode from `{before}` to `{}`; set it in your own settings, or for this run",
                    given.value
                );
                self.warn(source, words);
                continue;
            }
            mode = Some(At { value: given.value, source });
        }
        mode = of_flag.or(mode);
        let managed = self.all().filter(|layer| layer.scope == Scope::Managed).find_map(given);
        if let Some((layer, given)) = managed {
            mode = Some(At { value: given.value, source: layer.source(given.at) });
        }
        let forbidden = mode.as_ref().and_then(|mode| permissions.forbids(mode.value).cloned());
        if let (Some(by), Some(At { value, source })) = (forbidden, &mode) {
            self.warn(
                source.clone(),
                format!("the mode `{value}` is disabled by {by}; the mode is `default`"),
            );
            mode = None;
        }
        mode
    }

    fn hooks(&mut self) -> HookSettings {
        let managed_only = self
            .managed_only("allowManagedHooksOnly", |layer| layer.raw.allow_managed_hooks_only.as_ref())
            .is_some();
        let off = |layer: &Layer| {
            layer.raw.disable_all_hooks.as_ref().filter(|given| given.value).map(|given| given.at)
        };
        let users_off = self.trusted().filter(|layer| !layer.is_workspaces()).find_map(|layer| {
            let at = off(layer)?;
            Some((layer.scope, layer.source(at)))
        });
        let workspaces_off =
            self.all().filter(|layer| layer.is_workspaces()).any(|layer| off(layer).is_some());
        let mut groups: Vec<HookGroup> = Vec::new();
        for layer in self.trusted().rev() {
            let managed = layer.scope == Scope::Managed;
            let off = match &users_off {
                Some((by, _)) => !managed || *by == Scope::Managed,
                None => workspaces_off && layer.is_workspaces(),
            };
            if off || (managed_only && !managed) {
                continue;
            }
            for group in &layer.hooks {
                add(&mut groups, group);
            }
        }
        HookSettings {
            groups,
            disabled: users_off.map(|(_, source)| source),
            allowed_urls: self
                .restriction(|layer| layer.raw.allowed_http_hook_urls.as_deref(), String::clone),
            allowed_env_vars: self
                .restriction(|layer| layer.raw.http_hook_allowed_env_vars.as_deref(), String::clone),
        }
    }

    fn env(&mut self) -> BTreeMap<String, At<String>> {
        let mut env = BTreeMap::new();
        for layer in self.trusted().rev() {
            for (name, value) in layer.raw.env.iter().flat_map(|table| &table.0) {
                let source = layer.source(name.at);
                if name.value.is_empty() || name.value.contains(['=', '\0']) || value.0.contains('\0') {
                    self.warn(
                        source,
                        "a variable has a name without `=`, and no zero byte anywhere; it is left out",
                    );
                    continue;
                }
                if layer.is_workspaces() && is_refused_variable(&name.value) {
                    let words = format!(
                        "a workspace can't set the variable `{}`; set it in your own settings",
                        name.value
                    );
                    self.warn(source, words);
                    continue;
                }
                env.insert(name.value.clone(), At { value: value.0.clone(), source });
            }
        }
        env
    }

    fn sandbox(&mut self) -> Sandbox {
        fn raw(layer: &Layer) -> Option<&RawSandbox> {
            layer.raw.sandbox.as_ref().map(|given| &given.value)
        }
        let mut sandbox = Sandbox::default();
        for layer in self.all() {
            let Some(raw) = raw(layer) else { continue };
            let may = match (layer.is_workspaces(), self.standing) {
                (false, _) => May::Everything,
                (true, Standing::Trusted) => May::Loosen,
                (true, Standing::Untrusted) => May::Tighten,
            };
            for (source, words) in sandbox.take(raw, may, |at| layer.source(at)) {
                self.warn(source, words);
            }
        }
        let reads = self
            .managed_only("allowManagedReadPathsOnly", |layer| raw(layer)?.managed_reads_only())
            .is_some();
        let domains =
            self.managed_only("allowManagedDomainsOnly", |layer| raw(layer)?.managed_domains_only());
        sandbox.keep_managed(reads, domains);
        sandbox
    }

    fn mcp(&self) -> McpSettings {
        let disabled: Vec<At<String>> = self
            .all()
            .flat_map(|layer| {
                layer.raw.disabled_mcpjson_servers.iter().flatten().map(move |name| (layer, name))
            })
            .map(|(layer, name)| At { value: name.value.clone(), source: layer.source(name.at) })
            .collect();
        let denied = self
            .all()
            .flat_map(|layer| {
                layer.raw.denied_mcp_servers.iter().flatten().map(move |server| (layer, server))
            })
            .filter_map(|(layer, server)| {
                Some(At { value: which(&server.value)?, source: layer.source(server.at) })
            })
            .collect();
        let mut mcp = McpSettings {
            enable_all_project: self.first(|layer| layer.raw.enable_all_project_mcp_servers.as_ref()),
            enabled: self.list(
                |layer| layer.raw.enabled_mcpjson_servers.as_deref(),
                |name| (name.at, name.value.clone()),
            ),
            allowed: self.restriction(|layer| layer.raw.allowed_mcp_servers.as_deref(), which).map(|all| {
                all.into_iter()
                    .filter_map(|At { value, source }| Some(At { value: value?, source }))
                    .collect()
            }),
            denied,
            ..McpSettings::default()
        };
        for server in &self.layers.servers {
            let off = disabled.iter().find(|name| server.of_workspace && name.value == server.name);
            let same = mcp.servers.iter().find(|known| known.name == server.name);
            let why = match (off, same) {
                (Some(off), _) => Withheld::Disabled(off.source.clone()),
                (None, _) if server.of_workspace && self.standing == Standing::Untrusted => {
                    Withheld::Untrusted
                }
                (None, Some(stronger)) => Withheld::Hidden(stronger.source.clone()),
                (None, None) => {
                    mcp.servers.push(server.clone());
                    continue;
                }
            };
            mcp.withheld.push((server.clone(), why));
        }
        mcp.disabled = disabled;
        mcp
    }

    /// A workspace has no say in it: whoever sets the address gets the key.
    fn run(&mut self) -> RunSettings {
        let mut run = RunSettings::default();
        for layer in self.all() {
            let Some(given) = &layer.raw.run else { continue };
            let source = layer.source(given.at);
            if layer.is_workspaces() {
                self.warn(
                    source,
                    "`run` counts in your own settings only: whoever sets an address gets the key",
                );
            } else {
                run.add(given.value.clone(), source);
            }
        }
        run
    }

    /// A workspace has no say in it: it would speak for its own servers.
    fn mcp_options(&mut self) -> McpOptions {
        let mut options = McpOptions::default();
        for layer in self.all() {
            let Some(given) = &layer.raw.mcp else { continue };
            let source = layer.source(given.at);
            match layer.is_workspaces() {
                true => self.warn(source, "`mcp` counts in your own settings only: it says what servers may"),
                false => options.add(given.value.clone(), source),
            }
        }
        options
    }

    /// A workspace has no say in it: it would let others in.
    fn serve(&mut self) -> ServeSettings {
        let mut serve = ServeSettings::default();
        for layer in self.all() {
            let Some(given) = &layer.raw.serve else { continue };
            match layer.is_workspaces() {
                true => {
                    let words = "`serve` counts in your own settings only: it says who may use your tools";
                    self.warn(layer.source(given.at), words);
                }
                false => serve.add(&given.value, |at| layer.source(at)),
            }
        }
        serve
    }

    /// A workspace has no say in it: it could have its own traces forgotten.
    fn journal(&mut self) -> JournalSettings {
        let mut journal = JournalSettings::default();
        for layer in self.all() {
            let Some(given) = &layer.raw.journal else { continue };
            match layer.is_workspaces() {
                true => {
                    let words =
                        "`journal` counts in your own settings only: it says what is remembered of a session";
                    self.warn(layer.source(given.at), words);
                }
                false => journal.add(&given.value, given.at, |at| layer.source(at)),
            }
        }
        journal
    }

    /// A workspace has no say in it: whoever sets an address gets what is searched for, and the key.
    fn web(&mut self) -> WebSettings {
        let mut web = WebSettings::default();
        for layer in self.all() {
            let Some(given) = &layer.raw.web else { continue };
            match layer.is_workspaces() {
                true => {
                    let words = "`web` counts in your own settings only: it says where searches and keys go";
                    self.warn(layer.source(given.at), words);
                }
                false => web.add(&given.value, given.at, |at| layer.source(at)),
            }
        }
        web
    }

    /// Loosens nothing, so anybody may set it.
    fn tool_search(&self) -> Option<At<ToolSearchSettings>> {
        self.all().find_map(|layer| {
            let given = layer.raw.tool_search.as_ref()?;
            Some(At { value: given.value.clone(), source: layer.source(given.at) })
        })
    }

    /// An untrusted workspace may make it ask sooner.
    fn repetition_guard(&self) -> Option<At<RepetitionGuard>> {
        let mut guard: Option<At<RepetitionGuard>> = None;
        for layer in self.all().rev() {
            let Some(given) = &layer.raw.repetition_guard else { continue };
            let free = self.standing == Standing::Trusted || !layer.is_workspaces();
            let before = guard.as_ref().map_or(RepetitionGuard::default(), |guard| guard.value);
            if free || given.value.is_within(before) {
                guard = Some(At { value: given.value, source: layer.source(given.at) });
            }
        }
        guard
    }
}

/// Adds a group without the handlers that are there already for the same event and matcher.
fn add(groups: &mut Vec<HookGroup>, group: &HookGroup) {
    let known = |handler: &super::hook::Handler| {
        let same_place = |other: &&HookGroup| other.event == group.event && other.matcher == group.matcher;
        groups.iter().filter(same_place).flat_map(|other| &other.handlers).any(|other| other.same_as(handler))
    };
    let mut handlers: Vec<super::hook::Handler> = Vec::new();
    for handler in &group.handlers {
        if !known(handler) && !handlers.iter().any(|other| other.same_as(handler)) {
            handlers.push(handler.clone());
        }
    }
    if !handlers.is_empty() {
        groups.push(HookGroup { event: group.event.clone(), matcher: group.matcher.clone(), handlers });
    }
}

fn which(raw: &RawServerMatch) -> Option<ServerMatch> {
    let name = raw.server_name.clone().map(ServerMatch::Name);
    let command = || raw.server_command.clone().map(ServerMatch::Command);
    let url = || raw.server_url.clone().map(ServerMatch::Url);
    name.or_else(command).or_else(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_any_run_of_characters_and_the_pattern_is_the_whole() {
        let check =
            |pattern: &str, url: &str, fits: bool| assert_eq!(covers(pattern, url), fits, "{pattern} {url}");
        check("https://a.example/mcp", "https://a.example/mcp", true);
        check("https://a.example/mcp", "https://a.example/mcp2", false);
        check("https://*.example/*", "https://a.b.example/x/y", true);
        check("https://*.example/*", "https://example/x", false);
        check("*", "anything", true);
        check("*a*a", "aa", true);
        check("*a*a", "a", false);
        check("a*a", "a", false);
        check("", "", true);
        check("", "x", false);
    }

    #[test]
    fn denied_is_denied_and_a_name_is_not_enough_beside_commands() {
        let at = |value: ServerMatch| At { value, source: Source::of(Scope::User, "/") };
        let command = vec!["npx".to_owned(), "x".to_owned()];
        let mut mcp = McpSettings::default();
        assert_eq!(mcp.refuses("a", Some(&command), None), None);
        mcp.allowed = Some(Vec::new());
        assert_eq!(mcp.refuses("a", Some(&command), None), Some(Refused::NotAllowed));
        mcp.allowed = Some(vec![at(ServerMatch::Name("a".to_owned()))]);
        assert_eq!(mcp.refuses("a", Some(&command), None), None);
        mcp.allowed.as_mut().unwrap().push(at(ServerMatch::Command(vec!["npx".to_owned()])));
        assert_eq!(
            mcp.refuses("a", Some(&command), None),
            Some(Refused::NotAllowed),
            "not the whole command"
        );
        assert_eq!(mcp.refuses("a", None, Some("https://x")), None, "no address is asked for");
        mcp.denied = vec![at(ServerMatch::Url("https://*".to_owned()))];
        assert!(matches!(mcp.refuses("a", None, Some("https://x")), Some(Refused::Denied(_))));
    }
}
