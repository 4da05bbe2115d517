//! Fuzz targets for hostile input: parsers, decoders and endpoints.
//!
//! Each module is one target: a function that takes arbitrary bytes and panics where a claim does
//! not hold. libFuzzer drives the functions through `src/main.rs`; `tests/replay` runs them as
//! plain tests on the seeds in `corpus/` and on inputs made of them. A new target is a module, a line in [`for_each_target`] and
//! at least one file `corpus/NAME/seed-NAME`.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod baseline_endpoints;
mod codec_block;
mod codec_decoding_paths;
mod codec_lt;
mod codec_object;
mod control_parse;
mod key_files;
mod lttp_endpoints;
mod lttp_parse;
mod maelstrom_between;
mod maelstrom_receive;
mod ndp_parse;
mod object_store;
mod scdp_endpoint;
mod send_store;
mod server_requests;
mod switch_snooping;
mod tree_listing;
mod trust_channels;
mod wire_parse;

/// A fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, which is that of its module and of its folder in `corpus`.
    pub name: &'static str,
    /// Runs it on one input; panics where a claim does not hold.
    pub run: fn(&[u8]),
}

/// Calls a macro with the names of all targets, in order.
#[macro_export]
macro_rules! for_each_target {
    ($call:ident) => {
        $call! {
            baseline_endpoints
            codec_block
            codec_decoding_paths
            codec_lt
            codec_object
            control_parse
            key_files
            lttp_endpoints
            lttp_parse
            maelstrom_between
            maelstrom_receive
            ndp_parse
            object_store
            scdp_endpoint
            send_store
            server_requests
            switch_snooping
            tree_listing
            trust_channels
            wire_parse
        }
    };
}

macro_rules! targets {
    ($($name:ident)*) => { &[$(Target { name: stringify!($name), run: $name::run }),*] };
}

/// All targets, in the order of their names.
pub const TARGETS: &[Target] = for_each_target!(targets);

/// The target of that name.
pub fn target(name: &str) -> Option<Target> {
    TARGETS.iter().copied().find(|target| target.name == name)
}
