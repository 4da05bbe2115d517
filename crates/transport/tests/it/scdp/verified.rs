//! Blocks whose bytes are wrong, and blocks that are there from the beginning.

use super::lab::*;
use proptest::prelude::*;
use wellspring_core::{Duration, GroupId};
use wellspring_testkit::{Faults, HostConfig};
use wellspring_transport::scdp::{
    Command, Fabric, ReceiveSession, Resume, Role, SendSession, Share,
};
use wellspring_wire::scdp::Mode;

/// Every `every`th of the first `blocks` blocks is wrong at `at`, so many times.
fn spoil(lab: &mut Lab, at: u32, blocks: u32, every: usize, times: u32) -> u64 {
    let spoilt: Vec<u32> = (0..blocks).step_by(every).collect();
    for sbn in &spoilt {
        lab.payloads.wrong.insert((host(at), SESSION, *sbn), times);
    }
    spoilt.len() as u64
}

#[test]
fn a_block_with_wrong_bytes_costs_as_many_symbols_as_it_is_wrong_times() {
    for senders in [1, 3] {
        for times in [1, 3] {
            let mut lab = lab(1, senders + 1, Fabric::Trimming, HostConfig::new(), |_| {});
            let spoilt = spoil(&mut lab, 0, 30, 3, times);
            fetch(&mut lab, senders, 3_000);
            lab.run(Duration::from_secs(1));
            let (_, stats) = received(&lab, 0);
            assert!(lab.payloads.wrong.values().all(|times| *times == 0));
            let useful = total(&stats, |sender| sender.useful);
            let most = 3_000 + spoilt * u64::from(times) + u64::from(stats.failed_decodes) + 6;
            assert!((3_000 + spoilt..=most).contains(&useful), "{useful}: {stats:?}");
            assert_all_over(&mut lab, senders + 1);
        }
    }
}

#[test]
fn a_member_whose_block_is_wrong_asks_its_group_for_more() {
    let mut lab = lab(2, 4, Fabric::Trimming, HostConfig::new(), |_| {});
    spoil(&mut lab, 2, 20, 4, 2);
    let members: Vec<_> = (1..=3).map(host).collect();
    lab.set_group(GroupId(1), members.clone());
    let role = Role::OneToMany { group: GroupId(1), members, held: Vec::new() };
    send(&mut lab, 0, SESSION, role, 2_000, 12);
    lab.run(Duration::from_secs(1));
    (1..=3).for_each(|receiver| drop(received(&lab, receiver)));
    assert!(lab.payloads.wrong.values().all(|times| *times == 0));
    assert_all_over(&mut lab, 4);
}

