//! Putting an object to many hosts: by multicast, or to each on its own.

mod account;
mod group_keys;
mod offers;
mod opened;
pub(super) mod provider;
mod run;
mod watch;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use tokio::time::Instant;

use self::group_keys::GroupKeys;
use self::offers::{Offering, offer_all, receivers};
pub(crate) use self::opened::OpenedFile;
use self::run::{Followed, Run};
use super::client::Frames;
use super::replicas::WORTH_FURTHER;
use super::report::PutReport;
use super::{Client, PutError, PutOptions, Update};
use crate::Host;
use crate::store::{FileSource, Fingerprint};
use crate::task::Boxed;

/// Hosts of one put, at most.
const MAX_HOSTS: usize = 255;

impl Client {
    /// Puts a file to all hosts: by multicast if a group is given, otherwise to each on its own.
    /// Returns when every host has the object verified and in place (or is given up), or as many as the
    /// quorum asks for, unless [the rest is to be finished](PutOptions::finish_rest), too. That, or dropping the
    /// future, ends the transfer; receivers that were not done keep what they have for a later put,
    /// [if they may](PutOptions::resume).
    ///
    /// # Errors
    /// [`PutError`]; in [`PutError::Incomplete`] some hosts have the object.
    pub fn put<'a>(
        &'a self,
        file: &'a Path,
        hosts: &'a [Host],
        options: &'a PutOptions,
    ) -> Boxed<'a, Result<PutReport, PutError>> {
        Box::pin(async move {
            let began = Instant::now();
            options.cut.check()?;
            check(hosts, options)?;
            let opened = self.open(file, &options.updates).await?;
            self.put_opened(opened, hosts, options, began).await
        })
    }

    /// Puts an open file, which need not have a name.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn put_file<'a>(
        &'a self,
        file: File,
        hosts: &'a [Host],
        options: &'a PutOptions,
    ) -> Boxed<'a, Result<PutReport, PutError>> {
        Box::pin(async move {
            let began = Instant::now();
            options.cut.check()?;
            check(hosts, options)?;
            let fingerprint = Fingerprint::of(&file)?;
            let opened = self.hashed(file, fingerprint, &options.updates).await?;
            self.put_opened(opened, hosts, options, began).await
        })
    }

    /// Puts a file whose digest is known.
    pub(super) async fn put_opened(
        &self,
        opened: OpenedFile,
        hosts: &[Host],
        options: &PutOptions,
        began: Instant,
    ) -> Result<PutReport, PutError> {
        let updates = &options.updates;
        options.cut.check()?;
        let needed = check(hosts, options)?;
        let OpenedFile { file, fingerprint, digest, sections } = opened;
        let size = fingerprint.size();
        // Which paths the members of a group have is not known.
        let frames = if options.group.is_none() { Frames::Jumbo } else { Frames::Ethernet };
        let resolved = || receivers(self, hosts, options.group.is_some());
        let mut receivers = resolved().await;
        let addresses: Vec<_> = receivers.iter().filter_map(|r| r.address).collect();
        if options.group.is_none() && size >= WORTH_FURTHER && self.config.further_addresses > 0 {
            // The answers are used when the sessions are open.
            addresses.iter().for_each(|&address| drop(self.requester.ask_for_addresses(address)));
        }
        let object = (file.try_clone()?, size, digest);
        // Receivers verify each block by the manifest, which they ask for here, and before that what they have.
        let _providing = self.providers.provide(object, sections, addresses, self.driver.handle());
        let source = Arc::new(FileSource::new(file, fingerprint, digest));
        loop {
            let paths = receivers.iter().filter_map(|r| r.address).chain(options.group);
            let offer = Offering {
                name: options.tree_part.clone().unwrap_or_else(|| options.name.to_string()),
                size,
                digest,
                group: options.group,
                geometry: options.cut.geometry(paths, &self.requester, frames),
                overwrite: options.overwrite,
                resume: options.resume,
                priority: options.priority,
                timeout: self.config.timeout,
            };
            let symbol_size = offer.geometry.symbol_size;
            let (mut offered, asked) = offer_all(self, receivers, &offer, needed, updates).await?;
            let keys = match options.group.filter(|_| self.config.driver.keys.is_some()) {
                Some(group) => GroupKeys::begin(self, group, &mut offered, needed).await?,
                None => None,
            };
            let hosts = offered.iter().filter(|o| o.accepted).map(|o| o.host.clone()).collect();
            updates.tell(Update::Started { size, symbol_size, digest, hosts });
            let source = Arc::clone(&source);
            let mut run = Run::begin(self, &offer, offered, asked, (needed, began), source);
            run.keys = keys;
            run.finish_rest = options.finish_rest;
            run.updates = updates.clone();
            if options.cut.symbol_size.is_none() && options.group.is_none() {
                run.examine_if_nothing_arrives(&self.requester, &offer.geometry);
            }
            run.send()?;
            match run.follow().await? {
                Followed::Done(report) => return Ok(report),
                Followed::Narrow => receivers = resolved().await,
            }
            let paths = receivers.iter().filter_map(|r| r.address);
            let symbol_size = options.cut.geometry(paths, &self.requester, frames).symbol_size;
            updates.tell(Update::Shortened { symbol_size });
        }
    }
}

/// How many hosts must end up with the object.
pub(super) fn check(hosts: &[Host], options: &PutOptions) -> Result<usize, PutError> {
    match hosts.len() {
        0 => Err(PutError::NoHosts),
        got if got > MAX_HOSTS => Err(PutError::TooManyHosts { got, limit: MAX_HOSTS }),
        n => match options.quorum {
            Some(got) if got == 0 || got > n => Err(PutError::BadQuorum { got, hosts: n }),
            quorum => Ok(quorum.unwrap_or(n)),
        },
    }
}
