//! Two hosts, and whoever stands between them, datagram by datagram.

mod floods;
mod others;

use std::net::SocketAddr;
use std::sync::Arc;

use wellspring_core::{Duration, Time};
use wellspring_trust::{
    Channels, ClusterKey, Folders, Keyring, MAX_OVERHEAD, NoWay, Opened, Peer, PrivateKey,
    PublicKey, Refusal, Rights, Via,
};

const REQUEST: &[u8] = &[0x18; 256];

fn at(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn client() -> SocketAddr {
    at("192.0.2.1:5000")
}

fn server() -> SocketAddr {
    at("192.0.2.2:4711")
}

fn now(millis: u64) -> Time {
    Time::ZERO + Duration::from_millis(1_000_000 + millis)
}

fn peer(name: &str, key: PublicKey, rights: Rights) -> Peer {
    Peer { name: name.to_owned(), key, rights, addresses: Vec::new() }
}

fn reader() -> Rights {
    Rights { read: Folders::all(), ..Rights::default() }
}

fn server_rights() -> Rights {
    Rights { serve: true, ..Rights::default() }
}

fn channels(keyring: Keyring, secret: u8) -> Channels {
    Channels::new(Arc::new(keyring), 8, [secret; 32])
}

/// A client and a server that have pinned each other's keys.
fn pinned() -> (Channels, Channels) {
    let (a, b) = (PrivateKey::generate(), PrivateKey::generate());
    let (for_a, for_b) = (peer("b", b.public(), server_rights()), peer("a", a.public(), reader()));
    (
        channels(Keyring::new().with_own(a).with_peer(for_a), 1),
        channels(Keyring::new().with_own(b).with_peer(for_b), 2),
    )
}

struct Heard {
    opened: Opened,
    plain: Vec<u8>,
    answer: Vec<u8>,
}

fn hear(host: &mut Channels, time: Time, from: SocketAddr, datagram: &[u8]) -> Heard {
    let (mut plain, mut answer) = (vec![0; 2_000], Vec::new());
    let opened = host.open(time, (from, None), datagram, None, &mut plain, &mut answer);
    if let Opened::Datagram { len, .. } = opened {
        plain.truncate(len);
    }
    Heard { opened, plain, answer }
}

fn request(host: &mut Channels, time: Time) -> Vec<u8> {
    let mut out = Vec::new();
    host.request(time, server(), (REQUEST, false), &mut out).expect("a way");
    out
}

fn seal(host: &mut Channels, to: SocketAddr, byte: u8) -> Option<Vec<u8>> {
    let mut room = vec![byte; 300 + MAX_OVERHEAD];
    let len = host.seal(to, Via::Any, &mut room, 300, 0)?;
    room.truncate(len);
    Some(room)
}

/// Makes a channel; the client has sent nothing by it yet.
fn meet(a: &mut Channels, b: &mut Channels, time: Time) -> Vec<u8> {
    let initiation = request(a, time);
    let heard = hear(b, time, client(), &initiation);
    assert!(matches!(heard.opened, Opened::Datagram { .. }), "{:?}", heard.opened);
    assert_eq!(heard.plain, REQUEST);
    assert_eq!(hear(a, time, server(), &heard.answer).opened, Opened::Established);
    initiation
}

#[test]
fn one_round_trip_makes_a_channel_and_answers_a_request() {
    let (mut a, mut b) = pinned();
    let initiation = request(&mut a, now(0));
    let heard = hear(&mut b, now(0), client(), &initiation);
    let Opened::Datagram { via, .. } = heard.opened else { panic!("{:?}", heard.opened) };
    assert_eq!(b.identity(client(), via).expect("known").name, "a");
    let mut reply = vec![0x19; 256 + MAX_OVERHEAD];
    let len = b.seal(client(), Via::Channel(via), &mut reply, 256, 0).expect("a channel");
    assert!(heard.answer.len() + len <= initiation.len(), "no amplification");
    hear(&mut a, now(0), server(), &heard.answer);
    assert_eq!(hear(&mut a, now(0), server(), &reply[..len]).plain, [0x19; 256]);
    let sealed = request(&mut a, now(1));
    assert_eq!(hear(&mut b, now(1), client(), &sealed).plain, REQUEST);
}

#[test]
fn a_channel_serves_further_ports_of_its_owner_and_nobody_elses() {
    let (mut a, mut b) = pinned();
    meet(&mut a, &mut b, now(0));
    let (port, elsewhere) = (at("192.0.2.1:5001"), at("192.0.2.9:5001"));
    let sealed = seal(&mut a, server(), 1).expect("a channel");
    assert_eq!(hear(&mut b, now(1), elsewhere, &sealed).opened, Opened::Nothing);
    assert!(seal(&mut b, port, 2).is_none(), "nothing has come from there");
    let heard = hear(&mut b, now(1), port, &sealed);
    let Opened::Datagram { via, .. } = heard.opened else { panic!("{:?}", heard.opened) };
    assert_eq!(b.identity(port, via).expect("known").name, "a");
    assert_eq!(hear(&mut b, now(1), client(), &sealed).opened, Opened::Nothing, "replayed");
    let answer = seal(&mut b, port, 2).expect("a channel");
    assert!(matches!(hear(&mut a, now(1), server(), &answer).opened, Opened::Datagram { .. }));
    let mut forged = seal(&mut a, server(), 3).expect("a channel");
    forged[200] ^= 1;
    assert_eq!(hear(&mut b, now(1), at("192.0.2.1:5002"), &forged).opened, Opened::Nothing);
    assert!(seal(&mut b, at("192.0.2.1:5002"), 4).is_none());
}

#[test]
fn lost_answers_are_repeated_and_make_no_second_channel() {
    let (mut a, mut b) = pinned();
    let first = request(&mut a, now(0));
    let lost = hear(&mut b, now(0), client(), &first).answer;
    let again = request(&mut a, now(100));
    assert_eq!(again, first);
    let heard = hear(&mut b, now(100), client(), &again);
    assert_eq!((heard.opened, &heard.answer), (Opened::Nothing, &lost));
    hear(&mut a, now(100), server(), &heard.answer);
    let sealed = seal(&mut a, server(), 1).expect("a channel");
    assert!(matches!(hear(&mut b, now(101), client(), &sealed).opened, Opened::Datagram { .. }));
    assert_eq!((a.counters().handshakes, b.counters().handshakes), (1, 1));
}

#[test]
fn a_replayed_handshake_takes_nothing_over() {
    let (mut a, mut b) = pinned();
    let initiation = meet(&mut a, &mut b, now(0));
    let sealed = seal(&mut a, server(), 1).expect("a channel");
    hear(&mut b, now(1), client(), &sealed);
    // From the same address, and from another.
    for from in [client(), at("198.51.100.9:9")] {
        let heard = hear(&mut b, now(2), from, &initiation);
        assert_eq!(heard.opened, Opened::Nothing);
    }
    assert_eq!(
        hear(&mut b, now(2), client(), &sealed).opened,
        Opened::Nothing,
        "a datagram, again"
    );
    assert_eq!((b.counters().handshakes_replayed, b.counters().replayed), (2, 1));
    let back = seal(&mut b, client(), 2).expect("a channel");
    assert!(matches!(hear(&mut a, now(3), server(), &back).opened, Opened::Datagram { .. }));
}

#[test]
fn an_initiation_that_is_sent_back_makes_no_channel_with_oneself() {
    let ring = Keyring::new().with_cluster(ClusterKey::generate(), Rights::all());
    let mut a = channels(ring, 1);
    let initiation = request(&mut a, now(0));
    let heard = hear(&mut a, now(0), server(), &initiation);
    assert_eq!((heard.opened, heard.answer.len()), (Opened::Nothing, 0));
    assert_eq!(a.counters().handshakes_replayed, 1);
}

#[test]
fn keys_that_are_not_trusted_are_refused_by_name_of_the_reason() {
    let (a, b, stranger) = (PrivateKey::generate(), PrivateKey::generate(), PrivateKey::generate());
    let (a_key, b_key) = (a.public(), b.public());
    let refusal_of = |client_ring: Keyring, server_ring: Keyring| {
        let (mut client_side, mut server_side) =
            (channels(client_ring, 1), channels(server_ring, 2));
        let initiation = request(&mut client_side, now(0));
        let heard = hear(&mut server_side, now(0), client(), &initiation);
        assert_eq!(heard.opened, Opened::Nothing);
        assert!(seal(&mut server_side, client(), 1).is_none(), "nothing goes to a stranger");
        hear(&mut client_side, now(0), server(), &heard.answer).opened
    };
    let as_stranger =
        Keyring::new().with_own(stranger).with_peer(peer("b", b_key, server_rights()));
    let serving = Keyring::new().with_own(b).with_peer(peer("a", a_key, reader()));
    assert_eq!(refusal_of(as_stranger, serving), Opened::Refused(Refusal::NotTrusted));
    let pins_another = Keyring::new().with_own(a).with_peer(peer("b", b_key, server_rights()));
    let another =
        Keyring::new().with_own(PrivateKey::generate()).with_peer(peer("a", a_key, reader()));
    assert_eq!(refusal_of(pins_another, another), Opened::Refused(Refusal::WrongKey));
    let (one, two) = (ClusterKey::generate(), ClusterKey::generate());
    let ring = |key: ClusterKey| Keyring::new().with_cluster(key, Rights::all());
    assert_eq!(refusal_of(ring(one), ring(two)), Opened::Refused(Refusal::WrongKey));
}

#[test]
fn a_forged_refusal_needs_the_id_of_the_handshake() {
    let (mut a, _) = pinned();
    let initiation = request(&mut a, now(0));
    let mut refusal = vec![0; 16];
    (refusal[0], refusal[1]) = (0x1f, 1);
    assert_eq!(hear(&mut a, now(0), server(), &refusal).opened, Opened::Nothing);
    refusal[8..16].copy_from_slice(&initiation[8..16]);
    assert_eq!(hear(&mut a, now(0), at("192.0.2.3:4711"), &refusal).opened, Opened::Nothing);
    assert_eq!(
        hear(&mut a, now(0), server(), &refusal).opened,
        Opened::Refused(Refusal::NotTrusted)
    );
}

#[test]
fn a_cluster_key_is_changed_without_a_break() {
    let (old, new) = (ClusterKey::generate(), ClusterKey::generate());
    let ring = |keys: &[&ClusterKey]| {
        let add =
            |ring: Keyring, key: &&ClusterKey| ring.with_cluster((*key).clone(), Rights::all());
        keys.iter().fold(Keyring::new(), add)
    };
    // Everybody has the old one; then accepts the new one; then uses it; then forgets the old one.
    let steps: [&[&ClusterKey]; 4] = [&[&old], &[&old, &new], &[&new, &old], &[&new]];
    for pair in steps.windows(2) {
        for (a, b) in [(pair[0], pair[1]), (pair[1], pair[0])] {
            meet(&mut channels(ring(a), 1), &mut channels(ring(b), 2), now(0));
        }
    }
}

#[test]
fn of_several_servers_keys_the_right_one_is_asked_for() {
    let (a, b, c) = (PrivateKey::generate(), PrivateKey::generate(), PrivateKey::generate());
    let (b_key, c_key) = (b.public(), c.public());
    let trusted = |ring: Keyring, at: &str| {
        let b = Peer {
            addresses: vec![at.parse().expect("an address")],
            ..peer("b", b_key, server_rights())
        };
        ring.with_peer(b).with_peer(peer("c", c_key, server_rights()))
    };
    let mut c_host =
        channels(Keyring::new().with_own(c).with_peer(peer("a", a.public(), reader())), 2);
    let mut a_host = channels(
        Keyring::new().with_own(a).with_peer(peer("b", b_key, server_rights())).with_peer(peer(
            "c",
            c_key,
            server_rights(),
        )),
        1,
    );
    let hello = request(&mut a_host, now(0));
    let retry = hear(&mut c_host, now(0), client(), &hello).answer;
    assert!(retry.len() <= hello.len(), "no amplification");
    let initiation = hear(&mut a_host, now(0), server(), &retry).answer;
    let heard = hear(&mut c_host, now(0), client(), &initiation);
    assert_eq!(heard.plain, REQUEST);
    hear(&mut a_host, now(0), server(), &heard.answer);
    assert!(seal(&mut a_host, server(), 1).is_some());
    // A host that says it is at the address of another is not believed, whatever key it has.
    let own = PrivateKey::generate();
    let mut careful = channels(trusted(Keyring::new().with_own(own), "192.0.2.2"), 3);
    let greeting = request(&mut careful, now(0));
    assert_eq!(greeting[0], 0x1c, "the owner of the address is greeted, nobody is asked");
    assert!(hear(&mut c_host, now(0), client(), &greeting).plain.len() > 300, "not read");
}

#[test]
fn a_server_whose_key_is_not_trusted_is_named() {
    let own = PrivateKey::generate();
    let serving = |key: &PrivateKey| peer("x", key.public(), server_rights());
    let (x, y) = (PrivateKey::generate(), PrivateKey::generate());
    let y = Peer { name: "y".to_owned(), ..serving(&y) };
    let mut a = channels(Keyring::new().with_own(own).with_peer(serving(&x)).with_peer(y), 1);
    let key = PrivateKey::generate().public();
    let hello = request(&mut a, now(0));
    let mut retry = vec![0; 64];
    retry[0] = 0x1b;
    retry[8..16].copy_from_slice(&hello[8..16]);
    let digits = key.to_string();
    for (i, byte) in retry[32..].iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[5 + 2 * i..7 + 2 * i], 16).expect("digits");
    }
    assert_eq!(hear(&mut a, now(0), server(), &retry).opened, Opened::UnknownServer(key));
}

