//! The way out: what names lead to, and connections to addresses that were checked.
//!
//! A name is resolved once; every address that comes of it is checked, and only an address that passed is dialled. A
//! name that leads elsewhere on the second look (rebinding) finds nobody who looks twice.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::pin::Pin;

use tokio::net::TcpStream;

use crate::address::{self, Kind, NotPublic, PrivateRange};
use crate::host::Host;

/// A connection that is being made.
pub type Dialling = Pin<Box<dyn Future<Output = io::Result<TcpStream>> + Send>>;

/// What is outside; tests have their own.
pub trait Outside: Send + Sync + 'static {
    /// The addresses of a name. May block; to be called from a thread for that.
    ///
    /// # Errors
    /// There is no such name, or nobody can be asked.
    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;

    /// Connects to exactly this address.
    fn dial(&self, address: SocketAddr) -> Dialling;
}

/// The machine's own resolver and network.
#[derive(Debug, Clone, Copy, Default)]
pub struct Internet;

impl Outside for Internet {
    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect())
    }

    fn dial(&self, address: SocketAddr) -> Dialling {
        Box::pin(TcpStream::connect(address))
    }
}

/// What a host that may be reached may resolve to beside public addresses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pass {
    /// This machine.
    pub local: bool,
    /// Private addresses.
    pub private: bool,
    /// Private addresses in these ranges.
    pub ranges: Vec<PrivateRange>,
}

impl Pass {
    /// Whether it opens an address that isn't public. Link-local addresses, metadata services and the like never are.
    pub fn opens(&self, address: &NotPublic) -> bool {
        let own = address.inside.map_or(address.address, IpAddr::V4);
        match address.kind {
            Kind::Loopback => self.local,
            Kind::Private => self.private || self.ranges.iter().any(|range| range.contains(own)),
            _ => false,
        }
    }
}

/// The addresses of a host that may be dialled, in the order in which they were found.
///
/// ```
/// use haft_net::host::Host;
/// use haft_net::outside::{Pass, checked};
///
/// let host = Host::parse("example.com").unwrap();
/// let found = ["10.0.0.1".parse().unwrap(), "1.1.1.1".parse().unwrap()];
/// assert_eq!(checked(&host, found.to_vec(), &Pass::default()).unwrap(), found[1..]);
/// assert!(checked(&host, found[..1].to_vec(), &Pass::default()).is_err());
/// ```
///
/// # Errors
/// In words: there were some, and none of them may be.
pub fn checked(host: &Host, mut addresses: Vec<IpAddr>, pass: &Pass) -> Result<Vec<IpAddr>, String> {
    let mut refused: Option<NotPublic> = None;
    addresses.retain(|address| match address::check(*address) {
        Ok(()) => true,
        Err(no) if pass.opens(&no) => true,
        Err(no) => {
            refused.get_or_insert(no);
            false
        }
    });
    match refused {
        Some(no) if addresses.is_empty() => Err(match host {
            Host::Name(_) if no.kind == Kind::Private => format!(
                "`{host}` leads to no public address: {no}; `WebFetch(domain:{})` opens that address, if it is given in \
                 place of the name",
                Host::Address(no.address).bracketed()
            ),
            Host::Name(_) => format!("`{host}` leads to no public address: {no}"),
            Host::Address(_) if no.kind == Kind::Private => {
                format!("{no}; only a rule that names it opens it, `WebFetch(domain:{})`", host.bracketed())
            }
            Host::Address(_) => format!("{no}, and no rule can open that"),
        }),
        _ => Ok(addresses),
    }
}
