//! `wellspring put` of a directory.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use wellspring_client::{
    Client, Host, LinksOut, Priority, PutTreeOptions, PutTreeReport, ReceiverState, TreeChange,
    TreeError, TreeOptions, TreeReceiver,
};
use wellspring_console::exit::{Failed, INTERRUPTED};
use wellspring_console::interrupt::Interrupt;
use wellspring_console::output::{Report, Stderr, table};
use wellspring_console::units::{bit_rate, bytes, seconds};
use wellspring_console::usage::{cpu_seconds, peak_memory};
use wellspring_net::store::ObjectName;
use wellspring_net::store::tree::listing::SkipReason;

use crate::exit;
use crate::progress::Display;
use crate::transfer::{CutArgs, ReportArgs};
use crate::tree_args::{TreeArgs, skipped_json, skipped_text};
use crate::tree_changes::Changes;

/// A directory that is put.
pub struct Put<'a> {
    pub from: &'a Path,
    pub tree: &'a TreeArgs,
    pub atomic: bool,
    pub links_out: LinksOut,
    pub priority: Priority,
    pub cut: &'a CutArgs,
    pub report: &'a ReportArgs,
    pub force: bool,
    pub group: Option<SocketAddr>,
    pub quorum: Option<usize>,
    /// Flags that only files have, and whether the command line has them.
    pub of_files: [(&'static str, bool); 2],
    pub client: Client,
    pub display: Display,
    pub hosts: &'a [Host],
    pub quiet: bool,
}

impl Put<'_> {
    pub async fn run(
        self,
        directory: Option<ObjectName>,
        mut interrupt: Interrupt,
    ) -> Result<(), Failed> {
        let Put { from, tree: args, client, display, hosts, quiet, .. } = self;
        if args.delete && !self.force {
            return Err(Failed::usage("--delete removes what is there, and so needs --force"));
        }
        if self.atomic && directory.is_none() {
            let text = "--atomic swaps a directory of the hosts: name it, as in HOST/DIR/";
            return Err(Failed::usage(text));
        }
        for (flag, given) in self.of_files {
            if given {
                let text = format!("{flag} is of one file: a directory goes on, and to all hosts");
                return Err(Failed::usage(text));
            }
        }
        let shown_there = directory.as_ref().map_or("/".to_owned(), |name| format!("{name}/"));
        let tree = args
            .options(TreeOptions::new(directory))?
            .cut(self.cut.for_scdp()?)
            .priority(self.priority)
            .updates(display.updates());
        let options = PutTreeOptions::new(tree)
            .overwrite(self.force)
            .atomic(self.atomic)
            .links_out(self.links_out)
            .group(self.group)
            .quorum(self.quorum);
        let changes = Arc::new(Changes::new("send", args.dry_run, (quiet, self.report.json)));
        let (heard, all) = (Arc::clone(&changes), hosts.len());
        let hear = Arc::new(move |change: TreeChange, at: &[String]| {
            heard.hear(&change, Some((at, all)));
        });
        let put = client.put_tree(from, hosts, &options, hear);
        let put = interrupt.guard(put).await;
        display.finish();
        drop(client);
        let put = put.map_err(|_| {
            Failed::new(INTERRUPTED, "interrupted; run it again to send what is missing")
        })?;
        let report = match &put {
            Ok(report) => Some(report),
            Err(TreeError::Incomplete(report)) => Some(&**report),
            Err(_) => None,
        };
        if let Some(report) = report {
            if self.report.json {
                let account = account(&shown_there, report, args.dry_run);
                writeln!(Report, "{}", changes.account(&account))?;
            } else if !quiet {
                write!(Stderr, "{}", summary(&shown_there, report, args.dry_run));
            }
        }
        put.map(|_| ()).map_err(|error| exit::of_tree(&error, &from.display().to_string()))
    }
}

fn summary(there: &str, report: &PutTreeReport, dry: bool) -> String {
    let lacked = report.receivers.iter();
    let (files, len) = match dry {
        true => lacked.map(|r| (r.lacked_files, r.lacked_bytes)).max().unwrap_or_default(),
        false => (report.sent_files, report.sent_bytes),
    };
    let rate = len as f64 * 8.0 / report.elapsed.as_secs_f64().max(1e-9);
    let moved = match (files, dry) {
        (0, _) => "nothing to send".to_owned(),
        (files, true) => format!("{files} to send, {}", bytes(len)),
        (files, false) => {
            format!(
                "{files} sent, {} in {}, {}",
                bytes(len),
                seconds(report.elapsed),
                bit_rate(rate)
            )
        }
    };
    let mut text = format!("{there}: {} files, {}; {moved}\n", report.files, bytes(report.bytes));
    if report.begun_again > 0 {
        text.push_str(&format!("begun again {} times\n", report.begun_again));
    }
    text.push_str(&skipped_text(&report.skipped, report.skipped_count));
    if report.skipped.iter().any(|(_, reason)| *reason == SkipReason::LeadsOut) {
        text.push_str("--copy-unsafe-links sends the files that such links lead to\n");
    }
    if dry {
        return text;
    }
    let mut rows =
        vec![["receiver", "after", "lacked", "removed", "state"].map(str::to_owned).to_vec()];
    for TreeReceiver { host, state, lacked_files, removed, .. } in &report.receivers {
        let (after, state) = match state {
            ReceiverState::Complete(after) => (seconds(*after), "complete".to_owned()),
            ReceiverState::Failed(reason) => ("-".to_owned(), format!("failed: {reason}")),
            ReceiverState::Unfinished => ("-".to_owned(), "not finished".to_owned()),
        };
        let lacked = format!("{lacked_files} files");
        rows.push(vec![host.clone(), after, lacked, removed.to_string(), state]);
    }
    text.push_str(&table(&rows));
    text
}

fn account(there: &str, report: &PutTreeReport, dry: bool) -> Value {
    let receiver = |r: &TreeReceiver| {
        let (state, after, reason) = match &r.state {
            ReceiverState::Complete(after) => ("complete", Some(after.as_secs_f64()), None),
            ReceiverState::Failed(reason) => ("failed", None, Some(reason)),
            ReceiverState::Unfinished => ("unfinished", None, None),
        };
        json!({
            "host": r.host,
            "state": state,
            "seconds": after,
            "reason": reason,
            "files_lacked": r.lacked_files,
            "bytes_lacked": r.lacked_bytes,
            "removed": r.removed,
        })
    };
    json!({
        "directory": there,
        "digest": report.digest.map(|digest| digest.to_string()),
        "files": report.files,
        "bytes": report.bytes,
        "dry_run": dry,
        "files_sent": report.sent_files,
        "bytes_sent": report.sent_bytes,
        "symbols_sent": report.symbols_sent,
        "skipped": report.skipped_count,
        "skipped_paths": skipped_json(&report.skipped),
        "begun_again": report.begun_again,
        "receivers_needed": report.needed,
        "receivers_complete": report.complete(),
        "receivers": report.receivers.iter().map(receiver).collect::<Vec<_>>(),
        "seconds": report.elapsed.as_secs_f64(),
        "cpu_seconds": cpu_seconds(None),
        "peak_memory_bytes": peak_memory(),
    })
}
