//! LTTP's figures, as far as they are about LTTP itself, beside the paper and TFRC as it was run in
//! ns-2.35.

use super::{SIZE, curve, goodput, least_of, most_of, outage};
use crate::figures::lab::Lab;
use crate::results::RunRow;
use crate::stats::mean;
use anyhow::Result;

const DECODER: &str = "protocol.lttp.decoder";
const CODE_OVERHEAD: &str = "protocol.lttp.code_overhead";

fn least(curve: &[(u32, f64)]) -> f64 {
    curve.iter().map(|point| point.1).fold(f64::INFINITY, f64::min)
}

fn average(curve: &[(u32, f64)]) -> f64 {
    mean(&curve.iter().map(|point| point.1).collect::<Vec<_>>())
}

/// A curve's points in a line.
fn points(curve: &[(u32, f64)]) -> String {
    let shown = curve.iter().map(|(count, value)| format!("{count}: {value:.0}"));
    shown.collect::<Vec<_>>().join(", ")
}

/// Servers from `first` on: three apart, or nine in a quick figure.
fn many(lab: &Lab, first: u32) -> Vec<u32> {
    (first..=45).step_by(if lab.scale.quick { 9 } else { 3 }).collect()
}

pub fn figure_4(lab: &mut Lab) -> Result<()> {
    let reaction = outage::reaction();
    let number = |at: Option<f64>| at.unwrap_or(f64::INFINITY);
    lab.number("rate first cut [s]", "~0.30", number(reaction.cut), 0.27..=0.33);
    let sent = reaction.sent_meanwhile;
    lab.holds("symbols go on being sent in the outage and behind it", sent.to_string(), sent > 3);
    lab.note("rate before it, and after the cut [kbyte/s]", "-", reaction.rates());
    Ok(())
}

pub fn figure_5(lab: &mut Lab) -> Result<()> {
    let of = |lab: &Lab, decoder: &str, servers: &[u32]| {
        curve(lab, "lttp-5", &[(DECODER, decoder)], servers, goodput)
    };
    let improved = of(lab, "improved", &[45])?[0].1;
    let standard = of(lab, "standard", &[45])?[0].1;
    lab.number("45 servers, improved decoder [Mbit/s]", "790.48", improved, 711.4..=869.5);
    lab.note("45 servers, standard decoder [Mbit/s]", "112.18", format!("{standard:.1}"));
    lab.number("standard over improved", "0.142", standard / improved, 0.0..=0.3);
    for (decoder, what) in [
        ("rounds", "algorithm 1 by its text"),
        ("elimination", "elimination, not in the paper"),
        ("fixed", "7 % beyond k, as Table I says"),
    ] {
        let ours = of(lab, decoder, &[45])?[0].1;
        lab.note(&format!("45 servers, {what} [Mbit/s]"), "-", format!("{ours:.1}"));
    }
    let servers = many(lab, 3);
    for decoder in ["improved", "standard"] {
        let curve = of(lab, decoder, &servers)?;
        lab.note(&format!("{decoder}, by servers [Mbit/s]"), "-", points(&curve));
    }
    Ok(())
}

pub fn figure_6(lab: &mut Lab) -> Result<()> {
    for (size, overheads) in [("64KiB", true), ("128KiB", false), ("256KiB", false)] {
        for decoder in ["improved", "elimination"] {
            let settings = [(SIZE, size), (DECODER, decoder)];
            let curve = curve(lab, "lttp-6", &settings, &many(lab, 6), goodput)?;
            let what = format!("{size}, {decoder}: goodput by servers [Mbit/s]");
            lab.note(&what, "700 to 800, flat", points(&curve));
            let (least, average) = (least(&curve), average(&curve));
            let what = format!("{size}, {decoder}: least over mean");
            lab.number(&what, "no collapse", least / average, 0.75..=1.0);
        }
        if overheads {
            for (decoder, range) in [("improved", None), ("elimination", Some(693.0..=847.0))] {
                let settings = [(SIZE, size), (DECODER, decoder)];
                let ours = curve(lab, "lttp-6", &settings, &[36], goodput)?[0].1;
                let what = format!("36 servers of {size}, {decoder} [Mbit/s]");
                match range {
                    Some(range) => lab.number(&what, "770", ours, range),
                    None => lab.note(&what, "770", format!("{ours:.1}")),
                }
            }
        }
        let settings = [(SIZE, size), (DECODER, "elimination")];
        let few = curve(lab, "lttp-6", &settings, &[1, 2, 3, 4], goodput)?;
        lab.note(&format!("{size}, elimination: few servers [Mbit/s]"), "< 600", points(&few));
    }
    let settings = [(SIZE, "64KiB"), (DECODER, "improved")];
    let few = curve(lab, "lttp-6", &settings, &[1, 2, 3, 4], goodput)?;
    let most = few.iter().map(|point| point.1).fold(0.0, f64::max);
    lab.number("64KiB, improved: most of 1 to 4 servers [Mbit/s]", "< 600", most, 0.0..=640.0);
    Ok(())
}

