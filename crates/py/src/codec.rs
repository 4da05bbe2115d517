//! RaptorQ of single blocks: `Code`, `Encoder`, `Decoder`.

use std::sync::{Arc, Mutex, MutexGuard};

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyList};
use wellspring_codec::raptorq::{Added, BlockDecoder, BlockEncoder, Code as RaptorQ, Decoded};

use crate::buffer::{Lent, into_cache};
use crate::errors::{in_use, of_codec};

/// The largest block that is allocated here \[bytes\]: 56,403 symbols of 65,535 bytes are 3.4 GiB.
const MAX_BLOCK: usize = 4 << 30;

/// What a code of K source symbols computes once: shared by any number of encoders, decoders and threads.
#[pyclass(frozen, module = "wellspring")]
pub struct Code {
    code: Arc<RaptorQ>,
    k: u32,
}

#[pymethods]
impl Code {
    #[new]
    fn new(py: Python<'_>, k: u32) -> PyResult<Self> {
        Ok(Code { code: py.detach(|| RaptorQ::new(k)).map_err(of_codec)?, k })
    }

    /// Source symbols of a block, K.
    #[getter]
    fn k(&self) -> u32 {
        self.k
    }

    /// Source symbols after extension by padding symbols, K' (RFC 6330 section 5.3.1).
    #[getter]
    fn extended_symbols(&self) -> u32 {
        self.code.extended_symbols()
    }

    /// Intermediate symbols, L.
    #[getter]
    fn intermediate_symbols(&self) -> u32 {
        self.code.intermediate_symbols()
    }

    /// Memory it takes by now in bytes; it grows with the first symbols that are coded.
    #[getter]
    fn memory(&self) -> usize {
        self.code.memory()
    }

    /// An encoder for a block, which is lent to it: K symbols, the last of which may be cut short.
    #[pyo3(signature = (source, symbol_size))]
    fn encoder(&self, source: &Bound<'_, PyAny>, symbol_size: usize) -> PyResult<Encoder> {
        let encoder =
            BlockEncoder::new(self.code.clone(), self.k, symbol_size).map_err(of_codec)?;
        let source = source_of(source, self.k, symbol_size)?;
        let state = Encoding { encoder, source, is_near: false };
        Ok(Encoder { k: self.k, symbol_size, state: Mutex::new(state) })
    }

    /// A decoder for a block in memory that is lent to it, or in a new bytearray.
    #[pyo3(signature = (symbol_size, block=None))]
    fn decoder(
        &self,
        py: Python<'_>,
        symbol_size: usize,
        block: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Decoder> {
        let decoder =
            BlockDecoder::new(self.code.clone(), self.k, symbol_size).map_err(of_codec)?;
        let (block, lent) = block_of(py, block, self.k, symbol_size)?;
        let state = State { decoder, received: 0, block, lent, is_near: false };
        Ok(Decoder { k: self.k, symbol_size, state: Mutex::new(state) })
    }

    fn __repr__(&self) -> String {
        format!("Code({})", self.k)
    }

    fn __getnewargs__(&self) -> (u32,) {
        (self.k,)
    }
}

/// Makes any encoding symbol of one block, which it keeps lent and which must stay as it is until `reset`: what repair
/// symbols are made of is computed once.
#[pyclass(frozen, module = "wellspring")]
pub struct Encoder {
    k: u32,
    symbol_size: usize,
    state: Mutex<Encoding>,
}

struct Encoding {
    encoder: BlockEncoder,
    source: Lent,
    /// The source was read since it was lent.
    is_near: bool,
}

impl Encoder {
    fn lock(&self) -> PyResult<MutexGuard<'_, Encoding>> {
        self.state.try_lock().map_err(|_| in_use("encoder"))
    }

    fn write(&self, py: Python<'_>, esi: u32, out: &mut [u8]) -> PyResult<()> {
        let mut state = self.lock()?;
        let Encoding { encoder, source, is_near } = &mut *state;
        let source = source.read()?;
        let fetch = !std::mem::replace(is_near, true);
        py.detach(|| {
            if fetch {
                into_cache(&source);
            }
            encoder.encode_run(&source, esi, out)
        })
        .map_err(of_codec)
    }
}

