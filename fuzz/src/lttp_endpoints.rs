//! LTTP's endpoint, as server and as client, under any sequence of commands, frames, deadlines and finished work, beside a
//! model of what it may do.
//!
//! It keeps its contract (`Checked` panics on a breach) and its limit of sessions. Symbols go only to hosts that were offered
//! something and have asked for it, and a control message is answered by one at most. A symbol counts once, a block is
//! finished only with as many symbols as it has, and blocks come in order. Once the world falls silent every
//! session ends.

use std::collections::{BTreeMap, BTreeSet};

use wellspring_core::{
    Destination, Duration, Ecn, Endpoint as _, Frame, HostId, Identity, Seed, SessionId, Time,
    Verdict, Work, WorkDone,
};
use wellspring_testkit::Checked;
use wellspring_transport::congestion::Algorithm;
use wellspring_transport::lttp::{Command, Config, Endpoint, Event, LttpHeader, Parameters};
use wellspring_transport::tfrc::{Report, Stamp};

/// Sessions the endpoint may hold, and numbers of sessions and other hosts there are.
const MAX_SESSIONS: usize = 4;
const SESSIONS: u8 = 6;
const PEERS: u8 = 4;
/// Encoding symbols of a block, at most.
const MAX_SYMBOLS: u32 = 300;
/// Frames taken after one input at most: what an interface has room for.
const ROOM: usize = 256;
/// Steps of an input, at most, and bytes of one.
const MAX_STEPS: usize = 400;
const STEP_LEN: usize = 6;

/// Small numbers hit the bounds of what is going on, large ones those of arithmetic.
fn number(value: u8, size: u8) -> u64 {
    let value = u64::from(value);
    match size % 8 {
        0..=2 => value,
        3 => value * 1_000,
        4 => value << 24,
        5 => u64::from(u32::MAX) - value,
        6 => u64::from(u32::MAX) + value,
        _ => u64::MAX - value,
    }
}

fn small(value: u8, size: u8) -> u32 {
    number(value, size) as u32
}

fn parameters([len, size, symbol_size, k]: [u8; 4]) -> Parameters {
    Parameters {
        transfer_len: number(len, size).saturating_mul([1, 100, 1_000][usize::from(size / 8 % 3)]),
        symbol_size: [100, 1, 0, u16::MAX][usize::from(symbol_size % 4)],
        block_symbols: [u32::from(k % 32), u32::MAX - u32::from(k)][usize::from(k / 128)],
    }
}

/// What is fetched under a number, as the model knows it.
struct Fetch {
    server: HostId,
    parameters: Option<Parameters>,
    /// Blocks that are complete, and symbols that counted of those from there on.
    complete: u32,
    kept: BTreeSet<(u32, u32)>,
}

struct Host {
    endpoint: Checked<Endpoint>,
    now: Time,
    work: Vec<Work>,
    /// The next number of a stamp.
    stamp: u32,
    /// What was offered to whom, and whether it has been asked for.
    offered: BTreeMap<(HostId, SessionId), bool>,
    fetched: BTreeMap<SessionId, Fetch>,
    /// Control messages that came and are to be answered, less those that were.
    unanswered: u64,
}

impl Host {
    fn new(choice: u8) -> Self {
        let mut config = Config::new(HostId(0), Seed(1));
        config.symbol_size = 100;
        config.block_symbols = 4;
        config.max_symbols = MAX_SYMBOLS;
        config.overlap = choice & 1 != 0;
        config.congestion = (choice & 2 != 0).then(|| Algorithm::ALL[usize::from(choice / 4 % 3)]);
        config.progress_every = u32::from(choice / 16 % 4);
        config.max_sessions = MAX_SESSIONS;
        config.control_timeout = Duration::from_millis(20);
        config.peer_timeout = Duration::from_millis(200);
        let mut endpoint = Endpoint::new(config);
        if choice & 128 != 0 {
            endpoint.report_rates();
        }
        Host {
            endpoint: Checked::new(endpoint),
            now: Time::ZERO + Duration::from_secs(1),
            work: Vec::new(),
            stamp: 0,
            offered: BTreeMap::new(),
            fetched: BTreeMap::new(),
            unanswered: 0,
        }
    }

