//! Owners, extended attributes and access control lists of entries.

use crate::number::{put, take};

/// Names of the attributes in which Linux keeps POSIX access control lists.
pub const ACL_NAMES: [&[u8]; 2] = [b"system.posix_acl_access", b"system.posix_acl_default"];

/// Beginning of the names of attributes that users have.
const USER: &[u8] = b"user.";

/// Longest name of an extended attribute, as on Linux \[bytes\].
pub const MAX_XATTR_NAME: usize = 255;
/// Longest value of one, as on Linux \[bytes\].
pub const MAX_XATTR_VALUE: usize = 64 << 10;
/// Length of all that an entry has, with their names \[bytes\].
pub const MAX_XATTRS_LEN: usize = 128 << 10;

/// What a listing has of its entries besides mode and time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Keeps {
    /// Owners and groups, as numbers.
    pub owner: bool,
    /// Extended attributes whose names begin with `user.`.
    pub xattrs: bool,
    /// POSIX access control lists.
    pub acls: bool,
}

const OWNER: u64 = 1;
const XATTRS: u64 = 2;
const ACLS: u64 = 4;

impl Keeps {
    /// Whether there is nothing.
    pub fn is_nothing(self) -> bool {
        self == Keeps::default()
    }

    /// Whether there are extended attributes of any kind.
    pub fn has_xattrs(self) -> bool {
        self.xattrs || self.acls
    }

    /// Whether it has the attribute of that name.
    pub fn has(self, name: &[u8]) -> bool {
        self.xattrs && name.starts_with(USER) && name.len() > USER.len()
            || self.acls && ACL_NAMES.contains(&name)
    }

    /// What one of both has.
    #[must_use]
    pub fn or(self, other: Keeps) -> Keeps {
        Keeps {
            owner: self.owner || other.owner,
            xattrs: self.xattrs || other.xattrs,
            acls: self.acls || other.acls,
        }
    }

    /// One letter for each, as a part of a tree's name has them.
    pub(crate) fn letters(self) -> String {
        let all = [(self.owner, 'o'), (self.xattrs, 'x'), (self.acls, 'a')];
        all.into_iter().filter_map(|(is_kept, letter)| is_kept.then_some(letter)).collect()
    }

    /// The opposite of [`letters`](Self::letters); each at most once, in that order, and one at least.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let has = |letter| text.contains(letter);
        let keeps = Keeps { owner: has('o'), xattrs: has('x'), acls: has('a') };
        (!keeps.is_nothing() && keeps.letters() == text).then_some(keeps)
    }

    fn bits(self) -> u64 {
        u64::from(self.owner) * OWNER
            + u64::from(self.xattrs) * XATTRS
            + u64::from(self.acls) * ACLS
    }

    fn from_bits(bits: u64) -> Option<Self> {
        let has = |bit| bits & bit != 0;
        let keeps = Keeps { owner: has(OWNER), xattrs: has(XATTRS), acls: has(ACLS) };
        (keeps.bits() == bits && bits != 0).then_some(keeps)
    }
}

/// Owner and group of a file, as numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Owner {
    /// The user.
    pub user: u32,
    /// The group.
    pub group: u32,
}

/// What an entry has besides mode and time; nothing by default.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Attributes<'a> {
    /// Which of it is known.
    pub keeps: Keeps,
    /// Its owner, if that is known.
    pub owner: Owner,
    /// Its extended attributes of the kinds that are known.
    pub xattrs: Xattrs<'a>,
}

/// Extended attributes, checked: names ascend and are of kinds that are kept, lengths are within their bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Xattrs<'a>(&'a [u8]);

impl<'a> Xattrs<'a> {
    /// Names and values, ascending.
    pub fn iter(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let mut rest = self.0;
        std::iter::from_fn(move || next(&mut rest))
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// As they stand in a listing, and by [`parse`](Self::parse) they come back.
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// Reads and checks bytes; `None` if they are not extended attributes of these kinds.
    pub fn parse(bytes: &'a [u8], keeps: Keeps) -> Option<Self> {
        if bytes.len() > MAX_XATTRS_LEN {
            return None;
        }
        let (mut rest, mut last) = (bytes, &[][..]);
        while !rest.is_empty() {
            let (name, value) = next(&mut rest)?;
            let is_name = name.len() <= MAX_XATTR_NAME && !name.contains(&0) && keeps.has(name);
            if !is_name || value.len() > MAX_XATTR_VALUE || name <= last {
                return None;
            }
            last = name;
        }
        Some(Xattrs(bytes))
    }

    /// As bytes, of names and values in any order; `None` if they are more than an entry may have.
    pub fn to_bytes(attributes: &mut [(Vec<u8>, Vec<u8>)]) -> Option<Vec<u8>> {
        attributes.sort_unstable();
        let mut bytes = Vec::new();
        for (name, value) in attributes {
            put(name.len() as u64, &mut bytes);
            bytes.extend_from_slice(name);
            put(value.len() as u64, &mut bytes);
            bytes.extend_from_slice(value);
        }
        (bytes.len() <= MAX_XATTRS_LEN).then_some(bytes)
    }
}

fn next<'a>(rest: &mut &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
    Some((piece(rest)?, piece(rest)?))
}

/// Bytes behind their length.
fn piece<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = usize::try_from(take(rest)?).ok()?;
    let (piece, behind) = rest.split_at_checked(len)?;
    *rest = behind;
    Some(piece)
}

