//! `wellspring fec` on real files.

use std::fs::File;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::support::{Place, listing, program, random_bytes, signal, text};
use rustix::process::Signal;
use wellspring_testkit::wait::wait_until;

/// Symbol size of the objects here.
const T: usize = 1_000;

/// A file of 300 symbols and the object made of it, in a directory of its own.
struct Object {
    place: Place,
    original: PathBuf,
    coded: PathBuf,
    out: PathBuf,
}

impl Object {
    fn new(repair: &str) -> Self {
        let place = Place::new();
        let (original, coded, out) = (place.path("a"), place.path("a.fec"), place.dir("out"));
        std::fs::write(&original, random_bytes(299 * T + 7, 1)).expect("write");
        let object = Object { place, original, coded, out };
        let encoded = object.encode(&object.coded, &["--repair", repair]);
        assert!(encoded.status.success(), "{encoded:?}");
        object
    }

    fn encode(&self, to: &Path, extra: &[&str]) -> Output {
        let arguments = ["fec", "encode", text(&self.original), "-o", text(to)];
        run(&[&arguments[..], &["--symbol-size", "1000"], extra].concat())
    }

    fn decode(&self, to: &Path, extra: &[&str]) -> Output {
        run(&[&["fec", "decode", text(&self.coded), "-o", text(to)], extra].concat())
    }

    /// Decodes to a new name.
    fn decoded(&self) -> Output {
        self.decode(&self.out.join("b"), &[])
    }

    /// Changes the packets of the object.
    fn change(&self, change: impl FnOnce(&mut Vec<Vec<u8>>)) {
        let bytes = std::fs::read(&self.coded).expect("read");
        let (head, packets) = bytes.split_at(12);
        let mut packets = packets.chunks(T + 4).map(<[u8]>::to_vec).collect();
        change(&mut packets);
        std::fs::write(&self.coded, [head.to_vec(), packets.concat()].concat()).expect("write");
    }

    /// Writes a transfer length (F) below 2^32.
    fn set_transfer_length(&self, len: usize) {
        let mut bytes = std::fs::read(&self.coded).expect("read");
        bytes[1..5].copy_from_slice(&u32::try_from(len).expect("below 2^32").to_be_bytes());
        std::fs::write(&self.coded, bytes).expect("write");
    }

    fn digest_file(&self) -> PathBuf {
        self.place.path("a.fec.b3")
    }

    fn remove_digest(&self) {
        std::fs::remove_file(self.digest_file()).expect("there is one");
    }

    fn assert_back(&self) {
        let back = std::fs::read(self.out.join("b")).expect("read");
        assert_eq!(back, std::fs::read(&self.original).expect("read"));
    }
}

