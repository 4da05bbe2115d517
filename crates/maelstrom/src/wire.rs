//! Byte layout of the datagrams between appliances. All numbers are big-endian.
//!
//! | bytes | what |
//! |---|---|
//! | 1 | version, 3 |
//! | 1 | kind: 1 a repair, 2 a report of loss, 5 a digest |
//! | 1 | the layer that made the repair |
//! | 1 | n, packets in the repair |
//! | 2 | XOR of their lengths |
//! | 2 | stride: how many packets lie from one of them to the next |
//! | 4 | number of the first of them, modulo 2^32 |
//! | 16 | session: its beginning \[ns since 1970\], a random number |
//! | 2 | time stamp: when it left, in units of 64 us, modulo 2^16 |
//! | 6 | number of the datagram in the session |
//! | 10 n | of each packet its name (8), time to live or hop limit (1), traffic class (1) |
//! | rest | XOR of the packets |
//! | 16 | tag over all before it |
//!
//! With encryption what follows the first 36 bytes is encrypted, and as long as without.
//!
//! Kind 7 is a repair of the sliding-window code: the seed of its factors instead of the layer, the packets of its window
//! instead of the XOR of lengths, the number of the window's oldest packet, and of each of the window's n newest packets
//! the second half of its name (4), hops (1), class (1); then the combination.
//!
//! Kind 8 is a repair of a Reed-Solomon block: the number of the repair in its block instead of the layer, zeros instead of
//! the XOR of lengths, and the symbol instead of the XOR of packets.
//!
//! Kind 3 is a hello between the appliances of a site (`hello.rs`), kind 4 a bundle of packets, kind 9 a hello between
//! bundlers (`bundle_hello.rs`); all have zeros there. A report has zeros from the
//! layer to the number of the first packet, and 56 bytes instead of packets and XOR: 32
//! of account ([`LossReport`]), the session that the sender hears or zeros (16), probes heard of it (4), the stamp of the
//! newest datagram heard and for how long it has been there in the same unit (2 and 2). Kind 6 is
//! a probe: zeros, as long as the longest repair. A
//! digest names n packets for which no repair was made, in the order in which they left, numbered by a count of its
//! own: stride 1, and 4 bytes of each packet's name.

use wellspring_codec::interleave::{MAX_LAYERS, MAX_NAMES, MAX_RATE, PacketName, Repair};
use wellspring_core::{Duration, Time};

use crate::auth::{HEADER_LEN, Sealer, SessionId, TAG_LEN, Verifier};
use crate::diagnosis::Hearing;
use crate::drop_reason::DropReason;
use crate::identity::Volatile;
use crate::loss_report::LossReport;
use crate::queue_delay::{Echo, Stamp};

/// A packet's name and what routers change in it \[bytes\].
pub const INGREDIENT_LEN: usize = 10;
/// Half of a packet's name and what routers change in it \[bytes\].
pub(crate) const HALF_INGREDIENT_LEN: usize = 6;
/// A whole report \[bytes\].
pub const REPORT_LEN: usize = HEADER_LEN + REPORT_BODY + TAG_LEN;

/// Version of the datagrams: their first byte.
pub const VERSION: u8 = 3;
const REPAIR: u8 = 1;
const REPORT: u8 = 2;
pub(crate) const HELLO: u8 = 3;
const BUNDLE: u8 = 4;
pub(crate) const BUNDLE_HELLO: u8 = 9;
const DIGEST: u8 = 5;
const PROBE: u8 = 6;
const SLIDING: u8 = 7;
const BLOCK: u8 = 8;
const SESSION_AT: usize = 12;
const STAMP_AT: usize = 28;
const NUMBER_AT: usize = 30;
const REPORT_BODY: usize = 56;
/// A packet's name in a digest \[bytes\].
pub(crate) const SHORT_NAME_LEN: usize = 4;
/// The bit of a report's thousandths that says that the path is full.
const FULL: u16 = 1 << 15;
/// Unit of waits in reports \[us\].
const WAIT_US: u64 = 64;

