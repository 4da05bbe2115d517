//! The sending side of a flow to a multicast group.
//!
//! An extension, to compare with SCDP's fresh symbols: NDP's paper has unicast flows alone. Packets go to all
//! members. Each member acknowledges and pulls as if the flow were its own. A new packet takes one pull of each
//! member, so the slowest one sets the pace. A repeat goes to all members too, and takes one pull of each member
//! that has asked for it; to the others it is redundant.

use super::config::Config;
use super::seen::Seen;
use super::sender::{Labels, SendStats, packet};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use wellspring_core::{Class, Destination, Duration, Frame, GroupId, HostId, SessionId, Time};
use wellspring_wire::ndp::{Data, NdpHeader};

/// Opens a transfer to a multicast group at its sender.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupTransfer {
    /// The transfer, not in use between these hosts.
    pub session: SessionId,
    /// Where its packets go.
    pub group: GroupId,
    /// The members, 64 of them at most: more are not waited for.
    pub members: Vec<HostId>,
    /// Length \[bytes\], at least 1.
    pub transfer_len: u64,
    /// A fixed class for its data packets instead of the configuration's rule.
    pub class: Option<Class>,
}

/// A set of members, by their places.
type Places = u64;

/// What became of a flow to a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    /// All members that are still there have everything.
    Sent,
    /// No member is there any more.
    Lost,
}

/// A member, as the sender sees it.
#[derive(Debug)]
struct Member {
    host: HostId,
    granted: u32,
    used: u32,
    acked: Seen,
    smoothed_rtt: Duration,
    backoff: u32,
    last_heard: Time,
}

/// A packet in flight.
#[derive(Debug)]
struct InFlight {
    number: u32,
    sent: Time,
    /// Who has not answered.
    open: Places,
}

/// A flow to a group at its sender.
#[derive(Debug)]
pub(super) struct GroupSender {
    transfer: GroupTransfer,
    total: u32,
    window: u16,
    /// First packet never sent; the first `window` are pushed.
    next_new: u32,
    members: Vec<Member>,
    /// Members that are there and do not have everything.
    waited_for: Places,
    any_done: bool,
    in_flight: VecDeque<InFlight>,
    /// Packets to repeat, and for whom.
    repeats: BTreeMap<u32, Places>,
    /// Packets to repeat without a pull: nobody has answered them.
    probes: VecDeque<u32>,
    labels: Labels,
    pub(super) stats: SendStats,
}

impl GroupSender {
    pub(super) fn new(now: Time, config: &Config, transfer: GroupTransfer) -> GroupSender {
        let member = |host: &HostId| Member {
            host: *host,
            granted: 0,
            used: 0,
            acked: Seen::default(),
            smoothed_rtt: config.initial_rtt,
            backoff: 0,
            last_heard: now,
        };
        let members: Vec<Member> =
            transfer.members.iter().take(Places::BITS as usize).map(member).collect();
        GroupSender {
            total: config.packets(transfer.transfer_len),
            window: config.initial_window.max(1),
            next_new: 0,
            waited_for: Places::MAX.checked_shr(Places::BITS - members.len() as u32).unwrap_or(0),
            members,
            any_done: false,
            in_flight: VecDeque::new(),
            repeats: BTreeMap::new(),
            probes: VecDeque::new(),
            labels: Labels::of(config, transfer.session),
            stats: SendStats::default(),
            transfer,
        }
    }

    /// The place of a member that is waited for.
    fn place(&self, host: HostId) -> Option<usize> {
        let place = self.members.iter().position(|member| member.host == host)?;
        (self.waited_for >> place & 1 == 1).then_some(place)
    }

    /// What became of it, once nobody is waited for.
    pub(super) fn outcome(&self) -> Option<Outcome> {
        (self.waited_for == 0).then_some(if self.any_done { Outcome::Sent } else { Outcome::Lost })
    }

    /// Whether all of these members have pulls left.
    fn have_pulls(&self, places: Places) -> bool {
        let mut of = self.members.iter().enumerate().filter(|(at, _)| places >> at & 1 == 1);
        of.all(|(_, member)| member.used < member.granted)
    }

    fn use_pulls(&mut self, places: Places) {
        for (place, member) in self.members.iter_mut().enumerate() {
            member.used += (places >> place & 1) as u32;
        }
    }

    /// The next packet, if one may be sent.
    pub(super) fn transmit(&mut self, now: Time, config: &Config) -> Option<Frame<NdpHeader>> {
        let number = self.next_number()?;
        self.stats.sent += 1;
        self.in_flight.push_back(InFlight { number, sent: now, open: self.waited_for });
        let data = Data {
            number,
            total: self.total,
            window: self.window,
            vanished: 0,
            sent: now,
            rtt: self.longest_rtt(),
        };
        let GroupTransfer { session, group, transfer_len, class, .. } = self.transfer;
        let cut = (transfer_len.max(1), class);
        Some(packet(config, (Destination::Group(group), session), cut, self.labels.next(), data))
    }

