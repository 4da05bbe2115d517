//! Requests, answered.

use std::sync::Arc;

use wellspring_trust::Identity;
use wellspring_wire::control::{
    Geometry, Parsed, RefusalCode, Reply, Request, Runs, VERSION, emit_reply, parse,
    request_of_other_version, set_version,
};

use super::ServerEvent;
use super::answer::{Outcome, Owner, Refusal, SessionReport, Shown};
use super::cookie::Purpose;
use super::digests::{Begin, Known};
use super::handler::{Handler, lock};
use super::sends::Kind;
use super::tree_requests::not_on_the_disk;
use crate::driver::{ControlMessage, OutgoingControl, PeerChannel};
use crate::socket::Unreached;
use crate::store::Digest;
use crate::store::tree::is_in_doubt;
use crate::store::tree::listing::{TreeName, TreePart};
use wellspring_net::canonical;

/// Whether a key has the right to put an object of that name, or to read it.
pub(super) fn has_right(identity: &Identity, put: bool, name: &str) -> Result<(), Refusal> {
    let rights = &identity.rights;
    let (right, folders) = if put { ("put", &rights.put) } else { ("read", &rights.read) };
    if folders.hold(name) {
        return Ok(());
    }
    let (key, fingerprint) = (&identity.name, identity.fingerprint);
    let text = format!("key {key} ({fingerprint}) has no right to {right} {name}");
    Err(Refusal::new(RefusalCode::NotAllowed, text))
}

impl Handler {
    /// Takes in a control message: on a thread that may wait for the disk, unless too many wait
    /// already, of all or of its address, when it is dropped and will be repeated.
    pub(super) fn take_in(self: &Arc<Self>, message: ControlMessage) {
        if message.unreached == Some(Unreached::PortClosed) {
            return lock(&self.puts).on_closed_port(canonical(message.from));
        }
        match parse(&message.bytes) {
            Ok(Parsed::Request { .. }) => {}
            Ok(Parsed::Reply { .. }) => return self.requester.take_in(&message),
            Err(_) => return self.refuse_other_version(&message),
        }
        let place = match self.at_work.take(canonical(message.from)) {
            Ok(place) => place,
            Err(full) => return self.dropped_requests.count(full),
        };
        let handler = Arc::clone(self);
        crate::task::spawn_blocking(move || {
            handler.answer(&message);
            drop(place);
        });
    }

