//! Requests of any clients in any order to a server whose driver is not started: the fuzz target `server_requests`.
//!
//! Nobody gets more than he sends, begins a transfer without a cookie of his own, or spends one twice; what is refused is
//! refused again; transfers, windows and memory keep their bounds, and no name leads out of the served directory. Where
//! the server has keys, nobody begins what he has no right to.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use arbitrary::{Arbitrary, Unstructured};
use tokio::sync::mpsc;
use wellspring_core::SessionId;
use wellspring_trust::{
    ChannelId, ClusterKey, Folders, Identity, Initiator, Keyring, Peer, PrivateKey, Responder,
    Rights, Suite,
};
use wellspring_wire::control::{
    Cookie, Geometry, Name, Offer, Parsed, RefusalCode, Reply, Request, Start, StartNdp,
    emit_request, parse,
};
use wellspring_wire::scdp::Mode;

use super::ServerConfig;
use super::answer::SessionReport;
use super::handler::{Handler, lock};
use super::puts::Stage;
use super::quotas::Quotas;
use crate::driver::{ControlMessage, PeerChannel};
use crate::protocols::Unattended;
use crate::store::tree::listing::TreeName;
use crate::store::{Digest, Limits, ObjectName, Store};

/// Steps of an input, at most.
const MAX_STEPS: usize = 64;
/// Names that clients ask for; the first three are served.
const NAMES: [&str; 7] =
    ["a", "folder/b", "empty", "none", "../secret", ".wellspring-quotas", "folder"];
/// Names of what a server makes, of trees and for trials; `ID` stands for a listing's.
const MADE: [&str; 17] = [
    "folder/",
    "/",
    "//digests",
    "folder//digests",
    "folder//level",
    "//sample:64000",
    "folder//files:ID:0",
    "//files:ID:0x2",
    "none/",
    "../secret/",
    "..//digests",
    ".//sample:15",
    "folder//put",
    "folder//put:atomic",
    "folder//lacks:ID",
    "folder//clear:ID",
    "folder//finish:ID",
];
/// What is nobody's to ask for.
const SECRET: [&str; 5] =
    ["../secret", ".wellspring-quotas", "../secret/", "..//digests", ".//sample:15"];
const MAX_SENDS: usize = 5;
const MAX_SENDS_AN_ADDRESS: usize = 3;
const MAX_PUTS_AN_ADDRESS: usize = 2;
const MAX_PUTS: usize = 3;
const MAX_SESSIONS: usize = 4;
/// Longest block and longest window that a server serves \[bytes\].
const MAX_BLOCK: u64 = 16 << 20;
const MAX_WINDOW: u64 = 1 << 20;

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Step {
    /// A client asks for something, with a cookie that it was given, or with another's or none.
    Ask { client: u8, what: What, session: u8, name: u8, shape: Shape, cookie: u8 },
    /// What the driver has been asked for comes to its end.
    EndSessions,
    /// It is looked for offers that do not get on.
    LookForIdle { seconds: u8 },
    /// No more transfers begin, as from then on.
    Drain,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum What {
    Info,
    Start { wrong_digest: bool },
    StartNdp { payload: u16 },
    Offer { size: u16, overwrite: bool, resume: bool },
    Manifest { log: u8, index: u8 },
    Held { from: u8 },
    Path { path: u8 },
    Status,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
struct Shape {
    symbol_size: u16,
    symbols: u8,
    window: u8,
}

impl Shape {
    fn geometry(self) -> Geometry {
        // Mostly such as clients ask for.
        let symbol_size =
            if self.symbol_size.is_multiple_of(4) { self.symbol_size.max(1) } else { 1_000 };
        let symbols_per_block =
            if self.symbols > 250 { 60_000 } else { self.symbols.max(1).into() };
        Geometry { symbol_size, symbols_per_block, initial_window: self.window.max(1) }
    }
}

struct Model<'a> {
    handler: Arc<Handler>,
    unattended: &'a mut Unattended,
    reports: mpsc::UnboundedReceiver<SessionReport>,
    /// Who the clients are, if the server has keys.
    identities: Option<[Arc<Identity>; 3]>,
    /// Digests by name: of what is served, and of what the server has said.
    digests: BTreeMap<String, Digest>,
    /// The listing that was asked for last, by the name of its beginning.
    listing: String,
    nonce: u64,
    /// Cookies that clients were given, the last ones last.
    given: BTreeMap<SocketAddr, Vec<Cookie>>,
    /// Cookies for which a transfer began.
    spent: BTreeSet<[u8; 16]>,
    /// Transfers that were accepted, whatever became of them.
    begun: BTreeSet<(u8, u32, SocketAddr)>,
}

/// A reply, as far as the model looks at it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Said {
    Accepted,
    Refused(RefusalCode),
    Other,
    Nothing,
}

