//! Key files of a host: a directory with `key`, `trusted` and `cluster`, read with care and written atomically.

use std::fmt;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, fchown};
use std::path::{Path, PathBuf};

use wellspring_store::Existing;
use wellspring_store::atomic_file::AtomicFile;
use wellspring_store::tree::can_give_owners;
use wellspring_trust::{
    BadLine, ClusterKey, Keyring, Peer, PrivateKey, Rights, cluster_from_text, cluster_to_text,
    peer_to_line, peers_from_text, private_from_text, private_to_text,
};
use zeroize::Zeroizing;

/// Longest key file \[bytes\].
const MAX_LEN: u64 = 4 << 20;
const PRIVATE: &str = "key";
const TRUSTED: &str = "trusted";
const CLUSTER: &str = "cluster";

/// Why key files cannot be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum KeyFileError {
    /// The system says why.
    Io(PathBuf, io::Error),
    /// Others may read a secret, or change who is trusted: the file's mode.
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
        /// The mode it should have.
        wanted: u32,
    },
    /// What is written in it makes no sense.
    Bad(PathBuf, BadLine),
    /// There is such a key already.
    Exists(PathBuf),
    /// Peers are trusted, and the host has no key by which they could know it: the directory.
    Keyless(PathBuf),
    /// There are as many cluster keys as there can be, or too few for a change.
    Clusters(&'static str),
}

