//! Columns of the HDPC fold.

/// Which two sums each column of the HDPC matrix is added to (RFC 6330 §5.3.3.3), checked.
#[derive(Clone, Debug)]
pub struct FoldColumns {
    pub(crate) pairs: Vec<[u8; 2]>,
    /// For each column the number of its pair among all pairs of sums, see [`pair_number`].
    pub(crate) numbers: Vec<u16>,
    pub(crate) sums: usize,
}

/// The number of a pair of different sums among all of them, in either order.
#[inline]
pub(crate) fn pair_number(one: usize, other: usize) -> usize {
    let (low, high) = if one < other { (one, other) } else { (other, one) };
    high * (high - 1) / 2 + low
}

impl FoldColumns {
    /// Takes one pair a column; the pair of the last column is not used.
    ///
    /// # Panics
    ///
    /// If a pair names one sum twice or a sum that is not below `sums`, there are more sums than a byte can
    /// name, or there are no columns.
    #[must_use]
    pub fn new(pairs: Vec<[u8; 2]>, sums: usize) -> Self {
        assert!(!pairs.is_empty(), "no columns to fold");
        assert!(sums <= 256, "more sums than bytes can name");
        assert!(pairs.iter().flatten().all(|&sum| usize::from(sum) < sums), "no such sum");
        assert!(pairs.iter().all(|[one, other]| one != other), "a sum twice");
        let number = |&[one, other]: &[u8; 2]| {
            // At most 256 times 255 halves.
            pair_number(one.into(), other.into()) as u16
        };
        let numbers = pairs.iter().map(number).collect();
        Self { pairs, numbers, sums }
    }

    /// Number of different pairs of sums.
    pub(crate) fn pair_count(&self) -> usize {
        self.sums * (self.sums - 1) / 2
    }

    /// Number of columns.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Whether there are no columns, which `new` excludes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Number of sums.
    #[must_use]
    pub fn sums(&self) -> usize {
        self.sums
    }

    /// Bytes allocated.
    #[must_use]
    pub fn memory(&self) -> usize {
        2 * (self.pairs.capacity() + self.numbers.capacity())
    }

    pub(crate) fn pairs(&self) -> &[[u8; 2]] {
        &self.pairs
    }
}
