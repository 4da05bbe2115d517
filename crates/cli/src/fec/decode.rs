//! `wellspring fec decode`: an RFC 6330 object back as a file.

use std::fmt;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use wellspring_codec::raptorq::{
    BlockDecoder, BlockEncoder, Code, Decoded, ObjectTransmissionInformation, deinterleave,
};
use wellspring_console::bar;
use wellspring_console::exit::Failed;
use wellspring_console::output::{Stderr, Stdout};
use wellspring_store::Digest;

use super::digest_file;
use super::index::{BlockPackets, EXTRA, Index};
use super::input::{codec_error, open};
use super::target::Target;
use crate::exit;

/// Symbols of a block that are compared with what the decoded block gives.
const CHECKS: usize = 2;

/// Decode an RFC 6330 object into the original file.
///
/// Reads the output of any RFC 6330 encoder: 12 bytes of FEC Object Transmission Information, then
/// packets of a 4-byte FEC Payload ID and one symbol. Packets may be missing, reordered or
/// duplicated. The input is read twice, so it must be a file. The output appears under its name
/// when it is complete. With too few symbols the exit status is 3.
///
/// RFC 6330 has no checksum. The output is verified with a BLAKE3 digest: that of --digest, or else
/// that in IN.b3, which `fec encode` writes and `b3sum` reads. If the digest differs, the exit status
/// is 7 and no output is written.
///
/// Without a digest the output is not verified, and the summary and --json report this. Changed
/// bytes are then detected only if symbols contradict each other (status 10). For this, decoding
/// compares up to two unused repair symbols of each block with repair symbols encoded from the
/// decoded block, repeated symbols with each other, and padding with zeros.
///
/// Repair symbols replace lost packets. They do not correct changed packets: a flipped bit, a burst
/// of errors, or a byte inserted or deleted in the middle is detected at best.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  wellspring fec decode movie.fec -o movie.mkv
  wellspring fec decode broken.fec -o rescued.img --max-memory 16384")]
pub struct DecodeArgs {
    /// The object to decode.
    input: PathBuf,
    /// The file to write.
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Replace the file if it exists.
    #[arg(short, long)]
    force: bool,
    /// The expected digest of the file: 64 hexadecimal digits [default: the one in IN.b3, if it exists].
    #[arg(long, value_name = "BLAKE3")]
    digest: Option<Digest>,
    /// Memory for the index of all packets, and for decoding one source block, in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 8192)]
    max_memory: u64,
    /// Print the result as a JSON object.
    #[arg(long)]
    json: bool,
}

impl DecodeArgs {
    /// Memory allowed \[bytes\].
    fn max_memory(&self) -> u64 {
        self.max_memory.saturating_mul(1 << 20)
    }
}

pub(super) fn run(args: &DecodeArgs, quiet: bool) -> Result<(), Failed> {
    let (input, metadata) = open(&args.input)?;
    let expected = match args.digest {
        None => digest_file::read(&digest_file::path_of(&args.input))?,
        given => given,
    };
    let mut output = Target::create(&args.output, args.force, &metadata)?;
    let index = Index::read(&args.input, &input, args.max_memory, quiet || args.json)?;
    if !quiet && index.rest > 0 {
        let rest = index.rest;
        writeln!(Stderr, "{}: ignoring {rest} bytes after the last packet", args.input.display());
    }
    if !quiet && index.foreign > 0 {
        let foreign = index.foreign;
        writeln!(Stderr, "{}: ignoring {foreign} packets of no block", args.input.display());
    }
    for (sbn, packets) in (0u32..).zip(&index.blocks) {
        check_block(args, &index, sbn, packets)?;
    }
    let has_digest = expected.is_some();
    let mut blocks =
        Blocks { args, input: &input, index: &index, has_digest, contradiction: None, code: None };
    if let Some((sbn, esi)) = index.contradiction {
        blocks.contradicts(sbn, format_args!("two packets of symbol {esi} differ"))?;
    }
    let outcome = blocks.write(&mut output, quiet || args.json)?;
    if expected.is_some_and(|expected| expected != outcome.digest) {
        return Err(blocks.contradiction.unwrap_or_else(|| wrong_digest(args, &outcome.digest)));
    }
    output.finish()?;
    if !quiet {
        outcome.report(args, &index, has_digest);
        if let Some(Failed { message: Some(message), .. }) = blocks.contradiction {
            writeln!(Stderr, "{message}. The file itself is verified.");
        }
    }
    if args.json {
        writeln!(Stdout, "{}", outcome.to_json(args, &index, has_digest))?;
    }
    Ok(())
}

fn wrong_digest(args: &DecodeArgs, digest: &Digest) -> Failed {
    let message = format!("{}: gives bytes of another digest, {digest}", args.input.display());
    Failed::new(exit::BAD_DIGEST, message).hint(
        "Nothing was written. The object or the digest has changed: take another copy of both.",
    )
}

/// What decoding an object came to.
struct Outcome {
    digest: Digest,
    /// Blocks of which every source symbol was received.
    decode_free: u32,
    /// Blocks without a repair symbol to compare.
    unchecked: u32,
}

