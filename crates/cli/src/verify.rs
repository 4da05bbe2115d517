//! `wellspring verify`: the files of a directory, read again and compared.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use wellspring_client::TreeOptions;
use wellspring_console::exit::Failed;
use wellspring_console::interrupt::Interrupt;
use wellspring_console::output::{Report, Stderr};
use wellspring_net::store::Digest;
use wellspring_net::store::tree::listing::{Content, Cursor, Keeps, ListingError};
use wellspring_net::store::tree::{LinksOut, Scan, scan};

use crate::connect::client;
use crate::exit;
use crate::keys::KeyArgs;
use crate::transfer::{NetworkArgs, TreeLocation};

/// Read all files of a directory again, and compare their bytes with a host's or with saved digests.
///
/// Each file that differs, is missing or is too much is printed. Directories, links, modes and times are not compared
/// (`get --dry-run` does). Saved digests have the form of `b3sum`, which can check them as well.
#[derive(Args)]
#[command(after_help = "\
Examples:
  wellspring verify models a.example/models/         # with what a host has
  wellspring verify models --save models.b3          # keep the digests
  wellspring verify models --manifest models.b3      # later: has anything changed?

Exit status 7 says that something differs.")]
pub struct VerifyArgs {
    /// The directory.
    directory: PathBuf,
    /// Hosts, and the directory there, whose files they read for their digests.
    #[arg(value_name = "HOST[,HOST...]/[DIR/]", required_unless_present_any = ["manifest", "save"])]
    with: Option<TreeLocation>,
    /// Compare with the digests in a file: `DIGEST  PATH`, one a line.
    #[arg(long, value_name = "FILE", conflicts_with = "with")]
    manifest: Option<PathBuf>,
    /// Write the digests to a file, which must not exist; `-` is standard output.
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Print the result as a JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    keys: KeyArgs,
    #[command(flatten)]
    network: NetworkArgs,
}

/// Digests of files by their paths; none for what cannot be read.
type Digests = BTreeMap<String, Option<Digest>>;

pub async fn run(args: &VerifyArgs, quiet: bool) -> Result<(), Failed> {
    let mut interrupt = Interrupt::new()?;
    let expected = match (&args.manifest, &args.with) {
        (Some(path), _) => Some(read_manifest(path)?),
        (None, Some(from)) => Some(interrupt.guard(of_hosts(args, from)).await??),
        (None, None) => None,
    };
    let directory = args.directory.clone();
    let here = tokio::task::spawn_blocking(move || of_directory(&directory));
    let here = interrupt.guard(here).await?.map_err(|_| Failed::other("the program ends"))??;
    if let Some(path) = &args.save {
        save(path, &here)?;
    }
    let Some(expected) = expected else { return Ok(()) };
    let mut counts = [0_u64; 3];
    let mut say = |kind: usize, path: &str| {
        counts[kind] += 1;
        match args.json {
            true => Ok(()),
            false => writeln!(Report, "{} {path}", ["differs", "missing", "extra  "][kind]),
        }
    };
    for (path, digest) in &expected {
        match here.get(path) {
            None => say(1, path)?,
            Some(found) if found.is_none() || found != digest => say(0, path)?,
            Some(_) => {}
        }
    }
    for path in here.keys().filter(|path| !expected.contains_key(*path)) {
        say(2, path)?;
    }
    let [differing, missing, extra] = counts;
    if args.json {
        let files = here.len();
        let object =
            json!({"files": files, "differing": differing, "missing": missing, "extra": extra});
        writeln!(Report, "{object}")?;
    }
    if counts == [0; 3] {
        if !quiet && !args.json {
            writeln!(
                Stderr,
                "{}: {} files, all as they should be",
                args.directory.display(),
                here.len()
            );
        }
        return Ok(());
    }
    let text = format!("{differing} files differ, {missing} are missing, {extra} are too many");
    let hint = match &args.with {
        Some(_) => {
            "`wellspring get HOST/DIR/ -o DIR --checksum` fetches what differs, --delete removes what is extra."
        }
        None => "",
    };
    Err(Failed::new(exit::BAD_DIGEST, text).hint(hint))
}

/// Digests of what hosts have.
async fn of_hosts(args: &VerifyArgs, from: &TreeLocation) -> Result<Digests, Failed> {
    let client = client(&args.keys, &args.network)?;
    let options = TreeOptions::new(from.directory.clone()).checksum(true);
    let listing = client.list(&from.hosts, &options).await;
    let listing = listing.map_err(|error| exit::of_tree(&error, "listing"))?;
    let wrong = |error| Failed::new(exit::BAD_DIGEST, format!("the host sent {error}"));
    of_listing(&listing.bytes, false).map_err(wrong)
}

/// Digests of what is in a directory.
fn of_directory(directory: &Path) -> Result<Digests, Failed> {
    let shown = directory.display().to_string();
    let root = File::open(directory).map_err(|error| Failed::system(&shown, &error))?;
    if !root.metadata().is_ok_and(|meta| meta.is_dir()) {
        return Err(Failed::usage(format!("{shown} is not a directory")));
    }
    let how = Scan {
        hidden: true,
        deep: true,
        digests: true,
        keeps: Keeps::default(),
        links_out: LinksOut::Skipped,
    };
    let listing = scan(&OwnedFd::from(root), how);
    let listing = listing.map_err(|error| Failed::other(format!("{shown}: {error}")))?;
    of_listing(listing.as_bytes(), true).map_err(|error| Failed::other(error.to_string()))
}

/// Digests in a listing; `all` says whether what is skipped is in it, too.
fn of_listing(listing: &[u8], all: bool) -> Result<Digests, ListingError> {
    let mut digests = Digests::new();
    let mut cursor = Cursor::new(listing)?;
    while let Some(entry) = cursor.next_entry()? {
        let digest = match entry.content {
            // Nobody reads a file without bytes.
            Content::File { digest: None, .. } => Some(Digest(*blake3::hash(b"").as_bytes())),
            Content::File { digest, .. } => digest.map(Digest),
            Content::Skipped(_) if all => None,
            _ => continue,
        };
        digests.insert(entry.path.to_owned(), digest);
    }
    Ok(digests)
}

fn read_manifest(path: &Path) -> Result<Digests, Failed> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| Failed::system(&shown, &error))?;
    let mut digests = Digests::new();
    for (number, line) in text.lines().enumerate() {
        let entry =
            line.split_once("  ").and_then(|(digest, path)| Some((digest.parse().ok()?, path)));
        let Some((digest, path)) = entry else {
            let text = format!("{shown}, line {}: not `DIGEST  PATH`", number + 1);
            return Err(
                Failed::usage(text).hint("`wellspring verify DIR --save FILE` writes such a file.")
            );
        };
        digests.insert(path.to_owned(), Some(digest));
    }
    Ok(digests)
}

fn save(path: &Path, digests: &Digests) -> Result<(), Failed> {
    let mut text = String::new();
    for (path, digest) in digests {
        if let Some(digest) = digest {
            text.push_str(&format!("{digest}  {path}\n"));
        }
    }
    if path == Path::new("-") {
        return Ok(write!(Report, "{text}")?);
    }
    if path.symlink_metadata().is_ok() {
        return Err(exit::target_exists(path.display()));
    }
    std::fs::write(path, text).map_err(|error| Failed::system(path.display(), &error))
}
