//! One sender, one receiver (SCDP §IV-C).

use super::lab::*;
use proptest::prelude::*;
use wellspring_core::{Duration, Endpoint as _, Frame, Rate, SessionId, Time, Verdict};
use wellspring_testkit::{Faults, HostConfig};
use wellspring_transport::scdp::{
    Command, Config, Endpoint, Event, Fabric, FailReason, ReceiveSession, Resume, Role,
    SendSession, Share,
};
use wellspring_wire::scdp::{Mode, Pull, ScdpHeader};

const WHOLE_WIRE: u64 = 1_440 + 32 + 20;

#[test]
fn without_loss_nothing_is_sent_beyond_need_and_nothing_decoded() {
    let mut lab = lab(1, 2, Fabric::Trimming, HostConfig::new(), |_| {});
    send_one_to_one(&mut lab, 1, 0, 1_000);
    lab.run(Duration::from_secs(1));
    let (_, stats) = received(&lab, 0);
    assert_eq!(lab.sent[&host(1)], 1_000, "K symbols, not one more");
    assert_eq!((stats.decoded_blocks, stats.decode_free_blocks), (0, 10));
    assert_eq!(total(&stats, |s| s.useful), 1_000);
    assert_eq!(total(&stats, |s| s.granted), 1_000, "w pushed and K - w pulled (SCDP §IV-G)");
    assert_all_over(&mut lab, 2);
}

#[test]
fn a_lone_session_fills_its_link() {
    let mut lab = lab(1, 2, Fabric::Trimming, HostConfig::new(), |_| {});
    send_one_to_one(&mut lab, 1, 0, 10_000);
    lab.run(Duration::from_secs(1));
    let (end, _) = received(&lab, 0);
    let ideal = Rate::from_mbps(1_000).time_for(10_000 * WHOLE_WIRE);
    let spent = end.since(Time::ZERO);
    assert!(spent < ideal + ideal / 50, "{spent} against {ideal}");
}

/// A path that holds 170 packets: more than a block of 100, and what is not on its way is not caught
/// up with, because the window is fixed.
#[test]
fn an_initial_window_reaches_into_the_next_blocks() {
    let link = HostConfig { delay: Duration::from_micros(500), ..HostConfig::new() };
    let long = |config: &mut Config| config.initial_rtt = Duration::from_millis(4);
    let mut lab = lab(1, 2, Fabric::Trimming, link, long);
    let role = Role::Unicast { receiver: host(0), share: Share::WHOLE };
    send(&mut lab, 1, SESSION, role, 10_000, 200);
    lab.run(Duration::from_secs(1));
    let (end, stats) = received(&lab, 0);
    let ideal = Rate::from_mbps(1_000).time_for(10_000 * WHOLE_WIRE);
    let spent = end.since(Time::ZERO);
    assert!(spent < ideal + ideal / 50, "{spent} against {ideal}");
    assert_eq!(lab.sent[&host(1)], 10_000, "K symbols, not one more");
    assert_eq!((stats.decoded_blocks, stats.decode_free_blocks), (0, 100));
}

#[test]
fn trimmed_symbols_are_replaced_by_new_ones() {
    let faults = Faults { trim: 0.1, ..Faults::default() };
    let link = HostConfig { faults, ..HostConfig::new() };
    let mut lab = lab(2, 2, Fabric::Trimming, link, |_| {});
    send_one_to_one(&mut lab, 1, 0, 1_000);
    lab.run(Duration::from_secs(1));
    let (_, stats) = received(&lab, 0);
    let trimmed = total(&stats, |s| s.trimmed);
    assert!((60..180).contains(&trimmed), "{trimmed}");
    assert_eq!(
        total(&stats, |s| s.useful + s.redundant),
        1_000 + 2 * u64::from(stats.decoded_blocks)
    );
    assert_eq!(lab.sent[&host(1)], 1_000 + trimmed + 2 * u64::from(stats.decoded_blocks));
    assert_all_over(&mut lab, 2);
}

