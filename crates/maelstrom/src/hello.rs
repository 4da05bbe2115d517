//! Hellos between the appliances of a site: what the sender protects, and the assignment that it follows.
//!
//! | bytes | what |
//! |---|---|
//! | 1 | n, partitions of the site |
//! | 1 | appliances of the site |
//! | 1 | which of them the sender is |
//! | 1 | 1 if the sender ends, else 0 |
//! | 2 | appliances that the sender takes for gone, one bit each |
//! | 1 | the appliance that made the assignment |
//! | 1 | zero |
//! | 8 | partitions that the sender protects, one bit each |
//! | 8 | version of the assignment |
//! | 8 | start of the newest session that the site has used \[ns since 1970\] |
//! | n | the appliance that is to protect each partition |
//! | 4 n | load of each partition that the sender protects \[packets a second\]; 2^32 - 1 where it is not known |

use wellspring_core::Time;

use crate::assignment::{Assignment, Edition, MAX_APPLIANCES};
use crate::auth::{HEADER_LEN, Sealer, TAG_LEN};
use crate::drop_reason::DropReason;
use crate::partitions::{MAX_PARTITIONS, Partitions};
use crate::wire::{HELLO, Sealed, array, emit_empty_head};

const HEAD: usize = 32;
const SIZE: usize = MAX_PARTITIONS as usize;
const UNKNOWN: u32 = u32::MAX;
/// More versions than a site can make: the next one is no less.
const MAX_VERSION: u64 = u64::MAX / 2;
/// The longest hello \[bytes\].
pub const MAX_HELLO_LEN: usize = HEADER_LEN + HEAD + 5 * SIZE + TAG_LEN;

/// A message from one appliance of a site to the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hello {
    pub partitions: u8,
    pub appliances: u8,
    /// Of the sender.
    pub number: u8,
    /// The sender ends.
    pub leaves: bool,
    /// Appliances that it takes for gone, one bit each.
    pub silent: u16,
    /// What it protects.
    pub claims: Partitions,
    pub edition: Edition,
    pub newest_session: u64,
    owners: [u8; SIZE],
    loads: [u32; SIZE],
}

impl Hello {
    /// A hello of an appliance with that number, of so many, which follows that assignment and protects nothing.
    pub(crate) fn new(number: u8, appliances: u8, assignment: &Assignment) -> Self {
        let mut owners = [0; SIZE];
        let partitions = assignment.owners().len();
        owners[..partitions].copy_from_slice(assignment.owners());
        Hello {
            partitions: partitions as u8,
            appliances,
            number,
            leaves: false,
            silent: 0,
            claims: Partitions::NONE,
            edition: assignment.edition,
            newest_session: 0,
            owners,
            loads: [UNKNOWN; SIZE],
        }
    }

    /// The assignment that it carries.
    pub(crate) fn assignment(&self) -> Assignment {
        Assignment::made(self.edition, &self.owners[..usize::from(self.partitions)])
    }

    /// The load of a partition, if it is known.
    pub(crate) fn load(&self, partition: u8) -> Option<u32> {
        Some(self.loads[usize::from(partition)]).filter(|&load| load != UNKNOWN)
    }

    /// The load of a partition is known; the greatest number is none.
    pub(crate) fn set_load(&mut self, partition: u8, load: u32) {
        self.loads[usize::from(partition)] = load.min(UNKNOWN - 1);
    }
}

/// Appends a hello to `out`.
pub(crate) fn emit_hello(sealer: &mut Sealer, hello: &Hello, out: &mut Vec<u8>) {
    let start = out.len();
    let partitions = usize::from(hello.partitions);
    emit_empty_head(sealer, HELLO, Time::ZERO, out);
    out.extend_from_slice(&[hello.partitions, hello.appliances, hello.number]);
    out.push(u8::from(hello.leaves));
    out.extend_from_slice(&hello.silent.to_be_bytes());
    out.extend_from_slice(&[hello.edition.author, 0]);
    for word in [hello.claims.bits(), hello.edition.version, hello.newest_session] {
        out.extend_from_slice(&word.to_be_bytes());
    }
    out.extend_from_slice(&hello.owners[..partitions]);
    for load in &hello.loads[..partitions] {
        out.extend_from_slice(&load.to_be_bytes());
    }
    sealer.seal(start, out);
}

/// What a verified hello says.
pub(crate) fn parse_hello(sealed: &Sealed<'_>) -> Result<Hello, DropReason> {
    let (header, body) = sealed.bytes.split_at(HEADER_LEN);
    let (head, rest) = body.split_at_checked(HEAD).ok_or(DropReason::Malformed)?;
    let [partitions, appliances, number, leaves] = array(head, 0);
    let word = |at: usize| u64::from_be_bytes(array(head, at));
    let count = usize::from(partitions);
    let (author, claims) = (head[6], Partitions::from_bits(word(8)));
    let (owners, loads) = rest.split_at_checked(count).ok_or(DropReason::Malformed)?;
    let is_sound = header[1] == HELLO
        && (1..=MAX_PARTITIONS).contains(&partitions)
        && (2..=MAX_APPLIANCES).contains(&appliances)
        && number < appliances
        && author < appliances
        && leaves < 2
        && word(16) <= MAX_VERSION
        && owners.iter().all(|&owner| owner < appliances)
        && claims.without(Partitions::first(partitions)) == Partitions::NONE
        && loads.len() == 4 * count;
    if !is_sound {
        return Err(DropReason::Malformed);
    }
    let assignment = Assignment::made(Edition { version: word(16), author }, owners);
    let mut hello = Hello {
        leaves: leaves == 1,
        silent: u16::from_be_bytes(array(head, 4)),
        claims,
        newest_session: word(24),
        ..Hello::new(number, appliances, &assignment)
    };
    for (to, from) in hello.loads.iter_mut().zip(loads.as_chunks::<4>().0) {
        *to = u32::from_be_bytes(*from);
    }
    Ok(hello)
}
