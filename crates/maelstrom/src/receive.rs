//! Receive side: recovery of lost packets from repairs.

use wellspring_codec::interleave::{
    Account, InterleaveError, MAX_LAYERS, MAX_RATE, PacketName, Recoverer, Remembered, Repair,
};
use wellspring_core::{Duration, Time};

use crate::auth::{PresharedKey, SessionId, Verifier};
use crate::batch::Batch;
use crate::drop_reason::DropReason;
use crate::hold::{Hold, Recovered};
use crate::identity::{Identity, Namer, Unprotected, Volatile, restore};
use crate::meter::{LossReport, Meter};
use crate::wire::{Body, Ingredient, Sealed, WireRepair};

/// What a receive side remembers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReceiveConfig {
    /// Packets: at least the reach of the peer's code (r times its largest interleave), and those
    /// that may come between a packet and its repair. The paper keeps 1,024 (§4.7).
    pub packets: usize,
    /// Repairs that lack more than one packet. The paper keeps 1,024.
    pub repairs: usize,
    /// Longest packet \[bytes\]. Longer ones cannot be recovered, nor help to.
    pub longest: usize,
    /// How long a packet that was brought back waits before it leaves, in case that its repair has only
    /// overtaken it: on machines of several cores repairs and packets wait in different queues. TCP's never
    /// wait, which learns from what comes twice; in the paper none does.
    pub hold: Duration,
}

impl Default for ReceiveConfig {
    /// The paper's: 1,024 packets and as many repairs, of 1,500 bytes; and a hold of 1 ms.
    fn default() -> Self {
        let hold = Duration::from_millis(1);
        ReceiveConfig { packets: 1_024, repairs: 1_024, longest: 1_500, hold }
    }
}

/// What a datagram of the peer brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// A repair; packets that it brought back are in the batch.
    Repair,
    /// What the peer has measured of what this end sends: for
    /// [`SendSide::on_report`](crate::SendSide::on_report).
    Report(LossReport),
    /// Nothing: dropped, and counted.
    Dropped(DropReason),
}

/// What a receive side has seen and done.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ReceiveCounters {
    /// Packets seen.
    pub packets: u64,
    /// Packets that cannot be known by name: no whole IP packets, or with options.
    pub foreign: u64,
    /// Packets too long to be remembered.
    pub too_long: u64,
    /// Packets that arrived after a repair that names them, as on a link that reorders.
    pub overtaken: u64,
    /// Those of them that had been brought back and were still held, and so arrived once.
    pub withdrawn: u64,
    /// Datagrams dropped, by [`DropReason`].
    pub dropped: [u64; DropReason::COUNT],
    /// Reports heard.
    pub reports: u64,
    /// Times the peer began anew.
    pub sessions: u64,
}

impl ReceiveCounters {
    /// Adds what another receive side has seen and done.
    pub fn add(&mut self, other: &ReceiveCounters) {
        self.packets += other.packets;
        self.foreign += other.foreign;
        self.too_long += other.too_long;
        self.overtaken += other.overtaken;
        self.withdrawn += other.withdrawn;
        for (to, from) in self.dropped.iter_mut().zip(other.dropped) {
            *to += from;
        }
        self.reports += other.reports;
        self.sessions += other.sessions;
    }
}

/// What is known of a packet from the repairs that name it.
#[derive(Clone, Copy, Debug)]
struct Named {
    name: PacketName,
    number: u32,
    volatile: Volatile,
}

/// Where a packet stood among those that arrived.
#[derive(Clone, Copy, Debug)]
struct Landmark {
    number: u32,
    /// Packets taken in until then, and itself.
    place: u64,
}

/// Watches packets that arrive, and brings back those that do not.
#[derive(Debug)]
pub struct ReceiveSide {
    namer: Namer,
    verifier: Verifier,
    recoverer: Recoverer,
    meter: Meter,
    /// Packets that were missing when they were named, by their name modulo its length: newer ones
    /// take the place of older ones.
    named: Vec<Option<Named>>,
    longest: usize,
    /// Packets: how many are remembered.
    packets: u64,
    /// The packet that was last named and found.
    landmark: Option<Landmark>,
    recipe: Vec<PacketName>,
    /// Those of a repair that are not remembered.
    lacking: Vec<Ingredient>,
    hold: Hold,
    latest: Vec<Recovered>,
    counters: ReceiveCounters,
    reported: u64,
}

