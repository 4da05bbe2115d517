//! Drawing of a transfer.

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Gauge, Paragraph, Row, Table};
use wellspring_client::{ReceiverProgress, SenderProgress};
use wellspring_console::units::{bit_rate, bytes, part, percent, seconds};

use super::cells::{bar_of, header, right};
use super::view::{Peer, View, receiver_state, sender_state};

/// Widths of the columns of figures and of words.
const RATE: u16 = 12;
const PART: u16 = 8;
const STATE: u16 = 20;
const LONGEST_BAR: u16 = 40;

/// Draws all of it.
pub fn draw(view: &View, frame: &mut Frame<'_>) {
    let rows = view.senders.len().max(view.receivers.len());
    let rows = u16::try_from(rows).unwrap_or(u16::MAX).saturating_add(1);
    // Room for the title, the bar, a line of what is waited for, and a remark.
    let rows = rows.min(frame.area().height.saturating_sub(5));
    let [title, bar, _, table, waiting, _, remarks] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(rows),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(0),
    ])
    .areas(frame.area());
    frame.render_widget(Line::from(view.title.as_str()).bold(), title);
    draw_bar(view, frame, bar);
    if view.receivers.is_empty() {
        draw_senders(view, frame, table);
    } else {
        draw_receivers(view, frame, table);
    }
    frame.render_widget(Paragraph::new(view.waiting()), waiting);
    let last = view.remarks.len().saturating_sub(remarks.height.into());
    let lines: Vec<Line<'_>> =
        view.remarks[last..].iter().map(|text| Line::from(text.as_str())).collect();
    frame.render_widget(Paragraph::new(lines).dim(), remarks);
}

fn draw_bar(view: &View, frame: &mut Frame<'_>, area: Rect) {
    let ratio = part(view.done.min(view.size), view.size);
    let (done, size) = (bytes(view.done), bytes(view.size));
    let rate = view.rate.per_second();
    let mut label = format!("{:.0} %  {done} of {size}  {}", ratio * 100.0, bit_rate(rate * 8.0));
    if view.done < view.size && rate > 0.0 {
        let left = (view.size - view.done) as f64 / rate;
        label.push_str(&format!("  {} left", seconds(Duration::from_secs_f64(left.min(1e7)))));
    }
    let style = Style::new().fg(Color::Blue).bg(Color::DarkGray);
    frame.render_widget(Gauge::default().ratio(ratio).label(label).gauge_style(style), area);
}

/// Share and loss of each host; the bars have the length of the rates.
fn draw_senders(view: &View, frame: &mut Frame<'_>, area: Rect) {
    let peers = &view.senders;
    let hosts = peers.iter().map(|peer| peer.last.host.as_str());
    let (host, bar) = widths(hosts, area, RATE + 2 * PART + STATE);
    let fastest = peers.iter().map(|peer| peer.rate.per_second()).fold(0.0, f64::max);
    let useful: u64 = peers.iter().map(|peer| peer.last.useful).sum();
    let rows = peers.iter().map(|peer| {
        let Peer { last, rate } = peer;
        let SenderProgress { host, useful: own, lost, asked, .. } = last;
        let rate = rate.per_second();
        let length = if fastest > 0.0 { rate / fastest } else { 0.0 };
        Row::new([
            Line::from(host.as_str()),
            bar_of(length, bar),
            right(bit_rate(rate * view.symbol_size as f64 * 8.0)),
            right(percent(part(*own, useful))),
            right(percent(part(*lost, *asked))),
            Line::from(format!(" {}", sender_state(last))),
        ])
    });
    let head = ["host", "", "rate", "share", "lost", " state"];
    let columns = [host, bar, RATE, PART, PART].map(Constraint::Length);
    let columns = columns.into_iter().chain([Constraint::Min(STATE)]);
    frame.render_widget(Table::new(rows, columns).header(header(&head)), area);
}

