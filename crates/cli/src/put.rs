//! `wellspring put`: a file or a directory to many hosts.

mod destination;
mod input;
mod tree;

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use wellspring_client::{
    Client, ClientConfig, LinksOut, PutError, PutOptions, PutReport, ReceiverReport, ReceiverState,
};
use wellspring_console::exit::{Failed, INTERRUPTED};
use wellspring_console::interrupt::Interrupt;
use wellspring_console::output::{Report, Stderr, table};
use wellspring_console::units::{bit_rate, bytes, parse_size, percent, seconds};
use wellspring_console::usage::{cpu_seconds, peak_memory};
use wellspring_core::Duration;
use wellspring_net::DEFAULT_PORT;
use wellspring_net::socket::{Interface, source_towards};
use wellspring_net::store::ObjectName;
use wellspring_transport::scdp::StragglerPolicy;

use crate::config::Line;
use crate::exit;
use crate::keys::KeyArgs;
use crate::progress::Display;
use crate::serve::digest_cache;
use crate::transfer::{CutArgs, FabricArg, NetworkArgs, PriorityArg, ReportArgs, list};
use crate::tree_args::TreeArgs;
use destination::Destination;

/// Put a file or a directory to many hosts: by multicast, or to each by unicast.
///
/// The hosts run `wellspring serve --allow-put`. With --group each symbol is sent once for all of
/// them, and a host that holds up the others goes on by unicast. The put succeeds when all hosts
/// (or --quorum of them) have verified and synced the object. Of a directory only what differs is
/// moved; what hosts have is replaced only with --force, where they run with --allow-overwrite.
#[derive(Args)]
#[command(after_help = "\
Examples:
  wellspring put 7b.bin a.example,b.example,c.example
  wellspring put 7b.bin a.example,b.example,c.example --group 239.255.47.11
  wellspring put 7b.bin a,b,c,d,e --quorum 3 --name models/7b.bin --force
  wellspring put 7b.bin a.example/models/            # as models/7b.bin
  wellspring put models a.example,b.example/models/  # a directory; again: what has changed
  wellspring put models a.example/models/ --force --delete --dry-run
  wellspring put backup.tar a.example --priority background
  tar c logs | wellspring put - a.example/logs.tar")]
pub struct PutArgs {
    #[command(flatten)]
    line: Line,
    /// The file or directory to send; `-` is standard input, which is kept in a temporary file first.
    file: PathBuf,
    /// The hosts to send it to, and its name there: with `/` at the end, the directory that gets it [default: the
    /// file's own name].
    #[arg(value_name = "HOST[,HOST...][/NAME|/DIR/]", required = true)]
    hosts: Vec<Destination>,
    /// Its name there, instead of one behind the hosts.
    #[arg(long)]
    name: Option<ObjectName>,
    /// Longest standard input that is taken: it is kept in a file in TMPDIR that only this process can read.
    #[arg(long, value_name = "SIZE", default_value = "64G", value_parser = parse_size)]
    max_input: u64,
    /// Multicast group to send to [default port: 4712].
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = parse_group)]
    group: Option<SocketAddr>,
    /// Interface that sends multicast: its name, or an address of it.
    #[arg(long, value_name = "IF")]
    interface: Option<Interface>,
    /// TTL of multicast packets; 1 stays on the local network.
    #[arg(long, value_name = "N", default_value_t = 1)]
    ttl: u8,
    /// Hosts that must have the object for success [default: all]. When they have it the command ends, and the
    /// others keep what they have for a later put.
    #[arg(long, value_name = "N")]
    quorum: Option<usize>,
    /// Go on with the other hosts after the quorum, as long as they make progress.
    #[arg(long)]
    finish_rest: bool,
    /// What becomes of a host that holds up the group.
    #[arg(long, value_enum, default_value_t = Stragglers::Detach, help_heading = "Group")]
    stragglers: Stragglers,
    /// The group goes on without a host that has been silent for so long while the others waited, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=60_000), help_heading = "Group")]
    straggler_patience: u64,
    /// A host is served by unicast when the others take so many times what it takes; 0: never.
    #[arg(long, value_name = "N", default_value_t = StragglerPolicy::DETACH.relative_rate, help_heading = "Group")]
    straggler_rate: u32,
    /// A host is served by unicast when it alone asks for more than so much beyond the object, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = StragglerPolicy::DETACH.may_ask, help_heading = "Group")]
    straggler_loss: u32,
    /// A host that has not answered the group for so long, and for three round trips, is served by unicast, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..=60_000), help_heading = "Group")]
    deaf_after: u64,
    /// Replace objects of that name, where hosts run with --allow-overwrite.
    #[arg(short, long)]
    force: bool,
    /// Send everything, also what an earlier put has brought to the hosts, and leave nothing there if this one
    /// is interrupted.
    #[arg(long)]
    no_resume: bool,
    /// Directory of the digest cache [default: $XDG_CACHE_HOME/wellspring or ~/.cache/wellspring].
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// Hosts swap the whole directory when all of it is there, instead of file by file.
    #[arg(long, help_heading = "Directories")]
    atomic: bool,
    /// Send the files that links lead to which lead out of the directory, under the links' names. Other links stay links.
    #[arg(long, help_heading = "Directories")]
    copy_unsafe_links: bool,
    /// Whether it gives way to other transfers: in the background its symbols are in the lowest class, hosts get it behind
    /// what else they get, and on a shared path it takes what others leave. Members of a group get it as any.
    #[arg(long, value_enum, default_value_t = PriorityArg::Normal, help_heading = "Transfer")]
    priority: PriorityArg,
    #[command(flatten)]
    tree: TreeArgs,
    #[command(flatten)]
    cut: CutArgs,
    #[command(flatten)]
    keys: KeyArgs,
    #[command(flatten)]
    network: NetworkArgs,
    #[command(flatten)]
    report: ReportArgs,
}

