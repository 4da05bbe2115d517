//! Failover and load sharing between the appliances of a site (§4.6's future work), without I/O.
//!
//! The addresses on both sides of the link are cut into partitions, each with an engine of its own. All appliances of a
//! site see the same packets, and an assignment says which of them protects which partition. Of those that hear each
//! other the first makes it, and every hello carries it: partitions of an appliance that has said nothing for a stated
//! time go to the others, come back to it when it speaks again, and one at a time moves from the busiest to
//! the idlest. A partition is given up only once its new owner says that it protects it, so that hellos that are
//! lost make two protect it for a while, and never none.

use wellspring_core::{Duration, Time};

use crate::assignment::{Assignment, Edition, MAX_APPLIANCES};
use crate::auth::{PresharedKey, Sealer, SessionId, Verifier};
use crate::drop_reason::DropReason;
use crate::hello::{Hello, emit_hello, parse_hello};
use crate::partitions::{MAX_PARTITIONS, Partitions};
use crate::wire::Sealed;

/// Hellos in the time after which a silent appliance counts as gone: so many are lost before.
const HELLOS_IN_SILENCE: u64 = 5;

/// How a site is shared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FailoverConfig {
    /// Partitions of the site, 1 to [`MAX_PARTITIONS`]: the same at all appliances of both sites.
    pub partitions: u8,
    /// Appliances of this site, 2 to [`MAX_APPLIANCES`].
    pub appliances: u8,
    /// Which of them this is, from 0.
    pub number: u8,
    /// How long another may say nothing before its partitions are taken.
    pub silence: Duration,
    /// How often a partition may move by load; never, if that is none.
    pub balance: Option<Duration>,
}

/// What there was between the appliances of a site.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct FailoverCounters {
    /// Hellos heard.
    pub hellos: u64,
    /// Hellos dropped, by [`DropReason`].
    pub dropped: [u64; DropReason::COUNT],
    /// Times partitions of a silent appliance were taken.
    pub takeovers: u64,
    /// Times an appliance that had been silent was given partitions back.
    pub returns: u64,
    /// Partitions taken from an appliance that speaks.
    pub moved_here: u64,
    /// Partitions given to an appliance that was not silent.
    pub moved_away: u64,
}

/// Another appliance of the site.
#[derive(Debug)]
struct Member {
    /// None for this appliance itself.
    verifier: Option<Verifier>,
    gone_at: Time,
    /// It spoke lately.
    heard: bool,
    /// It spoke lately, or may do so soon.
    live: bool,
    /// It was silent, and was given nothing since.
    returns: bool,
    claims: Partitions,
    edition: Edition,
}

/// One of the appliances that share a site's partitions.
#[derive(Debug)]
pub struct Failover {
    config: FailoverConfig,
    sealer: Sealer,
    members: Vec<Member>,
    assignment: Assignment,
    /// Nothing was heard of an assignment but the first.
    fresh: bool,
    /// What is to be protected here, and what is.
    held: Partitions,
    running: Partitions,
    /// Of those held, what another began to protect meanwhile: the other site believes its sessions.
    contested: Partitions,
    /// By partition: counts up whenever its engine must begin anew.
    tenures: Vec<u64>,
    /// By partition, as far as it is known \[packets a second\].
    loads: Vec<u32>,
    /// Partitions of which this appliance has measured the load since it took them.
    measured: Partitions,
    hello_at: Time,
    balance_at: Option<Time>,
    /// Start of the newest session that this site has used \[ns since 1970\].
    newest_session: u64,
    counters: FailoverCounters,
}

