//! Times benchmarks by name: for profilers, without the command line's machinery.
fn main() -> anyhow::Result<()> {
    for name in std::env::args().skip(1) {
        println!("{:#?}", wellspring_experiments::bench::measure(&name, 2)?);
    }
    Ok(())
}
