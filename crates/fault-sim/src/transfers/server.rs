//! Servers, which are started again when they have died.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::sleep;
use wellspring_client::store::{Limits, PartLimits};
use wellspring_server::{Server, ServerConfig};
use wellspring_trust::Keyring;

use super::site::Site;
use crate::account::lock;

/// Port of all servers.
pub(crate) const PORT: u16 = 4_711;

/// Part files that nobody works on, at most.
pub(crate) const MAX_PARTS: usize = 3;

/// A server's place, and the server while it runs.
pub(crate) struct Host {
    pub site: Arc<Site>,
    pub server: Mutex<Option<Server>>,
    /// Whether puts may replace objects.
    pub overwrite: bool,
    /// What it has and trusts, if this run has keys.
    pub keys: Option<Arc<Keyring>>,
}

impl Host {
    /// Serves, for ever.
    pub(crate) async fn serve(self: Arc<Self>) {
        loop {
            let machine = self.site.start();
            let host = Arc::clone(&self);
            let starting = machine.run(async move {
                let config = host.config();
                if let Ok(server) = Server::bind(config).await {
                    *lock(&host.server) = Some(server);
                }
            });
            // It dies with the process, which is seen below.
            let _ = starting.await;
            let has_started = lock(&self.server).is_some();
            if has_started {
                machine.died().await;
            }
            drop(lock(&self.server).take());
            self.site.bury(has_started).await;
            let pause = self.site.disk.below(3_000);
            sleep(Duration::from_millis(pause)).await;
        }
    }

    fn config(&self) -> ServerConfig {
        let address = SocketAddr::new(self.site.ip, PORT);
        let mut config = ServerConfig::new(address, self.site.disk.root().to_owned())
            .allow_put(true)
            .allow_overwrite(self.overwrite)
            .limits(Limits { keep_free: 0, ..Limits::default() })
            .parts(PartLimits { age: Duration::MAX, bytes: 400_000, files: MAX_PARTS })
            .client_share(100)
            .idle_put(Duration::from_secs(20));
        config.driver.workers = 2;
        config.driver.keys.clone_from(&self.keys);
        config
    }

    /// Transfers under way.
    pub(crate) fn transfers(&self) -> usize {
        let counters = lock(&self.server).as_ref().map(Server::counters).unwrap_or_default();
        counters.sending + counters.receiving
    }

    pub(crate) fn is_up(&self) -> bool {
        lock(&self.server).is_some()
    }
}
