//! Send side: outgoing packets mixed into repairs that follow them.

use wellspring_codec::interleave::InterleaveError;
use wellspring_core::{Duration, Time};

use crate::adaptive::Controller;
use crate::auth::{HEADER_LEN, PresharedKey, Sealer, SessionId, TAG_LEN};
use crate::batch::Batch;
use crate::code::{Code, Coder};
use crate::deadline::Deadlines;
use crate::diagnosis::Hearing;
use crate::digest::Digester;
use crate::identity::{Identity, Namer, Unprotected, Volatile};
use crate::loss_report::LossReport;
use crate::post::Post;
use crate::send_config::{SendConfig, SendCounters};
use crate::wire::{INGREDIENT_LEN, emit_digest, emit_probe, emit_report};

/// Watches packets that leave, and makes the repairs that follow them.
#[derive(Debug)]
pub struct SendSide {
    namer: Namer,
    sealer: Sealer,
    /// None while the code is off.
    coder: Option<Coder>,
    code: Option<Code>,
    digester: Digester,
    /// Number of the coder's first packet.
    base: u64,
    /// What routers may change in the newest packets, by number modulo its length.
    volatile: Vec<Volatile>,
    longest: usize,
    /// Packets in a repair, at most.
    rate: u8,
    flush_after: Duration,
    flush_at: Option<Time>,
    controller: Option<Controller>,
    /// Traffic class of what leaves next: that of the newest packet, so that repairs have each class as often as packets.
    class: u8,
    /// None: bins wait until they are full, as in the paper.
    deadlines: Option<Deadlines>,
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
        let first = controller.as_ref().and_then(Controller::code).cloned();
        let first = first.unwrap_or_else(|| config.code.clone());
        let coder = Coder::new(&first, config.longest)?;
        let volatile = remembered(&first);
        let overhead = config.adaptive.map_or(first.overhead(), |limits| limits.overhead);
        let timed = config.adaptive.is_some() || config.repair_within.is_some();
        let deadlines = timed.then(|| Deadlines::new(config.repair_within, overhead));
        Ok(SendSide {
            namer: Namer::new(key),
            sealer: Sealer::new(key, session),
            coder: Some(coder),
            code: Some(first),
            digester: Digester::default(),
            base: 0,
            volatile,
            longest: config.longest,
            rate: config.adaptive.map_or(config.code.mtu_rate(), |limits| limits.rate),
            flush_after: config.flush_after,
            flush_at: None,
            controller,
            class: 0,
            deadlines,
            counters: SendCounters::default(),
        })
    }

    /// What it has done.
    pub fn counters(&self) -> &SendCounters {
        &self.counters
    }

    /// The code in use; none while it is off.
    pub fn code(&self) -> Option<&Code> {
        self.code.as_ref()
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
        self.class = class_of_repairs(identity.volatile.class);
        let Some((coder, mut post)) = self.split(now, out) else {
            if self.digester.add(now, identity.name, identity.len) {
                self.digest(now, out);
            }
            return Ok(identity);
        };
        post.remember(coder.packets(), identity.volatile);
        if let Some(deadlines) = &mut post.deadlines {
            deadlines.on_packet(now, coder.packets());
        }
        let (name, packet) = (identity.name, &packet[..identity.len]);
        match coder {
            Coder::Layers(interleaver) => {
                interleaver
                    .add(name, packet, |repair| post.repair(&repair))
                    .expect("the length was compared to the longest");
                self.flush_at = Some(now + self.flush_after);
            }
            Coder::Sliding(sender, _) => {
                sender
                    .add(name, packet, |repair| post.sliding(&repair, true))
                    .expect("the length was compared to the longest");
            }
            Coder::Blocks(sender) => {
                sender
                    .add(name, packet, |repair| post.block(&repair, true))
                    .expect("the length was compared to the longest");
                self.flush_at = Some(now + self.flush_after);
            }
        }
        Ok(identity)
    }

    /// Hears what the peer says about loss; with limits, goes over to another code where that is
    /// called for. The old code's unfinished repairs go to `out`.
    pub fn on_report(&mut self, now: Time, report: &LossReport, out: &mut Batch) {
        if let Some(deadlines) = &mut self.deadlines {
            deadlines.on_path(report.round_trip, report.queued);
        }
        let Some(controller) = &mut self.controller else { return };
        if !controller.on_report(now, report) {
            return;
        }
        let chosen = controller.code().cloned();
        self.counters.changes += 1;
        self.code.clone_from(&chosen);
        if let (Some(Coder::Sliding(sender, code)), Some(Code::Sliding(chosen))) =
            (&mut self.coder, &chosen)
        {
            // The packets of the window stay protected.
            sender.set(&chosen.parameters);
            *code = *chosen;
            return;
        }
        match self.split(now, out) {
            Some((coder, mut post)) => {
                match coder {
                    Coder::Layers(interleaver) => interleaver.finish(|repair| post.repair(&repair)),
                    Coder::Sliding(sender, _) => {
                        sender.repair(|repair| post.sliding(&repair, false));
                    }
                    Coder::Blocks(sender) => post.finish_blocks(sender),
                }
                let packets = coder.packets();
                self.base += packets;
            }
            // What waits for its digest is named before the first repair.
            None => self.digest(now, out),
        }
        self.coder = chosen.as_ref().map(|code| {
            Coder::new(code, self.longest).expect("the length was good for the first code")
        });
        if let Some(code) = &chosen {
            self.volatile = remembered(code);
        }
        self.flush_at = None;
        if let Some(deadlines) = &mut self.deadlines {
            deadlines.restart();
        }
    }

    /// Appends a report to the peer to `out`.
    pub fn report(&mut self, now: Time, report: &LossReport, hearing: &Hearing, out: &mut Batch) {
        out.write(0, |bytes| emit_report(&mut self.sealer, now, report, hearing, bytes));
    }

    /// Appends a report to `out` for whoever is of that session: it tells that this end hears it, and of no packets.
    pub fn answer(&mut self, now: Time, session: SessionId, out: &mut Batch) {
        let hearing = Hearing { session: Some(session), ..Hearing::default() };
        self.report(now, &LossReport::default(), &hearing, out);
    }

    /// Appends a probe to `out`, as long as the longest repair.
    pub fn probe(&mut self, now: Time, out: &mut Batch) {
        let names = usize::from(self.rate) * INGREDIENT_LEN;
        let len = HEADER_LEN + names + self.longest + TAG_LEN;
        out.write(0, |bytes| emit_probe(&mut self.sealer, now, len, bytes));
    }

    /// When [`SendSide::handle_timeout`] is to be called.
    pub fn poll_timeout(&self) -> Option<Time> {
        let bins = self.deadlines.as_ref().and_then(Deadlines::poll_timeout);
        let digest = self.digester.poll_timeout();
        Time::earliest(self.flush_at.into_iter().chain(digest).chain(bins))
    }

    /// It is that late: after a silence, unfinished repairs go to `out`, and names that wait.
    pub fn handle_timeout(&mut self, now: Time, out: &mut Batch) {
        if self.flush_at.is_some_and(|at| now.has_reached(at)) {
            self.flush_at = None;
            if let Some((coder, mut post)) = self.split(now, out) {
                flush(coder, &mut post);
            }
        }
        self.expire(now, out);
        if self.digester.due(now) {
            self.digest(now, out);
        }
    }

    /// Sends what has waited in bins until its deadline, or what a window of few packets needs.
    fn expire(&mut self, now: Time, out: &mut Batch) {
        let Some((coder, mut post)) = self.split(now, out) else { return };
        let next = coder.packets();
        if !post.deadlines.as_mut().is_some_and(|deadlines| deadlines.is_due(now, next)) {
            return;
        }
        let interleaver = match coder {
            Coder::Layers(interleaver) => interleaver,
            Coder::Sliding(sender, code) => return post.refresh(now, sender, code),
            Coder::Blocks(sender) => {
                let before = post.deadlines.as_ref().map_or(0, |d| d.before(now, d.near()));
                return post.expire_blocks(sender, before);
            }
        };
        for layer in 0..interleaver.parameters().interleaves().len() {
            let before = post.deadlines.as_ref().map_or(0, |deadlines| {
                let waits = deadlines.of_layer(interleaver.parameters(), layer);
                waits.map_or(0, |waits| deadlines.before(now, waits))
            });
            post.expire(interleaver, layer, before);
        }
    }

    fn digest(&mut self, now: Time, out: &mut Batch) {
        let (sealer, counters, class) = (&mut self.sealer, &mut self.counters, self.class);
        self.digester.take(now, |first, names| {
            out.write(class, |bytes| {
                let start = bytes.len();
                emit_digest(sealer, now, first, names, bytes);
                counters.digests += 1;
                counters.digest_bytes += (bytes.len() - start) as u64;
            });
        });
    }

    /// The code, if it is on, and what sends its repairs.
    fn split<'a>(&'a mut self, now: Time, out: &'a mut Batch) -> Option<(&'a mut Coder, Post<'a>)> {
        let coder = self.coder.as_mut()?;
        let post = Post {
            now,
            sealer: &mut self.sealer,
            volatile: &mut self.volatile,
            strides: coder.strides(),
            base: self.base,
            deadlines: self.deadlines.as_mut(),
            class: self.class,
            counters: &mut self.counters,
            out,
        };
        Some((coder, post))
    }
}