#[pymethods]
impl Encoder {
    /// Source symbols of a block, K.
    #[getter]
    fn k(&self) -> u32 {
        self.k
    }

    /// The symbol size T in bytes.
    #[getter]
    fn symbol_size(&self) -> usize {
        self.symbol_size
    }

    /// `count` encoding symbols from `esi` on, one after the other; the first K ESIs are the block itself.
    #[pyo3(signature = (esi, count=1))]
    fn encode<'py>(
        &self,
        py: Python<'py>,
        esi: u32,
        count: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let len = count.checked_mul(self.symbol_size).filter(|len| *len <= MAX_BLOCK);
        let len = len.ok_or_else(|| {
            let most = MAX_BLOCK / self.symbol_size;
            PyValueError::new_err(format!("{count} symbols at once, at most {most} are made"))
        })?;
        PyBytes::new_with(py, len, |out| self.write(py, esi, out))
    }

    /// Writes encoding symbols from `esi` on to `out`: as many as its length holds.
    fn encode_into(&self, py: Python<'_>, esi: u32, out: &Bound<'_, PyAny>) -> PyResult<()> {
        let out = Lent::writable(out, "out")?;
        self.write(py, esi, &mut out.write()?)
    }

    /// Computes now what many repair symbols need, so that each of them is a few XORs.
    fn prepare(&self, py: Python<'_>) -> PyResult<()> {
        let mut state = self.lock()?;
        let Encoding { encoder, source, .. } = &mut *state;
        let source = source.read()?;
        py.detach(|| encoder.prepare(&source)).map_err(of_codec)
    }

    /// Turns to another block of the same shape, also one in the same memory; nothing of the one before is used again.
    fn reset(&self, source: &Bound<'_, PyAny>) -> PyResult<()> {
        let source = source_of(source, self.k, self.symbol_size)?;
        let mut state = self.lock()?;
        state.encoder.clear();
        (state.source, state.is_near) = (source, false);
        Ok(())
    }

    fn __repr__(&self) -> String {
        format!("Encoder(k={}, symbol_size={})", self.k, self.symbol_size)
    }
}

struct State {
    decoder: BlockDecoder,
    /// Distinct symbols that arrived: the decoder's own count has those that it made, too.
    received: u32,
    /// What the user gets.
    block: Py<PyAny>,
    lent: Lent,
    /// The block was read since it was lent.
    is_near: bool,
}

/// Recovers one block, in memory of the caller or its own.
#[pyclass(frozen, module = "wellspring")]
pub struct Decoder {
    k: u32,
    symbol_size: usize,
    state: Mutex<State>,
}

impl Decoder {
    fn lock(&self) -> PyResult<MutexGuard<'_, State>> {
        self.state.try_lock().map_err(|_| in_use("decoder"))
    }
}

#[pymethods]
impl Decoder {
    /// Source symbols of a block, K.
    #[getter]
    fn k(&self) -> u32 {
        self.k
    }

    /// The symbol size T in bytes.
    #[getter]
    fn symbol_size(&self) -> usize {
        self.symbol_size
    }

    /// The memory of the block: what was lent, or a bytearray.
    #[getter]
    fn block(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(self.lock()?.block.clone_ref(py))
    }

    /// Whether every source symbol stands in the block.
    #[getter]
    fn complete(&self) -> PyResult<bool> {
        Ok(self.lock()?.decoder.is_complete())
    }

    /// At least how many more symbols are needed; 0 if decoding is worth a try.
    #[getter]
    fn wanted(&self) -> PyResult<u32> {
        Ok(self.lock()?.decoder.wanted())
    }

    /// Distinct symbols received.
    #[getter]
    fn received(&self) -> PyResult<u32> {
        Ok(self.lock()?.received)
    }

