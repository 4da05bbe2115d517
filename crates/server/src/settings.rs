//! Settings of a server that can change while it runs.

use std::fmt;
use std::sync::Arc;

use wellspring_core::Rate;
use wellspring_trust::{Keyring, Quota};

use super::config::ServerConfig;
use crate::driver::HandleError;

/// Settings of a server that can change while it runs.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// What clients may do.
    pub permissions: Permissions,
    /// As [`DriverConfig::send_rate`](crate::driver::DriverConfig::send_rate).
    pub send_rate: Option<Rate>,
    /// As [`scdp::Config::link_rate`](wellspring_transport::scdp::Config::link_rate): what clients put comes no faster.
    pub link_rate: Rate,
    /// As [`DriverConfig::keys`](crate::driver::DriverConfig::keys).
    pub keys: Option<Arc<Keyring>>,
    /// As [`ServerConfig::address_quota`].
    pub address_quota: Quota,
}

/// What clients of a server may do, as in [`ServerConfig`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Permissions {
    /// Put objects.
    pub put: bool,
    /// Replace objects of the same name.
    pub overwrite: bool,
    /// Use names with a component that begins with a dot.
    pub hidden: bool,
    /// Put objects whose names begin with a dash or hold characters that mislead.
    pub odd_names: bool,
    /// Put trees with owners, extended attributes and access control lists.
    pub attributes: bool,
}

impl ServerConfig {
    /// The settings that can change while the server runs.
    pub fn settings(&self) -> Settings {
        let permissions = Permissions {
            put: self.allow_put,
            overwrite: self.allow_overwrite,
            hidden: self.allow_hidden,
            odd_names: self.allow_odd_names,
            attributes: self.allow_attributes,
        };
        let (send_rate, link_rate) = (self.driver.send_rate, self.driver.scdp.link_rate);
        let (keys, address_quota) = (self.driver.keys.clone(), self.address_quota);
        Settings { permissions, send_rate, link_rate, keys, address_quota }
    }
}

/// Why a server keeps its settings.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReloadError {
    /// It would have keys from now on, or have none any more: clients of the one kind cannot speak to the other.
    Keys,
    /// It would have a send rate, which none of its several loops could keep for all.
    RateOfLoops,
    /// It has stopped.
    Stopped(HandleError),
}

impl From<HandleError> for ReloadError {
    fn from(error: HandleError) -> Self {
        match error {
            HandleError::RateOfLoops => ReloadError::RateOfLoops,
            error => ReloadError::Stopped(error),
        }
    }
}

impl fmt::Display for ReloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReloadError::Keys => f.write_str(
                "a server with keys keeps having keys, and one without goes without: restart it",
            ),
            ReloadError::RateOfLoops => f.write_str(
                "a server of several event loops has no send rate: start it again with one, or do without the rate",
            ),
            ReloadError::Stopped(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ReloadError {}
