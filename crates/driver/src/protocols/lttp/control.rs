//! Messages over a TCP connection, sealed where hosts have keys.

use std::fmt;
use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use wellspring_trust::{Opener, STREAM_OVERHEAD, Sealer};
use wellspring_wire::ParseError;
use wellspring_wire::control::RefusalCode;
use wellspring_wire::lttp::{
    Envelope, MESSAGE_HEADER_LEN, Message, emit_envelope, emit_message, envelope, message_kind,
    parse_message, parse_whole,
};

use crate::KeyTrouble;

/// Why a control channel is of no use any more.
#[derive(Debug)]
#[non_exhaustive]
pub enum ControlError {
    /// The peer closed it.
    Closed,
    /// Nothing came for so long, or nothing was taken.
    Silent(Duration),
    /// What came is no message.
    Nonsense(ParseError),
    /// A message came that has no place here.
    OutOfPlace,
    /// The server is about to send other symbols than it was asked for.
    OtherParameters,
    /// A message came that the peer has not sealed, or out of order.
    Forged,
    /// The peer speaks without keys.
    InClear,
    /// The server refuses the handshake, or is not trusted.
    Keys(KeyTrouble),
    /// The client is not trusted, or has greeted another host.
    Untrusted(wellspring_trust::Refusal),
    /// The server says no.
    Refused {
        /// Why.
        code: RefusalCode,
        /// The same in words; may be empty.
        text: String,
    },
    /// The system's error.
    Io(io::Error),
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ControlError::Closed => f.write_str("closed the connection"),
            ControlError::Silent(after) => {
                write!(f, "no answer within {:.1} s", after.as_secs_f64())
            }
            ControlError::Nonsense(error) => write!(f, "does not speak LTTP: {error}"),
            ControlError::OutOfPlace => f.write_str("an answer that makes no sense"),
            ControlError::OtherParameters => {
                f.write_str("sends other symbols than it was asked for")
            }
            ControlError::Forged => f.write_str("a message that was not sealed by the other host"),
            ControlError::InClear => f.write_str("speaks without keys"),
            ControlError::Keys(trouble) => trouble.fmt(f),
            ControlError::Untrusted(wellspring_trust::Refusal::NotTrusted) => {
                f.write_str("its key is not trusted here")
            }
            ControlError::Untrusted(_) => f.write_str("it has greeted another key"),
            ControlError::Refused { code, text } if text.is_empty() => {
                write!(f, "refused: {code}")
            }
            ControlError::Refused { text, .. } => write!(f, "refused: {text}"),
            ControlError::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ControlError {}

impl From<io::Error> for ControlError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe => ControlError::Closed,
            _ => ControlError::Io(error),
        }
    }
}

/// Both halves of a connection.
///
/// # Errors
/// The system's.
pub fn split(stream: TcpStream) -> io::Result<(Reader, Writer)> {
    // A stop that waits for a segment to fill would cost what it is to save.
    stream.set_nodelay(true)?;
    let (read, write) = stream.into_split();
    let reader = Reader { half: read, body: Vec::new(), sealed: Vec::new(), opener: None };
    Ok((reader, Writer { half: write, bytes: Vec::new(), plain: Vec::new(), sealer: None }))
}

/// The half that messages come from.
pub struct Reader {
    half: OwnedReadHalf,
    body: Vec<u8>,
    sealed: Vec<u8>,
    /// From the end of the handshake on, where there are keys.
    opener: Option<Opener>,
}

impl Reader {
    /// From now on messages are sealed.
    pub(super) fn open_by(&mut self, opener: Opener) {
        self.opener = Some(opener);
    }

    /// The next message. A future that is dropped half way loses its place in the stream.
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn next(&mut self) -> Result<Message<'_>, ControlError> {
        let mut header = [0; MESSAGE_HEADER_LEN];
        self.half.read_exact(&mut header).await?;
        let Some(opener) = &mut self.opener else {
            let (kind, len) = message_kind(header).map_err(ControlError::Nonsense)?;
            self.body.resize(len, 0);
            self.half.read_exact(&mut self.body).await?;
            return parse_message(kind, &self.body).map_err(ControlError::Nonsense);
        };
        let Ok((Envelope::Sealed, len)) = envelope(header) else {
            return Err(ControlError::Forged);
        };
        self.sealed.resize(len, 0);
        self.half.read_exact(&mut self.sealed).await?;
        opener.open(&self.sealed, &mut self.body).ok_or(ControlError::Forged)?;
        parse_whole(&self.body).map_err(ControlError::Nonsense)
    }

    /// The next part of a handshake, if it comes in time.
    pub(super) async fn handshake_within(&mut self, time: Duration) -> Result<&[u8], ControlError> {
        let read = async {
            let mut header = [0; MESSAGE_HEADER_LEN];
            self.half.read_exact(&mut header).await?;
            let len = match envelope(header) {
                Ok((Envelope::Handshake, len)) => len,
                Ok((Envelope::Sealed, _)) => return Err(ControlError::OutOfPlace),
                Err(ParseError::UnknownKind(_)) => return Err(ControlError::InClear),
                Err(error) => return Err(ControlError::Nonsense(error)),
            };
            self.body.resize(len, 0);
            self.half.read_exact(&mut self.body).await?;
            Ok(())
        };
        match tokio::time::timeout(time, read).await {
            Ok(Ok(())) => Ok(&self.body),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(ControlError::Silent(time)),
        }
    }

    /// The next message, if it comes in time.
    ///
    /// # Errors
    /// A refusal, or another [`ControlError`].
    pub async fn next_within(&mut self, time: Duration) -> Result<Message<'_>, ControlError> {
        match tokio::time::timeout(time, self.next()).await {
            Ok(Ok(Message::Refused { code, text })) => {
                Err(ControlError::Refused { code, text: text.to_owned() })
            }
            Ok(message) => message,
            Err(_) => Err(ControlError::Silent(time)),
        }
    }
}

/// The half that messages go to.
pub struct Writer {
    half: OwnedWriteHalf,
    bytes: Vec<u8>,
    plain: Vec<u8>,
    /// From the end of the handshake on, where there are keys.
    sealer: Option<Sealer>,
}

impl Writer {
    /// From now on messages are sealed.
    pub(super) fn seal_by(&mut self, sealer: Sealer) {
        self.sealer = Some(sealer);
    }

    /// Sends a message, if it is taken in time.
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn say(&mut self, message: &Message<'_>, time: Duration) -> Result<(), ControlError> {
        self.bytes.clear();
        match &mut self.sealer {
            None => emit_message(message, &mut self.bytes),
            Some(sealer) => {
                self.plain.clear();
                emit_message(message, &mut self.plain);
                let mut sealed = Vec::with_capacity(self.plain.len() + STREAM_OVERHEAD);
                sealer.seal(&self.plain, &mut sealed).expect("shorter than what is sealed");
                emit_envelope(Envelope::Sealed, &sealed, &mut self.bytes);
            }
        }
        self.send(time).await
    }

    /// Sends a part of a handshake, if it is taken in time.
    pub(super) async fn greet(&mut self, part: &[u8], time: Duration) -> Result<(), ControlError> {
        self.bytes.clear();
        emit_envelope(Envelope::Handshake, part, &mut self.bytes);
        self.send(time).await
    }

    async fn send(&mut self, time: Duration) -> Result<(), ControlError> {
        match tokio::time::timeout(time, self.half.write_all(&self.bytes)).await {
            Ok(written) => Ok(written?),
            Err(_) => Err(ControlError::Silent(time)),
        }
    }
}
