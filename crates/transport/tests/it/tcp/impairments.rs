//! Loss, repetition and disorder.

use super::lab::*;
use proptest::prelude::*;
use wellspring_core::Duration;
use wellspring_testkit::{Faults, HostConfig};
use wellspring_transport::tcp::Event;

fn link(faults: Faults) -> HostConfig {
    HostConfig { queue: 100, faults, ..HostConfig::new() }
}

fn faults(loss: f64, duplicate: f64, reorder: f64) -> Faults {
    let reorder_by = Duration::from_micros(200);
    Faults { loss, duplicate, reorder, reorder_by, mark: 0.1, ..Faults::default() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Every byte arrives once and both ends know it, whatever the network does.
    #[test]
    fn every_transfer_completes(
        seed: u64,
        dctcp: bool,
        delayed: bool,
        limited: bool,
        transfers in prop::collection::vec((0_u32..4, 1_u32..4, 1_u64..200_000), 1..8),
        trouble in (0.0..0.25_f64, 0.0..0.2_f64, 0.0..0.3_f64),
        window in 1_u32..20,
    ) {
        let congestion = BOTH[usize::from(dctcp)];
        let link = link(faults(trouble.0, trouble.1, trouble.2));
        let mut lab = lab(seed, 4, congestion, link, |config| {
            config.delayed_ack = delayed.then_some(Duration::from_micros(500));
            config.limited_transmit = limited;
            config.initial_window = Some(window);
        });
        for (session, (from, gap, len)) in transfers.iter().enumerate() {
            send(&mut lab, *from, (from + gap) % 4, session as u32, *len);
        }
        lab.run(Duration::from_secs(50));
        let lens: Vec<_> = received(&lab).into_iter().map(|entry| entry.1).collect();
        let expected: Vec<_> = transfers.iter().map(|transfer| transfer.2).collect();
        prop_assert_eq!(lens, expected);
        let sent = count(&lab, |event| matches!(event, Event::Sent { .. }));
        prop_assert_eq!(sent, transfers.len());
        prop_assert_eq!(count(&lab, |event| matches!(event, Event::Failed { .. })), 0);
        assert_all_over(&mut lab, 4);
    }
}

#[test]
fn progress_tells_of_all_bytes_but_the_last_few() {
    let mut lab = lab(1, 2, BOTH[0], link(faults(0.02, 0.02, 0.1)), |config| {
        config.progress_every = 10_000;
    });
    send(&mut lab, 0, 1, 1, 1_000_000);
    lab.run(Duration::from_secs(50));
    let told: u64 = lab
        .log
        .iter()
        .map(|(_, _, event)| if let Event::Progress { bytes, .. } = event { *bytes } else { 0 })
        .sum();
    assert!((990_000..=1_000_000).contains(&told), "{told}");
}

#[test]
fn a_silent_peer_is_given_up_at_both_ends() {
    for congestion in BOTH {
        let mut lab = lab(1, 2, congestion, link(Faults::default()), |_| {});
        send(&mut lab, 0, 1, 1, 10_000_000);
        lab.run(Duration::from_millis(5));
        lab.set_alive(host(1), false);
        lab.run(Duration::from_secs(59));
        assert_eq!(lab.endpoint(host(0)).open_transfers(), 1, "patient for a minute");
        lab.run(Duration::from_secs(2));
        assert_eq!(lab.endpoint(host(0)).open_transfers(), 0);
        lab.set_alive(host(1), true);
        lab.run(Duration::from_secs(120));
        assert_eq!(count(&lab, |event| matches!(event, Event::Failed { .. })), 2);
        assert_all_over(&mut lab, 2);
    }
}

#[test]
fn a_cancelled_transfer_ends_at_its_receiver() {
    use wellspring_core::SessionId;
    use wellspring_transport::tcp::Command;
    let mut lab = lab(1, 2, BOTH[0], link(Faults::default()), |_| {});
    send(&mut lab, 0, 1, 1, 10_000_000);
    lab.run(Duration::from_millis(5));
    lab.command(host(0), Command::Cancel { session: SessionId(1) });
    lab.run(Duration::from_millis(5));
    assert_eq!(count(&lab, |event| matches!(event, Event::Failed { .. })), 1);
    // Segments that were behind the reset open the transfer anew, for as long as nothing comes.
    assert_all_over(&mut lab, 2);
}

/// Marks keep the queue short: what slow start overshoots is lost to both, and NewReno fills the
/// queue again and again.
#[test]
fn marks_keep_dctcp_from_most_losses() {
    let [newreno, dctcp] = BOTH.map(|congestion| {
        let link = HostConfig { queue: 100, ..link(Faults::default()) };
        let mut lab = lab(1, 3, congestion, link, |_| {});
        send(&mut lab, 0, 2, 1, 3_000_000);
        send(&mut lab, 1, 2, 2, 3_000_000);
        lab.run(Duration::from_secs(10));
        assert_eq!(received(&lab).len(), 2);
        let retransmitted = lab.log.iter().map(|(_, _, event)| match event {
            Event::Sent { stats, .. } => stats.retransmitted,
            _ => 0,
        });
        retransmitted.sum::<u64>()
    });
    assert!(newreno > 100 && dctcp * 5 < newreno, "{newreno} {dctcp}");
}
