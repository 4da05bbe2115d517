//! Runs that are stepped, looked at and measured have the digests of plain runs.

use wellspring_experiments::run;
use wellspring_web::scenario::build;
use wellspring_web::setup::{Preset, Setup};
use wellspring_web::stage::Stage;

/// The plain run's digest, through the text of the scenario file.
fn native(setup: &Setup) -> Vec<String> {
    let digest = |protocol| {
        let ready = build(setup, protocol).unwrap();
        let outcome = run::run(&ready.scenario, setup.seed, &mut |_| {}).unwrap();
        format!("{:016x}", outcome.counters.digest)
    };
    setup.protocols.iter().copied().map(digest).collect()
}

fn check(setup: &Setup) {
    let mut stage = Stage::open(&setup.fragment()).unwrap();
    let expected = native(setup);
    let mut view = Vec::new();
    for (number, digest) in expected.iter().enumerate() {
        while !stage.measure(number, 10_000) {}
        let result: serde_json::Value = serde_json::from_str(&stage.result(number)).unwrap();
        assert_eq!(result["digest"], digest.as_str(), "{setup:?} {number}");
        // Looked at at odd moments, from the start to the end.
        let end = result["simulated"].as_f64().unwrap();
        for look in 0..60 {
            let at = end * (f64::from(look) / 60.0).powi(3);
            while !stage.play(number, at) {}
            stage.look(number, &mut view);
            let [packets, ports, hosts, requests] = [0, 1, 2, 3].map(|i| view[i] as usize);
            assert_eq!(view.len(), 5 + 4 * packets + 5 * ports + 2 * hosts + 3 * requests);
            for packet in view[5..5 + 4 * packets].chunks(4) {
                assert!(
                    (packet[0] as usize) < ports && (0.0..=1.0).contains(&packet[1]),
                    "{packet:?}"
                );
            }
        }
        while !stage.play(number, 20.0) {}
        assert_eq!(&stage.played_digest(number), digest, "{setup:?} {number}");
    }
}

#[test]
fn every_story_has_the_digest_of_the_plain_run() {
    for preset in Preset::ALL {
        check(&preset.setup());
    }
}

#[test]
fn so_has_what_the_visitor_breaks() {
    for fragment in [
        "preset=incast&senders=20&loss=1&seed=3&fail=agg0@900&repair=agg0@3000",
        "preset=fetch&fail=tor1@800&seed=2",
        "preset=replicate&slow=30&buffer=5&protocols=lttp+scdp",
        "preset=burst&protocols=tcp-bbr+maelstrom-reno+maelstrom-paper&size=900000&loss=0.1&delay=10000&buffer=50\
         &fail=relay@100000,relay@200000&repair=relay@103000",
    ] {
        check(&Setup::parse(fragment).unwrap());
    }
}

/// What came of a story's runs.
fn results(fragment: &str) -> Vec<serde_json::Value> {
    let mut stage = Stage::open(fragment).unwrap();
    let result = |number| {
        while !stage.measure(number, 10_000) {}
        serde_json::from_str(&stage.result(number)).unwrap()
    };
    (0..2).map(result).collect()
}

#[test]
fn behind_maelstrom_the_burst_is_no_loss_and_alone_it_is() {
    let [alone, with] = [0, 1].map(|number| results("preset=burst").swap_remove(number));
    let [_, clean] = [0, 1].map(|number| results("preset=burst&fail=").swap_remove(number));
    let number = |result: &serde_json::Value, key: &str| result[key].as_f64().unwrap();
    for result in [&alone, &with] {
        assert_eq!(
            (result["done"].as_u64(), result["ending"].as_str()),
            (Some(1), Some("complete"))
        );
        assert!(number(result, "lost") >= 10.0, "the burst meets packets: {result}");
    }
    assert_eq!((number(&alone, "recovered"), number(&clean, "lost")), (0.0, 0.0));
    assert!(number(&alone, "last") > 1.5 * number(&with, "last"));
    // What comes late TCP sends again, and learns that it need not have: it does not slow down for it.
    assert!(
        number(&with, "recovered") >= 10.0 && number(&with, "again") <= number(&with, "recovered")
    );
    assert!(number(&with, "last") < 1.15 * number(&clean, "last"));
}

#[test]
fn a_stage_is_put_back_to_its_start() {
    let mut stage = Stage::open("preset=fetch").unwrap();
    while !stage.play(0, 20.0) {}
    let (end, digest) = (stage.now(0), stage.played_digest(0));
    stage.rewind(0).unwrap();
    assert!(stage.now(0) == 0.0 && stage.played_digest(0) != digest);
    while !stage.play(0, end) {}
    assert_eq!(stage.played_digest(0), digest);
}

#[test]
fn times_that_are_none_do_no_harm() {
    let mut stage = Stage::open("preset=fetch").unwrap();
    for at in [f64::NAN, -1.0, f64::NEG_INFINITY] {
        assert!(stage.play(0, at));
        assert_eq!(stage.now(0), 0.0);
    }
    assert!(stage.play(99, f64::INFINITY) && stage.measure(99, 1));
    assert!(stage.rewind(99).is_err());
}
