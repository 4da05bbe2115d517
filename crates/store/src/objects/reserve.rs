//! The reservation of disk space for objects that are received.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Disk, StoreError};

/// Of the files that a disk can have, one in so many stays free: small objects take more of these than of its bytes.
const FILES_KEPT: u64 = 50;

/// Bounds on what strangers may put into a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Length of one object \[bytes\].
    pub object_len: u64,
    /// Objects being received at once.
    pub objects: usize,
    /// Length of all objects being received at once \[bytes\].
    pub total_len: u64,
    /// What must stay free on the disk \[bytes\].
    pub keep_free: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { object_len: 1 << 40, objects: 64, total_len: 1 << 42, keep_free: 64 << 20 }
    }
}

/// The account of what is being received.
#[derive(Debug)]
pub struct Reservations {
    limits: Limits,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    objects: usize,
    bytes: u64,
}

/// Room held for one object until dropped.
#[derive(Debug)]
pub struct Reservation {
    owner: Arc<Reservations>,
    bytes: u64,
}

impl Reservations {
    /// Nothing taken yet.
    pub fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Reservations { limits, taken: Mutex::default() })
    }

    /// Reserves space for an object of `size` bytes on the disk of `directory`, which has `there` of
    /// them already.
    ///
    /// # Errors
    /// The limit that forbids it.
    pub fn reserve(
        self: &Arc<Self>,
        size: u64,
        there: u64,
        disk: &dyn Disk,
        directory: &OwnedFd,
    ) -> Result<Reservation, StoreError> {
        if let Some((free, all)) = disk.free_files(directory)?
            && free < all / FILES_KEPT
        {
            return Err(StoreError::NoFiles { free });
        }
        self.reserve_of(size, there, disk.free(directory)?)
    }

    fn reserve_of(
        self: &Arc<Self>,
        size: u64,
        there: u64,
        on_disk: u64,
    ) -> Result<Reservation, StoreError> {
        let limits = &self.limits;
        if size > limits.object_len {
            return Err(StoreError::TooLarge { got: size, limit: limits.object_len });
        }
        let size = size.saturating_sub(there);
        let mut taken = self.lock();
        if taken.objects >= limits.objects {
            return Err(StoreError::Busy { limit: limits.objects });
        }
        // All that was promised counts as used, although part of it is on the disk already: rather
        // too careful than an object that fails at its end.
        let free = on_disk.saturating_sub(limits.keep_free).saturating_sub(taken.bytes);
        let promised = limits.total_len.saturating_sub(taken.bytes);
        if size > promised {
            return Err(StoreError::NotReserved { needed: size, free: promised });
        }
        if size > free {
            return Err(StoreError::NoSpace { needed: size, free });
        }
        taken.objects += 1;
        taken.bytes += size;
        Ok(Reservation { owner: Arc::clone(self), bytes: size })
    }

    /// Space for objects on the disk of `directory`, whether it is promised or not \[bytes\].
    ///
    /// # Errors
    /// The system's.
    pub fn space(&self, disk: &dyn Disk, directory: &OwnedFd) -> Result<u64, StoreError> {
        let on_disk = disk.free(directory)?.saturating_sub(self.limits.keep_free);
        Ok(on_disk.min(self.limits.total_len))
    }

    /// Bytes that are promised at the moment, some of which may be there.
    pub(super) fn bytes(&self) -> u64 {
        self.lock().bytes
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reservation {
    /// How much is held \[bytes\].
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut taken = self.owner.lock();
        taken.objects -= 1;
        taken.bytes -= self.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_hold_at_their_edges_and_room_comes_back() {
        let limits = Limits { object_len: 100, objects: 2, total_len: 150, keep_free: 10 };
        let room = Reservations::new(limits);
        let too_large = room.reserve_of(101, 0, 1_000).expect_err("too large");
        assert!(matches!(too_large, StoreError::TooLarge { got: 101, limit: 100 }));
        let no_disk = room.reserve_of(91, 0, 100).expect_err("disk");
        assert!(matches!(no_disk, StoreError::NoSpace { needed: 91, free: 90 }));
        let first = room.reserve_of(100, 0, 1_000).expect("fits");
        let no_room = room.reserve_of(51, 0, 1_000).expect_err("total");
        // Nothing that goes from the disk would help.
        assert!(matches!(no_room, StoreError::NotReserved { needed: 51, free: 50 }));
        let promised = room.reserve_of(50, 0, 150).expect_err("promised already");
        assert!(matches!(promised, StoreError::NoSpace { needed: 50, free: 40 }));
        let second = room.reserve_of(50, 0, 1_000).expect("fits");
        assert!(matches!(room.reserve_of(0, 0, 1_000), Err(StoreError::Busy { limit: 2 })));
        drop(first);
        let third = room.reserve_of(100, 0, 1_000).expect("fits again");
        drop((second, third));
        let taken_up = room.reserve_of(100, 60, 50).expect("forty are missing");
        assert_eq!(room.lock().bytes, 40);
        let over = room.reserve_of(101, 60, 1_000).expect_err("however much is there");
        assert!(matches!(over, StoreError::TooLarge { got: 101, limit: 100 }));
        drop(taken_up);
        assert_eq!(room.lock().bytes, 0);
    }

    #[derive(Debug)]
    struct FewFiles(Option<(u64, u64)>);

    impl Disk for FewFiles {
        fn free_files(&self, _: &OwnedFd) -> std::io::Result<Option<(u64, u64)>> {
            Ok(self.0)
        }
    }

    #[test]
    fn a_disk_does_not_run_out_of_files() {
        let home = tempfile::tempdir().expect("temporary directory");
        let home = OwnedFd::from(std::fs::File::open(home.path()).expect("opened"));
        let room = Reservations::new(Limits { keep_free: 0, ..Limits::default() });
        let reserve = |files| room.reserve(1, 0, &FewFiles(files), &home).map(|_| ());
        let refused = reserve(Some((19, 1_000))).expect_err("a fiftieth is kept");
        assert!(matches!(refused, StoreError::NoFiles { free: 19 }));
        reserve(Some((20, 1_000))).expect("one is left");
        reserve(None).expect("no limit");
    }
}