/// What becomes of hosts that hold up their group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Stragglers {
    /// They leave it, and are served by unicast.
    Detach,
    /// The others wait for them.
    Wait,
}

impl PutArgs {
    /// Refuses options that say nothing without another one.
    fn check_needs(&self) -> Result<(), Failed> {
        let of_stragglers =
            ["straggler_patience", "straggler_rate", "straggler_loss", "deaf_after"];
        let in_group = ["interface", "ttl", "stragglers"].iter().chain(&of_stragglers);
        let group = self.group.is_some();
        let in_group: Vec<_> = in_group.map(|option| (*option, "group", group)).collect();
        self.line.check_needs(&in_group)?;
        let detach = self.stragglers == Stragglers::Detach;
        self.line
            .check_needs(&of_stragglers.map(|option| (option, "stragglers detach", detach)))?;
        let shared = self.network.fabric == FabricArg::Shared;
        self.line.check_needs(&[
            ("finish_rest", "quorum", self.quorum.is_some()),
            ("congestion", "fabric shared", shared),
        ])
    }

    fn straggler_policy(&self) -> StragglerPolicy {
        StragglerPolicy {
            detach: self.stragglers == Stragglers::Detach,
            patience: Duration::from_millis(self.straggler_patience),
            relative_rate: self.straggler_rate,
            may_ask: self.straggler_loss,
            unheard_for: Duration::from_millis(self.deaf_after),
            ..StragglerPolicy::DETACH
        }
    }
}

