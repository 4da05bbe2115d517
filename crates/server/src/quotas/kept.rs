//! Accounts of what is kept of clients with quotas, in memory and in the ledger.

use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Instant;

use wellspring_trust::Quota;

use super::account::{Account, Exceeded, MAX_FILES};
use super::ledger::{Files, Found, Ledger, Locked, Owned, is_there};
use crate::store::Root;

/// Files and their owners, if they have any.
pub(super) type Changes = Vec<(String, Option<Owned>)>;

#[derive(Debug)]
pub(super) struct Kept {
    pub(super) files: Files,
    pub(super) used: BTreeMap<Arc<str>, Used>,
    pub(super) ledger: Ledger,
    /// Files are not in the ledger: there is another one, or none, since the directory is another one.
    is_ahead: bool,
    /// When it may be looked again which files are there.
    pub(super) look_again: Option<Instant>,
}

/// What one client has of what is kept.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Used {
    pub(super) bytes: u64,
    pub(super) files: u64,
    /// The same of what is on its way.
    pub(super) promised_bytes: u64,
    pub(super) promised_files: u64,
}

impl Used {
    fn is_nothing(&self) -> bool {
        let Used { bytes, files, promised_bytes, promised_files } = *self;
        bytes | files | promised_bytes | promised_files == 0
    }
}

impl Kept {
    pub(super) fn new(root: Arc<Root>) -> Self {
        Kept {
            files: BTreeMap::new(),
            used: BTreeMap::new(),
            ledger: Ledger::new(root),
            is_ahead: false,
            look_again: None,
        }
    }