    /// Answers a request; may wait for the disk.
    pub(super) fn answer(self: &Arc<Self>, message: &ControlMessage) {
        let Ok(Parsed::Request { nonce, cookie, request }) = parse(&message.bytes) else { return };
        let client = canonical(message.from);
        let identity = message.peer.as_ref().map(|peer| &peer.identity);
        let account = self.account(identity, client);
        let key = identity.map(|identity| identity.fingerprint);
        let shown = Shown { client, key, cookie, account: account.as_ref() };
        let allowed = self.allowed(message, shown.owner(), &request);
        let outcome = match &request {
            _ if allowed.is_err() => allowed.map(|()| Outcome::Nothing),
            Request::Info { name, geometry } => self.info(shown, name.as_str(), *geometry),
            Request::Start(start) => self.start(shown, start),
            Request::Offer(offer) => self.offer(shown, offer),
            Request::StartNdp(start) => self.start_ndp(shown, start),
            Request::Path { session, path, token } => {
                self.add_path(shown, (*session, *path), *token)
            }
            Request::Manifest { name, digest, log, index } => {
                let asked = (shown, message, nonce);
                self.manifest(asked, name.as_str(), Digest(*digest), (*log, *index))
            }
            // Needs no cookie: it comes sealed, from the host that has proven its address by its offer.
            Request::GroupKey(key) => self.group_key(shown.owner(), key),
            // These need no cookie: the answer is no longer than the question, and nothing follows.
            Request::Held { session, from } => {
                let runs = Runs::write(lock(&self.puts).held(*session, shown.owner(), *from));
                let runs = Runs::new(&runs).expect("runs of blocks ascend");
                return self.reply(message, nonce, &Reply::Held { runs });
            }
            Request::Probe(probe) => return self.answer_probe(message, nonce, *probe),
            Request::Addresses => return self.answer_addresses(message, nonce),
            Request::Status { session } => {
                self.follow_client(*session, shown.owner());
                // To whom it is not known to belong, nothing is said: the client may ask by a path that is known.
                let reply = lock(&self.puts).status(*session, shown.owner());
                return reply.map_or((), |reply| self.reply(message, nonce, &reply));
            }
        };
        match outcome {
            Ok(Outcome::Nothing) => {}
            Ok(Outcome::Info { cookie, size, digest }) => {
                let instance = self.instance;
                let info = Reply::Info { cookie, size, digest: digest.0, instance };
                self.reply(message, nonce, &info);
            }
            Ok(Outcome::Pending { done, total }) => {
                self.reply(message, nonce, &Reply::Pending { done, total });
            }
            Ok(Outcome::Challenge(cookie)) => {
                self.reply(message, nonce, &Reply::Challenge { cookie });
            }
            Ok(Outcome::Manifest(nodes)) => {
                self.reply(message, nonce, &Reply::Manifest { nodes: nodes.as_flattened() });
            }
            Ok(Outcome::Accepted) => {
                let reply = match &request {
                    // With what is here of it, which the client would ask for next.
                    Request::Offer(offer) => lock(&self.puts).status(offer.session, shown.owner()),
                    _ => Some(Reply::Accepted),
                };
                if let Some(reply) = reply {
                    self.reply(message, nonce, &reply);
                }
            }
            Err(refusal) => {
                let name = match &request {
                    Request::Info { name, .. } | Request::Manifest { name, .. } => name.to_string(),
                    Request::Start(start) => start.name.to_string(),
                    Request::Offer(offer) => offer.name.to_string(),
                    Request::StartNdp(start) => start.name.to_string(),
                    Request::Status { .. }
                    | Request::Held { .. }
                    | Request::Path { .. }
                    | Request::Probe(_)
                    | Request::Addresses
                    | Request::GroupKey(_) => String::new(),
                };
                self.refuse(message, nonce, name, refusal);
            }
        }
    }

    /// Refuses a request that names that object, or none.
    pub(super) fn refuse(
        &self,
        message: &ControlMessage,
        nonce: u64,
        name: String,
        Refusal { code, text }: Refusal,
    ) {
        let client = canonical(message.from);
        let refused = ServerEvent::Refused { name, client, reason: text.clone() };
        self.tell_limited(refused, Some(code));
        self.reply(message, nonce, &Reply::Refused { code, text: &text });
    }

    /// Whether the key that has sent a request has the right to what it asks. A server without keys asks nobody.
    fn allowed(
        &self,
        message: &ControlMessage,
        owner: Owner,
        request: &Request<'_>,
    ) -> Result<(), Refusal> {
        if self.config.driver.keys.is_none() {
            return Ok(());
        }
        let (name, put) = match request {
            // A transfer that has begun outlives the right to begin one.
            Request::Manifest { name, .. }
                if lock(&self.sends).source(owner, name.as_str()).is_some() =>
            {
                return Ok(());
            }
            Request::Info { name, .. } | Request::Manifest { name, .. } => {
                (name, is_of_put(name.as_str()))
            }
            Request::Start(start) => (&start.name, is_of_put(start.name.as_str())),
            Request::StartNdp(start) => (&start.name, false),
            Request::Offer(offer) => (&offer.name, true),
            // Answered only to the key that has made the offer, or has the session.
            Request::Status { .. }
            | Request::Held { .. }
            | Request::Path { .. }
            | Request::GroupKey(_)
            // Of interest to whoever may ask for anything at all.
            | Request::Addresses
            | Request::Probe(_) => return Ok(()),
        };
        let Some(PeerChannel { identity, .. }) = &message.peer else {
            return Err(Refusal::new(RefusalCode::NotAllowed, "the key is not known any more"));
        };
        if is_sample(name.as_str()) {
            return self.still_known(identity).map(drop);
        }
        has_right(identity, put, name.as_str())
    }

