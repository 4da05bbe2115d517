//! Degree and indices of a symbol in an encoding packet (LTTP §III-C, §V-D).
//!
//! One byte for the degree and one for each index, as in the paper, where the block has at most 256
//! symbols; two of each, high byte first, where it has more. A degree of 256 does not fit into a
//! byte: it is written as 0, which no symbol has.

use super::LtError;
use super::distribution::check_source_symbols;

/// Most source symbols of a block whose degrees and indices take one byte each.
const BYTES: u32 = 256;

/// Checks that neighbours are source symbols of a block of `k`, ascending and distinct.
pub(super) fn check_neighbours(k: u32, neighbours: &[u32]) -> Result<(), LtError> {
    if neighbours.is_empty() || neighbours.len() > k as usize {
        return Err(LtError::Degree { got: neighbours.len(), limit: k });
    }
    let mut before = None;
    for &got in neighbours {
        check_neighbour(k, before, got)?;
        before = Some(got);
    }
    Ok(())
}

fn check_neighbour(k: u32, before: Option<u32>, got: u32) -> Result<(), LtError> {
    match before {
        _ if got >= k => Err(LtError::Neighbour { got, limit: k }),
        Some(before) if got <= before => Err(LtError::Order { got, before }),
        _ => Ok(()),
    }
}

/// Bytes a field takes.
fn width(k: u32) -> usize {
    if k <= BYTES { 1 } else { 2 }
}

/// Bytes that degree and indices take in a packet of a block of `k` source symbols.
///
/// ```
/// assert_eq!(wellspring_codec::lt::description_len(256, 7), 8);
/// ```
#[must_use]
pub fn description_len(k: u32, degree: usize) -> usize {
    width(k) * (1 + degree)
}

/// Appends degree and indices of an encoding symbol to `packet`.
///
/// # Errors
///
/// [`LtError::SourceSymbols`] if `k` is no block's; [`LtError::Degree`], [`LtError::Neighbour`] or
/// [`LtError::Order`] if the neighbours are not an ascending selection of its source symbols.
pub fn write_description(k: u32, neighbours: &[u32], packet: &mut Vec<u8>) -> Result<(), LtError> {
    check_source_symbols(k)?;
    check_neighbours(k, neighbours)?;
    let fields = core::iter::once(neighbours.len() as u32).chain(neighbours.iter().copied());
    for field in fields {
        // The high bytes are zero, but for the one degree that is written as zero.
        let bytes = field.to_be_bytes();
        packet.extend_from_slice(&bytes[4 - width(k)..]);
    }
    Ok(())
}

/// Reads degree and indices from the beginning of `packet` into `neighbours`, and returns what
/// follows: the symbol.
///
/// Whatever the packet holds, no more is read or stored than k indices.
///
/// # Errors
///
/// [`LtError::SourceSymbols`] if `k` is no block's, [`LtError::Truncated`] if the packet ends too
/// soon, [`LtError::Degree`] if the degree is beyond k, [`LtError::Neighbour`] or
/// [`LtError::Order`] if an index is out of range, stands twice or does not ascend. `neighbours` is
/// then empty.
pub fn read_description<'p>(
    k: u32,
    packet: &'p [u8],
    neighbours: &mut Vec<u32>,
) -> Result<&'p [u8], LtError> {
    neighbours.clear();
    check_source_symbols(k)?;
    let read = read(k, packet, neighbours);
    if read.is_err() {
        neighbours.clear();
    }
    read
}

