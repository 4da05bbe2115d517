//! Packets on links, as an onlooker sees them between two steps of a run.

use super::state::Simulator;
use crate::application::Application;
use crate::topology::EgressId;
use wellspring_core::{Endpoint, Frame};

/// A packet on a link: it is being sent, or on its way.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct OnLink<H> {
    /// The frame as it is now: trimmed or marked, if a switch did so.
    pub frame: Frame<H>,
    /// The part of its time on the link that is over, from the start of its transmission to its
    /// arrival: 0 to 1.
    pub share: f32,
}

impl<E: Endpoint, A: Application<E>> Simulator<E, A> {
    /// Shows every packet on a port's link, the one that arrives next first. Looking does not change
    /// the run.
    pub fn on_link(&mut self, port: EgressId, mut see: impl FnMut(OnLink<E::Header>)) {
        self.network.catch_up(self.now, port.0);
        for (frame, share) in self.network.on_link(self.now, port.0) {
            see(OnLink { frame, share });
        }
    }

    /// Whether a port's link is up.
    pub fn is_up(&self, port: EgressId) -> bool {
        self.network.links.egresses[port.0 as usize].is_up()
    }
}
