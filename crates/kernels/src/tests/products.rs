//! Products of more input than the second cache holds, which some instruction sets go through a few rows
//! at a time.

use super::{CANARY, pattern};
use crate::*;

/// Bytes between rows, beyond their length.
const GAP: usize = 5;

/// Against the definition, and nothing beyond the rows, for one to eleven outputs from rows of all lengths around
/// vectors and pages; with bases, outputs start from them.
#[test]
fn products_of_many_bytes_agree() {
    for len in [1030, 1500, 4095, 4096, 4097, 9001] {
        let inputs = crate::instruction::MANY_INPUTS / len + 3;
        for outputs in [1, 2, 3, 4, 5, 11] {
            for has_bases in [false, true] {
                check_product(len, inputs, outputs, has_bases);
            }
        }
    }
}

fn check_product(len: usize, inputs: usize, outputs: usize, has_bases: bool) {
    let stride = len + GAP;
    let source = pattern((inputs + outputs) * stride, 7);
    let coefficients = pattern(outputs * inputs, 9);
    let row = |i: usize| &source[i * stride..][..len];
    let mut expected = vec![vec![0; len]; outputs];
    for (o, expected) in expected.iter_mut().enumerate() {
        if has_bases {
            expected.copy_from_slice(row(inputs + o));
        }
        for i in 0..inputs {
            Kernels::with_isa(Isa::Scalar).expect("every CPU has it").mul_add(
                expected,
                row(i),
                coefficients[o * inputs + i],
            );
        }
    }
    let external = |from: usize, count: usize| -> Vec<Operand> {
        (from..from + count).map(|i| Operand::External(i as u32)).collect()
    };
    let mut program = Program::new();
    program.product(
        &external(inputs + outputs, outputs),
        &if has_bases { external(inputs, outputs) } else { Vec::new() },
        &external(0, inputs),
        &coefficients,
    );
    for kernels in Kernels::available() {
        let mut output = vec![CANARY; outputs * stride];
        let mut storage = RowStorage::default();
        let mut rows = RowTable::new(&mut storage, len);
        rows.push_shared_rows(&source, stride, inputs + outputs);
        rows.push_exclusive_rows(&mut output, stride, outputs);
        program.run(kernels, &rows, None, &mut Workspace::default(), 256);
        for (o, expected) in expected.iter().enumerate() {
            let row = &output[o * stride..][..stride];
            let isa = kernels.isa();
            assert!(row[..len] == expected[..], "{isa}: row {o} of {outputs}, {len} bytes");
            assert!(row[len..].iter().all(|byte| *byte == CANARY), "{isa}: beyond row {o}");
        }
    }
}
