//! Parts of test networks, by the real binary.

use std::io::Write;
use std::process::Stdio;

use crate::support::{Place, listing, program};

/// Gives plots to `lab plots`; what it said, if it failed.
fn draw(place: &Place, plots: &str) -> Result<(), String> {
    let mut command = program();
    command.args(["lab", "plots"]).arg(place.path("drawn"));
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    child.stdin.take().expect("piped").write_all(plots.as_bytes()).expect("taken");
    let output = child.wait_with_output().expect("ended");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(()) } else { Err(said) }
}

#[test]
fn plots_of_measurements_become_files_and_stay_in_their_folder() {
    let place = Place::new();
    let plot = r#"{"title": "Loopback", "x": {"label": ""}, "y": {"label": "[Gbit/s]"},
        "categories": ["1 server", "3 servers"], "curves": [
        {"name": "wellspring", "shape": "bars", "source": "ours", "points": [[0, 6.5, 0], [1, 3.7, 0]]},
        {"name": "nginx", "shape": "bars", "source": "reference", "points": [[0, 4.5, 0]]}]}"#;
    draw(&place, &format!(r#"{{"speed.svg": {plot}}}"#)).expect("drawn");
    assert_eq!(listing(&place.path("drawn")), ["speed.svg"]);
    let svg = std::fs::read_to_string(place.path("drawn/speed.svg")).expect("written");
    let page = roxmltree::Document::parse(&svg).expect("SVG");
    let words = page.root_element().attribute("aria-label").expect("words");
    assert!(words.contains("nginx") && words.contains("6.5"), "{words}");

    let said = draw(&place, &format!(r#"{{"../out.svg": {plot}}}"#)).expect_err("refused");
    assert!(said.contains("is no name of a file"), "{said}");
    let said = draw(&place, "[]").expect_err("refused");
    assert!(said.contains("standard input is no plots"), "{said}");
    assert!(!place.path("out.svg").exists());
}
