use super::super::check::Verdict;
use super::*;

fn advice(check: &Check) -> &str {
    check.advice.as_deref().unwrap_or_default()
}

fn trips(sent: u32, times_us: &[u64], clock_ahead_us: i64) -> RoundTrips {
    let mut trips = RoundTrips::default();
    trips.sent = sent;
    trips.times = times_us.iter().map(|us| Duration::from_micros(*us)).collect();
    trips.clock_ahead_us = Some(clock_ahead_us);
    trips
}

fn lens(tried: u16, there: u16, back: u16, known: (u16, u16)) -> DatagramLens {
    let mut lens = DatagramLens::default();
    (lens.tried, lens.there, lens.back) = (tried, there, back);
    (lens.known_here, lens.known_there) = known;
    lens
}

fn echo(sent: u8, there: Option<u8>, back: Option<u8>) -> ClassEcho {
    ClassEcho::new(sent, there, back)
}

#[test]
fn round_trips_are_judged_by_loss_length_and_variation() {
    for (sent, times, verdict, word) in [
        (3, &[100, 200, 300][..], Verdict::Ok, ""),
        (3, &[40_000, 40_100, 41_000], Verdict::Ok, ""),
        (3, &[1_000, 12_000, 90_000], Verdict::Warning, "Queues"),
        (3, &[1_000, 2_000, 90_000], Verdict::Ok, ""),
        (3, &[700_000, 700_100, 700_200], Verdict::Warning, "--timeout"),
        (4, &[100, 200, 300], Verdict::Warning, "loses"),
        (3, &[], Verdict::Failure, "limits"),
    ] {
        let check = of_round_trips(&trips(sent, times, 0));
        assert_eq!(check.verdict, verdict, "{check:?}");
        assert!(advice(&check).contains(word), "{check:?}");
    }
}

#[test]
fn clocks_agree_within_what_can_be_known() {
    let clock = |ahead| of_clock(&trips(1, &[1_000], ahead)).expect("a clock");
    assert!(clock(400).finding.contains("agree") && clock(-500).finding.contains("agree"));
    assert!(clock(600).finding.contains("ahead") && clock(-600).finding.contains("behind"));
    assert_eq!(clock(1_000_000).verdict, Verdict::Ok);
    assert_eq!(clock(-3_000_000).verdict, Verdict::Warning);
    assert_eq!(clock(i64::MIN).verdict, Verdict::Warning);
    assert_eq!(of_clock(&RoundTrips::default()), None);
}

#[test]
fn datagrams_that_vanish_are_a_failure_and_the_advice_names_a_symbol_size_that_fits() {
    let ethernet = of_datagrams(&lens(1_472, 1_472, 1_472, (1_472, 1_472)), 0, None);
    assert_eq!(ethernet.verdict, Verdict::Ok);
    let told = of_datagrams(&lens(1_472, 1_252, 1_252, (1_252, 1_472)), 0, None);
    assert_eq!(told.verdict, Verdict::Warning);
    assert!(advice(&told).contains("--symbol-size 1180"), "{told:?}");
    let silent = lens(1_472, 1_252, 1_252, (1_472, 1_472));
    let sealed = of_datagrams(&silent, 32, None);
    assert_eq!(of_datagrams(&silent, 0, Some(false)).verdict, Verdict::Failure);
    assert_eq!(of_datagrams(&silent, 0, Some(true)).verdict, Verdict::Warning, "fragments pass");
    assert_eq!(sealed.verdict, Verdict::Failure);
    assert!(advice(&sealed).contains("--symbol-size 1148"), "{sealed:?}");
    let back = of_datagrams(&lens(1_472, 1_472, 1_000, (1_472, 1_472)), 0, None);
    assert!(back.finding.contains("1472") && back.finding.contains("1000"), "{back:?}");
    assert_eq!(of_datagrams(&lens(260, 256, 256, (256, 256)), 150, None).verdict, Verdict::Failure);
}

