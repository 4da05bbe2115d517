//! Blocks whose bytes are wrong, and senders that alter symbols.

use wellspring_core::{Ecn, Endpoint as _, HostId, SessionId};

use super::{Host, Runner, arrived_frame};
use crate::event::{Failure, SessionEvent};
use crate::payload::culprit::{Altered, Verdict};
use crate::payload::key::BlockKey;
use crate::protocol::Protocol;

/// A sender is excluded when it has altered more than one symbol, and more than one in so many:
/// damage on the way that checksums do not show is rarer.
const DAMAGED_ONE_IN: u64 = 10_000;

impl<P: Protocol> Runner<P> {
    /// A block was handed over of which some symbols had been altered.
    pub(super) fn on_altered(&mut self, host: &mut Host, id: SessionId, altered: &[Altered]) {
        for &(sender, symbols) in altered {
            self.accuse(host, id, sender, symbols, false);
        }
    }

    /// A block is wrong: the number of symbols that are wanted before the next attempt, unless the
    /// session is over.
    pub(super) fn on_wrong(
        &mut self,
        host: &mut Host,
        key: BlockKey,
        verdict: Verdict,
        k: u32,
    ) -> Option<u32> {
        let id = self.sessions.by_key(key.0)?.id;
        self.leave_group(host, id);
        let more = match verdict {
            Verdict::More(more) => more,
            Verdict::Blame(sender) => {
                self.accuse(host, id, sender, 2, true);
                // Others may make it right.
                k + 1
            }
            Verdict::Found(_) | Verdict::Hopeless => {
                self.fail(host, key, Failure::Altered);
                return None;
            }
        };
        self.sessions.by_key(key.0).filter(|session| !session.is_over()).map(|_| more)
    }

    /// A symbol is wrong: if members of a group could forge it, no more are taken from the group. The application asks
    /// the sender to go on by unicast, which no member can forge. Whether it was left.
    pub(super) fn leave_group(&mut self, host: &mut Host, id: SessionId) -> bool {
        let Some(session) = self.sessions.by_id(id) else { return false };
        let sender = session.peers.first().and_then(|peer| host.peers.peer(*peer));
        let sender = sender.map(|peer| peer.address);
        let leaves = sender.is_some_and(|sender| host.network.leave_group(sender, id));
        if leaves {
            session.left_group = true;
            session.report(SessionEvent::LeftGroup);
            host.counters.groups_left += 1;
        }
        leaves
    }

    /// Notes altered symbols of a sender, and excludes it if they are too many.
    fn accuse(&mut self, host: &mut Host, id: SessionId, sender: u8, symbols: u32, proven: bool) {
        let Some(session) = self.sessions.by_id(id) else { return };
        let index = usize::from(sender);
        let (Some(&peer), Some((kept, altered))) =
            (session.peers.get(index), session.kept.get_mut(index))
        else {
            return;
        };
        *altered += u64::from(symbols);
        let is_damage = *altered < 2 || *altered * DAMAGED_ONE_IN < *kept;
        // Where any member of the group could forge symbols, they accuse nobody.
        let excluded = proven || (!is_damage && !session.left_group);
        if let Some(address) = host.peers.peer(peer).map(|peer| peer.address) {
            session.report(SessionEvent::SymbolsAltered { sender: address, symbols, excluded });
        }
        if excluded {
            self.exclude(host, id, peer);
        }
    }

    /// Has a session take no more symbols from a peer.
    pub(super) fn exclude(&mut self, host: &mut Host, id: SessionId, peer: HostId) {
        let Some(session) = self.sessions.by_id(id) else { return };
        let index = session.peers.iter().position(|known| *known == peer);
        let Some(index) = index.and_then(|index| u8::try_from(index).ok()) else { return };
        if !session.suspects.contains(&index) {
            session.suspects.push(index);
        }
        let Some((instead, answer)) = P::exclude(&mut session.state, peer) else { return };
        let now = host.clock.now();
        // To the endpoint it is as if the sender had closed; the sender is told likewise.
        let frame = arrived_frame(peer, id, instead, 0, Ecn::NotCapable);
        self.endpoint.handle_frame(now, &frame);
        if let Some(peer) = host.peers.peer(peer) {
            self.send_header(host, id, answer, peer.into());
        }
        self.drain_events(host);
    }

    /// Checks the blocks again of which it could not be told whether they are right.
    pub(super) fn check_again(&mut self, host: &mut Host, id: SessionId) {
        let Some(session) = self.sessions.by_id(id) else { return };
        let key = session.key;
        for sbn in std::mem::take(&mut session.unchecked) {
            let mut missing = Vec::new();
            P::missing(&self.endpoint, id, sbn, &mut missing);
            let decode = !missing.is_empty();
            self.finish(host, (key, sbn), decode, missing, false);
        }
    }
}
