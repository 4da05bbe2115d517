//! Ports in front of receivers that hold a few packets, and drop or mark the rest.

use super::lab::*;
use super::one_to_many::replicate;
use wellspring_core::{Duration, Rate, Time};
use wellspring_testkit::{Faults, HostConfig};
use wellspring_transport::scdp::Config;

const SYMBOLS: u64 = 30_000;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Way {
    Unicast,
    Group,
    ThreeSenders,
}

/// A transfer to hosts at 200 Mbit/s from hosts at 10 Gbit/s, configured as shipped.
#[derive(Clone, Copy, Debug)]
struct Case {
    way: Way,
    queue: usize,
    marks: bool,
    loss: f64,
    late: Duration,
    /// What the hosts take for the rate of their links.
    link_rate: Rate,
}

const PORT: Rate = Rate::from_mbps(200);

impl Case {
    fn new(way: Way, queue: usize) -> Self {
        let late = Duration::ZERO;
        Case { way, queue, marks: false, loss: 0.0, late, link_rate: PORT }
    }

    /// What is sent beyond need \[percent\], and the time taken over the ideal one.
    fn run(&self, seed: u64) -> (f64, f64) {
        let faults = Faults { loss: self.loss, ..Faults::default() };
        let (queue, marks, late) = (self.queue, self.marks, self.late);
        let link = HostConfig { trims: false, queue, marks, faults, late, ..HostConfig::new() };
        let mut lab = lab(seed, 4, SHARED, link, |c| {
            *c = Config { host: c.host, ..Config::shipped(c.host, self.link_rate) };
        });
        let (receivers, senders) = match self.way {
            Way::Unicast => (1..=1, 0..=0),
            Way::Group => (1..=3, 0..=0),
            Way::ThreeSenders => (0..=0, 1..=3),
        };
        receivers.clone().for_each(|at| lab.config_mut(host(at)).rate = PORT);
        senders.for_each(|at| lab.config_mut(host(at)).rate = Rate::from_mbps(10_000));
        match self.way {
            Way::Unicast => send_one_to_one(&mut lab, 0, 1, SYMBOLS),
            Way::Group => replicate(&mut lab, 3, SYMBOLS),
            Way::ThreeSenders => fetch(&mut lab, 3, SYMBOLS),
        }
        lab.run(Duration::from_secs(60));
        let ends = receivers.map(|at| received(&lab, at).0.since(Time::ZERO));
        let end = ends.max().expect("one or more");
        let sent: u64 = lab.sent.values().sum();
        let beyond = (sent as f64 / SYMBOLS as f64 - 1.0) * 100.0;
        let slower = end.as_secs_f64() / PORT.time_for(SYMBOLS * 1_492).as_secs_f64();
        println!("{self:?} {seed}: {beyond:.1} %, {slower:.2} times the ideal time");
        (beyond, slower)
    }
}

/// The runs of 32 symbols of which a pull asks are longer than these queues, and no round trip shows that.
#[test]
fn runs_that_a_dropping_port_cannot_hold_get_shorter() {
    let bounds = [(Way::Unicast, [3.0, 5.0, 10.0]), (Way::Group, [3.5, 6.5, 12.5])];
    for (way, percents) in bounds.into_iter().chain([(Way::ThreeSenders, [5.0, 5.0, 8.5])]) {
        for (loss, percent) in [0.0, 0.01, 0.05].into_iter().zip(percents) {
            for late in [0, 300].map(Duration::from_micros) {
                let case = Case { loss, late, ..Case::new(way, 8) };
                let (beyond, slower) = case.run(60);
                assert!(beyond <= percent && slower < 1.25, "{case:?}");
            }
        }
    }
}

/// A queue of two runs, and hosts that wake up late.
#[test]
fn longer_queues_cost_what_is_lost() {
    for (loss, percent) in [(0.0, 1.0), (0.01, 4.0), (0.05, 9.0)] {
        for way in [Way::Unicast, Way::Group, Way::ThreeSenders] {
            let case = Case { loss, late: Duration::from_millis(1), ..Case::new(way, 64) };
            let (beyond, slower) = case.run(61);
            assert!(beyond <= percent && slower < 1.25, "{case:?}");
        }
    }
}

/// Who gives the rate of its link fifty times too high, or twice.
#[test]
fn a_link_rate_given_too_high_costs_little_where_nothing_is_trimmed() {
    for (way, percent) in [(Way::Unicast, 6.0), (Way::Group, 8.0)] {
        for link_rate in [400, 10_000].map(Rate::from_mbps) {
            for queue in [8, 64] {
                let case = Case { link_rate, ..Case::new(way, queue) };
                let (beyond, slower) = case.run(62);
                assert!(beyond <= percent && slower < 1.25, "{case:?}");
            }
        }
    }
}

/// Windows of a few packets, and pulls that are lost: nobody else's pull makes up for them.
#[test]
fn lost_pulls_do_not_stall_a_group_with_a_small_window() {
    for way in [Way::Unicast, Way::Group] {
        for (queue, seed) in [(8, 36), (20, 36), (8, 63), (20, 63)] {
            let link_rate = Rate::from_mbps(10_000);
            let case = Case { marks: true, loss: 0.01, link_rate, ..Case::new(way, queue) };
            let (beyond, slower) = case.run(seed);
            assert!(beyond <= 6.0 && slower < 1.3, "{case:?}");
        }
    }
}
