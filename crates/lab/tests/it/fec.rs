//! Measurements of the codes, by the real binary.

use std::fs::File;
use std::process::{Output, Stdio};

use crate::support::program;

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

/// A small benchmark.
const BENCH: [&str; 11] = [
    "fec",
    "bench",
    "--k",
    "10",
    "--lost",
    "1",
    "--repair",
    "1",
    "--no-peers",
    "--seconds",
    "0.001",
];

#[test]
fn a_reader_that_goes_away_ends_a_benchmark_quietly() {
    for json in [&[][..], &["--json"]] {
        let mut command = program();
        command.args(BENCH).args(["-q"]).args(json);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("ends");
        assert_eq!((output.status.code(), said(&output).as_str()), (Some(0), ""));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_behind_standard_output_is_an_error() {
    let full = File::options().write(true).open("/dev/full").expect("there on Linux");
    let output = program().args(BENCH).stdout(full).output().expect("runs");
    assert_refused(&output, 1, "standard output: ");
}

#[test]
fn a_benchmark_refuses_what_it_cannot_do() {
    for (arguments, because) in [
        (&["--seconds", "nan"][..], "from 0.001 to 3600"),
        (&["--seconds=-1"], "from 0.001 to 3600"),
        (&["--seconds", "inf"], "from 0.001 to 3600"),
        (&["--k", "10", "--t", "65535", "--repair", "4294967295"], "16777206 at most"),
        (&["--k", "10", "--t", "65535", "--repair", "16777206"], "1073741824 at most"),
    ] {
        let output = run(&[&["fec", "bench"], arguments].concat());
        assert_refused(&output, 2, because);
    }
}

#[test]
fn a_benchmark_says_what_it_passes_over() {
    let lost = [&BENCH[..4], &["--lost", "1,11", "--no-peers", "--seconds", "0.001"]].concat();
    let output = run(&lost);
    assert!(output.status.success());
    assert!(said(&output).contains("K = 10: passing over --lost 11,"), "{output:?}");
    // Codes for so many symbols keep no inverse, which this path needs.
    let path = ["--k", "3000", "--t", "8", "--path", "dense", "--lost", "3", "--no-peers"];
    let output = run(&[&["fec", "bench"], &path[..], &["--seconds", "0.001"]].concat());
    assert!(output.status.success());
    assert!(said(&output).contains("--path dense"), "{output:?}");
    let rows = String::from_utf8_lossy(&output.stdout).into_owned();
    let row = rows.lines().find(|line| line.starts_with("decode 3 lost")).expect("a row");
    assert!(row.ends_with('-'), "{row}");
}

/// What `fec lt --json` says of a field, line by line.
fn of_lines(output: &Output, field: &str) -> Vec<f64> {
    assert!(output.status.success(), "{output:?}");
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    let value =
        |line| serde_json::from_str::<serde_json::Value>(line).expect("JSON")[field].clone();
    lines.lines().map(|line| value(line).as_f64().expect("a number")).collect()
}

#[test]
fn a_study_of_lt_codes_orders_the_decoders_and_can_be_repeated() {
    let study = ["fec", "lt", "--k", "64,300", "--blocks", "50", "--json"];
    let output = run(&study);
    assert_eq!(output.stdout, run(&study).stdout);
    assert_ne!(output.stdout, run(&[&study[..], &["--seed", "51"]].concat()).stdout);
    let symbols = of_lines(&output, "symbol_overhead");
    assert_eq!(symbols.len(), 8);
    for decoders in symbols.chunks(4) {
        assert!(decoders.is_sorted_by(|more, less| more >= less), "{decoders:?}");
    }
    let bytes = of_lines(&output, "byte_overhead");
    assert!(bytes.iter().zip(&symbols).all(|(bytes, symbols)| bytes > symbols));
    let table = run(&["fec", "lt", "--blocks", "5"]);
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    assert_eq!(table.matches("6-8 %").count(), 12, "{table}");
}

#[test]
fn a_study_of_lt_codes_refuses_what_is_no_code() {
    for (arguments, because) in [
        (&["--k", "4097"][..], "1..=4096"),
        (&["--c", "0"], "above 0"),
        (&["--c", "nan"], "above 0"),
        (&["--delta", "1"], "between 0 and 1"),
        (&["--sweep", "--c", "0.2"], "cannot be used with"),
        (&["--blocks", "0"], "--blocks"),
    ] {
        assert_refused(&run(&[&["fec", "lt"], arguments].concat()), 2, because);
    }
}
