//! Rows of a figure: what is judged, under which reading, and what is only told.

use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;

use super::Lab;
use crate::verdict::{Check, Verdict};

impl Lab<'_> {
    /// A number of the paper's own configuration, and the range that counts as reproduced.
    pub fn number(&mut self, what: &str, paper: &str, ours: f64, range: RangeInclusive<f64>) {
        self.judge(None, number(what, paper, ours, &range), range.contains(&ours));
    }

    /// As [`number`](Self::number), with ours written in another way.
    pub fn number_as(
        &mut self,
        what: &str,
        paper: &str,
        ours: f64,
        range: RangeInclusive<f64>,
        write: &dyn Fn(f64) -> String,
    ) {
        let tolerance = format!("{} to {}", write(*range.start()), write(*range.end()));
        let row = Check::new(what, paper, write(ours), tolerance);
        self.judge(None, row, range.contains(&ours));
    }

    /// A number under a reading of what the paper leaves open.
    pub fn reading(
        &mut self,
        reading: &str,
        what: &str,
        paper: &str,
        ours: f64,
        range: RangeInclusive<f64>,
    ) {
        self.judge(Some(reading), number(what, paper, ours, &range), range.contains(&ours));
    }

    /// Something that must hold in the paper's own configuration.
    pub fn holds(&mut self, what: &str, ours: String, holds: bool) {
        self.judge(None, Check::new(what, "yes", ours, "ordering or shape".into()), holds);
    }

    /// Something that must hold under a reading of what the paper leaves open.
    pub fn reading_holds(&mut self, reading: &str, what: &str, ours: String, holds: bool) {
        self.judge(Some(reading), Check::new(what, "yes", ours, "ordering or shape".into()), holds);
    }

    /// Why the last row is missed, if `shown` by an experiment of this run.
    pub fn cause(&mut self, cause: &str, shown: bool) {
        if let Some(check) = self.checks.last_mut()
            && shown
            && check.verdict == Verdict::Missed
        {
            check.verdict = Verdict::MissedWithCause;
            check.cause = Some(cause.to_owned());
        }
    }

    /// A value of the paper's configuration that it prints without a claim to hold it against.
    pub fn note(&mut self, what: &str, paper: &str, ours: String) {
        self.checks.push(Check::new(what, paper, ours, "reported".into()));
    }

    /// What a variant of ours gives, which the paper does not have.
    pub fn variant(&mut self, what: &str, ours: String) {
        self.checks.push(Check::new(what, "-", ours, "variant".into()));
    }

    /// What the last row's quantity is with what is shipped instead of what the paper describes.
    pub fn shipped(&mut self, ours: String) {
        if let Some(check) = self.checks.last_mut() {
            check.shipped = Some(ours);
        }
    }

    /// A goal of this project's, which the paper does not have.
    pub fn goal(&mut self, what: &str, ours: f64, range: RangeInclusive<f64>) {
        self.goal_beside(what, NOT_IN_THE_PAPER, ours, range);
    }

    /// As [`goal`](Self::goal), beside what another program has: no paper claims it.
    pub fn goal_beside(&mut self, what: &str, theirs: &str, ours: f64, range: RangeInclusive<f64>) {
        let row = number(what, theirs, ours, &range);
        let tolerance = format!("goal {}: {}", row.tolerance, met(range.contains(&ours)));
        self.checks.push(Check { tolerance, ..row });
    }

    /// Something that is to hold, which the paper does not claim.
    pub fn goal_holds(&mut self, what: &str, ours: String, holds: bool) {
        let tolerance = format!("goal: {}", met(holds));
        self.checks.push(Check::new(what, NOT_IN_THE_PAPER, ours, tolerance));
    }

    fn judge(&mut self, reading: Option<&str>, row: Check, fits: bool) {
        let verdict = match self.shrunk.load(Ordering::Relaxed) {
            true => Verdict::NotJudged,
            false => Verdict::of(fits, reading.is_some()),
        };
        let reading = reading.map(str::to_owned);
        self.checks.push(Check { fits: Some(fits), verdict, reading, ..row });
    }
}

/// Stands where a paper's value would.
const NOT_IN_THE_PAPER: &str = "not in the paper";

fn met(met: bool) -> &'static str {
    if met { "met" } else { "not met" }
}

/// A row for a number, with its range in words.
fn number(what: &str, paper: &str, ours: f64, range: &RangeInclusive<f64>) -> Check {
    let (low, high) = (*range.start(), *range.end());
    let tolerance = if high >= 1e9 {
        format!(">= {low:.3}")
    } else if low <= -1e9 {
        format!("<= {high:.3}")
    } else {
        format!("{low:.3} to {high:.3}")
    };
    Check::new(what, paper, format!("{ours:.3}"), tolerance)
}

#[cfg(test)]
mod tests {
    use super::super::Scale;
    use super::super::tests::after_a_plan;
    use super::*;

    #[test]
    fn only_a_miss_that_an_experiment_explains_has_a_cause() {
        let mut lab = after_a_plan(Scale::default(), &[]);
        lab.number("a", "1", 2.0, 0.9..=1.1);
        lab.cause("not shown", false);
        assert_eq!((lab.checks[0].verdict, &lab.checks[0].cause), (Verdict::Missed, &None));
        lab.cause("shown", true);
        assert_eq!(lab.checks[0].verdict, Verdict::MissedWithCause);
        lab.number("b", "1", 1.0, 0.9..=1.1);
        lab.cause("nothing to explain", true);
        assert_eq!((lab.checks[1].verdict, &lab.checks[1].cause), (Verdict::Reproduced, &None));
    }

    #[test]
    fn readings_variants_and_goals_are_never_the_papers_verdict() {
        let mut lab = after_a_plan(Scale::default(), &[]);
        lab.reading("1 us a link", "a", "1", 1.0, 0.9..=1.1);
        lab.reading_holds("1 us a link", "b", String::new(), false);
        lab.variant("our codec", "1.0".to_owned());
        lab.goal("latency", 1.0, 0.0..=0.5);
        lab.goal_beside("goodput", "ns-2 1", 1.0, 0.9..=1.1);
        lab.goal_holds("drops as ns-2's", "45 of 45".to_owned(), true);
        lab.note("printed", "1", "1".to_owned());
        let verdicts: Vec<_> = lab.checks.iter().map(|check| check.verdict).collect();
        let (reading, missed) = (Verdict::ReproducedUnderReading, Verdict::Missed);
        assert_eq!(verdicts[..2], [reading, missed]);
        assert!(verdicts[2..].iter().all(|verdict| *verdict == Verdict::Reported), "{verdicts:?}");
        assert_eq!(lab.checks[0].reading.as_deref(), Some("1 us a link"));
        assert!(lab.checks[3].tolerance.ends_with("not met"), "{:?}", lab.checks[3]);
        assert_eq!(lab.checks[4].tolerance, "goal 0.900 to 1.100: met");
        assert_eq!(lab.checks[5].tolerance, "goal: met");
    }
}