fn client(number: u8) -> SocketAddr {
    // Two at one address, one at another.
    let (host, port) = [(1, 7), (1, 8), (2, 7)][usize::from(number) % 3];
    ([192, 0, 2, host], port).into()
}

/// The clients' keys: one has all rights, one may read a folder, one is not trusted any more.
struct Keys {
    keyring: Arc<Keyring>,
    identities: [Arc<Identity>; 3],
    channel: ChannelId,
}

static KEYS: LazyLock<Keys> = LazyLock::new(|| {
    let quota = format!("max-sessions={MAX_SESSIONS} max-files=3").parse().expect("a quota");
    let (mut keyring, mut folder) = (Keyring::new(), Folders::NONE);
    folder.add("folder").expect("a name");
    let some = Rights { read: folder, ..Rights::default() };
    let rights = [Rights { serve: false, ..Rights::all() }, some, Rights::default()];
    let mut number = 0;
    let identities = rights.map(|rights| {
        let rights = Rights { quota, ..rights };
        number += 1;
        let (name, key) = (format!("client-{number}"), PrivateKey::generate().public());
        let identity =
            Identity { name: name.clone(), fingerprint: key.fingerprint(), rights: rights.clone() };
        if number < 3 {
            let peer = Peer { name, key, rights, addresses: Vec::new() };
            keyring = std::mem::take(&mut keyring).with_peer(peer);
        }
        Arc::new(identity)
    });
    // Any channel will do: nothing leaves.
    let (key, suite) = (ClusterKey::generate(), Suite::of_this_machine());
    let initiator = Initiator::cluster(&key, suite, 1, &[]).expect("short");
    let responder = Responder::cluster(&key, initiator.datagram()).expect("for it");
    let (_, channel) = responder.finish(suite).expect("an answer");
    Keys { keyring: Arc::new(keyring), identities, channel: channel.id() }
});

impl<'a> Model<'a> {
    fn new(served: &Path, unattended: &'a mut Unattended, with_keys: bool) -> Self {
        let mut config = ServerConfig::new(client(0), served.to_owned());
        (config.allow_put, config.allow_overwrite) = (true, true);
        config.limits =
            Limits { object_len: 50_000, objects: MAX_PUTS, total_len: 60_000, keep_free: 0 };
        (config.max_sends, config.max_sends_an_address) = (MAX_SENDS, MAX_SENDS_AN_ADDRESS);
        config.max_puts_an_address = MAX_PUTS_AN_ADDRESS;
        config.client_share = 100;
        let quota = format!("max-sessions={MAX_SESSIONS} max-files=3");
        config.address_quota = quota.parse().expect("a quota");
        config.driver.keys = with_keys.then(|| Arc::clone(&KEYS.keyring));
        let store = Store::open(served, config.limits).expect("a directory");
        let mut digests = BTreeMap::new();
        // Known from before, so that nothing is computed in the background.
        for name in &NAMES[..2] {
            let bytes = fs::read(served.join(name)).expect("there");
            let digest = Digest(*blake3::hash(&bytes).as_bytes());
            digests.insert((*name).to_owned(), digest);
            let name = ObjectName::new(name).expect("a name");
            let (_, fingerprint) = store.open_object(&name).expect("there");
            config.cache.insert_own(fingerprint, digest);
        }
        let quotas = Quotas::new(Arc::clone(store.root()));
        let (events, reports) = mpsc::unbounded_channel();
        let handle = unattended.handle();
        let handler = Arc::new(Handler::new(handle, (store, quotas), config, events));
        let identities = with_keys.then(|| KEYS.identities.clone());
        let (given, spent, begun) = Default::default();
        let listing = "0".repeat(32);
        Model {
            handler,
            unattended,
            reports,
            identities,
            digests,
            listing,
            nonce: 0,
            given,
            spent,
            begun,
        }
    }

