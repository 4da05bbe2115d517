//! Space for objects that are offered: part files that nobody works on go for them.

use wellspring_core::SessionId;

use super::handler::{Handler, lock};

impl Handler {
    /// Whether part files went for an object that needs more than what is free. They go only if it is taken then: within
    /// its client's share, and within what all puts may have.
    pub(super) fn makes_room(&self, session: SessionId, needed: u64, free: u64) -> bool {
        let Ok(space) = self.store.space() else { return false };
        let for_share = lock(&self.puts).space_for(session, needed, self.config.client_share);
        if for_share > self.config.limits.total_len {
            return false;
        }
        // All of the directory is looked at.
        lock(&self.puts).note_search(session);
        let wanted = needed.saturating_sub(free).max(for_share.saturating_sub(space));
        let trimmed = self.store.trim_parts(&self.config.parts, wanted);
        trimmed.is_ok_and(|cleaned| cleaned.removed > 0)
    }
}
