//! Progress of several fetches or puts as that of one transfer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::super::{BlockProgress, ReceiverProgress, SenderProgress, Update, Updates};

/// Fetches at one time, at most.
pub(super) const LANES: usize = 4;

/// What was moved by all of them.
pub(super) struct Progress {
    /// How much there is to move, where it is known before \[bytes\].
    total: Option<u64>,
    updates: Updates,
    /// What each host is to receive of a put \[bytes\].
    each: BTreeMap<String, u64>,
    done: Mutex<Done>,
}

#[derive(Default)]
struct Done {
    /// Of fetches that are over.
    over: Lane,
    /// Of those under way.
    lanes: Vec<Lane>,
    started: bool,
}

/// What one or more fetches or puts have moved.
#[derive(Clone, Default)]
struct Lane {
    bytes: u64,
    /// Of how much \[bytes\].
    total: u64,
    symbols: u64,
    senders: Vec<SenderProgress>,
    receivers: Vec<ReceiverProgress>,
    blocks: BlockProgress,
}

impl Progress {
    pub(super) fn new(total: u64, updates: &Updates) -> Arc<Self> {
        Progress::of_put(total, updates, BTreeMap::new())
    }

    /// Of a put of which each host is to receive so much \[bytes\].
    pub(super) fn of_put(total: u64, updates: &Updates, each: BTreeMap<String, u64>) -> Arc<Self> {
        Progress::of(Some(total), updates, each, LANES)
    }

    fn of(
        total: Option<u64>,
        updates: &Updates,
        each: BTreeMap<String, u64>,
        lanes: usize,
    ) -> Arc<Self> {
        let done = Done { lanes: vec![Lane::default(); lanes], ..Done::default() };
        Arc::new(Progress { total, updates: updates.clone(), each, done: done.into() })
    }

    /// Where the updates of a lane's fetch go.
    pub(super) fn updates(self: &Arc<Self>, lane: usize) -> Updates {
        let this = Arc::clone(self);
        let updates = Updates::to(move |update| this.hear(lane, update));
        if self.updates.are_of_hosts() { updates.with_hosts() } else { updates }
    }

    fn hear(&self, lane: usize, update: Update) {
        let mut locked = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        match update {
            Update::Started { size, symbol_size, digest, hosts } => {
                locked.lanes[lane].total = size;
                if !std::mem::replace(&mut locked.started, true) {
                    let size = self.total_of(&locked);
                    self.updates.tell(Update::Started { size, symbol_size, digest, hosts });
                }
            }
            Update::Moving { done, total, symbols } => {
                let moved = &mut locked.lanes[lane];
                (moved.bytes, moved.total, moved.symbols) = (done, total, symbols);
                let (done, symbols) = locked
                    .all()
                    .fold((0, 0), |sum, lane| (sum.0 + lane.bytes, sum.1 + lane.symbols));
                let total = self.total_of(&locked);
                self.updates.tell(Update::Moving { done, total, symbols });
            }
            Update::Senders { senders, blocks } => {
                (locked.lanes[lane].senders, locked.lanes[lane].blocks) = (senders, blocks);
                self.updates.tell(locked.senders());
            }
            Update::Receivers { receivers } => {
                locked.lanes[lane].receivers = receivers;
                let mut receivers = locked.receivers();
                for receiver in &mut receivers {
                    let total = self.each.get(&receiver.host).copied();
                    receiver.total = total.unwrap_or(receiver.total);
                }
                self.updates.tell(Update::Receivers { receivers });
            }
            Update::Hashing { .. } | Update::Verifying => {}
            other => self.updates.tell(other),
        }
    }

    /// What there is to move, as far as it is known \[bytes\].
    fn total_of(&self, done: &Done) -> u64 {
        self.total.unwrap_or_else(|| done.lanes.iter().map(|lane| lane.total).sum())
    }

    /// A lane's fetch of so many bytes is over.
    pub(super) fn end(&self, lane: usize, len: u64) {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = std::mem::take(&mut done.lanes[lane]);
        let Done { over, .. } = &mut *done;
        over.bytes += len;
        over.symbols += ended.symbols;
        over.blocks = added(over.blocks, ended.blocks);
        for sender in &ended.senders {
            add_sender(&mut over.senders, sender);
        }
        for mut receiver in ended.receivers {
            if receiver.is_live || receiver.done == receiver.total {
                (receiver.done, receiver.total) = (len, len);
            }
            add_receiver(&mut over.receivers, &receiver);
        }
    }
}

impl Updates {
    /// Where the updates of so many transfers at one time go, so that their progress is told as that of one.
    pub fn parts(&self, transfers: usize) -> Vec<Updates> {
        let progress = Progress::of(None, self, BTreeMap::new(), transfers);
        (0..transfers).map(|transfer| progress.updates(transfer)).collect()
    }
}

impl Done {
    /// What is over, and behind it what is under way.
    fn all(&self) -> impl Iterator<Item = &Lane> {
        [&self.over].into_iter().chain(&self.lanes)
    }

