//! A fetch by NDP, SCDP's baseline: from one host at a time.
//!
//! A host is asked for what lies between the first node that is missing and the last. NDP sends packets in order, so what is
//! right of a fetch that was interrupted, or of a host that was lost, is almost all of its beginning.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::time::Instant;
use wellspring_core::SessionId;
use wellspring_transport::ndp::{ReceiveStats, SendStats};
use wellspring_wire::control::{Cookie, Request, StartNdp};

use super::nodes::Nodes;
use super::verify::{Checker, give_up, learn, liar, missing, order_of};
use super::{Arrived, Guard, events, open_sink, ticks};
use crate::driver::{Failure, SessionEvent, SessionProgress};
use crate::replicas::{Found, Replica, Standing};
use crate::report::ProtocolReport;
use crate::requester::Answer;
use crate::sink::Sink;
use crate::store_messages;
use crate::{Client, FetchError, FetchOptions, Target, Update, timeout_ms};

/// What came of a host's sending.
enum Came {
    /// All bytes, right.
    Whole(ReceiveStats),
    /// Wrong bytes, in the node that begins there.
    Wrong(u64),
    /// Not all of it, and why.
    Lost(String),
}

type Event = SessionEvent<ReceiveStats, SendStats>;

/// What a session writes to, and what is known of its bytes.
struct Arrival<'a> {
    sink: &'a mut Sink,
    checker: &'a Checker,
    /// Which nodes are right, by number.
    right: &'a mut Vec<bool>,
    /// What is asked for: from a node's beginning to a node's end, or that of the object.
    part: Range<u64>,
}

impl Client {
    /// Has the first host that has the object send it; if that fails, or lies, the next one.
    pub(super) async fn fetch_by_ndp(
        &self,
        options: &FetchOptions,
        mut found: Found,
        target: Target,
    ) -> Result<Arrived, FetchError> {
        let (payload, size) = (self.driver.handle().ndp().payload, found.size);
        let order = order_of(self, options, &found);
        let mut pages = learn(&order, &mut found.replicas, options).await?;
        let first = found.replicas.iter().find(|replica| replica.is_live());
        let hosts = first.map(|first| first.host.clone()).into_iter().collect();
        let moves = (payload, hosts);
        let mut sink = open_sink(options, &found, target, moves, options.resume).await?;
        let missing = missing(&sink, &order, &mut pages, &found.replicas, options).await;
        let checker = Checker::new(&pages, sink.arriving(), size);
        let mut right = right_nodes(&missing, size, checker.node_len());
        let resumed = size - missing.iter().map(|range| range.end - range.start).sum::<u64>();
        let mut wrong = BTreeMap::new();
        let (sender, stats) = loop {
            let Some(index) = found.replicas.iter().position(Replica::is_live) else {
                let done = right.iter().filter(|right| **right).count() as u64;
                let done = size.min(done * checker.node_len());
                let hosts = found.replicas.iter().map(Replica::complaint).collect();
                return Err(FetchError::NoReplicaLeft { hosts, done, size });
            };
            let Some(part) = wanted(&right, size, checker.node_len()) else {
                break (index, ReceiveStats::default());
            };
            let arrival = Arrival { sink: &mut sink, checker: &checker, right: &mut right, part };
            let came = self.receive_by_ndp(options, &found, index, arrival).await?;
            let others = found.replicas.iter().filter(|replica| replica.is_live()).count() > 1;
            let replica = &mut found.replicas[index];
            match came {
                Came::Whole(stats) => break (index, stats),
                Came::Lost(reason) => give_up(replica, Standing::Lost(reason), options),
                Came::Wrong(at) => {
                    let times = wrong.entry(index).or_insert(0);
                    *times += 1;
                    replica.altered += 1;
                    if others || *times > 1 {
                        give_up(replica, liar(at), options);
                    } else {
                        let host = replica.host.clone();
                        options.updates.tell(Update::Wrong { host, at });
                    }
                }
            }
        };
        let all = found.replicas.iter_mut().enumerate();
        for (_, other) in all.filter(|(index, other)| *index != sender && other.takes_part()) {
            if !matches!(other.standing, Standing::Lost(_)) {
                other.standing = Standing::Unused("NDP has one sender".to_owned());
            }
        }
        let (replicas, report) = (found.replicas, ProtocolReport::Ndp(stats));
        Ok(Arrived { sink, symbol_size: payload, resumed, replicas, report })
    }

