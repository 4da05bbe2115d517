//! Channels and handshakes with one address.

use std::collections::VecDeque;
use std::sync::Arc;

use wellspring_core::{Duration, Time};

use crate::channel::{Channel, ChannelId, Via};
use crate::direction::{Closed, Plain, Shape, mark_of};
use crate::handshake::Initiator;
use crate::key::Fingerprint;
use crate::keyring::Identity;

/// Answered handshakes of one address that wait for their first datagram.
const MAX_PENDING: usize = 4;
/// Requests without any answer, and the time since the first of them, after which a channel counts as forgotten by its
/// other end. Several requests may be under way at one time, so their number alone says nothing.
const MAX_UNANSWERED: u32 = 2;
const FORGOTTEN: Duration = Duration::from_millis(300);
/// How long an address stays with the key that was last heard from it.
const HELD: Duration = Duration::from_secs(30);

/// A channel, and who is at its other end.
pub(crate) struct Established {
    pub channel: Channel,
    pub identity: Arc<Identity>,
}

/// A handshake that was answered: the initiator has the channel, if it is more than a replay.
pub(crate) struct Pending {
    pub established: Established,
    /// The initiator's ephemeral key, which distinguishes a repeated initiation from a new one.
    pub ephemeral: [u8; 32],
    pub response: Vec<u8>,
}

/// A handshake that was begun here.
pub(crate) struct Greeted {
    pub id: u64,
    pub began: Time,
    pub retries: u8,
    pub stage: Stage,
    /// The request that it carries.
    pub request: Vec<u8>,
    /// Requests to be sent when it is done.
    pub waiting: VecDeque<Vec<u8>>,
}

pub(crate) enum Stage {
    /// The server's key was asked for.
    Asking,
    /// Its owner is greeted.
    Initiated(Box<Initiator>, Arc<Identity>),
}

/// What came of a datagram.
pub(crate) enum Found {
    Plain(Plain, ChannelId),
    Replayed,
    /// Another key is in conversation from this address.
    Conflict,
    Forged,
}

/// What is known of an address.
#[derive(Default)]
pub(crate) struct Entry {
    current: Option<Established>,
    previous: Option<Established>,
    pub pending: VecDeque<Pending>,
    pub greeted: Option<Greeted>,
    heard: Option<Time>,
    /// Requests sent since something authentic was heard, and when the first of them was.
    unanswered: u32,
    asked: Option<Time>,
    /// Requests that waited for a handshake that is done, to be sent.
    pub waiting: VecDeque<Vec<u8>>,
    /// When it was last used, by the table's count.
    pub used: u64,
}

impl Entry {
    /// Opens a datagram by one of its channels, of the `holder` if there is one. The first one of a pending channel
    /// proves that the handshake was no replay. What was cut can be played again without end: it proves nothing, and is
    /// no sign that the other end is there.
    pub(crate) fn open(
        &mut self,
        (now, holder): (Time, Option<Fingerprint>),
        datagram: &[u8],
        shape: Shape,
        plain: &mut [u8],
    ) -> Found {
        let mark = mark_of(datagram, shape.clear);
        // Channels may have the same mark: what one has had under its number may be another's first.
        let mut replayed = false;
        let mut try_with = |established: &mut Established| {
            let is_others = holder.is_some_and(|key| key != established.identity.fingerprint);
            if is_others || mark.is_some_and(|mark| mark != established.channel.mark()) {
                return None;
            }
            let id = established.channel.id();
            let opened = established.channel.open(datagram, shape, plain);
            replayed |= matches!(opened, Err(Closed::Replayed));
            opened.ok().map(|plain| (plain, id))
        };
        let mut known = self.current.iter_mut().chain(&mut self.previous);
        let mut opened = known.find_map(&mut try_with);
        if opened.is_none() {
            let mut pending = self.pending.iter_mut().enumerate();
            let confirmed = pending.find_map(|(place, pending)| {
                let opened = try_with(&mut pending.established);
                let whole = opened.filter(|(plain, _)| matches!(plain, Plain::Whole(_)));
                whole.map(|opened| (place, opened))
            });
            if let Some((place, found)) = confirmed {
                opened = Some(found);
                if let Some(Pending { established, .. }) = self.pending.remove(place) {
                    if self.is_held_by_another(now, &established.identity) {
                        return Found::Conflict;
                    }
                    self.establish(established);
                }
            }
        }
        match opened {
            Some((plain, id)) => {
                if let Plain::Whole(_) = plain {
                    self.heard = Some(now);
                    (self.unanswered, self.asked) = (0, None);
                }
                Found::Plain(plain, id)
            }
            None if replayed => Found::Replayed,
            None => Found::Forged,
        }
    }

