//! The world of a run: servers, a client, the network between them, and what is noted of it.

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::time::Instant;
use wellspring_core::Seed;

use super::keys::Keys;
use super::network::{Character, Datagrams, Network};
use super::plan::{Plan, TransferOptions};
use super::server::Host;
use super::site::Site;
use crate::account::lock;
use crate::objects::Object;

/// Lengths of the objects; two are of one length \[bytes\].
pub(crate) const LENS: [usize; 5] = [700, 40_000, 40_000, 90_000, 0];

/// What happened in runs.
#[derive(Clone, Copy, Default, Debug)]
pub struct TransferCounters {
    /// Runs whose machines had keys.
    pub with_keys: u64,
    /// Transfers tried.
    pub attempts: u64,
    /// Objects fetched.
    pub got: u64,
    /// Fetches that failed.
    pub not_got: u64,
    /// Objects put to all servers named.
    pub put: u64,
    /// Puts that failed.
    pub not_put: u64,
    /// Bytes that fetches took up \[bytes\].
    pub resumed_bytes: u64,
    /// Replicas that came back.
    pub returns: u64,
    /// Processes killed.
    pub kills: u64,
    /// Power cuts.
    pub power_cuts: u64,
    /// Times at which machines were cut off from each other.
    pub cuts: u64,
    /// Datagrams.
    pub datagrams: Datagrams,
}

impl std::ops::AddAssign for TransferCounters {
    fn add_assign(&mut self, other: Self) {
        self.with_keys += other.with_keys;
        self.attempts += other.attempts;
        self.got += other.got;
        self.not_got += other.not_got;
        self.put += other.put;
        self.not_put += other.not_put;
        self.resumed_bytes += other.resumed_bytes;
        self.returns += other.returns;
        self.kills += other.kills;
        self.power_cuts += other.power_cuts;
        self.cuts += other.cuts;
        self.datagrams += other.datagrams;
    }
}

/// What a seed led to.
#[derive(Clone, Debug)]
pub struct TransferRun {
    /// What must not be, in the order in which it was seen.
    pub breaches: Vec<String>,
    /// What happened.
    pub counters: TransferCounters,
    /// A hash of all datagrams delivered and all calls on disks: the same for the same seed.
    pub trace: u64,
    /// How long it took, by the clock of the run.
    pub span: Duration,
}

/// A run.
pub(crate) struct World {
    pub plan: Plan,
    pub network: Arc<Network>,
    pub hosts: Vec<Arc<Host>>,
    pub client: Arc<Site>,
    pub keys: Option<Keys>,
    /// Where the files are that are put.
    pub sources: PathBuf,
    pub faults_end: Instant,
    /// When the last client was gone.
    pub client_ended: Mutex<Instant>,
    breaches: Mutex<Vec<String>>,
    counters: Mutex<TransferCounters>,
    says: bool,
}

fn objects() -> Vec<Object> {
    static OBJECTS: OnceLock<Vec<Object>> = OnceLock::new();
    OBJECTS.get_or_init(|| Object::of_lens(&LENS)).clone()
}

impl World {
    pub(crate) fn new(seed: u64, home: &Path, options: TransferOptions) -> Self {
        let mut rng = Seed(seed).stream("plan");
        let plan = Plan::draw(&mut rng, &mut Seed(seed).stream("liars"));
        let network = Network::new(Seed(seed).stream("network"));
        let site = |number: usize| {
            let root = home.join(number.to_string());
            fs::create_dir(&root).expect("a directory");
            Site::new(seed, number as u8, &root, objects(), &network, plan.work)
        };
        let overwrite = rng.chance(0.7);
        let sites: Vec<_> = (1..=plan.servers).map(site).collect();
        let addresses: Vec<_> = sites.iter().map(|site| site.ip).collect();
        // Drawn apart: all else stays as it is.
        let keys = Keys::draw(&mut Seed(seed).stream("keys"), &addresses);
        let plan = if keys.is_some() { plan.with_keys() } else { plan };
        if keys.is_some() {
            network.seal();
        }
        let host = |(number, site)| {
            let of_server = |keys: &Keys| Arc::clone(&keys.servers[number]);
            let (server, keys) = (Mutex::default(), keys.as_ref().map(of_server));
            Arc::new(Host { site, server, overwrite, keys })
        };
        let sources = home.join("sources");
        fs::create_dir(&sources).expect("a directory");
        for (number, object) in objects().iter().enumerate() {
            fs::write(sources.join(number.to_string()), &object.bytes).expect("written");
        }
        let world = World {
            plan,
            hosts: sites.into_iter().enumerate().map(host).collect(),
            client: site(0),
            keys,
            network,
            sources,
            faults_end: Instant::now() + plan.faults_last,
            client_ended: Mutex::new(Instant::now()),
            breaches: Mutex::default(),
            counters: Mutex::default(),
            says: options.says,
        };
        world.count(|counters| counters.with_keys += u64::from(plan.keys));
        world.give_characters();
        if options.skips_syncs {
            world.sites().for_each(|site| site.disk.skip_syncs());
        }
        if options.says {
            println!("{plan:?}");
        }
        world
    }

    /// All servers but one lie, if the plan says so.
    fn give_characters(&self) {
        let Plan { honest, lies, slow, .. } = self.plan;
        for (number, host) in self.hosts.iter().enumerate().filter(|_| honest.is_some()) {
            let character = match self.plan.is_liar(number) {
                true => Character { lies, slow: 0 },
                false => Character { lies: 0.0, slow },
            };
            self.network.set_character(host.site.ip, character);
        }
    }

    pub(crate) fn count(&self, count: impl FnOnce(&mut TransferCounters)) {
        count(&mut lock(&self.counters));
    }

    /// A transfer failed, for that reason.
    pub(crate) fn fails(&self, why: &impl Display, count: impl FnOnce(&mut TransferCounters)) {
        if self.says {
            println!("failed: {why}");
        }
        self.count(count);
    }

    pub(crate) fn breach(&self, what: String) {
        lock(&self.breaches).push(what);
    }

    pub(crate) fn sites(&self) -> impl Iterator<Item = &Site> {
        self.hosts.iter().map(|host| &*host.site).chain([&*self.client])
    }

    pub(crate) fn has_no_breach(&self) -> bool {
        lock(&self.breaches).is_empty() && self.sites().all(|site| site.disk.breaches().is_empty())
    }

    pub(crate) fn end(&self) -> TransferRun {
        let mut counters = *lock(&self.counters);
        let mut breaches = lock(&self.breaches).clone();
        let mut trace = self.network.trace();
        counters.datagrams = self.network.counters();
        for site in self.sites() {
            let ends = site.ends();
            counters.kills += ends.kills;
            counters.power_cuts += ends.power_cuts;
            breaches.extend(site.disk.breaches());
            trace = trace.rotate_left(7) ^ site.disk.trace();
        }
        TransferRun { breaches, counters, trace, span: Duration::ZERO }
    }
}
