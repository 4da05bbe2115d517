//! Frames no honest peer would send.

use super::lab::*;
use proptest::prelude::*;
use wellspring_core::{Destination, Duration, Ecn, Endpoint as _, Frame, SessionId, Time};
use wellspring_testkit::HostConfig;
use wellspring_transport::scdp::{
    Command, Endpoint, Event, Fabric, ObjectInfo, ReceiveSession, Role, SendSession, Share,
};
use wellspring_wire::scdp::{Close, CloseReason, MAX_ESI, Mode, Options, Pull, ScdpHeader, Symbol};

/// Small numbers hit the bounds of what is going on, large ones those of arithmetic.
fn number() -> impl Strategy<Value = u32> {
    prop_oneof![0..300_u32, any::<u32>(), Just(u32::MAX)]
}

fn options() -> impl Strategy<Value = Options> {
    let mode = prop_oneof![Just(Mode::Unicast), Just(Mode::OneToMany), Just(Mode::ManyToOne)];
    let genuine = any::<u8>().prop_map(|initial_window| {
        let object = object(300);
        Options {
            transfer_len: object.transfer_len,
            object_tag: object.object_tag,
            source_blocks: object.source_blocks,
            symbol_size: object.symbol_size,
            mode: Mode::Unicast,
            initial_window,
        }
    });
    let absurd = (1..u64::MAX, any::<u64>(), 1..u32::MAX, 1..u16::MAX, mode, any::<u8>()).prop_map(
        |(transfer_len, object_tag, source_blocks, symbol_size, mode, initial_window)| Options {
            transfer_len,
            object_tag,
            source_blocks,
            symbol_size,
            mode,
            initial_window,
        },
    );
    prop_oneof![genuine, absurd]
}

fn header() -> impl Strategy<Value = ScdpHeader> {
    let symbol = (
        number(),
        prop_oneof![0..400_u32, 0..=MAX_ESI],
        number(),
        0..3_u8,
        any::<bool>(),
        prop::option::of(options()),
    )
        .prop_map(|(sbn, esi, number, epoch, fin, options)| {
            ScdpHeader::Symbol(Symbol { sbn, esi, number, epoch, priority: 1, fin, options })
        });
    let first = prop::option::of(prop_oneof![0..400_u32, 0..=MAX_ESI]);
    let pull = (number(), number(), number(), 1..u16::MAX, 0..3_u8, any::<bool>(), first).prop_map(
        |(sbn, granted, floor, run, epoch, fin, first)| {
            ScdpHeader::Pull(Pull { sbn, granted, floor, run, epoch, fin, first })
        },
    );
    let reason = prop_oneof![
        Just(CloseReason::UnknownSession),
        Just(CloseReason::Cancelled),
        Just(CloseReason::Complete)
    ];
    let close = (reason, any::<bool>())
        .prop_map(|(reason, from_receiver)| ScdpHeader::Close(Close { reason, from_receiver }));
    prop_oneof![4 => symbol, 4 => pull, 1 => close]
}

fn frame(sources: std::ops::Range<u32>) -> impl Strategy<Value = Frame<ScdpHeader>> {
    let session = prop_oneof![4 => Just(SESSION), 1 => (0..50_u32).prop_map(SessionId)];
    (sources, session, header(), any::<bool>(), any::<bool>()).prop_map(
        |(source, session, header, trimmed, marked)| Frame {
            source: host(source),
            destination: Destination::Host(host(0)),
            session,
            payload_len: if trimmed { 0 } else { T },
            path: 0,
            class: 0,
            ecn: if marked { Ecn::Marked } else { Ecn::NotCapable },
            trimmed,
            header,
        },
    )
}

type Attack = Vec<(u32, u64, Frame<ScdpHeader>)>;