impl ReceiveSide {
    /// The receive side of an appliance's life; `own` is that life's session.
    ///
    /// # Errors
    /// It would remember nothing, or more than 4 GiB.
    pub fn new(
        key: &PresharedKey,
        own: SessionId,
        config: &ReceiveConfig,
    ) -> Result<Self, InterleaveError> {
        Ok(ReceiveSide {
            namer: Namer::new(key),
            verifier: Verifier::new(key, own),
            recoverer: Recoverer::new(config.packets, config.repairs, config.longest)?,
            meter: Meter::new(),
            named: vec![None; (config.packets * 2).next_power_of_two()],
            longest: config.longest,
            packets: config.packets as u64,
            landmark: None,
            recipe: Vec::with_capacity(usize::from(MAX_RATE)),
            lacking: Vec::with_capacity(usize::from(MAX_RATE)),
            hold: Hold::new(config.hold, config.packets),
            latest: Vec::new(),
            counters: ReceiveCounters::default(),
            reported: 0,
        })
    }

    /// What was seen.
    pub fn counters(&self) -> &ReceiveCounters {
        &self.counters
    }

    /// What the code has done.
    pub fn account(&self) -> &Account {
        self.recoverer.account()
    }

    /// The peer's session, once it was heard.
    pub fn peer(&self) -> Option<SessionId> {
        self.verifier.peer()
    }

    /// Sees an IP packet that arrives. Packets that it helps to bring back go to `out`, at once or when
    /// they have been held ([`ReceiveSide::handle_timeout`]). What routers change is set to zero in it.
    ///
    /// # Errors
    /// Why the packet is of no use here; it goes its way all the same.
    pub fn observe(
        &mut self,
        now: Time,
        packet: &mut [u8],
        out: &mut Batch,
    ) -> Result<Identity, Unprotected> {
        self.latest.clear();
        self.counters.packets += 1;
        let identity = match self.namer.identify(packet) {
            Ok(identity) => identity,
            Err(why) => {
                self.counters.foreign += 1;
                return Err(why);
            }
        };
        if identity.len > self.longest {
            self.counters.too_long += 1;
            return Err(Unprotected::TooLong { got: identity.len, limit: self.longest });
        }
        let named = place(&self.named, identity.name);
        if let Some(late) = self.named[named].take_if(|named| named.name == identity.name) {
            self.counters.overtaken += 1;
            self.counters.withdrawn += u64::from(self.hold.withdraw(identity.name));
            self.meter.arrived_late(late.number, now);
        }
        let mut accept = Accept {
            namer: &self.namer,
            named: &self.named,
            meter: &self.meter,
            now,
            hold: &mut self.hold,
        };
        self.recoverer
            .on_packet_at(
                identity.name,
                now.as_picos(),
                &packet[..identity.len],
                |name, bytes, layer| accept.packet(name, bytes, layer),
            )
            .expect("the length was compared to the longest");
        self.hold.release(now, out, &mut self.latest);
        Ok(identity)
    }

    /// Takes in a datagram of the peer. Packets that it brings back go to `out`, at once or when they have
    /// been held ([`ReceiveSide::handle_timeout`]).
    pub fn handle_datagram(&mut self, now: Time, datagram: &[u8], out: &mut Batch) -> Arrival {
        self.latest.clear();
        let body = self.open(datagram);
        let arrival = match body {
            Ok(Body::Repair(repair)) => match self.repair(now, &repair) {
                Ok(()) => Arrival::Repair,
                Err(reason) => Arrival::Dropped(reason),
            },
            Ok(Body::Report(report)) => {
                self.counters.reports += 1;
                Arrival::Report(report)
            }
            Err(reason) => Arrival::Dropped(reason),
        };
        if let Arrival::Dropped(reason) = arrival {
            self.counters.dropped[reason as usize] += 1;
        }
        self.hold.release(now, out, &mut self.latest);
        arrival
    }

