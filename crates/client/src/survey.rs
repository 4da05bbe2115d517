//! Survey of the path to a server: round trips, datagram lengths, marks, and a short trial of its rate.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;
use wellspring_wire::control::{
    Abilities, Cookie, MAX_PROBE_LEN, Probe, REQUEST_MIN_LEN, RefusalCode, Request,
};
use wellspring_wire::scdp::HEADER_WITH_OPTIONS_LEN;

use super::requester::{Answer, AskError, Echo};
use super::{
    Client, DEFAULT_SYMBOL_SIZE, FetchError, FetchOptions, FetchReport, HostError, HostTrouble,
    Target, Updates,
};
use crate::Host;
use crate::socket::largest_payload_towards;
use crate::store::ObjectName;
use crate::store::tree::listing::{SampleSize, TreeName, TreePart};
use crate::task::Boxed;

/// Length of a probe that every path carries \[bytes\].
const SHORT: u16 = REQUEST_MIN_LEN as u16;
/// Pause between probes that measure the round trip: the queue that one meets has changed for the next.
const PAUSE: Duration = Duration::from_millis(20);
/// How often a probe is repeated before its length or its class counts as one that does not pass.
const ATTEMPTS: u32 = 3;

/// UDP payload of a symbol of default length \[bytes\].
pub const DEFAULT_DATAGRAM_LEN: u16 = HEADER_WITH_OPTIONS_LEN as u16 + DEFAULT_SYMBOL_SIZE;

/// What a server says of itself, and of this client.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Greeting {
    /// What it has and allows.
    pub abilities: Abilities,
    /// Who this client is there, and its rights, for people; empty where there are no keys.
    pub rights: String,
}

/// Round trips of probes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct RoundTrips {
    /// Probes sent.
    pub sent: u32,
    /// Their round trips, ascending; of those that were answered.
    pub times: Vec<Duration>,
    /// How far the server's clock is ahead of this host's \[us\], by the probe with the shortest round trip, of which
    /// half is the error.
    pub clock_ahead_us: Option<i64>,
}

impl RoundTrips {
    /// The median.
    pub fn median(&self) -> Option<Duration> {
        self.times.get(self.times.len() / 2).copied()
    }

    /// Median of the distances from the median: one late answer of many does not count.
    pub fn variation(&self) -> Option<Duration> {
        let median = self.median()?;
        let mut distances: Vec<_> = self.times.iter().map(|time| time.abs_diff(median)).collect();
        distances.sort_unstable();
        distances.get(distances.len() / 2).copied()
    }
}

/// Lengths of datagrams that pass, as UDP payload \[bytes\].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct DatagramLens {
    /// The longest that was tried: what this host's link carries, [`MAX_PROBE_LEN`] at most.
    pub tried: u16,
    /// The longest that reached the server.
    pub there: u16,
    /// The longest, up to that, that came back.
    pub back: u16,
    /// The longest that this host's system sends unfragmented, now that it may have heard of a limit.
    pub known_here: u16,
    /// The same at the server, on the way back.
    pub known_there: u16,
}

impl DatagramLens {
    /// The longest that passes both ways.
    pub fn both(&self) -> u16 {
        self.there.min(self.back)
    }

    /// Whether longer ones vanish without a report by which a sender would make them shorter.
    pub fn vanish(&self) -> bool {
        let there = self.there < self.tried && self.known_here > self.there;
        let back = self.back < self.there && self.known_there > self.back;
        there || back
    }
}

/// What became of a traffic class on the way there and back; absent where no datagram of that class arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ClassEcho {
    /// As it was sent, both ways: DSCP and ECN.
    pub sent: u8,
    /// As it arrived at the server.
    pub there: Option<u8>,
    /// As the answer arrived here.
    pub back: Option<u8>,
}

impl ClassEcho {
    /// What became of that class.
    pub fn new(sent: u8, there: Option<u8>, back: Option<u8>) -> Self {
        ClassEcho { sent, there, back }
    }
}

