//! Credits: numbered rights to send one symbol, and what became of them.

use wellspring_core::Time;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CreditState {
    /// In flight, and its block counts on it.
    Counted,
    /// In flight, but not counted on: a probe, or overtaken by a hedge.
    Uncounted,
    /// Answered, or taken for lost.
    Settled,
}

/// A credit: the right to send one symbol, numbered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Credit {
    pub sbn: u32,
    /// The symbol, where the receiver says which.
    pub esi: u32,
    pub state: CreditState,
    /// Whether it is the first that its pull grants.
    pub begins_pull: bool,
    pub granted_at: Time,
    /// Symbols that had been delivered then, when the last of them was, and when that had been granted.
    pub delivered_before: u64,
    pub delivered_at: Time,
    pub delivered_granted_at: Time,
}

/// A credit that is no longer in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct Settled {
    /// The block it was granted for.
    pub sbn: u32,
    /// Which of its symbols, where the receiver says which.
    pub esi: u32,
    /// Whether that block counted on it.
    pub counted: bool,
    /// Nothing shows that the symbol was lost: its sender is slow or silent.
    pub silent: bool,
}

impl Settled {
    pub(super) fn of(credit: &Credit, silent: bool) -> Self {
        let counted = credit.state == CreditState::Counted;
        Settled { sbn: credit.sbn, esi: credit.esi, counted, silent }
    }
}

/// What a numbered packet says about its credit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum Answer {
    /// Settles a credit in flight.
    Settles(Settled),
    /// Its credit was taken for lost before.
    Late,
    /// Its credit was answered before, or is not remembered.
    Again,
    /// Beyond what was granted.
    NeverGranted,
}
