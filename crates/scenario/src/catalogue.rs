//! The scenario files that come with Wellspring.

use crate::Plan;
use anyhow::{Result, bail};

macro_rules! scenarios {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../scenarios/", $name, ".toml")))),*]
    };
}

/// (name, text) of every scenario file.
pub const SCENARIOS: &[(&str, &str)] = scenarios![
    "scdp-1a",
    "scdp-1b",
    "scdp-5",
    "scdp-6",
    "scdp-7",
    "scdp-8",
    "scdp-9",
    "scdp-10",
    "scdp-11",
    "scdp-12a",
    "scdp-12d",
    "scdp-13",
    "scdp-14",
    "scdp-15",
    "scdp-16",
    "scdp-17",
    "lttp-5",
    "lttp-6",
    "lttp-9",
    "lttp-10",
    "lttp-10-beside-tcp",
    "lttp-ns2",
    "polyraptor-1a",
    "polyraptor-1b",
    "polyraptor-1c",
    "lttp-4-tcp",
    "lttp-6-tcp",
    "lttp-7-dctcp",
    "lttp-8-dctcp",
    "lttp-9-dctcp",
    "switch-trim",
    "many-paths",
    "open-sources",
    "open-switches",
    "open-stragglers",
    "open-rates",
    "open-thresholds",
    "open-lttp-tcp",
    "open-hotspots",
    "open-storage",
];

/// The text of a scenario that comes with Wellspring.
///
/// # Errors
/// There is none of that name.
pub fn text(name: &str) -> Result<&'static str> {
    match SCENARIOS.iter().find(|entry| entry.0 == name) {
        Some(entry) => Ok(entry.1),
        None => bail!("no scenario `{name}`; `wellspring-lab sim list` shows what there is"),
    }
}

/// The plan of a scenario that comes with Wellspring.
///
/// # Errors
/// There is none of that name.
pub fn plan(name: &str) -> Result<Plan> {
    Plan::parse(text(name)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_file_is_listed_and_can_be_read() {
        for (name, _) in SCENARIOS {
            let scenarios = plan(name).unwrap().scenarios().unwrap();
            assert!(!scenarios.is_empty() && scenarios.iter().all(|s| s.name == *name));
            assert!(scenarios.iter().all(|s| !s.about.is_empty()), "{name}");
        }
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios");
        let files = std::fs::read_dir(folder).unwrap().count();
        assert_eq!(files, SCENARIOS.len());
    }
}
