//! A file that is put: opened, and its digest and sections taken.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio::time::interval;

use crate::manifest::{hash_sections, keep_sections, kept_sections};
use crate::store::{Digest, Fingerprint, HashProgress, Node};
use crate::update::TICK;
use crate::{Client, PutError, Update, Updates};

/// A file that is put, and its digest.
pub(crate) struct OpenedFile {
    pub file: File,
    pub fingerprint: Fingerprint,
    pub digest: Digest,
    pub sections: Option<Vec<Node>>,
}

struct StopHashing(HashProgress);

impl Drop for StopHashing {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl Client {
    /// Opens the file and takes its digest and sections.
    pub(super) async fn open(
        &self,
        path: &Path,
        updates: &Updates,
    ) -> Result<OpenedFile, PutError> {
        // To open a pipe would be to wait for who writes to it.
        if !std::fs::metadata(path)?.is_file() {
            let message = "it is not a regular file";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message).into());
        }
        let file = File::open(path)?;
        let fingerprint = Fingerprint::of(&file)?;
        self.hashed(file, fingerprint, updates).await
    }

    /// Takes the digest and sections of a file, from the cache if they are known.
    pub(crate) async fn hashed(
        &self,
        file: File,
        fingerprint: Fingerprint,
        updates: &Updates,
    ) -> Result<OpenedFile, PutError> {
        if let Some(digest) = self.config.cache.get(&fingerprint) {
            let (cache, size) = (Arc::clone(&self.config.cache), fingerprint.size());
            let kept = move || kept_sections(&cache, &digest, size);
            let sections = crate::task::spawn_blocking(kept).await.map_err(io::Error::other)?;
            return Ok(OpenedFile { file, fingerprint, digest, sections });
        }
        let (reader, progress) = (file.try_clone()?, HashProgress::default());
        let (counter, began, total) =
            (progress.clone(), crate::clock::time_of_day(), fingerprint.size());
        let cache = Arc::clone(&self.config.cache);
        let mut hashing = crate::task::spawn_blocking(move || {
            let (digest, sections) = hash_sections(&reader, total, &counter)?;
            keep_sections(&cache, &digest, &sections);
            Ok::<_, io::Error>((digest, sections))
        });
        let _stop = StopHashing(progress.clone());
        let mut ticks = interval(TICK);
        let (digest, sections) = loop {
            tokio::select! {
                biased;
                hashed = &mut hashing => break hashed.map_err(io::Error::other)??,
                _ = ticks.tick() => {
                    updates.tell(Update::Hashing { host: None, done: progress.done(), total });
                }
            }
        };
        if Fingerprint::of(&file)? != fingerprint {
            return Err(io::Error::other("the file changed while it was read").into());
        }
        self.config.cache.insert(fingerprint, digest, began);
        Ok(OpenedFile { file, fingerprint, digest, sections: Some(sections) })
    }
}
