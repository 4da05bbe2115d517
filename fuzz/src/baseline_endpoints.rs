//! NDP's endpoint and TCP's under any sequence of commands, frames and deadlines: each keeps its
//! contract (`Checked` panics on a breach) and its limits, and once the world falls silent every
//! transfer ends.

use arbitrary::{Arbitrary, Unstructured};
use core::fmt::Debug;
use wellspring_core::{
    Destination, Duration, Ecn, Endpoint, Frame, HostId, Rate, Seed, SessionId, Time,
};
use wellspring_testkit::Checked;
use wellspring_transport::tcp::{Congestion, TcpHeader};
use wellspring_transport::{Command, Priority, SendTransfer, ndp, tcp};

/// Sessions and other hosts there are.
const SESSIONS: u8 = 6;
const PEERS: u8 = 4;
/// Transfers the endpoint may receive at once.
const RECEIVERS: u32 = 4;
/// Payload of a full packet.
const PAYLOAD: u16 = 100;
/// Frames taken after one input at most: what an interface has room for.
const ROOM: usize = 256;

/// Small numbers hit the bounds of what is going on, large ones those of arithmetic.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Number {
    Small(u8),
    Medium(u16),
    Any(u64),
    NearMax(u8),
}

impl Number {
    fn wide(self) -> u64 {
        match self {
            Self::Small(n) => n.into(),
            Self::Medium(n) => n.into(),
            Self::Any(n) => n,
            Self::NearMax(n) => u64::MAX - u64::from(n),
        }
    }

    fn get(self) -> u32 {
        self.wide() as u32
    }
}

/// An instant a stranger names.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Instant {
    MicrosAgo(u16),
    Any(u64),
}

impl Instant {
    fn get(self, now: Time) -> Time {
        match self {
            Self::MicrosAgo(n) => now - Duration::from_micros(n.into()),
            Self::Any(picos) => Time::from_picos(picos),
        }
    }
}

#[derive(Arbitrary, Debug)]
enum NdpPacket {
    Data { number: Number, total: Number, window: u16, vanished: Number, sent: Instant, rtt: u64 },
    Ack { number: Number, sent: Instant },
    Nack { number: Number },
    Pull { granted: Number },
    Done,
    Close,
}

#[derive(Arbitrary, Debug)]
enum TcpPacket {
    Data { offset: Number, total: Number },
    Ack { next: Number, echo: bool },
    Reset,
}

/// A protocol of transfers, one of the papers' baselines.
trait Baseline: Endpoint<Command: From<Command>> + Debug {
    /// What strangers send.
    type Packet: for<'a> Arbitrary<'a> + Debug;
    /// An endpoint that is configured by `choice`.
    fn new(choice: u8) -> Self;
    fn header(packet: Self::Packet, now: Time) -> Self::Header;
    /// Transfers under way or remembered.
    fn open(&self) -> usize;
}

fn priority(choice: u8) -> Priority {
    match choice % 3 {
        0 => Priority::One,
        1 => Priority::BytesSent(vec![1_000, 10_000]),
        _ => Priority::FinalSize(vec![1_000, 10_000]),
    }
}

impl Baseline for ndp::Endpoint {
    type Packet = NdpPacket;

    fn new(choice: u8) -> Self {
        // Slow, so that pulls which wait for their turn when the world falls silent are soon over.
        let mut config = ndp::Config::new(HostId(0), Rate::from_mbps(10), Seed(1));
        config.payload = PAYLOAD;
        config.priority = priority(choice);
        config.progress_every = u32::from(choice & 4);
        config.peer_timeout = Duration::from_millis(200);
        config.max_receivers = RECEIVERS;
        ndp::Endpoint::new(config)
    }

    fn header(packet: NdpPacket, now: Time) -> ndp::NdpHeader {
        match packet {
            NdpPacket::Data { number, total, window, vanished, sent, rtt } => {
                ndp::NdpHeader::Data(ndp::Data {
                    number: number.get(),
                    total: total.get(),
                    window,
                    vanished: vanished.get(),
                    sent: sent.get(now),
                    rtt: Duration::from_picos(rtt),
                })
            }
            NdpPacket::Ack { number, sent } => {
                ndp::NdpHeader::Ack { number: number.get(), sent: sent.get(now) }
            }
            NdpPacket::Nack { number } => ndp::NdpHeader::Nack { number: number.get() },
            NdpPacket::Pull { granted } => ndp::NdpHeader::Pull { granted: granted.get() },
            NdpPacket::Done => ndp::NdpHeader::Done,
            NdpPacket::Close => ndp::NdpHeader::Close,
        }
    }

    fn open(&self) -> usize {
        self.open_flows()
    }
}

impl Baseline for tcp::Endpoint {
    type Packet = TcpPacket;

