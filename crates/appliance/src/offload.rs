//! Interface offloads, which make packets look other than they are on the wire.
//!
//! Segmentation offload lets packets of 64 KB pass the packet socket that leave as many, receive
//! offload makes one of many that arrived, and checksum offload shows packets without a checksum.
//! The two ends would not see the same packets. So they are switched off, remembered in a file an
//! interface before that, and put back at the end of the last appliance that uses the interface:
//! each holds a lock on the file for as long. After a kill the file is still there, and the next
//! start takes over what it says.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::interface::any_socket;
use crate::sys;

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

/// Offloads that are off while this lives. Dropping it puts back those of interfaces that no other
/// appliance uses.
#[derive(Debug)]
pub(crate) struct Offloads(Vec<OfInterface>);

/// What was on, on one interface.
#[derive(Debug)]
struct OfInterface {
    interface: String,
    changed: Vec<String>,
    /// Says the same, and is locked by all who need it to be off.
    file: File,
}

impl Offloads {
    /// Switches off what must be off; what was on is kept in files in `folder` until it is on again.
    pub(crate) fn switch_off(lan: &str, wan: &str, folder: &Path) -> io::Result<Self> {
        let mut offloads = Offloads(Vec::new());
        let wan_too: Vec<&Offload> = SEND.iter().chain(RECEIVE).collect();
        for (interface, list) in [(wan, wan_too), (lan, RECEIVE.iter().collect())] {
            offloads.0.push(OfInterface::open(interface, folder)?);
            let last = offloads.0.last_mut().expect("just pushed");
            last.switch_off(&list)?;
        }
        Ok(offloads)
    }
}

impl Drop for Offloads {
    fn drop(&mut self) {
        for of in &self.0 {
            if let Err(error) = of.put_back() {
                tracing::warn!("offloads of {} were not put back: {error}", of.interface);
            }
        }
    }
}

impl OfInterface {
    /// Waits for whoever is putting back, then reads what is off already.
    fn open(interface: &str, folder: &Path) -> io::Result<Self> {
        // The same name means another interface in another network namespace.
        let space = fs::metadata("/proc/self/ns/net").map_or(0, |space| space.ino());
        let path = folder.join(format!("{interface}-{space}.offloads"));
        let mut file = File::options().read(true).append(true).create(true).open(path)?;
        file.lock_shared()?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let changed = text.lines().map(str::to_owned).collect();
        Ok(OfInterface { interface: interface.to_owned(), changed, file })
    }

    fn switch_off(&mut self, list: &[&Offload]) -> io::Result<()> {
        let socket = any_socket()?;
        for offload in list {
            let name = &self.interface;
            // An interface that does not know an offload does not do it.
            let Ok(value) = sys::ethtool(socket.as_fd(), name, offload.ask, 0) else { continue };
            if value & offload.mask == 0 {
                continue;
            }
            if !self.changed.iter().any(|changed| changed == offload.name) {
                self.changed.push(offload.name.to_owned());
                writeln!(self.file, "{}", offload.name)?;
            }
            sys::ethtool(socket.as_fd(), name, offload.set, value & !offload.mask).map_err(
                |error| {
                    let what = format!("{} of {name} stays on: {error}", offload.name);
                    io::Error::new(error.kind(), what)
                },
            )?;
        }
        Ok(())
    }

    /// Switches them on again, if nobody else needs them off.
    fn put_back(&self) -> io::Result<()> {
        self.file.unlock()?;
        match self.file.try_lock() {
            Err(TryLockError::WouldBlock) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(error),
            Ok(()) => {}
        }
        let mut text = String::new();
        let mut file = &self.file;
        file.rewind()?;
        file.read_to_string(&mut text)?;
        let socket = any_socket()?;
        // Checksums first: segmentation needs them.
        for offload in text.lines().rev() {
            let known = SEND.iter().chain(RECEIVE).find(|known| known.name == offload);
            let Some(known) = known else { continue };
            let Ok(value) = sys::ethtool(socket.as_fd(), &self.interface, known.ask, 0) else {
                continue; // the interface is gone
            };
            sys::ethtool(socket.as_fd(), &self.interface, known.set, value | known.mask)?;
        }
        // Who opened it meanwhile waits for the lock, so it is emptied and not taken away.
        self.file.set_len(0)
    }
}

/// Switches off all of an interface, for good.
pub(crate) fn switch_all_off(interface: &str) -> io::Result<()> {
    let socket = any_socket()?;
    for offload in SEND.iter().chain(RECEIVE) {
        let Ok(value) = sys::ethtool(socket.as_fd(), interface, offload.ask, 0) else { continue };
        if value & offload.mask != 0 {
            sys::ethtool(socket.as_fd(), interface, offload.set, value & !offload.mask)?;
        }
    }
    Ok(())
}
