//! LTTP beside TCP, by port depth and bandwidth times delay.

use crate::lab::{Lab, Settings};
use crate::lttp::Sharing;
use crate::plot::{LINE, Plot, REFERENCE, plain};
use anyhow::Result;
use wellspring_experiments::stats::mean;

const QUICK: Settings<'static> = &[("workload.duration", "1s")];

const DEPTHS: [u32; 7] = [32, 64, 128, 256, 512, 1_024, 2_048];
/// Delay of each of two links, and the round trip of four \[ms\].
const DELAYS: [(&str, &str); 5] =
    [("25us", "0.1"), ("250us", "1"), ("1ms", "4"), ("2500us", "10"), ("10ms", "40")];

pub fn figure(lab: &mut Lab) -> Result<()> {
    let title = "Five LTTP and five TCP flows: an LTTP flow's rate over a TCP flow's";
    let (x, y) = ("depth of the port [KiB]", "LTTP over TCP");
    let mut plot = Plot::new(title, x, y).log_x().log_y();
    let mut used = Plot::new("Utilisation of the port's link", x, "share of the rate").log_x();
    for (delay, round_trip) in DELAYS {
        let (mut ratios, mut utilisations, mut texts) = (Vec::new(), Vec::new(), Vec::new());
        for depth in DEPTHS {
            let buffer = format!("{depth}KiB");
            let settings = [("topology.delay", delay), ("switch.buffer", &*buffer)];
            let runs = lab.watch("open-lttp-tcp", QUICK, &settings, "shares", |outcome| {
                let sharing = Sharing::of(outcome);
                let [lttp, tcp] = sharing.means();
                [lttp, tcp, sharing.utilisation()]
            })?;
            let of = |place: usize| mean(&runs.iter().map(|run| run[place]).collect::<Vec<_>>());
            let ratio = of(0) / of(1).max(1e-3);
            ratios.push((depth, ratio));
            utilisations.push((depth, of(2)));
            texts.push(format!("{ratio:.2}"));
        }
        let depths = DEPTHS.map(|depth| depth.to_string()).join(", ");
        let what = format!("round trip of {round_trip} ms: LTTP over TCP, by {depths} KiB");
        lab.variant(&what, texts.join(", "));
        plot = plot.curve(format!("RTT {round_trip} ms"), LINE, plain(ratios));
        used = used.curve(format!("RTT {round_trip} ms"), LINE, plain(utilisations));
    }
    let ends = [(DEPTHS[0], 1.0), (DEPTHS[DEPTHS.len() - 1], 1.0)];
    lab.plot(plot.curve("equal", REFERENCE, plain(ends)));
    lab.plot(used);
    Ok(())
}
