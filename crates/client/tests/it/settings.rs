//! Settings that make no sense are refused, with the value and the limits.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use wellspring_client::driver::{DriverConfig, Faults, StartError};
use wellspring_client::store::Existing;
use wellspring_client::{
    Client, ClientConfig, ConfigError, Cut, FetchError, FetchOptions, Host, PutError, PutOptions,
    Target,
};
use wellspring_server::{BindError, Server, ServerConfig};

fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().expect("an address")
}

fn refused(config: ClientConfig) -> ConfigError {
    match Client::new(config).map(|_| ()) {
        Err(StartError::Config(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_client_names_the_setting_its_value_and_the_limits() {
    let config = || ClientConfig::default();
    let error = refused(config().timeout(Duration::from_millis(5)));
    assert_eq!(error.to_string(), "timeout is 5ms; 100ms to 600s are allowed");
    assert_eq!(refused(config().timeout(Duration::MAX)).setting, "timeout");
    let driver = || DriverConfig::new(loopback());
    assert_eq!(refused(config().driver(driver().workers(0))).setting, "workers");
    assert_eq!(refused(config().driver(driver().peers(0))).setting, "peers");
    for loss in [-0.1, 1.1, f64::NAN] {
        let faults = Faults::default().loss(loss);
        assert_eq!(refused(config().driver(driver().faults(faults))).setting, "faults.loss");
    }
}

#[tokio::test]
async fn cuts_are_refused_before_anybody_is_asked() {
    let client = Client::new(ClientConfig::default()).expect("client");
    let hosts: [Host; 1] = [loopback().into()];
    let name = || "x".parse().expect("a name");
    for (cut, setting) in [
        (Cut::default().symbol_size(Some(0)), "symbol_size"),
        (Cut::default().symbol_size(Some(u16::MAX)), "symbol_size"),
        (Cut::default().symbols_per_block(Some(0)), "symbols_per_block"),
    ] {
        let options = FetchOptions::new(name()).cut(cut);
        let target = Target::File { path: "never-made".into(), existing: Existing::Keep };
        let fetched = client.fetch(&hosts, &options, target).await;
        assert!(matches!(fetched, Err(FetchError::Config(e)) if e.setting == setting));
        let options = PutOptions::new(name()).cut(cut);
        let put = client.put(Path::new("/dev/null"), &hosts, &options).await;
        assert!(matches!(put, Err(PutError::Config(e)) if e.setting == setting));
    }
}

#[tokio::test]
async fn a_server_checks_its_own_settings_and_its_drivers() {
    let home = tempfile::tempdir().expect("temporary directory");
    let config = || ServerConfig::new(loopback(), home.path().to_owned());
    for (config, setting) in [
        (config().idle_put(Duration::ZERO), "idle_put"),
        (config().driver(DriverConfig::new(loopback()).workers(0)), "workers"),
    ] {
        let bound = Server::bind(config).await.map(|_| ());
        assert!(matches!(bound, Err(BindError::Config(e)) if e.setting == setting));
    }
}
