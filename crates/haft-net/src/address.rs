//! Classifies IP addresses as public or non-public (loopback, private, link-local, cloud metadata,
//! reserved).
//!
//! The table is our own because other tables answer another question: the registry's "global" flag
//! includes multicast and IPv6 addresses that embed a private IPv4 address. For an IPv6 address
//! that embeds an IPv4 address, the embedded address is checked if packets reach it (IPv4-mapped,
//! NAT64). The other embedding forms are always refused because no public server uses them. IPv6
//! addresses outside of the allocated range `2000::/3` are refused too.
//!
//! The check runs after name resolution, and the *checked* address is dialled. Checking a name, or
//! resolving it a second time, protects against nothing.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use crate::host::{HostParseError, printable_excerpt};

/// Why an address isn't public.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AddressKind {
    /// A private network. The only kind that a setting can allow.
    Private,
    /// This machine.
    Loopback,
    /// The local network segment, and most metadata services.
    LinkLocal,
    /// A metadata service, which gives credentials to a cloud machine.
    Metadata,
    /// Multicast or broadcast.
    Multicast,
    /// Reserved or unallocated.
    Reserved,
}

/// A range of non-public addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressRange<A> {
    /// The first address of the range.
    pub network: A,
    /// The length of the network prefix in bits.
    pub prefix: u8,
    /// The kind of the addresses.
    pub kind: AddressKind,
    /// A description for messages: "`10.0.0.1` is a private address".
    pub description: &'static str,
    /// Whether the IPv4 address in the low 32 bits is checked instead of the whole address.
    pub judged_by_embedded: bool,
}

const fn ipv4_range(
    octets: [u8; 4],
    prefix: u8,
    kind: AddressKind,
    description: &'static str,
) -> AddressRange<Ipv4Addr> {
    let [a, b, c, d] = octets;
    AddressRange { network: Ipv4Addr::new(a, b, c, d), prefix, kind, description, judged_by_embedded: false }
}

const fn ipv6_range(
    first: u128,
    prefix: u8,
    kind: AddressKind,
    description: &'static str,
) -> AddressRange<Ipv6Addr> {
    AddressRange { network: Ipv6Addr::from_bits(first), prefix, kind, description, judged_by_embedded: false }
}

const fn embedding_range(first: u128, description: &'static str) -> AddressRange<Ipv6Addr> {
    AddressRange {
        network: Ipv6Addr::from_bits(first),
        prefix: 96,
        kind: AddressKind::Reserved,
        description,
        judged_by_embedded: true,
    }
}

/// Non-public IPv4 ranges.
pub const IPV4: &[AddressRange<Ipv4Addr>] = &[
    ipv4_range([0, 0, 0, 0], 8, AddressKind::Loopback, "an address of this machine"),
    ipv4_range([10, 0, 0, 0], 8, AddressKind::Private, "a private address"),
    ipv4_range([100, 64, 0, 0], 10, AddressKind::Private, "a carrier-grade NAT address"),
    ipv4_range([127, 0, 0, 0], 8, AddressKind::Loopback, "an address of this machine"),
    ipv4_range([169, 254, 0, 0], 16, AddressKind::LinkLocal, "a link-local address"),
    ipv4_range([172, 16, 0, 0], 12, AddressKind::Private, "a private address"),
    ipv4_range([192, 0, 0, 0], 24, AddressKind::Reserved, "an address reserved for protocols"),
    ipv4_range([192, 0, 2, 0], 24, AddressKind::Reserved, "a documentation address"),
    ipv4_range([192, 88, 99, 0], 24, AddressKind::Reserved, "an address of 6to4 relays"),
    ipv4_range([192, 168, 0, 0], 16, AddressKind::Private, "a private address"),
    ipv4_range([198, 18, 0, 0], 15, AddressKind::Reserved, "a benchmarking address"),
    ipv4_range([198, 51, 100, 0], 24, AddressKind::Reserved, "a documentation address"),
    ipv4_range([203, 0, 113, 0], 24, AddressKind::Reserved, "a documentation address"),
    ipv4_range([224, 0, 0, 0], 4, AddressKind::Multicast, "a multicast address"),
    // Stands before the reserved range that contains it.
    ipv4_range([255, 255, 255, 255], 32, AddressKind::Multicast, "the broadcast address"),
    ipv4_range([240, 0, 0, 0], 4, AddressKind::Reserved, "a reserved address"),
];

/// Non-public IPv6 ranges. The first range that contains an address applies.
pub const IPV6: &[AddressRange<Ipv6Addr>] = &[
    ipv6_range(0, 128, AddressKind::Loopback, "an address of this machine"),
    ipv6_range(1, 128, AddressKind::Loopback, "an address of this machine"),
    ipv6_range(0, 96, AddressKind::Reserved, "a deprecated IPv4-compatible address"),
    embedding_range(0xffff << 32, "an IPv4-mapped address"),
    ipv6_range(0xffff << 48, 96, AddressKind::Reserved, "an IPv4-translated address"),
    embedding_range(0x64_ff9b << 96, "a NAT64 address"),
    ipv6_range(0x64_ff9b_0001 << 80, 48, AddressKind::Private, "a private NAT64 address"),
    ipv6_range(0x100 << 112, 64, AddressKind::Reserved, "a discard-only address"),
    ipv6_range(0x2001 << 112, 32, AddressKind::Reserved, "a Teredo address, with IPv4 inside"),
    ipv6_range(0x2001_0002 << 96, 48, AddressKind::Reserved, "a benchmarking address"),
    ipv6_range(0x2001 << 112, 23, AddressKind::Reserved, "an address reserved for protocols"),
    ipv6_range(0x2001_0db8 << 96, 32, AddressKind::Reserved, "a documentation address"),
    ipv6_range(0x2002 << 112, 16, AddressKind::Reserved, "a 6to4 address, with IPv4 inside"),
    ipv6_range(0x3fff << 112, 20, AddressKind::Reserved, "a documentation address"),
    ipv6_range(0x5f00 << 112, 16, AddressKind::Reserved, "a segment routing address"),
    ipv6_range(0xfc00 << 112, 7, AddressKind::Private, "a private address"),
    ipv6_range(0xfe80 << 112, 10, AddressKind::LinkLocal, "a link-local address"),
    ipv6_range(0xfec0 << 112, 10, AddressKind::Private, "a deprecated site-local address"),
    ipv6_range(0xff00 << 112, 8, AddressKind::Multicast, "a multicast address"),
];

