//! The socket module on this machine's loopback. What the system does not offer is said plainly.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use wellspring_driver::socket::{
    Interface, MAX_SEGMENTS, Outgoing, ReceiveBatch, SocketConfig, UdpSocket,
};

const GUARD: std::time::Duration = std::time::Duration::from_secs(5);

/// What one datagram brought.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Came {
    from: SocketAddr,
    local: Option<IpAddr>,
    dscp: u8,
    ecn: u8,
    bytes: Vec<u8>,
}

/// Receives until `count` datagrams came or the guard's time is over.
fn receive(socket: &UdpSocket, count: usize) -> Vec<Came> {
    receive_counting(socket, count, &mut 0)
}

fn receive_counting(socket: &UdpSocket, count: usize, batches: &mut usize) -> Vec<Came> {
    let mut poll = Poll::new().expect("poll");
    let fd = socket.as_raw_fd();
    poll.registry().register(&mut SourceFd(&fd), Token(0), Interest::READABLE).expect("register");
    let (mut events, mut batch) = (Events::with_capacity(4), ReceiveBatch::default());
    let mut came = Vec::new();
    while came.len() < count {
        match socket.receive(&mut batch) {
            Ok(_) => {
                for received in batch.iter() {
                    *batches += 1;
                    came.extend(received.datagrams().map(|bytes| Came {
                        from: received.from,
                        local: received.local,
                        dscp: received.dscp,
                        ecn: received.ecn,
                        bytes: bytes.to_vec(),
                    }));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                poll.poll(&mut events, Some(GUARD)).expect("poll");
                if events.is_empty() {
                    break;
                }
            }
            Err(error) => panic!("receive: {error}"),
        }
    }
    came
}

fn open(address: &str) -> Option<UdpSocket> {
    open_with(&SocketConfig::new(address.parse().expect("an address")))
}

fn open_with(config: &SocketConfig) -> Option<UdpSocket> {
    match UdpSocket::bind(config) {
        Ok(socket) => Some(socket),
        Err(error) if config.bind.is_ipv6() => {
            println!("not available: IPv6 ({error})");
            None
        }
        Err(error) => panic!("bind {}: {error}", config.bind),
    }
}

fn numbered(count: usize, len: usize) -> Vec<u8> {
    (0..count * len).map(|i| (i / len) as u8 ^ (i % len) as u8).collect()
}

fn batch_arrives_intact(from: &UdpSocket, to: &UdpSocket, address: SocketAddr) {
    println!(
        "{address}: segmentation {}, coalescing {}",
        if from.segmentation() { "on" } else { "not available" },
        if to.coalescing() { "on" } else { "not available" },
    );
    for (count, len, last) in [(1, 1, 1), (1, 1400, 1400), (46, 1413, 1413), (64, 1000, 7)] {
        assert!(count <= MAX_SEGMENTS);
        let mut bytes = numbered(count, len);
        bytes.truncate((count - 1) * len + last);
        let outgoing =
            Outgoing { to: address, local: None, dscp: 10, ecn: 1, segment: len, bytes: &bytes };
        assert_eq!(from.send(&[outgoing]).expect("send"), 1);
        let mut batches = 0;
        let came = receive_counting(to, count, &mut batches);
        assert!(!(from.segmentation() && to.coalescing()) || batches == 1, "cut up on the way");
        let sent: Vec<_> = bytes.chunks(len).collect();
        assert_eq!(came.iter().map(|c| &c.bytes[..]).collect::<Vec<_>>(), sent);
        for came in came {
            assert_eq!((came.dscp, came.ecn), (10, 1));
            assert_eq!(came.from.port(), from.local_addr().port());
            assert_eq!(came.from.ip(), address.ip());
            assert_eq!(came.local, Some(address.ip()));
        }
    }
}

#[test]
fn batches_arrive_intact_with_their_traffic_class() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let (Some(from), Some(to)) = (open(address), open(address)) else { continue };
        batch_arrives_intact(&from, &to, to.local_addr());
        let plain = SocketConfig::new(address.parse().expect("an address")).offload(false);
        let (Some(from), Some(to)) = (open_with(&plain), open_with(&plain)) else { continue };
        assert!(!from.segmentation() && !to.coalescing());
        batch_arrives_intact(&from, &to, to.local_addr());
    }
}

#[test]
fn a_dual_socket_speaks_both_families() {
    let Some(dual) = open("[::]:0") else { return };
    let port = dual.local_addr().port();
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let Some(peer) = open(address) else { continue };
        let at = SocketAddr::new(peer.local_addr().ip(), port);
        batch_arrives_intact(&peer, &dual, at);
        let back = Outgoing {
            to: peer.local_addr(),
            local: Some(at.ip()),
            dscp: 46,
            ecn: 2,
            segment: 2,
            bytes: b"to and fro",
        };
        assert_eq!(dual.send(&[back]).expect("send"), 1);
        let came = receive(&peer, 5);
        assert_eq!(came.iter().flat_map(|c| c.bytes.clone()).collect::<Vec<_>>(), b"to and fro");
        assert!(came.iter().all(|c| c.from == at && c.dscp == 46 && c.ecn == 2));
    }
    assert!(dual.reaches(&"192.0.2.1:1".parse().expect("an address")));
}