/// How far each host is; the bars are of what it has.
fn draw_receivers(view: &View, frame: &mut Frame<'_>, area: Rect) {
    let peers = &view.receivers;
    let hosts = peers.iter().map(|peer| peer.last.host.as_str());
    let (host, bar) = widths(hosts, area, RATE + PART + STATE);
    let rows = peers.iter().map(|peer| {
        let Peer { last, rate } = peer;
        let ReceiverProgress { host, done, total, .. } = last;
        let length = part(*done, *total);
        Row::new([
            Line::from(host.as_str()),
            bar_of(length, bar),
            right(bit_rate(rate.per_second() * 8.0)),
            right(percent(length)),
            Line::from(format!(" {}", receiver_state(last))),
        ])
    });
    let head = ["host", "", "rate", "has", " state"];
    let columns = [host, bar, RATE, PART].map(Constraint::Length);
    let columns = columns.into_iter().chain([Constraint::Min(STATE)]);
    frame.render_widget(Table::new(rows, columns).header(header(&head)), area);
}

/// Widths of the hosts' names and of the bars, beside columns of so much; spaces between columns come on top.
fn widths<'a>(hosts: impl Iterator<Item = &'a str>, area: Rect, others: u16) -> (u16, u16) {
    let longest = hosts.map(|host| host.chars().count()).max().unwrap_or(4).clamp(4, 60) as u16;
    let host = longest.min(area.width / 3);
    (host, area.width.saturating_sub(host + others + 6).min(LONGEST_BAR))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use wellspring_client::{BlockProgress, Update};

    use super::*;

    fn sender(host: &str, useful: u64, lost: u64) -> SenderProgress {
        SenderProgress {
            host: host.to_owned(),
            is_live: true,
            state: "sends".to_owned(),
            useful,
            lost,
            asked: useful + lost,
            ..SenderProgress::default()
        }
    }

    fn receiver(host: &str, done: u64) -> ReceiverProgress {
        let (host, state) = (host.to_owned(), "receives".to_owned());
        ReceiverProgress { host, is_live: true, state, done, total: 100, ..Default::default() }
    }

    /// A fetch after its first second, all of which was looked at.
    fn fetch() -> View {
        let began = Instant::now();
        let mut view = View::new("get models/7b.bin", began);
        let digest = wellspring_net::store::Digest([0; 32]);
        let (size, symbol_size, hosts) = (10_000_000, 1_000, Vec::new());
        view.take(&Update::Started { size, symbol_size, digest, hosts }, began);
        let tell = |symbols: [u64; 3]| {
            let mut slow = sender("c.example:4711", symbols[2], 1);
            slow.silent = Duration::from_millis(1_200);
            let others = [("a.example:4711", symbols[0], 0), ("b.example:4711", symbols[1], 20)];
            let mut senders: Vec<_> = others.map(|(h, u, l)| sender(h, u, l)).into();
            senders.push(slow);
            let blocks = BlockProgress { done: 41, decoded: 3, total: 100 };
            Update::Senders { senders, blocks }
        };
        view.take(&tell([0, 0, 0]), began);
        let later = began + Duration::from_secs(1);
        view.take(&Update::Moving { done: 4_100_000, total: size, symbols: 4_100 }, later);
        view.take(&tell([2_000, 1_980, 99]), later);
        view.take(&Update::Lost { host: "d.example".into(), reason: "no answer".into() }, later);
        view
    }

    fn drawn(view: &View, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        terminal.draw(|frame| draw(view, frame)).expect("drawn");
        let buffer = terminal.backend().buffer();
        let cell = |x, y| buffer.cell((x, y)).expect("inside").symbol().to_owned();
        let row = |y| (0..width).map(|x| cell(x, y)).collect::<String>().trim_end().to_owned();
        (0..height).map(row).collect()
    }

    fn bar(row: &str) -> usize {
        row.chars().filter(|c| *c == '█').count()
    }

    #[test]
    fn a_wide_terminal_has_a_bar_a_rate_and_a_state_for_each_sender() {
        let rows = drawn(&fetch(), 120, 12);
        assert_eq!(rows[0], "get models/7b.bin");
        assert!(rows[1].contains("41 %  4.1 MB of 10.0 MB  32.8 Mbit/s"), "{}", rows[1]);
        assert!(rows[3].starts_with("host") && rows[3].contains("share"), "{}", rows[3]);
        assert_eq!([bar(&rows[4]), bar(&rows[5]), bar(&rows[6])], [40, 40, 2], "{rows:#?}");
        let first = &rows[4];
        assert!(first.contains("16.0 Mbit/s") && first.contains("49.0 %"), "{first}");
        assert!(first.ends_with("sends"), "{first}");
        assert!(rows[5].contains("1.0 %"), "{}", rows[5]);
        assert!(rows[6].ends_with("silent for 1.20 s"), "{}", rows[6]);
        assert_eq!(rows[7], "41 of 100 blocks done, 3 decoded");
        assert_eq!(rows[9], "d.example: no answer");
    }

    #[test]
    fn a_small_terminal_drops_bars_and_remarks_and_keeps_the_hosts() {
        let rows = drawn(&fetch(), 72, 9);
        for (row, host) in rows[4..7].iter().zip(["a.example", "b.example", "c.example"]) {
            assert!(row.starts_with(host) && row.contains("bit/s"), "{row}");
        }
        assert!(rows[7].contains("blocks done"), "{rows:#?}");
        let mut view = View::new("x", Instant::now());
        assert_eq!(drawn(&view, 1, 1).len(), 1);
        assert!(drawn(&view, 60, 8).iter().any(|row| row == "waits for an answer of the hosts"));
        let hashing = Update::Hashing { host: Some("a".into()), done: 1, total: 4_000_000 };
        view.take(&hashing, Instant::now());
        let waits = "waits for the digest at a: 1 B";
        assert!(drawn(&view, 60, 8).iter().any(|row| row.contains(waits)));
    }

    #[test]
    fn senders_that_are_all_silent_or_gone_are_waited_for() {
        let mut view = fetch();
        let mut senders = vec![sender("a", 1, 0), sender("b", 1, 0)];
        senders.iter_mut().for_each(|sender| sender.silent = Duration::from_secs(2));
        let blocks = BlockProgress { done: 1, decoded: 0, total: 9 };
        view.senders.clear();
        view.take(&Update::Senders { senders: senders.clone(), blocks }, Instant::now());
        assert!(view.waiting().ends_with("waits for a, b"), "{}", view.waiting());
        for sender in &mut senders {
            (sender.is_live, sender.state) = (false, "fell silent".to_owned());
        }
        view.take(&Update::Senders { senders, blocks }, Instant::now());
        let waiting = view.waiting();
        assert!(waiting.ends_with("waits for a host to come back"), "{waiting}");
        assert!(drawn(&view, 100, 10)[4].ends_with("fell silent"));
    }

    #[test]
    fn receivers_have_bars_of_what_they_have_and_those_that_hold_up_are_named() {
        let now = Instant::now();
        let mut view = View::new("put x", now);
        view.take(&Update::Moving { done: 0, total: 100, symbols: 0 }, now);
        let mut slow = receiver("b", 50);
        slow.idle = Duration::from_secs(3);
        let mut complete = receiver("a", 100);
        (complete.is_live, complete.state) = (false, "complete".to_owned());
        let receivers = vec![complete, slow];
        view.take(&Update::Receivers { receivers }, now);
        let rows = drawn(&view, 120, 10);
        assert_eq!([bar(&rows[4]), bar(&rows[5])], [40, 20], "{rows:#?}");
        assert!(rows[4].contains("100.0 %") && rows[4].ends_with("complete"), "{}", rows[4]);
        assert!(rows[5].ends_with("nothing new for 3.00 s"), "{}", rows[5]);
        assert_eq!(rows[6], "1 of 2 hosts have all; waits for b");
    }

    #[test]
    fn hostile_names_and_reasons_do_not_reach_the_terminal_as_commands() {
        let mut view = fetch();
        let (host, reason) = ("e".to_owned(), "\u{1b}[2J\u{7}gone".to_owned());
        view.take(&Update::Lost { host, reason }, Instant::now());
        let rows = drawn(&view, 100, 14);
        assert!(rows.iter().all(|row| !row.contains(['\u{1b}', '\u{7}'])), "{rows:#?}");
        assert!(rows.iter().any(|row| row.contains("gone")), "{rows:#?}");
    }
}
