//! What a session may reach: rules, and what they come to for one host and port. Pure; addresses are checked
//! by whoever dials (`outside`).

use std::fmt;

use haft::ports::{HostPattern, SandboxRules};
use haft_net::address::{self, AddressKind, PrivateRange};
use haft_net::host::{Host, HostRule};
use haft_net::host_preset::HostPreset;
use haft_net::network_access::AddressAllowance;

/// The ports that a rule without a port opens.
const PORTS: [u16; 2] = [80, 443];

/// What the programs of a session may reach. Nothing, unless something is added.
///
/// A rule that denies wins over every rule that allows, also over what a single call was granted.
///
/// ```
/// use haft_sandbox::net::NetworkPolicy;
/// use haft_sandbox::net::host_preset::HostPreset;
///
/// let policy = NetworkPolicy::new()
///     .with_preset(HostPreset::PackageRegistries)
///     .with_allowed(["*.example.com".parse().unwrap(), "git.example.com:8443".parse().unwrap()])
///     .with_denied(["admin.example.com".parse().unwrap()])
///     .with_host_port(5432);
/// assert!(!policy.allows_private_addresses());
/// ```
#[derive(Debug, Clone, Default)]
pub struct NetworkPolicy {
    allow: Vec<HostRule>,
    ask: Vec<HostRule>,
    deny: Vec<HostRule>,
    private: bool,
    /// Names that may lead to private addresses, and to which.
    private_hosts: Vec<(HostRule, PrivateRange)>,
    /// Hosts that aren't allowed are refused without a question.
    is_closed: bool,
}

impl NetworkPolicy {
    /// Nothing can be reached.
    pub fn new() -> NetworkPolicy {
        NetworkPolicy::default()
    }

    /// What rules and settings say of hosts.
    ///
    /// # Errors
    /// A host that can't be understood.
    pub fn from_rules(rules: &SandboxRules) -> Result<NetworkPolicy, InvalidHost> {
        Ok(NetworkPolicy {
            allow: parse_hosts(&rules.allowed_hosts)?,
            ask: parse_hosts(&rules.asked_hosts)?,
            deny: parse_hosts(&rules.denied_hosts)?,
            ..NetworkPolicy::default()
        })
    }

    /// These hosts as well.
    #[must_use]
    pub fn with_allowed(mut self, rules: impl IntoIterator<Item = HostRule>) -> NetworkPolicy {
        self.allow.extend(rules);
        self
    }

    /// No host but those that a call was granted; what rules deny stays denied.
    #[must_use]
    pub fn without_allowed(mut self) -> NetworkPolicy {
        self.allow.clear();
        self
    }

    /// These hosts only for calls that were granted them, whatever else is allowed.
    #[must_use]
    pub fn with_asked(mut self, rules: impl IntoIterator<Item = HostRule>) -> NetworkPolicy {
        self.ask.extend(rules);
        self
    }

    /// Never these hosts.
    #[must_use]
    pub fn with_denied(mut self, rules: impl IntoIterator<Item = HostRule>) -> NetworkPolicy {
        self.deny.extend(rules);
        self
    }

    /// The hosts of a preset as well.
    #[must_use]
    pub fn with_preset(self, preset: HostPreset) -> NetworkPolicy {
        self.with_allowed(preset.rules())
    }

    /// A port of the machine's own `localhost`; the same as allowing `localhost:PORT`.
    #[must_use]
    pub fn with_host_port(self, port: u16) -> NetworkPolicy {
        let local = HostRule::exact(&Host::Name("localhost".into()));
        self.with_allowed([local.with_port(port)])
    }

    /// Allowed names may lead to private addresses (an intranet). This machine, its neighbours and metadata
    /// services stay out of reach.
    #[must_use]
    pub fn with_private_addresses(mut self, allowed: bool) -> NetworkPolicy {
        self.private = allowed;
        self
    }

    /// Names of this rule may lead to private addresses of this range. Reaching them needs a rule or a grant
    /// all the same.
    #[must_use]
    pub fn with_private_host(mut self, host: HostRule, range: PrivateRange) -> NetworkPolicy {
        self.private_hosts.push((host, range));
        self
    }

    /// Hosts that aren't allowed are refused without a question.
    #[must_use]
    pub fn without_questions(mut self) -> NetworkPolicy {
        self.is_closed = true;
        self
    }

    /// Whether allowed names may lead to private addresses.
    pub fn allows_private_addresses(&self) -> bool {
        self.private
    }

    /// Whether a call that was granted `grants` beside the session's rules may reach a host.
    ///
    /// # Errors
    /// Why not, and whether a grant would change that.
    pub(crate) fn judge(
        &self,
        grants: &[HostRule],
        host: &Host,
        port: u16,
    ) -> Result<AddressAllowance, HostRefusal> {
        let meant = |rule: &&HostRule| rule.covers(host) && rule.port().is_none_or(|only| only == port);
        if let Some(rule) = self.deny.iter().find(meant) {
            let why = format!("the rule `{rule}` denies `{host}`, and nothing that is granted lifts that");
            return Err(HostRefusal { why, grantable: false });
        }
        // No rule opens the metadata service of a cloud, or an address at which nobody is.
        if let Host::Address(address) = host
            && let Err(no) = address::check(*address)
            && no.kind != AddressKind::Private
            && !host.is_local()
        {
            return Err(HostRefusal::for_good(format!("{no}, and no rule can open that")));
        }
        // What no rule denies, a grant for this host and port opens.
        self.opened(grants, host, port).map_err(|why| HostRefusal { why, grantable: !self.is_closed })
    }

