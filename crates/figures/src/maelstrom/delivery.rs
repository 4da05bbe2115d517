//! Figs. 11 and 12: delivery latency of a slow TCP stream beside a flow of 10 Mbit/s.

use anyhow::Result;
use serde::Deserialize;

use super::real_seeds;
use crate::Lab;
use crate::plot::{LINE, Plot, plain};
use crate::traffic::typed;
use wellspring_experiments::stats::mean;

/// (7, 2) and I = (1, 10).
const CODE: &str = "7,2:1,10";

/// One stream.
#[derive(Deserialize)]
struct Row {
    delay_ms: f64,
    loss: f64,
    code: String,
    mean_ms: f64,
    /// Messages a second.
    messages_per_s: f64,
    /// Messages that were late by more than a fifth of the way.
    late: u64,
    /// Runs of such messages, and how long the longest was.
    spikes: u64,
    longest_spike: u64,
}

fn measure(lab: &mut Lab, setting: &str, combinations: usize) -> Result<Option<Vec<Row>>> {
    let arguments = format!("--rate 100M --cc reno --code none {CODE} {setting}");
    let Some(traffic) = lab.traffic(&format!("a slow stream, {arguments}")) else {
        return Ok(None);
    };
    let mut rows = Vec::new();
    for seed in real_seeds(lab) {
        let more =
            traffic.long_link(&format!("stream {arguments} --seed {seed}"), 2 * combinations)?;
        rows.extend(typed::<Row>(more)?);
    }
    Ok(Some(rows))
}

/// Rows of one setting, without and with Maelstrom.
fn pair(rows: &[Row], delay: f64, loss: f64) -> [Vec<&Row>; 2] {
    ["none", CODE].map(|code| {
        let fits = |row: &&Row| row.code == code && (row.delay_ms, row.loss) == (delay, loss);
        rows.iter().filter(fits).collect()
    })
}

/// Fig. 11: mean latency of all messages, by loss at 50 ms and by one-way delay at 0.1 %.
pub fn figure_11(lab: &mut Lab) -> Result<()> {
    let (losses, delays, seconds): (&[f64], &[f64], u32) = match lab.quick() {
        true => (&[0.01], &[], 12),
        false => (&[0.0, 0.001, 0.01, 0.03], &[10.0, 100.0, 200.0, 250.0], 40),
    };
    let text = |values: &[f64]| values.iter().map(f64::to_string).collect::<Vec<_>>().join(",");
    let setting = format!("--delay 50 --loss {} --seconds {seconds}", text(losses));
    let Some(mut rows) = measure(lab, &setting, losses.len())? else { return Ok(()) };
    let mut settings: Vec<(f64, f64)> = losses.iter().map(|&loss| (50.0, loss)).collect();
    if !delays.is_empty() {
        // Rare losses: a run must be long to see some.
        let setting = format!("--delay {} --loss 0.001 --seconds {}", text(delays), 3 * seconds);
        rows.extend(measure(lab, &setting, delays.len())?.unwrap_or_default());
        settings.extend(delays.iter().map(|&delay| (delay, 0.001)));
    }
    let mut latencies = Vec::new();
    for (delay, loss) in settings {
        let [alone, with] = pair(&rows, delay, loss)
            .map(|rows| mean(&rows.iter().map(|row| row.mean_ms).collect::<Vec<_>>()));
        latencies.push((delay, loss, [alone, with]));
        let at = format!("{delay} ms one way, {} % lost", loss * 100.0);
        let what = format!("with Maelstrom, mean latency, times the way, {at}");
        lab.number(&what, "almost exactly 1", with / delay, 0.0..=1.1);
        let what = format!("TCP alone, times the way, {at}");
        if delay >= 100.0 {
            lab.number(&what, "more than 2", alone / delay, 2.0..=f64::INFINITY);
        } else {
            lab.note(&what, "read off the figure", format!("{:.2}", alone / delay));
        }
    }
    // At 50 ms by loss, and at 0.1 % by delay.
    let by_loss = |code: usize| {
        let of = latencies.iter().filter(|(delay, _, _)| *delay == 50.0);
        plain(of.map(move |(_, loss, both)| (100.0 * loss, both[code]))).collect::<Vec<_>>()
    };
    let by_delay = |code: usize| {
        let of = latencies.iter().filter(|(_, loss, _)| *loss == 0.001);
        plain(of.map(move |(delay, _, both)| (*delay, both[code]))).collect::<Vec<_>>()
    };
    lab.plot(
        Plot::new("Mean latency by loss, 50 ms one way", "packets lost [%]", "latency [ms]")
            .curve("TCP alone", LINE, by_loss(0))
            .curve("with Maelstrom", LINE, by_loss(1)),
    );
    let mut by_way = by_delay(0);
    by_way.sort_by(|a, b| a[0].total_cmp(&b[0]));
    let mut with_way = by_delay(1);
    with_way.sort_by(|a, b| a[0].total_cmp(&b[0]));
    lab.plot(
        Plot::new("Mean latency by delay, 0.1 % lost", "one-way delay [ms]", "latency [ms]")
            .curve("TCP alone", LINE, by_way)
            .curve("with Maelstrom", LINE, with_way),
    );
    Ok(())
}

