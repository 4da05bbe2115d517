//! A server against strangers: raw datagrams, no client.

use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::time::Duration;

use wellspring_core::SessionId;
use wellspring_net::{Server, ServerConfig};
use wellspring_wire::control::{
    Cookie, Geometry, Name, Offer, Parsed, PutState, REPLY_MAX_LEN, REQUEST_MIN_LEN, RefusalCode,
    Reply, Request, Start, emit_request, parse,
};
use wellspring_wire::scdp::Mode;

const GEOMETRY: Geometry =
    Geometry { symbol_size: 1_000, symbols_per_block: 10, initial_window: 12 };

/// A server of a directory, on a runtime of its own.
struct Served {
    address: SocketAddr,
    _server: Server,
    _runtime: tokio::runtime::Runtime,
}

fn serve(directory: &Path, allow_put: bool) -> Served {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("runtime");
    let bind = "127.0.0.1:0".parse().expect("address");
    let config = ServerConfig { allow_put, ..ServerConfig::new(bind, directory.to_owned()) };
    let server = runtime.block_on(Server::bind(config)).expect("server");
    Served { address: server.local_addr(), _server: server, _runtime: runtime }
}

struct Stranger {
    socket: UdpSocket,
    nonce: u64,
    cookie: Cookie,
}

impl Stranger {
    fn of(served: &Served) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("socket");
        socket.connect(served.address).expect("connect");
        socket.set_read_timeout(Some(Duration::from_secs(10))).expect("timeout");
        Stranger { socket, nonce: 0, cookie: Cookie::NONE }
    }

    /// Sends one request and hands the reply to `check`.
    fn ask<R>(&mut self, request: &Request<'_>, check: impl FnOnce(Reply<'_>) -> R) -> R {
        self.nonce += 1;
        let mut bytes = Vec::new();
        emit_request(self.nonce, self.cookie, request, &mut bytes);
        self.socket.send(&bytes).expect("send");
        let mut buffer = [0; 2_048];
        loop {
            let len = self.socket.recv(&mut buffer).expect("an answer");
            assert!(len <= bytes.len(), "{len} bytes for {}", bytes.len());
            // Symbols and pulls of a session come by the same socket.
            let Ok(Parsed::Reply { nonce, reply }) = parse(&buffer[..len]) else { continue };
            assert!(len <= REPLY_MAX_LEN && REPLY_MAX_LEN <= REQUEST_MIN_LEN);
            if nonce == self.nonce {
                return check(reply);
            }
        }
    }

    fn earn_cookie(&mut self, by: &Request<'_>) {
        self.cookie = self.ask(by, |reply| match reply {
            Reply::Challenge { cookie } => cookie,
            other => panic!("{other:?}"),
        });
    }

    /// Asks until the answer is there.
    fn info(&mut self, name: &str) -> Result<u64, RefusalCode> {
        let request = Request::Info { name: Name::new(name).expect("a name for messages") };
        loop {
            let answer = self.ask(&request, |reply| match reply {
                Reply::Info { size, .. } => Some(Ok(size)),
                Reply::Refused { code, .. } => Some(Err(code)),
                Reply::Challenge { .. } | Reply::Pending { .. } => None,
                other => panic!("{other:?}"),
            });
            match answer {
                Some(answer) => return answer,
                None if self.cookie == Cookie::NONE => self.earn_cookie(&request),
                None => {}
            }
        }
    }
}

fn offer(session: u32, name: &str, size: u64) -> Offer<'_> {
    Offer {
        session: SessionId(session),
        name: Name::new(name).expect("a name for messages"),
        size,
        digest: *blake3::hash(b"").as_bytes(),
        mode: Mode::Unicast,
        group: None,
        geometry: GEOMETRY,
        overwrite: false,
        timeout_ms: 0,
    }
}

#[test]
fn names_that_escape_are_refused_to_readers_and_writers() {
    let home = tempfile::tempdir().expect("temporary directory");
    let dir = home.path().join("served");
    std::fs::create_dir(&dir).expect("directory");
    std::fs::write(home.path().join("secret"), b"secret").expect("write");
    std::os::unix::fs::symlink(home.path(), dir.join("up")).expect("link");
    std::os::unix::fs::symlink("../secret", dir.join("link")).expect("link");
    let served = serve(&dir, true);
    let mut stranger = Stranger::of(&served);
    for name in ["../secret", "/etc/passwd", "a/../../secret", "./x", "a//b", "..\\secret"] {
        assert_eq!(stranger.info(name), Err(RefusalCode::BadName), "{name}");
    }
    for name in ["up/secret", "link", "up", "."] {
        let refused = stranger.info(name).expect_err(name);
        assert!(matches!(refused, RefusalCode::NotFound | RefusalCode::BadName), "{name}");
    }
    stranger.earn_cookie(&Request::Offer(offer(1, "x", 0)));
    for (session, name) in
        (2..).zip(["../x", "/tmp/x", "up/x", "link", "a/../x", "none/x", ".x.wellspring-1.part"])
    {
        let refused = stranger.ask(&Request::Offer(offer(session, name, 0)), |reply| match reply {
            Reply::Refused { code, .. } => code,
            other => panic!("{name}: {other:?}"),
        });
        assert!(matches!(refused, RefusalCode::NotFound | RefusalCode::BadName), "{name}");
    }
    assert_eq!(std::fs::read(home.path().join("secret")).expect("read"), b"secret");
    assert_eq!(std::fs::read_dir(home.path()).expect("directory").count(), 2);
    assert_eq!(std::fs::read_dir(&dir).expect("directory").count(), 2);
}