/// Whether a datagram calls itself a repair, of whatever code: for who only watches, since nothing is verified.
pub fn is_repair(datagram: &[u8]) -> bool {
    matches!(datagram, [VERSION, REPAIR | SLIDING | BLOCK, ..])
}

/// A datagram whose tag is to be verified, and its rest decrypted if it is encrypted, before any of it is believed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sealed<'a> {
    pub session: SessionId,
    pub number: u64,
    /// When it left.
    pub stamp: Stamp,
    /// All but the tag.
    pub bytes: &'a [u8],
    pub tag: [u8; TAG_LEN],
}

impl<'a> Sealed<'a> {
    pub(crate) fn parse(datagram: &'a [u8]) -> Result<Self, DropReason> {
        let (bytes, tag) = datagram.split_last_chunk().ok_or(DropReason::Foreign)?;
        if bytes.len() < HEADER_LEN || bytes[0] != VERSION {
            return Err(DropReason::Foreign);
        }
        let session = SessionId::from_bytes(array(bytes, SESSION_AT));
        let stamp = Stamp(u16::from_be_bytes(array(bytes, STAMP_AT)));
        let [a, b, c, d, e, f] = array(bytes, NUMBER_AT);
        let number = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
        Ok(Sealed { session, number, stamp, bytes, tag: *tag })
    }

    /// The same once it is verified, and its rest decrypted to `plain` if it is encrypted. `shows` says of a verified
    /// datagram of a new session whether that is the peer's.
    pub(crate) fn opened(
        self,
        verifier: &mut Verifier,
        plain: &'a mut Vec<u8>,
        shows: impl FnOnce(&[u8]) -> bool,
    ) -> Result<Self, DropReason> {
        let Sealed { session, number, bytes, tag, .. } = self;
        Ok(Sealed { bytes: verifier.open(session, number, bytes, &tag, plain, shows)?, ..self })
    }

    /// What a verified datagram says.
    pub(crate) fn body(&self) -> Result<Body<'a>, DropReason> {
        let (header, rest) = self.bytes.split_at(HEADER_LEN);
        match header[1] {
            REPAIR => parse_repair(header, rest).map(Body::Repair),
            BLOCK => parse_repair(header, rest).map(Body::Block),
            SLIDING => parse_sliding(header, rest).map(Body::Sliding),
            REPORT => parse_report(rest).map(|(report, hearing)| Body::Report(report, hearing)),
            PROBE => Ok(Body::Probe),
            DIGEST => parse_digest(header, rest).map(Body::Digest),
            _ => Err(DropReason::Malformed),
        }
    }

    /// The packets of a verified bundle.
    pub(crate) fn bundle(&self) -> Result<&'a [u8], DropReason> {
        let (header, body) = self.bytes.split_at(HEADER_LEN);
        if header[1] == BUNDLE { Ok(body) } else { Err(DropReason::Malformed) }
    }
}

/// What a datagram says.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Body<'a> {
    Repair(WireRepair<'a>),
    Block(WireRepair<'a>),
    Sliding(WireSliding<'a>),
    Report(LossReport, Hearing),
    Probe,
    Digest(WireDigest<'a>),
}

/// A digest as it travels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WireDigest<'a> {
    pub first: u32,
    names: &'a [[u8; SHORT_NAME_LEN]],
}

impl WireDigest<'_> {
    /// Numbers and short names of its packets.
    pub(crate) fn packets(&self) -> impl ExactSizeIterator<Item = (u32, u32)> {
        let first = self.first;
        let numbered = move |(n, name): (usize, &[u8; SHORT_NAME_LEN])| {
            (first.wrapping_add(n as u32), u32::from_be_bytes(*name))
        };
        self.names.iter().enumerate().map(numbered)
    }
}

/// A repair as it travels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WireRepair<'a> {
    pub layer: u8,
    pub length: u16,
    pub stride: u16,
    pub first: u32,
    ingredients: &'a [[u8; INGREDIENT_LEN]],
    pub xor: &'a [u8],
}

