//! A plan whose files are written, and that may never be finished.

use std::ops::Deref;

use crate::store::tree::Plan;

/// A plan that brings onto the disk what was written, and notes it, if it is dropped before it is finished: after an
/// error, or when its fetch is cancelled. Else whatever is there would be in doubt when the machine has started anew.
pub(super) struct Unfinished(Option<Plan>);

impl Unfinished {
    pub(super) fn new(plan: Plan) -> Self {
        if let Some(target) = plan.target() {
            target.settle_when_dropped();
        }
        Unfinished(Some(plan))
    }

    /// The plan, to be finished on a thread that may wait.
    pub(super) fn take(mut self) -> Plan {
        self.0.take().expect("is taken once")
    }
}

impl Deref for Unfinished {
    type Target = Plan;

    fn deref(&self) -> &Plan {
        self.0.as_ref().expect("is taken with the plan")
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let Some(plan) = self.0.take() else { return };
        // The disk takes its time.
        if tokio::runtime::Handle::try_current().is_ok() {
            crate::task::spawn_blocking(move || drop(plan));
        }
    }
}
