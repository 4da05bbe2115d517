//! Configuration of a network, its shape aside.

use crate::faults::Fault;
use crate::parcel::WireModel;
use wellspring_core::{Duration, Seed, Time};
use wellspring_fabric::{PortConfig, Spraying};

/// How a network behaves.
#[derive(Clone, Debug)]
pub struct Config {
    /// The queues of every switch port.
    pub port: PortConfig,
    /// How switches choose among equal paths.
    pub spraying: Spraying,
    /// How groups' packets travel.
    pub multicast: Multicast,
    /// Lengths on the wire.
    pub wire: WireModel,
    /// Seed of everything random in the network.
    pub seed: Seed,
    /// Events of one instant in a random order instead of that of scheduling.
    pub shuffle_ties: Option<u32>,
    /// How long routing takes to notice a failure or repair. Until then packets are sent into
    /// what is down, and lost.
    pub convergence: Duration,
    /// Failures and repairs.
    pub faults: Vec<(Time, Fault)>,
    /// Random loss on every hop, for tests of endpoints.
    pub loss: Option<LossRule>,
}

impl Config {
    /// That port on every switch; packets sprayed at random; nothing fails.
    pub fn new(port: PortConfig, seed: Seed) -> Self {
        Config {
            port,
            spraying: Spraying::Random,
            multicast: Multicast::Sprayed,
            wire: WireModel::default(),
            seed,
            shuffle_ties: None,
            convergence: Duration::ZERO,
            faults: Vec::new(),
            loss: None,
        }
    }
}

/// How the packets of a multicast group travel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Multicast {
    /// Each packet along one of several trees of shortest paths, which together take every equal
    /// path: chosen as [`Config::spraying`] chooses for other packets (SCDP §IV-B: packets are
    /// sprayed, in one-to-many sessions to several destinations).
    Sprayed,
    /// All along one tree (the SCDP authors' published models).
    OneTree,
}

/// Loses packets at random on every link, for tests of endpoints.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct LossRule {
    /// Probability that a packet with payload is lost on a hop.
    pub data: f64,
    /// Probability that a packet without payload is lost on a hop.
    pub control: f64,
}