    /// The name of that number.
    fn name(&self, number: u8) -> String {
        match usize::from(number) {
            number @ 0..128 => NAMES[number % NAMES.len()].to_owned(),
            number => MADE[number % MADE.len()].replace("ID", &self.listing),
        }
    }

    /// Who a client is, and by which channel it asks.
    fn peer(&self, from: SocketAddr) -> Option<PeerChannel> {
        let identities = self.identities.as_ref()?;
        let number = (0..3).find(|number| client(*number) == from)?;
        let identity = Arc::clone(&identities[usize::from(number)]);
        Some(PeerChannel { identity, channel: KEYS.channel })
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Ask { client: number, what, session, name, shape, cookie } => {
                let from = client(number);
                let cookie = self.cookie(from, number, cookie);
                let said = self.ask(from, what, session % 4, name, shape, cookie);
                if let Said::Refused(code) = said {
                    let again = self.ask(from, what, session % 4, name, shape, cookie);
                    // A request to send has paid with its cookie for what was found.
                    let is_paid = matches!(what, What::Start { .. } | What::StartNdp { .. });
                    let is_same = again == said || is_paid && again == Said::Other;
                    assert!(is_same, "{what:?} is refused twice differently: {code}, {again:?}");
                }
            }
            Step::EndSessions => self.end_sessions(),
            Step::LookForIdle { seconds } => {
                let now = Instant::now() + Duration::from_secs(seconds.into());
                self.handler.end_idle_puts(now);
            }
            Step::Drain => {
                self.handler.close();
            }
        }
        self.unattended.replies();
        self.check();
    }

    fn cookie(&self, from: SocketAddr, number: u8, which: u8) -> Cookie {
        let of = match which % 8 {
            0 => return Cookie::NONE,
            1 => client(number % 3 + 1),
            _ => from,
        };
        let given = self.given.get(&of).map_or(&[][..], Vec::as_slice);
        given.iter().rev().nth(usize::from(which / 8) % 4).copied().unwrap_or(Cookie([which; 16]))
    }

    /// Asks, and looks at the reply.
    fn ask(
        &mut self,
        from: SocketAddr,
        what: What,
        session: u8,
        name: u8,
        shape: Shape,
        cookie: Cookie,
    ) -> Said {
        let text = self.name(name);
        let name = Name::new(&text).expect("short");
        let digest = self.digests.get(&text).copied().unwrap_or_else(Digest::of_nothing).0;
        let (id, geometry) = (SessionId(session.into()), shape.geometry());
        let request = match what {
            What::Info => Request::Info { name, geometry },
            What::Start { wrong_digest } => Request::Start(Start {
                session: id,
                name,
                digest: if wrong_digest { [1; 32] } else { digest },
                share_index: 0,
                share_count: 1,
                geometry,
                resume: None,
                background: shape.window % 2 == 1,
                timeout_ms: 1_000,
            }),
            What::StartNdp { payload } => {
                let own = self.handler.handle.ndp().payload;
                let payload = if payload.is_multiple_of(4) { payload } else { own };
                let (offset, len) = (u64::from(shape.symbols) % 3, u64::from(shape.window) + 1);
                let timeout_ms = 1_000;
                let start =
                    StartNdp { session: id, name, digest, payload, offset, len, timeout_ms };
                Request::StartNdp(start)
            }
            What::Offer { size, overwrite, resume } => Request::Offer(Offer {
                session: id,
                name,
                size: size.into(),
                digest: if size == 0 { Digest::of_nothing().0 } else { [2; 32] },
                mode: Mode::Unicast,
                group: None,
                geometry,
                overwrite,
                resume,
                background: shape.window % 2 == 1,
                timeout_ms: 1_000,
            }),
            What::Manifest { log, index } => {
                Request::Manifest { name, digest, log, index: index.into() }
            }
            What::Held { from } => Request::Held { session: id, from: from.into() },
            What::Path { path } => Request::Path { session: id, path, token: Cookie::NONE },
            What::Status => Request::Status { session: id },
        };
        self.nonce += 1;
        let mut bytes = Vec::new();
        emit_request(self.nonce, cookie, &request, &mut bytes);
        // What no client of ours would send is not read as a request.
        if !matches!(parse(&bytes), Ok(Parsed::Request { .. })) {
            return Said::Nothing;
        }
        let asked = bytes.len();
        let message = ControlMessage {
            from,
            local: None,
            port: 0,
            class: 0,
            bytes,
            peer: self.peer(from),
            trouble: None,
            unreached: None,
        };
        self.handler.answer(&message);
        let replies = self.unattended.replies();
        assert!(replies.len() <= 1, "{} replies", replies.len());
        let Some(reply) = replies.into_iter().next() else { return Said::Nothing };
        assert_eq!(reply.to, from);
        assert!(reply.bytes.len() <= asked, "{} bytes for {asked}", reply.bytes.len());
        let Ok(Parsed::Reply { nonce, reply }) = parse(&reply.bytes) else { panic!("no reply") };
        assert_eq!(nonce, self.nonce);
        match reply {
            // An offer that is taken is answered by how far it is.
            Reply::Accepted | Reply::Status { .. }
                if !matches!(request, Request::Status { .. }) =>
            {
                self.accepted(from, &request, cookie);
                Said::Accepted
            }
            Reply::Refused { code, .. } => Said::Refused(code),
            Reply::Challenge { cookie } => {
                self.given.entry(from).or_default().push(cookie);
                Said::Other
            }
            Reply::Info { cookie, digest, .. } => {
                assert!(!SECRET.contains(&&*text), "{text} is told of");
                self.given.entry(from).or_default().push(cookie);
                self.digests.insert(text.clone(), Digest(digest));
                if text.ends_with('/') {
                    self.listing = Digest(digest).to_string()[..32].to_owned();
                }
                Said::Other
            }
            Reply::Manifest { .. } => {
                assert!(!SECRET.contains(&&*text), "{text} is told of");
                Said::Other
            }
            _ => Said::Other,
        }
    }

    /// Whoever begins a transfer has the right to it.
    fn check_right(&self, from: SocketAddr, name: &str, put: bool) {
        assert!(!SECRET.contains(&name), "{name} is sent or taken");
        let Some(PeerChannel { identity, .. }) = self.peer(from) else { return };
        let of_put = TreeName::is_one(name)
            && TreeName::parse(name).is_some_and(|name| name.part.is_of_put());
        let Rights { read, put: puts, .. } = &identity.rights;
        // Bytes for a trial are for all who are known, and those have a right to something.
        let may = match put || of_put {
            true => puts.hold(name),
            false if name.starts_with("//sample:") => !read.is_empty(),
            false => read.hold(name),
        };
        assert!(may, "{} has no right to {name}", identity.name);
    }

    /// A transfer was begun, or had been.
    fn accepted(&mut self, from: SocketAddr, request: &Request<'_>, cookie: Cookie) {
        let (kind, session, geometry) = match request {
            Request::Start(start) => {
                self.check_right(from, start.name.as_str(), false);
                (0, start.session, Some(start.geometry))
            }
            Request::StartNdp(start) => {
                self.check_right(from, start.name.as_str(), false);
                (1, start.session, None)
            }
            Request::Offer(offer) => {
                self.check_right(from, offer.name.as_str(), true);
                // What is here already needs no session, and so no blocks of any length.
                let is_here = lock(&self.handler.puts)
                    .get_mut(offer.session)
                    .is_some_and(|put| matches!(put.stage, Stage::Complete));
                (2, offer.session, Some(offer.geometry).filter(|_| offer.size > 0 && !is_here))
            }
            _ => return,
        };
        let is_mine = self.given.get(&from).is_some_and(|given| given.contains(&cookie));
        let known = !self.begun.insert((kind, session.0, from));
        // Who asks again spends no cookie.
        let is_new = !known && is_mine && self.spent.insert(cookie.0);
        assert!(is_new || known, "{request:?} was accepted without a cookie");
        // Who asks again is told of the session that there is.
        if let Some(Geometry { symbol_size, symbols_per_block, initial_window }) =
            geometry.filter(|_| !known)
        {
            let symbol = u64::from(symbol_size);
            assert!(symbol * u64::from(initial_window) <= MAX_WINDOW, "{geometry:?}");
            let object = 50_000;
            assert!(
                (symbol * u64::from(symbols_per_block)).min(object) <= MAX_BLOCK,
                "{geometry:?}"
            );
        }
    }

    /// The driver has stopped as far as it is asked: all sessions fail.
    fn end_sessions(&mut self) {
        self.unattended.fail_sessions();
        while let Ok(report) = self.reports.try_recv() {
            self.handler.on_session(report);
        }
    }

    fn check(&self) {
        let counters = self.handler.counters();
        assert!(counters.sending <= MAX_SENDS, "{} sends", counters.sending);
        assert!(counters.receiving <= 2 * MAX_PUTS_AN_ADDRESS, "{} puts", counters.receiving);
        assert!(counters.sending + counters.receiving <= 2 * MAX_SESSIONS);
    }

    fn end(mut self) {
        self.end_sessions();
        self.unattended.replies();
        let counters = self.handler.counters();
        assert_eq!((counters.sending, lock(&self.handler.sends).count()), (0, 0), "sends are held");
    }
}

