//! Models of parts of this crate, driven by any bytes: for the targets of `fuzz/`, and no part of the interface.

pub use crate::model::run as server_requests;

#[cfg(test)]
mod tests {
    use wellspring_core::Seed;

    #[test]
    fn requests_by_chance_get_no_more_than_they_may() {
        let seed = std::env::var("SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
        println!("SEED={seed}");
        let mut random = Seed(seed).stream("inputs");
        for _ in 0..200 {
            let len = random.below(1_200);
            super::server_requests(&(0..len).map(|_| random.next_u64() as u8).collect::<Vec<_>>());
        }
    }
}
