//! Questions that the papers left open, as experiments.

mod hotspots;
mod lttp_tcp;
mod pias_solver;
mod rates;
mod sources;
mod storage;
mod stragglers;
mod switches;
mod thresholds;

pub use hotspots::figure as hotspots;
pub use lttp_tcp::figure as lttp_tcp;
pub use rates::figure as rates;
pub use sources::figure as sources;
pub use storage::figure as storage;
pub use stragglers::figure as stragglers;
pub use switches::figure as switches;
pub use thresholds::figure as thresholds;

use super::lab::{Lab, Settings};
use anyhow::Result;
use wellspring_experiments::results::RunRow;
use wellspring_experiments::stats::MeanOfRuns;

/// A question, and the experiment that answers it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Question {
    /// `open-switches`, the figure's name.
    pub figure: &'static str,
    /// The question.
    pub question: &'static str,
    /// What is simulated, and what is not.
    pub set_up: &'static str,
}

/// All questions, in the order of their figures.
pub const QUESTIONS: &[Question] = &[
    Question {
        figure: "open-sources",
        question: "SCDP's journal paper argues that fresh symbols are better than retransmissions when an object \
                   comes from several senders or goes to several receivers. Is a protocol that retransmits, extended \
                   to several, worse?",
        set_up: "Reads of 4 MB from three of 16 hosts (Fat-Tree, 1 Gbit/s, 1 us a link, 10 reads a second), four of \
                 which send through a slower link. SCDP pulls from all three at once what each can send. NDP reads from \
                 the nearest, a third from each, or (our extension) pieces of 100 packets. \
                 Then writes of 4 MB to three by load: SCDP to a group, NDP to a group (our extension: what one \
                 replica asks for again goes to all), along a daisy chain, and a copy to each. Decoding takes what our \
                 codec takes.",
    },
    Question {
        figure: "open-switches",
        question: "Switches as they are sold trim to 128 or 256 bytes, drop the packets of groups instead of trimming \
                   them, and have few classes to spare. What remains of SCDP?",
        set_up: "Writes of 1 MB to three replicas as in SCDP's Fig. 5 and reads as in Fig. 6, on a Fat-Tree of 54 \
                 hosts, 30 % of which run background flows; web search sizes at load 0.5 for the classes. Each \
                 property of a switch as it is sold is taken alone, then all together. Three classes are those up to \
                 10 KB, up to 100 KB, and the rest. SCDP infers the losses of groups from gaps in packet numbers.",
    },
    Question {
        figure: "open-stragglers",
        question: "One receiver of three is on a slow link. What do the other two get, by the policy towards it, and \
                   what does it get itself?",
        set_up: "Writes of 20 MB to three hosts on one switch at 1 Gbit/s, one write at a time, with a slow link to \
                 one of them; on a network that drops and shares, and on one that trims but drops groups. A write is \
                 complete when two hosts have it (the rest of the group) or when all three have it (the slow one). \
                 Policies: wait for it, detach it as is shipped, and detach it by its backlog alone.",
    },
    Question {
        figure: "open-rates",
        question: "At 10, 40, 100 and 400 Gbit/s, where does coding stop paying with the measured speed of our codec?",
        set_up: "Reads of 4 MB from three replicas in packets of 9,000 bytes, on a Fat-Tree of 16 hosts with 1 us a \
                 link; the load is 30 % of the hosts' links at each rate, and the window of every sender is rate times round trip. A \
                 block takes the time measured with all symbols of 8,192 bytes \
                 lost (bench/record/2026-11-25-codec.md, Zen 5, and -zen3.md), and blocks are decoded on as many cores \
                 as there are blocks at once. The cost of packets at hosts is not simulated.",
    },
    Question {
        figure: "open-thresholds",
        question: "PIAS computes thresholds from sizes and load. What would SCDP gain if its thresholds and its window \
                   were chosen by load instead of once and for all?",
        set_up: "Web search sizes on a Fat-Tree of 54 hosts at loads 0.3, 0.5 and 0.7, with 5 us a link. The paper's \
                 four thresholds are multiplied by a common factor from 1/16 to 16, and the window goes from 4 to 48 \
                 symbols. Then each threshold by itself is chosen as PIAS does, with least delay in its model of the \
                 queues at that load (Bai et al., NSDI 2015, section 4.2), minimised numerically.",
    },
    Question {
        figure: "open-lttp-tcp",
        question: "LTTP's paper shows fairness beside TCP for one port and one round trip. How do the two share a port, \
                   by its depth and by bandwidth times delay?",
        set_up: "Five LTTP and five TCP NewReno flows (RFC 6928's initial window, no narrow receive window, least \
                 timeout 200 ms) through one port of 1 Gbit/s for 8 s. The port holds 32 KiB to 2 MiB; the round trip \
                 is 0.1 to 40 ms, which is 12 KB to 5 MB of bandwidth times delay.",
    },
    Question {
        figure: "open-hotspots",
        question: "Polyraptor's posters announced a study of hotspots. What do a slow link, a lost switch and \
                   over-subscription cost, and how often is a block decoded?",
        set_up: "Reads of 4 MB from three replicas and writes of 4 MB to three, 200 a second, on a Fat-Tree of 54 hosts \
                 with 1 us a link: undisturbed; with one of 81 links between aggregation and core at 100 Mbit/s; with an \
                 aggregation switch that fails after 0.5 s, to which packets are sent for 50 ms more; and with a third \
                 of the core. NDP reads a third from each replica, writes along a daisy chain and leaves no path out, \
                 TCP reads from one replica and writes likewise. Decoding takes what our codec takes.",
    },
    Question {
        figure: "open-storage",
        question: "What does an application see of a storage cluster: how long do reads and writes take at the median \
                   and in the tail, while the cluster is quiet, when it loses a rack, and while it rebuilds?",
        set_up: "Requests for blocks of 1 MB with three replicas, 400 a second, on a Fat-Tree of 54 hosts, reads and \
                 writes apart. In a rebuild 30 % of the hosts copy blocks of 4 MB without pause, in the class of the \
                 background. NDP and TCP read from one replica and write along a daisy chain. When a rack of three hosts \
                 is lost, its switch stops after 0.1 s, and clients go on to choose its replicas; as shipped SCDP detaches \
                 silent replicas, and a write is complete with two. Nobody asks again elsewhere.",
    },
];

/// A mean over seeds of one case of a scenario.
fn one(
    lab: &Lab,
    scenario: &str,
    quick: Settings<'_>,
    settings: Settings<'_>,
) -> Result<Vec<RunRow>> {
    let mut cases = lab.measure(scenario, quick, &[("case", settings)])?;
    Ok(cases.remove("case").unwrap_or_default())
}

/// Mean over runs: of those that have a value.
fn average<V: Into<Option<f64>>>(rows: &[RunRow], column: impl Fn(&RunRow) -> V) -> f64 {
    MeanOfRuns::new(rows.iter().map(column)).mean
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FIGURES, learnt};

    #[test]
    fn every_question_has_a_figure_and_an_answer() {
        let open =
            FIGURES.iter().map(|figure| figure.name).filter(|name| name.starts_with("open-"));
        let asked: Vec<&str> = QUESTIONS.iter().map(|question| question.figure).collect();
        assert_eq!(open.collect::<Vec<_>>(), asked);
        for question in QUESTIONS {
            assert!(question.question.ends_with('?'), "{}", question.figure);
            assert!(!learnt(question.figure).is_empty(), "{}", question.figure);
        }
    }
}
