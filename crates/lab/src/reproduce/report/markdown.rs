//! The report as Markdown, for the book and for who reads text.

use std::fmt::Write as _;

use wellspring_figures::{Check, FIGURES, QUESTIONS, Question, learnt};

use super::papers::{PAPERS, SHIPPED_VALUES, counts, file, is_of, meaning, question};
use super::plot;
use crate::reproduce::record::Record;

/// What the rows are.
fn about() -> String {
    format!(
        "Each row is a claim of a paper: ours beside the paper's, the range that counts as reproduced, and a verdict. A verdict \
         belongs to the paper's own configuration. Runs are deterministic: the command of a figure gives the same numbers on \
         every machine, except where real traffic is measured.\n\n{SHIPPED_VALUES}"
    )
}

/// The whole report as one file.
pub fn whole(records: &[Record], plots: &str) -> String {
    let mut text =
        format!("# The papers' figures, reproduced\n\n{}\n\n{}", about(), tally(records));
    let _ = write!(text, "\n{}", all(records));
    for (family, _, _) in PAPERS {
        for record in records.iter().filter(|record| is_of(record, family)) {
            let _ = write!(text, "\n{}", figure(record, plots));
        }
    }
    text
}

/// The book's page with all verdicts.
pub fn summary(records: &[Record]) -> String {
    let links = PAPERS.map(|(family, name, _)| format!("[{name}](results-{family}.md)"));
    format!(
        "{GENERATED}# Results\n\n{}\n\nEach figure's plots, what was learnt and its command are on a \
         page for each paper, with an experiment for each of the questions that they left open: {}. {QUICK}\n\n{}\n{}",
        about(),
        links.join(", "),
        tally(records),
        all(records)
    )
}

/// What rows without a verdict are worth.
const QUICK: &str = "Numbers of rows that are not judged are of quick runs, and can be far from those at the \
paper's size: the pages and [earlier results](figures.md#earlier-results) have these.";

/// Stands at the head of pages in the tree.
const GENERATED: &str =
    "<!-- Made by `make report` from the records in `results/`; not to be edited. -->\n\n";

/// The book's page about a paper's figures, those whose names begin with `family`.
pub fn paper(title: &str, family: &str, records: &[Record], plots: &str) -> String {
    let mut text = format!(
        "{GENERATED}# {title}\n\nVerdicts of all papers, and what they mean, are on [one page](results.md).\n"
    );
    let has_text =
        |name: &str| !learnt(name).is_empty() || records.iter().any(|r| r.figure == name);
    for of in FIGURES.iter().filter(|of| of.name.starts_with(family) && has_text(of.name)) {
        let _ = match records.iter().find(|record| record.figure == of.name) {
            Some(record) => write!(text, "\n{}", figure(record, plots)),
            None => write!(
                text,
                "\n## {}: {}\n\n{}\n\nThere is no record of a full-size run yet: `wellspring-lab \
                 reproduce {} --records results` makes it.\n",
                of.name,
                of.title,
                learnt(of.name),
                of.name
            ),
        };
    }
    text
}

/// The book's page with all questions, and their answers.
pub fn questions(title: &str, records: &[Record]) -> String {
    let mut text = format!(
        "{GENERATED}# {title}\n\nEach question has a page with its set-up, its plots and its rows. Runs are small \
         enough for minutes; they are means over the seeds that a page names, and of no paper's configuration, so they \
         have no verdict.\n\n| question | answer |\n|---|---|\n"
    );
    for of in QUESTIONS {
        let is_run = records.iter().any(|record| record.figure == of.figure);
        let answer = if is_run { learnt(of.figure) } else { "not run yet" };
        let _ = writeln!(
            text,
            "| [{}]({}) {} | {} |",
            title_of(of.figure),
            page_of(of.figure),
            cell(of.question),
            cell(answer)
        );
    }
    text
}

/// The file of a question's page in the book.
pub fn page_of(figure: &str) -> String {
    format!("results-{figure}.md")
}

