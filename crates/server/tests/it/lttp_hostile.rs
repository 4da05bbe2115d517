//! LTTP's server against who does not play by the rules: raw sockets instead of a client.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use crate::runtime;
use wellspring_core::DropReason;
use wellspring_server::driver::Statistics;
use wellspring_server::{Server, ServerConfig};
use wellspring_testkit::wait::wait_until;
use wellspring_wire::control::{Name, RefusalCode};
use wellspring_wire::lttp::{
    Cookie, Datagram, Geometry, MESSAGE_HEADER_LEN, Message, emit, emit_message, message_kind,
    parse, parse_message,
};

/// What no answer here should take: a guard, not a measure.
const GUARD: Duration = Duration::from_secs(60);

struct Served {
    /// The server's tasks end with it.
    _runtime: tokio::runtime::Runtime,
    server: Server,
    _folder: tempfile::TempDir,
}

/// A server of `object`, 5,000 bytes.
fn serve() -> Served {
    serve_with(|_| {})
}

fn serve_with(change: impl FnOnce(&mut ServerConfig)) -> Served {
    let folder = tempfile::tempdir().expect("temporary directory");
    std::fs::write(folder.path().join("object"), [7; 5_000]).expect("write");
    let runtime = runtime();
    let bind = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
    let mut config = ServerConfig::new(bind, folder.path().to_owned());
    change(&mut config);
    let server = runtime.block_on(Server::bind(config)).expect("a server");
    Served { _runtime: runtime, server, _folder: folder }
}

/// A control channel by hand.
struct Connection(TcpStream);

impl Connection {
    fn open(served: &Served) -> Connection {
        let stream = TcpStream::connect(served.server.local_addr()).expect("connects");
        stream.set_read_timeout(Some(GUARD)).expect("set");
        Connection(stream)
    }

    fn say(&mut self, message: &Message<'_>) {
        let mut bytes = Vec::new();
        emit_message(message, &mut bytes);
        self.0.write_all(&bytes).expect("written");
    }

    /// The next message's kind and body.
    fn hear(&mut self) -> (u8, Vec<u8>) {
        let mut header = [0; MESSAGE_HEADER_LEN];
        self.0.read_exact(&mut header).expect("an answer");
        let (kind, len) = message_kind(header).expect("a message");
        let mut body = vec![0; len];
        self.0.read_exact(&mut body).expect("a body");
        (kind, body)
    }

    fn request_of(&mut self, name: &str, offset: u64, len: u64, block_symbols: u32) {
        let geometry = Geometry::new(1_000, block_symbols).expect("possible");
        let name = Name::new(name).expect("a name for the wire");
        let digest = *blake3::hash(&[7; 5_000]).as_bytes();
        self.say(&Message::Request { name, digest, offset, len, geometry, timeout_ms: 0 });
    }

    /// Asks for a part; whether it is granted, or why not.
    fn request(&mut self, offset: u64, len: u64, block_symbols: u32) -> Result<Cookie, String> {
        self.request_of("object", offset, len, block_symbols);
        self.answer()
    }

    /// The answer, once the digest is known.
    fn answer(&mut self) -> Result<Cookie, String> {
        loop {
            let (kind, body) = self.hear();
            match parse_message(kind, &body).expect("a message") {
                Message::Pending { .. } => {}
                Message::Granted { cookie, .. } => return Ok(cookie),
                Message::Refused { text, .. } => return Err(text.to_owned()),
                other => panic!("{other:?}"),
            }
        }
    }

    /// Has the whole object granted.
    fn granted(&mut self) -> Cookie {
        self.request(0, 5_000, 5).expect("granted")
    }

    fn is_closed(&mut self) -> bool {
        matches!(self.0.read(&mut [0]), Ok(0) | Err(_))
    }
}

fn udp(at: Ipv4Addr) -> UdpSocket {
    let socket = UdpSocket::bind((at, 0)).expect("a socket");
    socket.set_read_timeout(Some(GUARD)).expect("set");
    socket
}

