//! Datagrams of the handshake, and the first byte of sealed ones.
//!
//! The first byte has version 1 in its high nibble and the kind in its low one, above those of all protocols.
//! `id` is drawn by the initiator and repeated in every answer.
//!
//! ```text
//! kind           bytes 1-7                       8-15   from byte 16
//! 10 hello       zero                            id     zeros to byte 64: asks for the key and a cookie
//! 11 retry       zero                            id     cookie (16), static key of the responder or zeros (32)
//! 12 initiation  pattern, suites, length (2),    id     cookie (16), Noise message 1 with a request, zeros
//!                medium, 0
//! 13 response    zero                            id     Noise message 2 with the suite chosen
//! 14 sealed      zero                            channel (1) and counter (7), ciphertext, tag (16)
//! 15 refusal     reason, zero                    id
//! ```

/// Asks a responder for its key and a cookie.
pub(crate) const HELLO: u8 = 0x1a;
/// A cookie, and the responder's key.
pub(crate) const RETRY: u8 = 0x1b;
/// The first message of a handshake.
pub(crate) const INITIATION: u8 = 0x1c;
/// The second and last message of a handshake.
pub(crate) const RESPONSE: u8 = 0x1d;
/// A datagram all of which is sealed.
pub(crate) const SEALED: u8 = 0x1e;
/// A handshake is refused.
pub const REFUSAL: u8 = 0x1f;

/// Length of a hello and of its answer \[bytes\]: what a forged address earns is what was spent.
pub(crate) const HELLO_LEN: usize = 64;
/// Length of a refusal \[bytes\].
pub const REFUSAL_LEN: usize = 16;
/// Where the cookie stands in an initiation and a retry.
pub(crate) const COOKIE_AT: usize = 16;
/// Where an initiation says what its keys are for: datagrams or a stream.
pub(crate) const MEDIUM_AT: usize = 5;
/// Length of a cookie \[bytes\].
pub(crate) const COOKIE_LEN: usize = 16;
/// Where the Noise message begins in an initiation, and the key in a retry.
pub(crate) const MESSAGE_AT: usize = COOKIE_AT + COOKIE_LEN;
/// Shortest initiation \[bytes\]: longer than the response (65) and a sealed reply of 256 bytes (288) together,
/// so that whoever plays one again from a forged address makes the responder send less than he sent.
pub(crate) const INITIATION_LEN: usize = 384;
/// Longest initiation \[bytes\].
pub(crate) const MAX_INITIATION_LEN: usize = 1_400;

/// The id in a datagram of the handshake.
pub(crate) fn id_of(datagram: &[u8]) -> Option<u64> {
    datagram.get(8..16)?.try_into().ok().map(u64::from_be_bytes)
}

/// The beginning of a datagram of the handshake.
pub(crate) fn begin(kind: u8, id: u64) -> [u8; 16] {
    let mut head = [0; 16];
    head[0] = kind;
    head[8..].copy_from_slice(&id.to_be_bytes());
    head
}

/// A refusal of a handshake, for that reason.
pub(crate) fn refusal(id: u64, reason: u8) -> [u8; REFUSAL_LEN] {
    let mut refusal = begin(REFUSAL, id);
    refusal[1] = reason;
    refusal
}
