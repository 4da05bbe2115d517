//! Receive side of layered interleaving: missing packets and their recovery (Maelstrom §4.3).

use std::collections::BTreeSet;

use wellspring_kernels::Kernels;

use super::account::Account;
use super::block_code::symbol_limit;
use super::lacking::{LackingBlocks, Settled};
use super::parameters::MAX_MEMORY;
use super::reed_solomon::ReedSolomonBlocks;
use super::store::{PacketStore, Remembered};
use super::window::{Solved, Taken, Window};
use super::{InterleaveError, MAX_LAYERS, MAX_NAMES, MAX_RATE, PacketName, Repair};

/// A repair that may become of use.
#[derive(Debug, Default)]
struct Kept {
    /// Empty when the place is free.
    recipe: Vec<PacketName>,
    layer: u8,
    length: u16,
    xor: Vec<u8>,
    missing: u8,
}

/// Memory of so many packets, repairs and blocks, if it can be counted \[bytes\].
fn memory(packets: usize, repairs: usize, blocks: usize, longest: usize) -> Option<usize> {
    let packets = PacketStore::memory(packets, longest)?;
    let layers = repairs.checked_mul(longest.checked_add(size_of::<Kept>())?)?;
    let blocks = LackingBlocks::<ReedSolomonBlocks>::memory(blocks, longest)?;
    packets.checked_add(layers)?.checked_add(blocks)
}

/// The receive side of a layered interleaving code, whatever its rate and interleaves: recipes say
/// all that it needs. Memory is bounded: a ring of packets, a ring of repairs.
#[derive(Debug)]
pub struct Recoverer {
    kernel: Kernels,
    longest: usize,
    packets: PacketStore,
    repairs: Vec<Kept>,
    /// Where the next repair is kept, in place of the oldest.
    next: usize,
    /// Missing packets and the repairs that await them.
    awaited: BTreeSet<(PacketName, u32)>,
    /// Repairs that lack one packet.
    ready: Vec<u32>,
    /// Packets in the store that the codes have not been told of.
    fresh: Vec<PacketName>,
    window: Window,
    blocks: LackingBlocks<ReedSolomonBlocks>,
    account: Account,
}

impl Recoverer {
    /// A receiver that remembers so many packets and so many repairs with more than one packet
    /// missing, and as many of blocks, of at most `longest` bytes each. It should remember at least as many packets as the
    /// sender's [`Parameters::reach`](super::Parameters::reach), and those that the network may
    /// put between a packet and its repair. The paper's appliance keeps 1,024 of each (§4.7).
    ///
    /// # Errors
    /// One of them is zero, or they take more than 4 GiB (2 GiB where `usize` has 32 bits).
    pub fn new(packets: usize, repairs: usize, longest: usize) -> Result<Self, InterleaveError> {
        // Blocks have no more repairs than layers have.
        let blocks = repairs.div_ceil(MAX_LAYERS);
        let fits =
            memory(packets, repairs, blocks, longest).is_some_and(|memory| memory <= MAX_MEMORY);
        if packets == 0 || repairs == 0 || longest == 0 || !fits {
            return Err(InterleaveError::Memory);
        }
        if longest > usize::from(u16::MAX) {
            return Err(InterleaveError::TooLong { got: longest, limit: usize::from(u16::MAX) });
        }
        Ok(Recoverer {
            kernel: Kernels::detect(),
            longest,
            packets: PacketStore::new(packets, longest),
            repairs: std::iter::repeat_with(Kept::default).take(repairs).collect(),
            next: 0,
            awaited: BTreeSet::new(),
            ready: Vec::new(),
            fresh: Vec::new(),
            window: Window::new(Kernels::detect()),
            blocks: LackingBlocks::new(ReedSolomonBlocks::new(), blocks),
            account: Account::default(),
        })
    }

    /// What was seen and done so far.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Packets that repairs lack at the moment.
    pub fn missing(&self) -> usize {
        let mut missing = 0;
        let mut last = None;
        for (name, _) in &self.awaited {
            missing += usize::from(last != Some(name));
            last = Some(name);
        }
        missing
    }

    /// What is known of a packet, if it is remembered.
    pub fn remembered(&self, name: PacketName) -> Option<Remembered> {
        self.packets.remembered(name)
    }

