//! `wellspring put`.

use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;

use wellspring_net::socket::source_towards;
use wellspring_net::store::{DigestCache, ObjectName};
use wellspring_net::{Client, ClientConfig, PutError, PutOptions, PutReport, ReceiverState};

use crate::args::PutArgs;
use crate::exit::{self, Failed};
use crate::interrupt::Interrupt;
use crate::output::{Stderr, Stdout, bit_rate, bytes, percent, put_json, seconds, table};
use crate::process::{cpu_seconds, peak_memory};
use crate::progress::Display;

pub async fn run(args: &PutArgs, quiet: bool) -> Result<(), Failed> {
    let mut interrupt = Interrupt::new()?;
    let name = name(args)?;
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
    driver.socket.multicast_interface = args.interface.clone();
    driver.socket.multicast_ttl = args.ttl;
    let cache = match &args.cache {
        Some(directory) => DigestCache::open(directory).map_err(|error| {
            Failed::other(format!("cannot keep digests in {}: {error}", directory.display()))
        })?,
        None => DigestCache::of_user(),
    };
    let config = ClientConfig { driver, timeout: args.network.timeout, cache: Arc::new(cache) };
    let client = Client::new(config)
        .map_err(|error| Failed::other(format!("cannot open a UDP socket: {error}")))?;
    let options = PutOptions {
        name: name.clone(),
        overwrite: args.force,
        group: args.group,
        quorum: args.quorum,
        cut: args.cut.to_cut(),
    };
    let display = Display::new(quiet || args.report.json, args.report.json_progress, false);
    let put = client.put(&args.file, &args.hosts, &options, display.updates());
    let put = interrupt.guard(async { Ok::<_, Failed>(put.await) }).await;
    display.finish();
    drop(client);
    let result = put?;
    let report = match &result {
        Ok(report) => Some(report),
        Err(PutError::Incomplete(report)) => Some(&**report),
        Err(_) => None,
    };
    if let Some(report) = report {
        if args.report.json {
            let mut account = put_json(name.as_str(), report);
            account["cpu_seconds"] = cpu_seconds(None).into();
            account["peak_memory_bytes"] = peak_memory().into();
            writeln!(Stdout, "{account}")?;
        } else if !quiet {
            write!(Stderr, "{}", summary(name.as_str(), report));
        }
    }
    match result {
        Ok(_) => Ok(()),
        Err(PutError::Read(error)) => {
            Err(Failed::other(format!("{}: {error}", args.file.display())))
        }
        Err(error) => Err(error.into()),
    }
}

fn name(args: &PutArgs) -> Result<ObjectName, Failed> {
    if let Some(name) = &args.name {
        return Ok(name.clone());
    }
    let file = args.file.file_name().and_then(|name| name.to_str());
    file.and_then(|name| ObjectName::new(name).ok()).ok_or_else(|| {
        let text = format!("the name of {} cannot be that of an object", args.file.display());
        Failed::new(exit::USAGE, text).hint("Give it one by --name.")
    })
}

fn summary(name: &str, report: &PutReport) -> String {
    let sent = report.stats.source_symbols + report.stats.repair_symbols;
    let mut text = format!(
        "{name}: {} to {} of {} hosts in {}, {}\n",
        bytes(report.size),
        report.complete(),
        report.receivers.len(),
        seconds(report.quorum_after.unwrap_or(report.elapsed)),
        bit_rate(report.goodput()),
    );
    let needed = report.symbols_needed;
    text.push_str(&match (sent, report.complete()) {
        (0, 1..) => "nothing sent: who has the object had it before\n".to_owned(),
        _ => format!(
            "{needed} symbols needed, {sent} sent ({} over)\n",
            percent(report.overhead_sent())
        ),
    });
    let mut rows = vec![["receiver", "after", "state"].map(str::to_owned).to_vec()];
    for receiver in &report.receivers {
        let way = if receiver.detached { " (by unicast in the end)" } else { "" };
        let (after, state) = match &receiver.state {
            ReceiverState::Complete(after) => (seconds(*after), format!("complete{way}")),
            ReceiverState::Failed(reason) => ("-".to_owned(), format!("failed: {reason}")),
            ReceiverState::Unfinished => {
                let (done, total) = receiver.blocks;
                ("-".to_owned(), format!("{done} of {total} blocks{way}"))
            }
        };
        rows.push(vec![receiver.host.clone(), after, state]);
    }
    text.push_str(&table(&rows));
    text
}
