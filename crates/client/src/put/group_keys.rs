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
/// Changes of one put, at most: more than it has members.
const MAX_CHANGES: u8 = 127;

/// The keys of one put's group.
pub(super) struct GroupKeys {
    handle: DriverHandle,
    requester: Requester,
    group: SocketAddr,
    session: SessionId,
    members: Vec<SocketAddr>,
    generation: u8,
    changes: JoinSet<()>,
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
        let changes = JoinSet::new();
        let mut keys =
            GroupKeys { handle, requester, group, session, members, generation: 0, changes };
        let key = keys.draw();
        let mut given = keys.give(&key, client.config.timeout);
        while let Some(given) = given.join_next().await {
            let Ok((member, Err(error))) = given else { continue };
            keys.members.retain(|known| *known != member);
            let of_member = |o: &&mut Offered| o.address == Some(member);
            for refused in offered.iter_mut().filter(of_member) {
                refused.accepted = false;
                refused.refused = Some(format!("has not taken the group's key: {error}"));
            }
        }
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
        let before = self.members.len();
        self.members.retain(|known| *known != member);
        if self.members.len() == before || self.members.is_empty() {
            return;
        }
        if self.generation == MAX_CHANGES {
            return;
        }
        self.generation += 1;
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
        GroupKey::new(secret, self.generation)
    }

    /// Gives a key to all members at once.
    fn give(
        &self,
        key: &GroupKey,
        timeout: Duration,
    ) -> JoinSet<(SocketAddr, Result<(), AskError>)> {
        let mut given = JoinSet::new();
        for member in self.members.iter().copied() {
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
