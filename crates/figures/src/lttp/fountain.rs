//! Figures about LTTP itself, beside the paper's and TFRC's in ns-2.35.

use super::curve::{SIZE, curve, goodput, least_of, most_of};
use super::outage;
use crate::lab::Lab;
use crate::plot::{CURVE, LINE, Plot, REFERENCE, SHIPPED, plain};
use anyhow::Result;
use wellspring_experiments::results::RunRow;
use wellspring_experiments::stats::mean;

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
    (first..=45).step_by(if lab.quick() { 9 } else { 3 }).collect()
}

pub fn figure_4(lab: &mut Lab) -> Result<()> {
    let reaction = outage::reaction();
    let number = |at: Option<f64>| at.unwrap_or(f64::INFINITY);
    lab.number("rate first cut [s]", "~0.30", number(reaction.cut), 0.27..=0.33);
    let sent = reaction.sent_meanwhile;
    lab.holds("symbols go on being sent in the outage and behind it", sent.to_string(), sent > 3);
    lab.note("rate before it, and after the cut [kbyte/s]", "-", reaction.rates());
    let points = reaction.trace.iter().map(|(at, rate)| (*at, rate * 8.0 / 1e6));
    let earlier = reaction.trace.iter().rev().find(|(at, _)| *at < 0.30);
    let before = earlier.map_or(0.0, |(_, rate)| rate * 8.0 / 1e6);
    let title = "LTTP's rate; the link is down from 0.20 to 0.22 s";
    lab.plot(
        Plot::new(title, "time [s]", "X [Mbit/s]")
            .curve("LTTP", CURVE, plain(points))
            .paper([(0.30, before)]),
    );
    Ok(())
}

pub fn figure_5(lab: &mut Lab) -> Result<()> {
    let of = |lab: &Lab, decoder: &str, servers: &[u32]| {
        curve(lab, "lttp-5", &[(DECODER, decoder)], servers, goodput)
    };
    let improved = of(lab, "improved", &[45])?[0].1;
    let standard = of(lab, "standard", &[45])?[0].1;
    lab.number("45 servers, improved decoder [Mbit/s]", "790.48", improved, 711.4..=869.5);
    let shipped = of(lab, ELIMINATION, &[45])?[0].1;
    lab.shipped(format!("{shipped:.3}"));
    lab.note("45 servers, standard decoder [Mbit/s]", "112.18", format!("{standard:.1}"));
    lab.reading(STANDARD, "standard over improved", "0.142", standard / improved, 0.07..=0.3);
    for (decoder, what) in [
        ("rounds", "algorithm 1 by its text"),
        ("elimination", "Gaussian elimination"),
        ("fixed", "7 % beyond k, as Table I says"),
    ] {
        let ours = of(lab, decoder, &[45])?[0].1;
        lab.variant(&format!("45 servers, {what} [Mbit/s]"), format!("{ours:.1}"));
    }
    let servers = many(lab, 3);
    let mut plot = Plot::new("LTTP's decoders, 256 KiB", "servers", "goodput [Mbit/s]");
    for (decoder, style) in [("improved", LINE), ("standard", LINE), ("elimination", SHIPPED)] {
        let curve = of(lab, decoder, &servers)?;
        plot = plot.curve(decoder_name(decoder), style, plain(curve.iter().copied()));
        if decoder == "elimination" {
            continue;
        }
        lab.note(&format!("{decoder}, by servers [Mbit/s]"), "-", points(&curve));
    }
    lab.plot(plot.paper([(45.0, 790.48), (45.0, 112.18)]));
    Ok(())
}

/// What the paper does not say of the decoder that it improves on.
const STANDARD: &str = "the standard decoder keeps no packets between rounds of decoding";

/// A decoder's name in plots.
fn decoder_name(decoder: &str) -> String {
    match decoder {
        ELIMINATION => "LTTP, elimination (shipped)".to_owned(),
        decoder => format!("LTTP, {decoder}"),
    }
}

/// The decoder of the paper, on which its figures are judged, and one that it does not have.
const PAPERS: &str = "improved";
const ELIMINATION: &str = "elimination";

