//! `wellspring fec encode`: a file as an RFC 6330 object.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::Args;
use wellspring_codec::raptorq::{
    BlockEncoder, Code, ENCODING_SYMBOLS, MAX_SOURCE_SYMBOLS, MAX_TRANSFER_LENGTH,
    ObjectTransmissionInformation, PayloadId, interleave,
};
use wellspring_console::bar;
use wellspring_console::exit::Failed;
use wellspring_console::output::Stderr;
use wellspring_store::Digest;

use super::digest_file;
use super::input::{codec_error, file_error, open, read_error};
use super::target::{self, Target};

/// Source symbols a block is given if nothing else is asked for.
const COMFORTABLE_BLOCK: u64 = 1000;

/// Encode a file as an RFC 6330 object.
///
/// Writes the 12 bytes of FEC Object Transmission Information, then packets of a 4-byte FEC Payload
/// ID and one symbol: all source symbols and R repair symbols of each block. The file appears under
/// its name when it is complete. The memory needed is twice the size of one source block, three
/// times with sub-blocks, and up to 3 KB per source symbol of the block.
///
/// Also writes the BLAKE3 digest of the input to OUT.b3, in the format of `b3sum`. `fec decode` and
/// `b3sum -c` verify the decoded file with it. Keep both files together.
///
/// Repair symbols replace lost symbols. They do not correct changed symbols: after one flipped bit,
/// or one inserted or deleted byte, the digest does not match.
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
    /// Replace the file if it exists.
    #[arg(short, long)]
    force: bool,
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
fn choose_source_blocks(len: u64, symbol_size: u16) -> Result<u8, Failed> {
    if len > MAX_TRANSFER_LENGTH {
        return Err(Failed::usage(format!(
            "{len} bytes are more than an object of RFC 6330 can have, {MAX_TRANSFER_LENGTH}"
        ))
        .hint("Encode it in parts."));
    }
    let symbols = len.div_ceil(u64::from(symbol_size));
    let wanted = symbols.div_ceil(COMFORTABLE_BLOCK).clamp(1, 255);
    if symbols.div_ceil(wanted) > u64::from(MAX_SOURCE_SYMBOLS) {
        let least = len.div_ceil(255 * u64::from(MAX_SOURCE_SYMBOLS));
        return Err(Failed::usage(format!(
            "{len} bytes are too many for symbols of {symbol_size} bytes"
        ))
        .hint(format!("Give larger ones: --symbol-size {least} or more.")));
    }
    Ok(u8::try_from(wanted).expect("at most 255"))
}

/// The largest usual alignment that divides the symbol size and leaves room for the sub-blocks.
fn choose_alignment(symbol_size: u16, sub_blocks: u16) -> u8 {
    let fits = |al: &u16| symbol_size.is_multiple_of(*al) && symbol_size / al >= sub_blocks;
    let chosen = [8, 4, 2].into_iter().find(fits).unwrap_or(1);
    u8::try_from(chosen).expect("at most 8")
}

