//! Send side of layered interleaving: repair bins (Maelstrom §4.3, Fig. 6).

use wellspring_kernels::{AlignedBuffer, Kernels};

use super::{InterleaveError, MAX_LAYERS, PacketName, Parameters};

/// A repair packet: an XOR and its recipe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repair<'a> {
    /// Which layer made it.
    pub layer: u8,
    /// Number of the first packet in the XOR, counting from 0 those given to the sender. The others
    /// follow at the distance of the layer's interleave.
    pub first: u64,
    /// Names of the packets in the XOR.
    pub recipe: &'a [PacketName],
    /// XOR of the packets' lengths \[bytes\].
    pub length: u16,
    /// XOR of the packets, each padded with zeros to the longest.
    pub xor: &'a [u8],
}

/// A partly made repair packet.
#[derive(Debug)]
struct Bin {
    first: u64,
    recipe: Vec<PacketName>,
    length: u16,
    /// XOR so far, and zeros: as long as the longest packet may be, on cache lines of its own.
    xor: AlignedBuffer,
    /// Of which so much is the XOR: as long as the longest packet in it \[bytes\].
    used: usize,
    fires_at: u8,
    /// Full, and held back until the bin is used again.
    held: bool,
}

impl Bin {
    fn new(fires_at: u8, rate: u8, longest: usize) -> Self {
        let mut xor = AlignedBuffer::default();
        xor.resize(longest);
        Bin {
            first: 0,
            recipe: Vec::with_capacity(usize::from(rate)),
            length: 0,
            xor,
            used: 0,
            fires_at,
            held: false,
        }
    }

    /// Writes down that a packet is in the XOR. Gives the XOR that it is still to be added to, if it
    /// is not the first.
    fn add(&mut self, number: u64, name: PacketName, packet: &[u8]) -> Option<&mut [u8]> {
        let first = self.recipe.is_empty();
        self.recipe.push(name);
        self.length ^= packet.len() as u16;
        if !first {
            self.used = self.used.max(packet.len());
            return Some(&mut self.xor);
        }
        // In place of the XOR before: what it leaves beyond the packet goes.
        self.first = number;
        self.xor[..packet.len()].copy_from_slice(packet);
        if packet.len() < self.used {
            self.xor[packet.len()..self.used].fill(0);
        }
        self.used = packet.len();
        None
    }

    fn repair(&self, layer: u8) -> Repair<'_> {
        Repair {
            layer,
            first: self.first,
            recipe: &self.recipe,
            length: self.length,
            xor: &self.xor[..self.used],
        }
    }

    fn clear(&mut self, rate: u8) {
        self.recipe.clear();
        self.length = 0;
        self.fires_at = rate;
        self.held = false;
    }
}

/// The send side of a layered interleaving code.
#[derive(Debug)]
pub struct Interleaver {
    parameters: Parameters,
    kernel: Kernels,
    longest: usize,
    layers: Vec<Vec<Bin>>,
    /// Packets taken so far.
    packets: u64,
    /// Where each layer stands: the bin of the next packet.
    next: Vec<usize>,
}

impl Interleaver {
    /// A sender of packets of at most `longest` bytes. It takes about the sum of the interleaves
    /// times `longest` bytes.
    ///
    /// # Errors
    /// `longest` is zero or more than 65,535.
    pub fn new(parameters: &Parameters, longest: usize) -> Result<Self, InterleaveError> {
        if longest == 0 {
            return Err(InterleaveError::Memory);
        }
        if longest > usize::from(u16::MAX) {
            return Err(InterleaveError::TooLong { got: longest, limit: usize::from(u16::MAX) });
        }
        let rate = parameters.rate();
        let layer = |&interleave: &u16| {
            let bin = |x| Bin::new(parameters.first_size(interleave, x), rate, longest);
            (0..interleave).map(bin).collect()
        };
        Ok(Interleaver {
            kernel: Kernels::detect(),
            longest,
            layers: parameters.interleaves().iter().map(layer).collect(),
            packets: 0,
            next: vec![0; parameters.interleaves().len()],
            parameters: parameters.clone(),
        })
    }

