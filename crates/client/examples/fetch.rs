//! Serves a file from three servers and fetches it from all of them at once, in one process:
//!
//! ```text
//! cargo run -p wellspring-client --example fetch
//! ```

use wellspring_client::store::Existing;
use wellspring_client::{Client, ClientConfig, FetchOptions, Host, Target, Update, Updates};
use wellspring_server::{Server, ServerConfig};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let home = tempfile::tempdir()?;
    let mut servers = Vec::new();
    for number in 1..=3 {
        let directory = home.path().join(format!("replica-{number}"));
        std::fs::create_dir(&directory)?;
        std::fs::write(directory.join("greeting"), b"any K of the symbols will do".repeat(99_999))?;
        servers.push(Server::bind(ServerConfig::new("127.0.0.1:0".parse()?, directory)).await?);
    }
    let hosts: Vec<Host> = servers.iter().map(|server| server.local_addr().into()).collect();

    let client = Client::new(ClientConfig::default())?;
    let path = home.path().join("greeting");
    let target = Target::File { path: path.clone(), existing: Existing::Keep };
    // Called about ten times a second while bytes move; must not wait.
    let updates = Updates::to(|update| {
        if let Update::Moving { done, total, .. } = update {
            println!("{done} of {total} bytes");
        }
    });
    let options = FetchOptions::new("greeting".parse()?).updates(updates);
    let report = client.fetch(&hosts, &options, target).await?;

    println!("{} bytes, {:.0} Mbit/s", report.size, report.goodput() / 1e6);
    for replica in &report.replicas {
        println!("{}: {} symbols", replica.host, replica.stats.unwrap_or_default().useful);
    }
    assert_eq!(std::fs::metadata(&path)?.len(), report.size);
    Ok(())
}