#[test]
fn nothing_is_sent_or_taken_without_a_cookie() {
    let home = tempfile::tempdir().expect("temporary directory");
    std::fs::write(home.path().join("x"), vec![7; 100_000]).expect("write");
    let served = serve(home.path(), true);
    let mut stranger = Stranger::of(&served);
    let name = Name::new("x").expect("a name");
    let start = Request::Start(Start {
        session: SessionId(1),
        name,
        digest: *blake3::hash(&[7; 100_000]).as_bytes(),
        share_index: 0,
        share_count: 1,
        geometry: GEOMETRY,
        resume: None,
        timeout_ms: 0,
    });
    let session = SessionId(2);
    for request in [start, Request::Offer(offer(2, "y", 0)), Request::Status { session }] {
        for cookie in [Cookie::NONE, Cookie([9; 16])] {
            stranger.cookie = cookie;
            stranger.ask(&request, |reply| {
                assert!(matches!(reply, Reply::Challenge { .. }), "{reply:?}");
            });
        }
    }
    // A digest costs work: not done for an address that has not shown itself either.
    stranger.cookie = Cookie::NONE;
    stranger.ask(&Request::Info { name }, |reply| {
        assert!(matches!(reply, Reply::Challenge { .. }), "{reply:?}");
    });
    assert!(!home.path().join("y").exists());
    // Another's cookie is as good as none.
    let mut other = Stranger::of(&served);
    other.earn_cookie(&Request::Status { session });
    stranger.cookie = other.cookie;
    stranger.ask(&Request::Status { session }, |reply| {
        assert!(matches!(reply, Reply::Challenge { .. }), "{reply:?}");
    });
}

#[test]
fn a_repeated_offer_is_one_offer_and_its_end_is_remembered() {
    let home = tempfile::tempdir().expect("temporary directory");
    let served = serve(home.path(), true);
    let mut stranger = Stranger::of(&served);
    let empty = Request::Offer(offer(5, "empty", 0));
    stranger.earn_cookie(&empty);
    for _ in 0..3 {
        stranger.ask(&empty, |reply| assert_eq!(reply, Reply::Accepted));
    }
    stranger.ask(&Request::Status { session: SessionId(5) }, |reply| {
        assert!(matches!(reply, Reply::Status { state: PutState::Complete, .. }), "{reply:?}");
    });
    stranger.ask(&Request::Status { session: SessionId(6) }, |reply| {
        assert!(matches!(reply, Reply::Status { state: PutState::Unknown, .. }), "{reply:?}");
    });
    assert_eq!(std::fs::read(home.path().join("empty")).expect("read"), b"");
    // Somebody else may not speak for that session.
    let mut other = Stranger::of(&served);
    other.earn_cookie(&empty);
    other.ask(&empty, |reply| {
        assert!(
            matches!(reply, Reply::Refused { code: RefusalCode::SessionInUse, .. }),
            "{reply:?}"
        );
    });
}

#[test]
fn absurd_objects_are_refused_before_they_cost_anything() {
    let home = tempfile::tempdir().expect("temporary directory");
    let served = serve(home.path(), true);
    let mut stranger = Stranger::of(&served);
    stranger.earn_cookie(&Request::Status { session: SessionId(1) });
    let mut refused = |offer: Offer<'_>| {
        stranger.ask(&Request::Offer(offer), |reply| match reply {
            Reply::Refused { code, .. } => code,
            other => panic!("{other:?}"),
        })
    };
    assert_eq!(refused(offer(1, "x", u64::MAX)), RefusalCode::TooLarge);
    let wide = Geometry { symbol_size: u16::MAX, ..GEOMETRY };
    assert_eq!(refused(Offer { geometry: wide, ..offer(2, "x", 9) }), RefusalCode::Unsupported);
    let deep = Geometry { symbols_per_block: u32::MAX, ..GEOMETRY };
    assert_eq!(refused(Offer { geometry: deep, ..offer(3, "x", 9) }), RefusalCode::Unsupported);
    assert_eq!(std::fs::read_dir(home.path()).expect("directory").count(), 0);
}

#[test]
fn noise_does_not_stop_a_server() {
    let home = tempfile::tempdir().expect("temporary directory");
    std::fs::write(home.path().join("x"), b"hello").expect("write");
    let served = serve(home.path(), true);
    let mut stranger = Stranger::of(&served);
    let mut stream = wellspring_core::Seed(1).stream("noise");
    for _ in 0..500 {
        let len = stream.below(1_400) as usize;
        let mut noise: Vec<u8> = (0..len).map(|_| stream.next_u64() as u8).collect();
        if let Some(first) = noise.first_mut() {
            *first = 0x10 | (*first & 0x0f);
        }
        stranger.socket.send(&noise).expect("send");
    }
    assert_eq!(stranger.info("x"), Ok(5));
}