#[test]
fn a_server_that_has_forgotten_is_greeted_anew() {
    let (a, b) = (PrivateKey::generate(), PrivateKey::generate());
    let text = wellspring_trust::private_to_text(&b);
    let again = || wellspring_trust::private_from_text(&text).expect("a key");
    let a_peer = peer("a", a.public(), reader());
    let server_of =
        |secret| channels(Keyring::new().with_own(again()).with_peer(a_peer.clone()), secret);
    let mut a_host =
        channels(Keyring::new().with_own(a).with_peer(peer("b", b.public(), server_rights())), 1);
    let mut first = server_of(2);
    meet(&mut a_host, &mut first, now(0));
    let mut second = server_of(3);
    for at in [100, 200, 399] {
        let sealed = request(&mut a_host, now(at));
        assert_eq!(hear(&mut second, now(at), client(), &sealed).opened, Opened::Nothing);
    }
    assert_eq!(second.counters().forged, 3);
    meet(&mut a_host, &mut second, now(400));
}

#[test]
fn many_requests_at_one_time_need_no_handshake() {
    let (mut a, mut b) = pinned();
    meet(&mut a, &mut b, now(0));
    for _ in 0..20 {
        let sealed = request(&mut a, now(1));
        assert_eq!(hear(&mut b, now(1), client(), &sealed).plain, REQUEST);
    }
    assert_eq!(b.counters().handshakes, 1);
}

