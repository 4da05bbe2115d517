//! Offers of objects, and their sessions.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use wellspring_core::SessionId;
use wellspring_transport::scdp::{ObjectInfo, ReceiveStats};
use wellspring_wire::control::{Offer, RefusalCode};
use wellspring_wire::scdp::Mode;

use super::ServerEvent;
use super::address_limit::source_of;
use super::answer::{Outcome, Owner, Refusal, Shown};
use super::cookie::Purpose;
use super::digests::Known;
use super::handler::{Handler, lock};
use super::put_pages::Taken;
use super::puts::{Rival, Stage};
use super::quotas::Account;
use super::taken_tree::TreeStep;
use super::taking::Taking;
use crate::driver::SessionEvent;
use crate::manifest::{RESUMED_EPOCH, Verified, first_missing};
use crate::pages::Pages;
use crate::protocols::ReceiveObject;
use crate::resume::blocks_within;
use crate::store::tree::listing::TreeName;
use crate::store::{Digest, Fingerprint, ObjectName, ObjectSink, PartFile, StoreError};
use crate::store_messages;

/// Whether an object that is offered is in its place.
enum Here {
    /// It was read in that state; nothing was read of a listing that is kept.
    Yes(Option<Fingerprint>),
    No,
    /// It is being read: so many bytes are.
    Pending(u64),
}

/// When an object of the right length that is in its place is read, to know whether it is the one that is offered.
#[derive(Clone, Copy)]
enum Reads {
    /// A file of a tree, of which the time alone may be another.
    Always,
    /// Unless it is known to be another one.
    Unknown,
    /// If it is known to be this one.
    Known,
}

impl Handler {
    /// Answers an offer.
    pub(super) fn offer(
        self: &Arc<Self>,
        shown: Shown<'_>,
        offer: &Offer<'_>,
    ) -> Result<Outcome, Refusal> {
        let Shown { client, cookie, account, .. } = shown;
        let not_allowed = |text| Err(Refusal::new(RefusalCode::NotAllowed, text));
        let permissions = self.permissions();
        if !permissions.put {
            return not_allowed("this server takes no objects (it runs without --allow-put)");
        }
        if offer.overwrite && !permissions.overwrite {
            return not_allowed("this server does not let objects be replaced");
        }
        if lock(&self.sends).holds(offer.session) {
            return Err(Refusal::new(RefusalCode::SessionInUse, "session number in use"));
        }
        {
            let mut puts = lock(&self.puts);
            if let Some(answer) = puts.known(shown.owner(), offer, crate::clock::now())? {
                return Ok(answer);
            }
            self.check_open(client)?;
            if !self.jar.spend(client, cookie, Purpose::Offer(offer)) {
                return Ok(Outcome::Challenge(self.jar.bake(client, Purpose::Offer(offer))));
            }
            puts.admit(shown.owner(), offer, &self.config, (&self.quotas, account))
                .inspect_err(|_| self.jar.give_back(cookie))?;
        }
        let outcome = self.open_put((shown.owner(), account), offer);
        let is_taken = matches!(outcome, Ok(Outcome::Accepted));
        if !is_taken && !lock(&self.puts).is_checking(offer.session) {
            // Not remembered: the reason may pass, and the client may offer again.
            if lock(&self.puts).forget(offer.session) {
                self.jar.give_back(cookie);
            }
        }
        outcome
    }

