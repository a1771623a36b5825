//! Hosts that a call isn't granted: the connection waits, one question is asked, and the same connection goes
//! on.

use std::io::{Read as _, Write as _};
use std::sync::mpsc;
use std::time::Duration;

use haft::ports::{
    ChildRequest, ChildRequestQueue, ChildRequests, ConfinementRefusal, HostAnswer, PendingRequest,
    WantedHost,
};

use super::super::limits::{self, NetworkTimeouts};
use super::{Net, NetworkPolicy, World, allowing, echo, header, hosts, is_closed, net, net_with, web};

/// Answers requests on a thread of its own. What was wanted is told before it is answered.
fn answering(
    mut queue: ChildRequestQueue,
    answer: impl Fn(&WantedHost) -> HostAnswer + Send + 'static,
) -> mpsc::Receiver<WantedHost> {
    let (tell, told) = mpsc::channel();
    on_thread(async move {
        while let Some(ChildRequest::Host(request)) = queue.next().await {
            let _ = tell.send(request.content().clone());
            let answer = answer(request.content());
            request.answer(answer);
        }
    });
    told
}

fn on_thread(work: impl Future<Output = ()> + Send + 'static) {
    std::thread::spawn(move || {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work);
    });
}

/// Package managers wait as long as a person may take, where there is one.
#[test]
fn package_managers_are_told_to_wait_where_a_person_answers() {
    let net = net(NetworkPolicy::new(), World::default());
    for has_user in [true, false] {
        let (requests, _queue) = ChildRequests::channel();
        let ticket = net.admit_asking(requests.with_user(has_user));
        let patience: Vec<_> = ticket
            .timeout_variables()
            .into_iter()
            .map(|(name, value)| format!("{}={}", name.display(), value.display()))
            .collect();
        let expected = ["PIP_TIMEOUT=600", "npm_config_fetch_timeout=600000"].map(str::to_owned);
        assert_eq!(expected.iter().all(|setting| patience.contains(setting)), has_user, "{patience:?}");
        assert_eq!(patience.is_empty(), !has_user);
    }
}

/// The next request, without an answer yet.
fn next(queue: &mut ChildRequestQueue) -> PendingRequest<WantedHost, HostAnswer> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let Some(ChildRequest::Host(request)) = runtime.block_on(queue.next()) else { panic!() };
    request
}

fn yes(wanted: &WantedHost) -> HostAnswer {
    let others = wanted.group.iter().flat_map(|group| group.hosts.clone());
    HostAnswer::Granted(others.chain([wanted.host.clone()]).collect())
}

fn no(_: &WantedHost) -> HostAnswer {
    HostAnswer::Refused("the user said no".into())
}

/// Asks for a tunnel and doesn't wait for the answer.
fn begin_tunnel(net: &Net, ticket: &super::NetworkTicket, to: &str) -> std::net::TcpStream {
    let mut stream = net.connect();
    write!(stream, "CONNECT {to} HTTP/1.1\r\n{}\r\n", header(ticket)).unwrap();
    stream
}

fn status(stream: &mut std::net::TcpStream) -> String {
    let mut status = [0; 12];
    stream.read_exact(&mut status).unwrap();
    String::from_utf8_lossy(&status).into_owned()
}

#[test]
fn connections_wait_for_one_answer_and_go_on() {
    let world = World::default();
    world.machine("a.example", 8080, echo());
    let net = net(NetworkPolicy::new(), world);
    let (requests, mut queue) = ChildRequests::channel();
    let ticket = net.admit_asking(requests);
    let mut tunnels: Vec<_> = (0..3).map(|_| begin_tunnel(&net, &ticket, "a.example:8080")).collect();
    let request = next(&mut queue);
    assert_eq!(
        *request.content(),
        WantedHost {
            host: "a.example".into(),
            port: 8080,
            port_rule: Some("a.example:8080".into()),
            group: None
        }
    );
    assert!(net.world.resolved.lock().unwrap().is_empty(), "no name is looked up before the answer");
    request.answer(HostAnswer::Granted(vec!["a.example".into()]));
    for tunnel in &mut tunnels {
        assert_eq!(status(tunnel), "HTTP/1.1 200");
    }
    // Another port is another matter.
    let told = answering(queue, no);
    let (_, answer) = net.try_tunnel(&ticket, "a.example:22");
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    assert_eq!(told.recv().unwrap().port, 22);
    assert!(told.try_recv().is_err(), "three connections, one question");
}

