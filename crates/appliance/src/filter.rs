//! Socket filters: programs for the kernel's classic packet filter that select a partition's packets.
//!
//! A packet belongs to a partition by its two addresses, whichever way it goes; so both ends of the
//! link cut alike without a word, and both directions of a conversation are seen by one engine.
//! Datagrams between the appliances carry their partition in their UDP port. Those that this site
//! sends are seen by nobody.

use std::net::{IpAddr, SocketAddr};

use libc::sock_filter as Instruction;

const LOAD_BYTE: u16 = 0x30;
const LOAD_HALF: u16 = 0x28;
const LOAD_WORD: u16 = 0x20;
/// Loads a half word at X and a constant.
const LOAD_HALF_INDEXED: u16 = 0x48;
/// X becomes the length of the IPv4 header at a constant.
const INDEX_IPV4: u16 = 0xb1;
const A_TO_X: u16 = 0x07;
const ADD_X: u16 = 0x0c;
const SHIFT_RIGHT: u16 = 0x74;
const MULTIPLY: u16 = 0x24;
const MODULO: u16 = 0x94;
const EQUAL: u16 = 0x15;
const AT_LEAST: u16 = 0x35;
const ANY_BIT: u16 = 0x45;
/// Goes on so many instructions further.
const ALWAYS: u16 = 0x05;
const RETURN: u16 = 0x06;
/// `SKF_AD_OFF + SKF_AD_PKTTYPE`: which way the packet goes.
const PACKET_TYPE_AT: u32 = (-0x1000_i32 + 4) as u32;
/// All of the packet.
const ALL: u32 = 0x4_0000;
const UDP: u32 = 17;
/// More fragments, or not the first.
const FRAGMENT: u32 = 0x3fff;
/// Spreads what differs in few bits (Knuth's multiplicative hash: 2^32 over the golden ratio).
const SPREAD: u32 = 0x9e37_79b1;

/// Takes nothing at all.
pub(crate) fn nothing() -> Vec<Instruction> {
    vec![instruction(RETURN, 0)]
}

/// Groups that a program holds, at most: of IPv6 they just fit into what Linux before 6.7 allows a socket (20 KiB).
pub(crate) const MAX_GROUPS: usize = 40;

/// Takes UDP that comes for one of these groups, [`MAX_GROUPS`] at most.
pub(crate) fn groups(groups: &[IpAddr]) -> Vec<Instruction> {
    let mut code = Assembler::default();
    let [not_ipv4, not_ipv6, ours, other] = [(); 4].map(|()| code.label());
    code.push(LOAD_WORD, PACKET_TYPE_AT);
    code.unless_equal(u32::from(libc::PACKET_MULTICAST), other);
    code.push(LOAD_BYTE, 0);
    code.push(SHIFT_RIGHT, 4);
    for (next, version, protocol_at) in [(not_ipv4, 4, 9), (not_ipv6, 6, 6)] {
        code.unless_equal(version.into(), next);
        code.push(LOAD_BYTE, protocol_at);
        code.unless_equal(UDP, other);
        for &group in groups {
            if_address(&mut code, version, At::Destination, group, ours);
        }
        code.always(other);
        code.place(next);
    }
    code.always(other);
    code.place(ours);
    code.push(RETURN, ALL);
    code.place(other);
    code.push(RETURN, 0);
    code.finish()
}

/// One of so many partitions, between this site and a peer.
#[derive(Clone, Debug)]
pub(crate) struct PartitionFilter {
    pub partition: u8,
    pub partitions: u8,
    /// The other site's appliance; its port is the first partition's.
    pub peer: SocketAddr,
    /// Addresses of this site's appliances, to which the peer's datagrams come.
    pub own: Vec<IpAddr>,
}

impl PartitionFilter {
    /// The program.
    pub(crate) fn program(&self) -> Vec<Instruction> {
        let mut code = Assembler::default();
        let [ipv4, ipv6] = [code.label(), code.label()];
        code.push(LOAD_BYTE, 0);
        code.push(SHIFT_RIGHT, 4);
        code.jump(EQUAL, 4, Some(ipv4), None);
        code.jump(EQUAL, 6, Some(ipv6), None);
        code.push(RETURN, 0);
        code.place(ipv4);
        self.family(&mut code, 4);
        code.place(ipv6);
        self.family(&mut code, 6);
        code.finish()
    }

