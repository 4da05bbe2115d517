//! Share of sessions that decode: SCDP Fig. 14.

use crate::lab::{Lab, over};
use crate::plot::{LINE, Plot, SHIPPED, sample};
use crate::shipped::SCDP_AS_SHIPPED;
use anyhow::Result;

pub fn figure_14(lab: &mut Lab) -> Result<()> {
    let mut last = 0.0;
    let mut monotone = true;
    let (mut ours, mut shipped) = (Vec::new(), Vec::new());
    let quick = [("workload.sessions", "1000"), ("background.warmup", "20ms")];
    for (load, paper, range) in [
        ("0.5", "0.0044", 0.0022..=0.0088),
        ("0.6", "0.012", 0.006..=0.024),
        ("0.7", "0.096", 0.048..=0.192),
    ] {
        let settings = [("background.fraction", load), ("workload.lambda", "8000.0")];
        let cases = lab.measure("scdp-14", &quick, &[("scdp", &settings)])?;
        let share = over(&cases, "scdp", |row| row.decoded_share);
        lab.number(&format!("sessions that decode, load {load}, 8000/s"), paper, share, range);
        let x = load.parse::<f64>()?;
        ours.push(sample(&cases, "scdp", x, |row| row.decoded_share));
        let settings = [&SCDP_AS_SHIPPED[..], &settings].concat();
        let cases = lab.measure("scdp-14", &quick, &[("shipped", &settings)])?;
        lab.shipped(format!("{:.3}", over(&cases, "shipped", |row| row.decoded_share)));
        shipped.push(sample(&cases, "shipped", x, |row| row.decoded_share));
        monotone &= share >= last;
        last = share;
        // Whether the background has a share in it: as many sessions at each receiver without.
        let left = 1.0 - load.parse::<f64>()?;
        let lambda = format!("{:.1}", 8_000.0 / left);
        let settings = [("background.fraction", "0.0"), ("workload.lambda", &lambda)];
        let cases = lab.measure("scdp-14", &quick, &[("alone", &settings)])?;
        let share = over(&cases, "alone", |row| row.decoded_share);
        let what = format!("the same without background, as many sessions a host ({lambda}/s)");
        lab.note(&what, "-", format!("{share:.3}"));
        // As the authors' published models differ from the paper's text.
        for (what, key, value) in [
            ("classes by a session's whole size", "protocol.by_final_size", "true"),
            ("pulls every 12 us", "protocol.pull_rate", "1.0317Gbps"),
        ] {
            let settings = [
                ("background.fraction", load),
                ("workload.lambda", "8000.0"),
                ("topology.delay", "10us"),
                (key, value),
            ];
            let cases = lab.measure("scdp-14", &quick, &[("model", &settings)])?;
            let share = over(&cases, "model", |row| row.decoded_share);
            let what = format!("load {load}, {what} as in the authors' models, 10 us a link");
            lab.note(&what, paper, format!("{share:.3}"));
        }
    }
    lab.plot(
        Plot::new("Sessions that decode, 8000/s", "load", "share of sessions")
            .log_y()
            .curve("SCDP", LINE, ours)
            .curve("SCDP as shipped", SHIPPED, shipped)
            .paper([(0.5, 0.0044), (0.6, 0.012), (0.7, 0.096)]),
    );
    lab.holds("grows with load", format!("{monotone}"), monotone);
    Ok(())
}
