//! The protocol of a scenario.

use crate::quantity::{BitRate, Size, Span};
use serde::{Deserialize, Serialize};
use wellspring_core::{Duration, Rate};
use wellspring_fabric::PortConfig;
use wellspring_transport::congestion::Algorithm;
use wellspring_transport::scdp::StragglerPolicy;
use wellspring_wire::sealed;

/// The protocol of all hosts.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Protocol {
    /// Which one.
    pub name: ProtocolName,
    /// Initial window \[packets\] (SCDP §V: 12).
    pub window: u16,
    /// Initial window of each sender of a many-to-one session \[packets\] (SCDP §V: 6).
    pub window_per_sender: u16,
    /// A full data packet on the wire \[bytes\].
    pub packet: u16,
    /// Of these, headers; also what a trimmed or control packet is on the wire, without keys \[bytes\].
    pub header: u8,
    /// Whether hosts have keys, as beyond loopback over UDP: packets are sealed, which takes 32 bytes of each payload, and a
    /// trimmed header keeps its tag of 8 bytes. Not TCP.
    #[serde(skip_serializing_if = "is_false")]
    pub keys: bool,
    /// Symbols in a block (SCDP §V: 100).
    pub block_symbols: u32,
    /// Symbols beyond K aimed at after a loss (SCDP §IV-C: 2).
    pub overhead: u32,
    /// MLFQ thresholds (SCDP §V: 10 KB, 100 KB, 1 MB, 10 MB).
    pub thresholds: Vec<Size>,
    /// By a session's whole size, from its first packet on, instead of bytes sent (the SCDP
    /// authors' NDP model).
    pub by_final_size: bool,
    /// SCDP only: what it takes the switches for.
    pub fabric: FabricKind,
    /// SCDP only: what it is set to where these keys do not say otherwise.
    #[serde(skip_serializing_if = "Configuration::is_default")]
    pub configuration: Configuration,
    /// SCDP only: receivers that hold up their group. If not given they are waited for as in the paper, and
    /// with `configuration = "shipped"` detached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stragglers: Option<Stragglers>,
    /// SCDP only, on switches that trim: packets after which a gap in the numbers is a loss; by timeouts alone
    /// if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gap_threshold: Option<u32>,
    /// SCDP on shared switches only: its congestion controller.
    #[serde(skip_serializing_if = "CongestionKind::is_default")]
    pub congestion: CongestionKind,
    /// LTTP only.
    #[serde(skip_serializing_if = "Lttp::is_default")]
    pub lttp: Lttp,
    /// How long decoding a block takes.
    pub decode: DecodeKind,
    /// ... for `rate`: the receivers' speed (SCDP §V-C: "roughly 1.3 Gbps").
    pub decode_rate: BitRate,
    /// ... for `curve`: (symbols, microseconds) points, linear between.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub decode_curve: Vec<(f64, f64)>,
    /// The rate that receivers' pulls are paced for, if it is not that of their link. The SCDP
    /// authors' models pull every 12 us, 3 % faster than a packet takes on 1 Gbit/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pull_rate: Option<BitRate>,
    /// SCDP only: whether pulls leave room on the link for what comes beside their answers (the paper's
    /// do not).
    pub reckon_control: bool,
    /// SCDP only: symbols of a session sent in a row, and credits that one pull may carry, as over UDP
    /// (the paper's: 1).
    #[serde(skip_serializing_if = "is_one")]
    pub burst: u16,
    /// SCDP only: paths that a session uses between two hosts, each a flow of its own with a label of its own, as a
    /// UDP port is. If not given, labels vary by packet, as in the paper.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paths: Option<u16>,
    /// Shortest timeout.
    pub min_timeout: Span,
    /// TCP only.
    #[serde(skip_serializing_if = "Tcp::is_default")]
    pub tcp: Tcp,
}

fn is_false(keys: &bool) -> bool {
    !keys
}

fn is_one(burst: &u16) -> bool {
    *burst == 1
}

