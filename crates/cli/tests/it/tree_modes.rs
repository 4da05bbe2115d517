//! Directories that cannot be written, searched or removed as they are.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;

use wellspring_testkit::loopback::own_address;

use crate::support::{Place, Server, listing, output, program, run, shown, text, write};

fn set(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set");
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("stat").permissions().mode() & 0o777
}

/// A server to which rights matter, which root would have all of.
fn serve_as_user(place: &Place, dir: &Path) -> Server {
    let mut command = program();
    for path in [place.home.path(), dir] {
        set(path, 0o777);
    }
    if rustix::process::geteuid().is_root() {
        command.uid(65_534).gid(65_534);
    }
    for name in ["PUT", "OVERWRITE"] {
        command.env(format!("WELLSPRING_SERVE_ALLOW_{name}"), "1");
    }
    place.serve_by(command, dir, &own_address().to_string())
}

#[test]
fn a_server_lists_and_updates_what_it_was_given_whatever_the_modes_of_directories() {
    let place = Place::new();
    let (here, served) = (place.dir("here"), place.dir("served"));
    let large = vec![7; 2_000_000];
    write(&here, "closed/inner/file", b"mine");
    write(&here, "closed/gone", b"mine");
    let close = |is_closed: bool| {
        for name in ["closed/inner", "closed"] {
            set(&here.join(name), if is_closed { 0o555 } else { 0o755 });
        }
    };
    close(true);
    let server = serve_as_user(&place, &served);
    let to = format!("{}/t/", server.address);
    run(&["put", text(&here), &to]).success();
    close(false);
    write(&here, "closed/inner/new", b"mine");
    write(&here, "closed/large", &large);
    fs::remove_file(here.join("closed/gone")).expect("removed");
    close(true);
    run(&["put", text(&here), &to, "--force", "--delete"]).success();
    let there = served.join("t");
    for (name, is_there) in [("inner/file", true), ("inner/new", true), ("gone", false)] {
        assert_eq!(there.join("closed").join(name).exists(), is_there, "{name}");
    }
    assert!(fs::read(there.join("closed/large")).expect("read") == large);
    assert_eq!([mode(&there.join("closed")), mode(&there.join("closed/inner"))], [0o555; 2]);
    // One that may not be searched keeps nobody from the others.
    set(&there.join("closed/inner"), 0o644);
    let ls = output(&["ls", "-R", &format!("{}/", server.address)]);
    let said = shown(&ls.stdout);
    assert!(ls.status.success() && said.contains("t/closed/large"), "{said}{}", shown(&ls.stderr));
    close(false);
}

#[test]
fn a_surplus_directory_goes_whatever_is_in_it_and_a_host_says_what_stays() {
    let place = Place::new();
    let (served, to) = (place.dir("served"), place.dir("to"));
    write(&served, "t/a", b"theirs");
    let server = place.serve(&served, &["--allow-put", "--allow-overwrite"]);
    let from = format!("{}/t/", server.address);
    let fill = |tree: &Path| {
        let odd = tree.join("old").join(OsStr::from_bytes(b"\xffd/e"));
        fs::create_dir_all(&odd).expect("made");
        fs::write(odd.join("f"), "mine").expect("written");
        fs::write(tree.join("old/plain"), "mine").expect("written");
    };
    fill(&to);
    fs::create_dir_all(to.join(vec!["deep"; 40].join("/"))).expect("made");
    run(&["get", &from, "-o", text(&to), "--delete"]).success();
    assert_eq!(listing(&to), ["a"]);
    fill(&served.join("t"));
    let put = run(&["put", text(&to), &from, "--force", "--delete"]).success();
    assert_eq!(put.summary["receivers"][0]["removed"], 1, "old/plain, and old stays: {put:?}");
    assert!(served.join("t/old").exists() && !served.join("t/old/plain").exists());
}

#[test]
fn a_directory_in_the_way_of_a_file_is_found_before_anything_moves() {
    let place = Place::new();
    let served = place.dir("served");
    write(&served, "a", b"theirs");
    let server = place.serve(&served, &[]);
    let from = format!("{}/", server.address);
    for size in [5, 2_000_000] {
        write(&served, "x", &vec![7; size]);
        let to = place.path(&size.to_string());
        write(&to, "x/mine", b"mine");
        for dry in [&["--dry-run"][..], &[]] {
            let get = output(&[&["get", &from, "-o", text(&to)][..], dry].concat());
            assert_eq!(get.status.code(), Some(8), "{size} {dry:?}: {}", shown(&get.stderr));
            assert_eq!(listing(&to), ["x"]);
        }
    }
}
