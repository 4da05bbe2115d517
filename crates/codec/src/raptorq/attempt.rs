//! Decoding paths, from received symbols to missing ones.
//!
//! All paths give the same bytes and fail for the same symbols; they differ in cost.
//!
//! - *Dense*: each repair symbol is a combination of all source symbols, given by the code's
//!   inverse. The missing symbols are solved for directly: work in proportion to their number.
//! - *Syndrome*: for more losses, and for codes whose inverse is too large. The encoding program runs
//!   on the received symbols with zeros for the missing ones; what repair symbols lack then is due to
//!   the missing ones alone, whose coefficients come from the code's inverse, or, where it has none,
//!   from running the same program on unit vectors.
//! - *Inactivation*: a fresh solution for the symbols at hand, whose cost does not depend on how
//!   many are missing.
//!
//! Each path decides on coefficients whether the symbols suffice, can go on with more symbols
//! where it fell short, and only then leaves a program that touches bytes.

use wellspring_kernels::{AlignedBuffer, Kernels, Operand, Program};

use super::block::BlockShape;
use super::capacity::{self, Capacity, LONGEST_ROW};
use super::cost::{DecodingPath, OutputMethod};
use super::gauss_jordan::GaussJordan;
use super::inverse::{Inverse, InverseScratch};
use super::outputs::{Eliminated, Output, OutputScratch};
use super::received::Received;
use super::schedule::{self, Schedule};
use super::solver::{Rank, Solver};

/// Rows of coefficients are padded to a multiple of this, so that no vector is partial \[bytes\].
const LINE: usize = 64;

/// What an attempt works on.
pub(crate) struct Context<'a> {
    pub(crate) kernels: Kernels,
    pub(crate) shape: &'a BlockShape,
    pub(crate) received: &'a Received,
}

/// A symbol that arrived after an attempt: its ESI, and the external row it stands in.
pub(crate) type Fresh = (u32, u32);

/// The state of an attempt; memory is kept from one to the next.
#[derive(Debug, Default)]
pub(crate) struct Attempt {
    path: Option<DecodingPath>,
    /// The unknowns of the dense and the syndrome path.
    missing: Vec<u32>,
    system: GaussJordan,
    /// The equations accepted into the system.
    equations: Vec<Fresh>,
    /// Dense: the coefficients of each accepted equation on the symbols that are not missing, in whole lines.
    generators: Vec<u8>,
    /// Syndrome: the inverse's columns of the missing symbols, where the code has no inverse.
    units: Inverse,
    inverse_scratch: InverseScratch,
    solver: Solver,
    schedule: Schedule,
    output: OutputScratch,
    /// For each symbol given to the solver the external row of its bytes; `None` for padding.
    values: Vec<Option<u32>>,
    intermediate: Vec<u32>,
    coefficients: Vec<u8>,
    equation: Vec<u8>,
    inverse: Vec<u8>,
    inputs: Vec<Operand>,
    outputs: Vec<Operand>,
}

impl Attempt {
    pub(crate) fn memory(&self) -> usize {
        let words = self.missing.capacity() + self.intermediate.capacity();
        let pairs = self.equations.capacity()
            + self.values.capacity()
            + self.inputs.capacity()
            + self.outputs.capacity();
        4 * words
            + 8 * pairs
            + self.system.memory()
            + self.generators.capacity()
            + self.units.memory()
            + self.inverse_scratch.memory()
            + self.solver.memory()
            + self.schedule.memory()
            + self.output.memory()
            + self.coefficients.capacity()
            + self.equation.capacity()
            + self.inverse.capacity()
    }

    /// Reserves memory for every solution of a block of that size.
    pub(crate) fn reserve(&mut self, capacity: &Capacity) {
        let (k, l) = (capacity.k, capacity.l);
        capacity::reserve(&mut self.missing, k);
        self.system.reserve(k);
        capacity::reserve(&mut self.equations, k);
        capacity::reserve(&mut self.generators, k * k / 4 + LINE * k);
        self.units.reserve(l, k);
        self.inverse_scratch.reserve(capacity);
        self.solver.reserve(capacity);
        self.schedule.reserve(capacity);
        self.output.reserve(capacity);
        capacity::reserve(&mut self.values, capacity.symbols);
        capacity::reserve(&mut self.intermediate, LONGEST_ROW);
        capacity::reserve(&mut self.coefficients, k * capacity.k_ext + LINE);
        capacity::reserve(&mut self.equation, capacity.k_ext + LINE);
        capacity::reserve(&mut self.inverse, k * k);
        capacity::reserve(&mut self.inputs, k);
        capacity::reserve(&mut self.outputs, k);
    }

