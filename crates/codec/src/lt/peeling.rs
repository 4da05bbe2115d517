//! Belief propagation: a symbol with one unknown neighbour gives it (LTTP §III-C, algorithms 1 and
//! 2).
//!
//! A row keeps no list of what is unknown of it, only how many that are and the XOR of their
//! indices: where one is left, the XOR is it. Each row is visited once for each of its neighbours,
//! so peeling takes time in proportion to the neighbours, whatever the order of arrival.

use super::rows::Rows;

/// No edge follows.
const END: u32 = u32::MAX;
/// The source symbol is not known.
const UNKNOWN: u32 = u32::MAX;
/// The source symbol counts as known, for elimination to find out.
const INACTIVE: u32 = u32::MAX - 1;

/// What a source symbol is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// Nothing yet.
    Unknown,
    /// A row all other neighbours of which were known before.
    Row(u32),
    /// Nothing: elimination has to find it.
    Inactive,
}

/// The graph of source symbols and rows, and how far it is peeled.
#[derive(Debug, Default)]
pub(super) struct Peeler {
    /// By source symbol: the row that gave it, or one of the constants above.
    by: Vec<u32>,
    /// Source symbols in the order in which they became known.
    order: Vec<u32>,
    /// By row: how many of its neighbours are unknown, and the XOR of those.
    unknown: Vec<u32>,
    sum: Vec<u32>,
    /// By source symbol: its first edge; by edge: the next one of the source symbol, and the row.
    first: Vec<u32>,
    next: Vec<u32>,
    row: Vec<u32>,
    /// Rows that had one unknown neighbour when last looked at.
    ready: Vec<u32>,
    /// Rows with unknown neighbours.
    open: u32,
}

impl Peeler {
    pub(super) fn reset(&mut self, k: u32) {
        self.by.clear();
        self.by.resize(k as usize, UNKNOWN);
        self.first.clear();
        self.first.resize(k as usize, END);
        self.order.clear();
        self.unknown.clear();
        self.sum.clear();
        self.next.clear();
        self.row.clear();
        self.ready.clear();
        self.open = 0;
    }

    /// Source symbols that became known, in that order.
    pub(super) fn order(&self) -> &[u32] {
        &self.order
    }

    /// Source symbols that are not known.
    pub(super) fn missing(&self) -> u32 {
        (self.by.len() - self.order.len()) as u32
    }

    /// Rows that can still give something.
    pub(super) fn open(&self) -> u32 {
        self.open
    }

    pub(super) fn source(&self, symbol: u32) -> Source {
        match self.by[symbol as usize] {
            UNKNOWN => Source::Unknown,
            INACTIVE => Source::Inactive,
            row => Source::Row(row),
        }
    }

    /// How many of a row's neighbours are unknown.
    pub(super) fn unknown(&self, row: u32) -> u32 {
        self.unknown[row as usize]
    }

    /// Takes the next row, which stands in `rows`, without what is known of it, and peels as far as
    /// it goes.
    pub(super) fn add(&mut self, rows: &Rows, row: u32) {
        debug_assert_eq!(row as usize, self.unknown.len());
        let range = rows.range(row);
        self.next.resize(range.end, END);
        self.row.resize(range.end, row);
        let (mut unknown, mut sum) = (0, 0);
        for (edge, &symbol) in range.clone().zip(rows.row(row)) {
            if self.by[symbol as usize] != UNKNOWN {
                continue;
            }
            unknown += 1;
            sum ^= symbol;
            self.next[edge] = core::mem::replace(&mut self.first[symbol as usize], edge as u32);
        }
        self.unknown.push(unknown);
        self.sum.push(sum);
        self.open += u32::from(unknown > 0);
        if unknown == 1 {
            self.ready.push(row);
            self.peel();
        }
    }

    /// Counts an unknown source symbol as known, and peels as far as it goes.
    pub(super) fn inactivate(&mut self, symbol: u32) {
        debug_assert_eq!(self.source(symbol), Source::Unknown);
        self.learn(symbol, INACTIVE);
        self.peel();
    }

    fn peel(&mut self) {
        while let Some(row) = self.ready.pop() {
            // Another row may have given the last one meanwhile.
            if self.unknown[row as usize] == 1 {
                self.learn(self.sum[row as usize], row);
            }
        }
    }

    /// Takes a source symbol out of all rows it is in.
    fn learn(&mut self, symbol: u32, by: u32) {
        self.by[symbol as usize] = by;
        self.order.push(symbol);
        let mut edge = self.first[symbol as usize];
        while edge != END {
            let row = self.row[edge as usize] as usize;
            self.unknown[row] -= 1;
            self.sum[row] ^= symbol;
            match self.unknown[row] {
                0 => self.open -= 1,
                1 => self.ready.push(row as u32),
                _ => {}
            }
            edge = self.next[edge as usize];
        }
    }

    pub(super) fn memory(&self) -> usize {
        let symbols = self.by.capacity() + self.order.capacity() + self.first.capacity();
        let rows = self.unknown.capacity() + self.sum.capacity() + self.ready.capacity();
        4 * (symbols + rows + self.next.capacity() + self.row.capacity())
    }
}
