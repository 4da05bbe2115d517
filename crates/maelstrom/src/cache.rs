//! Cache of recently arrived datagrams, for hosts that lost them themselves (§4.5).
//!
//! A host that is overwhelmed drops datagrams after they have come all the way. It can ask for them by
//! what they begin with, such as a sequence number, instead of asking their sender again. Only UDP is
//! kept: TCP does not overrun its receiver.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use wellspring_core::{Duration, Time};

/// Times a packet is given out, at most: asking in another's name gains nothing.
const TIMES: u8 = 3;
/// Chains of packets, by their destination.
const CHAINS: usize = 1 << 12;
/// Packets looked at for one question, at most.
const LOOK_AT: usize = 1 << 14;
const UDP: u8 = 17;

/// What a host asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// Who sent it.
    pub from: SocketAddr,
    /// Its destination.
    pub to: SocketAddr,
    /// Where in the datagram's payload to look \[bytes\].
    pub at: usize,
    /// What stands there; nothing fits every datagram.
    pub bytes: Vec<u8>,
}

/// What a cache has done.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CacheCounters {
    /// Packets kept, of all that came.
    pub kept: u64,
    /// Questions.
    pub asked: u64,
    /// Packets given out again.
    pub found: u64,
}

/// UDP packets that arrived lately, within bounds of memory and age.
#[derive(Debug)]
pub struct PacketCache {
    limit: usize,
    age: Duration,
    kept: VecDeque<Kept>,
    /// Number of the oldest.
    first: u64,
    bytes: usize,
    /// One more than the number of each chain's newest; 0 for none.
    chains: Vec<u64>,
    counters: CacheCounters,
}

#[derive(Debug)]
struct Kept {
    at: Time,
    /// As [`PacketCache::chains`]: the one before it in its chain.
    before: u64,
    times: u8,
    packet: Box<[u8]>,
}

impl PacketCache {
    /// A cache of at most so many bytes, with what it needs for each packet, that forgets packets of
    /// that age.
    pub fn new(limit: usize, age: Duration) -> Self {
        PacketCache {
            limit,
            age,
            kept: VecDeque::new(),
            first: 0,
            bytes: 0,
            chains: vec![0; CHAINS],
            counters: CacheCounters::default(),
        }
    }

    /// What it has done.
    pub fn counters(&self) -> &CacheCounters {
        &self.counters
    }

    /// Keeps a packet, if it is a whole UDP datagram.
    pub fn keep(&mut self, now: Time, packet: &[u8]) {
        self.forget(now);
        let Some(datagram) = Datagram::parse(packet) else { return };
        let cost = size_of::<Kept>() + packet.len();
        if cost > self.limit {
            return;
        }
        while self.bytes + cost > self.limit {
            self.forget_oldest();
        }
        let number = self.first + self.kept.len() as u64;
        let chain = &mut self.chains[chain(datagram.to)];
        let before = std::mem::replace(chain, number + 1);
        self.kept.push_back(Kept { at: now, before, times: 0, packet: packet.into() });
        self.bytes += cost;
        self.counters.kept += 1;
    }

    /// Gives out the newest packets that fit, at most so many. Of datagrams that are alike, such as one
    /// that came late after it was brought back, it gives out the newest alone.
    pub fn find(
        &mut self,
        now: Time,
        wanted: &Wanted,
        most: usize,
        mut give: impl FnMut(&[u8]),
    ) -> usize {
        self.forget(now);
        self.counters.asked += 1;
        let mut found: Vec<usize> = Vec::new();
        let mut next = self.chains[chain(wanted.to)];
        for _ in 0..LOOK_AT {
            // Older ones of the chain are forgotten.
            let Some(place) = next.checked_sub(self.first + 1).filter(|_| found.len() < most)
            else {
                break;
            };
            let place = place as usize;
            let kept = &self.kept[place];
            next = kept.before;
            let Some(payload) = wanted.payload(&kept.packet) else { continue };
            let alike = |&newer: &usize| wanted.payload(&self.kept[newer].packet) == Some(payload);
            if kept.times < TIMES && !found.iter().any(alike) {
                give(&kept.packet);
                found.push(place);
                self.kept[place].times += 1;
            }
        }
        self.counters.found += found.len() as u64;
        found.len()
    }

    fn forget(&mut self, now: Time) {
        while self.kept.front().is_some_and(|oldest| now.has_reached(oldest.at + self.age)) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let Some(oldest) = self.kept.pop_front() else { return };
        self.bytes -= size_of::<Kept>() + oldest.packet.len();
        self.first += 1;
    }
}

impl Wanted {
    /// The payload of a packet that is asked for.
    fn payload<'a>(&self, packet: &'a [u8]) -> Option<&'a [u8]> {
        let datagram = Datagram::parse(packet)?;
        let fits = datagram.from == self.from
            && datagram.to == self.to
            && datagram.payload.get(self.at..).is_some_and(|rest| rest.starts_with(&self.bytes));
        fits.then_some(datagram.payload)
    }
}

/// A whole UDP datagram in an IP packet without options.
struct Datagram<'a> {
    from: SocketAddr,
    to: SocketAddr,
    payload: &'a [u8],
}

