//! The initial window: SCDP Figs. 13 and 15.

use crate::lab::{Cases, EVERYBODY, Lab, Settings, over};
use crate::plot::{LINE, Plot, REFERENCE, plain, sample};
use anyhow::Result;
use wellspring_experiments::results::RunRow;

pub fn figure_13(lab: &mut Lab) -> Result<()> {
    let quick = [("workload.sessions", "60"), ("background.warmup", "5ms")];
    for delay in ["10us", "1us"] {
        let windows = ["2", "6", "12", "20", "24", "52"];
        let labels: Vec<_> = windows
            .iter()
            .map(|w| (*w, [("protocol.window", *w), ("topology.delay", delay)]))
            .collect();
        let settings: Vec<_> = labels.iter().map(|(label, s)| (*label, &s[..])).collect();
        let cases = lab.measure("scdp-13", &quick, &settings)?;
        let curve: Vec<_> =
            windows.iter().map(|w| over(&cases, w, |row| row.goodput_mean)).collect();
        let text = curve.iter().map(|g| format!("{g:.3}")).collect::<Vec<_>>().join(" ");
        let what = format!("mean goodput at w = 2 6 12 20 24 52, {delay} [Gbit/s]");
        lab.note(&what, "rises to 12, flat to 24, lower at 52", text);
        draw(lab, &cases, &windows, delay)?;
        if delay == "10us" {
            let knee = round_trip(1.0, 10.0) * 1e3 / (1_500.0 * 8.0);
            let what = "goodput at w = 12 over that at 20: saturated, 10us";
            lab.number(what, "~1 (saturates at 12)", curve[2] / curve[3], 0.95..=1.05);
            let bound = 12.0 / knee;
            let why = "w = 12 over rate times round trip, which bounds what one round trip carries";
            lab.cause(why, (curve[2] / curve[3] / bound - 1.0).abs() <= 0.1);
        }
        let drop = 1.0 - curve[5] / curve[3].max(curve[4]);
        let reading = "1 us a link";
        let mut judge = |what: &str, paper: &str, ours, range| match delay {
            "10us" => lab.number(what, paper, ours, range),
            _ => lab.reading(reading, what, paper, ours, range),
        };
        judge(&format!("drop from 24 to 52, {delay}"), ">= 0.10", drop, 0.10..=f64::MAX);
        for (window, paper, range) in
            [("12", "13", 8.45..=17.55), ("20", "32", 20.8..=43.2), ("52", "39", 25.35..=52.65)]
        {
            let trims = over(&cases, window, |row| row.trimmed_per_request);
            judge(&format!("trims a session, w = {window}, {delay}"), paper, trims, range);
        }
    }
    trims_at_the_models_pace(lab, &quick)?;
    windows_with_everybody(lab, &quick)
}

/// Goodput and trims by window, with the paper's trims.
fn draw(lab: &mut Lab, cases: &Cases, windows: &[&str], delay: &str) -> Result<()> {
    let points = |column: fn(&RunRow) -> Option<f64>| {
        windows.iter().map(|w| Ok(sample(cases, w, w.parse()?, column))).collect::<Result<Vec<_>>>()
    };
    let delay = delay.replace("us", " us");
    let window = "initial window [symbols]";
    lab.plot(
        Plot::new(format!("Goodput by window, {delay} a link"), window, "mean goodput [Gbit/s]")
            .curve("SCDP", LINE, points(|row| row.goodput_mean)?),
    );
    lab.plot(
        Plot::new(format!("Trims by window, {delay} a link"), window, "mean trims a session")
            .curve("SCDP", LINE, points(|row| row.trimmed_per_request)?)
            .paper([(12.0, 13.0), (20.0, 32.0), (52.0, 39.0)]),
    );
    Ok(())
}

/// Trims in the sessions that had any, where pulls come every 12 us, as in the authors' models: 3 %
/// faster than packets of 1,500 bytes with their headers leave.
fn trims_at_the_models_pace(lab: &mut Lab, quick: Settings<'_>) -> Result<()> {
    for (window, paper, range) in
        [("12", "13", 8.45..=17.55), ("20", "32", 20.8..=43.2), ("52", "39", 25.35..=52.65)]
    {
        let settings = [
            ("protocol.window", window),
            ("topology.delay", "1us"),
            ("protocol.pull_rate", "1.0317Gbps"),
        ];
        let cases = lab.measure("scdp-13", quick, &[("one", &settings)])?;
        let (trims, share) = (
            over(&cases, "one", |row| row.trimmed_per_request),
            over(&cases, "one", |row| row.decoded_share),
        );
        let what = format!("trims a session that lost any, w = {window}");
        let reading = "1 us a link, and a pull every 12 us as in the authors' models";
        lab.reading(reading, &what, paper, if share > 0.0 { trims / share } else { 0.0 }, range);
    }
    Ok(())
}

