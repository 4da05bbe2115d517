//! Common interface to the codecs under test.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use raptorq::{EncodingPacket, SourceBlockDecoder, SourceBlockEncoder, SourceBlockEncodingPlan};
use reed_solomon_simd::{ReedSolomonDecoder, ReedSolomonEncoder};
use wellspring_codec::kernels::Kernels;
use wellspring_codec::raptorq::{BlockDecoder, BlockEncoder, Code, Decoded, DecodingPath};
use wellspring_console::exit::Failed;
use wellspring_console::output::Stderr;

use crate::report::codec_error;

/// A block of bytes to encode and decode.
pub(super) struct Job {
    pub(super) k: u32,
    pub(super) t: usize,
    pub(super) source: Vec<u8>,
}

impl Job {
    pub(super) fn new(k: u32, t: usize) -> Self {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let source = (0..k as usize * t)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state.to_le_bytes()[3]
            })
            .collect();
        Self { k, t, source }
    }

    /// The symbols that get lost, spread over the block.
    pub(super) fn lost(&self, count: u32) -> Vec<u32> {
        let place = |i: u32| u64::from(i) * u64::from(self.k) / u64::from(count.max(1));
        (0..count).map(|i| u32::try_from(place(i)).expect("below K")).collect()
    }

    pub(super) fn symbol(&self, esi: u32) -> &[u8] {
        &self.source[esi as usize * self.t..][..self.t]
    }
}

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    FirstRepair { warm: bool },
    Encode { repair: u32 },
    Decode { lost: u32 },
}

impl Operation {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::FirstRepair { .. } => "first_repair",
            Self::Encode { .. } => "encode",
            Self::Decode { .. } => "decode",
        }
    }

    pub(super) fn is_warm(self) -> bool {
        !matches!(self, Self::FirstRepair { warm: false })
    }

    /// Repair symbols made, or received.
    pub(super) fn repair(self) -> u32 {
        match self {
            Self::FirstRepair { .. } => 1,
            Self::Encode { repair } => repair,
            Self::Decode { lost: 0 } => 0,
            Self::Decode { lost } => lost + 2,
        }
    }

    pub(super) fn lost(self) -> u32 {
        if let Self::Decode { lost } = self { lost } else { 0 }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FirstRepair { warm: true } => f.write_str("first repair, warm"),
            Self::FirstRepair { warm: false } => f.write_str("first repair, cold"),
            Self::Encode { repair } => write!(f, "encode {repair} repair"),
            Self::Decode { lost } => write!(f, "decode {lost} lost"),
        }
    }
}

/// Which versions of the peers the figures are of; a test holds them against the lock file.
const RAPTORQ_VERSION: &str = "2.0.1";
const REED_SOLOMON_VERSION: &str = "3.1.0";

/// Does an operation once and says how long it took, without preparation and checks.
pub(super) type Timed<'a> = Box<dyn FnMut() -> Duration + 'a>;

/// A codec under measurement.
pub(super) trait Peer {
    fn name(&self) -> &'static str;
    fn version(&self) -> &'static str;
    fn kernel(&self) -> &'static str {
        ""
    }
    /// Checks the operation's answer, and returns what to time; `None` if the codec cannot do it.
    fn prepare<'a>(
        &mut self,
        job: &'a Job,
        operation: Operation,
    ) -> Result<Option<Timed<'a>>, Failed>;
}

pub(super) fn wrong(codec: &str, operation: Operation) -> Failed {
    Failed::other(format!("{codec} gave a wrong answer: {operation}"))
}

/// Times `f` by the clock on the wall, and if it takes long by the processor time of this thread:
/// what else the machine does then does not count. (Asking for that takes too long for short ones.)
pub(super) fn timed<T>(f: impl FnOnce() -> T) -> (Duration, T) {
    const LONG: Duration = Duration::from_micros(50);
    let processor = thread_time();
    let begin = Instant::now();
    let result = f();
    let wall = begin.elapsed();
    let time = match (processor, thread_time()) {
        // Of some virtual machines that clock stands still, or goes back, now and then.
        (Some(begin), Some(end)) if wall > LONG && end > begin => wall.min(end - begin),
        _ => wall,
    };
    (time, result)
}