    /// The path of the last attempt.
    pub(crate) fn path(&self) -> Option<DecodingPath> {
        self.path
    }

    /// Whether source symbol `esi` was there when the attempt of the dense or syndrome path began.
    pub(crate) fn is_input(&self, esi: u32) -> bool {
        self.missing.binary_search(&esi).is_err()
    }

    /// Starts anew with all symbols received.
    pub(crate) fn start(&mut self, context: &Context<'_>, path: DecodingPath) -> Rank {
        self.path = Some(path);
        if path == DecodingPath::Inactivation {
            return self.start_inactivation(context);
        }
        let k = context.shape.k;
        self.missing.clear();
        self.missing.extend(context.received.missing(k));
        self.system.reset(self.missing.len());
        self.equations.clear();
        self.generators.clear();
        let code = &context.shape.code;
        if path == DecodingPath::Syndrome && !code.has_inverse() {
            self.units.make(
                context.kernels,
                code.constraints(),
                code.plan(context.kernels),
                self.missing.iter().copied(),
                &mut self.inverse_scratch,
            );
        }
        for (row, &esi) in (k..).zip(context.received.repairs()) {
            if self.system.deficit() == 0 {
                break;
            }
            self.add_equation(context, (esi, row));
        }
        self.rank()
    }

    /// Goes on with one more symbol after falling short.
    pub(crate) fn extend(&mut self, context: &Context<'_>, (esi, row): Fresh) -> Rank {
        if self.path == Some(DecodingPath::Inactivation) {
            self.values.push(Some(row));
            let isi = context.shape.internal(esi);
            return self.solver.extend(context.kernels, context.shape.code.constraints(), isi);
        }
        self.add_equation(context, (esi, row));
        self.rank()
    }

    fn rank(&self) -> Rank {
        match self.system.deficit() {
            0 => Rank::Full,
            deficit => Rank::Short(deficit),
        }
    }

    fn start_inactivation(&mut self, context: &Context<'_>) -> Rank {
        let k = context.shape.k;
        let received = context.received;
        let padding = context.shape.code.extended_symbols() - k;
        let repairs = received.repairs();
        self.values.clear();
        self.values.extend((0..k).filter(|&esi| received.has_source(esi)).map(Some));
        self.values.extend((0..padding).map(|_| None));
        self.values.extend((k..).zip(repairs).map(|(row, _)| Some(row)));
        let symbols = (0..k)
            .filter(|&esi| received.has_source(esi))
            .chain(k..k + padding)
            .chain(repairs.iter().map(|&esi| esi + padding));
        self.solver.solve(context.kernels, context.shape.code.constraints(), symbols)
    }

    /// Adds an equation in the missing symbols for a symbol received, if it says anything new.
    fn add_equation(&mut self, context: &Context<'_>, (esi, row): Fresh) {
        let (kernels, code) = (context.kernels, &context.shape.code);
        let constraints = code.constraints();
        let dense = self.path == Some(DecodingPath::Dense);
        let isi = context.shape.internal(esi);
        self.equation.clear();
        self.equation.resize(self.missing.len(), 0);
        if esi < context.shape.k {
            // A source symbol that was missing when the attempt began is its own equation.
            if let Ok(unknown) = self.missing.binary_search(&esi) {
                self.equation[unknown] = 1;
            }
            self.coefficients.clear();
            self.coefficients.resize(constraints.params.k_ext as usize, 0);
        } else if let Some(inverse) = code.inverse(kernels) {
            let buffers = (&mut self.intermediate, &mut self.coefficients);
            inverse.generator(kernels, constraints, isi, buffers.0, buffers.1);
            for (entry, &unknown) in self.equation.iter_mut().zip(&self.missing) {
                *entry = self.coefficients[unknown as usize];
            }
        } else {
            let buffers = (&mut self.intermediate, &mut self.equation);
            self.units.generator(kernels, constraints, isi, buffers.0, buffers.1);
        }
        if !self.system.add(kernels, &self.equation) {
            return;
        }
        self.equations.push((esi, row));
        if dense {
            // The columns between the missing ones, piece by piece.
            let mut start = 0;
            for &unknown in self.missing.iter().chain([&context.shape.k]) {
                self.generators.extend_from_slice(&self.coefficients[start..unknown as usize]);
                start = unknown as usize + 1;
            }
            self.generators.resize(self.generators.len().next_multiple_of(LINE), 0);
        }
    }

