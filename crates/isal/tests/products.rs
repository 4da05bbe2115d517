//! The library's arithmetic against our own.
//!
//! Needs `libisal2`, which the tests' set-up installs; where it cannot be had (no x86-64 Linux), there is
//! nothing to test.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

use wellspring_isal::Library;
use wellspring_kernels::Kernels;

fn bytes(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed) ^ (i >> 8) as u8).collect()
}

#[test]
fn products_are_those_of_our_field() {
    let library = Library::open().expect("libisal.so.2: `make setup` installs it");
    let kernels = Kernels::detect();
    for (source, repair, len) in [(1, 1, 1), (5, 3, 100), (100, 30, 1_500), (200, 55, 64)] {
        let coefficients = library.repair_coefficients(source, repair);
        let matrix = library.prepare(&coefficients, source);
        let inputs: Vec<_> = (0..source).map(|i| bytes(len, i as u8)).collect();
        let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
        let mut outputs = vec![vec![0; len]; repair];
        let mut slots: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
        library.product(&matrix, &inputs, &mut slots);
        for (row, output) in coefficients.chunks_exact(source).zip(&outputs) {
            let mut sum = vec![0; len];
            for (coefficient, input) in row.iter().zip(&inputs) {
                kernels.mul_add(&mut sum, input, *coefficient);
            }
            assert_eq!(&sum, output);
        }
    }
}

#[test]
fn more_symbols_than_a_code_can_have_are_refused() {
    let library = Library::open().expect("libisal.so.2: `make setup` installs it");
    for (source, repair) in [(0, 1), (200, 57), (2, usize::MAX), (usize::MAX, 3)] {
        let refused = std::panic::catch_unwind(|| library.repair_coefficients(source, repair));
        assert!(refused.is_err(), "{source} {repair}");
    }
}

#[test]
fn an_inverse_undoes_its_matrix() {
    let library = Library::open().expect("libisal.so.2: `make setup` installs it");
    let n = 30;
    let square = library.repair_coefficients(n, n);
    let inverse = library.invert(square.clone(), n).expect("Cauchy");
    let input: Vec<_> = (0..n).map(|i| bytes(77, i as u8)).collect();
    let apply = |matrix: &[u8], input: &[Vec<u8>]| {
        let matrix = library.prepare(matrix, n);
        let input: Vec<&[u8]> = input.iter().map(Vec::as_slice).collect();
        let mut output = vec![vec![0; 77]; n];
        let mut slots: Vec<&mut [u8]> = output.iter_mut().map(Vec::as_mut_slice).collect();
        library.product(&matrix, &input, &mut slots);
        output
    };
    assert_eq!(apply(&inverse, &apply(&square, &input)), input);
    assert_eq!(library.invert(vec![0; 4], 2), None);
}
