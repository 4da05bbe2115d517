//! Numbers in listings: seven bits a byte, lowest first (LEB128).

/// Appends a number.
pub(crate) fn put(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Takes a number off the beginning; `None` if there is none, or it has more than 64 bits.
pub(crate) fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7f);
        if bits << shift >> shift != bits {
            return None;
        }
        number |= bits << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// A signed number as one that is small when the signed one is near zero.
pub(crate) fn folded(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

/// The inverse of [`folded`].
pub(crate) fn unfolded(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_number_of_more_than_64_bits_is_none() {
        for bytes in [&[0xff; 11][..], &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]] {
            assert_eq!(take(&mut &*bytes), None);
        }
        assert_eq!(take(&mut &[0x80][..]), None);
    }

    proptest! {
        #[test]
        fn numbers_come_back(number: u64, signed: i64) {
            let mut bytes = Vec::new();
            put(number, &mut bytes);
            put(folded(signed), &mut bytes);
            let mut rest = &bytes[..];
            prop_assert_eq!(take(&mut rest), Some(number));
            prop_assert_eq!(take(&mut rest).map(unfolded), Some(signed));
            prop_assert!(rest.is_empty());
        }
    }
}