/// What SCDP is set to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Configuration {
    /// The paper's.
    #[default]
    Paper,
    /// That of the program that is shipped: its timers, runs of credits, open blocks and policies. Of what it
    /// takes otherwise the keys `overhead`, `reckon_control`, `burst` and `min_timeout` are not read.
    Shipped,
}

impl Configuration {
    fn is_default(&self) -> bool {
        *self == Configuration::default()
    }
}

/// Receivers that hold up their group: see `wellspring_transport::scdp::StragglerPolicy`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "the same as in the transport")]
pub struct Stragglers {
    pub detach: bool,
    pub symbols_behind: u64,
    pub silent_for: Span,
    pub patience: Span,
    pub judge_over: Span,
    pub relative_rate: u32,
    pub unheard_for: Span,
    pub may_ask: u32,
}

impl Default for Stragglers {
    fn default() -> Self {
        let policy = StragglerPolicy::DETACH;
        Stragglers {
            detach: policy.detach,
            symbols_behind: policy.symbols_behind,
            silent_for: Span(policy.silent_for),
            patience: Span(policy.patience),
            judge_over: Span(policy.judge_over),
            relative_rate: policy.relative_rate,
            unheard_for: Span(policy.unheard_for),
            may_ask: policy.may_ask,
        }
    }
}

impl Stragglers {
    /// The policy.
    pub fn policy(self) -> StragglerPolicy {
        StragglerPolicy {
            symbols_behind: self.symbols_behind,
            silent_for: self.silent_for.0,
            detach: self.detach,
            patience: self.patience.0,
            judge_over: self.judge_over.0,
            relative_rate: self.relative_rate,
            unheard_for: self.unheard_for.0,
            may_ask: self.may_ask,
        }
    }
}

/// TCP for a part of the requests, beside the protocol of the others.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Beside {
    /// Which part of the requests, spread evenly among all in the order in which they are made.
    pub share: f64,
    /// A protocol as in [`Protocol`], one of TCP's.
    pub protocol: Protocol,
}

/// What is TCP's alone. Beside it, `packet` and `header` count.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tcp {
    /// Initial window \[segments\]; that of RFC 6928 if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_window: Option<u16>,
    /// The window that receivers grant.
    pub receive_window: Size,
    /// The least retransmission timeout (LTTP §II: 200 ms).
    pub min_timeout: Span,
    /// The timeout before a round trip is measured: that of connections whose handshake, which is
    /// not simulated, has measured one.
    pub initial_timeout: Span,
    /// Every second segment is acknowledged, or one after so long; each at once if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delayed_ack: Option<Span>,
    /// Whether the first two duplicate ACKs send new segments (RFC 3042).
    pub limited_transmit: bool,
    /// What a loss halves.
    #[serde(skip_serializing_if = "Halves::is_flight")]
    pub halves: Halves,
    /// DCTCP's g (LTTP §V-F: 0.15 with buffers of 64 KB, 0.0625 with 128 KB).
    pub gain: f64,
    /// The least window that marks leave a DCTCP sender \[segments\].
    pub min_window: u16,
    /// Whether its packets take paths as `switch.spraying` says, and not one a flow.
    pub sprayed: bool,
}

/// What a loss halves: see `wellspring_transport::tcp::Halves`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Halves {
    /// What is in flight (RFC 5681).
    #[default]
    Flight,
    /// The window, as ns-2 does.
    Window,
}

impl Halves {
    fn is_flight(&self) -> bool {
        *self == Halves::Flight
    }
}

impl Default for Tcp {
    fn default() -> Self {
        Tcp {
            initial_window: None,
            receive_window: Size(4 << 20),
            min_timeout: Span(Duration::from_millis(200)),
            initial_timeout: Span(Duration::from_millis(200)),
            delayed_ack: None,
            limited_transmit: true,
            halves: Halves::Flight,
            gain: 0.0625,
            min_window: 2,
            sprayed: false,
        }
    }
}

impl Tcp {
    fn is_default(&self) -> bool {
        *self == Tcp::default()
    }
}

