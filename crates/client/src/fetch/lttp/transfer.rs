//! A fetch under way: who fetches which part from whom, and what becomes of the parts of servers
//! that are lost.
//!
//! Each server has one session at a time, and at first each has a share. What a server that is lost had not sent, or had
//! sent wrong, is divided among those that live, in whole nodes of the hash tree, and each takes such a part when it is
//! done with its own.
//!
//! A server that is away, because its connection broke or it is silent for half of the time limit, is given up when the
//! limit is over. Until then it is asked again and again for a part that waits, over a new connection. A server that has
//! sent wrong bytes is asked again once: bytes are altered on the way, too. So a fetch ends: who is asked again and again
//! sends right nodes or is given up, wrong bytes count, and a part that is not lost is a part less.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::task::JoinSet;
use tokio::time::Instant;

use super::super::ticks;
use super::super::verify::liar;
use super::part::{Broken, Came, Common, receive};
use super::spans::{Span, divide};
use crate::driver::SessionProgress;
use crate::replicas::{Replica, Standing};
use crate::report::PartReport;
use crate::sink::Sink;
use crate::{FetchError, HostError, Update};
use wellspring_net::timeouts::SHORTEST_TIMEOUT;

/// Pause before a server that is away is asked again.
const PAUSE: Duration = Duration::from_millis(500);
/// A silence that is no sign of a path that is down, whatever the time limit.
const SHORTEST_SILENCE: Duration = Duration::from_secs(1);

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
    came: Came,
}

/// What a server has sent.
#[derive(Clone, Copy, Default)]
struct Record {
    /// Nodes that were right.
    right: u64,
    /// Parts that ended with a wrong node.
    wrong: u64,
    /// When it was last heard before it went away; since then nothing right has come.
    away_since: Option<Instant>,
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
    /// Servers that are away, and when each is asked again.
    away: Vec<(Server, Instant)>,
    /// Parts without a server.
    waiting: VecDeque<Span>,
    /// Of parts under way, by number, and whose they are.
    progress: BTreeMap<u64, (usize, SessionProgress)>,
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
            away: Vec::new(),
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
        while !(self.tasks.is_empty() && self.waiting.is_empty()) {
            tokio::select! {
                Some(ended) = self.tasks.join_next() => match ended {
                    Ok(ended) => self.take_in(ended)?,
                    Err(_) => {
                        return Err(FetchError::Write(io::Error::other("a part's task panicked")));
                    }
                },
                error = sink.broken() => return Err(FetchError::Write(error)),
                _ = ticks.tick() => {
                    self.note_returns();
                    self.ask_again();
                    self.tell_progress();
                }
            }
        }
        self.tell_progress();
        self.parts.sort_by_key(|part| part.offset);
        Ok((self.replicas, self.parts))
    }

    fn take_in(&mut self, ended: Ended) -> Result<(), FetchError> {
        self.note_returns();
        let Ended { number, server, part, came: Came { right, heard, result } } = ended;
        let symbols = self.progress.remove(&number).map_or(0, |(_, progress)| progress.symbols());
        self.settled = (self.settled.0 + right, self.settled.1 + symbols);
        let record = self.records.entry(server.index).or_default();
        record.right += right / self.common.checker.node_len();
        if right > 0 {
            record.away_since = None;
        }
        let was_away = record.away_since.is_some();
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
                self.lose(&server, Standing::Lost(reason));
                None
            }
            Err(Broken::Away(reason)) => {
                let since = *record.away_since.get_or_insert(heard);
                if since.elapsed() < self.common.timeout {
                    self.away.push((server.clone(), Instant::now() + PAUSE));
                }
                if self.replicas[server.index].is_live() {
                    self.lose(&server, Standing::Lost(reason));
                }
                None
            }
        };
        if right > 0 {
            let (Server { host, address, .. }, offset) = (server, part.offset);
            self.parts.push(PartReport { host, address, offset, len: right, stats });
        }
        if right < part.len && was_away {
            // Nothing has changed: others have had their parts of it.
            self.waiting.push_front(part.behind(right));
        } else if right < part.len {
            self.share_out(part.behind(right));
        }
        self.hand_out();
        if self.tasks.is_empty() && self.away.is_empty() && !self.waiting.is_empty() {
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
        if replica.is_live() && matches!(standing, Standing::Lost(_)) {
            replica.losses += 1;
        }
        replica.standing = standing;
        let HostError { host, reason, .. } = replica.complaint();
        self.common.updates.tell(Update::Lost { host, reason });
    }

    /// Servers are asked again that have been away for long enough to be.
    fn ask_again(&mut self) {
        let now = Instant::now();
        let due = |(_, at): &mut (Server, Instant)| *at <= now;
        self.free.extend(self.away.extract_if(.., due).map(|(server, _)| server));
        self.hand_out();
    }

    /// Servers that were away and send again are back.
    fn note_returns(&mut self) {
        for (index, progress) in self.progress.values() {
            let replica = &mut self.replicas[*index];
            if progress.symbols() > 0 && matches!(replica.standing, Standing::Lost(_)) {
                replica.standing = Standing::Live;
                replica.returns += 1;
                self.common.updates.tell(Update::Back { host: replica.host.clone() });
            }
        }
    }

    /// For how long a server may be silent until its part is asked for anew.
    fn patience(&self, server: &Server) -> Duration {
        let limit = self.common.timeout;
        let half = (limit / 2).max(SHORTEST_SILENCE).min(limit);
        let record = self.records.get(&server.index);
        match record.and_then(|record| record.away_since) {
            Some(since) => half.min(limit.saturating_sub(since.elapsed())).max(SHORTEST_TIMEOUT),
            None => half,
        }
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
            self.progress.insert(number, (server.index, progress.clone()));
            let patience = self.patience(&server);
            self.tasks.spawn(async move {
                let Server { host, address, .. } = &server;
                let came = receive(&common, (host, *address), (part, patience), &progress).await;
                Ended { number, server, part, came }
            });
        }
    }

    /// Bytes written, over all parts.
    fn written(&self) -> u64 {
        self.settled.0 + self.under_way(SessionProgress::bytes_done)
    }

    /// What is counted of parts under way.
    fn under_way(&self, count: impl Fn(&SessionProgress) -> u64) -> u64 {
        self.progress.values().map(|(_, progress)| count(progress)).sum()
    }

    fn none_left(&self) -> FetchError {
        let hosts = self.replicas.iter().map(Replica::complaint).collect();
        let (done, size) = (self.written(), self.common.size);
        FetchError::NoReplicaLeft { hosts, done, size }
    }

    fn tell_progress(&self) {
        let (done, total) = (self.written(), self.common.size);
        let symbols = self.settled.1 + self.under_way(SessionProgress::symbols);
        self.common.updates.tell(Update::Moving { done, total, symbols });
    }
}