/// One packet of a repair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ingredient {
    pub number: u32,
    pub name: PacketName,
    pub volatile: Volatile,
}

impl WireRepair<'_> {
    /// The number of its last packet.
    pub(crate) fn last(&self) -> u32 {
        let steps = self.ingredients.len() as u32 - 1;
        self.first.wrapping_add(steps * u32::from(self.stride))
    }

    pub(crate) fn ingredients(&self) -> impl ExactSizeIterator<Item = Ingredient> {
        let mut number = self.first;
        self.ingredients.iter().map(move |bytes| {
            let this = number;
            number = number.wrapping_add(u32::from(self.stride));
            Ingredient {
                number: this,
                name: PacketName(u64::from_be_bytes(array(bytes, 0))),
                volatile: Volatile { hops: bytes[8], class: bytes[9] },
            }
        })
    }
}

/// A repair of the sliding-window code as it travels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WireSliding<'a> {
    pub seed: u8,
    /// Number of the window's oldest packet.
    pub first: u32,
    /// Packets in the window.
    pub window: u16,
    ingredients: &'a [[u8; HALF_INGREDIENT_LEN]],
    pub symbol: &'a [u8],
}

impl WireSliding<'_> {
    /// The number of the first packet that is named.
    pub(crate) fn first_named(&self) -> u32 {
        let unnamed = u32::from(self.window).wrapping_sub(self.ingredients.len() as u32);
        self.first.wrapping_add(unnamed)
    }

    /// The packets that are named: of their names there is the second half.
    pub(crate) fn ingredients(&self) -> impl ExactSizeIterator<Item = Ingredient> {
        let first = self.first_named();
        let numbered = move |(place, bytes): (usize, &[u8; HALF_INGREDIENT_LEN])| Ingredient {
            number: first.wrapping_add(place as u32),
            name: PacketName(u64::from(u32::from_be_bytes(array(bytes, 0)))),
            volatile: Volatile { hops: bytes[4], class: bytes[5] },
        };
        self.ingredients.iter().enumerate().map(numbered)
    }
}

fn parse_sliding<'a>(header: &[u8], rest: &'a [u8]) -> Result<WireSliding<'a>, DropReason> {
    let packets = header[3];
    let window = u16::from_be_bytes(array(header, 4));
    let names = usize::from(packets) * HALF_INGREDIENT_LEN;
    if !(1..=MAX_NAMES).contains(&packets) || window < u16::from(packets) || rest.len() < names {
        return Err(DropReason::Malformed);
    }
    let (ingredients, symbol) = rest.split_at(names);
    Ok(WireSliding {
        seed: header[2],
        first: u32::from_be_bytes(array(header, 8)),
        window,
        ingredients: ingredients.as_chunks().0,
        symbol,
    })
}

fn parse_repair<'a>(header: &[u8], rest: &'a [u8]) -> Result<WireRepair<'a>, DropReason> {
    let (layer, packets) = (header[2], header[3]);
    let stride = u16::from_be_bytes(array(header, 6));
    let names = usize::from(packets) * INGREDIENT_LEN;
    if !(1..=MAX_RATE).contains(&packets)
        || usize::from(layer) >= MAX_LAYERS
        || stride == 0
        || rest.len() < names
    {
        return Err(DropReason::Malformed);
    }
    let (ingredients, xor) = rest.split_at(names);
    Ok(WireRepair {
        layer,
        length: u16::from_be_bytes(array(header, 4)),
        stride,
        first: u32::from_be_bytes(array(header, 8)),
        ingredients: ingredients.as_chunks().0,
        xor,
    })
}

