//! `Client`: fetches, puts and listings, each started here and waited for in Python.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::json;
use wellspring_client::{
    ByteRange, ClientConfig, FetchError, FetchOptions, Host, HostError, HostTrouble, LinksOut,
    Priority, PutError, PutOptions, PutTreeOptions, Target, TreeError, TreeOptions,
};
use wellspring_net::driver::{Failure, StartError};
use wellspring_net::store::tree::PlanError;
use wellspring_net::store::{Digest, DigestCache, Existing, ObjectName, StoreError};
use wellspring_net::timeouts::{LONGEST_TIMEOUT, SHORTEST_TIMEOUT};
use wellspring_net::wellspring_core::{NoSuchPriority, Rate};

use crate::accounts::{entries, of_put_report, of_put_tree_report, of_report, of_tree_report};
use crate::buffer::Lent;
use crate::errors::of_kind;
use crate::keys;
use crate::memory::{LentMemory, Memory, OwnMemory};
use crate::runtime::Owned;
use crate::transfer::{Failed, Transfer};

/// A client: one socket, any number of transfers at once.
#[pyclass(frozen, module = "wellspring")]
pub struct Client {
    client: Owned<Arc<wellspring_client::Client>>,
    /// What it was made of; its keys are read again from where they came from.
    config: ClientConfig,
    keys: Option<PathBuf>,
    insecure: bool,
}

#[pymethods]
impl Client {
    #[new]
    #[pyo3(signature = (keys=None, insecure=false, timeout=10.0, paths=1, rate=None))]
    fn new(
        py: Python<'_>,
        keys: Option<PathBuf>,
        insecure: bool,
        timeout: f64,
        paths: u8,
        rate: Option<f64>,
    ) -> PyResult<Self> {
        let mut config = ClientConfig::default().cache(Arc::new(DigestCache::of_user()));
        config.timeout = parse_timeout(py, timeout)?;
        config.driver.keys = keys::load(py, keys.clone(), insecure)?;
        config.insecure = insecure;
        config.driver.ports = paths;
        config.driver.send_rate = rate.map(|rate| parse_rate(py, rate)).transpose()?;
        let client = Owned::new(start(py, config.clone())?, "client");
        Ok(Client { client, config, keys, insecure })
    }

    /// Uses the keys that there are now, by another socket: transfers under way end with the keys that they have.
    fn reload_keys(&self, py: Python<'_>) -> PyResult<()> {
        self.client.with(|_| ())?;
        let mut config = self.config.clone();
        config.driver.keys = keys::load(py, self.keys.clone(), self.insecure)?;
        let old = self.client.replace(start(py, config)?)?;
        py.detach(|| drop(old));
        Ok(())
    }

    /// Fetches an object, or a range of it, into a file, into lent memory, or into memory of its own: of `length` bytes
    /// if that is known, which saves a copy.
    #[pyo3(signature = (hosts, name, path=None, into=None, replace=false, digest=None, resume=true, range=None, length=None, priority="normal"))]
    #[expect(clippy::too_many_arguments, reason = "named arguments in Python")]
    fn fetch(
        &self,
        py: Python<'_>,
        hosts: Vec<String>,
        name: &str,
        path: Option<PathBuf>,
        into: Option<Bound<'_, PyAny>>,
        replace: bool,
        digest: Option<&str>,
        resume: bool,
        range: Option<(i64, Option<i64>)>,
        length: Option<usize>,
        priority: &str,
    ) -> PyResult<Transfer> {
        let client = self.client.with(Arc::clone)?;
        let hosts = parse_hosts(py, &hosts)?;
        let mut options = FetchOptions::new(parse_name(py, name)?).resume(resume);
        options.digest = digest.map(|digest| parse_digest(py, digest)).transpose()?;
        options.range = range.map(|range| parse_range(py, range)).transpose()?;
        options.priority = parse_priority(py, priority)?;
        let (target, memory, bytes) = destination(py, path, replace, into, length)?;
        let expects = memory.clone();
        let transfer = Transfer::start(memory, move |ears| {
            let started = move |size| {
                if let Some(Memory::Own(memory)) = &expects {
                    memory.expect(size);
                }
            };
            let options = options.updates(ears.updates(started));
            async move {
                let report = client.fetch(&hosts, &options, target).await;
                report.map(|report| of_report(&report)).map_err(of_fetch)
            }
        })?;
        Ok(transfer.with_bytes(bytes))
    }

