//! Text of the key files.
//!
//! One statement a line; words are separated by spaces, and `#` begins a comment.
//!
//! ```text
//! private wsec-…                                     the host's own key, file `key`
//! peer NAME wpub-… read put=incoming serve at=IP     a trusted peer, file `trusted`
//! peer NAME wpub-… put max-sessions=8 max-bytes=100G max-files=1000
//! cluster wclu-… read put serve                      a cluster key, file `cluster`
//! ```

use std::fmt;
use std::fmt::Write as _;

use zeroize::Zeroizing;

use crate::key::{ClusterKey, PrivateKey};
use crate::keyring::Peer;
use crate::rights::{Folders, Rights};

/// Peers in a file, at most.
const MAX_PEERS: usize = 10_000;
/// Cluster keys in a file, at most: two are accepted while one is changed.
const MAX_CLUSTERS: usize = 2;
/// Longest name of a peer \[bytes\].
const MAX_NAME: usize = 64;

/// What is wrong with a key file, and in which line. It never repeats what may be secret.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadLine {
    /// Line number, from 1; 0 for the file as a whole.
    pub line: usize,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.what),
            line => write!(f, "line {line}: {}", self.what),
        }
    }
}

impl std::error::Error for BadLine {}

/// The text of a private key's file.
pub fn private_to_text(key: &PrivateKey) -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::with_capacity(512));
    let _ = writeln!(
        text,
        "# Private key of this host. Who reads this file can be this host: keep it secret."
    );
    let _ = writeln!(text, "# public {}", key.public());
    let _ = writeln!(text, "# fingerprint {}", key.public().fingerprint());
    let _ = writeln!(text, "private {}", &*key.text());
    text
}

/// The private key in a file's text.
///
/// # Errors
/// [`BadLine`].
pub fn private_from_text(text: &str) -> Result<PrivateKey, BadLine> {
    let mut found = None;
    for (line, words) in statements(text) {
        let bad = |what: String| BadLine { line, what };
        let ["private", secret] = words[..] else {
            return Err(bad("expected `private` and a secret key".to_owned()));
        };
        if found.is_some() {
            return Err(bad("a second private key: a host has one".to_owned()));
        }
        found = Some(PrivateKey::from_text(secret).map_err(|error| bad(error.to_string()))?);
    }
    found.ok_or_else(|| BadLine { line: 0, what: "no private key in it".to_owned() })
}

/// The line of a trusted peer.
///
/// # Errors
/// Its name or a folder cannot be written into a line.
pub fn peer_to_line(peer: &Peer) -> Result<String, BadLine> {
    let bad = |what: String| BadLine { line: 0, what };
    if !is_name(&peer.name) {
        return Err(bad(format!(
            "a peer's name has up to {MAX_NAME} letters, digits, `-`, `_` and `.`"
        )));
    }
    let mut folders = peer.rights.read.iter().chain(peer.rights.put.iter());
    if folders.any(|folder| folder.contains(|c: char| c.is_whitespace() || c == '#')) {
        return Err(bad("a folder whose name has spaces or `#` cannot be named here".to_owned()));
    }
    let mut line = format!("peer {} {}", peer.name, peer.key);
    let rights = peer.rights.to_string();
    if !rights.is_empty() {
        let _ = write!(line, " {rights}");
    }
    for address in &peer.addresses {
        let _ = write!(line, " at={address}");
    }
    Ok(line)
}