fn run(arguments: &[&str]) -> Output {
    program().args(arguments).output().expect("runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[track_caller]
fn assert_refused(output: &Output, status: i32, because: &str) {
    assert_eq!(output.status.code(), Some(status), "{output:?}");
    assert!(said(output).contains(because), "{output:?}");
}

#[test]
fn a_file_survives_the_loss_of_packets() {
    let object = Object::new("12");
    // Ten packets, spread over the file, are lost.
    object.change(|packets| {
        let mut number = 0;
        packets.retain(|_| {
            number += 1;
            number % 30 != 5
        });
    });
    assert!(object.decoded().status.success());
    object.assert_back();
}

#[test]
fn packets_may_be_reordered_and_doubled() {
    let object = Object::new("12");
    object.change(|packets| {
        packets.drain(40..46);
        packets.reverse();
        let again = packets[..200].to_vec();
        packets.extend(again);
    });
    assert!(object.decoded().status.success());
    object.assert_back();
}

#[test]
fn too_few_symbols_are_status_3_and_leave_no_file() {
    let object = Object::new("12");
    object.change(|packets| drop(packets.drain(40..53)));
    assert_refused(&object.decoded(), 3, "300");
    // As many packets as symbols are needed, but not as many symbols.
    object.change(|packets| packets.push(packets[0].clone()));
    assert_refused(&object.decoded(), 3, "source block 0: 299 different symbols, 300 are needed");
    assert_eq!(listing(&object.out), [""; 0]);
}

#[test]
fn corrupt_transmission_information_is_an_error() {
    let object = Object::new("0");
    let mut bytes = std::fs::read(&object.coded).expect("read");
    // T = 0.
    bytes[6..8].fill(0);
    std::fs::write(&object.coded, bytes).expect("write");
    assert_refused(&object.decoded(), 1, "not an RFC 6330 object");
    assert_eq!(listing(&object.out), [""; 0]);
}

#[test]
fn a_changed_byte_shows_where_a_symbol_is_left_to_check() {
    // The first repair symbol, which decoding needs; a source symbol of a block that needs none.
    for (lost, changed) in [(1, 299), (0, 7)] {
        let object = Object::new("2");
        object.change(|packets| {
            drop(packets.drain(..lost));
            packets[changed][500] ^= 1;
        });
        assert_refused(&object.decoded(), 10, "source block 0");
        object.remove_digest();
        assert_refused(&object.decoded(), 10, "source block 0");
        assert_eq!(listing(&object.out), [""; 0]);
    }
}

#[test]
fn a_changed_byte_without_a_symbol_to_check_it_by_does_not_match_the_digest() {
    for (repair, lost) in [("1", 1), ("0", 0)] {
        let object = Object::new(repair);
        object.change(|packets| {
            drop(packets.drain(..lost));
            packets[200][500] ^= 1;
        });
        assert_refused(&object.decoded(), 7, "digest");
        assert_eq!(listing(&object.out), [""; 0]);
    }
}

#[test]
fn a_transfer_length_one_too_small_is_found() {
    // By the digest; without one, by the padding that is not zero.
    let object = Object::new("2");
    object.set_transfer_length(299 * T + 6);
    assert_refused(&object.decoded(), 10, "padding");
    object.remove_digest();
    assert_refused(&object.decoded(), 10, "padding");
    // A byte more, which is zero as padding is: only the digest knows.
    object.set_transfer_length(299 * T + 8);
    let digest = blake3::hash(&std::fs::read(&object.original).expect("read")).to_string();
    let given = ["--digest", &digest];
    assert_refused(&object.decode(&object.out.join("b"), &given), 7, "digest");
    assert_eq!(listing(&object.out), [""; 0]);
}

#[test]
fn a_repeated_symbol_with_other_bytes_is_a_contradiction() {
    let object = Object::new("0");
    object.remove_digest();
    object.change(|packets| {
        let again = packets[7].clone();
        packets.push(again);
        packets[7][500] ^= 1;
    });
    assert_refused(&object.decoded(), 10, "two packets of symbol 7 differ");
    assert_eq!(listing(&object.out), [""; 0]);
}

#[test]
fn the_digest_decides_where_a_symbol_that_was_not_needed_has_changed() {
    let object = Object::new("2");
    object.change(|packets| packets[301][500] ^= 1);
    let decoded = object.decoded();
    assert!(decoded.status.success(), "{decoded:?}");
    assert!(said(&decoded).contains("symbol 301 contradicts the others"), "{decoded:?}");
    object.assert_back();
}

#[test]
fn an_output_that_was_not_verified_is_said_to_be() {
    let object = Object::new("0");
    let outcome = |extra: &[&str]| {
        let output =
            object.decode(&object.out.join("b"), &[&["--force", "--json"], extra].concat());
        assert!(output.status.success(), "{output:?}");
        let outcome: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(said(&output).contains("NOT VERIFIED"), outcome["verified"] == false);
        outcome
    };
    let verified = outcome(&[]);
    assert_eq!(verified["verified"], true);
    let digest = blake3::hash(&std::fs::read(&object.original).expect("read")).to_string();
    assert_eq!(verified["digest"], digest);
    object.remove_digest();
    let unverified = outcome(&[]);
    assert_eq!(unverified["verified"], false);
    assert_eq!(unverified["blocks_unchecked"], 1);
    assert_eq!(outcome(&["--digest", &digest])["verified"], true);
    object.assert_back();
}

#[test]
fn a_digest_file_has_the_format_of_b3sum() {
    let object = Object::new("2");
    let line = std::fs::read_to_string(object.digest_file()).expect("read");
    let digest = blake3::hash(&std::fs::read(&object.original).expect("read"));
    assert_eq!(line, format!("{digest}  a\n"));
    // What is no such line is refused, not passed over.
    std::fs::write(object.digest_file(), "other things").expect("write");
    assert_refused(&object.decoded(), 1, "not the BLAKE3 digest of one file");
    // Nor is it replaced by a later encoding, unless that is asked for.
    let coded = object.coded.clone();
    std::fs::remove_file(&coded).expect("there is one");
    assert_refused(&object.encode(&coded, &[]), 8, "a.fec.b3 exists");
    assert!(!coded.exists());
    assert!(object.encode(&coded, &["--force"]).status.success());
    assert!(object.decoded().status.success());
}

#[test]
fn an_existing_output_is_replaced_by_force_only() {
    let object = Object::new("2");
    let there = object.out.join("b");
    std::fs::write(&there, "mine").expect("write");
    std::fs::set_permissions(&there, PermissionsExt::from_mode(0o444)).expect("mode");
    for refused in [object.encode(&there, &[]), object.decode(&there, &[])] {
        assert_refused(&refused, 8, "--force");
        assert_eq!(std::fs::read(&there).expect("read"), b"mine");
    }
    assert!(object.decode(&there, &["--force"]).status.success());
    object.assert_back();
    assert_eq!(listing(&object.out), ["b"]);
}

#[test]
fn input_and_what_is_no_file_are_not_replaced_even_by_force() {
    let object = Object::new("2");
    let (original, coded) = (object.original.clone(), object.coded.clone());
    let before = [&original, &coded].map(|path| std::fs::read(path).expect("read"));
    assert_refused(&object.encode(&original, &["--force"]), 2, "is the input");
    assert_refused(&object.decode(&coded, &["--force"]), 2, "is the input");
    let link = object.out.join("link");
    symlink(&original, &link).expect("link");
    let folder = object.place.dir("folder");
    for target in [&link, &folder, Path::new("/dev/null")] {
        assert_refused(&object.decode(target, &["--force"]), 2, "not a regular file");
    }
    assert_refused(&object.decode(Path::new("-"), &["--force"]), 2, "standard output");
    assert_eq!([&original, &coded].map(|path| std::fs::read(path).expect("read")), before);
    assert!(link.is_symlink());
}

#[test]
fn an_output_has_the_mode_the_mask_leaves() {
    let object = Object::new("2");
    let out = object.out.join("b");
    let line = "umask 027; exec \"$@\"";
    let decode = ["fec", "decode", text(&object.coded), "-o", text(&out)];
    let mut shell = Command::new("sh");
    shell.args(["-c", line, "sh", env!("CARGO_BIN_EXE_wellspring")]).args(decode);
    assert!(shell.status().expect("runs").success());
    let mode = std::fs::metadata(&out).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
}

#[test]
fn an_input_that_is_a_pipe_is_refused_at_once() {
    let object = Object::new("2");
    let pipe = object.place.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("runs").success());
    let back = object.out.join("b");
    for command in ["encode", "decode"] {
        let output = run(&["fec", command, text(&pipe), "-o", text(&back)]);
        assert_refused(&output, 2, "not a regular file");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn an_input_longer_than_it_says_is_an_error() {
    let place = Place::new();
    let out = place.dir("out");
    let coded = out.join("b");
    let encode = ["fec", "encode", "/proc/self/status", "-o", text(&coded)];
    assert_refused(&run(&encode), 1, "holds more than its length says");
    assert_eq!(listing(&out), [""; 0]);
}

#[test]
fn an_input_beyond_any_object_is_told_the_limit() {
    let place = Place::new();
    let huge = place.path("huge");
    File::create(&huge).and_then(|file| file.set_len(942_574_504_276)).expect("a sparse file");
    let coded = place.path("b");
    let encode = ["fec", "encode", text(&huge), "-o", text(&coded)];
    assert_refused(&run(&encode), 2, "942574504275");
}

#[test]
fn memory_needed_is_told_before_it_is_taken() {
    let object = Object::new("12");
    object.change(|packets| drop(packets.drain(..5)));
    assert_refused(
        &object.decode(&object.out.join("b"), &["--max-memory", "0"]),
        1,
        "--max-memory",
    );
    // 2^64 bytes.
    let most = (1u64 << 44).to_string();
    assert!(object.decode(&object.out.join("b"), &["--max-memory", &most]).status.success());
}

/// An object of ten symbols of one byte, followed by packets of zeros that take no room.
fn sparse(path: &Path, len: u64) {
    std::fs::write(path, [0, 0, 0, 0, 10, 0, 0, 1, 1, 0, 1, 1]).expect("write");
    File::options().write(true).open(path).and_then(|file| file.set_len(len)).expect("sparse");
}

/// Forty million packets of one symbol: four bytes for each are more than is allowed here.
#[cfg(target_os = "linux")]
#[test]
fn packets_of_one_symbol_take_no_memory_each() {
    let place = Place::new();
    let (coded, out) = (place.path("a.fec"), place.path("b"));
    sparse(&coded, 200_000_000);
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -v 150000; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_wellspring")]);
    shell.args(["fec", "decode", text(&coded), "-o", text(&out)]);
    // Each thread's own arena would reserve 64 MiB of the addresses.
    shell.env("MALLOC_ARENA_MAX", "1");
    assert_refused(&shell.output().expect("runs"), 3, "1 different symbols, 10 are needed");
}

/// Waits until a file is being written in `out`.
fn wait_until_begun(out: &Path) {
    wait_until(|| "a file that is being written", || !listing(out).is_empty());
}

/// Runs a command that is interrupted once it has begun a file in `out`. It does not ignore what
/// whoever runs the tests ignores (`nohup`).
fn interrupt(arguments: &[&str], out: &Path, by: Signal) {
    let mut command = Command::new("env");
    command.args(["--default-signal", env!("CARGO_BIN_EXE_wellspring")]);
    let mut child = command.args(arguments).spawn().expect("starts");
    wait_until_begun(out);
    signal(&child, by);
    assert_eq!(child.wait().expect("wait").code(), Some(130));
    assert_eq!(listing(out), [""; 0]);
}

#[test]
fn an_interrupted_encoding_leaves_nothing() {
    let place = Place::new();
    let (original, out) = (place.path("large"), place.dir("out"));
    // Sparse: takes no room, and longer to encode than this test needs.
    File::create(&original).and_then(|file| file.set_len(4 << 30)).expect("a sparse file");
    let coded = out.join("large.fec");
    interrupt(&["-q", "fec", "encode", text(&original), "-o", text(&coded)], &out, Signal::INT);
}

#[test]
fn a_decoding_whose_terminal_closes_leaves_nothing() {
    let place = Place::new();
    let (coded, out) = (place.path("a.fec"), place.dir("out"));
    // Longer to read than this test needs.
    sparse(&coded, 16 << 30);
    let back = out.join("b");
    interrupt(&["-q", "fec", "decode", text(&coded), "-o", text(&back)], &out, Signal::HUP);
}

#[test]
fn under_nohup_a_decoding_outlives_its_terminal() {
    let place = Place::new();
    let (coded, out) = (place.path("a.fec"), place.dir("out"));
    sparse(&coded, 200_000_000);
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' HUP; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_wellspring"), "-q"]);
    shell.args(["fec", "decode", text(&coded), "-o", text(&out.join("b"))]);
    let mut child = shell.spawn().expect("starts");
    wait_until_begun(&out);
    signal(&child, Signal::HUP);
    // It comes to its end: there are too few symbols.
    assert_eq!(child.wait().expect("wait").code(), Some(3));
}

#[test]
fn a_closed_standard_error_is_no_failure() {
    let object = Object::new("2");
    let arguments = ["fec", "decode", text(&object.coded), "-o", text(&object.out.join("b"))]
        .map(str::to_owned);
    let mut child = program().args(arguments).stderr(Stdio::piped()).spawn().expect("starts");
    drop(child.stderr.take());
    assert!(child.wait().expect("ends").success());
    object.assert_back();
}
