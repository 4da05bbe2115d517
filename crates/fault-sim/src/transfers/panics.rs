//! Panics of the current thread, which tasks and workers catch.

use std::cell::Cell;
use std::sync::Once;

thread_local! {
    static PANICS: Cell<u32> = const { Cell::new(0) };
}

/// Counts panics from now on; returns how many there have been on this thread.
pub(crate) fn count() -> u32 {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            PANICS.set(PANICS.get() + 1);
            before(info);
        }));
    });
    PANICS.get()
}
