//! Trunks whose other end pauses, or is gone.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use wellspring_maelstrom::{KEY_LEN, PresharedKey, TrunkFrame};

use super::flow::relay;
use super::pool::{Trunk, TrunkWriter};
use super::*;
use crate::{filter, sys};

const PATIENCE: Duration = Duration::from_millis(400);
/// More than the kernel holds of a trunk whose reader pauses.
const FRAMES: usize = 400;

/// Both ends of a trunk.
async fn trunk() -> (Trunk, Trunk) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let trunk = TrunkConfig {
        key: PresharedKey::new([7; KEY_LEN]),
        peer: listener.local_addr().expect("an address"),
        segment: 1_400,
        buffer: 64 << 10,
        patience: PATIENCE,
    };
    let pool = Pool::new(trunk, Arc::default());
    let accepted = async {
        let (stream, _) = listener.accept().await?;
        pool.greet(stream, false).await
    };
    tokio::try_join!(pool.open(), accepted).expect("a trunk")
}

/// Lets the other end answer nothing any more, as one that has lost power. What it sent is acknowledged before.
async fn unplug(end: &Trunk) {
    sleep(PATIENCE / 2).await;
    let fd: BorrowedFd<'_> = end.writer.stream().as_fd();
    sys::attach_filter(fd, &filter::nothing()).expect("attached");
}

async fn send_frames(writer: &mut TrunkWriter) -> io::Result<()> {
    for _ in 0..FRAMES {
        writer.send(&TrunkFrame::Data(&[1; 10_000])).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_trunk_waits_for_a_reader_that_pauses() {
    let (mut ours, mut theirs) = trunk().await;
    let watch = ours.watch();
    let read = async {
        assert!(timeout(PATIENCE * 5, watch.gone()).await.is_err(), "it only pauses");
        for _ in 0..FRAMES {
            let frame = theirs.reader.next().await?;
            assert!(matches!(frame, TrunkFrame::Data(_)), "{frame:?}");
        }
        assert!(!watch.is_gone());
        Ok::<_, io::Error>(())
    };
    tokio::try_join!(send_frames(&mut ours.writer), read).expect("everything arrives");
}

#[tokio::test]
async fn an_end_that_is_gone_is_noticed_whether_or_not_it_read_before() {
    for pause in [Duration::ZERO, PATIENCE] {
        let (mut ours, theirs) = trunk().await;
        let watch = ours.watch();
        let look = async {
            sleep(pause).await;
            unplug(&theirs).await;
            watch.gone().await;
        };
        tokio::select! {
            sent = send_frames(&mut ours.writer) => panic!("{sent:?}"),
            looked = timeout(Duration::from_secs(60), look) => looked.expect("noticed"),
        }
    }
}

#[tokio::test]
async fn a_connection_is_reset_when_the_other_appliance_is_gone() {
    let (mut ours, theirs) = trunk().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let at = listener.local_addr().expect("an address");
    let (host, accepted) = tokio::join!(TcpStream::connect(at), listener.accept());
    let (mut host, (stream, _)) = (host.expect("connected"), accepted.expect("accepted"));
    unplug(&theirs).await;
    host.write_all(b"to nobody").await.expect("taken");
    let counters = SplitCounters::default();
    let relayed = timeout(Duration::from_secs(60), relay(stream, &mut ours, &counters)).await;
    let error = relayed.expect("noticed").expect_err("it is gone");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
}
