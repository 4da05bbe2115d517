use super::super::{Abilities, MAX_ADDRESSES, MAX_NAME_LEN, MAX_RUNS, refusal_codes};
use super::*;
use proptest::prelude::*;
use std::string::String;
use std::vec::Vec;

fn a_name() -> impl Strategy<Value = String> {
    "[^\\p{Cc}]{1,200}".prop_filter("fits", |name| name.len() <= MAX_NAME_LEN)
}

fn a_geometry() -> impl Strategy<Value = Geometry> {
    (1..=u16::MAX, 1..=u32::MAX, any::<u8>()).prop_map(
        |(symbol_size, symbols_per_block, initial_window)| Geometry {
            symbol_size,
            symbols_per_block,
            initial_window,
        },
    )
}

fn a_group() -> impl Strategy<Value = Option<SocketAddr>> {
    let v4 = (224..=239_u8, any::<[u8; 3]>())
        .prop_map(|(a, [b, c, d])| IpAddr::V4(Ipv4Addr::new(a, b, c, d)));
    let v6 = any::<[u8; 15]>().prop_map(|tail| {
        let mut octets = [0xff; 16];
        octets[1..].copy_from_slice(&tail);
        IpAddr::V6(Ipv6Addr::from(octets))
    });
    prop::option::of((prop_oneof![v4, v6], 1..=u16::MAX).prop_map(|(ip, p)| SocketAddr::new(ip, p)))
}

/// Draws the fields and hands each kind of request to the test.
fn check_request(nonce: u64, cookie: [u8; 16], request: Request<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    emit_request(nonce, Cookie(cookie), &request, &mut bytes);
    let longest = match request {
        Request::Probe(_) => MAX_PROBE_LEN,
        _ => MAX_LEN,
    };
    assert!((REQUEST_MIN_LEN..=longest).contains(&bytes.len()));
    assert_eq!(parse(&bytes), Ok(Parsed::Request { nonce, cookie: Cookie(cookie), request }));
    bytes
}

fn check_reply(nonce: u64, reply: Reply<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    emit_reply(nonce, &reply, &mut bytes);
    let longest = match reply {
        Reply::Manifest { .. } | Reply::Held { .. } => MANIFEST_LEN,
        Reply::Probe(reply) => reply.reply_len.into(),
        _ => REPLY_MAX_LEN,
    };
    assert!(bytes.len() <= longest);
    assert_eq!(parse(&bytes), Ok(Parsed::Reply { nonce, reply }));
    bytes
}

