//! `wellspring get`.

use std::io::IsTerminal;
use std::net::{Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use wellspring_net::driver::ReceivePath;
use wellspring_net::store::{Existing, ObjectName};
use wellspring_net::{Client, ClientConfig, FetchOptions, FetchReport, ReplicaState, Target};

use crate::args::GetArgs;
use crate::exit::Failed;
use crate::interrupt::Interrupt;
use crate::output::{Stderr, Stdout, fetch_json, fetched, part, percent, table};
use crate::process::{cpu_seconds, peak_memory};
use crate::progress::Display;

pub async fn run(args: &GetArgs, quiet: bool) -> Result<(), Failed> {
    let mut interrupt = Interrupt::new()?;
    let name = &args.from.name;
    let (target, shown) = target(args.output.as_deref(), name, args.force)?;
    let any = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0);
    let config = ClientConfig {
        driver: args.network.driver(any),
        timeout: args.network.timeout,
        ..ClientConfig::default()
    };
    let client = Client::new(config)
        .map_err(|error| Failed::other(format!("cannot open a UDP socket: {error}")))?;
    let options = FetchOptions { name: name.clone(), digest: args.digest, cut: args.cut.to_cut() };
    let to_stdout = matches!(target, Target::Writer(_)) && shown == "-";
    let display = Display::new(quiet || args.report.json, args.report.json_progress, true);
    let fetch = client.fetch(&args.from.hosts, &options, target, display.updates());
    let fetched = interrupt.guard(fetch).await;
    display.finish();
    let receive_path = client.statistics().map(|s| s.receive_path).unwrap_or_default();
    // Ends the session in good order: its part file is gone when we are.
    drop(client);
    let report = fetched?;
    if args.report.json {
        let mut account = fetch_json(name.as_str(), &shown, &report);
        account["trims_seen"] = (receive_path == ReceivePath::SocketAndTap).into();
        account["cpu_seconds"] = cpu_seconds(None).into();
        account["peak_memory_bytes"] = peak_memory().into();
        let line = account.to_string();
        if to_stdout {
            writeln!(Stderr, "{line}");
        } else {
            writeln!(Stdout, "{line}")?;
        }
    } else if !quiet {
        write!(Stderr, "{}", summary(name.as_str(), &shown, &report));
    }
    Ok(())
}

/// Where the object goes, and what that is called.
pub fn target(
    output: Option<&Path>,
    name: &ObjectName,
    force: bool,
) -> Result<(Target, String), Failed> {
    let own_name = name.file_name();
    let path = match output {
        None if std::io::stdout().is_terminal() => PathBuf::from(own_name),
        None => return Ok((Target::Writer(Box::new(std::io::stdout())), "-".to_owned())),
        Some(path) if path == Path::new("-") => {
            return Ok((Target::Writer(Box::new(std::io::stdout())), "-".to_owned()));
        }
        Some(path) if path.is_dir() => path.join(own_name),
        Some(path) => path.to_owned(),
    };
    let shown = path.display().to_string();
    match std::fs::metadata(&path) {
        // A pipe or a device is written to, not replaced.
        Ok(meta) if !meta.is_file() && !meta.is_dir() => {
            let file = std::fs::OpenOptions::new().write(true).open(&path);
            let file = file.map_err(|error| Failed::other(format!("{shown}: {error}")))?;
            Ok((Target::Writer(Box::new(file)), shown))
        }
        // Said before a byte is moved; the final rename sees to it in any case.
        Ok(_) if !force => Err(Failed::target_exists(shown)),
        _ => {
            let existing = if force { Existing::Replace } else { Existing::Keep };
            Ok((Target::File { path, existing }, shown))
        }
    }
}

fn summary(name: &str, output: &str, report: &FetchReport) -> String {
    let mut text =
        fetched((name, output), (report.size, &report.digest), (report.elapsed, report.goodput()));
    if report.size == 0 {
        return text;
    }
    text.push_str(&format!(
        "{} symbols needed, {} useful ({} over), {} asked for ({} over); {} blocks, {} decoded\n",
        report.stats.needed,
        report.useful(),
        percent(report.overhead_needed()),
        report.asked(),
        percent(report.overhead_sent()),
        report.blocks,
        report.stats.decoded_blocks,
    ));
    if report.replicas.len() > 1 {
        let head = ["replica", "share", "useful", "needless", "lost", "state"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for replica in &report.replicas {
            let state = match &replica.state {
                ReplicaState::Served if replica.losses > 0 => {
                    format!("served (lost {}x, back {}x)", replica.losses, replica.returns)
                }
                ReplicaState::Served => "served".to_owned(),
                ReplicaState::Lost(reason) => format!("lost: {reason}"),
                ReplicaState::Unused(reason) => format!("unused: {reason}"),
            };
            rows.push(vec![
                replica.host.clone(),
                percent(part(replica.stats.useful, report.useful())),
                replica.stats.useful.to_string(),
                replica.stats.needless.to_string(),
                replica.stats.lost.to_string(),
                state,
            ]);
        }
        text.push_str(&table(&rows));
    }
    text
}
