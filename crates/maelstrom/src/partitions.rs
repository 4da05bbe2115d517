//! Partitions of the addresses on both sides of the link, as a set.

/// Most partitions of a site: one bit of a hello each.
pub const MAX_PARTITIONS: u8 = 64;
/// Partitions by number, one bit each.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Partitions(u64);

impl Partitions {
    /// None.
    pub const NONE: Partitions = Partitions(0);

    /// The first so many.
    pub fn first(count: u8) -> Self {
        Partitions(u64::MAX.checked_shr(64 - u32::from(count)).unwrap_or(0))
    }

    /// Whether one of them is that.
    pub fn has(self, partition: u8) -> bool {
        partition < MAX_PARTITIONS && self.0 >> partition & 1 == 1
    }

    /// Their numbers, rising.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (0..MAX_PARTITIONS).filter(move |&partition| self.has(partition))
    }

    /// These and that one, if there can be one of that number.
    #[must_use]
    pub fn with(self, partition: u8) -> Self {
        Partitions(self.0 | 1_u64.checked_shl(partition.into()).unwrap_or(0))
    }

    /// These, less the others.
    pub(crate) fn without(self, others: Self) -> Self {
        Partitions(self.0 & !others.0)
    }

    /// Those that are in both.
    pub(crate) fn common(self, others: Self) -> Self {
        Partitions(self.0 & others.0)
    }

    /// Those that are in either.
    pub(crate) fn union(self, others: Self) -> Self {
        Partitions(self.0 | others.0)
    }

    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    pub(crate) fn from_bits(bits: u64) -> Self {
        Partitions(bits)
    }
}