impl fmt::Display for KeyFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyFileError::Io(path, error) => write!(f, "{}: {error}", path.display()),
            KeyFileError::Exposed { path, mode, wanted } => {
                let path = path.display();
                write!(
                    f,
                    "{path} has mode {mode:03o}: others could use it; chmod {wanted:03o} {path}"
                )
            }
            KeyFileError::Bad(path, bad) => write!(f, "{}: {bad}", path.display()),
            KeyFileError::Exists(path) => write!(f, "{} exists", path.display()),
            KeyFileError::Keyless(path) => write!(
                f,
                "{} names peers that are trusted, and no key of this host: wellspring key new makes it",
                path.display()
            ),
            KeyFileError::Clusters(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for KeyFileError {}

/// A directory of key files, which need not exist.
#[derive(Clone, Debug)]
pub struct KeyDirectory(PathBuf);

impl KeyDirectory {
    /// That directory.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        KeyDirectory(path.into())
    }

    /// The user's own: `$XDG_CONFIG_HOME/wellspring` or `~/.config/wellspring`; `None` without a home.
    pub fn of_user() -> Option<Self> {
        let set =
            |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let config = set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")))?;
        Some(KeyDirectory(config.join("wellspring")))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The keys in it; `None` if it has none.
    ///
    /// # Errors
    /// [`KeyFileError`].
    pub fn load(&self) -> Result<Option<Keyring>, KeyFileError> {
        let mut keyring = Keyring::new();
        if let Some(text) = self.read(PRIVATE, 0o600)? {
            keyring =
                keyring.with_own(private_from_text(&text).map_err(|bad| self.bad(PRIVATE, bad))?);
        }
        for (key, rights) in self.clusters()? {
            keyring = keyring.with_cluster(key, rights);
        }
        for peer in self.peers()? {
            keyring = keyring.with_peer(peer);
        }
        if keyring.is_empty() && keyring.peers().next().is_some() {
            return Err(KeyFileError::Keyless(self.0.clone()));
        }
        Ok(Some(keyring).filter(|keyring| !keyring.is_empty()))
    }

    /// Makes the host's own key. One that exists is kept.
    ///
    /// # Errors
    /// [`KeyFileError`].
    pub fn new_key(&self) -> Result<PrivateKey, KeyFileError> {
        let key = PrivateKey::generate();
        self.write(PRIVATE, &private_to_text(&key), Existing::Keep)?;
        Ok(key)
    }

    /// Makes a cluster key with all rights, unless there is one.
    ///
    /// # Errors
    /// [`KeyFileError`].
    pub fn new_cluster(&self) -> Result<ClusterKey, KeyFileError> {
        let key = ClusterKey::generate();
        self.write(CLUSTER, &cluster_to_text(&[(key.clone(), Rights::all())]), Existing::Keep)?;
        Ok(key)
    }

    /// First step of a change of the cluster key: a second key that is accepted beside the first.
    ///
    /// # Errors
    /// [`KeyFileError`].
    pub fn add_cluster(&self) -> Result<ClusterKey, KeyFileError> {
        let _alone = self.alone()?;
        let mut keys = self.clusters()?;
        let rights = match &keys[..] {
            [(_, rights)] => rights.clone(),
            [] => return Err(KeyFileError::Clusters("there is no cluster key to change")),
            _ => {
                return Err(KeyFileError::Clusters(
                    "a change is under way: there are two cluster keys",
                ));
            }
        };
        let key = ClusterKey::generate();
        keys.push((key.clone(), rights));
        self.write(CLUSTER, &cluster_to_text(&keys), Existing::Replace)?;
        Ok(key)
    }

    /// Second step: the second key is used, the first still accepted.
    ///
    /// # Errors
    /// [`KeyFileError`].
    pub fn use_second_cluster(&self) -> Result<(), KeyFileError> {
        let _alone = self.alone()?;
        let mut keys = self.two_clusters()?;
        keys.reverse();
        self.write(CLUSTER, &cluster_to_text(&keys), Existing::Replace)
    }

    /// Last step: only the key in use is left.
    ///
    /// # Errors
    /// [`KeyFileError`].
    pub fn drop_second_cluster(&self) -> Result<(), KeyFileError> {
        let _alone = self.alone()?;
        let mut keys = self.two_clusters()?;
        keys.truncate(1);
        self.write(CLUSTER, &cluster_to_text(&keys), Existing::Replace)
    }

    /// Trusts a peer.
    ///
    /// # Errors
    /// [`KeyFileError`], also if its key or its name is there already.
    pub fn trust(&self, peer: &Peer) -> Result<(), KeyFileError> {
        self.make().map_err(|error| KeyFileError::Io(self.0.clone(), error))?;
        let _alone = self.alone()?;
        let line = peer_to_line(peer).map_err(|bad| self.bad(TRUSTED, bad))?;
        let header = "# Hosts that are trusted by this one: peer NAME KEY RIGHT...\n";
        let before = self.read(TRUSTED, 0o644)?;
        let before = before.as_ref().map_or(header, |text| text.as_str());
        let newline = if before.ends_with('\n') { "" } else { "\n" };
        let text = Zeroizing::new(format!("{before}{newline}{line}\n"));
        peers_from_text(&text).map_err(|bad| self.bad(TRUSTED, bad))?;
        self.write(TRUSTED, &text, Existing::Replace)
    }

    fn peers(&self) -> Result<Vec<Peer>, KeyFileError> {
        let text = self.read(TRUSTED, 0o644)?;
        let peers = text.map_or(Ok(Vec::new()), |text| peers_from_text(&text));
        peers.map_err(|bad| self.bad(TRUSTED, bad))
    }

    fn clusters(&self) -> Result<Vec<(ClusterKey, Rights)>, KeyFileError> {
        let text = self.read(CLUSTER, 0o600)?;
        let keys = text.map_or(Ok(Vec::new()), |text| cluster_from_text(&text));
        keys.map_err(|bad| self.bad(CLUSTER, bad))
    }

    fn two_clusters(&self) -> Result<Vec<(ClusterKey, Rights)>, KeyFileError> {
        let keys = self.clusters()?;
        match keys.len() {
            2 => Ok(keys),
            _ => Err(KeyFileError::Clusters(
                "no change is under way: there are not two cluster keys",
            )),
        }
    }

    /// Reads a file whose mode allows no more than `most`; `None` if there is none.
    fn read(&self, name: &str, most: u32) -> Result<Option<Zeroizing<String>>, KeyFileError> {
        let path = self.0.join(name);
        let failed = |error| KeyFileError::Io(path.clone(), error);
        let file = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(failed)?,
        };
        // Of the file that is open: nobody can put another in its place in between.
        let mode = file.metadata().map_err(failed)?.mode() & 0o777;
        if mode & 0o077 & !most != 0 {
            return Err(KeyFileError::Exposed { path, mode, wanted: most });
        }
        let mut text = Zeroizing::new(String::with_capacity(4_096));
        file.take(MAX_LEN).read_to_string(&mut text).map_err(failed)?;
        Ok(Some(text))
    }

    /// Makes the directory, unless it is there.
    fn make(&self) -> io::Result<()> {
        if let Some(parent) = self.0.parent() {
            fs::create_dir_all(parent)?;
        }
        DirBuilder::new().recursive(true).mode(0o700).create(&self.0)
    }

    /// Waits until no other program changes what is in a file here, and keeps others from it while what is given back
    /// lives: each would lose what the other writes. `None` without a directory.
    fn alone(&self) -> Result<Option<File>, KeyFileError> {
        let failed = |error| KeyFileError::Io(self.0.clone(), error);
        let directory = match File::open(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(failed)?,
        };
        directory.lock().map_err(failed)?;
        Ok(Some(directory))
    }

    fn write(&self, name: &str, text: &str, existing: Existing) -> Result<(), KeyFileError> {
        let path = self.0.join(name);
        let written = || {
            self.make()?;
            let mut file = AtomicFile::private(&path, existing)?;
            file.write_all(text.as_bytes())?;
            // What root writes for a service must be readable by that, whose directory it is.
            if can_give_owners() {
                let directory = fs::metadata(&self.0)?;
                fchown(file.as_file(), Some(directory.uid()), Some(directory.gid()))?;
            }
            file.finish()
        };
        written().map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => KeyFileError::Exists(path.clone()),
            _ => KeyFileError::Io(path.clone(), error),
        })
    }

    fn bad(&self, name: &str, bad: BadLine) -> KeyFileError {
        KeyFileError::Bad(self.0.join(name), bad)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn keys_are_made_once_private_and_loaded() {
        let home = tempfile::tempdir().expect("directory");
        let keys = KeyDirectory::new(home.path().join("a/b"));
        assert!(keys.load().expect("nothing is wrong").is_none());
        let peer = |name: &str| Peer {
            name: name.to_owned(),
            key: PrivateKey::generate().public(),
            rights: Rights::all(),
            addresses: Vec::new(),
        };
        keys.trust(&peer("a")).expect("trusted");
        assert!(matches!(keys.load(), Err(KeyFileError::Keyless(_))), "nobody would know it");
        let own = keys.new_key().expect("made");
        assert!(matches!(keys.new_key(), Err(KeyFileError::Exists(_))));
        keys.trust(&peer("b")).expect("trusted");
        assert!(matches!(keys.trust(&peer("a")), Err(KeyFileError::Bad(..))), "the name again");
        let ring = keys.load().expect("fine").expect("keys");
        assert_eq!(ring.own().expect("a key").public(), own.public());
        assert_eq!(ring.peers().count(), 2);
        for (path, mode) in [(keys.path().to_owned(), 0o700), (keys.path().join("key"), 0o600)] {
            let found = fs::metadata(&path).expect("there").permissions().mode() & 0o777;
            assert_eq!(found, mode, "{}", path.display());
        }
    }

    /// As by commands that run at one time.
    #[test]
    fn peers_that_are_trusted_at_one_time_are_all_kept() {
        let home = tempfile::tempdir().expect("directory");
        let keys = KeyDirectory::new(home.path().join("keys"));
        let trust = |number: usize| {
            let (name, key) = (format!("host{number}"), PrivateKey::generate().public());
            let peer = Peer { name, key, rights: Rights::all(), addresses: Vec::new() };
            KeyDirectory::new(keys.path()).trust(&peer)
        };
        std::thread::scope(|scope| {
            let commands: Vec<_> =
                (0..16).map(|number| scope.spawn(move || trust(number))).collect();
            commands.into_iter().for_each(|it| it.join().expect("no panic").expect("trusted"));
        });
        assert_eq!(keys.peers().expect("fine").len(), 16);
    }

    #[test]
    fn a_secret_that_others_can_read_is_refused() {
        let home = tempfile::tempdir().expect("directory");
        let keys = KeyDirectory::new(home.path());
        keys.new_key().expect("made");
        keys.new_cluster().expect("made");
        keys.trust(&Peer {
            name: "a".to_owned(),
            key: PrivateKey::generate().public(),
            rights: Rights::all(),
            addresses: Vec::new(),
        })
        .expect("trusted");
        for (name, bad, good) in
            [("key", 0o640, 0o600), ("cluster", 0o604, 0o600), ("trusted", 0o664, 0o644)]
        {
            let set = |mode| {
                let rights = fs::Permissions::from_mode(mode);
                fs::set_permissions(home.path().join(name), rights).expect("mine");
            };
            set(bad);
            assert!(matches!(keys.load(), Err(KeyFileError::Exposed { .. })), "{name}");
            set(good);
            assert!(keys.load().expect("fine").is_some());
        }
    }

    /// Whoever runs the tests has files of his own: only root could leave them to others.
    #[test]
    fn files_are_those_of_the_directorys_owner() {
        let home = tempfile::tempdir().expect("directory");
        let owner = match can_give_owners() {
            true => (4_711, 4_712),
            false => fs::metadata(home.path()).map(|it| (it.uid(), it.gid())).expect("there"),
        };
        std::os::unix::fs::chown(home.path(), Some(owner.0), Some(owner.1)).expect("given");
        let keys = KeyDirectory::new(home.path());
        keys.new_key().expect("made");
        keys.new_cluster().expect("made");
        keys.add_cluster().expect("replaced");
        for name in ["key", "cluster"] {
            let file = fs::metadata(home.path().join(name)).expect("there");
            assert_eq!((file.uid(), file.gid()), owner, "{name}");
            assert_eq!(file.mode() & 0o777, 0o600, "{name}");
        }
    }

    #[test]
    fn a_cluster_key_is_changed_in_three_steps() {
        let home = tempfile::tempdir().expect("directory");
        let keys = KeyDirectory::new(home.path());
        let shown = || {
            let ring = keys.load().expect("fine").expect("keys");
            ring.clusters().map(|(key, _)| key.fingerprint()).collect::<Vec<_>>()
        };
        assert!(keys.add_cluster().is_err());
        let old = keys.new_cluster().expect("made").fingerprint();
        assert!(matches!(keys.new_cluster(), Err(KeyFileError::Exists(_))));
        assert!(keys.use_second_cluster().is_err() && keys.drop_second_cluster().is_err());
        let new = keys.add_cluster().expect("added").fingerprint();
        assert_eq!(shown(), [old, new]);
        assert!(keys.add_cluster().is_err());
        keys.use_second_cluster().expect("used");
        assert_eq!(shown(), [new, old]);
        keys.drop_second_cluster().expect("dropped");
        assert_eq!(shown(), [new]);
    }
}