/// The processor time of this thread, if the system reports it.
#[cfg(target_os = "linux")]
fn thread_time() -> Option<Duration> {
    use rustix::time::{ClockId, clock_gettime};
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Some(Duration::new(time.tv_sec.try_into().ok()?, time.tv_nsec.try_into().ok()?))
}

/// The processor time of this thread, if the system reports it.
#[cfg(not(target_os = "linux"))]
fn thread_time() -> Option<Duration> {
    None
}

/// The repair symbols of the block by the other RaptorQ codec: what both must agree on.
fn expected_repairs(job: &Job, count: u32) -> Vec<EncodingPacket> {
    SourceBlockEncoder::new(0, &their_information(job), &job.source).repair_packets(0, count)
}

fn their_information(job: &Job) -> raptorq::ObjectTransmissionInformation {
    let t = u16::try_from(job.t).expect("16 bits on the command line");
    raptorq::ObjectTransmissionInformation::new(job.source.len() as u64, t, 1, 1, 1)
}

/// This codec.
pub(super) struct Ours {
    kernels: Kernels,
    path: Option<DecodingPath>,
    code: Option<Arc<Code>>,
}

impl Ours {
    pub(super) fn new(kernels: Kernels, path: Option<DecodingPath>) -> Self {
        Self { kernels, path, code: None }
    }

    fn code(&mut self, k: u32) -> Result<Arc<Code>, Failed> {
        match &self.code {
            Some(code) if code.serves(k) => Ok(code.clone()),
            _ => Ok(self.code.insert(Code::new(k).map_err(codec_error)?).clone()),
        }
    }
}

impl Peer for Ours {
    fn name(&self) -> &'static str {
        "wellspring"
    }

    fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    fn kernel(&self) -> &'static str {
        self.kernels.isa().name()
    }

    fn prepare<'a>(
        &mut self,
        job: &'a Job,
        operation: Operation,
    ) -> Result<Option<Timed<'a>>, Failed> {
        let (k, t, kernels) = (job.k, job.t, self.kernels);
        let code = self.code(k)?;
        if let Operation::Decode { lost } = operation {
            return self.prepare_decode(job, lost);
        }
        let repair = operation.repair();
        let mut symbols = vec![0; repair as usize * t];
        let mut encoder = BlockEncoder::with_kernels(code, k, t, kernels).map_err(codec_error)?;
        encoder.encode_run(&job.source, k, &mut symbols).map_err(codec_error)?;
        let expected = expected_repairs(job, repair);
        if !expected.iter().map(EncodingPacket::data).eq(symbols.chunks_exact(t)) {
            return Err(wrong("wellspring", operation));
        }
        Ok(Some(Box::new(move || {
            if operation.is_warm() {
                encoder.clear();
                timed(|| encoder.encode_run(&job.source, k, &mut symbols)).0
            } else {
                timed(|| {
                    let code = Code::new(k)?;
                    let mut encoder = BlockEncoder::with_kernels(code, k, t, kernels)?;
                    encoder.encode_run(&job.source, k, &mut symbols)
                })
                .0
            }
        })))
    }
}

