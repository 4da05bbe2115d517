//! Keys of a group: each member gets them by its own channel, and they change when one is excluded.

use std::net::SocketAddr;
use std::time::Duration;

use crate::task::JoinSet;
use wellspring_core::SessionId;
use wellspring_trust::GroupKey;
use wellspring_wire::control::{self, Cookie, Request};

use super::super::requester::{Answer, AskError, Requester};
use super::super::{Client, HostError, PutError};
use super::offers::Offered;
use crate::driver::GroupKeyChange;
use crate::protocols::DriverHandle;

/// How long members may take to take a new key; whoever has not is deaf to the group then, and is served by unicast.
const CHANGE: Duration = Duration::from_secs(2);
/// The last key of one put: a datagram says in seven bits by which it is sealed.
const LAST_GENERATION: u8 = 127;

/// The keys of one put's group.
pub(super) struct GroupKeys {
    handle: DriverHandle,
    requester: Requester,
    group: SocketAddr,
    session: SessionId,
    holders: Holders,
    changes: JoinSet<()>,
}

/// Who holds the keys.
struct Holders {
    members: Vec<SocketAddr>,
    generation: u8,
}

/// How members that are excluded are kept from reading more.
#[derive(PartialEq, Eq, Debug)]
enum Change {
    /// There is nobody else to send to, or they were no members.
    None,
    /// The others get a new key.
    NewKey,
    /// There is no further key: these others are sent to alone, and nobody by the group.
    Alone(Vec<SocketAddr>),
}

impl Holders {
    fn exclude(&mut self, excluded: &[SocketAddr]) -> Change {
        let before = self.members.len();
        self.members.retain(|known| !excluded.contains(known));
        if self.members.len() == before || self.members.is_empty() {
            return Change::None;
        }
        if self.generation == LAST_GENERATION {
            return Change::Alone(std::mem::take(&mut self.members));
        }
        self.generation += 1;
        Change::NewKey
    }
}

impl Drop for GroupKeys {
    fn drop(&mut self) {
        // A driver that has stopped has no keys.
        let _ = self.handle.group_key(self.group, self.session, GroupKeyChange::Forget);
    }
}

impl GroupKeys {
    /// Draws a key, and gives it to all who have accepted the offer and need the object. Who does not take it counts as
    /// not having accepted.
    ///
    /// # Errors
    /// [`PutError::NotAccepted`] if fewer than `needed` are left.
    pub(super) async fn begin(
        client: &Client,
        group: SocketAddr,
        offered: &mut [Offered],
        needed: usize,
    ) -> Result<Option<GroupKeys>, PutError> {
        let wants = |o: &&Offered| o.accepted && !o.complete;
        let Some(session) = offered.iter().find(wants).map(|o| o.session) else { return Ok(None) };
        let members = offered.iter().filter(wants).filter_map(|o| o.address).collect();
        let (handle, requester) = (client.driver.handle(), client.requester.clone());
        let holders = Holders { members, generation: 0 };
        let changes = JoinSet::new();
        let mut keys = GroupKeys { handle, requester, group, session, holders, changes };
        // Those who have it wait for symbols meanwhile, and no longer than the client's timeout.
        let mut patience = client.config.timeout / 2;
        let key = loop {
            let key = keys.draw();
            let mut given = keys.give(&key, patience);
            patience = CHANGE.min(client.config.timeout / 4);
            let mut deaf = Vec::new();
            while let Some(given) = given.join_next().await {
                let Ok((member, Err(error))) = given else { continue };
                refuse(offered, member, &format!("has not taken the group's key: {error}"));
                deaf.push(member);
            }
            // It may have the key, if only its answer was lost.
            match keys.holders.exclude(&deaf) {
                Change::None => break key,
                Change::NewKey => {}
                Change::Alone(others) => {
                    let reason = "too many others have not taken the group's key; put again";
                    others.iter().for_each(|other| refuse(offered, *other, reason));
                    break key;
                }
            }
        };
        // Others may still be verifying what they have.
        let hopeful = |o: &&Offered| o.accepted || (o.refused.is_none() && o.address.is_some());
        if offered.iter().filter(hopeful).count() < needed {
            let refused = |o: &Offered| {
                let (host, reason) = (o.host.clone(), o.refused.clone()?);
                Some(HostError { host, reason, trouble: o.trouble })
            };
            let hosts = offered.iter().filter_map(refused).collect();
            return Err(PutError::NotAccepted { needed, hosts });
        }
        keys.handle.group_key(group, session, GroupKeyChange::Send(key))?;
        Ok(Some(keys))
    }

