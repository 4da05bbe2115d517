//! Network interfaces: index, MTU and state.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use crate::sys;

/// An interface of this machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Interface {
    pub name: String,
    pub index: u32,
    pub mtu: usize,
    pub up: bool,
    /// The bridge or bond it is part of.
    pub master: Option<String>,
}

impl Interface {
    /// The interface of that name, or none.
    pub(crate) fn find(name: &str) -> io::Result<Option<Self>> {
        let Some(index) = sys::interface_index(name) else { return Ok(None) };
        let socket = any_socket()?;
        let master = Path::new("/sys/class/net").join(name).join("master");
        let master = std::fs::read_link(master).ok();
        let master = master.and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
        Ok(Some(Interface {
            name: name.to_owned(),
            index,
            mtu: sys::interface_mtu(socket.as_fd(), name)?,
            up: sys::interface_is_up(socket.as_fd(), name)?,
            master,
        }))
    }
}

/// A socket to ask about interfaces with.
pub(crate) fn any_socket() -> io::Result<OwnedFd> {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None)?;
    Ok(socket.into())
}

/// Whether this machine forwards IPv4 and IPv6.
pub(crate) fn forwarding() -> (bool, bool) {
    let on = |path: &str| std::fs::read_to_string(path).is_ok_and(|text| text.trim() == "1");
    (on("/proc/sys/net/ipv4/ip_forward"), on("/proc/sys/net/ipv6/conf/all/forwarding"))
}
