//! Trimmed datagrams, which UDP sockets never show, reach the endpoint by the tap.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use crate::common::{self, Bytes, GUARD, SYMBOL_SIZE, expect, start};
use socket2::{Domain, Protocol, Socket, Type};
use wellspring_core::{Duration, SessionId};
use wellspring_driver::{ReceivePath, TrimTaps};
use wellspring_transport::scdp::Fabric;
use wellspring_wire::scdp::{
    HEADER_LEN, HEADER_WITH_OPTIONS_LEN, Mode, Options, ScdpHeader, Symbol, emit, parse,
};

const SESSION: u32 = 5;

/// The datagram of a source symbol in the initial window of four.
fn datagram(object: &Bytes, esi: u32, number: u32) -> Vec<u8> {
    let info = object.info();
    let options = Options {
        transfer_len: info.transfer_len,
        object_tag: info.object_tag,
        source_blocks: info.source_blocks,
        symbol_size: info.symbol_size,
        mode: Mode::Unicast,
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

#[test]
fn a_trimmed_symbol_is_pulled_again_at_once() {
    let mut config = common::config();
    config.scdp.fabric = Fabric::Trimming;
    config.trim_taps = TrimTaps::Required;
    // Nothing but the trimmed header itself can tell of the loss before the guard gives up.
    config.scdp.initial_rtt = Duration::from_secs(1_000);
    config.scdp.peer_timeout = Duration::from_secs(1_000);
    let raw = match Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::UDP)) {
        Ok(raw) => raw,
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "CI has the right to open raw sockets");
            eprintln!("not checked, raw sockets are not allowed: {error}");
            return;
        }
    };
    let driver = start(config);
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
        sender.send_to(&datagram(&object, esi, number), to).expect("loopback");
    }
    let whole = datagram(&object, 2, 3);
    let header = trimmed(address.port(), to.port(), &whole, HEADER_LEN);
    raw.send_to(&header, &nowhere_else.into()).expect("loopback");

    let mut buffer = [0; 2_048];
    loop {
        let (len, _) = sender.recv_from(&mut buffer).expect("a pull for the trimmed symbol");
        let parsed = parse(&buffer[..len]).expect("ours");
        if matches!(parsed.header, ScdpHeader::Pull(pull) if pull.granted > 4) {
            break;
        }
    }
    assert_eq!(statistics().received.trimmed, 1);
    sender.send_to(&datagram(&object, 2, 5), to).expect("loopback");
    let stats = watch.received();
    assert_eq!(stats.senders[0].trimmed, 1);
    sink.assert_is(&object);
}
