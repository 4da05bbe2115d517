//! Generation of requests, one at a time as the run goes.

use crate::scenario::trace::Trace;
use crate::scenario::{Background, Placement, Scenario, Sizes, Workload};
use anyhow::{Result, ensure};
use wellspring_core::{Duration, RandomStream, Seed};

/// What an application asks of the network.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// From one host to another.
    Transfer {
        /// Sender.
        from: u32,
        /// Receiver.
        to: u32,
        /// Size \[bytes\].
        bytes: u64,
    },
    /// A transfer of a trace.
    Traced {
        /// Its number there.
        flow: u32,
        /// Sender.
        from: u32,
        /// Receiver.
        to: u32,
        /// Size \[bytes\].
        bytes: u64,
    },
    /// A block to several hosts.
    Write {
        /// The client.
        from: u32,
        /// The replicas' hosts.
        to: Vec<u32>,
        /// Size \[bytes\].
        bytes: u64,
    },
    /// A block that several hosts have.
    Read {
        /// The client.
        to: u32,
        /// The replicas' hosts.
        from: Vec<u32>,
        /// The hosts from which parts are read without many-to-one sessions, one of `from` each
        /// (the one in the client's rack, or a random one).
        single: Vec<u32>,
        /// The hosts of the blocks that follow, where several are read at once.
        ahead: Vec<Vec<u32>>,
        /// Size \[bytes\].
        bytes: u64,
    },
    /// An endless flow that is stopped some time after its start.
    Timed {
        /// Sender.
        from: u32,
        /// Receiver.
        to: u32,
        /// How long it runs.
        duration: Duration,
    },
}

/// Hosts, and who runs background flows.
#[derive(Clone, Debug)]
pub struct Population {
    hosts_per_rack: u32,
    hosts_per_pod: u32,
    /// Hosts of the foreground.
    pub foreground: Vec<u32>,
    /// Hosts of the background, in the order of its ring.
    pub background: Vec<u32>,
}

impl Population {
    /// Divides the hosts.
    pub fn new(scenario: &Scenario, hosts: u32, seed: Seed) -> Population {
        let (hosts_per_rack, hosts_per_pod) = match scenario.topology.fat_tree() {
            Some(tree) => (tree.hosts_per_tor, tree.hosts_per_tor * tree.tors_per_pod),
            None => (hosts, hosts),
        };
        let Background { fraction, exclusive, .. } = scenario.background;
        let mut all: Vec<u32> = (0..hosts).collect();
        shuffle(&mut all, &mut seed.stream("background hosts"));
        let count = ((fraction * f64::from(hosts)) as usize).min(all.len());
        let background = if count >= 2 { all[..count].to_vec() } else { Vec::new() };
        let mut foreground: Vec<u32> = (0..hosts).collect();
        if exclusive {
            foreground.retain(|host| !background.contains(host));
        }
        Population { hosts_per_rack, hosts_per_pod, foreground, background }
    }

    fn rack(&self, host: u32) -> u32 {
        host / self.hosts_per_rack
    }

    fn pod(&self, host: u32) -> u32 {
        host / self.hosts_per_pod
    }

    fn pick(&self, random: &mut RandomStream, fits: impl Fn(u32) -> bool) -> Option<u32> {
        for _ in 0..64 {
            let host = self.foreground[random.below(self.foreground.len() as u64) as usize];
            if fits(host) {
                return Some(host);
            }
        }
        let fitting: Vec<u32> = self.foreground.iter().copied().filter(|h| fits(*h)).collect();
        fitting.get(random.below(fitting.len() as u64) as usize).copied()
    }

