//! Repairs turned into datagrams.

use wellspring_codec::interleave::{
    Interleaver, MAX_LAYERS, ReedSolomonSender, Repair, SlidingSender,
};
use wellspring_core::Time;

use crate::auth::Sealer;
use crate::batch::Batch;
use crate::code::SlidingCode;
use crate::deadline::Deadlines;
use crate::identity::Volatile;
use crate::send_config::SendCounters;
use crate::wire::{RepairHead, emit_repair, emit_sliding};

/// Turns repairs into datagrams.
pub(crate) struct Post<'a> {
    pub now: Time,
    pub sealer: &'a mut Sealer,
    pub volatile: &'a mut [Volatile],
    pub strides: [u16; MAX_LAYERS],
    pub base: u64,
    pub deadlines: Option<&'a mut Deadlines>,
    pub class: u8,
    pub counters: &'a mut SendCounters,
    pub out: &'a mut Batch,
}

impl Post<'_> {
    /// Remembers what routers may change in a packet.
    pub fn remember(&mut self, number: u64, volatile: Volatile) {
        self.volatile[place(self.volatile, number)] = volatile;
    }

    /// Sends a layer's bins that were begun before that packet, as far as the bound on overhead allows.
    pub fn expire(&mut self, interleaver: &mut Interleaver, layer: usize, before: u64) {
        let Some(deadlines) = self.deadlines.take() else { return };
        // Both closures need it, one after the other.
        let shared = core::cell::RefCell::new(deadlines);
        interleaver.expire(
            layer,
            before,
            |number| shared.borrow().went_alone(number),
            |repair| {
                if !shared.borrow().may_send() {
                    return false;
                }
                self.repair(&repair);
                shared.borrow_mut().on_repair(alone(&repair), false);
                true
            },
        );
        self.deadlines = Some(shared.into_inner());
    }

    /// Sends what a window needs beside the repairs that its rate gives: as many in a near deadline as the longest burst
    /// has packets, or one for each packet where there are fewer. What is older than the far deadline leaves the window.
    pub fn refresh(&mut self, now: Time, sender: &mut SlidingSender, code: &SlidingCode) {
        let Some(deadlines) = &mut self.deadlines else { return };
        let next = sender.packets();
        let wanted = deadlines.wanted(now, next, u64::from(code.burst));
        sender.forget(deadlines.before(now, deadlines.far()));
        for _ in 0..wanted {
            let may = self.deadlines.as_ref().is_some_and(|deadlines| deadlines.may_send());
            if !may || !sender.repair(|repair| self.sliding(&repair, false)) {
                return;
            }
        }
    }

    /// Sends a repair of a window, which its rate calls for or not.
    pub fn sliding(&mut self, repair: &Repair<'_>, by_rate: bool) {
        if let Some(deadlines) = &mut self.deadlines {
            deadlines.on_repair(None, by_rate);
            deadlines.on_sliding(self.now);
        }
        let first = self.base.wrapping_add(repair.first) as u32;
        let named = repair.first + u64::from(repair.length) - repair.recipe.len() as u64;
        let volatiles: &[Volatile] = self.volatile;
        let volatiles = (named..).map(|number| volatiles[place(volatiles, number)]);
        self.out.write(self.class, |bytes| {
            let start = bytes.len();
            emit_sliding(self.sealer, self.now, first, repair, volatiles, bytes);
            self.counters.repairs += 1;
            self.counters.repair_bytes += (bytes.len() - start) as u64;
        });
    }

    /// Sends the repairs of blocks that were begun before that packet, as far as the bound on overhead allows.
    pub fn expire_blocks(&mut self, sender: &mut ReedSolomonSender, before: u64) {
        sender.expire(before, |repair| {
            let may = self.deadlines.as_ref().is_some_and(|deadlines| deadlines.may_send());
            if may {
                self.block(&repair, false);
            }
            may
        });
    }

    /// Sends the repairs of all blocks.
    pub fn finish_blocks(&mut self, sender: &mut ReedSolomonSender) {
        sender.expire(u64::MAX, |repair| {
            self.block(&repair, true);
            true
        });
    }

    /// Sends a repair of a block, which is complete or not.
    pub fn block(&mut self, repair: &Repair<'_>, complete: bool) {
        if let Some(deadlines) = &mut self.deadlines {
            deadlines.on_repair(None, complete);
        }
        self.named(repair, true);
    }

    /// Sends a repair of a layer.
    pub fn repair(&mut self, repair: &Repair<'_>) {
        if let Some(deadlines) = &mut self.deadlines {
            deadlines.on_repair(alone(repair), true);
        }
        self.named(repair, false);
    }

    /// Sends a repair that names all its packets.
    fn named(&mut self, repair: &Repair<'_>, block: bool) {
        let stride = self.strides[usize::from(repair.layer)];
        let head = RepairHead {
            block,
            layer: repair.layer,
            length: repair.length,
            stride,
            first: self.base.wrapping_add(repair.first) as u32,
        };
        let mut number = repair.first;
        let volatiles: &[Volatile] = self.volatile;
        let ingredients = repair.recipe.iter().map(|&name| {
            let volatile = volatiles[place(volatiles, number)];
            number += u64::from(stride);
            (name, volatile)
        });
        self.out.write(self.class, |bytes| {
            let start = bytes.len();
            emit_repair(self.sealer, self.now, head, ingredients, repair.xor, bytes);
            self.counters.repairs += 1;
            self.counters.repair_bytes += (bytes.len() - start) as u64;
        });
    }
}

/// The number of the packet that a repair is of, if it is one alone.
fn alone(repair: &Repair<'_>) -> Option<u64> {
    (repair.recipe.len() == 1).then_some(repair.first)
}

/// Where the memory has a packet: its length is a power of two.
fn place(volatile: &[Volatile], number: u64) -> usize {
    number as usize & (volatile.len() - 1)
}