fn parse_digest<'a>(header: &[u8], rest: &'a [u8]) -> Result<WireDigest<'a>, DropReason> {
    let packets = usize::from(header[3]);
    if packets == 0 || rest.len() != packets * SHORT_NAME_LEN {
        return Err(DropReason::Malformed);
    }
    let first = u32::from_be_bytes(array(header, 8));
    Ok(WireDigest { first, names: rest.as_chunks().0 })
}

/// Whom the sender of a verified datagram hears, if it is a report.
pub(crate) fn hearing(bytes: &[u8]) -> Option<Hearing> {
    let (header, body) = bytes.split_at_checked(HEADER_LEN)?;
    let report = parse_report(body).ok().filter(|_| header[1] == REPORT);
    report.map(|(_, hearing)| hearing)
}

fn parse_report(body: &[u8]) -> Result<(LossReport, Hearing), DropReason> {
    if body.len() != REPORT_BODY {
        return Err(DropReason::Malformed);
    }
    let word = |at: usize| u32::from_be_bytes(array(body, at));
    let session = SessionId::from_bytes(array(body, 32));
    let none = SessionId { start: 0, random: 0 };
    let half = |at: usize| u16::from_be_bytes(array(body, at));
    let echo = Echo { stamp: half(52), held: half(54) };
    let hearing = Hearing {
        session: Some(session).filter(|&session| session != none),
        probes: word(48),
        echo,
    };
    let report = LossReport {
        packets: word(0),
        lost: word(4),
        bursts: word(8),
        recovered: word(12),
        usual_burst: u16::from_be_bytes(array(body, 16)),
        longest_burst: u16::from_be_bytes(array(body, 18)),
        congested: word(20),
        congested_lost: word(24),
        queue_delay: Duration::from_micros(u64::from(half(28)) * WAIT_US),
        full: half(30) & FULL != 0,
        queued: half(30) & !FULL,
        round_trip: Duration::ZERO,
    };
    Ok((report, hearing))
}

/// What of a repair does not come from its bin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RepairHead {
    /// Of a Reed-Solomon block, not of a layer.
    pub block: bool,
    pub layer: u8,
    pub length: u16,
    pub stride: u16,
    pub first: u32,
}

/// Appends a repair to `out`.
pub(crate) fn emit_repair(
    sealer: &mut Sealer,
    now: Time,
    head: RepairHead,
    ingredients: impl ExactSizeIterator<Item = (PacketName, Volatile)>,
    xor: &[u8],
    out: &mut Vec<u8>,
) {
    let start = out.len();
    let packets = ingredients.len() as u8;
    let kind = if head.block { BLOCK } else { REPAIR };
    out.extend_from_slice(&[VERSION, kind, head.layer, packets]);
    out.extend_from_slice(&head.length.to_be_bytes());
    out.extend_from_slice(&head.stride.to_be_bytes());
    out.extend_from_slice(&head.first.to_be_bytes());
    emit_session(sealer, now, out);
    for (name, volatile) in ingredients {
        let mut bytes = [0; INGREDIENT_LEN];
        bytes[..8].copy_from_slice(&name.0.to_be_bytes());
        bytes[8] = volatile.hops;
        bytes[9] = volatile.class;
        out.extend_from_slice(&bytes);
    }
    out.extend_from_slice(xor);
    sealer.seal(start, out);
}

/// Appends a repair of the sliding-window code to `out`; `first` is the number of its window's oldest packet.
pub(crate) fn emit_sliding(
    sealer: &mut Sealer,
    now: Time,
    first: u32,
    repair: &Repair<'_>,
    volatiles: impl Iterator<Item = Volatile>,
    out: &mut Vec<u8>,
) {
    let start = out.len();
    out.extend_from_slice(&[VERSION, SLIDING, repair.layer, repair.recipe.len() as u8]);
    out.extend_from_slice(&repair.length.to_be_bytes());
    out.extend_from_slice(&[0, 1]);
    out.extend_from_slice(&first.to_be_bytes());
    emit_session(sealer, now, out);
    for (name, volatile) in repair.recipe.iter().zip(volatiles) {
        out.extend_from_slice(&(name.0 as u32).to_be_bytes());
        out.extend_from_slice(&[volatile.hops, volatile.class]);
    }
    out.extend_from_slice(repair.xor);
    sealer.seal(start, out);
}

