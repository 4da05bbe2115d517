//! Drivers of several loops: the kernel gives each the hosts that are its, and calls go where they are.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::mpsc::channel;

use socket2::{Domain, Socket, Type};
use wellspring_core::{Duration, Rate, SessionId};
use wellspring_driver::protocols::{Driver, Recipients};
use wellspring_driver::socket::{Interface, ReceiveBatch, SocketConfig, UdpSocket};
use wellspring_driver::{
    ControlMessage, DriverConfig, Failure, HandleError, OutgoingControl, StartError, Steering,
};
use wellspring_testkit::wait::wait_until;
use wellspring_wire::scdp::Mode;

use crate::common::{Bytes, Watch, config, expect, send, start, to_one};

const LOOPS: u8 = 3;

/// An address of this machine that is in that loop of three, beyond so many others.
fn in_loop(number: u8, beyond: usize) -> IpAddr {
    let all = (2..=250).map(|last| IpAddr::from([127, 0, 0, last]));
    let mut of_it = all.filter(|ip| Steering::among(LOOPS).of(*ip) == number);
    of_it.nth(beyond).expect("there are enough")
}

fn of_three_loops() -> DriverConfig {
    config().loops(LOOPS).workers(4)
}

fn at(ip: IpAddr) -> DriverConfig {
    let mut config = config();
    config.socket.bind = (ip, 0).into();
    config
}

/// A socket that sends from an address whether or not the machine has it.
fn from(ip: IpAddr) -> io::Result<std::net::UdpSocket> {
    let domain = if ip.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
    let socket = Socket::new(domain, Type::DGRAM, None)?;
    if ip.is_ipv6() {
        socket.set_freebind_v6(true)?;
    }
    socket.bind(&SocketAddr::from((ip, 0)).into())?;
    Ok(socket.into())
}

/// Takes in what has come to a socket: its senders.
fn senders(socket: &UdpSocket, batch: &mut ReceiveBatch) -> Vec<IpAddr> {
    let mut found = Vec::new();
    while socket.receive(batch).is_ok() {
        for received in batch.iter() {
            found.extend(received.datagrams().map(|_| received.from.ip().to_canonical()));
        }
    }
    found
}

#[test]
fn the_kernel_gives_each_socket_the_hosts_that_are_its() {
    let v4 = (2..=60).map(|last| IpAddr::from([127, 0, 0, last]));
    let v6 = (0..60_u128).map(|n| Ipv6Addr::from_bits((0x2001_0db8 << 96) + (n * 0x1_0003_0001)));
    let hosts: Vec<IpAddr> =
        v4.chain([Ipv6Addr::LOCALHOST.into()]).chain(v6.map(IpAddr::from)).collect();
    for (bind, loops) in [("[::]:0", 2), ("[::]:0", 7), ("[::]:0", 64), ("0.0.0.0:0", 3)] {
        let steering = Steering::among(loops);
        let config = SocketConfig::new(bind.parse().expect("an address"));
        let sockets = match UdpSocket::bind_steered(&config, steering) {
            Err(error) if bind.starts_with('[') && no_ipv6(&error) => continue,
            sockets => sockets.expect("bound"),
        };
        assert_eq!(sockets.len(), usize::from(loops));
        let port = sockets[0].local_addr().port();
        let mut sent = vec![Vec::new(); sockets.len()];
        for ip in hosts.iter().filter(|ip| ip.is_ipv4() || bind.starts_with('[')) {
            let to: IpAddr = match ip {
                IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
            };
            // Addresses of other hosts go out by few systems' settings only if they are none's.
            let of_it = from(*ip).and_then(|socket| socket.send_to(b"x", (to, port)));
            if of_it.is_ok() {
                sent[usize::from(steering.of(*ip))].push(*ip);
            } else {
                assert!(ip.is_ipv6(), "{ip}: {of_it:?}");
            }
        }
        let mut batch = ReceiveBatch::default();
        let came: Vec<Vec<IpAddr>> =
            sockets.iter().map(|socket| senders(socket, &mut batch)).collect();
        assert_eq!(came, sent, "{bind}, {loops} loops");
        println!("{bind}, {loops} loops: {:?}", came.iter().map(Vec::len).collect::<Vec<_>>());
    }
}

fn no_ipv6(error: &io::Error) -> bool {
    let missing = [libc::EAFNOSUPPORT, libc::EADDRNOTAVAIL];
    error.raw_os_error().is_some_and(|code| missing.contains(&code))
}

