//! Statistics over flows and seeds.

/// Steps of a distribution: a value each 2 %.
pub const RANKS: usize = 50;

/// Mean of values; 0 for none.
pub fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

/// A statistic of values; none of none.
pub fn of_some<T>(values: &[T], statistic: impl Fn(&[T]) -> f64) -> Option<f64> {
    (!values.is_empty()).then(|| statistic(values))
}

/// A mean over runs of which some may have no value: without these.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MeanOfRuns {
    /// Not a number if no run has a value.
    pub mean: f64,
    /// Half of its 95 % confidence interval.
    pub half: f64,
    /// Runs that have a value.
    pub with: usize,
    /// All runs.
    pub all: usize,
}

impl MeanOfRuns {
    /// Of a value a run.
    pub fn new<V: Into<Option<f64>>>(runs: impl IntoIterator<Item = V>) -> MeanOfRuns {
        let runs: Vec<Option<f64>> = runs.into_iter().map(Into::into).collect();
        let values: Vec<f64> = runs.iter().copied().flatten().collect();
        let mean = of_some(&values, mean).unwrap_or(f64::NAN);
        MeanOfRuns { mean, half: half_interval(&values), with: values.len(), all: runs.len() }
    }

    /// Of how many runs it is, for people, where some have no value.
    pub fn note(&self) -> String {
        if self.with == self.all {
            String::new()
        } else {
            format!(" ({} of {})", self.with, self.all)
        }
    }
}

/// Half of the 95 % confidence interval of the mean (Student's t); 0 for fewer than two values.
pub fn half_interval(values: &[f64]) -> f64 {
    let n = values.len();
    if n < 2 {
        return 0.0;
    }
    let centre = mean(values);
    let variance = values.iter().map(|v| (v - centre).powi(2)).sum::<f64>() / (n - 1) as f64;
    student_t(n - 1) * (variance / n as f64).sqrt()
}

/// The 97.5 % point of Student's t.
fn student_t(freedom: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
        2.052, 2.048, 2.045, 2.042,
    ];
    TABLE.get(freedom.saturating_sub(1)).copied().unwrap_or(1.96)
}

/// The value below which a share of all values lies (nearest rank); 0 for none.
pub fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let rank = (share * sorted.len() as f64).ceil().max(1.0) as usize;
    sorted.get(rank.min(sorted.len().max(1)) - 1).copied().unwrap_or(0.0)
}

/// Share of values above a limit.
pub fn share_above(values: &[f64], limit: f64) -> f64 {
    let above = values.iter().filter(|value| **value > limit).count();
    above as f64 / values.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_students() {
        let values = [10.0, 12.0, 11.0, 13.0, 9.0];
        assert_eq!(mean(&values), 11.0);
        // s = 1.5811, s / sqrt(5) = 0.7071, times 2.776.
        assert!((half_interval(&values) - 1.963).abs() < 1e-3);
        assert_eq!(half_interval(&[1.0]), 0.0);
    }

    #[test]
    fn runs_without_a_value_are_not_in_a_mean() {
        let mean = MeanOfRuns::new([Some(0.4), None, Some(0.6)]);
        assert_eq!(
            (mean.mean, mean.with, mean.all, mean.note().as_str()),
            (0.5, 2, 3, " (2 of 3)")
        );
        assert_eq!(mean.half, half_interval(&[0.4, 0.6]));
        let none = MeanOfRuns::new([None, None]);
        assert!(none.mean.is_nan(), "{none:?}");
        assert_eq!((none.half, none.note().as_str()), (0.0, " (0 of 2)"));
        assert_eq!(MeanOfRuns::new([1.0, 2.0]).note(), "");
    }

    #[test]
    fn quantiles_are_of_nearest_rank() {
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(quantile(&values, 0.99), 99.0);
        assert_eq!(quantile(&values, 0.5), 50.0);
        assert_eq!(quantile(&values, 0.0), 1.0);
        assert_eq!(quantile(&[], 0.5), 0.0);
        assert_eq!(share_above(&values, 90.0), 0.1);
    }
}