impl Outcome {
    /// The summary for people.
    fn report(&self, args: &DecodeArgs, index: &Index, verified: bool) {
        let Self { digest, decode_free, unchecked } = self;
        let output = args.output.display();
        let blocks = index.information.source_blocks();
        let bytes = index.information.transfer_length();
        if !args.json {
            writeln!(
                Stderr,
                "{output}: {bytes} bytes from {blocks} source blocks; {decode_free} without \
                 decoding, {unchecked} without a symbol to check"
            );
        }
        if verified {
            writeln!(Stderr, "{output}: verified, digest {digest}");
        } else {
            writeln!(
                Stderr,
                "{output}: NOT VERIFIED: there is no {} and no --digest; digest {digest}",
                digest_file::path_of(&args.input).display()
            );
        }
    }

    /// The same for programs.
    fn to_json(&self, args: &DecodeArgs, index: &Index, verified: bool) -> serde_json::Value {
        serde_json::json!({
            "object": args.input.display().to_string(),
            "output": args.output.display().to_string(),
            "bytes": index.information.transfer_length(),
            "digest": self.digest.to_string(),
            "verified": verified,
            "blocks": index.information.source_blocks(),
            "blocks_decode_free": self.decode_free,
            "blocks_unchecked": self.unchecked,
        })
    }
}

/// Refuses a block that cannot be decoded, before anything is allocated for any.
fn check_block(
    args: &DecodeArgs,
    index: &Index,
    sbn: u32,
    packets: &BlockPackets,
) -> Result<(), Failed> {
    let (known, k) = (packets.known(), packets.symbols);
    if known < k {
        let message = format!("source block {sbn}: {known} different symbols, {k} are needed");
        return Err(Failed::new(exit::TOO_FEW_SYMBOLS, message));
    }
    let needed = index.memory + memory(&index.information, packets);
    if needed > args.max_memory() {
        let needed = needed.div_ceil(1 << 20);
        let message = format!(
            "source block {sbn} of {k} symbols needs {needed} MiB of memory, and {} are allowed",
            args.max_memory
        );
        return Err(Failed::other(message).hint(format!("Give more: --max-memory {needed}.")));
    }
    Ok(())
}

/// What decoding a block takes \[bytes\], at most.
fn memory(information: &ObjectTransmissionInformation, packets: &BlockPackets) -> u64 {
    let (k, t) = (u64::from(packets.symbols), u64::from(information.symbol_size()));
    let missing = u64::from(packets.missing());
    let repairs = (missing + u64::from(EXTRA)).min(packets.repairs.len() as u64);
    let parts = if information.sub_blocks() == 1 { 0 } else { k };
    let codec = if repairs == 0 { 0 } else { codec_memory(k, missing) };
    BUFFERS + (k + parts + repairs) * t + codec
}

/// Buffers of both files, and what else comes and goes \[bytes\].
const BUFFERS: u64 = 1 << 20;

/// What the code of a block and its decoder or encoder take, without symbols \[bytes\]: measured from
/// K = 10 to 56,403 with few and all symbols lost, and rounded up.
fn codec_memory(k: u64, missing: u64) -> u64 {
    // Codes of so few symbols keep their inverse, and with so few losses a part of it is made.
    let inverse = if k <= 2048 { 2 * k * k } else { 0 };
    let part = if missing <= 1024 { missing.next_multiple_of(64) * k * 9 / 8 } else { 0 };
    // A decoder of so few symbols reserves at once all that it can ever need.
    let own = if k <= 257 { 9 << 10 } else { 1536 };
    own * k + inverse + part
}

/// Decodes one block after the other.
struct Blocks<'a> {
    args: &'a DecodeArgs,
    input: &'a File,
    index: &'a Index,
    /// Whether the output will be verified by a digest.
    has_digest: bool,
    /// The first contradiction found between symbols, if the digest is to decide.
    contradiction: Option<Failed>,
    /// The last block's code. Decoders and encoders are made for each block: what one leaves behind
    /// would add to the memory of the next.
    code: Option<Arc<Code>>,
}

