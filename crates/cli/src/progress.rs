//! Progress of a transfer: a bar or a view for people, JSON lines for programs.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};
use wellspring_client::{ReceiverProgress, SenderProgress, Update, Updates};
use wellspring_console::exit::Failed;
use wellspring_console::output::Stderr;
use wellspring_console::units::{bit_rate, bytes, counted};

use crate::transfer::ReportArgs;
use crate::ui::Ui;

/// What is shown of a transfer.
#[derive(Clone)]
pub struct Display {
    inner: Arc<Inner>,
}

struct Inner {
    /// Shows all instead of the bar.
    ui: Option<Ui>,
    bar: ProgressBar,
    /// Remarks are printed (not with `--quiet`).
    remarks: bool,
    json: bool,
    /// How far each place is with its digest \[bytes\].
    hashing: Mutex<BTreeMap<String, u64>>,
    rate: Mutex<Option<(Instant, u64, f64)>>,
}

impl Display {
    /// A bar, a view of the whole terminal under that title, JSON lines, or nothing.
    ///
    /// # Errors
    /// A view is wanted where it cannot be.
    pub fn new(report: &ReportArgs, quiet: bool, title: &str) -> Result<Self, Failed> {
        let ui = match report.ui {
            true if quiet => {
                return Err(Failed::usage("--ui shows the transfer, and --quiet shows nothing"));
            }
            true => Some(Ui::new(title)?),
            false => None,
        };
        let (quiet, json_progress) = (quiet || report.json, report.json_progress);
        let shown = !quiet && !json_progress && ui.is_none() && std::io::stderr().is_terminal();
        let target =
            if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(0), target);
        let template = "{bar:24} {percent:>3} %  {prefix}  {msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        Ok(Display {
            inner: Arc::new(Inner {
                ui,
                bar,
                remarks: !quiet && !json_progress,
                json: json_progress,
                hashing: Mutex::default(),
                rate: Mutex::default(),
            }),
        })
    }

    /// Where the transfer's updates go.
    pub fn updates(&self) -> Updates {
        if let Some(ui) = &self.inner.ui {
            return ui.updates();
        }
        let inner = Arc::clone(&self.inner);
        let updates = Updates::to(move |update| inner.show(&update));
        if self.inner.json { updates.with_hosts() } else { updates }
    }

    /// Takes the bar or the view away. What the view remarked is printed, since it goes with the view.
    pub fn finish(&self) {
        self.inner.bar.finish_and_clear();
        let remarks = self.inner.ui.as_ref().map(Ui::finish).unwrap_or_default();
        remarks.iter().for_each(|remark| self.inner.remark(remark));
    }
}

impl Inner {
    fn show(&self, update: &Update) {
        if self.json {
            let mut line = to_json(update).to_string();
            line.push('\n');
            // Whoever reads may have gone; the transfer goes on.
            let _ = std::io::stderr().lock().write_all(line.as_bytes());
            return;
        }
        match update {
            Update::Hashing { host, done, total } => {
                self.show_hashing(host.as_deref().unwrap_or("here"), *done, *total);
            }
            Update::Started { size, hosts, .. } => {
                self.bar.set_length((*size).max(1));
                self.bar.set_position(0);
                self.bar.set_message(counted(hosts.len() as u64, "host"));
            }
            Update::Moving { done, total, .. } => self.show_moving(*done, *total),
            Update::Verifying => self.bar.set_message("verifying and syncing"),
            Update::Lost { host, reason } => self.remark(&format!("{host}: {reason}")),
            Update::Altered { host, symbols } => {
                self.remark(&format!("{host}: {symbols} altered symbols, replaced"));
            }
            Update::Wrong { host, at } => {
                self.remark(&format!("{host}: wrong bytes at byte {at}, fetched again"));
            }
            Update::Back { host } => self.remark(&format!("{host}: takes part now")),
            Update::Shortened { symbol_size } => self.remark(&crate::ui::shortened(*symbol_size)),
            Update::Straggler { host, symbols_behind, cause, detached } => {
                let what = if *detached { "continues by unicast" } else { "is waited for" };
                let behind = format!("{symbols_behind} symbols behind");
                self.remark(&format!("{host}: {cause}, {behind}, {what}"));
            }
            Update::Complete { host } => self.remark(&format!("{host}: complete")),
            Update::Quorum { complete } => {
                let hosts = counted(*complete as u64, "host");
                self.remark(&format!("quorum reached: {hosts} complete"));
            }
            _ => {}
        }
    }

