//! Congestion control over long and lossy paths, and beside others. The whole grid: `cargo run --release -p
//! wellspring-transport --example congestion`.

use wellspring_core::Duration;
use wellspring_transport::congestion::Algorithm;

use crate::coexistence::{Path, alone, jain, together};

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
        let shares = together(1, &path(millis, queue), &[Algorithm::Veno; 2], 15, 15);
        let fairness = jain(&shares);
        assert!(fairness >= 0.98, "{millis} ms, {queue} BDP: {fairness:.3} {shares:?}");
    }
}
