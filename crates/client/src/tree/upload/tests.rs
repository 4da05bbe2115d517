//! Servers, and clients that put parts of trees as they should not.

use std::path::Path;
use std::time::Duration;

use tokio::time::Instant;

use super::source::{Source, of_bytes};
use super::transfer::Upload;
use crate::Host;
use crate::store::ObjectName;
use crate::store::tree::listing::{
    Attributes, Content, Entry, Listing, Modified, Selection, TreeName, TreePart, paths_to_bytes,
};
use crate::{Client, ClientConfig, PutOptions, PutTreeOptions, ReceiverState, TreeOptions};
use wellspring_server::{Server, ServerConfig};

/// A listing of entries in the order given, whatever that is.
fn raw(entries: &[Entry<'_>]) -> Vec<u8> {
    let mut bytes = Listing::new().into_bytes();
    let begin = bytes.len();
    for entry in entries {
        let mut one = Listing::new();
        one.push(entry).expect("room");
        bytes.extend_from_slice(&one.as_bytes()[begin..]);
    }
    bytes
}

const GUARD: Duration = Duration::from_secs(60);

struct Place {
    home: tempfile::TempDir,
    runtime: tokio::runtime::Runtime,
    _server: Server,
    host: Host,
    client: Client,
}

impl Place {
    fn new(set: impl FnOnce(&mut ServerConfig)) -> Place {
        let home = tempfile::tempdir().expect("directory");
        std::fs::create_dir(home.path().join("served")).expect("directory");
        std::fs::write(home.path().join("victim"), b"safe").expect("write");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("runtime");
        let address = "127.0.0.1:0".parse().expect("address");
        let mut config = ServerConfig::new(address, home.path().join("served"));
        config.allow_put = true;
        set(&mut config);
        let server = runtime.block_on(Server::bind(config)).expect("server");
        let host = server.local_addr().to_string().parse().expect("a host");
        let config = ClientConfig::default().timeout(Duration::from_secs(3));
        let client = runtime.block_on(async { Client::new(config) }).expect("client");
        Place { home, runtime, _server: server, host, client }
    }

    fn served(&self, path: &str) -> std::path::PathBuf {
        self.home.path().join("served").join(path)
    }

    /// Puts bytes as a part of the tree `t`; why it failed, if it did.
    fn put(&self, part: TreePart, bytes: &[u8], overwrite: bool) -> Result<(), String> {
        let mut options =
            PutOptions::new(ObjectName::new("tree").expect("a name")).overwrite(overwrite);
        options.tree_part = Some(TreeName { directory: "t", part }.to_string());
        let opened = of_bytes(bytes).expect("a file");
        let hosts = [self.host.clone()];
        let put = self.client.put_opened(opened, &hosts, &options, Instant::now());
        let put = self.runtime.block_on(async { tokio::time::timeout(GUARD, put).await });
        match put.expect("ends") {
            Ok(report) => match &report.receivers[0].state {
                ReceiverState::Complete(_) => Ok(()),
                other => Err(format!("{other:?}")),
            },
            Err(error) => Err(error.to_string()),
        }
    }

    /// Puts a listing, and returns the first half of its digest.
    fn list(&self, listing: &[u8]) -> Result<[u8; 16], String> {
        self.put(TreePart::Put { atomic: false }, listing, false)?;
        let mut id = [0; 16];
        id.copy_from_slice(&blake3::hash(listing).as_bytes()[..16]);
        Ok(id)
    }

    fn files(&self, listing: [u8; 16], files: &str, bytes: &[u8]) -> Result<(), String> {
        let files = Selection::parse(files).expect("a selection");
        self.put(TreePart::Files { listing, files }, bytes, false)
    }

    /// Nothing has happened outside of the tree, and in it there is no part file.
    fn assert_safe(&self) {
        assert_eq!(std::fs::read(self.home.path().join("victim")).expect("read"), b"safe");
        let count = std::fs::read_dir(self.home.path()).expect("directory").count();
        assert_eq!(count, 2, "beside the served directory");
    }
}

fn entry<'a>(path: &'a str, content: Content<'a>) -> Entry<'a> {
    let modified = Modified { seconds: 1_000_000_000, nanos: 0 };
    Entry { path, mode: 0o755, modified, content, attributes: Attributes::default() }
}

fn file(path: &str, size: u64) -> Entry<'_> {
    entry(path, Content::File { size, digest: None })
}

fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

#[test]
fn listings_that_lead_out_and_names_that_are_not_taken_are_refused() {
    let place = Place::new(|_| {});
    for entries in [
        vec![file("../victim", 3)],
        vec![file("/tmp/x", 3)],
        vec![entry("l", Content::Link { target: "../../victim" })],
        vec![entry("l", Content::Link { target: "." }), file("l/x", 3)],
        vec![file("x", 3), file("x", 3)],
    ] {
        assert!(place.list(&raw(&entries)).is_err(), "{entries:?}");
    }
    for name in [".ssh", "-rf", "a\u{202e}b", ".x.wellspring-00ff.part"] {
        let id = place.list(&raw(&[file(name, 3), file("z", 3)])).expect("a listing");
        let refused = place.files(id, "1", b"abc").expect_err(name);
        assert!(refused.contains(name) || refused.contains("name"), "{refused}");
    }
    place.assert_safe();
    assert!(!exists(&place.served("t")));
}

