//! Names that a server has chosen: what of a directory is written here.

use std::path::Path;

use crate::support::{Place, listing, output, program, shown, text, write};

const ODD: [&str; 4] = ["-rf", "--/inside", "d/gpj.\u{202e}exe", "d/two\u{200b}words"];

#[test]
fn odd_names_are_left_out_of_a_directory_and_named_unless_they_are_allowed() {
    let place = Place::new();
    let (served, to) = (place.dir("served"), place.path("to"));
    for name in ODD.iter().chain(&["d/.gitignore", "plain"]) {
        write(&served, name, b"theirs");
    }
    write(&to, "d/two\u{200b}words", b"mine");
    let server = place.serve(&served, &["--allow-hidden"]);
    let from = format!("{}/", server.address);
    let get = |more: &[&str]| {
        let ended = output(&[&["get", &from, "-o", text(&to)][..], more].concat());
        assert!(ended.status.success(), "{}", shown(&ended.stderr));
        shown(&ended.stderr)
    };
    for delete in [&[][..], &["--delete"]] {
        let said = get(delete);
        assert_eq!(listing(&to), ["d", "plain"]);
        assert_eq!(listing(&to.join("d")), [".gitignore", "two\u{200b}words"]);
        let mine = std::fs::read(to.join("d/two\u{200b}words")).expect("still there");
        assert_eq!(mine, b"mine", "what is left out is left alone");
        assert_eq!(said.matches("begins with a dash").count(), 4, "{said}");
        for part in ["-rf", "skipped: -- ", "\\u{202e}exe", "\\u{200b}words", "--allow-odd-names"] {
            assert!(said.contains(part), "no {part}: {said}");
        }
        assert!(!said.contains(['\u{202e}', '\u{200b}']), "{said}");
    }
    let dry = output(&["get", &from, "-o", text(&place.path("dry")), "--dry-run"]);
    let dry = shown(&dry.stdout);
    assert!(dry.contains("skip    -rf") && !dry.contains('\u{202e}'), "{dry}");
    get(&["--allow-odd-names"]);
    for name in ODD {
        assert_eq!(std::fs::read(to.join(name)).expect(name), b"theirs");
    }
    // Who names an object wants it.
    let (one, other) = (format!("{from}-rf"), format!("{from}plain"));
    let named = place.path("named");
    assert!(output(&["get", &one, &other, "-o", text(&named)]).status.success());
    assert_eq!(listing(&named), ["-rf", "plain"]);
}

#[test]
fn a_server_puts_no_hidden_files_into_the_users_home() {
    let place = Place::new();
    let (served, home) = (place.dir("served"), place.dir("home"));
    for name in [".ssh/authorized_keys", ".bashrc", "papers/.notes", "papers/one"] {
        write(&served, name, b"theirs");
    }
    write(&home, ".profile", b"mine");
    write(&home, ".ssh/id", b"mine");
    let server = place.serve(&served, &["--allow-hidden"]);
    let from = format!("{}/", server.address);
    let get = |to: &Path, more: &[&str]| {
        let mut command = program();
        command.env("HOME", &home).current_dir(&home).args(["get", &from, "-o", text(to)]);
        let ended = command.args(more).output().expect("runs");
        assert!(ended.status.success(), "{}", shown(&ended.stderr));
        shown(&ended.stderr)
    };
    std::os::unix::fs::symlink(&home, place.path("link")).expect("a link");
    for to in [&home, &place.path("link"), Path::new("."), &place.path("served/../home")] {
        for more in [&[][..], &["--delete"]] {
            let said = get(to, more);
            assert_eq!(listing(&home), [".profile", ".ssh", "papers"], "{said}");
            assert_eq!(listing(&home.join(".ssh")), ["id"]);
            assert_eq!(listing(&home.join("papers")), ["one"]);
            assert_eq!(said.matches("your home").count(), 3, "{said}");
            assert!(said.contains("--allow-hidden"), "{said}");
        }
    }
    // A directory of its own gets what there is, and so does the home if that is said.
    get(&home.join("all"), &[]);
    assert_eq!(listing(&home.join("all")), [".bashrc", ".ssh", "papers"]);
    get(&home, &["--allow-hidden"]);
    assert_eq!(listing(&home.join(".ssh")), ["authorized_keys", "id"]);
}