    /// Hosts of a block's replicas. Where no host meets the rule of a replica's place, any does
    /// (HDFS does the same).
    fn replicas(
        &self,
        client: u32,
        count: u32,
        placement: Placement,
        random: &mut RandomStream,
    ) -> Vec<u32> {
        let mut chosen: Vec<u32> = Vec::new();
        for number in 0..count {
            let taken = chosen.clone();
            let free = |host: u32| host != client && !taken.contains(&host);
            let host = match (placement, number) {
                (Placement::Random, _) => self.pick(random, free),
                (Placement::OutsideRack, _) => {
                    self.pick(random, |h| free(h) && self.rack(h) != self.rack(client))
                }
                (Placement::Hdfs, 0) => self.pick(random, free),
                (Placement::Hdfs, 1) => {
                    // A rack that has room for the third replica too.
                    let roomy = |h: u32| {
                        let same_rack = |o: &&u32| self.rack(**o) == self.rack(h) && free(**o);
                        count < 3 || self.foreground.iter().filter(same_rack).count() >= 2
                    };
                    self.pick(random, |h| {
                        free(h) && self.rack(h) != self.rack(taken[0]) && roomy(h)
                    })
                }
                (Placement::Hdfs, 2) if taken.len() == 2 => {
                    self.pick(random, |h| free(h) && self.rack(h) == self.rack(taken[1]))
                }
                (Placement::Hdfs, _) => self.pick(random, free),
            };
            chosen.extend(host.or_else(|| self.pick(random, free)));
        }
        chosen
    }

    /// The replica in the client's rack, or a random one.
    fn nearest(&self, client: u32, replicas: &[u32], random: &mut RandomStream) -> u32 {
        let near = replicas.iter().copied().find(|r| self.rack(*r) == self.rack(client));
        near.unwrap_or_else(|| replicas[random.below(replicas.len() as u64) as usize])
    }
}

/// Fisher and Yates.
pub(crate) fn shuffle(items: &mut [u32], random: &mut RandomStream) {
    for last in (1..items.len()).rev() {
        items.swap(last, random.below(last as u64 + 1) as usize);
    }
}

/// The requests of a run, in order of time.
#[derive(Debug)]
pub struct Requests {
    /// Requests known from the start, last first.
    listed: Listed,
    rounds: Option<Rounds>,
    stream: Option<Stream>,
    trace: Option<Trace>,
    population: Population,
}

/// Requests that are made again once all of them have ended.
#[derive(Debug)]
struct Rounds {
    left: u32,
    requests: Vec<Request>,
    jitter: Duration,
    random: RandomStream,
}

impl Rounds {
    fn new(
        workload: &Workload,
        listed: &[(Duration, Request)],
        random: RandomStream,
    ) -> Option<Rounds> {
        let Workload::Incast { jitter, rounds, .. } = workload else { return None };
        let requests = listed.iter().map(|entry| entry.1.clone()).collect();
        Some(Rounds { left: rounds.saturating_sub(1), requests, jitter: jitter.0, random })
    }
}

#[derive(Debug)]
struct Stream {
    left: u32,
    lambda: f64,
    at: f64,
    workload: Workload,
    arrivals: RandomStream,
    choices: RandomStream,
    sizes: RandomStream,
}

impl Requests {
    /// The requests of a workload among that population.
    ///
    /// # Errors
    /// Its hosts are too few, or not where they have to be.
    pub fn new(workload: &Workload, population: Population, seed: Seed) -> Result<Requests> {
        let (listed, rounds, stream, trace) = (Vec::new(), None, None, None);
        let mut requests = Requests { listed, rounds, stream, trace, population };
        let mut random = seed.stream("workload");
        match workload {
            Workload::Flows { sessions, lambda, .. }
            | Workload::Storage { sessions, lambda, .. } => {
                requests.stream = Some(Stream {
                    left: *sessions,
                    lambda: *lambda,
                    at: 0.0,
                    workload: workload.clone(),
                    arrivals: seed.stream("arrivals"),
                    choices: random,
                    sizes: seed.stream("sizes"),
                });
            }
            Workload::Trace { matrix } => {
                let timed = matrix.flows.iter().enumerate();
                let timed =
                    timed.filter_map(|(flow, of)| Some((of.start?, traced(matrix, flow as u32)?)));
                requests.listed = timed.collect();
                // Of flows that start at one time the first of the file comes first.
                requests.listed.reverse();
                requests.listed.sort_by_key(|entry| core::cmp::Reverse(entry.0));
                requests.trace = Some(matrix.clone());
            }
            _ => {
                requests.listed = list(workload, &requests.population, &mut random)?;
                requests.rounds = Rounds::new(workload, &requests.listed, random);
                requests.listed.sort_by_key(|entry| core::cmp::Reverse(entry.0));
            }
        }
        Ok(requests)
    }

