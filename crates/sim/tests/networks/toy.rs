//! A protocol without rules: sends what it is asked to, counts what comes.

use std::collections::VecDeque;
use wellspring_core::{
    Destination, Ecn, Endpoint, Frame, GroupId, Header, HostId, SessionId, Time, Verdict, Work,
    WorkDone,
};
use wellspring_fabric::PortConfig;
use wellspring_sim::{Actions, Application, Config, Simulator, topology::Graph};

#[derive(Clone, Copy, Debug)]
pub struct ToyHeader;

impl Header for ToyHeader {
    fn wire_len(&self) -> u16 {
        44
    }
}

/// `count` packets of 1,500 bytes on the wire from one host to another or a group, at a time.
#[derive(Clone, Copy, Debug)]
pub struct Blast {
    pub at: Time,
    pub from: HostId,
    pub to: Destination,
    pub session: u32,
    pub count: u32,
}

pub fn blast(at: u64, from: u32, to: u32, count: u32) -> Blast {
    let (at, to) = (Time::from_picos(at), Destination::Host(HostId(to)));
    Blast { at, from: HostId(from), to, session: from, count }
}

#[derive(Debug)]
pub struct Arrival {
    pub at: Time,
    pub host: HostId,
    pub session: u32,
    pub trimmed: bool,
}

pub struct Toy {
    host: HostId,
    queue: VecDeque<Blast>,
    events: VecDeque<(u32, bool)>,
    label: u16,
}

impl Endpoint for Toy {
    type Header = ToyHeader;
    type Command = Blast;
    type Event = (u32, bool);
    type CommandError = ();

    fn handle_command(&mut self, _now: Time, command: Blast) -> Result<(), ()> {
        self.queue.push_back(command);
        Ok(())
    }
    fn handle_frame(&mut self, _now: Time, frame: &Frame<ToyHeader>) -> Verdict {
        self.events.push_back((frame.session.0, frame.trimmed));
        Verdict::Consumed
    }
    fn handle_timeout(&mut self, _now: Time) {}
    fn handle_work_done(&mut self, _now: Time, _done: WorkDone) {}
    fn poll_work(&mut self) -> Option<Work> {
        None
    }
    fn poll_event(&mut self) -> Option<(u32, bool)> {
        self.events.pop_front()
    }
    fn poll_transmit(&mut self, _now: Time) -> Option<Frame<ToyHeader>> {
        let blast = self.queue.front_mut()?;
        blast.count -= 1;
        let (destination, session) = (blast.to, SessionId(blast.session));
        if blast.count == 0 {
            self.queue.pop_front();
        }
        self.label = self.label.wrapping_add(1);
        Some(Frame {
            source: self.host,
            destination,
            session,
            payload_len: 1_436,
            path: self.label,
            class: 1,
            ecn: Ecn::NotCapable,
            trimmed: false,
            header: ToyHeader,
        })
    }
    fn poll_timeout(&self) -> Option<Time> {
        None
    }
}

/// Gives the commands in time and keeps every arrival.
pub struct Recorder {
    pub blasts: VecDeque<Blast>,
    pub groups: Vec<(GroupId, HostId, Vec<HostId>)>,
    pub arrivals: Vec<Arrival>,
}

impl Recorder {
    fn next(&mut self, now: Time, actions: &mut Actions<Blast>) {
        while self.blasts.front().is_some_and(|blast| now.has_reached(blast.at)) {
            if let Some(blast) = self.blasts.pop_front() {
                actions.command(blast.from, blast);
            }
        }
        if let Some(blast) = self.blasts.front() {
            actions.set_alarm(blast.at);
        }
    }
}

impl Application<Toy> for Recorder {
    fn on_start(&mut self, actions: &mut Actions<Blast>) {
        for (group, source, members) in self.groups.clone() {
            actions.create_group(group, source, members);
        }
        self.next(Time::ZERO, actions);
    }
    fn on_event(
        &mut self,
        now: Time,
        host: HostId,
        (session, trimmed): (u32, bool),
        _actions: &mut Actions<Blast>,
    ) {
        self.arrivals.push(Arrival { at: now, host, session, trimmed });
    }
    fn on_alarm(&mut self, now: Time, actions: &mut Actions<Blast>) {
        self.next(now, actions);
    }
    fn on_work(
        &mut self,
        _: Time,
        _: HostId,
        _: Work,
    ) -> Option<(wellspring_core::Duration, WorkDone)> {
        None
    }
    fn on_refused(&mut self, _: Time, _: HostId, _error: ()) {}
}

pub type ToySimulator = Simulator<Toy, Recorder>;

pub fn simulator(graph: &Graph, config: &Config, blasts: Vec<Blast>) -> Simulator<Toy, Recorder> {
    with_groups(graph, config, blasts, Vec::new())
}

pub fn with_groups(
    graph: &Graph,
    config: &Config,
    blasts: Vec<Blast>,
    groups: Vec<(GroupId, HostId, Vec<HostId>)>,
) -> Simulator<Toy, Recorder> {
    let recorder = Recorder { blasts: blasts.into(), groups, arrivals: Vec::new() };
    let toy = |host| Toy { host, queue: VecDeque::new(), events: VecDeque::new(), label: 0 };
    Simulator::new(graph, config, toy, recorder)
}

pub fn config(port: PortConfig) -> Config {
    Config::new(port, wellspring_core::Seed(1))
}

/// Runs to the end and checks that no packet is unaccounted for.
pub fn finish(simulator: &mut Simulator<Toy, Recorder>) {
    let status = simulator.run_until(Time::from_picos(u64::MAX / 4), u64::MAX);
    assert_eq!(status, wellspring_sim::Status::Idle);
    simulator.check_conservation().unwrap();
}
