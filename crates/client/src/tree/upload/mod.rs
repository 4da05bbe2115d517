//! Putting a tree: one listing, packs of the files that hosts lack, large files by themselves, and the end.

mod hosts;
mod packs;
mod source;
mod transfer;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::super::Client;
use super::error::TreeError;
use super::put_report::{HearPut, PutTreeOptions, PutTreeReport};
use crate::Host;
use crate::task::Boxed;
use source::Source;
use transfer::{Round, Upload};

/// How often a tree that changes while it is put, or a host that was lost, is begun with again.
const ROUNDS: u32 = 4;
/// Longest pause before that.
const LONGEST_PAUSE: Duration = Duration::from_millis(300);

impl Client {
    /// Makes a directory of the hosts hold the tree that is in a directory here, and moves only what differs:
    /// files whose length or time of modification is another. At the hosts a file takes its name complete and
    /// verified. A host is complete when it has walked the tree, found every file in its place, and synced it.
    ///
    /// # Errors
    /// [`TreeError`]. What is in place by then stays, and a later call goes on from there.
    pub fn put_tree<'a>(
        &'a self,
        directory: &'a Path,
        hosts: &'a [Host],
        options: &'a PutTreeOptions,
        hear: Arc<HearPut>,
    ) -> Boxed<'a, Result<PutTreeReport, TreeError>> {
        Box::pin(async move {
            let began = Instant::now();
            let upload = Upload::new(self, hosts, options, hear)?;
            loop {
                let walk = Source::walk(directory.to_owned(), options.clone());
                let source = crate::task::spawn_blocking(walk).await;
                let source = Arc::new(source.map_err(|_| TreeError::Stopped)??);
                upload.take(&source);
                let round = upload.round(&source, began).await;
                match round {
                    Ok(Round::Done) => return Ok(upload.report(&source, began)),
                    Ok(Round::Again) if upload.begin_again(ROUNDS) => pause().await,
                    Ok(Round::Again) => {
                        return Err(TreeError::Incomplete(Box::new(upload.report(&source, began))));
                    }
                    Err(TreeError::Source(error))
                        if error.is_change() && upload.begin_again(ROUNDS) => {}
                    Err(error) => return Err(error),
                }
            }
        })
    }
}

/// Waits for a while of any length: of two who put other trees into one directory at once, each of which spoils the
/// other's, one comes to its end meanwhile.
async fn pause() {
    tokio::time::sleep(LONGEST_PAUSE.mul_f64(crate::random::number() as f64 / u64::MAX as f64))
        .await;
}

#[cfg(test)]
mod tests;
