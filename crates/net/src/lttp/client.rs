//! The client: fetches an object, a contiguous share from each server.

use std::net::SocketAddr;
use wellspring_codec::lt::Method;
use wellspring_wire::lttp::{Geometry, SYMBOL_HEADER_LEN};

use super::is_possible;
use super::part::{Common, Holder};
use super::report::LttpReport;
use super::spans::divide;
use super::transfer::{Account, Transfer};
use super::{DEFAULT_LTTP_BLOCK_SYMBOLS, DEFAULT_LTTP_SYMBOL_SIZE};
use crate::address::Host;
use crate::client::replicas::{Found, Late, Replica};
use crate::client::sink::Bytes;
use crate::client::stages::{Stages, Times};
use crate::client::{Client, FetchError, FetchOptions, HostError, Target, Updates};
use crate::setters::setters;
use crate::socket::largest_payload_towards;
use crate::store::{Digest, ObjectName};

/// What is fetched, and how.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LttpOptions {
    /// The object.
    pub name: ObjectName,
    /// Its digest, if known beforehand: servers with other bytes are passed over. Without it, all
    /// servers must agree.
    pub digest: Option<Digest>,
    /// How blocks are decoded.
    pub method: Method,
    /// Symbol size \[bytes\]; `None`: [`DEFAULT_LTTP_SYMBOL_SIZE`], or less where a path to one of
    /// the servers would fragment its datagrams.
    pub symbol_size: Option<u16>,
    /// Source symbols of a block.
    pub block_symbols: u32,
    /// Where updates go.
    pub updates: Updates,
}

setters! {
    LttpOptions {
        name: ObjectName,
        digest: Option<Digest>,
        method: Method,
        symbol_size: Option<u16>,
        block_symbols: u32,
        updates: Updates,
    }
}

impl LttpOptions {
    /// That object, whatever its digest, by the paper's improved decoder.
    pub fn new(name: ObjectName) -> Self {
        LttpOptions {
            name,
            digest: None,
            method: Method::Improved,
            symbol_size: None,
            block_symbols: DEFAULT_LTTP_BLOCK_SYMBOLS,
            updates: Updates::default(),
        }
    }

    /// The geometry that fits the paths to these servers.
    fn geometry(&self, servers: impl Iterator<Item = SocketAddr>) -> Option<Geometry> {
        let fits = |server| {
            let payload = largest_payload_towards(server).ok()?;
            u16::try_from(payload.saturating_sub(SYMBOL_HEADER_LEN)).ok()
        };
        let symbol_size = self.symbol_size.unwrap_or_else(|| {
            servers.filter_map(fits).fold(DEFAULT_LTTP_SYMBOL_SIZE, u16::min).max(1)
        });
        Geometry::new(symbol_size, self.block_symbols)
    }
}

impl Client {
    /// Fetches an object from all servers that have it, a share from each. What a server that is lost
    /// on the way had not sent comes from the others; only without any left the fetch fails.
    /// Dropping the future ends the transfer.
    ///
    /// # Errors
    /// [`FetchError`]; a file named as target is then not there.
    pub async fn fetch_lttp(
        &self,
        hosts: &[Host],
        options: &LttpOptions,
        target: Target,
    ) -> Result<LttpReport, FetchError> {
        if self.config.driver.keys.is_some() {
            return Err(FetchError::LttpUnderKeys);
        }
        let LttpOptions { name, digest, updates, .. } = options.clone();
        let wanted = FetchOptions::new(name).digest(digest).updates(updates);
        let (stages, found) = Stages::find(self, hosts, &wanted, Late::IsLeftOut).await?;
        let Found { replicas, size, digest, .. } = found;
        let (live, others): (Vec<_>, Vec<_>) = replicas.into_iter().partition(Replica::is_live);
        let unused: Vec<HostError> = others.iter().map(Replica::complaint).collect();
        let holder =
            |replica: Replica| Some(Holder { address: replica.address?, host: replica.host });
        let holders: Vec<Holder> = live.into_iter().filter_map(holder).collect();
        let geometry = options
            .geometry(holders.iter().map(|holder| holder.address))
            .filter(is_possible)
            .ok_or(FetchError::Geometry)?;
        let symbol_size = geometry.symbol_size;
        let shares = divide(size, holders.len(), symbol_size.into());
        let taking_part = holders.iter().take(shares.len());
        let hosts = taking_part.map(|holder| holder.host.clone()).collect();
        let mut sink = stages.open(target, Bytes::Unverified, symbol_size, hosts).await?;
        let common = Common {
            handle: self.driver.handle().lttp(),
            name: wanted.name.clone(),
            size,
            digest,
            geometry,
            method: options.method,
            timeout: self.config.timeout,
            sink: sink.as_object_sink(),
            updates: wanted.updates.clone(),
        };
        let Account { parts, lost } =
            Transfer::begin(common, holders, shares).follow(&mut sink).await?;
        let Times { elapsed, preparing, finishing } = stages.finish(sink).await?;
        Ok(LttpReport {
            size,
            digest,
            elapsed,
            preparing,
            finishing,
            symbol_size,
            block_symbols: geometry.block_symbols,
            method: options.method,
            parts,
            lost,
            unused,
            socket: self.statistics()?,
        })
    }
}