pub(super) fn run(args: &EncodeArgs, quiet: bool) -> Result<(), Failed> {
    let (mut input, metadata) = open(&args.input)?;
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
    .map_err(|error| Failed::usage(error.to_string()))?;

    let digest_path = digest_file::path_of(&args.output);
    target::check(&digest_path, args.force, &metadata)?;
    let mut output = Target::create(&args.output, args.force, &metadata)?;
    let mut hasher = blake3::Hasher::new();
    output.write(&information.to_bytes())?;
    let t = usize::from(args.symbol_size);
    let bar = bar::counting(quiet, u64::from(source_blocks), "source blocks");
    let mut encoder: Option<(SharedCode, BlockEncoder)> = None;
    let (mut block, mut symbols) = (Vec::new(), Vec::new());
    let (mut packets, mut repairs) = (0u64, vec![0; RUN as usize * t]);
    for sbn in 0..source_blocks {
        let k = information.block(sbn).map_err(codec_error)?.symbols;
        if k == 0 {
            break;
        }
        let repair = args.repair.unwrap_or(k.div_ceil(20) + 2);
        if u64::from(k) + u64::from(repair) > u64::from(ENCODING_SYMBOLS) {
            let most = ENCODING_SYMBOLS - k;
            return Err(Failed::usage(format!("--repair {repair}: {most} at most")));
        }
        let data = read_block(&mut input, &information, sbn, &mut block, &mut symbols)
            .map_err(|error| read_error(&args.input, &error))?;
        hasher.update(data);
        let encoder = match &mut encoder {
            Some((code, encoder)) if code.serves(k) => {
                encoder.reset(code.clone(), k, t).map_err(codec_error)?;
                encoder
            }
            other => {
                let code = Code::new(k).map_err(codec_error)?;
                &mut other
                    .insert((code.clone(), BlockEncoder::new(code, k, t).map_err(codec_error)?))
                    .1
            }
        };
        for (esi, symbol) in (0..).zip(symbols.chunks_exact(t)) {
            write_packet(&mut output, sbn, esi, symbol)?;
        }
        let mut esi = k;
        while esi < k + repair {
            let count = (k + repair - esi).min(RUN);
            let run = &mut repairs[..count as usize * t];
            encoder.encode_run(&symbols, esi, run).map_err(codec_error)?;
            for (esi, symbol) in (esi..).zip(run.chunks_exact(t)) {
                write_packet(&mut output, sbn, esi, symbol)?;
            }
            esi += count;
        }
        packets += u64::from(k + repair);
        bar.inc(1);
    }
    check_end(&args.input, &mut input, len)?;
    let digest = Digest(*hasher.finalize().as_bytes());
    let mut digest_output = Target::create(&digest_path, args.force, &metadata)?;
    digest_output.write(digest_file::line(&digest, &args.input).as_bytes())?;
    if args.force {
        // Whatever ends this call, the new object never stands beside the old one's digest.
        target::remove(&digest_path)?;
    }
    output.finish()?;
    digest_output.finish()?;
    bar.finish_and_clear();
    if !quiet {
        writeln!(
            Stderr,
            "{}: {len} bytes as {packets} symbols of {t} bytes in {source_blocks} source blocks; \
             digest in {}",
            args.output.display(),
            digest_path.display()
        );
    }
    Ok(())
}

type SharedCode = std::sync::Arc<Code>;

/// Repair symbols made at a time.
const RUN: u32 = 32;

/// Reads the next block, makes symbols of it and returns its bytes; `block` is used where
/// sub-blocks ask for it.
fn read_block<'a>(
    input: &mut File,
    information: &ObjectTransmissionInformation,
    sbn: u8,
    block: &'a mut Vec<u8>,
    symbols: &'a mut Vec<u8>,
) -> io::Result<&'a [u8]> {
    let place = information.block(sbn).map_err(io::Error::other)?;
    let len = usize::try_from(place.len).map_err(io::Error::other)?;
    symbols.resize(place.symbols as usize * usize::from(information.symbol_size()), 0);
    if information.sub_blocks() == 1 {
        let (data, padding) = symbols.split_at_mut(len);
        padding.fill(0);
        input.read_exact(data)?;
        return Ok(data);
    }
    block.resize(len, 0);
    input.read_exact(block)?;
    interleave(information, block, symbols).map_err(io::Error::other)?;
    Ok(block)
}

/// Refuses a file that has more bytes than its length says: one of /proc, or one that grows.
fn check_end(path: &Path, input: &mut File, len: u64) -> Result<(), Failed> {
    let more = input.read(&mut [0]).map_err(|error| file_error(path, &error))?;
    if more == 0 {
        return Ok(());
    }
    let message = format!("{}: holds more than its length says, {len} bytes", path.display());
    Err(Failed::other(message)
        .hint("It grows, or is made as it is read: encode a copy of it that stays as it is."))
}

fn write_packet(output: &mut Target, sbn: u8, esi: u32, symbol: &[u8]) -> Result<(), Failed> {
    let id = PayloadId::new(sbn, esi).expect("below 2^24, as was checked for the block");
    output.write(&id.to_bytes())?;
    output.write(symbol)
}
