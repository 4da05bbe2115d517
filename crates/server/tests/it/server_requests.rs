//! A server against strangers: raw datagrams, no client.

use std::time::Duration;

use wellspring_core::SessionId;
use wellspring_server::ServerEvent;
use wellspring_testkit::reach;
use wellspring_wire::ParseError;
use wellspring_wire::control::{
    Cookie, Geometry, MAX_PROBE_LEN, Name, Offer, Parsed, Probe, PutState, RefusalCode, Reply,
    Request, Start, VERSION, emit_request, parse, set_version,
};

use crate::stranger::{GEOMETRY, Stranger, is_taken, offer, serve, serve_with, start_of_x};

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
    for (session, name) in (2..).zip([
        "../x",
        "/tmp/x",
        "up/x",
        "up/none/x",
        "link",
        "a/../x",
        "link/x",
        ".x.wellspring-1.part",
    ]) {
        let offered = Request::Offer(offer(session, name, 0));
        let refused = stranger.ask_proven(&offered, |reply| match reply {
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
        background: false,
    });
    let offered = Request::Offer(offer(2, "y", 0));
    for request in [start, offered] {
        for cookie in [Cookie::NONE, Cookie([9; 16])] {
            stranger.cookie = cookie;
            stranger.ask(&request, |reply| {
                assert!(matches!(reply, Reply::Challenge { .. }), "{reply:?}");
            });
        }
    }
    // A digest costs work: not done for an address that has not shown itself either.
    stranger.cookie = Cookie::NONE;
    stranger.ask(&Request::Info { name, geometry: GEOMETRY }, |reply| {
        assert!(matches!(reply, Reply::Challenge { .. }), "{reply:?}");
    });
    assert!(!home.path().join("y").exists());
    // Another's cookie is as good as none.
    let mut other = Stranger::of(&served);
    other.earn_cookie(&offered);
    stranger.cookie = other.cookie;
    stranger.ask(&offered, |reply| {
        assert!(matches!(reply, Reply::Challenge { .. }), "{reply:?}");
    });
    // And one earned for something else.
    stranger.earn_cookie(&offered);
    stranger.ask(&start, |reply| {
        assert!(matches!(reply, Reply::Challenge { .. }), "{reply:?}");
    });
}

/// Who asks for the background need not prove its address once more.
#[test]
fn the_cookie_of_an_answer_is_good_for_every_priority() {
    let home = tempfile::tempdir().expect("temporary directory");
    std::fs::write(home.path().join("x"), vec![7; 3_000_000]).expect("write");
    let served = serve(home.path(), false);
    for (session, background) in [(1, false), (2, true)] {
        let mut stranger = Stranger::of(&served);
        stranger.info("x").expect("it is there");
        let Request::Start(start) = start_of_x(session) else { panic!("a start") };
        stranger.ask(&Request::Start(Start { background, ..start }), |reply| {
            assert!(matches!(reply, Reply::Accepted), "{background}: {reply:?}");
        });
    }
}

