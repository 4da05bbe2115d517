//! Any text, read as a file of keys: parsing does not panic, and what it understands comes back the same after being written.

use wellspring_trust::{
    cluster_from_text, cluster_to_text, peer_to_line, peers_from_text, private_from_text,
    private_to_text,
};

/// The input is the text.
pub fn run(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    if let Ok(key) = private_from_text(text) {
        let again = private_from_text(&private_to_text(&key)).expect("written by us");
        assert_eq!(again.public(), key.public());
    }
    if let Ok(peers) = peers_from_text(text) {
        let lines: Vec<String> =
            peers.iter().map(|peer| peer_to_line(peer).expect("it was a line")).collect();
        assert_eq!(peers_from_text(&lines.join("\n")), Ok(peers));
    }
    if let Ok(keys) = cluster_from_text(text) {
        assert!((1..=2).contains(&keys.len()));
        let again = cluster_from_text(&cluster_to_text(&keys)).expect("written by us");
        assert_eq!(format!("{again:?}"), format!("{keys:?}"));
    }
}