#[test]
fn packs_are_those_of_a_listing_and_replace_nothing() {
    let place = Place::new(|_| {});
    let missing = place.files([7; 16], "0x2", b"abcdef").expect_err("no listing");
    assert!(missing.contains("not kept"), "{missing}");
    let listing = raw(&[entry("d", Content::Directory), file("d/a", 3), file("d/b", 3)]);
    let id = place.list(&listing).expect("a listing");
    for (files, bytes) in [("0x2", &b"abcde"[..]), ("0x2", b"abcdefg"), ("1x2", b"abcdef")] {
        assert!(place.files(id, files, bytes).is_err(), "{files} {bytes:?}");
    }
    assert!(!exists(&place.served("t/d/a")));
    // What is there and differs stays, by a pack and alone, though nobody asked what is lacking.
    std::fs::create_dir_all(place.served("t/d")).expect("directory");
    std::fs::write(place.served("t/d/b"), b"mine").expect("write");
    assert!(place.files(id, "0x2", b"abcdef").is_err());
    assert!(place.files(id, "1", b"def").is_err());
    assert_eq!(std::fs::read(place.served("t/d/b")).expect("read"), b"mine");
    // Nor is anything written through a link.
    std::fs::remove_dir_all(place.served("t/d")).expect("removed");
    std::os::unix::fs::symlink("../..", place.served("t/d")).expect("link");
    assert!(place.files(id, "0x2", b"abcdef").is_err());
    assert!(place.files(id, "1", b"def").is_err());
    place.assert_safe();
}

#[test]
fn a_tree_is_at_its_end_only_if_it_is_whole_and_only_what_is_surplus_is_removed() {
    let place = Place::new(|config| config.allow_overwrite = true);
    let id = place.list(&raw(&[file("a", 3), file("b", 3)])).expect("a listing");
    let finish = TreePart::Finish { listing: id };
    assert!(place.put(finish.clone(), &paths_to_bytes(&[]), false).is_err(), "files are missing");
    place.files(id, "0x2", b"abcdef").expect("a pack");
    std::fs::write(place.served("t/extra"), b"extra").expect("write");
    std::fs::write(place.served("beside"), b"safe").expect("write");
    let paths = |paths: &[&str]| {
        paths_to_bytes(&paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>())
    };
    assert!(place.put(finish.clone(), b"nonsense", true).is_err());
    assert!(place.put(finish.clone(), &paths(&["../beside"]), true).is_err());
    assert!(place.put(finish.clone(), &paths(&["extra"]), false).is_err(), "without leave");
    assert!(place.put(TreePart::Clear { listing: id }, &paths(&["a"]), false).is_err());
    place.put(TreePart::Clear { listing: id }, &paths(&["a", "extra"]), true).expect("nothing");
    place.put(finish, &paths(&["a", "b", "extra", "none"]), true).expect("the end");
    assert_eq!(std::fs::read(place.served("t/a")).expect("read"), b"abc");
    assert!(exists(&place.served("t/b")) && !exists(&place.served("t/extra")));
    assert_eq!(std::fs::read(place.served("beside")).expect("read"), b"safe");
    place.assert_safe();
}

#[test]
fn what_is_asked_of_a_put_is_not_an_object_to_others() {
    let place = Place::new(|config| config.allow_put = false);
    assert!(place.list(&raw(&[file("a", 3)])).is_err());
    let parts = [
        TreePart::Put { atomic: false },
        TreePart::Lacks { listing: [1; 16], surplus: true },
        TreePart::Finish { listing: [1; 16] },
    ];
    for part in parts {
        let mut fetch = crate::FetchOptions::new(ObjectName::new("tree").expect("a name"));
        fetch.tree_part = Some(TreeName { directory: "t", part }.to_string());
        let target = crate::Target::Writer(Box::new(std::io::sink()));
        let hosts = [place.host.clone()];
        let fetched = place.runtime.block_on(place.client.fetch(&hosts, &fetch, target));
        let refused = fetched.expect_err("refused").to_string();
        assert!(refused.contains("--allow-put"), "{refused}");
    }
}

#[test]
fn a_host_that_had_the_tree_before_it_changed_takes_part_again() {
    let place = Place::new(|_| {});
    let from = tempfile::tempdir().expect("directory");
    let write = |bytes: &[u8]| std::fs::write(from.path().join("f"), bytes).expect("written");
    let options = PutTreeOptions::new(TreeOptions::new(Some("t".parse().expect("a name"))));
    let walk = || Source::walk(from.path().to_owned(), options.clone())().expect("walked");
    let hosts = [place.host.clone()];
    let hear = std::sync::Arc::new(|_, _: &[String]| {});
    let upload = Upload::new(&place.client, &hosts, &options, hear).expect("hosts");
    let put = |source: Source| {
        let source = std::sync::Arc::new(source);
        upload.take(&source);
        let round = upload.round(&source, Instant::now());
        place.runtime.block_on(round).map(|_| ()).expect("a round");
    };
    write(b"first");
    put(walk());
    put(walk());
    std::fs::remove_file(place.served("t/f")).expect("removed");
    write(b"the second");
    // Another host was lost, and all is begun with again.
    put(walk());
    assert_eq!(std::fs::read(place.served("t/f")).expect("read"), b"the second");
}