    /// Has the group go on under a new key, which this member does not get.
    pub(super) fn exclude(&mut self, member: SocketAddr) {
        match self.holders.exclude(&[member]) {
            Change::None => {}
            Change::NewKey => self.change(),
            Change::Alone(others) => {
                for other in others {
                    // A driver that has stopped has ended its sessions.
                    let _ = self.handle.detach(self.session, other);
                }
            }
        }
    }

    fn change(&mut self) {
        let key = self.draw();
        let mut given = self.give(&key, CHANGE);
        let (handle, group, session) = (self.handle.clone(), self.group, self.session);
        self.changes.spawn(async move {
            while given.join_next().await.is_some() {}
            // The driver may have stopped meanwhile.
            let _ = handle.group_key(group, session, GroupKeyChange::Send(key));
        });
    }

    fn draw(&self) -> GroupKey {
        let mut secret = [0; 32];
        crate::random::fill(&mut secret);
        GroupKey::new(secret, self.holders.generation)
    }

    /// Gives a key to all members at once.
    fn give(
        &self,
        key: &GroupKey,
        timeout: Duration,
    ) -> JoinSet<(SocketAddr, Result<(), AskError>)> {
        let mut given = JoinSet::new();
        for member in self.holders.members.iter().copied() {
            let (requester, key, session) = (self.requester.clone(), key.clone(), self.session);
            given.spawn(async move {
                let (secret, generation, suite) = key.parts();
                let key = control::GroupKey { session, generation, suite, secret };
                let request = Request::GroupKey(key);
                let asked =
                    requester.ask(member, &request, Cookie::NONE, timeout, &|_, _| {}).await;
                let taken = match asked {
                    Ok(Answer::Accepted) => Ok(()),
                    Ok(_) => Err(AskError::Nonsense),
                    Err(error) => Err(error),
                };
                (member, taken)
            });
        }
        given
    }
}

/// Counts a host as not having accepted.
fn refuse(offered: &mut [Offered], member: SocketAddr, reason: &str) {
    for refused in offered.iter_mut().filter(|o| o.address == Some(member)) {
        refused.accepted = false;
        refused.refused = Some(reason.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_excluded_gets_none_of_what_the_others_get() {
        let members: Vec<SocketAddr> =
            (1..=200).map(|port| ([192, 0, 2, 1], port).into()).collect();
        let mut holders = Holders { members: members.clone(), generation: 0 };
        assert_eq!(holders.exclude(&[([192, 0, 2, 2], 1).into()]), Change::None);
        for (index, excluded) in members.iter().take(127).enumerate() {
            assert_eq!(holders.exclude(&[*excluded]), Change::NewKey);
            assert_eq!(usize::from(holders.generation), index + 1);
        }
        let others = members[128..].to_vec();
        assert_eq!(holders.exclude(&[members[127]]), Change::Alone(others));
        assert_eq!(holders.exclude(&[members[128]]), Change::None, "the group has no member");
        assert_eq!(holders.generation, LAST_GENERATION);
    }

    #[test]
    fn the_last_member_needs_no_new_key() {
        let members: Vec<SocketAddr> = (1..=3).map(|port| ([192, 0, 2, 1], port).into()).collect();
        let mut holders = Holders { members: members.clone(), generation: 0 };
        assert_eq!(holders.exclude(&members[..2]), Change::NewKey);
        assert_eq!(holders.exclude(&members[2..]), Change::None);
        assert_eq!(holders.generation, 1);
    }
}