fn read<'p>(k: u32, packet: &'p [u8], neighbours: &mut Vec<u32>) -> Result<&'p [u8], LtError> {
    let width = width(k);
    let field = |bytes: &[u8]| bytes.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte));
    let truncated = |needed| LtError::Truncated { got: packet.len(), needed };
    let (degree, rest) = packet.split_at_checked(width).ok_or(truncated(width))?;
    let degree = match field(degree) {
        0 if k == BYTES => BYTES as usize,
        degree => degree as usize,
    };
    if degree == 0 || degree > k as usize {
        return Err(LtError::Degree { got: degree, limit: k });
    }
    let needed = description_len(k, degree);
    let (indices, symbol) = rest.split_at_checked(width * degree).ok_or(truncated(needed))?;
    for index in indices.chunks_exact(width).map(field) {
        check_neighbour(k, neighbours.last().copied(), index)?;
        neighbours.push(index);
    }
    Ok(symbol)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn small_blocks_take_a_byte_a_field() {
        let mut packet = Vec::new();
        write_description(256, &[0, 7, 255], &mut packet).expect("neighbours of the block");
        assert_eq!(packet, [3, 0, 7, 255]);
        packet.clear();
        write_description(257, &[0, 7, 256], &mut packet).expect("neighbours of the block");
        assert_eq!(packet, [0, 3, 0, 0, 0, 7, 1, 0]);
    }

    #[test]
    fn the_largest_degree_of_a_byte_comes_back() {
        let all: Vec<u32> = (0..256).collect();
        let (mut packet, mut back) = (Vec::new(), Vec::new());
        write_description(256, &all, &mut packet).expect("neighbours of the block");
        assert_eq!((packet.len(), packet[0]), (257, 0));
        assert_eq!(read_description(256, &packet, &mut back), Ok(&[][..]));
        assert_eq!(back, all);
    }

    #[test]
    fn each_fault_has_its_error() {
        let mut back = Vec::new();
        let mut read = |k, packet: &[u8]| {
            let refused = read_description(k, packet, &mut back).expect_err("a faulty packet");
            assert!(back.is_empty());
            refused
        };
        assert_eq!(read(10, &[]), LtError::Truncated { got: 0, needed: 1 });
        assert_eq!(read(10, &[3, 1, 2]), LtError::Truncated { got: 3, needed: 4 });
        assert_eq!(read(300, &[0]), LtError::Truncated { got: 1, needed: 2 });
        assert_eq!(read(10, &[0, 1]), LtError::Degree { got: 0, limit: 10 });
        assert_eq!(read(10, &[11; 40]), LtError::Degree { got: 11, limit: 10 });
        assert_eq!(read(300, &[0xff; 9]), LtError::Degree { got: 65_535, limit: 300 });
        assert_eq!(read(10, &[2, 1, 10]), LtError::Neighbour { got: 10, limit: 10 });
        assert_eq!(read(10, &[2, 4, 4]), LtError::Order { got: 4, before: 4 });
        assert_eq!(read(10, &[2, 4, 3]), LtError::Order { got: 3, before: 4 });
        assert_eq!(read(0, &[1, 0]), LtError::SourceSymbols { got: 0, limit: 4_096 });
        let write = |neighbours: &[u32]| write_description(10, neighbours, &mut Vec::new());
        assert_eq!(write(&[]), Err(LtError::Degree { got: 0, limit: 10 }));
        assert_eq!(write(&[5, 2]), Err(LtError::Order { got: 2, before: 5 }));
    }

    proptest! {
        #[test]
        fn what_is_read_is_what_was_written(
            k in prop_oneof![1_u32..300, Just(256), Just(257), Just(4_096)],
            picks in proptest::collection::btree_set(any::<u32>(), 1..80),
            symbol in proptest::collection::vec(any::<u8>(), 0..20),
        ) {
            let mut neighbours: Vec<u32> = picks.into_iter().map(|pick| pick % k).collect();
            neighbours.sort_unstable();
            neighbours.dedup();
            let (mut packet, mut back) = (Vec::new(), Vec::new());
            write_description(k, &neighbours, &mut packet).expect("neighbours of the block");
            prop_assert_eq!(packet.len(), description_len(k, neighbours.len()));
            packet.extend_from_slice(&symbol);
            prop_assert_eq!(read_description(k, &packet, &mut back), Ok(&symbol[..]));
            prop_assert_eq!(back, neighbours);
        }

        #[test]
        fn no_packet_panics_or_reads_nonsense(
            k in 0_u32..5_000,
            packet in proptest::collection::vec(any::<u8>(), 0..600),
        ) {
            let mut neighbours = Vec::new();
            match read_description(k, &packet, &mut neighbours) {
                Ok(symbol) => {
                    prop_assert_eq!(check_neighbours(k, &neighbours), Ok(()));
                    let taken = description_len(k, neighbours.len());
                    prop_assert_eq!(symbol, &packet[taken..]);
                }
                Err(_) => prop_assert!(neighbours.is_empty()),
            }
        }
    }
}
