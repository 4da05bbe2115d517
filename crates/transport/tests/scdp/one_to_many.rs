//! One sender, a multicast group (SCDP §IV-D).

use crate::lab::*;
use proptest::prelude::*;
use wellspring_core::{Duration, GroupId, Rate, SessionId, Time};
use wellspring_testkit::{Faults, HostConfig};
use wellspring_transport::scdp::{Config, Event, Fabric, Role, Share, StragglerAction};
use wellspring_wire::scdp::Pull;

const GROUP: GroupId = GroupId(1);

/// Host 0 sends to 1..=n by multicast.
fn replicate(lab: &mut Lab, receivers: u32, symbols: u64) {
    let members: Vec<_> = (1..=receivers).map(host).collect();
    lab.set_group(GROUP, members.clone());
    let role = Role::OneToMany { group: GROUP, members };
    send(lab, 0, SESSION, role, symbols, 12);
}

fn quick_stragglers(config: &mut Config) {
    config.stragglers.silent_for = Duration::from_millis(20);
    config.stragglers.symbols_behind = 500;
}

#[test]
fn one_stream_serves_all_receivers() {
    let mut lab = lab(1, 4, Fabric::Trimming, HostConfig::new(), |_| {});
    replicate(&mut lab, 3, 3_000);
    lab.run(Duration::from_secs(1));
    for receiver in 1..=3 {
        let (_, stats) = received(&lab, receiver);
        assert_eq!(stats.decode_free_blocks, 30);
    }
    assert_eq!(lab.sent[&host(0)], 3_000, "each symbol once for all");
    assert_all_over(&mut lab, 4);
}

#[test]
fn receivers_that_lose_different_symbols_share_the_repair() {
    let faults = Faults { trim: 0.05, ..Faults::default() };
    let link = HostConfig { faults, ..HostConfig::new() };
    let mut lab = lab(2, 4, Fabric::Trimming, link, |c| c.stragglers.detach = false);
    replicate(&mut lab, 3, 3_000);
    lab.run(Duration::from_secs(5));
    for receiver in 1..=3 {
        received(&lab, receiver);
    }
    // Retransmission would repeat about 3 x 5 % of the symbols; any repair symbol helps all.
    let beyond = lab.sent[&host(0)] - 3_000;
    assert!(beyond < 3_000 * 14 / 100 + 2 * 30, "{beyond}");
    assert_all_over(&mut lab, 4);
}

/// A receiver that comes to share its link among thirty sessions makes round trips many times as
/// long for the whole group. The others may take that for loss once, while it is new to them, not
/// again and again.
#[test]
fn a_receiver_that_gets_busy_brings_the_others_nothing_redundant() {
    let link = HostConfig { queue: 400, ..HostConfig::new() };
    let mut lab = lab(8, 35, Fabric::Trimming, link, |c| c.stragglers.detach = false);
    replicate(&mut lab, 3, 3_000);
    lab.run(Duration::from_millis(5));
    for sender in 4..34 {
        let role = Role::Unicast { receiver: host(3), share: Share::WHOLE };
        send(&mut lab, sender, SessionId(100 + sender), role, 300, 12);
    }
    lab.run(Duration::from_secs(2));
    for receiver in 1..=3 {
        let (_, stats) = received(&lab, receiver);
        assert_eq!(total(&stats, |s| s.trimmed), 0, "host {receiver}");
    }
    let beyond = lab.sent[&host(0)] - 3_000;
    assert!(beyond <= 3, "{beyond}");
}

