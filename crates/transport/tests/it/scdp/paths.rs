//! Several equal-cost paths between two hosts: what they carry together, and when one of them loses or is dead.

use wellspring_core::{Duration, HostId, Rate, Seed, SessionId};
use wellspring_testkit::{Bottleneck, Dumbbell, Pair};
use wellspring_transport::scdp::{
    Command, Config, Endpoint, Fabric, ObjectInfo, ReceiveSession, Role, SendSession, Share,
};
use wellspring_wire::scdp::Mode;

use crate::coexistence::{Path, beside_cubic};

const SESSION: SessionId = SessionId(1);
const SYMBOL: u16 = 1_440;
/// A symbol on the wire \[bytes\].
const WIRE: u64 = SYMBOL as u64 + 32 + 20;
const RTT: Duration = Duration::from_millis(1);
const RATE: Rate = Rate::from_mbps(250);

/// A line of 250 Mbit/s with a queue of two bandwidth-delay products.
fn line() -> Bottleneck {
    Bottleneck { rate: RATE, queue: 64_000, loss: 0.0, loss_back: 0.0, mark_above: None }
}

fn dead() -> Bottleneck {
    Bottleneck { loss: 1.0, loss_back: 1.0, ..line() }
}

fn endpoint(host: u32, paths: u16, fabric: Fabric) -> Endpoint {
    let mut config = Config::shipped(HostId(host), Rate::from_mbps(2_000));
    (config.paths, config.fabric) = (paths, fabric);
    Endpoint::new(config)
}

type Lab = Dumbbell<Endpoint>;

const SHARED: Fabric = Fabric::Shared { reordering_threshold: 3 };

/// A transfer that lasts longer than any run, over the paths that `routes` says.
fn begin(lines: &[Bottleneck], routes: &[usize], fabric: Fabric) -> Lab {
    begin_at(RTT, lines, routes, fabric)
}

fn begin_at(rtt: Duration, lines: &[Bottleneck], routes: &[usize], fabric: Fabric) -> Lab {
    let paths = routes.len() as u16;
    let pair = Pair {
        sender: endpoint(0, paths, fabric),
        receiver: endpoint(1, paths, fabric),
        rtt,
        jitter: Duration::ZERO,
    };
    let mut lab = Lab::with_paths(Seed(1), lines, routes, [pair]);
    let object = ObjectInfo::new(20_000_000 * u64::from(SYMBOL), SYMBOL, 91, 0);
    lab.command(
        HostId(1),
        Command::Receive(ReceiveSession {
            session: SESSION,
            object,
            mode: Mode::Unicast,
            senders: vec![HostId(0)],
            initial_window: 12,
            complete: Vec::new(),
            priority: wellspring_core::Priority::Normal,
        }),
    );
    let role = Role::Unicast { receiver: HostId(1), share: Share::WHOLE };
    let (session, initial_window) = (SESSION, 12);
    let send = SendSession {
        session,
        object,
        role,
        initial_window,
        class: None,
        resume: None,
        priority: wellspring_core::Priority::Normal,
    };
    lab.command(HostId(0), Command::Send(send));
    for path in 1..paths {
        add(&mut lab, path);
    }
    lab
}

fn add(lab: &mut Lab, path: u16) {
    for (host, peer) in [(0, 1), (1, 0)] {
        let peer = HostId(peer);
        lab.command(HostId(host), Command::AddPath { session: SESSION, peer, path });
    }
}

/// What arrives in `millis`, in lines' worth of payload.
fn worth(lab: &mut Lab, millis: u64) -> f64 {
    let before = lab.delivered[0];
    lab.run(Duration::from_millis(millis));
    let line = RATE.as_bits_per_second() as f64 / 8.0 * f64::from(SYMBOL) / WIRE as f64;
    (lab.delivered[0] - before) as f64 / line / (millis as f64 / 1e3)
}

#[test]
fn four_equal_paths_carry_nearly_four_times_as_much() {
    let mut lab = begin(&[line(); 4], &[0, 1, 2, 3], SHARED);
    worth(&mut lab, 100);
    let four = worth(&mut lab, 2_000);
    assert!(four >= 3.6, "{four:.2}");
}

#[test]
fn twice_as_many_labels_as_paths_fill_them_however_they_fall() {
    let mut lab = begin(&[line(); 4], &[0, 1, 1, 2, 3, 3, 3, 0], SHARED);
    worth(&mut lab, 100);
    let four = worth(&mut lab, 2_000);
    assert!(four >= 3.6, "{four:.2}");
}

#[test]
fn a_dead_path_costs_what_it_carried() {
    for dead_one in 0..4 {
        // The first symbols and pulls go by path 0, so it dies later, and so do the others.
        let mut lab = begin(&[line(); 4], &[0, 1, 2, 3], SHARED);
        worth(&mut lab, 300);
        *lab.line_mut(dead_one) = dead();
        worth(&mut lab, 300);
        let three = worth(&mut lab, 2_000);
        assert!(three >= 2.7, "path {dead_one}: {three:.2}");
        *lab.line_mut(dead_one) = line();
        worth(&mut lab, 1_500);
        let four = worth(&mut lab, 2_000);
        assert!(four >= 3.6, "path {dead_one} is tried again: {four:.2}");
    }
}