fn send(socket: &UdpSocket, served: &Served, cookie: Cookie, datagram: &Datagram<'_>) {
    let mut bytes = Vec::new();
    emit(cookie, datagram, &mut bytes);
    socket.send_to(&bytes, served.server.local_addr()).expect("sent");
}

fn statistics(served: &Served) -> Statistics {
    served.server.statistics().expect("running")
}

fn unknown_sessions(statistics: &Statistics) -> u64 {
    statistics.received.dropped.get(&DropReason::UnknownSession).copied().unwrap_or(0)
}

/// What the protocol did not use.
fn dropped(statistics: &Statistics) -> u64 {
    statistics.received.dropped.values().sum()
}

/// Waits until the server has counted what `count` looks at.
fn wait_for(served: &Served, count: impl Fn(&Statistics) -> u64, least: u64) {
    let counted = || statistics(served);
    wait_until(|| format!("{:?}", counted()), || count(&counted()) >= least);
}

#[test]
fn symbols_go_to_who_has_the_cookie_and_the_address_and_to_nobody_else() {
    let served = serve();
    let mut connection = Connection::open(&served);
    let cookie = connection.granted();
    // Another host with the right cookie: the loopback network has many.
    let elsewhere = udp(Ipv4Addr::new(127, 0, 0, 9));
    send(&elsewhere, &served, cookie, &Datagram::Hello);
    wait_for(&served, |s| s.received.strangers, 1);
    // The right host with another cookie.
    let socket = udp(Ipv4Addr::LOCALHOST);
    send(&socket, &served, Cookie(cookie.0 ^ 1), &Datagram::Hello);
    wait_for(&served, unknown_sessions, 1);
    assert_eq!(statistics(&served).sent.datagrams, 0, "not a symbol to either");
    // And both right.
    send(&socket, &served, cookie, &Datagram::Hello);
    let mut bytes = [0; 2_000];
    let len = socket.recv(&mut bytes).expect("a symbol");
    let (named, symbol) = parse(&bytes[..len]).expect("a datagram");
    assert_eq!(named, cookie);
    assert!(matches!(symbol, Datagram::Symbol { sbn: 0, esi: 0, .. }), "{symbol:?}");
    // Once it is known, another port of the same host is a stranger.
    let port = udp(Ipv4Addr::LOCALHOST);
    send(&port, &served, cookie, &Datagram::Hello);
    wait_for(&served, |s| s.received.strangers, 2);
}

#[test]
fn the_end_of_the_connection_ends_the_session() {
    let served = serve();
    let mut connection = Connection::open(&served);
    let cookie = connection.granted();
    let socket = udp(Ipv4Addr::LOCALHOST);
    send(&socket, &served, cookie, &Datagram::Hello);
    let _ = socket.recv(&mut [0; 2_000]).expect("a symbol");
    drop(connection);
    // The cookie is good until the server has noticed.
    wait_until(
        || "the session goes on",
        || {
            send(&socket, &served, cookie, &Datagram::Hello);
            unknown_sessions(&statistics(&served)) > 0
        },
    );
}

#[test]
fn datagrams_that_make_no_sense_are_counted_and_dropped() {
    let served = serve();
    let mut connection = Connection::open(&served);
    let cookie = connection.granted();
    let socket = udp(Ipv4Addr::LOCALHOST);
    let to = served.server.local_addr();
    for noise in [&[0xf7; 3][..], &[0x13; 1_400], b"GET / HTTP/1.1\r\n\r\n"] {
        socket.send_to(noise, to).expect("sent");
    }
    wait_for(&served, |s| s.received.malformed, 3);
    send(&socket, &served, cookie, &Datagram::Hello);
    let _ = socket.recv(&mut [0; 2_000]).expect("a symbol");
    // Reports from the future, and symbols for who sends them.
    let report = Datagram::Report {
        echo: wellspring_core::Time::from_picos(u64::MAX / 2 - 1),
        delay: wellspring_core::Duration::ZERO,
        receive_rate: u64::MAX,
        loss_event_rate: u32::MAX,
    };
    send(&socket, &served, cookie, &report);
    let (number, rtt) = (0, wellspring_core::Duration::ZERO);
    let sent = wellspring_core::Time::ZERO;
    let symbol = Datagram::Symbol { sbn: 9, esi: 9, number, sent, rtt, payload: b"x" };
    send(&socket, &served, cookie, &symbol);
    wait_for(&served, dropped, 2);
    // It goes on serving.
    assert!(statistics(&served).received.datagrams >= 6);
    Connection::open(&served).granted();
}