    /// How many there are, at the start.
    pub fn total(&self) -> u32 {
        let rounds = 1 + self.rounds.as_ref().map_or(0, |rounds| rounds.left);
        let listed = (self.listed.len() as u32).saturating_mul(rounds);
        let listed = self.trace.as_ref().map_or(listed, |trace| trace.flows.len() as u32);
        self.stream.as_ref().map_or(listed, |stream| stream.left)
    }

    /// A flow of the trace has ended: the requests that start now.
    pub fn triggered(&mut self, flow: u32) -> Vec<Request> {
        let Some(trace) = &mut self.trace else { return Vec::new() };
        let flows = trace.ended(flow);
        flows.into_iter().filter_map(|flow| traced(trace, flow)).collect()
    }

    /// Whether requests wait for others to end.
    pub fn awaits(&self) -> bool {
        self.trace.as_ref().is_some_and(Trace::awaits)
    }

    /// Whether another round is to come.
    pub fn has_round(&self) -> bool {
        self.rounds.as_ref().is_some_and(|rounds| rounds.left > 0)
    }

    /// Begins the next round: its requests are the next ones, timed from its start.
    pub fn next_round(&mut self) {
        let Some(rounds) = &mut self.rounds else { return };
        rounds.left = rounds.left.saturating_sub(1);
        let span = rounds.jitter.as_picos();
        let at = |random: &mut RandomStream| Duration::from_picos(random.below(span + 1));
        let timed = rounds.requests.iter().map(|request| (at(&mut rounds.random), request.clone()));
        self.listed = timed.collect();
        self.listed.sort_by_key(|entry| core::cmp::Reverse(entry.0));
    }
}

impl Iterator for Requests {
    type Item = (Duration, Request);

    fn next(&mut self) -> Option<Self::Item> {
        let Some(stream) = &mut self.stream else { return self.listed.pop() };
        stream.left = stream.left.checked_sub(1)?;
        // Inversion: 1 - u is in (0, 1].
        stream.at += -(1.0 - stream.arrivals.unit()).ln() / stream.lambda.max(f64::MIN_POSITIVE);
        let at = Duration::from_picos((stream.at * 1e12) as u64);
        let (random, population) = (&mut stream.choices, &self.population);
        let client = population.pick(random, |_| true)?;
        let request = match &stream.workload {
            Workload::Flows { sizes, .. } => Request::Transfer {
                from: client,
                to: population.pick(random, |host| host != client)?,
                bytes: Sizes::draw(sizes, &mut stream.sizes),
            },
            Workload::Storage { size, replicas, writes, placement, .. } => {
                let is_write = random.chance(*writes);
                storage(population, client, *replicas, *placement, is_write, size.0, random)
            }
            _ => return None,
        };
        Some((at, request))
    }
}

/// A read or write of a replicated block.
pub(crate) fn storage(
    population: &Population,
    client: u32,
    replicas: u32,
    placement: Placement,
    is_write: bool,
    bytes: u64,
    random: &mut RandomStream,
) -> Request {
    let hosts = population.replicas(client, replicas, placement, random);
    if is_write {
        return Request::Write { from: client, to: hosts, bytes };
    }
    // The replicas of consecutive blocks lie elsewhere each time (SCDP §V-A, 3-block reads).
    let mut single = vec![population.nearest(client, &hosts, random)];
    let mut ahead = Vec::new();
    for _ in 1..replicas {
        let other = population.replicas(client, replicas, placement, random);
        single.push(population.nearest(client, &other, random));
        ahead.push(other);
    }
    Request::Read { to: client, from: hosts, single, ahead, bytes }
}

/// What is asked for at the start of a run.
type Listed = Vec<(Duration, Request)>;

