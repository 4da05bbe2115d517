//! Both sites of a simulated long link: an appliance each, and the links between.

use wellspring_codec::interleave::{BlockParameters, Parameters};
use wellspring_core::{Duration, Time};
use wellspring_maelstrom::{
    Arrival, Batch, Code, CongestionLoss, Family, Limits, PresharedKey, ReceiveConfig,
    ReceiveCounters, ReceiveSide, SendConfig, SendCounters, SendSide, SessionId, is_repair,
    restore,
};

use super::agenda::{Agenda, Event};
use super::link::Link;
use crate::look::PacketKind;

/// Longest packet \[bytes\].
pub(super) const LONGEST: usize = 1_500;
/// Headers of IP and UDP before a datagram \[bytes\].
const HEADERS: usize = 28;
/// How often an appliance reports.
const REPORT_EVERY: Duration = Duration::from_secs(1);
/// How often it looks whether a report is urgent.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// How the appliances protect.
#[derive(Clone, Debug)]
pub struct Protection {
    /// The code, unless it is adaptive.
    pub code: Code,
    /// Follow the loss within these limits.
    pub adaptive: Option<Limits>,
}

impl Protection {
    /// What `up` does without options.
    pub fn adaptive() -> Self {
        Self::adaptive_of(Family::default())
    }

    /// An adaptive pair with that kind of code.
    pub fn adaptive_of(family: Family) -> Self {
        let limits = Limits { family, ..Limits::default() };
        Protection { adaptive: Some(limits), ..Self::fixed(8, &[1, 20, 40], false) }
    }

    /// A fixed code.
    ///
    /// # Panics
    /// There is no such code.
    pub fn fixed(rate: u8, interleaves: &[u16], delayed: bool) -> Self {
        let mut code = Parameters::new(rate, interleaves).expect("a code");
        code.delayed = delayed;
        Protection { code: Code::Layers(code), adaptive: None }
    }

    /// A fixed Reed-Solomon code of so many packets and repairs, whose repairs are delayed.
    ///
    /// # Panics
    /// There is no such code.
    pub fn fixed_blocks(rate: u8, repairs: u8, interleave: u16) -> Self {
        let mut code = BlockParameters::new(rate, repairs, interleave).expect("a code");
        code.delayed = true;
        Protection { code: Code::Blocks(code), adaptive: None }
    }
}

/// An appliance.
#[derive(Debug)]
pub(super) struct Site {
    send: SendSide,
    receive: ReceiveSide,
    repairs: Batch,
    recovered: Batch,
    timer_at: Option<Time>,
    reported_at: Time,
}

impl Site {
    pub fn new(protection: &Protection, number: u64) -> Self {
        let key = PresharedKey::new([7; wellspring_maelstrom::KEY_LEN]);
        // The site that sends begins last: the other has watched all that it sent.
        let session = |number| SessionId { start: 1_001 - number, random: number };
        let own = session(number);
        let send = SendConfig {
            code: protection.code.clone(),
            adaptive: protection.adaptive,
            longest: LONGEST,
            flush_after: Duration::from_millis(5),
            repair_within: None,
        };
        let receive = ReceiveConfig {
            packets: 2_048,
            longest: LONGEST,
            congestion: match protection.adaptive {
                Some(_) => CongestionLoss::Signal,
                None => CongestionLoss::Recover,
            },
            renew_stamps: protection.adaptive.is_some(),
            ..ReceiveConfig::default()
        };
        // They have heard each other before the hosts begin.
        let receiver = ReceiveSide::new(&key, own, &receive).expect("memory");
        Site {
            send: SendSide::new(&key, own, &send).expect("a length"),
            receive: receiver.believing(session(1 - number)),
            repairs: Batch::new(),
            recovered: Batch::new(),
            timer_at: None,
            reported_at: Time::ZERO,
        }
    }

    fn recovered(&mut self) -> Vec<Vec<u8>> {
        let packets = self.recovered.iter().map(<[u8]>::to_vec).collect();
        self.recovered.clear();
        packets
    }
}

/// Both sites and what is between them.
#[derive(Debug)]
pub(super) struct Sites {
    /// From each site to the other.
    pub links: [Link; 2],
    pub appliances: [Option<Site>; 2],
    /// Packets that each has brought back.
    pub recovered: [u64; 2],
}

impl Sites {
    /// A host of that site sends a packet over the link, past the appliance if it is `protected`.
    pub fn send(
        &mut self,
        now: Time,
        site: usize,
        mut bytes: Vec<u8>,
        (kind, protected): (PacketKind, bool),
        agenda: &mut Agenda,
    ) {
        let arrives = self.links[site].send(now, bytes.len(), kind);
        if protected
            && let Some(appliance) = &mut self.appliances[site]
            && let Ok(identity) = appliance.send.observe(now, &mut bytes, &mut appliance.repairs)
        {
            restore(&mut bytes, identity.volatile);
        }
        if let Some(arrives) = arrives {
            agenda.add(arrives, Event::Packet(1 - site, bytes));
        }
        self.settle(now, site, agenda);
    }

