//! Rights of a key: what it may read and put, how much of it, and whether it may serve.

use std::fmt;

use crate::quota::Quota;

/// A folder without a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EmptyFolder;

impl fmt::Display for EmptyFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a folder without a name: leave out the `=` where everything is meant")
    }
}

impl std::error::Error for EmptyFolder {}

/// Folders, by name: none, some, or all.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Folders(Vec<String>);

impl Folders {
    /// None.
    pub const NONE: Folders = Folders(Vec::new());

    /// All.
    pub fn all() -> Self {
        Folders(vec![String::new()])
    }

    /// Adds a folder, with everything below it.
    ///
    /// # Errors
    /// It has no name: a variable that is not set must not mean everything.
    pub fn add(&mut self, folder: &str) -> Result<(), EmptyFolder> {
        let folder = folder.trim_matches('/');
        if folder.is_empty() {
            return Err(EmptyFolder);
        }
        self.insert(folder);
        Ok(())
    }

    /// Adds everything.
    pub fn add_all(&mut self) {
        self.insert("");
    }

    fn insert(&mut self, folder: &str) {
        if !self.0.iter().any(|there| there == folder) {
            self.0.push(folder.to_owned());
        }
    }

    /// Whether an object's name is that of a folder here, or below one.
    pub fn hold(&self, name: &str) -> bool {
        self.0.iter().any(|folder| {
            folder.is_empty()
                || name
                    .strip_prefix(folder.as_str())
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The folders; the empty name is everything.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

/// What a key may do here.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rights {
    /// Have objects of these folders sent.
    pub read: Folders,
    /// Have objects taken into these folders. It creates: replacing takes the server's consent besides.
    pub put: Folders,
    /// Be believed as a server.
    pub serve: bool,
    /// How much it may have at one time.
    pub quota: Quota,
}

impl Rights {
    /// Everything, without a limit.
    pub fn all() -> Self {
        Rights { read: Folders::all(), put: Folders::all(), serve: true, quota: Quota::NONE }
    }
}

impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Vec::new();
        for (word, folders) in [("read", &self.read), ("put", &self.put)] {
            words.extend(folders.iter().map(|folder| match folder {
                "" => word.to_owned(),
                folder => format!("{word}={folder}"),
            }));
        }
        words.extend(self.serve.then(|| "serve".to_owned()));
        words.extend((!self.quota.is_none()).then(|| self.quota.to_string()));
        f.write_str(&words.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_holds_what_is_below_it_and_no_name_that_only_begins_so() {
        let mut folders = Folders::NONE;
        assert!(folders.is_empty() && !folders.hold("models/x"));
        for nothing in ["", "/", "//"] {
            assert_eq!(folders.add(nothing), Err(EmptyFolder), "{nothing}");
        }
        assert!(folders.is_empty());
        folders.add("/models/").expect("a name");
        assert!(folders.hold("models/x") && folders.hold("models/a/b") && folders.hold("models"));
        for outside in ["models2/x", "model", "x", "a/models/x", ""] {
            assert!(!folders.hold(outside), "{outside}");
        }
        assert!(Folders::all().hold("anything/at/all"));
        assert_eq!(Rights { read: folders, ..Rights::default() }.to_string(), "read=models");
        assert_eq!(Rights::all().to_string(), "read put serve");
    }
}