pub fn figure_6(lab: &mut Lab) -> Result<()> {
    let mut plot = Plot::new("LTTP: goodput by servers", "servers", "goodput [Mbit/s]");
    for size in ["64KiB", "128KiB", "256KiB"] {
        for decoder in [PAPERS, ELIMINATION] {
            let settings = [(SIZE, size), (DECODER, decoder)];
            let curve = curve(lab, "lttp-6", &settings, &many(lab, 6), goodput)?;
            let (name, style) = match decoder {
                PAPERS => (format!("LTTP, {size}"), LINE),
                _ => (format!("LTTP, {size}, elimination (shipped)"), SHIPPED),
            };
            plot = plot.curve(name, style, plain(curve.iter().copied()));
            let part = least(&curve) / average(&curve);
            let what = format!("{size}: goodput by servers [Mbit/s]");
            if decoder == PAPERS {
                lab.note(&what, "700 to 800, flat", points(&curve));
                let what = format!("{size}: least over mean");
                lab.number(&what, "no collapse", part, 0.75..=1.0);
            } else {
                let ours = format!("{}; least over mean {part:.3}", points(&curve));
                lab.variant(&format!("{what}, decoded by elimination"), ours);
            }
        }
        if size == "64KiB" {
            let at_36 = |lab: &Lab, decoder| {
                let settings = [(SIZE, size), (DECODER, decoder)];
                Ok::<_, anyhow::Error>(curve(lab, "lttp-6", &settings, &[36], goodput)?[0].1)
            };
            let (ours, elimination) = (at_36(lab, PAPERS)?, at_36(lab, ELIMINATION)?);
            let range = 693.0..=847.0;
            let shown = range.contains(&elimination);
            lab.number("36 servers of 64KiB [Mbit/s]", "770", ours, range);
            lab.cause("symbols that belief propagation needs beyond k", shown);
            lab.shipped(format!("{elimination:.3}"));
            let what = "36 servers of 64KiB, decoded by elimination [Mbit/s]";
            lab.variant(what, format!("{elimination:.1}"));
        }
        let settings = [(SIZE, size), (DECODER, ELIMINATION)];
        let few = curve(lab, "lttp-6", &settings, &[1, 2, 3, 4], goodput)?;
        let what = format!("{size}: few servers, decoded by elimination [Mbit/s]");
        lab.variant(&what, points(&few));
    }
    let settings = [(SIZE, "64KiB"), (DECODER, PAPERS)];
    let few = curve(lab, "lttp-6", &settings, &[1, 2, 3, 4], goodput)?;
    let most = few.iter().map(|point| point.1).fold(0.0, f64::max);
    lab.number("64KiB: most of 1 to 4 servers [Mbit/s]", "< 600", most, 0.0..=640.0);
    lab.plot(plot.paper([(36.0, 770.0)]));
    Ok(())
}

pub fn figure_9(lab: &mut Lab) -> Result<()> {
    let mut means = Vec::new();
    let title = "LTTP in a Fat-Tree: goodput by servers";
    let mut plot = Plot::new(title, "servers", "goodput [Mbit/s]");
    for decoder in [PAPERS, ELIMINATION] {
        let mut by_size = Vec::new();
        for size in ["64KiB", "128KiB", "256KiB"] {
            let settings = [(SIZE, size), (DECODER, decoder)];
            let curve = curve(lab, "lttp-9", &settings, &many(lab, 6), goodput)?;
            let (name, style) = match decoder {
                PAPERS => (format!("LTTP, {size}"), LINE),
                _ => (format!("LTTP, {size}, elimination (shipped)"), SHIPPED),
            };
            plot = plot.curve(name, style, plain(curve.iter().copied()));
            let what = format!("{size}: goodput by servers [Mbit/s]");
            if decoder == PAPERS {
                lab.note(&what, "~700", points(&curve));
            } else {
                lab.variant(&format!("{what}, decoded by elimination"), points(&curve));
            }
            by_size.push(average(&curve));
        }
        means.push(mean(&by_size));
    }
    let range = 616.0..=784.0;
    let shown = range.contains(&means[1]);
    lab.number("mean over sizes and servers [Mbit/s]", "~700, flat", means[0], range);
    lab.cause("symbols that belief propagation needs beyond k", shown);
    lab.shipped(format!("{:.3}", means[1]));
    lab.plot(plot.paper([(18.0, 700.0), (36.0, 700.0)]));
    let what = "mean over sizes and servers, decoded by elimination [Mbit/s]";
    lab.variant(what, format!("{:.1}", means[1]));
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
        lab.goal_beside(&what, "ns-2 1", mean(&ratios), 0.9..=1.1);
        let title = format!("TFRC, {packets} packets a sender: ours beside ns-2's");
        lab.plot(
            Plot::new(title, "senders", "goodput [Mbit/s]")
                .curve("LTTP", LINE, plain(ours.iter().copied()))
                .curve("ns-2", REFERENCE, plain(reference.iter().copied())),
        );
        let (low, high) = (least_of(&ratios), most_of(&ratios));
        let what = format!("{packets} packets: each within 0.8 to 1.3 of ns-2's");
        lab.goal_holds(&what, format!("{low:.3} to {high:.3}"), low >= 0.8 && high <= 1.3);
    }
    Ok(())
}