/// What is LTTP's alone. Beside it, `packet`, `header`, `block_symbols` and `decode` count.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Lttp {
    /// Its decoder: how many symbols a block needs.
    pub decoder: LtDecoder,
    /// ... for `fixed`: symbols beyond k, as a fraction of k.
    pub code_overhead: f64,
    /// c of the robust soliton distribution (LTTP §V-B: 0.2).
    pub c: f64,
    /// delta of it (LTTP §V-B: 0.7).
    pub delta: f64,
    /// Oscillation prevention (RFC 5348 §4.5).
    pub prevent_oscillation: bool,
    /// History discounting (RFC 5348 §5.5).
    pub discounting: bool,
    /// Past the paper: the congestion controller by which clients choose the rate, in place of TFRC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion: Option<CongestionKind>,
}

/// LTTP's decoders: see `wellspring_codec::lt::Method`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LtDecoder {
    /// Algorithm 2 without its pre-process.
    Standard,
    /// Algorithm 1, as the text describes it.
    Rounds,
    /// Algorithm 2.
    #[default]
    Improved,
    /// Belief propagation and Gaussian elimination.
    Elimination,
    /// None: the same [`Lttp::code_overhead`] always.
    Fixed,
}

impl Default for Lttp {
    fn default() -> Self {
        Lttp {
            decoder: LtDecoder::Improved,
            code_overhead: 0.07,
            c: 0.2,
            delta: 0.7,
            prevent_oscillation: true,
            discounting: true,
            congestion: None,
        }
    }
}

impl Lttp {
    fn is_default(&self) -> bool {
        *self == Lttp::default()
    }
}

/// Latency of decoding.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DecodeKind {
    /// The block's bytes at [`Protocol::decode_rate`]: the paper's receivers.
    #[default]
    Rate,
    /// No time at all.
    None,
    /// The measured worst case of Wellspring's own codec.
    Measured,
    /// [`Protocol::decode_curve`].
    Curve,
}

/// What SCDP takes the switches for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FabricKind {
    /// They trim (SCDP §IV-B).
    #[default]
    Trimming,
    /// They drop, and others share them: congestion control.
    Shared,
    /// They drop, and are ours alone: a fixed window of `window` packets.
    Dedicated,
}

/// Congestion controllers of SCDP, and of LTTP if it is to have one: see `wellspring_transport::congestion`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CongestionKind {
    /// CUBIC that distinguishes random loss from congestion.
    #[default]
    Veno,
    /// CUBIC.
    Cubic,
    /// BBR, version 1.
    Bbr,
}

impl CongestionKind {
    fn is_default(&self) -> bool {
        *self == CongestionKind::default()
    }

    /// The controller.
    pub fn algorithm(self) -> Algorithm {
        match self {
            CongestionKind::Veno => Algorithm::Veno,
            CongestionKind::Cubic => Algorithm::Cubic,
            CongestionKind::Bbr => Algorithm::Bbr,
        }
    }
}

/// Protocols.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum ProtocolName {
    /// SCDP.
    #[serde(rename = "scdp")]
    Scdp,
    /// SCDP with two queues and no MLFQ.
    #[serde(rename = "polyraptor")]
    Polyraptor,
    /// LTTP.
    #[serde(rename = "lttp")]
    Lttp,
    /// NDP.
    #[serde(rename = "ndp")]
    Ndp,
    /// NDP with MLFQ.
    #[serde(rename = "ndp+")]
    NdpPlus,
    /// TCP NewReno.
    #[serde(rename = "tcp-newreno")]
    TcpNewReno,
    /// DCTCP.
    #[serde(rename = "dctcp")]
    Dctcp,
    /// DCTCP with MLFQ (PIAS).
    #[serde(rename = "pias")]
    Pias,
    /// TCP as hosts have it, with Reno, on a long link.
    #[serde(rename = "tcp-reno")]
    TcpReno,
    /// The same with CUBIC.
    #[serde(rename = "tcp-cubic")]
    TcpCubic,
    /// The same with BBR.
    #[serde(rename = "tcp-bbr")]
    TcpBbr,
}