    fn senders(&self) -> Update {
        let (mut senders, mut blocks) = (Vec::new(), BlockProgress::default());
        for lane in self.all() {
            lane.senders.iter().for_each(|sender| add_sender(&mut senders, sender));
            blocks = added(blocks, lane.blocks);
        }
        // There are more in packs to come.
        blocks.total = 0;
        Update::Senders { senders, blocks }
    }

    fn receivers(&self) -> Vec<ReceiverProgress> {
        let mut receivers = Vec::new();
        for receiver in self.all().flat_map(|lane| &lane.receivers) {
            add_receiver(&mut receivers, receiver);
        }
        receivers
    }
}

fn added(one: BlockProgress, other: BlockProgress) -> BlockProgress {
    BlockProgress {
        done: one.done + other.done,
        decoded: one.decoded + other.decoded,
        total: one.total + other.total,
    }
}

/// Adds counters; the state is that of the later one, the silence the shorter one.
fn add_sender(senders: &mut Vec<SenderProgress>, later: &SenderProgress) {
    let known = senders.iter_mut().find(|sender| sender.host == later.host);
    let Some(known) = known else { return senders.push(later.clone()) };
    known.useful += later.useful;
    known.redundant += later.redundant;
    known.lost += later.lost;
    known.asked += later.asked;
    known.silent = known.silent.min(later.silent);
    (known.is_live, known.state) = (later.is_live, later.state.clone());
}

/// The same for a host that receives.
fn add_receiver(receivers: &mut Vec<ReceiverProgress>, later: &ReceiverProgress) {
    let known = receivers.iter_mut().find(|receiver| receiver.host == later.host);
    let Some(known) = known else { return receivers.push(later.clone()) };
    known.done += later.done;
    known.total += later.total;
    known.idle = known.idle.min(later.idle);
    (known.is_live, known.state) = (later.is_live, later.state.clone());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was told, of the kinds that are per host.
    fn heard() -> (Updates, Arc<Mutex<Vec<Update>>>) {
        let told = Arc::new(Mutex::new(Vec::new()));
        let to = Arc::clone(&told);
        let hear = move |update| to.lock().expect("no panic").push(update);
        (Updates::to(hear).with_hosts(), told)
    }

    fn sender(host: &str, useful: u64) -> SenderProgress {
        SenderProgress { host: host.to_owned(), is_live: true, useful, ..Default::default() }
    }

    #[test]
    fn counters_of_a_host_are_added_over_packs_that_are_over_and_under_way() {
        let (updates, told) = heard();
        let progress = Progress::new(100, &updates);
        let blocks = BlockProgress { done: 1, decoded: 1, total: 2 };
        let senders = |senders| Update::Senders { senders, blocks };
        progress.updates(0).tell(senders(vec![sender("a", 5), sender("b", 1)]));
        progress.end(0, 10);
        progress.updates(0).tell(senders(vec![sender("b", 2)]));
        progress.updates(3).tell(senders(vec![sender("a", 7)]));
        let expected = Update::Senders {
            senders: vec![sender("a", 12), sender("b", 3)],
            blocks: BlockProgress { done: 3, decoded: 3, total: 0 },
        };
        assert_eq!(told.lock().expect("no panic").pop(), Some(expected));
    }

    #[test]
    fn several_transfers_are_told_as_one() {
        let (updates, told) = heard();
        let parts = updates.parts(2);
        let started = |size, host: &str| {
            let digest = crate::store::Digest([0; 32]);
            Update::Started { size, symbol_size: 1_376, digest, hosts: vec![host.to_owned()] }
        };
        parts[0].tell(started(100, "a"));
        parts[1].tell(started(50, "b"));
        parts[0].tell(Update::Moving { done: 30, total: 100, symbols: 3 });
        parts[1].tell(Update::Moving { done: 20, total: 50, symbols: 2 });
        let expected = [
            started(100, "a"),
            Update::Moving { done: 30, total: 150, symbols: 3 },
            Update::Moving { done: 50, total: 150, symbols: 5 },
        ];
        assert_eq!(*told.lock().expect("no panic"), expected);
    }

    #[test]
    fn a_receiver_has_what_was_put_and_lacks_what_is_to_come() {
        let (updates, told) = heard();
        let progress = Progress::of_put(50, &updates, BTreeMap::from([("a".to_owned(), 50)]));
        let receiver = |done, is_live| ReceiverProgress {
            host: "a".to_owned(),
            is_live,
            done,
            total: 20,
            ..Default::default()
        };
        progress.updates(1).tell(Update::Receivers { receivers: vec![receiver(15, true)] });
        progress.end(1, 20);
        progress.updates(2).tell(Update::Receivers { receivers: vec![receiver(3, true)] });
        let Some(Update::Receivers { receivers }) = told.lock().expect("no panic").pop() else {
            panic!("nothing told");
        };
        assert_eq!((receivers[0].done, receivers[0].total, receivers.len()), (23, 50, 1));
    }
}
