//! Table of the sessions that send.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use wellspring_core::SessionId;
use wellspring_wire::control::{RefusalCode, Start, StartNdp};

use super::address_limit::{Full, Place, Places, source_of};
use super::answer::{Outcome, Owner, Refusal};
use super::cookie::Purpose;
use super::give_way::{Marks, victim};
use super::quotas::{Account, Quotas, Session};
use super::running::{Direction, Protocol, RunningTransfer, TransferState};
use crate::driver::SessionProgress;
use crate::store::FileSource;

/// How long nothing was sent of a session whose client may come back from another address.
const STANDSTILL: Duration = Duration::from_secs(1);

/// A protocol whose sessions are begun by control messages. Each numbers its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Kind {
    Scdp,
    Ndp,
}

/// A request to send an object.
pub(super) struct Wanted<'a> {
    pub session: SessionId,
    pub name: &'a str,
    pub digest: [u8; 32],
    /// What its cookie must be good for.
    pub purpose: Purpose<'a>,
    /// What the protocol must know besides.
    pub by: By<'a>,
}

/// What is asked of a protocol.
#[derive(Clone, Copy)]
pub(super) enum By<'a> {
    Scdp(&'a Start<'a>),
    Ndp(&'a StartNdp<'a>),
}

impl Wanted<'_> {
    fn key(&self) -> (Kind, SessionId) {
        let kind = match self.by {
            By::Scdp(_) => Kind::Scdp,
            By::Ndp(_) => Kind::Ndp,
        };
        (kind, self.session)
    }

    /// \[bytes\]
    fn symbol_size(&self) -> u16 {
        match self.by {
            By::Scdp(start) => start.geometry.symbol_size,
            By::Ndp(start) => start.payload,
        }
    }

    /// Symbols that are pushed before anybody asks for one.
    fn pushed(&self) -> u64 {
        match self.by {
            By::Scdp(start) => start.geometry.initial_window.into(),
            By::Ndp(_) => 0,
        }
    }

    fn epoch(&self) -> u8 {
        match self.by {
            By::Scdp(start) => start.resume.map_or(0, |at| at.epoch),
            By::Ndp(_) => 0,
        }
    }
}

/// What became of a request for a place.
pub(super) struct Admitted {
    /// The session's number among all.
    pub number: u64,
    /// An earlier life of it is to be ended.
    pub replaces: bool,
    /// Another session whose place it has, and which is to be ended.
    pub instead_of: Option<Ended>,
}

/// A session that was taken out for another one.
pub(super) struct Ended {
    pub kind: Kind,
    pub session: SessionId,
    pub client: SocketAddr,
    pub name: String,
}

/// Sessions that send.
pub(super) struct Sends {
    places: Arc<Places>,
    open: BTreeMap<(Kind, SessionId), Sending>,
    /// How many there have been.
    begun: u64,
}

struct Sending {
    /// Its number among all.
    number: u64,
    owner: Owner,
    name: String,
    epoch: u8,
    symbol_size: u16,
    /// Once it is handed to the driver; until then it is being opened.
    running: Option<SessionProgress>,
    /// How far it was some time ago.
    marks: Marks,
    /// Symbols sent when another address last asked for the session, and when that was.
    looked: Option<(u64, Instant)>,
    /// Where the bytes come from of an object that is sent by SCDP.
    source: Option<Arc<FileSource>>,
    places: (Place, Option<Session>),
}

impl Sending {
    /// Whether a client that asks from another address may be the same one, whose address has
    /// changed: then nothing has been sent to the old address for a while, since nobody pulls
    /// there. A session that is in use is nobody else's to take.
    fn stands_still(&mut self, now: Instant) -> bool {
        let Some(progress) = &self.running else { return false };
        let sent = progress.symbols();
        match self.looked {
            Some((before, since)) if before == sent => now.duration_since(since) >= STANDSTILL,
            _ => {
                self.looked = Some((sent, now));
                false
            }
        }
    }
}

impl Sends {
    pub(super) fn new(places: Arc<Places>) -> Self {
        Sends { places, open: BTreeMap::new(), begun: 0 }
    }

