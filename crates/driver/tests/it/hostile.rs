//! Hostile packets, failing disks and wrong bytes against a driver.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, channel};

use socket2::{Domain, Socket, Type};

use crate::common::*;
use wellspring_core::{Seed, SessionId};
use wellspring_driver::protocols::Driver;
use wellspring_driver::socket::Interface;
use wellspring_driver::store::{ObjectSink, ObjectSource};
use wellspring_driver::{ControlMessage, Failure, HandleError, OutgoingControl, SessionEvent};
use wellspring_testkit::wait::wait_until;
use wellspring_trust::{REFUSAL, REFUSAL_LEN};
use wellspring_wire::scdp::{
    Close, CloseReason, Mode, Options, Pull, ScdpHeader, Symbol, emit, parse,
};

/// Datagrams that look more or less like ours.
fn nasty(random: &mut wellspring_core::RandomStream, session: u32) -> Vec<u8> {
    let mut bytes = vec![0; 72 + 1_400];
    let options = Options {
        transfer_len: random.next_u64().max(1),
        object_tag: 0,
        source_blocks: (random.next_u64() as u32).max(1),
        symbol_size: (random.next_u64() as u16).max(1),
        mode: Mode::Unicast,
        initial_window: random.next_u64() as u8,
    };
    let header = match random.below(4) {
        0 => ScdpHeader::Symbol(Symbol {
            sbn: random.below(40) as u32,
            esi: random.below(1 << 24) as u32,
            number: random.next_u64() as u32,
            epoch: random.below(2) as u8,
            priority: 3,
            fin: random.chance(0.5),
            options: random.chance(0.5).then_some(options),
        }),
        1 => ScdpHeader::Pull(Pull {
            sbn: random.below(40) as u32,
            granted: random.next_u64() as u32,
            floor: random.below(40) as u32,
            run: (random.next_u64() as u16).max(1),
            epoch: 0,
            fin: random.chance(0.5),
            first: random.chance(0.5).then(|| random.below(1 << 24) as u32),
        }),
        2 => ScdpHeader::Close(Close {
            reason: CloseReason::Complete,
            from_receiver: random.chance(0.5),
        }),
        _ => {
            for byte in &mut bytes {
                *byte = random.next_u64() as u8;
            }
            bytes.truncate(random.below(1_472) as usize);
            return bytes;
        }
    };
    let len = emit(SessionId(session), &header, &[9; 32], 1_400, &mut bytes);
    bytes.truncate(if random.chance(0.5) { bytes.len() } else { len + random.below(30) as usize });
    bytes
}

#[test]
fn strangers_do_not_disturb_a_transfer_and_get_no_more_than_they_sent() {
    let (from, to) = (start(config()), start(config()));
    let object = Bytes::random(20_000_000, 20);
    let over = Arc::new(AtomicBool::new(false));
    let (addresses, stop) = ([from.local_addr(), to.local_addr()], Arc::clone(&over));
    let stranger = std::thread::spawn(move || {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        socket.set_nonblocking(true).expect("a flag");
        let mut random = Seed(21).stream("nasty");
        let (mut sent, mut came, mut answer) = (0_usize, 0_usize, [0; 2_048]);
        while !stop.load(Relaxed) {
            for address in addresses {
                let bytes = nasty(&mut random, 5);
                sent += bytes.len();
                // A full socket only means that enough is being sent.
                let _ = socket.send_to(&bytes, address);
            }
            while let Ok((len, _)) = socket.recv_from(&mut answer) {
                came += len;
                // Random bytes may look like a handshake, which a host without keys refuses.
                if (len, answer[0]) == (REFUSAL_LEN, REFUSAL) {
                    continue;
                }
                let parsed = parse(&answer[..len]).expect("ours");
                assert!(matches!(parsed.header, ScdpHeader::Close(_)), "{parsed:?}");
            }
            std::thread::yield_now();
        }
        (sent, came)
    });
    let (mut receiving, sink) = expect(&to, 5, &object, Mode::Unicast, &[from.local_addr()]);
    let mut sending = send(&from, 5, &object, to_one(to.local_addr(), 0, 1));
    receiving.received();
    sink.assert_is(&object);
    sending.sent();
    over.store(true, Relaxed);
    let (sent, came) = stranger.join().expect("no panic");
    assert!(came < sent, "{came} bytes for {sent}");
    for driver in [&from, &to] {
        let statistics = driver.handle().statistics().expect("running");
        let (received, sent) = (statistics.received, statistics.sent);
        println!(
            "{received:?}, closes {} ({} withheld)",
            sent.closes_to_strangers, sent.closes_withheld
        );
        assert!(received.strangers > 0 && received.malformed > 0);
        assert_eq!(statistics.peers, 0, "strangers are in no table");
    }
}