    /// What is known of a packet whose name ends in those four bytes.
    pub fn remembered_half(&self, half: u32) -> Option<Remembered> {
        self.packets.remembered(self.packets.by_half(half)?)
    }

    /// The sender of a sliding-window code numbers its packets anew.
    pub fn restart_window(&mut self) {
        self.window.restart();
    }

    /// Packets taken in or brought back so far, without duplicates.
    pub fn taken_in(&self) -> u64 {
        self.packets.count()
    }

    /// Counts a repair of which the caller knows that a packet it needs may have been forgotten.
    pub fn on_late_repair(&mut self) {
        self.account.repairs += 1;
        self.account.too_late += 1;
    }

    /// Counts a repair of which the caller knows that nothing is missing.
    pub fn on_redundant_repair(&mut self) {
        self.account.repairs += 1;
        self.account.redundant += 1;
    }

    /// Takes in a packet that arrived. Calls `accept` with the name and the bytes of every packet
    /// this brings back, and the layer that did; it answers whether the bytes deserve their name.
    ///
    /// # Errors
    /// The packet is longer than was agreed.
    pub fn on_packet(
        &mut self,
        name: PacketName,
        packet: &[u8],
        accept: impl FnMut(PacketName, &[u8], u8) -> bool,
    ) -> Result<(), InterleaveError> {
        self.on_packet_at(name, 0, packet, accept)
    }

    /// As [`Recoverer::on_packet`], with a stamp that [`Recoverer::remembered`] returns: the time of
    /// arrival, say. Packets that it brings back have the same.
    ///
    /// # Errors
    /// The packet is longer than was agreed.
    pub fn on_packet_at(
        &mut self,
        name: PacketName,
        stamp: u64,
        packet: &[u8],
        mut accept: impl FnMut(PacketName, &[u8], u8) -> bool,
    ) -> Result<(), InterleaveError> {
        if packet.len() > self.longest {
            return Err(InterleaveError::TooLong { got: packet.len(), limit: self.longest });
        }
        if self.packets.insert(name, stamp, packet) {
            self.account.packets += 1;
            self.fresh.push(name);
            self.settle(stamp, &mut accept);
        }
        Ok(())
    }

    /// Takes in a repair of a [`SlidingSender`](super::SlidingSender), with a stamp for the packets that it brings back.
    /// Of its names only the last four bytes count. Packets that it brings back have layer 0.
    ///
    /// # Errors
    /// It names more packets than can be.
    pub fn on_sliding_repair_at(
        &mut self,
        stamp: u64,
        repair: &Repair<'_>,
        mut accept: impl FnMut(PacketName, &[u8], u8) -> bool,
    ) -> Result<(), InterleaveError> {
        if !(1..=usize::from(MAX_NAMES)).contains(&repair.recipe.len()) {
            return Err(InterleaveError::Recipe(repair.recipe.len()));
        }
        self.account.repairs += 1;
        match self.window.on_repair(&self.packets, repair, self.longest) {
            Taken::Redundant => self.account.redundant += 1,
            Taken::Late => self.account.too_late += 1,
            Taken::Kept => {}
        }
        // Names alone may have shown that a packet is here.
        self.settle(stamp, &mut accept);
        Ok(())
    }

    /// Takes in a repair of a [`ReedSolomonSender`](super::ReedSolomonSender), with a stamp for the packets that it brings
    /// back, whose layer is the number of the block's repair that came first.
    ///
    /// # Errors
    /// Its recipe or its symbol is longer than can be.
    pub fn on_block_repair_at(
        &mut self,
        stamp: u64,
        repair: &Repair<'_>,
        mut accept: impl FnMut(PacketName, &[u8], u8) -> bool,
    ) -> Result<(), InterleaveError> {
        if repair.recipe.is_empty() || repair.recipe.len() > usize::from(MAX_RATE) {
            return Err(InterleaveError::Recipe(repair.recipe.len()));
        }
        let limit = symbol_limit(self.longest);
        if repair.xor.len() > limit {
            return Err(InterleaveError::TooLong { got: repair.xor.len(), limit });
        }
        self.account.repairs += 1;
        let settled = self.blocks.on_repair(&self.packets, self.longest, repair);
        self.account.redundant += u64::from(matches!(settled, Settled::Redundant));
        self.take_blocks(stamp, settled, &mut accept);
        self.settle(stamp, &mut accept);
        Ok(())
    }

