//! Appliance: its partitions, services and status.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use wellspring_maelstrom::{Cause, Partitions, SessionId};

use crate::aggregation::Aggregation;
use crate::cache_service::{CacheService, SharedCache};
use crate::clamp::Clamp;
use crate::control::{ControlSocket, Controls};
use crate::failover::FailoverService;
use crate::inject::PeerSocket;
use crate::notify::Notifier;
use crate::offload::Offloads;
use crate::partition::{Partition, Plan, Worker};
use crate::setup::{Config, SetupError, check};
use crate::split::{Split, SplitCounters};
use crate::status::{PartitionStatus, Status};
use crate::sys;

/// How often what others may ask is brought up to date.
const STATUS_EVERY: Duration = Duration::from_millis(200);
/// How often free memory goes back to the kernel: bursts of losses and of clients need some for a moment.
const MEMORY_EVERY: Duration = Duration::from_secs(5);
/// How long it waits for something to do.
const WAIT: Duration = Duration::from_millis(50);
/// When a partition that could not be opened is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(1);
/// The beginning of 2024 \[ns since 1970\]: earlier than any session.
const LONG_PAST: u64 = 1_704_067_200_000_000_000;

/// A Maelstrom appliance, ready to run.
pub struct Appliance {
    plan: Plan,
    controls: Controls,
    failover: FailoverService,
    ready: BTreeMap<u8, Partition>,
    workers: BTreeMap<u8, Worker>,
    /// The account of partitions that are no longer protected here.
    past: Option<PartitionStatus>,
    sessions: Sessions,
    split: Option<Split>,
    _cache_service: Option<CacheService>,
    aggregation: Option<Aggregation>,
    clamp: Option<Clamp>,
    begin: Instant,
    try_at: Instant,
    // Put back when nothing is watched any more.
    offloads: Offloads,
    // Last: whoever finds it gone may start another appliance.
    _control: ControlSocket,
}

impl Appliance {
    /// Checks what must be so, switches off what must be off, and opens what is needed.
    ///
    /// # Errors
    /// Why it does not start; nothing is left changed.
    pub fn new(mut config: Config, controls: Controls) -> Result<Self, SetupError> {
        let ground = check(&config)?;
        config.send.longest = ground.longest;
        if let Some(limits) = &mut config.send.adaptive {
            limits.rate = ground.rate;
        }
        config.receive.longest = ground.longest;
        let mut sessions = Sessions::new()?;
        let control = controls.serve(&config.run_dir, &config.name)?;
        let own = PeerSocket::new(config.peer, &config.wan, config.site)
            .map_err(|error| SetupError::System("the socket towards the peer", error))?;
        let own = own.local();
        if own == config.peer.ip() {
            return Err(SetupError::PeerIsLocal(config.peer));
        }
        let mut addresses = vec![own];
        addresses.extend(config.site.filter(|&site| site != own));
        let failover = FailoverService::new(&config, sessions.next())?;
        let offloads = Offloads::switch_off(&config.lan, &config.wan, &config.run_dir);
        let cache = config.cache.map(|cache| SharedCache::new(cache.bytes, cache.age));
        let wan_mtu = ground.wan.mtu;
        let plan = Plan { config, wan_mtu, own: addresses, cache };
        let mut ready = BTreeMap::new();
        for number in failover.owned().iter() {
            ready.insert(number, Partition::open(&plan, number, sessions.next())?);
        }
        let config = &plan.config;
        let cache_service = plan
            .cache
            .as_ref()
            .zip(config.cache)
            .map(|(shared, cache)| shared.serve(cache.at, &config.lan, own));
        let cache_service =
            cache_service.transpose().map_err(|e| SetupError::System("the cache's socket", e))?;
        let aggregation = Aggregation::start(config, sessions.next(), own, ground.longest)?;
        let split = config.split.as_ref();
        let split =
            split.map(|split| Split::start(config, split, own, ground.longest)).transpose()?;
        let clamp = ground
            .clamp
            .then(|| Clamp::install(&config.name, &config.wan, &config.remote, ground.longest));
        let clamp = clamp.transpose().map_err(|error| ground.unclamped(config, &error))?;
        if clamp.is_none() {
            Clamp::clear(&config.name);
        }
        tracing::debug!("{:?}", ground.plan);
        let now = Instant::now();
        Ok(Appliance {
            plan,
            controls,
            failover,
            ready,
            workers: BTreeMap::new(),
            past: None,
            sessions,
            split,
            _cache_service: cache_service,
            aggregation,
            clamp,
            begin: now,
            try_at: now,
            offloads: offloads.map_err(|error| SetupError::System("offloads", error))?,
            _control: control,
        })
    }

    /// Longest packet that is protected \[bytes\].
    pub fn longest(&self) -> usize {
        self.plan.config.send.longest
    }

    /// Whether TCP is made to send no longer ones, since hosts could.
    pub fn clamps(&self) -> bool {
        self.clamp.is_some()
    }

