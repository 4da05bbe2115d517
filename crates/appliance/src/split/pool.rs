//! Trunk pool: greetings, idle trunks kept ready, and the liveness of the other appliance.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;
use wellspring_maelstrom::{
    GREETING_LEN, MAX_TRUNK_FRAME, PresharedKey, TrunkError, TrunkFrame, TrunkOpener, TrunkSealer,
    trunk, trunk_greeting,
};

use super::counters::SplitCounters;
use crate::sys::{self, TcpHeard};

/// How long a host or the other appliance may take to answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// Pause after an error that the next attempt may meet as well.
pub(super) const AGAIN: Duration = Duration::from_millis(250);
/// Trunks that are ready for the next connections.
const READY: usize = 4;
/// Trunks that are kept after their connections have ended, at most.
const KEPT: usize = 32;
/// Silence after which a trunk's other end is asked whether it is there, and how often.
const ASK_AFTER: Duration = Duration::from_secs(2);
const ASKED: u32 = 4;
/// Probes of a closed window in a row that a trunk's other end may leave unanswered: they get ever rarer.
const PROBES: u8 = 3;

/// An authenticated connection with the other appliance.
pub(crate) struct Trunk {
    pub reader: TrunkReader,
    pub writer: TrunkWriter,
    patience: Duration,
}

impl Trunk {
    /// What sees whether the other end is gone while the trunk is read and written.
    pub(crate) fn watch(&self) -> TrunkWatch {
        TrunkWatch { fd: self.writer.half.as_ref().as_raw_fd(), patience: self.patience }
    }
}

/// Sees whether the other end of a trunk that is open is gone. The kernel's `TCP_USER_TIMEOUT` would end as well the
/// connection of one that is there and does not read.
#[derive(Clone, Copy)]
pub(crate) struct TrunkWatch {
    fd: RawFd,
    patience: Duration,
}

impl TrunkWatch {
    /// Until it is gone.
    pub(crate) async fn gone(self) {
        while !self.is_gone() {
            tokio::time::sleep(self.patience / 4).await;
        }
    }

    /// Whether it has not answered for too long, neither to data nor to probes of its window.
    pub(crate) fn is_gone(self) -> bool {
        let Some(TcpHeard { probes, since_sent, since_heard }) = sys::tcp_heard(self.fd) else {
            return false;
        };
        // What was sent just now may still be answered.
        let owes = since_sent < since_heard && since_sent >= self.patience / 4;
        since_heard >= self.patience && (owes || probes >= PROBES)
    }
}

pub(crate) struct TrunkReader {
    half: OwnedReadHalf,
    opener: TrunkOpener,
    /// What was read and is no whole frame yet.
    bytes: Vec<u8>,
    /// Length of the frame that was given out last.
    used: usize,
}

pub(crate) struct TrunkWriter {
    half: OwnedWriteHalf,
    sealer: TrunkSealer,
    bytes: Vec<u8>,
}

impl TrunkWriter {
    /// Its socket.
    #[cfg(test)]
    pub(super) fn stream(&self) -> &TcpStream {
        self.half.as_ref()
    }

    pub(crate) async fn send(&mut self, frame: &TrunkFrame<'_>) -> io::Result<()> {
        self.bytes.clear();
        self.sealer.seal(frame, &mut self.bytes);
        self.half.write_all(&self.bytes).await
    }
}

impl TrunkReader {
    /// The next frame. Not to be dropped half-way and then used again.
    pub(crate) async fn next(&mut self) -> io::Result<TrunkFrame<'_>> {
        self.bytes.drain(..self.used);
        self.used = 0;
        // Twice over the same bytes, for the borrow of the frame must not outlive a failed attempt.
        while !self.whole() {
            if self.half.read_buf(&mut self.bytes).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        match self.opener.open(&self.bytes) {
            Ok(Some((frame, len))) => {
                self.used = len;
                Ok(frame)
            }
            Ok(None) => Err(invalid(TrunkError::Malformed)),
            Err(error) => Err(invalid(error)),
        }
    }

    /// Whether a whole frame has been read, or as many bytes as none has.
    fn whole(&self) -> bool {
        let Some(head) = self.bytes.first_chunk::<4>() else { return false };
        let len = usize::from(u16::from_be_bytes([head[2], head[3]])) + 4 + 16;
        self.bytes.len() >= len.min(MAX_TRUNK_FRAME)
    }

    /// Whether nothing has come, nor its end: so it must be between two connections.
    fn idle(&self) -> bool {
        self.bytes.len() == self.used
            && self.half.try_read(&mut [0]).is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock)
    }
}

