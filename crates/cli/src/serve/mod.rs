//! `wellspring serve`: objects of a directory, and its events on standard output.

mod also_at;
mod bind;
mod events;
mod http;
mod lines;
mod metrics;
mod rates;
mod schedule;
mod signals;
mod transfers;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use sd_notify::NotifyState;
use serde_json::json;
use wellspring_console::exit::Failed;
use wellspring_console::units::{counted, parse_size};
use wellspring_net::driver::MAX_LOOPS;
use wellspring_net::socket::Interface;
use wellspring_net::store::{DigestCache, Limits};
use wellspring_server::{GroupRange, Server, ServerConfig};
use wellspring_trust::Quota;

use crate::config::Values;
use crate::exit;
use crate::keys::KeyArgs;
use crate::transfer::{FabricArg, NetworkArgs};
use also_at::AlsoAt;
use lines::Lines;
use rates::{Scheduled, bits, pull_rate};
use schedule::Schedule;
use signals::{Request, Signals};

/// How long the last events may take to be written.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Serve the files of a directory by every protocol; with --allow-put, receive files too.
///
/// Runs until Ctrl-C, on one port: by UDP, and by TCP for LTTP's control channel. The digest of a
/// file is computed once and cached, so that later fetches start
/// at once. Names cannot lead out of DIR: symbolic links are not followed, and
/// only regular files are objects.
///
/// SIGTERM lets transfers end, also of directories, for --grace at most, and begins none; a second signal ends them. SIGHUP reads
/// the configuration file and the keys again, without an end of any transfer: rights, --rate, --receive-rate,
/// --address-quota and what is allowed (--allow-put, --allow-overwrite, --allow-hidden, --allow-odd-names, --allow-attributes) change at once, other
/// options with a restart; an event names those of them that are not what they were. A server that was started on a terminal ends when the terminal is closed.
#[derive(Args)]
#[command(after_help = "\
Examples:
  wellspring serve /srv/models
  wellspring serve --rate 900M /srv/models         # leave a tenth of a gigabit link to others
  wellspring serve --rate '100M; 22:00-06:00 1G' /srv/models   # more at night
  wellspring serve --allow-put /srv/incoming       # with keys: who may, `wellspring key` says
  wellspring serve --allow-put --receive-rate 500M /srv/incoming   # puts take no more of the link
  wellspring serve --loops 4 /srv/models            # an interface of 40 Gbit/s, many clients
  wellspring serve --insecure --bind 10.0.0.5:4711 /srv/models
  wellspring serve --json --bind 127.0.0.1:0 .     # prints the port it was given
  wellspring serve --metrics 127.0.0.1:9464 /srv/models   # for Prometheus; /healthz and /readyz, too")]
