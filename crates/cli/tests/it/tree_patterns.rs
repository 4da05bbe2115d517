//! Patterns that choose what of a directory is moved, and what is never removed.

use crate::support::{Place, listing, output, run, shown, text, write};

/// As people who know rsync write the name of a directory.
const SPELLINGS: [&str; 5] = ["cache/", "/cache", "./cache", "/cache/", "cache"];

#[test]
fn a_directory_that_is_left_out_is_not_removed_however_it_is_written() {
    let place = Place::new();
    let (served, to) = (place.dir("served"), place.dir("to"));
    write(&served, "t/a", b"theirs");
    let server = place.serve(&served, &[]);
    let from = format!("{}/t/", server.address);
    for spelling in SPELLINGS {
        write(&to, "cache/p", b"mine");
        write(&to, "old/x", b"mine");
        let get = ["get", &from, "-o", text(&to), "--delete", "--exclude", spelling];
        run(&get).success();
        assert_eq!(listing(&to), ["a", "cache"], "{spelling}");
        assert_eq!(std::fs::read(to.join("cache/p")).expect(spelling), b"mine");
    }
}

#[test]
fn a_host_keeps_a_directory_that_is_left_out_of_a_put_also_if_it_is_empty() {
    let place = Place::new();
    let (here, served) = (place.dir("here"), place.dir("served"));
    write(&here, "a", b"mine");
    let server = place.serve(&served, &["--allow-put", "--allow-overwrite"]);
    let to = format!("{}/t/", server.address);
    let there = served.join("t");
    for spelling in SPELLINGS {
        write(&there, "cache/p", b"theirs");
        write(&there, "old/x", b"theirs");
        let put = ["put", text(&here), &to, "--force", "--delete", "--exclude", spelling];
        run(&put).success();
        assert_eq!(listing(&there), ["a", "cache"], "{spelling}");
        assert_eq!(std::fs::read(there.join("cache/p")).expect(spelling), b"theirs");
        std::fs::remove_file(there.join("cache/p")).expect("removed");
        run(&put).success();
        assert_eq!(listing(&there), ["a", "cache"], "{spelling}");
    }
}

#[test]
fn a_directory_that_is_chosen_comes_with_all_that_is_in_it() {
    let place = Place::new();
    let served = place.dir("served");
    for name in ["a/x", "a/b/y", "c/z"] {
        write(&served, name, b"theirs");
    }
    let server = place.serve(&served, &[]);
    let from = format!("{}/", server.address);
    for spelling in ["a", "a/", "/a", "./a/"] {
        let to = place.path(&spelling.replace(['/', '.'], "_"));
        run(&["get", &from, "-o", text(&to), "--include", spelling]).success();
        for (name, is_there) in [("a/x", true), ("a/b/y", true), ("c/z", false)] {
            assert_eq!(to.join(name).exists(), is_there, "{spelling} {name}");
        }
    }
    for spelling in ["", "/", "a//b", "../a", "a/.."] {
        let to = place.path("none");
        let refused = output(&["get", &from, "-o", text(&to), "--exclude", spelling]);
        let said = shown(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{spelling}: {said}");
        assert!(said.contains("a bad pattern") && !to.exists(), "{said}");
    }
}

#[test]
fn what_lies_below_a_file_that_is_left_out_stays_at_a_host() {
    let place = Place::new();
    let (here, served) = (place.dir("here"), place.dir("served"));
    write(&here, "a.bin", b"mine");
    write(&here, "d", b"left out");
    let server = place.serve(&served, &["--allow-put", "--allow-overwrite"]);
    let there = served.join("t");
    write(&there, "d/x.bin", b"theirs");
    write(&there, "old.bin", b"theirs");
    let to = format!("{}/t/", server.address);
    run(&["put", text(&here), &to, "--force", "--delete", "--include", "*.bin"]).success();
    assert_eq!(listing(&there), ["a.bin", "d"]);
    assert_eq!(listing(&there.join("d")), ["x.bin"]);
}
