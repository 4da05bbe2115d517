//! Reed-Solomon codec of ISA-L, measured where its library is installed.

use std::rc::Rc;

use wellspring_console::exit::Failed;
use wellspring_isal::{Library, MAX_SYMBOLS};

use super::peers::{Draw, Job, Operation, Peer, Timed, in_turn, timed, wrong};

/// ISA-L's erasure code with a Cauchy matrix.
pub(super) struct IsalPeer {
    library: Rc<Library>,
    version: String,
}

impl IsalPeer {
    /// The library, if it is installed.
    pub(super) fn find() -> Option<Self> {
        let library = Rc::new(Library::open()?);
        Some(Self { version: library.version(), library })
    }
}

impl Peer for IsalPeer {
    fn name(&self) -> &'static str {
        "ISA-L"
    }

    fn version(&self) -> &str {
        &self.version
    }

    fn prepare<'a>(
        &mut self,
        job: &'a Job,
        operation: Operation,
    ) -> Result<Option<Timed<'a>>, Failed> {
        let (k, lost) = (job.k as usize, operation.lost() as usize);
        // It sends what was lost and no more; nothing lost is nothing to do.
        let repair = match operation {
            Operation::Decode { .. } => lost,
            _ => operation.repair() as usize,
        };
        if repair == 0 || k + repair > MAX_SYMBOLS {
            return Ok(None);
        }
        let library = Rc::clone(&self.library);
        let coefficients = library.repair_coefficients(k, repair);
        let source: Vec<&[u8]> = (0..job.k).map(|esi| job.symbol(esi)).collect();
        let mut symbols = vec![0; repair * job.t];
        library.product(
            &library.prepare(&coefficients, k),
            &source,
            &mut rows(&mut symbols, job.t),
        );
        if let Operation::Decode { lost } = operation {
            let all: Result<Vec<Timed<'a>>, Failed> = job
                .draws(lost, lost)
                .into_iter()
                .map(|draw| {
                    let (library, coefficients) = (Rc::clone(&library), coefficients.clone());
                    decode(library, job, operation, coefficients, symbols.clone(), draw.missing)
                })
                .collect();
            return all.map(in_turn).map(Some);
        }
        // As many as can be of use to a decoder at a time.
        for (part, symbols) in coefficients.chunks(k * k).zip(symbols.chunks(k * job.t)) {
            let (library, part) = (Rc::clone(&library), part.to_vec());
            let lost = u32::try_from(symbols.len() / job.t).expect("at most K");
            let missing = Draw::new(job.k, lost, lost, 1).missing;
            drop(decode(library, job, operation, part, symbols.to_vec(), missing)?);
        }
        let warm = operation.is_warm().then(|| library.prepare(&coefficients, k));
        Ok(Some(Box::new(move || {
            let mut outputs = rows(&mut symbols, job.t);
            timed(|| match &warm {
                Some(matrix) => library.product(matrix, &source, &mut outputs),
                None => {
                    let coefficients = library.repair_coefficients(k, repair);
                    library.product(&library.prepare(&coefficients, k), &source, &mut outputs);
                }
            })
            .0
        })))
    }
}

fn rows(symbols: &mut [u8], t: usize) -> Vec<&mut [u8]> {
    symbols.chunks_exact_mut(t).collect()
}

/// From the loss pattern to the symbols lost, as many as there are `repairs`: the matrix, which
/// differs with each pattern, is part of the time.
fn decode<'a>(
    library: Rc<Library>,
    job: &'a Job,
    operation: Operation,
    coefficients: Vec<u8>,
    repairs: Vec<u8>,
    missing: Vec<u32>,
) -> Result<Timed<'a>, Failed> {
    let (k, t) = (job.k as usize, job.t);
    let lost = repairs.len() / t;
    let is_known = |esi: &u32| missing.binary_search(esi).is_err();
    let known: Vec<u32> = (0..job.k).filter(is_known).collect();
    let wanted: Vec<u8> = missing.iter().flat_map(|&esi| job.symbol(esi).to_vec()).collect();
    let mut restored = vec![0; lost * t];
    let mut once = move || {
        let (time, done) = timed(|| {
            let columns = |of: &[u32]| -> Vec<u8> {
                let row = |row: &[u8]| of.iter().map(|&esi| row[esi as usize]).collect::<Vec<_>>();
                coefficients.chunks_exact(k).flat_map(row).collect()
            };
            let inverse = library.invert(columns(&missing), lost)?;
            // The repair symbols' own coefficients are the inverse; the known symbols' follow
            // from it by a product on coefficients.
            let mut known_part = vec![0; lost * known.len()];
            if !known.is_empty() {
                let theirs = columns(&known);
                let inputs: Vec<&[u8]> = theirs.chunks_exact(known.len()).collect();
                let mut outputs = rows(&mut known_part, known.len());
                library.product(&library.prepare(&inverse, lost), &inputs, &mut outputs);
            }
            let mut all = Vec::with_capacity(lost * k);
            for row in 0..lost {
                all.extend_from_slice(&inverse[row * lost..][..lost]);
                all.extend_from_slice(&known_part[row * known.len()..][..known.len()]);
            }
            let symbols = known.iter().map(|&esi| job.symbol(esi));
            let inputs: Vec<&[u8]> = repairs.chunks_exact(t).chain(symbols).collect();
            library.product(&library.prepare(&all, k), &inputs, &mut rows(&mut restored, t));
            Some(())
        });
        (time, done.is_some() && restored == wanted)
    };
    if !once().1 {
        return Err(wrong("ISA-L", operation));
    }
    Ok(Box::new(move || once().0))
}
