//! Turns at reading files for pages of their manifests: few at one time, one for each address, and addresses one after
//! the other.
//!
//! A page is asked for in a kilobyte, and up to 512 MiB of a file are below it. Who asks for many has all of them read in
//! its own turns, and nobody else waits for more than the one that is being read. An address for which an object was read
//! several times a short while ago rests between its turns.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use super::address_limit::source_of;
use crate::manifest::PageId;
use crate::store::Digest;

/// Pages that are read at one time. Each takes all processors; one may wait for its disk.
const MAX_READING: usize = 4;
/// Questions that wait, at most: their files are open.
const MAX_WAITING: usize = 128;
/// How often an object is read for an address within so long before that rests. A receiver has each of its pages read
/// once, and pages that are kept are not read.
const OFTEN: (u64, Duration) = (4, Duration::from_secs(600));
/// How long it rests then: so many times as long as the reading took.
const RESTS: u32 = 3;
/// Objects and addresses for which it is remembered how much was read.
const MAX_REMEMBERED: usize = 1_024;

/// A question for a page that has to be read, with what it takes to answer it.
#[derive(Debug)]
pub(super) struct PageQuestion<With> {
    pub client: SocketAddr,
    pub page: (Digest, PageId),
    /// Length of the object \[bytes\].
    pub size: u64,
    pub with: With,
}

/// Who has a turn, and what waits for one.
#[derive(Debug)]
pub(super) struct PageTurns<With> {
    reading: BTreeMap<IpAddr, Reading>,
    /// What was read for addresses.
    read: BTreeMap<(IpAddr, Digest), Read>,
    /// Addresses that rest, and until when.
    resting: BTreeMap<IpAddr, Instant>,
    /// Of each address the questions that wait; the first address is the next.
    waiting: VecDeque<(IpAddr, VecDeque<PageQuestion<With>>)>,
    has_ended: bool,
}

/// A page that is being read.
#[derive(Debug)]
struct Reading {
    page: (Digest, PageId),
    since: Instant,
    /// The object was read for the address often enough.
    is_often: bool,
}

/// How much of an object was read, and since when.
#[derive(Debug)]
struct Read {
    bytes: u64,
    since: Instant,
}

impl<With> Default for PageTurns<With> {
    fn default() -> Self {
        PageTurns {
            reading: BTreeMap::new(),
            read: BTreeMap::new(),
            resting: BTreeMap::new(),
            waiting: VecDeque::new(),
            has_ended: false,
        }
    }
}

impl<With> PageTurns<With> {
    /// Has a question wait for its turn; false if it is to be asked again later, since the client's first one for that page
    /// waits or is being read, or since too many wait.
    pub(super) fn ask(&mut self, question: PageQuestion<With>) -> bool {
        let of = source_of(question.client);
        let is_read = self.reading.get(&of).is_some_and(|read| read.page == question.page);
        if self.has_ended || is_read {
            return false;
        }
        let own = self.waiting.iter().position(|(address, _)| *address == of);
        let line = own.map(|at| &self.waiting[at].1);
        let is_same = |other: &PageQuestion<With>| {
            other.client == question.client && other.page == question.page
        };
        if line.is_some_and(|line| line.iter().any(is_same)) {
            return false;
        }
        if !self.has_room_beside(line.map_or(0, VecDeque::len)) {
            return false;
        }
        match own {
            Some(at) => self.waiting[at].1.push_back(question),
            None => self.waiting.push_back((of, VecDeque::from([question]))),
        }
        true
    }

    /// The next question, whose turn lasts until its [`end`](Self::end).
    pub(super) fn next(&mut self, now: Instant) -> Option<PageQuestion<With>> {
        if self.reading.len() >= MAX_READING {
            return None;
        }
        self.resting.retain(|_, until| now < *until);
        let may_be_read = |(of, line): &(IpAddr, VecDeque<PageQuestion<With>>)| {
            // What is being read for another address is at hand then.
            let is_read = |page| self.reading.values().any(|read| read.page == page);
            !self.reading.contains_key(of)
                && !self.resting.contains_key(of)
                && line.front().is_some_and(|question| !is_read(question.page))
        };
        let at = self.waiting.iter().position(may_be_read)?;
        let (of, mut line) = self.waiting.remove(at)?;
        let question = line.pop_front()?;
        if !line.is_empty() {
            self.waiting.push_back((of, line));
        }
        let is_often = self.count(of, &question, now);
        self.reading.insert(of, Reading { page: question.page, since: now, is_often });
        Some(question)
    }

    /// The turn of a client's address is over.
    pub(super) fn end(&mut self, client: SocketAddr, now: Instant) {
        let of = source_of(client);
        if let Some(Reading { since, is_often: true, .. }) = self.reading.remove(&of) {
            self.resting.insert(of, now + now.saturating_duration_since(since) * RESTS);
        }
    }

    /// Counts what is read for an address; whether that was the object several times.
    fn count(&mut self, of: IpAddr, question: &PageQuestion<With>, now: Instant) -> bool {
        let (digest, page) = question.page;
        let (often, within) = OFTEN;
        let is_old = |read: &Read| now.saturating_duration_since(read.since) >= within;
        self.read.retain(|_, read| !is_old(read));
        let key = (of, digest);
        if self.read.len() >= MAX_REMEMBERED && !self.read.contains_key(&key) {
            let oldest = self.read.iter().min_by_key(|(_, read)| read.since);
            if let Some(oldest) = oldest.map(|(key, _)| *key) {
                self.read.remove(&oldest);
            }
        }
        let read = self.read.entry(key).or_insert(Read { bytes: 0, since: now });
        let range = page.range(question.size);
        read.bytes = read.bytes.saturating_add(range.end - range.start);
        read.bytes > question.size.saturating_mul(often)
    }

