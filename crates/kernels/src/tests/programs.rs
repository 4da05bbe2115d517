//! Every instruction of programs, on every instruction set.

use super::{CANARY, fold_by_definition, pattern, small_fold};
use crate::*;

/// A program with every instruction, checked for symbol lengths around vectors and strips.
#[test]
fn programs_agree_at_every_symbol_length() {
    let columns = small_fold();
    let n = columns.len() as u32;
    for kernels in Kernels::available() {
        for len in (1..=130).chain([255, 256, 257, 511, 512, 513, 575, 700, 1500]) {
            for strip in STRIPS {
                let source = pattern(40 * (len + 1), 3);
                let mut output = vec![CANARY; 14 * (len + 3)];
                let coefficients = pattern(11 * 12, 8);
                let mut program = Program::new();
                for row in 0..n {
                    program.xor_with(row, Some(row));
                    if row > 1 {
                        program.xor_with(n + 20, Some(row - 1));
                        let mut xor = program.xor(row);
                        xor.work(row).work(n + 20).work(row - 1).work(row - 2);
                        xor.work(row - 1).work(row - 2).work(row - 1).work(row - 2);
                    }
                }
                program.fold(&columns, 0..n, n, n + 10);
                let inputs: Vec<_> = (0..11)
                    .map(|i| if i == 5 { Operand::External(2) } else { Operand::Work(n - 1 + i) })
                    .collect();
                let outputs: Vec<_> = (0..12).map(|i| Operand::External(n + i)).collect();
                // The first seven with bases, which are the same product once more: their sum
                // is zero, and again onto that it is the product.
                let work: Vec<_> = (0..7).map(|i| Operand::Work(n + 30 + i)).collect();
                let seven = &coefficients[..7 * 11];
                program.product(&outputs, &[], &inputs, &coefficients);
                program.product(&work, &outputs[..7], &inputs, seven);
                program.product(&outputs[..7], &work, &inputs, seven);
                program.xor_with(n + 21, Some(n + 1)).work(3).work(30);
                program.xor(n + 22);
                program.store(n + 12, n + 21);
                program.store(n + 13, n + 22);

                let mut storage = RowStorage::default();
                let mut rows = RowTable::new(&mut storage, len);
                rows.push_shared_rows(&source, len + 1, 40);
                rows.push_exclusive_rows(&mut output, len + 3, 14);
                let mut workspace = Workspace::default();
                program.run(kernels, &rows, Some(&columns), &mut workspace, strip);
                check_program(&columns, &source, &output, &coefficients, len);
            }
        }
    }
}

fn check_program(
    columns: &FoldColumns,
    source: &[u8],
    output: &[u8],
    coefficients: &[u8],
    len: usize,
) {
    let mut work: Vec<Vec<u8>> = Vec::new();
    for row in 0..columns.len() {
        let mut value = source[row * (len + 1)..][..len].to_vec();
        if row > 1 {
            for (i, value) in value.iter_mut().enumerate() {
                *value ^= source[(row - 1) * (len + 1) + i] ^ work[row - 1][i] ^ work[row - 2][i];
            }
        }
        work.push(value);
    }
    let sums = fold_by_definition(columns, &work);
    work.extend(sums);
    let mut expected = vec![vec![0; len]; 14];
    for (i, expected) in expected.iter_mut().enumerate().take(12) {
        for j in 0..11 {
            let input =
                if j == 5 { &source[2 * (len + 1)..][..len] } else { &work[columns.len() - 1 + j] };
            for (e, x) in expected.iter_mut().zip(input) {
                *e ^= gf256::mul(coefficients[i * 11 + j], *x);
            }
        }
    }
    for i in 0..len {
        expected[12][i] = expected[1][i] ^ work[3][i] ^ work[30][i];
    }
    for (i, expected) in expected.iter().enumerate() {
        let row = &output[i * (len + 3)..][..len + 3];
        assert_eq!(&row[..len], expected, "row {i} of {len} bytes");
        assert!(row[len..].iter().all(|byte| *byte == CANARY), "wrote beyond row {i}");
    }
}