    /// What it was made with.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Takes a packet on its way into one bin of each layer; calls `send` with the repair packets
    /// that are to follow it.
    ///
    /// # Errors
    /// The packet is longer than was agreed.
    pub fn add(
        &mut self,
        name: PacketName,
        packet: &[u8],
        mut send: impl FnMut(Repair<'_>),
    ) -> Result<(), InterleaveError> {
        if packet.len() > self.longest {
            return Err(InterleaveError::TooLong { got: packet.len(), limit: self.longest });
        }
        let rate = self.parameters.rate();
        let this = self.packets;
        self.packets += 1;
        // All layers' XORs in one pass over the packet.
        let mut sums: [&mut [u8]; MAX_LAYERS] = std::array::from_fn(|_| &mut [][..]);
        let mut count = 0;
        for (number, (bins, &turn)) in self.layers.iter_mut().zip(&self.next).enumerate() {
            let bin = &mut bins[turn];
            if bin.held {
                send(bin.repair(number as u8));
                bin.clear(rate);
            }
            if let Some(sum) = bin.add(this, name, packet) {
                sums[count] = sum;
                count += 1;
            }
        }
        self.kernel.xor_each(&mut sums[..count], packet);
        for (number, (bins, next)) in self.layers.iter_mut().zip(&mut self.next).enumerate() {
            let turn = *next;
            *next = if turn + 1 == bins.len() { 0 } else { turn + 1 };
            let bin = &mut bins[turn];
            if bin.recipe.len() < usize::from(bin.fires_at) {
                continue;
            }
            if self.parameters.delayed {
                bin.held = true;
            } else {
                send(bin.repair(number as u8));
                bin.clear(rate);
            }
        }
        Ok(())
    }

    /// Packets taken so far: the number of the next one.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Sends all that the bins of all layers hold, full or not: the sender is about to be replaced
    /// by one with other parameters.
    pub fn finish(&mut self, mut send: impl FnMut(Repair<'_>)) {
        let rate = self.parameters.rate();
        for (layer, bins) in self.layers.iter_mut().enumerate() {
            for bin in bins.iter_mut().filter(|bin| !bin.recipe.is_empty()) {
                send(bin.repair(layer as u8));
                bin.clear(rate);
            }
        }
    }

    /// Sends all that the bins of a layer hold whose first packet is one before that number, counted as
    /// [`Interleaver::packets`] does, full or not: they have waited long enough for the packets that would fill
    /// them. A bin of one packet, whose number `went_alone` accepts, is emptied without: another layer's repair of it
    /// alone has left. Stops, and tells so, when `send` refuses one; that bin stays.
    pub fn expire(
        &mut self,
        layer: usize,
        before: u64,
        went_alone: impl Fn(u64) -> bool,
        mut send: impl FnMut(Repair<'_>) -> bool,
    ) -> bool {
        let rate = self.parameters.rate();
        let Some(bins) = self.layers.get_mut(layer) else { return true };
        for bin in bins.iter_mut().filter(|bin| !bin.recipe.is_empty() && bin.first < before) {
            let repeats = bin.recipe.len() == 1 && went_alone(bin.first);
            if !repeats && !send(bin.repair(layer as u8)) {
                return false;
            }
            bin.clear(rate);
        }
        true
    }

    /// Sends all that the bins of the lowest layer hold, full or not: nothing may follow for a
    /// while that would fill them, and what was sent last is not to wait for it.
    pub fn flush(&mut self, mut send: impl FnMut(Repair<'_>)) {
        let before = self.packets;
        self.expire(
            0,
            before,
            |_| false,
            |repair| {
                send(repair);
                true
            },
        );
    }
}
