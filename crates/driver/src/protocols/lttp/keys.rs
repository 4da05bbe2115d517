//! Handshakes of control channels between hosts with keys.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use wellspring_trust::{
    Answered, Greeted, Identity, Keyring, MAX_HANDSHAKE_LEN, MAX_STREAM_MESSAGE_LEN, NoWay,
    STREAM_OVERHEAD, StreamGreeting, StreamTrouble, answer_greeting,
};
use wellspring_wire::lttp::{MAX_BODY_LEN, MAX_ENVELOPE_LEN, MESSAGE_HEADER_LEN};

use super::control::{ControlError, Reader, Writer};
use crate::KeyTrouble;

/// Parts of a handshake that a client sends, at most: it asks for the server's key, and greets it.
const PARTS: usize = 2;

const _: () = assert!(MAX_HANDSHAKE_LEN <= MAX_ENVELOPE_LEN);
const _: () = assert!(MESSAGE_HEADER_LEN + MAX_BODY_LEN <= MAX_STREAM_MESSAGE_LEN);
const _: () = assert!(MESSAGE_HEADER_LEN + MAX_BODY_LEN + STREAM_OVERHEAD <= MAX_ENVELOPE_LEN);

/// A client's side: from its end on messages both ways are sealed.
///
/// # Errors
/// Why keys are in the way, or the connection is of no use.
pub async fn greet(
    keyring: &Arc<Keyring>,
    server: IpAddr,
    (reader, writer): (&mut Reader, &mut Writer),
    timeout: Duration,
) -> Result<(), ControlError> {
    let own = keyring.own().map(|own| own.public());
    let greeting = StreamGreeting::new(Arc::clone(keyring), server, crate::random::number());
    let mut greeting = greeting.map_err(|no_way| {
        ControlError::Keys(match no_way {
            NoWay::NoServerKey => KeyTrouble::NoServerKey,
            NoWay::TooLong => KeyTrouble::TooLong,
        })
    })?;
    loop {
        writer.greet(greeting.message(), timeout).await?;
        let answer = reader.handshake_within(timeout).await?;
        match greeting.answered(answer) {
            Ok(Greeted::GoesOn(next)) => greeting = next,
            Ok(Greeted::Established(sealer, opener)) => {
                writer.seal_by(sealer);
                reader.open_by(opener);
                return Ok(());
            }
            Err(StreamTrouble::Refused(reason)) => {
                return Err(ControlError::Keys(KeyTrouble::Refused { reason, own }));
            }
            Err(StreamTrouble::UnknownServer(key)) => {
                return Err(ControlError::Keys(KeyTrouble::UnknownServer(key)));
            }
            Err(StreamTrouble::Nonsense) => return Err(ControlError::Forged),
        }
    }
}

/// A server's side: who the client is, once its first message opens. From its end on messages both ways are sealed.
///
/// # Errors
/// The client has no keys, or none that is trusted, or the connection is of no use.
pub async fn admit(
    keyring: &Keyring,
    (reader, writer): (&mut Reader, &mut Writer),
    timeout: Duration,
) -> Result<Arc<Identity>, ControlError> {
    for _ in 0..PARTS {
        let part = reader.handshake_within(timeout).await?;
        match answer_greeting(keyring, part).ok_or(ControlError::OutOfPlace)? {
            Answered::GoesOn(answer) => writer.greet(&answer, timeout).await?,
            Answered::Established(answer, sealer, opener, identity) => {
                writer.greet(&answer, timeout).await?;
                writer.seal_by(sealer);
                reader.open_by(opener);
                return Ok(identity);
            }
            Answered::Refused(answer, reason) => {
                writer.greet(&answer, timeout).await?;
                return Err(ControlError::Untrusted(reason));
            }
        }
    }
    Err(ControlError::OutOfPlace)
}