    /// When [`ReceiveSide::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.hold.next()
    }

    /// Packets that have been held long enough go to `out`.
    pub fn handle_timeout(&mut self, now: Time, out: &mut Batch) {
        self.latest.clear();
        self.hold.release(now, out, &mut self.latest);
    }

    /// What the last input let go, in the order of the batch.
    pub fn latest(&self) -> &[Recovered] {
        &self.latest
    }

    /// What was measured since the last call, for [`SendSide::report`](crate::SendSide::report).
    pub fn loss_report(&mut self) -> LossReport {
        let recovered = self.recoverer.account().recovered_total();
        let new = recovered - self.reported;
        self.reported = recovered;
        self.meter.report(new.min(u64::from(u32::MAX)) as u32)
    }

    /// Verifies a datagram and reads it.
    fn open<'a>(&mut self, datagram: &'a [u8]) -> Result<Body<'a>, DropReason> {
        let sealed = Sealed::parse(datagram)?;
        let before = self.verifier.peer();
        self.verifier.verify(sealed.session, sealed.number, sealed.bytes, &sealed.tag)?;
        if self.verifier.peer() != before {
            self.counters.sessions += 1;
            self.meter.restart();
            self.landmark = None;
        }
        sealed.body()
    }

    fn repair(&mut self, now: Time, repair: &WireRepair<'_>) -> Result<(), DropReason> {
        if repair.xor.len() > self.longest {
            return Err(DropReason::Malformed);
        }
        let ingredients = repair.ingredients();
        self.meter.reach(u32::from(repair.stride) * ingredients.len() as u32);
        self.recipe.clear();
        self.lacking.clear();
        for ingredient in ingredients {
            self.recipe.push(ingredient.name);
            // Another layer's repair has reported it already: no need to search for the name.
            if self.meter.has_arrived(ingredient.number) {
                continue;
            }
            match self.recoverer.remembered(ingredient.name) {
                Some(Remembered { stamp, age }) => {
                    self.meter.record(ingredient.number, Some(Time::from_picos(stamp)));
                    let place = self.recoverer.taken_in() - age as u64;
                    self.landmark = Some(Landmark { number: ingredient.number, place });
                }
                None => self.lacking.push(ingredient),
            }
        }
        if self.lacking.is_empty() {
            self.recoverer.on_needless_repair();
            return Ok(());
        }
        if self.may_be_forgotten(repair) {
            self.recoverer.on_late_repair();
            return Ok(());
        }
        for &Ingredient { name, number, volatile } in &self.lacking {
            self.meter.record(number, None);
            let place = place(&self.named, name);
            self.named[place] = Some(Named { name, number, volatile });
        }
        let mut accept = Accept {
            namer: &self.namer,
            named: &self.named,
            meter: &self.meter,
            now,
            hold: &mut self.hold,
        };
        let repair = Repair {
            layer: repair.layer,
            first: u64::from(repair.first),
            recipe: &self.recipe,
            length: repair.length,
            xor: repair.xor,
        };
        self.recoverer
            .on_repair_at(now.as_picos(), &repair, |name, bytes, layer| {
                accept.packet(name, bytes, layer)
            })
            .map_err(|_| DropReason::Malformed)
    }

    /// Whether a packet that a repair lacks may have arrived so long ago that it is not remembered, as
    /// when the other appliance had to wait for a core, or before this end began to watch: brought
    /// back, it would arrive twice.
    fn may_be_forgotten(&self, repair: &WireRepair<'_>) -> bool {
        let known = |lacking: &Ingredient| self.meter.has_arrived(lacking.number);
        if self.lacking.iter().any(known) {
            return true;
        }
        let taken_in = self.recoverer.taken_in();
        let Some(Landmark { number, place }) = self.landmark else {
            return taken_in > self.packets;
        };
        // As many packets arrived between two as were sent, at most.
        let before = i64::from(number.wrapping_sub(repair.first) as i32);
        let first = place as i64 - before;
        first <= 0 || taken_in as i64 - first >= self.packets as i64
    }
}

/// What looks at a packet that a repair gave back.
struct Accept<'a> {
    namer: &'a Namer,
    named: &'a [Option<Named>],
    meter: &'a Meter,
    now: Time,
    hold: &'a mut Hold,
}

impl Accept<'_> {
    /// Whether the bytes deserve their name; if so they are a packet again.
    fn packet(&mut self, name: PacketName, normal: &[u8], layer: u8) -> bool {
        if self.namer.name(normal) != name {
            return false;
        }
        let named = self.named[place(self.named, name)].filter(|named| named.name == name);
        // Forgotten only when thousands were missing since: then as a host would send it.
        let volatile = named.map_or(Volatile { hops: 64, class: 0 }, |named| named.volatile);
        let expected = named.and_then(|named| self.meter.expected(named.number));
        let layer = layer.min(MAX_LAYERS as u8 - 1);
        self.hold.put(self.now, name, layer, expected, |bytes| {
            bytes.extend_from_slice(normal);
            restore(&mut bytes[..], volatile);
        });
        true
    }
}

fn place(named: &[Option<Named>], name: PacketName) -> usize {
    name.0 as usize & (named.len() - 1)
}
