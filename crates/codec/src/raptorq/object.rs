//! Whole objects: source blocks, sub-blocks and padding (RFC 6330 §4.4).

use std::sync::Arc;

use super::code::Code;
use super::decoder::{Added, BlockDecoder, Decoded};
use super::encoder::BlockEncoder;
use super::information::{ObjectTransmissionInformation, PayloadId, SourceBlock};
use crate::Error;

/// Puts the sub-blocks of a source block together into symbols (RFC 6330 §4.4.1.2).
///
/// `block` is the block's part of the object, `symbols` its K times T bytes. Without sub-blocks
/// this is a copy and padding.
///
/// # Errors
///
/// [`Error::BlockLength`] if `symbols` is not a whole number of symbols or `block` is longer.
pub fn interleave(
    information: &ObjectTransmissionInformation,
    block: &[u8],
    symbols: &mut [u8],
) -> Result<(), Error> {
    check_interleave(information, block.len(), symbols.len())?;
    for_each_sub_symbol(information, symbols.len(), |in_block, in_symbols, len| {
        let from = &block[in_block.min(block.len())..(in_block + len).min(block.len())];
        let (data, padding) = symbols[in_symbols..in_symbols + len].split_at_mut(from.len());
        data.copy_from_slice(from);
        padding.fill(0);
    });
    Ok(())
}

/// Takes the symbols of a source block apart into its part of the object: the reverse of
/// [`interleave`].
///
/// # Errors
///
/// [`Error::BlockLength`] if `symbols` is not a whole number of symbols or `block` is longer.
pub fn deinterleave(
    information: &ObjectTransmissionInformation,
    symbols: &[u8],
    block: &mut [u8],
) -> Result<(), Error> {
    check_interleave(information, block.len(), symbols.len())?;
    let len_of_block = block.len();
    for_each_sub_symbol(information, symbols.len(), |in_block, in_symbols, len| {
        let to = &mut block[in_block.min(len_of_block)..(in_block + len).min(len_of_block)];
        let from = &symbols[in_symbols..in_symbols + to.len()];
        to.copy_from_slice(from);
    });
    Ok(())
}

fn check_interleave(
    information: &ObjectTransmissionInformation,
    block: usize,
    symbols: usize,
) -> Result<(), Error> {
    let t = usize::from(information.symbol_size());
    if !symbols.is_multiple_of(t) || block > symbols {
        return Err(Error::BlockLength { got: block, expected: symbols / t * t });
    }
    Ok(())
}

/// Calls `f` with each sub-symbol's place in the block, its place in the symbols, and its length.
fn for_each_sub_symbol(
    information: &ObjectTransmissionInformation,
    len: usize,
    mut f: impl FnMut(usize, usize, usize),
) {
    let t = usize::from(information.symbol_size());
    let k = len / t;
    let (mut in_block, mut column) = (0, 0);
    for (count, size) in information.sub_symbols() {
        for _ in 0..count {
            for symbol in 0..k {
                f(in_block, symbol * t + column, size);
                in_block += size;
            }
            column += size;
        }
    }
}

/// The codes for the one or two block sizes of an object.
#[derive(Debug)]
struct Codes(Vec<Arc<Code>>);

impl Codes {
    fn new(information: &ObjectTransmissionInformation) -> Result<Self, Error> {
        let mut codes: Vec<Arc<Code>> = Vec::new();
        for sbn in [0, information.source_blocks() - 1] {
            let k = information.block(sbn)?.symbols;
            if k > 0 && !codes.iter().any(|code| code.serves(k)) {
                codes.push(Code::new(k)?);
            }
        }
        Ok(Self(codes))
    }

    fn of(&self, k: u32) -> Arc<Code> {
        let code = self.0.iter().find(|code| code.serves(k));
        code.expect("first and last block have the only two sizes").clone()
    }
}

