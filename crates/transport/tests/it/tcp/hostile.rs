//! Segments no honest peer would send.

use super::lab::*;
use proptest::prelude::*;
use wellspring_core::{Destination, Duration, Ecn, Frame, SessionId};
use wellspring_testkit::HostConfig;
use wellspring_transport::tcp::{Event, TcpHeader};

/// Small numbers hit the bounds of what is going on, large ones those of arithmetic.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..300_000_u64, (0..100_u64).prop_map(|n| n * 1_460), any::<u64>(), Just(u64::MAX)]
}

fn header() -> impl Strategy<Value = TcpHeader> {
    let total = prop_oneof![Just(LEN), number()];
    prop_oneof![
        4 => (number(), total).prop_map(|(offset, total)| TcpHeader::Data { offset, total }),
        4 => (number(), any::<bool>()).prop_map(|(next, echo)| TcpHeader::Ack { next, echo }),
        1 => Just(TcpHeader::Reset),
    ]
}

/// The length of the transfer attacked.
const LEN: u64 = 300_000;

fn frame(sources: core::ops::Range<u32>) -> impl Strategy<Value = Frame<TcpHeader>> {
    let session = prop_oneof![4 => Just(7), 1 => 0..50_u32].prop_map(SessionId);
    let len = prop_oneof![Just(1_460), any::<u16>(), Just(0)];
    (sources, session, header(), len, any::<bool>(), any::<bool>()).prop_map(
        |(source, session, header, payload_len, trimmed, marked)| Frame {
            source: host(source),
            destination: Destination::Host(host(0)),
            session,
            payload_len,
            path: 0,
            class: 1,
            ecn: if marked { Ecn::Marked } else { Ecn::NotCapable },
            trimmed,
            header,
        },
    )
}

type Attack = Vec<(u32, u64, Frame<TcpHeader>)>;

fn attack(sources: core::ops::Range<u32>) -> impl Strategy<Value = Attack> {
    prop::collection::vec((0..2_u32, 0..200_u64, frame(sources)), 0..80)
}

fn inject(lab: &mut Lab, attack: Attack) {
    for (to, wait_us, mut frame) in attack {
        lab.run(Duration::from_micros(wait_us));
        frame.destination = Destination::Host(host(to));
        lab.inject(host(to), frame);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    /// Strangers cannot harm a transfer, nor hold on to more than the limit.
    #[test]
    fn strangers_change_nothing(seed: u64, dctcp: bool, attack in attack(2..4)) {
        let congestion = BOTH[usize::from(dctcp)];
        let mut lab = lab(seed, 4, congestion, HostConfig::new(), |c| c.max_receivers = 6);
        send(&mut lab, 1, 0, 7, LEN);
        lab.run(Duration::from_micros(100));
        inject(&mut lab, attack);
        prop_assert!(lab.endpoint(host(0)).open_transfers() <= 6);
        lab.run(Duration::from_secs(1));
        let from_peer = |event: &Event| matches!(event,
            Event::Received { sender, stats, .. } if *sender == host(1) && stats.bytes == LEN);
        prop_assert_eq!(count(&lab, from_peer), 1);
        let sent = count(&lab, |event| matches!(event, Event::Sent { .. }));
        prop_assert_eq!(sent, 1);
        assert_all_over(&mut lab, 4);
    }

    /// A peer may spoil its own transfer, but not for ever, and breaks nothing else.
    #[test]
    fn hostile_peers_only_spoil_their_own_transfer(seed: u64, attack in attack(0..2)) {
        for congestion in BOTH {
            let mut lab = lab(seed, 4, congestion, HostConfig::new(), |_| {});
            send(&mut lab, 1, 0, 7, LEN);
            send(&mut lab, 2, 3, 1_000, LEN);
            inject(&mut lab, attack.clone());
            lab.run(Duration::from_secs(10));
            prop_assert!(received(&lab).iter().any(|entry| entry.0 == 1_000 && entry.1 == LEN));
            assert_all_over(&mut lab, 4);
        }
    }
}
