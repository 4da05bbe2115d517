//! `wellspring verify`: the files of a directory, read again and compared.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use serde_json::json;
use tokio::task::JoinSet;
use wellspring_client::{Host, TreeOptions};
use wellspring_console::exit::Failed;
use wellspring_console::interrupt::{Interrupt, detached};
use wellspring_console::output::{Report, Stderr};
use wellspring_console::units::counted;
use wellspring_net::store::Digest;
use wellspring_net::store::tree::listing::{Content, Cursor, Keeps, ListingError, SkipReason};
use wellspring_net::store::tree::{LinksOut, Scan, scan};
use wellspring_store::atomic_file::{AtomicFile, Existing};

use crate::connect::client;
use crate::exit;
use crate::keys::KeyArgs;
use crate::transfer::{NetworkArgs, TreeLocation};
use crate::tree_args::plain;

/// Read all files of a directory again, and compare their bytes with a host's or with saved digests.
///
/// Each file that differs, is missing or is too much is printed. Directories, links, devices, sockets, pipes, modes and
/// times are not compared (`get --dry-run` compares what a transfer moves). Hosts that are named together must have the same
/// files. Saved digests have the form of `b3sum`, which can check them as well.
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
    #[arg(value_name = "HOST[,HOST...]/[DIR/]", required_unless_present_any = ["manifest", "save", "print_config"])]
    with: Option<TreeLocation>,
    /// Compare with the digests in a file: `DIGEST  PATH`, one a line. In the directory that file is not too much.
    #[arg(long, value_name = "FILE", conflicts_with = "with")]
    manifest: Option<PathBuf>,
    /// Write the digests to a file, which must not exist; `-` is standard output. If a file cannot be read, or has a name
    /// that objects cannot have, nothing is written, and the command fails.
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

/// Files named in a message at most.
const NAMED: usize = 20;

/// Digests of files by their paths, or why there is none.
type Files = BTreeMap<String, Result<Digest, SkipReason>>;

