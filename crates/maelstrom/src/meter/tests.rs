use super::*;

#[test]
fn bursts_are_counted_by_length() {
    let mut meter = Meter::new();
    // Numbers that pass 2^32 on the way.
    let start = u32::MAX - 30_000;
    let lost = |n: u32| n % 1_000 == 500 || (n % 1_000 >= 700 && n % 1_000 < 720);
    for n in 0..100_000 {
        let arrived = Time::ZERO + Duration::from_micros(u64::from(n));
        meter.record(start.wrapping_add(n), (!lost(n)).then_some(arrived));
    }
    let report = meter.report(7);
    let expected = report.packets / 1_000;
    assert!(report.packets >= 98_000, "{report:?}");
    assert!(report.lost.abs_diff(21 * expected) <= 21, "{report:?}");
    assert!(report.bursts.abs_diff(2 * expected) <= 2, "{report:?}");
    assert_eq!((report.usual_burst, report.longest_burst, report.recovered), (20, 20, 7));
    assert_eq!(meter.report(0), LossReport::default());
}

#[test]
fn a_burst_counts_where_it_ends_with_all_its_packets() {
    let mut meter = Meter::new();
    let mut number = 0;
    let mut record = |meter: &mut Meter, count: u32, lost: bool| {
        for _ in 0..count {
            meter.record(number, (!lost).then_some(Time::ZERO));
            number += 1;
        }
    };
    let account = |report: LossReport| (report.packets, report.lost, report.bursts);
    let lag = *LAG.start();
    record(&mut meter, 100, false);
    record(&mut meter, 50 + lag, true);
    assert_eq!(account(meter.report(0)), (100, 0, 0), "fifty more are of a burst under way");
    record(&mut meter, 10 + lag, false);
    assert_eq!(account(meter.report(0)), (50 + lag + 10, 50 + lag, 1));
}

#[test]
fn a_lost_packet_is_expected_between_its_neighbours() {
    let mut meter = Meter::new();
    let at = |n: u32| Time::ZERO + Duration::from_micros(u64::from(n) * 10);
    for n in 0..100 {
        meter.record(n, (!(40..60).contains(&n)).then(|| at(n)));
    }
    assert_eq!(meter.expected(40), Some(at(40)));
    assert_eq!(meter.expected(55), Some(at(55)));
    assert_eq!(Meter::new().expected(5), None);
}

#[test]
fn drops_of_a_long_queue_are_counted_apart() {
    let mut meter = Meter::new();
    // The queue is long for the second half of each thousand, and drops its last hundred.
    for n in 0..100_000_u32 {
        let place = n % 1_000;
        let lost = place >= 900 || place == 250;
        meter.record(n, (!lost).then_some(Time::ZERO));
        // Repairs are dropped too.
        if n % 3 == 0 && place < 900 {
            meter.record_queue(n, place >= 500);
        }
    }
    let report = meter.report(0);
    assert!((95..=100).contains(&report.lost), "{report:?}");
    assert!((9_800..=10_000).contains(&report.congested_lost), "{report:?}");
    assert!(report.packets.abs_diff(50_000) < 1_000, "{report:?}");
    assert!(report.congested.abs_diff(50_000) < 1_000, "{report:?}");
    assert_eq!((report.usual_burst, report.longest_burst), (1, 1));
}

#[test]
fn few_losses_at_a_long_queue_are_brought_back() {
    // A flow's first packets: 300 at a short queue, and 100 at a long one of which the link loses two.
    let mut meter = Meter::new();
    let record = |meter: &mut Meter, n: u32, lost: bool| {
        meter.record(n, (!lost).then_some(Time::ZERO));
        meter.record_queue(n, n >= 300);
    };
    (0..400).for_each(|n| record(&mut meter, n, n == 330 || n == 370));
    (400..600).for_each(|n| record(&mut meter, n, false));
    assert!(!meter.is_congestion(370));
    // A queue that drops a third of what it gets tells of it.
    (600..800).for_each(|n| record(&mut meter, n, n % 3 == 0));
    (800..1_000).for_each(|n| record(&mut meter, n, false));
    assert!(meter.is_congestion(750));
}