/// Addresses of cloud metadata services. Some are within ranges that a setting can allow, and one
/// is in a public range.
pub const METADATA_ADDRESSES: &[IpAddr] = &[
    IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)),
    IpAddr::V4(Ipv4Addr::new(169, 254, 170, 2)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V6(Ipv6Addr::from_bits((0xfd00_0ec2 << 96) | 0x254)),
    IpAddr::V6(Ipv6Addr::from_bits((0xfd20_00ce << 96) | 0x254)),
];

/// An address that isn't public.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NonPublicAddress {
    /// The complete address.
    pub address: IpAddr,
    /// The embedded IPv4 address that was checked, if there is one.
    pub embedded: Option<Ipv4Addr>,
    /// Why the address isn't public.
    pub kind: AddressKind,
    description: &'static str,
}

impl fmt::Display for NonPublicAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.embedded {
            Some(embedded) => write!(f, "`{}` holds `{embedded}`, {}", self.address, self.description),
            None => write!(f, "`{}` is {}", self.address, self.description),
        }
    }
}

impl std::error::Error for NonPublicAddress {}

/// Checks that an address is public.
///
/// ```
/// use haft_net::address::{AddressKind, check};
///
/// assert!(check("1.1.1.1".parse().unwrap()).is_ok());
/// let refused = check("::ffff:169.254.169.254".parse().unwrap()).unwrap_err();
/// assert_eq!(refused.kind, AddressKind::Metadata);
/// let refused = check("10.0.0.1".parse().unwrap()).unwrap_err();
/// assert_eq!(refused.to_string(), "`10.0.0.1` is a private address");
/// ```
///
/// # Errors
/// The address isn't public; the error has its kind.
pub fn check(address: IpAddr) -> Result<(), NonPublicAddress> {
    let refusal =
        |kind, description, embedded| Err(NonPublicAddress { address, embedded, kind, description });
    if METADATA_ADDRESSES.contains(&address) {
        return refusal(AddressKind::Metadata, "the metadata service of a cloud", None);
    }
    let address_6 = match address {
        IpAddr::V4(address) => {
            let bits = address.to_bits();
            let mut ranges = IPV4.iter();
            let matching_range = ranges.find(|range| {
                have_same_prefix(bits.into(), range.network.to_bits().into(), range.prefix + 96)
            });
            return matching_range.map_or(Ok(()), |range| refusal(range.kind, range.description, None));
        }
        IpAddr::V6(address) => address,
    };
    let bits = address_6.to_bits();
    let low = Ipv4Addr::from_bits(bits as u32);
    let matching_range =
        IPV6.iter().find(|range| have_same_prefix(bits, range.network.to_bits(), range.prefix));
    match matching_range {
        Some(range) if range.judged_by_embedded => {
            check(low.into()).or_else(|inner| refusal(inner.kind, inner.description, Some(low)))
        }
        Some(range) => refusal(range.kind, range.description, None),
        None if bits >> 125 != 1 => refusal(AddressKind::Reserved, "an unallocated address", None),
        // ISATAP: the prefix is an ordinary network, and the interface identifier embeds an IPv4
        // address.
        None if matches!(bits as u64 >> 32, 0x5efe | 0x0200_5efe) => {
            check(low.into()).or_else(|inner| refusal(inner.kind, inner.description, Some(low)))
        }
        None => Ok(()),
    }
}

/// A range of private addresses in the form that settings use.
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
    /// Returns whether the range contains an address.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.network, address) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                have_same_prefix(network.to_bits().into(), address.to_bits().into(), self.prefix + 96)
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                have_same_prefix(network.to_bits(), address.to_bits(), self.prefix)
            }
            _ => false,
        }
    }

    /// Returns whether a private range of the tables contains the whole range.
    fn is_private(&self) -> bool {
        let within = |network: IpAddr, prefix: u8, kind: AddressKind| {
            kind == AddressKind::Private
                && prefix <= self.prefix
                && PrivateRange { network, prefix }.contains(self.network)
        };
        IPV4.iter().any(|range| within(range.network.into(), range.prefix, range.kind))
            || IPV6.iter().any(|range| within(range.network.into(), range.prefix, range.kind))
    }
}

impl FromStr for PrivateRange {
    type Err = HostParseError;

    fn from_str(text: &str) -> Result<PrivateRange, HostParseError> {
        let bad = || {
            HostParseError::new(format!(
                "`{}` is no range of private addresses; one within `10.0.0.0/8`, `172.16.0.0/12`, \
                 `192.168.0.0/16`, `100.64.0.0/10` or `fc00::/7` is accepted",
                printable_excerpt(text)
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

/// Returns whether the first `bits` bits of two 128-bit addresses are equal.
fn have_same_prefix(one: u128, other: u128, bits: u8) -> bool {
    (one ^ other).checked_shr(128 - u32::from(bits)).unwrap_or(0) == 0
}
