//! Tests of snooping: claims, hostile messages, and random histories beside a naive model.

use super::message::checksum;
use super::*;
use proptest::prelude::*;

const SECOND: Duration = Duration::from_secs(1);

fn group(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// A frame with an IPv4 packet; IGMP has a router alert.
fn ipv4(protocol: u8, source: &str, to: &str, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x46, 0xc0, 0, 0, 0, 0, 0, 0, 1, protocol, 0, 0];
    for address in [source, to] {
        let IpAddr::V4(address) = group(address) else { panic!("{address}") };
        packet.extend(address.octets());
    }
    packet.extend([0x94, 4, 0, 0]);
    let len = (packet.len() + payload.len()) as u16;
    packet[2..4].copy_from_slice(&len.to_be_bytes());
    let sum = checksum(&packet, 0);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    // Padding behind the packet is no part of it.
    [&[1, 0, 0x5e, 0, 0, 1, 2, 0, 0, 0, 0, 9, 8, 0][..], &packet, payload, &[0xee; 9]].concat()
}

fn igmp(source: &str, to: &str, message: &[u8]) -> Vec<u8> {
    let mut message = message.to_vec();
    let sum = checksum(&message, 0);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    ipv4(2, source, to, &message)
}

fn octets(group: IpAddr) -> Vec<u8> {
    match group {
        IpAddr::V4(group) => group.octets().to_vec(),
        IpAddr::V6(group) => group.octets().to_vec(),
    }
}

fn ipv6(next: u8, options: &[u8], source: &str, to: &str, icmp: &[u8]) -> Vec<u8> {
    let (source, to) = (octets(group(source)), octets(group(to)));
    let mut icmp = icmp.to_vec();
    if icmp.len() > 3 {
        let pseudo =
            [&source[..], &to, &[0, 0], &(icmp.len() as u16).to_be_bytes(), &[0, 0, 0, 58]];
        let sum = checksum(&[&pseudo.concat()[..], &icmp].concat(), 0);
        icmp[2..4].copy_from_slice(&sum.to_be_bytes());
    }
    let len = ((options.len() + icmp.len()) as u16).to_be_bytes();
    let header = [0x60, 0, 0, 0, len[0], len[1], next, 1];
    let ethernet = [0x33, 0x33, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 0x86, 0xdd];
    [&ethernet[..], &header, &source, &to, options, &icmp].concat()
}

fn mld(source: &str, to: &str, icmp: &[u8]) -> Vec<u8> {
    ipv6(0, &[58, 0, 5, 2, 0, 0, 1, 0], source, to, icmp)
}

fn query_v2(source: &str) -> Vec<u8> {
    igmp(source, "224.0.0.1", &[0x11, 100, 0, 0, 0, 0, 0, 0])
}

fn join_v2(of: &str) -> Vec<u8> {
    igmp("10.0.0.1", of, &[&[0x16, 0, 0, 0][..], &octets(group(of))].concat())
}

fn leave_v2(of: &str) -> Vec<u8> {
    igmp("10.0.0.1", "224.0.0.2", &[&[0x17, 0, 0, 0][..], &octets(group(of))].concat())
}

/// A report of version 3 with records of a type, so many sources, and a group.
fn report_v3(records: &[(u8, u16, &str)]) -> Vec<u8> {
    igmp(
        "10.0.0.1",
        "224.0.0.22",
        &[&[0x22, 0, 0, 0, 0, 0, 0, records.len() as u8], &records_of(records)[..]].concat(),
    )
}

fn report_mld(records: &[(u8, u16, &str)]) -> Vec<u8> {
    mld(
        "fe80::1",
        "ff02::16",
        &[&[143, 0, 0, 0, 0, 0, 0, records.len() as u8], &records_of(records)[..]].concat(),
    )
}

fn records_of(records: &[(u8, u16, &str)]) -> Vec<u8> {
    let record = |(kind, sources, of): &(u8, u16, &str)| {
        let address = octets(group(of));
        let sources_bytes = vec![7; usize::from(*sources) * address.len()];
        let [high, low] = sources.to_be_bytes();
        // A word of auxiliary data.
        [&[*kind, 1, high, low][..], &address, &sources_bytes, &[0xaa; 4]].concat()
    };
    records.iter().flat_map(record).collect()
}

fn data(to: &str) -> Vec<u8> {
    match group(to) {
        IpAddr::V4(_) => ipv4(17, "10.0.0.9", to, &[0; 100]),
        IpAddr::V6(_) => ipv6(17, &[], "fd00::9", to, &[0; 100]),
    }
}

/// A switch of four ports.
struct Bench {
    snooping: Snooping,
    now: Instant,
}

impl Bench {
    fn new(config: SnoopingConfig) -> Self {
        Bench { snooping: Snooping::new(config, 4), now: Instant::now() }
    }