fn invalid(error: TrunkError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// Parameters of every trunk with the other appliance.
pub(crate) struct TrunkConfig {
    pub key: PresharedKey,
    pub peer: SocketAddr,
    /// Largest segment of a trunk that is protected \[bytes\].
    pub segment: u32,
    /// Send buffer and receive buffer of a trunk \[bytes\].
    pub buffer: usize,
    /// How long the other end may leave unanswered what it is sent.
    pub patience: Duration,
}

/// Trunks that this end opened and that are free.
pub(crate) struct Pool {
    config: TrunkConfig,
    counters: Arc<SplitCounters>,
    free: Mutex<Vec<Trunk>>,
    alive: watch::Sender<bool>,
}

impl Pool {
    pub(crate) fn new(config: TrunkConfig, counters: Arc<SplitCounters>) -> Self {
        Pool { config, counters, free: Mutex::default(), alive: watch::Sender::new(false) }
    }

    /// Until the other appliance answers.
    pub(crate) async fn alive(&self) {
        let _ = self.alive.subscribe().wait_for(|alive| *alive).await;
    }

    /// Until it does not.
    pub(crate) async fn dead(&self) {
        let _ = self.alive.subscribe().wait_for(|alive| !*alive).await;
    }

    fn free(&self) -> std::sync::MutexGuard<'_, Vec<Trunk>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A trunk for a connection: one that is ready, else a new one.
    pub(crate) async fn take(&self) -> io::Result<Trunk> {
        loop {
            let Some(trunk) = self.free().pop() else { return self.open().await };
            if trunk.reader.idle() {
                return Ok(trunk);
            }
        }
    }

    /// Takes back a trunk whose connection has ended both ways.
    pub(crate) fn give_back(&self, trunk: Trunk) {
        let mut free = self.free();
        if free.len() < KEPT {
            free.push(trunk);
        }
    }

    /// Keeps trunks ready, and finds out whether the other appliance answers.
    pub(crate) async fn keep(&self) {
        loop {
            let ready = {
                let mut free = self.free();
                free.retain(|trunk| trunk.reader.idle() && !trunk.watch().is_gone());
                free.len()
            };
            if ready < READY {
                match self.open().await {
                    Ok(trunk) => {
                        self.give_back(trunk);
                        self.alive.send_replace(true);
                        continue;
                    }
                    Err(error) => {
                        SplitCounters::count(&self.counters.trunks_failed, 1);
                        tracing::debug!("no trunk: {error}");
                        // Those that are ready may still be of use.
                        self.alive.send_replace(ready > 0);
                    }
                }
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    pub(super) async fn open(&self) -> io::Result<Trunk> {
        let peer = self.config.peer;
        let socket = Socket::new(Domain::for_address(peer), Type::STREAM, Some(Protocol::TCP))?;
        self.tune_unconnected(&socket)?;
        socket.set_nonblocking(true)?;
        let connect = TcpSocket::from_std_stream(socket.into()).connect(peer);
        let stream = timeout(PATIENCE, connect).await??;
        self.greet(stream, true).await
    }

    /// The listener that the other appliance's trunks connect to, at the address `own`.
    pub(crate) fn listener(&self, own: IpAddr) -> io::Result<Socket> {
        let at = SocketAddr::new(own, self.config.peer.port());
        let socket = Socket::new(Domain::for_address(at), Type::STREAM, Some(Protocol::TCP))?;
        self.tune_unconnected(&socket)?;
        socket.set_reuse_address(true)?;
        socket.bind(&at.into())?;
        socket.listen(128)?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    }

    /// Options of a trunk, before it is connected or listens.
    fn tune_unconnected(&self, socket: &Socket) -> io::Result<()> {
        // Longer segments would pass unprotected.
        socket.set_tcp_mss(self.config.segment)?;
        socket.set_send_buffer_size(self.config.buffer)?;
        socket.set_recv_buffer_size(self.config.buffer)?;
        Ok(())
    }

    /// Learns whether the other end of a new connection has the key, and shows that this one has.
    pub(crate) async fn greet(&self, mut stream: TcpStream, caller: bool) -> io::Result<Trunk> {
        tune(&stream)?;
        let mut nonce = [0; 16];
        getrandom::fill(&mut nonce).map_err(io::Error::other)?;
        let ours = trunk_greeting(nonce);
        let mut theirs = [0; GREETING_LEN];
        let greetings = async {
            stream.write_all(&ours).await?;
            stream.read_exact(&mut theirs).await
        };
        timeout(PATIENCE, greetings).await??;
        let (sealer, opener) = trunk(&self.config.key, &ours, &theirs, caller).map_err(invalid)?;
        let (reader, writer) = stream.into_split();
        let reader = TrunkReader {
            half: reader,
            opener,
            bytes: Vec::with_capacity(MAX_TRUNK_FRAME),
            used: 0,
        };
        let writer =
            TrunkWriter { half: writer, sealer, bytes: Vec::with_capacity(MAX_TRUNK_FRAME) };
        let mut trunk = Trunk { reader, writer, patience: self.config.patience };
        let proof = async {
            trunk.writer.send(&TrunkFrame::Ready).await?;
            match trunk.reader.next().await? {
                TrunkFrame::Ready => Ok(()),
                _ => Err(invalid(TrunkError::Malformed)),
            }
        };
        timeout(PATIENCE, proof).await??;
        SplitCounters::count(&self.counters.trunks, 1);
        Ok(trunk)
    }
}

/// An end that is gone is noticed within seconds while nothing is sent ([`TrunkWatch`] looks otherwise), and one that is
/// dropped is reset, so that nothing of a broken connection is taken for its end.
fn tune(stream: &TcpStream) -> io::Result<()> {
    let socket = SockRef::from(stream);
    socket.set_linger(Some(Duration::ZERO))?;
    socket.set_tcp_nodelay(true)?;
    let ask = TcpKeepalive::new().with_time(ASK_AFTER).with_interval(ASK_AFTER);
    socket.set_tcp_keepalive(&ask.with_retries(ASKED))
}

/// Who a frame that begins a connection names; none if it is another frame.
pub(crate) fn opened(frame: TrunkFrame<'_>) -> Option<(SocketAddr, SocketAddr)> {
    match frame {
        TrunkFrame::Open { from, to } => Some((from, to)),
        _ => None,
    }
}
