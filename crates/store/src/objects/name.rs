//! Names of objects: relative paths that cannot lead out of their directory.

use std::fmt;
use std::str::FromStr;

/// Longest name \[bytes\].
pub const MAX_NAME_LEN: usize = 1_000;
/// Longest component of a name \[bytes\]: what file systems hold.
const MAX_COMPONENT_LEN: usize = 255;
/// Most components of a name.
const MAX_DEPTH: usize = 32;

/// The name of an object: components joined by `/`, none of them empty, `.` or `..`, without
/// backslashes and control characters. It leads to a place below its root as long as no component
/// is a symbolic link, which opening checks.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ObjectName(String);

/// Why a text is not the name of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum NameError {
    /// It is empty, or begins or ends with `/`, or holds `//`.
    EmptyComponent,
    /// It begins with `/`.
    Absolute,
    /// It holds the component `.` or `..`.
    Dots,
    /// It holds a backslash, which some systems take for a separator.
    Backslash,
    /// It holds a control character (NUL and line ends are such).
    Control,
    /// The name or a component is too long.
    TooLong {
        /// Its length \[bytes\].
        got: usize,
        /// The limit \[bytes\].
        limit: usize,
    },
    /// It has too many components.
    TooDeep {
        /// How many.
        got: usize,
        /// The limit.
        limit: usize,
    },
    /// It is the kind of name that objects have while they are received.
    PartFile,
    /// A component begins with a dot: such files are hidden, and programs obey some of them.
    Hidden,
    /// A component begins with a dash: programs take it for an option.
    Dash,
    /// It holds a character that is not seen, or that turns the direction of writing.
    Invisible,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameError::EmptyComponent => f.write_str("it has an empty component"),
            NameError::Absolute => {
                f.write_str("it is absolute; names are relative to the server's directory")
            }
            NameError::Dots => f.write_str("it has a component `.` or `..`"),
            NameError::Backslash => f.write_str("it has a backslash"),
            NameError::Control => f.write_str("it has a control character"),
            NameError::TooLong { got, limit } => write!(f, "{got} bytes (limit {limit})"),
            NameError::TooDeep { got, limit } => write!(f, "{got} components (limit {limit})"),
            NameError::PartFile => {
                f.write_str("it is reserved for objects being received, and accounts of them")
            }
            NameError::Hidden => {
                f.write_str("a part of it begins with a dot, which this server does not allow")
            }
            NameError::Dash => {
                f.write_str("a part of it begins with a dash, which this server does not allow")
            }
            NameError::Invisible => f.write_str(
                "it has a character that is invisible or turns the direction of writing, which \
                 this server does not allow",
            ),
        }
    }
}

impl std::error::Error for NameError {}

impl ObjectName {
    /// Checks a name.
    ///
    /// # Errors
    /// Why it cannot be one.
    pub fn new(name: &str) -> Result<Self, NameError> {
        if name.len() > MAX_NAME_LEN {
            return Err(NameError::TooLong { got: name.len(), limit: MAX_NAME_LEN });
        }
        if name.chars().any(char::is_control) {
            return Err(NameError::Control);
        }
        if name.contains('\\') {
            return Err(NameError::Backslash);
        }
        if name.starts_with('/') {
            return Err(NameError::Absolute);
        }
        let depth = name.split('/').count();
        if depth > MAX_DEPTH {
            return Err(NameError::TooDeep { got: depth, limit: MAX_DEPTH });
        }
        for component in name.split('/') {
            match component {
                "" => return Err(NameError::EmptyComponent),
                "." | ".." => return Err(NameError::Dots),
                c if c.len() > MAX_COMPONENT_LEN => {
                    return Err(NameError::TooLong { got: c.len(), limit: MAX_COMPONENT_LEN });
                }
                c if is_reserved(c) => return Err(NameError::PartFile),
                _ => {}
            }
        }
        Ok(ObjectName(name.to_owned()))
    }

    /// Checks a name that another host gives: as [`new`](Self::new), and not that of a tree that is to take another's place,
    /// nor of what is left of one, by which later swaps are steered.
    ///
    /// # Errors
    /// Why it cannot be one.
    pub fn of_others(name: &str) -> Result<Self, NameError> {
        let name = Self::new(name)?;
        // Some file systems take names that differ in case alone for the same.
        let folded = name.0.to_ascii_lowercase();
        if folded.split('/').any(|component| name_of_next(component).is_some()) {
            return Err(NameError::PartFile);
        }
        Ok(name)
    }

    /// Whether some component begins with a dot.
    pub fn is_hidden(&self) -> bool {
        self.0.split('/').any(|component| component.starts_with('.'))
    }