    /// What is done with a packet of IP version 4 or 6.
    fn family(&self, code: &mut Assembler, version: u8) {
        let [ordinary, leaving, ours] = [code.label(), code.label(), code.label()];
        let first = u32::from(self.peer.port());
        // Only whole UDP datagrams have a port to read.
        code.push(LOAD_BYTE, if version == 4 { 9 } else { 6 });
        code.jump(EQUAL, UDP, None, Some(ordinary));
        if version == 4 {
            code.push(LOAD_HALF, 6);
            code.jump(ANY_BIT, FRAGMENT, Some(ordinary), None);
        }
        let among_ports = |code: &mut Assembler| {
            code.jump(AT_LEAST, first, None, Some(ordinary));
            code.jump(AT_LEAST, first + u32::from(self.partitions), Some(ordinary), None);
        };
        code.push(LOAD_WORD, PACKET_TYPE_AT);
        code.jump(EQUAL, u32::from(libc::PACKET_OUTGOING), Some(leaving), None);
        // Between appliances, if it goes to one.
        load_port(code, version, Port::Destination);
        among_ports(code);
        for &own in &self.own {
            if_address(code, version, At::Destination, own, ours);
        }
        code.always(ordinary);
        code.place(leaving);
        // Wherever the peer may be, it is sent datagrams from the port of their partition, unless this machine translates that.
        let [elsewhere, sent] = [code.label(), code.label()];
        load_port(code, version, Port::Destination);
        code.jump(AT_LEAST, first, None, Some(elsewhere));
        code.jump(AT_LEAST, first + u32::from(self.partitions), Some(elsewhere), None);
        if_address(code, version, At::Destination, self.peer.ip(), sent);
        code.place(elsewhere);
        load_port(code, version, Port::Source);
        among_ports(code);
        for &own in &self.own {
            if_address(code, version, At::Source, own, sent);
        }
        code.always(ordinary);
        code.place(sent);
        code.push(RETURN, 0);
        code.place(ours);
        load_port(code, version, Port::Destination);
        code.take_if(first + u32::from(self.partition));
        code.place(ordinary);
        self.by_addresses(code, version);
    }

    /// Decides by the sum of the addresses, the same whichever is whose. Their XOR would be too: but
    /// where hosts talk to those of their own number, it is the same for all.
    fn by_addresses(&self, code: &mut Assembler, version: u8) {
        let words = if version == 4 { 12..20 } else { 8..40 };
        code.push(LOAD_WORD, words.start);
        for at in words.step_by(4).skip(1) {
            code.push(A_TO_X, 0);
            code.push(LOAD_WORD, at);
            code.push(ADD_X, 0);
        }
        code.push(MULTIPLY, SPREAD);
        code.push(SHIFT_RIGHT, 16);
        code.push(MODULO, u32::from(self.partitions));
        code.take_if(u32::from(self.partition));
    }
}

/// One of a packet's addresses.
#[derive(Clone, Copy)]
enum At {
    Source,
    Destination,
}

/// One of a datagram's ports.
#[derive(Clone, Copy)]
enum Port {
    Source,
    Destination,
}

/// Loads one of a datagram's ports.
fn load_port(code: &mut Assembler, version: u8, port: Port) {
    let at = match port {
        Port::Source => 0,
        Port::Destination => 2,
    };
    if version == 4 {
        code.push(INDEX_IPV4, 0);
        code.push(LOAD_HALF_INDEXED, at);
    } else {
        code.push(LOAD_HALF, 40 + at);
    }
}

/// Goes to `then` if the packet has that address there.
fn if_address(code: &mut Assembler, version: u8, at: At, address: IpAddr, then: Label) {
    let (start, words): (u32, Vec<u32>) = match (address, version) {
        (IpAddr::V4(address), 4) => (12, vec![u32::from(address)]),
        (IpAddr::V6(address), 6) => {
            let octets = address.octets();
            (8, octets.as_chunks::<4>().0.iter().map(|word| u32::from_be_bytes(*word)).collect())
        }
        _ => return,
    };
    let start = match at {
        At::Source => start,
        At::Destination => start + 4 * words.len() as u32,
    };
    let other = code.label();
    for (at, word) in (start..).step_by(4).zip(words) {
        code.push(LOAD_WORD, at);
        code.jump(EQUAL, word, None, Some(other));
    }
    code.always(then);
    code.place(other);
}

/// A place in a program that is yet to come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Label(usize);

/// Writes programs with labels. Jumps go forward; those with a condition not further than 255 instructions.
#[derive(Default)]
struct Assembler {
    code: Vec<(Instruction, [Option<Label>; 2])>,
    /// Where each label is.
    places: Vec<usize>,
}

impl Assembler {
    fn label(&mut self) -> Label {
        self.places.push(usize::MAX);
        Label(self.places.len() - 1)
    }

