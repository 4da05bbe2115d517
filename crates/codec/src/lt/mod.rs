//! LT codes as LTTP has them (*LTTP: an LT-code based transport protocol for many-to-one
//! communication in data centers*, 2014, §III-C).
//!
//! An encoding symbol is the XOR of some of a block's k source symbols, its *neighbours*; how many
//! is drawn from the robust soliton distribution, which ones evenly. There is no end to encoding
//! symbols, and no order among them: a receiver waits for somewhat more than k.
//!
//! - [`RobustSoliton`]: the distribution, from k, c and delta.
//! - [`Code`]: which neighbours the symbol of an ID has, the same on every machine.
//! - [`Encoder`]: any symbol of a block in the caller's memory.
//! - [`write_description`] and [`read_description`]: degree and indices in a packet. LTTP's packets
//!   carry them, so a receiver needs k alone; where both ends have the [`Code`], a 4-byte ID does
//!   the same.
//! - [`Decoder`]: the block back, by one of four [`Method`]s.
//! - [`OverheadStudy`]: how many symbols a method needs, without any bytes.
//!
//! The paper's improved decoder is belief propagation; its standard one forgets to take out of a
//! symbol what is known before it comes. Neither eliminates. [`Method::Elimination`] does, and
//! needs far fewer symbols.
//!
//! ```
//! use std::sync::Arc;
//! use wellspring_codec::lt::{
//!     Code, Decoder, Encoder, Method, RobustSoliton, read_description, write_description,
//! };
//!
//! let source = vec![42; 100 * 1_024];
//! let code = Code::new(RobustSoliton::new(100, 0.2, 0.7)?, 2014);
//! let mut encoder = Encoder::new(Arc::new(code), 1_024)?;
//! let mut decoder = Decoder::new(100, 1_024, Method::Elimination)?;
//!
//! let (mut neighbours, mut symbol) = (Vec::new(), vec![0; 1_024]);
//! for id in (0..).filter(|id| id % 3 != 0) { // a third of the packets is lost
//!     let mut packet = Vec::new();
//!     write_description(100, encoder.encode(&source, id, &mut symbol)?, &mut packet)?;
//!     packet.extend_from_slice(&symbol);
//!
//!     let symbol = read_description(100, &packet, &mut neighbours)?;
//!     decoder.add(&neighbours, symbol)?;
//!     if decoder.is_complete() {
//!         break;
//!     }
//! }
//! let mut block = vec![0; source.len()];
//! decoder.try_decode(&mut block)?;
//! assert_eq!(block, source);
//! # Ok::<(), wellspring_codec::lt::LtError>(())
//! ```

mod code;
mod decoder;
mod description;
mod distribution;
mod encoder;
mod error;
mod inactivation;
mod peeling;
mod random;
mod rows;
mod structure;
mod study;

pub use code::Code;
pub use decoder::{Decoded, Decoder};
pub use description::{description_len, read_description, write_description};
pub use distribution::{MAX_CONSTANT, MAX_SOURCE_SYMBOLS, RobustSoliton};
pub use encoder::{Encoder, MAX_SYMBOL_SIZE};
pub use error::LtError;
pub use structure::{Added, Method};
pub use study::{Needed, OverheadStudy};
