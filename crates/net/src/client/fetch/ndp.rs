//! A fetch by NDP, SCDP's baseline: from one host.

use tokio::time::Instant;
use wellspring_core::SessionId;
use wellspring_transport::ndp::ReceiveStats;
use wellspring_wire::control::{Cookie, Request, StartNdp};

use super::{Arrived, Guard, events, open_sink, ticks};
use crate::client::replicas::{Found, Replica, Standing};
use crate::client::report::ProtocolReport;
use crate::client::requester::Answer;
use crate::client::sink::{Bytes, Sink};
use crate::client::{Client, FetchError, FetchOptions, HostError, HostTrouble, Target, Update};
use crate::driver::{Failure, SessionEvent};
use crate::store_messages;

impl Client {
    /// Has the first host that has the object send it.
    pub(super) async fn fetch_by_ndp(
        &self,
        options: &FetchOptions,
        mut found: Found,
        target: Target,
    ) -> Result<Arrived, FetchError> {
        let payload = self.driver.handle().ndp().payload;
        let first = found.replicas.iter().position(Replica::is_live).ok_or(FetchError::NoHosts)?;
        for other in found.replicas.iter_mut().skip(first + 1).filter(|other| other.takes_part()) {
            other.standing = Standing::Unused("NDP has one sender".to_owned());
        }
        let hosts = vec![found.replicas[first].host.clone()];
        let moves = (payload, hosts);
        let mut sink = open_sink(options, &found, target, Bytes::Unverified, moves).await?;
        let stats = match found.size {
            0 => ReceiveStats::default(),
            _ => self.receive_by_ndp(options, &found, &found.replicas[first], &mut sink).await?,
        };
        let (replicas, report) = (found.replicas, ProtocolReport::Ndp(stats));
        Ok(Arrived { sink, symbol_size: payload, resumed: 0, replicas, report })
    }

    async fn receive_by_ndp(
        &self,
        options: &FetchOptions,
        found: &Found,
        Replica { host, address, .. }: &Replica,
        sink: &mut Sink,
    ) -> Result<ReceiveStats, FetchError> {
        let (size, digest, timeout) = (found.size, found.digest, self.config.timeout);
        let address = address.ok_or(FetchError::NoHosts)?;
        let handle = self.driver.handle().ndp();
        let session = SessionId(crate::random::number() as u32);
        let (report, mut events) = events();
        let progress = handle.receive(session, size, sink.as_object_sink(), address, report)?;
        let cancel = handle.clone();
        let _guard = Guard(Box::new(move || cancel.cancel(session)));
        let lost = |reason: String| {
            let trouble = HostTrouble::Other;
            let hosts = vec![HostError { host: host.clone(), reason, trouble }];
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
        let mut ticks = ticks();
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
