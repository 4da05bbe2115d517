//! Keys of a view on the whole terminal.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers};
use ratatui::crossterm::terminal::{disable_raw_mode, enable_raw_mode};
use tokio::sync::mpsc;

/// How soon the thread that reads keys sees that nobody wants them any more.
const LOOK: Duration = Duration::from_millis(100);

/// What a person at the terminal asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asked {
    End,
    /// The terminal has another size now.
    Redraw,
}

/// The keys of the terminal, which come one by one and are not shown, until this is dropped.
pub struct Keys {
    stop: Arc<AtomicBool>,
    /// Absent where standard input is no terminal: signals end the view then.
    asked: Option<mpsc::Receiver<Asked>>,
}

impl Keys {
    pub fn new() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let is_read = std::io::stdin().is_terminal() && enable_raw_mode().is_ok();
        let asked = is_read.then(|| {
            let ((send, asked), stopped) = (mpsc::channel(8), Arc::clone(&stop));
            std::thread::spawn(move || read(&send, &stopped));
            asked
        });
        Keys { stop, asked }
    }

    /// Waits for what is asked for next.
    pub async fn next(&mut self) -> Asked {
        match &mut self.asked {
            Some(asked) => match asked.recv().await {
                Some(asked) => asked,
                None => std::future::pending().await,
            },
            None => std::future::pending().await,
        }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if self.asked.is_some() {
            // A terminal that is gone needs no mode.
            let _ = disable_raw_mode();
        }
    }
}

fn read(send: &mpsc::Sender<Asked>, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let event = match event::poll(LOOK) {
            Ok(true) => event::read(),
            Ok(false) => continue,
            Err(error) => Err(error),
        };
        let asked = match event {
            Ok(event) => meaning(&event),
            // The terminal is gone: so is who looked at it.
            Err(_) => Some(Asked::End),
        };
        if let Some(asked) = asked
            && (send.blocking_send(asked).is_err() || asked == Asked::End)
        {
            return;
        }
    }
}

fn meaning(event: &Event) -> Option<Asked> {
    match event {
        Event::Resize(..) => Some(Asked::Redraw),
        Event::Key(KeyEvent { code: KeyCode::Char('q') | KeyCode::Esc, .. }) => Some(Asked::End),
        // The terminal makes no signal of it as long as keys come one by one.
        Event::Key(KeyEvent { code: KeyCode::Char('c'), modifiers, .. })
            if modifiers.contains(KeyModifiers::CONTROL) =>
        {
            Some(Asked::End)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn q_escape_and_control_c_end_the_view() {
        let key = |code, modifiers| Event::Key(KeyEvent::new(code, modifiers));
        let (none, control) = (KeyModifiers::NONE, KeyModifiers::CONTROL);
        for (code, modifiers) in
            [(KeyCode::Char('q'), none), (KeyCode::Esc, none), (KeyCode::Char('c'), control)]
        {
            assert_eq!(meaning(&key(code, modifiers)), Some(Asked::End), "{code:?}");
        }
        assert_eq!(meaning(&key(KeyCode::Char('c'), none)), None);
        assert_eq!(meaning(&Event::Resize(10, 10)), Some(Asked::Redraw));
    }
}