impl<'a> Attributes<'a> {
    /// Appends them to an entry.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put(self.keeps.bits(), out);
        if self.keeps.owner {
            put(self.owner.user.into(), out);
            put(self.owner.group.into(), out);
        }
        if self.keeps.has_xattrs() {
            put(self.xattrs.0.len() as u64, out);
            out.extend_from_slice(self.xattrs.0);
        }
    }

    /// Reads and checks them at the end of an entry.
    pub(crate) fn take(rest: &mut &'a [u8]) -> Option<Self> {
        let keeps = Keeps::from_bits(take(rest)?)?;
        let mut attributes = Attributes { keeps, ..Attributes::default() };
        if keeps.owner {
            let mut number = || u32::try_from(take(rest)?).ok();
            attributes.owner = Owner { user: number()?, group: number()? };
            // To the system it means that nothing is changed.
            if [attributes.owner.user, attributes.owner.group].contains(&u32::MAX) {
                return None;
            }
        }
        if keeps.has_xattrs() {
            attributes.xattrs = Xattrs::parse(piece(rest)?, keeps)?;
        }
        Some(attributes)
    }
}

/// [`Attributes`] that outlive their listing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OwnedAttributes {
    keeps: Keeps,
    owner: Owner,
    xattrs: Box<[u8]>,
}

impl From<Attributes<'_>> for OwnedAttributes {
    fn from(attributes: Attributes<'_>) -> Self {
        let Attributes { keeps, owner, xattrs } = attributes;
        OwnedAttributes { keeps, owner, xattrs: xattrs.0.into() }
    }
}

impl OwnedAttributes {
    /// Themselves.
    pub fn as_ref(&self) -> Attributes<'_> {
        // They were checked when they were made.
        Attributes { keeps: self.keeps, owner: self.owner, xattrs: Xattrs(&self.xattrs) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Keeps = Keeps { owner: true, xattrs: true, acls: true };

    fn bytes(attributes: &[(&[u8], &[u8])]) -> Vec<u8> {
        let mut all: Vec<_> = attributes.iter().map(|(n, v)| (n.to_vec(), v.to_vec())).collect();
        Xattrs::to_bytes(&mut all).expect("few")
    }

    #[test]
    fn attributes_come_back_sorted_and_those_of_other_kinds_are_refused() {
        let some = bytes(&[(b"user.b", b"2"), (b"user.a", &[0, 255]), (ACL_NAMES[0], b"acl")]);
        let parsed = Xattrs::parse(&some, ALL).expect("all are kept");
        let names: Vec<&[u8]> = parsed.iter().map(|(name, _)| name).collect();
        assert_eq!(names, [ACL_NAMES[0], b"user.a", b"user.b"]);
        let attributes =
            Attributes { keeps: ALL, owner: Owner { user: 7, group: 1 << 30 }, xattrs: parsed };
        let mut out = Vec::new();
        attributes.put(&mut out);
        assert_eq!(Attributes::take(&mut &out[..]), Some(attributes));
        assert_eq!(OwnedAttributes::from(attributes).as_ref(), attributes);
        for cut in 0..out.len() {
            assert_eq!(Attributes::take(&mut &out[..cut]), None, "{cut}");
        }
        assert_eq!(Xattrs::parse(&some, Keeps { acls: false, ..ALL }), None);
    }

    #[test]
    fn hostile_attributes_are_refused() {
        let long_name = [&b"user."[..], &[b'x'; 251]].concat();
        let long_value = vec![0; MAX_XATTR_VALUE + 1];
        for hostile in [
            bytes(&[(b"security.capability", b"x")]),
            bytes(&[(b"trusted.overlay.opaque", b"y")]),
            bytes(&[(b"system.nfs4_acl", b"")]),
            bytes(&[(b"user.", b"")]),
            bytes(&[(b"", b"")]),
            bytes(&[(b"user.a\0b", b"")]),
            bytes(&[(b"user.a", b""), (b"user.a", b"")]),
            bytes(&[(&long_name, b"")]),
            bytes(&[(b"user.a", &long_value)]),
            [bytes(&[(b"user.b", b"")]), bytes(&[(b"user.a", b"")])].concat(),
        ] {
            let shown = &hostile[..hostile.len().min(40)];
            assert_eq!(Xattrs::parse(&hostile, ALL), None, "{shown:?}");
        }
        // More than an entry may have, of parts that it may.
        let value = vec![0; MAX_XATTR_VALUE];
        let mut many: Vec<_> = [b"user.a", b"user.b"].map(|n| (n.to_vec(), value.clone())).into();
        assert_eq!(Xattrs::to_bytes(&mut many), None);
        // A length beyond all that there is allocates nothing.
        let mut endless = Vec::new();
        put(7, &mut endless);
        (0..3).for_each(|_| put(u64::MAX, &mut endless));
        assert_eq!(Attributes::take(&mut &endless[..]), None);
        let mut unknown = Vec::new();
        put(8, &mut unknown);
        assert_eq!(Attributes::take(&mut &unknown[..]), None);
    }

    #[test]
    fn kinds_have_one_spelling() {
        assert_eq!(Keeps::parse("oxa"), Some(ALL));
        assert_eq!(Keeps::parse("x"), Some(Keeps { xattrs: true, ..Keeps::default() }));
        for wrong in ["", "xo", "oo", "oxab", "O"] {
            assert_eq!(Keeps::parse(wrong), None, "{wrong}");
        }
    }
}