fn title_of(figure: &str) -> String {
    let title = FIGURES.iter().find(|of| of.name == figure).map_or(figure, |of| of.title);
    let mut letters = title.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// The book's page about one question.
pub fn answer(of: &Question, records: &[Record], plots: &str) -> String {
    let mut text = format!("{GENERATED}# {}\n\n", title_of(of.figure));
    match records.iter().find(|record| record.figure == of.figure) {
        Some(record) => text.push_str(&experiment(of, record, plots)),
        None => {
            let _ = writeln!(
                text,
                "{}\n\nThere is no record yet: `wellspring-lab reproduce {} --records results` makes it.",
                asked(of),
                of.figure
            );
        }
    }
    text
}

fn asked(of: &Question) -> String {
    let scenario = format!("`wellspring-lab sim show {}`", of.figure);
    format!(
        "**Question.** {}\n\n**Set-up.** {}\n\nThe scenario: {scenario}.",
        of.question, of.set_up
    )
}

/// Question, set-up, plots, answer and rows, without a heading.
fn experiment(of: &Question, record: &Record, plots: &str) -> String {
    let mut text = format!("{}\n\n{}", asked(of), images(record, plots));
    let _ = writeln!(text, "**Answer.** {}\n\n{}", learnt(&record.figure), made(record));
    text.push_str("| what | measured |\n|---|---|\n");
    for check in &record.checks {
        let _ = writeln!(text, "| {} | {} |", cell(&check.describe()), cell(&check.ours));
    }
    text
}

fn tally(records: &[Record]) -> String {
    let mut text = String::from("| verdict | rows | meaning |\n|---|---|---|\n");
    for (verdict, count) in counts(records) {
        let _ = writeln!(text, "| {} | {count} | {} |", verdict.as_str(), meaning(verdict));
    }
    text
}

fn all(records: &[Record]) -> String {
    let mut text = String::from(
        "| figure | what | ours | shipped values | paper | range | verdict | sessions | seeds | time | \
         commit |\n|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for record in records {
        for check in record.claims() {
            let _ = writeln!(
                text,
                "| {} | {} {} | {} | {} | {} |",
                record.figure,
                cells(check),
                cell(&record.sessions()),
                record.seeds.len().max(1),
                record.time(),
                cell(&record.made_of(|made| &made.commit)),
            );
        }
    }
    text
}

/// What, ours, with shipped values, the paper's, range and verdict, each but the last with its bar.
fn cells(check: &Check) -> String {
    let shipped = check.shipped.as_deref().unwrap_or("");
    let values = [&check.describe(), &check.ours, shipped, &check.paper, &check.tolerance];
    let values = values.map(cell).join(" | ");
    format!("{values} | {} |", check.verdict.as_str())
}

/// Text that does not end a cell or begin an element.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}

/// Its plots, as links to their files.
fn images(record: &Record, plots: &str) -> String {
    let mut text = String::new();
    for (number, one) in record.plots.iter().enumerate() {
        let alt = plot::words(one).replace(['[', ']'], "").replace('<', "&lt;");
        let _ = writeln!(text, "![{alt}]({plots}/{})\n", file(record, number));
    }
    text
}

/// The command, and where and when it was run.
fn made(record: &Record) -> String {
    format!(
        "```sh\n{}\n```\n\nCommit {}; {}; {}; {}; seeds: {}.\n\n",
        record.command,
        record.made_of(|made| &made.commit),
        record.made_of(|made| &made.machine),
        record.made_of(|made| &made.date),
        record.time(),
        record.seeds.len().max(1)
    )
}

fn figure(record: &Record, plots: &str) -> String {
    let mut text = format!("## {}: {}\n\n", record.figure, record.title);
    if let Some(of) = question(&record.figure) {
        text.push_str(&experiment(of, record, plots));
        return text;
    }
    text.push_str(&images(record, plots));
    let _ = write!(text, "{}\n\n{}", learnt(&record.figure), made(record));
    if let Some(larger) = record.larger() {
        let _ = writeln!(text, "{}\n", cell(&larger));
    }
    text.push_str(
        "| what | ours | shipped values | paper | range | verdict |\n|---|---|---|---|---|---|\n",
    );
    for check in &record.checks {
        let _ = writeln!(text, "| {}", cells(check));
    }
    text
}
