//! The whole terminal, for as long as a view has it.

use std::io::{self, Write};

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen};
use ratatui::{Frame, Terminal};
use wellspring_console::exit::Failed;

/// The whole terminal behind `W`, which is as before when this is restored or dropped.
pub struct FullScreen<W: Write> {
    /// Absent once the terminal is as before.
    terminal: Option<Terminal<CrosstermBackend<W>>>,
}

impl<W: Write> FullScreen<W> {
    /// Takes the terminal.
    ///
    /// # Errors
    /// It is none, or cannot be written.
    pub fn new(out: W) -> Result<Self, Failed> {
        let failed = |error: io::Error| Failed::system("the terminal", &error);
        let mut terminal = Terminal::new(CrosstermBackend::new(out)).map_err(failed)?;
        execute!(terminal.backend_mut(), EnterAlternateScreen).map_err(failed)?;
        Ok(FullScreen { terminal: Some(terminal) })
    }

    /// Draws a view, unless the terminal is as before.
    ///
    /// # Errors
    /// The terminal cannot be written.
    pub fn draw(&mut self, view: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        match &mut self.terminal {
            Some(terminal) => terminal.draw(view).map(drop),
            None => Ok(()),
        }
    }

    /// Gives the terminal back.
    pub fn restore(&mut self) {
        if let Some(mut terminal) = self.terminal.take() {
            // Whoever has closed the terminal does not miss it.
            let _ = execute!(terminal.backend_mut(), LeaveAlternateScreen, Show);
        }
    }
}

impl<W: Write> Drop for FullScreen<W> {
    fn drop(&mut self) {
        self.restore();
    }
}
