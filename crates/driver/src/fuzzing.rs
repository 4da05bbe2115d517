//! Models of parts of this crate, driven by any bytes: for the targets of `fuzz/`, and no part of the interface.

pub use crate::payload::send_store::model::run as send_store;

#[cfg(test)]
mod tests {
    use wellspring_core::Seed;

    #[test]
    fn the_send_store_keeps_its_promises() {
        let seed = std::env::var("SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
        println!("SEED={seed}");
        let mut random = Seed(seed).stream("inputs");
        for _ in 0..200 {
            let len = random.below(1_200);
            super::send_store(&(0..len).map(|_| random.next_u64() as u8).collect::<Vec<_>>());
        }
    }
}
