//! The code's rate and interleaves.

use core::fmt;

/// Memory of a receiver, at most \[bytes\]: 4 GiB, or what one allocation can have where `usize` has
/// 32 bits.
pub(super) const MAX_MEMORY: usize = {
    let limit = 4_u64 << 30;
    if limit > isize::MAX as u64 { isize::MAX as usize } else { limit as usize }
};

/// Most packets in an XOR, r.
pub const MAX_RATE: u8 = 32;
/// Most layers, c.
pub const MAX_LAYERS: usize = 8;
/// Largest interleave \[packets\].
pub const MAX_INTERLEAVE: u16 = 4_096;
/// Largest sliding window \[packets\].
pub const MAX_WINDOW: u16 = 512;

/// Rate (r, c), interleaves, and the options of Maelstrom §4.3.1.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parameters {
    rate: u8,
    interleaves: Vec<u16>,
    /// Bins of a layer first fire at staggered sizes, so that from then on one repair packet a
    /// layer leaves for every r packets, instead of i at once. On by default.
    pub staggered: bool,
    /// A repair packet waits until its bin is used again, i packets later, so that no burst
    /// shorter than i swallows it with the last packet in it. Slower, and recovers more; off by
    /// default, as in the paper.
    pub delayed: bool,
}

impl Parameters {
    /// XORs of `rate` packets, r, in layers of these interleaves, c of them.
    ///
    /// # Errors
    /// r is not 1 to [`MAX_RATE`], there are no or more than [`MAX_LAYERS`] layers, or an interleave
    /// is not 1 to [`MAX_INTERLEAVE`].
    pub fn new(rate: u8, interleaves: &[u16]) -> Result<Self, InterleaveError> {
        if !(1..=MAX_RATE).contains(&rate) {
            return Err(InterleaveError::Rate(rate));
        }
        if !(1..=MAX_LAYERS).contains(&interleaves.len()) {
            return Err(InterleaveError::Layers(interleaves.len()));
        }
        if let Some(&bad) = interleaves.iter().find(|i| !(1..=MAX_INTERLEAVE).contains(*i)) {
            return Err(InterleaveError::Interleave(bad));
        }
        Ok(Parameters { rate, interleaves: interleaves.to_vec(), staggered: true, delayed: false })
    }

    /// Packets in an XOR, r.
    pub fn rate(&self) -> u8 {
        self.rate
    }

    /// The layers' interleaves, I.
    pub fn interleaves(&self) -> &[u16] {
        &self.interleaves
    }

    /// Repair packets sent for each packet, c / r.
    pub fn overhead(&self) -> f64 {
        self.interleaves.len() as f64 / f64::from(self.rate)
    }

    /// How many packets a packet may have to wait in the receiver's memory for the last XOR it is
    /// in: r times the largest interleave, and once more with delayed XORs.
    pub fn reach(&self) -> usize {
        let largest = self.interleaves.iter().copied().max().unwrap_or(1);
        usize::from(largest) * (usize::from(self.rate) + usize::from(self.delayed))
    }

    /// Whether two layers' XORs can have more than one packet in common, which makes one of them
    /// worth less: unless the least common multiple of their interleaves is greater than r times
    /// the smaller one (§4.4).
    pub fn layers_overlap(&self) -> bool {
        let rate = u32::from(self.rate);
        self.interleaves.iter().enumerate().any(|(n, &a)| {
            self.interleaves[..n].iter().any(|&b| {
                let (a, b) = (u32::from(a), u32::from(b));
                a / gcd(a, b) * b <= rate * a.min(b) && rate > 1
            })
        })
    }

    /// The size at which bin `x` (from 0) of a layer fires for the first time (§4.3.1).
    pub(super) fn first_size(&self, interleave: u16, x: u16) -> u8 {
        let (rate, interleave, x) = (u32::from(self.rate), u32::from(interleave), u32::from(x) + 1);
        let size = if interleave >= rate { x % rate } else { (x % rate) * rate / interleave };
        let size = if size == 0 || !self.staggered { rate } else { size.min(rate) };
        size as u8
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// What cannot be coded. Nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum InterleaveError {
    /// r is not 1 to [`MAX_RATE`].
    Rate(u8),
    /// c is not 1 to [`MAX_LAYERS`].
    Layers(usize),
    /// An interleave is not 1 to [`MAX_INTERLEAVE`].
    Interleave(u16),
    /// A sliding window is not 1 to [`MAX_WINDOW`] packets.
    Window(u16),
    /// A receiver that remembers no packets or no repairs, or packets of no length, or more of
    /// either than 4 GiB.
    Memory,
    /// A packet, or the XOR of a repair, is longer than was agreed.
    TooLong {
        /// Its length \[bytes\].
        got: usize,
        /// The longest allowed \[bytes\].
        limit: usize,
    },
    /// A repair of no packets, or of more than [`MAX_RATE`].
    Recipe(usize),
}

impl fmt::Display for InterleaveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InterleaveError::Rate(r) => write!(f, "rate r = {r} is not 1 to {MAX_RATE}"),
            InterleaveError::Layers(c) => write!(f, "{c} layers: there must be 1 to {MAX_LAYERS}"),
            InterleaveError::Interleave(i) => {
                write!(f, "interleave {i} is not 1 to {MAX_INTERLEAVE}")
            }
            InterleaveError::Window(n) => {
                write!(f, "a window of {n} packets is not 1 to {MAX_WINDOW}")
            }
            InterleaveError::Memory => {
                f.write_str("a receiver must remember some packets and repairs, in at most 4 GiB")
            }
            InterleaveError::TooLong { got, limit } => {
                write!(f, "{got} bytes where at most {limit} were agreed on")
            }
            InterleaveError::Recipe(n) => {
                write!(f, "a repair of {n} packets: there must be 1 to {MAX_RATE}")
            }
        }
    }
}

impl std::error::Error for InterleaveError {}