    /// Refuses a request of another version, in that version.
    fn refuse_other_version(&self, message: &ControlMessage) {
        let Some((version, nonce)) = request_of_other_version(&message.bytes) else { return };
        let text = format!(
            "this server speaks version {VERSION}, your host version {version}: install the same version on both"
        );
        let (name, client) = (String::new(), canonical(message.from));
        let refused = ServerEvent::Refused { name, client, reason: text.clone() };
        let code = RefusalCode::Unsupported;
        self.tell_limited(refused, Some(code));
        let mut bytes = Vec::new();
        emit_reply(nonce, &Reply::Refused { code, text: &text }, &mut bytes);
        set_version(&mut bytes, version);
        self.send_reply(message, None, bytes);
    }

    pub(super) fn reply(&self, to: &ControlMessage, nonce: u64, reply: &Reply<'_>) {
        self.reply_in_class(to, nonce, reply, None);
    }

    /// As [`reply`](Self::reply), in that traffic class.
    pub(super) fn reply_in_class(
        &self,
        to: &ControlMessage,
        nonce: u64,
        reply: &Reply<'_>,
        class: Option<u8>,
    ) {
        let mut bytes = Vec::new();
        emit_reply(nonce, reply, &mut bytes);
        self.send_reply(to, class, bytes);
    }

    fn send_reply(&self, to: &ControlMessage, class: Option<u8>, bytes: Vec<u8>) {
        // From the address that was asked, or the client would not know whose answer it is. A lost one is asked for again.
        let answer = OutgoingControl { class, ..OutgoingControl::answer(to, bytes) };
        let _ = self.handle.send_control(answer);
    }

    fn info(&self, shown: Shown<'_>, name: &str, geometry: Geometry) -> Result<Outcome, Refusal> {
        self.check_open(shown.client)?;
        if TreeName::is_one(name) {
            return self.tree_info(shown, name, geometry);
        }
        let Shown { client, cookie, .. } = shown;
        let name = self.name_to_serve(name)?;
        let (file, fingerprint) = self.store.open_object(&name)?;
        if is_in_doubt(&file, name.as_str(), || self.store.open_tree("").ok()) {
            return Err(not_on_the_disk(name.as_str(), 1));
        }
        let size = fingerprint.size();
        let purpose = Purpose::Digest { name: name.as_str() };
        let proven = self.jar.is_good(client, cookie, purpose);
        let told = || self.tell(ServerEvent::Hashing { name: name.to_string(), size });
        let begin = proven.then_some(Begin { of: shown.source(), told: &told });
        match self.digests.of(&file, fingerprint, begin) {
            Known::Digest(digest) => {
                let start = Purpose::Start { name: name.as_str(), digest, geometry };
                Ok(Outcome::Info { cookie: self.jar.bake(client, start), size, digest })
            }
            Known::Pending(done) => Ok(Outcome::Pending { done, total: size }),
            Known::Failed(reason) => Err(Refusal::new(RefusalCode::Failed, reason)),
            Known::Unknown => Ok(Outcome::Challenge(self.jar.bake(client, purpose))),
        }
    }

    /// Takes in what happened in a session.
    pub(super) fn on_session(self: &Arc<Self>, report: SessionReport) {
        match report {
            SessionReport::Send { session, number, event } => {
                self.on_send_event((Kind::Scdp, session, number), event, |name, client, stats| {
                    ServerEvent::Sent { name, client, stats }
                });
            }
            SessionReport::Put { session, event } => self.on_put_event(session, event),
            SessionReport::Ndp { session, number, event } => {
                self.on_send_event((Kind::Ndp, session, number), event, |name, client, stats| {
                    ServerEvent::SentNdp { name, client, stats }
                });
            }
        }
    }
}

/// Whether a name is that of bytes for a trial, which are nobody's.
fn is_sample(name: &str) -> bool {
    let part = TreeName::parse(name).map(|name| name.part);
    matches!(part, Some(TreePart::Sample { .. }))
}

/// Whether the right to put into a directory is what a client needs to ask for an object of that name.
fn is_of_put(name: &str) -> bool {
    TreeName::is_one(name) && TreeName::parse(name).is_some_and(|name| name.part.is_of_put())
}
