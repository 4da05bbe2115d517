//! LTTP's figures, run in small.

use wellspring_experiments::sweep::Output;
use wellspring_figures::{Lab, Scale, find};

/// What is missed: LTTP's own decoder takes more symbols beyond k than in the paper, and TCP's rate dips before it collapses.
const MISSED: [&str; 7] = [
    "36 servers of 64KiB [Mbit/s]",
    "mean over sizes and servers [Mbit/s]",
    "64KiB: goodput, 6 to 14 senders [Mbit/s]",
    "128KiB: goodput, 6 to 14 senders [Mbit/s]",
    "256KiB: goodput, 6 to 14 senders [Mbit/s]",
    // At full size it is one less.
    "64KiB: senders from which on the mean stays below 500 Mbit/s: 12 to 26 (paper ~15)",
    // There is no timeout.
    "16 senders: window of 2 to 4 segments at timeouts (paper 2.929)",
];

/// Deterministic simulations: a claim that held once holds always. Three seeds and few points are
/// too small for a verdict on the papers, but each row is within its tolerance or known not to be.
#[test]
fn the_figures_of_lttp_agree_with_the_paper_ns_2_and_ns_3() {
    for (name, least) in
        [("lttp-4", 1), ("lttp-6", 21), ("lttp-7", 13), ("lttp-8", 0), ("lttp-9", 9)]
    {
        // The first seed alone is 16 % above ns-2's only run in one point.
        let scale = Scale { quick: true, seeds: Some(vec![1, 2, 3]), ..Scale::default() };
        let mut lab = Lab::new(scale, Output::default(), &|_, _, _| {});
        find(name).unwrap()[0].reproduce(&mut lab).unwrap();
        let known = |what: &str| MISSED.contains(&what);
        let (mut passed, mut other) = (0, Vec::new());
        for check in &lab.checks {
            // What ns-2 and ns-3 have is a goal: no paper claims it.
            let goal = || match &check.tolerance {
                text if text.starts_with("goal") => Some(text.ends_with(": met")),
                _ => None,
            };
            let Some(fits) = check.fits.or_else(goal) else { continue };
            passed += usize::from(fits);
            if fits == known(&check.what) {
                other.push(check);
            }
        }
        assert!(other.is_empty(), "{name}: {other:#?}");
        assert!(passed >= least, "{name}: {passed}");
    }
}
