//! Blocks that an earlier transfer has left in the part file, verified again: before the transfer, or beside it.

use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::ops::Range;
use std::sync::Arc;

use crate::task::{Boxed, JoinSet};
use tokio::sync::Semaphore;
use wellspring_transport::scdp::ObjectInfo;

use super::pages::{Pages, Question, SharedManifest, first_answer, lock};
use super::requester::AskError;
use crate::manifest::{PAGE_NODES, PageId};
use crate::store::{Check, PartFile};

/// Nodes up to this length are hashed as a whole \[bytes\].
const LONGEST_NODE: u64 = 32 << 20;
/// Nodes whose pages are asked for before they are hashed: no answer has all nodes of a long object gone through.
const BATCH: usize = 1 << 15;
/// Bytes hashed in one go \[bytes\].
const AT_ONCE: u64 = 64 << 20;
/// Pages that may fail to come before what is not verified yet is fetched again, and that may come wrong from a holder
/// before it is asked for no more.
const MAX_FAILURES: usize = 8;

/// A page, and the answer to the question for it.
pub type Answered = (PageId, Result<Vec<u8>, AskError>);

/// Who has the object, and is asked for pages of its manifest.
pub trait Holders: Send + Sync {
    /// Whether that holder can be asked.
    fn is_live(&self, share: usize) -> bool;

    /// Asks.
    fn ask(&self, question: Question) -> Boxed<'static, Answered>;

    /// So many bytes of the part file are looked at \[bytes\].
    fn looked_at(&self, done: u64);

    /// Whether nobody wants to know any more what is there.
    fn is_over(&self) -> bool {
        false
    }
}

/// The part file of a transfer, and what is known of its object.
pub struct Left<'a> {
    /// The file.
    pub part: &'a Arc<PartFile>,
    /// How the object is cut.
    pub object: &'a ObjectInfo,
    /// Who has the object.
    pub holders: &'a dyn Holders,
    /// Turns at reading what is there, where others read as well. Nobody has one who waits for an answer.
    pub turns: Option<&'a Semaphore>,
}

