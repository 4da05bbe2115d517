//! Results of larger runs than a figure's quick record, from the records in `bench/record`.

/// What runs of a figure at the paper's size gave, or at more nearly that than `--quick`.
#[derive(Clone, Copy)]
pub struct Larger {
    /// `scdp-5`
    pub figure: &'static str,
    /// The runs and their results, in a line.
    pub found: &'static str,
    /// The file that has them.
    pub record: &'static str,
}

/// Of that figure; none where only quick runs were made.
pub fn larger(figure: &str) -> Option<&'static Larger> {
    LARGER.iter().find(|larger| larger.figure == figure)
}

const LARGER: &[Larger] = &[
    Larger {
        figure: "scdp-1a",
        found: "10,000 writes, one seed: quartiles of NDP's goodput 0.53 / 0.62 / 0.64 Gbit/s to one host, 0.29 / 0.37 / \
                0.46 to three by daisy chain and 0.18 / 0.27 / 0.31 by multi-unicast; TCP's rows were run with 200 writes \
                alone",
        record: "bench/record/2026-11-23-figures.md",
    },
    Larger {
        figure: "scdp-1b",
        found: "10,000 reads, one seed: NDP's mean goodput 0.600 / 0.607 Gbit/s of a block on 1 / 3 hosts, and 0.238 from \
                three that each send the whole block",
        record: "bench/record/2026-11-23-figures.md",
    },
    Larger {
        figure: "scdp-5",
        found: "2,000 writes, one seed: above 0.9 Gbit/s 0.000 of SCDP's at 10 us and 0.050 at 1 us; mean goodput SCDP / \
                NDP by multi-unicast 0.420 / 0.245 Gbit/s when light, 0.041 / 0.034 when heavy, where a daisy chain gives NDP \
                0.55 more when light and 0.06 less when heavy (bench/record/2026-11-23-figures.md); NDP+ over NDP -0.005 and over SCDP -0.179; \
                background SCDP / NDP 0.584 / 0.545",
        record: "bench/record/2026-11-25-figures.md",
    },
    Larger {
        figure: "scdp-6",
        found: "2,000 reads, five seeds: above 0.9 Gbit/s 0.099 of SCDP's at 10 us, 0.109 at 1 us, 0.823 with our codec's \
                speed, and 0.035 of NDP's; heavy, mean goodput SCDP / NDP 0.330 / 0.232 Gbit/s; NDP+ over NDP -0.001; \
                background of NDP 0.580",
        record: "bench/record/2026-11-25-figures.md",
    },
    Larger {
        figure: "scdp-7",
        found: "20,000 flows, five seeds, load 0.5: mean 0-100 KB SCDP / NDP / NDP+ 0.578 / 0.625 / 0.557 ms, 99th \
                percentile 2.42 / 2.57 / 2.33 ms, NDP's over SCDP's 1.06, SCDP's over its mean 4.2; load 0.8: mean SCDP / \
                NDP+ 1.452 / 1.452 ms",
        record: "bench/record/2026-11-24-figures.md",
    },
    Larger {
        figure: "scdp-8",
        found: "4,000 flows of the paper's 20,000, one seed: mean 0-1 MB SCDP / NDP 0.719 / 0.767, 0.761 / 0.837 and \
                1.253 / 1.411 ms at load 0.3, 0.5 and 0.8",
        record: "bench/record/2026-11-25-figures.md",
    },
    Larger {
        figure: "scdp-9",
        found: "one seed, w = 12: 1 over 10 Gbit/s 9.9, SCDP / NDP 0.193 / 0.202 ms at load 0.5 (20,000 flows) and 0.996 / \
                0.928 at 0.9 (4,000); w = 32, 4,000 flows: 0.231 / 0.164 and 1.051 / 0.954",
        record: "bench/record/2026-11-24-figures.md",
    },
    Larger {
        figure: "scdp-10",
        found: "three times 4,000 flows of the paper's 20,000: 99th percentile 0-100 KB over Fig. 7's 0.995 of SCDP and \
                0.998 of NDP",
        record: "bench/record/2026-11-23-figures.md",
    },
    Larger {
        figure: "scdp-11",
        found: "4,000 flows, one seed, in a queue for each class and with the background's hosts in the foreground: 99th \
                percentile 0-100 KB over Fig. 8's 1.06 of SCDP, 1.39 of NDP and 1.15 of NDP+",
        record: "bench/record/2026-11-25-figures.md",
    },
    Larger {
        figure: "scdp-13",
        found: "2,000 sessions, five seeds: goodput at w = 12, 20, 24, 52 0.572, 0.759, 0.766, 0.761 Gbit/s at 10 us; \
                trims at w = 12, 20, 52 0.5, 3.4, 13.7 at 1 us, and 19.1, 29.0, 44.8 of sessions that lost any with a pull \
                every 12 us",
        record: "bench/record/2026-11-25-figures.md",
    },
    Larger {
        figure: "scdp-16",
        found: "2,000 writes, five seeds: unneeded over needed symbols 0.034 at 4 MB and 4,000/s; at 2,000 and 4,000/s \
                0.0056 and 0.0267 at 1 MB, 0.0336 and 0.0336 at 4 MB",
        record: "bench/record/2026-11-25-figures.md",
    },
    Larger {
        figure: "polyraptor-1a",
        found: "10,000 writes, one seed: medians of 1 / 3 replicas 0.384 / 0.015 Gbit/s, which is 0.039 and missed; at \
                320/s 0.650 / 0.512",
        record: "bench/record/2026-11-25-figures.md",
    },
    Larger {
        figure: "polyraptor-1b",
        found: "10,000 reads, one seed: medians of 1 / 3 replicas 0.380 / 0.566 Gbit/s, which is 1.487; at 320/s 0.650 / \
                0.919",
        record: "bench/record/2026-11-25-figures.md",
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FIGURES;

    #[test]
    fn larger_runs_are_those_of_figures_and_their_records_are_there() {
        let tree = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for of in LARGER {
            assert!(FIGURES.iter().any(|figure| figure.name == of.figure), "{}", of.figure);
            assert!(tree.join(of.record).is_file(), "{}", of.record);
        }
        assert!(larger("scdp-99").is_none());
    }
}
