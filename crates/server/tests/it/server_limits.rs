//! Limits of what one address, or an offer that does not get on, has of a server.

use std::time::Duration;

use wellspring_core::SessionId;
use wellspring_server::store::{Digest, Existing, ObjectSink, PartFile};
use wellspring_wire::control::{
    Name, Offer, PutState, RefusalCode, Reply, Request, Start, StartNdp,
};

use crate::stranger::{GEOMETRY, Stranger, is_taken, offer, serve_with, start_of_x};

#[test]
fn one_address_cannot_have_all_sends_nor_fill_the_disk_with_nothing() {
    let home = tempfile::tempdir().expect("temporary directory");
    std::fs::write(home.path().join("x"), vec![7; 3_000_000]).expect("write");
    let served = serve_with(home.path(), |config| {
        config.allow_put = true;
        config.max_sends_an_address = 2;
        config.max_puts_an_address = 2;
        config.max_empty_an_address = 3;
    });
    // Each from a port of its own, as if from many hosts behind one address.
    let code = |reply: Reply<'_>| match reply {
        Reply::Refused { code, text } => {
            assert!(text.contains("127.0.0.1"), "{text}");
            Some(code)
        }
        reply if is_taken(&reply) => None,
        other => panic!("{other:?}"),
    };
    let busy = Some(RefusalCode::Busy);
    let outcomes: Vec<_> = (1..=3)
        .map(|session| {
            let mut stranger = Stranger::of(&served);
            assert_eq!(stranger.info("x"), Ok(3_000_000));
            stranger.ask(&start_of_x(session), code)
        })
        .collect();
    assert_eq!(outcomes, [None, None, busy]);
    let offered = |session, size| {
        let name = format!("put-{session}");
        let offer = Offer { timeout_ms: 60_000, ..offer(session, &name, size) };
        Stranger::of(&served).ask_proven(&Request::Offer(offer), code)
    };
    let outcomes: Vec<_> = (11..=13).map(|session| offered(session, 1_000)).collect();
    assert_eq!(outcomes, [None, None, busy]);
    assert_eq!(served.server.counters().refused[&RefusalCode::Busy], 2);
}

#[test]
fn an_address_has_no_more_than_its_quota_where_there_are_no_keys() {
    let home = tempfile::tempdir().expect("temporary directory");
    std::fs::write(home.path().join("x"), vec![7; 3_000_000]).expect("write");
    let served = serve_with(home.path(), |config| {
        config.allow_put = true;
        config.address_quota = "max-sessions=3 max-bytes=5K max-files=4".parse().expect("a quota");
    });
    // Each from a port of its own, as if from many hosts behind one address.
    let quota = |reply: Reply<'_>| match reply {
        Reply::Refused { code: RefusalCode::OverQuota, text } => {
            assert!(text.contains(" of 127.0.0.1"), "{text}");
            let words = text.split_whitespace().find(|word| word.starts_with("max-"));
            words.map(|word| word.split('=').next().unwrap_or_default().to_owned())
        }
        reply if is_taken(&reply) => None,
        other => panic!("{other:?}"),
    };
    let start = |session| {
        let mut stranger = Stranger::of(&served);
        assert_eq!(stranger.info("x"), Ok(3_000_000));
        stranger.ask(&start_of_x(session), quota)
    };
    let offered = |session: u32, size| {
        let name = format!("put-{session}");
        let offer = Offer { timeout_ms: 60_000, ..offer(session, &name, size) };
        Stranger::of(&served).ask_proven(&Request::Offer(offer), quota)
    };
    assert_eq!([offered(10, 0), offered(11, 0)], [None, None], "over at once");
    assert_eq!((start(1), offered(12, 4_000)), (None, None));
    assert_eq!(offered(13, 1_001).as_deref(), Some("max-bytes"));
    assert_eq!(offered(14, 1_000), None, "to the last byte");
    assert_eq!(start(2).as_deref(), Some("max-sessions"), "in both directions together");
    assert_eq!(offered(15, 0).as_deref(), Some("max-sessions"));
    let counters = served.server.counters();
    assert_eq!(counters.refused[&RefusalCode::OverQuota], 3);
    let over = counters.over_quota;
    assert_eq!((over.sessions, over.bytes, over.files), (2, 1, 0));
}

#[test]
fn an_address_has_its_sends_by_scdp_and_ndp_together() {
    let home = tempfile::tempdir().expect("temporary directory");
    std::fs::write(home.path().join("x"), vec![7; 3_000_000]).expect("write");
    let served = serve_with(home.path(), |config| config.max_sends_an_address = 2);
    let payload = wellspring_server::driver::DriverConfig::new(served.address).ndp.payload;
    let start = |session| {
        Request::StartNdp(StartNdp {
            session: SessionId(session),
            name: Name::new("x").expect("a name"),
            digest: *blake3::hash(&[7; 3_000_000]).as_bytes(),
            payload,
            offset: 0,
            len: 3_000_000,
            timeout_ms: 0,
        })
    };
    let code = |reply: Reply<'_>| match reply {
        Reply::Refused { code, .. } => Some(code),
        Reply::Accepted => None,
        other => panic!("{other:?}"),
    };
    assert_eq!(Stranger::of(&served).info("x"), Ok(3_000_000));
    let mut outcomes: Vec<_> =
        (1..=2).map(|session| Stranger::of(&served).ask_proven(&start(session), code)).collect();
    let mut stranger = Stranger::of(&served);
    assert_eq!(stranger.info("x"), Ok(3_000_000));
    outcomes.push(stranger.ask(&start_of_x(1), code));
    assert_eq!(outcomes, [None, None, Some(RefusalCode::Busy)]);
}

