//! Plots as SVG, drawn by `plotters`.
//!
//! Colours are those of the light theme; a style sheet that selects elements by these colours gives
//! the dark theme's (`style.rs`).

use std::fmt::Write as _;
use std::ops::Range;

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use wellspring_figures::plot::{Axis, Curve, Plot, Shape, Source};

use super::palette::{BACKGROUND, GRID, INK, MUTED, colour};

/// The drawing's size; it is scaled to where it is shown.
const SIZE: (u32, u32) = (900, 600);
const FONT: &str = "sans-serif";
/// Size of text, and of a title.
const TEXT: f64 = 29.0;
const TITLE: f64 = 33.0;
/// Mean width of a character, for a text of size 1.
const CHARACTER: f64 = 0.43;
/// Line widths; the style sheet dashes the latter two.
const SOLID: u32 = 4;
const DASHED: u32 = 5;
const DOTTED: u32 = 3;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b, X, Y> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<X, Y>>;

/// A plot as an SVG element, with its title and its values in words for who cannot see it.
///
/// # Errors
/// The plot holds nothing that can be drawn.
pub fn svg(plot: &Plot) -> Result<String> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        draw(&area, plot).map_err(|error| anyhow!("{}: {error}", plot.title))?;
        area.present().map_err(|error| anyhow!("{}: {error}", plot.title))?;
    }
    let (_, rest) = text.split_once('>').unwrap_or_default();
    let alt = escaped(&words(plot));
    Ok(format!(
        "<svg class=\"plot\" viewBox=\"0 0 {} {}\" xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" \
         aria-label=\"{alt}\">{rest}",
        SIZE.0, SIZE.1
    ))
}

