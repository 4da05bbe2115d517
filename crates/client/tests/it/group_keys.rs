//! Groups under keys: who listens, forges without the key, or forges with it as a member.
//!
//! The attackers send with others' addresses, which takes CAP_NET_RAW; without it, or without multicast, the tests say
//! that they were not run.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};
use wellspring_client::{
    Client, ClientConfig, Host, PutError, PutOptions, PutReport, ReceiverState,
};
use wellspring_core::{SessionId, Time};
use wellspring_server::{Server, ServerConfig};
use wellspring_testkit::loopback::own_address;
use wellspring_trust::{
    Channels, ClusterKey, GroupKey, HEADROOM, Keyring, MAX_OVERHEAD, Opened, Rights, Via,
};
use wellspring_wire::control::{self, Parsed, PutState, Reply, Request};
use wellspring_wire::scdp::{Mode, Options, Pull, ScdpHeader, Symbol, emit, parse, set_tagged};

const PHRASE: &[u8] = b"any K of the symbols will do; ";
const LEN: usize = 3_000_000;
const LOOPBACK: &str = "127.0.0.1:0";
const HEADER_LEN: usize = 24;
/// Where a member begins to count what it forges: beyond the sender's own counters, but not so far that those would
/// count as too old.
const AHEAD: u64 = 4_000;

fn object() -> Vec<u8> {
    PHRASE.iter().copied().cycle().take(LEN).collect()
}

/// A client and servers with one cluster key, and a group on the loopback interface.
struct Place {
    home: tempfile::TempDir,
    runtime: tokio::runtime::Runtime,
    key: ClusterKey,
    client: Client,
    servers: Vec<Server>,
    group: SocketAddrV4,
}

impl Place {
    /// `number` distinguishes the group from those of other tests.
    fn new(servers: usize, number: u8) -> Self {
        let home = tempfile::tempdir().expect("directory");
        std::fs::write(home.path().join("object"), object()).expect("write");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("runtime");
        let key = ClusterKey::generate();
        let client = runtime.block_on(async {
            let mut config = ClientConfig::default().timeout(Duration::from_secs(5));
            config.driver.socket.bind = LOOPBACK.parse().expect("address");
            config.driver.socket.multicast_interface = Some("127.0.0.1".parse().expect("one"));
            config.driver.keys = Some(Arc::new(ring(&key)));
            Client::new(config).expect("client")
        });
        let mut place = Place {
            home,
            runtime,
            key,
            client,
            servers: Vec::new(),
            group: SocketAddrV4::new(Ipv4Addr::new(239, 255, 76, number), free_port()),
        };
        place.servers = (0..servers).map(|index| place.serve(index)).collect();
        place
    }

    fn serve(&self, index: usize) -> Server {
        let dir = self.dir(index);
        std::fs::create_dir(&dir).expect("directory");
        let mut config = ServerConfig::new(own_address(), dir);
        config.allow_put = true;
        config.interface = Some("127.0.0.1".parse().expect("an interface"));
        config.driver.keys = Some(Arc::new(ring(&self.key)));
        self.runtime.block_on(Server::bind(config)).expect("server")
    }

    fn dir(&self, index: usize) -> PathBuf {
        self.home.path().join(format!("server-{index}"))
    }

    fn put(&self, others: &[SocketAddr], quorum: Option<usize>) -> Result<PutReport, PutError> {
        let servers = self.servers.iter().map(Server::local_addr);
        let hosts: Vec<Host> = servers.chain(others.iter().copied()).map(Host::from).collect();
        let mut options = PutOptions::new("object".parse().expect("a name"));
        options.group = Some(self.group.into());
        options.quorum = quorum;
        self.runtime.block_on(self.client.put(&self.home.path().join("object"), &hosts, &options))
    }

