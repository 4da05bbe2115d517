//! Hosts with keys that are trusted for something, and try what is a server's, or another key's.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::keyrings::{peer, serving};
use crate::served::{GUARD, Served, client, loopback, to_file};
use wellspring_client::{FetchOptions, Host};
use wellspring_core::{SessionId, Time};
use wellspring_testkit::random_bytes;
use wellspring_trust::{
    Channels, Folders, Keyring, Opened, PrivateKey, PublicKey, Rights, private_from_text,
    private_to_text,
};
use wellspring_wire::control::{
    Cookie, Geometry, Name, Offer, Parsed, RefusalCode, Reply, Request, Start, emit_request, parse,
};
use wellspring_wire::scdp::Mode;

const GEOMETRY: Geometry =
    Geometry { symbol_size: 1_000, symbols_per_block: 10, initial_window: 12 };
const LEN: usize = 3_000_000;
const SENT: SessionId = SessionId(71);
const TAKEN: SessionId = SessionId(72);

fn copy_of(key: &PrivateKey) -> PrivateKey {
    private_from_text(&private_to_text(key)).expect("a key")
}

/// A host with a key that sends what no client of ours does.
struct Guest {
    socket: UdpSocket,
    channels: Channels,
    began: Instant,
    nonce: u64,
    cookie: Cookie,
}

impl Guest {
    /// One that takes the owner of `other` for a server.
    fn new(key: &PrivateKey, other: PublicKey) -> Self {
        let ring = Keyring::new().with_own(copy_of(key)).with_peer(peer("other", other, serving()));
        let channels = Channels::new(Arc::new(ring), 8, [7; 32]);
        let (began, cookie) = (Instant::now(), Cookie::NONE);
        Guest { socket: socket(), channels, began, nonce: 0, cookie }
    }

    fn move_to_another_port(&mut self) {
        self.socket = socket();
    }

    fn now(&self) -> Time {
        let micros = self.began.elapsed().as_micros() as u64;
        Time::ZERO + wellspring_core::Duration::from_micros(1_000_000 + micros)
    }

    /// Greets whoever is there, or repeats that.
    fn greet(&mut self, to: SocketAddr) {
        let (now, mut out) = (self.now(), Vec::new());
        let request = (&[0x18; 256][..], false);
        self.channels.request(now, to, request, &mut out).expect("a way");
        self.socket.send_to(&out, to).expect("sent");
    }

    /// Takes in one datagram, if one comes in time.
    fn hear(&mut self) -> Option<(SocketAddr, Opened, Vec<u8>)> {
        let (mut datagram, mut plain, mut answer) = (vec![0; 9_000], vec![0; 9_000], Vec::new());
        let (len, from) = self.socket.recv_from(&mut datagram).ok()?;
        let (now, datagram) = (self.now(), &datagram[..len]);
        let opened = self.channels.open(now, (from, None), datagram, None, &mut plain, &mut answer);
        if !answer.is_empty() {
            self.socket.send_to(&answer, from).expect("sent");
        }
        if let Opened::Datagram { len, .. } = opened {
            plain.truncate(len);
        }
        Some((from, opened, plain))
    }

