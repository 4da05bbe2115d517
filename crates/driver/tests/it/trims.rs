//! Trimmed datagrams, which UDP sockets never show, reach the endpoint by the tap.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use crate::common::{self, Bytes, GUARD, SYMBOL_SIZE, expect, start};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use wellspring_core::{Duration, SessionId};
use wellspring_driver::socket::Interface;
use wellspring_driver::{DriverConfig, ReceivePath, TrimTaps};
use wellspring_transport::scdp::Fabric;
use wellspring_wire::scdp::{
    HEADER_LEN, HEADER_WITH_OPTIONS_LEN, Mode, Options, Pull, ScdpHeader, Symbol, emit, parse,
};

const SESSION: u32 = 5;

/// The datagram of a source symbol in the initial window of four.
fn datagram(object: &Bytes, mode: Mode, esi: u32, number: u32) -> Vec<u8> {
    let info = object.info();
    let options = Options {
        transfer_len: info.transfer_len,
        object_tag: info.object_tag,
        source_blocks: info.source_blocks,
        symbol_size: info.symbol_size,
        mode,
        initial_window: 4,
    };
    let options = (number <= 4).then_some(options);
    let symbol = Symbol { sbn: 0, esi, number, epoch: 0, priority: 1, fin: false, options };
    let mut bytes = vec![0; HEADER_WITH_OPTIONS_LEN];
    let header = ScdpHeader::Symbol(symbol);
    let len = emit(SessionId(SESSION), &header, &object.digest(), SYMBOL_SIZE, &mut bytes);
    bytes.truncate(len);
    let start = esi as usize * usize::from(SYMBOL_SIZE);
    bytes.extend_from_slice(&object.0[start..start + usize::from(SYMBOL_SIZE)]);
    bytes
}

/// What a trimming switch leaves of a datagram: IP's length mended, UDP's as it was.
fn trimmed(from: u16, to: u16, datagram: &[u8], kept: usize) -> Vec<u8> {
    let announced = 8 + datagram.len() as u16;
    let mut bytes: Vec<u8> =
        [from, to, announced, 0].iter().flat_map(|field| field.to_be_bytes()).collect();
    bytes.extend_from_slice(&datagram[..kept]);
    bytes
}

/// A raw socket, to send what a trimming switch leaves; `None` where they are not allowed.
fn raw_socket() -> Option<Socket> {
    match Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::UDP)) {
        Ok(raw) => Some(raw),
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "CI has the right to open raw sockets");
            eprintln!("not checked, raw sockets are not allowed: {error}");
            None
        }
    }
}

/// A driver that learns of a loss by nothing but the trimmed header itself, before the guard gives up.
fn trimming() -> DriverConfig {
    let mut config = common::config();
    config.scdp.fabric = Fabric::Trimming;
    config.trim_taps = TrimTaps::Required;
    config.scdp.initial_rtt = Duration::from_secs(1_000);
    config.scdp.min_timeout = Duration::from_secs(1_000);
    config.scdp.peer_timeout = Duration::from_secs(10_000);
    config.scdp.stragglers.judge_over = Duration::from_secs(4_000);
    config
}

/// Waits for the first pull that `asks`.
fn wait_for_pull(sender: &UdpSocket, asks: impl Fn(&Pull) -> bool) {
    let mut buffer = [0; 2_048];
    loop {
        let (len, _) = sender.recv_from(&mut buffer).expect("a pull for the trimmed symbol");
        let parsed = parse(&buffer[..len]).expect("ours");
        if matches!(&parsed.header, ScdpHeader::Pull(pull) if asks(pull)) {
            return;
        }
    }
}