#[test]
fn losses_without_trimming_are_inferred() {
    let faults = Faults { loss: 0.05, ..Faults::default() };
    let link = HostConfig { faults, trims: false, queue: 1_000, ..HostConfig::new() };
    let mut lab = lab(3, 2, SHARED, link, |_| {});
    send_one_to_one(&mut lab, 1, 0, 2_000);
    lab.run(Duration::from_secs(10));
    let (_, stats) = received(&lab, 0);
    // Every block aims at K + 2 once it lost a symbol; gaps take nothing for lost that is not.
    let sent = lab.sent[&host(1)];
    assert!(sent < 2_000 * 108 / 100 + 2 * 20 + 30, "{sent} {stats:?}");
    assert_all_over(&mut lab, 2);
}

#[test]
fn losses_at_the_end_of_the_window_do_not_wait_for_the_timeout() {
    // One in ten is lost: the window is so small that often all of it is.
    let faults = Faults { loss: 0.1, ..Faults::default() };
    let link = HostConfig { faults, trims: false, queue: 1_000, ..HostConfig::new() };
    let slow_timer = |c: &mut Config| c.min_timeout = Duration::from_millis(50);
    let mut lab = lab(5, 2, SHARED, link, slow_timer);
    send_one_to_one(&mut lab, 1, 0, 10_000);
    lab.run(Duration::from_secs(60));
    let (end, stats) = received(&lab, 0);
    let spent = end.since(Time::ZERO);
    assert!(spent < Duration::from_secs(1), "{spent}");
    let sent = lab.sent[&host(1)];
    assert!(sent < 10_000 * 115 / 100 + 2 * 100, "{sent} {stats:?}");
    assert_all_over(&mut lab, 2);
}

#[test]
fn reordering_is_learnt_and_no_longer_taken_for_loss() {
    let reorder_by = Duration::from_micros(240); // twenty packets
    let faults = Faults { reorder: 0.1, reorder_by, ..Faults::default() };
    let link = HostConfig { faults, trims: false, queue: 1_000, ..HostConfig::new() };
    let mut lab = lab(3, 2, SHARED, link, |_| {});
    send_one_to_one(&mut lab, 1, 0, 20_000);
    lab.run(Duration::from_secs(10));
    let (end, stats) = received(&lab, 0);
    assert!(total(&stats, |s| s.lost) < 100, "{stats:?}");
    let ideal = Rate::from_mbps(1_000).time_for(20_000 * WHOLE_WIRE);
    assert!(end.since(Time::ZERO) < ideal + ideal / 10, "{end:?} against {ideal}");
}

#[test]
fn a_shallow_queue_is_shared_by_trims_not_by_timeouts() {
    // Eight senders push at once into one 20-packet port: incast.
    let mut lab = lab(4, 9, Fabric::Trimming, HostConfig::new(), |_| {});
    for sender in 1..9 {
        let role = Role::Unicast { receiver: host(0), share: Share::WHOLE };
        send(&mut lab, sender, SessionId(sender), role, 180, 12);
    }
    lab.run(Duration::from_secs(1));
    let ends: Vec<Time> = lab
        .log
        .iter()
        .filter(|(_, _, e)| matches!(e, Event::Received { .. }))
        .map(|&(at, ..)| at)
        .collect();
    assert_eq!(ends.len(), 8);
    let last = ends.iter().map(|t| t.since(Time::ZERO)).max().expect("eight");
    let ideal = Rate::from_mbps(1_000).time_for(8 * 180 * WHOLE_WIRE);
    assert!(last < ideal + ideal / 10, "{last} against {ideal}");
    assert_all_over(&mut lab, 9);
}

