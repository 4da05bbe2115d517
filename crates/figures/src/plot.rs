//! Plots of a figure, as data: what a report draws.

use super::cases::Cases;
use serde::{Deserialize, Serialize};
use wellspring_experiments::results::RunRow;
use wellspring_experiments::stats::{MeanOfRuns, RANKS, mean};

/// One plot: curves over the same axes.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Plot {
    /// What it shows.
    pub title: String,
    /// The axis of what was varied.
    pub x: Axis,
    /// The axis of what was measured.
    pub y: Axis,
    /// What stands at x = 0, 1, 2, ... instead of numbers; none for a numeric axis.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub categories: Vec<String>,
    /// The curves, in the order of the legend.
    pub curves: Vec<Curve>,
}

/// An axis.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Axis {
    /// Its quantity and unit.
    pub label: String,
    /// Whether it is logarithmic.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub log: bool,
}

/// How a curve is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// Points joined by lines.
    Line,
    /// A time series or a distribution of many points: lines without marks.
    Curve,
    /// A bar from 0 for each point.
    Bars,
    /// Marks alone.
    Points,
}

/// Where a curve is from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// Our run of the paper's configuration, or of its baseline.
    Ours,
    /// Our run of what is shipped.
    Shipped,
    /// Stated by the paper.
    Paper,
    /// A formula, or another implementation's result.
    Reference,
}

/// A named row of points.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Curve {
    /// Its name in the legend.
    pub name: String,
    /// How it is drawn.
    pub shape: Shape,
    /// Where it is from.
    pub source: Source,
    /// (x, y, half of y's 95 % confidence interval, 0 if there is none).
    pub points: Vec<[f64; 3]>,
}

/// Our run of the paper's configuration: points joined by lines.
pub const LINE: (Source, Shape) = (Source::Ours, Shape::Line);
/// ... many points.
pub const CURVE: (Source, Shape) = (Source::Ours, Shape::Curve);
/// ... bars.
pub const BARS: (Source, Shape) = (Source::Ours, Shape::Bars);
/// What is shipped: points joined by lines.
pub const SHIPPED: (Source, Shape) = (Source::Shipped, Shape::Line);
/// ... bars.
pub const SHIPPED_BARS: (Source, Shape) = (Source::Shipped, Shape::Bars);
/// A formula or another implementation.
pub const REFERENCE: (Source, Shape) = (Source::Reference, Shape::Line);

impl Plot {
    /// A plot without curves; a quantity ends with its unit in brackets.
    pub fn new(title: impl Into<String>, x: &str, y: &str) -> Plot {
        let axis = |label: &str| Axis { label: label.to_owned(), log: false };
        Plot { title: title.into(), x: axis(x), y: axis(y), ..Plot::default() }
    }

    /// A plot over categories, without curves.
    pub fn over<T: ToString>(title: impl Into<String>, x: &str, y: &str, categories: &[T]) -> Plot {
        let categories = categories.iter().map(ToString::to_string).collect();
        Plot { categories, ..Plot::new(title, x, y) }
    }

    /// With a logarithmic y axis: points at 0 or below are left out.
    #[must_use]
    pub fn log_y(mut self) -> Plot {
        self.y.log = true;
        self
    }

    /// With a logarithmic x axis.
    #[must_use]
    pub fn log_x(mut self) -> Plot {
        self.x.log = true;
        self
    }

    /// With one more curve. What is not a number has no point.
    #[must_use]
    pub fn curve(
        mut self,
        name: impl Into<String>,
        (source, shape): (Source, Shape),
        points: impl IntoIterator<Item = [f64; 3]>,
    ) -> Plot {
        let points = points.into_iter().filter(|point| point.iter().all(|part| part.is_finite()));
        let points = points.map(|point| point.map(rounded)).collect();
        self.curves.push(Curve { name: name.into(), shape, source, points });
        self
    }

    /// With values that the paper states.
    #[must_use]
    pub fn paper(self, points: impl IntoIterator<Item = (f64, f64)>) -> Plot {
        let points = points.into_iter().map(|(x, y)| [x, y, 0.0]);
        self.curve("paper", (Source::Paper, Shape::Points), points)
    }
}