    /// Makes a directory hold the tree that the hosts serve.
    #[pyo3(signature = (hosts, directory, path, delete=false, checksum=false, priority="normal"))]
    #[expect(clippy::too_many_arguments, reason = "named arguments in Python")]
    fn fetch_tree(
        &self,
        py: Python<'_>,
        hosts: Vec<String>,
        directory: Option<&str>,
        path: PathBuf,
        delete: bool,
        checksum: bool,
        priority: &str,
    ) -> PyResult<Transfer> {
        let client = self.client.with(Arc::clone)?;
        let hosts = parse_hosts(py, &hosts)?;
        let directory = directory.map(|name| parse_name(py, name)).transpose()?;
        let options = TreeOptions::new(directory)
            .delete(delete)
            .checksum(checksum)
            .priority(parse_priority(py, priority)?);
        Transfer::start(None, move |ears| {
            let options = options.updates(ears.updates(|_| {}));
            async move {
                let fetched = client.fetch_tree(&hosts, &options, &path, Arc::new(|_| {})).await;
                fetched.map(|report| of_tree_report(&report)).map_err(of_tree)
            }
        })
    }

    /// Lists a directory of the hosts.
    #[pyo3(signature = (hosts, directory, recursive=false, digests=false))]
    fn list(
        &self,
        py: Python<'_>,
        hosts: Vec<String>,
        directory: Option<&str>,
        recursive: bool,
        digests: bool,
    ) -> PyResult<Transfer> {
        let client = self.client.with(Arc::clone)?;
        let hosts = parse_hosts(py, &hosts)?;
        let directory = directory.map(|name| parse_name(py, name)).transpose()?;
        let options = TreeOptions::new(directory).checksum(digests).level(!recursive && !digests);
        Transfer::start(None, move |_| async move {
            let listing = client.list(&hosts, &options).await.map_err(of_tree)?;
            entries(&listing).map_err(|text| Failed::new("BadDigest", text))
        })
    }

    /// Asks for an object's length and digest.
    fn stat(&self, py: Python<'_>, hosts: Vec<String>, name: &str) -> PyResult<Transfer> {
        let client = self.client.with(Arc::clone)?;
        let (hosts, name) = (parse_hosts(py, &hosts)?, parse_name(py, name)?);
        Transfer::start(None, move |_| async move {
            let stat = client.stat(&hosts, &name).await.map_err(of_fetch)?;
            Ok(json!({"size": stat.size, "digest": stat.digest.to_string()}))
        })
    }

    /// Puts a file to hosts.
    #[pyo3(signature = (path, hosts, name, replace=false, group=None, quorum=None, finish_rest=false, resume=true, priority="normal"))]
    #[expect(clippy::too_many_arguments, reason = "named arguments in Python")]
    fn put(
        &self,
        py: Python<'_>,
        path: PathBuf,
        hosts: Vec<String>,
        name: &str,
        replace: bool,
        group: Option<&str>,
        quorum: Option<usize>,
        finish_rest: bool,
        resume: bool,
        priority: &str,
    ) -> PyResult<Transfer> {
        let client = self.client.with(Arc::clone)?;
        let hosts = parse_hosts(py, &hosts)?;
        let options = PutOptions::new(parse_name(py, name)?)
            .overwrite(replace)
            .quorum(quorum)
            .finish_rest(finish_rest)
            .resume(resume)
            .priority(parse_priority(py, priority)?)
            .group(parse_group(py, group)?);
        Transfer::start(None, move |ears| {
            let options = options.updates(ears.updates(|_| {}));
            async move {
                let report = client.put(&path, &hosts, &options).await;
                report.map(|report| of_put_report(&report)).map_err(of_put)
            }
        })
    }

    /// Has hosts hold the tree of a directory.
    #[pyo3(signature = (path, hosts, directory, replace=false, group=None, quorum=None, delete=false, checksum=false, copy_unsafe_links=false, priority="normal"))]
    #[expect(clippy::too_many_arguments, reason = "named arguments in Python")]
    fn put_tree(
        &self,
        py: Python<'_>,
        path: PathBuf,
        hosts: Vec<String>,
        directory: Option<&str>,
        replace: bool,
        group: Option<&str>,
        quorum: Option<usize>,
        delete: bool,
        checksum: bool,
        copy_unsafe_links: bool,
        priority: &str,
    ) -> PyResult<Transfer> {
        let client = self.client.with(Arc::clone)?;
        let hosts = parse_hosts(py, &hosts)?;
        let directory = directory.map(|name| parse_name(py, name)).transpose()?;
        let tree = TreeOptions::new(directory)
            .delete(delete)
            .checksum(checksum)
            .priority(parse_priority(py, priority)?);
        let links_out = if copy_unsafe_links { LinksOut::Copied } else { LinksOut::Skipped };
        let group = parse_group(py, group)?;
        Transfer::start(None, move |ears| {
            let options = PutTreeOptions::new(tree.updates(ears.updates(|_| {})))
                .overwrite(replace)
                .group(group)
                .quorum(quorum)
                .links_out(links_out);
            async move {
                let put = client.put_tree(&path, &hosts, &options, Arc::new(|_, _| {})).await;
                put.map(|report| of_put_tree_report(&report)).map_err(of_tree)
            }
        })
    }

