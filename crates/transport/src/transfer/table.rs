//! The transfers of one host: who takes part, whose turn it is to send, and what is due when.

use super::CommandError;
use crate::slots::Slots;
use alloc::collections::{BTreeMap, VecDeque};
use wellspring_core::{DropReason, HostId, SessionId, Time, TimerQueue};

/// The other host of a transfer, and the transfer's number between the two.
pub(crate) type Key = (HostId, SessionId);

/// A sender, and what the table has to know of it.
#[derive(Debug)]
struct Sending<S> {
    key: Key,
    /// Whether it waits for its turn.
    waits: bool,
    sender: S,
}

/// Whose deadline has come: a place in the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Due {
    /// A sender's.
    Sender(u32),
    /// A receiver's.
    Receiver(u32),
}

/// All senders and receivers of a host, in places that are used again.
#[derive(Debug)]
pub(crate) struct Table<S, R> {
    senders: Slots<Sending<S>>,
    receivers: Slots<(Key, R)>,
    /// Places of senders.
    by_session: BTreeMap<SessionId, u32>,
    /// Places of receivers.
    by_key: BTreeMap<Key, u32>,
    /// Senders that can send, taking turns. May name places that are empty by now.
    turns: VecDeque<u32>,
    /// Deadlines: owner 2n is sender n, 2n + 1 receiver n.
    timers: TimerQueue,
}

impl<S, R> Table<S, R> {
    /// No transfers.
    pub fn new() -> Self {
        Table {
            senders: Slots::new(),
            receivers: Slots::new(),
            by_session: BTreeMap::new(),
            by_key: BTreeMap::new(),
            turns: VecDeque::new(),
            timers: TimerQueue::new(),
        }
    }

    /// Transfers being sent and received, finished ones that are remembered included.
    pub fn len(&self) -> usize {
        self.by_session.len() + self.by_key.len()
    }

    /// Enters a sender: its place.
    ///
    /// # Errors
    /// A transfer of that number is being sent.
    pub fn open_sender(&mut self, key: Key, sender: S) -> Result<u32, CommandError> {
        if self.by_session.contains_key(&key.1) {
            return Err(CommandError::SessionInUse(key.1));
        }
        let place = self.senders.insert(Sending { key, waits: false, sender });
        self.by_session.insert(key.1, place);
        Ok(place)
    }

    /// The sender of a place.
    pub fn sender(&mut self, place: u32) -> Option<(Key, &mut S)> {
        self.senders.get(place).map(|sending| (sending.key, &mut sending.sender))
    }

    /// The sender to a host, and its place; or why there is none.
    pub fn sender_to(&mut self, key: Key) -> Result<(u32, &mut S), DropReason> {
        let place = *self.by_session.get(&key.1).ok_or(DropReason::UnknownSession)?;
        let sending = self.senders.get(place).filter(|sending| sending.key == key);
        sending.map(|sending| (place, &mut sending.sender)).ok_or(DropReason::UnknownPeer)
    }

    /// The sender of a transfer, and its place.
    ///
    /// # Errors
    /// There is none.
    pub fn sender_of(&mut self, session: SessionId) -> Result<(u32, &mut S), CommandError> {
        let unknown = CommandError::NoSuchSession(session);
        let place = *self.by_session.get(&session).ok_or(unknown)?;
        let sending = self.senders.get(place).ok_or(unknown)?;
        Ok((place, &mut sending.sender))
    }

    /// Sets when a sender is due.
    pub fn set_sender_due(&mut self, place: u32, at: Time) {
        self.timers.set(place * 2, Some(at));
    }

    /// Puts a sender in line to send, unless it waits already.
    pub fn give_turn(&mut self, place: u32) {
        if let Some(sending) = self.senders.get(place)
            && !sending.waits
        {
            sending.waits = true;
            self.turns.push_back(place);
        }
    }

    /// The sender whose turn it is: it is in line no more.
    pub fn next_turn(&mut self) -> Option<u32> {
        while let Some(place) = self.turns.pop_front() {
            if let Some(sending) = self.senders.get(place) {
                sending.waits = false;
                return Some(place);
            }
        }
        None
    }

    /// Removes a sender.
    pub fn close_sender(&mut self, place: u32) {
        self.timers.set(place * 2, None);
        if let Some(sending) = self.senders.remove(place) {
            self.by_session.remove(&sending.key.1);
        }
    }

    /// Removes the sender of a transfer; returns the receiver, which must learn that it ends early.
    ///
    /// # Errors
    /// There is none.
    pub fn cancel(&mut self, session: SessionId) -> Result<HostId, CommandError> {
        let unknown = CommandError::NoSuchSession(session);
        let place = *self.by_session.get(&session).ok_or(unknown)?;
        let (receiver, _) = self.sender(place).ok_or(unknown)?.0;
        self.close_sender(place);
        Ok(receiver)
    }

    /// The receiver from a host, its place, and whether it is new: where there is none, what `open`
    /// makes, and when that is first due; nothing where there are `most` already.
    pub fn receiver_or_open(
        &mut self,
        key: Key,
        most: u32,
        open: impl FnOnce() -> (R, Time),
    ) -> Option<(u32, bool, &mut R)> {
        let known = self.receiver_from(key);
        if known.is_none() && self.by_key.len() >= most as usize {
            return None;
        }
        let place = known.unwrap_or_else(|| {
            let (receiver, due) = open();
            let place = self.receivers.insert((key, receiver));
            self.by_key.insert(key, place);
            self.timers.set(place * 2 + 1, Some(due));
            place
        });
        let (_, receiver) = self.receivers.get(place)?;
        Some((place, known.is_none(), receiver))
    }

    /// The place of the receiver from a host.
    pub fn receiver_from(&self, key: Key) -> Option<u32> {
        self.by_key.get(&key).copied()
    }

    /// The receiver of a place.
    pub fn receiver(&mut self, place: u32) -> Option<(Key, &mut R)> {
        self.receivers.get(place).map(|(key, receiver)| (*key, receiver))
    }

    /// Sets when a receiver is due.
    pub fn set_receiver_due(&mut self, place: u32, at: Time) {
        self.timers.set(place * 2 + 1, Some(at));
    }

    /// Removes a receiver, and hands it back.
    pub fn close_receiver(&mut self, place: u32) -> Option<R> {
        self.timers.set(place * 2 + 1, None);
        let (key, receiver) = self.receivers.remove(place)?;
        self.by_key.remove(&key);
        Some(receiver)
    }

    /// Takes a deadline that has come.
    pub fn pop_due(&mut self, now: Time) -> Option<Due> {
        let owner = self.timers.pop_due(now)?;
        Some(if owner.is_multiple_of(2) {
            Due::Sender(owner / 2)
        } else {
            Due::Receiver(owner / 2)
        })
    }

    /// The next deadline.
    pub fn next_deadline(&self) -> Option<Time> {
        self.timers.next_deadline()
    }
}
