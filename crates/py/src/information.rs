//! The cut of an object into blocks and symbols: `ObjectInformation`.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use wellspring_codec::raptorq::{ObjectTransmissionInformation, SourceBlock};

use crate::buffer::Lent;
use crate::errors::of_codec;

/// The FEC Object Transmission Information of an object (RFC 6330 §3.3).
#[pyclass(frozen, eq, module = "wellspring")]
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ObjectInformation(pub(crate) ObjectTransmissionInformation);

#[pymethods]
impl ObjectInformation {
    #[new]
    #[pyo3(signature = (transfer_length, symbol_size, source_blocks=1, sub_blocks=1, alignment=1))]
    fn new(
        transfer_length: u64,
        symbol_size: u16,
        source_blocks: u8,
        sub_blocks: u16,
        alignment: u8,
    ) -> PyResult<Self> {
        let information = ObjectTransmissionInformation::new(
            transfer_length,
            symbol_size,
            source_blocks,
            sub_blocks,
            alignment,
        );
        Ok(ObjectInformation(information.map_err(of_codec)?))
    }

    /// Reads the twelve bytes of RFC 6330 sections 3.3.2 and 3.3.3.
    #[staticmethod]
    fn from_bytes(data: &Bound<'_, PyAny>) -> PyResult<Self> {
        let data = Lent::new(data, "data")?;
        let information = ObjectTransmissionInformation::from_bytes(&data.read()?);
        Ok(ObjectInformation(information.map_err(of_codec)?))
    }

    /// The twelve bytes of RFC 6330 sections 3.3.2 and 3.3.3.
    #[pyo3(name = "to_bytes")]
    fn encoded<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.to_bytes())
    }

    /// F, the object's length in bytes.
    #[getter]
    fn transfer_length(&self) -> u64 {
        self.0.transfer_length()
    }

    /// T in bytes.
    #[getter]
    fn symbol_size(&self) -> u16 {
        self.0.symbol_size()
    }

    /// Z, the number of source blocks.
    #[getter]
    fn source_blocks(&self) -> u8 {
        self.0.source_blocks()
    }

    /// N, the number of sub-blocks of a block.
    #[getter]
    fn sub_blocks(&self) -> u16 {
        self.0.sub_blocks()
    }

    /// Al in bytes.
    #[getter]
    fn alignment(&self) -> u8 {
        self.0.alignment()
    }

    /// Where a source block stands in the object: first byte, bytes, symbols.
    fn block(&self, sbn: u8) -> PyResult<(u64, u64, u32)> {
        let SourceBlock { offset, len, symbols } = self.0.block(sbn).map_err(of_codec)?;
        Ok((offset, len, symbols))
    }

    fn __repr__(&self) -> String {
        format!(
            "ObjectInformation(transfer_length={}, symbol_size={}, source_blocks={}, sub_blocks={}, alignment={})",
            self.0.transfer_length(),
            self.0.symbol_size(),
            self.0.source_blocks(),
            self.0.sub_blocks(),
            self.0.alignment(),
        )
    }

    fn __getnewargs__(&self) -> (u64, u16, u8, u16, u8) {
        (
            self.0.transfer_length(),
            self.0.symbol_size(),
            self.0.source_blocks(),
            self.0.sub_blocks(),
            self.0.alignment(),
        )
    }
}