    fn open_put(
        self: &Arc<Self>,
        (owner, account): (Owner, Option<&Account>),
        offer: &Offer<'_>,
    ) -> Result<Outcome, Refusal> {
        let digest = Digest(offer.digest);
        let (name, step) = match TreeName::is_one(offer.name.as_str()) {
            false => (self.name_to_take(offer.name.as_str())?, None),
            true => {
                let (name, step) = self.tree_step(owner, offer)?;
                if matches!(step, TreeStep::Listing { atomic: true, .. })
                    && account.is_some_and(Account::counts_what_is_kept)
                {
                    let text =
                        "no directory is swapped (--atomic) where a quota counts what is kept";
                    return Err(Refusal::new(RefusalCode::NotAllowed, text));
                }
                lock(&self.puts).set_step(offer.session, &name, step.clone());
                if !self.prepare_step(&step)? {
                    return Ok(Outcome::Pending { done: 0, total: offer.size });
                }
                (name, Some(step))
            }
        };
        let is_here = match &step {
            Some(step) if !step.is_file() => match self.has_step(step, digest) {
                true => Here::Yes(None),
                false => Here::No,
            },
            Some(TreeStep::File { tree, file, .. }) if self.is_in_doubt(tree, file) => Here::No,
            Some(_) => self.is_here_already(owner, (&name, offer.size, digest), Reads::Always),
            // The host may have failed after it had the name, and before it could say so.
            None if !offer.overwrite => {
                self.is_here_already(owner, (&name, offer.size, digest), Reads::Unknown)
            }
            None => self.is_here_already(owner, (&name, offer.size, digest), Reads::Known),
        };
        match is_here {
            Here::Yes(read) => {
                let of_tree = step.as_ref().zip(read);
                match of_tree.map_or(Ok(true), |(step, read)| self.set_found(step, &read)) {
                    // Its name has gone to another file in this moment.
                    Ok(false) => {}
                    set => {
                        self.finish_put(offer.session, set.map(|_| None), None);
                        return Ok(Outcome::Accepted);
                    }
                }
            }
            Here::Pending(done) => return Ok(Outcome::Pending { done, total: offer.size }),
            Here::No => {}
        }
        let object = match offer.size {
            0 => None,
            size => Some(self.object_info(size, digest.tag(), &offer.geometry)?),
        };
        let resume = offer.resume && step.as_ref().is_none_or(TreeStep::is_file);
        let mut taking = Taking::new(owner, name, offer);
        if let Some(step) = &step {
            taking.shown = step.shown();
        }
        if let Some(TreeStep::File { existing, .. }) = &step {
            (taking.existing, taking.is_of_tree) = (*existing, true);
        }
        if resume && self.waits_for_rival(&taking) {
            return Ok(Outcome::Pending { done: 0, total: offer.size });
        }
        if let Some(account) = account {
            self.promise_room(account, &taking, step.as_ref())?;
        }
        let part = match self.part_for(&taking, resume) {
            // Asked again, it finds the place free.
            Err(StoreError::Busy { .. }) if self.frees_place() => {
                return Ok(Outcome::Pending { done: 0, total: offer.size });
            }
            part => Arc::new(part?),
        };
        let space = (self.store.space()?, self.config.client_share);
        lock(&self.puts).claim(offer.session, part.reserved(), space)?;
        match object {
            None => {
                self.tell_if(taking.event(0));
                let committed = self.commit_put(offer.session, &part);
                self.finish_put(offer.session, committed, None);
            }
            Some(object) if part.has_old_bytes() => match part.remembered() {
                Some(verified) => {
                    let (held, pages) = (blocks_within(verified, &object), taking.pages(&object));
                    self.take_up(&taking, object, part, pages, held)?;
                }
                None => {
                    self.check_left(taking, object, part);
                    return Ok(Outcome::Pending { done: 0, total: offer.size });
                }
            },
            Some(object) => {
                let pages = taking.pages(&object);
                self.begin_put(&taking, object, part, pages, Vec::new())?;
            }
        }
        Ok(Outcome::Accepted)
    }

    /// Whether the client that offers an object was sending it a moment ago, so that its part file is in use. A
    /// session in which nothing arrives, or whose client does not ask any more how far the verification is of what was left,
    /// is ended: that client was killed, and has come again.
    fn waits_for_rival(&self, taking: &Taking) -> bool {
        let rival = lock(&self.puts).rival(taking, crate::clock::now());
        if let Some(Rival::Silent(session)) = rival {
            let reason = "the same client has offered the same bytes again".to_owned();
            self.give_up_put(session, RefusalCode::Failed, reason);
        }
        !matches!(rival, None | Some(Rival::Lives))
    }

