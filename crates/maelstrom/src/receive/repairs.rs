//! Repairs at the receive side: what they report of packets, and what they bring back.

use wellspring_codec::interleave::{Recoverer, Remembered, Repair, SYMBOL_HEADER_LEN};
use wellspring_core::Time;

use super::{Landmark, ReceiveSide};
use crate::arrival::Arrival;
use crate::drop_reason::DropReason;
use crate::named::Named;
use crate::repair_kind::Kind;
use crate::wire::{Ingredient, WireRepair, WireSliding};

impl ReceiveSide {
    /// Takes in a repair that names all its packets.
    pub(super) fn repair(
        &mut self,
        now: Time,
        repair: &WireRepair<'_>,
        kind: Kind,
        long: bool,
    ) -> Arrival {
        match self.named_repair(now, repair, kind, long) {
            Ok(()) => Arrival::Repair,
            Err(reason) => Arrival::Dropped(reason),
        }
    }

    fn named_repair(
        &mut self,
        now: Time,
        repair: &WireRepair<'_>,
        kind: Kind,
        long: bool,
    ) -> Result<(), DropReason> {
        if repair.xor.len() > self.longest + kind.longer_by() {
            return Err(DropReason::Malformed);
        }
        let ingredients = repair.ingredients();
        self.meter_by(false);
        self.meter.reach(u32::from(repair.stride) * ingredients.len() as u32);
        self.meter.record_queue_at_newest(repair.last(), long);
        self.recipe.clear();
        self.lacking.clear();
        for ingredient in ingredients {
            self.recipe.push(ingredient.name);
            self.find(ingredient, |recoverer| recoverer.remembered(ingredient.name));
        }
        if self.lacking.is_empty() {
            self.recoverer.on_redundant_repair();
            return Ok(());
        }
        if self.may_be_forgotten(repair.first) {
            self.recoverer.on_late_repair();
            return Ok(());
        }
        self.record_lacking(now);
        let (recoverer, recipe, mut accept) = self.recovery(now);
        let repair = Repair {
            layer: repair.layer,
            first: u64::from(repair.first),
            recipe,
            length: repair.length,
            xor: repair.xor,
        };
        let accept = |name, bytes: &[u8], layer| accept.packet(name, bytes, layer);
        let taken = match kind {
            Kind::Layer => recoverer.on_repair_at(now.as_picos(), &repair, accept),
            Kind::Block => recoverer.on_block_repair_at(now.as_picos(), &repair, accept),
        };
        taken.map_err(|_| DropReason::Malformed)
    }

    /// Takes in a repair of the sliding-window code.
    pub(super) fn sliding(&mut self, now: Time, repair: &WireSliding<'_>, long: bool) -> Arrival {
        match self.window_repair(now, repair, long) {
            Ok(()) => Arrival::Repair,
            Err(reason) => Arrival::Dropped(reason),
        }
    }

    fn window_repair(
        &mut self,
        now: Time,
        repair: &WireSliding<'_>,
        long: bool,
    ) -> Result<(), DropReason> {
        if repair.symbol.len() > self.longest + SYMBOL_HEADER_LEN {
            return Err(DropReason::Malformed);
        }
        let ingredients = repair.ingredients();
        self.meter_by(false);
        self.meter.reach(ingredients.len() as u32);
        let end = repair.first.wrapping_add(u32::from(repair.window));
        self.meter.record_queue_at_newest(end.wrapping_sub(1), long);
        self.recipe.clear();
        self.lacking.clear();
        for ingredient in ingredients {
            self.recipe.push(ingredient.name);
            let half = ingredient.name.0 as u32;
            self.find(ingredient, |recoverer| recoverer.remembered_half(half));
        }
        if !self.lacking.is_empty() && self.may_be_forgotten(repair.first_named()) {
            self.recoverer.on_late_repair();
            return Ok(());
        }
        self.record_lacking(now);
        let (recoverer, recipe, mut accept) = self.recovery(now);
        let repair = Repair {
            layer: repair.seed,
            first: u64::from(repair.first),
            recipe,
            length: repair.window,
            xor: repair.symbol,
        };
        recoverer
            .on_sliding_repair_at(now.as_picos(), &repair, |name, bytes, layer| {
                accept.packet(name, bytes, layer)
            })
            .map_err(|_| DropReason::Malformed)
    }

    /// Looks for a packet that a repair names: records that it has arrived, or that the repair lacks it.
    fn find(
        &mut self,
        ingredient: Ingredient,
        remembered: impl FnOnce(&Recoverer) -> Option<Remembered>,
    ) {
        // Another repair has reported it already: no need to search for the name.
        if self.meter.has_arrived(ingredient.number) {
            return;
        }
        match remembered(&self.recoverer) {
            Some(Remembered { stamp, age }) => {
                self.meter.record(ingredient.number, Some(Time::from_picos(stamp)));
                let place = self.recoverer.taken_in() - age as u64;
                self.landmark = Some(Landmark { number: ingredient.number, place });
            }
            None => self.lacking.push(ingredient),
        }
    }

    /// Records of what a repair lacks that it was lost, or that it may have passed unseen.
    fn record_lacking(&mut self, now: Time) {
        for &Ingredient { name, number, volatile } in &self.lacking {
            let unseen = self.blind.between(|| self.meter.neighbours(number));
            self.meter.record(number, unseen);
            let doubtful = unseen.is_some();
            self.named.insert(Named { name, number, volatile, at: now, doubtful });
        }
    }

    /// Whether a packet that a repair lacks may have arrived so long ago that it is not remembered, as
    /// when the other appliance had to wait for a core, or before this end began to watch: brought
    /// back, it would arrive twice.
    fn may_be_forgotten(&self, first_named: u32) -> bool {
        let known = |lacking: &Ingredient| self.meter.has_arrived(lacking.number);
        if self.lacking.iter().any(known) {
            return true;
        }
        let taken_in = self.recoverer.taken_in();
        let Some(Landmark { number, place }) = self.landmark else {
            return taken_in > self.packets;
        };
        // As many packets arrived between two as were sent, at most.
        let before = i64::from(number.wrapping_sub(first_named) as i32);
        let first = place as i64 - before;
        // A peer that began later has sent nothing before this end watched: what seems to be of then was lost.
        let before = self.verifier.peer().is_none_or(|peer| peer.start < self.own.start);
        (before && first <= 0) || taken_in as i64 - first >= self.packets as i64
    }
}