    /// Has a host send a part of the object. When this returns nothing is written any more.
    async fn receive_by_ndp(
        &self,
        options: &FetchOptions,
        found: &Found,
        index: usize,
        mut arrival: Arrival<'_>,
    ) -> Result<Came, FetchError> {
        let (size, handle) = (found.size, self.driver.handle().ndp());
        let address = found.replicas[index].address.ok_or(FetchError::NoHosts)?;
        let session = SessionId(crate::random::number() as u32);
        let (report, mut events) = events();
        let node_len = arrival.checker.node_len();
        let known = arrival.right.clone();
        let (nodes, mut whole) = Nodes::new(arrival.sink.arriving(), size, node_len, known);
        let Range { start: offset, end } = arrival.part;
        let progress = handle.receive(session, offset..end, Arc::new(nodes), address, report)?;
        let cancel = handle.clone();
        let _guard = Guard(Box::new(move || cancel.cancel(session)));
        let (name, payload) = (store_messages::name(&options.name), handle.payload);
        let (digest, timeout) = (found.digest.0, self.config.timeout);
        let (len, timeout_ms) = (end - offset, timeout_ms(timeout));
        let start = StartNdp { session, name, digest, payload, offset, len, timeout_ms };
        let request = Request::StartNdp(start);
        let asking = self.requester.ask(address, &request, Cookie::NONE, timeout, &|_, _| {}).await;
        let came = match asking {
            Ok(Answer::Accepted) => {
                let channels = (&mut events, &mut whole);
                self.follow_ndp((options, size), &progress, channels, &mut arrival).await?
            }
            Ok(_) => Came::Lost("an answer that makes no sense".to_owned()),
            Err(error) => Came::Lost(error.to_string()),
        };
        if !matches!(came, Came::Whole(_)) {
            handle.cancel(session);
            while let Some(event) = events.recv().await {
                if event.is_last() {
                    break;
                }
            }
        }
        Ok(came)
    }

    /// Follows a session, and verifies what comes.
    async fn follow_ndp(
        &self,
        (options, size): (&FetchOptions, u64),
        progress: &SessionProgress,
        (events, whole): (&mut mpsc::UnboundedReceiver<Event>, &mut mpsc::UnboundedReceiver<u64>),
        arrival: &mut Arrival<'_>,
    ) -> Result<Came, FetchError> {
        let timeout = self.config.timeout;
        let others = size - progress.transfer_len();
        let mut ticks = ticks();
        let mut heard = (Instant::now(), 0);
        loop {
            tokio::select! {
                event = events.recv() => match event {
                    Some(SessionEvent::Received { stats, .. }) => {
                        while let Ok(start) = whole.try_recv() {
                            if !arrival.is_right(start, size).await? {
                                return Ok(Came::Wrong(start));
                            }
                        }
                        return Ok(Came::Whole(stats));
                    }
                    Some(SessionEvent::Failed(Failure::PeersLost)) => {
                        return Ok(Came::Lost("fell silent".to_owned()));
                    }
                    Some(SessionEvent::Failed(failure)) => return Err(FetchError::Session(failure)),
                    Some(_) => {}
                    None => return Err(FetchError::Session(Failure::Stopped)),
                },
                Some(start) = whole.recv() => if !arrival.is_right(start, size).await? {
                    return Ok(Came::Wrong(start));
                },
                error = arrival.sink.broken() => return Err(FetchError::Write(error)),
                _ = ticks.tick() => {
                    let (done, symbols) = (others + progress.bytes_done(), progress.symbols());
                    options.updates.tell(Update::Moving { done, total: size, symbols });
                    if symbols != heard.1 {
                        heard = (Instant::now(), symbols);
                    }
                    // A receiver that has heard nothing yet waits for nothing by itself.
                    if heard.0.elapsed() > timeout {
                        let silent = format!("silent for {:.1} s", timeout.as_secs_f64());
                        return Ok(Came::Lost(silent));
                    }
                }
            }
        }
    }
}

/// Which nodes are right of an object of which that is missing, in whole nodes.
fn right_nodes(missing: &[Range<u64>], size: u64, node_len: u64) -> Vec<bool> {
    let mut right = vec![true; size.div_ceil(node_len) as usize];
    for range in missing {
        let (first, end) = (range.start / node_len, range.end.div_ceil(node_len));
        right[first as usize..end as usize].fill(false);
    }
    right
}

/// What is to be asked for: from the first node that is missing to the last; nothing if none is.
fn wanted(right: &[bool], size: u64, node_len: u64) -> Option<Range<u64>> {
    let first = right.iter().position(|right| !right)?;
    let last = right.iter().rposition(|right| !right)?;
    Some(first as u64 * node_len..size.min((last as u64 + 1) * node_len))
}

impl Arrival<'_> {
    /// Verifies a node that has come as a whole.
    async fn is_right(&mut self, start: u64, size: u64) -> Result<bool, FetchError> {
        let node_len = self.checker.node_len();
        let range = start..size.min(start + node_len);
        let wrong = self.checker.check(range).await.map_err(FetchError::Write)?;
        if let Some(right) = self.right.get_mut((start / node_len) as usize) {
            *right = wrong.is_none();
        }
        Ok(wrong.is_none())
    }
}
