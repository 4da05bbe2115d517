//! Hosts with keys that are trusted for something, at addresses where they are not; and copies of what was cut.

use wellspring_trust::{Fingerprint, Shape};

use super::*;

/// A client of the server, and a peer of its that may only read, and would greet it.
fn client_and_bob() -> (Channels, Channels) {
    let [own, b, bob] = [(); 3].map(|()| PrivateKey::generate());
    let ring = Keyring::new()
        .with_peer(Peer {
            addresses: vec![server().ip()],
            ..peer("b", b.public(), server_rights())
        })
        .with_peer(peer("bob", bob.public(), reader()));
    let of_bob = Keyring::new().with_own(bob).with_peer(peer("a", own.public(), server_rights()));
    (channels(ring.with_own(own), 1).of_client(), channels(of_bob, 2))
}

#[test]
fn who_may_only_read_cannot_greet_a_client_and_be_taken_for_a_server() {
    let (mut a, mut bob) = client_and_bob();
    let (asked, mut out) = (request(&mut a, now(0)), Vec::new());
    // He is at the address that the client asks, does not answer, and greets it from there.
    bob.request(now(0), client(), (REQUEST, false), &mut out).expect("a way");
    let heard = hear(&mut a, now(0), server(), &out);
    assert_eq!((heard.opened, heard.answer.len()), (Opened::Nothing, 0));
    let mut hello = vec![0; 64];
    hello[0] = 0x1a;
    assert!(hear(&mut a, now(0), server(), &hello).answer.is_empty(), "nor learns its key");
    assert_eq!(a.counters().handshakes_wrong, 2);
    assert!(seal(&mut a, server(), 1).is_none(), "nothing leaves for him");
    assert_eq!(request(&mut a, now(100)), asked, "the server is greeted again");
}

#[test]
fn only_keys_that_may_serve_at_an_address_are_greeted_there() {
    let way = |ring: Keyring| {
        let mut out = Vec::new();
        channels(ring, 1).request(now(0), server(), (REQUEST, false), &mut out)
    };
    let cluster = |rights| Keyring::new().with_cluster(ClusterKey::generate(), rights);
    assert_eq!(way(cluster(Rights::all())), Ok(()));
    assert_eq!(way(cluster(reader())), Err(NoWay::NoServerKey), "a cluster that may only read");
    let bound = |ip: &str| Peer {
        addresses: vec![ip.parse().expect("an address")],
        ..peer("b", PrivateKey::generate().public(), server_rights())
    };
    let elsewhere = cluster(Rights::all()).with_peer(bound("192.0.2.77"));
    assert_eq!(way(elsewhere), Ok(()));
    let here = cluster(Rights::all()).with_peer(bound("192.0.2.2"));
    assert_eq!(way(here), Err(NoWay::NoServerKey), "the address is another key's");
}

#[test]
fn where_sessions_are_one_keys_no_other_speaks_however_long_it_is_silent() {
    let [a, b, rival] = [(); 3].map(|()| PrivateKey::generate());
    let (b_key, holder) = (b.public(), a.public().fingerprint());
    let ring = Keyring::new().with_peer(peer("a", a.public(), reader())).with_peer(peer(
        "rival",
        rival.public(),
        reader(),
    ));
    let of = |own, secret| {
        channels(Keyring::new().with_own(own).with_peer(peer("b", b_key, server_rights())), secret)
    };
    let (mut a_host, mut rival_host) = (of(a, 1), of(rival, 3));
    let mut b_host = channels(ring.with_own(b), 2);
    meet(&mut a_host, &mut b_host, now(0));
    let sealed = seal(&mut a_host, server(), 1).expect("a channel");
    hear(&mut b_host, now(1), client(), &sealed);
    // What she sends is held back for longer than an address is hers without sessions.
    let (later, mut plain, mut answer) = (now(60_000), vec![0; 2_000], Vec::new());
    let initiation = request(&mut rival_host, later);
    let mut open = |host: &mut Channels, holder: Option<Fingerprint>, datagram: &[u8]| {
        host.open(later, (client(), holder), datagram, None, &mut plain, &mut answer)
    };
    assert_eq!(open(&mut b_host, Some(holder), &initiation), Opened::Nothing);
    assert_eq!(b_host.counters().handshakes_conflicting, 1);
    // One that was begun before the session, or with another of her channels gone.
    let response = hear(&mut b_host, later, client(), &initiation).answer;
    assert_eq!(hear(&mut rival_host, later, server(), &response).opened, Opened::Established);
    let from_rival = seal(&mut rival_host, server(), 1).expect("a channel");
    assert_eq!(open(&mut b_host, Some(holder), &from_rival), Opened::Nothing);
    let mut sealed_for = |via| {
        let mut room = vec![2; 300 + MAX_OVERHEAD];
        b_host.seal(client(), via, &mut room, 300, 0).map(|_| room)
    };
    let to_her = sealed_for(Via::Key(holder)).expect("her channel");
    assert!(matches!(hear(&mut a_host, later, server(), &to_her).opened, Opened::Datagram { .. }));
    let stranger = PrivateKey::generate().public().fingerprint();
    assert!(sealed_for(Via::Key(stranger)).is_none(), "nothing goes to whoever is there");
    assert!(matches!(open(&mut b_host, None, &from_rival), Opened::Datagram { .. }));
    let mut room = vec![3; 300 + MAX_OVERHEAD];
    b_host.seal(client(), Via::Key(holder), &mut room, 300, 0).expect("her channel still");
    assert!(matches!(hear(&mut a_host, later, server(), &room).opened, Opened::Datagram { .. }));
}

/// A symbol of 100 bytes, cut behind its header and the tag of that.
fn cut_symbol(host: &mut Channels, to: SocketAddr) -> Vec<u8> {
    let mut room = vec![0x10; 124 + MAX_OVERHEAD];
    host.seal(to, Via::Any, &mut room, 124, 24).expect("a channel");
    room.truncate(64);
    room
}

fn hear_symbol(host: &mut Channels, time: Time, from: SocketAddr, datagram: &[u8]) -> Opened {
    let shape = Some(Shape { clear: 24, len: 124 });
    host.open(time, (from, None), datagram, shape, &mut [0; 2_000], &mut Vec::new())
}

#[test]
fn a_cut_symbol_played_again_is_no_sign_of_life_and_confirms_no_handshake() {
    let (mut a, mut b) = pinned();
    meet(&mut a, &mut b, now(0));
    let unconfirmed = cut_symbol(&mut a, server());
    assert_eq!(hear_symbol(&mut b, now(1), client(), &unconfirmed), Opened::Nothing);
    let first = seal(&mut a, server(), 1).expect("a channel");
    hear(&mut b, now(1), client(), &first);
    let cut = cut_symbol(&mut b, client());
    for at in [100, 200, 399] {
        assert_eq!(request(&mut a, now(at))[0], 0x1e, "a request, sealed");
        let opened = hear_symbol(&mut a, now(at), server(), &cut);
        assert!(matches!(opened, Opened::Datagram { len: 24, .. }), "{opened:?}");
    }
    assert_eq!(request(&mut a, now(400))[0], 0x1c, "the server is greeted anew");
}
