//! Objects on their way in.

mod bounds;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use wellspring_core::SessionId;
use wellspring_trust::Fingerprint;
use wellspring_wire::control::{Offer, PutState, RefusalCode, Reply};

use super::address_limit::{MinuteCount, Place, Places};
use super::answer::{Outcome, Owner, Refusal};
use super::checking::Checking;
use super::pace::Pace;
use super::quotas::{Account, Promise, Quotas, Session};
use super::running::{Direction, Protocol, RunningTransfer, TransferState};
use super::taken_tree::TreeStep;
use super::taking::Taking;
use super::{LONGEST_WAIT, MAX_PATHS, ServerConfig};
use crate::driver::SessionProgress;
use crate::store::{Digest, ObjectName, PartFile};

/// Objects whose end is remembered, so that their clients can still ask.
const MAX_REMEMBERED: usize = 1_024;

/// Silence after which a client that offers the same bytes again is given what its earlier session has, unless the
/// network has reported before that nobody listens at its earlier address.
const TAKE_OVER: Duration = Duration::from_secs(1);

/// Runs of blocks that were there before, of which a client is told: a session takes up 64 KiB for them.
const MAX_HELD_RUNS: usize = 8_192;

/// Sessions that receive, and what became of the last ones.
pub(super) struct Puts {
    places: Arc<Places>,
    all: BTreeMap<SessionId, Put>,
    over: VecDeque<SessionId>,
    /// Empty objects taken.
    empty: MinuteCount,
    /// How many there have been.
    begun: u64,
}

/// A session that receives.
pub(super) struct Put {
    /// Its number among all.
    number: u64,
    pub client: SocketAddr,
    /// The key that has offered it, where hosts have keys.
    key: Option<Fingerprint>,
    /// Where its client is by further paths.
    others: Vec<SocketAddr>,
    pub name: String,
    /// What its part file becomes, and what the operator is told that it is, if that is told.
    pub target: String,
    pub shown: Option<String>,
    /// What is done with it when it has arrived, if it is part of a tree.
    pub step: Option<TreeStep>,
    pub size: u64,
    pub digest: Digest,
    pub blocks: u32,
    /// Blocks that were there before, the first of them.
    held: Vec<Range<u32>>,
    pub group: Option<SocketAddr>,
    /// When it was first looked whether something comes through the group.
    joined: Option<Instant>,
    /// It is to come by unicast, since a member of the group may have forged symbols, or nothing comes through the group.
    pub left_group: bool,
    pub stage: Stage,
    symbol_size: u16,
    /// Why it was given up here.
    pub given_up: Option<(RefusalCode, String)>,
    /// When it was offered.
    began: Instant,
    /// How fast it must come.
    pace: Pace,
    /// Space that was held for it when it was taken \[bytes\].
    reserved: u64,
    /// What shows whether its client is gone, when it offers the same bytes again.
    signs: SignsOfLife,
    /// Until it is over.
    places: Option<(Place, Option<Session>)>,
    /// Its offer had part files looked for that could go for it.
    has_searched: bool,
    /// Room in its client's quota, until it has its name or is over.
    promise: Option<Promise>,
}

/// A session in which a client receives what it offers again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rival {
    /// Symbols arrive.
    Lives,
    /// A moment will show.
    InDoubt,
    /// Its client is gone, or has nothing to send.
    Silent(SessionId),
}

/// What shows whether the client of a session is gone.
#[derive(Default)]
struct SignsOfLife {
    /// Symbols received when another offer of the same bytes was first compared with it, and when that was.
    compared: Option<(u64, Instant)>,
    /// Symbols received when the network last reported that nobody listens at the client's address.
    closed: Option<u64>,
}

/// Whether the client of a session is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Life {
    Shown,
    InDoubt,
    Over,
}

impl SignsOfLife {
    /// Judges by the symbols received so far. Anybody can forge a report of a closed port, but no symbol comes after a
    /// true one.
    fn judge(&mut self, symbols: u64, now: Instant) -> Life {
        if self.closed == Some(symbols) {
            return Life::Over;
        }
        let (before, since) = *self.compared.get_or_insert((symbols, now));
        let is_early = now.duration_since(since) < TAKE_OVER;
        if symbols != before {
            self.compared = None;
            return if is_early { Life::Shown } else { Life::InDoubt };
        }
        if is_early { Life::InDoubt } else { Life::Over }
    }
}

