//! LT decoding on indices: the recoverable source symbols, without bytes.

use super::inactivation::Inactivation;
use super::peeling::{Peeler, Source};
use super::rows::Rows;

/// How a decoder makes use of the symbols it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// LTTP's standard decoder: its algorithm 2 without the pre-process, which is all that it says
    /// it adds. A source symbol that becomes known is taken out of the symbols that are there, and
    /// of none that come later: a symbol is of use only if none of its neighbours is known when it
    /// comes. Of the readings of the paper the one that comes near Fig. 5.
    Standard,
    /// Belief propagation in rounds over all that was received, as the paper describes its
    /// algorithm 1 beside Fig. 3: the first when there are as many encoding symbols as source
    /// symbols, the next ones whenever a symbol of degree one comes. Between rounds symbols are
    /// stored and not looked at.
    Rounds,
    /// LTTP's algorithm 2, the improved decoder: belief propagation with every symbol as it
    /// arrives, after what is known already was taken out of it.
    Improved,
    /// Belief propagation, and Gaussian elimination where it stops: completes as soon as the
    /// symbols determine the block, which no decoder can do sooner. Not in the paper, and what its
    /// code overhead takes (see the book's page on LT codes).
    Elimination,
}

impl Method {
    /// All of them, from the one that needs most symbols to the one that needs fewest.
    pub const ALL: [Self; 4] = [Self::Standard, Self::Rounds, Self::Improved, Self::Elimination];

    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::Rounds => "rounds",
            Self::Improved => "improved",
            Self::Elimination => "elimination",
        }
    }
}

/// What became of an encoding symbol given to a decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// It is kept.
    New,
    /// It adds nothing that is not known, or nothing the method can make use of: it was dropped.
    Redundant,
    /// There is no room for more symbols, or for as many neighbours: it was dropped.
    Full,
}

/// Neighbours a symbol may have on average before there is no room for them. Means of useful
/// distributions grow with the logarithm of k, and are below 20.
const MEAN_NEIGHBOURS: usize = 64;

/// Encoding symbols a decoder of blocks of `k` symbols keeps at most, by default.
pub(super) fn default_max_symbols(k: u32) -> u32 {
    4 * k + 64
}

/// Most symbols a decoder may be set to keep: their neighbours are counted in 32 bits.
const MAX_SYMBOLS: u32 = 1 << 24;

/// The symbols received and what follows from them.
#[derive(Debug)]
pub(super) struct Structure {
    k: u32,
    method: Method,
    max_symbols: u32,
    pub(super) rows: Rows,
    pub(super) peeler: Peeler,
    /// Rows the peeler was given; others wait for a round.
    peeled: u32,
    pub(super) inactivation: Inactivation,
}

impl Structure {
    pub(super) fn new(k: u32, method: Method) -> Self {
        let mut structure = Self {
            k,
            method,
            max_symbols: default_max_symbols(k),
            rows: Rows::default(),
            peeler: Peeler::default(),
            peeled: 0,
            inactivation: Inactivation::default(),
        };
        structure.reset(k, method);
        structure
    }

    /// Turns to another block; memory is kept.
    pub(super) fn reset(&mut self, k: u32, method: Method) {
        if k != self.k {
            self.max_symbols = default_max_symbols(k);
        }
        (self.k, self.method) = (k, method);
        self.rows.clear();
        self.peeler.reset(k);
        self.peeled = 0;
        self.inactivation.reset();
    }

    pub(super) fn set_max_symbols(&mut self, max: u32) {
        self.max_symbols = max.min(MAX_SYMBOLS);
    }

    pub(super) fn method(&self) -> Method {
        self.method
    }

    /// Takes a symbol of those neighbours, which were checked. If it is new, it is the last row.
    pub(super) fn add(&mut self, neighbours: &[u32]) -> Added {
        if self.is_complete() {
            return Added::Redundant;
        }
        let begun = self.inactivation.began().is_some();
        if !begun && !self.is_useful(neighbours) {
            return Added::Redundant;
        }
        let row = self.rows.len() as u32;
        let room = MEAN_NEIGHBOURS * self.max_symbols as usize;
        if row >= self.max_symbols || self.rows.neighbours() + neighbours.len() > room {
            return Added::Full;
        }
        if begun && !self.inactivation.add(neighbours, row) {
            return Added::Redundant;
        }
        self.rows.push(neighbours);
        if !begun {
            self.advance(neighbours.len());
        }
        Added::New
    }

    /// Whether belief propagation can make use of a symbol of those neighbours.
    fn is_useful(&self, neighbours: &[u32]) -> bool {
        let unknown = |symbol: &u32| self.peeler.source(*symbol) == Source::Unknown;
        match self.method {
            Method::Standard => neighbours.iter().all(unknown),
            // Not read before the next round.
            Method::Rounds => true,
            Method::Improved | Method::Elimination => neighbours.iter().any(unknown),
        }
    }

    /// Does what the method does after a symbol of that degree.
    fn advance(&mut self, degree: usize) {
        let received = self.rows.len() as u32;
        match self.method {
            Method::Rounds => {
                // One of degree one begins a round once the first one was run.
                if received == self.k || (received > self.k && degree == 1) {
                    self.peel();
                }
            }
            Method::Standard | Method::Improved => self.peel(),
            Method::Elimination => {
                self.peel();
                if self.peeler.missing() > 0 && self.peeler.open() >= self.peeler.missing() {
                    self.inactivation.begin(&self.rows, &mut self.peeler);
                }
            }
        }
    }

    fn peel(&mut self) {
        while (self.peeled as usize) < self.rows.len() {
            self.peeler.add(&self.rows, self.peeled);
            self.peeled += 1;
        }
    }

    /// Whether every source symbol can be recovered.
    pub(super) fn is_complete(&self) -> bool {
        match self.inactivation.began() {
            None => self.peeler.missing() == 0,
            Some(_) => self.inactivation.deficit() == 0,
        }
    }

    /// Source symbols that peeling knows, in the order in which they follow. All of them if it has
    /// completed the block, or elimination has.
    pub(super) fn known(&self) -> &[u32] {
        let known = match self.inactivation.began() {
            Some(before) if !self.is_complete() => before,
            _ => self.peeler.order().len(),
        };
        &self.peeler.order()[..known]
    }

    /// At least so many more symbols are needed.
    pub(super) fn wanted(&self) -> u32 {
        if self.is_complete() {
            return 0;
        }
        let waiting = self.rows.len() as u32 - self.peeled.min(self.rows.len() as u32);
        let short = match self.inactivation.began() {
            Some(_) => self.inactivation.deficit() as u32,
            None => self.peeler.missing().saturating_sub(self.peeler.open() + waiting),
        };
        short.max(1)
    }

    pub(super) fn memory(&self) -> usize {
        self.rows.memory() + self.peeler.memory() + self.inactivation.memory()
    }
}