    fn new(choice: u8) -> Self {
        let congestion = if choice & 8 == 0 { Congestion::NewReno } else { Congestion::DCTCP };
        let mut config = tcp::Config::new(HostId(0), congestion, Seed(1));
        config.segment_size = PAYLOAD;
        config.priority = priority(choice);
        config.progress_every = u64::from(choice & 4) * 100;
        config.delayed_ack = (choice & 16 != 0).then_some(Duration::from_millis(5));
        config.limited_transmit = choice & 32 == 0;
        config.initial_timeout = Duration::from_millis(3);
        config.min_timeout = Duration::from_millis(1);
        config.peer_timeout = Duration::from_millis(200);
        config.max_receivers = RECEIVERS;
        tcp::Endpoint::new(config)
    }

    fn header(packet: TcpPacket, _: Time) -> TcpHeader {
        match packet {
            TcpPacket::Data { offset, total } => {
                TcpHeader::Data { offset: offset.wide(), total: total.wide() }
            }
            TcpPacket::Ack { next, echo } => TcpHeader::Ack { next: next.wide(), echo },
            TcpPacket::Reset => TcpHeader::Reset,
        }
    }

    fn open(&self) -> usize {
        self.open_transfers()
    }
}

#[derive(Arbitrary, Debug)]
enum Step<P> {
    Send {
        session: u8,
        receiver: u8,
        len: Number,
        class: Option<u8>,
    },
    Cancel {
        session: u8,
    },
    Arrive {
        session: u8,
        source: u8,
        packet: P,
        len: u8,
        trimmed: bool,
        marked: bool,
    },
    Wait {
        micros: u16,
    },
    /// Wait for the deadline.
    Wake,
}

struct Host<E> {
    endpoint: Checked<E>,
    now: Time,
}

impl<E: Baseline> Host<E> {
    fn new(choice: u8) -> Self {
        Self { endpoint: Checked::new(E::new(choice)), now: Time::ZERO }
    }

    fn take(&mut self, step: Step<E::Packet>) {
        match step {
            Step::Send { session, receiver, len, class } => {
                self.command(Command::Send(SendTransfer {
                    session: id(session),
                    receiver: peer(receiver),
                    transfer_len: len.wide(),
                    class,
                }))
            }
            Step::Cancel { session } => self.command(Command::Cancel { session: id(session) }),
            Step::Arrive { session, source, packet, len, trimmed, marked } => {
                let frame = Frame {
                    source: peer(source),
                    destination: Destination::Host(HostId(0)),
                    session: id(session),
                    payload_len: if trimmed { 0 } else { u16::from(len) },
                    path: 0,
                    class: 0,
                    ecn: if marked { Ecn::Marked } else { Ecn::NotCapable },
                    trimmed,
                    header: E::header(packet, self.now),
                };
                self.endpoint.handle_frame(self.now, &frame);
            }
            Step::Wait { micros } => {
                self.now = self.now + Duration::from_micros(micros.into());
                self.endpoint.handle_timeout(self.now);
            }
            Step::Wake => {
                self.wake();
            }
        }
        self.drain();
    }

    fn command(&mut self, command: Command) {
        // Misuse is answered by a typed error; a panic is what this target looks for.
        let _ = self.endpoint.handle_command(self.now, command.into());
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
        assert!(self.endpoint.poll_work().is_none(), "it has no blocks");
        while self.endpoint.poll_event().is_some() {}
        for _ in 0..ROOM {
            let Some(frame) = self.endpoint.poll_transmit(self.now) else { break };
            assert_ne!(frame.destination, Destination::Host(HostId(0)), "sent to itself");
        }
        let most = usize::from(SESSIONS) + RECEIVERS as usize;
        assert!(self.endpoint.inner().open() <= most);
    }

    /// Nobody says anything any more.
    fn fall_silent(&mut self) {
        for _ in 0..200_000 {
            if self.endpoint.inner().open() == 0 || !self.wake() {
                break;
            }
            self.drain();
        }
        let left = self.endpoint.inner().open();
        assert_eq!(left, 0, "transfers that do not end: {:?}", self.endpoint.inner());
    }
}

fn id(number: u8) -> SessionId {
    SessionId((number % SESSIONS).into())
}

/// One of a few other hosts.
fn peer(number: u8) -> HostId {
    HostId(1 + u32::from(number % PEERS))
}

fn drive<E: Baseline>(choice: u8, mut input: Unstructured<'_>) {
    let mut host = Host::<E>::new(choice);
    while !input.is_empty() {
        let Ok(step) = input.arbitrary::<Step<E::Packet>>() else { break };
        host.take(step);
    }
    host.fall_silent();
}

/// Runs the target on one input.
pub fn run(input: &[u8]) {
    let mut input = Unstructured::new(input);
    let Ok((is_tcp, choice)) = input.arbitrary::<(bool, u8)>() else { return };
    match is_tcp {
        true => drive::<tcp::Endpoint>(choice, input),
        false => drive::<ndp::Endpoint>(choice, input),
    }
}
