//! LT codes as LTTP has them: `LtCode`, `LtEncoder`, `LtDecoder`.

use std::sync::{Arc, Mutex};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use wellspring_codec::lt::{
    Added, Code, Decoded, Decoder, Encoder, LtError, Method, RobustSoliton,
};

use crate::buffer::Lent;
use crate::errors::in_use;

fn wrong(error: LtError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// An LT code: k source symbols, degrees by the robust soliton distribution of `c` and `delta`, neighbours by `seed`.
#[pyclass(frozen, module = "wellspring")]
pub struct LtCode {
    code: Arc<Code>,
    given: (u32, f64, f64, u64),
}

#[pymethods]
impl LtCode {
    #[new]
    #[pyo3(signature = (k, c=0.2, delta=0.7, seed=0))]
    fn new(k: u32, c: f64, delta: f64, seed: u64) -> PyResult<Self> {
        let distribution = RobustSoliton::new(k, c, delta).map_err(wrong)?;
        Ok(LtCode { code: Arc::new(Code::new(distribution, seed)), given: (k, c, delta, seed) })
    }

    /// Source symbols of a block.
    #[getter]
    fn k(&self) -> u32 {
        self.code.source_symbols()
    }

    /// The source symbols that encoding symbol `id` is the sum of, ascending.
    fn neighbours(&self, id: u32) -> Vec<u32> {
        let mut neighbours = Vec::new();
        self.code.neighbours(id, &mut neighbours);
        neighbours
    }

    /// An encoder for a block, which is lent to it: k symbols, the last of which may be cut short.
    fn encoder(&self, source: &Bound<'_, PyAny>, symbol_size: usize) -> PyResult<LtEncoder> {
        let encoder = Encoder::new(self.code.clone(), symbol_size).map_err(wrong)?;
        let source = Lent::new(source, "source")?;
        Ok(LtEncoder { symbol_size, state: Mutex::new((encoder, source)) })
    }

    /// A decoder by one of the methods `standard`, `rounds`, `improved` (LTTP's algorithm 2) and `elimination`.
    #[pyo3(signature = (symbol_size, method="elimination"))]
    fn decoder(&self, symbol_size: usize, method: &str) -> PyResult<LtDecoder> {
        let known = Method::ALL.iter().find(|known| known.name() == method);
        let method = *known.ok_or_else(|| {
            let names = Method::ALL.map(Method::name).join(", ");
            PyValueError::new_err(format!("no method `{method}`: there are {names}"))
        })?;
        let decoder =
            Decoder::new(self.code.source_symbols(), symbol_size, method).map_err(wrong)?;
        Ok(LtDecoder { code: self.code.clone(), symbol_size, decoder: Mutex::new(decoder) })
    }

    fn __repr__(&self) -> String {
        let (k, c, delta, seed) = self.given;
        format!("LtCode({k}, c={c}, delta={delta}, seed={seed})")
    }

    fn __getnewargs__(&self) -> (u32, f64, f64, u64) {
        self.given
    }
}

/// Makes any encoding symbol of one block, which it keeps lent.
#[pyclass(frozen, module = "wellspring")]
pub struct LtEncoder {
    symbol_size: usize,
    state: Mutex<(Encoder, Lent)>,
}

#[pymethods]
impl LtEncoder {
    /// Encoding symbol `id`.
    fn encode<'py>(&self, py: Python<'py>, id: u32) -> PyResult<Bound<'py, PyBytes>> {
        let mut state = self.state.try_lock().map_err(|_| in_use("encoder"))?;
        let (encoder, source) = &mut *state;
        let source = source.read()?;
        PyBytes::new_with(py, self.symbol_size, |out| {
            encoder.encode(&source, id, out).map(drop).map_err(wrong)
        })
    }
}

/// Recovers a block from its encoding symbols.
#[pyclass(frozen, module = "wellspring")]
pub struct LtDecoder {
    code: Arc<Code>,
    symbol_size: usize,
    decoder: Mutex<Decoder>,
}

#[pymethods]
impl LtDecoder {
    /// Takes encoding symbol `id`; says whether it is of use.
    fn add(&self, py: Python<'_>, id: u32, symbol: &Bound<'_, PyAny>) -> PyResult<bool> {
        let symbol = Lent::new(symbol, "symbol")?;
        let symbol = symbol.read()?;
        let mut neighbours = Vec::new();
        self.code.neighbours(id, &mut neighbours);
        let mut decoder = self.decoder.try_lock().map_err(|_| in_use("decoder"))?;
        let decoder = &mut *decoder;
        let added = py.detach(|| decoder.add(&neighbours, &symbol)).map_err(wrong)?;
        Ok(added == Added::New)
    }

    /// Whether the whole block is recovered.
    #[getter]
    fn complete(&self) -> PyResult<bool> {
        Ok(self.decoder.try_lock().map_err(|_| in_use("decoder"))?.is_complete())
    }

    /// Source symbols recovered so far.
    #[getter]
    fn recovered(&self) -> PyResult<u32> {
        Ok(self.decoder.try_lock().map_err(|_| in_use("decoder"))?.recovered())
    }

    /// Writes the block to `block` if all of it is recovered, and says so.
    fn decode_into(&self, py: Python<'_>, block: &Bound<'_, PyAny>) -> PyResult<bool> {
        let block = Lent::writable(block, "block")?;
        let mut block = block.write()?;
        let mut decoder = self.decoder.try_lock().map_err(|_| in_use("decoder"))?;
        let decoder = &mut *decoder;
        let decoded = py.detach(|| decoder.try_decode(&mut block)).map_err(wrong)?;
        Ok(decoded == Decoded::Complete)
    }

    fn __repr__(&self) -> String {
        format!("LtDecoder(k={}, symbol_size={})", self.code.source_symbols(), self.symbol_size)
    }
}
