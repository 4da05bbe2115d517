//! `wellspring get` of several objects in one call.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::net::{Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use wellspring_client::{
    Client, ClientConfig, Cut, Host, TreeChange, TreeError, TreeFilter, TreeOptions, TreeReport,
};
use wellspring_console::exit::{Failed, INTERRUPTED};
use wellspring_console::interrupt::Interrupt;
use wellspring_console::output::{Stderr, Stdout};
use wellspring_console::units::{bit_rate, bytes, seconds};
use wellspring_console::usage::{cpu_seconds, peak_memory};
use wellspring_net::store::ObjectName;

use crate::exit;
use crate::keys::KeyArgs;
use crate::progress::Display;
use crate::transfer::{CutArgs, Location, NetworkArgs, ReportArgs, Source};

/// Longest list of objects that is read \[bytes\].
const MAX_LIST_LEN: u64 = 64 << 20;
/// Hosts, and directories of one, that are fetched from at one time.
const AT_ONCE: usize = 64;

/// Arguments of a fetch that hold for several objects too.
pub struct Fetch<'a> {
    pub output: Option<&'a Path>,
    pub force: bool,
    pub cut: &'a CutArgs,
    pub keys: &'a KeyArgs,
    pub network: &'a NetworkArgs,
    pub report: &'a ReportArgs,
}

/// Objects of one directory of the same hosts: file names there.
struct Group {
    hosts: Vec<Host>,
    directory: Option<ObjectName>,
    names: Arc<BTreeSet<String>>,
}

/// Objects by their file names: each is here, or why it is not.
type Became = BTreeMap<String, Option<String>>;

/// Account of all groups.
#[derive(Default)]
struct Outcome {
    objects: usize,
    fetched: u64,
    bytes: u64,
    /// Object as it was named, and why it is not here.
    failed: Vec<(String, String)>,
}

/// Reads the objects that a file lists, one a line; `-` is standard input.
///
/// # Errors
/// The file cannot be read, or a line is no object.
pub fn read_list(path: &Path) -> Result<Vec<Source>, Failed> {
    let shown = path.display().to_string();
    let mut text = String::new();
    let read = if path == Path::new("-") {
        std::io::stdin().take(MAX_LIST_LEN).read_to_string(&mut text)
    } else {
        let file = std::fs::File::open(path);
        file.and_then(|file| file.take(MAX_LIST_LEN).read_to_string(&mut text))
    };
    let len = read.map_err(|error| Failed::system(&shown, &error))?;
    if len as u64 == MAX_LIST_LEN {
        return Err(Failed::usage(format!("{shown} is longer than {}", bytes(MAX_LIST_LEN))));
    }
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let parsed = lines.map(|(number, line)| {
        let source = line.trim().parse::<Source>();
        source.map_err(|error| Failed::usage(format!("{shown}, line {}: {error}", number + 1)))
    });
    parsed.collect()
}

