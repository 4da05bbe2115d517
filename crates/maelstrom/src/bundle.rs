//! Bundles: several packets in one datagram over the long link, small ones together and multicast (§4.8).
//!
//! A bundle is an authenticated datagram between the two appliances with whole IP packets in it, each
//! behind its length (2 bytes). What a sender hears of the other end is said by hellos ([`BundleHello`]).

use wellspring_core::{Duration, Time};

use crate::auth::{HEADER_LEN, PresharedKey, Sealer, SessionId, TAG_LEN, Verifier};
use crate::batch::Batch;
use crate::bundle_hello::BundleHello;
use crate::drop_reason::DropReason;
use crate::wire::{Sealed, emit_bundle};

/// What a bundle has besides its packets, and each of those besides itself \[bytes\].
const BUNDLE_OVERHEAD: usize = HEADER_LEN + TAG_LEN;
const PACKET_OVERHEAD: usize = 2;

/// What a bundler or an unbundler has done.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct BundleCounters {
    /// Packets.
    pub packets: u64,
    /// Bundles with packets.
    pub bundles: u64,
    /// Packets that fit no bundle.
    pub too_long: u64,
    /// Datagrams dropped, by [`DropReason`].
    pub dropped: [u64; DropReason::COUNT],
}

/// Puts packets together.
#[derive(Debug)]
pub struct Bundler {
    sealer: Sealer,
    /// Longest datagram \[bytes\].
    longest: usize,
    hold: Duration,
    body: Vec<u8>,
    due: Option<Time>,
    counters: BundleCounters,
}

impl Bundler {
    /// Bundles of at most `longest` bytes (UDP payload), in which a packet waits for others at most
    /// for `hold`.
    pub fn new(key: &PresharedKey, session: SessionId, longest: usize, hold: Duration) -> Self {
        Bundler {
            sealer: Sealer::new(&key.for_bundles(), session),
            longest,
            hold,
            body: Vec::new(),
            due: None,
            counters: BundleCounters::default(),
        }
    }

    /// The longest packet that a bundle of that length holds \[bytes\].
    pub const fn longest_packet(longest: usize) -> usize {
        longest.saturating_sub(BUNDLE_OVERHEAD + PACKET_OVERHEAD)
    }

    /// What it has done.
    pub fn counters(&self) -> &BundleCounters {
        &self.counters
    }

    /// Adds a packet. Bundles that are full go to `out`; one that fits none is counted, and not sent.
    pub fn add(&mut self, now: Time, packet: &[u8], out: &mut Batch) {
        let cost = packet.len() + PACKET_OVERHEAD;
        let Ok(len) = u16::try_from(packet.len()) else {
            self.counters.too_long += 1;
            return;
        };
        if packet.len() > Self::longest_packet(self.longest) {
            self.counters.too_long += 1;
            return;
        }
        if BUNDLE_OVERHEAD + self.body.len() + cost > self.longest {
            self.send(out);
        }
        self.body.extend_from_slice(&len.to_be_bytes());
        self.body.extend_from_slice(packet);
        self.counters.packets += 1;
        self.due.get_or_insert(now + self.hold);
    }

    /// When [`Bundler::handle_timeout`] is to be called.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.due
    }

    /// It is that late: what has waited long enough goes to `out`.
    pub fn handle_timeout(&mut self, now: Time, out: &mut Batch) {
        if self.due.is_some_and(|due| now.has_reached(due)) {
            self.send(out);
        }
    }

    /// Appends a hello to `out`.
    pub fn hello(&mut self, hello: &BundleHello, out: &mut Batch) {
        out.write(0, |bytes| hello.emit(&mut self.sealer, self.longest, bytes));
    }

    fn send(&mut self, out: &mut Batch) {
        self.due = None;
        self.counters.bundles += 1;
        out.write(0, |bytes| emit_bundle(&mut self.sealer, &self.body, bytes));
        self.body.clear();
    }
}

/// What came from the other end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unbundled {
    /// Packets, which were given out.
    Packets,
    /// What it hears.
    Hello(BundleHello),
    /// A hello of a session that has not named this end's: perhaps the other end's, which began anew, perhaps a recorded one.
    /// No bundle of it is believed until it has; [`BundleHello::answer`] is for whoever sent it.
    Greeting(SessionId),
}

/// Takes bundles apart.
#[derive(Debug)]
pub struct Unbundler {
    own: SessionId,
    verifier: Verifier,
    counters: BundleCounters,
}

impl Unbundler {
    /// `own` is the session of this end's bundler.
    pub fn new(key: &PresharedKey, own: SessionId) -> Self {
        let counters = BundleCounters::default();
        Unbundler { own, verifier: Verifier::new(&key.for_bundles(), own), counters }
    }

