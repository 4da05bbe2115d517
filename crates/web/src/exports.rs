//! Functions that JavaScript calls.
//!
//! Numbers pass as arguments and results. Texts and lists lie in buffers of this module, whose
//! addresses JavaScript asks for after the call that filled them. No function takes an address.
//! The one stage is this thread's own: a module has one thread.
#![expect(unsafe_code, reason = "exported names; there is no unsafe block")]

use crate::stage::Stage;
use std::cell::RefCell;

/// The longest text that is taken \[bytes\].
const MAX_INPUT: usize = 1 << 16;

#[derive(Default)]
struct Module {
    input: Vec<u8>,
    text: String,
    view: Vec<f32>,
    stage: Option<Stage>,
}

thread_local! {
    static MODULE: RefCell<Module> = RefCell::default();
}

fn with<T>(act: impl FnOnce(&mut Module) -> T) -> T {
    MODULE.with_borrow_mut(act)
}

fn on_stage<T>(otherwise: T, act: impl FnOnce(&mut Stage, &mut Module) -> T) -> T {
    with(|module| match module.stage.take() {
        None => otherwise,
        Some(mut stage) => {
            let result = act(&mut stage, module);
            module.stage = Some(stage);
            result
        }
    })
}

/// Room for a text of so many bytes, to be written before [`wellspring_open`]: its address, or 0 if
/// it is too long.
#[unsafe(no_mangle)]
pub extern "C" fn wellspring_input(len: usize) -> *mut u8 {
    with(|module| {
        if len > MAX_INPUT {
            return core::ptr::null_mut();
        }
        module.input = vec![0; len];
        module.input.as_mut_ptr()
    })
}

/// Opens the runs of the fragment in the input. 1: the text describes them. 0: the text says what is
/// wrong, and the runs before stay.
#[unsafe(no_mangle)]
pub extern "C" fn wellspring_open() -> u32 {
    with(|module| {
        let fragment = String::from_utf8_lossy(&module.input).into_owned();
        match Stage::open(&fragment) {
            Ok(mut stage) => {
                module.text = stage.describe();
                module.stage = Some(stage);
                1
            }
            Err(error) => {
                module.text = error;
                0
            }
        }
    })
}

/// Address of the text.
#[unsafe(no_mangle)]
pub extern "C" fn wellspring_text() -> *const u8 {
    with(|module| module.text.as_ptr())
}

/// Length of the text \[bytes\].
#[unsafe(no_mangle)]
pub extern "C" fn wellspring_text_len() -> usize {
    with(|module| module.text.len())
}

/// Puts a run back to time zero: 1, or 0 if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn wellspring_rewind(run: usize) -> u32 {
    on_stage(0, |stage, _| u32::from(stage.rewind(run).is_ok()))
}

/// Plays a run up to a time \[s\]: 1 if it is there or has ended, 0 if it needs another call.
#[unsafe(no_mangle)]
pub extern "C" fn wellspring_play(run: usize, until: f64) -> u32 {
    on_stage(1, |stage, _| u32::from(stage.play(run, until)))
}

/// The time a run is at \[s\].
#[unsafe(no_mangle)]
pub extern "C" fn wellspring_now(run: usize) -> f64 {
    on_stage(0.0, |stage, _| stage.now(run))
}

/// Looks at a run ([`Stage::look`]): how many numbers lie at [`wellspring_view`].
#[unsafe(no_mangle)]
pub extern "C" fn wellspring_look(run: usize) -> usize {
    on_stage(0, |stage, module| {
        stage.look(run, &mut module.view);
        module.view.len()
    })
}

/// Address of what [`wellspring_look`] saw.
#[unsafe(no_mangle)]
pub extern "C" fn wellspring_view() -> *const f32 {
    with(|module| module.view.as_ptr())
}

/// Measures a run for about so many events: 1 once it has ended.
#[unsafe(no_mangle)]
pub extern "C" fn wellspring_measure(run: usize, max_events: u32) -> u32 {
    on_stage(1, |stage, _| u32::from(stage.measure(run, max_events.into())))
}

/// Puts what came of a measured run into the text.
#[unsafe(no_mangle)]
pub extern "C" fn wellspring_result(run: usize) {
    on_stage((), |stage, module| module.text = stage.result(run));
}

/// Puts the digest of a played run so far into the text.
#[unsafe(no_mangle)]
pub extern "C" fn wellspring_digest(run: usize) {
    on_stage((), |stage, module| module.text = stage.played_digest(run));
}