#[test]
fn sessions_of_one_receiver_take_turns() {
    let mut lab = lab(11, 4, Fabric::Trimming, HostConfig::new(), |_| {});
    for sender in 1..4 {
        let role = Role::Unicast { receiver: host(0), share: Share::WHOLE };
        send(&mut lab, sender, SessionId(sender), role, 20_000, 12);
    }
    lab.run(Duration::from_millis(100));
    let blocks = |session: u32| {
        let done =
            |e: &Event| matches!(e, Event::BlockComplete { session: s, .. } if s.0 == session);
        lab.log.iter().filter(|(_, _, e)| done(e)).count()
    };
    let shares = [blocks(1), blocks(2), blocks(3)];
    // 8,378 symbols fit through the link in 100 ms, 27.9 blocks for each.
    assert!(shares.iter().all(|&s| (26..=28).contains(&s)), "{shares:?}");
}

#[test]
fn marks_hold_the_window_back_without_loss() {
    let finish = |mark: f64| {
        let faults = Faults { mark, ..Faults::default() };
        let link = HostConfig { faults, trims: false, queue: 10_000, ..HostConfig::new() };
        let mut lab = lab(12, 2, SHARED, link, |_| {});
        send_one_to_one(&mut lab, 1, 0, 20_000);
        // (Deep queues mark nothing of their own in this lab until half full.)
        lab.run(Duration::from_secs(10));
        let (end, stats) = received(&lab, 0);
        assert_eq!(total(&stats, |s| s.lost), 0);
        end.since(Time::ZERO)
    };
    let (unmarked, marked) = (finish(0.0), finish(0.3));
    assert!(marked > unmarked * 2, "{marked} against {unmarked}");
}

#[test]
fn a_sender_that_dies_is_given_up_in_time() {
    let mut lab = lab(5, 2, SHARED, HostConfig::new(), |_| {});
    send_one_to_one(&mut lab, 1, 0, 100_000);
    lab.run(Duration::from_millis(20));
    let killed = lab.now();
    lab.set_alive(host(1), false);
    lab.run(Duration::from_secs(2));
    let (at, reason) = lab
        .log
        .iter()
        .find_map(|(at, who, event)| match event {
            Event::Failed { reason, .. } if *who == host(0) => Some((*at, *reason)),
            _ => None,
        })
        .expect("the receiver is notified");
    assert_eq!(reason, FailReason::PeersLost);
    assert!(at.since(killed) < Duration::from_millis(450), "{}", at.since(killed));
}

#[test]
fn a_sender_that_stalls_for_a_while_is_taken_up_again() {
    let mut lab = lab(6, 2, SHARED, HostConfig::new(), |_| {});
    send_one_to_one(&mut lab, 1, 0, 5_000);
    lab.run(Duration::from_millis(10));
    lab.set_alive(host(1), false);
    lab.run(Duration::from_millis(100));
    lab.set_alive(host(1), true);
    lab.run(Duration::from_secs(2));
    received(&lab, 0);
    assert_all_over(&mut lab, 2);
}

#[test]
fn a_receiver_that_vanishes_frees_the_sender() {
    let mut lab = lab(7, 2, Fabric::Trimming, HostConfig::new(), |_| {});
    send_one_to_one(&mut lab, 1, 0, 100_000);
    lab.run(Duration::from_millis(20));
    lab.set_alive(host(0), false);
    lab.run(Duration::from_secs(2));
    assert_eq!(lab.endpoint(host(1)).sessions(), 0);
    assert!(lab.log.iter().any(|(_, who, event)| *who == host(1)
        && matches!(event, Event::Failed { reason: FailReason::PeersLost, .. })));
}

#[test]
fn a_cancelled_session_ends_at_both_sides() {
    let mut lab = lab(8, 2, Fabric::Trimming, HostConfig::new(), |_| {});
    send_one_to_one(&mut lab, 1, 0, 100_000);
    lab.run(Duration::from_millis(5));
    lab.command(host(0), Command::Cancel { session: SESSION });
    lab.run(Duration::from_millis(5));
    assert_eq!(lab.endpoint(host(0)).sessions(), 0);
    assert_eq!(lab.endpoint(host(1)).sessions(), 0);
}

