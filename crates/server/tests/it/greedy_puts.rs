//! Offers that hold more of a server than they may.

use std::net::SocketAddr;

use wellspring_server::socket::Interface;
use wellspring_wire::control::{Offer, RefusalCode, Reply, Request};
use wellspring_wire::scdp::Mode;

use crate::stranger::{Served, Stranger, is_taken, offer, serve_with};

/// What the server of a client with that address refuses an offer with, if it does.
fn refused(served: &Served, own: &str, offer: Offer<'_>) -> Option<(RefusalCode, String)> {
    Stranger::at(own, served).ask_proven(&Request::Offer(offer), |reply| match reply {
        Reply::Refused { code, text } => Some((code, text.to_string())),
        reply if is_taken(&reply) => None,
        other => panic!("{other:?}"),
    })
}

#[test]
fn one_client_cannot_have_all_space_reserved() {
    let home = tempfile::tempdir().expect("temporary directory");
    let served = serve_with(home.path(), |config| {
        config.allow_put = true;
        config.limits.total_len = 100_000;
    });
    let refused = |own, session, size| {
        let name = format!("put-{session}");
        refused(&served, own, Offer { timeout_ms: 60_000, ..offer(session, &name, size) })
    };
    let (one, other) = ("127.0.0.1:0", "127.0.0.2:0");
    assert_eq!(refused(one, 1, 40_000), None);
    let (code, text) = refused(one, 2, 20_000).expect("more than half");
    assert_eq!(code, RefusalCode::NoSpace);
    assert!(text.contains("--client-share"), "{text}");
    assert_eq!(refused(one, 3, 10_000), None);
    assert_eq!(refused(other, 4, 25_000), None, "half of what is left");
    assert!(refused(other, 5, 1_000).is_some());
}

#[test]
fn a_client_has_few_groups_joined_and_none_that_others_use() {
    let home = tempfile::tempdir().expect("temporary directory");
    let served = serve_with(home.path(), |config| {
        config.allow_put = true;
        config.interface = Some("127.0.0.1".parse::<Interface>().expect("an interface"));
        config.max_groups_an_address = 2;
    });
    let refused = |session, group: &str| {
        let name = format!("put-{session}");
        let group: SocketAddr = group.parse().expect("a group");
        let offer = Offer {
            mode: Mode::OneToMany,
            group: Some(group),
            timeout_ms: 60_000,
            ..offer(session, &name, 1_000_000)
        };
        refused(&served, "127.0.0.1:0", offer)
    };
    for (session, group) in (1..).zip(["224.0.0.251:5353", "232.1.1.1:5004", "[ff02::fb]:5353"]) {
        let (code, text) = refused(session, group).expect("not of the usual groups");
        assert_eq!(code, RefusalCode::NotAllowed);
        assert!(text.contains("--groups"), "{text}");
    }
    assert_eq!(refused(11, "239.255.47.41:4712"), None);
    assert_eq!(refused(12, "239.255.47.42:4712"), None);
    assert_eq!(refused(13, "239.255.47.42:4712"), None, "the same again");
    assert_eq!(refused(14, "239.255.47.43:4712").map(|(code, _)| code), Some(RefusalCode::Busy));
}