impl Blocks<'_> {
    /// Decodes all blocks into `output`.
    fn write(&mut self, output: &mut Target, quiet: bool) -> Result<Outcome, Failed> {
        let index = self.index;
        let information = &index.information;
        let (mut symbols, mut part) = (Vec::new(), Vec::new());
        let (mut decode_free, mut unchecked) = (0, 0);
        let mut hasher = blake3::Hasher::new();
        let bar = bar::counting(quiet, u64::from(information.source_blocks()), "source blocks");
        for (sbn, packets) in (0..).zip(&index.blocks).filter(|(_, packets)| packets.symbols > 0) {
            let checks = self.decode(sbn, packets, &mut symbols)?;
            decode_free += u32::from(packets.missing() == 0);
            unchecked += u32::from(checks == 0);
            let len = usize::try_from(information.block(sbn).map_err(codec_error)?.len)
                .expect("no more than its symbols");
            let padded = if information.sub_blocks() == 1 {
                &symbols
            } else {
                part.resize(symbols.len(), 0);
                deinterleave(information, &symbols, &mut part).map_err(codec_error)?;
                &part
            };
            let (data, padding) = padded.split_at(len);
            if padding.iter().any(|&byte| byte != 0) {
                self.contradicts(sbn, format_args!("its padding is not zero"))?;
            }
            hasher.update(data);
            output.write(data)?;
            bar.inc(1);
        }
        bar.finish_and_clear();
        Ok(Outcome { digest: Digest(*hasher.finalize().as_bytes()), decode_free, unchecked })
    }

    /// Notes that bytes of a block have changed.
    ///
    /// # Errors
    /// There is no digest that shows whether these bytes matter.
    fn contradicts(&mut self, sbn: u8, what: fmt::Arguments<'_>) -> Result<(), Failed> {
        let message = format!(
            "{}: source block {sbn}: {what}, so some bytes of the object have changed",
            self.args.input.display()
        );
        let failed = Failed::new(exit::CONTRADICTION, message)
            .hint("Nothing was written. Take another copy of the object.");
        if !self.has_digest {
            return Err(failed);
        }
        self.contradiction.get_or_insert(failed);
        Ok(())
    }

    /// Fills `symbols` with the symbols of block `sbn`; how many further symbols agree with them.
    fn decode(
        &mut self,
        sbn: u8,
        packets: &BlockPackets,
        symbols: &mut Vec<u8>,
    ) -> Result<usize, Failed> {
        let t = usize::from(self.index.information.symbol_size());
        symbols.resize(packets.symbols as usize * t, 0);
        for (esi, number) in packets.sources() {
            let place = &mut symbols[esi as usize * t..][..t];
            self.index.read_symbol(self.input, number, place)?;
        }
        if packets.repairs.is_empty() {
            return Ok(0);
        }
        let code = self.code(packets.symbols)?;
        let used = match packets.missing() {
            0 => 0,
            _ => self.recover(code.clone(), sbn, packets, symbols)?,
        };
        self.check(code, sbn, packets, used, symbols)
    }

    fn code(&mut self, k: u32) -> Result<Arc<Code>, Failed> {
        // The old one goes first, so that there is only one at a time.
        let kept = self.code.take().filter(|code| code.serves(k));
        let code = kept.map_or_else(|| Code::new(k), Ok).map_err(codec_error)?;
        Ok(self.code.insert(code).clone())
    }

    /// Computes the missing source symbols; how many repair symbols that took.
    fn recover(
        &self,
        code: Arc<Code>,
        sbn: u8,
        packets: &BlockPackets,
        symbols: &mut [u8],
    ) -> Result<usize, Failed> {
        let t = usize::from(self.index.information.symbol_size());
        let mut decoder = BlockDecoder::new(code, packets.symbols, t).map_err(codec_error)?;
        for (esi, _) in packets.sources() {
            decoder.mark_source(esi).map_err(codec_error)?;
        }
        let room = (packets.missing() + EXTRA) as usize;
        let mut left = packets.repairs.iter().take(room);
        // In ascending order, as they come out of the index.
        let (mut used, mut repairs) = (Vec::new(), Vec::new());
        repairs.reserve_exact(room.min(packets.repairs.len()) * t);
        loop {
            while decoder.wanted() > 0 {
                let Some((&esi, &number)) = left.next() else {
                    let message = format!(
                        "source block {sbn}: {} different symbols do not determine its {} source \
                         symbols; at least {} more are needed",
                        decoder.received(),
                        packets.symbols,
                        decoder.wanted()
                    );
                    return Err(Failed::new(exit::TOO_FEW_SYMBOLS, message));
                };
                let start = repairs.len();
                repairs.resize(start + t, 0);
                self.index.read_symbol(self.input, number, &mut repairs[start..])?;
                decoder.mark_repair(esi).map_err(codec_error)?;
                used.push(esi);
            }
            let lent = |esi: u32| {
                let place = used.binary_search(&esi).expect("only what was marked is asked for");
                &repairs[place * t..][..t]
            };
            if decoder.try_decode_with(symbols, lent).map_err(codec_error)? == Decoded::Complete {
                return Ok(used.len());
            }
        }
    }

    /// Compares repair symbols that were not used with what the block gives.
    fn check(
        &mut self,
        code: Arc<Code>,
        sbn: u8,
        packets: &BlockPackets,
        used: usize,
        symbols: &[u8],
    ) -> Result<usize, Failed> {
        let t = usize::from(self.index.information.symbol_size());
        let mut encoder = BlockEncoder::new(code, packets.symbols, t).map_err(codec_error)?;
        let (mut made, mut read) = (vec![0; t], vec![0; t]);
        let mut checks = 0;
        for (&esi, &number) in packets.repairs.iter().skip(used).take(CHECKS) {
            // Else it would keep as much again as the block for the symbols after the first.
            encoder.clear();
            encoder.encode(symbols, esi, &mut made).map_err(codec_error)?;
            self.index.read_symbol(self.input, number, &mut read)?;
            if made != read {
                self.contradicts(sbn, format_args!("symbol {esi} contradicts the others"))?;
            }
            checks += 1;
        }
        Ok(checks)
    }
}