pub fn figure_9(lab: &mut Lab) -> Result<()> {
    for decoder in ["improved", "elimination"] {
        let mut means = Vec::new();
        for size in ["64KiB", "128KiB", "256KiB"] {
            let settings = [(SIZE, size), (DECODER, decoder)];
            let curve = curve(lab, "lttp-9", &settings, &many(lab, 6), goodput)?;
            let what = format!("{size}, {decoder}: goodput by servers [Mbit/s]");
            lab.note(&what, "~700", points(&curve));
            means.push(average(&curve));
        }
        let what = format!("{decoder}: mean over sizes and servers [Mbit/s]");
        match decoder {
            "elimination" => lab.number(&what, "~700, flat", mean(&means), 616.0..=784.0),
            _ => lab.note(&what, "~700, flat", format!("{:.1}", mean(&means))),
        }
    }
    Ok(())
}

/// ns-2 has no request: 40 bytes over two links of 25 us \[s\].
const REQUEST: f64 = 50.64e-6;

/// What ns-2 had, with starts spread over 20 us: (senders, goodput \[Mbit/s\]), for 64 and 256
/// packets of data and 7 % more, means of three seeds.
type Reference = [(u32, f64)];

const NS2_64: &Reference = &[
    (1, 501.7),
    (2, 666.9),
    (3, 665.7),
    (4, 753.4),
    (5, 762.6),
    (6, 668.1),
    (8, 762.2),
    (10, 665.8),
    (12, 719.6),
    (15, 761.1),
    (18, 698.0),
    (20, 707.3),
    (24, 719.2),
    (25, 708.6),
    (28, 770.0),
    (30, 692.9),
    (33, 745.3),
    (36, 785.6),
    (40, 809.2),
    (43, 781.8),
    (45, 798.4),
];

pub fn beside_ns_2(lab: &mut Lab) -> Result<()> {
    for (packets, reference) in [(64_u32, NS2_64), (256, outage::NS2_256)] {
        let size = format!("{}B", packets * 984);
        let settings = [(SIZE, size.as_str()), (CODE_OVERHEAD, "0.07")];
        let servers: Vec<u32> = reference.iter().map(|point| point.0).collect();
        let bits = f64::from(packets) * 1_024.0 * 8.0;
        // As ns-2's script has it: from the first instant to the last block, starts included.
        let whole = |row: &RunRow| row.requests as f64 * bits / (row.simulated_s - REQUEST) / 1e6;
        let ours = curve(lab, "lttp-ns2", &settings, &servers, whole)?;
        let ratios: Vec<f64> = ours.iter().zip(reference).map(|(a, b)| a.1 / b.1).collect();
        for ((count, ours), (_, theirs)) in ours.iter().zip(reference) {
            let what = format!("{count} senders of {packets} packets [Mbit/s]");
            lab.note(&what, &format!("-; ns-2 {theirs:.1}"), format!("{ours:.1}"));
        }
        let what = format!("{packets} packets: ours over ns-2's, mean");
        lab.number(&what, "-; ns-2 1", mean(&ratios), 0.9..=1.1);
        let (low, high) = (least_of(&ratios), most_of(&ratios));
        let what = format!("{packets} packets: each within 0.8 to 1.3 of ns-2's");
        lab.holds(&what, format!("{low:.3} to {high:.3}"), low >= 0.8 && high <= 1.3);
    }
    Ok(())
}
