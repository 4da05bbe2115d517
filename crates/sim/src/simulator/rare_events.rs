//! Rare events: alarms of the application, finished work, failures and repairs.

use super::state::{NEVER, RareEvent, Simulator};
use crate::application::Application;
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
                self.network.apply(fault);
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
}
