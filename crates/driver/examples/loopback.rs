//! Measures transfers between drivers on loopback: goodput and processor time.
//!
//! `cargo run --release -p wellspring-driver --example loopback -- [MB=200] [LOSS%=0] [SENDERS=1]
//! [SYMBOL=1400] [FABRIC=shared|dedicated] [WINDOW=1024]`

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Instant;

use wellspring_core::{Rate, Seed, SessionId};
use wellspring_driver::protocols::{Driver, ReceiveObject, Recipients, SendObject};
use wellspring_driver::store::{ObjectSink, ObjectSource};
use wellspring_driver::{DriverConfig, Faults, SessionEvent};
use wellspring_transport::scdp::{Fabric, ObjectInfo, Share};
use wellspring_wire::scdp::Mode;

/// An object of any length in little memory: random bytes that repeat after a prime length, so
/// that no block is like another.
#[derive(Clone)]
struct Pattern(Arc<Vec<u8>>);

const PERIOD: usize = 1_048_573;

impl Pattern {
    fn new() -> Self {
        let mut stream = Seed(1).stream("pattern");
        Pattern(Arc::new((0..PERIOD).map(|_| stream.next_u64() as u8).collect()))
    }

    /// The pieces that make up `len` bytes from `offset` on.
    fn pieces(&self, offset: u64, len: usize) -> impl Iterator<Item = &[u8]> {
        let mut at = (offset % PERIOD as u64) as usize;
        let mut left = len;
        std::iter::from_fn(move || {
            let piece = &self.0[at..PERIOD.min(at + left)];
            left -= piece.len();
            at = 0;
            (!piece.is_empty()).then_some(piece)
        })
    }
}

impl ObjectSource for Pattern {
    fn read_block(&self, offset: u64, mut block: &mut [u8]) -> io::Result<()> {
        for piece in self.pieces(offset, block.len()) {
            let (now, rest) = block.split_at_mut(piece.len());
            now.copy_from_slice(piece);
            block = rest;
        }
        Ok(())
    }
}

/// Checks what arrives.
impl ObjectSink for Pattern {
    fn write_block(&self, offset: u64, mut block: &[u8]) -> io::Result<()> {
        for piece in self.pieces(offset, block.len()) {
            let (now, rest) = block.split_at(piece.len());
            if now != piece {
                return Err(io::Error::other("wrong bytes"));
            }
            block = rest;
        }
        Ok(())
    }
}

/// Processor time of this process \[s\].
fn processor_seconds() -> f64 {
    let usage = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    usage.tv_sec as f64 + usage.tv_nsec as f64 / 1e9
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument =
        |at: usize, default: &str| arguments.get(at).map_or(default.to_owned(), String::clone);
    let bytes = argument(0, "200").parse::<u64>()? * 1_000_000;
    let loss = argument(1, "0").parse::<f64>()? / 100.0;
    let senders = argument(2, "1").parse::<u8>()?;
    let symbol_size = argument(3, "1400").parse::<u16>()?;
    let window = argument(5, "1024").parse::<u32>()?;
    let mut config = DriverConfig::new((Ipv4Addr::LOCALHOST, 0).into());
    config.scdp.link_rate = Rate::from_mbps(100_000);
    if argument(4, "shared") == "dedicated" {
        config.scdp.fabric = Fabric::Dedicated { reordering_threshold: 64, window };
    }
    let sending = config.clone();
    config.faults = Faults::default().loss(loss).seed(1);
    let receiver = Driver::start(config, Box::new(|_| false))?;
    let sources = (0..senders)
        .map(|_| Driver::start(sending.clone(), Box::new(|_| false)))
        .collect::<Result<Vec<_>, _>>()?;
    let object = ObjectInfo::new(bytes, symbol_size, 100, 0);
    let (session, digest) = (SessionId(1), [0; 32]);
    let pattern = Pattern::new();
    let (events, ended) = channel();
    let begin = (Instant::now(), processor_seconds());
    let addresses: Vec<SocketAddr> = sources.iter().map(Driver::local_addr).collect();
    let mode = if senders > 1 { Mode::ManyToOne } else { Mode::Unicast };
    let expected = ReceiveObject {
        session,
        object,
        digest,
        mode,
        senders: addresses,
        initial_window: 12,
        sink: Arc::new(pattern.clone()),
        complete: Vec::new(),
        key: None,
        priority: wellspring_core::Priority::Normal,
    };
    let told = Box::new(move |event| {
        let _ = events.send(event);
    });
    receiver.handle().receive_object(expected, told)?;
    for (index, source) in (0..senders).zip(&sources) {
        let to = Recipients::One {
            receiver: receiver.local_addr(),
            share: Share { index, count: senders },
        };
        let request = SendObject {
            session,
            object,
            digest,
            source: Arc::new(pattern.clone()),
            to,
            initial_window: 12,
            resume: None,
            key: None,
            priority: wellspring_core::Priority::Normal,
        };
        source.handle().send_object(request, Box::new(|_| ()))?;
    }
    let stats = loop {
        match ended.recv()? {
            SessionEvent::Received { stats, .. } => break stats,
            SessionEvent::Failed(failure) => return Err(failure.into()),
            other => println!("{other:?}"),
        }
    };
    let seconds = begin.0.elapsed().as_secs_f64();
    let processor = processor_seconds() - begin.1;
    println!(
        "{bytes} bytes from {senders} sender(s), {:.0} % loss: {seconds:.2} s, {:.2} Gbit/s, \
         {:.2} processor seconds a GB (both ends)",
        loss * 100.0,
        bytes as f64 * 8.0 / seconds / 1e9,
        processor / (bytes as f64 / 1e9),
    );
    println!("{stats:?}");
    println!("receiver {:?}", receiver.handle().statistics()?);
    println!("sender {:?}", sources[0].handle().statistics()?.sent);
    Ok(())
}