    /// Whether an object that hardly comes is given up, so that another one finds a place.
    fn frees_place(&self) -> bool {
        let puts = lock(&self.puts);
        let is_given_up = puts.has_given_up();
        let least = puts.least(crate::clock::now()).filter(|_| !is_given_up);
        drop(puts);
        if let Some(session) = least {
            let reason = "others wait for its place, and hardly anything of it came".to_owned();
            self.give_up_put(session, RefusalCode::TooSlow, reason);
        }
        is_given_up || least.is_some()
    }

    /// Promises room for what is offered in its client's quota.
    fn promise_room(
        &self,
        account: &Account,
        taking: &Taking,
        step: Option<&TreeStep>,
    ) -> Result<(), Refusal> {
        if !account.counts_what_is_kept() {
            return Ok(());
        }
        let files = match step {
            None => vec![(taking.name.to_string(), taking.size)],
            Some(TreeStep::Finish { tree, .. }) => match account.max_files() {
                None => return Ok(()),
                Some(limit) => tree.missing_without_bytes(self.store.root(), limit),
            },
            Some(step) => step.files(),
        };
        if !files.is_empty() {
            let promise = self.quotas.promise(account, files, crate::clock::now())?;
            lock(&self.puts).keep_promise(taking.session, promise);
        }
        Ok(())
    }

    /// Makes the part file, or takes up the one that is left. If there is no room, part files go that
    /// nobody works on, if that helps.
    fn part_for(&self, taking: &Taking, resume: bool) -> Result<PartFile, StoreError> {
        let Taking { name, size, digest, existing, .. } = taking;
        let make = || match resume {
            _ if taking.is_of_tree => {
                let part = self.store.begin_of_tree(name, (*size, *digest, *existing), resume);
                part.map(|part| if resume { part } else { part.of_verified() })
            }
            true => self.store.resume(name, *size, *digest, *existing),
            false => self.store.create(name, *size, *digest, *existing).map(PartFile::of_verified),
        };
        match make() {
            Err(StoreError::NoSpace { needed, free }) => {
                match self.makes_room(taking.session, needed, free) {
                    true => make(),
                    false => Err(StoreError::NoSpace { needed, free }),
                }
            }
            made => made,
        }
    }

    /// Takes up an object of which some blocks are there, perhaps all.
    pub(super) fn take_up(
        self: &Arc<Self>,
        taking: &Taking,
        object: ObjectInfo,
        part: Arc<PartFile>,
        pages: Pages,
        held: Vec<Range<u32>>,
    ) -> Result<(), Refusal> {
        if held.first().is_some_and(|run| run.len() == object.source_blocks as usize) {
            self.tell_if(taking.event(taking.size));
            let committed = self.commit_put(taking.session, &part);
            drop(part);
            self.finish_put(taking.session, committed, Some(ReceiveStats::default()));
            return Ok(());
        }
        self.begin_put(taking, object, part, pages, held)
    }

    /// Opens the session of an object of which some blocks are there.
    fn begin_put(
        self: &Arc<Self>,
        taking: &Taking,
        object: ObjectInfo,
        part: Arc<PartFile>,
        pages: Pages,
        held: Vec<Range<u32>>,
    ) -> Result<(), Refusal> {
        let Taking { session, owner: Owner { client, key }, group, size, digest, .. } = *taking;
        if let Some(group) = group {
            self.check_group(session, group)?;
            self.handle
                .join_group((group, client), self.config.interface.as_ref())
                .map_err(|error| Refusal::new(RefusalCode::Unsupported, error.to_string()))?;
        }
        let sink = Arc::clone(&part) as Arc<dyn ObjectSink>;
        let mut puts = lock(&self.puts);
        let request = ReceiveObject {
            session,
            object,
            digest: digest.0,
            mode: if group.is_some() { Mode::OneToMany } else { Mode::Unicast },
            senders: vec![client],
            initial_window: taking.initial_window,
            sink: Arc::new(Verified::new(Arc::clone(&pages.manifest), sink)),
            complete: held.clone(),
            priority: taking.priority,
            key,
        };
        let events = self.put_events(session);
        let progress = self.handle.receive_object(request, events).map_err(|error| {
            self.leave(group, client, session);
            Refusal::failed(error)
        })?;
        self.wait_for_client(session, taking.timeout_ms);
        if group.is_none() && first_missing(&held) > 0 {
            // The client begins with the first block that is missing.
            // A driver that has stopped has ended its sessions.
            let _ = self.handle.sender_back(session, client, RESUMED_EPOCH);
        }
        let resumed = held.iter().cloned().flatten();
        self.tell_if(taking.event(resumed.map(|sbn| object.byte_range_of_block(sbn).1).sum()));
        let taken = Taken {
            session,
            putter: taking.putter(&self.requester),
            size,
            part: Arc::downgrade(&part),
        };
        crate::task::spawn(taken.follow(Arc::clone(self), pages));
        if let Some(put) = puts.get_mut(session) {
            put.begin(object.source_blocks, held, (part, progress));
        }
        Ok(())
    }

