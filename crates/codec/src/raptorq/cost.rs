//! Cost model of the decoding paths.
//!
//! The model counts the work of each path in K', L, the unknowns u of the dense part, e lost
//! symbols and T bytes, and weighs it with times measured once by `wellspring-lab fec bench --path`.
//! It need not be exact: near a crossing the paths cost the same, and all give the same bytes.

use wellspring_kernels::Isa;

/// A decoding path: one way from received symbols to missing ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodingPath {
    /// Gaussian elimination over the missing symbols with the code's cached inverse.
    Dense,
    /// The same with coefficients and residuals from the code's cached encoding program.
    Syndrome,
    /// Inactivation decoding.
    Inactivation,
}

/// How symbols are computed after forward elimination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputMethod {
    /// Pivots and a combination of residuals: few symbols.
    Residuals,
    /// Pivots and sums of inactive symbols from tables.
    Tables,
    /// Intermediate symbols, all of which back-substitution computes: many symbols.
    BackSubstitution,
}

/// The size of a decoding or encoding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Size {
    /// K', the source symbols with padding.
    pub(crate) k_ext: u32,
    /// L, the intermediate symbols.
    pub(crate) l: u32,
    /// P, the permanently inactive symbols: with a few more, the unknowns of the dense part.
    pub(crate) p: u32,
    /// Source symbols lost, or repair symbols made.
    pub(crate) lost: u32,
    /// T \[bytes\].
    pub(crate) symbol_size: usize,
    /// Whether the code is small enough to keep its inverse.
    pub(crate) has_inverse: bool,
}

/// Times of one instruction set \[nanoseconds\].
struct Weights {
    /// A multiply-add of a byte in a matrix product.
    product: f64,
    /// A byte of an intermediate symbol in forward elimination or back-substitution, while the block fits the second cache.
    pass: f64,
}

const fn weights(isa: Isa) -> Weights {
    match isa {
        Isa::Avx512 => Weights { product: 0.008, pass: 0.125 },
        Isa::Gfni => Weights { product: 0.016, pass: 0.15 },
        Isa::Avx2 => Weights { product: 0.030, pass: 0.15 },
        Isa::Ssse3 | Isa::Neon => Weights { product: 0.055, pass: 0.25 },
        Isa::Scalar => Weights { product: 0.9, pass: 0.5 },
    }
}

/// Free columns, mostly: as many as there are HDPC rows, less the symbols beyond K.
const FREE: f64 = 9.0;

/// A block beyond the second cache \[bytes\]: what touches all of it waits for memory.
const CACHED: f64 = 2e6;
/// How long a multiply-add of a byte takes there, at least \[nanoseconds\].
const PRODUCT_BEYOND: f64 = 0.019;

impl Size {
    fn unknowns(&self) -> f64 {
        f64::from(self.p) + 0.2 * f64::from(self.l).sqrt() + 5.0
    }

    /// T; a 16-bit number, so the cast loses nothing.
    fn t(&self) -> f64 {
        self.symbol_size as f64
    }

    fn is_beyond_cache(&self) -> bool {
        f64::from(self.k_ext) * self.t() > CACHED
    }

    /// An intermediate symbol, computed once.
    fn pass(&self, weights: &Weights) -> f64 {
        self.t() * if self.is_beyond_cache() { 2.0 * weights.pass } else { weights.pass }
    }

    /// A multiply-add of a source symbol.
    fn product(&self, weights: &Weights) -> f64 {
        let least = if self.is_beyond_cache() { PRODUCT_BEYOND } else { 0.0 };
        self.t() * weights.product.max(least)
    }

    /// The forward elimination, and `outputs` symbols from it by the cheapest method.
    fn passes(&self, weights: &Weights, outputs: f64) -> f64 {
        let (l, pass, unknowns) = (f64::from(self.l), self.pass(weights), self.unknowns());
        let few = outputs * unknowns * weights.product * self.t();
        let tables = outputs * 60.0 + self.t() * self.tables(weights, (unknowns, FREE), outputs);
        let many = l * (50.0 + 1.3 * pass) + outputs * (60.0 + 0.5 * pass);
        l * (25.0 + pass) + few.min(tables).min(many)
    }

