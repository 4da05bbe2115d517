//! LTTP on small networks: every session ends, whatever is lost, doubled or disordered.

use proptest::prelude::*;
use wellspring_core::{
    Destination, Duration, Ecn, Endpoint as _, Frame, HostId, Seed, SessionId, Time, Verdict, Work,
    WorkDone,
};
use wellspring_testkit::{Checked, Faults, HostConfig, Network, Stop};
use wellspring_transport::lttp::{
    Command, CommandError, Config, Endpoint, Event, FailReason, LttpHeader, Parameters, SendStats,
};
use wellspring_transport::tfrc::{Report, Stamp};

const K: u32 = 32;
const BLOCK: u64 = K as u64 * 1_024;

fn config(host: u32) -> Config {
    let mut config = Config::new(HostId(host), Seed(9));
    config.block_symbols = K;
    config.progress_every = 8;
    config
}

/// One client, host 0, and servers behind it: each sends so many blocks.
fn network(servers: u32, blocks: u64, faults: Faults, seed: u64) -> Network<Endpoint> {
    let link = HostConfig { trims: false, queue: 30, faults, ..HostConfig::new() };
    let hosts = (0..=servers).map(|host| (Endpoint::new(config(host)), link));
    let mut network = Network::new(Seed(seed), Time::ZERO, hosts, |_, _, _| K);
    for server in 1..=servers {
        let session = SessionId(server);
        let transfer_len = blocks * BLOCK;
        let offer = Command::Offer { session, client: HostId(0), transfer_len };
        network.command(HostId(server), offer);
        network.command(HostId(0), Command::Request { session, server: HostId(server) });
    }
    network
}

fn received(network: &Network<Endpoint>) -> usize {
    network.log.iter().filter(|(_, _, event)| matches!(event, Event::Received { .. })).count()
}

fn sent(network: &Network<Endpoint>) -> Vec<SendStats> {
    let stats = |event: &Event| match event {
        Event::Sent { stats, .. } => Some(*stats),
        _ => None,
    };
    network.log.iter().filter_map(|(_, _, event)| stats(event)).collect()
}

fn completes(network: &mut Network<Endpoint>, servers: u32) {
    let stop = network.run(Duration::from_secs(36_000));
    assert_eq!(stop, Stop::Quiet);
    assert_eq!((received(network), sent(network).len()), (servers as usize, servers as usize));
    for host in 0..=servers {
        assert_eq!(network.endpoint(HostId(host)).open_sessions(), 0, "host {host}");
    }
}

#[test]
fn a_block_comes_in_a_few_round_trips_and_the_server_stops() {
    let mut network = network(1, 1, Faults::default(), 1);
    completes(&mut network, 1);
    let stats = sent(&network)[0];
    assert_eq!(stats.source, u64::from(K));
    // What is sent while the stop is under way: a round trip at twice what arrives.
    assert!((32..64).contains(&stats.sent), "{stats:?}");
    assert_eq!(stats.silences, 0);
    let end = network.log.last().unwrap().0.as_secs_f64();
    assert!(end < 2e-3, "{end}");
}

#[test]
fn many_servers_fill_the_clients_link_and_none_starves() {
    let mut network = network(20, 8, Faults::default(), 1);
    completes(&mut network, 20);
    let done = |event: &Event| matches!(event, Event::Received { .. });
    let last = network.log.iter().rev().find(|(_, _, event)| done(event)).unwrap().0;
    let goodput = 20.0 * 8.0 * BLOCK as f64 * 8.0 / last.as_secs_f64() / 1e6;
    assert!((500.0..960.0).contains(&goodput), "{goodput} Mbit/s");
}

#[test]
fn a_session_has_one_answer_on_every_machine() {
    let faults = Faults { loss: 0.05, duplicate: 0.05, ..Faults::default() };
    let digest = |seed| {
        let mut network = network(3, 4, faults, seed);
        completes(&mut network, 3);
        let stats = sent(&network);
        (
            network.log.last().unwrap().0.as_picos(),
            stats.iter().map(|stats| stats.sent).sum::<u64>(),
        )
    };
    assert_eq!(digest(7), digest(7));
    assert_ne!(digest(7), digest(8));
    assert_eq!(digest(7), GOLDEN);
}
const GOLDEN: (u64, u64) = (5_198_578_200, 491);

#[test]
fn lost_peers_are_given_up() {
    for dead in [0, 1] {
        let mut network = network(1, 1_000, Faults::default(), 1);
        network.run(Duration::from_millis(1));
        network.set_alive(HostId(dead), false);
        network.run(Duration::from_secs(1_000));
        let left = HostId(1 - dead);
        let failed =
            |event: &Event| matches!(event, Event::Failed { reason: FailReason::PeerLost, .. });
        assert!(network.log.iter().any(|(_, host, event)| *host == left && failed(event)));
        assert_eq!(network.endpoint(left).open_sessions(), 0);
    }
}

