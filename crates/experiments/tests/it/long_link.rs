//! Claims of the adaptive pair on simulated links: a small part of the tables of `wellspring-lab reproduce maelstrom`.

use wellspring_core::Duration;
use wellspring_experiments::long_link::{Algorithm, Loss, Protection, Setting, Work, run};

/// Rate of a flow, and drops of the queue.
fn flow(tcp: Algorithm, loss: Loss, protection: Option<Protection>) -> (f64, u64) {
    let work = vec![Work::Bulk(tcp, true)];
    let setting =
        Setting { length: Duration::from_secs(12), ..Setting::new(loss, protection, work, 1) };
    let results = run(&setting);
    (results.outcomes[0].steady_mbps(), results.drops)
}

fn bulk(loss: Loss, protection: Option<Protection>) -> f64 {
    flow(Algorithm::Cubic, loss, protection).0
}

#[test]
fn a_clean_link_keeps_its_rate_and_its_queue_drops_little_more() {
    for tcp in [Algorithm::Cubic, Algorithm::Reno, Algorithm::Bbr] {
        let (alone, drops_alone) = flow(tcp, Loss::NONE, None);
        let (with, drops) = flow(tcp, Loss::NONE, Some(Protection::adaptive()));
        println!("{tcp:?}: {alone} alone, {with} with; {drops_alone} and {drops} drops");
        assert!(with >= 0.95 * alone, "{tcp:?}: {with} of {alone}");
        // BBR's startup takes the capacity that repairs leave for a path that is not full yet.
        let most = if tcp == Algorithm::Bbr { 2.0 } else { 1.5 } * drops_alone as f64;
        assert!(drops_alone > 0 && drops as f64 <= most, "{tcp:?}: {drops} of {drops_alone}");
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
