//! What names lead to: every address is checked, and the checked one is dialled.

use haft::ports::ConfinementRefusal;

use super::{PUBLIC, World, allowing, hosts, net, web};

/// The status for a request to `a.example:80`, whom it was dialled for, and the words of a refusal.
fn asked(looks: &[&[&str]], private: bool) -> (String, Vec<String>, String) {
    let (address, _seen) = web();
    let world = World::default();
    world.name("a.example", looks);
    for machine in looks.iter().flat_map(|look| look.iter()) {
        let machine = if machine.contains(':') { format!("[{machine}]:80") } else { format!("{machine}:80") };
        world.at(&machine, address);
    }
    let net = net(allowing(&["a.example"]).with_private_addresses(private), world);
    let ticket = net.admit(&[]);
    let answer = net.ask(&ticket, "GET http://a.example/ HTTP/1.1", "\r\n");
    let why = hosts(&ticket.refusals()).pop().map(|(_, _, why)| why).unwrap_or_default();
    (answer[9..12].to_owned(), net.world.dialled(), why)
}

#[test]
fn only_public_addresses_are_dialled() {
    assert_eq!(asked(&[&[PUBLIC]], false), ("200".into(), vec![format!("{PUBLIC}:80")], String::new()));
    let mixed: &[&str] = &["127.0.0.1", "10.0.0.1", PUBLIC, "fe80::1"];
    assert_eq!(asked(&[mixed], false), ("200".into(), vec![format!("{PUBLIC}:80")], String::new()));
    for (address, what) in [
        ("127.0.0.1", "`127.0.0.1` is an address of this machine"),
        ("10.1.2.3", "`10.1.2.3` is a private address"),
        ("169.254.169.254", "`169.254.169.254` is the metadata service of a cloud"),
        ("::ffff:192.168.0.1", "`::ffff:192.168.0.1` holds `192.168.0.1`, a private address"),
        ("64:ff9b::7f00:1", "`64:ff9b::7f00:1` holds `127.0.0.1`, an address of this machine"),
        ("2002:7f00:1::", "`2002:7f00:1::` is a 6to4 address, with IPv4 inside"),
        ("0.0.0.0", "`0.0.0.0` is an address of this machine"),
        ("ff02::1", "`ff02::1` is a multicast address"),
    ] {
        let (status, dialled, why) = asked(&[&[address]], false);
        assert_eq!((&*status, dialled.len()), ("403", 0), "{address}");
        assert!(why.starts_with(&format!("`a.example` leads to no public address: {what}")), "{why}");
    }
}

#[test]
fn private_addresses_may_be_allowed_and_nothing_else_with_them() {
    for address in ["10.1.2.3", "192.168.0.1", "100.64.0.1", "fd12::1"] {
        assert_eq!(
            (asked(&[&[address]], false).0, asked(&[&[address]], true).0),
            ("403".into(), "200".into()),
            "{address}"
        );
    }
    for address in
        ["127.0.0.1", "::1", "169.254.0.1", "100.100.100.200", "fd00:ec2::254", "224.0.0.1", "0.0.0.0"]
    {
        assert_eq!(asked(&[&[address]], true).0, "403", "{address}");
    }
}

#[test]
fn a_name_that_changes_its_mind_is_looked_up_once_a_connection() {
    let (address, _seen) = web();
    let world = World::default();
    world.name("a.example", &[&[PUBLIC], &["127.0.0.1"]]);
    world.at(&format!("{PUBLIC}:80"), address);
    world.at("127.0.0.1:80", address);
    let net = net(allowing(&["a.example"]), world);
    let ticket = net.admit(&[]);
    let ask = || net.ask(&ticket, "GET http://a.example/ HTTP/1.1", "\r\n");
    assert!(ask().starts_with("HTTP/1.1 200 "));
    assert!(ask().starts_with("HTTP/1.1 403 "));
    assert_eq!(net.world.dialled(), [format!("{PUBLIC}:80")]);
}

#[test]
fn an_address_in_place_of_a_name_needs_a_rule_of_its_own() {
    let (address, _seen) = web();
    let world = World::default();
    for machine in ["1.2.3.4:80", "10.0.0.5:80", "[2606:4700::1]:80"] {
        world.at(machine, address);
    }
    let net = net(allowing(&["*"]), world);
    let (any, named) =
        (net.admit(&[]), net.admit(&["1.2.3.4", "10.0.0.5", "[2606:4700::1]", "169.254.169.254"]));
    let ask =
        |ticket, host| net.ask(ticket, &format!("GET http://{host}/ HTTP/1.1"), "\r\n")[9..12].to_owned();
    for host in ["1.2.3.4", "10.0.0.5", "[2606:4700::1]", "[::ffff:10.0.0.5]"] {
        assert_eq!((ask(&any, host), ask(&named, host)), ("403".into(), "200".into()), "{host}");
    }
    assert_eq!(ask(&named, "169.254.169.254"), "403");
    let why = |ticket: &super::NetworkTicket| hosts(&ticket.refusals())[0].2.clone();
    assert_eq!(
        why(&any),
        "`1.2.3.4` is an address, and only a rule that names it opens one; `WebFetch(domain:1.2.3.4)` would, or use \
         the name"
    );
    assert!(
        why(&named).ends_with("is the metadata service of a cloud, and no rule can open that"),
        "{}",
        why(&named)
    );
    for host in ["127.1", "2130706433", "0x7f000001", "0177.0.0.1", "1.2.3.04", "1.2.3.4."] {
        assert_eq!(ask(&named, host), "400", "{host}");
    }
}

#[test]
fn names_that_lead_nowhere_are_no_refusals() {
    let world = World::default();
    world.name("nobody.example", &[&[PUBLIC]]);
    world.name("empty.example", &[&[]]);
    let net = net(allowing(&["*"]), world);
    let ticket = net.admit(&[]);
    for host in ["nobody.example", "empty.example", "unknown.example"] {
        let answer = net.ask(&ticket, &format!("GET http://{host}/ HTTP/1.1"), "\r\n");
        assert!(answer.starts_with("HTTP/1.1 502 ") && answer.contains(host), "{answer}");
    }
    // Known, and nothing that a grant would change.
    let told = ticket.refusals();
    assert_eq!(told.len(), 3);
    assert!(told.iter().all(|told| matches!(told, ConfinementRefusal::Unreached { .. })), "{told:?}");
}