    /// Shows the place that is furthest behind: the transfer waits for it.
    fn show_hashing(&self, place: &str, done: u64, total: u64) {
        let mut places = self.hashing.lock().unwrap_or_else(PoisonError::into_inner);
        places.insert(place.to_owned(), done);
        let (place, done) = places.iter().min_by_key(|(_, done)| **done).expect("one was inserted");
        self.show_done(*done, total);
        self.bar.set_message(format!("computing the digest ({place})"));
    }

    fn show_moving(&self, done: u64, total: u64) {
        self.show_done(done, total);
        let rate = self.rate_at(done);
        let mut message = bit_rate(rate);
        if rate > 0.0 && done < total {
            let left = Duration::from_secs_f64(((total - done) as f64 * 8.0 / rate).min(1e7));
            message.push_str(&format!("  {:#} left", HumanDuration(left)));
        }
        self.bar.set_message(message);
    }

    fn show_done(&self, done: u64, total: u64) {
        self.bar.set_length(total.max(1));
        self.bar.set_position(done);
        self.bar.set_prefix(format!("{} of {}", bytes(done), bytes(total)));
    }

    /// The rate of the last moments \[bit/s\]: an average that forgets within about a second.
    fn rate_at(&self, done: u64) -> f64 {
        let mut rate = self.rate.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let (last, before, average) = rate.unwrap_or((now, done, 0.0));
        let span = now.duration_since(last).as_secs_f64();
        if span > 0.0 {
            let current = done.saturating_sub(before) as f64 * 8.0 / span;
            let weight = (span * 2.0).min(1.0);
            let average =
                if average == 0.0 { current } else { average + weight * (current - average) };
            *rate = Some((now, done, average));
            average
        } else {
            *rate = Some((now, done, average));
            average
        }
    }

    fn remark(&self, text: &str) {
        if self.remarks {
            self.bar.suspend(|| writeln!(Stderr, "{text}"));
        }
    }
}

fn to_json(update: &Update) -> Value {
    match update {
        Update::Hashing { host, done, total } => {
            json!({"event": "hashing", "host": host, "done": done, "total": total})
        }
        Update::Started { size, symbol_size, digest, hosts } => json!({
            "event": "started", "size": size, "symbol_size": symbol_size,
            "digest": digest.to_string(), "hosts": hosts,
        }),
        Update::Moving { done, total, symbols } => {
            json!({"event": "moving", "done": done, "total": total, "symbols": symbols})
        }
        Update::Senders { senders, blocks } => json!({
            "event": "senders",
            "senders": senders.iter().map(sender_json).collect::<Vec<_>>(),
            "blocks_done": blocks.done,
            "blocks_decoded": blocks.decoded,
            "blocks": blocks.total,
        }),
        Update::Receivers { receivers } => json!({
            "event": "receivers",
            "receivers": receivers.iter().map(receiver_json).collect::<Vec<_>>(),
        }),
        Update::Lost { host, reason } => json!({"event": "lost", "host": host, "reason": reason}),
        Update::Altered { host, symbols } => {
            json!({"event": "altered", "host": host, "symbols": symbols})
        }
        Update::Wrong { host, at } => json!({"event": "wrong", "host": host, "at": at}),
        Update::Back { host } => json!({"event": "back", "host": host}),
        Update::Shortened { symbol_size } => {
            json!({"event": "shortened", "symbol_size": symbol_size})
        }
        Update::Straggler { host, symbols_behind, cause, detached } => json!({
            "event": "straggler", "host": host, "cause": cause,
            "symbols_behind": symbols_behind, "detached": detached,
        }),
        Update::Complete { host } => json!({"event": "complete", "host": host}),
        Update::Quorum { complete } => json!({"event": "quorum", "complete": complete}),
        Update::Verifying => json!({"event": "verifying"}),
        _ => json!({"event": "other"}),
    }
}

fn sender_json(sender: &SenderProgress) -> Value {
    json!({
        "host": sender.host, "live": sender.is_live, "state": sender.state,
        "useful": sender.useful, "redundant": sender.redundant, "lost": sender.lost,
        "asked": sender.asked, "silent_seconds": sender.silent.as_secs_f64(),
    })
}

fn receiver_json(receiver: &ReceiverProgress) -> Value {
    json!({
        "host": receiver.host, "live": receiver.is_live, "state": receiver.state,
        "done": receiver.done, "total": receiver.total,
        "idle_seconds": receiver.idle.as_secs_f64(),
    })
}
