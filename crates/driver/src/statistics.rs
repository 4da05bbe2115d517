//! Counters of a driver.

use std::collections::BTreeMap;

use wellspring_core::DropReason;
use wellspring_trust::TrustCounters;

use crate::Faults;

/// By which way datagrams come in: it decides whether trimmed ones are seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum ReceivePath {
    /// An ordinary UDP socket. Linux discards datagrams that a switch has trimmed (their UDP
    /// length is no longer true): losses are inferred instead.
    #[default]
    Socket,
    /// An ordinary UDP socket for whole datagrams, a filtered raw socket for trimmed ones.
    SocketAndTap,
}

/// A snapshot of a driver's counters, all since it started: of one of its loops, or of all together.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Statistics {
    /// By which way datagrams come in.
    pub receive_path: ReceivePath,
    /// Whether batches go out by segmentation offload (GSO).
    pub segmentation: bool,
    /// Whether datagrams may come in coalesced (GRO).
    pub coalescing: bool,
    /// The receive buffer the system granted \[bytes\].
    pub receive_buffer: usize,
    /// The send buffer the system granted \[bytes\].
    pub send_buffer: usize,
    /// Faults in force, if any: no figure of this driver is to be reported without them.
    pub faults: Option<Faults>,
    /// Sessions open.
    pub sessions: usize,
    /// Hosts that sessions name.
    pub peers: usize,
    /// Multicast groups listened to.
    pub groups: usize,
    /// Bytes of received blocks held now \[bytes\].
    pub receive_memory: usize,
    /// Bytes of blocks to send held now \[bytes\].
    pub send_memory: usize,
    /// What came in.
    pub received: Received,
    /// What went out.
    pub sent: Sent,
    /// What was done to arriving datagrams on purpose.
    pub injected: Injected,
    /// What the keys have met, of drivers that have any.
    pub trust: Option<TrustCounters>,
}

/// What came in.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Received {
    /// Datagrams.
    pub datagrams: u64,
    /// Their UDP payload \[bytes\].
    pub bytes: u64,
    /// System calls that brought any.
    pub calls: u64,
    /// Batches (one or more coalesced datagrams).
    pub batches: u64,
    /// Datagrams that the system dropped because a socket's buffer was full.
    pub socket_dropped: u64,
    /// Symbols kept.
    pub symbols_kept: u64,
    /// Symbols that came trimmed.
    pub trimmed: u64,
    /// Datagrams marked by the network (ECN congestion experienced).
    pub marked: u64,
    /// Control messages handed over.
    pub control: u64,
    /// Control messages for which the queue had no room.
    pub control_dropped: u64,
    /// Datagrams to a multicast group that were no symbols: nothing else goes to one.
    pub not_for_groups: u64,
    /// Datagrams that were no packets of ours (see [`wellspring_wire::ParseError`]).
    pub malformed: u64,
    /// Symbols of another length than their session's.
    pub wrong_length: u64,
    /// Packets from addresses that no session names.
    pub strangers: u64,
    /// Symbols for whose block there was no memory; they count as lost on the way.
    pub out_of_memory: u64,
    /// Packets of senders refused for announcing other bytes.
    pub refused_senders: u64,
    /// Groups left because of a wrong symbol that any member could have forged.
    pub groups_left: u64,
    /// Packets the protocol did not use, by reason.
    pub dropped: BTreeMap<DropReason, u64>,
    /// Errors of earlier datagrams that the network reported (ICMP).
    pub icmp_errors: u64,
    /// Other errors of the receive call.
    pub errors: u64,
}

