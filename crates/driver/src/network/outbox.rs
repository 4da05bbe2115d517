//! Datagrams on their way out, gathered into batches for segmentation offload.

use std::io;
use std::net::{IpAddr, SocketAddr};

use wellspring_trust::Via;

use crate::socket::{
    HostSocket, MAX_BATCH_LEN, MAX_DATAGRAM_LEN, MAX_SEGMENTS, Outgoing, Unreached,
};
use crate::statistics::Sent;

/// Bytes of datagrams gathered before a send.
const ARENA_LEN: usize = 512 << 10;
/// Batches gathered before a send.
const MAX_BATCHES: usize = 16;
/// Destinations of one copied batch sent by one call.
const CALL_BATCHES: usize = 16;

/// Addresses kept to which the system sends nothing.
const MAX_UNREACHED: usize = 64;

/// One destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Target {
    pub to: SocketAddr,
    pub local: Option<IpAddr>,
    /// Which of this host's sockets sends it.
    pub port: u8,
    /// By which channel, where hosts have keys.
    pub via: Via,
}

/// How a datagram is to be treated on its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Marks {
    pub dscp: u8,
    pub ecn: u8,
}

/// Datagrams that lie one behind the other and go to the same destinations.
struct Batch {
    /// Where the bytes lie in the arena.
    start: usize,
    end: usize,
    /// Bytes of each datagram; the last may be shorter and is then the last indeed.
    segment: usize,
    count: usize,
    /// Where the destinations lie in the list of targets.
    first_target: usize,
    targets: usize,
    marks: Marks,
}

/// Gathers datagrams and sends them. Consecutive datagrams of one length to the same destinations
/// become one batch, which goes out by one segmentation; a batch for several hosts is laid down
/// once and sent to each.
pub(crate) struct Outbox {
    /// As long as has been needed so far, `ARENA_LEN` at most.
    arena: Vec<u8>,
    used: usize,
    batches: Vec<Batch>,
    targets: Vec<Target>,
    /// What has gone out already: batches, and targets of the next one.
    done_batches: usize,
    done_targets: usize,
    /// A source address that the system refused: it is no longer this host's.
    refused_source: Option<IpAddr>,
    /// Addresses to which the system sends nothing.
    unreached: Vec<(SocketAddr, Unreached)>,
}

impl Outbox {
    pub(crate) fn new() -> Self {
        Outbox {
            arena: Vec::with_capacity(ARENA_LEN),
            used: 0,
            batches: Vec::with_capacity(MAX_BATCHES),
            targets: Vec::with_capacity(2 * MAX_BATCHES),
            done_batches: 0,
            done_targets: 0,
            refused_source: None,
            unreached: Vec::new(),
        }
    }

    /// A source address that the system has refused since this was last asked.
    pub(crate) fn take_refused_source(&mut self) -> Option<IpAddr> {
        self.refused_source.take()
    }

    /// Takes the addresses to which the system would send nothing.
    pub(crate) fn take_unreached(&mut self) -> Vec<(SocketAddr, Unreached)> {
        std::mem::take(&mut self.unreached)
    }

    /// Room for one datagram of any length; `None` if [`flush`](Self::flush) must come first.
    pub(crate) fn room(&mut self) -> Option<&mut [u8]> {
        self.has_room().then(|| {
            let end = self.used + MAX_DATAGRAM_LEN;
            if self.arena.len() < end {
                self.arena.resize(end, 0);
            }
            &mut self.arena[self.used..end]
        })
    }

    /// Whether there is [`room`](Self::room).
    pub(crate) fn has_room(&self) -> bool {
        self.batches.len() < MAX_BATCHES && self.used + MAX_DATAGRAM_LEN <= ARENA_LEN
    }

    /// Takes the first `len` bytes of the [`room`](Self::room) as a datagram for `targets`.
    pub(crate) fn push(&mut self, len: usize, marks: Marks, targets: &[Target]) {
        let (start, end) = (self.used, self.used + len);
        self.used = end;
        if let Some(last) = self.batches.last_mut() {
            let same = &self.targets[last.first_target..last.first_target + last.targets];
            let fits = last.count < MAX_SEGMENTS
                && end - last.start <= MAX_BATCH_LEN
                && (last.end - last.start) == last.segment * last.count
                && len <= last.segment;
            if fits && last.marks == marks && same == targets {
                last.end = end;
                last.count += 1;
                return;
            }
        }
        let first_target = self.targets.len();
        self.targets.extend_from_slice(targets);
        let targets = targets.len();
        self.batches.push(Batch {
            start,
            end,
            segment: len,
            count: 1,
            first_target,
            targets,
            marks,
        });
    }

