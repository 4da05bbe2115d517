//! `wellspring ls`: the objects of a directory.

use clap::Args;
use serde_json::{Value, json};
use wellspring_client::{TreeError, TreeOptions};
use wellspring_console::exit::Failed;
use wellspring_console::interrupt::Interrupt;
use wellspring_console::output::{Stdout, table};
use wellspring_net::store::Digest;
use wellspring_net::store::tree::listing::{Content, Cursor, Entry, Modified};

use crate::connect::client;
use crate::exit;
use crate::keys::KeyArgs;
use crate::transfer::{NetworkArgs, TreeLocation};
use crate::tree_args::plain;

/// List the objects that a host serves in a directory.
///
/// Hosts that are named together must have the same. What cannot be fetched, such as a device or a
/// link that leads out of the directory, is listed with the reason.
#[derive(Args)]
#[command(after_help = "\
Examples:
  wellspring ls a.example/
  wellspring ls -l a.example/models/
  wellspring ls -R --digests a.example/models/ | sort -k 1")]
pub struct LsArgs {
    /// Host, and a directory below the one that it serves.
    #[arg(value_name = "HOST[,HOST...]/[DIR/]")]
    from: TreeLocation,
    /// Modes, lengths in bytes and times of modification (UTC) too.
    #[arg(short, long)]
    long: bool,
    /// What is in the directories of the directory, too.
    #[arg(short = 'R', long)]
    recursive: bool,
    /// BLAKE3 digests of the files, which the host computes; implies -R.
    #[arg(long)]
    digests: bool,
    /// Print each entry as a JSON object, one a line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    keys: KeyArgs,
    #[command(flatten)]
    network: NetworkArgs,
}

pub async fn run(args: &LsArgs) -> Result<(), Failed> {
    let mut interrupt = Interrupt::new()?;
    let client = client(&args.keys, &args.network)?;
    let options = TreeOptions::new(args.from.directory.clone())
        .checksum(args.digests)
        .level(!args.recursive && !args.digests);
    let listing = interrupt.guard(client.list(&args.from.hosts, &options)).await?;
    let listing = listing.map_err(|error| match error {
        TreeError::Disagreement(_) => Failed::new(exit::REPLICAS_DIFFER, error.to_string()).hint(
            "Name one of the hosts to see what it has. `put --force --checksum` of the right directory mends the others.",
        ),
        error => exit::of_tree(&error, "listing"),
    })?;
    let wrong = |error| Failed::new(exit::BAD_DIGEST, format!("the host sent {error}"));
    let mut cursor = Cursor::new(&listing.bytes).map_err(wrong)?;
    // Lines are printed as they are read, but for a table, whose columns are as wide as its rows.
    let mut rows = Vec::new();
    while let Some(entry) = cursor.next_entry().map_err(wrong)? {
        match (args.json, args.long || args.digests) {
            (true, _) => writeln!(Stdout, "{}", as_json(&entry))?,
            (false, false) => writeln!(Stdout, "{}", shown(&entry))?,
            (false, true) => rows.push(row(&entry, args.digests)),
        }
    }
    write!(Stdout, "{}", table(&rows))?;
    Ok(())
}

/// A path as `ls -F` shows it.
fn shown(entry: &Entry<'_>) -> String {
    let path = plain(entry.path);
    match entry.content {
        Content::Directory => format!("{path}/"),
        Content::File { .. } => path.into_owned(),
        Content::Link { target } => format!("{path} -> {}", plain(target)),
        Content::Skipped(reason) => format!("{path} ({reason}: not served)"),
    }
}

fn row(entry: &Entry<'_>, digests: bool) -> Vec<String> {
    let (kind, size, digest) = match entry.content {
        Content::Directory => ('d', String::new(), None),
        Content::File { size, digest } => ('-', size.to_string(), digest),
        Content::Link { .. } => ('l', String::new(), None),
        Content::Skipped(_) => ('?', String::new(), None),
    };
    let mut row = vec![format!("{kind}{}", mode(entry.mode)), size, time(entry.modified)];
    if digests {
        row.push(digest.map_or(String::new(), |digest| Digest(digest).to_string()));
    }
    row.push(shown(entry));
    row
}

fn mode(mode: u16) -> String {
    let bit = |at: u16, letter| if mode >> at & 1 == 1 { letter } else { '-' };
    (0..9).rev().map(|at| bit(at, ['x', 'w', 'r'][usize::from(at % 3)])).collect()
}

/// A time as `2026-11-26 03:10:00`.
fn time(modified: Modified) -> String {
    let (days, of_day) = (modified.seconds.div_euclid(86_400), modified.seconds.rem_euclid(86_400));
    let (year, month, day) = date(days);
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

/// Year, month and day of a number of days since 1970, by the Gregorian calendar: years begin in March,
/// so that the leap day is their last.
fn date(days: i64) -> (i64, i64, i64) {
    // Days since March 1st of the year 0, in eras of 400 years.
    let days = days.saturating_add(719_468);
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

fn as_json(entry: &Entry<'_>) -> Value {
    let Entry { path, mode, modified, content, .. } = entry;
    let (seconds, nanos) = (modified.seconds, modified.nanos);
    let mut value = json!({"path": path, "mode": mode, "seconds": seconds, "nanos": nanos});
    let (kind, key, more) = match content {
        Content::Directory => ("directory", "bytes", Value::Null),
        Content::File { size, .. } => ("file", "bytes", json!(size)),
        Content::Link { target } => ("link", "target", json!(target)),
        Content::Skipped(reason) => ("skipped", "reason", json!(reason.to_string())),
    };
    value["kind"] = kind.into();
    value[key] = more;
    if let Content::File { digest: Some(digest), .. } = content {
        value["digest"] = Digest(*digest).to_string().into();
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        let time = |seconds| time(Modified { seconds, nanos: 0 });
        assert_eq!(time(0), "1970-01-01 00:00:00");
        assert_eq!(time(951_827_696), "2000-02-29 12:34:56");
        assert_eq!(time(1_795_662_600), "2026-11-26 03:10:00");
        assert_eq!(time(-1), "1969-12-31 23:59:59");
        assert_eq!(time(4_107_542_400), "2100-03-01 00:00:00");
        // Whatever a host says.
        assert!(!time(i64::MIN).is_empty() && !time(i64::MAX).is_empty());
    }

    #[test]
    fn modes_are_shown_as_ls_does() {
        assert_eq!(mode(0o755), "rwxr-xr-x");
        assert_eq!(mode(0o640), "rw-r-----");
    }
}