#[test]
fn a_link_is_clean_once_enough_packets_have_come_and_none_was_lost() {
    let mut meter = Meter::new();
    (0..1_000).for_each(|n| meter.record(n, Some(Time::ZERO)));
    assert!(!meter.is_clean());
    (1_000..1_200).for_each(|n| meter.record(n, Some(Time::ZERO)));
    assert!(meter.is_clean());
    (1_200..1_400).for_each(|n| meter.record(n, (n != 1_250).then_some(Time::ZERO)));
    assert!(!meter.is_clean());
}

#[test]
fn digests_go_on_with_what_repairs_have_told_of_the_queue() {
    let mut repairs = Meter::new();
    let record = |meter: &mut Meter, n: u32, lost: bool| {
        meter.record(n, (!lost).then_some(Time::ZERO));
        meter.record_queue(n, n >= 1_500);
    };
    (0..2_000).for_each(|n| record(&mut repairs, n, n >= 1_500 && n % 5 == 0));
    assert!(repairs.queue_drops());
    // The code is off, and the queue drops on.
    let mut digests = Meter::in_order();
    digests.learn(&repairs);
    (2_000..2_100).for_each(|n| record(&mut digests, n, n % 5 == 0));
    assert!(!digests.has_losses());
    let report = digests.report(0);
    assert!(report.lost == 0 && report.congested_lost >= 15, "{report:?}");
}

#[test]
fn packets_of_which_no_repair_tells_are_of_the_burst_around_them() {
    let mut meter = Meter::new();
    for n in (0..200).filter(|n| !(55..58).contains(n)) {
        meter.record(n, (!(50..60).contains(&n)).then_some(Time::ZERO));
    }
    let report = meter.report(0);
    assert_eq!((report.lost, report.bursts, report.usual_burst), (10, 1, 10));
}

#[test]
fn three_losses_at_a_long_queue_are_certain_where_few_packets_have_come() {
    let mut meter = Meter::new();
    for n in 0..900 {
        meter.record(n, (![620, 640, 660].contains(&n)).then_some(Time::ZERO));
        meter.record_queue(n, (600..700).contains(&n));
    }
    assert_eq!(meter.lately_long.events, CERTAIN);
    assert!(meter.lately_short.packets < CERTAIN_PACKETS && meter.is_congestion(640));
    assert!(meter.has_queue_drops(), "three are enough to be told");
}

#[test]
fn a_loss_at_a_long_queue_is_suspect_after_some_hundreds_at_a_short_one() {
    let has_losses = |short: u32| {
        let mut meter = Meter::in_order();
        for n in 0..short + 100 {
            meter.record(n, (n != short + 50).then_some(Time::ZERO));
            meter.record_queue(n, n >= short);
        }
        meter.has_losses()
    };
    assert_eq!([has_losses(290), has_losses(320)], [true, false]);
}

#[test]
fn chance_is_no_congestion() {
    // A flow's first packets: none of 300 is lost at a short queue, of 400 at a long one the link loses one in a hundred.
    let record = |meter: &mut Meter, n: u32, long: bool, lost: bool| {
        meter.record(n, (!lost).then_some(Time::ZERO));
        meter.record_queue(n, long);
    };
    let mut meter = Meter::new();
    (0..700).for_each(|n| record(&mut meter, n, n >= 300, n >= 300 && n % 80 == 79));
    (700..900).for_each(|n| record(&mut meter, n, false, false));
    assert_eq!(meter.lately_long.events, 5.0);
    assert!(!meter.is_congestion(399));
    // A link's first burst comes while the queue is long.
    let mut meter = Meter::new();
    (0..1_500).for_each(|n| record(&mut meter, n, n >= 1_300, (1_400..1_420).contains(&n)));
    (1_500..1_700).for_each(|n| record(&mut meter, n, false, false));
    assert_eq!(meter.lately_long.lost, 20.0);
    assert!(!meter.is_congestion(1_410));
}

#[test]
fn wild_numbers_cost_no_more_than_the_window() {
    let mut meter = Meter::new();
    for step in 0..2_000_u32 {
        meter.record(step.wrapping_mul(0x9e37_79b9), None);
        assert!(meter.run <= WINDOW as u32);
    }
}
