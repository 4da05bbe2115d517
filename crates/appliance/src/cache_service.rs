//! Cache service: local hosts ask for datagrams that arrived and were lost by the host itself (§4.5).
//!
//! A question is a datagram of JSON to the cache's address, `{"from": "10.1.0.2:5000", "port": 5001,
//! "at": 0, "bytes": "0000002a"}`: datagrams from there to that port of the requester, in whose payload at
//! that offset those bytes stand. What is found is sent again to the requester, and nobody else, by the
//! local network; the answer says how many: `{"resent": 1}`.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use wellspring_core::Duration as Span;
use wellspring_maelstrom::{Batch, CacheCounters, PacketCache, Wanted};

use crate::clock::Clock;
use crate::inject::LocalSocket;
use crate::interface::InterfaceName;

/// Longest question \[bytes\].
const QUESTION: usize = 1_024;
/// Packets sent again for one question, at most.
const MOST: usize = 8;
/// How often the thread looks whether it is to end.
const LOOK_UP: Duration = Duration::from_millis(100);

/// A cache that all partitions fill.
#[derive(Clone, Debug)]
pub(crate) struct SharedCache {
    cache: Arc<Mutex<PacketCache>>,
    clock: Clock,
}

impl SharedCache {
    pub(crate) fn new(bytes: usize, age: Duration) -> Self {
        let age = Span::from_nanos(age.as_nanos() as u64);
        SharedCache {
            cache: Arc::new(Mutex::new(PacketCache::new(bytes, age))),
            clock: Clock::starting_at(Instant::now()),
        }
    }

    /// Keeps a packet that goes to a local host.
    pub(crate) fn keep(&self, packet: &[u8]) {
        let now = self.clock.now();
        self.cache().keep(now, packet);
    }

    pub(crate) fn counters(&self) -> CacheCounters {
        *self.cache().counters()
    }

    fn cache(&self) -> MutexGuard<'_, PacketCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers a question; what is found goes to `out`.
    fn answer(&self, requester: SocketAddr, question: &[u8], out: &mut Batch) -> Value {
        match wanted(requester, question) {
            Some(wanted) => {
                let now = self.clock.now();
                let resent = self.cache().find(now, &wanted, MOST, |packet| out.push(packet));
                json!({ "resent": resent })
            }
            None => json!({
                "error": "ask {\"from\": \"ADDR:PORT\", \"port\": PORT, \"at\": OFFSET, \"bytes\": \"HEX\"}"
            }),
        }
    }

    /// Answers questions at that address, from the local network behind `lan`, until it is dropped. `own` is this appliance's
    /// address towards the peer.
    pub(crate) fn serve(&self, at: SocketAddr, lan: &str, own: IpAddr) -> io::Result<CacheService> {
        let mut local = Local::open(lan, own)?;
        let socket = UdpSocket::bind(at)?;
        socket.set_read_timeout(Some(LOOK_UP))?;
        let stop = Arc::new(AtomicBool::new(false));
        let (cache, flag) = (self.clone(), Arc::clone(&stop));
        let thread = thread::Builder::new()
            .name("cache".into())
            .spawn(move || cache.run(&socket, &mut local, &flag))?;
        Ok(CacheService { stop, thread: Some(thread) })
    }

    fn run(&self, socket: &UdpSocket, local: &mut Local, stop: &AtomicBool) {
        let mut question = [0; QUESTION];
        let mut found = Batch::new();
        while !stop.load(Ordering::Relaxed) {
            // A question that fails, or none in time.
            let Ok((len, requester)) = socket.recv_from(&mut question) else { continue };
            let answer = self.answer(requester, &question[..len], &mut found);
            local.send(&mut found);
            let _ = socket.send_to(answer.to_string().as_bytes(), requester);
        }
    }
}

/// The way into the local network, whose interface may be made anew.
struct Local {
    lan: InterfaceName,
    socket: LocalSocket,
    own: IpAddr,
}

impl Local {
    fn open(lan: &str, own: IpAddr) -> io::Result<Self> {
        // Before the socket: one that is made anew meanwhile is noticed.
        let name = InterfaceName::new(lan);
        Ok(Local { lan: name, socket: LocalSocket::new(lan, own)?, own })
    }

    /// Sends all packets of a batch, and empties it.
    fn send(&mut self, batch: &mut Batch) {
        let Local { lan, socket, own } = self;
        lan.keep_open(|name| {
            *socket = LocalSocket::new(name, *own)?;
            Ok(())
        });
        socket.send(batch);
    }
}

/// The service's thread. Dropping it ends it.
pub(crate) struct CacheService {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for CacheService {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What a question asks for: only what went to the requester.
fn wanted(requester: SocketAddr, question: &[u8]) -> Option<Wanted> {
    let question: Value = serde_json::from_slice(question).ok()?;
    let port = u16::try_from(question.get("port")?.as_u64()?).ok()?;
    let at = question.get("at").map_or(Some(0), Value::as_u64)?;
    let digits = question.get("bytes").map_or(Some(""), Value::as_str)?.as_bytes();
    let pair = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let (pairs, rest) = digits.as_chunks::<2>();
    let bytes: Option<Vec<u8>> = pairs.iter().map(pair).collect();
    Some(Wanted {
        from: question.get("from")?.as_str()?.parse().ok()?,
        to: SocketAddr::new(requester.ip(), port),
        at: usize::try_from(at).ok()?,
        bytes: bytes.filter(|_| rest.is_empty())?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_understood_or_answered_with_how_to_ask() {
        let requester: SocketAddr = "10.2.0.2:4000".parse().expect("an address");
        let ask = |text: &str| wanted(requester, text.as_bytes());
        let all = r#"{"from": "10.1.0.2:5000", "port": 5001, "at": 4, "bytes": "00ffA0"}"#;
        let wanted = ask(all).expect("a question");
        assert_eq!(
            wanted.to,
            "10.2.0.2:5001".parse().expect("an address"),
            "the requester's own only"
        );
        assert_eq!((wanted.at, &wanted.bytes[..]), (4, &[0, 0xff, 0xa0][..]));
        assert!(ask(r#"{"from": "[fd00::1]:5000", "port": 5001}"#).is_some());
        for bad in [
            "",
            "{}",
            "[]",
            "\u{ff}",
            r#"{"from": "10.1.0.2", "port": 5001}"#,
            r#"{"from": "10.1.0.2:5000", "port": 500100}"#,
            r#"{"from": "10.1.0.2:5000", "port": 5001, "bytes": "0"}"#,
            r#"{"from": "10.1.0.2:5000", "port": 5001, "at": -1}"#,
        ] {
            let cache = SharedCache::new(1 << 20, Duration::from_secs(1));
            let answer = cache.answer(requester, bad.as_bytes(), &mut Batch::new());
            assert!(answer.get("error").is_some(), "{bad}: {answer}");
        }
    }
}