pub async fn run(args: &PutArgs, quiet: bool) -> Result<(), Failed> {
    let mut interrupt = Interrupt::new()?;
    let to = destination::join(&args.hosts, args.name.as_ref())?;
    let is_tree = args.file.is_dir();
    let line = &args.line;
    let own = [("--atomic", "atomic"), ("--copy-unsafe-links", "copy_unsafe_links")];
    let own = own.iter().find_map(|(flag, option)| line.has(option).then_some(*flag));
    let flag = own.or_else(|| args.tree.first_given(line));
    if let (false, Some(flag)) = (is_tree, flag) {
        return Err(Failed::usage(format!("{flag} goes with a directory: `put DIR HOST/NAME/`")));
    }
    args.check_needs()?;
    if args.group.is_some() {
        args.network.check_one_path("a group")?;
    }
    let directory = if is_tree { Some(to.directory(&args.file)?) } else { None };
    let name = if is_tree { None } else { Some(to.object(&args.file)?) };
    let any = match args.group {
        Some(group) => {
            let source = source_towards(group, args.interface.as_ref()).map_err(|error| {
                let failed = Failed::other(format!("cannot send by multicast to {group}: {error}"));
                failed.hint("Name the interface to send by: --interface eth0, or an address of it.")
            })?;
            SocketAddr::new(source, 0)
        }
        None => SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0),
    };
    let mut driver = args.network.driver(any);
    args.keys.warn_client();
    driver.keys = args.keys.load()?;
    driver.socket.multicast_interface = args.interface.clone();
    driver.socket.multicast_ttl = args.ttl;
    driver.scdp.stragglers = args.straggler_policy();
    let cache = digest_cache(args.cache.as_deref())?;
    let config = ClientConfig::default()
        .insecure(args.keys.insecure)
        .driver(driver)
        .timeout(args.network.timeout)
        .further_addresses(args.network.further_addresses())
        .cache(Arc::new(cache));
    let client = Client::new(config).map_err(|error| exit::of_start(&error))?;
    let title = format!("put {} to {}", args.file.display(), list(&to.hosts));
    let display = Display::new(&args.report, quiet, &title)?;
    let Some(name) = name else {
        let put = tree::Put {
            from: &args.file,
            tree: &args.tree,
            atomic: args.atomic,
            links_out: match args.copy_unsafe_links {
                true => LinksOut::Copied,
                false => LinksOut::Skipped,
            },
            priority: args.priority.into(),
            cut: &args.cut,
            report: &args.report,
            force: args.force,
            group: args.group,
            quorum: args.quorum,
            of_files: [("--finish-rest", "finish_rest"), ("--no-resume", "no_resume")]
                .map(|(flag, option)| (flag, line.has(option))),
            client,
            display,
            hosts: &to.hosts,
            quiet,
        };
        return put.run(directory.flatten(), interrupt).await;
    };
    let options = PutOptions::new(name.clone())
        .overwrite(args.force)
        .resume(!args.no_resume)
        .group(args.group)
        .quorum(args.quorum)
        .finish_rest(args.finish_rest)
        .priority(args.priority.into())
        .cut(args.cut.for_scdp()?)
        .updates(display.updates());
    let input = match is_input(&args.file) {
        true => interrupt.guard(input::spool(args.max_input)).await.flatten().map(Some),
        false => Ok(None),
    };
    let input = input.inspect_err(|_| display.finish())?;
    let put = async {
        match input {
            Some(file) => client.put_file(file, &to.hosts, &options).await,
            None => client.put(&args.file, &to.hosts, &options).await,
        }
    };
    let put = interrupt.guard(put).await;
    display.finish();
    drop(client);
    let result = put.map_err(|failed| match args.no_resume {
        true => failed,
        false => Failed::new(INTERRUPTED, "interrupted; run it again to send what is missing"),
    })?;
    let report = match &result {
        Ok(report) => Some(report),
        Err(PutError::Incomplete(report)) => Some(&**report),
        Err(_) => None,
    };
    if let Some(report) = report {
        if args.report.json {
            let mut object = put_json(name.as_str(), report);
            object["cpu_seconds"] = cpu_seconds(None).into();
            object["peak_memory_bytes"] = peak_memory().into();
            writeln!(Report, "{object}")?;
        } else if !quiet {
            write!(Stderr, "{}", summary(name.as_str(), report));
        }
    }
    match result {
        Ok(_) => Ok(()),
        Err(PutError::Read(error)) if error.kind() == std::io::ErrorKind::InvalidInput => {
            let failed = Failed::system(args.file.display(), &error);
            Err(failed
                .hint("What comes from a pipe is put so: `... | wellspring put - HOST/NAME`."))
        }
        Err(PutError::Read(error)) => Err(Failed::system(args.file.display(), &error)),
        Err(error) => Err(exit::of_put(&error)),
    }
}

