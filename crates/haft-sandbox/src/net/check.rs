//! The same rules for who has no sandbox around it: whether a host may be reached, said before somebody
//! reaches it.
//!
//! Weaker than the proxy: whoever asks looks the name up once more, and may be told another address then.

use std::net::{IpAddr, Ipv4Addr, ToSocketAddrs as _};

use super::address;
use super::host::{Host, HostRule};
use super::policy::NetworkPolicy;

impl NetworkPolicy {
    /// Whether a host may be reached by who was granted these beside the session's rules, and leads to
    /// addresses that may be. Looks the name up, which blocks.
    ///
    /// # Errors
    /// Why not, and what would allow it.
    pub fn check(&self, grants: &[HostRule], host: &str, port: u16) -> Result<(), String> {
        let host = Host::parse(host).map_err(|bad| bad.to_string())?;
        let pass = self.judge(grants, &host, port).map_err(|refused| refused.why)?;
        let addresses: Vec<IpAddr> = match &host {
            Host::Address(address) => vec![*address],
            host if host.is_local() => vec![Ipv4Addr::LOCALHOST.into()],
            Host::Name(name) => {
                let found = (&**name, port).to_socket_addrs();
                let found = found.map_err(|error| format!("`{name}` can't be looked up: {error}"))?;
                found.map(|address| address.ip()).collect()
            }
        };
        // All of them: which one is taken is not ours to say.
        for found in addresses {
            match address::check(found) {
                Ok(()) => {}
                Err(no) if pass.allows(&no) => {}
                Err(no) => return Err(format!("`{host}` does not lead to public addresses only: {no}")),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_and_addresses_both_have_to_agree() {
        let rules =
            |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<HostRule>>();
        let policy =
            NetworkPolicy::new().with_allowed(rules(&["10.0.0.7", "localhost:5173", "93.184.216.34"]));
        let check = |grants: &[&str], host: &str, port: u16, expected: &str| {
            let found = policy.check(&rules(grants), host, port).err().unwrap_or_default();
            assert!(
                if expected.is_empty() { found.is_empty() } else { found.contains(expected) },
                "{host}: {found}"
            );
        };
        check(&[], "93.184.216.34", 443, "");
        check(&[], "10.0.0.7", 80, "");
        check(&[], "localhost", 5173, "");
        check(&[], "localhost", 5174, "only a rule with its port");
        check(&[], "example.com", 443, "no rule allows `example.com`");
        check(&["169.254.169.254"], "169.254.169.254", 80, "no rule can open that");
        check(&[], "127.1", 80, "is a number and no name");
    }
}