proptest! {
    #[test]
    fn requests_parse_back(
        nonce: u64, cookie: [u8; 16], name in a_name(), digest: [u8; 32], session: u32,
        geometry in a_geometry(), share in (0..254_u8, 1..=255_u8), size: u64,
        resume in prop::option::of((any::<u8>(), any::<u32>(), any::<u32>())),
        group in a_group(), overwrite: bool, resume_put: bool, background: bool, timeout_ms: u32,
    ) {
        let name = Name::new(&name).expect("drawn to fit");
        let session = SessionId(session);
        check_request(nonce, cookie, Request::Info { name, geometry });
        check_request(nonce, cookie, Request::Status { session });
        let held = check_request(nonce, cookie, Request::Held { session, from: timeout_ms });
        prop_assert!(held.len() >= MANIFEST_LEN, "no shorter than its answer");
        let (generation, suite) = (share.0, share.1);
        let key = GroupKey { session, generation, suite, secret: &digest };
        let bytes = check_request(nonce, cookie, Request::GroupKey(key));
        prop_assert!(holds_secret(&bytes));
        let resume = resume.map(|(epoch, floor, horizon)| ResumeAt { epoch, floor, horizon });
        let (share_index, share_count) = (share.0.min(share.1 - 1), share.1);
        let start = Start {
            session, name, digest, share_index, share_count, geometry, resume, background, timeout_ms,
        };
        check_request(nonce, cookie, Request::Start(start));
        let mode = if group.is_some() { Mode::OneToMany } else { Mode::Unicast };
        let offer = Offer {
            session, name, size, digest, mode, group, geometry, overwrite, resume: resume_put,
            background: background && group.is_none(), timeout_ms,
        };
        check_request(nonce, cookie, Request::Offer(offer));
        let payload = geometry.symbol_size;
        let (log, index) = (share.0, size);
        check_request(nonce, cookie, Request::Manifest { name, digest, log, index });
        for token in [Cookie::NONE, Cookie([log.max(1); 16])] {
            let session = SessionId(index as u32);
            check_request(nonce, cookie, Request::Path { session, path: log.max(1), token });
        }
        check_request(nonce, cookie, Request::Addresses);
        let (offset, len) = (size / 2, (size - size / 2).max(1));
        let start = StartNdp { session, name, digest, payload, offset, len, timeout_ms };
        check_request(nonce, cookie, Request::StartNdp(start));
    }

    #[test]
    fn replies_parse_back(
        nonce: u64, cookie: [u8; 16], digest: [u8; 32], size: u64, done: (u32, u32),
        code in refusal_codes(), text in "[^\\p{Cc}]{0,50}",
    ) {
        let cookie = Cookie(cookie);
        check_reply(nonce, Reply::Info { cookie, size, digest, instance: done.0 });
        check_reply(nonce, Reply::Challenge { cookie });
        check_reply(nonce, Reply::Pending { done: size / 2, total: size });
        check_reply(nonce, Reply::Accepted);
        let nodes = digest.repeat(1 + size as usize % MAX_NODES);
        check_reply(nonce, Reply::Manifest { nodes: &nodes });
        let start = |number: u32| 3 * number + done.0 % 1_000;
        let runs = (0..done.1 % 150).map(|number| start(number)..start(number) + 1 + number % 3);
        let expected: Vec<_> = runs.clone().take(MAX_RUNS).collect();
        let written = Runs::write(runs);
        let runs = Runs::new(&written).expect("ascending");
        prop_assert_eq!(runs.iter().collect::<Vec<_>>(), expected);
        check_reply(nonce, Reply::Held { runs });
        let ip = if done.1 % 2 == 0 { IpAddr::from(done.0.max(1).to_be_bytes()) } else { IpAddr::from([0x20; 16]) };
        let known = (0..done.1 % 12).map(|number| SocketAddr::new(ip, 1 + number as u16));
        let known: Vec<_> = known.filter(|address| !address.ip().is_multicast()).collect();
        let written = Addresses::write(known.iter().copied());
        let addresses = Addresses::new(&written).expect("unicast");
        prop_assert_eq!(addresses.iter().collect::<Vec<_>>(), &known[..known.len().min(MAX_ADDRESSES)]);
        check_reply(nonce, Reply::Addresses { addresses });
        check_reply(nonce, Reply::Refused { code, text: &text });
        for state in [
            PutState::Unknown, PutState::Receiving, PutState::Complete, PutState::Failed(code),
            PutState::LeftGroup,
        ] {
            let (blocks_done, blocks_total) = done;
            check_reply(nonce, Reply::Status { state, blocks_done, blocks_total });
        }
    }

    #[test]
    fn probes_and_their_replies_have_the_lengths_they_say(
        nonce: u64, len in 256..=MAX_PROBE_LEN as u16, shorter: u16, class: u8, clock_us: u64,
        abilities: u8, rights in "[^\\p{Cc}]{0,50}", cut in 1..100_usize,
    ) {
        let probe = Probe::new(len, len - shorter % (len - 255), class).expect("drawn to fit");
        let mut bytes = check_request(nonce, [7; 16], Request::Probe(probe));
        prop_assert_eq!(bytes.len(), usize::from(len));
        let reply = ProbeReply {
            reply_len: probe.reply_len, class, largest_back: len, clock_us,
            abilities: Abilities(abilities), rights: &rights,
        };
        let mut answer = check_reply(nonce, Reply::Probe(reply));
        prop_assert_eq!(answer.len(), usize::from(probe.reply_len));
        prop_assert!(answer.len() <= bytes.len(), "no longer than its question");
        // Cut, lengthened, or with something in the padding, they are refused.
        for message in [&mut bytes, &mut answer] {
            let whole = message.clone();
            message.truncate(whole.len() - cut);
            prop_assert!(parse(message).is_err());
            message.clone_from(&whole);
            message.push(0);
            prop_assert!(parse(message).is_err());
            if whole.len() > REPLY_MAX_LEN {
                *message = whole;
                *message.last_mut().expect("not empty") = 1;
                prop_assert!(parse(message).is_err());
            }
        }
    }

    #[test]
    fn any_refusal_text_makes_a_reply_that_parses(text in ".{0,400}") {
        let mut bytes = Vec::new();
        emit_reply(1, &Reply::Refused { code: RefusalCode::Failed, text: &text }, &mut bytes);
        prop_assert!(bytes.len() <= REPLY_MAX_LEN);
        prop_assert!(parse(&bytes).is_ok());
    }

    #[test]
    fn noise_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..1_300)) {
        let _ = parse(&bytes);
    }

    #[test]
    fn noise_with_a_right_check_never_panics(
        kind in prop_oneof![Just(KIND_REQUEST), Just(KIND_REPLY)], operation in 0..12_u8,
        body in prop::collection::vec(any::<u8>(), 0..1_180),
    ) {
        let mut bytes = Vec::new();
        begin(kind, operation, 7, &mut bytes);
        bytes.extend_from_slice(&body);
        end(&mut bytes);
        let _ = parse(&bytes);
    }

    #[test]
    fn a_flipped_bit_is_noticed(bit in 0_usize..REQUEST_MIN_LEN * 8) {
        let name = Name::new("a/b").expect("a name");
        let geometry = Geometry { symbol_size: 1, symbols_per_block: 1, initial_window: 1 };
        let mut bytes = check_request(9, [3; 16], Request::Info { name, geometry });
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(parse(&bytes).is_err());
    }

    #[test]
    fn a_cut_message_is_refused(cut in 0_usize..REQUEST_MIN_LEN) {
        let request = check_request(9, [3; 16], Request::Status { session: SessionId(1) });
        prop_assert!(parse(&request[..cut.min(request.len() - 1)]).is_err());
        let reply = check_reply(9, Reply::Accepted);
        prop_assert!(parse(&reply[..cut.min(reply.len() - 1)]).is_err());
    }
}

