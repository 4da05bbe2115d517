//! The part of the constraint matrix that depends on K' alone.

use wellspring_kernels::FoldColumns;

use super::params::Parameters;
use crate::Error;

/// LDPC rows and HDPC columns of one K' (RFC 6330 §5.3.3.3), ready to be solved with.
#[derive(Debug)]
pub(crate) struct Constraints {
    pub(crate) params: Parameters,
    pub(crate) ldpc_columns: Vec<u32>,
    pub(crate) ldpc_ends: Vec<u32>,
    pub(crate) hdpc: FoldColumns,
}

impl Constraints {
    pub(crate) fn new(k: u32) -> Result<Self, Error> {
        let params = Parameters::for_source_symbols(k)?;
        let (ldpc_columns, ldpc_ends) = params.ldpc_rows();
        let hdpc = params.hdpc_columns();
        Ok(Self { params, ldpc_columns, ldpc_ends, hdpc })
    }

    pub(crate) fn memory(&self) -> usize {
        4 * (self.ldpc_columns.capacity() + self.ldpc_ends.capacity()) + 2 * self.hdpc.len()
    }
}
