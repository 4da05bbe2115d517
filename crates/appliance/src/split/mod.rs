//! Split mode (§4.2): TCP connections end here, and go on over trunks to the other appliance.
//!
//! Netfilter's TPROXY hands connections from the local network to a listener of this process, which
//! sees and shows the addresses of the two hosts. Bytes go on over a trunk, a connection between the
//! two appliances that is open already and protected by the code; there the other appliance connects
//! to the host in the first one's name. Both hosts talk to a near peer.
//!
//! Connections are only taken while the other appliance answers and permits are free: the listener
//! is open for just so long, and without it the rules let packets pass.

mod counters;
mod flow;
mod pool;
mod rules;
mod sockets;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};

use socket2::Socket;
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::commands::has_ipv6;
use crate::setup::{Config, SetupError, SplitConfig};
pub use counters::SplitCounters;
use flow::Shared;
use pool::{AGAIN, PATIENCE, Pool, TrunkConfig};
use rules::Rules;
use sockets::{files_allowed, transparent_listener};

/// Trunks that have not shown the key yet, at most.
const STRANGERS: usize = 64;
/// Descriptors that are not connections'.
const OTHER_FILES: u64 = 256;

/// Split mode that runs. Dropping it undoes its rules and resets what it relays.
pub(crate) struct Split {
    stop: Arc<tokio::sync::Notify>,
    thread: Option<JoinHandle<()>>,
    pub counters: Arc<SplitCounters>,
    // Removed first, so that no new connection is accepted.
    rules: Option<Rules>,
}

impl Split {
    /// Checks, opens, sets the rules, and begins. `own` is this appliance's address towards the peer,
    /// `longest` what a protected packet may be.
    pub(crate) fn start(
        config: &Config,
        split: &SplitConfig,
        own: IpAddr,
        longest: usize,
    ) -> Result<Self, SetupError> {
        if config.remote.is_empty() {
            return Err(SetupError::SplitWithoutRemote);
        }
        if config.failover.is_some() {
            return Err(SetupError::SplitWithFailover);
        }
        let system = |error| SetupError::System("split mode's sockets", error);
        let most = files_allowed().map_err(system)?.saturating_sub(OTHER_FILES) / 2;
        let most = split.connections.min(usize::try_from(most).unwrap_or(usize::MAX)).max(1);
        let header = if own.is_ipv4() { 40 } else { 60 };
        let counters = Arc::new(SplitCounters::default());
        let trunk = TrunkConfig {
            key: config.key.clone(),
            peer: config.peer,
            segment: longest.saturating_sub(header) as u32,
            buffer: split.buffer,
            patience: PATIENCE,
        };
        let shared = Arc::new(Shared {
            remote: config.remote.clone(),
            pool: Pool::new(trunk, Arc::clone(&counters)),
            counters: Arc::clone(&counters),
            permits: Arc::new(Semaphore::new(most)),
        });
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(system)?;
        let trunks = shared.pool.listener(own).map_err(system)?;
        let families = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        // The rules need the ports, which the kernel chooses.
        let mut at = Vec::new();
        for address in families.into_iter().filter(|a| a.is_ipv4() || has_ipv6()) {
            let listener = transparent_listener(SocketAddr::new(address, 0)).map_err(system)?;
            at.extend(listener.local_addr().map_err(system)?.as_socket());
        }
        let rules = Rules::install(&config.name, &config.lan, &config.remote, &at)
            .map_err(SetupError::SplitRules)?;
        let stop = Arc::new(tokio::sync::Notify::new());
        let stopped = Arc::clone(&stop);
        let work = move || {
            runtime.block_on(async move {
                tokio::select! {
                    () = stopped.notified() => {}
                    () = run(shared, trunks, at) => {}
                }
            });
        };
        let thread = thread::Builder::new().name("split".into()).spawn(work).map_err(system)?;
        Ok(Split { stop, thread: Some(thread), counters, rules: Some(rules) })
    }
}

impl Drop for Split {
    fn drop(&mut self) {
        drop(self.rules.take());
        self.stop.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn run(shared: Arc<Shared>, trunks: Socket, at: Vec<SocketAddr>) {
    let keeper = Arc::clone(&shared);
    tokio::spawn(async move { keeper.pool.keep().await });
    for address in at {
        tokio::spawn(take_connections(Arc::clone(&shared), address));
    }
    take_trunks(shared, trunks).await;
}

/// Takes connections of this site's hosts, while they can go on.
async fn take_connections(shared: Arc<Shared>, at: SocketAddr) {
    loop {
        shared.pool.alive().await;
        let permit = Arc::clone(&shared.permits).acquire_owned().await;
        let Ok(permit) = permit else { return };
        match transparent_listener(at).and_then(|socket| TcpListener::from_std(socket.into())) {
            Ok(listener) => {
                shared.counters.taking.store(true, Ordering::Relaxed);
                tokio::select! {
                    () = shared.pool.dead() => {}
                    () = take_from(&shared, &listener, permit) => {}
                }
                shared.counters.taking.store(false, Ordering::Relaxed);
            }
            Err(error) => {
                tracing::warn!("connections are not taken at {at}: {error}");
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}

/// Takes connections until all permits are in use.
async fn take_from(shared: &Arc<Shared>, listener: &TcpListener, first: OwnedSemaphorePermit) {
    let mut free = Some(first);
    while let Some(permit) = free {
        match listener.accept().await {
            Ok((stream, from)) => {
                SplitCounters::count(&shared.counters.accepted, 1);
                let flow = flow::there(Arc::clone(shared), stream, from);
                follow(shared, flow, permit);
                free = Arc::clone(&shared.permits).try_acquire_owned().ok();
            }
            Err(_) => {
                tokio::time::sleep(AGAIN).await;
                free = Some(permit);
            }
        }
    }
}

/// Lets a connection be relayed, and counts it.
fn follow(
    shared: &Arc<Shared>,
    flow: impl Future<Output = io::Result<()>> + Send + 'static,
    permit: OwnedSemaphorePermit,
) {
    let counters = Arc::clone(&shared.counters);
    SplitCounters::count(&counters.flows, 1);
    tokio::spawn(async move {
        match flow.await {
            Ok(()) => SplitCounters::count(&counters.finished, 1),
            Err(error) => {
                tracing::debug!("a connection was reset: {error}");
                SplitCounters::count(&counters.reset, 1);
            }
        }
        counters.flows.fetch_sub(1, Ordering::Relaxed);
        drop(permit);
    });
}

/// Takes the other appliance's trunks.
async fn take_trunks(shared: Arc<Shared>, socket: Socket) {
    let Ok(listener) = TcpListener::from_std(socket.into()) else { return };
    let strangers = Arc::new(Semaphore::new(STRANGERS));
    loop {
        let Ok(stranger) = Arc::clone(&strangers).acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(AGAIN).await;
            continue;
        };
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            match shared.pool.greet(stream, false).await {
                Ok(trunk) => {
                    drop(stranger);
                    flow::serve(shared, trunk).await;
                }
                Err(_) => SplitCounters::count(&shared.counters.trunks_failed, 1),
            }
        });
    }
}