pub async fn run(args: &VerifyArgs, quiet: bool) -> Result<(), Failed> {
    let mut interrupt = Interrupt::new()?;
    if let Some(path) = args.save.as_deref().filter(|path| is_taken(path)) {
        return Err(exit::target_exists(path.display()));
    }
    let expected = match (&args.manifest, &args.with) {
        (Some(path), _) => {
            let path = path.clone();
            Some(interrupt.guard(detached(move || read_manifest(&path))).await??)
        }
        (None, Some(from)) => Some(interrupt.guard(of_hosts(args, from)).await??),
        (None, None) => None,
    };
    let directory = args.directory.clone();
    let mut here = interrupt.guard(detached(move || of_directory(&directory))).await??;
    if let Some(path) = &args.save {
        save(path, &here)?;
    }
    if let (Some(path), Some(expected)) = (&args.manifest, &expected) {
        leave_out(path, &args.directory, expected, &mut here);
    }
    let Some(expected) = expected else { return Ok(()) };
    let mut found: [Vec<&String>; 3] = Default::default();
    let mut say = |kind: usize, path| {
        found[kind].push(path);
        let shown = plain(path);
        match args.json {
            true => Ok(()),
            false => writeln!(Report, "{} {shown}", ["differs", "missing", "extra  "][kind]),
        }
    };
    for (path, digest) in &expected {
        match here.get(path) {
            None => say(1, path)?,
            Some(found) if found != digest => say(0, path)?,
            Some(_) => {}
        }
    }
    for path in here.keys().filter(|path| !expected.contains_key(*path)) {
        say(2, path)?;
    }
    let [differing, missing, extra] = found.each_ref().map(Vec::len);
    if args.json {
        let [differing_paths, missing_paths, extra_paths] = &found;
        let object = json!({
            "files": here.len(),
            "differing": differing, "differing_paths": differing_paths,
            "missing": missing, "missing_paths": missing_paths,
            "extra": extra, "extra_paths": extra_paths,
        });
        writeln!(Report, "{object}")?;
    }
    if found.iter().all(Vec::is_empty) {
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

/// Digests of what hosts have. They are asked one by one: their directories may have other times.
async fn of_hosts(args: &VerifyArgs, from: &TreeLocation) -> Result<Files, Failed> {
    let client = Arc::new(client(&args.keys, &args.network)?);
    let options = TreeOptions::new(from.directory.clone()).checksum(true);
    let mut asked = JoinSet::new();
    for (index, host) in from.hosts.iter().cloned().enumerate() {
        let (client, options) = (Arc::clone(&client), options.clone());
        asked.spawn(async move {
            let listing = client.list(std::slice::from_ref(&host), &options).await;
            (index, listing.map_err(|error| exit::of_tree(&error, "listing")))
        });
    }
    let mut listings = asked.join_all().await;
    listings.sort_by_key(|(index, _)| *index);
    let (mut have, mut failed) = (Vec::new(), None);
    for (index, listing) in listings {
        let host = &from.hosts[index];
        match listing {
            Ok(listing) => have.push((host, of_host(&listing.bytes)?)),
            Err(error) => {
                if from.hosts.len() > 1 {
                    let reason = error.message.as_deref().unwrap_or_default();
                    writeln!(Stderr, "{host} is left out: {reason}");
                }
                failed = Some(error);
            }
        }
    }
    if let Some((path, hosts)) = first_difference(&have) {
        let text = format!("the hosts differ in {}:{hosts}", plain(path));
        return Err(Failed::new(exit::REPLICAS_DIFFER, text).hint(
            "Name one of them, whose files are to count. `put --force --checksum` of the right directory mends the others.",
        ));
    }
    match (have.into_iter().next(), failed) {
        (Some((_, files)), _) => Ok(files),
        (None, Some(error)) => Err(error),
        (None, None) => Ok(Files::new()),
    }
}

/// What a host serves: what it cannot serve is not there for anybody else.
fn of_host(listing: &[u8]) -> Result<Files, Failed> {
    let wrong = |error| Failed::new(exit::BAD_DIGEST, format!("the host sent {error}"));
    let mut files = of_listing(listing).map_err(wrong)?;
    files.retain(|_, digest| digest.is_ok());
    Ok(files)
}

/// The first file that hosts do not have alike, and what each of them has.
fn first_difference<'a>(have: &'a [(&Host, Files)]) -> Option<(&'a String, String)> {
    let (_, first) = have.first()?;
    let differs =
        |path: &&String| have.iter().any(|(_, files)| files.get(*path) != first.get(*path));
    let paths = have.iter().filter_map(|(_, files)| files.keys().find(differs));
    let path = paths.min()?;
    let has = |(host, files): &(&Host, Files)| match files.get(path) {
        Some(Ok(digest)) => format!("\n  {host}: digest {digest}"),
        _ => format!("\n  {host}: not there"),
    };
    Some((path, have.iter().map(has).collect()))
}

/// Digests of what is in a directory.
fn of_directory(directory: &Path) -> Result<Files, Failed> {
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
    of_listing(listing.as_bytes()).map_err(|error| Failed::other(error.to_string()))
}

/// The files in a listing: what has bytes.
fn of_listing(listing: &[u8]) -> Result<Files, ListingError> {
    let mut files = Files::new();
    let mut cursor = Cursor::new(listing)?;
    while let Some(entry) = cursor.next_entry()? {
        let digest = match entry.content {
            // Nobody reads a file without bytes.
            Content::File { digest, .. } => Ok(digest.map_or(Digest::of_nothing(), Digest)),
            Content::Skipped(SkipReason::LeadsOut | SkipReason::Special) => continue,
            Content::Skipped(reason) => Err(reason),
            Content::Directory | Content::Link { .. } => continue,
        };
        files.insert(entry.path.to_owned(), digest);
    }
    Ok(files)
}

fn read_manifest(path: &Path) -> Result<Files, Failed> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| Failed::system(&shown, &error))?;
    let mut digests = Files::new();
    for (number, line) in text.lines().enumerate() {
        let entry =
            line.split_once("  ").and_then(|(digest, path)| Some((digest.parse().ok()?, path)));
        let Some((digest, path)) = entry else {
            let text = format!("{shown}, line {}: not `DIGEST  PATH`", number + 1);
            return Err(
                Failed::usage(text).hint("`wellspring verify DIR --save FILE` writes such a file.")
            );
        };
        digests.insert(path.to_owned(), Ok(digest));
    }
    Ok(digests)
}

/// Leaves out the file of the digests itself where it lies in the directory, unless it is expected there.
fn leave_out(manifest: &Path, directory: &Path, expected: &Files, here: &mut Files) {
    let identity = |path: &Path| path.metadata().ok().map(|meta| (meta.dev(), meta.ino()));
    let Some(own) = identity(manifest) else { return };
    here.retain(|path, _| {
        expected.contains_key(path) || identity(&directory.join(path)) != Some(own)
    });
}

/// Whether something has that name already.
fn is_taken(path: &Path) -> bool {
    path != Path::new("-") && path.symlink_metadata().is_ok()
}

/// Writes all digests, or nothing.
fn save(path: &Path, files: &Files) -> Result<(), Failed> {
    let mut text = String::new();
    for (path, digest) in files {
        match digest {
            Ok(digest) => text.push_str(&format!("{digest}  {path}\n")),
            Err(_) => return Err(without_digests(files)),
        }
    }
    if path == Path::new("-") {
        return Ok(write!(Report, "{text}")?);
    }
    let written = AtomicFile::create(path, Existing::Keep).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.finish()
    });
    written.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => exit::target_exists(path.display()),
        _ => Failed::system(path.display(), &error),
    })
}

/// Digests of all cannot be saved: a later comparison would find the others too many.
fn without_digests(files: &Files) -> Failed {
    let reasons = files.iter().filter_map(|(path, digest)| Some((path, digest.err()?)));
    let mut text =
        format!("{} cannot be saved:", counted(reasons.clone().count() as u64, "digest"));
    for (path, reason) in reasons.clone().take(NAMED) {
        text.push_str(&format!("\n  {path} {reason}"));
    }
    if reasons.count() > NAMED {
        text.push_str("\n  ...");
    }
    Failed::other(text).hint(
        "Nothing was written. Make these files readable by who runs the command, give them other names, or move them out of \
         the directory.",
    )
}