#[test]
fn a_plain_request_waits_too() {
    let (address, seen) = web();
    let world = World::default();
    world.machine("a.example", 80, address);
    let net = net(NetworkPolicy::new(), world);
    let (requests, queue) = ChildRequests::channel();
    let told = answering(queue, yes);
    let ticket = net.admit_asking(requests);
    let answer = net.ask(&ticket, "GET http://a.example/x HTTP/1.1", "\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("hello"), "{answer}");
    assert!(seen.recv().unwrap().starts_with("GET /x HTTP/1.1"));
    let wanted = told.recv().unwrap();
    assert_eq!((&*wanted.host, wanted.port, wanted.port_rule), ("a.example", 80, None));
    assert_eq!(ticket.refusals(), []);
}

#[test]
fn one_answer_is_for_all_registries_but_for_denied_ones() {
    let (address, _seen) = web();
    let world = World::default();
    for host in ["pypi.org", "files.pythonhosted.org", "static.crates.io"] {
        world.machine(host, 80, address);
    }
    let policy = NetworkPolicy::new().with_denied(["static.crates.io".parse().unwrap()]);
    let net = net(policy, world);
    let (requests, queue) = ChildRequests::channel();
    let told = answering(queue, yes);
    let ticket = net.admit_asking(requests);
    for host in ["pypi.org", "files.pythonhosted.org"] {
        let answer = net.ask(&ticket, &format!("GET http://{host}/ HTTP/1.1"), "\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 "), "{host}: {answer}");
    }
    let group = told.recv().unwrap().group.unwrap();
    assert_eq!((&*group.name, &*group.note), ("package registries", "registries also accept uploads"));
    assert!(group.hosts.iter().any(|host| host == "registry.npmjs.org"));
    assert!(!group.hosts.iter().any(|host| host == "static.crates.io"));
    let answer = net.ask(&ticket, "GET http://static.crates.io/ HTTP/1.1", "\r\n");
    assert!(answer.contains("the rule `static.crates.io` denies"), "{answer}");
    assert!(told.try_recv().is_err(), "nobody is asked a second time");
}

