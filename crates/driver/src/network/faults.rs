//! Trouble made on purpose at the receive path.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use wellspring_core::{Duration, RandomStream, Seed, Time};
use wellspring_trust::Fingerprint;

use crate::Faults;
use crate::statistics::Injected;

/// Bytes of datagrams held back at one time; what comes beyond is dropped.
const MAX_HELD: usize = 64 << 20;

/// Where a datagram came from, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Origin {
    pub from: SocketAddr,
    pub local: Option<IpAddr>,
    pub dscp: u8,
    pub ecn: u8,
    /// Which of this host's sockets took it.
    pub port: u8,
    /// It went to a multicast group.
    pub to_group: bool,
    /// By which path from its host it came.
    pub path: u16,
    /// Whose the sessions with that host are.
    pub holder: Option<Fingerprint>,
}

/// Decides the fate of datagrams that have arrived.
pub(crate) struct Injector {
    faults: Faults,
    random: RandomStream,
    /// By due time, equal ones in the order of arrival.
    held: VecDeque<Held>,
    held_bytes: usize,
    /// When the bottleneck has passed all it holds.
    bottleneck_free: Option<Time>,
    pub(crate) counters: Injected,
}

struct Held {
    due: Time,
    origin: Origin,
    bytes: Vec<u8>,
}

impl Injector {
    /// None if nothing is to be done to arriving datagrams.
    pub(crate) fn new(faults: Faults) -> Option<Self> {
        faults.on_receive().then(|| Injector {
            faults,
            random: Seed(faults.seed).stream("receive faults"),
            held: VecDeque::new(),
            held_bytes: 0,
            bottleneck_free: None,
            counters: Injected::default(),
        })
    }

    /// Takes a datagram in; `pass` is called with what comes through at once. `trimmed_len` is what
    /// a trimming switch would leave of it, if it is one to be trimmed \[bytes\].
    pub(crate) fn arrive(
        &mut self,
        now: Time,
        origin: Origin,
        datagram: &[u8],
        trimmed_len: Option<usize>,
        mut pass: impl FnMut(&[u8]),
    ) {
        if self.draw(self.faults.loss) {
            self.counters.lost += 1;
            return;
        }
        let copies = if self.draw(self.faults.duplicate) {
            self.counters.duplicated += 1;
            2
        } else {
            1
        };
        let mut bytes = datagram;
        if let Some(len) = trimmed_len
            && self.draw(self.faults.trim)
        {
            self.counters.trimmed += 1;
            bytes = &bytes[..len.min(bytes.len())];
        }
        for _ in 0..copies {
            match self.due(now, bytes.len()) {
                Some(due) if due.is_after(now) => self.hold(due, origin, bytes),
                Some(_) => pass(bytes),
                None => self.counters.overflowed += 1,
            }
        }
    }

    /// When a datagram comes through; `None` if it is dropped at the bottleneck.
    fn due(&mut self, now: Time, len: usize) -> Option<Time> {
        let mut due = now;
        if let Some(rate) = self.faults.receive_rate {
            // UDP and IPv4 headers take their share of a real link.
            let on_link = len as u64 + 28;
            let free = self.bottleneck_free.filter(|free| free.is_after(now)).unwrap_or(now);
            if free.since(now) > rate.time_for(u64::from(self.faults.queue)) {
                return None;
            }
            due = free + rate.time_for(on_link);
            self.bottleneck_free = Some(due);
        }
        due = due + self.faults.delay;
        if self.draw(self.faults.reorder) {
            self.counters.reordered += 1;
            let back = self.random.below(self.faults.reorder_by.as_picos());
            due = due + Duration::from_picos(back);
        }
        Some(due)
    }

    fn hold(&mut self, due: Time, origin: Origin, bytes: &[u8]) {
        if self.held_bytes + bytes.len() > MAX_HELD {
            self.counters.overflowed += 1;
            return;
        }
        self.held_bytes += bytes.len();
        let place = self.held.partition_point(|held| due.has_reached(held.due));
        self.held.insert(place, Held { due, origin, bytes: bytes.to_vec() });
    }

    /// The next datagram held back whose time has come.
    pub(crate) fn release(&mut self, now: Time) -> Option<(Origin, Vec<u8>)> {
        let held = self.held.pop_front_if(|held| now.has_reached(held.due))?;
        self.held_bytes -= held.bytes.len();
        Some((held.origin, held.bytes))
    }

    /// When the next datagram held back is due.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.held.front().map(|held| held.due)
    }

    fn draw(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.random.chance(probability)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wellspring_core::Rate;

    const ORIGIN: Origin = Origin {
        from: SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9),
        local: None,
        dscp: 0,
        ecn: 0,
        port: 0,
        to_group: false,
        path: 0,
        holder: None,
    };

    #[test]
    fn nothing_to_do_means_no_injector() {
        assert!(
            Injector::new(Faults { send_rate: Some(Rate::from_mbps(1)), ..Faults::default() })
                .is_none()
        );
        assert!(Injector::new(Faults { loss: 0.1, ..Faults::default() }).is_some());
    }

    #[test]
    fn losses_and_copies_come_as_often_as_asked_and_again_with_the_same_seed() {
        let run = || {
            let faults =
                Faults { loss: 0.1, duplicate: 0.05, trim: 0.02, seed: 4, ..Faults::default() };
            let mut injector = Injector::new(faults).expect("active");
            let (mut came, mut cut) = (0, 0);
            for _ in 0..20_000 {
                injector.arrive(Time::ZERO, ORIGIN, &[0x10; 1_000], Some(72), |bytes| {
                    came += 1;
                    cut += u32::from(bytes.len() < 1_000);
                });
            }
            (came, cut)
        };
        let (came, cut) = run();
        assert!((18_400..19_400).contains(&came), "{came}");
        assert!((250..550).contains(&cut), "{cut}");
        assert_eq!(run(), (came, cut));
    }

    #[test]
    fn delayed_datagrams_come_in_order_of_their_time() {
        let faults = Faults { delay: Duration::from_millis(2), ..Faults::default() };
        let mut injector = Injector::new(faults).expect("active");
        for byte in 0..3 {
            let at = Time::from_picos(u64::from(byte));
            injector.arrive(at, ORIGIN, &[byte], None, |_| panic!("too early"));
        }
        assert_eq!(injector.deadline(), Some(Time::ZERO + Duration::from_millis(2)));
        assert!(injector.release(Time::ZERO).is_none());
        let later = Time::ZERO + Duration::from_millis(3);
        let order: Vec<_> =
            std::iter::from_fn(|| injector.release(later)).map(|(_, b)| b[0]).collect();
        assert_eq!(order, [0, 1, 2]);
        assert_eq!(injector.deadline(), None);
    }

    #[test]
    fn a_bottleneck_paces_and_drops_what_its_queue_cannot_hold() {
        let faults =
            Faults { receive_rate: Some(Rate::from_mbps(8)), queue: 10_000, ..Faults::default() };
        let mut injector = Injector::new(faults).expect("active");
        for _ in 0..100 {
            injector.arrive(Time::ZERO, ORIGIN, &[1; 972], None, |_| panic!("takes a millisecond"));
        }
        assert_eq!(injector.counters.overflowed, 89);
        let second = Time::ZERO + Duration::from_millis(1);
        assert!(injector.release(second).is_some());
        assert!(injector.release(second).is_none());
    }
}
