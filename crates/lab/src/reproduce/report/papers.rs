//! Verdicts counted and explained, papers, and names of plots' files.

use wellspring_figures::{QUESTIONS, Question, Verdict};

use crate::reproduce::record::Record;

/// Verdicts in the order of a summary.
const VERDICTS: [Verdict; 5] = [
    Verdict::Reproduced,
    Verdict::ReproducedUnderReading,
    Verdict::MissedWithCause,
    Verdict::Missed,
    Verdict::NotJudged,
];

/// Papers by the start of their figures' names, and the questions that they left open.
pub const PAPERS: [(&str, &str, &str); 5] = [
    ("scdp", "SCDP", "SCDP, IEEE/ACM Transactions on Networking"),
    ("polyraptor", "Polyraptor", "Polyraptor, SIGCOMM 2018 posters"),
    ("lttp", "LTTP", "LTTP, IEEE JSAC 2014"),
    ("maelstrom", "Maelstrom", "Maelstrom, NSDI 2008"),
    (OPEN, "open questions", "Questions that the papers left open"),
];

/// What the column of shipped values is, and is not.
pub const SHIPPED_VALUES: &str = "\"Shipped values\" (in plots \"as shipped\") is the same quantity with what Wellspring ships \
for switches that trim (--fabric trimming): timers, runs of credits, open blocks, detachment and the speed of our codec, where \
groups are not trimmed and trims are of 128 bytes; of LTTP, its elimination decoder. It is not what runs by default: over UDP \
switches count as shared with other traffic, with Veno for congestion control, keys and blocks of 128 KiB.";

/// The start of the questions' names.
pub const OPEN: &str = "open";

/// The file of a plot.
pub fn file(record: &Record, number: usize) -> String {
    format!("{}-{}.svg", record.figure, number + 1)
}

/// The question that a figure answers, if it is none of a paper's.
pub fn question(figure: &str) -> Option<&'static Question> {
    QUESTIONS.iter().find(|question| question.figure == figure)
}

pub fn is_of(record: &Record, family: &str) -> bool {
    record.figure.split_once('-').is_some_and(|(start, _)| start == family)
}

/// How many rows have each verdict.
pub fn counts(records: &[Record]) -> Vec<(Verdict, usize)> {
    let of =
        |verdict| records.iter().flat_map(Record::claims).filter(move |c| c.verdict == verdict);
    VERDICTS.into_iter().map(|verdict| (verdict, of(verdict).count())).collect()
}

/// What a verdict means.
pub fn meaning(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Reproduced => "within the range, in the paper's own configuration",
        Verdict::ReproducedUnderReading => {
            "within it, under a reading of what the paper leaves open; the row states the reading"
        }
        Verdict::MissedWithCause => "not within it, and an experiment of the same run shows why",
        Verdict::Missed => "not within it",
        Verdict::NotJudged => "the runs are too small: fewer sessions or seeds than the paper's",
        Verdict::Reported => "no claim of the paper's",
    }
}