    /// The same, for what no rule denies; why not, and what would allow it, in words for the model.
    fn opened(&self, grants: &[HostRule], host: &Host, port: u16) -> Result<AddressAllowance, String> {
        let meant = |rule: &&HostRule| rule.covers(host) && rule.port().is_none_or(|only| only == port);
        let asked = self.ask.iter().find(meant);
        if let Some(rule) = asked.filter(|_| !grants.iter().any(|grant| grant.opens(host))) {
            return Err(format!(
                "the rule `{rule}` wants the user to be asked about `{host}`, and nobody was"
            ));
        }
        let rules = || self.allow.iter().chain(grants);
        if host.is_local() {
            let opens = |rule: &HostRule| rule.opens_local(host, port);
            return if rules().any(opens) {
                Ok(AddressAllowance { local: true, ..AddressAllowance::default() })
            } else {
                Err(format!(
                    "`{}:{port}` is the user's own machine; only a rule with its port, `{}`, opens it, among the \
                     allowed hosts (servers of this session are reached without the proxy)",
                    host.bracketed(),
                    host.local_rule(port)
                ))
            };
        }
        let opening: Vec<&HostRule> = rules().filter(|rule| rule.opens(host)).collect();
        let named = matches!(host, Host::Address(_));
        if opening.iter().any(|rule| rule.port().map_or(PORTS.contains(&port), |only| only == port)) {
            let ranges = self.private_hosts.iter().filter(|(rule, _)| rule.covers(host));
            let ranges = ranges.map(|(_, range)| *range).collect();
            return Ok(AddressAllowance { local: false, private: self.private || named, ranges });
        }
        if !opening.is_empty() {
            return Err(format!(
                "rules allow `{host}` but not its port {port}; `{}:{port}` among the allowed hosts would",
                host.bracketed()
            ));
        }
        let rule = if PORTS.contains(&port) {
            format!("`WebFetch(domain:{})`", host.bracketed())
        } else {
            format!("`{}:{port}` among the allowed hosts", host.bracketed())
        };
        Err(if named {
            format!(
                "`{host}` is an address, and only a rule that names it opens one; {rule} would, or use the name"
            )
        } else {
            format!("no rule allows `{host}`; {rule} would")
        })
    }

    /// The rule that opens exactly this.
    pub(crate) fn rule_for(&self, host: &Host, port: u16) -> HostRule {
        match (host.is_local(), PORTS.contains(&port)) {
            (true, _) => host.local_rule(port),
            (false, true) => HostRule::exact(host),
            (false, false) => HostRule::exact(host).with_port(port),
        }
    }

    /// The hosts of a preset that no rule denies.
    pub(crate) fn not_denied(&self, preset: HostPreset, port: u16) -> impl Iterator<Item = Host> + '_ {
        let hosts = preset.hosts().iter().filter_map(|host| Host::parse(host).ok());
        hosts.filter(move |host| self.judge(&[], host, port).err().is_none_or(|refused| refused.grantable))
    }

    /// Whether a port of this machine is open by a rule of the session.
    pub(crate) fn host_ports(&self) -> Vec<u16> {
        let local = Host::Name("localhost".into());
        let ports = self.allow.iter().filter(|rule| rule.covers(&local)).filter_map(HostRule::port);
        ports.filter(|port| self.opens_host_port(*port)).collect()
    }

    pub(crate) fn opens_host_port(&self, port: u16) -> bool {
        self.judge(&[], &Host::Name("localhost".into()), port).is_ok()
    }
}

fn parse_hosts(hosts: &[HostPattern]) -> Result<Vec<HostRule>, InvalidHost> {
    let parse = |host: &HostPattern| {
        host.pattern.parse().map_err(|error| InvalidHost { message: format!("{}: {error}", host.origin) })
    };
    hosts.iter().map(parse).collect()
}

/// A host in a rule or a setting that can't be understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidHost {
    /// Where it stands, and what is wrong with it.
    pub message: String,
}

impl fmt::Display for InvalidHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for InvalidHost {}

/// Why a host may not be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostRefusal {
    /// In words for the model, with what would allow it.
    pub(crate) why: String,
    /// Whether a grant for this host and port would open it.
    pub(crate) grantable: bool,
}

impl HostRefusal {
    /// For a reason that a grant removes.
    pub(crate) fn grantable(why: impl Into<String>) -> HostRefusal {
        HostRefusal { why: why.into(), grantable: true }
    }

    /// For a reason that no grant removes.
    pub(crate) fn for_good(why: impl Into<String>) -> HostRefusal {
        HostRefusal { why: why.into(), grantable: false }
    }
}