    fn place(&mut self, label: Label) {
        self.places[label.0] = self.code.len();
    }

    fn push(&mut self, code: u16, k: u32) {
        self.code.push((instruction(code, k), [None; 2]));
    }

    /// A jump where a condition holds, and where it does not; without a label it goes on.
    fn jump(&mut self, code: u16, k: u32, yes: Option<Label>, no: Option<Label>) {
        self.code.push((instruction(code, k), [yes, no]));
    }

    fn always(&mut self, to: Label) {
        self.jump(ALWAYS, 0, Some(to), None);
    }

    /// However far it is, goes there unless what was computed is that.
    fn unless_equal(&mut self, k: u32, to: Label) {
        let equal = self.label();
        self.jump(EQUAL, k, Some(equal), None);
        self.always(to);
        self.place(equal);
    }

    /// Takes the packet if what was computed is that, else not.
    fn take_if(&mut self, k: u32) {
        let no = self.label();
        self.jump(EQUAL, k, None, Some(no));
        self.push(RETURN, ALL);
        self.place(no);
        self.push(RETURN, 0);
    }

    fn finish(self) -> Vec<Instruction> {
        let places = self.places;
        let far = |at: usize, to: Option<Label>| to.map_or(0, |to| places[to.0] - at - 1);
        let near = |at: usize, to: Option<Label>| {
            u8::try_from(far(at, to)).expect("what is decided on is shorter than a jump can be")
        };
        let resolve = |(at, (code, [yes, no])): (usize, (Instruction, [Option<Label>; 2]))| {
            if code.code == ALWAYS {
                return Instruction { k: far(at, yes) as u32, ..code };
            }
            Instruction { jt: near(at, yes), jf: near(at, no), ..code }
        };
        self.code.into_iter().enumerate().map(resolve).collect()
    }
}