#[test]
fn a_slow_disk_holds_the_sender_back_and_keeps_it() {
    let link = HostConfig { work: Duration::from_millis(120), ..HostConfig::new() };
    let mut lab = lab(9, 2, Fabric::Trimming, link, |c| c.limits.open_blocks = 2);
    send_one_to_one(&mut lab, 1, 0, 1_000);
    lab.run(Duration::from_secs(5));
    let (end, _) = received(&lab, 0);
    assert!(end.since(Time::ZERO) > Duration::from_millis(5 * 120), "two blocks at a time");
    assert_all_over(&mut lab, 2);
}

#[test]
fn a_sender_of_which_nothing_was_asked_for_long_may_stall_for_a_while() {
    // The disk takes longer than a sender may be silent.
    let link = HostConfig { work: Duration::from_millis(500), ..HostConfig::new() };
    let mut lab = lab(9, 2, Fabric::Trimming, link, |c| c.limits.open_blocks = 2);
    send_one_to_one(&mut lab, 1, 0, 1_000);
    // As the first blocks are done, the first pulls are lost.
    lab.run(Duration::from_millis(499));
    lab.set_alive(host(1), false);
    lab.run(Duration::from_millis(10));
    lab.set_alive(host(1), true);
    lab.run(Duration::from_secs(5));
    received(&lab, 0);
    assert_all_over(&mut lab, 2);
}

#[test]
fn the_turn_of_the_clock_goes_unnoticed() {
    let faults = Faults { loss: 0.02, ..Faults::default() };
    let link = HostConfig { faults, trims: false, queue: 1_000, ..HostConfig::new() };
    let run = |start: Time| {
        let endpoints =
            (0..2).map(|n| (wellspring_transport::scdp::Endpoint::new(config(n, SHARED)), link));
        let mut lab =
            Lab::new(wellspring_core::Seed(10), start, endpoints, |endpoint, session, sbn| {
                endpoint.object(session).map_or(0, |o| o.symbols_in_block(sbn))
            });
        send_one_to_one(&mut lab, 1, 0, 3_000);
        lab.run(Duration::from_secs(10));
        let (end, stats) = received(&lab, 0);
        (end.since(start), stats)
    };
    let at_epoch = run(Time::ZERO);
    let over_the_turn = run(Time::from_picos(u64::MAX - Duration::from_millis(20).as_picos()));
    assert_eq!(at_epoch, over_the_turn);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever the network does, the session ends, everything is delivered once, and what is
    /// sent beyond need stays within a bound.
    #[test]
    fn every_session_ends(
        seed: u64,
        symbols in 1_u64..1_200,
        shared: bool,
        trims: bool,
        loss in 0.0..0.3_f64,
        trim in 0.0..0.3_f64,
        duplicate in 0.0..0.2_f64,
        reorder in 0.0..0.3_f64,
        mark in 0.0..0.1_f64,
        queue in 2_usize..200,
        work_us in 0_u64..2_000,
        burst in 1_u16..64,
    ) {
        let reorder_by = Duration::from_micros(300);
        let faults = Faults { loss, trim, duplicate, reorder, reorder_by, mark };
        let work = Duration::from_micros(work_us);
        let link = HostConfig { faults, trims, queue, work, ..HostConfig::new() };
        let fabric = if shared { SHARED } else { Fabric::Trimming };
        let mut lab = lab(seed, 2, fabric, link, |c| {
            c.burst = burst;
            c.peer_timeout = Duration::from_secs(5);
            c.release_after = c.peer_timeout;
        });
        send_one_to_one(&mut lab, 1, 0, symbols);
        lab.run(Duration::from_secs(60));
        let (_, stats) = received(&lab, 0);
        prop_assert_eq!(stats.needed, symbols);
        // Beyond need: two symbols (and one a failed decode) a block that lost some; what was
        // lost, trimmed or taken for lost; and a window of pulls that crossed.
        let blocks = symbols.div_ceil(100);
        let accounted = symbols
            + 2 * blocks
            + u64::from(stats.failed_decodes)
            + total(&stats, |s| s.trimmed + s.lost)
            + 16;
        prop_assert!(lab.sent[&host(1)] <= accounted, "{} > {accounted}", lab.sent[&host(1)]);
        assert_all_over(&mut lab, 2);
    }
}