/// Appends a report to `out`.
pub(crate) fn emit_report(
    sealer: &mut Sealer,
    now: Time,
    report: &LossReport,
    hearing: &Hearing,
    out: &mut Vec<u8>,
) {
    let start = out.len();
    emit_empty_head(sealer, REPORT, now, out);
    for word in [report.packets, report.lost, report.bursts, report.recovered] {
        out.extend_from_slice(&word.to_be_bytes());
    }
    out.extend_from_slice(&report.usual_burst.to_be_bytes());
    out.extend_from_slice(&report.longest_burst.to_be_bytes());
    for word in [report.congested, report.congested_lost] {
        out.extend_from_slice(&word.to_be_bytes());
    }
    let wait = (report.queue_delay.as_micros() / WAIT_US).min(u64::from(u16::MAX)) as u16;
    let full = if report.full { FULL } else { 0 };
    for half in [wait, report.queued & !FULL | full] {
        out.extend_from_slice(&half.to_be_bytes());
    }
    let session = hearing.session.unwrap_or(SessionId { start: 0, random: 0 });
    out.extend_from_slice(&session.to_bytes());
    out.extend_from_slice(&hearing.probes.to_be_bytes());
    for half in [hearing.echo.stamp, hearing.echo.held] {
        out.extend_from_slice(&half.to_be_bytes());
    }
    sealer.seal(start, out);
}

/// Appends a probe of that length to `out`.
pub(crate) fn emit_probe(sealer: &mut Sealer, now: Time, len: usize, out: &mut Vec<u8>) {
    let start = out.len();
    emit_empty_head(sealer, PROBE, now, out);
    out.resize(start + len.saturating_sub(TAG_LEN).max(HEADER_LEN), 0);
    sealer.seal(start, out);
}

/// Appends a digest to `out`.
pub(crate) fn emit_digest(
    sealer: &mut Sealer,
    now: Time,
    first: u32,
    names: &[PacketName],
    out: &mut Vec<u8>,
) {
    let start = out.len();
    out.extend_from_slice(&[VERSION, DIGEST, 0, names.len() as u8, 0, 0, 0, 1]);
    out.extend_from_slice(&first.to_be_bytes());
    emit_session(sealer, now, out);
    for &name in names {
        out.extend_from_slice(&short_name(name).to_be_bytes());
    }
    sealer.seal(start, out);
}

/// The part of a packet's name that a digest has.
pub(crate) fn short_name(name: PacketName) -> u32 {
    (name.0 >> 32) as u32
}

/// Appends a bundle to `out`.
pub(crate) fn emit_bundle(sealer: &mut Sealer, body: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    emit_empty_head(sealer, BUNDLE, Time::ZERO, out);
    out.extend_from_slice(body);
    sealer.seal(start, out);
}

/// Appends the header of a datagram that says nothing of packets.
pub(crate) fn emit_empty_head(sealer: &Sealer, kind: u8, now: Time, out: &mut Vec<u8>) {
    out.extend_from_slice(&[VERSION, kind]);
    out.extend_from_slice(&[0; SESSION_AT - 2]);
    emit_session(sealer, now, out);
}

fn emit_session(sealer: &Sealer, now: Time, out: &mut Vec<u8>) {
    out.extend_from_slice(&sealer.session().to_bytes());
    out.extend_from_slice(&Stamp::at(now).0.to_be_bytes());
    out.extend_from_slice(&sealer.number().to_be_bytes()[2..]);
}

pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    std::array::from_fn(|i| bytes[at + i])
}
