//! All ways from a first sweep to symbols give the same ones.

use wellspring_kernels::{RowStorage, RowTable, Workspace};

use super::*;
use crate::raptorq::code::{Code, strip_len};
use crate::raptorq::schedule::sums;

/// `count` encoding symbols of a block of K' symbols; with `plus`, made in work rows, and source symbol 0
/// added to each.
fn encode(code: &Code, kernels: Kernels, (way, plus): (Way, bool), source: &[u8]) -> Vec<u8> {
    let constraints = code.constraints();
    let k = constraints.params.k_ext;
    let (t, count) = (source.len() / k as usize, k.min(70));
    let plan = code.plan(kernels);
    let swept = plan.swept(kernels, constraints);
    let above = swept.above(way);
    let isi = |i: u32| k + i * i;
    let mut program = Program::new();
    if way == Way::Sweep {
        let outputs = (0..count).map(|i| (isi(i), k + i));
        sums(&mut program, constraints, &plan.schedule.places, &mut Vec::new(), above, outputs);
    } else {
        let to = |i| if plus { Operand::Work(above + i) } else { Operand::External(k + i) };
        let outputs =
            (0..count).map(|i| Output { isi: isi(i), to: to(i), plus: plus.then_some(0) });
        swept.outputs(&mut program, &mut OutputScratch::default(), way, outputs);
        if plus {
            (0..count).for_each(|i| program.store(k + i, above + i));
        }
    }
    let mut symbols = vec![0; count as usize * t];
    let mut storage = RowStorage::default();
    let mut rows = RowTable::new(&mut storage, t);
    rows.push_shared_rows(source, t, k as usize);
    rows.push_exclusive_rows(&mut symbols, t, count as usize);
    let all = [(&plan.first, 0), (&plan.second, 0), (&program, 0)];
    let programs = if way == Way::Sweep { &all[..] } else { &[all[0], all[2]][..] };
    let (mut workspace, strip) =
        (Workspace::default(), strip_len(kernels.isa(), program.work_rows()));
    Program::run_all(programs, kernels, &rows, Some(&constraints.hdpc), &mut workspace, strip);
    symbols
}

#[test]
fn all_ways_give_the_same_symbols() {
    for kernels in Kernels::available() {
        for k in [10, 55, 101, 257, 1002] {
            let code = Code::new(k).expect("in range");
            for t in [1, 64, 700] {
                let bytes = |i: usize| (i * 131 + i / 7 + i / 1009) as u8;
                let source: Vec<u8> = (0..k as usize * t).map(bytes).collect();
                let swept = encode(&code, kernels, (Way::Sweep, false), &source);
                let mut added = swept.clone();
                for symbol in added.chunks_exact_mut(t) {
                    symbol.iter_mut().zip(&source).for_each(|(byte, zeroth)| *byte ^= zeroth);
                }
                for way in [Way::Residuals, Way::Tables] {
                    let said = format!("{kernels:?} {way:?} K' {k} T {t}");
                    assert!(encode(&code, kernels, (way, false), &source) == swept, "{said}");
                    assert!(encode(&code, kernels, (way, true), &source) == added, "{said}, plus");
                }
            }
        }
    }
}