/// What went out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sent {
    /// Datagrams.
    pub datagrams: u64,
    /// Their UDP payload \[bytes\].
    pub bytes: u64,
    /// System calls that took any.
    pub calls: u64,
    /// Batches (one or more datagrams for segmentation).
    pub batches: u64,
    /// Source symbols.
    pub source_symbols: u64,
    /// Repair symbols.
    pub repair_symbols: u64,
    /// Symbols of LT codes, of which none is a source or a repair symbol.
    pub lt_symbols: u64,
    /// Pulls.
    pub pulls: u64,
    /// Control messages.
    pub control: u64,
    /// Packets for unknown sessions answered with a close.
    pub closes_to_strangers: u64,
    /// Such answers withheld to stay within their rate.
    pub closes_withheld: u64,
    /// Times the socket had no room.
    pub blocked: u64,
    /// Batches the system refused and that were lost.
    pub errors: u64,
    /// Batches that could not be segmented and went out one by one.
    pub segmentation_failures: u64,
    /// Symbols that had to wait until their block was read.
    pub waited_for_block: u64,
}

/// What was done to arriving datagrams on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Injected {
    /// Datagrams lost.
    pub lost: u64,
    /// Datagrams doubled.
    pub duplicated: u64,
    /// Symbols trimmed.
    pub trimmed: u64,
    /// Datagrams delayed out of order.
    pub reordered: u64,
    /// Datagrams dropped at the bottleneck's queue.
    pub overflowed: u64,
}

impl Statistics {
    /// Adds those of another loop.
    pub(crate) fn add(&mut self, other: Statistics) {
        // By name, so that none is forgotten.
        let Statistics {
            receive_path,
            segmentation,
            coalescing,
            receive_buffer,
            send_buffer,
            faults,
            sessions,
            peers,
            groups,
            receive_memory,
            send_memory,
            received,
            sent,
            injected,
            trust,
        } = other;
        if receive_path == ReceivePath::Socket {
            self.receive_path = receive_path;
        }
        self.segmentation &= segmentation;
        self.coalescing &= coalescing;
        self.receive_buffer += receive_buffer;
        self.send_buffer += send_buffer;
        self.faults = self.faults.or(faults);
        self.sessions += sessions;
        self.peers += peers;
        self.groups += groups;
        self.receive_memory += receive_memory;
        self.send_memory += send_memory;
        self.received.add(received);
        self.sent.add(sent);
        self.injected.add(injected);
        match (&mut self.trust, trust) {
            (Some(own), Some(trust)) => own.add(trust),
            (own, trust) => *own = own.or(trust),
        }
    }
}

impl Received {
    fn add(&mut self, other: Received) {
        let Received {
            datagrams,
            bytes,
            calls,
            batches,
            socket_dropped,
            symbols_kept,
            trimmed,
            marked,
            control,
            control_dropped,
            not_for_groups,
            malformed,
            wrong_length,
            strangers,
            out_of_memory,
            refused_senders,
            groups_left,
            dropped,
            icmp_errors,
            errors,
        } = other;
        self.datagrams += datagrams;
        self.bytes += bytes;
        self.calls += calls;
        self.batches += batches;
        self.socket_dropped += socket_dropped;
        self.symbols_kept += symbols_kept;
        self.trimmed += trimmed;
        self.marked += marked;
        self.control += control;
        self.control_dropped += control_dropped;
        self.not_for_groups += not_for_groups;
        self.malformed += malformed;
        self.wrong_length += wrong_length;
        self.strangers += strangers;
        self.out_of_memory += out_of_memory;
        self.refused_senders += refused_senders;
        self.groups_left += groups_left;
        for (reason, count) in dropped {
            *self.dropped.entry(reason).or_default() += count;
        }
        self.icmp_errors += icmp_errors;
        self.errors += errors;
    }
}

