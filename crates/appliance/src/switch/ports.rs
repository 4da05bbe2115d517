//! Sets of a switch's ports.

/// A set of ports, by number.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PortSet(u64);

impl PortSet {
    /// The most ports that a switch has.
    pub const MOST: usize = 64;

    /// No port.
    pub const NONE: PortSet = PortSet(0);

    /// Every port of a switch that has so many.
    pub fn first(count: usize) -> Self {
        PortSet(u64::MAX.checked_shr(64 - count.min(64) as u32).unwrap_or(0))
    }

    /// One port.
    pub fn one(port: usize) -> Self {
        PortSet(1_u64.checked_shl(port as u32).unwrap_or(0))
    }

    /// Ports of either set.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        PortSet(self.0 | other.0)
    }

    /// All but that port.
    #[must_use]
    pub fn without(self, port: usize) -> Self {
        PortSet(self.0 & !Self::one(port).0)
    }

    /// Whether a port is in it.
    pub fn contains(self, port: usize) -> bool {
        self.0 & Self::one(port).0 != 0
    }

    /// The ports, in order.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let port = rest.trailing_zeros() as usize;
            rest &= rest.wrapping_sub(1);
            (port < Self::MOST).then_some(port)
        })
    }
}

impl FromIterator<usize> for PortSet {
    fn from_iter<T: IntoIterator<Item = usize>>(ports: T) -> Self {
        ports.into_iter().fold(Self::NONE, |set, port| set.or(Self::one(port)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_hold_what_they_were_given() {
        for count in [0, 1, 3, 63, 64] {
            let all: Vec<usize> = PortSet::first(count).iter().collect();
            assert_eq!(all, (0..count).collect::<Vec<_>>());
        }
        let some: PortSet = [0, 5, 63].into_iter().collect();
        assert!(some.contains(63) && !some.contains(1) && !some.contains(64));
        assert_eq!(some.without(5).iter().collect::<Vec<_>>(), [0, 63]);
        assert_eq!(some.or(PortSet::one(1)).iter().collect::<Vec<_>>(), [0, 1, 5, 63]);
        assert_eq!(PortSet::one(64), PortSet::NONE);
    }
}
