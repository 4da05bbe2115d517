use super::*;
use proptest::prelude::*;
use std::vec::Vec;

fn options() -> impl Strategy<Value = (Options, [u8; 32])> {
    let mode = prop_oneof![Just(Mode::Unicast), Just(Mode::OneToMany), Just(Mode::ManyToOne)];
    (1..u64::MAX, 1..u32::MAX, 1..u16::MAX, mode, 1..u8::MAX, any::<[u8; 32]>()).prop_map(
        |(transfer_len, source_blocks, symbol_size, mode, initial_window, digest)| {
            let object_tag = u64::from_be_bytes(digest[..8].try_into().expect("eight bytes"));
            let options = Options {
                transfer_len,
                object_tag,
                source_blocks,
                symbol_size,
                mode,
                initial_window,
            };
            (options, digest)
        },
    )
}

fn symbol() -> impl Strategy<Value = (ScdpHeader, [u8; 32])> {
    (any::<u32>(), 0..=MAX_ESI, any::<u32>(), any::<u8>(), 0..32_u8, any::<bool>()).prop_flat_map(
        |(sbn, esi, number, epoch, priority, fin)| {
            prop::option::of(options()).prop_map(move |with| {
                let symbol = Symbol {
                    sbn,
                    esi,
                    number,
                    epoch,
                    priority,
                    fin,
                    options: with.map(|(o, _)| o),
                };
                (ScdpHeader::Symbol(symbol), with.map_or([0; 32], |(_, d)| d))
            })
        },
    )
}

fn header() -> impl Strategy<Value = (ScdpHeader, [u8; 32])> {
    let first = prop::option::of(0..=MAX_ESI);
    let words = (any::<u32>(), any::<u32>(), any::<u32>());
    let pull = (words, 1..u16::MAX, any::<u8>(), any::<bool>(), first).prop_map(
        |((sbn, granted, floor), run, epoch, fin, first)| {
            let pull = Pull { sbn, granted, floor, run, epoch, fin, first };
            (ScdpHeader::Pull(pull), [0; 32])
        },
    );
    let close = any::<bool>().prop_map(|from_receiver| {
        let close = Close { reason: CloseReason::Refused, from_receiver };
        (ScdpHeader::Close(close), [0; 32])
    });
    prop_oneof![symbol(), pull, close]
}

fn bytes_of(session: u32, header: &ScdpHeader, digest: &[u8; 32], payload: &[u8]) -> Vec<u8> {
    let mut bytes = std::vec![0; HEADER_WITH_OPTIONS_LEN];
    let len = emit(SessionId(session), header, digest, payload.len() as u16, &mut bytes);
    assert_eq!(len as u16 + 8, wellspring_core::Header::wire_len(header));
    bytes.truncate(len);
    bytes.extend_from_slice(payload);
    bytes
}