#[test]
fn the_longest_name_fits_every_request() {
    let long = "n".repeat(MAX_NAME_LEN);
    let name = Name::new(&long).expect("just fits");
    let geometry = Geometry { symbol_size: 1, symbols_per_block: 1, initial_window: 1 };
    let group = "[ff02::1]:1".parse().ok();
    check_request(
        1,
        [1; 16],
        Request::Offer(Offer {
            session: SessionId(1),
            name,
            size: u64::MAX,
            digest: [9; 32],
            mode: Mode::OneToMany,
            group,
            geometry,
            overwrite: true,
            resume: true,
            background: false,
            timeout_ms: u32::MAX,
        }),
    );
    assert_eq!(Name::new(&"n".repeat(MAX_NAME_LEN + 1)), None);
}

#[test]
fn names_hold_no_control_characters() {
    for bad in ["", "a\0b", "a\nb", "\u{1b}[2J", "\u{85}"] {
        assert_eq!(Name::new(bad), None, "{bad:?}");
    }
}

#[test]
fn a_request_without_padding_is_refused() {
    let mut bytes = Vec::new();
    emit_request(1, Cookie::NONE, &Request::Status { session: SessionId(1) }, &mut bytes);
    bytes.pop();
    assert_eq!(parse(&bytes), Err(ParseError::BadField("padding")));
}

#[test]
fn a_probe_never_asks_for_more_than_itself() {
    for (len, reply_len, fits) in [
        (256, 256, true),
        (1_472, 256, true),
        (8_972, 8_972, true),
        (255, 255, false),
        (256, 255, false),
        (256, 257, false),
        (1_472, 1_473, false),
        (8_973, 256, false),
    ] {
        assert_eq!(Probe::new(len, reply_len, 0).is_some(), fits, "{len} {reply_len}");
        // Whoever writes one all the same is not answered.
        let mut bytes = Vec::new();
        emit_request(
            1,
            Cookie::NONE,
            &Request::Probe(Probe { len: 256, reply_len: 256, class: 0 }),
            &mut bytes,
        );
        bytes.truncate(HEADER_LEN + 16 + 5);
        bytes[32..34].copy_from_slice(&u16::to_be_bytes(len));
        bytes[34..36].copy_from_slice(&u16::to_be_bytes(reply_len));
        end(&mut bytes);
        bytes.resize(len.into(), 0);
        assert_eq!(parse(&bytes).is_ok(), fits, "{len} {reply_len}");
    }
}

