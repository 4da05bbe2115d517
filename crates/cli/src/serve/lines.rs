//! Events on standard output, written by a thread of their own: a reader that stops reading holds up nothing else.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::time::Duration;

/// Lines that wait to be written, at most; those beyond are counted and left out.
const MAX_WAITING: usize = 4_096;

/// The way to the thread that writes.
#[derive(Clone)]
pub struct Lines {
    sender: Sender<Message>,
    account: Arc<Account>,
}

enum Message {
    Line(String),
    /// To be answered when all before is written.
    Flush(SyncSender<()>),
}

#[derive(Default)]
struct Account {
    waiting: AtomicUsize,
    left_out: AtomicU64,
}

impl Lines {
    /// Starts the thread. `left_out` makes the line which says that so many were left out.
    ///
    /// # Errors
    /// The system starts no more threads.
    pub fn start(left_out: fn(u64) -> String) -> io::Result<Self> {
        let (sender, lines) = mpsc::channel();
        let account = Arc::new(Account::default());
        let of_writer = Arc::clone(&account);
        let write = move || write(&lines, &of_writer, &mut io::stdout(), left_out);
        std::thread::Builder::new().name("wellspring-events".to_owned()).spawn(write)?;
        Ok(Lines { sender, account })
    }

    /// Has a line written, unless too many wait.
    pub fn print(&self, line: String) {
        if self.account.waiting.fetch_add(1, Ordering::Relaxed) >= MAX_WAITING {
            self.account.waiting.fetch_sub(1, Ordering::Relaxed);
            self.account.left_out.fetch_add(1, Ordering::Relaxed);
            return;
        }
        // The thread lives as long as this.
        let _ = self.sender.send(Message::Line(line));
    }

    /// Waits until all that was printed is written, or for so long.
    pub fn flush(&self, patience: Duration) {
        let (done, written) = mpsc::sync_channel(1);
        let _ = self.sender.send(Message::Flush(done));
        // The reader may have stopped.
        let _ = written.recv_timeout(patience);
    }
}

/// Writes lines for as long as somebody may print. An error is ignored: a server goes on without a reader.
fn write(
    messages: &Receiver<Message>,
    account: &Account,
    out: &mut impl Write,
    left_out: fn(u64) -> String,
) {
    let mut print = |line: &str| {
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    };
    for message in messages {
        match message {
            Message::Line(line) => {
                print(&line);
                account.waiting.fetch_sub(1, Ordering::Relaxed);
                let missing = account.left_out.swap(0, Ordering::Relaxed);
                if missing > 0 {
                    print(&left_out(missing));
                }
            }
            Message::Flush(done) => {
                // Whoever asked may have lost patience.
                let _ = done.try_send(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that takes nothing before it is told to.
    struct Stopped {
        go_on: Receiver<()>,
        goes: bool,
        taken: Sender<String>,
    }

    impl Write for Stopped {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if !self.goes {
                self.go_on.recv().expect("told");
                self.goes = true;
            }
            let text = String::from_utf8_lossy(bytes).into_owned();
            self.taken.send(text).map(|()| bytes.len()).map_err(io::Error::other)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_stops_holds_nobody_up_and_hears_how_much_it_has_missed() {
        let (sender, messages) = mpsc::channel();
        let account = Arc::new(Account::default());
        let lines = Lines { sender, account: Arc::clone(&account) };
        let ((go, go_on), (taken, read)) = (mpsc::channel(), mpsc::channel());
        let mut out = Stopped { go_on, goes: false, taken };
        let writer = std::thread::spawn(move || {
            write(&messages, &account, &mut out, |n| format!("{n} left out"));
        });
        for number in 0..MAX_WAITING + 7 {
            lines.print(format!("line {number}"));
        }
        lines.flush(Duration::ZERO);
        go.send(()).expect("waits");
        lines.flush(Duration::MAX);
        drop(lines);
        writer.join().expect("no panic");
        let text: String = read.iter().collect();
        let all: Vec<&str> = text.lines().collect();
        assert_eq!(all.len(), MAX_WAITING + 1);
        assert_eq!(all[..3], ["line 0", "7 left out", "line 1"]);
        assert_eq!(all[MAX_WAITING], format!("line {}", MAX_WAITING - 1));
    }
}
