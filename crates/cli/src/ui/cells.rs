//! Cells of the tables of views.

use ratatui::style::Stylize;
use ratatui::text::Line;
use ratatui::widgets::Row;

/// A bar of so much of its width.
pub fn bar_of(length: f64, width: u16) -> Line<'static> {
    let cells = (length.clamp(0.0, 1.0) * f64::from(width)).round() as usize;
    Line::from("█".repeat(cells)).green()
}

/// A figure.
pub fn right(text: String) -> Line<'static> {
    Line::from(text).right_aligned()
}

/// Names of columns: those between the bars and the state are of figures.
pub fn header(names: &[&'static str]) -> Row<'static> {
    let last = names.len() - 1;
    let cells = names.iter().enumerate().map(|(column, name)| {
        let line = Line::from(*name);
        if (2..last).contains(&column) { line.right_aligned() } else { line }
    });
    Row::new(cells).dim()
}
