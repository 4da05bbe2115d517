//! Measures what keys cost: goodput, processor time of both ends, and what the channels met.
//!
//! `cargo run --release -p wellspring-client --example keyed -- [MB=500] [ROUNDS=5]`
//!
//! Fetches a file over loopback with keys and without, in turns, in one process, and prints the medians. Processor
//! time depends less than goodput on what else the machine does.

use std::path::Path;
use std::sync::Arc;

use wellspring_client::store::Existing;
use wellspring_client::{Client, ClientConfig, FetchOptions, Host, Target};
use wellspring_server::{Server, ServerConfig};
use wellspring_trust::{ClusterKey, Keyring, Rights};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let megabytes: usize = arguments.next().map_or(Ok(500), |text| text.parse())?;
    let rounds: usize = arguments.next().map_or(Ok(5), |text| text.parse())?;
    let home = tempfile::tempdir()?;
    let served = home.path().join("served");
    std::fs::create_dir(&served)?;
    let mut stream = wellspring_core::Seed(1).stream("object");
    let bytes: Vec<u8> =
        (0..megabytes * 125_000).flat_map(|_| stream.next_u64().to_le_bytes()).collect();
    std::fs::write(served.join("object"), bytes)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let key = ClusterKey::generate();
        let ring = || Arc::new(Keyring::new().with_cluster(key.clone(), Rights::all()));
        let clear = Pair::new(&served, home.path().join("clear"), None).await?;
        let keyed = Pair::new(&served, home.path().join("keyed"), Some(ring())).await?;
        let (mut without, mut with) = (Vec::new(), Vec::new());
        for round in 1..=rounds {
            without.push(clear.fetch().await?);
            with.push(keyed.fetch().await?);
            println!("{round}: {}; {} with keys", without[round - 1], with[round - 1]);
        }
        let (without, with) = (Row::median(&without), Row::median(&with));
        println!("medians: {without}; {with} with keys");
        let (cost, speed) = (without.seconds_a_gb / with.seconds_a_gb, with.gbps / without.gbps);
        println!("bytes a processor second with keys: {:.0} %", 100.0 * cost);
        println!("goodput with keys: {:.0} %", 100.0 * speed);
        println!("client {:?}", keyed.client.statistics()?.trust);
        println!("server {:?}", keyed.server.statistics()?.trust);
        Ok(())
    })
}

/// A server and its client.
struct Pair {
    server: Server,
    client: Client,
    output: std::path::PathBuf,
}

/// One fetch.
#[derive(Clone, Copy)]
struct Row {
    gbps: f64,
    /// Processor seconds of both ends a gigabyte.
    seconds_a_gb: f64,
}

impl Pair {
    async fn new(
        served: &Path,
        output: std::path::PathBuf,
        keys: Option<Arc<Keyring>>,
    ) -> Result<Self, Failure> {
        let mut config = ServerConfig::new("127.0.0.1:0".parse()?, served.to_owned());
        config.driver.keys = keys.clone();
        let server = Server::bind(config).await?;
        let mut config = ClientConfig::default();
        config.driver.keys = keys;
        Ok(Pair { server, client: Client::new(config)?, output })
    }

    async fn fetch(&self) -> Result<Row, Failure> {
        let target = Target::File { path: self.output.clone(), existing: Existing::Replace };
        let options = FetchOptions::new("object".parse()?);
        let before = processor_seconds();
        let from = [Host::from(self.server.local_addr())];
        let report = self.client.fetch(&from, &options, target).await?;
        let spent = processor_seconds() - before;
        let seconds_a_gb = spent / (report.size as f64 / 1e9);
        Ok(Row { gbps: report.goodput() / 1e9, seconds_a_gb })
    }
}

impl Row {
    fn median(rows: &[Row]) -> Row {
        let of = |value: fn(&Row) -> f64| {
            let mut values: Vec<f64> = rows.iter().map(value).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        Row { gbps: of(|row| row.gbps), seconds_a_gb: of(|row| row.seconds_a_gb) }
    }
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.2} Gbit/s, {:.2} processor s/GB", self.gbps, self.seconds_a_gb)
    }
}

/// Processor time of this process \[s\].
fn processor_seconds() -> f64 {
    let usage = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    usage.tv_sec as f64 + usage.tv_nsec as f64 / 1e9
}