    /// A byte of each of so many symbols from tables, with so many free columns. A symbol is a sum of four
    /// pivots, and a table of sixteen rows costs half as many additions as it has rows again.
    fn tables(&self, weights: &Weights, (unknowns, free): (f64, f64), outputs: f64) -> f64 {
        let tables = unknowns / 4.0;
        free * unknowns * weights.product
            + weights.addition() * (24.0 * tables + outputs * (4.0 + tables))
    }
}

impl Weights {
    /// An addition of a byte.
    fn addition(&self) -> f64 {
        self.pass / 10.0
    }
}

/// The method for `size.lost` symbols that takes least time, with so many unknowns, of which some are free.
pub(crate) fn output_method(isa: Isa, size: &Size, unknowns: u32, free: u32) -> OutputMethod {
    let weights = weights(isa);
    let (outputs, free) = (f64::from(size.lost), f64::from(free));
    let unknowns = f64::from(unknowns);
    let (product, addition) = (weights.product, weights.addition());
    let few = outputs * (unknowns * product + 4.0 * addition);
    let tables = size.tables(&weights, (unknowns, free), outputs);
    // The inactive symbols come from tables too.
    let inactive = size.tables(&weights, (unknowns, free), unknowns);
    // Rows of the back-substitution have about seven terms, most of them near where there are few rows.
    let row = (3.4 + f64::from(size.l) / 290.0).min(11.0);
    let substitution = inactive + addition * (f64::from(size.l) * row + outputs * 6.5);
    if few <= tables.min(substitution) {
        OutputMethod::Residuals
    } else if tables <= substitution {
        OutputMethod::Tables
    } else {
        OutputMethod::BackSubstitution
    }
}

/// The estimated time of decoding by `path` \[nanoseconds\].
fn estimate(isa: Isa, path: DecodingPath, size: &Size) -> f64 {
    let weights = weights(isa);
    let (k, l, e) = (f64::from(size.k_ext), f64::from(size.l), f64::from(size.lost));
    // Gauss-Jordan elimination of the missing symbols: bookkeeping and row operations on bytes.
    let eliminate = e * e * (8.0 + 0.09 * e);
    match path {
        DecodingPath::Dense => {
            // Rows of the inverse summed and kept, and combined as the eliminated system says.
            let generators = e * (150.0 + weights.product * k * (40.0 + 1.5 * e));
            eliminate + generators + size.product(&weights) * e * k
        }
        DecodingPath::Syndrome => {
            let coefficients = if size.has_inverse {
                e * (80.0 + 30.0 * weights.product * k)
            } else {
                // The schedule on unit vectors of e bytes, whole lines at a time.
                l * (60.0 + 0.6 * 64.0 * (e / 64.0).ceil())
            };
            // Unknowns and residuals are in the second cache, however large the block.
            let each = e * (60.0 + weights.product * size.t() * (size.unknowns() + e));
            l * (25.0 + size.pass(&weights)) + coefficients + each + eliminate
        }
        DecodingPath::Inactivation => l * (200.0 + 0.35 * l.min(1000.0)) + size.passes(&weights, e),
    }
}

/// Whether `size.lost` repair symbols are made in less time as combinations of the source symbols
/// than by the encoding schedule.
pub(crate) fn dense_encoding_pays(isa: Isa, size: &Size) -> bool {
    let weights = weights(isa);
    let (k, count) = (f64::from(size.k_ext), f64::from(size.lost));
    let dense = count * (100.0 + k * (20.0 * weights.product + size.product(&weights)));
    dense <= size.passes(&weights, count)
}

/// Most missing symbols the syndrome path is taken for: it needs as many columns of the inverse.
const MAX_SYNDROME: u32 = 1024;