impl Put {
    /// Whether it gets on too slowly to keep its space, or its client does not do its part as it is verified what was left.
    fn is_idle(&mut self, now: Instant) -> bool {
        match &mut self.stage {
            Stage::Checking(checking) => checking.is_idle(now, self.pace.patience()),
            Stage::Receiving(_, progress) => {
                let came = progress.arrived() * u64::from(self.symbol_size);
                self.pace.is_too_slow(came, now)
            }
            _ => false,
        }
    }

    fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Complete | Stage::Failed(_))
    }
}

impl Put {
    /// Whose it is.
    pub(super) fn owner(&self) -> Owner {
        Owner { client: self.client, key: self.key }
    }

    /// Whether it is that client's: by the address and the key, or, since a NAT may give a client another port at any
    /// time, by the key alone where there are keys.
    fn is_of(&self, Owner { client, key }: Owner) -> bool {
        self.key == key && (self.is_at(client) || self.has_moved(client))
    }

    fn is_at(&self, client: SocketAddr) -> bool {
        self.client == client || self.others.contains(&client)
    }

    /// Whether who shows its key at that address has moved there. Not to another host: a cluster's members have one key.
    fn has_moved(&self, client: SocketAddr) -> bool {
        let is_same_host = self.client.ip() == client.ip();
        self.key.is_some() && is_same_host && self.group.is_none() && !self.is_at(client)
    }

    /// The session has begun.
    pub(super) fn begin(
        &mut self,
        blocks: u32,
        mut held: Vec<Range<u32>>,
        (part, progress): (Arc<PartFile>, SessionProgress),
    ) {
        held.truncate(MAX_HELD_RUNS);
        self.pace.expect(self.size.saturating_sub(progress.bytes_done()));
        (self.blocks, self.held) = (blocks, held);
        self.stage = Stage::Receiving(part, progress);
    }
}

/// How far a session is.
pub(super) enum Stage {
    /// The part file is being made.
    Opening,
    /// What an earlier offer has left is being verified.
    Checking(Checking),
    Receiving(Arc<PartFile>, SessionProgress),
    /// All bytes are there and being verified.
    Verifying,
    Complete,
    Failed(RefusalCode),
}

impl Stage {
    /// Whether nothing is received any more.
    pub(super) fn is_over(&self) -> bool {
        !matches!(self, Stage::Opening | Stage::Receiving(..))
    }
}

impl Puts {
    pub(super) fn new(places: Arc<Places>) -> Self {
        Puts {
            places,
            all: BTreeMap::new(),
            over: VecDeque::new(),
            empty: MinuteCount::default(),
            begun: 0,
        }
    }

    /// Places of those that are not over.
    pub(super) fn places(&self) -> Arc<Places> {
        Arc::clone(&self.places)
    }

    pub(super) fn get_mut(&mut self, session: SessionId) -> Option<&mut Put> {
        self.all.get_mut(&session)
    }

    /// An offer is of part of a tree.
    pub(super) fn set_step(&mut self, session: SessionId, target: &ObjectName, step: TreeStep) {
        if let Some(put) = self.all.get_mut(&session) {
            (put.target, put.shown) = (target.to_string(), step.shown());
            put.step = Some(step);
        }
    }

    /// Notes the space that an object has in its client's quota.
    pub(super) fn keep_promise(&mut self, session: SessionId, promise: Promise) {
        if let Some(put) = self.all.get_mut(&session) {
            put.promise = Some(promise);
        }
    }

    /// The space that an object has in its client's quota, which is about to be used; and the name it gets, unless it is
    /// part of a tree.
    pub(super) fn take_promise(&mut self, session: SessionId) -> (Option<Promise>, Option<String>) {
        let put = self.all.get_mut(&session);
        put.map_or((None, None), |put| (put.promise.take(), Some(put.target.clone())))
    }

    /// What is done with an object when it has arrived, and its digest, if it is part of a tree.
    pub(super) fn step(&self, session: SessionId) -> Option<(TreeStep, Digest)> {
        let put = self.all.get(&session)?;
        put.step.clone().map(|step| (step, put.digest))
    }

    /// The offer has part files looked for that could go for it.
    pub(super) fn note_search(&mut self, session: SessionId) {
        if let Some(put) = self.all.get_mut(&session) {
            put.has_searched = true;
        }
    }

    /// Forgets an offer that came to nothing. Whether that cost little.
    pub(super) fn forget(&mut self, session: SessionId) -> bool {
        self.all.remove(&session).is_none_or(|put| !put.has_searched)
    }

    /// Those that get on too slowly to be worth the space that is held for them.
    pub(super) fn idle(&mut self, now: Instant) -> Vec<SessionId> {
        let idle = |(session, put): (&SessionId, &mut Put)| put.is_idle(now).then_some(*session);
        self.all.iter_mut().filter_map(idle).collect()
    }

