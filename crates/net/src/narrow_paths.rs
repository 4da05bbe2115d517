//! Memory of paths that carry shorter datagrams than the systems at their ends know of.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::canonical;

/// Hosts whose paths are remembered, at most.
const MAX_KEPT: usize = 1_024;

/// UDP payloads that the paths to hosts carry, where less than the system says \[bytes\].
#[derive(Default)]
pub struct NarrowPaths(Mutex<BTreeMap<IpAddr, u16>>);

impl NarrowPaths {
    fn locked(&self) -> MutexGuard<'_, BTreeMap<IpAddr, u16>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the path to a host carries, if that is known to be less than the system says \[bytes\].
    pub fn of(&self, host: SocketAddr) -> Option<u16> {
        self.locked().get(&canonical(host).ip()).copied()
    }

    /// Remembers what the path to a host carries \[bytes\].
    pub fn note(&self, host: SocketAddr, payload: u16) {
        let mut all = self.locked();
        if all.len() == MAX_KEPT {
            // They are found again where they matter.
            all.clear();
        }
        all.insert(canonical(host).ip(), payload);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_remembered_by_host_and_within_a_bound() {
        let paths = NarrowPaths::default();
        let host = |number: u32| SocketAddr::from((number.to_be_bytes(), 4_711));
        paths.note(host(1), 1_232);
        let mapped = "[::ffff:0.0.0.1]:9".parse().expect("an address");
        assert_eq!((paths.of(mapped), paths.of(host(2))), (Some(1_232), None));
        (0..2 * MAX_KEPT as u32).for_each(|number| paths.note(host(number), 952));
        assert!(paths.locked().len() <= MAX_KEPT);
    }
}
