//! `wellspring-lab sim` and what `wellspring-lab reproduce` says without running anything long.

use std::process::{Output, Stdio};

use crate::support::{Place, listing, program, signal, text};
use rustix::process::Signal;
use serde_json::Value;
use wellspring_testkit::wait::wait_until;

/// Ends within a millisecond.
const SMALL: &str = "name = \"small\"\n[topology]\nkind = \"single-switch\"\nhosts = 3\n[workload]\n\
                     kind = \"single\"\nfrom = 0\nto = 1\nsize = \"100KB\"\n[run]\nseeds = [1]\n";

fn run(arguments: &[&str]) -> Output {
    program().arg("-q").args(arguments).output().expect("runs")
}

fn status(output: &Output) -> Option<i32> {
    output.status.code()
}

fn words(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A place with the small scenario in it, and that file's path.
fn small() -> (Place, String) {
    let place = Place::new();
    let path = place.path("small.toml");
    std::fs::write(&path, SMALL).expect("written");
    let path = text(&path).to_owned();
    (place, path)
}

#[test]
fn requests_that_fail_are_told_of_and_are_a_failure() {
    let (place, scenario) = small();
    let folder = place.path("out");
    let arguments =
        ["sim", "run", &scenario, "--set", "topology.data_loss=1.0", "--output", text(&folder)];
    let lost = run(&[&arguments[..], &["--json"]].concat());
    assert_eq!(status(&lost), Some(1));
    let said = words(&lost.stderr);
    assert!(said.contains("0 of 1 requests completed: 1 "), "{said}");
    let rows: Value = serde_json::from_slice(&lost.stdout).expect("JSON");
    assert_eq!(rows[0]["requests"], 1);
    assert_eq!(rows[0]["completed"], 0);
    assert!(rows[0]["missing"].as_str().is_some_and(|why| why.len() > 5), "{rows}");
    // From the table the second time.
    let again = run(&arguments);
    assert_eq!(status(&again), Some(1), "{}", words(&again.stdout));
    assert!(words(&again.stderr).contains("0 of 1 requests completed: 1 "));
}

#[test]
fn the_tcp_beside_a_protocol_has_a_line_of_its_own() {
    let (_place, scenario) = small();
    let settings = [
        "--set=workload={kind=\"permutation\",size=\"100KB\"}",
        "--set=protocol.name=\"lttp\"",
        "--set=beside={share=0.34,protocol={name=\"dctcp\"}}",
        "--set=switch.mark_packets=10",
        "--seeds=1,2",
    ];
    let table = run(&[&["sim", "run", &scenario][..], &settings].concat());
    assert_eq!(status(&table), Some(0), "{}", words(&table.stderr));
    let said = words(&table.stdout);
    let lines = |start: &str| said.lines().filter(|line| line.starts_with(start)).count();
    // Two runs and their mean.
    assert_eq!((lines("lttp "), lines("+ dctcp ")), (3, 3), "{said}");
    let of = |start: &str, done: &str| {
        said.lines().any(|line| line.starts_with(start) && line.contains(done))
    };
    assert!(of("lttp ", " 2/2 ") && of("+ dctcp ", " 1/1 "), "{said}");
}

/// Of flows that are few and mostly long a seed may have no short one.
#[test]
fn seeds_without_such_requests_are_not_in_a_mean() {
    let (_place, scenario) = small();
    let settings = [
        "--set=workload={kind=\"flows\",sessions=2,lambda=100.0,\
         sizes={points=[[50000.0,0.0],[50001.0,0.5],[1000000.0,1.0]]}}",
        "--seeds=1,2,3,4,5,6,7,8",
    ];
    let arguments = [&["sim", "run", &scenario][..], &settings].concat();
    let rows = run(&[&arguments[..], &["--json"]].concat());
    let rows: Vec<Value> = serde_json::from_slice(&rows.stdout).expect("JSON");
    let times = rows.iter().map(|row| &row["fct_mean_100kb"]);
    let times: Vec<f64> = times.filter(|time| !time.is_null()).filter_map(Value::as_f64).collect();
    assert!((1..8).contains(&times.len()) && times.iter().all(|time| *time > 0.0), "{times:?}");
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    let said = words(&run(&arguments).stdout);
    let line = said.lines().last().expect("a line");
    assert!(line.contains(&format!("{mean:.3} +-")), "{said}");
    assert!(line.contains(&format!(" ({} of 8)", times.len())), "{said}");
}

#[test]
fn a_stuck_run_is_summed_up_and_its_state_is_kept() {
    let (place, scenario) = small();
    let folder = place.path("out");
    let settings = "events=[{at=\"20us\",kind=\"link-down\",nodes=[\"host1\",\"switch0\"]}]";
    let others = ["--set", settings, "--set", "run.patience=1ms", "--output", text(&folder)];
    let stuck = run(&[&["sim", "run", &scenario][..], &others].concat());
    let said = words(&stuck.stderr);
    assert_eq!(status(&stuck), Some(1), "{said}");
    assert!(said.lines().count() < 10 && said.contains("bytes left"), "{said}");
    let names = listing(&folder);
    let kept = names.iter().find(|name| name.starts_with("stuck-")).expect("kept");
    let state = std::fs::read_to_string(folder.join(kept)).expect("readable");
    assert!(state.lines().count() > 50 && said.contains(kept), "{said}");
}

#[test]
fn what_there_is_not_is_a_wrong_command_line() {
    let (_place, scenario) = small();
    for arguments in [
        &["sim", "run", "nowhere"][..],
        &["sim", "show", "nowhere"],
        &["sim", "bench", "ndp-incast-70", "nowhere"],
        &["sim", "run", &scenario, "--set", "protocol.nowhere=1"],
        &["sim", "run", &scenario, "--set", "nowhere"],
        &["sim", "run", &scenario, "--seeds", "18446744073709551615"],
        &["sim", "run", &scenario, "--seeds", "1,2", "--capture", "/nowhere/x"],
        &["reproduce", "nowhere"],
        &["reproduce", "scdp-12a", "--seeds", "18446744073709551615"],
    ] {
        let output = run(arguments);
        assert_eq!(status(&output), Some(2), "{arguments:?}: {}", words(&output.stderr));
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn a_host_that_is_not_there_cannot_be_captured() {
    let (place, scenario) = small();
    let capture = place.path("x.pcapng");
    let output =
        run(&["sim", "run", &scenario, "--capture", text(&capture), "--capture-host", "999"]);
    assert_eq!(status(&output), Some(1));
    assert!(words(&output.stderr).contains("no host 999"), "{}", words(&output.stderr));
    assert!(!capture.exists());
}

#[test]
fn a_capture_takes_the_place_of_a_capture_only() {
    let (place, scenario) = small();
    let capture = place.path("x.pcapng");
    for _ in 0..2 {
        let output = run(&["sim", "run", &scenario, "--capture", text(&capture)]);
        assert_eq!(status(&output), Some(0), "{}", words(&output.stderr));
    }
    let output = run(&["sim", "run", &scenario, "--capture", &scenario]);
    assert_eq!(status(&output), Some(1));
    assert_eq!(std::fs::read_to_string(&scenario).expect("still there"), SMALL);
}

#[test]
fn a_seed_counts_once_and_threads_are_no_more_than_runs() {
    let (_place, scenario) = small();
    let output = run(&["sim", "run", &scenario, "--seeds", "1,1", "--json", "-j", "100000"]);
    let rows: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(rows.as_array().map(Vec::len), Some(1), "{rows}");
}

#[test]
fn scenarios_are_listed_in_columns_of_words() {
    let output = run(&["sim", "list"]);
    let list = words(&output.stdout);
    let about = |line: &str| line.find(" runs  ").map(|at| at + " runs  ".len());
    let column = about(list.lines().next().expect("a line"));
    assert!(column.is_some(), "{list}");
    for line in list.lines() {
        assert_eq!(about(line), column, "{list}");
        let words = &line[column.unwrap_or(0)..];
        assert!(words.starts_with(|c: char| !c.is_whitespace()), "{list}");
    }
}

#[test]
fn figures_are_listed_as_json() {
    let output = run(&["reproduce", "--json"]);
    let figures: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(figures.as_array().is_some_and(|all| all.iter().any(|f| f["name"] == "scdp-5")));
}

/// Figs. 12d and 17 look at more than rows.
#[test]
fn a_figure_keeps_its_runs_whatever_it_looks_at() {
    let place = Place::new();
    let folder = place.path("out");
    let arguments = ["reproduce", "scdp-17", "--quick", "--seeds", "1,2", "--output"];
    let output = run(&[&arguments[..], &[text(&folder)]].concat());
    assert_eq!(status(&output), Some(0), "{}", words(&output.stderr));
    let table = std::fs::read_to_string(folder.join("runs.csv")).expect("kept");
    assert_eq!(table.lines().count(), 7, "two seeds of three cases: {table}");
}

#[test]
fn a_reader_that_goes_away_ends_the_program_quietly() {
    let (_place, scenario) = small();
    for arguments in [
        &["sim", "list"][..],
        &["sim", "show", "scdp-5"],
        &["sim", "run", &scenario],
        &["reproduce"],
        &["reproduce", "scdp-17", "--quick"],
    ] {
        let mut child = program()
            .arg("-q")
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("starts");
        drop(child.stdout.take());
        let ended = child.wait_with_output().expect("ends");
        assert_eq!(status(&ended), Some(0), "{arguments:?}: {}", words(&ended.stderr));
        assert!(ended.stderr.is_empty(), "{arguments:?}: {}", words(&ended.stderr));
    }
}

#[test]
fn an_interrupted_sweep_keeps_its_rows_and_no_cut_file() {
    let (place, _) = small();
    let folder = place.dir("out");
    let capture = folder.join("x.pcapng");
    // Minutes, if nobody interrupts it.
    let endless = SMALL.replace("100KB", "100GB");
    std::fs::write(place.path("endless.toml"), endless).expect("written");
    let path = place.path("endless.toml");
    let mut child = program()
        .args(["-q", "sim", "run", text(&path), "--capture", text(&capture)])
        .args(["--output", text(&folder)])
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    // Stays, for those who write to the folder next.
    let lock = ".runs.lock";
    let is_written = || listing(&folder).iter().any(|name| name != lock);
    wait_until(|| "a capture that is being written", is_written);
    signal(&child, Signal::INT);
    assert_eq!(child.wait().expect("ends").code(), Some(130));
    assert_eq!(listing(&folder), [lock]);
}

/// A wrong folder, or a figure that was never run, is no reason to empty a report.
#[test]
fn a_report_is_not_redrawn_from_nothing() {
    let place = Place::new();
    let (records, report) = (place.path("records"), place.path("report"));
    std::fs::create_dir(&records).expect("made");
    let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/../../results/scdp-12d.json");
    std::fs::copy(kept, records.join("scdp-12d.json")).expect("copied");
    let redraw = |figure: &str, records: &str| {
        let folders =
            ["--records", text(&place.path(records)), "--report", text(&report)].map(str::to_owned);
        run(&[&["reproduce", figure, "--redraw"][..], &folders.each_ref().map(String::as_str)]
            .concat())
    };
    let drawn = redraw("scdp-12d", "records");
    assert_eq!(status(&drawn), Some(0), "{}", words(&drawn.stderr));
    assert_eq!(words(&drawn.stdout), "1 of 1 figures have a record\n");
    let before = std::fs::read(report.join("report.md")).expect("drawn");
    for (figure, records) in [("scdp-12d", "nosuch"), ("scdp-5", "records")] {
        let refused = redraw(figure, records);
        assert_eq!(status(&refused), Some(1), "{figure}");
        let said = words(&refused.stderr);
        assert!(said.contains(records) && said.contains("no record of these figures"), "{said}");
    }
    assert_eq!(std::fs::read(report.join("report.md")).expect("there"), before);
}
