//! Payloads that the hosts of the virtual network keep, by their identities.

use std::collections::{BTreeMap, BTreeSet};

use wellspring_core::{HostId, Identity, RandomStream, SessionId, Work, WorkDone};

/// The payloads hosts keep, as identities; checks that none is kept twice.
#[derive(Debug, Default)]
pub struct Payloads {
    kept: BTreeMap<(HostId, SessionId, u32), BTreeSet<u32>>,
    finished: BTreeSet<(HostId, SessionId, u32)>,
    /// Sessions that payloads are kept of, each with one of its blocks.
    sessions: BTreeMap<(HostId, SessionId), u32>,
    /// How often a session's payloads were forgotten: the same number may begin again.
    lives: BTreeMap<(HostId, SessionId), u32>,
    /// How many more times blocks turn out to be wrong, as if a symbol had been altered.
    pub wrong: BTreeMap<(HostId, SessionId, u32), u32>,
    /// Distinct symbols kept, by host.
    pub symbols: BTreeMap<HostId, u64>,
}

impl Payloads {
    pub(crate) fn keep(&mut self, host: HostId, identity: Identity) {
        if let Identity::Symbol { session, sbn, esi } = identity {
            assert!(
                !self.finished.contains(&(host, session, sbn)),
                "a symbol was kept for a block already handed over: {identity:?}"
            );
            self.sessions.entry((host, session)).or_insert(sbn);
            let block = self.kept.entry((host, session, sbn)).or_default();
            assert!(block.insert(esi), "a symbol was kept twice: {identity:?}");
            *self.symbols.entry(host).or_default() += 1;
        }
    }

    /// Forgets what a host keeps of sessions that are over there, as its driver does: those of which it
    /// `knows` no block any more.
    pub(crate) fn forget_ended(&mut self, host: HostId, knows: impl Fn(SessionId, u32) -> bool) {
        let here = self.sessions.range((host, SessionId(0))..=(host, SessionId(u32::MAX)));
        let ended = here.filter(|((_, session), sbn)| !knows(*session, **sbn));
        for of in ended.map(|(of, _)| *of).collect::<Vec<_>>() {
            self.sessions.remove(&of);
            self.kept.retain(|(host, session, _), _| (*host, *session) != of);
            self.finished.retain(|(host, session, _)| (*host, *session) != of);
            *self.lives.entry(of).or_default() += 1;
        }
    }

    /// Which of the sessions of this number is kept: work on one is not another's.
    pub(crate) fn life(&self, host: HostId, session: SessionId) -> u32 {
        self.lives.get(&(host, session)).copied().unwrap_or_default()
    }

    /// Finishes a block: succeeds by RaptorQ's failure law (codec-independent: 1 in 160 at K
    /// symbols, 1 in 34,000 at K+1, 1 in 6 million at K+2).
    pub(crate) fn finish(
        &mut self,
        host: HostId,
        work: Work,
        source_symbols: u32,
        rng: &mut RandomStream,
    ) -> WorkDone {
        let Work::Finish { session, sbn, decode } = work;
        let block = self.kept.get(&(host, session, sbn)).expect("work on a block with symbols");
        let source = block.range(..source_symbols).count() as u32;
        if decode {
            assert!(block.len() as u32 >= source_symbols, "decoding with fewer than K symbols");
            let failure = match block.len() as u32 - source_symbols {
                0 => 6.3e-3,
                1 => 2.9e-5,
                _ => 1.6e-7,
            };
            if source < source_symbols && rng.chance(failure) {
                return WorkDone::NeedMore { session, sbn, more: 1 };
            }
        } else {
            assert_eq!(source, source_symbols, "not all source symbols are there");
        }
        if let Some(times) = self.wrong.get_mut(&(host, session, sbn)).filter(|times| **times > 0) {
            *times -= 1;
            return WorkDone::Wrong { session, sbn, more: 1 };
        }
        assert!(self.finished.insert((host, session, sbn)), "a block was handed over twice");
        WorkDone::Finished { session, sbn }
    }
}
