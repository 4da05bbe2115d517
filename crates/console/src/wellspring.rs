//! The `wellspring` command as a child process: servers and transfers.

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Instant;

use serde_json::Value;

use crate::children::{Owned, PATIENCE, follow};
use crate::exit::Failed;

/// Where the `wellspring` command is.
#[derive(Clone, Debug)]
pub struct Wellspring(PathBuf);

impl Wellspring {
    /// This very program.
    ///
    /// # Errors
    /// The system's.
    pub fn this() -> Result<Self, Failed> {
        std::env::current_exe()
            .map(Self)
            .map_err(|error| Failed::system("cannot find my own program", &error))
    }

    /// The program that the variable `WELLSPRING` names, or else the one in this program's folder.
    ///
    /// # Errors
    /// There is none.
    pub fn beside_this() -> Result<Self, Failed> {
        let path = match std::env::var_os("WELLSPRING") {
            Some(path) => PathBuf::from(path),
            None => Self::this()?.0.with_file_name("wellspring"),
        };
        if path.is_file() {
            return Ok(Self(path));
        }
        Err(Failed::other(format!("no program {}", path.display())).hint(
            "This measures the `wellspring` command. Build it beside this one (cargo build \
             --release -p wellspring-cli), or say where it is: WELLSPRING=PATH.",
        ))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Starts a server of `dir` on loopback, and waits until it listens.
    ///
    /// # Errors
    /// It does not start, or does not say where it listens.
    pub fn serve(&self, dir: &Path, cache: &Path, extra: &[&str]) -> Result<Server, Failed> {
        let mut command = Command::new(&self.0);
        // On this host alone: the user's keys have no part in it.
        command.env("WELLSPRING_KEYS", "").env("WELLSPRING_CONFIG", "");
        command.args(["serve", "--json", "--bind", "127.0.0.1:0", "--cache"]);
        command.arg(cache).args(extra).arg(dir);
        let mut child = Owned::spawn(command.stdin(Stdio::null()).stdout(Stdio::piped()))?;
        let (events, _) = follow(child.output()?);
        let unspecified = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut server = Server { child, address: unspecified, dir: dir.to_owned(), events };
        let event = server.wait_for("listening")?;
        server.address = event["address"]
            .as_str()
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| Failed::other("a server did not say where it listens"))?;
        Ok(server)
    }

    /// Runs a `get` or `put` to its end; `progress` is called with every step.
    ///
    /// # Errors
    /// It does not start. That it failed is in [`Ended`].
    pub fn transfer<S: AsRef<OsStr>>(
        &self,
        arguments: &[S],
        mut progress: impl FnMut(&Value),
    ) -> Result<Ended, Failed> {
        let mut command = Command::new(&self.0);
        command.env("WELLSPRING_KEYS", "").env("WELLSPRING_CONFIG", "");
        command.args(arguments).args(["--json", "--json-progress"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = Owned::spawn(&mut command)?;
        let (summaries, _) = follow(child.output()?);
        let (steps, text) = follow(child.errors()?);
        for step in steps {
            progress(&step);
        }
        let status = child.wait()?;
        let summary = summaries.iter().last().unwrap_or(Value::Null);
        let text = text.join().unwrap_or_default();
        Ok(Ended { status, summary, text })
    }
}

/// A `wellspring serve` on loopback.
pub struct Server {
    child: Owned,
    /// Where it listens.
    pub address: SocketAddr,
    /// The directory it serves.
    pub dir: PathBuf,
    events: Receiver<Value>,
}

impl Server {
    /// Waits for an event of that kind.
    ///
    /// # Errors
    /// The server ends, or says nothing of the kind for half a minute.
    pub fn wait_for(&self, kind: &str) -> Result<Value, Failed> {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.events.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(event) if event["event"] == kind => return Ok(event),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    let dir = self.dir.display();
                    return Err(Failed::other(format!("the server of {dir} never said `{kind}`")));
                }
            }
        }
    }

    /// Its process ID.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills it on the spot, as a power failure would.
    pub fn kill(&mut self) {
        self.child.kill();
    }
}

/// The end of a `get` or `put`.
#[derive(Debug)]
pub struct Ended {
    /// Its exit status.
    pub status: ExitStatus,
    /// Its summary.
    pub summary: Value,
    /// The rest of its standard error.
    pub text: String,
}

impl Ended {
    /// The summary, or what went wrong.
    ///
    /// # Errors
    /// The transfer failed.
    pub fn success(self) -> Result<Value, Failed> {
        if self.status.success() {
            Ok(self.summary)
        } else {
            Err(Failed::other(format!("{}\n{}", self.status, self.text.trim_end())))
        }
    }
}