pub struct ServeArgs {
    #[command(flatten)]
    values: Values,
    /// The directory whose files are served.
    dir: PathBuf,
    /// Address and port to listen at; port 0 lets the system choose, none is port 4711 [default: port 4711 of every address
    /// with keys or --insecure, of 127.0.0.1 without].
    #[arg(long, value_name = "ADDR", value_parser = bind::parse)]
    bind: Option<SocketAddr>,
    /// Further addresses of this host, with the port of --bind unless they have one. Clients are told, and use all of them
    /// at once: over links of their own a transfer is as fast as all together, and goes on when one fails. Routes must
    /// lead back by each address's own link.
    #[arg(long, value_name = "ADDR,...", value_delimiter = ',', value_parser = also_at::parse)]
    also_at: Vec<AlsoAt>,
    /// Accept objects that clients put.
    #[arg(long)]
    allow_put: bool,
    /// With --allow-put: let a put replace an object of the same name (the client must ask for it with --force).
    #[arg(long)]
    allow_overwrite: bool,
    /// Serve (and accept) files and directories whose names begin with a dot.
    #[arg(long)]
    allow_hidden: bool,
    /// With --allow-put: accept names that begin with a dash, or hold characters that are invisible or turn the
    /// direction of writing.
    #[arg(long)]
    allow_odd_names: bool,
    /// With --allow-put: give files of directories that are put the owners, extended attributes and access control lists
    /// that clients ask for (`put --owner --xattrs --acls`). Owners take a server that is root's.
    #[arg(long)]
    allow_attributes: bool,
    /// Size of an object that is accepted, at most.
    #[arg(long, value_name = "SIZE", default_value = "1T", value_parser = parse_size)]
    max_object: u64,
    /// Objects being received at one time, at most.
    #[arg(long, value_name = "N", default_value_t = 64)]
    max_puts: usize,
    /// Size of all objects being received at one time, at most.
    #[arg(long, value_name = "SIZE", default_value = "4T", value_parser = parse_size)]
    max_reserved: u64,
    /// Part of what is free that one client (its key, or without keys its address) may have reserved and not written yet, in
    /// per cent. A larger object is refused: 100 lets one client have all.
    #[arg(long, value_name = "PERCENT", default_value_t = 50, value_parser = clap::value_parser!(u8).range(1..=100))]
    client_share: u8,
    /// Space that must stay free on the disk.
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = parse_size)]
    keep_free: u64,
    /// Time that what arrived of an object is kept for a put to go on with, in hours.
    #[arg(long, value_name = "HOURS", default_value_t = 168)]
    part_age: u64,
    /// Size of all that is kept so, at most; the oldest goes first. 0 keeps nothing.
    #[arg(long, value_name = "SIZE", default_value = "500G", value_parser = parse_size)]
    part_bytes: u64,
    /// Send no faster than this, over all transfers [default: no limit]. Times of day may follow: "100M; 22:00-06:00 1G"
    /// (in the machine's time zone; of times that overlap the first counts, and `none` is no limit).
    #[arg(long, value_name = "RATE[; HH:MM-HH:MM RATE]...", visible_alias = "max-rate")]
    rate: Option<Schedule>,
    /// Receive no faster than this, over all puts, with times of day as --rate has them [default: --link-rate]. Clients are
    /// asked for no more; the first few symbols of an object come unasked.
    #[arg(long, value_name = "RATE[; HH:MM-HH:MM RATE]...")]
    receive_rate: Option<Schedule>,
    /// Event loops, up to 64: threads that share the clients, each with its address's traffic. One does some 9 Gbit/s; more
    /// pay on machines with many processors and a faster interface, where many clients come from many addresses. Takes
    /// Linux, --fabric shared, and neither --rate nor --receive-rate, which nothing would keep over all loops.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=i64::from(MAX_LOOPS)))]
    loops: u8,
    /// Parts of objects being sent by LTTP at one time, at most; a quarter of them to one address.
    #[arg(long, value_name = "N", default_value_t = 64)]
    max_parts: usize,
    /// Where there are no keys: what each address may have, such as "max-sessions=8 max-bytes=100G max-files=1000"
    /// (transfers at one time; size and number of files that it has put and that are kept). Keys have it in the
    /// file `trusted` [default: no limit].
    #[arg(long, value_name = "QUOTA")]
    address_quota: Option<Quota>,
    /// Directory of the digest cache [default: $XDG_CACHE_HOME/wellspring or ~/.cache/wellspring].
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// Interface that receives multicast: its name, or an address of it.
    #[arg(long, value_name = "IF")]
    interface: Option<Interface>,
    /// Multicast groups through which clients may put (put --group): ranges, or single groups. An address has 8 at one time
    /// [default: 239.0.0.0/8 and of IPv6 ff12::/16, ff14::/16, ff15::/16, ff18::/16].
    #[arg(long, value_name = "RANGE,...", value_delimiter = ',')]
    groups: Vec<GroupRange>,
    #[command(flatten)]
    keys: KeyArgs,
    /// With --insecure: listen at a public address, too.
    #[arg(long, help_heading = "Keys")]
    insecure_public: bool,
    #[command(flatten)]
    network: NetworkArgs,
    /// Print events as JSON objects, one a line.
    #[arg(long)]
    json: bool,
    /// Answer HTTP at this address: /metrics for Prometheus, /healthz (the server works), /readyz (it takes requests),
    /// /transfers (those that run, with their clients and objects: `wellspring top` shows them).
    #[arg(long, value_name = "ADDR", help_heading = "Operation")]
    metrics: Option<SocketAddr>,
    /// After SIGTERM, how long transfers may go on, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(..=86_400), help_heading = "Operation")]
    grace: u64,
}

