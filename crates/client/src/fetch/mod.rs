//! Fetching an object from the hosts that hold it.
//!
//! The stages that all protocols have in common are here: finding the holders, opening the
//! destination, verifying, and the report. How bytes move in between is each protocol's own file.

mod lttp;
mod ndp;
mod nodes;
mod scdp;
mod verify;

use tokio::sync::mpsc;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};
use wellspring_core::Priority;

use super::byte_range::Wanted;
use super::replicas::{Found, Late, Replica, find};
use super::report::{FetchReport, ProtocolReport};
use super::sink::Sink;
use super::update::TICK;
use super::{Client, FetchError, FetchOptions, FetchProtocol, Target, Update};
use crate::Host;
use crate::task::Boxed;

/// All bytes of an object are with its sink.
struct Arrived {
    sink: Sink,
    symbol_size: u16,
    /// Bytes that an earlier fetch had left \[bytes\].
    resumed: u64,
    replicas: Vec<Replica>,
    report: ProtocolReport,
}

impl Client {
    /// Fetches an object from the hosts that hold it, by the [protocol](FetchOptions::protocol) that the
    /// options name. By SCDP all hosts send at once, and the object arrives whole as long as one of them
    /// lives: hosts that die, restart, stall or answer late join again while it arrives. By LTTP each
    /// host sends a contiguous part, and the others send what a lost one did not. By NDP the first host
    /// that has the object sends it, and the next one if that fails. All bytes are verified before they count, and a host
    /// that sends wrong ones is named and excluded.
    ///
    /// Dropping the future ends the transfer (once the client is dropped too) and leaves a part file
    /// only if a later fetch is to [take it up](FetchOptions::resume).
    ///
    /// # Errors
    /// [`FetchError`]; a file named as target is then not there.
    pub fn fetch<'a>(
        &'a self,
        hosts: &'a [Host],
        options: &'a FetchOptions,
        target: Target,
    ) -> Boxed<'a, Result<FetchReport, FetchError>> {
        Box::pin(async move {
            if options.range.is_some() && options.protocol != FetchProtocol::Scdp {
                return Err(FetchError::RangeByProtocol);
            }
            if options.priority != Priority::Normal && options.protocol != FetchProtocol::Scdp {
                return Err(FetchError::PriorityByProtocol);
            }
            let by_lttp = matches!(options.protocol, FetchProtocol::Lttp { .. });
            let late = if by_lttp { Late::IsLeftOut } else { Late::Joins };
            let began = Instant::now();
            let with = (self.config.timeout, late, self.config.further_addresses);
            let found = find(&self.requester, hosts, options, with).await?;
            let preparing = began.elapsed();
            let (size, digest) = (found.size, found.digest);
            let range = match options.range {
                None => 0..size,
                Some(range) => range.within(size).ok_or(FetchError::NoSuchRange { range, size })?,
            };
            let arrived = match options.protocol {
                FetchProtocol::Scdp => {
                    self.fetch_by_scdp((hosts, options), found, range.clone(), target).await?
                }
                FetchProtocol::Lttp { method } => {
                    self.fetch_by_lttp(options, method, found, target).await?
                }
                FetchProtocol::Ndp => self.fetch_by_ndp(options, found, target).await?,
            };
            let Arrived { sink, symbol_size, resumed, replicas, report } = arrived;
            options.updates.tell(Update::Verifying);
            let finishing = Instant::now();
            sink.finish(options.given.clone()).await?;
            Ok(FetchReport {
                size,
                digest,
                range,
                elapsed: began.elapsed(),
                preparing,
                finishing: finishing.elapsed(),
                symbol_size,
                resumed,
                replicas: replicas
                    .into_iter()
                    .map(|replica| replica.report(&self.requester))
                    .collect(),
                protocol: report,
            })
        })
    }
}

/// Opens the destination, and reports that bytes begin to move, from those hosts.
async fn open_sink(
    options: &FetchOptions,
    found: &Found,
    target: Target,
    (symbol_size, hosts): (u16, Vec<String>),
    resume: bool,
) -> Result<Sink, FetchError> {
    let Found { size, digest, .. } = *found;
    let sink = Sink::open(target, size, digest, resume).await?;
    options.updates.tell(Update::Started { size, symbol_size, digest, hosts });
    Ok(sink)
}

/// The same for a range of the object.
async fn open_range_sink(
    options: &FetchOptions,
    found: &Found,
    target: Target,
    (symbol_size, hosts): (u16, Vec<String>),
    wanted: Wanted,
) -> Result<Sink, FetchError> {
    let Found { size, digest, .. } = *found;
    let len = wanted.bytes.end - wanted.bytes.start;
    let sink = Sink::open_range(target, (size, digest), wanted).await?;
    options.updates.tell(Update::Started { size: len, symbol_size, digest, hosts });
    Ok(sink)
}

/// Where a session's events go, and where they are read.
fn events<E: Send + 'static>() -> (Box<dyn FnMut(E) + Send>, mpsc::UnboundedReceiver<E>) {
    let (sender, events) = mpsc::unbounded_channel();
    let sink = Box::new(move |event| {
        // Nobody listens when the fetch has been dropped.
        let _ = sender.send(event);
    });
    (sink, events)
}

/// Ends a session if its fetch is dropped.
struct Guard(Box<dyn Fn() + Send>);

impl Drop for Guard {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Ticks at which progress is reported.
fn ticks() -> Interval {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}