fn traced(trace: &Trace, flow: u32) -> Option<Request> {
    let of = trace.flows.get(flow as usize)?;
    Some(Request::Traced { flow, from: of.from, to: of.to, bytes: of.bytes })
}

fn transfer(from: u32, to: u32, bytes: u64) -> (Duration, Request) {
    (Duration::ZERO, Request::Transfer { from, to, bytes })
}

fn list(workload: &Workload, population: &Population, random: &mut RandomStream) -> Result<Listed> {
    let mut hosts = population.foreground.clone();
    Ok(match workload {
        Workload::Permutation { size } => {
            // A random ring: nobody sends to itself.
            shuffle(&mut hosts, random);
            let next = |i: usize| hosts[(i + 1) % hosts.len()];
            (0..hosts.len()).map(|i| transfer(hosts[i], next(i), size.0)).collect()
        }
        Workload::Single { from, to, size } => vec![transfer(*from, *to, size.0)],
        Workload::Incast { senders, size, jitter, .. } => {
            shuffle(&mut hosts, random);
            let Some((&to, others)) = hosts.split_first() else { return Ok(Vec::new()) };
            let span = jitter.0.as_picos();
            (0..*senders as usize)
                .map(|number| {
                    let at = Duration::from_picos(random.below(span + 1));
                    let from = others[number % others.len()];
                    (at, Request::Transfer { from, to, bytes: size.0 })
                })
                .collect()
        }
        Workload::Outcast { near, far, size, jitter } => {
            let mut listed = outcast(population, (*near, *far), size.0)?;
            if jitter.0 > Duration::ZERO {
                let span = jitter.0.as_picos();
                for (at, _) in &mut listed {
                    *at = Duration::from_picos(random.below(span + 1));
                }
            }
            listed
        }
        Workload::Convergence { flows, interval, duration } => {
            let (to, senders) = (hosts[0], &hosts[1..]);
            (0..*flows)
                .map(|n| {
                    let from = senders[n as usize % senders.len()];
                    let at = interval.0 * u64::from(n);
                    (at, Request::Timed { from, to, duration: duration.0 })
                })
                .collect()
        }
        Workload::Flows { .. } | Workload::Storage { .. } | Workload::Trace { .. } => Vec::new(),
    })
}

/// Near senders to one receiver, and every third far host to another in its rack.
fn outcast(population: &Population, (near, far): (u32, u32), bytes: u64) -> Result<Listed> {
    let hosts = &population.foreground;
    let same_rack = |pair: &&[u32]| population.rack(pair[0]) == population.rack(pair[1]);
    let pair = hosts.windows(2).find(same_rack).map(|pair| [pair[0], pair[1]]);
    let [first, second] = pair.unwrap_or([hosts[0]; 2]);
    let same_pod = |host: &u32| population.pod(*host) == population.pod(first);
    let nearby = |host: &&u32| same_pod(host) && population.rack(**host) != population.rack(first);
    let nearby: Vec<u32> = hosts.iter().filter(nearby).copied().collect();
    let elsewhere: Vec<u32> = hosts.iter().filter(|host| !same_pod(host)).copied().collect();
    let needed = [near, far.saturating_mul(3).saturating_sub(2)];
    let there = [nearby.len(), elsewhere.len()];
    ensure!(
        pair.is_some() && there[0] >= needed[0] as usize && there[1] >= needed[1] as usize,
        "workload.kind = \"outcast\" needs a Fat-Tree with two hosts in a rack, {} in other racks of \
         its pod (workload.near) and {} in other pods (every third sends, workload.far), outside the \
         background: there are {}, {} and {}. Take a larger Fat-Tree, fewer senders or less background",
        needed[0],
        needed[1],
        if pair.is_some() { "two" } else { "no two" },
        there[0],
        there[1],
    );
    let near = nearby.into_iter().take(near as usize).map(|from| transfer(from, first, bytes));
    let far = elsewhere.into_iter().step_by(3).take(far as usize);
    Ok(near.chain(far.map(|from| transfer(from, second, bytes))).collect())
}
