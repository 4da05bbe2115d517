//! Common interface to the codecs under test.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use raptorq::{EncodingPacket, SourceBlockDecoder, SourceBlockEncoder, SourceBlockEncodingPlan};
use reed_solomon_simd::{ReedSolomonDecoder, ReedSolomonEncoder};
use wellspring_codec::kernels::Kernels;
use wellspring_codec::raptorq::{
    BlockDecoder, BlockEncoder, Code, Decoded, DecodingPath, ENCODING_SYMBOLS,
};
use wellspring_console::exit::Failed;
use wellspring_console::output::Stderr;
use wellspring_core::Seed;

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

    /// Draws of as many lost symbols, each with so many repair symbols that came.
    pub(super) fn draws(&self, lost: u32, repair: u32) -> Vec<Draw> {
        let bytes = (self.k + repair) as usize * self.t;
        let count = (MAX_DRAWN / bytes).clamp(1, MAX_DRAWS);
        (1..=count as u64).map(|seed| Draw::new(self.k, lost, repair, seed)).collect()
    }

    pub(super) fn symbol(&self, esi: u32) -> &[u8] {
        &self.source[esi as usize * self.t..][..self.t]
    }
}

/// Most draws of one figure, and bytes of all that is received in them.
const MAX_DRAWS: usize = 8;
const MAX_DRAWN: usize = 64 << 20;
/// Numbers that the first repair symbol may have beyond K.
const NUMBERS: u64 = 1 << 16;

/// What one receiver may have: which source symbols are lost, and which repair symbols came.
pub(super) struct Draw {
    /// In order.
    pub(super) missing: Vec<u32>,
    /// Number (ESI) of the first repair symbol; the others follow.
    pub(super) first: u32,
}

impl Draw {
    pub(super) fn new(k: u32, lost: u32, repair: u32, seed: u64) -> Self {
        let mut stream = Seed(seed).stream("losses");
        let mut below = |bound: u64| stream.next_u64() % bound.max(1);
        let mut all: Vec<u32> = (0..k).collect();
        for place in 0..lost {
            let other = u64::from(place) + below(u64::from(k - place));
            all.swap(place as usize, usize::try_from(other).expect("below K"));
        }
        all.truncate(lost as usize);
        all.sort_unstable();
        let room = u64::from(ENCODING_SYMBOLS - k).saturating_sub(u64::from(repair));
        let beyond = u32::try_from(below(room.min(NUMBERS))).expect("24 bits");
        Self { missing: all, first: k + beyond }
    }

    fn is_missing(&self, esi: u32) -> bool {
        self.missing.binary_search(&esi).is_ok()
    }
}

