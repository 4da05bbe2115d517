//! An SCDP endpoint under any sequence of commands, frames, deadlines and finished work: it keeps its
//! contract (`Checked` panics on a breach) and its limits, and once the world falls silent every
//! session ends.

use arbitrary::{Arbitrary, Unstructured};
use wellspring_core::{
    Destination, Duration, Ecn, Endpoint as _, Frame, GroupId, HostId, Priority, Rate, SessionId,
    Time, Work, WorkDone,
};
use wellspring_testkit::Checked;
use wellspring_transport::scdp::{
    Command, Config, Endpoint, Fabric, ObjectInfo, ReceiveSession, Resume, Role, SendSession, Share,
};
use wellspring_wire::scdp::{Close, CloseReason, MAX_ESI, Mode, Options, Pull, ScdpHeader, Symbol};

/// Sessions the endpoint may hold.
const SESSIONS: u32 = 4;
const SYMBOL_SIZE: u16 = 100;
/// Frames taken after one input at most: what an interface has room for.
const ROOM: usize = 4_096;

/// Small numbers hit the bounds of what is going on, large ones those of arithmetic.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Number {
    Small(u8),
    Any(u32),
    NearMax(u8),
}

impl Number {
    fn get(self) -> u32 {
        match self {
            Self::Small(n) => n.into(),
            Self::Any(n) => n,
            Self::NearMax(n) => u32::MAX - u32::from(n),
        }
    }
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Object {
    /// So many symbols in blocks of so many.
    Sane { symbols: u16, in_block: u8 },
    /// As a stranger may announce it.
    Absurd { transfer_len: u64, symbol_size: u16, source_blocks: u32 },
    /// Of so many bytes in blocks of so many times ten.
    Blocks { len: u16, block: u8 },
}

impl Object {
    fn get(self) -> ObjectInfo {
        match self {
            Self::Sane { symbols, in_block } => {
                let len = u64::from(symbols % 2_000) * u64::from(SYMBOL_SIZE);
                ObjectInfo::new(len, SYMBOL_SIZE, u32::from(in_block % 30) + 1, 0xfeed)
            }
            Self::Absurd { transfer_len, symbol_size, source_blocks } => {
                let (object_tag, block_len) = (0xfeed, 0);
                ObjectInfo { transfer_len, object_tag, symbol_size, source_blocks, block_len }
            }
            Self::Blocks { len, block } => {
                let (len, block) = (len.into(), u64::from(block) * 10);
                ObjectInfo::in_blocks_of(block, len, SYMBOL_SIZE, 0xfeed)
            }
        }
    }
}

#[derive(Arbitrary, Debug)]
enum Packet {
    Symbol {
        sbn: Number,
        esi: Number,
        number: Number,
        epoch: u8,
        fin: bool,
        syn: Option<Syn>,
    },
    Pull {
        sbn: Number,
        granted: Number,
        floor: Number,
        run: u16,
        epoch: u8,
        fin: bool,
        directed: bool,
    },
    Close {
        reason: u8,
        from_receiver: bool,
    },
}

#[derive(Arbitrary, Clone, Copy, Debug)]
struct Syn {
    object: Object,
    other_bytes: bool,
    mode: u8,
    initial_window: u8,
}

fn priority(number: u8) -> Priority {
    Priority::ALL[usize::from(number % 3)]
}

fn mode(number: u8) -> Mode {
    [Mode::Unicast, Mode::OneToMany, Mode::ManyToOne][usize::from(number % 3)]
}

impl Syn {
    /// The options, as far as the parser would let them through.
    fn options(self) -> Option<Options> {
        let object = self.object.get();
        let possible =
            object.transfer_len > 0 && object.symbol_size > 0 && object.source_blocks > 0;
        possible.then(|| Options {
            transfer_len: object.transfer_len,
            object_tag: object.object_tag + u64::from(self.other_bytes),
            source_blocks: object.source_blocks,
            symbol_size: object.symbol_size,
            mode: mode(self.mode),
            initial_window: self.initial_window,
        })
    }
}

impl Packet {
    fn header(&self) -> ScdpHeader {
        match *self {
            Self::Symbol { sbn, esi, number, epoch, fin, syn } => ScdpHeader::Symbol(Symbol {
                sbn: sbn.get(),
                esi: esi.get() & MAX_ESI,
                number: number.get(),
                epoch: epoch % 4,
                priority: 1,
                fin,
                options: syn.and_then(Syn::options),
            }),
            Self::Pull { sbn, granted, floor, run, epoch, fin, directed } => {
                ScdpHeader::Pull(Pull {
                    sbn: sbn.get(),
                    granted: granted.get(),
                    floor: floor.get(),
                    run: run.max(1),
                    epoch: epoch % 4,
                    fin,
                    first: directed.then_some(u32::from(run)),
                })
            }
            Self::Close { reason, from_receiver } => {
                let reason = match reason % 5 {
                    0 => CloseReason::UnknownSession,
                    1 => CloseReason::Cancelled,
                    2 => CloseReason::Refused,
                    3 => CloseReason::Detached,
                    _ => CloseReason::Complete,
                };
                ScdpHeader::Close(Close { reason, from_receiver })
            }
        }
    }
}

#[derive(Arbitrary, Debug)]
enum Step {
    Send {
        session: u8,
        object: Object,
        receiver: u8,
        share: (u8, u8),
        window: u8,
        resume: Option<(u8, u16, u16)>,
    },
    SendGroup {
        session: u8,
        object: Object,
        members: u8,
        window: u8,
    },
    Receive {
        session: u8,
        object: Object,
        senders: u8,
        mode: u8,
        window: u8,
    },
    SenderBack {
        session: u8,
        sender: u8,
        epoch: u8,
    },
    Cancel {
        session: u8,
    },
    Arrive {
        session: u8,
        source: u8,
        packet: Packet,
        trimmed: bool,
        marked: bool,
    },
    /// A piece of work is done: which, and whether the block decoded.
    Finish {
        which: u8,
        decoded: bool,
    },
    Wait {
        micros: u16,
    },
    /// Wait for the deadline.
    Wake,
}

struct Host {
    endpoint: Checked<Endpoint>,
    now: Time,
    work: Vec<Work>,
}

impl Host {
    fn new(choice: u8) -> Self {
        let mut config = Config::new(HostId(0), Rate::from_mbps(1_000));
        config.fabric = match choice % 3 {
            0 => Fabric::Trimming,
            1 => Fabric::Shared { reordering_threshold: 3 },
            _ => Fabric::Dedicated { reordering_threshold: 3, window: 64 },
        };
        config.accept_unannounced = choice & 4 == 0;
        config.burst = if choice & 8 == 0 { 1 } else { 32 };
        config.peer_timeout = Duration::from_millis(200);
        config.limits.sessions = SESSIONS;
        config.limits.transfer_len = 1 << 30;
        Self { endpoint: Checked::new(Endpoint::new(config)), now: Time::ZERO, work: Vec::new() }
    }

