//! Session that receives one object: offered, taken up, written block by block, given its name.

use std::io::Read;
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use wellspring_store::{
    Disk, Existing, HashProgress, ObjectName, ObjectSink, PartFile, PartLimits, StoreError,
    hash_file, remove_stale_parts_on,
};

use crate::account::{Account, Server};
use crate::ledger::Ending;
use crate::objects::{BLOCK, NAMES, Object};
use crate::process::Process;

/// Who receives the object.
#[derive(Clone, Debug)]
pub(crate) enum Receiver {
    /// A server, into its directory.
    Server(Arc<Server>),
    /// A client of its own, beside a path.
    Client(Arc<Process>),
}

enum Stage {
    Offered,
    /// Blocks that are missing, the next one last.
    Receiving(Box<PartFile>, Vec<usize>),
    Over,
}

/// A session.
pub(crate) struct Session {
    pub receiver: Receiver,
    pub name: usize,
    pub object: usize,
    pub existing: Existing,
    pub resume: bool,
    /// Each block is verified before it is written; otherwise some are altered, and the whole is hashed.
    pub verified: bool,
    altered: bool,
    stage: Stage,
}

impl Session {
    pub(crate) fn new(
        receiver: Receiver,
        (name, object): (usize, usize),
        existing: Existing,
        (resume, verified): (bool, bool),
    ) -> Self {
        let verified = verified || resume || matches!(receiver, Receiver::Server(_));
        let (altered, stage) = (false, Stage::Offered);
        Session { receiver, name, object, existing, resume, verified, altered, stage }
    }

    pub(crate) fn process(&self) -> &Arc<Process> {
        match &self.receiver {
            Receiver::Server(server) => &server.process,
            Receiver::Client(process) => process,
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over)
    }

    /// Goes on by one step.
    pub(crate) fn step(&mut self, sim: &Account) {
        let stage = std::mem::replace(&mut self.stage, Stage::Over);
        self.stage = match stage {
            Stage::Over => Stage::Over,
            Stage::Offered => self.begin(sim).unwrap_or_else(|_| {
                sim.count(|counters| counters.failed += 1);
                Stage::Over
            }),
            Stage::Receiving(part, missing) => self.receive(sim, part, missing),
        };
    }

