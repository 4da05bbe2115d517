//! Terminal view of a transfer, and what views of other kinds share with it.

pub mod average;
pub mod cells;
mod draw;
pub mod full_screen;
mod view;

use std::io::{self, IsTerminal, Stderr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use wellspring_client::{Update, Updates};
use wellspring_console::exit::Failed;

use full_screen::FullScreen;
use view::View;
pub use view::shortened;

/// Progress is drawn so often, at most: a tree is fetched by several transfers at once.
const PAUSE: Duration = Duration::from_millis(90);

/// A view on the terminal, which is as before when this is finished or dropped.
#[derive(Clone)]
pub struct Ui {
    screen: Arc<Mutex<Screen>>,
}

struct Screen {
    terminal: FullScreen<Stderr>,
    view: View,
    drawn: Option<Instant>,
}

impl Ui {
    /// Takes the terminal of standard error; standard output may be the object's.
    ///
    /// # Errors
    /// It is none, or cannot be written.
    pub fn new(title: &str) -> Result<Ui, Failed> {
        if !io::stderr().is_terminal() {
            let failed = Failed::usage("--ui: standard error is not a terminal");
            return Err(failed.hint(
                "Run it in a terminal (`ssh -t`, `docker run -t`), or let a program read --json-progress.",
            ));
        }
        let terminal = FullScreen::new(io::stderr())?;
        let view = View::new(title, Instant::now());
        let screen = Screen { terminal, view, drawn: None };
        Ok(Ui { screen: Arc::new(Mutex::new(screen)) })
    }

    /// Where the transfer's updates go.
    pub fn updates(&self) -> Updates {
        let ui = self.clone();
        Updates::to(move |update| ui.lock().take(&update)).with_hosts()
    }

    /// Gives the terminal back, with the remarks of the transfer.
    pub fn finish(&self) -> Vec<String> {
        let mut screen = self.lock();
        screen.terminal.restore();
        std::mem::take(&mut screen.view.remarks)
    }

    fn lock(&self) -> MutexGuard<'_, Screen> {
        self.screen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Screen {
    fn take(&mut self, update: &Update) {
        let now = Instant::now();
        self.view.take(update, now);
        let is_soon = self.drawn.is_some_and(|drawn| now.duration_since(drawn) < PAUSE);
        if is_soon && view::is_periodic(update) {
            return;
        }
        self.drawn = Some(now);
        // A terminal that cannot be written is no reason to end a transfer.
        let _ = self.terminal.draw(|frame| draw::draw(&self.view, frame));
    }
}
