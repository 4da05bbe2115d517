//! IGMP and MLD snooping (RFC 4541): packets of a group go only to the ports that asked for it.
//!
//! Ports are learnt from the reports of hosts, those with routers from the queries of routers. In a VLAN without a
//! querier nobody repeats its membership, so there everything goes everywhere.

mod message;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

pub use message::{Content, Family, Interest, Message, Query, Records, read};

use super::ports::PortSet;

/// Memberships of a port, at most: a host that joins whatever there is takes no other port's room.
pub const MOST_MEMBERSHIPS: usize = 1_024;

/// Timers that a querier does not name (RFC 3376, 8; RFC 3810, 9).
const ROBUSTNESS: u32 = 2;
const QUERY_INTERVAL: Duration = Duration::from_secs(125);
const LAST_MEMBER_INTERVAL: Duration = Duration::from_secs(1);
/// The longest time between queries that is believed.
const LONGEST_INTERVAL: Duration = Duration::from_secs(3_600);
/// How often memberships that have ended are looked for, at most.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// How groups are treated.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SnoopingConfig {
    /// Packets of groups that no port asked for go to ports with routers only, not to all.
    pub restrict_unknown: bool,
    /// Ports with routers, besides those where queries come from.
    pub routers: PortSet,
}

/// Counters of snooping.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SnoopingCounters {
    /// Queries.
    pub queries: u64,
    /// Reports and leaves.
    pub reports: u64,
    /// Messages that are not believed: of a wrong checksum, or not whole.
    pub malformed: u64,
    /// Memberships that there was no room for.
    pub refused: u64,
}

/// Where a frame goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Destination {
    /// To all ports.
    All,
    /// To these.
    Ports(PortSet),
}

/// The querier of a VLAN, as far as a switch knows it.
#[derive(Debug)]
struct Querier {
    /// Until when it counts as there.
    until: Instant,
    /// How long a membership holds that is not repeated.
    holds: Duration,
    /// The ports where it, or another before it, was heard, and until when.
    routers: BTreeMap<usize, Instant>,
}

/// Ports of groups.
#[derive(Debug)]
pub struct Snooping {
    config: SnoopingConfig,
    queriers: BTreeMap<(u16, Family), Querier>,
    /// Members by VLAN and group: ports, and until when.
    members: BTreeMap<(u16, IpAddr), BTreeMap<usize, Instant>>,
    /// Memberships of each port.
    of_port: Vec<usize>,
    swept: Option<Instant>,
    counters: SnoopingCounters,
}

impl Snooping {
    /// Nothing is known yet about so many ports.
    pub fn new(config: SnoopingConfig, ports: usize) -> Self {
        Snooping {
            config,
            queriers: BTreeMap::new(),
            members: BTreeMap::new(),
            of_port: vec![0; ports],
            swept: None,
            counters: SnoopingCounters::default(),
        }
    }

    /// Counters until now.
    pub fn counters(&self) -> SnoopingCounters {
        self.counters
    }

    /// Groups with members, and memberships of ports, some of which may have ended a moment ago.
    pub fn sizes(&self) -> (usize, usize) {
        (self.members.len(), self.of_port.iter().sum())
    }

    /// Takes note of a frame for many stations that came by a port in a VLAN, and says where it goes: to which of all
    /// ports, the one that it came by among them.
    pub fn pass(&mut self, vlan: u16, port: usize, frame: &[u8], now: Instant) -> Destination {
        match read(frame) {
            Content::Other => Destination::All,
            Content::Data(group) => self.of_data(vlan, group, now),
            Content::Message(message) => self.take(vlan, port, message, now),
            Content::Malformed => {
                self.counters.malformed += 1;
                Destination::All
            }
        }
    }

    fn of_data(&self, vlan: u16, group: IpAddr, now: Instant) -> Destination {
        let family = Family::of(group);
        if is_link_wide(group) || !self.has_querier(vlan, family, now) {
            return Destination::All;
        }
        let members = self.members.get(&(vlan, group)).into_iter().flatten();
        let members: PortSet =
            members.filter(|(_, until)| **until > now).map(|(port, _)| *port).collect();
        if members == PortSet::NONE && !self.config.restrict_unknown {
            return Destination::All;
        }
        Destination::Ports(members.or(self.routers(vlan, family, now)))
    }

    fn take(&mut self, vlan: u16, port: usize, message: Message<'_>, now: Instant) -> Destination {
        let family = match message {
            Message::Query(query) => {
                self.counters.queries += 1;
                self.query(vlan, port, query, now);
                return Destination::All;
            }
            Message::Join(group) => {
                self.join(vlan, port, group, now);
                Family::of(group)
            }
            Message::Leave(group) => {
                self.leave(vlan, port, group, now);
                Family::of(group)
            }
            Message::Report(records) => {
                for (group, interest) in records.iter() {
                    match interest {
                        Interest::Wanted => self.join(vlan, port, group, now),
                        Interest::Ended => self.leave(vlan, port, group, now),
                        Interest::Unchanged => {}
                    }
                }
                records.family()
            }
        };
        self.counters.reports += 1;
        self.sweep(now);
        // Reports go to routers only, else hosts would be silent because others have said it (RFC 4541, 2.1.1).
        if self.has_querier(vlan, family, now) {
            Destination::Ports(self.routers(vlan, family, now))
        } else {
            Destination::All
        }
    }