#[test]
fn a_request_for_a_page_is_no_shorter_than_its_answer() {
    let name = Name::new("x").expect("a name");
    let request = Request::Manifest { name, digest: [0; 32], log: 17, index: 0 };
    let mut bytes = Vec::new();
    emit_request(1, Cookie::NONE, &request, &mut bytes);
    let mut answer = Vec::new();
    emit_reply(1, &Reply::Manifest { nodes: &[7; 32 * MAX_NODES] }, &mut answer);
    assert!(answer.len() <= bytes.len());
    bytes.pop();
    assert_eq!(parse(&bytes), Err(ParseError::BadField("padding")));
    for nodes in [0, 31, 33, 32 * MAX_NODES + 32] {
        begin(KIND_REPLY, 6, 1, &mut bytes);
        bytes.resize(HEADER_LEN + nodes, 7);
        end(&mut bytes);
        assert!(parse(&bytes).is_err(), "{nodes} bytes of nodes");
    }
}

#[test]
fn runs_of_blocks_ascend_and_have_blocks() {
    let bad: [&[(u32, u32)]; 4] = [&[(3, 3)], &[(4, 3)], &[(5, 7), (6, 9)], &[(5, 7), (0, 2)]];
    for runs in bad {
        let written = Runs::write(runs.iter().map(|(start, end)| *start..*end));
        assert_eq!(Runs::new(&written), None, "{runs:?}");
    }
    assert_eq!(Runs::new(&[0; 7]), None);
    let many = Runs::write((0..200).map(|number| 2 * number..2 * number + 1));
    assert_eq!(Runs::new(&many).expect("cut to fit").iter().count(), MAX_RUNS);
}

#[test]
fn a_group_that_is_not_multicast_is_refused() {
    let name = Name::new("x").expect("a name");
    let geometry = Geometry { symbol_size: 1, symbols_per_block: 1, initial_window: 1 };
    let offer = Offer {
        session: SessionId(1),
        name,
        size: 1,
        digest: [0; 32],
        mode: Mode::OneToMany,
        group: "10.0.0.1:5".parse().ok(),
        geometry,
        overwrite: false,
        resume: false,
        background: false,
        timeout_ms: 0,
    };
    let mut bytes = Vec::new();
    emit_request(1, Cookie::NONE, &Request::Offer(offer), &mut bytes);
    assert_eq!(parse(&bytes), Err(ParseError::BadField("group")));
}

#[test]
fn a_request_of_another_version_is_recognised_and_can_be_answered_in_that_version() {
    let name = Name::new("x").expect("a name");
    let geometry = Geometry { symbol_size: 1, symbols_per_block: 1, initial_window: 1 };
    let mut bytes = Vec::new();
    emit_request(77, Cookie::NONE, &Request::Info { name, geometry }, &mut bytes);
    assert_eq!(request_of_other_version(&bytes), None, "it is of this version");
    for version in [1, VERSION + 1, 15] {
        set_version(&mut bytes, version);
        assert_eq!(parse(&bytes), Err(ParseError::UnknownVersion(version)));
        assert_eq!(request_of_other_version(&bytes), Some((version, 77)));
    }
    for at in 0..41 {
        let mut altered = bytes.clone();
        altered[at] ^= 1;
        assert_eq!(request_of_other_version(&altered), None, "byte {at}");
    }
    assert_eq!(request_of_other_version(&bytes[..REQUEST_MIN_LEN - 1]), None);
    let refusal = Reply::Refused { code: RefusalCode::Unsupported, text: "no" };
    emit_reply(77, &refusal, &mut bytes);
    set_version(&mut bytes, 1);
    assert_eq!(request_of_other_version(&bytes), None, "a reply is never answered");
    set_version(&mut bytes, VERSION);
    assert_eq!(parse(&bytes), Ok(Parsed::Reply { nonce: 77, reply: refusal }));
}

/// Byte of a start's flags, and of an offer's: behind header, cookie, session, digest and geometry, and what each has
/// before its flags.
const START_FLAGS_AT: usize = HEADER_LEN + 16 + 4 + 32 + 7 + 2;
const OFFER_FLAGS_AT: usize = HEADER_LEN + 16 + 4 + 32 + 7 + 8 + 1;

