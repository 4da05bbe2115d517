//! Requests as an onlooker sees them in mid-run.

use super::Driver;
use crate::adapter::Adapter;
use crate::record::FlowRecord;
use wellspring_core::SessionId;

impl<A: Adapter> Driver<A> {
    /// All requests made so far without the background, those that have ended first.
    pub(crate) fn requests(&self) -> impl Iterator<Item = &FlowRecord> {
        let open = self.operations.iter().map(|(_, operation)| operation);
        let open = open.filter(|operation| !operation.endless.is_background());
        self.records.iter().chain(open.map(|operation| &operation.record))
    }

    /// Source symbols of a block of a session under way; `None` if the protocol has no blocks.
    pub(crate) fn source_symbols(&self, session: SessionId, sbn: u32) -> Option<u32> {
        let leg = self.sessions.get(&session)?.leg;
        let symbols = self.adapter.block_symbols(leg.bytes, sbn);
        (symbols > 0).then_some(symbols)
    }
}
