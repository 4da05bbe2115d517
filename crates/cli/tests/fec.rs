//! `wellspring fec` on real files.

mod support;

use std::fs::File;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use support::{Place, listing, program, random_bytes, signal, text};

#[test]
fn a_file_survives_the_loss_of_packets() {
    const T: usize = 1_000;
    let place = Place::new();
    let (original, coded, back) = (place.path("a"), place.path("a.fec"), place.path("b"));
    std::fs::write(&original, random_bytes(300 * T + 7, 1)).expect("write");
    let encode = ["fec", "encode", text(&original), "-o", text(&coded), "--symbol-size", "1000"];
    assert!(program().args(encode).args(["--repair", "12"]).status().expect("runs").success());

    // Ten packets, spread over the file, are lost.
    let bytes = std::fs::read(&coded).expect("read");
    let (head, packets) = bytes.split_at(12);
    let kept = packets.chunks(T + 4).enumerate().filter(|(i, _)| i % 30 != 5).map(|(_, p)| p);
    let kept = std::iter::once(head).chain(kept).collect::<Vec<_>>().concat();
    std::fs::write(&coded, kept).expect("write");
    let decode = ["fec", "decode", text(&coded), "-o", text(&back)];
    assert!(program().args(decode).status().expect("runs").success());
    assert_eq!(std::fs::read(&back).expect("read"), std::fs::read(&original).expect("read"));
}

#[test]
fn an_interrupted_encoding_leaves_nothing() {
    let place = Place::new();
    let (original, out) = (place.path("large"), place.dir("out"));
    // Sparse: takes no room, and longer to encode than this test needs.
    File::create(&original).and_then(|file| file.set_len(4 << 30)).expect("a sparse file");
    let coded = out.join("large.fec");
    let mut child = program()
        .args(["-q", "fec", "encode", text(&original), "-o", text(&coded)])
        .spawn()
        .expect("starts");
    let until = Instant::now() + Duration::from_secs(60);
    while listing(&out).is_empty() {
        assert!(Instant::now() < until, "no file is being written");
        std::thread::sleep(Duration::from_millis(5));
    }
    signal(&child, Signal::INT);
    assert_eq!(child.wait().expect("wait").code(), Some(130));
    assert_eq!(listing(&out), [""; 0]);
}