    fn take(&mut self, [what, which, rest @ ..]: [u8; STEP_LEN]) {
        let [a, b, c, d] = rest;
        let session = SessionId((which % SESSIONS).into());
        let peer = HostId(1 + u32::from(which / 8 % PEERS));
        let to = (peer, session);
        // The high bits of the first byte say what the network does with a frame.
        let network = what / 32;
        match what % 16 {
            0 => self.command(Command::Offer { session, client: peer, transfer_len: number(a, b) }),
            1 => {
                let parameters = parameters(rest);
                let peer_timeout = Duration::from_secs(1 + u64::from(d % 60));
                let client = peer;
                self.command(Command::OfferCut { session, client, parameters, peer_timeout });
            }
            2 => self.command(Command::Request { session, server: peer }),
            3 => {
                let symbol_size = small(a, b) as u16;
                self.command(Command::RequestCut { session, server: peer, symbol_size });
            }
            4 => self.command(Command::Cancel { session }),
            5 => self.arrive(to, network, LttpHeader::Request),
            6 => self.arrive(to, network, LttpHeader::Parameters(parameters(rest))),
            // Symbols of a block, in a row.
            7 | 8 => {
                let (sbn, first) = (small(a, b), small(c, b / 8));
                for esi in first..=first.saturating_add(u32::from(d % 32)) {
                    let stamp = self.stamp(d / 32);
                    self.arrive(to, network, LttpHeader::Symbol { stamp, sbn, esi });
                }
            }
            9 => {
                let report = Report {
                    echo: self.now - Duration::from_micros(number(a, b)),
                    delay: Duration::from_micros(number(c, b / 8)),
                    receive_rate: number(d, b / 16),
                    loss_event_rate: small(d, c),
                };
                self.arrive(to, network, LttpHeader::Report(report));
            }
            10 => self.arrive(to, network, LttpHeader::Stop { next: small(a, b) }),
            11 => self.arrive(to, network, LttpHeader::Stopped { next: small(a, b) }),
            12 => self.arrive(to, network, LttpHeader::Close),
            13 if self.work.is_empty() => {}
            13 => {
                let work = self.work.swap_remove(usize::from(a) % self.work.len());
                self.finish(work, b, u32::from(c));
            }
            14 => {
                self.now = self.now + Duration::from_micros(u64::from(a) * u64::from(b));
                self.endpoint.handle_timeout(self.now);
            }
            _ => {
                self.wake(Duration::from_nanos(1));
            }
        }
        self.drain();
    }

    /// A stamp of the next packet, or of one that is not.
    fn stamp(&mut self, choice: u8) -> Stamp {
        self.stamp = match choice {
            0..=4 => self.stamp.wrapping_add(1),
            5 => self.stamp.wrapping_add(3),
            6 => self.stamp.wrapping_sub(2),
            _ => self.stamp.wrapping_add(1 << 31),
        };
        let rtt = Duration::from_micros([0, 100, 20_000, u64::MAX][usize::from(choice % 4)]);
        Stamp { number: self.stamp, sent: self.now - Duration::from_micros(50), rtt }
    }

    fn command(&mut self, command: Command) {
        // Misuse is answered by a typed error; a panic is what this target looks for.
        if self.endpoint.handle_command(self.now, command).is_err() {
            return;
        }
        match command {
            Command::Offer { session, client, .. } | Command::OfferCut { session, client, .. } => {
                self.offered.insert((client, session), false);
            }
            Command::Request { session, server } | Command::RequestCut { session, server, .. } => {
                let (parameters, complete, kept) = Default::default();
                self.fetched.insert(session, Fetch { server, parameters, complete, kept });
            }
            // The other side is told, which is no answer.
            Command::Cancel { .. } => self.unanswered += 1,
        }
    }

    fn arrive(&mut self, (source, session): (HostId, SessionId), network: u8, header: LttpHeader) {
        let (misdirected, trimmed) = (network == 4, network == 5);
        let frame = Frame {
            source,
            destination: Destination::Host(HostId(u32::from(misdirected))),
            session,
            payload_len: if trimmed { 0 } else { 100 },
            path: 0,
            class: 0,
            ecn: if network == 6 { Ecn::Marked } else { Ecn::NotCapable },
            trimmed,
            header,
        };
        let verdict = self.endpoint.handle_frame(self.now, &frame);
        assert!(!misdirected || matches!(verdict, Verdict::Drop(_)), "taken from another's");
        match header {
            LttpHeader::Request if verdict == Verdict::Consumed => {
                let asked = self.offered.get_mut(&(source, session));
                *asked.expect("asked for, and never offered to it") = true;
                self.unanswered += 1;
            }
            // Confirmed also where it is not known any more.
            LttpHeader::Stop { .. } if !misdirected && !trimmed => self.unanswered += 1,
            _ => {}
        }
        if let Verdict::Keep(identity) = verdict {
            self.kept(source, session, identity);
        }
    }

    /// A symbol counts.
    fn kept(&mut self, source: HostId, of: SessionId, identity: Identity) {
        let Identity::Symbol { session, sbn, esi } = identity else {
            panic!("kept {identity:?}");
        };
        let fetch = self.fetched.get_mut(&of).expect("asked for");
        assert_eq!((fetch.server, session), (source, of), "of another server or session");
        assert!(esi < MAX_SYMBOLS && (fetch.complete..=fetch.complete + 1).contains(&sbn));
        assert!(fetch.kept.insert((sbn, esi)), "{identity:?} counts twice");
    }

