//! The field GF(2^8) of RFC 6330 §5.7 and the multiplication tables the vector kernels read.
//!
//! Elements are bytes, addition is XOR, and multiplication is modulo x^8 + x^4 + x^3 + x^2 + 1
//! with α = 2 as generator. All tables are computed at compile time.

/// The reduction polynomial without its x^8 term.
const POLYNOMIAL: u8 = 0x1d;

const fn exp_table() -> [u8; 512] {
    let mut table = [0; 512];
    let mut value: u8 = 1;
    let mut i = 0;
    while i < 510 {
        table[i] = value;
        value = double(value);
        i += 1;
    }
    table
}

const fn log_table() -> [u8; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 255 {
        table[EXP[i] as usize] = i as u8;
        i += 1;
    }
    table
}

/// `EXP[i]` is α^i; two periods, so that a sum of two logarithms needs no reduction.
static EXP: [u8; 512] = {
    const TABLE: [u8; 512] = exp_table();
    TABLE
};
/// `LOG[x]` is the logarithm of x ≠ 0 to the base α.
static LOG: [u8; 256] = {
    const TABLE: [u8; 256] = log_table();
    TABLE
};

/// α·x.
#[must_use]
pub const fn double(x: u8) -> u8 {
    (x << 1) ^ (POLYNOMIAL * (x >> 7))
}

/// The product of two field elements (RFC 6330 §5.7.2).
#[must_use]
#[inline]
pub fn mul(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 {
        return 0;
    }
    EXP[usize::from(LOG[usize::from(a)]) + usize::from(LOG[usize::from(b)])]
}

/// The multiplicative inverse of `a`.
///
/// # Panics
///
/// If `a` is zero, which has no inverse.
#[must_use]
#[inline]
pub fn inverse(a: u8) -> u8 {
    assert!(a != 0, "zero has no inverse");
    EXP[255 - usize::from(LOG[usize::from(a)])]
}

/// α^`exponent`, for any exponent.
#[must_use]
pub fn alpha_power(exponent: usize) -> u8 {
    EXP[exponent % 255]
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const fn slow_mul(mut a: u8, mut b: u8) -> u8 {
    let mut product = 0;
    while b != 0 {
        if b & 1 == 1 {
            product ^= a;
        }
        a = double(a);
        b >>= 1;
    }
    product
}

/// Products of one coefficient with the sixteen low and the sixteen high nibbles, for kernels that
/// multiply by two byte shuffles.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[repr(C, align(32))]
pub(crate) struct Nibbles {
    pub(crate) low: [u8; 16],
    pub(crate) high: [u8; 16],
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const fn nibble_tables() -> [Nibbles; 256] {
    let mut tables = [const { Nibbles { low: [0; 16], high: [0; 16] } }; 256];
    let mut c = 0;
    while c < 256 {
        let mut n = 0;
        while n < 16 {
            tables[c].low[n] = slow_mul(c as u8, n as u8);
            tables[c].high[n] = slow_mul(c as u8, (n as u8) << 4);
            n += 1;
        }
        c += 1;
    }
    tables
}

/// Nibble products of every coefficient: 8 KiB.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) static NIBBLES: [Nibbles; 256] = nibble_tables();

#[cfg(target_arch = "x86_64")]
const fn affine_tables() -> [u64; 256] {
    let mut tables = [0; 256];
    let mut c = 0;
    while c < 256 {
        let mut out_bit = 0;
        while out_bit < 8 {
            let mut row: u64 = 0;
            let mut in_bit = 0;
            while in_bit < 8 {
                let product = slow_mul(c as u8, 1 << in_bit);
                row |= (((product >> out_bit) & 1) as u64) << in_bit;
                in_bit += 1;
            }
            // The instruction takes the row of output bit i from byte 7-i.
            tables[c] |= row << (8 * (7 - out_bit));
            out_bit += 1;
        }
        c += 1;
    }
    tables
}

/// Multiplication by every coefficient as an 8x8 bit matrix, in the order `GF2P8AFFINEQB` reads:
/// that instruction's own multiply uses another polynomial, its affine form serves any. 2 KiB.
#[cfg(target_arch = "x86_64")]
pub(crate) static AFFINE: [u64; 256] = affine_tables();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_agree_with_shift_and_add() {
        for a in 0..=255 {
            for b in 0..=255 {
                assert_eq!(mul(a, b), slow_mul(a, b));
            }
            if a != 0 {
                assert_eq!(mul(a, inverse(a)), 1);
            }
        }
    }

    #[test]
    fn alpha_has_order_255() {
        assert_eq!(alpha_power(0), 1);
        assert_eq!(alpha_power(255), 1);
        assert!((1..255).all(|i| alpha_power(i) != 1));
    }
}