/// Fetches from senders 1..=n into host 0, which has some blocks already.
fn fetch_the_rest(lab: &mut Lab, senders: u32, symbols: u64, complete: &[std::ops::Range<u32>]) {
    let object = object(symbols);
    let floor = complete.first().filter(|run| run.start == 0).map_or(0, |run| run.end);
    let command = ReceiveSession {
        session: SESSION,
        object,
        mode: if senders > 1 { Mode::ManyToOne } else { Mode::Unicast },
        senders: (1..=senders).map(host).collect(),
        initial_window: 6,
        complete: complete.to_vec(),
        priority: wellspring_core::Priority::Normal,
    };
    lab.command(host(0), Command::Receive(command));
    for index in 0..senders {
        let sender = host(index + 1);
        lab.command(host(0), Command::SenderBack { session: SESSION, sender, epoch: 1 });
        let share = Share { index: index as u8, count: senders as u8 };
        lab.command(
            sender,
            Command::Send(SendSession {
                session: SESSION,
                object,
                role: Role::Unicast { receiver: host(0), share },
                initial_window: 6,
                class: None,
                resume: Some(Resume { epoch: 1, floor, horizon: floor }),
                priority: wellspring_core::Priority::Normal,
            }),
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever is there, and whatever is lost: the rest arrives, and nothing of what is there.
    #[test]
    fn only_missing_blocks_are_fetched(
        seed: u64, senders in 1_u32..4, loss in 0.0..0.1_f64,
        lens in prop::collection::vec((1_u32..9, 1_u32..9), 0..4), from_zero: bool,
    ) {
        let mut complete = Vec::new();
        let mut at = 0;
        for (missing, there) in lens {
            let start = if from_zero && complete.is_empty() { 0 } else { at + missing };
            at = start + there;
            complete.push(start..at);
        }
        let symbols = u64::from(at) * 100 + 350;
        let link = HostConfig { faults: Faults { loss, ..Faults::default() }, ..HostConfig::new() };
        let mut lab = lab(seed, senders + 1, SHARED, link, |_| {});
        fetch_the_rest(&mut lab, senders, symbols, &complete);
        lab.run(Duration::from_secs(30));
        let (_, stats) = received(&lab, 0);
        let there: u32 = complete.iter().map(|run| run.end - run.start).sum();
        let symbols_of = |sbn| u64::from(object(symbols).symbols_in_block(sbn));
        let had: u64 = complete.iter().cloned().flatten().map(symbols_of).sum();
        prop_assert_eq!(stats.needed, symbols - had);
        prop_assert!(total(&stats, |sender| sender.useful) >= stats.needed);
        let blocks = stats.decoded_blocks + stats.decode_free_blocks;
        prop_assert_eq!(blocks, object(symbols).source_blocks - there);
        assert_all_over(&mut lab, senders + 1);
    }
}

/// The blocks that are in both, both ascending.
fn in_both(a: &[std::ops::Range<u32>], b: &[std::ops::Range<u32>]) -> Vec<std::ops::Range<u32>> {
    let both =
        |a: &std::ops::Range<u32>, b: &std::ops::Range<u32>| a.start.max(b.start)..a.end.min(b.end);
    let ranges = a.iter().flat_map(|a| b.iter().map(move |b| both(a, b)));
    ranges.filter(|range| !range.is_empty()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Members of a group that have different blocks: each gets what it lacks, and the group is sent
    /// what any of them lacks.
    #[test]
    fn a_group_is_sent_what_any_member_lacks(
        seed: u64, loss in prop_oneof![Just(0.0), 0.0..0.05_f64],
        lens in prop::collection::vec(prop::collection::vec((1_u32..9, 1_u32..9), 0..4), 3),
    ) {
        let mut all = Vec::new();
        let mut last = 0;
        for lens in &lens {
            let (mut complete, mut at) = (Vec::new(), 0);
            for (missing, there) in lens {
                complete.push(at + missing..at + missing + there);
                at += missing + there;
            }
            last = last.max(at);
            all.push(complete);
        }
        let symbols = u64::from(last) * 100 + 350;
        let link = HostConfig { faults: Faults { loss, ..Faults::default() }, ..HostConfig::new() };
        let mut lab = lab(seed, 4, SHARED, link, |_| {});
        let members: Vec<_> = (1..=3).map(host).collect();
        lab.set_group(GroupId(1), members.clone());
        for (member, complete) in members.iter().zip(&all) {
            let command = ReceiveSession {
                session: SESSION,
                object: object(symbols),
                mode: Mode::OneToMany,
                senders: vec![host(0)],
                initial_window: 12,
                complete: complete.clone(), priority: wellspring_core::Priority::Normal,
            };
            lab.command(*member, Command::Receive(command));
        }
        let held = in_both(&in_both(&all[0], &all[1]), &all[2]);
        let symbols_of = |sbn| u64::from(object(symbols).symbols_in_block(sbn));
        let not_needed: u64 = held.iter().cloned().flatten().map(symbols_of).sum();
        send(&mut lab, 0, SESSION, Role::OneToMany { group: GroupId(1), members, held }, symbols, 12);
        lab.run(Duration::from_secs(60));
        for (receiver, complete) in (1..).zip(&all) {
            let (_, stats) = received(&lab, receiver);
            let had: u64 = complete.iter().cloned().flatten().map(symbols_of).sum();
            prop_assert_eq!(stats.needed, symbols - had);
        }
        if loss == 0.0 {
            prop_assert!(lab.sent[&host(0)] <= symbols - not_needed + 30);
        }
        assert_all_over(&mut lab, 4);
    }
}
