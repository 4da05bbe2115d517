//! A fetch by LTTP: a contiguous share of the object from each server.

mod contiguous;
mod part;
mod spans;
mod transfer;

use std::sync::Arc;

use wellspring_codec::lt::Method;
use wellspring_wire::lttp::{Geometry, SYMBOL_HEADER_LEN};

use super::verify::{Checker, learn, missing, node_len, order_of};
use super::{Arrived, open_sink};
use crate::protocols::lttp::is_possible;
use crate::replicas::{Found, Replica};
use crate::report::{LttpReport, ProtocolReport};
use crate::{
    Client, DEFAULT_LTTP_BLOCK_SYMBOLS, DEFAULT_LTTP_SYMBOL_SIZE, FetchError, FetchOptions, Target,
};
use part::Common;
use spans::deal;
use transfer::{Server, Transfer};

impl Client {
    /// Has each server that has the object send a contiguous share of what is missing.
    pub(super) async fn fetch_by_lttp(
        &self,
        options: &FetchOptions,
        method: Method,
        mut found: Found,
        target: Target,
    ) -> Result<Arrived, FetchError> {
        let order = order_of(self, options, &found);
        let mut pages = learn(&order, &mut found.replicas, options).await?;
        let live = (0..).zip(&found.replicas).filter(|(_, replica)| replica.is_live());
        let server = |(index, replica): (usize, &Replica)| {
            Some(Server { index, host: replica.host.clone(), address: replica.address? })
        };
        let servers: Vec<Server> = live.filter_map(server).collect();
        let addresses = servers.iter().map(|server| server.address);
        let overhead = self.driver.handle().sealing_overhead();
        let headers = SYMBOL_HEADER_LEN + usize::from(overhead);
        let most = DEFAULT_LTTP_SYMBOL_SIZE - overhead;
        let symbol_size = options.cut.symbol_size_towards(
            addresses,
            self.requester.narrow_paths(),
            headers,
            most,
        );
        let block_symbols = options.cut.symbols_per_block.unwrap_or(DEFAULT_LTTP_BLOCK_SYMBOLS);
        let geometry = Geometry::new(symbol_size, block_symbols)
            .filter(is_possible)
            .ok_or(FetchError::Geometry)?;
        let hosts = servers.iter().map(|server| server.host.clone()).collect();
        let moves = (symbol_size, hosts);
        let mut sink = open_sink(options, &found, target, moves, options.resume).await?;
        let missing = missing(&sink, &order, &mut pages, &found.replicas, options).await;
        let left = missing.iter().map(|range| range.end - range.start).sum::<u64>();
        let resumed = found.size - left;
        let shares = deal(&missing, servers.len(), node_len(found.size));
        let common = Common {
            handle: self.driver.handle().lttp(),
            own: self.driver.local_addr(),
            keys: self.config.driver.keys.clone(),
            name: options.name.clone(),
            size: found.size,
            digest: found.digest,
            geometry,
            method,
            timeout: self.config.timeout,
            sink: Arc::new(sink.arriving()),
            checker: Checker::new(&pages, sink.arriving(), found.size),
            updates: options.updates.clone(),
        };
        let transfer = Transfer::begin(common, resumed, found.replicas, servers, shares);
        let (replicas, parts) = transfer.follow(&mut sink).await?;
        let report = ProtocolReport::Lttp(LttpReport { block_symbols, method, parts });
        Ok(Arrived { sink, symbol_size, resumed, replicas, report })
    }
}