    /// Tells every code of the packets that are new, whichever of them brought them back, and takes in what the codes
    /// make of them, until nothing more comes back.
    fn settle(&mut self, stamp: u64, accept: &mut impl FnMut(PacketName, &[u8], u8) -> bool) {
        loop {
            if let Some(name) = self.fresh.pop() {
                self.tell(stamp, name, accept);
            } else if let Some(place) = self.ready.pop() {
                self.use_repair(stamp, place, accept);
            } else if let Some(solved) = self.window.solve() {
                self.use_solved(stamp, solved, accept);
            } else {
                return;
            }
        }
    }

    /// A packet is here: no code lacks it any more.
    fn tell(
        &mut self,
        stamp: u64,
        name: PacketName,
        accept: &mut impl FnMut(PacketName, &[u8], u8) -> bool,
    ) {
        self.no_longer_missing(name);
        self.window.on_packet(&self.packets, name);
        // Seldom: repairs of its block had overtaken it, or another code brought it back.
        while self.blocks.len() > 0
            && let Some(settled) = self.blocks.on_packet(&self.packets, self.longest, name)
        {
            self.take_blocks(stamp, settled, accept);
        }
    }

    /// Takes in a packet that a code brought back. False if it is not accepted.
    fn take_back(
        &mut self,
        stamp: u64,
        (name, packet, layer): (PacketName, &[u8], u8),
        accept: &mut impl FnMut(PacketName, &[u8], u8) -> bool,
    ) -> bool {
        if !accept(name, packet, layer) {
            self.account.garbled += 1;
            return false;
        }
        self.account.recovered[usize::from(layer)] += 1;
        self.packets.insert(name, stamp, packet);
        self.fresh.push(name);
        true
    }

    /// Takes in what a block's repairs have brought back.
    fn take_blocks(
        &mut self,
        stamp: u64,
        settled: Settled,
        accept: &mut impl FnMut(PacketName, &[u8], u8) -> bool,
    ) {
        match settled {
            Settled::Redundant => {}
            Settled::Garbled => self.account.garbled += 1,
            Settled::Waits { expired } => self.account.expired += u64::from(expired),
            Settled::Restored(restored) => {
                for (name, packet) in restored.packets {
                    match packet {
                        Some(packet) => {
                            self.take_back(stamp, (name, &packet, restored.layer), accept);
                        }
                        None => self.account.garbled += 1,
                    }
                }
            }
        }
    }

    /// Uses what one of the window's equations gives.
    fn use_solved(
        &mut self,
        stamp: u64,
        solved: Solved,
        accept: &mut impl FnMut(PacketName, &[u8], u8) -> bool,
    ) {
        let Some((name, packet)) = solved.packet else {
            self.account.garbled += 1;
            return;
        };
        if self.packets.contains(name) || self.take_back(stamp, (name, &packet, 0), accept) {
            self.window.on_solved(&self.packets, solved.number, name);
        }
    }

    /// Takes in a repair; `accept` is as for [`Recoverer::on_packet`].
    ///
    /// # Errors
    /// Its recipe or its XOR is longer than can be.
    pub fn on_repair(
        &mut self,
        repair: &Repair<'_>,
        accept: impl FnMut(PacketName, &[u8], u8) -> bool,
    ) -> Result<(), InterleaveError> {
        self.on_repair_at(0, repair, accept)
    }

    /// As [`Recoverer::on_repair`], with a stamp for the packets that it brings back.
    ///
    /// # Errors
    /// Its recipe or its XOR is longer than can be.
    pub fn on_repair_at(
        &mut self,
        stamp: u64,
        repair: &Repair<'_>,
        mut accept: impl FnMut(PacketName, &[u8], u8) -> bool,
    ) -> Result<(), InterleaveError> {
        if repair.recipe.is_empty() || repair.recipe.len() > usize::from(MAX_RATE) {
            return Err(InterleaveError::Recipe(repair.recipe.len()));
        }
        if repair.xor.len() > self.longest {
            return Err(InterleaveError::TooLong { got: repair.xor.len(), limit: self.longest });
        }
        self.account.repairs += 1;
        if repair.recipe.iter().all(|&name| self.packets.contains(name)) {
            self.account.redundant += 1;
            return Ok(());
        }
        self.keep(repair);
        self.settle(stamp, &mut accept);
        Ok(())
    }

