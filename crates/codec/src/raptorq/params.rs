//! The parameters of a code, its tuples and its constraint rows (RFC 6330 §5.3.3, §5.3.5).

use wellspring_kernels::FoldColumns;

use super::random::{Modulus, rand_word};
use super::systematic::TABLE;
use crate::Error;

/// K'_max, the most source symbols a block may have (RFC 6330 §5.1.2).
pub const MAX_SOURCE_SYMBOLS: u32 = 56_403;

/// One more than the largest encoding symbol ID: ESIs have 24 bits (RFC 6330 §3.2).
pub const ENCODING_SYMBOLS: u32 = 1 << 24;

/// The degree distribution f\[0\] .. f\[30\] (RFC 6330 §5.3.5.2, Table 1).
const DEGREES: [u32; 31] = [
    0, 5_243, 529_531, 704_294, 791_675, 844_104, 879_057, 904_023, 922_747, 937_311, 948_962,
    958_494, 966_438, 973_160, 978_921, 983_914, 988_283, 992_138, 995_565, 998_631, 1_001_391,
    1_003_887, 1_006_157, 1_008_229, 1_010_129, 1_011_876, 1_013_490, 1_014_983, 1_016_370,
    1_017_662, 1_048_576,
];

/// Everything that follows from K' alone. Field names are the letters of RFC 6330 §5.3.3.
#[derive(Clone, Debug)]
pub(crate) struct Parameters {
    /// K', the source symbols with padding.
    pub(crate) k_ext: u32,
    /// LDPC symbols.
    pub(crate) s: u32,
    /// HDPC symbols.
    pub(crate) h: u32,
    /// LT intermediate symbols.
    pub(crate) w: u32,
    /// Intermediate symbols, L = K' + S + H.
    pub(crate) l: u32,
    /// Permanently inactive (PI) symbols, P = L - W.
    pub(crate) p: u32,
    /// LT symbols that are not LDPC symbols, B = W - S.
    pub(crate) b: u32,
    /// The smallest prime not below P.
    p1: u32,
    /// A and B of §5.3.5.4.
    tuple_a: u32,
    tuple_b: u32,
    mod_w: Modulus,
    mod_w1: Modulus,
    mod_p1: Modulus,
    mod_p11: Modulus,
}

impl Parameters {
    /// The parameters for blocks of `k` source symbols: those of the smallest K' not below it.
    pub(crate) fn for_source_symbols(k: u32) -> Result<Self, Error> {
        if k == 0 || k > MAX_SOURCE_SYMBOLS {
            let (got, limit) = (u64::from(k), u64::from(MAX_SOURCE_SYMBOLS));
            return Err(Error::SourceSymbols { got, limit });
        }
        let (k_ext, j, s, h, w) = TABLE[TABLE.partition_point(|row| row.0 < k)];
        let (j, s, h) = (u32::from(j), u32::from(s), u32::from(h));
        let l = k_ext + s + h;
        let p = l - w;
        let p1 = (p..).find(|&n| is_prime(n)).expect("there is a prime above any number");
        Ok(Self {
            k_ext,
            s,
            h,
            w,
            l,
            p,
            b: w - s,
            p1,
            tuple_a: (53_591 + j * 997) | 1,
            tuple_b: 10_267 * (j + 1),
            mod_w: Modulus::new(w),
            mod_w1: Modulus::new(w - 1),
            mod_p1: Modulus::new(p1),
            mod_p11: Modulus::new(p1 - 1),
        })
    }

    /// The intermediate symbols whose sum is encoding symbol `isi` (RFC 6330 §5.3.5.3), those below
    /// W first. Returns how many of them are below W.
    #[inline]
    pub(crate) fn lt_columns(&self, isi: u32, columns: &mut Vec<u32>) -> u32 {
        let y = self.tuple_b.wrapping_add(isi.wrapping_mul(self.tuple_a));
        let v = rand_word(y, 0) & 0xf_ffff;
        let d = degree(v).min(self.w - 2);
        let a = 1 + self.mod_w1.reduce(rand_word(y, 1));
        let mut b = self.mod_w.reduce(rand_word(y, 2));
        let d1 = if d < 4 { 2 + rand_word(isi, 3) % 2 } else { 2 };
        let a1 = 1 + self.mod_p11.reduce(rand_word(isi, 4));
        let mut b1 = self.mod_p1.reduce(rand_word(isi, 5));
        columns.push(b);
        for _ in 1..d {
            b += a;
            if b >= self.w {
                b -= self.w;
            }
            columns.push(b);
        }
        for j in 0..d1 {
            if j > 0 {
                b1 = self.next_pi(b1, a1);
            }
            while b1 >= self.p {
                b1 = self.next_pi(b1, a1);
            }
            columns.push(self.w + b1);
        }
        d
    }

