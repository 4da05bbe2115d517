//! Packets of simulated hosts: headers of IPv4 and TCP with time stamps, as appliances read them.

use wellspring_core::{Duration, Time};

/// Length of the headers, and of a packet without data \[bytes\].
pub(super) const HEADERS: usize = 52;
/// The acknowledgement number's place: what stands for the meaning of a packet.
const MEANING_AT: usize = 28;
/// The urgent pointer's: whether the packet is protected.
const PROTECTED_AT: usize = 39;
/// The time stamp's.
const STAMP_AT: usize = 44;
/// Data in a full packet \[bytes\].
pub(super) const PAYLOAD: u64 = 1_448;

/// What stands in a packet's headers.
pub(super) struct Headers {
    pub flow: usize,
    pub is_tcp: bool,
    /// The place of the packet's data among its flow's.
    pub number: u64,
    pub sent: Time,
    pub meaning: usize,
    pub protected: bool,
}

impl Headers {
    /// A packet of so many bytes.
    pub fn packet(&self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        (bytes[0], bytes[8], bytes[9]) = (0x45, 64, if self.is_tcp { 6 } else { 17 });
        bytes[2..4].copy_from_slice(&(len as u16).to_be_bytes());
        bytes[20..22].copy_from_slice(&(self.flow as u16).to_be_bytes());
        let sequence = self.number.wrapping_mul(PAYLOAD) as u32;
        bytes[24..28].copy_from_slice(&sequence.to_be_bytes());
        bytes[MEANING_AT..32].copy_from_slice(&(self.meaning as u32).to_be_bytes());
        bytes[32] = 8 << 4;
        bytes[PROTECTED_AT] = u8::from(self.protected);
        bytes[40..STAMP_AT].copy_from_slice(&[1, 1, 8, 10]);
        bytes[STAMP_AT..48].copy_from_slice(&stamp(self.sent).to_be_bytes());
        bytes
    }
}

/// What stands for a packet's meaning.
pub(super) fn meaning(packet: &[u8]) -> usize {
    word(packet, MEANING_AT) as usize
}

/// When a packet left by its time stamp, which was `sent` unless an appliance has renewed it.
pub(super) fn sent_by_stamp(packet: &[u8], sent: Time) -> Time {
    let renewed = word(packet, STAMP_AT);
    if renewed == stamp(sent) {
        return sent;
    }
    Time::ZERO + Duration::from_millis(u64::from(renewed))
}

/// Whether the appliances look at a packet.
pub(super) fn is_protected(packet: &[u8]) -> bool {
    packet[PROTECTED_AT] == 1
}

/// Milliseconds since the start, as most hosts count.
fn stamp(at: Time) -> u32 {
    (at.since(Time::ZERO).as_nanos() / 1_000_000) as u32
}

fn word(packet: &[u8], place: usize) -> u32 {
    u32::from_be_bytes(std::array::from_fn(|n| packet[place + n]))
}
