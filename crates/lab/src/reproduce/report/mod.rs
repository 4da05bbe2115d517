//! Reports of reproduced figures: one page of HTML that needs nothing else, and Markdown.

mod html;
mod markdown;
mod palette;
mod papers;
mod plot;

use std::fs;
use std::path::Path;

use super::record::Record;
use super::whole_file::save;
use anyhow::{Context, Result};
use papers::{OPEN, PAPERS, file};
use wellspring_figures::QUESTIONS;
use wellspring_figures::plot::Plot;

/// Writes `index.html` and, with the plots beside it, `report.md`.
///
/// # Errors
/// Those of the files, or a plot cannot be drawn.
pub fn write(records: &[Record], folder: &Path) -> Result<()> {
    save(folder, "index.html", &html::page(records)?)?;
    save(folder, "report.md", &markdown::whole(records, "plots"))?;
    write_plots(records, &folder.join("plots"))
}

/// Writes the pages of the book, `results.md` and one for each paper and each open question, and their plots.
///
/// # Errors
/// Those of the files, or a plot cannot be drawn.
pub fn write_book(records: &[Record], folder: &Path) -> Result<()> {
    let plots = folder.join("img/results");
    if plots.is_dir() {
        fs::remove_dir_all(&plots).with_context(|| plots.display().to_string())?;
    }
    save(folder, "results.md", &markdown::summary(records))?;
    for (family, _, title) in PAPERS {
        let page = match family {
            OPEN => markdown::questions(title, records),
            _ => markdown::paper(title, &format!("{family}-"), records, "img/results"),
        };
        save(folder, &format!("results-{family}.md"), &page)?;
    }
    for of in QUESTIONS {
        let page = markdown::answer(of, records, "img/results");
        save(folder, &markdown::page_of(of.figure), &page)?;
    }
    write_plots(records, &plots)
}

fn write_plots(records: &[Record], folder: &Path) -> Result<()> {
    for record in records {
        for (number, plot) in record.plots.iter().enumerate() {
            write_plot(plot, folder, &file(record, number))?;
        }
    }
    Ok(())
}

