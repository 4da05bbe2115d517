//! `wellspring stat`: what hosts have under a name.

use clap::Args;
use serde_json::json;
use wellspring_client::{Client, Host, TreeOptions};
use wellspring_console::exit::Failed;
use wellspring_console::interrupt::Interrupt;
use wellspring_console::output::{Report, Stderr};
use wellspring_console::units::counted;
use wellspring_net::store::Digest;
use wellspring_net::store::tree::listing::{Content, Cursor};

use crate::connect::client;
use crate::exit;
use crate::keys::KeyArgs;
use crate::transfer::{NetworkArgs, Source, TreeLocation};

/// Show length and digest of an object at each host, without fetching it.
///
/// The host computes the digest if it does not know it. Of a directory, its files are counted, and the digest is that
/// of its listing: names, lengths, modes and times. Exit status 5 says that the hosts differ, also if others of them do not
/// answer.
#[derive(Args)]
#[command(after_help = "\
Examples:
  wellspring stat a.example,b.example/models/7b.bin
  wellspring stat a.example/models/
  wellspring stat a.example/x --json | jq -r .digest")]
pub struct StatArgs {
    /// Hosts, and an object, or a directory with `/` at its end.
    #[arg(value_name = "HOST[,HOST...]/OBJECT|DIR/")]
    from: Source,
    /// Print a JSON object for each host, one a line; for one that fails with `error`: its `reason` and exit `status`.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    keys: KeyArgs,
    #[command(flatten)]
    network: NetworkArgs,
}

/// What a host has: files, bytes and the digest.
type Found = (Option<u64>, u64, Digest);

pub async fn run(args: &StatArgs) -> Result<(), Failed> {
    let mut interrupt = Interrupt::new()?;
    let client = client(&args.keys, &args.network)?;
    let hosts = match &args.from {
        Source::Object(from) => &from.hosts,
        Source::Tree(from) => &from.hosts,
    };
    let (mut found, mut failed) = (Vec::new(), None);
    for host in hosts {
        match interrupt.guard(ask(&client, host, &args.from)).await? {
            Ok(one) => {
                writeln!(Report, "{}", shown(host, &one, args.json))?;
                found.push(one.2);
            }
            Err(error) => {
                let message = error.message.as_deref().unwrap_or_default();
                if args.json {
                    let (host, status) = (host.to_string(), error.status);
                    let object =
                        json!({"host": host, "error": {"reason": message, "status": status}});
                    writeln!(Report, "{object}")?;
                }
                if hosts.len() > 1 {
                    writeln!(Stderr, "{host}: {message}");
                }
                failed = Some(error);
            }
        }
    }
    // Who knows that they differ need not wait for the others.
    if found.windows(2).any(|pair| pair[0] != pair[1]) {
        return Err(Failed::new(exit::REPLICAS_DIFFER, "the hosts have different bytes"));
    }
    failed.map_or(Ok(()), Err)
}

async fn ask(client: &Client, host: &Host, from: &Source) -> Result<Found, Failed> {
    match from {
        Source::Object(from) => {
            let stat = client.stat(std::slice::from_ref(host), &from.name).await;
            let stat = stat
                .map_err(|error| exit::of_fetch(&error, "wellspring serve", from.name.as_str()))?;
            Ok((None, stat.size, stat.digest))
        }
        Source::Tree(from) => tree(client, host, from).await,
    }
}

async fn tree(client: &Client, host: &Host, from: &TreeLocation) -> Result<Found, Failed> {
    let options = TreeOptions::new(from.directory.clone());
    let listing = client.list(std::slice::from_ref(host), &options).await;
    let listing = listing.map_err(|error| exit::of_tree(&error, "listing"))?;
    let wrong = |error| Failed::new(exit::BAD_DIGEST, format!("the host sent {error}"));
    let mut cursor = Cursor::new(&listing.bytes).map_err(wrong)?;
    let (mut files, mut bytes) = (0, 0_u64);
    while let Some(entry) = cursor.next_entry().map_err(wrong)? {
        if let Content::File { size, .. } = entry.content {
            (files, bytes) = (files + 1, bytes.saturating_add(size));
        }
    }
    Ok((Some(files), bytes, listing.digest))
}

fn shown(host: &Host, (files, size, digest): &Found, as_json: bool) -> String {
    if as_json {
        let digest = digest.to_string();
        let object =
            json!({"host": host.to_string(), "files": files, "bytes": size, "digest": digest});
        return object.to_string();
    }
    let files = files.map(|files| format!("{}, ", counted(files, "file"))).unwrap_or_default();
    format!("{host}: {files}{size} bytes, {digest}")
}
