//! A fetch by LTTP: a contiguous share of the object from each server.

mod part;
mod spans;
mod transfer;

use wellspring_codec::lt::Method;
use wellspring_wire::lttp::{Geometry, SYMBOL_HEADER_LEN};

use super::{Arrived, open_sink};
use crate::client::replicas::{Found, Replica};
use crate::client::report::{LttpReport, ProtocolReport};
use crate::client::sink::Bytes;
use crate::client::{
    Client, DEFAULT_LTTP_BLOCK_SYMBOLS, DEFAULT_LTTP_SYMBOL_SIZE, FetchError, FetchOptions, Target,
};
use crate::protocols::lttp::is_possible;
use part::Common;
use spans::divide;
use transfer::{Server, Transfer};

impl Client {
    /// Has each server that has the object send a contiguous share.
    pub(super) async fn fetch_by_lttp(
        &self,
        options: &FetchOptions,
        method: Method,
        found: Found,
        target: Target,
    ) -> Result<Arrived, FetchError> {
        let live = (0..).zip(&found.replicas).filter(|(_, replica)| replica.is_live());
        let server = |(index, replica): (usize, &Replica)| {
            Some(Server { index, host: replica.host.clone(), address: replica.address? })
        };
        let servers: Vec<Server> = live.filter_map(server).collect();
        let addresses = servers.iter().map(|server| server.address);
        let overhead = self.driver.handle().sealing_overhead();
        let headers = SYMBOL_HEADER_LEN + usize::from(overhead);
        let most = DEFAULT_LTTP_SYMBOL_SIZE - overhead;
        let symbol_size = options.cut.symbol_size_towards(addresses, headers, most);
        let block_symbols = options.cut.symbols_per_block.unwrap_or(DEFAULT_LTTP_BLOCK_SYMBOLS);
        let geometry = Geometry::new(symbol_size, block_symbols)
            .filter(is_possible)
            .ok_or(FetchError::Geometry)?;
        let shares = divide(found.size, servers.len(), symbol_size.into());
        let hosts = servers.iter().take(shares.len()).map(|server| server.host.clone()).collect();
        let moves = (symbol_size, hosts);
        let mut sink = open_sink(options, &found, target, Bytes::Unverified, moves).await?;
        let common = Common {
            handle: self.driver.handle().lttp(),
            keys: self.config.driver.keys.clone(),
            name: options.name.clone(),
            size: found.size,
            digest: found.digest,
            geometry,
            method,
            timeout: self.config.timeout,
            sink: sink.as_object_sink(),
            updates: options.updates.clone(),
        };
        let transfer = Transfer::begin(common, found.replicas, servers, shares);
        let (replicas, parts) = transfer.follow(&mut sink).await?;
        let report = ProtocolReport::Lttp(LttpReport { block_symbols, method, parts });
        Ok(Arrived { sink, symbol_size, resumed: 0, replicas, report })
    }
}
