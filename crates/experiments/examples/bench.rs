//! Times benchmarks by name, or runs a scenario file once: for profilers, without the command
//! line's machinery.
use std::path::Path;
use wellspring_experiments::{bench, run, scenario::Plan};

fn main() -> anyhow::Result<()> {
    for name in std::env::args().skip(1) {
        if !Path::new(&name).is_file() {
            println!("{:#?}", bench::measure(&name, 2)?);
            continue;
        }
        for scenario in Plan::read(Path::new(&name))?.scenarios()? {
            let started = std::time::Instant::now();
            let counters = run::run(&scenario, 1, &mut |_| {})?.counters;
            println!("{:.3} s\n{counters:#?}", started.elapsed().as_secs_f64());
        }
    }
    Ok(())
}