    /// Source symbols that do not stand in the block, ascending.
    #[getter]
    fn missing<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let missing: Vec<u32> = self.lock()?.decoder.missing().collect();
        PyList::new(py, missing)
    }

    /// Takes one encoding symbol: a copy of it is kept. Says whether it is new.
    fn add(&self, esi: u32, symbol: &Bound<'_, PyAny>) -> PyResult<bool> {
        let symbol = Lent::new(symbol, "symbol")?;
        let mut state = self.lock()?;
        let State { decoder, received, lent, .. } = &mut *state;
        let added = match esi < self.k {
            true => decoder.add(&mut lent.write()?, esi, &symbol.read()?),
            false => decoder.add_repair(esi, &symbol.read()?),
        };
        let is_new = added.map_err(of_codec)? == Added::New;
        *received += u32::from(is_new);
        Ok(is_new)
    }

    /// Takes a symbol for each of `esis`, one after the other in `symbols`. Returns how many are new.
    fn add_many(
        &self,
        py: Python<'_>,
        esis: &Bound<'_, PyAny>,
        symbols: &Bound<'_, PyAny>,
    ) -> PyResult<u32> {
        let esis = ids(esis, "esis")?;
        let symbols = Lent::new(symbols, "symbols")?;
        check_count(esis.len(), symbols.len(), self.symbol_size, "symbols")?;
        let mut state = self.lock()?;
        let State { decoder, received, lent, .. } = &mut *state;
        let (mut block, symbols) = (lent.write()?, symbols.read()?);
        let (size, before) = (self.symbol_size, *received);
        let added = py.detach(|| {
            for (esi, symbol) in esis.iter().zip(symbols.chunks_exact(size)) {
                *received += u32::from(decoder.add(&mut block, *esi, symbol)? == Added::New);
            }
            Ok(())
        });
        added.map_err(of_codec)?;
        Ok(*received - before)
    }

    /// Notes that these source symbols stand in the block already.
    fn mark(&self, esis: &Bound<'_, PyAny>) -> PyResult<()> {
        let esis = ids(esis, "esis")?;
        let mut state = self.lock()?;
        for esi in esis {
            let added = state.decoder.mark_source(esi).map_err(of_codec)?;
            state.received += u32::from(added == Added::New);
        }
        Ok(())
    }

    /// Decodes if the symbols suffice; says whether the block is complete.
    fn decode(&self, py: Python<'_>) -> PyResult<bool> {
        let mut state = self.lock()?;
        let State { decoder, lent, .. } = &mut *state;
        let mut block = lent.write()?;
        let decoded = py.detach(|| decoder.try_decode(&mut block)).map_err(of_codec)?;
        Ok(decoded == Decoded::Complete)
    }

    /// Decodes a block in place, without a copy: all its source symbols stand in it but `lost`, and `repairs`
    /// has a repair symbol for each of `esis`. Forgets what was received before.
    fn recover(
        &self,
        py: Python<'_>,
        lost: &Bound<'_, PyAny>,
        esis: &Bound<'_, PyAny>,
        repairs: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let (lost, esis) = (ids(lost, "lost")?, ids(esis, "esis")?);
        let repairs = Lent::new(repairs, "repairs")?;
        let size = self.symbol_size;
        check_count(esis.len(), repairs.len(), size, "repairs")?;
        let mut state = self.lock()?;
        let State { decoder, received, lent, is_near, .. } = &mut *state;
        let (mut block, repairs) = (lent.write()?, repairs.read()?);
        let fetch = !std::mem::replace(is_near, true);
        let k = self.k;
        let recovered = py.detach(|| {
            if fetch {
                into_cache(&block);
            }
            decoder.clear();
            *received = 0;
            let mut is_lost = vec![false; k as usize];
            for esi in lost {
                let Some(place) = is_lost.get_mut(esi as usize) else {
                    return Err(wellspring_codec::Error::SymbolId { got: esi, limit: k });
                };
                *place = true;
            }
            for (esi, _) in (0..).zip(&is_lost).filter(|(_, lost)| !**lost) {
                *received += u32::from(decoder.mark_source(esi)? == Added::New);
            }
            for esi in &esis {
                *received += u32::from(decoder.mark_repair(*esi)? == Added::New);
            }
            let place = |esi| esis.iter().position(|other| *other == esi).unwrap_or_default();
            let lend = |esi| &repairs[place(esi) * size..][..size];
            decoder.try_decode_with(&mut block, lend)
        });
        Ok(recovered.map_err(of_codec)? == Decoded::Complete)
    }

    /// Turns to another block of the same shape, in memory that is lent or in a new bytearray.
    #[pyo3(signature = (block=None))]
    fn reset(&self, py: Python<'_>, block: Option<Bound<'_, PyAny>>) -> PyResult<()> {
        let (block, lent) = block_of(py, block, self.k, self.symbol_size)?;
        let mut state = self.lock()?;
        state.decoder.clear();
        state.received = 0;
        (state.block, state.lent, state.is_near) = (block, lent, false);
        Ok(())
    }

    fn __repr__(&self) -> String {
        format!("Decoder(k={}, symbol_size={})", self.k, self.symbol_size)
    }
}

