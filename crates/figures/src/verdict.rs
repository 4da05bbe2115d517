//! Verdict classes of reproduced results.

use serde::{Deserialize, Serialize};

/// How a result stands beside the paper's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Within the tolerance, in the paper's own configuration.
    Reproduced,
    /// Within the tolerance, under a stated reading of what the paper leaves open.
    ReproducedUnderReading,
    /// Not within it, and an experiment of the same run shows why.
    MissedWithCause,
    /// Not within it.
    Missed,
    /// The runs are too few or too short for a verdict.
    NotJudged,
    /// No claim of the paper's: a value only printed there, a further reading or a variant of ours.
    Reported,
}

impl Verdict {
    /// In words, for tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Reproduced => "reproduced",
            Verdict::ReproducedUnderReading => "reproduced (reading)",
            Verdict::MissedWithCause => "missed (cause shown)",
            Verdict::Missed => "missed",
            Verdict::NotJudged => "not judged",
            Verdict::Reported => "-",
        }
    }

    /// Of a result that is within its tolerance or not, under a reading or as the paper says.
    pub(super) fn of(fits: bool, reading: bool) -> Verdict {
        match (fits, reading) {
            (false, _) => Verdict::Missed,
            (true, false) => Verdict::Reproduced,
            (true, true) => Verdict::ReproducedUnderReading,
        }
    }
}

/// One claim of a paper, and what we found.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Check {
    /// What is measured.
    pub what: String,
    /// The paper's.
    pub paper: String,
    /// Ours.
    pub ours: String,
    /// What counts as reproduced.
    pub tolerance: String,
    /// Whether ours is within the tolerance, judged or not; `None` where there is no claim.
    pub fits: Option<bool>,
    /// The verdict.
    pub verdict: Verdict,
    /// What the paper leaves open, and how it is read here; none in its own configuration.
    pub reading: Option<String>,
    /// Why it is missed, as an experiment in this run shows.
    pub cause: Option<String>,
    /// Ours with what is shipped, where that can be run.
    #[serde(default)]
    pub shipped: Option<String>,
}

impl Check {
    /// A row without reading or cause.
    pub(super) fn new(what: &str, paper: &str, ours: String, tolerance: String) -> Check {
        Check {
            what: what.to_owned(),
            paper: paper.to_owned(),
            ours,
            tolerance,
            fits: None,
            verdict: Verdict::Reported,
            reading: None,
            cause: None,
            shipped: None,
        }
    }

    /// What is measured, with its reading and its cause.
    pub fn describe(&self) -> String {
        let mut text = self.what.clone();
        if let Some(reading) = &self.reading {
            text.push_str(&format!(" [reading: {reading}]"));
        }
        if let Some(cause) = &self.cause {
            text.push_str(&format!(" [cause: {cause}]"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_never_counts_as_the_papers_configuration() {
        assert_eq!(Verdict::of(true, false), Verdict::Reproduced);
        assert_eq!(Verdict::of(true, true), Verdict::ReproducedUnderReading);
        assert_eq!(Verdict::of(false, false), Verdict::Missed);
        assert_eq!(Verdict::of(false, true), Verdict::Missed);
    }

    #[test]
    fn each_class_has_a_word_of_its_own() {
        let all = [
            Verdict::Reproduced,
            Verdict::ReproducedUnderReading,
            Verdict::MissedWithCause,
            Verdict::Missed,
            Verdict::NotJudged,
            Verdict::Reported,
        ];
        let words: std::collections::BTreeSet<_> = all.map(Verdict::as_str).into_iter().collect();
        assert_eq!(words.len(), all.len());
    }

    #[test]
    fn a_row_says_its_reading_and_its_cause() {
        let mut check = Check::new("goodput", "1", "0.7".into(), "0.9 to 1.1".into());
        assert_eq!(check.describe(), "goodput");
        check.reading = Some("1 us a link".into());
        check.cause = Some("decoding".into());
        assert_eq!(check.describe(), "goodput [reading: 1 us a link] [cause: decoding]");
    }
}
