//! URLs parse as in browsers: the tables of the web platform tests.

use std::net::IpAddr;
use std::path::Path;

use haft_net::address::check;
use haft_net::fetch::FetchTarget;
use haft_net::host::Host;
use serde_json::Value;

fn table(name: &str) -> Option<Vec<Value>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/wpt-url").join(name);
    match std::fs::read_to_string(path) {
        Ok(text) => Some(serde_json::from_str(&text).unwrap()),
        Err(_) => {
            eprintln!("skipped: ../shared/data/wpt-url/{name} is not here");
            None
        }
    }
}

#[test]
fn hosts_are_those_that_browsers_find() {
    let Some(rows) = table("urltestdata.json") else { return };
    let (mut same, mut refused) = (0, 0);
    for row in rows.iter().filter(|row| row.is_object()) {
        let input = row["input"].as_str().unwrap();
        let base = row["base"].as_str().filter(|base| *base != "about:blank");
        let target = match base.and_then(|base| FetchTarget::parse(base).ok()) {
            Some(base) => base.join(input),
            None => FetchTarget::parse(input),
        };
        let Ok(target) = target else {
            refused += 1;
            continue;
        };
        assert_ne!(row["failure"], true, "{input} was taken for {target}");
        let hostname = row["hostname"].as_str().unwrap();
        let wanted = Host::parse(hostname).unwrap();
        assert_eq!(*target.host(), wanted, "{input}");
        assert!(row["username"] == "" && row["password"] == "", "{input}");
        assert!(matches!(row["protocol"].as_str(), Some("http:" | "https:")), "{input}");
        same += 1;
    }
    assert!(same > 100 && refused > 100, "{same} {refused}");
}

#[test]
fn addresses_in_any_spelling_are_checked_as_what_they_are() {
    let Some(rows) = table("derived_ip_hosts.json") else { return };
    let mut seen = 0;
    for row in &rows {
        let input = row["input"].as_str().unwrap();
        let base = FetchTarget::parse(row["base"].as_str().unwrap_or("http://example.org/")).unwrap();
        let Ok(target) = base.join(input) else { continue };
        let Host::Address(address) = target.host() else { panic!("{input} is no name: {target}") };
        let shown: IpAddr = row["hostname"].as_str().unwrap().trim_matches(['[', ']']).parse().unwrap();
        assert_eq!(*address, shown.to_canonical(), "{input}");
        if row["class"] == "non-global" {
            assert!(check(*address).is_err(), "{input} is {address}");
            seen += 1;
        }
    }
    assert!(seen > 5, "{seen}");
}