impl Left<'_> {
    /// The blocks that are there and right, ascending. They are noted in the part file.
    pub async fn blocks(&self, pages: &mut Pages) -> Vec<Range<u32>> {
        self.right_blocks(pages, &data_ranges(self.part).await).await
    }

    /// Those of the blocks that were presumed which are wrong or cannot be verified, ascending: they are missing. The others
    /// are noted in the part file.
    pub async fn refuted(&self, pages: &mut Pages, presumed: &[Range<u32>]) -> Vec<Range<u32>> {
        let ranges: Vec<_> =
            presumed.iter().map(|run| self.object.byte_range_of_run(run)).collect();
        let right = self.right_blocks(pages, &ranges).await;
        let refuted = without(presumed, &right);
        for run in &refuted {
            self.part.refute(self.object.byte_range_of_run(run));
        }
        refuted
    }

    /// The blocks within these ranges that are right, ascending. They are noted in the part file.
    async fn right_blocks(&self, pages: &mut Pages, ranges: &[Range<u64>]) -> Vec<Range<u32>> {
        if ranges.is_empty() {
            return Vec::new();
        }
        let (mut there, mut others) = (Vec::new(), ranges.to_vec());
        let block_len = self.object.block_len;
        // Nodes of 32 blocks first: that takes a page for 1,024 blocks.
        let together = block_len * PAGE_NODES;
        if together <= LONGEST_NODE && together < self.object.transfer_len {
            there = self.right(pages, ranges, together).await;
            others = without(ranges, &there);
        }
        there.extend(self.right(pages, &others, block_len).await);
        there.sort_unstable_by_key(|range| range.start);
        let runs = blocks_within(&there, self.object);
        for run in &runs {
            self.part.note(self.object.byte_range_of_run(run));
        }
        runs
    }

    /// Where those nodes of that length within these ranges are that have the object's bytes, ascending.
    async fn right(&self, pages: &mut Pages, ranges: &[Range<u64>], len: u64) -> Vec<Range<u64>> {
        let (mut right, mut failures) = (Vec::new(), Failures::default());
        let mut nodes = nodes_within(ranges, len, self.object.transfer_len);
        loop {
            let mut batch: Vec<u64> = nodes.by_ref().take(BATCH).collect();
            if batch.is_empty() || self.holders.is_over() {
                return right;
            }
            self.fetch_pages(pages, &batch, len, &mut failures).await;
            {
                // The others are of no use, whatever is there.
                let manifest = lock(&pages.manifest);
                batch.retain(|start| manifest.wanted_for(*start, len).is_none());
            }
            self.check(&pages.manifest, &batch, len, &mut right).await;
        }
    }

    /// Hashes nodes of which the manifest is known, and adds to `right` where those are that have the object's bytes.
    async fn check(
        &self,
        manifest: &SharedManifest,
        nodes: &[u64],
        len: u64,
        right: &mut Vec<Range<u64>>,
    ) {
        let size = self.object.transfer_len;
        for run in nodes.chunk_by(|a, b| a + len == *b) {
            // Not so many at once that nobody hears how far it is, or that it goes on for long when it is given up.
            for run in run.chunks((AT_ONCE / len).max(1) as usize) {
                if self.holders.is_over() {
                    return;
                }
                let (part, manifest) = (Arc::clone(self.part), Arc::clone(manifest));
                let run = run.to_vec();
                let done = run.first().copied().unwrap_or(0);
                self.holders.looked_at(done);
                let _turn = match self.turns {
                    // Closed never.
                    Some(turns) => turns.acquire().await.ok(),
                    None => None,
                };
                let checked = crate::task::spawn_blocking(move || {
                    check(&part, &manifest, &run, len, size).unwrap_or_default()
                });
                for start in checked.await.unwrap_or_default() {
                    add(right, start..(start + len).min(size));
                }
            }
        }
    }

    /// Has the pages of the manifest fetched that verify these ascending nodes.
    async fn fetch_pages(
        &self,
        pages: &mut Pages,
        nodes: &[u64],
        len: u64,
        failures: &mut Failures,
    ) {
        let manifest = Arc::clone(&pages.manifest);
        // One of each page of such nodes.
        let mut nodes = nodes.to_vec();
        nodes.dedup_by_key(|start| *start / (len * PAGE_NODES));
        let wanted = |within: &[u64]| -> Vec<PageId> {
            let manifest = lock(&manifest);
            within.iter().filter_map(|start| manifest.wanted_for(*start, len)).collect()
        };
        let mut open: BTreeSet<PageId> = wanted(&nodes).into_iter().collect();
        let mut asked = JoinSet::new();
        while failures.unanswered < MAX_FAILURES {
            let is_live = |share| self.holders.is_live(share) && !failures.is_liar(share);
            for question in pages.ask(open.iter().copied(), is_live) {
                let page = question.page;
                open.remove(&page);
                let questions = pages.with_others(question, is_live);
                let ask = |question: Question| {
                    let (share, answer) = (question.share, self.holders.ask(question));
                    (share, async move { answer.await.1 })
                };
                let questions = questions.into_iter().map(ask).collect();
                asked.spawn(async move {
                    let (share, answer) = first_answer(questions).await?;
                    Some((share, page, answer))
                });
            }
            let Some(answered) = asked.join_next().await else { break };
            match answered {
                Ok(Some((share, page, Ok(bytes)))) => {
                    if pages.answered(page, &bytes).is_err() {
                        *failures.wrong.entry(share).or_default() += 1;
                        open.insert(page);
                        continue;
                    }
                    let below = page.range(self.object.transfer_len);
                    let first = nodes.partition_point(|start| *start < below.start);
                    let last = nodes.partition_point(|start| *start < below.end);
                    open.extend(wanted(&nodes[first..last]));
                }
                Ok(Some((_, page, Err(_)))) => {
                    pages.unanswered(page);
                    open.insert(page);
                    failures.unanswered += 1;
                }
                Ok(None) | Err(_) => failures.unanswered += 1,
            }
        }
        pages.forget_questions();
    }
}