/// A quantity of a run.
pub type Column = fn(&RunRow) -> Option<f64>;

/// Points without intervals.
pub fn plain<X: Into<f64>>(
    points: impl IntoIterator<Item = (X, f64)>,
) -> impl Iterator<Item = [f64; 3]> {
    points.into_iter().map(|(x, y)| [x.into(), y, 0.0])
}

/// A value at x: mean over a case's seeds, and half of its confidence interval.
pub fn sample<V: Into<Option<f64>>>(
    cases: &Cases,
    label: &str,
    x: f64,
    column: impl Fn(&RunRow) -> V,
) -> [f64; 3] {
    let rows = cases.get(label).map(Vec::as_slice).unwrap_or_default();
    let over = MeanOfRuns::new(rows.iter().map(column));
    [x, over.mean, over.half]
}

/// Goodput by rank of sessions, worst first, the mean over a case's seeds at each rank \[%, Gbit/s\].
/// Of rows that were read from a table without their distribution, the four quantiles that it has.
pub fn by_rank(cases: &Cases, label: &str) -> Vec<[f64; 3]> {
    let rows = cases.get(label).map(Vec::as_slice).unwrap_or_default();
    let whole = rows.iter().all(|row| row.goodputs.len() == RANKS + 1);
    if whole && !rows.is_empty() {
        let at = |rank: usize| {
            let values: Vec<f64> = rows.iter().map(|row| row.goodputs[rank]).collect();
            [rank as f64 * 100.0 / RANKS as f64, mean(&values), 0.0]
        };
        return (0..=RANKS).map(at).collect();
    }
    let columns: [(f64, Column); 4] = [
        (5.0, |row| row.goodput_p5),
        (25.0, |row| row.goodput_p25),
        (50.0, |row| row.goodput_p50),
        (75.0, |row| row.goodput_p75),
    ];
    columns.into_iter().map(|(rank, column)| sample(cases, label, rank, column)).collect()
}

/// A plot of goodput by rank for cases and their names.
pub fn ranks(title: impl Into<String>, cases: &Cases, named: &[(&str, &str)]) -> Plot {
    let plot = Plot::new(title, "rank of session, worst first [%]", "goodput [Gbit/s]");
    named.iter().fold(plot, |plot, (label, name)| plot.curve(*name, LINE, by_rank(cases, label)))
}

/// Six significant digits, which is more than a plot shows.
fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let scale = 10f64.powi(5 - value.abs().log10().floor() as i32);
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_rounded_to_what_a_plot_shows() {
        assert_eq!(rounded(0.123_456_789), 0.123_457);
        assert_eq!(rounded(-123_456_789.0), -123_457_000.0);
        assert_eq!(rounded(0.0), 0.0);
        let plot = Plot::new("t", "x", "y").paper([(1.0, 0.1 + 0.2)]);
        assert_eq!(plot.curves[0].points, [[1.0, 0.3, 0.0]]);
    }

    #[test]
    fn a_rank_curve_is_the_distribution_where_rows_hold_it() {
        let row = |seed: f64| RunRow {
            goodput_p5: Some(seed),
            goodputs: (0..=RANKS).map(|rank| rank as f64 + seed).collect(),
            ..RunRow::default()
        };
        let cases = Cases::from([("a".to_owned(), vec![row(1.0), row(3.0)])]);
        let curve = by_rank(&cases, "a");
        assert_eq!(
            (curve.len(), curve[0], curve[RANKS]),
            (51, [0.0, 2.0, 0.0], [100.0, 52.0, 0.0])
        );
        let bare = RunRow { goodputs: Vec::new(), ..row(1.0) };
        let cases = Cases::from([("a".to_owned(), vec![row(3.0), bare])]);
        let curve = by_rank(&cases, "a");
        assert_eq!((curve.len(), curve[0][0], curve[0][1]), (4, 5.0, 2.0));
    }
}
