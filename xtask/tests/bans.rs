//! The bans in `lints/` fire: each banned thing, used, is an error of clippy's.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Something banned: code that uses it, and what clippy's message must name.
const USES: &[(&str, &str)] = &[
    ("std::time::Instant::now()", "std::time::Instant::now"),
    ("std::time::SystemTime::now()", "std::time::SystemTime::now"),
    ("std::thread::sleep(std::time::Duration::ZERO)", "std::thread::sleep"),
    ("std::collections::HashMap::<u8, u8>::new()", "std::collections::HashMap"),
    ("std::collections::HashSet::<u8>::new()", "std::collections::HashSet"),
    ("std::net::UdpSocket::bind((\"\", 0))", "std::net::UdpSocket"),
    ("std::net::TcpStream::connect((\"\", 0))", "std::net::TcpStream"),
    ("std::net::TcpListener::bind((\"\", 0))", "std::net::TcpListener"),
];

/// Banned in every crate below level 3 but the simulator, which may run sweeps on threads.
const PURE_USES: &[(&str, &str)] = &[
    ("std::thread::spawn(|| {})", "std::thread::spawn"),
    ("std::thread::scope(|_| {})", "std::thread::scope"),
    ("std::thread::Builder::new()", "std::thread::Builder"),
    ("std::fs::File::open(\"x\")", "std::fs::File"),
];

/// What clippy says of a function that holds `expression`, under the settings `lints/{settings}`.
fn clippy(settings: &str, name: &str, expression: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{settings}-{name}"));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::copy(root.join("lints").join(settings), folder.join("clippy.toml")).unwrap();
    let source = folder.join("probe.rs");
    std::fs::write(&source, format!("pub fn probe() {{ let _ = {expression}; }}\n")).unwrap();
    let cargo = PathBuf::from(std::env::var_os("CARGO").unwrap());
    let beside = cargo.with_file_name("clippy-driver");
    let driver = if beside.exists() { beside } else { PathBuf::from("clippy-driver") };
    let output = Command::new(&driver)
        .args(["--crate-type", "lib", "--edition", "2024", "--emit", "metadata"])
        .args(["-D", "clippy::disallowed_methods", "-D", "clippy::disallowed_types"])
        .arg("--out-dir")
        .arg(&folder)
        .arg(&source)
        .env("CLIPPY_CONF_DIR", &folder)
        .output()
        .unwrap_or_else(|e| panic!("{}: {e}", driver.display()));
    String::from_utf8(output.stderr).unwrap()
}

fn assert_banned(settings: &str, uses: &[(&str, &str)]) {
    for (index, (expression, name)) in uses.iter().enumerate() {
        let said = clippy(settings, &format!("ban{index}-{}", uses.len()), expression);
        let fired = said.contains("error: use of a disallowed") && said.contains(name);
        assert!(fired, "{settings} does not ban {expression}; clippy said:\n{said}");
    }
}

#[test]
fn pure_crates_take_no_clock_socket_thread_or_unordered_map() {
    assert_banned("pure.toml", USES);
    assert_banned("pure.toml", PURE_USES);
}

#[test]
fn the_simulator_takes_no_clock_socket_or_unordered_map() {
    assert_banned("simulator.toml", USES);
    let said = clippy("simulator.toml", "threads", "std::thread::spawn(|| {})");
    assert!(!said.contains("disallowed"), "the simulator may run sweeps on threads:\n{said}");
}

#[test]
fn ordered_code_passes() {
    let said = clippy("pure.toml", "ordered", "std::collections::BTreeMap::<u8, u8>::new()");
    assert!(!said.contains("error"), "{said}");
}