    fn next_number(&mut self) -> Option<u32> {
        while let Some(number) = self.probes.pop_front() {
            if self.misses(number) != 0 {
                return Some(number);
            }
        }
        let new = (self.next_new < self.total).then_some(self.next_new);
        if new.is_some_and(|number| number < u32::from(self.window)) {
            self.next_new += 1;
            return new;
        }
        while let Some((number, for_whom)) = self.repeats.pop_first() {
            let for_whom = for_whom & self.misses(number);
            if for_whom == 0 {
                continue;
            }
            if !self.have_pulls(for_whom) {
                self.repeats.insert(number, for_whom);
                break;
            }
            self.use_pulls(for_whom);
            self.stats.retransmitted += 1;
            return Some(number);
        }
        if new.is_none() || !self.have_pulls(self.waited_for) {
            return None;
        }
        self.use_pulls(self.waited_for);
        self.next_new += 1;
        new
    }

    /// Who is waited for and has not acknowledged a packet.
    fn misses(&self, number: u32) -> Places {
        let misses = self.members.iter().enumerate().filter(|(_, m)| !m.acked.contains(number));
        misses.fold(0, |places, (place, _)| places | 1 << place) & self.waited_for
    }

    fn longest_rtt(&self) -> Duration {
        self.members.iter().map(|member| member.smoothed_rtt).max().unwrap_or(Duration::ZERO)
    }

    /// Takes in what a member says.
    pub(super) fn on_answer(
        &mut self,
        now: Time,
        from: HostId,
        header: &NdpHeader,
        config: &Config,
    ) {
        let Some(place) = self.place(from) else { return };
        let next_new = self.next_new;
        let member = &mut self.members[place];
        member.last_heard = now;
        match *header {
            NdpHeader::Ack { number, sent } if number < next_new => {
                let rtt = now.since(sent).min(config.peer_timeout);
                member.smoothed_rtt = (member.smoothed_rtt * 7 + rtt) / 8;
                member.acked.insert(number);
                self.answered(place, number);
            }
            NdpHeader::Nack { number } if number < next_new && !member.acked.contains(number) => {
                *self.repeats.entry(number).or_default() |= 1 << place;
                self.answered(place, number);
            }
            NdpHeader::Pull { granted } => member.granted = member.granted.max(granted),
            NdpHeader::Done => {
                self.any_done = true;
                self.waited_for &= !(1 << place);
            }
            _ => {}
        }
    }

    /// A member has answered one of the packets of that number: the oldest that it has not answered.
    fn answered(&mut self, place: usize, number: u32) {
        self.members[place].backoff = 0;
        let open = |entry: &&mut InFlight| entry.number == number && entry.open >> place & 1 == 1;
        if let Some(entry) = self.in_flight.iter_mut().find(open) {
            entry.open &= !(1 << place);
        }
        while self.in_flight.front().is_some_and(|entry| entry.open & self.waited_for == 0) {
            self.in_flight.pop_front();
        }
    }

    /// When a packet in flight counts as lost.
    fn overdue_at(&self, entry: &InFlight, config: &Config) -> Option<Time> {
        let open = entry.open & self.waited_for;
        let of = self.members.iter().enumerate().filter(|(place, _)| open >> place & 1 == 1);
        Time::earliest(of.map(|(_, member)| {
            let timeout = (member.smoothed_rtt * 3).max(config.min_timeout);
            entry.sent + config.backed_off(timeout, member.backoff)
        }))
    }

    /// When [`GroupSender::on_timeout`] is due.
    pub(super) fn deadline(&self, config: &Config) -> Option<Time> {
        let waited_for = |(place, _): &(usize, &Member)| self.waited_for >> place & 1 == 1;
        let members = self.members.iter().enumerate().filter(waited_for);
        let silences = members.map(|(_, member)| member.last_heard + config.peer_timeout);
        let oldest = self.in_flight.front();
        Time::earliest(silences.chain(oldest.and_then(|entry| self.overdue_at(entry, config))))
    }

    /// Gives up silent members, and repeats what nobody has answered in time.
    pub(super) fn on_timeout(&mut self, now: Time, config: &Config) {
        for (place, member) in self.members.iter().enumerate() {
            if now.has_reached(member.last_heard + config.peer_timeout) {
                self.waited_for &= !(1 << place);
            }
        }
        let mut late: Places = 0;
        while let Some(entry) = self.in_flight.front() {
            let open = entry.open & self.waited_for;
            let overdue = self.overdue_at(entry, config).is_some_and(|at| now.has_reached(at));
            if open != 0 && !overdue {
                break;
            }
            if let Some(entry) = self.in_flight.pop_front()
                && open != 0
            {
                self.stats.timed_out += 1;
                self.probes.push_back(entry.number);
                late |= open;
            }
        }
        for (place, member) in self.members.iter_mut().enumerate() {
            member.backoff = (member.backoff + (late >> place & 1) as u32).min(10);
        }
    }
}
