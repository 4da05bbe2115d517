//! Objects that were in place already, read again: a disk can alter bytes, and leaves length and time as they were.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use wellspring_client::{Client, FetchError, Host};
use wellspring_net::store::{Digest, HashProgress, ObjectName, hash_file};

/// Ends the hashing of a file when nobody waits for it any more.
struct StopHashing(HashProgress);

impl Drop for StopHashing {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Whether a file has other bytes than the object has at the hosts, or cannot be read.
///
/// # Errors
/// The hosts do not say what the object has.
pub(super) async fn differs(
    client: &Client,
    hosts: &[Host],
    object: &ObjectName,
    path: PathBuf,
) -> Result<bool, FetchError> {
    let there = client.stat(hosts, object).await?;
    let stop = StopHashing(HashProgress::default());
    let progress = stop.0.clone();
    let hash = tokio::task::spawn_blocking(move || digest_of(&path, &progress));
    Ok(hash.await.ok().and_then(Result::ok) != Some(there.digest))
}

fn digest_of(path: &Path, progress: &HashProgress) -> io::Result<Digest> {
    let file = File::open(path)?;
    hash_file(&file, file.metadata()?.len(), progress)
}
