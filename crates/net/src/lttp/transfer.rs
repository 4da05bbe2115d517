//! A fetch under way: who fetches which part from whom, and what becomes of the parts of servers
//! that are lost.
//!
//! Each server has one session at a time, and at first each has a share. A server that is lost is not
//! asked again. What it had not sent is divided among those that live, in whole blocks, and each
//! takes such a part when it is done with its own. So a fetch ends: there are no more losses than
//! servers, and a part that is not lost is a part less.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};
use wellspring_codec::lt::Method;
use wellspring_transport::lttp::ReceiveStats;
use wellspring_wire::lttp::Geometry;

use super::asking::{Asked, Server, ask, holds_other_bytes};
use super::part::{Broken, receive};
use super::report::{LostServer, ShareReport};
use super::shares::{Share, divide};
use crate::client::sink::Sink;
use crate::client::{FetchError, HostError, Update, Updates};
use crate::driver::SessionProgress;
use crate::protocols::lttp::LttpHandle;
use crate::store::ObjectSink;
use crate::store::{Digest, ObjectName};

/// How often progress is told.
const TICK: Duration = Duration::from_millis(100);

/// What all parts of a fetch have in common.
pub(super) struct Common {
    pub handle: LttpHandle,
    pub name: ObjectName,
    pub size: u64,
    pub digest: Digest,
    pub geometry: Geometry,
    pub method: Method,
    pub timeout: Duration,
    pub sink: Arc<dyn ObjectSink>,
    pub updates: Updates,
}

/// How a part ended.
struct Ended {
    server: Server,
    part: Share,
    /// How much of it is written, from its beginning on \[bytes\].
    written: u64,
    outcome: Result<ReceiveStats, Broken>,
}

/// What a fetch came to.
pub(super) struct Account {
    pub shares: Vec<ShareReport>,
    pub lost: Vec<LostServer>,
}

/// A fetch under way.
pub(super) struct Transfer {
    common: Arc<Common>,
    tasks: JoinSet<Ended>,
    /// Servers without a part.
    free: VecDeque<Server>,
    /// Parts without a server.
    waiting: VecDeque<Share>,
    /// Of parts that are over, and of those under way.
    progress: Vec<SessionProgress>,
    account: Account,
}

impl Transfer {
    /// Asks the first servers for a share each.
    pub(super) fn begin(common: Common, servers: Vec<Asked>, shares: Vec<Share>) -> Transfer {
        let mut transfer = Transfer {
            common: Arc::new(common),
            tasks: JoinSet::new(),
            free: VecDeque::new(),
            waiting: VecDeque::new(),
            progress: Vec::new(),
            account: Account { shares: Vec::new(), lost: Vec::new() },
        };
        let mut shares = shares.into_iter();
        for asked in servers {
            match shares.next() {
                Some(share) => {
                    let progress = transfer.count(share);
                    let common = Arc::clone(&transfer.common);
                    transfer.tasks.spawn(first_part(common, asked, share, progress));
                }
                // More servers than symbols.
                None => transfer.free.push_back(asked.server),
            }
        }
        transfer
    }

    /// Follows all parts to their end.
    ///
    /// # Errors
    /// [`FetchError::NoReplicaLeft`] if all servers are lost, or why the bytes cannot be kept.
    pub(super) async fn follow(mut self, sink: &mut Sink) -> Result<Account, FetchError> {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                ended = self.tasks.join_next() => match ended {
                    None => break,
                    Some(Ok(ended)) => self.take_in(ended)?,
                    Some(Err(_)) => {
                        return Err(FetchError::Write(io::Error::other("a part's task panicked")));
                    }
                },
                error = sink.broken() => return Err(FetchError::Write(error)),
                _ = ticks.tick() => self.tell_progress(),
            }
        }
        self.tell_progress();
        self.account.shares.sort_by_key(|share| share.offset);
        Ok(self.account)
    }

    fn take_in(&mut self, ended: Ended) -> Result<(), FetchError> {
        let Ended { server, part, written, outcome } = ended;
        match outcome {
            Ok(stats) => {
                let Server { host, address } = server.clone();
                let Share { offset, len } = part;
                self.account.shares.push(ShareReport { host, address, offset, len, stats });
                self.free.push_back(server);
            }
            Err(Broken::Write(error)) => return Err(FetchError::Write(error)),
            Err(Broken::Server(reason)) => {
                let host = server.host;
                (self.common.updates)(Update::Lost { host: host.clone(), reason: reason.clone() });
                let host = HostError { host, reason };
                self.account.lost.push(LostServer { host, bytes: written });
                self.share_out(part.behind(written));
            }
        }
        self.hand_out();
        if self.tasks.is_empty() && !self.waiting.is_empty() {
            return Err(self.none_left());
        }
        Ok(())
    }

    /// Divides what a lost server leaves among those that live.
    fn share_out(&mut self, rest: Share) {
        let living = self.free.len() + self.tasks.len();
        let Geometry { symbol_size, block_symbols } = self.common.geometry;
        let block = u64::from(symbol_size) * u64::from(block_symbols);
        let parts = divide(rest.len, living.max(1), block);
        self.waiting.extend(parts.into_iter().map(|part| part.moved_by(rest.offset)));
    }

    /// Gives parts that wait to servers that are free.
    fn hand_out(&mut self) {
        while !self.free.is_empty()
            && let Some(part) = self.waiting.pop_front()
            && let Some(server) = self.free.pop_front()
        {
            let progress = self.count(part);
            self.tasks.spawn(further_part(Arc::clone(&self.common), server, part, progress));
        }
    }

    /// Counts what is written of a part.
    fn count(&mut self, part: Share) -> SessionProgress {
        let progress = SessionProgress::new(part.len);
        self.progress.push(progress.clone());
        progress
    }

    /// Bytes written, over all parts.
    fn written(&self) -> u64 {
        self.progress.iter().map(SessionProgress::bytes_done).sum()
    }

    fn none_left(&mut self) -> FetchError {
        let hosts = self.account.lost.drain(..).map(|lost| lost.host).collect();
        let (done, size) = (self.written(), self.common.size);
        FetchError::NoReplicaLeft { hosts, done, size }
    }

    fn tell_progress(&self) {
        let (done, total) = (self.written(), self.common.size);
        (self.common.updates)(Update::Moving { done, total, symbols: 0 });
    }
}

/// Fetches a server's own share, over the connection by which it was found.
async fn first_part(
    common: Arc<Common>,
    asked: Asked,
    part: Share,
    progress: SessionProgress,
) -> Ended {
    let server = asked.server.clone();
    let outcome = receive(&common, asked, part, &progress).await;
    Ended { server, part, written: progress.bytes_done(), outcome }
}

/// Fetches a part that another server has left, over a new connection. The object must still be
/// the same.
async fn further_part(
    common: Arc<Common>,
    server: Server,
    part: Share,
    progress: SessionProgress,
) -> Ended {
    let outcome = match ask(&server, &common.name, common.timeout, &common.updates).await {
        Ok(asked) if (asked.size, asked.digest) == (common.size, common.digest) => {
            receive(&common, asked, part, &progress).await
        }
        Ok(asked) => Err(Broken::Server(holds_other_bytes(asked.digest))),
        Err(error) => Err(error.into()),
    };
    Ended { server, part, written: progress.bytes_done(), outcome }
}
