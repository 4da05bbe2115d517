//! Listings that are kept in memory: within a bound, a share for each address, and what is in use stays.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use crate::store::StoreError;
use crate::store::tree::listing::MAX_LISTING_LEN;

/// Kept at one time, at most.
const MAX_KEPT: usize = 1_024;
/// Of these for one address, if others need the space.
const SHARE: usize = 64;
/// Longest one that is not long \[bytes\].
const MAX_SHORT: usize = 16 << 20;

/// Room for those that are not long, and for long ones \[bytes\].
const SHORT: Room = Room { len: 64 << 20, share: MAX_SHORT };
const LONG: Room = Room { len: MAX_LISTING_LEN, share: 64 << 20 };

/// Bytes of some kind that are kept.
struct Room {
    /// Of all together.
    len: usize,
    /// Of one address, if others need the space.
    share: usize,
}

/// What is kept, what was not used for the longest time first.
pub(super) struct Shelf<T>(VecDeque<Kept<T>>);

struct Kept<T> {
    /// Who has had it made, or has sent it.
    of: IpAddr,
    what: Arc<T>,
    /// \[bytes\]
    len: usize,
    /// Whether something besides itself was asked of it.
    is_wanted: bool,
}

impl<T> Kept<T> {
    fn is_in_use(&self) -> bool {
        Arc::strong_count(&self.what) > 1
    }
}

/// All the space is in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NoRoom;

impl From<NoRoom> for StoreError {
    fn from(NoRoom: NoRoom) -> Self {
        StoreError::NoMemory
    }
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Shelf(VecDeque::new())
    }
}

impl<T> Shelf<T> {
    /// The latest that fits, for use.
    pub(super) fn find(&mut self, fits: impl Fn(&T) -> bool) -> Option<Arc<T>> {
        let at = self.0.iter().rposition(|kept| fits(&kept.what))?;
        let mut kept = self.0.remove(at)?;
        kept.is_wanted = true;
        let found = Arc::clone(&kept.what);
        self.0.push_back(kept);
        Some(found)
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.0.iter().map(|kept| &*kept.what)
    }

    /// Keeps one of that length, in place of those that `is_same` tells of. Returns what went to make room.
    ///
    /// # Errors
    /// What is in use leaves no room for it.
    pub(super) fn keep(
        &mut self,
        of: IpAddr,
        (what, len): (T, usize),
        is_same: impl Fn(&T, &T) -> bool,
    ) -> Result<Vec<Arc<T>>, NoRoom> {
        // What somebody uses takes memory as long as he does.
        self.0.retain(|old| old.is_in_use() || !is_same(&old.what, &what));
        let mut gone = Vec::new();
        while let Some(scope) = self.lacks_room(of, len)? {
            let of_scope = |kept: &&Kept<T>| scope.holds(kept) && !kept.is_in_use();
            let unwanted = self.0.iter().position(|kept| of_scope(&kept) && !kept.is_wanted);
            let oldest = || self.0.iter().position(|kept| of_scope(&kept));
            let at = unwanted.or_else(oldest).ok_or(NoRoom)?;
            gone.extend(self.0.remove(at).map(|kept| kept.what));
        }
        self.0.push_back(Kept { of, what: Arc::new(what), len, is_wanted: false });
        Ok(gone)
    }

    /// Of what something must go before an address can have one more of that length; nothing if there is room.
    fn lacks_room(&self, of: IpAddr, len: usize) -> Result<Option<Scope>, NoRoom> {
        let is_long = len > MAX_SHORT;
        let room = if is_long { LONG } else { SHORT };
        let alike = |kept: &&Kept<T>| (kept.len > MAX_SHORT) == is_long;
        let mut each: BTreeMap<IpAddr, (usize, usize)> = BTreeMap::from([(of, (len, 1))]);
        for kept in &self.0 {
            let (bytes, count) = each.entry(kept.of).or_default();
            *bytes += if alike(&kept) { kept.len } else { 0 };
            *count += 1;
        }
        // Nothing goes if that does not help; and an address can keep no more than half of the space for itself.
        let used = |of: Option<IpAddr>| -> usize {
            let used = self.0.iter().filter(|kept| alike(kept) && kept.is_in_use());
            used.filter(|kept| of.is_none_or(|of| of == kept.of)).map(|kept| kept.len).sum()
        };
        let own = used(Some(of));
        if used(None) + len > room.len || own > 0 && own + len > room.len / 2 {
            return Err(NoRoom);
        }
        let all: usize = each.values().map(|(bytes, _)| bytes).sum();
        let is_many = self.0.len() >= MAX_KEPT;
        if all <= room.len && !is_many {
            return Ok(None);
        }
        // Whoever has more than his share makes room.
        let is_beyond = |(bytes, count): (usize, usize)| {
            if is_many { count > SHARE } else { bytes > room.share }
        };
        let evictable = |of: &IpAddr| {
            self.0
                .iter()
                .any(|kept| kept.of == *of && (is_many || alike(&kept)) && !kept.is_in_use())
        };
        let beyond: Vec<IpAddr> =
            each.iter().filter(|(_, has)| is_beyond(**has)).map(|(of, _)| *of).collect();
        let able: Vec<IpAddr> = beyond.iter().copied().filter(evictable).collect();
        let only = (!able.is_empty()).then_some(able);
        Ok(Some(Scope { only, is_long: (!is_many).then_some(is_long) }))
    }
}