    fn query(&mut self, vlan: u16, port: usize, query: Query, now: Instant) {
        let robustness = if query.robustness == 0 { ROBUSTNESS } else { query.robustness };
        if query.from_router {
            let interval = query.interval.unwrap_or(QUERY_INTERVAL).min(LONGEST_INTERVAL);
            let response = query.response.min(LONGEST_INTERVAL);
            // Other Querier Present Interval, and Group Membership Interval (RFC 3376, 8.4 and 8.5).
            let until = now + interval * robustness + response / 2;
            let holds = interval * robustness + response;
            let querier = self.queriers.entry((vlan, query.family)).or_insert_with(|| Querier {
                until,
                holds,
                routers: BTreeMap::new(),
            });
            if query.group.is_none() {
                querier.until = until;
                querier.holds = holds;
            }
            querier.routers.insert(port, until);
        }
        if let Some(group) = query.group.filter(|_| !query.suppress) {
            // Who does not answer now is no member any more (RFC 3376, 6.6.1). Nobody is hurried beyond what is usual.
            let response = query.response.clamp(LAST_MEMBER_INTERVAL, LONGEST_INTERVAL);
            self.shorten(vlan, group, None, now + response * robustness);
        }
    }

    fn join(&mut self, vlan: u16, port: usize, group: IpAddr, now: Instant) {
        let Some(count) = self.of_port.get(port).copied().filter(|_| !is_link_wide(group)) else {
            return;
        };
        let holds = self.holds(vlan, Family::of(group));
        if let Some(until) = self.members.get_mut(&(vlan, group)).and_then(|of| of.get_mut(&port)) {
            *until = now + holds;
            return;
        }
        if count >= MOST_MEMBERSHIPS {
            self.sweep(now);
            if self.of_port[port] >= MOST_MEMBERSHIPS {
                self.counters.refused += 1;
                return;
            }
        }
        self.members.entry((vlan, group)).or_default().insert(port, now + holds);
        self.of_port[port] += 1;
    }

    /// Another host behind the port may be a member, and says so when the querier asks.
    fn leave(&mut self, vlan: u16, port: usize, group: IpAddr, now: Instant) {
        self.shorten(vlan, group, Some(port), now + LAST_MEMBER_INTERVAL * ROBUSTNESS);
    }

    /// Lets memberships of a group end then, of one port or of all.
    fn shorten(&mut self, vlan: u16, group: IpAddr, port: Option<usize>, end: Instant) {
        for (of, until) in self.members.get_mut(&(vlan, group)).into_iter().flatten() {
            if port.is_none_or(|port| port == *of) {
                *until = end.min(*until);
            }
        }
    }

    /// Forgets memberships that have ended.
    fn sweep(&mut self, now: Instant) {
        if self.swept.is_some_and(|at| now.saturating_duration_since(at) < SWEEP_EVERY) {
            return;
        }
        self.swept = Some(now);
        let of_port = &mut self.of_port;
        self.members.retain(|_, ports| {
            ports.retain(|port, until| {
                let holds = *until > now;
                of_port[*port] -= usize::from(!holds);
                holds
            });
            !ports.is_empty()
        });
    }

    fn holds(&self, vlan: u16, family: Family) -> Duration {
        let querier = self.queriers.get(&(vlan, family));
        // Before the first query: as long as with one that says nothing (RFC 3376, 8.4).
        let unknown = QUERY_INTERVAL * ROBUSTNESS + Duration::from_secs(10);
        querier.map_or(unknown, |querier| querier.holds)
    }

    fn has_querier(&self, vlan: u16, family: Family, now: Instant) -> bool {
        self.queriers.get(&(vlan, family)).is_some_and(|querier| querier.until > now)
    }

    fn routers(&self, vlan: u16, family: Family, now: Instant) -> PortSet {
        let heard = self.queriers.get(&(vlan, family)).into_iter().flat_map(|of| &of.routers);
        let heard: PortSet =
            heard.filter(|(_, until)| **until > now).map(|(port, _)| *port).collect();
        heard.or(self.config.routers)
    }
}

/// Whether packets to a group go to all hosts of a network whether they have asked or not: 224.0.0.0/24 (RFC 4541,
/// 2.1.2) and ff02::/16, besides scopes narrower than a link.
pub fn is_link_wide(group: IpAddr) -> bool {
    match group {
        IpAddr::V4(group) => group.octets()[..3] == [224, 0, 0],
        IpAddr::V6(group) => {
            matches!(group.octets(), [0xff, scope, ..] if scope == 2 || scope & 15 <= 1)
        }
    }
}

#[cfg(test)]
mod tests;
