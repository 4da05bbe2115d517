//! Rare events: alarms of the application, finished work, failures and repairs.

use super::state::{NEVER, RareEvent, Simulator};
use crate::application::Application;
use crate::faults::Fault;
use crate::network::Network;
use crate::topology::NodeId;
use wellspring_core::{Endpoint, Time};

impl<E: Endpoint, A: Application<E>> Simulator<E, A> {
    /// The rare thing in that place happens now.
    pub(super) fn rare_event(&mut self, slot: u32) {
        self.free_rare_events.push(slot);
        let now = Time::from_picos(self.now);
        match self.rare_events[slot as usize] {
            RareEvent::Alarm => {
                if self.alarm_at == self.now {
                    self.alarm_at = NEVER;
                    self.application.on_alarm(now, &mut self.actions);
                    self.act();
                }
            }
            RareEvent::Work(host, done) => {
                self.hosts[host.0 as usize].endpoint.handle_work_done(now, done);
                self.drain(host.0, false);
                self.act();
            }
            RareEvent::Fault(fault) => {
                self.fail(fault);
                self.schedule(self.after(self.convergence), RareEvent::Reroute);
            }
            RareEvent::Reroute => {
                self.network.reroute();
                // Hosts whose link came back may have something to send.
                for host in 0..self.hosts.len() as u32 {
                    self.drain(host, false);
                }
                self.act();
            }
        }
    }

    fn fail(&mut self, fault: Fault) {
        let between = |network: &Network<E::Header>, a: NodeId, b: NodeId| {
            let mut links = network.links.between(a.0, b.0);
            links.extend(network.links.between(b.0, a.0));
            links
        };
        let around = |network: &Network<E::Header>, node: NodeId| -> Vec<u32> {
            let own = network.links.of(node.0);
            let towards = (0..network.links.egresses.len() as u32)
                .filter(|egress| network.links.egresses[*egress as usize].to == node.0);
            own.chain(towards).collect()
        };
        let (links, down) = match fault {
            Fault::LinkDown(a, b) => (between(&self.network, a, b), true),
            Fault::LinkUp(a, b) => (between(&self.network, a, b), false),
            Fault::NodeDown(node) => (around(&self.network, node), true),
            Fault::NodeUp(node) => (around(&self.network, node), false),
        };
        for egress in links {
            self.network.set_down(egress, down);
        }
    }
}
