//! Random schedule of sessions, kills, power cuts and faults.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};

use tempfile::TempDir;
use wellspring_core::Seed;
use wellspring_store::{DigestCache, Disk, Existing, Limits, Store, clean, remove_stale_parts_on};

use crate::account::{Account, Counters, Server, lock};
use crate::objects::{NAMES, Object};
use crate::process::{Others, Process};
use crate::session::{Receiver, Session, look, part_limits};
use crate::virtual_disk::{Faults, VirtualDisk};

/// Sessions at one time: six writers, as of one name.
const SESSIONS: usize = 6;
/// Sessions under way, each within a call of the one before.
const MAX_DEPTH: u32 = 3;
/// Steps in which a session without faults has ended.
const ENOUGH: usize = 100;

/// What a seed led to.
#[derive(Clone, Debug)]
pub struct Run {
    /// What must not be, in the order in which it was seen.
    pub breaches: Vec<String>,
    /// What happened.
    pub counters: Counters,
    /// A hash of all calls on the disk and their outcomes: the same for the same seed.
    pub trace: u64,
}

/// One run.
pub(crate) struct Simulation {
    account: Account,
    itself: Weak<Simulation>,
    server: Mutex<Option<Arc<Server>>>,
    sessions: [Mutex<Option<Session>>; SESSIONS],
    /// Bits of the sessions that a call of theirs interrupts.
    busy: AtomicUsize,
}

thread_local! {
    /// What the store does on several threads it does on this one.
    static ONE_THREAD: Option<rayon::ThreadPool> =
        rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build().ok();
}

/// Runs a seed in a directory in memory where there is one.
pub fn run(seed: u64) -> Run {
    let home = in_memory();
    run_in(home.path(), seed)
}

/// A directory in memory where there is one, for runs on this thread alone.
pub(crate) fn in_memory() -> TempDir {
    ONE_THREAD.with(|pool| assert!(pool.is_some(), "this thread is in a pool already"));
    let memory = Path::new("/dev/shm");
    let home = match memory.is_dir() {
        true => tempfile::tempdir_in(memory),
        false => tempfile::tempdir(),
    };
    home.expect("a temporary directory")
}

fn run_in(home: &Path, seed: u64) -> Run {
    let root = home.join("served");
    fs::create_dir(&root).expect("a directory");
    fs::write(home.join("outside"), "not to be touched").expect("written");
    let mode = |meta: fs::Metadata| meta.permissions().mode() & 0o777;
    let usual_mode = fs::metadata(home.join("outside")).map(mode).expect("a file");
    let rng = Seed(seed).stream("fault-sim");
    let disk = VirtualDisk::new(&root, Object::all(), rng);
    disk.hold(&[], disk.chance(0.5));
    let simulation = Arc::new_cyclic(|itself| Simulation {
        account: Account::new(disk, usual_mode),
        itself: Weak::clone(itself),
        server: Mutex::default(),
        sessions: Default::default(),
        busy: AtomicUsize::new(0),
    });
    simulation.run();
    let disk = &simulation.account.disk;
    let outside = fs::read(home.join("outside")).unwrap_or_default();
    if outside != b"not to be touched" || fs::read_dir(home).expect("home").count() != 2 {
        disk.breach("something outside of the directory was touched".to_owned());
    }
    let counters = simulation.account.counters();
    let (breaches, trace) = (disk.breaches(), disk.trace());
    Run { breaches, counters, trace }
}

impl Simulation {
    fn run(&self) {
        self.start_server();
        self.account.disk.set_faults(self.choose_faults());
        let steps = 30 + self.account.disk.below(70);
        for _ in 0..steps {
            if !self.account.disk.breaches().is_empty() {
                return;
            }
            self.one_step();
            self.bury();
        }
        self.end();
    }

    /// Half of the runs have no fault but kills and power cuts.
    fn choose_faults(&self) -> Faults {
        let interruption = [0.0, 0.05, 0.2][self.account.disk.below(3) as usize];
        let none = Faults { sender: 0.02, interruption, ..Faults::default() };
        match self.account.disk.below(6) {
            0 => Faults { sync: 0.2, ..none },
            1 => Faults { write: 0.05, full: 0.3, ..none },
            2 => Faults { call: 0.01, write: 0.01, sync: 0.05, name: 0.05, full: 0.1, ..none },
            _ => none,
        }
    }

    fn one_step(&self) {
        match self.account.disk.below(100) {
            0..=1 => {
                if let Some(server) = self.server() {
                    server.process.kill_after(self.account.disk.below(12));
                }
            }
            2..=4 => {
                let slot = self.account.disk.below(SESSIONS as u64) as usize;
                if let Some(session) = &*lock(&self.sessions[slot])
                    && let Receiver::Client(process) = &session.receiver
                {
                    process.kill_after(self.account.disk.below(12));
                }
            }
            5..=6 => self.account.disk.end_power_after(self.account.disk.below(25)),
            7..=10 => {
                if let Some(server) = self.server() {
                    look(&self.account, &server, self.choose_name());
                }
            }
            11 => {
                if let Some(server) = self.server() {
                    let wanted = self.account.disk.below(10_000);
                    // What cannot be removed stays.
                    let _ = server.store.trim_parts(&part_limits(), wanted);
                }
            }
            _ => self.step_session(self.account.disk.below(SESSIONS as u64) as usize),
        }
    }

