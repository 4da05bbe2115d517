//! Keys of multicast groups: one host sends, several open, and all of them hold the key.
//!
//! A key belongs to one sender and one session. It seals symbols of that session and nothing else, which the caller sees
//! to: pulls, closes and control messages go by the members' own channels. A member can forge symbols of the
//! session, so their bytes count only when the object's manifest, which came by a channel, says that they are right.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::SocketAddr;

use zeroize::Zeroizing;

use crate::direction::{Closed, Opener, Plain, Sealer, Shape, Suite, mark_of};

/// Groups that a host sends to, and sessions that it receives in, at most.
const MAX_GROUPS: usize = 1_024;
/// Generations that a member has at one time: the one in use, and those that the sender is about to use.
const MAX_GENERATIONS: usize = 4;
/// Set in the marks of groups' keys, and in no channel's.
const GROUP_MARK: u8 = 0x80;

/// A key by which one host seals the symbols of one session for a group. The members get it by their own channels.
#[derive(Clone)]
pub struct GroupKey {
    secret: Zeroizing<[u8; 32]>,
    suite: Suite,
    generation: u8,
}

impl GroupKey {
    /// A key of a generation: 0 at first, one more whenever a member is excluded. `secret` is random.
    pub fn new(secret: [u8; 32], generation: u8) -> Self {
        let suite = Suite::of_this_machine();
        GroupKey { secret: Zeroizing::new(secret), suite, generation }
    }

    /// The key that a sender's message holds; `None` if it names a cipher that is not known here.
    pub fn from_parts(secret: [u8; 32], generation: u8, suite: u8) -> Option<Self> {
        let suite = Suite::from_number(suite)?;
        Some(GroupKey { secret: Zeroizing::new(secret), suite, generation })
    }

    /// What a message to a member holds: secret, generation and number of the cipher.
    pub fn parts(&self) -> (&[u8; 32], u8, u8) {
        (&self.secret, self.generation, self.suite as u8)
    }

    fn secret(&self) -> [u8; 32] {
        blake3::derive_key("wellspring trust 1 group", &self.secret[..])
    }

    fn mark(&self) -> u8 {
        GROUP_MARK | self.generation
    }
}

impl fmt::Debug for GroupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GroupKey(generation {})", self.generation)
    }
}

/// What a host seals for groups, and opens of groups.
#[derive(Default)]
pub(crate) struct Groups {
    sends: BTreeMap<(SocketAddr, u32), (u8, Sealer)>,
    receives: BTreeMap<(SocketAddr, u32), VecDeque<(GroupKey, Opener)>>,
}

impl Groups {
    /// From now on this key seals a session's symbols for a group, unless a newer one does; false if there are too many.
    pub(crate) fn send(&mut self, group: SocketAddr, session: u32, key: &GroupKey) -> bool {
        let place = (group, session);
        match self.sends.get(&place) {
            Some((generation, _)) if *generation >= key.generation => return true,
            None if self.sends.len() >= MAX_GROUPS => return false,
            _ => {}
        }
        let secret = Zeroizing::new(key.secret());
        self.sends.insert(place, (key.generation, Sealer::new(key.suite, &secret, key.mark())));
        true
    }

    /// From now on this key opens symbols of a session, beside those that are known already; false if there are
    /// too many.
    pub(crate) fn receive(&mut self, sender: SocketAddr, session: u32, key: GroupKey) -> bool {
        let place = (sender, session);
        if !self.receives.contains_key(&place) && self.receives.len() >= MAX_GROUPS {
            return false;
        }
        let known = self.receives.entry(place).or_default();
        let newest = known.back().map(|(known, _)| known.generation);
        if newest.is_some_and(|newest| newest >= key.generation) {
            return true;
        }
        if known.len() == MAX_GENERATIONS {
            known.pop_front();
        }
        let secret = Zeroizing::new(key.secret());
        let opener = Opener::new(key.suite, &secret);
        known.push_back((key, opener));
        true
    }

    /// Whether a session's symbols are opened here by keys of a group.
    pub(crate) fn receives(&self, sender: SocketAddr, session: u32) -> bool {
        !self.receives.is_empty() && self.receives.contains_key(&(sender, session))
    }

    /// Forgets the keys of a session: `address` is the group's where this host sends, or else the sender's.
    pub(crate) fn forget(&mut self, address: SocketAddr, session: u32) {
        self.sends.remove(&(address, session));
        self.receives.remove(&(address, session));
    }

    /// Seals a symbol as [`Channel::seal`](crate::Channel::seal) does.
    pub(crate) fn seal(
        &mut self,
        (group, session): (SocketAddr, u32),
        room: &mut [u8],
        len: usize,
        clear: usize,
    ) -> Option<usize> {
        self.sends.get_mut(&(group, session))?.1.seal(room, len, clear)
    }

