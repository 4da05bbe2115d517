//! Operation of a running server: settings that change, transfers that run, and its end in good order.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout_at};
use wellspring_core::{Rate, SessionId};
use wellspring_trust::{Identity, Keyring};
use wellspring_wire::control::RefusalCode;

use super::Server;
use super::answer::Refusal;
use super::handler::{Handler, lock};
use super::running::RunningTransfer;
use super::settings::{Permissions, ReloadError, Settings};
use crate::driver::HandleError;
use crate::store::tree::path_of;

/// How long a server stays after its last transfer: who has put an object asks what became of it, and who moves a directory
/// asks for more of it.
const LINGER: Duration = Duration::from_secs(1);

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
        handler.handle.set_send_rate(settings.send_rate)?;
        handler.handle.set_link_rate(settings.link_rate)?;
        if let Some(keyring) = settings.keys {
            handler.handle.set_keyring(Arc::clone(&keyring))?;
            *lock(&handler.keyring) = Some(keyring);
        }
        *lock(&handler.permissions) = settings.permissions;
        *lock(&handler.address_quota) = settings.address_quota;
        Ok(())
    }

    /// Whether something has the directory's name, and what is served can be read.
    ///
    /// # Errors
    /// The system's.
    pub fn check_directory(&self) -> io::Result<()> {
        let root = self.handler.store.root();
        root.path().metadata()?;
        let directory = root.directory();
        path_of(&directory)?.read_dir().map(drop)
    }

    /// Sends no faster than this from now on, over all transfers.
    ///
    /// # Errors
    /// [`ReloadError::Stopped`], [`ReloadError::RateOfLoops`].
    pub fn set_send_rate(&self, rate: Option<Rate>) -> Result<(), ReloadError> {
        Ok(self.handler.handle.set_send_rate(rate)?)
    }

    /// Asks clients for what they put no faster than this from now on, over all transfers; or, where the driver has several
    /// loops, over those of each.
    ///
    /// # Errors
    /// [`ReloadError::Stopped`].
    pub fn set_link_rate(&self, rate: Rate) -> Result<(), ReloadError> {
        self.handler.handle.set_link_rate(rate).map_err(ReloadError::Stopped)
    }

    /// Begins no more transfers from now on but for clients that have one, since a directory is many; and waits until all
    /// are over, for `grace` at most. Returns how many still run; [`shut_down`](Server::shut_down) ends them.
    pub fn drain(&self, grace: Duration) -> impl Future<Output = usize> {
        self.handler.close();
        self.drained(Instant::now() + grace)
    }

    async fn drained(&self, until: Instant) -> usize {
        let handler = &self.handler;
        let (sends, puts) = (&handler.send_places, lock(&handler.puts).places());
        let given = || sends.given() + puts.given();
        let is_idle = sends.taken() + puts.taken() == 0;
        let idle = async {
            if is_idle {
                return;
            }
            loop {
                tokio::join!(sends.idle(), puts.idle());
                let before = given();
                sleep_until((Instant::now() + LINGER).min(until)).await;
                if given() == before {
                    break;
                }
            }
        };
        // Out of time: the rest is counted.
        let _ = timeout_at(until, idle).await;
        sends.taken() + puts.taken()
    }

    /// Whether it begins no more transfers.
    pub fn is_draining(&self) -> bool {
        self.handler.served_to_the_end.get().is_some()
    }
}

impl Handler {
    /// The transfers that run, the fetches first, `limit` at most.
    pub(super) fn running_transfers(
        &self,
        limit: usize,
    ) -> Result<Vec<RunningTransfer>, HandleError> {
        let mut all: Vec<_> = lock(&self.sends).running().take(limit).collect();
        let left = limit - all.len();
        all.extend(self.parts.running(left).into_iter().map(|part| (None, part)));
        let left = limit - all.len();
        all.extend(lock(&self.puts).running().take(left));
        let sessions: Vec<SessionId> = all.iter().filter_map(|(session, _)| *session).collect();
        let mut accounts = self.handle.accounts(sessions)?.into_iter();
        let with_account = all.into_iter().map(|(session, mut transfer)| {
            if session.is_some() {
                transfer.account = accounts.next().flatten();
            }
            transfer
        });
        Ok(with_account.collect())
    }

    /// What clients may do at the moment.
    pub(super) fn permissions(&self) -> Permissions {
        *lock(&self.permissions)
    }

    /// The keys at the moment, if there are any.
    pub(super) fn keyring(&self) -> Option<Arc<Keyring>> {
        lock(&self.keyring).clone()
    }

    /// Who a client is by the keys of the moment.
    pub(super) fn still_known(&self, known: &Identity) -> Result<Arc<Identity>, Refusal> {
        let keyring = self.keyring();
        let found = keyring.as_ref().and_then(|keyring| keyring.identity(known.fingerprint));
        found
            .map(Arc::clone)
            .ok_or_else(|| Refusal::new(RefusalCode::NotAllowed, "the key is not known any more"))
    }

    /// Begins nothing any more but for clients that have a transfer.
    pub(super) fn close(&self) {
        let sends: Vec<SocketAddr> =
            lock(&self.sends).running().map(|(_, transfer)| transfer.client).collect();
        let puts = lock(&self.puts).clients();
        let clients = [sends, puts, self.recent.all()].concat().into_iter().collect();
        // Once closed, it stays so for the same.
        let _ = self.served_to_the_end.set(clients);
    }

    /// Refuses to begin anything for that client if the server is about to stop.
    pub(super) fn check_open(&self, client: SocketAddr) -> Result<(), Refusal> {
        match self.served_to_the_end.get() {
            Some(clients) if !clients.contains(&client) => {
                Err(Refusal::new(RefusalCode::Busy, "this server is stopping"))
            }
            _ => Ok(()),
        }
    }
}
