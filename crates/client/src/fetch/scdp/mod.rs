//! A fetch by SCDP: from all holders of an object at once.

mod joining;
mod outcome;
mod pages;
mod prepared;
mod taken_up;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::task::JoinSet;
use tokio::sync::mpsc;
use tokio::time::Instant;
use wellspring_transport::scdp::{ObjectInfo, ReceiveStats};
use wellspring_wire::control::{RefusalCode, ResumeAt};
use wellspring_wire::scdp::{CloseReason, Mode};

use super::{Arrived, Guard, events, open_range_sink, open_sink, ticks};
use crate::byte_range::Wanted;
use crate::driver::{Failure, SessionEvent, SessionProgress};
use crate::manifest::{PageId, RESUMED_EPOCH, Verified, first_missing, object_of};
use crate::narrow::{datagram_len, examine, suspected_after};
use crate::order::{OLD_VERSION, Order};
use crate::pages::Pages;
use crate::paths::{PathOpener, Paths};
use crate::protocols::{DriverHandle, ReceiveObject};
use crate::replicas::{Found, Late, Replica, Standing, find};
use crate::report::{ProtocolReport, ScdpReport};
use crate::requester::AskError;
use crate::sink::Sink;
use crate::store::Digest;
use crate::{BlockProgress, Client, FetchError, FetchOptions, HostError, Target, Update, Updates};
use outcome::{Fetched, Unfetched};
use prepared::Prepared;
use wellspring_net::timeouts::peer_timeout;
use wellspring_net::{Host, HostTrouble, canonical};

impl Client {
    /// Has all replicas send at once, each its share of the symbols.
    pub(super) async fn fetch_by_scdp(
        &self,
        (hosts, options): (&[Host], &FetchOptions),
        found: Found,
        range: Range<u64>,
        target: Target,
    ) -> Result<Arrived, FetchError> {
        let mut symbol_size = found.geometry.symbol_size;
        let taking_part = found.replicas.iter().filter(|r| r.takes_part());
        let names = taking_part.map(|r| r.host.clone()).collect();
        let moves = (symbol_size, names);
        let object = object_of(found.size, &found.geometry, found.digest.tag());
        let mut wanted = Wanted::of(range.clone(), object);
        let mut sink = if options.range.is_some() {
            open_range_sink(options, &found, target, moves, wanted.clone()).await?
        } else {
            open_sink(options, &found, target, moves, options.resume).await?
        };
        let (size, digest) = (found.size, found.digest);
        let mut found = found;
        let fetched = loop {
            if size == 0 {
                let (stats, replicas) = (ReceiveStats::default(), found.replicas);
                break Fetched { stats, replicas, sink, resumed: 0 };
            }
            match self.fetch_missing(options, found, wanted.clone(), sink).await {
                Ok(fetched) => break fetched,
                Err(Unfetched::Narrow(as_before)) => sink = as_before,
                Err(Unfetched::Failed(error)) => return Err(error),
            }
            // The cut is another one, which replicas are told of when they are asked.
            found = find(
                &self.requester,
                hosts,
                options,
                (self.config.timeout, Late::Joins, self.config.further_addresses),
            )
            .await?;
            if (found.size, found.digest) != (size, digest) {
                return Err(FetchError::Changed);
            }
            symbol_size = found.geometry.symbol_size;
            options.updates.tell(Update::Shortened { symbol_size });
            wanted = Wanted::of(range.clone(), object_of(size, &found.geometry, digest.tag()));
        };
        let blocks = if size == 0 { 0 } else { wanted.blocks.len() as u32 };
        let Fetched { stats, replicas, sink, resumed } = fetched;
        let report = ProtocolReport::Scdp(ScdpReport { blocks, stats });
        Ok(Arrived { sink, symbol_size, resumed, replicas, report })
    }
}

/// What the tasks beside a transfer come to.
enum Joined {
    Started(usize, Result<(), AskError>),
    /// Share, epoch, and which life of the host it was.
    Won(usize, u8, Result<u32, AskError>),
    /// A page of the manifest that a share's replica was asked for.
    Page(usize, PageId, Result<Vec<u8>, AskError>),
    /// The paths were examined; whether one is narrow.
    Examined(bool),
}

