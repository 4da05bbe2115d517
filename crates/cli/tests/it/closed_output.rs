//! Commands whose standard output nobody reads to its end: what they find still decides the exit status.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::support::{Place, program, text, write};

/// The exit status of a command whose standard output has no reader from the beginning.
fn status_unread(arguments: &[&str]) -> Option<i32> {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = program();
    command.args(arguments).stdout(writer).stderr(Stdio::null());
    command.status().expect("runs").code()
}

#[test]
fn a_reader_of_one_line_does_not_hide_that_files_differ() {
    let place = Place::new();
    let (here, digests) = (place.dir("here"), place.path("digests"));
    let digest = blake3::hash(b"some bytes").to_hex();
    // More than a pipe holds.
    let lines: String = (0..20_000).map(|number| format!("{digest}  {number}\n")).collect();
    std::fs::write(&digests, lines).expect("write");
    let mut child = program()
        .args(["verify", text(&here), "--manifest", text(&digests)])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    let mut line = String::new();
    let mut reader = BufReader::new(child.stdout.take().expect("piped"));
    reader.read_line(&mut line).expect("a line");
    drop(reader);
    assert_eq!(line, "missing 0\n");
    assert_eq!(child.wait().expect("ends").code(), Some(7));
}

#[test]
fn nobody_reads_what_was_found_and_the_exit_status_tells_it() {
    let place = Place::new();
    let (first, second) = (place.dir("first"), place.dir("second"));
    write(&first, "x", b"these bytes");
    write(&second, "x", b"other bytes");
    let servers = [&first, &second].map(|dir| place.serve(dir, &[]));
    let [address, other] = servers.each_ref().map(|server| server.address.to_string());
    assert_eq!(status_unread(&["stat", &format!("{address},{other}/x")]), Some(5));
    let (x, none) = (format!("{address}/x"), format!("{address}/none"));
    let to = place.path("to");
    assert_eq!(status_unread(&["get", "--json", &x, &none, "-o", text(&to)]), Some(4));
    drop(servers);
    assert_eq!(status_unread(&["doctor", "--no-trial", "--timeout", "0.5", &address]), Some(11));
    // A listing that nobody wants to read on has done its work.
    let server = place.serve(&first, &[]);
    assert_eq!(status_unread(&["ls", &format!("{}/", server.address)]), Some(0));
}
