//! Control socket and metrics server of a running appliance.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::metrics::to_prometheus;
use crate::setup::SetupError;
use crate::status::{Status, to_json};

/// Longest question read \[bytes\].
const QUESTION: usize = 2_048;
/// How long somebody who asks may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// What the appliance and those who ask it share.
#[derive(Clone, Debug)]
pub struct Controls {
    /// Set to end the appliance.
    pub stop: Arc<AtomicBool>,
    pub(crate) status: Arc<Mutex<Option<Status>>>,
}

impl Controls {
    /// Controls of an appliance to come.
    pub fn new() -> Self {
        Controls { stop: Arc::default(), status: Arc::default() }
    }

    /// The newest status.
    pub fn status(&self) -> Option<Status> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Answers HTTP requests for metrics at that address, for as long as the program runs.
    ///
    /// # Errors
    /// The address cannot be listened at.
    pub fn serve_metrics(&self, at: SocketAddr) -> io::Result<SocketAddr> {
        let listener = TcpListener::bind(at)?;
        let address = listener.local_addr()?;
        let controls = self.clone();
        thread::Builder::new().name("metrics".into()).spawn(move || {
            for stream in listener.incoming().flatten() {
                let _ = stream.set_read_timeout(Some(PATIENCE));
                let _ = stream.set_write_timeout(Some(PATIENCE));
                let _ = controls.answer_http(stream);
            }
        })?;
        Ok(address)
    }

    fn answer_http(&self, mut stream: impl Read + Write) -> io::Result<()> {
        let question = read_until(&mut stream, b"\r\n\r\n")?;
        let (code, text) = match (question.starts_with("GET /metrics"), self.status()) {
            (true, Some(status)) => ("200 OK", to_prometheus(&status)),
            (true, None) => ("503 Service Unavailable", String::new()),
            (false, _) => ("404 Not Found", String::new()),
        };
        write!(
            stream,
            "HTTP/1.1 {code}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n{text}",
            text.len()
        )
    }

    /// Answers at the control socket of an appliance of that name.
    pub(crate) fn serve(&self, run_dir: &Path, name: &str) -> Result<ControlSocket, SetupError> {
        let system = |error| SetupError::System("the control socket", error);
        fs::create_dir_all(run_dir).map_err(system)?;
        let path = socket_path(run_dir, name);
        if UnixStream::connect(&path).is_ok() {
            return Err(SetupError::Running(name.to_owned()));
        }
        // Nobody listens there: it is left from a life that was killed.
        let _ = fs::remove_file(&path);
        let listener = UnixListener::bind(&path).map_err(system)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).map_err(system)?;
        let controls = self.clone();
        let answer = move || {
            for mut stream in listener.incoming().flatten() {
                let _ = stream.set_read_timeout(Some(PATIENCE));
                let _ = stream.set_write_timeout(Some(PATIENCE));
                let _ = controls.answer(&mut stream);
            }
        };
        thread::Builder::new().name("control".into()).spawn(answer).map_err(system)?;
        Ok(ControlSocket(path))
    }

    fn answer(&self, stream: &mut UnixStream) -> io::Result<()> {
        let question = read_until(stream, b"\n")?;
        match question.trim() {
            "status" => match self.status() {
                Some(status) => writeln!(stream, "{}", to_json(&status)),
                None => writeln!(stream, "{{}}"),
            },
            "down" => {
                self.stop.store(true, Ordering::Relaxed);
                writeln!(stream, "{{}}")
            }
            _ => Ok(()),
        }
    }
}

impl Default for Controls {
    fn default() -> Self {
        Controls::new()
    }
}

/// A control socket; dropping it takes its name away.
#[derive(Debug)]
pub(crate) struct ControlSocket(PathBuf);

impl Drop for ControlSocket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Asks an appliance: `status`, or `down`.
///
/// # Errors
/// None of that name runs, or it does not answer.
pub fn ask(run_dir: &Path, name: &str, question: &str) -> io::Result<String> {
    let mut stream = UnixStream::connect(socket_path(run_dir, name))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    writeln!(stream, "{question}")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn socket_path(run_dir: &Path, name: &str) -> PathBuf {
    run_dir.join(format!("{name}.sock"))
}

/// Reads up to a mark, within bounds.
fn read_until(stream: &mut impl Read, mark: &[u8]) -> io::Result<String> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 256];
    while bytes.len() < QUESTION && !bytes.ends_with(mark) {
        match stream.read(&mut buffer)? {
            0 => break,
            read => bytes.extend_from_slice(&buffer[..read]),
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
