//! Dividing an object among servers.

/// A contiguous part of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Share {
    /// Where it begins \[bytes\].
    pub offset: u64,
    /// How long it is \[bytes\], 1 or more.
    pub len: u64,
}

/// Divides `size` bytes in at most `servers` shares that differ by a symbol at most: whole symbols
/// but at the end. There are fewer shares than servers where there are fewer symbols.
pub(super) fn divide(size: u64, servers: usize, symbol_size: u16) -> Vec<Share> {
    let symbol = u64::from(symbol_size.max(1));
    let symbols = size.div_ceil(symbol);
    let count = (servers as u64).min(symbols);
    let mut shares = Vec::with_capacity(count as usize);
    let mut offset = 0;
    for index in 0..count {
        let in_share = symbols / count + u64::from(index < symbols % count);
        let len = in_share.saturating_mul(symbol).min(size - offset);
        shares.push(Share { offset, len });
        offset += len;
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn shares_are_whole_symbols_but_at_the_end() {
        let share = |offset, len| Share { offset, len };
        assert_eq!(divide(25, 2, 10), [share(0, 20), share(20, 5)]);
        assert_eq!(divide(25, 9, 10), [share(0, 10), share(10, 10), share(20, 5)]);
        assert_eq!(divide(1, 3, 10), [share(0, 1)]);
        assert_eq!(divide(0, 3, 10), []);
        assert_eq!(divide(30, 0, 10), []);
    }

    proptest! {
        #[test]
        fn shares_cover_the_object_once(size: u64, servers in 1_usize..300, symbol_size: u16) {
            let shares = divide(size, servers, symbol_size);
            let mut end = 0;
            for share in &shares {
                prop_assert_eq!(share.offset, end);
                prop_assert!(share.len > 0);
                end += share.len;
            }
            prop_assert_eq!(end, size);
            prop_assert!(shares.len() <= servers);
            let symbol = u64::from(symbol_size.max(1));
            let longest = shares.iter().map(|share| share.len.div_ceil(symbol)).max();
            let shortest = shares.iter().map(|share| share.len.div_ceil(symbol)).min();
            prop_assert!(longest.unwrap_or(0) - shortest.unwrap_or(0) <= 1);
        }
    }
}