#[test]
fn an_address_is_not_shared_with_another_program() {
    let driver = start(of_three_loops());
    let bound = driver.local_addr();
    for loops in [1, LOOPS] {
        let mut again = config().loops(loops);
        again.socket.bind = bound;
        let error = Driver::start(again, Box::new(|_| true)).expect_err("in use");
        assert!(
            matches!(&error, StartError::System(error) if error.kind() == io::ErrorKind::AddrInUse),
            "{error}"
        );
    }
}

/// Symbols that each loop has kept and has sent.
fn by_loop(driver: &Driver) -> Vec<(u64, u64)> {
    let each = driver.handle().statistics_by_loop().expect("running");
    each.iter().map(|one| (one.received.symbols_kept, one.sent.source_symbols)).collect()
}

#[test]
fn sessions_of_hosts_of_all_loops_run_both_ways_and_are_counted_once() {
    let driver = start(of_three_loops());
    let object = Bytes::random(1_000_000, 5);
    let hosts: Vec<Driver> =
        (0..LOOPS * 2).map(|n| start(at(in_loop(n % LOOPS, usize::from(n / LOOPS))))).collect();
    let mut sessions = Vec::new();
    for (number, host) in (0..).zip(&hosts) {
        let there = driver.local_addr();
        let (of_host, at_host) = expect(host, number, &object, Mode::Unicast, &[there]);
        let (of_driver, here) =
            expect(&driver, 100 + number, &object, Mode::Unicast, &[host.local_addr()]);
        let sending = send(&driver, number, &object, to_one(host.local_addr(), 0, 1));
        let putting = send(host, 100 + number, &object, to_one(there, 0, 1));
        // Known by its number alone, in whatever loop it is.
        driver.handle().wait_for_peers(SessionId(number), Duration::from_secs(20)).expect("runs");
        sessions.push((of_host, at_host, sending));
        sessions.push((of_driver, here, putting));
    }
    for (receiving, sink, sending) in &mut sessions {
        receiving.received();
        sink.assert_is(&object);
        sending.sent();
    }
    let each = by_loop(&driver);
    let symbols = object.0.len().div_ceil(1_400) as u64;
    assert!(each.iter().all(|(kept, sent)| *kept >= 2 * symbols && *sent >= symbols), "{each:?}");
    let all = driver.handle().statistics().expect("running");
    let kept: u64 = each.iter().map(|(kept, _)| kept).sum();
    assert_eq!((all.received.symbols_kept, all.sessions, all.peers), (kept, 0, 0));
    assert_eq!(all.received.strangers, 0, "{all:?}");
}

#[test]
fn accounts_and_ends_of_sessions_are_found_in_whatever_loop_they_are() {
    let driver = start(of_three_loops());
    let object = Bytes::random(100_000, 6);
    let hosts: Vec<SocketAddr> = (0..LOOPS).map(|n| (in_loop(n, 0), 9).into()).collect();
    let mut watches: Vec<Watch> = (0..)
        .zip(&hosts)
        .map(|(number, host)| expect(&driver, number, &object, Mode::Unicast, &[*host]).0)
        .collect();
    let handle = driver.handle();
    let asked = [7, 2, 0, 1].map(SessionId).to_vec();
    let found: Vec<bool> =
        handle.accounts(asked).expect("runs").iter().map(Option::is_some).collect();
    assert_eq!(found, [false, true, true, true]);
    for number in 0..u32::from(LOOPS) {
        let session = SessionId(number);
        assert!(handle.resume_point(session).expect("runs").is_some(), "{number}");
        assert!(handle.receive_stats(session).expect("runs").recv().is_ok(), "{number}");
    }
    assert!(handle.resume_point(SessionId(7)).expect("runs").is_none());
    assert!(handle.receive_stats(SessionId(7)).expect("runs").recv().is_err(), "no such session");
    for (number, watch) in (0..).zip(&mut watches) {
        handle.cancel(SessionId(number)).expect("runs");
        assert!(matches!(watch.failed(), Failure::Cancelled));
    }
    // A session is in one loop.
    let (mut watch, _) = expect(&driver, 9, &object, Mode::ManyToOne, &hosts);
    let refused = watch.failed();
    assert!(format!("{refused:?}").contains("several event loops"), "{refused:?}");
    assert_eq!(handle.statistics().expect("runs").sessions, 0);
}

