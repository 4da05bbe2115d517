//! Written-out schedules: what a port sends, packet by packet.

use proptest::prelude::*;
use wellspring_fabric::{
    Admission, ControlQueue, Limit, Overflow, Packet, Pool, Port, PortConfig, Sharing, Victim,
};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Item {
    name: u32,
    len: u32,
    class: u8,
    data: bool,
    ecn: bool,
    marked: bool,
}

impl Packet for Item {
    fn wire_len(&self) -> u32 {
        self.len
    }
    fn class(&self) -> u8 {
        self.class
    }
    fn trimmable(&self) -> bool {
        self.data
    }
    fn trim(&mut self) {
        (self.len, self.class, self.data) = (64, 0, false);
    }
    fn mark(&mut self) -> bool {
        self.marked |= self.ecn;
        self.ecn
    }
}

fn data(name: u32, class: u8) -> Item {
    Item { name, len: 1500, class, data: true, ecn: true, marked: false }
}

fn control(name: u32) -> Item {
    Item { name, len: 64, class: 0, data: false, ecn: false, marked: false }
}

/// What became of an offered packet, and which one was dropped.
struct Fate {
    trimmed: bool,
    marked: bool,
    dropped: Option<Item>,
}

fn offer(port: &mut Port, config: &PortConfig, pool: &mut Pool<Item>, item: Item) -> Fate {
    let handle = pool.insert(item);
    let Admission { trimmed, marked, dropped } = port.enqueue(config, pool, handle);
    Fate { trimmed, marked, dropped: dropped.map(|handle| pool.remove(handle)) }
}

fn take(port: &mut Port, config: &PortConfig, pool: &mut Pool<Item>) -> Option<Item> {
    port.dequeue(config, pool).map(|handle| pool.remove(handle))
}

/// Offers all packets, then drains: the names in the order sent, headers as `-name`.
fn schedule(config: &PortConfig, offered: &[Item]) -> (Vec<i64>, Vec<Fate>) {
    let (mut port, mut pool) = (Port::new(1), Pool::new());
    let admissions = offered.iter().map(|p| offer(&mut port, config, &mut pool, *p)).collect();
    let mut sent = Vec::new();
    while let Some(packet) = take(&mut port, config, &mut pool) {
        sent.push(if packet.len == 64 { -i64::from(packet.name) } else { packet.name.into() });
    }
    assert!(port.is_empty() && port.data_bytes() == 0);
    (sent, admissions)
}

#[test]
fn drop_tail_drops_the_fourth_of_three() {
    let config = PortConfig::drop_tail(Limit::Packets(3));
    let (sent, admissions) = schedule(&config, &[1, 2, 3, 4].map(|n| data(n, 2)));
    assert_eq!(sent, [1, 2, 3]);
    assert_eq!(admissions[3].dropped, Some(data(4, 2)));
}

#[test]
fn drop_tail_by_bytes_still_takes_a_small_packet() {
    let config = PortConfig::drop_tail(Limit::Bytes(3_100));
    let (sent, _) = schedule(&config, &[data(1, 1), data(2, 1), data(3, 1), control(4)]);
    assert_eq!(sent, [1, 2, -4]);
}

#[test]
fn a_full_trimming_port_forwards_headers_first() {
    let config = PortConfig::trimming(Limit::Packets(2));
    let (sent, admissions) = schedule(&config, &[1, 2, 3, 4].map(|n| data(n, 1)));
    assert_eq!(sent, [-3, -4, 1, 2]);
    assert!(admissions[3].trimmed && admissions[3].dropped.is_none());
}

#[test]
fn one_data_packet_goes_after_every_nine_headers() {
    let config = PortConfig::trimming(Limit::Packets(8));
    let offered: Vec<_> = (1..=3).map(|n| data(n, 1)).chain((10..35).map(control)).collect();
    let (sent, _) = schedule(&config, &offered);
    let places: Vec<_> = (0..sent.len()).filter(|i| sent[*i] > 0).collect();
    assert_eq!(places, [9, 19, 27]);
}

#[test]
fn strict_control_priority_starves_data() {
    let mut config = PortConfig::trimming(Limit::Packets(8));
    config.control = Some(ControlQueue { limit: Limit::Unlimited, weight: u32::MAX });
    let offered: Vec<_> = [data(1, 1)].into_iter().chain((10..40).map(control)).collect();
    assert_eq!(schedule(&config, &offered).0.last(), Some(&1));
}

#[test]
fn a_full_control_queue_drops() {
    let mut config = PortConfig::trimming(Limit::Packets(1));
    config.control = Some(ControlQueue { limit: Limit::Packets(1), weight: 9 });
    let (sent, admissions) = schedule(&config, &[1, 2, 3].map(|n| data(n, 1)));
    assert_eq!(sent, [-2, 1]);
    assert!(admissions[2].trimmed && admissions[2].dropped.is_some());
}