#[test]
fn marks_that_are_cleared_are_a_warning_and_those_that_are_dropped_a_failure() {
    let plain = echo(0, Some(0), Some(0));
    let all = |class| echo(class, Some(class), Some(class));
    assert_eq!(of_ecn(plain, all(2), all(3)).verdict, Verdict::Ok);
    let cleared = of_ecn(plain, echo(2, Some(0), Some(2)), echo(3, Some(0), Some(3)));
    assert!(
        cleared.verdict == Verdict::Warning && cleared.finding.ends_with("there"),
        "{cleared:?}"
    );
    let cleared = of_ecn(plain, all(2), echo(3, Some(3), Some(2)));
    assert!(
        cleared.verdict == Verdict::Warning && cleared.finding.ends_with("back"),
        "{cleared:?}"
    );
    let dropped = of_ecn(plain, echo(2, None, None), all(3));
    assert_eq!(dropped.verdict, Verdict::Failure);
}

#[test]
fn priorities_matter_where_switches_trim() {
    let kept = [echo(40 << 2, Some(40 << 2), Some(40 << 2))];
    let changed = [kept[0], echo(8 << 2, Some(8 << 2), Some(1))];
    assert_eq!(of_dscp(&kept, true).verdict, Verdict::Ok);
    assert_eq!(of_dscp(&changed, false).verdict, Verdict::Ok);
    let check = of_dscp(&changed, true);
    assert!(
        check.verdict == Verdict::Warning && check.finding.contains("8 becomes 8 there, 0 back"),
        "{check:?}"
    );
    let cleared = [8, 40].map(|dscp| echo(dscp << 2, Some(0), Some(0)));
    assert!(of_dscp(&cleared, true).finding.starts_with("8, 40 become 0 both ways"));
    assert_eq!(of_trims(true, true, true).verdict, Verdict::Ok);
    assert_eq!(of_trims(true, false, true).verdict, Verdict::Warning);
    assert_eq!(of_trims(false, false, false).verdict, Verdict::Ok);
}

#[test]
fn what_a_host_lacks_is_named() {
    let all = Abilities::SEGMENTATION.with(Abilities::COALESCING, true);
    assert_eq!(of_offload(all, all).verdict, Verdict::Ok);
    let check = of_offload(all, Abilities::COALESCING);
    assert_eq!(check.finding, "the server has no GSO");
    let check = of_offload(Abilities::default(), all);
    assert_eq!(check.finding, "this host has no GSO and GRO");
    assert!(of_buffers(212_992, 4 << 20).advice.is_some_and(|a| a.contains("rmem_max=4194304")));
    assert_eq!(of_buffers(8 << 20, 4 << 20).verdict, Verdict::Ok);
}

#[test]
fn silence_has_another_advice_where_tcp_answers_or_the_network_reports() {
    let error = |trouble| {
        let (host, reason) = ("a".to_owned(), "no answer within 1.0 s".to_owned());
        HostError { host, reason, trouble }
    };
    let silent = |icmp, tcp| of_trouble(&error(HostTrouble::Silent), icmp, tcp).remove(0);
    assert!(advice(&silent(None, true)).contains("TCP through and not UDP"));
    let told = silent(Some("No route to host"), false);
    assert!(told.finding.contains("No route to host") && advice(&told).contains("routes"));
    assert!(advice(&silent(None, false)).contains("firewall"));
    let closed = of_trouble(&error(HostTrouble::PortClosed), None, false);
    assert!(closed[0].finding.contains("ICMP"));
    let keys = of_trouble(&error(HostTrouble::Keys), None, true);
    assert_eq!((keys[0].verdict, keys[1].verdict), (Verdict::Ok, Verdict::Failure));
    for trouble in
        [HostTrouble::Silent, HostTrouble::PortClosed, HostTrouble::Keys, HostTrouble::Other]
    {
        let checks = of_trouble(&error(trouble), None, false);
        assert!(checks.iter().any(|check| check.verdict == Verdict::Failure), "{trouble:?}");
    }
}