    /// A packet comes out of the link; gives back what the hosts then get.
    pub fn on_packet(
        &mut self,
        now: Time,
        site: usize,
        mut bytes: Vec<u8>,
        agenda: &mut Agenda,
    ) -> Vec<Vec<u8>> {
        let mut packets = Vec::new();
        if let Some(appliance) = &mut self.appliances[site]
            && super::packet::is_protected(&bytes)
        {
            let seen = appliance.receive.observe(now, &mut bytes, &mut appliance.recovered);
            packets = appliance.recovered();
            self.recovered[site] += packets.len() as u64;
            if let Ok(identity) = seen {
                restore(&mut bytes, identity.volatile);
            }
        }
        packets.insert(0, bytes);
        self.settle(now, site, agenda);
        packets
    }

    pub fn on_datagram(
        &mut self,
        now: Time,
        site: usize,
        bytes: &[u8],
        agenda: &mut Agenda,
    ) -> Vec<Vec<u8>> {
        let Some(appliance) = &mut self.appliances[site] else { return Vec::new() };
        let Site { send, receive, repairs, recovered, .. } = appliance;
        if let Arrival::Report(report) = receive.handle_datagram(now, bytes, recovered) {
            send.on_report(now, &report, repairs);
        }
        let packets = appliance.recovered();
        self.recovered[site] += packets.len() as u64;
        self.settle(now, site, agenda);
        packets
    }

    pub fn on_timer(&mut self, now: Time, site: usize, agenda: &mut Agenda) -> Vec<Vec<u8>> {
        let Some(appliance) = &mut self.appliances[site] else { return Vec::new() };
        if appliance.timer_at.is_some_and(|at| now.has_reached(at)) {
            appliance.timer_at = None;
        }
        appliance.send.handle_timeout(now, &mut appliance.repairs);
        appliance.receive.handle_timeout(now, &mut appliance.recovered);
        let packets = appliance.recovered();
        self.recovered[site] += packets.len() as u64;
        self.settle(now, site, agenda);
        packets
    }

    pub fn report(&mut self, now: Time, site: usize, agenda: &mut Agenda) {
        agenda.add(now + LOOK_EVERY, Event::Report(site));
        let Some(appliance) = &mut self.appliances[site] else { return };
        let due = now.has_reached(appliance.reported_at + REPORT_EVERY);
        if due || appliance.receive.report_is_urgent(now) {
            appliance.reported_at = now;
            let report = appliance.receive.loss_report(now);
            let hearing = appliance.receive.hearing(now);
            appliance.send.report(now, &report, &hearing, &mut appliance.repairs);
            self.settle(now, site, agenda);
        }
    }

    /// Sends what an appliance has for its peer, and sets its timer.
    fn settle(&mut self, now: Time, site: usize, agenda: &mut Agenda) {
        let Some(appliance) = &mut self.appliances[site] else { return };
        for datagram in appliance.repairs.iter() {
            let kind = if is_repair(datagram) { PacketKind::Repair } else { PacketKind::Control };
            let len = datagram.len() + HEADERS;
            if let Some(arrives) = self.links[site].send(now, len, kind) {
                agenda.add(arrives, Event::Datagram(1 - site, datagram.to_vec()));
            }
        }
        appliance.repairs.clear();
        let sides = [appliance.send.poll_timeout(), appliance.receive.poll_timeout()];
        let Some(next) = Time::earliest(sides.into_iter().flatten()) else { return };
        if appliance.timer_at.is_none_or(|at| next.is_before(at)) {
            // A loop that naps for 100 microseconds is no earlier.
            let next = next.later_of(now + Duration::from_micros(100));
            appliance.timer_at = Some(next);
            agenda.add(next, Event::Appliance(site));
        }
    }

    /// Repairs for each packet of site 0's code.
    pub fn overhead(&self) -> f64 {
        let code = self.appliances[0].as_ref().and_then(|site| site.send.code());
        code.map_or(0.0, Code::overhead)
    }

    pub fn sent(&self, site: usize) -> SendCounters {
        self.appliances[site].as_ref().map(|site| *site.send.counters()).unwrap_or_default()
    }

    pub fn received(&self, site: usize) -> ReceiveCounters {
        self.appliances[site].as_ref().map(|site| *site.receive.counters()).unwrap_or_default()
    }
}