    fn assert_have(&self, report: &PutReport) {
        for (index, receiver) in report.receivers.iter().take(self.servers.len()).enumerate() {
            assert!(matches!(receiver.state, ReceiverState::Complete(_)), "{receiver:?}");
            let file = std::fs::read(self.dir(index).join("object")).expect("read");
            assert!(file == object(), "other bytes at {index}");
        }
    }
}

fn ring(key: &ClusterKey) -> Keyring {
    Keyring::new().with_cluster(key.clone(), Rights::all())
}

fn free_port() -> u16 {
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a port");
    socket.local_addr().expect("bound").port()
}

/// A socket that hears the group; `None` where there is no multicast.
fn join(group: SocketAddrV4) -> Option<UdpSocket> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).expect("a socket");
    socket.set_reuse_address(true).expect("an option");
    socket.bind(&SocketAddr::from(group).into()).expect("bound");
    socket.set_read_timeout(Some(Duration::from_millis(1))).expect("a timeout");
    let joined = socket.join_multicast_v4(group.ip(), &Ipv4Addr::LOCALHOST);
    joined.inspect_err(|error| not_tested("no multicast here", error)).ok()?;
    Some(socket.into())
}

/// Says that a test cannot run here. In CI, where everything can, that is a failure.
fn not_tested(why: &str, error: &std::io::Error) {
    assert!(std::env::var_os("CI").is_none(), "not run: {why}: {error}");
    println!("NOT TESTED: {why}: {error}");
}

/// Sends datagrams with any source address.
struct Spoofer(Socket);

impl Spoofer {
    fn new() -> Option<Self> {
        let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::UDP));
        let socket = socket.inspect_err(|error| not_tested("no CAP_NET_RAW", error));
        let socket = socket.ok()?;
        socket.set_header_included_v4(true).expect("an option");
        socket.set_multicast_if_v4(&Ipv4Addr::LOCALHOST).expect("an option");
        Some(Spoofer(socket))
    }

    fn send(&self, from: SocketAddr, to: SocketAddr, bytes: &[u8]) {
        let (SocketAddr::V4(from), SocketAddr::V4(to)) = (from, to) else { panic!("IPv4 only") };
        // The kernel fills in length and checksum; a UDP checksum of 0 is none.
        let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 16, 17, 0, 0];
        packet.extend_from_slice(&from.ip().octets());
        packet.extend_from_slice(&to.ip().octets());
        packet.extend_from_slice(&from.port().to_be_bytes());
        packet.extend_from_slice(&to.port().to_be_bytes());
        packet.extend_from_slice(&(8 + bytes.len() as u16).to_be_bytes());
        packet.extend_from_slice(&[0, 0]);
        packet.extend_from_slice(bytes);
        // What does not fit into a queue is lost like any other packet.
        let _ = self.0.send_to(&packet, &SocketAddr::from(to).into());
    }
}

/// Does something with each datagram that goes to a group, on a thread of its own.
struct Listener {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<usize>>,
}

impl Listener {
    fn new(socket: UdpSocket, mut each: impl FnMut(&[u8], SocketAddr) + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let (mut heard, mut buffer) = (0, vec![0; 65_536]);
            while !stopped.load(Relaxed) {
                if let Some((len, from)) = receive(&socket, &mut buffer) {
                    heard += 1;
                    each(&buffer[..len], from);
                }
            }
            heard
        });
        Listener { stop, thread: Some(thread) }
    }

    /// How many datagrams were heard.
    fn stop(mut self) -> usize {
        self.stop.store(true, Relaxed);
        self.thread.take().expect("once").join().expect("no panic")
    }
}

fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> Option<(usize, SocketAddr)> {
    socket.recv_from(buffer).ok()
}

fn session_of(datagram: &[u8]) -> Option<u32> {
    let session = datagram.get(4..8).filter(|_| datagram[0] == 0x10)?;
    Some(u32::from_be_bytes(session.try_into().expect("four bytes")))
}

