//! Index of an object's packets by source block and symbol.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use wellspring_codec::raptorq::{ObjectTransmissionInformation, PayloadId};
use wellspring_console::bar;
use wellspring_console::exit::Failed;

use super::input::{codec_error, read_error};
use crate::exit;

const HEADER: u64 = ObjectTransmissionInformation::LEN as u64;

/// Repair symbols kept of a block beyond its K: each makes it about a hundred times less likely that
/// they do not determine the block.
pub(super) const EXTRA: u32 = 64;

/// What a repair symbol takes in the index, with the tree around it \[bytes\].
const REPAIR_ENTRY: u64 = 32;

/// No packet holds this source symbol.
const ABSENT: u32 = u32::MAX;

/// The packets of an object, one for each encoding symbol.
pub(super) struct Index {
    /// The object's file, for messages.
    path: PathBuf,
    pub(super) information: ObjectTransmissionInformation,
    pub(super) blocks: Vec<BlockPackets>,
    /// Packets of blocks that do not exist.
    pub(super) foreign: u64,
    /// Bytes after the last whole packet.
    pub(super) rest: u64,
    /// What the index takes, at most \[bytes\].
    pub(super) memory: u64,
    /// The source block and the encoding symbol of the first packet that repeats a symbol with
    /// other bytes.
    pub(super) contradiction: Option<(u8, u32)>,
}

/// The packets of a source block.
#[derive(Clone, Debug, Default)]
pub(super) struct BlockPackets {
    /// K.
    pub(super) symbols: u32,
    /// For each source symbol the number of its packet; empty before the first.
    sources: Vec<u32>,
    found: u32,
    /// For each repair symbol the number of its packet.
    pub(super) repairs: BTreeMap<u32, u32>,
}

impl BlockPackets {
    /// Source symbols and the packets that hold them.
    pub(super) fn sources(&self) -> impl Iterator<Item = (u32, u32)> {
        (0..).zip(&self.sources).filter(|(_, number)| **number != ABSENT).map(|(e, n)| (e, *n))
    }

    /// Source symbols that no packet holds.
    pub(super) fn missing(&self) -> u32 {
        self.symbols - self.found
    }

    /// Encoding symbols at hand.
    pub(super) fn known(&self) -> u32 {
        self.found + u32::try_from(self.repairs.len()).expect("24-bit IDs")
    }

    /// The packet that holds an encoding symbol.
    fn packet(&self, esi: u32) -> Option<u32> {
        if esi >= self.symbols {
            return self.repairs.get(&esi).copied();
        }
        self.sources.get(esi as usize).copied().filter(|&number| number != ABSENT)
    }

    /// Notes the first packet of an encoding symbol; how much more memory that takes \[bytes\].
    fn note(&mut self, esi: u32, number: u32) -> u64 {
        if esi >= self.symbols {
            let full = self.repairs.len() >= (self.symbols + EXTRA) as usize;
            if full || self.symbols == 0 {
                return 0;
            }
            self.repairs.insert(esi, number);
            return REPAIR_ENTRY;
        }
        let mut grown = 0;
        if self.sources.is_empty() {
            self.sources = vec![ABSENT; self.symbols as usize];
            grown = 4 * u64::from(self.symbols);
        }
        let place = &mut self.sources[esi as usize];
        *place = number;
        self.found += 1;
        grown
    }
}

/// Two packets of the same encoding symbol.
struct Compared {
    /// The first packet, once its symbol has been read.
    number: Option<u32>,
    first: Vec<u8>,
    again: Vec<u8>,
}

impl Compared {
    fn new(symbol_size: usize) -> Self {
        Self { number: None, first: vec![0; symbol_size], again: vec![0; symbol_size] }
    }
}

