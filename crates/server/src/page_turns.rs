//! Turns at reading files for pages of their manifests: few at one time, one for each address, and addresses one after
//! the other.
//!
//! A page is asked for in a kilobyte, and up to 512 MiB of a file are below it. Who asks for many has all of them read in
//! its own turns, and nobody else waits for more than the one that is being read.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use super::address_limit::source_of;
use crate::manifest::PageId;
use crate::store::Digest;

/// Pages that are read at one time. Each takes all processors; one may wait for its disk.
const MAX_READING: usize = 4;
/// Questions that wait, at most: their files are open.
const MAX_WAITING: usize = 128;

/// A question for a page that has to be read, with what it takes to answer it.
#[derive(Debug)]
pub(super) struct PageQuestion<With> {
    pub client: SocketAddr,
    pub page: (Digest, PageId),
    pub with: With,
}

/// Who has a turn, and what waits for one.
#[derive(Debug)]
pub(super) struct PageTurns<With> {
    reading: BTreeMap<IpAddr, (Digest, PageId)>,
    /// Of each address the questions that wait; the first address is the next.
    waiting: VecDeque<(IpAddr, VecDeque<PageQuestion<With>>)>,
    has_ended: bool,
}

impl<With> Default for PageTurns<With> {
    fn default() -> Self {
        PageTurns { reading: BTreeMap::new(), waiting: VecDeque::new(), has_ended: false }
    }
}

impl<With> PageTurns<With> {
    /// Has a question wait for its turn; false if it is to be asked again later, since the client's first one for that page
    /// waits or is being read, or since too many wait.
    pub(super) fn ask(&mut self, question: PageQuestion<With>) -> bool {
        let of = source_of(question.client);
        if self.has_ended || self.reading.get(&of) == Some(&question.page) {
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
    pub(super) fn next(&mut self) -> Option<PageQuestion<With>> {
        if self.reading.len() >= MAX_READING {
            return None;
        }
        let may_be_read = |(of, line): &(IpAddr, VecDeque<PageQuestion<With>>)| {
            // What is being read for another address is at hand then.
            let is_read = |page| self.reading.values().any(|read| *read == page);
            !self.reading.contains_key(of) && line.front().is_some_and(|q| !is_read(q.page))
        };
        let at = self.waiting.iter().position(may_be_read)?;
        let (of, mut line) = self.waiting.remove(at)?;
        let question = line.pop_front()?;
        if !line.is_empty() {
            self.waiting.push_back((of, line));
        }
        self.reading.insert(of, question.page);
        Some(question)
    }

    /// The turn of a client's address is over.
    pub(super) fn end(&mut self, client: SocketAddr) {
        self.reading.remove(&source_of(client));
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
            with: (),
        }
    }

    /// Whose page is read next, and which it is.
    fn next(turns: &mut PageTurns<()>) -> Option<(u8, u64)> {
        let question = turns.next()?;
        let IpAddr::V4(ip) = question.client.ip() else { panic!("no address of these") };
        Some((ip.octets()[3], question.page.1.index))
    }

    fn end(turns: &mut PageTurns<()>, host: u8) {
        turns.end(([192, 0, 2, host], 1).into());
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
