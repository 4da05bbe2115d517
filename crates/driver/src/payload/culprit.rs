//! Search for the altered symbols of a block whose bytes are wrong.
//!
//! A block that was decoded from an altered symbol is wrong in many places, and which symbol it was
//! cannot be seen in it. But any K symbols will do: with more than K the block is decoded again
//! without one symbol, or without all symbols of one sender, until its bytes are right. Compared
//! with the right bytes, the symbols that were left out show which of them were altered.

use std::io;

use wellspring_codec::raptorq::{BlockEncoder, Decoded};

use crate::payload::codecs::Codecs;
use crate::payload::receive_store::ReceivedBlock;

/// Symbols that are asked for in all, for each source symbol, before senders are blamed whose symbols alone make no right
/// block.
const MOST_FACTOR: u32 = 4;
/// The same before the block is given up.
const HOPELESS_FACTOR: u32 = 2 * MOST_FACTOR;
/// Symbols that are left out alone, at most, before a block waits for more symbols.
const MAX_ALONE: usize = 512;

/// Altered symbols of one sender: its index among the session's, and how many.
pub(crate) type Altered = (u8, u32);

/// What became of a block whose bytes are wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// The block has the right bytes now, and these senders had altered symbols of it.
    Found(Vec<Altered>),
    /// So many more symbols may tell.
    More(u32),
    /// This sender's symbols alone make no right block, and the others' did not either so far.
    Blame(u8),
    /// No sender's symbols alone, and not those of all others, make a right block.
    Hopeless,
}

/// A symbol of the block.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Kept {
    esi: u32,
    sender: u8,
    /// It came after the first attempt.
    is_later: bool,
}

/// Looks for the altered symbols of a block of which the source symbols `missing` have not come.
/// `suspects` are senders known to alter symbols.
pub(crate) fn search(
    codecs: &mut Codecs,
    block: &mut ReceivedBlock,
    missing: &[u32],
    suspects: &[u8],
    is_right: &dyn Fn(&[u8]) -> bool,
) -> io::Result<Verdict> {
    let symbols = symbols_of(block, missing);
    let mut search = Search { codecs, block, missing, symbols, is_right, candidate: Vec::new() };
    let attempt = search.block.attempts;
    if attempt > 0
        && let Some(left_out) = search.find(suspects)?
    {
        let altered = search.compare(&left_out)?;
        std::mem::swap(&mut search.block.data, &mut search.candidate);
        return Ok(Verdict::Found(altered));
    }
    let verdict = search.next_step(suspects);
    if attempt == 0 {
        search.block.first_symbols = search.symbols.len() as u32;
    }
    search.block.attempts = attempt.saturating_add(1);
    Ok(verdict)
}

/// The symbols of a block, source symbols first.
fn symbols_of(block: &ReceivedBlock, missing: &[u32]) -> Vec<Kept> {
    let mut missing = missing.iter().copied().peekable();
    let here = (0..block.source_symbols).filter(|esi| missing.next_if_eq(esi).is_none());
    let source = here.map(|esi| {
        let (sender, order) = block.sources[esi as usize];
        (esi, sender, order)
    });
    let repair = block.repair_ids.iter().zip(&block.repair_senders);
    let repair = repair.map(|(esi, (sender, order))| (*esi, *sender, *order));
    let first = match block.attempts {
        0 => u32::MAX,
        _ => block.first_symbols,
    };
    source
        .chain(repair)
        .map(|(esi, sender, order)| Kept { esi, sender, is_later: order >= first })
        .collect()
}

struct Search<'a> {
    codecs: &'a mut Codecs,
    block: &'a mut ReceivedBlock,
    missing: &'a [u32],
    symbols: Vec<Kept>,
    is_right: &'a dyn Fn(&[u8]) -> bool,
    /// The block as decoded last.
    candidate: Vec<u8>,
}

