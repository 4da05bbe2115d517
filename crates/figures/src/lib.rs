//! The papers' figures: run, and printed beside what the papers say.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod cases;
mod failures;
mod gains;
mod lab;
mod larger;
mod learnt;
mod lttp;
mod maelstrom;
mod open;
pub mod plot;
mod polyraptor;
mod shipped;
mod storage;
mod tcp;
mod traffic;
mod unicast;
mod verdict;
mod ways;

pub use lab::{Lab, Scale, Scope};
pub use larger::{Larger, larger};
pub use learnt::learnt;
pub use open::{QUESTIONS, Question};
pub use traffic::{Traffic, Unavailable};
pub use verdict::{Check, Verdict};

use anyhow::{Result, bail};

#[cfg(feature = "long-link")]
use self::maelstrom::simulated;
use self::maelstrom::{appliance, delivery, throughput};

/// A figure that can be reproduced.
#[derive(Clone, Copy)]
pub struct Figure {
    /// `scdp-5`
    pub name: &'static str,
    /// What it shows.
    pub title: &'static str,
    run: fn(&mut Lab) -> Result<()>,
}

impl Figure {
    /// Runs it.
    ///
    /// # Errors
    /// A run failed.
    pub fn reproduce(&self, lab: &mut Lab) -> Result<()> {
        (self.run)(lab)?;
        lab.note_missing();
        lab.note_stolen();
        Ok(())
    }
}

/// All figures, in the order of the papers.
pub const FIGURES: &[Figure] = &[
    Figure { name: "scdp-abstract", title: "the abstract's gains", run: gains::figure },
    Figure { name: "scdp-1a", title: "writes without multicast", run: storage::figure_1a },
    Figure { name: "scdp-1b", title: "reads without many-to-one", run: storage::figure_1b },
    Figure { name: "scdp-5", title: "one-to-many", run: storage::figure_5 },
    Figure { name: "scdp-6", title: "many-to-one", run: storage::figure_6 },
    Figure { name: "scdp-7", title: "web search", run: unicast::figure_7 },
    Figure { name: "scdp-8", title: "data mining", run: unicast::figure_8 },
    Figure { name: "scdp-9", title: "web search at 10 Gbit/s", run: unicast::figure_9 },
    Figure { name: "scdp-10", title: "web search over storage traffic", run: unicast::figure_10 },
    Figure { name: "scdp-11", title: "data mining over storage traffic", run: unicast::figure_11 },
    Figure { name: "scdp-12a", title: "incast", run: unicast::figure_12a },
    Figure { name: "scdp-12d", title: "outcast", run: unicast::figure_12d },
    Figure { name: "scdp-13", title: "initial window", run: unicast::figure_13 },
    Figure { name: "scdp-14", title: "sessions that decode", run: unicast::figure_14 },
    Figure { name: "scdp-15", title: "window by link rate", run: unicast::figure_15 },
    Figure { name: "scdp-16", title: "symbols for nothing", run: storage::figure_16 },
    Figure { name: "scdp-17", title: "convergence", run: unicast::figure_17 },
    Figure { name: "scdp-raptorq", title: "blocks that do not decode", run: failures::figure },
    Figure { name: "polyraptor-1a", title: "writes", run: polyraptor::figure_1a },
    Figure { name: "polyraptor-1b", title: "reads", run: polyraptor::figure_1b },
    Figure { name: "polyraptor-1c", title: "incast", run: polyraptor::figure_1c },
    Figure { name: "lttp-4", title: "an outage", run: lttp::figure_4 },
    Figure { name: "lttp-5", title: "LT decoders", run: lttp::figure_5 },
    Figure { name: "lttp-6", title: "many to one", run: lttp::figure_6 },
    Figure { name: "lttp-7", title: "incast, DCTCP", run: lttp::figure_7 },
    Figure { name: "lttp-8", title: "DCTCP's windows at timeouts", run: lttp::figure_8 },
    Figure { name: "lttp-9", title: "many to one in a Fat-Tree", run: lttp::figure_9 },
    Figure {
        name: "lttp-10",
        title: "fairness among LTTP flows, and beside TCP",
        run: lttp::figure_10,
    },
    Figure { name: "lttp-table1", title: "overhead of the code", run: lttp::table_1 },
    Figure { name: "lttp-vb", title: "parameters of the code", run: lttp::section_5_b },
    Figure { name: "lttp-ns2", title: "TFRC beside ns-2", run: lttp::beside_ns_2 },
    Figure { name: "maelstrom-8", title: "recovery by loss", run: maelstrom::figure_8 },
    Figure { name: "maelstrom-9", title: "TCP over 100 Mbit/s", run: throughput::figure_9 },
    Figure { name: "maelstrom-10", title: "TCP over 1 Gbit/s", run: throughput::figure_10 },
    Figure { name: "maelstrom-11", title: "a slow stream's latency", run: delivery::figure_11 },
    Figure { name: "maelstrom-12", title: "a slow stream's spikes", run: delivery::figure_12 },
    Figure { name: "maelstrom-13", title: "prime interleaves", run: maelstrom::figure_13 },
    Figure { name: "maelstrom-14", title: "recovery by burst length", run: maelstrom::figure_14 },
    Figure { name: "maelstrom-15", title: "layers and Reed-Solomon", run: maelstrom::figure_15 },
    Figure { name: "maelstrom-16", title: "latency, (1,11,19)", run: maelstrom::figure_16 },
    Figure { name: "maelstrom-17", title: "latency, (1,19,41)", run: maelstrom::figure_17 },
    Figure { name: "maelstrom-bursts", title: "TCP and bursts", run: throughput::bursts },
    #[cfg(feature = "long-link")]
    Figure {
        name: "maelstrom-clean",
        title: "an adaptive pair, nothing lost",
        run: simulated::clean,
    },
    #[cfg(feature = "long-link")]
    Figure { name: "maelstrom-losing", title: "an adaptive pair by loss", run: simulated::losing },
    #[cfg(feature = "long-link")]
    Figure { name: "maelstrom-changing", title: "loss that changes", run: simulated::changing },
    #[cfg(feature = "long-link")]
    Figure { name: "maelstrom-thin", title: "messages and fetches", run: simulated::thin },
    Figure { name: "maelstrom-4.6", title: "capacity", run: appliance::section_4_6 },
    Figure { name: "maelstrom-4.7", title: "memory", run: appliance::section_4_7 },
    Figure { name: "open-sources", title: "fresh symbols or retransmissions", run: open::sources },
    Figure { name: "open-switches", title: "switches as they are sold", run: open::switches },
    Figure { name: "open-stragglers", title: "a slow member of a group", run: open::stragglers },
    Figure { name: "open-rates", title: "where coding stops paying", run: open::rates },
    Figure {
        name: "open-thresholds",
        title: "thresholds and windows by load",
        run: open::thresholds,
    },
    Figure { name: "open-lttp-tcp", title: "LTTP beside TCP", run: open::lttp_tcp },
    Figure { name: "open-hotspots", title: "hotspots", run: open::hotspots },
    Figure { name: "open-storage", title: "a storage cluster", run: open::storage },
];

