use super::model::{allocated, made_ready};
use super::*;
use std::io;
use wellspring_core::Seed;

struct Zeros;

impl ObjectSource for Zeros {
    fn read_block(&self, _: u64, block: &mut [u8]) -> io::Result<()> {
        block.fill(0);
        Ok(())
    }
}

#[test]
fn what_is_allocated_for_many_greedy_sessions_stays_within_the_bound() {
    const LIMIT: usize = 2_000_000;
    let seed = std::env::var("SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    println!("SEED={seed}");
    let mut random = Seed(seed).stream("sessions");
    let source: Arc<dyn ObjectSource> = Arc::new(Zeros);
    let mut store = SendStore::new(LIMIT);
    let mut jobs = Vec::new();
    let mut sessions: Vec<u64> = (0..64).collect();
    let mut next_session = 64;
    let (mut most, mut written) = (0, 0);
    let shapes = [(1_000_u16, 100_u32), (4_000, 50), (200, 400), (20_000, 8)];
    for step in 0..20_000 {
        // A few at a time, so that blocks are found again; with time all.
        let index = (step / 400 + random.below(3) as usize) % sessions.len();
        // Whoever starves is tried again, as by the driver.
        let starving = store.first_starving().filter(|_| random.chance(0.5));
        let session = starving.unwrap_or(SessionKey(sessions[index]));
        let (symbol_size, k) = shapes[session.0 as usize % shapes.len()];
        let len = u64::from(symbol_size) * u64::from(k) * 20;
        let geometry = Geometry::in_order(0, len, symbol_size, k);
        match random.below(100) {
            0 => {
                store.close_session(SessionKey(sessions[index]));
                sessions[index] = next_session;
                next_session += 1;
            }
            1..=5 => store.release_below(session, random.below(20) as u32),
            6..=40 => {
                let coding = Coding::RaptorQ;
                let of = SourceOf {
                    key: session,
                    geometry: &geometry,
                    coding: &coding,
                    source: &source,
                };
                let symbol = (random.below(3) as u32, random.below(2 * u64::from(k)) as u32);
                let mut out = vec![0; symbol_size.into()];
                written +=
                    u32::from(matches!(store.fill(&of, symbol, Some(&mut out)), Fill::Written));
                if random.chance(0.2) {
                    store.read_ahead(&of, symbol.0, 2);
                }
            }
            41..=65 => jobs.extend(store.next_job()),
            _ if !jobs.is_empty() => {
                match jobs.swap_remove(random.below(jobs.len() as u64) as usize) {
                    (key, Job::Load { buffer, .. }) => store.loaded(key, buffer),
                    (key, Job::Prepare { data, shape, encoder }) => {
                        let encoder = made_ready(&data, shape, encoder);
                        drop(data);
                        store.prepared(key, encoder);
                    }
                    (_, Job::Finish(_)) => {}
                }
            }
            _ => {}
        }
        most = most.max(allocated(&store, &jobs));
        assert!(store.total() <= LIMIT + 100_000, "{} counted", store.total());
        assert!(most <= LIMIT + 100_000, "{most} of {LIMIT}");
    }
    println!("{written} symbols written, {most} bytes at most");
    assert!(written > 1_000 && most > LIMIT / 2, "{written} written, {most}");
    for session in sessions {
        store.close_session(SessionKey(session));
    }
    for (key, job) in jobs {
        match job {
            Job::Load { buffer, .. } => store.loaded(key, buffer),
            Job::Prepare { data, shape, encoder } => {
                let encoder = made_ready(&data, shape, encoder);
                drop(data);
                store.prepared(key, encoder);
            }
            Job::Finish(_) => {}
        }
    }
    assert!(store.held == 0 && store.lent.is_empty(), "{} held, {:?} lent", store.held, store.lent);
}

/// Sessions that want more than there is space for push out each other's blocks for ever, unless a
/// block stays until the symbol that waits for it has been written.
#[test]
fn sessions_that_need_more_than_the_bound_take_turns() {
    const SESSIONS: u64 = 32;
    const SYMBOLS: u32 = 5;
    let (symbol_size, k) = (1_000_u16, 100_u32);
    let shape = Shape { source_symbols: k, symbol_size };
    // Space for four blocks with their encoders.
    let limit = 4 * (encoder_bytes(shape) + 100_000);
    let source: Arc<dyn ObjectSource> = Arc::new(Zeros);
    let geometry = Geometry::in_order(0, 20 * 100_000, symbol_size, k);
    let mut store = SendStore::new(limit);
    let mut written = vec![0_u32; SESSIONS as usize];
    let mut out = vec![0; symbol_size.into()];
    for _ in 0..1_000 {
        for (session, written) in written.iter_mut().enumerate().filter(|(_, n)| **n < SYMBOLS) {
            let coding = Coding::RaptorQ;
            let key = SessionKey(session as u64);
            let of = SourceOf { key, geometry: &geometry, coding: &coding, source: &source };
            // Each symbol is of another block, and every other one is a repair symbol.
            let symbol = (*written, k * (*written % 2));
            *written += u32::from(matches!(store.fill(&of, symbol, Some(&mut out)), Fill::Written));
            store.read_ahead(&of, symbol.0, 4);
        }
        // Two workers.
        for _ in 0..2 {
            match store.next_job() {
                Some((key, Job::Load { buffer, .. })) => store.loaded(key, buffer),
                Some((key, Job::Prepare { data, shape, encoder })) => {
                    let encoder = made_ready(&data, shape, encoder);
                    drop(data);
                    store.prepared(key, encoder);
                }
                _ => {}
            }
        }
        assert!(store.total() <= limit, "{} of {limit}", store.total());
        if written.iter().all(|n| *n >= SYMBOLS) {
            return;
        }
    }
    panic!("symbols written a session: {written:?}");
}

#[test]
fn what_is_reserved_for_an_encoder_is_enough() {
    for (k, size) in
        [(1, 1), (1, 60_000), (10, 8), (100, 1_376), (101, 65_000), (1_024, 64), (1_024, 8_192)]
    {
        let shape = Shape { source_symbols: k, symbol_size: size };
        let data = vec![1; k as usize * usize::from(size)];
        let memory = made_ready(&data, shape, None).memory();
        let reserved = encoder_bytes(shape);
        println!("K {k}, T {size}: {memory} of {reserved}");
        assert!(memory <= reserved, "K {k}, T {size}: {memory} of {reserved}");
    }
}
