//! Floods of one host beside others that are honest.

use super::*;

fn port(number: u16) -> SocketAddr {
    SocketAddr::new(at("203.0.113.5:0").ip(), number)
}

#[test]
fn beside_a_flood_of_forged_hellos_each_honest_one_is_answered() {
    let (_, mut b) = pinned();
    let mut hello = [0; 64];
    hello[0] = 0x1a;
    // A hundred thousand a second, for a tenth of one.
    for number in 0..10_000_u32 {
        let time = now(u64::from(number) / 100);
        let forged = SocketAddr::new(std::net::Ipv4Addr::from_bits(number << 8).into(), 9);
        hello[8..12].copy_from_slice(&number.to_be_bytes());
        assert!(hear(&mut b, time, forged, &hello).answer.len() <= hello.len());
        if number % 100 == 99 {
            let answer = hear(&mut b, time, client(), &hello).answer;
            assert_eq!(answer.first(), Some(&0x1b), "after {number}");
        }
    }
}

#[test]
fn a_key_with_many_ports_takes_no_other_keys_channels() {
    let (greedy, honest, b) =
        (PrivateKey::generate(), PrivateKey::generate(), PrivateKey::generate());
    let for_clients = peer("b", b.public(), server_rights());
    let ring = [("greedy", &greedy), ("honest", &honest)]
        .into_iter()
        .fold(Keyring::new().with_own(b), |ring, (name, key)| {
            ring.with_peer(peer(name, key.public(), reader()))
        });
    let mut b = channels(ring, 2);
    let of = |own| Arc::new(Keyring::new().with_own(own).with_peer(for_clients.clone()));
    let mut idle = Channels::new(of(honest), 8, [1; 32]);
    meet(&mut idle, &mut b, now(0));
    let sealed = seal(&mut idle, server(), 1).expect("a channel");
    hear(&mut b, now(0), client(), &sealed);
    let greedy = of(greedy);
    let mut newest = None;
    for number in 1..40 {
        let mut host = Channels::new(Arc::clone(&greedy), 8, [3; 32]);
        let time = now(1_000 * u64::from(number));
        let heard = hear(&mut b, time, port(number), &request(&mut host, time));
        assert!(matches!(heard.opened, Opened::Datagram { .. }), "{number}: {:?}", heard.opened);
        hear(&mut host, time, server(), &heard.answer);
        let sealed = seal(&mut host, server(), 1).expect("a channel");
        let opened = hear(&mut b, time, port(number), &sealed).opened;
        assert!(matches!(opened, Opened::Datagram { .. }), "{number}: {opened:?}");
        newest = Some(number);
    }
    assert!(seal(&mut b, port(1), 1).is_none(), "its own oldest gave way");
    assert!(newest.is_some_and(|number| seal(&mut b, port(number), 1).is_some()));
    let back = seal(&mut b, client(), 1).expect("the channel of the honest key, long idle");
    let opened = hear(&mut idle, now(40_000), server(), &back).opened;
    assert!(matches!(opened, Opened::Datagram { .. }), "{opened:?}");
}
