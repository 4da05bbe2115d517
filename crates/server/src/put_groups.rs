//! Multicast groups through which clients put objects.

use std::net::SocketAddr;

use wellspring_core::SessionId;
use wellspring_trust::GroupKey;
use wellspring_wire::control::{self, RefusalCode};

use super::answer::{Outcome, Owner, Refusal};
use super::handler::{Handler, lock};
use super::puts::Put;
use crate::driver::GroupKeyChange;

impl Handler {
    /// Whether the server joins a group for an object that is offered through it: any other host's datagrams to the group come
    /// here then.
    pub(super) fn check_group(&self, session: SessionId, group: SocketAddr) -> Result<(), Refusal> {
        let ranges = &self.config.groups;
        if !ranges.iter().any(|range| range.contains(group.ip())) {
            let shown: Vec<_> = ranges.iter().map(ToString::to_string).collect();
            let (ip, shown) = (group.ip(), shown.join(", "));
            let text = format!(
                "this server does not join {ip}: take a group of {shown}, or have its operator give --groups"
            );
            return Err(Refusal::new(RefusalCode::NotAllowed, text));
        }
        let limit = self.config.max_groups_an_address;
        match lock(&self.puts).groups_beside(session, group) < limit {
            true => Ok(()),
            false => {
                let text = format!("objects come through {limit} groups of that address already");
                Err(Refusal::new(RefusalCode::Busy, text))
            }
        }
    }

    /// Leaves the group through which an object was to come, and forgets its key.
    pub(super) fn leave(&self, group: Option<SocketAddr>, sender: SocketAddr, session: SessionId) {
        if let Some(group) = group {
            // Fails only when the driver has stopped, and with it all groups.
            let _ = self.handle.leave_group(group, sender);
            let _ = self.handle.group_key(sender, session, GroupKeyChange::Forget);
        }
    }

    /// Takes a key of the group through which an object comes, from the host that has offered it.
    pub(super) fn group_key(
        &self,
        owner: Owner,
        key: &control::GroupKey<'_>,
    ) -> Result<Outcome, Refusal> {
        let control::GroupKey { session, generation, suite, secret } = *key;
        let through_group = |put: &&mut Put| {
            put.owner() == owner && (put.group.is_some() || put.left_group) && !put.stage.is_over()
        };
        let unsupported = |text| Refusal::new(RefusalCode::Unsupported, text);
        if self.config.driver.keys.is_none() {
            return Err(unsupported("this host has no keys"));
        }
        // Held until the key is on its way, so that it is not forgotten before it comes.
        let mut puts = lock(&self.puts);
        match puts.get_mut(session).filter(through_group) {
            None => return Err(unsupported("no object is expected through that group")),
            // It was left before a key came; the client is told with the object's state.
            Some(put) if put.group.is_none() => return Ok(Outcome::Accepted),
            Some(_) => {}
        }
        let key = GroupKey::from_parts(*secret, generation, suite);
        let key = key.ok_or_else(|| unsupported("a cipher that is not known here"))?;
        let taken = self.handle.group_key(owner.client, session, GroupKeyChange::Receive(key));
        taken.map_err(Refusal::failed)?;
        Ok(Outcome::Accepted)
    }
}
