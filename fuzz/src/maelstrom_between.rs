//! Datagrams and streams of appliances beside repairs (trunks, bundles, hellos), altered on the way, and what
//! hosts send and ask a packet cache: no panic, bounded memory, and what comes out is what went in.

use arbitrary::{Arbitrary, Unstructured};
use std::net::SocketAddr;
use wellspring_core::{Duration, Time};
use wellspring_maelstrom::{
    Batch, Bundler, Failover, FailoverConfig, KEY_LEN, MAX_TRUNK_DATA, PacketCache, PresharedKey,
    SessionId, TrunkFrame, Unbundler, Wanted, trunk, trunk_greeting,
};

#[derive(Arbitrary, Debug)]
enum Frame<'a> {
    Ready,
    Open(SocketAddr, SocketAddr),
    Data(&'a [u8]),
    End,
}

#[derive(Arbitrary, Debug)]
enum Input<'a> {
    /// A trunk's bytes, one of which may be another on arrival, and may be cut.
    Trunk { frames: Vec<Frame<'a>>, bend: Option<(u16, u8)>, cut: u16 },
    /// Packets put together, the datagram perhaps bent.
    Bundle { packets: Vec<&'a [u8]>, bend: Option<(u16, u8)> },
    /// A datagram, as it stands.
    Raw(&'a [u8]),
    /// A hello of the other, perhaps bent, some time later.
    Hello { after_ms: u8, bend: Option<(u16, u8)> },
    /// A packet that a cache may keep.
    Kept(&'a [u8]),
    /// A question to the cache.
    Wanted { from: SocketAddr, to: SocketAddr, at: usize, bytes: &'a [u8] },
}

/// Changes a byte; true if anything is another then.
fn bend(bytes: &mut [u8], at: Option<(u16, u8)>) -> bool {
    let Some((at, by)) = at else { return false };
    let len = bytes.len().max(1);
    if let Some(byte) = bytes.get_mut(usize::from(at) % len) {
        *byte ^= by;
    }
    by != 0 && !bytes.is_empty()
}

fn relay(key: &PresharedKey, frames: &[Frame<'_>], at: Option<(u16, u8)>, cut: u16) {
    let (ours, theirs) = (trunk_greeting([1; 16]), trunk_greeting([2; 16]));
    let (mut sealer, _) = trunk(key, &ours, &theirs, true).expect("greetings");
    let (_, mut opener) = trunk(key, &theirs, &ours, false).expect("greetings");
    let frames: Vec<_> = frames
        .iter()
        .filter_map(|frame| match *frame {
            Frame::Ready => Some(TrunkFrame::Ready),
            // Both ends of a connection are of one IP version.
            Frame::Open(from, to) if from.is_ipv4() != to.is_ipv4() => None,
            Frame::Open(from, to) => Some(TrunkFrame::Open { from, to }),
            Frame::Data(bytes) if bytes.is_empty() || bytes.len() > MAX_TRUNK_DATA => None,
            Frame::Data(bytes) => Some(TrunkFrame::Data(bytes)),
            Frame::End => Some(TrunkFrame::End),
        })
        .collect();
    let mut bytes = Vec::new();
    frames.iter().for_each(|frame| sealer.seal(frame, &mut bytes));
    let bent = bend(&mut bytes, at);
    let cut = bytes.len().saturating_sub(usize::from(cut) % 64);
    let mut rest = &bytes[..cut];
    for sent in &frames {
        match opener.open(rest) {
            Ok(Some((frame, len))) => {
                // Addresses lose what only IPv6 sockets know of: flow and scope.
                if !matches!(sent, TrunkFrame::Open { .. }) {
                    assert_eq!(frame, *sent);
                }
                rest = &rest[len..];
            }
            Ok(None) => return assert!(bent || cut < bytes.len(), "a whole frame is waited for"),
            Err(_) => return assert!(bent, "nobody changed it"),
        }
    }
    assert!(!bent, "a changed byte went unnoticed");
}

/// Runs the target on one input.
pub fn run(bytes: &[u8]) {
    let key = PresharedKey::new([7; KEY_LEN]);
    let (one, two) = (SessionId { start: 1, random: 1 }, SessionId { start: 2, random: 2 });
    let mut now = Time::ZERO;
    let mut bundler = Bundler::new(&key, one, 512, Duration::from_millis(1));
    let mut unbundler = Unbundler::new(&key, two).believing(one);
    let silence = Duration::from_millis(50);
    let balance = Some(silence);
    let config = |number| FailoverConfig { partitions: 4, appliances: 2, number, silence, balance };
    let mut other = Failover::new(&key, b"here", one, config(0), now);
    let mut failover = Failover::new(&key, b"here", two, config(1), now);
    let mut cache = PacketCache::new(4_096, Duration::from_millis(100));
    let mut data = Unstructured::new(bytes);
    while let Ok(input) = Input::arbitrary(&mut data) {
        now = now + Duration::from_millis(1);
        match input {
            Input::Trunk { frames, bend, cut } => relay(&key, &frames, bend, cut),
            Input::Bundle { packets, bend: at } => {
                let mut out = Batch::new();
                packets.iter().for_each(|packet| bundler.add(now, packet, &mut out));
                bundler.handle_timeout(now + Duration::from_millis(2), &mut out);
                let fits = |packet: &&&[u8]| packet.len() <= 400;
                let mut sent = packets.iter().filter(fits);
                for bundle in out.iter() {
                    let mut bundle = bundle.to_vec();
                    let bent = bend(&mut bundle, at);
                    let mut given = Vec::new();
                    let result = unbundler.handle_datagram(&bundle, |p| given.push(p.to_vec()));
                    assert_eq!(result.is_err(), bent);
                    if packets.iter().all(|packet| packet.len() <= 400) && at.is_none() {
                        given.iter().for_each(|p| assert_eq!(Some(&&p[..]), sent.next()));
                    }
                }
            }
            Input::Raw(datagram) => {
                assert!(unbundler.handle_datagram(datagram, |_| ()).is_err());
                assert!(failover.handle_datagram(now, 0, datagram).is_err());
                let (ours, mut theirs) = (trunk_greeting([1; 16]), trunk_greeting([2; 16]));
                let len = datagram.len().min(theirs.len());
                theirs[..len].copy_from_slice(&datagram[..len]);
                if let Ok((_, mut opener)) = trunk(&key, &ours, &theirs, true) {
                    assert!(!matches!(opener.open(&datagram[len..]), Ok(Some(_))));
                }
            }
            Input::Hello { after_ms, bend: at } => {
                now = now + Duration::from_millis(after_ms.into());
                let mut hello = Vec::new();
                other.on_running(now, other.owned(), 0);
                other.on_load(after_ms % 4, u32::from(after_ms) * 100);
                other.handle_timeout(now, &mut hello);
                let bent = bend(&mut hello, at);
                if !hello.is_empty() {
                    assert_eq!(failover.handle_datagram(now, 0, &hello).is_err(), bent);
                }
                failover.handle_timeout(now, &mut Vec::new());
                // Between them they leave no partition out.
                let owned = |failover: &Failover, p| failover.owned().has(p);
                assert!((0..4).all(|p| owned(&failover, p) || owned(&other, p)));
            }
            Input::Kept(packet) => cache.keep(now, packet),
            Input::Wanted { from, to, at, bytes } => {
                let wanted = Wanted { from, to, at, bytes: bytes.to_vec() };
                let mut given = 0;
                let found = cache.find(now, &wanted, 8, |packet| {
                    given += 1;
                    assert!(packet.len() <= 4_096);
                });
                assert!(found == given && found <= 8);
            }
        }
        if data.is_empty() {
            break;
        }
    }
}
