//! Whole objects: source blocks, sub-blocks and padding (RFC 6330 §4.4).

use std::sync::Arc;

use wellspring_kernels::Kernels;

use super::block::BlockShape;
use super::code::Code;
use super::encoder::BlockEncoder;
use super::information::{ObjectTransmissionInformation, PayloadId, SourceBlock};
use super::reception::{Added, Reception};
use super::recovery::{Decoded, Recovery};
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

/// The codes for the one or two block sizes of an object, made when they are asked for.
#[derive(Debug, Default)]
struct Codes(Vec<Arc<Code>>);

impl Codes {
    fn of(&mut self, k: u32) -> Result<Arc<Code>, Error> {
        if let Some(code) = self.0.iter().find(|code| code.serves(k)) {
            return Ok(code.clone());
        }
        let code = Code::new(k)?;
        self.0.push(code.clone());
        Ok(code)
    }

    fn memory(&self) -> usize {
        self.0.iter().map(|code| code.memory()).sum()
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
        let (codes, current, encoder, symbols) = (Codes::default(), None, None, Vec::new());
        Ok(Self { information, object, codes, current, encoder, symbols })
    }

    /// Writes the encoding symbol `id` into `symbol`.
    ///
    /// # Errors
    ///
    /// [`Error::SourceBlockNumber`] if there is no such block, [`Error::SymbolLength`] if `symbol`
    /// is not as long as the symbol size, [`Error::EmptyObject`] if there are no symbols.
    pub fn encode(&mut self, id: PayloadId, symbol: &mut [u8]) -> Result<(), Error> {
        let SourceBlock { offset, len, symbols: k } = self.information.block(id.source_block())?;
        let t = usize::from(self.information.symbol_size());
        let start = usize::try_from(offset).expect("within the object");
        let block = &self.object[start..start + usize::try_from(len).expect("within the object")];
        let interleaved = self.information.sub_blocks() > 1;
        if k == 0 {
            return Err(Error::EmptyObject);
        }
        if self.current != Some(id.source_block()) {
            let code = self.codes.of(k)?;
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
    Active(Box<ActiveBlock>),
    /// The block's part of the object.
    Done(Vec<u8>),
    Taken,
}

/// A block of which some symbols are there.
#[derive(Debug)]
struct ActiveBlock {
    symbols: Vec<u8>,
    reception: Reception,
}

impl ActiveBlock {
    fn new(code: Arc<Code>, block: &SourceBlock, t: usize) -> Result<Self, Error> {
        let reception = Reception::new(BlockShape::new(code, block.symbols, t)?);
        Ok(Self { symbols: vec![0; block.symbols as usize * t], reception })
    }

    /// What a block takes before it has a repair symbol.
    fn least_memory(block: &SourceBlock, t: usize) -> u64 {
        let bits = u64::from(block.symbols.div_ceil(64)) * 8;
        size_of::<Self>() as u64 + u64::from(block.symbols) * t as u64 + bits
    }

    fn memory(&self) -> u64 {
        (size_of::<Self>() + self.symbols.capacity() + self.reception.memory()) as u64
    }

    /// Repair symbols to reserve memory for once `esi` has arrived, and the additional memory; `None` if
    /// there is enough. It grows by an eighth: what is reserved for symbols that
    /// may not come is counted too.
    fn growth(&self, esi: u32) -> Option<(usize, u64)> {
        let reception = &self.reception;
        let (capacity, repairs) = (reception.repair_capacity(), reception.repairs());
        let is_repair = esi >= reception.shape.k && repairs < reception.max_repairs();
        if !is_repair || (repairs as usize) < capacity {
            return None;
        }
        let capacity = (capacity + capacity / 8 + 1).min(reception.max_repairs() as usize);
        Some((capacity, (reception.memory_with(capacity) - reception.memory()) as u64))
    }
}

/// Recovers an object from any mix of its encoding symbols, in bounded memory.
///
/// A caller who writes the object elsewhere takes each block as it is completed
/// ([`take_block`](Self::take_block)), and memory is then needed for unfinished blocks only.
///
/// # Memory
///
/// Each block holds its symbols and which they are, and the caller bounds that for all blocks
/// together. Beside that there is what solutions are worked out in, once for all blocks, and one or
/// two [`Code`]s ([`working_memory`](Self::working_memory)). Its size follows from K, however many
/// blocks there are and however long symbols are: with symbols as they come by chance at most 0.7 MB
/// for K = 100, 3 MB for K = 1,000, 16 MB for K = 10,000 and 100 MB for K = 56,403, with symbols chosen
/// with ill intent up to 6 MB for K = 1,000, 45 MB for K = 10,000 and 170 MB for K = 56,403.
#[derive(Debug)]
pub struct ObjectDecoder {
    information: ObjectTransmissionInformation,
    codes: Codes,
    blocks: Vec<BlockState>,
    recovery: Recovery,
    /// The block of the last attempt.
    tried: Option<u8>,
    max_memory: u64,
    /// Bytes that blocks hold, bounded by `max_memory`.
    memory: u64,
}

impl ObjectDecoder {
    /// A decoder whose blocks hold at most `max_memory` bytes together. Nothing is allocated for a
    /// block or a code until its first symbol arrives.
    ///
    /// # Errors
    ///
    /// None at present beyond those `information` was checked for.
    pub fn new(information: ObjectTransmissionInformation, max_memory: u64) -> Result<Self, Error> {
        let mut blocks = Vec::new();
        blocks.resize_with(usize::from(information.source_blocks()), || BlockState::Untouched);
        if information.transfer_length() == 0 {
            blocks[0] = BlockState::Done(Vec::new());
        }
        let recovery = Recovery::new(Kernels::detect());
        let codes = Codes::default();
        Ok(Self { information, codes, blocks, recovery, tried: None, max_memory, memory: 0 })
    }

    /// What the object was said to be.
    #[must_use]
    pub fn information(&self) -> &ObjectTransmissionInformation {
        &self.information
    }

    /// Bytes that blocks hold now: the object's own, repair symbols and memory reserved for some more, and which
    /// symbols there are.
    #[must_use]
    pub fn memory(&self) -> u64 {
        self.memory
    }

    /// Bytes held beside that: what solutions are worked out in, the codes, and a table of the blocks.
    #[must_use]
    pub fn working_memory(&self) -> u64 {
        let table = self.blocks.capacity() * size_of::<BlockState>();
        (self.recovery.memory() + self.codes.memory() + table) as u64
    }

    /// Takes one encoding symbol, and decodes its block if that is possible now.
    ///
    /// # Errors
    ///
    /// [`Error::SourceBlockNumber`] if there is no such block, [`Error::SymbolLength`] if `symbol`
    /// is not as long as the symbol size, [`Error::Memory`] if storing it would exceed the bound;
    /// nothing has changed then.
    pub fn add(&mut self, id: PayloadId, symbol: &[u8]) -> Result<Added, Error> {
        let (sbn, esi) = (id.source_block(), id.encoding_symbol());
        let block = self.information.block(sbn)?;
        let t = usize::from(self.information.symbol_size());
        if symbol.len() != t {
            return Err(Error::SymbolLength { got: symbol.len(), expected: t });
        }
        match &self.blocks[usize::from(sbn)] {
            BlockState::Done(_) | BlockState::Taken => return Ok(Added::Duplicate),
            BlockState::Active(active) if active.reception.has(esi) => return Ok(Added::Duplicate),
            BlockState::Active(_) => {}
            BlockState::Untouched => self.begin(sbn, &block, t, esi)?,
        }
        let BlockState::Active(active) = &mut self.blocks[usize::from(sbn)] else {
            unreachable!("other states have been dealt with");
        };
        if let Some((capacity, growth)) = active.growth(esi) {
            let got = self.memory + growth;
            if got > self.max_memory {
                return Err(Error::Memory { got, limit: self.max_memory });
            }
            active.reception.reserve_repairs(capacity);
            self.memory = got;
        }
        let ActiveBlock { symbols, reception } = &mut **active;
        let added = reception.add(symbols, esi, symbol)?;
        if self.tried == Some(sbn) && added == Added::New {
            self.recovery.note(reception, esi);
        }
        if reception.wanted() == 0 {
            self.decode(sbn, &block)?;
        }
        Ok(added)
    }

    /// Begins a block, of which symbol `esi` has arrived.
    fn begin(&mut self, sbn: u8, block: &SourceBlock, t: usize, esi: u32) -> Result<(), Error> {
        let least = ActiveBlock::least_memory(block, t);
        // Where sub-blocks are put together, the block stands there twice for a moment.
        let twice = if self.information.sub_blocks() > 1 { block.len } else { 0 };
        let check = |memory: u64| {
            let got = self.memory + memory;
            let limit = self.max_memory;
            if got > limit { Err(Error::Memory { got, limit }) } else { Ok(()) }
        };
        check(least + twice)?;
        let code = self.codes.of(block.symbols)?;
        let active = ActiveBlock::new(code, block, t)?;
        let growth = active.growth(esi).map_or(0, |(_, growth)| growth);
        check(active.memory() + twice + growth)?;
        self.memory += active.memory() + twice;
        self.blocks[usize::from(sbn)] = BlockState::Active(Box::new(active));
        Ok(())
    }

    /// Tries to decode a block.
    fn decode(&mut self, sbn: u8, block: &SourceBlock) -> Result<(), Error> {
        let BlockState::Active(active) = &mut self.blocks[usize::from(sbn)] else {
            return Ok(());
        };
        if self.tried != Some(sbn) {
            self.recovery.forget();
            self.tried = Some(sbn);
        }
        let ActiveBlock { symbols, reception } = &mut **active;
        if self.recovery.try_decode(reception, symbols, |_| &[])? != Decoded::Complete {
            return Ok(());
        }
        let mut freed = active.memory();
        let mut done = core::mem::take(&mut active.symbols);
        let len = usize::try_from(block.len).expect("it stands in memory");
        if self.information.sub_blocks() > 1 {
            let mut part = vec![0; len];
            deinterleave(&self.information, &done, &mut part)?;
            done = part;
            freed += block.len;
        }
        done.truncate(len);
        done.shrink_to_fit();
        self.memory = self.memory - freed + done.capacity() as u64;
        self.blocks[usize::from(sbn)] = BlockState::Done(done);
        Ok(())
    }

    /// At least how many more symbols source block `sbn` needs before decoding is tried; zero once it is
    /// complete. See [`BlockDecoder::wanted`](super::BlockDecoder::wanted).
    ///
    /// # Errors
    ///
    /// [`Error::SourceBlockNumber`] if there is no such block.
    pub fn wanted(&self, sbn: u8) -> Result<u32, Error> {
        let block = self.information.block(sbn)?;
        Ok(match &self.blocks[usize::from(sbn)] {
            BlockState::Untouched => block.symbols,
            BlockState::Active(active) => active.reception.wanted(),
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
        self.memory -= bytes.capacity() as u64;
        Some(bytes)
    }

    /// The whole object, if every block is decoded and none was taken. Blocks are put together in
    /// memory of the object's length, beside their own if there are several.
    #[must_use]
    pub fn into_object(self) -> Option<Vec<u8>> {
        let len = usize::try_from(self.information.transfer_length()).ok()?;
        let mut object = Vec::new();
        if !self.is_complete() {
            return None;
        }
        for block in self.blocks {
            match block {
                BlockState::Done(bytes) if object.is_empty() => object = bytes,
                BlockState::Done(bytes) => {
                    object.reserve_exact(len - object.len());
                    object.extend_from_slice(&bytes);
                }
                _ => return None,
            }
        }
        Some(object)
    }
}
