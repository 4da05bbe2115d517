//! Anything that a holder of the key, and anybody else, can send to Maelstrom's receive side: no
//! panic, bounded memory, and no packet comes out that is not whole.

use arbitrary::{Arbitrary, Unstructured};
use wellspring_core::{Duration, Time};
use wellspring_maelstrom::{
    Arrival, Batch, CongestionLoss, KEY_LEN, Namer, PresharedKey, ReceiveConfig, ReceiveSide,
    SessionId, seal_datagram,
};

#[derive(Arbitrary, Debug)]
enum Input<'a> {
    /// A packet, as it stands.
    Packet(&'a [u8]),
    /// A small packet of IPv4, of which there are few: repairs can name it.
    Known {
        byte: u8,
        len: u8,
    },
    /// A datagram, as it stands.
    Raw(&'a [u8]),
    /// What a holder of the key says: the first twelve bytes, and what follows the number.
    Sealed {
        newer: bool,
        number: u16,
        head: [u8; 12],
        rest: &'a [u8],
    },
    /// A repair of known packets.
    Repair {
        number: u16,
        layer: u8,
        stride: u8,
        first: u8,
        packets: Vec<(u8, u8)>,
        spoil: u8,
    },
    /// Packets pass unseen.
    Unseen,
    Report,
}

fn known(byte: u8, len: u8) -> Vec<u8> {
    let len = 20 + usize::from(len % 32);
    let mut packet = vec![byte; len];
    packet[..12].copy_from_slice(&[0x45, 0, 0, len as u8, 0, 0, 0x40, 0, 64, 17, 0, 0]);
    packet
}

fn body(namer: &Namer, packets: &[(u8, u8)], spoil: u8) -> (u8, Vec<u8>) {
    let mut xor = vec![0; 64];
    let (mut length, mut rest) = (0, Vec::new());
    for &(byte, len) in packets {
        let mut packet = known(byte, len);
        let identity = namer.identify(&mut packet).expect("a packet");
        rest.extend_from_slice(&identity.name.0.to_be_bytes());
        rest.extend_from_slice(&[64, 0]);
        length ^= identity.len as u8;
        xor.iter_mut().zip(&packet).for_each(|(x, p)| *x ^= p);
    }
    xor[usize::from(spoil % 64)] ^= spoil / 128;
    rest.extend_from_slice(&xor);
    (length, rest)
}

/// Runs the target on one input.
pub fn run(bytes: &[u8]) {
    let key = PresharedKey::new([7; KEY_LEN]);
    let sessions = [1, 2].map(|start| SessionId { start, random: 0 });
    // For some inputs recovered packets wait while two or three others are taken in.
    let hold = Duration::from_micros(if bytes.len().is_multiple_of(2) { 0 } else { 25 });
    let config = ReceiveConfig {
        packets: 16,
        repairs: 8,
        longest: 128,
        hold,
        congestion: CongestionLoss::Signal,
        renew_stamps: true,
    };
    let own = SessionId { start: 3, random: 3 };
    let mut receiver = ReceiveSide::new(&key, own, &config).expect("memory").believing(sessions[0]);
    let namer = Namer::new(&key);
    let mut data = Unstructured::new(bytes);
    let mut now = Time::ZERO;
    let mut out = Batch::new();
    while let Ok(input) = Input::arbitrary(&mut data) {
        now = now + Duration::from_micros(10);
        out.clear();
        match input {
            Input::Packet(packet) => {
                let _ = receiver.observe(now, &mut packet.to_vec(), &mut out);
            }
            Input::Known { byte, len } => {
                let _ = receiver.observe(now, &mut known(byte, len), &mut out);
            }
            Input::Raw(datagram) => {
                let arrival = receiver.handle_datagram(now, datagram, &mut out);
                assert!(matches!(arrival, Arrival::Dropped(_)), "no tag is right by chance");
            }
            Input::Sealed { newer, number, head, rest } => {
                let mut datagram = head.to_vec();
                let session = sessions[usize::from(newer)];
                seal_datagram(&key, session, u64::from(number), &mut datagram, rest);
                receiver.handle_datagram(now, &datagram, &mut out);
            }
            Input::Repair { number, layer, stride, first, packets, spoil } => {
                let packets = &packets[..packets.len().min(33)];
                let (length, rest) = body(&namer, packets, spoil);
                // Of a layer, or of a Reed-Solomon block.
                let kind = if layer < 128 { 1 } else { 8 };
                let layer = layer % 128;
                let mut datagram =
                    vec![3, kind, layer, packets.len() as u8, 0, length, 0, stride, 0, 0, 0, first];
                seal_datagram(&key, sessions[0], u64::from(number), &mut datagram, &rest);
                receiver.handle_datagram(now, &datagram, &mut out);
            }
            Input::Unseen => receiver.on_unseen(now),
            Input::Report => {
                receiver.causes(now);
                let report = receiver.loss_report(now);
                assert!(report.bursts <= report.lost && report.lost <= report.packets);
                continue;
            }
        }
        check(&receiver, &namer, &out);
        if data.is_empty() {
            break;
        }
    }
    out.clear();
    // Longer than packets are held, and than named ones are waited for.
    receiver.handle_timeout(now + Duration::from_millis(10), &mut out);
    check(&receiver, &namer, &out);
    assert_eq!(receiver.poll_timeout(), None);
}

/// Packets that come out are whole, and accounted for.
fn check(receiver: &ReceiveSide, namer: &Namer, out: &Batch) {
    assert_eq!(receiver.latest().len(), out.len());
    for packet in out.iter() {
        assert!(namer.identify(&mut packet.to_vec()).is_ok_and(|id| id.len == packet.len()));
    }
}
