//! A fetch under way: who fetches which part from whom, and what becomes of the parts of servers
//! that are lost.
//!
//! Each server has one session at a time, and at first each has a share. A server that is lost is not
//! asked again. What it had not sent, or had sent wrong, is divided among those that live, in whole nodes of the hash tree,
//! and each takes such a part when it is done with its own. A server that has sent wrong bytes is asked again once: bytes
//! are altered on the way, too. So a fetch ends: there are no more losses than servers, wrong bytes count, and a
//! part that is not lost is a part less.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::task::JoinSet;
use wellspring_transport::lttp::ReceiveStats;

use super::super::ticks;
use super::super::verify::liar;
use super::part::{Broken, Common, receive};
use super::spans::{Span, divide};
use crate::driver::SessionProgress;
use crate::replicas::{Replica, Standing};
use crate::report::PartReport;
use crate::sink::Sink;
use crate::{FetchError, HostError, Update};

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
    /// Its number among all.
    number: u64,
    server: Server,
    part: Span,
    /// How much of it is right, from its beginning on \[bytes\].
    right: u64,
    result: Result<ReceiveStats, Broken>,
}

/// What a server has sent.
#[derive(Clone, Copy, Default)]
struct Record {
    /// Nodes that were right.
    right: u64,
    /// Parts that ended with a wrong node.
    wrong: u64,
}

impl Record {
    /// Whether it is the server that alters bytes, and not the way.
    fn is_liars(&self) -> bool {
        self.wrong >= 2 && self.wrong * 1_000 > self.right
    }
}

/// A fetch under way.
pub(super) struct Transfer {
    common: Arc<Common>,
    tasks: JoinSet<Ended>,
    /// Servers without a part.
    free: VecDeque<Server>,
    /// Parts without a server.
    waiting: VecDeque<Span>,
    /// Of parts under way, by number.
    progress: BTreeMap<u64, SessionProgress>,
    /// The next part's number.
    next: u64,
    /// Bytes that are right, and symbols, of parts that are over.
    settled: (u64, u64),
    /// By the server's place among the replicas.
    records: BTreeMap<usize, Record>,
    replicas: Vec<Replica>,
    /// Parts that have come.
    parts: Vec<PartReport>,
}

impl Transfer {
    /// Asks the first servers for a share each; where there are more servers than symbols, the
    /// others are kept in reserve. `resumed` bytes are there already.
    pub(super) fn begin(
        common: Common,
        resumed: u64,
        replicas: Vec<Replica>,
        servers: Vec<Server>,
        shares: Vec<Span>,
    ) -> Transfer {
        let mut transfer = Transfer {
            common: Arc::new(common),
            tasks: JoinSet::new(),
            free: servers.into(),
            waiting: shares.into(),
            progress: BTreeMap::new(),
            next: 0,
            settled: (resumed, 0),
            records: BTreeMap::new(),
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
        let Ended { number, server, part, right, result } = ended;
        let symbols = self.progress.remove(&number).map_or(0, |progress| progress.symbols());
        self.settled = (self.settled.0 + right, self.settled.1 + symbols);
        let record = self.records.entry(server.index).or_default();
        record.right += right / self.common.checker.node_len();
        let stats = match result {
            Ok(stats) => {
                self.free.push_back(server.clone());
                Some(stats)
            }
            Err(Broken::Write(error)) => return Err(FetchError::Write(error)),
            Err(Broken::Wrong(at)) => {
                record.wrong += 1;
                let record = *record;
                self.on_wrong(&server, record, at);
                None
            }
            Err(Broken::Server(reason)) => {
                self.replicas[server.index].losses += 1;
                self.lose(&server, Standing::Lost(reason));
                None
            }
        };
        if right > 0 {
            let (Server { host, address, .. }, offset) = (server, part.offset);
            self.parts.push(PartReport { host, address, offset, len: right, stats });
        }
        if right < part.len {
            self.share_out(part.behind(right));
        }
        self.hand_out();
        if self.tasks.is_empty() && !self.waiting.is_empty() {
            return Err(self.none_left());
        }
        Ok(())
    }

    /// A server has sent wrong bytes: it is excluded, or asked again.
    fn on_wrong(&mut self, server: &Server, record: Record, at: u64) {
        if record.is_liars() {
            return self.lose(server, liar(at));
        }
        let replica = &mut self.replicas[server.index];
        replica.altered += 1;
        self.common.updates.tell(Update::Wrong { host: server.host.clone(), at });
        self.free.push_back(server.clone());
    }

    /// Goes on without a server.
    fn lose(&mut self, server: &Server, standing: Standing) {
        let replica = &mut self.replicas[server.index];
        replica.standing = standing;
        let HostError { host, reason, .. } = replica.complaint();
        self.common.updates.tell(Update::Lost { host, reason });
    }

    /// Divides what a server leaves among those that live.
    fn share_out(&mut self, rest: Span) {
        let living = self.free.len() + self.tasks.len();
        let parts = divide(rest.len, living.max(1), self.common.checker.node_len());
        self.waiting.extend(parts.into_iter().map(|part| part.moved_by(rest.offset)));
    }

    /// Gives parts that wait to servers that are free.
    fn hand_out(&mut self) {
        while !self.free.is_empty()
            && let Some(part) = self.waiting.pop_front()
            && let Some(server) = self.free.pop_front()
        {
            let (common, progress) = (Arc::clone(&self.common), SessionProgress::new(part.len));
            let number = self.next;
            self.next += 1;
            self.progress.insert(number, progress.clone());
            self.tasks.spawn(async move {
                let Server { host, address, .. } = &server;
                let (right, result) = receive(&common, (host, *address), part, &progress).await;
                Ended { number, server, part, right, result }
            });
        }
    }

    /// Bytes written, over all parts.
    fn written(&self) -> u64 {
        self.settled.0 + self.progress.values().map(SessionProgress::bytes_done).sum::<u64>()
    }

    fn none_left(&self) -> FetchError {
        let hosts = self.replicas.iter().map(Replica::complaint).collect();
        let (done, size) = (self.written(), self.common.size);
        FetchError::NoReplicaLeft { hosts, done, size }
    }

    fn tell_progress(&self) {
        let (done, total) = (self.written(), self.common.size);
        let under_way = self.progress.values().map(SessionProgress::symbols).sum::<u64>();
        let symbols = self.settled.1 + under_way;
        self.common.updates.tell(Update::Moving { done, total, symbols });
    }
}