impl Failover {
    /// One appliance's part, from `now` on. `site` distinguishes the site from the other one, which has the
    /// same key; all appliances of a site give the same.
    ///
    /// # Panics
    /// The configuration's numbers are not within their limits.
    pub fn new(
        key: &PresharedKey,
        site: &[u8],
        session: SessionId,
        config: FailoverConfig,
        now: Time,
    ) -> Self {
        let FailoverConfig { partitions, appliances, number, silence, balance } = config;
        assert!((1..=MAX_PARTITIONS).contains(&partitions), "{partitions} partitions");
        assert!((2..=MAX_APPLIANCES).contains(&appliances) && number < appliances, "{config:?}");
        let key_of = |member: u8| key.for_site(&[site, &[appliances, member]].concat());
        let member = |member: u8| Member {
            verifier: (member != number).then(|| Verifier::new(&key_of(member), session)),
            gone_at: now + silence,
            heard: false,
            live: true,
            returns: false,
            claims: Partitions::NONE,
            edition: Edition::default(),
        };
        let mut failover = Failover {
            config,
            sealer: Sealer::new(&key_of(number), session),
            members: (0..appliances).map(member).collect(),
            assignment: Assignment::at_home(partitions, appliances),
            fresh: true,
            held: Partitions::NONE,
            running: Partitions::NONE,
            contested: Partitions::NONE,
            tenures: vec![0; usize::from(partitions)],
            loads: vec![0; usize::from(partitions)],
            measured: Partitions::NONE,
            hello_at: now,
            balance_at: balance.map(|balance| now + balance),
            newest_session: 0,
            counters: FailoverCounters::default(),
        };
        failover.held = failover.assigned_here();
        failover
    }

    /// What there was.
    pub fn counters(&self) -> &FailoverCounters {
        &self.counters
    }

    /// Whether another appliance of the site spoke lately.
    pub fn is_heard(&self, appliance: u8) -> bool {
        self.members.get(usize::from(appliance)).is_some_and(|member| member.heard)
    }

    /// Whom the assignment gives each partition.
    pub fn owners(&self) -> &[u8] {
        self.assignment.owners()
    }

    /// Loads by partition, as far as they are known \[packets a second\].
    pub fn loads(&self) -> &[u32] {
        &self.loads
    }

    /// What is to be protected here.
    pub fn owned(&self) -> Partitions {
        self.held
    }

    /// Start of the newest session that the others' hellos speak of \[ns since 1970\]: the other site believes
    /// only newer ones.
    pub fn newest_session(&self) -> u64 {
        self.newest_session
    }

    /// A number for a partition that is protected here: when it changes, the partition's engine must
    /// begin a new session, because another appliance's was heard in between.
    pub fn tenure(&self, partition: u8) -> Option<u64> {
        self.held.has(partition).then(|| self.tenures[usize::from(partition)])
    }

    /// These partitions are protected here now, the newest of them by a session that started then \[ns since 1970\].
    pub fn on_running(&mut self, now: Time, running: Partitions, newest_session: u64) {
        if running != self.running {
            self.running = running;
            self.hello_at = now;
        }
        self.newest_session = self.newest_session.max(newest_session);
    }

    /// A partition that is protected here has that load \[packets a second\].
    pub fn on_load(&mut self, partition: u8, load: u32) {
        if self.held.has(partition) {
            self.loads[usize::from(partition)] = load;
            self.measured = self.measured.with(partition);
        }
    }

    /// When [`Failover::handle_timeout`] is to be called.
    pub fn poll_timeout(&self) -> Time {
        let silent = self.others().filter(|(_, member)| member.live).map(|(_, m)| m.gone_at);
        let balance = self.balance_at.filter(|_| self.is_first());
        Time::earliest(silent.chain(balance).chain([self.hello_at])).unwrap_or(self.hello_at)
    }

    /// It is that late: appliances that were silent for too long lose their partitions, a partition may move by
    /// load, and a hello that is due is appended to `out`, for all the others.
    pub fn handle_timeout(&mut self, now: Time, out: &mut Vec<u8>) {
        for member in &mut self.members {
            if member.verifier.is_some() && member.live && now.has_reached(member.gone_at) {
                (member.live, member.heard, member.returns) = (false, false, true);
                member.claims = Partitions::NONE;
            }
        }
        self.settle_contests();
        if self.is_first() {
            self.assign(now);
        }
        self.release();
        if now.has_reached(self.hello_at) {
            self.hello_at =
                now + Duration::from_picos(self.config.silence.as_picos() / HELLOS_IN_SILENCE);
            self.hello(false, out);
        }
    }

