//! System calls that the standard library and `socket2` do not offer: the crate's only `unsafe`.
//!
//! But for one setting of the C library, everything here is about one thing: filling C structures with
//! pointers into memory that outlives the call. Nothing else of the crate sees a pointer. What Linux alone has is in `batches`, `linux`
//! and `timer`.
#![allow(
    unsafe_code,
    reason = "sendmmsg, recvmmsg, control messages, interface lists and mallopt have no safe wrapper"
)]

#[cfg(target_os = "linux")]
mod addresses;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod allocator;
#[cfg(target_os = "linux")]
mod batches;
#[cfg(target_os = "linux")]
mod control;
mod interfaces;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
mod options;
#[cfg(target_os = "linux")]
mod timer;

#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(super) use allocator::map_large_blocks;
pub(super) use interfaces::interfaces;
#[cfg(target_os = "linux")]
pub(super) use {
    batches::{receive_many, send_many, take_report},
    linux::{force_buffers, has_coalescing, has_segmentation, path_mtu, prepare},
    options::{dropped, set_chooser, set_multicast_interface_v4},
    timer::{timer_create, timer_set},
};