/// Makes the encoding symbols of an object in the caller's memory.
///
/// One block at a time is prepared for repair symbols: ask for a block's symbols together.
///
/// # Examples
///
/// ```
/// use wellspring_codec::raptorq::{
///     ObjectDecoder, ObjectEncoder, ObjectTransmissionInformation, PayloadId,
/// };
/// # fn main() -> Result<(), wellspring_codec::Error> {
/// let object = vec![7; 100_000];
/// // F, T, Z, N and Al of RFC 6330: two blocks of 40 symbols of 1,250 bytes.
/// let information = ObjectTransmissionInformation::new(100_000, 1250, 2, 1, 1)?;
/// let mut encoder = ObjectEncoder::new(information, &object)?;
/// let mut decoder = ObjectDecoder::new(information, 1 << 20)?;
/// let mut symbol = vec![0; 1250];
/// for sbn in 0..2 {
///     for esi in 20.. {
///         let id = PayloadId::new(sbn, esi)?;
///         encoder.encode(id, &mut symbol)?;
///         decoder.add(id, &symbol)?;
///         if decoder.wanted(sbn)? == 0 {
///             break;
///         }
///     }
/// }
/// assert_eq!(decoder.into_object(), Some(object));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ObjectEncoder<'a> {
    information: ObjectTransmissionInformation,
    object: &'a [u8],
    codes: Codes,
    /// The block the encoder is prepared for.
    current: Option<u8>,
    encoder: Option<BlockEncoder>,
    /// The current block's symbols, where they are not contiguous in the object.
    symbols: Vec<u8>,
}

impl<'a> ObjectEncoder<'a> {
    /// An encoder for `object`.
    ///
    /// # Errors
    ///
    /// [`Error::TransferLength`] if the object has not the length `information` says.
    pub fn new(
        information: ObjectTransmissionInformation,
        object: &'a [u8],
    ) -> Result<Self, Error> {
        if object.len() as u64 != information.transfer_length() {
            let (got, limit) = (object.len() as u64, information.transfer_length());
            return Err(Error::TransferLength { got, limit });
        }
        let codes = Codes::new(&information)?;
        let (current, encoder, symbols) = (None, None, Vec::new());
        Ok(Self { information, object, codes, current, encoder, symbols })
    }

    /// Writes the encoding symbol `id` into `symbol`.
    ///
    /// # Errors
    ///
    /// [`Error::SourceBlockNumber`] if there is no such block, [`Error::SymbolLength`] if `symbol`
    /// is not as long as the symbol size, [`Error::SourceSymbols`] if the object is empty.
    pub fn encode(&mut self, id: PayloadId, symbol: &mut [u8]) -> Result<(), Error> {
        let SourceBlock { offset, len, symbols: k } = self.information.block(id.source_block())?;
        let t = usize::from(self.information.symbol_size());
        let start = usize::try_from(offset).expect("within the object");
        let block = &self.object[start..start + usize::try_from(len).expect("within the object")];
        let interleaved = self.information.sub_blocks() > 1;
        if k == 0 {
            return Err(Error::SourceSymbols { got: 0, limit: 0 });
        }
        if self.current != Some(id.source_block()) {
            let code = self.codes.of(k);
            match &mut self.encoder {
                Some(encoder) => encoder.reset(code, k, t)?,
                None => self.encoder = Some(BlockEncoder::new(code, k, t)?),
            }
            if interleaved {
                self.symbols.resize(k as usize * t, 0);
                interleave(&self.information, block, &mut self.symbols)?;
            }
            self.current = Some(id.source_block());
        }
        let encoder = self.encoder.as_mut().expect("made when the block was chosen");
        let source = if interleaved { &self.symbols } else { block };
        encoder.encode(source, id.encoding_symbol(), symbol)
    }
}

/// What a block of an [`ObjectDecoder`] holds.
#[derive(Debug)]
enum BlockState {
    Untouched,
    Active {
        symbols: Vec<u8>,
        decoder: Box<BlockDecoder>,
    },
    /// The block's part of the object.
    Done(Vec<u8>),
    Taken,
}

/// Recovers an object from any mix of its encoding symbols, in bounded memory.
///
/// A caller who writes the object elsewhere takes each block as it is completed
/// ([`take_block`](Self::take_block)), and memory is then needed for unfinished blocks only.
#[derive(Debug)]
pub struct ObjectDecoder {
    information: ObjectTransmissionInformation,
    codes: Codes,
    blocks: Vec<BlockState>,
    max_memory: u64,
    /// Bytes of symbols held, bounded by `max_memory`.
    memory: u64,
}

impl ObjectDecoder {
    /// A decoder that holds at most `max_memory` bytes of symbols. Nothing is allocated for a block
    /// until its first symbol arrives.
    ///
    /// # Errors
    ///
    /// None at present beyond those `information` was checked for.
    pub fn new(information: ObjectTransmissionInformation, max_memory: u64) -> Result<Self, Error> {
        let codes = Codes::new(&information)?;
        let mut blocks = Vec::new();
        blocks.resize_with(usize::from(information.source_blocks()), || BlockState::Untouched);
        if information.transfer_length() == 0 {
            blocks[0] = BlockState::Done(Vec::new());
        }
        Ok(Self { information, codes, blocks, max_memory, memory: 0 })
    }