    fn pass(&mut self, port: usize, frame: &[u8]) -> Destination {
        self.snooping.pass(0, port, frame, self.now)
    }

    fn to(&mut self, of: &str) -> Destination {
        self.pass(3, &data(of))
    }
}

fn ports(ports: &[usize]) -> Destination {
    Destination::Ports(ports.iter().copied().collect())
}

#[test]
fn packets_of_a_group_go_to_members_and_routers() {
    let mut bench = Bench::new(SnoopingConfig::default());
    for (query, join, leave, of) in [
        (query_v2("10.0.0.254"), join_v2("239.1.1.1"), leave_v2("239.1.1.1"), "239.1.1.1"),
        (
            igmp("10.0.0.254", "224.0.0.1", &[0x11, 100, 0, 0, 0, 0, 0, 0, 2, 125, 0, 0]),
            report_v3(&[(6, 1, "239.2.2.2"), (4, 0, "239.2.2.3"), (3, 2, "239.2.2.2")]),
            report_v3(&[(3, 0, "239.2.2.2")]),
            "239.2.2.2",
        ),
        (
            mld(
                "fe80::254",
                "ff02::1",
                &[&[130, 0, 0, 0, 0x27, 0x10, 0, 0][..], &[0; 16]].concat(),
            ),
            mld(
                "fe80::1",
                "ff05::1",
                &[&[131, 0, 0, 0, 0, 0, 0, 0][..], &octets(group("ff05::1"))].concat(),
            ),
            mld(
                "fe80::1",
                "ff02::2",
                &[&[132, 0, 0, 0, 0, 0, 0, 0][..], &octets(group("ff05::1"))].concat(),
            ),
            "ff05::1",
        ),
        (
            mld(
                "fe80::254",
                "ff02::1",
                &[&[130, 0, 0, 0, 0x27, 0x10, 0, 0][..], &[0; 16], &[2, 125, 0, 0]].concat(),
            ),
            report_mld(&[(2, 1, "ff3e::7")]),
            report_mld(&[(3, 0, "ff3e::7")]),
            "ff3e::7",
        ),
    ] {
        assert_eq!(bench.pass(2, &query), Destination::All, "queries go everywhere");
        assert_eq!(bench.to(of), Destination::All, "nobody asked for {of} yet");
        assert_eq!(bench.pass(0, &join), ports(&[2]), "reports go to routers");
        assert_eq!(bench.to(of), ports(&[0, 2]), "{of}");
        assert_eq!(bench.pass(1, &join), ports(&[2]));
        assert_eq!(bench.to(of), ports(&[0, 1, 2]));
        assert_eq!(bench.pass(0, &leave), ports(&[2]));
        assert_eq!(bench.to(of), ports(&[0, 1, 2]), "another host there may want it");
        bench.now += 3 * SECOND;
        assert_eq!(bench.to(of), ports(&[1, 2]));
        bench.now += 258 * SECOND;
        assert_eq!(bench.to(of), Destination::All, "the querier is gone");
    }
    assert_eq!(bench.snooping.counters().malformed, 0);
}

#[test]
fn without_a_querier_everything_goes_everywhere() {
    let mut bench = Bench::new(SnoopingConfig { restrict_unknown: true, ..Default::default() });
    assert_eq!(bench.pass(0, &join_v2("239.1.1.1")), Destination::All);
    assert_eq!(
        (bench.to("239.1.1.1"), bench.to("239.9.9.9")),
        (Destination::All, Destination::All)
    );
    // A switch that asks in a router's place is no router.
    bench.pass(2, &query_v2("0.0.0.0"));
    assert_eq!(bench.to("239.9.9.9"), Destination::All);
    bench.pass(2, &query_v2("10.0.0.254"));
    assert_eq!((bench.to("239.1.1.1"), bench.to("239.9.9.9")), (ports(&[0, 2]), ports(&[2])));
    assert_eq!(bench.to("ff05::1"), Destination::All, "IPv6 has a querier of its own");
    // 2 x 125 s and half of 10 s (RFC 3376, 8.5).
    bench.now += 254 * SECOND;
    assert_eq!(bench.to("239.9.9.9"), ports(&[2]));
    bench.now += SECOND;
    assert_eq!(bench.to("239.9.9.9"), Destination::All);
}