/// The path for a block that lacks `size.lost` source symbols: the one forced, if the code is not too
/// large for it, or the cheapest.
pub(crate) fn choose(size: &Size, isa: Isa, forced: Option<DecodingPath>) -> DecodingPath {
    let dense = size.has_inverse;
    let syndrome = size.lost <= MAX_SYNDROME;
    match forced {
        Some(DecodingPath::Dense) if dense => DecodingPath::Dense,
        Some(DecodingPath::Syndrome) if syndrome => DecodingPath::Syndrome,
        Some(_) => DecodingPath::Inactivation,
        None => {
            let paths = match (dense, syndrome) {
                (true, true) => {
                    &[DecodingPath::Dense, DecodingPath::Syndrome, DecodingPath::Inactivation][..]
                }
                (true, false) => &[DecodingPath::Dense, DecodingPath::Inactivation],
                (false, true) => &[DecodingPath::Syndrome, DecodingPath::Inactivation],
                (false, false) => &[DecodingPath::Inactivation],
            };
            cheapest(isa, size, paths)
        }
    }
}

/// The cheapest path of `paths`.
fn cheapest(isa: Isa, size: &Size, paths: &[DecodingPath]) -> DecodingPath {
    let mut best = (f64::INFINITY, DecodingPath::Inactivation);
    for &path in paths {
        let cost = estimate(isa, path, size);
        if cost < best.0 {
            best = (cost, path);
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(k_ext: u32, lost: u32, symbol_size: usize) -> Size {
        let l = k_ext + k_ext / 20 + 20;
        Size { k_ext, l, p: 15 + k_ext / 15, lost, symbol_size, has_inverse: k_ext <= 2000 }
    }

    const ALL: [DecodingPath; 3] =
        [DecodingPath::Dense, DecodingPath::Syndrome, DecodingPath::Inactivation];

    /// One lost symbol is never worth a solution of all, and once inactivation pays, more losses do
    /// not lead back.
    #[test]
    fn inactivation_is_for_heavy_loss() {
        for isa in Isa::ALL {
            for k in [10, 50, 101, 250, 500, 1002, 1500, 10_000] {
                for t in [16, 64, 256, 1500, 8192, 65_535] {
                    let paths = if k > 2000 { &ALL[1..] } else { &ALL };
                    let mut heavy = false;
                    for lost in 1..=k.min(MAX_SYNDROME) {
                        let path = cheapest(isa, &size(k, lost, t), paths);
                        assert!(
                            !heavy || path == DecodingPath::Inactivation,
                            "{isa} {k} {t} {lost}"
                        );
                        heavy = path == DecodingPath::Inactivation;
                        assert!(lost > 1 || !heavy, "{isa} K {k} T {t}");
                    }
                }
            }
        }
    }

    #[test]
    fn estimates_are_finite_and_grow_with_what_is_lost() {
        for isa in Isa::ALL {
            for path in ALL {
                for k in [10, 1002, 56_403] {
                    let costs = [1, 2, 100, k].map(|e| estimate(isa, path, &size(k, e, 1500)));
                    assert!(costs.iter().all(|cost| cost.is_finite() && *cost > 0.0));
                    assert!(costs.is_sorted() || k < 100, "{isa} {path:?} K {k}: {costs:?}");
                }
            }
        }
    }

    /// More symbols never lead back from a method that has its cost once to one that has it for each symbol.
    #[test]
    fn methods_follow_each_other_with_the_number_of_symbols() {
        for isa in Isa::ALL {
            for k in [10, 50, 101, 257, 1002, 10_000] {
                for (t, unknowns) in [(64, 17), (1500, 23), (8192, 60), (1500, 200)] {
                    let order = [
                        OutputMethod::Residuals,
                        OutputMethod::Tables,
                        OutputMethod::BackSubstitution,
                    ];
                    let place = |lost| {
                        let method = output_method(isa, &size(k, lost, t), unknowns, 10);
                        order.iter().position(|other| *other == method)
                    };
                    assert_eq!(place(1), Some(0), "{isa} K {k}");
                    assert!((1..=k).map(place).is_sorted(), "{isa} K {k} T {t} u {unknowns}");
                }
            }
        }
    }
}