/// A plot in words: its curves, with their first, middle and last values.
pub fn words(plot: &Plot) -> String {
    let mut text = format!("{}: {}", plot.title, plot.y.label);
    if !plot.x.label.is_empty() {
        let _ = write!(text, " by {}", plot.x.label);
    }
    text.push('.');
    for curve in plot.curves.iter().filter(|curve| !curve.points.is_empty()) {
        let count = curve.points.len();
        let mut places: Vec<usize> = match count {
            0..=6 => (0..count).collect(),
            _ => vec![0, count / 2, count - 1],
        };
        places.dedup();
        let values = places.into_iter().map(|place| {
            let [x, y, _] = curve.points[place];
            let at = plot.categories.get(x.max(0.0) as usize).cloned();
            format!("{} at {}", number(y), at.unwrap_or_else(|| number(x)))
        });
        let _ = write!(text, " {}: {}.", curve.name, values.collect::<Vec<_>>().join(", "));
    }
    text
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Three significant digits at most.
fn number(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if value.abs() < 1e-3 {
        return format!("{value:.1e}").replace(".0e", "e");
    }
    let digits = (2 - value.abs().log10().floor() as i32).clamp(0, 6) as usize;
    let text = format!("{value:.digits$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

fn draw(area: &Area<'_>, plot: &Plot) -> Drawn {
    area.fill(&BACKGROUND)?;
    let title = wrapped(&plot.title, (f64::from(SIZE.0 - 40) / TITLE / CHARACTER) as usize);
    for (line, words) in title.iter().enumerate() {
        let style = text(TITLE, INK, HPos::Left, VPos::Top);
        area.draw(&Text::new(words.clone(), (20, 14 + 36 * line as i32), style))?;
    }
    let rows = legend_rows(plot);
    let top = 30 + 36 * title.len() as u32;
    let bottom = 34 * rows.len() as u32 + 14;
    for (row, entries) in rows.iter().enumerate() {
        let y = (SIZE.1 - bottom) as i32 + 17 + 34 * row as i32;
        for (place, x) in entries {
            legend_entry(area, plot, *place, (*x, y))?;
        }
    }
    let inner = area.margin(top, bottom, 0, 0);
    let (x, y) = (x_range(plot), range(plot, &plot.y, 1));
    match (plot.x.log, plot.y.log) {
        (false, false) => chart(&inner, plot, x, y),
        (true, false) => chart(&inner, plot, x.log_scale(), y),
        (false, true) => chart(&inner, plot, x, y.log_scale()),
        (true, true) => chart(&inner, plot, x.log_scale(), y.log_scale()),
    }
}

fn text(size: f64, colour: RGBColor, h: HPos, v: VPos) -> TextStyle<'static> {
    let style = TextStyle::from((FONT, size).into_font()).pos(Pos::new(h, v));
    TextStyle { color: colour.to_backend_color(), ..style }
}

/// Lines of at most so many characters, broken at spaces.
fn wrapped(text: &str, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + word.chars().count() < most => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Rows of the legend: curves by place, and where their entries begin.
fn legend_rows(plot: &Plot) -> Vec<Vec<(usize, i32)>> {
    let mut rows = vec![Vec::new()];
    let mut x = 20;
    // Curves of one name look alike, and are named once.
    let named =
        |place: usize| plot.curves[..place].iter().any(|c| c.name == plot.curves[place].name);
    for (place, curve) in plot.curves.iter().enumerate() {
        if curve.points.is_empty() || named(place) {
            continue;
        }
        let width = 76 + (curve.name.chars().count() as f64 * TEXT * CHARACTER) as i32;
        if x + width > SIZE.0 as i32 && x > 20 {
            rows.push(Vec::new());
            x = 20;
        }
        if let Some(row) = rows.last_mut() {
            row.push((place, x));
        }
        x += width;
    }
    rows
}

fn legend_entry(area: &Area<'_>, plot: &Plot, place: usize, (x, y): (i32, i32)) -> Drawn {
    let curve = &plot.curves[place];
    let colour = colour(plot, place);
    match (curve.source, curve.shape) {
        (Source::Paper, _) => area.draw(&diamond((x + 20, y)))?,
        (source, Shape::Bars) => {
            let style = fill(colour, source);
            area.draw(&Rectangle::new([(x + 4, y - 11), (x + 36, y + 11)], style))?;
        }
        (source, _) => {
            let line = colour.stroke_width(width(source));
            area.draw(&PathElement::new(vec![(x, y), (x + 44, y)], line))?;
            if is_marked(curve) {
                marker(area, place, (x + 20, y), colour)?;
            }
        }
    }
    let style = text(TEXT, INK, HPos::Left, VPos::Center);
    area.draw(&Text::new(curve.name.clone(), (x + 50, y), style))
}

/// Whether a curve's points have marks: among many, these would hide the line.
fn is_marked(curve: &Curve) -> bool {
    curve.shape != Shape::Curve && curve.points.len() <= 45
}

fn width(source: Source) -> u32 {
    match source {
        Source::Shipped => DASHED,
        Source::Reference => DOTTED,
        Source::Ours | Source::Paper => SOLID,
    }
}

fn fill(colour: RGBColor, source: Source) -> ShapeStyle {
    colour.mix(if source == Source::Shipped { 0.45 } else { 1.0 }).filled()
}

fn diamond((x, y): (i32, i32)) -> Polygon<(i32, i32)> {
    Polygon::new(vec![(x, y - 12), (x + 12, y), (x, y + 12), (x - 12, y)], INK.filled())
}

/// A mark whose shape differs from curve to curve.
fn marker(area: &Area<'_>, place: usize, (x, y): (i32, i32), colour: RGBColor) -> Drawn {
    match place % 4 {
        0 => area.draw(&Circle::new((x, y), 8, colour.filled())),
        1 => area.draw(&TriangleMarker::new((x, y), 11, colour.filled())),
        2 => area.draw(&Rectangle::new([(x - 7, y - 7), (x + 7, y + 7)], colour.filled())),
        _ => area.draw(&Cross::new((x, y), 8, colour.stroke_width(4))),
    }
}

/// What an axis shows: 0 and all values, intervals included; on a logarithmic one whole decades.
fn range(plot: &Plot, axis: &Axis, place: usize) -> Range<f64> {
    let spread = |point: &[f64; 3]| {
        let half = if place == 1 { point[2] } else { 0.0 };
        [point[place] - half, point[place] + half]
    };
    let values = plot.curves.iter().flat_map(|curve| curve.points.iter().flat_map(spread));
    let values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
    let least = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if axis.log {
        let positive: Vec<f64> = values.into_iter().filter(|value| *value > 0.0).collect();
        if positive.is_empty() {
            return 0.1..1.0;
        }
        let decade = |value: f64| 10f64.powf(value);
        let (low, high) = (least(&positive).log10(), most.log10());
        // Half a decade suffices at the ends.
        return decade((low * 2.0 - 0.1).floor() / 2.0)..decade((high * 2.0 + 0.1).ceil() / 2.0);
    }
    if values.is_empty() {
        return 0.0..1.0;
    }
    let low = least(&values).min(0.0);
    let high = most.max(low + f64::MIN_POSITIVE);
    if high - low < 1e-12 { low..low + 1.0 } else { low..high + 0.06 * (high - low) }
}

fn x_range(plot: &Plot) -> Range<f64> {
    if plot.categories.is_empty() {
        range(plot, &plot.x, 0)
    } else {
        -0.5..plot.categories.len() as f64 - 0.5
    }
}

fn chart<X, Y>(area: &Area<'_>, plot: &Plot, x: X, y: Y) -> Drawn
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let is_numeric = plot.categories.is_empty();
    let below = if plot.x.label.is_empty() { 70 } else { 92 };
    let mut chart = ChartBuilder::on(area)
        .x_label_area_size(below)
        .y_label_area_size(118)
        .margin_right(26)
        .margin_left(6)
        .build_cartesian_2d(x, y)?;
    let label = |value: &f64| number(*value);
    // The y axis has space for so many characters.
    let longest = plot.y.label.chars().count().max(28) as f64;
    let quantity = TEXT * 28.0 / longest;
    let mut mesh = chart.configure_mesh();
    mesh.axis_style(MUTED)
        .bold_line_style(GRID.stroke_width(2))
        .light_line_style(TRANSPARENT)
        .label_style(text(TEXT, INK, HPos::Center, VPos::Center))
        .axis_desc_style(text(quantity, MUTED, HPos::Center, VPos::Center))
        .x_labels(if is_numeric { 7 } else { 0 })
        .y_labels(6)
        .x_label_formatter(&label)
        .y_label_formatter(&label)
        .y_desc(plot.y.label.clone())
        .x_desc(plot.x.label.clone());
    if !is_numeric {
        mesh.disable_x_mesh();
    }
    mesh.draw()?;
    let (_, plotted) = chart.plotting_area().get_pixel_range();
    for (place, category) in plot.categories.iter().enumerate() {
        let (x, _) = chart.backend_coord(&(place as f64, lowest(&chart)));
        category_label(area, category, (x, plotted.end), plot.categories.len())?;
    }
    let bars: Vec<usize> = bars(plot);
    for place in 0..plot.curves.len() {
        if let Some(slot) = bars.iter().position(|bar| *bar == place) {
            draw_bars(&mut chart, plot, place, (slot, bars.len()))?;
        } else {
            draw_curve(area, &mut chart, plot, place)?;
        }
    }
    Ok(())
}

/// The lower end of the y axis.
fn lowest<X: Ranged<ValueType = f64>, Y: Ranged<ValueType = f64>>(chart: &Chart<X, Y>) -> f64 {
    chart.y_range().start
}

/// A category under its place, in the pixels of the whole drawing.
fn category_label(area: &Area<'_>, name: &str, (x, y): (i32, i32), count: usize) -> Drawn {
    let most = (730.0 / count as f64 / TEXT / CHARACTER).max(4.0) as usize;
    let (left, top) = area.get_base_pixel();
    for (line, words) in wrapped(name, most).into_iter().take(2).enumerate() {
        let at = (x - left, y - top + 8 + 30 * line as i32);
        let style = text(TEXT, INK, HPos::Center, VPos::Top);
        area.draw(&Text::new(words, at, style))?;
    }
    Ok(())
}

/// Places of curves that are drawn as bars, side by side.
fn bars(plot: &Plot) -> Vec<usize> {
    let is_bars = |curve: &Curve| curve.shape == Shape::Bars && curve.source != Source::Paper;
    (0..plot.curves.len()).filter(|place| is_bars(&plot.curves[*place])).collect()
}

/// Whether an axis can show a value.
fn fits(axis: &Axis, value: f64) -> bool {
    value.is_finite() && (!axis.log || value > 0.0)
}

fn draw_bars<X: Ranged<ValueType = f64>, Y: Ranged<ValueType = f64>>(
    chart: &mut Chart<X, Y>,
    plot: &Plot,
    place: usize,
    (slot, slots): (usize, usize),
) -> Drawn {
    let curve = &plot.curves[place];
    let (colour, each) = (colour(plot, place), 0.8 / slots as f64);
    let range = chart.y_range();
    let foot = if plot.y.log { range.start } else { 0.0 };
    let points = curve.points.iter().filter(|point| fits(&plot.y, point[1]));
    for [x, y, half] in points {
        let left = x - 0.4 + each * slot as f64;
        let corners = [(left + each * 0.06, foot), (left + each * 0.94, *y)];
        chart.draw_series([Rectangle::new(corners, fill(colour, curve.source))])?;
        if *half > 0.0 {
            let (low, high) = ((y - half).max(range.start), (y + half).min(range.end));
            let middle = left + each / 2.0;
            let line = INK.stroke_width(3);
            chart.draw_series([PathElement::new(vec![(middle, low), (middle, high)], line)])?;
        }
    }
    Ok(())
}

fn draw_curve<X: Ranged<ValueType = f64>, Y: Ranged<ValueType = f64>>(
    area: &Area<'_>,
    chart: &mut Chart<X, Y>,
    plot: &Plot,
    place: usize,
) -> Drawn {
    let curve = &plot.curves[place];
    let colour = colour(plot, place);
    let shown = |point: &&[f64; 3]| fits(&plot.x, point[0]) && fits(&plot.y, point[1]);
    let points: Vec<[f64; 3]> = curve.points.iter().filter(shown).copied().collect();
    let range = chart.y_range();
    if matches!(curve.shape, Shape::Line | Shape::Curve) && curve.source != Source::Paper {
        let line = colour.stroke_width(width(curve.source));
        let path: Vec<(f64, f64)> = points.iter().map(|point| (point[0], point[1])).collect();
        chart.draw_series([PathElement::new(path, line)])?;
    }
    let marked = is_marked(curve);
    let (left, top) = area.get_base_pixel();
    for [x, y, half] in points {
        if half > 0.0 {
            let (low, high) = ((y - half).max(range.start), (y + half).min(range.end));
            let line = colour.stroke_width(2);
            chart.draw_series([PathElement::new(vec![(x, low), (x, high)], line)])?;
        }
        let (px, py) = chart.backend_coord(&(x, y));
        let at = (px - left, py - top);
        match curve.source {
            Source::Paper => area.draw(&diamond(at))?,
            _ if marked => marker(area, place, at, colour)?,
            _ => {}
        }
    }
    Ok(())
}
