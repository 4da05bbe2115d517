//! Every instruction set against byte-by-byte arithmetic.

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
                program.fold(&columns, 0..n, n);
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
fn aligned_buffers_start_on_a_line_and_grow_with_zeros() {
    let mut buffer = AlignedBuffer::default();
    buffer.resize(100);
    assert_eq!(buffer.as_ptr() as usize % 64, 0);
    buffer.fill(9);
    buffer.resize(10);
    buffer.resize(100);
    assert!(buffer[..10].iter().all(|b| *b == 9) && buffer[10..].iter().all(|b| *b == 0));
}
