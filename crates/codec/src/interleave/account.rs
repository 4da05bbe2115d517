//! Account of what a receiver has seen and done.

use super::MAX_LAYERS;

/// What a receiver has seen and done.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Account {
    /// Packets taken in, without duplicates.
    pub packets: u64,
    /// Repairs taken in.
    pub repairs: u64,
    /// Repairs of which nothing was missing.
    pub redundant: u64,
    /// Packets brought back, by the layer whose XOR did it.
    pub recovered: [u64; MAX_LAYERS],
    /// Repairs forgotten while more than one of their packets was missing.
    pub expired: u64,
    /// Repairs that came to nothing: a packet they need has been forgotten.
    pub too_late: u64,
    /// Repairs whose result was no packet, or was not accepted.
    pub garbled: u64,
}

impl Account {
    /// Packets brought back by all layers.
    pub fn recovered_total(&self) -> u64 {
        self.recovered.iter().sum()
    }

    /// Adds what another receiver has done.
    pub fn add(&mut self, other: &Account) {
        self.packets += other.packets;
        self.repairs += other.repairs;
        self.redundant += other.redundant;
        for (to, from) in self.recovered.iter_mut().zip(other.recovered) {
            *to += from;
        }
        self.expired += other.expired;
        self.too_late += other.too_late;
        self.garbled += other.garbled;
    }
}
