//! Agreement of all methods that compute symbols after forward elimination.

use wellspring_kernels::{RowStorage, RowTable, Workspace};

use super::*;
use crate::raptorq::code::Code;
use crate::raptorq::plan::strip_len;
use crate::raptorq::schedule::sums;

/// `count` encoding symbols of a block of K' symbols; with `plus`, made in work rows, and source symbol 0
/// added to each.
fn encode(
    code: &Code,
    kernels: Kernels,
    (method, plus): (OutputMethod, bool),
    source: &[u8],
) -> Vec<u8> {
    let constraints = code.constraints();
    let k = constraints.params.k_ext;
    let (t, count) = (source.len() / k as usize, k.min(70));
    let plan = code.plan(kernels);
    let eliminated = plan.eliminated(kernels, constraints);
    let above = eliminated.above(method);
    let isi = |i: u32| k + i * i;
    let mut program = Program::new();
    if method == OutputMethod::BackSubstitution {
        let outputs = (0..count).map(|i| (isi(i), k + i));
        sums(&mut program, constraints, &plan.schedule.places, &mut Vec::new(), above, outputs);
    } else {
        let to = |i| if plus { Operand::Work(above + i) } else { Operand::External(k + i) };
        let outputs =
            (0..count).map(|i| Output { isi: isi(i), to: to(i), plus: plus.then_some(0) });
        eliminated.outputs(&mut program, &mut OutputScratch::default(), method, outputs);
        if plus {
            (0..count).for_each(|i| program.store(k + i, above + i));
        }
    }
    let mut symbols = vec![0; count as usize * t];
    let mut storage = RowStorage::default();
    let mut rows = RowTable::new(&mut storage, t);
    rows.push_shared_rows(source, t, k as usize);
    rows.push_exclusive_rows(&mut symbols, t, count as usize);
    let all = [(&plan.forward, 0), (&plan.backward, 0), (&program, 0)];
    let programs =
        if method == OutputMethod::BackSubstitution { &all[..] } else { &[all[0], all[2]][..] };
    let (mut workspace, strip) =
        (Workspace::default(), strip_len(kernels.isa(), program.work_rows()));
    Program::run_all(programs, kernels, &rows, Some(&constraints.hdpc), &mut workspace, strip);
    symbols
}

#[test]
fn all_methods_give_the_same_symbols() {
    for kernels in Kernels::available() {
        for k in [10, 55, 101, 257, 1002] {
            let code = Code::new(k).expect("in range");
            for t in [1, 64, 700] {
                let bytes = |i: usize| (i * 131 + i / 7 + i / 1009) as u8;
                let source: Vec<u8> = (0..k as usize * t).map(bytes).collect();
                let expected =
                    encode(&code, kernels, (OutputMethod::BackSubstitution, false), &source);
                let mut added = expected.clone();
                for symbol in added.chunks_exact_mut(t) {
                    symbol.iter_mut().zip(&source).for_each(|(byte, zeroth)| *byte ^= zeroth);
                }
                for method in [OutputMethod::Residuals, OutputMethod::Tables] {
                    let said = format!("{kernels:?} {method:?} K' {k} T {t}");
                    assert!(encode(&code, kernels, (method, false), &source) == expected, "{said}");
                    assert!(
                        encode(&code, kernels, (method, true), &source) == added,
                        "{said}, plus"
                    );
                }
            }
        }
    }
}