/// Figures by name, or all of a paper (`scdp`).
///
/// # Errors
/// None of that name.
pub fn find(name: &str) -> Result<Vec<Figure>> {
    let family = format!("{name}-");
    let fits = |figure: &&Figure| figure.name == name || figure.name.starts_with(&family);
    let found: Vec<Figure> = FIGURES.iter().filter(fits).copied().collect();
    if found.is_empty() {
        let all: Vec<_> = FIGURES.iter().map(|figure| figure.name).collect();
        bail!("no figure `{name}`; there are: {}", all.join(", "));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use wellspring_experiments::sweep::Output;

    #[test]
    fn figures_are_found_by_name_and_by_paper() {
        let names: BTreeSet<_> = FIGURES.iter().map(|figure| figure.name).collect();
        assert_eq!(names.len(), FIGURES.len());
        assert_eq!(find("scdp-5").map(|found| found.len()).ok(), Some(1));
        assert_eq!(find("polyraptor").map(|found| found.len()).ok(), Some(3));
        assert!(find("scdp-99").is_err_and(|error| error.to_string().contains("scdp-5")));
    }

    #[test]
    fn the_outcast_is_judged_on_the_papers_protocol_and_not_on_a_variant() {
        let mut lab = Lab::new(Scale::default(), Output::default(), &|_, _, _| {});
        find("scdp-12d").unwrap()[0].reproduce(&mut lab).unwrap();
        let of = |what: &str| lab.checks.iter().find(|check| check.what.contains(what)).unwrap();
        assert_eq!(of("SCDP, both groups").verdict, Verdict::Reproduced, "{:?}", of("both groups"));
        // The paper's near flows have more than its far ones: ours have less, and both a tenth.
        assert_eq!(of("a near flow over a far one").verdict, Verdict::Missed);
        assert_eq!(of("both groups over the link").verdict, Verdict::MissedWithCause);
        // Without classes the groups are less unequal, and still not as the paper's: no cause is shown.
        assert_eq!(of("SCDP, near group").verdict, Verdict::Missed);
        assert_eq!(of("SCDP, far group").verdict, Verdict::Missed);
        assert_eq!(of("all in one class").verdict, Verdict::Reported);
    }

    #[test]
    fn a_quick_outcast_is_not_judged() {
        let scale = Scale { quick: true, ..Scale::default() };
        let mut lab = Lab::new(scale, Output::default(), &|_, _, _| {});
        find("scdp-12d").unwrap()[0].reproduce(&mut lab).unwrap();
        let judged =
            |check: &&Check| !matches!(check.verdict, Verdict::NotJudged | Verdict::Reported);
        assert_eq!(lab.checks.iter().find(judged), None);
        assert_eq!(lab.checks.len(), 14);
    }
}
