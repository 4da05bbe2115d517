//! One run: transfers that are tried, what goes wrong, and what must hold afterwards.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use wellspring_client::store::Existing;
use wellspring_core::{RandomStream, Seed};

use super::client::Wanted;
use super::panics;
use super::plan::TransferOptions;
use super::server::MAX_PARTS;
use super::world::{LENS, TransferRun, World};
use crate::account::lock;
use crate::objects::NAMES;
use crate::simulation::in_memory;

/// The name of the object that all servers have, and that is never put.
const KEPT: usize = 0;
/// The name that objects are put under.
const PUT: usize = 1;
/// Pause before a transfer is tried again.
const AGAIN: Duration = Duration::from_secs(5);

/// Runs a seed in a directory in memory where there is one.
pub fn run_transfers(seed: u64, options: TransferOptions) -> TransferRun {
    let panics = panics::count();
    let home = in_memory();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    let (world, span) = runtime.block_on(async {
        let began = Instant::now();
        let world = Arc::new(World::new(seed, home.path(), options));
        world.run(seed).await;
        (world, began.elapsed())
    });
    drop(runtime);
    let mut run = world.end();
    run.span = span;
    let panics = panics::count() - panics;
    if panics > 0 {
        run.breaches.push(format!("{panics} panics"));
    }
    run
}

impl World {
    async fn run(self: &Arc<Self>, seed: u64) {
        let mut rng = Seed(seed).stream("transfers");
        let kept = rng.below(LENS.len() as u64) as usize;
        self.network.set_weather(self.fair_weather());
        tokio::spawn(Arc::clone(&self.network).carry());
        for host in &self.hosts {
            host.site.disk.hold(&[(NAMES[KEPT], kept)], rng.chance(0.5));
            lock(&host.site.ledger).settle(KEPT, Some(kept));
            tokio::spawn(Arc::clone(host).serve());
        }
        let (world, faults) = (Arc::clone(self), Seed(seed).stream("faults"));
        let faults = tokio::spawn(async move { world.go_wrong(faults).await });
        while Instant::now() < self.faults_end && self.has_no_breach() {
            let wanted = self.choose(&mut rng, kept);
            self.attempt(&wanted).await;
            let pause = rng.below(2_000);
            sleep(Duration::from_millis(pause)).await;
        }
        faults.await.expect("faults do not fail");
        self.restart().await;
        self.check_that_all_works(&mut rng, kept).await;
    }

    fn choose(&self, rng: &mut RandomStream, kept: usize) -> Wanted {
        let servers = (0..self.hosts.len()).filter(|_| rng.chance(0.8)).collect::<Vec<_>>();
        let servers = if servers.is_empty() { vec![0] } else { servers };
        if rng.chance(0.5) {
            let existing = if rng.chance(0.7) { Existing::Replace } else { Existing::Keep };
            return Wanted::Get { name: KEPT, object: kept, servers, existing };
        }
        let object = rng.below(LENS.len() as u64) as usize;
        Wanted::Put { name: PUT, object, servers, overwrite: rng.chance(0.8) }
    }

    /// Without faults every transfer is done, sessions end, and what must be under each name is there.
    async fn check_that_all_works(&self, rng: &mut RandomStream, kept: usize) {
        let servers: Vec<usize> = (0..self.hosts.len()).collect();
        let existing = Existing::Replace;
        let get = Wanted::Get { name: KEPT, object: kept, servers: servers.clone(), existing };
        self.insist(&get).await;
        if self.hosts.iter().all(|host| host.overwrite) {
            let object = rng.below(LENS.len() as u64) as usize;
            let all = servers.clone();
            let put = Wanted::Put { name: PUT, object, servers: all, overwrite: true };
            self.insist(&put).await;
            self.insist(&Wanted::Get { name: PUT, object, servers, existing }).await;
        }
        let until = Instant::now() + 2 * self.plan.timeout + Duration::from_secs(180);
        let busy =
            || self.hosts.iter().any(|host| host.transfers() > 0 || host.site.parts() > MAX_PARTS);
        while busy() && Instant::now() < until {
            sleep(Duration::from_secs(1)).await;
        }
        for host in &self.hosts {
            let (transfers, parts) = (host.transfers(), host.site.parts());
            if transfers > 0 || parts > MAX_PARTS {
                let ip = host.site.ip;
                self.breach(format!("{ip}: {transfers} transfers and {parts} part files are left"));
            }
            host.site.check_names();
        }
        self.client.check_names();
    }

    /// Tries a transfer that must be done once servers have forgotten what went wrong before.
    async fn insist(&self, wanted: &Wanted) {
        let until = Instant::now() + 3 * self.plan.timeout + Duration::from_secs(60);
        while self.has_no_breach() && !self.attempt(wanted).await {
            if Instant::now() >= until {
                return self.breach(format!("without faults it fails: {wanted:?}"));
            }
            sleep(AGAIN).await;
        }
    }
}