/// A transfer under way.
struct Run {
    handle: DriverHandle,
    order: Order,
    object: ObjectInfo,
    wanted: Wanted,
    open_blocks: u32,
    replicas: Vec<Replica>,
    /// Which replica has which share: index into `replicas` by share.
    shares: Vec<usize>,
    sink: Sink,
    progress: SessionProgress,
    events: mpsc::UnboundedReceiver<SessionEvent>,
    tasks: JoinSet<Joined>,
    opener: PathOpener,
    /// Further paths, by share.
    paths: BTreeMap<usize, Paths>,
    pages: Pages,
    updates: Updates,
    /// The protocol's counters, once the driver answers.
    account: Option<std::sync::mpsc::Receiver<ReceiveStats>>,
    /// When the paths are examined if nothing has come by then; absent if they are not, or were.
    examine_at: Option<Instant>,
    _guard: Guard,
}

impl Run {
    /// Announces the session and asks all replicas that answered to send.
    fn begin(
        client: &Client,
        prepared: Prepared,
        options: &FetchOptions,
    ) -> Result<Run, FetchError> {
        let Prepared { order, object, wanted, mut replicas, shares, sink, pages, complete } =
            prepared;
        let (handle, session) = (client.driver.handle(), order.session);
        let has_further = |&&index: &&usize| !replicas[index].further.is_empty();
        let many = shares.len() > 1 || shares.iter().find(has_further).is_some();
        // Senders begin with the first block that is missing, and no one has sent of it before.
        let missing = first_missing(&complete);
        let at = ResumeAt { epoch: RESUMED_EPOCH, floor: missing, horizon: missing };
        let resume = (!complete.is_empty()).then_some(at);
        let senders = shares.iter().filter_map(|&i| replicas[i].address).collect();
        let (report, events) = events();
        let progress = handle.receive_object(
            ReceiveObject {
                session,
                object,
                digest: order.digest.0,
                mode: if many { Mode::ManyToOne } else { Mode::Unicast },
                senders,
                initial_window: order.geometry.initial_window,
                sink: Arc::new(Verified::new(Arc::clone(&pages.manifest), sink.as_object_sink())),
                complete,
                priority: options.priority,
                key: None,
            },
            report,
        )?;
        let cancel = handle.clone();
        let guard = Guard(Box::new(move || {
            // A session that is over, or a driver that has stopped, is what was asked for.
            let _ = cancel.cancel(session);
        }));
        handle.wait_for_return(session, peer_timeout(client.config.timeout))?;
        if let Some(at) = resume {
            for &index in &shares {
                let replica = &mut replicas[index];
                if let Some(address) = replica.address.filter(|_| replica.is_live()) {
                    replica.epoch = at.epoch;
                    handle.sender_back(session, address, at.epoch)?;
                }
            }
        }
        // A size that was asked for is kept, and so are the blocks of a range, which are those of its cut.
        let may_shorten = options.cut.symbol_size.is_none() && options.range.is_none();
        let examine_at = Instant::now() + suspected_after(client.config.timeout);
        let mut run = Run {
            _guard: guard,
            handle,
            order,
            object,
            wanted,
            open_blocks: client.config.driver.scdp.limits.open_blocks_of(&object),
            replicas,
            shares,
            sink,
            progress,
            events,
            tasks: JoinSet::new(),
            opener: PathOpener::of(client),
            paths: BTreeMap::new(),
            pages,
            updates: options.updates.clone(),
            account: None,
            examine_at: may_shorten.then_some(examine_at),
        };
        for share in 0..run.shares.len() {
            if run.replicas[run.shares[share]].standing == Standing::Live {
                run.start(share, resume);
            } else {
                run.win(share, 1);
            }
        }
        run.ask_for_pages();
        Ok(run)
    }

    /// Goes on without a replica.
    fn exclude(&mut self, share: usize, standing: Standing) -> Result<(), FetchError> {
        let replica = &mut self.replicas[self.shares[share]];
        if replica.takes_part() {
            replica.standing = standing;
            let HostError { host, reason, .. } = replica.complaint();
            self.updates.tell(Update::Lost { host, reason });
            if let Some(address) = replica.address {
                self.handle.exclude(self.order.session, address)?;
            }
            self.ask_for_pages();
        }
        self.check_hope()
    }

