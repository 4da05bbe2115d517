//! The TCP throughput equation (RFC 5348 §3.1; LTTP's equation 4).

use libm::sqrt;

/// `X_Bps` \[bytes/s\]: what TCP would get, for segments of `s` bytes, a round trip of `r` seconds and a
/// loss event rate `p`, with b = 1 and `t_RTO` = 4R, as §3.1 recommends. Infinite where `p` is 0.
pub fn throughput(s: f64, r: f64, p: f64) -> f64 {
    if p <= 0.0 || r <= 0.0 {
        return f64::INFINITY;
    }
    let p = p.min(1.0);
    let t_rto = 4.0 * r;
    let timeouts = t_rto * (3.0 * sqrt(3.0 * p / 8.0) * p * (1.0 + 32.0 * p * p));
    s / (r * sqrt(2.0 * p / 3.0) + timeouts)
}

/// The least loss event rate that the search of [`loss_event_rate`] knows.
const LEAST: f64 = 1e-12;

/// The loss event rate at which [`throughput`] is `target` \[bytes/s\] (§6.3.1 asks for 5 %; this is
/// exact to a millionth): 1 where even that is too fast, 10^-12 where a target is out of reach.
pub fn loss_event_rate(s: f64, r: f64, target: f64) -> f64 {
    let (mut low, mut high) = (LEAST, 1.0);
    if throughput(s, r, high) >= target {
        return high;
    }
    // Halves the interval on a logarithmic scale: 12 decades take 48 steps to a millionth or less.
    for _ in 0..48 {
        let middle = sqrt(low * high);
        if throughput(s, r, middle) > target {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) -> bool {
        (a / b - 1.0).abs() < 1e-5
    }

    #[test]
    fn the_equation_gives_what_a_calculator_gives() {
        // R sqrt(2p/3) = 0.1 * 0.0816497; t_RTO part = 0.4 * 3 * 0.0612372 * 0.01 * 1.0032.
        assert!(near(throughput(1_460.0, 0.1, 0.01), 164_005.0));
        // p = 1: 0.1 * 0.8164966 + 0.4 * 3 * 0.6123724 * 33 = 24.33160.
        assert!(near(throughput(1_000.0, 0.1, 1.0), 41.098_82));
        assert_eq!(throughput(1_000.0, 0.1, 0.0), f64::INFINITY);
    }

    #[test]
    fn small_losses_follow_the_inverse_root_law() {
        let rate = |p| throughput(1_000.0, 0.01, p);
        assert!((rate(1e-6) / rate(4e-6) - 2.0).abs() < 0.01);
    }

    #[test]
    fn the_inverse_inverts() {
        for p in [1e-8, 1e-4, 0.003, 0.05, 0.4, 0.99] {
            let found = loss_event_rate(1_024.0, 1e-4, throughput(1_024.0, 1e-4, p));
            assert!(near(found, p), "{found} for {p}");
        }
        assert_eq!(loss_event_rate(1_024.0, 1e-4, 1.0), 1.0);
        assert!(loss_event_rate(1_024.0, 1e-4, 1e30) < 2e-12);
    }
}