/// A sender whose pushed symbols found no answer pushes more, long before its receiver counts as gone.
#[test]
fn what_was_pushed_in_vain_is_pushed_again() {
    let mut sender = Endpoint::new(config(1, Fabric::Trimming));
    let role = Role::Unicast { receiver: host(0), share: Share::WHOLE };
    let open = SendSession {
        session: SESSION,
        object: object(1),
        role,
        initial_window: 12,
        class: None,
        resume: None,
        priority: wellspring_core::Priority::Normal,
    };
    sender.handle_command(Time::ZERO, Command::Send(open)).unwrap();
    let mut now = Time::ZERO;
    for _ in 0..5 {
        assert!(sender.poll_transmit(now).is_some(), "nothing to send at {now:?}");
        assert!(sender.poll_transmit(now).is_none());
        now = sender.poll_timeout().expect("a deadline");
        sender.handle_timeout(now);
    }
    assert!(now.is_before(Time::ZERO + sender.config().peer_timeout / 4), "{now:?}");
}

/// MLFQ sinks a session with what it sends (SCDP §IV-B); a session with a class of its own stays.
#[test]
fn symbols_sink_unless_their_session_has_a_class() {
    let classes = |class| {
        let mut sender = Endpoint::new(config(1, Fabric::Trimming));
        let role = Role::Unicast { receiver: host(0), share: Share::WHOLE };
        let (object, resume) = (object(1_000), None);
        let open = SendSession {
            session: SESSION,
            object,
            role,
            initial_window: 12,
            class,
            resume,
            priority: wellspring_core::Priority::Normal,
        };
        sender.handle_command(Time::ZERO, Command::Send(open)).unwrap();
        let pull =
            Pull { sbn: 0, granted: 900, floor: 0, run: 888, epoch: 0, fin: false, first: None };
        let frame = pull_frame(0, 1, pull);
        let mut sent: Vec<_> = core::iter::from_fn(|| sender.poll_transmit(Time::ZERO)).collect();
        assert_eq!(sender.handle_frame(Time::ZERO, &frame), Verdict::Consumed);
        sent.extend(core::iter::from_fn(|| sender.poll_transmit(Time::ZERO)));
        let of_header = |frame: &Frame<ScdpHeader>| match &frame.header {
            ScdpHeader::Symbol(symbol) => symbol.priority,
            other => panic!("{other:?}"),
        };
        assert!(sent.iter().all(|frame| of_header(frame) == frame.class));
        sent.iter().map(|frame| frame.class).collect::<Vec<_>>()
    };
    let sinking = classes(None);
    assert_eq!(sinking.len(), 900);
    assert!(sinking.is_sorted() && sinking[..12] == [1; 12] && sinking[899] == 4, "{sinking:?}");
    assert_eq!(classes(Some(5)), vec![5; 900]);
    assert_eq!(classes(Some(0)), vec![1; 900], "class 0 is for control packets");
}

