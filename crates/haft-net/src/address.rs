//! Which addresses are of the public internet, and which lead somewhere else: to this machine, its neighbours, the
//! metadata service of a cloud, or nowhere.
//!
//! A table of our own, because others answer another question: what is "global" by the registry includes multicast and
//! IPv6 addresses with a private IPv4 address inside. Addresses that carry another one are taken apart: where the
//! inner one is what is reached (mapped, NAT64) it is judged in their place, and the other forms are refused whatever
//! is inside, because no public server lives there. IPv6 outside of what is given out (`2000::/3`) is refused too.
//!
//! An address is checked after a name was resolved, and the *checked* address is dialled. To check a name, or to
//! resolve it a second time, is no check.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use crate::host::{BadHost, shown};

/// Why an address isn't public.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// Of somebody's own network. The only kind that a setting may allow.
    Private,
    /// This machine.
    Loopback,
    /// The neighbours on the wire, and most metadata services.
    LinkLocal,
    /// A service that tells a cloud's machine its keys.
    Metadata,
    /// Many machines at once.
    Multicast,
    /// Kept for something else, or for nothing.
    Reserved,
}

/// A range of addresses that aren't public.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range<A> {
    /// Its first address.
    pub network: A,
    /// How many leading bits its addresses share.
    pub prefix: u8,
    /// What they are.
    pub kind: Kind,
    /// The same in words, for a sentence: "`10.0.0.1` is a private address".
    pub what: &'static str,
    /// Whether the IPv4 address in the low 32 bits is judged in place of the whole.
    pub as_inside: bool,
}

const fn v4(octets: [u8; 4], prefix: u8, kind: Kind, what: &'static str) -> Range<Ipv4Addr> {
    let [a, b, c, d] = octets;
    Range { network: Ipv4Addr::new(a, b, c, d), prefix, kind, what, as_inside: false }
}

const fn v6(first: u128, prefix: u8, kind: Kind, what: &'static str) -> Range<Ipv6Addr> {
    Range { network: Ipv6Addr::from_bits(first), prefix, kind, what, as_inside: false }
}

const fn inside(first: u128, what: &'static str) -> Range<Ipv6Addr> {
    Range { network: Ipv6Addr::from_bits(first), prefix: 96, kind: Kind::Reserved, what, as_inside: true }
}

/// IPv4 that isn't public.
pub const IPV4: &[Range<Ipv4Addr>] = &[
    v4([0, 0, 0, 0], 8, Kind::Loopback, "an address of this machine"),
    v4([10, 0, 0, 0], 8, Kind::Private, "a private address"),
    v4([100, 64, 0, 0], 10, Kind::Private, "an address of a provider's inner network"),
    v4([127, 0, 0, 0], 8, Kind::Loopback, "an address of this machine"),
    v4([169, 254, 0, 0], 16, Kind::LinkLocal, "a link-local address"),
    v4([172, 16, 0, 0], 12, Kind::Private, "a private address"),
    v4([192, 0, 0, 0], 24, Kind::Reserved, "an address kept for protocols"),
    v4([192, 0, 2, 0], 24, Kind::Reserved, "an address for documents"),
    v4([192, 88, 99, 0], 24, Kind::Reserved, "an address of 6to4 relays"),
    v4([192, 168, 0, 0], 16, Kind::Private, "a private address"),
    v4([198, 18, 0, 0], 15, Kind::Reserved, "an address for benchmarks"),
    v4([198, 51, 100, 0], 24, Kind::Reserved, "an address for documents"),
    v4([203, 0, 113, 0], 24, Kind::Reserved, "an address for documents"),
    v4([224, 0, 0, 0], 4, Kind::Multicast, "a multicast address"),
    // Before the reserved range that it is the end of.
    v4([255, 255, 255, 255], 32, Kind::Multicast, "the broadcast address"),
    v4([240, 0, 0, 0], 4, Kind::Reserved, "a reserved address"),
];

/// IPv6 that isn't public. The first range that holds an address counts.
pub const IPV6: &[Range<Ipv6Addr>] = &[
    v6(0, 128, Kind::Loopback, "an address of this machine"),
    v6(1, 128, Kind::Loopback, "an address of this machine"),
    v6(0, 96, Kind::Reserved, "an IPv4 address in an abandoned form"),
    inside(0xffff << 32, "an IPv4 address inside IPv6"),
    v6(0xffff << 48, 96, Kind::Reserved, "an IPv4 address in a form for translators"),
    inside(0x64_ff9b << 96, "an IPv4 address behind a translator"),
    v6(0x64_ff9b_0001 << 80, 48, Kind::Private, "an address of a private translator"),
    v6(0x100 << 112, 64, Kind::Reserved, "an address where everything is dropped"),
    v6(0x2001 << 112, 32, Kind::Reserved, "a Teredo address, with IPv4 inside"),
    v6(0x2001_0002 << 96, 48, Kind::Reserved, "an address for benchmarks"),
    v6(0x2001 << 112, 23, Kind::Reserved, "an address kept for protocols"),
    v6(0x2001_0db8 << 96, 32, Kind::Reserved, "an address for documents"),
    v6(0x2002 << 112, 16, Kind::Reserved, "a 6to4 address, with IPv4 inside"),
    v6(0x3fff << 112, 20, Kind::Reserved, "an address for documents"),
    v6(0x5f00 << 112, 16, Kind::Reserved, "an address for routing"),
    v6(0xfc00 << 112, 7, Kind::Private, "a private address"),
    v6(0xfe80 << 112, 10, Kind::LinkLocal, "a link-local address"),
    v6(0xfec0 << 112, 10, Kind::Private, "a private address in an abandoned form"),
    v6(0xff00 << 112, 8, Kind::Multicast, "a multicast address"),
];

