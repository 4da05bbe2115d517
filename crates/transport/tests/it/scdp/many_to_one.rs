//! Several senders of one object, one receiver (SCDP §IV-E).

use super::lab::*;
use proptest::prelude::*;
use wellspring_core::{Duration, Rate, Time};
use wellspring_testkit::{Faults, HostConfig};
use wellspring_transport::scdp::{
    Command, Config, Event, Fabric, ReceiveSession, ReceiveStats, Resume, Role, SendSession, Share,
};
use wellspring_wire::scdp::Mode;

#[test]
fn equal_senders_share_the_work_and_no_symbol_comes_twice() {
    let mut lab = lab(1, 4, Fabric::Trimming, HostConfig::new(), |_| {});
    fetch(&mut lab, 3, 3_000);
    lab.run(Duration::from_secs(1));
    let (_, stats) = received(&lab, 0);
    for sender in &stats.senders {
        assert!((900..1_100).contains(&sender.useful), "{stats:?}");
        assert!(sender.redundant <= 30, "{stats:?}");
    }
    // Each block takes every sender's source symbols: only the last one, which whoever is done
    // helps with, may need the decoder.
    assert!(stats.decoded_blocks <= 1, "{stats:?}");
    assert_all_over(&mut lab, 4);
}

#[test]
fn a_slow_sender_costs_no_more_than_its_share() {
    let time_of = |slow: bool, senders: u32| {
        let mut lab = lab(2, 4, Fabric::Trimming, HostConfig::new(), |_| {});
        if slow {
            lab.config_mut(host(3)).rate = Rate::from_mbps(100);
        }
        fetch(&mut lab, senders, 6_000);
        lab.run(Duration::from_secs(5));
        let (end, stats) = received(&lab, 0);
        (end.since(Time::ZERO), stats)
    };
    let (with_slow, stats) = time_of(true, 3);
    let (two_healthy, _) = time_of(false, 2);
    assert!(
        with_slow < two_healthy + two_healthy / 20,
        "{with_slow} against {two_healthy}: {stats:?}"
    );
    let slow_share = stats.senders[2].useful as f64 / 6_000.0;
    assert!((0.02..0.15).contains(&slow_share), "{slow_share}");
}

#[test]
fn a_dead_sender_costs_no_more_than_its_share() {
    let mut lab = lab(3, 4, SHARED, HostConfig { trims: false, ..HostConfig::new() }, |_| {});
    fetch(&mut lab, 3, 20_000);
    lab.run(Duration::from_millis(50));
    lab.set_alive(host(2), false);
    lab.run(Duration::from_secs(10));
    let (end, stats) = received(&lab, 0);
    let ideal = Rate::from_mbps(1_000).time_for(20_000 * 1_492);
    assert!(end.since(Time::ZERO) < ideal + Duration::from_millis(60), "{end:?} {ideal} {stats:?}");
    lab.set_alive(host(2), true);
    assert_all_over(&mut lab, 4);
}

#[test]
fn a_sender_dead_from_the_start_is_not_waited_for() {
    let mut lab = lab(4, 4, SHARED, HostConfig { trims: false, ..HostConfig::new() }, |_| {});
    lab.set_alive(host(1), false);
    fetch(&mut lab, 3, 1_000);
    lab.run(Duration::from_secs(10));
    let (end, _) = received(&lab, 0);
    assert!(end.since(Time::ZERO) < Duration::from_millis(30), "{end:?}");
}

#[test]
fn all_senders_but_one_may_die() {
    let mut lab = lab(5, 4, SHARED, HostConfig { trims: false, ..HostConfig::new() }, |_| {});
    fetch(&mut lab, 3, 10_000);
    lab.run(Duration::from_millis(20));
    lab.set_alive(host(1), false);
    lab.run(Duration::from_millis(20));
    lab.set_alive(host(2), false);
    lab.run(Duration::from_secs(10));
    received(&lab, 0);
    let lost = lab.log.iter().filter(|(_, _, e)| matches!(e, Event::SenderLost { .. })).count();
    assert!(lost <= 2);
}

#[test]
fn a_restarted_sender_takes_up_its_share_with_fresh_symbols() {
    let mut lab = lab(6, 4, SHARED, HostConfig { trims: false, ..HostConfig::new() }, |_| {});
    fetch(&mut lab, 3, 60_000);
    lab.run(Duration::from_millis(50));
    // The sender loses its session (a restart) and says so when pulled.
    lab.command(host(2), Command::Cancel { session: SESSION });
    lab.run(Duration::from_millis(50));
    assert!(lab.log.iter().any(|(_, _, e)| matches!(e, Event::SenderLost { .. })));
    let (floor, horizon) = lab.endpoint(host(0)).progress(SESSION).expect("still receiving");
    let resume = Some(Resume { epoch: 1, floor, horizon });
    let back = Command::SenderBack { session: SESSION, sender: host(2), epoch: 1 };
    lab.command(host(0), back);
    let role = Role::Unicast { receiver: host(0), share: Share { index: 1, count: 3 } };
    let object = object(60_000);
    let send = SendSession {
        session: SESSION,
        object,
        role,
        initial_window: 6,
        class: None,
        resume,
        priority: wellspring_core::Priority::Normal,
    };
    lab.command(host(2), Command::Send(send));
    lab.run(Duration::from_secs(5));
    let (_, stats) = received(&lab, 0);
    assert!(stats.senders[1].useful > 15_000, "{stats:?}");
    assert!(total(&stats, |s| s.redundant) < 600, "{stats:?}");
    assert_all_over(&mut lab, 4);
}

