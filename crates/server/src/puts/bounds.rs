//! Bounds on what one client, or one object that hardly comes, has of what a server can take.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use wellspring_core::SessionId;
use wellspring_trust::Fingerprint;
use wellspring_wire::control::RefusalCode;

use super::super::address_limit::source_of;
use super::super::answer::Refusal;
use super::{Put, Puts, Stage};

/// Silence in a group after which it is left.
pub(super) const GROUP_SILENCE: Duration = Duration::from_secs(10);

/// How long an object keeps its place, however little of it comes.
pub(super) const YOUNG: Duration = Duration::from_secs(20);

/// An object that comes more slowly since it was offered gives its place to one that finds none \[bytes/s\].
const LEAST_PACE: u64 = 16 << 10;

impl Put {
    /// Space that is held for it and not written to yet \[bytes\].
    fn unwritten(&self) -> u64 {
        match &self.stage {
            Stage::Opening | Stage::Checking(_) => self.reserved,
            Stage::Receiving(_, progress) => {
                self.reserved.min(self.size.saturating_sub(progress.bytes_done()))
            }
            _ => 0,
        }
    }

    /// Whose space it is held in: a key's, or where there are none an address's.
    fn holder(&self) -> (Option<Fingerprint>, Option<IpAddr>) {
        (self.key, self.key.is_none().then(|| source_of(self.client)))
    }

    /// What of it has come in a second since it was offered, unless that was a moment ago \[bytes/s\].
    fn average(&self, now: Instant) -> Option<u64> {
        let Stage::Receiving(_, progress) = &self.stage else { return None };
        let age = now.saturating_duration_since(self.began);
        let came = progress.arrived() * u64::from(self.symbol_size);
        (age >= YOUNG).then(|| came / age.as_secs().max(1))
    }
}

impl Puts {
    /// Whether one is given up already, and will be over.
    pub(in super::super) fn has_given_up(&self) -> bool {
        self.all.values().any(|put| put.given_up.is_some() && !put.is_over())
    }

    /// The groups through which nothing has come of objects that were to come so: they are to be left. Each with its client and
    /// session, which goes on by unicast.
    pub(in super::super) fn unheard_groups(
        &mut self,
        now: Instant,
    ) -> Vec<(SocketAddr, SocketAddr, SessionId)> {
        let unheard = |(session, put): (&SessionId, &mut Put)| {
            let Stage::Receiving(_, progress) = &put.stage else { return None };
            put.group.filter(|_| progress.arrived() == 0)?;
            let since = *put.joined.get_or_insert(now);
            if now.saturating_duration_since(since) < GROUP_SILENCE {
                return None;
            }
            put.left_group = true;
            put.group.take().map(|group| (group, put.client, *session))
        };
        self.all.iter_mut().filter_map(unheard).collect()
    }

    /// Groups beside that one through which objects of the same address come.
    pub(in super::super) fn groups_beside(&self, session: SessionId, group: SocketAddr) -> usize {
        let Some(own) = self.all.get(&session) else { return 0 };
        let source = source_of(own.client);
        let is_like = |put: &&Put| source_of(put.client) == source && !put.is_over();
        let groups = self.all.values().filter(is_like).filter_map(|put| put.group);
        groups.filter(|of| *of != group).collect::<BTreeSet<_>>().len()
    }

    /// Which object is to be given up for one that finds no place: that of which least has come, if it is little.
    pub(in super::super) fn least(&self, now: Instant) -> Option<SessionId> {
        let pace = |(session, put): (&SessionId, &Put)| Some((put.average(now)?, *session));
        let least = self.all.iter().filter_map(pace).min();
        least.filter(|(pace, _)| *pace < LEAST_PACE).map(|(_, session)| session)
    }

    /// Space that is held and not written to yet, for other objects of the same client and for those of others \[bytes\].
    fn unwritten_beside(&self, session: SessionId) -> Option<(u64, u64)> {
        let holder = self.all.get(&session).map(Put::holder)?;
        let (mut own, mut others) = (0_u64, 0_u64);
        for (_, put) in self.all.iter().filter(|(of, _)| **of != session) {
            let sum = if put.holder() == holder { &mut own } else { &mut others };
            *sum = sum.saturating_add(put.unwritten());
        }
        Some((own, others))
    }

    /// The space for all at which an object can be [claimed](Self::claim), at least \[bytes\].
    pub(in super::super) fn space_for(
        &self,
        session: SessionId,
        reserved: u64,
        percent: u8,
    ) -> u64 {
        let (own, others) = self.unwritten_beside(session).unwrap_or_default();
        let share = (u128::from(own) + u128::from(reserved)) * 100;
        let space = share.div_ceil(u128::from(percent.max(1))) + u128::from(others);
        u64::try_from(space).unwrap_or(u64::MAX)
    }

    /// Notes the space that is held for an object, of `space` for all; `percent` of what others leave are for one client.
    ///
    /// # Errors
    /// Its client would have more.
    pub(in super::super) fn claim(
        &mut self,
        session: SessionId,
        reserved: u64,
        (space, percent): (u64, u8),
    ) -> Result<(), Refusal> {
        let Some((own, others)) = self.unwritten_beside(session) else { return Ok(()) };
        let share = u128::from(space.saturating_sub(others)) * u128::from(percent) / 100;
        if reserved > 0 && u128::from(own) + u128::from(reserved) > share {
            let text = format!(
                "one client may have {share} bytes reserved ({percent} % of what is free), has {own} and wants {reserved} more; \
                 let its other puts end, or the server's operator give --client-share"
            );
            return Err(Refusal::new(RefusalCode::NoSpace, text));
        }
        if let Some(put) = self.all.get_mut(&session) {
            put.reserved = reserved;
        }
        Ok(())
    }
}