impl Index {
    /// Reads the payload IDs of all packets.
    ///
    /// # Errors
    /// No RFC 6330 object, fewer packets than the object has symbols, an index that would take
    /// more than `max_memory` MiB, or the system's.
    pub(super) fn read(
        path: &Path,
        input: &File,
        max_memory: u64,
        quiet: bool,
    ) -> Result<Self, Failed> {
        let input_error = |error| read_error(path, &error);
        let len = input.metadata().map_err(input_error)?.len();
        let mut reader = BufReader::with_capacity(1 << 18, input);
        let mut header = Vec::new();
        reader.by_ref().take(HEADER).read_to_end(&mut header).map_err(input_error)?;
        let information = ObjectTransmissionInformation::from_bytes(&header).map_err(|error| {
            Failed::other(format!("{}: not an RFC 6330 object: {error}", path.display()))
        })?;
        let (packets, packet) = (len.saturating_sub(HEADER), packet_len(&information));
        let count = packets / packet;
        let count = u32::try_from(count)
            .map_err(|_| Failed::other(format!("{count} packets, more than 2^32 - 1")))?;
        let mut index = Self {
            path: path.to_owned(),
            information,
            blocks: Vec::new(),
            foreign: 0,
            rest: packets % packet,
            memory: 0,
            contradiction: None,
        };
        for sbn in 0..information.source_blocks() {
            let symbols = information.block(sbn).map_err(codec_error)?.symbols;
            index.blocks.push(BlockPackets { symbols, ..BlockPackets::default() });
        }
        // Before anything is allocated: what the header promises may be absurd.
        let needed: u64 = index.blocks.iter().map(|block| u64::from(block.symbols)).sum();
        if u64::from(count) < needed {
            let message = format!("{count} packets, and the object has {needed} source symbols");
            return Err(Failed::new(exit::TOO_FEW_SYMBOLS, message));
        }
        let bar = bar::counting(quiet, u64::from(count), "packets read");
        let t = information.symbol_size();
        let mut compared = Compared::new(usize::from(t));
        for number in 0..count {
            let mut id = [0; PayloadId::LEN];
            reader.read_exact(&mut id).map_err(input_error)?;
            let id = PayloadId::from_bytes(&id).map_err(codec_error)?;
            let (sbn, esi) = (id.source_block(), id.encoding_symbol());
            let before = index.blocks.get(usize::from(sbn)).and_then(|block| block.packet(esi));
            match before {
                Some(before) if index.contradiction.is_none() => {
                    reader.read_exact(&mut compared.again).map_err(input_error)?;
                    if compared.number != Some(before) {
                        index.read_symbol(input, before, &mut compared.first)?;
                        compared.number = Some(before);
                    }
                    if compared.first != compared.again {
                        index.contradiction = Some((sbn, esi));
                    }
                }
                _ => reader.seek_relative(i64::from(t)).map_err(input_error)?,
            }
            match index.blocks.get_mut(usize::from(sbn)) {
                Some(block) if before.is_none() => index.memory += block.note(esi, number),
                Some(_) => {}
                None => index.foreign += 1,
            }
            if index.memory > max_memory.saturating_mul(1 << 20) {
                let message = format!(
                    "the index of the packets alone takes more than the {max_memory} MiB allowed"
                );
                return Err(Failed::other(message).hint("Give more by --max-memory."));
            }
            if number % 4096 == 0 {
                bar.set_position(u64::from(number));
            }
        }
        bar.finish_and_clear();
        Ok(index)
    }

    /// Reads the symbol of packet `number`.
    pub(super) fn read_symbol(
        &self,
        input: &File,
        number: u32,
        symbol: &mut [u8],
    ) -> Result<(), Failed> {
        let packet = HEADER + u64::from(number) * packet_len(&self.information);
        input
            .read_exact_at(symbol, packet + PayloadId::LEN as u64)
            .map_err(|error| read_error(&self.path, &error))
    }
}

fn packet_len(information: &ObjectTransmissionInformation) -> u64 {
    PayloadId::LEN as u64 + u64::from(information.symbol_size())
}