/// A plot as a file of its own, which has both themes in it.
///
/// # Errors
/// Those of the file, or the plot cannot be drawn.
pub fn write_plot(plot: &Plot, folder: &Path, name: &str) -> Result<()> {
    let svg = plot::svg(plot)?;
    let (head, rest) = svg.split_once('>').unwrap_or_default();
    save(folder, name, &format!("{head}><style>{}</style>{rest}", palette::style()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use wellspring_experiments::sweep::Output;
    use wellspring_figures::plot::{BARS, LINE, SHIPPED, plain};
    use wellspring_figures::{FIGURES, Lab, Scale};

    use super::*;

    /// A record of each figure, as a run would leave it.
    fn records() -> Vec<Record> {
        let of = |figure| {
            let mut lab = Lab::new(Scale::default(), Output::default(), &|_, _, _| {});
            lab.number("goodput < 1 & \"more\" | [Gbit/s]", "0.9", 0.95, 0.9..=1.0);
            lab.shipped("0.97".to_owned());
            lab.reading("1 us a link", "share", "0.5", 0.1, 0.4..=0.6);
            lab.note("printed", "-", "7".to_owned());
            let points = [(4, 0.91), (16, 0.95), (70, 0.2)];
            lab.plot(
                Plot::new("Incast of 70 KB <a> & b", "senders", "goodput [Gbit/s]")
                    .curve("SCDP", LINE, points.map(|(x, y)| [f64::from(x), y, 0.05]))
                    .curve("SCDP as shipped", SHIPPED, plain(points))
                    .paper([(70.0, 0.9)]),
            );
            lab.plot(Plot::over("Background", "", "goodput", &["SCDP", "NDP"]).log_y().curve(
                "ours",
                BARS,
                [[0.0, 0.4, 0.01], [1.0, 0.0, 0.0]],
            ));
            let command = format!("wellspring-lab reproduce {}", "x");
            Record::new(figure, &lab, command, Duration::from_secs(90), None).unwrap()
        };
        FIGURES.iter().map(of).collect()
    }

    /// A page parsed as XML, but for the elements that HTML does not close.
    fn parsed(html: &str) -> String {
        let body = html.replace("<!DOCTYPE html>", "");
        let mut text = String::new();
        for part in body.split_inclusive('>') {
            match part.rfind("<meta ") {
                Some(start) => text.push_str(&part[..start]),
                None => text.push_str(part),
            }
        }
        text
    }

    #[test]
    fn the_page_is_whole_and_needs_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let records = records();
        write(&records, folder.path()).unwrap();
        let html = fs::read_to_string(folder.path().join("index.html")).unwrap();
        let text = parsed(&html);
        let page = roxmltree::Document::parse(&text).unwrap();
        let ids: Vec<&str> = page.descendants().filter_map(|node| node.attribute("id")).collect();
        for figure in FIGURES {
            assert!(ids.contains(&figure.name), "{}", figure.name);
        }
        let plots = page.descendants().filter(|node| node.attribute("role") == Some("img"));
        let labels: Vec<_> = plots.map(|node| node.attribute("aria-label").unwrap()).collect();
        assert_eq!(labels.len(), 2 * FIGURES.len());
        assert!(labels[0].contains("0.95 at 16"), "{}", labels[0]);
        for node in page.descendants() {
            for name in ["src", "href", "xlink:href", "data"] {
                let target = node.attribute(name).unwrap_or("#");
                assert!(target.starts_with('#'), "{name} of {:?}: {target}", node.tag_name());
            }
        }
        for outside in ["url(", "@import", "<script", "<link"] {
            assert!(!html.contains(outside), "{outside}");
        }
        assert!(html.contains("1 us a link") && html.contains("0.97"));
    }

    #[test]
    fn the_markdown_names_every_figure_and_every_plot_is_a_file() {
        let folder = tempfile::tempdir().unwrap();
        write(&records(), folder.path()).unwrap();
        let text = fs::read_to_string(folder.path().join("report.md")).unwrap();
        for figure in FIGURES {
            assert!(text.contains(&format!("## {}", figure.name)), "{}", figure.name);
        }
        let mut links = 0;
        for part in text.split("](").skip(1) {
            let target = part.split(')').next().unwrap();
            if target.starts_with("plots/") {
                let svg = fs::read_to_string(folder.path().join(target)).unwrap();
                roxmltree::Document::parse(&svg).unwrap();
                links += 1;
            }
        }
        assert_eq!(links, 2 * FIGURES.len());
        // A bar within a cell would end it.
        assert!(text.contains("\\|"));
    }

    #[test]
    fn the_books_pages_are_those_of_the_papers() {
        let folder = tempfile::tempdir().unwrap();
        write_book(&records(), folder.path()).unwrap();
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(read("results.md").contains("[SCDP](results-scdp.md)"));
        let (scdp, lttp) = (read("results-scdp.md"), read("results-lttp.md"));
        assert!(scdp.contains("img/results/scdp-5-1.svg") && !scdp.contains("lttp-5"));
        assert!(lttp.contains("## lttp-5"));
        let (all, one) = (read("results-open.md"), read("results-open-rates.md"));
        assert!(all.contains("(results-open-rates.md)") && !all.contains("not run yet"));
        for part in ["**Question.**", "**Set-up.**", "img/results/open-rates-1.svg", "**Answer.**"]
        {
            assert!(one.contains(part), "{part}");
        }
        assert!(folder.path().join("img/results/lttp-5-2.svg").is_file());
        let one: Vec<Record> = records().into_iter().filter(|r| r.figure == "lttp-5").collect();
        write_book(&one, folder.path()).unwrap();
        let lttp = read("results-lttp.md");
        assert!(lttp.contains("## lttp-6") && !lttp.contains("img/results/lttp-6"));
        assert!(!folder.path().join("img/results/lttp-6-1.svg").exists(), "a plot of no record");
        assert!(read("results-open.md").contains("not run yet"));
        assert!(!read("results-open-rates.md").contains("**Answer.**"));
    }

    #[test]
    fn the_book_in_the_tree_is_drawn_from_the_records_in_the_tree() {
        let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let read = |figure: &wellspring_figures::Figure| {
            Record::read(&tree.join("results"), figure.name).unwrap()
        };
        let records: Vec<Record> = FIGURES.iter().filter_map(read).collect();
        let folder = tempfile::tempdir().unwrap();
        write_book(&records, folder.path()).unwrap();
        let files = |folder: &Path| {
            let all = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
            all.filter(|path| path.is_file()).collect::<Vec<_>>()
        };
        let book = tree.join("docs/src");
        let mut drawn = files(folder.path());
        drawn.extend(files(&folder.path().join("img/results")));
        for path in &drawn {
            let name = path.strip_prefix(folder.path()).unwrap();
            let there = fs::read_to_string(book.join(name)).unwrap_or_default();
            let now = fs::read_to_string(path).unwrap();
            assert!(there == now, "{} is not drawn from results/: `make report`", name.display());
        }
        let plots = |folder: &Path| files(&folder.join("img/results")).len();
        assert_eq!(plots(&book), plots(folder.path()), "plots of no record");
    }

    #[test]
    fn a_quick_figure_says_what_larger_runs_gave() {
        let quick = |figure: &str| {
            let record = records().into_iter().find(|record| record.figure == figure).unwrap();
            Record { command: format!("wellspring-lab reproduce {figure} --quick"), ..record }
        };
        let (known, unknown) = (quick("polyraptor-1a"), quick("scdp-abstract"));
        assert!(known.larger().unwrap().contains("0.039"));
        assert!(unknown.larger().unwrap().contains("no larger ones"));
        assert_eq!(records()[0].larger(), None, "of the paper's size");
        let known = std::slice::from_ref(&known);
        for text in [markdown::whole(known, "plots"), html::page(known).unwrap()] {
            assert!(text.contains("bench/record/2026-11-25-figures.md): 10,000 writes"), "{text}");
        }
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        for record in records() {
            record.write(folder.path()).unwrap();
            assert_eq!(Record::read(folder.path(), &record.figure).unwrap(), Some(record));
        }
        assert_eq!(Record::read(folder.path(), "scdp-99").unwrap(), None);
        fs::write(folder.path().join("scdp-5.json"), "{").unwrap();
        assert!(Record::read(folder.path(), "scdp-5").is_err());
    }

    /// A disk may be full: what cuts the new record off would have cut what is read here.
    #[test]
    fn the_old_record_stays_until_the_new_one_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let record = &records()[0];
        record.write(folder.path()).unwrap();
        let path = folder.path().join(format!("{}.json", record.figure));
        let mut old = fs::File::open(&path).unwrap();
        let new = Record { command: "another".to_owned(), ..record.clone() };
        new.write(folder.path()).unwrap();
        let mut text = String::new();
        std::io::Read::read_to_string(&mut old, &mut text).unwrap();
        assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), *record);
        assert_eq!(Record::read(folder.path(), &record.figure).unwrap(), Some(new));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    /// The paper's claims in the book's table of earlier results: reproduced, of these under a reading, missed, not judged.
    fn earlier(book: &str) -> [usize; 4] {
        let (_, table) = book.split_once("## Earlier results").unwrap();
        let table = table.split("\n## ").next().unwrap();
        let rows = table.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
        let verdicts = rows.map(|row| row.rsplit(" | ").next().unwrap());
        let all: Vec<&str> =
            verdicts.filter(|of| *of != "verdict").flat_map(|of| of.split("; ")).collect();
        let count = |start: &str| all.iter().filter(|of| of.starts_with(start)).count();
        let [reproduced, missed, not_judged] = ["reproduced", "missed", "not judged"].map(count);
        assert_eq!(reproduced + missed + not_judged, all.len(), "{all:?}");
        [reproduced, count("reproduced (reading)"), missed, not_judged]
    }

    #[test]
    fn the_sums_that_are_told_are_those_of_the_records_and_of_the_earlier_results() {
        let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let read = |figure: &wellspring_figures::Figure| {
            Record::read(&tree.join("results"), figure.name).unwrap()
        };
        let records: Vec<Record> = FIGURES.iter().filter_map(read).collect();
        let of = papers::counts(&records);
        let [plain, reading, caused, missed, open]: [usize; 5] =
            of.iter().map(|(_, count)| *count).collect::<Vec<_>>().try_into().unwrap();
        let all = plain + reading + caused + missed + open;
        let (reproduced, missed) = (plain + reading, caused + missed);
        let words = |name: &str| {
            let text = fs::read_to_string(tree.join(name)).unwrap();
            text.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let book = fs::read_to_string(tree.join("docs/src/figures.md")).unwrap();
        let [before, read, lost, left] = earlier(&book);
        for told in [
            format!(
                "Of {all} rows {reproduced} are reproduced ({reading} under a reading that is stated) and {missed} missed; \
                 {open} are of quick runs, which are too small to judge."
            ),
            format!(
                "reproduced {before} of their claims ({read} under a reading) and missed {lost}; {left} are not judged"
            ),
        ] {
            for name in ["README.md", "docs/src/figures.md"] {
                assert!(words(name).contains(&told), "{name} does not say: {told}");
            }
        }
    }
}
