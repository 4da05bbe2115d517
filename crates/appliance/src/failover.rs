//! Failover between the two appliances of a site: the socket and the timing.

use std::io;
use std::net::{IpAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use wellspring_core::{Duration as Span, Time};
use wellspring_maelstrom::{Failover, FailoverConfig, FailoverCounters, Partitions, SessionId};

use crate::setup::{Config, FailoverPeer, SetupError};
use crate::sys;

/// Longest datagram looked at \[bytes\]; hellos are far shorter.
const LONGEST: usize = 256;
/// Datagrams read at a time: whoever sends more waits.
const ROUND: usize = 64;

/// Which partitions are to be protected here, now.
pub(crate) struct FailoverService {
    partitions: u8,
    begin: Instant,
    pair: Option<(UdpSocket, Failover)>,
}

impl FailoverService {
    /// With the failover peer that the configuration names, or without one.
    pub(crate) fn new(config: &Config, session: SessionId) -> Result<Self, SetupError> {
        let begin = Instant::now();
        let pair = config.failover.as_ref().map(|peer| {
            let socket = open(peer).map_err(|error| {
                SetupError::System("the socket towards the failover peer", error)
            })?;
            let failover = FailoverConfig {
                partitions: config.partitions,
                first: peer.listen < peer.peer,
                silence: Span::from_nanos(peer.silence.as_nanos() as u64),
            };
            // The two sites have different peers, and the two appliances of one have the same.
            let site = match config.peer.ip() {
                IpAddr::V4(address) => address.octets().to_vec(),
                IpAddr::V6(address) => address.octets().to_vec(),
            };
            Ok((socket, Failover::new(&config.key, &site, session, failover, Time::ZERO)))
        });
        Ok(FailoverService { partitions: config.partitions, begin, pair: pair.transpose()? })
    }

    /// Hears and says what is to be heard and said.
    pub(crate) fn turn(&mut self) {
        let time = time(self.begin);
        let Some((socket, failover)) = &mut self.pair else { return };
        let mut bytes = [0; LONGEST];
        for _ in 0..ROUND {
            match socket.recv(&mut bytes) {
                // Why one is not believed is counted there.
                Ok(len) => drop(failover.handle_datagram(time, &bytes[..len])),
                // A peer that is not there yet refuses.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(_) => break,
            }
        }
        let mut hello = Vec::new();
        failover.handle_timeout(time, &mut hello);
        if !hello.is_empty() {
            let _ = socket.send(&hello);
        }
    }

    /// Waits until something may be heard or is to be said, but not longer than that.
    pub(crate) fn wait(&self, at_most: Duration) {
        let Some((socket, failover)) = &self.pair else { return std::thread::sleep(at_most) };
        let due = failover.poll_timeout();
        let now = time(self.begin);
        let due = if now.has_reached(due) { Duration::ZERO } else { nanos(due.since(now)) };
        sys::wait_readable(socket.as_fd(), due.clamp(Duration::from_millis(1), at_most));
    }

    /// Informs the failover peer that this appliance ends.
    pub(crate) fn farewell(&mut self) {
        if let Some((socket, failover)) = &mut self.pair {
            let mut hello = Vec::new();
            failover.farewell(&mut hello);
            let _ = socket.send(&hello);
        }
    }

    /// The claim by which a partition is protected here.
    pub(crate) fn tenure(&self, partition: u8) -> Option<u64> {
        match &self.pair {
            Some((_, failover)) => failover.tenure(partition),
            None => Some(0),
        }
    }

    /// What is protected here.
    pub(crate) fn owned(&self) -> Partitions {
        match &self.pair {
            Some((_, failover)) => failover.owned(),
            None => Partitions::first(self.partitions),
        }
    }

    /// Whether the failover peer is heard, and the counters; none without one.
    pub(crate) fn status(&self) -> Option<(bool, FailoverCounters)> {
        self.pair.as_ref().map(|(_, failover)| (failover.peer_heard(), *failover.counters()))
    }
}

fn open(peer: &FailoverPeer) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(peer.listen)?;
    socket.connect(peer.peer)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

fn time(begin: Instant) -> Time {
    Time::ZERO + Span::from_nanos(begin.elapsed().as_nanos() as u64)
}

fn nanos(span: Span) -> Duration {
    Duration::from_nanos(span.as_nanos())
}