/// Times each of them in turn.
pub(super) fn in_turn(mut timed: Vec<Timed<'_>>) -> Timed<'_> {
    let mut next = 0;
    Box::new(move || {
        next = (next + 1) % timed.len();
        timed[next]()
    })
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
    fn version(&self) -> &str;
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

    fn version(&self) -> &str {
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
        let mut draws = Vec::new();
        for draw in job.draws(lost, operation.repair()) {
            let mut sent = vec![0; operation.repair() as usize * t];
            encoder.encode_run(&job.source, draw.first, &mut sent).map_err(codec_error)?;
            let received: Vec<u32> = (0..k).filter(|esi| !draw.is_missing(*esi)).collect();
            draws.push((draw, received, sent));
        }
        let mut decoder =
            BlockDecoder::with_kernels(code, k, t, self.kernels).map_err(codec_error)?;
        decoder.force_path(self.path);
        let mut block = job.source.clone();
        let mut repairs = draws[0].2.clone();
        let (mut turn, count) = (0, draws.len());
        let mut once = move |checked: bool| {
            let (Draw { missing, first }, received, sent) = &draws[turn % count];
            turn += 1;
            // What is received has just been written, as the packets that the peer is given.
            for &esi in received {
                block[esi as usize * t..][..t].copy_from_slice(job.symbol(esi));
            }
            for &esi in missing {
                block[esi as usize * t..][..t].fill(0);
            }
            repairs.copy_from_slice(sent);
            let (time, decoded) = timed(|| {
                decoder.clear();
                for &esi in received {
                    decoder.mark_source(esi)?;
                }
                for esi in *first..*first + operation.repair() {
                    decoder.mark_repair(esi)?;
                }
                let repair = |esi: u32| &repairs[(esi - first) as usize * t..][..t];
                decoder.try_decode_with(&mut block, repair)
            });
            let right = decoded == Ok(Decoded::Complete) && (!checked || block == job.source);
            (time, right, decoder.path())
        };
        for _ in 0..count {
            let (_, right, path) = once(true);
            if !right {
                return Err(wrong("wellspring", operation));
            }
            if let Some(forced) =
                self.path.filter(|forced| path.is_some_and(|path| path != *forced))
            {
                let forced = format!("{forced:?}").to_lowercase();
                writeln!(Stderr, "K {k}, {lost} lost: the decoder cannot take --path {forced}");
                return Ok(None);
            }
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

    fn version(&self) -> &str {
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
        let mut all: Vec<Timed<'a>> = Vec::new();
        for draw in job.draws(lost, operation.repair()) {
            let mut received = encoder.source_packets();
            received.retain(|packet| !draw.is_missing(packet.payload_id().encoding_symbol_id()));
            received.extend(encoder.repair_packets(draw.first - job.k, operation.repair()));
            let once = move || {
                let packets = received.clone();
                timed(|| {
                    SourceBlockDecoder::new(0, &information, job.source.len() as u64)
                        .decode(packets)
                })
            };
            if once().1.as_ref() != Some(&job.source) {
                return Err(wrong("raptorq", operation));
            }
            all.push(Box::new(move || once().0));
        }
        Ok(Some(in_turn(all)))
    }
}

/// Crate `reed-solomon-simd`: not a fountain, but fast and widely used.
pub(super) struct ReedSolomonPeer;

impl Peer for ReedSolomonPeer {
    fn name(&self) -> &'static str {
        "reed-solomon-simd"
    }

    fn version(&self) -> &str {
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
        if let Operation::Decode { lost } = operation {
            let draws = job.draws(lost, lost);
            let (mut turn, count, mut block) = (0, draws.len(), job.source.clone());
            let mut once = move || {
                turn += 1;
                let missing = &draws[turn % count].missing;
                decode_shards(job, &mut decoder, (&shards, 0), missing, &mut block)
            };
            for _ in 0..count {
                if once().1 != Ok(true) {
                    return Err(wrong("reed-solomon-simd", operation));
                }
            }
            return Ok(Some(Box::new(move || once().0)));
        }
        // As many as can be of use to a decoder at a time.
        let mut block = job.source.clone();
        for (shards, first) in shards.chunks(k).zip((0..).step_by(k)) {
            let lost = u32::try_from(shards.len()).expect("at most K");
            let missing = Draw::new(job.k, lost, lost, 1).missing;
            let came = (shards, first);
            if decode_shards(job, &mut decoder, came, &missing, &mut block).1 != Ok(true) {
                return Err(wrong("reed-solomon-simd", operation));
            }
        }
        Ok(Some(Box::new(move || timed(|| encode(&mut encoder)).0)))
    }
}

/// Decodes a block that lost as many symbols as recovery shards came, which are those from a number on;
/// whether that gave the right bytes. Copying these out is part of the time, as it is for others.
fn decode_shards(
    job: &Job,
    decoder: &mut ReedSolomonDecoder,
    (shards, first): (&[Vec<u8>], usize),
    missing: &[u32],
    block: &mut [u8],
) -> (Duration, Result<bool, reed_solomon_simd::Error>) {
    for &esi in missing {
        block[esi as usize * job.t..][..job.t].fill(0);
    }
    let (time, decoded) = timed(|| {
        for esi in (0..job.k).filter(|esi| missing.binary_search(esi).is_err()) {
            decoder.add_original_shard(esi as usize, job.symbol(esi))?;
        }
        for (i, shard) in (first..).zip(shards) {
            decoder.add_recovery_shard(i, shard)?;
        }
        for (i, symbol) in decoder.decode()?.restored_original_iter() {
            block[i * job.t..][..job.t].copy_from_slice(symbol);
        }
        Ok(())
    });
    let is_right = |&esi: &u32| block[esi as usize * job.t..][..job.t] == *job.symbol(esi);
    (time, decoded.map(|()| missing.iter().all(is_right)))
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

    #[test]
    fn losses_and_numbers_of_repair_symbols_differ_from_draw_to_draw() {
        let job = Job::new(100, 8);
        let draws = job.draws(10, 12);
        assert_eq!(draws.len(), MAX_DRAWS);
        for (draw, other) in draws.iter().zip(&draws[1..]) {
            assert_eq!(draw.missing.len(), 10);
            assert!(draw.missing.is_sorted_by(|one, next| one < next));
            assert!(draw.missing.iter().all(|esi| *esi < 100));
            assert!(draw.first >= 100);
            assert!(draw.missing != other.missing && draw.first != other.first);
        }
        let [draw] = &Job::new(1, 1).draws(1, 3)[..1] else { panic!("no draw") };
        assert_eq!(draw.missing, [0]);
        assert!(job.draws(0, 0).iter().all(|draw| draw.missing.is_empty()));
    }

    #[test]
    fn codecs_bring_back_what_each_draw_has_lost() {
        let job = Job::new(20, 64);
        for lost in [0, 3, 20] {
            let operation = Operation::Decode { lost };
            let mut ours = Ours::new(Kernels::default(), None);
            assert!(ours.prepare(&job, operation).is_ok_and(|timed| timed.is_some()));
            assert!(RaptorqPeer.prepare(&job, operation).is_ok_and(|timed| timed.is_some()));
            let theirs = ReedSolomonPeer.prepare(&job, operation);
            assert!(theirs.is_ok_and(|timed| timed.is_some() == (lost > 0)));
        }
    }
}