    /// Keeps a repair in place of the oldest.
    fn keep(&mut self, repair: &Repair<'_>) {
        let place = self.next;
        self.next = (self.next + 1) % self.repairs.len();
        if self.repairs[place].missing > 1 {
            self.account.expired += 1;
        }
        self.drop_repair(place as u32);
        let kept = &mut self.repairs[place];
        kept.recipe.extend_from_slice(repair.recipe);
        // Equal packets cancel out, two by two.
        kept.recipe.sort_unstable();
        cancel_pairs(&mut kept.recipe);
        kept.layer = repair.layer.min(MAX_LAYERS as u8 - 1);
        kept.length = repair.length;
        kept.xor.extend_from_slice(repair.xor);
        for &name in &kept.recipe {
            if !self.packets.contains(name) {
                kept.missing += 1;
                self.awaited.insert((name, place as u32));
            }
        }
        match kept.missing {
            0 => self.drop_repair(place as u32),
            1 => self.ready.push(place as u32),
            _ => {}
        }
    }

    /// A packet is here: repairs that awaited it come closer to use.
    fn no_longer_missing(&mut self, name: PacketName) {
        if self.awaited.is_empty() {
            return;
        }
        while let Some(&(awaited, place)) = self.awaited.range((name, 0)..).next()
            && awaited == name
        {
            self.awaited.remove(&(name, place));
            let kept = &mut self.repairs[place as usize];
            kept.missing -= 1;
            match kept.missing {
                0 => self.drop_repair(place),
                1 => self.ready.push(place),
                _ => {}
            }
        }
    }

    /// Uses a repair that lacks one packet.
    fn use_repair(
        &mut self,
        stamp: u64,
        place: u32,
        accept: &mut impl FnMut(PacketName, &[u8], u8) -> bool,
    ) {
        if self.repairs[place as usize].missing != 1 {
            return; // what it lacked came back otherwise
        }
        let solved = self.solve(place);
        let layer = self.repairs[place as usize].layer;
        self.drop_repair(place);
        let Some((name, packet)) = solved else { return };
        self.take_back(stamp, (name, &packet, layer), accept);
        // The buffer goes back to where it came from.
        let kept = &mut self.repairs[place as usize];
        if kept.recipe.is_empty() {
            kept.xor = packet;
            kept.xor.clear();
        }
    }

    /// The one packet a repair lacks: its XOR with all the others.
    fn solve(&mut self, place: u32) -> Option<(PacketName, Vec<u8>)> {
        let kept = &mut self.repairs[place as usize];
        let (mut lacking, mut length) = (None, kept.length);
        for &name in &kept.recipe {
            if self.awaited.contains(&(name, place)) {
                lacking = Some(name);
                continue;
            }
            let Some(packet) = self.packets.get(name) else {
                self.account.too_late += 1;
                return None;
            };
            if packet.len() > kept.xor.len() {
                self.account.garbled += 1;
                return None;
            }
            length ^= packet.len() as u16;
            self.kernel.xor(&mut kept.xor[..packet.len()], packet);
        }
        let length = usize::from(length);
        // What is left beyond the packet is padding, or else this is no packet.
        if length > kept.xor.len() || kept.xor[length..].iter().any(|&byte| byte != 0) {
            self.account.garbled += 1;
            return None;
        }
        kept.xor.truncate(length);
        Some((lacking?, std::mem::take(&mut kept.xor)))
    }

    fn drop_repair(&mut self, place: u32) {
        let kept = &mut self.repairs[place as usize];
        if kept.missing > 0 {
            for &name in &kept.recipe {
                self.awaited.remove(&(name, place));
            }
        }
        kept.recipe.clear();
        kept.xor.clear();
        kept.missing = 0;
    }
}

/// Removes equal neighbours two by two.
fn cancel_pairs(names: &mut Vec<PacketName>) {
    let mut kept = 0;
    for at in 0..names.len() {
        if kept > 0 && names[kept - 1] == names[at] {
            kept -= 1;
        } else {
            names[kept] = names[at];
            kept += 1;
        }
    }
    names.truncate(kept);
}
