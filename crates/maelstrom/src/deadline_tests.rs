//! Repairs in time: slow flows, thin streams and short transfers over links that lose bursts.

use wellspring_codec::interleave::Parameters;
use wellspring_core::{Duration, Time};

use super::*;

const SESSION: SessionId = SessionId { start: 1_000, random: 1 };
const OTHER: SessionId = SessionId { start: 2_000, random: 2 };
const LEN: usize = 200;

fn key() -> PresharedKey {
    PresharedKey::new([7; KEY_LEN])
}

fn packet(number: u64) -> Vec<u8> {
    let mut bytes = vec![0; LEN];
    (bytes[0], bytes[8], bytes[9]) = (0x45, 64, 17);
    bytes[2..4].copy_from_slice(&(LEN as u16).to_be_bytes());
    bytes[20..28].copy_from_slice(&number.to_be_bytes());
    bytes
}

fn at(micros: u64) -> Time {
    Time::ZERO + Duration::from_micros(micros)
}

fn pair(repair_within: Option<Duration>) -> (SendSide, ReceiveSide) {
    pair_of(&[1, 20, 40], 8, Some(Limits::default()), repair_within)
}

fn pair_of(
    interleaves: &[u16],
    rate: u8,
    adaptive: Option<Limits>,
    repair_within: Option<Duration>,
) -> (SendSide, ReceiveSide) {
    let mut parameters = Parameters::new(rate, interleaves).expect("a code");
    parameters.delayed = true;
    let flush_after = Duration::from_millis(5);
    let code = Code::Layers(parameters);
    let config = SendConfig { code, adaptive, longest: LEN, flush_after, repair_within };
    let sender = SendSide::new(&key(), SESSION, &config).expect("a length");
    let config = ReceiveConfig { longest: LEN, hold: Duration::ZERO, ..ReceiveConfig::default() };
    let receiver = ReceiveSide::new(&key(), OTHER, &config).expect("memory");
    (sender, receiver.believing(SESSION))
}

/// Sends packets at these times \[us\], in order; those that are lost come back how much later \[us\]. Repairs of the
/// same time as a lost packet are lost too.
fn come_back(
    sender: &mut SendSide,
    receiver: &mut ReceiveSide,
    times: &[u64],
    lost: std::ops::Range<usize>,
) -> Vec<Option<u64>> {
    let mut late = vec![None; times.len()];
    let end = times.last().expect("packets") + 500_000;
    let mut next = 0;
    for now in (0..end).step_by(100) {
        let (mut repairs, mut back) = (Batch::new(), Batch::new());
        sender.handle_timeout(at(now), &mut repairs);
        let first = next;
        while next < times.len() && times[next] <= now {
            sender.observe(at(now), &mut packet(next as u64), &mut repairs).expect("protected");
            if !lost.contains(&next) {
                let _ = receiver.observe(at(now), &mut packet(next as u64), &mut back);
            }
            next += 1;
        }
        if (first..next).any(|number| lost.contains(&number)) {
            continue;
        }
        for repair in repairs.iter() {
            receiver.handle_datagram(at(now), repair, &mut back);
        }
        receiver.handle_timeout(at(now), &mut back);
        for packet in back.iter() {
            let number = u64::from_be_bytes(std::array::from_fn(|n| packet[20 + n])) as usize;
            late[number].get_or_insert(now - times[number]);
        }
    }
    late
}

#[test]
fn a_burst_in_a_slow_flow_comes_back_in_time() {
    let (mut sender, mut receiver) = pair(None);
    // 333 packets a second.
    let times: Vec<u64> = (0..400).map(|n| n * 3_000).collect();
    let late = come_back(&mut sender, &mut receiver, &times, 200..210);
    let worst = late[200..210].iter().map(|late| late.unwrap_or(u64::MAX)).max();
    assert!(worst <= Some(25_000), "{:?}", &late[200..210]);
}

#[test]
fn the_user_says_how_long_repairs_wait() {
    let (mut sender, mut receiver) = pair(Some(Duration::from_millis(60)));
    let times: Vec<u64> = (0..400).map(|n| n * 3_000).collect();
    let late = come_back(&mut sender, &mut receiver, &times, 200..210);
    let first = late[200].expect("it comes back");
    assert!((40_000..70_000).contains(&first), "{:?}", &late[200..210]);
}

#[test]
fn a_burst_at_the_end_of_a_window_comes_back_after_a_silence() {
    let (mut sender, mut receiver) = pair(None);
    // Windows of ten and twenty packets, a round trip apart, and a burst in the second.
    let windows = (0..10).map(|n| n * 120).chain((0..20).map(|n| 100_000 + n * 120));
    let late = come_back(&mut sender, &mut receiver, &windows.collect::<Vec<_>>(), 18..28);
    let worst = late[18..28].iter().map(|late| late.unwrap_or(u64::MAX)).max();
    assert!(worst <= Some(10_000), "{:?}", &late[18..28]);
}

