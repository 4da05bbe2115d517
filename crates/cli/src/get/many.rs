//! `wellspring get` of several objects in one call.

use std::io::Read;
use std::net::{Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};
use wellspring_client::{Client, ClientConfig, Priority, TreeError};
use wellspring_console::exit::{Failed, INTERRUPTED};
use wellspring_console::interrupt::Interrupt;
use wellspring_console::output::{Report, Stderr};
use wellspring_console::units::{bit_rate, bytes, seconds};
use wellspring_console::usage::{cpu_seconds, peak_memory};
use wellspring_net::store::Existing;

use crate::exit;
use crate::keys::KeyArgs;
use crate::progress::Display;
use crate::transfer::{CutArgs, NetworkArgs, ReportArgs, Source};

use super::group::{Destination, Fetched, Group, fetch_all, groups, in_a_line};

/// Longest list of objects that is read \[bytes\].
const MAX_LIST_LEN: u64 = 64 << 20;

/// Arguments of a fetch that hold for several objects too.
pub struct Fetch<'a> {
    pub output: Option<&'a Path>,
    pub force: bool,
    pub priority: Priority,
    pub cut: &'a CutArgs,
    pub keys: &'a KeyArgs,
    pub network: &'a NetworkArgs,
    pub report: &'a ReportArgs,
}

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
        .insecure(args.keys.insecure)
        .driver(driver)
        .timeout(args.network.timeout)
        .further_addresses(args.network.further_addresses());
    let client = Client::new(config).map_err(|error| exit::of_start(&error))?;
    let title = format!("get {} objects to {}", from.len(), directory.display());
    let display = Display::new(args.report, quiet, &title)?;
    let began = Instant::now();
    let mut outcome = Outcome::default();
    let mut first_error = None;
    let cut = args.cut.for_scdp()?;
    let existing = if args.force { Existing::Replace } else { Existing::Keep };
    let (priority, to) = (args.priority, directory.to_owned());
    let into = Destination { client, directory: to, priority, cut, existing };
    let fetches = fetch_all(into, groups, display.updates());
    let interrupted = |_| {
        let text = "interrupted; run it again with --force to fetch what is missing";
        Failed::new(INTERRUPTED, text)
    };
    let fetched = interrupt.guard(fetches).await.map_err(interrupted);
    for (group, fetched) in fetched.inspect_err(|_| display.finish())? {
        outcome.add(&group, &fetched);
        first_error = first_error.or(fetched.error);
    }
    display.finish();
    let elapsed = began.elapsed();
    if args.report.json {
        writeln!(Report, "{}", outcome.account(directory, elapsed.as_secs_f64()))?;
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

impl Outcome {
    fn add(&mut self, group: &Group, fetched: &Fetched) {
        self.objects += group.names.len();
        self.fetched += fetched.files;
        self.bytes += fetched.bytes;
        for name in group.names.iter() {
            let reason = match (fetched.became.get(name), &fetched.error) {
                (Some(None), _) => continue,
                (Some(Some(reason)), _) => reason.clone(),
                (None, Some(error)) => in_a_line(error),
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
