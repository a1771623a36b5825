//! Name resolution, address checks, and connections to checked addresses.
//!
//! A name is resolved once. Every address of the result is checked, and only a checked address is
//! dialled. This defeats DNS rebinding, where a second lookup returns another address.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::pin::Pin;

use tokio::net::TcpStream;

use crate::address::{self, AddressKind, NonPublicAddress, PrivateRange};
use crate::host::Host;

/// A pending connection.
pub type ConnectFuture = Pin<Box<dyn Future<Output = io::Result<TcpStream>> + Send>>;

/// Access to the network; tests replace it.
pub trait NetworkAccess: Send + Sync + 'static {
    /// Resolves a name to its addresses. May block, so callers run it on a blocking thread.
    ///
    /// # Errors
    /// The name doesn't exist, or no resolver answers.
    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;

    /// Connects to exactly this address.
    fn dial(&self, address: SocketAddr) -> ConnectFuture;
}

/// The system's resolver and network.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemNetwork;

impl NetworkAccess for SystemNetwork {
    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect())
    }

    fn dial(&self, address: SocketAddr) -> ConnectFuture {
        Box::pin(TcpStream::connect(address))
    }
}

/// Which non-public addresses an allowed host may resolve to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AddressAllowance {
    /// Addresses of this machine.
    pub local: bool,
    /// Any private address.
    pub private: bool,
    /// Private addresses within these ranges.
    pub ranges: Vec<PrivateRange>,
}

impl AddressAllowance {
    /// Returns whether a non-public address is allowed. Link-local addresses, metadata services and
    /// other special addresses are never allowed.
    pub fn allows(&self, address: &NonPublicAddress) -> bool {
        let own = address.embedded.map_or(address.address, IpAddr::V4);
        match address.kind {
            AddressKind::Loopback => self.local,
            AddressKind::Private => self.private || self.ranges.iter().any(|range| range.contains(own)),
            _ => false,
        }
    }
}

/// Returns the addresses of a host that may be dialled, in their original order.
///
/// ```
/// use haft_net::host::Host;
/// use haft_net::network_access::{AddressAllowance, retain_allowed};
///
/// let host = Host::parse("example.com").unwrap();
/// let addresses = ["10.0.0.1".parse().unwrap(), "1.1.1.1".parse().unwrap()];
/// let public_only = AddressAllowance::default();
/// assert_eq!(retain_allowed(&host, addresses.to_vec(), &public_only).unwrap(), addresses[1..]);
/// assert!(retain_allowed(&host, addresses[..1].to_vec(), &public_only).is_err());
/// ```
///
/// # Errors
/// There are addresses, and none of them is allowed; the message names the first refused one.
pub fn retain_allowed(
    host: &Host,
    mut addresses: Vec<IpAddr>,
    allowance: &AddressAllowance,
) -> Result<Vec<IpAddr>, String> {
    let mut first_refusal: Option<NonPublicAddress> = None;
    addresses.retain(|address| match address::check(*address) {
        Ok(()) => true,
        Err(refusal) if allowance.allows(&refusal) => true,
        Err(refusal) => {
            first_refusal.get_or_insert(refusal);
            false
        }
    });
    match first_refusal {
        Some(refusal) if addresses.is_empty() => Err(match host {
            Host::Name(_) if refusal.kind == AddressKind::Private => format!(
                "`{host}` leads to no public address: {refusal}; `WebFetch(domain:{})` opens that \
                 address, if it is given in place of the name",
                Host::Address(refusal.address).bracketed()
            ),
            Host::Name(_) => format!("`{host}` leads to no public address: {refusal}"),
            Host::Address(_) if refusal.kind == AddressKind::Private => {
                format!(
                    "{refusal}; only a rule that names it opens it, `WebFetch(domain:{})`",
                    host.bracketed()
                )
            }
            Host::Address(_) => format!("{refusal}, and no rule can open that"),
        }),
        _ => Ok(addresses),
    }
}
