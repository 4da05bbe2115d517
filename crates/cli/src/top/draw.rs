//! Drawing of a server's transfers: as many columns as the terminal has room for.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Stylize;
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Table};
use wellspring_console::output;
use wellspring_console::units::{bit_rate, percent};

use super::view::{Row, View};
use crate::ui::cells::{bar_of, right};

/// A column of the table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Column {
    Client,
    Object,
    Bar,
    Done,
    Rate,
    Share,
    Lost,
    Decoded,
    State,
}

use Column::{Bar, Client, Decoded, Done, Lost, Object, Rate, Share, State};

/// Columns in the order in which they are given room, with the least of it.
const BY_NEED: [(Column, u16); 9] = [
    (Client, 15),
    (Rate, 11),
    (State, 14),
    (Bar, 6),
    (Object, 12),
    (Done, 7),
    (Lost, 7),
    (Share, 7),
    (Decoded, 9),
];
/// Columns that get more if there is more, in this order, and the most of it.
const BY_USE: [(Column, u16); 4] = [(Client, 22), (State, 24), (Object, 40), (Bar, 30)];

impl Column {
    fn name(self) -> &'static str {
        match self {
            Client => "client",
            Object => "object",
            Bar => "",
            Done => "done",
            Rate => "rate",
            Share => "share",
            Lost => "lost",
            Decoded => "decoded",
            State => "state",
        }
    }

    fn is_figure(self) -> bool {
        matches!(self, Done | Rate | Share | Lost | Decoded)
    }

    fn text(self, row: &Row<'_>) -> String {
        match self {
            Client => row.transfer.client.clone(),
            Object => row.object(),
            Bar => String::new(),
            Done => percent(row.done()),
            Rate => bit_rate(row.rate),
            Share => percent(row.share),
            Lost => row.lost(),
            Decoded => row.decoded(),
            State => row.state.clone(),
        }
    }

    fn cell(self, row: &Row<'_>, width: u16) -> Line<'static> {
        match self {
            Bar => bar_of(row.done(), width),
            column if column.is_figure() => right(column.text(row)),
            // The end of a name says more than its beginning.
            Object => Line::from(end_of(&row.object(), width)),
            column => Line::from(column.text(row)),
        }
    }
}

/// The columns that there is room for, from left to right, and their widths.
fn columns(width: u16) -> Vec<(Column, u16)> {
    let mut left = width;
    let mut columns = Vec::new();
    for (column, least) in BY_NEED {
        let space = u16::from(!columns.is_empty());
        if least + space > left {
            break;
        }
        left -= least + space;
        columns.push((column, least));
    }
    for (column, most) in BY_USE {
        if let Some((_, width)) = columns.iter_mut().find(|(of, _)| *of == column) {
            let more = left.min(most - *width);
            *width += more;
            left -= more;
        }
    }
    columns.sort_unstable();
    columns
}

/// A name with its arrow, cut in the middle to that width.
fn end_of(name: &str, width: u16) -> String {
    let (width, len) = (usize::from(width), name.chars().count());
    if len <= width || width < 4 {
        return name.to_owned();
    }
    let head: String = name.chars().take(2).collect();
    let tail: String = name.chars().skip(len - (width - 3)).collect();
    format!("{head}…{tail}")
}

/// Draws all of it.
pub fn draw(view: &View, frame: &mut Frame<'_>) {
    let [title, summary, _, table, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Line::from(view.title()).bold(), title);
    let line = Line::from(view.summary());
    frame.render_widget(if view.is_there() { line } else { line.red() }, summary);
    draw_table(view, frame, table);
    frame.render_widget(Paragraph::new("q ends").dim(), keys);
}

fn draw_table(view: &View, frame: &mut Frame<'_>, area: Rect) {
    let columns = columns(area.width);
    let head = columns.iter().map(|(column, _)| {
        let line = Line::from(column.name());
        if column.is_figure() { line.right_aligned() } else { line }
    });
    let rows = view.rows(area.height.saturating_sub(1).into());
    let rows = rows.iter().map(|row| {
        let cells = columns.iter().map(|(column, width)| column.cell(row, *width));
        ratatui::widgets::Row::new(cells)
    });
    let head = ratatui::widgets::Row::new(head).dim();
    let widths = columns.iter().map(|(_, width)| Constraint::Length(*width));
    let table = Table::new(rows, widths).header(head);
    // What was there before the server was gone is old.
    frame.render_widget(if view.is_there() { table } else { table.dim() }, area);
}