    pub(super) fn holds(&self, session: SessionId) -> bool {
        self.all.contains_key(&session)
    }

    /// Who sends in a session that receives.
    pub(super) fn owner(&self, session: SessionId) -> Option<Owner> {
        let put = self.all.get(&session)?;
        matches!(put.stage, Stage::Receiving(..)).then(|| put.owner())
    }

    /// The client of a session is at another address, too, by a path that is open. False if it receives nothing here.
    pub(super) fn add_path(&mut self, session: SessionId, client: SocketAddr) -> bool {
        let Some(put) = self.all.get_mut(&session) else { return false };
        if !put.others.contains(&client) && put.others.len() < usize::from(MAX_PATHS) {
            put.others.push(client);
        }
        true
    }

    /// The client of a session speaks from that address: where it was before, if it has moved there while it sends.
    pub(super) fn follow(&mut self, session: SessionId, owner: Owner) -> Option<SocketAddr> {
        let put = self.all.get_mut(&session)?;
        let is_receiving = matches!(put.stage, Stage::Receiving(..));
        let moves = is_receiving && put.key == owner.key && put.has_moved(owner.client);
        moves.then(|| std::mem::replace(&mut put.client, owner.client))
    }

    /// Answers how far an object is; nothing to who is not known to have offered it.
    pub(super) fn status(&self, session: SessionId, owner: Owner) -> Option<Reply<'static>> {
        let Some(put) = self.all.get(&session) else {
            let state = PutState::Unknown;
            return Some(Reply::Status { state, blocks_done: 0, blocks_total: 0 });
        };
        if !put.is_of(owner) {
            return None;
        }
        let (state, blocks_done) = match &put.stage {
            Stage::Opening | Stage::Checking(_) => (PutState::Receiving, 0),
            Stage::Receiving(_, progress) => {
                let done = u32::try_from(progress.blocks_done()).unwrap_or(u32::MAX);
                let state = if put.left_group { PutState::LeftGroup } else { PutState::Receiving };
                (state, done)
            }
            Stage::Verifying => (PutState::Receiving, put.blocks),
            Stage::Complete => (PutState::Complete, put.blocks),
            Stage::Failed(code) => (PutState::Failed(*code), 0),
        };
        Some(Reply::Status { state, blocks_done, blocks_total: put.blocks })
    }

    /// Another session in which that client's host sends the same bytes to the same name.
    pub(super) fn rival(&mut self, taking: &Taking, now: Instant) -> Option<Rival> {
        let name = taking.name.as_str();
        let (session, put) = self.all.iter_mut().find(|(session, put)| {
            let is_same = put.target == name && put.digest == taking.digest;
            let is_open = !matches!(put.stage, Stage::Opening | Stage::Complete | Stage::Failed(_));
            **session != taking.session
                && is_same
                && is_open
                && put.client.ip() == taking.owner.client.ip()
                && put.key == taking.owner.key
        })?;
        Some(match &put.stage {
            Stage::Receiving(_, progress) => match put.signs.judge(progress.symbols(), now) {
                Life::Shown => Rival::Lives,
                Life::InDoubt => Rival::InDoubt,
                Life::Over => Rival::Silent(*session),
            },
            Stage::Checking(checking) if checking.is_silent(now) => Rival::Silent(*session),
            _ => Rival::InDoubt,
        })
    }

    /// The network reports that nobody listens at an address.
    pub(super) fn on_closed_port(&mut self, client: SocketAddr) {
        for put in self.all.values_mut().filter(|put| put.client == client) {
            if let Stage::Receiving(_, progress) = &put.stage {
                put.signs.closed = Some(progress.symbols());
            }
        }
    }

    /// Whether what an earlier offer has left is being verified for that one.
    pub(super) fn is_checking(&self, session: SessionId) -> bool {
        self.all.get(&session).is_some_and(|put| matches!(put.stage, Stage::Checking(_)))
    }

    /// The blocks of a client's object that were there before, in runs that end above block `from`.
    pub(super) fn held(
        &self,
        session: SessionId,
        owner: Owner,
        from: u32,
    ) -> impl Iterator<Item = Range<u32>> {
        let put = self.all.get(&session).filter(|put| put.is_of(owner));
        let held = put.map_or(&[][..], |put| &put.held);
        held[held.partition_point(|run| run.end <= from)..].iter().cloned()
    }

    /// The answer to an offer that was taken before, or that cannot be.
    pub(super) fn known(
        &mut self,
        owner: Owner,
        offer: &Offer<'_>,
        now: Instant,
    ) -> Result<Option<Outcome>, Refusal> {
        if let Some(put) = self.all.get_mut(&offer.session) {
            if !put.is_of(owner) || put.name != offer.name.as_str() {
                return Err(Refusal::new(RefusalCode::SessionInUse, "session number in use"));
            }
            return match &mut put.stage {
                Stage::Opening => Ok(Some(Outcome::Nothing)),
                Stage::Checking(checking) => {
                    Ok(Some(Outcome::Pending { done: checking.asked(now), total: put.size }))
                }
                Stage::Failed(code) => Err(Refusal::new(*code, code.to_string())),
                Stage::Receiving(..) | Stage::Verifying | Stage::Complete => {
                    Ok(Some(Outcome::Accepted))
                }
            };
        }
        Ok(None)
    }

    /// Takes a place for an object that is offered.
    pub(super) fn admit(
        &mut self,
        Owner { client, key }: Owner,
        offer: &Offer<'_>,
        config: &ServerConfig,
        (quotas, account): (&Arc<Quotas>, Option<&Account>),
    ) -> Result<(), Refusal> {
        let places = (self.places.take(client)?, quotas.session(account)?);
        if offer.size == 0 {
            let limit = config.max_empty_an_address;
            self.empty.take("empty puts in this minute", client, limit, crate::clock::now())?;
        }
        let waits = Duration::from_millis(offer.timeout_ms.into()).min(LONGEST_WAIT);
        self.begun += 1;
        let put = Put {
            number: self.begun,
            client,
            key,
            others: Vec::new(),
            name: offer.name.to_string(),
            target: offer.name.to_string(),
            shown: Some(offer.name.to_string()),
            step: None,
            size: offer.size,
            digest: Digest(offer.digest),
            blocks: 0,
            held: Vec::new(),
            group: offer.group,
            joined: None,
            left_group: false,
            stage: Stage::Opening,
            symbol_size: offer.geometry.symbol_size,
            began: crate::clock::now(),
            pace: Pace::new(offer.size, waits, config.idle_put),
            reserved: 0,
            given_up: None,
            signs: SignsOfLife::default(),
            places: Some(places),
            has_searched: false,
            promise: None,
        };
        self.all.insert(offer.session, put);
        Ok(())
    }

    /// Who puts, or has put a while ago.
    pub(super) fn clients(&self) -> Vec<SocketAddr> {
        self.all.values().map(|put| put.client).collect()
    }

    /// Those that are not over, with the numbers of their sessions.
    pub(super) fn running(&self) -> impl Iterator<Item = (Option<SessionId>, RunningTransfer)> {
        let running = |put: &&Put| !matches!(put.stage, Stage::Complete | Stage::Failed(_));
        self.all.iter().filter(move |(_, put)| running(put)).map(|(session, put)| {
            let (state, done, blocks_done, symbols) = match &put.stage {
                Stage::Checking(checking) => (TransferState::Checking, checking.done(), 0, 0),
                Stage::Receiving(_, progress) => {
                    let (bytes, blocks) = (progress.bytes_done(), progress.blocks_done());
                    (TransferState::Moving, bytes, blocks, progress.symbols())
                }
                Stage::Verifying => (TransferState::Verifying, put.size, put.blocks.into(), 0),
                _ => (TransferState::Opening, 0, 0, 0),
            };
            let transfer = RunningTransfer {
                number: put.number,
                client: put.client,
                name: put.shown.clone().unwrap_or_else(|| put.name.clone()),
                direction: Direction::Receive,
                protocol: Protocol::Scdp,
                state,
                size: put.size,
                done,
                moved: symbols * u64::from(put.symbol_size),
                blocks: Some((blocks_done, put.blocks.into())),
                multicast: put.group.is_some(),
                account: None,
            };
            (Some(*session), transfer)
        })
    }

    /// An object is here: what other sessions have of the same is of use to nobody once they end.
    pub(super) fn discard_rivals(&self, session: SessionId) {
        let Some(done) = self.all.get(&session) else { return };
        for put in self.all.values() {
            if put.target == done.target
                && put.digest == done.digest
                && let Stage::Receiving(part, _) = &put.stage
            {
                part.discard();
            }
        }
    }

    /// Notes how a session ended; the oldest ends are forgotten.
    pub(super) fn end(&mut self, session: SessionId, stage: Stage) {
        if let Some(put) = self.all.get_mut(&session) {
            put.stage = stage;
            (put.places, put.promise) = (None, None);
            // What is remembered of its end is no use of its tree's listing.
            put.step = None;
            self.over.push_back(session);
        }
        while self.over.len() > MAX_REMEMBERED {
            if let Some(oldest) = self.over.pop_front() {
                self.all.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests;