    /// Sends a request until it is answered, and hands the reply to `check`.
    fn ask<R>(
        &mut self,
        server: SocketAddr,
        request: &Request<'_>,
        check: impl FnOnce(Reply<'_>) -> R,
    ) -> R {
        self.nonce += 1;
        let (mut bytes, mut out) = (Vec::new(), Vec::new());
        emit_request(self.nonce, self.cookie, request, &mut bytes);
        while self.began.elapsed() < GUARD {
            let now = self.now();
            self.channels.request(now, server, (&bytes, false), &mut out).expect("a way");
            self.socket.send_to(&out, server).expect("sent");
            while let Some((_, opened, plain)) = self.hear() {
                let Opened::Datagram { .. } = opened else { continue };
                // Symbols and pulls of a session come by the same socket.
                let Ok(Parsed::Reply { nonce, reply }) = parse(&plain) else { continue };
                if nonce == self.nonce {
                    return check(reply);
                }
            }
        }
        panic!("no answer");
    }

    /// Asks until the answer is there, with the cookies that are given.
    fn ask_proven(&mut self, server: SocketAddr, request: &Request<'_>) -> Result<(), RefusalCode> {
        loop {
            let answer = self.ask(server, request, |reply| match reply {
                Reply::Info { cookie, .. } => (Some(Ok(())), Some(cookie)),
                Reply::Challenge { cookie } => (None, Some(cookie)),
                Reply::Pending { .. } => (None, None),
                Reply::Accepted | Reply::Status { .. } => (Some(Ok(())), None),
                Reply::Refused { code, .. } => (Some(Err(code)), None),
                other => panic!("{other:?}"),
            });
            self.cookie = answer.1.unwrap_or(self.cookie);
            if let Some(answer) = answer.0 {
                return answer;
            }
        }
    }
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind(loopback()).expect("a socket");
    socket.set_read_timeout(Some(Duration::from_millis(100))).expect("a timeout");
    socket
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_may_only_read_is_not_taken_for_a_server_when_it_greets_first() {
    let [own, server, bob] = [(); 3].map(|()| PrivateKey::generate());
    let reads = Rights { read: Folders::all(), ..Rights::default() };
    let ring = Keyring::new()
        .with_own(copy_of(&own))
        .with_peer(peer("server", server.public(), serving()))
        .with_peer(peer("bob", bob.public(), reads));
    let client = client(|config| {
        config.timeout = Duration::from_secs(1);
        config.driver.socket.bind = loopback();
        config.driver.keys = Some(Arc::new(ring));
    });
    // He answers nothing, and greets the client from the address that it asks.
    let mut guest = Guest::new(&bob, own.public());
    let host = Host::from(guest.socket.local_addr().expect("bound"));
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let greeting = std::thread::spawn(move || {
        let (mut heard, mut opened) = (0, Vec::new());
        while !stopped.load(Relaxed) {
            let Some((from, what, _)) = guest.hear() else { continue };
            heard += 1;
            if what != Opened::Nothing {
                opened.push(what);
            }
            guest.greet(from);
        }
        (heard, opened)
    });
    let folder = tempfile::tempdir().expect("a folder");
    let options = FetchOptions::new("object".parse().expect("a name"));
    let fetched = client.fetch(&[host], &options, to_file(&folder.path().join("fetched"))).await;
    stop.store(true, Relaxed);
    let (heard, opened) = greeting.join().expect("no panic");
    assert!(fetched.is_err() && heard > 0, "{heard} datagrams: {fetched:?}");
    assert!(opened.is_empty(), "the client speaks with him: {opened:?}");
    // On a machine that is busy his last greeting is not looked at yet.
    let counted = async {
        loop {
            let trust = client.statistics().expect("running").trust.expect("keys");
            assert_eq!(trust.handshakes, 0, "{trust:?}");
            if trust.handshakes_wrong > 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(GUARD, counted).await.expect("his greetings come and count");
}

/// Alice has a session in which she is sent an object, and one in which she puts one.
async fn sessions_of_alice() -> (Served, Guest, Guest) {
    let [server, alice, bob] = [(); 3].map(|()| PrivateKey::generate());
    let all = Rights { serve: false, ..Rights::all() };
    let nothing = Rights { put: Folders::all(), ..Rights::default() };
    let ring = Keyring::new()
        .with_own(copy_of(&server))
        .with_peer(peer("alice", alice.public(), all))
        .with_peer(peer("bob", bob.public(), nothing));
    let bytes = random_bytes(LEN, 1);
    let served = Served::with(&bytes, |config| {
        config.allow_put = true;
        config.driver.keys = Some(Arc::new(ring));
    })
    .await;
    let at = served.server.local_addr();
    let guests = tokio::task::spawn_blocking(move || {
        let [mut alice, bob] = [alice, bob].map(|key| Guest::new(&key, server.public()));
        let name = Name::new("object").expect("a name");
        let digest = *blake3::hash(&bytes).as_bytes();
        assert_eq!(alice.ask_proven(at, &Request::Info { name, geometry: GEOMETRY }), Ok(()));
        let start = Request::Start(Start {
            session: SENT,
            name,
            digest,
            share_index: 0,
            share_count: 1,
            geometry: GEOMETRY,
            resume: None,
            timeout_ms: 60_000,
            background: false,
        });
        assert_eq!(alice.ask_proven(at, &start), Ok(()));
        let offer = Request::Offer(Offer {
            session: TAKEN,
            name: Name::new("other").expect("a name"),
            size: LEN as u64,
            digest: [7; 32],
            mode: Mode::Unicast,
            group: None,
            geometry: GEOMETRY,
            overwrite: false,
            resume: false,
            timeout_ms: 60_000,
            background: false,
        });
        assert_eq!(alice.ask_proven(at, &offer), Ok(()));
        (alice, bob)
    });
    let (alice, bob) = guests.await.expect("no panic");
    (served, alice, bob)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_gets_no_path_in_another_keys_session_from_its_address() {
    let (served, mut alice, mut bob) = sessions_of_alice().await;
    let at = served.server.local_addr();
    let asked = tokio::task::spawn_blocking(move || {
        for session in [SENT, TAKEN] {
            // He has seen its number in the header of a symbol, and has her address, but not her port.
            let path = Request::Path { session, path: 5, token: Cookie::NONE };
            bob.cookie = Cookie::NONE;
            assert_eq!(bob.ask_proven(at, &path), Err(RefusalCode::NotFound), "{session:?}");
        }
        for session in [SENT, TAKEN] {
            let path = Request::Path { session, path: 5, token: Cookie::NONE };
            alice.move_to_another_port();
            alice.cookie = Cookie::NONE;
            assert_eq!(alice.ask_proven(at, &path), Ok(()), "{session:?}");
        }
    });
    asked.await.expect("no panic");
    drop(served);
}