impl Ours {
    fn prepare_decode<'a>(&mut self, job: &'a Job, lost: u32) -> Result<Option<Timed<'a>>, Failed> {
        let (k, t) = (job.k, job.t);
        let operation = Operation::Decode { lost };
        let code = self.code(k)?;
        let mut encoder =
            BlockEncoder::with_kernels(code.clone(), k, t, self.kernels).map_err(codec_error)?;
        let mut sent = vec![0; operation.repair() as usize * t];
        encoder.encode_run(&job.source, k, &mut sent).map_err(codec_error)?;
        let mut repairs = sent.clone();
        let mut decoder =
            BlockDecoder::with_kernels(code, k, t, self.kernels).map_err(codec_error)?;
        decoder.force_path(self.path);
        let missing = job.lost(lost);
        let received: Vec<u32> = (0..k).filter(|esi| missing.binary_search(esi).is_err()).collect();
        let mut block = job.source.clone();
        let mut once = move |checked: bool| {
            // What is received has just been written, as the packets that the peer is given.
            for &esi in &received {
                block[esi as usize * t..][..t].copy_from_slice(job.symbol(esi));
            }
            for &esi in &missing {
                block[esi as usize * t..][..t].fill(0);
            }
            repairs.copy_from_slice(&sent);
            let (time, decoded) = timed(|| {
                decoder.clear();
                for &esi in &received {
                    decoder.mark_source(esi)?;
                }
                for esi in k..k + operation.repair() {
                    decoder.mark_repair(esi)?;
                }
                decoder.try_decode_with(&mut block, |esi| &repairs[(esi - k) as usize * t..][..t])
            });
            let right = decoded == Ok(Decoded::Complete) && (!checked || block == job.source);
            (time, right, decoder.path())
        };
        let (_, right, path) = once(true);
        if !right {
            return Err(wrong("wellspring", operation));
        }
        if let Some(forced) = self.path.filter(|forced| path.is_some_and(|path| path != *forced)) {
            let forced = format!("{forced:?}").to_lowercase();
            writeln!(Stderr, "K {k}, {lost} lost: the decoder cannot take --path {forced}");
            return Ok(None);
        }
        Ok(Some(Box::new(move || once(false).0)))
    }
}

/// Crate `raptorq`.
pub(super) struct RaptorqPeer;

impl Peer for RaptorqPeer {
    fn name(&self) -> &'static str {
        "raptorq"
    }

    fn version(&self) -> &'static str {
        RAPTORQ_VERSION
    }

    fn prepare<'a>(
        &mut self,
        job: &'a Job,
        operation: Operation,
    ) -> Result<Option<Timed<'a>>, Failed> {
        let information = their_information(job);
        let Operation::Decode { lost } = operation else {
            let k = u16::try_from(job.k).expect("at most 56,403");
            let repair = operation.repair();
            // A plan of its own, as its documentation advises for speed.
            let warm = operation.is_warm().then(|| SourceBlockEncodingPlan::generate(k));
            let once = move || {
                let encode = |plan: &SourceBlockEncodingPlan| {
                    SourceBlockEncoder::with_encoding_plan(0, &information, &job.source, plan)
                        .repair_packets(0, repair)
                };
                match &warm {
                    Some(plan) => timed(|| encode(plan)),
                    None => timed(|| encode(&SourceBlockEncodingPlan::generate(k))),
                }
            };
            let mut expected = vec![0; repair as usize * job.t];
            BlockEncoder::new(Code::new(job.k).map_err(codec_error)?, job.k, job.t)
                .map_err(codec_error)?
                .encode_run(&job.source, job.k, &mut expected)
                .map_err(codec_error)?;
            if !once().1.iter().map(EncodingPacket::data).eq(expected.chunks_exact(job.t)) {
                return Err(wrong("raptorq", operation));
            }
            return Ok(Some(Box::new(move || once().0)));
        };
        let encoder = SourceBlockEncoder::new(0, &information, &job.source);
        let missing = job.lost(lost);
        let mut packets = encoder.source_packets();
        packets.retain(|p| missing.binary_search(&p.payload_id().encoding_symbol_id()).is_err());
        packets.extend(encoder.repair_packets(0, operation.repair()));
        let once = move || {
            let packets = packets.clone();
            timed(|| {
                SourceBlockDecoder::new(0, &information, job.source.len() as u64).decode(packets)
            })
        };
        if once().1.as_ref() != Some(&job.source) {
            return Err(wrong("raptorq", operation));
        }
        Ok(Some(Box::new(move || once().0)))
    }
}