/// On a busy host the receiver is told that a sender has agreed to come back only when its symbols are there
/// already: their credits stay.
#[test]
fn a_sender_whose_symbols_come_before_its_word_keeps_its_credits() {
    let mut lab = lab(6, 4, SHARED, HostConfig { trims: false, ..HostConfig::new() }, |_| {});
    fetch(&mut lab, 3, 60_000);
    lab.run(Duration::from_millis(50));
    lab.command(host(2), Command::Cancel { session: SESSION });
    lab.run(Duration::from_millis(50));
    let (floor, horizon) = lab.endpoint(host(0)).progress(SESSION).expect("still receiving");
    let resume = Some(Resume { epoch: 1, floor, horizon });
    let role = Role::Unicast { receiver: host(0), share: Share { index: 1, count: 3 } };
    let object = object(60_000);
    let send = SendSession {
        session: SESSION,
        object,
        role,
        initial_window: 6,
        class: None,
        resume,
        priority: wellspring_core::Priority::Normal,
    };
    lab.command(host(2), Command::Send(send));
    lab.run(Duration::from_millis(20));
    let back = Command::SenderBack { session: SESSION, sender: host(2), epoch: 1 };
    lab.command(host(0), back);
    lab.run(Duration::from_secs(5));
    let (_, stats) = received(&lab, 0);
    let back = stats.senders[1];
    assert!(back.useful > 15_000, "{stats:?}");
    assert!(back.lost < 100, "{stats:?}");
}

#[test]
fn an_object_of_one_symbol_comes_from_one_sender() {
    let mut lab = lab(7, 4, Fabric::Trimming, HostConfig::new(), |_| {});
    fetch(&mut lab, 3, 1);
    lab.run(Duration::from_secs(1));
    let (end, _) = received(&lab, 0);
    assert!(end.since(Time::ZERO) < Duration::from_micros(200));
    assert_all_over(&mut lab, 4);
}

/// What happens to the senders of a fetch.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    None,
    OneAtATenth,
    AbsentFromTheStart,
    Killed,
    Frozen,
    Restarted,
}

/// 100 MB from three senders by the configuration that is shipped, all at 1 Gbit/s.
fn shipped_fetch(seed: u64, trouble: Trouble, directed: bool) -> (Duration, ReceiveStats) {
    let link = HostConfig { trims: false, queue: 300, ..HostConfig::new() };
    let mut lab = lab(seed, 4, SHARED, link, |c| {
        *c = Config { directed, ..Config::shipped(c.host, c.link_rate) };
    });
    let symbols = 69_444;
    if let Trouble::OneAtATenth = trouble {
        lab.config_mut(host(3)).rate = Rate::from_mbps(100);
    }
    lab.set_alive(host(2), !matches!(trouble, Trouble::AbsentFromTheStart));
    fetch(&mut lab, 3, symbols);
    lab.run(Duration::from_millis(200));
    match trouble {
        Trouble::Killed | Trouble::Frozen => lab.set_alive(host(2), false),
        Trouble::Restarted => lab.command(host(2), Command::Cancel { session: SESSION }),
        _ => {}
    }
    lab.run(Duration::from_millis(200));
    match trouble {
        Trouble::Frozen => lab.set_alive(host(2), true),
        Trouble::Restarted => {
            let (floor, horizon) = lab.endpoint(host(0)).progress(SESSION).expect("receiving");
            let resume = Some(Resume { epoch: 1, floor, horizon });
            let back = Command::SenderBack { session: SESSION, sender: host(2), epoch: 1 };
            lab.command(host(0), back);
            let role = Role::Unicast { receiver: host(0), share: Share { index: 1, count: 3 } };
            let (object, initial_window) = (object(symbols), 6);
            let send = SendSession {
                session: SESSION,
                object,
                role,
                initial_window,
                class: None,
                resume,
                priority: wellspring_core::Priority::Normal,
            };
            lab.command(host(2), Command::Send(send));
        }
        _ => {}
    }
    lab.run(Duration::from_secs(20));
    let (end, stats) = received(&lab, 0);
    (end.since(Time::ZERO), stats)
}