    /// Appends a last hello, after which the others need not wait.
    pub fn farewell(&mut self, out: &mut Vec<u8>) {
        self.hello(true, out);
    }

    /// Takes in what another appliance may have sent, from whose address it came.
    ///
    /// # Errors
    /// Why it is not believed; it was counted.
    pub fn handle_datagram(
        &mut self,
        now: Time,
        from: u8,
        datagram: &[u8],
    ) -> Result<(), DropReason> {
        let hello = self.open(from, datagram).inspect_err(|&why| {
            self.counters.dropped[why as usize] += 1;
        })?;
        self.counters.hellos += 1;
        let silence = self.config.silence;
        let member = &mut self.members[usize::from(from)];
        if hello.leaves {
            member.gone_at = now;
            return Ok(());
        }
        let returned = !member.live;
        (member.live, member.heard, member.gone_at) = (true, true, now + silence);
        let begun = hello.claims.without(member.claims);
        (member.claims, member.edition) = (hello.claims, hello.edition);
        self.newest_session = self.newest_session.max(hello.newest_session);
        self.learn_loads(&hello);
        for partition in begun.iter().filter(|&partition| self.held.has(partition)) {
            if self.assignment.owner(partition) == self.config.number {
                self.contested = self.contested.with(partition);
            }
        }
        self.settle_contests();
        let is_newer = hello.edition > self.assignment.edition;
        if self.is_first() {
            self.hear_as_first(now, from, &hello, returned, is_newer);
        } else if is_newer && self.first() == from {
            self.install(hello.assignment(), hello.silent);
            // Those who are to give something up wait to hear that this appliance follows.
            self.hello_at = now;
        }
        self.fresh = false;
        self.release();
        Ok(())
    }

    /// What the one that makes the assignment does with a hello.
    fn hear_as_first(
        &mut self,
        now: Time,
        from: u8,
        hello: &Hello,
        returned: bool,
        is_newer: bool,
    ) {
        let mut assignment = self.assignment.clone();
        let mut changed = is_newer;
        if is_newer {
            // Made while this one was not there, or not heard: the next one is newer still.
            assignment.edition.version = hello.edition.version;
            if self.fresh {
                assignment = hello.assignment();
                assignment.bring_home(self.config.number, self.config.appliances);
            }
        }
        changed |= returned && assignment.bring_home(from, self.config.appliances);
        if changed {
            self.make(now, assignment);
        }
    }

    /// Gives partitions of the silent to others, and moves one by load if that is due.
    fn assign(&mut self, now: Time) {
        let live: Vec<bool> = self.members.iter().map(|member| member.live).collect();
        let mut assignment = self.assignment.clone();
        let mut changed = assignment.take_from_dead(&live, &self.loads);
        if self.balance_at.is_some_and(|at| now.has_reached(at)) {
            self.balance_at = self.config.balance.map(|balance| now + balance);
            changed |= assignment.balance(&live, &self.loads);
        }
        if changed {
            self.make(now, assignment);
        }
    }

    /// Installs an assignment of this appliance's own, and announces it.
    fn make(&mut self, now: Time, mut assignment: Assignment) {
        let version = assignment.edition.version + 1;
        assignment.edition = Edition { version, author: self.config.number };
        self.install(assignment, self.silent());
        self.hello_at = now;
        // Loads are measured anew before the next move.
        self.balance_at = self.config.balance.map(|balance| now + balance);
    }

    /// Goes over to an assignment, made by one that takes those for gone: takes what it gives to this appliance.
    fn install(&mut self, assignment: Assignment, silent: u16) {
        let before = std::mem::replace(&mut self.assignment, assignment);
        let mut from_silent = false;
        for partition in self.assigned_here().without(self.held).iter() {
            let is_silent = silent >> before.owner(partition) & 1 == 1;
            from_silent |= is_silent;
            self.counters.moved_here += u64::from(!is_silent);
            self.held = self.held.with(partition);
            self.measured = self.measured.without(one(partition));
            self.tenures[usize::from(partition)] += 1;
        }
        self.counters.takeovers += u64::from(from_silent);
    }

