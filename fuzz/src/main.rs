//! libFuzzer's entry point, for the target that the environment variable `FUZZ_TARGET` names; `list`
//! prints the names of all.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use wellspring_fuzz::{TARGETS, Target, target};

static CHOSEN: OnceLock<Target> = OnceLock::new();

fn choose() -> Target {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    target(&name).unwrap_or_else(|| {
        TARGETS.iter().for_each(|target| println!("{}", target.name));
        if name != "list" {
            eprintln!("FUZZ_TARGET must name one of these targets, not `{name}`");
        }
        std::process::exit(if name == "list" { 0 } else { 2 })
    })
}

fuzz_target!(init: {
    CHOSEN.get_or_init(choose);
}, |input: &[u8]| {
    (CHOSEN.get_or_init(choose).run)(input)
});
