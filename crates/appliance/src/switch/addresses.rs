//! MAC address table: the port behind which each station of each VLAN is.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};

/// A station that was silent for so long may have moved (IEEE 802.1D's default).
const AGE: Duration = Duration::from_secs(300);
/// How exactly the time of a station's last frame is known: to write it down for each frame would lock the table.
const FRESH: Duration = Duration::from_secs(1);

/// A VLAN, and the address of a station in it, as one number: quick to compare.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Station(u64);

impl Station {
    /// The bit of an address that is for many stations.
    const GROUP: u64 = 1 << 40;

    fn new(vlan: u16, [a, b, c, d, e, f]: [u8; 6]) -> Self {
        let [high, low] = vlan.to_be_bytes();
        Station(u64::from_be_bytes([high, low, a, b, c, d, e, f]))
    }

    fn is_group(self) -> bool {
        self.0 & Self::GROUP != 0
    }
}

/// The ports that stations were heard at, at most so many. All threads of a switch share it.
#[derive(Debug)]
pub(super) struct Addresses {
    table: RwLock<Table>,
    most: usize,
}

#[derive(Debug)]
struct Table {
    ports: BTreeMap<Station, (usize, Instant)>,
    /// When silent stations were last forgotten.
    forgot: Option<Instant>,
}

impl Addresses {
    pub(super) fn new(most: usize) -> Self {
        Addresses { table: RwLock::new(Table { ports: BTreeMap::new(), forgot: None }), most }
    }

    /// Notes who sent a frame that came by a port, and finds the port of its destination; none if it is for many stations
    /// or for an unknown one. Beyond the bound no new station is learned before one is forgotten: what is for them
    /// goes everywhere.
    pub(super) fn pass(&self, vlan: u16, frame: &[u8], port: usize, now: Instant) -> Option<usize> {
        let (to, rest) = frame.split_first_chunk::<6>()?;
        let (to, from) = (Station::new(vlan, *to), Station::new(vlan, *rest.first_chunk::<6>()?));
        let (known, found) = {
            let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
            (table.ports.get(&from).copied(), table.ports.get(&to).copied())
        };
        let elapsed = |at| now.saturating_duration_since(at);
        let fresh = known.is_some_and(|(at, heard)| at == port && elapsed(heard) < FRESH);
        if !fresh && !from.is_group() {
            self.write(from, known.is_some(), port, now);
        }
        found.filter(|(_, heard)| elapsed(*heard) < AGE).map(|(port, _)| port)
    }

    fn write(&self, station: Station, known: bool, port: usize, now: Instant) {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        if !known && table.ports.len() >= self.most {
            // A flood of forged senders does not have the table searched for each of them.
            let soon = |at| now.saturating_duration_since(at) < FRESH;
            if table.forgot.is_some_and(soon) {
                return;
            }
            table.ports.retain(|_, (_, heard)| now.saturating_duration_since(*heard) < AGE);
            table.forgot = Some(now);
            if table.ports.len() >= self.most {
                return;
            }
        }
        table.ports.insert(station, (port, now));
    }

    /// Stations remembered.
    pub(super) fn len(&self) -> usize {
        self.table.read().unwrap_or_else(PoisonError::into_inner).ports.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(to: u8, from: u8) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from];
        frame.extend([0; 48]);
        frame
    }

    impl Addresses {
        fn learn(&self, vlan: u16, frame: &[u8], port: usize, now: Instant) {
            self.pass(vlan, frame, port, now);
        }

        /// The port of a frame's destination, asked by nobody who is remembered.
        fn port_of(&self, vlan: u16, frame: &[u8], now: Instant) -> Option<usize> {
            let mut frame = frame.to_vec();
            frame[6..12].fill(0xff);
            self.pass(vlan, &frame, 63, now)
        }
    }

    #[test]
    fn stations_are_found_where_they_were_heard_last_and_forgotten() {
        let addresses = Addresses::new(2);
        let now = Instant::now();
        addresses.learn(0, &frame(9, 1), 3, now);
        assert_eq!(addresses.port_of(0, &frame(1, 9), now), Some(3));
        assert_eq!(addresses.port_of(0, &frame(2, 9), now), None);
        addresses.learn(0, &frame(9, 1), 4, now);
        assert_eq!(addresses.port_of(0, &frame(1, 9), now), Some(4));
        addresses.learn(0, &frame(9, 2), 0, now + AGE / 2);
        addresses.learn(0, &frame(9, 3), 0, now + AGE / 2);
        assert_eq!(addresses.port_of(0, &frame(3, 9), now + AGE / 2), None, "no room");
        assert_eq!(addresses.port_of(0, &frame(1, 9), now + AGE), None, "long ago");
        addresses.learn(0, &frame(9, 3), 5, now + AGE);
        assert_eq!(addresses.port_of(0, &frame(3, 9), now + AGE), Some(5));
        assert_eq!(addresses.len(), 2);
    }

    #[test]
    fn a_station_that_speaks_is_not_forgotten() {
        let addresses = Addresses::new(2);
        let start = Instant::now();
        for second in 0..=400 {
            addresses.learn(0, &frame(9, 1), 3, start + Duration::from_secs(second));
        }
        let now = start + Duration::from_secs(600);
        assert_eq!(addresses.port_of(0, &frame(1, 9), now), Some(3));
    }

    #[test]
    fn a_station_has_a_port_in_each_vlan() {
        let addresses = Addresses::new(8);
        let now = Instant::now();
        addresses.learn(10, &frame(9, 1), 3, now);
        addresses.learn(20, &frame(9, 1), 4, now);
        let port_in = |vlan| addresses.port_of(vlan, &frame(1, 9), now);
        assert_eq!((port_in(10), port_in(20), port_in(30)), (Some(3), Some(4), None));
    }

    #[test]
    fn groups_are_nowhere_and_short_frames_nobody() {
        let addresses = Addresses::new(8);
        let now = Instant::now();
        let mut forged = frame(1, 1);
        forged[6] = 3;
        addresses.learn(0, &forged, 1, now);
        assert_eq!(addresses.port_of(0, &forged[6..], now), None);
        for len in 0..12 {
            assert_eq!(addresses.pass(0, &vec![2; len], 1, now), None);
        }
        assert_eq!(addresses.len(), 0);
    }
}