/// What may go.
struct Scope {
    /// Of these addresses; of all if absent.
    only: Option<Vec<IpAddr>>,
    /// Long ones, or the others; all if absent.
    is_long: Option<bool>,
}

impl Scope {
    fn holds<T>(&self, kept: &Kept<T>) -> bool {
        self.only.as_ref().is_none_or(|only| only.contains(&kept.of))
            && self.is_long.is_none_or(|is_long| is_long == (kept.len > MAX_SHORT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn address(host: u8) -> IpAddr {
        [192, 0, 2, host].into()
    }

    fn keep(shelf: &mut Shelf<u32>, host: u8, what: u32, len: usize) -> Result<Vec<u32>, NoRoom> {
        let gone = shelf.keep(address(host), (what, len), |a, b| a == b)?;
        Ok(gone.into_iter().map(|gone| *gone).collect())
    }

    fn has(shelf: &Shelf<u32>, what: u32) -> bool {
        shelf.iter().any(|kept| *kept == what)
    }

    #[test]
    fn many_short_ones_are_kept_and_what_an_address_has_beyond_its_share_goes_first() {
        let mut shelf = Shelf::default();
        assert_eq!(keep(&mut shelf, 9, 5_000, 1_000), Ok(vec![]));
        for what in 0..5_000 {
            keep(&mut shelf, 1, what, 100).expect("not in use");
        }
        assert!(has(&shelf, 5_000), "another's");
        assert_eq!(shelf.iter().count(), MAX_KEPT);
        let mut shelf = Shelf::default();
        keep(&mut shelf, 9, 5_000, 15 * MIB).expect("room");
        for what in 0..20 {
            keep(&mut shelf, 1, what, 10 * MIB).expect("not in use");
        }
        assert!(has(&shelf, 5_000) && has(&shelf, 19) && has(&shelf, 16) && !has(&shelf, 15));
    }

    #[test]
    fn what_is_in_use_stays_and_what_was_used_stays_longer() {
        let mut shelf = Shelf::default();
        for what in 0..4 {
            keep(&mut shelf, what as u8, what, 16 * MIB).expect("room");
        }
        let used = shelf.find(|what| *what == 0).expect("kept");
        shelf.find(|what| *what == 1).expect("kept");
        // Nobody has more than his share: what was only looked at goes, then what was used before.
        assert_eq!(keep(&mut shelf, 4, 4, 16 * MIB), Ok(vec![2]));
        assert_eq!(keep(&mut shelf, 5, 5, 16 * MIB), Ok(vec![3]));
        shelf.find(|what| *what == 4).expect("kept");
        shelf.find(|what| *what == 5).expect("kept");
        assert_eq!(keep(&mut shelf, 6, 6, 16 * MIB), Ok(vec![1]));
        let rest: Vec<_> = [4, 5, 6].map(|it| shelf.find(|what| *what == it).expect("kept")).into();
        assert_eq!(keep(&mut shelf, 7, 7, 1), Err(NoRoom));
        drop(rest);
        assert_eq!(keep(&mut shelf, 7, 7, 1), Ok(vec![4]));
        drop(used);
    }

    #[test]
    fn an_address_cannot_have_all_the_room_in_use() {
        let mut shelf = Shelf::default();
        keep(&mut shelf, 9, 9, 15 * MIB).expect("room");
        let used: Vec<_> = (0..2)
            .map(|what| {
                keep(&mut shelf, 1, what, 15 * MIB).expect("room");
                shelf.find(|kept| *kept == what).expect("kept")
            })
            .collect();
        assert_eq!(keep(&mut shelf, 1, 2, 15 * MIB), Err(NoRoom));
        assert_eq!(keep(&mut shelf, 2, 3, 15 * MIB), Ok(vec![]), "another has room");
        assert_eq!(keep(&mut shelf, 3, 4, 15 * MIB), Ok(vec![9]), "all that is in use stays");
        drop(used);
        assert_eq!(keep(&mut shelf, 1, 2, 15 * MIB), Ok(vec![0]), "its own");
    }

    #[test]
    fn long_ones_have_room_of_their_own() {
        let mut shelf = Shelf::default();
        keep(&mut shelf, 1, 1, 10 * MIB).expect("room");
        assert_eq!(keep(&mut shelf, 2, 2, MAX_LISTING_LEN), Ok(vec![]));
        assert_eq!(keep(&mut shelf, 3, 3, 100 * MIB), Ok(vec![2]));
        assert_eq!(keep(&mut shelf, 4, 4, 100 * MIB), Ok(vec![]));
        let used = shelf.find(|what| *what == 3).expect("kept");
        assert_eq!(keep(&mut shelf, 5, 5, MAX_LISTING_LEN), Err(NoRoom));
        assert!(has(&shelf, 4), "nothing goes in vain");
        drop(used);
        assert!(has(&shelf, 1));
    }

    #[test]
    fn one_that_is_kept_again_is_there_once_unless_the_other_is_in_use() {
        let mut shelf = Shelf::default();
        let used = shelf.keep(address(1), (1, 5), |a, b| a == b).map(|_| shelf.find(|_| true));
        assert_eq!(keep(&mut shelf, 1, 1, 5), Ok(vec![]));
        assert_eq!(shelf.iter().count(), 2, "its bytes are in memory");
        drop(used);
        assert_eq!(keep(&mut shelf, 1, 1, 5), Ok(vec![]));
        assert_eq!(shelf.iter().count(), 1);
    }
}
