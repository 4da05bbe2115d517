//! Clients: each transfer by a process of its own, whose claims are checked.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout_at};
use wellspring_client::driver::{DriverConfig, Failure};
use wellspring_client::store::{Existing, ObjectName, StoreError};
use wellspring_client::{
    Client, ClientConfig, FetchError, FetchOptions, FetchReport, Host, HostTrouble, PutError,
    PutOptions, PutReport, ReceiverState, ReplicaState, Target,
};

use super::server::PORT;
use super::world::World;
use crate::account::lock;
use crate::ledger::{Ending, Under};
use crate::objects::NAMES;

/// Longer than any datagram is on its way and then waits.
const QUIET_AFTER: Duration = Duration::from_secs(1);

/// A transfer to be tried.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    /// The object under a name, of that number.
    Get { name: usize, object: usize, servers: Vec<usize>, existing: Existing },
    /// An object of that number, put under a name.
    Put { name: usize, object: usize, servers: Vec<usize>, overwrite: bool },
}

/// What a client was told.
enum Told {
    Get(Result<FetchReport, FetchError>),
    Put(Result<PutReport, PutError>),
}

/// How a process ended.
enum End {
    Told(Told),
    Died,
    Endless,
}

/// What a process does, by itself.
struct Task {
    hosts: Vec<Host>,
    place: Target,
    fetch: FetchOptions,
    source: PathBuf,
    put: PutOptions,
    gets: bool,
}

impl Task {
    async fn run(self, client: Client) -> Told {
        match self.gets {
            true => Told::Get(client.fetch(&self.hosts, &self.fetch, self.place).await),
            false => Told::Put(client.put(&self.source, &self.hosts, &self.put).await),
        }
    }
}

impl World {
    /// Tries a transfer; true if all that was wanted was done.
    pub(crate) async fn attempt(&self, wanted: &Wanted) -> bool {
        self.count(|counters| counters.attempts += 1);
        let machine = self.client.start();
        let (tell, heard) = oneshot::channel();
        let (config, task) = (self.client_config(), self.task(wanted));
        self.end_left_if_quiet();
        let under = self.begin(wanted);
        machine.run(async move {
            // A machine that is alive opens its socket.
            let Ok(client) = Client::new(config) else { return };
            // Nobody waits who has seen it die.
            let _ = tell.send(task.run(client).await);
        });
        let began = Instant::now();
        let limit = began.max(self.faults_end) + 6 * self.plan.timeout + Duration::from_secs(30);
        let end = tokio::select! {
            biased;
            () = machine.died() => End::Died,
            told = timeout_at(limit, heard) => match told {
                Ok(Ok(told)) if machine.is_alive() => End::Told(told),
                Ok(_) => End::Died,
                Err(_) => End::Endless,
            },
        };
        let mut died = false;
        let is_done = match end {
            End::Told(Told::Get(outcome)) => self.got(wanted, &under, outcome),
            End::Told(Told::Put(outcome)) => self.put(&under, outcome),
            End::Died => {
                died = true;
                self.end_all(&under, Ending::Unknown);
                false
            }
            End::Endless => {
                let after = began.elapsed();
                self.breach(format!("no end after {after:?} of {wanted:?}"));
                self.end_all(&under, Ending::Unknown);
                false
            }
        };
        if !died {
            // It ends its sessions, and then itself.
            sleep(Duration::from_millis(3 + 3 * self.plan.work)).await;
        }
        self.client.bury(died).await;
        *lock(&self.client_ended) = Instant::now();
        is_done
    }

    fn client_config(&self) -> ClientConfig {
        let mut driver = DriverConfig::new(SocketAddr::new(self.client.ip, 0));
        driver.workers = 2;
        driver.keys = self.keys.as_ref().map(|keys| Arc::clone(&keys.client));
        ClientConfig::default().driver(driver).timeout(self.plan.timeout).insecure(true)
    }

    fn task(&self, wanted: &Wanted) -> Task {
        let (name, object, servers, gets) = match wanted {
            Wanted::Get { name, object, servers, .. } => (*name, *object, servers, true),
            Wanted::Put { name, object, servers, .. } => (*name, *object, servers, false),
        };
        let named = || ObjectName::new(NAMES[name]).expect("a name");
        let address = |server: &usize| SocketAddr::new(self.hosts[*server].site.ip, PORT);
        let existing = match wanted {
            Wanted::Get { existing, .. } => *existing,
            Wanted::Put { .. } => Existing::Keep,
        };
        let overwrite = matches!(wanted, Wanted::Put { overwrite: true, .. });
        Task {
            hosts: servers.iter().map(|server| Host::from(address(server))).collect(),
            place: Target::File { path: self.client.disk.root().join(NAMES[name]), existing },
            fetch: FetchOptions::new(named()).cut(self.plan.cut).resume(self.plan.resume),
            source: self.sources.join(object.to_string()),
            put: PutOptions::new(named())
                .cut(self.plan.cut)
                .resume(self.plan.resume)
                .overwrite(overwrite),
            gets,
        }
    }