    /// Checks that the name is not made to deceive people or programs.
    ///
    /// # Errors
    /// [`NameError::Dash`] or [`NameError::Invisible`].
    pub fn check_plain(&self) -> Result<(), NameError> {
        self.0.split('/').try_for_each(check_plain)
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The last component.
    pub fn file_name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or(&self.0)
    }

    /// All but the last component, joined; `None` for a name of one component.
    pub fn parent(&self) -> Option<&str> {
        self.0.rsplit_once('/').map(|(parent, _)| parent)
    }
}

impl FromStr for ObjectName {
    type Err = NameError;
    fn from_str(name: &str) -> Result<Self, NameError> {
        ObjectName::new(name)
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Checks that a component of a name is not made to deceive people or programs.
pub(crate) fn check_plain(component: &str) -> Result<(), NameError> {
    if component.starts_with('-') {
        return Err(NameError::Dash);
    }
    if component.chars().any(is_invisible) {
        return Err(NameError::Invisible);
    }
    Ok(())
}

/// Format characters, fillers and tags (Unicode's default ignorable code points), the controls of the
/// bidirectional algorithm among them, and line and paragraph separators.
fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

/// The name of a served directory's ledger of who has put what: nobody can ask for it.
pub const QUOTA_LEDGER: &str = ".wellspring-quotas";

/// The name of a note in a directory that files of a tree below it may not be on the disk.
pub(crate) const UNSYNCED: &str = ".wellspring-unsynced";

/// End of the name of a tree that is to take the place of another, beside it.
pub(crate) const NEXT_TREE: &str = ".wellspring-next";

/// The name of the tree that is to take the place of one of that name, beside it.
pub fn next_name(name: &str) -> String {
    format!(".{name}{NEXT_TREE}")
}

/// The name of the tree whose place is to be taken, if a name is that of such a tree, or of what is left of one.
pub(crate) fn name_of_next(name: &str) -> Option<&str> {
    let ended = ["-unready", "-old", "-note"].iter().find_map(|end| name.strip_suffix(end));
    let name = ended.unwrap_or(name);
    name.strip_prefix('.')?.strip_suffix(NEXT_TREE).filter(|name| !name.is_empty())
}

/// Whether a name is never that of an object.
pub(crate) fn is_reserved(component: &str) -> bool {
    // Some file systems take names that differ in case alone for the same.
    is_part_file(&component.to_ascii_lowercase())
        || [QUOTA_LEDGER, UNSYNCED].iter().any(|name| component.eq_ignore_ascii_case(name))
}

const PART_MARK: &str = ".wellspring-";
const PART_END: &str = ".part";
/// Before it, in the name of a part file that is taken up again after its process has ended.
const KEPT_MARK: &str = ".kept";

pub(crate) fn is_part_file(component: &str) -> bool {
    component.starts_with('.') && component.contains(PART_MARK) && component.ends_with(PART_END)
}

/// Whether a part file is taken up again; of the object `file_name` if that is given.
pub(super) fn is_kept_part(component: &str, of: Option<&str>) -> bool {
    let Some(start) = component.strip_suffix(PART_END).and_then(|c| c.strip_suffix(KEPT_MARK))
    else {
        return false;
    };
    is_part_file(component)
        && of.is_none_or(|file_name| {
            let begin = kept_part_name(file_name, [0; 16]);
            let begin = begin.rfind(PART_MARK).map_or("", |at| &begin[..at + PART_MARK.len()]);
            start.strip_prefix(begin).is_some_and(|tag| tag.len() == 32 && !tag.contains('.'))
        })
}

/// The name of the part file beside `file_name` of an object whose digest begins so.
pub(super) fn kept_part_name(file_name: &str, digest: [u8; 16]) -> String {
    let tag = u128::from_be_bytes(digest);
    part_name(file_name, &format!("{PART_MARK}{tag:032x}{KEPT_MARK}{PART_END}"))
}

/// The name of a part file beside `file_name`, which is cut if there is no room for all of it.
pub(crate) fn part_file_name(file_name: &str, random: u64) -> String {
    part_name(file_name, &format!("{PART_MARK}{random:016x}{PART_END}"))
}

fn part_name(file_name: &str, tail: &str) -> String {
    let mut len = file_name.len().min(MAX_COMPONENT_LEN - tail.len() - 1);
    while !file_name.is_char_boundary(len) {
        len -= 1;
    }
    format!(".{}{tail}", &file_name[..len])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::{Component, Path};

    #[test]
    fn names_that_escape_are_refused() {
        for (name, error) in [
            ("", NameError::EmptyComponent),
            ("/etc/passwd", NameError::Absolute),
            ("..", NameError::Dots),
            ("a/../b", NameError::Dots),
            ("a/..", NameError::Dots),
            ("./a", NameError::Dots),
            ("a//b", NameError::EmptyComponent),
            ("a/", NameError::EmptyComponent),
            ("..\\a", NameError::Backslash),
            ("C:\\a", NameError::Backslash),
            ("a\0b", NameError::Control),
            ("a\n", NameError::Control),
            (".x.wellspring-00ff.part", NameError::PartFile),
            (QUOTA_LEDGER, NameError::PartFile),
            (UNSYNCED, NameError::PartFile),
            ("a/.Wellspring-Quotas", NameError::PartFile),
        ] {
            assert_eq!(ObjectName::new(name), Err(error), "{name:?}");
        }
        let long = "x".repeat(256);
        assert_eq!(ObjectName::new(&long), Err(NameError::TooLong { got: 256, limit: 255 }));
        let deep = ["a"; 33].join("/");
        assert_eq!(ObjectName::new(&deep), Err(NameError::TooDeep { got: 33, limit: 32 }));
    }

    #[test]
    fn ordinary_names_pass() {
        for name in ["a", "models/7b/weights.bin", "...", "..a", ".hidden", "a b", "ü", "a:b"] {
            assert_eq!(ObjectName::new(name).expect(name).as_str(), name);
        }
    }

    #[test]
    fn names_that_deceive_are_not_plain() {
        let plain = |name| ObjectName::new(name).expect(name).check_plain();
        for (name, error) in [
            ("-rf", NameError::Dash),
            ("a/-o", NameError::Dash),
            ("in\u{200b}visible", NameError::Invisible),
            ("cod\u{202e}exe.txt", NameError::Invisible),
            ("\u{feff}a", NameError::Invisible),
            ("a\u{2066}b", NameError::Invisible),
            ("tag\u{e0041}", NameError::Invisible),
        ] {
            assert_eq!(plain(name), Err(error), "{name:?}");
        }
        for name in ["a", "a-b/c.d", "ü", "日本語", "مرحبا", "a b", "x~"] {
            assert_eq!(plain(name), Ok(()), "{name:?}");
        }
        let hidden = |name| ObjectName::new(name).expect(name).is_hidden();
        assert!([".ssh/authorized_keys", "a/.b", "..."].into_iter().all(hidden));
        assert!(!["a", "a.b", "a/b."].into_iter().any(hidden));
    }

    #[test]
    fn part_files_are_hidden_fit_and_cannot_be_asked_for() {
        for name in ["a".to_owned(), "ü".repeat(127)] {
            let part = part_file_name(&name, u64::MAX);
            assert!(part.starts_with('.') && part.len() <= 255, "{part}");
            assert_eq!(ObjectName::new(&part), Err(NameError::PartFile));
            assert!(!is_kept_part(&part, None));
            let kept = kept_part_name(&name, [255; 16]);
            assert!(kept.starts_with('.') && kept.len() <= 255, "{kept}");
            assert_eq!(ObjectName::new(&kept), Err(NameError::PartFile));
            assert!(is_kept_part(&kept, None) && is_kept_part(&kept, Some(&name)));
            assert!(!is_kept_part(&kept, Some("b")) && !is_kept_part(&kept, Some("")));
            assert_eq!(ObjectName::new(&kept.to_ascii_uppercase()), Err(NameError::PartFile));
        }
    }

    #[test]
    fn nobody_names_what_steers_the_swaps_of_trees() {
        let next = next_name("T");
        for end in ["", "-note", "-old", "-unready"] {
            let name = format!("{next}{end}");
            assert!(ObjectName::new(&name).is_ok(), "this host's own");
            for name in [name.clone(), format!("a/{name}/b"), name.to_ascii_uppercase()] {
                assert_eq!(ObjectName::of_others(&name), Err(NameError::PartFile), "{name}");
            }
        }
        assert!(ObjectName::of_others("wellspring-next-note").is_ok());
    }

    proptest! {
        #[test]
        fn a_name_that_passes_stays_below_its_root(
            parts in prop::collection::vec(
                prop_oneof!["\\PC{0,6}", Just("..".to_owned()), Just(".".to_owned()),
                    Just(String::new()), "[./\\\\\0]{1,4}"],
                0..6,
            ),
        ) {
            let text = parts.join("/");
            if let Ok(name) = ObjectName::new(&text) {
                let path = Path::new(name.as_str());
                prop_assert!(path.components().all(|c| matches!(c, Component::Normal(_))));
                prop_assert_eq!(path.components().count(), text.split('/').count());
                let joined = match name.parent() {
                    Some(parent) => format!("{parent}/{}", name.file_name()),
                    None => name.file_name().to_owned(),
                };
                prop_assert_eq!(joined, text);
            }
        }
    }
}