#[test]
fn either_side_can_cancel() {
    for host in [0, 1] {
        let mut network = network(1, 1_000, Faults::default(), 1);
        network.run(Duration::from_millis(2));
        network.command(HostId(host), Command::Cancel { session: SessionId(1) });
        assert_eq!(network.run(Duration::from_secs(1_000)), Stop::Quiet);
        let closed = Event::Failed { session: SessionId(1), reason: FailReason::Closed };
        assert!(network.log.iter().any(|(_, at, event)| at.0 == 1 - host && *event == closed));
        assert_eq!(network.endpoint(HostId(0)).open_sessions(), 0);
        assert_eq!(network.endpoint(HostId(1)).open_sessions(), 0);
    }
}

#[test]
fn commands_that_contradict_are_refused() {
    let mut endpoint = Endpoint::new(Config { max_sessions: 2, ..config(0) });
    let mut command = |command| endpoint.handle_command(Time::ZERO, command);
    let (session, client) = (SessionId(1), HostId(5));
    let offer = |transfer_len| Command::Offer { session, client, transfer_len };
    let limit = BLOCK * u64::from(u32::MAX);
    assert_eq!(command(offer(0)), Err(CommandError::TransferLength { got: 0, limit }));
    let got = u64::MAX;
    assert_eq!(command(offer(got)), Err(CommandError::TransferLength { got, limit }));
    assert_eq!(command(offer(1)), Ok(()));
    assert_eq!(command(offer(1)), Err(CommandError::SessionInUse(session)));
    assert_eq!(command(Command::Request { session, server: HostId(2) }), Ok(()));
    let request = Command::Request { session: SessionId(2), server: HostId(2) };
    assert_eq!(command(request), Err(CommandError::TooManySessions(2)));
    let cancel = Command::Cancel { session: SessionId(3) };
    assert_eq!(command(cancel), Err(CommandError::NoSuchSession(SessionId(3))));
}

fn frame(from: u32, session: u32, header: LttpHeader) -> Frame<LttpHeader> {
    Frame {
        source: HostId(from),
        destination: Destination::Host(HostId(0)),
        session: SessionId(session),
        payload_len: 1_024,
        path: 0,
        class: 1,
        ecn: Ecn::NotCapable,
        trimmed: false,
        header,
    }
}

fn symbol(number: u32, sbn: u32, esi: u32) -> LttpHeader {
    let stamp = Stamp { number, sent: Time::ZERO, rtt: Duration::from_micros(100) };
    LttpHeader::Symbol { stamp, sbn, esi }
}

/// The client asks with k symbols, and after every further one while the decoder needs more.
#[test]
fn the_decoder_is_asked_again_with_every_further_symbol() {
    let mut endpoint = Checked::new(Endpoint::new(config(0)));
    let (session, server) = (SessionId(1), HostId(2));
    endpoint.handle_command(Time::ZERO, Command::Request { session, server }).unwrap();
    let parameters = Parameters { transfer_len: BLOCK + 1, symbol_size: 1_024, block_symbols: K };
    let now = Time::ZERO + Duration::from_micros(10);
    let deliver = |endpoint: &mut Checked<Endpoint>, header| {
        let verdict = endpoint.handle_frame(now, &frame(2, 1, header));
        (verdict, endpoint.poll_work())
    };
    // Symbols may come before the parameters.
    for esi in 0..K - 1 {
        let (verdict, work) = deliver(&mut endpoint, symbol(esi, 0, esi * 3));
        assert!(matches!(verdict, Verdict::Keep(_)) && work.is_none());
    }
    assert_eq!(deliver(&mut endpoint, LttpHeader::Parameters(parameters)).1, None);
    let finish = Some(Work::Finish { session, sbn: 0, decode: true });
    let mut number = K;
    for _ in 0..3 {
        assert_eq!(deliver(&mut endpoint, symbol(number, 0, number * 3)).1, finish);
        let redundant = deliver(&mut endpoint, symbol(number, 0, number * 3 + 1));
        assert!(matches!(redundant, (Verdict::Drop(_), None)), "the block is being worked on");
        endpoint.handle_work_done(now, WorkDone::NeedMore { session, sbn: 0, more: 1 });
        number += 1;
    }
    assert_eq!(deliver(&mut endpoint, symbol(number, 0, number * 3)).1, finish);
    endpoint.handle_work_done(now, WorkDone::Finished { session, sbn: 0 });
    endpoint.handle_work_done(now, WorkDone::Finished { session, sbn: 0 });
    let mut blocks = 0;
    while let Some(event) = endpoint.poll_event() {
        blocks += u32::from(matches!(event, Event::BlockComplete { .. }));
    }
    assert_eq!(blocks, 1);
    // The next block has one symbol.
    let last = Some(Work::Finish { session, sbn: 1, decode: true });
    assert_eq!(deliver(&mut endpoint, symbol(number, 1, 0)).1, last);
}

