//! LTTP under keys, and attackers of its datagrams and its control channel.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::keyrings::{peer, pinned, serving};
use crate::on_path::{OnDatagrams, OnPath, OnStream, datagrams_pass, streams_pass};
use crate::served::{GUARD, Served, by_lttp, loopback, runtime};
use wellspring_client::store::Existing;
use wellspring_client::{Client, ClientConfig, FetchError, FetchReport, Host, Target};
use wellspring_core::{Duration as Span, Time};
use wellspring_server::{ServerConfig, ServerEvent};
use wellspring_testkit::random_bytes;
use wellspring_testkit::wait::wait_until;
use wellspring_trust::{
    ClusterKey, Folders, Greeted, Keyring, Opener, PrivateKey, Rights, Sealer, StreamGreeting,
    StreamTrouble, TrustCounters, private_from_text, private_to_text,
};
use wellspring_wire::control::{Name, RefusalCode};
use wellspring_wire::lttp::{
    Cookie, Datagram, Envelope, Geometry, Message, emit, emit_envelope, emit_message, envelope,
    message_kind, parse_message, parse_whole,
};

const LEN: usize = 2_000_000;

fn object() -> Vec<u8> {
    random_bytes(LEN, 11)
}

/// A server of an object, also in the folder `private`, and a client.
struct Place {
    runtime: tokio::runtime::Runtime,
    served: Served,
    client: Client,
    keys: Option<Arc<Keyring>>,
}

impl Place {
    fn new((client, server): (Option<Keyring>, Option<Keyring>)) -> Place {
        let runtime = runtime();
        let keys = client.map(Arc::new);
        let served = runtime.block_on(Served::with(&object(), |config| {
            config.driver.keys = server.map(Arc::new);
        }));
        std::fs::create_dir(served.folder.path().join("private")).expect("folder");
        std::fs::write(served.folder.path().join("private/x"), object()).expect("written");
        let mut config = ClientConfig::default().timeout(Duration::from_secs(3));
        config.driver.socket.bind = loopback();
        config.driver.keys = keys.clone();
        let client = runtime.block_on(async { Client::new(config).expect("client") });
        Place { runtime, served, client, keys }
    }

    fn with_keys(rights: Rights) -> Place {
        let (client, server) = pinned(rights);
        Place::new((Some(client), Some(server)))
    }

    fn server(&self) -> SocketAddr {
        self.served.server.local_addr()
    }

    fn output(&self) -> PathBuf {
        self.served.folder.path().join("fetched")
    }

    fn fetch(&self, from: SocketAddr, name: &str) -> Result<FetchReport, FetchError> {
        let target = Target::File { path: self.output(), existing: Existing::Replace };
        let (options, hosts) = (by_lttp(name), [Host::from(from)]);
        let fetching = self.client.fetch(&hosts, &options, target);
        let in_time = async { tokio::time::timeout(GUARD, fetching).await.expect("it ends") };
        self.runtime.block_on(in_time)
    }

    fn assert_fetched(&self, report: &FetchReport) {
        assert!(std::fs::read(self.output()).expect("read") == object(), "other bytes");
        assert_eq!(report.replicas[0].losses, 0);
    }

    fn at_server(&self) -> TrustCounters {
        self.served.server.statistics().expect("running").trust.expect("keys")
    }

    fn at_client(&self) -> TrustCounters {
        self.client.statistics().expect("running").trust.expect("keys")
    }

    /// What the server has told so far.
    fn told(&mut self) -> Vec<ServerEvent> {
        std::iter::from_fn(|| self.served.events.try_recv().ok()).collect()
    }

    fn refused(&self, code: RefusalCode) -> u64 {
        self.served.server.counters().refused.get(&code).copied().unwrap_or(0)
    }
}