#[test]
fn the_queriers_own_timers_count() {
    let mut bench = Bench::new(SnoopingConfig { restrict_unknown: true, ..Default::default() });
    // Robustness 3, every 10 s, answers within 2 s.
    bench.pass(2, &igmp("10.0.0.254", "224.0.0.1", &[0x11, 20, 0, 0, 0, 0, 0, 0, 3, 10, 0, 0]));
    bench.pass(0, &join_v2("239.1.1.1"));
    for _ in 0..3 {
        bench.now += 10 * SECOND;
        bench.pass(2, &igmp("10.0.0.254", "224.0.0.1", &[0x11, 20, 0, 0, 0, 0, 0, 0, 3, 10, 0, 0]));
        assert_eq!(bench.to("239.1.1.1"), ports(&[0, 2]));
    }
    bench.now += 2 * SECOND;
    assert_eq!(bench.to("239.1.1.1"), ports(&[2]), "not repeated for 32 s");
    bench.now += 29 * SECOND;
    assert_eq!(bench.to("239.1.1.1"), Destination::All, "no query for 31 s");
}

#[test]
fn who_does_not_answer_a_query_about_a_group_is_no_member() {
    let mut bench = Bench::new(SnoopingConfig::default());
    let about = |flags: u8| {
        igmp("10.0.0.254", "239.1.1.1", &[0x11, 10, 0, 0, 239, 1, 1, 1, flags, 125, 0, 0])
    };
    bench.pass(2, &query_v2("10.0.0.254"));
    for port in [0, 1] {
        bench.pass(port, &join_v2("239.1.1.1"));
    }
    bench.pass(2, &about(8 | 2));
    bench.now += 3 * SECOND;
    assert_eq!(bench.to("239.1.1.1"), ports(&[0, 1, 2]), "timers were to be left alone");
    bench.pass(2, &about(2));
    bench.pass(1, &join_v2("239.1.1.1"));
    bench.now += 2 * SECOND;
    assert_eq!(bench.to("239.1.1.1"), ports(&[1, 2]));
}

#[test]
fn groups_of_the_link_go_everywhere_and_take_no_room() {
    let config = SnoopingConfig { restrict_unknown: true, routers: PortSet::one(3) };
    let mut bench = Bench::new(config);
    bench.pass(2, &query_v2("10.0.0.254"));
    bench.pass(
        2,
        &mld("fe80::254", "ff02::1", &[&[130, 0, 0, 0, 0x27, 0x10, 0, 0][..], &[0; 16]].concat()),
    );
    bench.pass(0, &join_v2("224.0.0.251"));
    bench.pass(0, &report_mld(&[(4, 0, "ff02::fb")]));
    assert_eq!(bench.snooping.sizes(), (0, 0));
    for of in ["224.0.0.1", "224.0.0.251", "ff02::1", "ff02::1:ff00:1", "ff01::1"] {
        assert_eq!(bench.to(of), Destination::All, "{of}");
    }
    for of in ["224.0.1.1", "ff12::1", "ff05::1"] {
        assert_eq!(bench.to(of), ports(&[2, 3]), "{of}: a router that was configured, too");
    }
    let mut broadcast = data("239.1.1.1");
    broadcast[ETHERTYPE..ETHERTYPE + 2].copy_from_slice(&[8, 6]);
    assert_eq!(bench.pass(0, &broadcast), Destination::All);
}

const ETHERTYPE: usize = 12;

#[test]
fn vlans_have_groups_of_their_own() {
    let mut bench = Bench::new(SnoopingConfig::default());
    for vlan in [10, 20] {
        bench.snooping.pass(vlan, 2, &query_v2("10.0.0.254"), bench.now);
    }
    bench.snooping.pass(10, 0, &join_v2("239.1.1.1"), bench.now);
    bench.snooping.pass(20, 1, &join_v2("239.1.1.1"), bench.now);
    let mut to = |vlan| bench.snooping.pass(vlan, 3, &data("239.1.1.1"), bench.now);
    assert_eq!((to(10), to(20), to(30)), (ports(&[0, 2]), ports(&[1, 2]), Destination::All));
}

#[test]
fn a_host_that_joins_everything_takes_only_its_own_ports_room() {
    let mut bench = Bench::new(SnoopingConfig::default());
    bench.pass(2, &query_v2("10.0.0.254"));
    let any = |n: usize| format!("239.7.{}.{}", n / 256, n % 256);
    for n in 0..3 * MOST_MEMBERSHIPS {
        bench.pass(0, &join_v2(&any(n)));
    }
    assert_eq!(bench.snooping.sizes(), (MOST_MEMBERSHIPS, MOST_MEMBERSHIPS));
    assert_eq!(bench.snooping.counters().refused, 2 * MOST_MEMBERSHIPS as u64);
    bench.pass(1, &join_v2("239.1.1.1"));
    assert_eq!(bench.to("239.1.1.1"), ports(&[1, 2]));
    // When they have ended, there is room again.
    bench.now += 261 * SECOND;
    bench.pass(2, &query_v2("10.0.0.254"));
    bench.pass(0, &join_v2("239.1.1.2"));
    assert_eq!(bench.snooping.sizes(), (1, 1));
    assert_eq!(bench.to("239.1.1.2"), ports(&[0, 2]));
}

