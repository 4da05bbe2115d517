//! Receive side of the sliding-window code: elimination over the packets that are missing.
//!
//! Numbers are the sender's, modulo 2^32. Of a repair, what has arrived is taken out; what is left is an equation of
//! missing packets. Equations stand in reduced echelon form, each led by its oldest packet, so that those whose oldest
//! packet has become too old can go without any loss to the others.

use std::collections::BTreeMap;

use wellspring_kernels::{Kernels, gf256};

use super::sliding::{SYMBOL_HEADER_LEN, factor, symbol_header};
use super::store::PacketStore;
use super::{MAX_WINDOW, PacketName, Repair};

/// Numbers that are remembered \[packets\].
const NUMBERS: usize = 4 * MAX_WINDOW as usize;
/// Equations led by older packets than so many before the newest are forgotten.
const KEEP: u32 = 2 * MAX_WINDOW as u32;
/// Missing packets of a repair, at most: with more it is of no use soon.
const MOST_MISSING: usize = 128;
/// Equations at most.
const MOST_ROWS: usize = 128;

/// What is known of the packet of a number.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Slot {
    #[default]
    Unnamed,
    /// It has not arrived; half of its name.
    Missing(u32),
    Here(PacketName),
}

/// An equation: factors of missing packets, the oldest first, and the combination of those packets.
#[derive(Debug)]
struct Row {
    factors: Vec<(u32, u8)>,
    symbol: Vec<u8>,
}

impl Row {
    fn factor(&self, number: u32) -> u8 {
        self.factors.iter().find(|&&(at, _)| at == number).map_or(0, |&(_, factor)| factor)
    }
}

/// What a repair has come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Taken {
    /// Nothing was missing, or nothing new was said.
    Redundant,
    /// Too much is missing, or it is too old.
    Late,
    Kept,
}

/// A packet that an equation gave back.
#[derive(Debug)]
pub(super) struct Solved {
    pub number: u32,
    /// None: what came out is no packet.
    pub packet: Option<(PacketName, Vec<u8>)>,
}

/// Numbers, and equations of those that are missing.
#[derive(Debug)]
pub(super) struct Window {
    kernel: Kernels,
    slots: Vec<Slot>,
    /// One more than the newest number; none before the first repair.
    end: Option<u32>,
    /// No repair counts that has an older packet: it may have come before anything was remembered.
    floor: u32,
    /// Numbers of missing packets by half their names.
    missing: BTreeMap<u32, u32>,
    rows: Vec<Row>,
    /// Buffers to use again.
    spare: Vec<Vec<u8>>,
}

/// The half of a name that repairs have.
pub(super) fn half(name: PacketName) -> u32 {
    name.0 as u32
}