impl Sent {
    fn add(&mut self, other: Sent) {
        let Sent {
            datagrams,
            bytes,
            calls,
            batches,
            source_symbols,
            repair_symbols,
            lt_symbols,
            pulls,
            control,
            closes_to_strangers,
            closes_withheld,
            blocked,
            errors,
            segmentation_failures,
            waited_for_block,
        } = other;
        self.datagrams += datagrams;
        self.bytes += bytes;
        self.calls += calls;
        self.batches += batches;
        self.source_symbols += source_symbols;
        self.repair_symbols += repair_symbols;
        self.lt_symbols += lt_symbols;
        self.pulls += pulls;
        self.control += control;
        self.closes_to_strangers += closes_to_strangers;
        self.closes_withheld += closes_withheld;
        self.blocked += blocked;
        self.errors += errors;
        self.segmentation_failures += segmentation_failures;
        self.waited_for_block += waited_for_block;
    }
}

impl Injected {
    fn add(&mut self, other: Injected) {
        let Injected { lost, duplicated, trimmed, reordered, overflowed } = other;
        self.lost += lost;
        self.duplicated += duplicated;
        self.trimmed += trimmed;
        self.reordered += reordered;
        self.overflowed += overflowed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All numbers of a text.
    fn numbers(text: &str) -> Vec<u64> {
        let digits = text.split(|c: char| !c.is_ascii_digit());
        digits.filter(|digits| !digits.is_empty()).map(|n| n.parse().expect("digits")).collect()
    }

    #[test]
    fn of_each_number_the_sum_is_twice_that_of_one_of_two_alike() {
        let of = |first: u64| {
            let mut next = first;
            let mut number = || {
                next += 1;
                next
            };
            macro_rules! filled {
                ($name:ident { $($field:ident),* $(,)? } $($rest:tt)*) => {
                    $name { $($field: number(),)* $($rest)* }
                };
            }
            let dropped = [(DropReason::Duplicate, 7_000), (DropReason::Malformed, 8_000)];
            let received = filled!(Received {
                datagrams, bytes, calls, batches, socket_dropped, symbols_kept, trimmed, marked, control,
                control_dropped, not_for_groups, malformed, wrong_length, strangers, out_of_memory,
                refused_senders, groups_left, icmp_errors, errors,
            } dropped: dropped.into_iter().collect());
            let sent = filled!(Sent {
                datagrams,
                bytes,
                calls,
                batches,
                source_symbols,
                repair_symbols,
                lt_symbols,
                pulls,
                control,
                closes_to_strangers,
                closes_withheld,
                blocked,
                errors,
                segmentation_failures,
                waited_for_block,
            });
            let injected = filled!(Injected { lost, duplicated, trimmed, reordered, overflowed });
            let mut trust = TrustCounters::default();
            (trust.sealed, trust.handshakes) = (number(), number());
            let mut small = || usize::try_from(number()).expect("small");
            Statistics {
                receive_path: ReceivePath::SocketAndTap,
                segmentation: true,
                coalescing: true,
                receive_buffer: small(),
                send_buffer: small(),
                faults: None,
                sessions: small(),
                peers: small(),
                groups: small(),
                receive_memory: small(),
                send_memory: small(),
                received,
                sent,
                injected,
                trust: Some(trust),
            }
        };
        let one = of(100);
        let mut both = one.clone();
        both.add(one.clone());
        let [one, both] = [one, both].map(|statistics| numbers(&format!("{statistics:?}")));
        assert_eq!(both, one.iter().map(|number| number * 2).collect::<Vec<_>>());
        assert!(one.len() > 45 && one.iter().filter(|number| **number > 0).count() > 45);
    }

    #[test]
    fn all_have_what_each_has() {
        let with = |segmentation| Statistics {
            segmentation,
            receive_path: ReceivePath::SocketAndTap,
            ..Statistics::default()
        };
        let mut all = with(true);
        all.add(with(true));
        assert!(all.segmentation && all.receive_path == ReceivePath::SocketAndTap);
        all.add(Statistics { receive_path: ReceivePath::Socket, ..with(false) });
        assert!(!all.segmentation && all.receive_path == ReceivePath::Socket);
        let trust = Some(TrustCounters::default());
        all.add(Statistics { trust, ..Statistics::default() });
        assert_eq!(all.trust, trust);
    }
}
