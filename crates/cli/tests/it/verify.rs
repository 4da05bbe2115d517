//! Files of a directory, read again and compared.

use crate::support::{Place, output, shown, text, write};

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
    assert_eq!(json, "{\"differing\":1,\"extra\":1,\"files\":3,\"missing\":1}\n");
}