/// The input is the steps; its last byte, which is none, says whether the server has keys.
pub fn run(input: &[u8]) {
    thread_local! {
        static UNATTENDED: std::cell::RefCell<Unattended> =
            std::cell::RefCell::new(Unattended::new().expect("a driver"));
    }
    let home = folder();
    let _ = fs::remove_dir_all(&home);
    let served = home.join("served");
    fs::create_dir_all(served.join("folder")).expect("directories");
    for (name, len) in NAMES.iter().zip([5_000, 20_000, 0]) {
        fs::write(served.join(name), vec![7; len]).expect("written");
    }
    fs::write(home.join("secret"), "not to be read").expect("written");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.expect("a runtime");
    UNATTENDED.with_borrow_mut(|unattended| {
        let _entered = runtime.enter();
        let with_keys = input.last().is_some_and(|last| last % 2 == 1);
        let mut model = Model::new(&served, unattended, with_keys);
        let mut input = Unstructured::new(input);
        for _ in 0..MAX_STEPS {
            let Ok(step) = input.arbitrary() else { break };
            if input.is_empty() {
                break;
            }
            model.step(step);
        }
        model.end();
    });
    drop(runtime);
    assert_eq!(fs::read(home.join("secret")).expect("there"), b"not to be read");
    assert_eq!(fs::read_dir(&home).expect("there").count(), 2, "something was put outside");
    fs::remove_dir_all(&home).expect("removed");
}

/// A folder of this thread's own, in memory if there is such a file system.
fn folder() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let thread = format!("{:?}", std::thread::current().id());
    let thread: String = thread.chars().filter(char::is_ascii_digit).collect();
    folder.join(format!("wellspring-requests-{}-{thread}", std::process::id()))
}
