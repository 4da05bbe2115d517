//! The application above the endpoints.

use wellspring_core::{Duration, Endpoint, GroupId, HostId, SessionId, Time, Work, WorkDone};

/// Who sends to a group, and its members.
pub(crate) type Tree = (HostId, Vec<HostId>);

/// What an [`Application`] asks for; done at once, in order.
#[derive(Debug)]
pub struct Actions<C> {
    pub(crate) commands: Vec<(HostId, C)>,
    pub(crate) groups: Vec<(GroupId, Option<Tree>)>,
    pub(crate) alarm: Option<Time>,
    pub(crate) stop: bool,
}

impl<C> Actions<C> {
    pub(crate) fn new() -> Self {
        Actions { commands: Vec::new(), groups: Vec::new(), alarm: None, stop: false }
    }

    /// Gives a host's endpoint a command.
    pub fn command(&mut self, host: HostId, command: C) {
        self.commands.push((host, command));
    }

    /// Lets somebody ask who knows other commands, each of which is one of these by `into`: for
    /// endpoints made of several.
    pub fn translated<D, R>(
        &mut self,
        into: impl Fn(D) -> C,
        ask: impl FnOnce(&mut Actions<D>) -> R,
    ) -> R {
        let mut asked = Actions::new();
        let answer = ask(&mut asked);
        let Actions { commands, groups, alarm, stop } = asked;
        self.commands.extend(commands.into_iter().map(|(host, command)| (host, into(command))));
        self.groups.extend(groups);
        self.alarm = alarm.or(self.alarm);
        self.stop |= stop;
        answer
    }

    /// Sets up a multicast group: packets of `source` to it travel along trees of shortest
    /// paths to the members.
    pub fn create_group(&mut self, group: GroupId, source: HostId, members: Vec<HostId>) {
        self.groups.push((group, Some((source, members))));
    }

    /// Takes a group down again. Packets to it that are still under way are lost.
    pub fn remove_group(&mut self, group: GroupId) {
        self.groups.push((group, None));
    }

    /// Calls [`Application::on_alarm`] at that time; replaces an earlier request.
    pub fn set_alarm(&mut self, at: Time) {
        self.alarm = Some(at);
    }

    /// Ends the run.
    pub fn stop(&mut self) {
        self.stop = true;
    }
}

/// The application behind all endpoints: opens sessions, hears of their fate, answers work.
pub trait Application<E: Endpoint> {
    /// The run begins.
    fn on_start(&mut self, actions: &mut Actions<E::Command>);

    /// An endpoint has an event.
    fn on_event(
        &mut self,
        now: Time,
        host: HostId,
        event: E::Event,
        actions: &mut Actions<E::Command>,
    );

    /// An endpoint keeps the payload of a packet that arrived: a session gets on.
    fn on_kept(&mut self, _now: Time, _session: SessionId) {}

    /// The time set by [`Actions::set_alarm`] has come.
    fn on_alarm(&mut self, now: Time, actions: &mut Actions<E::Command>);

    /// An endpoint asks for work: how long it takes and how it ends, or `None` if no answer is
    /// due.
    fn on_work(&mut self, now: Time, host: HostId, work: Work) -> Option<(Duration, WorkDone)>;

    /// An endpoint refused a command.
    fn on_refused(&mut self, now: Time, host: HostId, error: E::CommandError);
}