    /// Takes a session for the other end's without having been named by it: where one direction is measured alone.
    #[doc(hidden)]
    #[must_use]
    pub fn believing(mut self, session: SessionId) -> Self {
        self.verifier.believe(session);
        self
    }

    /// The session of the other end's bundler, once it has named this end's.
    pub fn peer(&self) -> Option<SessionId> {
        self.verifier.peer()
    }

    /// What it has done.
    pub fn counters(&self) -> &BundleCounters {
        &self.counters
    }

    /// Gives out the packets of a datagram, as they were put in.
    ///
    /// # Errors
    /// Why it is not believed; nothing was given out, and it was counted.
    pub fn handle_datagram(
        &mut self,
        datagram: &[u8],
        mut give: impl FnMut(&[u8]),
    ) -> Result<Unbundled, DropReason> {
        let mut plain = Vec::new();
        let opened = self.open(datagram, &mut plain).inspect_err(|&why| {
            self.counters.dropped[why as usize] += 1;
        })?;
        let packets = match opened {
            Opened::Bundle(packets) => packets,
            Opened::Other(unbundled) => return Ok(unbundled),
        };
        let mut count = 0;
        for packet in Packets(packets) {
            count += 1;
            give(packet);
        }
        self.counters.packets += count;
        self.counters.bundles += u64::from(count > 0);
        Ok(Unbundled::Packets)
    }

    fn open<'a>(
        &mut self,
        datagram: &'a [u8],
        plain: &'a mut Vec<u8>,
    ) -> Result<Opened<'a>, DropReason> {
        let sealed = Sealed::parse(datagram)?;
        let (session, own) = (sealed.session, self.own);
        let mut said = None;
        let opened = sealed.opened(&mut self.verifier, plain, |bytes| {
            said = BundleHello::parse(bytes);
            said.is_some_and(|hello| hello.hears == Some(own))
        });
        let sealed = match (opened, said) {
            (Err(DropReason::Unconfirmed), Some(_)) => {
                return Ok(Opened::Other(Unbundled::Greeting(session)));
            }
            (opened, _) => opened?,
        };
        if let Some(hello) = BundleHello::parse(sealed.bytes) {
            return Ok(Opened::Other(Unbundled::Hello(hello)));
        }
        let body = sealed.bundle()?;
        let mut packets = Packets(body);
        packets.by_ref().for_each(drop);
        // All of it or nothing.
        if packets.0.is_empty() { Ok(Opened::Bundle(body)) } else { Err(DropReason::Malformed) }
    }
}

/// A datagram that was verified.
enum Opened<'a> {
    Bundle(&'a [u8]),
    Other(Unbundled),
}

/// Packets one behind the other; what is left when they end makes none.
struct Packets<'a>(&'a [u8]);