#[test]
fn thin_streams_cost_a_repair_a_packet_and_no_flow_more_than_is_allowed() {
    let (mut sender, mut receiver) = pair(None);
    let times: Vec<u64> = (0..200).map(|n| n * 50_000).collect();
    come_back(&mut sender, &mut receiver, &times, 0..0);
    let repairs = sender.counters().repairs;
    assert!((195..=205).contains(&repairs), "{repairs}");
    for gap in [500, 2_000, 8_000] {
        let (mut sender, mut receiver) = pair(None);
        let times: Vec<u64> = (0..2_000).map(|n| n * gap).collect();
        come_back(&mut sender, &mut receiver, &times, 0..0);
        let seconds = 2_000 * gap / 1_000_000 + 1;
        let (repairs, allowed) = (sender.counters().repairs, 1_000 + 300 * seconds + 64 + 16);
        assert!(repairs <= allowed, "{repairs} of {allowed}, {gap} us apart");
    }
}

/// A fixed code of one layer.
fn one_layer() -> SendConfig {
    SendConfig {
        code: Code::Layers(Parameters::new(8, &[1]).expect("a code")),
        adaptive: None,
        longest: LEN,
        flush_after: Duration::from_millis(5),
        repair_within: None,
    }
}

#[test]
fn reports_measure_the_round_trip() {
    // Two ends 40 ms apart; the clock of one is 1,000 s ahead.
    let ahead = 1_000_000_000;
    let (mut send, _) = pair(None);
    let config = ReceiveConfig { longest: LEN, ..ReceiveConfig::default() };
    let receive = ReceiveSide::new(&key(), SESSION, &config).expect("memory");
    let mut receive = receive.believing(OTHER);
    let mut send_there = SendSide::new(&key(), OTHER, &one_layer()).expect("a length");
    let (_, mut receive_there) = pair(None);
    let mut measured = Vec::new();
    for second in 0..3 {
        let now = second * 1_000_000;
        let (mut there, mut back, mut none) = (Batch::new(), Batch::new(), Batch::new());
        send.report(at(now), &LossReport::default(), &receive.hearing(at(now)), &mut there);
        for datagram in there.iter() {
            receive_there.handle_datagram(at(now + 40_000 + ahead), datagram, &mut none);
        }
        let later = now + 340_000 + ahead;
        let hearing = receive_there.hearing(at(later));
        send_there.report(at(later), &LossReport::default(), &hearing, &mut back);
        for datagram in back.iter() {
            let arrival = receive.handle_datagram(at(now + 380_000), datagram, &mut none);
            let Arrival::Report(report) = arrival else { panic!("{arrival:?}") };
            measured.push(report.round_trip.as_micros());
        }
    }
    assert!(
        measured.len() == 3 && measured.iter().all(|rtt| rtt.abs_diff(80_000) < 200),
        "{measured:?}"
    );
}

#[test]
fn bursts_in_a_short_transfer_come_back_after_a_silence() {
    // What left before the other end saw its first packets is not brought back.
    for (code, lost) in (0..3).flat_map(|code| (10..100).map(move |lost| (code, lost))) {
        let within = Some(Duration::from_millis(20));
        let (mut sender, mut receiver) = match code {
            0 => pair(None),
            1 => pair_of(&[1, 13, 19], 12, None, within),
            _ => pair_of(&[1, 17, 29], 16, None, within),
        };
        let windows = [10_u64, 20, 40, 80, 57].into_iter().enumerate();
        let times = windows.flat_map(|(n, packets)| {
            (0..packets).map(move |packet| n as u64 * 100_000 + packet * 120)
        });
        let lost = lost * 2..(lost * 2 + 9).min(207);
        let late = come_back(&mut sender, &mut receiver, &times.collect::<Vec<_>>(), lost.clone());
        let worst = late[lost.clone()].iter().map(|late| late.unwrap_or(u64::MAX)).max();
        assert!(worst <= Some(25_000), "code {code}, {lost:?}: {:?}", &late[lost.clone()]);
    }
}

#[test]
fn a_peer_hears_at_once_whether_it_is_heard() {
    let (_, mut receiver) = pair(None);
    for (begin, start) in [(0, 1_000), (500_000, 3_000)] {
        let session = SessionId { start, random: 1 };
        let mut sender = SendSide::new(&key(), session, &one_layer()).expect("a length");
        for n in 0..3 {
            let now = at(begin + n * 1_000);
            assert!(!receiver.report_is_urgent(now), "nobody is new: {n}");
            let (mut out, mut none) = (Batch::new(), Batch::new());
            sender.answer(now, OTHER, &mut out);
            for datagram in out.iter() {
                receiver.handle_datagram(now, datagram, &mut none);
            }
            assert_eq!(receiver.report_is_urgent(now), n == 0, "{n}");
            receiver.loss_report(now);
            assert_eq!(receiver.hearing(now).session, Some(session));
        }
    }
    assert!(receiver.report_is_urgent(at(3_000_000)), "the peer is silent");
    receiver.loss_report(at(3_000_000));
    assert!(!receiver.report_is_urgent(at(3_001_000)));
}