/// A disk that fails, or a program that panics.
struct Broken {
    panics: bool,
}

impl ObjectSink for Broken {
    fn write_block(&self, offset: u64, _: &[u8]) -> io::Result<()> {
        assert!(!self.panics, "as the test wants it");
        if offset > 1_000_000 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

impl ObjectSource for Broken {
    fn read_block(&self, offset: u64, block: &mut [u8]) -> io::Result<()> {
        if offset > 1_000_000 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        block.fill(1);
        Ok(())
    }
}

#[test]
fn a_disk_that_fails_ends_the_session_at_both_ends() {
    let (from, to) = (start(config()), start(config()));
    let object = Bytes::random(5_000_000, 22);
    for (session, panics) in [(1, false), (2, true)] {
        let sink = Arc::new(Broken { panics });
        let senders = [from.local_addr()];
        let mut receiving = expect_into(&to, session, &object, Mode::Unicast, &senders, sink);
        let mut sending = send(&from, session, &object, to_one(to.local_addr(), 0, 1));
        match receiving.failed() {
            Failure::Write(error) if !panics => {
                assert_eq!(error.kind(), io::ErrorKind::StorageFull)
            }
            Failure::Write(_) => {}
            other => panic!("{other:?}"),
        }
        // The sender is told by a close; it names the receiver before it ends.
        let last = sending.last();
        assert!(sending.seen.iter().any(|e| e.contains("ReceiverLost")), "{last:?}");
    }
    let (mut receiving, _) = expect(&to, 3, &object, Mode::Unicast, &[from.local_addr()]);
    let (mut sending, events) = Watch::new();
    let request = wellspring_driver::protocols::SendObject {
        session: SessionId(3),
        object: object.info(),
        digest: object.digest(),
        source: Arc::new(Broken { panics: false }),
        to: to_one(to.local_addr(), 0, 1),
        initial_window: WINDOW,
        resume: None,
        key: None,
        priority: wellspring_core::Priority::Normal,
    };
    sending.progress = Some(from.handle().send_object(request, events).expect("running"));
    assert!(matches!(sending.failed(), Failure::Read(_)));
    let failure = receiving.failed();
    assert!(matches!(failure, Failure::Closed(Some(CloseReason::Cancelled))), "{failure}");
    let statistics = to.handle().statistics().expect("running");
    assert_eq!((statistics.sessions, statistics.peers, statistics.receive_memory), (0, 0, 0));
}

#[test]
fn a_sender_of_other_bytes_is_refused_and_named() {
    let (good, bad, to) = (start(config()), start(config()), start(config()));
    let (object, other) = (Bytes::random(3_000_000, 23), Bytes::random(3_000_000, 24));
    let senders = [good.local_addr(), bad.local_addr()];
    let (mut receiving, sink) = expect(&to, 1, &object, Mode::ManyToOne, &senders);
    let mut wrong = send(&bad, 1, &other, to_one(to.local_addr(), 1, 2));
    let announced = loop {
        if let SessionEvent::SenderRefused { sender, announced } = receiving.next() {
            assert_eq!(sender, bad.local_addr());
            break announced;
        }
    };
    assert_eq!(announced, other.digest());
    wrong.last();
    let mut sending = send(&good, 1, &object, to_one(to.local_addr(), 0, 2));
    let stats = receiving.received();
    sink.assert_is(&object);
    sending.sent();
    assert_eq!(stats.senders[1].useful, 0, "{stats:?}");
    assert!(to.handle().statistics().expect("running").received.refused_senders > 0);
}

#[test]
fn cancelling_and_stopping_tell_everyone() {
    let (from, to) = (start(config()), start(config()));
    let object = Bytes::random(50_000_000, 25);
    let (mut receiving, _) = expect(&to, 1, &object, Mode::Unicast, &[from.local_addr()]);
    let mut sending = send(&from, 1, &object, to_one(to.local_addr(), 0, 1));
    to.handle().cancel(SessionId(1)).expect("running");
    assert!(matches!(receiving.failed(), Failure::Cancelled));
    sending.last();
    // The number is free again, and taken only once.
    let (mut receiving, _) = expect(&to, 1, &object, Mode::Unicast, &[from.local_addr()]);
    let mut again = expect(&to, 1, &object, Mode::Unicast, &[from.local_addr()]).0;
    assert!(matches!(again.failed(), Failure::Refused(_)));
    assert_eq!(to.handle().resume_point(SessionId(1)).expect("running").map(|p| p.0), Some(0));
    assert_eq!(to.handle().resume_point(SessionId(2)).expect("running"), None);
    let handle = to.handle();
    to.shut_down();
    assert!(matches!(receiving.failed(), Failure::Stopped));
    assert!(matches!(handle.statistics(), Err(HandleError::Stopped)));
    assert!(matches!(handle.cancel(SessionId(1)), Err(HandleError::Stopped)));
}

#[test]
fn of_what_comes_to_a_group_nothing_but_symbols_is_taken() {
    let loopback = Interface::Address(Ipv4Addr::LOCALHOST.into());
    let configured = || {
        let mut config = config();
        config.socket.multicast_interface = Some(loopback.clone());
        config
    };
    let port = UdpSocket::bind("0.0.0.0:0").and_then(|free| free.local_addr()).expect("bound");
    let group = SocketAddr::from((Ipv4Addr::new(239, 255, 76, 51), port.port()));
    let (sender, messages) = channel::<ControlMessage>();
    let members = [(); 2].map(|()| {
        let sender = sender.clone();
        let control = Box::new(move |m: ControlMessage| sender.send(m).is_ok());
        let driver = Driver::start(configured(), control).expect("loopback");
        driver
            .handle()
            .join_group((group, (Ipv4Addr::LOCALHOST, 1).into()), None)
            .expect("multicast on loopback");
        // Served in turn: the group is joined then.
        assert_eq!(driver.handle().statistics().expect("running").groups, 1);
        driver
    });
    let stranger = Socket::new(Domain::IPV4, Type::DGRAM, None).expect("a socket");
    stranger.set_multicast_if_v4(&Ipv4Addr::LOCALHOST).expect("an option");
    // Requests, beginnings of handshakes, a pull and a close.
    for first in [0x18, 0x1a, 0x1c, 0x11, 0x12] {
        let mut datagram = [0; 500];
        datagram[0] = first;
        stranger.send_to(&datagram, &SocketAddr::into(group)).expect("sent");
    }
    let not_for_groups =
        |driver: &Driver| driver.handle().statistics().expect("running").received.not_for_groups;
    wait_until(|| "the group's datagrams", || members.iter().all(|m| not_for_groups(m) == 5));
    assert!(messages.try_recv().is_err(), "no request of a group is served");
    for member in &members {
        let sent = member.handle().statistics().expect("running").sent;
        assert_eq!(sent.datagrams, 0, "{sent:?}");
    }
}

#[test]
fn control_messages_pass_beside() {
    let (sender, messages) = channel::<ControlMessage>();
    let a = start(config());
    let b = Driver::start(config(), Box::new(move |m| sender.send(m).is_ok())).expect("loopback");
    let message = |bytes: &[u8]| OutgoingControl {
        path: 0,
        port: None,
        to: b.local_addr(),
        local: None,
        class: None,
        bytes: bytes.to_vec(),
        via: None,
    };
    a.handle().send_control(message(b"\x18hello")).expect("running");
    let came = match messages.recv_timeout(GUARD) {
        Ok(came) => came,
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => panic!("nothing came"),
    };
    assert_eq!((came.from, &came.bytes[..]), (a.local_addr(), &b"\x18hello"[..]));
    assert_eq!(came.local, Some(b.local_addr().ip()));
    for bad in [&b"\x10a symbol"[..], b"", &[0x18; 8_973]] {
        assert!(matches!(
            a.handle().send_control(message(bad)),
            Err(HandleError::NotControl { .. })
        ));
    }
    drop(messages);
    a.handle().send_control(message(b"\x1fnobody listens")).expect("running");
    let statistics = a.handle().statistics().expect("running");
    assert_eq!(statistics.sent.control, 2);
}
