//! Sockets of split mode: transparent ones, the options of a host's connection, open files.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tokio::net::{TcpSocket, TcpStream};

/// A listener that connections to any address may be handed to.
pub(super) fn transparent_listener(at: SocketAddr) -> io::Result<Socket> {
    let socket = transparent(at)?;
    socket.bind(&at.into())?;
    socket.listen(1_024)?;
    Ok(socket)
}

/// A socket that may speak for others.
pub(super) fn transparent(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    match address {
        SocketAddr::V4(_) => socket.set_ip_transparent_v4(true)?,
        SocketAddr::V6(_) => socket.set_ip_transparent_v6(true)?,
    }
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// A socket to connect to a host of this site with, in another's name.
///
/// # Errors
/// `to` is this machine's: what that answered to the other host would leave by the long link and pass this socket by, and in its own
/// name the other site would have what this machine lets only itself do.
pub(super) fn outgoing(from: SocketAddr, to: SocketAddr) -> io::Result<TcpSocket> {
    // Where any address may be bound, as beside VRRP, binding says nothing.
    if is_own(to.ip()) && !is_own(from.ip()) {
        return Err(io::Error::new(
            io::ErrorKind::ConnectionRefused,
            "an address of the appliance",
        ));
    }
    let socket = transparent(from)?;
    socket.bind(&from.into())?;
    Ok(TcpSocket::from_std_stream(socket.into()))
}

/// Whether an address is this machine's, as far as binding tells.
fn is_own(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

/// Options of a connection with a host. Until it has ended in order, closing it resets it: a host
/// must not take the end of an appliance for the end of what the other host said.
pub(super) fn tune_local(stream: &TcpStream) -> io::Result<()> {
    let socket = SockRef::from(stream);
    socket.set_linger(Some(Duration::ZERO))?;
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(Duration::from_secs(60)))
}

/// Lets this process have as many open files as it may; returns how many.
pub(super) fn files_allowed() -> io::Result<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })?;
    Ok(limit.maximum.unwrap_or(u64::MAX))
}