#[test]
fn a_dead_receiver_is_left_behind_and_the_others_finish() {
    let mut lab = lab(3, 4, SHARED, HostConfig { trims: false, ..HostConfig::new() }, |c| {
        quick_stragglers(c);
    });
    replicate(&mut lab, 3, 20_000);
    lab.run(Duration::from_millis(30));
    lab.set_alive(host(3), false);
    lab.run(Duration::from_secs(10));
    let (end, _) = received(&lab, 1);
    received(&lab, 2);
    let ideal = Rate::from_mbps(1_000).time_for(20_000 * 1_492);
    assert!(end.since(Time::ZERO) < ideal + Duration::from_millis(80), "{end:?} {ideal}");
    assert!(lab.log.iter().any(|(_, _, e)| matches!(
        e,
        Event::Straggler { receiver, action: StragglerAction::Detached, .. } if *receiver == host(3)
    )));
    assert_eq!(lab.endpoint(host(0)).sessions(), 0);
}

#[test]
fn a_receiver_that_was_silent_is_detached_and_finished_by_unicast() {
    let mut lab = lab(4, 4, SHARED, HostConfig { trims: false, ..HostConfig::new() }, |c| {
        quick_stragglers(c);
        c.peer_timeout = Duration::from_secs(2);
        c.release_after = c.peer_timeout;
    });
    replicate(&mut lab, 3, 6_000);
    lab.run(Duration::from_millis(10));
    lab.set_alive(host(3), false);
    lab.run(Duration::from_millis(40));
    lab.set_alive(host(3), true);
    lab.run(Duration::from_secs(30));
    let ends: Vec<Time> = (1..=3).map(|r| received(&lab, r).0).collect();
    assert!(ends[2].is_after(ends[0]) && ends[2].is_after(ends[1]));
    assert!(lab.log.iter().any(|(_, who, e)| *who == host(0)
        && matches!(e, Event::Straggler { action: StragglerAction::Detached, .. })));
    assert!(
        lab.log
            .iter()
            .any(|(_, who, e)| *who == host(3) && matches!(e, Event::MovedToUnicast { .. }))
    );
    assert_all_over(&mut lab, 4);
}

#[test]
fn a_kept_straggler_is_reported_once_and_waited_for() {
    let mut lab = lab(5, 3, SHARED, HostConfig { trims: false, ..HostConfig::new() }, |c| {
        quick_stragglers(c);
        c.stragglers.detach = false;
    });
    replicate(&mut lab, 2, 3_000);
    lab.run(Duration::from_millis(10));
    lab.set_alive(host(2), false);
    lab.run(Duration::from_millis(100));
    assert!(received_if(&lab, 1).is_none(), "the group waits");
    lab.set_alive(host(2), true);
    lab.run(Duration::from_secs(5));
    received(&lab, 1);
    received(&lab, 2);
    let reports = lab.log.iter().filter(|(_, _, e)| matches!(e, Event::Straggler { .. })).count();
    assert_eq!(reports, 1);
}

/// A receiver whose disk is late has incomplete blocks far below the others', and asks for more all
/// the same: nobody waits for it, and it stays in the group.
#[test]
fn a_receiver_that_is_behind_and_holds_up_nobody_is_not_detached() {
    let link = HostConfig { trims: false, queue: 4_000, ..HostConfig::new() };
    let fabric = Fabric::Dedicated { reordering_threshold: 3, window: 400 };
    let mut lab = lab(10, 4, fabric, link, quick_stragglers);
    replicate(&mut lab, 3, 20_000);
    for stall in 0..6 {
        let late = host(1 + stall % 3);
        lab.config_mut(late).work = Duration::from_millis(20);
        lab.run(Duration::from_millis(12));
        lab.config_mut(late).work = Duration::ZERO;
        lab.run(Duration::from_millis(28));
    }
    lab.run(Duration::from_secs(10));
    (1..=3).for_each(|r| drop(received(&lab, r)));
    let detached = lab.log.iter().filter(|(_, _, e)| matches!(e, Event::Straggler { .. })).count();
    assert_eq!(detached, 0);
    assert_eq!(lab.sent[&host(0)], 20_000, "each symbol once for all");
}