#[test]
fn a_group_gets_the_object_and_nothing_of_it_can_be_read() {
    let place = Place::new(3, 1);
    let Some(socket) = join(place.group) else { return };
    let (told, heard) = std::sync::mpsc::channel();
    let listener = Listener::new(socket, move |datagram, _| {
        told.send(datagram.to_vec()).expect("listened to");
    });
    let report = place.put(&[], None).expect("put");
    let count = listener.stop();
    place.assert_have(&report);
    assert!(count > 100, "the object went through the group: {count} datagrams");
    for datagram in heard {
        assert!(datagram.windows(16).all(|window| window != &PHRASE[..16]), "in clear");
        assert_eq!(datagram[0], 0x10, "symbols, and nothing else, go to a group");
        assert_eq!(datagram[21] & 0x80, 0x80, "sealed");
    }
}

#[test]
fn what_a_stranger_forges_for_a_group_does_nothing_and_is_counted() {
    let place = Place::new(2, 2);
    let (Some(socket), Some(spoofer)) = (join(place.group), Spoofer::new()) else { return };
    let (group, members) = (place.group.into(), place.servers.iter().map(Server::local_addr));
    let members: Vec<SocketAddr> = members.collect();
    let mut count = 0;
    let listener = Listener::new(socket, move |datagram, client| {
        let Some(session) = session_of(datagram).filter(|_| datagram.len() > 100) else { return };
        count += 1;
        let mut forged = datagram.to_vec();
        match count % 4 {
            // Another payload; another header before the same payload; a trimmed header of another symbol.
            0 => forged[60] ^= 1,
            1 => forged[15] ^= 1,
            2 => {
                forged.truncate(32);
                forged[11] ^= 1;
            }
            _ => {
                let (sbn, granted, floor) = (0, 60_000, 1_000);
                let (first, run, epoch, fin) = (None, 1, 0, true);
                let pull = Pull { sbn, first, granted, floor, run, epoch, fin };
                let mut bytes = [0; 72];
                let session = SessionId(session);
                let len = emit(session, &ScdpHeader::Pull(pull), &[0; 32], 0, &mut bytes);
                return spoofer.send(members[0], client, &bytes[..len]);
            }
        }
        // The group, and a member's own port.
        spoofer.send(client, group, &forged);
        spoofer.send(client, members[0], &forged);
    });
    let report = place.put(&[], None).expect("put");
    listener.stop();
    place.assert_have(&report);
    for server in &place.servers {
        let statistics = server.statistics().expect("running");
        let trust = statistics.trust.expect("keys");
        println!("{trust:?}");
        assert!(trust.forged + trust.replayed > 100, "{trust:?}");
        assert_eq!(statistics.received.groups_left, 0);
    }
    let trust = place.client.statistics().expect("running").trust.expect("keys");
    assert!(trust.clear > 10, "pulls: {trust:?}");
}

/// A member that takes offers and keys as a server does, and has no use for the object.
struct Member {
    socket: UdpSocket,
    channels: Channels,
    began: Instant,
    /// The last key it was given, and the session.
    key: Option<(u32, GroupKey)>,
    answers_keys: bool,
}

impl Member {
    fn new(key: &ClusterKey) -> Self {
        let socket = UdpSocket::bind(LOOPBACK).expect("a socket");
        socket.set_read_timeout(Some(Duration::from_millis(1))).expect("a timeout");
        let channels = Channels::new(Arc::new(ring(key)), 8, [3; 32]);
        Member { socket, channels, began: Instant::now(), key: None, answers_keys: true }
    }