/// What was sent of what was needed.
fn symbols(report: &PutReport) -> String {
    let (sent, needed) = (report.sent(), report.symbols_needed);
    match report.overhead_sent() {
        Some(overhead) => {
            format!("{needed} symbols needed, {sent} sent ({} over)", percent(overhead))
        }
        None if needed > 0 => format!("{needed} symbols needed, {sent} sent, not all to their end"),
        None if report.size == 0 => "nothing to send: the object has no bytes".to_owned(),
        None => "nothing sent: the object was there already".to_owned(),
    }
}

/// Whether it is standard input that is sent.
fn is_input(file: &Path) -> bool {
    file == Path::new("-")
}

fn summary(name: &str, report: &PutReport) -> String {
    let mut text = format!(
        "{name}: {} at {} of {} hosts after {}{}\n{}\n",
        bytes(report.size),
        report.complete(),
        report.receivers.len(),
        seconds(report.quorum_after.unwrap_or(report.elapsed)),
        report.goodput().map(|rate| format!(", {}", bit_rate(rate))).unwrap_or_default(),
        symbols(report),
    );
    let mut rows = vec![["receiver", "after", "state"].map(str::to_owned).to_vec()];
    for receiver in &report.receivers {
        let way = receiver.detached.map(|cause| format!(" (by unicast in the end: {cause})"));
        let way = way.unwrap_or_default();
        let way = match receiver.resumed {
            0 => way,
            resumed => format!("{way}, {} were there", bytes(resumed)),
        };
        let (after, state) = match &receiver.state {
            ReceiverState::Complete(after) => (seconds(*after), format!("complete{way}")),
            ReceiverState::Failed(reason) => ("-".to_owned(), format!("failed: {reason}")),
            ReceiverState::Unfinished => {
                let far = match receiver.blocks {
                    (_, 0) => "had not begun".to_owned(),
                    (done, total) => format!("{done} of {total} blocks"),
                };
                ("-".to_owned(), format!("{far}{way}"))
            }
        };
        rows.push(vec![receiver.host.clone(), after, state]);
    }
    text.push_str(&table(&rows));
    text
}

/// The report of a put for programs: times in seconds, rates in bit/s, overheads as parts.
fn put_json(name: &str, report: &PutReport) -> Value {
    let receiver = |r: &ReceiverReport| {
        let (state, after, reason) = match &r.state {
            ReceiverState::Complete(after) => ("complete", Some(after.as_secs_f64()), None),
            ReceiverState::Failed(reason) => ("failed", None, Some(reason)),
            ReceiverState::Unfinished => ("unfinished", None, None),
        };
        json!({
            "host": r.host,
            "address": r.address.map(|a| a.to_string()),
            "state": state,
            "seconds": after,
            "reason": reason,
            "detached": r.detached.is_some(),
            "detached_because": r.detached.map(|cause| cause.to_string()),
            "bytes_resumed": r.resumed,
            "blocks_done": r.blocks.0,
            "blocks": r.blocks.1,
        })
    };
    let sent = report.stats.source_symbols + report.stats.repair_symbols;
    json!({
        "object": name,
        "bytes": report.size,
        "digest": report.digest.to_string(),
        "seconds": report.elapsed.as_secs_f64(),
        "seconds_to_quorum": report.quorum_after.map(|t| t.as_secs_f64()),
        "receivers_needed": report.needed,
        "receivers_complete": report.complete(),
        "goodput_bits_per_second": report.goodput(),
        "symbols_needed": report.symbols_needed,
        "symbols_sent": sent,
        "source_symbols_sent": report.stats.source_symbols,
        "repair_symbols_sent": report.stats.repair_symbols,
        "pulls": report.stats.pulls,
        "overhead_sent": report.overhead_sent(),
        "receivers": report.receivers.iter().map(receiver).collect::<Vec<_>>(),
    })
}