    /// Runs until the controls say stop; gives back the account.
    ///
    /// # Panics
    /// If a partition's thread has panicked.
    pub fn run(mut self) -> Status {
        let (mut status_at, mut memory_at) = (self.begin, self.begin);
        let mut manager = Notifier::from_environment();
        manager.ready(self.begin);
        while !self.controls.stop.load(Ordering::Relaxed) {
            self.failover.hear();
            self.follow();
            // What is said to be protected is, and who protected it before may stop.
            self.failover.speak(self.running(), self.sessions.last);
            let now = Instant::now();
            if now >= status_at {
                status_at = now + STATUS_EVERY;
                let split = self.split.as_ref().map(|split| Arc::clone(&split.counters));
                self.publish(split);
            }
            if now >= memory_at {
                memory_at = now + MEMORY_EVERY;
                sys::give_back_memory();
            }
            manager.turn(now, || self.makes_progress());
            self.failover.wait(WAIT);
        }
        manager.stopping();
        // What is relayed ends, and no more comes.
        let split = self.split.take().map(|split| Arc::clone(&split.counters));
        for number in 0..self.plan.config.partitions {
            self.end(number);
        }
        self.failover.farewell();
        self.publish(split);
        self.controls.status().expect("just published")
    }

    /// Whether all threads of partitions have taken turns since this was asked last.
    fn makes_progress(&self) -> bool {
        // All are asked, whatever one says.
        self.workers.values().filter(|worker| !worker.made_progress()).count() == 0
    }

    /// Partitions that are protected here.
    fn running(&self) -> Partitions {
        self.workers.keys().fold(Partitions::NONE, |all, &number| all.with(number))
    }

    /// Begins and ends partitions, so that those run that are to be protected here.
    fn follow(&mut self) {
        for number in 0..self.plan.config.partitions {
            let wanted = self.failover.tenure(number);
            let running = self.workers.get(&number);
            if running.is_some_and(|worker| Some(worker.tenure) != wanted || worker.failed()) {
                tracing::info!("partition {number} is no longer protected here");
                self.end(number);
            }
            if let Some(tenure) = wanted
                && !self.workers.contains_key(&number)
                && Instant::now() >= self.try_at
            {
                self.begin(number, tenure);
            }
        }
    }

    fn begin(&mut self, number: u8, tenure: u64) {
        let partition = match self.ready.remove(&number) {
            Some(partition) => Ok(partition),
            None => self.open_again(number),
        };
        let worker = partition.and_then(|partition| {
            partition.start(tenure).map_err(|error| SetupError::System("a thread", error))
        });
        match worker {
            Ok(worker) => {
                tracing::info!("partition {number} is protected here");
                self.workers.insert(number, worker);
            }
            Err(error) => {
                tracing::error!("partition {number} is not protected: {error}");
                self.try_at = Instant::now() + TRY_AGAIN;
            }
        }
    }

    /// Opens a partition while others may run. An interface that was made anew has its offloads on.
    fn open_again(&mut self, number: u8) -> Result<Partition, SetupError> {
        let Config { lan, wan, run_dir, .. } = &self.plan.config;
        let offloads = Offloads::switch_off(lan, wan, run_dir);
        self.offloads = offloads.map_err(|error| SetupError::System("offloads", error))?;
        // The other site believes the newest session of a partition, whichever appliance of this site had it, and
        // clocks of two machines differ.
        self.sessions.follow(self.failover.newest_session());
        Partition::open(&self.plan, number, self.sessions.next())
    }

    fn end(&mut self, number: u8) {
        let Some(worker) = self.workers.remove(&number) else { return };
        let account = worker.end();
        match &mut self.past {
            Some(past) => past.add(&account),
            None => self.past = Some(account),
        }
    }

    fn publish(&mut self, split: Option<Arc<SplitCounters>>) {
        let mut sum = self.past.clone();
        let now = Instant::now();
        for (&number, worker) in &self.workers {
            let status = worker.status();
            let packets = status.send.packets + status.receive.packets;
            self.failover.on_packets(now, number, worker.tenure, packets);
            match &mut sum {
                Some(sum) => sum.add(&status),
                None => sum = Some(status),
            }
        }
        // At the very beginning nothing runs yet, and nothing may when a partition cannot be opened.
        let Some(mut sum) = sum else { return };
        let wanted =
            (0..self.plan.config.partitions).filter(|&n| self.failover.tenure(n).is_some());
        if wanted.clone().count() > self.workers.len() && self.begin.elapsed() > TRY_AGAIN {
            sum.causes = vec![Cause::Interface];
        }
        let config = &self.plan.config;
        let status = Status {
            name: config.name.clone(),
            uptime: self.begin.elapsed(),
            longest: config.send.longest,
            encrypted: config.key.encrypts(),
            clamped: self.clamp.is_some(),
            adaptive: config.send.adaptive.is_some(),
            partitions: config.partitions,
            protected: self.workers.keys().copied().collect(),
            failover: self.failover.status(),
            split,
            aggregation: self.aggregation.as_ref().map(Aggregation::status),
            cache: self.plan.cache.as_ref().map(SharedCache::counters),
            sum,
        };
        let mut shared = self.controls.status.lock().unwrap_or_else(PoisonError::into_inner);
        *shared = Some(status);
    }
}

/// Sessions, each later than the one before.
struct Sessions {
    last: u64,
    random: u64,
}

impl Sessions {
    fn new() -> Result<Self, SetupError> {
        let random = getrandom::u64()
            .map_err(|error| SetupError::System("random numbers", io::Error::other(error)))?;
        if nanos_since_1970() < LONG_PAST {
            return Err(SetupError::Clock);
        }
        Ok(Sessions { last: 0, random })
    }

    /// Those that come are later than that one.
    fn follow(&mut self, start: u64) {
        self.last = self.last.max(start);
    }

    fn next(&mut self) -> SessionId {
        self.last = nanos_since_1970().max(self.last + 1);
        self.random = self.random.wrapping_add(1);
        SessionId { start: self.last, random: self.random }
    }
}

fn nanos_since_1970() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
}