impl ProtocolName {
    /// Whether one session reaches several receivers, or draws on several senders.
    pub fn is_coded(self) -> bool {
        matches!(self, ProtocolName::Scdp | ProtocolName::Polyraptor)
    }

    /// Whether it is TCP, whose packets switches do not cut and which takes disorder for loss.
    pub fn is_tcp(self) -> bool {
        matches!(self, ProtocolName::TcpNewReno | ProtocolName::Dctcp | ProtocolName::Pias)
    }

    /// Whether it is TCP as hosts have it, which is simulated on long links alone.
    pub fn is_of_long_link(self) -> bool {
        matches!(self, ProtocolName::TcpReno | ProtocolName::TcpCubic | ProtocolName::TcpBbr)
    }

    /// As in scenario files.
    pub fn as_str(self) -> &'static str {
        match self {
            ProtocolName::Scdp => "scdp",
            ProtocolName::Polyraptor => "polyraptor",
            ProtocolName::Lttp => "lttp",
            ProtocolName::Ndp => "ndp",
            ProtocolName::NdpPlus => "ndp+",
            ProtocolName::TcpNewReno => "tcp-newreno",
            ProtocolName::Dctcp => "dctcp",
            ProtocolName::Pias => "pias",
            ProtocolName::TcpReno => "tcp-reno",
            ProtocolName::TcpCubic => "tcp-cubic",
            ProtocolName::TcpBbr => "tcp-bbr",
        }
    }
}

impl Default for Protocol {
    fn default() -> Self {
        Protocol {
            name: ProtocolName::Scdp,
            window: 12,
            window_per_sender: 6,
            packet: 1_500,
            header: 64,
            keys: false,
            block_symbols: 100,
            overhead: 2,
            lttp: Lttp::default(),
            thresholds: [10_000, 100_000, 1_000_000, 10_000_000].map(Size).to_vec(),
            by_final_size: false,
            fabric: FabricKind::Trimming,
            configuration: Configuration::default(),
            stragglers: None,
            gap_threshold: None,
            congestion: CongestionKind::default(),
            decode: DecodeKind::Rate,
            decode_rate: BitRate(Rate::from_mbps(1_300)),
            decode_curve: Vec::new(),
            pull_rate: None,
            reckon_control: false,
            burst: 1,
            paths: None,
            min_timeout: Span(Duration::from_millis(2)),
            tcp: Tcp::default(),
        }
    }
}

impl Protocol {
    /// The rate that pulls are paced for at hosts on links of rate `link`.
    pub fn pace(&self, link: Rate) -> Rate {
        self.pull_rate.map_or(link, |rate| rate.0)
    }

    /// Payload of a full packet \[bytes\].
    pub fn payload(&self) -> u16 {
        self.packet.saturating_sub(u16::from(self.headers())).max(1)
    }

    /// What a packet has beside its payload \[bytes\].
    pub fn headers(&self) -> u8 {
        self.header.saturating_add(if self.keys { sealed::OVERHEAD as u8 } else { 0 })
    }

    /// What of a trimmed packet says which one it was, and with keys proves it \[bytes\].
    pub fn trimmed_header(&self) -> u8 {
        self.header.saturating_add(if self.keys { sealed::HEADER_TAG_LEN as u8 } else { 0 })
    }

    /// Initial window \[packets\].
    pub fn initial_window(&self) -> u16 {
        // RFC 6928 §2.
        let standard = || (14_600 / self.payload()).clamp(2, 10);
        if self.name.is_of_long_link() {
            return standard();
        }
        match self.name.is_tcp() {
            true => self.tcp.initial_window.unwrap_or_else(standard),
            false => self.window,
        }
    }

    /// Data classes of switch ports.
    pub fn data_classes(&self) -> u8 {
        match self.name {
            ProtocolName::Scdp | ProtocolName::NdpPlus | ProtocolName::Pias => {
                (self.thresholds.len() + 1).min(PortConfig::MAX_CLASSES.into()) as u8
            }
            _ => 1,
        }
    }
}