#[test]
fn a_path_that_is_dead_for_longer_than_a_host_may_be_silent_is_tried_again() {
    for dead_one in [0, 3] {
        let mut lab = begin(&[line(); 4], &[0, 1, 2, 3], SHARED);
        let (session, peer_timeout) = (SESSION, Duration::from_millis(400));
        for host in [0, 1] {
            let wait = Command::Wait { session, peer_timeout, win_back: false };
            lab.command(HostId(host), wait);
        }
        worth(&mut lab, 200);
        *lab.line_mut(dead_one) = dead();
        worth(&mut lab, 2_000);
        *lab.line_mut(dead_one) = line();
        worth(&mut lab, 1_500);
        let four = worth(&mut lab, 1_000);
        assert!(four >= 3.6, "path {dead_one}: {four:.2}");
    }
}

#[test]
fn a_hiccup_of_the_only_path_that_is_left_is_survived() {
    // Some of these meet the moment at which the dead path is looked at.
    for millis in (60..=300).step_by(30) {
        let mut lab = begin(&[line(); 2], &[0, 1], SHARED);
        let (session, peer_timeout) = (SESSION, Duration::from_millis(400));
        for host in [0, 1] {
            let wait = Command::Wait { session, peer_timeout, win_back: false };
            lab.command(HostId(host), wait);
        }
        worth(&mut lab, 200);
        *lab.line_mut(0) = dead();
        worth(&mut lab, 1_000);
        *lab.line_mut(1) = dead();
        worth(&mut lab, millis);
        *lab.line_mut(1) = line();
        worth(&mut lab, 1_000);
        let one = worth(&mut lab, 1_000);
        assert!(one >= 0.9, "after {millis} ms: {one:.2}");
    }
}

#[test]
fn a_path_on_which_nothing_ever_came_is_tried_again() {
    // The first symbols are lost, and the path stays dead.
    let mut lab = begin(&[dead(), line()], &[0, 1], SHARED);
    let (session, peer_timeout) = (SESSION, Duration::from_millis(400));
    for host in [0, 1] {
        lab.command(HostId(host), Command::Wait { session, peer_timeout, win_back: false });
    }
    worth(&mut lab, 1_000);
    let one = worth(&mut lab, 1_000);
    assert!(one >= 0.9, "{one:.2}");
    *lab.line_mut(0) = line();
    worth(&mut lab, 1_500);
    let two = worth(&mut lab, 1_000);
    assert!(two >= 1.8, "{two:.2}");
}

#[test]
fn a_lossy_path_leaves_the_others_alone() {
    let mut lines = [line(); 4];
    lines[2].loss = 0.3;
    let mut lab = begin(&lines, &[0, 1, 2, 3], SHARED);
    worth(&mut lab, 200);
    let worth = worth(&mut lab, 2_000);
    assert!(worth >= 2.8, "{worth:.2}");
}

#[test]
fn four_labels_on_one_path_cost_little() {
    let run = |routes: &[usize]| {
        let mut lab = begin(&[line()], routes, SHARED);
        worth(&mut lab, 100);
        worth(&mut lab, 2_000)
    };
    let (one, four) = (run(&[0]), run(&[0; 4]));
    assert!(four >= 0.95 * one, "{four:.3} beside {one:.3}");
}

#[test]
fn four_paths_over_one_link_leave_a_cubic_flow_about_its_share() {
    // Without coupling eight paths take 0.88. Small windows lose a little less often than their packets' part.
    for queue in [1.0, 2.0] {
        let path = Path::new(Duration::from_millis(10), queue);
        let share = |seed| {
            let shares = beside_cubic(seed, &path, 4);
            shares[0] / shares.iter().sum::<f64>()
        };
        let share = (share(1) + share(2)) / 2.0;
        assert!((0.4..=0.65).contains(&share), "{queue} BDP: {share:.3}");
    }
}

#[test]
fn a_transfer_by_four_paths_ends_at_both_ends_though_one_is_dead() {
    for dead_one in [None, Some(0), Some(2)] {
        let mut lab = begin(&[line(); 4], &[0, 1, 2, 3], SHARED);
        lab.run(Duration::from_millis(50));
        if let Some(line) = dead_one {
            *lab.line_mut(line) = dead();
        }
        lab.run(Duration::from_millis(500));
        lab.command(HostId(1), Command::Cancel { session: SESSION });
        lab.run(Duration::from_millis(500));
        assert_eq!(lab.endpoint(HostId(0)).sessions(), 0, "line {dead_one:?} is dead");
    }
}

#[test]
fn a_path_that_was_dead_for_a_while_has_its_share_again_after_some_round_trips() {
    for dead_for in [1_200, 2_000, 4_000] {
        let rtt = Duration::from_millis(80);
        let line = Bottleneck { queue: 2_500_000, ..line() };
        let mut lab = begin_at(rtt, &[line; 2], &[0, 1], SHARED);
        worth(&mut lab, 6_000);
        *lab.line_mut(1) = Bottleneck { loss: 1.0, loss_back: 1.0, ..line };
        worth(&mut lab, dead_for);
        *lab.line_mut(1) = line;
        // It is looked at each second.
        worth(&mut lab, 1_000 + 15 * 80);
        let two = worth(&mut lab, 1_000);
        assert!(two >= 1.6, "dead for {dead_for} ms: {two:.2}");
    }
}
