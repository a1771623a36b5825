//! The proxy for requests to a provider, from the usual environment variables.
//!
//! `HTTPS_PROXY` applies to `https:`, `HTTP_PROXY` to `http:`, `ALL_PROXY` to both; lower case names take
//! precedence. There is no proxy for hosts that `NO_PROXY` lists, nor for this machine itself.

use std::net::IpAddr;

use haft::env::VariableLookup;

/// Returns the proxy for a base URL, if there is one.
pub fn proxy_for(base_url: &str, lookup: VariableLookup<'_>) -> Option<String> {
    let (scheme, rest) = base_url.split_once("://")?;
    let host = host_part(rest);
    let set = |name: &str| {
        let small = lookup(&name.to_lowercase()).or_else(|| lookup(name));
        small?.into_string().ok().map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
    };
    if is_own(host) || set("NO_PROXY").is_some_and(|list| lists_host(&list, host)) {
        return None;
    }
    let own = if scheme == "https" { "HTTPS_PROXY" } else { "HTTP_PROXY" };
    set(own).or_else(|| set("ALL_PROXY"))
}

/// Returns the host in the text after `//`.
fn host_part(rest: &str) -> &str {
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let authority = authority.rsplit('@').next().unwrap_or_default();
    match authority.strip_prefix('[') {
        Some(six) => six.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    }
}

fn is_own(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Returns whether a list contains a host: `*`, the host itself, or one of its parent domains.
fn lists_host(list: &str, host: &str) -> bool {
    let host = host.to_ascii_lowercase();
    list.split(',').map(|entry| entry.trim().to_ascii_lowercase()).filter(|entry| !entry.is_empty()).any(
        |entry| {
            let domain = entry.trim_start_matches("*.").trim_start_matches('.');
            entry == "*"
                || host == domain
                || host.strip_suffix(domain).is_some_and(|before| before.ends_with('.'))
        },
    )
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    #[test]
    fn variables_name_the_proxy() {
        let check = |url: &str, variables: &[(&str, &str)], expected: Option<&str>| {
            let lookup = |name: &str| {
                variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
            };
            assert_eq!(proxy_for(url, &lookup).as_deref(), expected, "{url} {variables:?}");
        };
        let https = ("HTTPS_PROXY", "http://p:1");
        check("https://api.example/v1", &[https], Some("http://p:1"));
        check("https://api.example/v1", &[https, ("https_proxy", "http://q:2")], Some("http://q:2"));
        check("http://api.example", &[https], None);
        check("http://api.example", &[("ALL_PROXY", "http://a:3")], Some("http://a:3"));
        check("https://127.0.0.1:8080", &[https], None);
        check("https://[::1]:8080/v1", &[https], None);
        check("https://localhost", &[https], None);
        for no in ["*", "api.example", ".example", "other, example", "*.example", "API.EXAMPLE"] {
            check("https://api.example", &[https, ("NO_PROXY", no)], None);
        }
        for no in ["", "pi.example", "other.example"] {
            check("https://api.example", &[https, ("no_proxy", no)], Some("http://p:1"));
        }
    }
}
