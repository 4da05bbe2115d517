//! Kinds of repairs that name all their packets.

/// What a repair that names all its packets is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A layer of interleaves.
    Layer,
    /// A Reed-Solomon block.
    Block,
}

impl Kind {
    /// How much longer its symbol may be than the longest packet \[bytes\].
    pub(crate) fn longer_by(self) -> usize {
        match self {
            Kind::Layer => 0,
            // The packets' combined length, and padding to an even one.
            Kind::Block => 3,
        }
    }
}
