//! Whole objects in RFC 6330's format: encoded and decoded by all cores, a block each.

use std::sync::{Arc, Mutex, TryLockError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use wellspring_codec::Error;
use wellspring_codec::raptorq::{
    self as raptorq, Added, BlockDecoder, BlockEncoder, Code, CodeCache, Decoded,
    ObjectTransmissionInformation, PayloadId, SourceBlock,
};

use crate::buffer::{Lent, into_cache};
use crate::errors::{in_use, of_codec, of_kind};
use crate::information::ObjectInformation;

/// Bytes before the packets: the FEC Object Transmission Information (RFC 6330 §3.3).
const HEAD: usize = ObjectTransmissionInformation::LEN;

/// Blocks of an object, each with its place in it.
fn blocks(information: &ObjectTransmissionInformation) -> Result<Vec<SourceBlock>, Error> {
    (0..information.source_blocks()).map(|sbn| information.block(sbn)).collect()
}

/// Memory for codes that are kept for the objects to come \[bytes\]. One object has blocks of two sizes at most.
const MAX_CODES: usize = 64 << 20;

/// Codes of objects before, and the process that they are of.
static CODES: Mutex<Option<(u32, Arc<CodeCache>)>> = Mutex::new(None);

/// The codes of this process. Who does not get at them at once, as a child of `fork` may never do, has some of its own.
fn codes() -> Arc<CodeCache> {
    let fresh = || Arc::new(CodeCache::new(MAX_CODES));
    let mut kept = match CODES.try_lock() {
        Ok(kept) => kept,
        Err(TryLockError::Poisoned(kept)) => kept.into_inner(),
        Err(TryLockError::WouldBlock) => return fresh(),
    };
    let process = std::process::id();
    if let Some((of, codes)) = &*kept
        && *of == process
    {
        return Arc::clone(codes);
    }
    let made = fresh();
    *kept = Some((process, Arc::clone(&made)));
    made
}

/// Does all jobs on as many threads as asked for, at most one a job; 0 are as many as there are cores. Where so many
/// cannot be started fewer do the same. Each thread has a `W` for all its jobs.
fn on_threads<T: Send, W: Default>(
    threads: usize,
    jobs: Vec<T>,
    work: impl Fn(&mut W, T) -> Result<(), Failed> + Sync,
) -> Result<(), Failed> {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let threads = if threads == 0 { cores() } else { threads }.clamp(1, jobs.len().max(1));
    let jobs = Mutex::new(jobs.into_iter());
    let failed = Mutex::new(None);
    let run = || {
        let mut worker = W::default();
        loop {
            let job = jobs.lock().expect("no job is done under this lock").next();
            let Some(job) = job else { return };
            if let Err(error) = work(&mut worker, job) {
                failed.lock().expect("as above").get_or_insert(error);
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        let start = || std::thread::Builder::new().spawn_scoped(scope, run);
        (1..threads).map(|_| start()).take_while(Result::is_ok).for_each(drop);
        run();
    });
    failed.into_inner().expect("as above").map_or(Ok(()), Err)
}

/// Why a block cannot be coded.
enum Failed {
    Refused(Error),
    /// Block, symbols that arrived, symbols of the block.
    TooFew(u8, u32, u32),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Failed::Refused(error)
    }
}

impl Failed {
    fn raise(self, py: Python<'_>) -> PyErr {
        match self {
            Failed::Refused(error) => of_codec(error),
            Failed::TooFew(sbn, got, k) => {
                let text =
                    format!("source block {sbn} has {got} symbols of {k}, too few to decode it");
                of_kind(py, "TooFewSymbols", &text, Vec::new())
            }
        }
    }
}

/// Symbols of a block's packets.
fn packets_of(block: &SourceBlock, repair: u32) -> u64 {
    match block.symbols {
        0 => 0,
        k => u64::from(k) + u64::from(repair),
    }
}

/// Bytes of all packets of an object, with those before them.
#[pyfunction]
pub fn encoded_length(information: &ObjectInformation, repair: u32) -> PyResult<usize> {
    let information = information.0;
    let packet = PayloadId::LEN + usize::from(information.symbol_size());
    let blocks = blocks(&information).map_err(of_codec)?;
    let packets: u64 = blocks.iter().map(|block| packets_of(block, repair)).sum();
    let len = usize::try_from(packets).ok().and_then(|count| count.checked_mul(packet));
    let len = len.and_then(|len| len.checked_add(HEAD)).filter(|len| *len <= isize::MAX as usize);
    len.ok_or_else(|| PyValueError::new_err("so many symbols do not fit in memory"))
}

/// All symbols of an object in RFC 6330's format, in new bytes or in `out`.
#[pyfunction]
#[pyo3(signature = (data, information, repair, out=None, threads=0))]
pub fn encode_object<'py>(
    py: Python<'py>,
    data: &Bound<'py, PyAny>,
    information: &ObjectInformation,
    repair: u32,
    out: Option<Bound<'py, PyAny>>,
    threads: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let data = Lent::new(data, "data")?;
    let len = encoded_length(information, repair)?;
    let information = information.0;
    if data.len() as u64 != information.transfer_length() {
        let (got, of) = (data.len(), information.transfer_length());
        return Err(PyValueError::new_err(format!(
            "data has {got} bytes, its information says {of}"
        )));
    }
    let data = data.read()?;
    let encode = |packets: &mut [u8]| {
        let encoded = py.detach(|| encode_blocks(&information, &data, repair, packets, threads));
        encoded.map_err(|failed| failed.raise(py))
    };
    into_out(py, out, len, encode)
}

