//! Control socket and metrics server of a running appliance.

use std::fs;
use std::future::Future;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::Semaphore;

use crate::metrics::to_prometheus;
use crate::setup::SetupError;
use crate::status::{Status, to_json};

/// Longest request read \[bytes\].
const REQUEST: usize = 2_048;
/// How long a client may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// Clients of a listener at a time, at most; further ones are closed at once.
const CLIENTS: usize = 512;
/// After an error of the listener, such as too many open files.
const AGAIN: Duration = Duration::from_millis(50);
/// Pause between two looks whether an appliance has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);

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

    /// Answers HTTP requests for metrics at that address, for as long as the program runs. Clients are
    /// served side by side: one that sends nothing does not delay the others.
    ///
    /// # Errors
    /// The address cannot be listened at.
    pub fn serve_metrics(&self, at: SocketAddr) -> io::Result<SocketAddr> {
        let controls = self.clone();
        serve_page(at, move || controls.status().map(|status| to_prometheus(&status)))
    }

    /// Answers at the control socket of an appliance of that name.
    pub(crate) fn serve(&self, run_dir: &Path, name: &str) -> Result<ControlSocket, SetupError> {
        let system = |error| SetupError::System("the control socket", error);
        fs::create_dir_all(run_dir).map_err(system)?;
        let path = socket_path(run_dir, name);
        if UnixStream::connect(&path).is_ok() {
            return Err(SetupError::Running(name.to_owned()));
        }
        // No process listens there: the socket is left from one that was killed.
        let _ = fs::remove_file(&path);
        let listener = UnixListener::bind(&path).map_err(system)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).map_err(system)?;
        listener.set_nonblocking(true).map_err(system)?;
        let controls = self.clone();
        serve("control", async move {
            let listener = tokio::net::UnixListener::from_std(listener)?;
            let clients = Clients::new();
            loop {
                let accepted = listener.accept().await.map(|(stream, _)| stream);
                let controls = controls.clone();
                clients.take(accepted, |stream| controls.answer(stream)).await;
            }
        })
        .map_err(system)?;
        Ok(ControlSocket(path))
    }

    async fn answer(self, mut stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
        let request = read_until(&mut stream, b"\n").await?;
        let answer = match request.trim() {
            "status" => match self.status() {
                Some(status) => to_json(&status).to_string(),
                None => "{}".to_owned(),
            },
            "down" => {
                self.stop.store(true, Ordering::Relaxed);
                "{}".to_owned()
            }
            _ => return Ok(()),
        };
        stream.write_all(format!("{answer}\n").as_bytes()).await
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

/// Names of the appliances that have control sockets there, in order. Sockets of appliances that were killed are left out.
pub fn running(run_dir: &Path) -> Vec<String> {
    let files = fs::read_dir(run_dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let sockets = files.filter(|path| path.extension().is_some_and(|end| end == "sock"));
    let listens = |path: &PathBuf| match UnixStream::connect(path) {
        Err(error) => error.kind() != io::ErrorKind::ConnectionRefused,
        Ok(_) => true,
    };
    let stems = sockets.filter(listens).filter_map(|path| path.file_stem().map(ToOwned::to_owned));
    let mut names: Vec<String> = stems.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Waits until an appliance that was asked to stop has ended, and what it had changed is as before; false if that takes
/// longer.
pub fn has_ended(run_dir: &Path, name: &str, patience: Duration) -> bool {
    let (path, began) = (socket_path(run_dir, name), Instant::now());
    while UnixStream::connect(&path).is_ok() {
        if began.elapsed() > patience {
            return false;
        }
        thread::sleep(LOOK_EVERY);
    }
    true
}

fn socket_path(run_dir: &Path, name: &str) -> PathBuf {
    run_dir.join(format!("{name}.sock"))
}

/// Answers HTTP requests for metrics with the page that `page` makes, if there is one yet, for as long as the program
/// runs. Clients are served side by side.
pub(crate) fn serve_page(
    at: SocketAddr,
    page: impl Fn() -> Option<String> + Clone + Send + 'static,
) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(at)?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    serve("metrics", async move {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let clients = Clients::new();
        loop {
            let accepted = listener.accept().await.map(|(stream, _)| stream);
            let page = page.clone();
            clients.take(accepted, |stream| answer_http(stream, page)).await;
        }
    })?;
    Ok(address)
}

async fn answer_http(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    page: impl Fn() -> Option<String>,
) -> io::Result<()> {
    let request = read_until(&mut stream, b"\r\n\r\n").await?;
    let (code, text) = if request.starts_with("GET /metrics") {
        match page() {
            Some(text) => ("200 OK", text),
            None => ("503 Service Unavailable", String::new()),
        }
    } else {
        ("404 Not Found", String::new())
    };
    let answer = format!(
        "HTTP/1.1 {code}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{text}",
        text.len()
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}

/// Runs a server in a thread of its own.
fn serve(
    name: &str,
    server: impl Future<Output = io::Result<()>> + Send + 'static,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    thread::Builder::new().name(name.into()).spawn(move || {
        if let Err(error) = runtime.block_on(server) {
            tracing::error!("a listener: {error}");
        }
    })?;
    Ok(())
}

/// The clients of a listener.
struct Clients(Arc<Semaphore>);

impl Clients {
    fn new() -> Self {
        Clients(Arc::new(Semaphore::new(CLIENTS)))
    }

    /// Lets a client be answered beside the others, within [`PATIENCE`].
    async fn take<Stream, Answer>(
        &self,
        accepted: io::Result<Stream>,
        answer: impl FnOnce(Stream) -> Answer,
    ) where
        Answer: Future<Output = io::Result<()>> + Send + 'static,
    {
        let Ok(stream) = accepted else { return tokio::time::sleep(AGAIN).await };
        let Ok(permit) = Arc::clone(&self.0).try_acquire_owned() else { return };
        let answered = tokio::time::timeout(PATIENCE, answer(stream));
        tokio::spawn(async move {
            // A client that leaves or is slow is its own loss.
            let _ = answered.await;
            drop(permit);
        });
    }
}

/// Reads up to a mark, within bounds.
async fn read_until(stream: &mut (impl AsyncRead + Unpin), mark: &[u8]) -> io::Result<String> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 256];
    while bytes.len() < REQUEST && !bytes.ends_with(mark) {
        match stream.read(&mut buffer).await? {
            0 => break,
            read => bytes.extend_from_slice(&buffer[..read]),
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpStream;

    #[test]
    fn idle_clients_delay_no_scrape() {
        let controls = Controls::new();
        let at = controls.serve_metrics(([127, 0, 0, 1], 0).into()).expect("a port");
        let mut idle: Vec<TcpStream> =
            (0..20).map(|_| TcpStream::connect(at).expect("connected")).collect();
        let mut scrape = TcpStream::connect(at).expect("connected");
        scrape.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("written");
        let mut answer = String::new();
        scrape.read_to_string(&mut answer).expect("answered");
        assert!(answer.starts_with("HTTP/1.1 503"), "nothing runs yet: {answer}");
        // Answered while the others were still waited for.
        for stream in &mut idle {
            stream.set_nonblocking(true).expect("set");
            let read = stream.read(&mut [0]);
            assert!(read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock));
        }
    }

    #[test]
    fn clients_that_do_not_read_delay_no_scrape() {
        // Longer than what waits unread in the buffers of a connection.
        let page = "x".repeat(8 << 20);
        let given = page.clone();
        let at = serve_page(([127, 0, 0, 1], 0).into(), move || Some(given.clone()));
        let at = at.expect("a port");
        let ask = || {
            let mut stream = TcpStream::connect(at).expect("connected");
            stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("written");
            stream
        };
        let mut slow: Vec<TcpStream> = (0..10).map(|_| ask()).collect();
        // Each has begun to be answered, and waits for its reader.
        for stream in &mut slow {
            assert_eq!(stream.read(&mut [0]).expect("answered"), 1);
        }
        let mut answer = String::new();
        ask().read_to_string(&mut answer).expect("answered");
        assert!(answer.ends_with(&page));
    }

    #[test]
    fn idle_clients_delay_no_status() {
        let folder = tempfile::tempdir().expect("a folder");
        let controls = Controls::new();
        let _socket = controls.serve(folder.path(), "one").expect("a socket");
        let path = socket_path(folder.path(), "one");
        let mut idle: Vec<UnixStream> =
            (0..20).map(|_| UnixStream::connect(&path).expect("connected")).collect();
        assert_eq!(ask(folder.path(), "one", "status").expect("answered"), "{}\n");
        for stream in &mut idle {
            stream.set_nonblocking(true).expect("set");
            let read = stream.read(&mut [0]);
            assert!(read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock));
        }
        ask(folder.path(), "one", "down").expect("answered");
        assert!(controls.stop.load(Ordering::Relaxed));
    }

    #[test]
    fn an_appliance_that_was_killed_is_not_one_that_runs_and_the_end_of_one_is_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let controls = Controls::new();
        let socket = controls.serve(folder.path(), "one").expect("a socket");
        drop(UnixListener::bind(socket_path(folder.path(), "dead")).expect("bound"));
        assert!(socket_path(folder.path(), "dead").exists());
        assert_eq!(running(folder.path()), ["one"]);
        assert!(!has_ended(folder.path(), "one", Duration::ZERO), "it listens");
        thread::scope(|scope| {
            let waited = scope.spawn(|| has_ended(folder.path(), "one", Duration::MAX));
            drop(socket);
            assert!(waited.join().expect("no panic"));
        });
        assert!(running(folder.path()).is_empty());
    }
}