#[test]
fn requests_wait_for_the_handshake_that_carries_another() {
    let (mut a, mut b) = pinned();
    let initiation = request(&mut a, now(0));
    let (mut out, mut requests) = (Vec::new(), Vec::new());
    for byte in 0..3 {
        requests.push([byte; 256]);
        a.request(now(1), server(), (&requests[usize::from(byte)], false), &mut out)
            .expect("a way");
        assert!(out.is_empty(), "it waits");
    }
    a.request(now(100), server(), (&requests[0], false), &mut out).expect("a way");
    assert_eq!(out, initiation, "who asks again has the handshake repeated");
    let heard = hear(&mut b, now(0), client(), &initiation);
    assert_eq!(hear(&mut a, now(1), server(), &heard.answer).opened, Opened::Established);
    for request in requests {
        assert!(a.next_waiting(server(), &mut out));
        assert_eq!(hear(&mut b, now(1), client(), &out).plain, request);
    }
    assert!(!a.next_waiting(server(), &mut out));
}

#[test]
fn another_key_does_not_take_over_an_address_in_conversation() {
    let (a, b, rival) = (PrivateKey::generate(), PrivateKey::generate(), PrivateKey::generate());
    let b_key = b.public();
    let ring = Keyring::new().with_peer(peer("a", a.public(), reader())).with_peer(peer(
        "rival",
        rival.public(),
        reader(),
    ));
    let mut b_host = channels(ring.with_own(b), 2);
    let of = |own, secret| {
        channels(Keyring::new().with_own(own).with_peer(peer("b", b_key, server_rights())), secret)
    };
    let (mut a_host, mut rival_host) = (of(a, 1), of(rival, 3));
    // A handshake before the conversation, its first datagram after it has begun.
    let early = request(&mut rival_host, now(0));
    let response = hear(&mut b_host, now(0), client(), &early).answer;
    hear(&mut rival_host, now(0), server(), &response);
    meet(&mut a_host, &mut b_host, now(1));
    let sealed = seal(&mut a_host, server(), 1).expect("a channel");
    hear(&mut b_host, now(2), client(), &sealed);
    let late = seal(&mut rival_host, server(), 1).expect("a channel");
    assert_eq!(hear(&mut b_host, now(3), client(), &late).opened, Opened::Nothing);
    let initiation = request(&mut of(PrivateKey::generate(), 4), now(3));
    assert_eq!(hear(&mut b_host, now(3), client(), &initiation).opened, Opened::Nothing);
    let back = seal(&mut b_host, client(), 2).expect("a channel");
    assert!(
        matches!(hear(&mut a_host, now(4), server(), &back).opened, Opened::Datagram { .. }),
        "still with a"
    );
    assert_eq!(b_host.counters().handshakes_conflicting, 1);
}