    #[inline]
    fn next_pi(&self, b1: u32, a1: u32) -> u32 {
        let next = b1 + a1;
        if next >= self.p1 { next - self.p1 } else { next }
    }

    /// The LDPC rows (RFC 6330 §5.3.3.3), row after row in one vector, and where each row ends:
    /// its symbols below W, then the two PI symbols.
    pub(crate) fn ldpc_rows(&self) -> (Vec<u32>, Vec<u32>) {
        let s = self.s;
        let mut rows = vec![Vec::new(); s as usize];
        for i in 0..self.b {
            let a = 1 + i / s;
            for t in 0..3 {
                rows[((i + t * a) % s) as usize].push(i);
            }
        }
        let (mut columns, mut ends) = (Vec::new(), Vec::new());
        for (i, row) in (0..s).zip(rows) {
            columns.extend(row);
            columns.push(self.b + i);
            columns.push(self.w + i % self.p);
            columns.push(self.w + (i + 1) % self.p);
            ends.push(u32::try_from(columns.len()).expect("three entries a column"));
        }
        (columns, ends)
    }

    /// Which two HDPC symbols each of the first K'+S intermediate symbols enters through the
    /// matrix MT (RFC 6330 §5.3.3.3).
    pub(crate) fn hdpc_columns(&self) -> FoldColumns {
        let pairs = (1..=self.k_ext + self.s)
            .map(|j| {
                let first = rand_word(j, 6) % self.h;
                let second = (first + rand_word(j, 7) % (self.h - 1) + 1) % self.h;
                [first, second].map(|sum| u8::try_from(sum).expect("H is at most 16"))
            })
            .collect();
        FoldColumns::new(pairs, self.h as usize)
    }
}

/// `Deg[v]` before it is capped by W-2 (RFC 6330 §5.3.5.2).
#[inline]
fn degree(v: u32) -> u32 {
    // Two thirds of all tuples have degree two or three; the rest is found by counting.
    DEGREES.iter().skip(1).map(|&f| u32::from(v >= f)).sum::<u32>() + 1
}

fn is_prime(n: u32) -> bool {
    n > 1 && (2..).take_while(|d| d * d <= n).all(|d| !n.is_multiple_of(d))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn degrees_follow_table_1() {
        assert_eq!(degree(0), 1);
        assert_eq!(degree(5_242), 1);
        assert_eq!(degree(5_243), 2);
        assert_eq!(degree(1_017_661), 29);
        assert_eq!(degree(1_017_662), 30);
        assert_eq!(degree(1_048_575), 30);
    }

    #[test]
    fn every_table_row_gives_consistent_parameters() {
        for &(k_ext, ..) in &TABLE {
            let p = Parameters::for_source_symbols(k_ext).expect("a table value");
            assert_eq!(p.k_ext, k_ext);
            assert!(p.p >= p.h && p.p1 >= p.p && p.h <= 16 && p.b + p.s == p.w);
            let mut columns = Vec::new();
            for isi in [0, k_ext - 1, k_ext, ENCODING_SYMBOLS + k_ext] {
                columns.clear();
                let below = p.lt_columns(isi, &mut columns) as usize;
                assert!(columns[..below].iter().all(|&c| c < p.w));
                assert!(columns[below..].iter().all(|&c| (p.w..p.l).contains(&c)));
            }
        }
    }

    #[test]
    fn block_sizes_out_of_range_are_refused() {
        for got in [0, MAX_SOURCE_SYMBOLS + 1, u32::MAX] {
            let limit = u64::from(MAX_SOURCE_SYMBOLS);
            let error = Parameters::for_source_symbols(got).expect_err("out of range");
            assert_eq!(error, Error::SourceSymbols { got: u64::from(got), limit });
        }
    }
}
