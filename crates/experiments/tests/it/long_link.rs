//! Claims of the adaptive pair on simulated links: a small part of the tables of `wellspring-lab reproduce maelstrom`.

use wellspring_core::Duration;
use wellspring_experiments::long_link::{Algorithm, Loss, Protection, Setting, Work, run};

fn bulk_of(tcp: Algorithm, loss: Loss, protection: Option<Protection>) -> Setting {
    let work = vec![Work::Bulk(tcp, true)];
    Setting { length: Duration::from_secs(12), ..Setting::new(loss, protection, work, 1) }
}

fn bulk(loss: Loss, protection: Option<Protection>) -> f64 {
    run(&bulk_of(Algorithm::Cubic, loss, protection)).outcomes[0].steady_mbps()
}

#[test]
fn a_clean_link_keeps_its_rate_and_its_queue_drops_little_more() {
    for tcp in [Algorithm::Cubic, Algorithm::Reno, Algorithm::Bbr] {
        let (mut drops_alone, mut drops) = (0, 0);
        // Nothing is random there, and by how much a slow start overshoots is a matter of the delay.
        for delay in [47, 50, 53] {
            let of = |protection| {
                let delay = Duration::from_millis(delay);
                run(&Setting { delay, ..bulk_of(tcp, Loss::NONE, protection) })
            };
            let (alone, with) = (of(None), of(Some(Protection::adaptive())));
            let rates = [&alone, &with].map(|results| results.outcomes[0].steady_mbps());
            println!("{tcp:?}, {delay} ms: {rates:?}; {} and {} drops", alone.drops, with.drops);
            assert!(rates[1] >= 0.95 * rates[0], "{tcp:?}: {rates:?}");
            drops_alone += alone.drops;
            drops += with.drops;
        }
        assert!(
            drops_alone > 0 && 2 * drops <= 3 * drops_alone,
            "{tcp:?}: {drops} of {drops_alone}"
        );
    }
}

#[test]
fn losses_cost_a_flow_less() {
    for loss in [Loss::Random(0.01), Loss::Bursts(0.01, 20)] {
        let (alone, with) = (bulk(loss, None), bulk(loss, Some(Protection::adaptive())));
        println!("{loss:?}: {alone} alone, {with} with");
        assert!(with >= 2.0 * alone, "{loss:?}: {with}, alone {alone}");
    }
}

#[test]
fn messages_beside_a_stream_are_repaired_in_time() {
    let p99 = |loss, protection| {
        let work = vec![Work::Messages(Algorithm::Cubic, 116, 100), Work::Paced(1_000, 1_250)];
        let length = Duration::from_secs(40);
        let setting = Setting { length, ..Setting::new(loss, protection, work, 1) };
        run(&setting).outcomes[0].quantile_ms(0.99)
    };
    let loss = Loss::Bursts(0.01, 10);
    let [lossless, alone, with] =
        [p99(Loss::NONE, None), p99(loss, None), p99(loss, Some(Protection::adaptive()))];
    println!("{lossless}, {alone} alone, {with} with [ms]");
    assert!(with <= lossless + 30.0 && alone > lossless + 100.0, "{lossless}, {alone}, {with}");
}

/// Each retransmission would have its receiver refuse what comes back after it (RFC 7323 §5.3), and that be
/// retransmitted, too.
#[test]
fn what_comes_back_after_a_retransmission_is_of_use() {
    let loss = Loss::Random(0.05);
    let setting =
        Setting { seed: 6, ..bulk_of(Algorithm::Cubic, loss, Some(Protection::adaptive())) };
    let results = run(&setting);
    let (rate, renewed) = (results.outcomes[0].steady_mbps(), results.received.renewed);
    println!("{rate} Mbit/s, {renewed} packets with renewed time stamps");
    assert!(rate >= 50.0 && renewed > 0, "{rate} Mbit/s, {renewed} renewed");
}

/// Until its queue has gone down, what the link loses there would be taken for drops, and each halve the flow again: with
/// flows that are told each time the first of these has 80 Mbit/s; where only what was left lost counts as telling, and no
/// retransmission does, the others have 77 and 51.
#[test]
fn a_flow_that_learnt_of_congestion_does_not_halve_again_for_it() {
    for (loss, seed, least) in [
        (Loss::Random(0.01), 7, 85.0),
        (Loss::Random(0.01), 18, 85.0),
        (Loss::Bursts(0.01, 20), 5, 70.0),
    ] {
        let setting =
            Setting { seed, ..bulk_of(Algorithm::Reno, loss, Some(Protection::adaptive())) };
        let results = run(&setting);
        let (rate, left) = (results.outcomes[0].steady_mbps(), results.received.congested);
        println!("{loss:?}, seed {seed}: {rate} Mbit/s, {left} packets left lost");
        assert!(rate >= least, "{loss:?}, seed {seed}: {rate} Mbit/s");
    }
}