/// Has `write` fill `out`, which must have that length, or new bytes.
fn into_out<'py>(
    py: Python<'py>,
    out: Option<Bound<'py, PyAny>>,
    len: usize,
    write: impl FnOnce(&mut [u8]) -> PyResult<()>,
) -> PyResult<Bound<'py, PyAny>> {
    let Some(out) = out else { return Ok(PyBytes::new_with(py, len, write)?.into_any()) };
    let lent = Lent::writable(&out, "out")?;
    if lent.len() != len {
        return Err(PyValueError::new_err(format!("out has {} bytes: give {len}", lent.len())));
    }
    write(&mut lent.write()?)?;
    Ok(out)
}

/// Writes all packets of an object, with what goes before them.
fn encode_blocks(
    information: &ObjectTransmissionInformation,
    data: &[u8],
    repair: u32,
    packets: &mut [u8],
    threads: usize,
) -> Result<(), Failed> {
    let packet = PayloadId::LEN + usize::from(information.symbol_size());
    let (head, mut rest) = packets.split_at_mut(HEAD);
    head.copy_from_slice(&information.to_bytes());
    let mut jobs = Vec::new();
    for (sbn, block) in (0..=u8::MAX).zip(blocks(information)?) {
        let (own, others) = rest.split_at_mut(packets_of(&block, repair) as usize * packet);
        rest = others;
        jobs.push((sbn, block, own));
    }
    let codes = codes();
    on_threads(threads, jobs, |encoder: &mut Option<BlockEncoder>, (sbn, block, out)| {
        if block.symbols == 0 {
            return Ok(());
        }
        let start = block.offset as usize;
        let source = &data[start..start + block.len as usize];
        let code = codes.code(block.symbols)?;
        encode_block(information, (sbn, &block), code, encoder, source, out)
    })
}