fn attack(sources: std::ops::Range<u32>) -> impl Strategy<Value = Attack> {
    prop::collection::vec((0..2_u32, 0..400_u64, frame(sources)), 0..80)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    /// Strangers cannot harm an announced session, nor open one.
    #[test]
    fn strangers_change_nothing(seed: u64, attack in attack(2..4)) {
        let mut lab = lab(seed, 4, Fabric::Trimming, HostConfig::new(), |c| {
            c.accept_unannounced = false;
        });
        let command = ReceiveSession {
            session: SESSION,
            object: object(300),
            mode: Mode::Unicast,
            senders: vec![host(1)],
            initial_window: 12,
            complete: Vec::new(), priority: wellspring_core::Priority::Normal,
        };
        lab.command(host(0), Command::Receive(command));
        send_one_to_one(&mut lab, 1, 0, 300);
        for (to, wait_us, frame) in attack {
            lab.run(Duration::from_micros(wait_us));
            lab.inject(host(to), frame);
        }
        lab.run(Duration::from_secs(1));
        let (_, stats) = received(&lab, 0);
        prop_assert_eq!(lab.sent[&host(1)], 300);
        prop_assert_eq!(stats.decode_free_blocks, 3);
        assert_all_over(&mut lab, 4);
    }

    /// A peer of the session may spoil it, but not for ever, and breaks nothing else.
    #[test]
    fn hostile_peers_only_spoil_their_own_session(seed: u64, attack in attack(0..4), shared: bool) {
        let fabric = if shared { SHARED } else { Fabric::Trimming };
        let mut lab = lab(seed, 4, fabric, HostConfig::new(), |_| {});
        send_one_to_one(&mut lab, 1, 0, 300);
        let other = SessionId(1_000);
        let role = wellspring_transport::scdp::Role::Unicast {
            receiver: host(3),
            share: wellspring_transport::scdp::Share::WHOLE,
        };
        send(&mut lab, 2, other, role, 300, 12);
        for (to, wait_us, frame) in attack {
            lab.run(Duration::from_micros(wait_us));
            lab.inject(host(to), frame);
        }
        lab.run(Duration::from_secs(10));
        received(&lab, 3);
        assert_all_over(&mut lab, 4);
    }

    /// The same by several paths, some of which are added while frames come by them.
    #[test]
    fn hostile_frames_by_any_path_spoil_no_more_than_their_session(
        seed: u64, attack in attack(0..2), paths in prop::collection::vec(0..6_u16, 80), shared: bool,
    ) {
        let fabric = if shared { SHARED } else { Fabric::Trimming };
        let mut lab = lab(seed, 4, fabric, HostConfig::new(), |c| {
            (c.paths, c.directed) = (4, true);
        });
        fetch(&mut lab, 1, 300);
        let role = Role::Unicast { receiver: host(3), share: Share::WHOLE };
        send(&mut lab, 2, SessionId(1_000), role, 300, 12);
        for (index, (to, wait_us, mut frame)) in attack.into_iter().enumerate() {
            lab.run(Duration::from_micros(wait_us));
            for (at, peer) in [(0, 1), (1, 0)] {
                let path = 1 + paths[index] % 3;
                if index % 4 == 1 && lab.endpoint(host(at)).object(SESSION).is_some() {
                    let add = Command::AddPath { session: SESSION, peer: host(peer), path };
                    lab.try_command(host(at), add);
                }
            }
            frame.path = paths[index];
            lab.inject(host(to), frame);
        }
        lab.run(Duration::from_secs(10));
        received(&lab, 3);
        assert_all_over(&mut lab, 4);
    }
}

/// One pull brings no more than the window that its sender allows, however much it asks for.
#[test]
fn one_pull_brings_no_more_than_a_window() {
    for (symbol_size, most) in [(1_440_u16, 2_048), (8_192, 2_048), (32_768, 512), (65_000, 258)] {
        let mut sender = Endpoint::new(config(1, SHARED));
        let len = 100_000 * u64::from(symbol_size);
        let open = SendSession {
            session: SESSION,
            object: ObjectInfo::new(len, symbol_size, 100, 0xfeed),
            role: Role::Unicast { receiver: host(0), share: Share::WHOLE },
            initial_window: 12,
            class: None,
            resume: None,
            priority: wellspring_core::Priority::Normal,
        };
        sender.handle_command(Time::ZERO, Command::Send(open)).expect("opens");
        let sent = |sender: &mut Endpoint| {
            std::iter::from_fn(|| sender.poll_transmit(Time::ZERO)).count() as u32
        };
        assert_eq!(sent(&mut sender), 12);
        for (round, granted) in [(1, 60_000), (2, 60_001)] {
            let pull =
                Pull { sbn: 0, granted, floor: 0, run: 65_535, epoch: 0, fin: false, first: None };
            sender.handle_frame(Time::ZERO, &pull_frame(0, 1, pull));
            let got = sent(&mut sender);
            assert_eq!(got, most, "T {symbol_size}, pull {round}");
        }
    }
}

