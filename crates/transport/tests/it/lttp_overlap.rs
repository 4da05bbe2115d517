//! LTTP past the paper: a server that begins the next block before the stop of the one before is back.

use proptest::prelude::*;
use wellspring_core::{
    Destination, DropReason, Duration, Ecn, Endpoint as _, Frame, HostId, Identity, Seed,
    SessionId, Time, Verdict, Work, WorkDone,
};
use wellspring_testkit::{Checked, Faults, HostConfig, Network, Stop};
use wellspring_transport::lttp::{
    Command, Config, Endpoint, Event, LttpHeader, Parameters, ReceiveStats,
};
use wellspring_transport::tfrc::Stamp;

const K: u32 = 64;
const BLOCK: u64 = K as u64 * 1_024;

fn config(host: u32, overlap: bool) -> Config {
    let mut config = Config::new(HostId(host), Seed(9));
    config.block_symbols = K;
    config.overlap = overlap;
    config
}

/// A transfer, and what it is made in.
#[derive(Clone, Copy)]
struct Case {
    servers: u32,
    blocks: u64,
    /// Whether the server, and the client, overlap.
    overlap: (bool, bool),
    link: HostConfig,
    seed: u64,
}

impl Case {
    fn new(blocks: u64, overlap: bool) -> Case {
        let link = HostConfig { trims: false, queue: 30, ..HostConfig::new() };
        Case { servers: 1, blocks, overlap: (overlap, overlap), link, seed: 1 }
    }

    /// Runs it to its end; the clients' accounts and what was sent.
    fn run(self) -> (Vec<ReceiveStats>, u64) {
        let (server, client) = self.overlap;
        let hosts = (0..=self.servers).map(|host| {
            let overlap = if host == 0 { client } else { server };
            (Endpoint::new(config(host, overlap)), self.link)
        });
        let mut network = Network::new(Seed(self.seed), Time::ZERO, hosts, |_, _, _| K);
        for server in 1..=self.servers {
            let session = SessionId(server);
            let offer =
                Command::Offer { session, client: HostId(0), transfer_len: self.blocks * BLOCK };
            network.command(HostId(server), offer);
            network.command(HostId(0), Command::Request { session, server: HostId(server) });
        }
        assert_eq!(network.run(Duration::from_secs(36_000)), Stop::Quiet);
        let (mut received, mut sent) = (Vec::new(), Vec::new());
        for (_, _, event) in &network.log {
            match event {
                Event::Received { stats, .. } => received.push(*stats),
                Event::Sent { stats, .. } => sent.push(stats.sent),
                _ => {}
            }
        }
        assert_eq!((received.len(), sent.len()), (self.servers as usize, self.servers as usize));
        for host in 0..=self.servers {
            assert_eq!(network.endpoint(HostId(host)).open_sessions(), 0, "host {host}");
        }
        (received, sent.iter().sum())
    }

    fn redundant(self) -> u64 {
        self.run().0.iter().map(|stats| stats.redundant).sum()
    }
}

/// Eight hundred microseconds there and back: longer than a block takes at the link's rate.
fn long_round_trip(overlap: bool) -> Case {
    let mut case = Case::new(60, overlap);
    case.link.delay = Duration::from_micros(200);
    case
}

#[test]
fn most_redundant_symbols_are_saved_on_a_long_round_trip() {
    for loss in [0.0, 0.01, 0.1] {
        let [before, after] = [false, true].map(|overlap| {
            let mut case = long_round_trip(overlap);
            case.link.faults.loss = loss;
            case.redundant()
        });
        assert!(after * 2 <= before, "{loss}: {before} without overlap, {after} with");
    }
}

#[test]
fn a_transfer_takes_less_time_and_fewer_symbols() {
    let (_, before) = long_round_trip(false).run();
    let (_, after) = long_round_trip(true).run();
    assert!(after < before, "{before} sent without overlap, {after} with");
}

#[test]
fn a_single_block_is_sent_as_in_the_paper() {
    let one = |overlap| Case::new(1, overlap).run();
    assert_eq!(one(false), one(true));
}

#[test]
fn it_does_no_harm_if_only_one_side_overlaps() {
    for overlap in [(true, false), (false, true)] {
        let case = Case { overlap, ..long_round_trip(true) };
        let (received, _) = case.run();
        assert_eq!(received[0].source, 60 * u64::from(K));
    }
}

fn frame(header: LttpHeader) -> Frame<LttpHeader> {
    Frame {
        source: HostId(2),
        destination: Destination::Host(HostId(0)),
        session: SessionId(1),
        payload_len: 1_024,
        path: 0,
        class: 1,
        ecn: Ecn::NotCapable,
        trimmed: false,
        header,
    }
}

/// A client by hand, and what it is sent.
struct Hand {
    endpoint: Checked<Endpoint>,
    now: Time,
    number: u32,
}

impl Hand {
    fn new(blocks: u64) -> Hand {
        Hand::that_overlaps(blocks, true)
    }

    fn that_overlaps(blocks: u64, overlap: bool) -> Hand {
        let mut endpoint = Checked::new(Endpoint::new(config(0, overlap)));
        let (session, server) = (SessionId(1), HostId(2));
        endpoint.handle_command(Time::ZERO, Command::Request { session, server }).unwrap();
        let transfer_len = blocks * BLOCK;
        let parameters = Parameters { transfer_len, symbol_size: 1_024, block_symbols: K };
        let now = Time::ZERO + Duration::from_micros(10);
        endpoint.handle_frame(now, &frame(LttpHeader::Parameters(parameters)));
        let mut hand = Hand { endpoint, now, number: 0 };
        hand.stops();
        hand
    }