    /// How many there are.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn count(&self) -> usize {
        self.open.len()
    }

    /// Whether SCDP sends by that number.
    pub(super) fn holds(&self, session: SessionId) -> bool {
        self.open.contains_key(&(Kind::Scdp, session))
    }

    /// The answer to a request that was granted before, or that cannot be.
    pub(super) fn known(
        &mut self,
        owner: Owner,
        wanted: &Wanted<'_>,
    ) -> Result<Option<Outcome>, Refusal> {
        let Some(open) = self.open.get_mut(&wanted.key()) else { return Ok(None) };
        let epoch = wanted.epoch();
        let is_elsewhere = open.owner.client != owner.client;
        let is_anothers = open.name != wanted.name || open.owner.key != owner.key;
        if is_anothers || is_elsewhere && epoch <= open.epoch {
            return Err(Refusal::new(RefusalCode::SessionInUse, "session number in use"));
        }
        if is_elsewhere && !open.stands_still(crate::clock::now()) {
            let text = "the session is in use from another address; try again";
            return Err(Refusal::new(RefusalCode::Busy, text));
        }
        Ok(match epoch.cmp(&open.epoch) {
            Ordering::Equal if open.running.is_some() => Some(Outcome::Accepted),
            // Being opened, or overtaken by a later request. A later one is repeated, and answered once the one
            // before it runs, which can be ended then.
            Ordering::Equal | Ordering::Less => Some(Outcome::Nothing),
            Ordering::Greater if open.running.is_none() => Some(Outcome::Nothing),
            Ordering::Greater => None,
        })
    }

    /// Takes a place for the session; if there is none, that of another one that hardly gets on, or of an address with more
    /// than its share.
    pub(super) fn admit(
        &mut self,
        owner: Owner,
        wanted: &Wanted<'_>,
        (quotas, account): (&Arc<Quotas>, Option<&Account>),
        now: Instant,
    ) -> Result<Admitted, Refusal> {
        let key = wanted.key();
        let mut instead_of = None;
        let (replaces, places) = match self.open.remove(&key) {
            Some(earlier) => (earlier.running.is_some(), earlier.places),
            None => {
                let session = quotas.session(account)?;
                let place = match self.places.take(owner.client) {
                    Ok(place) => place,
                    Err(full) => {
                        instead_of = self.give_way(owner, full, now);
                        self.places.take(owner.client)?
                    }
                };
                (false, (place, session))
            }
        };
        self.begun += 1;
        let sending = Sending {
            number: self.begun,
            owner,
            name: wanted.name.to_owned(),
            epoch: wanted.epoch(),
            symbol_size: wanted.symbol_size(),
            running: None,
            marks: Marks::new(wanted.pushed(), now),
            looked: None,
            source: None,
            places,
        };
        self.open.insert(key, sending);
        Ok(Admitted { number: self.begun, replaces, instead_of })
    }

    /// Takes out a session so that a client finds a place, whose limit it is.
    fn give_way(&mut self, owner: Owner, full: Full, now: Instant) -> Option<Ended> {
        let pace = |(key, open): (&(Kind, SessionId), &Sending)| {
            let symbols = open.running.as_ref()?.symbols();
            let pace = open.marks.pace(symbols, open.symbol_size, now)?;
            Some((pace, *key, source_of(open.owner.client)))
        };
        let sends: Vec<_> = self.open.iter().filter_map(pace).collect();
        let wanted = (source_of(owner.client), full.is_of_address());
        let (kind, session) = victim(&sends, &self.places.by_address(), wanted)?;
        let open = self.open.remove(&(kind, session))?;
        Some(Ended { kind, session, client: open.owner.client, name: open.name })
    }

    /// Notes how far all are.
    pub(super) fn mark(&mut self, now: Instant) {
        for open in self.open.values_mut() {
            if let Some(progress) = &open.running {
                open.marks.count(progress.symbols(), now);
            }
        }
    }

    /// Notes where the bytes come from that SCDP is to send.
    pub(super) fn keep_source(&mut self, session: SessionId, source: &Arc<FileSource>) {
        if let Some(open) = self.open.get_mut(&(Kind::Scdp, session)) {
            open.source = Some(Arc::clone(source));
        }
    }

    /// Where the bytes come from of an object that SCDP sends to a client.
    pub(super) fn source(&self, owner: Owner, name: &str) -> Option<Arc<FileSource>> {
        let is_it =
            |open: &&Sending| open.owner == owner && open.name == name && open.source.is_some();
        self.open.values().find(is_it).and_then(|open| open.source.clone())
    }

    /// Notes what became of the session that was admitted by that number: it runs, or it could not be opened. Meanwhile it may
    /// be over, and another one have its place.
    pub(super) fn opened(
        &mut self,
        wanted: &Wanted<'_>,
        number: u64,
        running: Option<SessionProgress>,
    ) {
        let key = wanted.key();
        let Some(open) = self.open.get_mut(&key).filter(|open| open.number == number) else {
            return;
        };
        open.running = running;
        if open.running.is_none() {
            self.open.remove(&key);
        }
    }

    /// All, with the numbers of SCDP's sessions.
    pub(super) fn running(
        &self,
    ) -> impl Iterator<Item = (Option<SessionId>, RunningTransfer)> + use<'_> {
        self.open.iter().map(|((kind, session), open)| {
            let (session, protocol) = match kind {
                Kind::Scdp => (Some(*session), Protocol::Scdp),
                Kind::Ndp => (None, Protocol::Ndp),
            };
            let (state, size, moved) = match &open.running {
                None => (TransferState::Opening, 0, 0),
                Some(progress) => {
                    let moved = progress.symbols() * u64::from(open.symbol_size);
                    (TransferState::Moving, progress.transfer_len(), moved)
                }
            };
            let transfer = RunningTransfer {
                number: open.number,
                client: open.owner.client,
                name: open.name.clone(),
                direction: Direction::Send,
                protocol,
                state,
                size,
                done: moved.min(size),
                moved,
                blocks: None,
                multicast: false,
                account: None,
            };
            (session, transfer)
        })
    }

    /// To whom SCDP sends in a session.
    pub(super) fn owner(&self, session: SessionId) -> Option<Owner> {
        let open = self.open.get(&(Kind::Scdp, session)).filter(|open| open.running.is_some())?;
        Some(open.owner)
    }

    /// Takes out a session that is over, unless it was replaced by a later one. To whom it sent, and what.
    pub(super) fn end(
        &mut self,
        kind: Kind,
        session: SessionId,
        number: u64,
    ) -> Option<(SocketAddr, String)> {
        let key = (kind, session);
        self.open.get(&key).filter(|open| open.number == number)?;
        self.open.remove(&key).map(|open| (open.owner.client, open.name))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use wellspring_wire::control::{Geometry, Name, ResumeAt};

    use super::*;

    struct Table {
        sends: Sends,
        places: Arc<Places>,
        quotas: Arc<Quotas>,
        _home: tempfile::TempDir,
    }

    fn owner() -> Owner {
        Owner { client: ([192, 0, 2, 1], 7).into(), key: None }
    }

    impl Table {
        fn new() -> Self {
            let home = tempfile::tempdir().expect("temporary directory");
            let places = Places::new("sends", 9, 9);
            let root = crate::store::Root::open(home.path()).expect("a directory");
            let quotas = Quotas::new(Arc::new(root));
            Table { sends: Sends::new(Arc::clone(&places)), places, quotas, _home: home }
        }

        fn known(&mut self, start: &Start<'_>) -> Option<Outcome> {
            let known = self.sends.known(owner(), &wanted(start));
            known.map_err(|refusal| refusal.text).expect("the same client")
        }

        fn admit(&mut self, start: &Start<'_>) -> (u64, bool) {
            let admitted = self.admit_of(owner(), start, Instant::now());
            let Admitted { number, replaces, instead_of } = admitted.expect("there is room");
            assert!(instead_of.is_none(), "there is room");
            (number, replaces)
        }

        fn admit_of(
            &mut self,
            owner: Owner,
            start: &Start<'_>,
            now: Instant,
        ) -> Result<Admitted, String> {
            let counted = (&self.quotas, None);
            let admitted = self.sends.admit(owner, &wanted(start), counted, now);
            admitted.map_err(|refusal| refusal.text)
        }

        fn end(&mut self, number: u64) -> bool {
            self.sends.end(Kind::Scdp, SessionId(5), number).is_some()
        }
    }

    fn start(epoch: u8) -> Start<'static> {
        let resume = ResumeAt { epoch, floor: 0, horizon: 0 };
        Start {
            session: SessionId(5),
            name: Name::new("x").expect("a name"),
            digest: [1; 32],
            share_index: 0,
            share_count: 1,
            geometry: Geometry { symbol_size: 1_000, symbols_per_block: 10, initial_window: 1 },
            resume: (epoch > 0).then_some(resume),
            timeout_ms: 0,
            background: false,
        }
    }

    fn wanted<'a>(start: &'a Start<'a>) -> Wanted<'a> {
        Wanted {
            session: start.session,
            name: "x",
            digest: start.digest,
            purpose: Purpose::of_start(start),
            by: By::Scdp(start),
        }
    }

    fn running() -> Option<SessionProgress> {
        Some(SessionProgress::new(1_000))
    }

    #[test]
    fn a_later_start_replaces_one_that_runs_and_waits_for_one_that_is_being_opened() {
        let mut table = Table::new();
        let (first, later) = (start(0), start(1));
        assert_eq!(table.admit(&first), (1, false));
        assert!(matches!(table.known(&later), Some(Outcome::Nothing)), "nothing to end yet");
        table.sends.opened(&wanted(&first), 1, running());
        assert!(matches!(table.known(&first), Some(Outcome::Accepted)));
        assert!(table.known(&later).is_none());
        assert_eq!(table.admit(&later), (2, true));
        assert!(!table.end(1), "its place is another's");
        assert_eq!(table.places.taken(), 1);
        assert!(table.end(2));
        assert_eq!(table.places.taken(), 0);
    }

    #[test]
    fn what_became_of_a_session_is_not_noted_at_another_one_of_its_number() {
        let mut table = Table::new();
        let start = start(0);
        // Over before it is noted that it runs.
        assert_eq!(table.admit(&start), (1, false));
        assert!(table.end(1));
        assert_eq!(table.admit(&start), (2, false));
        for running in [None, running()] {
            table.sends.opened(&wanted(&start), 1, running);
            assert!(matches!(table.known(&start), Some(Outcome::Nothing)), "being opened");
        }
        table.sends.opened(&wanted(&start), 2, None);
        assert_eq!((table.sends.count(), table.places.taken()), (0, 0));
    }

    #[test]
    fn who_finds_no_place_has_that_of_a_send_that_does_not_get_on_once_it_is_not_young() {
        let mut table = Table::new();
        let began = Instant::now();
        let client = |host: u8| Owner { client: ([192, 0, 2, host], 7).into(), key: None };
        let of = |session| Start { session: SessionId(session), ..start(0) };
        for session in 0..9 {
            let start = of(session);
            let owner = client(if session < 8 { 1 } else { 2 });
            let number = table.admit_of(owner, &start, began).expect("nine places").number;
            table.sends.opened(&wanted(&start), number, running());
        }
        let mut ask = |host, session, seconds| {
            let at = began + Duration::from_secs(seconds);
            let admitted = table.admit_of(client(host), &of(session), at);
            admitted.map(|admitted| admitted.instead_of.map(|ended| ended.session.0))
        };
        assert!(ask(3, 20, 9).is_err(), "all are young");
        assert_eq!(ask(3, 20, 10), Ok(Some(0)));
        assert_eq!(ask(3, 21, 11), Ok(Some(1)));
        assert_eq!(table.places.taken(), 9);
        // What is being opened does not count as slow.
        let mut left = Table::new();
        for session in 0..9 {
            assert!(left.admit_of(client(1), &of(session), began).is_ok());
        }
        assert!(left.admit_of(client(3), &of(20), began + Duration::from_secs(60)).is_err());
    }
}
