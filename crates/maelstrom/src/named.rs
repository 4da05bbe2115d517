//! Table of the packets that repairs name and that had not arrived.

use wellspring_codec::interleave::PacketName;
use wellspring_core::Time;

use crate::identity::Volatile;

/// Places of a bucket.
const WAYS: usize = 4;

/// What is known of a packet from the repairs that name it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named {
    pub name: PacketName,
    pub number: u32,
    pub volatile: Volatile,
    /// When a repair first named it.
    pub at: Time,
    /// It may have passed unseen.
    pub doubtful: bool,
}

/// Packets by name, in buckets: newer ones take the place of older ones.
#[derive(Debug)]
pub(crate) struct NamedPackets {
    buckets: Vec<[Option<Named>; WAYS]>,
}

impl NamedPackets {
    /// A table that is sparse with so many packets.
    pub(crate) fn new(packets: usize) -> Self {
        let buckets = (packets / 2).max(1).next_power_of_two();
        NamedPackets { buckets: vec![[None; WAYS]; buckets] }
    }

    fn bucket(&self, name: PacketName) -> usize {
        name.0 as usize & (self.buckets.len() - 1)
    }

    pub(crate) fn get(&self, name: PacketName) -> Option<&Named> {
        let bucket = &self.buckets[self.bucket(name)];
        bucket.iter().flatten().find(|named| named.name == name)
    }

    /// A repair names a packet; the time at which the first did stays.
    pub(crate) fn insert(&mut self, mut named: Named) {
        if let Some(known) = self.take(named.name) {
            named.at = known.at;
        }
        let place = self.bucket(named.name);
        let bucket = &mut self.buckets[place];
        bucket.rotate_right(1);
        bucket[0] = Some(named);
    }

    /// The packet has come: what is known of it, if it was named.
    pub(crate) fn take(&mut self, name: PacketName) -> Option<Named> {
        let place = self.bucket(name);
        let bucket = &mut self.buckets[place];
        let way = bucket.iter().position(|named| named.is_some_and(|named| named.name == name))?;
        // Holes are at the end, where the next insertion falls out.
        let taken = bucket[way].take();
        bucket[way..].rotate_left(1);
        taken
    }
}