#[test]
fn classes_go_in_order_and_share_one_limit() {
    let config = PortConfig::trimming_classes(Limit::Packets(4), 5);
    let offered = [data(1, 5), data(2, 3), data(3, 1), data(4, 9), data(5, 1)];
    assert_eq!(schedule(&config, &offered).0, [-5, 3, 2, 1, 4]);
}

#[test]
fn a_split_buffer_limits_each_class() {
    let mut config = PortConfig::trimming_classes(Limit::Packets(1), 5);
    config.sharing = Sharing::Split;
    let offered = [data(1, 1), data(2, 1), data(3, 2), data(4, 2)];
    assert_eq!(schedule(&config, &offered).0, [-2, -4, 1, 3]);
}

#[test]
fn push_out_trims_the_last_of_the_lowest_class() {
    let mut config = PortConfig::trimming_classes(Limit::Packets(3), 5);
    config.overflow = Overflow::Trim(Victim::LowestClass);
    let offered = [data(1, 4), data(2, 4), data(3, 2), data(4, 1), data(5, 4)];
    assert_eq!(schedule(&config, &offered).0, [-2, -5, 4, 3, 1]);
}

#[test]
fn the_coin_spares_arriving_and_last_alike() {
    let mut config = PortConfig::trimming(Limit::Packets(2));
    config.overflow = Overflow::Trim(Victim::ArrivingOrLast);
    config.control = Some(ControlQueue { limit: Limit::Unlimited, weight: u32::MAX });
    let (mut port, mut pool) = (Port::new(9), Pool::new());
    let mut arriving_cut = 0;
    for packet in (1..=2_002).map(|n| data(n, 1)) {
        offer(&mut port, &config, &mut pool, packet);
        if port.control_packets() > 0 {
            let header = take(&mut port, &config, &mut pool).expect("a header waits");
            arriving_cut += usize::from(header.name == packet.name);
        }
    }
    assert!((900..1_100).contains(&arriving_cut), "{arriving_cut}");
}

#[test]
fn long_queues_mark_what_arrives() {
    let config = PortConfig::priorities(Limit::Packets(100), 8, Limit::Packets(2));
    let (_, admissions) = schedule(&config, &[1, 2, 3, 4].map(|n| data(n, 0)));
    assert_eq!(admissions.iter().map(|a| a.marked).collect::<Vec<_>>(), [false, false, true, true]);
}

#[test]
fn without_control_queue_class_zero_is_the_first_data_class() {
    let config = PortConfig::priorities(Limit::Packets(100), 8, Limit::Unlimited);
    let (sent, _) = schedule(&config, &[data(1, 1), data(2, 7), data(3, 0)]);
    assert_eq!(sent, [3, 1, 2]);
}

fn any_config() -> impl Strategy<Value = PortConfig> {
    let limit = prop_oneof![
        (0_u32..6).prop_map(Limit::Packets),
        (0_u64..8_000).prop_map(Limit::Bytes),
        Just(Limit::Unlimited),
    ];
    let control = prop::option::of(
        (limit.clone(), 0_u32..12).prop_map(|(limit, weight)| ControlQueue { limit, weight }),
    );
    let overflow = prop_oneof![
        Just(Overflow::Drop),
        Just(Overflow::Trim(Victim::Arriving)),
        Just(Overflow::Trim(Victim::ArrivingOrLast)),
        Just(Overflow::Trim(Victim::LowestClass)),
    ];
    (control, 0_u8..10, limit.clone(), any::<bool>(), overflow, limit).prop_map(
        |(control, data_classes, data_limit, split, overflow, ecn_threshold)| PortConfig {
            control,
            data_classes,
            data_limit,
            sharing: if split { Sharing::Split } else { Sharing::Shared },
            overflow,
            ecn_threshold,
        },
    )
}

proptest! {
    #[test]
    fn every_packet_is_sent_or_dropped_once(
        config in any_config(),
        steps in prop::collection::vec((any::<bool>(), any::<bool>(), 0_u8..8), 1..200),
    ) {
        let (mut port, mut pool) = (Port::new(3), Pool::new());
        let (mut offered, mut out) = (0_u32, Vec::new());
        for (enqueue, is_data, class) in steps {
            if enqueue {
                let item = if is_data { data(offered, class) } else { control(offered) };
                offered += 1;
                out.extend(offer(&mut port, &config, &mut pool, item).dropped);
            } else {
                out.extend(take(&mut port, &config, &mut pool));
            }
        }
        prop_assert_eq!(port.len() as usize + out.len(), offered as usize);
        while let Some(packet) = take(&mut port, &config, &mut pool) {
            out.push(packet);
        }
        let mut names: Vec<_> = out.iter().map(|p| p.name).collect();
        names.sort_unstable();
        prop_assert_eq!(names, (0..offered).collect::<Vec<_>>());
        prop_assert!(port.is_empty() && port.data_bytes() == 0);
    }
}