/// The window's effect where the hosts of the background are in the foreground too.
fn windows_with_everybody(lab: &mut Lab, quick: Settings<'_>) -> Result<()> {
    let windows = ["12", "20", "24", "52"];
    let settings = windows.map(|w| [("protocol.window", w), ("topology.delay", "10us"), EVERYBODY]);
    let cases: Vec<_> = windows.iter().zip(&settings).map(|(w, s)| (*w, &s[..])).collect();
    let cases = lab.measure("scdp-13", quick, &cases)?;
    let curve = windows.map(|w| over(&cases, w, |row| row.goodput_mean));
    let what =
        "background's hosts in the foreground too: goodput at w = 12 20 24 52, 10us [Gbit/s]";
    lab.note(what, "flat to 24, lower at 52", curve.map(|g| format!("{g:.3}")).join(" "));
    let drop = 1.0 - curve[3] / curve[1].max(curve[2]);
    lab.note("likewise: drop from 20 or 24 to 52", ">= 0.10", format!("{drop:.3}"));
    Ok(())
}

/// Microseconds from a data packet's start to the answer of its pull: six links each way, stored
/// and forwarded, data of 1,500 bytes and pulls of 64.
fn round_trip(gigabits: f64, delay_us: f64) -> f64 {
    6.0 * ((1_500.0 + 64.0) * 8.0 / gigabits / 1e3 + 2.0 * delay_us)
}

pub fn figure_15(lab: &mut Lab) -> Result<()> {
    let mut curves = [const { Vec::new() }; 3];
    let mut products = Vec::new();
    for (rate, gigabits, paper) in
        [("1Gbps", 1.0, 12.0), ("5Gbps", 5.0, 24.0), ("10Gbps", 10.0, 32.0)]
    {
        for (place, (delay, delay_us)) in
            [("10us", 10.0), ("5us", 5.0), ("1us", 1.0)].into_iter().enumerate()
        {
            let least = f64::from(least_window(lab, rate, delay)?);
            let what = format!("least w for full rate, {rate}, {delay} a link");
            // The paper's links have 10 us; its numbers might be of shorter ones.
            let packets = round_trip(gigabits, delay_us) * gigabits * 1e3 / (1_500.0 * 8.0);
            curves[place].push((gigabits, least));
            if place == 0 {
                products.push((gigabits, packets));
            }
            let exact = packets - 1.0..=packets + 1.0;
            if delay == "10us" {
                lab.number(&what, &paper.to_string(), least, 0.9 * paper..=1.1 * paper);
                let why = "bandwidth times round trip, which the search finds to a packet";
                lab.cause(why, exact.contains(&least));
            } else {
                lab.note(&what, &paper.to_string(), format!("{least:.3}"));
            }
            lab.goal(&format!("... to a packet of rate x RTT, {packets:.1}"), least, exact);
        }
    }
    let [far, near, nearest] = curves;
    lab.plot(
        Plot::new("Least window for the full rate", "link rate [Gbit/s]", "window [symbols]")
            .curve("10 us a link", LINE, plain(far))
            .curve("5 us a link", LINE, plain(near))
            .curve("1 us a link", LINE, plain(nearest))
            .curve("rate x RTT, 10 us", REFERENCE, plain(products))
            .paper([(1.0, 12.0), (5.0, 24.0), (10.0, 32.0)]),
    );
    Ok(())
}

/// The least window that gives one flow between pods its full rate.
fn least_window(lab: &Lab, rate: &str, delay: &str) -> Result<u16> {
    let goodput = |window: u16| -> Result<f64> {
        let window = window.to_string();
        let settings = [
            ("protocol.window", window.as_str()),
            ("topology.delay", delay),
            ("topology.rate", rate),
        ];
        let cases = lab.measure("scdp-15", &[], &[("one", &settings)])?;
        Ok(over(&cases, "one", |row| row.goodput_mean))
    };
    let full = goodput(200)? * 0.995;
    // Goodput rises with it.
    let (mut low, mut high) = (1, 200);
    while low < high {
        let middle = (low + high) / 2;
        if goodput(middle)? >= full { high = middle } else { low = middle + 1 }
    }
    Ok(low)
}