    /// What clients began and left is over where no transfer is under way and nothing on its way to begin one.
    fn end_left_if_quiet(&self) {
        if lock(&self.client_ended).elapsed() >= QUIET_AFTER {
            for host in self.hosts.iter().filter(|host| host.transfers() == 0) {
                lock(&host.site.ledger).end_left();
            }
        }
    }

    /// Notes where the transfer may change what is under a name: by place, 0 the client's.
    fn begin(&self, wanted: &Wanted) -> Vec<(usize, Under, bool)> {
        match wanted {
            Wanted::Get { name, object, existing, .. } => {
                let under = lock(&self.client.ledger).begin(*name, *object);
                vec![(0, under, *existing == Existing::Replace)]
            }
            Wanted::Put { name, object, servers, overwrite } => {
                let begin = |server: &usize| {
                    let host = &self.hosts[*server];
                    let mut ledger = lock(&host.site.ledger);
                    // It may be there already.
                    let replaces =
                        *overwrite && host.overwrite || ledger.allows(*name, Some(*object));
                    (server + 1, ledger.begin(*name, *object), replaces)
                };
                servers.iter().map(begin).collect()
            }
        }
    }

    fn end_one(&self, (place, under, replaces): (usize, Under, bool), ending: Ending) {
        let site = match place.checked_sub(1) {
            None => &self.client,
            Some(server) => &self.hosts[server].site,
        };
        if ending == Ending::Unknown {
            lock(&site.ledger).leave(under);
        } else if !lock(&site.ledger).end(under, ending, replaces) {
            self.breach(format!("{}: an object replaced one that was to be kept", site.ip));
        }
        site.check_names();
    }

    fn end_all(&self, under: &[(usize, Under, bool)], ending: Ending) {
        under.iter().for_each(|under| self.end_one(*under, ending));
    }

    fn got(
        &self,
        wanted: &Wanted,
        under: &[(usize, Under, bool)],
        outcome: Result<FetchReport, FetchError>,
    ) -> bool {
        match outcome {
            Ok(report) => {
                let Wanted::Get { object, servers, .. } = wanted else { return false };
                if report.digest != self.client.disk.objects()[*object].digest {
                    self.breach(format!("another object was fetched than {object}"));
                }
                let is_accused = |state: &ReplicaState| matches!(state, ReplicaState::Excluded(_));
                let replicas = servers.iter().zip(&report.replicas);
                let honest = replicas.filter(|(server, _)| !self.plan.is_liar(**server));
                for (_, replica) in honest.filter(|_| !self.plan.damages()) {
                    if is_accused(&replica.state) || replica.altered > 0 {
                        self.breach(format!("it altered nothing, and yet {replica:?}"));
                    }
                }
                self.count(|counters| {
                    counters.got += 1;
                    counters.resumed_bytes += report.resumed;
                    counters.returns +=
                        report.replicas.iter().map(|r| u64::from(r.returns)).sum::<u64>();
                });
                self.end_all(under, Ending::Complete);
                true
            }
            Err(error) => {
                let no_such_object =
                    |host: &wellspring_client::HostError| host.trouble == HostTrouble::NotFound;
                let is_wrong = match &error {
                    FetchError::NoReplica(hosts) => hosts.iter().any(no_such_object),
                    FetchError::Differ { .. }
                    | FetchError::Geometry
                    | FetchError::Store(StoreError::BadDigest { .. })
                    | FetchError::Session(Failure::Stopped) => true,
                    // Liars are left for the one that is honest.
                    FetchError::Session(Failure::Altered) => !self.plan.damages(),
                    _ => false,
                };
                if is_wrong {
                    self.breach(format!("a client was told, and it is not so: {error}"));
                }
                let is_refused = matches!(error, FetchError::Store(StoreError::Exists(_)));
                self.fails(&error, |counters| counters.not_got += 1);
                let ending = if is_refused { Ending::Refused } else { Ending::Unknown };
                self.end_all(under, ending);
                false
            }
        }
    }

    fn put(&self, under: &[(usize, Under, bool)], outcome: Result<PutReport, PutError>) -> bool {
        let (report, is_done) = match outcome {
            Ok(report) => (Some(report), true),
            Err(error) => {
                self.fails(&error, |counters| counters.not_put += 1);
                let report = match error {
                    PutError::Incomplete(report) => Some(*report),
                    _ => None,
                };
                (report, false)
            }
        };
        let receivers = report.iter().flat_map(|report| &report.receivers);
        let complete: Vec<bool> =
            receivers.map(|of| matches!(of.state, ReceiverState::Complete(_))).collect();
        for (number, under) in under.iter().enumerate() {
            let ending = match complete.get(number) {
                Some(true) => Ending::Complete,
                _ => Ending::Unknown,
            };
            self.end_one(*under, ending);
        }
        if is_done {
            self.count(|counters| counters.put += 1);
            if complete.len() != under.len() || complete.contains(&false) {
                self.breach("a put without a quorum was done before all had the object".to_owned());
            }
        }
        is_done
    }
}