impl Search<'_> {
    /// The senders of the symbols, ascending.
    fn senders(&self) -> Vec<u8> {
        let mut senders: Vec<u8> = self.symbols.iter().map(|symbol| symbol.sender).collect();
        senders.sort_unstable();
        senders.dedup();
        senders
    }

    /// The symbols without which the block is right, if such are found: it is the candidate then.
    fn find(&mut self, suspects: &[u8]) -> io::Result<Option<Vec<Kept>>> {
        let senders = self.senders();
        let (known, others): (Vec<u8>, Vec<u8>) =
            senders.iter().partition(|sender| suspects.contains(sender));
        if !known.is_empty()
            && let Some(found) = self.without(&|symbol| known.contains(&symbol.sender))?
        {
            return Ok(Some(found));
        }
        for sender in known.iter().chain(&others).copied() {
            if let Some(found) = self.without(&|symbol| symbol.sender == sender)? {
                return Ok(Some(found));
            }
        }
        if let Some(found) = self.without(&|symbol| !symbol.is_later)? {
            return Ok(Some(found));
        }
        if senders.len() > 2 {
            for sender in others {
                if let Some(found) = self.without(&|symbol| symbol.sender != sender)? {
                    return Ok(Some(found));
                }
            }
        }
        // Two altered symbols or more: no single one is to blame.
        if self.block.attempts > 2 {
            return Ok(None);
        }
        self.find_alone(suspects)
    }

    /// As [`find`](Self::find), leaving out one symbol at a time, those of suspects first.
    fn find_alone(&mut self, suspects: &[u8]) -> io::Result<Option<Vec<Kept>>> {
        let (mut alone, others): (Vec<Kept>, Vec<Kept>) =
            self.symbols.iter().partition(|symbol| suspects.contains(&symbol.sender));
        alone.extend(others);
        for one in alone.into_iter().take(MAX_ALONE) {
            if let Some(found) = self.without(&|symbol| *symbol == one)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Decodes the block without some symbols; these if its bytes are right then.
    fn without(&mut self, is_out: &dyn Fn(&Kept) -> bool) -> io::Result<Option<Vec<Kept>>> {
        let k = self.block.source_symbols;
        let (out, kept): (Vec<Kept>, Vec<Kept>) = self.symbols.iter().partition(|s| is_out(s));
        if out.is_empty() || (kept.len() as u32) < k {
            return Ok(None);
        }
        let mut missing: Vec<u32> = self.missing.to_vec();
        missing.extend(out.iter().map(|symbol| symbol.esi).filter(|esi| *esi < k));
        missing.sort_unstable();
        if missing.is_empty() {
            return Ok(None); // the same bytes again
        }
        self.candidate.clone_from(&self.block.data);
        let is_kept = |esi| !out.iter().any(|symbol| symbol.esi == esi);
        let decoded =
            self.codecs.decode_with(self.block, &mut self.candidate, &missing, is_kept)?;
        Ok((decoded == Decoded::Complete && (self.is_right)(&self.candidate)).then_some(out))
    }

    /// Which of the symbols left out are not those of the right block.
    fn compare(&mut self, left_out: &[Kept]) -> io::Result<Vec<Altered>> {
        let (k, size) = (self.block.source_symbols, usize::from(self.block.symbol_size));
        let mut encoder: Option<Box<BlockEncoder>> = None;
        let mut expected = vec![0; size];
        let mut altered: Vec<Altered> = Vec::new();
        for symbol in left_out {
            let is_same = if symbol.esi < k {
                let start = symbol.esi as usize * size;
                let end = self.candidate.len().min(start + size);
                self.candidate[start..end] == self.block.data[start..end]
            } else {
                let place = self.block.repair_ids.iter().position(|esi| *esi == symbol.esi);
                let place = place.map_or(0, |place| place * size);
                let encoder = match &mut encoder {
                    Some(encoder) => encoder,
                    none => none.insert(self.codecs.prepare(
                        &self.candidate,
                        k,
                        self.block.symbol_size,
                        None,
                    )?),
                };
                let encoded = encoder.encode(&self.candidate, symbol.esi, &mut expected);
                encoded.map_err(io::Error::other)?;
                self.block.repairs[place..place + size] == expected[..]
            };
            if !is_same {
                match altered.iter_mut().find(|(sender, _)| *sender == symbol.sender) {
                    Some((_, count)) => *count += 1,
                    None => altered.push((symbol.sender, 1)),
                }
            }
        }
        Ok(altered)
    }

    /// What is wanted for the next attempt. One symbol more tells one altered symbol from the
    /// others; enough to decode without any one sender tell which sender; enough from each
    /// sender tell, at last, who is right.
    fn next_step(&self, suspects: &[u8]) -> Verdict {
        let (senders, k) = (self.senders(), self.block.source_symbols);
        let total = self.symbols.len() as u32;
        let of =
            |sender| self.symbols.iter().filter(|symbol| symbol.sender == sender).count() as u32;
        match (self.block.attempts, &senders[..]) {
            (0, _) => Verdict::More(1),
            (1, [_]) => Verdict::More(k + 2),
            (_, [sender]) => Verdict::Blame(*sender),
            (1, senders) => {
                let suspected: Vec<u8> =
                    senders.iter().copied().filter(|s| suspects.contains(s)).collect();
                let (out, parts) = match &suspected[..] {
                    [] => (senders, senders.len() as u32),
                    // What is asked for now comes from the others alone.
                    suspected => (suspected, u32::MAX),
                };
                let lacking = out.iter().map(|s| (k + 1 + of(*s)).saturating_sub(total)).max();
                let lacking = lacking.unwrap_or(0).max(1);
                Verdict::More(lacking + lacking / (parts - 1) + 1)
            }
            _ if total < MOST_FACTOR * k => {
                let most = senders.iter().map(|sender| of(*sender)).max().unwrap_or(0);
                let left = MOST_FACTOR * k - total;
                let step = (k / 2).max((k + 2).saturating_sub(most));
                Verdict::More(step.clamp(1, left.max(1)))
            }
            // An honest sender may be so slow that all of these are others': without them its own come.
            _ => {
                let alone = senders.iter().copied().filter(|sender| !suspects.contains(sender));
                match alone.max_by_key(|sender| of(*sender)) {
                    Some(sender) if of(sender) >= k + 2 => Verdict::Blame(sender),
                    _ if total < HOPELESS_FACTOR * k => Verdict::More(k / 2 + 1),
                    _ => Verdict::Hopeless,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::sync::Arc;
    use wellspring_codec::raptorq::{BlockEncoder, Code};

    const K: u32 = 40;
    const T: usize = 16;

    /// A source block, and its encoding symbols.
    fn source() -> (Vec<u8>, impl FnMut(u32) -> Vec<u8>) {
        let bytes: Vec<u8> = (0..K as usize * T).map(|i| (i * 7 + i / 11) as u8).collect();
        let code = Code::new(K).expect("possible");
        let mut encoder = BlockEncoder::new(code, K, T).expect("possible");
        let of = bytes.clone();
        (bytes, move |esi| {
            let mut symbol = vec![0; T];
            encoder.encode(&of, esi, &mut symbol).expect("possible");
            symbol
        })
    }

    struct Case {
        codecs: Codecs,
        block: ReceivedBlock,
        next: u32,
        right: Vec<u8>,
    }

    impl Case {
        fn new() -> (Case, impl FnMut(u32) -> Vec<u8>) {
            let (right, symbols) = source();
            let block = ReceivedBlock::empty(K, T as u16, right.len());
            let codecs = Codecs::new(Arc::clone(&Codecs::cache()));
            (Case { codecs, block, next: 0, right }, symbols)
        }

        /// Symbols arrive from `senders` in turn; `alter` says which are altered.
        fn arrive(
            &mut self,
            count: u32,
            senders: &[u8],
            symbols: &mut impl FnMut(u32) -> Vec<u8>,
            alter: impl Fn(u8, u32) -> bool,
        ) {
            for _ in 0..count {
                // Each third source symbol is lost.
                let esi = self.next;
                self.next += if self.next < K && self.next % 3 == 1 { 2 } else { 1 };
                let sender = senders[esi as usize % senders.len()];
                let mut symbol = symbols(esi);
                if alter(sender, esi) {
                    symbol[3] ^= 0x40;
                }
                self.block.put(esi, &symbol, sender);
            }
        }

        fn search(&mut self, suspects: &[u8]) -> Verdict {
            let missing: Vec<u32> = (0..K).filter(|esi| esi % 3 == 2).collect();
            let right = self.right.clone();
            let is_right = |bytes: &[u8]| bytes == right;
            search(&mut self.codecs, &mut self.block, &missing, suspects, &is_right)
                .expect("possible")
        }
    }

    #[test]
    fn one_altered_symbol_is_found_with_one_more() {
        for altered in [0, 4, 45] {
            let (mut case, mut symbols) = Case::new();
            let alter = |_, esi| esi == altered;
            case.arrive(K, &[0, 1, 2], &mut symbols, alter);
            assert_eq!(case.search(&[]), Verdict::More(1));
            case.arrive(2, &[0, 1, 2], &mut symbols, alter);
            let sender = (altered % 3) as u8;
            assert_eq!(case.search(&[]), Verdict::Found(vec![(sender, 1)]), "symbol {altered}");
            assert!(case.block.data == case.right);
        }
    }

    #[test]
    fn a_sender_that_alters_all_is_found_by_leaving_it_out() {
        let (mut case, mut symbols) = Case::new();
        let alter = |sender, _| sender == 1;
        case.arrive(K, &[0, 1, 2], &mut symbols, alter);
        assert_eq!(case.search(&[]), Verdict::More(1));
        case.arrive(1, &[0, 1, 2], &mut symbols, alter);
        let Verdict::More(more) = case.search(&[]) else { panic!("not enough symbols yet") };
        case.arrive(more, &[0, 1, 2], &mut symbols, alter);
        let Verdict::Found(altered) = case.search(&[]) else { panic!("enough symbols now") };
        assert!(matches!(altered[..], [(1, count)] if count > K / 4), "{altered:?}");
        assert!(case.block.data == case.right);
    }

    #[test]
    fn one_honest_sender_of_three_is_enough() {
        let (mut case, mut symbols) = Case::new();
        let alter = |sender, _| sender != 1;
        case.arrive(K, &[0, 1, 2], &mut symbols, alter);
        let altered = loop {
            match case.search(&[]) {
                Verdict::More(more) => case.arrive(more, &[0, 1, 2], &mut symbols, alter),
                Verdict::Found(altered) => break altered,
                verdict => panic!("{verdict:?}"),
            }
        };
        let liars: Vec<u8> = altered.iter().map(|(sender, _)| *sender).collect();
        assert!(liars.contains(&0) && liars.contains(&2) && !liars.contains(&1), "{altered:?}");
        assert!(case.block.data == case.right);
    }

    #[test]
    fn a_slow_honest_sender_is_heard_once_the_others_are_blamed() {
        let (mut case, mut symbols) = Case::new();
        let alter = |sender, esi| sender != 1 && esi % 3 != 1;
        // One symbol of twenty is the honest sender's.
        let mut turns: Vec<u8> = [0, 2].repeat(10);
        turns[7] = 1;
        let mut suspects = Vec::new();
        case.arrive(K, &turns, &mut symbols, alter);
        for _ in 0..32 {
            match case.search(&suspects) {
                Verdict::More(more) => {
                    turns.retain(|sender| !suspects.contains(sender));
                    case.arrive(more, &turns, &mut symbols, alter);
                }
                Verdict::Blame(sender) => {
                    assert_ne!(sender, 1, "the honest one");
                    suspects.push(sender);
                    turns.retain(|sender| !suspects.contains(sender));
                    case.arrive(K + 1, &turns, &mut symbols, alter);
                }
                Verdict::Found(_) => break,
                Verdict::Hopeless => panic!("given up"),
            }
        }
        assert!(case.block.data == case.right);
        assert_eq!(suspects.len(), 2, "{suspects:?}");
    }

    #[test]
    fn liars_are_blamed_though_nothing_has_come_of_the_honest_sender() {
        let (mut case, mut symbols) = Case::new();
        let alter = |sender, esi| sender != 1 && esi % 3 != 1;
        let (mut turns, mut suspects) = (vec![0, 2], Vec::new());
        case.arrive(K, &turns, &mut symbols, alter);
        while suspects.len() < 2 {
            match case.search(&suspects) {
                Verdict::More(more) => case.arrive(more, &turns, &mut symbols, alter),
                Verdict::Blame(sender) => {
                    suspects.push(sender);
                    turns.retain(|turn| *turn != sender);
                }
                verdict => panic!("{verdict:?} with the symbols of {turns:?}"),
            }
        }
        case.arrive(K + 1, &[1], &mut symbols, alter);
        assert!(matches!(case.search(&suspects), Verdict::Found(_)));
        assert!(case.block.data == case.right);
    }

    #[test]
    fn a_sender_alone_is_blamed_when_fresh_symbols_are_wrong_too() {
        for fresh_are_wrong in [false, true] {
            let (mut case, mut symbols) = Case::new();
            case.arrive(K, &[5], &mut symbols, |_, esi| esi % 4 == 0);
            assert_eq!(case.search(&[]), Verdict::More(1));
            case.arrive(1, &[5], &mut symbols, |_, _| false);
            let Verdict::More(more) = case.search(&[]) else { panic!("too few symbols yet") };
            case.arrive(more, &[5], &mut symbols, |_, esi| fresh_are_wrong && esi % 4 == 0);
            match case.search(&[]) {
                Verdict::Found(altered) => {
                    assert!(!fresh_are_wrong && altered[0].0 == 5 && altered[0].1 > 5);
                    assert!(case.block.data == case.right);
                }
                verdict => {
                    assert!(fresh_are_wrong);
                    assert_eq!(verdict, Verdict::Blame(5));
                }
            }
        }
    }

    #[test]
    fn only_a_known_liar_is_left_out() {
        let (mut case, mut symbols) = Case::new();
        let alter = |sender, _| sender == 2;
        case.arrive(K, &[0, 1, 2], &mut symbols, alter);
        assert_eq!(case.search(&[2]), Verdict::More(1));
        case.arrive(1, &[0, 1], &mut symbols, alter);
        let Verdict::More(more) = case.search(&[2]) else { panic!("too few symbols yet") };
        assert!(more <= K / 2, "{more}");
        case.arrive(more, &[0, 1], &mut symbols, alter);
        assert!(matches!(case.search(&[2]), Verdict::Found(_)));
    }
}
