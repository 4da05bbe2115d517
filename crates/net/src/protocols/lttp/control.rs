//! Messages over a TCP connection.

use std::fmt;
use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use wellspring_wire::ParseError;
use wellspring_wire::control::RefusalCode;
use wellspring_wire::lttp::{
    MESSAGE_HEADER_LEN, Message, emit_message, message_kind, parse_message,
};

/// Why a control channel is of no use any more.
#[derive(Debug)]
pub(crate) enum ControlError {
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
    /// The server says no.
    Refused { code: RefusalCode, text: String },
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
            ControlError::Refused { code, text } if text.is_empty() => {
                write!(f, "refused: {code}")
            }
            ControlError::Refused { text, .. } => write!(f, "refused: {text}"),
            ControlError::Io(error) => error.fmt(f),
        }
    }
}

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
pub(crate) fn split(stream: TcpStream) -> io::Result<(Reader, Writer)> {
    // A stop that waits for a segment to fill would cost what it is to save.
    stream.set_nodelay(true)?;
    let (read, write) = stream.into_split();
    Ok((Reader { half: read, body: Vec::new() }, Writer { half: write, bytes: Vec::new() }))
}

/// The half that messages come from.
pub(crate) struct Reader {
    half: OwnedReadHalf,
    body: Vec<u8>,
}

impl Reader {
    /// The next message. A future that is dropped half way loses its place in the stream.
    pub(crate) async fn next(&mut self) -> Result<Message<'_>, ControlError> {
        let mut header = [0; MESSAGE_HEADER_LEN];
        self.half.read_exact(&mut header).await?;
        let (kind, len) = message_kind(header).map_err(ControlError::Nonsense)?;
        self.body.resize(len, 0);
        self.half.read_exact(&mut self.body).await?;
        parse_message(kind, &self.body).map_err(ControlError::Nonsense)
    }

    /// The next message, if it comes in time. A refusal is an error.
    pub(crate) async fn next_within(
        &mut self,
        time: Duration,
    ) -> Result<Message<'_>, ControlError> {
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
pub(crate) struct Writer {
    half: OwnedWriteHalf,
    bytes: Vec<u8>,
}

impl Writer {
    /// Sends a message, if it is taken in time.
    pub(crate) async fn say(
        &mut self,
        message: &Message<'_>,
        time: Duration,
    ) -> Result<(), ControlError> {
        self.bytes.clear();
        emit_message(message, &mut self.bytes);
        match tokio::time::timeout(time, self.half.write_all(&self.bytes)).await {
            Ok(written) => Ok(written?),
            Err(_) => Err(ControlError::Silent(time)),
        }
    }
}