    /// Follows the session to its end.
    async fn follow(mut self) -> Result<(ReceiveStats, Vec<Replica>, Sink), Unfetched> {
        let mut ticks = ticks();
        loop {
            tokio::select! {
                biased;
                event = self.events.recv() => match event {
                    Some(SessionEvent::Received { stats, .. }) => {
                        self.tell_progress();
                        return Ok((stats, self.replicas, self.sink));
                    }
                    Some(event) => self.on_event(event)?,
                    None => return Err(FetchError::Session(Failure::Stopped).into()),
                },
                Some(done) = self.tasks.join_next() => match done {
                    Ok(Joined::Examined(true)) if self.progress.symbols() == 0 => {
                        return Err(Unfetched::Narrow(self.sink));
                    }
                    Ok(done) => self.on_joined(done)?,
                    Err(_) => {}
                },
                error = self.sink.broken() => return Err(FetchError::Write(error).into()),
                _ = ticks.tick() => {
                    self.tell_progress();
                    self.ask_for_pages();
                    // Should a page have come while a worker had its block.
                    self.handle.check_again(self.order.session).map_err(FetchError::from)?;
                    self.examine_if_nothing_comes();
                }
            }
        }
    }

    /// Examines the paths, once, if no symbol has come for a while.
    fn examine_if_nothing_comes(&mut self) {
        if self.examine_at.is_none_or(|at| Instant::now() < at) {
            return;
        }
        self.examine_at = None;
        if self.progress.symbols() == 0 {
            let live = self.shares.iter().map(|&index| &self.replicas[index]);
            let hosts =
                live.filter(|replica| replica.is_live()).filter_map(|r| r.address).collect();
            let requester = self.order.requester.clone();
            let len = datagram_len(&self.order.geometry, &requester);
            self.tasks.spawn(async move { Joined::Examined(examine(requester, hosts, len).await) });
        }
    }

    fn tell_progress(&mut self) {
        if self.updates.are_of_hosts() {
            self.tell_of_senders();
        }
        self.updates.tell(Update::Moving {
            done: self.wanted.done(self.progress.bytes_done()),
            total: self.wanted.bytes.end - self.wanted.bytes.start,
            symbols: self.progress.symbols(),
        });
    }

    /// Tells what the driver has answered, and asks it for the next time.
    fn tell_of_senders(&mut self) {
        let answered = self.account.take().and_then(|account| account.try_recv().ok());
        if let Some(stats) = answered {
            let senders = self.shares.iter().zip(&stats.senders);
            let senders = senders.map(|(&index, stats)| self.replicas[index].progress(stats));
            let blocks = BlockProgress {
                done: self.wanted.blocks_done(self.progress.blocks_done()),
                decoded: stats.decoded_blocks.into(),
                total: self.wanted.blocks.len() as u64,
            };
            self.updates.tell(Update::Senders { senders: senders.collect(), blocks });
        }
        // A driver that has stopped says so by the end of the events.
        self.account = self.handle.receive_stats(self.order.session).ok();
    }

    fn share_of(&self, sender: std::net::SocketAddr) -> Option<usize> {
        let sender = canonical(sender);
        self.shares
            .iter()
            .position(|&index| self.replicas[index].address.map(canonical) == Some(sender))
    }

    fn on_event(&mut self, event: SessionEvent) -> Result<(), FetchError> {
        match event {
            SessionEvent::SenderLost { sender, reason } => {
                let Some(share) = self.share_of(sender) else { return Ok(()) };
                let reason = match reason {
                    None if self.order.requester.is_closed(sender) => {
                        "does not listen any more (connection refused)".to_owned()
                    }
                    None if self.order.background && !self.paths.contains_key(&share) => {
                        format!("fell silent; {OLD_VERSION}")
                    }
                    None => "fell silent".to_owned(),
                    Some(CloseReason::UnknownSession) => {
                        "has restarted, or has given the session up".to_owned()
                    }
                    Some(CloseReason::Cancelled) => {
                        "cancelled (it stops, or its file changed)".to_owned()
                    }
                    Some(reason) => format!("closed the session ({reason:?})"),
                };
                let next = self.lose(share, reason);
                if let Some(epoch) = next {
                    self.win(share, epoch);
                }
                Ok(())
            }
            SessionEvent::SenderRefused { sender, announced } => {
                if let Some(share) = self.share_of(sender) {
                    let reason = format!("announced other bytes ({})", Digest(announced));
                    self.drop_replica(share, reason, HostTrouble::Other);
                }
                Ok(())
            }
            SessionEvent::SymbolsAltered { sender, symbols, excluded } => {
                let Some(share) = self.share_of(sender) else { return Ok(()) };
                let replica = &mut self.replicas[self.shares[share]];
                replica.altered += u64::from(symbols);
                if !excluded {
                    let host = replica.host.clone();
                    self.updates.tell(Update::Altered { host, symbols });
                    return Ok(());
                }
                let altered = replica.altered;
                let reason = format!("sent altered symbols ({altered}), and was excluded");
                self.exclude(share, Standing::Excluded(reason))
            }
            SessionEvent::Failed(failure) => Err(self.failed(failure)),
            _ => Ok(()),
        }
    }