impl Client {
    /// Asks a server for a first sign of life, again and again for as long as the client waits for any.
    ///
    /// # Errors
    /// It does not answer, its port is closed, keys are in the way, ...
    pub fn greet<'a>(
        &'a self,
        host: &'a str,
        server: SocketAddr,
    ) -> Boxed<'a, Result<Greeting, HostError>> {
        Box::pin(async move {
            let probe = Probe { len: SHORT, reply_len: SHORT, class: 0 };
            let (request, patience) = (Request::Probe(probe), self.config.timeout);
            let asked =
                self.requester.ask(server, &request, Cookie::NONE, patience, &|_, _| {}).await;
            let error = match asked {
                Ok(Answer::Probed(Echo { abilities, rights, .. })) => {
                    return Ok(Greeting { abilities, rights });
                }
                Ok(_) => AskError::Nonsense,
                Err(error) => error,
            };
            let trouble = match &error {
                // A server with keys answers who has none.
                AskError::Refused { code: RefusalCode::NotAllowed, .. } => HostTrouble::Keys,
                error => error.trouble(),
            };
            let (host, reason) = (host.to_owned(), error.to_string());
            Err(HostError { host, reason, trouble })
        })
    }

    /// Measures so many round trips, each waited for as long as `patience`.
    pub fn round_trips<'a>(
        &'a self,
        server: SocketAddr,
        count: u32,
        patience: Duration,
    ) -> Boxed<'a, RoundTrips> {
        Box::pin(async move {
            let mut trips = RoundTrips { sent: count, ..RoundTrips::default() };
            let mut shortest = Duration::MAX;
            for _ in 0..count {
                let (began, clock) = (Instant::now(), clock_us());
                let probe = self.probe_once(server, (SHORT, SHORT), 0, patience).await;
                let took = began.elapsed();
                if let Some(echo) = probe {
                    trips.times.push(took);
                    if took < shortest {
                        shortest = took;
                        let middle = clock.saturating_add(took.as_micros() as i64 / 2);
                        let there = i64::try_from(echo.clock_us).unwrap_or(i64::MAX);
                        trips.clock_ahead_us = Some(there.saturating_sub(middle));
                    }
                }
                tokio::time::sleep(PAUSE).await;
            }
            trips.times.sort_unstable();
            trips
        })
    }

    /// Finds the longest datagrams that pass. The client must be one that sends
    /// [unfragmented](crate::socket::SocketConfig::unfragmented).
    ///
    /// # Errors
    /// There is no route.
    pub async fn datagram_lens(
        &self,
        server: SocketAddr,
        patience: Duration,
    ) -> std::io::Result<DatagramLens> {
        let known = || largest_payload_towards(server).map(|len| len.min(MAX_PROBE_LEN) as u16);
        let tried = known()?;
        let passes = async |len, reply| {
            for _ in 0..ATTEMPTS {
                if self.probe_once(server, (len, reply), 0, patience).await.is_some() {
                    return true;
                }
            }
            false
        };
        let there = longest(
            (SHORT, tried),
            || known().ok(),
            async |len| passes(len, SHORT.max(self.sealed(SHORT))).await,
        );
        let there = there.await;
        let known_there = async || {
            let echo = self.probe_once(server, (SHORT, SHORT), 0, patience).await;
            echo.map(|echo| echo.largest_back)
        };
        let back = if passes(there, there).await {
            there
        } else {
            let hint = known_there().await;
            longest((SHORT, there), || hint, async |len| passes(len, len).await).await
        };
        let known_there = known_there().await.unwrap_or(0);
        Ok(DatagramLens { tried, there, back, known_here: known()?, known_there })
    }

    /// Finds what becomes of a traffic class.
    pub fn class_echo<'a>(
        &'a self,
        server: SocketAddr,
        class: u8,
        patience: Duration,
    ) -> Boxed<'a, ClassEcho> {
        Box::pin(async move {
            for _ in 0..ATTEMPTS {
                if let Some(echo) = self.probe_once(server, (SHORT, SHORT), class, patience).await {
                    let (there, back) = (Some(echo.class_there), Some(echo.class_here));
                    return ClassEcho::new(class, there, back);
                }
            }
            ClassEcho::new(class, None, None)
        })
    }

    /// Fetches bytes that a server makes up for this, and drops them.
    ///
    /// # Errors
    /// As for [`fetch`](Self::fetch).
    pub fn fetch_sample<'a>(
        &'a self,
        server: SocketAddr,
        size: SampleSize,
        updates: Updates,
    ) -> Boxed<'a, Result<FetchReport, FetchError>> {
        Box::pin(async move {
            let name: ObjectName = "sample".parse().expect("a plain name");
            let mut options = FetchOptions::new(name).updates(updates).resume(false);
            let part = TreePart::Sample { size };
            options.tree_part = Some(TreeName { directory: "", part }.to_string());
            options.longest = size.len() as u64;
            let target = Target::Writer(Box::new(std::io::sink()));
            self.fetch(&[Host::from(server)], &options, target).await
        })
    }

    /// What sealing adds to each datagram \[bytes\]; 0 without keys.
    pub fn sealing_overhead(&self) -> u16 {
        self.requester.sealing_overhead()
    }

    fn sealed(&self, len: u16) -> u16 {
        len + self.sealing_overhead()
    }

    /// Sends a probe of that length, whose answer is to have that length, both as UDP payload on the wire; shorter ones
    /// than a probe can be are as short as it can be.
    async fn probe_once(
        &self,
        server: SocketAddr,
        (len, reply_len): (u16, u16),
        class: u8,
        patience: Duration,
    ) -> Option<Echo> {
        let plain = |len: u16| len.saturating_sub(self.sealing_overhead()).max(SHORT);
        let probe = Probe::new(plain(len), plain(reply_len), class)?;
        self.requester.probe(server, (probe, class), patience).await.ok()
    }
}

