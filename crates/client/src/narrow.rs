//! Paths that carry shorter datagrams than the systems at their ends know of: longer ones vanish, since a router or a
//! firewall drops what ICMP says of them.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::Instant;
use wellspring_wire::control::{Geometry, Probe, REQUEST_MIN_LEN};
use wellspring_wire::scdp::HEADER_WITH_OPTIONS_LEN;

use crate::requester::Requester;
use crate::task::JoinSet;

/// A path by which nothing has come for so long is examined, or after half of the time that its host may be silent.
const SUSPECTED_AFTER: Duration = Duration::from_secs(1);
/// Probes of one length before it counts as one that does not pass.
const ATTEMPTS: u32 = 3;
/// How long the first probe is waited for, and each of the others at least.
const PATIENCE: (Duration, Duration) = (Duration::from_secs(2), Duration::from_millis(100));
/// UDP payloads that are tried: of IPv6 by an MTU of 1,500 (where hosts believe in longer frames), of 1,420 (as in tunnels
/// of WireGuard), of 1,280 (the least of IPv6), and of 1,000 \[bytes\].
const TRIED: [u16; 4] = [1_452, 1_372, 1_232, 952];

/// The UDP payload of symbols as they are cut.
pub(crate) fn datagram_len(cut: &Geometry, requester: &Requester) -> u16 {
    let headers = HEADER_WITH_OPTIONS_LEN as u16 + requester.sealing_overhead();
    cut.symbol_size.saturating_add(headers)
}

/// When a path by which nothing has come is examined.
pub(crate) fn suspected_after(timeout: Duration) -> Duration {
    SUSPECTED_AFTER.min(timeout / 2)
}

/// Examines the paths to hosts by which no datagram of that length has come, and remembers those that are narrow.
/// Returns whether one is.
pub(crate) async fn examine(requester: Requester, hosts: Vec<SocketAddr>, len: u16) -> bool {
    let mut paths = JoinSet::new();
    for host in hosts {
        let requester = requester.clone();
        paths.spawn(async move {
            let payload = carried(&requester, host, len).await?;
            tracing::info!(%host, payload, "the path carries no longer datagrams, and says nothing of it");
            requester.narrow_paths().note(host, payload);
            Some(payload)
        });
    }
    let mut is_narrow = false;
    while let Some(path) = paths.join_next().await {
        is_narrow |= matches!(path, Ok(Some(_)));
    }
    is_narrow
}

/// The UDP payload that a path carries if it does not carry that length; `None` if it does, or nothing passes.
async fn carried(requester: &Requester, host: SocketAddr, len: u16) -> Option<u16> {
    let short = REQUEST_MIN_LEN as u16 + requester.sealing_overhead();
    let began = Instant::now();
    if !passes(requester, host, short, PATIENCE.0).await {
        return None;
    }
    let patience = (began.elapsed() * 3).max(PATIENCE.1);
    if passes(requester, host, len, patience).await {
        return None;
    }
    for payload in TRIED.into_iter().filter(|payload| *payload < len) {
        if passes(requester, host, payload, patience).await {
            return Some(payload);
        }
    }
    None
}

/// Whether a datagram of that length passes both ways.
async fn passes(requester: &Requester, host: SocketAddr, len: u16, patience: Duration) -> bool {
    let plain = len.saturating_sub(requester.sealing_overhead());
    let Some(probe) = Probe::new(plain, plain, 0) else { return false };
    for _ in 0..ATTEMPTS {
        if requester.probe(host, (probe, 0), patience).await.is_ok() {
            return true;
        }
    }
    false
}