    /// Notes that a replica is lost; the epoch in which to win it back, if that is to be tried.
    fn lose(&mut self, share: usize, reason: String) -> Option<u8> {
        let replica = &mut self.replicas[self.shares[share]];
        let was_live = replica.standing == Standing::Live;
        if !replica.takes_part() || replica.joining && !was_live {
            return None;
        }
        replica.standing = Standing::Lost(reason.clone());
        replica.losses += 1;
        self.updates.tell(Update::Lost { host: replica.host.clone(), reason });
        replica.epoch.checked_add(1)
    }

    fn drop_replica(&mut self, share: usize, reason: String, trouble: HostTrouble) {
        let replica = &mut self.replicas[self.shares[share]];
        replica.trouble = trouble;
        replica.standing = Standing::Unused(reason.clone());
        self.updates.tell(Update::Lost { host: replica.host.clone(), reason });
    }

    fn on_joined(&mut self, joined: Joined) -> Result<(), FetchError> {
        match joined {
            Joined::Page(share, page, answer) => self.on_page(share, page, answer),
            // The paths carry the symbols, or some have come by now.
            Joined::Examined(_) => Ok(()),
            // Silence is for the protocol to judge: its symbols may well be arriving.
            Joined::Started(share, Ok(())) => {
                self.open_paths(share);
                Ok(())
            }
            Joined::Started(
                _,
                Err(AskError::NoAnswer(_) | AskError::PortClosed | AskError::Unreachable(_)),
            ) => Ok(()),
            Joined::Started(share, Err(AskError::Refused { code: RefusalCode::Busy, text })) => {
                if let Some(epoch) = self.lose(share, text) {
                    self.win(share, epoch);
                }
                Ok(())
            }
            Joined::Started(share, Err(error)) => {
                self.drop_replica(share, error.to_string(), error.trouble());
                self.check_hope()
            }
            Joined::Won(share, epoch, Ok(instance)) => {
                let index = self.shares[share];
                let replica = &mut self.replicas[index];
                replica.joining = false;
                let before = replica.instance.replace(instance);
                if before.is_some_and(|before| before != instance) {
                    let (host, reason) = (replica.host.clone(), "has restarted".to_owned());
                    self.updates.tell(Update::Lost { host, reason });
                }
                let Some(address) = replica.address else { return Ok(()) };
                replica.epoch = epoch;
                replica.standing = Standing::Live;
                replica.returns += 1;
                self.updates.tell(Update::Back { host: replica.host.clone() });
                self.handle.sender_back(self.order.session, address, epoch)?;
                self.open_paths(share);
                Ok(())
            }
            Joined::Won(share, _, Err(error)) => {
                self.replicas[self.shares[share]].joining = false;
                self.drop_replica(share, error.to_string(), error.trouble());
                self.check_hope()
            }
        }
    }

    /// Fails at once when no replica can be of use any more.
    fn check_hope(&self) -> Result<(), FetchError> {
        if self.replicas.iter().any(Replica::takes_part) {
            Ok(())
        } else {
            Err(self.failed(Failure::PeersLost))
        }
    }

    fn failed(&self, failure: Failure) -> FetchError {
        match failure {
            Failure::PeersLost | Failure::Closed(_) => {
                let hosts: Vec<HostError> = self.replicas.iter().map(Replica::complaint).collect();
                let done = self.wanted.done(self.progress.bytes_done());
                let size = self.wanted.bytes.end - self.wanted.bytes.start;
                FetchError::NoReplicaLeft { hosts, done, size }
            }
            failure => FetchError::Session(failure),
        }
    }
}