pub async fn run(
    args: &ServeArgs,
    quiet: bool,
    reparse: impl Fn() -> Result<ServeArgs, Failed>,
) -> Result<(), Failed> {
    let mut signals = Signals::new()?;
    let mut config = configure(args)?;
    let json = args.json;
    let lines = lines_of_events(json)?;
    let of_events = lines.clone();
    config.events = Arc::new(move |event| match json {
        true => of_events.print(events::to_json(&event).to_string()),
        false if quiet => {}
        false => of_events.print(events::to_text(&event)),
    });
    let (keyed, takes) = (config.driver.keys.is_some(), config.allow_put);
    let say = |json_event: serde_json::Value, text: String| match json {
        true => lines.print(json_event.to_string()),
        false if quiet => {}
        false => lines.print(text),
    };
    check_temporary_files();
    args.rate.iter().chain(&args.receive_rate).for_each(Schedule::check_time_zone);
    let bound = tokio::select! {
        bound = Server::bind(config) => bound,
        // A directory with many files takes time before it is served.
        () = signals.stop() => return Ok(()),
    };
    let server = Arc::new(bound.map_err(|error| exit::of_bind(&error))?);
    let metrics = match args.metrics {
        Some(at) => Some(http::serve(at, Arc::clone(&server)).await?),
        None => None,
    };
    let address = server.local_addr();
    let takes = if takes { ", taking objects" } else { "" };
    let keys = if keyed { "" } else { ", without keys" };
    say(
        json!({
            "event": "listening", "address": address.to_string(),
            "metrics": metrics.as_ref().map(|metrics| metrics.address.to_string()),
        }),
        format!("serving {} at {address}{takes}{keys}", args.dir.display()),
    );
    tell_manager(&[NotifyState::Ready]);
    let (mut rate, mut receive_rate) = scheduled(&server, args);
    let mut link = args.network.link_rate;
    loop {
        let request = tokio::select! {
            request = signals.next() => request,
            () = rate.changes() => {
                // A server that has stopped sends nothing.
                let _ = server.set_send_rate(rate.now);
                let shown = schedule::shown(rate.now);
                say(json!({"event": "rate", "rate": bits(rate.now)}), format!("rate {shown}"));
                continue;
            }
            () = receive_rate.changes() => {
                let _ = server.set_link_rate(pull_rate(link, receive_rate.now));
                let shown = schedule::shown(receive_rate.now);
                say(
                    json!({"event": "receive_rate", "rate": bits(receive_rate.now)}),
                    format!("receive rate {shown}"),
                );
                continue;
            }
        };
        match request {
            Request::Reload => {
                tell_reloading();
                match reload(&server, &reparse) {
                    Ok(new) => {
                        (rate, receive_rate) = scheduled(&server, &new);
                        link = new.network.link_rate;
                        let both = new.rate.iter().chain(&new.receive_rate);
                        both.for_each(Schedule::check_time_zone);
                        let restart = needs_restart(new.values.changed(&args.values));
                        if !restart.is_empty() {
                            tracing::warn!("a restart is needed for {}", restart.join(", "));
                        }
                        say(reloaded_json(&new, &restart), reloaded_text(&new, &restart));
                    }
                    Err(failed) => {
                        let reason = failed.message.unwrap_or_default();
                        tracing::warn!("settings stay as they are: {reason}");
                        say(
                            json!({"event": "reload_failed", "reason": reason}),
                            format!("settings stay as they are: {reason}"),
                        );
                    }
                }
                tell_manager(&[NotifyState::Ready]);
            }
            Request::Drain => {
                tell_manager(&[NotifyState::Stopping]);
                // Who reads that it stops finds it so.
                let drained = server.drain(Duration::from_secs(args.grace));
                say(
                    json!({"event": "stopping", "grace_seconds": args.grace}),
                    format!("stopping: transfers may go on for {}", counted(args.grace, "second")),
                );
                tokio::select! {
                    left = drained => {
                        if left > 0 {
                            tracing::warn!("{left} transfers are cut short");
                        }
                    }
                    () = signals.stop() => {}
                }
                break;
            }
            Request::Stop => break,
        }
    }
    tell_manager(&[NotifyState::Stopping]);
    if let Ok(Some(counters)) = server.statistics().map(|statistics| statistics.trust) {
        tracing::info!("keys: {counters:?}");
    }
    if let Some(metrics) = metrics {
        metrics.stop().await;
    }
    // Nobody else has it any more, or a scrape that does ends with the program.
    if let Some(server) = Arc::into_inner(server) {
        server.shut_down().await;
    }
    lines.flush(LAST_LINES);
    Ok(())
}