/// The longest length between one that passes and one that may not, where `hint` says what the system takes for the
/// longest after each that did not pass.
async fn longest(
    (mut passes, most): (u16, u16),
    hint: impl Fn() -> Option<u16>,
    try_len: impl AsyncFn(u16) -> bool,
) -> u16 {
    if most <= passes || try_len(most).await {
        return most;
    }
    let mut fails = most;
    if let Some(hint) = hint().filter(|hint| (passes + 1..fails).contains(hint)) {
        if try_len(hint).await {
            return hint;
        }
        fails = hint;
    }
    while fails - passes > 1 {
        let middle = passes + (fails - passes) / 2;
        if try_len(middle).await { passes = middle } else { fails = middle }
    }
    passes
}

fn clock_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// The longest length found on a path that carries `carries`, and the lengths that were tried.
    fn found(carries: u16, hint: Option<u16>) -> (u16, Vec<u16>) {
        let tried = RefCell::new(Vec::new());
        let longest = longest(
            (256, 1_472),
            || hint,
            async |len| {
                tried.borrow_mut().push(len);
                len <= carries
            },
        );
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let longest = runtime.block_on(longest);
        (longest, tried.into_inner())
    }

    #[test]
    fn the_longest_datagram_is_found_with_and_without_a_hint() {
        assert_eq!(found(9_000, None), (1_472, vec![1_472]));
        assert_eq!(found(1_252, Some(1_252)), (1_252, vec![1_472, 1_252]));
        for carries in 256..1_472 {
            for hint in [None, Some(100), Some(1_472), Some(9_000), Some(1_300)] {
                // A wrong hint costs an attempt, unless it passes: then the system sends nothing longer.
                let expected = if hint == Some(1_300) { carries.min(1_300) } else { carries };
                let (longest, tried) = found(carries, hint);
                assert_eq!(longest, expected, "{hint:?}");
                assert!(tried.len() <= 13, "{tried:?}");
            }
        }
    }

    #[test]
    fn lengths_that_no_router_reports_vanish() {
        let lens = |there, back, known_here, known_there| DatagramLens {
            tried: 1_472,
            there,
            back,
            known_here,
            known_there,
        };
        assert!(!lens(1_472, 1_472, 1_472, 1_472).vanish());
        assert!(!lens(1_252, 1_252, 1_252, 1_472).vanish(), "nothing longer was asked for there");
        assert!(lens(1_252, 1_252, 1_472, 1_252).vanish());
        assert!(!lens(1_472, 1_252, 1_472, 1_252).vanish());
        assert!(lens(1_472, 1_252, 1_472, 1_472).vanish());
    }

    #[test]
    fn round_trips_have_a_median_and_a_variation() {
        let times = [1, 2, 10].map(Duration::from_millis).to_vec();
        let trips = RoundTrips { sent: 4, times, clock_ahead_us: None };
        assert_eq!(trips.median(), Some(Duration::from_millis(2)));
        assert_eq!(trips.variation(), Some(Duration::from_millis(1)));
        assert_eq!(RoundTrips::default().variation(), None);
    }
}
