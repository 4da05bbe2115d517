//! The demo ends well and cleans up.

use crate::support::{listing, program};
use serde_json::Value;

#[test]
fn the_demo_runs_and_leaves_nothing_behind() {
    let home = tempfile::tempdir().expect("temporary directory");
    let done = program()
        .args(["demo", "--size", "20M", "--json"])
        .env("TMPDIR", home.path())
        .output()
        .expect("runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let result: Value = serde_json::from_slice(&done.stdout).expect("JSON");
    assert_eq!(result["put"]["receivers_complete"], 3, "{result:#}");
    assert_eq!(result["get"]["digest"], result["digest"]);
    assert_eq!(listing(home.path()), [""; 0]);
}