/// Where events are printed.
fn lines_of_events(json: bool) -> Result<Lines, Failed> {
    let left_out: fn(u64) -> String = match json {
        true => |lines| json!({"event": "left_out", "lines": lines}).to_string(),
        false => |lines| format!("{} left out: nobody read them", counted(lines, "line")),
    };
    Lines::start(left_out).map_err(|error| Failed::system("a thread", &error))
}

/// The limits of what is sent and received, as they are from now on. Those that the server has may be of a minute ago.
fn scheduled(server: &Server, args: &ServeArgs) -> (Scheduled, Scheduled) {
    let limit = |schedule: &Option<Schedule>| Scheduled::new(schedule.as_ref());
    let (rate, receive_rate) = (limit(&args.rate), limit(&args.receive_rate));
    // A server that has stopped sends nothing.
    if args.rate.is_some() {
        let _ = server.set_send_rate(rate.now);
    }
    if args.receive_rate.is_some() {
        let _ = server.set_link_rate(pull_rate(args.network.link_rate, receive_rate.now));
    }
    (rate, receive_rate)
}

/// Says so if there can be no temporary files: objects are sent all the same, directories are not.
fn check_temporary_files() {
    if let Err(error) = tempfile::tempfile() {
        tracing::warn!(
            "cannot make temporary files in {}: {error}. Directories can be neither listed nor sent or received, and doctor's \
             trials fail: name another directory by TMPDIR, or mount one that is writable there",
            std::env::temp_dir().display()
        );
    }
}

/// Tells systemd, if that started the server and wants to know.
fn tell_manager(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!("cannot tell the service manager: {error}");
    }
}

fn tell_reloading() {
    let now = NotifyState::monotonic_usec_now().ok();
    let state: Vec<_> = [NotifyState::Reloading].into_iter().chain(now).collect();
    tell_manager(&state);
}

/// Reads the settings again and has the server use those that can change.
fn reload(
    server: &Server,
    reparse: impl Fn() -> Result<ServeArgs, Failed>,
) -> Result<ServeArgs, Failed> {
    let args = reparse()?;
    let settings = configure(&args)?.settings();
    server.reload(settings).map_err(|error| Failed::other(error.to_string()))?;
    Ok(args)
}

/// Options that a reload changes; the others need a restart.
const RELOADED: [&str; 10] = [
    "rate",
    "link-rate",
    "receive-rate",
    "keys",
    "address-quota",
    "allow-put",
    "allow-overwrite",
    "allow-hidden",
    "allow-odd-names",
    "allow-attributes",
];

/// Those of changed options that are not in force before the server is started again.
fn needs_restart(mut changed: Vec<String>) -> Vec<String> {
    changed.retain(|name| !RELOADED.contains(&name.as_str()));
    changed
}

fn reloaded_json(args: &ServeArgs, needs_restart: &[String]) -> serde_json::Value {
    json!({
        "event": "reloaded", "rate": bits(args.rate.as_ref().and_then(Schedule::now)),
        "schedule": args.rate.as_ref().map(Schedule::to_string),
        "receive_rate": bits(args.receive_rate.as_ref().and_then(Schedule::now)),
        "receive_schedule": args.receive_rate.as_ref().map(Schedule::to_string),
        "allow_put": args.allow_put, "allow_overwrite": args.allow_overwrite,
        "allow_hidden": args.allow_hidden, "allow_odd_names": args.allow_odd_names,
        "allow_attributes": args.allow_attributes, "needs_restart": needs_restart,
    })
}

fn reloaded_text(args: &ServeArgs, needs_restart: &[String]) -> String {
    let takes = match &args.receive_rate {
        _ if !args.allow_put => String::new(),
        Some(rate) => format!(", taking objects at {rate}"),
        None => ", taking objects".to_owned(),
    };
    let rate = args.rate.as_ref().map_or("no limit".to_owned(), Schedule::to_string);
    let rest = match needs_restart {
        [] => String::new(),
        names => format!("; a restart is needed for {}", names.join(", ")),
    };
    format!("settings are read again: rate {rate}{takes}{rest}")
}

