//! Calls of one process on the virtual disk, at any of which it may be killed.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use wellspring_store::{Disk, SystemDisk};

use crate::virtual_disk::{Kind, VirtualDisk, died};

/// Other sessions, which go on during a call.
pub(crate) trait Others: Send + Sync {
    fn go_on(&self);

    /// The process has died within a call.
    fn died(&self) {}
}

/// A process. What it has open is closed when it is dropped.
pub(crate) struct Process {
    disk: Arc<VirtualDisk>,
    others: Weak<dyn Others>,
    /// Calls left until it is killed.
    left: AtomicU64,
}

impl std::fmt::Debug for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Process").field("left", &self.left).finish_non_exhaustive()
    }
}

impl Process {
    pub(crate) fn new(disk: Arc<VirtualDisk>, others: Weak<dyn Others>) -> Arc<Self> {
        Arc::new(Process { disk, others, left: AtomicU64::new(u64::MAX) })
    }

    /// Kills it at the call after so many more.
    pub(crate) fn kill_after(&self, calls: u64) {
        self.left.fetch_min(calls, Relaxed);
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.left.load(Relaxed) > 0 && !self.disk.is_off()
    }

    /// A call begins: whether it has its effect.
    fn begin(&self, kind: Kind, says: &str) -> io::Result<()> {
        if !self.is_alive() {
            return Err(died());
        }
        if self.disk.interrupts()
            && let Some(others) = self.others.upgrade()
        {
            others.go_on();
        }
        let left = self.left.load(Relaxed);
        if left != u64::MAX {
            self.left.store(left.saturating_sub(1), Relaxed);
        }
        let outcome = match self.is_alive() {
            true => self.disk.begin(kind, says),
            false => Err(died()),
        };
        if !self.is_alive()
            && let Some(others) = self.others.upgrade()
        {
            others.died();
        }
        outcome
    }
}

impl Disk for Process {
    fn create(&self, directory: &OwnedFd, name: &str, exclusive: bool) -> io::Result<File> {
        self.begin(Kind::Call, name)?;
        let file = SystemDisk.create(directory, name, exclusive)?;
        self.disk.opened(directory, name, &file);
        Ok(file)
    }

    fn lock(&self, file: &File) -> io::Result<()> {
        self.begin(Kind::Call, "lock")?;
        SystemDisk.lock(file)
    }

    fn set_len(&self, file: &File, len: u64) -> io::Result<()> {
        self.begin(Kind::Call, "set_len")?;
        SystemDisk.set_len(file, len)?;
        self.disk.change(file, |image, _| image.set_len(len));
        self.disk.written(file);
        Ok(())
    }

    fn set_mode(&self, file: &File, mode: u32) -> io::Result<()> {
        self.begin(Kind::Call, "set_mode")?;
        SystemDisk.set_mode(file, mode)?;
        self.disk.change(file, |image, _| image.set_mode(mode));
        Ok(())
    }