    fn serve_once(&mut self) {
        let (mut datagram, mut plain, mut answer) = (vec![0; 2_048], vec![0; 2_048], Vec::new());
        let Ok((len, from)) = self.socket.recv_from(&mut datagram) else { return };
        let micros = self.began.elapsed().as_micros() as u64;
        let now = Time::ZERO + wellspring_core::Duration::from_micros(micros);
        let opened =
            self.channels.open(now, (from, None), &datagram[..len], None, &mut plain, &mut answer);
        if !answer.is_empty() {
            self.socket.send_to(&answer, from).expect("sent");
        }
        let Opened::Datagram { len, via } = opened else { return };
        let Ok(Parsed::Request { nonce, request, .. }) = control::parse(&plain[..len]) else {
            return;
        };
        let reply = match request {
            Request::Offer(_) | Request::Status { .. } => {
                Reply::Status { state: PutState::Receiving, blocks_done: 0, blocks_total: 1 }
            }
            Request::GroupKey(key) => {
                let (secret, session) = (*key.secret, key.session.0);
                let known = GroupKey::from_parts(secret, key.generation, key.suite);
                self.key = Some((session, known.expect("a cipher")));
                if !self.answers_keys {
                    return;
                }
                Reply::Accepted
            }
            _ => Reply::Accepted,
        };
        let mut bytes = Vec::new();
        control::emit_reply(nonce, &reply, &mut bytes);
        let mut sealed = vec![0; bytes.len() + MAX_OVERHEAD];
        sealed[HEADROOM..HEADROOM + bytes.len()].copy_from_slice(&bytes);
        self.channels
            .seal(from, Via::Channel(via), &mut sealed, bytes.len(), 0)
            .expect("a channel");
        self.socket.send_to(&sealed, from).expect("sent");
    }
}

/// A member that forges symbols with the group's key and the sender's address, on a thread of its own.
struct Forger {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    /// How many it has forged.
    thread: JoinHandle<usize>,
}

impl Forger {
    /// Makes one in plain of each sealed symbol that is heard; `None` where it cannot.
    fn new(place: &Place, forge: fn(&[u8]) -> Vec<u8>) -> Option<Self> {
        let (socket, spoofer) = (join(place.group)?, Spoofer::new()?);
        socket.set_nonblocking(true).expect("an option");
        let member = Member::new(&place.key);
        let address = member.socket.local_addr().expect("bound");
        let group = SocketAddr::from(place.group);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut member = member;
            let (mut buffer, mut forged, mut ready) = (vec![0; 65_536], 0, BTreeSet::new());
            while !stopped.load(Relaxed) {
                member.serve_once();
                let Some((session, key)) = &member.key else { continue };
                if ready.insert(*session) {
                    assert!(member.channels.send_to_group(group, *session, key));
                    let mut room = [0; 100 + MAX_OVERHEAD];
                    for _ in 0..AHEAD {
                        let of = (group, *session);
                        member.channels.seal_for_group(of, &mut room, 100, HEADER_LEN);
                    }
                }
                while let Some((len, client)) = receive(&socket, &mut buffer) {
                    let datagram = &buffer[..len];
                    let (is_first, is_own) = (datagram[1] & 4 != 0, counter_of(datagram) >= AHEAD);
                    if session_of(datagram) != Some(*session) || is_first || is_own {
                        continue;
                    }
                    let plain = forge(datagram);
                    let mut room = vec![0; plain.len() + MAX_OVERHEAD];
                    room[HEADROOM..HEADROOM + plain.len()].copy_from_slice(&plain);
                    let (of, len) = ((group, *session), plain.len());
                    if member.channels.seal_for_group(of, &mut room, len, HEADER_LEN).is_some() {
                        spoofer.send(client, group, &room);
                        forged += 1;
                    }
                }
            }
            forged
        });
        Some(Forger { address, stop, thread })
    }

    /// Has a group with it among its members get the object.
    fn put(self, place: &Place) {
        let report = place.put(&[self.address], Some(place.servers.len()));
        self.stop.store(true, Relaxed);
        let forged = self.thread.join().expect("no panic");
        place.assert_have(&report.expect("the others have it"));
        let statistics = || place.servers.iter().map(|s| s.statistics().expect("running").received);
        let left: u64 = statistics().map(|received| received.groups_left).sum();
        println!("{forged} symbols forged by a member, {left} members left the group");
        assert!(forged > 10, "then nothing is shown");
        assert!(left > 0, "wrong symbols were taken, and found to be wrong");
        assert!(statistics().all(|received| received.refused_senders == 0), "nobody is blamed");
    }
}

