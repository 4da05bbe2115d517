//! Dividing an object among servers.

/// A contiguous part of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Share {
    /// Where it begins \[bytes\].
    pub offset: u64,
    /// How long it is \[bytes\], 1 or more.
    pub len: u64,
}

impl Share {
    /// What is left of it behind its first `len` bytes.
    pub(super) fn behind(self, len: u64) -> Share {
        let len = len.min(self.len);
        Share { offset: self.offset + len, len: self.len - len }
    }

    /// It further on in the object.
    pub(super) fn moved_by(self, bytes: u64) -> Share {
        Share { offset: self.offset + bytes, ..self }
    }
}

/// Divides `size` bytes in at most `servers` shares that differ by a unit at most, a symbol's length
/// or a block's: whole units but at the end. There are fewer shares than servers where there are
/// fewer units.
pub(super) fn divide(size: u64, servers: usize, unit: u64) -> Vec<Share> {
    let unit = unit.max(1);
    let units = size.div_ceil(unit);
    let count = (servers as u64).min(units);
    let mut shares = Vec::with_capacity(count as usize);
    let mut offset = 0;
    for index in 0..count {
        let in_share = units / count + u64::from(index < units % count);
        let len = in_share.saturating_mul(unit).min(size - offset);
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
    fn shares_are_whole_units_but_at_the_end() {
        let share = |offset, len| Share { offset, len };
        assert_eq!(divide(25, 2, 10), [share(0, 20), share(20, 5)]);
        assert_eq!(divide(25, 9, 10), [share(0, 10), share(10, 10), share(20, 5)]);
        assert_eq!(divide(1, 3, 10), [share(0, 1)]);
        assert_eq!(divide(0, 3, 10), []);
        assert_eq!(divide(30, 0, 10), []);
    }

    #[test]
    fn what_is_left_of_a_share_lies_behind_what_is_there() {
        let share = Share { offset: 40, len: 25 };
        assert_eq!(share.behind(10), Share { offset: 50, len: 15 });
        assert_eq!(share.behind(25), Share { offset: 65, len: 0 });
        assert_eq!(share.behind(99), Share { offset: 65, len: 0 });
        assert_eq!(share.moved_by(2), Share { offset: 42, len: 25 });
    }

    proptest! {
        #[test]
        fn shares_cover_the_object_once(size: u64, servers in 1_usize..300, unit in 0_u64..1 << 24) {
            let shares = divide(size, servers, unit);
            let mut end = 0;
            for share in &shares {
                prop_assert_eq!(share.offset, end);
                prop_assert!(share.len > 0);
                end += share.len;
            }
            prop_assert_eq!(end, size);
            prop_assert!(shares.len() <= servers);
            let unit = unit.max(1);
            let longest = shares.iter().map(|share| share.len.div_ceil(unit)).max();
            let shortest = shares.iter().map(|share| share.len.div_ceil(unit)).min();
            prop_assert!(longest.unwrap_or(0) - shortest.unwrap_or(0) <= 1);
        }
    }
}