/// A receiver whose disk stalls stops asking, and the others' credits are overdue. What they ask for
/// then must not be sent beside what they had asked for before.
#[test]
fn stalls_cost_next_to_no_symbols() {
    let fabric = Fabric::Dedicated { reordering_threshold: 3, window: 400 };
    let link = HostConfig {
        trims: false,
        queue: 4_000,
        delay: Duration::from_millis(1),
        ..HostConfig::new()
    };
    let mut lab = lab(6, 4, fabric, link, |c| {
        c.stragglers.silent_for = Duration::from_secs(1);
        c.peer_timeout = Duration::from_secs(2);
        c.limits.open_blocks = 8;
        c.burst = 16;
    });
    replicate(&mut lab, 3, 20_000);
    for stall in 0..8 {
        let staller = host(1 + stall % 3);
        lab.config_mut(staller).work = Duration::from_millis(40);
        lab.run(Duration::from_millis(12));
        lab.config_mut(staller).work = Duration::ZERO;
        lab.run(Duration::from_millis(53));
    }
    lab.run(Duration::from_secs(10));
    (1..=3).for_each(|r| drop(received(&lab, r)));
    // A silence asks for one symbol, and again after twice the time. (Credits that name blocks
    // cost 16,306 here.)
    let beyond = lab.sent[&host(0)] - 20_000;
    assert!(beyond <= 8 * 2 * 6, "{beyond}");
}

#[test]
fn a_lossy_receiver_costs_what_it_lost() {
    let mut lab = lab(7, 4, SHARED, HostConfig { trims: false, ..HostConfig::new() }, |_| {});
    lab.config_mut(host(3)).faults.loss = 0.4;
    replicate(&mut lab, 3, 6_000);
    lab.run(Duration::from_secs(30));
    (1..=3).for_each(|r| drop(received(&lab, r)));
    let ideal = 6_000 * 10 / 6;
    assert!(lab.sent[&host(0)] < ideal + ideal / 20, "{} of {ideal}", lab.sent[&host(0)]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn every_replication_ends(
        seed: u64,
        receivers in 1_u32..5,
        symbols in 1_u64..1_500,
        shared: bool,
        loss in 0.0..0.2_f64,
        trim in 0.0..0.2_f64,
        duplicate in 0.0..0.1_f64,
        reorder in 0.0..0.3_f64,
        worst in 0.0..0.3_f64,
        detach: bool,
    ) {
        let reorder_by = Duration::from_micros(200);
        let faults = Faults { loss, trim, duplicate, reorder, reorder_by, mark: 0.0 };
        let link = HostConfig { faults, trims: !shared, queue: 60, ..HostConfig::new() };
        let fabric = if shared { SHARED } else { Fabric::Trimming };
        let mut lab = lab(seed, receivers + 1, fabric, link, |c| {
            quick_stragglers(c);
            c.stragglers.detach = detach;
            c.peer_timeout = Duration::from_secs(5);
            c.release_after = c.peer_timeout;
        });
        lab.config_mut(host(1)).faults.loss = worst;
        replicate(&mut lab, receivers, symbols);
        lab.run(Duration::from_secs(100));
        for receiver in 1..=receivers {
            received(&lab, receiver);
        }
        assert_all_over(&mut lab, receivers + 1);
    }
}

/// Found by fuzzing: the finished receiver's symbols wait for the others, which are then lost, and
/// whose loss was the last deadline.
#[test]
fn a_group_is_released_when_only_a_finished_receiver_is_left() {
    let mut lab = lab(9, 4, Fabric::Trimming, HostConfig::new(), |_| {});
    for receiver in 1..=3 {
        lab.set_alive(host(receiver), false);
    }
    replicate(&mut lab, 3, 1_000);
    for (receiver, granted, fin) in [(2, 40, true), (1, 20, false)] {
        let pull = Pull { sbn: 0, granted, floor: 0, run: 1, epoch: 0, fin };
        lab.inject(host(0), pull_frame(receiver, 0, pull));
    }
    assert_all_over(&mut lab, 4);
}
