//! `wellspring maelstrom status`, `down` and `key`: appliances of this machine.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use wellspring_appliance::{ask, has_ended, running};
use wellspring_console::exit::Failed;
use wellspring_console::output::{Stderr, Stdout, table};
use wellspring_console::units::{bytes, part, percent};
use wellspring_store::atomic_file::{AtomicFile, Existing};

use crate::exit;

/// How long an appliance may take to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// Print the state and the counters of the appliances of this machine.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  wellspring maelstrom status eth1 --json | jq .link")]
pub struct StatusArgs {
    /// The appliance [default: all].
    name: Option<String>,
    /// Folder of control sockets.
    #[arg(long, value_name = "DIR", default_value = "/run/wellspring/maelstrom")]
    run_dir: PathBuf,
    /// Print one JSON object per appliance, one per line.
    #[arg(long)]
    json: bool,
}

/// Stop an appliance of this machine, and wait until it has ended; traffic continues, unprotected.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  wellspring maelstrom down eth1")]
pub struct DownArgs {
    /// The appliance [default: the only one].
    name: Option<String>,
    /// Folder of control sockets.
    #[arg(long, value_name = "DIR", default_value = "/run/wellspring/maelstrom")]
    run_dir: PathBuf,
}

/// Make a secret for a pair of appliances.
///
/// Writes 64 random hexadecimal digits to a new file that only its owner may read. Both ends need
/// the same file.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  wellspring maelstrom key /etc/wellspring/maelstrom.key")]
pub struct KeyArgs {
    /// The file to create.
    file: PathBuf,
}

pub fn status(args: &StatusArgs) -> Result<(), Failed> {
    let mut silent = Ok(());
    for name in chosen(args.name.as_deref(), &args.run_dir)? {
        match asked(&args.run_dir, &name, "status") {
            Ok(status) if args.json => writeln!(Stdout, "{status}")?,
            Ok(status) => write!(Stdout, "{}", table(&rows(&status)))?,
            // Of the others, there is something to say all the same.
            Err(failed) => {
                let before = std::mem::replace(&mut silent, Err(failed));
                if let Err(Failed { message: Some(message), .. }) = before {
                    writeln!(Stderr, "{message}");
                }
            }
        }
    }
    silent
}

pub fn down(args: &DownArgs) -> Result<(), Failed> {
    let names = chosen(args.name.as_deref(), &args.run_dir)?;
    let [name] = names.as_slice() else {
        return Err(Failed::usage(format!("which one: {}?", names.join(", "))));
    };
    asked(&args.run_dir, name, "down")?;
    match has_ended(&args.run_dir, name, PATIENCE) {
        true => Ok(()),
        false => Err(Failed::other(format!("appliance `{name}` was told to stop, and still runs"))
            .hint("See what it does: its log, `ps`, `wellspring maelstrom status`.")),
    }
}

pub fn key(args: &KeyArgs) -> Result<(), Failed> {
    let mut key = [0_u8; wellspring_maelstrom::KEY_LEN];
    getrandom::fill(&mut key).map_err(|error| Failed::other(error.to_string()))?;
    let digits: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    let path = args.file.display();
    let written = AtomicFile::private(&args.file, Existing::Keep).and_then(|mut file| {
        writeln!(file, "{digits}")?;
        file.finish()
    });
    written.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            Failed::new(exit::TARGET_EXISTS, format!("{path} exists; it was left as it is"))
        }
        _ => Failed::system(path, &error),
    })
}

/// The appliance asked for, or all.
fn chosen(name: Option<&str>, run_dir: &Path) -> Result<Vec<String>, Failed> {
    if let Some(name) = name {
        return Ok(vec![name.to_owned()]);
    }
    let names = running(run_dir);
    if names.is_empty() {
        return Err(no_such(run_dir, "no appliance runs here"));
    }
    Ok(names)
}

fn asked(run_dir: &Path, name: &str, question: &str) -> Result<Value, Failed> {
    let answer = ask(run_dir, name, question)
        .map_err(|error| no_such(run_dir, &format!("no appliance `{name}` answers ({error})")))?;
    serde_json::from_str(&answer).map_err(|_| Failed::other("an answer that makes no sense"))
}

fn no_such(run_dir: &Path, what: &str) -> Failed {
    Failed::other(what).hint(format!("Control sockets are looked for in {}.", run_dir.display()))
}

/// What is wrong, in sentences.
fn trouble(status: &Value) -> String {
    let causes = status["trouble"].as_array().into_iter().flatten();
    let texts: Vec<&str> = causes.filter_map(|cause| cause["text"].as_str()).collect();
    if texts.is_empty() { "none".to_owned() } else { texts.join("; ") }
}

