//! Elimination where peeling stops: some source symbols count as known, the others follow as sums
//! of them, and what rows are left over are equations in the few that were set aside.
//!
//! It begins when there are as many rows as unknown source symbols, for no sooner can they be
//! independent, and is never begun again: a symbol that comes later is one equation more.

use super::peeling::{Peeler, Source};
use super::rows::Rows;
use crate::binary::{Binary, ones, words};

/// The inactive source symbols, and what is known of them.
#[derive(Debug, Default)]
pub(super) struct Inactivation {
    /// How many source symbols peeling knew before; nothing was begun if there is none.
    began: Option<usize>,
    /// Inactive source symbols, in the order of their bits.
    inactive: Vec<u32>,
    /// Words of a row of bits.
    words: usize,
    /// By source symbol: the inactive ones in it, beside what symbols give.
    bits: Vec<u64>,
    system: Binary,
    /// By bit: the row of the system that is solved for it, once it is complete.
    solved: Vec<u32>,
    /// The rows that became equations.
    equations: Vec<u32>,
    scratch: Vec<u64>,
    /// By source symbol: how many open rows it was in when this began.
    degrees: Vec<u32>,
}

impl Inactivation {
    pub(super) fn reset(&mut self) {
        self.began = None;
    }

    /// How many source symbols peeling knew before this began, if it has begun.
    pub(super) fn began(&self) -> Option<usize> {
        self.began
    }

    /// How many more independent symbols it takes, once begun.
    pub(super) fn deficit(&self) -> usize {
        self.system.deficit()
    }

    /// Inactive source symbols; equation `i` is that of `equations()[i]`.
    pub(super) fn inactive(&self) -> &[u32] {
        &self.inactive
    }

    /// Rows that the inactive source symbols follow from.
    pub(super) fn equations(&self) -> &[u32] {
        &self.equations
    }

    /// Whether a source symbol depends on inactive ones.
    pub(super) fn depends(&self, symbol: u32) -> bool {
        self.bits_of(symbol).iter().any(|word| *word != 0)
    }

    /// Solves for the inactive source symbols, once the deficit is zero: they are then what
    /// [`combination`](Self::combination) says.
    pub(super) fn solve(&mut self) {
        debug_assert_eq!(self.deficit(), 0);
        self.solved.clear();
        self.solved.resize(self.inactive.len(), 0);
        for (row, &bit) in (0..).zip(self.system.pivots()) {
            self.solved[bit as usize] = row;
        }
    }

    /// The equations whose right-hand sides add up to inactive source symbol number `bit`.
    pub(super) fn combination(&self, bit: usize) -> impl Iterator<Item = u32> {
        ones(self.system.row(self.solved[bit] as usize).1)
    }

    /// Sets source symbols aside until peeling has gone through all, and makes equations of the
    /// rows that gave none.
    pub(super) fn begin(&mut self, rows: &Rows, peeler: &mut Peeler) {
        let known = peeler.order().len();
        self.began = Some(known);
        self.set_aside(rows, peeler);
        self.words = words(self.inactive.len());
        self.express(rows, peeler, known);
        self.system.reset(self.inactive.len());
        self.equations.clear();
        for row in 0..rows.len() as u32 {
            let gave = |symbol: &u32| peeler.source(*symbol) == Source::Row(row);
            if self.system.deficit() > 0 && !rows.row(row).iter().any(gave) {
                self.sum(rows.row(row));
                if self.system.add(&self.scratch) {
                    self.equations.push(row);
                }
            }
        }
    }

    /// Adds the equation of a row of those neighbours, which will be row `row` if it is new; says
    /// whether it is.
    pub(super) fn add(&mut self, neighbours: &[u32], row: u32) -> bool {
        self.sum(neighbours);
        let new = self.system.add(&self.scratch);
        if new {
            self.equations.push(row);
        }
        new
    }

    /// Chooses what counts as known until nothing is unknown.
    fn set_aside(&mut self, rows: &Rows, peeler: &mut Peeler) {
        self.inactive.clear();
        self.degrees.clear();
        self.degrees.resize(peeler.order().len() + peeler.missing() as usize, 0);
        for row in (0..rows.len() as u32).filter(|row| peeler.unknown(*row) > 0) {
            rows.row(row).iter().for_each(|symbol| self.degrees[*symbol as usize] += 1);
        }
        while let Some(symbol) = self.choose(rows, peeler) {
            self.inactive.push(symbol);
            peeler.inactivate(symbol);
        }
        for symbol in 0..self.degrees.len() as u32 {
            if peeler.source(symbol) == Source::Unknown {
                self.inactive.push(symbol);
                peeler.inactivate(symbol);
            }
        }
    }

    /// A source symbol of a row with the fewest unknown ones, so that peeling goes on soonest;
    /// among all of those the one in most rows, so that it goes on furthest.
    fn choose(&self, rows: &Rows, peeler: &Peeler) -> Option<u32> {
        let open = || (0..rows.len() as u32).filter(|row| peeler.unknown(*row) > 0);
        let fewest = open().map(|row| peeler.unknown(row)).min()?;
        open()
            .filter(|row| peeler.unknown(*row) == fewest)
            .flat_map(|row| rows.row(row))
            .copied()
            .filter(|symbol| peeler.source(*symbol) == Source::Unknown)
            .max_by_key(|symbol| (self.degrees[*symbol as usize], *symbol))
    }

    /// Writes down which inactive source symbols the others depend on, in the order they follow.
    fn express(&mut self, rows: &Rows, peeler: &Peeler, known: usize) {
        self.bits.clear();
        self.bits.resize(peeler.order().len() * self.words, 0);
        let mut inactive = 0;
        for &symbol in &peeler.order()[known..] {
            let start = symbol as usize * self.words;
            if let Source::Row(row) = peeler.source(symbol) {
                // Its own bits are zero still, so all neighbours of the row may be added.
                self.sum(rows.row(row));
                self.bits[start..start + self.words].copy_from_slice(&self.scratch);
            } else {
                self.bits[start + inactive / 64] |= 1 << (inactive % 64);
                inactive += 1;
            }
        }
    }

    /// Adds up the bits of source symbols.
    fn sum(&mut self, symbols: &[u32]) {
        self.scratch.clear();
        self.scratch.resize(self.words, 0);
        for &symbol in symbols {
            let start = symbol as usize * self.words;
            let bits = &self.bits[start..start + self.words];
            self.scratch.iter_mut().zip(bits).for_each(|(sum, bits)| *sum ^= bits);
        }
    }

    fn bits_of(&self, symbol: u32) -> &[u64] {
        &self.bits[symbol as usize * self.words..][..self.words]
    }

    pub(super) fn memory(&self) -> usize {
        let numbers = self.inactive.capacity()
            + self.equations.capacity()
            + self.degrees.capacity()
            + self.solved.capacity();
        8 * (self.bits.capacity() + self.scratch.capacity()) + 4 * numbers + self.system.memory()
    }
}
