//! A fetch under way: who fetches which part from whom, and what becomes of the parts of servers
//! that are lost.
//!
//! Each server has one session at a time, and at first each has a share. A server that is lost is not
//! asked again. What it had not sent is divided among those that live, in whole blocks, and each
//! takes such a part when it is done with its own. So a fetch ends: there are no more losses than
//! servers, and a part that is not lost is a part less.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::task::JoinSet;
use wellspring_transport::lttp::ReceiveStats;
use wellspring_wire::lttp::Geometry;

use super::super::ticks;
use super::part::{Broken, Common, receive};
use super::spans::{Span, divide};
use crate::client::replicas::{Replica, Standing};
use crate::client::report::PartReport;
use crate::client::sink::Sink;
use crate::client::{FetchError, Update};
use crate::driver::SessionProgress;

/// A server that has the object.
#[derive(Clone)]
pub(super) struct Server {
    /// Its place among the replicas.
    pub index: usize,
    /// As the caller named it.
    pub host: String,
    pub address: SocketAddr,
}

/// How a part ended.
struct Ended {
    server: Server,
    part: Span,
    /// How much of it is written, from its beginning on \[bytes\].
    written: u64,
    result: Result<ReceiveStats, Broken>,
}

/// A fetch under way.
pub(super) struct Transfer {
    common: Arc<Common>,
    tasks: JoinSet<Ended>,
    /// Servers without a part.
    free: VecDeque<Server>,
    /// Parts without a server.
    waiting: VecDeque<Span>,
    /// Of parts that are over, and of those under way.
    progress: Vec<SessionProgress>,
    replicas: Vec<Replica>,
    /// Parts that have come.
    parts: Vec<PartReport>,
}

impl Transfer {
    /// Asks the first servers for a share each; where there are more servers than symbols, the
    /// others are kept in reserve.
    pub(super) fn begin(
        common: Common,
        replicas: Vec<Replica>,
        servers: Vec<Server>,
        shares: Vec<Span>,
    ) -> Transfer {
        let mut transfer = Transfer {
            common: Arc::new(common),
            tasks: JoinSet::new(),
            free: servers.into(),
            waiting: shares.into(),
            progress: Vec::new(),
            replicas,
            parts: Vec::new(),
        };
        transfer.hand_out();
        transfer
    }

    /// Follows all parts to their end.
    ///
    /// # Errors
    /// [`FetchError::NoReplicaLeft`] if all servers are lost, or why the bytes cannot be kept.
    pub(super) async fn follow(
        mut self,
        sink: &mut Sink,
    ) -> Result<(Vec<Replica>, Vec<PartReport>), FetchError> {
        let mut ticks = ticks();
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
        self.parts.sort_by_key(|part| part.offset);
        Ok((self.replicas, self.parts))
    }

    fn take_in(&mut self, ended: Ended) -> Result<(), FetchError> {
        let Ended { server, part, written, result } = ended;
        let Server { index, host, address } = server.clone();
        let offset = part.offset;
        match result {
            Ok(stats) => {
                let (len, stats) = (part.len, Some(stats));
                self.parts.push(PartReport { host, address, offset, len, stats });
                self.free.push_back(server);
            }
            Err(Broken::Write(error)) => return Err(FetchError::Write(error)),
            Err(Broken::Server(reason)) => {
                let replica = &mut self.replicas[index];
                replica.standing = Standing::Lost(reason.clone());
                replica.losses += 1;
                self.common.updates.tell(Update::Lost { host: host.clone(), reason });
                if written > 0 {
                    let (len, stats) = (written, None);
                    self.parts.push(PartReport { host, address, offset, len, stats });
                }
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
            && let Some(server) = self.free.pop_front()
        {
            let (common, progress) = (Arc::clone(&self.common), SessionProgress::new(part.len));
            self.progress.push(progress.clone());
            self.tasks.spawn(async move {
                let Server { host, address, .. } = &server;
                let result = receive(&common, (host, *address), part, &progress).await;
                Ended { server, part, written: progress.bytes_done(), result }
            });
        }
    }

    /// Bytes written, over all parts.
    fn written(&self) -> u64 {
        self.progress.iter().map(SessionProgress::bytes_done).sum()
    }

    fn none_left(&self) -> FetchError {
        let hosts = self.replicas.iter().map(Replica::complaint).collect();
        let (done, size) = (self.written(), self.common.size);
        FetchError::NoReplicaLeft { hosts, done, size }
    }

    fn tell_progress(&self) {
        let (done, total) = (self.written(), self.common.size);
        let symbols = self.progress.iter().map(SessionProgress::symbols).sum();
        self.common.updates.tell(Update::Moving { done, total, symbols });
    }
}