#[test]
fn lttp_runs_under_pinned_keys_under_a_cluster_key_and_with_several_servers_trusted() {
    let key = ClusterKey::generate();
    let cluster = || Keyring::new().with_cluster(key.clone(), Rights::all());
    let (one_of_many, server) = pinned(Rights::all());
    let other = peer("other", PrivateKey::generate().public(), serving());
    for (client, server) in
        [pinned(Rights::all()), (cluster(), cluster()), (one_of_many.with_peer(other), server)]
    {
        let place = Place::new((Some(client), Some(server)));
        let report = place.fetch(place.server(), "object").expect("fetched");
        place.assert_fetched(&report);
        let (at_server, at_client) = (place.at_server(), place.at_client());
        // All symbols and reports: nothing goes in clear.
        let symbols = LEN as u64 / 1_376;
        assert!(at_client.opened > symbols && at_server.sealed > symbols, "{at_client:?}");
        assert_eq!((at_server.forged, at_server.clear, at_client.clear), (0, 0, 0));
    }
}

/// After every eighth datagram of the server's what is forged from it, for one side or the other.
fn forging(to_server: bool, forge: fn(&[u8]) -> Vec<u8>) -> OnDatagrams {
    let mut count = 0;
    Box::new(move |goes_to_server, bytes| {
        let mut out = vec![(goes_to_server, bytes.to_vec())];
        count += u32::from(!goes_to_server && bytes.len() > 1_000);
        if !goes_to_server && bytes.len() > 1_000 && count % 8 == 0 {
            out.push((to_server, forge(bytes)));
        }
        out
    })
}

fn datagram(seen: &[u8], datagram: &Datagram<'_>) -> Vec<u8> {
    // Where it is in a symbol that is not sealed.
    let cookie = u64::from_be_bytes(*seen[4..].first_chunk().expect("a cookie"));
    let mut bytes = Vec::new();
    emit(Cookie(cookie), datagram, &mut bytes);
    bytes
}

/// A symbol of the block that the seen one is of, and of the number after it.
fn poisoned(seen: &[u8]) -> Vec<u8> {
    let field = |at: usize| u32::from_be_bytes(*seen[at..].first_chunk().expect("a field"));
    let (sbn, esi, number) = (field(12), field(16).wrapping_add(1), field(20).wrapping_add(1));
    let (sent, rtt) = (Time::from_picos(0), Span::from_millis(1));
    let payload = &vec![0x5a; seen.len() - 36];
    datagram(seen, &Datagram::Symbol { sbn, esi, number, sent, rtt, payload })
}

fn report_of_loss(seen: &[u8]) -> Vec<u8> {
    let (echo, delay) = (Time::from_picos(0), Span::ZERO);
    let report = Datagram::Report { echo, delay, receive_rate: 1, loss_event_rate: u32::MAX };
    datagram(seen, &report)
}

fn flipped(seen: &[u8]) -> Vec<u8> {
    let mut bytes = seen.to_vec();
    bytes[60] ^= 1;
    bytes
}

