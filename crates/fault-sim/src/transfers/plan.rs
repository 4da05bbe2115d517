//! Plan of a run: kinds of faults, times and sizes, drawn from its seed.

use std::time::Duration;

use wellspring_client::Cut;
use wellspring_core::RandomStream;

/// Faults that go on for longer are rare.
const LONG: Duration = Duration::from_secs(10);

/// How a seed is run.
#[derive(Clone, Copy, Default, Debug)]
pub struct TransferOptions {
    /// Prints why transfers fail.
    pub says: bool,
    /// Syncs have no effect on any disk: a flaw that runs must find.
    pub skips_syncs: bool,
}

/// What may go wrong in a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kinds {
    /// Loss, repetition, reordering, short queues, machines cut off from each other.
    pub network: bool,
    /// Changed bits.
    pub damage: bool,
    /// Kills and power cuts.
    pub deaths: bool,
    /// Full disks and failed calls.
    pub disks: bool,
}

impl Kinds {
    pub(crate) fn draw(rng: &mut RandomStream) -> Self {
        let kinds = rng.below(16);
        Kinds {
            network: rng.chance(0.7),
            damage: kinds & 3 == 0,
            deaths: kinds & 4 == 0,
            disks: kinds & 8 == 0 && kinds & 1 == 0,
        }
    }
}

/// What is drawn for a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub kinds: Kinds,
    /// How long clients wait for silent servers.
    pub timeout: Duration,
    pub cut: Cut,
    pub resume: bool,
    /// Time on the way, and what is added at random \[ms\].
    pub delay: (u64, u64),
    /// Calls that wait for a disk or a decoder take up to so long \[ms\].
    pub work: u64,
    pub servers: usize,
    pub faults_last: Duration,
    /// The only server that does not alter symbols, if there is such a one.
    pub honest: Option<usize>,
    /// Whether all have keys: what is changed on the way is lost, then.
    pub keys: bool,
    /// What the liars alter of their symbols.
    pub lies: f64,
    /// Time that the honest one's datagrams take beside that of the liars' \[ms\].
    pub slow: u64,
}

impl Plan {
    /// `liars` decides apart from the rest, which stays as it is.
    pub(crate) fn draw(rng: &mut RandomStream, liars: &mut RandomStream) -> Self {
        fn one<T: Copy>(rng: &mut RandomStream, of: &[T]) -> T {
            of[rng.below(of.len() as u64) as usize]
        }
        let kinds = Kinds::draw(rng);
        let mut plan = Plan {
            kinds,
            timeout: Duration::from_secs(one(rng, &[1, 10, 10, 90])),
            cut: Cut::default()
                .symbol_size(one(rng, &[None, Some(400), Some(1_000)]))
                .symbols_per_block(one(rng, &[None, Some(8), Some(30)])),
            resume: rng.chance(0.8),
            delay: (one(rng, &[0, 0, 1, 20]), one(rng, &[0, 1, 10])),
            work: one(rng, &[0, 0, 2, 30]),
            servers: 1 + rng.below(3) as usize,
            faults_last: Duration::from_millis(one(rng, &[300, 3_000, 20_000, 60_000])),
            honest: None,
            keys: false,
            lies: one(liars, &[0.01, 0.3, 0.3, 1.0]),
            slow: one(liars, &[0, 0, 5, 100]),
        };
        // Where bits change on the way nobody could be told from a liar.
        if plan.servers > 1 && !kinds.damage && liars.chance(0.3) {
            plan.honest = Some(liars.below(plan.servers as u64) as usize);
        }
        // The longest runs would take most of the time of all: three of four are cut short, and more seeds are run.
        if plan.faults_last > LONG && liars.chance(0.75) {
            plan.faults_last /= 5;
        }
        plan
    }

    /// The same under keys, where nobody could change a symbol on its way to the network.
    pub(crate) fn with_keys(self) -> Self {
        Plan { keys: true, honest: None, ..self }
    }

    /// Whether that server alters symbols.
    pub(crate) fn is_liar(&self, server: usize) -> bool {
        self.honest.is_some_and(|honest| honest != server)
    }

    /// Whether bits are changed on the way, and nobody notices before there is a block.
    pub(crate) fn damages(&self) -> bool {
        self.kinds.damage && !self.keys
    }
}
