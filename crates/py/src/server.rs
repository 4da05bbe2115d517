//! `Server`: serves a directory while it is open.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use wellspring_net::DEFAULT_PORT;
use wellspring_net::store::DigestCache;
use wellspring_server::{BindError, ServerConfig, Settings};

use crate::client::parse_rate;
use crate::errors::of_kind;
use crate::keys;
use crate::runtime::{Owned, runtime};

/// Events kept for a caller who does not fetch them.
const MAX_EVENTS: usize = 4_096;

/// A running server.
#[pyclass(frozen, module = "wellspring")]
pub struct Server {
    server: Owned<wellspring_server::Server>,
    address: SocketAddr,
    events: Arc<Mutex<VecDeque<String>>>,
    /// Its keys are read again from where they came from.
    settings: Settings,
    keys: Option<PathBuf>,
    insecure: bool,
}

#[pymethods]
impl Server {
    #[new]
    #[pyo3(signature = (directory, bind=None, allow_put=false, allow_overwrite=false, allow_hidden=false, keys=None, insecure=false, rate=None))]
    #[expect(clippy::too_many_arguments, reason = "named arguments in Python")]
    fn new(
        py: Python<'_>,
        directory: PathBuf,
        bind: Option<&str>,
        allow_put: bool,
        allow_overwrite: bool,
        allow_hidden: bool,
        keys: Option<PathBuf>,
        insecure: bool,
        rate: Option<f64>,
    ) -> PyResult<Self> {
        let keyring = keys::load(py, keys.clone(), insecure)?;
        let usage = |text: &str| of_kind(py, "UsageError", text, Vec::new());
        let home = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), DEFAULT_PORT);
        let bind: SocketAddr = match bind {
            None => home,
            Some(text) => text.parse().map_err(|_| {
                usage(&format!(
                    "`{text}` is no address: give IP:PORT, port 0 lets the system choose"
                ))
            })?,
        };
        if keyring.is_none() && !bind.ip().to_canonical().is_loopback() {
            check_insecure(bind.ip(), insecure).map_err(|text| usage(&text))?;
        }
        let events = Arc::new(Mutex::new(VecDeque::new()));
        let heard = Arc::clone(&events);
        let mut config = ServerConfig::new(bind, directory)
            .allow_put(allow_put)
            .allow_overwrite(allow_overwrite)
            .allow_hidden(allow_hidden)
            .cache(Arc::new(DigestCache::of_user()))
            .events(Arc::new(move |event| {
                let mut events = heard.lock().unwrap_or_else(PoisonError::into_inner);
                if events.len() == MAX_EVENTS {
                    events.pop_front();
                }
                events.push_back(format!("{event:?}"));
            }));
        config.driver.keys = keyring;
        config.driver.send_rate = rate.map(|rate| parse_rate(py, rate)).transpose()?;
        let (runtime, settings) = (runtime()?, config.settings());
        let server = py.detach(|| runtime.block_on(wellspring_server::Server::bind(config)));
        let server = server.map_err(|error| match error {
            BindError::Config(error) => usage(&error.to_string()),
            error => PyOSError::new_err(error.to_string()),
        })?;
        let address = server.local_addr();
        let server = Owned::new(server, "server");
        Ok(Server { server, address, events, settings, keys, insecure })
    }

    /// Where it listens, as `IP:PORT`.
    #[getter]
    fn address(&self) -> String {
        self.address.to_string()
    }

    /// Events since the last call, the oldest first, for logs: their form is no promise.
    fn events(&self) -> PyResult<Vec<String>> {
        self.server.check_process()?;
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(events.drain(..).collect())
    }

    /// Uses the keys that there are now; no transfer ends.
    fn reload_keys(&self, py: Python<'_>) -> PyResult<()> {
        let mut settings = self.settings.clone();
        settings.keys = keys::load(py, self.keys.clone(), self.insecure)?;
        let reloaded = self.server.with(|server| server.reload(settings))?;
        reloaded.map_err(|error| of_kind(py, "UsageError", &error.to_string(), Vec::new()))
    }

    /// Ends its transfers and tells their peers.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let Some(server) = self.server.take()? else { return Ok(()) };
        let runtime = runtime()?;
        py.detach(|| runtime.block_on(server.shut_down()));
        Ok(())
    }
}

/// Who goes without keys serves a private network, and says so.
fn check_insecure(ip: IpAddr, insecure: bool) -> Result<(), String> {
    let is_private = match ip.to_canonical() {
        IpAddr::V4(ip) => ip.is_private() || ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unique_local() || ip.is_unicast_link_local(),
    };
    match (insecure, is_private) {
        (false, _) => Err(format!(
            "without keys a server listens at loopback only, not at {ip}: make keys (wellspring key --help), \
             or let anybody on a private network in by insecure=True"
        )),
        (true, false) => Err(format!(
            "insecure=True lets everybody in who reaches {ip}: bind one private address, or make keys"
        )),
        (true, true) => Ok(()),
    }
}
