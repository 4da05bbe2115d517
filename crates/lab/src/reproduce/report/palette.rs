//! Colours of plots in a light and a dark theme.

use std::fmt::Write as _;

use plotters::style::RGBColor;
use wellspring_figures::plot::{Curve, Plot, Source};

/// Text and the paper's marks.
pub const INK: RGBColor = RGBColor(0x1F, 0x29, 0x33);
/// Axes and their quantities.
pub const MUTED: RGBColor = RGBColor(0x5B, 0x67, 0x74);
/// Lines behind the curves.
pub const GRID: RGBColor = RGBColor(0xE2, 0xE6, 0xEB);
/// Behind everything.
pub const BACKGROUND: RGBColor = RGBColor(0xFF, 0xFF, 0xFE);

/// The same in the dark theme.
const DARK: [(RGBColor, RGBColor); 4] = [
    (INK, RGBColor(0xE6, 0xE9, 0xEE)),
    (MUTED, RGBColor(0xA3, 0xAD, 0xBA)),
    (GRID, RGBColor(0x33, 0x3C, 0x47)),
    (BACKGROUND, RGBColor(0x16, 0x1B, 0x22)),
];

/// Curves, light and dark.
const CURVES: [(RGBColor, RGBColor); 10] = [
    (RGBColor(0x1F, 0x6F, 0xD6), RGBColor(0x6C, 0xA9, 0xFF)),
    (RGBColor(0xD2, 0x6A, 0x0C), RGBColor(0xF5, 0xA1, 0x54)),
    (RGBColor(0x8A, 0x4F, 0xBF), RGBColor(0xC6, 0x9C, 0xF4)),
    (RGBColor(0xBF, 0x2F, 0x3A), RGBColor(0xF4, 0x7F, 0x84)),
    (RGBColor(0x1E, 0x84, 0x4E), RGBColor(0x5F, 0xCC, 0x8D)),
    (RGBColor(0x0A, 0x82, 0x8C), RGBColor(0x4F, 0xC9, 0xD2)),
    (RGBColor(0x8C, 0x6A, 0x12), RGBColor(0xDC, 0xB9, 0x52)),
    (RGBColor(0xB8, 0x3D, 0x7D), RGBColor(0xF0, 0x8F, 0xC0)),
    (RGBColor(0x4A, 0x55, 0xB0), RGBColor(0x9A, 0xA5, 0xF2)),
    (RGBColor(0x6B, 0x72, 0x80), RGBColor(0xAE, 0xB6, 0xC2)),
];
/// The last one is for formulas and other implementations.
const REFERENCE: usize = CURVES.len() - 1;
/// Protocols that have the same colour in every plot: how their curves' names begin.
const NAMED: [(&str, usize); 8] = [
    ("SCDP", 0),
    ("RaptorQ", 0),
    ("LTTP", 0),
    ("NDP+", 2),
    ("NDP", 1),
    ("DCTCP", 4),
    ("TCP", 3),
    ("PIAS", 4),
];

/// The colour of a curve: its protocol's, unless another curve of the plot has it already.
pub fn colour(plot: &Plot, place: usize) -> RGBColor {
    CURVES[number(plot, place)].0
}

/// The curve of ours that a shipped one is instead of: its name is the beginning of the other's, the longest such.
fn instead_of(plot: &Plot, place: usize) -> Option<usize> {
    let shipped = &plot.curves[place].name;
    let is_begun = |curve: &Curve| curve.source == Source::Ours && shipped.starts_with(&curve.name);
    let begun = (0..place).filter(|other| is_begun(&plot.curves[*other]));
    begun.max_by_key(|other| plot.curves[*other].name.len())
}

