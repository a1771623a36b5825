//! The session's network: a namespace with nothing but a loopback, and the sockets on it that the host
//! listens on.
//!
//! The sockets are bound inside and listened on outside: nothing has to run in the namespace, and no socket
//! file lies anywhere. A process that ends at once makes it and sends its descriptors, because the helper
//! can't return to the host's network once it has left it, and children that were granted that need it. It is
//! a process and no thread, since the helper has one thread throughout its life: a thread that has just ended
//! would still be counted for a moment.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, Result};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::process::{WaitId, WaitIdOptions, waitid};

use crate::sys::{self, ForkSide, OneThread};
use crate::wire;

/// Where programs find the proxy.
pub(crate) const PROXY_PORT: u16 = 3128;
/// Where programs find the name server.
pub(crate) const NAMES_PORT: u16 = 53;
/// How many connections wait until they are accepted.
const BACKLOG: i32 = 128;

/// The namespace, and what is bound in it.
pub(crate) struct SessionNetwork {
    pub(crate) namespace: OwnedFd,
    /// Proxy, name server by UDP, by TCP, and the other ports.
    pub(crate) listeners: Vec<OwnedFd>,
}

/// Makes it, with these ports bound beside our own.
///
/// # Errors
/// Why not, as a message.
pub(crate) fn make_session_network(
    one_thread: &OneThread,
    ports: &[u16],
) -> std::result::Result<SessionNetwork, String> {
    make_in_child(one_thread, ports)
        .map_err(|errno| format!("no network namespace can be made: {}", std::io::Error::from(errno)))
}

fn make_in_child(one_thread: &OneThread, ports: &[u16]) -> Result<SessionNetwork> {
    let (ours, theirs) =
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    match sys::fork_into(one_thread, 0)? {
        ForkSide::Child => {
            let made = bind_listeners(ports).and_then(|network| {
                let namespace = [network.namespace.as_fd()].into_iter();
                let sent: Vec<_> = namespace.chain(network.listeners.iter().map(OwnedFd::as_fd)).collect();
                wire::send_message(theirs.as_fd(), &0i32.to_le_bytes(), &sent)
            });
            if let Err(errno) = made {
                let _ = wire::send_message(theirs.as_fd(), &errno.raw_os_error().to_le_bytes(), &[]);
            }
            sys::exit_now(0)
        }
        ForkSide::Parent(child) => {
            drop(theirs);
            let mut number = [0; 4];
            let received = wire::receive_message(ours.as_fd(), &mut number, RecvFlags::empty());
            // It has nothing more to do, and the helper doesn't collect its children yet.
            let _ = waitid(WaitId::PidFd(child.as_fd()), WaitIdOptions::EXITED);
            let (count, mut descriptors) = received?;
            match i32::from_le_bytes(number) {
                // The child ended without a message: it was killed.
                _ if count != number.len() => Err(Errno::CHILD),
                0 => {
                    let namespace = descriptors.pop_front().ok_or(Errno::PROTO)?;
                    Ok(SessionNetwork { namespace, listeners: descriptors.into() })
                }
                errno => Err(Errno::from_raw_os_error(errno)),
            }
        }
    }
}

/// Enters a new namespace and binds everything in it.
fn bind_listeners(ports: &[u16]) -> Result<SessionNetwork> {
    sys::unshare_namespaces(libc::CLONE_NEWNET)?;
    bring_loopback_up()?;
    let namespace = rustix::fs::open("/proc/self/ns/net", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut listeners = vec![
        bind_socket(SocketType::STREAM, PROXY_PORT)?,
        bind_socket(SocketType::DGRAM, NAMES_PORT)?,
        bind_socket(SocketType::STREAM, NAMES_PORT)?,
    ];
    for port in ports {
        listeners.push(bind_socket(SocketType::STREAM, *port)?);
    }
    Ok(SessionNetwork { namespace, listeners })
}

fn bind_socket(kind: SocketType, port: u16) -> Result<OwnedFd> {
    let socket = rustix::net::socket_with(AddressFamily::INET, kind, SocketFlags::CLOEXEC, None)?;
    rustix::net::bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))?;
    if kind == SocketType::STREAM {
        rustix::net::listen(&socket, BACKLOG)?;
    }
    Ok(socket)
}

/// Switches the loopback on, by the kernel's own messages: "set link 1, of its flags the one that says up".
pub(crate) fn bring_loopback_up() -> Result<()> {
    const NEW_LINK: u16 = 16;
    const REQUEST_AND_ACKNOWLEDGE: u16 = 1 | 4;
    const LOOPBACK: i32 = 1;
    const UP: u32 = 1;
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        // Routes, links and addresses are its protocol 0.
        None,
    )?;
    let mut message = Vec::new();
    message.extend(32u32.to_ne_bytes());
    message.extend(NEW_LINK.to_ne_bytes());
    message.extend(REQUEST_AND_ACKNOWLEDGE.to_ne_bytes());
    // Sequence and sender.
    message.extend([0; 8]);
    // Family and kind of device: any.
    message.extend([0; 4]);
    message.extend(LOOPBACK.to_ne_bytes());
    message.extend(UP.to_ne_bytes());
    // Which flags are meant.
    message.extend(UP.to_ne_bytes());
    rustix::net::send(socket.as_fd(), &message, SendFlags::empty())?;
    // The answer is a message of the same head, then an error number; zero says that it was done.
    let mut answer = [0u8; 256];
    let count = rustix::io::read(&socket, &mut answer)?;
    match answer[..count].get(16..20).and_then(|bytes| bytes.try_into().ok()).map(i32::from_ne_bytes) {
        Some(0) => Ok(()),
        Some(error) => Err(Errno::from_raw_os_error(-error)),
        None => Err(Errno::PROTO),
    }
}