impl ServeArgs {
    /// Refuses options that need others. The others may stand in the file, of which clap's rules know nothing.
    fn check(&self) -> Result<(), Failed> {
        // With keys that may stand in the file: they have come before its --insecure.
        let public = self.insecure_public && self.keys.keys.is_none();
        let needs = [
            ("--allow-overwrite", self.allow_overwrite, "--allow-put", self.allow_put),
            ("--allow-odd-names", self.allow_odd_names, "--allow-put", self.allow_put),
            ("--allow-attributes", self.allow_attributes, "--allow-put", self.allow_put),
            ("--insecure-public", public, "--insecure", self.keys.insecure),
        ];
        match needs.iter().find(|(_, given, _, there)| *given && !there) {
            Some((option, _, needed, _)) => Err(Failed::usage(format!("{option} needs {needed}"))),
            None => self.check_loops(),
        }
    }

    /// Refuses with several loops what would be of each of them, and not of all together.
    fn check_loops(&self) -> Result<(), Failed> {
        let loops = self.loops;
        if loops == 1 {
            return Ok(());
        }
        if self.network.fabric != FabricArg::Shared {
            let text = format!(
                "--loops {loops} needs --fabric shared, where congestion control paces each loop"
            );
            return Err(Failed::usage(text));
        }
        for (option, rate) in [("--rate", &self.rate), ("--receive-rate", &self.receive_rate)] {
            if rate.as_ref().is_some_and(Schedule::has_limit) {
                let text = format!(
                    "{option} needs --loops 1: each of {loops} event loops works on its own, and nothing would keep the rate over \
                     all of them"
                );
                return Err(Failed::usage(text));
            }
        }
        Ok(())
    }
}

/// The configuration of the server that the arguments ask for.
fn configure(args: &ServeArgs) -> Result<ServerConfig, Failed> {
    args.check()?;
    let cache = digest_cache(args.cache.as_deref())?;
    let keys = args.keys.load()?;
    let bind = args.keys.bind_address(args.bind, keys.is_some(), args.insecure_public)?;
    let mut config = ServerConfig::new(bind, args.dir.clone());
    config.driver = args.network.server_driver(bind).loops(args.loops);
    config.further_addresses = also_at::addresses(&args.also_at, bind)?;
    config.driver.keys = keys;
    config.driver.scdp.peer_timeout =
        wellspring_core::Duration::from_millis(args.network.timeout.as_millis() as u64);
    config.driver.lttp.peer_timeout = config.driver.scdp.peer_timeout;
    config.driver.ndp.peer_timeout = config.driver.scdp.peer_timeout;
    config.driver.send_rate = args.rate.as_ref().and_then(Schedule::now);
    config.driver.scdp.link_rate =
        pull_rate(args.network.link_rate, args.receive_rate.as_ref().and_then(Schedule::now));
    config.lttp.max_sessions = args.max_parts;
    config.lttp.timeout = args.network.timeout;
    config.driver.socket.multicast_interface = args.interface.clone();
    config.interface = args.interface.clone();
    config.allow_put = args.allow_put;
    config.allow_overwrite = args.allow_overwrite;
    config.allow_hidden = args.allow_hidden;
    config.allow_odd_names = args.allow_odd_names;
    config.allow_attributes = args.allow_attributes;
    config.cache = Arc::new(cache);
    config.limits = Limits {
        object_len: args.max_object,
        objects: args.max_puts,
        total_len: args.max_reserved,
        keep_free: args.keep_free,
    };
    config.client_share = args.client_share;
    if !args.groups.is_empty() {
        config.groups.clone_from(&args.groups);
    }
    config.parts.age = std::time::Duration::from_secs(args.part_age.saturating_mul(3_600));
    config.parts.bytes = args.part_bytes;
    config.address_quota = args.address_quota.unwrap_or(Quota::NONE);
    Ok(config)
}

/// Where digests are kept: in that directory, or in the user's own.
pub fn digest_cache(directory: Option<&Path>) -> Result<DigestCache, Failed> {
    match directory {
        Some(directory) => DigestCache::open(directory).map_err(|error| {
            Failed::other(format!("cannot keep digests in {}: {error}", directory.display()))
        }),
        None => Ok(DigestCache::of_user()),
    }
}
