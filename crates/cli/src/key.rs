//! `wellspring key`: the host's key, the hosts it trusts, and a cluster's key.

use std::net::IpAddr;
use std::num::NonZeroU64;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;
use wellspring_console::exit::Failed;
use wellspring_console::output::{Stdout, table};
use wellspring_console::units::parse_size;
use wellspring_net::KeyDirectory;
use wellspring_trust::{Folders, Keyring, Peer, PublicKey, Quota, Rights};

use crate::keys::{KeyArgs, of_key_files};

/// What a right without `=` is of. No argument can hold it, as an empty one can.
const EVERYTHING: &str = "\0";

const EXAMPLES: &str = "\
Two hosts, a server and a client:
  server$ wellspring key new                        # prints wpub-SERVER...
  client$ wellspring key new                        # prints wpub-CLIENT...
  server$ wellspring key trust client wpub-CLIENT... --read --put=incoming
  client$ wellspring key trust server wpub-SERVER... --serve
  server$ wellspring serve --allow-put /srv/models
  client$ wellspring get server/7b.bin -o 7b.bin

Twenty hosts that share one key:
  wellspring key new --cluster                      # on one of them
  for h in $(cat hosts); do ssh $h mkdir -p -m 700 .config/wellspring; scp -p ~/.config/wellspring/cluster $h:.config/wellspring/; done

To change the cluster key without a break, copy the file to all hosts and send their servers SIGHUP after each step:
  wellspring key change add                         # a second key is accepted
  wellspring key change use                         # the second is used, the first still accepted
  wellspring key change end                         # the first is gone";

/// Make keys, show them, and say which hosts are trusted.
///
/// With keys, `serve`, `get` and `put` encrypt and authenticate every datagram and speak only with hosts whose
/// keys are trusted, or that have the same cluster key. The keys lie in ~/.config/wellspring: `key` is this
/// host's, `trusted` names other hosts and their rights (one a line), `cluster` is a key that hosts share. To trust a
/// host no more, or to change its rights, edit its line and send the server SIGHUP.
///
/// A line can bound what a server lets a key have: `max-sessions=8` transfers at one time, `max-bytes=100G` and
/// `max-files=1000` of what it has put and that is kept. All hosts of a cluster share what the cluster's line allows.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct KeyCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    New(NewArgs),
    Show(ShowArgs),
    Trust(TrustArgs),
    Change(ChangeArgs),
}

#[derive(Args)]
struct Place {
    /// Directory of the keys [default: $WELLSPRING_KEYS, $XDG_CONFIG_HOME/wellspring or ~/.config/wellspring].
    #[arg(long, value_name = "DIR")]
    keys: Option<PathBuf>,
}

/// Make a key. One that exists is kept, and the exit status is 8.
#[derive(Args)]
#[command(after_help = "\
Examples:
  wellspring key new               # this host's own key
  wellspring key new --cluster     # a key that the hosts of a cluster share")]
struct NewArgs {
    /// A cluster key instead of this host's own.
    #[arg(long)]
    cluster: bool,
    #[command(flatten)]
    place: Place,
}

/// Show the public key, the fingerprints and who is trusted; no secret.
#[derive(Args)]
#[command(after_help = "\
Example:
  wellspring key show --json | jq -r .public")]