    /// What the object was said to be.
    #[must_use]
    pub fn information(&self) -> &ObjectTransmissionInformation {
        &self.information
    }

    /// Bytes of symbols held now.
    #[must_use]
    pub fn memory(&self) -> u64 {
        self.memory
    }

    /// Takes one encoding symbol, and decodes its block if that is possible now.
    ///
    /// # Errors
    ///
    /// [`Error::SourceBlockNumber`] if there is no such block, [`Error::SymbolLength`] if `symbol`
    /// is not as long as the symbol size, [`Error::Memory`] if storing it would exceed the bound;
    /// nothing has changed then.
    pub fn add(&mut self, id: PayloadId, symbol: &[u8]) -> Result<Added, Error> {
        let sbn = id.source_block();
        let block = self.information.block(sbn)?;
        let t = usize::from(self.information.symbol_size());
        if symbol.len() != t {
            return Err(Error::SymbolLength { got: symbol.len(), expected: t });
        }
        let stored = t.next_multiple_of(64) as u64;
        let whole = u64::from(block.symbols) * t as u64;
        let state = &mut self.blocks[usize::from(sbn)];
        let needed = match state {
            BlockState::Done(_) | BlockState::Taken => return Ok(Added::Duplicate),
            BlockState::Untouched => whole + stored,
            BlockState::Active { decoder, .. } if decoder.has(id.encoding_symbol()) => {
                return Ok(Added::Duplicate);
            }
            BlockState::Active { .. } => stored,
        };
        if self.memory + needed > self.max_memory {
            return Err(Error::Memory { got: self.memory + needed, limit: self.max_memory });
        }
        if matches!(state, BlockState::Untouched) {
            let code = self.codes.of(block.symbols);
            let decoder = Box::new(BlockDecoder::new(code, block.symbols, t)?);
            let symbols = vec![0; usize::try_from(whole).expect("below the memory bound")];
            *state = BlockState::Active { symbols, decoder };
            self.memory += whole;
        }
        let BlockState::Active { symbols, decoder } = state else {
            unreachable!("other states have been dealt with");
        };
        let added = decoder.add(symbols, id.encoding_symbol(), symbol)?;
        if added == Added::New && id.encoding_symbol() >= block.symbols {
            self.memory += stored;
        }
        if decoder.try_decode(symbols)? == Decoded::Complete {
            let repairs = u64::from(decoder.repairs()) * stored;
            let mut done = core::mem::take(symbols);
            let len = usize::try_from(block.len).expect("below the memory bound");
            if self.information.sub_blocks() > 1 {
                let mut part = vec![0; len];
                deinterleave(&self.information, &done, &mut part)?;
                done = part;
            }
            done.truncate(len);
            self.memory -= repairs + whole - len as u64;
            *state = BlockState::Done(done);
        }
        Ok(added)
    }

    /// At least how many more symbols source block `sbn` needs; zero once it is complete.
    ///
    /// # Errors
    ///
    /// [`Error::SourceBlockNumber`] if there is no such block.
    pub fn wanted(&self, sbn: u8) -> Result<u32, Error> {
        let block = self.information.block(sbn)?;
        Ok(match &self.blocks[usize::from(sbn)] {
            BlockState::Untouched => block.symbols,
            BlockState::Active { decoder, .. } => decoder.wanted(),
            BlockState::Done(_) | BlockState::Taken => 0,
        })
    }

    /// Whether every block has been decoded.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.blocks.iter().all(|b| matches!(b, BlockState::Done(_) | BlockState::Taken))
    }

    /// Hands over source block `sbn` once it is decoded: the object's bytes from
    /// [`SourceBlock::offset`] on. Each block is handed over once.
    pub fn take_block(&mut self, sbn: u8) -> Option<Vec<u8>> {
        let state = self.blocks.get_mut(usize::from(sbn))?;
        if !matches!(state, BlockState::Done(_)) {
            return None;
        }
        let BlockState::Done(bytes) = core::mem::replace(state, BlockState::Taken) else {
            return None;
        };
        self.memory -= bytes.len() as u64;
        Some(bytes)
    }

    /// The whole object, if every block is decoded and none was taken.
    #[must_use]
    pub fn into_object(self) -> Option<Vec<u8>> {
        let mut object = Vec::new();
        for block in self.blocks {
            match block {
                BlockState::Done(bytes) if object.is_empty() => object = bytes,
                BlockState::Done(bytes) => object.extend_from_slice(&bytes),
                _ => return None,
            }
        }
        Some(object)
    }
}
