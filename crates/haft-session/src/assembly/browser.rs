//! The browser of sessions: which program, which ports of this machine, and who says what may be reached without a sandbox.

use std::sync::{Arc, Mutex, PoisonError};

use haft::env::Lookup;
use haft_sandbox::net::NetworkPolicy;
use haft_sandbox::net::host::{Host, HostRule};
use haft_tools::Browser;

use crate::loaded_settings::LoadedSettings;

/// The rules of sessions without a sandbox. Most programs have one; with several, a page needs them all to agree.
static RULES: Mutex<Vec<NetworkPolicy>> = Mutex::new(Vec::new());

/// Children of a session are not confined, so the browser asks here.
pub(super) fn asks_by(rules: NetworkPolicy) {
    RULES.lock().unwrap_or_else(PoisonError::into_inner).push(rules);
}

/// The browser as environment and settings want it. Starts nothing.
pub(super) fn browser(lookup: Lookup<'_>, given: &LoadedSettings) -> Browser {
    let here = Host::Name("localhost".into());
    let allowed = given.loaded.settings.sandbox.network.allowed_domains.iter();
    let ports = allowed.filter_map(|host| host.value.parse().ok()).filter_map(|rule: HostRule| {
        let usual = ["localhost", "127.0.0.1", "::1"].into_iter().filter_map(|name| Host::parse(name).ok());
        let opens = usual.chain([here.clone()]).any(|host| rule.opens(&host));
        rule.port().filter(|_| opens)
    });
    Browser::new().program(haft::env::chromium(lookup)).local_ports(ports).check(Arc::new(
        |host, port, grants| {
            let (host, grants) = (host.to_owned(), grants.to_vec());
            Box::pin(async move {
                let rules = RULES.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let looked = tokio::task::spawn_blocking(move || {
                    let grants: Vec<HostRule> =
                        grants.iter().filter_map(|grant| grant.parse().ok()).collect();
                    match rules.is_empty() {
                        true => Err("no rules are known that would allow it".to_owned()),
                        false => rules.iter().try_for_each(|rules| rules.check(&grants, &host, port)),
                    }
                });
                looked.await.unwrap_or_else(|_| Err("looking it up failed".to_owned()))
            })
        },
    ))
}