#[test]
fn whatever_happens_to_one_of_three_senders_a_fetch_fills_the_line_and_decodes_what_was_lost() {
    for trouble in [
        Trouble::None,
        Trouble::OneAtATenth,
        Trouble::AbsentFromTheStart,
        Trouble::Killed,
        Trouble::Frozen,
        Trouble::Restarted,
    ] {
        let (took, stats) = shipped_fetch(40, trouble, true);
        let goodput = 100e6 * 8.0 / took.as_secs_f64() / 1e6;
        assert!(goodput > 900.0, "{trouble:?}: {goodput} Mbit/s, {stats:?}");
        // A restarted sender pushes repair symbols, and what was on its way from a frozen one is lost.
        assert!(stats.decoded_blocks <= 5, "{trouble:?}: {stats:?}");
        let (_, fixed_shares) = shipped_fetch(40, trouble, false);
        let decoded = fixed_shares.decoded_blocks;
        let expected = if let Trouble::None = trouble { decoded <= 1 } else { decoded > 100 };
        assert!(expected, "{trouble:?}, fixed shares: {decoded}");
    }
}

/// A directed sender skips the numbers of a lost pull, because it does not know which symbols that pull named.
#[test]
fn what_a_lost_pull_asked_for_is_asked_for_again() {
    let faults = Faults { loss: 0.05, ..Faults::default() };
    let link = HostConfig { trims: false, queue: 300, faults, ..HostConfig::new() };
    let mut lab = lab(42, 4, SHARED, link, |c| {
        *c = Config::shipped(c.host, c.link_rate);
    });
    fetch(&mut lab, 3, 20_000);
    lab.run(Duration::from_secs(20));
    let (end, stats) = received(&lab, 0);
    let ideal = Rate::from_mbps(1_000).time_for(20_000 * 1_492);
    assert!(end.since(Time::ZERO) < ideal + ideal / 4, "{end:?} {ideal} {stats:?}");
    assert!(total(&stats, |s| s.redundant) < 20_000 / 100, "{stats:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn every_fetch_ends(
        seed: u64,
        senders in 2_u32..6,
        symbols in 1_u64..2_000,
        shared: bool,
        loss in 0.0..0.2_f64,
        trim in 0.0..0.2_f64,
        reorder in 0.0..0.3_f64,
        slow_mbps in 5_u64..1_000,
        kill: bool,
        kill_at_us in 0_u64..10_000,
        directed: bool,
    ) {
        let reorder_by = Duration::from_micros(200);
        let faults = Faults { loss, trim, reorder, reorder_by, ..Faults::default() };
        let link = HostConfig { faults, trims: !shared, queue: 60, ..HostConfig::new() };
        let fabric = if shared { SHARED } else { Fabric::Trimming };
        let mut lab = lab(seed, senders + 1, fabric, link, |c| {
            c.peer_timeout = Duration::from_secs(2);
            c.release_after = c.peer_timeout;
            c.directed = directed;
        });
        lab.config_mut(host(1)).rate = Rate::from_mbps(slow_mbps);
        fetch(&mut lab, senders, symbols);
        lab.run(Duration::from_micros(kill_at_us));
        if kill {
            lab.set_alive(host(2), false);
        }
        lab.run(Duration::from_secs(60));
        let (_, stats) = received(&lab, 0);
        // A hedge asks for no more than the windows of the slower senders, which grow with the
        // loss-free rate; what is redundant was lost, hedged or crossed.
        let hedged = 64 * u64::from(senders);
        let allowed = 4 * symbols.div_ceil(100) + total(&stats, |s| s.lost) + hedged;
        let redundant = total(&stats, |s| s.redundant);
        prop_assert!(redundant <= allowed, "{} > {}: {:?}", redundant, allowed, stats);
        if !kill {
            assert_all_over(&mut lab, senders + 1);
        }
    }
}

/// Three senders on links of 10 Gbit/s, a receiver whose port carries 1 Gbit/s and whose pulls run at twice that.
#[test]
fn pulls_at_twice_the_ports_rate_are_few_after_a_moment() {
    let beyond = |adapt_pace| {
        let mut lab = lab(43, 4, Fabric::Trimming, HostConfig::new(), |c| {
            *c = Config::shipped(c.host, Rate::from_mbps(2_000));
            c.fabric = Fabric::Trimming;
            c.adapt_pace = adapt_pace;
        });
        for sender in 1..=3 {
            lab.config_mut(host(sender)).rate = Rate::from_mbps(10_000);
        }
        let symbols = 40_000;
        let object = object(symbols);
        let command = ReceiveSession {
            session: SESSION,
            object,
            mode: Mode::ManyToOne,
            senders: (1..=3).map(host).collect(),
            initial_window: 32,
            complete: Vec::new(),
            priority: wellspring_core::Priority::Normal,
        };
        lab.command(host(0), Command::Receive(command));
        for index in 0..3 {
            let share = Share { index, count: 3 };
            let role = Role::Unicast { receiver: host(0), share };
            send(&mut lab, u32::from(index) + 1, SESSION, role, symbols, 32);
        }
        lab.run(Duration::from_secs(20));
        let (_, stats) = received(&lab, 0);
        let sent: u64 = (1..=3).map(|sender| lab.sent[&host(sender)]).sum();
        (sent - symbols, stats)
    };
    let ((adapted, stats), (plain, _)) = (beyond(true), beyond(false));
    assert!(adapted * 10 <= 40_000, "{adapted}: {stats:?}");
    assert!(plain * 2 > 40_000, "{plain}");
}