#[test]
fn sums_that_end_in_external_rows_agree_at_every_symbol_length() {
    const N: u32 = 12;
    for kernels in Kernels::available() {
        for len in (1..=130).chain([255, 256, 257, 511, 512, 513, 700, 1500]) {
            for strip in STRIPS {
                let source = pattern(N as usize * len, 5);
                let mut output = vec![CANARY; 2 * N as usize * len];
                let mut program = Program::new();
                for row in 0..N {
                    program.xor_with(row, Some(row));
                }
                // Sums of none to eleven rows, without and with an external one.
                for n in 0..2 * N {
                    let external = (n >= N).then_some(N - 1);
                    let mut xor = program.xor_with(N + n, external);
                    if n % 2 == 0 {
                        (0..n % N).for_each(|row| _ = xor.work(row));
                    } else {
                        xor.work_where((0..3 * N).map(|row| (row, row < n % N)));
                    }
                    xor.store(N + n);
                }
                let mut storage = RowStorage::default();
                let mut rows = RowTable::new(&mut storage, len);
                rows.push_shared_rows(&source, len, N as usize);
                rows.push_exclusive_rows(&mut output, len, 2 * N as usize);
                program.run(kernels, &rows, None, &mut Workspace::default(), strip);
                for (n, sum) in output.chunks_exact(len).enumerate() {
                    let summed = source.chunks_exact(len).enumerate().filter(|(row, _)| {
                        *row < n % N as usize || n >= N as usize && *row == N as usize - 1
                    });
                    let mut expected = vec![0; len];
                    for (_, row) in summed {
                        expected.iter_mut().zip(row).for_each(|(e, x)| *e ^= x);
                    }
                    assert_eq!(sum, expected, "{kernels:?} sum {n} of {len} bytes");
                }
            }
        }
    }
}

#[test]
fn long_rows_agree_wherever_their_cache_lines_start() {
    const N: u32 = 9;
    for kernels in Kernels::available() {
        for (len, ahead, strip) in
            [(4096_usize, 16, 512), (4160, 1, 2048), (8192, 63, 64), (5000, 8, 256)]
        {
            let stride = len.next_multiple_of(64);
            let (mut source, mut output) = (AlignedBuffer::default(), AlignedBuffer::default());
            source.resize(ahead + N as usize * stride);
            source.copy_from_slice(&pattern(ahead + N as usize * stride, 7));
            output.resize(source.len());
            let mut program = Program::new();
            for row in 0..N {
                let mut xor = program.xor_with(row, Some(row));
                for before in 0..row {
                    xor.work(before);
                }
                xor.store(N + row);
                program.xor_with(row, Some(row));
            }
            let mut storage = RowStorage::default();
            let mut rows = RowTable::new(&mut storage, len);
            rows.push_shared_rows(&source[ahead..], stride, N as usize);
            rows.push_exclusive_rows(&mut output[ahead..], stride, N as usize);
            program.run(kernels, &rows, None, &mut Workspace::default(), strip);
            let mut expected = vec![0; len];
            for row in 0..N as usize {
                let at = ahead + row * stride;
                expected.iter_mut().zip(&source[at..]).for_each(|(e, x)| *e ^= x);
                assert!(output[at..][..len] == expected, "{kernels:?} row {row} of {len} bytes");
            }
        }
    }
}

#[test]
#[should_panic(expected = "external rows missing")]
fn where_a_sum_ends_is_checked_too() {
    let mut program = Program::new();
    let mut xor = program.xor(0);
    xor.work(100).work(99);
    xor.store(7);
    assert_eq!(program.work_rows(), 101);
    let mut bytes = [0; 4];
    let mut storage = RowStorage::default();
    let mut rows = RowTable::new(&mut storage, 4);
    rows.push_exclusive_rows(&mut bytes, 4, 1);
    program.run(Kernels::detect(), &rows, None, &mut Workspace::default(), 64);
}