    /// Appends to `program` what computes the missing source symbols into their external rows:
    /// `0..K` are the source symbols, and the rows of repair symbols follow.
    ///
    /// On the syndrome path it works on what the code's encoding program leaves behind.
    pub(crate) fn finish(&mut self, context: &Context<'_>, program: &mut Program) {
        match self.path {
            Some(DecodingPath::Dense) => self.finish_dense(context, program),
            Some(DecodingPath::Syndrome) => self.finish_syndrome(context, program),
            _ => self.finish_inactivation(context, program),
        }
    }

    /// One product: the inverse times the coefficients of the equations is small work on
    /// coefficients, and saves a second product on bytes.
    fn finish_dense(&mut self, context: &Context<'_>, program: &mut Program) {
        let e = self.missing.len();
        let known = context.shape.k as usize - e;
        let stride = known.next_multiple_of(LINE);
        self.system.inverse_into(&mut self.inverse);
        self.coefficients.clear();
        self.outputs.clear();
        for (&esi, combination) in self.missing.iter().zip(self.inverse.chunks_exact(e)) {
            // One that came after the attempt began is an input, and there.
            if context.received.has_source(esi) {
                continue;
            }
            self.outputs.push(Operand::External(esi));
            let start = self.coefficients.len();
            self.coefficients.resize(start + stride, 0);
            let row = &mut self.coefficients[start..];
            context.kernels.combine(row, &self.generators, stride, combination);
            self.coefficients.truncate(start + known);
            self.coefficients.extend_from_slice(combination);
        }
        self.inputs.clear();
        let mut start = 0;
        for &unknown in self.missing.iter().chain([&context.shape.k]) {
            self.inputs.extend((start..unknown).map(Operand::External));
            start = unknown + 1;
        }
        self.inputs.extend(self.equations.iter().map(|&(_, row)| Operand::External(row)));
        program.product(&self.outputs, &[], &self.inputs, &self.coefficients);
    }

    fn finish_syndrome(&mut self, context: &Context<'_>, program: &mut Program) {
        let code = &context.shape.code;
        let plan = code.plan(context.kernels);
        let eliminated = plan.eliminated(context.kernels, code.constraints());
        let method = eliminated
            .method_without_back_substitution(&context.shape.size(self.missing.len() as u32));
        let first = eliminated.above(method);
        // The missing symbols count as zero here, so a source symbol lacks all it is.
        for (work, &(esi, row)) in (first..).zip(&self.equations) {
            if esi < context.shape.k {
                program.xor_with(work, Some(row));
            }
        }
        let repairs =
            (first..).zip(&self.equations).filter(|(_, (esi, _))| *esi >= context.shape.k);
        let outputs = repairs.map(|(work, &(esi, row))| Output {
            isi: context.shape.internal(esi),
            to: Operand::Work(work),
            plus: Some(row),
        });
        eliminated.outputs(program, &mut self.output, method, outputs);
        self.solve_residuals(program, first);
    }

    /// The missing symbols from the residuals in the work rows from `first` on.
    fn solve_residuals(&mut self, program: &mut Program, first: u32) {
        let residuals = (first..).zip(&self.equations).map(|(work, _)| Operand::Work(work));
        self.inputs.clear();
        self.inputs.extend(residuals);
        self.outputs.clear();
        self.outputs.extend(self.missing.iter().copied().map(Operand::External));
        self.system.inverse_into(&mut self.inverse);
        program.product(&self.outputs, &[], &self.inputs, &self.inverse);
    }

    fn finish_inactivation(&mut self, context: &Context<'_>, program: &mut Program) {
        let constraints = context.shape.code.constraints();
        let (kernels, k) = (context.kernels, context.shape.k);
        let value_of = |i: u32| self.values[i as usize];
        self.schedule.forward_elimination(
            program,
            kernels,
            &mut self.solver,
            constraints,
            value_of,
        );
        let (bits, words) = self.solver.bits();
        let eliminated = Eliminated { kernels, constraints, schedule: &self.schedule, bits, words };
        let method = eliminated.method(&context.shape.size(k - context.received.sources()));
        if method != OutputMethod::BackSubstitution {
            let missing = context.received.missing(k);
            let outputs =
                missing.map(|esi| Output { isi: esi, to: Operand::External(esi), plus: None });
            eliminated.outputs(program, &mut self.output, method, outputs);
        } else {
            let free = eliminated.above(method);
            self.schedule.back_substitution(program, &self.solver, &constraints.params, value_of);
            let missing = context.received.missing(k).map(|esi| (esi, esi));
            let places = &self.schedule.places;
            schedule::sums(program, constraints, places, &mut self.intermediate, free, missing);
        }
    }
}

/// A zero symbol, which stands for missing and padding symbols.
pub(crate) fn zero_symbol(buffer: &mut AlignedBuffer, stride: usize) {
    buffer.resize(stride);
    buffer.fill(0);
}