/// Crate `reed-solomon-simd`: not a fountain, but fast and widely used.
pub(super) struct ReedSolomonPeer;

impl Peer for ReedSolomonPeer {
    fn name(&self) -> &'static str {
        "reed-solomon-simd"
    }

    fn version(&self) -> &'static str {
        REED_SOLOMON_VERSION
    }

    fn prepare<'a>(
        &mut self,
        job: &'a Job,
        operation: Operation,
    ) -> Result<Option<Timed<'a>>, Failed> {
        let (k, t) = (job.k as usize, job.t);
        let recovery = match operation {
            Operation::Decode { lost } => lost as usize,
            Operation::FirstRepair { warm: false } => return Ok(None),
            _ => operation.repair() as usize,
        };
        // It takes even lengths only, and has nothing to do where nothing is lost.
        if t % 2 != 0 || recovery == 0 || !ReedSolomonEncoder::supports(k, recovery) {
            return Ok(None);
        }
        let fail = |error: reed_solomon_simd::Error| Failed::other(error.to_string());
        let mut encoder = ReedSolomonEncoder::new(k, recovery, t).map_err(fail)?;
        let encode = move |encoder: &mut ReedSolomonEncoder| -> Result<_, _> {
            for esi in 0..job.k {
                encoder.add_original_shard(job.symbol(esi))?;
            }
            encoder.encode().map(|_| ())
        };
        for esi in 0..job.k {
            encoder.add_original_shard(job.symbol(esi)).map_err(fail)?;
        }
        let shards: Vec<Vec<u8>> =
            encoder.encode().map_err(fail)?.recovery_iter().map(<[u8]>::to_vec).collect();
        let mut decoder = ReedSolomonDecoder::new(k, recovery, t).map_err(fail)?;
        if let Operation::Decode { .. } = operation {
            let mut once = move || decode_shards(job, &mut decoder, &shards, 0);
            if once().1 != Ok(true) {
                return Err(wrong("reed-solomon-simd", operation));
            }
            return Ok(Some(Box::new(move || once().0)));
        }
        // As many as can be of use to a decoder at a time.
        for (shards, first) in shards.chunks(k).zip((0..).step_by(k)) {
            if decode_shards(job, &mut decoder, shards, first).1 != Ok(true) {
                return Err(wrong("reed-solomon-simd", operation));
            }
        }
        Ok(Some(Box::new(move || timed(|| encode(&mut encoder)).0)))
    }
}

/// Decodes a block that lost as many symbols as there are `shards`, which are the recovery shards from
/// `first` on; whether that gave the right bytes.
fn decode_shards(
    job: &Job,
    decoder: &mut ReedSolomonDecoder,
    shards: &[Vec<u8>],
    first: usize,
) -> (Duration, Result<bool, reed_solomon_simd::Error>) {
    let missing = job.lost(u32::try_from(shards.len()).expect("at most K"));
    timed(|| {
        for esi in (0..job.k).filter(|esi| missing.binary_search(esi).is_err()) {
            decoder.add_original_shard(esi as usize, job.symbol(esi))?;
        }
        for (i, shard) in (first..).zip(shards) {
            decoder.add_recovery_shard(i, shard)?;
        }
        let result = decoder.decode()?;
        let right = |(i, s): (usize, &[u8])| s == &job.source[i * job.t..][..job.t];
        // Comparing is part of the time, as is copying out for others.
        Ok(result.restored_original_iter().all(right))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_built_with() {
        let lock = include_str!("../../../../Cargo.lock");
        for (name, version) in
            [("raptorq", RAPTORQ_VERSION), ("reed-solomon-simd", REED_SOLOMON_VERSION)]
        {
            let entry = format!("name = \"{name}\"\nversion = \"{version}\"\n");
            assert!(lock.contains(&entry), "the lock file has another version of {name}");
        }
    }
}