    /// Takes in what other servers of the directory have written, or, if another directory has its place, what that has.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub(super) fn refresh(&mut self) -> io::Result<()> {
        match self.ledger.look(MAX_FILES)? {
            Found::Lines(mut lines) => {
                let mut room = MAX_FILES.saturating_sub(self.files.len());
                lines.retain(|(name, owned)| {
                    let is_more = owned.is_some() && !self.files.contains_key(name);
                    let fits = !is_more || room > 0;
                    room = room.saturating_sub(usize::from(is_more));
                    fits
                });
                self.change(lines);
            }
            Found::None => self.is_ahead = true,
            Found::Anew(files) if !self.is_ahead => self.replace(files),
            Found::Anew(files) | Found::OfAnother(files) => self.carry_over(files),
        }
        Ok(())
    }

    /// Has the files of another ledger, and those that it does not know and that are there.
    fn carry_over(&mut self, mut files: Files) {
        let directory = self.ledger.directory();
        for (name, owned) in &self.files {
            if !files.contains_key(name) && is_there(&directory, name, owned.size) {
                files.insert(name.clone(), owned.clone());
                self.is_ahead = true;
            }
        }
        self.replace(files);
    }

    /// Has these files and no others. What is promised stays so.
    fn replace(&mut self, files: Files) {
        self.used.values_mut().for_each(|used| (used.bytes, used.files) = (0, 0));
        for Owned { owner, size } in files.values() {
            let used = self.used.entry(Arc::clone(owner)).or_default();
            (used.bytes, used.files) = (used.bytes.saturating_add(*size), used.files + 1);
        }
        self.used.retain(|_, used| !used.is_nothing());
        self.files = files;
    }

    /// Has the ledger alone, and has taken in what is in it.
    fn lock(&mut self) -> io::Result<Locked> {
        // Before it is made, should it be gone.
        self.refresh()?;
        let locked = self.ledger.lock()?;
        self.refresh()?;
        Ok(locked)
    }

    /// Writes the ledger anew, without lines that say nothing any more.
    pub(super) fn tidy(&mut self) -> io::Result<()> {
        let locked = self.lock()?;
        self.ledger.rewrite(&locked, &self.files)
    }

    /// Gives files other owners, or none, here and in the ledger; returns those that they had.
    ///
    /// # Errors
    /// The ledger cannot be read or written; nothing is changed.
    pub(super) fn enter(&mut self, files: Changes, sync: bool) -> io::Result<Changes> {
        let mut locked = self.lock()?;
        let before = self.change(files);
        match self.write(&mut locked, &before, sync) {
            Ok(()) => Ok(before),
            Err(error) => {
                self.change(before);
                Err(error)
            }
        }
    }

    /// The same, of what is so whatever the ledger says: it is found at the next start which files are not there.
    pub(super) fn enter_if_possible(&mut self, files: Changes) {
        if files.is_empty() {
            return;
        }
        let locked = self.lock();
        let changed = self.change(files);
        let written = locked.and_then(|mut locked| self.write(&mut locked, &changed, false));
        if let Err(error) = written {
            tracing::debug!(%error, "writing whose files are");
        }
    }

    pub(super) fn refresh_and_promise(
        &mut self,
        account: &Account,
        files: &[(String, u64)],
    ) -> Result<(u64, u64), Exceeded> {
        self.refresh().map_err(|error| Exceeded::Unread { reason: error.to_string() })?;
        self.promise(account, files)
    }

    /// Promises room; returns the bytes, and how many of the files are further ones.
    pub(super) fn promise(
        &mut self,
        account: &Account,
        files: &[(String, u64)],
    ) -> Result<(u64, u64), Exceeded> {
        let Account { owner, shown, quota } = account;
        let shown = || shown.clone();
        let bytes = files.iter().fold(0_u64, |sum, (_, size)| sum.saturating_add(*size));
        let is_own = |name: &str| self.files.get(name).is_some_and(|file| file.owner == *owner);
        let new_files = files.iter().filter(|(name, _)| !is_own(name)).count() as u64;
        let promised: u64 = self.used.values().map(|used| used.promised_files).sum();
        let has = self.used.get(owner).copied().unwrap_or_default();
        let accounted = (self.files.len() as u64).saturating_add(promised);
        if accounted.saturating_add(new_files) > MAX_FILES as u64 {
            return Err(Exceeded::Accounted);
        }
        let had = has.files.saturating_add(has.promised_files);
        if let Some(limit) = quota.files.map(NonZeroU64::get)
            && new_files > limit.saturating_sub(had)
        {
            return Err(Exceeded::Files { shown: shown(), limit, has: had, wanted: new_files });
        }
        let had = has.bytes.saturating_add(has.promised_bytes);
        if let Some(limit) = quota.bytes
            && bytes > limit.get().saturating_sub(had)
        {
            let quota = Quota { bytes: Some(limit), ..Quota::NONE };
            return Err(Exceeded::Bytes { shown: shown(), quota, has: had, wanted: bytes });
        }
        let used = self.used.entry(Arc::clone(owner)).or_default();
        used.promised_bytes = used.promised_bytes.saturating_add(bytes);
        used.promised_files += new_files;
        Ok((bytes, new_files))
    }

    /// Gives files other owners, or none; returns those that they had.
    fn change(&mut self, files: Changes) -> Changes {
        let mut before = Vec::with_capacity(files.len());
        for (name, owned) in files {
            if let Some(Owned { owner, size }) = &owned {
                let used = self.used.entry(Arc::clone(owner)).or_default();
                used.bytes = used.bytes.saturating_add(*size);
                used.files += 1;
            }
            let had = match owned {
                Some(owned) => self.files.insert(name.clone(), owned),
                None => self.files.remove(&name),
            };
            if let Some(Owned { owner, size }) = &had {
                self.release(owner, |used| {
                    used.bytes = used.bytes.saturating_sub(*size);
                    used.files = used.files.saturating_sub(1);
                });
            }
            before.push((name, had));
        }
        before
    }

    /// Writes the present owners of files that were changed into the ledger.
    fn write(&mut self, locked: &mut Locked, changed: &Changes, sync: bool) -> io::Result<()> {
        if self.is_ahead {
            self.ledger.rewrite(locked, &self.files)?;
            self.is_ahead = false;
            return Ok(());
        }
        let now = changed.iter().map(|(name, _)| (name.as_str(), self.files.get(name)));
        self.ledger.append(locked, now, sync)?;
        if self.ledger.is_long(self.files.len()) {
            // If not, it is only longer than need be.
            let _ = self.ledger.rewrite(locked, &self.files);
        }
        Ok(())
    }

    /// So many bytes and files are not promised any more.
    pub(super) fn end_promise(&mut self, owner: &Arc<str>, (bytes, files): (u64, u64)) {
        self.release(owner, |used| {
            used.promised_bytes = used.promised_bytes.saturating_sub(bytes);
            used.promised_files = used.promised_files.saturating_sub(files);
        });
    }

    /// Takes from what a client has; who has nothing is forgotten.
    fn release(&mut self, owner: &Arc<str>, take: impl FnOnce(&mut Used)) {
        let Some(used) = self.used.get_mut(owner) else { return };
        take(used);
        if used.is_nothing() {
            self.used.remove(owner);
        }
    }
}
