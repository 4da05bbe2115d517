//! NDP beside htsim's on the same traffic.
//!
//! htsim's outcomes are those of csg-htsim 841d9e7, means over its seeds 1 to 5:
//!
//! ```text
//! htsim_ndp -tm MATRIX -nodes 128 -cwnd 23 -q 8 -mtu 9000 -linkspeed 10000 -hop_latency 1 -switch_latency 0 \
//!     -strat perm -end 100000 -seed SEED
//! ```
//!
//! Its packets have 9,000 bytes of payload and 64 of header. A queue of 72,000 bytes holds seven of these with the one
//! that is being sent, which is not counted here.

use wellspring_experiments::run::{Outcome, run};
use wellspring_experiments::scenario::Plan;
use wellspring_experiments::stats::mean;

const NETWORK: &str = "name = \"t\"\n[topology]\nk = 8\nrate = \"10Gbps\"\ndelay = \"1us\"\n[switch]\n\
    buffer_packets = 6\nspraying = \"label\"\nvictim = \"arriving-or-last\"\n[protocol]\nname = \"ndp\"\nwindow = 23\n\
    packet = 9064\n[workload]\nkind = \"trace\"\n";

fn outcomes(flows: impl Iterator<Item = (u32, u32, u64)>) -> Vec<Outcome> {
    let lines = flows.map(|(from, to, bytes)| format!("{from}->{to} start 0 size {bytes}"));
    let matrix = lines.collect::<Vec<_>>().join("\\n");
    let plan = Plan::parse(&format!("{NETWORK}matrix = \"Nodes 128\\n{matrix}\"\n")).unwrap();
    let scenario = plan.scenarios().unwrap().remove(0);
    [1, 2, 3, 4, 5].map(|seed| run(&scenario, seed, &mut |_| {}).unwrap()).into()
}

/// Mean and greatest completion time \[us\], and trimmed packets: means over the seeds.
fn figures(outcomes: &[Outcome]) -> [f64; 3] {
    let each = outcomes.iter().map(|outcome| {
        let times: Vec<f64> =
            outcome.foreground().map(|flow| flow.completion().unwrap() * 1e6).collect();
        [mean(&times), times.iter().copied().fold(0.0, f64::max), outcome.counters.trimmed as f64]
    });
    let each: Vec<[f64; 3]> = each.collect();
    [0, 1, 2].map(|figure| mean(&each.iter().map(|one| one[figure]).collect::<Vec<_>>()))
}

/// Completion times within 2 %, trims within 20 %.
fn agree(ours: [f64; 3], htsim: [f64; 3]) {
    for ((ours, htsim), bound) in ours.into_iter().zip(htsim).zip([0.02, 0.02, 0.2]) {
        assert!((ours / htsim - 1.0).abs() <= bound, "{ours} beside htsim's {htsim}");
    }
}

#[test]
fn a_permutation_takes_as_long_as_in_htsim() {
    let ring = (0..128).map(|host| (host, (5 * host + 3) % 128, 2_000_000));
    agree(figures(&outcomes(ring)), [1_753.5, 1_808.3, 317.0]);
}

#[test]
fn an_incast_takes_as_long_as_in_htsim() {
    let senders = (1..=100).map(|host| (host, 0, 135_000));
    agree(figures(&outcomes(senders)), [10_564.1, 11_050.6, 1_499.0]);
}
