//! Operation of a running server: settings that change, and its end in good order.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout_at};
use wellspring_core::Rate;
use wellspring_trust::Keyring;
use wellspring_wire::control::RefusalCode;

use super::answer::Refusal;
use super::handler::{Handler, lock};
use super::{Server, ServerConfig};
use crate::driver::HandleError;

/// How long a server stays after its last put: the client asks what became of it.
const LINGER: Duration = Duration::from_secs(1);

/// Settings of a server that can change while it runs.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// What clients may do.
    pub permissions: Permissions,
    /// As [`DriverConfig::send_rate`](crate::driver::DriverConfig::send_rate).
    pub send_rate: Option<Rate>,
    /// As [`DriverConfig::keys`](crate::driver::DriverConfig::keys).
    pub keys: Option<Arc<Keyring>>,
}

/// What clients of a server may do, as in [`ServerConfig`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Permissions {
    /// Put objects.
    pub put: bool,
    /// Replace objects of the same name.
    pub overwrite: bool,
    /// Use names with a component that begins with a dot.
    pub hidden: bool,
    /// Put objects whose names begin with a dash or hold characters that mislead.
    pub odd_names: bool,
}

impl ServerConfig {
    /// The settings that can change while the server runs.
    pub fn settings(&self) -> Settings {
        let permissions = Permissions {
            put: self.allow_put,
            overwrite: self.allow_overwrite,
            hidden: self.allow_hidden,
            odd_names: self.allow_odd_names,
        };
        let (send_rate, keys) = (self.driver.send_rate, self.driver.keys.clone());
        Settings { permissions, send_rate, keys }
    }
}

/// Why a server keeps its settings.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReloadError {
    /// It would have keys from now on, or have none any more: clients of the one kind cannot speak to the other.
    Keys,
    /// It has stopped.
    Stopped(HandleError),
}

impl fmt::Display for ReloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReloadError::Keys => f.write_str(
                "a server with keys keeps having keys, and one without goes without: restart it",
            ),
            ReloadError::Stopped(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ReloadError {}

impl Server {
    /// Uses other settings from now on. No transfer ends: rights and permissions count when one begins.
    ///
    /// # Errors
    /// [`ReloadError`]; all settings stay as they are.
    pub fn reload(&self, settings: Settings) -> Result<(), ReloadError> {
        let handler = &self.handler;
        if settings.keys.is_some() != handler.config.driver.keys.is_some() {
            return Err(ReloadError::Keys);
        }
        handler.handle.set_send_rate(settings.send_rate).map_err(ReloadError::Stopped)?;
        if let Some(keyring) = settings.keys {
            handler.handle.set_keyring(Arc::clone(&keyring)).map_err(ReloadError::Stopped)?;
            *lock(&handler.keyring) = Some(keyring);
        }
        *lock(&handler.permissions) = settings.permissions;
        Ok(())
    }

    /// Begins no more transfers, and waits until those that run are over, for `grace` at most. Returns how many still
    /// run; [`shut_down`](Server::shut_down) ends them.
    pub async fn drain(&self, grace: Duration) -> usize {
        let until = Instant::now() + grace;
        let handler = &self.handler;
        handler.is_draining.store(true, Ordering::Relaxed);
        let (sends, puts) = (&handler.send_places, lock(&handler.puts).places());
        let had_puts = puts.taken() > 0;
        let idle = async {
            tokio::join!(sends.idle(), puts.idle());
            if had_puts {
                sleep_until((Instant::now() + LINGER).min(until)).await;
            }
        };
        // Out of time: the rest is counted.
        let _ = timeout_at(until, idle).await;
        sends.taken() + puts.taken()
    }

    /// Whether it begins no more transfers.
    pub fn is_draining(&self) -> bool {
        self.handler.is_draining.load(Ordering::Relaxed)
    }
}

impl Handler {
    /// What clients may do at the moment.
    pub(super) fn permissions(&self) -> Permissions {
        *lock(&self.permissions)
    }

    /// The keys at the moment, if there are any.
    pub(super) fn keyring(&self) -> Option<Arc<Keyring>> {
        lock(&self.keyring).clone()
    }

    /// Refuses to begin anything if the server is about to stop.
    pub(super) fn check_open(&self) -> Result<(), Refusal> {
        match self.is_draining.load(Ordering::Relaxed) {
            true => Err(Refusal::new(RefusalCode::Busy, "this server is stopping")),
            false => Ok(()),
        }
    }
}
