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
use wellspring_transport::lttp::ReceiveStats;
use wellspring_wire::lttp::Geometry;

use super::part::{Broken, Common, Holder, receive};
use super::report::{LostServer, PartReport};
use super::spans::{Span, divide};
use crate::client::sink::Sink;
use crate::client::{FetchError, HostError, Update};
use crate::driver::SessionProgress;

/// How often progress is told.
const TICK: Duration = Duration::from_millis(100);

/// How a part ended.
struct Ended {
    holder: Holder,
    part: Span,
    /// How much of it is written, from its beginning on \[bytes\].
    written: u64,
    outcome: Result<ReceiveStats, Broken>,
}

/// What a fetch came to.
pub(super) struct Account {
    pub parts: Vec<PartReport>,
    pub lost: Vec<LostServer>,
}

/// A fetch under way.
pub(super) struct Transfer {
    common: Arc<Common>,
    tasks: JoinSet<Ended>,
    /// Servers without a part.
    free: VecDeque<Holder>,
    /// Parts without a server.
    waiting: VecDeque<Span>,
    /// Of parts that are over, and of those under way.
    progress: Vec<SessionProgress>,
    account: Account,
}

impl Transfer {
    /// Asks the first servers for a share each; where there are more servers than symbols, the
    /// others are kept in reserve.
    pub(super) fn begin(common: Common, holders: Vec<Holder>, shares: Vec<Span>) -> Transfer {
        let mut transfer = Transfer {
            common: Arc::new(common),
            tasks: JoinSet::new(),
            free: holders.into(),
            waiting: shares.into(),
            progress: Vec::new(),
            account: Account { parts: Vec::new(), lost: Vec::new() },
        };
        transfer.hand_out();
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
        self.account.parts.sort_by_key(|part| part.offset);
        Ok(self.account)
    }

    fn take_in(&mut self, ended: Ended) -> Result<(), FetchError> {
        let Ended { holder, part, written, outcome } = ended;
        match outcome {
            Ok(stats) => {
                let Holder { host, address } = holder.clone();
                let Span { offset, len } = part;
                self.account.parts.push(PartReport { host, address, offset, len, stats });
                self.free.push_back(holder);
            }
            Err(Broken::Write(error)) => return Err(FetchError::Write(error)),
            Err(Broken::Server(reason)) => {
                let host = holder.host;
                self.common
                    .updates
                    .tell(Update::Lost { host: host.clone(), reason: reason.clone() });
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
    fn share_out(&mut self, rest: Span) {
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
            && let Some(holder) = self.free.pop_front()
        {
            let (common, progress) = (Arc::clone(&self.common), SessionProgress::new(part.len));
            self.progress.push(progress.clone());
            self.tasks.spawn(async move {
                let outcome = receive(&common, &holder, part, &progress).await;
                Ended { holder, part, written: progress.bytes_done(), outcome }
            });
        }
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
        self.common.updates.tell(Update::Moving { done, total, symbols: 0 });
    }
}