    fn symbol(&mut self, sbn: u32, esi: u32) -> Verdict {
        let rtt = Duration::from_micros(100);
        let stamp = Stamp { number: self.number, sent: Time::ZERO, rtt };
        self.number += 1;
        self.endpoint.handle_frame(self.now, &frame(LttpHeader::Symbol { stamp, sbn, esi }))
    }

    fn work(&mut self) -> Option<u32> {
        self.endpoint.poll_work().map(|Work::Finish { sbn, .. }| sbn)
    }

    fn finished(&mut self, sbn: u32) {
        let done = WorkDone::Finished { session: SessionId(1), sbn };
        self.endpoint.handle_work_done(self.now, done);
    }

    /// What it says now, reports aside.
    fn stops(&mut self) -> Vec<u32> {
        let mut stops = Vec::new();
        while self.endpoint.poll_event().is_some() {}
        while let Some(frame) = self.endpoint.poll_transmit(self.now) {
            if let LttpHeader::Stop { next } = frame.header {
                stops.push(next);
            }
        }
        stops
    }
}

#[test]
fn blocks_are_finished_in_order_whatever_comes_first() {
    let mut hand = Hand::new(3);
    for esi in 0..K {
        assert!(matches!(hand.symbol(1, esi), Verdict::Keep(Identity::Symbol { sbn: 1, .. })));
    }
    assert_eq!(hand.work(), None, "the first block is not there yet");
    for esi in 0..K {
        assert!(matches!(hand.symbol(0, esi), Verdict::Keep(Identity::Symbol { sbn: 0, .. })));
    }
    assert_eq!(hand.work(), Some(0));
    // While it is finished, its symbols are redundant and those of the next block are not.
    assert_eq!(hand.symbol(0, K), Verdict::Drop(DropReason::Stale));
    assert!(matches!(hand.symbol(1, K), Verdict::Keep(_)));
    hand.finished(0);
    assert_eq!(hand.work(), Some(1), "the second one was only waiting");
    assert_eq!(hand.stops(), [1]);
    hand.finished(1);
    assert_eq!((hand.work(), hand.stops()), (None, vec![2]));
    assert_eq!(
        hand.symbol(2, 0),
        Verdict::Keep(Identity::Symbol { session: SessionId(1), sbn: 2, esi: 0 })
    );
}

#[test]
fn what_is_too_far_ahead_is_dropped() {
    let mut hand = Hand::new(3);
    assert_eq!(hand.symbol(2, 0), Verdict::Drop(DropReason::Malformed));
    assert_eq!(hand.symbol(u32::MAX, 0), Verdict::Drop(DropReason::Malformed));
    assert_eq!(hand.symbol(1, u32::MAX), Verdict::Drop(DropReason::Malformed));
    let mut hand = Hand::new(1);
    assert_eq!(hand.symbol(1, 0), Verdict::Drop(DropReason::Malformed), "there is none");
}

/// Symbols of the block under way come whether the stop has come or not, for the server may overlap:
/// only the answer shows it. One that comes before the stop is said does not keep it from being said.
#[test]
fn a_stop_is_said_and_repeated_until_it_is_answered() {
    for overlap in [true, false] {
        let mut hand = Hand::that_overlaps(3, overlap);
        for esi in 0..K {
            hand.symbol(0, esi);
        }
        assert_eq!(hand.work(), Some(0));
        hand.finished(0);
        hand.symbol(1, 0);
        assert_eq!(hand.stops(), [1], "{overlap}");
        hand.symbol(1, 1);
        hand.now = hand.now + Duration::from_millis(250);
        hand.endpoint.handle_timeout(hand.now);
        assert_eq!(hand.stops(), [1], "{overlap}");
        hand.endpoint.handle_frame(hand.now, &frame(LttpHeader::Stopped { next: 1 }));
        hand.now = hand.now + Duration::from_millis(900);
        hand.endpoint.handle_timeout(hand.now);
        assert_eq!(hand.stops(), [0; 0], "{overlap}");
    }
}

/// To its congestion control they have come, or the rate would fall as if seven of eight were lost.
#[test]
fn who_does_not_overlap_takes_symbols_of_the_next_block_for_redundant_and_not_for_lost() {
    let mut hand = Hand::that_overlaps(3, false);
    for esi in 0..8 {
        assert_eq!(hand.symbol(1, esi), Verdict::Drop(DropReason::Stale));
    }
    hand.now = hand.now + Duration::from_millis(1);
    hand.endpoint.handle_timeout(hand.now);
    let reports = core::iter::from_fn(|| hand.endpoint.poll_transmit(hand.now));
    let lost: Vec<u32> = reports
        .filter_map(|frame| match frame.header {
            LttpHeader::Report(report) => Some(report.loss_event_rate),
            _ => None,
        })
        .collect();
    assert_eq!(lost, [0]);
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 64, ..ProptestConfig::with_cases(48) })]
    #[test]
    fn every_session_ends(
        seed in any::<u64>(),
        (servers, blocks) in (1_u32..4, 1_u64..5),
        overlap in any::<(bool, bool)>(),
        (loss, duplicate, reorder) in (0.0..0.3_f64, 0.0..0.2_f64, 0.0..0.3_f64),
        (delay, work) in (0_u64..500, 0_u64..2_000),
    ) {
        let reorder_by = Duration::from_micros(300);
        let faults = Faults { loss, duplicate, reorder, reorder_by, ..Faults::default() };
        let mut case = Case::new(blocks, true);
        case.link.faults = faults;
        case.link.delay = Duration::from_micros(delay);
        case.link.work = Duration::from_micros(work);
        Case { servers, overlap, seed, ..case }.run();
    }
}
