//! Puts of 20 MB over long paths, as shipped: what is sent beyond need, and how long it takes.

use super::lab::*;
use super::one_to_many::replicate;
use wellspring_core::{Duration, Rate, Time};
use wellspring_testkit::{Faults, HostConfig};
use wellspring_transport::scdp::Config;

const SYMBOLS: u64 = 13_889;
const LINE: Rate = Rate::from_mbps(100);
/// A symbol on the wire \[bytes\].
const WIRE: u64 = 1_440 + 32 + 20;
/// Round trips in which slow start fills a path of 100 ms, and hosts hear of each other.
const START: u64 = 8;

/// What is sent beyond need \[percent\], and the time taken over that of the line and a start. The port in front of each
/// receiver holds one bandwidth-delay product, or 64 KB, and drops the rest.
fn put(seed: u64, millis: u64, loss: f64, receivers: u32) -> (f64, f64) {
    let rtt = Duration::from_millis(millis);
    let queue = (rtt.as_picos() / LINE.time_for(WIRE).as_picos()).max(64_000 / WIRE) as usize;
    let faults = Faults { loss, ..Faults::default() };
    let link = HostConfig {
        trims: false,
        marks: false,
        queue,
        faults,
        delay: rtt / 4,
        ..HostConfig::new()
    };
    let mut lab = lab(seed, receivers + 1, SHARED, link, |c| {
        *c = Config { host: c.host, ..Config::shipped(c.host, Rate::from_mbps(10_000)) };
    });
    (1..=receivers).for_each(|at| lab.config_mut(host(at)).rate = LINE);
    if receivers > 1 {
        replicate(&mut lab, receivers, SYMBOLS);
    } else {
        send_one_to_one(&mut lab, 0, 1, SYMBOLS);
    }
    lab.run(Duration::from_secs(60));
    let ends = (1..=receivers).map(|at| received(&lab, at).0.since(Time::ZERO));
    let end = ends.max().expect("one or more");
    let sent: u64 = lab.sent.values().sum();
    let beyond = (sent as f64 / SYMBOLS as f64 - 1.0) * 100.0;
    let ideal = LINE.time_for(SYMBOLS * WIRE) + rtt * START;
    let slower = end.as_secs_f64() / ideal.as_secs_f64();
    println!(
        "{millis} ms, {loss}, {receivers} receivers, seed {seed}: {beyond:.1} %, {slower:.2} times"
    );
    (beyond, slower)
}

fn check(millis: u64, loss: f64, percent: f64, times: f64) {
    for receivers in [1, 3] {
        for seed in 1..=3 {
            let (beyond, slower) = put(seed, millis, loss, receivers);
            assert!(
                beyond <= percent && slower <= times,
                "{beyond:.2} % beyond, {slower:.2} times"
            );
        }
    }
}

/// Slow start sees its queue before it overflows.
#[test]
fn without_loss_next_to_nothing_is_sent_beyond_need() {
    for (millis, percent, times) in
        [(2, 1.0, 1.05), (20, 0.5, 1.1), (100, 0.5, 1.1), (300, 0.5, 1.2)]
    {
        check(millis, 0.0, percent, times);
    }
}

/// A lost pull costs a round trip of waiting, for which no member is passed over or left behind.
#[test]
fn at_one_percent_of_loss_it_is_the_loss_and_the_repair_of_blocks() {
    for (millis, times) in [(20, 1.15), (100, 1.3)] {
        check(millis, 0.01, 4.0, times);
    }
}
