//! Benchmark of sealed datagrams: nanoseconds to seal, to open, to check a trimmed header; a handshake.
//!
//! `cargo run --release -p wellspring-driver --example sealing`

use std::sync::Arc;
use std::time::Instant;

use wellspring_core::{Duration, Time};
use wellspring_trust::{
    Channels, ClusterKey, Initiator, Keyring, MAX_OVERHEAD, Opened, PrivateKey, Responder, Rights,
    Shape, Suite, Via,
};

/// A symbol as it is by default under keys: its header, and 1,344 bytes.
const SHAPE: Shape = Shape { clear: 24, len: 24 + 1_344 };
const RUNS: usize = 7;
const DATAGRAMS: usize = 20_000;
/// Datagrams in the buffers at one time, as many as a run has: they are in the processor's cache, as they are in a
/// transfer.
const A_RUN: usize = 50;

fn main() {
    let (mut a, mut b) = pair();
    let (here, there) = (([127, 0, 0, 1], 1).into(), ([127, 0, 0, 1], 2).into());
    let now = Time::ZERO + Duration::from_secs(1);
    let (mut plain, mut answer) = (vec![0; 2_048], Vec::new());
    let mut sealed = vec![vec![0; SHAPE.len + MAX_OVERHEAD]; A_RUN];
    let (mut seal, mut open, mut tag) = (f64::MAX, f64::MAX, f64::MAX);
    for _ in 0..RUNS {
        let mut spent = [0.0; 3];
        for _ in 0..DATAGRAMS / A_RUN {
            let began = Instant::now();
            for room in &mut sealed {
                a.seal(there, Via::Any, room, SHAPE.len, SHAPE.clear).expect("a channel");
            }
            spent[0] += each(began, A_RUN);
            let began = Instant::now();
            for datagram in &sealed {
                let opened =
                    b.open(now, (here, None), datagram, Some(SHAPE), &mut plain, &mut answer);
                assert!(matches!(opened, Opened::Datagram { len, .. } if len == SHAPE.len));
            }
            spent[1] += each(began, A_RUN);
            let began = Instant::now();
            for datagram in &sealed {
                let cut = &datagram[..64];
                let opened = b.open(now, (here, None), cut, Some(SHAPE), &mut plain, &mut answer);
                assert!(matches!(opened, Opened::Datagram { len: 24, .. }));
            }
            spent[2] += each(began, A_RUN);
        }
        let [sealing, opening, checking] = spent.map(|spent| spent / (DATAGRAMS / A_RUN) as f64);
        (seal, open, tag) = (seal.min(sealing), open.min(opening), tag.min(checking));
    }
    println!(
        "{}, {} bytes in plain, {} sealed, least of {RUNS}",
        Suite::of_this_machine(),
        SHAPE.len,
        sealed[0].len()
    );
    println!("seal            {seal:8.0} ns");
    println!("open            {open:8.0} ns");
    println!("trimmed header  {tag:8.0} ns");
    println!("handshake (both sides), pinned keys {:8.0} ns", handshakes());
}

fn each(began: Instant, count: usize) -> f64 {
    began.elapsed().as_nanos() as f64 / count as f64
}

/// Two hosts with a channel between them.
fn pair() -> (Channels, Channels) {
    let key = ClusterKey::generate();
    let ring = || Arc::new(Keyring::new().with_cluster(key.clone(), Rights::all()));
    let (mut a, mut b) = (Channels::new(ring(), 8, [1; 32]), Channels::new(ring(), 8, [2; 32]));
    let (here, there) = (([127, 0, 0, 1], 1).into(), ([127, 0, 0, 1], 2).into());
    let now = Time::ZERO + Duration::from_secs(1);
    let (mut plain, mut answer, mut initiation) = (vec![0; 2_048], Vec::new(), Vec::new());
    a.request(now, there, (&[0; 256], false), &mut initiation).expect("a cluster key");
    b.open(now, (here, None), &initiation, None, &mut plain, &mut answer);
    let response = answer.clone();
    a.open(now, (there, None), &response, None, &mut plain, &mut answer);
    (a, b)
}

/// A handshake with pinned keys, both sides.
fn handshakes() -> f64 {
    const COUNT: usize = 200;
    let (client, server) = (PrivateKey::generate(), PrivateKey::generate());
    let mut least = f64::MAX;
    for _ in 0..RUNS {
        let began = Instant::now();
        for id in 0..COUNT as u64 {
            let suite = Suite::Aes128Gcm;
            let mut initiator =
                Initiator::pinned(&client, &server.public(), suite, id, &[0; 256]).expect("short");
            let responder = Responder::pinned(&server, initiator.datagram()).expect("for it");
            let (response, _) = responder.finish(suite).expect("an answer");
            initiator.finish(&response).expect("a channel");
        }
        least = least.min(each(began, COUNT));
    }
    least
}