#[test]
fn a_new_channel_of_the_same_mark_is_not_taken_for_replays_of_the_old_one() {
    const MARK_AT: usize = 8;
    let (a, b) = (PrivateKey::generate(), PrivateKey::generate());
    let (b_key, for_b) = (b.public(), peer("a", a.public(), reader()));
    let mut b_host = channels(Keyring::new().with_own(b).with_peer(for_b), 2);
    let a = Arc::new(Keyring::new().with_own(a).with_peer(peer("b", b_key, server_rights())));
    // The client begins again from its port, and its other end does not forget, until a mark comes twice running:
    // 1 in 128 does.
    let mut marks = Vec::new();
    for life in 0..10_000_u64 {
        let mut a_host = Channels::new(Arc::clone(&a), 8, [life as u8; 32]);
        meet(&mut a_host, &mut b_host, now(1_000 * life));
        let sealed = seal(&mut a_host, server(), 1).expect("a channel");
        let first = hear(&mut b_host, now(1_000 * life + 1), client(), &sealed).opened;
        assert!(matches!(first, Opened::Datagram { .. }), "life {life}: {first:?}");
        let again = hear(&mut b_host, now(1_000 * life + 2), client(), &sealed).opened;
        assert_eq!(again, Opened::Nothing);
        assert_eq!(b_host.counters().replayed, life + 1, "a replay is told from a forgery");
        if marks.last() == Some(&sealed[MARK_AT]) {
            return;
        }
        marks.push(sealed[MARK_AT]);
    }
    panic!("no mark came twice running: {marks:?}");
}

