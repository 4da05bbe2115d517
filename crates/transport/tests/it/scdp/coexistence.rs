//! Congestion control over long and lossy paths, and beside others. The whole grid: `cargo run --release -p
//! wellspring-transport --example congestion`.

use wellspring_core::Duration;
use wellspring_transport::congestion::Algorithm;

use crate::coexistence::{Path, alone, jain, start, together};

fn path(millis: u64, queue: f64) -> Path {
    Path::new(Duration::from_millis(millis), queue)
}

fn lossy(millis: u64, loss: f64) -> Path {
    Path { loss, ..path(millis, 1.0) }
}

#[test]
fn random_loss_costs_little_more_than_what_is_lost() {
    for millis in [2, 20, 80, 300] {
        for (loss, floor) in [(0.0, 0.9), (0.01, 0.85), (0.05, 0.75)] {
            let used = alone(1, &lossy(millis, loss), Algorithm::Veno, Duration::from_secs(6));
            assert!(used >= floor, "{millis} ms, {loss}: {used:.3}");
        }
    }
    let cubic = alone(1, &lossy(80, 0.01), Algorithm::Cubic, Duration::from_secs(6));
    assert!(cubic < 0.2, "what random loss leaves CUBIC: {cubic:.3}");
}

#[test]
fn jitter_and_loss_together_are_no_congestion() {
    let path = Path { jitter: Duration::from_millis(8), ..lossy(80, 0.01) };
    let used = alone(1, &path, Algorithm::Veno, Duration::from_secs(6));
    assert!(used >= 0.8, "{used:.3}");
}

#[test]
fn batches_of_pulls_fill_the_path_too() {
    let path = Path { burst: 32, ..lossy(80, 0.01) };
    let used = alone(1, &path, Algorithm::Veno, Duration::from_secs(6));
    assert!(used >= 0.85, "{used:.3}");
}

#[test]
fn slow_start_doubles_from_its_first_round_trip_and_leaves_the_line_full() {
    for (millis, burst) in [(80, 1), (80, 32), (240, 1), (240, 32)] {
        let parts = start(1, &Path { burst, ..path(millis, 1.0) }, Algorithm::Veno, 24);
        println!("{millis} ms, {burst} credits a pull: {parts:.2?}");
        let missing: f64 = parts.iter().map(|part| 1.0 - part).sum();
        let doublings = (millis as f64 * 8.0 / 12.0).log2();
        assert!(missing < doublings - 0.4, "{millis} ms, {burst} a pull: {missing:.1} round trips");
        let full = parts.iter().position(|part| *part > 0.95).expect("it fills the line");
        let least = parts[full..].iter().copied().fold(1.0, f64::min);
        assert!(least > 0.85, "{millis} ms, {burst} a pull: down to {least:.2}");
    }
}

/// The mean share of ours over two seeds, in which it begins first and last.
fn share_beside(cubics: usize, path: &Path) -> f64 {
    let mut all = vec![Algorithm::Veno];
    all.resize(cubics + 1, Algorithm::Cubic);
    let share = |seed| {
        let shares = together(seed, path, &all, 12, 12);
        shares[0] / shares.iter().sum::<f64>()
    };
    (share(1) + share(cubics as u64 + 1)) / 2.0
}

#[test]
fn one_cubic_flow_keeps_its_half() {
    for (millis, queue) in [(2, 1.0), (10, 0.5), (10, 2.0)] {
        let share = share_beside(1, &path(millis, queue));
        assert!((0.4..=0.6).contains(&share), "{millis} ms, {queue} BDP: {share:.3}");
    }
}

#[test]
fn four_cubic_flows_keep_their_four_fifths() {
    for (millis, queue) in [(2, 2.0), (10, 1.0)] {
        let share = share_beside(4, &path(millis, queue));
        assert!((0.15..=0.25).contains(&share), "{millis} ms, {queue} BDP: {share:.3}");
    }
}

#[test]
fn two_sessions_converge() {
    for (millis, queue) in [(2, 1.0), (10, 1.0), (60, 1.0)] {
        let of = |seed| jain(&together(seed, &path(millis, queue), &[Algorithm::Veno; 2], 15, 15));
        let fairness = [1, 2].map(of);
        let mean = fairness.iter().sum::<f64>() / fairness.len() as f64;
        assert!(mean >= 0.98, "{millis} ms, {queue} BDP: {fairness:?}");
    }
}
