//! Send side: outgoing packets mixed into repairs that follow them.

use wellspring_codec::interleave::{InterleaveError, Interleaver, Parameters, Repair};
use wellspring_core::{Duration, Time};

use crate::adaptive::{Controller, Limits};
use crate::auth::{PresharedKey, Sealer, SessionId};
use crate::batch::Batch;
use crate::identity::{Identity, Namer, Unprotected, Volatile};
use crate::meter::LossReport;
use crate::wire::{RepairHead, emit_repair, emit_report};

/// How a send side protects.
#[derive(Clone, Debug)]
pub struct SendConfig {
    /// Rate and interleaves; with limits, what it begins with is chosen within them instead.
    pub parameters: Parameters,
    /// Follow the loss that the peer reports, within these limits.
    pub adaptive: Option<Limits>,
    /// Longest packet protected \[bytes\]: [`MtuPlan::longest`](crate::MtuPlan::longest).
    pub longest: usize,
    /// After so long without a packet, what the first layer has begun is sent unfinished, so that
    /// the last packets before a silence are protected: one repair a silence for an interleave of 1.
    pub flush_after: Duration,
}

/// What a send side has done.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SendCounters {
    /// Packets protected.
    pub packets: u64,
    /// Their bytes.
    pub packet_bytes: u64,
    /// Packets not protected: no whole IP packets, or with options.
    pub foreign: u64,
    /// Packets not protected because they are too long.
    pub too_long: u64,
    /// Repairs sent.
    pub repairs: u64,
    /// Their bytes, without headers of UDP and below.
    pub repair_bytes: u64,
    /// Times the code was changed.
    pub changes: u64,
}

impl SendCounters {
    /// Adds what another send side has done.
    pub fn add(&mut self, other: &SendCounters) {
        self.packets += other.packets;
        self.packet_bytes += other.packet_bytes;
        self.foreign += other.foreign;
        self.too_long += other.too_long;
        self.repairs += other.repairs;
        self.repair_bytes += other.repair_bytes;
        self.changes += other.changes;
    }
}

/// Watches packets that leave, and makes the repairs that follow them.
#[derive(Debug)]
pub struct SendSide {
    namer: Namer,
    sealer: Sealer,
    interleaver: Interleaver,
    /// Number of the interleaver's first packet.
    base: u64,
    /// What routers may change in the newest packets, by number modulo its length.
    volatile: Vec<Volatile>,
    longest: usize,
    flush_after: Duration,
    flush_at: Option<Time>,
    controller: Option<Controller>,
    counters: SendCounters,
}

impl SendSide {
    /// The send side of an appliance's life.
    ///
    /// # Errors
    /// `longest` is not 1 to 65,535 bytes.
    pub fn new(
        key: &PresharedKey,
        session: SessionId,
        config: &SendConfig,
    ) -> Result<Self, InterleaveError> {
        let controller = config.adaptive.map(Controller::new);
        let parameters = controller.as_ref().map_or(&config.parameters, Controller::parameters);
        Ok(SendSide {
            namer: Namer::new(key),
            sealer: Sealer::new(key, session),
            interleaver: Interleaver::new(parameters, config.longest)?,
            base: 0,
            volatile: remembered(parameters),
            longest: config.longest,
            flush_after: config.flush_after,
            flush_at: None,
            controller,
            counters: SendCounters::default(),
        })
    }

    /// What it has done.
    pub fn counters(&self) -> &SendCounters {
        &self.counters
    }

    /// The code in use.
    pub fn parameters(&self) -> &Parameters {
        self.interleaver.parameters()
    }

    /// Sees an IP packet that leaves. The repairs to follow it go to `out`. What routers change is
    /// set to zero in it; the identity that [`restore`](crate::restore) needs is returned.
    ///
    /// # Errors
    /// Why the packet is not protected; nothing was changed.
    pub fn observe(
        &mut self,
        now: Time,
        packet: &mut [u8],
        out: &mut Batch,
    ) -> Result<Identity, Unprotected> {
        let seen = self.namer.identify(packet).and_then(|identity| {
            if identity.len > self.longest {
                crate::identity::restore(packet, identity.volatile);
                return Err(Unprotected::TooLong { got: identity.len, limit: self.longest });
            }
            Ok(identity)
        });
        let identity = match seen {
            Ok(identity) => identity,
            Err(why) => {
                match why {
                    Unprotected::TooLong { .. } => self.counters.too_long += 1,
                    _ => self.counters.foreign += 1,
                }
                return Err(why);
            }
        };
        self.counters.packets += 1;
        self.counters.packet_bytes += identity.len as u64;
        let place = place(&self.volatile, self.interleaver.packets());
        self.volatile[place] = identity.volatile;
        self.flush_at = Some(now + self.flush_after);
        let (interleaver, mut post) = self.split(out);
        interleaver
            .add(identity.name, &packet[..identity.len], |repair| post.repair(&repair))
            .expect("the length was compared to the longest");
        Ok(identity)
    }

