//! Fetching an object by NDP, from one host.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval};
use wellspring_core::SessionId;
use wellspring_transport::ndp::ReceiveStats;
use wellspring_wire::control::{Cookie, Request, StartNdp};

use super::replicas::{Found, Late, Replica};
use super::requester::Answer;
use super::sink::{Bytes, Sink};
use super::stages::{Stages, Times};
use super::{Client, FetchError, FetchOptions, HostError, Target, Update};
use crate::address::Host;
use crate::driver::{Failure, SessionEvent};
use crate::protocols::ndp::NdpHandle;
use crate::store::Digest;
use crate::store_messages;

/// How often progress is reported, and looked at.
const TICK: Duration = Duration::from_millis(100);

/// The account of a fetch by NDP.
#[derive(Clone, PartialEq, Debug)]
pub struct NdpReport {
    /// The object's length \[bytes\].
    pub size: u64,
    /// Its digest, verified.
    pub digest: Digest,
    /// From the call to the object in place.
    pub elapsed: Duration,
    /// Of that, before the first packet was asked for.
    pub preparing: Duration,
    /// Of that, after the last packet: verifying, syncing, renaming.
    pub finishing: Duration,
    /// Payload of a packet \[bytes\].
    pub payload: u16,
    /// The host that sent it.
    pub host: String,
    /// The protocol's account; all zero for an object of no bytes.
    pub stats: ReceiveStats,
}

impl NdpReport {
    /// Application bits over the whole time \[bit/s\].
    pub fn goodput(&self) -> f64 {
        super::report::rate(self.size, self.elapsed)
    }
}

/// Ends the transfer if the fetch is dropped.
struct Guard {
    handle: NdpHandle,
    session: SessionId,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.handle.cancel(self.session);
    }
}

impl Client {
    /// Fetches an object by NDP, SCDP's baseline, from the first of these hosts that has it: NDP has one
    /// sender. Dropping the future ends the transfer.
    ///
    /// # Errors
    /// [`FetchError`]; a file named as target is then not there.
    pub async fn fetch_ndp(
        &self,
        hosts: &[Host],
        options: &FetchOptions,
        target: Target,
    ) -> Result<NdpReport, FetchError> {
        let (stages, found) = Stages::find(self, hosts, options, Late::Joins).await?;
        let Found { replicas, size, digest, .. } = found;
        let handle = self.driver.handle().ndp();
        let payload = handle.payload;
        let replica = replicas.into_iter().find(Replica::is_live).ok_or(FetchError::NoHosts)?;
        let host = replica.host.clone();
        let mut sink = stages.open(target, Bytes::Unverified, payload, vec![host.clone()]).await?;
        let stats = match size {
            0 => ReceiveStats::default(),
            _ => self.run_ndp(&handle, options, (size, digest), replica, &mut sink).await?,
        };
        let Times { elapsed, preparing, finishing } = stages.finish(sink).await?;
        Ok(NdpReport { size, digest, elapsed, preparing, finishing, payload, host, stats })
    }

    async fn run_ndp(
        &self,
        handle: &NdpHandle,
        options: &FetchOptions,
        (size, digest): (u64, Digest),
        replica: Replica,
        sink: &mut Sink,
    ) -> Result<ReceiveStats, FetchError> {
        let Replica { host, address, .. } = replica;
        let address = address.ok_or(FetchError::NoHosts)?;
        let timeout = self.config.timeout;
        let session = SessionId(crate::random::number() as u32);
        let (sender, mut events) = mpsc::unbounded_channel();
        let report = Box::new(move |event| {
            // Nobody listens when the fetch has been dropped.
            let _ = sender.send(event);
        });
        let progress = handle.receive(session, size, sink.as_object_sink(), address, report)?;
        let _guard = Guard { handle: handle.clone(), session };
        let lost = |reason: String| {
            let hosts = vec![HostError { host: host.clone(), reason }];
            FetchError::NoReplicaLeft { hosts, done: progress.bytes_done(), size }
        };
        let (name, payload) = (store_messages::name(&options.name), handle.payload);
        let request = Request::StartNdp(StartNdp { session, name, digest: digest.0, payload });
        let pending = |_, _| {};
        match self.requester.ask(address, &request, Cookie::NONE, timeout, &pending).await {
            Ok(Answer::Accepted) => {}
            Ok(_) => return Err(lost("an answer that makes no sense".to_owned())),
            Err(error) => return Err(lost(error.to_string())),
        }
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut heard = (Instant::now(), 0);
        loop {
            tokio::select! {
                event = events.recv() => match event {
                    Some(SessionEvent::Received { stats, .. }) => return Ok(stats),
                    Some(SessionEvent::Failed(Failure::PeersLost)) => {
                        return Err(lost("fell silent".to_owned()));
                    }
                    Some(SessionEvent::Failed(failure)) => return Err(FetchError::Session(failure)),
                    Some(_) => {}
                    None => return Err(FetchError::Session(Failure::Stopped)),
                },
                error = sink.broken() => return Err(FetchError::Write(error)),
                _ = ticks.tick() => {
                    let (done, symbols) = (progress.bytes_done(), progress.symbols());
                    options.updates.tell(Update::Moving { done, total: size, symbols });
                    if symbols != heard.1 {
                        heard = (Instant::now(), symbols);
                    }
                    // A receiver that has heard nothing yet waits for nothing by itself.
                    if heard.0.elapsed() > timeout {
                        return Err(lost(format!("silent for {:.1} s", timeout.as_secs_f64())));
                    }
                }
            }
        }
    }
}