#[test]
fn a_flood_of_handshakes_is_asked_for_cookies_and_an_honest_client_gets_through() {
    let (mut a, mut b) = pinned();
    let mut junk = vec![0; 384];
    (junk[0], junk[4]) = (0x1c, 96);
    for i in 0..80_u32 {
        junk[32..36].copy_from_slice(&i.to_be_bytes());
        hear(&mut b, now(0), at("203.0.113.5:1"), &junk);
    }
    assert!(b.counters().handshakes_put_off >= 10);
    let initiation = request(&mut a, now(0));
    let retry = hear(&mut b, now(0), client(), &initiation).answer;
    assert_eq!(retry[0], 0x1b, "a cookie first");
    let again = hear(&mut a, now(0), server(), &retry).answer;
    assert_eq!(hear(&mut b, now(0), client(), &again).plain, REQUEST);
}

#[test]
fn the_table_is_bounded() {
    let (a, mut b) = pinned();
    drop(a);
    let key = ClusterKey::generate();
    let mut a = channels(Keyring::new().with_cluster(key, Rights::all()), 1);
    for port in 1..100 {
        let mut out = Vec::new();
        a.request(now(0), SocketAddr::new(server().ip(), port), (REQUEST, false), &mut out)
            .expect("a way");
    }
    assert!(format!("{:?}", a.counters()).contains("sealed: 0"));
    assert!(hear(&mut b, now(0), client(), &[0x1e; 16]).answer.is_empty());
}

#[test]
fn without_a_key_for_a_server_there_is_no_way() {
    let own = PrivateKey::generate();
    let reader_only = peer("x", PrivateKey::generate().public(), reader());
    let mut a = channels(Keyring::new().with_own(own).with_peer(reader_only), 1);
    assert_eq!(
        a.request(now(0), server(), (REQUEST, false), &mut Vec::new()),
        Err(NoWay::NoServerKey)
    );
    let mut cluster =
        channels(Keyring::new().with_cluster(ClusterKey::generate(), Rights::all()), 1);
    assert_eq!(
        cluster.request(now(0), server(), (&[0; 1_400], false), &mut Vec::new()),
        Err(NoWay::TooLong)
    );
}

#[test]
fn cut_and_garbled_handshakes_do_no_harm() {
    let (mut a, mut b) = pinned();
    let initiation = request(&mut a, now(0));
    for cut in 1..initiation.len() {
        assert_eq!(
            hear(&mut b, now(0), client(), &initiation[..cut]).opened,
            Opened::Nothing,
            "{cut}"
        );
    }
    let heard = hear(&mut b, now(0), client(), &initiation);
    for cut in 0..heard.answer.len() {
        hear(&mut a, now(0), server(), &heard.answer[..cut]);
    }
    for at in 0..heard.answer.len() {
        let mut garbled = heard.answer.clone();
        garbled[at] ^= 0x40;
        hear(&mut a, now(0), server(), &garbled);
    }
    assert!(seal(&mut a, server(), 1).is_none(), "no channel yet");
    hear(&mut a, now(0), server(), &heard.answer);
    assert!(seal(&mut a, server(), 1).is_some());
}
