//! Send side of the sliding-window code: random linear combinations of the newest packets (RFC 8681, RFC 9407).
//!
//! Every repair is a combination over GF(256) of all packets of a window, the newest packets: k repairs bring back any
//! k of them, whichever they are, alone or in a burst. An XOR of a layer serves one loss only. A repair does not list
//! the window's packets, but numbers them, and names the newest ones: names repeat in several repairs, so that a
//! receiver can number what has arrived although repairs are lost too.
//!
//! In a [`Repair`] of this code `layer` is the seed of its factors, `first` the number of the window's oldest packet,
//! `length` how many packets the window has, and `recipe` the names of its newest packets.

use wellspring_kernels::{AlignedBuffer, Kernels};

use super::{InterleaveError, MAX_WINDOW, PacketName, Repair};

/// Most packets that a repair names.
pub const MAX_NAMES: u8 = 24;
/// What a combination has before the packets' bytes: their lengths (2) and names (8), combined as well \[bytes\].
pub const SYMBOL_HEADER_LEN: usize = 10;

/// How many repairs there are, and of how many packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlidingParameters {
    rate: u8,
    window: u16,
    names: u8,
}

impl SlidingParameters {
    /// A repair for every `rate` packets, of the newest `window` packets, that names `names` of them.
    ///
    /// # Errors
    /// There is no repair for 1 to 255 packets, the window has not 1 to [`MAX_WINDOW`] packets, or a repair does not
    /// name 1 to [`MAX_NAMES`].
    pub fn new(rate: u8, window: u16, names: u8) -> Result<Self, InterleaveError> {
        if rate == 0 {
            return Err(InterleaveError::Rate(rate));
        }
        if !(1..=MAX_WINDOW).contains(&window) {
            return Err(InterleaveError::Window(window));
        }
        if !(1..=MAX_NAMES).contains(&names) {
            return Err(InterleaveError::Recipe(usize::from(names)));
        }
        Ok(SlidingParameters { rate, window, names })
    }

    /// Packets for each repair.
    pub fn rate(&self) -> u8 {
        self.rate
    }

    /// Packets in the window.
    pub fn window(&self) -> u16 {
        self.window
    }

    /// Repairs for each packet.
    pub fn overhead(&self) -> f64 {
        1.0 / f64::from(self.rate)
    }
}

/// The factor of a window's packet in a repair: never zero.
pub(super) fn factor(seed: u8, place: u32) -> u8 {
    let mut mixed = (place << 8 | u32::from(seed)).wrapping_add(1).wrapping_mul(0x9e37_79b1);
    mixed = (mixed ^ mixed >> 15).wrapping_mul(0x85eb_ca77);
    mixed = (mixed ^ mixed >> 13).wrapping_mul(0xc2b2_ae3d);
    ((mixed >> 16) % 255) as u8 + 1
}

/// What is combined of a packet beside its bytes.
pub(super) fn symbol_header(name: PacketName, packet: &[u8]) -> [u8; SYMBOL_HEADER_LEN] {
    let mut header = [0; SYMBOL_HEADER_LEN];
    header[..2].copy_from_slice(&(packet.len() as u16).to_be_bytes());
    header[2..].copy_from_slice(&name.0.to_be_bytes());
    header
}

/// The send side of a sliding-window code.
#[derive(Debug)]
pub struct SlidingSender {
    parameters: SlidingParameters,
    kernel: Kernels,
    longest: usize,
    /// The newest packets with their headers, by number modulo the largest window, each padded with zeros.
    rows: AlignedBuffer,
    stride: usize,
    /// How much of each row is no padding \[bytes\].
    used: Vec<usize>,
    names: Vec<PacketName>,
    packets: u64,
    /// The oldest packet of the window.
    oldest: u64,
    /// Packets since a repair was made because of their number.
    since: u8,
    seed: u8,
    symbol: AlignedBuffer,
    factors: Vec<u8>,
    recipe: Vec<PacketName>,
}