/// A block's source: K symbols, the last of which may be short.
fn source_of(source: &Bound<'_, PyAny>, k: u32, symbol_size: usize) -> PyResult<Lent> {
    let source = Lent::new(source, "source")?;
    check_block(source.len(), k, symbol_size, "source")?;
    Ok(source)
}

/// Memory for a block: the caller's, or a new bytearray.
fn block_of(
    py: Python<'_>,
    block: Option<Bound<'_, PyAny>>,
    k: u32,
    symbol_size: usize,
) -> PyResult<(Py<PyAny>, Lent)> {
    let block = match block {
        Some(block) => block,
        None => PyByteArray::new_with(py, k as usize * symbol_size, |_| Ok(()))?.into_any(),
    };
    let lent = Lent::writable(&block, "block")?;
    check_block(lent.len(), k, symbol_size, "block")?;
    Ok((block.unbind(), lent))
}

fn check_block(len: usize, k: u32, symbol_size: usize, what: &str) -> PyResult<()> {
    let whole = k as usize * symbol_size;
    if len <= whole && len + symbol_size > whole {
        return Ok(());
    }
    Err(PyValueError::new_err(format!(
        "{what} has {len} bytes: {k} symbols of {symbol_size} bytes are {whole}, of which the last symbol alone \
         may be cut short"
    )))
}

fn check_count(esis: usize, len: usize, symbol_size: usize, what: &str) -> PyResult<()> {
    if esis.checked_mul(symbol_size) == Some(len) {
        return Ok(());
    }
    Err(PyValueError::new_err(format!(
        "{what} has {len} bytes for {esis} ESIs: give {symbol_size} bytes for each, one after the other"
    )))
}

/// Symbol IDs: a sequence of integers, or an array of them.
fn ids(object: &Bound<'_, PyAny>, what: &str) -> PyResult<Vec<u32>> {
    let py = object.py();
    let wrong = |got: i64| {
        let text = format!("{what} holds {got}: encoding symbol IDs are 0 to 16777215");
        PyValueError::new_err(text)
    };
    if let Ok(array) = PyBuffer::<u32>::get(object) {
        return array.to_vec(py);
    }
    if let Ok(array) = PyBuffer::<i64>::get(object) {
        let narrow = |id: i64| u32::try_from(id).map_err(|_| wrong(id));
        return array.to_vec(py)?.into_iter().map(narrow).collect();
    }
    let ids = object.try_iter().and_then(|all| all.map(|id| id?.extract::<i64>()).collect());
    let ids: Vec<i64> = ids.map_err(|_: PyErr| {
        let text = "give a sequence of integers or an array of uint32 or int64";
        PyTypeError::new_err(format!("{what} holds no symbol IDs: {text}"))
    })?;
    ids.into_iter().map(|id| u32::try_from(id).map_err(|_| wrong(id))).collect()
}