fn a_start(background: bool) -> Request<'static> {
    Request::Start(Start {
        session: SessionId(1),
        name: Name::new("x").expect("a name"),
        digest: [2; 32],
        share_index: 0,
        share_count: 1,
        geometry: Geometry { symbol_size: 3, symbols_per_block: 4, initial_window: 5 },
        resume: None,
        background,
        timeout_ms: 6,
    })
}

fn an_offer(background: bool, group: Option<SocketAddr>) -> Request<'static> {
    Request::Offer(Offer {
        session: SessionId(1),
        name: Name::new("x").expect("a name"),
        size: 2,
        digest: [3; 32],
        mode: if group.is_some() { Mode::OneToMany } else { Mode::Unicast },
        group,
        geometry: Geometry { symbol_size: 4, symbols_per_block: 5, initial_window: 6 },
        overwrite: false,
        resume: false,
        background,
        timeout_ms: 7,
    })
}

fn emitted(request: &Request<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    emit_request(1, Cookie::NONE, request, &mut bytes);
    bytes
}

/// A request that says nothing of its priority is read by servers which know none; these drop any other.
#[test]
fn a_flag_alone_tells_the_background() {
    for (usual, background, at, flag) in [
        (a_start(false), a_start(true), START_FLAGS_AT, FLAG_BACKGROUND),
        (an_offer(false, None), an_offer(true, None), OFFER_FLAGS_AT, FLAG_BACKGROUND_PUT),
    ] {
        let [mut usual, background] = [usual, background].map(|request| emitted(&request));
        assert_eq!((usual[at], background[at]), (0, flag));
        usual[at] = flag;
        end_of_request(&mut usual);
        assert_eq!(usual, background, "nothing else differs but the check");
    }
}

/// Sets the check of a request that was altered.
fn end_of_request(bytes: &mut [u8]) {
    let len = usize::from(u16::from_be_bytes([bytes[2], bytes[3]]));
    end(&mut bytes[..len]);
}

#[test]
fn flags_that_nobody_knows_are_refused() {
    for (request, at, known) in [
        (a_start(true), START_FLAGS_AT, FLAG_BACKGROUND | FLAG_RESUME),
        (an_offer(true, None), OFFER_FLAGS_AT, FLAG_BACKGROUND_PUT | 3),
    ] {
        for bit in 0..8 {
            let mut bytes = emitted(&request);
            bytes[at] |= 1 << bit;
            end_of_request(&mut bytes);
            assert_eq!(parse(&bytes).is_ok(), known & (1 << bit) != 0, "{request:?}, bit {bit}");
        }
    }
    let group = "239.1.2.3:5".parse().ok();
    let in_group = emitted(&an_offer(true, group));
    assert_eq!(parse(&in_group), Err(ParseError::BadField("flags")), "members would wait");
    assert!(parse(&emitted(&an_offer(false, group))).is_ok());
}

/// The bytes of a usual start, as hosts of this version have always written them.
#[test]
fn a_usual_start_has_the_bytes_that_it_has_always_had() {
    let mut expected = Vec::new();
    expected.extend_from_slice(&[0x28, 1, 0, 93 + 1, 0, 0, 0, 0]);
    expected.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 1]);
    expected.extend_from_slice(&[0; 16]);
    expected.extend_from_slice(&[0, 0, 0, 1]);
    expected.extend_from_slice(&[2; 32]);
    expected.extend_from_slice(&[0, 3, 0, 0, 0, 4, 5, 0, 1]);
    expected.extend_from_slice(&[0; 10]);
    expected.extend_from_slice(&[0, 0, 0, 6, 0, 1, b'x']);
    expected.resize(REQUEST_MIN_LEN, 0);
    end_of_request(&mut expected);
    assert_eq!(emitted(&a_start(false)), expected);
}

#[test]
fn a_secret_is_not_shown() {
    let key = GroupKey { session: SessionId(7), generation: 1, suite: 2, secret: &[165; 32] };
    let shown = std::format!("{:?}", Request::GroupKey(key));
    assert!(!shown.contains("165") && shown.contains("generation 1"), "{shown}");
}