/// A path that is down for longer than a session waits ends it, unless it waits longer by command;
/// when the path is back, the session goes on within the longest interval between probes.
#[test]
fn a_session_waits_out_a_path_that_is_down_as_long_as_it_was_told_to() {
    for (down, wait, survives) in
        [(8, None, false), (8, Some(30), true), (60, Some(90), true), (60, Some(30), false)]
    {
        let mut lab = lab(1, 2, SHARED, HostConfig::new(), |c| {
            c.peer_timeout = Duration::from_secs(5);
            c.release_after = c.peer_timeout;
        });
        let object = object(100_000);
        let command = ReceiveSession {
            session: SESSION,
            object,
            mode: Mode::Unicast,
            senders: vec![host(1)],
            initial_window: 12,
            complete: Vec::new(),
            priority: wellspring_core::Priority::Normal,
        };
        lab.command(host(0), Command::Receive(command));
        send_one_to_one(&mut lab, 1, 0, 100_000);
        for end in [0, 1].into_iter().filter(|_| wait.is_some()) {
            let peer_timeout = Duration::from_secs(wait.unwrap_or(0));
            let win_back = false;
            let wait = Command::Wait { session: SESSION, peer_timeout, win_back };
            lab.command(host(end), wait);
        }
        lab.run(Duration::from_millis(100));
        assert!(received_if(&lab, 0).is_none(), "the path goes down half way");
        let cut = |lab: &mut Lab, loss| {
            for end in [0, 1] {
                lab.config_mut(host(end)).faults.loss = loss;
            }
        };
        cut(&mut lab, 1.0);
        lab.run(Duration::from_secs(down));
        cut(&mut lab, 0.0);
        let back = lab.now();
        lab.run(Duration::from_secs(100));
        match received_if(&lab, 0) {
            Some((at, _)) => {
                assert!(survives, "{down} s down, {wait:?}");
                let span = at.since(back);
                assert!(span < Duration::from_secs(4), "{down} s down: {span:?} to go on and end");
            }
            None => assert!(!survives, "{down} s down, {wait:?}: {:#?}", tail(&lab)),
        }
        assert_all_over(&mut lab, 2);
    }
}

/// A receiver whose only sender has forgotten the session goes on when the sender is won back, and
/// fails after its patience when it is not.
#[test]
fn a_session_outlives_a_sender_that_restarts_if_it_is_won_back() {
    for back in [true, false] {
        let mut lab = lab(1, 2, SHARED, HostConfig::new(), |c| c.accept_unannounced = false);
        let object = object(100_000);
        let command = ReceiveSession {
            session: SESSION,
            object,
            mode: Mode::Unicast,
            senders: vec![host(1)],
            initial_window: 12,
            complete: Vec::new(),
            priority: wellspring_core::Priority::Normal,
        };
        lab.command(host(0), Command::Receive(command));
        let peer_timeout = Duration::from_secs(2);
        let wait = Command::Wait { session: SESSION, peer_timeout, win_back: true };
        lab.command(host(0), wait);
        send_one_to_one(&mut lab, 1, 0, 100_000);
        lab.run(Duration::from_millis(100));
        lab.command(host(1), Command::Cancel { session: SESSION });
        lab.run(Duration::from_millis(1_500));
        let lost = |(_, _, event): &(_, _, Event)| matches!(event, Event::SenderLost { .. });
        assert!(lab.log.iter().any(lost), "{:#?}", tail(&lab));
        if back {
            let (floor, horizon) = lab.endpoint(host(0)).progress(SESSION).expect("still open");
            let role = Role::Unicast { receiver: host(0), share: Share::WHOLE };
            let resume = Some(Resume { epoch: 1, floor, horizon });
            let open = SendSession {
                session: SESSION,
                object,
                role,
                initial_window: 12,
                class: None,
                resume,
                priority: wellspring_core::Priority::Normal,
            };
            lab.command(host(1), Command::Send(open));
            let sender = host(1);
            lab.command(host(0), Command::SenderBack { session: SESSION, sender, epoch: 1 });
            lab.run(Duration::from_secs(20));
            received(&lab, 0);
        } else {
            lab.run(Duration::from_secs(1));
            assert!(
                lab.log.iter().any(|(_, at, event)| {
                    *at == host(0) && matches!(event, Event::Failed { .. })
                })
            );
        }
        assert_all_over(&mut lab, 2);
    }
}
