//! Progress bar over the runs of a sweep.

use std::sync::Mutex;

use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};
use wellspring_experiments::run::Progress;

/// One bar for all runs: share done, simulated time and events a second.
pub struct RunsBar {
    bar: ProgressBar,
    /// Share done and events of each run.
    state: Mutex<Vec<(f64, u64, f64)>>,
    started: std::time::Instant,
}

impl RunsBar {
    pub fn new(runs: usize, quiet: bool) -> Self {
        let bar = if quiet { ProgressBar::hidden() } else { ProgressBar::new(1_000) };
        if let Ok(style) =
            ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}  left {left}")
        {
            bar.set_style(style.with_key("left", time_left));
        }
        let state = Mutex::new(vec![(0.0, 0, 0.0); runs]);
        RunsBar { bar, state, started: std::time::Instant::now() }
    }

    pub fn report(&self, number: usize, runs: usize, progress: Progress) {
        let Ok(mut state) = self.state.lock() else { return };
        if state.len() != runs {
            *state = vec![(0.0, 0, 0.0); runs];
        }
        let Some(entry) = state.get_mut(number) else { return };
        *entry = (progress.share(), progress.events, progress.simulated);
        let done = state.iter().map(|entry| entry.0).sum::<f64>() / runs as f64;
        let events: u64 = state.iter().map(|entry| entry.1).sum();
        let simulated: f64 = state.iter().map(|entry| entry.2).sum();
        let rate = events as f64 / self.started.elapsed().as_secs_f64() / 1e6;
        self.bar.set_position((done * 1_000.0) as u64);
        self.bar.set_message(format!("{simulated:.3} s simulated, {rate:.1} M events/s"));
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// Nothing is known before there is some progress.
fn time_left(state: &ProgressState, to: &mut dyn std::fmt::Write) {
    // Writing to a bar does not fail.
    let _ = match state.pos() {
        0 => write!(to, "?"),
        _ => write!(to, "{:#}", HumanDuration(state.eta())),
    };
}