/// An attack of one forged datagram: its name, whether it goes to the server, and what it is made of.
type Forgery = (&'static str, bool, fn(&[u8]) -> Vec<u8>);

const FORGERIES: &[Forgery] = &[
    ("poisoned symbols", false, poisoned),
    ("a flipped bit", false, flipped),
    ("the same again", false, |seen| seen.to_vec()),
    ("all is lost", true, report_of_loss),
    ("a hello", true, |seen| datagram(seen, &Datagram::Hello)),
    ("a symbol sent back", true, |seen| seen.to_vec()),
];

#[test]
fn forged_lttp_datagrams_are_dropped_and_counted_and_the_transfer_is_unharmed() {
    for (name, to_server, forge) in FORGERIES {
        let place = Place::with_keys(Rights { read: Folders::all(), ..Rights::default() });
        let forging = forging(*to_server, *forge);
        let on_path = OnPath::before(place.server(), forging, streams_pass());
        let report = place
            .fetch(on_path.address(), "object")
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        place.assert_fetched(&report);
        let counters = if *to_server { place.at_server() } else { place.at_client() };
        let dropped = counters.forged + counters.clear + counters.replayed;
        assert!(dropped > 0, "{name}: {counters:?}");
    }
}

#[test]
fn the_same_datagrams_do_harm_where_there_are_no_keys() {
    let place = Place::new((None, None));
    let on_path = OnPath::before(place.server(), forging(false, poisoned), streams_pass());
    let harmed = match place.fetch(on_path.address(), "object") {
        Ok(report) => report.replicas[0].losses > 0,
        Err(_) => true,
    };
    assert!(harmed, "then the test above shows nothing");
}

#[test]
fn nothing_of_lttp_that_is_sent_can_be_read() {
    for keys in [true, false] {
        let place = if keys { Place::with_keys(Rights::all()) } else { Place::new((None, None)) };
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (by_udp, by_tcp) = (Arc::clone(&seen), Arc::clone(&seen));
        let datagrams: OnDatagrams = Box::new(move |to_server, bytes| {
            let mut seen = by_udp.lock().expect("no panic");
            // Symbols without end tell no more than the first.
            if seen.len() < 1 << 20 {
                seen.extend_from_slice(bytes);
            }
            vec![(to_server, bytes.to_vec())]
        });
        let stream: OnStream = Box::new(move |_, bytes| {
            by_tcp.lock().expect("no panic").extend_from_slice(bytes);
        });
        let on_path = OnPath::before(place.server(), datagrams, stream);
        let report = place.fetch(on_path.address(), "private/x").expect("fetched");
        place.assert_fetched(&report);
        let seen = seen.lock().expect("no panic");
        let digest = *blake3::hash(&object()).as_bytes();
        for secret in [&b"private/x"[..], &digest[..]] {
            let is_seen = seen.windows(secret.len()).any(|window| window == secret);
            assert_eq!(is_seen, !keys, "{secret:?}");
        }
    }
}

#[test]
fn a_control_channel_that_is_altered_on_its_way_ends_and_gives_nothing_wrong() {
    // In the handshake, in the first sealed message, and in the ones after it.
    for (to_server, chunk, at) in
        [(true, 0, 60), (false, 0, 30), (true, 1, 20), (false, 1, 20), (true, 2, 10)]
    {
        let place = Place::with_keys(Rights::all());
        let mut chunks = [0, 0];
        let stream: OnStream = Box::new(move |goes_to_server, bytes| {
            let count = &mut chunks[usize::from(goes_to_server)];
            if goes_to_server == to_server && *count == chunk {
                let last = bytes.len() - 1;
                bytes[at.min(last)] ^= 1;
            }
            *count += 1;
        });
        let on_path = OnPath::before(place.server(), datagrams_pass(), stream);
        let outcome = place.fetch(on_path.address(), "object");
        match outcome {
            // Over a new connection.
            Ok(report) => {
                assert!(std::fs::read(place.output()).expect("read") == object(), "other bytes");
                assert_eq!(report.replicas[0].losses, 1, "{to_server} {chunk}: {report:?}");
            }
            Err(_) => assert!(!place.output().exists()),
        }
    }
}

/// A control channel by hand.
struct Connection {
    stream: TcpStream,
    ends: Option<(Sealer, Opener)>,
}

impl Connection {
    fn open(place: &Place) -> Connection {
        let stream = TcpStream::connect(place.server()).expect("connects");
        stream.set_read_timeout(Some(GUARD)).expect("set");
        Connection { stream, ends: None }
    }

    fn hear(&mut self) -> Option<([u8; 4], Vec<u8>)> {
        let mut header = [0; 4];
        self.stream.read_exact(&mut header).ok()?;
        let len = match envelope(header) {
            Ok((_, len)) => len,
            Err(_) => message_kind(header).expect("a message").1,
        };
        let mut body = vec![0; len];
        self.stream.read_exact(&mut body).expect("a body");
        Some((header, body))
    }

    fn greet(&mut self, keys: &Arc<Keyring>) -> Result<(), StreamTrouble> {
        let server = self.stream.peer_addr().expect("connected").ip();
        let greeting = StreamGreeting::new(Arc::clone(keys), server, 7).expect("a way");
        let mut bytes = Vec::new();
        emit_envelope(Envelope::Handshake, greeting.message(), &mut bytes);
        self.stream.write_all(&bytes).expect("written");
        let (_, answer) = self.hear().expect("an answer");
        match greeting.answered(&answer)? {
            Greeted::Established(sealer, opener) => self.ends = Some((sealer, opener)),
            Greeted::GoesOn(_) => panic!("the key is known"),
        }
        Ok(())
    }

    fn say(&mut self, message: &Message<'_>) {
        let (mut plain, mut bytes) = (Vec::new(), Vec::new());
        emit_message(message, &mut plain);
        match &mut self.ends {
            None => bytes = plain,
            Some((sealer, _)) => {
                let mut sealed = Vec::new();
                sealer.seal(&plain, &mut sealed).expect("short");
                emit_envelope(Envelope::Sealed, &sealed, &mut bytes);
            }
        }
        self.stream.write_all(&bytes).expect("written");
    }

    fn request(&mut self, name: &str) {
        let (name, digest) =
            (Name::new(name).expect("a name"), *blake3::hash(&object()).as_bytes());
        let geometry = Geometry::new(1_000, 100).expect("possible");
        let (offset, len, timeout_ms) = (0, LEN as u64, 0);
        self.say(&Message::Request { name, digest, offset, len, geometry, timeout_ms });
    }

    /// The refusal that ends the connection.
    fn refusal(&mut self) -> (RefusalCode, String) {
        loop {
            let (header, body) = self.hear().expect("an answer");
            let mut plain = Vec::new();
            let message = match &mut self.ends {
                None => parse_message(header[0] & 0x0f, &body),
                Some((_, opener)) => {
                    opener.open(&body, &mut plain).expect("sealed by the server");
                    parse_whole(&plain)
                }
            };
            match message.expect("a message") {
                Message::Refused { code, text } => return (code, text.to_owned()),
                Message::Pending { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }

    fn is_closed(&mut self) -> bool {
        self.hear().is_none()
    }
}

#[test]
fn clients_without_keys_without_trust_and_without_rights_are_sent_nothing_and_told_why() {
    let rights = Rights { read: folder("models"), ..Rights::default() };
    let (client, server) = pinned(rights);
    let server_key = server.own().expect("a key").public();
    let mut place = Place::new((Some(client), Some(server)));
    let mut connection = Connection::open(&place);
    connection.request("object");
    let (code, text) = connection.refusal();
    assert!(code == RefusalCode::NotAllowed && text.contains("only with keys"), "{text}");
    assert!(connection.is_closed());
    let stranger = Keyring::new().with_own(PrivateKey::generate()).with_peer(peer(
        "server",
        server_key,
        serving(),
    ));
    let mut connection = Connection::open(&place);
    let refused = connection.greet(&Arc::new(stranger));
    let untrusted = wellspring_trust::Refusal::NotTrusted;
    assert_eq!(refused, Err(StreamTrouble::Refused(untrusted)));
    assert!(connection.is_closed());
    let mut connection = Connection::open(&place);
    let keys = place.keys.clone().expect("keys");
    connection.greet(&keys).expect("trusted");
    connection.request("private/x");
    let (code, text) = connection.refusal();
    assert_eq!(code, RefusalCode::NotAllowed);
    assert!(text.contains("alice") && text.contains("no right to read private/x"), "{text}");
    // A refusal counts once it is sent.
    let refused = || place.refused(RefusalCode::NotAllowed);
    wait_until(|| format!("{} refusals", refused()), || refused() == 3);
    let counted = place.at_server();
    assert_eq!((counted.handshakes, counted.handshakes_untrusted), (1, 1));
    let sends = |event: &ServerEvent| matches!(event, ServerEvent::SendingPart { .. });
    assert!(!place.told().iter().any(sends));
}

#[test]
fn a_key_that_is_taken_away_after_its_handshake_is_sent_no_part() {
    let (client, server) = pinned(Rights::all());
    let own = server.own().map(private_to_text).expect("a key");
    let place = Place::new((Some(client), Some(server)));
    let keys = place.keys.clone().expect("keys");
    let mut connections = [Connection::open(&place), Connection::open(&place)];
    for connection in &mut connections {
        connection.greet(&keys).expect("trusted");
    }
    let own = || private_from_text(&own).expect("a key");
    let reload = |keyring: Keyring| {
        let mut settings = ServerConfig::new(loopback(), ".".into()).settings();
        settings.keys = Some(Arc::new(keyring));
        place.served.server.reload(settings).expect("reloaded");
    };
    let mut refusal = |number: usize| {
        let connection: &mut Connection = &mut connections[number];
        connection.request("object");
        let (code, text) = connection.refusal();
        assert_eq!(code, RefusalCode::NotAllowed);
        text
    };
    let alice = keys.own().expect("a key").public();
    let puts = Rights { put: Folders::all(), ..Rights::default() };
    reload(Keyring::new().with_own(own()).with_peer(peer("alice", alice, puts)));
    let text = refusal(0);
    assert!(text.contains("no right to read object"), "{text}");
    reload(Keyring::new().with_own(own()));
    let text = refusal(1);
    assert!(text.contains("not known any more"), "{text}");
}

fn folder(name: &str) -> Folders {
    let mut folders = Folders::NONE;
    folders.add(name).expect("a name");
    folders
}

#[test]
fn a_connection_played_again_brings_no_part_and_a_message_in_clear_ends_one_that_is_sealed() {
    let mut place = Place::with_keys(Rights::all());
    let recorded = Arc::new(Mutex::new(Vec::new()));
    let recording = Arc::clone(&recorded);
    let stream: OnStream = Box::new(move |to_server, bytes| {
        if to_server {
            recording.lock().expect("no panic").extend_from_slice(bytes);
        }
    });
    let on_path = OnPath::before(place.server(), datagrams_pass(), stream);
    let report = place.fetch(on_path.address(), "object").expect("fetched");
    place.assert_fetched(&report);
    let began = |events: Vec<ServerEvent>| {
        events.iter().filter(|event| matches!(event, ServerEvent::SendingPart { .. })).count()
    };
    assert!(began(place.told()) > 0);
    let mut again = Connection::open(&place);
    again.stream.write_all(&recorded.lock().expect("no panic")).expect("written");
    // The handshake is answered, with keys that its recorder does not have; then nothing opens.
    let (header, _) = again.hear().expect("an answer");
    assert_eq!(header[0] & 0x0f, Envelope::Handshake as u8);
    assert!(again.is_closed());
    let mut mixed = Connection::open(&place);
    let keys = place.keys.clone().expect("keys");
    mixed.greet(&keys).expect("trusted");
    mixed.ends = None;
    mixed.request("object");
    assert!(mixed.is_closed());
    assert_eq!(began(place.told()), 0);
}

#[test]
fn a_host_that_only_seems_to_be_the_server_is_not_spoken_to() {
    // It relays datagrams of the real one, and answers by TCP with a key of its own.
    let (client, server) = pinned(Rights::all());
    let place = Place::new((Some(client), Some(server)));
    let posing = Place::new((None, Some(pinned(Rights::all()).1)));
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    let real = place.server();
    let on_path = OnPath::before_apart(
        real,
        posing.server(),
        Box::new(move |to_server, _| {
            counted.fetch_add(usize::from(to_server), Relaxed);
        }),
    );
    let outcome = place.fetch(on_path.address(), "object");
    let text = outcome.expect_err("another key").to_string();
    assert!(text.contains("another key"), "{text}");
    assert!(connections.load(Relaxed) > 0);
}
