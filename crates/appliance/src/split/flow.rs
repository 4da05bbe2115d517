//! Relay of one connection between a host and a trunk.
//!
//! Each way has one buffer of a frame's size: when a host or the trunk does not take more, nothing
//! more is read, and TCP's window stops the sender. An end goes through as an end; whatever else ends a
//! connection resets it on both sides, and the trunk with it.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use ipnet::IpNet;
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use wellspring_maelstrom::{MAX_TRUNK_DATA, TrunkFrame};

use super::counters::SplitCounters;
use super::pool::{self, PATIENCE, Pool, Trunk, TrunkReader, TrunkWriter};
use super::sockets::{outgoing, tune_local};

/// State that all connections share.
pub(super) struct Shared {
    pub remote: Vec<IpNet>,
    pub counters: Arc<SplitCounters>,
    pub pool: Pool,
    pub permits: Arc<Semaphore>,
}

impl Shared {
    /// Whether the other site may ask for that connection.
    fn may_open(&self, from: SocketAddr, to: SocketAddr) -> bool {
        let theirs = |ip: IpAddr| self.remote.iter().any(|prefix| prefix.contains(&ip));
        let host = |ip: IpAddr| !ip.is_loopback() && !ip.is_multicast() && !ip.is_unspecified();
        theirs(from.ip()) && !theirs(to.ip()) && host(to.ip()) && host(from.ip())
    }
}

/// Relays a connection of a host of this site.
pub(super) async fn there(
    shared: Arc<Shared>,
    stream: TcpStream,
    from: SocketAddr,
) -> io::Result<()> {
    tune_local(&stream)?;
    // The address that the host meant: the kernel accepted the connection in its name.
    let to = stream.local_addr()?;
    let mut trunk = shared.pool.take().await?;
    trunk.writer.send(&TrunkFrame::Open { from, to }).await?;
    relay(stream, &mut trunk, &shared.counters).await?;
    shared.pool.give_back(trunk);
    Ok(())
}

/// Relays connections of the other site's hosts, one after the other, as long as the trunk holds.
pub(super) async fn serve(shared: Arc<Shared>, mut trunk: Trunk) {
    loop {
        let watch = trunk.watch();
        let frame = tokio::select! {
            frame = trunk.reader.next() => frame,
            () = watch.gone() => return,
        };
        let Ok(frame) = frame else { return };
        let Some((from, to)) = pool::opened(frame) else { return };
        let Ok(_permit) = Arc::clone(&shared.permits).try_acquire_owned() else { return };
        if !shared.may_open(from, to) {
            tracing::warn!(
                "the peer asked for a connection from {from} to {to}: not between the sites"
            );
            return;
        }
        let counters = &shared.counters;
        SplitCounters::count(&counters.flows, 1);
        let relayed = match connect(from, to).await {
            Ok(stream) => {
                SplitCounters::count(&counters.opened, 1);
                relay(stream, &mut trunk, counters).await
            }
            Err(error) => Err(error),
        };
        counters.flows.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
        if let Err(error) = relayed {
            tracing::debug!("{from} to {to} was reset: {error}");
            SplitCounters::count(&counters.reset, 1);
            return;
        }
        SplitCounters::count(&counters.finished, 1);
    }
}

/// Connects to a host of this site in another's name.
async fn connect(from: SocketAddr, to: SocketAddr) -> io::Result<TcpStream> {
    let stream = timeout(PATIENCE, outgoing(from, to)?.connect(to)).await??;
    tune_local(&stream)?;
    Ok(stream)
}

/// Relays until both ways have ended in order.
pub(super) async fn relay(
    mut stream: TcpStream,
    trunk: &mut Trunk,
    counters: &SplitCounters,
) -> io::Result<()> {
    let (reader, writer) = stream.split();
    let watch = trunk.watch();
    let both = async {
        tokio::try_join!(
            up(reader, &mut trunk.writer, &counters.sent_bytes),
            down(&mut trunk.reader, writer, &counters.received_bytes),
        )
    };
    tokio::select! {
        relayed = both => relayed?,
        () = watch.gone() => return Err(io::ErrorKind::TimedOut.into()),
    };
    // What the host has not acknowledged yet must still reach it.
    SockRef::from(&stream).set_linger(None)
}

/// From the host to the trunk.
async fn up(mut from: ReadHalf<'_>, to: &mut TrunkWriter, counter: &AtomicU64) -> io::Result<()> {
    let mut buffer = vec![0; MAX_TRUNK_DATA];
    loop {
        match from.read(&mut buffer).await? {
            0 => return to.send(&TrunkFrame::End).await,
            read => {
                to.send(&TrunkFrame::Data(&buffer[..read])).await?;
                SplitCounters::count(counter, read as u64);
            }
        }
    }
}

/// From the trunk to the host.
async fn down(
    from: &mut TrunkReader,
    mut to: WriteHalf<'_>,
    counter: &AtomicU64,
) -> io::Result<()> {
    loop {
        match from.next().await? {
            TrunkFrame::Data(bytes) => {
                to.write_all(bytes).await?;
                SplitCounters::count(counter, bytes.len() as u64);
            }
            TrunkFrame::End => return to.shutdown().await,
            TrunkFrame::Ready | TrunkFrame::Open { .. } => {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
    }
}