    /// Whether exactly this object is there: an offer repeated after a success succeeds. What is
    /// known of the file only says whether it is worth reading; its bytes decide, and the name must
    /// still lead to them when they have been read.
    fn is_here_already(
        &self,
        owner: Owner,
        (name, size, digest): (&ObjectName, u64, Digest),
        reads: Reads,
    ) -> Here {
        let Ok((file, fingerprint)) = self.store.open_object(name) else { return Here::No };
        if fingerprint.size() != size {
            return Here::No;
        }
        let is_worth_reading = match (reads, self.digests.cached(&fingerprint)) {
            (Reads::Always, _) => true,
            (Reads::Unknown | Reads::Known, Some(known)) => known == digest,
            (Reads::Unknown, None) => true,
            (Reads::Known, None) => false,
        };
        if size > 0 && !is_worth_reading {
            return Here::No;
        }
        match self.digests.verify(&file, fingerprint, source_of(owner.client)) {
            Known::Pending(done) => Here::Pending(done),
            Known::Digest(found) if found == digest => {
                // It may have come without having been brought onto the disk.
                let synced = self.store.sync_object(name, &file);
                let now = synced.and_then(|()| self.store.open_object(name));
                match now.is_ok_and(|(_, now)| now == fingerprint) {
                    true => Here::Yes(Some(fingerprint)),
                    false => Here::No,
                }
            }
            _ => Here::No,
        }
    }

    /// Gives up an object for a reason of its client's.
    pub(super) fn give_up_put(&self, session: SessionId, code: RefusalCode, reason: String) {
        if let Some(put) = lock(&self.puts).get_mut(session) {
            if put.given_up.is_none() && code == RefusalCode::TooSlow {
                self.tally.count_too_slow();
            }
            put.given_up.get_or_insert((code, reason));
            if let Stage::Checking(checking) = &put.stage {
                checking.end();
            }
        }
        // A driver that has stopped has ended its sessions.
        let _ = self.handle.cancel(session);
    }

    /// Gives up objects that get on too slowly to be worth the space that is held for them.
    pub(super) fn end_idle_puts(&self, now: Instant) {
        let mut puts = lock(&self.puts);
        let (idle, unheard) = (puts.idle(now), puts.unheard_groups(now));
        drop(puts);
        for (group, client, session) in unheard {
            self.leave(Some(group), client, session);
        }
        for session in idle {
            let code = RefusalCode::TooSlow;
            self.give_up_put(session, code, code.to_string());
        }
    }