pub async fn run(args: &Fetch<'_>, from: &[Source], quiet: bool) -> Result<(), Failed> {
    let mut interrupt = Interrupt::new()?;
    let directory = args.output.unwrap_or(Path::new("."));
    if directory.exists() && !directory.is_dir() {
        let text = format!("{} is not a directory", directory.display());
        return Err(Failed::usage(text).hint("Several objects go to a directory: name it by -o."));
    }
    let groups = groups(from)?;
    let names = groups.iter().flat_map(|group| group.names.iter());
    if !args.force
        && let Some(name) =
            names.clone().find(|name| directory.join(name).symlink_metadata().is_ok())
    {
        return Err(exit::target_exists(directory.join(name).display()));
    }
    let any = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0);
    args.keys.warn_client();
    let driver = args.network.driver(any).keys(args.keys.load()?);
    let config = ClientConfig::default()
        .driver(driver)
        .timeout(args.network.timeout)
        .further_addresses(args.network.further_addresses());
    let client = Client::new(config).map_err(|error| exit::of_start(&error))?;
    let title = format!("get {} objects to {}", from.len(), directory.display());
    let display = Display::new(args.report, quiet, &title)?;
    let began = Instant::now();
    let mut outcome = Outcome::default();
    let mut first_error = None;
    let fetches = fetch_all(client, groups, args.cut.for_scdp()?, &display, directory);
    let interrupted = |_| {
        let text = "interrupted; run it again with --force to fetch what is missing";
        Failed::new(INTERRUPTED, text)
    };
    let fetched = interrupt.guard(fetches).await.map_err(interrupted);
    for (group, here, fetched) in fetched.inspect_err(|_| display.finish())? {
        outcome.add(&group, &here, fetched.as_ref().err());
        if let Ok(report) = &fetched {
            outcome.fetched += report.fetched_files;
            outcome.bytes += report.fetched_bytes;
        }
        first_error = first_error.or(fetched.err());
    }
    display.finish();
    let elapsed = began.elapsed();
    if args.report.json {
        writeln!(Stdout, "{}", outcome.account(directory, elapsed.as_secs_f64()))?;
    } else if !quiet {
        let there = outcome.objects - outcome.failed.len();
        let rate = outcome.bytes as f64 * 8.0 / elapsed.as_secs_f64().max(1e-9);
        writeln!(
            Stderr,
            "{}: {there} of {} objects, {} in {}, {}",
            directory.display(),
            outcome.objects,
            bytes(outcome.bytes),
            seconds(elapsed),
            bit_rate(rate),
        );
    }
    outcome.end(first_error, directory)
}

/// Fetches all groups, many at a time; gives each with what became of its objects, in order.
async fn fetch_all(
    client: Client,
    groups: Vec<Group>,
    cut: Cut,
    display: &Display,
    directory: &Path,
) -> Vec<(Group, Became, Result<TreeReport, TreeError>)> {
    let (client, directory) = (Arc::new(client), Arc::<Path>::from(directory));
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let mut fetches = JoinSet::new();
    for (index, (group, updates)) in
        groups.iter().zip(display.updates().parts(groups.len())).enumerate()
    {
        let options = TreeOptions::new(group.directory.clone())
            .level(true)
            .filter(filter(group))
            .cut(cut)
            .updates(updates);
        let (client, directory) = (Arc::clone(&client), Arc::clone(&directory));
        let (places, hosts) = (Arc::clone(&places), group.hosts.clone());
        fetches.spawn(async move {
            let _place = places.acquire_owned().await;
            let here = Arc::new(Mutex::new(BTreeMap::new()));
            let noted = Arc::clone(&here);
            let hear = Arc::new(move |change: TreeChange| note(&noted, change));
            let fetched = client.fetch_tree(&hosts, &options, &directory, hear).await;
            let here = std::mem::take(&mut *here.lock().unwrap_or_else(PoisonError::into_inner));
            (index, here, fetched)
        });
    }
    let mut fetched = fetches.join_all().await;
    fetched.sort_by_key(|(index, ..)| *index);
    let ended = groups.into_iter().zip(fetched);
    ended.map(|(group, (_, here, fetched))| (group, here, fetched)).collect()
}

impl Outcome {
    fn add(&mut self, group: &Group, here: &Became, error: Option<&TreeError>) {
        self.objects += group.names.len();
        for name in group.names.iter() {
            let reason = match (here.get(name), error) {
                (Some(None), _) => continue,
                (Some(Some(reason)), _) => reason.clone(),
                (None, Some(error)) => {
                    error.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
                }
                (None, None) => "no such object".to_owned(),
            };
            self.failed.push((group.object(name), reason));
        }
    }

    fn account(&self, directory: &Path, seconds: f64) -> Value {
        let failed = self.failed.iter();
        json!({
            "output": directory.display().to_string(),
            "objects": self.objects,
            "objects_failed": self.failed.len(),
            "objects_fetched": self.fetched,
            "bytes_fetched": self.bytes,
            "failed": failed
                .map(|(object, reason)| json!({"object": object, "reason": reason}))
                .collect::<Vec<_>>(),
            "seconds": seconds,
            "cpu_seconds": cpu_seconds(None),
            "peak_memory_bytes": peak_memory(),
        })
    }