/// The trusted peers in a file's text.
///
/// # Errors
/// [`BadLine`].
pub fn peers_from_text(text: &str) -> Result<Vec<Peer>, BadLine> {
    let mut peers: Vec<Peer> = Vec::new();
    for (line, words) in statements(text) {
        let bad = |what: String| BadLine { line, what };
        let ["peer", name, key, rest @ ..] = &words[..] else {
            return Err(bad("expected `peer`, a name and a public key".to_owned()));
        };
        if !is_name(name) {
            return Err(bad("not a name".to_owned()));
        }
        let key = key.parse().map_err(|error: crate::BadKey| bad(error.to_string()))?;
        if let Some(same) = peers.iter().find(|peer| peer.key == key || peer.name == *name) {
            return Err(bad(format!("the key or the name of `{}` again", same.name)));
        }
        if peers.len() == MAX_PEERS {
            return Err(bad(format!("more than {MAX_PEERS} peers")));
        }
        let mut peer = Peer {
            name: (*name).to_owned(),
            key,
            rights: Rights::default(),
            addresses: Vec::new(),
        };
        for word in rest {
            match word.split_once('=') {
                Some(("at", address)) => {
                    let address =
                        address.parse().map_err(|_| bad(format!("no address: {address}")))?;
                    peer.addresses.push(address);
                }
                _ => read_right(&mut peer.rights, word).map_err(bad)?,
            }
        }
        peers.push(peer);
    }
    Ok(peers)
}

/// The text of a cluster key's file.
pub fn cluster_to_text(keys: &[(ClusterKey, Rights)]) -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::with_capacity(1_024));
    let _ = writeln!(
        text,
        "# Cluster keys: who reads this file is a member. The first is used, a second accepted."
    );
    for (key, rights) in keys {
        let _ = writeln!(text, "# fingerprint {}", key.fingerprint());
        let _ = writeln!(text, "cluster {} {rights}", &*key.text());
    }
    text
}

/// The cluster keys in a file's text, one or two.
///
/// # Errors
/// [`BadLine`].
pub fn cluster_from_text(text: &str) -> Result<Vec<(ClusterKey, Rights)>, BadLine> {
    let mut keys = Vec::new();
    for (line, words) in statements(text) {
        let bad = |what: String| BadLine { line, what };
        let ["cluster", key, rest @ ..] = &words[..] else {
            return Err(bad("expected `cluster` and a cluster key".to_owned()));
        };
        if keys.len() == MAX_CLUSTERS {
            return Err(bad(format!("more than {MAX_CLUSTERS} cluster keys")));
        }
        let key = ClusterKey::from_text(key).map_err(|error| bad(error.to_string()))?;
        let mut rights = Rights::default();
        for word in rest {
            read_right(&mut rights, word).map_err(bad)?;
        }
        keys.push((key, rights));
    }
    match keys.is_empty() {
        true => Err(BadLine { line: 0, what: "no cluster key in it".to_owned() }),
        false => Ok(keys),
    }
}

fn read_right(rights: &mut Rights, word: &str) -> Result<(), String> {
    if let Some(read) = rights.quota.read_word(word) {
        return read;
    }
    let (word, folder) = match word.split_once('=') {
        Some((word, folder)) => (word, Some(folder)),
        None => (word, None),
    };
    let add = |folders: &mut Folders| match folder {
        None => {
            folders.add_all();
            Ok(())
        }
        Some(folder) => folders.add(folder).map_err(|error| format!("`{word}={folder}`: {error}")),
    };
    match word {
        "read" => add(&mut rights.read)?,
        "put" => add(&mut rights.put)?,
        "serve" if folder.is_none() => rights.serve = true,
        _ => {
            return Err(
                "a right is `read`, `put`, `read=FOLDER`, `put=FOLDER` or `serve`, a quota \
                 `max-sessions=N`, `max-bytes=SIZE` or `max-files=N`"
                    .to_owned(),
            );
        }
    }
    Ok(())
}

fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !name.is_empty() && name.len() <= MAX_NAME && name.chars().all(plain)
}