    fn read_at(&self, file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.begin(Kind::Call, "read_at")?;
        SystemDisk.read_at(file, buffer, offset)
    }

    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        if !self.is_alive() {
            return Err(died());
        }
        let outcome = self.begin(Kind::Write, "write_at");
        // A write that fails, or that its process did not outlive, may have been done in part.
        let done = match outcome {
            Ok(()) => bytes.len(),
            Err(_) => self.disk.below(bytes.len() as u64) as usize,
        };
        SystemDisk.write_at(file, &bytes[..done], offset)?;
        self.disk.change(file, |image, _| image.write(offset, &bytes[..done]));
        self.disk.written(file);
        outcome
    }

    fn punch_hole(&self, file: &File, range: Range<u64>) -> io::Result<()> {
        self.begin(Kind::Write, "punch_hole")?;
        SystemDisk.punch_hole(file, range.clone())?;
        self.disk.change(file, |image, _| image.punch_hole(range));
        self.disk.written(file);
        Ok(())
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        let outcome = self.begin(Kind::Sync, "sync");
        match outcome {
            Ok(()) if self.disk.skips_syncs() => {}
            Ok(()) => self.disk.change(file, |image, _| image.sync()),
            Err(_) if self.is_alive() => self.disk.change(file, |image, rng| image.fail_sync(rng)),
            Err(_) => {}
        }
        outcome
    }

    fn drop_cache(&self, file: &File) -> io::Result<()> {
        self.begin(Kind::Call, "drop_cache")?;
        self.disk.drop_cache(file);
        Ok(())
    }

    fn sync_directory(&self, directory: &OwnedFd) -> io::Result<()> {
        self.begin(Kind::Sync, "sync_directory")?;
        if !self.disk.skips_syncs() {
            self.disk.synced(directory);
        }
        Ok(())
    }

    fn rename(&self, directory: &OwnedFd, from: &str, to: &str, replace: bool) -> io::Result<()> {
        self.begin(Kind::Name, to)?;
        SystemDisk.rename(directory, from, to, replace)?;
        self.disk.renamed(directory, from, to);
        Ok(())
    }

    fn remove(&self, directory: &OwnedFd, name: &str) -> io::Result<()> {
        self.begin(Kind::Name, name)?;
        SystemDisk.remove(directory, name)?;
        self.disk.removed(directory, name);
        Ok(())
    }

    fn make_directory(&self, directory: &OwnedFd, name: &str) -> io::Result<()> {
        self.begin(Kind::Name, name)?;
        SystemDisk.make_directory(directory, name)?;
        self.disk.made_directory(directory, name);
        Ok(())
    }

    fn remove_directory(&self, directory: &OwnedFd, name: &str) -> io::Result<()> {
        self.begin(Kind::Name, name)?;
        SystemDisk.remove_directory(directory, name)?;
        self.disk.removed_directory(directory, name);
        Ok(())
    }

    fn free(&self, _: &OwnedFd) -> io::Result<u64> {
        self.begin(Kind::Call, "free")?;
        Ok(self.disk.free())
    }

    fn free_files(&self, _: &OwnedFd) -> io::Result<Option<(u64, u64)>> {
        // Those of the machine's own disk are nobody's business here.
        Ok(None)
    }

    fn random(&self) -> io::Result<u64> {
        Ok(self.disk.random())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::Object;
    use crate::simulation::in_memory;
    use crate::virtual_disk::Faults;
    use wellspring_core::Seed;
    use wellspring_store::{Existing, ObjectSink, PartFile};

    struct Nobody;

    impl Others for Nobody {
        fn go_on(&self) {}
    }

    #[test]
    fn what_a_killed_process_failed_to_bring_onto_the_disk_is_not_believed() {
        for seed in 0..20 {
            let home = in_memory();
            let disk = VirtualDisk::new(home.path(), Object::all(), Seed(seed).stream("test"));
            let (disk, others) = (Arc::new(disk), Arc::new(Nobody));
            let Object { bytes, digest } = disk.objects()[0].clone();
            let process = || {
                let others = Arc::downgrade(&others) as Weak<dyn Others>;
                Process::new(Arc::clone(&disk), others)
            };
            let resumed = |process: &Arc<Process>| {
                let (on, path) = (Arc::clone(process) as Arc<dyn Disk>, home.path().join("a"));
                let size = bytes.len() as u64;
                PartFile::resumed_beside_on(on, &path, size, digest, Existing::Replace)
                    .expect("made")
            };
            let killed = process();
            let part = resumed(&killed);
            part.write_block(0, &bytes).expect("written");
            disk.set_faults(Faults { sync: 1.0, ..Faults::default() });
            // It sets the mode, syncs, and dies before it removes the file.
            killed.kill_after(3);
            assert!(part.commit().is_err());
            drop(part);
            disk.set_faults(Faults::default());

            let part = resumed(&process());
            assert!(part.has_old_bytes(), "seed {seed}: the file was left");
            let mut found = vec![0; bytes.len()];
            part.read_at(0, &mut found).expect("read");
            if found == bytes {
                part.note(0..bytes.len() as u64);
            } else {
                part.write_block(0, &bytes).expect("written");
            }
            part.commit().expect("complete");
            drop(part);
            disk.restore_power();
            assert_eq!(disk.check_name("a"), Some(0), "seed {seed}");
        }
    }
}
