//! Long link with a pair of Maelstrom's appliances, simulated: hosts' TCP on both sides, real packets and repairs.
//!
//! The appliances are `wellspring-maelstrom`'s state machines on real bytes; links and hosts are models ([`Link`],
//! [`Sender`]). So 20 seeds of a table take minutes, and need no namespaces.

mod agenda;
mod control;
mod flows;
mod link;
mod packet;
mod receiver;
mod reduction;
mod site;
mod stepped;
mod tally;
mod tcp;
mod undo;

use std::cmp::Reverse;

use wellspring_core::{Duration, Seed, Time};
use wellspring_maelstrom::{ReceiveCounters, SendCounters};

pub use control::Algorithm;
pub use flows::{Outcome, Work};
pub use link::{Link, Loss};
pub use receiver::{Ack, Receiver};
pub use site::Protection;
pub(crate) use stepped::Stepped;
pub use tcp::Sender;

use agenda::{Agenda, Entry, Event};
use flows::Flows;
use site::{Site, Sites};

/// What is run.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Rate of the link \[bit/s\].
    pub bits_per_second: u64,
    /// One way.
    pub delay: Duration,
    /// The longest wait in the link's queue.
    pub queue: Duration,
    /// What is lost both ways, from each time on.
    pub losses: Vec<(Duration, Loss)>,
    /// The appliances; none without them.
    pub protection: Option<Protection>,
    /// What hosts do.
    pub work: Vec<Work>,
    /// How long it lasts.
    pub length: Duration,
    /// Of all that is random.
    pub seed: u64,
}

impl Setting {
    /// 100 Mbit/s, 50 ms one way, a queue that takes a round trip to empty, for 20 seconds.
    pub fn new(loss: Loss, protection: Option<Protection>, work: Vec<Work>, seed: u64) -> Self {
        Setting {
            bits_per_second: 100_000_000,
            delay: Duration::from_millis(50),
            queue: Duration::from_millis(100),
            losses: vec![(Duration::ZERO, loss)],
            protection,
            work,
            length: Duration::from_secs(20),
            seed,
        }
    }
}

/// What a run gave.
#[derive(Clone, Debug)]
pub struct Results {
    /// Of each piece of work.
    pub outcomes: Vec<Outcome>,
    /// Packets that the queue from site 0 to site 1 dropped.
    pub drops: u64,
    /// Bytes of site 0's appliance, and what it has sent.
    pub sent: SendCounters,
    /// What site 1's appliance has seen.
    pub received: ReceiveCounters,
    /// Repairs for each packet of site 0, every 10 ms: of the code in use.
    pub overheads: Vec<f64>,
}

/// Runs a setting.
///
/// # Panics
/// If the setting's protection is no code.
pub fn run(setting: &Setting) -> Results {
    let mut simulation = Simulation::new(setting, &[]);
    let end = Time::ZERO + setting.length;
    while simulation.next().is_some_and(|at| at.is_before(end)) {
        simulation.step();
    }
    let Simulation { flows, sites, overheads, .. } = simulation;
    Results {
        outcomes: flows.outcomes(),
        drops: sites.links[0].drops,
        sent: sites.sent(0),
        received: sites.received(1),
        overheads,
    }
}

/// Hosts, appliances and link at one moment.
#[derive(Debug)]
struct Simulation {
    agenda: Agenda,
    sites: Sites,
    flows: Flows,
    overheads: Vec<f64>,
}

impl Simulation {
    /// At time zero. The relay in the middle of the link is down in these spans.
    fn new(setting: &Setting, outages: &[(Time, Time)]) -> Self {
        let seed = Seed(setting.seed);
        let link = |name| {
            let Setting { bits_per_second, delay, queue, .. } = *setting;
            Link::new(bits_per_second, delay, queue, &setting.losses, (seed, name))
                .with_outages(outages.to_vec())
        };
        let mut agenda = Agenda::default();
        let sites = Sites {
            links: [link("there"), link("back")],
            appliances: [0, 1].map(|n| setting.protection.as_ref().map(|p| Site::new(p, n))),
            recovered: [0; 2],
        };
        let flows = Flows::new(&setting.work, setting.length, &mut agenda);
        if setting.protection.is_some() {
            (0..2).for_each(|site| agenda.add(Time::ZERO, Event::Report(site)));
        }
        Simulation { agenda, sites, flows, overheads: Vec::new() }
    }

    /// When the next event is.
    fn next(&self) -> Option<Time> {
        self.agenda.heap.peek().map(|Reverse(Entry(at, ..))| *at)
    }

    /// Has the next event happen.
    fn step(&mut self) {
        let Simulation { agenda, sites, flows, overheads } = self;
        let Some(Reverse(Entry(now, _, event))) = agenda.heap.pop() else { return };
        flows.tally.counters.events += 1;
        match event {
            Event::Flow(flow, timer) => flows.on_timer(now, flow, timer, sites, agenda),
            Event::Packet(site, bytes) => {
                for packet in sites.on_packet(now, site, bytes, agenda) {
                    flows.on_packet(now, &packet, sites, agenda);
                }
            }
            Event::Datagram(site, bytes) => {
                for packet in sites.on_datagram(now, site, &bytes, agenda) {
                    flows.on_packet(now, &packet, sites, agenda);
                }
            }
            Event::Appliance(site) => {
                for packet in sites.on_timer(now, site, agenda) {
                    flows.on_packet(now, &packet, sites, agenda);
                }
            }
            Event::Report(site) => {
                if site == 0 {
                    overheads.push(sites.overhead());
                }
                sites.report(now, site, agenda);
            }
        }
    }
}
