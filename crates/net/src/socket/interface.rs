//! Naming a network interface.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::str::FromStr;

use super::glue;

/// A network interface, by whatever the user knows of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Interface {
    /// Its name, such as `eth0`.
    Name(String),
    /// An address of it.
    Address(IpAddr),
    /// Its index.
    Index(u32),
}

impl Interface {
    /// The interface's index.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if there is no such interface; what the system says if it
    /// cannot list them.
    pub fn index(&self) -> io::Result<u32> {
        if let Interface::Index(index) = self {
            return Ok(*index);
        }
        glue::interfaces()?
            .into_iter()
            .find(|i| match self {
                Interface::Name(name) => i.name == *name,
                Interface::Address(address) => i.address == Some(*address),
                Interface::Index(_) => false,
            })
            .map(|i| i.index)
            .ok_or_else(|| {
                io::Error::new(io::ErrorKind::NotFound, format!("no network interface {self}"))
            })
    }
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Interface::Name(name) => f.write_str(name),
            Interface::Address(address) => address.fmt(f),
            Interface::Index(index) => write!(f, "number {index}"),
        }
    }
}

/// An address if it reads as one, otherwise a name.
impl FromStr for Interface {
    type Err = std::convert::Infallible;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text.parse() {
            Ok(address) => Interface::Address(address),
            Err(_) => Interface::Name(text.to_owned()),
        })
    }
}