    fn take(&mut self, step: Step) {
        let now = self.now;
        let command = match step {
            Step::Send { session, object, receiver, share: (index, count), window, resume } => {
                Some(Command::Send(SendSession {
                    session: id(session),
                    object: object.get(),
                    role: Role::Unicast { receiver: peer(receiver), share: Share { index, count } },
                    initial_window: window,
                    class: None,
                    resume: resume.map(|(epoch, floor, horizon)| Resume {
                        epoch,
                        floor: floor.into(),
                        horizon: horizon.into(),
                    }),
                    priority: priority(window),
                }))
            }
            Step::SendGroup { session, object, members, window } => {
                Some(Command::Send(SendSession {
                    session: id(session),
                    object: object.get(),
                    role: Role::OneToMany {
                        group: GroupId(1),
                        members: (0..members % 4).map(peer).collect(),
                        held: (members >= 4).then_some(1..u32::from(members)).into_iter().collect(),
                    },
                    initial_window: window,
                    class: Some(window),
                    resume: None,
                    priority: priority(members),
                }))
            }
            Step::Receive { session, object, senders, mode: number, window } => {
                Some(Command::Receive(ReceiveSession {
                    session: id(session),
                    object: object.get(),
                    mode: mode(number),
                    senders: (0..senders % 4).map(peer).collect(),
                    initial_window: window,
                    // Every other block from the first on, so many.
                    complete: (0..senders / 4 % 4)
                        .map(|b| u32::from(2 * b))
                        .map(|b| b..b + 1)
                        .collect(),
                    priority: priority(window),
                }))
            }
            Step::SenderBack { session, sender, epoch } => {
                Some(Command::SenderBack { session: id(session), sender: peer(sender), epoch })
            }
            Step::Cancel { session } => Some(Command::Cancel { session: id(session) }),
            Step::Arrive { session, source, packet, trimmed, marked } => {
                let frame = Frame {
                    source: peer(source),
                    destination: Destination::Host(HostId(0)),
                    session: id(session),
                    payload_len: if trimmed { 0 } else { SYMBOL_SIZE },
                    path: 0,
                    class: 0,
                    ecn: if marked { Ecn::Marked } else { Ecn::NotCapable },
                    trimmed,
                    header: packet.header(),
                };
                self.endpoint.handle_frame(now, &frame);
                None
            }
            Step::Finish { which, decoded } => {
                if !self.work.is_empty() {
                    let work = self.work.swap_remove(usize::from(which) % self.work.len());
                    self.finish(work, decoded, which / 16);
                }
                None
            }
            Step::Wait { micros } => {
                self.now = now + Duration::from_micros(micros.into());
                self.endpoint.handle_timeout(self.now);
                None
            }
            Step::Wake => {
                self.wake();
                None
            }
        };
        if let Some(command) = command {
            // Misuse is answered by a typed error; a panic is what this target looks for.
            let _ = self.endpoint.handle_command(now, command);
        }
        self.drain();
    }