pub fn parse_group(text: &str) -> Result<SocketAddr, String> {
    let group = text
        .parse::<SocketAddr>()
        .or_else(|_| text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, DEFAULT_PORT + 1)));
    match group {
        Ok(group) if group.ip().is_multicast() && group.port() != 0 => Ok(group),
        Ok(group) => Err(format!("{} is no multicast address (239.0.0.0/8, ff00::/8)", group.ip())),
        Err(_) => Err("write an address such as 239.255.47.11 or [ff15::4711]:4712".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use wellspring_transport::scdp::SendStats;

    use super::*;

    /// A put of a gigabyte whose receivers ended in these states.
    fn report(states: &[ReceiverState], symbols_needed: u64, sent: u64) -> PutReport {
        let receiver = |state: &ReceiverState| ReceiverReport {
            host: "a.example".into(),
            address: None,
            state: state.clone(),
            trouble: wellspring_client::HostTrouble::Other,
            detached: None,
            resumed: 0,
            blocks: (0, 1),
        };
        let all = states.iter().all(|state| matches!(state, ReceiverState::Complete(_)));
        PutReport {
            size: 1_000_000_000,
            digest: wellspring_net::store::Digest([0; 32]),
            elapsed: Duration::from_secs(1),
            quorum_after: all.then_some(Duration::from_millis(6)),
            needed: states.len(),
            symbols_needed,
            stats: SendStats { source_symbols: sent, ..SendStats::default() },
            receivers: states.iter().map(receiver).collect(),
        }
    }

    const COMPLETE: ReceiverState = ReceiverState::Complete(Duration::from_millis(6));

    #[derive(clap::Parser)]
    struct Put {
        #[command(flatten)]
        args: PutArgs,
    }

    #[test]
    fn the_policy_about_stragglers_can_be_chosen() {
        let policy = |more: &[&str]| {
            let args = ["put", "file", "a,b"].iter().chain(more);
            <Put as clap::Parser>::try_parse_from(args).map(|put| put.args.straggler_policy())
        };
        assert_eq!(policy(&[]).expect("the defaults"), StragglerPolicy::DETACH);
        let waits = policy(&["--stragglers", "wait"]).expect("a policy");
        assert!(!waits.detach);
        let chosen =
            ["--straggler-patience", "30", "--straggler-rate", "9", "--straggler-loss", "50"];
        let chosen = policy(&[&chosen[..], &["--deaf-after", "900"]].concat()).expect("a policy");
        assert_eq!(chosen.patience, wellspring_core::Duration::from_millis(30));
        assert_eq!((chosen.relative_rate, chosen.may_ask), (9, 50));
        assert_eq!(chosen.unheard_for, wellspring_core::Duration::from_millis(900));
        assert!(policy(&["--straggler-patience", "0"]).is_err());
    }

    #[test]
    fn what_was_there_already_has_no_rate() {
        let text = summary("x", &report(&[COMPLETE], 0, 0));
        assert!(text.contains("nothing sent: the object was there already"), "{text}");
        assert!(!text.contains("bit/s") && !text.contains("over"), "{text}");
        assert_eq!(
            put_json("x", &report(&[COMPLETE], 0, 0))["goodput_bits_per_second"],
            Value::Null
        );
    }

    #[test]
    fn copies_for_several_hosts_are_no_overhead() {
        let states = [COMPLETE, COMPLETE, COMPLETE];
        let text = summary("x", &report(&states, 3_000, 3_030));
        assert!(text.contains("3000 symbols needed, 3030 sent (1.0 % over)"), "{text}");
    }

    #[test]
    fn a_put_that_nobody_has_to_its_end_has_neither_rate_nor_overhead() {
        let failed = ReceiverState::Failed("fell silent".into());
        let text = summary("x", &report(&[failed], 1_000, 359));
        assert!(text.contains("1000 symbols needed, 359 sent, not all to their end"), "{text}");
        assert!(!text.contains("bit/s") && !text.contains('%'), "{text}");
    }

    #[test]
    fn a_host_that_had_not_begun_when_the_quorum_was_done_is_shown_so() {
        let mut report = report(&[COMPLETE, ReceiverState::Unfinished], 10, 10);
        report.receivers[1].blocks = (0, 0);
        assert!(summary("x", &report).contains("had not begun"));
    }

    #[test]
    fn groups_are_multicast() {
        assert_eq!(parse_group("239.1.2.3"), Ok("239.1.2.3:4712".parse().expect("address")));
        assert!(parse_group("10.0.0.1").is_err());
        assert!(parse_group("[ff02::1]:9").is_ok());
    }
}