    /// Sends what has been gathered; false if the socket had no room for all of it.
    pub(crate) fn flush(&mut self, sockets: &[HostSocket], sent: &mut Sent) -> bool {
        while self.done_batches < self.batches.len() {
            let (outgoing, count, port) = self.next_call();
            let socket = sockets.get(usize::from(port)).unwrap_or(&sockets[0]);
            match socket.send(&outgoing[..count]) {
                Ok(taken) => {
                    sent.calls += 1;
                    for batch in &outgoing[..taken] {
                        sent.batches += 1;
                        sent.datagrams += batch.bytes.len().div_ceil(batch.segment) as u64;
                        sent.bytes += batch.bytes.len() as u64;
                    }
                    self.advance(taken);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    sent.blocked += 1;
                    return false;
                }
                Err(error) => {
                    let first = outgoing[0];
                    let refused = first.local.filter(|_| refused_source(&error));
                    // The system then chooses another, if it has one that leads there.
                    let anyhow = Outgoing { local: None, ..first };
                    let again = refused.map(|_| socket.send(&[anyhow]));
                    if let Err(error) = again.unwrap_or(Err(error)) {
                        sent.errors += 1;
                        let unreached = error.raw_os_error().and_then(Unreached::of);
                        let room = self.unreached.len() < MAX_UNREACHED;
                        self.unreached
                            .extend(unreached.filter(|_| room).map(|why| (first.to, why)));
                    }
                    self.refused_source = refused.or(self.refused_source);
                    self.advance(1);
                }
            }
        }
        self.batches.clear();
        self.targets.clear();
        (self.used, self.done_batches, self.done_targets) = (0, 0, 0);
        true
    }

    /// The next batches to send, each to one destination, and by which socket.
    fn next_call(&self) -> ([Outgoing<'_>; CALL_BATCHES], usize, u8) {
        let nothing = Outgoing {
            to: SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0),
            local: None,
            dscp: 0,
            ecn: 0,
            segment: 1,
            bytes: &[],
        };
        let mut outgoing = [nothing; CALL_BATCHES];
        let (mut count, mut port) = (0, 0);
        let mut skip = self.done_targets;
        for batch in &self.batches[self.done_batches..] {
            for target in &self.targets[batch.first_target..][skip..batch.targets] {
                if count == CALL_BATCHES || (count > 0 && target.port != port) {
                    return (outgoing, count, port);
                }
                port = target.port;
                outgoing[count] = Outgoing {
                    to: target.to,
                    local: target.local,
                    dscp: batch.marks.dscp,
                    ecn: batch.marks.ecn,
                    segment: batch.segment,
                    bytes: &self.arena[batch.start..batch.end],
                };
                count += 1;
            }
            skip = 0;
        }
        (outgoing, count, port)
    }

    /// So many batches have gone out (or are lost).
    fn advance(&mut self, mut taken: usize) {
        while taken > 0 && self.done_batches < self.batches.len() {
            let left = self.batches[self.done_batches].targets - self.done_targets;
            if taken < left {
                self.done_targets += taken;
                return;
            }
            taken -= left;
            self.done_batches += 1;
            self.done_targets = 0;
        }
    }
}