fn code(status: &Value) -> String {
    if status["code_on"] != true {
        return "off: nothing is lost".to_owned();
    }
    match status["code"].as_str() {
        Some("sliding") => "sliding window",
        Some("layers") => "layered interleaving",
        Some("reed-solomon") => "Reed-Solomon blocks",
        _ => "on",
    }
    .to_owned()
}

/// The other appliances of the site, and how many partitions each is to protect.
fn failover(status: &Value) -> String {
    let (Some(appliances), Some(own)) = (
        status.pointer("/failover/appliances").and_then(Value::as_array),
        status.pointer("/failover/number").and_then(Value::as_u64),
    ) else {
        return "none".to_owned();
    };
    let owners = status.pointer("/failover/owners").and_then(Value::as_array);
    let has = |number: u64| {
        owners.into_iter().flatten().filter(|owner| owner.as_u64() == Some(number)).count()
    };
    let others = (0..).zip(appliances).filter(|&(number, _)| number != own);
    let texts = others.map(|(number, appliance)| {
        let at = appliance["at"].as_str().unwrap_or_default();
        match appliance["alive"].as_bool() {
            Some(true) => format!("{at} has {}", has(number)),
            _ => format!("{at} is silent"),
        }
    });
    texts.collect::<Vec<_>>().join(", ")
}

fn rows(status: &Value) -> Vec<Vec<String>> {
    let number = |path: &str| status.pointer(path).and_then(Value::as_u64).unwrap_or(0);
    // While the code is off there is no rate and no interleave.
    let known = |path: &str| status.pointer(path).filter(|value| !value.is_null());
    let text = |path: &str| known(path).map_or_else(|| "none".to_owned(), Value::to_string);
    let lost = part(number("/link/lost"), number("/link/packets"));
    let peer = status["peer_alive"].as_bool().unwrap_or(false);
    let split = match status.pointer("/split/taking").and_then(Value::as_bool) {
        Some(true) => format!("{} connections", number("/split/connections")),
        Some(false) => "waits for the peer, or for room".to_owned(),
        None => "off".to_owned(),
    };
    let rows = [
        ("appliance", status["name"].as_str().unwrap_or_default().to_owned()),
        ("peer", if peer { "heard" } else { "silent" }.to_owned()),
        ("at", known("/peer").and_then(Value::as_str).unwrap_or("unknown").to_owned()),
        ("encrypted", if status["encrypted"] == true { "yes" } else { "no" }.to_owned()),
        ("trouble", trouble(status)),
        ("partitions", format!("{} of {}", text("/partitions/protected"), text("/partitions/of"))),
        ("failover peers", failover(status)),
        ("split mode", split),
        ("up", format!("{:.0} s", status["uptime"].as_f64().unwrap_or(0.0))),
        ("code", code(status)),
        ("rate", text("/rate")),
        ("interleaves", text("/interleaves")),
        ("window", text("/window")),
        ("protected", format!("{} packets", number("/sent/packets"))),
        ("", bytes(number("/sent/bytes"))),
        ("repairs sent", number("/sent/repairs").to_string()),
        ("too long", number("/sent/too_long").to_string()),
        ("arrived", format!("{} packets", number("/received/packets"))),
        ("lost on the link", percent(lost)),
        ("longest burst", number("/link/longest_burst").to_string()),
        ("dropped by queues", number("/link/congested_lost").to_string()),
        ("brought back", number("/received/recovered").to_string()),
        ("by layer", text("/received/recovered_by_layer")),
        ("only overtaken", number("/received/withdrawn").to_string()),
        ("unseen", number("/unseen").to_string()),
        ("in doubt for that", number("/received/doubtful").to_string()),
    ];
    rows.into_iter().map(|(what, value)| vec![what.to_owned(), value]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_that_is_off_is_not_null() {
        let off = serde_json::json!({ "code_on": false, "rate": null, "interleaves": null });
        let rows = rows(&off);
        let of = |what: &str| rows.iter().find(|row| row[0] == what).map(|row| row[1].as_str());
        assert_eq!(of("code"), Some("off: nothing is lost"));
        assert_eq!([of("rate"), of("interleaves")], [Some("none"); 2]);
    }

    #[test]
    fn the_other_appliances_of_a_site_are_named() {
        let at = |port: u16, alive| serde_json::json!({ "at": format!("127.0.0.1:{port}"), "alive": alive });
        let status = serde_json::json!({ "failover": {
            "appliances": [at(4801, true), at(4802, true), at(4803, false)],
            "number": 1, "owners": [0, 0, 1, 0],
        } });
        assert_eq!(failover(&status), "127.0.0.1:4801 has 3, 127.0.0.1:4803 is silent");
        assert_eq!(failover(&serde_json::json!({ "failover": null })), "none");
    }
}