    /// Closes the socket once its transfers are over.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let client = self.client.take()?;
        py.detach(|| drop(client));
        Ok(())
    }
}

fn start(py: Python<'_>, config: ClientConfig) -> PyResult<Arc<wellspring_client::Client>> {
    let client = py.detach(|| wellspring_client::Client::new(config));
    client.map(Arc::new).map_err(|error| match error {
        StartError::System(error) => PyErr::from(error),
        error => of_kind(py, "UsageError", &error.to_string(), Vec::new()),
    })
}

/// Where a fetch writes: to a file, to memory of the caller, to new bytes of that length, or to memory of its own.
fn destination(
    py: Python<'_>,
    path: Option<PathBuf>,
    replace: bool,
    into: Option<Bound<'_, PyAny>>,
    length: Option<usize>,
) -> PyResult<(Target, Option<Memory>, Option<Py<PyBytes>>)> {
    if let Some(path) = path {
        let existing = if replace { Existing::Replace } else { Existing::Keep };
        return Ok((Target::File { path, existing }, None, None));
    }
    let (lent, bytes) = match (into, length) {
        (Some(into), _) => (Lent::writable(&into, "into")?, None),
        (None, Some(length)) => {
            let (bytes, lent) = Lent::fresh(py, length)?;
            (lent, Some(bytes))
        }
        (None, None) => {
            let own = OwnMemory::new();
            return Ok((Target::Memory(Box::new(own.clone())), Some(Memory::Own(own)), None));
        }
    };
    let lent = LentMemory::new(lent);
    Ok((Target::Memory(Box::new(lent.clone())), Some(Memory::Lent(lent)), bytes))
}

fn parse_hosts(py: Python<'_>, hosts: &[String]) -> PyResult<Vec<Host>> {
    let parse = |host: &String| {
        host.parse().map_err(|error: wellspring_client::NotAHost| {
            of_kind(py, "UsageError", &error.to_string(), Vec::new())
        })
    };
    hosts.iter().map(parse).collect()
}

/// How long a host may be silent \[s\].
///
/// # Errors
/// `UsageError` with the number as it was given, if it is no time.
fn parse_timeout(py: Python<'_>, timeout: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(timeout).map_err(|_| {
        let (least, most) = (SHORTEST_TIMEOUT.as_secs_f64(), LONGEST_TIMEOUT.as_secs_f64());
        let text = format!("timeout={timeout:?} is no time: give seconds, {least} to {most}");
        of_kind(py, "UsageError", &text, Vec::new())
    })
}

/// A rate \[bit/s\].
///
/// # Errors
/// `UsageError` if it is no number of bits, or none.
pub fn parse_rate(py: Python<'_>, rate: f64) -> PyResult<Rate> {
    let bits = if rate.is_finite() { rate as u64 } else { 0 };
    Rate::from_bits_per_second(bits).ok_or_else(|| {
        let text = format!("rate={rate} is no rate: give bits a second, 1e9 for a gigabit");
        of_kind(py, "UsageError", &text, Vec::new())
    })
}

fn parse_name(py: Python<'_>, name: &str) -> PyResult<ObjectName> {
    ObjectName::new(name).map_err(|error| {
        of_kind(py, "UsageError", &format!("bad name `{name}`: {error}"), Vec::new())
    })
}

fn parse_group(py: Python<'_>, group: Option<&str>) -> PyResult<Option<SocketAddr>> {
    let parse = |text: &str| {
        text.parse().map_err(|_| {
            let text = format!("`{text}` is no group: give ADDRESS:PORT, such as 239.1.2.3:4711");
            of_kind(py, "UsageError", &text, Vec::new())
        })
    };
    group.map(parse).transpose()
}

/// A range as of Python's slices.
fn parse_range(py: Python<'_>, range: (i64, Option<i64>)) -> PyResult<ByteRange> {
    match range {
        (first @ 0.., None) => Ok(ByteRange::From(first as u64)),
        (first, None) => Ok(ByteRange::Last(first.unsigned_abs())),
        (first @ 0.., Some(end)) if end > first => {
            Ok(ByteRange::Between { first: first as u64, last: end as u64 - 1 })
        }
        (first, Some(end)) => {
            let text = format!(
                "the range ({first}, {end}) has no bytes: give (START, END), (START, None) or (-LAST, None)"
            );
            Err(of_kind(py, "UsageError", &text, Vec::new()))
        }
    }
}

