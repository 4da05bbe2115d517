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
    /// LT columns of the source symbols (ISI 0 to K'-1), which every block has.
    source_columns: Vec<u16>,
    /// For each source symbol, where its columns end, and how many of them are below W.
    source_ends: Vec<(u32, u8)>,
}

impl Constraints {
    pub(crate) fn new(k: u32) -> Result<Self, Error> {
        let params = Parameters::for_source_symbols(k)?;
        let (ldpc_columns, ldpc_ends) = params.ldpc_rows();
        let hdpc = params.hdpc_columns();
        let (source_columns, source_ends) = source_rows(&params);
        Ok(Self { params, ldpc_columns, ldpc_ends, hdpc, source_columns, source_ends })
    }

    /// As [`Parameters::lt_columns`], from memory for source symbols.
    #[inline]
    pub(crate) fn lt_columns(&self, isi: u32, columns: &mut Vec<u32>) -> u32 {
        let Some(&(end, below)) = self.source_ends.get(isi as usize) else {
            return self.params.lt_columns(isi, columns);
        };
        let start = if isi == 0 { 0 } else { self.source_ends[isi as usize - 1].0 };
        let known = &self.source_columns[start as usize..end as usize];
        columns.extend(known.iter().copied().map(u32::from));
        below.into()
    }

    pub(crate) fn memory(&self) -> usize {
        4 * (self.ldpc_columns.capacity() + self.ldpc_ends.capacity())
            + self.hdpc.memory()
            + 2 * self.source_columns.capacity()
            + size_of::<(u32, u8)>() * self.source_ends.capacity()
    }
}

fn source_rows(params: &Parameters) -> (Vec<u16>, Vec<(u32, u8)>) {
    let (mut all, mut columns) = (Vec::new(), Vec::new());
    let ends = (0..params.k_ext).map(|isi| {
        columns.clear();
        let below = params.lt_columns(isi, &mut columns);
        let narrow = |&column: &u32| u16::try_from(column).expect("L is below 2^16");
        all.extend(columns.iter().map(narrow));
        let end = u32::try_from(all.len()).expect("at most 33 columns a symbol");
        (end, u8::try_from(below).expect("degrees are at most 30"))
    });
    let ends = ends.collect();
    all.shrink_to_fit();
    (all, ends)
}
