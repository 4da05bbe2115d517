//! Replicas that join a fetch: asked to send, by further paths, and won back.

use std::sync::Arc;

use wellspring_transport::scdp::ObjectInfo;
use wellspring_wire::control::ResumeAt;

use super::{Joined, Run};
use crate::order::resume_point;
use crate::paths::Paths;
use crate::sink::Sink;
use crate::store::{PartFile, ScratchFile};

impl Run {
    /// Asks a replica to send its share.
    pub(super) fn start(&mut self, share: usize, resume: Option<ResumeAt>) {
        let index = self.shares[share];
        let replica = &self.replicas[index];
        let (Some(address), cookie) = (replica.address, replica.cookie) else { return };
        let order = self.order.clone();
        self.tasks.spawn(async move {
            Joined::Started(share, order.start(address, share as u8, cookie, resume).await)
        });
    }

    /// Begins to open the further paths to a sender that has agreed to send.
    pub(super) fn open_paths(&mut self, share: usize) {
        let replica = &self.replicas[self.shares[share]];
        if let Some(address) = replica.address {
            let session = self.order.session;
            let paths = Paths::open(&self.opener, session, address, &replica.further);
            self.paths.insert(share, paths);
        }
    }

    /// Tries to win a replica back, in that epoch.
    pub(super) fn win(&mut self, share: usize, epoch: u8) {
        let index = self.shares[share];
        let replica = &mut self.replicas[index];
        let Some(address) = replica.address.filter(|_| !replica.joining) else { return };
        replica.joining = true;
        let (order, object, open_blocks) = (self.order.clone(), self.object, self.open_blocks);
        let place = match &self.sink {
            Sink::File(part) => Place::File(Arc::clone(part)),
            Sink::Stream { scratch, .. } => Place::Scratch(Arc::clone(scratch)),
        };
        self.tasks.spawn(async move {
            let resume = || place.resume_point(&object, open_blocks);
            Joined::Won(share, epoch, order.win(address, share as u8, epoch, resume).await)
        });
    }
}

/// Where the bytes are, for a task that outlives a borrow.
enum Place {
    File(Arc<PartFile>),
    Scratch(Arc<ScratchFile>),
}

impl Place {
    fn resume_point(&self, object: &ObjectInfo, open_blocks: u32) -> Option<(u32, u32)> {
        let (contiguous, furthest) = match self {
            Place::File(part) => (*part.contiguous().borrow(), part.furthest()),
            Place::Scratch(scratch) => (*scratch.contiguous().borrow(), scratch.furthest()),
        };
        resume_point(object, contiguous, furthest, open_blocks)
    }
}