/// What went wrong as pages were asked for.
#[derive(Default)]
struct Failures {
    unanswered: usize,
    /// Wrong pages by who has sent them: a liar costs those it is asked for, and not what others can verify.
    wrong: BTreeMap<usize, usize>,
}

impl Failures {
    fn is_liar(&self, share: usize) -> bool {
        self.wrong.get(&share).is_some_and(|pages| *pages >= MAX_FAILURES)
    }
}

/// Counts the blocks that lie wholly within what an earlier transfer has left as there, before any of them is verified; returns
/// them, ascending.
pub async fn presume(part: &Arc<PartFile>, object: &ObjectInfo) -> Vec<Range<u32>> {
    if !part.has_old_bytes() {
        return Vec::new();
    }
    let presumed = blocks_within(&data_ranges(part).await, object);
    for run in &presumed {
        part.presume(object.byte_range_of_run(run));
    }
    presumed
}

/// The blocks of an object that lie wholly within these ascending ranges.
pub fn blocks_within(ranges: &[Range<u64>], object: &ObjectInfo) -> Vec<Range<u32>> {
    let (len, size) = (object.block_len, object.transfer_len);
    let mut runs = Vec::new();
    for nodes in ranges.iter().map(|range| nodes_of(range, len, size)).filter(|n| !n.is_empty()) {
        add(&mut runs, (nodes.start / len) as u32..nodes.end.div_ceil(len) as u32);
    }
    runs
}

/// Where a part file may have bytes of its object; nowhere if that cannot be known.
async fn data_ranges(part: &Arc<PartFile>) -> Vec<Range<u64>> {
    let part = Arc::clone(part);
    let ranges = crate::task::spawn_blocking(move || part.data_ranges()).await;
    ranges.ok().and_then(Result::ok).unwrap_or_default()
}

/// Which of a run of nodes have the object's bytes.
fn check(
    part: &PartFile,
    manifest: &SharedManifest,
    run: &[u64],
    len: u64,
    size: u64,
) -> std::io::Result<Vec<u64>> {
    let (Some(first), Some(last)) = (run.first(), run.last()) else { return Ok(Vec::new()) };
    if size <= len {
        let mut bytes = vec![0; size as usize];
        part.read_at(0, &mut bytes)?;
        let is_right = lock(manifest).expected(0, len).check(&bytes) == Check::Right;
        return Ok(if is_right { vec![0] } else { Vec::new() });
    }
    let nodes = part.hash_nodes(*first..(last + len).min(size), len)?;
    let manifest = lock(manifest);
    let is_right = |(start, node): &(&u64, _)| manifest.expected(**start, len).is_node(node);
    Ok(run.iter().zip(nodes).filter(is_right).map(|(start, _)| *start).collect())
}

/// The nodes of that length that lie within a range: from the beginning of the first to the end of the last.
fn nodes_of(range: &Range<u64>, len: u64, size: u64) -> Range<u64> {
    // The object's last one may be shorter.
    let end = if range.end >= size { size } else { range.end / len * len };
    range.start.next_multiple_of(len).min(end)..end
}

/// Beginnings of the nodes of that length that lie within these ranges.
fn nodes_within(ranges: &[Range<u64>], len: u64, size: u64) -> impl Iterator<Item = u64> {
    ranges.iter().flat_map(move |range| {
        let nodes = nodes_of(range, len, size);
        iter::successors(Some(nodes.start), move |start| start.checked_add(len))
            .take_while(move |start| *start < nodes.end)
    })
}

