//! Hosts: frames and timers go to the endpoint, which is drained and sends while a link is idle.

use super::state::{Host, NEVER, RareEvent, Simulator, TapPoint};
use crate::application::Application;
use wellspring_core::{Destination, Endpoint, HostId, Time, Verdict};
use wellspring_fabric::Handle;

/// How often a host whose links are all down, and who has something due, is asked: 1 ms \[ps\].
const OFFLINE_POLL: u64 = 1_000_000_000;

impl<E: Endpoint, A: Application<E>> Simulator<E, A> {
    pub(super) fn deliver(&mut self, host: u32, handle: Handle) {
        let now = Time::from_picos(self.now);
        let parcel = self.network.pool.remove(handle);
        let frame = self.network.frames.take(parcel);
        let len = (frame.payload_len.into(), frame.trimmed);
        self.network.counters.on_delivered(now, host, frame.session.0, len);
        if let Some(tap) = &mut self.tap {
            tap(now, TapPoint::Received(HostId(host)), &frame);
        }
        let verdict = self.hosts[host as usize].endpoint.handle_frame(now, &frame);
        match verdict {
            Verdict::Drop(_) => self.network.counters.refused += 1,
            Verdict::Keep(_) => self.application.on_kept(now, frame.session),
            Verdict::Consumed => {}
        }
        self.drain(host, false);
        self.act();
    }

    pub(super) fn wake(&mut self, host: u32) {
        let now = Time::from_picos(self.now);
        let endpoint = &mut self.hosts[host as usize].endpoint;
        if endpoint.poll_timeout().is_some_and(|due| now.has_reached(due)) {
            endpoint.handle_timeout(now);
        }
        self.drain(host, true);
        self.act();
    }

    /// Drains an endpoint after an input, in the order of its contract. `woken` says that the
    /// input was a call at its own deadline.
    #[inline]
    pub(super) fn drain(&mut self, index: u32, woken: bool) {
        let now = Time::from_picos(self.now);
        let id = HostId(index);
        while let Some(work) = self.hosts[index as usize].endpoint.poll_work() {
            if let Some((takes, done)) = self.application.on_work(now, id, work) {
                self.schedule(self.after(takes), RareEvent::Work(id, done));
            }
        }
        while let Some(event) = self.hosts[index as usize].endpoint.poll_event() {
            self.application.on_event(now, id, event, &mut self.actions);
        }
        let free = self.transmit(index);
        let host = &mut self.hosts[index as usize];
        let due = match host.endpoint.poll_timeout().map(Time::as_picos) {
            // Its time has come, and it has been called already: it waits for the interface.
            Some(due) if woken && due <= self.now => match free {
                NEVER => self.now + OFFLINE_POLL,
                free => free,
            },
            Some(due) => due.max(self.now),
            None => NEVER,
        };
        host.wake_at = due.min(free);
        host.expect(self.network.links.egresses.len() as u32 + index, &mut self.events);
    }

    /// A host's link that is idle, taking turns, among those that lead to `destination`; or when
    /// the first of them is, `NEVER` if none is up.
    #[inline]
    fn idle_nic(&self, host: &Host<E>, destination: Option<Destination>) -> Result<u32, u64> {
        let mut free = NEVER;
        for turn in 0..host.nics {
            let mut nic = host.next_nic + turn;
            if nic >= host.nics {
                nic -= host.nics;
            }
            let number = host.first_nic + nic;
            let egress = &self.network.links.egresses[number as usize];
            if !egress.is_up() || destination.is_some_and(|to| !self.network.leads(number, to)) {
                continue;
            }
            if egress.busy_until() <= self.now {
                return Ok(nic);
            }
            free = free.min(egress.busy_until());
        }
        Err(free)
    }

    /// Sends while an interface is idle; returns when one falls free, if there may be more to send.
    #[inline]
    fn transmit(&mut self, index: u32) -> u64 {
        let now = Time::from_picos(self.now);
        loop {
            let mut nic = match self.idle_nic(&self.hosts[index as usize], None) {
                Ok(nic) => nic,
                Err(free) => return free,
            };
            let host = &mut self.hosts[index as usize];
            let held = host.held.take().map(|frame| *frame);
            let Some(frame) = held.or_else(|| host.endpoint.poll_transmit(now)) else {
                return NEVER;
            };
            if host.nics > 1 {
                match self.idle_nic(&self.hosts[index as usize], Some(frame.destination)) {
                    Ok(leading) => nic = leading,
                    // No link leads there: the first switch counts it as unroutable.
                    Err(NEVER) => {}
                    Err(free) => {
                        self.hosts[index as usize].held = Some(Box::new(frame));
                        return free;
                    }
                }
            }
            let host = &mut self.hosts[index as usize];
            host.next_nic = if nic + 1 == host.nics { 0 } else { nic + 1 };
            let egress = host.first_nic + nic;
            if let Some(tap) = &mut self.tap {
                tap(now, TapPoint::Sent(HostId(index)), &frame);
            }
            let parcel = self.network.frames.insert(frame, self.wire);
            let counters = &mut self.network.counters;
            counters.peak_packets = counters.peak_packets.max(self.network.frames.live());
            self.network.send(self.now, (index, egress), parcel, &mut self.events);
        }
    }

    /// Does what the application asked for, which may make it ask for more.
    #[inline]
    pub(super) fn act(&mut self) {
        while !(self.actions.commands.is_empty() && self.actions.groups.is_empty()) {
            for (group, tree) in core::mem::take(&mut self.actions.groups) {
                match tree {
                    Some((source, members)) => {
                        let members = members.into_iter().map(|member| member.0).collect();
                        self.network.create_group(group.0, source.0, members);
                    }
                    None => self.network.remove_group(group.0),
                }
            }
            for (host, command) in core::mem::take(&mut self.actions.commands) {
                let now = Time::from_picos(self.now);
                let endpoint = &mut self.hosts[host.0 as usize].endpoint;
                if let Err(error) = endpoint.handle_command(now, command) {
                    self.application.on_refused(now, host, error);
                }
                self.drain(host.0, false);
            }
        }
        if let Some(at) = self.actions.alarm.take() {
            self.alarm_at = at.as_picos().max(self.now);
            self.schedule(self.alarm_at, RareEvent::Alarm);
        }
        self.stopped |= self.actions.stop;
    }
}