    /// Fails if an object is not here: with the status of the first trouble, and all names.
    fn end(self, first_error: Option<TreeError>, directory: &Path) -> Result<(), Failed> {
        if self.failed.is_empty() {
            return Ok(());
        }
        let mut text =
            format!("{} of {} objects were not fetched:", self.failed.len(), self.objects);
        for (object, reason) in self.failed.iter().take(20) {
            text.push_str(&format!("\n  {object}: {reason}"));
        }
        if self.failed.len() > 20 {
            text.push_str("\n  ... (--json names all)");
        }
        let failed = match first_error {
            Some(error) => exit::of_tree(&error, &directory.display().to_string()),
            None => Failed::new(exit::NO_HOST, String::new())
                .hint("Check the spelling: `wellspring ls HOST/DIR/` lists what there is."),
        };
        Err(Failed { message: Some(text), ..failed })
    }
}

impl Group {
    /// An object as it was named.
    fn object(&self, name: &str) -> String {
        let hosts: Vec<String> = self.hosts.iter().map(Host::to_string).collect();
        let directory = self.directory.as_ref().map(|d| format!("{d}/")).unwrap_or_default();
        format!("{}/{directory}{name}", hosts.join(","))
    }
}

/// The objects by their hosts and directories. Two objects of one file name are an error.
fn groups(from: &[Source]) -> Result<Vec<Group>, Failed> {
    let mut by_place = BTreeMap::new();
    let mut all = BTreeMap::new();
    for source in from {
        let Source::Object(Location { hosts, name }) = source else {
            return Err(Failed::usage("a directory is fetched by a call of its own"));
        };
        if let Some(before) = all.insert(name.file_name(), (hosts, name))
            && before != (hosts, name)
        {
            let text = format!("{} and {name} would both be {}", before.1, name.file_name());
            return Err(Failed::usage(text));
        }
        let key = hosts.iter().map(Host::to_string).collect::<Vec<_>>().join(",");
        let group: &mut Group = by_place.entry((key, name.parent())).or_insert_with(|| {
            let part = "a part of an object's name is one";
            let directory = name.parent().map(|parent| ObjectName::new(parent).expect(part));
            Group { hosts: hosts.clone(), directory, names: Arc::default() }
        });
        Arc::make_mut(&mut group.names).insert(name.file_name().to_owned());
    }
    Ok(by_place.into_values().collect())
}

fn filter(group: &Group) -> TreeFilter {
    let names = Arc::clone(&group.names);
    TreeFilter::by(move |path, is_directory| !is_directory && names.contains(path))
}

/// Notes what became of an object: here, or why not.
fn note(here: &Mutex<Became>, change: TreeChange) {
    let mut here = here.lock().unwrap_or_else(PoisonError::into_inner);
    match change {
        TreeChange::Fetched(path, _) | TreeChange::Made(path) | TreeChange::Kept(path) => {
            here.insert(path, None);
        }
        TreeChange::Skipped(path, reason) => {
            here.insert(path, Some(reason.to_string()));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(texts: &[&str]) -> Vec<Source> {
        texts.iter().map(|text| text.parse().expect(text)).collect()
    }

    #[test]
    fn objects_are_grouped_by_hosts_and_directory() {
        let from = sources(&["a/x/1", "a/x/2", "a/3", "a,b/x/4", "a/x/2"]);
        let Ok(groups) = groups(&from) else { panic!("no groups") };
        let shown: Vec<String> = groups
            .iter()
            .map(|group| group.names.iter().map(|name| group.object(name)).collect::<Vec<_>>())
            .map(|objects| objects.join(" "))
            .collect();
        assert_eq!(shown, ["a:4711/3", "a:4711/x/1 a:4711/x/2", "a:4711,b:4711/x/4"]);
    }

    #[test]
    fn two_objects_of_one_name_are_refused_before_anything_moves() {
        assert!(groups(&sources(&["a/x/1", "a/y/1"])).is_err());
        assert!(groups(&sources(&["a/1", "b/1"])).is_err());
        assert!(groups(&sources(&["a/1", "a/x/"])).is_err());
    }
}
