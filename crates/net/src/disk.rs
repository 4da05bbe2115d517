//! The disk that objects are received on.

use std::sync::Arc;

use crate::store::{Disk, SystemDisk};

/// The system's, or that of the simulated machine.
pub fn disk() -> Arc<dyn Disk> {
    #[cfg(feature = "simulation")]
    if let Some(machine) = crate::simulation::machine() {
        return machine.disk();
    }
    Arc::new(SystemDisk)
}
