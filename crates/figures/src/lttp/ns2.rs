//! TCP's incast beside that of ns-2.35, which the paper used: goodput, and each segment that its port drops.

use super::curve::{SIZE, curve, goodput};
use crate::lab::Lab;
use crate::plot::plain;
use anyhow::Result;
use wellspring_experiments::results::RunRow;

/// ns-2's goodput for (senders, KiB a sender), of one run each \[Mbit/s\].
const COLLAPSED: [(u32, &str, f64); 10] = [
    (28, "64KiB", 69.8),
    (32, "64KiB", 77.7),
    (36, "64KiB", 89.2),
    (40, "64KiB", 99.0),
    (45, "64KiB", 108.0),
    (28, "256KiB", 240.7),
    (32, "256KiB", 264.1),
    (36, "256KiB", 296.2),
    (40, "256KiB", 332.3),
    (45, "256KiB", 361.6),
];
/// The same with few senders, where nothing is lost.
const WHOLE: [(u32, &str, f64); 5] = [
    (1, "64KiB", 530.1),
    (2, "64KiB", 731.5),
    (3, "64KiB", 816.2),
    (1, "256KiB", 799.4),
    (3, "256KiB", 921.1),
];
/// ns-2 begins with a SYN and ends with the last ACK at its sender: 40-byte packets over links of
/// 25 us, twice there and back but for the way of the last segment \[s\].
const MORE: f64 = 151.92e-6;

/// Its mean goodput of 6 to 11 senders of so many KiB, of ten seeds each whose starts are spread over 20 us \[Mbit/s\].
const FEW: [(&str, f64); 3] = [("64KiB", 898.1), ("128KiB", 720.1), ("256KiB", 892.0)];
/// Segments that its port drops of 64 KiB from 1, 2, ... senders that start within 1 us.
const DROPS: [u32; 29] = [
    0, 0, 0, 6, 26, 46, 61, 71, 84, 85, 90, 98, 102, 104, 108, 115, 125, 131, 136, 143, 151, 159,
    166, 176, 198, 203, 209, 217, 225,
];
/// The most senders that this was run with.
const MOST: u32 = 45;

/// Whether one of so many of them has a timeout.
fn times_out(senders: u32) -> bool {
    matches!(senders, 12 | 19 | 24..=MOST)
}

/// Its goodput of few senders of that size \[Mbit/s\]; not a number if it was not run.
pub(super) fn few(size: &str) -> f64 {
    FEW.iter().find(|point| point.0 == size).map_or(f64::NAN, |point| point.1)
}

/// Its collapsed branch, for a plot.
pub(super) fn collapsed(size: &str) -> impl Iterator<Item = [f64; 3]> {
    let of = COLLAPSED.iter().filter(move |point| point.1 == size);
    plain(of.map(|point| (point.0, point.2)))
}

pub(super) fn beside(lab: &mut Lab) -> Result<()> {
    for (count, size, expected) in COLLAPSED {
        let ours = curve(lab, "lttp-6-tcp", &[(SIZE, size)], &[count], goodput)?[0].1;
        let what = format!("{count} senders of {size}: goodput over ns-2's, of {expected} Mbit/s");
        lab.goal_beside(&what, "ns-2 1", ours / expected, 0.9..=1.1);
    }
    for (count, size, expected) in WHOLE {
        let settings = [(SIZE, size), ("workload.jitter", "1us")];
        let ours = curve(lab, "lttp-6-tcp", &settings, &[count], goodput)?[0].1;
        let bits = f64::from(count) * if size == "64KiB" { 65_536.0 } else { 262_144.0 } * 8.0;
        let whole = bits / (bits / ours + MORE * 1e6);
        let what = format!("{count} senders of {size}, with ns-2's SYN and last ACK [Mbit/s]");
        let range = expected * 0.995..=expected * 1.005;
        lab.goal_beside(&what, &format!("ns-2 {expected}"), whole, range);
    }
    let senders: Vec<u32> = (1..=MOST).step_by(if lab.quick() { 3 } else { 1 }).collect();
    let at_once = [(SIZE, "64KiB"), ("workload.jitter", "1us")];
    let alike = |lab: &Lab, halves: &str| -> Result<[usize; 2]> {
        let settings = [&at_once[..], &[("protocol.tcp.halves", halves)]].concat();
        let of = |column: fn(&RunRow) -> f64| curve(lab, "lttp-6-tcp", &settings, &senders, column);
        let (timeouts, drops) = (of(|row| row.timeouts as f64)?, of(|row| row.dropped as f64)?);
        let timeouts = timeouts.iter().filter(|(count, mean)| (*mean > 0.0) == times_out(*count));
        let is_alike = |(count, mean): &&(u32, f64)| {
            DROPS.get(*count as usize - 1).is_some_and(|drops| f64::from(*drops) == *mean)
        };
        Ok([timeouts.count(), drops.iter().filter(is_alike).count()])
    };
    let counted = senders.iter().filter(|count| **count as usize <= DROPS.len()).count();
    let all = [senders.len(), counted];
    let shown = |[timeouts, drops]: [usize; 2]| {
        format!("{timeouts} of {}; {drops} of {counted}", senders.len())
    };
    let what = "64KiB, starts within 1 us: numbers of senders, to 45, of which one has a timeout, or none, as in ns-2; and to 29 \
                of which it drops as many segments";
    let as_ns_2 = alike(lab, "window")?;
    lab.goal_holds(what, shown(as_ns_2), as_ns_2 == all);
    let by_rfc = alike(lab, "flight")?;
    lab.variant("... if a loss halves what is in flight (RFC 5681), not the window", shown(by_rfc));
    Ok(())
}
