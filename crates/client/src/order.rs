//! Requests to a replica to send its share, and to begin again when it is back.

use std::net::SocketAddr;
use std::time::Duration;

use wellspring_core::SessionId;
use wellspring_transport::scdp::ObjectInfo;
use wellspring_wire::control::{Cookie, Geometry, RefusalCode, Request, ResumeAt, Start};

use super::replicas::info;
use super::requester::{Answer, AskError, Requester};
use super::{Updates, timeout_ms};
use crate::manifest::PageId;
use crate::store::Digest;
use crate::store_messages;

/// Why a host may not answer a request that says more than all its versions know.
pub(super) const OLD_VERSION: &str =
    "a host of an older version answers no request of background priority";

/// Pause between attempts to win a replica back: the first, and the longest.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// What a replica is asked to send, but for its share.
#[derive(Clone)]
pub(super) struct Order {
    pub requester: Requester,
    pub session: SessionId,
    pub name: String,
    pub digest: Digest,
    pub size: u64,
    pub geometry: Geometry,
    pub shares: u8,
    /// To be sent behind all others.
    pub background: bool,
    pub timeout: Duration,
}

impl Order {
    /// Asks a replica to send its share.
    pub(super) async fn start(
        &self,
        address: SocketAddr,
        share: u8,
        cookie: Cookie,
        resume: Option<ResumeAt>,
    ) -> Result<(), AskError> {
        let request = Request::Start(Start {
            session: self.session,
            name: store_messages::asked(&self.name),
            digest: self.digest.0,
            share_index: share,
            share_count: self.shares,
            geometry: self.geometry,
            resume,
            background: self.background,
            timeout_ms: timeout_ms(self.timeout),
        });
        match self.requester.ask(address, &request, cookie, self.timeout, &|_, _| {}).await? {
            Answer::Accepted => Ok(()),
            _ => Err(AskError::Nonsense),
        }
    }

    /// Asks a replica for a page of the object's manifest.
    pub(super) async fn page(
        &self,
        address: SocketAddr,
        page: PageId,
        cookie: &tokio::sync::Mutex<Cookie>,
    ) -> Result<Vec<u8>, AskError> {
        let request = Request::Manifest {
            name: store_messages::asked(&self.name),
            digest: self.digest.0,
            log: page.log(),
            index: page.index,
        };
        // Taken out, so that several may ask at once; whoever is challenged leaves a new one.
        let mut shown = *cookie.lock().await;
        let before = shown;
        let asked =
            self.requester.ask_with(address, &request, &mut shown, self.timeout, &|_, _| {});
        let answer = asked.await;
        if shown != before {
            *cookie.lock().await = shown;
        }
        match answer? {
            Answer::Manifest(nodes) => Ok(nodes),
            _ => Err(AskError::Nonsense),
        }
    }

    /// Wins a replica: asks until it answers, makes sure that it holds the same bytes, and has it
    /// send its share in a new epoch from where the transfer is by then. Ends only with success,
    /// or with the reason why that replica is of no use. Returns which life of the host it was.
    pub(super) async fn win(
        &self,
        address: SocketAddr,
        share: u8,
        epoch: u8,
        resume: impl Fn() -> Option<(u32, u32)>,
    ) -> Result<u32, AskError> {
        let mut pause = RETRY.0;
        loop {
            match self.try_to_win(address, share, epoch, &resume).await {
                Ok(instance) => return Ok(instance),
                Err(AskError::NoAnswer(_) | AskError::PortClosed | AskError::Unreachable(_)) => {}
                Err(AskError::Refused { code: RefusalCode::Busy, .. }) => {}
                Err(error) => return Err(error),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(RETRY.1);
        }
    }

    async fn try_to_win(
        &self,
        address: SocketAddr,
        share: u8,
        epoch: u8,
        resume: &impl Fn() -> Option<(u32, u32)>,
    ) -> Result<u32, AskError> {
        let quiet = Updates::default();
        let asked = (self.name.as_str(), self.geometry);
        let held = info(&self.requester, address, asked, self.timeout, "", &quiet).await?;
        if (held.size, held.digest) != (self.size, self.digest) {
            let text = format!("holds other bytes now (digest {})", held.digest);
            return Err(AskError::Refused { code: RefusalCode::Changed, text });
        }
        let Some((floor, horizon)) = resume() else {
            return Err(AskError::NoAnswer(Duration::ZERO)); // nothing is left to send
        };
        let resume = Some(ResumeAt { epoch, floor, horizon });
        self.start(address, share, held.cookie, resume).await.map(|()| held.instance)
    }
}

/// Where a sender takes up: the first block not there yet, and the first that nobody can have been
/// asked for. `None` when all are there.
pub(super) fn resume_point(
    object: &ObjectInfo,
    contiguous: u64,
    furthest: u64,
    open_blocks: u32,
) -> Option<(u32, u32)> {
    // Blocks whose end is there.
    let blocks_within = |bytes: u64| {
        let (mut low, mut high) = (0, object.source_blocks);
        while low < high {
            let middle = low + (high - low) / 2;
            let (first, len) = object.byte_range_of_block(middle);
            if first + len <= bytes { low = middle + 1 } else { high = middle }
        }
        low
    };
    let floor = blocks_within(contiguous);
    let horizon = blocks_within(furthest).max(floor).saturating_add(open_blocks);
    (floor < object.source_blocks).then_some((floor, horizon.min(object.source_blocks)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_takes_up_at_the_first_gap() {
        let object = ObjectInfo::new(10_000, 100, 10, 0);
        assert_eq!(object.source_blocks, 10);
        assert_eq!(resume_point(&object, 0, 0, 2), Some((0, 2)));
        assert_eq!(resume_point(&object, 999, 999, 2), Some((0, 2)));
        assert_eq!(resume_point(&object, 1_000, 4_000, 2), Some((1, 6)));
        assert_eq!(resume_point(&object, 9_000, 9_000, 2), Some((9, 10)));
        assert_eq!(resume_point(&object, 10_000, 10_000, 2), None);
    }
}
