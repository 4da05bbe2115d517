//! The socket itself.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use socket2::{Domain, InterfaceIndexOrAddress, Protocol, Socket, Type};

use super::means::{Means, steer};
use super::meta::{Options, SEND_BATCH, SendMeta};
use super::receive::ReceiveBatch;
use super::segmentation::{Segmentation, is_refusal};
use super::unreached::Unreached;
use super::{Interface, MAX_BATCH_LEN, MAX_SEGMENTS};
use crate::{Steering, setters};

/// ICMP's reports taken at one time, and addresses kept of them.
const MAX_REPORTS: usize = 64;

/// How a socket is opened.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct SocketConfig {
    /// Address and port; port 0 lets the system choose. `[::]` takes IPv4 as well.
    pub bind: SocketAddr,
    /// Receive buffer asked for \[bytes\].
    pub receive_buffer: usize,
    /// Send buffer asked for \[bytes\].
    pub send_buffer: usize,
    /// Interface that multicast goes out by; `None` leaves it to the routing table.
    pub multicast_interface: Option<Interface>,
    /// TTL or hop limit of multicast \[hops\]; 1 stays on the link.
    pub multicast_ttl: u8,
    /// Whether multicast sent here reaches members on this host.
    pub multicast_loopback: bool,
    /// Use segmentation offload on send and coalescing on receive where the system has them.
    pub offload: bool,
    /// Whether datagrams are sent unfragmented whatever the system knows of their path; those that are too long for
    /// this host's link are then not sent. Of no effect where the system cannot.
    pub unfragmented: bool,
    /// Use nothing but what every system has: no offloads, batches, traffic classes or packet information. True where
    /// the system is not Linux, whatever is said.
    pub plain: bool,
}

setters! {
    SocketConfig {
        bind: SocketAddr,
        receive_buffer: usize,
        send_buffer: usize,
        multicast_interface: Option<Interface>,
        multicast_ttl: u8,
        multicast_loopback: bool,
        offload: bool,
        unfragmented: bool,
        plain: bool,
    }
}

impl SocketConfig {
    /// The defaults at that address: 4 MiB buffers, multicast on the link and to this host,
    /// offloads on.
    pub fn new(bind: SocketAddr) -> Self {
        SocketConfig {
            bind,
            receive_buffer: 4 << 20,
            send_buffer: 4 << 20,
            multicast_interface: None,
            multicast_ttl: 1,
            multicast_loopback: true,
            offload: true,
            unfragmented: false,
            plain: false,
        }
    }
}

/// One or more datagrams to one destination.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// Where to.
    pub to: SocketAddr,
    /// The source address, if it matters.
    pub local: Option<IpAddr>,
    /// DSCP, below 64.
    pub dscp: u8,
    /// The two ECN bits (RFC 3168 §5).
    pub ecn: u8,
    /// Bytes of each datagram, 1 or more; the last may be shorter. At least the length of
    /// `bytes` for a single datagram, then at most [`MAX_DATAGRAM_LEN`](super::MAX_DATAGRAM_LEN).
    pub segment: usize,
    /// The datagrams, one behind the other: at most [`MAX_SEGMENTS`] and [`MAX_BATCH_LEN`] bytes.
    pub bytes: &'a [u8],
}

/// A UDP socket that does not block.
#[derive(Debug)]
pub struct UdpSocket {
    socket: Socket,
    means: Means,
    local_addr: SocketAddr,
    v6: bool,
    segmentation: Segmentation,
    coalescing: bool,
    icmp_errors: AtomicU64,
    /// Addresses that cannot be reached, as ICMP says, not asked for yet.
    unreached: Mutex<Vec<(SocketAddr, Unreached)>>,
    segmentation_failures: AtomicU64,
}

impl UdpSocket {
    /// Opens and binds a socket. What the system lacks of offloads is done without; see
    /// [`segmentation`](UdpSocket::segmentation) and [`coalescing`](UdpSocket::coalescing).
    ///
    /// # Errors
    /// What the system says: the address is in use or not ours, the interface does not exist, ...
    pub fn bind(config: &SocketConfig) -> io::Result<UdpSocket> {
        Self::open(config, |_| Ok(()))
    }