/// Whoever asks for what is none and says that it has all keeps no session open.
#[test]
fn a_pull_for_what_is_none_keeps_no_session_open() {
    let pull = Pull { sbn: 0, granted: 20, floor: 0, run: 1, epoch: 0, fin: true, first: None };
    let all = Pull { floor: 1, ..pull };
    let no_symbol = Pull { first: Some(MAX_ESI), run: 8, ..pull };
    for pull in [pull, all, no_symbol] {
        let mut sender = Endpoint::new(config(1, SHARED));
        let open = SendSession {
            session: SESSION,
            object: object(300),
            role: Role::Unicast { receiver: host(0), share: Share::WHOLE },
            initial_window: 12,
            class: None,
            resume: None,
            priority: wellspring_core::Priority::Normal,
        };
        sender.handle_command(Time::ZERO, Command::Send(open)).expect("opens");
        while sender.poll_transmit(Time::ZERO).is_some() {}
        sender.handle_frame(Time::ZERO, &pull_frame(0, 1, pull));
        let mut now = Time::ZERO;
        while sender.sessions() > 0 {
            while sender.poll_transmit(now).is_some() {}
            now = sender.poll_timeout().unwrap_or_else(|| panic!("{pull:?} is never over"));
            sender.handle_timeout(now);
        }
    }
}

/// What a forged close ends, a late symbol may open again: another session, which has nothing yet.
#[test]
fn a_session_of_the_number_of_one_that_was_closed_begins_from_nothing() {
    let mut lab = lab(1, 2, Fabric::Trimming, HostConfig::new(), |_| {});
    send_one_to_one(&mut lab, 1, 0, 300);
    let mut accepted = 0;
    for wait_us in 1..200 {
        lab.run(Duration::from_micros(wait_us));
        let close = Close { reason: CloseReason::Cancelled, from_receiver: false };
        lab.inject(host(0), forged(ScdpHeader::Close(close), 0));
        let object = object(300);
        let options = Options {
            transfer_len: object.transfer_len,
            object_tag: object.object_tag,
            source_blocks: object.source_blocks,
            symbol_size: object.symbol_size,
            mode: Mode::Unicast,
            initial_window: 12,
        };
        for esi in 0..3 {
            let symbol = Symbol {
                sbn: 0,
                esi,
                number: esi,
                epoch: 0,
                priority: 1,
                fin: false,
                options: Some(options),
            };
            lab.inject(host(0), forged(ScdpHeader::Symbol(symbol), T));
        }
        accepted = lab.log.iter().filter(|(_, _, e)| matches!(e, Event::Accepted { .. })).count();
    }
    assert!(accepted > 10, "{accepted} sessions");
    lab.run(Duration::from_secs(10));
    assert_all_over(&mut lab, 2);
}

fn forged(header: ScdpHeader, payload_len: u16) -> Frame<ScdpHeader> {
    Frame {
        source: host(1),
        destination: Destination::Host(host(0)),
        session: SESSION,
        payload_len,
        path: 0,
        class: 0,
        ecn: Ecn::NotCapable,
        trimmed: false,
        header,
    }
}

/// Copies of one trimmed header, one after the other: of a sender alone, or one that sends to a group.
fn copies_of_a_header(mode: Mode) -> (Lab, Frame<ScdpHeader>) {
    let mut lab = lab(1, 2, SHARED, HostConfig::new(), |_| {});
    lab.set_alive(host(1), false);
    let command = ReceiveSession {
        session: SESSION,
        object: object(300),
        mode,
        senders: vec![host(1)],
        initial_window: 12,
        complete: Vec::new(),
        priority: wellspring_core::Priority::Normal,
    };
    lab.command(host(0), Command::Receive(command));
    let (sbn, esi, number, epoch, priority, fin) = (0, 3, 4, 0, 1, false);
    let symbol = Symbol { sbn, esi, number, epoch, priority, fin, options: None };
    let header = ScdpHeader::Symbol(symbol);
    (lab, Frame { trimmed: true, ..forged(header, 0) })
}

#[test]
fn copies_of_a_trimmed_header_are_no_signs_of_life_and_count_once() {
    for mode in [Mode::Unicast, Mode::OneToMany] {
        let (mut lab, header) = copies_of_a_header(mode);
        let failed = |lab: &Lab| lab.log.iter().any(|(.., e)| matches!(e, Event::Failed { .. }));
        let mut copies = 0;
        while !failed(&lab) {
            lab.inject(host(0), header);
            copies += 1;
            lab.run(Duration::from_millis(10));
            // A silence of 200 ms, and closes of nobody.
            assert!(copies < 100, "{mode:?}: {:?}", lab.endpoint(host(0)));
            let now = Time::ZERO + Duration::from_secs(1);
            if let Some(stats) = lab.endpoint(host(0)).receive_stats(SESSION, now) {
                assert_eq!(total(&stats, |s| s.trimmed), 1, "{mode:?}");
            }
        }
        assert!(copies > 10, "{mode:?}: {copies}");
    }
}
