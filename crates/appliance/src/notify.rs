//! Notifications to systemd (sd_notify(3)): the appliance is ready, and alive.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

/// The service manager, if this process is a service of one.
#[derive(Debug)]
pub(crate) struct Notifier {
    socket: Option<UnixDatagram>,
    /// How often the watchdog is to hear of this process, if there is one.
    every: Option<Duration>,
    next: Option<Instant>,
}

impl Notifier {
    /// The manager that the environment names: `NOTIFY_SOCKET`, and `WATCHDOG_USEC` of `WATCHDOG_PID`.
    pub(crate) fn from_environment() -> Self {
        let own = std::process::id().to_string();
        let is_meant = env::var("WATCHDOG_PID").map_or(true, |pid| pid == own);
        let limit = env::var("WATCHDOG_USEC").ok().filter(|_| is_meant);
        let limit = limit.and_then(|text| text.parse().ok()).map(Duration::from_micros);
        let socket = env::var_os("NOTIFY_SOCKET").and_then(|address| {
            let connected = connect(&address);
            connected.inspect_err(|error| tracing::warn!("the service manager: {error}")).ok()
        });
        Notifier::new(socket, limit)
    }

    /// A manager at a socket whose watchdog has that time limit: it hears twice within it.
    fn new(socket: Option<UnixDatagram>, limit: Option<Duration>) -> Self {
        let every = limit.filter(|limit| !limit.is_zero()).map(|limit| limit / 2);
        Notifier { socket, every, next: None }
    }

    /// The appliance protects from now on.
    pub(crate) fn ready(&mut self, now: Instant) {
        self.send("READY=1");
        self.next = self.every.map(|every| now + every);
    }

    /// Tells the watchdog, when that is due, that the appliance is alive, if it is.
    pub(crate) fn turn(&mut self, now: Instant, alive: impl FnOnce() -> bool) {
        let (Some(every), Some(next)) = (self.every, self.next) else { return };
        if now < next {
            return;
        }
        self.next = Some(now + every);
        if alive() {
            self.send("WATCHDOG=1");
        } else {
            tracing::error!("a partition's thread makes no progress");
        }
    }

    /// The appliance ends in good order.
    pub(crate) fn stopping(&self) {
        self.send("STOPPING=1");
    }

    fn send(&self, text: &str) {
        // A manager that does not listen misses it.
        if let Some(socket) = &self.socket {
            let _ = socket.send(text.as_bytes());
        }
    }
}

/// A socket connected to that address: a path, or a name of the abstract namespace behind an `@`.
fn connect(address: &OsStr) -> io::Result<UnixDatagram> {
    let address = match address.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(address)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.connect_addr(&address)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_watchdog_hears_of_a_process_that_is_alive() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        let manager = UnixDatagram::bind(&path).expect("a socket");
        manager.set_nonblocking(true).expect("set");
        let heard = || {
            let mut buffer = [0; 64];
            manager.recv(&mut buffer).ok().map(|len| buffer[..len].to_vec())
        };
        let socket = connect(path.as_os_str()).expect("connected");
        let mut notifier = Notifier::new(Some(socket), Some(Duration::from_secs(10)));
        let begin = Instant::now();
        let after = |seconds| begin + Duration::from_secs(seconds);
        notifier.ready(begin);
        assert_eq!(heard().as_deref(), Some(&b"READY=1"[..]));
        notifier.turn(after(4), || true);
        assert_eq!(heard(), None, "not due");
        notifier.turn(after(5), || true);
        assert_eq!(heard().as_deref(), Some(&b"WATCHDOG=1"[..]));
        notifier.turn(after(10), || false);
        assert_eq!(heard(), None, "a process that hangs does not say that it is alive");
        notifier.stopping();
        assert_eq!(heard().as_deref(), Some(&b"STOPPING=1"[..]));
    }

    #[test]
    fn without_a_manager_nothing_is_said() {
        let mut notifier = Notifier::new(None, None);
        notifier.ready(Instant::now());
        notifier.turn(Instant::now(), || unreachable!("there is no watchdog"));
        notifier.stopping();
        let name = OsStr::new("@wellspring-test-of-no-socket");
        assert!(connect(name).is_err(), "nobody listens");
    }
}
