//! MAC address table: the port behind which each station is.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A station that was silent for so long may have moved (IEEE 802.1D's default).
const AGE: Duration = Duration::from_secs(300);

type Address = [u8; 6];

/// The ports that stations were heard at, at most so many.
#[derive(Debug)]
pub(super) struct Addresses {
    ports: BTreeMap<Address, (usize, Instant)>,
    most: usize,
}

impl Addresses {
    pub(super) fn new(most: usize) -> Self {
        Addresses { ports: BTreeMap::new(), most }
    }

    /// Notes who sent a frame that came by a port. Beyond the bound no new station is learned before one is forgotten:
    /// what is for them goes everywhere.
    pub(super) fn learn(&mut self, frame: &[u8], port: usize, now: Instant) {
        let Some(&from) = frame.get(6..).and_then(|rest| rest.first_chunk()) else { return };
        if is_group(from) {
            return;
        }
        if self.ports.len() >= self.most && !self.ports.contains_key(&from) {
            self.ports.retain(|_, (_, heard)| now.saturating_duration_since(*heard) < AGE);
            if self.ports.len() >= self.most {
                return;
            }
        }
        self.ports.insert(from, (port, now));
    }

    /// The port of a frame's destination; none if it is for many stations or for an unknown one.
    pub(super) fn port_of(&self, frame: &[u8], now: Instant) -> Option<usize> {
        let (port, heard) = self.ports.get(frame.first_chunk::<6>()?)?;
        (now.saturating_duration_since(*heard) < AGE).then_some(*port)
    }
}

fn is_group(address: Address) -> bool {
    address[0] & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(to: u8, from: u8) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from];
        frame.extend([0; 48]);
        frame
    }

    #[test]
    fn stations_are_found_where_they_were_heard_last_and_forgotten() {
        let mut addresses = Addresses::new(2);
        let now = Instant::now();
        addresses.learn(&frame(9, 1), 3, now);
        assert_eq!(addresses.port_of(&frame(1, 9), now), Some(3));
        assert_eq!(addresses.port_of(&frame(2, 9), now), None);
        addresses.learn(&frame(9, 1), 4, now);
        assert_eq!(addresses.port_of(&frame(1, 9), now), Some(4));
        addresses.learn(&frame(9, 2), 0, now + AGE / 2);
        addresses.learn(&frame(9, 3), 0, now + AGE / 2);
        assert_eq!(addresses.port_of(&frame(3, 9), now + AGE / 2), None, "no room");
        assert_eq!(addresses.port_of(&frame(1, 9), now + AGE), None, "long ago");
        addresses.learn(&frame(9, 3), 5, now + AGE);
        assert_eq!(addresses.port_of(&frame(3, 9), now + AGE), Some(5));
    }

    #[test]
    fn groups_are_nowhere_and_short_frames_nobody() {
        let mut addresses = Addresses::new(8);
        let now = Instant::now();
        let mut forged = frame(1, 1);
        forged[6] = 3;
        addresses.learn(&forged, 1, now);
        addresses.learn(&[1; 11], 1, now);
        assert_eq!(addresses.port_of(&forged[6..], now), None);
        assert_eq!(addresses.port_of(&[2; 5], now), None);
    }
}
