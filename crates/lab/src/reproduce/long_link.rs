//! Real traffic for the figures that are about it: `lab/maelstrom`, with the `wellspring` command as
//! its appliances.

use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

use anyhow::{Context, Result, anyhow};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;
use wellspring_console::children;
use wellspring_console::wellspring::Wellspring;
use wellspring_figures::{Traffic, Unavailable};

/// Network namespaces, links and kernel TCP are set up by this.
const LAB: &str = include_str!("../../scripts/maelstrom");
/// What it runs.
const PROGRAMS: [&str; 4] = ["python3", "ip", "iperf3", "chrt"];

/// Runs the lab.
pub struct LongLink {
    wellspring: Wellspring,
    quiet: bool,
    /// Ticks of the processors since the last question, and those of them that were stolen.
    ticks: Mutex<[u64; 2]>,
}

impl LongLink {
    /// Looks for all that the lab needs.
    pub fn find(quiet: bool) -> Result<Self, Unavailable> {
        let missing = |name: &&&str| {
            let path = std::env::var_os("PATH").unwrap_or_default();
            !std::env::split_paths(&path).any(|folder| Path::new(&folder).join(name).is_file())
        };
        if let Some(name) = PROGRAMS.iter().find(missing) {
            return Err(Unavailable(format!("`{name}` is to be installed")));
        }
        if !rustix::process::geteuid().is_root() {
            return Err(Unavailable("network namespaces need root (sudo)".to_owned()));
        }
        let wellspring = Wellspring::beside_this()
            .map_err(|failed| Unavailable(failed.message.unwrap_or_default()))?;
        Ok(LongLink { wellspring, quiet, ticks: Mutex::default() })
    }

    /// Runs a program; what the machine was denied meanwhile is counted.
    fn rows(&self, command: &mut Command, input: &str, bar: &ProgressBar) -> Result<Vec<Value>> {
        let before = processor_ticks();
        let result = children::rows(command, input, |_| bar.inc(1));
        bar.finish_and_clear();
        if let (Some(before), Some(after), Ok(mut ticks)) =
            (before, processor_ticks(), self.ticks.lock())
        {
            (0..2).for_each(|n| ticks[n] += after[n].saturating_sub(before[n]));
        }
        result.map_err(|failed| anyhow!(failed.message.unwrap_or_default()))
    }

    fn bar(&self, rows: usize, what: &str) -> ProgressBar {
        let bar = if self.quiet { ProgressBar::hidden() } else { ProgressBar::new(rows as u64) };
        if let Ok(style) =
            ProgressStyle::with_template("{bar:30} row {pos} of {len}  left {eta}  {wide_msg}")
        {
            bar.set_style(style);
        }
        bar.set_message(what.to_owned());
        bar.enable_steady_tick(std::time::Duration::from_secs(1));
        bar
    }
}

impl Traffic for LongLink {
    fn long_link(&self, arguments: &str, rows: usize) -> Result<Vec<Value>> {
        let bar = self.bar(rows, arguments);
        let mut lab = Command::new("python3");
        lab.arg("-").args(arguments.split_whitespace()).arg("--json");
        lab.env("WELLSPRING", self.wellspring.path());
        lab.env("WELLSPRING_LAB", std::env::current_exe()?);
        self.rows(&mut lab, LAB, &bar).with_context(|| format!("lab/maelstrom {arguments}"))
    }

    fn engine(&self, arguments: &str) -> Result<Vec<Value>> {
        let bar = self.bar(1, "the engine alone");
        let mut bench = Command::new(self.wellspring.path());
        bench.args(["maelstrom", "bench", "--json"]).args(arguments.split_whitespace());
        let rows = self.rows(&mut bench, "", &bar).context("wellspring maelstrom bench")?;
        Ok(rows.into_iter().flat_map(|row| row.as_array().cloned().unwrap_or_default()).collect())
    }

    fn stolen(&self) -> Option<f64> {
        let [all, stolen] = std::mem::take(&mut *self.ticks.lock().ok()?);
        (all > 0).then(|| stolen as f64 / all as f64)
    }
}

/// All ticks of all processors since the start, and the stolen ones.
fn processor_ticks() -> Option<[u64; 2]> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    let fields: Vec<u64> =
        stat.lines().next()?.split_whitespace().skip(1).map_while(|f| f.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal; guests are in user and nice already.
    Some([fields.iter().take(8).sum(), *fields.get(7)?])
}
