//! Deciding whether the symbols gathered of a block suffice, and computing the missing ones.

use wellspring_kernels::{AlignedBuffer, Kernels, Program, RowStorage, RowTable, Workspace};

use super::attempt::{Attempt, Context, Fresh, Road, zero_symbol};
use super::code::strip_len;
use super::cost;
use super::decoder::Decoded;
use super::gathered::{Gathered, LENT};
use super::room::{self, Room};
use super::solver::Rank;
use crate::Error;

/// The memory solutions are worked out in; it serves one block after the other.
#[derive(Debug)]
pub(crate) struct Recovery {
    kernels: Kernels,
    pub(crate) forced: Option<Road>,
    attempt: Attempt,
    /// Whether the last attempt fell short, so that the next on the same block can go on from there.
    is_short: bool,
    /// Symbols of that block that came since.
    fresh: Vec<Fresh>,
    program: Program,
    /// The last source symbol, where the block has only a part of it.
    tail: AlignedBuffer,
    zero: AlignedBuffer,
    rows: RowStorage,
    workspace: Workspace,
    /// What there is room for, if the code is small enough that all is reserved.
    room: Option<Room>,
}

impl Recovery {
    pub(crate) fn new(kernels: Kernels) -> Self {
        Self {
            kernels,
            forced: None,
            attempt: Attempt::default(),
            is_short: false,
            fresh: Vec::new(),
            program: Program::new(),
            tail: AlignedBuffer::default(),
            zero: AlignedBuffer::default(),
            rows: RowStorage::default(),
            workspace: Workspace::default(),
            room: None,
        }
    }

    /// Turns to another block.
    pub(crate) fn forget(&mut self) {
        self.is_short = false;
        self.fresh.clear();
    }

    /// Notes a symbol that has just been gathered for the block of the last attempt.
    pub(crate) fn note(&mut self, gathered: &Gathered, esi: u32) {
        if self.is_short {
            let k = gathered.shape.k;
            let row = if esi < k { esi } else { k + gathered.repairs() - 1 };
            self.fresh.push((esi, row));
        }
    }

    /// The road of the last attempt.
    pub(crate) fn road(&self) -> Option<Road> {
        self.attempt.road()
    }

    pub(crate) fn memory(&self) -> usize {
        self.attempt.memory()
            + size_of::<Fresh>() * self.fresh.capacity()
            + self.program.memory()
            + self.tail.memory()
            + self.zero.memory()
            + self.rows.memory()
            + self.workspace.memory()
    }

    /// See [`BlockDecoder::try_decode_with`](super::BlockDecoder::try_decode_with).
    pub(crate) fn try_decode<'a>(
        &mut self,
        gathered: &mut Gathered,
        block: &mut [u8],
        lent: impl Fn(u32) -> &'a [u8],
    ) -> Result<Decoded, Error> {
        gathered.shape.check_block(block.len())?;
        if gathered.is_complete() {
            return Ok(Decoded::Complete);
        }
        match gathered.wanted() {
            0 => {}
            wanted => return Ok(Decoded::NeedMore(wanted)),
        }
        let rank = self.solve(gathered);
        self.forget();
        match rank {
            Rank::Full => {
                // Should a symbol lent be refused, the next attempt starts anew.
                self.recover(gathered, block, lent)?;
                gathered.received.add_all_sources(gathered.shape.k);
                return Ok(Decoded::Complete);
            }
            Rank::Short(deficit) => {
                self.is_short = true;
                gathered.note_short(u32::try_from(deficit).expect("less than K' symbols"));
            }
            Rank::GivenUp => gathered.note_given_up(),
        }
        Ok(Decoded::NeedMore(gathered.wanted()))
    }

    /// Finds out whether the symbols determine the block.
    fn solve(&mut self, gathered: &mut Gathered) -> Rank {
        if !self.is_short {
            gathered.note_start();
            self.reserve(gathered);
        }
        let (shape, received) = (&gathered.shape, &gathered.received);
        let context = Context { kernels: self.kernels, shape, received };
        if self.is_short {
            let mut rank = None;
            for &fresh in &self.fresh {
                rank = Some(self.attempt.extend(&context, fresh));
            }
            return rank.expect("after falling short more symbols are wanted");
        }
        let missing = shape.k - received.sources();
        let road = cost::choose(shape, self.kernels.isa(), missing, self.forced);
        self.attempt.start(&context, road)
    }

    /// Makes room for whatever a block of this shape can need, if its code is small.
    fn reserve(&mut self, gathered: &Gathered) {
        let room = Room::of(&gathered.shape, gathered.max_repairs());
        if room.is_none() || room == self.room {
            return;
        }
        self.room = room;
        let Some(room) = room else { return };
        // The code grows with its first block too.
        gathered.shape.code.inverse(self.kernels);
        self.attempt.reserve(&room);
        room::reserve(&mut self.fresh, room.symbols + room.k);
        self.program.reserve(room.program_words(), 2 * room.l * room.l, 2 * room.k);
        self.tail.reserve(room.stride);
        self.zero.reserve(room.stride);
        self.rows.reserve(room.symbols + room.k + 1);
        self.workspace.reserve(room.workspace(), room.l);
    }

    /// Computes the missing source symbols from the solution.
    fn recover<'a>(
        &mut self,
        gathered: &Gathered,
        block: &mut [u8],
        lent: impl Fn(u32) -> &'a [u8],
    ) -> Result<(), Error> {
        let (shape, received) = (&gathered.shape, &gathered.received);
        let context = Context { kernels: self.kernels, shape, received };
        self.program.clear();
        self.attempt.finish(&context, &mut self.program);

        let (k, t, stride) = (shape.k as usize, shape.symbol_size, shape.stride());
        let whole = block.len() / t;
        let (symbols, rest) = block.split_at_mut(whole * t);
        if whole < k {
            zero_symbol(&mut self.tail, stride);
            if received.has_source(shape.k - 1) {
                self.tail[..rest.len()].copy_from_slice(rest);
            }
        }
        let repairs = received.repairs().len();
        let mut rows = RowTable::new(&mut self.rows, t);
        rows.push_exclusive_rows(symbols, t, whole);
        if whole < k {
            rows.push_exclusive(&mut self.tail);
        }
        for (&esi, &place) in received.repairs().iter().zip(&gathered.stored) {
            if place == LENT {
                let symbol = lent(esi);
                shape.check_symbol(symbol.len())?;
                rows.push_shared(symbol);
            } else {
                rows.push_shared(&gathered.repairs[place as usize * stride..]);
            }
        }
        let columns = Some(&shape.code.constraints().hdpc);
        if self.attempt.road() == Some(Road::Syndrome) {
            zero_symbol(&mut self.zero, stride);
            rows.push_shared(&self.zero);
            let (zero, first) = (k + repairs, k + repairs + 1);
            for esi in 0..shape.code.extended_symbols() {
                let there = esi < shape.k && self.attempt.is_input(esi);
                rows.push_alias(if there { esi as usize } else { zero });
            }
            let plan = shape.code.plan(self.kernels);
            let programs = [(&plan.first, first), (&self.program, 0)];
            let strip = strip_len(self.kernels.isa(), self.program.work_rows());
            let workspace = &mut self.workspace;
            Program::run_all(&programs, self.kernels, &rows, columns, workspace, strip);
        } else {
            let strip = strip_len(self.kernels.isa(), self.program.work_rows());
            self.program.run(self.kernels, &rows, columns, &mut self.workspace, strip);
        }
        rest.copy_from_slice(&self.tail[..rest.len()]);
        Ok(())
    }
}