#[test]
fn no_send_rate_is_taken_and_none_is_kept() {
    let driver = start(of_three_loops());
    let rate = Some(Rate::from_mbps(10));
    assert!(matches!(driver.handle().set_send_rate(rate), Err(HandleError::RateOfLoops)));
    driver.handle().set_send_rate(None).expect("none");
    let error = Driver::start(of_three_loops().send_rate(rate), Box::new(|_| true));
    assert!(matches!(error, Err(StartError::Config(error)) if error.setting == "loops"));
}

#[test]
fn control_messages_come_from_and_go_to_hosts_of_all_loops() {
    let (told, heard) = channel::<ControlMessage>();
    let sink = Box::new(move |message| told.send(message).is_ok());
    let driver = Driver::start(of_three_loops(), sink).expect("loopback");
    let (told, answers) = channel::<ControlMessage>();
    let hosts: Vec<Driver> = (0..LOOPS)
        .map(|number| {
            let told = told.clone();
            let sink = Box::new(move |message| told.send(message).is_ok());
            Driver::start(at(in_loop(number, 1)), sink).expect("loopback")
        })
        .collect();
    for host in &hosts {
        let bytes = vec![0x18, 7, 7];
        let question = OutgoingControl {
            to: driver.local_addr(),
            path: 0,
            port: None,
            local: None,
            class: None,
            bytes,
            via: None,
        };
        host.handle().send_control(question).expect("sent");
        let came = heard.recv_timeout(crate::common::GUARD).expect("a question");
        assert_eq!(came.from, host.local_addr());
        let answer = OutgoingControl::answer(&came, vec![0x19, 1]);
        driver.handle().send_control(answer).expect("sent");
        let answer = answers.recv_timeout(crate::common::GUARD).expect("an answer");
        assert_eq!(answer.from, driver.local_addr());
    }
    let each = driver.handle().statistics_by_loop().expect("runs");
    let control: Vec<_> = each.iter().map(|one| (one.received.control, one.sent.control)).collect();
    assert_eq!(control, [(1, 1); LOOPS as usize]);
}

/// Two hosts of two loops send through one group at one time: each loop takes in its own host's symbols, and does not answer
/// those of the other's, which would end that session.
#[test]
fn a_group_that_hosts_of_two_loops_use_is_joined_in_each() {
    let loopback = Interface::Address(Ipv4Addr::LOCALHOST.into());
    let with_multicast = |mut config: DriverConfig| {
        config.socket.multicast_interface = Some(loopback.clone());
        config
    };
    let driver = start(with_multicast(of_three_loops()));
    let free = std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a port");
    let group = SocketAddr::from((
        Ipv4Addr::new(239, 255, 79, 1),
        free.local_addr().expect("bound").port(),
    ));
    drop(free);
    let object = Bytes::random(2_000_000, 8);
    let hosts = [0, 2].map(|number| start(with_multicast(at(in_loop(number, 2)))));
    let mut sessions: Vec<_> = (0..)
        .zip(&hosts)
        .map(|(number, host)| {
            let joined = driver.handle().join_group((group, host.local_addr()), None);
            joined.expect("multicast on loopback");
            let senders = [host.local_addr()];
            expect(&driver, number, &object, Mode::OneToMany, &senders)
        })
        .collect();
    // Served in turn: both groups are joined then.
    let groups = || driver.handle().statistics_by_loop().expect("runs");
    assert_eq!(groups().iter().map(|one| one.groups).collect::<Vec<_>>(), [1, 0, 1]);
    let mut sending: Vec<Watch> = (0..)
        .zip(&hosts)
        .map(|(number, host)| {
            let members = vec![driver.local_addr()];
            let to = Recipients::Many { group: Some(group), members, held: Vec::new() };
            send(host, number, &object, to)
        })
        .collect();
    for ((receiving, sink), sending) in sessions.iter_mut().zip(&mut sending) {
        receiving.received();
        sink.assert_is(&object);
        sending.sent();
    }
    let all = driver.handle().statistics().expect("runs");
    assert_eq!((all.sent.closes_to_strangers, all.received.strangers), (0, 0), "{all:?}");
    for (left, host) in (1..).zip(&hosts) {
        driver.handle().leave_group(group, host.local_addr()).expect("runs");
        let groups = || driver.handle().statistics().expect("runs").groups;
        wait_until(|| "the group is left", || groups() == 2 - left);
    }
}