    /// Hears what the peer says about loss; with limits, goes over to another code where that is
    /// called for. The old code's unfinished repairs go to `out`.
    pub fn on_report(&mut self, report: &LossReport, out: &mut Batch) {
        let Some(controller) = &mut self.controller else { return };
        let Some(parameters) = controller.on_report(report).cloned() else { return };
        let (interleaver, mut post) = self.split(out);
        interleaver.finish(|repair| post.repair(&repair));
        self.base += self.interleaver.packets();
        self.volatile = remembered(&parameters);
        self.interleaver = Interleaver::new(&parameters, self.longest)
            .expect("the length was good for the first code");
        self.counters.changes += 1;
    }

    /// Appends a report to the peer to `out`.
    pub fn report(&mut self, report: &LossReport, out: &mut Batch) {
        out.write(|bytes| emit_report(&mut self.sealer, report, bytes));
    }

    /// When [`SendSide::handle_timeout`] is to be called.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.flush_at
    }

    /// It is that late: after a silence, unfinished repairs go to `out`.
    pub fn handle_timeout(&mut self, now: Time, out: &mut Batch) {
        if self.flush_at.is_some_and(|at| now.has_reached(at)) {
            self.flush_at = None;
            let (interleaver, mut post) = self.split(out);
            interleaver.flush(|repair| post.repair(&repair));
        }
    }

    fn split<'a>(&'a mut self, out: &'a mut Batch) -> (&'a mut Interleaver, Post<'a>) {
        let post = Post {
            sealer: &mut self.sealer,
            volatile: &self.volatile,
            strides: strides(self.interleaver.parameters()),
            base: self.base,
            counters: &mut self.counters,
            out,
        };
        (&mut self.interleaver, post)
    }
}

/// Turns repairs into datagrams.
struct Post<'a> {
    sealer: &'a mut Sealer,
    volatile: &'a [Volatile],
    strides: [u16; wellspring_codec::interleave::MAX_LAYERS],
    base: u64,
    counters: &'a mut SendCounters,
    out: &'a mut Batch,
}

impl Post<'_> {
    fn repair(&mut self, repair: &Repair<'_>) {
        let stride = self.strides[usize::from(repair.layer)];
        let head = RepairHead {
            layer: repair.layer,
            length: repair.length,
            stride,
            first: self.base.wrapping_add(repair.first) as u32,
        };
        let mut number = repair.first;
        let ingredients = repair.recipe.iter().map(|&name| {
            let volatile = self.volatile[place(self.volatile, number)];
            number += u64::from(stride);
            (name, volatile)
        });
        self.out.write(|bytes| {
            let start = bytes.len();
            emit_repair(self.sealer, head, ingredients, repair.xor, bytes);
            self.counters.repairs += 1;
            self.counters.repair_bytes += (bytes.len() - start) as u64;
        });
    }
}

/// A memory of what routers may change that reaches as far back as a repair does.
fn remembered(parameters: &Parameters) -> Vec<Volatile> {
    let largest = parameters.interleaves().iter().copied().max().unwrap_or(1);
    let reach = (parameters.reach() + 2 * usize::from(largest)).next_power_of_two();
    vec![Volatile::default(); reach]
}

/// Where the memory has a packet: its length is a power of two.
fn place(volatile: &[Volatile], number: u64) -> usize {
    number as usize & (volatile.len() - 1)
}

fn strides(parameters: &Parameters) -> [u16; wellspring_codec::interleave::MAX_LAYERS] {
    std::array::from_fn(|layer| parameters.interleaves().get(layer).copied().unwrap_or(1))
}
