//! State that the threads of a switch share, and what an observer sees of it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::addresses::Addresses;
use super::config::SwitchConfig;
use super::counters::PortCounters;
use super::ports::PortSet;
use super::recorder::{CaptureStatus, View};
use super::snooping::{Destination, Snooping, SnoopingCounters};
use super::vlan::Vlans;

/// Stations remembered.
const MOST_STATIONS: usize = 8192;

/// State that the threads share.
#[derive(Debug)]
pub(super) struct Shared {
    pub config: SwitchConfig,
    pub vlans: Vlans,
    pub addresses: Addresses,
    /// Multicast memberships; none if packets of all groups go to all.
    snooping: Option<Mutex<Snooping>>,
    capture: Option<View>,
    names: Vec<String>,
    counters: Vec<Mutex<PortCounters>>,
    ended: AtomicBool,
}

impl Shared {
    pub(super) fn new(config: SwitchConfig, names: Vec<String>, capture: Option<View>) -> Self {
        let snooping = config.snooping.map(|config| Snooping::new(config, names.len()));
        Shared {
            snooping: snooping.map(Mutex::new),
            capture,
            vlans: Vlans::new(config.vlans.clone()),
            config,
            addresses: Addresses::new(MOST_STATIONS),
            counters: names.iter().map(|_| Mutex::default()).collect(),
            names,
            ended: AtomicBool::new(false),
        }
    }

    /// How many ports there are.
    pub(super) fn ports(&self) -> usize {
        self.names.len()
    }

    /// The ports, the one that it came by among them perhaps, that a frame for many or unknown stations goes to.
    pub(super) fn spread(&self, vlan: u16, from: usize, frame: &[u8], now: Instant) -> PortSet {
        let is_group = frame.first().is_some_and(|first| first & 1 == 1);
        if let Some(snooping) = self.snooping.as_ref().filter(|_| is_group) {
            let mut snooping = snooping.lock().unwrap_or_else(PoisonError::into_inner);
            if let Destination::Ports(ports) = snooping.pass(vlan, from, frame, now) {
                return ports;
            }
        }
        PortSet::first(self.ports())
    }

    /// Lets the observers see counters of a port.
    pub(super) fn publish(&self, port: usize, counters: PortCounters) {
        *self.counters[port].lock().unwrap_or_else(PoisonError::into_inner) = counters;
    }

    /// Ends all threads.
    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    /// Whether the threads are to end.
    pub(super) fn ends(&self, stop: &AtomicBool) -> bool {
        stop.load(Ordering::Relaxed) || self.ended.load(Ordering::Relaxed)
    }
}

/// What a switch did until now.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct SwitchStatus {
    /// Interfaces, and their counters.
    pub ports: Vec<(String, PortCounters)>,
    /// Priority queues of data that each port has.
    pub data_queues: u8,
    /// Stations in the address table.
    pub stations: usize,
    /// Multicast groups with members, and what was heard of them, if the switch listens.
    pub snooping: Option<(usize, SnoopingCounters)>,
    /// What was recorded, if frames are.
    pub capture: Option<CaptureStatus>,
}

/// A view of a switch while it runs. Counters are at most some tens of milliseconds old.
#[derive(Clone, Debug)]
pub struct Monitor(pub(super) Arc<Shared>);

impl Monitor {
    /// What the switch did until now.
    pub fn status(&self) -> SwitchStatus {
        let shared = &self.0;
        let counters = shared.counters.iter();
        let counters = counters.map(|port| *port.lock().unwrap_or_else(PoisonError::into_inner));
        SwitchStatus {
            ports: shared.names.iter().cloned().zip(counters).collect(),
            data_queues: shared.config.port().data_classes,
            stations: shared.addresses.len(),
            capture: shared.capture.as_ref().map(View::status),
            snooping: shared.snooping.as_ref().map(|snooping| {
                let snooping = snooping.lock().unwrap_or_else(PoisonError::into_inner);
                (snooping.sizes().0, snooping.counters())
            }),
        }
    }
}