#[test]
fn empty_objects_of_one_address_are_bounded() {
    let home = tempfile::tempdir().expect("temporary directory");
    let served = serve_with(home.path(), |config| {
        config.allow_put = true;
        config.max_empty_an_address = 3;
    });
    let mut stranger = Stranger::of(&served);
    let mut accepted = 0;
    for session in 1..=20 {
        let name = format!("empty-{session}");
        let offered = Request::Offer(offer(session, &name, 0));
        accepted += stranger.ask_proven(&offered, |reply| match reply {
            reply if is_taken(&reply) => 1,
            Reply::Refused { code: RefusalCode::Busy, .. } => 0,
            other => panic!("{other:?}"),
        });
    }
    // Two minutes may have part of it.
    assert!((3..=6).contains(&accepted), "{accepted}");
    assert_eq!(std::fs::read_dir(home.path()).expect("directory").count(), accepted);
}

#[test]
fn an_offer_that_does_not_get_on_loses_its_space() {
    let home = tempfile::tempdir().expect("temporary directory");
    let served = serve_with(home.path(), |config| {
        config.allow_put = true;
        config.idle_put = Duration::from_millis(100);
        config.driver.scdp.peer_timeout = wellspring_core::Duration::from_secs(3_600);
    });
    let mut stranger = Stranger::of(&served);
    let offered = Request::Offer(offer(1, "x", 1_000_000));
    stranger.ask_proven(&offered, |reply| assert!(is_taken(&reply), "{reply:?}"));
    let status = Request::Status { session: SessionId(1) };
    let state = std::iter::repeat_with(|| {
        stranger.ask(&status, |reply| match reply {
            Reply::Status { state, .. } => state,
            other => panic!("{other:?}"),
        })
    })
    .find(|state| *state != PutState::Receiving);
    assert_eq!(state, Some(PutState::Failed(RefusalCode::TooSlow)));
    assert_eq!(served.server.counters().puts_too_slow, 1);
    assert_eq!(std::fs::read_dir(home.path()).expect("directory").count(), 0);
}

#[test]
fn an_offer_whose_client_puts_off_what_it_is_asked_of_its_object_loses_its_space() {
    let home = tempfile::tempdir().expect("temporary directory");
    let bytes = vec![7; 1_000_000];
    let (len, digest) = (bytes.len() as u64, Digest(*blake3::hash(&bytes).as_bytes()));
    // What an earlier offer has left.
    let part = PartFile::resumed_beside(&home.path().join("x"), len, digest, Existing::Keep);
    let part = part.expect("made");
    part.write_block(0, &bytes[..500_000]).expect("written");
    drop(part);
    let served = serve_with(home.path(), |config| {
        config.allow_put = true;
        config.idle_put = Duration::from_millis(100);
    });
    let mut stranger = Stranger::of(&served);
    let offered = Offer { digest: digest.0, resume: true, ..offer(1, "x", len) };
    let offered = Request::Offer(offered);
    stranger.ask_proven(&offered, |reply| {
        assert!(matches!(reply, Reply::Pending { .. }), "{reply:?}");
    });
    assert_eq!(served.server.counters().receiving, 1);
    let refused = std::iter::repeat_with(|| {
        stranger.ask(&offered, |reply| match reply {
            Reply::Pending { .. } => None,
            Reply::Refused { code, .. } => Some(code),
            other => panic!("{other:?}"),
        })
    });
    assert_eq!(refused.flatten().next(), Some(RefusalCode::TooSlow));
    assert_eq!(served.server.counters().puts_too_slow, 1);
    assert_eq!(served.server.counters().receiving, 0);
}

#[test]
fn a_cookie_pays_once_for_what_is_not_there() {
    let home = tempfile::tempdir().expect("temporary directory");
    std::fs::write(home.path().join("x"), [7; 5_000]).expect("write");
    let served = serve_with(home.path(), |_| {});
    for name in ["x", "//sample:64000"] {
        let mut stranger = Stranger::of(&served);
        let wrong = Request::Start(Start {
            session: SessionId(1),
            name: Name::new(name).expect("a name"),
            digest: [1; 32],
            share_index: 0,
            share_count: 1,
            geometry: GEOMETRY,
            resume: None,
            timeout_ms: 0,
            background: false,
        });
        stranger.earn_cookie(&wrong);
        let code = loop {
            let answer = stranger.ask(&wrong, |reply| match reply {
                Reply::Refused { code, .. } => Some(code),
                Reply::Pending { .. } => None,
                other => panic!("{other:?}"),
            });
            if let Some(code) = answer {
                break code;
            }
        };
        assert_eq!(code, RefusalCode::Changed, "{name}");
        stranger.ask(&wrong, |reply| {
            assert!(matches!(reply, Reply::Challenge { .. }), "{name}: {reply:?}");
        });
    }
}