#[test]
fn plain_sockets_speak_with_those_of_linux() {
    let config = |address: &str| SocketConfig::new(address.parse().expect("an address"));
    for address in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
        let plain = open_with(&config(address).plain(true));
        let (Some(plain), Some(full)) = (plain, open(address)) else { continue };
        assert!(!plain.segmentation() && !plain.coalescing());
        for (from, to) in [(&plain, &full), (&full, &plain), (&plain, &plain)] {
            // A socket of all addresses is reached at one of them, of either family.
            let mut at = to.local_addr();
            if at.ip().is_unspecified() {
                at.set_ip([127, 0, 0, 1].into());
            }
            let bytes = numbered(30, 1_000);
            let outgoing =
                Outgoing { to: at, local: None, dscp: 10, ecn: 1, segment: 1_000, bytes: &bytes };
            assert_eq!(from.send(&[outgoing]).expect("send"), 1);
            let came = receive(to, 30);
            assert_eq!(came.iter().flat_map(|c| c.bytes.clone()).collect::<Vec<_>>(), bytes);
            let port = from.local_addr().port();
            assert!(
                came.iter().all(|c| c.from.port() == port && c.from.ip() == at.ip()),
                "{came:?}"
            );
        }
    }
}

#[test]
fn several_batches_go_out_in_order_by_one_call() {
    let (from, to) = (open("127.0.0.1:0").expect("IPv4"), open("127.0.0.1:0").expect("IPv4"));
    let payload = numbered(8, 100);
    let batch = |n: usize| Outgoing {
        to: to.local_addr(),
        local: None,
        dscp: n as u8,
        ecn: 0,
        segment: 100,
        bytes: &payload[..100 * n],
    };
    let batches: Vec<_> = (1..=8).map(batch).collect();
    let mut sent = 0;
    while sent < batches.len() {
        sent += from.send(&batches[sent..]).expect("send");
    }
    let came = receive(&to, 36);
    let classes: Vec<_> = came.iter().map(|c| c.dscp).collect();
    let expected: Vec<_> = (1..=8_u8).flat_map(|n| vec![n; usize::from(n)]).collect();
    assert_eq!(classes, expected);
}

#[test]
fn a_port_where_nobody_listens_is_no_error() {
    let from = open("127.0.0.1:0").expect("IPv4");
    let gone = open("127.0.0.1:0").expect("IPv4").local_addr();
    for _ in 0..3 {
        let outgoing = Outgoing { to: gone, local: None, dscp: 0, ecn: 0, segment: 1, bytes: b"x" };
        assert_eq!(from.send(&[outgoing]).expect("send"), 1);
    }
    let mut batch = ReceiveBatch::default();
    let nothing = from.receive(&mut batch).expect_err("nothing was sent here");
    assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
}

#[test]
fn buffers_are_granted_and_reported() {
    let config = SocketConfig::new("127.0.0.1:0".parse().expect("an address"))
        .receive_buffer(1 << 20)
        .send_buffer(1 << 20);
    let socket = UdpSocket::bind(&config).expect("bind");
    let (receive, send) =
        (socket.receive_buffer().expect("readable"), socket.send_buffer().expect("readable"));
    println!("asked for 1 MiB: receive buffer {receive}, send buffer {send}");
    assert!(receive > 0 && send > 0);
}

#[test]
fn multicast_reaches_every_member_on_this_host() {
    for (group, interface, own) in [
        ("239.255.77.1:0", "127.0.0.1", "0.0.0.0:0"),
        ("239.255.77.2:0", "127.0.0.1", "[::]:0"),
        ("[ff05::7701]:0", "lo", "[::]:0"),
    ] {
        let interface: Interface = interface.parse().expect("an interface");
        let mut group: SocketAddr = group.parse().expect("an address");
        let config = SocketConfig::new(own.parse().expect("an address"))
            .multicast_interface(Some(interface.clone()));
        let Some(sender) = open_with(&config) else { continue };
        // A port of the group's own: one bound by an ordinary socket cannot be shared.
        group.set_port(open(own).expect("opened above").local_addr().port());
        let members: io::Result<Vec<_>> =
            (0..3).map(|_| UdpSocket::bind_group(&config, group, Some(&interface))).collect();
        let members = match members {
            Ok(members) => members,
            Err(error) => {
                println!("not available: multicast to {group} on {interface} ({error})");
                continue;
            }
        };
        let bytes = numbered(20, 1200);
        let outgoing =
            Outgoing { to: group, local: None, dscp: 12, ecn: 0, segment: 1200, bytes: &bytes };
        if let Err(error) = sender.send(&[outgoing]) {
            println!("not available: multicast to {group} on {interface} ({error})");
            continue;
        }
        for member in &members {
            let came = receive(member, 20);
            assert_eq!(came.iter().flat_map(|c| c.bytes.clone()).collect::<Vec<_>>(), bytes);
            assert!(came.iter().all(|c| c.dscp == 12 && c.local == Some(group.ip())));
        }
        println!("multicast to {group} on {interface}: 3 members got 20 datagrams each");
        members[0].leave(group.ip(), Some(&interface)).expect("was a member");
    }
}

#[test]
fn what_is_no_group_is_refused() {
    let config = SocketConfig::new((Ipv6Addr::UNSPECIFIED, 0).into());
    for address in ["127.0.0.1:9", "239.1.1.1:0"] {
        let address = address.parse().expect("an address");
        let error = UdpSocket::bind_group(&config, address, None).expect_err("no group");
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
    let nowhere = Interface::Name("nosuch0".to_owned());
    assert_eq!(nowhere.index().expect_err("no such").kind(), io::ErrorKind::NotFound);
}