/// The same as lines of text.
pub fn to_text(view: &View) -> String {
    let columns = [Client, Object, Done, Rate, Share, Lost, Decoded, State];
    let head = columns.iter().map(|column| column.name().to_owned()).collect();
    let rows = view.rows(usize::MAX);
    let rows = rows.iter().map(|row| columns.iter().map(|column| column.text(row)).collect());
    let rows: Vec<Vec<String>> = [head].into_iter().chain(rows).collect();
    let table = if rows.len() > 1 { output::table(&rows) } else { String::new() };
    format!("{}\n{}\n{table}", view.title(), view.summary())
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::view::tests::{fetch, put, second_look};
    use super::*;

    fn drawn(view: &View, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        terminal.draw(|frame| draw(view, frame)).expect("drawn");
        let buffer = terminal.backend().buffer();
        let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..height).map(|y| row(y).trim_end().to_owned()).collect()
    }

    fn busy() -> View {
        second_look(
            vec![fetch(1, 100_000), fetch(2, 0), put(3, 50_000)],
            vec![fetch(1, 400_000), fetch(2, 100_000), put(3, 500_000)],
        )
    }

    fn bar(row: &str) -> usize {
        row.chars().filter(|c| *c == '█').count()
    }

    #[test]
    fn each_transfer_has_a_bar_and_its_figures() {
        let rows = drawn(&busy(), 160, 12);
        assert!(rows[0].starts_with("wellspring 0.1.0 at 192.0.2.100:4711"), "{rows:#?}");
        for name in ["client", "object", "done", "rate", "share", "lost", "decoded", "state"] {
            assert!(rows[3].contains(name), "no {name} in {:?}", rows[3]);
        }
        assert_eq!([bar(&rows[4]), bar(&rows[5]), bar(&rows[6])], [10, 3, 13], "{rows:#?}");
        for figure in ["← models/1.bin", "40.0 %", "2.4 Mbit/s", "75.0 %", "1.0 %", "sends"] {
            assert!(rows[4].contains(figure), "no {figure} in {:?}", rows[4]);
        }
        assert!(rows[6].contains("→ models/3.bin") && rows[6].contains("1/4"), "{rows:#?}");
        assert!(rows[6].ends_with("receives (group)"), "{rows:#?}");
    }

    #[test]
    fn narrow_terminals_keep_what_is_needed_most() {
        let rows = drawn(&busy(), 80, 8);
        for figure in ["192.0.2.1:40000", "2.4 Mbit/s", "sends", "█", "bin"] {
            assert!(rows[4].contains(figure), "no {figure} in {:?}", rows[4]);
        }
        let rows = drawn(&busy(), 42, 8);
        assert!(rows[4].contains("192.0.2.1:40000") && rows[4].ends_with("sends"), "{rows:#?}");
        assert_eq!(bar(&rows[4]), 0, "{rows:#?}");
        // The fastest, where there is room for one.
        assert!(drawn(&busy(), 42, 6)[4].starts_with("192.0.2.3:40000"));
        for (width, height) in [(1, 1), (3, 2), (14, 3), (15, 5), (400, 60)] {
            assert_eq!(drawn(&busy(), width, height).len(), usize::from(height));
        }
    }

    #[test]
    fn columns_never_take_more_than_there_is() {
        for width in 0..300 {
            let columns = columns(width);
            let spaces = (columns.len() as u16).saturating_sub(1);
            let taken = columns.iter().map(|(_, width)| width).sum::<u16>() + spaces;
            assert!(taken <= width, "{width}: {columns:?}");
        }
        assert_eq!(columns(150).len(), BY_NEED.len());
    }

    #[test]
    fn long_names_lose_their_middle() {
        assert_eq!(end_of("← models/large/v2.bin", 12), "← …ge/v2.bin");
        assert_eq!(end_of("← x", 12), "← x");
    }

    #[test]
    fn the_text_is_a_table_unless_nothing_runs() {
        let text = to_text(&busy());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 6, "{text}");
        assert!(lines[2].starts_with("client") && lines[2].ends_with("state"), "{text}");
        assert!(lines[3].contains("← models/1.bin") && lines[3].contains("75.0 %"), "{text}");
        assert_eq!(to_text(&second_look(vec![], vec![])).lines().count(), 2);
    }
}