    fn finish(&mut self, work: Work, decoded: bool, wrong: u8) {
        let Work::Finish { session, sbn, decode } = work;
        let done = if wrong > 0 && !decoded {
            WorkDone::Wrong { session, sbn, more: u32::from(wrong) - 1 }
        } else if decoded || !decode {
            WorkDone::Finished { session, sbn }
        } else {
            WorkDone::NeedMore { session, sbn, more: 1 }
        };
        self.endpoint.handle_work_done(self.now, done);
    }

    /// Goes on to the next deadline; false if there is none.
    fn wake(&mut self) -> bool {
        let Some(deadline) = self.endpoint.poll_timeout() else { return false };
        // A drained endpoint with a deadline that has passed gets time moving all the same.
        self.now = deadline.later_of(self.now + Duration::from_nanos(1));
        self.endpoint.handle_timeout(self.now);
        true
    }

    fn drain(&mut self) {
        while let Some(work) = self.endpoint.poll_work() {
            self.work.push(work);
        }
        while self.endpoint.poll_event().is_some() {}
        for _ in 0..ROOM {
            let Some(frame) = self.endpoint.poll_transmit(self.now) else { break };
            assert_ne!(frame.destination, Destination::Host(HostId(0)), "sent to itself");
        }
        assert!(self.endpoint.inner().sessions() <= SESSIONS as usize);
    }

    /// Nobody says anything any more; work is done as it comes.
    fn fall_silent(&mut self) {
        for _ in 0..200_000 {
            while let Some(work) = self.work.pop() {
                self.finish(work, true, 0);
                self.drain();
            }
            if self.endpoint.inner().sessions() == 0 || !self.wake() {
                break;
            }
            self.drain();
        }
        let left = self.endpoint.inner().sessions();
        assert_eq!(left, 0, "sessions that do not end: {:?}", self.endpoint.inner());
    }
}

fn id(number: u8) -> SessionId {
    SessionId(u32::from(number % 6))
}

/// One of a few other hosts.
fn peer(number: u8) -> HostId {
    HostId(1 + u32::from(number % 4))
}

/// Runs the target on one input.
pub fn run(input: &[u8]) {
    let mut input = Unstructured::new(input);
    let Ok(choice) = input.arbitrary() else { return };
    let mut host = Host::new(choice);
    while !input.is_empty() {
        let Ok(step) = input.arbitrary::<Step>() else { break };
        host.take(step);
    }
    host.fall_silent();
}
