//! The socket between the two appliances of a site, and what they tell each other by it.

use std::io;
use std::net::{IpAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use wellspring_core::{Duration as Span, Time};
use wellspring_maelstrom::{Partitions, SessionId, Share, ShareConfig, ShareCounters};

use crate::glue;
use crate::setup::{Config, MateConfig, SetupError};

/// Longest datagram looked at \[bytes\]; hellos are far shorter.
const LONGEST: usize = 256;
/// Datagrams read at a time: whoever sends more waits.
const ROUND: usize = 64;

/// Which partitions are to be protected here, now.
pub(crate) struct Site {
    partitions: u8,
    begin: Instant,
    mate: Option<(UdpSocket, Share)>,
}

impl Site {
    /// A site with the mate that the configuration names, or without one.
    pub(crate) fn new(config: &Config, session: SessionId) -> Result<Self, SetupError> {
        let begin = Instant::now();
        let mate = config.mate.as_ref().map(|mate| {
            let socket = open(mate)
                .map_err(|error| SetupError::System("the socket towards the mate", error))?;
            let share = ShareConfig {
                partitions: config.partitions,
                first: mate.at < mate.mate,
                silence: Span::from_nanos(mate.silence.as_nanos() as u64),
            };
            // The two sites have different peers, and the two appliances of one have the same.
            let site = match config.peer.ip() {
                IpAddr::V4(address) => address.octets().to_vec(),
                IpAddr::V6(address) => address.octets().to_vec(),
            };
            Ok((socket, Share::new(&config.key, &site, session, share, Time::ZERO)))
        });
        Ok(Site { partitions: config.partitions, begin, mate: mate.transpose()? })
    }

    /// Hears and says what is to be heard and said.
    pub(crate) fn turn(&mut self) {
        let time = time(self.begin);
        let Some((socket, share)) = &mut self.mate else { return };
        let mut bytes = [0; LONGEST];
        for _ in 0..ROUND {
            match socket.recv(&mut bytes) {
                // Why one is not believed is counted there.
                Ok(len) => drop(share.handle_datagram(time, &bytes[..len])),
                // A mate that is not there yet refuses.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(_) => break,
            }
        }
        let mut hello = Vec::new();
        share.handle_timeout(time, &mut hello);
        if !hello.is_empty() {
            let _ = socket.send(&hello);
        }
    }

    /// Waits until something may be heard or is to be said, but not longer than that.
    pub(crate) fn wait(&self, at_most: Duration) {
        let Some((socket, share)) = &self.mate else { return std::thread::sleep(at_most) };
        let due = share.poll_timeout();
        let now = time(self.begin);
        let due = if due <= now { Duration::ZERO } else { nanos(due.since(now)) };
        glue::wait_readable(socket.as_fd(), due.clamp(Duration::from_millis(1), at_most));
    }

    /// Tells the mate that this appliance ends.
    pub(crate) fn farewell(&mut self) {
        if let Some((socket, share)) = &mut self.mate {
            let mut hello = Vec::new();
            share.farewell(&mut hello);
            let _ = socket.send(&hello);
        }
    }

    /// The claim by which a partition is protected here.
    pub(crate) fn tenure(&self, partition: u8) -> Option<u64> {
        match &self.mate {
            Some((_, share)) => share.tenure(partition),
            None => Some(0),
        }
    }

    /// What is protected here.
    pub(crate) fn owned(&self) -> Partitions {
        match &self.mate {
            Some((_, share)) => share.owned(),
            None => Partitions::first(self.partitions),
        }
    }

    /// Whether the mate speaks, and what there was; none without a mate.
    pub(crate) fn mate(&self) -> Option<(bool, ShareCounters)> {
        self.mate.as_ref().map(|(_, share)| (share.mate_heard(), *share.counters()))
    }
}

fn open(mate: &MateConfig) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(mate.at)?;
    socket.connect(mate.mate)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

fn time(begin: Instant) -> Time {
    Time::ZERO + Span::from_nanos(begin.elapsed().as_nanos() as u64)
}

fn nanos(span: Span) -> Duration {
    Duration::from_nanos(span.as_nanos())
}