#[test]
fn a_refusal_counts_for_the_call_and_says_what_would_help() {
    let net = net(NetworkPolicy::new(), World::default());
    let (requests, queue) = ChildRequests::channel();
    let told = answering(queue, no);
    let ticket = net.admit_asking(requests);
    for host in ["pypi.org", "pypi.org", "files.pythonhosted.org"] {
        let answer = net.ask(&ticket, &format!("GET http://{host}/ HTTP/1.1"), "\r\n");
        assert!(
            answer.starts_with("HTTP/1.1 403 ") && answer.contains("haft: the user said no; "),
            "{answer}"
        );
        assert!(answer.contains(r#"{"presets": ["package-registries"]}"#), "{answer}");
    }
    assert_eq!(told.iter().take(1).count() + told.try_iter().count(), 1);
    let refused: Vec<_> = hosts(&ticket.refusals()).into_iter().map(|(host, ..)| host).collect();
    assert_eq!(refused, ["pypi.org", "files.pythonhosted.org"]);
    assert!(matches!(&ticket.refusals()[0], ConfinementRefusal::Host { grantable: true, .. }));
    assert!(net.world.resolved.lock().unwrap().is_empty());
}

#[test]
fn nobody_is_asked_about_what_no_answer_opens() {
    let denied = NetworkPolicy::new().with_denied(["*.denied.example".parse().unwrap()]);
    for (policy, to) in [
        (denied.clone(), "a.denied.example:443"),
        (denied, "169.254.169.254:80"),
        (NetworkPolicy::new().without_questions(), "a.example:443"),
    ] {
        let net = net(policy, World::default());
        let (requests, queue) = ChildRequests::channel();
        let told = answering(queue, yes);
        let ticket = net.admit_asking(requests);
        assert!(net.try_tunnel(&ticket, to).1.starts_with("HTTP/1.1 403 "), "{to}");
        assert!(told.try_recv().is_err(), "{to}");
    }
}

#[test]
fn a_question_without_an_answer_ends_and_is_withdrawn() {
    let times = NetworkTimeouts { question: Duration::from_millis(100), ..NetworkTimeouts::default() };
    let net = net_with(NetworkPolicy::new(), World::default(), times);
    let (requests, mut queue) = ChildRequests::channel();
    let ticket = net.admit_asking(requests);
    let mut tunnel = begin_tunnel(&net, &ticket, "a.example:443");
    let mut request = next(&mut queue);
    let mut answer = String::new();
    tunnel.read_to_string(&mut answer).unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 403 ") && answer.contains("the user did not answer within"),
        "{answer}"
    );
    let withdrawn = async { request.withdrawn().await };
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(withdrawn);
}

#[test]
fn the_end_of_the_call_withdraws_its_question() {
    let net = net(NetworkPolicy::new(), World::default());
    let (requests, mut queue) = ChildRequests::channel();
    let ticket = net.admit_asking(requests);
    let mut tunnel = begin_tunnel(&net, &ticket, "a.example:443");
    let mut request = next(&mut queue);
    drop(ticket);
    let withdrawn = async { request.withdrawn().await };
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(withdrawn);
    assert!(is_closed(&mut tunnel));
}

#[test]
fn a_bounded_number_of_connections_waits() {
    let net = net(NetworkPolicy::new(), World::default());
    let (requests, mut queue) = ChildRequests::channel();
    let ticket = net.admit_asking(requests);
    let mut waiting: Vec<_> =
        (0..=limits::CALL_PARKED_MAX).map(|_| begin_tunnel(&net, &ticket, "a.example:443")).collect();
    let request = next(&mut queue);
    // Of all of them one is answered before the question is.
    let (tell, told) = mpsc::channel();
    let readers: Vec<_> = waiting
        .drain(..)
        .map(|mut stream| {
            let tell = tell.clone();
            std::thread::spawn(move || {
                let mut answer = String::new();
                stream.read_to_string(&mut answer).unwrap();
                tell.send(answer).unwrap();
            })
        })
        .collect();
    let first = told.recv().unwrap();
    assert!(first.contains("64 connections of this call wait for an answer already"), "{first}");
    request.answer(HostAnswer::Refused("no".into()));
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    let rest: Vec<String> = told.try_iter().collect();
    assert!(rest.len() == limits::CALL_PARKED_MAX && rest.iter().all(|answer| answer.contains("haft: no")));
}

#[test]
fn a_private_host_leads_to_its_range_and_nowhere_else() {
    let (address, _seen) = web();
    let world = World::default();
    for (host, to) in [
        ("mirror.example", "10.7.0.1"),
        ("out-of-range.example", "10.8.0.1"),
        ("metadata.example", "100.100.100.200"),
        ("link.example", "169.254.1.1"),
        ("loop.example", "127.0.0.1"),
        ("other.test", "10.7.0.1"),
    ] {
        world.name(host, &[&[to]]);
        world.at(&format!("{to}:80"), address);
    }
    let policy = allowing(&["*"])
        .with_private_host("*.example".parse().unwrap(), "10.7.0.0/16".parse().unwrap())
        .with_private_host("metadata.example".parse().unwrap(), "100.64.0.0/10".parse().unwrap());
    let net = net(policy, world);
    let ticket = net.admit(&[]);
    let ask = |host: &str| net.ask(&ticket, &format!("GET http://{host}/ HTTP/1.1"), "\r\n");
    assert!(ask("mirror.example").starts_with("HTTP/1.1 200 "));
    for host in ["out-of-range.example", "metadata.example", "link.example", "loop.example", "other.test"] {
        let answer = ask(host);
        assert!(
            answer.starts_with("HTTP/1.1 403 ") && answer.contains("leads to no public address"),
            "{answer}"
        );
    }
    let hint = r#"add {"host": "other.test", "cidr": "10.7.0.1/32"} to `sandbox.network.privateHosts` in your own settings"#;
    assert!(ask("other.test").contains(hint));
    assert!(!ask("loop.example").contains("privateHosts"));
    // Where it may lead says nothing about whether it may be reached.
    let policy = NetworkPolicy::new()
        .with_private_host("mirror.example".parse().unwrap(), "10.7.0.0/16".parse().unwrap());
    let closed = super::net(policy, World::default());
    let ticket = closed.admit(&[]);
    let answer = closed.ask(&ticket, "GET http://mirror.example/ HTTP/1.1", "\r\n");
    assert!(answer.contains("no rule allows `mirror.example`"), "{answer}");
}