impl SlidingSender {
    /// A sender of packets of at most `longest` bytes. It takes about [`MAX_WINDOW`] times `longest` bytes.
    ///
    /// # Errors
    /// `longest` is zero, or more than 65,535.
    pub fn new(parameters: &SlidingParameters, longest: usize) -> Result<Self, InterleaveError> {
        if longest == 0 {
            return Err(InterleaveError::Memory);
        }
        if longest > usize::from(u16::MAX) {
            return Err(InterleaveError::TooLong { got: longest, limit: usize::from(u16::MAX) });
        }
        let window = usize::from(MAX_WINDOW);
        let stride = (longest + SYMBOL_HEADER_LEN).next_multiple_of(64);
        let (mut rows, mut symbol) = (AlignedBuffer::default(), AlignedBuffer::default());
        rows.resize(window * stride);
        symbol.resize(stride);
        Ok(SlidingSender {
            parameters: *parameters,
            kernel: Kernels::detect(),
            longest,
            rows,
            stride,
            used: vec![0; window],
            names: vec![PacketName::default(); window],
            packets: 0,
            oldest: 0,
            since: 0,
            seed: 0,
            symbol,
            factors: Vec::with_capacity(window),
            recipe: Vec::with_capacity(usize::from(MAX_NAMES)),
        })
    }

    /// What it was made with.
    pub fn parameters(&self) -> &SlidingParameters {
        &self.parameters
    }

    /// Goes over to other parameters; packets of the window stay as far as the new one holds them.
    pub fn set(&mut self, parameters: &SlidingParameters) {
        self.parameters = *parameters;
        self.forget(self.packets.saturating_sub(u64::from(parameters.window)));
    }

    /// Packets taken so far: the number of the next one.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Takes a packet on its way; calls `send` with the repair that is to follow it, if one is. Whether there was one.
    ///
    /// # Errors
    /// The packet is longer than was agreed.
    pub fn add(
        &mut self,
        name: PacketName,
        packet: &[u8],
        send: impl FnMut(Repair<'_>),
    ) -> Result<bool, InterleaveError> {
        if packet.len() > self.longest {
            return Err(InterleaveError::TooLong { got: packet.len(), limit: self.longest });
        }
        let place = self.place(self.packets);
        let row = &mut self.rows[place * self.stride..][..self.stride];
        let len = SYMBOL_HEADER_LEN + packet.len();
        row[..SYMBOL_HEADER_LEN].copy_from_slice(&symbol_header(name, packet));
        row[SYMBOL_HEADER_LEN..len].copy_from_slice(packet);
        let before = std::mem::replace(&mut self.used[place], len);
        if before > len {
            row[len..before].fill(0);
        }
        self.names[place] = name;
        self.packets += 1;
        self.forget(self.packets.saturating_sub(u64::from(self.parameters.window)));
        self.since += 1;
        let due = self.since >= self.parameters.rate;
        if due {
            self.since = 0;
            self.repair(send);
        }
        Ok(due)
    }

    /// Packets before that number are in no further repair.
    pub fn forget(&mut self, before: u64) {
        self.oldest = self.oldest.max(before.min(self.packets));
    }

    /// Makes a repair of the window as it is, unless it is empty. Whether there was one.
    pub fn repair(&mut self, mut send: impl FnMut(Repair<'_>)) -> bool {
        let count = (self.packets - self.oldest) as usize;
        if count == 0 {
            return false;
        }
        self.seed = self.seed.wrapping_add(1);
        self.factors.clear();
        self.factors.extend((0..count as u32).map(|place| factor(self.seed, place)));
        let first = self.place(self.oldest);
        // The window is at most two runs of rows.
        let run = count.min(self.used.len() - first);
        let longest = |from: usize, count: usize| self.used[from..from + count].iter().max();
        let len = longest(first, run).max(longest(0, count - run)).copied().unwrap_or(0);
        let symbol = &mut self.symbol[..len];
        symbol.fill(0);
        let (head, tail) = self.factors.split_at(run);
        self.kernel.combine(symbol, &self.rows[first * self.stride..], self.stride, head);
        self.kernel.combine(symbol, &self.rows, self.stride, tail);
        self.recipe.clear();
        let named = count.min(usize::from(self.parameters.names)) as u64;
        for number in self.packets - named..self.packets {
            self.recipe.push(self.names[(number % self.names.len() as u64) as usize]);
        }
        send(Repair {
            layer: self.seed,
            first: self.oldest,
            recipe: &self.recipe,
            length: count as u16,
            xor: &self.symbol[..len],
        });
        true
    }

    fn place(&self, number: u64) -> usize {
        (number % self.used.len() as u64) as usize
    }
}