struct ShowArgs {
    /// Print a JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

/// Trust a host by its public key, with the rights that are named.
#[derive(Args)]
#[command(after_help = "\
Examples:
  wellspring key trust alice wpub-... --read                       # may get everything
  wellspring key trust bob wpub-... --read=models --put=incoming   # folders, and all below
  wellspring key trust carol wpub-... --put=incoming --max-sessions 8 --max-bytes 100G --max-files 1000
  wellspring key trust server wpub-... --serve --at 192.0.2.7      # the only key believed there")]
struct TrustArgs {
    /// What the host is called here.
    name: String,
    /// Its public key, as `wellspring key show` prints it there.
    key: PublicKey,
    /// It may get objects: all, or those below a folder.
    #[arg(long, value_name = "FOLDER", num_args = 0..=1, require_equals = true, default_missing_value = EVERYTHING)]
    read: Vec<String>,
    /// It may put objects (where the server runs with --allow-put): anywhere, or below a folder.
    #[arg(long, value_name = "FOLDER", num_args = 0..=1, require_equals = true, default_missing_value = EVERYTHING)]
    put: Vec<String>,
    /// It is believed as a server.
    #[arg(long)]
    serve: bool,
    /// The address it serves at: no other key is believed there.
    #[arg(long, value_name = "IP")]
    at: Vec<IpAddr>,
    /// Transfers that it may have at one time here (a directory takes up to 4) [default: no limit].
    #[arg(long, value_name = "N")]
    max_sessions: Option<NonZeroU64>,
    /// Size of all that it has put and that is kept here, at most [default: no limit].
    #[arg(long, value_name = "SIZE", value_parser = at_least_one)]
    max_bytes: Option<NonZeroU64>,
    /// Number of files that it has put and that are kept here, at most [default: no limit].
    #[arg(long, value_name = "N")]
    max_files: Option<NonZeroU64>,
    #[command(flatten)]
    place: Place,
}

/// Change the cluster key, in three steps.
#[derive(Args)]
struct ChangeArgs {
    #[command(subcommand)]
    step: Step,
}

#[derive(Subcommand)]
enum Step {
    /// Make a second key, which is accepted beside the first.
    Add(Place),
    /// Use the second key, and accept the first still.
    Use(Place),
    /// Accept only the key in use.
    End(Place),
}

impl Place {
    fn directory(&self) -> Result<KeyDirectory, Failed> {
        let args = KeyArgs { keys: self.keys.clone(), insecure: false };
        args.directory().ok_or_else(|| {
            Failed::usage("there is no home directory for keys")
                .hint("Name one: --keys DIR, or WELLSPRING_KEYS=DIR.")
        })
    }
}

pub fn run(command: &KeyCommand) -> Result<(), Failed> {
    match &command.action {
        Action::New(args) => new(args),
        Action::Show(args) => show(args),
        Action::Trust(args) => trust(args),
        Action::Change(args) => change(&args.step),
    }
}

fn new(args: &NewArgs) -> Result<(), Failed> {
    let directory = args.place.directory()?;
    let failed = |error| of_key_files(&error);
    if args.cluster {
        let key = directory.new_cluster().map_err(failed)?;
        let path = directory.path().join("cluster");
        writeln!(
            Stdout,
            "{}: cluster key {}; copy the file to the other hosts",
            path.display(),
            key.fingerprint()
        )?;
    } else {
        let key = directory.new_key().map_err(failed)?.public();
        writeln!(Stdout, "{key}\nfingerprint {}", key.fingerprint())?;
    }
    Ok(())
}

fn show(args: &ShowArgs) -> Result<(), Failed> {
    let directory = args.place.directory()?;
    let keyring =
        directory.load().map_err(|error| of_key_files(&error))?.unwrap_or_else(Keyring::new);
    let public = keyring.own().map(|own| own.public());
    if args.json {
        let peer = |peer: &Peer| {
            json!({"name": peer.name, "public": peer.key.to_string(), "fingerprint": peer.key.fingerprint().to_string(),
                "rights": peer.rights.to_string(), "at": peer.addresses.iter().map(IpAddr::to_string).collect::<Vec<_>>()})
        };
        let shown = json!({
            "directory": directory.path().display().to_string(),
            "public": public.map(|key| key.to_string()),
            "fingerprint": public.map(|key| key.fingerprint().to_string()),
            "clusters": keyring.clusters().map(|(key, _)| key.fingerprint().to_string()).collect::<Vec<_>>(),
            "trusted": keyring.peers().map(peer).collect::<Vec<_>>(),
        });
        return Ok(writeln!(Stdout, "{shown}")?);
    }
    match public {
        Some(key) => writeln!(Stdout, "{key}\nfingerprint {}", key.fingerprint())?,
        None => writeln!(Stdout, "no key of this host in {}", directory.path().display())?,
    }
    for (place, (key, rights)) in keyring.clusters().enumerate() {
        let state = if place == 0 { "in use" } else { "accepted" };
        writeln!(Stdout, "cluster key {} ({state}): {rights}", key.fingerprint())?;
    }
    let mut rows = vec![["trusted", "fingerprint", "rights"].map(str::to_owned).to_vec()];
    for peer in keyring.peers() {
        rows.push(vec![
            peer.name.clone(),
            peer.key.fingerprint().to_string(),
            peer.rights.to_string(),
        ]);
    }
    if rows.len() > 1 {
        write!(Stdout, "{}", table(&rows))?;
    }
    Ok(())
}

fn trust(args: &TrustArgs) -> Result<(), Failed> {
    let folders = |right: &str, named: &[String]| {
        let mut folders = Folders::NONE;
        for folder in named {
            match folder.as_str() {
                EVERYTHING => folders.add_all(),
                folder => folders
                    .add(folder)
                    .map_err(|error| Failed::usage(format!("--{right}={folder}: {error}")))?,
            }
        }
        Ok::<_, Failed>(folders)
    };
    if !args.at.is_empty() && !args.serve {
        return Err(Failed::usage("--at needs --serve: it is a server's address"));
    }
    let quota = Quota { sessions: args.max_sessions, bytes: args.max_bytes, files: args.max_files };
    let (read, put) = (folders("read", &args.read)?, folders("put", &args.put)?);
    let rights = Rights { read, put, serve: args.serve, quota };
    if (Rights { quota: Quota::NONE, ..rights.clone() }) == Rights::default() {
        let text = "a host that is trusted with nothing";
        return Err(Failed::usage(text).hint("Name its rights: --read, --put, --serve."));
    }
    let directory = args.place.directory()?;
    let (name, key, addresses) = (args.name.clone(), args.key, args.at.clone());
    let peer = Peer { name, key, rights, addresses };
    directory.trust(&peer).map_err(|error| of_key_files(&error))?;
    let fingerprint = peer.key.fingerprint();
    writeln!(Stdout, "{} ({fingerprint}) is trusted: {}", peer.name, peer.rights)?;
    Ok(())
}

/// A size that is not zero.
fn at_least_one(text: &str) -> Result<NonZeroU64, String> {
    NonZeroU64::new(parse_size(text)?).ok_or_else(|| "a size from 1".to_owned())
}

fn change(step: &Step) -> Result<(), Failed> {
    let (place, text) = match step {
        Step::Add(place) => (
            place,
            "a second key is accepted: copy the file to all hosts, send their servers SIGHUP, then `change use`",
        ),
        Step::Use(place) => (
            place,
            "the second key is used: copy the file to all hosts, send their servers SIGHUP, then `change end`",
        ),
        Step::End(place) => (
            place,
            "only the new key is left: copy the file to all hosts and send their servers SIGHUP",
        ),
    };
    let directory = place.directory()?;
    let changed = match step {
        Step::Add(_) => directory.add_cluster().map(|_| ()),
        Step::Use(_) => directory.use_second_cluster(),
        Step::End(_) => directory.drop_second_cluster(),
    };
    changed.map_err(|error| of_key_files(&error))?;
    writeln!(Stdout, "{}: {text}", directory.path().join("cluster").display())?;
    Ok(())
}
