//! The receiver as a member of a group (SCDP §IV-D): credits let the group's
//! stream flow, whatever it brings next, and pulls announce what is wanted beyond.

use wellspring_core::{Time, Verdict};

use super::flow::{Flow, Liveness};
use super::stream::StreamPacket;
use super::{Arrival, Grant, Receiver};
use crate::scdp::Config;

impl Receiver {
    /// What a packet says of its group's stream.
    pub(super) fn follow_stream(&mut self, index: usize, arrival: &Arrival<'_>, verdict: Verdict) {
        let (flow, symbol) = (&self.flows[index], arrival.symbol);
        if !flow.group || symbol.epoch != flow.epoch {
            return;
        }
        self.blocks.stream_packet(StreamPacket {
            number: symbol.number,
            sbn: symbol.sbn,
            esi: symbol.esi,
            epoch: symbol.epoch,
            trimmed: arrival.trimmed,
            new: matches!(verdict, Verdict::Keep(_)),
        });
        self.resolve_stream(index);
    }

    pub(super) fn resolve_stream(&mut self, index: usize) {
        if self.flows[index].group {
            self.blocks.resolve_stream(self.flows[index].settled_below());
        }
    }

    /// Whether a group's sender is to be granted credits, or informed of what is wanted.
    pub(super) fn group_wants(&self, flow: &Flow) -> bool {
        let answers = matches!(flow.liveness, Liveness::Live | Liveness::Suspect);
        answers && (self.group_spare(flow) > 0 || self.blocks.has_unannounced())
    }

    /// Whether a group's sender was granted all that is to come.
    pub(super) fn wants_no_more(&self, index: usize) -> bool {
        self.group_spare(&self.flows[index]) == 0
    }

    /// Credits that may be granted to a group's sender: no more than symbols are still to come,
    /// so that it cannot run ahead of the blocks that may be open.
    fn group_spare(&self, flow: &Flow) -> u32 {
        let most = flow.in_flight() + flow.spare();
        self.blocks.outstanding(most).saturating_sub(flow.in_flight())
    }

    pub(super) fn next_group_pull(&mut self, now: Time, config: &Config) -> Option<Grant> {
        let index = self.flows.iter().position(|f| f.group && self.group_wants(f))?;
        let flow = &self.flows[index];
        let symbols = self.group_spare(flow).min(flow.run_limit());
        Some(self.group_pull(now, index, symbols, config))
    }

    pub(super) fn group_pull(
        &mut self,
        now: Time,
        index: usize,
        symbols: u32,
        config: &Config,
    ) -> Grant {
        let flow = &mut self.flows[index];
        let (sbn, wanted) = self.blocks.announce(flow.granted());
        flow.grant(now, (sbn, 0), symbols, false);
        flow.set_window_limited(flow.spare() == 0);
        flow.rearm(config);
        let mut grant = self.pull(now, index, sbn, symbols);
        grant.pull.run = wanted.min(u32::from(u16::MAX)) as u16;
        grant
    }
}