/// Writes the packets of a block that is not empty.
fn encode_block(
    information: &ObjectTransmissionInformation,
    (sbn, block): (u8, &SourceBlock),
    code: Arc<Code>,
    encoder: &mut Option<BlockEncoder>,
    source: &[u8],
    out: &mut [u8],
) -> Result<(), Failed> {
    let t = usize::from(information.symbol_size());
    let mut interleaved = Vec::new();
    let source = match information.sub_blocks() {
        1 => source,
        _ => {
            interleaved.resize(block.symbols as usize * t, 0);
            raptorq::interleave(information, source, &mut interleaved)?;
            &interleaved
        }
    };
    let encoder = match encoder {
        Some(encoder) => {
            encoder.reset(code, block.symbols, t)?;
            encoder
        }
        None => encoder.insert(BlockEncoder::new(code, block.symbols, t)?),
    };
    into_cache(source);
    let packets = out.len() / (PayloadId::LEN + t);
    let repair = packets - block.symbols as usize;
    let mut repairs = vec![0; repair * t];
    encoder.encode_run(source, block.symbols, &mut repairs)?;
    let symbols = source.chunks(t).chain(repairs.chunks_exact(t));
    for ((esi, packet), bytes) in (0..).zip(out.chunks_exact_mut(PayloadId::LEN + t)).zip(symbols) {
        let (id, symbol) = packet.split_at_mut(PayloadId::LEN);
        id.copy_from_slice(&PayloadId::new(sbn, esi)?.to_bytes());
        let (own, padding) = symbol.split_at_mut(bytes.len());
        own.copy_from_slice(bytes);
        padding.fill(0);
    }
    Ok(())
}

/// The object from RFC 6330's format.
#[pyfunction]
#[pyo3(signature = (packets, out=None, threads=0))]
pub fn decode_object<'py>(
    py: Python<'py>,
    packets: &Bound<'py, PyAny>,
    out: Option<Bound<'py, PyAny>>,
    threads: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let packets = Lent::new(packets, "packets")?;
    let packets = packets.read()?;
    let information =
        ObjectTransmissionInformation::from_bytes(&packets[..packets.len().min(HEAD)]);
    let information = information.map_err(of_codec)?;
    // What the first bytes claim is allocated only if as many follow.
    if information.transfer_length() > packets.len() as u64 {
        let (got, of) = (packets.len(), information.transfer_length());
        let text =
            format!("{got} bytes of packets for an object of {of} bytes, too few to decode it");
        return Err(of_kind(py, "TooFewSymbols", &text, Vec::new()));
    }
    let len = information.transfer_length() as usize;
    let decode = |object: &mut [u8]| {
        let decoded = py.detach(|| decode_blocks(&information, &packets[HEAD..], object, threads));
        decoded.map_err(|failed| failed.raise(py))
    };
    into_out(py, out, len, decode)
}

fn decode_blocks(
    information: &ObjectTransmissionInformation,
    packets: &[u8],
    object: &mut [u8],
    threads: usize,
) -> Result<(), Failed> {
    let blocks = blocks(information)?;
    let t = usize::from(information.symbol_size());
    let mut of_block: Vec<Vec<(u32, &[u8])>> = vec![Vec::new(); blocks.len()];
    // A packet that was cut short at the end is none.
    for packet in packets.chunks_exact(PayloadId::LEN + t) {
        let (id, symbol) = packet.split_at(PayloadId::LEN);
        let id = PayloadId::from_bytes(id)?;
        if let Some(symbols) = of_block.get_mut(usize::from(id.source_block())) {
            symbols.push((id.encoding_symbol(), symbol));
        }
    }
    let mut rest = object;
    let mut jobs = Vec::with_capacity(blocks.len());
    for (sbn, (block, symbols)) in (0..=u8::MAX).zip(blocks.iter().zip(of_block)) {
        let (own, others) = rest.split_at_mut(block.len as usize);
        rest = others;
        jobs.push((sbn, block, symbols, own));
    }
    let codes = codes();
    on_threads(threads, jobs, |decoder: &mut Option<BlockDecoder>, (sbn, block, symbols, own)| {
        if block.symbols == 0 {
            return Ok(());
        }
        let code = codes.code(block.symbols)?;
        decode_block(information, (sbn, block), code, decoder, symbols, own)
    })
}