/// Fig. 12: runs of late messages that a single loss makes.
pub fn figure_12(lab: &mut Lab) -> Result<()> {
    let (delays, seconds): (&[f64], u32) =
        if lab.quick() { (&[50.0], 12) } else { (&[50.0, 100.0], 30) };
    let text = delays.iter().map(f64::to_string).collect::<Vec<_>>().join(",");
    let setting = format!("--delay {text} --loss 0.01 --seconds {seconds}");
    let Some(rows) = measure(lab, &setting, delays.len())? else { return Ok(()) };
    for &delay in delays {
        let [alone, with] = pair(&rows, delay, 0.01);
        let at = format!("{delay} ms, 1 % lost");
        let [alone, with] = [alone, with].map(|rows| Runs::of(&rows, seconds));
        lab.holds(
            &format!(
                "TCP alone: a loss makes hundreds of messages late, in the mean of its runs, {at}"
            ),
            alone.text(),
            alone.mean().is_some_and(|mean| mean >= 100.0),
        );
        // A machine that is busy makes a few messages late by itself.
        let what = format!("with Maelstrom: no run of ten and more, {at}");
        lab.holds(&what, with.text(), with.longest < 10);
    }
    Ok(())
}

/// Runs of late messages in streams.
#[derive(Default)]
struct Runs {
    late: u64,
    runs: u64,
    longest: u64,
    streams: usize,
    /// Streams of which one run is more than half: they came behind and stayed there, so that it is no single loss's.
    never_recovered: usize,
    /// Late messages and runs of the other streams.
    of_losses: (u64, u64),
}

impl Runs {
    fn of(rows: &[&Row], seconds: u32) -> Runs {
        let mut all = Runs { streams: rows.len(), ..Runs::default() };
        for row in rows {
            all.late += row.late;
            all.runs += row.spikes;
            all.longest = all.longest.max(row.longest_spike);
            let messages = row.messages_per_s * f64::from(seconds);
            if row.longest_spike as f64 > messages / 2.0 {
                all.never_recovered += 1;
            } else {
                all.of_losses.0 += row.late;
                all.of_losses.1 += row.spikes;
            }
        }
        all
    }

    /// Messages of a run in the mean, in streams that recovered.
    fn mean(&self) -> Option<f64> {
        let (late, runs) = self.of_losses;
        (runs > 0).then(|| late as f64 / runs as f64)
    }

    fn text(&self) -> String {
        let Runs { late, runs, longest, streams, never_recovered, .. } = self;
        let mut text = format!("{late} late in {runs} runs, the longest {longest}");
        if let Some(mean) = self.mean() {
            text.push_str(&format!("; {mean:.1} in the mean"));
        }
        if *never_recovered > 0 {
            text.push_str(&format!("; {never_recovered} of {streams} streams never recovered"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream of 3,000 messages.
    fn stream(late: u64, spikes: u64, longest_spike: u64) -> Row {
        let code = "none".to_owned();
        let (delay_ms, loss, mean_ms, messages_per_s) = (50.0, 0.01, 60.0, 100.0);
        Row { delay_ms, loss, code, mean_ms, messages_per_s, late, spikes, longest_spike }
    }

    #[test]
    fn the_longest_run_stands_for_no_other() {
        let one = stream(1_804, 85, 308);
        let runs = Runs::of(&[&one], 30);
        assert_eq!(runs.text(), "1804 late in 85 runs, the longest 308; 21.2 in the mean");
        assert!(runs.mean().unwrap() < 100.0);
    }

    #[test]
    fn a_stream_that_never_recovers_shows_no_run_of_a_single_loss() {
        let lost = stream(2_907, 2, 2_885);
        let runs = Runs::of(&[&lost], 30);
        assert_eq!(runs.mean(), None);
        let text = "2907 late in 2 runs, the longest 2885; 1 of 1 streams never recovered";
        assert_eq!(runs.text(), text);
        let fine = stream(500, 2, 300);
        let both = Runs::of(&[&lost, &fine], 30);
        assert_eq!(both.mean(), Some(250.0));
        assert!(both.text().ends_with("250.0 in the mean; 1 of 2 streams never recovered"));
        assert_eq!(Runs::of(&[], 30).mean(), None);
    }
}
