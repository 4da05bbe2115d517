//! Layered interleaving (Maelstrom, NSDI 2008, §4.3): XORs of whole packets at several interleaves.
//!
//! A code of rate (r, c) with interleaves I = (i0, i1, ...) puts every packet into c XORs, one a
//! *layer*: the layer of interleave i spreads consecutive packets over i *repair bins*, and a bin
//! that holds r packets fires a repair packet, which is the XOR and its *recipe*, the names of the
//! packets in it. Layers of small interleave bring single losses back at once; layers of large
//! interleave bring back bursts, later. Layers help each other: a packet that one brings back may be
//! all that an XOR of another lacked.
//!
//! ```
//! use wellspring_codec::interleave::{Interleaver, Parameters, PacketName, Recoverer};
//!
//! let parameters = Parameters::new(8, &[1, 20, 40])?;
//! let mut sender = Interleaver::new(&parameters, 1_500)?;
//! let mut receiver = Recoverer::new(1_024, 1_024, 1_500)?;
//! let mut back = Vec::new();
//! for number in 0..100_u64 {
//!     let packet = vec![number as u8; 100 + number as usize];
//!     if number != 42 {
//!         receiver.on_packet(PacketName(number), &packet, |_, _, _| true)?;
//!     }
//!     sender.add(PacketName(number), &packet, |repair| {
//!         receiver.on_repair(&repair, |name, packet, _| {
//!             back.push((name, packet.to_vec()));
//!             true
//!         }).expect("repairs of this size");
//!     })?;
//! }
//! assert_eq!(back, [(PacketName(42), vec![42; 142])]);
//! # Ok::<(), wellspring_codec::interleave::InterleaveError>(())
//! ```
//!
//! A sliding-window code ([`SlidingSender`]) is beside them: its repairs are combinations over GF(256) of the newest
//! packets, and the [`Recoverer`] takes them too.
//!
//! Codes of blocks with interleave, which the paper compares to, stand behind the same traits
//! ([`StreamSender`], [`StreamReceiver`]): [`RaptorQBlocks`] and [`ReedSolomonBlocks`] are here, and any other is a
//! [`BlockCode`]. Reed-Solomon also has a sender of its own ([`ReedSolomonSender`]), which keeps no packets, and the
//! [`Recoverer`] takes its repairs.

mod account;
mod block;
mod block_code;
mod lacking;
mod parameters;
mod rateless;
mod receiver;
mod reed_solomon;
mod sender;
mod sliding;
mod store;
mod stream;
mod window;

pub use account::Account;
pub use block::{BlockReceiver, BlockSender};
pub use block_code::BlockCode;
pub use parameters::{
    InterleaveError, MAX_INTERLEAVE, MAX_LAYERS, MAX_RATE, MAX_WINDOW, Parameters,
};
pub use rateless::RaptorQBlocks;
pub use receiver::Recoverer;
pub use reed_solomon::{BlockParameters, ReedSolomonBlocks, ReedSolomonSender};
pub use sender::{Interleaver, Repair};
pub use sliding::{MAX_NAMES, SYMBOL_HEADER_LEN, SlidingParameters, SlidingSender};
pub use store::Remembered;
pub use stream::{Accept, StreamReceiver, StreamSender};

/// Names a packet within a receiver's memory: equal names must mean equal bytes. A hash of the
/// packet serves; it should be spread evenly.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct PacketName(pub u64);

#[cfg(test)]
mod block_tests;
#[cfg(test)]
mod mixed_tests;
#[cfg(test)]
mod reed_solomon_tests;
#[cfg(test)]
mod sliding_tests;
#[cfg(test)]
mod tests;