    /// Nothing more is read.
    pub(super) fn end_all(&mut self) {
        self.has_ended = true;
        self.waiting.clear();
    }

    /// Whether one more can wait of an address that has so many: if too many wait, the last one of the address that has
    /// most gives way, and its client asks again.
    fn has_room_beside(&mut self, own: usize) -> bool {
        if self.waiting.iter().map(|(_, line)| line.len()).sum::<usize>() < MAX_WAITING {
            return true;
        }
        let longest = self.waiting.iter_mut().map(|(_, line)| line).max_by_key(|line| line.len());
        longest.filter(|line| line.len() > own + 1).and_then(VecDeque::pop_back).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(host: u8, port: u16, index: u64) -> PageQuestion<()> {
        let client = ([192, 0, 2, host], port).into();
        PageQuestion {
            client,
            page: (Digest([7; 32]), PageId { node_len: 1 << 20, index }),
            size: 1 << 40,
            with: (),
        }
    }

    /// Whose page is read next, and which it is.
    fn next(turns: &mut PageTurns<()>) -> Option<(u8, u64)> {
        let question = turns.next(Instant::now())?;
        let IpAddr::V4(ip) = question.client.ip() else { panic!("no address of these") };
        Some((ip.octets()[3], question.page.1.index))
    }

    fn end(turns: &mut PageTurns<()>, host: u8) {
        turns.end(([192, 0, 2, host], 1).into(), Instant::now());
    }

    #[test]
    fn an_address_has_one_page_read_at_a_time_and_others_come_between() {
        let mut turns = PageTurns::default();
        assert!((0..100).all(|index| turns.ask(question(1, 1 + (index % 3) as u16, index))));
        assert_eq!((next(&mut turns), next(&mut turns)), (Some((1, 0)), None), "one at a time");
        assert!(turns.ask(question(2, 1, 200)) && turns.ask(question(2, 1, 201)));
        assert_eq!((next(&mut turns), next(&mut turns)), (Some((2, 200)), None));
        end(&mut turns, 1);
        assert_eq!(next(&mut turns), Some((1, 1)));
        end(&mut turns, 1);
        end(&mut turns, 2);
        assert_eq!(next(&mut turns), Some((2, 201)), "before the many of the other one");
        assert_eq!((next(&mut turns), next(&mut turns)), (Some((1, 2)), None));
        turns.end_all();
        end(&mut turns, 1);
        assert!(next(&mut turns).is_none() && !turns.ask(question(1, 1, 300)));
    }

    #[test]
    fn few_pages_are_read_at_one_time_and_none_for_two() {
        let mut turns = PageTurns::default();
        assert!((1..=9).all(|host| turns.ask(question(host, 1, host.into()))));
        let read: Vec<_> = std::iter::from_fn(|| next(&mut turns)).collect();
        assert_eq!(read, [(1, 1), (2, 2), (3, 3), (4, 4)]);
        let mut turns = PageTurns::default();
        assert!(turns.ask(question(1, 1, 5)) && turns.ask(question(2, 1, 5)));
        assert_eq!((next(&mut turns), next(&mut turns)), (Some((1, 5)), None), "at hand then");
        assert!(!turns.ask(question(1, 1, 5)), "it is being read for it");
        assert!(!turns.ask(question(2, 1, 5)), "it waits");
        end(&mut turns, 1);
        assert_eq!(next(&mut turns), Some((2, 5)));
    }

    #[test]
    fn who_has_an_object_read_over_and_over_rests_between_its_turns() {
        let (began, second) = (Instant::now(), Duration::from_secs(1));
        let mut turns = PageTurns::default();
        let asked = |turns: &mut PageTurns<()>, host| {
            let page = turns.waiting.len() as u64;
            // Two pages of 32 MiB.
            turns.ask(PageQuestion { size: 64 << 20, ..question(host, 1, page % 2) })
        };
        let client = |host: u8| SocketAddr::from(([192, 0, 2, host], 1));
        for _ in 0..8 {
            assert!(asked(&mut turns, 1) && turns.next(began).is_some(), "four times");
            turns.end(client(1), began + second);
        }
        let mut now = began + second;
        for _ in 0..3 {
            assert!(asked(&mut turns, 1) && turns.next(now).is_some());
            turns.end(client(1), now + second);
            now += second;
            assert!(asked(&mut turns, 1));
            assert!(turns.next(now).is_none() && turns.next(now + 2 * second).is_none());
            assert!(asked(&mut turns, 2), "another address");
            assert_eq!(turns.next(now).map(|question| question.client), Some(client(2)));
            turns.end(client(2), now);
            now += 3 * second;
            assert!(turns.next(now).is_some(), "it has rested");
            turns.end(client(1), now);
        }
        now += OFTEN.1;
        assert!(asked(&mut turns, 1) && turns.next(now).is_some());
        turns.end(client(1), now + second);
        assert!(asked(&mut turns, 1) && turns.next(now + second).is_some(), "long ago");
    }

    #[test]
    fn who_asks_for_much_gives_way_to_who_asks_for_little() {
        let mut turns = PageTurns::default();
        let taken = (0..1_000).filter(|index| turns.ask(question(1, 1, *index))).count();
        assert_eq!(taken, MAX_WAITING);
        let taken = (0..1_000).filter(|index| turns.ask(question(2, 1, *index))).count();
        assert_eq!(taken, MAX_WAITING / 2);
        assert!(turns.ask(question(3, 1, 0)));
        let waiting: usize = turns.waiting.iter().map(|(_, line)| line.len()).sum();
        assert_eq!(waiting, MAX_WAITING);
    }
}