proptest! {
    #[test]
    fn what_is_emitted_parses_back((header, digest) in header(), session: u32) {
        let payload: &[u8] = match header {
            ScdpHeader::Symbol(_) => b"payload",
            _ => b"",
        };
        let bytes = bytes_of(session, &header, &digest, payload);
        let parsed = parse(&bytes).expect("ours");
        prop_assert_eq!(parsed.header, header);
        prop_assert_eq!(parsed.session, SessionId(session));
        prop_assert_eq!(parsed.payload, payload);
        prop_assert!(!parsed.trimmed);
    }

    #[test]
    fn any_cut_of_a_symbol_is_a_trimmed_header(
        (header, digest) in symbol(), session: u32, payload_len in 1_usize..200, cut: u16,
    ) {
        let payload = std::vec![7; payload_len];
        let bytes = bytes_of(session, &header, &digest, &payload);
        let cut = CORE_LEN + usize::from(cut) % (bytes.len() - CORE_LEN);
        let parsed = parse(&bytes[..cut]).expect("header is whole");
        let (ScdpHeader::Symbol(sent), ScdpHeader::Symbol(got)) = (header, parsed.header)
        else {
            panic!("kind changed");
        };
        prop_assert!(parsed.trimmed && parsed.payload.is_empty());
        prop_assert_eq!((got.sbn, got.esi), (sent.sbn, sent.esi));
        prop_assert_eq!(got.number & 0xff, sent.number & 0xff);
        prop_assert_eq!(parsed.number_is_partial, cut < HEADER_LEN);
        if !parsed.number_is_partial {
            prop_assert_eq!(got.number, sent.number);
        }
    }

    #[test]
    fn noise_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
        let _ = parse(&bytes);
    }

    #[test]
    fn noise_with_right_checks_never_panics(
        kind in KIND_SYMBOL..=KIND_CLOSE + 1,
        mut bytes in prop::collection::vec(any::<u8>(), CORE_LEN..120),
        near: bool,
    ) {
        bytes[0] = (VERSION << 4) | kind;
        if near {
            // Few bits that have a meaning are wrong.
            bytes[1] &= FLAG_SYN | FLAG_FIN | FLAG_OPTIONS;
            bytes.resize(HEADER_WITH_OPTIONS_LEN + bytes.len() / 2, 0x5a);
            (bytes[22], bytes[38]) = (0, bytes[38] % 4);
            bytes[12..15].fill(0);
            bytes[15] %= 8;
            bytes[24] &= 1;
        }
        if kind == KIND_SYMBOL && bytes.len() >= HEADER_LEN {
            let has_options = bytes[1] & FLAG_OPTIONS != 0;
            let options = bytes.get(HEADER_LEN..HEADER_WITH_OPTIONS_LEN).filter(|_| has_options);
            bytes[FLAGS_AT] = options.map_or(0, check_of_options);
            bytes[SECOND_CHECK_AT] = second_check_of(&bytes);
        } else if bytes.len() > FLAGS_AT {
            bytes[FLAGS_AT] &= !TAG_FOLLOWS;
        }
        let checked_len = match kind {
            KIND_PULL if bytes[1] & FLAG_DIRECTED != 0 => DIRECTED_PULL_LEN,
            KIND_PULL => HEADER_LEN,
            _ => CORE_LEN,
        };
        let check = check_of(&bytes[..checked_len.min(bytes.len())]);
        bytes[2..4].copy_from_slice(&check.to_be_bytes());
        match parse(&bytes) {
            Ok(parsed) => {
                prop_assert!(parsed.payload.len() < bytes.len());
                prop_assert!(!parsed.trimmed || kind == KIND_SYMBOL);
            }
            Err(why) => prop_assert_ne!(why, ParseError::BadCheck),
        }
    }

    #[test]
    fn a_flipped_bit_in_the_header_is_noticed(
        (header, digest) in header(), session: u32, bit: u16,
    ) {
        let mut bytes = bytes_of(session, &header, &digest, b"x");
        let bit = usize::from(bit) % ((bytes.len() - 1) * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(parse(&bytes).is_err());
    }

    #[test]
    fn a_flipped_bit_in_a_trimmed_header_is_noticed_where_all_of_its_field_is_left(
        (header, digest) in symbol(), session: u32, cut in HEADER_LEN..60, bit: u16,
    ) {
        let mut bytes = bytes_of(session, &header, &digest, &[7; 100]);
        bytes.truncate(cut);
        let bit = usize::from(bit) % (HEADER_LEN * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(parse(&bytes).is_err());
    }

    #[test]
    fn the_mark_of_a_tag_comes_and_goes_and_leaves_the_checks_right(
        (header, digest) in symbol(), session: u32,
    ) {
        let before = bytes_of(session, &header, &digest, b"x");
        let mut bytes = before.clone();
        set_tagged(&mut bytes, true);
        prop_assert_eq!(tagged_len(&bytes), Some(before.len()));
        prop_assert_eq!(parse(&bytes), Err(ParseError::BadField("authentication tag")));
        set_tagged(&mut bytes, false);
        prop_assert_eq!(bytes, before);
    }
}

#[test]
fn a_pull_whose_floor_or_first_symbol_was_damaged_is_refused() {
    let pull = Pull { sbn: 1, granted: 20, floor: 1, run: 4, epoch: 0, fin: false, first: Some(7) };
    let bytes = bytes_of(1, &ScdpHeader::Pull(pull), &[0; 32], b"");
    for at in 16..DIRECTED_PULL_LEN {
        let mut damaged = bytes.clone();
        damaged[at] ^= 3;
        assert_eq!(parse(&damaged), Err(ParseError::BadCheck), "byte {at}");
    }
}

#[test]
fn other_versions_and_kinds_are_named() {
    let close = ScdpHeader::Close(Close { reason: CloseReason::Cancelled, from_receiver: true });
    let mut bytes = bytes_of(1, &close, &[0; 32], b"");
    bytes[0] = 0x22;
    assert_eq!(parse(&bytes), Err(ParseError::UnknownVersion(2)));
    bytes[0] = 0x1f;
    let check = check_of(&bytes[..CORE_LEN]);
    bytes[2..4].copy_from_slice(&check.to_be_bytes());
    assert_eq!(parse(&bytes), Err(ParseError::UnknownKind(15)));
}