#[test]
fn a_member_cannot_make_another_take_a_wrong_byte() {
    let place = Place::new(2, 3);
    // Other bytes of a symbol that is still to come: of its own header, which the key makes authentic.
    let forger = Forger::new(&place, |datagram| {
        let mut plain = vec![0x66; datagram.len() - MAX_OVERHEAD];
        plain[..HEADER_LEN].copy_from_slice(&datagram[..HEADER_LEN]);
        step_ahead(&mut plain);
        plain
    });
    let Some(forger) = forger else { return };
    forger.put(&place);
}

#[test]
fn a_member_cannot_have_another_refuse_the_sender() {
    let place = Place::new(2, 4);
    // A symbol that announces another object.
    let forger = Forger::new(&place, |datagram| {
        let options = Options {
            transfer_len: LEN as u64,
            object_tag: 0,
            source_blocks: 1,
            symbol_size: 100,
            mode: Mode::OneToMany,
            initial_window: 1,
        };
        let (session, symbol) = symbol_of(datagram);
        let header = ScdpHeader::Symbol(Symbol { options: Some(options), ..symbol });
        let mut plain = vec![0x66; 72 + 100];
        emit(session, &header, &[0x66; 32], 100, &mut plain);
        set_tagged(&mut plain, true);
        plain
    });
    let Some(forger) = forger else { return };
    forger.put(&place);
}

#[test]
fn a_host_that_may_have_the_key_and_is_no_member_gets_no_other() {
    let place = Place::new(2, 5);
    let Some(socket) = join(place.group) else { return };
    let (told, heard) = std::sync::mpsc::channel();
    let listener = Listener::new(socket, move |datagram, _| {
        told.send(datagram.to_vec()).expect("listened to");
    });
    let mut member = Member { answers_keys: false, ..Member::new(&place.key) };
    let address = member.socket.local_addr().expect("bound");
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let silent = std::thread::spawn(move || {
        while !stopped.load(Relaxed) {
            member.serve_once();
        }
        member.key.is_some()
    });
    let report = place.put(&[address], Some(2));
    stop.store(true, Relaxed);
    assert!(silent.join().expect("no panic"), "it has got the first key");
    let heard_of = listener.stop();
    place.assert_have(&report.expect("the others have it"));
    assert!(heard_of > 100, "the object went through the group: {heard_of} datagrams");
    let generations: BTreeSet<u8> = heard.iter().map(|datagram| datagram[32] & 0x7f).collect();
    assert!(!generations.contains(&0), "{generations:?}: the first key is not used");
}

/// The counter of a sealed symbol.
fn counter_of(datagram: &[u8]) -> u64 {
    let counter = datagram.get(32..40).map_or([0; 8], |c| c.try_into().expect("eight bytes"));
    u64::from_be_bytes(counter) & 0xff_ffff_ffff_ffff
}

/// Makes the header of a sealed symbol that of a symbol seven further on, to be sealed.
fn step_ahead(datagram: &mut [u8]) {
    let (session, symbol) = symbol_of(datagram);
    let (esi, number) = (symbol.esi + 7, symbol.number + 7);
    let ahead = ScdpHeader::Symbol(Symbol { esi, number, ..symbol });
    let payload_len = (datagram.len() - HEADER_LEN) as u16;
    emit(session, &ahead, &[0; 32], payload_len, datagram);
    set_tagged(datagram, true);
}

/// Session and header of a sealed symbol.
fn symbol_of(datagram: &[u8]) -> (SessionId, Symbol) {
    let mut header = datagram[..HEADER_LEN].to_vec();
    set_tagged(&mut header, false);
    let parsed = parse(&header).expect("a header of ours");
    match parsed.header {
        ScdpHeader::Symbol(symbol) => (parsed.session, symbol),
        ScdpHeader::Pull(_) | ScdpHeader::Close(_) => panic!("only symbols go to a group"),
    }
}