/// Whatever strangers send: no panic, nothing sent to who asks for what was not offered to him, and no
/// session ended by another host than its peer.
#[test]
fn strangers_get_nothing_and_end_nothing() {
    let mut endpoint = Checked::new(Endpoint::new(config(0)));
    let (session, client) = (SessionId(1), HostId(2));
    let offer = Command::Offer { session, client, transfer_len: BLOCK };
    endpoint.handle_command(Time::ZERO, offer).unwrap();
    let request = Command::Request { session: SessionId(2), server: HostId(3) };
    endpoint.handle_command(Time::ZERO, request).unwrap();
    while endpoint.poll_transmit(Time::ZERO).is_some() {}
    let parameters = Parameters { transfer_len: 1, symbol_size: 1, block_symbols: 1 };
    let headers = [
        LttpHeader::Request,
        LttpHeader::Parameters(parameters),
        symbol(0, 0, 0),
        LttpHeader::Stop { next: 1 },
        LttpHeader::Stopped { next: 1 },
        LttpHeader::Close,
    ];
    for (from, session) in [(9, 1), (9, 2), (2, 2), (3, 1), (2, 7)] {
        for header in headers {
            let verdict = endpoint.handle_frame(Time::ZERO, &frame(from, session, header));
            assert!(matches!(verdict, Verdict::Drop(_)), "{from} {session} {header:?}");
        }
    }
    while let Some(frame) = endpoint.poll_transmit(Time::ZERO) {
        assert!(matches!(frame.header, LttpHeader::Stopped { .. }), "{frame:?}");
    }
    assert_eq!(endpoint.inner().open_sessions(), 2);
}

fn any_header() -> impl Strategy<Value = LttpHeader> {
    let time = || any::<u64>().prop_map(Time::from_picos);
    let span = || any::<u64>().prop_map(Duration::from_picos);
    let small = || prop_oneof![0_u32..100, any::<u32>()];
    prop_oneof![
        Just(LttpHeader::Request),
        (any::<u64>(), any::<u16>(), small()).prop_map(|(transfer_len, symbol_size, block)| {
            let block_symbols = block;
            LttpHeader::Parameters(Parameters { transfer_len, symbol_size, block_symbols })
        }),
        ((small(), time(), span()), 0_u32..3, small()).prop_map(
            |((number, sent, rtt), sbn, esi)| {
                LttpHeader::Symbol { stamp: Stamp { number, sent, rtt }, sbn, esi }
            }
        ),
        (time(), span(), any::<u64>(), any::<u32>()).prop_map(
            |(echo, delay, receive_rate, loss_event_rate)| {
                LttpHeader::Report(Report { echo, delay, receive_rate, loss_event_rate })
            }
        ),
        small().prop_map(|next| LttpHeader::Stop { next }),
        small().prop_map(|next| LttpHeader::Stopped { next }),
        Just(LttpHeader::Close),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn every_session_ends(
        seed in any::<u64>(),
        servers in 1_u32..6,
        blocks in 1_u64..4,
        (loss, duplicate, reorder) in (0.0..0.3_f64, 0.0..0.2_f64, 0.0..0.3_f64),
    ) {
        let reorder_by = Duration::from_micros(300);
        let faults = Faults { loss, duplicate, reorder, reorder_by, ..Faults::default() };
        completes(&mut network(servers, blocks, faults, seed), servers);
    }

    /// Peers that send anything at any time: no panic, and the contract holds.
    #[test]
    fn no_frame_breaks_the_contract(
        steps in prop::collection::vec((any_header(), 1_u32..3, 0_u64..5_000, any::<bool>()), 1..120),
        overlap in any::<bool>(),
    ) {
        let mut endpoint = Checked::new(Endpoint::new(Config { overlap, ..config(0) }));
        let offer = Command::Offer { session: SessionId(1), client: HostId(1), transfer_len: BLOCK };
        endpoint.handle_command(Time::ZERO, offer).unwrap();
        let request = Command::Request { session: SessionId(1), server: HostId(2) };
        endpoint.handle_command(Time::ZERO, request).unwrap();
        let mut now = Time::ZERO;
        for (header, from, micros, enough) in steps {
            now = now + Duration::from_micros(micros);
            endpoint.handle_timeout(now);
            endpoint.handle_frame(now, &frame(from, 1, header));
            while let Some(Work::Finish { session, sbn, .. }) = endpoint.poll_work() {
                endpoint.handle_work_done(now, match enough {
                    true => WorkDone::Finished { session, sbn },
                    false => WorkDone::NeedMore { session, sbn, more: 1 },
                });
            }
            while endpoint.poll_event().is_some() {}
            for _ in 0..4 {
                if endpoint.poll_transmit(now).is_none() {
                    break;
                }
            }
        }
    }
}
