//! The report as one page of HTML.

use anyhow::Result;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use wellspring_figures::{Check, Verdict, learnt};

use super::papers::{PAPERS, SHIPPED_VALUES, counts, is_of, meaning, question};
use super::{palette, plot};
use crate::reproduce::record::Record;

const STYLE: &str = include_str!("page.css");

/// The page.
///
/// # Errors
/// A plot cannot be drawn.
pub fn page(records: &[Record]) -> Result<String> {
    let mut figures = Vec::new();
    for record in records {
        figures.push(figure(record)?);
    }
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "Wellspring: the papers' figures" }
                style { (PreEscaped(STYLE)) (PreEscaped(palette::style())) }
            }
            body {
                header {
                    h1 { "The papers' figures, reproduced" }
                    p {
                        "Each row is a claim of a paper: ours beside the paper's, the range that counts as "
                        "reproduced, and a verdict. A verdict belongs to the paper's own configuration. "
                        "Runs are deterministic: the command of a figure gives the same numbers on every machine, "
                        "except where real traffic is measured."
                    }
                    p { (SHIPPED_VALUES) }
                    (tally(records))
                    nav { @for (family, name, _) in PAPERS {
                        @if let Some(first) = records.iter().find(|record| is_of(record, family)) {
                            a href=(format!("#{}", first.figure)) { (name) } " "
                        }
                    } }
                }
                main {
                    h2 id="verdicts" { "All verdicts" }
                    (summary(records))
                    @for (family, _, title) in PAPERS {
                        @if records.iter().any(|record| is_of(record, family)) {
                            h2 { (title) }
                            @for (record, figure) in records.iter().zip(&figures) {
                                @if is_of(record, family) { (figure) }
                            }
                        }
                    }
                }
            }
        }
    };
    Ok(page.into_string())
}

fn tally(records: &[Record]) -> Markup {
    html! {
        dl class="tally" { @for (verdict, count) in counts(records) {
            div { dt { (count) " " (chip(verdict)) } dd { (meaning(verdict)) } }
        } }
    }
}

fn chip(verdict: Verdict) -> Markup {
    let class = match verdict {
        Verdict::Reproduced => "good",
        Verdict::ReproducedUnderReading => "fair",
        Verdict::MissedWithCause => "cause",
        Verdict::Missed => "bad",
        Verdict::NotJudged | Verdict::Reported => "open",
    };
    html! { span class=(format!("chip {class}")) { (verdict.as_str()) } }
}

/// The first table: every claim.
fn summary(records: &[Record]) -> Markup {
    html! {
        div class="wide" { table class="rows" {
            thead { tr {
                @for head in ["figure", "what", "ours", "shipped values", "paper", "range", "verdict",
                    "sessions", "seeds", "time", "commit"] { th { (head) } }
            } }
            tbody { @for record in records { @for check in record.claims() {
                tr {
                    td class="short" data-label="figure" { a href=(format!("#{}", record.figure)) { (record.figure) } }
                    (cells(check))
                    td data-label="sessions" { (record.sessions()) }
                    td data-label="seeds" { (record.seeds.len().max(1)) }
                    td class="short" data-label="time" { (record.time()) }
                    td data-label="commit" { (record.made_of(|made| &made.commit)) }
                }
            } } }
        } }
    }
}

fn cells(check: &Check) -> Markup {
    html! {
        td data-label="what" {
            (check.what)
            @if let Some(reading) = &check.reading { span class="aside" { "reading: " (reading) } }
            @if let Some(cause) = &check.cause { span class="aside" { "cause: " (cause) } }
        }
        td data-label="ours" { (check.ours) }
        td data-label="shipped values" { (check.shipped.as_deref().unwrap_or("")) }
        td data-label="paper" { (check.paper) }
        td data-label="range" { (check.tolerance) }
        td data-label="verdict" { (chip(check.verdict)) }
    }
}

fn figure(record: &Record) -> Result<Markup> {
    let mut plots = Vec::new();
    for plot in &record.plots {
        plots.push(plot::svg(plot)?);
    }
    Ok(html! {
        section id=(record.figure) {
            h3 { (record.figure) ": " (record.title) }
            @if let Some(of) = question(&record.figure) {
                p { strong { "Question. " } (of.question) }
                p { strong { "Set-up. " } (of.set_up) }
            }
            @if !plots.is_empty() {
                div class="plots" { @for plot in &plots { figure { (PreEscaped(plot)) } } }
            }
            p { (learnt(&record.figure)) }
            pre { code { (record.command) } }
            p class="made" {
                "Commit " (record.made_of(|made| &made.commit)) "; "
                (record.made_of(|made| &made.machine)) "; " (record.made_of(|made| &made.date)) "; "
                (record.time()) "; seeds "
                (record.seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", "))
            }
            @if let Some(larger) = record.larger() { p { (larger) } }
            details {
                summary { "All " (record.checks.len()) " rows" }
                div class="wide" { table class="rows" {
                    thead { tr {
                        @for head in ["what", "ours", "shipped values", "paper", "range", "verdict"] {
                            th { (head) }
                        }
                    } }
                    tbody { @for check in &record.checks { tr { (cells(check)) } } }
                } }
            }
        }
    })
}
