//! The browser of sessions: its program, and the ports of this machine that it may reach.

use haft::env::VariableLookup;
use haft_sandbox::net::host::{Host, HostRule};
use haft_tools::Browser;

use crate::loaded_settings::LoadedSettings;

/// Returns the browser of environment and settings. Starts nothing.
pub(super) fn build_browser(lookup: VariableLookup<'_>, given: &LoadedSettings) -> Browser {
    let here = Host::Name("localhost".into());
    let allowed = given.loaded.settings.sandbox.network.allowed_domains.iter();
    let ports = allowed.filter_map(|host| host.value.parse().ok()).filter_map(|rule: HostRule| {
        let usual = ["localhost", "127.0.0.1", "::1"].into_iter().filter_map(|name| Host::parse(name).ok());
        let opens = usual.chain([here.clone()]).any(|host| rule.opens(&host));
        rule.port().filter(|_| opens)
    });
    Browser::new().program(haft::env::chromium_path(lookup)).local_ports(ports)
}
