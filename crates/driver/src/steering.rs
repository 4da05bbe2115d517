//! The loop of a host's address, where a driver has several.
//!
//! A function of the address alone, which the kernel computes of each datagram that comes and the program of each call
//! that names a host. So no table is kept of who is where, and all that a host sends is in one loop: handshakes,
//! requests, sessions by every protocol and from every port.

use std::net::IpAddr;

/// Event loops of a driver, at most.
pub const MAX_LOOPS: u8 = 64;
/// Spread what differs in few bits (2^32 over the golden ratio, and a number of MurmurHash3's that is odd, too).
const SPREAD: u32 = 0x9e37_79b1;
const SPREAD_AGAIN: u32 = 0x85eb_ca6b;
/// Half of the bits, which are folded onto the others.
const FOLD: u32 = 15;
/// Low bits that are left out: of a product they depend on few bits.
const LOWEST: u32 = 8;

/// How hosts are dealt to so many loops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Steering {
    loops: u8,
}

impl Steering {
    /// To one loop.
    pub(crate) const ONE: Steering = Steering { loops: 1 };

    /// To so many loops, 1 to [`MAX_LOOPS`].
    pub fn among(loops: u8) -> Self {
        Steering { loops: loops.clamp(1, MAX_LOOPS) }
    }

    /// How many there are.
    pub fn loops(self) -> u8 {
        self.loops
    }

    /// The loop of the host at that address, counted from 0. IPv4 within IPv6 counts as IPv4, as which it comes.
    pub fn of(self, address: IpAddr) -> u8 {
        if self.loops == 1 {
            return 0;
        }
        let mixed = match address.to_canonical() {
            IpAddr::V4(address) => u32::from(address),
            IpAddr::V6(address) => {
                let words = address.octets();
                let words = words.as_chunks().0.iter().map(|word| u32::from_be_bytes(*word));
                words.fold(0_u32, |mixed, word| mixed.wrapping_mul(SPREAD) ^ word)
            }
        };
        let spread = mixed.wrapping_mul(SPREAD);
        let spread = (spread ^ (spread >> FOLD)).wrapping_mul(SPREAD_AGAIN) >> LOWEST;
        (spread % u32::from(self.loops)) as u8
    }

    /// The same as a program of the kernel's classic packet filter, whose verdict is the loop.
    #[cfg(target_os = "linux")]
    pub(crate) fn program(self) -> Vec<libc::sock_filter> {
        use code::*;
        let at = |offset: u32| (libc::SKF_NET_OFF as u32).wrapping_add(offset);
        let mut program = vec![
            instruction(LOAD_BYTE, at(0)),
            instruction(SHIFT_RIGHT, 4),
            // IPv4's two instructions are passed over, or all of IPv6's.
            libc::sock_filter { code: IS_EQUAL, jt: 2, jf: 0, k: 6 },
            instruction(LOAD_WORD, at(12)),
            instruction(GO_ON, 13),
            instruction(LOAD_WORD, at(8)),
        ];
        for offset in [12, 16, 20] {
            program.extend([
                instruction(MULTIPLY, SPREAD),
                instruction(A_TO_X, 0),
                instruction(LOAD_WORD, at(offset)),
                instruction(XOR_X, 0),
            ]);
        }
        program.extend([
            instruction(MULTIPLY, SPREAD),
            instruction(A_TO_X, 0),
            instruction(SHIFT_RIGHT, FOLD),
            instruction(XOR_X, 0),
            instruction(MULTIPLY, SPREAD_AGAIN),
            instruction(SHIFT_RIGHT, LOWEST),
            instruction(MODULO, self.loops.into()),
            instruction(RETURN_A, 0),
        ]);
        program
    }
}

/// Instructions of the classic packet filter (`linux/filter.h`).
#[cfg(target_os = "linux")]
mod code {
    pub(super) const LOAD_BYTE: u16 = 0x30;
    pub(super) const LOAD_WORD: u16 = 0x20;
    pub(super) const A_TO_X: u16 = 0x07;
    pub(super) const XOR_X: u16 = 0xac;
    pub(super) const SHIFT_RIGHT: u16 = 0x74;
    pub(super) const MULTIPLY: u16 = 0x24;
    pub(super) const MODULO: u16 = 0x94;
    pub(super) const IS_EQUAL: u16 = 0x15;
    /// Passes over so many instructions.
    pub(super) const GO_ON: u16 = 0x05;
    pub(super) const RETURN_A: u16 = 0x16;

    pub(super) fn instruction(code: u16, k: u32) -> libc::sock_filter {
        libc::sock_filter { code, jt: 0, jf: 0, k }
    }
}

/// A loop among a driver's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) number: u8,
    pub(crate) steering: Steering,
}

impl Place {
    /// Whether a host is another loop's.
    pub(crate) fn is_foreign(self, address: IpAddr) -> bool {
        self.steering.loops > 1 && self.steering.of(address) != self.number
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    /// How many of these addresses each loop has.
    fn dealt(loops: u8, addresses: impl Iterator<Item = IpAddr>) -> Vec<usize> {
        let mut counts = vec![0; usize::from(loops)];
        addresses.for_each(|ip| counts[usize::from(Steering::among(loops).of(ip))] += 1);
        counts
    }

    #[test]
    fn neighbours_and_addresses_at_equal_distances_are_spread_over_all_loops() {
        let v4 = |step: u32| (0..2_000).map(move |n| Ipv4Addr::from_bits(0x0a00_0001 + n * step));
        let v6 = |shift: u32| {
            let first = 0x2001_0db8_u128 << 96 | 1;
            (0..2_000_u128).map(move |n| Ipv6Addr::from_bits(first + (n << shift)))
        };
        for loops in [2, 3, 4, 8, 16, 61] {
            let even = 2_000 / usize::from(loops);
            let check = |counts: Vec<usize>, what: &str| {
                let is_even = |count: &usize| (even / 3..=even * 3).contains(count);
                assert!(counts.iter().all(is_even), "{loops} loops, {what}: {counts:?}");
            };
            for step in [1, 2, 4, 8, 16, 64, 255, 256, 257, 4_096, 65_536] {
                check(dealt(loops, v4(step).map(IpAddr::from)), &format!("IPv4, {step}"));
            }
            for shift in [0, 1, 4, 8, 16, 32, 48, 56, 64, 72, 80] {
                check(dealt(loops, v6(shift).map(IpAddr::from)), &format!("IPv6, {shift}"));
            }
        }
    }

    #[test]
    fn ipv4_within_ipv6_is_in_the_loop_of_the_address_that_it_holds() {
        for n in 0..500 {
            let v4 = Ipv4Addr::from_bits(0xc000_0200 + n);
            let steering = Steering::among(7);
            assert_eq!(steering.of(v4.into()), steering.of(v4.to_ipv6_mapped().into()));
            assert_eq!(Steering::ONE.of(v4.into()), 0);
        }
    }
}
