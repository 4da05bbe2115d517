//! Every instruction set against byte-by-byte arithmetic.

mod products;
mod programs;

use super::*;

/// Bytes that differ from place to place, without a random number generator.
fn pattern(len: usize, seed: u32) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state.to_le_bytes()[1]
        })
        .collect()
}

const CANARY: u8 = 0xa5;

/// Runs `kernel` on slices of every length up to three vectors and one byte, at every offset of a
/// vector, and checks that bytes around the slice keep their value.
fn at_every_length_and_offset(mut check: impl FnMut(Kernels, &mut [u8], &[u8])) {
    for kernels in Kernels::available() {
        for len in 0..=3 * 64 + 1 {
            for offset in (0..64).step_by(if len % 8 == 1 { 1 } else { 13 }) {
                let src = pattern(len + 64, 7);
                let mut dst = vec![CANARY; len + 128];
                let inner = offset..offset + len;
                dst[inner.clone()].copy_from_slice(&pattern(len, 99));
                check(kernels, &mut dst[inner.clone()], &src[63 - offset..][..len]);
                for (i, byte) in dst.iter().enumerate() {
                    assert!(inner.contains(&i) || *byte == CANARY, "{kernels:?} wrote beyond");
                }
            }
        }
    }
}

#[test]
fn this_machine_runs_the_kernels_it_detects() {
    let names: Vec<_> = Kernels::available().map(|kernels| kernels.isa().name()).collect();
    println!("kernels tested: {names:?}");
    assert_eq!(names[0], "scalar");
    if let Ok(expected) = std::env::var("WELLSPRING_EXPECT_KERNEL") {
        assert!(names.contains(&expected.as_str()), "{expected} kernels were not tested");
    }
}

#[test]
fn names_parse_back() {
    for isa in Isa::ALL {
        assert_eq!(isa.name().parse(), Ok(isa));
    }
    assert_eq!("mmx".parse::<Isa>(), Err(KernelError::UnknownName));
}

#[test]
fn xor_each_agrees_with_xor_and_leaves_the_rest() {
    for kernels in Kernels::available() {
        for len in (0..700).step_by(7) {
            for count in 0..5 {
                let (src, offset) = (pattern(len + 64, 3), len % 64);
                let before: Vec<Vec<u8>> =
                    (0..count).map(|n| pattern(len + n, 5 + n as u32)).collect();
                let mut sums = before.clone();
                let mut slices: Vec<&mut [u8]> = sums.iter_mut().map(Vec::as_mut_slice).collect();
                kernels.xor_each(&mut slices, &src[offset..][..len]);
                for (sum, before) in sums.iter().zip(&before) {
                    let expected = before
                        .iter()
                        .enumerate()
                        .map(|(at, byte)| byte ^ if at < len { src[offset + at] } else { 0 });
                    assert!(expected.eq(sum.iter().copied()), "{kernels:?}, {len} bytes");
                }
            }
        }
    }
}

#[test]
#[should_panic(expected = "a sum shorter than what is added")]
fn xor_each_refuses_short_sums() {
    Kernels::detect().xor_each(&mut [&mut [0; 8], &mut [0; 7]], &[0; 8]);
}

#[test]
fn xor_agrees_at_every_length_and_offset() {
    at_every_length_and_offset(|kernels, dst, src| {
        let expected: Vec<u8> = dst.iter().zip(src).map(|(d, s)| d ^ s).collect();
        kernels.xor(dst, src);
        assert_eq!(dst, expected);
    });
}

#[test]
fn mul_add_and_scale_agree_at_every_length_and_offset() {
    at_every_length_and_offset(|kernels, dst, src| {
        let c = (dst.len() * 37 + 3) as u8;
        let expected: Vec<u8> = dst.iter().zip(src).map(|(d, s)| d ^ gf256::mul(c, *s)).collect();
        kernels.mul_add(dst, src, c);
        assert_eq!(dst, expected);
        let expected: Vec<u8> = dst.iter().map(|d| gf256::mul(c, *d)).collect();
        kernels.scale(dst, c);
        assert_eq!(dst, expected);
    });
}

#[test]
fn every_product_agrees() {
    let all: Vec<u8> = (0..=255).collect();
    for kernels in Kernels::available() {
        for c in 0..=255 {
            let mut dst = all.clone();
            kernels.scale(&mut dst, c);
            assert!(dst.iter().zip(&all).all(|(d, s)| *d == gf256::mul(c, *s)));
            let mut sum = pattern(256, 5);
            kernels.mul_add(&mut sum, &all, c);
            assert!(sum.iter().zip(&pattern(256, 5)).zip(&dst).all(|((s, p), d)| *s == p ^ d));
        }
    }
}