/// Single addresses at which clouds hand out keys. Some lie in ranges that a setting may allow, one in none at all.
pub const METADATA: &[IpAddr] = &[
    IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)),
    IpAddr::V4(Ipv4Addr::new(169, 254, 170, 2)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V6(Ipv6Addr::from_bits((0xfd00_0ec2 << 96) | 0x254)),
    IpAddr::V6(Ipv6Addr::from_bits((0xfd20_00ce << 96) | 0x254)),
];

/// An address that isn't of the public internet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotPublic {
    /// The whole address.
    pub address: IpAddr,
    /// The one inside that was judged, if there is one.
    pub inside: Option<Ipv4Addr>,
    /// Why not.
    pub kind: Kind,
    what: &'static str,
}

impl fmt::Display for NotPublic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.inside {
            Some(inside) => write!(f, "`{}` holds `{inside}`, {}", self.address, self.what),
            None => write!(f, "`{}` is {}", self.address, self.what),
        }
    }
}

impl std::error::Error for NotPublic {}

/// Whether an address is of the public internet.
///
/// ```
/// use haft_net::address::{Kind, check};
///
/// assert!(check("1.1.1.1".parse().unwrap()).is_ok());
/// let refused = check("::ffff:169.254.169.254".parse().unwrap()).unwrap_err();
/// assert_eq!(refused.kind, Kind::Metadata);
/// assert_eq!(check("10.0.0.1".parse().unwrap()).unwrap_err().to_string(), "`10.0.0.1` is a private address");
/// ```
///
/// # Errors
/// Why it isn't, with the kind of address that it is.
pub fn check(address: IpAddr) -> Result<(), NotPublic> {
    let no = |kind, what, inside| Err(NotPublic { address, inside, kind, what });
    if METADATA.contains(&address) {
        return no(Kind::Metadata, "the metadata service of a cloud", None);
    }
    let address_6 = match address {
        IpAddr::V4(address) => {
            let bits = address.to_bits();
            let mut ranges = IPV4.iter();
            let found = ranges
                .find(|range| same_start(bits.into(), range.network.to_bits().into(), range.prefix + 96));
            return found.map_or(Ok(()), |range| no(range.kind, range.what, None));
        }
        IpAddr::V6(address) => address,
    };
    let bits = address_6.to_bits();
    let low = Ipv4Addr::from_bits(bits as u32);
    let found = IPV6.iter().find(|range| same_start(bits, range.network.to_bits(), range.prefix));
    match found {
        Some(range) if range.as_inside => {
            check(low.into()).or_else(|inner| no(inner.kind, inner.what, Some(low)))
        }
        Some(range) => no(range.kind, range.what, None),
        None if bits >> 125 != 1 => no(Kind::Reserved, "an address that nobody was given", None),
        // ISATAP: an ordinary network, whose last half says which IPv4 machine is meant.
        None if matches!(bits as u64 >> 32, 0x5efe | 0x0200_5efe) => {
            check(low.into()).or_else(|inner| no(inner.kind, inner.what, Some(low)))
        }
        None => Ok(()),
    }
}

/// A range of private addresses, as settings write it.
///
/// ```
/// use haft_net::address::PrivateRange;
///
/// let range: PrivateRange = "10.20.0.0/16".parse().unwrap();
/// assert!(range.contains("10.20.3.4".parse().unwrap()) && !range.contains("10.21.0.1".parse().unwrap()));
/// for other in ["127.0.0.0/8", "169.254.0.0/16", "0.0.0.0/0", "93.184.216.0/24", "10.0.0.0/7", "10.0.0.0"] {
///     assert!(other.parse::<PrivateRange>().is_err(), "{other}");
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PrivateRange {
    network: IpAddr,
    prefix: u8,
}

impl PrivateRange {
    /// Whether an address lies in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.network, address) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                same_start(network.to_bits().into(), address.to_bits().into(), self.prefix + 96)
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                same_start(network.to_bits(), address.to_bits(), self.prefix)
            }
            _ => false,
        }
    }

    /// Whether a range of the tables holds all of it, and is private.
    fn is_private(&self) -> bool {
        let within = |network: IpAddr, prefix: u8, kind: Kind| {
            kind == Kind::Private
                && prefix <= self.prefix
                && PrivateRange { network, prefix }.contains(self.network)
        };
        IPV4.iter().any(|range| within(range.network.into(), range.prefix, range.kind))
            || IPV6.iter().any(|range| within(range.network.into(), range.prefix, range.kind))
    }
}

impl FromStr for PrivateRange {
    type Err = BadHost;

    fn from_str(text: &str) -> Result<PrivateRange, BadHost> {
        let bad = || {
            BadHost::new(format!(
                "`{}` is no range of private addresses; one within `10.0.0.0/8`, `172.16.0.0/12`, `192.168.0.0/16`, \
                 `100.64.0.0/10` or `fc00::/7` is accepted",
                shown(text)
            ))
        };
        let (network, prefix) = text.split_once('/').ok_or_else(bad)?;
        let network: IpAddr = network.parse().map_err(|_| bad())?;
        let prefix: u8 = prefix.parse().map_err(|_| bad())?;
        let range = PrivateRange { network, prefix };
        let bits = if network.is_ipv4() { 32 } else { 128 };
        if prefix <= bits && range.is_private() { Ok(range) } else { Err(bad()) }
    }
}

impl fmt::Display for PrivateRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.prefix)
    }
}

/// Whether two addresses, as 128 bits, begin with the same bits.
fn same_start(one: u128, other: u128, bits: u8) -> bool {
    (one ^ other).checked_shr(128 - u32::from(bits)).unwrap_or(0) == 0
}
