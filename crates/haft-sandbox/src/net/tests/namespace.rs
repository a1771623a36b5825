//! The real thing: sockets that were bound in another network namespace and handed out. Passed over with a
//! word where such a namespace can't be made.

use std::io::{BufRead as _, BufReader, IoSliceMut, Write as _};
use std::mem::MaybeUninit;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};
use std::sync::Arc;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use super::super::limits::NetworkTimeouts;
use super::super::{NetworkListeners, SessionProxy};
use super::{World, allowing, hosts, web};

/// Binds, hands out, waits for the address of the proxy, and then tries what it can.
const INSIDE: &str = r#"
import fcntl, os, socket, struct, sys, urllib.request
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
fcntl.ioctl(s, 0x8914, struct.pack('16sH14s', b'lo', 0x49, b''))
proxy, tcp = socket.socket(), socket.socket()
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for it, port in (proxy, 3128), (udp, 53), (tcp, 53):
    it.bind(('127.0.0.1', port))
proxy.listen(64); tcp.listen(8)
out = socket.socket(socket.AF_UNIX)
out.connect(sys.argv[1])
socket.send_fds(out, [b'x'], [proxy.fileno(), udp.fileno(), tcp.fileno()])
for it in proxy, udp, tcp, out:
    it.close()
os.environ['http_proxy'] = sys.stdin.readline().strip()
def attempt(what):
    try:
        return what()
    except Exception as error:
        return type(error).__name__ + ' ' + str(error)
print(attempt(lambda: urllib.request.urlopen('http://good.example/x', timeout=30).read()))
print(attempt(lambda: urllib.request.urlopen('http://bad.example/x', timeout=30).read()))
print(attempt(lambda: socket.create_connection(('1.1.1.1', 80), timeout=30)))
question = bytes.fromhex('abcd01000001000000000000') + b'\4asks\7example\0' + bytes([0, 1, 0, 1])
s.connect(('127.0.0.1', 53)); s.settimeout(30); s.send(question)
print(s.recv(512)[3])
"#;

#[test]
fn sockets_of_another_network_are_served_from_this_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    let listener = UnixListener::bind(&path).unwrap();
    let mut child = Command::new("unshare");
    child.args(["--user", "--map-root-user", "--net", "python3", "-c", INSIDE]).arg(&path);
    child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut child) = child.spawn() else { return eprintln!("skipped: `unshare` doesn't start") };
    listener.set_nonblocking(true).unwrap();
    let outward = loop {
        if let Ok((outward, _)) = listener.accept() {
            break outward;
        }
        if child.try_wait().unwrap().is_some() {
            let output = child.wait_with_output().unwrap();
            let why = String::from_utf8_lossy(&output.stderr);
            return eprintln!("skipped: no network of its own can be made here: {why}");
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    };
    let mut sockets = descriptors(&outward).into_iter();
    let proxy = TcpListener::from(sockets.next().unwrap());
    let dns = (UdpSocket::from(sockets.next().unwrap()), TcpListener::from(sockets.next().unwrap()));

    let (address, _seen) = web();
    let world = World::default();
    world.machine("good.example", 80, address);
    let listeners = NetworkListeners { proxy, dns: Some(dns), host_ports: Vec::new() };
    let policy = allowing(&["good.example"]);
    let network =
        SessionProxy::start_with(listeners, policy, Arc::new(world), NetworkTimeouts::default()).unwrap();
    let ticket = network.admit(&[], None, None).unwrap();
    let (_, url) = ticket.env().into_iter().find(|(name, _)| name == "http_proxy").unwrap();
    assert!(url.to_str().unwrap().ends_with("@127.0.0.1:3128"));
    writeln!(child.stdin.take().unwrap(), "{}", url.display()).unwrap();

    let lines: Vec<String> =
        BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap).collect();
    child.wait().unwrap();
    let [good, bad, direct, refused] = &*lines else { panic!("{lines:?}") };
    assert_eq!((&**good, &**refused), ("b'hello'", "5"));
    assert!(bad.starts_with("HTTPError HTTP Error 403"), "{bad}");
    assert!(direct.starts_with("OSError") && direct.contains("unreachable"), "{direct}");
    let told: Vec<_> = hosts(&ticket.refusals()).into_iter().map(|(host, port, _)| (host, port)).collect();
    assert_eq!(told, [("bad.example".into(), Some(80)), ("asks.example".into(), None)]);
}

fn descriptors(from: &std::os::unix::net::UnixStream) -> Vec<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    recvmsg(from, &mut [IoSliceMut::new(&mut [0])], &mut control, RecvFlags::CMSG_CLOEXEC).unwrap();
    let messages = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    messages.flatten().collect()
}