fn instruction(code: u16, k: u32) -> Instruction {
    Instruction { code, jt: 0, jf: 0, k }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixDatagram;

    /// Whether the kernel, with the program, lets a packet through. Packets on such sockets count as
    /// coming.
    fn takes(filter: &PartitionFilter, packet: &[u8]) -> bool {
        let (from, to) = UnixDatagram::pair().expect("sockets");
        crate::sys::attach_filter(to.as_fd(), &filter.program()).expect("a program it accepts");
        to.set_nonblocking(true).expect("set");
        from.send(packet).expect("sent");
        to.recv(&mut [0; 2_048]).is_ok_and(|len| len == packet.len())
    }

    fn filters(peer: &str, own: &[&str]) -> Vec<PartitionFilter> {
        let address = |text: &&str| text.parse().expect("an address");
        let one = |partition| PartitionFilter {
            partition,
            partitions: 4,
            peer: peer.parse().expect("an address"),
            own: own.iter().map(address).collect(),
        };
        (0..4).map(one).collect()
    }

    /// Which partition takes a packet: one and no other.
    fn partition(filters: &[PartitionFilter], packet: &[u8]) -> Option<u8> {
        let taken = filters.iter().filter(|filter| takes(filter, packet));
        let taken: Vec<u8> = taken.map(|filter| filter.partition).collect();
        assert!(taken.len() <= 1, "{taken:?}");
        taken.first().copied()
    }

    fn packet(from: &str, to: &str, protocol: u8, port: u16) -> Vec<u8> {
        let (from, to): (IpAddr, IpAddr) = (from.parse().expect("one"), to.parse().expect("one"));
        let mut bytes = match (from, to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let mut bytes = vec![0x45, 0, 0, 28, 0, 0, 0x40, 0, 64, protocol, 0, 0];
                bytes.extend(from.octets());
                bytes.extend(to.octets());
                bytes
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let mut bytes = vec![0x60, 0, 0, 0, 0, 8, protocol, 64];
                bytes.extend(from.octets());
                bytes.extend(to.octets());
                bytes
            }
            _ => panic!("one family"),
        };
        bytes.extend(4_000_u16.to_be_bytes());
        bytes.extend(port.to_be_bytes());
        bytes.extend([0, 8, 0, 0]);
        bytes
    }

    #[test]
    fn every_packet_has_one_partition_whichever_way_it_goes() {
        let filters = filters("192.0.2.2:4714", &["192.0.2.1"]);
        let mut counts = [0; 4];
        for n in 0..200_u32 {
            let (a, b) = (format!("10.1.0.{}", n % 16), format!("10.2.{}.{}", n / 100, n % 100));
            let there = partition(&filters, &packet(&a, &b, 6, 80)).expect("a partition");
            assert_eq!(partition(&filters, &packet(&b, &a, 17, 4_715)), Some(there));
            counts[usize::from(there)] += 1;
            let (a, b) = (format!("fd01::{n:x}"), format!("fd02::{:x}:7", n % 7));
            let there = partition(&filters, &packet(&a, &b, 6, 80)).expect("a partition");
            assert_eq!(partition(&filters, &packet(&b, &a, 17, 4_714)), Some(there));
        }
        assert!(counts.iter().all(|count| (35..=65).contains(count)), "{counts:?}");
        // Each host talks to the one of its own number at the other site.
        let mut counts = [0; 4];
        for n in 0..200 {
            let of =
                partition(&filters, &packet(&format!("10.1.0.{n}"), &format!("10.2.0.{n}"), 6, 80));
            counts[usize::from(of.expect("a partition"))] += 1;
        }
        assert!(counts.iter().all(|count| (35..=65).contains(count)), "{counts:?}");
        for nothing in [&[][..], &[0x45], &[0x10; 60], &[0x45; 19]] {
            assert_eq!(partition(&filters, nothing), None);
        }
    }

    /// What a program that takes groups says of a multicast packet; the kernel's sockets that a test can have see none.
    fn takes_multicast(program: &[Instruction], packet: &[u8]) -> bool {
        let (mut value, mut at) = (0, 0);
        loop {
            let Instruction { code, jt, jf, k } = program[at];
            let bytes = |len: usize| {
                packet[k as usize..][..len].iter().fold(0, |n, &b| n << 8 | u32::from(b))
            };
            at += 1;
            match code {
                LOAD_WORD if k == PACKET_TYPE_AT => value = u32::from(libc::PACKET_MULTICAST),
                LOAD_WORD => value = bytes(4),
                LOAD_BYTE => value = bytes(1),
                SHIFT_RIGHT => value >>= k,
                EQUAL => at += usize::from(if value == k { jt } else { jf }),
                ALWAYS => at += k as usize,
                RETURN => return k > 0,
                other => panic!("{other:#x} is not among them"),
            }
        }
    }

    #[test]
    fn as_many_groups_as_there_may_be_are_taken_and_no_others() {
        let group = |v4: bool, n: usize| {
            if v4 { format!("239.1.2.{n}") } else { format!("ff05::1:2:{n:x}") }
        };
        for v4 in [0, MAX_GROUPS / 2, MAX_GROUPS] {
            let all: Vec<String> = (0..MAX_GROUPS).map(|n| group(n < v4, n)).collect();
            let all: Vec<IpAddr> = all.iter().map(|g| g.parse().expect("an address")).collect();
            let program = groups(&all);
            let (_, to) = UnixDatagram::pair().expect("sockets");
            crate::sys::attach_filter(to.as_fd(), &program).expect("a program it accepts");
            for n in 0..MAX_GROUPS {
                let from = if n < v4 { "10.1.0.1" } else { "fd00::1" };
                let there = |protocol| packet(from, &group(n < v4, n), protocol, 5_000);
                assert!(takes_multicast(&program, &there(17)), "{n} of {v4}");
                assert!(!takes_multicast(&program, &there(6)));
            }
            let beside = [("10.1.0.1", "239.1.2.250"), ("fd00::1", "ff05::1:2:fa")];
            assert!(
                beside
                    .iter()
                    .all(|(from, to)| !takes_multicast(&program, &packet(from, to, 17, 1)))
            );
        }
    }

    #[test]
    fn datagrams_of_the_peer_go_where_their_port_says() {
        for (peer, own, from) in [
            ("192.0.2.2:4714", &["192.0.2.1", "192.0.2.9"][..], "192.0.2.3"),
            ("[fd00::2]:4714", &["fd00::1", "fd00::9"], "fd00::3"),
        ] {
            let filters = filters(peer, own);
            for to in own {
                for k in 0..4 {
                    let datagram = packet(from, to, 17, 4_714 + u16::from(k));
                    assert_eq!(partition(&filters, &datagram), Some(k));
                }
                // Beside the ports, or of another protocol: by the addresses.
                let by_address = partition(&filters, &packet(from, to, 17, 4_718));
                assert_eq!(partition(&filters, &packet(from, to, 17, 4_713)), by_address);
                assert_eq!(partition(&filters, &packet(from, to, 6, 4_714)), by_address);
                let mut fragment = packet(from, to, 17, 4_714);
                if from.contains('.') {
                    fragment[6] = 0x20;
                    assert_eq!(partition(&filters, &fragment), by_address);
                }
            }
        }
    }
}