fn number(plot: &Plot, place: usize) -> usize {
    let own = |curve: &Curve| NAMED.iter().find(|(start, _)| curve.name.starts_with(start));
    let reserved: Vec<usize> = plot.curves.iter().filter_map(own).map(|named| named.1).collect();
    let mut taken: Vec<usize> = Vec::new();
    let name = &plot.curves[place].name;
    let place = plot.curves.iter().position(|curve| curve.name == *name).unwrap_or(place);
    for (other, curve) in plot.curves.iter().enumerate().take(place + 1) {
        // What is shipped is dashed in the colour of what it is shipped instead of.
        let own = own(curve).map(|(_, number)| *number);
        let number = match (curve.source, own) {
            (Source::Paper, _) => continue,
            _ if plot.curves[..other].iter().any(|earlier| earlier.name == curve.name) => continue,
            (Source::Reference, _) => REFERENCE,
            (Source::Shipped, own) => instead_of(plot, other)
                .map(|place| number(plot, place))
                .or(own)
                .unwrap_or(taken.first().copied().unwrap_or(0)),
            (_, Some(own)) if !taken.contains(&own) => own,
            _ => (0..REFERENCE)
                .find(|free| !taken.contains(free) && !reserved.contains(free))
                .unwrap_or(other % REFERENCE),
        };
        if other == place {
            return number;
        }
        taken.push(number);
    }
    REFERENCE
}

fn hex(RGBColor(red, green, blue): RGBColor) -> String {
    format!("#{red:02X}{green:02X}{blue:02X}")
}

/// The style sheet of plots: which of them are dashed, and the colours of the dark theme, for drawings
/// by themselves and in a page.
pub fn style() -> String {
    let mut text = String::from(
        "[stroke-width=\"5\"]{stroke-dasharray:16 9}[stroke-width=\"3\"]{stroke-dasharray:4 7}\
         text{font-family:system-ui,sans-serif}",
    );
    text.push_str("@media(prefers-color-scheme:dark){");
    for (light, dark) in DARK.iter().chain(&CURVES) {
        let (light, dark) = (hex(*light), hex(*dark));
        let _ =
            write!(text, "[fill=\"{light}\"]{{fill:{dark}}}[stroke=\"{light}\"]{{stroke:{dark}}}");
    }
    text.push('}');
    text
}

#[cfg(test)]
mod tests {
    use wellspring_figures::plot::{LINE, SHIPPED};

    use super::*;

    #[test]
    fn a_protocol_has_the_same_colour_wherever_it_stands() {
        let plot = |names: &[&str]| {
            let plot = Plot::new("t", "x", "y");
            names.iter().fold(plot, |plot, name| plot.curve(*name, LINE, []))
        };
        let (both, alone) = (plot(&["SCDP", "NDP", "NDP+"]), plot(&["NDP"]));
        assert_eq!(colour(&both, 1), colour(&alone, 0));
        assert_ne!(colour(&both, 1), colour(&both, 2));
        let twice = plot(&["NDP, 1 replica", "NDP, 3"]);
        assert_ne!(colour(&twice, 0), colour(&twice, 1));
        let variant = plot(&["SCDP", "SCDP, one class", "NDP"]);
        assert_eq!(colour(&variant, 2), colour(&alone, 0));
        let flows = plot(&["LTTP", "LTTP", "LTTP", "LTTP", "LTTP", "TCP"]);
        assert_eq!(colour(&flows, 0), colour(&flows, 4), "the same name");
        assert_eq!(colour(&flows, 5), colour(&plot(&["TCP"]), 0));
        let shipped = plot(&["SCDP"]).curve("SCDP as shipped", SHIPPED, []);
        assert_eq!(colour(&shipped, 0), colour(&shipped, 1));
        let sizes = plot(&["LTTP, 64KiB", "LTTP, 128KiB"])
            .curve("LTTP, 64KiB, shipped", SHIPPED, [])
            .curve("LTTP, 128KiB, shipped", SHIPPED, []);
        for place in [0, 1] {
            assert_eq!(colour(&sizes, place), colour(&sizes, place + 2));
        }
    }

    #[test]
    fn every_colour_has_its_dark_one() {
        for colour in [INK, MUTED, GRID, BACKGROUND].into_iter().chain(CURVES.map(|pair| pair.0)) {
            assert!(style().contains(&format!("[fill=\"{}\"]", hex(colour))), "{colour:?}");
        }
        let all: std::collections::BTreeSet<_> = CURVES.iter().map(|pair| hex(pair.0)).collect();
        assert_eq!(all.len(), CURVES.len());
    }
}