    /// Opens sockets at one address and port, one for each loop: each gets what hosts send whose loop it is. As for
    /// [`bind`](UdpSocket::bind), there must be no other socket.
    ///
    /// # Errors
    /// As for [`bind`](UdpSocket::bind); [`io::ErrorKind::Unsupported`] where the system is not Linux.
    pub fn bind_steered(config: &SocketConfig, steering: Steering) -> io::Result<Vec<UdpSocket>> {
        // Sockets of another program of this user may share their port just so, and the system would let these join them.
        let alone = Self::bind(config)?;
        let config = SocketConfig { bind: alone.local_addr(), ..config.clone() };
        drop(alone);
        let open = |_| Self::open(&config, |socket| socket.set_reuse_port(true));
        let sockets = (0..steering.loops()).map(open).collect::<io::Result<Vec<_>>>()?;
        match sockets.first() {
            Some(first) => steer(&first.socket, steering)?,
            None => return Err(io::ErrorKind::InvalidInput.into()),
        }
        Ok(sockets)
    }

    /// Opens a socket that receives what is sent to a multicast group and port, and nothing else;
    /// any number of sockets on one host may. The port must not be one that an ordinary socket of
    /// this host is bound to. `config.bind` is not looked at.
    ///
    /// # Errors
    /// As for [`bind`](UdpSocket::bind); [`io::ErrorKind::InvalidInput`] if the address is not
    /// multicast.
    pub fn bind_group(
        config: &SocketConfig,
        group: SocketAddr,
        interface: Option<&Interface>,
    ) -> io::Result<UdpSocket> {
        if !group.ip().is_multicast() || group.port() == 0 {
            let message = format!("{group} is no multicast address and port");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let config = SocketConfig { bind: group, ..config.clone() };
        let socket = Self::open(&config, |socket| socket.set_reuse_address(true))?;
        socket.join(group.ip(), interface)?;
        Ok(socket)
    }

    fn open(
        config: &SocketConfig,
        prepare: impl Fn(&Socket) -> io::Result<()>,
    ) -> io::Result<UdpSocket> {
        let v6 = config.bind.is_ipv6();
        let domain = if v6 { Domain::IPV6 } else { Domain::IPV4 };
        let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
        socket.set_nonblocking(true)?;
        let dual = v6 && config.bind.ip().is_unspecified();
        if v6 {
            socket.set_only_v6(!dual)?;
        }
        prepare(&socket)?;
        let multicast_interface =
            config.multicast_interface.as_ref().map(Interface::index).transpose()?;
        if v6 {
            socket.set_multicast_hops_v6(u32::from(config.multicast_ttl))?;
            socket.set_multicast_loop_v6(config.multicast_loopback)?;
            if let Some(index) = multicast_interface {
                socket.set_multicast_if_v6(index)?;
            }
        }
        let means = Means::of(config.plain);
        let options = Options {
            v6,
            v4: !v6 || dual,
            multicast_ttl: config.multicast_ttl,
            multicast_loopback: config.multicast_loopback,
            multicast_interface,
            receive_buffer: config.receive_buffer,
            send_buffer: config.send_buffer,
            offload: config.offload,
            unfragmented: config.unfragmented,
        };
        let (segmentation, coalescing) = means.prepare(&socket, &options)?;
        socket.bind(&config.bind.into())?;
        let local_addr = socket
            .local_addr()?
            .as_socket()
            .ok_or_else(|| io::Error::other("a UDP socket without an internet address"))?;
        Ok(UdpSocket {
            socket,
            means,
            local_addr,
            v6,
            segmentation: Segmentation::new(segmentation),
            coalescing,
            icmp_errors: AtomicU64::new(0),
            unreached: Mutex::default(),
            segmentation_failures: AtomicU64::new(0),
        })
    }

    /// The address the socket is bound to.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }
    /// Whether batches go out by segmentation offload (GSO).
    pub fn segmentation(&self) -> bool {
        self.segmentation.is_there()
    }
    /// Whether received datagrams may come coalesced (GRO).
    pub fn coalescing(&self) -> bool {
        self.coalescing
    }
    /// Errors of earlier datagrams that the network reported (port unreachable and the like).
    /// They are counted and passed over: who is gone is the protocol's to find out. Anybody can
    /// forge such a report who knows both addresses and ports, so it ends no transfer.
    pub fn icmp_errors(&self) -> u64 {
        self.icmp_errors.load(Relaxed)
    }
    /// Takes the addresses to which something was sent and that cannot be reached, as ICMP says.
    pub fn take_unreached(&self) -> Vec<(SocketAddr, Unreached)> {
        std::mem::take(&mut *self.unreached.lock().unwrap_or_else(PoisonError::into_inner))
    }
    /// Batches that the system refused to segment and that went out datagram by datagram.
    pub fn segmentation_failures(&self) -> u64 {
        self.segmentation_failures.load(Relaxed)
    }
    /// The receive buffer the system granted \[bytes\]; Linux counts its own bookkeeping in.
    ///
    /// # Errors
    /// What the system says.
    pub fn receive_buffer(&self) -> io::Result<usize> {
        self.socket.recv_buffer_size()
    }
    /// The send buffer the system granted \[bytes\]; Linux counts its own bookkeeping in.
    ///
    /// # Errors
    /// What the system says.
    pub fn send_buffer(&self) -> io::Result<usize> {
        self.socket.send_buffer_size()
    }

    /// Datagrams that the system dropped because the receive buffer was full; 0 where it does not
    /// say.
    pub fn dropped(&self) -> u64 {
        self.means.dropped(&self.socket)
    }

    /// Joins a multicast group on an interface (`None`: the system's choice).
    ///
    /// # Errors
    /// What the system says.
    pub fn join(&self, group: IpAddr, interface: Option<&Interface>) -> io::Result<()> {
        let index = interface.map_or(Ok(0), Interface::index)?;
        match group {
            IpAddr::V4(group) => {
                self.socket.join_multicast_v4_n(&group, &InterfaceIndexOrAddress::Index(index))
            }
            IpAddr::V6(group) => self.socket.join_multicast_v6(&group, index),
        }
    }

    /// Leaves a multicast group joined on that interface.
    ///
    /// # Errors
    /// What the system says.
    pub fn leave(&self, group: IpAddr, interface: Option<&Interface>) -> io::Result<()> {
        let index = interface.map_or(Ok(0), Interface::index)?;
        match group {
            IpAddr::V4(group) => {
                self.socket.leave_multicast_v4_n(&group, &InterfaceIndexOrAddress::Index(index))
            }
            IpAddr::V6(group) => self.socket.leave_multicast_v6(&group, index),
        }
    }

    /// Whether this socket can send there at all: its address family reaches the other's.
    pub fn reaches(&self, to: &SocketAddr) -> bool {
        match (self.local_addr.ip(), to) {
            (IpAddr::V4(_), SocketAddr::V4(_)) => true,
            (IpAddr::V6(own), SocketAddr::V4(_)) => own == Ipv6Addr::UNSPECIFIED,
            (IpAddr::V4(_), SocketAddr::V6(_)) => false,
            (IpAddr::V6(_), SocketAddr::V6(_)) => true,
        }
    }

    /// Sends batches, in order; returns how many were taken, at least one. A batch that the
    /// system cannot segment is sent datagram by datagram at once; and so are later ones where it never
    /// can, or for a while if it has refused several in a row.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if there is no room: nothing was sent. Any other error is
    /// about the first batch, which is lost as in a network; go on behind it.
    pub fn send(&self, batches: &[Outgoing<'_>]) -> io::Result<usize> {
        let mut plan = [(EMPTY, &[][..]); SEND_BATCH];
        let mut planned = 0;
        for batch in batches.iter().take(SEND_BATCH) {
            debug_assert!(batch.bytes.len().div_ceil(batch.segment.max(1)) <= MAX_SEGMENTS);
            let several = batch.bytes.len() > batch.segment;
            debug_assert!(!several || batch.bytes.len() <= MAX_BATCH_LEN);
            if several && !self.segmentation.is_tried() {
                break;
            }
            let segment = if several { u16::try_from(batch.segment).ok() } else { None };
            plan[planned] = (meta_of(batch, segment), batch.bytes);
            planned += 1;
        }
        if planned == 0 {
            let Some(first) = batches.first() else { return Ok(0) };
            self.send_one_by_one(first)?;
            self.segmentation.on_untried();
            return Ok(1);
        }
        match self.retry(|| self.means.send_many(&self.socket, self.v6, &plan[..planned])) {
            Err(error) if plan[0].0.segment.is_some() && is_refusal(&error) => {
                self.send_one_by_one(&batches[0])?;
                self.segmentation_failures.fetch_add(1, Relaxed);
                self.segmentation.on_refused(&error);
                Ok(1)
            }
            Ok(sent) => {
                if plan[..sent].iter().any(|(meta, _)| meta.segment.is_some()) {
                    self.segmentation.on_taken();
                }
                Ok(sent)
            }
            outcome => outcome,
        }
    }

    /// Sends a batch without segmentation offload. An error before the first datagram is
    /// returned; one in the middle loses the rest, as in a network.
    fn send_one_by_one(&self, batch: &Outgoing<'_>) -> io::Result<()> {
        let mut plan = [(EMPTY, &[][..]); SEND_BATCH];
        let mut datagrams = batch.bytes.chunks(batch.segment.max(1)).peekable();
        let mut first = true;
        while datagrams.peek().is_some() {
            let mut planned = 0;
            for (slot, datagram) in plan.iter_mut().zip(&mut datagrams) {
                *slot = (meta_of(batch, None), datagram);
                planned += 1;
            }
            let mut done = 0;
            while done < planned {
                match self
                    .retry(|| self.means.send_many(&self.socket, self.v6, &plan[done..planned]))
                {
                    Ok(sent) => done += sent,
                    Err(error) if first => return Err(error),
                    Err(_) => return Ok(()),
                }
                first = false;
            }
        }
        Ok(())
    }

    /// Receives what is there; returns how many batches came.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if nothing is there; anything else is the system's trouble.
    pub fn receive(&self, batch: &mut ReceiveBatch) -> io::Result<usize> {
        batch.found.clear();
        self.retry(|| self.means.receive_many(&self.socket, batch))
    }

    /// Repeats a call that was interrupted or was told of an earlier datagram's fate.
    fn retry<T>(&self, mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        // A bound, so that a flood of errors cannot hold the loop.
        for _ in 0..64 {
            match call() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(error),
                // A rule of this host's own forbids the datagram, and may send a report of each attempt.
                Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
                    self.take_reports();
                    return Err(error);
                }
                // Of an earlier datagram; the call itself has not been tried.
                Err(error) if self.take_reports() || reports_earlier_datagram(&error) => {}
                outcome => return outcome,
            }
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    /// Takes ICMP's reports of earlier datagrams out of the socket's queue; true if there were any.
    fn take_reports(&self) -> bool {
        let mut any = false;
        for _ in 0..MAX_REPORTS {
            let Some((to, errno)) = self.means.take_report(&self.socket) else { break };
            if errno == 0 {
                continue; // this host's own
            }
            any = true;
            self.icmp_errors.fetch_add(1, Relaxed);
            if let (Some(to), Some(unreached)) = (to, Unreached::of(errno)) {
                let mut found = self.unreached.lock().unwrap_or_else(PoisonError::into_inner);
                if found.len() < MAX_REPORTS {
                    found.push((to, unreached));
                }
            }
        }
        any
    }

    fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

impl AsRawFd for UdpSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.fd()
    }
}

const EMPTY: SendMeta = SendMeta {
    to: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
    local: None,
    traffic_class: 0,
    segment: None,
};

fn meta_of(batch: &Outgoing<'_>, segment: Option<u16>) -> SendMeta {
    let traffic_class = (batch.dscp << 2) | (batch.ecn & 3);
    SendMeta { to: batch.to, local: batch.local, traffic_class, segment }
}

/// Errors that a socket call passes on from an earlier datagram (ICMP).
fn reports_earlier_datagram(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ECONNREFUSED | libc::ECONNRESET))
}