    /// Opens a symbol, whole or trimmed. `None` if it does not claim to be sealed by a group's key.
    pub(crate) fn open(
        &mut self,
        (sender, session): (SocketAddr, u32),
        datagram: &[u8],
        shape: Shape,
        plain: &mut [u8],
    ) -> Option<Result<Plain, Closed>> {
        let mark = mark_of(datagram, shape.clear);
        if mark.is_some_and(|mark| mark & GROUP_MARK == 0) {
            return None;
        }
        let known = self.receives.get_mut(&(sender, session))?;
        let mut outcome = Err(Closed::Forged);
        for place in 0..known.len() {
            let (key, opener) = &mut known[place];
            if mark.is_some_and(|mark| mark != key.mark()) {
                continue;
            }
            outcome = opener.open(datagram, shape, plain);
            if let Ok(Plain::Whole(_)) = outcome {
                // The sender has changed to it: what an excluded member might still seal is not taken any more.
                known.drain(..place);
            }
            if !matches!(outcome, Err(Closed::Forged)) {
                return Some(outcome);
            }
        }
        // A header without its mark may be of the member's own channel.
        mark.map(|_| outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::direction::MAX_OVERHEAD;

    const SHAPE: Shape = Shape { clear: 24, len: 124 };
    const SESSION: u32 = 7;

    fn at(port: u16) -> SocketAddr {
        ([239, 255, 0, 1], port).into()
    }

    fn seal(groups: &mut Groups, byte: u8) -> Option<Vec<u8>> {
        let mut room = vec![byte; SHAPE.len + MAX_OVERHEAD];
        let len = groups.seal((at(1), SESSION), &mut room, SHAPE.len, SHAPE.clear)?;
        room.truncate(len);
        Some(room)
    }

    fn open(groups: &mut Groups, datagram: &[u8]) -> Option<Result<Plain, Closed>> {
        groups.open((at(2), SESSION), datagram, SHAPE, &mut [0; 200])
    }

    fn key(generation: u8) -> GroupKey {
        GroupKey::new([generation + 1; 32], generation)
    }

    const WHOLE: Option<Result<Plain, Closed>> = Some(Ok(Plain::Whole(SHAPE.len)));
    const FORGED: Option<Result<Plain, Closed>> = Some(Err(Closed::Forged));

    #[test]
    fn members_open_what_the_sender_seals_once_each_and_strangers_do_not() {
        let (mut sender, mut a, mut b) = (Groups::default(), Groups::default(), Groups::default());
        assert!(seal(&mut sender, 1).is_none(), "no key yet");
        assert!(sender.send(at(1), SESSION, &key(0)));
        for member in [&mut a, &mut b] {
            assert!(member.receive(at(2), SESSION, key(0)));
        }
        let sealed = seal(&mut sender, 5).expect("a key");
        assert!(sealed[40..].windows(8).all(|w| w != [5; 8]), "encrypted");
        assert_eq!(open(&mut a, &sealed), WHOLE);
        assert_eq!(open(&mut b, &sealed), WHOLE);
        assert_eq!(open(&mut a, &sealed), Some(Err(Closed::Replayed)));
        let mut stranger = Groups::default();
        stranger.receive(at(2), SESSION, GroupKey::new([9; 32], 0));
        assert_eq!(open(&mut stranger, &sealed), FORGED);
        let of =
            |from, session, a: &mut Groups| a.open((from, session), &sealed, SHAPE, &mut [0; 200]);
        assert_eq!(of(at(3), SESSION, &mut b), None, "another sender's");
        assert_eq!(of(at(2), SESSION + 1, &mut b), None, "another session's");
        assert_eq!(open(&mut a, &sealed[..40]), Some(Ok(Plain::Header(24))), "trimmed");
        assert_eq!(open(&mut a, &sealed[..32]), Some(Ok(Plain::Header(24))), "before its mark");
        let mut forged = sealed[..32].to_vec();
        forged[9] ^= 1;
        assert_eq!(open(&mut a, &forged), None, "may be of a channel, whose tag it has not");
        a.forget(at(2), SESSION);
        assert_eq!(open(&mut a, &sealed), None);
    }

    #[test]
    fn an_excluded_member_opens_nothing_that_is_sealed_after_the_change_and_seals_nothing_that_counts()
     {
        let (mut sender, mut stays, mut excluded) =
            (Groups::default(), Groups::default(), Groups::default());
        sender.send(at(1), SESSION, &key(0));
        stays.receive(at(2), SESSION, key(0));
        excluded.receive(at(2), SESSION, key(0));
        let before = seal(&mut sender, 1).expect("a key");
        stays.receive(at(2), SESSION, key(1));
        assert_eq!(open(&mut stays, &before), WHOLE, "still in use");
        // The excluded member has the old key.
        let mut forger = Groups::default();
        forger.send(at(1), SESSION, &key(0));
        for _ in 0..5 {
            seal(&mut forger, 0);
        }
        let forged = [seal(&mut forger, 3).expect("a key"), seal(&mut forger, 3).expect("a key")];
        assert_eq!(open(&mut stays, &forged[0]), WHOLE, "as a member it could");
        sender.send(at(1), SESSION, &key(1));
        sender.send(at(1), SESSION, &key(0));
        let after = seal(&mut sender, 2).expect("a key");
        assert_eq!(open(&mut stays, &after), WHOLE);
        assert_eq!(open(&mut excluded, &after), FORGED);
        assert_eq!(open(&mut stays, &forged[1]), FORGED, "and now not any more");
    }

    #[test]
    fn the_tables_are_bounded() {
        let mut groups = Groups::default();
        for session in 0..2 * MAX_GROUPS as u32 {
            let room = session < MAX_GROUPS as u32;
            assert_eq!(groups.send(at(1), session, &key(0)), room);
            assert_eq!(groups.receive(at(2), session, key(0)), room);
        }
        for generation in 0..100 {
            assert!(groups.receive(at(2), 0, key(generation)));
        }
        assert_eq!(groups.receives[&(at(2), 0)].len(), MAX_GENERATIONS);
    }
}
