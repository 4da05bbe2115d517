//! Recovery of the missing symbols of a block, once the received ones suffice.

use wellspring_kernels::{AlignedBuffer, Kernels, Program, RowStorage, RowTable, Workspace};

use super::attempt::{Attempt, Context, Fresh, zero_symbol};
use super::capacity::{self, Capacity};
use super::cost::{self, DecodingPath};
use super::plan::strip_len;
use super::reception::{LENT, Reception};
use super::solver::Rank;
use crate::Error;

/// What an attempt to decode came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// Every source symbol stands in the block.
    Complete,
    /// So many more symbols are wanted (`BlockDecoder::wanted`). The source symbols received are
    /// untouched.
    NeedMore(u32),
}

/// The memory solutions are worked out in; it serves one block after the other.
#[derive(Debug)]
pub(crate) struct Recovery {
    kernels: Kernels,
    pub(crate) forced: Option<DecodingPath>,
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
    /// What memory is reserved for, if the code is small enough that all is.
    capacity: Option<Capacity>,
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
            capacity: None,
        }
    }

    /// Turns to another block.
    pub(crate) fn forget(&mut self) {
        self.is_short = false;
        self.fresh.clear();
    }

    /// Notes a symbol that has just been reception for the block of the last attempt.
    pub(crate) fn note(&mut self, reception: &Reception, esi: u32) {
        if self.is_short {
            let k = reception.shape.k;
            let row = if esi < k { esi } else { k + reception.repairs() - 1 };
            self.fresh.push((esi, row));
        }
    }

    /// The path of the last attempt.
    pub(crate) fn path(&self) -> Option<DecodingPath> {
        self.attempt.path()
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
        reception: &mut Reception,
        block: &mut [u8],
        lent: impl Fn(u32) -> &'a [u8],
    ) -> Result<Decoded, Error> {
        reception.shape.check_block(block.len())?;
        if reception.is_complete() {
            return Ok(Decoded::Complete);
        }
        match reception.wanted() {
            0 => {}
            wanted => return Ok(Decoded::NeedMore(wanted)),
        }
        let rank = self.solve(reception);
        self.forget();
        match rank {
            Rank::Full => {
                // Should a symbol lent be refused, the next attempt starts anew.
                self.recover(reception, block, lent)?;
                reception.received.add_all_sources(reception.shape.k);
                return Ok(Decoded::Complete);
            }
            Rank::Short(deficit) => {
                self.is_short = true;
                reception.note_short(u32::try_from(deficit).expect("less than K' symbols"));
            }
            Rank::GivenUp => reception.note_given_up(),
        }
        Ok(Decoded::NeedMore(reception.wanted()))
    }

    /// Finds out whether the symbols determine the block.
    fn solve(&mut self, reception: &mut Reception) -> Rank {
        if !self.is_short {
            reception.note_start();
            self.reserve(reception);
        }
        let (shape, received) = (&reception.shape, &reception.received);
        let context = Context { kernels: self.kernels, shape, received };
        if self.is_short {
            let mut rank = None;
            for &fresh in &self.fresh {
                rank = Some(self.attempt.extend(&context, fresh));
            }
            return rank.expect("after falling short more symbols are wanted");
        }
        let missing = shape.k - received.sources();
        let path = cost::choose(&shape.size(missing), self.kernels.isa(), self.forced);
        self.attempt.start(&context, path)
    }

    /// Reserves memory for whatever a block of this shape can need, if its code is small.
    fn reserve(&mut self, reception: &Reception) {
        let capacity = reception.shape.capacity(reception.max_repairs());
        if capacity.is_none() || capacity == self.capacity {
            return;
        }
        self.capacity = capacity;
        let Some(capacity) = capacity else { return };
        // The code grows with its first block too.
        reception.shape.code.inverse(self.kernels);
        self.attempt.reserve(&capacity);
        capacity::reserve(&mut self.fresh, capacity.symbols + capacity.k);
        self.program.reserve(capacity.program_words(), 2 * capacity.l * capacity.l, 2 * capacity.k);
        self.tail.reserve(capacity.stride);
        self.zero.reserve(capacity.stride);
        self.rows.reserve(capacity.symbols + capacity.k + 1);
        self.workspace.reserve(capacity.workspace(), capacity.l);
    }

    /// Computes the missing source symbols from the solution.
    fn recover<'a>(
        &mut self,
        reception: &Reception,
        block: &mut [u8],
        lent: impl Fn(u32) -> &'a [u8],
    ) -> Result<(), Error> {
        let (shape, received) = (&reception.shape, &reception.received);
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
        for (&esi, &place) in received.repairs().iter().zip(&reception.stored) {
            if place == LENT {
                let symbol = lent(esi);
                shape.check_symbol(symbol.len())?;
                rows.push_shared(symbol);
            } else {
                rows.push_shared(&reception.repairs[place as usize * stride..]);
            }
        }
        let columns = Some(&shape.code.constraints().hdpc);
        if self.attempt.path() == Some(DecodingPath::Syndrome) {
            zero_symbol(&mut self.zero, stride);
            rows.push_shared(&self.zero);
            let (zero, first) = (k + repairs, k + repairs + 1);
            for esi in 0..shape.code.extended_symbols() {
                let there = esi < shape.k && self.attempt.is_input(esi);
                rows.push_alias(if there { esi as usize } else { zero });
            }
            let plan = shape.code.plan(self.kernels);
            let programs = [(&plan.forward, first), (&self.program, 0)];
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