#[test]
fn a_repeated_offer_is_one_offer_and_its_end_is_remembered() {
    let home = tempfile::tempdir().expect("temporary directory");
    let served = serve(home.path(), true);
    let mut stranger = Stranger::of(&served);
    let empty = Request::Offer(offer(5, "empty", 0));
    stranger.earn_cookie(&empty);
    for _ in 0..3 {
        stranger.ask(&empty, |reply| {
            assert!(matches!(reply, Reply::Status { state: PutState::Complete, .. }), "{reply:?}");
        });
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
    other.ask_proven(&empty, |reply| {
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
    let mut refused = |offer: Offer<'_>| {
        stranger.ask_proven(&Request::Offer(offer), |reply| match reply {
            Reply::Refused { code, .. } => code,
            other => panic!("{other:?}"),
        })
    };
    assert_eq!(refused(offer(1, "x", u64::MAX)), RefusalCode::TooLarge);
    let wide = Geometry { symbol_size: u16::MAX, ..GEOMETRY };
    assert_eq!(refused(Offer { geometry: wide, ..offer(2, "x", 9) }), RefusalCode::Unsupported);
    let long = Geometry { symbol_size: 60_000, symbols_per_block: 1_000, initial_window: 1 };
    let size = 1 << 30;
    assert_eq!(refused(Offer { geometry: long, ..offer(4, "x", size) }), RefusalCode::Unsupported);
    let pushy = Geometry { symbol_size: 60_000, symbols_per_block: 10, initial_window: 255 };
    assert_eq!(refused(Offer { geometry: pushy, ..offer(5, "x", 9) }), RefusalCode::Unsupported);
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

#[test]
fn a_replayed_cookie_brings_no_more_than_was_sent() {
    let home = tempfile::tempdir().expect("temporary directory");
    let bytes = vec![7; 3_000_000];
    std::fs::write(home.path().join("x"), &bytes).expect("write");
    std::fs::write(home.path().join("y"), &bytes).expect("write");
    let served = serve(home.path(), false);
    let mut stranger = Stranger::of(&served);
    let start = |session, name, geometry| {
        Request::Start(Start {
            session: SessionId(session),
            name: Name::new(name).expect("a name"),
            digest: *blake3::hash(&[7; 3_000_000]).as_bytes(),
            share_index: 0,
            share_count: 1,
            geometry,
            resume: None,
            timeout_ms: 1_000,
            background: false,
        })
    };
    // Digests become known, and each info brings a cookie of its own.
    for name in ["y", "x"] {
        assert_eq!(stranger.info(name), Ok(3_000_000));
    }
    let honest = start(1, "x", GEOMETRY);
    stranger.ask(&honest, |reply| assert_eq!(reply, Reply::Accepted, "it is good once"));
    stranger.ask(&honest, |reply| assert_eq!(reply, Reply::Accepted, "repeated as if lost"));
    // From now on the sender's address is forged: what comes back goes to a victim.
    let wide = Geometry { symbol_size: 65_000, symbols_per_block: 1_000, initial_window: 255 };
    let pushy = Geometry { initial_window: 255, ..GEOMETRY };
    let long = Geometry { symbol_size: 4_000, ..GEOMETRY };
    let (mut sent, mut came) = (0, 0);
    let mut buffer = vec![0; 70_000];
    stranger.socket.set_read_timeout(Some(Duration::from_millis(300))).expect("timeout");
    for (session, request) in (2..).zip([
        start(2, "x", GEOMETRY),
        start(3, "x", wide),
        start(4, "x", pushy),
        start(5, "x", long),
        start(6, "y", GEOMETRY),
    ]) {
        let mut bytes = Vec::new();
        emit_request(1_000 + session, stranger.cookie, &request, &mut bytes);
        sent += bytes.len();
        stranger.socket.send(&bytes).expect("send");
    }
    while let Ok(len) = stranger.socket.recv(&mut buffer) {
        let of_first = wellspring_wire::scdp::parse(&buffer[..len])
            .is_ok_and(|packet| packet.session == SessionId(1));
        came += if of_first { 0 } else { len };
    }
    reach::row(
        "bytes out for a byte in after a replayed cookie",
        "<= 1",
        &format!("{:.2}: {came} for {sent}", came as f64 / sent as f64),
        came <= sent,
    );
    assert!(came > 0 && came <= sent, "{came} bytes for {sent}");
}

#[test]
fn a_flood_of_refusals_is_counted_and_not_told_line_by_line() {
    let home = tempfile::tempdir().expect("temporary directory");
    let told = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let heard = std::sync::Arc::clone(&told);
    let served = serve_with(home.path(), |config| {
        config.events = std::sync::Arc::new(move |event| {
            heard.lock().expect("no panic").push(event);
        });
    });
    let mut stranger = Stranger::of(&served);
    for _ in 0..2_000 {
        assert_eq!(stranger.info("none"), Err(RefusalCode::NotFound));
    }
    let refused = served.server.counters().refused;
    assert_eq!(refused[&RefusalCode::NotFound], 2_000);
    // How many a second pass is the limit's own test.
    let events = told.lock().expect("no panic");
    let told = events.iter().filter(|e| matches!(e, ServerEvent::Refused { .. })).count() as u64;
    let left_out: u64 = events
        .iter()
        .map(|event| match event {
            ServerEvent::Suppressed { count, .. } => *count,
            _ => 0,
        })
        .sum();
    assert!((50..2_000).contains(&told), "{told} lines");
    assert!(told + left_out <= 2_000, "{told} lines and {left_out} left out");
}

#[test]
fn a_client_of_another_version_is_refused_in_its_own_and_told_both() {
    let home = tempfile::tempdir().expect("temporary directory");
    std::fs::write(home.path().join("x"), b"hello").expect("write");
    let served = serve(home.path(), true);
    let stranger = Stranger::of(&served);
    let name = Name::new("x").expect("a name");
    let other = VERSION - 1;
    for request in [Request::Info { name, geometry: GEOMETRY }, Request::Offer(offer(1, "y", 5))] {
        let mut bytes = Vec::new();
        emit_request(77, Cookie::NONE, &request, &mut bytes);
        set_version(&mut bytes, other);
        stranger.socket.send(&bytes).expect("send");
        let mut buffer = [0; 2_048];
        let len = stranger.socket.recv(&mut buffer).expect("an answer");
        assert!(len <= bytes.len(), "{len} bytes for {}", bytes.len());
        assert_eq!(parse(&buffer[..len]), Err(ParseError::UnknownVersion(other)));
        set_version(&mut buffer[..len], VERSION);
        let Ok(Parsed::Reply { nonce: 77, reply: Reply::Refused { code, text } }) =
            parse(&buffer[..len])
        else {
            panic!("{:?}", parse(&buffer[..len]));
        };
        assert_eq!(code, RefusalCode::Unsupported);
        for word in [&format!("version {VERSION}"), &format!("version {other}"), "install"] {
            assert!(text.contains(word), "{text}");
        }
    }
    assert_eq!(served.server.counters().refused[&RefusalCode::Unsupported], 2);
    assert_eq!(served.server.statistics().expect("running").sessions, 0);
}

#[test]
fn names_that_hide_or_deceive_are_neither_served_nor_taken_unless_allowed() {
    let home = tempfile::tempdir().expect("temporary directory");
    std::fs::create_dir(home.path().join(".ssh")).expect("directory");
    std::fs::write(home.path().join(".ssh/id"), b"secret").expect("write");
    std::fs::write(home.path().join(".profile"), b"secret").expect("write");
    let odd = ["-rf", "a\u{202e}txt", "in\u{200b}visible"];
    for allowed in [false, true] {
        let served = serve_with(home.path(), |config| {
            config.allow_put = true;
            config.allow_hidden = allowed;
            config.allow_odd_names = allowed;
        });
        let mut stranger = Stranger::of(&served);
        for name in [".profile", ".ssh/id"] {
            let expected = if allowed { Ok(6) } else { Err(RefusalCode::NotFound) };
            assert_eq!(stranger.info(name), expected, "{name}");
        }
        for (session, name) in (1..).zip([".bashrc", ".ssh/authorized_keys"].iter().chain(&odd)) {
            let offered = Request::Offer(offer(session, name, 0));
            let outcome = stranger.ask_proven(&offered, |reply| match reply {
                Reply::Refused { code, .. } => Err(code),
                reply if is_taken(&reply) => Ok(()),
                other => panic!("{name}: {other:?}"),
            });
            let expected = if allowed { Ok(()) } else { Err(RefusalCode::BadName) };
            assert_eq!(outcome, expected, "{name:?}");
            assert_eq!(home.path().join(name).exists(), allowed, "{name:?}");
        }
    }
}

#[test]
fn a_probe_is_answered_as_long_as_it_asks_and_no_longer_than_itself() {
    let directory = tempfile::tempdir().expect("directory");
    let served = serve(directory.path(), true);
    let mut stranger = Stranger::of(&served);
    let long = MAX_PROBE_LEN as u16;
    for (len, reply_len) in [(256, 256), (1_472, 256), (1_472, 1_472), (long, 300), (long, long)] {
        let probe = Probe::new(len, reply_len, 0).expect("allowed");
        // That the answer is no longer than the question, `ask` sees to.
        stranger.ask(&Request::Probe(probe), |reply| match reply {
            Reply::Probe(reply) => {
                assert_eq!((reply.reply_len, reply.class, reply.rights), (reply_len, 0, ""));
                assert!(reply.clock_us > 1_700_000_000_000_000, "a clock: {}", reply.clock_us);
                assert_eq!(reply.largest_back, 65_507, "loopback by IPv4");
            }
            other => panic!("{other:?}"),
        });
    }
}

#[test]
fn bytes_for_a_trial_are_those_of_few_lengths_and_take_a_cookie() {
    let directory = tempfile::tempdir().expect("directory");
    let served = serve(directory.path(), false);
    let mut stranger = Stranger::of(&served);
    let info = |name| Request::Info { name: Name::new(name).expect("a name"), geometry: GEOMETRY };
    stranger.ask(&info("//sample:64000"), |reply| {
        assert!(matches!(reply, Reply::Challenge { .. }), "{reply:?}");
    });
    let digest = |stranger: &mut Stranger, name| {
        stranger.ask_proven(&info(name), |reply| match reply {
            Reply::Info { size, digest, .. } => (size, digest),
            other => panic!("{other:?}"),
        })
    };
    let first = digest(&mut stranger, "//sample:64000");
    assert_eq!(first.0, 64_000);
    assert_eq!(digest(&mut stranger, "//sample:64000"), first, "made once");
    for name in ["//sample:64001", "//sample:99999999", "a//sample:64000"] {
        stranger.cookie = Cookie::NONE;
        stranger.ask(&info(name), |reply| {
            assert!(
                matches!(reply, Reply::Refused { code: RefusalCode::BadName, .. }),
                "{reply:?}"
            );
        });
    }
}

#[test]
fn a_path_from_another_address_needs_what_was_sent_to_the_sessions() {
    let directory = tempfile::tempdir().expect("dir");
    std::fs::write(directory.path().join("x"), vec![7; 3_000_000]).expect("written");
    let served = serve(directory.path(), false);
    let mut own = Stranger::of(&served);
    own.info("x").expect("there");
    own.ask(&start_of_x(5), |reply| assert_eq!(reply, Reply::Accepted));
    let path = |session, token| Request::Path { session: SessionId(session), path: 2, token };
    let cookie = |reply: Reply<'_>| match reply {
        Reply::Challenge { cookie } => Ok(cookie),
        Reply::Refused { code, .. } => Err(code),
        other => panic!("{other:?}"),
    };
    let mut other = Stranger::at("127.0.0.3:0", &served);
    let none = Cookie::NONE;
    assert_eq!(other.ask(&path(5, none), cookie), Err(RefusalCode::NotAllowed));
    own.cookie = none;
    assert_eq!(own.ask(&path(6, none), cookie), Err(RefusalCode::NotFound));
    let token = own.ask(&path(5, none), cookie).expect("challenged");
    other.cookie = other.ask(&path(5, token), cookie).expect("challenged");
    let swapped = path(5, other.cookie);
    assert_eq!(other.ask(&swapped, cookie), Err(RefusalCode::NotAllowed), "not of the session's");
    other.ask(&path(5, token), |reply| assert_eq!(reply, Reply::Accepted));
}

#[test]
fn a_server_tells_of_its_addresses() {
    let directory = tempfile::tempdir().expect("dir");
    let known = ["10.0.0.1:4711", "[fd00::1]:4712"].map(|at| at.parse().expect("an address"));
    let served = serve_with(directory.path(), |config| config.further_addresses = known.into());
    let mut stranger = Stranger::of(&served);
    stranger.ask(&Request::Addresses, |reply| match reply {
        Reply::Addresses { addresses } => assert_eq!(addresses.iter().collect::<Vec<_>>(), known),
        other => panic!("{other:?}"),
    });
}
