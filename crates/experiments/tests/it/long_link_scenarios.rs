//! Scenarios of a long link: Maelstrom's burst alone and behind appliances, in steps and at once.

use wellspring_core::{Duration, Time};
use wellspring_experiments::live::{self, Live, PacketKind};
use wellspring_experiments::results::RunRow;
use wellspring_experiments::run::{Ending, Outcome, run};
use wellspring_experiments::scenario::{Plan, Scenario};

const APPLIANCES: &str = "[appliances]\n";
const PAPER: &str = "[appliances]\ncode = \"layers\"\n";
/// Two milliseconds in which the relay is down, in the first seconds of slow start.
const BURST: &str = "[[events]]\nat = \"428ms\"\nkind = \"node-down\"\nnodes = [\"relay\"]\n\
                     [[events]]\nat = \"430ms\"\nkind = \"node-up\"\nnodes = [\"relay\"]\n";

fn scenario(protocol: &str, more: &str) -> Scenario {
    let text = format!(
        "name = \"burst\"\n[topology]\nkind = \"long-link\"\nrate = \"100Mbit/s\"\ndelay = \"50ms\"\n\
         [switch]\nbuffer_packets = 1000\n[protocol]\nname = \"{protocol}\"\n\
         [workload]\nkind = \"single\"\nfrom = 0\nto = 1\nsize = \"3MB\"\n{more}"
    );
    Plan::parse(&text).unwrap().scenarios().unwrap().remove(0)
}

fn whole(scenario: &Scenario) -> Outcome {
    run(scenario, 1, &mut |_| {}).unwrap()
}

/// How long the transfer takes \[s\].
fn time(protocol: &str, more: &str) -> f64 {
    let outcome = whole(&scenario(protocol, more));
    assert_eq!((outcome.ending, outcome.timeouts.len()), (Ending::Complete, 0));
    outcome.flows[0].completion().unwrap()
}

fn to_the_end(run: &mut dyn Live, step: Duration, events: u64) -> Ending {
    let mut until = Time::ZERO;
    loop {
        until = until + step;
        while run.now().is_before(until) {
            if let Some(ending) = run.run_to(until, events) {
                return ending;
            }
        }
    }
}

#[test]
fn a_burst_halves_tcp_alone_and_does_nothing_to_tcp_behind_appliances() {
    for protocol in ["tcp-reno", "tcp-cubic"] {
        let (alone, clean) = (time(protocol, BURST), time(protocol, ""));
        assert!(alone >= 1.5 * clean, "{protocol}: {alone} s, {clean} s without the burst");
        for appliances in [APPLIANCES, PAPER] {
            let clean = time(protocol, appliances);
            let with = time(protocol, &(BURST.to_owned() + appliances));
            println!("{protocol}, {appliances}: {alone} alone, {with} with, {clean} clean [s]");
            assert!(with <= 1.15 * clean && alone >= 1.5 * with, "{protocol}: {with}, {clean}");
        }
    }
}

#[test]
fn every_packet_of_the_burst_comes_back_and_none_is_lost_for_tcp() {
    let mut run = live::start(&scenario("tcp-cubic", &(BURST.to_owned() + APPLIANCES)), 1).unwrap();
    assert_eq!(to_the_end(&mut *run, Duration::from_millis(10), u64::MAX), Ending::Complete);
    let (traffic, dropped) = (run.traffic(), run.counters());
    assert!((5..=30).contains(&dropped.dropped_down), "{dropped:?}");
    assert_eq!((dropped.dropped_full, dropped.dropped_by_rule), (0, 0));
    // What TCP has sent again came twice: late is not lost.
    let data = 3_000_000_u64.div_ceil(1_448) + traffic.again;
    let delivered: u64 = traffic.received[1];
    assert!(traffic.recovered >= 5 && traffic.again <= traffic.recovered, "{traffic:?}");
    assert!(delivered > 3_000_000 && data == traffic.first + traffic.again, "{traffic:?}");
}

#[test]
fn steps_and_looks_change_nothing() {
    for (more, loss) in [(APPLIANCES, 0.0), (PAPER, 0.01), ("", 0.01)] {
        let mut scenario = scenario("tcp-cubic", &(BURST.to_owned() + more));
        (scenario.topology.data_loss, scenario.topology.control_loss) = (loss, loss);
        let outcome = whole(&scenario);
        let row = RunRow::new(&scenario, &outcome);
        assert_eq!((row.protocol.as_str(), row.completed), ("tcp-cubic", 1));
        let mut run = live::start(&scenario, 1).unwrap();
        let (mut kinds, mut lost, mut queue) = ([0_u64; 7], 0, 0);
        let mut until = Time::ZERO;
        while run.run_to(until, 100).is_none() {
            if run.now().has_reached(until) {
                until = until + Duration::from_millis(3);
            }
            run.packets(&mut |packet| {
                assert!((0.0..=1.0).contains(&packet.share) && (2..6).contains(&packet.port));
                kinds[packet.kind as usize] += 1;
            });
            let mut drops = 0;
            run.ports(&mut |port| drops += port.counters.dropped);
            assert!(drops >= lost);
            (lost, queue) = (drops, queue.max(run.longest_queue()));
        }
        let sees = |kind| kinds[kind as usize] > 0;
        assert!(sees(PacketKind::Data) && sees(PacketKind::Again) && sees(PacketKind::Control));
        assert_eq!(sees(PacketKind::Repair), !more.is_empty());
        assert!(lost > 0 && queue > 0, "{lost} lost, {queue} waited");
        assert_eq!(run.counters(), outcome.counters);
        assert_eq!(format!("{:016x}", run.counters().digest), row.digest);
    }
}

#[test]
fn a_link_that_stays_down_leaves_the_transfer_stuck_or_out_of_time() {
    let down = BURST.split("[[events]]").nth(1).unwrap();
    for (run, expected) in [("patience = \"2s\"", Ending::Stuck), ("limit = \"3s\"", Ending::Limit)]
    {
        let scenario = scenario("tcp-reno", &format!("[[events]]{down}[run]\n{run}\n"));
        let outcome = whole(&scenario);
        assert_eq!(outcome.ending, expected);
        assert!(outcome.timeouts.len() >= 2, "{:?}", outcome.timeouts);
        assert_eq!(outcome.stuck.is_some(), expected == Ending::Stuck);
        let mut run = live::start(&scenario, 1).unwrap();
        assert_eq!(to_the_end(&mut *run, Duration::from_millis(7), 10), expected);
        assert_eq!(run.counters().digest, outcome.counters.digest);
    }
}