    /// Gives up partitions whose owners say that they protect them, by the same assignment: an owner may be about to
    /// give up what it protects by an older one.
    fn release(&mut self) {
        let mut returned = Vec::new();
        for partition in self.held.iter().collect::<Vec<u8>>() {
            let number = self.assignment.owner(partition);
            let owner = &mut self.members[usize::from(number)];
            let agrees = owner.live && owner.edition == self.assignment.edition;
            if number == self.config.number || !agrees || !owner.claims.has(partition) {
                continue;
            }
            if std::mem::take(&mut owner.returns) {
                returned.push(number);
                self.counters.returns += 1;
            }
            self.counters.moved_away += u64::from(!returned.contains(&number));
            self.held = self.held.without(one(partition));
            self.contested = self.contested.without(one(partition));
        }
    }

    /// Where another has stopped protecting what is protected here, a new session must begin: the other site believed
    /// the other's.
    fn settle_contests(&mut self) {
        let claimed = self.others().fold(Partitions::NONE, |all, (_, m)| all.union(m.claims));
        for partition in self.contested.without(claimed).iter() {
            self.tenures[usize::from(partition)] += 1;
            self.contested = self.contested.without(one(partition));
        }
    }

    fn learn_loads(&mut self, hello: &Hello) {
        for partition in hello.claims.iter() {
            let at = usize::from(partition);
            if let Some(load) = hello.load(partition)
                && let Some(known) = self.loads.get_mut(at)
            {
                *known = load;
            }
        }
    }

    fn open(&mut self, from: u8, datagram: &[u8]) -> Result<Hello, DropReason> {
        let member = self.members.get_mut(usize::from(from)).ok_or(DropReason::Foreign)?;
        let verifier = member.verifier.as_mut().ok_or(DropReason::Reflected)?;
        let sealed = Sealed::parse(datagram)?;
        let mut plain = Vec::new();
        // Each appliance of a site has a key of its own: none takes its own hellos for another's.
        let hello = parse_hello(&sealed.opened(verifier, &mut plain, |_| true)?)?;
        // Those that do not cut alike cannot share.
        let alike = hello.partitions == self.config.partitions
            && hello.appliances == self.config.appliances
            && hello.number == from;
        if alike { Ok(hello) } else { Err(DropReason::Malformed) }
    }

    fn hello(&mut self, leaves: bool, out: &mut Vec<u8>) {
        let claims = self.running.common(self.held);
        let FailoverConfig { appliances, number, .. } = self.config;
        let mut hello = Hello::new(number, appliances, &self.assignment);
        (hello.leaves, hello.silent, hello.claims) = (leaves, self.silent(), claims);
        hello.newest_session = self.newest_session;
        for partition in self.measured.common(claims).iter() {
            hello.set_load(partition, self.loads[usize::from(partition)]);
        }
        emit_hello(&mut self.sealer, &hello, out);
    }

    fn others(&self) -> impl Iterator<Item = (u8, &Member)> {
        (0_u8..).zip(&self.members).filter(|(_, member)| member.verifier.is_some())
    }

    /// Those that are taken for gone, one bit each.
    fn silent(&self) -> u16 {
        let gone = self.others().filter(|(_, member)| !member.live);
        gone.fold(0, |all, (number, _)| all | 1 << number)
    }

    /// The first of those that are there.
    fn first(&self) -> u8 {
        let live = self.members.iter().position(|member| member.live);
        live.map_or(self.config.number, |number| number as u8)
    }

    fn is_first(&self) -> bool {
        self.first() == self.config.number
    }

    fn assigned_here(&self) -> Partitions {
        let owners = (0..).zip(self.assignment.owners());
        let here = owners.filter(|&(_, &owner)| owner == self.config.number);
        here.fold(Partitions::NONE, |all, (partition, _)| all.with(partition))
    }
}

fn one(partition: u8) -> Partitions {
    Partitions::NONE.with(partition)
}