    pub(super) fn on_put_event(self: &Arc<Self>, session: SessionId, event: SessionEvent) {
        let mut puts = lock(&self.puts);
        let Some(put) = puts.get_mut(session) else { return };
        match event {
            SessionEvent::LeftGroup => put.left_group = true,
            SessionEvent::MovedToUnicast => {
                put.left_group = false;
                let (group, client) = (put.group.take(), put.client);
                drop(puts);
                self.leave(group, client, session);
            }
            SessionEvent::Received { stats, .. } => {
                let stage = std::mem::replace(&mut put.stage, Stage::Verifying);
                let (group, client) = (put.group.take(), put.client);
                drop(puts);
                self.leave(group, client, session);
                if let Stage::Receiving(part, _) = stage {
                    let handler = Arc::clone(self);
                    crate::task::spawn_blocking(move || {
                        let committed = handler.commit_put(session, &part);
                        if matches!(committed, Err(StoreError::Exists(_))) {
                            part.discard();
                        }
                        // Its space is free again before the client hears of the success.
                        drop(part);
                        handler.finish_put(session, committed, Some(stats));
                    });
                }
            }
            SessionEvent::SymbolsAltered { symbols, excluded, .. } => {
                let client = put.client;
                if let Some(suppressed) = self.limit.pass_line(client, crate::clock::now()) {
                    tracing::warn!(
                        ?session, %client, symbols, excluded, suppressed,
                        "altered symbols of an object"
                    );
                }
                if excluded {
                    let reason = "symbols were altered by the sender or on their way".to_owned();
                    put.given_up.get_or_insert((RefusalCode::BadDigest, reason));
                }
            }
            SessionEvent::Failed(failure) => {
                let (name, client, group) = (put.shown.clone(), put.client, put.group.take());
                let given_up = put.given_up.take();
                let (code, reason) =
                    given_up.unwrap_or_else(|| (RefusalCode::Failed, failure.to_string()));
                puts.end(session, Stage::Failed(code));
                drop(puts);
                self.has_left_parts.store(true, Ordering::Release);
                self.leave(group, client, session);
                if let Some(name) = name {
                    self.tell(ServerEvent::ReceiveFailed { name, client, reason });
                }
            }
            event => tracing::debug!(?session, ?event, "receiving"),
        }
    }

    pub(super) fn tell_if(&self, event: Option<ServerEvent>) {
        if let Some(event) = event {
            self.tell(event);
        }
    }

    /// Gives an object whose bytes are there its place, or does with it what is done with part of a tree.
    pub(super) fn commit_put(
        &self,
        session: SessionId,
        part: &PartFile,
    ) -> Result<Option<Fingerprint>, StoreError> {
        let (step, (promise, name)) = {
            let mut puts = lock(&self.puts);
            (puts.step(session), puts.take_promise(session))
        };
        let place = || match &step {
            None => {
                let _stays = self.stay();
                part.commit()
            }
            Some((step, digest)) => self.place_step(step, *digest, Some(part)),
        };
        match promise {
            Some(promise) => self.quotas.place(promise, place),
            None => {
                let placed = place();
                if placed.is_ok() && !self.quotas.is_empty() {
                    let of_step = step.map(|(step, _)| step.files());
                    let names =
                        of_step.unwrap_or_else(|| name.map(|name| (name, 0)).into_iter().collect());
                    self.quotas.disown(names.iter().map(|(name, _)| name.as_str()));
                }
                placed
            }
        }
    }

    /// The end of an object that is in place, or was refused its place.
    pub(super) fn finish_put(
        &self,
        session: SessionId,
        committed: Result<Option<Fingerprint>, StoreError>,
        stats: Option<ReceiveStats>,
    ) {
        let mut puts = lock(&self.puts);
        let Some(put) = puts.get_mut(session) else { return };
        let (name, client, size, digest) = (put.shown.clone(), put.client, put.size, put.digest);
        drop(puts);
        // A driver that has stopped counts no more.
        let statistics = stats.as_ref().and_then(|_| self.handle.statistics().ok());
        let socket_dropped = statistics.map_or(0, |now| now.received.socket_dropped);
        tracing::debug!(?session, ?stats, socket_dropped, "received");
        if let Ok(Some(written)) = &committed {
            self.digests.learn(*written, digest);
        }
        let event = name.map(|name| match &committed {
            Ok(_) => ServerEvent::Received { name, client, size, stats, socket_dropped },
            Err(error) => ServerEvent::ReceiveFailed { name, client, reason: error.to_string() },
        });
        if let (None, Err(error)) = (&event, &committed)
            && let Some(suppressed) = self.limit.pass_line(client, crate::clock::now())
        {
            tracing::info!(?session, %client, %error, suppressed, "part of a tree");
        }
        puts = lock(&self.puts);
        if committed.is_ok() {
            puts.discard_rivals(session);
        }
        puts.end(
            session,
            match committed {
                Ok(_) => Stage::Complete,
                Err(error) => Stage::Failed(store_messages::refusal_code(&error)),
            },
        );
        drop(puts);
        self.tell_if(event);
    }
}