/// Adds a run behind ascending ones.
fn add<N: Ord>(runs: &mut Vec<Range<N>>, run: Range<N>) {
    match runs.last_mut() {
        _ if run.is_empty() => {}
        Some(last) if last.end == run.start => last.end = run.end,
        _ => runs.push(run),
    }
}

/// What of ascending runs is not among others.
pub fn without<N: Ord + Copy>(all: &[Range<N>], others: &[Range<N>]) -> Vec<Range<N>> {
    let mut others = others.iter().peekable();
    let mut rest = Vec::new();
    for run in all {
        let mut at = run.start;
        while at < run.end {
            match others.peek() {
                Some(other) if other.end <= at => {
                    others.next();
                }
                Some(other) if other.start < run.end => {
                    rest.push(at..at.max(other.start));
                    at = other.end;
                }
                _ => {
                    rest.push(at..run.end);
                    at = run.end;
                }
            }
        }
    }
    rest.retain(|run| !run.is_empty());
    rest
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::manifest::Manifest;
    use crate::store::{Digest, Existing, ObjectSink, hash_node};

    #[test]
    fn only_what_lies_wholly_within_data_is_looked_at() {
        let ranges = [0..1_000, 1_500..4_096, 5_000..5_500];
        let nodes = |len| nodes_within(&ranges, len, 5_500).collect::<Vec<_>>();
        assert_eq!(nodes(1_024), [2_048, 3_072, 5_120]);
        assert_eq!(nodes(512), [0, 1_536, 2_048, 2_560, 3_072, 3_584, 5_120]);
        let object = |len| ObjectInfo::in_blocks_of(len, 5_500, 512, 0);
        assert_eq!(blocks_within(&ranges, &object(1_024)), [2..4, 5..6]);
        let next_to_each_other = [0..1_500, 2_048..3_072, 3_072..4_096];
        assert_eq!(blocks_within(&next_to_each_other, &object(1_024)), [0..1, 2..4]);
        assert!(blocks_within(&[4_097..5_119, 5_121..5_500], &object(1_024)).is_empty());
    }

    #[test]
    fn blocks_without_others_are_what_is_left() {
        let all = [0..4, 6..10, 12..13];
        assert_eq!(without(&all, &[]), all);
        assert_eq!(without(&all, &all), []);
        assert_eq!(without(&all, &[1..2, 3..7, 9..13]), [0..1, 2..3, 7..9]);
        assert_eq!(without(&all, &[0..1, 5..6, 8..9, 20..30]), [1..4, 6..8, 9..10, 12..13]);
        assert_eq!(without(&[], &all), []);
    }

    /// Two holders of an object, the first of which lies about every page.
    struct OneLies(Arc<[u8]>);

    impl Holders for OneLies {
        fn is_live(&self, share: usize) -> bool {
            share < 2
        }

        fn ask(&self, question: Question) -> Boxed<'static, Answered> {
            let Question { share, page, .. } = question;
            let range = page.range(self.0.len() as u64);
            let below = &self.0[range.start as usize..range.end as usize];
            let starts = range.step_by(page.node_len as usize);
            let parts = starts.zip(below.chunks(page.node_len as usize));
            let mut nodes: Vec<u8> = parts.flat_map(|(at, part)| hash_node(part, at)).collect();
            nodes[0] ^= u8::from(share == 0);
            Box::pin(async move { (page, Ok(nodes)) })
        }

        fn looked_at(&self, _: u64) {}
    }

    /// An object, its part file with all its bytes, and what keeps that.
    fn all_left() -> (Arc<[u8]>, ObjectInfo, Arc<PartFile>, tempfile::TempDir) {
        let bytes: Arc<[u8]> = (0..16_u32 << 20).map(|i| (i ^ (i >> 9)) as u8).collect();
        let digest = Digest(*blake3::hash(&bytes).as_bytes());
        let object = ObjectInfo::in_blocks_of(1_024, bytes.len() as u64, 512, digest.tag());
        let home = tempfile::tempdir().expect("temporary directory");
        let path = home.path().join("x");
        let part = || {
            PartFile::resumed_beside(&path, bytes.len() as u64, digest, Existing::Keep)
                .expect("made")
        };
        part().write_block(0, &bytes).expect("written");
        let part = Arc::new(part());
        (bytes, object, part, home)
    }

    fn pages_of(bytes: &[u8], object: &ObjectInfo) -> Pages {
        let (digest, len) = (Digest(*blake3::hash(bytes).as_bytes()), bytes.len() as u64);
        Pages::new(Manifest::new(digest, len, object.block_len), len, 2)
    }

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_time().build().expect("runtime")
    }

    #[test]
    fn a_holder_that_lies_about_pages_does_not_keep_others_from_verifying_what_is_left() {
        let (bytes, object, part, _home) = all_left();
        runtime().block_on(async {
            let presumed = presume(&part, &object).await;
            assert_eq!(presumed, std::iter::once(0..16 << 10).collect::<Vec<_>>());
            assert!(part.commit().is_err(), "nothing of it is verified");
            let mut pages = pages_of(&bytes, &object);
            let holders = OneLies(Arc::clone(&bytes));
            let left = Left { part: &part, object: &object, holders: &holders, turns: None };
            assert_eq!(left.refuted(&mut pages, &presumed).await, []);
        });
        part.commit().expect("all of it is verified");
    }

    /// Two holders of an object: both answer, or neither. What they are told is counted.
    struct Counted {
        answers: Option<OneLies>,
        asked: AtomicUsize,
        looked_at: AtomicUsize,
    }

    impl Holders for Counted {
        fn is_live(&self, share: usize) -> bool {
            share < 2
        }

        fn ask(&self, question: Question) -> Boxed<'static, Answered> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            match &self.answers {
                Some(holders) => holders.ask(question),
                None => Box::pin(std::future::pending()),
            }
        }

        fn looked_at(&self, _: u64) {
            self.looked_at.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Lets something go on until it has come to a point, and for a while after.
    async fn goes_on(mut future: Pin<&mut impl Future>, until: &AtomicUsize) -> bool {
        let a_while = std::time::Duration::from_millis(100);
        loop {
            let is_there = until.load(Ordering::Relaxed) > 0;
            let is_done = tokio::time::timeout(a_while, future.as_mut()).await.is_ok();
            if is_there || is_done {
                return !is_done;
            }
        }
    }

    #[test]
    fn who_waits_for_an_answer_has_no_turn_and_who_reads_has_one() {
        let (bytes, object, part, _home) = all_left();
        let turns = Semaphore::new(1);
        let holders = |answers| Counted {
            answers,
            asked: AtomicUsize::new(0),
            looked_at: AtomicUsize::new(0),
        };
        let (silent, others) = (holders(None), holders(Some(OneLies(Arc::clone(&bytes)))));
        let left = |holders| Left { part: &part, object: &object, holders, turns: Some(&turns) };
        runtime().block_on(async {
            let (left, mut pages) = (left(&silent), pages_of(&bytes, &object));
            let waits = std::pin::pin!(left.blocks(&mut pages));
            assert!(goes_on(waits, &silent.asked).await, "nobody answers");
            assert_eq!(turns.available_permits(), 1);
        });
        runtime().block_on(async {
            let (left, mut pages) = (left(&others), pages_of(&bytes, &object));
            let turn = turns.acquire().await.expect("open");
            let mut reads = std::pin::pin!(left.blocks(&mut pages));
            assert!(goes_on(reads.as_mut(), &others.looked_at).await, "it is another's turn");
            drop(turn);
            assert_eq!(reads.await, std::iter::once(0..16 << 10).collect::<Vec<_>>());
        });
    }
}
