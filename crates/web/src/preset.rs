//! Stories of the page, and the protocols that each can show.

use crate::setup::{Cut, Setup};
use core::ops::RangeInclusive;

/// A story to begin with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Preset {
    /// Many senders, one receiver (SCDP Fig. 11).
    Incast,
    /// One object from several replicas, one of them behind a slow link (SCDP §IV-E).
    Fetch,
    /// One object to several replicas (SCDP §IV-D).
    Replicate,
    /// Two near senders beside many far ones (SCDP Fig. 12).
    Outcast,
    /// One transfer whose path is down for a moment (LTTP Fig. 4).
    Outage,
    /// One transfer over a long link that loses packets in a row, with and without Maelstrom (§4.3).
    Burst,
}

impl Preset {
    /// All of them.
    pub const ALL: [Preset; 6] = [
        Preset::Incast,
        Preset::Fetch,
        Preset::Replicate,
        Preset::Outcast,
        Preset::Outage,
        Preset::Burst,
    ];

    /// As in links.
    pub fn as_str(self) -> &'static str {
        match self {
            Preset::Incast => "incast",
            Preset::Fetch => "fetch",
            Preset::Replicate => "replicate",
            Preset::Outcast => "outcast",
            Preset::Outage => "outage",
            Preset::Burst => "burst",
        }
    }

    /// How many senders it can have; replicas, in the storage stories.
    pub fn senders(self) -> RangeInclusive<u64> {
        match self {
            Preset::Incast => 1..=100,
            Preset::Fetch | Preset::Replicate => 1..=6,
            Preset::Outcast => 1..=12,
            Preset::Outage | Preset::Burst => 1..=1,
        }
    }

    /// Rates of links \[Mbit/s\].
    pub fn rates(self) -> RangeInclusive<u64> {
        if self == Preset::Burst { 10..=1_000 } else { 10..=100_000 }
    }

    /// Delays of links \[ns\].
    pub fn delays(self) -> RangeInclusive<u64> {
        if self == Preset::Burst { 1_000_000..=100_000_000 } else { 100..=10_000_000 }
    }

    /// Rates of the slow link \[%\].
    pub fn slow(self) -> RangeInclusive<u64> {
        if self == Preset::Burst { 100..=100 } else { 1..=100 }
    }

    /// The protocols that it can show.
    pub fn protocols(self) -> &'static [ProtocolChoice] {
        let (in_racks, on_long_link) = ProtocolChoice::ALL.split_at(ProtocolChoice::IN_RACKS);
        if self == Preset::Burst { on_long_link } else { in_racks }
    }

    /// The story as it begins.
    pub fn setup(self) -> Setup {
        use ProtocolChoice::{Cubic, Dctcp, Lttp, MaelstromCubic, Ndp, NewReno, Scdp};
        let base = Setup {
            preset: self,
            protocols: vec![Scdp, Ndp, NewReno, Dctcp],
            senders: 70,
            size: 64_000,
            buffer: 64,
            rate: 1_000,
            delay: 5_000,
            loss: 0,
            slow: 100,
            seed: 1,
            events: Vec::new(),
        };
        match self {
            Preset::Incast => base,
            Preset::Fetch => Setup { senders: 3, size: 2_000_000, slow: 10, ..base },
            Preset::Replicate => Setup { senders: 3, size: 2_000_000, ..base },
            Preset::Outcast => Setup { senders: 12, size: 1_000_000, ..base },
            // An outage as long as the paper's, on a path as fast as the other stories'.
            Preset::Outage => Setup {
                protocols: vec![Scdp, Lttp, NewReno, Dctcp],
                senders: 1,
                size: 12_000_000,
                delay: 25_000,
                events: vec![
                    Cut { at: 20_000_000, node: "agg0".to_owned(), up: false },
                    Cut { at: 40_000_000, node: "agg0".to_owned(), up: true },
                ],
                ..base
            },
            // The link of Maelstrom's tables; the burst comes in the middle of slow start.
            Preset::Burst => Setup {
                protocols: vec![Cubic, MaelstromCubic],
                senders: 1,
                size: 3_000_000,
                buffer: 1_000,
                rate: 100,
                delay: 50_000_000,
                events: vec![
                    Cut { at: 428_000_000, node: "relay".to_owned(), up: false },
                    Cut { at: 430_000_000, node: "relay".to_owned(), up: true },
                ],
                ..base
            },
        }
    }
}

/// A protocol that the page shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProtocolChoice {
    /// SCDP.
    Scdp,
    /// NDP.
    Ndp,
    /// TCP NewReno.
    NewReno,
    /// DCTCP.
    Dctcp,
    /// LTTP.
    Lttp,
    /// Hosts' TCP with Reno.
    Reno,
    /// With CUBIC.
    Cubic,
    /// With BBR.
    Bbr,
    /// With Reno, behind a pair of appliances.
    MaelstromReno,
    /// With CUBIC, behind a pair.
    MaelstromCubic,
    /// With BBR, behind a pair.
    MaelstromBbr,
    /// With CUBIC, behind a pair that has the paper's code.
    MaelstromPaper,
}

impl ProtocolChoice {
    /// All of them.
    pub const ALL: [ProtocolChoice; 12] = [
        ProtocolChoice::Scdp,
        ProtocolChoice::Ndp,
        ProtocolChoice::NewReno,
        ProtocolChoice::Dctcp,
        ProtocolChoice::Lttp,
        ProtocolChoice::Reno,
        ProtocolChoice::Cubic,
        ProtocolChoice::Bbr,
        ProtocolChoice::MaelstromReno,
        ProtocolChoice::MaelstromCubic,
        ProtocolChoice::MaelstromBbr,
        ProtocolChoice::MaelstromPaper,
    ];
    /// So many of them are for racks, the others for a long link.
    const IN_RACKS: usize = 5;

    /// As in links.
    pub fn as_str(self) -> &'static str {
        match self {
            ProtocolChoice::Scdp => "scdp",
            ProtocolChoice::Ndp => "ndp",
            ProtocolChoice::NewReno => "tcp-newreno",
            ProtocolChoice::Dctcp => "dctcp",
            ProtocolChoice::Lttp => "lttp",
            ProtocolChoice::Reno => "tcp-reno",
            ProtocolChoice::Cubic => "tcp-cubic",
            ProtocolChoice::Bbr => "tcp-bbr",
            ProtocolChoice::MaelstromReno => "maelstrom-reno",
            ProtocolChoice::MaelstromCubic => "maelstrom-cubic",
            ProtocolChoice::MaelstromBbr => "maelstrom-bbr",
            ProtocolChoice::MaelstromPaper => "maelstrom-paper",
        }
    }

    /// As in scenario files.
    pub fn protocol(self) -> &'static str {
        match self {
            ProtocolChoice::MaelstromReno => "tcp-reno",
            ProtocolChoice::MaelstromCubic | ProtocolChoice::MaelstromPaper => "tcp-cubic",
            ProtocolChoice::MaelstromBbr => "tcp-bbr",
            other => other.as_str(),
        }
    }

    /// The appliances' code as in scenario files, if there are appliances.
    pub fn code(self) -> Option<&'static str> {
        match self {
            ProtocolChoice::MaelstromReno
            | ProtocolChoice::MaelstromCubic
            | ProtocolChoice::MaelstromBbr => Some("adaptive"),
            ProtocolChoice::MaelstromPaper => Some("layers"),
            _ => None,
        }
    }
}