#[test]
fn messages_that_make_no_sense_end_their_connection_and_no_other() {
    let served = serve();
    let mut good = Connection::open(&served);
    let mut noise: Vec<Vec<u8>> = vec![
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![0x20, 0, 0xff, 0xff],
        vec![0x2f, 0, 0, 0],
        vec![0x20, 0, 0, 1, 0],
    ];
    for early in [Message::Stop { next: 1 }, Message::Close, Message::Stopped { next: 0 }] {
        let mut bytes = Vec::new();
        emit_message(&early, &mut bytes);
        noise.push(bytes);
    }
    let count = noise.len() as u64;
    for bytes in noise {
        let mut connection = Connection::open(&served);
        connection.0.write_all(&bytes).expect("written");
        assert!(connection.is_closed(), "{bytes:?}");
    }
    // Counted like other refusals, and so told of in numbers if there are many.
    assert_eq!(served.server.counters().refused[&RefusalCode::Unsupported], count);
    good.granted();
}

#[test]
fn parts_that_are_not_there_and_blocks_beyond_all_bounds_are_refused() {
    let served = serve();
    for (offset, len, block_symbols) in [
        (0, 5_001, 5),
        (4_999, 2, 5),
        (u64::MAX - 1, 1, 5),
        (0, 5_000, 4_097),
        (0, 5_000, u32::MAX),
    ] {
        let mut connection = Connection::open(&served);
        let answer = connection.request(offset, len, block_symbols);
        assert!(answer.is_err(), "{answer:?}");
        assert!(connection.is_closed());
    }
}

#[test]
fn names_that_lead_out_are_refused() {
    let served = serve();
    for name in ["../object", "/etc/passwd", "a/../../b", "object/", ".."] {
        let mut connection = Connection::open(&served);
        connection.request_of(name, 0, 5_000, 5);
        let answer = connection.answer();
        assert!(answer.is_err(), "{name}: {answer:?}");
    }
}

#[test]
fn who_is_granted_a_part_and_never_says_hello_gives_its_place_back() {
    let served = serve_with(|config| {
        config.lttp.max_sessions = 1;
        config.lttp.timeout = Duration::from_millis(300);
    });
    let mut silent = Connection::open(&served);
    silent.granted();
    wait_until(|| "its place is lost", || Connection::open(&served).request(0, 5_000, 5).is_ok());
    assert!(silent.is_closed());
}

#[test]
fn one_address_cannot_have_all_parts_nor_all_connections() {
    // As a server is unless it is told otherwise.
    let served = serve();
    let mut connections: Vec<Connection> = (0..17).map(|_| Connection::open(&served)).collect();
    let granted = |connection: &mut Connection| match connection.request(0, 5_000, 5) {
        Ok(_) => true,
        Err(text) => {
            assert_eq!(text, "127.0.0.1 has 16 parts already");
            false
        }
    };
    let (last, first) = connections.split_last_mut().expect("some");
    assert!(first.iter_mut().all(granted), "a quarter of all");
    assert!(!granted(last), "one more");
    // The refused one may be gone or not, and connections are taken in order.
    let mut more: Vec<Connection> = (0..49).map(|_| Connection::open(&served)).collect();
    assert!(more[48].is_closed(), "beyond a quarter of all");
    assert!(served.server.counters().refused[&RefusalCode::Busy] >= 2);
}

#[test]
fn nothing_is_opened_for_who_has_no_place() {
    let served = serve_with(|config| config.lttp.max_sessions = 0);
    let mut connection = Connection::open(&served);
    connection.request_of("none", 0, 5_000, 5);
    let refused = connection.answer().expect_err("there is no place");
    assert_eq!(refused, "there are 0 parts already; try again later");
}
