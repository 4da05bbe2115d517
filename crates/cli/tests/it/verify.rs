//! Files of a directory, read again and compared.

use std::os::unix::net::UnixListener;

use crate::support::{Place, listing, output, shown, text, write};

#[test]
fn files_are_read_again_and_compared_with_a_host_or_with_saved_digests() {
    let place = Place::new();
    let (served, here) = (place.dir("served"), place.dir("here"));
    for dir in [&served, &here] {
        write(dir, "d/a", b"same");
        write(dir, "void", b"");
        write(dir, "b", b"bytes");
    }
    let server = place.serve(&served, &[]);
    let root = format!("{}/", server.address);
    let (manifest, directory) = (place.path("digests"), text(&here).to_owned());
    let verify = |more: &[&str]| output(&[&["verify", &directory], more].concat());
    assert!(verify(&[&root]).status.success());
    assert!(verify(&["--save", text(&manifest)]).status.success());
    assert_eq!(verify(&["--save", text(&manifest)]).status.code(), Some(8), "it exists");
    assert!(verify(&["--manifest", text(&manifest)]).status.success());
    // One bit, and the old time.
    let time = here.join("b").metadata().expect("stat").modified().expect("a time");
    write(&here, "b", b"bytet");
    let file = std::fs::File::options().write(true).open(here.join("b")).expect("open");
    file.set_modified(time).expect("a time");
    std::fs::remove_file(here.join("void")).expect("removed");
    write(&here, "more", b"more");
    for with in [&[&root[..]][..], &["--manifest", text(&manifest)]] {
        let found = verify(with);
        assert_eq!(found.status.code(), Some(7), "{}", shown(&found.stderr));
        assert_eq!(shown(&found.stdout), "differs b\nmissing void\nextra   more\n");
    }
    let json = shown(&verify(&[&root, "--json"]).stdout);
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let expected = serde_json::json!({
        "files": 3, "differing": 1, "differing_paths": ["b"],
        "missing": 1, "missing_paths": ["void"], "extra": 1, "extra_paths": ["more"],
    });
    assert_eq!(json, expected);
}

#[test]
fn saved_digests_in_the_directory_itself_are_not_too_much() {
    let place = Place::new();
    let here = place.dir("here");
    write(&here, "d/a", b"bytes");
    let sums = here.join("d/sums.b3");
    let verify = |more: &[&str]| output(&[&["verify", text(&here)], more].concat());
    assert!(verify(&["--save", text(&sums)]).status.success());
    let unchanged = verify(&["--manifest", text(&sums)]);
    assert!(unchanged.status.success(), "{}", shown(&unchanged.stdout));
    // Later ones have the earlier ones, which are compared as any file.
    let later = here.join("later.b3");
    assert!(verify(&["--manifest", text(&sums), "--save", text(&later)]).status.success());
    assert!(verify(&["--manifest", text(&later)]).status.success());
    let other = verify(&["--manifest", text(&sums)]);
    assert_eq!(other.status.code(), Some(7), "{}", shown(&other.stderr));
    assert_eq!(shown(&other.stdout), "extra   later.b3\n");
}

#[test]
fn what_is_saved_of_a_directory_is_all_that_is_compared_later() {
    let place = Place::new();
    let here = place.dir("here");
    write(&here, "d/a", b"bytes");
    std::os::unix::fs::symlink("/etc/hostname", here.join("out")).expect("linked");
    let _socket = UnixListener::bind(here.join("socket")).expect("a socket");
    let (first, second) = (place.path("first"), place.path("second"));
    let verify = |more: &[&str]| output(&[&["verify", text(&here)], more].concat());
    let saved = verify(&["--save", text(&first)]);
    assert!(saved.status.success(), "{}", shown(&saved.stderr));
    let unchanged = verify(&["--manifest", text(&first)]);
    assert!(unchanged.status.success(), "{}", shown(&unchanged.stdout));
    let server = place.serve(&here, &[]);
    let unchanged = verify(&[&format!("{}/", server.address)]);
    assert!(unchanged.status.success(), "{}", shown(&unchanged.stdout));
    // What has bytes and no digest is not passed over.
    write(&here, "d/odd\\name", b"more");
    for to in [text(&second), "-"] {
        let refused = verify(&["--save", to]);
        let said = shown(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{said}");
        assert!(said.contains("name has a name that objects cannot have"), "{said}");
        assert!(said.contains("Nothing was written") && refused.stdout.is_empty(), "{said}");
    }
    assert_eq!(listing(place.home.path()), ["cache", "first", "here"]);
    let more = verify(&["--manifest", text(&first)]);
    assert_eq!(more.status.code(), Some(7), "{}", shown(&more.stdout));
    assert!(shown(&more.stdout).starts_with("extra   d/odd"), "{}", shown(&more.stdout));
}
