//! Standard output, standard error, and tables.

use std::fmt;
use std::io::{self, Write};

/// Standard output, for `write!` and `writeln!`: unlike `println!` it does not panic when its
/// reader goes away or the disk is full.
#[derive(Clone, Copy, Debug)]
pub struct Stdout;

impl Stdout {
    /// What `write!` calls.
    ///
    /// # Errors
    /// The system's. As a [`Failed`](crate::exit::Failed) it ends the program, without a message
    /// if the reader closed the pipe.
    pub fn write_fmt(self, text: fmt::Arguments<'_>) -> Result<(), StdoutError> {
        io::stdout().lock().write_fmt(text).map_err(StdoutError)
    }
}

/// Standard output, for a report before the verdict of a command: a reader who has seen enough and goes away does not
/// end the command, whose exit status still counts.
#[derive(Clone, Copy, Debug)]
pub struct Report;

impl Report {
    /// What `write!` calls.
    ///
    /// # Errors
    /// The system's, but for a pipe that its reader closed.
    pub fn write_fmt(self, text: fmt::Arguments<'_>) -> Result<(), StdoutError> {
        match Stdout.write_fmt(text) {
            Err(error) if error.is_closed() => Ok(()),
            written => written,
        }
    }
}

/// Standard error, for `write!` and `writeln!`: unlike `eprintln!` it does not panic. It may be
/// closed, and that is no reason to fail.
#[derive(Clone, Copy, Debug)]
pub struct Stderr;

impl Stderr {
    /// What `write!` calls.
    pub fn write_fmt(self, text: fmt::Arguments<'_>) {
        let _ = io::stderr().lock().write_fmt(text);
    }
}

/// Standard output cannot be written.
#[derive(Debug)]
pub struct StdoutError(io::Error);

impl StdoutError {
    /// Whether its reader has gone away, as `| head -1` does: it has what it wanted.
    pub fn is_closed(&self) -> bool {
        self.0.kind() == io::ErrorKind::BrokenPipe
    }
}

impl From<io::Error> for StdoutError {
    fn from(error: io::Error) -> Self {
        StdoutError(error)
    }
}

impl From<StdoutError> for io::Error {
    fn from(error: StdoutError) -> Self {
        error.0
    }
}

impl fmt::Display for StdoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "standard output: {}", self.0)
    }
}

impl std::error::Error for StdoutError {}

/// A table with its columns lined up: numbers to the right, words to the left.
///
/// A column is one of numbers if all its cells but the first, its head, begin like one.
pub fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let cells = |column: usize| rows.iter().filter_map(move |row| row.get(column));
    let layout: Vec<(usize, bool)> = (0..columns)
        .map(|column| {
            let width = cells(column).map(|cell| cell.chars().count()).max().unwrap_or(0);
            let numbers = column > 0 && cells(column).skip(1).all(|cell| is_number(cell));
            (width, numbers)
        })
        .collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&layout).map(|(cell, &(width, numbers))| match numbers {
            true => format!("{cell:>width$}"),
            false => format!("{cell:<width$}"),
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// Whether a cell begins like a number, or says that there is none.
fn is_number(cell: &str) -> bool {
    let unsigned = cell.strip_prefix(['-', '+', '<', '>']).unwrap_or(cell).trim_start();
    unsigned.is_empty() || unsigned.starts_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(rows: &[[&str; 3]]) -> Vec<Vec<String>> {
        rows.iter().map(|row| row.map(str::to_owned).to_vec()).collect()
    }

    #[test]
    fn numbers_line_up_to_the_right_and_words_to_the_left() {
        let shown = table(&rows(&[
            ["host", "symbols", "state"],
            ["a", "1", "served"],
            ["long.example", "-", "lost"],
        ]));
        let wanted = "host          symbols  state\n\
                      a                   1  served\n\
                      long.example        -  lost\n";
        assert_eq!(shown, wanted);
    }
}