    fn object<'a>(&self, sim: &'a Account) -> &'a Object {
        &sim.disk.objects()[self.object]
    }

    fn begin(&self, sim: &Account) -> Result<Stage, StoreError> {
        if let Receiver::Server(server) = &self.receiver
            && self.is_here_already(sim, server)
        {
            sim.count(|counters| counters.confirmed += 1);
            return Ok(Stage::Over);
        }
        let part = self.part(sim)?;
        let object = self.object(sim);
        let mut missing: Vec<usize> = (0..object.blocks()).collect();
        if part.has_old_bytes() {
            let right = self.right_blocks(sim, &part);
            sim.count(|counters| counters.resumed_blocks += right.len() as u64);
            missing.retain(|block| !right.contains(block));
        }
        for last in (1..missing.len()).rev() {
            missing.swap(last, sim.disk.below(last as u64 + 1) as usize);
        }
        Ok(Stage::Receiving(Box::new(part), missing))
    }

    /// Whether the server finds the very object under its name and says so.
    fn is_here_already(&self, sim: &Account, server: &Server) -> bool {
        let object = self.object(sim);
        let name = object_name(self.name);
        let attempt = sim.ledger().begin(self.name, self.object);
        let confirm = || -> Option<()> {
            let (file, state) = server.store.open_object(&name).ok()?;
            let is_known = server.cache.get(&state) == Some(object.digest);
            if state.size() != object.size() || !is_known {
                return None;
            }
            let digest = hash_file(&file, object.size(), &HashProgress::default()).ok()?;
            server.store.sync_object(&name, &file).ok()?;
            let (_, now) = server.store.open_object(&name).ok()?;
            (digest == object.digest && now == state).then_some(())
        };
        let confirmed = confirm().is_some() && server.process.is_alive();
        let ending = if confirmed { Ending::Complete } else { Ending::Refused };
        sim.ledger().end(attempt, ending, true);
        confirmed
    }

    fn part(&self, sim: &Account) -> Result<PartFile, StoreError> {
        let Object { digest, .. } = *self.object(sim);
        let size = self.object(sim).size();
        match &self.receiver {
            Receiver::Server(server) => {
                let (store, name) = (&server.store, object_name(self.name));
                let make = || match self.resume {
                    true => store.resume(&name, size, digest, self.existing),
                    false => {
                        store.create(&name, size, digest, self.existing).map(PartFile::of_verified)
                    }
                };
                match make() {
                    Err(StoreError::NoSpace { needed, free }) => {
                        let trimmed = store.trim_parts(&part_limits(), needed - free);
                        let removed = trimmed.is_ok_and(|cleaned| cleaned.removed > 0);
                        if removed { make() } else { Err(StoreError::NoSpace { needed, free }) }
                    }
                    made => made,
                }
            }
            Receiver::Client(process) => {
                let disk = Arc::clone(process) as Arc<dyn Disk>;
                let path = sim.disk.root().join(NAMES[self.name]);
                if self.resume {
                    return PartFile::resumed_beside_on(disk, &path, size, digest, self.existing);
                }
                let folder = path.parent().map_or(PathBuf::new(), PathBuf::from);
                // What cannot be looked at stays.
                let _ = remove_stale_parts_on(&*disk, &folder, false);
                let part = PartFile::beside_on(disk, &path, size, digest, self.existing)?;
                Ok(if self.verified { part.of_verified() } else { part })
            }
        }
    }

    /// The blocks that an earlier session has left, verified.
    fn right_blocks(&self, sim: &Account, part: &PartFile) -> Vec<usize> {
        let object = self.object(sim);
        let ranges = part.data_ranges().unwrap_or_default();
        let bytes = |block: usize| -> Range<u64> {
            let start = (block * BLOCK) as u64;
            start..(start + BLOCK as u64).min(object.size())
        };
        let is_there = |range: &Range<u64>| {
            ranges.iter().any(|data| data.start <= range.start && range.end <= data.end)
        };
        let is_right = |block: &usize| {
            let range = bytes(*block);
            if !is_there(&range) {
                return false;
            }
            if object.blocks() == 1 {
                let mut found = vec![0; object.bytes.len()];
                return part.read_at(0, &mut found).is_ok() && found == object.bytes;
            }
            part.hash_nodes(range, BLOCK as u64).is_ok_and(|nodes| nodes == [object.node(*block)])
        };
        let right: Vec<usize> = (0..object.blocks()).filter(is_right).collect();
        right.iter().for_each(|block| part.note(bytes(*block)));
        right
    }

    fn receive(&mut self, sim: &Account, part: Box<PartFile>, mut missing: Vec<usize>) -> Stage {
        if sim.disk.gives_up() {
            sim.count(|counters| counters.given_up += 1);
            return Stage::Over;
        }
        let Some(block) = missing.pop() else {
            self.commit(sim, *part);
            return Stage::Over;
        };
        let mut bytes = self.object(sim).block(block).to_vec();
        if !self.verified && sim.disk.chance(0.05) {
            self.altered = true;
            bytes[0] ^= 1;
        }
        match part.write_block((block * BLOCK) as u64, &bytes) {
            Ok(()) => Stage::Receiving(part, missing),
            Err(_) => {
                sim.count(|counters| counters.failed += 1);
                Stage::Over
            }
        }
    }

    fn commit(&self, sim: &Account, part: PartFile) {
        let replace = self.existing == Existing::Replace;
        let attempt = sim.ledger().begin(self.name, self.object);
        let outcome = part.commit();
        if matches!(outcome, Err(StoreError::Exists(_))) {
            part.discard();
        }
        drop(part);
        if !self.process().is_alive() {
            sim.ledger().end(attempt, Ending::Unknown, replace);
            return;
        }
        let ending = match &outcome {
            Ok(_) => Ending::Complete,
            Err(StoreError::BadDigest { .. } | StoreError::Exists(_)) => Ending::Refused,
            Err(_) => Ending::Unknown,
        };
        let (name, of) = (NAMES[self.name], self.object);
        if !sim.ledger().end(attempt, ending, replace) {
            sim.disk.breach(format!("{name}: object {of} replaced one that was to be kept"));
        }
        match outcome {
            Ok(state) => {
                sim.count(|counters| counters.complete += 1);
                if self.altered {
                    sim.disk.breach(format!("{name}: an altered object {of} was complete"));
                }
                if let (Some(state), Receiver::Server(server)) = (state, &self.receiver) {
                    server.cache.insert_own(state, self.object(sim).digest);
                }
                let mode = std::fs::metadata(sim.disk.root().join(name));
                let mode = mode.map(|meta| meta.permissions().mode() & 0o777).ok();
                if mode != Some(sim.usual_mode()) {
                    let mode = mode.unwrap_or_default();
                    sim.disk.breach(format!("{name}: complete with permissions {mode:03o}"));
                }
            }
            Err(StoreError::BadDigest { .. }) => {
                sim.count(|counters| counters.altered += 1);
                if !self.altered {
                    sim.disk.breach(format!("{name}: the bytes of object {of} were refused"));
                }
            }
            Err(StoreError::Exists(_)) => sim.count(|counters| counters.refused += 1),
            Err(_) => sim.count(|counters| counters.failed += 1),
        }
        sim.check_names();
    }
}

/// Whoever reads an object makes its server know its digest.
pub(crate) fn look(sim: &Account, server: &Server, name: usize) {
    let Ok((mut file, state)) = server.store.open_object(&object_name(name)) else { return };
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).expect("an open file can be read");
    let object = sim.disk.objects().iter().find(|object| object.bytes == bytes);
    match object {
        Some(object) => {
            if server.cache.get(&state).is_some_and(|digest| digest != object.digest) {
                sim.disk.breach(format!("{}: a wrong digest was kept", NAMES[name]));
            }
            server.cache.insert_own(state, object.digest);
        }
        None => sim.disk.breach(format!("{}: wrong bytes were served", NAMES[name])),
    }
}

/// Part files stay until they take too much.
pub(crate) fn part_limits() -> PartLimits {
    PartLimits { age: std::time::Duration::MAX, bytes: 40_000, files: 4 }
}

fn object_name(name: usize) -> ObjectName {
    ObjectName::new(NAMES[name]).expect("a name")
}