impl<'a> Iterator for Packets<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (len, rest) = self.0.split_first_chunk::<2>()?;
        let (packet, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*len)))?;
        self.0 = rest;
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::{KEY_LEN, seal_datagram};
    use proptest::prelude::*;

    const SESSION: SessionId = SessionId { start: 5, random: 5 };

    fn key() -> PresharedKey {
        PresharedKey::new([9; KEY_LEN])
    }

    fn pair(longest: usize) -> (Bundler, Unbundler) {
        let hold = Duration::from_micros(500);
        let other = SessionId { start: 6, random: 6 };
        let unbundler = Unbundler::new(&key(), other).believing(SESSION);
        (Bundler::new(&key(), SESSION, longest, hold), unbundler)
    }

    proptest! {
        #[test]
        fn packets_arrive_in_order_together_and_in_time(
            packets in proptest::collection::vec((0_usize..900, 0_u64..400), 1..80),
        ) {
            let (mut bundler, mut unbundler) = pair(800);
            let mut out = Batch::new();
            let (mut now, mut sent, mut got) = (Time::ZERO, Vec::new(), Vec::new());
            for (n, (len, wait)) in packets.into_iter().enumerate() {
                now = now + Duration::from_micros(wait);
                bundler.handle_timeout(now, &mut out);
                prop_assert!(bundler.poll_timeout().is_none_or(|due| due.is_after(now)));
                let packet = vec![n as u8; len];
                bundler.add(now, &packet, &mut out);
                if len + 2 + BUNDLE_OVERHEAD <= 800 {
                    sent.push(packet);
                }
            }
            bundler.handle_timeout(now + Duration::from_micros(500), &mut out);
            for datagram in out.iter() {
                prop_assert!(datagram.len() <= 800);
                unbundler.handle_datagram(datagram, |packet| got.push(packet.to_vec())).expect("ours");
                prop_assert_eq!(
                    unbundler.handle_datagram(datagram, |_| {}),
                    Err(DropReason::Replayed)
                );
            }
            prop_assert_eq!(unbundler.counters().packets, sent.len() as u64);
            prop_assert_eq!(got, sent);
        }

        #[test]
        fn nonsense_of_who_has_the_key_gives_nothing(
            kind: u8, body in proptest::collection::vec(any::<u8>(), 0..60),
        ) {
            let (_, mut unbundler) = pair(800);
            let mut datagram = vec![crate::wire::VERSION, kind, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            seal_datagram(&key().for_bundles(), SESSION, 0, &mut datagram, &body);
            let mut given = 0;
            let result = unbundler.handle_datagram(&datagram, |packet| given += packet.len() + 2);
            match result {
                Ok(Unbundled::Packets) => prop_assert_eq!(given, body.len()),
                Ok(_) => prop_assert!(kind == 9 && given == 0),
                Err(why) => prop_assert_eq!((why, given), (DropReason::Malformed, 0)),
            }
        }
    }

    fn said(bundler: &mut Bundler, hello: &BundleHello) -> Vec<u8> {
        let mut out = Batch::new();
        bundler.hello(hello, &mut out);
        out.iter().next().expect("one").to_vec()
    }

    #[test]
    fn a_hello_is_heard_as_it_was_said() {
        let (mut bundler, mut unbundler) = pair(800);
        for bits in 0..8 {
            let hello = BundleHello {
                hears: (bits & 1 != 0).then_some(SESSION),
                hears_long: bits & 2 != 0,
                is_long: bits & 4 != 0,
            };
            let datagram = said(&mut bundler, &hello);
            assert_eq!(datagram.len() == 800, hello.is_long, "{}", datagram.len());
            let heard = unbundler.handle_datagram(&datagram, |_| panic!("nothing in it"));
            assert_eq!(heard, Ok(Unbundled::Hello(hello)));
            assert_eq!(unbundler.handle_datagram(&datagram[1..], |_| {}), Err(DropReason::Foreign));
        }
        assert_eq!(unbundler.counters().bundles, 0);
    }

    #[test]
    fn bundles_are_taken_of_who_hears_this_end_alone() {
        let own = SessionId { start: 6, random: 6 };
        let (mut bundler, _) = pair(800);
        let mut unbundler = Unbundler::new(&key(), own);
        let mut out = Batch::new();
        bundler.add(Time::ZERO, &[1; 10], &mut out);
        bundler.handle_timeout(Time::ZERO + Duration::from_millis(1), &mut out);
        let bundle = out.iter().next().expect("one").to_vec();
        let refused = unbundler.handle_datagram(&bundle, |_| panic!("of nobody"));
        assert_eq!(refused, Err(DropReason::Unconfirmed));
        for hears in [None, Some(SESSION)] {
            let greeting = said(&mut bundler, &BundleHello { hears, ..BundleHello::default() });
            let heard = unbundler.handle_datagram(&greeting, |_| {});
            assert_eq!(heard, Ok(Unbundled::Greeting(SESSION)));
        }
        let hello = BundleHello::answer(own);
        let heard = unbundler.handle_datagram(&said(&mut bundler, &hello), |_| {});
        assert_eq!((heard, unbundler.peer()), (Ok(Unbundled::Hello(hello)), Some(SESSION)));
        // What was said before may have been recorded before this end began.
        let recorded = unbundler.handle_datagram(&bundle, |_| panic!("of nobody"));
        assert_eq!(recorded, Err(DropReason::Replayed));
    }

    #[test]
    fn one_whose_clock_went_back_is_told_nothing_that_it_could_take_for_an_ear() {
        let (own, newer) = (SessionId { start: 6, random: 6 }, SessionId { start: 9, random: 9 });
        let mut bundler = Bundler::new(&key(), SESSION, 800, Duration::ZERO);
        let mut there = Unbundler::new(&key(), own).believing(newer);
        let hello = said(&mut bundler, &BundleHello::answer(own));
        assert_eq!(there.handle_datagram(&hello, |_| {}), Err(DropReason::OldSession));
        let mut back = Bundler::new(&key(), own, 800, Duration::ZERO);
        let mut here = Unbundler::new(&key(), SESSION);
        for hears in [there.peer(), None] {
            let hello = said(&mut back, &BundleHello { hears, ..BundleHello::default() });
            assert_eq!(here.handle_datagram(&hello, |_| {}), Ok(Unbundled::Greeting(own)));
        }
    }
}
