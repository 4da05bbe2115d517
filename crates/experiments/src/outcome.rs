//! Outcome of a run, its ending, and its progress until then.

use crate::observe::Series;
use crate::record::{Arrival, FlowRecord, Reason, Timeout};
use std::collections::BTreeMap;
use wellspring_sim::Counters;

/// What a run says of itself while it runs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Progress {
    /// Simulated time \[s\].
    pub simulated: f64,
    /// Events so far.
    pub events: u64,
    /// Simulated time at which it ends at the latest: as planned, or broken off \[s\].
    pub limit: f64,
    /// Requests finished, and all.
    pub finished: (u32, u32),
    /// What has arrived of those under way, in requests.
    pub parts: f64,
}

impl Progress {
    /// The part that is done, 0 to 1: of the requests, or of the time where these take all of it.
    pub fn share(&self) -> f64 {
        let finished = f64::from(self.finished.0) + self.parts;
        let requests = finished / f64::from(self.finished.1.max(1));
        requests.max(self.simulated / self.limit).min(1.0)
    }
}

/// How a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// Every request ended: completed, or failed for its [`Reason`].
    Complete,
    /// Requests were under way, and nothing reached any of them for `run.patience`, or nothing
    /// was left to happen.
    Stuck,
    /// `run.limit` came first: requests were under way, or not even made.
    Limit,
}

/// What is known of the requests that a run was stuck with.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Stuck {
    /// The oldest of them, a line each, and how far both ends of the first are.
    pub summary: String,
    /// All of them, and everything that these ends hold.
    pub state: String,
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// Every request, background flows last.
    pub flows: Vec<FlowRecord>,
    /// What arrived of timed flows.
    pub timeline: Vec<Arrival>,
    /// Retransmission timeouts, of TCP alone.
    pub timeouts: Vec<Timeout>,
    /// Counts of the network.
    pub counters: Counters,
    /// Simulated time at the end \[s\].
    pub simulated: f64,
    /// Share of host downlinks' capacity that carried packets.
    pub downlink_utilisation: f64,
    /// Queues and rates, if the scenario asks for samples.
    pub series: Series,
    /// How it ended.
    pub ending: Ending,
    /// Requests that were still to be made when it ended: they are not among the flows.
    pub not_made: u32,
    /// Of these, those over the TCP beside the protocol.
    pub not_made_beside: u32,
    /// The state of the requests that were left, if the run was stuck.
    pub stuck: Option<Stuck>,
}

impl Outcome {
    /// The requests measured, without the background.
    pub fn foreground(&self) -> impl Iterator<Item = &FlowRecord> {
        self.flows.iter().filter(|flow| flow.kind != "background")
    }

    /// How many requests did not complete, by the reason. Those not made are not counted.
    pub fn incomplete(&self) -> BTreeMap<Reason, usize> {
        let mut counts = BTreeMap::new();
        for reason in self.foreground().filter_map(|flow| flow.reason) {
            *counts.entry(reason).or_default() += 1;
        }
        counts
    }

    /// Goodputs of background flows \[bit/s\].
    pub fn background_goodputs(&self) -> Vec<f64> {
        let flows = self.flows.iter().filter(|flow| flow.kind == "background");
        flows.map(FlowRecord::goodput).collect()
    }
}
