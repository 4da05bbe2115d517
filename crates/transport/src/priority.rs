//! Priority classes of a flow's packets.

use alloc::vec::Vec;
use wellspring_core::Class;

/// The class of a flow's data packets; class 0 is for control packets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Priority {
    /// Class 1 for all: NDP, TCP.
    One,
    /// NDP+ and PIAS: class 1 until so many bytes are sent, 2 until so many, ... (SCDP §V: 10 KB, 100 KB,
    /// 1 MB, 10 MB).
    BytesSent(Vec<u64>),
    /// By the flow's whole size against the same thresholds, from its first packet on (the SCDP
    /// authors' published models).
    FinalSize(Vec<u64>),
}

impl Priority {
    /// The class of a packet behind `sent` bytes of a flow of `total`.
    pub(crate) fn class(&self, sent: u64, total: u64) -> Class {
        let below = |thresholds: &[u64], bytes: u64| {
            let passed = thresholds.iter().filter(|threshold| bytes >= **threshold).count();
            1 + passed.min(254) as Class
        };
        match self {
            Priority::One => 1,
            Priority::BytesSent(thresholds) => below(thresholds, sent),
            Priority::FinalSize(thresholds) => below(thresholds, total),
        }
    }
}