/// Lines that say something, their numbers and words.
fn statements(text: &str) -> impl Iterator<Item = (usize, Vec<&str>)> {
    text.lines().enumerate().filter_map(|(index, line)| {
        let line = line.split('#').next().unwrap_or_default();
        let words: Vec<&str> = line.split_whitespace().collect();
        (!words.is_empty()).then_some((index + 1, words))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> PrivateKey {
        PrivateKey::generate()
    }

    #[test]
    fn files_are_read_as_they_are_written() {
        let own = key();
        let read = private_from_text(&private_to_text(&own)).expect("a key");
        assert_eq!(read.public(), own.public());
        let mut rights = Rights { serve: true, ..Rights::default() };
        rights.read.add_all();
        rights.put.add("incoming/a").expect("a name");
        rights.quota = "max-sessions=8 max-bytes=100G max-files=1000".parse().expect("a quota");
        let addresses = vec![
            "192.0.2.1".parse().expect("an address"),
            "2001:db8::1".parse().expect("an address"),
        ];
        let peer = Peer {
            name: "a.example".to_owned(),
            key: own.public(),
            rights: rights.clone(),
            addresses,
        };
        let line = peer_to_line(&peer).expect("a line");
        assert_eq!(peers_from_text(&format!("# hosts\n\n{line} # mine\n")), Ok(vec![peer]));
        let keys = [(ClusterKey::generate(), Rights::all()), (ClusterKey::generate(), rights)];
        let read = cluster_from_text(&cluster_to_text(&keys)).expect("keys");
        let shown = |keys: &[(ClusterKey, Rights)]| format!("{keys:?}");
        assert_eq!(shown(&read), shown(&keys));
    }

    #[test]
    fn what_is_wrong_is_named_by_its_line_without_the_secret() {
        let own = key();
        let (secret, public) = (own.text(), own.public().to_string());
        let error = private_from_text(&format!("\nprivate {}x", &*secret)).expect_err("bad");
        assert_eq!(error.line, 2);
        assert!(!error.to_string().contains(&secret[5..]));
        assert!(private_from_text("").is_err());
        let twice = private_to_text(&key()).to_string() + &private_to_text(&key());
        assert!(private_from_text(&twice).is_err());
        let other = key().public();
        for (bad, line) in [
            ("peer".to_owned(), 1),
            (format!("peer a {public}\npeer a {other}"), 2),
            (format!("peer a {public}\npeer b {public}"), 2),
            (format!("peer a/b {public}"), 1),
            (format!("peer a {public} write"), 1),
            (format!("peer a {public} at=x"), 1),
            (format!("peer a {public} serve=x"), 1),
            (format!("peer a {public} serve="), 1),
            (format!("peer a {public} read="), 1),
            (format!("peer a {public} read put=/"), 1),
            (format!("\npeer a {public} max-bytes=0"), 2),
            (format!("peer a {public} max-files=1 max-files=2"), 1),
        ] {
            assert_eq!(peers_from_text(&bad).expect_err("bad").line, line, "{bad}");
        }
        let misspelt = peers_from_text(&format!("peer a {public} max-byte=7")).expect_err("bad");
        assert!(misspelt.to_string().contains("`max-bytes=SIZE`"), "{misspelt}");
        let secret = ClusterKey::generate().text();
        let bad = format!("cluster {} max-bytes={}", &*secret, &*secret);
        let error = cluster_from_text(&bad).expect_err("bad").to_string();
        assert!(error.contains("line 1") && !error.contains(&secret[5..]), "{error}");
        let three = [(); 3].map(|()| (ClusterKey::generate(), Rights::all()));
        assert!(cluster_from_text(&cluster_to_text(&three)).is_err());
        assert!(cluster_from_text("# none").is_err());
    }

    #[test]
    fn a_name_that_would_be_another_line_is_not_written() {
        let peer = |name: &str, folder: &str| {
            let mut rights = Rights::default();
            rights.read.add(folder).expect("a name");
            Peer { name: name.to_owned(), key: key().public(), rights, addresses: Vec::new() }
        };
        assert!(peer_to_line(&peer("a\npeer", "x")).is_err());
        assert!(peer_to_line(&peer("a", "x\npeer b")).is_err());
        assert!(peer_to_line(&peer("a", "x#")).is_err());
    }
}