#[test]
fn a_forgotten_sum_leaves_nothing_of_it() {
    let mut program = Program::new();
    let mut xor = program.xor_with(1_000_000, Some(0));
    for row in 0..9 {
        xor.work(row);
    }
    core::mem::forget(xor);
    program.xor_with(0, Some(0)).store(1);
    assert_eq!(program.work_rows(), 1);
    let (source, mut output) = ([1, 2, 3, 4], [0; 4]);
    let mut storage = RowStorage::default();
    let mut rows = RowTable::new(&mut storage, 4);
    rows.push_shared(&source);
    rows.push_exclusive(&mut output);
    program.run(Kernels::detect(), &rows, None, &mut Workspace::default(), 64);
    assert_eq!(output, source);
}

#[test]
#[should_panic(expected = "row is shared")]
fn a_program_cannot_write_a_shared_row() {
    let mut program = Program::new();
    program.store(0, 0);
    let mut storage = RowStorage::default();
    let mut rows = RowTable::new(&mut storage, 4);
    rows.push_shared(&[0; 4]);
    program.run(Kernels::detect(), &rows, None, &mut Workspace::default(), 64);
}

#[test]
#[should_panic(expected = "external rows missing")]
fn a_program_cannot_read_rows_that_are_not_there() {
    let mut program = Program::new();
    program.xor_with(0, Some(1));
    let mut storage = RowStorage::default();
    let mut rows = RowTable::new(&mut storage, 4);
    rows.push_shared(&[0; 4]);
    program.run(Kernels::detect(), &rows, None, &mut Workspace::default(), 64);
}

#[test]
fn tables_hold_every_sum_at_every_symbol_length() {
    const SIZE: u32 = 1 << TABLE_ROWS;
    for kernels in Kernels::available() {
        for (len, n) in (1..=130).zip((0_u32..14).cycle()).chain([(255, 9), (513, 11), (1500, 4)]) {
            for strip in STRIPS {
                let source = pattern(n as usize * len, 5);
                let tables = n.div_ceil(TABLE_ROWS);
                let mut output = vec![CANARY; (tables * SIZE) as usize * len];
                let mut program = Program::new();
                for row in 0..n {
                    program.xor_with(3 + row, Some(row));
                }
                program.tables(3..3 + n, 40);
                // What no row of a last, smaller table stands behind is left alone.
                let is_sum = |number: u32| {
                    let rows = (n - number / SIZE * TABLE_ROWS).min(TABLE_ROWS);
                    (1..1 << rows).contains(&(number % SIZE))
                };
                for number in (0..tables * SIZE).filter(|number| is_sum(*number)) {
                    program.store(n + number, 40 + number);
                }
                let mut storage = RowStorage::default();
                let mut rows = RowTable::new(&mut storage, len);
                rows.push_shared_rows(&source, len, n as usize);
                rows.push_exclusive_rows(&mut output, len, (tables * SIZE) as usize);
                program.run(kernels, &rows, None, &mut Workspace::default(), strip);
                for (number, sum) in (0..).zip(output.chunks_exact(len)) {
                    let mut expected = vec![if is_sum(number) { 0 } else { CANARY }; len];
                    let first = number / SIZE * TABLE_ROWS;
                    for bit in
                        (0..TABLE_ROWS).filter(|bit| is_sum(number) && number >> bit & 1 == 1)
                    {
                        let row = &source[(first + bit) as usize * len..];
                        expected.iter_mut().zip(row).for_each(|(e, x)| *e ^= x);
                    }
                    assert_eq!(sum, expected, "{kernels:?} sum {number} of {n} rows, {len} bytes");
                }
            }
        }
    }
}
