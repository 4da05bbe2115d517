//! Clients whose fetches ended a moment ago: who fetches a directory is about to begin the next.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Clients remembered, at most.
const MAX_RECENT: usize = 4_096;
/// How long they are.
const MOMENT: Duration = Duration::from_secs(1);

/// The clients, in the order in which their fetches ended.
#[derive(Debug, Default)]
pub(super) struct RecentClients(Mutex<VecDeque<(Instant, SocketAddr)>>);

impl RecentClients {
    pub(super) fn add(&self, client: SocketAddr) {
        let mut recent = self.lock();
        if recent.len() >= MAX_RECENT {
            recent.pop_front();
        }
        recent.push_back((crate::clock::now(), client));
    }

    pub(super) fn all(&self) -> Vec<SocketAddr> {
        let now = crate::clock::now();
        let is_recent = |at: Instant| now.saturating_duration_since(at) <= MOMENT;
        self.lock().iter().filter(|(at, _)| is_recent(*at)).map(|(_, client)| *client).collect()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(Instant, SocketAddr)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
