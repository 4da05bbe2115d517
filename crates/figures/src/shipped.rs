//! Shipped values on switches that trim.

/// SCDP as over UDP on trimming networks (`--fabric trimming`), with our codec's speed. The switches do not trim the packets
/// of groups, and leave 128 bytes of what they trim. Not what runs by default: that takes the switches for shared with
/// other traffic, with Veno, and has keys and blocks of 128 KiB. Round trips of opening are as in the paper.
pub(super) const SCDP_AS_SHIPPED: [(&str, &str); 5] = [
    ("protocol.name", "scdp"),
    ("protocol.configuration", "shipped"),
    ("protocol.decode", "measured"),
    ("switch.trim_groups", "false"),
    ("switch.trim_size", "128B"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use wellspring_experiments::scenario::catalogue;

    #[test]
    fn every_figure_with_a_column_as_shipped_can_be_run_so() {
        for scenario in [
            "scdp-5",
            "scdp-6",
            "scdp-7",
            "scdp-8",
            "scdp-10",
            "scdp-12a",
            "scdp-12d",
            "scdp-14",
            "scdp-16",
            "scdp-17",
            "polyraptor-1a",
            "polyraptor-1b",
            "polyraptor-1c",
        ] {
            let mut plan = catalogue::plan(scenario).unwrap().without_sweep();
            for (key, value) in SCDP_AS_SHIPPED {
                plan.set(key, value).unwrap_or_else(|error| panic!("{scenario}, {key}: {error:#}"));
            }
            plan.scenarios().unwrap_or_else(|error| panic!("{scenario}: {error:#}"));
        }
    }
}
