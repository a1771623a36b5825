//! The way out: from a host that may be reached to a connection with it.
//!
//! A name is resolved once; every address that comes of it is checked, and only an address that passed is
//! dialled. A name that leads elsewhere on the second look (rebinding) finds nobody who looks twice.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use haft_net::address::{self, AddressKind};
use haft_net::host::Host;
use haft_net::network_access::{AddressAllowance, retain_allowed};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::limits;
use super::session::NetworkSession;

/// Why there is no connection.
#[derive(Debug)]
pub(super) enum ConnectError {
    /// None of its addresses may be reached.
    Refused(String),
    /// It has no address, or none that answers: the status, and words.
    Failed(u16, String),
}

/// Connects to a host that was judged.
pub(super) async fn connect_host(
    session: &Arc<NetworkSession>,
    host: &Host,
    port: u16,
    pass: AddressAllowance,
) -> Result<TcpStream, ConnectError> {
    let addresses = match host {
        Host::Address(address) => vec![*address],
        host if host.is_local() => vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
        Host::Name(name) => resolve_name(session, name).await?,
    };
    if addresses.is_empty() {
        return Err(unresolved_error(502, &host.to_string(), "it has no address"));
    }
    let private = addresses.iter().find(|address| is_private(**address)).copied();
    let addresses = retain_allowed(host, addresses, &pass).map_err(|why| {
        ConnectError::Refused(match private.filter(|_| matches!(host, Host::Name(_))) {
            Some(address) => format!("{why}; {}", private_host_hint(host, address)),
            None => why,
        })
    })?;
    let mut last = None;
    for address in addresses.into_iter().take(limits::ADDRESSES_MAX) {
        match timeout(session.times.dial, session.outside.dial((address, port).into())).await {
            Ok(Ok(stream)) => {
                // Small messages go at once; where that can't be set they go a little later.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(error)) => last = Some((502, error.to_string())),
            Err(_) => last = Some((504, "it didn't answer in time".to_owned())),
        }
    }
    let (status, why) = last.unwrap_or((502, "it has no address".to_owned()));
    let where_to = host.bracketed();
    Err(ConnectError::Failed(
        status,
        format!("rules let it through, but `{where_to}:{port}` can't be reached: {why}"),
    ))
}

fn is_private(address: IpAddr) -> bool {
    address::check(address).is_err_and(|no| no.kind == AddressKind::Private)
}

/// How to let a name lead to a private address.
fn private_host_hint(host: &Host, address: IpAddr) -> String {
    let bits = if address.is_ipv4() { 32 } else { 128 };
    format!(
        "for a mirror there, add {{\"host\": \"{host}\", \"cidr\": \"{address}/{bits}\"}} to `sandbox.network.privateHosts` in \
         your own settings (a project can't)"
    )
}

async fn resolve_name(session: &Arc<NetworkSession>, name: &str) -> Result<Vec<IpAddr>, ConnectError> {
    let lookup = async {
        // Goes with the lookup and not with whoever waits for it: one that hangs keeps its place.
        let permit = session.resolving.clone().acquire_owned().await;
        let (outside, name) = (session.outside.clone(), name.to_owned());
        tokio::task::spawn_blocking(move || {
            let addresses = outside.resolve(&name);
            drop(permit);
            addresses
        })
        .await
    };
    match timeout(session.times.resolve, lookup).await {
        Ok(Ok(Ok(addresses))) => Ok(addresses),
        Ok(Ok(Err(error))) => Err(unresolved_error(502, name, &error.to_string())),
        Ok(Err(_)) => Err(unresolved_error(502, name, "looking it up failed")),
        Err(_) => Err(unresolved_error(504, name, "nobody answered in time")),
    }
}

/// What is said of a name without an address. It is no matter of rules, and has to say so: a client shows but
/// a number.
fn unresolved_error(status: u16, name: &str, why: &str) -> ConnectError {
    ConnectError::Failed(
        status,
        format!(
            "the name `{name}` can't be resolved: {why}; rules let it through, so look at how it is spelt and at the \
             network of this machine"
        ),
    )
}