/// Errors by which systems say that the source address is not this host's (any more).
fn refused_source(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EINVAL | libc::EADDRNOTAVAIL | libc::ENODEV | libc::ENETUNREACH)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::{ReceiveBatch, SocketConfig};
    use std::slice::from_ref;

    const MARKS: Marks = Marks { dscp: 0, ecn: 0 };

    fn socket() -> HostSocket {
        socket_at("127.0.0.1:0")
    }

    fn socket_at(address: &str) -> HostSocket {
        HostSocket::bind(&SocketConfig::new(address.parse().expect("an address"))).expect("bound")
    }

    #[test]
    fn a_datagram_from_an_address_that_is_gone_leaves_from_another() {
        let (from, to) = (socket_at("0.0.0.0:0"), socket());
        let gone: IpAddr = "192.0.2.77".parse().expect("an address");
        let (mut outbox, mut sent) = (Outbox::new(), Sent::default());
        for byte in [1, 2] {
            put(&mut outbox, 100, byte, &[Target { local: Some(gone), ..target(&to) }]);
            assert!(outbox.flush(from_ref(&from), &mut sent));
            assert_eq!(outbox.take_refused_source(), Some(gone));
        }
        assert_eq!(lengths(&to), [(100, 1), (100, 2)]);
        assert_eq!(sent.errors, 0);
    }

    fn target(socket: &HostSocket) -> Target {
        Target { to: socket.local_addr(), local: None, port: 0, via: Via::Any }
    }

    fn put(outbox: &mut Outbox, len: usize, byte: u8, targets: &[Target]) {
        outbox.room().expect("room")[..len].fill(byte);
        outbox.push(len, MARKS, targets);
    }

    fn lengths(socket: &HostSocket) -> Vec<(usize, u8)> {
        let mut batch = ReceiveBatch::default();
        let mut found = Vec::new();
        while socket.receive(&mut batch).is_ok() {
            for received in batch.iter() {
                found.extend(received.datagrams().map(|d| (d.len(), d[0])));
            }
        }
        found
    }

    #[test]
    fn runs_of_one_length_and_destination_become_one_batch() {
        let (out, a, b) = (socket(), socket(), socket());
        let mut outbox = Outbox::new();
        for (len, byte, to) in
            [(90, 1, &a), (90, 2, &a), (40, 3, &a), (40, 4, &a), (40, 5, &b), (90, 6, &b)]
        {
            put(&mut outbox, len, byte, &[target(to)]);
        }
        let mut sent = Sent::default();
        assert!(outbox.flush(from_ref(&out), &mut sent));
        assert_eq!((sent.datagrams, sent.batches, sent.bytes), (6, 4, 390));
        assert_eq!(lengths(&a), [(90, 1), (90, 2), (40, 3), (40, 4)]);
        assert_eq!(lengths(&b), [(40, 5), (90, 6)]);
    }

    #[test]
    fn each_datagram_leaves_by_its_port() {
        let (out, a) = ([socket(), socket(), socket()], socket());
        let (mut outbox, mut sent) = (Outbox::new(), Sent::default());
        for port in [0, 0, 2, 1, 1] {
            put(&mut outbox, 90, port, &[Target { port, ..target(&a) }]);
        }
        assert!(outbox.flush(&out, &mut sent));
        assert_eq!((sent.datagrams, sent.batches, sent.calls), (5, 3, 3));
        let (mut batch, mut found) = (ReceiveBatch::default(), Vec::new());
        while a.receive(&mut batch).is_ok() {
            for received in batch.iter() {
                found.extend(received.datagrams().map(|d| (received.from, d[0])));
            }
        }
        assert_eq!(found.len(), 5);
        for (from, port) in found {
            assert_eq!(from, out[usize::from(port)].local_addr());
        }
    }

    #[test]
    fn a_batch_for_many_is_sent_to_each() {
        let (out, members) = (socket(), [(); 20].map(|()| socket()));
        let targets: Vec<_> = members.iter().map(target).collect();
        let mut outbox = Outbox::new();
        for byte in 0..10 {
            put(&mut outbox, 1_000, byte, &targets);
        }
        put(&mut outbox, 5, 99, &targets[..1]);
        let mut sent = Sent::default();
        assert!(outbox.flush(from_ref(&out), &mut sent));
        assert_eq!((sent.datagrams, sent.batches), (201, 21));
        for (i, member) in members.iter().enumerate() {
            assert_eq!(lengths(member).len(), if i == 0 { 11 } else { 10 });
        }
    }

    #[test]
    fn a_full_outbox_asks_to_be_flushed() {
        let (out, a) = (socket(), socket());
        let mut outbox = Outbox::new();
        let mut pushed = 0;
        while outbox.room().is_some() {
            put(&mut outbox, 9_000, 0, &[target(&a)]);
            pushed += 1;
        }
        assert!(pushed >= ARENA_LEN / 9_000 - 8, "{pushed}");
        let mut sent = Sent::default();
        while !outbox.flush(from_ref(&out), &mut sent) {}
        assert_eq!(sent.datagrams, pushed as u64);
        assert!(outbox.room().is_some());
    }
}