/// Decodes a block that is not empty.
fn decode_block(
    information: &ObjectTransmissionInformation,
    (sbn, block): (u8, &SourceBlock),
    code: Arc<Code>,
    decoder: &mut Option<BlockDecoder>,
    mut symbols: Vec<(u32, &[u8])>,
    own: &mut [u8],
) -> Result<(), Failed> {
    let k = block.symbols;
    let t = usize::from(information.symbol_size());
    let decoder = match decoder {
        Some(decoder) => {
            decoder.reset(code, k, t)?;
            decoder
        }
        None => decoder.insert(BlockDecoder::new(code, k, t)?),
    };
    let mut apart = Vec::new();
    let target = match information.sub_blocks() {
        1 => &mut *own,
        _ => {
            apart.resize(k as usize * t, 0);
            &mut apart[..]
        }
    };
    // Source symbols first: with all of them there is nothing to decode.
    symbols.sort_by_key(|(esi, _)| *esi);
    symbols.dedup_by_key(|(esi, _)| *esi);
    decoder.set_max_repairs(u32::try_from(symbols.len()).unwrap_or(u32::MAX));
    let lend = |esi| {
        let at = symbols.binary_search_by_key(&esi, |(esi, _)| *esi);
        at.map_or(&[][..], |at| symbols[at].1)
    };
    let mut decoded = Decoded::NeedMore(k);
    for (esi, symbol) in &symbols {
        match *esi < k {
            true => decoder.add(target, *esi, symbol)?,
            false => decoder.mark_repair(*esi)?,
        };
        if decoder.wanted() == 0 {
            decoded = decoder.try_decode_with(target, lend)?;
            if decoded == Decoded::Complete {
                break;
            }
        }
    }
    if decoded != Decoded::Complete && !decoder.is_complete() {
        return Err(Failed::TooFew(sbn, decoder.received(), k));
    }
    if information.sub_blocks() > 1 {
        raptorq::deinterleave(information, &apart, own)?;
    }
    Ok(())
}

/// Recovers an object from packets as they come, in bounded memory.
#[pyclass(frozen, module = "wellspring")]
pub struct ObjectDecoder {
    information: ObjectInformation,
    decoder: Mutex<raptorq::ObjectDecoder>,
}

#[pymethods]
impl ObjectDecoder {
    #[new]
    #[pyo3(signature = (information, max_memory))]
    fn new(information: &ObjectInformation, max_memory: u64) -> PyResult<Self> {
        let decoder = raptorq::ObjectDecoder::new(information.0, max_memory).map_err(of_codec)?;
        Ok(ObjectDecoder { information: *information, decoder: Mutex::new(decoder) })
    }

    /// What the object was said to be.
    #[getter]
    fn information(&self) -> ObjectInformation {
        self.information
    }

    /// Takes a packet: a Payload ID and a symbol. Says whether it is new.
    fn add(&self, py: Python<'_>, packet: &Bound<'_, PyAny>) -> PyResult<bool> {
        let packet = Lent::new(packet, "packet")?;
        let packet = packet.read()?;
        let id = PayloadId::from_bytes(&packet).map_err(of_codec)?;
        let symbol = &packet[PayloadId::LEN..];
        let mut decoder = self.decoder.try_lock().map_err(|_| in_use("decoder"))?;
        let decoder = &mut *decoder;
        let added = py.detach(|| decoder.add(id, symbol)).map_err(of_codec)?;
        Ok(added == Added::New)
    }

    /// At least how many more symbols a block needs; 0 if it is complete.
    fn wanted(&self, sbn: u8) -> PyResult<u32> {
        let decoder = self.decoder.try_lock().map_err(|_| in_use("decoder"))?;
        decoder.wanted(sbn).map_err(of_codec)
    }

    /// Bytes that its blocks hold.
    #[getter]
    fn memory(&self) -> PyResult<u64> {
        Ok(self.decoder.try_lock().map_err(|_| in_use("decoder"))?.memory())
    }

    /// The bytes of a complete block, once; else `None`.
    fn take_block<'py>(&self, py: Python<'py>, sbn: u8) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let mut decoder = self.decoder.try_lock().map_err(|_| in_use("decoder"))?;
        let block = decoder.take_block(sbn);
        Ok(block.map(|block| PyBytes::new(py, &block)))
    }
}