impl Window {
    pub(super) fn new(kernel: Kernels) -> Self {
        Window {
            kernel,
            slots: Vec::new(),
            end: None,
            floor: 0,
            missing: BTreeMap::new(),
            rows: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// The sender numbers anew.
    pub(super) fn restart(&mut self) {
        self.end = None;
        self.missing.clear();
        self.rows.clear();
    }

    /// A packet has arrived.
    pub(super) fn on_packet(&mut self, store: &PacketStore, name: PacketName) {
        if !self.missing.is_empty()
            && let Some(&number) = self.missing.get(&half(name))
        {
            self.is_here(store, number, name);
        }
    }

    /// Takes in a repair; `longest` is the longest packet. What it brings back is in [`Window::solve`].
    pub(super) fn on_repair(
        &mut self,
        store: &PacketStore,
        repair: &Repair<'_>,
        longest: usize,
    ) -> Taken {
        let count = u32::from(repair.length);
        let first = repair.first as u32;
        let end = first.wrapping_add(count);
        let names = repair.recipe.len() as u32;
        let fits = (1..=u32::from(MAX_WINDOW)).contains(&count) && names <= count;
        let len = SYMBOL_HEADER_LEN..=SYMBOL_HEADER_LEN + longest;
        if !fits || !len.contains(&repair.xor.len()) || !self.reach(end, names) {
            return Taken::Late;
        }
        for (place, &name) in repair.recipe.iter().enumerate() {
            let number = end.wrapping_sub(names).wrapping_add(place as u32);
            self.name(store, number, half(name));
        }
        if (first.wrapping_sub(self.floor) as i32) < 0 {
            return Taken::Late;
        }
        let mut row = Row { factors: Vec::new(), symbol: self.spare.pop().unwrap_or_default() };
        row.symbol.clear();
        row.symbol.extend_from_slice(repair.xor);
        row.symbol.resize(SYMBOL_HEADER_LEN + longest, 0);
        if !self.lacking(store, repair, &mut row.factors) {
            self.spare.push(row.symbol);
            return Taken::Late;
        }
        if row.factors.is_empty() {
            self.spare.push(row.symbol);
            return Taken::Redundant;
        }
        self.take_out(store, repair, &mut row);
        if self.insert(row) { Taken::Kept } else { Taken::Redundant }
    }

    /// Hands out a packet that an equation gives by now; its equation is gone.
    pub(super) fn solve(&mut self) -> Option<Solved> {
        let at = self.rows.iter().position(|row| row.factors.len() == 1)?;
        let row = self.rows.swap_remove(at);
        let number = row.factors[0].0;
        let (header, bytes) = row.symbol.split_at(SYMBOL_HEADER_LEN);
        let len = usize::from(u16::from_be_bytes([header[0], header[1]]));
        let name = header[2..].try_into().map_or(0, u64::from_be_bytes);
        // What is left beyond the packet is padding, or else this is no packet.
        let whole = len <= bytes.len() && bytes[len..].iter().all(|&byte| byte == 0);
        let packet = whole.then(|| (PacketName(name), bytes[..len].to_vec()));
        self.spare.push(row.symbol);
        Some(Solved { number, packet })
    }

    /// A packet that was solved is in the store.
    pub(super) fn on_solved(&mut self, store: &PacketStore, number: u32, name: PacketName) {
        self.is_here(store, number, name);
    }

    fn slot(&mut self, number: u32) -> &mut Slot {
        &mut self.slots[number as usize % NUMBERS]
    }

    /// Goes on to numbers before `end`, of which the last `names` are named now. False if that is long past.
    fn reach(&mut self, end: u32, names: u32) -> bool {
        let Some(before) = self.end else {
            self.slots.clear();
            self.slots.resize(NUMBERS, Slot::Unnamed);
            self.floor = end.wrapping_sub(names);
            self.end = Some(end);
            return true;
        };
        let ahead = end.wrapping_sub(before) as i32;
        if ahead <= 0 {
            return ahead > -(MAX_WINDOW as i32);
        }
        if ahead as usize >= NUMBERS {
            self.restart();
            return self.reach(end, names);
        }
        for number in 0..ahead as u32 {
            *self.slot(before.wrapping_add(number)) = Slot::Unnamed;
        }
        self.end = Some(end);
        let age = |number: u32| end.wrapping_sub(number);
        self.missing.retain(|_, number| age(*number) < KEEP);
        // Rows are led by their oldest packets.
        self.rows.retain(|row| age(row.factors[0].0) < KEEP);
        if age(self.floor) > KEEP {
            self.floor = end.wrapping_sub(KEEP);
        }
        true
    }

    /// A packet of that number has that half of a name.
    fn name(&mut self, store: &PacketStore, number: u32, half: u32) {
        if let Slot::Here(_) = self.slot(number) {
            return;
        }
        match store.by_half(half) {
            Some(name) => self.is_here(store, number, name),
            None => {
                // Repairs may contradict each other.
                let before = std::mem::replace(self.slot(number), Slot::Missing(half));
                self.no_longer_missing(number, before);
                self.missing.insert(half, number);
            }
        }
    }

    /// What was known of a number is no longer so: it is not awaited by that half of a name.
    fn no_longer_missing(&mut self, number: u32, before: Slot) {
        if let Slot::Missing(half) = before
            && self.missing.get(&half) == Some(&number)
        {
            self.missing.remove(&half);
        }
    }

    /// A packet is in the store: it leaves the equations.
    fn is_here(&mut self, store: &PacketStore, number: u32, name: PacketName) {
        let before = std::mem::replace(self.slot(number), Slot::Here(name));
        self.no_longer_missing(number, before);
        let Some(packet) = store.get(name) else { return };
        let mut again = Vec::new();
        let mut at = 0;
        while at < self.rows.len() {
            let factor = self.rows[at].factor(number);
            if factor == 0 {
                at += 1;
                continue;
            }
            add_packet(self.kernel, &mut self.rows[at].symbol, name, packet, factor);
            let led = self.rows[at].factors[0].0 == number;
            self.rows[at].factors.retain(|&(column, _)| column != number);
            if led {
                again.push(self.rows.swap_remove(at));
            } else {
                at += 1;
            }
        }
        for row in again {
            self.insert(row);
        }
    }

    /// The factors of a repair's packets that are missing. False if there are too many.
    fn lacking(
        &mut self,
        store: &PacketStore,
        repair: &Repair<'_>,
        factors: &mut Vec<(u32, u8)>,
    ) -> bool {
        for place in 0..u32::from(repair.length) {
            let number = (repair.first as u32).wrapping_add(place);
            if let Slot::Missing(half) = *self.slot(number) {
                // Another code may have brought it back.
                self.name(store, number, half);
            }
            let here = matches!(*self.slot(number), Slot::Here(name) if store.contains(name));
            if !here {
                if factors.len() == MOST_MISSING {
                    return false;
                }
                factors.push((number, factor(repair.layer, place)));
            }
        }
        true
    }

    /// Takes out of an equation what has arrived.
    fn take_out(&mut self, store: &PacketStore, repair: &Repair<'_>, row: &mut Row) {
        let mut missing = row.factors.iter().map(|&(number, _)| number).peekable();
        for place in 0..u32::from(repair.length) {
            let number = (repair.first as u32).wrapping_add(place);
            if missing.peek() == Some(&number) {
                missing.next();
                continue;
            }
            if let Slot::Here(name) = *self.slot(number)
                && let Some(packet) = store.get(name)
            {
                let factor = factor(repair.layer, place);
                add_packet(self.kernel, &mut row.symbol, name, packet, factor);
            }
        }
    }

    /// Adds an equation. False if it says nothing new.
    fn insert(&mut self, mut row: Row) -> bool {
        for known in &self.rows {
            let factor = row.factor(known.factors[0].0);
            if factor != 0 {
                add_row(self.kernel, &mut row, known, factor);
            }
        }
        let Some(&(lead, factor)) = row.factors.first() else {
            self.spare.push(row.symbol);
            return false;
        };
        let inverse = gf256::inverse(factor);
        self.kernel.scale(&mut row.symbol, inverse);
        for (_, factor) in &mut row.factors {
            *factor = gf256::mul(*factor, inverse);
        }
        for known in &mut self.rows {
            let factor = known.factor(lead);
            if factor != 0 {
                add_row(self.kernel, known, &row, factor);
            }
        }
        if self.rows.len() == MOST_ROWS {
            // That of the oldest packet is of the least use.
            let end = self.end.unwrap_or(0);
            let age = |row: &Row| end.wrapping_sub(row.factors[0].0);
            if let Some(oldest) = (0..self.rows.len()).max_by_key(|&at| age(&self.rows[at])) {
                let gone = self.rows.swap_remove(oldest);
                self.spare.push(gone.symbol);
            }
        }
        self.rows.push(row);
        true
    }
}

/// Adds a multiple of an equation to another. Both are in the order of numbers.
fn add_row(kernel: Kernels, row: &mut Row, other: &Row, factor: u8) {
    kernel.mul_add(&mut row.symbol, &other.symbol, factor);
    for &(number, times) in &other.factors {
        let product = gf256::mul(times, factor);
        // Numbers wrap: no two of an equation are half of them apart.
        let place = row.factors.partition_point(|&(at, _)| (at.wrapping_sub(number) as i32) < 0);
        match row.factors.get_mut(place) {
            Some((at, sum)) if *at == number => {
                *sum ^= product;
                if *sum == 0 {
                    row.factors.remove(place);
                }
            }
            _ => row.factors.insert(place, (number, product)),
        }
    }
}

/// Adds a multiple of a packet with its header to a combination that is long enough.
fn add_packet(kernel: Kernels, symbol: &mut [u8], name: PacketName, packet: &[u8], factor: u8) {
    let (header, bytes) = symbol.split_at_mut(SYMBOL_HEADER_LEN);
    kernel.mul_add(header, &symbol_header(name, packet), factor);
    kernel.mul_add(&mut bytes[..packet.len()], packet, factor);
}

#[cfg(test)]
mod tests;
