//! The window's equations whatever repairs and packets say.

use proptest::prelude::*;

use super::*;

const LONGEST: usize = 12;

impl Window {
    /// What holds after every step, and bounds memory.
    fn check(&self) {
        assert!(self.rows.len() <= MOST_ROWS && self.spare.len() <= MOST_ROWS + 1);
        assert!(self.missing.len() <= NUMBERS);
        for (&half, &number) in &self.missing {
            let slot = self.slots[number as usize % NUMBERS];
            assert_eq!(slot, Slot::Missing(half), "of {number}");
        }
        let end = self.end.unwrap_or(0);
        for (at, row) in self.rows.iter().enumerate() {
            let ages: Vec<u32> = row.factors.iter().map(|(at, _)| end.wrapping_sub(*at)).collect();
            assert!(ages.first().is_some_and(|&oldest| oldest <= KEEP), "{ages:?}");
            assert!(ages.windows(2).all(|pair| pair[0] > pair[1]), "the oldest first: {ages:?}");
            assert_eq!(row.factors[0].1, 1);
            assert!(row.factors.iter().all(|&(_, factor)| factor != 0));
            assert_eq!(row.symbol.len(), SYMBOL_HEADER_LEN + LONGEST);
            let mut others = self.rows.iter().enumerate().filter(|(other, _)| *other != at);
            assert!(others.all(|(_, other)| other.factor(row.factors[0].0) == 0), "reduced");
        }
    }

    /// Takes out all that is solved, some of which is accepted. How much was solved.
    fn solve_all(&mut self, store: &mut PacketStore) -> usize {
        let mut count = 0;
        while let Some(solved) = self.solve() {
            count += 1;
            if let Some((name, packet)) = solved.packet.filter(|(name, _)| name.0 % 7 != 3) {
                store.insert(name, 0, &packet);
                self.on_solved(store, solved.number, name);
            }
            self.check();
        }
        count
    }
}

fn name_of(number: u32) -> PacketName {
    PacketName(u64::from(number.wrapping_mul(0x9e37_79b1)) << 16 | u64::from(number & 0xff))
}

/// A packet whose bytes follow from its number.
fn packet_of(number: u32) -> Vec<u8> {
    (0..4 + number % 8).map(|at| (at * 31 + number % 251) as u8).collect()
}

/// The combination that an honest sender makes of a window.
fn symbol_of(seed: u8, first: u32, length: u16) -> Vec<u8> {
    let mut symbol = vec![0; SYMBOL_HEADER_LEN + LONGEST];
    for place in 0..u32::from(length) {
        let number = first.wrapping_add(place);
        let factor = factor(seed, place);
        add_packet(Kernels::detect(), &mut symbol, name_of(number), &packet_of(number), factor);
    }
    symbol
}

/// What comes: a packet, or a repair, as it should be or not.
#[derive(Clone, Debug)]
enum Input {
    Packet { number: u32, altered: bool },
    Repair { seed: u8, first: u32, length: u16, names: usize, fault: u8 },
}

fn inputs() -> impl Strategy<Value = Vec<Input>> {
    let packet = (0_u32..120, prop::bool::weighted(0.1))
        .prop_map(|(number, altered)| Input::Packet { number, altered });
    let length = prop_oneof![4 => 1_u16..12, 1 => 1_u16..=MAX_WINDOW];
    let repair = (any::<u8>(), 0_u32..110, length, 1_usize..24, 0_u8..8).prop_map(
        |(seed, first, length, names, fault)| Input::Repair { seed, first, length, names, fault },
    );
    prop::collection::vec(prop_oneof![1 => packet, 3 => repair], 1..80)
}

proptest! {
    /// Packets that contradict repairs, and repairs that contradict each other: the equations stay reduced and few, and
    /// no number is awaited by a name that it no longer has.
    #[test]
    fn contradictions_leave_the_equations_in_order(
        inputs in inputs(), start in prop_oneof![Just(0_u32), Just(u32::MAX - 40), Just(1 << 31)],
    ) {
        let mut store = PacketStore::new(48, LONGEST);
        let mut window = Window::new(Kernels::detect());
        for input in inputs {
            match input {
                Input::Packet { number, altered } => {
                    let number = start.wrapping_add(number);
                    let mut packet = packet_of(number);
                    packet[0] ^= u8::from(altered);
                    if store.insert(name_of(number), 0, &packet) {
                        window.on_packet(&store, name_of(number));
                    }
                }
                Input::Repair { seed, first, length, names, fault } => {
                    let first = start.wrapping_add(first);
                    let mut symbol = symbol_of(seed, first, length);
                    let names = names.min(usize::from(length)) as u32;
                    let end = first.wrapping_add(u32::from(length));
                    let mut recipe: Vec<PacketName> =
                        (1..=names).rev().map(|at| name_of(end.wrapping_sub(at))).collect();
                    match fault {
                        0 => symbol[usize::from(seed) % (SYMBOL_HEADER_LEN + LONGEST)] ^= seed | 1,
                        1 => recipe[0] = name_of(u32::from(seed)),
                        2 => recipe.reverse(),
                        3 => symbol.truncate(SYMBOL_HEADER_LEN),
                        _ => {}
                    }
                    let repair = Repair {
                        layer: if fault == 4 { seed ^ 1 } else { seed },
                        first: u64::from(first),
                        recipe: &recipe,
                        length,
                        xor: &symbol,
                    };
                    window.on_repair(&store, &repair, LONGEST);
                }
            }
            window.check();
            window.solve_all(&mut store);
        }
    }
}

/// The repairs of a sender that loses everything else come to as many equations as there may be.
#[test]
fn equations_are_many_and_then_no_more() {
    let mut store = PacketStore::new(48, LONGEST);
    let mut window = Window::new(Kernels::detect());
    let mut solved = 0;
    for number in 0..600_u32 {
        // Five packets, four repairs: each run of them lacks one more equation.
        if number % 5 == 4 {
            continue;
        }
        let length = 1 + number.min(100) as u16;
        let first = u64::from(number + 1 - u32::from(length));
        let symbol = symbol_of(number as u8, first as u32, length);
        let recipe = [name_of(number)];
        let repair = Repair { layer: number as u8, first, recipe: &recipe, length, xor: &symbol };
        assert_eq!(window.on_repair(&store, &repair, LONGEST), Taken::Kept);
        window.check();
        solved += window.solve_all(&mut store);
    }
    assert_eq!(window.rows.len(), MOST_ROWS);
    assert!(solved >= 4, "{solved} before the first that lacks one");
}

/// Repairs of the same numbers that give them other names every time.
#[test]
fn names_that_contradict_each_other_take_no_more_memory() {
    let store = PacketStore::new(48, LONGEST);
    let mut window = Window::new(Kernels::detect());
    for round in 0..300_u64 {
        let recipe: Vec<_> = (0..24).map(|at| PacketName(round * 24 + at + 1)).collect();
        let symbol = [round as u8; SYMBOL_HEADER_LEN + LONGEST];
        let repair =
            Repair { layer: round as u8, first: 0, recipe: &recipe, length: 24, xor: &symbol };
        window.on_repair(&store, &repair, LONGEST);
        window.check();
        assert!(window.missing.len() <= 24);
    }
}
