//! Refusal of invalid instructions: a caller who catches the panic still has a
//! program that stays within its rows.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;
use crate::rows::RowStorage;

/// An iterator that gives other rows than it promised.
struct Liar<I>(I, usize);

impl<I: Iterator> Iterator for Liar<I> {
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        self.0.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.1, Some(self.1))
    }
}

impl<I: Iterator> ExactSizeIterator for Liar<I> {}

fn panics(call: impl FnOnce()) {
    assert!(catch_unwind(AssertUnwindSafe(call)).is_err());
}

/// Every row the code of sums names is counted.
fn assert_rows_are_counted(program: &Program) {
    let mut sum = HEAD;
    while sum < program.whole {
        let end = sum + HEAD + program.code[sum + 1] as usize;
        let rows = program.code[sum + HEAD..end].iter().chain([&program.code[sum]]);
        assert!(rows.clone().all(|&row| row < program.work_rows), "{rows:?}");
        sum = end;
    }
    assert_eq!(program.whole, HEAD + program.code[1] as usize);
}

#[test]
fn a_sum_cut_short_by_a_panic_names_no_row_that_is_not_counted() {
    // Too large a row, more rows than promised, and an iterator that panics itself.
    let rows = || [(1, true), (70_000, false), (u32::MAX, true)].into_iter();
    let mut program = Program::new();
    panics(|| {
        program.xor(0).work_where(rows());
    });
    assert_rows_are_counted(&program);
    let mut program = Program::new();
    panics(|| {
        program.xor(0).work_where(Liar([(80_000, false); 3].into_iter().chain([(2, true); 9]), 2));
    });
    assert_rows_are_counted(&program);
    let mut program = Program::new();
    panics(|| {
        program.xor(0).work_where(Liar(
            (0..3).map(|i| if i == 2 { panic!("as a caller's might") } else { (90_000, false) }),
            3,
        ));
    });
    assert_rows_are_counted(&program);
    // So many that their end has no number.
    panics(|| {
        program.xor(0).work(1).work_where(Liar([(3, true)].into_iter(), usize::MAX));
    });
    assert_rows_are_counted(&program);
    // It goes on as if nothing had been.
    program.xor(1).work(0);
    assert_rows_are_counted(&program);
    let mut storage = RowStorage::default();
    let table = RowTable::new(&mut storage, 4);
    program.run(Kernels::detect(), &table, None, &mut Workspace::default(), 64);
}

#[test]
#[should_panic(expected = "row number too large")]
fn a_fold_whose_sums_end_beyond_the_last_row_is_refused() {
    let columns = FoldColumns::new(vec![[0, 1]; 2], 2);
    Program::new().fold(&columns, 0..2, u32::MAX, 0);
}

#[test]
#[should_panic(expected = "more sums than bytes can name")]
fn a_fold_has_at_most_as_many_sums_as_bytes_can_name() {
    let _ = FoldColumns::new(vec![[0, 255]], 257);
}

#[test]
fn a_refused_fold_leaves_nothing_of_it() {
    let few = FoldColumns::new(vec![[0, 1]; 3], 2);
    let many = FoldColumns::new(vec![[0, 1]; 3], 200);
    let mut program = Program::new();
    program.fold(&many, 0..3, 3, 300);
    let before = program.whole;
    panics(|| program.fold(&few, 0..3, 900, 300));
    panics(|| program.fold(&many, Liar(0..2, 3), 3, 300));
    panics(|| program.fold(&many, Liar(0..9, 3), 3, 300));
    assert_eq!(program.whole, before);
    assert_eq!(program.folds, Some((3, 200)));
}

#[test]
#[should_panic(expected = "bit rows missing")]
fn folding_more_words_than_a_length_can_count_is_refused() {
    let columns = FoldColumns::new(vec![[0, 1]; 2], 2);
    // Twice as many words wrap to none.
    Kernels::detect().fold_bits(&columns, &[], 1 << (usize::BITS - 1), &mut []);
}