#[test]
fn a_trimmed_symbol_is_pulled_again_at_once() {
    let Some(raw) = raw_socket() else { return };
    let driver = start(trimming());
    let statistics = || driver.handle().statistics().expect("running");
    assert_eq!(statistics().receive_path, ReceivePath::SocketAndTap);

    let object = Bytes::random(4 * usize::from(SYMBOL_SIZE), 1);
    let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback");
    sender.set_read_timeout(Some(GUARD)).expect("a timeout");
    let address = sender.local_addr().expect("bound");
    let (mut watch, sink) = expect(&driver, SESSION, &object, Mode::Unicast, &[address]);

    // The session is there before anything for it arrives: who reads the statistics waits for calls before that.
    assert_eq!(statistics().received.trimmed, 0);
    let to = driver.local_addr();
    let nowhere_else = SocketAddr::new(to.ip(), 0);
    for (esi, number) in [(0, 1), (1, 2), (3, 4)] {
        sender.send_to(&datagram(&object, Mode::Unicast, esi, number), to).expect("loopback");
    }
    let whole = datagram(&object, Mode::Unicast, 2, 3);
    let header = trimmed(address.port(), to.port(), &whole, HEADER_LEN);
    raw.send_to(&header, &nowhere_else.into()).expect("loopback");

    wait_for_pull(&sender, |pull| pull.granted > 4);
    assert_eq!(statistics().received.trimmed, 1);
    sender.send_to(&datagram(&object, Mode::Unicast, 2, 5), to).expect("loopback");
    let stats = watch.received();
    assert_eq!(stats.senders[0].trimmed, 1);
    sink.assert_is(&object);
}

/// A group has a port of its own, and switches that trim multicast leave headers there.
#[test]
fn a_symbol_of_a_group_that_was_trimmed_is_asked_for_at_once() {
    let Some(raw) = raw_socket() else { return };
    let loopback = Interface::Address(Ipv4Addr::LOCALHOST.into());
    let mut config = trimming();
    config.socket.multicast_interface = Some(loopback);
    let driver = start(config);
    let statistics = || driver.handle().statistics().expect("running");
    let free = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a port");
    let port = free.local_addr().expect("bound").port();
    drop(free);
    let groups = [91, 92].map(|last| SocketAddr::from((Ipv4Addr::new(239, 255, 78, last), port)));
    for group in groups {
        driver
            .handle()
            .join_group((group, (Ipv4Addr::LOCALHOST, 1).into()), None)
            .expect("multicast on loopback");
    }

    let object = Bytes::random(4 * usize::from(SYMBOL_SIZE), 2);
    let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback");
    sender.set_read_timeout(Some(GUARD)).expect("a timeout");
    SockRef::from(&sender).set_multicast_if_v4(&Ipv4Addr::LOCALHOST).expect("an option");
    raw.set_multicast_if_v4(&Ipv4Addr::LOCALHOST).expect("an option");
    let address = sender.local_addr().expect("bound");
    let (mut watch, sink) = expect(&driver, SESSION, &object, Mode::OneToMany, &[address]);
    let symbol = |esi, number| datagram(&object, Mode::OneToMany, esi, number);

    // The taps of the groups are open, too, when the loop has come past the calls before this one.
    assert_eq!(statistics().received.trimmed, 0);
    for (esi, number) in [(0, 1), (1, 2), (3, 4)] {
        sender.send_to(&symbol(esi, number), groups[0]).expect("multicast on loopback");
    }
    let header = trimmed(address.port(), port, &symbol(2, 3), HEADER_LEN);
    let group = SocketAddr::new(groups[0].ip(), 0);
    raw.send_to(&header, &group.into()).expect("multicast on loopback");

    // K symbols of the block are sent unasked; this asks for more of them.
    wait_for_pull(&sender, |pull| pull.granted > 4 && pull.run > 4);
    assert_eq!(statistics().received.trimmed, 1, "once, though two groups have that port");
    sender.send_to(&symbol(2, 5), groups[0]).expect("multicast on loopback");
    let stats = watch.received();
    assert_eq!(stats.senders[0].trimmed, 1);
    sink.assert_is(&object);
}