impl<'a> Datagram<'a> {
    fn parse(packet: &'a [u8]) -> Option<Self> {
        let address = |at: usize, ipv4: bool| -> Option<IpAddr> {
            let rest = packet.get(at..)?;
            Some(if ipv4 {
                Ipv4Addr::from(*rest.first_chunk::<4>()?).into()
            } else {
                Ipv6Addr::from(*rest.first_chunk::<16>()?).into()
            })
        };
        let (from, to, udp) = match packet.first()? {
            // Neither a fragment nor followed by some.
            0x45 if *packet.get(9)? == UDP && packet[6] & 0x3f == 0 && packet[7] == 0 => {
                (address(12, true)?, address(16, true)?, packet.get(20..)?)
            }
            first if first >> 4 == 6 && *packet.get(6)? == UDP => {
                (address(8, false)?, address(24, false)?, packet.get(40..)?)
            }
            _ => return None,
        };
        let head: [u8; 8] = *udp.first_chunk()?;
        let word = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let payload = udp.get(8..usize::from(word(4)))?;
        Some(Datagram { from: (from, word(0)).into(), to: (to, word(2)).into(), payload })
    }
}

/// Which chain a destination's packets are in.
fn chain(to: SocketAddr) -> usize {
    let address = match to.ip() {
        IpAddr::V4(ip) => u64::from(u32::from(ip)),
        IpAddr::V6(ip) => u128::from(ip)
            .to_be_bytes()
            .as_chunks::<8>()
            .0
            .iter()
            .fold(0, |sum, word| sum ^ u64::from_be_bytes(*word)),
    };
    let spread = (address << 16 ^ u64::from(to.port())).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (spread >> 32) as usize % CHAINS
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packet(to: u8, port: u16, payload: &[u8]) -> Vec<u8> {
        let mut bytes =
            vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, UDP, 0, 0, 10, 1, 0, 2, 10, 2, 0, to];
        let len = 8 + payload.len() as u16;
        bytes[2..4].copy_from_slice(&(20 + len).to_be_bytes());
        for word in [999, port, len, 0] {
            bytes.extend(word.to_be_bytes());
        }
        bytes.extend(payload);
        bytes
    }

    fn wanted(to: u8, port: u16, bytes: &[u8]) -> Wanted {
        let address = |text: String| text.parse().expect("an address");
        Wanted {
            from: address("10.1.0.2:999".into()),
            to: address(format!("10.2.0.{to}:{port}")),
            at: 1,
            bytes: bytes.to_vec(),
        }
    }

    fn find(cache: &mut PacketCache, at: u64, wanted: &Wanted, most: usize) -> Vec<Vec<u8>> {
        let mut found = Vec::new();
        let now = Time::ZERO + Duration::from_millis(at);
        let count = cache.find(now, wanted, most, |packet| found.push(packet.to_vec()));
        assert_eq!(count, found.len());
        found
    }

    #[test]
    fn what_was_asked_for_is_given_out_and_nothing_else() {
        let mut cache = PacketCache::new(1 << 20, Duration::from_millis(2_000));
        for n in 0..=255 {
            for (to, port) in [(2, 80), (2, 81), (3, 80)] {
                cache.keep(Time::ZERO, &packet(to, port, &[9, n, to]));
            }
        }
        assert_eq!(find(&mut cache, 0, &wanted(2, 80, &[77]), 8), [packet(2, 80, &[9, 77, 2])]);
        assert_eq!(find(&mut cache, 0, &wanted(2, 80, &[77, 3]), 8), Vec::<Vec<u8>>::new());
        assert_eq!(find(&mut cache, 0, &wanted(4, 80, &[77]), 8).len(), 0);
        // The newest, if many fit.
        let newest = [255, 254].map(|n| packet(3, 80, &[9, n, 3]));
        assert_eq!(find(&mut cache, 0, &wanted(3, 80, &[]), 2), newest);
        // One that came twice is given out once.
        let mut hopped = packet(2, 80, &[9, 77, 2]);
        hopped[8] -= 1;
        cache.keep(Time::ZERO, &hopped);
        assert_eq!(find(&mut cache, 0, &wanted(2, 80, &[77]), 8), [hopped]);
        // Not for ever.
        let again = |cache: &mut PacketCache| find(cache, 0, &wanted(2, 81, &[5]), 8).len();
        assert_eq!([(); 5].map(|()| again(&mut cache)), [1, 1, 1, 0, 0]);
        assert_eq!(find(&mut cache, 2_000, &wanted(2, 80, &[78]), 8).len(), 0, "too old");
        assert_eq!(cache.bytes, 0);
    }

    proptest! {
        #[test]
        fn memory_is_bounded_and_chains_hold(
            steps in proptest::collection::vec((0_u8..4, 80_u16..83, 0_usize..400, 0_u64..50), 1..200),
        ) {
            let mut cache = PacketCache::new(5_000, Duration::from_millis(300));
            let mut now = 0;
            let mut model: VecDeque<(u64, u8, u16, u8, usize)> = VecDeque::new();
            for (step, (to, port, len, wait)) in steps.into_iter().enumerate() {
                now += wait;
                let mark = step as u8;
                let payload = [&[0, mark][..], &vec![1; len]].concat();
                let bytes = packet(to, port, &payload);
                cache.keep(Time::ZERO + Duration::from_millis(now), &bytes);
                model.push_back((now, to, port, mark, bytes.len() + size_of::<Kept>()));
                while model.front().is_some_and(|oldest| oldest.0 + 300 <= now)
                    || model.iter().map(|kept| kept.4).sum::<usize>() > 5_000
                {
                    model.pop_front();
                }
                prop_assert!(cache.bytes <= 5_000);
                prop_assert_eq!(cache.kept.len(), model.len());
            }
            for (_, to, port, mark, _) in model {
                prop_assert_eq!(find(&mut cache, now, &wanted(to, port, &[mark]), 1).len(), 1);
            }
        }

        #[test]
        fn garbage_is_not_kept(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let mut cache = PacketCache::new(1 << 20, Duration::from_millis(300));
            cache.keep(Time::ZERO, &bytes);
            prop_assert!(cache.counters().kept <= 1);
        }
    }
}
