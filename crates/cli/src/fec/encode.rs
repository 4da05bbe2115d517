//! `wellspring fec encode`.

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::PathBuf;

use clap::Args;
use wellspring_codec::raptorq::{
    BlockEncoder, Code, ENCODING_SYMBOLS, MAX_SOURCE_SYMBOLS, ObjectTransmissionInformation,
    PayloadId, interleave,
};

use super::{FecError, finish, progress, temporary_beside};

/// Source symbols a block is given if nothing else is asked for.
const COMFORTABLE_BLOCK: u64 = 1000;

/// Encode a file as an RFC 6330 object.
///
/// Writes the 12 bytes of FEC Object Transmission Information, then packets of a 4-byte FEC Payload
/// ID and one symbol: all source symbols and R repair symbols of each block. Memory is that of one
/// source block, about twice its size.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  wellspring fec encode movie.mkv -o movie.fec
  wellspring fec encode disk.img -o disk.fec --symbol-size 8192 --repair 200
  wellspring fec encode a.bin -o a.fec --source-blocks 4 --sub-blocks 2")]
pub struct EncodeArgs {
    /// The file to encode.
    input: PathBuf,
    /// The file to write.
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Bytes in a symbol (T).
    #[arg(long, value_name = "T", default_value_t = 1400,
          value_parser = clap::value_parser!(u16).range(1..))]
    symbol_size: u16,
    /// Source blocks (Z); default: blocks of about 1,000 symbols.
    #[arg(long, value_name = "Z", value_parser = clap::value_parser!(u8).range(1..))]
    source_blocks: Option<u8>,
    /// Sub-blocks in a source block (N).
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..))]
    sub_blocks: u16,
    /// Repair symbols a source block (R); default: 5 % of its source symbols, and two.
    #[arg(long, value_name = "R")]
    repair: Option<u32>,
}

/// Z for a file of `len` bytes.
fn choose_source_blocks(len: u64, symbol_size: u16) -> Result<u8, FecError> {
    let symbols = len.div_ceil(u64::from(symbol_size));
    let wanted = symbols.div_ceil(COMFORTABLE_BLOCK).clamp(1, 255);
    if symbols.div_ceil(wanted) > u64::from(MAX_SOURCE_SYMBOLS) {
        return Err(FecError::usage(format!(
            "{len} bytes are too many for symbols of {symbol_size} bytes: at least {} are needed",
            len.div_ceil(255 * u64::from(MAX_SOURCE_SYMBOLS))
        )));
    }
    Ok(u8::try_from(wanted).expect("at most 255"))
}

/// The largest usual alignment that divides the symbol size and leaves room for the sub-blocks.
fn choose_alignment(symbol_size: u16, sub_blocks: u16) -> u8 {
    let fits = |al: &u16| symbol_size.is_multiple_of(*al) && symbol_size / al >= sub_blocks;
    let chosen = [8, 4, 2].into_iter().find(fits).unwrap_or(1);
    u8::try_from(chosen).expect("at most 8")
}

pub(super) fn run(args: &EncodeArgs, quiet: bool) -> Result<(), FecError> {
    let input_error = |error| FecError::file(&args.input, &error);
    let output_error = |error| FecError::file(&args.output, &error);
    let mut input = File::open(&args.input).map_err(input_error)?;
    let metadata = input.metadata().map_err(input_error)?;
    if !metadata.is_file() {
        return Err(FecError::usage(format!("{}: not a regular file", args.input.display())));
    }
    let len = metadata.len();
    let source_blocks = match args.source_blocks {
        Some(z) => z,
        None => choose_source_blocks(len, args.symbol_size)?,
    };
    let alignment = choose_alignment(args.symbol_size, args.sub_blocks);
    let information = ObjectTransmissionInformation::new(
        len,
        args.symbol_size,
        source_blocks,
        args.sub_blocks,
        alignment,
    )
    .map_err(|error| FecError::usage(error.to_string()))?;

    let mut output = BufWriter::with_capacity(1 << 18, temporary_beside(&args.output)?);
    output.write_all(&information.to_bytes()).map_err(output_error)?;
    let t = usize::from(args.symbol_size);
    let bar = progress(quiet, u64::from(source_blocks), "source blocks");
    let mut encoder: Option<(SharedCode, BlockEncoder)> = None;
    let (mut block, mut symbols) = (Vec::new(), Vec::new());
    let (mut packets, mut repairs) = (0u64, vec![0; 32 * t]);
    for sbn in 0..source_blocks {
        let place = information.block(sbn)?;
        let k = place.symbols;
        if k == 0 {
            break;
        }
        let repair = args.repair.unwrap_or(k.div_ceil(20) + 2);
        if u64::from(k) + u64::from(repair) > u64::from(ENCODING_SYMBOLS) {
            let most = ENCODING_SYMBOLS - k;
            return Err(FecError::usage(format!("{repair} repair symbols, {most} at most")));
        }
        block.resize(usize::try_from(place.len).map_err(|_| too_large())?, 0);
        input.read_exact(&mut block).map_err(input_error)?;
        symbols.resize(k as usize * t, 0);
        interleave(&information, &block, &mut symbols)?;
        let encoder = match &mut encoder {
            Some((code, encoder)) if code.serves(k) => {
                encoder.reset(code.clone(), k, t)?;
                encoder
            }
            other => {
                let code = Code::new(k)?;
                &mut other.insert((code.clone(), BlockEncoder::new(code, k, t)?)).1
            }
        };
        for (esi, symbol) in (0..).zip(symbols.chunks_exact(t)) {
            write_packet(&mut output, sbn, esi, symbol).map_err(output_error)?;
        }
        let mut esi = k;
        while esi < k + repair {
            let count = (k + repair - esi).min(32);
            let run = &mut repairs[..count as usize * t];
            encoder.encode_run(&symbols, esi, run)?;
            for (esi, symbol) in (esi..).zip(run.chunks_exact(t)) {
                write_packet(&mut output, sbn, esi, symbol).map_err(output_error)?;
            }
            esi += count;
        }
        packets += u64::from(k + repair);
        bar.inc(1);
    }
    finish(output, &args.output)?;
    bar.finish_and_clear();
    if !quiet {
        eprintln!(
            "{}: {len} bytes as {packets} symbols of {t} bytes in {source_blocks} source blocks",
            args.output.display()
        );
    }
    Ok(())
}

type SharedCode = std::sync::Arc<Code>;

fn too_large() -> FecError {
    FecError::usage("a source block is larger than memory; give more --source-blocks")
}

fn write_packet(output: &mut impl Write, sbn: u8, esi: u32, symbol: &[u8]) -> std::io::Result<()> {
    let id = PayloadId::new(sbn, esi).expect("below 2^24, as was checked for the block");
    output.write_all(&id.to_bytes())?;
    output.write_all(symbol)
}