#[test]
fn messages_with_errors_are_not_believed() {
    let frames = [
        join_v2("239.1.1.1"),
        report_v3(&[(4, 0, "239.1.1.1"), (2, 3, "239.1.1.1")]),
        report_mld(&[(4, 0, "ff05::1"), (2, 3, "ff05::1")]),
    ];
    for frame in frames {
        // The packet alone: its padding may be whatever it is.
        let packet = if frame[12] == 8 { frame.len() - 9 } else { frame.len() };
        for at in 14..packet {
            for bit in 0..8 {
                let mut bench = Bench::new(SnoopingConfig::default());
                let mut changed = frame.clone();
                changed[at] ^= 1 << bit;
                bench.pass(0, &changed);
                // No checksum covers IPv6's first bytes and options.
                let covered = frame[12] == 8 || !matches!(at, 14..22 | 54..62);
                assert!(!covered || bench.snooping.sizes() == (0, 0), "bit {bit} of byte {at}");
            }
        }
        for len in 0..packet {
            let mut bench = Bench::new(SnoopingConfig::default());
            bench.pass(0, &frame[..len]);
            assert_eq!(bench.snooping.sizes(), (0, 0), "{len} bytes of it");
        }
    }
}

#[test]
fn records_longer_than_their_report_are_not_believed() {
    for (count, sources) in [(2, 0), (1, 1), (0xffff, 0), (1, 0xffff)] {
        let [high, low] = u16::to_be_bytes(count);
        let [more, less] = u16::to_be_bytes(sources);
        let message = [0x22, 0, 0, 0, 0, 0, high, low, 4, 0, more, less, 239, 1, 1, 1];
        let mut bench = Bench::new(SnoopingConfig::default());
        bench.pass(0, &igmp("10.0.0.1", "224.0.0.22", &message));
        assert_eq!(bench.snooping.sizes(), (0, 0), "{count} records, {sources} sources");
        assert_eq!(bench.snooping.counters().malformed, 1);
    }
}

#[derive(Clone, Debug)]
enum Event {
    Query,
    Join(usize, u8),
    Leave(usize, u8),
    Wait(u64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        1 => Just(Event::Query),
        4 => (0..3_usize, 0..4_u8).prop_map(|(port, of)| Event::Join(port, of)),
        2 => (0..3_usize, 0..4_u8).prop_map(|(port, of)| Event::Leave(port, of)),
        3 => (0..150_u64).prop_map(Event::Wait),
    ]
}

proptest! {
    /// Beside a model that keeps a time for each port and group, and nothing else.
    #[test]
    fn a_group_goes_where_the_last_word_was_a_join(events in prop::collection::vec(event(), 0..80)) {
        let config = SnoopingConfig { restrict_unknown: true, routers: PortSet::NONE };
        let mut bench = Bench::new(config);
        let start = bench.now;
        let mut until = [[0; 3]; 4];
        let mut querier = 0;
        for event in events {
            let time = (bench.now - start).as_secs();
            match event {
                Event::Query => {
                    bench.pass(3, &query_v2("10.0.0.254"));
                    querier = time + 255;
                }
                Event::Join(port, of) => {
                    bench.pass(port, &join_v2(&format!("239.1.1.{of}")));
                    until[usize::from(of)][port] = time + 260;
                }
                Event::Leave(port, of) => {
                    bench.pass(port, &leave_v2(&format!("239.1.1.{of}")));
                    let until = &mut until[usize::from(of)][port];
                    *until = (time + 2).min(*until);
                }
                Event::Wait(seconds) => bench.now += SECOND * seconds as u32,
            }
            let time = (bench.now - start).as_secs();
            for (of, until) in until.iter().enumerate() {
                let members: PortSet =
                    (0..3).filter(|port| until[*port] > time).chain([3]).collect();
                let expected =
                    if querier > time { Destination::Ports(members) } else { Destination::All };
                prop_assert_eq!(bench.to(&format!("239.1.1.{of}")), expected, "{} s", time);
            }
        }
    }

    #[test]
    fn no_frame_is_too_strange(
        kind in 0..3,
        bytes in prop::collection::vec(any::<u8>(), 0..120),
    ) {
        let mut bench = Bench::new(SnoopingConfig::default());
        let frame = match kind {
            0 => bytes,
            1 if bytes.len() > 3 => igmp("10.0.0.1", "224.0.0.22", &bytes),
            _ => mld("fe80::1", "ff02::16", &bytes),
        };
        bench.pass(0, &frame);
        let (groups, memberships) = bench.snooping.sizes();
        prop_assert!(groups <= memberships && memberships <= MOST_MEMBERSHIPS);
    }
}
