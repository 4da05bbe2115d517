//! `wellspring fec decode`.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use wellspring_codec::raptorq::{
    BlockDecoder, Code, Decoded, ObjectTransmissionInformation, PayloadId, deinterleave,
};

use super::{FecError, TOO_FEW_SYMBOLS, finish, progress, temporary_beside};

/// Decode an RFC 6330 object into the file it was made from.
///
/// Reads what any RFC 6330 encoder wrote (12 bytes of FEC Object Transmission Information, then
/// packets of a 4-byte FEC Payload ID and one symbol), with packets missing, out of order or
/// doubled. The input is read twice, so it must be a file. Memory is that of one source block, its
/// repair symbols and four bytes a packet. With too few symbols the exit status is 3, and there is
/// no output file.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  wellspring fec decode movie.fec -o movie.mkv
  wellspring fec decode broken.fec -o rescued.img --max-memory 4096")]
pub struct DecodeArgs {
    /// The object to decode.
    input: PathBuf,
    /// The file to write.
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Memory a source block and its repair symbols may take, in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 8192)]
    max_memory: u64,
}

/// Where the packets of each source block stand in the input, in input order.
struct Index {
    information: ObjectTransmissionInformation,
    packets: Vec<Vec<u32>>,
    /// Packets of blocks that do not exist.
    foreign: u64,
    /// Bytes after the last whole packet.
    rest: u64,
}

const HEADER: u64 = ObjectTransmissionInformation::LEN as u64;

fn read_index(args: &DecodeArgs, input: &File, quiet: bool) -> Result<Index, FecError> {
    let input_error = |error| FecError::file(&args.input, &error);
    let len = input.metadata().map_err(input_error)?.len();
    let mut reader = BufReader::with_capacity(1 << 20, input);
    let mut header = Vec::new();
    reader.by_ref().take(HEADER).read_to_end(&mut header).map_err(input_error)?;
    let information = ObjectTransmissionInformation::from_bytes(&header).map_err(|error| {
        FecError::new(1, format!("{}: not an RFC 6330 object: {error}", args.input.display()))
    })?;
    let packet = PayloadId::LEN as u64 + u64::from(information.symbol_size());
    let count = (len - HEADER) / packet;
    let count = u32::try_from(count)
        .map_err(|_| FecError::new(1, format!("{count} packets, more than 2^32 - 1")))?;
    let bar = progress(quiet, u64::from(count), "packets read");
    let mut packets = vec![Vec::new(); usize::from(information.source_blocks())];
    let mut foreign = 0;
    for number in 0..count {
        let mut id = [0; PayloadId::LEN];
        reader.read_exact(&mut id).map_err(input_error)?;
        reader.seek_relative(i64::from(information.symbol_size())).map_err(input_error)?;
        match packets.get_mut(usize::from(id[0])) {
            Some(block) => block.push(number),
            None => foreign += 1,
        }
        if number % 4096 == 0 {
            bar.set_position(u64::from(number));
        }
    }
    bar.finish_and_clear();
    let rest = len - HEADER - u64::from(count) * packet;
    Ok(Index { information, packets, foreign, rest })
}

pub(super) fn run(args: &DecodeArgs, quiet: bool) -> Result<(), FecError> {
    let input_error = |error| FecError::file(&args.input, &error);
    let output_error = |error| FecError::file(&args.output, &error);
    let input = File::open(&args.input).map_err(input_error)?;
    if !input.metadata().map_err(input_error)?.is_file() {
        return Err(FecError::usage(format!("{}: not a regular file", args.input.display())));
    }
    let index = read_index(args, &input, quiet)?;
    if !quiet && index.rest > 0 {
        eprintln!("{}: ignoring {} bytes after the last packet", args.input.display(), index.rest);
    }
    if !quiet && index.foreign > 0 {
        eprintln!("{}: ignoring {} packets of no block", args.input.display(), index.foreign);
    }
    let information = index.information;
    let mut output = BufWriter::with_capacity(1 << 18, temporary_beside(&args.output)?);
    let mut blocks = Blocks { args, input: &input, information, decoder: None };
    let (mut symbols, mut part) = (Vec::new(), Vec::new());
    let bar = progress(quiet, u64::from(information.source_blocks()), "source blocks");
    let mut decode_free = 0u32;
    for (sbn, packets) in (0..information.source_blocks()).zip(&index.packets) {
        let place = information.block(sbn)?;
        if place.symbols == 0 {
            break;
        }
        decode_free += u32::from(blocks.decode(sbn, packets, &mut symbols)?);
        part.resize(usize::try_from(place.len).expect("a part of what is in memory"), 0);
        deinterleave(&information, &symbols, &mut part)?;
        output.write_all(&part).map_err(output_error)?;
        bar.inc(1);
    }
    finish(output, &args.output)?;
    bar.finish_and_clear();
    if !quiet {
        eprintln!(
            "{}: {} bytes from {} source blocks, {decode_free} of them without decoding",
            args.output.display(),
            information.transfer_length(),
            information.source_blocks()
        );
    }
    Ok(())
}

/// Decodes one block after the other with one decoder.
struct Blocks<'a> {
    args: &'a DecodeArgs,
    input: &'a File,
    information: ObjectTransmissionInformation,
    decoder: Option<(Arc<Code>, BlockDecoder)>,
}

impl Blocks<'_> {
    /// Fills `symbols` with the symbols of block `sbn`; whether all of them were in the input.
    fn decode(
        &mut self,
        sbn: u8,
        packets: &[u32],
        symbols: &mut Vec<u8>,
    ) -> Result<bool, FecError> {
        let k = self.information.block(sbn)?.symbols;
        let t = usize::from(self.information.symbol_size());
        // Before anything is allocated: what the header promises may be absurd.
        if (packets.len() as u64) < u64::from(k) {
            let message = format!("source block {sbn}: {} symbols, {k} are needed", packets.len());
            return Err(FecError::new(TOO_FEW_SYMBOLS, message));
        }
        let needed = u64::from(k) * (2 * t as u64 + 64);
        if needed > self.args.max_memory << 20 {
            let needed = needed.div_ceil(1 << 20);
            let message = format!("source block {sbn} needs {needed} MiB; see --max-memory");
            return Err(FecError::new(1, message));
        }
        let decoder = match &mut self.decoder {
            Some((code, decoder)) if code.serves(k) => {
                decoder.reset(code.clone(), k, t)?;
                decoder
            }
            other => {
                let code = Code::new(k)?;
                &mut other.insert((code.clone(), BlockDecoder::new(code, k, t)?)).1
            }
        };
        // A file with many repair symbols may have all that is needed: take what comes.
        decoder.set_max_repairs(k + 1024);
        symbols.resize(k as usize * t, 0);
        let mut packet = vec![0; PayloadId::LEN + t];
        for &number in packets {
            let offset = HEADER + u64::from(number) * packet.len() as u64;
            self.input
                .read_exact_at(&mut packet, offset)
                .map_err(|error| FecError::file(&self.args.input, &error))?;
            let id = PayloadId::from_bytes(&packet)?;
            decoder.add(symbols, id.encoding_symbol(), &packet[PayloadId::LEN..])?;
            if decoder.wanted() == 0 && decoder.try_decode(symbols)? == Decoded::Complete {
                return Ok(decoder.road().is_none() || decoder.repairs() == 0);
            }
        }
        let message = format!(
            "source block {sbn}: {} different symbols do not determine its {k} source symbols; \
             at least {} more are needed",
            decoder.received(),
            decoder.wanted().max(1)
        );
        Err(FecError::new(TOO_FEW_SYMBOLS, message))
    }
}