    /// A piece of work ends, in one way or another.
    fn finish(&mut self, work: Work, how: u8, more: u32) {
        let Work::Finish { session, sbn, .. } = work;
        let done = match how % 4 {
            0 => WorkDone::NeedMore { session, sbn, more },
            1 => WorkDone::Wrong { session, sbn, more },
            _ => WorkDone::Finished { session, sbn },
        };
        self.endpoint.handle_work_done(self.now, done);
    }

    /// Goes on to the next deadline, by so much at least; false if there is none.
    fn wake(&mut self, least: Duration) -> bool {
        let Some(deadline) = self.endpoint.poll_timeout() else { return false };
        self.now = deadline.later_of(self.now + least);
        self.endpoint.handle_timeout(self.now);
        true
    }

    fn drain(&mut self) {
        while let Some(event) = self.endpoint.poll_event() {
            self.on_event(event);
        }
        while let Some(work) = self.endpoint.poll_work() {
            let Work::Finish { session, sbn, .. } = work;
            let fetch = &self.fetched[&session];
            let k = fetch.parameters.map_or(0, |parameters| parameters.symbols_in_block(sbn));
            let symbols = fetch.kept.range((sbn, 0)..=(sbn, u32::MAX)).count();
            assert_eq!(sbn, fetch.complete, "another block's turn");
            assert!(k > 0 && symbols >= k as usize, "{symbols} symbols of {k}");
            self.work.push(work);
        }
        for _ in 0..ROOM {
            let Some(frame) = self.endpoint.poll_transmit(self.now) else { break };
            self.on_frame(&frame);
        }
        assert!(self.endpoint.inner().open_sessions() <= MAX_SESSIONS);
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Accepted { session, parameters } => {
                let fetch = self.fetched.get_mut(&session).expect("asked for");
                assert!(fetch.parameters.replace(parameters).is_none(), "accepted twice");
            }
            Event::BlockComplete { session, sbn } => {
                let fetch = self.fetched.get_mut(&session).expect("asked for");
                assert_eq!(sbn, fetch.complete, "blocks come in order");
                fetch.complete += 1;
                fetch.kept.retain(|(of, _)| *of > sbn);
            }
            Event::Received { session, server, .. } => {
                let fetch = &self.fetched[&session];
                let blocks = fetch.parameters.map(|parameters| parameters.blocks());
                assert_eq!((fetch.server, Some(fetch.complete)), (server, blocks));
            }
            Event::Progress { session, .. } => {
                assert!(self.fetched.contains_key(&session), "asked for");
            }
            Event::Sent { session, .. } | Event::Rate { session, .. } => {
                let mut asked = self.offered.iter().filter(|(key, _)| key.1 == session);
                assert!(asked.next().is_some(), "never offered");
            }
            Event::Failed { .. } => {}
        }
    }

    fn on_frame(&mut self, frame: &Frame<LttpHeader>) {
        let Destination::Host(peer) = frame.destination else { panic!("sent to a group") };
        assert_ne!(peer, HostId(0), "sent to itself");
        match frame.header {
            LttpHeader::Symbol { esi, .. } => {
                let asked = self.offered.get(&(peer, frame.session));
                assert_eq!(asked, Some(&true), "symbols that nobody has asked for");
                assert!(esi < MAX_SYMBOLS);
            }
            LttpHeader::Parameters(_) | LttpHeader::Stopped { .. } | LttpHeader::Close => {
                self.unanswered =
                    self.unanswered.checked_sub(1).expect("a message that answers none");
            }
            LttpHeader::Request | LttpHeader::Stop { .. } | LttpHeader::Report(_) => {
                let fetch = self.fetched.get(&frame.session);
                assert_eq!(fetch.map(|fetch| fetch.server), Some(peer), "nothing is fetched there");
            }
        }
        assert!(frame.payload_len == 0 || matches!(frame.header, LttpHeader::Symbol { .. }));
    }

    /// Nobody says anything any more; work is done as it comes.
    fn fall_silent(&mut self) {
        // A rate that was forged is beyond any link's: the clock moves on, whatever is still to be sent.
        for _ in 0..5_000 {
            while let Some(work) = self.work.pop() {
                self.finish(work, 2, 0);
                self.drain();
            }
            if self.endpoint.inner().open_sessions() == 0 || !self.wake(Duration::from_millis(2)) {
                break;
            }
            self.drain();
        }
        let left = self.endpoint.inner().open_sessions();
        assert_eq!(left, 0, "sessions that do not end: {:?}", self.endpoint.inner());
    }
}

/// The first byte of an input says how the endpoint is configured, each six bytes after it what happens next.
pub fn run(input: &[u8]) {
    let Some((choice, steps)) = input.split_first() else { return };
    let mut host = Host::new(*choice);
    for step in steps.as_chunks::<STEP_LEN>().0.iter().take(MAX_STEPS) {
        host.take(*step);
    }
    host.fall_silent();
}