fn parse_digest(py: Python<'_>, digest: &str) -> PyResult<Digest> {
    digest.parse().map_err(|_| {
        let text = format!("`{digest}` is no BLAKE3 digest: give 64 hexadecimal digits");
        of_kind(py, "UsageError", &text, Vec::new())
    })
}

fn parse_priority(py: Python<'_>, priority: &str) -> PyResult<Priority> {
    priority.parse().map_err(|error: NoSuchPriority| {
        of_kind(py, "UsageError", &format!("`{priority}`: {error}"), Vec::new())
    })
}

fn of_hosts(kind: &'static str, message: String, hosts: &[HostError]) -> Failed {
    let trouble = |trouble| match trouble {
        HostTrouble::Silent => "silent",
        HostTrouble::PortClosed => "port closed",
        HostTrouble::Unresolved => "unresolved",
        HostTrouble::NotFound => "not found",
        HostTrouble::NotAllowed => "not allowed",
        HostTrouble::Keys => "keys",
        HostTrouble::Clear => "in clear",
        HostTrouble::NoRoom => "no room",
        HostTrouble::Changed => "changed",
        _ => "other",
    };
    let hosts = hosts.iter().map(|h| (h.host.clone(), h.reason.clone(), trouble(h.trouble)));
    Failed { kind, message, hosts: hosts.collect() }
}

/// The exception where none of the hosts is of use.
fn kind_of(hosts: &[HostError]) -> &'static str {
    let in_clear = hosts.iter().any(|host| host.trouble == HostTrouble::Clear);
    if in_clear { "UsageError" } else { "NoHost" }
}

/// The meanings of the command's exit statuses.
fn of_fetch(error: FetchError) -> Failed {
    let message = error.to_string();
    match &error {
        FetchError::NoReplica(hosts) => of_hosts(kind_of(hosts), message, hosts),
        FetchError::NoReplicaLeft { hosts, .. } => of_hosts("ReplicasLost", message, hosts),
        FetchError::Differ { .. } => Failed::new("ReplicasDiffer", message),
        FetchError::Store(StoreError::BadDigest { .. }) => Failed::new("BadDigest", message),
        FetchError::Store(StoreError::Exists(_)) => Failed::new("TargetExists", message),
        FetchError::NoSuchRange { .. } => Failed::new("NoSuchRange", message),
        FetchError::NoHosts
        | FetchError::TooManyHosts { .. }
        | FetchError::Config(_)
        | FetchError::RangeByProtocol
        | FetchError::PriorityByProtocol
        | FetchError::Geometry => Failed::new("UsageError", message),
        FetchError::Session(Failure::Write(error)) => {
            Failed::new("SystemFailed", error.to_string())
        }
        _ => Failed::new("SystemFailed", message),
    }
}

fn of_tree(error: TreeError) -> Failed {
    let message = error.to_string();
    match error {
        TreeError::Fetch(error) => of_fetch(error),
        TreeError::Put(error) => of_put(error),
        TreeError::Occupied { .. } | TreeError::DirectoryThere { .. } => {
            Failed::new("TargetExists", message)
        }
        TreeError::Incomplete(report) => of_hosts("TooFewReceivers", message, &report.unfinished()),
        TreeError::Disagreement(_) => Failed::new("ReplicasDiffer", message),
        TreeError::Plan(PlanError::InTheWay(_)) => Failed::new("TargetExists", message),
        TreeError::Plan(PlanError::Listing(_)) => Failed::new("BadDigest", message),
        _ => Failed::new("SystemFailed", message),
    }
}

fn of_put(error: PutError) -> Failed {
    let message = error.to_string();
    match &error {
        PutError::NotAccepted { hosts, .. } => {
            let mut failed = of_hosts(kind_of(hosts), message, hosts);
            for (_, _, kind) in &mut failed.hosts {
                if matches!(*kind, "not found" | "not allowed" | "other") {
                    *kind = "refused";
                }
            }
            failed
        }
        PutError::Incomplete(report) => of_hosts("TooFewReceivers", message, &report.unfinished()),
        PutError::NoHosts
        | PutError::TooManyHosts { .. }
        | PutError::BadQuorum { .. }
        | PutError::Config(_) => Failed::new("UsageError", message),
        _ => Failed::new("SystemFailed", message),
    }
}
