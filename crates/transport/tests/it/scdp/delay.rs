//! Long and short paths: timers and windows must fit any round trip from microseconds to 600 ms.

use super::lab::*;
use wellspring_core::{Duration, Rate, Time};
use wellspring_testkit::{Faults, HostConfig};
use wellspring_transport::scdp::{Config, Event, ReceiveStats};

const BOTTLENECK: Rate = Rate::from_mbps(100);
/// A symbol on the wire \[bytes\].
const WIRE: u64 = 1_440 + 32 + 20;
/// Symbols in a block.
const BLOCK: u64 = 100;

/// The timers and bounds of the driver over UDP.
pub fn as_shipped(config: &mut Config) {
    config.initial_rtt = Duration::from_millis(20);
    config.min_timeout = Duration::from_millis(50);
    config.peer_timeout = Duration::from_secs(5);
    config.release_after = config.peer_timeout;
    config.limits.open_bytes = 64 << 20;
}

/// Packets that the bottleneck carries in that time.
fn packets_in(span: Duration) -> u64 {
    span.as_picos() / BOTTLENECK.time_for(WIRE).as_picos()
}

/// Two hosts that far apart; the sender's own link is ten times as fast as the receiver's.
fn long_path(seed: u64, rtt: Duration, queue: usize, faults: Faults) -> Lab {
    let far = HostConfig { delay: rtt / 4, trims: false, ..HostConfig::new() };
    let mut lab = lab(seed, 2, SHARED, far, as_shipped);
    let receiver = lab.config_mut(host(0));
    (receiver.rate, receiver.queue, receiver.faults) = (BOTTLENECK, queue, faults);
    lab
}

/// Part of the bottleneck's rate at which blocks were completed from `start` to `end`.
fn utilisation(lab: &Lab, start: Time, end: Time) -> f64 {
    let done = |(at, _, event): &&(Time, _, Event)| {
        matches!(event, Event::BlockComplete { .. }) && at.since(start) > Duration::ZERO
    };
    let blocks = lab.log.iter().filter(done).count() as u64;
    let ideal = BOTTLENECK.time_for(blocks * BLOCK * WIRE);
    ideal.as_secs_f64() / end.since(start).as_secs_f64()
}

/// Sends `span` worth of the bottleneck's capacity, and ten round trips more. Gives back how well it was
/// used after those.
fn after_ten_round_trips(lab: &mut Lab, rtt: Duration, span: Duration) -> (f64, ReceiveStats) {
    let symbols = packets_in(rtt * 10 + span);
    send_one_to_one(lab, 1, 0, symbols);
    lab.run(Duration::from_secs(300));
    let (end, stats) = received(lab, 0);
    (utilisation(lab, Time::ZERO + rtt * 10, end), stats)
}

#[test]
fn a_path_of_any_length_is_filled_after_ten_round_trips() {
    for (millis, secs) in [(2, 2), (20, 4), (80, 8), (240, 8), (600, 8)] {
        let rtt = Duration::from_millis(millis);
        let mut lab = long_path(1, rtt, packets_in(rtt) as usize, Faults::default());
        let (used, stats) = after_ten_round_trips(&mut lab, rtt, Duration::from_secs(secs));
        assert!(used >= 0.9, "{rtt}: {used:.3} {stats:?}");
        println!("{rtt}: {used:.3} {stats:?}");
    }
}

/// A round trip that grows thirtyfold at once makes everything in flight overdue. The window is restored when
/// the answers come, and the timeout grows with the round trips.
#[test]
fn a_sudden_rise_of_the_round_trip_keeps_the_window() {
    let rtt = Duration::from_millis(20);
    let mut lab = long_path(1, rtt, 1_000, Faults::default());
    send_one_to_one(&mut lab, 1, 0, packets_in(Duration::from_secs(12)));
    lab.run(Duration::from_secs(2));
    let longer = Duration::from_millis(600);
    for end in [0, 1] {
        lab.config_mut(host(end)).delay = longer / 4;
    }
    let start = lab.now() + longer * 4;
    lab.run(longer * 10);
    // The window of before is a twenty-fifth of what the longer path holds, and grows; a new start from two packets in
    // congestion avoidance would not come to a hundredth.
    let used = utilisation(&lab, start, lab.now());
    assert!(used >= 0.045, "{used:.3}");
}

/// Two packets in a hundred overtake others by up to half a round trip.
#[test]
fn reordering_over_a_long_path_costs_no_window() {
    let rtt = Duration::from_millis(80);
    let faults = Faults { reorder: 0.02, reorder_by: rtt / 2, ..Faults::default() };
    let mut lab = long_path(1, rtt, packets_in(rtt) as usize, faults);
    let (used, stats) = after_ten_round_trips(&mut lab, rtt, Duration::from_secs(8));
    assert!(used >= 0.9, "{used:.3} {stats:?}");
}

/// A path whose delay jitters by a quarter, packet by packet.
#[test]
fn jitter_costs_no_window() {
    let rtt = Duration::from_millis(80);
    let faults = Faults { reorder: 1.0, reorder_by: rtt / 4, ..Faults::default() };
    let mut lab = long_path(1, rtt, packets_in(rtt) as usize, faults);
    let (used, stats) = after_ten_round_trips(&mut lab, rtt, Duration::from_secs(8));
    assert!(used >= 0.9, "{used:.3} {stats:?}");
}