    /// From now on datagrams leave by this channel; those of the one before are still taken.
    pub(crate) fn establish(&mut self, established: Established) {
        self.previous = self.current.replace(established);
        (self.unanswered, self.asked) = (0, None);
    }

    /// A request is sent by a channel.
    pub(crate) fn asked(&mut self, now: Time) {
        self.unanswered += 1;
        self.asked.get_or_insert(now);
    }

    /// Whether requests went unanswered for so long that the other end seems to have lost its channels.
    pub(crate) fn is_forgotten(&self, now: Time) -> bool {
        let long_ago = self.asked.is_some_and(|asked| !(asked + FORGOTTEN).is_after(now));
        self.unanswered >= MAX_UNANSWERED && long_ago
    }

    /// Notes an answered handshake; of too many the oldest gives way.
    pub(crate) fn await_first(&mut self, pending: Pending) {
        if self.pending.len() == MAX_PENDING {
            self.pending.pop_front();
        }
        self.pending.push_back(pending);
    }

    /// Whether another key was in conversation from here a moment ago: its sessions are not to change hands.
    pub(crate) fn is_held_by_another(&self, now: Time, identity: &Identity) -> bool {
        let held = self.heard.is_some_and(|heard| (heard + HELD).is_after(now));
        held && self
            .current
            .as_ref()
            .is_some_and(|c| c.identity.fingerprint != identity.fingerprint)
    }

    /// The channel to send by.
    pub(crate) fn channel_to_use(&mut self, via: Via) -> Option<&mut Channel> {
        let pending = self.pending.iter_mut().rev().map(|pending| &mut pending.established);
        let mut all = self.current.iter_mut().chain(pending).chain(&mut self.previous);
        let found = match via {
            Via::Any => all.next(),
            Via::Channel(id) => all.find(|established| established.channel.id() == id),
            Via::Key(key) => all.find(|established| established.identity.fingerprint == key),
        };
        found.map(|established| &mut established.channel)
    }

    /// The key that is spoken with here, or that greeted last; `None` where this host asks and has no answer yet.
    pub(crate) fn owner(&self) -> Option<Fingerprint> {
        let pending = self.pending.back().map(|pending| &pending.established);
        let established = self.current.as_ref().or(pending)?;
        Some(established.identity.fingerprint)
    }

    /// Whether there is a channel whose other end has shown that it has it.
    pub(crate) fn is_established(&self) -> bool {
        self.current.is_some()
    }

    /// Has the owners of all channels be who `identify` says by their keys.
    pub(crate) fn identify(&mut self, identify: impl Fn(&Identity) -> Arc<Identity>) {
        let pending = self.pending.iter_mut().map(|pending| &mut pending.established);
        for established in self.current.iter_mut().chain(pending).chain(&mut self.previous) {
            established.identity = identify(&established.identity);
        }
    }

    /// Who is at the other end of a channel.
    pub(crate) fn identity(&self, via: ChannelId) -> Option<&Arc<Identity>> {
        let pending = self.pending.iter().map(|pending| &pending.established);
        let mut all = self.current.iter().chain(pending).chain(&self.previous);
        all.find(|established| established.channel.id() == via)
            .map(|established| &established.identity)
    }
}