    fn choose_name(&self) -> usize {
        if self.account.disk.chance(0.6) {
            0
        } else {
            self.account.disk.below(NAMES.len() as u64) as usize
        }
    }

    fn server(&self) -> Option<Arc<Server>> {
        lock(&self.server).clone()
    }

    /// Lets a session go on, or begins one.
    fn step_session(&self, slot: usize) {
        if self.busy.fetch_or(1 << slot, Relaxed) & (1 << slot) != 0 {
            return;
        }
        let taken = lock(&self.sessions[slot]).take();
        if let Some(mut session) = taken.or_else(|| self.new_session()) {
            session.step(&self.account);
            if !session.is_over() {
                *lock(&self.sessions[slot]) = Some(session);
            }
        }
        self.busy.fetch_and(!(1 << slot), Relaxed);
    }

    fn new_session(&self) -> Option<Session> {
        let receiver = match self.account.disk.chance(0.6) {
            true => Receiver::Server(self.server()?),
            false => Receiver::Client(self.new_process()),
        };
        let object = self.account.disk.below(self.account.disk.objects().len() as u64) as usize;
        let replace = self.account.disk.chance(0.7);
        let existing = if replace { Existing::Replace } else { Existing::Keep };
        let how = (self.account.disk.chance(0.6), self.account.disk.chance(0.5));
        Some(Session::new(receiver, (self.choose_name(), object), existing, how))
    }

    fn new_process(&self) -> Arc<Process> {
        let itself = Weak::clone(&self.itself) as Weak<dyn Others>;
        Process::new(Arc::clone(&self.account.disk), itself)
    }

    fn start_server(&self) {
        let process = self.new_process();
        let disk = Arc::clone(&process) as Arc<dyn Disk>;
        let limits = Limits { object_len: 20_000, objects: 4, total_len: 1 << 30, keep_free: 0 };
        let store = Store::open_on(disk, self.account.disk.root(), limits).expect("a directory");
        let server = Server { process, store, cache: DigestCache::in_memory() };
        // As a server does when it starts; what cannot be removed stays.
        let _ = remove_stale_parts_on(&*server.process, self.account.disk.root(), true);
        let _ = server.store.trim_parts(&part_limits(), 0);
        *lock(&self.server) = Some(Arc::new(server));
    }

    /// What belongs to processes that have died is gone. A server is started again, and the power comes back.
    fn bury(&self) {
        for slot in &self.sessions {
            let dead = lock(slot).take_if(|session| !session.process().is_alive());
            if dead.is_some_and(|session| matches!(session.receiver, Receiver::Client(_))) {
                self.account.count(|counters| counters.kills += 1);
            }
        }
        if self.account.disk.is_off() {
            *lock(&self.server) = None;
            self.account.count(|counters| counters.power_cuts += 1);
            self.account.disk.restore_power();
            self.account.check_names();
            for (number, name) in NAMES.iter().enumerate() {
                self.account.ledger().settle(number, self.account.disk.check_name(name));
            }
            self.start_server();
        } else if self.server().is_some_and(|server| !server.process.is_alive()) {
            self.account.count(|counters| counters.kills += 1);
            self.start_server();
        }
    }

    /// Once faults are over every session ends, every object can be put, and nothing is left but objects.
    fn end(&self) {
        self.account.disk.set_faults(Faults::default());
        self.account.disk.end_power_after(u64::MAX);
        self.bury();
        for slot in &self.sessions {
            let left = lock(slot).take();
            drop(left);
        }
        self.start_server();
        for (name, path) in NAMES.iter().enumerate() {
            let object = self.account.disk.below(self.account.disk.objects().len() as u64) as usize;
            let Some(server) = self.server() else { return };
            // Whatever was chosen, it is put: another one is there or none.
            let receiver = Receiver::Server(server);
            let mut session =
                Session::new(receiver, (name, object), Existing::Replace, (true, true));
            let mut steps = 0;
            while !session.is_over() && steps < ENOUGH {
                session.step(&self.account);
                steps += 1;
            }
            let there = self.account.disk.check_name(path);
            let given_up = self.account.disk.breaches().is_empty() && there != Some(object);
            if given_up || !session.is_over() {
                self.account.disk.breach(format!("{path}: object {object} cannot be put"));
            }
        }
        self.account.check_names();
        if clean(self.account.disk.root()).is_err() {
            self.account.disk.breach("the directory cannot be cleaned".to_owned());
        }
        for folder in ["", "folder"] {
            let entries = fs::read_dir(self.account.disk.root().join(folder));
            for entry in entries.into_iter().flatten() {
                let name = entry.expect("an entry").file_name();
                if name.to_string_lossy().starts_with('.') {
                    self.account.disk.breach(format!("{} was left", name.display()));
                }
            }
        }
    }
}

impl Others for Simulation {
    fn go_on(&self) {
        if self.busy.load(Relaxed).count_ones() < MAX_DEPTH {
            self.step_session(self.account.disk.below(SESSIONS as u64) as usize);
        }
    }
}