#[test]
fn one_output_agrees_at_every_alignment_of_its_inputs() {
    let coefficients = [3, 0, 1, 200, 77];
    let inputs: Vec<_> = (0..5).map(Operand::External).collect();
    let mut program = Program::new();
    program.product(&[Operand::External(5)], &[], &inputs, &coefficients);
    for kernels in Kernels::available() {
        for (len, offset) in
            [768, 1500, 1537].into_iter().flat_map(|n| (0..64).map(move |o| (n, o)))
        {
            let source = pattern(offset + 5 * len, 4);
            let mut output = vec![CANARY; len + 2];
            let mut storage = RowStorage::default();
            let mut rows = RowTable::new(&mut storage, len);
            // Rows end where the memory does, so reading beyond would be seen by a sanitizer.
            rows.push_shared_rows(&source[offset..], len, 5);
            rows.push_exclusive(&mut output[1..=len]);
            let strip = *STRIPS.last().expect("there are some");
            program.run(kernels, &rows, None, &mut Workspace::default(), strip);
            for (at, byte) in output[1..=len].iter().enumerate() {
                let terms = coefficients.iter().zip(source[offset..].chunks_exact(len));
                let sum = terms.fold(0, |sum, (c, row)| sum ^ gf256::mul(*c, row[at]));
                assert_eq!(*byte, sum, "{kernels:?} {len} {offset} {at}");
            }
            assert!(output[0] == CANARY && output[len + 1] == CANARY);
        }
    }
}

#[test]
fn rank_one_updates_each_row_by_its_factor() {
    for kernels in Kernels::available() {
        let (len, stride) = (75, 80);
        let row = pattern(len, 1);
        let factors = [0, 1, 2, 255, 0, 77];
        let mut rows = pattern(stride * factors.len(), 2);
        let before = rows.clone();
        kernels.rank_one(&mut rows, stride, &factors, &row);
        for (i, factor) in factors.iter().enumerate() {
            for j in 0..stride {
                let add = if j < len { gf256::mul(*factor, row[j]) } else { 0 };
                assert_eq!(rows[i * stride + j], before[i * stride + j] ^ add);
            }
        }
    }
}

#[test]
fn combine_adds_multiples_of_rows() {
    at_every_length_and_offset(|kernels, dst, _| {
        let stride = dst.len() + 5;
        let rows = pattern(stride * 4, 4);
        let before = dst.to_vec();
        let factors = [3, 0, 1, 200];
        kernels.combine(dst, &rows, stride, &factors);
        for (i, byte) in dst.iter().enumerate() {
            let sum = factors
                .iter()
                .enumerate()
                .fold(before[i], |sum, (r, &f)| sum ^ gf256::mul(f, rows[r * stride + i]));
            assert_eq!(*byte, sum);
        }
    });
}

#[test]
fn gather_sums_the_named_rows() {
    at_every_length_and_offset(|kernels, dst, _| {
        let stride = dst.len() + 3;
        let slab = pattern(stride * 6, 4);
        for rows in [&[][..], &[5], &[0, 3], &[1, 2, 4, 2, 0]] {
            if rows.iter().any(|&row| row as usize * stride + dst.len() > slab.len()) {
                continue;
            }
            kernels.gather(dst, &slab, stride, rows);
            for (i, byte) in dst.iter().enumerate() {
                let sum = rows.iter().fold(0, |sum, &row| sum ^ slab[row as usize * stride + i]);
                assert_eq!(*byte, sum);
            }
        }
    });
}

/// Columns and sums small enough to check by the definition of the matrix.
fn small_fold() -> FoldColumns {
    let pairs = (0..40u8).map(|j| [j % 10, (j + 3 + j / 10) % 10]).collect();
    FoldColumns::new(pairs, 10)
}

/// The fold by its definition: `MT * GAMMA` of RFC 6330 §5.3.3.3 with all powers written out.
fn fold_by_definition(columns: &FoldColumns, values: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let n = columns.len();
    let mut sums = vec![vec![0; values[0].len()]; columns.sums()];
    for (i, sum) in sums.iter_mut().enumerate() {
        for (j, value) in values.iter().enumerate() {
            let mut entry = 0;
            for m in j..n {
                let mt = if m == n - 1 {
                    gf256::alpha_power(i)
                } else {
                    u8::from(columns.pairs()[m].contains(&(i as u8)))
                };
                entry ^= gf256::mul(mt, gf256::alpha_power(m - j));
            }
            for (s, v) in sum.iter_mut().zip(value) {
                *s ^= gf256::mul(entry, *v);
            }
        }
    }
    sums
}

#[test]
fn folding_bits_agrees_with_the_hdpc_matrix() {
    let columns = small_fold();
    for kernels in Kernels::available() {
        for words in 1..=2 {
            let bytes = pattern(columns.len() * words * 8, 11);
            let bits: Vec<u64> = bytes
                .chunks_exact(8)
                .map(|chunk| u64::from_le_bytes(chunk.try_into().expect("eight bytes")))
                .collect();
            let values: Vec<Vec<u8>> = bits
                .chunks_exact(words)
                .map(|row| (0..64 * words).map(|i| (row[i / 64] >> (i % 64) & 1) as u8).collect())
                .collect();
            let mut out = vec![0xff; columns.sums() * 64 * words];
            kernels.fold_bits(&columns, &bits, words, &mut out);
            assert_eq!(out, fold_by_definition(&columns, &values).concat(), "{kernels:?}");
        }
    }
}

#[test]
fn aligned_buffers_start_on_a_line_and_grow_with_zeros() {
    let mut buffer = AlignedBuffer::default();
    buffer.resize(100);
    assert_eq!(buffer.as_ptr() as usize % 64, 0);
    buffer.fill(9);
    buffer.resize(10);
    buffer.resize(100);
    assert!(buffer[..10].iter().all(|b| *b == 9) && buffer[10..].iter().all(|b| *b == 0));
}
