//! Offloads: what makes packets look other than they are on the wire.
//!
//! Segmentation offload lets packets of 64 KB pass the packet socket that leave as many, receive
//! offload makes one of many that arrived, and checksum offload shows packets without a checksum.
//! The two ends would not see the same packets. So they are switched off, remembered in a file
//! before that, and put back at the end; after a kill the file is still there, and the next start
//! takes over what it says.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use crate::glue;
use crate::interface::any_socket;

/// An offload, and the requests of `linux/ethtool.h` that ask and set it.
struct Offload {
    name: &'static str,
    ask: u32,
    set: u32,
    /// The bit of the value that is meant.
    mask: u32,
}

/// Of what arrives.
const RECEIVE: &[Offload] = &[
    Offload { name: "generic-receive-offload", ask: 0x2b, set: 0x2c, mask: 1 },
    Offload { name: "large-receive-offload", ask: 0x25, set: 0x26, mask: 1 << 15 },
];
/// Of what leaves, in the order in which they go off.
const SEND: &[Offload] = &[
    Offload { name: "tcp-segmentation-offload", ask: 0x1e, set: 0x1f, mask: 1 },
    Offload { name: "generic-segmentation-offload", ask: 0x23, set: 0x24, mask: 1 },
    Offload { name: "tx-checksumming", ask: 0x16, set: 0x17, mask: 1 },
];

/// One that was on.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Changed {
    interface: String,
    offload: String,
}

/// Offloads that were switched off. Dropping it puts them back.
#[derive(Debug)]
pub(crate) struct Offloads {
    changed: Vec<Changed>,
    file: PathBuf,
}

impl Offloads {
    /// Switches off what must be off; what was on is kept in `file` until it is on again.
    pub(crate) fn switch_off(lan: &str, wan: &str, file: PathBuf) -> io::Result<Self> {
        let mut offloads = Offloads { changed: remembered(&file), file };
        let socket = any_socket()?;
        let wanted = [(wan, SEND), (wan, RECEIVE), (lan, RECEIVE)];
        for (interface, list) in wanted {
            for offload in list {
                // An interface that does not know an offload does not do it.
                let Ok(value) = glue::ethtool(socket.as_fd(), interface, offload.ask, 0) else {
                    continue;
                };
                if value & offload.mask == 0 {
                    continue;
                }
                let changed =
                    Changed { interface: interface.to_owned(), offload: offload.name.to_owned() };
                if !offloads.changed.contains(&changed) {
                    offloads.changed.push(changed);
                    offloads.remember()?;
                }
                glue::ethtool(socket.as_fd(), interface, offload.set, value & !offload.mask)
                    .map_err(|error| {
                        let what = format!("{} of {interface} stays on: {error}", offload.name);
                        io::Error::new(error.kind(), what)
                    })?;
            }
        }
        Ok(offloads)
    }

    fn remember(&self) -> io::Result<()> {
        let mut text = String::new();
        for Changed { interface, offload } in &self.changed {
            writeln!(text, "{interface} {offload}").map_err(io::Error::other)?;
        }
        fs::write(&self.file, text)
    }

    /// Switches them on again.
    fn put_back(&self) -> io::Result<()> {
        let socket = any_socket()?;
        // Checksums first: segmentation needs them.
        for Changed { interface, offload } in self.changed.iter().rev() {
            let known = SEND.iter().chain(RECEIVE).find(|known| known.name == offload);
            let Some(known) = known else { continue };
            let Ok(value) = glue::ethtool(socket.as_fd(), interface, known.ask, 0) else {
                continue; // the interface is gone
            };
            glue::ethtool(socket.as_fd(), interface, known.set, value | known.mask)?;
        }
        match fs::remove_file(&self.file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

impl Drop for Offloads {
    fn drop(&mut self) {
        if let Err(error) = self.put_back() {
            tracing::warn!("offloads were not put back: {error}");
        }
    }
}

/// Switches off all of an interface, for good.
pub(crate) fn switch_all_off(interface: &str) -> io::Result<()> {
    let socket = any_socket()?;
    for offload in SEND.iter().chain(RECEIVE) {
        let Ok(value) = glue::ethtool(socket.as_fd(), interface, offload.ask, 0) else { continue };
        if value & offload.mask != 0 {
            glue::ethtool(socket.as_fd(), interface, offload.set, value & !offload.mask)?;
        }
    }
    Ok(())
}

/// What an earlier life switched off and did not put back.
fn remembered(file: &Path) -> Vec<Changed> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let line = |line: &str| {
        let (interface, offload) = line.split_once(' ')?;
        Some(Changed { interface: interface.to_owned(), offload: offload.to_owned() })
    };
    text.lines().filter_map(line).collect()
}