/// After a silence, sends what the first layer has begun, or what blocks have.
fn flush(coder: &mut Coder, post: &mut Post<'_>) {
    match coder {
        Coder::Layers(interleaver) => {
            interleaver.flush(|repair| post.repair(&repair));
            // A burst may have taken several of them, which the layer of interleave 1 does not bring back.
            let wide = interleaver.parameters().interleaves().iter().position(|&i| i > 1);
            if let Some(layer) = wide {
                let before = interleaver.packets();
                post.expire(interleaver, layer, before);
            }
        }
        Coder::Blocks(sender) if post.deadlines.is_some() => {
            let before = sender.packets();
            post.expire_blocks(sender, before);
        }
        Coder::Blocks(sender) => post.finish_blocks(sender),
        Coder::Sliding(..) => {}
    }
}

/// The traffic class of a repair that follows a packet of that class: the same, but a mark CE of the way before is not
/// one of the long link.
fn class_of_repairs(packet: u8) -> u8 {
    const CE: u8 = 3;
    const ECT_0: u8 = 2;
    if packet & CE == CE { packet & !CE | ECT_0 } else { packet }
}

/// A memory of what routers may change that reaches as far back as a repair does.
fn remembered(code: &Code) -> Vec<Volatile> {
    vec![Volatile::default(); code.reach().next_power_of_two()]
}
